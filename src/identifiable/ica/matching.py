"""Matching components of two fits: signed Hungarian on |correlation|, with p-values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, PairingError, UsageError, as_array, check_numeric
from identifiable.groups import AffineMap, permutation_matrix
from identifiable.moments import Array


@dataclass(frozen=True, eq=False)
class Matching:
    """Partner of every column of A among the columns of B (-1 for none), with sign, correlation and p-value.

    `p` is against row permutations of B: the share of draws in which the best |correlation| anywhere in the
    table reaches this one, so it allows for the search over all partners.
    """

    partner: NDArray[np.intp]
    sign: Array
    correlation: Array
    p: Array
    draws: int


def match_components(
    A: NDArray[Any], B: NDArray[Any], *, draws: int = 200, rng: np.random.Generator | None = None
) -> Matching:
    """Match the columns of two tables of the same rows, one to one, by |correlation|.

    Ours: signed Hungarian assignment as in A.7.2, with a permutation p-value for each match (family-wise: against
    the largest |correlation| of the whole shuffled table).

    >>> rng = np.random.default_rng(0)
    >>> A = rng.laplace(size=(500, 3))
    >>> found = match_components(A, A[:, [2, 0, 1]] * [1, -1, 1], rng=rng)
    >>> found.partner, found.sign
    (array([1, 2, 0]), array([-1.,  1.,  1.]))
    """
    A, B = _as_table(A, "A"), _as_table(B, "B")
    if len(A) != len(B):
        raise PairingError(f"match_components needs two tables of the same rows, got shapes {A.shape} and {B.shape}.")
    if not isinstance(draws, (int, np.integer)) or isinstance(draws, bool) or draws < 0:
        raise UsageError(f"draws: expected a whole number of at least 0, got {draws!r}.")
    rng = rng or np.random.default_rng(0)
    A, B = _standardised(A), _standardised(B)
    observed = A.T @ B
    best = np.array([np.abs(A.T @ B[rng.permutation(len(B))]).max() for _ in range(draws)])
    partner, sign, correlation = _matched(observed)
    reached = (best[:, None] >= correlation - 1e-12).sum(axis=0)
    return Matching(partner, sign, correlation, (1 + reached) / (1 + draws), draws)


def match_correlations(correlation: Array) -> tuple[NDArray[np.intp], Array]:
    """Partner of every row among the columns (-1 for none) and the |correlation| of the match."""
    partner, _, size = _matched(correlation)
    return partner, size


def correlations(first: AffineMap, second: AffineMap, covariance: Array) -> Array:
    """Correlations between the components of two unmixings of data with this covariance, without a pass."""
    cross = first.matrix.T @ covariance @ second.matrix
    spreads = [np.sqrt(np.einsum("ij,ij->j", m.matrix, covariance @ m.matrix)) for m in (first, second)]
    result: Array = cross / np.outer(*spreads)
    return result


def matched_matrices(
    source: tuple[AffineMap, AffineMap], target: tuple[AffineMap, AffineMap], cross: Array
) -> tuple[Array, Array]:
    """Linear parts of the maps source to target and back through matched components.

    Reconstructed from A.7.2 ("error in the model's representation space"): unmix the source, match by
    signed Hungarian on |correlation|, mix with the target. Each side is given by its maps to and from components;
    `cross` is the centred cross-scatter of the rows the matching may see.
    """
    (to_x, from_x), (to_y, from_y) = source, target
    permutation = permutation_matrix(to_x.matrix.T @ cross @ to_y.matrix)
    forward: Array = to_x.matrix @ permutation @ from_y.matrix
    backward: Array = to_y.matrix @ permutation.T @ from_x.matrix
    return forward, backward


def _matched(correlation: Array) -> tuple[NDArray[np.intp], Array, Array]:
    permutation = permutation_matrix(correlation)
    has = permutation.any(axis=1)
    partner = np.where(has, np.argmax(np.abs(permutation), axis=1), -1)
    picked = (permutation * correlation).sum(axis=1)  # the sign makes it an absolute value
    return partner, np.where(has, permutation.sum(axis=1), 1.0), np.where(has, np.abs(picked), 0.0)


def _as_table(X: Any, name: str) -> Array:
    X = as_array(X, name)
    check_numeric(X.dtype, name)
    if X.ndim != 2 or X.shape[1] < 1:
        raise DataError(f"{name}: expected a table of real numbers (rows, columns), got {X.dtype} of shape {X.shape}.")
    if len(X) < 3 or not np.isfinite(X).all():
        raise DataError(f"{name}: expected at least three rows of finite numbers, got {len(X)} rows.")
    table: Array = X.astype(np.float64)
    return table


def _standardised(X: Array) -> Array:
    """Columns of mean zero and unit norm; a constant column, of which centring leaves only rounding, is all zero."""
    largest = np.abs(X).max(axis=0)
    X = X / np.where(largest > 0, largest, 1.0)  # so that no square overflows or vanishes
    X = X - X.mean(axis=0)
    norm = np.sqrt(np.einsum("ij,ij->j", X, X))
    result: Array = np.divide(X, norm, out=np.zeros_like(X), where=norm > 1e-14 * len(X))
    return result
