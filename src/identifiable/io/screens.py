"""Screens: embeddings with what is known of every well, from one file or two, or from objects in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, PairingError, UsageError, check_unique_ids
from identifiable.blocks import Blocks
from identifiable.io.anndata_files import OBS_NAMES, AnnDataFile, X
from identifiable.io.containers import LabelledRows, LabelledTable, identities, identities_from_text, listed, shown
from identifiable.io.label_columns import (
    CellColumn,
    Kind,
    choose_features,
    columns_named,
    filled_ids,
    is_feature_name,
    is_id_name,
    labels_from_array,
    labels_from_objects,
    labels_from_series,
    own_id_name,
)
from identifiable.io.locations import check_is_file, split_spec, stem_of, suffix_of
from identifiable.io.missing_cells import GappedTable
from identifiable.io.opening import READERS, open_representation, sidecar_ids
from identifiable.io.parquet_files import ParquetTable
from identifiable.io.tables import DELIMITERS
from identifiable.representation import Representation, comparable_ids
from identifiable.results import Alert

SHOWN_CELLS = 5
LABELLED = (*DELIMITERS, ".parquet", ".h5ad")  # files that hold more than one matrix of numbers

BESIDE = (".parquet", ".h5ad")  # files that say which of their columns are metadata

Path_ = str | os.PathLike[str]
Features = str | Sequence[str]


@dataclass(frozen=True, eq=False)
class OpenedScreen:
    """A table of wells: `representation` with all metadata in its `labels`.

    `dropped_values` rows had no partner among the metadata, `dropped_metadata` rows of the metadata none among the
    values. `notes` say what was assumed. `path` is the file the values came from, if any.
    """

    representation: Representation
    feature_names: tuple[str, ...]
    dropped_values: int = 0
    dropped_metadata: int = 0
    notes: tuple[Alert, ...] = ()
    path: Path | None = None


@dataclass(frozen=True, eq=False)
class _Values:
    """Rows of features, with the columns beside them."""

    blocks: Blocks
    feature_names: tuple[str, ...]
    labels: Mapping[str, NDArray[Any]]
    ids: NDArray[Any] | None
    id_name: str | None
    name: str
    notes: tuple[Alert, ...] = ()
    path: Path | None = None
    named: bool = True

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the features, if they are not numbers of ours."""
        return self.feature_names if self.named else None


@dataclass(frozen=True, eq=False)
class _Metadata:
    """Columns of rows that may be in another order, and fewer or more."""

    labels: Mapping[str, NDArray[Any]]
    ids: NDArray[Any] | None
    id_name: str | None
    label: str

    @property
    def n(self) -> int:
        return len(next(iter(self.labels.values())))


def open_screen(
    spec: Path_, *, metadata: Any = None, ids: str | None = None, features: Features | None = None
) -> OpenedScreen:
    """A table of wells with all that is known of them, its rows of features read lazily.

    Ours. Text columns become 'U' arrays with "" for a missing cell; numbers int64, or float64 with NaN; truth
    values 0 and 1. Features that are not finite are refused, with their rows and columns.

    Parameters
    ----------
    spec
        ``path`` or ``path:part``: a `.parquet` or a text table (part: the columns that are features), a `.h5ad` (part: a key of
        `obsm`, a layer; without one `X`), or an array in a `.npy`, `.npz` or `.safetensors`.
    metadata
        Columns of the same wells: a path (`.csv`, `.tsv`, either with `.gz`, `.parquet`, `.h5ad`), a DataFrame, or a mapping
        of columns. Joined on ids; beside an array without ids its rows are those of the array, in order.
    ids
        The column that names the rows, in both files. Without it: their index, or the one column of unique ids that both have.
    features
        Names and patterns of the columns that are features, in place of a part. Without them the columns called `feature_*`,
        the compartments of CellProfiler, or every column of floats that is not called `Metadata_*`.
    """
    path, part = split_spec(spec, tuple(READERS))
    check_is_file(path)
    if part is not None and features is not None:
        raise UsageError(f"{spec}: the features are named twice, {part!r} and {features!r}; name them once.")
    values = _from_file(path, part if part is not None else features, ids, metadata is not None)
    return _joined(values, metadata, ids)


