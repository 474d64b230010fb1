"""What every estimate does with a table at the door: a name, a hash, a checked pass that leaves `Moments` behind."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import chain, count
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, PairingError, check_magnitude, counted
from identifiable.blocks import (
    Blocks,
    available_workers,
    chunk_rows,
    fold,
    in_threads,
    physical_memory,
    silent,
)
from identifiable.moments import Array, Moments, MomentSums
from identifiable.representation import Pairing, Representation, as_frame, is_anndata, is_frame, pair, read_frame
from identifiable.results import Alert, Input, Provenance
from identifiable.run import PLAIN, Run, Stage

SERIAL_BYTES = 2**33  # of a table that is hashed from its first row to its last
BUFFER_ROWS = 1024  # at most, that are multiplied at once: 3 MB in float64 at 384 columns


def as_representation(
    source: Any, position: int = 0, *, name: str | None = None, ids: str | None = None, alone: bool = False
) -> Representation:
    """Arrays, nested lists, torch tensors, data frames, AnnData, `Blocks` and Dask arrays as a `Representation`.

    Whatever has no name of its own is called `name`, or a letter by its `position` in the call. `ids` is a column of a data
    frame. `alone`: there is no other table to join with, so an index that names rows twice does not matter.
    """
    name, source = name or _letter(position), as_frame(source)
    if isinstance(source, Representation):
        return replace(source, name=name) if source.name == Representation.name else source
    if isinstance(source, Blocks):
        return Representation(source, name=name if source.name == Representation.name else source.name)
    if is_frame(source) or is_anndata(source):
        read = read_frame(source, ids, name)
        repeats = alone and read.ids is not None and ids is None and len(set(read.ids.tolist())) < len(read.ids)
        own = None if repeats else read.ids
        return Representation(read.values, own, name, columns=read.columns, counted=read.counted)
    return Representation(source, ids, name)


def distinct(representations: Sequence[Representation]) -> list[Representation]:
    """Names that tell the inputs apart: a second `run` becomes `run (2)`."""
    taken: set[str] = set()
    result = []
    for r in representations:
        free = (f"{r.name} ({k})" for k in count(2))
        name = next(n for n in chain([r.name], free) if n not in taken)
        taken.add(name)
        result.append(replace(r, name=name))
    return result


def joined(representations: Sequence[Representation], run: Run) -> Pairing:
    """Which rows are the same samples; an alert where that is taken from their positions, or where rows are dropped."""
    pairing = pair(*representations)
    if pairing.ids is None:
        run.alerts.append(Alert("paired_by_position"))
    elif any(pairing.dropped):
        lost = {r.name: k for r, k in zip(representations, pairing.dropped, strict=True) if k}
        run.alerts.append(Alert("rows_dropped", {"dropped": lost, "remain": pairing.n}))
    return pairing


def joined_labels(name: str, given: Any, first: Representation, pairing: Pairing) -> NDArray[Any] | None:
    """The labels that the option `name` gives for the rows of the first table, of the rows that are paired."""
    if given is None:
        return None
    labels = np.asarray(given)
    if labels.shape != (first.n,):
        raise PairingError(
            f"{name}: expected one label for each of the {first.n} rows of {first.name}, got shape {labels.shape}."
        )
    rows = pairing.rows[0]
    return labels if rows is None else labels[rows]


def blocks_of(representation: Representation) -> Blocks:
    """Its values as `Blocks`."""
    values = representation.values
    return values if isinstance(values, Blocks) else Blocks(values, name=representation.name)


def inputs_of(representations: Sequence[Representation], run: Run = PLAIN) -> tuple[Input, ...]:
    """Name, shape, stored dtype and content hash of every table."""
    hashes = in_threads(lambda r: content_hash(blocks_of(r), run), representations, run, Stage("hashing"))
    return tuple(
        Input(r.name, r.n, r.d, str(getattr(_source(r), "stored_dtype", np.dtype(r.values.dtype))), digest)
        for r, digest in zip(representations, hashes, strict=True)
    )


def identical_inputs(inputs: Sequence[Input]) -> list[Alert]:
    """An alert for every two tables that hold the same values."""
    return [
        Alert("identical_inputs", {"first": a.name, "second": b.name})
        for i, a in enumerate(inputs)
        for b in inputs[i + 1 :]
        if a.sha256 == b.sha256
    ]


@cache
def _libraries() -> Mapping[str, str]:
    """Versions of what the numbers depend on; reading them from disk takes longer than a small table."""
    from importlib.metadata import version

    return {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}


def default_provenance(seed: int, command: str = "identifiable.compare(...)") -> Provenance:
    """Versions and time of this process."""
    from identifiable import __version__

    return Provenance(__version__, dict(_libraries()), seed, command, datetime.now(UTC).isoformat(timespec="seconds"))


def content_hash(blocks: Blocks, run: Run = PLAIN) -> str:
    """sha256 of the values, row by row, with dtype and shape: the same for the same table in any container.

    One after the other is slow for a table that many machines read together: above `SERIAL_BYTES` it is the sha256 of those of
    the strips of the grid (`blocks.Grid`), which follows from the shape.
    """
    little = blocks.dtype.newbyteorder("<")
    digest = hashlib.sha256(f"{little.str};{blocks.n};{blocks.d};".encode())
    if blocks.n * blocks.d * little.itemsize > SERIAL_BYTES:
        for strip in fold([blocks], partial(_Hashes, little.str), **run.how, stage=Stage("hashing")).found:
            digest.update(strip)
        return digest.hexdigest()
    step = max(2**22 // max(blocks.d * blocks.dtype.itemsize, 1), 1)
    for start in range(0, blocks.n, step):
        rows = blocks[start : min(start + step, blocks.n)]
        digest.update(np.ascontiguousarray(rows, dtype=little).data)
    return digest.hexdigest()


class _Hashes:
    """The statistic that holds the sha256 of every strip, in order."""

    replayable = False

    def __init__(self, dtype: str) -> None:
        self.dtype, self.found = dtype, list[bytes]()
        self._digest: Any = hashlib.sha256()

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        self._digest.update(np.ascontiguousarray(rows[0], dtype=self.dtype).data)

    def finish(self) -> None:
        self.found, self._digest = [self._digest.digest()], None  # which cannot travel

    def merge(self, later: _Hashes) -> None:
        self.found += later.found


def gather_moments(
    tables: Sequence[Blocks],
    run: Run = PLAIN,
    *,
    part: NDArray[np.integer[Any]] | None = None,
    n_parts: int = 1,
    maps: Sequence[tuple[Array, Array] | None] | None = None,
    original_rows: Sequence[NDArray[np.intp] | None] | None = None,
) -> list[Moments]:
    """One checked pass: `Moments` of tables side by side, one for each part of the rows.

    `part` gives the part of every row (a cross-validation fold, a half); `maps` as for `MomentSums`. Values that
    are not finite, squares that overflow and tables too wide for this machine are refused, with their rows
    (`original_rows` numbers them as in the file).
    """
    widths = tuple(b.d for b in tables)
    _refuse_too_wide(tables, n_parts, run.workers)
    rows = chunk_rows(sum(widths))
    # A short prefix is enough for a shift: it only has to be near the data, compared with its spread.
    shift = np.concatenate([_prefix_mean(b[: min(rows, b.n)]) for b in tables])
    if not np.isfinite(shift).all():
        _refuse_non_finite(tables, original_rows, run.workers)
    statistic = fold(
        tables,
        partial(
            MomentSums,
            widths,
            shift,
            fold=None if part is None else part.astype(np.min_scalar_type(n_parts)),  # it goes to every worker
            n_folds=n_parts,
            # Small enough to be filled by short tables too (memory does not follow n), and to stay in the cache until then.
            buffer_rows=min(rows // 2, BUFFER_ROWS),
            spare=[],
            maps=maps,
        ),
        **run.how,
        stage=Stage("moments"),
    )
    parts = statistic.moments()
    if not all(np.isfinite(m.total).all() and np.isfinite(m.gram).all() for m in parts):
        _refuse_non_finite(tables, original_rows, run.workers)
    if len(tables) > 1 and maps is None:
        check_magnitudes(tables, parts)
    return parts


def check_magnitudes(tables: Sequence[Blocks], parts: Sequence[Moments]) -> None:
    """Refuse tables whose errors float32 cannot hold, by the moments that `gather_moments` has left of them."""
    n = sum(m.n for m in parts)
    with silent():
        spread = np.sqrt(sum(np.diag(m.gram) for m in parts) / n)
    size = np.maximum(spread, np.abs(parts[0].shift))
    ends = np.cumsum([table.d for table in tables])
    for table, end in zip(tables, ends.tolist(), strict=True):
        check_magnitude(float(size[end - table.d : end].max()), table.name)


class NonFinite:
    """The statistic that counts NaN and infinite values and remembers their rows."""

    def __init__(self) -> None:
        self.count = 0
        self.rows: list[int] = []

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        bad = ~np.isfinite(rows[0])
        self.count += int(bad.sum())
        self.rows += (first + np.flatnonzero(bad.any(axis=1))).tolist()

    def merge(self, later: NonFinite) -> None:
        self.count += later.count
        self.rows += later.rows


def _refuse_too_wide(tables: Sequence[Blocks], n_parts: int, workers: int | None) -> None:
    """Say so when the moments cannot fit in memory; most often rows and columns are swapped."""
    widest = max(tables, key=lambda t: t.d)
    n, d = widest.shape
    width = sum(t.d for t in tables)
    needed, memory = 8 * width**2 * n_parts * ((workers or available_workers()) + 2), physical_memory()
    if needed > memory:
        swapped = " Are rows and columns swapped?" if d > n else ""
        raise DataError(
            f"{widest.name}: {d} columns (and {n} rows) need about {needed / 1e9:.0f} GB of moments, this machine has "
            f"{memory / 1e9:.0f}.{swapped} Otherwise reduce the columns, for example by PCA."
        )


def _refuse_non_finite(
    tables: Sequence[Blocks], original_rows: Sequence[NDArray[np.intp] | None] | None, workers: int | None
) -> NoReturn:
    for table, original in zip(tables, original_rows or [None] * len(tables), strict=True):
        found = fold([table], NonFinite, workers=workers)
        if found.count:
            rows = np.array(found.rows[:5])
            rows = rows if original is None else original[rows]
            raise DataError(
                f"{table.name}: expected finite numbers, got {counted(found.count, 'NaN or infinite value')} in "
                f"{counted(len(found.rows), 'row')} (first rows, from 0: {', '.join(map(str, rows))}); remove or impute them."
            )
    largest = max(tables, key=lambda t: float(np.abs(_prefix_mean(t[: min(256, t.n)])).max()))
    raise DataError(f"{largest.name}: the squares of the values overflow float64; divide the data by a constant first.")


def _prefix_mean(rows: NDArray[Any]) -> Array:
    with silent():
        mean: Array = np.asarray(rows, dtype=np.float64).mean(axis=0)
    return mean


def _letter(position: int) -> str:
    return chr(ord("a") + position) if position < 26 else f"model{position + 1}"


def _source(representation: Representation) -> Any:
    values = representation.values
    return values.source if isinstance(values, Blocks) else values
