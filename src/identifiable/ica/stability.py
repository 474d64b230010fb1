"""Stability: refits on halves of the rows, each from a start of its own.

Ours, after ICASSO (Himberg and Hyvärinen 2003). Halves come in pairs without a row in common, so no component
can look stable because of rows both refits have seen; a refit on half the rows varies as a bootstrap refit does,
at half its cost. Whitening and polish are done again, and the search, or what takes its place on large tables (`refits.shaken`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identifiable.groups import AffineMap
from identifiable.ica.matching import correlations, match_correlations
from identifiable.moments import Array


@dataclass(frozen=True, eq=False)
class Refit:
    """One refit in its own canonical form; `curvature` of its pairs and its errors are of the rows of the other half, if measured."""

    to_components: AffineMap
    curvature: tuple[Array, Array] | None
    passes: float
    converged: bool


@dataclass(frozen=True, eq=False)
class Stability:
    """Of every component: how alike it and its partners in two disjoint refits are, on average and at worst.

    For each pair of refits the smallest of three |correlations| counts: fit and either refit, and the two refits.
    `margin` is the smallest curvature with another component on rows the refits had not seen, in standard errors;
    `flattest` the component it is with.
    """

    mean: Array
    least: Array
    sign_kept: NDArray[np.bool_]
    margin: Array
    flattest: NDArray[np.intp]
    refits: int


def stability(fitted: AffineMap, refits: list[Refit], covariance: Array) -> Stability:
    """The stability index over refits on disjoint halves: refits 0 and 1, 2 and 3, ..."""
    d = fitted.matrix.shape[1]
    partners = []
    signed = []
    for refit in refits:
        r = correlations(fitted, refit.to_components, covariance)
        partner = match_correlations(r)[0]
        partners.append(partner)
        signed.append(np.where(partner >= 0, r[np.arange(d), partner], 0.0))
    sizes = []
    for a, b in zip(range(0, len(refits), 2), range(1, len(refits), 2), strict=True):
        between = np.abs(correlations(refits[a].to_components, refits[b].to_components, covariance))
        both = (partners[a] >= 0) & (partners[b] >= 0)
        halves = np.where(both, between[partners[a], partners[b]], 0.0)
        sizes.append(np.minimum(halves, np.minimum(np.abs(signed[a]), np.abs(signed[b]))))
    found, signs = np.array(sizes), np.array(signed)
    kept: NDArray[np.bool_] = np.asarray(np.all(signs > 0, axis=0))
    margin, flattest = _margins(partners, refits, d)
    return Stability(found.mean(axis=0), found.min(axis=0), kept, margin, flattest, len(refits))


def _margins(partners: list[NDArray[np.intp]], refits: list[Refit], d: int) -> tuple[Array, NDArray[np.intp]]:
    """Smallest curvature of every component on unseen rows, in standard errors; and with which other.

    At an optimum chosen on the same rows curvature is positive by selection, even where the distribution has none to
    offer (a sphere, a multivariate t); on other rows it is not. Two refits see all rows between them, further ones the
    same rows again, so averaging over all of them is counted as two.
    """
    total, variance = np.zeros((d, d)), np.zeros((d, d))
    measured = [(p, r.curvature) for p, r in zip(partners, refits, strict=True) if r.curvature is not None]
    for partner, (curvature, error) in measured:
        has = np.flatnonzero(partner >= 0)
        here, there = np.ix_(has, has), np.ix_(partner[has], partner[has])
        total[here] += curvature[there]
        variance[here] += error[there] ** 2
    z = total / np.sqrt(len(measured) * np.maximum(variance, 1e-24) / 2)
    np.fill_diagonal(z, np.inf)
    return z.min(axis=1), z.argmin(axis=1)
