"""Whitening and ICA: turn "the same up to a linear map" into "the same up to order and sign".

Until the streaming solver of this project lands, scikit-learn's FastICA does the unmixing, in memory and on
at most `MAX_ROWS` rows. The whitening is ours: from float64 moments and aware of the rank.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import Blocks, one_blas_thread
from identifiable.groups import AffineMap, WhiteBasis, match_columns
from identifiable.moments import Array, Moments

MAX_ROWS = 50_000  # rows FastICA is given at most: about a minute at 384 dimensions on one core
MAX_ITERATIONS = 200  # scikit-learn's default, written down because "converged" is judged by it


@dataclass(frozen=True, eq=False)
class Unmixing:
    """One representation resolved by itself: `to_components` maps rows to unit-variance components.

    `rank` directions carried variance and were kept; `rows` were used; `converged` says whether the
    solver met its tolerance within its iterations.
    """

    to_components: AffineMap
    from_components: AffineMap
    rank: int
    converged: bool
    iterations: int
    rows: int


def whiten(moments: Moments) -> tuple[Array, Array]:
    """`(matrix, back)`: ``(x - mean) @ matrix`` has identity covariance; `back` returns to x. Null directions are dropped."""
    white = WhiteBasis.of(moments)
    matrix: Array = white.basis * np.sqrt(max(moments.n, 1))
    back: Array = matrix.T @ moments.scatter / max(moments.n, 1)
    return matrix, back


def unmix(blocks: Blocks, moments: Moments, sample: NDArray[np.intp], *, seed: int) -> Unmixing:
    """Whitening and FastICA (logcosh, symmetric), fitted to the rows `sample` of one representation.

    Implements the ICA step of A.7.2: all components that have variance, no use of the other side.
    """
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    matrix, back = whiten(moments)
    rows = blocks[np.sort(sample)] if len(sample) < blocks.n else blocks[:]
    dtype = np.float32 if rows.dtype.itemsize <= 4 and rows.dtype.kind == "f" else np.float64
    white = ((rows - moments.mean) @ matrix).astype(dtype)
    solver = FastICA(whiten=False, max_iter=MAX_ITERATIONS, random_state=seed)
    with one_blas_thread(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solver.fit(white)
    converged = not any(issubclass(w.category, ConvergenceWarning) for w in caught)
    left, _, right = np.linalg.svd(np.asarray(solver.components_, dtype=np.float64))
    rotation = (left @ right).T  # exactly orthogonal, whatever the solver's precision
    to_components = AffineMap.about(matrix @ rotation, moments.mean, np.zeros(rotation.shape[1]))
    from_components = AffineMap(rotation.T @ back, moments.mean)
    return Unmixing(to_components, from_components, matrix.shape[1], converged, int(solver.n_iter_), len(rows))


def matched_matrices(source: Unmixing, target: Unmixing, cross: Array) -> tuple[Array, Array]:
    """Linear parts of the maps source to target and back through matched components.

    Reconstructed from A.7.2 ("error in the model's representation space"): unmix the source, match by
    signed Hungarian on |correlation|, mix with the target. `cross` is the centred cross-scatter of the
    rows the matching may see.
    """
    unmix_x, unmix_y = source.to_components.matrix, target.to_components.matrix
    components = unmix_x.T @ cross @ unmix_y
    permutation = permutation_matrix(components)
    forward: Array = unmix_x @ permutation @ target.from_components.matrix
    backward: Array = unmix_y @ permutation.T @ source.from_components.matrix
    return forward, backward


def permutation_matrix(correlation: NDArray[Any]) -> Array:
    """Signed partial permutation that matches rows to columns of a correlation matrix by Hungarian on |r|."""
    tall = correlation.shape[0] > correlation.shape[1]
    order, signs = match_columns(correlation.T if tall else correlation)
    matrix = np.zeros(correlation.T.shape if tall else correlation.shape)
    matrix[np.arange(len(order)), order] = signs
    return matrix.T if tall else matrix
