"""What is applied to rows for years by people who did not fit it, in a file: maps as float64 tensors of a `.safetensors`, the result
as metadata.

There are three kinds, each with a schema of its own: a basis (`Resolved`), a map of features to the same features (`FeatureMap`) and
a map from one representation into another (`Aligned`). A wrong one must not pass for a right one: the metadata hold a sha256 of the
whole file, computed with its own place filled with zeros. It guards against accidents and careless edits, not against a forger.
Nothing in the file is executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from identifiable._checks import DataError, OutputError
from identifiable.alignment import Aligned, Reach
from identifiable.deconfounding.feature_map import BeforeMap, FeatureMap
from identifiable.groups import AffineMap
from identifiable.ica import Resolved
from identifiable.io.array_files import LENGTH_BYTES, MAX_HEADER_BYTES, safetensors_header
from identifiable.io.containers import check_is_file, damage_named, file_path, reason, shown
from identifiable.io.stored_rows import FileBytes
from identifiable.moments import Array
from identifiable.results import Alignment, Resolution, from_json, to_json, whole_file

Basis = Resolved | FeatureMap | Aligned
Tensors = Mapping[str, Array]
Metadata = Mapping[str, Any]

SUFFIX = ".safetensors"
METADATA = "__metadata__"
NO_HASH = "0" * 64  # stands where the hash goes while it is computed
HASH = re.compile("[0-9a-f]{64}")
AGAIN = "copy it again, or make it anew with resolve or align."


@dataclass(frozen=True)
class _Kind:
    """A class that is kept: its schema, its maps by the names of their tensors, what else it has, and how it is read."""

    schema: str
    maps: tuple[str, ...]
    beside: Callable[[Any], Metadata]
    read: Callable[[Tensors, Metadata, Any, str], Any]
    more: Callable[[Any], Tensors] = lambda basis: {}

    def tensors(self, basis: Any) -> dict[str, Array]:
        maps: dict[str, AffineMap | None] = {name: getattr(basis, name) for name in self.maps}
        parts = {f"{n}.{part}": getattr(m, part) for n, m in maps.items() if m is not None for part in PARTS}
        return {**parts, **self.more(basis)}


PARTS = ("matrix", "offset")


def save_basis(path: str | os.PathLike[str], basis: Basis) -> Path:
    """Write a basis or a map to a `.safetensors` file, whole or not at all, and return its path.

    The same basis gives the same bytes. What could not be loaded again is refused.
    """
    path = file_path(path)
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


def load_basis(path: str | os.PathLike[str]) -> Basis:
    """The basis or map that `save_basis` wrote; a clear error for a file that is anything else, or was changed since."""
    path = file_path(path)
    check_is_file(path)
    return _parsed(_read(path), str(path))


def holds_basis(spec: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a file that says it is a basis, of whatever version; `load_basis` then says what is wrong with it."""
    path = Path(spec)
    if path.suffix.lower() != SUFFIX or not path.is_file():
        return False
    file = FileBytes.open(path, str(path))
    length = int.from_bytes(file.read(0, LENGTH_BYTES), "little") if file.size >= LENGTH_BYTES else 0
    start = file.read(0, min(LENGTH_BYTES + length, file.size)) if length <= MAX_HEADER_BYTES else b""
    return re.search(rb'"schema"\s*:\s*"identifiable/basis/', start) is not None


