"""Screens: embeddings with what is known of every well, from one file or two, or from objects in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, PairingError, UsageError, check_magnitude, check_unique_ids
from identifiable.blocks import Blocks
from identifiable.io.anndata_files import OBS_NAMES, X
from identifiable.io.containers import (
    Location,
    check_is_there,
    identities,
    identities_from_text,
    is_folder,
    is_there,
    named,
    shown,
    suffix_of,
)
from identifiable.io.label_columns import Kind, is_id_name, labels_from_array, labels_from_objects, labels_from_series
from identifiable.io.labelled import (
    Columns,
    Found,
    LabelledRows,
    LabelledTable,
    NoFeature,
    check_names,
    checked_ids,
    filled_ids,
    never,
    own_id_name,
)
from identifiable.io.opening import (
    LABELLED,
    READERS,
    check_count,
    labelled_table,
    located,
    open_representation,
    sidecar_ids,
)
from identifiable.io.tables import DELIMITERS, TextTable
from identifiable.representation import (
    Representation,
    as_frame,
    columns_of,
    comparable_ids,
    is_frame,
    kind_of,
    numbers_of,
    row_labels,
)
from identifiable.results import Alert

SHOWN_CELLS = 5
GATHERED = 2**25  # values in memory at once while medians are taken: 256 MB

Path_ = str | os.PathLike[str]
Features = str | Sequence[str]


@dataclass(frozen=True)
class Gaps:
    """What is done with features that are missing or not finite: nothing (they are refused), `drop` the columns or rows that have
    any, or `impute` the median of the column."""

    drop: Literal["columns", "rows"] | None = None
    impute: Literal["median"] | None = None

    def __post_init__(self) -> None:
        if self.drop is not None and self.impute is not None:
            raise UsageError(
                f"drop_nan {self.drop!r} and impute {self.impute!r}: expected one of them; after the first nothing is left to impute."
            )


REFUSED = Gaps()


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


def open_screen(
    spec: Path_,
    *,
    metadata: Any = None,
    ids: str | None = None,
    features: Features | None = None,
    gaps: Gaps = REFUSED,
    no_feature: NoFeature = never,
) -> OpenedScreen:
    """A table of wells with all that is known of them, its rows of features read lazily.

    Ours. Text columns become 'U' arrays with "" for a missing cell; numbers int64, or float64 with NaN; truth
    values 0 and 1. Features that are not finite are refused, with their rows and columns, unless `gaps` says otherwise.

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
    no_feature
        Says of the name of a column whether it is metadata, such as a dose, unless it is among `features`.
    """
    path, part = located(spec)
    check_is_there(path)
    if part is not None and features is not None:
        raise UsageError(f"{spec}: the features are named twice, {part!r} and {features!r}; name them once.")
    asked = part if part is not None else features
    parts = asked if asked is None or isinstance(asked, str) else ",".join(asked)
    values = _from_file(path, asked, ids, metadata is not None, no_feature=no_feature)
    return _joined(values, Location(path, parts).name, metadata, ids, gaps, path)


def open_with_metadata(spec: Path_, *, ids: str | None = None, rows: int | None = None) -> Representation:
    """As `open_representation`, with the columns of metadata that a table (but for text) has beside its values as labels."""
    at = located(spec)
    if (
        suffix_of(at.path) in DELIMITERS or labelled_table(at.path) is None
    ):  # text does not say which columns are metadata
        return open_representation(spec, ids=ids, rows=rows)
    values = _from_file(at.path, at.part, ids, False)
    blocks = Blocks(values.rows, rows=rows, name=values.label)
    return Representation(blocks, ids=values.ids, name=at.name, labels=values.labels, columns=values.columns)


def screen_of_frame(
    frame: Any,
    features: Features | None = None,
    *,
    metadata: Any = None,
    ids: str | None = None,
    name: str = "frame",
    gaps: Gaps = REFUSED,
    no_feature: NoFeature = never,
) -> OpenedScreen:
    """The same of a pandas DataFrame. Its index names the rows, unless it counts them."""
    values = FrameTable(frame, name).labelled(features, ids, no_feature=no_feature)
    return _joined(values, name, metadata, ids, gaps)


def screen_of_anndata(
    adata: Any,
    use_rep: str = X,
    *,
    metadata: Any = None,
    ids: str | None = None,
    name: str = "adata",
    gaps: Gaps = REFUSED,
) -> OpenedScreen:
    """The same of an AnnData object in memory: `X`, a key of `obsm` or ``layers/NAME``, with `obs` as labels."""
    if getattr(adata, "isbacked", False):
        raise UsageError(
            f"{name}: expected AnnData in memory, got one backed by a file; pass its path, {adata.filename}."
        )
    known = FrameTable(adata.obs, name).read(list(map(str, adata.obs)))
    own = f"{name}: obs_names"
    row_ids, id_name = filled_ids(labels_from_objects(adata.obs_names.tolist(), own), own), OBS_NAMES
    row_ids = identities_from_text(row_ids.astype(str).tolist())
    if ids is not None:
        row_ids, id_name = checked_ids(known, ids, name), ids
    matrix, names, numbered = _matrix_of(adata, use_rep, name)
    return _joined(LabelledRows(name, known, row_ids, id_name, matrix, names, numbered), name, metadata, ids, gaps)


def screen_of_array(
    values: Any, *, metadata: Any = None, ids: str | None = None, name: str = "array", gaps: Gaps = REFUSED
) -> OpenedScreen:
    """The same of an array, `Blocks` or a `Representation`, with `metadata` for its rows."""
    labels: Columns = {}
    row_ids = own = None
    if isinstance(values, Representation):
        name, labels, row_ids, own, values = values.name, values.labels, values.ids, values.columns, values.values
    blocks = values if isinstance(values, Blocks) else Blocks(values, name=name)
    names = own or tuple(f"{name}_{j}" for j in range(blocks.d))
    known = {key: labels_from_array(column, f"{name}: column {key!r}") for key, column in labels.items()}
    return _joined(LabelledRows(name, known, row_ids, None, blocks, names, own is None), name, metadata, ids, gaps)


# -- the file of the values


def _from_file(
    path: Path,
    asked: Features | None,
    ids: str | None,
    has_metadata: bool,
    *,
    no_feature: NoFeature = never,
) -> LabelledRows:
    table = labelled_table(path)
    if table is None:
        return _from_array_file(path, asked, ids, has_metadata)
    if isinstance(table, TextTable):
        table.where_missing = " and pass --impute median (impute=) or --drop-nan rows (drop_nan=)"
    inside = ids is not None and ids in table.names
    found = table.labelled(asked, ids if inside else None, no_feature=no_feature)
    if ids is None or inside:
        return found
    beside = sidecar_ids(ids, path, table)
    check_count(beside, found.n, str(path), ids)
    return replace(found, ids=beside, id_name=None)


def _from_array_file(path: Path, asked: Features | None, ids: str | None, has_metadata: bool) -> LabelledRows:
    if asked is not None and not isinstance(asked, str):
        raise UsageError(f"{path}: an array has no columns by name; leave features out.")
    of_metadata = ids is not None and has_metadata and not is_there(located(ids).path)
    spec = Location(path, asked).label
    opened = open_representation(spec, ids=None if of_metadata else ids)
    names = tuple(f"feature_{j}" for j in range(opened.d))
    return LabelledRows(spec, {}, opened.ids, None, opened.values, names, numbered=True)


# -- frames and AnnData in memory


class FrameTable(LabelledTable):
    """A data frame. Its index names the rows, unless it counts them."""

    def __init__(self, frame: Any, name: str):
        self.label, self._row_labels = name, row_labels(frame)[0]
        if getattr(frame.columns, "nlevels", 1) > 1:
            raise DataError(f"{name}: expected columns with one name each, got several levels; join them to one first.")
        keys = [str(key) for key in frame.columns]
        check_names(keys, name)
        if not len(frame):
            raise DataError(f"{name}: expected at least one row, got none.")
        self.names = tuple(keys)
        self._index_name = getattr(getattr(frame, "index", None), "name", None)
        self._series = dict(columns_of(frame))

    def kinds(self) -> dict[str, Kind]:
        letters = {key: kind_of(series.dtype) for key, series in self._series.items()}
        return {
            k: "float" if letter == "f" else "whole" if letter in "iu" else "other" for k, letter in letters.items()
        }

    def read(self, names: Sequence[str]) -> Columns:
        return {name: labels_from_series(self._series[name], self.where(name)) for name in names}

    def rows(self, features: Sequence[str]) -> NDArray[Any]:
        table = np.column_stack([numbers_of(self._series[name]) for name in features])
        return table if table.dtype.kind == "f" else table.astype(np.float64)

    def identified(
        self, asked: str | None, among: Sequence[str], found: Found
    ) -> tuple[NDArray[Any] | None, str | None]:
        if asked is not None or self._row_labels is None:
            return super().identified(asked, among, found)
        where = f"{self.label}: index"
        own = filled_ids(labels_from_objects(self._row_labels.tolist(), where), where)
        return identities(own, where), None if self._index_name is None else str(self._index_name)


def _matrix_of(adata: Any, use_rep: str, name: str) -> tuple[Any, tuple[str, ...], bool]:
    """A matrix of AnnData, what its columns are called, and whether these names only number them."""
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
        raise DataError(f"{name}: holds no {use_rep!r}; it holds {named(held)}.")
    numbered = use_rep != X and of_layer == use_rep
    if hasattr(matrix, "tocsr"):
        return _SparseRows(matrix.tocsr()), names, numbered
    return (matrix.to_numpy() if hasattr(matrix, "iloc") else np.asarray(matrix)), names, numbered


class _SparseRows:
    """Rows of a sparse matrix, dense as they are read. A `blocks.Rows`."""

    def __init__(self, matrix: Any):
        self._matrix = matrix
        self.shape: tuple[int, ...] = matrix.shape
        self.dtype: np.dtype[Any] = matrix.dtype

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        return np.asarray(self._matrix[rows].toarray())


# -- metadata from elsewhere


def _joined(
    values: LabelledRows, name: str, metadata: Any, ids: str | None, gaps: Gaps, path: Path | None = None
) -> OpenedScreen:
    """`values` with further columns; what has no partner is dropped and counted."""
    blocks = values.rows if isinstance(values.rows, Blocks) else Blocks(values.rows, name=values.label)
    labels, row_ids = dict(values.labels), values.ids
    rows: NDArray[np.intp] | None = None
    notes = list(values.notes)
    dropped = (0, 0)
    if metadata is not None:
        beside = _metadata(metadata)
        keys = _keys(values, name, beside, ids)
        if keys is None:
            places = np.arange(blocks.n)
            row_ids = row_ids if row_ids is not None else _metadata_ids(beside, ids)
            notes.append(Alert("reading", {"metadata": beside.label, "table": name}))
        else:
            rows, places = _partners(keys, name, beside.label)
            dropped = (blocks.n - len(rows), beside.n - len(rows))
            row_ids = keys[0] if row_ids is None else row_ids
            if dropped[0]:
                blocks, row_ids = blocks.select(rows), row_ids[rows]
                labels = {key: column[rows] for key, column in labels.items()}
        in_order = np.array_equal(places, np.arange(beside.n))
        more = beside.labels if in_order else {key: column[places] for key, column in beside.labels.items()}
        _merge(labels, more, name, beside.label, row_ids)
    representation = Representation(blocks, ids=row_ids, name=name, labels=labels, columns=values.columns)
    opened = OpenedScreen(representation, values.feature_names, *dropped, tuple(notes), path)
    return _filled(opened, blocks, gaps, rows if dropped[0] else None)


def _metadata(source: Any) -> LabelledRows:
    if isinstance(source, (str, os.PathLike)):
        return _metadata_file(source)
    source = as_frame(source)
    if is_frame(source):
        return FrameTable(source, "metadata").metadata()
    if not isinstance(source, Mapping):
        raise UsageError(
            f"metadata: expected a path, a DataFrame or a mapping of columns, got {type(source).__name__}."
        )
    columns = {str(key): labels_from_array(column, f"metadata: column {key!r}") for key, column in source.items()}
    if len({len(column) for column in columns.values()}) != 1:
        raise DataError(
            f"metadata: expected columns of one length, got { {key: len(column) for key, column in columns.items()} }."
        )
    own = own_id_name([key for key in columns if is_id_name(key)], columns.__getitem__, "metadata")
    return LabelledRows("metadata", columns, None if own is None else checked_ids(columns, own, "metadata"), own)


def _metadata_file(spec: Path_) -> LabelledRows:
    path, part = located(spec)
    check_is_there(path)
    table = labelled_table(path) if suffix_of(path) in READERS or is_folder(path) else None
    if table is None:
        raise DataError(f"{path}: expected metadata as one of {', '.join(LABELLED)}; convert or rename it.")
    found = table.metadata(part)
    if not found.labels:
        raise DataError(f"{path}: expected columns that describe the rows, found none.")
    return found


def _keys(
    values: LabelledRows, name: str, beside: LabelledRows, ids: str | None
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """The ids to join on, of both sides; None to take rows in order."""
    left = values.ids
    if ids is not None:
        right = _metadata_ids(beside, ids)
        if left is not None and right is not None:
            return left, right
        if left is not None:
            raise PairingError(
                f"{beside.label}: has no column {ids!r} to join with {name}; it has {named(beside.labels)}."
            )
    elif left is not None and values.id_name is not None and values.id_name in beside.labels:
        return left, beside.ids_in(values.id_name)
    elif (shared := _shared_ids(values, name, beside)) is not None:
        return shared
    elif left is not None and beside.ids is not None:
        return left, beside.ids
    if values.labels or left is not None:
        raise PairingError(
            f"{name} and {beside.label} have no column of unique ids in common (it has {named(beside.labels)}); "
            "name the one to join on with ids (--ids)."
        )
    if beside.n != values.n:
        raise PairingError(
            f"{name} has {values.n} rows without ids and {beside.label} {beside.n}; give one row for each, "
            "in the same order, or ids on both sides."
        )
    return None


def _metadata_ids(beside: LabelledRows, ids: str | None) -> NDArray[Any] | None:
    return beside.ids_in(ids) if ids is not None and ids in beside.labels else beside.ids


def _shared_ids(values: LabelledRows, name: str, beside: LabelledRows) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """A column that both sides have and that names every row of each."""
    both = [
        k for k in values.labels if k in beside.labels and _is_unique(values.labels[k]) and _is_unique(beside.labels[k])
    ]
    unique = [key for key in both if is_id_name(key)] or both
    if len(unique) > 1:
        raise PairingError(
            f"{name} and {beside.label} could be joined on {named(unique)}; choose one with ids (--ids)."
        )
    return (checked_ids(values.labels, unique[0], name), beside.ids_in(unique[0])) if unique else None


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


# -- features that are missing or not finite


@dataclass(frozen=True, eq=False)
class _Missing:
    """How many cells are not finite, in which rows and columns, and the first of them."""

    cells: int
    rows: NDArray[np.bool_]
    columns: NDArray[np.bool_]
    first: tuple[tuple[int, int], ...]
    largest: float  # in size, of those that are finite

    @classmethod
    def of(cls, blocks: Blocks) -> _Missing:
        cells = start = 0
        largest = 0.0
        rows, columns = np.zeros(blocks.n, bool), np.zeros(blocks.d, bool)
        first: list[tuple[int, int]] = []
        for block in blocks if blocks.dtype.kind == "f" else ():
            bad = ~np.isfinite(block)
            if bad.any():
                cells += int(bad.sum())
                rows[start : start + len(block)] = bad.any(axis=1)
                columns |= bad.any(axis=0)
                first += [(start + int(i), int(j)) for i, j in np.argwhere(bad)[: SHOWN_CELLS - len(first)]]
            held = block[~bad] if bad.any() else block
            largest = max(largest, float(held.max(initial=0)), -float(held.min(initial=0)))
            start += len(block)
        return cls(cells, rows, columns, tuple(first), largest)


def _filled(opened: OpenedScreen, blocks: Blocks, gaps: Gaps, original: NDArray[np.intp] | None) -> OpenedScreen:
    """The screen with finite features: an error, or without the columns or rows that have others, or with medians in their place."""
    found = _Missing.of(blocks)
    check_magnitude(found.largest, blocks.name)
    if not found.cells:
        return opened
    table, names = opened.representation, opened.feature_names
    holed = np.flatnonzero(found.columns)
    named_columns = [shown(names[j]) for j in holed]
    where = {"name": table.name, "names": named_columns}
    if gaps.drop == "columns":
        kept = np.flatnonzero(~found.columns)
        if not kept.size:
            raise DataError(f"{table.name}: every column has missing values; use --drop-nan rows or --impute median.")
        alert = Alert("columns_dropped", {**where, "columns": len(holed), "of": blocks.d})
        columns = None if table.columns is None else tuple(table.columns[j] for j in kept)
        less = replace(table, values=Blocks(_Finite(blocks, kept), name=blocks.name), columns=columns)
        return _changed(opened, less, alert, tuple(names[j] for j in kept))
    if gaps.drop == "rows":
        rows = np.flatnonzero(~found.rows)
        if not rows.size:
            raise DataError(f"{table.name}: every row has missing values; use --drop-nan columns or --impute median.")
        dropped = np.flatnonzero(found.rows) if original is None else original[found.rows]
        values = {"rows": len(dropped), "of": blocks.n, "first": dropped[:SHOWN_CELLS].tolist()}
        return _changed(opened, rows_of(table, rows), Alert("wells_dropped", {**where, **values}))
    if gaps.impute == "median":
        alert = Alert("values_imputed", {**where, "values": found.cells, "columns": len(holed)})
        medians = _medians(blocks, holed, named_columns)
        filled = Blocks(_Finite(blocks, np.arange(blocks.d), holed, medians), name=blocks.name)
        return _changed(opened, replace(table, values=filled), alert)
    cells = "; ".join(
        f"row {i if original is None else original[i]}{'' if table.ids is None else f' ({table.ids[i]})'} column {shown(names[j])}"
        for i, j in found.first
    )
    raise DataError(
        f"{blocks.name}: expected finite features, got {found.cells} missing, NaN or infinite values in {int(found.rows.sum())} rows "
        f"and {len(holed)} columns ({named(named_columns)}; first, rows from 0: {cells}); leave out these columns or rows (--drop-nan "
        "columns, --drop-nan rows), replace the values (--impute median), or choose other columns (--features)."
    )


def _changed(
    opened: OpenedScreen, table: Representation, alert: Alert, names: tuple[str, ...] | None = None
) -> OpenedScreen:
    """The screen with other values, which are no longer those of the file."""
    notes = (*opened.notes, alert)
    return replace(opened, representation=table, feature_names=names or opened.feature_names, notes=notes, path=None)


def rows_of(table: Representation, rows: NDArray[np.intp]) -> Representation:
    """Some rows of a table with what is known of them."""
    values = table.values if isinstance(table.values, Blocks) else Blocks(table.values, name=table.name)
    labels = {key: np.asarray(column)[rows] for key, column in table.labels.items()}
    counted = None if table.counted is None else table.counted[rows]
    ids = None if table.ids is None else table.ids[rows]
    return replace(table, values=values.select(rows), ids=ids, labels=labels, counted=counted)


class _Finite:
    """Some columns of a table, with what is not finite in some of them replaced. A `blocks.Rows`."""

    def __init__(
        self,
        source: Blocks,
        columns: NDArray[np.intp],
        holed: NDArray[np.intp] | None = None,
        medians: NDArray[np.float64] | None = None,
    ):
        self.source, self.columns, self.holed, self.medians = source, columns, holed, medians
        self.shape, self.dtype = (source.n, len(columns)), source.dtype

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        found = np.array(self.source[rows])
        if self.holed is not None and self.medians is not None:
            part = found[:, self.holed]
            found[:, self.holed] = np.where(np.isfinite(part), part, self.medians.astype(self.dtype))
        return found[:, self.columns] if self.shape[1] < self.source.d else found


def _medians(blocks: Blocks, columns: NDArray[np.intp], names: Sequence[str]) -> NDArray[np.float64]:
    """Of some columns the median of what is finite, a few columns at a time."""
    step = max(1, GATHERED // blocks.n)
    medians = np.empty(len(columns))
    for a in range(0, len(columns), step):
        part = np.concatenate([np.asarray(block[:, columns[a : a + step]], dtype=np.float64) for block in blocks])
        part[~np.isfinite(part)] = np.nan
        empty = np.isnan(part).all(axis=0)
        if empty.any():
            raise DataError(
                f"{blocks.name}: column {names[a + int(np.argmax(empty))]!r} has no finite value, so there is no median; leave such "
                "columns out (--drop-nan columns)."
            )
        medians[a : a + step] = np.nanmedian(part, axis=0)
    return medians
