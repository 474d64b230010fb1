"""`--set NAME=VALUE`: the settings of an experiment with some of them changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from identifiable._checks import UsageError

S = TypeVar("S")


def changed(start: S, changes: Mapping[str, Any]) -> S:
    """`start`, a dataclass, with `changes`, each as the kind of value that it replaces."""
    record: Any = start
    known = {f.name: getattr(record, f.name) for f in fields(record)}
    checked = {}
    for key, value in changes.items():
        if key not in known:
            raise UsageError(f"there is no setting {key!r}; choose from {', '.join(known)}.")
        checked[key] = _like(known[key], value, key)
    result: S = replace(record, **checked)
    return result


def _like(example: Any, value: Any, key: str) -> Any:
    """`value` as the kind of value that `example` is."""
    if isinstance(example, tuple):
        parts = value if isinstance(value, (tuple, list)) else (value,)
        return tuple(_like(example[0], part, key) for part in parts)
    if isinstance(example, str):
        if not isinstance(value, str):
            raise UsageError(f"{key} {value!r}: expected a word, such as {example}.")
        return value
    right = isinstance(value, int) or (isinstance(example, float) and isinstance(value, float))
    if not right or isinstance(value, bool):
        kind = "a number" if isinstance(example, float) else "a whole number"
        raise UsageError(f"{key} {value!r}: expected {kind}, such as {example}.")
    return type(example)(value)
