"""How many pairs must be embedded twice: recall against the number of pairs, and what more of them would bring."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from identifiable.results import Bounded, CurvePoint, PairsNeeded

LEAST_PAIRS = 25
POINTS = 5
AHEAD = (2, 4, 10)  # times the pairs that there are
NEAR = 0.01  # of the limit: enough
FAR = 100  # times the pairs that there are: no number beyond is named


def numbers_of_pairs(total: int) -> tuple[int, ...]:
    """All pairs, half of them, half again.

    >>> numbers_of_pairs(1000)
    (62, 125, 250, 500, 1000)
    """
    return tuple(n for i in reversed(range(POINTS)) if (n := total // 2**i) >= LEAST_PAIRS)


def pairs_needed(recall: Callable[[int], Bounded], total: int) -> PairsNeeded | None:
    """Recall@10 of maps fitted to more and more pairs, and its forecast; None below 100 pairs, which are too few to see a curve.

    Ours. `recall(n)` is measured with a map fitted to the first n pairs: subsets are nested, queries and index are those of the whole.
    Hold the family fixed, and its penalty as a share of the mean variance; a penalty that grows as 1 / n forecasts equally well.

    Measured on GloVe both ways, spaCy and rxnfp with rotations, ridge and half powers: the forecast of all pairs from half of
    them is off by .005 on average and .026 at most from 1,000 pairs on, by .008 and .04 from 200 on (97 % within .03). The
    weights, the number of points and the bound of the offset were chosen among 64 on these curves, so other pairs may do worse.
    """
    numbers = numbers_of_pairs(total)
    if len(numbers) < 3:
        return None
    points = tuple(CurvePoint(n, recall(n)) for n in numbers)
    limit, drop, offset = fitted_curve(numbers, [point.recall_10.value for point in points])
    near = max(math.ceil(drop / NEAR - offset), 1)
    return PairsNeeded(
        points=points,
        limit=limit,
        drop=drop,
        offset=offset,
        forecast={str(m * total): limit - drop / (m * total + offset) for m in AHEAD},
        enough=near if near <= FAR * total else None,
    )


def fitted_curve(numbers: Sequence[int], recalls: Sequence[float]) -> tuple[float, float, float]:
    """limit, drop and offset of ``limit - drop / (n + offset)`` by least squares, weighted by n: the last points are next to the forecast.

    The limit is at most 1, the drop at least 0. The offset is at most half the largest n: a map with more columns than pairs gains
    ever faster, which a larger offset would go on with.

    >>> n = [100, 200, 400, 800]
    >>> np.round(fitted_curve(n, [0.8 - 60 / (m + 50) for m in n]), 2)
    array([ 0.8, 60. , 50. ])
    """
    from scipy.optimize import minimize_scalar

    n, y = np.asarray(numbers, float), np.asarray(recalls, float)
    weight = n / n.sum()

    def at(offset: float) -> tuple[float, float, float]:
        """Limit, drop and squared error for an offset."""
        x = 1 / (n + offset)
        away = x - weight @ x
        drop = max(-float(weight @ (away * y)) / float(weight @ away**2), 0.0)
        limit = float(weight @ y) + drop * float(weight @ x)
        if limit > 1:
            limit, drop = 1.0, float(weight @ (x * (1 - y))) / float(weight @ x**2)
        return limit, drop, float(weight @ np.square(limit - drop * x - y))

    grid = n[-1] * np.r_[0.0, np.logspace(-3, math.log10(0.5), 30)]
    best = int(np.argmin([at(offset)[2] for offset in grid]))
    around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    offset = float(minimize_scalar(lambda c: at(c)[2], bounds=around, method="bounded", options={"xatol": 1e-6}).x)
    limit, drop, _ = at(offset)
    return limit, drop, offset
