"""Applying a basis to rows, block by block."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from identifiable._checks import DataError, UsageError
from identifiable.api.opening import is_path, open_sources
from identifiable.blocks import Blocks, Rows, chunk_rows, silent
from identifiable.groups import AffineMap
from identifiable.ica import Resolved
from identifiable.intake import NonFinite, as_representation, blocks_of
from identifiable.io import load_basis, open_screen, open_with_metadata, save_array
from identifiable.io.locations import split_spec, suffix_of
from identifiable.representation import Representation

FLOATS = ("float16", "float32", "float64")
HALF_OR_SINGLE = ("float16", "float32")  # inputs whose digits a float32 result keeps
COLUMNS = "columns"  # the setting of a result that names the columns it was fitted to, where they have names
NAMED = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz", ".h5ad")  # files that name their columns
WITHOUT_IDS = ".npy"  # the one format that has no place for them
WITH_LABELS = (".parquet", ".h5ad")
SHOWN_ROWS = 5


@overload
def transform(
    basis: str | os.PathLike[str] | Resolved,
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
    basis: str | os.PathLike[str] | Resolved,
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
    basis: str | os.PathLike[str] | Resolved,
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

    Parameters
    ----------
    basis
        What `resolve` returned, or the file it was saved to.
    X
        Rows with the columns the basis was fitted to (with `inverse`: its components): an array, a `Representation`,
        `Blocks`, a Dask array or a path.
    output
        Where to write: `.npy`, `.npz`, `.safetensors`, `.parquet` or `.h5ad`, whole or not at all. Ids of the rows go along,
        except into a `.npy`; columns of metadata from a `.parquet` or `.h5ad` into either of these. The path is returned;
        without `output` an array is.
    inverse
        From components back to the space of the data. Directions without variance, which resolving drops, come back
        as their mean.
    only_identifiable
        Only the columns of components the result calls identifiable, in their order; bit for bit those of all columns.
        Needs a basis resolved with refits (`stability`), and does not go with `inverse`.
    blocks
        For a path: rows to read from storage at once.
    ids
        For a path: the column, key or sidecar file that holds sample ids.
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
    found = load_basis(basis) if is_path(basis) else basis
    if not isinstance(found, Resolved):
        raise UsageError(
            f"basis: expected what resolve returned or the path of a saved basis, got {type(found).__name__}."
        )
    columns = _identifiable_columns(found, inverse) if only_identifiable else None
    representation = as_representation(open_rows(found, X, ids, blocks, output, inverse=inverse))
    source = blocks_of(representation)
    _check_width(source, found, inverse)
    by = found.from_components if inverse else found.to_components
    mapped = _Mapped(source, by, _result_dtype(dtype, source), columns)
    # The grid of the products follows from the shapes alone; storage blocks end at the source.
    rows = Blocks(mapped, rows=chunk_rows(sum(mapped.map.matrix.shape)), name=source.name)
    if output is not None:
        keeps_ids = ids is not None or Path(output).suffix.lower() != WITHOUT_IDS
        names = _names(found, columns, inverse)
        return save_array(output, rows, representation.ids if keeps_ids else None, representation.labels, names)
    result: NDArray[Any] = np.empty(rows.shape, rows.dtype)
    at = 0
    for block in rows:
        result[at : at + len(block)] = block
        at += len(block)
    return result


def open_rows(
    basis: Resolved,
    X: Any,
    ids: str | None,
    blocks: int | None,
    output: str | os.PathLike[str] | None,
    *,
    inverse: bool = False,
) -> Any:
    """`X` opened if it is a path: its columns by the names the basis knows them by, with metadata if `output` has a place for them."""
    if not is_path(X):
        return X
    known = basis.result.settings.get(COLUMNS)
    path, part = split_spec(X, NAMED)
    if known and not inverse and suffix_of(path) in NAMED:
        return _by_name(
            X, [str(name) for name in known], ids, blocks, chosen=part is not None or suffix_of(path) == ".h5ad"
        )
    if output is None or Path(output).suffix.lower() not in WITH_LABELS:
        return open_sources([X], ids, blocks)[0]
    return open_with_metadata(X, ids=ids, rows=blocks)


def _by_name(
    X: str | os.PathLike[str], known: list[str], ids: str | None, blocks: int | None, *, chosen: bool
) -> Representation:
    """The columns of a file that a basis was fitted to, in its order, whatever the file's."""
    opened = open_screen(X, ids=ids, features=None if chosen else known)
    place = {name: j for j, name in enumerate(opened.feature_names)}
    missing = [name for name in known if name not in place]
    if missing:
        raise DataError(
            f"{X}: {len(missing)} of the {len(known)} columns the basis was fitted to are not there "
            f"({', '.join(missing[:5])}{', …' if len(missing) > 5 else ''}); pass rows of the same model, or resolve them anew."
        )
    table = opened.representation
    order = [place[name] for name in known]
    rows: Rows = table.values if order == list(range(len(place))) else _Columns(blocks_of(table), order)
    return replace(table, values=Blocks(rows, rows=blocks, name=blocks_of(table).name))


class _Columns:
    """Some columns of a table, in an order of their own. A `blocks.Rows`."""

    def __init__(self, source: Blocks, columns: list[int]):
        self.source, self.columns, self.dtype = source, columns, source.dtype
        self.shape = (source.n, len(columns))

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        return self.source[rows][:, self.columns]


def _names(basis: Resolved, columns: list[int] | None, inverse: bool) -> list[str] | None:
    """What the columns of a result are called where a format has names: components by their place in the basis."""
    if inverse:
        known = basis.result.settings.get(COLUMNS)
        return [str(name) for name in known] if known else None
    components = basis.result.components
    return [component_name(components[k].index) for k in (range(len(components)) if columns is None else columns)]


def component_name(index: int) -> str:
    """What a component is called in a table."""
    return f"component_{index:03d}"


class _Mapped:
    """Rows of a table after an affine map, all `columns` or some, each block checked as it is read. A `blocks.Rows`."""

    def __init__(self, source: Blocks, by: AffineMap, dtype: np.dtype[Any], columns: list[int] | None):
        self.source, self.map, self.dtype, self.columns = source, by, dtype, columns
        self.shape = (source.n, by.matrix.shape[1] if columns is None else len(columns))

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        block = self.source[rows]
        first = rows.indices(self.source.n)[0]
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


def _identifiable_columns(basis: Resolved, inverse: bool) -> list[int]:
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


def _check_width(source: Blocks, basis: Resolved, inverse: bool) -> None:
    wanted = (basis.from_components if inverse else basis.to_components).matrix.shape[0]
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


def _result_dtype(asked: DTypeLike | None, source: Blocks) -> np.dtype[Any]:
    if asked is None:
        return np.dtype(np.float32 if source.dtype.name in HALF_OR_SINGLE else np.float64)
    try:
        dtype = np.dtype(asked)
    except TypeError:
        raise UsageError(f"dtype {asked!r}: expected one of {', '.join(FLOATS)}.") from None
    if dtype.name not in FLOATS:
        raise UsageError(f"dtype {asked!r}: expected one of {', '.join(FLOATS)}.")
    return dtype.newbyteorder("=")
