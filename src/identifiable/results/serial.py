"""Results as JSON text and back, typed by their annotations."""

from __future__ import annotations

import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from identifiable._checks import DataError

SCHEMAS: dict[str, type] = {}
"""The class of every schema; the front of this room fills it."""


def to_json(result: Any) -> str:
    """JSON text of a result: fields in their declared order, non-finite numbers as null, absent ones left out."""
    data = _plain(result)
    ordered = {"schema": data.pop("schema"), **data} if "schema" in data else data
    return json.dumps(ordered, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(text: str, name: str = "result") -> Any:
    """The result that `to_json` wrote; a clear error for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{name}: expected a JSON result of identifiable, got text that is not JSON ({error})."
        ) from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, str) or schema not in SCHEMAS:
        raise DataError(f"{name}: expected a result with schema {' or '.join(SCHEMAS)}, got {schema!r}.")
    try:
        return _typed(SCHEMAS[schema], data)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{name}: the result does not follow schema {schema} ({error}); write it again with this version."
        ) from None


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        items = ((f.name, getattr(value, f.name)) for f in fields(value))
        optional = {f.name for f in fields(value) if f.default is None or f.default == ()}
        return {k: _plain(v) for k, v in items if not (k in optional and v in (None, ()))}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@functools.cache  # a result may hold thousands of one class
def _annotations(kind: type) -> dict[str, Any]:
    """The annotation of every field of a dataclass."""
    hints = typing.get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}


def _typed(kind: Any, value: Any) -> Any:
    """`value` (from JSON) as an instance of the annotation `kind`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        if not isinstance(value, dict):
            raise TypeError(f"expected an object for {getattr(kind, '__name__', kind)}, got {type(value).__name__}")
        known = _annotations(typing.cast(type, kind))
        return typing.cast(Any, kind)(**{k: _typed(known[k], v) for k, v in value.items() if k in known})
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        return _typed(next(a for a in arguments if a is not type(None)), value)
    if origin is tuple:
        if not isinstance(value, list):
            raise TypeError(f"expected a list, got {type(value).__name__}")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_typed(arguments[0], v) for v in value)
        if len(value) != len(arguments):
            raise TypeError(f"expected {len(arguments)} values, got {len(value)}")
        return tuple(_typed(a, v) for a, v in zip(arguments, value, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise TypeError(f"expected an object, got {type(value).__name__}")
        return {k: _typed(arguments[1], v) for k, v in value.items()}
    if kind is float:
        if value is None:  # written as null: JSON has no infinity or NaN
            return math.nan
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"expected a number, got {value!r}")
        if not abs(float(value)) < 1e100:  # no figure of ours is so large; a page could not draw it
            raise ValueError(f"expected a number of ordinary size, got {value!r:.40}")
        return float(value)
    if isinstance(kind, type) and kind in (int, str, bool) and not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, got {value!r}")
    return value
