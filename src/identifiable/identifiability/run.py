"""One call of compare: the settings, where it runs, the tables, and the passes over their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable import ica
from identifiable.blocks import Blocks, silent
from identifiable.diameter import diameter
from identifiable.groups import Preconditioner, WhiteBasis, units_of
from identifiable.identifiability.neighbours import QUERIES, SAMPLE_ROWS, Closeness, Neighbourhood, closeness
from identifiable.intake import gather_moments
from identifiable.moments import Array, Moments
from identifiable.options import CompareOptions, IcaOptions
from identifiable.results import Alert, Spectrum
from identifiable.rows import RowPlan
from identifiable.run import Run, Stage

MAP_BYTES = 2**29  # of maps that a result keeps


@dataclass(eq=False, kw_only=True)
class CompareRun(Run):
    """One call of compare: the settings, its folds and the ids of its rows."""

    settings: CompareOptions
    ica: IcaOptions = field(default_factory=IcaOptions)  # of the rung; its seed is that of the settings
    plan: RowPlan = field(init=False)
    ids: NDArray[Any] | None = field(init=False, default=None)
    labels: NDArray[Any] | None = field(init=False, default=None)
    cross_scatters: dict[tuple[str, str, int, int], Array] = field(default_factory=dict)
    room_for_maps: int = field(default_factory=lambda: MAP_BYTES)

    def alert(self, code: str, **values: Any) -> None:
        """`values` are plain, as in JSON."""
        self.alerts.append(Alert(code, values))

    def moments(
        self, tables: Sequence[Table], *, preconditioners: Sequence[Preconditioner | None] | None = None
    ) -> list[Moments]:
        """Moments of all rows (index 0) and of each cell (1 ...) of tables side by side; of each fold where nothing is left out."""
        several = len(tables) > 1
        plan = self.plan
        cells = (
            (plan.cell, plan.n_cells) if self.settings.intervals and plan.can_leave_out else (plan.fold, plan.n_folds)
        )
        parts = gather_moments(
            [t.blocks for t in tables],
            self,
            part=cells[0] if several else None,
            n_parts=cells[1] if several else 1,
            maps=[(p.center, p.matrix) if p else None for p in preconditioners] if preconditioners else None,
            original_rows=[t.original_rows for t in tables],
        )
        total = parts[0]
        with silent():
            for part in parts[1:]:
                total = total.merge(part)
        return [total, *parts]

    def cross_scatter(self, x: Table, y: Table) -> Array:
        """Centred cross-scatter of two tables: remembered from their comparison, or measured."""
        key = (x.name, y.name, x.blocks.d, y.blocks.d)
        if key not in self.cross_scatters:
            self.cross_scatters[key] = self.moments([x, y])[0].xy
        return self.cross_scatters[key]


@dataclass(eq=False)
class Table:
    """One representation on the shared rows, with what is measured on it alone."""

    name: str
    blocks: Blocks
    original_rows: NDArray[np.intp] | None
    run: CompareRun
    wide: Table | None = None  # the table this one is a projection of
    kept: float = 1.0  # the share of its variance that the projection holds
    known_moments: Moments | None = None
    narrow: dict[int, Table] = field(default_factory=dict)
    rank: int | None = None  # as seen by a second measurement, where there was one
    halves: Any = None  # ICA of either half of the rows, where axes were compared

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
            self.run.alert("different_widths", name=self.name, dimensions=self.blocks.d, width=width, share=kept)
            rows = self.blocks.through(_projection(mean, leading), width)
            self.narrow[width] = Table(self.name, rows, self.original_rows, self.run, wide=self, kept=kept)
        return self.narrow[width]

    @cached_property
    def white(self) -> WhiteBasis:
        return WhiteBasis.of(self.moments)

    @cached_property
    def units(self) -> Array | None:
        """What a map with a penalty divides its columns by, where their units would cost directions."""
        return units_of(self.moments)

    @cached_property
    def diameter(self) -> float:
        found = diameter(self.blocks, center=self.moments.mean, workers=self.run.workers, progress=self.run.progress)
        return found.value

    @cached_property
    def unmixing(self) -> ica.Fit:
        """This table resolved by itself, once, on all its rows."""
        return ica.fit(
            self.blocks,
            self.moments,
            replace(self.run.ica, seed=self.run.settings.seed),
            self.run,
            stage=Stage("resolving", self.name),
        )

    @cached_property
    def neighbourhood(self) -> Neighbourhood:
        """The nearest neighbours of a sample of rows."""
        settings = self.run.settings
        rows = self.blocks[self.run.plan.sample(SAMPLE_ROWS)]
        return Neighbourhood.of(rows, k=max(1, min(settings.neighbours, (len(rows) - 1) // 2)), run=self.run)

    @cached_property
    def closeness(self) -> Closeness:
        """How near the nearest row is."""
        run = self.run
        queries = run.plan.sample(QUERIES)
        return closeness(self.blocks, queries, run, mean=self.moments.mean, rms=self.rms, group=run.plan.group)

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


def _projection(mean: Array, directions: Array) -> Callable[[NDArray[Any]], Array]:
    return lambda rows: (rows - mean) @ directions
