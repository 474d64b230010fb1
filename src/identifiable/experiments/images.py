"""Pictures with their labels: `.npz` as keras keeps MNIST, and IDX files, plain or gzipped.

Pictures are read whole, so every length a file declares is compared with the bytes that are there before any of it is
allocated, and nothing is inflated past it.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.intake import content_hash
from identifiable.io.array_files import NpzFile
from identifiable.io.containers import check_is_file, named, reason
from identifiable.io.opening import read_labels
from identifiable.io.stored_rows import FileBytes

Part = Literal["train", "test"]

PARTS: dict[Part, str] = {"train": "train", "test": "t10k"}  # and how LeCun's files call them
SINGLE, SINGLE_LABELS = "images", "labels"  # keys of an archive of one set
ZIP, GZIP, IDX = b"PK", b"\x1f\x8b", b"\0\0"  # how the files begin
IDX_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
INFLATION = 1032  # deflate makes of a byte at most this many
AGAIN = "copy or download it again"


@dataclass(frozen=True, eq=False)
class Images:
    """Pictures, (n, height, width), uint8 or floating point as stored; `labels` are whole numbers, one for each, if known.

    `sha256` is of the pictures as rows of pixels, as results record it of any table.
    """

    values: NDArray[np.uint8] | NDArray[np.floating[Any]]
    labels: NDArray[np.int64] | None
    name: str
    sha256: str


def read_images(
    path: str | os.PathLike[str], *, labels: str | os.PathLike[str] | None = None, part: Part = "train"
) -> Images:
    """The pictures in a file.

    Parameters
    ----------
    path
        A `.npz` with ``x_train``, ``y_train``, ``x_test``, ``y_test`` (keras' mnist.npz), or with one 3-D array ``images`` and
        perhaps ``labels``. Or an IDX file, plain or gzipped, such as ``train-images-idx3-ubyte``; its labels are looked for
        beside it (``train-labels-idx1-ubyte``), and without any `labels` of the result is None.
    labels
        Where else the labels are: an IDX file, or whatever `read_labels` takes.
    part
        Which half of the data. An IDX file holds one; the other one's file (``t10k-…``) is looked for beside it. A file
        whose name says that it is the test half is not passed off as the training half.
    """
    if part not in PARTS:
        raise UsageError(f"part: expected 'train' or 'test', got {part!r}.")
    file = Path(os.fsdecode(path))
    check_is_file(file)
    head = _head(file)
    if head.startswith(ZIP):
        found = _archived(file, part)
    elif head.startswith((GZIP, IDX)):
        found = _idx_set(file, part, own_labels=labels is None)
    else:
        raise DataError(
            f"{file}: expected pictures in a .npz or IDX file (train-images-idx3-ubyte, perhaps .gz), "
            f"got a file that begins with {head[:8]!r}; check how it was written."
        )
    values = _checked(found.values, found.label)
    if labels is not None:
        found = found._replace(labels=_labels_elsewhere(labels), labels_label=os.fsdecode(labels))
    classes = None if found.labels is None else _paired(found.labels, found.labels_label, len(values), found.label)
    return Images(values, classes, found.name, content_hash(Blocks(values.reshape(len(values), -1), name=found.label)))


class _Found(NamedTuple):
    """Arrays as they were stored, and what to call them in a message."""

    values: NDArray[Any]
    label: str
    name: str
    labels: NDArray[Any] | None
    labels_label: str


# -- npz


def _archived(path: Path, part: Part) -> _Found:
    archive = NpzFile(path)
    if f"x_{part}" in archive.names:
        pictures, classes, name = f"x_{part}", f"y_{part}", f"{path.stem}:{part}"
    elif SINGLE in archive.names and part == "train":
        pictures, classes, name = SINGLE, SINGLE_LABELS, path.stem
    else:
        expected = f"x_{part}" if part == "test" else f"x_train or {SINGLE}"
        held = named(archive.names) or "no arrays"
        raise DataError(
            f"{path}: expected an array {expected} of pictures, found {held}; "
            f"save it as np.savez(path, x_train=, y_train=, x_test=, y_test=)."
        )
    values = archive.array(pictures)
    own = archive.array(classes) if classes in archive.names else None
    return _Found(values, f"{path}:{pictures}", name, own, f"{path}:{classes}")


# -- IDX


def _idx_set(path: Path, part: Part, *, own_labels: bool) -> _Found:
    file = _of_part(path, part)
    beside = _beside(file, "images", "labels") if own_labels else None
    own = None if beside is None else read_idx(beside, 1)
    return _Found(read_idx(file, 3), str(file), file.name.removesuffix(".gz"), own, str(beside))


def _of_part(path: Path, part: Part) -> Path:
    """The file of the part that was asked for, told by the names of LeCun's files."""
    said = next((known for known, prefix in PARTS.items() if path.name.startswith(f"{prefix}-")), None)
    if said == part or (said is None and part == "train"):
        return path
    if said == "train" and (other := _beside(path, PARTS["train"], PARTS["test"])) is not None:
        return other
    if said is None:
        raise DataError(f"{path}: an IDX file holds one set of pictures; name the file of the test set itself.")
    if said == "train":
        raise DataError(
            f"{path}: expected the test set beside it ({_swapped(path, PARTS['train'], PARTS['test']).name}); put it there."
        )
    raise DataError(f"{path}: its name says the test set; ask for part='test', or name the training file.")


def _beside(path: Path, this: str, that: str) -> Path | None:
    """The file of the same name with `that` for `this`, gzipped or not, if there is one."""
    other = _swapped(path, this, that)
    plain = other.with_name(other.name.removesuffix(".gz"))
    candidates = (other, plain, plain.with_name(f"{plain.name}.gz"))
    return next((c for c in candidates if c != path and c.is_file()), None)


def _swapped(path: Path, this: str, that: str) -> Path:
    name = path.name.replace(this, that, 1)
    return path.with_name(name.replace("idx3", "idx1") if that == "labels" else name)


def read_idx(path: Path, ndim: Literal[1, 3]) -> NDArray[Any]:
    """The array of an IDX file with so many dimensions: magic, big-endian lengths, numbers."""
    check_is_file(path)
    label = str(path)
    file = FileBytes.open(path, label)
    packed = file.read(0, 2) == GZIP
    with _stream(file, packed) as stream:
        dtype, shape = _idx_header(stream, ndim, label)
        needed = math.prod(shape) * dtype.itemsize
        head = 4 + 4 * ndim
        most = INFLATION * file.size if packed else file.size - head
        if needed > most:
            at_most = " at most, however well it is compressed" if packed else ""
            raise DataError(
                f"{label}: truncated: its header declares shape {shape} of {dtype}, {needed:,} bytes; "
                f"the file holds {most:,}{at_most}; {AGAIN}."
            )
        try:
            raw = np.empty(needed, np.uint8)
        except MemoryError:
            raise DataError(f"{label}: {needed:,} bytes do not fit in memory; read a part of it.") from None
        present = _fill(stream, raw, label)
        more = bool(_read(stream, 1, label))  # the end: where gzip compares its checksum
    if present < needed:
        raise DataError(f"{label}: truncated: shape {shape} needs {needed:,} bytes, it holds {present:,}; {AGAIN}.")
    if more:
        raise DataError(f"{label}: bytes follow the array of shape {shape} that its header declares; {AGAIN}.")
    return raw.view(dtype).astype(dtype.newbyteorder("="), copy=False).reshape(shape)


def _idx_header(stream: IO[bytes], ndim: int, label: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    magic = _read(stream, 4, label)
    if len(magic) < 4 or magic[:2] != IDX or magic[2] not in IDX_DTYPES:
        raise DataError(
            f"{label}: expected an IDX file (two zero bytes, a known type, the number of dimensions), "
            f"got one that begins with {magic!r}; check that it is one."
        )
    if magic[3] != ndim:
        what = {1: "labels", 3: "pictures"}
        hint = f"it looks like a file of {what[magic[3]]}" if magic[3] in what else "check how it was written"
        raise DataError(
            f"{label}: expected {what[ndim]}, an IDX array of {ndim} dimensions, got one of {magic[3]}; {hint}."
        )
    lengths = _read(stream, 4 * ndim, label)
    if len(lengths) < 4 * ndim:
        raise DataError(f"{label}: truncated within its header; {AGAIN}.")
    shape = struct.unpack(f">{ndim}I", lengths)
    if 0 in shape:
        raise DataError(f"{label}: its header declares shape {shape}, which holds nothing; {AGAIN}.")
    return np.dtype(IDX_DTYPES[magic[2]]), shape


@contextmanager
def _stream(file: FileBytes, packed: bool) -> Iterator[IO[bytes]]:
    with file.stream() as plain:
        if not packed:
            yield plain
            return
        with gzip.GzipFile(fileobj=plain, mode="rb") as inflated:
            yield inflated  # type: ignore[misc]  # it reads as a file does


def _fill(stream: IO[bytes], buffer: NDArray[np.uint8], label: str) -> int:
    """Read into all of the buffer, or up to the end; returns how much came."""
    view, done = buffer.data, 0
    while done < len(view):
        chunk = _read(stream, min(len(view) - done, 2**20), label)
        if not chunk:
            break
        view[done : done + len(chunk)] = chunk
        done += len(chunk)
    return done


def _read(stream: IO[bytes], size: int, label: str) -> bytes:
    try:
        return stream.read(size)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{label}: damaged or truncated ({reason(error)}); {AGAIN}.") from None


# -- what both must satisfy


def _checked(values: NDArray[Any], label: str) -> NDArray[Any]:
    if values.ndim != 3 or 0 in values.shape:
        hint = "take one channel" if values.ndim == 4 else "reshape it"
        raise DataError(
            f"{label}: expected at least one picture, an array (n, height, width), got shape {values.shape}; {hint}."
        )
    if values.dtype != np.uint8 and values.dtype.kind != "f":
        raise DataError(
            f"{label}: expected pixels as uint8 or floating point, got {values.dtype}; convert with astype('uint8')."
        )
    if values.dtype.kind == "f":
        bad = ~np.isfinite(values).all(axis=(1, 2))
        if bad.any():
            raise DataError(
                f"{label}: picture {int(np.argmax(bad))} holds NaN or infinity ({int(bad.sum())} of {len(bad)} do); "
                "drop or repair such pictures first."
            )
    return np.ascontiguousarray(values)


def _labels_elsewhere(spec: str | os.PathLike[str]) -> NDArray[Any]:
    path = Path(os.fsdecode(spec))
    if path.is_file() and _head(path).startswith((GZIP, IDX)):
        return read_idx(path, 1)
    return read_labels(spec)


def _paired(labels: NDArray[Any], label: str, n: int, pictures: str) -> NDArray[np.int64]:
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(
            f"{label}: expected one whole number for each picture, got {labels.dtype} of shape {labels.shape}; "
            "number the classes from 0."
        )
    if len(labels) != n:
        raise DataError(f"{label}: {len(labels):,} labels for the {n:,} pictures of {pictures}; give one for each.")
    if labels.dtype.kind == "u" and labels.max() > np.iinfo(np.int64).max:
        raise DataError(f"{label}: a label is above {np.iinfo(np.int64).max}; number the classes from 0.")
    return labels.astype(np.int64)


def _head(path: Path) -> bytes:
    return FileBytes.open(path, str(path)).read(0, 8)
