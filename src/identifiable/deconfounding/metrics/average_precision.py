"""Average precision of replicates among others: how far ahead they rank, ties as in random order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from identifiable.deconfounding.design import Codes
from identifiable.deconfounding.metrics.matrices import Array

TIE = 1e-12  # cosines nearer than this are equal: the order of summation moves them by about 1e-16 per product


@dataclass(frozen=True)
class Negatives:
    """The cosines a row's replicates have to beat: sorted candidates, less those of its own perturbation (sorted too)."""

    candidates: Array
    own: Array

    @property
    def negatives(self) -> int:
        return len(self.candidates) - len(self.own)

    def at_least(self, cosines: Array) -> Codes:
        def count(values: Array) -> Codes:
            return np.asarray(len(values) - np.searchsorted(values, cosines, side="left"))

        return count(self.candidates) - count(self.own)

    def average_precision(self, positives: Array) -> float:
        if self.negatives == 0:
            return float("nan")
        ranked = np.sort(positives)[::-1]
        above, level = self.at_least(ranked + TIE), self.at_least(ranked - TIE)
        k = np.arange(1, len(ranked) + 1)
        if np.array_equal(above, level):
            return float(np.mean(k / (k + above)))
        starts = np.flatnonzero(np.r_[True, -np.diff(ranked) > TIE])
        stops = np.r_[starts[1:], len(ranked)]
        return sum(
            _tied_precision(int(a), int(above[a]), int(b - a), int(level[b - 1] - above[a]))
            for a, b in zip(starts, stops, strict=True)
        ) / len(ranked)


def _tied_precision(positives: int, negatives: int, tied_positives: int, tied_negatives: int) -> float:
    """Expected sum of precisions at the tied positives, over orders of the ties; the first two numbers rank above them all."""
    n = tied_positives + tied_negatives
    place = np.arange(n)
    hits = positives + 1 + place * (tied_positives - 1) / max(n - 1, 1)
    return float(np.sum(hits / (positives + negatives + 1 + place))) * tied_positives / n


def expected_average_precision(positives: NDArray[Any], total: NDArray[Any]) -> Array:
    """AP expected of a random order of `total` items, `positives` of them relevant: H/L + (M - 1)/(L - 1) (1 - H/L).

    L = total, M = positives, H the L-th harmonic number. One of two is 1 or 1/2:

    >>> expected_average_precision(np.array([1]), np.array([2]))
    array([0.75])
    """
    M, L = np.asarray(positives, dtype=np.float64), np.asarray(total, dtype=np.float64)
    rate = (digamma(L + 1) + np.euler_gamma) / L
    return np.asarray(rate + (M - 1) / np.maximum(L - 1, 1) * (1 - rate))
