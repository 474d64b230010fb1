"""How strongly the columns of one table depend on each other: factors that move together, latents that repeat each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

MOST_BINS = 10  # of a continuous column
MOST_CLASSES = 100  # a discrete column with more is put into bins, too: a table of classes by classes would be slow
MOST_COLUMNS = 50  # more columns are compared by correlation alone: tables of all pairs would take seconds
ROUNDING = 1e-9  # added to the variance of a column, so that copies leave a matrix that has an inverse


class Pair(NamedTuple):
    """Two columns, their maximal correlation, and what independent columns of this size reach by chance."""

    first: int
    second: int
    correlation: float
    chance: float


def maximal_correlation(a: Labels, b: Labels) -> float:
    """The largest correlation that any numbering of the classes of `a` and of `b` gives: 0 only if they are independent.

    Implements Hirschfeld (1935), Gebelein (1941): the second singular value of P(a, b) / sqrt(P(a) P(b)). Every class must occur.

    >>> maximal_correlation(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])), maximal_correlation(np.arange(3), np.arange(3))
    (0.0, 1.0)
    """
    shape = (int(a.max()) + 1, int(b.max()) + 1)
    together = np.bincount(a * shape[1] + b, minlength=shape[0] * shape[1]).reshape(shape) / len(a)
    expected = np.outer(together.sum(axis=1), together.sum(axis=0))
    return round(float(np.linalg.norm((together - expected) / np.sqrt(expected), 2)), 12)


def dependent_pairs(columns: Sequence[Array], discrete: Sequence[bool], above: float) -> list[Pair]:
    """Pairs of columns whose maximal correlation exceeds `above` and the level of chance together, strongest first.

    Ours. Continuous columns, and those of more than 100 classes, enter in up to 10 bins of equal frequency. The level of chance is
    the largest singular value of noise, (sqrt(classes of a - 1) + sqrt(classes of b - 1)) / sqrt(n). With more than 50 columns:
    |correlation| of the values.
    """
    n = len(columns[0])
    if len(columns) > MOST_COLUMNS:
        with np.errstate(invalid="ignore", divide="ignore"):
            strength = np.nan_to_num(np.abs(np.corrcoef(np.stack(columns))))
        found = [Pair(i, j, float(strength[i, j]), 2 / math.sqrt(n)) for i, j in combinations(range(len(columns)), 2)]
    else:
        bins = min(MOST_BINS, max(2, int(math.sqrt(n) / 4)))
        classes = [
            _classes(column)
            if kept and len(np.unique(column)) <= MOST_CLASSES
            else _classes(rankdata(column) * bins // (n + 1))
            for column, kept in zip(columns, discrete, strict=True)
        ]
        edges = [math.sqrt(int(c.max()) / n) for c in classes]
        found = [
            Pair(i, j, maximal_correlation(classes[i], classes[j]), edges[i] + edges[j])
            for i, j in combinations(range(len(classes)), 2)
        ]
    return sorted((p for p in found if p.correlation > above + p.chance), key=lambda p: -p.correlation)


def _classes(column: Array) -> Labels:
    """Values as 0, 1, …; all of them occur."""
    return np.unique(column, return_inverse=True)[1].reshape(-1)


def redundancy(columns: Array) -> Array:
    """How well all other columns together predict each one linearly: R² on the rows given, of values or of ranks if that is larger.

    1 - 1 / (inverse of the correlation matrix) on its diagonal; 0 for a constant column.
    """
    return np.maximum(_explained_by_others(columns), _explained_by_others(rankdata(columns, axis=0)))


def _explained_by_others(columns: Array) -> Array:
    varies = np.ptp(columns, axis=0) > 0
    centred = np.where(varies, columns - columns.mean(axis=0), 0.0)
    unit = centred / np.where(varies, centred.std(axis=0), 1.0)
    correlation = unit.T @ unit / len(unit) + np.diag(np.where(varies, ROUNDING, 1.0))
    return np.asarray(np.where(varies, 1 - 1 / np.diag(np.linalg.inv(correlation)), 0.0))
