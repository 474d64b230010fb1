"""Intervals and false discovery rates: draws of plates, plates left out in turn, and q-values."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
from scipy.stats import false_discovery_control, norm, t

from identifiable.deconfounding.design import Codes, Labels
from identifiable.moments import Array
from identifiable.results import Interval

NO_INTERVAL: Interval = (float("nan"), float("nan"))
TWICE_USED = float(np.sqrt(2))  # see `interval`
FEW_GROUPS = 10  # groups below which an interval from resampling them is rough
MOST_GROUPS = 40  # left out one by one: with more, t reaches at most 4 % less far
FEWEST_GROUPS = 3  # of two the variance is that of a single difference
ROUNDING = 1e-9  # of sums of shares
DRAWS = 500  # of values, or of what they belong to


# -- draws of plates


def plate_draws(plates: int, draws: int, rng: np.random.Generator) -> Array:
    """How often every plate is drawn: first all of them once, then `draws` samples with replacement."""
    resampled = rng.multinomial(plates, np.full(plates, 1 / plates), size=draws)
    return np.vstack([np.ones(plates), resampled]).astype(np.float64)


def mean_of(parts: Iterable[Array]) -> Array:
    """The mean draw by draw of what is there: a draw may leave a fold without positives."""
    table = np.stack(list(parts))
    known = np.isfinite(table)
    total = np.where(known, table, 0.0).sum(axis=0)
    return ratio(total, known.sum(axis=0).astype(np.float64))


def ratio(above: Array, below: Array) -> Array:
    """One over the other, NaN where there is nothing to divide by."""
    result: Array = np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)
    return result


def interval(
    draws: Array, groups: int, *, crossed: bool = True, bounded: bool = False, spread: float = float("nan")
) -> Interval:
    r"""The 95 % interval of what stands at place 0, from the draws of groups after it.

    Ours. Percentiles of the draws, their distances from the mean of the draws widened by
        sqrt(2) * sqrt(G / (G - 1)) * t_{G-1} / z,
    t and z the 97.5 % points of Student's and the normal distribution, and laid about the value. A draw that hits a plate twice
    counts the pairs within it four times, so draws are off, all in one direction: by 0.03 where a perturbation is on three
    plates, and where scores are the same all over a plate (plate alone) its own pairs are ties, so that an interval about the
    mean of the draws, 0.51 to 0.60, once left its own value 0.61 out. Where draws are so skewed that even their percentiles
    leave their mean out, the interval ends at the value.

    The factor sqrt(2) is for `crossed` folds. The draws keep the models and resample only what they are tested on. But in
    cross-validation every two plates meet twice, one in training and the other in test, and then the other way round: where
    there is little to find, the value is a sum over pairs of plates, each counted twice, and its variance is twice what the
    draws show. Measured (30 plates, 16 features, 100 worlds each, AUROC 0.50 to 0.65, trees and ridge): standard deviations
    1.27 to 1.45 times those of the draws, of AUROC and of paired differences alike; at AUROC 0.8 1.13 to 1.26, so strong
    effects have intervals that are somewhat too wide. benchmarks/screen_calibration.py gives the coverage. Without the factor 0.83
    instead of 0.95 covered 0.5, of what position scores in 200 random layouts of 40 plates.

    `bounded` cuts the interval at 0 and 1, for an AUROC. Where no two draws differ (every positive above every negative), the draws
    say nothing of how certain the value is, and an interval without width would seem certain. It is then made of `spread`, the
    standard deviation that scores have which tell nothing (`null_spread`), the largest there is; without one there is no interval.
    """
    known = draws[1:][np.isfinite(draws[1:])]
    if len(known) < 2 or groups < 2 or not np.isfinite(draws[0]):
        return NO_INTERVAL
    widened = _widening(groups, crossed)
    if agree(draws):
        if not np.isfinite(spread):
            return NO_INTERVAL
        reach = np.array([-1.0, 1.0]) * float(norm.ppf(0.975)) * spread
    else:
        reach = np.quantile(known, [0.025, 0.975]) - known.mean()
    low, high = draws[0] + widened * reach
    low, high = min(low, draws[0]), max(high, draws[0])
    return (float(max(low, 0.0)), float(min(high, 1.0))) if bounded else (float(low), float(high))


def agree(draws: Array) -> bool:
    """Whether there are draws and no two of them differ, but for rounding."""
    known = draws[np.isfinite(draws)]
    return bool(len(known) > 2 and np.ptp(known) <= ROUNDING)


def null_spread(positives: int, negatives: int) -> float:
    """Standard deviation of the AUROC of scores that tell nothing (Mann and Whitney 1947)."""
    return float(np.sqrt((positives + negatives + 1) / (12 * max(positives * negatives, 1))))


def least_of_many(draws: Array, spreads: Array, groups: int, *, crossed: bool = True) -> Array:
    r"""Lower ends of intervals of AUROCs that hold all at once with 95 %: a line of draws each, `spreads` under chance.

    Ours. With q the 95 % point of the largest of all lines' deviations in a draw, each in units of its standard deviation, the
    ends are value - w q s, w as in `interval`. The lines share their draws, so what they have in common is not paid for twice. s
    is a line's standard deviation, or that under chance if that is larger: few positives that are ranked perfectly have draws
    without any spread, which is no evidence. NaN without draws.
    """
    values, drawn = draws[:, 0], draws[:, 1:]
    if not len(draws) or drawn.shape[1] < 2 or groups < 2:
        return np.full(len(draws), np.nan)
    known = np.isfinite(drawn)
    counts = np.maximum(known.sum(axis=1), 1)
    means = np.where(known, drawn, 0.0).sum(axis=1) / counts
    off = np.where(known, drawn - means[:, None], 0.0)
    own = np.sqrt((off**2).sum(axis=1) / counts)
    scale = np.maximum(own, spreads)
    largest = (np.abs(off) / np.where(own > 0, own, 1.0)[:, None]).max(axis=0)
    reach = max(float(np.quantile(largest, 0.95)), float(norm.ppf(0.975)))
    result: Array = values - _widening(groups, crossed) * reach * scale
    return result


@cache
def _widening(groups: int, crossed: bool) -> float:
    of_few = float(np.sqrt(groups / (groups - 1)) * t.ppf(0.975, groups - 1) / norm.ppf(0.975))
    return of_few * (TWICE_USED if crossed else 1.0)


# -- plates left out in turn


def jackknife(value: Array, without: Array) -> tuple[Array, Array]:
    r"""95 % intervals of values from what they are without each of G groups: (groups, values), or (groups,) of one.

    Delete-a-group jackknife (Tukey 1958): with m_g the value without group g, the variance is (G - 1) / G * sum_g (m_g - mean of
    m)^2, which on average is no smaller than the true one (Efron and Stein 1981); Student's t with G - 1 degrees of freedom.

    >>> low, high = jackknife(np.array([1.0]), np.array([[0.9], [1.1]]))
    >>> bool(low[0] < 1 < high[0])
    True
    """
    parts = len(without)
    error = np.sqrt((parts - 1) / parts * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    half = float(t.ppf(0.975, max(parts - 1, 1))) * error
    return value - half, value + half


def plate_groups(plates: Labels, seed: int = 0) -> Labels:
    """The plates, or where there are more than 40, that many groups of them at random, whose sizes differ by one plate at most."""
    if plates.size <= MOST_GROUPS:
        return plates
    place = np.random.default_rng([seed, plates.size]).permutation(plates.size) % MOST_GROUPS
    return Labels(place[plates.codes].astype(np.intp), tuple(f"group {k}" for k in range(MOST_GROUPS)))


def jackknifed_mean(sums: Array, counts: Array) -> tuple[float, Interval]:
    r"""A mean and its 95 % interval by leaving groups out: sums and counts at place 0 of all, then without each of G groups.

    Measured for replicate mAP of wells and its differences between spaces on 8, 16 and 40 plates (60 to 100 worlds each): standard
    errors are 1.0 to 1.2 times the standard deviation where perturbations and plates have effects, and intervals cover 97 to 98 %; in
    noise, where nothing but pairs of plates meet by chance, 1.4 to 1.8 times, and they cover 98 to 100 %. Draws of the plates that
    ask fell short by half where effects were weak, and so covered 85 %; the variance of pairs of plates (Fafchamps and Gubert 2007),
    which forgets the controls, covered 81 %.
    """
    if not counts[0]:
        return float("nan"), NO_INTERVAL
    mean = float(sums[0] / counts[0])
    groups = len(counts) - 1
    if groups < FEWEST_GROUPS or not (counts[1:] > 0).all():  # a group without which nothing is left tells all
        return mean, NO_INTERVAL
    low, high = jackknife(np.asarray(mean), sums[1:] / counts[1:])
    return mean, (float(low), float(high))


# -- draws of single values


def interval_of_mean(values: Array, rng: np.random.Generator, units: Codes | None = None) -> Interval:
    """95 % interval of the mean of values that are numbers, by drawing them (or their `units`, whole) with replacement."""
    known = ~np.isnan(values)
    which = np.arange(int(known.sum())) if units is None else np.unique(units[known], return_inverse=True)[1]
    counts = np.bincount(which)
    if len(counts) < 2:
        return NO_INTERVAL
    drawn = rng.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), size=DRAWS)
    return _percentiles(drawn @ np.bincount(which, weights=values[known]) / (drawn @ counts))


def interval_of_median(values: Array, rng: np.random.Generator, units: Codes) -> Interval:
    order = np.argsort(values)
    values = values[order]
    which = np.unique(units[order], return_inverse=True)[1]
    size = int(which.max()) + 1
    if size < 2:
        return NO_INTERVAL
    medians = np.empty(DRAWS)
    for i in range(DRAWS):
        weight = np.cumsum(rng.multinomial(size, np.full(size, 1 / size))[which])
        medians[i] = values[np.searchsorted(weight, weight[-1] / 2)]
    return _percentiles(medians)


def _percentiles(draws: Array) -> Interval:
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(low), float(high)


# -- false discovery


def q_values(p: Array) -> Array:
    """Benjamini-Hochberg over those that are numbers; NaN stays."""
    q, known = np.full(len(p), np.nan), ~np.isnan(p)
    if known.any():
        q[known] = false_discovery_control(p[known])
    return q
