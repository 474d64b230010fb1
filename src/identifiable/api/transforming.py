"""Applying a basis or a map to rows, block by block."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from identifiable._checks import DataError, UsageError, counted
from identifiable.alignment import INSIDE, Aligned
from identifiable.api.opening import connected, is_path, open_sources
from identifiable.blocks import Blocks, ahead, chunk_rows, silent
from identifiable.deconfounding.feature_map import FeatureMap
from identifiable.groups import AffineMap
from identifiable.ica import Resolved
from identifiable.intake import NonFinite, as_representation, blocks_of
from identifiable.io import load_basis, open_screen, open_with_metadata, save_anndata, save_array, save_table
from identifiable.io.anndata_files import OBS_NAMES, AnnDataFile, Beside, parts_in_memory
from identifiable.io.basis_files import Basis
from identifiable.io.containers import check_is_file, is_pattern, listed, shown, suffix_of
from identifiable.io.label_columns import is_id_name
from identifiable.io.opening import column_names, labelled_table, located, shard_format
from identifiable.io.saving import WITH_LABELS
from identifiable.io.shards import LabelledShards, ShardRows
from identifiable.io.tables import DELIMITERS
from identifiable.representation import Representation, is_anndata
from identifiable.results import Alert, Mechanisms
from identifiable.results.writing import together
from identifiable.rows import uniforms
from identifiable.run import Progress, Stage

FLOATS = ("float16", "float32", "float64")
HALF_OR_SINGLE = ("float16", "float32")  # inputs whose digits a float32 result keeps
ANNDATA = ".h5ad"
ANNDATA_FORMS = (ANNDATA, ".zarr")
WITHOUT_IDS = ".npy"  # the one format that has no place for them
SHOWN_ROWS = 5
# Rows whose leverage is computed unless all are asked for: it costs as much as the map.
LOOKED_AT, LOOKED_AT_SHARE = 2000, 1 / 32


@overload
def transform(
    basis: str | os.PathLike[str] | Basis,
    X: Any,
    output: None = None,
    *,
    inverse: bool = False,
    only_identifiable: bool = False,
    blocks: int | None = None,
    ids: str | None = None,
    dtype: DTypeLike | None = None,
    flags: str | os.PathLike[str] | None = None,
    scheduler: Any = None,
) -> NDArray[Any]: ...
@overload
def transform(
    basis: str | os.PathLike[str] | Basis,
    X: Any,
    output: str | os.PathLike[str],
    *,
    inverse: bool = False,
    only_identifiable: bool = False,
    blocks: int | None = None,
    ids: str | None = None,
    dtype: DTypeLike | None = None,
    flags: str | os.PathLike[str] | None = None,
    scheduler: Any = None,
) -> Path: ...
def transform(
    basis: str | os.PathLike[str] | Basis,
    X: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    inverse: bool = False,
    only_identifiable: bool = False,
    blocks: int | None = None,
    ids: str | None = None,
    dtype: DTypeLike | None = None,
    flags: str | os.PathLike[str] | None = None,
    scheduler: Any = None,
) -> NDArray[Any] | Path:
    """Components of new rows in a basis found before, or rows carried into another representation by a map; or back (`inverse`).

    Ours. Rows are read, mapped and, with `output`, written a block at a time. Components are computed in float64 and rounded once;
    a map of `align` is computed in the type of the result. The same rows give the same bits whatever the format and `blocks`.

    Rows of `X` may be unlike those that a map of `align` was fitted to. Their leverage says so (`Reach`): that of every row with
    `flags` and in tables of at most 2,000 rows, else that of one row in 32 or of 2,000, whichever is more. Where more are outside
    than chance gives, a warning (`rows_outside`) names the first.

    A basis fitted to columns with names (a table, a data frame, `X` of a `.h5ad`) knows them. Columns of `X` are then
    found by name, in any order and among others; one that is missing or occurs twice is an error. Where only one of
    the two has names, or names that only count (0, 1, 2, …), columns are taken by position, with a warning
    (`columns_not_checked`).

    Parameters
    ----------
    basis
        What `resolve` or `align` returned, or the file it was saved to; or a map from features to features, as `deconfound.clean`
        has it (`cleaned.basis`), which gives features under their names; or the file that the command `mechanisms` wrote.
    X
        Rows with the columns the basis was fitted to (with `inverse`: its components): an array, a data frame, a
        `Representation`, `Blocks`, a Dask array or a path.
    output
        Where to write, whole or not at all: `.npy`, `.npz`, `.safetensors`, `.parquet`, `.arrow`, `.feather`, `.csv`, `.tsv`,
        `.h5ad`, `.h5` or `.zarr`; from a table in many files also a folder, for as many files of the same names. Ids of the rows go along,
        except into a `.npy`; columns of metadata into `.parquet`, `.arrow`, `.feather`, `.h5ad`, `.zarr`. From one `.h5ad` to another
        `obs`, `obsm`, `obsp`, `uns` and `raw` are copied; `layers`, `varm`, `varp` and the columns of `var`, which belong to the
        columns of the input, are not, and a warning (`parts_dropped`) names them, as it does all that an AnnData in memory or in a
        `.zarr` has besides. The path is returned; without `output` an array is.
    inverse
        From components back to the space of the data. Directions without variance, which resolving drops, come back
        as their mean. Of a map of `align`: from the second representation to the first, where the map has an inverse.
    only_identifiable
        Only the columns of components the result calls identifiable, in their order; bit for bit those of all columns.
        Needs a basis resolved with refits (`stability`), and does not go with `inverse`.
    blocks
        For a path: rows to read from storage at once.
    ids
        The column, key or sidecar file that holds sample ids; of a data frame a column. Without it its index goes along.
    dtype
        float16, float32 or float64; by default float32 for rows stored in at most that, else float64.
    flags
        For a map of `align`: a `.csv` or `.parquet` to write with a line for each row: its id or number, its `leverage`, and
        whether it is `outside` of what the map was fitted to.
    scheduler
        The address of a Dask scheduler, or a client of it: its workers read and map the rows of a file, this process writes them.

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
        flags=flags,
        scheduler=scheduler,
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
    basis: str | os.PathLike[str] | Basis,
    X: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    inverse: bool = False,
    only_identifiable: bool = False,
    blocks: int | None = None,
    ids: str | None = None,
    dtype: DTypeLike | None = None,
    flags: str | os.PathLike[str] | None = None,
    scheduler: Any = None,
    progress: Progress | None = None,
) -> Transformed:
    """As `transform`, with the alerts beside the values."""
    found = loaded(basis, X)
    _check_asked(found, inverse=inverse, only_identifiable=only_identifiable, flags=flags)
    columns = _identifiable_columns(found, inverse) if only_identifiable else None
    before = found.before if isinstance(found, FeatureMap) else None
    if before is not None and before.method == "all rows":
        raise UsageError(
            f"{before.named} corrects only the rows it was fitted to; run deconfound recommend on all plates together."
        )
    beside = _beside(X, output, ids)
    own_labels = not (beside and "obs" in beside.kept)  # what is not copied with the file
    form = "" if output is None else output_format(output, X)
    has_labels = form in WITH_LABELS and own_labels
    table = _opened(found, X, ids, blocks, output, inverse, before is not None or has_labels)
    stored = blocks_of(table).base
    table, alerts = arranged(table, found, inverse)
    if (
        is_path(X)
        and isinstance(found, Aligned)
        and table.columns is None
        and _is_other_side(table.name, found, inverse)
    ):
        alerts = (*alerts, not_checked(table.name, found, inverse))
    source = blocks_of(table)
    _check_width(source, found, inverse)
    if before is not None:
        from identifiable.deconfounding.recommendation.new_plates import scaled_by_own_controls  # loads scikit-learn

        source, noticed = scaled_by_own_controls(source, table.labels, before)
        alerts += noticed
    if not has_labels:
        table = replace(table, labels={})
    shape, kind = _map(found, inverse).matrix.shape, result_dtype(dtype, source)
    watch = None if progress is None else partial(progress, Stage("transforming", table.name))
    reached = (
        _Reached(found, source.n, all_rows=flags is not None) if isinstance(found, Aligned) and not inverse else None
    )
    width = shape[1] if columns is None else len(columns)
    read = _MappedRows(source, _applied(found, inverse, kind), kind, columns, reached)
    # The grid of the products follows from the shapes alone; storage blocks end at the source.
    values: NDArray[Any] | Path
    with connected(scheduler) as cluster, nullcontext() if flags is None else together():
        by_whom = ahead(read, source.n, None if source.in_memory else cluster)
        mapped = _Mapped((source.n, width), kind, by_whom, watch, reached)
        rows = Blocks(mapped, rows=chunk_rows(sum(shape)), name=source.name)
        if output is None:
            values = np.empty(rows.shape, rows.dtype)
            at = 0
            for block in rows:
                values[at : at + len(block)] = block
                at += len(block)
        else:
            keeps_ids = ids is not None or form != WITHOUT_IDS
            names = _names(found, columns, inverse)
            if beside is None:
                shards = stored.files if not Path(output).suffix and isinstance(stored, ShardRows) else None
                values = save_array(output, rows, table.ids if keeps_ids else None, table.labels, names, shards=shards)
                alerts += _dropped(_left_behind(X, form), values)
            else:
                values = save_anndata(output, rows, table.labels, ids=table.ids, feature_names=names, beside=beside)
                alerts += _dropped(beside, values)
        if reached is not None:
            alerts += reached.alerts(table)
            if flags is not None:
                reached.write(flags, table)
    return Transformed(values, rows.shape, alerts)