def open_with_metadata(spec: Path_, *, ids: str | None = None, rows: int | None = None) -> Representation:
    """As `open_representation`, with the columns of metadata that a `.parquet` or `.h5ad` has beside its values as labels."""
    path, part = split_spec(spec, tuple(READERS))
    if suffix_of(path) not in BESIDE:
        return open_representation(spec, ids=ids, rows=rows)
    check_is_file(path)
    values = _from_file(path, part, ids, False)
    blocks = Blocks(values.blocks.source, rows=rows, name=values.blocks.name)
    return Representation(blocks, ids=values.ids, name=values.name, labels=values.labels, columns=values.columns)


def screen_of_frame(
    frame: Any, features: Features | None = None, *, metadata: Any = None, ids: str | None = None, name: str = "frame"
) -> OpenedScreen:
    """The same of a pandas DataFrame. Its index names the rows, unless it counts them."""
    columns = _columns_of(frame, name)
    kinds: dict[str, Kind] = {}
    for key, series in columns.items():
        letter = getattr(series.dtype, "kind", "O")
        kinds[key] = "float" if letter == "f" else "whole" if letter in "iu" else "other"
    candidates = {k: kind for k, kind in kinds.items() if k != ids and (features is not None or not is_id_name(k))}
    choice = choose_features(candidates, features, name)
    dtype = np.result_type(
        *(np.dtype(getattr(columns[k].dtype, "numpy_dtype", columns[k].dtype)) for k in choice.names)
    )
    table = np.empty((len(frame), len(choice.names)), dtype if dtype.kind == "f" else np.dtype(np.float64))
    for j, key in enumerate(choice.names):
        table[:, j] = columns[key].to_numpy(dtype=table.dtype, na_value=np.nan)
    known = _labels_of(columns, set(choice.names), name)
    row_ids, id_name = _ids_of_frame(frame, known, ids, name)
    values = _Values(Blocks(table, name=name), choice.names, known, row_ids, id_name, name, choice.notes)
    return _joined(values, metadata, ids)


def screen_of_anndata(
    adata: Any, use_rep: str = X, *, metadata: Any = None, ids: str | None = None, name: str = "adata"
) -> OpenedScreen:
    """The same of an AnnData object in memory: `X`, a key of `obsm` or ``layers/NAME``, with `obs` as labels."""
    if getattr(adata, "isbacked", False):
        raise UsageError(
            f"{name}: expected AnnData in memory, got one backed by a file; pass its path, {adata.filename}."
        )
    known = _labels_of(_columns_of(adata.obs, name), set(), name)
    row_ids, id_name = _obs_names(adata, name), OBS_NAMES
    if ids is not None:
        row_ids, id_name = _ids_in(known, ids, name), ids
    matrix, names, named = _matrix_of(adata, use_rep, name)
    values = _Values(Blocks(matrix, name=name), names, known, row_ids, id_name, name, named=named)
    return _joined(values, metadata, ids)


def screen_of_array(values: Any, *, metadata: Any = None, ids: str | None = None, name: str = "array") -> OpenedScreen:
    """The same of an array, `Blocks` or a `Representation`, with `metadata` for its rows."""
    labels: Mapping[str, NDArray[Any]] = {}
    row_ids = own = None
    if isinstance(values, Representation):
        name, labels, row_ids, own, values = values.name, values.labels, values.ids, values.columns, values.values
    blocks = values if isinstance(values, Blocks) else Blocks(values, name=name)
    names = own or tuple(f"{name}_{j}" for j in range(blocks.d))
    known = {key: labels_from_array(column, f"{name}: column {key!r}") for key, column in labels.items()}
    return _joined(_Values(blocks, names, known, row_ids, None, name, named=own is not None), metadata, ids)


# -- the file of the values


def _from_file(path: Path, asked: Features | None, ids: str | None, has_metadata: bool) -> _Values:
    table = labelled_table(path)
    name = stem_of(path) if asked is None else f"{stem_of(path)}:{asked if isinstance(asked, str) else ','.join(asked)}"
    if table is None:
        return _from_array_file(path, asked, ids, name, has_metadata)
    inside = ids is not None and ids in table.names
    found = table.labelled(asked, ids if inside else None)
    row_ids, id_name = found.ids, found.id_name
    if ids is not None and not inside:
        row_ids, id_name = sidecar_ids(ids, path, table), None
        if len(row_ids) != found.rows.shape[0]:
            raise PairingError(f"{path}: {found.rows.shape[0]} rows but {len(row_ids)} ids (from {ids}).")
    blocks = Blocks(found.rows, name=str(path))
    return _Values(blocks, found.feature_names, found.labels, row_ids, id_name, name, found.notes, path, found.named)


