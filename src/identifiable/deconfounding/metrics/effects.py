"""Effects of perturbations: are replicates alike, how far are they from controls, and are known relations among the most alike?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from identifiable._checks import DataError, UsageError
from identifiable.deconfounding.design import Codes, Labels, Mask
from identifiable.deconfounding.intervals import NO_INTERVAL, jackknifed_mean, q_values
from identifiable.deconfounding.metrics.matrices import as_matrix, check_rows, row_blocks, unit_rows
from identifiable.deconfounding.metrics.replicates import PERMUTATIONS, TIE
from identifiable.moments import Array
from identifiable.results import Interval

THRESHOLDS = (0.05, 0.95)  # efaar_benchmarking
FEWEST_PAIRS = 5  # to give an interval of
FEWEST_FOR_ENERGY = 5  # efaar_benchmarking: the energy distance of fewer replicates is not given
MAX_CONTROLS = 1000  # efaar_benchmarking: controls an energy distance is taken to


@dataclass(frozen=True, eq=False)
class Consistency:
    """How alike replicates of each perturbation are: mean cosine over pairs, p and q; NaN with fewer than 2 replicates."""

    names: tuple[str, ...]
    cosine: Array
    replicates: Codes
    p: Array
    q: Array
    mean: float


def consistency(
    X: Any,
    labels: Labels,
    *,
    null: Collection[str] | None = None,
    pool: Mask | None = None,
    draws: int = PERMUTATIONS,
    rng: np.random.Generator | None = None,
) -> Consistency:
    """Mean cosine over pairs of replicates of each label, and how often that much comes of nothing.

    Implements `pert_signal_consistency_benchmark` of `efaar_benchmarking` 1.0 where `null` names labels without effect
    (unexpressed genes): p is the share of them whose mean cosine is at least as high, and they are not among the results.
    Equal to 1e-6; one departure: null labels with a single row are left out, where efaar counts their NaN as the highest
    value. Without `null`, p is against `draws` random sets of as many rows of `pool` (a mask; by default all rows), the
    observed one counted; `draws=0` gives none.

    Takes |sum of unit rows|^2 in place of a table of pairs: O(rows), however many replicates.

    >>> consistency(np.array([[1.0, 0.0], [1.0, 1.0]]), Labels.of(np.array(["a", "a"])), draws=0).cosine.round(4)
    array([0.7071])
    """
    U = unit_rows(as_matrix(X, len(labels), "embedding"))
    found = _mean_cosines(U, labels)
    if null is not None:
        is_null = _named(labels, null, "consistency")
        p, kept = _p_of_null(found, found[is_null], strict=False), np.flatnonzero(~is_null)
    else:
        if draws and rng is None:
            raise UsageError("consistency: p-values need random sets; pass rng, name a null, or draws=0 for none.")
        rows = np.arange(len(U)) if pool is None else np.flatnonzero(pool)
        p, kept = _p_of_sets(found, labels.counts, U[rows], draws, rng), np.arange(labels.size)
    cosine = found[kept]
    known = cosine[~np.isnan(cosine)]
    return Consistency(
        names=tuple(labels.names[i] for i in kept),
        cosine=cosine,
        replicates=labels.counts[kept],
        p=p[kept],
        q=q_values(p[kept]),
        mean=float(known.mean()) if len(known) else float("nan"),
    )


def _mean_cosines(U: Array, labels: Labels) -> Array:
    total = np.zeros((labels.size, U.shape[1]))
    np.add.at(total, labels.codes, U)
    itself = np.zeros(labels.size)
    np.add.at(itself, labels.codes, np.sum(U * U, axis=1))
    return _mean_off_diagonal(total, itself, labels.counts)


def _mean_off_diagonal(total: Array, itself: Array | np.float64, counts: NDArray[Any]) -> Array:
    pairs = counts * (counts - 1.0)
    alike = np.sum(total * total, axis=-1) - itself
    return np.asarray(np.divide(alike, pairs, out=np.full(np.shape(alike), np.nan), where=pairs > 0))


def _named(labels: Labels, names: Collection[str], what: str) -> Mask:
    wanted = set(names)
    found = np.array([name in wanted for name in labels.names], dtype=np.bool_)
    if not found.any():
        shown = ", ".join(sorted(wanted)[:3])
        raise DataError(
            f"{what}: expected labels of the null among the rows, got none of {shown}; check their spelling."
        )
    return found


def _p_of_null(values: Array, null: Array, *, strict: bool) -> Array:
    """The share of `null` that is at least (`strict`: more than) each value; NaN of NaN."""
    known = np.sort(null[~np.isnan(null)])
    p = np.full(len(values), np.nan)
    if len(known):
        scored = ~np.isnan(values)
        below = np.searchsorted(known, values[scored], side="right" if strict else "left")
        p[scored] = 1 - below / len(known)
    return p


def _p_of_sets(values: Array, counts: Codes, pool: Array, draws: int, rng: np.random.Generator | None) -> Array:
    p = np.full(len(values), np.nan)
    if not draws or rng is None:
        return p
    entropy = int(rng.integers(2**63))
    for size in np.unique(counts[~np.isnan(values)]).tolist():
        if size > len(pool):
            continue
        local = np.random.default_rng([entropy, size])
        null = np.empty(draws)
        for i in range(draws):
            drawn = pool[local.choice(len(pool), size, replace=False, shuffle=False)]
            null[i] = _mean_off_diagonal(drawn.sum(axis=0), np.sum(drawn * drawn, dtype=np.float64), np.asarray(size))
        null.sort()
        here = counts == size
        p[here] = (draws - np.searchsorted(null, values[here] - TIE, side="left") + 1) / (draws + 1)
    return p


@dataclass(frozen=True, eq=False)
class Magnitude:
    """How far each perturbation lies from controls: energy distance, p and q; NaN with fewer than 5 replicates."""

    names: tuple[str, ...]
    energy: Array
    replicates: Codes
    p: Array
    q: Array
    mean: float


def magnitude(
    X: Any,
    labels: Labels,
    control: Mask,
    *,
    null: Collection[str] | None = None,
    max_controls: int = MAX_CONTROLS,
    rng: np.random.Generator | None = None,
) -> Magnitude:
    """Energy distance 2 E|x - c| - E|x - x'| - E|c - c'| of each label's rows x to control rows c.

    Implements `pert_signal_magnitude_benchmark` of `efaar_benchmarking` 1.0: means over all pairs, a row with itself too;
    of more than `max_controls` controls that many are drawn (`rng`). p is the share of labels of the `null` (unexpressed
    genes) with a greater distance; they are not among the results. One departure: efaar's geomloss takes no distance below
    1e-4, a row's to itself included, so its values are lower by 1e-4 (1/rows + 1/controls). Not free of scale: compare
    perturbations of one space, not spaces.

    >>> X, labels = np.r_[np.zeros(5), np.ones(5)][:, None], Labels.of(np.repeat(["c", "x"], 5))
    >>> magnitude(X, labels, labels.codes == 0).energy
    array([2.])
    """
    Z = as_matrix(X, len(labels), "embedding")
    check_rows(len(control), len(labels), "controls")
    rows = np.flatnonzero(control)
    if len(rows) == 0:
        raise DataError("magnitude: expected control rows to measure from, got none; name the controls of the screen.")
    if len(rows) > max_controls:
        if rng is None:
            raise UsageError(f"magnitude: {max_controls} of {len(rows)} controls are drawn; pass rng, or max_controls.")
        rows = np.sort(rng.choice(rows, max_controls, replace=False))
    C = Z[rows]
    among_controls = _mean_distance(C, C)
    treated = np.unique(labels.codes[~control])
    members = labels.members
    energy = np.full(labels.size, np.nan)
    for g in treated[labels.counts[treated] >= FEWEST_FOR_ENERGY]:
        own = Z[members[g]]
        energy[g] = 2 * _mean_distance(own, C) - _mean_distance(own, own) - among_controls
    p, kept = np.full(labels.size, np.nan), treated
    if null is not None:
        is_null = _named(labels, null, "magnitude")
        p, kept = _p_of_null(energy, energy[is_null], strict=True), treated[~is_null[treated]]
    known = energy[kept][~np.isnan(energy[kept])]
    return Magnitude(
        names=tuple(labels.names[i] for i in kept),
        energy=energy[kept],
        replicates=labels.counts[kept],
        p=p[kept],
        q=q_values(p[kept]),
        mean=float(known.mean()) if len(known) else float("nan"),
    )


def _mean_distance(A: Array, B: Array) -> float:
    parts = [float(cdist(A[part], B).sum()) for part in row_blocks(len(A), len(B))]
    return sum(parts) / (len(A) * len(B))


# -- known-relationship recall


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
