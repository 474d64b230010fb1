"""Multinomial logistic regression without penalty, as InfoE asks for it: where a given number of L-BFGS steps ends.

Regressions of InfoE often stop before they have converged, so its value is that of a path and not of an optimum. This one
takes the path that scikit-learn's `LogisticRegression` took up to 1.3, which is what the published code ran on: from zero,
the sum (not the mean) of balanced losses, scipy's L-BFGS-B with its own tolerances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from identifiable.disentanglement.codes import Array, Labels
from identifiable.disentanglement.kernels import logistic_loss

GRADIENT_TOLERANCE = 1e-4  # scikit-learn's `tol`, here of the gradient of a sum
RELATIVE_TOLERANCE = 2.220446049250313e-09  # scipy's own
ROWS = 4096  # at once, where only a score is wanted
LARGEST_LOGIT = 600.0  # exp overflows from 709 on


@dataclass(frozen=True, eq=False)
class Regression:
    """A fitted regression: weights (classes, features + 1), the intercept last. `steps` of L-BFGS were taken."""

    weights: Array
    converged: bool
    steps: int


def design(features: Array) -> Array:
    """The features with a column of ones."""
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


def regress(
    rows: Array,
    codes: Labels,
    n_classes: int,
    max_iter: int,
    *,
    gradient_tolerance: float = GRADIENT_TOLERANCE,
    relative_tolerance: float = RELATIVE_TOLERANCE,
) -> Regression:
    """Fit classes to the rows of a `design`, all classes counting alike (weights n / (classes * size))."""
    n, width = rows.shape
    weight = (n / (n_classes * np.bincount(codes, minlength=n_classes)))[codes]
    columns = np.ascontiguousarray(rows.T)
    longest = np.linalg.norm(rows, axis=1).max()

    def loss_and_gradient(flat: Array) -> tuple[float, Array]:
        weights = np.ascontiguousarray(flat.reshape(width, n_classes).T)  # in the order of scikit-learn
        gradient = np.zeros((n_classes, width))
        may_overflow = longest * np.linalg.norm(weights, axis=1).max() > LARGEST_LOGIT
        largest = LARGEST_LOGIT if may_overflow else 0.0
        total = logistic_loss(weights, columns, codes, weight, largest, gradient)
        return total, np.ascontiguousarray(gradient.T).reshape(-1)

    found = minimize(
        loss_and_gradient,
        np.zeros(n_classes * width),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "gtol": gradient_tolerance, "ftol": relative_tolerance},
    )
    weights = found.x.reshape(width, n_classes).T
    return Regression(np.ascontiguousarray(weights), bool(found.success), int(found.nit))


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
