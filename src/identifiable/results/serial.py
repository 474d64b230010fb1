"""Results as JSON text and back, typed by their annotations."""

from __future__ import annotations

import functools
import json
import math
import reprlib
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from identifiable._checks import CHARACTERS, DataError, as_text, said

PREFIX = "identifiable/"  # of every schema
LARGEST = 1e100  # no number of ours is so large; a page could not draw it
SCHEMAS: dict[str, type] = {}
"""The class of every schema; `Shown` fills it."""


def to_json(result: Any) -> str:
    """JSON text of a result: fields in their declared order, non-finite numbers as null, absent ones left out."""
    data = plain(result)
    ordered = {"schema": data.pop("schema"), **data} if "schema" in data else data
    return json.dumps(ordered, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(text: str, name: str = "result") -> Any:
    """The result that `to_json` wrote; a clear error for anything else."""
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{name}: expected a JSON result of identifiable, got text that is not JSON ({error})."
        ) from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, str) or schema not in SCHEMAS:
        names = " or ".join(known.removeprefix(PREFIX) for known in SCHEMAS)
        got = reprlib.repr(schema)[:CHARACTERS]  # a list of lists may still be long
        raise DataError(f"{name}: expected a result with schema {PREFIX}{names}; got {got}.")
    try:
        return _typed(SCHEMAS[schema], data, "")
    except (_Wrong, TypeError, ValueError, OverflowError) as error:  # the last three: of a class that checks itself
        raise DataError(
            f"{name}: the result does not follow schema {schema} ({said(error)}); write it again with this version."
        ) from None


class _Wrong(Exception):
    """A value that is not what its annotation says, with the path of its field."""

    def __init__(self, path: str, expected: str, got: Any):
        super().__init__(f"{path or 'result'}: expected {expected}, got {reprlib.repr(got)}")


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def plain(value: Any) -> Any:
    """What JSON text of a value holds: dataclasses as objects, non-finite numbers as null."""
    if type(value) is float:  # most values are numbers
        return value if math.isfinite(value) else None
    if value is None or type(value) in (int, bool):
        return value
    if is_dataclass(value):
        items = ((name, getattr(value, name), optional) for name, optional in _written(typing.cast(type, type(value))))
        return {k: plain(v) for k, v, optional in items if not (optional and v in (None, ()))}
    if isinstance(value, Mapping):
        return {as_text(str(k)): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, str):
        return as_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@functools.cache
def _written(kind: type) -> list[tuple[str, bool]]:
    """Of every name in JSON, whether it is left out where it is empty."""
    optional = {f.name for f in fields(kind) if f.default is None or f.default == ()}
    return [(name, name in optional) for name in map(_name, _kept(kind))]


def _kept(kind: type) -> list[Field[Any]]:
    """The fields that JSON holds: all but those with ``metadata={"json": None}``, which must have a default."""
    return [f for f in fields(kind) if f.metadata.get("json", f.name) is not None]


def _name(field: Field[Any]) -> str:
    """The name in JSON: that of the field, or of the property that its metadata name."""
    return str(field.metadata.get("json", field.name))


@functools.cache  # a result may hold thousands of one class
def _annotations(kind: type) -> dict[str, tuple[str, Any]]:
    """Of every name in JSON the field of a dataclass, and its annotation."""
    hints = typing.get_type_hints(kind)
    return {_name(f): (f.name, hints[f.name]) for f in _kept(kind)}


@functools.cache
def _needed(kind: type) -> list[str]:
    """The names that JSON must have."""
    return [_name(f) for f in _kept(kind) if f.default is f.default_factory is MISSING or _name(f) != f.name]


def _typed(kind: Any, value: Any, path: str) -> Any:
    """`value` (from JSON) as an instance of the annotation `kind`; `path` is where it stands."""
    if kind is Any:
        return value
    if kind in (float, int, str, bool):
        return _number_or_word(kind, value, path)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        return _record(typing.cast(type, kind), value, path)
    if origin in (types.UnionType, typing.Union):
        return _one_of(arguments, value, path)
    if origin is typing.Literal:
        if not any(value == choice and type(value) is type(choice) for choice in arguments):
            raise _Wrong(path, f"one of {', '.join(map(str, arguments))}", value)
        return value
    if origin is tuple:
        if isinstance(value, str) and is_dataclass(
            arguments[0]
        ):  # of a version that kept the messages alone, as one text
            value = [value] if value else []
        if not isinstance(value, list):
            raise _Wrong(path, "a list", value)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_typed(arguments[0], v, f"{path}[{i}]") for i, v in enumerate(value))
        if len(value) != len(arguments):
            raise _Wrong(path, f"{len(arguments)} values", value)
        return tuple(_typed(a, v, f"{path}[{i}]") for i, (a, v) in enumerate(zip(arguments, value, strict=True)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise _Wrong(path, "an object", value)
        return {_typed(arguments[0], k, path): _typed(arguments[1], v, f"{path}.{k}") for k, v in value.items()}
    raise TypeError(f"{path}: no value can be read as {kind}")


def _number_or_word(kind: Any, value: Any, path: str) -> Any:
    """As `_typed` of float, int, str or bool."""
    if kind is float:
        if value is None:  # written as null: JSON has no infinity or NaN
            return math.nan
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _Wrong(path, "a number", value)
        if not abs(value) < LARGEST:
            raise _Wrong(path, "a number of ordinary size", value)
        return float(value)
    if kind is int and isinstance(value, int) and abs(value) >= 2**63:
        raise _Wrong(path, "a number of ordinary size", value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _Wrong(path, kind.__name__, value)
    return value


def _record(kind: type, value: Any, path: str) -> Any:
    """A dataclass from an object; fields of a later version are passed over."""
    known = _annotations(kind)
    if isinstance(value, str) and {"code", "message"} <= known.keys():  # of a version that kept the message alone
        value = {"code": "", "message": value}
    if not isinstance(value, dict):
        raise _Wrong(path, f"an object for {kind.__name__}", value)
    missing = [name for name in _needed(kind) if name not in value]
    if missing:
        raise _Wrong(path, f"the field {missing[0]}", sorted(value))
    within = f"{path}." if path else ""
    return kind(**{known[k][0]: _typed(known[k][1], v, f"{within}{k}") for k, v in value.items() if k in known})


def _one_of(kinds: tuple[Any, ...], value: Any, path: str) -> Any:
    """The first of the kinds that the value is an instance of; null where None is among them."""
    if value is None and type(None) in kinds:
        return None
    errors = []
    for kind in kinds:
        if kind is not type(None):
            try:
                return _typed(kind, value, path)
            except _Wrong as error:
                errors.append(error)
    raise max(errors, key=lambda error: len(str(error).partition(":")[0]))  # the one that came furthest