def _from_array_file(path: Path, asked: Features | None, ids: str | None, name: str, has_metadata: bool) -> _Values:
    if asked is not None and not isinstance(asked, str):
        raise UsageError(f"{path}: an array has no columns by name; leave features out.")
    of_metadata = ids is not None and has_metadata and not os.path.lexists(split_spec(ids, tuple(READERS))[0])
    spec = str(path) if asked is None else f"{path}:{asked}"
    opened = open_representation(spec, ids=None if of_metadata else ids)
    names = tuple(f"feature_{j}" for j in range(opened.d))
    return _Values(opened.values, names, {}, opened.ids, None, name, (), path, named=False)


def labelled_table(path: Path) -> LabelledTable | None:
    suffix = suffix_of(path)
    if suffix in DELIMITERS:
        return ScreenText(path)
    if suffix == ".parquet":
        return ParquetTable(path, gaps=True)
    if suffix == ".h5ad":
        return AnnDataFile(path)
    if suffix not in READERS:
        what = suffix or "a file without a suffix"
        raise DataError(f"{path}: cannot read {what}; expected one of {', '.join(READERS)}: convert or rename it.")
    return None


class ScreenText(GappedTable):
    """A text table whose columns are features or labels. Missing cells of features are NaN."""

    def __init__(self, path: Path):
        super().__init__(path)
        if not self._has_header:
            raise DataError(f"{self._label}: expected the names of the columns in line 1, got numbers; put them there.")
        named = [name for name in self._header if name]
        if len(set(named)) < len(named):
            twice = next(name for name in named if named.count(name) > 1)
            raise DataError(f"{self._label}: several columns are called {shown(twice)!r}; rename all but one.")

    def labelled(self, features: Features | None, ids: str | None) -> LabelledRows:
        kinds = {
            k: kind for k, kind in self._kinds().items() if k != ids and (features is not None or not is_id_name(k))
        }
        choice = choose_features(kinds, features, self._label)
        chosen = set(choice.names)
        rows, _ = self.rows([j for j, name in enumerate(self._header) if name in chosen])
        labels, own, id_name = self._read([j for j, name in enumerate(self._header) if name not in chosen], ids)
        return LabelledRows(rows, choice.names, labels, own, id_name, choice.notes)

    def metadata(self, part: str | None = None) -> tuple[dict[str, NDArray[Any]], NDArray[Any] | None, str | None]:
        labels, own, id_name = self._read(list(range(len(self._header))), None)
        return {name: labels[name] for name in columns_named(list(labels), part, self._label)}, own, id_name

    def _kinds(self) -> dict[str, Kind]:
        """What the columns hold, by the first piece of the file."""
        columns = [CellColumn() for _ in self._header]
        self._collect(columns, list(range(len(columns))), next(self._body(), (1, "")))
        kinds = {name: column.kind for name, column in zip(self._header, columns, strict=True) if name}
        for name, column in zip(self._header, columns, strict=True):
            if is_feature_name(name) and column.has_numbers and kinds[name] == "other":
                kinds[name] = "float"  # parsing it says which line is wrong
        return kinds

    def _read(
        self, places: list[int], ids: str | None
    ) -> tuple[dict[str, NDArray[Any]], NDArray[Any] | None, str | None]:
        columns = [CellColumn() for _ in places]
        for piece in self._body():
            self._collect(columns, places, piece)
        found = {self._header[j]: column.labels() for j, column in zip(places, columns, strict=True)}
        named = [name for name in found if is_id_name(name)]
        id_name = (
            ids
            or own_id_name(named, found.__getitem__, self._label)
            or ("" if "" in found and places[0] == 0 else None)
        )
        own = None if id_name is None else _ids_in(found, id_name, self._label)
        return {name: column for name, column in found.items() if name}, own, id_name or None

    def _collect(self, columns: list[CellColumn], places: list[int], piece: tuple[int, str]) -> None:
        records = []
        for at, cells in self._records(*piece):
            self._check_width(at, cells)
            records.append(cells)
        by_column = list(zip(*records, strict=True))
        for column, j in zip(columns, places, strict=True):
            column.extend(by_column[j] if by_column else ())


