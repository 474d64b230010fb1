"""The page of `deconfound audit`: what may be concluded first, then every number that it rests on."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from identifiable import report
from identifiable.report import words as wording
from identifiable.report.page import Badge, Card, DotRow, Dots, Fold, Mark, Terms
from identifiable.report.pages import page_of
from identifiable.report.render.figures import draw_dots, ticks_between
from identifiable.report.screen_methods import BLIND_WORDS, CONCLUDE, NEXT
from identifiable.report.screen_reading import LISTED, MOST_LISTED
from identifiable.results import Alert, Audit, BlindScore, Finding
from page_reading import (
    HOSTILE,
    RENDERERS,
    blocks_of,
    check_drawn_alike_after_json,
    check_pages_stand_alone,
    check_words_are_shown_as_text,
    check_words_stay_on_one_line,
    table_called,
    text_of,
)
from screen_result_cases import NO_INTERVAL, make_audit, make_design, with_figures, with_words

FULL = make_audit()
BARE = make_audit(
    design=make_design(roles=(), batches=None, targets=None, grid=None, plates=1),
    dependences=(),
    blind=(),
    confounding=math.nan,
    folds=(),
    findings=(),
    skipped={},
    verdict="clear",
    text="",
)
RESULTS = {
    "full": FULL,
    "bare": BARE,
    "no inputs": replace(FULL, inputs=()),
    "nothing measured": with_figures(FULL, None),
    "huge": with_figures(FULL, 9e99),
    "no wells": make_audit(
        design=make_design(
            n=0, plates=0, controls=0, wells_per_plate=(0, math.nan, 0), wells_per_perturbation=(0, math.nan, 4)
        ),
        verdict="unusable",
    ),
    "alerts": make_audit(alerts=(Alert("rows_dropped", "12 rows."),)),
}


def dots_of(result: Audit) -> list[Dots]:
    return [b for b in blocks_of(result) if isinstance(b, Dots)]


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("name", RESULTS)
def test_every_result_is_drawn_alike_after_json_and_never_says_nan(render: Any, name: str) -> None:
    check_drawn_alike_after_json(RESULTS[name], render)


def test_an_audit_shows_itself(tmp_path: Path) -> None:
    assert FULL.table() == report.text_table(FULL)
    assert FULL._repr_html_() == report.fragment(FULL)
    assert FULL.report(tmp_path / "page.html").read_text(encoding="utf-8") == report.html(FULL)
    assert report.html(FULL) != report.html(make_audit("others"))


def test_sections_appear_only_when_there_is_something() -> None:
    def keys(name: str) -> list[str]:
        return [s.key for s in page_of(RESULTS[name]).sections]

    assert keys("full") == [
        "verdict", "findings", "design", "blind", "dependence", "folds", "features", "skipped", "reading", "reproduction",
    ]  # fmt: skip
    assert keys("bare") == ["verdict", "alerts", "design", "dependence", "features", "reading", "reproduction"]
    html = report.html(FULL)
    assert set(re.findall(r'href="#([\w-]+)"', html)) <= set(re.findall(r'id="([\w-]+)"', html))


@pytest.mark.parametrize("verdict", CONCLUDE)
def test_the_verdict_is_first_with_what_may_be_concluded_and_what_to_do_next(verdict: Any) -> None:
    result = make_audit(verdict=verdict)
    card, terms, *_ = blocks_of(result)
    assert isinstance(card, Card)
    assert card.sentence == "One fold lacks a perturbation; position alone scores 0.53."
    assert card.tone == ("good" if verdict == "clear" else "caution")
    assert next(v for k, v in card.facts if k.startswith("AUROC, position only on ")) == "0.531 [0.510, 0.552]"
    assert dict(card.facts)["AUROC, embedding on plate"] == "0.930 [0.910, 0.950]"
    assert isinstance(terms, Terms)
    assert [words for _, words in terms.items] == [CONCLUDE[verdict], NEXT[verdict]]
    said = " ".join(report.text_table(result).split())
    assert CONCLUDE[verdict] in said
    assert NEXT[verdict] in said
    others = (words for key, words in CONCLUDE.items() if key != verdict)
    assert not any(words in said for words in others)


def test_findings_stand_by_their_severity_each_with_its_badge() -> None:
    table = table_called(FULL, "What was looked at")
    assert [row[1] for row in table.rows] == ["stop", "caution", "note"]
    assert table.rows[0] == ("fold without class", "stop", "fold 1 has no well of SRC_guide_1")
    assert table.pictures[1] == (Badge("caution"), Badge("caution"), Badge("plain"))
    lines = report.text_table(FULL).splitlines()
    places = [next(i for i, line in enumerate(lines) if line.startswith(s)) for s in ("stop ", "caution ", "note ")]
    assert places == sorted(places)
    assert (
        dict(next(b for b in blocks_of(FULL) if isinstance(b, Card)).facts)["findings"] == "1 stop, 1 caution, 1 note"
    )


def test_roles_and_counts_are_shown() -> None:
    roles = table_called(FULL, "Roles found").rows
    assert roles[0] == ("plate", "experiment_name + plate", "75", "gene-001_1, gene-001_2, gene-001_3")
    counts = {row[0]: row[1] for row in table_called(FULL, "Counts").rows}
    assert counts["wells on a plate"] == "74 to 80, median 80"
    assert counts["controls on a plate"] == "16"
    assert counts["wells in use"] == "32 rows × 48 columns"
    bare = {row[0]: row[1] for row in table_called(BARE, "Counts").rows}
    assert bare["batches"] == bare["targets"] == wording.MISSING
    assert "wells in use" not in bare


def test_classifiers_are_drawn_with_their_intervals_beside_chance_by_what_they_tell() -> None:
    labels, plates = dots_of(FULL)
    assert labels.title == "To tell each perturbation from controls"
    assert labels.threshold == ("chance", 0.5)
    assert labels.span
    position, plate = labels.rows
    assert position.interval == (0.51, 0.552)
    assert position.marks == (Mark("main", 0.531), Mark("hollow", 0.61))
    assert plate.marks == (Mark("main", 0.5), Mark("shuffle", 0.52))  # a chance of its own is marked
    assert [row.label for row in plates.rows] == ["embedding"]
    assert ("shuffle", "without any dependence, where that is not 0.5") not in plates.legend
    assert BLIND_WORDS in text_of(FULL, "blind")
    rows = table_called(FULL, "AUROC on wells").rows
    assert rows[0] == (
        "position only", "each perturbation from controls", "plate", "0.531", "[0.510, 0.552]", "0.500", "16", "PLK1_guide_1 0.610",
    )  # fmt: skip


def test_what_could_not_be_scored_is_in_the_table_and_not_in_the_figure() -> None:
    result = make_audit(
        blind=(FULL.blind[0], BlindScore("plate", "each perturbation", math.nan, NO_INTERVAL, 0)),
        findings=(),
        verdict="caution",
    )
    assert [row.label for row in dots_of(result)[0].rows] == ["position only"]
    assert table_called(result, "AUROC on wells").rows[1][3] == wording.MISSING
    assert dots_of(RESULTS["huge"]) == []


def test_dependence_stands_beside_shuffles_and_confounding_is_said() -> None:
    assert table_called(FULL, "Mutual information").rows[0] == ("address", "2.413", "2.401", "2.440", "1 %", "0.310")
    assert "Cramér's V 0.040" in text_of(FULL, "dependence")
    assert "Cramér" not in text_of(BARE, "dependence")
    assert "Without batches" in text_of(BARE, "dependence")


def test_a_fold_that_cannot_be_used_is_named() -> None:
    assert "Folds of plates that cannot be used as they are: 1 (of 2)." in text_of(FULL, "folds")
    assert table_called(FULL, "Plates left out").rows[1][-2:] == ("SRC_guide_1", "SRC_guide_1 has no well")
    assert re.search(r"^1 +15 +1,190 +240 +SRC_guide_1 ", report.text_table(FULL), flags=re.MULTILINE)
    sound = replace(FULL, folds=FULL.folds[:1])
    assert "1 fold of plates, each with controls and perturbations." in text_of(sound, "folds")
    assert "cannot be used" not in report.text_table(sound)


def test_features_are_told() -> None:
    rows = {row[0]: row[1] for row in table_called(FULL, "Columns of").rows}
    assert rows["rank"] == "47 of 48"
    assert rows["rows that repeat another"] == "2 (rows 4 and 17)"
    assert rows["made Gaussian"] == "no"


def test_many_skipped_perturbations_are_folded_and_beyond_a_limit_left_to_the_json() -> None:
    assert "KIF11_guide_3" in text_of(FULL, "skipped")
    assert not any(isinstance(b, Fold) for b in blocks_of(FULL, "skipped"))
    result = make_audit(skipped={f"G{i}": "3 wells" for i in range(MOST_LISTED + 7)})
    (fold,) = (b for b in blocks_of(result, "skipped") if isinstance(b, Fold))
    assert fold.summary == f"{MOST_LISTED + 7 - LISTED:,} more perturbations"
    assert "In the JSON result: 7 further perturbations." in text_of(result, "skipped")
    assert f"Not evaluated: {MOST_LISTED + 7:,} perturbations (G0, G1, G2, G3, G4 and" in report.text_table(result)


@pytest.mark.parametrize("name", [*RESULTS, "hostile"])
def test_every_line_fits_a_terminal(name: str) -> None:
    result = RESULTS.get(name) or with_words(FULL, "a long name with blanks " * 8)
    assert max(map(wording.columns_wide, report.text_table(result).splitlines())) <= 100


@pytest.mark.parametrize("names", [True, False])
def test_hostile_words_are_shown_as_text_and_stay_on_one_line(names: bool) -> None:
    result = with_words(make_audit(alerts=(Alert("a", "b"),)), HOSTILE, names=names)
    check_words_are_shown_as_text(result)
    check_words_stay_on_one_line(with_words(FULL, "a"), with_words(FULL, "a\x1b\n"))


def test_unknown_severities_and_verdicts_do_not_break_a_page() -> None:
    odd: Any = make_audit(verdict=HOSTILE, findings=(Finding("a", HOSTILE, "b"),))  # type: ignore[arg-type]
    assert "<script" not in report.html(odd)
    assert next(b for b in blocks_of(odd) if isinstance(b, Card)).tone == "caution"


def test_the_page_loads_nothing_from_elsewhere_and_figures_stay_in_their_frame() -> None:
    check_pages_stand_alone(RESULTS, FULL)


# -- an axis that does not start at 0


def places(figure: Dots) -> list[float]:
    """Where a figure puts its main marks, in per cent from the left."""
    (path,) = re.findall(r'<path class="m main" d="([^"]*)"', draw_dots(figure))
    return [float(x) for x in re.findall(r"M([\d.-]+) ", path)]


def test_a_spanning_axis_shows_values_below_zero_and_others_do_not() -> None:
    rows = tuple(DotRow(str(v), "", (Mark("main", v),)) for v in (-0.2, 0.0, 0.2))
    left, middle, right = places(Dots("t", "", "", rows, (), ("none", 0.0), span=True))
    assert 0 < left < middle < right < 100
    assert middle == pytest.approx(50, abs=0.1)
    assert right - middle == pytest.approx(middle - left, abs=0.1)
    assert places(Dots("t", "", "", rows, ()))[0] == places(Dots("t", "", "", rows, ()))[1]  # cut at 0


def test_an_interval_below_the_line_is_drawn_twelve_pixels_lower() -> None:
    row = DotRow("a", "", (Mark("main", 0.5),), interval=(0.4, 0.6), lower=(0.3, 0.7))
    (path,) = re.findall(r'<path class="whisker" d="([^"]*)"', draw_dots(Dots("t", "", "", (row,), (), span=True)))
    heights = [float(y) for y in re.findall(r"M[\d.]+ (\d+)H", path)]
    assert heights[1] - heights[0] == 12
    alone = draw_dots(Dots("t", "", "", (replace(row, lower=(math.nan, 0.7)),), (), span=True))
    assert alone.count("H") < draw_dots(Dots("t", "", "", (row,), (), span=True)).count("H")


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.47, 0.84, [0.5, 0.6, 0.7, 0.8]),
        (-0.11, 0.22, [-0.1, 0.0, 0.1, 0.2]),
        (-30.0, -9.0, [-30, -25, -20, -15, -10]),
    ],
)
def test_ticks_are_round_numbers_inside_the_axis(low: float, high: float, ticks: list[float]) -> None:
    assert ticks_between(low, high) == pytest.approx(ticks)


def test_one_value_alone_stands_in_the_middle_of_a_spanning_axis() -> None:
    for value in (0.0, 0.7, -3.0, 9e99):
        assert places(Dots("t", "", "", (DotRow("a", "", (Mark("main", value),)),), (), span=True)) == [50]
