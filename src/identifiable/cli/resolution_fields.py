"""What a condition on a resolution may name: a field of it; in joint mode one of the whole, or of every model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from identifiable._checks import UsageError
from identifiable.cli.conditions import Fields, Values, check_leads_to_number, is_number, named_kinds, reached
from identifiable.results import JointResolution, Resolution


def resolution_fields(*, joint: bool) -> Fields:
    """Fields of a `Resolution`, or of a `JointResolution` and its models. Lists are counted."""

    def find(path: tuple[str, ...]) -> Values:
        of_all = named_kinds(JointResolution) if joint else {}
        of_each = named_kinds(Resolution)
        if path[0] not in of_all | of_each:
            choices = [name for name, kind in (of_all | of_each).items() if is_number(kind)]
            raise UsageError(f"no field {path[0]!r}; choose from {', '.join(choices)}.")
        of_the_whole = path[0] in of_all
        check_leads_to_number(JointResolution if of_the_whole else Resolution, path, ".".join(path))
        return lambda result: _values(result, path, of_the_whole)

    return Fields("shared < 10" if joint else "identifiable < 20", find)


def _values(
    result: Resolution | JointResolution, path: tuple[str, ...], of_the_whole: bool
) -> Iterator[tuple[str, Any]]:
    models = result.models if isinstance(result, JointResolution) and not of_the_whole else (result,)
    for model in models:
        yield ", ".join(i.name for i in model.inputs), reached(model, path)