# -- frames and AnnData in memory


def _columns_of(frame: Any, name: str) -> dict[str, Any]:
    if getattr(frame.columns, "nlevels", 1) > 1:
        raise DataError(f"{name}: expected columns with one name each, got several levels; join them to one first.")
    keys = [str(key) for key in frame.columns]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DataError(f"{name}: several columns are called {shown(twice)!r}; rename all but one.")
    if not len(frame):
        raise DataError(f"{name}: expected at least one row, got none.")
    return {key: frame.iloc[:, j] for j, key in enumerate(keys)}


def _labels_of(columns: Mapping[str, Any], left_out: set[str], name: str) -> dict[str, NDArray[Any]]:
    return {
        key: labels_from_series(series, f"{name}: column {shown(key)!r}")
        for key, series in columns.items()
        if key not in left_out
    }


def _ids_of_frame(
    frame: Any, known: Mapping[str, NDArray[Any]], ids: str | None, name: str
) -> tuple[NDArray[Any] | None, str | None]:
    if ids is not None:
        return _ids_in(known, ids, name), ids
    index = frame.index
    if type(index).__name__ != "RangeIndex" and getattr(index, "nlevels", 1) == 1:
        label = f"{name}: index"
        own = labels_from_objects(index.tolist(), label)
        return identities(filled_ids(own, label), label), None if index.name is None else str(index.name)
    named = own_id_name([key for key in known if is_id_name(key)], known.__getitem__, name)
    return (None, None) if named is None else (_ids_in(known, named, name), named)


def _obs_names(adata: Any, name: str) -> NDArray[Any]:
    own = filled_ids(labels_from_objects(adata.obs_names.tolist(), f"{name}: obs_names"), f"{name}: obs_names")
    return identities_from_text(own.astype(str).tolist())


def _matrix_of(adata: Any, use_rep: str, name: str) -> tuple[Any, tuple[str, ...], bool]:
    """A matrix of AnnData, what its columns are called, and whether these are names and not only numbers."""
    of_layer = use_rep.removeprefix("layers/")
    of_obsm = use_rep.removeprefix("obsm/")
    if use_rep == X and adata.X is not None:
        matrix, names = adata.X, tuple(map(str, adata.var_names))
    elif of_layer != use_rep and of_layer in adata.layers:
        matrix, names = adata.layers[of_layer], tuple(map(str, adata.var_names))
    elif of_obsm in adata.obsm:
        matrix = adata.obsm[of_obsm]
        names = tuple(f"{of_obsm}_{j}" for j in range(matrix.shape[1]))
    else:
        held = [*([X] if adata.X is not None else []), *adata.obsm, *(f"layers/{key}" for key in adata.layers)]
        raise DataError(f"{name}: holds no {use_rep!r}; it holds {listed([shown(key) for key in held])}.")
    named = use_rep == X or of_layer != use_rep
    if hasattr(matrix, "tocsr"):
        return _SparseRows(matrix.tocsr()), names, named
    return (matrix.to_numpy() if hasattr(matrix, "iloc") else np.asarray(matrix)), names, named


class _SparseRows:
    """Rows of a sparse matrix, dense as they are read. A `blocks.Rows`."""

    def __init__(self, matrix: Any):
        self._matrix = matrix
        self.shape: tuple[int, ...] = matrix.shape
        self.dtype: np.dtype[Any] = matrix.dtype

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        return np.asarray(self._matrix[rows].toarray())


# -- metadata from elsewhere


