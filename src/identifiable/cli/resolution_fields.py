"""What a condition on a resolution may name: a field of it; in joint mode one of the whole, or of every model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from identifiable._checks import UsageError
from identifiable.cli.conditions import Field, Fields, is_number, kind_of_number, named_kinds, reached
from identifiable.results import JointResolution, Resolution

FROM_REFITS = {"identifiable", "ties", "stability", "stability_min", "sign_kept"}  # of no value without them


def resolution_fields(*, joint: bool, refits: int) -> Fields:
    """Fields of a `Resolution`, or of a `JointResolution` and its models. Lists are counted."""

    def find(path: tuple[str, ...]) -> Field:
        of_all = named_kinds(JointResolution) if joint else {}
        of_each = named_kinds(Resolution)
        if path[0] not in of_all | of_each:
            choices = [name for name, kind in (of_all | of_each).items() if is_number(kind)]
            raise UsageError(f"no field {path[0]!r}; choose from {', '.join(choices)}.")
        of_the_whole = path[0] in of_all
        kind = kind_of_number(JointResolution if of_the_whole else Resolution, path, ".".join(path))
        _check_measured(path, bool(refits), "pass --stability 2 or more")
        return Field(kind, lambda result: _values(result, path, of_the_whole))

    return Fields("shared < 10" if joint else "identifiable < 20", find)


def _values(
    result: Resolution | JointResolution, path: tuple[str, ...], of_the_whole: bool
) -> Iterator[tuple[str, Any]]:
    models = result.models if isinstance(result, JointResolution) and not of_the_whole else (result,)
    for model in models:
        name = ", ".join(i.name for i in model.inputs)
        _check_measured(path, _refitted(model), f"{name} has too few rows for them")
        yield name, reached(model, path)


def _refitted(result: Resolution | JointResolution) -> bool:
    if isinstance(result, JointResolution):
        return all(map(_refitted, result.models))
    return any(component.stability is not None for component in result.components)


def _check_measured(path: tuple[str, ...], refitted: bool, remedy: str) -> None:
    """Without refits nothing is called identifiable: a gate on that would fail, or pass, for want of a measurement."""
    if not refitted and FROM_REFITS.intersection(path):
        raise UsageError(f"{'.'.join(path)} was not measured: needs refits; {remedy}.")
