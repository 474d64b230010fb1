"""The rule: which correction is best by all metrics at once, and which ones it ties with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from identifiable.deconfounding.design import Mask
from identifiable.deconfounding.intervals import FEWEST_GROUPS
from identifiable.deconfounding.metrics.retrieval import BATCH_READABLE, BIOLOGICAL
from identifiable.moments import Array


@dataclass(frozen=True, eq=False)
class Sums:
    """A metric of every candidate as sums over the queries of each group: `total` (candidates, groups), `weight` (groups)."""

    total: Array
    weight: Array

    @property
    def means(self) -> Array:
        found: Array = self.total.sum(axis=1) / self.weight.sum()
        return found

    def less(self, other: int) -> tuple[Array, Array]:
        """The paired difference of every candidate to one of them, and its standard error by leaving out groups of queries.

        Without 3 groups there is no standard error (NaN).
        """
        asked = self.weight > 0
        total, weight = self.total[:, asked], self.weight[asked]
        off = total - total[other]
        difference = off.sum(axis=1) / weight.sum()
        groups = len(weight)
        if groups < FEWEST_GROUPS:
            return difference, np.full(len(difference), np.nan)
        without = (off.sum(axis=1, keepdims=True) - off) / (weight.sum() - weight)
        spread = without - without.mean(axis=1, keepdims=True)
        return difference, np.sqrt((groups - 1) / groups * (spread**2).sum(axis=1))

    @property
    def reach(self) -> float:
        """How many standard errors a 95 % interval reaches."""
        return float(t.ppf(0.975, max(int((self.weight > 0).sum()) - 1, 1)))


@dataclass(frozen=True, eq=False)
class Choice:
    """The candidate to use, those it ties with, and what every candidate is worth.

    `worth` is the smallest difference to the input over the biological metrics; `harmless` whether none of them falls below it.
    `contender` is the best harmless correction, chosen or not; None where there is none.
    """

    chosen: int
    tied: Mask
    worth: Array
    harmless: Mask
    contender: int | None = None


def choose(sums: Mapping[str, Sums], inputs: Mask, margin: float) -> Choice:
    r"""The candidate to use. Ours.

    1. In every biological metric m the input is the better of the table as it is and its z-scored columns. d_m is a candidate's
       difference to it, h_m the half width of its 95 % interval over groups of batches.
    2. A candidate is harmless if in every metric the interval does not reach below -margin: d_m >= h_m - margin. Where the
       screen is so small that h_m > margin, no candidate could show this; there the value itself must not be below the input:
       d_m >= 0. So it must hold that d_m >= min(h_m - margin, 0).
    3. Of the harmless candidates the best is that with the largest smallest difference, min_m d_m: no metric is bought with
       another.
    4. It ties with every harmless candidate that is within one standard error of it in every metric (the one-standard-error rule
       of Breiman et al. 1984, paired). Of these the one in which batches are least readable is chosen. (In 24 simulated
       screens of 500 to 900 wells nested choices gained 0.011 in the mean biological metric; 0.012 with ties of two errors, and
       0.013 with the mean in place of the smallest difference: no rule is clearly better.)
    5. It is chosen over the input only if it differs from it by at least the margin and by more than a standard error: above in
       some biological metric, or below in readability. What is too small to be a harm is too small to be a gain. Otherwise
       the input is chosen: that which is the better one in most metrics.
    """
    biological = [found for name, found in sums.items() if name in BIOLOGICAL]
    size = len(inputs)
    if not biological:
        keep = int(np.flatnonzero(inputs)[0])
        return Choice(keep, _only(keep, size), np.full(size, np.nan), inputs.copy())
    differences, errors, references = [], [], []
    harmless = np.ones(size, dtype=bool)
    for found in biological:
        reference = _reference(found, inputs)
        difference, error = found.less(reference)
        half = np.where(np.isnan(error), np.inf, found.reach * error)
        harmless &= difference >= np.minimum(half - margin, 0.0)
        differences.append(difference)
        errors.append(error)
        references.append(reference)
    worth = np.min(differences, axis=0)
    keep = max(references, key=references.count)
    free = harmless & ~inputs
    if not free.any():
        return Choice(keep, _only(keep, size), worth, harmless)
    best = int(np.flatnonzero(free)[worth[free].argmax()])
    tied = free.copy()
    for found in biological:
        difference, error = found.less(best)
        tied &= difference >= -np.nan_to_num(error)
    tied[best] = True
    readable = sums.get(BATCH_READABLE)
    chosen = best if readable is None else int(np.flatnonzero(tied)[readable.means[tied].argmin()])
    gains = [(d[chosen], e[chosen]) for d, e in zip(differences, errors, strict=True)]
    if readable is not None:
        difference, error = readable.less(keep)
        gains.append((-difference[chosen], error[chosen]))
    helps = any(gain >= margin and gain > np.nan_to_num(error) for gain, error in gains)
    return Choice(chosen if helps else keep, tied, worth, harmless, chosen)


def _only(place: int, size: int) -> Mask:
    found: Mask = np.arange(size) == place
    return found


def _reference(found: Sums, inputs: Mask) -> int:
    """The better of the inputs."""
    places = np.flatnonzero(inputs)
    return int(places[found.means[places].argmax()])
