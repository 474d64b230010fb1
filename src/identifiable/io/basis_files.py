"""A basis in a file: the maps of a `Resolved` as float64 tensors of a `.safetensors`, its `Resolution` as metadata.

A `FeatureMap`, which gives features and no components, is kept in the same way under a schema of its own.

A basis is applied to data for years by people who did not fit it, so a wrong one must not pass for a right one: the
metadata hold a sha256 of the whole file, computed with its own place filled with zeros. It guards against accidents
and careless edits, not against a forger. Nothing in the file is executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from identifiable._checks import DataError, OutputError
from identifiable.deconfounding.feature_map import BeforeMap, FeatureMap
from identifiable.groups import AffineMap
from identifiable.ica import Resolved
from identifiable.io.array_files import LENGTH_BYTES, MAX_HEADER_BYTES, safetensors_header
from identifiable.io.containers import check_is_file, reason, shown
from identifiable.io.stored_rows import FileBytes
from identifiable.moments import Array
from identifiable.results import Resolution, from_json, to_json, whole_file

SCHEMA = "identifiable/basis/1"
MAP_SCHEMA = "identifiable/feature-map/1"
SUFFIX = ".safetensors"
MAPS = ("to_components", "from_components")
MAP = "map"  # of features to features
METADATA = "__metadata__"
NO_HASH = "0" * 64  # stands where the hash goes while it is computed
HASH = re.compile("[0-9a-f]{64}")
RESOLVE_AGAIN = "copy it again, or make it anew with resolve."


def save_basis(path: str | os.PathLike[str], basis: Resolved | FeatureMap) -> Path:
    """Write a basis or a map of features to a `.safetensors` file, whole or not at all, and return its path.

    The same basis gives the same bytes. What could not be loaded again is refused.
    """
    path = Path(path)
    if path.suffix.lower() != SUFFIX:
        what = path.suffix or "a file without a suffix"
        raise OutputError(f"{path}: cannot write {what}; a basis is kept in a {SUFFIX} file.")
    content = _content(basis)
    try:
        _parsed(content, "the basis")
    except DataError as error:
        raise DataError(f"{path}: this basis cannot be saved, it would not load again ({error})") from None
    with whole_file(path) as temporary:
        temporary.write_bytes(content)
    return path


def load_basis(path: str | os.PathLike[str]) -> Resolved | FeatureMap:
    """The basis or map of features that `save_basis` wrote; a clear error for a file that is anything else, or was changed since."""
    path = Path(path)
    check_is_file(path)
    return _parsed(_read(path), str(path))


def _content(basis: Resolved | FeatureMap) -> bytes:
    metadata = {"schema": SCHEMA, "sha256": NO_HASH, "result": to_json(basis.result)}
    if isinstance(basis, FeatureMap):
        metadata |= {"schema": MAP_SCHEMA, "columns": json.dumps(basis.columns)}
        if basis.before is not None:
            metadata["before"] = json.dumps(asdict(basis.before))
    header: dict[str, Any] = {METADATA: metadata}
    data = b""
    for name, tensor in _tensors(basis).items():
        raw = np.ascontiguousarray(tensor, dtype="<f8").tobytes()
        header[name] = {"dtype": "F64", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    content = safetensors_header(header) + data
    return content.replace(NO_HASH.encode(), hashlib.sha256(content).hexdigest().encode(), 1)


def _tensors(basis: Resolved | FeatureMap) -> dict[str, Array]:
    names = MAPS if isinstance(basis, Resolved) else (MAP,)
    maps: dict[str, AffineMap] = {name: getattr(basis, name) for name in names}
    return {f"{name}.{part}": getattr(m, part) for name, m in maps.items() for part in ("matrix", "offset")}


def _read(path: Path) -> bytes:
    """The whole file, if its header says that it is a basis: another kind may not fit in memory."""
    label = str(path)
    file = FileBytes.open(path, label)
    length = int.from_bytes(file.read(0, LENGTH_BYTES), "little")
    if file.size < LENGTH_BYTES + length or length > MAX_HEADER_BYTES:
        raise DataError(
            f"{label}: expected a basis, got a file that is truncated or something else (its first bytes declare a "
            f"header of {length:,} bytes in a file of {file.size:,}); {RESOLVE_AGAIN}"
        )
    start = file.read(0, LENGTH_BYTES + length)
    _metadata(start, label)
    return start + file.read(len(start), file.size - len(start))


def _metadata(content: bytes, label: str) -> dict[str, Any]:
    """The metadata of a basis, of this schema."""
    length = int.from_bytes(content[:LENGTH_BYTES], "little")
    try:
        header = json.loads(content[LENGTH_BYTES : LENGTH_BYTES + length])
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{label}: expected a basis, but its header cannot be read ({reason(error)}); {RESOLVE_AGAIN}"
        ) from None
    metadata = header.get(METADATA) if isinstance(header, dict) else None
    schema = metadata.get("schema") if isinstance(metadata, dict) else None
    if schema not in (SCHEMA, MAP_SCHEMA) or not isinstance(metadata, dict):
        got = f"schema {shown(repr(schema))}" if schema is not None else "a file without a schema"
        hint = (
            "update identifiable, or make the basis anew with resolve."
            if str(schema).startswith(("identifiable/basis/", "identifiable/feature-map/"))
            else "pass a file that resolve wrote."
        )
        raise DataError(f"{label}: expected a basis of schema {SCHEMA}, got {got}; {hint}")
    return metadata


def _parsed(content: bytes, label: str) -> Resolved | FeatureMap:
    """The basis in the bytes of a file, every one of which is vouched for by the hash."""
    metadata = _metadata(content, label)
    _check_hash(content, metadata.get("sha256"), label)
    tensors = _load_tensors(content, label)
    result = from_json(str(metadata.get("result")), label)
    if metadata["schema"] == MAP_SCHEMA:
        columns = json.loads(metadata.get("columns") or "null")
        d = result.inputs[0].d
        _check_tensors(tensors, {f"{MAP}.matrix": (d, d), f"{MAP}.offset": (d,)}, label, f"{d} columns")
        return FeatureMap(
            AffineMap(tensors[f"{MAP}.matrix"], tensors[f"{MAP}.offset"]),
            result,
            None if columns is None else tuple(map(str, columns)),
            BeforeMap(**json.loads(metadata["before"])) if "before" in metadata else None,
        )
    if not isinstance(result, Resolution):
        raise DataError(
            f"{label}: expected the result of resolve beside the maps, got {result.schema}; {RESOLVE_AGAIN}"
        )
    _check_fit(tensors, result, label)
    to, back = (AffineMap(tensors[f"{name}.matrix"], tensors[f"{name}.offset"]) for name in MAPS)
    return Resolved(to, back, result)


def _check_hash(content: bytes, recorded: Any, label: str) -> None:
    if not (isinstance(recorded, str) and HASH.fullmatch(recorded)):
        raise DataError(f"{label}: the basis has lost its sha256, so it was edited; {RESOLVE_AGAIN}")
    if hashlib.sha256(content.replace(recorded.encode(), NO_HASH.encode(), 1)).hexdigest() != recorded:
        raise DataError(f"{label}: the basis is not as it was written (its sha256 differs); {RESOLVE_AGAIN}")


def _load_tensors(content: bytes, label: str) -> dict[str, Array]:
    from safetensors.numpy import load  # here: only this format needs it

    try:
        loaded: dict[str, Array] = load(content)
    except Exception as error:  # SafetensorError, and what it lets through from json and numpy
        raise DataError(f"{label}: the basis is damaged or truncated ({reason(error)}); {RESOLVE_AGAIN}") from None
    return loaded


def _check_fit(tensors: dict[str, Array], result: Resolution, label: str) -> None:
    """Refuse maps that are not those the result speaks of."""
    k = result.rank
    if not (len(result.inputs) == 1 and len(result.components) == k == result.whitening.rank and k >= 1):
        raise DataError(
            f"{label}: the result beside the maps contradicts itself (rank {k}, {len(result.components)} components, "
            f"{len(result.inputs)} inputs); {RESOLVE_AGAIN}"
        )
    d = result.inputs[0].d
    shapes = {"to_components.matrix": (d, k), "to_components.offset": (k,)}
    shapes |= {"from_components.matrix": (k, d), "from_components.offset": (d,)}
    _check_tensors(tensors, shapes, label, f"{k} components of {d} columns")


def _check_tensors(tensors: dict[str, Array], shapes: dict[str, tuple[int, ...]], label: str, of: str) -> None:
    """Refuse tensors of other names, shapes or types, or that are not finite."""
    if set(tensors) != set(shapes):
        names = ", ".join(shown(name) for name in sorted(tensors)[:8]) or "nothing"
        raise DataError(f"{label}: expected the tensors {', '.join(shapes)}, got {names}; {RESOLVE_AGAIN}")
    for name, shape in shapes.items():
        tensor = tensors[name]
        if tensor.shape != shape or tensor.dtype != np.float64:
            raise DataError(
                f"{label}: expected {name} of shape {shape} and float64 for {of}, "
                f"got {tensor.shape} {tensor.dtype}; {RESOLVE_AGAIN}"
            )
        if not np.isfinite(tensor).all():
            raise DataError(f"{label}: {name} holds NaN or infinite values; {RESOLVE_AGAIN}")
