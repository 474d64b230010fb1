"""The two loops of InfoMEC that numpy is slow at, compiled by numba when first called and kept on disk.

numpy has no vectorised double `exp` where a processor lacks AVX-512 (7 ns a number here; 2.3 ns below), and finds neighbours
only with a binary search for each row (2.4 ms a column and factor; 0.3 ms below). `benchmarks/infomec.py` measures both.
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

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compiled when first called, and kept on disk where numba finds a folder it may write to."""
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}
    try:
        kept: F = njit(cache=True, **options)(function)
    except RuntimeError:  # neither beside this file nor in a home
        kept = njit(**options)(function)
    return kept


@compiled
def exponentials(logits: Array, bits: Labels, scratch: Array, scratch_bits: Labels, sums: Array) -> None:
    """exp of every logit, in place, and the sum over rows of each column.

    `bits` and `scratch_bits` are the same memory as `logits` and `scratch`, seen as whole numbers. exp(x) = 2^k exp(r) with
    k whole and |r| <= ln(2) / 2, where thirteen terms of the series are exact to rounding. For |x| below 700.
    """
    classes, columns = logits.shape
    sums[:columns] = 0.0
    for c in range(classes):
        row, row_bits = logits[c], bits[c]
        for j in range(columns):
            x = row[j]
            shifted = x * INVERSE_LN2 + ROUNDER
            scratch[j] = shifted
            k = shifted - ROUNDER
            r = (x - k * LN2_HIGH) - k * LN2_LOW
            tail = C6 + r * (C7 + r * (C8 + r * (C9 + r * (C10 + r * (C11 + r * C12)))))
            row[j] = 1.0 + r * (1.0 + r * (C2 + r * (C3 + r * (C4 + r * (C5 + r * tail)))))
        for j in range(columns):
            row_bits[j] += scratch_bits[j] << EXPONENT
        for j in range(columns):
            sums[j] += row[j]


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
