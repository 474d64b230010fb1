"""Columns of Arrow as rows, and the columns beside them: what `.parquet`, `.arrow` and `.feather` share, and the last two.

These formats keep columns in large groups of rows, so that a few rows cost as much as a group: the wanted columns
are unpacked once, `PANEL` of them at a time (of each, pyarrow holds some 2 MB), into a temporary file without
a name, from which rows are then read like those of a `.npy`. 222,601 x 384 float32 in one group of a `.parquet`: 3.3 s of
one core and 300 MB at most; all columns at once took 930 MB.
"""

from __future__ import annotations

import json
import mmap
import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, check_matrix_shape
from identifiable._extras import require
from identifiable.io.containers import damage_named, shown
from identifiable.io.label_columns import Kind, labels_from_numbers, labels_from_objects, taken
from identifiable.io.labelled import Found, LabelledTable, check_names
from identifiable.io.stored_rows import (
    FileBytes,
    Layout,
    LazyRows,
    StoredRows,
    check_scratch_room,
    local_copy,
    part_copy,
    reopened,
    scratch_file,
)

PANEL = 48  # columns decoded side by side
BATCH_ROWS = 4096
LIST_BATCH_ROWS = 1024  # a row of lists may be long
LONGEST_TEXT = 2**16  # bytes of an id or a label
UNNAMED_INDEX = "__index_level_"  # what pandas calls an index without a name
FILE_MAGIC = b"ARROW1"  # of a file of Arrow with an index at its end; a stream has none
STREAM_AT = 8  # where the stream begins that lies in such a file
HELD = 2**27  # bytes of a batch that are held in memory
NO_WIDTH = 1024  # in place of the bits of a value of any length


