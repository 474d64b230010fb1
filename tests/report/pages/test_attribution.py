"""The page of `deconfound attribute`: every component with its two scores, and cards with the plate drawn."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from builders import (
    HOSTILE,
    blocks_of,
    card_of,
    check_drawn,
    make_attribution,
    make_card,
    make_design,
    make_map,
    tables_of,
    text_of,
    with_figures,
    with_words,
)
from identifiable import report
from identifiable.report import words
from identifiable.report.page import Fold, Gauge, Grid, Table
from identifiable.report.pages.attribution import CARDS, LEAST_REACH, fixed, mostly, ranked
from identifiable.report.pages.screen import LISTED
from identifiable.results import Attribution, Share

SMALL = (8, 12)
FULL = make_attribution(grid=SMALL, biology=0.15, biology_ci95=(-0.052, 0.352))
SMALLER = make_attribution(size=8, grid=SMALL)
NEITHER = make_attribution(cards=[make_card(i, "neither", grid=SMALL) for i in range(3)], grid=SMALL)
NO_WELLS = make_attribution(
    cards=[make_card(i, "technical", plate_map=(), shares=(), density=()) for i in range(3)],
    grid_rows=(),
    grid_columns=(),
    design=make_design(grid=None, batches=None),
)


def maps_of(result: Attribution) -> list[Grid]:
    return [b for b in blocks_of(result, "cards") if isinstance(b, Grid)]


def test_a_page_of_384_components_on_a_large_plate_stays_below_two_megabytes() -> None:
    large = make_attribution(size=384)
    text = report.html(large)
    assert len(text.encode()) < 2e6
    assert text.count('class="plate"') == 3 * CARDS
    assert len(report.text_table(large).splitlines()) < 70


# -- headline and scatter


def test_the_verdict_counts_roles_and_a_fit_that_did_not_converge_is_no_good_news() -> None:
    card = card_of(FULL)
    assert card.badge.split(", ") == ["12 technical", "18 biological", "6 both", "12 neither"]
    assert card.tone == "good"
    facts = dict(card.facts)
    assert facts["reproducible"] == "36 of 48 components"
    assert facts["biology, all components"] == "0.150 [-0.052, 0.352]"
    unsettled = card_of(replace(SMALLER, converged=False))
    assert (unsettled.tone, dict(unsettled.facts)["ICA converged"]) == ("caution", "no")
    assert card_of(NEITHER).tone == "caution"


# -- tables


def test_components_are_listed_by_role_each_by_its_own_score() -> None:
    technical, biological, both, neither = tables_of(FULL, "components")
    assert technical.rows[0] == ("0", "0.620", "0.005", "plate 0.43", words.MISSING, "0.980", "yes")
    assert both.rows[0][3:5] == ("perturbation 0.27", "GENE4_guide_0 +2.40, GENE4_guide_1 -2.20")
    assert sum(len(t.rows) for t in (technical, biological, both, neither)) == 48
    for table, column in ((technical, 1), (biological, 2), (both, 1), (neither, 1)):
        scores = [float(row[column]) for row in table.rows]
        assert scores == sorted(scores, reverse=True)
    assert technical.pictures[1][0] == Gauge(0.62, "caution")
    assert [t.brief for t in (technical, biological, both, neither)] == [True, True, True, False]
    assert [t.brief for t in tables_of(NEITHER, "components")] == [True]


def test_many_components_of_a_role_are_folded_and_all_are_counted() -> None:
    result = make_attribution(cards=[make_card(i, "technical", grid=(1, 1)) for i in range(LISTED + 8)], grid=(1, 1))
    first, rest = tables_of(result, "components")
    assert (len(first.rows), len(rest.rows), first.more) == (LISTED, 8, 8)
    assert not rest.pictures
    assert not rest.brief
    assert f"… and {LISTED + 8 - CARDS} more" in report.text_table(result)


def test_a_spread_is_no_share_of_the_same_variance() -> None:
    shares = (Share("spread", 0.9, 0.005, 0.03), Share("plate_in_batch", 0.2, 0.005, 0.03))
    assert mostly(make_card(0, "technical", shares=shares)) == "plate in batch 0.20"
    assert mostly(make_card(0, "technical", shares=shares[:1])) == words.MISSING


def test_components_without_a_score_come_last() -> None:
    cards = [
        make_card(0, "neither", technical=math.nan),
        make_card(1, "neither", technical=-0.5),
        make_card(2, "technical"),
    ]
    assert [c.index for c in ranked(cards, "technical")] == [2, 1, 0]


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.62, "0.620"), (0.0004, "0.000"), (-0.0004, "0.000"), (-0.02, "-0.020"), (math.nan, "–"), (9e99, "9.0e99")],
)
def test_scores_have_the_same_decimals_whatever_their_size(value: float, said: str) -> None:
    assert fixed(value) == said
    assert fixed(value, plus=True) == (f"+{said}" if value > 0 else said)


# -- the plate


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
    assert "D04 (40.00)" in odd.description


@pytest.mark.parametrize("plate_map", [(), ((1.0,) * 12,) * 7, ((1.0,) * 11,) * 8, ((math.nan,) * 12,) * 8])
def test_a_map_that_does_not_fit_the_plate_or_has_no_wells_is_not_drawn(plate_map: Any) -> None:
    result = make_attribution(cards=[make_card(0, "technical", plate_map=plate_map)], grid=SMALL)
    assert maps_of(result) == []


# -- form


@pytest.mark.parametrize(
    "result",
    [
        FULL,
        NEITHER,
        NO_WELLS,
        make_attribution(size=1, grid=SMALL),
        *(with_figures(SMALLER, figure) for figure in (9e99, -9e99)),
        with_words(SMALLER, "a long name with blanks " * 8),
    ],
)
def test_every_special_result_is_drawn(result: Attribution) -> None:
    check_drawn(result)


def test_a_component_of_an_unknown_role_is_still_listed() -> None:
    odd: Any = make_attribution(cards=[replace(make_card(0, "technical", grid=SMALL), role=HOSTILE)], grid=SMALL)  # type: ignore[arg-type]
    assert "<script" not in report.html(odd)
    assert [row[0] for table in tables_of(odd, "components") for row in table.rows] == ["0"]


# -- components that are not reproducible


def test_components_that_refits_do_not_find_have_no_card_and_the_rank_that_has_some_is_named() -> None:
    shown = [card.index for card in FULL.components if card.role == "technical"][:2]
    result = replace(
        FULL,
        refused=tuple(c.index for c in FULL.components if c.index not in shown),
        reproducible_rank=7,
        reproducible_there=5,
    )
    titles = [b.summary for b in blocks_of(result, "cards") if isinstance(b, Fold)]
    assert {int(title.split(":")[0].split()[1]) for title in titles} == set(shown)
    assert all(part in text_of(result, "cards") for part in ("--rank 7", "5 of 7"))
    assert "--rank" not in text_of(replace(result, reproducible_rank=None), "cards")
    assert "--rank" not in text_of(FULL, "cards")


def test_components_that_refits_do_not_find_are_not_listed_as_technical_or_biological() -> None:
    def captions(result: Attribution) -> str:
        return " ".join(b.caption for b in blocks_of(result, "components") if isinstance(b, Table))

    none = replace(FULL, refused=tuple(card.index for card in FULL.components))
    assert all(f"{role}: " in captions(FULL) for role in ("Technical", "Biological"))
    assert not any(f"{role}: " in captions(none) for role in ("Technical", "Biological"))
    listed = {row[0] for b in blocks_of(none, "components") if isinstance(b, Table) for row in b.rows}
    assert len(listed) == len(FULL.components)


def test_the_head_counts_reproducible_components_only() -> None:
    everything = tuple(c.index for c in FULL.components)
    technical = [c.index for c in FULL.components if c.role == "technical"]
    some = card_of(replace(FULL, refused=tuple(sorted(set(everything) - set(technical)))))
    assert some.badge == f"{len(technical)} technical, 0 biological, 0 both, 0 neither"
    none = card_of(replace(FULL, refused=everything))
    assert "technical" not in none.badge
    assert none.tone == "caution"
