"""How many dimensions two representations share, from moments.

Ours. For each canonical pair rho = sqrt(held-out correlation x in-sample correlation): the first is too small with few rows, the second
too large, and the two biases cancel. Columns are on a common scale, nothing is penalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from identifiable.blocks import in_threads
from identifiable.groups import WhiteBasis
from identifiable.identifiability.nulls import null_rows, shuffled_rows
from identifiable.identifiability.run import CompareRun, Table
from identifiable.moments import Array, Moments, leave_one_out
from identifiable.results import SharedDimensions
from identifiable.run import Run, Stage

TOLERANCE = 1e-5  # of the standard deviation of the largest direction: below it a direction is rounding


@dataclass(frozen=True, eq=False)
class Canonical:
    """Canonical pairs of two tables: directions with unit scatter, and their correlations on the rows they were fitted to."""

    x: Array
    y: Array
    correlations: Array

    @classmethod
    def of(cls, moments: Moments) -> Canonical:
        white = [WhiteBasis.of(moments.alone(i), tolerance=TOLERANCE).basis for i in (0, 1)]
        return cls.between(white[0], white[1], moments.xy)

    @classmethod
    def between(cls, white_x: Array, white_y: Array, cross: Array) -> Canonical:
        """From directions in which either side is white."""
        left, correlations, right = np.linalg.svd(white_x.T @ cross @ white_y, full_matrices=False)
        return cls(white_x @ left, white_y @ right.T, correlations.clip(0.0, 1.0))

    def sums(self, rows: Moments) -> Array:
        """Cross products and squares of the canonical variates on these rows: (3, pairs)."""
        return np.stack(
            [
                np.einsum("ij,ij->j", self.x, rows.xy @ self.y),
                np.einsum("ij,ij->j", self.x, rows.xx @ self.x),
                np.einsum("ij,ij->j", self.y, rows.yy @ self.y),
            ]
        )

    def variance_shares(self, total: Moments, count: int) -> tuple[float, float]:
        """Shares of the variance of x and of y that their first `count` variates explain, on the rows fitted to."""
        sides = ((self.x, total.xx), (self.y, total.yy))
        shares = [float(np.sum((d[:, :count].T @ s) ** 2) / np.trace(s)) if count else 0.0 for d, s in sides]
        return shares[0], shares[1]


def shared_correlations(total: Canonical, training: Sequence[Canonical], folds: Sequence[Moments]) -> Array:
    """rho of every canonical pair, largest in-sample first."""
    count = min(len(c.correlations) for c in (total, *training))
    cross, xx, yy = np.sum([c.sums(fold)[:, :count] for c, fold in zip(training, folds, strict=True)], axis=0)
    scale = np.sqrt(xx * yy)
    held_out = np.divide(cross, scale, out=np.zeros_like(cross), where=scale > 0)
    rho: Array = np.sqrt(held_out.clip(0.0, 1.0) * total.correlations[:count])
    return rho


STRONG, PARTLY = 0.9, 0.5
FEW_ROWS = 4  # per dimension, below which the count of strong dimensions is a lower bound
SHUFFLE_ABOVE = 0.4  # expected chance level from which on it is measured
CHANCE_DRAWS = 19  # the largest of which is the 95 % point


def expected_chance(units: int, widths: tuple[int, ...]) -> float:
    """What the largest rho of unrelated Gaussian tables stays below in 95 % of cases, nearly.

    Ours: the in-sample part is at most the edge of the spectrum of canonical correlations (Wachter 1980), the held-out part the
    largest of so many normal deviates over the root of n. Within .03 of shuffling at 3 to 31 rows per dimension.
    """
    from scipy.special import ndtri

    few = [min(d / max(units, 1), 0.5) for d in widths]
    edge = np.sqrt(few[0] * (1 - few[1])) + np.sqrt(few[1] * (1 - few[0]))
    pairs = min(widths)
    held_out = ndtri(0.95 ** (1 / pairs)) / np.sqrt(max(units, 1))
    return float(np.sqrt(min(edge, 1.0) * min(held_out, 1.0)))


def measure_shared(
    run: CompareRun, tables: tuple[Table, Table], total: Moments, training: Sequence[Moments], folds: Sequence[Moments]
) -> SharedDimensions:
    """Counts, the variance they carry, and what chance gives."""
    whole, *parts = in_threads(Canonical.of, [total, *training], Run(workers=run.workers))
    rho = shared_correlations(whole, parts, folds)
    chance = expected_chance(run.plan.units, total.widths)
    if chance > SHUFFLE_ABOVE:
        chance = _chance(run, tables)
    possible = min(min(total.widths), len(rho)) if len(rho) else min(total.widths)
    withheld = chance > STRONG  # rows paired at random reach it: nothing can be counted
    strong = 0 if withheld else int(np.sum(rho > max(STRONG, chance)))
    partly = 0 if withheld else int(np.sum(rho > max(PARTLY, chance))) - strong
    carried = whole.variance_shares(total, strong)
    few = total.n < FEW_ROWS * max(total.widths)
    return SharedDimensions(possible, strong, partly, chance, *carried, tuple(rho.tolist()), few, withheld)


def _chance(run: CompareRun, tables: tuple[Table, Table]) -> float:
    """The 95 % point of the largest rho with rows, or whole groups of rows, of y paired at random within folds."""
    plan = run.plan
    rows = plan.sample(null_rows(max(t.blocks.d for t in tables)))
    x, y = (np.asarray(t.blocks[rows], dtype=np.float64) for t in tables)
    fold, group = plan.fold[rows], None if plan.group is None else plan.group[rows]

    def largest(draw: int) -> float:
        rng = np.random.default_rng([run.settings.seed, 4, draw])
        pairing = np.empty(len(x), dtype=np.intp)
        for k in range(plan.n_folds):
            own = np.flatnonzero(fold == k)
            pairing[own] = own[shuffled_rows(len(own), None if group is None else group[own], rng)]
        both = np.hstack([x, y[pairing]])
        folds = [Moments.of(both[fold == k], widths=(x.shape[1], y.shape[1])) for k in range(plan.n_folds)]
        training = leave_one_out(folds)
        total = training[0].merge(folds[0])
        return float(
            shared_correlations(Canonical.of(total), [Canonical.of(t) for t in training], folds).max(initial=0.0)
        )

    return max(in_threads(largest, range(CHANCE_DRAWS), run, Stage("chance level")))
