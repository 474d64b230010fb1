"""Two tables measured against each other, both ways."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable import ica, similarity
from identifiable._checks import DataError
from identifiable.blocks import fold, in_threads
from identifiable.groups import GROUPS, Preconditioner, WhiteBasis
from identifiable.identifiability.judgement import efficiency_of, verdict_of
from identifiable.identifiability.ladder import (
    BACKWARD,
    COLUMNS,
    FORWARD,
    ICA,
    ErrorTable,
    IcaMatcher,
    Ladder,
    LinearSolver,
)
from identifiable.identifiability.nulls import NullResults, measure_nulls, null_rows
from identifiable.identifiability.rows import RowPlan
from identifiable.identifiability.run import CompareRun, Table
from identifiable.moments import Array, Moments, leave_one_out
from identifiable.options import RUNGS, CompareOptions
from identifiable.options.tables import Null as NullName
from identifiable.options.tables import Rung as RungName
from identifiable.results import Errors, Interval, Null, PairResult, Rung, Scale, Similarity, Solver, WorstRow
from identifiable.run import Run, Stage

SVCCA_COMPONENTS = (16, 64, 256, 768)  # Roeder et al. 2021, Figure 4
WORST_ROWS = 10
# float32 data is measured in float32 where the terms that a linear map adds up are at most this many times what is
# left over: rounding (6e-8 of the terms) then moves a figure by less than 1e-6. All else is measured in float64.
FLOAT32_BELOW = 8.0


class PairRun:
    """Two tables, measured both ways."""

    def __init__(self, run: CompareRun, x: Table, y: Table):
        self.run, self.x, self.y = run, x, y
        self.total, *parts = run.moments([x, y])
        run.cross_scatters[x.name, y.name, x.blocks.d] = self.total.xy
        for i, table in enumerate((x, y)):
            table.known_moments = table.known_moments or self.total.alone(i)
            if not table.white.rank:
                raise DataError(f"{table.name}: every row is the same, so there is nothing to compare.")
        self.training = leave_one_out(parts)
        self.white_x, self.white_y = self.white = (x.white, y.white)
        self.frames: tuple[Preconditioner | None, ...] = (None, None)
        self.total_again, self.training_again = self.total, self.training
        if any(white.needs_refinement for white in self.white):
            self._refine()

    def _refine(self) -> None:
        """Measure again, the sides that need it in whitened coordinates, where least squares and CCA lose no digits."""
        self.frames = tuple(
            Preconditioner.of(self.total.alone(i)) if w.needs_refinement else None for i, w in enumerate(self.white)
        )
        self.total_again, *parts = self.run.moments([self.x, self.y], preconditioners=self.frames)
        self.training_again = leave_one_out(parts)
        self.white_x, self.white_y = self._white_again(self.total_again)
        self.x.rank, self.y.rank = self.white_x.rank, self.white_y.rank

    def _white_again(self, again: Moments) -> tuple[WhiteBasis, WhiteBasis]:
        x, y = (
            f.white(m) if f else WhiteBasis.of(m)
            for f, m in zip(self.frames, (again.alone(0), again.alone(1)), strict=True)
        )
        return x, y

    # -- fits

    def _linear(self, again: Moments) -> LinearSolver:
        """Least squares in the coordinates of the second measurement, taken back to those of the data."""
        frame_x, frame_y = self.frames

        def solve(_: Moments) -> tuple[Array, Array]:
            white_x, white_y = self._white_again(again)
            forward = white_x.solve(again.xy, frame_x)
            backward = white_y.solve(again.xy.T, frame_y)
            # From the target's coordinates of the second measurement back to those of the data.
            return (
                forward if frame_y is None else forward @ frame_y.back,
                backward if frame_x is None else backward @ frame_x.back,
            )

        return solve

    @cached_property
    def _ica(self) -> IcaMatcher | None:
        if ICA not in self.run.settings.groups:
            return None
        source, target = ((t.unmixing.to_components, t.unmixing.from_components) for t in (self.x, self.y))
        return lambda cross: ica.matched_matrices(source, target, cross)

    def _ladders(self) -> list[Ladder]:
        rungs, matcher = self.run.settings.groups, self._ica
        sets = list(zip([self.total, *self.training], [self.total_again, *self.training_again], strict=True))
        return in_threads(
            lambda both: Ladder.fit(both[0], rungs, linear=self._linear(both[1]), ica=matcher),
            sets,
            Run(workers=self.run.workers),
        )

    def _precision(self, total: Ladder) -> np.dtype[Any]:
        """float32 where it cannot move a figure by 1e-6, float64 everywhere else."""
        narrow = all(np.dtype(t.blocks.dtype) in (np.float16, np.float32) for t in (self.x, self.y))
        sizes = [t.rms for t in (self.x, self.y)]
        if (
            not narrow
            or total.linear_xy is None
            or total.linear_yx is None
            or not 1e-12 < min(sizes) <= max(sizes) < 1e12
        ):
            return np.dtype(np.float64)
        both = ((total.linear_xy, self.total), (total.linear_yx, self.total.reversed()))
        fine = all(_terms_over_residual(matrix, m) <= FLOAT32_BELOW for matrix, m in both)
        return np.dtype(np.float32 if fine else np.float64)

    # -- results

    def results(self, dropped: int) -> list[PairResult]:
        run, settings = self.run, self.run.settings
        total, *held_out = self._ladders()
        dtype = self._precision(total)
        table = fold(
            [self.x.blocks, self.y.blocks],
            partial(ErrorTable, total.astype(dtype), [h.astype(dtype) for h in held_out], run.plan.fold, dtype),
            **run.how,
            stage=Stage("errors"),
        )
        nulls = self._nulls()
        self._note_inputs()
        measured = _Measured(table, run.plan, settings)
        similar = self._similarity(table.spread(), nulls)
        results = []
        for direction, source, target in ((FORWARD, self.x, self.y), (BACKWARD, self.y, self.x)):
            scale = Scale(target.diameter, target.rms)
            rungs = tuple(
                measured.rung(g, direction, scale, self._rung_nulls(nulls, g, direction, scale.rms))
                for g in settings.groups
            )
            projected = [f"{100 * t.kept:.0f} % of the variance of {t.name}" for t in (source, target) if t.wide]
            verdict = verdict_of(rungs, settings.epsilon, settings.protocol, within=projected)
            shown = verdict.group or max(settings.groups, key=lambda g: (g in GROUPS, list(RUNGS).index(g)))
            results.append(
                PairResult(
                    source=source.name,
                    target=target.name,
                    n=self.total.n,
                    dropped=dropped,
                    width=self.x.blocks.d,
                    kept_source=source.kept,
                    kept_target=target.kept,
                    scale=scale,
                    rungs=rungs,
                    ica_efficiency=efficiency_of(rungs, measured.bootstrap_means(direction)),
                    similarity=similar,
                    verdict=verdict,
                    solver=self._solver(direction, dtype),
                    worst=measured.worst(shown, direction, scale, run.ids),
                )
            )
        return results

    def _rung_nulls(
        self, nulls: NullResults | None, group: str, direction: int, scale: float
    ) -> dict[NullName, Null | None]:
        return {name: nulls.rung(name, group, direction, scale) for name in self.run.settings.nulls} if nulls else {}

    def _nulls(self) -> NullResults | None:
        settings, plan = self.run.settings, self.run.plan
        if not settings.nulls:
            return None
        rows = plan.sample(null_rows(self.x.blocks.d))
        x, y = (np.asarray(t.blocks[rows], dtype=np.float64) for t in (self.x, self.y))
        return measure_nulls(
            x,
            y,
            plan.fold[rows],
            settings.groups,
            self.run,
            nulls=settings.nulls,
            draws=settings.null_draws,
            ica=self._ica,
        )

    def _similarity(self, spread: Array, nulls: NullResults | None) -> Similarity:
        usable = min(self.x.white.rank, self.y.white.rank)
        return Similarity(
            cca=similarity.cca(self.total_again, self.white_x, self.white_y),
            svcca={str(k): similarity.svcca(self.total, k) for k in SVCCA_COMPONENTS if k <= usable},
            cka=similarity.cka(self.total),
            cka_debiased=similarity.cka_debiased(self.total, spread),
            null=nulls.similarity() if nulls else {},
        )

    def _solver(self, direction: int, dtype: np.dtype[Any]) -> Solver:
        sides = [
            (self._condition(table, white, frame), white.rank)
            for table, white, frame in zip((self.x, self.y), (self.white_x, self.white_y), self.frames, strict=True)
        ]
        (condition_x, rank_x), (condition_y, rank_y) = sides if direction == FORWARD else sides[::-1]
        refined = any(f is not None for f in self.frames)
        return Solver(condition_x, condition_y, rank_x, rank_y, refined, dtype.name)

    @staticmethod
    def _condition(table: Table, white: WhiteBasis, frame: Preconditioner | None) -> float:
        """Condition number of the columns on a common scale; where measured again, as seen then."""
        if frame is None:
            return white.condition
        energy = table.moments.energy
        live = energy > 0
        singular = np.linalg.svd((white.back @ frame.back)[:, live] / np.sqrt(energy[live]), compute_uv=False)
        return float(singular[0] / singular[-1])

    def _note_inputs(self) -> None:
        run = self.run
        for table, white in ((self.x, self.white_x), (self.y, self.white_y)):
            constant = table.white.constant
            if constant:
                run.alert("constant_columns", name=table.name, constant=constant, columns=table.blocks.d)
            if white.rank + constant < table.blocks.d:
                few = {"rows": self.total.n} if white.rank >= self.total.n - 1 else {}
                run.alert("rank_deficient", name=table.name, columns=table.blocks.d, span=white.rank, **few)
        d, training = self.x.blocks.d, min(m.n for m in self.training)
        if d > self.total.n:
            run.alert("more_columns_than_rows", names=[self.x.name, self.y.name], columns=d, rows=self.total.n)
        if training < 10 * d:
            run.alert("few_rows", training=training, dimensions=d, per_dimension=training / d)
        if run.settings.group_by is not None and "shuffle" in run.settings.nulls:
            run.alert("shuffle_ignores_groups")
        if run.settings.group_by is not None and run.plan.n_cells < 20 and run.settings.bootstrap:
            run.alert("few_groups", groups=run.plan.n_cells, least=20)
        if self._ica is not None:
            for table in (self.x, self.y):
                if not table.unmixing.converged:
                    run.alert("ica_not_converged", name=table.name)


def _terms_over_residual(matrix: Array, moments: Moments) -> float:
    """Root mean square of the terms x_j B_jk that a linear map adds up, over that of what it leaves of y."""
    d = moments.widths[0]
    terms = float(moments.energy[:d] @ np.sum(matrix**2, axis=1))
    left = float(np.trace(moments.yy) - np.sum(matrix * moments.xy))
    return float(np.sqrt(terms / left)) if left > 0 else float("inf")


@dataclass(eq=False)
class _Measured:
    """The error table turned into figures."""

    table: ErrorTable
    plan: RowPlan
    settings: CompareOptions

    def rung(self, group: RungName, direction: int, scale: Scale, nulls: dict[NullName, Null | None]) -> Rung:
        column = COLUMNS[group, direction]
        in_sample = self._errors(0, column, scale, None)
        means = self.bootstrap_means(direction).get(group)
        interval: Interval | None = None
        if means is not None:
            low, high = np.quantile(means / (scale.rms * self._bootstrap_scale[:, direction]), [0.025, 0.975])
            interval = (float(low), float(high))
        return Rung(group, in_sample, self._errors(1, column, scale, interval), nulls)

    def _errors(self, kind: int, column: int, scale: Scale, interval: Interval | None) -> Errors:
        mean = float(self.table.sums[kind, column]) / len(self.plan.fold)
        quantiles = np.quantile(self.table.column(kind, column), np.linspace(0, 1, 101)) / scale.rms
        return Errors(
            mean=mean / scale.rms,
            q50=float(quantiles[50]),
            q95=float(quantiles[95]),
            q99=float(quantiles[99]),
            max=float(self.table.maxima[kind, column]) / scale.rms,
            mean_over_diameter=mean / scale.diameter,
            quantiles=tuple(float(f"{q:.6g}") for q in quantiles),
            ci95=interval,
        )

    def bootstrap_means(self, direction: int) -> dict[str, Array]:
        """Held-out mean of each rung in every bootstrap draw, in the target's units; cells are resampled whole."""
        return (
            {g: self._bootstrap[:, COLUMNS[g, direction]] for g in self.settings.groups}
            if self.settings.bootstrap
            else {}
        )

    @cached_property
    def _picks(self) -> Array:
        """How often each cell is drawn in each bootstrap draw."""
        cells = self.plan.n_cells
        rng = np.random.default_rng([self.settings.seed, 3])
        return rng.multinomial(cells, np.full(cells, 1 / cells), size=self.settings.bootstrap).astype(np.float64)

    def _resampled(self, values: NDArray[Any]) -> Array:
        """Mean over rows in every bootstrap draw."""
        cell, cells = self.plan.cell, self.plan.n_cells
        sums = np.bincount(cell, weights=values, minlength=cells)
        means: Array = (self._picks @ sums) / (self._picks @ np.bincount(cell, minlength=cells))
        return means

    @cached_property
    def _bootstrap_scale(self) -> Array:
        """Relative rms distance of the target in every draw, by direction: figures are ratios, so both parts vary."""
        spread = self.table.spread()
        return np.stack([np.sqrt(self._resampled(s) / s.mean()) for s in (spread[:, 1], spread[:, 0])], axis=1)

    @cached_property
    def _bootstrap(self) -> Array:
        columns = sorted({c for (g, _), c in COLUMNS.items() if g in self.settings.groups})
        means = np.full((self.settings.bootstrap, max(columns) + 1), np.nan)
        for column in columns:
            means[:, column] = self._resampled(self.table.column(1, column))
        return means

    def worst(self, group: str, direction: int, scale: Scale, ids: NDArray[Any] | None) -> tuple[WorstRow, ...]:
        errors = self.table.column(1, COLUMNS[group, direction])
        rows = np.argsort(-errors, kind="stable")[:WORST_ROWS]
        names = rows if ids is None else ids[rows]
        return tuple(
            WorstRow(str(name), float(errors[r]) / scale.rms) for name, r in zip(names.tolist(), rows, strict=True)
        )
