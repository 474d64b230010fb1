"""Open a file as a `Representation`; read the labels of its rows, or pairs of names."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from identifiable._checks import DataError, PairingError
from identifiable.blocks import Blocks
from identifiable.io.anndata_files import AnnDataFile
from identifiable.io.array_files import NpyFile, NpzFile, SafetensorsFile
from identifiable.io.arrow_files import ArrowTable
from identifiable.io.containers import (
    Container,
    IdentifiedColumn,
    Location,
    check_is_file,
    check_is_folder,
    is_folder,
    is_pattern,
    is_there,
    named,
    split_spec,
    suffix_of,
)
from identifiable.io.hdf5_files import open_hdf5
from identifiable.io.labelled import LabelledTable
from identifiable.io.parquet_files import ParquetTable
from identifiable.io.remote import RemotePath
from identifiable.io.shards import Shard, dataset_files, matched, one_format, open_shards, under
from identifiable.io.tables import TextTable, read_lines
from identifiable.io.torch_files import TorchFile
from identifiable.io.zarr_files import open_zarr
from identifiable.representation import Representation

READERS: dict[str, Callable[..., Container]] = {
    ".npy": NpyFile,
    ".npz": NpzFile,
    ".csv": TextTable,
    ".tsv": TextTable,
    ".csv.gz": TextTable,
    ".tsv.gz": TextTable,
    ".safetensors": SafetensorsFile,
    ".pt": TorchFile,
    ".pth": TorchFile,
    ".parquet": ParquetTable,
    ".arrow": ArrowTable,
    ".feather": ArrowTable,
    ".h5ad": AnnDataFile,
    ".h5": open_hdf5,
    ".hdf5": open_hdf5,
    ".zarr": open_zarr,
}
WITH_GAPS = (TextTable, ParquetTable, ArrowTable)  # these can read empty cells as NaN
LABELLED = tuple(suffix for suffix, reader in READERS.items() if reader in (*WITH_GAPS, AnnDataFile))
ZARR = (".zgroup", ".zarray", "zarr.json")  # one of these lies in the folder of a store
PLAIN_TEXT = (".txt", "")  # one id or label per line
NO_IDS = "none"  # in place of ids: rows are known by their position


def open_representation(
    spec: str | os.PathLike[str],
    *,
    ids: str | None = None,
    rows: int | None = None,
    gaps: bool = False,
    labels: Collection[str] = (),
) -> Representation:
    """The table in a file, its rows read lazily.

    Parameters
    ----------
    spec
        ``path`` or ``path:part``; the path is that of a file, of a folder, a pattern (``runs/*.npy``) or a URL. A part is the
        key of an array in a `.npz`, the name of a tensor in a `.safetensors` or `.pt`, the path of an array in a `.h5` or `.zarr`,
        columns of a `.csv`/`.tsv`/`.parquet`/`.arrow` by names and patterns (``feature_*``, ``a,b``), a column of
        lists in a `.parquet` or `.arrow`, a key of `obsm` or a layer of AnnData. Without one: the only array of a file, all
        columns of a text table, the features of a `.parquet` (`label_columns.choose_features`), `X` of AnnData.
    ids
        Who the rows are: a column of the table, a key or tensor in the same file, or another file
        with one id per row (text lines, `.npy`, ``table.csv:column``, …). Without it: an array called
        `ids` beside the values; in a table a column called `id`, `sample_id` or `index`, or a first
        column without a name; the index that pandas wrote into a `.parquet`; `obs_names` of a `.h5ad`. ``"none"``: these are
        left out, and rows are known by their position.
    rows
        How many rows to read at once (`identifiable.Blocks`).
    gaps
        Read empty cells and the like of a text table or a `.parquet` as NaN, in place of refusing them (`first_gap` tells where).
    labels
        Columns of a text table that hold labels, and no values, unless the part names columns.

    `values.source.stored_dtype` of the result tells how the numbers are stored, which may differ from
    the dtype they are read as (``bfloat16``, ``text``).
    """
    at = located(spec)
    container = _container(at.path, gaps=gaps)
    if isinstance(container, TextTable):
        container.labels = labels
    by_position = ids == NO_IDS and ids not in container.names
    ids = None if by_position else ids
    inside = ids is not None and ids in container.names
    table = container.table(at.part, ids=ids if inside else None, own_ids=ids is None)
    row_ids = table.ids if ids is None or inside else sidecar_ids(ids, at.path, container)
    row_ids = None if by_position else row_ids
    check_count(row_ids, table.rows.shape[0], at.label, ids)
    return Representation(Blocks(table.rows, rows=rows, name=at.label), row_ids, at.name, columns=table.columns)


def located(spec: str | os.PathLike[str]) -> Location:
    """Where an input lies, in a file of a known format."""
    return split_spec(spec, tuple(READERS))


def check_count(row_ids: NDArray[Any] | None, n: int, label: str, source: str | None) -> None:
    if row_ids is not None and len(row_ids) != n:
        raise PairingError(
            f"{label}: {n} rows but {len(row_ids)} ids (from {source or 'the same file'}); give one id for each row."
        )


def column_names(spec: str | os.PathLike[str]) -> tuple[str, ...]:
    """Every column a `.csv`, `.tsv` or `.parquet` has a name for, of whatever kind; nothing of other files."""
    path, _ = located(spec)
    return tuple(getattr(_container(path), "column_names", ()))


def read_labels(spec: str | os.PathLike[str]) -> NDArray[Any]:
    """One label for each row, as text or integers: a column of a table, a 1-D array, or the lines of a text file."""
    return read_label_table(spec)[0]


def read_label_table(spec: str | os.PathLike[str]) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Labels as `read_labels` gives them, and the ids of their rows if the file has them, to join by."""
    path, part = located(spec)
    if suffix_of(path) not in PLAIN_TEXT or is_folder(path):
        column = _container(path).column(part)
    else:
        check_is_file(path)
        if part is not None:
            raise DataError(f"{path}: a text file has one label per line and no parts; drop the colon and {part!r}.")
        column = IdentifiedColumn(read_lines(path), None)
    if not len(column.values):
        raise DataError(f"{path}: expected one label per row, found none.")
    return column.values, column.ids


def read_pairs(spec: str | os.PathLike[str]) -> tuple[NDArray[Any], NDArray[Any]]:
    """First and second names: the first two columns of a `.csv`, `.tsv` or `.parquet`, or two named after a colon (``path:a,b``)."""
    path, part = located(spec)
    table = labelled_table(path)
    if table is None:
        raise DataError(f"{path}: expected a table of pairs of names (.csv, .tsv, .parquet), got an array.")
    columns = table.metadata(part).labels
    if len(columns) < 2 or (part is not None and len(columns) > 2):
        raise DataError(
            f"{path}: expected two columns of names, one pair in each row, got {len(columns)} "
            f"({named(columns)}); name two after a colon, as in {path}:first,second"
        )
    first, second = list(columns.values())[:2]
    return first, second


def first_gap(spec: str | os.PathLike[str], *, ids: str | None = None) -> str | None:
    """Where the first missing cell of a text table is; None of other files, which have no lines."""
    path, part = located(spec)
    container = _container(path, gaps=True)
    if not isinstance(container, TextTable):
        return None
    container.table(part, ids=ids if ids in container.names else None, own_ids=ids is None)
    return container.first_gap


def labelled_table(path: Path) -> LabelledTable | None:
    """The table in a file that has names for its columns; None of arrays."""
    container = _container(path, gaps=True)
    return container if isinstance(container, LabelledTable) else None


def _container(path: Path, *, gaps: bool = False) -> Container:
    if not is_pattern(path) and (
        suffix_of(path) == ".zarr" or (is_folder(path) and any(is_there(path / name) for name in ZARR))
    ):
        check_is_folder(path)
        return open_zarr(path)
    many = _shards(path)
    if many is not None:
        shards, suffix = many
        return open_shards(shards, str(path), _reader(suffix, gaps))
    check_is_file(path)
    suffix = suffix_of(path)
    if suffix not in READERS:
        what = suffix or "a file without a suffix"
        raise DataError(f"{path}: cannot read {what}; expected one of {', '.join(READERS)}: convert or rename it.")
    return _reader(suffix, gaps)(path)


def shard_format(path: Path) -> str | None:
    """The suffix of the files that hold the rows of a table together; None of a table in one file."""
    many = None if suffix_of(path) == ".zarr" and not is_pattern(path) else _shards(path)
    return None if many is None else many[1]


def _shards(path: Path) -> tuple[list[Shard], str] | None:
    """The files that match a pattern or lie in a folder, and their suffix; None of a path that is neither."""
    if is_pattern(path):
        found = matched(path)
    elif not is_folder(path):
        return None
    elif (listed := dataset_files(path)) is not None:
        return listed, ".arrow"
    else:
        found = under(path)
    if not found:
        within = (
            []
            if isinstance(path, RemotePath)
            else sorted(name for name in os.listdir(path) if not name.startswith((".", "_")))
        )
        got = f"only {named(within)}; name one of these" if within else "one without any; check the path"
        raise DataError(f"{path}: expected a folder with files of one format (the rows of a table), got {got}.")
    return found, one_format(found, tuple(READERS), str(path))


def _reader(suffix: str, gaps: bool) -> Callable[..., Container]:
    reader = READERS[suffix]
    return partial(reader, gaps=gaps) if reader in WITH_GAPS else reader


def sidecar_ids(ids: str, path: Path, container: Container) -> NDArray[Any]:
    """Ids from another file."""
    beside, _ = located(ids)
    if not is_there(beside) and not is_pattern(beside):
        held = named(name or "(unnamed)" for name in container.names) or "no named parts"
        raise DataError(
            f"{path}: ids {ids!r} are neither a column or key in it (it has {held}) nor a file; check the name, "
            "or give --ids once per table if only another one has it."
        )
    return read_labels(ids)