def _joined(values: _Values, metadata: Any, ids: str | None) -> OpenedScreen:
    """`values` with further columns; what has no partner is dropped and counted."""
    blocks, labels, row_ids = values.blocks, dict(values.labels), values.ids
    rows: NDArray[np.intp] | None = None
    notes = list(values.notes)
    dropped = (0, 0)
    if metadata is not None:
        beside = _metadata(metadata)
        keys = _keys(values, beside, ids)
        if keys is None:
            places = np.arange(blocks.n)
            row_ids = row_ids if row_ids is not None else _metadata_ids(beside, ids)
            notes.append(Alert("reading", {"metadata": beside.label, "table": values.name}))
        else:
            rows, places = _partners(keys, values.name, beside.label)
            dropped = (blocks.n - len(rows), beside.n - len(rows))
            row_ids = keys[0] if row_ids is None else row_ids
            if dropped[0]:
                blocks, row_ids = blocks.select(rows), row_ids[rows]
                labels = {key: column[rows] for key, column in labels.items()}
        in_order = np.array_equal(places, np.arange(beside.n))
        more = beside.labels if in_order else {key: column[places] for key, column in beside.labels.items()}
        _merge(labels, more, values.name, beside.label, row_ids)
    representation = Representation(blocks, ids=row_ids, name=values.name, labels=labels, columns=values.columns)
    _refuse_non_finite(blocks, values.feature_names, rows if dropped[0] else None, row_ids)
    return OpenedScreen(representation, values.feature_names, *dropped, tuple(notes), values.path)


def _metadata(source: Any) -> _Metadata:
    if isinstance(source, (str, os.PathLike)):
        return _metadata_file(source)
    if hasattr(source, "columns") and hasattr(source, "index"):
        columns = _labels_of(_columns_of(source, "metadata"), set(), "metadata")
        row_ids, id_name = _ids_of_frame(source, columns, None, "metadata")
        return _Metadata(columns, row_ids, id_name, "metadata")
    if not isinstance(source, Mapping):
        raise UsageError(
            f"metadata: expected a path, a DataFrame or a mapping of columns, got {type(source).__name__}."
        )
    columns = {str(key): labels_from_array(column, f"metadata: column {key!r}") for key, column in source.items()}
    if len({len(column) for column in columns.values()}) != 1:
        raise DataError(
            f"metadata: expected columns of one length, got { {key: len(column) for key, column in columns.items()} }."
        )
    named = own_id_name([key for key in columns if is_id_name(key)], columns.__getitem__, "metadata")
    return _Metadata(columns, None if named is None else _ids_in(columns, named, "metadata"), named, "metadata")


def _metadata_file(spec: Path_) -> _Metadata:
    path, part = split_spec(spec, tuple(READERS))
    check_is_file(path)
    table = labelled_table(path) if suffix_of(path) in READERS else None
    if table is None:
        raise DataError(f"{path}: expected metadata as one of {', '.join(LABELLED)}; convert or rename it.")
    columns, row_ids, id_name = table.metadata(part)
    if not columns:
        raise DataError(f"{path}: expected columns that describe the rows, found none.")
    return _Metadata(columns, row_ids, id_name, str(path))


def _keys(values: _Values, beside: _Metadata, ids: str | None) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """The ids to join on, of both sides; None to take rows in order."""
    if ids is not None:
        left = values.ids
        right = _metadata_ids(beside, ids)
        if left is not None and right is not None:
            return left, right
        if left is not None:
            raise PairingError(
                f"{beside.label}: has no column {ids!r} to join with {values.name}; it has {_listed(beside.labels)}."
            )
    elif values.ids is not None and values.id_name in beside.labels and values.id_name is not None:
        return values.ids, _ids_in(beside.labels, values.id_name, beside.label)
    elif (shared := _shared_ids(values, beside)) is not None:
        return shared
    elif values.ids is not None and beside.ids is not None:
        return values.ids, beside.ids
    if values.labels or values.ids is not None:
        raise PairingError(
            f"{values.name} and {beside.label} have no column of unique ids in common (it has {_listed(beside.labels)}); "
            "name the one to join on with ids (--ids)."
        )
    if beside.n != values.blocks.n:
        raise PairingError(
            f"{values.name} has {values.blocks.n} rows without ids and {beside.label} {beside.n}; give one row for each, "
            "in the same order, or ids on both sides."
        )
    return None


def _metadata_ids(beside: _Metadata, ids: str | None) -> NDArray[Any] | None:
    return _ids_in(beside.labels, ids, beside.label) if ids is not None and ids in beside.labels else beside.ids


