"""Linear maps with a penalty on their size, chosen by generalised cross-validation; all from moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identifiable.moments import Array, Moments

# Candidate penalties, relative to the largest principal variance: four a decade. At the smallest nothing is penalised.
PENALTIES = np.logspace(-14, 3, 69)


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

    def penalty(self, cross: Array, energy: float) -> float:
        """The penalty with the smallest generalised cross-validation error (Golub, Heath and Wahba 1979).

        `cross` is the centred cross-scatter, `energy` the centred sum of squares of the target.
        """
        top = float(self.variances[-1]) if self.variances.size else 0.0
        if top <= 0 or energy <= 0:
            return 0.0
        found = np.sum((self.directions.T @ cross) ** 2, axis=1)
        penalties = PENALTIES[:, None] * top
        shrunk = self.variances + penalties
        left = energy - np.sum(found * (self.variances + 2 * penalties) / shrunk**2, axis=1)
        free = 1 - np.sum(self.variances / shrunk, axis=1) / (self.n - 1)
        usable = free > 1e-6  # no more parameters than rows
        error = np.where(usable, left.clip(1e-16 * energy) / np.where(usable, free, 1.0) ** 2, np.inf)
        best = int(np.argmin(error))
        return float(penalties[best, 0]) if best else 0.0

    def solve(self, cross: Array, penalty: float) -> Array:
        """The map B of that penalty; of least norm where nothing is penalised."""
        top = float(self.variances[-1]) if self.variances.size else 0.0
        shrunk = self.variances + max(penalty, PENALTIES[0] * top)
        weights = np.divide(1.0, shrunk, out=np.zeros_like(shrunk), where=shrunk > 0)
        result: Array = self.directions @ (weights[:, None] * (self.directions.T @ cross))
        return result
