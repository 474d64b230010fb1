"""How much of a space's variance does a covariate explain? Principal component regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError, check_matrix_shape, check_numeric
from identifiable.deconfounding.design import Labels
from identifiable.deconfounding.metrics.matrices import Array, check_rows, refuse_non_finite, row_blocks

Covariate = Labels | NDArray[Any]


@dataclass(frozen=True, eq=False)
class PrincipalComponentRegression:
    """Share of variance explained, of each component (`r2`, largest variance first) and of all together (`score`)."""

    score: float
    r2: Array
    variance: Array


def pcr(X: Any, covariate: Covariate, *, components: int | None = None) -> PrincipalComponentRegression:
    """R^2 of each principal component on a covariate, averaged with the components' variances as weights.

    `Labels` are a category, an array is a number for each row. Over all components the score is the between-groups share of
    the total sum of squares, so any rotation leaves it; of random labels it is about (labels - 1) / (rows - 1), not 0.

    Implements `scib_metrics.utils.principal_component_regression` 0.5.10, equal to 1e-6, from the covariance and the sums
    of each label: rows are read a block at a time, and no table of rows and components is made. A component
    without variance counts for nothing, where scib-metrics gives NaN.

    >>> X = np.array([[0.0, 1.0], [0.0, -1.0], [2.0, 1.0], [2.0, -1.0]])
    >>> pcr(X, Labels.of(np.array(list("aabb")))).score
    0.5
    """
    n, d = check_matrix_shape(tuple(X.shape), "embedding")
    check_numeric(np.dtype(X.dtype), "embedding")
    check_rows(n, len(covariate), "embedding")
    if components is not None and not 1 <= components <= min(n, d):
        raise UsageError(f"pcr: components is 1 to {min(n, d)} for {n} x {d} values, got {components}.")
    mean = sum(_part(X, rows).sum(axis=0) for rows in row_blocks(n, d)) / n
    gram, explained = np.zeros((d, d)), _Explained.of(covariate, d)
    for rows in row_blocks(n, d):
        values = _part(X, rows) - mean
        gram += values.T @ values
        explained.add(values, rows)
    energy, axes = np.linalg.eigh(gram)
    energy, axes = np.maximum(energy[::-1], 0), axes[:, ::-1]
    kept = slice(0, components or min(n, d))
    energy, fitted = energy[kept], explained.energy(axes[:, kept])
    real = energy > energy.max(initial=0) * d * np.finfo(np.float64).eps
    r2 = np.divide(fitted, energy, out=np.zeros(len(energy)), where=real)
    score = float(r2 @ energy / energy.sum()) if real.any() else float("nan")
    return PrincipalComponentRegression(score, r2, energy / max(n - 1, 1))


def _part(X: Any, rows: slice) -> Array:
    values = np.asarray(X[rows], dtype=np.float64)
    refuse_non_finite(values, rows.start, "embedding")
    return values


@dataclass(eq=False)
class _Explained:
    """The sum of squares a covariate explains along any axis, from sums over centred rows: of a label, or times a number."""

    covariate: Covariate
    sums: Array
    weights: Array

    @classmethod
    def of(cls, covariate: Covariate, d: int) -> _Explained:
        if isinstance(covariate, Labels):
            return cls(covariate, np.zeros((covariate.size, d)), 1 / covariate.counts)
        numbers = np.asarray(covariate, dtype=np.float64).reshape(-1)
        if not np.isfinite(numbers).all():
            raise DataError(
                f"covariate: expected finite numbers, got {int((~np.isfinite(numbers)).sum())} that are not."
            )
        centred = numbers - numbers.mean()
        spread = float(centred @ centred)
        return cls(centred, np.zeros((1, d)), np.array([1 / spread if spread > 0 else 0.0]))

    def add(self, values: Array, rows: slice) -> None:
        if isinstance(self.covariate, Labels):
            np.add.at(self.sums, self.covariate.codes[rows], values)
        else:
            self.sums += self.covariate[rows] @ values

    def energy(self, axes: Array) -> Array:
        return np.asarray(self.weights @ (self.sums @ axes) ** 2)


@dataclass(frozen=True)
class RegressionComparison:
    """PCR `before` and `after` a correction. `score`: the share that is gone, 0 (none, or more than before) to 1."""

    before: float
    after: float
    score: float

    @property
    def change(self) -> float:
        """After less before: negative where the covariate explains less."""
        return self.after - self.before


def pcr_comparison(
    before: Any, after: Any, covariate: Covariate, *, components: int | None = None
) -> RegressionComparison:
    """How much less of the variance a covariate explains after a correction.

    Implements `scib_metrics.pcr_comparison` 0.5.10 (`score` is its scaled value, cut at 0 as there; `change` the other).
    NaN where the covariate explained nothing to begin with.
    """
    first = pcr(before, covariate, components=components).score
    second = pcr(after, covariate, components=components).score
    return RegressionComparison(first, second, max(0.0, (first - second) / first) if first > 0 else float("nan"))
