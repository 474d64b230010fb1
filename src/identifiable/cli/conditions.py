"""`--fail-if "rigid.held_out.q95 > 0.2"`: a field of a result, an operator, a number."""

from __future__ import annotations

import operator
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from identifiable._checks import UsageError
from identifiable.identifiability.nulls import NULLS
from identifiable.results import Comparison, PairResult, Rung

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_FORM = re.compile(r"^\s*([a-z][\w.]*)\s*(>=|<=|==|!=|>|<)\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*$")
_EXAMPLE = "for example 'rigid.held_out.q95 > 0.2'"


@dataclass(frozen=True)
class Condition:
    """A condition on every ordered pair of a comparison."""

    text: str
    path: tuple[str, ...]
    compare: Callable[[Any, Any], bool]
    threshold: float

    @classmethod
    def parse(cls, text: str, groups: tuple[str, ...]) -> Condition:
        """Read a condition and check, before any work, that such a field can exist."""
        form = _FORM.match(text)
        if form is None:
            raise UsageError(f"--fail-if {text!r}: expected FIELD OPERATOR NUMBER, {_EXAMPLE}.")
        path, symbol, number = form.groups()
        try:
            threshold = float(number)
        except ValueError:
            raise UsageError(f"--fail-if {text!r}: {number!r} is not a number; write it {_EXAMPLE}.") from None
        parts = tuple(path.split("."))
        _check_path(text, parts, groups)
        return cls(text, parts, OPERATORS[symbol], threshold)

    def failures(self, result: Comparison) -> Iterator[str]:
        """A sentence for every ordered pair on which the condition holds."""
        for pair in result.pairs:
            value = self._value(pair)
            if value is None or value != value:
                raise UsageError(
                    f"--fail-if {self.text!r}: {'.'.join(self.path)} has no value for {pair.source} -> {pair.target}, "
                    "so the gate cannot decide; use another field."
                )
            if self.compare(value, self.threshold):
                yield f"{pair.source} -> {pair.target}: {self.text} ({'.'.join(self.path)} = {value:.6g})"

    def _value(self, pair: PairResult) -> Any:
        first, *rest = self.path
        value: Any = (
            pair.rung(first) if _names_a_rung(self.path, tuple(r.group for r in pair.rungs)) else getattr(pair, first)
        )
        for part in rest:
            if value is None:
                return None
            if isinstance(value, Mapping):
                value = value.get(part)
            elif isinstance(value, tuple):
                value = value[int(part)] if part.isdigit() and int(part) < len(value) else None
            else:
                value = getattr(value, part)
        return value


def _names_a_rung(parts: tuple[str, ...], groups: tuple[str, ...]) -> bool:
    """Whether a path starts at a rung: `similarity` is one, but `similarity.cka` is a field of the pair."""
    if parts[0] not in groups:
        return False
    other = typing.get_type_hints(PairResult).get(parts[0])
    if other is None or len(parts) < 2:
        return True
    if parts[1] == "null":  # both have one: the rung's are named after nulls, the pair's after measures
        return len(parts) < 3 or parts[2] in NULLS
    return parts[1] not in {f.name for f in fields(other)}


def _check_path(text: str, parts: tuple[str, ...], groups: tuple[str, ...]) -> None:
    first, *rest = parts
    hints = typing.get_type_hints(PairResult)
    outer = [
        name for name, kind in hints.items() if name not in ("rungs", "worst", "verdict") and _bare(kind) is not str
    ]
    if _names_a_rung(parts, groups):
        kind: Any = Rung
    elif first in outer:
        kind = hints[first]
    else:
        raise UsageError(f"--fail-if {text!r}: no rung or field {first!r}; choose from {', '.join([*groups, *outer])}.")
    if kind is Rung and rest[:1] == ["null"] and rest[1:2] != [] and rest[1] not in NULLS:
        raise UsageError(f"--fail-if {text!r}: no null {rest[1]!r}; choose from {', '.join(NULLS)}.")
    for part in rest:
        kind = _step(text, _bare(kind), part)
    if _bare(kind) not in (float, int, bool):
        raise UsageError(f"--fail-if {text!r}: {'.'.join(parts)} is not a number; name one of its fields, {_EXAMPLE}.")


def _step(text: str, kind: Any, part: str) -> Any:
    if is_dataclass(kind):
        names = [f.name for f in fields(kind)]
        if part not in names:
            raise UsageError(f"--fail-if {text!r}: no field {part!r}; choose from {', '.join(names)}.")
        return typing.get_type_hints(kind)[part]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return arguments[1]
    if origin is tuple and part.isdigit():
        return arguments[0]
    raise UsageError(f"--fail-if {text!r}: {part!r} is not a field of a number; write it {_EXAMPLE}.")


def _bare(kind: Any) -> Any:
    """The annotation without `| None`."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return next(a for a in typing.get_args(kind) if a is not type(None))
    return kind
