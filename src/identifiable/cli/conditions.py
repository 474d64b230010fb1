"""`--fail-if "rigid.held_out.q95 > 0.2"`: a field of a result, an operator, a number or true or false."""

from __future__ import annotations

import operator
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as fields_of
from typing import Any

from identifiable._checks import UsageError

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_FORM = re.compile(r"^\s*([A-Za-z][\w.]*)\s*(>=|<=|==|!=|>|<)\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?|(?i:true|false))\s*$")
TRUTHS = {"true": True, "false": False}

Values = Callable[[Any], Iterable[tuple[str, Any]]]
"""From a result to ``(whose, value)``, once for everything the condition is about."""


@dataclass(frozen=True)
class Field:
    """What a condition is about: the annotation of its values, and how they are read from a result."""

    kind: Any
    values: Values


@dataclass(frozen=True)
class Fields:
    """What the conditions of a command may name: `find` checks a path, before any work."""

    example: str
    find: Callable[[tuple[str, ...]], Field]


@dataclass(frozen=True)
class Condition:
    """A condition on a result. It holds if it does so for any of the values it is about."""

    text: str
    field: str
    compare: Callable[[Any, Any], bool]
    threshold: float
    values: Values

    @classmethod
    def parse(cls, text: str, fields: Fields) -> Condition:
        """Read a condition and check that such a field can exist."""
        form = _FORM.match(text)
        hint = f"for example '{fields.example}'"
        if form is None:
            raise UsageError(f"--fail-if {text!r}: expected FIELD OPERATOR NUMBER, {hint}.")
        path, symbol, number = form.groups()
        try:
            threshold = TRUTHS[number.lower()] if number.lower() in TRUTHS else float(number)
        except ValueError:
            raise UsageError(f"--fail-if {text!r}: {number!r} is not a number; write it {hint}.") from None
        try:
            found = fields.find(tuple(path.lower().split(".")))  # tables print InfoM and R²; no field has capitals
        except UsageError as error:
            raise UsageError(f"--fail-if {text!r}: {error}") from None
        if (
            isinstance(threshold, bool) and found.kind is not bool
        ):  # `identifiable == true` would compare a count with 1
            raise UsageError(f"--fail-if {text!r}: {path} is a number, not true or false; write it {hint}.")
        return cls(text, path, OPERATORS[symbol], threshold, found.values)

    def failures(self, result: Any) -> Iterator[str]:
        """A sentence for everything for which the condition holds."""
        for whose, value in self._read(result):
            if value is None or value != value:
                raise UsageError(
                    f"--fail-if {self.text!r}: {self.field} has no value for {whose}, "
                    "so the gate cannot decide; use another field."
                )
            if self.compare(value, self.threshold):
                yield f"{whose}: {self.text} ({self.field} = {value:.6g})"

    def _read(self, result: Any) -> list[tuple[str, Any]]:
        try:
            return list(self.values(result))
        except UsageError as error:
            raise UsageError(f"--fail-if {self.text!r}: {error}") from None


def reached(value: Any, path: Iterable[str]) -> Any:
    """What `path` leads to from `value`; None where it ends early. A list of things is counted."""
    for part in path:
        if value is None:
            return None
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, tuple):
            value = value[int(part)] if part.isdigit() and int(part) < len(value) else None
        else:
            value = getattr(value, part)
    return len(value) if isinstance(value, tuple) else value


def kind_of_number(kind: Any, path: Iterable[str], name: str) -> Any:
    """The annotation `path` leads to from a value annotated with `kind`: a number's or, counted, a list's; or an error."""
    for part in path:
        kind = _step(without_none(kind), part)
    if not is_number(kind):
        raise UsageError(f"{name} is not a number; name one of its fields.")
    return without_none(kind)


def is_number(kind: Any) -> bool:
    """Whether a value annotated with `kind` is a number or a list to count.

    Things are counted; numbers are not: `ci95 < 1` would compare 2, the number of its ends.
    """
    kind = without_none(kind)
    counted = typing.get_origin(kind) is tuple and is_dataclass(typing.get_args(kind)[0])
    return kind in (float, int, bool) or counted


def named_kinds(kind: type) -> dict[str, Any]:
    """The annotation of every field and public property of a dataclass, fields first."""
    hints = typing.get_type_hints(kind)
    found = {f.name: hints[f.name] for f in fields_of(kind)}
    for name, value in vars(kind).items():
        if isinstance(value, property) and not name.startswith("_"):
            found[name] = typing.get_type_hints(value.fget).get("return", Any)
    return found


def _step(kind: Any, part: str) -> Any:
    if is_dataclass(kind):
        kinds = named_kinds(typing.cast(type, kind))
        if part not in kinds:
            raise UsageError(f"no field {part!r}; choose from {', '.join(kinds)}.")
        return kinds[part]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return arguments[1]
    if origin is tuple and part.isdigit():
        return arguments[0]
    raise UsageError(f"{part!r} is not a field of a number; drop it.")


def without_none(kind: Any) -> Any:
    """The annotation without `| None`."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return next(a for a in typing.get_args(kind) if a is not type(None))
    return kind
