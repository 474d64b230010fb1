"""Disentangling: paths are opened, rows joined, then `disentanglement` scores."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable import disentanglement
from identifiable._checks import DataError, KindError, UsageError, as_array, check_plain
from identifiable.api.opening import connected, is_path, one_ids_file
from identifiable.blocks import Blocks
from identifiable.disentanglement.codes import as_codes
from identifiable.intake import NonFinite, as_representation, blocks_of, content_hash, inputs_of
from identifiable.io import open_representation
from identifiable.io.factor_tables import FactorTable, read_factor_table, with_gaps
from identifiable.io.label_columns import REMEDY, gaps_in, of_rows
from identifiable.io.opening import first_gap
from identifiable.options import DisentangleOptions, takes
from identifiable.representation import (
    Pairing,
    Representation,
    as_frame,
    column_called,
    columns_of,
    from_torch,
    is_anndata,
    is_frame,
    pair,
    row_labels,
)
from identifiable.results import Alert, Disentanglement, Input
from identifiable.run import Run

EXACT = 2.0**53  # whole numbers below are exact in float64
LATENTS, FACTORS = "latents", "factors"  # what tables without a name of their own are called


@takes(DisentangleOptions)
def disentangle(latents: Any, factors: Any, /, *, options: DisentangleOptions) -> Disentanglement:
    """Which latent contains information about which factor, by InfoMEC and its peers.

    Implements InfoMEC (Hsu et al. 2023) in its four published forms (`profile`) and the metrics of
    `identifiable.metrics`. Ours: intervals, nulls, the noise sweep, and the check of InfoE before and after ICA.

    Parameters
    ----------
    latents
        (n, d): an array, a data frame, AnnData, a `Representation`, `Blocks`, a Dask array or a path.
    factors
        The factors of the same rows, (n,) or (n, m), numbers or words: as `latents`, a list of columns, or a path. A `.csv` or
        `.tsv` has their names in its first line and may hold words; a `.npz` may hold one array for each factor. Two data frames
        are joined on their index, unless both count their rows from 0, or on the column `ids`.

    >>> rng = np.random.default_rng(0)
    >>> S = rng.integers(0, 4, size=(2000, 2))
    >>> Z = S + 0.1 * rng.standard_normal((2000, 2))
    >>> found = disentangle(Z, S, metrics=["infomec"])
    >>> round(found.metrics["infomec"].infom, 1)
    1.0
    """
    ids, drop_missing = options.ids, options.drop_missing
    id_of_latents, id_of_factors = _one_for_each(ids)
    table = _latents(latents, id_of_latents)
    columns, counted = _factors(factors, id_of_factors, table.n, drop_missing=drop_missing)
    if columns.name == table.name:
        columns = replace(columns, name=f"{columns.name} (factors)")
    values = _as_typed(table, np.asarray(blocks_of(table)[: table.n]))
    gapped = _gapped(table, values, latents, id_of_latents, drop_missing=drop_missing)
    pairing, alerts = _joined(table, columns, counted)
    (of_latents, of_factors), dropped = _without_gaps(pairing, (table.name, gapped), (columns.name, columns.gapped))
    codes = as_codes(
        values if of_latents is None else values[of_latents],
        _table_of([c if of_factors is None else c[of_factors] for c in columns.columns]),
        discrete=options.discrete,
        kinds=options.kinds[0] if len(options.kinds) == 1 else options.kinds,
        latent_names=table.columns,
        factor_names=options.factor_names if options.factor_names is not None else columns.names,
    )
    with connected(options.scheduler) as cluster:
        inputs = (*inputs_of([table], Run(workers=options.workers, cluster=cluster)), _input_of(columns))
        found = disentanglement.disentangle(codes, options, inputs, cluster=cluster)
    return replace(
        found,
        settings={**found.settings, "drop_missing": drop_missing},
        alerts=(*one_ids_file(ids), *alerts, *dropped, *found.alerts),
    )


def _one_for_each(ids: str | Sequence[str] | None) -> tuple[str | None, str | None]:
    if ids is None or isinstance(ids, str):
        return ids, ids
    if len(ids) != 2:
        raise UsageError(f"ids: expected one for both tables or one for each, got {len(ids)}.")
    return ids[0], ids[1]


Rows = NDArray[np.intp] | None
"""Places of rows; None: all, in order."""


def _latents(source: Any, ids: str | None) -> Representation:
    """The table of latents."""
    if is_path(source):
        try:
            return open_representation(source, ids=ids, gaps=True)
        except KindError as error:  # words, which factors may be
            what = str(error).partition("; ")[0]
            raise KindError(
                f"{what}; latents must be numbers and come first, the factors second. Swap the two, or choose the columns of latents "
                f"with {source}:PATTERN."
            ) from None
    source = as_frame(source)
    framed = is_frame(source) or is_anndata(source)
    return as_representation(source, name=LATENTS, ids=ids if framed else None)


def _factors(source: Any, ids: str | None, n: int, *, drop_missing: bool) -> tuple[FactorTable, NDArray[Any] | None]:
    """The columns of factors, wherever they come from, and labels that only count them; `n` is the number of latents' rows."""
    if is_path(source):
        return read_factor_table(source, ids=ids, drop_missing=drop_missing), None
    counted, source = None, as_frame(source)
    if isinstance(source, (Representation, Blocks)) or hasattr(source, "compute"):
        table = as_representation(source, name=FACTORS)
        rows = blocks_of(table)[: table.n]
        found, counted = (
            FactorTable(tuple(rows.T), table.columns, table.ids, table.name, str(rows.dtype)),
            table.counted,
        )
    else:
        labels, names = None, None
        if is_frame(source):
            held = [(key, column) for key, column in columns_of(source) if key != ids]
            labels, counted = (column_called(source, ids, FACTORS), None) if ids else row_labels(source)
            names, source = tuple(key for key, _ in held), [column.to_numpy() for _, column in held]
        columns = _columns(from_torch(source), n if names is None else -1)
        lengths = sorted({len(column) for column in columns})
        if len(lengths) > 1:
            raise DataError(f"{FACTORS}: expected columns of one length, got lengths {', '.join(map(str, lengths))}.")
        dtypes = {str(column.dtype) for column in columns}
        found = FactorTable(tuple(columns), names, labels, FACTORS, dtypes.pop() if len(dtypes) == 1 else "mixed")
    marked = with_gaps(found, found.name, drop_missing=drop_missing)
    return replace(marked, columns=tuple(map(_of_one_kind, marked.columns))), counted


