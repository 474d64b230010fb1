r"""One operator that counts the factors of a noisy Jacobian, in three forms; its leak, and the subspaces.

Ours, with proof. Let u_r be the rows after whitening (Σ u uᵀ = I) and, on symmetric matrices,

    T(X) = Σ_r u_r (u_rᵀ X u_r) u_rᵀ / |u_r|².

By Cauchy and Schwarz (u_rᵀ X u_r)² ≤ |u_r|² |X u_r|², so ⟨X, T X⟩ ≤ Σ_r |X u_r|² = tr(X² Σ u uᵀ) = |X|², with equality if and
only if every u_r is an eigenvector of X. Such X are constant on each connected component of the rows (`exact`) and nothing else, so
the eigenvalue 1 has multiplicity K, the number of factors. leak_k = 1 - λ_k is how far the rows are from having k factors: 0 up
to K without noise, 1 - 2 / (d + 2) from 2 on for rows in all directions alike. T has the nonzero spectrum of the matrix
(u_rᵀ u_s)² / (|u_r| |u_s|) of rows by rows, which is the squared hat matrix, normalised; the smaller of the two is decomposed.

Forms: *rows* as above (one mixing of the latents at all points; the outputs of a factor may change from point to point); *outputs*,
with G_a = Σ_i u_ia u_iaᵀ in place of u uᵀ, T(X) = Σ_a G_a ⟨G_a, X⟩ / tr G_a (every output has one owner; the strongest against
noise); *local*, Σ_i H_i ∘ H_i of outputs by outputs with H_i the hat matrix of point i (one owner, any mixing of the latents).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from identifiable.mechanistic.exact import RANK, Indices
from identifiable.mechanistic.sampling import operator_size
from identifiable.moments import Array

AT_ONCE = 2**22  # numbers of a part of the operator's rows
STEPS = 100  # of moving rows between factors, at most
MOST = 0.5  # the leverage that no output exceeds: half of a latent direction, because one output alone says nothing about it
LEAST_STEP = 0.01  # of a weight, squared
WEIGHING = 30  # steps to the weights; a fixed number, so that rounding cannot change it


@dataclass(frozen=True, eq=False)
class Frame:
    """Weighted rows that are white, each ``g @ to_white`` up to its weight; latents ``t = z @ from_white``; what moves nothing."""

    white: Array
    to_white: Array
    from_white: Array
    null_space: Array

    @property
    def rank(self) -> int:
        return int(self.white.shape[1])

    def shortened(self) -> Frame:
        """The same rows, the longest of them cut to one length: the largest at which those cut hold half of what is left.

        Ours. The direction of a row says what moves it, its length only how precisely; where a few rows hold all leverage, as with heavy
        tails, they would decide alone. Half is the share of outliers that an estimate can bear at most. Rows that are noise alone
        hold little leverage and stay short, which they would not if all rows got one length. Cut once, not until it holds: a factor
        with few rows has long ones, and would be cut below the noise of the others.
        """
        leverage = (self.white**2).sum(axis=1)
        longest = np.sort(leverage[leverage > 0])[::-1]
        at = np.maximum(longest.sum() - np.cumsum(longest), 0) / np.arange(1, len(longest) + 1)
        k = int(np.argmax(at <= longest))
        cut = max(float(at[k]), float(longest[min(k + 1, len(longest) - 1)]))
        rows = self.white * np.sqrt(np.divide(cut, leverage, out=np.ones_like(leverage), where=leverage > cut))[:, None]
        values, vectors = np.linalg.eigh(rows.T @ rows)
        turn = vectors / np.sqrt(values)
        return replace(
            self, white=rows @ turn, to_white=self.to_white @ turn, from_white=self.from_white @ np.linalg.inv(turn).T
        )


@dataclass(frozen=True, eq=False)
class Spectrum:
    """leak_1 to leak_{rank + 1}, and for every node its position: the Rayleigh quotients of the leading eigenvectors of T.

    Nodes of one factor have one position, and the K positions span a simplex. `sizes` are the traces of the nodes.
    """

    leak: Array
    positions: Array
    sizes: Array


def whitened(values: Array, eps: float, nodes: Indices | None = None, most: float = MOST) -> Frame:
    r"""Rows with bounded leverage, white together; `nodes` are their outputs, or each row is one of its own.

    Ours, from a known part: outputs get weights of at most 1 such that none has a leverage above `most` (the coherence-reducing weights
    of Cohen et al. 2015, who show that they exist and that few differ from 1). Without them d outputs of a large scale can hold all
    leverage, and d rows always split. A factor with two outputs or more for each dimension keeps its weights. One with fewer is,
    in another basis, the same as a few strong outputs of a larger factor; it is found only if it is exact up to rounding.

    This is a bound, no normalisation. Noise is taken to have one size on all outputs: weak outputs stay weak, since they may be noise
    alone (the background of a picture). Dividing each output by its rms, for noise relative to outputs, would make the answer depend
    on the basis of the latents, in which rows have their lengths. The weights and the factors do not depend on it.
    """
    left, sizes, right = np.linalg.svd(values, full_matrices=False)
    rank = max(1, int((sizes > RANK * eps * values.shape[1] * sizes[0]).sum()))
    complete = np.linalg.svd(right[:rank], full_matrices=True)[2] if rank < values.shape[1] else right
    axes = right[:rank].T
    white, turn = _bounded(left[:, :rank], np.arange(len(values)) if nodes is None else nodes, most)
    back = np.linalg.inv(turn).T
    return Frame(white, axes / sizes[:rank] @ turn, axes * sizes[:rank] @ back, complete[rank:].T)


def _bounded(rows: Array, nodes: Indices, most: float) -> tuple[Array, Array]:
    """White rows with the weights of `whitened`, and the change of frame."""
    rank = rows.shape[1]
    few = most * np.count_nonzero(np.bincount(nodes, (rows**2).sum(axis=1))) <= rank
    weights, turn, white = np.ones(int(nodes.max()) + 1), np.eye(rank), rows
    for _ in range(0 if few else WEIGHING):
        leverage = np.clip(np.bincount(nodes, (white**2).sum(axis=1)), 1e-12, None)
        alone = most * np.maximum(1 - leverage, 0) / ((1 - most) * leverage)  # what it takes if no other weight changes
        weights = np.minimum(1, weights * np.sqrt(np.clip(alone, LEAST_STEP, 1 / LEAST_STEP)))
        white = rows @ turn * np.sqrt(weights[nodes])[:, None]
        values, vectors = np.linalg.eigh(white.T @ white)
        turn = turn @ (vectors / np.sqrt(values))
        white = white @ (vectors / np.sqrt(values))
    return white, turn


def spectrum(white: Array, nodes: Indices | None = None) -> Spectrum:
    """Leading eigenvalues of T: of rows, or of `nodes` (a number from 0 for every row, none left out)."""
    from scipy.linalg import eigh

    rank = white.shape[1]
    order = np.arange(len(white)) if nodes is None else np.argsort(nodes, kind="stable")
    count = len(white) if nodes is None else int(nodes.max()) + 1
    sizes = np.asarray(np.bincount(order if nodes is None else nodes, (white**2).sum(axis=1), count), np.float64)
    wanted = rank + 1
    if operator_size(rank) <= count:
        size = operator_size(rank)
        T = np.zeros((size, size))
        for psi in _vectors(white, nodes, order, sizes):
            T += psi.T @ psi
        values, vectors = eigh(T, subset_by_index=(max(0, size - wanted), size - 1))
        projected = [psi @ vectors for psi in _vectors(white, nodes, order, sizes)]
        positions = np.concatenate(projected)
    else:
        if nodes is None:
            T = (white @ white.T) ** 2 * np.outer(_inverse_root(sizes), _inverse_root(sizes))
        else:
            psi = np.concatenate(list(_vectors(white, nodes, order, sizes)))
            T = psi @ psi.T
        values, vectors = eigh(T, subset_by_index=(max(0, count - wanted), count - 1))
        positions = vectors * np.sqrt(np.maximum(values, 0))
    return _spectrum(values, positions, sizes, wanted)


def local_spectrum(whites: list[Array]) -> Spectrum:
    """The same for outputs whose owner is fixed, whatever the mixing: `whites` are the whitened rows of all outputs at each point."""
    from scipy.linalg import eigh

    count = len(whites[0])
    A = np.zeros((count, count))
    for white in whites:
        A += (white @ white.T) ** 2
    sizes = A.sum(axis=1)
    wanted = min(max(white.shape[1] for white in whites) + 1, count)
    A *= np.outer(_inverse_root(sizes), _inverse_root(sizes))
    values, vectors = eigh(A, subset_by_index=(count - wanted, count - 1))
    return _spectrum(values, vectors * np.sqrt(np.maximum(values, 0)), sizes, wanted)


def _spectrum(values: Array, positions: Array, sizes: Array, wanted: int) -> Spectrum:
    leak = np.ones(wanted)
    leak[: len(values)] = np.clip(1 - values[::-1], 0, 1)
    leak[0] = 0
    return Spectrum(leak, positions[:, ::-1] * _inverse_root(sizes)[:, None], sizes)


def _inverse_root(sizes: Array) -> Array:
    """1 / √size, and 0 for a node that has none: it is in no factor."""
    return np.divide(1, np.sqrt(sizes), out=np.zeros_like(sizes), where=sizes > 0)


def _vectors(white: Array, nodes: Indices | None, order: Indices, sizes: Array) -> Iterator[Array]:
    """G_a / √tr G_a as vectors whose inner products are those of matrices, a part of the nodes at a time, in their order."""
    first, second = np.triu_indices(white.shape[1])
    scale = np.where(first == second, 1.0, math.sqrt(2))
    starts = np.arange(len(white)) if nodes is None else np.searchsorted(nodes[order], np.arange(len(sizes)))
    step = max(1, AT_ONCE // len(first) * len(sizes) // len(white))
    for a in range(0, len(sizes), step):
        b = min(a + step, len(sizes))
        rows = white[order[starts[a] : starts[b] if b < len(sizes) else None]]
        products = rows[:, first] * rows[:, second] * scale
        if nodes is not None:
            products = np.add.reduceat(products, starts[a:b] - starts[a])
        yield products * _inverse_root(sizes[a:b])[:, None]


# -- subspaces


@dataclass(frozen=True, eq=False)
class Split:
    """Owners of the rows, and an orthogonal basis of the whitened space whose first columns are factor 0's, and so on."""

    owners: Indices
    axes: Array
    dimensions: tuple[int, ...]

    @property
    def parts(self) -> tuple[Array, ...]:
        ends = np.cumsum(self.dimensions)
        return tuple(self.axes[:, b - k : b] for k, b in zip(self.dimensions, ends, strict=True))


