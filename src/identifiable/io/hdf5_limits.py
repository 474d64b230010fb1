"""What an HDF5 file declares, compared with its size before the library believes it.

HDF5 and h5py allocate what a header says: one damaged byte in a file of 20 kB made them take gigabytes and half a minute. And HDF5
(2.0 too) reads a heap in which nothing is left to read for ever.
"""

from __future__ import annotations

import math
from typing import Any

from identifiable.io.stored_rows import FileBytes

HEAP, HEAP_HEADER, OBJECT_HEADER = (
    b"GCOL",
    16,
    16,
)  # a collection of texts of any length, and what is before each of them
LOOKED_THROUGH = 2**27  # bytes of a file that is searched for heaps; of a longer one nothing is known
PIECE = 2**22
RATIO = 1032  # deflate's limit
PACKED = 2**15  # of filters that others provide: a block of 128 kB in 4 bytes, as zstd has
LEAST = 2**20  # bytes that a chunk may always have


def check_heaps(file: FileBytes) -> None:
    """Refuse heaps that end nowhere (ValueError)."""
    if file.size > LOOKED_THROUGH:
        return
    for start in range(0, file.size, PIECE):
        data = file.read(start, PIECE + len(HEAP))
        at = data.find(HEAP)
        while at >= 0:
            _check_heap(file, start + at)
            at = data.find(HEAP, at + 1)


def _check_heap(file: FileBytes, at: int) -> None:
    head = file.read(at, HEAP_HEADER)
    size = int.from_bytes(head[8:], "little")
    if head[4:8] != b"\x01\0\0\0" or at + size > file.size:  # then HDF5 refuses it, or it is no heap
        return
    heap, place = file.read(at, size), HEAP_HEADER
    while place + OBJECT_HEADER <= size:
        length = int.from_bytes(heap[place + 8 : place + OBJECT_HEADER], "little")
        unused = heap[place : place + 2] == b"\0\0"
        if unused and length == 0:
            raise ValueError(f"the heap at byte {at:,} has no end")
        place += length if unused else OBJECT_HEADER + -(-length // 8) * 8


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
        return
    ratio = PACKED if _has_others(dataset) else RATIO
    chunk = math.prod(dataset.chunks) * item
    if chunk > max(min(ratio * held, 8 * size), LEAST):
        raise ValueError(f"{said} in chunks of {chunk:,} bytes")
    expected = math.prod(-(-length // step) for length, step in zip(dataset.shape, dataset.chunks, strict=True))
    if size > ratio * held or expected * 8 > ratio * held:
        raise ValueError(f"{said} in a file of {held:,} bytes")
    stored = dataset.id.get_num_chunks()
    if stored < expected:
        raise ValueError(f"{said}, and {expected - stored:,} of its {expected:,} chunks are missing")


def check_attribute(element: Any, name: str) -> None:
    """Refuse an attribute that declares more than its file has (ValueError)."""
    if not hasattr(element.attrs, "get_id") or name not in element.attrs:  # zarr's are text
        return
    found = element.attrs.get_id(name)
    size, held = math.prod(found.shape) * found.get_type().get_size(), element.file.id.get_filesize()
    if size > held:
        raise ValueError(f"attribute {name!r} declares {size:,} bytes in a file of {held:,}")


def _has_others(dataset: Any) -> bool:
    """Whether its chunks are coded by filters that HDF5 itself does not have: those are numbered from 256 on, but for LZF."""
    plist = dataset.id.get_create_plist()
    codes = [plist.get_filter(k)[0] for k in range(plist.get_nfilters())]
    return any(code >= 256 and code != 32000 for code in codes)
