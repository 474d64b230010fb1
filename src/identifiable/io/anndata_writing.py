"""AnnData in a `.h5ad` or `.zarr` written, and a `.h5ad` added to, as anndata and scanpy read them: in blocks of rows, on any disk."""

from __future__ import annotations

import io
import os
import shutil
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable._extras import require
from identifiable.blocks import Blocks, chunk_rows
from identifiable.io.anndata_files import BY_COLUMNS, BY_ROWS, AnnDataFile, Beside, X, column_order
from identifiable.io.containers import shown
from identifiable.io.label_columns import labels_from_array
from identifiable.results.writing import whole_file

ARRAY = {"encoding-type": "array", "encoding-version": "0.2.0"}
TOOL = "identifiable"  # our key of `uns`


class Parts(TypedDict, total=False):
    """What a `.h5ad` may have besides `X`, `obs` and `var`."""

    obsm: Mapping[str, Blocks | NDArray[Any]]
    layers: Mapping[str, Blocks | NDArray[Any]]
    varm: Mapping[str, NDArray[Any]]
    uns: Mapping[str, Any]


def save_anndata(
    path: str | os.PathLike[str],
    values: Blocks,
    obs: Mapping[str, NDArray[Any]],
    *,
    ids: NDArray[Any] | None = None,
    feature_names: Sequence[str] | None = None,
    beside: Beside | None = None,
    **parts: Unpack[Parts],
) -> Path:
    """Write a `.h5ad` that anndata and scanpy read, whole or not at all: `values` as `X`, in blocks of rows.

    Text columns of `obs` that repeat are categorical; "" is a missing category. `uns` is made storable (`storable`). What
    another file with the same rows has `beside` is copied; its `obs`, where it is among that, instead of the one given.
    """
    path = Path(path)
    with whole_file(path) as temporary:
        write_anndata(temporary, values, obs, ids=ids, feature_names=feature_names, beside=beside)
        if any(parts.values()):
            _add(temporary, path, {}, parts)
    return path


def write_anndata(
    path: Path,
    values: Blocks,
    obs: Mapping[str, NDArray[Any]],
    *,
    ids: NDArray[Any] | None = None,
    feature_names: Sequence[str] | None = None,
    beside: Beside | None = None,
) -> None:
    """Write `X`, `obs` and `var` to `path` itself."""
    require("anndata", extra="anndata", what="writing .h5ad")
    kept = () if beside is None else beside.kept
    frames = _frames(values, obs, ids, feature_names)
    with writing_hdf5(path, "w") as (root, disk):
        write_matrix(root, X, values, disk)
        _write_beside(root, *(frames if "obs" not in kept else (None, frames[1])))
        if beside is not None:
            AnnDataFile(beside.path).copy_into(root, kept)


