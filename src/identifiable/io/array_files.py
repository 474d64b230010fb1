"""`.npy`, `.npz` and `.safetensors`: files of arrays.

Headers of numpy are parsed by `numpy.lib.format`, which evaluates literals only; pickled objects are refused. Of a `.safetensors`
the library checks the header (lengths, offsets, overlaps); rows are then read in place.
"""

from __future__ import annotations

import io
import json
import math
import re
import struct
import tempfile
import warnings
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.io.containers import (
    IDS,
    IdentifiedColumn,
    IdentifiedRows,
    check_table,
    did_you_mean,
    identities,
    is_a_bug,
    listed,
    pickled,
    read_whole,
    reason,
    shown,
)
from identifiable.io.remote import RemotePath
from identifiable.io.stored_rows import (
    FileBytes,
    Layout,
    LazyRows,
    StoredRows,
    check_scratch_room,
    reopened,
    scratch_file,
)

HEADER_BYTES = 16_384  # numpy itself refuses headers above 10,000 characters
VERSIONS = ((1, 0), (2, 0), (3, 0))  # of the format of numpy
COPY_BYTES = 2**20
PIECE = 4096  # bytes at a time of lzma, which zipfile unpacks without a limit: these become at most 30 MB
LOCAL_HEADER = struct.Struct("<4s2xH18xHH")  # of a zip member: signature, flags, length of its name, of its extra field
UTF8 = 0x800  # the flag of names in UTF-8
FOLLOWING = (
    b"PK\x03\x04",
    b"PK\x07\x08",
    b"PK\x01\x02",
)  # what a member is followed by: another one, its sizes, the directory

MAGIC = {b"PK\x03\x04": "a zip archive (.npz)", b"\x89HDF": "HDF5", b"PAR1": "Parquet", b"\x1f\x8b": "gzip"}
DTYPES = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8", "I64": "<i8",
    "F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
}  # fmt: skip
LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000  # the library's own limit
LARGEST_HEADER = 2**24  # that of 100,000 tensors has some 10 million bytes, which take 2 s


class NpyFile:
    """One array."""

    names: tuple[str, ...] = ()

    def __init__(self, path: Path):
        self._path, self._label = path, str(path)
        self._file = FileBytes.open(path, self._label)
        self._layout = layout_of(self._file.read(0, HEADER_BYTES), self._label)
        check_size(self._layout, self._file.size, self._label)

    def table(self, part: str | None, *, ids: str | None, own_ids: bool) -> IdentifiedRows:
        return IdentifiedRows(self.rows(part), None)

    def rows(self, part: str | None) -> StoredRows:
        self._refuse_part(part)
        check_table(self._layout, self._label)
        return StoredRows(self._file, self._layout, partial(reopened, NpyFile, self._path.absolute(), part))

    def column(self, part: str | None) -> IdentifiedColumn:
        self._refuse_part(part)
        return IdentifiedColumn(read_whole(self._file, self._layout, self._label), None)

    def layout(self, name: str = "") -> Layout:
        return self._layout

    def located(self, name: str = "") -> tuple[FileBytes, Layout]:
        """The file the array's bytes are in, and where."""
        return self._file, self._layout

    def array(self, name: str = "") -> NDArray[Any]:
        """The array, of any shape, whole."""
        return whole_array(self._file, self._layout, self._label)

    def _refuse_part(self, part: str | None) -> None:
        if part is not None:
            raise DataError(f"{self._label}: a .npy file is one array without parts; drop the colon and {part!r}.")


