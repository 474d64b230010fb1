"""Applying a basis to rows, block by block."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from identifiable._checks import DataError, UsageError
from identifiable.api.opening import is_path, open_sources
from identifiable.blocks import Blocks, chunk_rows, silent
from identifiable.deconfounding.feature_map import FeatureMap
from identifiable.groups import AffineMap
from identifiable.ica import Resolved
from identifiable.intake import NonFinite, as_representation, blocks_of
from identifiable.io import load_basis, open_screen, open_with_metadata, save_anndata, save_array
from identifiable.io.anndata_files import OBS_NAMES, AnnDataFile, Beside
from identifiable.io.containers import check_is_file, listed, shown, split_spec, suffix_of
from identifiable.io.label_columns import is_id_name
from identifiable.io.opening import column_names
from identifiable.representation import Representation
from identifiable.results import Alert
from identifiable.run import Progress, Stage

FLOATS = ("float16", "float32", "float64")
HALF_OR_SINGLE = ("float16", "float32")  # inputs whose digits a float32 result keeps
HEADED = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")  # files that name all their columns in one place
ANNDATA = ".h5ad"
WITHOUT_IDS = ".npy"  # the one format that has no place for them
WITH_LABELS = (".parquet", ANNDATA)
SHOWN_ROWS = 5


@overload
def transform(
    basis: str | os.PathLike[str] | Resolved | FeatureMap,
    X: Any,
    output: None = None,
    *,
    inverse: bool = False,
    only_identifiable: bool = False,
    blocks: int | None = None,
    ids: str | None = None,
    dtype: DTypeLike | None = None,
) -> NDArray[Any]: ...
@overload
def transform(
    basis: str | os.PathLike[str] | Resolved | FeatureMap,
    X: Any,
    output: str | os.PathLike[str],
    *,
    inverse: bool = False,
    only_identifiable: bool = False,
    blocks: int | None = None,
    ids: str | None = None,
    dtype: DTypeLike | None = None,
) -> Path: ...
def transform(
    basis: str | os.PathLike[str] | Resolved | FeatureMap,
    X: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    inverse: bool = False,
    only_identifiable: bool = False,
    blocks: int | None = None,
    ids: str | None = None,
    dtype: DTypeLike | None = None,
) -> NDArray[Any] | Path:
    """Components of new rows in a basis found before; or, with `inverse`, rows from components.

    Ours. Rows are read, mapped and, with `output`, written a block at a time; the map is computed in float64 and
    rounded once. The same rows give the same bits whatever the format and `blocks`.

    A basis fitted to columns with names (a table, a data frame, `X` of a `.h5ad`) knows them. Columns of `X` are then
    found by name, in any order and among others; one that is missing or occurs twice is an error. Where only one of
    the two has names, or names that only count (0, 1, 2, …), columns are taken by position, with a warning
    (`columns_not_checked`).

    Parameters
    ----------
    basis
        What `resolve` returned, or the file it was saved to; or a map from features to features, as `deconfound.clean` has it
        (`cleaned.basis`), which gives features under their names.
    X
        Rows with the columns the basis was fitted to (with `inverse`: its components): an array, a data frame, a
        `Representation`, `Blocks`, a Dask array or a path.
    output
        Where to write: `.npy`, `.npz`, `.safetensors`, `.parquet` or `.h5ad`, whole or not at all. Ids of the rows go along,
        except into a `.npy`; columns of metadata from a `.parquet` or `.h5ad` into either of these. From one `.h5ad` to another
        `obs`, `obsm`, `obsp`, `uns` and `raw` are copied; `layers`, `varm`, `varp` and the columns of `var`, which belong to the
        columns of the input, are not, and a warning (`parts_dropped`) names them. The path is returned; without `output` an
        array is.
    inverse
        From components back to the space of the data. Directions without variance, which resolving drops, come back
        as their mean.
    only_identifiable
        Only the columns of components the result calls identifiable, in their order; bit for bit those of all columns.
        Needs a basis resolved with refits (`stability`), and does not go with `inverse`.
    blocks
        For a path: rows to read from storage at once.
    ids
        The column, key or sidecar file that holds sample ids; of a data frame a column. Without it its index goes along.
    dtype
        float16, float32 or float64; by default float32 for rows stored in at most that, else float64.

    >>> from identifiable import resolve
    >>> X = np.random.default_rng(0).laplace(size=(1000, 2)) @ [[2, 1], [1, 1]]
    >>> basis = resolve(X, stability=0)
    >>> Z = transform(basis, X)
    >>> np.round(Z.std(axis=0), 6)
    array([1., 1.])
    >>> np.allclose(transform(basis, Z, inverse=True), X)
    True
    """
    done = apply_basis(
        basis,
        X,
        output,
        inverse=inverse,
        only_identifiable=only_identifiable,
        blocks=blocks,
        ids=ids,
        dtype=dtype,
    )
    for alert in done.alerts:
        warnings.warn(f"{alert.code}: {alert.message}", stacklevel=2)
    return done.values


@dataclass(frozen=True, eq=False)
class Transformed:
    """What `transform` made: an array or the path it was written to, its shape, and what the user must know."""

    values: NDArray[Any] | Path
    shape: tuple[int, int]
    alerts: tuple[Alert, ...]


def apply_basis(
    basis: str | os.PathLike[str] | Resolved | FeatureMap,
    X: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    inverse: bool = False,
    only_identifiable: bool = False,
    blocks: int | None = None,
    ids: str | None = None,
    dtype: DTypeLike | None = None,
    progress: Progress | None = None,
) -> Transformed:
    """As `transform`, with the alerts beside the values."""
    found = _loaded(basis)
    if isinstance(found, FeatureMap) and (inverse or only_identifiable):
        asked = "inverse" if inverse else "only_identifiable"
        raise UsageError(
            f"{asked}: expected a basis with components, got a map from features to features; leave it out."
        )
    columns = _identifiable_columns(found, inverse) if only_identifiable else None
    before = found.before if isinstance(found, FeatureMap) else None
    if before is not None and before.method == "all rows":
        raise UsageError(
            f"{before.named} corrects only the rows it was fitted to; run deconfound recommend on all plates together."
        )
    beside = _beside(X, output, ids)
    own_labels = not (beside and "obs" in beside.kept)  # what is not copied with the file
    table = _opened(found, X, ids, blocks, output, inverse, before is not None or (_has_labels(output) and own_labels))
    table, alerts = _arranged(table, found, inverse)
    source = blocks_of(table)
    _check_width(source, found, inverse)
    if before is not None:
        from identifiable.deconfounding.recommendation.new_plates import scaled_by_own_controls  # loads scikit-learn

        source, noticed = scaled_by_own_controls(source, table.labels, before)
        alerts += noticed
    if not (_has_labels(output) and own_labels):
        table = replace(table, labels={})
    by = _map(found, inverse)
    watch = None if progress is None else partial(progress, Stage("transforming", table.name))
    mapped = _Mapped(source, by, result_dtype(dtype, source), columns, watch)
    # The grid of the products follows from the shapes alone; storage blocks end at the source.
    rows = Blocks(mapped, rows=chunk_rows(sum(mapped.map.matrix.shape)), name=source.name)
    if output is not None:
        keeps_ids = ids is not None or Path(output).suffix.lower() != WITHOUT_IDS
        names = _names(found, columns, inverse)
        if beside is None:
            path = save_array(output, rows, table.ids if keeps_ids else None, table.labels, names)
        else:
            path = save_anndata(output, rows, table.labels, ids=table.ids, feature_names=names, beside=beside)
            alerts += _dropped(beside, path)
        return Transformed(path, rows.shape, alerts)
    result: NDArray[Any] = np.empty(rows.shape, rows.dtype)
    at = 0
    for block in rows:
        result[at : at + len(block)] = block
        at += len(block)
    return Transformed(result, rows.shape, alerts)


def as_basis(basis: str | os.PathLike[str] | Resolved) -> Resolved:
    """A basis of components as it is, or from its file."""
    found = _loaded(basis)
    if not isinstance(found, Resolved):
        got = basis if is_path(basis) else type(found).__name__
        raise UsageError(f"basis: expected a basis of components, as resolve or attribute save it, got a map: {got}.")
    return found


def _loaded(basis: str | os.PathLike[str] | Resolved | FeatureMap) -> Resolved | FeatureMap:
    found = load_basis(basis) if is_path(basis) else basis
    if not isinstance(found, Resolved | FeatureMap):
        raise UsageError(
            f"basis: expected what resolve returned or the path of a saved basis, got {type(found).__name__}."
        )
    return found


def _map(basis: Resolved | FeatureMap, inverse: bool) -> AffineMap:
    if isinstance(basis, FeatureMap):
        return basis.map
    return basis.from_components if inverse else basis.to_components


def _beside(X: Any, output: str | os.PathLike[str] | None, ids: str | None) -> Beside | None:
    """What goes along from one `.h5ad` to another."""
    if output is None or Path(output).suffix.lower() != ANNDATA or not is_path(X):
        return None
    path, part = split_spec(X, (ANNDATA,))
    if suffix_of(path) != ANNDATA:
        return None
    check_is_file(path)
    return AnnDataFile(path).beside(part, obs=ids in (None, OBS_NAMES))


def _dropped(beside: Beside, output: Path) -> tuple[Alert, ...]:
    if not beside.dropped:
        return ()
    return (
        Alert(
            "parts_dropped",
            {"output": str(output), "path": str(beside.path), "parts": [shown(name) for name in beside.dropped]},
        ),
    )


def _has_labels(output: str | os.PathLike[str] | None) -> bool:
    return output is not None and Path(output).suffix.lower() in WITH_LABELS


def _opened(
    basis: Resolved | FeatureMap,
    X: Any,
    ids: str | None,
    blocks: int | None,
    output: str | os.PathLike[str] | None,
    inverse: bool,
    with_labels: bool,
) -> Representation:
    """`X` as a table; of a file with other columns beside those of the basis only these, the others as metadata."""
    if not is_path(X):
        return as_representation(open_sources([X], ids)[0], alone=output is None)
    known = _known(basis, inverse)
    path, part = split_spec(X, (*HEADED, ANNDATA))
    if known and part is None and suffix_of(path) in HEADED:
        names = column_names(path)
        others = [name for name in set(names) - {*known, ids, ""} if not is_id_name(name)]
        if set(known) <= set(names) and len(set(names)) == len(names) and (others or suffix_of(path) == ".parquet"):
            table = open_screen(X, ids=ids, features=known).representation
            return replace(table, values=Blocks(blocks_of(table).source, rows=blocks, name=blocks_of(table).name))
    if with_labels:
        return open_with_metadata(X, ids=ids, rows=blocks)
    opened: Representation = open_sources([X], ids, blocks)[0]
    return opened


def _arranged(
    table: Representation, basis: Resolved | FeatureMap, inverse: bool
) -> tuple[Representation, tuple[Alert, ...]]:
    """The columns of a table in the order of the basis, by name; an alert where names are on one side only."""
    known, given = _known(basis, inverse), table.columns
    if inverse and not set(known or ()) & set(given or ()):  # components under names of someone else, or under none
        known = None
    order = places(known, given, table.name)
    if order is None:
        return table, () if known == given else (not_checked(table.name, basis),)
    rows = blocks_of(table)
    values = Blocks(_Columns(rows, order), rows=rows.rows, name=rows.name)
    return replace(table, values=values, columns=known), ()


def not_checked(name: str, basis: Resolved | FeatureMap) -> Alert:
    """The alert that columns were taken by position."""
    return Alert("columns_not_checked", {"name": name, "basis": basis.result.inputs[0].name})


def places(known: tuple[str, ...] | None, given: tuple[str, ...] | None, name: str) -> list[int] | None:
    """Where the columns that a basis was fitted to stand in a table, by name; an error if one is missing or there twice.

    None where columns can only be taken as they come: they are the same, or one side has no names, or names that only count.
    """
    if known is None or given is None or known == given:
        return None
    if not set(known) <= set(given) and any(names == tuple(map(str, range(len(names)))) for names in (known, given)):
        return None
    place = {column: j for j, column in enumerate(given)}
    missing = [column for column in known if column not in place]
    if missing:
        raise DataError(
            f"{name}: {len(missing)} of the {len(known)} columns the basis was fitted to are missing "
            f"({listed([shown(column) for column in missing])}); rename the columns, or resolve the table anew."
        )
    counts = [Counter(known), Counter(given)]
    twice = [column for column in dict.fromkeys(known) if any(count[column] > 1 for count in counts)]
    if twice:
        raise DataError(
            f"{name}: {len(twice)} column names of the basis occur more than once "
            f"({listed([shown(column) for column in twice])}) and the columns are in another order; rename them."
        )
    return [place[column] for column in known]


def _known(basis: Resolved | FeatureMap, inverse: bool) -> tuple[str, ...] | None:
    """What the basis calls the columns of its input."""
    return tuple(component_name(component.index) for component in basis.result.components) if inverse else basis.columns


class _Columns:
    """Some columns of a table, in an order of their own. A `blocks.Rows`."""

    def __init__(self, source: Blocks, columns: list[int]):
        self.source, self.columns, self.dtype = source, columns, source.dtype
        self.shape = (source.n, len(columns))

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        return self.source[rows][:, self.columns]


def _names(basis: Resolved | FeatureMap, columns: list[int] | None, inverse: bool) -> list[str] | None:
    """What the columns of a result are called where a format has names: components by their place in the basis."""
    if inverse or isinstance(basis, FeatureMap):
        return None if basis.columns is None else list(basis.columns)
    components = basis.result.components
    return [component_name(components[k].index) for k in (range(len(components)) if columns is None else columns)]


def component_name(index: int) -> str:
    """What a component is called in a table."""
    return f"component_{index:03d}"


class _Mapped:
    """Rows of a table after an affine map, all `columns` or some, each block checked as it is read. A `blocks.Rows`."""

    def __init__(
        self,
        source: Blocks,
        by: AffineMap,
        dtype: np.dtype[Any],
        columns: list[int] | None,
        progress: Callable[[int, int], None] | None,
    ):
        self.source, self.map, self.dtype, self.columns, self.progress = source, by, dtype, columns, progress
        self.shape = (source.n, by.matrix.shape[1] if columns is None else len(columns))

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        block = self.source[rows]
        first, stop, _ = rows.indices(self.source.n)
        if self.progress is not None:
            self.progress(stop, self.source.n)
        _refuse(block, first, f"{self.source.name}: expected finite numbers, got", "remove or impute them.")
        with silent():
            # In row order, whatever the source's: products of another layout round differently.
            values = self.map(np.ascontiguousarray(block, np.float64))
            if self.columns is not None:  # chosen last: a product of fewer columns may round differently
                values = values[:, self.columns]
            result = values.astype(self.dtype, order="C", copy=False)
        what = f"{self.source.name}: mapped into {self.dtype} the rows overflow to"
        _refuse(result, first, what, "scale the rows, or ask for dtype float64.")
        return result


def _refuse(rows: NDArray[Any], first: int, what: str, remedy: str) -> None:
    """An error if anything is not finite, with the rows it is in; later blocks have not been looked at."""
    found = NonFinite()
    found.add(first, [rows])
    if found.count:
        shown = ", ".join(map(str, found.rows[:SHOWN_ROWS]))
        raise DataError(
            f"{what} {found.count} NaN or infinite values in {len(found.rows)} of the rows {first} to "
            f"{first + len(rows) - 1} (first rows, from 0: {shown}); {remedy}"
        )


def _identifiable_columns(basis: Resolved | FeatureMap, inverse: bool) -> list[int]:
    if inverse:
        raise UsageError("only_identifiable chooses among components, inverse gives rows of data; pass one of the two.")
    columns = [place for place, component in enumerate(basis.result.components) if component.identifiable]
    if not columns:
        of = basis.result
        raise UsageError(
            f"only_identifiable: expected a basis with identifiable components, but of {of.inputs[0].name}: "
            f"{of.headline}; resolve it with refits (stability) and more rows, or write all columns."
        )
    return columns


def _check_width(source: Blocks, basis: Resolved | FeatureMap, inverse: bool) -> None:
    wanted = _map(basis, inverse).matrix.shape[0]
    if source.d == wanted:
        return
    of = basis.result.inputs[0].name
    if inverse:
        raise DataError(
            f"{source.name}: expected {wanted} columns, the components of the basis of {of}, got {source.d}; "
            "to go back, pass what transform gave with this basis."
        )
    raise DataError(
        f"{source.name}: expected {wanted} columns, as {of} had when the basis was fitted, got {source.d}; "
        "pass rows of the same model, or resolve them anew."
    )


def result_dtype(asked: DTypeLike | None, source: Blocks) -> np.dtype[Any]:
    if asked is None:
        return np.dtype(np.float32 if source.dtype.name in HALF_OR_SINGLE else np.float64)
    try:
        dtype = np.dtype(asked)
    except TypeError:
        raise UsageError(f"dtype {asked!r}: expected one of {', '.join(FLOATS)}.") from None
    if dtype.name not in FLOATS:
        raise UsageError(f"dtype {asked!r}: expected one of {', '.join(FLOATS)}.")
    return dtype.newbyteorder("=")
