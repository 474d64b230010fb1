"""Are known relations among the most alike, or the most opposed, of all pairs? Known-relationship recall."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.deconfounding.design import Codes, Mask
from identifiable.deconfounding.metrics.left_out import NO_INTERVAL, jackknifed_mean
from identifiable.deconfounding.metrics.matrices import Array, as_matrix, row_blocks, unit_rows
from identifiable.results.record import Interval

THRESHOLDS = (0.05, 0.95)  # efaar_benchmarking
FEWEST_PAIRS = 5  # to give an interval of


@dataclass(frozen=True)
class RelationshipRecall:
    """The share of known pairs in either tail of the cosines of all pairs.

    `opposed` and `alike` are the shares in the lower and the upper tail, `recall` their sum, `chance` what it would be of pairs
    that are no different from others. `used` of `given` different pairs have both ends in the map; `pairs` counts all
    pairs of the map. NaN where no pair can be used. `ci95` of the recall leaves each name out in turn with all its pairs (ours): pairs
    that share a gene are not found or missed each by itself. It is on the safe side (a pair goes with either of its names, so where no
    two share one the variance is twice what it need be), and NaN for fewer than 5 pairs or where all or none are found.
    """

    recall: float
    opposed: float
    alike: float
    chance: float
    thresholds: tuple[float, float]
    used: int
    given: int
    pairs: int
    ci95: Interval = NO_INTERVAL


def relationship_recall(
    embeddings: Any,
    names: Sequence[str] | NDArray[Any],
    pairs: Iterable[tuple[str, str]],
    *,
    thresholds: tuple[float, float] = THRESHOLDS,
) -> RelationshipRecall:
    """How many known pairs lie in the tails of the cosines of all pairs of rows (one row for each gene or compound).

    Implements `known_relationship_benchmark` of `efaar_benchmarking` 1.0, equal to 1e-6: the null is every pair of the
    map, known ones included; a pair is recalled if at most `thresholds[0]` of the null is at or below its cosine, or at
    least `thresholds[1]` is below it. Pairs of a name with itself and repeats (also reversed) are left out, as are names
    that are not in the map. Cosines are taken a block at a time, twice, so that a map of 20,000 needs no table of pairs.

    >>> X = np.array([[1.0, 0.0], [1.0, 0.01], [0.0, 1.0], [0.02, 1.0]])
    >>> relationship_recall(X, ["a", "b", "c", "d"], [("a", "b")], thresholds=(0.1, 0.8)).recall
    1.0
    """
    low, high = thresholds
    if not 0 <= low <= high <= 1:
        raise UsageError(
            f"relationship_recall: thresholds are two shares in order, got {thresholds}; try (0.05, 0.95)."
        )
    U = unit_rows(as_matrix(embeddings, len(names), "embeddings"))
    place = _places(names)
    wanted = {tuple(sorted((str(a), str(b)))) for a, b in pairs if str(a) != str(b)}
    known = sorted(tuple(sorted((place[a], place[b]))) for a, b in wanted if a in place and b in place)
    n = len(U)
    everything = n * (n - 1) // 2
    if not known:
        nothing = float("nan")
        return RelationshipRecall(nothing, nothing, nothing, nothing, (low, high), 0, len(wanted), everything)
    first, second = np.array(known, dtype=np.intp).T
    cosines = _cosines_of(U, first, second)
    below, up_to = _ranks(U, np.sort(cosines))
    order = np.argsort(cosines, kind="stable")
    opposed, alike = np.empty(len(known), np.bool_), np.empty(len(known), np.bool_)
    opposed[order], alike[order] = up_to / everything <= low, below / everything >= high
    recall, ci95 = _without_each(opposed | alike, first, second, n)
    return RelationshipRecall(
        recall=recall,
        opposed=float(opposed.mean()),
        alike=float(alike.mean()),
        chance=low + 1 - high,
        thresholds=(low, high),
        used=len(known),
        given=len(wanted),
        pairs=everything,
        ci95=ci95,
    )


def _without_each(found: Mask, first: Codes, second: Codes, n: int) -> tuple[float, Interval]:
    """The share of pairs that are found, and its interval by leaving out each of the names that are in any."""
    hits, counts = (
        np.bincount(first, weights, minlength=n) + np.bincount(second, weights, minlength=n)
        for weights in (found.astype(np.float64), np.ones(len(found)))
    )
    named = counts > 0
    total, pairs = float(found.sum()), float(len(found))
    share, (low, high) = jackknifed_mean(np.r_[total, total - hits[named]], np.r_[pairs, pairs - counts[named]])
    told = pairs >= FEWEST_PAIRS and 0 < total < pairs
    return share, (max(low, 0.0), min(high, 1.0)) if told else NO_INTERVAL


def _places(names: Sequence[str] | NDArray[Any]) -> dict[str, int]:
    place = {str(name): i for i, name in enumerate(names)}
    if len(place) != len(names):
        raise DataError(
            f"names: expected one row for each name, got {len(names)} rows for {len(place)} names; average them first."
        )
    return place


def _upper_cosines(U: Array) -> Iterator[tuple[int, Array]]:
    """Cosines of a block of rows with all rows from the first of them on. The same blocks give the same numbers each time."""
    for part in row_blocks(len(U), len(U)):
        yield part.start, U[part] @ U[part.start :].T


def _cosines_of(U: Array, first: Codes, second: Codes) -> Array:
    """Cosines of pairs (`first` sorted and less than `second`), as the blocks have them: a pair must equal itself in the null."""
    found = np.empty(len(first))
    for start, block in _upper_cosines(U):
        here = slice(*np.searchsorted(first, [start, start + len(block)]))
        found[here] = block[first[here] - start, second[here] - start]
    return found


def _ranks(U: Array, cosines: Array) -> tuple[Codes, Codes]:
    """How many pairs of the map lie below, and at or below, each of these sorted cosines."""
    below, up_to = np.zeros(len(cosines), np.intp), np.zeros(len(cosines), np.intp)
    for _, block in _upper_cosines(U):
        values = np.sort(block[np.triu_indices(len(block), 1, block.shape[1])])
        below += np.searchsorted(values, cosines, side="left")
        up_to += np.searchsorted(values, cosines, side="right")
    return below, up_to
