"""`Blocks`: a tall table that need not fit in memory, read a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, check_values

CHUNK_VALUES = 2**21  # values per chunk: 16 MB as float64, so a chunk and its products stay in the L3 cache
MAX_CHUNK_ROWS = 4096


class Rows(Protocol):
    """What `Blocks` needs of a table: a shape, a dtype, and rows by slice or by an array of indices."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def __getitem__(self, rows: Any, /) -> Any: ...


class Blocks:
    """A table of n rows and d columns, read a block of rows at a time.

    Parameters
    ----------
    source
        A numpy array, a memory map, a Dask array, or anything with `shape`, `dtype` and row indexing.
    rows
        How many rows to read from storage at once. It changes memory and speed, never a result.
    """

    def __init__(self, source: Rows, *, rows: int | None = None, name: str = "array"):
        self.n, self.d = check_values(source, name)
        if rows is not None and rows < 1:
            raise DataError(f"{name}: a block needs at least one row, got rows={rows}.")
        self.source = source
        self.rows = rows
        self.name = name

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.d

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.source.dtype)

    @property
    def base(self) -> Any:
        """What the rows are read from in the end, below choices of rows and maps."""
        found: Any = self
        while isinstance(found, Blocks) or isinstance(getattr(found, "source", None), Blocks):
            found = found.source
        return found

    @property
    def in_memory(self) -> bool:
        """Whether the rows are in the memory of this process."""
        return isinstance(self.base, np.ndarray) and not isinstance(self.base, np.memmap)

    @property
    def decoded(self) -> bool:
        """Whether reading rows costs more than copying them, so that workers of a cluster keep what they have read."""
        return bool(getattr(self.base, "decoded", True))

    def lazily(self) -> Any:
        """The table as a Dask array, where it is read from one."""
        return _lazily(self)

    def __getitem__(self, rows: slice | NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Rows as stored, read at most `self.rows` at a time. May be a view of the source.

        Row after row in memory, whatever the source: sums over another layout round differently.
        """
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.n)
            if step != 1:
                raise IndexError("Blocks are read in contiguous runs; pass an index array to skip rows.")
            step = self.rows or max(stop - start, 1)
            parts = [np.ascontiguousarray(self.source[a : min(a + step, stop)]) for a in range(start, stop, step)]
        else:
            step = self.rows or max(len(rows), 1)
            parts = [np.ascontiguousarray(self.source[rows[a : a + step]]) for a in range(0, len(rows), step)]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty((0, self.d), self.dtype)

    def select(self, index: NDArray[np.integer[Any]]) -> Blocks:
        """The same table with rows `index`, in that order, still read lazily."""
        return Blocks(_Selected(self, index), rows=self.rows, name=self.name)

    def through(self, function: Callable[[NDArray[Any]], NDArray[np.float64]], width: int) -> Blocks:
        """The same rows after a row-wise map to `width` columns, computed as they are read."""
        return Blocks(
            _Mapped(self, function, width), name=self.name
        )  # storage blocks end at the source: the map sees chunks

    def __iter__(self) -> Iterator[NDArray[Any]]:
        step = self.rows or chunk_rows(self.d)
        for start in range(0, self.n, step):
            yield self[start : min(start + step, self.n)]


class _Selected:
    """Rows of a table through an index array."""

    def __init__(self, source: Rows, index: NDArray[np.integer[Any]]):
        self.source, self.index = source, index
        self.shape = (len(index), source.shape[1])
        self.dtype = source.dtype

    def __getitem__(self, rows: slice | NDArray[np.integer[Any]]) -> NDArray[Any]:
        picked: NDArray[Any] = self.source[self.index[rows]]
        return picked


class _Mapped:
    """Rows of a table after a map."""

    def __init__(self, source: Rows, function: Callable[[NDArray[Any]], NDArray[np.float64]], width: int):
        self.source, self.function = source, function
        self.shape = (source.shape[0], width)
        self.dtype = np.dtype(np.float64)

    def __getitem__(self, rows: slice | NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        return self.function(self.source[rows])


def _lazily(source: Any) -> Any:
    if isinstance(source, _Selected):
        return _lazily(source.source)[source.index]
    if isinstance(source, _Mapped):
        array = _lazily(source.source)
        whole_rows = array.rechunk((array.chunks[0], (array.shape[1],)))
        return whole_rows.map_blocks(source.function, dtype=source.dtype, chunks=(array.chunks[0], (source.shape[1],)))
    return _lazily(source.source) if isinstance(source, Blocks) else source


def chunk_rows(width: int) -> int:
    """Rows per chunk of the arithmetic grid for a total width; a power of two, by the width alone."""
    fitting = max(CHUNK_VALUES // max(width, 1), 1)
    return min(max(1 << (fitting.bit_length() - 1), 256), MAX_CHUNK_ROWS)