def write_anndata_store(
    path: Path,
    values: Blocks,
    obs: Mapping[str, NDArray[Any]],
    *,
    ids: NDArray[Any] | None = None,
    feature_names: Sequence[str] | None = None,
) -> None:
    """Write `X`, `obs` and `var` as a `.zarr` store to the folder `path` itself, a row of chunks at a time."""
    require("zarr", extra="zarr", what="writing .zarr")
    require("anndata", extra="zarr", what="writing .zarr")
    import zarr

    height = chunk_rows(values.d)
    frames = _frames(values, obs, ids, feature_names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that what anndata needs is young
        root = zarr.open_group(str(path), mode="w", zarr_format=3)
        array = root.create_array(
            X,
            shape=values.shape,
            dtype=values.dtype.newbyteorder("<"),
            chunks=(min(height, values.n), values.d),
            config={"write_empty_chunks": True},  # one that is not there is damage
        )
        array.attrs.update(ARRAY)
        for start in range(0, values.n, height):
            array[start : start + height] = values[start : min(start + height, values.n)]
        _write_beside(root, *frames)


def _frames(
    values: Blocks,
    obs: Mapping[str, NDArray[Any]],
    ids: NDArray[Any] | None,
    feature_names: Sequence[str] | None,
) -> tuple[Any, Any]:
    """`obs` and `var` as data frames."""
    import pandas as pd

    names = [str(j) for j in range(values.d)] if feature_names is None else [str(name) for name in feature_names]
    if len(names) != values.d:
        raise DataError(f"{values.name}: expected a name for each of {values.d} features, got {len(names)}.")
    rows = np.arange(values.n) if ids is None else np.asarray(ids)
    index = pd.Index(rows.astype(str).astype(object))
    columns = {_key(name): _obs_column(column, name, values.n) for name, column in obs.items()}
    frame = pd.DataFrame({key: pd.Series(column, index=index) for key, column in columns.items()}, index=index)
    return frame, pd.DataFrame(index=pd.Index(names, dtype=object))


def _write_beside(root: Any, obs: Any, var: Any) -> None:
    """What AnnData has beside its matrices; nothing for `obs` if it comes from elsewhere."""
    from anndata.io import write_elem

    root.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
    if obs is not None:
        write_elem(root, "obs", obs)
    write_elem(root, "var", var)
    for group in sorted((*BY_ROWS, *BY_COLUMNS)):
        write_elem(root, group, {})


def extend_anndata(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    obs: Mapping[str, NDArray[Any]] | None = None,
    **parts: Unpack[Parts],
) -> Path:
    """Copy a `.h5ad` and add to the copy; what has the same name is replaced, everything else is kept byte for byte.

    A matrix of `varm` whose rows are not the variables of the file (it belongs to a key of `obsm`) goes to
    ``uns["identifiable"]["varm"]``, where AnnData lets it have any length.
    """
    source, target = Path(source), Path(target)
    AnnDataFile(source)  # refuses what is not one
    with whole_file(target) as temporary:
        shutil.copyfile(source, temporary)
        _add(temporary, target, obs or {}, parts)
    return target


def _add(path: Path, target: Path, obs: Mapping[str, NDArray[Any]], parts: Parts) -> None:
    """Add to the `.h5ad` at `path`, which will be `target`."""
    require("anndata", extra="anndata", what=f"writing {target}")
    from anndata.io import write_elem

    held = AnnDataFile(path)
    elsewhere: dict[str, NDArray[Any]] = {}
    with writing_hdf5(path, "r+") as (root, disk):
        n, variables = held.n, held.variables(root)
        frame = held.owned(root, "obs")
        for name, column in obs.items():
            key = _key(name)
            _replace(frame, key)
            write_elem(frame, key, _obs_column(column, name, n))
            order = [*(known for known in column_order(frame) if known != key), key]
            frame.attrs["column-order"] = np.array(order, dtype=object)
        for name, rows in parts.get("obsm", {}).items():
            if rows.shape[0] != n:
                raise DataError(f"{target}: obsm {name!r} has {rows.shape[0]} rows for {n} observations.")
            write_matrix(held.owned(root, "obsm"), _key(name), rows, disk)
        for name, rows in parts.get("layers", {}).items():
            if rows.shape != (n, variables):
                raise DataError(f"{target}: layer {name!r} has the shape {rows.shape}, X has {(n, variables)}.")
            write_matrix(held.owned(root, "layers"), _key(name), rows, disk)
        for name, matrix in parts.get("varm", {}).items():
            if matrix.shape[0] == variables:
                write_matrix(held.owned(root, "varm"), _key(name), matrix, disk)
            else:
                elsewhere[_key(name)] = matrix
        group = held.owned(root, "uns")
        for key, value in storable(parts.get("uns", {})).items():
            _replace(group, key)
            write_elem(group, key, value)
        for key, matrix in elsewhere.items():
            write_matrix(held.owned(held.owned(group, TOOL), "varm"), key, matrix, disk)


class _Disk(io.FileIO):
    """The file HDF5 writes to. Its errors are kept, not raised: where a write fails, HDF5 crashes when the file is closed.

    Seen with HDF5 2.0 on a full disk: a segmentation fault when the process ends. After an error nothing more is written,
    and HDF5, which does not know, closes the file in peace.
    """

    error: BaseException | None = None

    def write(self, data: Any) -> int:
        rest = memoryview(data)
        size = rest.nbytes
        try:
            while rest.nbytes and self.error is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.keep(error)
        return size

    def truncate(self, size: int | None = None) -> int:
        try:
            if self.error is None:
                super().truncate(size)
        except OSError as error:
            self.keep(error)
        return size or 0

    def readinto(self, buffer: Any) -> int:
        """What was not written, after an error, reads as zeros."""
        view = memoryview(buffer).cast("B")
        got = super().readinto(view) or 0
        view[got:] = bytes(view.nbytes - got)
        return view.nbytes

    def keep(self, error: BaseException) -> None:
        """Remember the first error, without the frames it came through: some hold objects of HDF5."""
        self.error = self.error or error.with_traceback(None)

    def check(self) -> None:
        """Raise what went wrong."""
        if self.error is not None:
            raise self.error


@contextmanager
def writing_hdf5(path: Path, mode: str) -> Iterator[tuple[Any, _Disk]]:
    """A file of HDF5 to write to, as `mode` says, and the disk below it, which knows whether it was written."""
    import h5py

    with _Disk(path, "w+" if mode == "w" else mode) as disk:
        try:
            with _signals_kept_for(disk), h5py.File(disk, mode) as root:
                yield root, disk
        except BaseException:
            if disk.error is None:
                raise
    if disk.error is not None:
        raise disk.error.with_traceback(None)


@contextmanager
def _signals_kept_for(disk: _Disk) -> Iterator[None]:
    """What the handlers of Ctrl-C and SIGTERM raise is kept, too: HDF5 does not survive it in the middle of its work."""
    with ExitStack() as restored:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if callable(handler):
                    restored.callback(signal.signal, number, handler)
                    signal.signal(number, partial(_kept, handler, disk))
        yield


def _kept(handler: Callable[[int, Any], Any], disk: _Disk, number: int, frame: Any) -> None:
    try:
        handler(number, frame)
    except BaseException as error:
        disk.keep(error)


def storable(values: Mapping[str, Any]) -> dict[str, Any]:
    """A nested mapping of plain values in a form that a `.h5ad` holds: no None, no lists of mixed kinds.

    None is left out; a list of numbers or of text becomes an array; any other list a mapping from "0", "1", … to its parts.

    >>> storable({"a": None, "b": [1, 2.5], "c": [{"d": "x"}, 3], "e/f": True})
    {'b': array([1. , 2.5]), 'c': {'0': {'d': 'x'}, '1': 3}, 'e_f': True}
    """
    return {_key(key): _storable(value) for key, value in values.items() if value is not None}


def _storable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return storable(value)
    if isinstance(value, (bool, float, np.bool_, np.floating)):
        return value
    if isinstance(value, (int, np.integer)):
        return value if abs(int(value)) < 2**63 else str(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iufbU" and value.ndim:
        return value.astype(object) if value.dtype.kind == "U" else value
    if isinstance(value, (list, tuple, np.ndarray)):
        return _storable_list(value.tolist() if isinstance(value, np.ndarray) else list(value))
    return str(value)


def _storable_list(items: Any) -> Any:
    if not isinstance(items, list):  # an array without dimensions
        return _storable(items)
    if not items:
        return np.empty(0)
    if all(isinstance(item, str) for item in items):
        return np.array(items, dtype=object)
    if all(isinstance(item, (bool, int, float)) and not isinstance(item, np.generic) for item in items):
        numbers = np.array(items)
        if numbers.dtype.kind in "iufb":
            return numbers
    width = len(str(len(items) - 1))
    return storable({f"{place:0{width}d}": item for place, item in enumerate(items)})


def write_matrix(group: Any, name: str, values: Blocks | NDArray[Any], disk: _Disk) -> None:
    """A dense matrix in one piece, a block of rows at a time."""
    _replace(group, name)
    blocks = values if isinstance(values, Blocks) else Blocks(values, name=name)
    dataset = group.create_dataset(name, blocks.shape, blocks.dtype.newbyteorder("<"))
    dataset.attrs.update(ARRAY)
    start = 0
    for block in blocks:
        dataset[start : start + len(block)] = block
        start += len(block)
        disk.check()


def _obs_column(column: NDArray[Any], name: str, n: int) -> Any:
    """A label as pandas holds it: text that repeats as a categorical."""
    import pandas as pd

    values = labels_from_array(column, f"obs {shown(name)!r}") if column.dtype.kind != "b" else column
    if values.shape != (n,):
        raise DataError(f"obs {shown(name)!r}: expected a value for each of {n} rows, got shape {values.shape}.")
    if values.dtype.kind != "U":
        return values
    text = values.astype(object)
    distinct = sorted(set(text.tolist()) - {""})
    if len(distinct) == n:
        return text
    return pd.Categorical(text, categories=np.array(distinct, dtype=object))


def _replace(group: Any, name: str) -> None:
    if name in group:
        del group[name]


def _key(name: Any) -> str:
    """A name as a key of HDF5, where a slash would begin a group."""
    key = str(name).replace("/", "_")
    return f"{key}_" if key in ("", ".", "_index") else key
