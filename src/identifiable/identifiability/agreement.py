"""How much of one representation the other explains, by each group, with intervals; all from moments.

Ours (degree and form of `docs/compare.md`). Held-out R² = 1 - sum |y - f(x)|² / sum |y - mean of the training rows|², pooled over
folds. A scale is fitted at every rung but the rigid one, so units do not matter: s times a signed permutation, s times a rotation,
a linear map with a penalty (`ridge`). Intervals come from a jackknife that leaves out one cell of rows at a time and fits again:
every fold has two cells, so the sums that cross-validation needs serve both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from identifiable.blocks import in_threads
from identifiable.groups import Linear, correlation, permutation_matrix, procrustes, projection
from identifiable.identifiability.ladder import BACKWARD, FORWARD, Ladder
from identifiable.moments import Array, Moments, jackknife_spread
from identifiable.options.tables import Rung as RungName
from identifiable.run import PLAIN, Run, Stage

SHAPES: tuple[RungName, ...] = ("signed_permutation", "rigid", "similarity", "linear")
DIRECTIONS = (FORWARD, BACKWARD)
LEAST = 1e-15  # of the variance: what rounding leaves of an exact fit


@dataclass(frozen=True, eq=False)
class Maps:
    """The maps of one training set, in both directions, and the penalties of the linear ones."""

    ladder: Ladder
    penalties: tuple[float, float]
    training: Moments
    units: tuple[Array | None, Array | None] = (None, None)  # of the columns of either side, as for `Ridge`

    def again(self, training: Moments) -> Maps:
        """Fitted to fewer rows: the same penalty per row, everything else anew."""
        before = self.ladder
        share = training.n / self.training.n
        rotation, back = turned(training, before)
        ladder = Ladder(
            training.mean_x,
            training.mean_y,
            permutation=permutation_matrix(correlation(training)),
            rotation=rotation,
            rotation_yx=back,
            linear_xy=_penalised(training, self.penalties[FORWARD] * share, FORWARD, self.units[FORWARD]),
            linear_yx=_penalised(training, self.penalties[BACKWARD] * share, BACKWARD, self.units[BACKWARD]),
        )
        return Maps(ladder, self.penalties, training, self.units)

    def matrices(self, direction: int) -> tuple[Array, Array, Array]:
        """Permutation and rotation, without a scale, and the linear map."""
        own = self.ladder
        there = direction == FORWARD
        rotation, linear = (own.rotation, own.linear_xy) if there else (own.rotation_yx, own.linear_yx)
        if own.permutation is None or rotation is None or linear is None:
            raise ValueError("an agreement needs every rung of the ladder")
        return own.permutation if there else own.permutation.T, rotation, linear

    def mapped(self, rows: Array, shape: int, direction: int) -> Array:
        """Rows of the source in the target's coordinates, by permutation, rotation (both with their scale) or linear map."""
        known = sides(self.training)[direction]
        matrix = self.matrices(direction)[shape]
        scale = self._scale(matrix, known, shape)
        result: Array = scale * ((rows - known.mean_x) @ matrix) + known.mean_y
        return result

    def squares(self, rows: Moments) -> tuple[Array, Array]:
        """Sums of squared errors (shape, direction), and those about the training mean (direction), on these rows."""
        errors, about = np.zeros((len(SHAPES), 2)), np.zeros(2)
        for direction, new, known in zip(DIRECTIONS, sides(rows), sides(self.training), strict=True):
            off_x, off_y = new.mean_x - known.mean_x, new.mean_y - known.mean_y
            spread = float(np.trace(new.yy))
            about[direction] = spread + rows.n * (off_y @ off_y)
            for at, (matrix, shapes) in enumerate(zip(self.matrices(direction), ((0,), (1, 2), (3,)), strict=True)):
                energy, inner = new.energy(matrix, at), float(np.sum(matrix * new.xy))
                moved = off_x @ matrix
                for shape in shapes:
                    scale = 1.0 if SHAPES[shape] == "rigid" else self._scale(matrix, known, at)
                    left = scale * moved - off_y
                    errors[shape, direction] = scale**2 * energy - 2 * scale * inner + spread + rows.n * (left @ left)
        return errors, about

    @staticmethod
    def _scale(matrix: Array, known: _Side, at: int) -> float:
        """The best scale of a permutation or a rotation; a linear map has its own."""
        if at == LINEAR:
            return 1.0
        energy = known.energy(matrix, at)
        return max(float(np.sum(matrix * known.xy)) / energy, 0.0) if energy > 0 else 0.0


PERMUTATION, ROTATION, LINEAR = range(3)


