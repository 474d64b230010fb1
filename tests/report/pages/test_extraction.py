"""The page of `extract`: the sentence first, the norm of every layer, and the command that comes next."""

from __future__ import annotations

import pytest

from builders import blocks_of, check_drawn, make_extraction, tables_of
from identifiable.report.page import Card, Code


def test_the_sentence_has_layers_inputs_and_what_was_cut_off() -> None:
    (card,) = [block for block in blocks_of(make_extraction(), "verdict") if isinstance(block, Card)]
    assert all(part in card.sentence for part in ("layer_4 and layer_5", "small", "64", "200", "12", "512"))
    assert (card.tone, card.badge) == ("caution", "extracted")
    assert ("padding", "10 %") in card.facts
    (card,) = [
        b for b in blocks_of(make_extraction(pictures=True, untrained=3, layers=6), "verdict") if isinstance(b, Card)
    ]
    assert all(part in card.sentence for part in ("6 layers", "untrained small", "patches"))
    assert (card.tone, card.badge) == ("plain", "untrained")


def test_the_table_has_the_norm_of_every_layer() -> None:
    layers, tokens = tables_of(make_extraction(), "layers")
    assert layers.rows == (("layer_4", "200", "64", "no"), ("layer_5", "200", "64", "yes"))
    assert [row[1] for row in tokens.rows] == ["700", "512", "12", "9,000", "1,000"]
    (layers,) = tables_of(make_extraction(pictures=True), "layers")
    assert layers.rows[0][3] not in ("yes", "no")


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (2, ["layers out.safetensors OTHER.safetensors", "compare out.safetensors:layer_4 out.safetensors:layer_5"]),
        (1, ["compare out.safetensors:layer_4 OTHER.safetensors:layer_4"]),
    ],
)
def test_the_next_commands_can_be_copied(layers: int, expected: list[str]) -> None:
    told = [block.text for block in blocks_of(make_extraction(layers=layers), "steps") if isinstance(block, Code)]
    assert told == [f"identifiable {words}" for words in expected]


def test_it_is_drawn_everywhere() -> None:
    check_drawn(make_extraction())