def _content(basis: Basis) -> bytes:
    kind = next(kind for of, kind in KINDS.items() if isinstance(basis, of))
    result = {} if basis.result is None else {"result": to_json(basis.result)}
    header: dict[str, Any] = {METADATA: {"schema": kind.schema, "sha256": NO_HASH, **result, **kind.beside(basis)}}
    data = b""
    for name, tensor in kind.tensors(basis).items():
        raw = np.ascontiguousarray(tensor, dtype="<f8").tobytes()
        shape = list(np.shape(tensor))
        header[name] = {"dtype": "F64", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    content = safetensors_header(header) + data
    return content.replace(NO_HASH.encode(), hashlib.sha256(content).hexdigest().encode(), 1)


def _read(path: Path) -> bytes:
    """The whole file, if its header says that it is a basis: another kind may not fit in memory."""
    label = str(path)
    file = FileBytes.open(path, label)
    length = int.from_bytes(file.read(0, LENGTH_BYTES), "little")
    if file.size < LENGTH_BYTES + length or length > MAX_HEADER_BYTES:
        raise DataError(
            f"{label}: expected a basis or a map, got a file that is truncated or something else (its first bytes declare a "
            f"header of {length:,} bytes in a file of {file.size:,}); {AGAIN}"
        )
    start = file.read(0, LENGTH_BYTES + length)
    _metadata(start, label)
    return start + file.read(len(start), file.size - len(start))


def _metadata(content: bytes, label: str) -> dict[str, Any]:
    """The metadata of a basis, of one of the schemas."""
    length = int.from_bytes(content[:LENGTH_BYTES], "little")
    try:
        header = json.loads(content[LENGTH_BYTES : LENGTH_BYTES + length])
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{label}: expected a basis or a map, but its header cannot be read ({reason(error)}); {AGAIN}"
        ) from None
    metadata = header.get(METADATA) if isinstance(header, dict) else None
    schema = metadata.get("schema") if isinstance(metadata, dict) else None
    known = [kind.schema for kind in KINDS.values()]
    if schema not in known or not isinstance(metadata, dict):
        got = f"schema {shown(repr(schema))}" if schema is not None else "a file without a schema"
        ours = str(schema).startswith(tuple(name.rpartition("/")[0] + "/" for name in known))
        hint = "update identifiable, or make it anew." if ours else "pass a file that resolve or align wrote."
        raise DataError(f"{label}: expected a basis or a map of schema {' or '.join(known)}, got {got}; {hint}")
    return metadata


def _parsed(content: bytes, label: str) -> Basis:
    """The basis in the bytes of a file, every one of which is vouched for by the hash."""
    metadata = _metadata(content, label)
    _check_hash(content, metadata.get("sha256"), label)
    tensors = _load_tensors(content, label)
    kind = next(kind for kind in KINDS.values() if kind.schema == metadata["schema"])
    result = from_json(str(metadata["result"]), label) if "result" in metadata else None
    with damage_named(lambda why: DataError(f"{label}: the basis is damaged ({why}); {AGAIN}")):
        found: Basis = kind.read(tensors, metadata, result, label)
    return found


def _check_hash(content: bytes, recorded: Any, label: str) -> None:
    if not (isinstance(recorded, str) and HASH.fullmatch(recorded)):
        raise DataError(f"{label}: the basis has lost its sha256, so it was edited; {AGAIN}")
    if hashlib.sha256(content.replace(recorded.encode(), NO_HASH.encode(), 1)).hexdigest() != recorded:
        raise DataError(f"{label}: the basis is not as it was written (its sha256 differs); {AGAIN}")


def _load_tensors(content: bytes, label: str) -> dict[str, Array]:
    from safetensors.numpy import load  # here: only this format needs it

    try:
        loaded: dict[str, Array] = load(content)
    except Exception as error:  # SafetensorError, and what it lets through from json and numpy
        raise DataError(f"{label}: the basis is damaged or truncated ({reason(error)}); {AGAIN}") from None
    return loaded


def _check_tensors(tensors: Tensors, shapes: dict[str, tuple[int, ...]], label: str, of: str) -> None:
    """Refuse tensors of other names, shapes or types, or that are not finite."""
    if set(tensors) != set(shapes):
        names = ", ".join(shown(name) for name in sorted(tensors)[:8]) or "nothing"
        raise DataError(f"{label}: expected the tensors {', '.join(shapes)}, got {names}; {AGAIN}")
    for name, shape in shapes.items():
        tensor = tensors[name]
        if tensor.shape != shape or tensor.dtype != np.float64:
            raise DataError(
                f"{label}: expected {name} of shape {shape} and float64 for {of}, "
                f"got {tensor.shape} {tensor.dtype}; {AGAIN}"
            )
        if not np.isfinite(tensor).all():
            raise DataError(f"{label}: {name} holds NaN or infinite values; {AGAIN}")


# -- the kinds


def _read_resolved(tensors: Tensors, metadata: Metadata, result: Any, label: str) -> Resolved:
    _check_result(result, Resolution, label)
    k = result.rank
    if not (len(result.inputs) == 1 and len(result.components) == k == result.whitening.rank and k >= 1):
        raise DataError(
            f"{label}: the result beside the maps contradicts itself (rank {k}, {len(result.components)} components, "
            f"{len(result.inputs)} inputs); {AGAIN}"
        )
    d = result.inputs[0].d
    shapes = _shapes("to_components", d, k) | _shapes("from_components", k, d)
    _check_tensors(tensors, shapes, label, f"{k} components of {d} columns")
    return Resolved(_map(tensors, "to_components"), _map(tensors, "from_components"), result)


