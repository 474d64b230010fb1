"""The page of `align`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders import blocks_of, card_of, make_alignment, tables_of
from identifiable.report.page import Text
from identifiable.results import Alignment, Answer


def notes_on_pairs(result: Alignment) -> list[str]:
    return [block.text for block in blocks_of(result, "pairs") if isinstance(block, Text)]


def with_way(result: Alignment, **changes: Any) -> Alignment:
    return replace(result, ways=(replace(result.ways[0], **changes), *result.ways[1:]))


def test_pairs_are_called_enough_only_where_a_map_works() -> None:
    good = make_alignment()
    curve = good.ways[0].curve
    assert curve is not None
    flat = replace(curve, enough=1)
    good = with_way(good, curve=flat)
    assert len(notes_on_pairs(good)) == 1
    lost = with_way(good, advice="re_embed")
    assert notes_on_pairs(lost) == []  # shuffled pairs do as well
    values = {name: value for name, value in good.text.values.items() if name != "shuffled"}
    little = notes_on_pairs(replace(lost, text=Answer("re_embed", values)))
    assert len(little) == 1
    assert little != notes_on_pairs(good)
    assert tables_of(lost, "pairs")


@pytest.mark.parametrize(
    ("family", "group", "shown"),
    [("signed_permutation", "signed_permutation", "signed permutation"), ("shrink", "linear", "shrink (linear)")],
)
def test_a_family_that_is_a_group_is_named_once(family: str, group: str, shown: str) -> None:
    assert dict(card_of(with_way(make_alignment(), family=family, group=group)).facts)["map"] == shown
