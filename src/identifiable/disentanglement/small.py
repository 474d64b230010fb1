"""What `kernels` compiles, by numpy: for few numbers, where numba would take longer to load than all the work.

The descent is the same source, uncompiled. Its loss, and the neighbours, are written for whole arrays. Neighbours are the same whole
numbers; the loss differs in the last bits, and so regressions of InfoE to 1e-9 where they converge.
"""

from __future__ import annotations

import math

import numpy as np

from identifiable._compiling import uncompiled
from identifiable.disentanglement import kernels
from identifiable.disentanglement.codes import Array, Labels

FEW = (
    2**20
)  # rows by features by classes of a regression, up to which it is done here: 0.05 s for 100 steps, compiled 0.02 s
FEW_ROWS = 2**15  # of a column, likewise: 3 ms, compiled 1 ms; numba takes 0.7 s to load and 6 s to compile


def logistic_loss(
    flat: Array, classes: int, columns: Array, longest: float, codes: Labels, importance: Array, out: Array
) -> float:
    """`kernels.logistic_loss` of all rows at once: `columns` are (features, rows)."""
    weights = flat.reshape(-1, classes)
    logits = weights.T @ columns
    logits -= logits.max(axis=0)
    if longest * math.sqrt(np.square(weights).sum(axis=0).max()) > kernels.LARGEST_LOGIT:
        np.maximum(logits, -kernels.LARGEST_LOGIT, out=logits)  # as there: the path goes through such values
    rows = np.arange(len(codes))
    own = logits[codes, rows]
    np.exp(logits, out=logits)
    sums = logits.sum(axis=0)
    logits[codes, rows] -= sums
    logits *= importance / sums
    out[:] = (columns @ logits.T).ravel()
    return float(importance @ (np.log(sums) - own))


def neighbour_digammas(values: Array, by_class: Labels, sizes: Labels, neighbours: int, digammas: Array) -> float:
    """`kernels.neighbour_digammas`, class by class."""
    total, start, top = 0.0, 0, len(values) - 1
    for size in sizes:
        x = values[by_class[start : start + size]]
        start += size
        k = min(neighbours, size - 1)
        ends = np.concatenate([np.full(k, -np.inf), x, np.full(k, np.inf)])
        # The k nearest stand in a row of k + 1 with x among them: of all such rows, the one whose far end is nearest.
        ways = [np.maximum(x - ends[a : a + size], ends[a + k : a + k + size] - x) for a in range(k + 1)]
        radius = np.nextafter(np.min(ways, axis=0), 0.0)
        low, high = np.searchsorted(values, x - radius), np.searchsorted(values, x + radius, side="right") - 1
        while (out := x - values[low] > radius).any():  # sums are rounded, and differences decide
            low += out
        while (out := (low > 0) & (x - values[low - 1] <= radius)).any():
            low -= out
        while (out := values[high] - x > radius).any():
            high -= out
        while (out := (high < top) & (values[np.minimum(high + 1, top)] - x <= radius)).any():
            high += out
        total += float(digammas[high - low + 1].sum())
    return total


descent = uncompiled(
    kernels.cubic_step,
    kernels.next_step,
    kernels.line_search,
    kernels.turn_downhill,
    kernels.descend,
    kernels.start,
    logistic_loss=logistic_loss,
    dot=np.dot,
    put_sum=lambda a, factor, b, out: np.add(a, factor * b, out=out),
    copy=lambda values, out: np.copyto(out, values),
    largest=lambda values: np.abs(values).max(initial=0.0),
)