def _read_feature_map(tensors: Tensors, metadata: Metadata, result: Any, label: str) -> FeatureMap:
    if result is None:
        raise DataError(f"{label}: expected a result beside the map, got none; {AGAIN}")
    d = result.inputs[0].d
    _check_tensors(tensors, _shapes("map", d, d), label, f"{d} columns")
    before = BeforeMap(**json.loads(metadata["before"])) if "before" in metadata else None
    return FeatureMap(_map(tensors, "map"), result, _columns(metadata, "columns"), before)


def _read_aligned(tensors: Tensors, metadata: Metadata, result: Any, label: str) -> Aligned:
    if result is not None:
        _check_result(result, Alignment, label)
    matrix = tensors.get("map.matrix", np.zeros(0))
    source, target = matrix.shape if matrix.ndim == 2 else (0, 0)
    widths = (source, target) if result is None else tuple(each.d for each in result.inputs)
    if (source, target) != widths or not min(source, target):
        raise DataError(f"{label}: expected map.matrix for columns {widths}, got shape {matrix.shape}; {AGAIN}")
    shapes = _shapes("map", source, target) | {"reach.center": (source,), "reach.whitener": (source, source)}
    shapes |= {"reach.limit": ()} | (_shapes("back", target, source) if "back.matrix" in tensors else {})
    _check_tensors(tensors, shapes, label, f"{source} columns to {target}")
    names = [_columns(metadata, "columns"), _columns(metadata, "target_columns")]
    if any(known is not None and len(known) != d for known, d in zip(names, widths, strict=True)):
        raise DataError(f"{label}: expected names for {source} and {target} columns; {AGAIN}")
    return Aligned(
        map=_map(tensors, "map"),
        back=_map(tensors, "back") if "back.matrix" in tensors else None,
        reach=Reach(tensors["reach.center"], tensors["reach.whitener"], float(tensors["reach.limit"])),
        result=result,
        normalize=metadata.get("normalize") == "true",
        columns=names[0],
        target_columns=names[1],
        settings=json.loads(metadata.get("settings", "null")),
    )


def _beside_feature_map(basis: FeatureMap) -> Metadata:
    before = {} if basis.before is None else {"before": json.dumps(asdict(basis.before))}
    return {"columns": json.dumps(basis.columns), **before}


def _beside_aligned(aligned: Aligned) -> Metadata:
    return {name: json.dumps(getattr(aligned, name)) for name in ("normalize", "columns", "target_columns", "settings")}


def _reach(aligned: Aligned) -> Tensors:
    reach = aligned.reach
    return {"reach.center": reach.center, "reach.whitener": reach.whitener, "reach.limit": np.array(reach.limit)}


def _columns(metadata: Metadata, name: str) -> tuple[str, ...] | None:
    """Names of columns; a text that is no list of them counts as wrong names, which the caller refuses."""
    try:
        known = json.loads(metadata.get(name) or "null")
    except (ValueError, RecursionError):
        known = [metadata[name]]
    return None if known is None else tuple(map(str, known)) if isinstance(known, list) else (str(known),)


def _map(tensors: Tensors, name: str) -> AffineMap:
    return AffineMap(tensors[f"{name}.matrix"], tensors[f"{name}.offset"])


def _shapes(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.matrix": (rows, columns), f"{name}.offset": (columns,)}


def _check_result(result: Any, kind: type, label: str) -> None:
    if not isinstance(result, kind):
        got = "none" if result is None else result.schema
        raise DataError(f"{label}: expected a {kind.__name__} beside the maps, got {got}; {AGAIN}")


KINDS: dict[type, _Kind] = {
    Resolved: _Kind("identifiable/basis/1", ("to_components", "from_components"), lambda basis: {}, _read_resolved),
    FeatureMap: _Kind("identifiable/feature-map/1", ("map",), _beside_feature_map, _read_feature_map),
    Aligned: _Kind("identifiable/map/1", ("map", "back"), _beside_aligned, _read_aligned, _reach),
}