class NamedArrays(ABC):
    """Arrays by name. One called `ids` identifies the rows of the others. A format gives `_rows`, `_whole` and `array`."""

    names: tuple[str, ...]

    def __init__(self, path: Path):
        self._path, self._label = path, str(path)
        self._layouts: dict[str, Layout] = {}
        self.metadata: dict[str, str] = {}  # what else a file says about its arrays

    def table(self, part: str | None, *, ids: str | None, own_ids: bool) -> IdentifiedRows:
        name = self._choose(part, 2)
        rows = self.rows(name)
        ids = ids or (IDS if own_ids and self._has_ids(name) else None)
        return IdentifiedRows(rows, None if ids is None else self.column(ids).values)

    def _has_ids(self, name: str) -> bool:
        """Whether `ids` are of the rows of that array, and not of another one that is as long as they are, when it is not."""
        if IDS not in self.names or name == IDS:
            return False
        count = self.layout(IDS).shape[:1]
        others = (layout.shape[:1] for other, layout in self._layouts.items() if other != IDS)
        return self._layouts[name].shape[:1] == count or count not in others

    def rows(self, part: str | None) -> LazyRows:
        name = self._choose(part, 2)
        check_table(self._layouts[name], self._at(name))
        return self._rows(name, partial(reopened, type(self), self._path.absolute(), name))

    def column(self, part: str | None) -> IdentifiedColumn:
        name = self._choose(part, 1)
        own = None
        if name != IDS and IDS in self._layouts and self._layouts[IDS].shape[:1] == self._layouts[name].shape[:1]:
            own = self.column(IDS).values
        return IdentifiedColumn(self._whole(name), own)

    def layout(self, name: str) -> Layout:
        """How the array of that name, one of `names`, is stored."""
        return self._layouts[name]

    @abstractmethod
    def array(self, name: str) -> NDArray[Any]:
        """The array of that name, one of `names`, of any shape, whole."""

    @abstractmethod
    def _rows(self, name: str, again: Callable[[], LazyRows]) -> LazyRows:
        """The rows of a 2-D array of numbers."""

    @abstractmethod
    def _whole(self, name: str) -> NDArray[Any]:
        """Ids or labels, as `containers.identities` gives them."""

    def _at(self, name: str) -> str:
        return f"{self._label}:{shown(name)}"

    def _choose(self, part: str | None, ndim: int) -> str:
        """The name of the array to read: `part`, or the only one that could be meant."""
        layouts = self._layouts
        held = (
            listed([f"{shown(name)} {each.shape} {each.stored_dtype}" for name, each in layouts.items()]) or "nothing"
        )
        if part is not None:
            if part in layouts:
                return part
            raise DataError(f"{self._label}: holds no {part!r}; it holds {held}{did_you_mean(part, layouts)}")
        others = [name for name in layouts if name != IDS]
        kinds = "fiub" if ndim == 2 else "iuUSbf"
        fitting = [k for k in others if len(layouts[k].shape) == ndim and layouts[k].stored.kind in kinds]
        if len(fitting) == 1:
            return fitting[0]
        if len(others) == 1:  # not fitting either, but then the error can say what is wrong with it
            return others[0]
        do = f"name one after a colon, as in {self._at(next(iter(fitting or others), 'NAME'))}"
        if ndim == 2 and not fitting and any(len(layouts[k].shape) > ndim for k in others):
            do = "save one with a row for each sample, array.reshape(len(array), -1), and pass that"
        raise DataError(
            f"{self._label}: expected exactly one {ndim}-D array{' of numbers' if ndim == 2 else ''}, found {len(fitting)}; "
            f"it holds {held}: {do}"
        )


class ArraysInFile(NamedArrays):
    """Arrays whose bytes lie in one file, each in one piece."""

    def __init__(self, path: Path):
        super().__init__(path)
        self._file = FileBytes.open(path, self._label)

    def array(self, name: str) -> NDArray[Any]:
        return whole_array(*self.located(name), self._at(name))

    def located(self, name: str) -> tuple[FileBytes, Layout]:
        """The file the array's bytes are in, and where."""
        return self._file, self._layouts[name]

    def _rows(self, name: str, again: Callable[[], LazyRows]) -> LazyRows:
        return StoredRows(*self.located(name), again)

    def _whole(self, name: str) -> NDArray[Any]:
        return read_whole(*self.located(name), self._at(name))


