"""Sparsity of the features a tree ensemble splits on, beside what chance gives, and its concentration in few of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable.results import Concentration

NULL_DRAWS = 256  # the standard deviation of one draw is about 0.01, so the mean is known to 0.001


def hoyer(counts: NDArray[Any]) -> float:
    r"""Sparsity of non-negative counts over d features: 0 if all are equal, 1 if one has everything.

    Implements step 8 of the paper's protocol (Hoyer 2004, section 3.1): with shares p = counts / sum,
        (sqrt(d) - 1 / |p|_2) / (sqrt(d) - 1).
    NaN without any count, and for a single feature.

    >>> hoyer(np.array([3, 0, 0, 0])), hoyer(np.array([2, 2, 2, 2]))
    (1.0, 0.0)
    """
    counts = np.asarray(counts, dtype=np.float64)
    total, d = float(counts.sum()), len(counts)
    if total <= 0 or d < 2:
        return float("nan")
    root = float(np.sqrt(d))
    return float((root - total / np.linalg.norm(counts)) / (root - 1))


@lru_cache(maxsize=4096)
def hoyer_null(splits: int, features: int) -> float:
    """The mean of `hoyer` where so many splits fall on features at random, each as likely.

    Ours: few splits look sparse by chance alone, so a sparsity says nothing without its number of splits. Drawn
    `NULL_DRAWS` times from the multinomial distribution, the same draws for the same two numbers.

    >>> round(hoyer_null(1000, 384), 2)
    0.16
    """
    if splits < 1 or features < 2:
        return float("nan")
    rng = np.random.default_rng([splits, features])
    counts = rng.multinomial(splits, np.full(features, 1 / features), size=NULL_DRAWS)
    lengths = np.linalg.norm(counts, axis=1)
    root = float(np.sqrt(features))
    return float(((root - splits / lengths) / (root - 1)).mean())


def split_features(counts: NDArray[Any], percent: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The top per cent of features by count, and the rest; ties in an order drawn by `seed`, not by place.

    Leading principal components come first, so the order of columns must not decide among features never split on.
    """
    d = len(counts)
    shuffled = np.random.default_rng([seed, 23]).permutation(d)
    order = shuffled[np.argsort(-np.asarray(counts)[shuffled], kind="stable")]
    top = top_count(d, percent)
    return np.sort(order[:top]), np.sort(order[top:])


def top_count(features: int, percent: float) -> int:
    """How many features are the top per cent: at least one, and at least one is left."""
    return min(max(round(features * percent / 100), 1), features - 1)


def check_percents(percents: Any) -> None:
    """Refuse what cannot be a share of the features."""
    for percent in percents:
        if not 0 < percent < 100:
            raise UsageError(f"concentration {percent!r}: expected a per cent of features, above 0 and below 100.")


def concentration(percent: float, features: int, top: float, rest: float, whole: float) -> Concentration:
    """The candidates for the paper's lost formula, from three AUROCs. Reconstructed."""
    above = rest - 0.5
    return Concentration(
        percent=percent,
        features=features,
        top=top,
        rest=rest,
        whole=whole,
        difference=top - rest,
        ratio=top / rest - 1 if rest else float("nan"),
        above_chance=(top - rest) / above if above else float("nan"),
    )
