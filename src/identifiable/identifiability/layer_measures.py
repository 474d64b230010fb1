"""The measures of two layers from their sums: CKA, SVCCA, R² of a similarity; without a cell of rows; with rows shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import in_threads
from identifiable.groups import WhiteBasis
from identifiable.identifiability.agreement import ROTATION, sides, turned
from identifiable.identifiability.ladder import Ladder
from identifiable.identifiability.layer_sums import Crossed, LayerSums, by_cell
from identifiable.identifiability.neighbours import Index
from identifiable.identifiability.nulls import shuffled_rows, with_cross
from identifiable.intake import gather_moments
from identifiable.moments import Array, Moments, leave_one_out
from identifiable.neighbours import common_entries
from identifiable.results import Null
from identifiable.results.layers import Measure
from identifiable.rows import CELLS_PER_FOLD, RowPlan
from identifiable.run import Run, Stage
from identifiable.similarity import cca, hsic, mean_correlation

SVCCA_NULL_ROWS = 40  # per component: with fewer rows chance gives more
MAP_NULL_ROWS = 2048


class PairMeasures(NamedTuple):
    """CKA, and without each cell of rows; SVCCA; R² there and back."""

    cka: float
    cka_without: Array
    svcca: float
    r2: float
    r2_back: float

    def reversed(self) -> PairMeasures:
        return self._replace(r2=self.r2_back, r2_back=self.r2)


def measure_pair(x: LayerSums, y: LayerSums, found: Crossed, plan: RowPlan) -> PairMeasures:
    """Of two layers, from their cross-scatter."""
    left, right = _alike_many(x, y)
    squares = x.squares * y.squares
    diagonal = float(squares.sum())
    size = float(np.sum(found.cross**2))
    cka = _ratio(hsic(x.n, size, diagonal, x.trace, y.trace), x.hsic, y.hsic)
    whole, kept = found.cells.sum(axis=0), x.n - x.counts
    without = [
        np.sum((whole - own - np.outer(s, t) / n) ** 2)
        for own, s, t, n in zip(found.cells, x.totals, y.totals, kept, strict=True)
    ]
    sizes = size * np.array(without) / np.sum(whole**2)
    crossed = hsic(kept, sizes, diagonal - by_cell(squares, plan), x.trace_without, y.trace_without)
    return PairMeasures(
        float(cka),
        _ratio(crossed, x.hsic_without, y.hsic_without),
        mean_correlation(left, found.cross, right),
        *held_out_r2(x, y, found.cells, plan.n_folds).tolist(),
    )


def _alike_many(x: LayerSums, y: LayerSums) -> tuple[Array, Array]:
    """The components of SVCCA: as many of both layers, fewer where one of them has fewer directions."""
    k = min(x.principal.shape[1], y.principal.shape[1])
    return x.principal[:, :k], y.principal[:, :k]


def _ratio(cross: Array | float, left: Array | float, right: Array | float) -> Array:
    sizes = np.asarray(left) * right
    valid = (np.asarray(left) > 0) & (np.asarray(right) > 0)
    result: Array = np.where(valid, cross / np.sqrt(np.where(valid, sizes, 1.0)), np.nan)
    return result


# -- R² of a similarity between the leading components, of all the variance of the target


@dataclass(frozen=True, eq=False)
class Fit:
    """A similarity there and back, fitted to `training`."""

    training: Moments
    rotations: tuple[Array, Array]

    @classmethod
    def of(cls, training: Moments, before: Fit | None = None) -> Fit:
        """From the rotations of `before`, where there is a way to go."""
        ladder = Ladder(training.mean_x, training.mean_y)
        if before is not None:
            ladder = replace(ladder, rotation=before.rotations[0], rotation_yx=before.rotations[1])
        return cls(training, turned(training, ladder))

    def squares(self, rows: Moments) -> Array:
        """Sums of squared errors there and back."""
        errors = []
        for rotation, new, known in zip(self.rotations, sides(rows), sides(self.training), strict=True):
            energy = known.energy(rotation, ROTATION)
            scale = max(float(np.sum(rotation * known.xy)) / energy, 0.0) if energy > 0 else 0.0
            off = scale * ((new.mean_x - known.mean_x) @ rotation) - (new.mean_y - known.mean_y)
            inner, spread = float(np.sum(rotation * new.xy)), float(np.trace(new.yy))
            errors.append(scale**2 * new.energy(rotation, ROTATION) - 2 * scale * inner + spread + rows.n * off @ off)
        return np.array(errors)


def _scored(fit: Fit, rows: Moments, sides: tuple[LayerSums, LayerSums], test: Array, training: Array) -> Array:
    """Squared errors there and back, above those of the mean of the training rows: (2, 2)."""
    (whole_x, outside_x), (whole_y, outside_y) = (side.about(test, training) for side in sides)
    return np.array([fit.squares(rows) + np.array([outside_y, outside_x]), [whole_y, whole_x]])


def _r2(scored: Sequence[Array]) -> Array:
    errors, about = np.sum(scored, axis=0)
    result: Array = 1 - errors / np.where(about > 0, about, 1.0)
    return result


def held_out_r2(x: LayerSums, y: LayerSums, cross: Array, n_folds: int) -> Array:
    """Cross-validated R², x to y and y to x."""
    tests = np.kron(np.eye(n_folds), np.ones(CELLS_PER_FOLD))
    folds = [_joint(x, y, cross, test) for test in tests]
    return _r2(
        [
            _scored(Fit.of(training), rows, (x, y), test, 1 - test)
            for training, rows, test in zip(leave_one_out(folds), folds, tests, strict=True)
        ]
    )


def _joint(x: LayerSums, y: LayerSums, cross: Array, chosen: Array) -> Moments:
    """Moments of both layers, in their leading components, on the chosen cells."""
    between = np.tensordot(chosen, cross, 1)
    own = [np.tensordot(chosen, layer.grams, 1) for layer in (x, y)]
    gram = np.block([[own[0], between], [between.T, own[1]]])
    total = np.concatenate([chosen @ layer.totals for layer in (x, y)])
    widths = (x.basis.shape[1], y.basis.shape[1])
    return Moments(round(float(chosen @ x.counts)), widths, np.zeros(sum(widths)), total, gram)


def r2_without(x: LayerSums, y: LayerSums, plan: RowPlan, run: Run) -> Array:
    """R² there and back without each cell, fitted again: (cells, 2)."""
    cells = gather_moments(
        [x.blocks, y.blocks],
        run,
        part=plan.cell,
        n_parts=plan.n_cells,
        maps=[(layer.mean, layer.basis) for layer in (x, y)],
    )
    eye = np.eye(plan.n_cells)
    tests = np.kron(np.eye(plan.n_folds), np.ones(CELLS_PER_FOLD))
    folds = [cells[c].merge(cells[c + 1]) for c in range(0, plan.n_cells, CELLS_PER_FOLD)]
    fits = [Fit.of(training) for training in leave_one_out(folds)]

    def without(c: int) -> Array:
        scored = []
        for k, (rows, fit, test) in enumerate(zip(folds, fits, tests, strict=True)):
            if c // CELLS_PER_FOLD == k:
                scored.append(_scored(fit, rows.minus(cells[c]), (x, y), test - eye[c], 1 - test))
            else:
                again = Fit.of(fit.training.minus(cells[c]), fit)
                scored.append(_scored(again, rows, (x, y), test, 1 - test - eye[c]))
        return _r2(scored)

    return np.array(in_threads(without, range(plan.n_cells), Run(workers=run.workers)))


def svcca_without(x: LayerSums, y: LayerSums, plan: RowPlan, run: Run) -> Array:
    """SVCCA without each cell, in the components of all rows."""
    cells = gather_moments(
        [x.blocks, y.blocks],
        run,
        part=plan.cell,
        n_parts=plan.n_cells,
        maps=[(layer.mean, kept) for layer, kept in zip((x, y), _alike_many(x, y), strict=True)],
    )
    return np.array(in_threads(cca, leave_one_out(cells), Run(workers=run.workers)))


# -- chance


def shuffled_cka(firsts: Sequence[NDArray[Any]], seconds: Sequence[NDArray[Any]], draws: int, run: Run) -> Array:
    """Debiased CKA of every layer with every layer on a sample of rows: as they are, then with rows paired at random.

    The kernels, centred so that HSIC is their product (Székely and Rizzo 2014), are made once; a draw renames rows of the second side.
    """
    left, right = ([_kernel(rows) for rows in side] for side in (firsts, seconds))
    flat = np.stack([kernel.ravel() for kernel in left])

    def measure(draw: int) -> Array:
        rows = np.arange(len(right[0])) if draw == 0 else shuffled_rows(len(right[0]), None, [run.seed, 11, draw])
        return np.stack([flat @ kernel[np.ix_(rows, rows)].ravel() for kernel in right], axis=1)

    return np.array(in_threads(measure, range(draws + 1), Run(workers=run.workers), Stage("shuffled rows")))


def _kernel(rows: NDArray[Any]) -> NDArray[np.float32]:
    """The linear kernel without its diagonal, centred without bias, of length one."""
    n = len(rows)
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    kernel = centred @ centred.T
    np.fill_diagonal(kernel, 0.0)
    sums = kernel.sum(axis=1) / (n - 2)
    kernel += sums.sum() / (n - 1) - sums[:, None] - sums
    np.fill_diagonal(kernel, 0.0)
    size = float(np.linalg.norm(kernel))
    result: NDArray[np.float32] = (kernel / (size or 1.0)).astype(np.float32)
    return result


def shuffled_measures(
    x: LayerSums, y: LayerSums, lists: tuple[Index, Index], plan: RowPlan, draws: int, run: Run
) -> dict[Measure, Null]:
    """SVCCA, R² there and back, and overlap of two layers with rows paired at random, beside those of the same rows as they are."""
    kept = _alike_many(x, y)
    rows = np.sort(plan.sample(max(MAP_NULL_ROWS, SVCCA_NULL_ROWS * kept[0].shape[1])))
    few = np.sort(plan.sample(MAP_NULL_ROWS))
    white = [_whitened((layer.blocks[rows] - layer.mean) @ own) for layer, own in zip((x, y), kept, strict=True)]
    maps = _Maps(x, y, few, plan.fold[few] == plan.fold[few[0]])
    sizes = (len(rows), len(few), len(lists[1]))

    def measure(draw: int) -> tuple[float, ...]:
        first, second, third = (
            np.arange(n) if draw == 0 else shuffled_rows(n, None, [run.seed, 12 + at, draw])
            for at, n in enumerate(sizes)
        )
        svcca = np.linalg.svd(white[0].T @ white[1][first], compute_uv=False).mean()
        place = np.argsort(third)  # where the row of the second layer now stands
        overlap = len(common_entries(lists[0], place[lists[1][third]])[0]) / lists[0].size
        return svcca, *maps.r2(second), overlap

    found = np.array(in_threads(measure, range(draws + 1), Run(workers=run.workers)))
    sampled: dict[Measure, int] = {"svcca": sizes[0], "r2": sizes[1], "r2_back": sizes[1], "overlap": sizes[2]}
    return {name: null_of(values, n) for (name, n), values in zip(sampled.items(), found.T, strict=True)}


def null_of(values: Array, rows: int) -> Null:
    """The first value beside the others, which chance gave."""
    observed, drawn = float(values[0]), values[1:]
    return Null(
        float(drawn.mean()), (1 + int((drawn >= observed).sum())) / (1 + len(drawn)), observed, len(drawn), rows
    )


def _whitened(rows: Array) -> Array:
    moments = Moments.of(rows)
    return (rows - moments.mean) @ WhiteBasis.of(moments).basis


class _Maps:
    """A sample of rows of two layers, split once, for R² under any pairing that keeps training rows training rows."""

    def __init__(self, x: LayerSums, y: LayerSums, rows: Index, test: NDArray[np.bool_]):
        self.parts: list[tuple[Index, Moments, Array, Array]] = []
        whole = [layer.blocks[rows] - layer.mean for layer in (x, y)]
        inside = [values @ layer.basis for values, layer in zip(whole, (x, y), strict=True)]
        for part in (np.flatnonzero(~test), np.flatnonzero(test)):
            left, right = (values[part] for values in inside)
            moments = Moments.of(np.hstack([left, right]), widths=(left.shape[1], right.shape[1]))
            self.parts.append((part, moments, left - moments.mean_x, right - moments.mean_y))
        about = [[float(np.sum((v[test] - v[~test].mean(axis=0)) ** 2)) for v in each] for each in (whole, inside)]
        self.about = np.array(about[0][::-1])
        self.outside = (self.about - about[1][::-1]).clip(0)

    def r2(self, pairing: Index) -> list[float]:
        """There and back; each part of the rows is paired within itself, in the order of `pairing`."""
        training, test = (
            with_cross(moments, left.T @ right[np.argsort(pairing[part])]) for part, moments, left, right in self.parts
        )
        errors = Fit.of(training).squares(test) + self.outside
        found: list[float] = (1 - errors / self.about).tolist()
        return found