class NpzFile(ArraysInFile):
    """A zip archive of arrays.

    A stored member is read where it lies in the archive (its checksum is not verified: that would be a
    pass over all of it). A compressed one is unpacked once, a little at a time, into a temporary file
    without a name, and read from there; its checksum is verified.
    """

    def __init__(self, path: Path):
        super().__init__(path)
        self._broken: dict[str, DataError] = {}
        with self._archive() as archive:
            arrays = [member for member in archive.infolist() if member.filename.endswith(".npy")]
            self._members = {member.filename.removesuffix(".npy"): member for member in arrays}
            for name, member in self._members.items():
                try:
                    if (
                        member.compress_type == zipfile.ZIP_BZIP2
                    ):  # which zipfile unpacks without a limit, 40 bytes to 46 MB
                        raise DataError(
                            f"{self._at(name)}: is packed with bz2, which is not read; save it with np.savez."
                        )
                    with self._damage_named(), archive.open(member) as stream:
                        layout = layout_of(_head(stream), self._at(name))
                    check_size(layout, member.file_size, self._at(name))
                    self._layouts[name] = layout
                except DataError as error:  # matters only if this member is the one that is asked for
                    self._broken[name] = error
        self.names = tuple(self._members)

    def layout(self, name: str) -> Layout:
        if name in self._broken:
            raise self._broken[name]
        return super().layout(name)

    def array(self, name: str) -> NDArray[Any]:
        """The array of that name, of any shape, whole and with its checksum verified. `name` must be one of `names`."""
        if name in self._broken:
            raise self._broken[name]
        if self._layouts[name].stored.hasobject:
            raise DataError(pickled(self._at(name)))
        file, layout = self.located(name)
        member, before = self._members[name], self._layouts[name].offset
        try:
            raw = np.empty(layout.nbytes, np.uint8)
        except MemoryError:
            raise DataError(f"{self._at(name)}: {member.file_size:,} bytes do not fit in memory.") from None
        file.read_into(layout.offset, raw)
        if zlib.crc32(raw.data, zlib.crc32(file.read(layout.offset - before, before))) != member.CRC:
            raise self._damaged(f"the checksum of {name!r} differs")
        try:  # a header may declare lengths, dimensions or dtypes that numpy does not have
            values = layout.decode(raw).reshape(layout.shape, order="F" if layout.fortran else "C")
        except (ValueError, OverflowError, TypeError):
            raise self._damaged(f"{name!r} declares shape {layout.shape} of {layout.stored}"[:200]) from None
        return np.ascontiguousarray(values)

    def _choose(self, part: str | None, ndim: int) -> str:
        if part in self._broken:
            raise self._broken[part]
        if part is None and self._broken and not set(self._layouts) - {IDS}:
            raise next(iter(self._broken.values()))
        return super()._choose(part, ndim)

    def _whole(self, name: str) -> NDArray[Any]:
        if self._layouts[name].stored.hasobject:
            raise DataError(pickled(self._at(name)))
        return super()._whole(name)

    def located(self, name: str) -> tuple[FileBytes, Layout]:
        member, layout = self._members[name], self._layouts[name]
        if member.compress_type != zipfile.ZIP_STORED:
            return self._unpacked(name), layout
        return self._file, stored_at(self._file, member, layout, self._damaged)

    def _unpacked(self, name: str) -> FileBytes:
        member = self._members[name]
        check_scratch_room(self._at(name), member.file_size, "save it uncompressed (np.savez)")

        def unpack(file: IO[bytes]) -> None:
            with self._archive() as archive:
                with self._damage_named():
                    stream = archive.open(member)
                limited = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
                with stream:
                    while chunk := self._next(stream, COPY_BYTES if limited else PIECE):
                        file.write(chunk)

        unpacked = scratch_file(self._at(name), unpack)
        if unpacked.size != member.file_size:
            raise self._damaged(f"{name!r} unpacks to {unpacked.size:,} bytes instead of {member.file_size:,}")
        return unpacked

    def _next(self, stream: IO[bytes], size: int) -> bytes:
        with self._damage_named():
            return stream.read(size)

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        with self._file.stream() as stream:
            with self._damage_named():
                archive = zipfile.ZipFile(stream)
            with archive:
                yield archive

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except DataError:
            raise
        except Exception as error:  # zipfile and its decompressors raise a dozen unrelated types on damaged archives
            if is_a_bug(error):
                raise
            head = self._file.read(0, 4)
            if not head.startswith(b"PK"):
                raise DataError(_not_this_format(self._label, ".npz", head)) from None
            raise self._damaged(reason(error)) from None

    def _damaged(self, why: str) -> DataError:
        return DataError(f"{self._label}: the .npz file is damaged or truncated ({why}); copy or write it again.")


