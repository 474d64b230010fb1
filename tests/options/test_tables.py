"""Every declared option refuses what lies outside its declaration, whichever class has it."""

from __future__ import annotations

from typing import Any

import pytest

from identifiable import UsageError
from identifiable.options import declared, screens, tables

KINDS = (
    tables.CompareOptions, tables.ResolveOptions, tables.DisentangleOptions, tables.DecoderOptions,
    screens.AuditOptions, screens.EvaluateOptions, screens.CleanOptions,
)  # fmt: skip


def outside(option: Any) -> list[Any]:
    """Values just beyond the limits, and of another type."""
    o = option.option
    beyond = [value - 1 for value in (o.least,) if value is not None] + [v for v in (o.above, o.below) if v is not None]
    beyond += [o.most + 1] if o.most is not None else []
    beyond += ["no-such-word"] if option.choices else []
    wrong = {int: [2.5, True, "many"], float: [float("nan"), float("inf"), True, "many"]}.get(option.kind, [])
    return [[value] if option.item is not None else value for value in beyond] + wrong


CASES = [(kind, o.name, value) for kind in KINDS for o in declared(kind) for value in outside(o)]


@pytest.mark.parametrize(("kind", "name", "value"), CASES)
def test_values_outside_a_declaration_are_refused_by_name(kind: type, name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"^{name}\b"):
        kind(**{name: value})


def test_there_is_something_to_refuse_in_every_class() -> None:
    assert {kind for kind, *_ in CASES} == set(KINDS)
    assert len(CASES) > 100