class ArrowColumns(LabelledTable):
    """Columns of numbers, text and the like; with `gaps`, empty cells of features are NaN.

    A format gives `_look`, `_column` and `_batches`.
    """

    form: str

    def __init__(self, path: Path, *, gaps: bool = False):
        require("pyarrow", extra="tables", what=f"reading {path}")
        self._path, self.label, self._gaps = path, str(path), gaps
        with damage_named(self._damaged):
            schema, self._n = self._look()
            self._types = dict(zip(schema.names, schema.types, strict=True))
            self.names = tuple(schema.names)
            self._indices = [name for name in _pandas_index(schema.metadata) if name in self._types]
        check_names(self.names, self.label)
        self._kinds = {name: _kind(kind) for name, kind in self._types.items()}
        self.index = self._indices[0] if len(self._indices) == 1 else None

    @abstractmethod
    def _look(self) -> tuple[Any, int]:
        """The schema, and the number of rows."""

    @abstractmethod
    def _column(self, name: str) -> Any:
        """A column whole, as an array in chunks."""

    @abstractmethod
    def _batches(self, columns: tuple[str, ...], rows: int) -> Iterator[Any]:
        """Some columns, at most so many rows at once."""

    @property
    def n(self) -> int:
        return self._n

    @property
    def column_names(self) -> tuple[str, ...]:
        return self.names

    @property
    def columns(self) -> Sequence[str]:
        """All but an index without a name."""
        return [name for name in self.names if not name.startswith(UNNAMED_INDEX)]

    def kinds(self) -> dict[str, Kind]:
        return {name: self._kinds[name] for name in self.columns if name not in self._indices}

    def heads(self, features: tuple[str, ...], width: int) -> tuple[str, ...] | None:
        return None if self._kinds[features[0]] == "list" else features

    def stored(self, name: str) -> str:
        return str(self._types[name])[:60]

    def read(self, names: Sequence[str]) -> Found:
        found = {}
        for name in names:
            with damage_named(self._damaged):
                found[name] = labels_from_arrow(self._column(name), self.where(name))
        return found

    def outline(self, features: tuple[str, ...]) -> Layout:
        """How the rows of some columns will lie in the file they are unpacked to."""
        if self._kinds[features[0]] == "list":
            width = self._list_width(features[0])
            dtype = np.dtype(self._types[features[0]].value_type.to_pandas_dtype())
        else:
            width = len(features)
            dtype = np.result_type(*(np.dtype(self._types[name].to_pandas_dtype()) for name in features))
        check_matrix_shape((self._n, width), self.label)
        return Layout(0, (self._n, width), dtype)

    def recipe(self, features: tuple[str, ...]) -> partial[LazyRows]:
        """How the rows of some columns are found again."""
        return partial(reopened, type(self), self._path.absolute(), features, gaps=self._gaps)

    def rows(self, features: tuple[str, ...]) -> StoredRows:
        """The rows of some columns, unpacked."""
        layout = self.outline(features)
        size = layout.nbytes
        check_scratch_room(self.label, size * (1 if len(features) <= PANEL else 2), "name fewer columns")
        file = scratch_file(self.label, partial(self._unpack, features, layout))
        if file.size != size:
            raise self._damaged(f"it declares {self._n:,} rows and holds another number")
        return StoredRows(file, layout, self.recipe(features))

    def _unpack(self, features: tuple[str, ...], layout: Layout, file: IO[bytes]) -> None:
        if len(features) <= PANEL:
            self._write_panel(features, layout, file)
            return
        panels = [features[a : a + PANEL] for a in range(0, len(features), PANEL)]

        def write(scratch: IO[bytes]) -> None:
            for panel in panels:
                self._write_panel(panel, layout, scratch)

        side_by_side = scratch_file(self.label, write)
        parts, offset = [], 0
        for panel in panels:
            shape = (self._n, len(panel))
            parts.append(StoredRows(side_by_side, Layout(offset, shape, layout.stored), partial(self.rows, panel)))
            offset += self._n * len(panel) * layout.stored.itemsize
        if side_by_side.size != offset:
            raise self._damaged(f"it declares {self._n:,} rows and holds another number")
        for start in range(0, self._n, BATCH_ROWS):
            file.write(np.hstack([part[start : start + BATCH_ROWS] for part in parts]).data)

    def _write_panel(self, names: tuple[str, ...], layout: Layout, file: IO[bytes]) -> None:
        is_list = self._kinds[names[0]] == "list"
        at = 0
        for batch in self._batches(names, LIST_BATCH_ROWS if is_list else BATCH_ROWS):
            if is_list:
                with damage_named(self._damaged):
                    column = batch.column(names[0])
                block = self._from_lists(column, names[0], layout, at)
            else:
                block = np.empty((batch.num_rows, len(names)), layout.stored)
                for j, name in enumerate(names):
                    with damage_named(
                        self._damaged
                    ):  # the schema of a batch may name other columns than that of the file
                        column = batch.column(name)
                    self._refuse_nulls(column, name, at)
                    block[:, j] = column.to_numpy(zero_copy_only=False)
            file.write(np.ascontiguousarray(block).data)
            at += batch.num_rows

    def _refuse_nulls(self, column: Any, name: str, first: int) -> None:
        if column.null_count and not (self._gaps and self._kinds[name] == "float"):
            row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise DataError(
                f"{self.label}: row {row} (from 0), column {shown(name)!r}: the cell is empty (null); "
                "fill it in, drop the row, or choose other columns."
            )

    def _from_lists(self, column: Any, name: str, layout: Layout, first: int) -> NDArray[Any]:
        width = layout.shape[1]
        lengths = np.nan_to_num(column.value_lengths().to_numpy(zero_copy_only=False), nan=-1)
        if (lengths != width).any() or column.null_count:
            row = int(np.argmax(lengths != width))
            got = "nothing" if lengths[row] < 0 else f"{int(lengths[row])}"
            raise DataError(
                f"{self.label}: row {first + row} (from 0), column {shown(name)!r}: expected a list of {width} numbers, "
                f"as in row 0, got {got}; every row needs as many."
            )
        values = column.flatten()
        if values.null_count and not self._gaps:
            row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // width
            raise DataError(
                f"{self.label}: row {first + row} (from 0), column {shown(name)!r}: a number of the list is empty (null)."
            )
        return np.asarray(values.to_numpy(zero_copy_only=False), layout.stored).reshape(len(column), width)

    def _list_width(self, name: str) -> int:
        declared = getattr(self._types[name], "list_size", -1)
        if declared > 0:
            return int(declared)
        for batch in self._batches((name,), 1):
            return int(batch.column(name).value_lengths()[0].as_py() or 0)
        return 0

    def _damaged(self, why: str) -> DataError:
        return DataError(
            f"{self.label}: not a {self.form} file, or damaged or truncated ({why}); copy or write it again."
        )


