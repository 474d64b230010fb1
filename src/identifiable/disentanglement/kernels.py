"""The two loops of InfoMEC that numpy is slow at, compiled by numba when first called and kept on disk.

numpy has no vectorised double `exp` and `log` where a processor lacks AVX-512 (7 ns a number here; 1.2 and 2 ns below), and finds
neighbours only with a binary search for each row (2.4 ms a column and factor; 0.9 ms below). Products of few features with few
classes are below the size from which BLAS pays. `benchmarks/infomec.py` measures the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from identifiable.disentanglement.codes import Array, Labels

INVERSE_LN2 = 1 / math.log(2)
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # ln 2 in two parts: k ln 2 without rounding
ROUNDER = 1.5 * 2.0**52  # a number plus this is rounded, and its whole part stands in the last bits
SQRT2 = math.sqrt(2)
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12 = (1 / math.factorial(k) for k in range(2, 13))
A1, A2, A3, A4, A5, A6, A7, A8, A9, A10 = (2 / (2 * k + 1) for k in range(1, 11))

BITS_BELOW_EXPONENT = 52
MANTISSA = 2**BITS_BELOW_EXPONENT - 1
BIAS = 1023  # what the exponent of 1 is stored as
LARGEST_LOGIT = 600.0  # exp overflows from 709 on
AT_ONCE = 240  # rows: what is in hand stays in fast caches, and no two of its lines lie a power of two apart

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F, fastmath: frozenset[str] = frozenset({"contract"})) -> F:
    """Compiled when first called, and kept on disk where numba finds a folder it may write to."""
    options: dict[str, Any] = {"nogil": True, "fastmath": set(fastmath), "error_model": "numpy"}
    try:
        kept: F = njit(cache=True, **options)(function)
    except RuntimeError:  # neither beside this file nor in a home
        kept = njit(**options)(function)
    return kept


# -- numbers by their bits


def in_registers(function: Callable[..., Any]) -> Any:
    """An instruction of its own: through memory, as numpy's `view`, bits would cost as much as all the rest."""
    return intrinsic(function)


@in_registers
def times_power_of_two(typing_context: Any, value: Any, power: Any) -> Any:
    """`value` times two to the whole number that stands in the last bits of `power`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from llvmlite import ir

        whole = ir.IntType(64)
        bits, exponent = (builder.bitcast(argument, whole) for argument in arguments)
        moved = builder.shl(exponent, ir.Constant(whole, BITS_BELOW_EXPONENT))
        return builder.bitcast(builder.add(bits, moved), ir.DoubleType())

    return types.float64(types.float64, types.float64), code


@in_registers
def exponent_of(typing_context: Any, value: Any) -> Any:
    """The exponent of a positive number: its bits as the last ones of 2^52, which is then taken off."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from llvmlite import ir

        whole, real = ir.IntType(64), ir.DoubleType()
        moved = builder.lshr(builder.bitcast(arguments[0], whole), ir.Constant(whole, BITS_BELOW_EXPONENT))
        large = ir.Constant(whole, (BIAS + BITS_BELOW_EXPONENT) << BITS_BELOW_EXPONENT)
        number = builder.bitcast(builder.or_(moved, large), real)
        return builder.fsub(number, ir.Constant(real, 2.0**BITS_BELOW_EXPONENT + BIAS))

    return types.float64(types.float64), code


