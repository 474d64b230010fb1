"""Arrays, and tables with the metadata of their rows, written whole or not at all, in blocks of rows."""

from __future__ import annotations

import csv
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from identifiable._checks import DataError, OutputError, UsageError
from identifiable._extras import require
from identifiable.blocks import Blocks
from identifiable.io.anndata_writing import write_anndata, write_anndata_store, write_matrix, writing_hdf5
from identifiable.io.array_files import DTYPES, safetensors_header
from identifiable.io.containers import IDS, identities, shown, suffix_of
from identifiable.io.label_columns import ID_NAMES, is_metadata
from identifiable.results import to_json, whole_file, whole_folder

VALUES = "values"
GROUP_VALUES = 2**22  # features in a group of rows of a `.parquet`
PREFIX = "feature_"
PYCYTOMINER = "Metadata_"


def save_records(
    path: str | os.PathLike[str], name: str, records: Iterable[Mapping[str, Any]], about: Mapping[str, Any]
) -> Path:
    """Write records with the same keys to a `.csv` (None is an empty cell), or to a `.json` under `name`, beside what they are about."""
    path = Path(path)
    with (
        whole_file(path) as temporary,
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        if path.suffix.lower() == ".csv":
            rows = iter(records)
            first = next(rows)
            writer = csv.DictWriter(file, list(first), lineterminator="\n")
            writer.writeheader()
            writer.writerows(chain([first], rows))
        else:
            file.write(to_json({**about, name: list(records)}))
    return path


class _Run:
    """Rows of a table from one to another. A `blocks.Rows`."""

    def __init__(self, source: Blocks, start: int, stop: int):
        self.source, self.start, self.dtype = source, start, source.dtype
        self.shape = (stop - start, source.d)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(self.shape[0])
        return self.source[self.start + start : self.start + stop]


class _Table(NamedTuple):
    """What is written: values, ids, labels and the names of the values' columns."""

    blocks: Blocks
    ids: NDArray[Any] | None
    labels: Mapping[str, NDArray[Any]]
    names: Sequence[str] | None
    pycytominer: bool = False

    def part(self, start: int, stop: int) -> _Table:
        """Some of the rows."""
        blocks = Blocks(_Run(self.blocks, start, stop), rows=self.blocks.rows, name=self.blocks.name)
        ids = None if self.ids is None else self.ids[start:stop]
        return self._replace(blocks=blocks, ids=ids, labels={k: v[start:stop] for k, v in self.labels.items()})

    @property
    def without_labels(self) -> _Table:
        """For text, where a reader could not tell words beside numbers from a mistake."""
        return self._replace(labels={})

    def columns(self, label: str) -> tuple[list[str], dict[str, NDArray[Any]]]:
        """The names of the features and the columns beside them, checked; `label` is for errors."""
        values = self.blocks
        names = [f"{PREFIX}{j}" for j in range(values.d)] if self.names is None else [str(name) for name in self.names]
        columns = {str(name): np.asarray(column) for name, column in self.labels.items()}
        if self.ids is not None and not any(_same(column, self.ids) for column in columns.values()):
            free = next(name for name in (*ID_NAMES, "identifiable_id") if name not in columns)
            columns = {free: np.asarray(self.ids), **columns}
        if len(names) != values.d:
            raise DataError(f"{label}: expected a name for each of {values.d} features, got {len(names)}.")
        called = [PYCYTOMINER + name if self.pycytominer and not is_metadata(name) else name for name in columns]
        twice = [name for name, times in Counter([*called, *names]).items() if times > 1]
        if twice:
            raise DataError(f"{label}: two columns would be called {shown(twice[0])!r}; rename one.")
        columns = dict(zip(called, columns.values(), strict=True))
        for name, column in columns.items():
            if column.shape != (values.n,) or column.dtype.kind not in "iufbU":
                raise DataError(
                    f"{label}: column {shown(name)!r}: expected numbers or text for {values.n} rows, got {column.dtype} of "
                    f"shape {column.shape}."
                )
        return names, columns


def save_array(
    path: str | os.PathLike[str],
    values: Any,
    ids: NDArray[Any] | None = None,
    labels: Mapping[str, NDArray[Any]] | None = None,
    names: Sequence[str] | None = None,
    *,
    shards: Mapping[str, int] | None = None,
) -> Path:
    """Write a table, whole or not at all, and return its path; the suffix tells the format.

    `values` is an array, a `Blocks` or anything else that can be read in blocks: rows are written as
    they are read. A `.npz`, `.safetensors` or `.h5` holds two arrays, `values` and, if there are any, `ids`; text ids in a
    `.safetensors` are UTF-8 in uint8, padded with zeros. A `.npy` has no place for ids. A `.parquet`, `.arrow` or `.feather`
    has columns `id` and `feature_0`, …, and so has a `.csv` or `.tsv`, with numbers as the shortest text that reads back as the
    same; a `.h5ad` and a `.zarr` are AnnData, with the values in `X` and the ids in
    `obs_names`. `names` of the values' columns go into these seven only, `labels`, further columns of the rows, into those of them
    that are not text.

    With `shards`, names of files and how many rows each of them has, the path is that of a folder for these files.
    """
    path = Path(path)
    forms = sorted({suffix_of(Path(name)) for name in shards} if shards is not None else {path.suffix.lower()})
    if any(form not in WRITERS for form in forms):
        what = forms[0] or "a file without a suffix"
        raise OutputError(f"{path}: cannot write {what}; choose one of {', '.join(WRITERS)}.")
    if ids is not None and ".npy" in forms:
        raise UsageError(f"{path}: a .npy file has no place for ids; choose .npz or .safetensors.")
    blocks = values if isinstance(values, Blocks) else Blocks(values, name=path.name)
    if ids is not None:
        ids = np.asarray(ids)
        ids = identities(ids.astype(str) if ids.dtype.kind == "O" else ids, str(path))
        if ids.shape != (blocks.n,):
            raise DataError(f"{path}: expected one id for each of {blocks.n} rows, got ids of shape {ids.shape}.")
    table = _Table(blocks, ids, labels or {}, names)
    if shards is None:
        with (whole_folder if forms[0] in FOLDERS else whole_file)(path) as temporary:
            WRITERS[forms[0]](temporary, table)
        return path
    if sum(shards.values()) != blocks.n:
        raise UsageError(f"{path}: shards of {sum(shards.values())} rows, got {blocks.n}; write one file.")
    start = 0
    with whole_folder(path) as temporary:
        for name, n in shards.items():
            WRITERS[forms[0]](temporary / name, table.part(start, start + n))
            start += n
    return path


def save_table(
    path: str | os.PathLike[str],
    values: Blocks,
    labels: Mapping[str, NDArray[Any]],
    *,
    ids: NDArray[Any] | None = None,
    feature_names: Sequence[str] | None = None,
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
    names, columns = _Table(values, ids, labels, feature_names, pycytominer).columns(str(path))
    with whole_file(path) as temporary:
        if suffix == ".parquet":
            write_parquet(temporary, values, names, columns)
        else:
            _write_csv(temporary, values, names, columns)
    return path


def save_arrays(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]]) -> Path:
    """Write small arrays by name to a `.npz`, whole or not at all, and return its path."""
    with whole_file(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy_format.write_array(member, np.asarray(values), allow_pickle=False)
    return Path(path)


def _same(column: NDArray[Any], ids: NDArray[Any]) -> bool:
    return column.dtype.kind in "iuU" and np.array_equal(column.astype(str), np.asarray(ids).astype(str))


def write_parquet(path: Path, values: Blocks, names: Sequence[str], columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns of labels and of features to `path` itself, a group of rows at a time."""
    require("pyarrow", extra="tables", what="writing .parquet")
    from pyarrow.parquet import ParquetWriter

    schema, tables = _arrow_tables(values, names, columns, ".parquet")
    # Dictionaries serve columns that repeat; features do not, and a reader would hold one for each of them.
    # By a file of Python: of a path pyarrow wants UTF-8.
    with path.open("wb") as file, ParquetWriter(file, schema, use_dictionary=list(columns) or False) as writer:
        for table in tables:
            writer.write_table(table)


def _write_arrow(path: Path, values: Blocks, names: Sequence[str], columns: Mapping[str, NDArray[Any]]) -> None:
    """The same as a file of Arrow, not compressed."""
    require("pyarrow", extra="tables", what="writing .arrow")
    import pyarrow as pa

    schema, tables = _arrow_tables(values, names, columns, ".arrow")
    with path.open("wb") as file, pa.ipc.new_file(file, schema) as writer:
        for table in tables:
            writer.write_table(table)


def _arrow_tables(
    values: Blocks, names: Sequence[str], columns: Mapping[str, NDArray[Any]], form: str
) -> tuple[Any, Iterator[Any]]:
    """The schema of columns of labels and of features, and groups of their rows."""
    import pyarrow as pa

    dtype = values.dtype.newbyteorder("=")
    try:
        kind = pa.from_numpy_dtype(dtype)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise DataError(
            f"{values.name}: a {form} file cannot hold {dtype}; convert it to float32 or float64."
        ) from None
    arrays = {name: _arrow(column) for name, column in columns.items()}
    schema = pa.schema([*((name, array.type) for name, array in arrays.items()), *((name, kind) for name in names)])
    step = max(GROUP_VALUES // values.d, 1)

    def tables() -> Iterator[Any]:
        for start in range(0, values.n, step):
            block = np.ascontiguousarray(values[start : min(start + step, values.n)].T, dtype)
            beside = [array.slice(start, block.shape[1]) for array in arrays.values()]
            yield pa.Table.from_arrays([*beside, *map(pa.array, block)], schema=schema)

    return schema, tables()


def _write_csv(
    path: Path, values: Blocks, names: Sequence[str], columns: Mapping[str, NDArray[Any]], delimiter: str = ","
) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
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


def _write_npy(file: IO[bytes], blocks: Blocks, ids: NDArray[Any] | None) -> None:
    dtype = _little_endian(blocks.dtype)
    header = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": blocks.shape}
    npy_format.write_array_header_1_0(file, header)
    _write_rows(file, blocks, dtype)


def _write_npz(file: IO[bytes], blocks: Blocks, ids: NDArray[Any] | None) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        if ids is not None:
            with archive.open(f"{IDS}.npy", "w") as member:
                npy_format.write_array(member, ids, allow_pickle=False)
        with archive.open(f"{VALUES}.npy", "w", force_zip64=True) as member:
            _write_npy(member, blocks, None)


def _write_safetensors(file: IO[bytes], blocks: Blocks, ids: NDArray[Any] | None) -> None:
    dtype = _little_endian(blocks.dtype)
    names = {code: name for name, code in DTYPES.items() if name != "BF16"}
    if dtype.str not in names:
        raise DataError(f"{blocks.name}: a .safetensors file cannot hold {dtype}; convert it to float32 or float64.")
    end = blocks.n * blocks.d * dtype.itemsize
    header: dict[str, Any] = {
        VALUES: {"dtype": names[dtype.str], "shape": list(blocks.shape), "data_offsets": [0, end]}
    }
    tail = None if ids is None else _padded(ids)
    if tail is not None:
        entry = {"dtype": names[tail.dtype.str], "shape": list(tail.shape), "data_offsets": [end, end + tail.nbytes]}
        header[IDS] = entry
    file.write(safetensors_header(header))
    _write_rows(file, blocks, dtype)
    if tail is not None:
        file.write(tail.tobytes())


def _padded(ids: NDArray[Any]) -> NDArray[Any]:
    """Integer ids as they are; text as rows of UTF-8 bytes, padded with zeros."""
    if ids.dtype.kind != "U":
        return ids.astype(_little_endian(ids.dtype), copy=False)
    encoded = np.char.encode(ids, "utf-8")
    return encoded.view(np.uint8).reshape(len(ids), encoded.itemsize)


def _write_hdf5(path: Path, table: _Table) -> None:
    require("h5py", extra="anndata", what="writing .h5")
    with writing_hdf5(path, "w") as (root, disk):
        write_matrix(root, VALUES, table.blocks, disk)
        if table.ids is not None:
            root[IDS] = table.ids.astype(object) if table.ids.dtype.kind == "U" else table.ids


def _write_rows(file: IO[bytes], blocks: Blocks, dtype: np.dtype[Any]) -> None:
    for block in blocks:
        file.write(np.ascontiguousarray(block, dtype).data)


def _little_endian(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("<")


def _to_file(write: Callable[[IO[bytes], Blocks, NDArray[Any] | None], None]) -> Callable[[Path, _Table], None]:
    """The writer to a path from one to an open file, for formats without a place for labels."""

    def to_path(path: Path, table: _Table) -> None:
        with path.open("wb") as file:
            write(file, table.blocks, table.ids)

    return to_path


WRITERS: dict[str, Callable[[Path, _Table], None]] = {
    ".npy": _to_file(_write_npy),
    ".npz": _to_file(_write_npz),
    ".safetensors": _to_file(_write_safetensors),
    ".parquet": lambda path, t: write_parquet(path, t.blocks, *t.columns(t.blocks.name)),
    ".arrow": lambda path, t: _write_arrow(path, t.blocks, *t.columns(t.blocks.name)),
    ".feather": lambda path, t: _write_arrow(path, t.blocks, *t.columns(t.blocks.name)),
    ".csv": lambda path, t: _write_csv(path, t.blocks, *t.without_labels.columns(t.blocks.name)),
    ".tsv": lambda path, t: _write_csv(path, t.blocks, *t.without_labels.columns(t.blocks.name), delimiter="\t"),
    ".h5ad": lambda path, t: write_anndata(path, t.blocks, t.labels, ids=t.ids, feature_names=t.names),
    ".h5": _write_hdf5,
    ".hdf5": _write_hdf5,
    ".zarr": lambda path, t: write_anndata_store(path, t.blocks, t.labels, ids=t.ids, feature_names=t.names),
}
FOLDERS = (".zarr",)  # formats that are a folder of files
WITH_LABELS = (
    ".parquet",
    ".arrow",
    ".feather",
    ".h5ad",
    ".zarr",
)  # formats that have a place for columns beside the values