def _columns(source: Any, n: int) -> list[NDArray[Any]]:
    """Every column of factors in memory as its own array."""
    check_plain(source, FACTORS)
    if isinstance(source, (list, tuple)) and source and len(source) != n and all(np.ndim(c) == 1 for c in source):
        return [as_array(column, FACTORS) for column in source]
    given = as_array(source, FACTORS)
    given = given[:, None] if given.ndim == 1 else given
    if given.ndim != 2 or not given.size:
        raise DataError(f"{FACTORS}: expected an array (rows, factors), got shape {np.shape(source)}.")
    return list(given.T)


def _of_one_kind(column: NDArray[Any]) -> NDArray[Any]:
    """A column of Python objects as numbers or words; where a value is missing, one of the others stands."""
    if column.dtype != object:
        return column
    missing = gaps_in(column)
    held = column[~missing].tolist()
    return np.asarray(np.where(missing, held[0], column).tolist()) if held else column


def _gapped(
    table: Representation, values: NDArray[Any], source: Any, ids: str | None, *, drop_missing: bool
) -> NDArray[np.bool_]:
    """Which rows of the latents have a missing value; those are refused, under the name of the file, unless to be dropped."""
    missing = np.isnan(values).any(axis=1) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
    name = blocks_of(table).name
    if missing.any() and not drop_missing:
        place = first_gap(source, ids=ids) if is_path(source) else None
        where = place or f"row {missing.argmax()} (from 0): NaN"
        raise DataError(f"{name}: {where}; expected finite latents, {of_rows(missing)}; {REMEDY}.")
    bad = NonFinite()
    bad.add(0, [values[~missing]])
    if bad.count:
        first = np.flatnonzero(~missing)[bad.rows[0]]
        raise DataError(
            f"{name}: expected finite latents, got {bad.count} infinite values in {len(bad.rows)} rows (first: row {first}, from "
            "0); remove those rows."
        )
    return missing