@in_registers
def mantissa_of(typing_context: Any, value: Any) -> Any:
    """A positive number times the power of two that brings it between 1 and 2."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from llvmlite import ir

        whole = ir.IntType(64)
        bits = builder.and_(builder.bitcast(arguments[0], whole), ir.Constant(whole, MANTISSA))
        return builder.bitcast(builder.or_(bits, ir.Constant(whole, BIAS << BITS_BELOW_EXPONENT)), ir.DoubleType())

    return types.float64(types.float64), code


# -- the loss of a regression


@compiled
def exponentials(row: Array, sums: Array) -> None:
    """exp of the numbers of a row, in place, each added to `sums`. For |x| below 700.

    exp(x) = 2^k exp(r) with k whole and |r| <= ln(2) / 2, where thirteen terms of the series are exact to rounding. They are added in
    pairs of pairs: one after the other, each would wait for the last.
    """
    for j in range(row.size):
        x = row[j]
        shifted = x * INVERSE_LN2 + ROUNDER
        k = shifted - ROUNDER
        r = (x - k * LN2_HIGH) - k * LN2_LOW
        r2 = r * r
        r4 = r2 * r2
        low = (C2 + C3 * r) + r2 * (C4 + C5 * r)
        high = (C6 + C7 * r) + r2 * (C8 + C9 * r) + r4 * ((C10 + C11 * r) + r2 * C12)
        value = times_power_of_two(1.0 + (r + r2 * (low + r4 * high)), shifted)
        row[j] = value
        sums[j] += value


@compiled
def logarithms(values: Array, out: Array) -> None:
    """log of positive numbers: k log(2) + log(1 + f), with 1 + f between 1 / sqrt(2) and sqrt(2).

    log(1 + f) = 2 atanh(s) for s = f / (2 + f) = 2 s + s (2/3 s^2 + 2/5 s^4 + ...), where ten terms are exact to rounding, and
    2 s = f - s f, which keeps the digits that the division loses.
    """
    for j in range(values.size):
        k, m = exponent_of(values[j]), mantissa_of(values[j])
        above = m > SQRT2
        k = k + 1.0 if above else k
        f = (0.5 * m if above else m) - 1.0
        s = f / (2.0 + f)
        z = s * s
        end = A6 + z * (A7 + z * (A8 + z * (A9 + z * A10)))
        series = z * (A1 + z * (A2 + z * (A3 + z * (A4 + z * (A5 + z * end)))))
        out[j] = k * LN2_HIGH + (f - (s * (f - series) - k * LN2_LOW))


@compiled
def combine(v: Array, w: Array, block: Array, first: Array, second: Array) -> None:
    """v @ block and w @ block, for features by fours: two by four at a time, to touch memory less."""
    for m in range(0, block.shape[0], 4):
        v0, v1, v2, v3 = v[m], v[m + 1], v[m + 2], v[m + 3]
        w0, w1, w2, w3 = w[m], w[m + 1], w[m + 2], w[m + 3]
        x0, x1, x2, x3 = block[m], block[m + 1], block[m + 2], block[m + 3]
        if m == 0:
            for j in range(x0.size):
                first[j] = v0 * x0[j] + (v1 * x1[j] + (v2 * x2[j] + v3 * x3[j]))
                second[j] = w0 * x0[j] + (w1 * x1[j] + (w2 * x2[j] + w3 * x3[j]))
        else:
            for j in range(x0.size):
                first[j] = v0 * x0[j] + (v1 * x1[j] + (v2 * x2[j] + (v3 * x3[j] + first[j])))
                second[j] = w0 * x0[j] + (w1 * x1[j] + (w2 * x2[j] + (w3 * x3[j] + second[j])))


@compiled
def moved_below_zero(logits: Array, classes: int, moved: Array) -> None:
    """All logits of a row less the largest of them, `moved`, and none below -600: what is smaller counts for nothing in their sum."""
    for j in range(logits.shape[1]):
        top = logits[0, j]
        for c in range(1, classes):
            top = max(top, logits[c, j])
        for c in range(classes):
            logits[c, j] = max(logits[c, j] - top, -LARGEST_LOGIT)
        moved[j] = top


def _add_products(left: Array, right: Array, out: Array) -> None:
    """`out` += left @ right.T, summed in any order, for sizes as in `combine`."""
    for c in range(0, left.shape[0], 2):
        a, b = left[c], left[c + 1]
        for m in range(0, right.shape[0], 4):
            x0, x1, x2, x3 = right[m], right[m + 1], right[m + 2], right[m + 3]
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
            for j in range(a.size):
                s0 += a[j] * x0[j]
                s1 += a[j] * x1[j]
                s2 += a[j] * x2[j]
                s3 += a[j] * x3[j]
                t0 += b[j] * x0[j]
                t1 += b[j] * x1[j]
                t2 += b[j] * x2[j]
                t3 += b[j] * x3[j]
            out[c, m] += s0
            out[c, m + 1] += s1
            out[c, m + 2] += s2
            out[c, m + 3] += s3
            out[c + 1, m] += t0
            out[c + 1, m + 1] += t1
            out[c + 1, m + 2] += t2
            out[c + 1, m + 3] += t3


add_products = compiled(_add_products, frozenset({"contract", "reassoc"}))


@compiled
def logistic_loss(
    flat: Array,
    classes: int,
    blocks: Array,
    longest: float,
    codes: Labels,
    importance: Array,
    own: Array,
    out: Array,
) -> float:
    """Sum over rows of importance * -log p(class), p the softmax of weights @ columns; its gradient is put into `out`.

    `blocks` are (blocks, features, rows of each), filled up with rows of no importance and with features of 0 to a multiple of four;
    `longest` is the length of the longest row. `flat` and `out` have the classes of the first feature, then those of the second, and
    so on; `own`, of that form too, is the sum over the rows of each class of importance * features, with which their logits add up
    without being looked up one by one.
    """
    width, features = blocks.shape[2], flat.size // classes
    weights = np.zeros((classes + classes % 2, blocks.shape[1]))  # filled up likewise, and to an even number of classes
    gradient = np.zeros(weights.shape)
    steepest = 0.0
    for c in range(classes):
        for m in range(features):
            weights[c, m] = flat[m * classes + c]
        steepest = max(steepest, math.sqrt(np.sum(weights[c] ** 2)))
    may_overflow = longest * steepest > LARGEST_LOGIT
    total = -float(np.dot(flat, own))
    logits, scaled = np.empty((weights.shape[0], width)), np.empty((weights.shape[1], width))
    sums, logs, share, moved = np.empty(width), np.empty(width), np.empty(width), np.zeros(width)
    for i in range(blocks.shape[0]):
        block = blocks[i]
        label, weight = codes[i * width : (i + 1) * width], importance[i * width : (i + 1) * width]
        sums[:] = 0.0
        for c in range(0, classes, 2):
            combine(weights[c], weights[c + 1], block, logits[c], logits[c + 1])
            if not may_overflow:  # at once, while they are at hand
                exponentials(logits[c], sums)
                if c + 1 < classes:
                    exponentials(logits[c + 1], sums)
        if may_overflow:
            moved_below_zero(logits, classes, moved)
            for c in range(classes):
                exponentials(logits[c], sums)
        logarithms(sums, logs)
        for j in range(width):
            share[j] = weight[j] / sums[j]
        for j in range(width):
            total += weight[j] * (logs[j] + moved[j])
            logits[label[j], j] -= sums[j]  # before the sum over rows, in which it would cancel
        for m in range(block.shape[0]):
            x, y = block[m], scaled[m]
            for j in range(width):
                y[j] = x[j] * share[j]
        add_products(logits, scaled, gradient)
    for m in range(features):
        for c in range(classes):
            out[m * classes + c] = gradient[c, m]
    return total


# -- neighbours


@compiled
def neighbour_digammas(values: Array, by_class: Labels, sizes: Labels, neighbours: int, digammas: Array) -> float:
    """Sum over rows of psi(m): how many rows of any class are nearer than the k-th neighbour of the same class.

    `values` rise; `by_class` has the places of the first class among them, rising, then those of the second, and so on, as
    many as `sizes` says. `digammas[m]` is psi(m). What is near ends between the last neighbour and the next row of the class, so only
    the rows between those two are looked through.
    """
    total, top, start = 0.0, len(values), 0
    for size in sizes:
        places = by_class[start : start + size]
        own = values[places]
        k = min(neighbours, size - 1)
        first = 0
        for i in range(size):
            x = own[i]
            # The k nearest stand in a row of k + 1 with x among them: move it up while its far end comes nearer.
            while first + k + 1 < size and first < i and own[first + k + 1] - x < x - own[first]:
                first += 1
            first = max(first, i - k)
            last = first + k
            radius = np.nextafter(max(x - own[first], own[last] - x), 0.0)
            low = places[first]
            if x - own[first] > radius:  # the farthest, and so just not near: so are rows level with it
                while x - values[low] > radius:
                    low += 1
            else:
                while low > 0 and x - values[low - 1] <= radius:
                    low -= 1
            high = places[last]
            if own[last] - x > radius:
                while values[high] - x > radius:
                    high -= 1
            else:
                while high + 1 < top and values[high + 1] - x <= radius:
                    high += 1
            total += digammas[high - low + 1]
        start += size
    return total
