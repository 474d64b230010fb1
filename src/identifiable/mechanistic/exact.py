"""Factors of rows that are exactly sparse, up to rounding, in some basis of the latents: no noise, no threshold to tune."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.moments import Array

Indices = NDArray[np.intp]
Values = NDArray[np.floating[Any]]

ROUNDING = 8.0  # times eps and the condition of the basis rows: the size of a coefficient that may be rounding
LEAST_GAP = (
    3.0  # between logarithms: a connection is e^3 = 20 times as strong as the largest rounding (float32 had 5 and more)
)
DEAD = float(np.finfo(np.float64).eps)  # times the largest entry: a smaller row is dead
RANK = 10.0  # times eps and the number of latents: a smaller pivot, of rows of length 1, is rounding


@dataclass(frozen=True, eq=False)
class ExactSplit:
    """Connected components of the rows of a Jacobian.

    owners       the factor of each row, from 0; -1 for a dead row
    subspaces    of each factor, a basis (latents, dimension) of the latent directions that move its rows only
    null_space   an orthonormal basis (latents, lost) of the directions that move nothing; no factor contains it
    gap          logarithm of the weakest connection kept over the strongest one dropped; 0 where none is dropped
    condition    of the basis rows, each of length 1
    """

    owners: Indices
    subspaces: tuple[Array, ...]
    null_space: Array
    gap: float
    condition: float

    @property
    def n_factors(self) -> int:
        return len(self.subspaces)

    @property
    def dimensions(self) -> tuple[int, ...]:
        return tuple(basis.shape[1] for basis in self.subspaces)


def precision_of(jacobians: Values) -> float:
    """The rounding of these numbers: of their dtype, or of single precision if that would hold them all."""
    if jacobians.dtype == np.float64:
        with np.errstate(over="ignore"):
            single = np.array_equal(jacobians, jacobians.astype(np.float32))
        return float(np.finfo(np.float32 if single and _fractions(jacobians) else np.float64).eps)
    return float(np.finfo(jacobians.dtype).eps)


def _fractions(values: Values) -> bool:
    """Whether some number uses more than half of the bits of single precision: whole numbers are no sign of it."""
    return not np.array_equal(values, np.ldexp(np.rint(np.ldexp(values, 12)), -12))


def exact_factors(rows: Values, *, eps: float | None = None) -> ExactSplit:
    r"""The largest number of factors with disjoint outputs (Type D), over all bases of the latents.

    Ours (the hat-matrix claim of the specification, in the pivoted form). Rows of J, stacked over points if the latents are mixed by
    one matrix, are a linear matroid; its connected components are the factors, each irreducible in the sense of Brady et al. 2023
    (rank J_S1 + rank J_S2 > rank J_S for every split S1, S2 of its rows). Pivoted QR picks d rows B that span the others; with
    C = J J_B^-1, rows r and B_j are connected where C_rj is not 0. That is the graph of H = J J^+ (Costeira and Kanade 1998 call H
    the shape interaction matrix), at the cost of m d^2 instead of m^2 d.

    What is 0 is decided on the maximum spanning tree of |C| alone, because nothing else matters for connectivity: the largest gap
    between logarithms of its weights whose lower end may be rounding (`ROUNDING`), if it is at least `LEAST_GAP`. Rows have length
    1 first, so the scale of an output changes nothing. A factor with as many rows as dimensions splits into single latents: those
    rows are consistent with any split. More points prevent it.

    >>> J = np.array([[1.0, 2, 0], [3, 1, 0], [1, 1, 0], [0, 0, 5]])
    >>> A = np.array([[1.0, 1, 1], [0, 1, 1], [1, 0, 1]])
    >>> found = exact_factors(J @ A)
    >>> found.owners.tolist(), found.dimensions
    ([0, 0, 0, 1], (2, 1))
    """
    from scipy.linalg import qr
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

    G = np.asarray(rows, dtype=np.float64)
    precision = precision_of(rows) if eps is None else eps
    d = G.shape[1]
    largest = np.abs(G).max(axis=1, initial=0.0)
    live = np.flatnonzero(largest > DEAD * largest.max(initial=0.0))
    if not len(live):
        raise DataError("Jacobians: expected at least one derivative that is not zero, got only zeros.")
    unit = G[live] / largest[live, None]
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    triangle, order = qr(unit.T, mode="r", pivoting=True, check_finite=False)
    pivots = np.abs(np.diagonal(triangle))
    rank = int((pivots > RANK * precision * d * pivots[0]).sum())
    basis = unit[order[:rank]]
    left, sizes, right = np.linalg.svd(basis, full_matrices=True)
    inverse = right[:rank].T / sizes @ left.T
    weights = np.abs(unit @ inverse)
    condition = float(sizes[0] / sizes[-1])

    links = _bottlenecks(weights)
    tree = minimum_spanning_tree(np.where(links > 0, 1 / np.maximum(links, 1e-300), 0))
    kept, gap = _kept(1 / tree.data, rank, ROUNDING * precision * condition)
    tree.data[1 / tree.data < kept] = 0
    tree.eliminate_zeros()
    n_factors, component = connected_components(tree, directed=False)
    owners = np.full(len(G), -1)
    owners[live] = component[weights.argmax(axis=1)]
    relabel, owners = _in_order(owners, n_factors)
    groups = [np.flatnonzero(component == k) for k in relabel]
    return ExactSplit(owners, tuple(inverse[:, group] for group in groups), right[rank:].T, gap, condition)


def _bottlenecks(weights: Array) -> Array:
    """For two basis rows j, k: max over rows r of min(|C_rj|, |C_rk|), how strongly some row connects them."""
    rank = weights.shape[1]
    links = np.zeros((rank, rank))
    for j in range(rank):
        for part in np.array_split(weights, max(1, weights.size // 2**21)):
            links[j] = np.maximum(links[j], np.minimum(part[:, j : j + 1], part).max(axis=0, initial=0.0))
    np.fill_diagonal(links, 0)
    return links


def _kept(tree: Array, rank: int, rounding: float) -> tuple[float, float]:
    """The weakest connection that is kept, and the gap below it: none, and 0, where nothing can be dropped."""
    absent = np.zeros(rank - 1 - len(tree))  # pairs that no row connects at all
    steps = np.sort(np.concatenate([absent, tree, [1.0]]))  # a row is connected with itself at 1
    logs = np.log(np.maximum(steps, np.finfo(np.float64).tiny))
    may = steps[:-1] <= rounding
    if not may.any():
        return 0.0, 0.0
    gaps = np.where(may, np.diff(logs), -math.inf)
    best = int(np.argmax(gaps))
    return (float(steps[best + 1]), float(gaps[best])) if gaps[best] >= LEAST_GAP else (0.0, 0.0)


def _in_order(owners: Indices, n_factors: int) -> tuple[Indices, Indices]:
    """Factors in the order of their first row, and the owners under their new numbers."""
    first = np.array([int(np.argmax(owners == k)) for k in range(n_factors)])
    relabel = np.argsort(first, kind="stable")
    place = np.empty(n_factors, dtype=np.intp)
    place[relabel] = np.arange(n_factors)
    return relabel, np.where(owners >= 0, place[owners], -1)
