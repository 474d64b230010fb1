"""CCA, SVCCA and linear CKA, from moments. Each is 1 for representations that are alike, 0 for unrelated ones.

Invariances (and what they are not invariant to) are declared in `INVARIANT_TO` and tested.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from identifiable._checks import DataError
from identifiable.groups import GRAM_TOLERANCE, WhiteBasis
from identifiable.moments import Array, Moments

INVARIANT_TO = {
    "cca": ("signed_permutation", "rigid", "similarity", "linear"),
    "svcca": ("signed_permutation",),
    "cka": ("signed_permutation", "rigid", "similarity"),
}
"""The groups whose members, applied to one side, leave the measure as it is. SVCCA standardises columns first."""


def canonical_correlations(
    moments: Moments, white_x: WhiteBasis | None = None, white_y: WhiteBasis | None = None
) -> Array:
    """Canonical correlations of x and y, largest first; as many as the smaller rank.

    Implements the CCA of Roeder et al. 2021: singular values of the whitened cross-covariance.
    Directions that carry only rounding are left out on either side (`WhiteBasis`, computed if not given).
    """
    x = white_x or WhiteBasis.of(moments.alone(0))
    y = white_y or WhiteBasis.of(moments.alone(1))
    if not (x.rank and y.rank):
        return np.zeros(0)
    return _singular(x.basis.T @ moments.xy @ y.basis)


def cca(moments: Moments, white_x: WhiteBasis | None = None, white_y: WhiteBasis | None = None) -> float:
    """Mean canonical correlation. Tends to 1 on noise when n is near d_x + d_y: read it beside its null.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 2))
    >>> round(cca(Moments.of(np.hstack([X, X @ [[2.0, 1.0], [0.0, 1.0]]]), widths=(2, 2))), 12)
    1.0
    """
    correlations = canonical_correlations(moments, white_x, white_y)
    return float(correlations.mean()) if correlations.size else float("nan")


def svcca(moments: Moments, k: int) -> float:
    """Mean canonical correlation of the first k principal components of each side.

    Implements the SVCCA of Roeder et al. 2021: columns are divided by their standard deviation first.
    """
    left, right = principal(moments.xx, k), principal(moments.yy, k)
    if left.shape[1] < k or right.shape[1] < k:
        raise DataError(f"svcca needs {k} directions with variance, got {left.shape[1]} and {right.shape[1]}.")
    return mean_correlation(left, moments.xy, right)


def mean_correlation(left: Array, cross: Array, right: Array) -> float:
    """Mean canonical correlation of directions in which either side is white (`principal`), from the cross-scatter."""
    return float(_singular(left.T @ cross @ right).mean())


def cka(moments: Moments) -> float:
    """Linear centred kernel alignment, |X^T Y|^2 / (|X^T X| |Y^T Y|) of centred data (Kornblith et al. 2019).

    Biased upwards when n is not much larger than d; `cka_debiased` is not.
    """
    return _ratio(float(np.sum(moments.xy**2)), float(np.sum(moments.xx**2)), float(np.sum(moments.yy**2)))


def cka_debiased(moments: Moments, squares: Array) -> float:
    """Linear CKA from the unbiased estimate of HSIC (Song et al. 2012); near 0 on unrelated data at any n/d.

    `squares` (n, 2) holds |x|^2 and |y|^2 of every centred row. May be negative.
    """
    n, xx, yy = moments.n, float(np.trace(moments.xx)), float(np.trace(moments.yy))
    if n < 4:
        return float("nan")

    fourth = squares.T @ squares
    return _ratio(
        float(hsic(n, float(np.sum(moments.xy**2)), fourth[0, 1], xx, yy)),
        float(hsic(n, float(np.sum(moments.xx**2)), fourth[0, 0], xx, xx)),
        float(hsic(n, float(np.sum(moments.yy**2)), fourth[1, 1], yy, yy)),
    )


def hsic(n: Any, product: Any, diagonal: Any, trace_x: Any, trace_y: Any) -> Any:
    """The unbiased estimate of HSIC with linear kernels, but for a factor of n: numbers, or arrays of them.

    Of centred rows: `product` is |X^T Y|^2, `diagonal` the sum of |x|^2 |y|^2, the traces the sums of |x|^2 and of |y|^2.
    """
    # With the diagonals of K and L set to zero and centred rows: 1'K1 = -trace K, 1'KL1 = diagonal.
    return product - diagonal + trace_x * trace_y / ((n - 1) * (n - 2)) - 2 * diagonal / (n - 2)


def _ratio(cross: float, left: float, right: float) -> float:
    return cross / np.sqrt(left * right) if left > 0 and right > 0 else float("nan")


def principal(scatter: Array, k: int) -> Array:
    """The k leading principal directions of standardised columns, scaled to unit scatter."""
    spread = np.sqrt(np.diag(scatter).clip(0))
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    eigenvalues, vectors = np.linalg.eigh(scatter * scale[:, None] * scale)
    leading = [i for i in np.argsort(eigenvalues)[::-1][:k] if eigenvalues[i] > GRAM_TOLERANCE**2 * eigenvalues[-1]]
    result: Array = vectors[:, leading] * scale[:, None] / np.sqrt(eigenvalues[leading])
    return result


def _singular(matrix: Array) -> Array:
    return np.linalg.svd(matrix, compute_uv=False).clip(0.0, 1.0)