@dataclass(frozen=True, eq=False)
class _Side:
    """Moments of two tables seen from one of them."""

    mean_x: Array
    mean_y: Array
    xx: Array
    yy: Array
    xy: Array

    def energy(self, matrix: Array, at: int) -> float:
        """Sum of squares of the mapped rows about their mean; without a product where the map keeps lengths."""
        if at == PERMUTATION:
            return float(np.diag(self.xx) @ np.abs(matrix).sum(axis=1))
        if at == ROTATION and matrix.shape[0] <= matrix.shape[1]:
            return float(np.trace(self.xx))
        return float(np.sum(matrix * (self.xx @ matrix)))


def sides(moments: Moments) -> tuple[_Side, _Side]:
    """Moments of two tables seen from the first, and from the second."""
    m = moments
    return _Side(m.mean_x, m.mean_y, m.xx, m.yy, m.xy), _Side(m.mean_y, m.mean_x, m.yy, m.xx, m.xy.T)


def turned(training: Moments, before: Ladder) -> tuple[Array, Array]:
    d_x, d_y = training.widths
    rotation = procrustes(training.xy)[0]
    forward = projection(training.xx, training.xy, before.rotation) if d_x > d_y else rotation
    backward = projection(training.yy, training.xy.T, before.rotation_yx) if d_y > d_x else rotation.T
    return forward, backward


def _penalised(training: Moments, penalty: float, direction: int, units: Array | None) -> Array:
    from scipy.linalg import solve

    side = sides(training)[direction]
    if penalty > 0 and units is not None:
        scaled = side.xx / np.outer(units, units) + penalty * np.eye(len(units))
        return np.asarray(solve(scaled, side.xy / units[:, None], assume_a="pos") / units[:, None])
    if penalty > 0:
        result: Array = solve(side.xx + penalty * np.eye(len(side.xx)), side.xy, assume_a="pos")
        return result
    return Linear().fit(training if direction == FORWARD else training.reversed()).matrix


@dataclass(frozen=True, eq=False)
class Agreement:
    """Held-out R² and the share of the linear map's R² that each shape keeps: (shape, direction), and in every jackknife draw."""

    r2: Array
    r2_without: Array  # (draw, shape, direction)

    @property
    def bounded(self) -> bool:
        """Whether there are intervals."""
        return len(self.r2_without) > 0

    @property
    def kept(self) -> Array:
        return _kept(self.r2)

    def r2_interval(self) -> Array:
        """(low and high, shape, direction), symmetric in log(1 - R²)."""
        lost = np.log((1 - self.r2).clip(LEAST))
        spread = jackknife_spread(np.log((1 - self.r2_without).clip(LEAST)))
        bounds: Array = 1 - np.exp(np.stack([lost + spread, lost - spread]))
        return bounds

    def kept_interval(self) -> Array:
        """(low and high, shape, direction)."""
        spread = jackknife_spread(_kept(self.r2_without))
        return np.stack([self.kept - spread, self.kept + spread])

    def relative_error_interval(self) -> Array:
        """Factors (low and high, shape, direction) for a held-out error in units of the target's spread.

        Such an error goes with the root of 1 - R², so it has half its spread on the logarithmic scale.
        """
        spread = jackknife_spread(np.log((1 - self.r2_without).clip(LEAST))) / 2
        return np.exp(np.stack([-spread, spread]))


def _kept(r2: Array) -> Array:
    linear = r2[..., SHAPES.index("linear"), :][..., None, :]
    return np.where(linear > 0, r2 / np.where(linear > 0, linear, 1.0), 0.0)


def measure_agreement(
    cells: Sequence[Moments],
    folds: Sequence[Moments],
    maps: Sequence[Maps],
    run: Run = PLAIN,
    *,
    intervals: bool = True,
) -> Agreement:
    """From the moments of every cell (two to a fold, in order), of every fold, and the maps fitted to the other folds."""
    whole = [m.squares(fold) for m, fold in zip(maps, folds, strict=True)]
    if not intervals:
        return Agreement(_r2(whole), np.zeros((0, len(SHAPES), 2)))
    per_fold = len(cells) // len(folds)

    def without(item: tuple[int, int]) -> tuple[Array, Array]:
        cell, k = item
        if cell // per_fold != k:
            return maps[k].again(maps[k].training.minus(cells[cell])).squares(folds[k])
        return maps[k].squares(folds[k].minus(cells[cell]))

    items = list(product(range(len(cells)), range(len(folds))))
    parts = in_threads(without, items, run, Stage("intervals"))
    draws = [_r2(parts[i : i + len(folds)]) for i in range(0, len(parts), len(folds))]
    return Agreement(_r2(whole), np.array(draws))


def _r2(parts: Sequence[tuple[Array, Array]]) -> Array:
    errors, about = (sum(part) for part in zip(*parts, strict=True))
    result: Array = 1 - errors / np.where(about > 0, about, 1.0)
    return result
