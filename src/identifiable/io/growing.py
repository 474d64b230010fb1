"""A `.safetensors` file whose rows are written in any order, over several runs if need be.

It lies beside its output as `NAME.unfinished`, laid out as it will be: header, then tensors. Behind them stands a journal of
20 bytes: a mark, a checksum, and how many batches of rows are finished. A batch counts only when its rows are on the disk, so a
process that is killed at any moment, or a machine that loses power, costs the rows since then and nothing else. The journal is
cut off just before the file takes its name; that all rows are there is then said by the length of the header, which is 0 until
they are. The header holds a fingerprint of all that determines the values: a run with another
fingerprint does not touch the file. A file of this run whose journal is missing or damaged is begun again: which of its rows
are there is not known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from identifiable import _stopping
from identifiable._checks import DataError, OutputError
from identifiable.io.array_files import DTYPES, safetensors_header
from identifiable.io.containers import IDS
from identifiable.results.writing import LONGEST, check_writable, cut_name, mode_of, take_name

SUFFIX = ".unfinished"
MARK = b"identifi"  # where the journal begins
JOURNAL = 20  # bytes: the mark, the checksum, the count
COUNT = 8  # bytes of the count
SECONDS = 2.0  # between two entries of the journal: at most so much work is done again
LENGTH = 8  # bytes of the length of the header, with which a file begins
ALL = 2**62  # batches, of a file whose rows are all there
NAMES = {code: name for name, code in DTYPES.items() if name != "BF16"}


class GrowingFile:
    """A table for each layer and the ids of their rows, of which `done` batches are finished."""

    def __init__(
        self,
        output: str | os.PathLike[str],
        widths: Mapping[str, int],
        ids: NDArray[np.int64],
        metadata: Mapping[str, str],
    ):
        self.output = Path(output)
        self.path = self.output.with_name(cut_name(self.output.name, LONGEST - len(SUFFIX)) + SUFFIX)
        self._n, self._widths = len(ids), widths
        entries: dict[str, Any] = {"__metadata__": dict(metadata)}
        self._offsets: dict[str, int] = {}
        end = 0
        for name, shape, code in (
            *((name, (self._n, width), "<f4") for name, width in widths.items()),
            (IDS, (self._n,), "<i8"),
        ):
            self._offsets[name] = end
            size = int(np.prod(shape)) * np.dtype(code).itemsize
            entries[name] = {"dtype": NAMES[code], "shape": list(shape), "data_offsets": [end, end + size]}
            end += size
        self._header = safetensors_header(entries)
        self._end = len(self._header) + end
        self.done, self._complete = 0, False
        self._file = self._opened(ids)
        self._noted = time.monotonic()
        _stopping.resumable[str(self.path)] = None

    def _opened(self, ids: NDArray[np.int64]) -> IO[bytes]:
        """The unfinished file of this very run, or a new one."""
        with self._said():
            check_writable(self.output)
            # through a link another file would be emptied; Windows has no such flag
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            file = os.fdopen(os.open(self.path, flags, mode_of(self.output)), "r+b", buffering=0)
        try:
            self._lock(file)
            with self._said():
                self._prepare(file, ids)
        except BaseException:
            file.close()
            raise
        return file

    def _prepare(self, file: IO[bytes], ids: NDArray[np.int64]) -> None:
        size = os.fstat(file.fileno()).st_size
        start = file.read(len(self._header))
        if start[LENGTH:] == self._header[LENGTH:]:
            journal = _read(file, self._end, JOURNAL + 1)
            done = int.from_bytes(journal[-COUNT:], "little")
            whole = start == self._header and size >= self._end
            if whole or journal == _journal(done):
                self.done = done if journal == _journal(done) else ALL
                return
        elif size > JOURNAL and _read(file, size - JOURNAL, len(MARK)) == MARK:
            raise DataError(
                f"{self.path}: holds the unfinished rows of another model, other inputs or other options; finish that run, delete "
                "the file, or choose another output."
            )
        file.truncate(0)
        _write(file, 0, bytes(LENGTH) + self._header[LENGTH:])
        _write(file, len(self._header) + self._offsets[IDS], ids.astype("<i8").tobytes())
        _write(file, self._end, _journal(0))

    def _lock(self, file: IO[bytes]) -> None:
        if os.name != "posix":
            return
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(
                f"{self.path}: another process is writing these rows; wait for it, or choose another output."
            ) from None
        except OSError:  # a file system without locks
            return

    def write(self, rows: Sequence[int] | NDArray[Any], values: Mapping[str, NDArray[np.float32]]) -> None:
        """Put the rows of the next batch into their places."""
        with self._said():
            for name, block in values.items():
                start, width = len(self._header) + self._offsets[name], 4 * self._widths[name]
                for row, numbers in zip(rows, np.ascontiguousarray(block, "<f4"), strict=True):
                    _write(self._file, start + int(row) * width, numbers.tobytes())
            self.done += 1
            if time.monotonic() - self._noted > SECONDS:
                self._note()

    def _note(self) -> None:
        """What is done is on the disk, then the journal says so."""
        os.fsync(self._file.fileno())
        _write(self._file, self._end, _journal(self.done))
        self._noted = time.monotonic()

    def finish(self) -> None:
        """All rows are there."""
        with self._said():
            self._note()
            _write(self._file, 0, self._header)
        self._complete = True

    def deliver(self) -> Path:
        """The finished file takes its name, with the other files of its command."""
        take_name(self.path, self.output, self._end)
        return self.output

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *how: Any) -> None:
        if not self._complete and self.done:
            with suppress(OSError):  # a full disk was said already
                self._note()
        self._file.close()
        _stopping.resumable.pop(str(self.path), None)
        if not self._complete and not self.done:
            self.path.unlink()

    @contextmanager
    def _said(self) -> Iterator[None]:
        """An error of the system, as ours."""
        try:
            yield
        except OSError as error:
            if isinstance(error, OutputError):
                raise
            raise OutputError(
                f"{self.path}: cannot be written ({error.strerror}); free some space or choose another path."
            ) from None


def _journal(done: int) -> bytes:
    """The record that so many batches are finished."""
    count = done.to_bytes(COUNT, "little")
    return MARK + crc32(count).to_bytes(JOURNAL - len(MARK) - COUNT, "little") + count


def _read(file: IO[bytes], offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _write(file: IO[bytes], offset: int, content: bytes) -> None:
    file.seek(offset)
    while content:
        content = content[file.write(content) :]
