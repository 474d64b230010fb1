"""Two tables measured against each other, both ways."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable import ica, similarity
from identifiable._checks import DataError
from identifiable.blocks import fold, in_threads
from identifiable.groups import GROUPS, Preconditioner, WhiteBasis
from identifiable.identifiability.agreement import SHAPES, Agreement, Maps, measure_agreement
from identifiable.identifiability.axes import AxesOf, measure_axes
from identifiable.identifiability.judgement import (
    DEGREES,
    degree_of,
    efficiency_of,
    form_of,
    gate_group,
    group_below,
)
from identifiable.identifiability.ladder import (
    BACKWARD,
    COLUMNS,
    FORWARD,
    ICA,
    ErrorTable,
    IcaMatcher,
    Ladder,
    Ridge,
)
from identifiable.identifiability.moved import moved_groups
from identifiable.identifiability.neighbours import SAMPLE_ROWS, compare_neighbours
from identifiable.identifiability.nulls import NullResults, measure_nulls, null_rows, shuffled_rows
from identifiable.identifiability.run import CompareRun, Table
from identifiable.identifiability.shared import measure_shared
from identifiable.moments import Array, Moments, leave_one_out
from identifiable.options.tables import Null as NullName
from identifiable.options.tables import Rung as RungName
from identifiable.results import (
    Axes,
    Bounded,
    Errors,
    Interval,
    Neighbours,
    Null,
    PairResult,
    RowErrors,
    Rung,
    Scale,
    SharedDimensions,
    Similarity,
    Solver,
    Verdict,
    WorstRow,
)
from identifiable.rows import FEWEST_UNITS, RowPlan
from identifiable.run import Run, Stage

SVCCA_COMPONENTS = (16, 64, 256, 768)  # Roeder et al. 2021, Figure 4
WORST_ROWS = 10
CHANCE_LEVEL = 0.05
LEAST_TRAINING = 10  # rows per dimension below which what a linear map explains is a lower bound
# float32 data is measured in float32 where the terms that a linear map adds up are at most this many times what is
# left over: rounding (6e-8 of the terms) then moves a figure by less than 1e-6. All else is measured in float64.
FLOAT32_BELOW = 8.0


class PairRun:
    """Two tables, measured both ways."""

    def __init__(self, run: CompareRun, x: Table, y: Table):
        self.run, self.x, self.y = run, x, y
        self.total, *self.cells = run.moments([x, y])
        self.folds = _merged(self.cells, run.plan.n_folds)
        run.cross_scatters[x.name, y.name, x.blocks.d, y.blocks.d] = self.total.xy
        for i, table in enumerate((x, y)):
            table.known_moments = table.known_moments or self.total.alone(i)
            if not table.white.rank:
                raise DataError(f"{table.name}: every row is the same, so there is nothing to compare.")
        self.training = leave_one_out(self.folds)
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
        self.total_again, *cells = self.run.moments([self.x, self.y], preconditioners=self.frames)
        self.training_again = leave_one_out(_merged(cells, self.run.plan.n_folds))
        self.white_x, self.white_y = self._white_again(self.total_again)
        self.x.rank, self.y.rank = self.white_x.rank, self.white_y.rank

    def _white_again(self, again: Moments) -> tuple[WhiteBasis, WhiteBasis]:
        x, y = (
            f.white(m) if f else WhiteBasis.of(m)
            for f, m in zip(self.frames, (again.alone(0), again.alone(1)), strict=True)
        )
        return x, y

    # -- fits

    def _least_squares(self, again: Moments) -> tuple[Array, Array]:
        """Least squares in the coordinates of the second measurement, taken back to those of the data."""
        frame_x, frame_y = self.frames
        white_x, white_y = self._white_again(again)
        forward = white_x.solve(again.xy, frame_x)
        backward = white_y.solve(again.xy.T, frame_y)
        # From the target's coordinates of the second measurement back to those of the data.
        return (
            forward if frame_y is None else forward @ frame_y.back,
            backward if frame_x is None else backward @ frame_x.back,
        )

    def _fit(self, sets: tuple[Moments, Moments]) -> Maps:
        """All maps of one training set, given its moments and those of the second measurement."""
        moments, again = sets
        linear: list[Array] = []
        penalties = [0.0, 0.0]
        if self.run.settings.protocol == "default":
            for direction, side in enumerate((moments, moments.reversed())):
                matrix, penalties[direction] = Ridge.of(side).fit(side.xy, float(np.trace(side.yy)))
                linear.append(matrix)
        if not all(penalties):
            careful = self._least_squares(again)
            linear = [m if p else c for m, p, c in zip(linear or careful, penalties, careful, strict=True)]
        rungs = (*GROUPS, ICA) if self._ica is not None else tuple(GROUPS)
        scaled = self.run.settings.protocol == "default"
        ladder = Ladder.fit(moments, rungs, linear=lambda _: (linear[0], linear[1]), ica=self._ica, scaled=scaled)
        return Maps(ladder, (penalties[0], penalties[1]), moments)

    @cached_property
    def _ica(self) -> IcaMatcher | None:
        if ICA not in self.run.settings.groups:
            return None
        source, target = ((t.unmixing.to_components, t.unmixing.from_components) for t in (self.x, self.y))
        return lambda cross: ica.matched_matrices(source, target, cross)

    def _maps(self) -> list[Maps]:
        sets = list(zip([self.total, *self.training], [self.total_again, *self.training_again], strict=True))
        _ = self._ica  # fitted once, before the threads
        return in_threads(self._fit, sets, Run(workers=self.run.workers))

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
        maps = self._maps()
        asked = [m.ladder.only(settings.groups) for m in maps]
        dtype = self._precision(maps[0].ladder)
        total, *held_out = [ladder.astype(dtype) for ladder in asked]
        table = fold(
            [self.x.blocks, self.y.blocks],
            partial(ErrorTable, total, held_out, run.plan.fold, dtype),
            **run.how,
            stage=Stage("errors"),
        )
        agreement = measure_agreement(
            self.cells,
            self.folds,
            maps[1:],
            run,
            intervals=run.plan.can_leave_out and settings.intervals,
        )
        nulls = self._nulls()
        self._note_inputs()
        measured = _Measured(table, run.plan, agreement)
        similar = self._similarity(table.spread(), nulls)
        neighbours = self._neighbours(maps[1:])
        shared = measure_shared(run, (self.x, self.y), self.total, self.training, self.folds)
        axes = self._axes()
        best = agreement.r2[SHAPES.index("similarity") :].max(axis=0)  # with few rows a rotation may predict better
        loud = (
            shared.few and best.max() >= DEGREES["largely"]
        )  # a few columns make the R², and say nothing about the others
        form = form_of(
            agreement,
            maps[0].ladder.relative_scale,
            chance=self._by_chance(nulls, agreement, shared),
            sure=(agreement.bounded or not settings.intervals) and not loud,
            seen=min(m.n for m in self.training) > max(self.total.widths),
        )
        run.room_for_maps -= asked[0].size
        results = []
        for direction, source, target in ((FORWARD, self.x, self.y), (BACKWARD, self.y, self.x)):
            scale = Scale(target.diameter, target.rms)
            rungs = tuple(
                measured.rung(g, direction, scale, self._rung_nulls(nulls, g, direction, scale.rms))
                for g in settings.groups
            )
            own = form if direction == FORWARD else form.reversed()
            r2, r2_back = float(best[direction]), float(best[1 - direction])
            verdict = Verdict(
                group=gate_group(agreement, own, shared, direction, settings.groups),
                epsilon=settings.epsilon,
                below_epsilon=group_below(rungs, settings.epsilon, settings.protocol),
                degree=degree_of(r2, form),
                r2=r2,
                degree_back=degree_of(r2_back, form),
                r2_back=r2_back,
                form=own,
            )
            found = PairResult(
                source=source.name,
                target=target.name,
                n=self.total.n,
                dropped=dropped,
                width=min(source.blocks.d, target.blocks.d),
                kept_source=1.0,
                kept_target=1.0,
                scale=scale,
                rungs=rungs,
                ica_efficiency=efficiency_of(rungs, axes[direction].efficiency, settings.protocol),
                similarity=similar,
                verdict=verdict,
                solver=self._solver(direction, dtype),
                worst=(),
                shared=shared if direction == FORWARD else shared.reversed(),
                neighbours=neighbours[direction] if neighbours else None,
                axes=axes[direction].axes,
                row_errors=measured.rows(settings.groups, direction, scale, run.ids),
                maps=partial(asked[0].map, direction=direction) if run.room_for_maps >= 0 else None,
            )
            results.append(replace(found, worst=measured.worst(found.fitting_group, direction, scale, run.ids)))
        return [self._with_moved(result) for result in results]

    def _with_moved(self, result: PairResult) -> PairResult:
        """Which labels moved, where rows have labels."""
        run = self.run
        if run.labels is None or result.row_errors is None:
            return result
        errors = result.row_errors.by_group[result.fitting_group]
        rng = np.random.default_rng([run.settings.seed, 7])
        return replace(result, moved=moved_groups(errors, run.labels, rng=rng, groups=run.plan.group))

    def _by_chance(self, nulls: NullResults | None, agreement: Agreement, shared: SharedDimensions) -> bool:
        """Whether what a linear map explains could be chance.

        It is not where it beats rows paired at random, and besides its R² is certainly above 0 or a dimension is shared. One test
        at 5 % alone calls one of twenty unrelated pairs related: 19 shuffles can say no more than p = 1/20.
        """
        found = [nulls.rung("shuffle", "linear", d, 1.0) for d in (FORWARD, BACKWARD)] if nulls else []
        known = [n.p for n in found if n is not None]
        if not known or 1 / (1 + self.run.settings.null_draws) > CHANCE_LEVEL:
            return False
        if min(known) > CHANCE_LEVEL:
            return True
        if not agreement.bounded or shared.withheld or shared.strong + shared.partly:
            return False
        return bool(agreement.r2_interval()[0][SHAPES.index("similarity") :].max() <= 0)

    def _rung_nulls(
        self, nulls: NullResults | None, group: str, direction: int, scale: float
    ) -> dict[NullName, Null | None]:
        return {name: nulls.rung(name, group, direction, scale) for name in self.run.settings.nulls} if nulls else {}

    def _nulls(self) -> NullResults | None:
        settings, plan = self.run.settings, self.run.plan
        if not settings.nulls:
            return None
        rows = plan.sample(null_rows(max(t.blocks.d for t in (self.x, self.y))))
        x, y = (np.asarray(t.blocks[rows], dtype=np.float64) for t in (self.x, self.y))
        return measure_nulls(self.run, x, y, rows, self._ica)

    def _axes(self) -> tuple[AxesOf, AxesOf]:
        if not self.run.settings.axes:
            possible = min(self.x.white.rank, self.y.white.rank)
            none = AxesOf(Axes(possible, rows_needed=0, withheld="not_asked"))
            return none, none
        of_row = self.run.plan.cell if len(self.cells) == self.run.plan.n_cells else self.run.plan.fold
        return measure_axes(self.run, self.x, self.y, self.cells, of_row)

    def _neighbours(self, maps: Sequence[Maps]) -> tuple[Neighbours, Neighbours] | None:
        """Nearest neighbours on a sample of rows, each row mapped by the maps of its own fold."""
        run, plan = self.run, self.run.plan
        if not run.settings.neighbours:
            return None
        rows = plan.sample(SAMPLE_ROWS)
        x, y = self.x.neighbourhood, self.y.neighbourhood
        images: tuple[dict[str, Array], dict[str, Array]] = ({}, {})
        fold_of = plan.fold[rows]
        for direction, (source, target) in enumerate(((x.rows, y.rows), (y.rows, x.rows))):
            for at, name in enumerate(("signed_permutation", "similarity", "linear")):
                image = np.empty_like(target)
                for k, fitted in enumerate(maps):
                    own = np.flatnonzero(fold_of == k)
                    image[own] = fitted.mapped(source[own], at, direction)
                images[direction][name] = image
        group = None if plan.group is None else plan.group[rows]
        draws = run.settings.null_draws if "shuffle" in run.settings.nulls else 0
        shuffles = [shuffled_rows(len(rows), group, [run.settings.seed, 6, t]) for t in range(draws)]
        return compare_neighbours(x, y, *images, shuffles=shuffles, part=plan.cell[rows], run=run)

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
            if run.settings.neighbours and table.closeness.alike:
                run.alert("alike_rows", name=table.name, median=table.closeness.median)
            constant = table.white.constant
            if constant:
                run.alert("constant_columns", name=table.name, constant=constant, columns=table.blocks.d)
            if white.rank + constant < table.blocks.d:
                few = {"rows": self.total.n} if white.rank >= self.total.n - 1 else {}
                run.alert("rank_deficient", name=table.name, columns=table.blocks.d, span=white.rank, **few)
        d, training = max(t.blocks.d for t in (self.x, self.y)), min(m.n for m in self.training)
        if d > self.total.n:
            run.alert("more_columns_than_rows", names=[self.x.name, self.y.name], columns=d, rows=self.total.n)
        if training < LEAST_TRAINING * d:
            needed = math.ceil(LEAST_TRAINING * d * self.total.n / training)
            run.alert("few_rows", training=training, dimensions=d, per_dimension=training / d, needed=needed)
        if run.settings.intervals and not run.plan.can_leave_out:
            own = {"rows": run.plan.units, "folds": run.plan.n_folds}
            counted = own if run.plan.group is None else {"groups": run.plan.units}
            run.alert("too_few_groups", **counted, least=FEWEST_UNITS * run.plan.n_cells)
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


def _merged(cells: Sequence[Moments], n_folds: int) -> list[Moments]:
    """Moments of every fold from those of its cells."""
    per_fold = len(cells) // n_folds
    return [reduce(Moments.merge, cells[k : k + per_fold]) for k in range(0, len(cells), per_fold)]


@dataclass(eq=False)
class _Measured:
    """The error table turned into numbers."""

    table: ErrorTable
    plan: RowPlan
    agreement: Agreement

    def rung(self, group: RungName, direction: int, scale: Scale, nulls: dict[NullName, Null | None]) -> Rung:
        column = COLUMNS[group, direction]
        in_sample, held_out = (self._errors(kind, column, scale) for kind in (0, 1))
        if group not in SHAPES:
            return Rung(group, in_sample, held_out, nulls)
        at = (SHAPES.index(group), direction)
        r2, kept = self.agreement.r2[at], self.agreement.kept[at]
        linear = (SHAPES.index("linear"), direction)
        if not self.agreement.bounded:
            share = Bounded(float(kept)) if self.agreement.r2[linear] > 0 else None
            return Rung(group, in_sample, held_out, nulls, Bounded(float(r2)), share)
        explained = self.agreement.r2_interval()[0][linear] > 0  # a share of nothing is not a number
        share = Bounded(float(kept), _interval(self.agreement.kept_interval()[:, *at])) if explained else None
        factors = self.agreement.relative_error_interval()[:, *at]
        return Rung(
            group,
            in_sample,
            replace(held_out, ci95=_interval(held_out.mean * factors)),
            nulls,
            Bounded(float(r2), _interval(self.agreement.r2_interval()[:, *at])),
            share,
        )

    def _errors(self, kind: int, column: int, scale: Scale) -> Errors:
        mean = float(self.table.sums[kind, column]) / len(self.plan.cell)
        quantiles = np.quantile(self.table.column(kind, column), np.linspace(0, 1, 101)) / scale.rms
        return Errors(
            mean=mean / scale.rms,
            q50=float(quantiles[50]),
            q95=float(quantiles[95]),
            q99=float(quantiles[99]),
            max=float(self.table.maxima[kind, column]) / scale.rms,
            mean_over_diameter=mean / scale.diameter,
            quantiles=tuple(float(f"{q:.6g}") for q in quantiles),
        )

    def worst(self, group: str, direction: int, scale: Scale, ids: NDArray[Any] | None) -> tuple[WorstRow, ...]:
        errors = self.table.column(1, COLUMNS[group, direction])
        rows = np.argsort(-errors, kind="stable")[:WORST_ROWS]
        names = rows if ids is None else ids[rows]
        return tuple(
            WorstRow(str(name), float(errors[r]) / scale.rms) for name, r in zip(names.tolist(), rows, strict=True)
        )

    def rows(self, groups: Sequence[str], direction: int, scale: Scale, ids: NDArray[Any] | None) -> RowErrors:
        found = {g: self.table.column(1, COLUMNS[g, direction]) / np.float32(scale.rms) for g in groups}
        return RowErrors(np.arange(len(self.plan.cell)) if ids is None else ids, found)


def _interval(bounds: Array) -> Interval:
    return float(bounds[0]), float(bounds[1])
