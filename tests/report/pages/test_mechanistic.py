"""The page of slot autoencoders: every condition with every way, what was found, and results with parts missing."""

from __future__ import annotations

import pytest

from builders import blocks_of, card_of, check_drawn, make_mechanistic, tables_of
from identifiable.report.page import Dots
from identifiable.report.pages.mechanistic import WAYS
from identifiable.report.words import MISSING
from identifiable.results import Estimate, Mechanistic

MADE = make_mechanistic()
BARE = make_mechanistic(cells=(), gaps=(), models=(), scores=(), published={}, over_ica=None)


@pytest.mark.parametrize("result", [MADE, make_mechanistic((0.0,)), BARE])
def test_every_special_result_is_drawn(result: Mechanistic) -> None:
    check_drawn(result)


def test_the_first_table_has_a_line_for_each_condition_and_a_column_for_each_way() -> None:
    scores, published = tables_of(MADE, "verdict")
    assert [column.label for column in scores.columns][4:] == list(WAYS.values())
    assert [row[:4] for row in scores.rows] == [("2", "0", "0", "2 of 2"), ("2", "0", "0.7", "1 of 2")]
    assert scores.rows[0][4:] == ("0.970", "0.200", "0.900", "0.900", "0.950", "0.500")
    assert published.rows == (("claim", "small overlap works"),)


def test_the_card_has_the_counts_and_both_differences() -> None:
    card = card_of(MADE)
    assert card.tone == "caution"  # 3 of 4 decoders are right
    assert dict(card.facts)["right factors"] == "3 of 4"
    assert dict(card.facts)["found - ICA, dependent slots"] == "+0.500 [0.450, 0.550]"
    assert card_of(make_mechanistic((0.0,))).tone == "good"
    assert dict(card_of(make_mechanistic((0.0,))).facts)["found - ICA, dependent slots"] == MISSING
    low = make_mechanistic((0.0,), lift=Estimate(0.1, (0.0, 0.2), 2))
    assert card_of(low).tone == "caution"


def test_gaps_say_whether_type_s_holds() -> None:
    (table,) = tables_of(MADE, "gaps")
    assert [row[2:] for row in table.rows] == [("1", "4", "4", "yes"), ("3", "0", "0", "no")]


def test_figure_and_models_show_every_condition_and_own_draws_only_where_slots_depend() -> None:
    dots = next(block for block in blocks_of(MADE, "figures") if isinstance(block, Dots))
    assert len(dots.rows) == 2
    assert len(tables_of(MADE, "figures")) == 1
    assert not tables_of(make_mechanistic((0.0,)), "figures")
    models = tables_of(MADE, "models")[0]
    assert [row[5] for row in models.rows] == ["3 + 3", "3 + 2 + 1"] * 2
