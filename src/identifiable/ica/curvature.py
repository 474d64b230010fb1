"""How the signed contrast curves as two components turn into each other, and how well that is known."""

from __future__ import annotations

import numpy as np

from identifiable.ica.passes import CurvatureMeans
from identifiable.moments import Array


def pair_curvature(bend: Array, own: Array, signs: Array) -> Array:
    """Second derivative of the signed contrast as two components turn into each other.

    s_i (E G''(y_i) y_j^2 - E G'(y_i) y_i) + the same with i and j exchanged; positive at an optimum. For independent
    components half of it is the pair formula below Theorem 2 in docs/theory.md.
    """
    half = signs[:, None] * (bend - own[:, None])
    curvature: Array = half + half.T
    return curvature


def curvature_errors(means: CurvatureMeans, signs: Array) -> Array:
    """Standard errors of `pair_curvature`, from the variance over rows of s_i (q_ij - p_i) + s_j (q_ji - p_j).

    The components having unit variance on these rows, what their squares explain of it does not vary.
    """
    both = np.outer(signs, signs)
    own = np.diag(means.products)
    # (s_i q_ij + s_j q_ji)^2, (s_i p_i + s_j p_j)^2 and twice their product
    bends = means.bend_square + means.bend_square.T + 2 * both * means.bends
    owns = own[:, None] + own + 2 * both * means.products
    mixed = means.bend_own + means.bend_own.T + both * (means.bend_other + means.bend_other.T)
    mean = pair_curvature(means.bend, means.own, signs)
    with_square = signs[:, None] * (means.bend_fourth - means.own_square)
    with_square += signs * (means.bend_same - np.diag(means.own_square)) - mean
    explained = with_square**2 / np.maximum(means.fourth - 1, 1e-12)
    variance = bends + owns - 2 * mixed - mean**2 - explained - explained.T
    errors: Array = np.sqrt(np.maximum(variance, 0.1 * np.abs(mean) ** 2) / means.n)
    return errors