def _check_asked(found: Basis, *, inverse: bool, only_identifiable: bool, flags: str | os.PathLike[str] | None) -> None:
    """Refuse what this kind does not have."""
    if only_identifiable and not isinstance(found, Resolved):
        raise UsageError("only_identifiable: expected a basis with components, got a map; leave it out.")
    if inverse and isinstance(found, FeatureMap) and not isinstance(found.result, Mechanisms):
        raise UsageError(
            "inverse: expected a basis with components, got a map from features to features; leave it out."
        )
    if inverse and isinstance(found, Aligned):
        found.way(inverse)
    if flags is not None and (inverse or not isinstance(found, Aligned)):
        raise UsageError(
            "flags: only a map of align, and not its inverse, has rows that it was fitted to; leave it out."
        )


def as_basis(basis: str | os.PathLike[str] | Resolved) -> Resolved:
    """A basis of components as it is, or from its file."""
    found = loaded(basis)
    if not isinstance(found, Resolved):
        got = basis if is_path(basis) else type(found).__name__
        raise UsageError(f"basis: expected a basis of components, as resolve or attribute save it, got a map: {got}.")
    return found


def loaded(basis: str | os.PathLike[str] | Basis, rows: Any = None) -> Basis:
    """A basis as it is, or from its file. `rows` are what it will be applied to: the two are easily swapped."""
    try:
        found = load_basis(basis) if is_path(basis) else basis
    except DataError:
        if is_path(rows) and _is_basis(rows):
            raise UsageError(f"{rows} is the basis or map, {basis} are rows; type transform {rows} {basis}.") from None
        raise
    if not isinstance(found, Basis):
        raise UsageError(
            f"basis: expected what resolve or align returned or the path of what they saved, got {type(found).__name__}."
        )
    return found