def _without_gaps(
    pairing: Pairing, *tables: tuple[str, NDArray[np.bool_]]
) -> tuple[tuple[Rows, ...], tuple[Alert, ...]]:
    """The rows of each table that belong together and have all their values, and an alert that counts the others."""
    gapped = [
        missing if rows is None else missing[rows] for rows, (_, missing) in zip(pairing.rows, tables, strict=True)
    ]
    left_out = np.any(gapped, axis=0)
    if not left_out.any():
        return pairing.rows, ()
    kept = np.flatnonzero(~left_out)
    if not kept.size:
        raise DataError(
            f"every one of the {pairing.n:,} rows has a missing value, so none is left; leave a column out."
        )
    rows = tuple(kept if rows is None else rows[kept] for rows in pairing.rows)
    gaps = {name: int(g.sum()) for (name, _), g in zip(tables, gapped, strict=True) if g.any()}
    return rows, (Alert("rows_dropped", {"gaps": gaps, "remain": int(kept.size), "rows": pairing.n}),)


def _as_typed(table: Representation, values: NDArray[Any]) -> NDArray[Any]:
    """Text has no type: values that are all whole numbers are integers."""
    if getattr(blocks_of(table).source, "stored_dtype", None) != "text":
        return values
    whole = (values == np.trunc(values)) & (np.abs(values) < EXACT)
    return values.astype(np.int64) if whole.all() else values


def _joined(table: Representation, factors: FactorTable, counted: NDArray[Any] | None) -> tuple[Pairing, list[Alert]]:
    """Which rows belong together. A join takes ids on both sides; those of one side alone cannot be used."""
    beside = Representation(np.zeros((factors.n, 1)), ids=factors.ids, name=factors.name, counted=counted)
    sides = (table, beside)
    known = [r for r in sides if r.ids is not None]
    if known and all(r.ids is not None or r.counted is not None for r in sides):
        pairing = pair(table, beside)
        lost = {t.name: k for t, k in zip((table, beside), pairing.dropped, strict=True) if k}
        return pairing, [Alert("rows_dropped", {"dropped": lost, "remain": pairing.n})] if lost else []
    pairing = pair(replace(table, ids=None), replace(beside, ids=None))
    return pairing, [Alert("paired_by_position", {"only": known[0].name} if known else {})]


def _input_of(table: FactorTable) -> Input:
    """Numbers are hashed as any table of numbers; a table with words cell by cell."""
    n, m = table.n, len(table.columns)
    if all(column.dtype.kind in "fiub" for column in table.columns):
        numbers = np.column_stack(table.columns)
        numbers = (
            numbers.astype(np.float64) if table.stored_dtype == "text" else numbers
        )  # as `open_representation` does
        digest = content_hash(Blocks(numbers, name=table.name))
    else:
        hashed = hashlib.sha256(f"words;{n};{m};".encode())
        for row in zip(*(column.tolist() for column in table.columns), strict=True):
            hashed.update(("\0".join(map(str, row)) + "\0").encode())
        digest = hashed.hexdigest()
    if table.missing is not None:  # what stands in a missing cell has no meaning, that it is missing has
        digest = hashlib.sha256(digest.encode() + np.packbits(table.missing).tobytes()).hexdigest()
    return Input(table.name, n, m, table.stored_dtype, digest)


def _table_of(columns: Sequence[NDArray[Any]]) -> Any:
    """Columns as `as_codes` takes them: as many columns as rows could be taken for rows."""
    if len(columns) != len(columns[0]):
        return list(columns)
    table = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        table[:, j] = column.tolist()
    return table
