"""Disentangling: paths are opened, rows joined, then `disentanglement` scores."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable import disentanglement
from identifiable._checks import DataError, UsageError
from identifiable.api.opening import is_path, one_ids_file
from identifiable.blocks import Blocks, Progress
from identifiable.disentanglement import DEFAULT_METRICS
from identifiable.disentanglement.codes import as_codes
from identifiable.intake import NonFinite, as_representation, blocks_of, content_hash, default_provenance, inputs_of
from identifiable.io import open_representation
from identifiable.io.factor_tables import FactorTable, header_names, read_factor_table
from identifiable.representation import Pairing, Representation, pair
from identifiable.results import Alert, Disentanglement, Input, Provenance

LATENTS, FACTORS = "latents", "factors"  # what tables without a name of their own are called


def disentangle(
    latents: Any,
    factors: Any,
    *,
    ids: str | Sequence[str] | None = None,
    factor_names: Sequence[str] | None = None,
    kinds: str | Sequence[str] = "auto",
    discrete: bool | None = None,
    metrics: Sequence[str] | str = DEFAULT_METRICS,
    profile: str = "hsu-standalone",
    resolve: Sequence[str] = (),
    noise_sweep: bool = False,
    null: int = 0,
    bootstrap: int = 0,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
    provenance: Provenance | None = None,
) -> Disentanglement:
    """Which latent tells of which factor, by InfoMEC and its peers.

    Implements InfoMEC (Hsu et al. 2023) in its four published forms (`profile`) and the metrics of
    `identifiable.metrics`. Ours: intervals, nulls, the noise sweep, and the check of InfoE before and after ICA.

    Parameters
    ----------
    latents
        (n, d): an array, a `Representation`, `Blocks`, a Dask array or a path.
    factors
        The factors of the same rows, (n,) or (n, m), numbers or words: as `latents`, a list of columns, or a path. A `.csv` or
        `.tsv` has their names in its first line and may hold words; a `.npz` may hold one array for each factor.
    ids
        For paths: the column, key or sidecar file that holds sample ids; one for both, or one for each. With ids on both
        sides rows are joined on them, otherwise paired by position.
    factor_names
        In place of those of the file.
    kinds
        "auto", "discrete" or "continuous", for all factors or one for each. auto: whole numbers and words are discrete, other
        numbers if they have few values that come back often.
    discrete
        Whether the latents are discrete codes; None: they are if they are whole numbers by their type (in a text file: by
        their values).
    metrics
        Names, or "all".
    profile
        Which InfoMEC: "hsu-standalone", "hsu-training", "tripod" or "factorqvae".
    resolve
        Score again after ICA in these modes: "centred", "literal", "whitened".
    noise_sweep
        InfoMEC with more and more noise added to the latents: tells a leak of 1 % from a mixture.
    null
        How often to shuffle the factors, for what chance scores; 0 for never.
    bootstrap
        Resamples of the rows, for 95 % intervals; 0 for none.
    workers
        Threads; changes no figure.

    >>> rng = np.random.default_rng(0)
    >>> S = rng.integers(0, 4, size=(2000, 2))
    >>> Z = S + 0.1 * rng.standard_normal((2000, 2))
    >>> found = disentangle(Z, S, metrics=["infomec"])
    >>> round(found.metrics["infomec"].infom, 1)
    1.0
    """
    id_of_latents, id_of_factors = _one_for_each(ids)
    table, latent_names = _latents(latents, id_of_latents)
    columns = _factors(factors, id_of_factors, table.n)
    if columns.name == table.name:
        columns = replace(columns, name=f"{columns.name} (factors)")
    values = _finite(table)
    pairing, alerts = _joined(table, columns)
    of_latents, of_factors = pairing.rows
    codes = as_codes(
        values if of_latents is None else values[of_latents],
        _table_of([c if of_factors is None else c[of_factors] for c in columns.columns]),
        discrete=_whole_numbers(table, values) if discrete is None else discrete,
        kinds=kinds,
        latent_names=latent_names,
        factor_names=factor_names if factor_names is not None else columns.names,
    )
    found = disentanglement.disentangle(
        codes,
        metrics=metrics,
        profile=profile,
        resolve=tuple(resolve),
        noise_sweep=noise_sweep,
        null=null,
        bootstrap=bootstrap,
        seed=seed,
        workers=workers,
        progress=progress,
        inputs=(*inputs_of([table], workers=workers), _input_of(columns)),
        provenance=provenance or default_provenance(seed, "identifiable.disentangle(...)"),
    )
    return replace(found, alerts=(*one_ids_file(ids), *alerts, *found.alerts))


def _one_for_each(ids: str | Sequence[str] | None) -> tuple[str | None, str | None]:
    if ids is None or isinstance(ids, str):
        return ids, ids
    if len(ids) != 2:
        raise UsageError(f"ids: expected one for both tables or one for each, got {len(ids)}.")
    return ids[0], ids[1]


def _latents(source: Any, ids: str | None) -> tuple[Representation, tuple[str, ...] | None]:
    """The table of latents, and what its file calls them."""
    if is_path(source):
        return open_representation(source, ids=ids), header_names(source, ids=ids)
    table = as_representation(source)
    return (replace(table, name=LATENTS) if _unnamed(source) else table), None


def _unnamed(source: Any) -> bool:
    return not isinstance(source, (Representation, Blocks)) or source.name == Representation.name


def _factors(source: Any, ids: str | None, n: int) -> FactorTable:
    """The columns of factors, wherever they come from; `n` is the number of latents' rows."""
    if is_path(source):
        return read_factor_table(source, ids=ids)
    if isinstance(source, (Representation, Blocks)) or hasattr(source, "compute"):
        table = as_representation(source)
        rows = blocks_of(table)[: table.n]
        name = FACTORS if _unnamed(source) else table.name
        return FactorTable(tuple(rows.T), None, table.ids, name, str(rows.dtype))
    by_columns = isinstance(source, (list, tuple)) and len(source) != n and all(np.ndim(c) == 1 for c in source)
    if by_columns and source:
        columns = [np.asarray(column) for column in source]
    else:
        given = np.asarray(source)
        given = given[:, None] if given.ndim == 1 else given
        if given.ndim != 2 or not given.size:
            raise DataError(f"{FACTORS}: expected an array (rows, factors), got shape {np.shape(source)}.")
        columns = [np.asarray(c.tolist()) if given.dtype == object else c for c in given.T]
    lengths = sorted({len(column) for column in columns})
    if len(lengths) > 1:
        raise DataError(f"{FACTORS}: expected columns of one length, got lengths {', '.join(map(str, lengths))}.")
    dtypes = {str(column.dtype) for column in columns}
    return FactorTable(tuple(columns), None, None, FACTORS, dtypes.pop() if len(dtypes) == 1 else "mixed")


