"""L-BFGS on the loss of a regression, compiled together with it, on the path that scipy's L-BFGS-B takes without bounds.

A regression of InfoE is some hundred steps of less than a millisecond, and scipy's layers of Python around each took a sixth of
all its time, holding Python's lock. The direction is that of Liu and Nocedal (1989) from ten pairs, the step that of Moré and Thuente
(1994) with L-BFGS-B's settings. `tests/test_infomec.py` holds both to scipy's, iterate by iterate.
"""

from __future__ import annotations

import math

import numpy as np

from identifiable.disentanglement.codes import Array, Labels
from identifiable.disentanglement.kernels import compiled, logistic_loss

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
    own: Array,
    at: Array,
    gradient: Array,
) -> tuple[float, float]:
    """A step that decreases enough and ends flatter: the value there, with `at` and `gradient`, and the step; 0 if there is none."""
    promised = ENOUGH * slope
    ends = (0.0, f0, slope, 0.0, f0, slope)
    bracketed, first_stage = False, True
    low, high = 0.0, 5.0 * step
    width, before = LONGEST_STEP, 2.0 * LONGEST_STEP
    for _ in range(TRIALS):
        at[:] = step * direction + start
        f = logistic_loss(at, classes, blocks, longest, codes, importance, own, gradient)
        d = float(np.dot(gradient, direction))
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
    out[:] = -gradient
    weights = np.empty(PAIRS)
    for age in range(kept):
        k = (newest - age) % PAIRS
        weights[age] = np.dot(steps[k], out) / products[k]
        out -= weights[age] * changes[k]
    if kept:
        out *= products[newest] / np.dot(changes[newest], changes[newest])
    for age in range(kept - 1, -1, -1):
        k = (newest - age) % PAIRS
        out += (weights[age] - np.dot(changes[k], out) / products[k]) * steps[k]


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
    own: Array,
    gradient_tolerance: float,
    relative_tolerance: float,
) -> int:
    """Take some steps from `state` on, which is changed, and say how it ended. All from `classes` to `own` is for `logistic_loss`."""
    x, gradient, value, steps, changes, products, counts = state
    n = len(x)
    at, there, direction = np.empty(n), np.empty(n), np.empty(n)
    if not counts[TAKEN]:
        value[0] = logistic_loss(x, classes, blocks, longest, codes, importance, own, gradient)
        if np.abs(gradient).max() <= gradient_tolerance:
            return CONVERGED
    end = min(counts[TAKEN] + at_most, max_steps)
    while counts[TAKEN] < end:
        kept, newest, f = counts[KEPT], counts[NEWEST], value[0]
        turn_downhill(gradient, steps, changes, products, kept, newest, direction)
        slope = float(np.dot(gradient, direction))
        step = 0.0
        if slope < 0.0:
            first = 1.0 if counts[TAKEN] else min(1.0 / math.sqrt(np.dot(direction, direction)), LONGEST_STEP)
            lower, step = line_search(
                x, direction, f, slope, first, classes, blocks, longest, codes, importance, own, at, there
            )
        if step == 0.0:
            if not kept:
                return STUCK
            counts[KEPT] = 0  # start again downhill, without memory
            continue
        counts[TAKEN] += 1
        product = step * (float(np.dot(there, direction)) - slope)
        if product > SPACING * -slope * step:
            newest = (newest + 1) % PAIRS
            steps[newest], changes[newest], products[newest] = step * direction, there - gradient, product
            counts[NEWEST], counts[KEPT] = newest, min(kept + 1, PAIRS)
        x[:], gradient[:], value[0] = at, there, lower
        flat = np.abs(gradient).max() <= gradient_tolerance
        # As in L-BFGS-B, whose last allowed step is not asked whether it was enough.
        if counts[TAKEN] < max_steps and (flat or f - lower <= relative_tolerance * max(abs(f), abs(lower), 1.0)):
            return CONVERGED
    return STOPPED if counts[TAKEN] >= max_steps else GOES_ON


def start(n: int) -> tuple[Array, Array, Array, Array, Array, Array, Labels]:
    """At zero: the place, its gradient and value, the pairs in memory with their products, and how many of everything."""
    memory = np.zeros((PAIRS, n)), np.zeros((PAIRS, n)), np.zeros(PAIRS)
    return np.zeros(n), np.zeros(n), np.zeros(1), *memory, np.array([0, 0, -1], dtype=np.int64)
