"""Rows of an array that stays in its file.

Rows are fetched by positioned reads of exactly the bytes asked for, not through a standing memory
map: resident memory is that of the rows in hand, random rows do not drag whole pages in, threads need
no lock, and a file that shrinks while it is read is a `DataError` instead of a bus error that kills
the process.
"""

from __future__ import annotations

import itertools
import math
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.io.remote import RemotePath

GAP_BYTES = 4096  # reading this much too much is cheaper than another system call
SPAN_BYTES = 2**22  # at most this much is read at once to pick scattered rows from

_SEEK_LOCK = threading.Lock()


class FileBytes:
    """The bytes of one file by offset, from any thread. A short read or a file that changed is an error."""

    def __init__(self, descriptor: int, label: str):
        self.label = label
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        self._state = self._now()
        self.size = self._state[0]

    @classmethod
    def open(cls, path: Path, label: str) -> FileBytes:
        if isinstance(path, RemotePath):
            return RemoteBytes(path, label)
        try:
            return cls(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)), label)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions.") from None

    def stream(self) -> IO[bytes]:
        """A file object over the same bytes, for libraries that want one. One user at a time."""
        file = os.fdopen(os.dup(self.descriptor), "rb")
        file.seek(0)
        return file

    def read(self, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; fewer only at the end of the file."""
        buffer = np.empty(max(min(size, self.size - offset), 0), np.uint8)
        self.read_into(offset, buffer)
        return buffer.tobytes()

    def read_into(self, offset: int, buffer: NDArray[np.uint8]) -> None:
        """Fill `buffer` with the bytes from `offset` on."""
        self.read_all_into([(offset, buffer.reshape(-1).data)])

    def read_all_into(self, places: Iterable[tuple[int, memoryview]]) -> None:
        """Fill each buffer with the bytes from its offset on."""
        try:
            complete = all(self._fill(offset, buffer) for offset, buffer in places)
            changed = self._now() != self._state
        except OSError as error:
            raise DataError(f"{self.label}: cannot be read ({error.strerror}); check the disk it is on.") from None
        if changed or not complete:
            raise DataError(f"{self.label}: the file changed while it was being read; run again when it is complete.")

    def _fill(self, offset: int, buffer: memoryview) -> bool:
        done = _read_at(self.descriptor, buffer, offset)
        while 0 < done < len(buffer):  # the system may return less than was asked for, 2 GB at most
            got = _read_at(self.descriptor, buffer[done:], offset + done)
            if got == 0:
                break
            done += got
        return done == len(buffer)

    def _now(self) -> tuple[int, int]:
        status = os.fstat(self.descriptor)
        return status.st_size, status.st_mtime_ns


class RemoteBytes(FileBytes):
    """The bytes of a file behind a URL: what is read is fetched, by ranges."""

    def __init__(self, path: RemotePath, label: str):
        self.label, self._path = label, path
        size = path.size()
        if size is None:
            raise DataError(f"{path}: the other side does not say how long the file is; copy it to this machine first.")
        self.size = size

    def stream(self) -> IO[bytes]:
        return self._path.stream()

    def read_all_into(self, places: Iterable[tuple[int, memoryview]]) -> None:
        wanted = [(offset, buffer) for offset, buffer in places if len(buffer)]
        if not wanted:
            return
        filesystem, at = self._path.filesystem()
        try:
            found = filesystem.cat_ranges(
                [at] * len(wanted),
                [offset for offset, _ in wanted],
                [offset + len(buffer) for offset, buffer in wanted],
                on_error="raise",
            )
        except Exception as error:
            raise self._path.unread(error) from None
        for (_, buffer), content in zip(wanted, found, strict=True):
            if len(content) != len(buffer):
                raise DataError(
                    f"{self.label}: expected {len(buffer):,} bytes, got {len(content):,}; the file changed, or the other "
                    "side cannot send parts of it: copy it to this machine first."
                )
            buffer[:] = content


def local_copy(path: Path, label: str) -> FileBytes:
    """The bytes of a file on this machine: its own, or those of a remote one, copied to a temporary file without a name."""
    file = FileBytes.open(path, label)
    if not isinstance(file, RemoteBytes):
        return file
    return part_copy(file, 0, file.size, "copy it to this machine first")


def part_copy(file: FileBytes, start: int, size: int, otherwise: str) -> FileBytes:
    """A part of a file, copied to a temporary file without a name, which nobody else can shorten."""
    check_scratch_room(file.label, size, otherwise)

    def copy(scratch: IO[bytes]) -> None:
        for at in range(start, start + size, SPAN_BYTES):
            scratch.write(file.read(at, min(SPAN_BYTES, start + size - at)))

    return scratch_file(file.label, copy)


def _read_at(descriptor: int, buffer: memoryview, offset: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    with _SEEK_LOCK:  # Windows has no positioned read
        os.lseek(descriptor, offset, os.SEEK_SET)
        data = os.read(descriptor, min(len(buffer), SPAN_BYTES))
    buffer[: len(data)] = data
    return len(data)


def scratch_file(label: str, write: Callable[[IO[bytes]], None]) -> FileBytes:
    """What `write` writes, in a temporary file without a name: it goes with its last reader, even after a crash."""
    try:
        with tempfile.TemporaryFile(prefix="identifiable-") as file:
            write(file)
            file.flush()
            return FileBytes(os.dup(file.fileno()), label)
    except OSError as error:
        raise DataError(
            f"{label}: cannot be unpacked into {tempfile.gettempdir()} ({error.strerror}); "
            "set TMPDIR to a disk with room for it."
        ) from None


def check_scratch_room(label: str, size: int, otherwise: str) -> None:
    """Refuse to unpack `size` bytes where they do not fit, before a disk is filled with them."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if size > free:
        raise DataError(
            f"{label} unpacks to {size:,} bytes, but {tempfile.gettempdir()} has {free:,} free; "
            f"set TMPDIR to a larger disk, or {otherwise}."
        )


@dataclass(frozen=True)
class Layout:
    """How an array lies in a file. bfloat16, which numpy lacks, is stored as uint16 and read as float32."""

    offset: int
    shape: tuple[int, ...]
    stored: np.dtype[Any]
    fortran: bool = False
    bfloat16: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32) if self.bfloat16 else self.stored.newbyteorder("=")

    @property
    def stored_dtype(self) -> str:
        return "bfloat16" if self.bfloat16 else str(self.stored) if self.stored.itemsize else "text"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.stored.itemsize

    def decode(self, raw: NDArray[np.uint8]) -> NDArray[Any]:
        """Numbers in native byte order from bytes; the last axis shrinks by the item size."""
        values = raw.view(self.stored)
        if self.bfloat16:  # the upper half of a float32
            return (values.astype(np.uint32) << 16).view(np.float32)
        return values.astype(self.dtype, copy=False)


