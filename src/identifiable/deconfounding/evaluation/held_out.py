"""AUROC on rows held out, pooled and within plate, for the plates as they are and for draws of plates.

A draw counts every plate a whole number of times. Over all pairs of plates p, q let U_pq count the pairs of a positive in p
and a negative in q that are ranked rightly (ties half). Then for any draw w
    AUROC(w) = sum_pq w_p w_q U_pq / (sum_p w_p P_p  sum_q w_q N_q),
so rows are sorted once and a thousand draws are one matrix product.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

from identifiable.deconfounding.design import Codes, Labels, Mask
from identifiable.deconfounding.evaluation.keeping import fingerprint
from identifiable.moments import Array
from identifiable.results import Interval

TWICE_USED = float(np.sqrt(2))  # see `interval`
NO_INTERVAL: Interval = (float("nan"), float("nan"))


@dataclass(frozen=True, eq=False)
class GroupDraws:
    """How often every group (a plate, a batch) counts: first once each, then in draws with replacement."""

    groups: Labels
    weights: Array

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.groups.codes, self.weights)

    @classmethod
    def of(cls, groups: Labels, draws: int, seed: int) -> GroupDraws:
        """All conditions share the draws of one seed, so that differences between them are paired."""
        rng = np.random.default_rng([seed, 31])
        counts = rng.multinomial(groups.size, np.full(groups.size, 1 / groups.size), size=draws)
        return cls(groups, np.vstack([np.ones(groups.size), counts]).astype(np.float64))


@dataclass(frozen=True, eq=False)
class DrawnScores:
    """AUROC of one classifier on one fold: of the plates as they are at place 0, of draws of plates after it.

    `pooled` ranks all positives against all negatives, `within` every positive against the negatives of its own plate, a
    positive on a plate without negatives left out. NaN where a draw leaves nothing to rank.
    """

    pooled: Array
    within: Array


def auroc(scores: NDArray[Any], positive: Mask) -> float:
    """Probability that a positive scores above a negative, ties counted half; NaN with one class only.

    >>> auroc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    above, ones, zeros = _pairs(np.asarray(scores), positive, np.zeros(len(scores), dtype=np.intp), 1)
    pairs = float(ones[0] * zeros[0])
    return float(above[0, 0] / pairs) if pairs else float("nan")


def within_plate(scores: NDArray[Any], positive: Mask, plate: Codes) -> float:
    """The mean over positives of the share of their own plate's negatives they exceed, ties counted half."""
    shares, counted = _own_plate(np.asarray(scores), positive, plate)
    return float(shares[counted].mean()) if counted.any() else float("nan")


def score_draws(scores: NDArray[Any], positive: Mask, rows: Codes, plate: Labels, draws: GroupDraws) -> DrawnScores:
    """Both AUROCs of test rows, given by their places in the design, for every draw of groups."""
    scores = np.asarray(scores)
    present, group = np.unique(draws.groups.codes[rows], return_inverse=True)
    weights = draws.weights[:, present]
    above, ones, zeros = _pairs(scores, positive, group, len(present))
    pooled = _ratio(np.einsum("bq,bq->b", weights @ above, weights), (weights @ ones) * (weights @ zeros))
    shares, counted = _own_plate(scores, positive, plate.codes[rows])
    of_positives = group[positive]
    earned = np.bincount(of_positives[counted], weights=shares[counted], minlength=len(present))
    ranked = np.bincount(of_positives[counted], minlength=len(present)).astype(np.float64)
    return DrawnScores(pooled, _ratio(weights @ earned, weights @ ranked))


def _ratio(above: Array, below: Array) -> Array:
    result: Array = np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)
    return result


def _pairs(scores: NDArray[Any], positive: Mask, group: Codes, groups: int) -> tuple[Array, Array, Array]:
    """U of every two groups, and positives and negatives of each."""
    ones, zeros = (np.bincount(group[mask], minlength=groups).astype(np.float64) for mask in (positive, ~positive))
    order = np.argsort(scores[positive], kind="stable")
    ranked, of_ranked = scores[positive][order], group[positive][order]
    negative, of_negative = scores[~positive], group[~positive]
    # A negative lies below all positives from a place on; half counted from where it is reached, half from where exceeded.
    below = np.zeros((len(ranked) + 1, groups))
    for side in ("left", "right"):
        place = np.searchsorted(ranked, negative, side=side)
        counts = np.bincount(place * groups + of_negative, minlength=below.size)
        below += counts.reshape(below.shape) / 2
    np.cumsum(below, axis=0, out=below)
    above = np.zeros((groups, groups))
    by_group = np.argsort(of_ranked, kind="stable")
    held, starts = np.unique(of_ranked[by_group], return_index=True)
    if len(held):
        above[held] = np.add.reduceat(below[:-1][by_group], starts, axis=0)
    return above, ones, zeros


def _own_plate(scores: NDArray[Any], positive: Mask, plate: Codes) -> tuple[Array, Mask]:
    """Of every positive the share of its plate's negatives it exceeds, and whether there are any."""
    levels, rank = np.unique(scores, return_inverse=True)
    key = plate.astype(np.int64) * len(levels) + rank
    negative = np.sort(key[~positive])
    start = np.searchsorted(negative, plate[positive].astype(np.int64) * len(levels))
    end = np.searchsorted(negative, (plate[positive].astype(np.int64) + 1) * len(levels))
    reached = np.searchsorted(negative, key[positive], side="left") + np.searchsorted(
        negative, key[positive], side="right"
    )
    counted: Mask = end > start
    return np.where(counted, (reached / 2 - start) / np.maximum(end - start, 1), 0.0), counted


def mean_of(parts: Iterable[Array]) -> Array:
    """The mean draw by draw of what is there: a draw may leave a fold without positives."""
    table = np.stack(list(parts))
    known = np.isfinite(table)
    total = np.where(known, table, 0.0).sum(axis=0)
    return _ratio(total, known.sum(axis=0).astype(np.float64))


def interval(draws: Array, groups: int, *, crossed: bool = True) -> Interval:
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
    effects have intervals that are somewhat too wide. benchmarks/screen_calibration.py gives the coverage.
    """
    known = draws[1:][np.isfinite(draws[1:])]
    if len(known) < 2 or groups < 2 or not np.isfinite(draws[0]):
        return NO_INTERVAL
    widened = _widening(groups, crossed)
    low, high = draws[0] + widened * (np.quantile(known, [0.025, 0.975]) - known.mean())
    return float(min(low, draws[0])), float(max(high, draws[0]))


def null_spread(positives: int, negatives: int) -> float:
    """Standard deviation of the AUROC of scores that tell nothing (Mann and Whitney 1947)."""
    return float(np.sqrt((positives + negatives + 1) / (12 * max(positives * negatives, 1))))


def least_of_many(draws: Array, spreads: Array, groups: int, *, crossed: bool = True) -> Array:
    r"""Lower ends of intervals of several AUROCs that hold all at once with 95 %: a line of draws each, `spreads` under chance.

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


def _widening(groups: int, crossed: bool) -> float:
    of_few = float(np.sqrt(groups / (groups - 1)) * t.ppf(0.975, groups - 1) / norm.ppf(0.975))
    return of_few * (TWICE_USED if crossed else 1.0)
