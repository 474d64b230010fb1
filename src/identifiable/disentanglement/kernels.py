"""The two loops of InfoMEC that numpy is slow at, compiled by numba when first called and kept on disk.

numpy has no vectorised double `exp` where a processor lacks AVX-512 (7 ns a number here; 2.3 ns below), and finds neighbours
only with a binary search for each row (2.4 ms a column and factor; 0.9 ms below). `benchmarks/infomec.py` measures the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit

from identifiable.disentanglement.codes import Array, Labels

INVERSE_LN2 = 1 / math.log(2)
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # ln 2 in two parts: k ln 2 without rounding
ROUNDER = 1.5 * 2.0**52  # a number plus this is rounded, and its whole part stands in the last bits
EXPONENT = 52  # bits below the exponent
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12 = (1 / math.factorial(k) for k in range(2, 13))

COLUMNS = 96  # of the data at once, so that what is in hand stays in the fastest cache

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F, fastmath: frozenset[str] = frozenset({"contract"})) -> F:
    """Compiled when first called, and kept on disk where numba finds a folder it may write to."""
    options: dict[str, Any] = {"nogil": True, "fastmath": set(fastmath), "error_model": "numpy"}
    try:
        kept: F = njit(cache=True, **options)(function)
    except RuntimeError:  # neither beside this file nor in a home
        kept = njit(**options)(function)
    return kept


@compiled
def exponentials(logits: Array, bits: Labels, scratch: Array, scratch_bits: Labels, sums: Array, count: int) -> None:
    """exp of the first `count` of every row of logits, in place, and their sums over rows.

    `bits` and `scratch_bits` are the same memory as `logits` and `scratch`, seen as whole numbers. exp(x) = 2^k exp(r) with
    k whole and |r| <= ln(2) / 2, where thirteen terms of the series are exact to rounding. For |x| below 700.
    """
    sums[:count] = 0.0
    for c in range(logits.shape[0]):
        row, row_bits = logits[c], bits[c]
        for j in range(count):
            x = row[j]
            shifted = x * INVERSE_LN2 + ROUNDER
            scratch[j] = shifted
            k = shifted - ROUNDER
            r = (x - k * LN2_HIGH) - k * LN2_LOW
            tail = C6 + r * (C7 + r * (C8 + r * (C9 + r * (C10 + r * (C11 + r * C12)))))
            row[j] = 1.0 + r * (1.0 + r * (C2 + r * (C3 + r * (C4 + r * (C5 + r * tail)))))
        for j in range(count):
            row_bits[j] += scratch_bits[j] << EXPONENT
        for j in range(count):
            sums[j] += row[j]


@compiled
def combine(weights: Array, columns: Array, start: int, count: int, out: Array) -> None:
    """The first `count` of `out` = weights @ columns from `start` on: few features, four at a time, to touch memory less."""
    classes, features = weights.shape
    for c in range(classes):
        row = out[c]
        for j in range(count):
            row[j] = 0.0
        m = 0
        while m + 4 <= features:
            w0, w1, w2, w3 = weights[c, m], weights[c, m + 1], weights[c, m + 2], weights[c, m + 3]
            x0, x1 = columns[m, start : start + count], columns[m + 1, start : start + count]
            x2, x3 = columns[m + 2, start : start + count], columns[m + 3, start : start + count]
            for j in range(count):
                row[j] += (w0 * x0[j] + w1 * x1[j]) + (w2 * x2[j] + w3 * x3[j])
            m += 4
        while m < features:
            w0, x0 = weights[c, m], columns[m, start : start + count]
            for j in range(count):
                row[j] += w0 * x0[j]
            m += 1


def _add_products(left: Array, right: Array, count: int, out: Array) -> None:
    """`out` += left @ right.T over the first `count` columns, summed in any order."""
    for c in range(left.shape[0]):
        a = left[c]
        m = 0
        while m + 3 <= right.shape[0]:
            b0, b1, b2 = right[m], right[m + 1], right[m + 2]
            s0, s1, s2 = 0.0, 0.0, 0.0
            for j in range(count):
                s0 += a[j] * b0[j]
                s1 += a[j] * b1[j]
                s2 += a[j] * b2[j]
            out[c, m] += s0
            out[c, m + 1] += s1
            out[c, m + 2] += s2
            m += 3
        while m < right.shape[0]:
            b0 = right[m]
            s0 = 0.0
            for j in range(count):
                s0 += a[j] * b0[j]
            out[c, m] += s0
            m += 1


add_products = compiled(_add_products, frozenset({"contract", "reassoc"}))


@compiled
def logistic_loss(
    weights: Array, columns: Array, codes: Labels, importance: Array, largest: float, gradient: Array
) -> float:
    """Sum over rows of importance * -log p(class), p the softmax of weights @ columns; its gradient is added to `gradient`.

    `columns` are (features, n). Where `largest` is above 0, logits are moved to lie between it and 0, so that none overflows.
    """
    classes, features = weights.shape
    total, n = 0.0, columns.shape[1]
    logits, scaled = np.empty((classes, COLUMNS)), np.empty((features, COLUMNS))
    sums, own, scratch = np.empty(COLUMNS), np.empty(COLUMNS), np.empty(COLUMNS)
    bits, scratch_bits = logits.view(np.int64), scratch.view(np.int64)
    for start in range(0, n, COLUMNS):
        count = min(COLUMNS, n - start)
        combine(weights, columns, start, count, logits)
        if largest > 0.0:
            for j in range(count):
                top = logits[0, j]
                for c in range(1, classes):
                    top = max(top, logits[c, j])
                for c in range(classes):
                    logits[c, j] = max(logits[c, j] - top, -largest)
        for j in range(count):
            own[j] = logits[codes[start + j], j]
        exponentials(logits, bits, scratch, scratch_bits, sums, count)
        for j in range(count):
            total += importance[start + j] * (math.log(sums[j]) - own[j])
            logits[codes[start + j], j] -= sums[j]  # before the sum over rows, in which it would cancel
            own[j] = importance[start + j] / sums[j]
        for m in range(features):
            x, y = columns[m, start : start + count], scaled[m]
            for j in range(count):
                y[j] = x[j] * own[j]
        add_products(logits, scaled, count, gradient)
    return total


@compiled
def neighbour_digammas(values: Array, by_class: Labels, sizes: Labels, neighbours: int, digammas: Array) -> float:
    """Sum over rows of psi(m): how many rows of any class are nearer than the k-th neighbour of the same class.

    `values` rise; `by_class` has the places of the first class among them, rising, then those of the second, and so on, as
    many as `sizes` says. `digammas[m]` is psi(m). Both ends of what is near move only upwards as a class is walked through.
    """
    total, top, start = 0.0, len(values), 0
    for size in sizes:
        places = by_class[start : start + size]
        k = min(neighbours, size - 1)
        first, low, high = 0, 0, 0
        for i in range(size):
            x = values[places[i]]
            # The k nearest stand in a row of k + 1 with x among them: move it up while its far end comes nearer.
            while (
                first + k + 1 < size and first < i and (values[places[first + k + 1]] - x < x - values[places[first]])
            ):
                first += 1
            first = max(first, i - k)
            radius = max(x - values[places[first]], values[places[first + k]] - x)
            radius = np.nextafter(radius, 0.0)
            while x - values[low] > radius:
                low += 1
            while low > 0 and x - values[low - 1] <= radius:
                low -= 1
            high = max(high, low)
            while high < top and values[high] - x <= radius:
                high += 1
            while values[high - 1] - x > radius:
                high -= 1
            total += digammas[high - low]
        start += size
    return total
