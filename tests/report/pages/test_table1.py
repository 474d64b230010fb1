"""The page of `reproduce table1`: every number from the result, both protocols, baselines, and the published lines beside ours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import card_of, check_drawn, make_table1, tables_of, text_of
from identifiable.report.frame import glossary
from identifiable.results import Bounded, Table1

PLAIN = make_table1()
FIRST, SEEDS = PLAIN.lines
OF_THE_PAPER = replace(
    FIRST,
    kind="published",
    errors=tuple(replace(error, published=0.2, agreement="does_not") for error in FIRST.errors),
)
BARE = replace(FIRST, errors=tuple(replace(e, held_out=Bounded(0.3)) for e in FIRST.errors), efficiency=None)


@pytest.mark.parametrize(
    "result",
    [PLAIN, make_table1(lines=(OF_THE_PAPER,)), make_table1(lines=(BARE,), published={}), make_table1(lines=())],
)
def test_every_special_result_is_drawn(result: Table1) -> None:
    check_drawn(result)


def test_the_table_has_both_protocols_the_baselines_and_the_published_lines() -> None:
    table = tables_of(PLAIN, "table")[0]
    assert table.rows[0] == ("spaCy", "in sample", "0.469", "0.286", "0.254", "0.355", "62 %", "agrees")
    assert table.rows[1][:3] == ("", "held out", "0.489")
    assert table.rows[1][-2:] == ("–", "cannot tell")
    assert table.rows[2] == ("", "shuffled", *["0.610"] * 4, "", "")
    assert [row[1] for row in table.rows] == [
        *("in sample", "held out", "shuffled"),
        *("in sample", "held out", "shuffled", "untrained", "untrained, shuffled"),
        "published",
    ]
    assert table.rows[-1] == ("MAE", "published", "0.197", "0.109", "0.036", "0.145", "59 %", "as stated")
    assert "spaCy" in text_of(PLAIN, "table")


def test_an_order_that_shuffled_rows_have_too_is_called_so() -> None:
    note = glossary("table1")["Order by chance"]
    chance = tuple(replace(error, shuffled=0.9 - 0.1 * k) for k, error in enumerate(FIRST.errors))
    assert note in text_of(make_table1(lines=(replace(FIRST, errors=chance),)), "table")
    assert note not in text_of(PLAIN, "table")


def test_a_published_line_in_another_order_says_so() -> None:
    rows = PLAIN.published["rows"]
    other = make_table1(published={"rows": {"mae": {**rows["mae"], "linear": 0.15}}})
    assert tables_of(other, "table")[0].rows[-1][-1] == "another"


def test_steps_carry_their_intervals_and_words() -> None:
    table = tables_of(PLAIN, "order")[0]
    assert len(table.rows) == 6
    assert table.rows[0] == (
        "spaCy",
        "permutation - ICA",
        "+0.114 [-0.010, 0.200]",
        "cannot tell",
        "+0.114 [0.010, 0.200]",
        "agrees",
    )
    assert table.rows[3][3] == "agrees"
    assert len(tables_of(PLAIN, "order")) == 1
    same = tables_of(make_table1(lines=(OF_THE_PAPER,)), "order")[1]
    assert same.rows[0] == ("spaCy", "permutation", "0.469 [0.459, 0.479]", "0.200", "does not")


def test_the_verdict_is_that_of_the_weakest_line_held_out() -> None:
    assert (card_of(PLAIN).badge, card_of(PLAIN).tone) == ("cannot tell", "plain")
    good = make_table1(lines=(SEEDS,))
    assert (card_of(good).badge, card_of(good).tone) == ("the published order", "good")
    bad = make_table1(lines=(SEEDS, replace(FIRST, found_held_out="does_not")))
    assert (card_of(bad).badge, card_of(bad).tone) == ("another order", "caution")
    assert dict(card_of(PLAIN).facts)["spaCy"].split(",")[0] == "cannot tell held out"
    assert "1 of 2" in PLAIN.headline
