"""The page of `heads`: the sentence first, every number from the result, the next step that fits."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from builders import blocks_of, check_drawn, make_heads, tables_of
from identifiable.report.frame import glossary
from identifiable.report.page import Card, Text
from identifiable.results import Heads

WORDS = glossary("heads")


def steps(result: Heads) -> list[str]:
    told = [block.text for block in blocks_of(result, "steps") if isinstance(block, Text)]
    return [name for text in told for name, words in WORDS.items() if words == text]


def test_the_sentence_has_the_dimensions_the_premise_and_the_map_beside_fitted_and_chance() -> None:
    (card,) = [block for block in blocks_of(make_heads(), "verdict") if isinstance(block, Card)]
    assert all(part in card.sentence for part in ("9 of 64", "81 %", "0.31", "0.58", "0.00"))
    assert "-0.22" in card.sentence  # of the map as read, which the ridge hides
    way = make_heads().maps[0]
    better = replace(make_heads(), maps=(replace(way, fit=replace(way.fit, r2=0.22)), make_heads().maps[1]))
    assert "0.22" not in better.text.message
    assert card.tone == "plain"


def test_the_tables_have_the_numbers_of_either_direction() -> None:
    first, beside, alone = tables_of(make_heads(), "map")
    assert first.rows[0] == ("first → second", "-0.220", "0.1", "0.310", "0.580", "0.001", "0.420", "0.330")
    assert beside.rows[1][1:4] == ("0.480", "0.014", "0.050")
    assert alone.rows[0][4:6] == ("–", "–")
    assert alone.rows[1][4:6] == ("0.900", "0.500")
    (premise,) = tables_of(make_heads(), "premise")
    assert [row[1] for row in premise.rows] == ["81 %", "0.180", "32.10", "0.530", "1.020"]
    (diversity,) = tables_of(make_heads(), "diversity")
    assert diversity.rows[0][1:5] == ("10", "64", "9", "no")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ({}, ["More shared", "Rest not covered"]),
        ({"features": False}, ["No features", "Rest not covered"]),
        ({"chance": 0.5}, ["At chance", "Rest not covered"]),
        ({"rank": 64, "r2_ridge": 0.57}, ["Holds"]),
        ({"temperature": 1.5, "r2_scale": 0.57}, ["Another temperature", "Holds", "Rest not covered"]),
        ({"draws": 0, "chance": math.nan}, ["More shared", "Rest not covered"]),
    ],
)
def test_the_next_step_is_that_of_the_numbers(made: dict[str, float], expected: list[str]) -> None:
    assert steps(make_heads(**made)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "code", "parts"),
    [
        ({}, "heads_map", ("0.31", "0.58", "0.00")),
        ({"temperature": 3.0}, "heads_map_and_temperature", ("0.31", "3.00", "0.33", "0.58")),
        ({"temperature": 1 / 3, "draws": 0}, "heads_map_and_temperature_without_null", ("0.31", "0.33", "0.58")),
        ({"temperature": 3.0, "r2_scale": 0.312}, "heads_map", ("0.31", "0.58")),
        ({"draws": 0}, "heads_map_without_null", ("0.31", "0.58")),
        ({"features": False}, "heads_untested", ("9 of 64",)),
    ],
)
def test_the_sentence_has_a_temperature_and_a_chance_level_where_there_are_any(made, code, parts) -> None:
    found = make_heads(**made)
    assert found.text.code == code
    assert ("chance" in found.text.values) == (code in ("heads_map", "heads_map_and_temperature"))
    assert all(part in found.headline for part in parts)
    check_drawn(found)


def test_without_features_the_weights_alone_are_told() -> None:
    made = make_heads(features=False)
    assert "9 of 64" in made.headline
    assert "%" not in made.headline
    turned = replace(made, maps=made.maps[::-1])
    assert (made.text.code, turned.text.code) == ("heads_untested", "heads_span")
    assert (turned.text.values["expressed"], turned.text.values["chance"]) == (0.9, 0.5)
    assert all(part in turned.headline for part in ("90 %", "50 %"))
    check_drawn(turned)