def split(white: Array, found: Spectrum, n_factors: int, nodes: Indices | None = None) -> Split:
    """Owners by the positions of the nodes, then K subspaces: rows go to the subspace that holds most of them, and back."""
    owners = nearest_vertex(found, n_factors)
    groups = np.arange(len(white)) if nodes is None else nodes
    axes, dimensions = subspaces(white, owners[groups], n_factors)
    for _ in range(STEPS if n_factors > 1 else 0):
        ends = np.cumsum(dimensions)[:-1]
        energy = np.stack([part.sum(axis=1) for part in np.split((white @ axes) ** 2, ends, axis=1)], axis=1)
        if nodes is not None:
            energy = np.stack([np.bincount(nodes, column, len(owners)) for column in energy.T], axis=1)
        again = energy.argmax(axis=1)
        if np.array_equal(again, owners) or len(np.unique(again)) < n_factors:
            break
        owners = again
        axes, dimensions = subspaces(white, owners[groups], n_factors)
    return Split(owners, axes, dimensions)


def nearest_vertex(found: Spectrum, K: int) -> Indices:
    """The vertex of the simplex that each node is at: those farthest apart to start with, then means weighted by size.

    The smallest nodes, up to half of one latent direction together, are no start: every factor has a direction or more.
    """
    from scipy.linalg import qr

    positions, sizes = found.positions[:, :K], found.sizes
    order = np.argsort(sizes, kind="stable")
    small = int((np.cumsum(sizes[order]) < sizes.sum() / (2 * (len(found.leak) - 1))).sum())
    large = np.sort(order[min(small, len(order) - K) :])
    centres = positions[large[qr(positions[large].T, mode="r", pivoting=True)[1][:K]]]
    owners = np.zeros(len(positions), dtype=np.intp)
    for _ in range(STEPS):
        distances = (positions**2).sum(axis=1)[:, None] - 2 * positions @ centres.T + (centres**2).sum(axis=1)
        again = distances.argmin(axis=1)
        if np.array_equal(again, owners):
            break
        owners = again
        for k in range(K):
            if (mine := owners == k).any():
                centres[k] = np.average(positions[mine], axis=0, weights=sizes[mine])
    return owners


def subspaces(white: Array, owners: Indices, K: int) -> tuple[Array, tuple[int, ...]]:
    """The leading directions of each owner's rows, as many in all as there are; made orthogonal together."""
    rank = white.shape[1]
    pairs = [np.linalg.eigh(white[owners == k].T @ white[owners == k]) for k in range(K)]
    shares = np.concatenate([values for values, _ in pairs])
    shares[rank - 1 :: rank] += 2  # every factor has a dimension
    chosen = np.sort(np.argsort(shares)[-rank:])
    dimensions = tuple(int(((chosen >= k * rank) & (chosen < (k + 1) * rank)).sum()) for k in range(K))
    axes = np.concatenate(
        [vectors[:, rank - size :] for (_, vectors), size in zip(pairs, dimensions, strict=True)], axis=1
    )
    left, _, right = np.linalg.svd(axes)
    return left @ right, dimensions
