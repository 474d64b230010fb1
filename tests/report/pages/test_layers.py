"""The page of `layers`: the sentence first, a heat map for every grid, the curve with its intervals, the next command."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import blocks_of, check_drawn, make_layers, tables_of
from identifiable import report
from identifiable.report.frame import glossary
from identifiable.report.page import Card, Code, Curves, Text
from identifiable.report.words import MISSING, score


def test_the_card_has_the_sentence_and_the_baselines() -> None:
    (card,) = (block for block in blocks_of(make_layers(), "verdict") if isinstance(block, Card))
    assert all(part in card.sentence for part in ("3 of 3", "0.90", "0.70"))
    facts = dict(card.facts)
    assert facts["matched"] == "3 of 3"
    assert facts["CKA at the same depth"] == "0.70 to 0.90"
    assert facts["untrained pair"] == "0.20 to 0.40"
    assert (card.tone, card.brief) == ("plain", True)
    tied = make_layers(code="layers_tied", clear=False)
    assert next(b for b in blocks_of(tied, "verdict") if isinstance(b, Card)).tone == "caution"


def test_small_scores_have_plain_decimals() -> None:
    made = make_layers()
    small = replace(
        made, diagonal=tuple(replace(p, cka=v) for p, v in zip(made.diagonal, (0.0049, 0.01, -1e-5), strict=True))
    )
    card = next(b for b in blocks_of(small, "verdict") if isinstance(b, Card))
    assert dict(card.facts)["CKA at the same depth"] == "0.00 to 0.01"
    assert [row[2].split()[0] for row in tables_of(small, "depth")[0].rows] == ["0.005", "0.010", "0.000"]
    assert (score(-123456.0), score(None)) == ("-1.2e5", MISSING)


def test_the_curve_has_intervals_chance_the_untrained_pair_and_the_next_layer() -> None:
    curve, others = (block for block in blocks_of(make_layers(), "depth") if isinstance(block, Curves))
    assert [len(c.points) for c in curve.curves] == [3, 3, 3, 2]
    assert curve.curves[0].bounds[2] == (0.2, 0.95)
    assert [c.points[0] for c in curve.curves] == [(1.0, 0.9), (1.0, 0.4), (1.0, 0.01), (1.0, 0.8)]
    assert len(others.curves) == 4
    bare, _ = (block for block in blocks_of(make_layers(untrained=False), "depth") if isinstance(block, Curves))
    assert len(bare.curves) == 3
    assert report.html(make_layers()).count('class="bound ') == 5


def test_tables_have_the_numbers() -> None:
    first, *_ = tables_of(make_layers(), "depth")
    assert first.rows[1] == ("layer_1", "layer_1", "0.800 [0.100, 0.950]", "0.790", "0.780", "0.770", "0.760", "0.300")
    assert tables_of(make_layers(untrained=False), "depth")[0].rows[1][-1] == MISSING
    matches, *_ = tables_of(make_layers(), "matches")
    assert matches.rows[1][:8] == (
        "layer_1", "layer_1", "clear", "yes", "0.800", "layer_0", "+0.200 [0.100, 0.300]", "0.050",
    )  # fmt: skip
    assert "1" in tables_of(make_layers(clear=False), "matches")[0].rows[0][2]


def test_there_is_a_heat_map_of_every_measure_and_grid() -> None:
    tables = tables_of(make_layers(), "maps")
    assert (len(tables), len(tables_of(make_layers(untrained=False), "maps"))) == (15, 10)
    assert tables[0].rows[0] == ("layer_0", "0.90", "0.70", "0.50")
    assert [row[0] for row in tables[0].shades] == [6, 4, 2]


def test_over_training_there_is_a_curve_for_each_layer_of_either_series() -> None:
    made = make_layers(8, training=3)
    curves = [block for block in blocks_of(made, "training") if isinstance(block, Curves)]
    assert [len(curve.curves) for curve in curves] == [6, 6]
    assert {len(c.points) for c in curves[0].curves} == {3}
    table, *_ = tables_of(made, "training")
    assert table.rows[2][:4] == ("a/2", "b", "2", "2")
    assert not list(blocks_of(make_layers(), "training"))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ({}, ["Compare a pair"]),
        ({"clear": False, "code": "layers_tied"}, ["Ties", "Compare a pair"]),
        ({"code": "layers_unrelated"}, ["Nothing matches"]),
    ],
)
def test_the_next_step_is_that_of_the_answer(made, expected) -> None:
    words = glossary("layers")
    blocks = list(blocks_of(make_layers(**made), "steps"))
    told = [block.text for block in blocks if isinstance(block, Text)]
    assert [name for text in told for name, said in words.items() if said == text] == expected
    commands = [block.text for block in blocks if isinstance(block, Code)]
    assert commands == (
        ["identifiable compare a.npz:layer_2 'b c.npz:layer_2'"] if "Compare a pair" in expected else []
    )


def test_every_form_is_drawn() -> None:
    for made in (make_layers(1), make_layers(2, untrained=False), make_layers(14, training=2)):
        check_drawn(made)
