"""`.parquet`: columns of numbers as rows, and the columns beside them; tables with metadata written, also as `.csv`.

Parquet keeps columns in large groups of rows, so that a few rows cost as much as a group: the wanted columns
are unpacked once, `PANEL` of them at a time (of each, pyarrow holds some 2 MB), into a temporary file without
a name, from which rows are then read like those of a `.npy`. 222,601 x 384 float32 in one group: 3.3 s of one
core and 300 MB at most; all columns at once took 930 MB.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, OutputError, check_matrix_shape
from identifiable._extras import require
from identifiable.blocks import Blocks
from identifiable.io.containers import (
    IdentifiedColumn,
    IdentifiedRows,
    LabelledRows,
    identities,
    listed,
    reason,
    shown,
)
from identifiable.io.label_columns import (
    FeatureChoice,
    Kind,
    choose_features,
    columns_named,
    filled_ids,
    is_id_name,
    is_metadata,
    labels_from_numbers,
    labels_from_objects,
    own_id_name,
    taken,
)
from identifiable.io.stored_rows import Layout, StoredRows, check_scratch_room, scratch_file
from identifiable.io.tables import ID_NAMES
from identifiable.results import Alert
from identifiable.results.writing import whole_file

PANEL = 48  # columns decoded side by side
BATCH_ROWS = 4096
LIST_BATCH_ROWS = 1024  # a row of lists may be long
BUFFER_BYTES = 65_536  # read ahead in each column; without a limit a column of a group is read whole
GROUP_VALUES = 2**22  # features in a group of rows that is written at once
PREFIX = "feature_"
PYCYTOMINER = "Metadata_"
UNNAMED_INDEX = "__index_level_"  # what pandas calls an index without a name


class ParquetTable:
    """Columns of numbers, text and the like in a `.parquet`; with `gaps`, empty cells of features are NaN."""

    def __init__(self, path: Path, *, gaps: bool = False):
        require("pyarrow", extra="tables", what=f"reading {path}")
        self._path, self._label, self._gaps = path, str(path), gaps
        self._kept: dict[str, NDArray[Any]] = {}
        with self._opened() as file:
            schema = file.schema_arrow
            self._n = int(file.metadata.num_rows)
            self._types = dict(zip(schema.names, schema.types, strict=True))
            self._kinds = {name: _kind(kind) for name, kind in self._types.items()}
            self.names = tuple(schema.names)
            self._index = [name for name in _pandas_index(schema.metadata) if name in self._types]
        twice = (
            sorted({name for name in self.names if self.names.count(name) > 1})
            if len(self._types) < len(self.names)
            else []
        )
        if twice:
            raise DataError(f"{self._label}: several columns are called {shown(twice[0])!r}; rename all but one.")

    def table(self, part: str | None, *, ids: str | None, own_ids: bool) -> IdentifiedRows:
        choice = self.features(part, ids)
        id_name = ids or (self._own_ids(choice.names) if own_ids else None)
        row_ids = None if id_name is None else self._ids(id_name)
        named = self._kinds[choice.names[0]] != "list"
        return IdentifiedRows(self.rows(choice.names), row_ids, choice.names if named else None)

    @property
    def column_names(self) -> tuple[str, ...]:
        return self.names

    def column(self, part: str | None) -> IdentifiedColumn:
        wanted = self._one_column(part)
        id_name = self._own_ids([wanted])
        return IdentifiedColumn(self._ids(wanted), None if id_name is None else self._ids(id_name))

    def labelled(self, features: Sequence[str] | str | None, ids: str | None) -> LabelledRows:
        choice = self.features(features, ids)
        rows = self.rows(choice.names)
        labels, notes = self.labels([name for name in self._columns() if name not in set(choice.names)])
        id_name = ids or self._own_ids(choice.names)
        names = choice.names
        named = self._kinds[names[0]] != "list"
        if not named:
            names = tuple(f"{names[0]}_{j}" for j in range(rows.shape[1]))
        row_ids = None if id_name is None else self._ids(id_name)
        return LabelledRows(rows, names, labels, row_ids, id_name, (*choice.notes, *notes), named)

    def features(self, asked: Sequence[str] | str | None, ids: str | None = None) -> FeatureChoice:
        kinds = {name: self._kinds[name] for name in self._columns() if name not in (ids, *self._index)}
        if asked is None:  # what looks like ids is no feature unless named as one
            kinds = {name: kind for name, kind in kinds.items() if not is_id_name(name)}
        return choose_features(kinds, asked, self._label)

    def labels(self, names: Sequence[str]) -> tuple[dict[str, NDArray[Any]], tuple[Alert, ...]]:
        """Columns in memory, and what could not be one; the index of pandas only if it has a name."""
        found: dict[str, NDArray[Any]] = {}
        left_out = []
        for name in names:
            values = self._label_of(name)
            if values is None:
                left_out.append(f"{shown(name)} ({str(self._types[name])[:40]})")
            else:
                found[name] = values
        return found, (Alert("reading", {"left_out": left_out}),) if left_out else ()

    def metadata(self, part: str | None = None) -> tuple[dict[str, NDArray[Any]], NDArray[Any] | None, str | None]:
        labels, _ = self.labels(columns_named(self._columns(), part, self._label))
        id_name = self._own_ids(())
        return labels, None if id_name is None else self._ids(id_name), id_name

    def rows(self, features: tuple[str, ...]) -> StoredRows:
        """The rows of some columns, unpacked."""
        if self._kinds[features[0]] == "list":
            width = self._list_width(features[0])
            dtype = np.dtype(self._types[features[0]].value_type.to_pandas_dtype())
        else:
            width = len(features)
            dtype = np.result_type(*(np.dtype(self._types[name].to_pandas_dtype()) for name in features))
        check_matrix_shape((self._n, width), self._label)
        layout = Layout(0, (self._n, width), dtype)
        size = self._n * width * dtype.itemsize
        check_scratch_room(self._label, size * (1 if len(features) <= PANEL else 2), "name fewer columns")
        file = scratch_file(self._label, partial(self._unpack, features, layout))
        if file.size != size:
            raise self._damaged(f"it declares {self._n:,} rows and holds another number")
        return StoredRows(file, layout, partial(_again, self._path.absolute(), features, self._gaps))

    def _unpack(self, features: tuple[str, ...], layout: Layout, file: IO[bytes]) -> None:
        if len(features) <= PANEL:
            self._write_panel(features, layout, file)
            return
        panels = [features[a : a + PANEL] for a in range(0, len(features), PANEL)]

        def write(scratch: IO[bytes]) -> None:
            for panel in panels:
                self._write_panel(panel, layout, scratch)

        side_by_side = scratch_file(self._label, write)
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
        with self._opened() as parquet:
            at = 0
            for batch in self._batches(parquet, names, LIST_BATCH_ROWS if is_list else BATCH_ROWS):
                if is_list:
                    block = self._from_lists(batch.column(names[0]), names[0], layout, at)
                else:
                    block = np.empty((batch.num_rows, len(names)), layout.stored)
                    for j, name in enumerate(names):
                        column = batch.column(name)
                        self._refuse_nulls(column, name, at)
                        block[:, j] = column.to_numpy(zero_copy_only=False)
                file.write(np.ascontiguousarray(block).data)
                at += batch.num_rows

    def _refuse_nulls(self, column: Any, name: str, first: int) -> None:
        if column.null_count and not (self._gaps and self._kinds[name] == "float"):
            row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise DataError(
                f"{self._label}: row {row} (from 0), column {shown(name)!r}: the cell is empty (null); "
                "fill it in, drop the row, or choose other columns."
            )

    def _from_lists(self, column: Any, name: str, layout: Layout, first: int) -> NDArray[Any]:
        width = layout.shape[1]
        lengths = np.nan_to_num(column.value_lengths().to_numpy(zero_copy_only=False), nan=-1)
        if (lengths != width).any() or column.null_count:
            row = int(np.argmax(lengths != width))
            got = "nothing" if lengths[row] < 0 else f"{int(lengths[row])}"
            raise DataError(
                f"{self._label}: row {first + row} (from 0), column {shown(name)!r}: expected a list of {width} numbers, "
                f"as in row 0, got {got}; every row needs as many."
            )
        values = column.flatten()
        if values.null_count and not self._gaps:
            row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // width
            raise DataError(
                f"{self._label}: row {first + row} (from 0), column {shown(name)!r}: a number of the list is empty (null)."
            )
        return np.asarray(values.to_numpy(zero_copy_only=False), layout.stored).reshape(len(column), width)

    def _list_width(self, name: str) -> int:
        declared = getattr(self._types[name], "list_size", -1)
        if declared > 0:
            return int(declared)
        with self._opened() as file:
            for batch in self._batches(file, (name,), 1):
                return int(batch.column(name).value_lengths()[0].as_py() or 0)
        return 0

    def _one_column(self, part: str | None) -> str:
        columns = self._columns()
        if part is not None:
            return part if part in columns else columns_named(columns, part, self._label)[0]
        choice = [name for name in columns if name not in self._index and not is_id_name(name)] or columns
        if len(choice) != 1:
            raise DataError(
                f"{self._label}: expected one column, it has {len(choice)} ({_listed(choice)}); "
                f"name one after a colon, as in {self._label}:{shown(choice[0]) if choice else 'NAME'}"
            )
        return choice[0]

    def _columns(self) -> list[str]:
        return [name for name in self.names if not name.startswith(UNNAMED_INDEX)]

    def _own_ids(self, features: Sequence[str]) -> str | None:
        if len(self._index) == 1:
            return self._index[0]
        named = [name for name in self.names if is_id_name(name) and name not in features]
        return own_id_name(named, self._label_of, self._label)

    def _ids(self, name: str) -> NDArray[Any]:
        label = f"{self._label}: column {shown(name)!r}"
        found = self._label_of(name)
        if found is None:
            raise DataError(f"{label}: expected text or whole numbers, got {str(self._types[name])[:60]}.")
        return identities(filled_ids(found, label), label)

    def _label_of(self, name: str) -> NDArray[Any] | None:
        """A column in memory; None if it does not hold single values. One of ids is asked for more than once."""
        if name in self._kept:
            return self._kept[name]
        with self._opened() as file, self._damage_named():
            column = file.read(columns=[name], use_threads=False).column(name)
            values = labels_from_arrow(column, f"{self._label}: column {shown(name)!r}")
        if values is not None and (is_id_name(name) or name in self._index):
            self._kept[name] = values
        return values

    def _batches(self, file: Any, columns: tuple[str, ...], rows: int) -> Iterator[Any]:
        with self._damage_named():
            batches = file.iter_batches(batch_size=rows, columns=list(columns), use_threads=False)
        while True:
            with self._damage_named():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        from pyarrow.parquet import ParquetFile

        with self._damage_named():
            file = ParquetFile(self._path, buffer_size=BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True)
        with file:
            yield file

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except DataError:
            raise
        except Exception as error:  # pyarrow raises ArrowInvalid, OSError, MemoryError, … on damaged files
            raise self._damaged(reason(error)) from None

    def _damaged(self, why: str) -> DataError:
        return DataError(
            f"{self._label}: not a .parquet file, or damaged or truncated ({why}); copy or write it again."
        )


def labels_from_arrow(column: Any, where: str) -> NDArray[Any] | None:
    """A column of Arrow as a label; None if it does not hold single values."""
    import pyarrow as pa

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
    held = encoded.dictionary.to_pylist()
    distinct = labels_from_objects(held, where) if types.is_binary(kind) else np.array(held, dtype=str)
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)
    return taken(distinct, codes)


def save_table(
    path: str | os.PathLike[str],
    values: Blocks,
    labels: Mapping[str, NDArray[Any]],
    *,
    ids: NDArray[Any] | None = None,
    feature_names: Sequence[str] | None = None,
    prefix: str = PREFIX,
    pycytominer: bool = False,
) -> Path:
    """Write a table with the metadata of its rows to a `.parquet` or `.csv`, whole or not at all, in blocks of rows.

    Ids are a column `id`, unless a column of `labels` holds them already. A missing label ("" or NaN) is an empty cell. With
    `pycytominer`, columns that are no features are called ``Metadata_…``. `open_screen` reads what was written.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".parquet", ".csv"):
        raise OutputError(f"{path}: cannot write {suffix or 'a file without a suffix'}; choose .parquet or .csv.")
    names, columns = table_columns(
        str(path), values, labels, ids=ids, feature_names=feature_names, prefix=prefix, pycytominer=pycytominer
    )
    with whole_file(path) as temporary:
        if suffix == ".parquet":
            write_parquet(temporary, values, names, columns)
        else:
            _write_csv(temporary, values, names, columns)
    return path