class ArrowTable(ArrowColumns):
    """A file or a stream of Arrow (`.arrow`, `.feather`, the files of Hugging Face `datasets`).

    Of a batch only the wanted columns are read; of a stream, and where they would not fit into `HELD` bytes, the batch.
    """

    form = ".arrow or .feather"

    def _look(self) -> tuple[Any, int]:
        self._file = local_copy(self._path, self.label)
        self._copies: dict[tuple[int, int], FileBytes] = {}
        reader = self._reader(None)
        schema = reader.schema
        self._wide = len(schema.names)
        if not schema.names:
            return schema, 0
        narrowest = min(range(len(schema.names)), key=lambda j: _width(schema.types[j]))
        return schema, sum(batch.num_rows for batch in self._all_batches([narrowest]))

    def _column(self, name: str) -> Any:
        import pyarrow as pa

        chunks = [batch.column(0) for batch in self._all_batches([self.names.index(name)])]
        return pa.chunked_array(chunks, self._types[name])

    def _batches(self, columns: tuple[str, ...], rows: int) -> Iterator[Any]:
        batches = self._all_batches([self.names.index(name) for name in columns])
        while True:
            with damage_named(self._damaged):
                batch = next(batches, None)
            if batch is None:
                return
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)

    def _all_batches(self, places: Sequence[int]) -> Iterator[Any]:
        reader = self._reader(places)
        stored = getattr(reader, "num_record_batches", None)
        for batch in iter(reader) if stored is None else map(reader.get_batch, range(stored)):
            batch.validate(full=True)  # offsets of text and lists that lead out of the file
            yield batch

    def _reader(self, places: Sequence[int] | None) -> Any:
        import pyarrow as pa

        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=None if places is None else list(places))

        def content(start: int) -> Any:
            return pa.PythonFile(_Content(self._file, self._copies, start), mode="r")

        if self._file.read(0, len(FILE_MAGIC)) != FILE_MAGIC:
            return pa.ipc.open_stream(content(0), options=options)
        reader = pa.ipc.open_file(content(0), options=options)
        if places is None:
            return reader
        share = 1 if NO_WIDTH in (_width(kind) for kind in reader.schema.types) else len(places) / self._wide
        if self._file.size * share <= HELD * reader.num_record_batches:
            return reader
        # pyarrow hands on the batches of a stream without a copy of its own
        return pa.ipc.open_stream(content(STREAM_AT), options=options)


class _Content:
    """What a file holds from `start` on, as a file object: small parts in memory, large ones as mapped copies without a name.

    The file itself is not mapped: a process dies where another one shortens what it has mapped.
    """

    closed = False

    def __init__(self, file: FileBytes, copies: dict[tuple[int, int], FileBytes], start: int):
        self._file, self._copies, self._start, self._at = file, copies, start, start

    def read(self, size: int) -> bytes | mmap.mmap:
        size = max(min(size, self._file.size - self._at), 0)
        at, self._at = self._at, self._at + size
        if size <= HELD:
            return self._file.read(at, size)
        if (at, size) not in self._copies:  # every panel of columns reads it
            self._copies[at, size] = part_copy(self._file, at, size, "write it again in smaller batches")
        return mmap.mmap(self._copies[at, size].descriptor, 0, access=mmap.ACCESS_READ)

    read_buffer = read  # so called by pyarrow where it takes the bytes as they are

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: self._start, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size}[whence]
        return self.tell()

    def tell(self) -> int:
        return self._at - self._start

    def close(self) -> None:
        self.closed = True


def _width(kind: Any) -> int:
    """Bits of a value; more than of any number where it has no fixed width."""
    try:
        return int(kind.bit_width)
    except ValueError:
        return NO_WIDTH


def labels_from_arrow(column: Any, where: str) -> NDArray[Any] | None:
    """A column of Arrow as a label; None if it does not hold single values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = pa.types
    kind = column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if types.is_null(kind):
        return np.full(len(column), "", dtype="U1")
    if types.is_temporal(kind):
        column, kind = column.cast(pa.string()), pa.string()
    if types.is_decimal(kind):
        column, kind = column.cast(pa.float64()), pa.float64()
    if types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind):
        missing = column.is_null().to_numpy()
        fill = False if types.is_boolean(kind) else 0
        return labels_from_numbers(column.fill_null(fill).to_numpy() if missing.any() else column.to_numpy(), missing)
    if not (
        types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_binary(kind)
    ):
        return None
    if types.is_string_view(kind):
        column = column.cast(pa.large_string())
    encoded = column.dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], column.type).dictionary_encode()
    longest = pc.max(pc.binary_length(encoded.dictionary)).as_py() or 0
    if longest > LONGEST_TEXT:
        raise DataError(
            f"{where}: expected texts of at most {LONGEST_TEXT:,} bytes, got one of {longest:,}; leave the column out."
        )
    held = encoded.dictionary.to_pylist()
    distinct = labels_from_objects(held, where) if types.is_binary(kind) else np.array(held, dtype=str)
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)
    return taken(distinct, codes)


def _kind(kind: Any) -> Kind:
    from pyarrow import types

    if types.is_floating(kind):
        return "float"
    if types.is_integer(kind):
        return "whole"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "list" if types.is_floating(kind.value_type) else "other"
    return "other"


def _pandas_index(metadata: dict[bytes, bytes] | None) -> list[str]:
    """The columns that pandas had as its index."""
    try:
        index = json.loads((metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        return [name for name in index if isinstance(name, str)]
    except (ValueError, KeyError, TypeError, RecursionError):  # written by no pandas: then it has no index
        return []
