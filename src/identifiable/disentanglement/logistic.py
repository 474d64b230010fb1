"""Multinomial logistic regression without penalty, as InfoE asks for it: where a given number of L-BFGS steps ends.

Regressions of InfoE often stop before they have converged, so its value is that of a path and not of an optimum. This one
takes the path that scikit-learn's `LogisticRegression` took up to 1.3, which is what the published code ran on: from zero,
the sum (not the mean) of balanced losses, the steps and tolerances of scipy's L-BFGS-B (`kernels.descend`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.disentanglement.codes import Array, Labels
from identifiable.disentanglement.kernels import AT_ONCE, CONVERGED, GOES_ON, TAKEN, descend, start

GRADIENT_TOLERANCE = 1e-4  # scikit-learn's `tol`, here of the gradient of a sum
RELATIVE_TOLERANCE = 2.220446049250313e-09  # scipy's own
ROWS = 4096  # at once, where only a score is wanted
STEPS_AT_ONCE = 10
PRODUCTS_AT_ONCE = 10**9  # about a second


@dataclass(frozen=True, eq=False)
class Regression:
    """A fitted regression: weights (classes, features + 1), the intercept last. `steps` of L-BFGS were taken."""

    weights: Array
    converged: bool
    steps: int


def design(features: Array) -> Array:
    """The features with a column of ones."""
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


@dataclass(frozen=True, eq=False)
class Regressors:
    """Rows of a `design` as `logistic_loss` takes them, made once for all that is regressed on them."""

    rows: Array
    blocks: Array  # a few rows at a time, each feature of theirs in one piece; filled up with zeros
    longest: float

    @classmethod
    def of(cls, rows: Array) -> Regressors:
        n, width = rows.shape
        whole = np.zeros((-(-n // AT_ONCE) * AT_ONCE, -(-width // 4) * 4))
        whole[:n, :width] = rows
        blocks = np.ascontiguousarray(whole.reshape(-1, AT_ONCE, whole.shape[1]).transpose(0, 2, 1))
        return cls(rows, blocks, float(np.linalg.norm(rows, axis=1).max()))

    def filled(self, values: NDArray[Any]) -> NDArray[Any]:
        """A value for each row, and 0 for the rows that fill the last block."""
        return np.concatenate([values, np.zeros(len(self.blocks) * AT_ONCE - len(values), values.dtype)])


def regress(
    of: Regressors,
    codes: Labels,
    n_classes: int,
    max_iter: int,
    *,
    gradient_tolerance: float = GRADIENT_TOLERANCE,
    relative_tolerance: float = RELATIVE_TOLERANCE,
) -> Regression:
    """Fit classes to the rows of a `design`, all classes counting alike (weights n / (classes * size))."""
    n, width = of.rows.shape
    label = of.filled(codes)
    importance = of.filled((n / (n_classes * np.bincount(codes, minlength=n_classes)))[codes])
    problem = n_classes, of.blocks, of.longest, label, importance
    state = start(width, *problem)
    # Compiled code does not hear Ctrl-C, so it is left now and then.
    at_once = min(STEPS_AT_ONCE, max(1, PRODUCTS_AT_ONCE // (2 * of.blocks.size * n_classes)))
    ended = GOES_ON
    while ended == GOES_ON:
        ended = descend(at_once, max_iter, state, *problem, gradient_tolerance, relative_tolerance)
    weights = state[0].reshape(width, n_classes).T  # in the order of scikit-learn
    return Regression(np.ascontiguousarray(weights), ended == CONVERGED, int(state[-1][TAKEN]))


def cross_entropy(fitted: Regression, rows: Array, codes: Labels) -> float:
    """Mean of -log p(class) over rows, unweighted."""
    total = 0.0
    for a in range(0, len(rows), ROWS):
        logits = rows[a : a + ROWS] @ fitted.weights.T
        logits -= logits.max(axis=1, keepdims=True)
        own = np.take_along_axis(logits, codes[a : a + ROWS, None], axis=1)[:, 0]
        # scikit-learn's log_loss clips probabilities at the spacing of numbers at 1, which bounds a single loss at 36.
        log_p = own - np.log(np.exp(logits).sum(axis=1))
        total -= float(np.maximum(log_p, np.log(np.finfo(np.float64).eps)).sum())
    return total / len(rows)