def _shared_ids(values: _Values, beside: _Metadata) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """A column that both sides have and that names every row of each."""
    both = [
        k for k in values.labels if k in beside.labels and _is_unique(values.labels[k]) and _is_unique(beside.labels[k])
    ]
    named = [name for name in both if is_id_name(name)] or both
    if len(named) > 1:
        raise PairingError(
            f"{values.name} and {beside.label} could be joined on {_listed(named)}; choose one with ids (--ids)."
        )
    if not named:
        return None
    return _ids_in(values.labels, named[0], values.name), _ids_in(beside.labels, named[0], beside.label)


def _is_unique(column: NDArray[Any]) -> bool:
    return column.dtype.kind in "iuU" and len(np.unique(column)) == len(column)


def _partners(
    keys: tuple[NDArray[Any], NDArray[Any]], name: str, label: str
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of the values that have metadata, and where that is."""
    left, right = (comparable_ids(k, n).astype(str) for k, n in zip(keys, (name, label), strict=True))
    check_unique_ids(left, name)
    check_unique_ids(right, label)
    order = np.argsort(right, kind="stable")
    places = order[np.searchsorted(right, left, sorter=order).clip(max=len(right) - 1)]
    matched = right[places] == left
    if not matched.any():
        raise PairingError(
            f"{name} and {label} share none of {len(left)} and {len(right)} ids (first: {', '.join(left[:3])}; "
            f"{', '.join(right[:3])}); check that the ids mean the same wells, or name another column with ids (--ids)."
        )
    return np.flatnonzero(matched), places[matched]


def _merge(
    labels: dict[str, NDArray[Any]], more: Mapping[str, NDArray[Any]], name: str, label: str, ids: NDArray[Any] | None
) -> None:
    """Add columns to `labels`; one that both have must say the same."""
    for key, column in more.items():
        if key not in labels:
            labels[key] = column
            continue
        differ = _differ(labels[key], column)
        if differ.any():
            row = int(np.argmax(differ))
            raise DataError(
                f"{name} and {label} both have a column {shown(key)!r} and differ in {int(differ.sum())} rows (first: "
                f"{row if ids is None else ids[row]}: {labels[key][row]!s} and {column[row]!s}); rename or drop one of the two."
            )


def _differ(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    if a.dtype.kind == "U" or b.dtype.kind == "U":
        return np.asarray(a.astype(str) != b.astype(str))
    return np.asarray((a != b) & ~((a != a) & (b != b)))


def _ids_in(columns: Mapping[str, NDArray[Any]], name: str, label: str) -> NDArray[Any]:
    if name not in columns:
        raise DataError(f"{label}: no column {name!r} for the ids; it has {_listed(columns)}.")
    where = f"{label}: column {shown(name)!r}"
    return identities(filled_ids(columns[name], where), where)


def _listed(names: Any) -> str:
    return listed([shown(name) for name in names]) or "no columns"


def _refuse_non_finite(
    blocks: Blocks, names: Sequence[str], original: NDArray[np.intp] | None, ids: NDArray[Any] | None
) -> None:
    """An error if a feature has no finite value somewhere, with the first cells."""
    if blocks.dtype.kind != "f":
        return
    count = rows = 0
    first: list[tuple[int, int]] = []
    columns = np.zeros(blocks.d, bool)
    for start, block in _counted(blocks):
        bad = ~np.isfinite(block)
        if not bad.any():
            continue
        count += int(bad.sum())
        rows += int(bad.any(axis=1).sum())
        columns |= bad.any(axis=0)
        if len(first) < SHOWN_CELLS:
            first += [(start + int(i), int(j)) for i, j in np.argwhere(bad)[: SHOWN_CELLS - len(first)]]
    if count:
        cells = "; ".join(
            f"row {i if original is None else original[i]}{'' if ids is None else f' ({ids[i]})'} column {shown(names[j])}"
            for i, j in first
        )
        raise DataError(
            f"{blocks.name}: expected finite features, got {count} missing, NaN or infinite values in {rows} rows and "
            f"{int(columns.sum())} columns (first, rows from 0: {cells}); impute or drop them, or choose other columns."
        )


def _counted(blocks: Blocks) -> Iterator[tuple[int, NDArray[Any]]]:
    start = 0
    for block in blocks:
        yield start, block
        start += len(block)
