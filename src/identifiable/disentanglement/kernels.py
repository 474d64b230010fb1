"""The loops of InfoMEC that numpy is slow at, compiled by numba when first called and kept on disk: a regression, and neighbours.

numpy has no vectorised double `exp` and `log` where a processor lacks AVX-512 (7 ns a number here; 1.2 and 2 ns below), and finds
neighbours only with a binary search for each row (2.4 ms a column and factor; 0.9 ms below). Products of few features with few
classes are below the size from which BLAS pays. `benchmarks/infomec.py` measures the whole.

The descent of a regression is compiled together with its loss: it is some hundred steps of less than a millisecond, and scipy's layers
of Python around each took a sixth of all its time, holding Python's lock. It takes the path of scipy's L-BFGS-B without bounds, with
the direction of Liu and Nocedal (1989) from ten pairs and the step of Moré and Thuente (1994);
`tests/disentanglement/test_info_scores.py` compares the two after 1, 4, 12 and 40 steps.

All compiled code is in this one file: what numba keeps on disk it forgets when the file of a function changes, and not when that of
another one does which is compiled into it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from identifiable._compiling import compiled, in_registers
from identifiable.disentanglement.codes import Array, Labels
from identifiable.run import Run

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

PAIRS = 10  # of steps and changes of the gradient that are remembered
TRIALS = 20  # of one line search
ENOUGH = 1e-3  # of the decrease that the slope promises
FLATTER = 0.9  # of the slope, at the end of a step
NARROW = 0.1  # width of a bracket over its upper end, from which on it is not searched further
LONGEST_STEP = 1e10
SPACING = float(np.finfo(np.float64).eps)
TAKEN, KEPT, NEWEST = range(3)  # what is counted: steps, pairs in memory, the place of the last
GOES_ON, CONVERGED, STOPPED, STUCK = range(4)  # how `descend` ends

Ends = tuple[
    float, float, float, float, float, float
]  # the best step with value and slope, then the other end of the bracket

# -- numbers by their bits


@in_registers
def times_power_of_two(typing_context: Any, value: Any, power: Any) -> Any:
    """`value` times two to the whole number that stands in the last bits of `power`."""

    from llvmlite import ir
    from numba import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = ir.IntType(64)
        bits, exponent = (builder.bitcast(argument, whole) for argument in arguments)
        moved = builder.shl(exponent, ir.Constant(whole, BITS_BELOW_EXPONENT))
        return builder.bitcast(builder.add(bits, moved), ir.DoubleType())

    return types.float64(types.float64, types.float64), code


@in_registers
def exponent_of(typing_context: Any, value: Any) -> Any:
    """The exponent of a positive number: its bits as the last ones of 2^52, which is then taken off."""

    from llvmlite import ir
    from numba import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole, real = ir.IntType(64), ir.DoubleType()
        moved = builder.lshr(builder.bitcast(arguments[0], whole), ir.Constant(whole, BITS_BELOW_EXPONENT))
        large = ir.Constant(whole, (BIAS + BITS_BELOW_EXPONENT) << BITS_BELOW_EXPONENT)
        number = builder.bitcast(builder.or_(moved, large), real)
        return builder.fsub(number, ir.Constant(real, 2.0**BITS_BELOW_EXPONENT + BIAS))

    return types.float64(types.float64), code


@in_registers
def mantissa_of(typing_context: Any, value: Any) -> Any:
    """A positive number times the power of two that brings it between 1 and 2."""

    from llvmlite import ir
    from numba import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = ir.IntType(64)
        bits = builder.and_(builder.bitcast(arguments[0], whole), ir.Constant(whole, MANTISSA))
        return builder.bitcast(builder.or_(bits, ir.Constant(whole, BIAS << BITS_BELOW_EXPONENT)), ir.DoubleType())

    return types.float64(types.float64), code


# -- vectors: by loops, since numba takes a second to compile each expression of arrays


def _dot(a: Array, b: Array) -> float:
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


dot = compiled(_dot, frozenset({"contract", "reassoc"}))


@compiled
def put_sum(a: Array, factor: float, b: Array, out: Array) -> None:
    """`out` = a + factor * b."""
    for j in range(out.size):
        out[j] = a[j] + factor * b[j]


@compiled
def copy(values: Array, out: Array) -> None:
    """By a loop, too: `out[:] = values` compiles for four seconds, most of it the text of an error that cannot be."""
    for j in range(out.size):
        out[j] = values[j]


@compiled
def largest(values: Array) -> float:
    """Of the absolute values."""
    found = 0.0
    for j in range(values.size):
        found = max(found, abs(values[j]))
    return found


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
def moved_below_zero(logits: Array, classes: int) -> None:
    """All logits of a row less the largest of them, and none below -600: what is smaller counts for nothing in their sum."""
    for j in range(logits.shape[1]):
        top = logits[0, j]
        for c in range(1, classes):
            top = max(top, logits[c, j])
        for c in range(classes):
            logits[c, j] = max(logits[c, j] - top, -LARGEST_LOGIT)


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
    out: Array,
) -> float:
    """Sum over rows of importance * -log p(class), p the softmax of weights @ columns; its gradient is put into `out`.

    `blocks` are (blocks, features, rows of each), filled up with rows of no importance and with features of 0 to a multiple of four;
    `longest` is the length of the longest row. `flat` and `out` have the classes of the first feature, then those of the second, and
    so on.
    """
    width, features = blocks.shape[2], flat.size // classes
    weights = np.zeros((classes + classes % 2, blocks.shape[1]))  # filled up likewise, and to an even number of classes
    gradient = np.zeros(weights.shape)
    steepest = 0.0
    for c in range(classes):
        for m in range(features):
            weights[c, m] = flat[m * classes + c]
        steepest = max(steepest, math.sqrt(dot(weights[c], weights[c])))
    may_overflow = longest * steepest > LARGEST_LOGIT
    total = 0.0
    logits, scaled = np.empty((weights.shape[0], width)), np.empty((weights.shape[1], width))
    sums, logs, share, own = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    for i in range(blocks.shape[0]):
        block = blocks[i]
        label, weight = codes[i * width : (i + 1) * width], importance[i * width : (i + 1) * width]
        for c in range(0, classes, 2):
            combine(weights[c], weights[c + 1], block, logits[c], logits[c + 1])
        if may_overflow:
            moved_below_zero(logits, classes)
        for j in range(width):
            own[j] = logits[label[j], j]
        for j in range(width):
            sums[j] = 0.0
        for c in range(classes):
            exponentials(logits[c], sums)
        logarithms(sums, logs)
        for j in range(width):
            share[j] = weight[j] / sums[j]
        for j in range(width):
            total += weight[j] * (logs[j] - own[j])
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


# -- its descent


@compiled
def cubic_step(a: float, fa: float, da: float, b: float, fb: float, db: float, other_root: bool) -> float:
    """From `b` towards the minimum of the cubic with these values and slopes at `a` and `b`, in units of a - b."""
    theta = 3.0 * (fa - fb) / (b - a) + da + db
    s = max(abs(theta), abs(da), abs(db))
    gamma = s * math.sqrt(max(0.0, (theta / s) ** 2 - (da / s) * (db / s)))
    if other_root:
        gamma = -gamma
    return ((gamma - db) + theta) / (((gamma - db) + gamma) + da)


@compiled
def next_step(
    ends: Ends, step: float, f: float, d: float, bracketed: bool, low: float, high: float
) -> tuple[Ends, float, bool]:
    """The ends and the step of Moré and Thuente after a trial with value `f` and slope `d`: four cases, by what the trial is like."""
    x, fx, dx, y, fy, dy = ends
    turns = d * (dx / abs(dx)) < 0.0
    secant = step + (d / (d - dx)) * (x - step) if d != dx else step
    if f > fx:  # higher: the minimum is between
        cubic = x + cubic_step(step, f, d, x, fx, dx, step < x) * (step - x)
        parabola = x + ((dx / ((fx - f) / (step - x) + dx)) / 2.0) * (step - x)
        to = cubic if abs(cubic - x) < abs(parabola - x) else cubic + (parabola - cubic) / 2.0
        bracketed = True
    elif turns:  # lower, and rising again
        cubic = step + cubic_step(x, fx, dx, step, f, d, step > x) * (x - step)
        to = cubic if abs(cubic - step) > abs(secant - step) else secant
        bracketed = True
    elif abs(d) < abs(dx):  # lower, falling less steeply
        theta = 3.0 * (fx - f) / (step - x) + dx + d
        s = max(abs(theta), abs(dx), abs(d))
        gamma = s * math.sqrt(max(0.0, (theta / s) ** 2 - (dx / s) * (d / s)))
        gamma = -gamma if step > x else gamma
        r = ((gamma - d) + theta) / ((gamma + (dx - d)) + gamma)
        cubic = step + r * (x - step) if r < 0.0 and gamma != 0.0 else high if step > x else low
        if bracketed:
            to = cubic if abs(cubic - step) < abs(secant - step) else secant
            to = min(step + 0.66 * (y - step), to) if step > x else max(step + 0.66 * (y - step), to)
        else:
            to = cubic if abs(cubic - step) > abs(secant - step) else secant
            to = max(low, min(high, to))
    elif bracketed:  # lower, falling as steeply
        to = step + cubic_step(y, fy, dy, step, f, d, step > y) * (y - step)
    else:
        to = high if step > x else low
    if f > fx:
        y, fy, dy = step, f, d
    else:
        if turns:
            y, fy, dy = x, fx, dx
        x, fx, dx = step, f, d
    return (x, fx, dx, y, fy, dy), to, bracketed


@compiled
def line_search(
    start: Array,
    direction: Array,
    f0: float,
    slope: float,
    step: float,
    classes: int,
    blocks: Array,
    longest: float,
    codes: Labels,
    importance: Array,
    at: Array,
    gradient: Array,
) -> tuple[float, float]:
    """A step that decreases enough and ends flatter: the value there, with `at` and `gradient`, and the step; 0 if there is none."""
    promised = ENOUGH * slope
    ends = (0.0, f0, slope, 0.0, f0, slope)
    bracketed, first_stage = step < 0.0, True  # no literal: `next_step` would be compiled twice
    low, high = 0.0, 5.0 * step
    width, before = LONGEST_STEP, 2.0 * LONGEST_STEP
    for _ in range(TRIALS):
        put_sum(start, step, direction, at)
        f = logistic_loss(at, classes, blocks, longest, codes, importance, gradient)
        d = dot(gradient, direction)
        enough = f0 + step * promised
        if first_stage and f <= enough and d >= 0.0:
            first_stage = False
        exhausted = bracketed and (step <= low or step >= high or high - low <= NARROW * high)
        at_end = (step == LONGEST_STEP and f <= enough and d <= promised) or (
            step == 0.0 and (f > enough or d >= promised)
        )
        if exhausted or at_end or (f <= enough and abs(d) <= FLATTER * -slope):
            return f, step
        if first_stage and f <= ends[1] and f > enough:  # on the function less the decrease that is asked for
            x, fx, dx, y, fy, dy = ends
            lowered = (x, fx - x * promised, dx - promised, y, fy - y * promised, dy - promised)
            lowered, step, bracketed = next_step(lowered, step, f - step * promised, d - promised, bracketed, low, high)
            x, fx, dx, y, fy, dy = lowered
            ends = (x, fx + x * promised, dx + promised, y, fy + y * promised, dy + promised)
        else:
            ends, step, bracketed = next_step(ends, step, f, d, bracketed, low, high)
        best, other = ends[0], ends[3]
        if bracketed:
            if abs(other - best) >= 0.66 * before:
                step = best + 0.5 * (other - best)
            before, width = width, abs(other - best)
            low, high = min(best, other), max(best, other)
        else:
            low, high = step + 1.1 * (step - best), step + 4.0 * (step - best)
        step = max(0.0, min(LONGEST_STEP, step))
        if bracketed and (step <= low or step >= high or high - low <= NARROW * high):
            step = best
    return f0, 0.0


@compiled
def turn_downhill(
    gradient: Array, steps: Array, changes: Array, products: Array, kept: int, newest: int, out: Array
) -> None:
    """`out` = minus the gradient times the inverse Hessian that the pairs in memory suggest."""
    for j in range(out.size):
        out[j] = -gradient[j]
    weights = np.empty(PAIRS)
    for age in range(kept):
        k = (newest - age) % PAIRS
        weights[age] = dot(steps[k], out) / products[k]
        put_sum(out, -weights[age], changes[k], out)
    if kept:
        scale = products[newest] / dot(changes[newest], changes[newest])
        for j in range(out.size):
            out[j] *= scale
    for age in range(kept - 1, -1, -1):
        k = (newest - age) % PAIRS
        put_sum(out, weights[age] - dot(changes[k], out) / products[k], steps[k], out)


@compiled
def descend(
    at_most: int,
    max_steps: int,
    state: tuple[Array, Array, Array, Array, Array, Array, Labels],
    classes: int,
    blocks: Array,
    longest: float,
    codes: Labels,
    importance: Array,
    gradient_tolerance: float,
    relative_tolerance: float,
) -> int:
    """Take some steps from `state` on, which is changed, and say how it ended; the other arguments are those of `logistic_loss`."""
    x, gradient, value, steps, changes, products, counts = state
    n = len(x)
    at, there, direction = np.empty(n), np.empty(n), np.empty(n)
    if not counts[TAKEN] and largest(gradient) <= gradient_tolerance:
        return CONVERGED
    end = min(counts[TAKEN] + at_most, max_steps)
    while counts[TAKEN] < end:
        kept, newest, f = counts[KEPT], counts[NEWEST], value[0]
        turn_downhill(gradient, steps, changes, products, kept, newest, direction)
        slope = dot(gradient, direction)
        step = 0.0
        if slope < 0.0:
            first = 1.0 if counts[TAKEN] else min(1.0 / math.sqrt(dot(direction, direction)), LONGEST_STEP)
            lower, step = line_search(
                x, direction, f, slope, first, classes, blocks, longest, codes, importance, at, there
            )
        if step == 0.0:
            if not kept:
                return STUCK
            counts[KEPT] = 0  # start again downhill, without memory
            continue
        counts[TAKEN] += 1
        product = step * (dot(there, direction) - slope)
        if product > SPACING * -slope * step:
            newest = (newest + 1) % PAIRS
            for j in range(n):
                steps[newest, j] = step * direction[j]
            put_sum(there, -1.0, gradient, changes[newest])
            products[newest] = product
            counts[NEWEST], counts[KEPT] = newest, min(kept + 1, PAIRS)
        copy(at, x)
        copy(there, gradient)
        value[0] = lower
        flat = largest(gradient) <= gradient_tolerance
        # As in L-BFGS-B, whose last allowed step is not asked whether it was enough.
        if counts[TAKEN] < max_steps and (flat or f - lower <= relative_tolerance * max(abs(f), abs(lower), 1.0)):
            return CONVERGED
    return STOPPED if counts[TAKEN] >= max_steps else GOES_ON


def start(
    features: int, classes: int, blocks: Array, longest: float, codes: Labels, importance: Array
) -> tuple[Array, Array, Array, Array, Array, Array, Labels]:
    """At zero: the place, its gradient and value, the pairs in memory with their products, and how many of everything."""
    n = features * classes
    x, gradient = np.zeros(n), np.zeros(n)
    value = logistic_loss(x, classes, blocks, longest, codes, importance, gradient)
    memory = np.zeros((PAIRS, n)), np.zeros((PAIRS, n)), np.zeros(PAIRS)
    return x, gradient, np.array([value]), *memory, np.array([0, 0, -1], dtype=np.int64)


# -- neighbours


@compiled
def neighbour_digammas(values: Array, by_class: Labels, sizes: Labels, neighbours: int, digammas: Array) -> float:
    """Sum over rows of psi(m): how many rows of any class are nearer than the k-th neighbour of the same class.

    `values` rise; `by_class` has the places of the first class among them, rising, then those of the second, and so on, as
    many as `sizes` says. `digammas[m]` is psi(m). What is near ends between the last neighbour and the next row of the class, so only
    the rows between those two are looked through, and rows level with them (few: `neighbours` breaks ties).
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


def prepare(run: Run) -> None:
    """All that InfoMEC will call."""
    numbers, labels = np.zeros((AT_ONCE, 1)), np.zeros(AT_ONCE, np.int64)
    problem = 1, numbers[None], 1.0, labels, numbers[:, 0].copy()
    run.prepare(logistic_loss, numbers[0], *problem, numbers[0])
    memory = (numbers[0], numbers[0], numbers[0], numbers, numbers, numbers[0], labels)
    run.prepare(descend, 1, 1, memory, *problem, 1.0, 1.0)
    run.prepare(neighbour_digammas, numbers[0], labels, labels, 1, numbers[0])
