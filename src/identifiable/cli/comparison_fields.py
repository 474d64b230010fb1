"""What a condition on a comparison may name: a field of a rung or of the pair, of every ordered pair."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from identifiable._checks import UsageError
from identifiable.cli.conditions import Field, Fields, kind_of_number, reached, without_none
from identifiable.options import NULLS
from identifiable.results import Comparison, PairResult, Rung


def comparison_fields(groups: tuple[str, ...]) -> Fields:
    """Fields of a comparison with these rungs."""

    def find(path: tuple[str, ...]) -> Field:
        return Field(_kind(path, groups), lambda result: _values(result, path))

    return Fields("rigid.held_out.q95 > 0.2", find)


def _values(result: Comparison, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    first, *rest = path
    for pair in result.pairs:
        starts_at_rung = _names_a_rung(path, tuple(r.group for r in pair.rungs))
        value: Any = pair.rung(first) if starts_at_rung else getattr(pair, first)
        yield f"{pair.source} -> {pair.target}", reached(value, rest)


def _names_a_rung(path: tuple[str, ...], groups: tuple[str, ...]) -> bool:
    """Whether a path starts at a rung: `similarity` is one, but `similarity.cka` is a field of the pair."""
    if path[0] not in groups:
        return False
    other = typing.get_type_hints(PairResult).get(path[0])
    if other is None or len(path) < 2:
        return True
    if path[1] == "null":  # both have one: the rung's are named after nulls, the pair's after measures
        return len(path) < 3 or path[2] in NULLS
    return path[1] not in {f.name for f in fields(other)}


def _kind(path: tuple[str, ...], groups: tuple[str, ...]) -> Any:
    first, *rest = path
    hints = typing.get_type_hints(PairResult)
    outer = [
        name
        for name, kind in hints.items()
        if name not in ("rungs", "worst", "verdict") and without_none(kind) is not str
    ]
    if _names_a_rung(path, groups):
        kind: Any = Rung
    elif first in outer:
        kind = hints[first]
    else:
        raise UsageError(f"no rung or field {first!r}; choose from {', '.join([*groups, *outer])}.")
    if kind is Rung and rest[:1] == ["null"] and rest[1:2] != [] and rest[1] not in NULLS:
        raise UsageError(f"no null {rest[1]!r}; choose from {', '.join(NULLS)}.")
    return kind_of_number(kind, rest, ".".join(path))
