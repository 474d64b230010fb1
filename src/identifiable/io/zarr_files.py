"""`.zarr` stores (v2, v3): an array, arrays by their paths (``store.zarr:runs/first``), or AnnData.

Rows are read where they are stored: whole chunks are decoded, and the last ones kept. Rows in another order than stored would
need every chunk again and again; they are unpacked once into a temporary file without a name.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable._extras import require
from identifiable.io.anndata_files import AGAIN, AnnDataFile, attribute, is_group
from identifiable.io.array_files import NamedArrays
from identifiable.io.containers import check_table, damage_named, identities, shown
from identifiable.io.label_columns import labels_from_numbers, labels_from_objects
from identifiable.io.stored_rows import (
    Layout,
    LazyRows,
    StoredRows,
    check_scratch_room,
    open_again,
    positions,
    scratch_file,
)

KEPT_BYTES = 2**28  # of decoded chunks
LARGEST_BAND = 2**31  # bytes of the chunks side by side that hold a row; codecs have this limit for one of them
LARGEST_CHUNK = 2**43  # bytes declared; what is read has limits of its own
MOST_CHUNKS = 2**17  # side by side, or of an array that is no table; zarr lists them first, 2 kB each
AT_ONCE = 8  # members of a group that are looked at, which takes time in a remote store
DEPTH = 8  # groups within groups that are looked into
WHOLE = ""  # the name of an array that is the whole store


class ZarrRows:
    """Rows of a 2-D array in chunks. A `stored_rows.LazyRows`."""

    decoded = True  # as `blocks.Blocks.decoded` has it

    def __init__(
        self,
        array: Any,
        layout: Layout,
        label: str,
        damaged: Callable[[str], DataError],
        again: Callable[[], LazyRows],
    ):
        self._array, self._layout, self._label, self._damaged, self.again = array, layout, label, damaged, again
        self.shape, self.dtype, self.stored_dtype = layout.shape, layout.dtype, layout.stored_dtype
        self._height = max(int((array.shards or array.chunks)[0]), 1)
        self._bands: OrderedDict[int, NDArray[Any]] = OrderedDict()
        self._lock = threading.Lock()
        self._unpacked: StoredRows | None = None
        band = min(self._height, self.shape[0]) * self.shape[1] * layout.stored.itemsize
        if band > LARGEST_BAND:
            raise DataError(f"{label}: a row of chunks unpacks to {band:,} bytes; write it again in smaller chunks.")
        self._most = max(KEPT_BYTES // max(band, 1), 2)

    def __reduce__(self) -> tuple[Any, ...]:
        return open_again, (self.again, self.shape, self.dtype.str)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray[Any]) -> NDArray[Any]:
        wanted = positions(rows, self.shape[0])
        if isinstance(wanted, tuple):
            start, stop = wanted
            if start == stop:
                return np.empty((0, self.shape[1]), self.dtype)
            height = self._height
            parts = [
                self._band(k)[max(start - k * height, 0) : stop - k * height]
                for k in range(start // height, (stop - 1) // height + 1)
            ]
            return parts[0] if len(parts) == 1 else np.concatenate(parts)
        bands = wanted // self._height
        if len(np.unique(bands)) > self._most:
            return self._in_one_piece()[wanted]
        out = np.empty((wanted.size, self.shape[1]), self.dtype)
        for k in np.unique(bands).tolist():
            out[bands == k] = self._band(k)[wanted[bands == k] - k * self._height]
        return out

    def _band(self, k: int) -> NDArray[Any]:
        with self._lock:
            found = self._bands.get(k)
            if found is not None:
                self._bands.move_to_end(k)
                return found
        with damage_named(self._damaged):
            raw = np.ascontiguousarray(self._array[k * self._height : (k + 1) * self._height])
        expected = min(self._height, self.shape[0] - k * self._height), self.shape[1]
        if raw.shape != expected:
            raise self._damaged(f"rows {k * self._height} on have the shape {raw.shape}")
        found = self._layout.decode(raw.view(np.uint8))
        found.flags.writeable = False
        with self._lock:
            self._bands[k] = found
            while len(self._bands) > self._most:
                self._bands.popitem(last=False)
        return found

    def _in_one_piece(self) -> StoredRows:
        with self._lock:
            unpacked = self._unpacked
        if unpacked is None:
            layout = Layout(0, self.shape, self.dtype)
            check_scratch_room(self._label, layout.nbytes, "put the rows of all tables in one order")
            unpacked = StoredRows(scratch_file(self._label, self._unpack), layout, self.again)
            with self._lock:
                self._unpacked = unpacked
        return unpacked

    def _unpack(self, file: IO[bytes]) -> None:
        for k in range(-(-self.shape[0] // self._height)):
            file.write(self._band(k).data)


class ZarrStore(NamedArrays):
    """Arrays in a store, by their paths."""

    def __init__(self, path: Path):
        require("zarr", extra="zarr", what=f"reading {path}")
        super().__init__(path)
        with self._opened() as root:
            self.is_anndata = attribute(root, "encoding-type") == "anndata"
            held = {} if self.is_anndata else dict(_members(root, DEPTH)) if is_group(root) else {WHOLE: root}
            for name, element in held.items():
                if not is_group(element):
                    self._layouts[name] = layout_of(element)
        self.names = tuple(self._layouts)

    def array(self, name: str) -> NDArray[Any]:
        with self._opened() as root:
            return np.asarray(self._element(root, name)[...])

    def _at(self, name: str) -> str:
        return self._label if name == WHOLE else super()._at(name)

    def _choose(self, part: str | None, ndim: int) -> str:
        return super()._choose(None if part is None else part.strip("/"), ndim)

    def _rows(self, name: str, again: Callable[[], LazyRows]) -> LazyRows:
        with self._opened() as root:
            return ZarrRows(self._element(root, name), self._layouts[name], self._at(name), self._damaged, again)

    def _whole(self, name: str) -> NDArray[Any]:
        layout, label = self._layouts[name], self._at(name)
        if len(layout.shape) != 1:
            raise DataError(f"{label}: expected one value per row (a 1-D array), got shape {layout.shape}.")
        with self._opened() as root:
            values = self._element(root, name)[...]
        return identities(np.array(values.tolist(), dtype=str) if values.dtype.kind in "TO" else values, label)

    def _element(self, root: Any, name: str) -> Any:
        return counted(root if name == WHOLE else root[name], self._damaged)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with damage_named(self._damaged), _root(self._path) as root:
            yield root

    def _damaged(self, why: str) -> DataError:
        return DataError(f"{self._label}: not a .zarr store, or damaged or incomplete ({why}); {AGAIN}.")


class AnnDataStore(AnnDataFile):
    """AnnData in a `.zarr` store."""

    form, library, extra = ".zarr", "zarr", "zarr"

    def _copied(self) -> None:
        return None

    def _check_file(self) -> None:
        """A store is guarded where it is opened."""

    def _own(self, parent: Any, key: str) -> Any:
        return counted(parent.get(key), self._damaged)

    def _plain(self, dataset: Any, where: str) -> NDArray[Any] | None:
        kind = dataset.dtype.kind
        if kind in "TOU":
            return labels_from_objects(np.asarray(dataset[...]).tolist(), where).astype(str)
        return labels_from_numbers(dataset[...]) if kind in "iufb" else None

    def _dense(self, element: Any, layout: Layout, label: str, again: Callable[[], LazyRows]) -> LazyRows:
        layout = layout_of(element)
        check_table(layout, label)
        return ZarrRows(element, layout, label, self._damaged, again)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with damage_named(self._damaged), _root(self._path) as root:
            yield root


@contextmanager
def _root(path: Path) -> Iterator[Any]:
    """The array or the group at the root of a store. What zarr warns of (files it does not know) does not matter."""
    import zarr

    from identifiable.io.zarr_store import guarded

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield zarr.open(guarded(path), mode="r", use_consolidated=False)


def _members(group: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Arrays and groups in a group, by their paths. zarr's own list leaves tasks behind that are printed later, where one is damaged."""

    def element(name: str) -> Any:
        try:
            return group[name]
        except KeyError:  # a file that is no part of the store
            return None

    names = group.store.below(group.path)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(element, names))
    for name, each in zip(names, found, strict=True):
        if each is not None:
            yield name, each
        if is_group(each) and depth:
            yield from ((f"{name}/{inner}", held) for inner, held in _members(each, depth - 1))


