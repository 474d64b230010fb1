"""The page of `deconfound attribute`: every component with its two scores, and cards with the plate drawn."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from identifiable import report
from identifiable.report import words as wording
from identifiable.report.attribution import CARDS, LEAST_REACH
from identifiable.report.cleaning_reading import by_technical, card_summary, effect, fixed, mostly
from identifiable.report.page import Badge, Card, Cloud, Curves, Fold, Gauge, Grid, Heading, Spark, Table
from identifiable.report.pages import page_of
from identifiable.report.pages.components import PICTURED
from identifiable.report.render.figures import draw_curves
from identifiable.report.render.grids import draw_grid
from identifiable.report.screen_methods import MAP_WORDS, SCORES_WORDS
from identifiable.results import Alert, Attribution, Share
from page_reading import (
    HOSTILE,
    RENDERERS,
    blocks_of,
    check_drawn_alike_after_json,
    check_pages_stand_alone,
    check_words_are_shown_as_text,
    check_words_stay_on_one_line,
    text_of,
)
from screen_result_cases import make_attribution, make_card, make_design, make_map, with_figures, with_words

SMALL = (8, 12)
FULL = make_attribution(grid=SMALL)
SMALLER = make_attribution(size=8, grid=SMALL)
RESULTS = {
    "full": FULL,
    "none": make_attribution(size=0, text=""),
    "one": make_attribution(size=1, grid=SMALL),
    "no inputs": replace(SMALLER, inputs=()),
    "nothing measured": with_figures(SMALLER, None),
    "huge": with_figures(SMALLER, 9e99),
    "far below": with_figures(SMALLER, -9e99),
    "no wells": make_attribution(
        cards=[make_card(i, "technical", plate_map=(), shares=(), density=()) for i in range(3)],
        grid_rows=(),
        grid_columns=(),
        design=make_design(grid=None, batches=None),
    ),
    "neither": make_attribution(cards=[make_card(i, "neither", grid=SMALL) for i in range(3)], grid=SMALL),
    "unsettled": replace(SMALLER, converged=False),
}


def tables_of(result: Attribution, *keys: str) -> list[Table]:
    return [b for b in blocks_of(result, *keys) if isinstance(b, Table)]


def cards_of(result: Attribution) -> list[Fold]:
    return [b for b in blocks_of(result, "cards") if isinstance(b, Fold)]


def maps_of(result: Attribution) -> list[Grid]:
    return [b for b in blocks_of(result, "cards") if isinstance(b, Grid)]


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("name", RESULTS)
def test_every_result_is_drawn_alike_after_json_and_never_says_nan(render: Any, name: str) -> None:
    check_drawn_alike_after_json(RESULTS[name], render)


def test_an_attribution_shows_itself(tmp_path: Path) -> None:
    assert FULL.table() == report.text_table(FULL)
    assert FULL.report(tmp_path / "page.html").read_text(encoding="utf-8") == report.html(FULL)


def test_sections_appear_only_when_there_is_something() -> None:
    keys = [s.key for s in page_of(FULL).sections]
    assert keys == ["verdict", "alerts", "scores", "components", "cards", "design", "reading", "reproduction"]
    bare = [s.key for s in page_of(RESULTS["none"]).sections]
    assert bare == ["verdict", "design", "reading", "reproduction"]


def test_a_page_of_384_components_on_a_large_plate_stays_below_two_megabytes() -> None:
    large = make_attribution(size=384)
    text = report.html(large)
    assert len(text.encode()) < 2e6
    assert text.count('class="plate"') == 2 * CARDS
    assert len(report.markdown(large)) < 1e6
    assert len(report.text_table(large).splitlines()) < 60


# -- headline and scatter


def test_the_verdict_counts_roles_and_a_fit_that_did_not_converge_is_no_good_news() -> None:
    card = next(b for b in blocks_of(FULL) if isinstance(b, Card))
    assert card.sentence == "Of 48 components 12 are technical and 18 biological."
    assert (card.badge, card.tone) == ("12 technical, 18 biological, 6 both, 12 neither", "good")
    assert dict(card.facts)["reproducible"] == "36 of 48"
    assert next(b for b in blocks_of(RESULTS["unsettled"]) if isinstance(b, Card)).tone == "caution"
    assert "did NOT converge" in report.text_table(RESULTS["unsettled"])
    assert "did NOT converge" not in report.text_table(FULL)
    assert next(b for b in blocks_of(RESULTS["neither"]) if isinstance(b, Card)).tone == "caution"


def test_components_are_scattered_by_role_and_scores_below_zero_lie_at_zero() -> None:
    (figure,) = (b for b in blocks_of(FULL, "scores") if isinstance(b, Curves))
    clouds = {cloud.label: cloud for cloud in figure.clouds}
    assert {role: len(cloud.points) for role, cloud in clouds.items()} == {
        "technical": 12, "biological": 18, "both": 6, "neither": 12,
    }  # fmt: skip
    assert len({cloud.style for cloud in figure.clouds}) == 4
    assert clouds["technical"].points[0] == (0.62, 0.005)
    assert set(clouds["neither"].points) == {(0.0, 0.0)}
    assert SCORES_WORDS in text_of(FULL, "scores")
    assert not any(isinstance(b, Curves) for b in blocks_of(RESULTS["nothing measured"]))


def test_an_axis_with_a_base_has_round_ticks_and_starts_there() -> None:
    cloud = Cloud("a", ((0.613, 0.2), (0.874, 0.3)), "main")
    based = draw_curves(Curves("t", "d", "x", "y", clouds=(cloud,), across_base=0.5))
    assert re.findall(r'class="tick middle"[^>]*>([^<]*)<', based) == ["0.5", "0.6", "0.7", "0.8"]
    assert "0.613" in draw_curves(Curves("t", "d", "x", "y", clouds=(cloud,)))  # without one, at its first point
    below = draw_curves(
        Curves("t", "d", "x", "y", clouds=(Cloud("a", ((-0.3, 0.1), (-0.1, 0.2)), "main"),), across_base=0.0)
    )
    assert re.findall(r'class="tick middle"[^>]*>([^<]*)<', below) == ["-0.3", "-0.2", "-0.1"]
    assert ">0</text>" in below


# -- the table


def test_components_are_listed_the_most_technical_first_and_the_rest_folded() -> None:
    first, rest = tables_of(FULL, "components")
    assert len(first.rows) == PICTURED
    assert [b.summary for b in blocks_of(FULL, "components") if isinstance(b, Fold)] == ["8 less technical components"]
    scores = [float(row[2]) for row in (*first.rows, *rest.rows)]
    assert scores == sorted(scores, reverse=True)
    assert first.rows[0] == ("0", "technical", "0.620", "0.005", "plate 0.43", wording.MISSING, "0.980", "yes")
    both = next(row for row in first.rows if row[1] == "both")
    assert both[4:6] == ("perturbation 0.27", "GENE4_guide_0 +2.40, GENE4_guide_1 -2.20")
    assert first.pictures[1][0] == Badge("caution")
    assert first.pictures[2][0] == Gauge(0.62, "caution")
    assert not rest.pictures


def test_a_spread_is_no_share_of_the_same_variance() -> None:
    shares = (Share("spread", 0.9, 0.005, 0.03), Share("plate_in_batch", 0.2, 0.005, 0.03))
    assert mostly(make_card(0, "technical", shares=shares)) == "plate in batch 0.20"
    assert mostly(make_card(0, "technical", shares=shares[:1])) == wording.MISSING


def test_components_without_a_score_come_last() -> None:
    cards = [
        make_card(0, "neither", technical=math.nan),
        make_card(1, "neither", technical=-0.5),
        make_card(2, "technical"),
    ]
    assert [c.index for c in by_technical(cards)] == [2, 1, 0]


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.62, "0.620"), (0.0004, "0.000"), (-0.0004, "0.000"), (-0.02, "-0.020"), (math.nan, "–"), (9e99, "9.0e99")],
)
def test_scores_have_the_same_decimals_whatever_their_size(value: float, said: str) -> None:
    assert fixed(value) == said
    assert effect(value) == (f"+{said}" if value > 0 else said)


# -- cards


def test_cards_are_the_most_technical_and_the_most_biological_and_no_component_has_two() -> None:
    headings = [b.text for b in blocks_of(FULL, "cards") if isinstance(b, Heading)]
    assert headings == ["Most technical", "Most biological"]
    cards = cards_of(FULL)
    assert len(cards) == 2 * CARDS
    assert len({card.summary for card in cards}) == len(cards)
    assert cards[0].summary == "Component 0: technical 0.62, biological 0.01, mostly plate 0.43"
    assert cards[CARDS].summary.startswith(
        "Component 1: technical 0.01, biological 0.44, mostly perturbation 0.44; moved by "
    )
    assert card_summary(make_card(4, "both")).startswith("Component 4 (both): ")
    assert [b.text for b in blocks_of(RESULTS["neither"], "cards") if isinstance(b, Heading)] == ["Neither"]


def test_a_card_has_shares_as_bars_perturbations_with_q_and_the_density() -> None:
    blocks = cards_of(FULL)[CARDS].blocks
    scores, shares, top, shape = (b for b in blocks if isinstance(b, Table))
    assert scores.rows[1] == ("biological", "0.437", "[0.387, 0.487]", "0.010")
    assert scores.pictures[1][0] == Gauge(pytest.approx(0.01 / 1.05), "caution")
    assert shares.rows[-1] == ("perturbation", "0.437", "0.400", "0.030")
    assert isinstance(shares.pictures[1][-1], Gauge)
    assert top.rows[1] == ("GENE1_guide_1", "-2.200", "70", "<0.001", "0.008")
    assert isinstance(shape.pictures[1][0], Spark)
    assert shape.rows[0][2:] == ("2.310", "0.180", "0.979", "yes")
    bare = [b for b in cards_of(RESULTS["no wells"])[0].blocks if isinstance(b, Table)][-1]
    assert bare.pictures[1] == (None,)


# -- the plate


def test_the_plate_is_drawn_with_its_letters_and_numbers_and_a_title() -> None:
    grid = maps_of(FULL)[0]
    text = draw_grid(grid)
    assert re.findall(r'class="tick end"[^>]*>([^<]*)<', text) == list("ABCDEFGH")
    assert re.findall(r'class="tick middle"[^>]*>([^<]*)<', text) == [f"{j:02d}" for j in range(1, 13)]
    assert "<title>Component 0 on the plate</title>" in text
    assert MAP_WORDS in grid.description
    assert "95 wells in use" in grid.description
    assert "Figure: Component 0 on the plate." in report.markdown(FULL)
    large = draw_grid(maps_of(make_attribution(size=1))[0])
    assert re.findall(r'class="tick middle"[^>]*>([^<]*)<', large) == [f"{j:02d}" for j in range(1, 49, 4)]


def wells_drawn(text: str) -> dict[str, int]:
    """How many wells have each shade."""
    inner = text[text.index("viewBox") :]
    return {
        shade: sum(int(n) for n in re.findall(r"h(\d+)v1", path))
        for shade, path in re.findall(r'class="(w\d)" d="([^"]*)"', inner)
    }


def test_wells_are_coloured_on_either_side_of_zero_and_those_not_in_use_stay_blank() -> None:
    values = ((math.nan, -1.0, -0.5), (0.0, 0.5, 9.0))
    grid = Grid("t", "d", ("A", "B"), ("1", "2", "3"), values, 1.0, "sd")
    assert wells_drawn(draw_grid(grid)) == {"w0": 1, "w2": 1, "w4": 1, "w6": 1, "w8": 1}
    blank = Grid("t", "d", ("A",), ("1",), ((math.inf,),), 1.0, "sd")
    assert wells_drawn(draw_grid(blank)) == {}


def test_the_scale_is_that_of_most_wells_and_never_finer_than_a_quarter_of_a_deviation() -> None:
    spike = [list(row) for row in make_map(*SMALL)]
    spike[3][3] = 40.0
    cards = [
        make_card(0, "technical", plate_map=tuple(map(tuple, spike))),
        make_card(1, "technical", plate_map=make_map(*SMALL, 1e-3)),
    ]
    odd, flat = maps_of(make_attribution(cards=cards, grid=SMALL))
    assert odd.reach < 2
    assert flat.reach == LEAST_REACH
    assert set(wells_drawn(draw_grid(flat))) == {"w4"}
    assert "Highest D04 (40.00)" in odd.description


@pytest.mark.parametrize("plate_map", [(), ((1.0,) * 12,) * 7, ((1.0,) * 11,) * 8, ((math.nan,) * 12,) * 8])
def test_a_map_that_does_not_fit_the_plate_or_has_no_wells_is_not_drawn(plate_map: Any) -> None:
    result = make_attribution(cards=[make_card(0, "technical", plate_map=plate_map)], grid=SMALL)
    assert maps_of(result) == []
    assert 'class="plate"' not in report.html(result)


# -- form


@pytest.mark.parametrize("name", [*RESULTS, "hostile"])
def test_every_line_fits_a_terminal(name: str) -> None:
    result = RESULTS.get(name) or with_words(SMALLER, "a long name with blanks " * 8)
    assert max(map(wording.columns_wide, report.text_table(result).splitlines())) <= 100


def test_the_terminal_shows_the_most_technical_and_the_most_biological() -> None:
    text = report.text_table(FULL)
    assert text.index("Most technical") < text.index("Most biological")
    assert re.search(r"^0 +technical +0\.620 +0\.005 +plate 0\.43", text, flags=re.MULTILINE)
    assert "… and 6 more: in the report and the JSON" in text
    assert "Neither" in report.text_table(RESULTS["neither"])


def test_hostile_words_are_shown_as_text_and_stay_on_one_line() -> None:
    result = with_words(replace(SMALLER, alerts=(Alert("a", "b"),)), HOSTILE)
    check_words_are_shown_as_text(result)
    check_words_stay_on_one_line(with_words(RESULTS["one"], "a"), with_words(RESULTS["one"], "a\x1b\n"))


def test_an_unknown_role_does_not_break_a_page() -> None:
    odd: Any = make_attribution(cards=[replace(make_card(0, "technical", grid=SMALL), role=HOSTILE)], grid=SMALL)  # type: ignore[arg-type]
    assert "<script" not in report.html(odd)
    assert report.text_table(odd)


def test_the_page_loads_nothing_from_elsewhere_and_figures_stay_in_their_frame() -> None:
    check_pages_stand_alone(RESULTS, FULL)
    for result in RESULTS.values():
        text = report.html(result)
        assert all("<title>" in f for f in re.findall(r'<svg class="figure".*?</svg>', text, flags=re.DOTALL))
