"""Every declared option refuses what lies outside its declaration, whichever class has it."""

from __future__ import annotations

from typing import Any

import pytest

from identifiable import UsageError
from identifiable.cli.options import Parser, add_options, given
from identifiable.options import declared, experiments, screens, tables

KINDS = (
    tables.CompareOptions, tables.ResolveOptions, tables.TransformOptions, tables.DisentangleOptions, tables.DecoderOptions,
    screens.AuditOptions, screens.EvaluateOptions, screens.CleanOptions, experiments.SourcesOptions,
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
    (flag,) = (option.flag for option in declared(kind) if option.name == name)
    if flag is not None and not isinstance(value, bool):  # the shell names the flag
        parser = Parser(prog="trial")
        add_options(parser, kind)
        required = ["--decoder=model:decoder"] if kind is tables.DecoderOptions else []
        typed = parser.parse_args(
            [*required, f"{flag}={','.join(map(str, value)) if isinstance(value, list) else value}"]
        )
        with pytest.raises(UsageError, match=rf"^{flag}\b"):
            given(kind, typed)


def test_there_is_something_to_refuse_in_every_class() -> None:
    assert {kind for kind, *_ in CASES} == set(KINDS)
    assert len(CASES) > 100


@pytest.mark.parametrize("value", [True, 2, 3.5, object, [1], [1, 2, 3], "ab"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [(tables.HeadsOptions, "features"), (tables.HeadsOptions, "bias"), (tables.LayersOptions, "untrained")],
)
def test_one_for_each_of_two_is_two(kind: type, name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"^{name}: "):
        kind(**{name: value})
    assert getattr(kind(**{name: ["a", "b"]}), name) == ["a", "b"]