def counted(element: Any, damaged: Callable[[str], DataError]) -> Any:
    """An array or a group, unless it declares more chunks than anyone writes, or larger ones.

    Of numbers beyond 64 bits zarr makes a table of whatever the memory held before.
    """
    if element is not None and not is_group(element):
        beside = element.nchunks if element.ndim < 2 else math.prod(element.cdata_shape[1:])
        if beside > MOST_CHUNKS:
            raise damaged(f"{shown(element.path)!r} declares {beside:,} chunks")
        chunk = math.prod(element.shards or element.chunks) * element.dtype.itemsize
        if chunk > LARGEST_CHUNK:
            raise damaged(f"{shown(element.path)!r} declares chunks of {shown(f'{chunk:,}')} bytes")
    return element


def layout_of(array: Any) -> Layout:
    """How an array is stored; text of any length as objects."""
    dtype = np.dtype(object) if array.dtype.kind == "T" else np.dtype(array.dtype)
    noted = getattr(array.store_path.store, "bfloat16", ())
    return Layout(0, tuple(array.shape), dtype, bfloat16=array.path in noted)


def open_zarr(path: Path) -> ZarrStore | AnnDataStore:
    """The arrays of a store; of one that says that it is AnnData, its matrices and `obs`."""
    found = ZarrStore(path)
    return AnnDataStore(path) if found.is_anndata else found