class SafetensorsFile(ArraysInFile):
    """Named tensors; `ids` are 1-D integers, or 2-D uint8 that holds UTF-8 padded with zeros."""

    def __init__(self, path: Path):
        super().__init__(path)
        self._unreadable: dict[str, str] = {}
        header_bytes = int.from_bytes(self._file.read(0, LENGTH_BYTES).ljust(LENGTH_BYTES, b"\0"), "little")
        start = LENGTH_BYTES + header_bytes
        if self._file.size < LENGTH_BYTES or header_bytes > MAX_HEADER_BYTES or start > self._file.size:
            raise DataError(
                f"{self._label}: expected a .safetensors file, but its first 8 bytes declare a header of "
                f"{header_bytes:,} bytes in a file of {self._file.size:,}: it is truncated or something else; "
                "copy or write it again."
            )
        if header_bytes > LARGEST_HEADER:
            raise DataError(
                f"{self._label}: expected a header of at most {LARGEST_HEADER:,} bytes, got {header_bytes:,}; save it in several files."
            )
        self._validate(start)
        try:
            header = json.loads(self._file.read(LENGTH_BYTES, header_bytes))
            for name, entry in header.items():
                if name != "__metadata__":
                    self._place(name, entry, start)
            self.metadata = dict(header.get("__metadata__") or {})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            if isinstance(error, DataError):
                raise
            raise self._damaged(f"its header cannot be read: {reason(error)}") from None
        self.names = tuple(self._layouts)

    def _whole(self, name: str) -> NDArray[Any]:
        layout, label = self._layouts[name], self._at(name)
        if not (name == IDS and len(layout.shape) == 2 and layout.stored == np.uint8):
            return super()._whole(name)
        n, width = layout.shape
        if width == 0:
            raise DataError(f"{label}: expected ids, got text of no length.")
        raw = np.empty(n * width, np.uint8)
        self._file.read_into(layout.offset, raw)
        return identities(raw.view(f"S{width}"), label)

    def _choose(self, part: str | None, ndim: int) -> str:
        if part is not None and part in self._unreadable:
            raise DataError(
                f"{self._at(part)} is stored as {self._unreadable[part]}, which cannot be read; "
                f"convert it to one of {', '.join(DTYPES)}."
            )
        return super()._choose(part, ndim)

    def _validate(self, start: int) -> None:
        from safetensors import safe_open  # here: only this format needs it

        try:
            with ExitStack() as stack:
                path: str | Path = self._path
                if isinstance(
                    path, RemotePath
                ):  # its header, and a hole as long as its data: the library reads no more
                    copy = stack.enter_context(tempfile.NamedTemporaryFile(prefix="identifiable-"))
                    copy.write(self._file.read(0, start))
                    copy.truncate(self._file.size)
                    copy.flush()
                    path = copy.name
                stack.enter_context(safe_open(path, framework="numpy")).keys()
        except Exception as error:  # SafetensorError, and what it lets through from json and the system
            raise self._damaged(reason(error)) from None

    def _place(self, name: str, entry: dict[str, Any], start: int) -> None:
        """Check again what the rows will be read by: it costs nothing, and the library's checks vary by version."""
        begin, end = entry["data_offsets"]
        shape = tuple(int(length) for length in entry["shape"])
        if entry["dtype"] not in DTYPES:
            self._unreadable[name] = str(entry["dtype"])
            return
        stored = np.dtype(DTYPES[entry["dtype"]])
        if end - begin != math.prod(shape) * stored.itemsize or begin < 0 or start + end > self._file.size:
            raise self._damaged(f"{name!r} of shape {shape} does not fit its place in the file")
        self._layouts[name] = Layout(start + begin, shape, stored, bfloat16=entry["dtype"] == "BF16")

    def _damaged(self, why: str) -> DataError:
        return DataError(
            f"{self._label}: the .safetensors file is damaged or truncated ({why}); copy or write it again."
        )


def whole_array(file: FileBytes, layout: Layout, label: str) -> NDArray[Any]:
    """An array of any shape in memory."""
    if layout.stored.hasobject:
        raise DataError(pickled(label))
    raw = np.empty(layout.nbytes, np.uint8)
    file.read_into(layout.offset, raw)
    return layout.decode(raw).reshape(layout.shape, order="F" if layout.fortran else "C")


