"""Stability: refits on halves of the rows, each from a start of its own.

Ours, after ICASSO (Himberg and Hyvärinen 2003). Halves come in pairs without a row in common, so no component
can look stable because of rows both refits have seen; a refit on half the rows varies as a bootstrap refit does,
at half its cost. Whitening, search and polish are all done again.
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
    """One refit in its own canonical form."""

    to_components: AffineMap
    contrast: float
    passes: float
    converged: bool


@dataclass(frozen=True, eq=False)
class Stability:
    """Of every component: mean and least |correlation| between its partners in disjoint refits, and whether signs agree."""

    mean: Array
    least: Array
    sign_kept: NDArray[np.bool_]
    refits: int


def stability(fitted: AffineMap, refits: list[Refit], covariance: Array) -> Stability:
    """How alike the partners of every component are in refits on disjoint halves: refits 0 and 1, 2 and 3, ..."""
    partners = []
    signed = []
    for refit in refits:
        r = correlations(fitted, refit.to_components, covariance)
        partner = match_correlations(r)[0]
        partners.append(partner)
        signed.append(np.where(partner >= 0, r[np.arange(len(r)), partner], 0.0))
    sizes = []
    for a, b in zip(range(0, len(refits), 2), range(1, len(refits), 2), strict=True):
        between = np.abs(correlations(refits[a].to_components, refits[b].to_components, covariance))
        both = (partners[a] >= 0) & (partners[b] >= 0)
        sizes.append(np.where(both, between[partners[a], partners[b]], 0.0))
    found, signs = np.array(sizes), np.array(signed)
    kept = ((signs > 0) | (np.abs(signs) < 0.5)).all(axis=0)  # a partner as poor as that has no sign to keep
    return Stability(found.mean(axis=0), found.min(axis=0), kept, len(refits))