class LazyRows(Protocol):
    """Rows that are read when asked for, from a place that `again` finds. A `blocks.Rows`."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stored_dtype: str
    again: Callable[[], LazyRows]

    def __getitem__(self, rows: Any, /) -> NDArray[Any]: ...


class StoredRows:
    """Rows of a 2-D array in a file, by slice or by an array of indices. A `blocks.Rows`.

    Of a Fortran-ordered array a block of rows is fetched column by column, so no more than the block
    is in memory either (one read per column; index arrays cost up to a pass over each column).
    Pickling keeps the recipe, not the data: the file is opened again by its path.
    """

    decoded = False  # as `blocks.Blocks.decoded` has it

    def __init__(self, file: FileBytes, layout: Layout, again: Callable[[], LazyRows]):
        self._file, self._layout, self.again = file, layout, again
        self.shape = layout.shape
        self.dtype = layout.dtype
        self.stored_dtype = layout.stored_dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return open_again, (self.again, self.shape, self.dtype.str)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray[Any]) -> NDArray[Any]:
        wanted = positions(rows, self.shape[0])
        return self._run(*wanted) if isinstance(wanted, tuple) else self._scattered(wanted)

    def _run(self, start: int, stop: int) -> NDArray[Any]:
        (n, d), item = self.shape, self._layout.stored.itemsize
        if not self._layout.fortran:
            block = np.empty((stop - start, d * item), np.uint8)
            self._file.read_into(self._layout.offset + start * d * item, block)
            return self._layout.decode(block)
        columns = np.empty((d, (stop - start) * item), np.uint8)
        for j in range(d):
            self._file.read_into(self._layout.offset + (j * n + start) * item, columns[j])
        return self._layout.decode(columns).T

    def _scattered(self, index: NDArray[np.intp]) -> NDArray[Any]:
        (n, d), item = self.shape, self._layout.stored.itemsize
        if not self._layout.fortran:
            return self._layout.decode(self._gather(self._layout.offset, d * item, index))
        columns = np.empty((d, index.size * item), np.uint8)
        for j in range(d):
            columns[j] = self._gather(self._layout.offset + j * n * item, item, index).reshape(-1)
        return self._layout.decode(columns).T

    def _gather(self, offset: int, width: int, index: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Records `index` of those of `width` bytes that start at `offset`, in that order."""
        out = np.empty((index.size, width), np.uint8)
        order = np.argsort(index, kind="stable")
        ascending = index[order]
        alone: list[int] = []
        for a, b in _neighbours(ascending, width):
            if b - a == 1:
                alone.append(a)
                continue
            first, last = int(ascending[a]), int(ascending[b - 1])
            span = np.empty((last - first + 1, width), np.uint8)
            self._file.read_into(offset + first * width, span)
            out[order[a:b]] = span[ascending[a:b] - first]
        flat = out.reshape(-1).data
        wanted = zip(ascending[alone].tolist(), order[alone].tolist(), strict=True)
        self._file.read_all_into((offset + row * width, flat[to * width : (to + 1) * width]) for row, to in wanted)
        return out


