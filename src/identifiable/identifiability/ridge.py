"""Linear maps with a penalty on their size, chosen by generalised cross-validation; all from moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identifiable.moments import Array, Moments

# Candidate penalties, relative to the largest principal variance: four a decade. At the smallest nothing is penalised.
PENALTIES = np.logspace(-14, 3, 69)
ROUNDING = 1e-13  # of the target's energy: an exact fit leaves no more, so the smallest penalty wins there

LEAST_FREE = 0.5  # rows left over by the parameters; a map through every training row fits exactly and says nothing


@dataclass(frozen=True, eq=False)
class Ridge:
    """Every penalised least-squares map from one table: ``(S + penalty I) B = C``.

    Ours for this purpose; ridge regression towards 0 with one penalty for all target columns, in the coordinates of the
    data, so neither a rotation nor a change of units of either side moves the prediction. Below some 10 rows per
    dimension least squares predicts worse than the mean of the target, this does not.
    """

    n: int
    variances: Array
    directions: Array

    @classmethod
    def of(cls, source: Moments) -> Ridge:
        """From the moments of one table, or of the first of two."""
        variances, directions = np.linalg.eigh(source.xx)
        return cls(source.n, variances.clip(0), directions)

    def fit(self, cross: Array, energy: float) -> tuple[Array, float]:
        """The map with the smallest generalised cross-validation error (Golub, Heath and Wahba 1979), and its penalty.

        `cross` is the centred cross-scatter, `energy` the centred sum of squares of the target. A penalty of 0 stands for
        the smallest candidate.
        """
        turned = self.directions.T @ cross
        top = float(self.variances[-1]) if self.variances.size else 0.0
        if top <= 0 or energy <= 0:
            return np.zeros_like(cross), 0.0
        penalties = PENALTIES[:, None] * top
        shrunk = self.variances + penalties
        found = np.sum(turned**2, axis=1)
        left = energy - np.sum(found * (self.variances + 2 * penalties) / shrunk**2, axis=1)
        free = 1 - np.sum(self.variances / shrunk, axis=1) / (self.n - 1)
        usable = free * (self.n - 1) > LEAST_FREE
        left = np.where(left > ROUNDING * energy, left, 0.0)
        error = np.where(usable, left / np.where(usable, free, 1.0) ** 2, np.inf)
        best = int(np.argmin(error))
        matrix: Array = self.directions @ (turned / shrunk[best][:, None])
        return matrix, float(penalties[best, 0]) if best else 0.0
