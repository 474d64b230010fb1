"""One call of compare: the settings, where it runs, the tables, and the passes over their rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from identifiable import ica
from identifiable._checks import DataError
from identifiable.blocks import Blocks, Progress, available_workers, chunk_rows, fold, physical_memory, silent
from identifiable.diameter import diameter
from identifiable.groups import Preconditioner, WhiteBasis
from identifiable.identifiability.rows import RowPlan
from identifiable.identifiability.settings import Settings
from identifiable.moments import Array, Moments, MomentSums
from identifiable.results import Alert, Spectrum


@dataclass(eq=False)
class Run:
    """One call of compare: the settings, where it runs, and what has been noticed."""

    settings: Settings
    workers: int | None
    progress: Progress | None
    cluster: Any = None
    alerts: list[Alert] = field(default_factory=list)
    plan: RowPlan = field(init=False)
    ids: NDArray[Any] | None = field(init=False, default=None)
    cross_scatters: dict[tuple[str, str, int], Array] = field(default_factory=dict)

    def say(self, stage: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(stage, done, total)

    def alert(self, code: str, message: str) -> None:
        self.alerts.append(Alert(code, message))

    def moments(
        self, tables: Sequence[Table], *, preconditioners: Sequence[Preconditioner | None] | None = None
    ) -> list[Moments]:
        """Moments of all rows (index 0) and of each fold (1 ...) of tables side by side."""
        blocks = [t.blocks for t in tables]
        widths = tuple(b.d for b in blocks)
        self._refuse_too_wide(tables)
        rows = chunk_rows(sum(widths))
        # A short prefix is enough for a shift: it only has to be near the data, compared with its spread.
        shift = np.concatenate([_prefix_mean(b[: min(rows, b.n)]) for b in blocks])
        if not np.isfinite(shift).all():
            self._refuse_non_finite(tables)
        several = len(tables) > 1
        statistic = fold(
            blocks,
            partial(
                MomentSums,
                widths,
                shift,
                fold=self.plan.fold if several else None,
                n_folds=self.plan.n_folds if several else 1,
                buffer_rows=rows // 2,  # small enough to be filled by short tables too: memory does not follow n
                spare=[],
                maps=[(p.center, p.matrix) if p else None for p in preconditioners] if preconditioners else None,
            ),
            workers=self.workers,
            cluster=self.cluster,
            progress=self.progress,
            stage="moments",
        )
        parts = statistic.moments()
        total = parts[0]
        with silent():
            for part in parts[1:]:
                total = total.merge(part)
        if not (np.isfinite(total.total).all() and np.isfinite(total.gram).all()):
            self._refuse_non_finite(tables)
        return [total, *parts]

    def cross_scatter(self, x: Table, y: Table) -> Array:
        """Centred cross-scatter of two tables: remembered from their comparison, or measured."""
        key = (x.name, y.name, x.blocks.d)
        if key not in self.cross_scatters:
            self.cross_scatters[key] = self.moments([x, y])[0].xy
        return self.cross_scatters[key]

    def _refuse_too_wide(self, tables: Sequence[Table]) -> None:
        """Say so when the moments cannot fit in memory; most often rows and columns are swapped."""
        widest = max(tables, key=lambda t: t.blocks.d)
        n, d = widest.blocks.shape
        width = sum(t.blocks.d for t in tables)
        copies = (self.plan.n_folds if len(tables) > 1 else 1) * ((self.workers or available_workers()) + 2)
        needed, memory = 8 * width**2 * copies, physical_memory()
        if needed > memory:
            swapped = " Are rows and columns swapped?" if d > n else ""
            raise DataError(
                f"{widest.name}: {d} columns (and {n} rows) need about {needed / 1e9:.0f} GB of moments, this machine has "
                f"{memory / 1e9:.0f}.{swapped} Otherwise reduce the columns, for example by PCA."
            )

    def _refuse_non_finite(self, tables: Sequence[Table]) -> NoReturn:
        for table in tables:
            found = fold([table.blocks], NonFinite, workers=self.workers)
            if found.count:
                rows = np.array(found.rows[:5])
                rows = rows if table.original_rows is None else table.original_rows[rows]
                raise DataError(
                    f"{table.blocks.name}: expected finite numbers, got {found.count} NaN or infinite values in "
                    f"{len(found.rows)} rows (first rows, from 0: {', '.join(map(str, rows))}); remove or impute them."
                )
        largest = max(tables, key=lambda t: float(np.abs(_prefix_mean(t.blocks[: min(256, t.blocks.n)])).max()))
        raise DataError(
            f"{largest.blocks.name}: the squares of the values overflow float64; divide the data by a constant first."
        )


@dataclass(eq=False)
class Table:
    """One representation on the shared rows, with what is measured on it alone."""

    name: str
    blocks: Blocks
    original_rows: NDArray[np.intp] | None
    run: Run
    wide: Table | None = None  # the table this one is a projection of
    kept: float = 1.0  # the share of its variance that the projection holds
    known_moments: Moments | None = None
    narrow: dict[int, Table] = field(default_factory=dict)
    rank: int | None = None  # as seen by a second measurement, where there was one

    @property
    def moments(self) -> Moments:
        """Moments of all rows: from the pass of a pair if there was one, else from a pass of its own."""
        if self.known_moments is None:
            self.known_moments = self.run.moments([self])[0]
        return self.known_moments

    def narrowed(self, width: int) -> Table:
        """This table in its first `width` principal components; itself if it is no wider."""
        if width == self.blocks.d:
            return self
        if width not in self.narrow:
            variances, vectors = np.linalg.eigh(self.moments.scatter)
            leading, mean = vectors[:, ::-1][:, :width], self.moments.mean
            kept = float(variances[::-1][:width].sum() / variances.sum())
            self.run.alert(
                "different_widths",
                f"{self.name} has {self.blocks.d} dimensions; where the other side has {width}, it is compared in its first "
                f"{width} principal components, which hold {kept:.1%} of its variance. Their axes are those of the "
                "projection, so signed permutations do not take part in the verdict there.",
            )
            rows = self.blocks.through(_projection(mean, leading), width)
            self.narrow[width] = Table(self.name, rows, self.original_rows, self.run, wide=self, kept=kept)
        return self.narrow[width]

    @cached_property
    def white(self) -> WhiteBasis:
        return WhiteBasis.of(self.moments)

    @cached_property
    def diameter(self) -> float:
        found = diameter(self.blocks, center=self.moments.mean, workers=self.run.workers, progress=self.run.progress)
        return found.value

    @cached_property
    def unmixing(self) -> ica.Unmixing:
        self.run.say("resolving " + self.name, 0, 1)
        sample = self.run.plan.sample(ica.MAX_ROWS)
        resolved = ica.unmix(self.blocks, self.moments, sample, seed=self.run.settings.seed)
        self.run.say("resolving " + self.name, 1, 1)
        return resolved

    @cached_property
    def spectrum(self) -> Spectrum:
        """Of the whole table, not of its projection."""
        whole = self.wide or self
        moments = whole.moments
        variances = np.linalg.eigvalsh(moments.scatter)[::-1].clip(0) / (moments.n - 1)
        share = variances[variances > 0] / variances.sum()
        effective = float(np.exp(-np.sum(share * np.log(share))))
        return Spectrum(self.name, tuple(variances.tolist()), whole.rank or whole.white.rank, effective)

    @property
    def rms(self) -> float:
        """Root mean square distance of two different rows."""
        return float(np.sqrt(2 * np.trace(self.moments.scatter) / (self.moments.n - 1)))


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


def content_hash(blocks: Blocks) -> str:
    """sha256 of the values, row by row, with dtype and shape: the same for the same table in any container."""
    little = blocks.dtype.newbyteorder("<")
    digest = hashlib.sha256(f"{little.str};{blocks.n};{blocks.d};".encode())
    step = max(2**22 // max(blocks.d * blocks.dtype.itemsize, 1), 1)
    for start in range(0, blocks.n, step):
        rows = blocks[start : min(start + step, blocks.n)]
        digest.update(np.ascontiguousarray(rows, dtype=little).data)
    return digest.hexdigest()


def _prefix_mean(rows: NDArray[Any]) -> Array:
    with silent():
        mean: Array = np.asarray(rows, dtype=np.float64).mean(axis=0)
    return mean


def _projection(mean: Array, directions: Array) -> Callable[[NDArray[Any]], Array]:
    return lambda rows: (rows - mean) @ directions