def _is_basis(path: str | os.PathLike[str]) -> bool:
    try:
        load_basis(path)
    except DataError:
        return False
    return True


def _map(basis: Basis, inverse: bool) -> AffineMap:
    if isinstance(basis, Aligned):
        return basis.way(inverse)
    if isinstance(basis, FeatureMap):
        return basis.map.inverse() if inverse else basis.map
    return basis.from_components if inverse else basis.to_components


def _applied(basis: Basis, inverse: bool, kind: np.dtype[Any]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """What is done to a block of rows. In row order, whatever the source's: products of another layout round differently."""
    if isinstance(basis, Aligned):
        return basis.carrier(inverse=inverse, dtype=np.result_type(kind, np.float32))
    by = _map(basis, inverse)
    return lambda rows: by.apply(np.ascontiguousarray(rows, np.float64))


def _fitted_to(basis: Basis, inverse: bool = False) -> str:
    """The name of the table whose columns a basis takes."""
    if isinstance(basis, Aligned):
        return basis.target if inverse else basis.source
    name: str = basis.result.inputs[0].name
    return name


def _beside(X: Any, output: str | os.PathLike[str] | None, ids: str | None) -> Beside | None:
    """What goes along from one `.h5ad` to another; None of other files."""
    if output is None or Path(output).suffix.lower() != ANNDATA or not is_path(X):
        return None
    path, part = located(X)
    if suffix_of(path) != ANNDATA or is_pattern(path):
        return None
    check_is_file(path)
    return AnnDataFile(path).beside(part, obs=ids in (None, OBS_NAMES))


def _left_behind(X: Any, form: str) -> Beside | None:
    """What an AnnData that is not an `.h5ad`, or is not written as one, has and an AnnData that is written will not."""
    if form not in ANNDATA_FORMS:
        return None
    if not is_path(X):
        return Beside(Path(type(X).__name__), (), parts_in_memory(X)) if is_anndata(X) else None
    path, part = located(X)
    table = labelled_table(path)
    table = table.first if isinstance(table, LabelledShards) else table
    return Beside(path, (), table.parts(part)) if isinstance(table, AnnDataFile) else None


def _dropped(beside: Beside | None, output: Path) -> tuple[Alert, ...]:
    if beside is None or not beside.dropped:
        return ()
    return (
        Alert(
            "parts_dropped",
            {"output": str(output), "path": str(beside.path), "parts": [shown(name) for name in beside.dropped]},
        ),
    )


def output_format(output: str | os.PathLike[str], X: Any) -> str:
    """The suffix of what is written: that of `output`, or of the shards of `X` where `output` is a folder for as many files."""
    suffix = Path(output).suffix.lower()
    if suffix or not is_path(X):
        return suffix
    return shard_format(located(X).path) or suffix


def _opened(
    basis: Basis,
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
    path, part = located(X)
    if known and part is None:
        names = column_names(path)  # where a file names all its columns in one place
        others = [name for name in set(names) - {*known, ids, ""} if not is_id_name(name)]
        text = suffix_of(path) in DELIMITERS
        if set(known) <= set(names) and len(set(names)) == len(names) and (others or not text):
            table = open_screen(X, ids=ids, features=known).representation
            return replace(table, values=Blocks(blocks_of(table).source, rows=blocks, name=blocks_of(table).name))
    if with_labels:
        return open_with_metadata(X, ids=ids, rows=blocks)
    opened: Representation = open_sources([X], ids, blocks)[0]
    return opened


def arranged(table: Representation, basis: Basis, inverse: bool) -> tuple[Representation, tuple[Alert, ...]]:
    """The columns of a table in the order of the basis, by name; an alert where names are on one side only."""
    known, given = _known(basis, inverse), table.columns
    if inverse and not set(known or ()) & set(given or ()) and (given is None or not isinstance(basis, Aligned)):
        known = None  # components under names of someone else, or rows under none
    if inverse and known and given and not isinstance(basis, Aligned) and not set(known) <= set(given):
        missing = [column for column in known if column not in given]
        raise DataError(
            f"{table.name}: expected all {len(known)} components of the basis, got {len(known) - len(missing)} (not "
            f"{listed([shown(column) for column in missing])}); pass all, written without --only-identifiable (only_identifiable)."
        )
    turn = isinstance(basis, Aligned) and not inverse
    if known is None or places(known, given, table.name, turn=turn) is None:
        return table, () if known == given else (not_checked(table.name, basis, inverse),)
    return columns_in_order(table, known), ()


def columns_in_order(table: Representation, known: tuple[str, ...]) -> Representation:
    """The columns of a table called `known`, in that order, where they can be found by name."""
    order = places(known, table.columns, table.name)
    if order is None:
        return table
    rows = blocks_of(table)
    return replace(table, values=Blocks(_Columns(rows, order), rows=rows.rows, name=rows.name), columns=known)


def not_checked(name: str, basis: Basis, inverse: bool = False) -> Alert:
    """The alert that columns were taken by position."""
    values = {"name": name, "basis": _fitted_to(basis, inverse)}
    return Alert(
        "columns_not_checked",
        values | ({"other": _fitted_to(basis, not inverse)} if isinstance(basis, Aligned) else {}),
    )


def places(
    known: tuple[str, ...] | None, given: tuple[str, ...] | None, name: str, *, turn: bool = False
) -> list[int] | None:
    """Where the columns that a basis was fitted to stand in a table, by name; an error if one is missing or there twice.

    None where columns can only be taken as they come: they are the same, or one side has no names, or names that only count.
    `turn`: the rows may be those of the other side of a map.
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
            f"({listed([shown(column) for column in missing])}); pass a table that has them"
            f"{', or --inverse for rows of the other side' if turn else ''}."
        )
    counts = [Counter(known), Counter(given)]
    twice = [column for column in dict.fromkeys(known) if any(count[column] > 1 for count in counts)]
    if twice:
        raise DataError(
            f"{name}: {len(twice)} column names of the basis occur more than once "
            f"({listed([shown(column) for column in twice])}) and the columns are in another order; rename them."
        )
    return [place[column] for column in known]


def _known(basis: Basis, inverse: bool) -> tuple[str, ...] | None:
    """What the basis calls the columns of its input; factors of a decoder have no names."""
    if isinstance(basis, Aligned):
        return basis.target_columns if inverse else basis.columns
    if inverse:
        components = () if isinstance(basis, FeatureMap) else basis.result.components
        return tuple(component_name(component.index) for component in components) or None
    return basis.columns


class _Columns:
    """Some columns of a table, in an order of their own. A `blocks.Rows`."""

    def __init__(self, source: Blocks, columns: list[int]):
        self.source, self.columns, self.dtype = source, columns, source.dtype
        self.shape = (source.n, len(columns))

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        return self.source[rows][:, self.columns]


def _names(basis: Basis, columns: list[int] | None, inverse: bool) -> list[str] | None:
    """What the columns of a result are called where a format has names: components by their place in the basis."""
    if isinstance(basis, Aligned):
        known = basis.columns if inverse else basis.target_columns
        return None if known is None else list(known)
    if inverse or isinstance(basis, FeatureMap):
        to_factors = isinstance(basis.result, Mechanisms) and not inverse  # which have no names
        return None if basis.columns is None or to_factors else list(basis.columns)
    components = basis.result.components
    return [component_name(components[k].index) for k in (range(len(components)) if columns is None else columns)]


def component_name(index: int) -> str:
    """What a component is called in a table."""
    return f"component_{index:03d}"


@dataclass(frozen=True, eq=False)
class _MappedRows:
    """Rows of a table after a map, all `columns` or some, checked; and their leverage. A worker of a cluster may be asked too."""

    source: Blocks
    map: Callable[[NDArray[Any]], NDArray[Any]]
    dtype: np.dtype[Any]
    columns: list[int] | None
    reached: _Reached | None

    def __call__(self, first: int, stop: int) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
        block = self.source[first:stop]
        with silent():
            _refuse(block, first, f"{self.source.name}: expected finite numbers, got", "remove or impute them.")
            values = self.map(block)
            if self.columns is not None:  # chosen last: a product of fewer columns may round differently
                values = values[:, self.columns]
            result = values.astype(self.dtype, order="C", copy=False)
            what = f"{self.source.name}: mapped into {self.dtype} the rows overflow to"
            _refuse(result, first, what, "scale the rows, or ask for dtype float64.")
        return result, None if self.reached is None else self.reached.of(first, block)


class _Mapped:
    """What `_MappedRows` gives, as a table; `reached` keeps the leverage. A `blocks.Rows`."""

    def __init__(
        self,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        read: Callable[[int, int], tuple[NDArray[Any], NDArray[np.float32] | None]],
        progress: Callable[[int, int], None] | None,
        reached: _Reached | None,
    ):
        self.shape, self.dtype, self.read, self.progress, self.reached = shape, dtype, read, progress, reached

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        first, stop, _ = rows.indices(self.shape[0])
        if self.progress is not None:
            self.progress(stop, self.shape[0])
        values, leverage = self.read(first, stop)
        if self.reached is not None:
            self.reached.leverage[first:stop] = leverage
        return values


class _Reached:
    """The leverage of rows as they go through a map: of all of them, or of some."""

    def __init__(self, aligned: Aligned, n: int, *, all_rows: bool):
        self.aligned = aligned
        self.share = 1.0 if all_rows else min(1.0, max(LOOKED_AT / max(n, 1), LOOKED_AT_SHARE))
        self.leverage = np.full(n, np.nan, np.float32)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "leverage": None}  # which stays here

    def of(self, first: int, rows: NDArray[Any]) -> NDArray[np.float32]:
        """The leverage of these rows; NaN of those not looked at."""
        found = np.full(len(rows), np.nan, np.float32)
        chosen = np.arange(len(rows))
        if self.share < 1:
            chosen = np.flatnonzero(uniforms(0, first, len(rows)) < self.share)
        if chosen.size:
            found[chosen] = self.aligned.leverage(rows[chosen])
        return found

    def alerts(self, table: Representation) -> tuple[Alert, ...]:
        """Whether more rows are outside than chance gives: twice the share that is expected, and three standard deviations."""
        looked_at = int(np.sum(~np.isnan(self.leverage)))  # infinitely far counts
        outside = np.flatnonzero(self.leverage > self.aligned.reach.limit)
        expected = (1 - INSIDE) * looked_at
        if not looked_at or len(outside) <= 2 * expected + 3 * np.sqrt(expected):
            return ()
        named = outside[:SHOWN_ROWS] if table.ids is None else table.ids[outside[:SHOWN_ROWS]]
        values = {
            "name": table.name,
            "rows": len(outside),
            "looked_at": looked_at,
            "share": len(outside) / looked_at,
            "first": [shown(str(row)) for row in named],
            "source": self.aligned.source,
        }
        swapped = {"target": self.aligned.target} if len(outside) > looked_at / 2 else {}
        return (Alert("rows_outside", values | swapped),)

    def write(self, path: str | os.PathLike[str], table: Representation) -> None:
        beside: dict[str, NDArray[Any]] = {} if table.ids is not None else {"row": np.arange(len(self.leverage))}
        beside["outside"] = self.leverage > self.aligned.reach.limit
        save_table(
            path, Blocks(self.leverage[:, None], name=str(path)), beside, ids=table.ids, feature_names=["leverage"]
        )


def _refuse(rows: NDArray[Any], first: int, what: str, remedy: str) -> None:
    """An error if anything is not finite, with the rows it is in; later blocks have not been looked at."""
    if np.isfinite(rows.sum()):  # costs a quarter of looking at every value
        return
    found = NonFinite()
    found.add(first, [rows])
    if found.count:
        shown = ", ".join(map(str, found.rows[:SHOWN_ROWS]))
        raise DataError(
            f"{what} {counted(found.count, 'NaN or infinite value')} in {len(found.rows)} of the rows {first} to "
            f"{first + len(rows) - 1} (first rows, from 0: {shown}); {remedy}"
        )


def _identifiable_columns(basis: Basis, inverse: bool) -> list[int]:
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


def _is_other_side(name: str, basis: Aligned, inverse: bool) -> bool:
    """Whether a file is called like the table that a map leads to: both sides may have the same width."""
    return name == _fitted_to(basis, not inverse) != _fitted_to(basis, inverse)


def _check_width(source: Blocks, basis: Basis, inverse: bool) -> None:
    wanted, gives = _map(basis, inverse).matrix.shape
    if source.d == wanted:
        return
    of = _fitted_to(basis, inverse)
    if isinstance(basis, Aligned):
        other = _fitted_to(basis, not inverse)
        hint = f"pass rows of the model of {of}."
        if source.d == gives:
            turn = "leave inverse out" if inverse else "pass inverse (--inverse)" if basis.back is not None else ""
            hint = f"these look like rows of {other}: {turn or f'make a map from {other} to {of} with align'}."
        raise DataError(f"{source.name}: expected {wanted} columns, as {of} had, got {source.d}; {hint}")
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
