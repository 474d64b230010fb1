"""`.safetensors`: a JSON header that says where each tensor lies, then the tensors.

The safetensors library checks the header (lengths, offsets, overlaps); rows are then read in place.
A tensor called `ids` identifies the rows: 1-D integers, or 2-D uint8 holding UTF-8 padded with zeros.
"""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.io.containers import (
    IDS,
    IdentifiedColumn,
    IdentifiedRows,
    check_table,
    choose,
    identities,
    read_whole,
    reason,
    shown,
)
from identifiable.io.stored_rows import FileBytes, Layout, StoredRows

DTYPES = {
    "BOOL": "|b1",
    "U8": "|u1",
    "I8": "|i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "U64": "<u8",
    "I64": "<i8",
    "F16": "<f2",
    "BF16": "<u2",
    "F32": "<f4",
    "F64": "<f8",
    "C64": "<c8",
}
LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000  # the library's own limit


class SafetensorsFile:
    """Named tensors."""

    def __init__(self, path: Path):
        self._path, self._label = path, str(path)
        self._file = FileBytes.open(path, self._label)
        self._layouts: dict[str, Layout] = {}
        self._unreadable: dict[str, str] = {}
        header_bytes = int.from_bytes(self._file.read(0, LENGTH_BYTES).ljust(LENGTH_BYTES, b"\0"), "little")
        start = LENGTH_BYTES + header_bytes
        if self._file.size < LENGTH_BYTES or header_bytes > MAX_HEADER_BYTES or start > self._file.size:
            raise DataError(
                f"{self._label}: expected a .safetensors file, but its first 8 bytes declare a header of "
                f"{header_bytes:,} bytes in a file of {self._file.size:,}: it is truncated or something else; "
                "copy or write it again."
            )
        self._validate()
        try:
            header = json.loads(self._file.read(LENGTH_BYTES, header_bytes))
            for name, entry in header.items():
                if name != "__metadata__":
                    self._place(name, entry, start)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            if isinstance(error, DataError):
                raise
            raise self._damaged(f"its header cannot be read: {reason(error)}") from None
        self.names = tuple(self._layouts)

    def table(self, part: str | None, *, ids: str | None, own_ids: bool) -> IdentifiedRows:
        name = self._choose(part, 2)
        layout = self._layouts[name]
        check_table(layout, f"{self._label}:{shown(name)}")
        rows = StoredRows(self._file, layout, partial(_again, self._path.absolute(), name))
        ids = ids or (IDS if own_ids and IDS in self._layouts and name != IDS else None)
        return IdentifiedRows(rows, None if ids is None else self.column(ids).values)

    def column(self, part: str | None) -> IdentifiedColumn:
        name = self._choose(part, 1)
        layout = self._layouts[name]
        own = None
        if name != IDS and IDS in self._layouts and self._layouts[IDS].shape[:1] == layout.shape[:1]:
            own = self.column(IDS).values
        label = f"{self._label}:{shown(name)}"
        if name == IDS and len(layout.shape) == 2 and layout.stored == np.uint8:
            return IdentifiedColumn(self._padded_text(layout, label), own)
        return IdentifiedColumn(read_whole(self._file, layout, label), own)

    def _padded_text(self, layout: Layout, label: str) -> NDArray[Any]:
        n, width = layout.shape
        if width == 0:
            raise DataError(f"{label}: expected ids, got text of no length.")
        raw = np.empty(n * width, np.uint8)
        self._file.read_into(layout.offset, raw)
        return identities(raw.view(f"S{width}"), label)

    def _choose(self, part: str | None, ndim: int) -> str:
        if part is not None and part in self._unreadable:
            raise DataError(
                f"{self._label}:{shown(part)} is stored as {self._unreadable[part]}, which cannot be read; "
                f"convert it to one of {', '.join(DTYPES)}."
            )
        return choose(self._layouts, part, ndim, self._label)

    def _validate(self) -> None:
        from safetensors import safe_open  # here: only this format needs it

        try:
            with safe_open(self._path, framework="numpy") as library:
                library.keys()
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


def _again(path: Path, name: str) -> StoredRows:
    return SafetensorsFile(path).table(name, ids=None, own_ids=False).rows
