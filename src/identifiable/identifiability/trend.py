"""Whether representations come closer as decoders come closer to isometries: the shape Theorem 1 predicts, as statistics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identifiable.moments import Array
from identifiable.results import Interval

RESAMPLES = 1000
RANKED = 5_000_000  # observations ranked in all resamples at most, but in 200 of them at least
FEWEST = 4  # units below which no correlation is formed


@dataclass(frozen=True)
class Trend:
    """distance = slope * sqrt(2 L + L^2) through the origin; R^2 about the mean; rank correlations. None where undefined."""

    slope: float
    r2: float | None
    spearman: float | None
    spearman_ci95: Interval | None
    within: float | None


def theorem_1_shape(constant: Array | float) -> Array:
    """sqrt(2 L + L^2) of constants 1 + L: how Theorem 1's bound grows with L."""
    constant = np.asarray(constant, dtype=np.float64)
    return np.asarray(np.sqrt(np.maximum(constant**2 - 1, 0)))


def trend(
    constants: Array, distances: Array, *, units: NDArray[np.intp], strata: NDArray[np.intp], rng: np.random.Generator
) -> Trend:
    """How `distances` follow the shape of Theorem 1 in `constants` (1 + L), observation by observation.

    Implements the one-parameter fit of A.7.1 of Nelson et al. (2026). Ours: the interval, a bootstrap that resamples
    `units` (observations of one unit are not independent), and the rank correlation within `strata`, where a common cause
    such as the leak is held fixed. Strata in which either side does not vary tell nothing and are left out.

    >>> L = np.array([0.1, 0.2, 0.5, 1.0])
    >>> found = trend(1 + L, 3 * np.sqrt(2 * L + L**2), units=np.arange(4), strata=np.zeros(4, int),
    ...               rng=np.random.default_rng(0))
    >>> round(found.slope, 6), round(found.r2, 6), round(found.spearman, 6)
    (3.0, 1.0, 1.0)
    """
    x, y = theorem_1_shape(constants), np.asarray(distances, dtype=np.float64)
    energy = float(x @ x)
    slope = float(x @ y) / energy if energy > 0 else float("nan")
    spread = float(((y - y.mean()) ** 2).sum()) if len(y) else 0.0
    r2 = 1 - float(((y - slope * x) ** 2).sum()) / spread if spread > 0 and energy > 0 else None
    whole, interval = spearman_interval(x, y, units=units, rng=rng)
    return Trend(slope, r2, whole, interval, _within(x, y, strata))


def spearman_interval(
    x: Array, y: Array, *, units: NDArray[np.intp], rng: np.random.Generator
) -> tuple[float | None, Interval | None]:
    """Rank correlation with a 95 % interval from a bootstrap over `units`; None where too few, or where nothing varies."""
    members = [np.flatnonzero(units == unit) for unit in np.unique(units)]
    whole = spearman(x, y) if len(members) >= FEWEST else None
    drawn = []
    a, b = _places(x), _places(y)  # ordered once: a resample is ranked by counting
    times = min(RESAMPLES, max(200, RANKED // max(len(x), 1)))
    for _ in range(times if whole is not None else 0):
        chosen = np.concatenate([members[k] for k in rng.integers(len(members), size=len(members))])
        value = _correlation(_ranks(a[chosen]), _ranks(b[chosen]))
        if value is not None:
            drawn.append(value)
    if not drawn:
        return whole, None
    low, high = np.quantile(drawn, (0.025, 0.975)).tolist()
    return whole, (low, high)


def spearman(x: Array, y: Array) -> float | None:
    """Rank correlation, ties sharing their mean rank; None where either does not vary."""
    return _correlation(_ranks(_places(x)), _ranks(_places(y)))


def _within(x: Array, y: Array, strata: NDArray[np.intp]) -> float | None:
    """Rank correlation with the stratum held fixed: of ranks within each, centred."""
    parts = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]
    parts = [part for part in parts if np.ptp(x[part]) > 0 and np.ptp(y[part]) > 0]
    if sum(map(len, parts)) < FEWEST + len(parts):  # each takes a degree of freedom
        return None
    ranks = [[_ranks(_places(v[part])) - (len(part) + 1) / 2 for part in parts] for v in (x, y)]
    return _correlation(*map(np.concatenate, ranks))


def _places(values: Array) -> NDArray[np.intp]:
    """Of each value, how many different ones are below it."""
    places: NDArray[np.intp] = np.unique(values, return_inverse=True)[1]
    return places


def _ranks(places: NDArray[np.intp]) -> Array:
    """Ranks from 1 on, ties at their mean."""
    count = np.bincount(places)
    ranks: Array = (np.cumsum(count) - (count - 1) / 2)[places]
    return ranks


def _correlation(a: Array, b: Array) -> float | None:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else None