def stored_at(file: FileBytes, member: zipfile.ZipInfo, inside: Layout, damaged: Callable[[str], DataError]) -> Layout:
    """Where an array lies in an archive, from where it lies in a member that is stored as it is.

    The directory of the archive and the header before the member must agree. Where nothing of a zip follows the member, its
    place is in doubt: then its checksum is verified.
    """
    expected = member.orig_filename.encode("utf-8", "replace")
    head = file.read(member.header_offset, LOCAL_HEADER.size + len(expected))
    signature, flags, name_length, extra_length = LOCAL_HEADER.unpack(
        head[: LOCAL_HEADER.size].ljust(LOCAL_HEADER.size, b"\0")
    )
    name = head[LOCAL_HEADER.size :][:name_length].decode("utf-8" if flags & UTF8 else "cp437", "replace")
    start = member.header_offset + LOCAL_HEADER.size + name_length + extra_length
    end = start + member.file_size
    fits = member.compress_size == member.file_size and end <= file.size
    if signature != b"PK\x03\x04" or not fits or name != member.orig_filename:
        raise damaged(f"the entry of {member.filename!r} does not match the archive's directory")
    if file.read(end, 4) not in FOLLOWING and _checksum(file, start, end) != member.CRC:
        raise damaged(f"the checksum of {member.filename!r} does not match its content")
    return replace(inside, offset=start + inside.offset)


def _checksum(file: FileBytes, start: int, end: int) -> int:
    checksum = 0
    for at in range(start, end, COPY_BYTES):
        checksum = zlib.crc32(file.read(at, min(COPY_BYTES, end - at)), checksum)
    return checksum


def _head(stream: IO[bytes]) -> bytes:
    return b"".join(stream.read(PIECE) for _ in range(HEADER_BYTES // PIECE))


def layout_of(head: bytes, label: str) -> Layout:
    """The layout that the first bytes of a .npy file declare."""
    if not head.startswith(npy_format.MAGIC_PREFIX):
        raise DataError(_not_this_format(label, ".npy", head))
    stream = io.BytesIO(head)
    try:
        with warnings.catch_warnings():  # about headers written by Python 2, and by ast about odd literals
            warnings.simplefilter("ignore")
            version = npy_format.read_magic(stream)
            if version not in VERSIONS:
                raise ValueError(f"version {version[0]}.{version[1]}")
            width = 2 if version == (1, 0) else 4
            length = int.from_bytes(stream.read(width), "little")
            text = stream.read(length)
            if len(text) < length:
                raise ValueError(f"EOF after {len(text):,} of {length:,} bytes")
            # without padding: where a byte is damaged, numpy takes time with the square of a run of spaces before it
            short = re.sub(rb"[ \t\r\n]+", b" ", text)
            # 3.0 differs from 2.0 only in the encoding of field names, which a table of numbers has none of
            read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
            shape, fortran, dtype = read(io.BytesIO(len(short).to_bytes(width, "little") + short))
            if dtype.subdtype is not None:
                raise ValueError(f"each of its numbers is an array, {dtype}")
    except Exception as error:  # the text between the braces is anyone's: parsing it raises nearly anything
        raise DataError(f"{label}: the .npy header is damaged ({reason(error)}); write the file again.") from None
    if any(length < 0 for length in shape):
        raise DataError(f"{label}: the .npy header declares a negative length, shape {shape}; write the file again.")
    return Layout(stream.tell(), tuple(int(length) for length in shape), np.dtype(dtype), bool(fortran))


def safetensors_header(header: dict[str, Any]) -> bytes:
    """How a `.safetensors` begins. Laid out here and not by the library, which writes metadata in a random order."""
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)  # the format wants its data aligned
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def check_size(layout: Layout, size: int, label: str) -> None:
    """The declared shape must account for every byte, before anything is allocated."""
    if layout.stored.hasobject:
        return  # refused later, for a better reason
    expected = layout.nbytes
    present = size - layout.offset
    if present == expected:
        return
    if present < expected:
        raise DataError(
            f"{label}: truncated: shape {layout.shape} of {layout.stored} needs {expected:,} bytes, "
            f"the file holds {present:,}; copy or write it again."
        )
    raise DataError(
        f"{label}: {present - expected:,} bytes follow the array of shape {layout.shape} "
        "(several arrays in one file, or damage); save each array in its own file."
    )


def _not_this_format(label: str, expected: str, head: bytes) -> str:
    known = [what for magic, what in MAGIC.items() if head.startswith(magic)]
    got = f"what looks like {known[0]}" if known else f"a file that begins with {head[:8]!r}"
    return f"{label}: expected a {expected} file, got {got}; check how it was written."
