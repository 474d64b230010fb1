"""What an HDF5 file declares, compared with its size before the library believes it.

HDF5 and h5py allocate what a header says: one damaged byte in a file of 20 kB made them take gigabytes and half a minute. And HDF5
(2.0 too) reads a heap in which nothing is left to read for ever.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.io.stored_rows import FileBytes

HEAP, HEAP_HEADER, OBJECT_HEADER = (
    b"GCOL",
    16,
    16,
)  # a collection of texts of any length, and what is before each of them
NAMES, NAMES_HEADER, FREE_PLACE, LAST_FREE = (
    b"HEAP",
    32,
    16,
    1,
)  # a heap of names of a group; a free place says where the next is
SIGNATURE, USER_BLOCKS = b"\x89HDF\r\n\x1a\n", [512 << k for k in range(20)]
LOOKED_THROUGH = 2**27  # bytes of a file that is searched for heaps; of a longer one nothing is known
PIECE = 2**22
RATIO = 1032  # deflate's limit
PACKED = 2**15  # of filters that others provide: a block of 128 kB in 4 bytes, as zstd has
LEAST = 2**20  # bytes that a chunk may always have
LARGE, DENSE = 2**27, 100  # bytes of a chunk, which is unpacked whole, above which it may not be packed 100 to 1
DEFLATE, SHUFFLE, CHECKSUM, LZF = 1, 2, 3, 32000  # numbers of filters
CHECKSUM_BYTES = 4
ATTRIBUTE, CONTINUED = 0x0C, 0x10  # kinds of messages in the header of an object
HEADER_PREFIX, MESSAGE_HEADER = 16, 8
MOST_BLOCKS = 100  # of a header; those of a damaged one may lead back to itself
OTHERS = 256  # from here on they are not HDF5's own
REFERENCE = np.dtype(
    [("length", "<u4"), ("heap", "<u8"), ("number", "<u4")]
)  # to a text in a heap, in files of 64-bit places


def check_heaps(file: FileBytes) -> None:
    """Refuse heaps that end nowhere (ValueError)."""
    if file.size > LOOKED_THROUGH:
        return
    base = next((at for at in (0, *USER_BLOCKS) if file.read(at, len(SIGNATURE)) == SIGNATURE), 0)
    for start in range(0, file.size, PIECE):
        data = file.read(start, PIECE + len(HEAP))
        for kind in (HEAP, NAMES):
            at = data.find(kind)
            while at >= 0:
                if kind == HEAP:
                    _check_heap(file, start + at)
                else:
                    _check_names(file, base, start + at)
                at = data.find(kind, at + 1)


def _check_names(file: FileBytes, base: int, at: int) -> None:
    """Refuse a heap of names whose list of free places leads back to itself (IV.A.1.d of the specification of the format)."""
    head = file.read(at, NAMES_HEADER)
    size, free, start = (int.from_bytes(head[k : k + 8], "little") for k in (8, 16, 24))
    if head[4:8] != bytes(4) or base + start + size > file.size:
        return  # no heap, or one that HDF5 refuses
    content = file.read(base + start, size)
    for _ in range(size // FREE_PLACE + 1):
        if free + FREE_PLACE > size:  # as of the last one, which leads to byte 1; and HDF5 refuses what leads out
            return
        follows = int.from_bytes(content[free : free + 8], "little")
        if follows == LAST_FREE:
            return
        free = follows
    raise ValueError(f"the heap at byte {at:,} has no end")


def _check_heap(file: FileBytes, at: int) -> None:
    for _ in _objects(file, at):
        pass


def _objects(file: FileBytes, at: int) -> Iterator[tuple[int, int]]:
    """Number and length of each text in the heap at a place; nothing of what is no heap, which HDF5 refuses."""
    head = file.read(at, HEAP_HEADER)
    size = int.from_bytes(head[8:], "little")
    if head[:8] != HEAP + b"\x01\0\0\0" or at + size > file.size:
        return
    heap, place = file.read(at, size), HEAP_HEADER
    while place + OBJECT_HEADER <= size:
        number = int.from_bytes(heap[place : place + 2], "little")
        length = int.from_bytes(heap[place + 8 : place + OBJECT_HEADER], "little")
        used = OBJECT_HEADER + -(-length // 8) * 8 if number else length
        if used == 0 or place + used > size:
            raise ValueError(f"the heap at byte {at:,} has no end")
        if number:
            yield number, length
        place += used


def _are_texts(dtype: Any) -> bool:
    """Whether values are texts of any length: records and references lie in a file otherwise.

    Lists of any length are refused (ValueError): we read none, and one damaged byte makes such a list of a text, which HDF5 (2.0 too)
    cannot read without ending the process.
    """
    import h5py

    text = h5py.check_string_dtype(dtype)
    if text is None and h5py.check_vlen_dtype(dtype) is not None:
        raise ValueError("lists of any length in place of texts or numbers")
    return text is not None and text.length is None


def _local(element: Any) -> FileBytes | None:
    """The file of a group or dataset; None if it is remote, or has places of another width than REFERENCE."""
    path, (width, _) = element.file.filename, element.file.id.get_create_plist().get_sizes()
    if width != REFERENCE["heap"].itemsize:
        return None
    return FileBytes.open(Path(path), path) if isinstance(path, str) and os.path.isfile(path) else None


def _check_texts(dataset: Any) -> None:
    """Refuse texts that are said to be longer than they are. Those of a remote file, or packed by other filters, are not looked at."""
    file = _local(dataset)
    if file is not None:
        places = np.concatenate([np.zeros(0, REFERENCE), *_places(dataset, file)])
        _check_places(file, dataset.file.userblock_size, places, f"{dataset.name[:80]!r}")


def _check_places(file: FileBytes, base: int, places: NDArray[Any], what: str) -> None:
    for at in np.unique(places["heap"]).tolist():
        here = places[places["heap"] == at]
        held = np.zeros(2**16, np.int64)
        for number, length in _objects(file, base + at) if at else ():
            held[number] = length
        if (here["length"] > held[np.minimum(here["number"], 2**16 - 1)]).any():
            raise ValueError(f"texts of {what} are longer than their places")


def _places(dataset: Any, file: FileBytes) -> Iterator[NDArray[Any]]:
    """Where the texts of a dataset are said to be."""
    if dataset.chunks is None:
        start = dataset.id.get_offset()
        if start is not None:
            yield np.frombuffer(file.read(start, dataset.size * REFERENCE.itemsize), REFERENCE)
        return
    filters = _filters(dataset)
    size = math.prod(dataset.chunks) * REFERENCE.itemsize
    if not {*filters} <= {DEFLATE, SHUFFLE}:
        return
    for k in range(dataset.id.get_num_chunks()):
        skipped, raw = dataset.id.read_direct_chunk(dataset.id.get_chunk_info(k).chunk_offset)
        for bit, code in reversed([*enumerate(filters)]):
            if not skipped >> bit & 1:
                raw = zlib.decompressobj().decompress(raw, size) if code == DEFLATE else _unshuffled(raw)
        yield np.frombuffer(raw[: len(raw) // REFERENCE.itemsize * REFERENCE.itemsize], REFERENCE)


def _unshuffled(raw: bytes) -> bytes:
    """Bytes of each value together again: HDF5 stores the first ones of all values, then the second ones, and so on."""
    return np.frombuffer(raw, np.uint8).reshape(REFERENCE.itemsize, -1).T.tobytes()


def check_dataset(dataset: Any) -> None:
    """Refuse a dataset that declares more than its file can hold, and one of which chunks are missing (ValueError)."""
    if dataset.shape is None:
        return
    held, item = dataset.file.id.get_filesize(), dataset.id.get_type().get_size()
    size = math.prod(dataset.shape) * item
    said = f"{dataset.name[:80]!r} declares {dataset.shape} {str(dataset.dtype)[:40]}"
    if dataset.chunks is None:
        if size > max(dataset.id.get_storage_size(), 0):
            raise ValueError(f"{said}, {dataset.id.get_storage_size():,} bytes are there")
        if _are_texts(dataset.dtype) and size:
            _check_texts(dataset)
        return
    others = any(code >= OTHERS and code != LZF for code in _filters(dataset))
    ratio = PACKED if others else RATIO
    chunk = math.prod(dataset.chunks) * item
    if chunk > max(min(ratio * held, 8 * size), LEAST):
        raise ValueError(f"{said} in chunks of {chunk:,} bytes")
    if chunk > LARGE and size > DENSE * dataset.id.get_storage_size():
        raise ValueError(f"{said} in chunks of {chunk:,} bytes, {dataset.id.get_storage_size():,} are there")
    expected = math.prod(-(-length // step) for length, step in zip(dataset.shape, dataset.chunks, strict=True))
    if size > ratio * held or expected * 8 > ratio * held:
        raise ValueError(f"{said} in a file of {held:,} bytes")
    stored = dataset.id.get_num_chunks()
    if stored < expected:
        raise ValueError(f"{said}, and {expected - stored:,} of its {expected:,} chunks are missing")
    _check_chunks(dataset, chunk)
    if _are_texts(dataset.dtype):
        _check_texts(dataset)


def _check_chunks(dataset: Any, size: int) -> None:
    """Refuse chunks that are shorter than what is done to them needs: HDF5 (2.0 too) ends the process at the checksum of no bytes."""
    filters = _filters(dataset)

    def too_short(chunk: Any) -> bool | None:
        applied = [code for bit, code in enumerate(filters) if not chunk.filter_mask >> bit & 1]
        checksum = CHECKSUM_BYTES * applied.count(CHECKSUM)
        least = checksum + (1 if {*applied} - {SHUFFLE, CHECKSUM} else size)
        return True if chunk.size < least else None  # anything but None is the last

    if dataset.id.chunk_iter(too_short):
        raise ValueError(f"a chunk of {dataset.name[:80]!r} is shorter than its numbers")


def check_attribute(element: Any, name: str) -> None:
    """Refuse an attribute that declares more than its file has (ValueError)."""
    if not hasattr(element.attrs, "get_id") or name not in element.attrs:  # zarr's are text
        return
    found = element.attrs.get_id(name)
    size, held = math.prod(found.shape) * found.get_type().get_size(), element.file.id.get_filesize()
    if size > held:
        raise ValueError(f"attribute {name!r} declares {size:,} bytes in a file of {held:,}")
    file = _local(element) if _are_texts(found.dtype) and size else None
    if file is None:
        return
    base, count = element.file.userblock_size, math.prod(found.shape)
    for content in _attribute_messages(file, base, _address(element), name.encode()):
        places = np.frombuffer(content[: count * REFERENCE.itemsize], REFERENCE)
        _check_places(file, base, places, f"attribute {name!r}")


def _attribute_messages(file: FileBytes, base: int, at: int, name: bytes) -> Iterator[bytes]:
    """What the header of an object says the values of its attribute `name` are.

    h5py has no call that tells the length of a text in an attribute before it is read. The form of a header is fixed ("HDF5 File
    Format Specification", IV.A.1.a and IV.A.2.m). Headers of the newer form have a checksum, by which HDF5 notices damage itself.
    """
    head = file.read(base + at, HEADER_PREFIX)
    if head[:1] != b"\x01":
        return
    blocks = [(at + HEADER_PREFIX, int.from_bytes(head[8:12], "little"))]
    for start, size in blocks:  # which grow meanwhile
        block, place = file.read(base + start, min(size, PIECE)), 0
        while place + MESSAGE_HEADER <= len(block):
            kind, length = (int.from_bytes(block[place + k : place + k + 2], "little") for k in (0, 2))
            content = block[place + MESSAGE_HEADER : place + MESSAGE_HEADER + length]
            place += MESSAGE_HEADER + length
            if kind == CONTINUED and len(content) >= 16 and len(blocks) < MOST_BLOCKS:
                blocks.append((int.from_bytes(content[:8], "little"), int.from_bytes(content[8:16], "little")))
            elif kind == ATTRIBUTE and len(content) > 8:
                yield from _named(content, name)


def _named(message: bytes, name: bytes) -> Iterator[bytes]:
    """The values in the message of an attribute, if it is the one of this name."""
    version, *sizes = message[0], *(int.from_bytes(message[k : k + 2], "little") for k in (2, 4, 6))
    start = 9 if version == 3 else 8
    if message[start : start + sizes[0]].rstrip(b"\0") == name:
        yield message[start + sum(-(-size // 8) * 8 if version == 1 else size for size in sizes) :]


def _address(element: Any) -> int:
    """Where the header of a group or dataset begins."""
    from h5py import h5o

    return int(h5o.get_info(element.id).addr)


def _filters(dataset: Any) -> list[int]:
    """The numbers of the filters that its chunks go through, in order."""
    plist = dataset.id.get_create_plist()
    return [int(plist.get_filter(k)[0]) for k in range(plist.get_nfilters())]