def _finite(table: Representation) -> NDArray[Any]:
    """All rows of the latents; a NaN is refused under the name of its file."""
    blocks = blocks_of(table)
    values: NDArray[Any] = np.asarray(blocks[: table.n])
    bad = NonFinite()
    bad.add(0, [values])
    if bad.count:
        rows = ", ".join(map(str, bad.rows[:5]))
        raise DataError(
            f"{blocks.name}: expected finite latents, got {bad.count} NaN or infinite values in {len(bad.rows)} rows (first "
            f"rows, from 0: {rows}); remove those rows."
        )
    return values


def _whole_numbers(table: Representation, values: NDArray[Any]) -> bool:
    """Whether latents are whole numbers by their type; text has no type, so there the values decide."""
    source = blocks_of(table).source
    if getattr(source, "stored_dtype", None) == "text":
        return bool((values == np.trunc(values)).all())
    return values.dtype.kind in "iub"


def _joined(table: Representation, factors: FactorTable) -> tuple[Pairing, list[Alert]]:
    """Which rows belong together. A join takes ids on both sides; those of one side alone cannot be used."""
    beside = Representation(np.zeros((factors.n, 1)), ids=factors.ids, name=factors.name)
    both = table.ids is not None and beside.ids is not None
    if both:
        pairing = pair(table, beside)
        lost = ", ".join(f"{t.name} {k}" for t, k in zip((table, beside), pairing.dropped, strict=True) if k)
        said = f"Rows whose id is missing elsewhere were left out: {lost}; {pairing.n} remain."
        return pairing, [Alert("rows_dropped", said)] if lost else []
    pairing = pair(replace(table, ids=None), replace(beside, ids=None))
    having = table if table.ids is not None else beside if beside.ids is not None else None
    why = "No sample ids were given" if having is None else f"Only {having.name} has sample ids, so there is no join"
    said = (
        f"{why}: row i of the latents and row i of the factors are taken to be the same sample. A shuffled loader would spoil "
        "every figure; pass ids of both to be sure."
    )
    return pairing, [Alert("paired_by_position", said)]


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
    return Input(table.name, n, m, table.stored_dtype, digest)


def _table_of(columns: Sequence[NDArray[Any]]) -> Any:
    """Columns as `as_codes` takes them: as many columns as rows could be taken for rows."""
    if len(columns) != len(columns[0]):
        return list(columns)
    table = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        table[:, j] = column.tolist()
    return table
