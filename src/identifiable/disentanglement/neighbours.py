"""Mutual information of one continuous column with classes, from nearest neighbours: the estimator of Ross (2014).

Columns have one dimension, so neighbours are found by sorting instead of by trees: a column is sorted once, and serves
every factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from identifiable.disentanglement.codes import Array, Labels
from identifiable.disentanglement.kernels import neighbour_digammas

JITTER = 1e-10  # of the spread; breaks ties, as scikit-learn's mutual_info_classif does


@dataclass(frozen=True, eq=False)
class SortedColumn:
    """A column of unit spread in rising order: `values[i]` is that of row `order[i]`."""

    values: Array
    order: NDArray[np.intp]


def sorted_column(column: Array, seed: int) -> SortedColumn:
    """The column over its standard deviation, ties broken by seeded noise of 1e-10.

    The noise is that of ``mutual_info_classif(column, …, random_state=seed)`` of scikit-learn, so that the two agree where
    columns have ties, too. A constant column is left as it is, and only noise.
    """
    spread = column.std()
    values = column / spread if spread > 0 else column.copy()
    draw = np.random.RandomState(seed).standard_normal(len(values))
    values += JITTER * max(1.0, float(np.abs(values).mean())) * draw
    order = np.argsort(values, kind="stable")
    return SortedColumn(values[order], order)


def digamma_table(n: int) -> Array:
    """psi(0), …, psi(n); the first, which is minus infinity, is never asked for."""
    table: Array = np.concatenate([[-np.inf], digamma(np.arange(1, n + 1))])
    return table


def ross(column: SortedColumn, codes: Labels, neighbours: int, digammas: Array) -> float:
    r"""Mutual information of a column with classes, in nats, at least 0.

    Implements the estimator of Ross (2014) as scikit-learn's `mutual_info_classif` means it. Of a row in a class of N_c, r
    is the distance to its k-th neighbour within the class, k = min(neighbours, N_c - 1), and m the number of rows of any
    class nearer than that, itself counted:
        I = psi(N) + mean psi(k) - mean psi(N_c) - mean psi(m).
    Rows alone in their class are left out. `digammas` is a `digamma_table` of at least as many rows.

    scikit-learn agrees to 3e-15, but for classes of at most 2 `neighbours` rows: there it takes distances from rounded squares,
    and often counts the k-th neighbour itself as nearer than itself.
    """
    sizes = np.bincount(codes)
    values, classes = column.values, codes[column.order]
    if (sizes == 1).any():
        kept = sizes[classes] > 1
        values, classes = values[kept], classes[kept]
    sizes = sizes[sizes > 1]
    n = len(values)
    if not n:
        return 0.0
    by_class = np.argsort(_small(classes), kind="stable")
    near = neighbour_digammas(values, by_class, sizes, neighbours, digammas)
    of_class = digammas[np.minimum(neighbours, sizes - 1)] - digammas[sizes]
    return max(0.0, float(digammas[n] + (sizes @ of_class - near) / n))


def _small(classes: Labels) -> NDArray[np.integer]:
    """In the smallest type, for which numpy sorts by counting."""
    top = int(classes.max())
    return classes.astype(np.uint8 if top < 1 << 8 else np.uint16 if top < 1 << 16 else np.int64)
