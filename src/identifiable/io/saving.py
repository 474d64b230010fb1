"""Write an array, whole or not at all."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from identifiable._checks import DataError, OutputError, UsageError
from identifiable.blocks import Blocks
from identifiable.io.anndata_writing import write_anndata
from identifiable.io.containers import IDS, identities
from identifiable.io.parquet_files import table_columns, write_parquet
from identifiable.io.safetensors_files import DTYPES, LENGTH_BYTES
from identifiable.results import whole_file

VALUES = "values"

Names = Sequence[str] | None
Writer = Callable[[Path, Blocks, NDArray[Any] | None, Mapping[str, NDArray[Any]], Names], None]
"""Writes values, ids, labels and the names of the columns to a path."""


def save_array(
    path: str | os.PathLike[str],
    values: Any,
    ids: NDArray[Any] | None = None,
    labels: Mapping[str, NDArray[Any]] | None = None,
    names: Names = None,
) -> Path:
    """Write a table to `.npy`, `.npz`, `.safetensors`, `.parquet` or `.h5ad` and return its path.

    `values` is an array, a `Blocks` or anything else that can be read in blocks: rows are written as
    they are read. With `ids` the file, which then cannot be a `.npy`, holds two arrays, `values` and
    `ids`, and `open_representation` reads both. Text ids in a `.safetensors` are UTF-8 in uint8,
    padded with zeros. A `.parquet` has columns `id` and `feature_0`, …; a `.h5ad` has the values in `X`
    and the ids in `obs_names`. `labels`, further columns of the rows, and `names` of the values' columns go into
    these two only.
    """
    path = Path(path)
    write = WRITERS.get(path.suffix.lower())
    if write is None:
        what = path.suffix or "a file without a suffix"
        raise OutputError(f"{path}: cannot write {what}; choose one of {', '.join(WRITERS)}.")
    if ids is not None and path.suffix.lower() == ".npy":
        raise UsageError(f"{path}: a .npy file has no place for ids; choose .npz or .safetensors.")
    blocks = values if isinstance(values, Blocks) else Blocks(values, name=path.name)
    if ids is not None:
        ids = np.asarray(ids)
        ids = identities(ids.astype(str) if ids.dtype.kind == "O" else ids, str(path))
        if ids.shape != (blocks.n,):
            raise DataError(f"{path}: expected one id for each of {blocks.n} rows, got ids of shape {ids.shape}.")
    with whole_file(path) as temporary:
        write(temporary, blocks, ids, labels or {}, names)
    return path


def _packed(write: Callable[[IO[bytes], Blocks, NDArray[Any] | None], None]) -> Writer:
    """The writer to a path from one to an open file, for formats without a place for labels."""

    def to_path(
        path: Path, blocks: Blocks, ids: NDArray[Any] | None, labels: Mapping[str, NDArray[Any]], names: Names
    ) -> None:
        with path.open("wb") as file:
            write(file, blocks, ids)

    return to_path


def _write_parquet(
    path: Path, blocks: Blocks, ids: NDArray[Any] | None, labels: Mapping[str, NDArray[Any]], names: Names
) -> None:
    write_parquet(path, blocks, *table_columns(blocks.name, blocks, labels, ids=ids, feature_names=names))


def _write_anndata(
    path: Path, blocks: Blocks, ids: NDArray[Any] | None, labels: Mapping[str, NDArray[Any]], names: Names
) -> None:
    write_anndata(path, blocks, labels, ids=ids, feature_names=names)


def _write_npy(file: IO[bytes], blocks: Blocks, ids: NDArray[Any] | None) -> None:
    dtype = _little_endian(blocks.dtype)
    header = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": blocks.shape}
    npy_format.write_array_header_1_0(file, header)
    _write_rows(file, blocks, dtype)


def _write_npz(file: IO[bytes], blocks: Blocks, ids: NDArray[Any] | None) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        if ids is not None:
            with archive.open(f"{IDS}.npy", "w") as member:
                npy_format.write_array(member, ids, allow_pickle=False)
        with archive.open(f"{VALUES}.npy", "w", force_zip64=True) as member:
            _write_npy(member, blocks, None)


def _write_safetensors(file: IO[bytes], blocks: Blocks, ids: NDArray[Any] | None) -> None:
    dtype = _little_endian(blocks.dtype)
    names = {code: name for name, code in DTYPES.items() if name != "BF16"}
    if dtype.str not in names:
        raise DataError(f"{blocks.name}: a .safetensors file cannot hold {dtype}; convert it to float32 or float64.")
    end = blocks.n * blocks.d * dtype.itemsize
    header: dict[str, Any] = {
        VALUES: {"dtype": names[dtype.str], "shape": list(blocks.shape), "data_offsets": [0, end]}
    }
    tail = None if ids is None else _padded(ids)
    if tail is not None:
        entry = {"dtype": names[tail.dtype.str], "shape": list(tail.shape), "data_offsets": [end, end + tail.nbytes]}
        header[IDS] = entry
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the format wants its data aligned
    file.write(len(text).to_bytes(LENGTH_BYTES, "little") + text)
    _write_rows(file, blocks, dtype)
    if tail is not None:
        file.write(tail.tobytes())


def _padded(ids: NDArray[Any]) -> NDArray[Any]:
    """Integer ids as they are; text as rows of UTF-8 bytes, padded with zeros."""
    if ids.dtype.kind != "U":
        return ids.astype(_little_endian(ids.dtype), copy=False)
    encoded = np.char.encode(ids, "utf-8")
    return encoded.view(np.uint8).reshape(len(ids), encoded.itemsize)


def _write_rows(file: IO[bytes], blocks: Blocks, dtype: np.dtype[Any]) -> None:
    for block in blocks:
        file.write(np.ascontiguousarray(block, dtype).data)


def _little_endian(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("<")


WRITERS: dict[str, Writer] = {
    ".npy": _packed(_write_npy),
    ".npz": _packed(_write_npz),
    ".safetensors": _packed(_write_safetensors),
    ".parquet": _write_parquet,
    ".h5ad": _write_anndata,
}