def _neighbours(ascending: NDArray[np.intp], width: int) -> Iterator[tuple[int, int]]:
    """Ranges of `ascending` close enough to be fetched in one read of at most SPAN_BYTES."""
    gap = 1 + GAP_BYTES // width
    cell = ascending // max(SPAN_BYTES // width, 1)
    breaks = np.flatnonzero((np.diff(ascending) > gap) | (np.diff(cell) != 0)) + 1
    edges = [0, *breaks.tolist(), ascending.size]
    return ((a, b) for a, b in itertools.pairwise(edges) if b > a)


def positions(rows: slice | NDArray[Any], n: int) -> tuple[int, int] | NDArray[np.intp]:
    """Rows of a table with n rows: first and behind the last of a run, or the place of each."""
    if isinstance(rows, slice):
        start, stop, step = rows.indices(n)
        if step == 1:
            return start, max(stop, start)
        rows = np.arange(start, stop, step)
    index = np.asarray(rows)
    index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.intp, casting="same_kind")
    index = np.where(index < 0, index + n, index)
    if index.size and (index.min() < 0 or index.max() >= n):
        raise IndexError(f"rows {index.min()} to {index.max()} of a table with {n} rows")
    return index


def reopened(kind: Callable[..., Any], path: Path, part: Any, **options: Any) -> LazyRows:
    """The rows of a part of a file, from its path: how rows that were pickled are found again."""
    rows: LazyRows = kind(path, **options).rows(part)
    return rows


def open_again(again: Callable[[], LazyRows], shape: tuple[int, ...], dtype: str) -> LazyRows:
    """Rows by their recipe, if they are still those of `shape` and `dtype`."""
    rows = again()
    if rows.shape != shape or rows.dtype.str != dtype:
        where = next((part for part in getattr(again, "args", ()) if isinstance(part, Path)), "the table")
        raise DataError(
            f"{where}: expected {shape} {dtype} as when it was first opened, "
            f"got {rows.shape} {rows.dtype.str}; the file changed, run again."
        )
    return rows
