"""How many dimensions two representations share, from moments.

Ours. For each canonical pair rho = sqrt(held-out correlation x in-sample correlation): the first is too small with few rows, the second
too large, and the two biases cancel. Columns are on a common scale, nothing is penalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from identifiable.groups import WhiteBasis
from identifiable.moments import Array, Moments

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