def write_parquet(path: Path, values: Blocks, names: Sequence[str], columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns of labels and of features to `path` itself, a group of rows at a time."""
    require("pyarrow", extra="tables", what="writing .parquet")
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    dtype = values.dtype.newbyteorder("=")
    try:
        kind = pa.from_numpy_dtype(dtype)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise DataError(
            f"{values.name}: a .parquet file cannot hold {dtype}; convert it to float32 or float64."
        ) from None
    arrays = {name: _arrow(column) for name, column in columns.items()}
    schema = pa.schema([*((name, array.type) for name, array in arrays.items()), *((name, kind) for name in names)])
    step = max(GROUP_VALUES // values.d, 1)
    # Dictionaries serve columns that repeat; features do not, and a reader would hold one for each of them.
    with ParquetWriter(path, schema, use_dictionary=list(arrays) or False) as writer:
        for start in range(0, values.n, step):
            block = np.ascontiguousarray(values[start : min(start + step, values.n)].T, dtype)
            beside = [array.slice(start, block.shape[1]) for array in arrays.values()]
            writer.write_table(pa.Table.from_arrays([*beside, *map(pa.array, block)], schema=schema))


def _write_csv(path: Path, values: Blocks, names: Sequence[str], columns: Mapping[str, NDArray[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, *names])
        start = 0
        for block in values:
            rows = slice(start, start + len(block))
            writer.writerows(
                np.column_stack([*(_cells(column[rows]) for column in columns.values()), _cells(block)]).tolist()
            )
            start += len(block)


def _cells(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers as the shortest text that reads back as the same number; a missing one as nothing."""
    text = values.astype(str).astype(object)
    if values.dtype.kind == "f":
        text[np.isnan(values)] = ""
    return text


def _arrow(column: NDArray[Any]) -> Any:
    import pyarrow as pa

    missing = column == "" if column.dtype.kind == "U" else np.isnan(column) if column.dtype.kind == "f" else None
    return pa.array(column.astype(object) if column.dtype.kind == "U" else column, mask=missing)


def table_columns(
    label: str,
    values: Blocks,
    labels: Mapping[str, NDArray[Any]],
    *,
    ids: NDArray[Any] | None = None,
    feature_names: Sequence[str] | None = None,
    prefix: str = PREFIX,
    pycytominer: bool = False,
) -> tuple[list[str], dict[str, NDArray[Any]]]:
    """The names of the features and the columns beside them, as `save_table` writes them, checked."""
    names = (
        [f"{prefix}{j}" for j in range(values.d)] if feature_names is None else [str(name) for name in feature_names]
    )
    columns = {str(name): np.asarray(column) for name, column in labels.items()}
    if ids is not None and not any(_same(column, ids) for column in columns.values()):
        free = next(name for name in (*ID_NAMES, "identifiable_id") if name not in columns)
        columns = {free: np.asarray(ids), **columns}
    if pycytominer:
        columns = {name if is_metadata(name) else PYCYTOMINER + name: column for name, column in columns.items()}
    if len(names) != values.d:
        raise DataError(f"{label}: expected a name for each of {values.d} features, got {len(names)}.")
    seen = set(columns)
    for name in names:
        if name in seen:
            raise DataError(f"{label}: two columns would be called {shown(name)!r}; rename one.")
        seen.add(name)
    for name, column in columns.items():
        if column.shape != (values.n,) or column.dtype.kind not in "iufbU":
            raise DataError(
                f"{label}: column {shown(name)!r}: expected numbers or text for {values.n} rows, got {column.dtype} of "
                f"shape {column.shape}."
            )
    return names, columns


def _same(column: NDArray[Any], ids: NDArray[Any]) -> bool:
    return column.dtype.kind in "iuU" and np.array_equal(column.astype(str), np.asarray(ids).astype(str))


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


def _listed(names: Sequence[str]) -> str:
    return listed([shown(name) for name in names])


def _again(path: Path, features: tuple[str, ...], gaps: bool) -> StoredRows:
    return ParquetTable(path, gaps=gaps).rows(features)
