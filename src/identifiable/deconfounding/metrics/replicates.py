"""Do replicates find each other? Replicate mAP, perturbation consistency and magnitude."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import false_discovery_control

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Progress
from identifiable.deconfounding.design import Codes, Design, Labels, Mask
from identifiable.deconfounding.metrics.average_precision import TIE, Negatives, expected_average_precision
from identifiable.deconfounding.metrics.left_out import LeavingOut, WellSums
from identifiable.deconfounding.metrics.matrices import Array, as_matrix, check_rows, row_blocks, unit_rows

Column = Literal["plate", "well", "batch", "perturbation", "target"]
Against = Literal["controls", "non-replicates"]

PERMUTATIONS = 1000
FEWEST_FOR_ENERGY = 5  # efaar_benchmarking: the energy distance of fewer replicates is not given
MAX_CONTROLS = 1000  # efaar_benchmarking: controls an energy distance is taken to


@dataclass(frozen=True, eq=False)
class ReplicateMap:
    """How far ahead of others a profile's replicates rank, for every profile and every perturbation.

    average_precision    of each row; NaN for rows that ask nothing (controls) or have no replicate or nothing to beat
    positives, total     replicates, and replicates and negatives together, that each row ranked
    names                perturbations, all but the controls, in order
    mean_average_precision, normalized, p, q   of each perturbation; NaN where fewer than 2 of its rows qualify
    profiles             rows the mean of a perturbation is over
    chance               what mAP of each perturbation is expected to be where order is random
    mean                 of mAP over perturbations that have one; `mean_chance` of `chance`
    sums                 of average precision over wells, with each group of plates left out; None unless asked for
    """

    average_precision: Array
    positives: Codes
    total: Codes
    names: tuple[str, ...]
    mean_average_precision: Array
    normalized: Array
    chance: Array
    p: Array
    q: Array
    profiles: Codes
    mean: float
    mean_chance: float
    sums: WellSums | None = None


def replicate_map(
    X: Any,
    design: Design,
    *,
    against: Against = "controls",
    of: Literal["perturbation", "target"] = "perturbation",
    positives_differ_by: Sequence[Column] = ("plate", "well"),
    negatives_share: Sequence[Column] = (),
    leave_out: Labels | None = None,
    permutations: int = PERMUTATIONS,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> ReplicateMap:
    """Mean average precision of replicates by cosine, against controls or against other perturbations.

    A treated row ranks its positives (rows of the same perturbation that differ in *every* column of
    `positives_differ_by`) among its negatives (all controls, or all treated rows of other perturbations, that agree in
    every column of `negatives_share`). With a_k negatives above the k-th of P positives
        AP = mean over k of k / (k + a_k),
    mAP is the mean of AP over rows of a perturbation, and `normalized` is the mean of (AP - c) / (1 - c), c the AP expected
    of a random order. p: the share of random orders, with as many positives and negatives, whose mean AP is at least as
    high; q over perturbations (Benjamini-Hochberg).

    Implements `copairs` 0.5.5 (`average_precision`, `mean_average_precision`; controls by `assign_reference_index`):
    AP, mAP and normalized mAP are equal to 1e-6 (copairs rounds cosines to float32). Three departures. Positives and
    negatives of equal cosine count as in random order, where copairs puts positives first (a space collapsed to one point
    then has mAP 1; here it has `chance`). Random orders that equal the observed mAP count against it, where copairs asks
    for more. A row with positives but no negatives has no AP, where copairs gives 1. As in copairs, rows with equal
    numbers of positives and negatives share their random orders, which makes p conservative; draws are not those of copairs.

    Rows are taken a block at a time, so memory is that of the rows and some 32 MB; cosines are sorted once per row.
    `permutations=0` leaves p and q NaN and needs no `rng`. `leave_out` are groups of rows (of plates): sums over wells
    are also given without each of them.

    >>> plates = Labels.of(np.array(["p", "q", "p", "q"]))
    >>> wells = Labels.of(np.array(["drug", "drug", "dmso", "dmso"]))
    >>> screen = Design(plates, wells, np.array([False, False, True, True]))
    >>> X = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    >>> replicate_map(X, screen, positives_differ_by=["plate"], permutations=0).mean
    1.0
    """
    if against not in ("controls", "non-replicates"):
        raise UsageError(f"replicate_map: against is 'controls' or 'non-replicates', got {against!r}.")
    if permutations and rng is None:
        raise UsageError("replicate_map: p-values need random draws; pass rng, or permutations=0 for none.")
    U = unit_rows(as_matrix(X, design.n, design.name))
    groups = _column(design, of)
    asks = ~design.control & (groups.text() != "")
    answers = design.control if against == "controls" else asks
    differ = np.stack([_column(design, c).codes for c in positives_differ_by]) if positives_differ_by else None
    n = design.n
    precision, positives, total = np.full(n, np.nan), np.zeros(n, np.intp), np.zeros(n, np.intp)
    leaving = None if leave_out is None else LeavingOut(leave_out)
    done = 0
    for queries, negatives in _lists(design, groups, asks, answers, negatives_share):
        for row, own, above, line in _ranked(U, groups, queries, negatives, own_among=against == "non-replicates"):
            ours = own[_differs(differ, row, own)]
            if len(ours):
                positives[row], total[row] = len(ours), len(ours) + above.negatives
                cosines = U[ours] @ U[row]
                precision[row] = above.average_precision(cosines)
                if leaving is not None and above.negatives:
                    others = groups.codes[negatives] != groups.codes[row]
                    leaving.add(row, precision[row], ours, cosines, negatives[others], line[others])
        done += len(queries)
        if progress is not None:
            progress("replicate mAP", done, int(asks.sum()))
    return _by_group(
        precision, positives, total, groups, asks, permutations, rng, None if leaving is None else leaving.sums
    )


def _column(design: Design, name: Column) -> Labels:
    known = {
        "plate": design.plate,
        "well": design.address,
        "batch": design.batch,
        "perturbation": design.perturbation,
        "target": design.target,
    }
    if name not in known:
        raise UsageError(f"{design.name}: {name!r} is no column of a design; use one of {', '.join(known)}.")
    found = known[name]
    if found is None:
        raise UsageError(
            f"{design.name}: the design does not say the {name} of its rows; leave {name!r} out or add it."
        )
    return found


def _lists(
    design: Design, groups: Labels, asks: Mask, answers: Mask, share: Sequence[Column]
) -> Iterator[tuple[Codes, Codes]]:
    """Rows that rank the same candidates, in order of their perturbation, and those candidates."""
    key = np.zeros(design.n, dtype=np.intp)
    for name in share:
        column = _column(design, name)
        key = np.unique(key * column.size + column.codes, return_inverse=True)[1].astype(np.intp)
    for value in np.unique(key[asks]):
        here = key == value
        rows = np.flatnonzero(here & asks)
        yield rows[np.argsort(groups.codes[rows], kind="stable")], np.flatnonzero(here & answers)


def _ranked(
    U: Array, groups: Labels, queries: Codes, candidates: Codes, *, own_among: bool
) -> Iterator[tuple[int, Codes, Negatives, Array]]:
    """For every query: the row, all rows of its perturbation, its sorted negatives, and the cosines of all candidates.

    Those of its own perturbation are counted off afterwards: a mask for each row would cost more than the sort.
    """
    members = _rows_of(groups)
    among = np.isin(np.arange(len(U)), candidates) if own_among else np.zeros(len(U), dtype=np.bool_)
    V = U[candidates]
    for part in row_blocks(len(queries), max(len(candidates), 1)):
        rows = queries[part]
        for row, line in zip(rows.tolist(), U[rows] @ V.T, strict=True):
            own = members[groups.codes[row]]
            counted = own[among[own]]
            yield row, own, Negatives(np.sort(line), np.sort(U[counted] @ U[row])), line


def _rows_of(labels: Labels) -> list[Codes]:
    return np.split(np.argsort(labels.codes, kind="stable"), np.cumsum(labels.counts)[:-1])


def _differs(columns: Codes | None, row: int, others: Codes) -> Mask:
    if columns is None:
        return np.asarray(others != row)
    return np.asarray((columns[:, others] != columns[:, [row]]).all(axis=0))


def _by_group(
    precision: Array,
    positives: Codes,
    total: Codes,
    groups: Labels,
    asks: Mask,
    permutations: int,
    rng: np.random.Generator | None,
    sums: WellSums | None,
) -> ReplicateMap:
    names = np.unique(groups.codes[asks])
    entropy = int(rng.integers(2**63)) if permutations and rng is not None else 0
    nulls: dict[tuple[int, int], Array] = {}
    columns: list[tuple[float, float, float, float, int]] = []
    members = _rows_of(groups)
    for g in names:
        rows = members[g][asks[members[g]] & ~np.isnan(precision[members[g]])]
        if len(rows) == 0:
            columns.append((np.nan, np.nan, np.nan, np.nan, 0))
            continue
        chance = expected_average_precision(positives[rows], total[rows])
        score = float(precision[rows].mean())
        normalized = float(np.mean((precision[rows] - chance) / (1 - chance)))
        p = _p_value(score, positives[rows], total[rows], permutations, entropy, nulls) if permutations else np.nan
        columns.append((score, normalized, float(chance.mean()), p, len(rows)))
    score_, normalized_, chance_, p_ = (np.array([c[i] for c in columns], dtype=np.float64) for i in range(4))
    scored = ~np.isnan(score_)
    return ReplicateMap(
        average_precision=precision,
        positives=positives,
        total=total,
        names=tuple(groups.names[g] for g in names),
        mean_average_precision=score_,
        normalized=normalized_,
        chance=chance_,
        p=p_,
        q=q_values(p_),
        profiles=np.array([c[4] for c in columns], dtype=np.intp),
        mean=float(score_[scored].mean()) if scored.any() else float("nan"),
        mean_chance=float(chance_[scored].mean()) if scored.any() else float("nan"),
        sums=sums,
    )


def q_values(p: Array) -> Array:
    """Benjamini-Hochberg over those that are numbers; NaN stays."""
    q, known = np.full(len(p), np.nan), ~np.isnan(p)
    if known.any():
        q[known] = false_discovery_control(p[known])
    return q


def _p_value(
    score: float, positives: Codes, total: Codes, draws: int, entropy: int, nulls: dict[tuple[int, int], Array]
) -> float:
    kinds, counts = np.unique(np.stack([positives, total], axis=1), axis=0, return_counts=True)
    mean = np.zeros(draws)
    for (m, length), count in zip(kinds.tolist(), counts, strict=True):
        if (m, length) not in nulls:
            # A generator for each kind of list: which perturbations come first does not change its draws.
            nulls[m, length] = _random_precision(m, length, draws, np.random.default_rng([entropy, m, length]))
        mean += count * nulls[m, length]
    at_least = int(np.sum(mean / len(positives) >= score - TIE))
    return (at_least + 1) / (draws + 1)


def _random_precision(positives: int, total: int, draws: int, rng: np.random.Generator) -> Array:
    """AP of random orders, from the places of the positives alone: a list may be long, its positives are few."""
    found = np.empty(draws)
    hits = np.arange(1, positives + 1)
    dense = 4 * positives > total
    for part in row_blocks(draws, total if dense else positives):
        size = part.stop - part.start
        if dense:
            places = np.argsort(rng.random((size, total)), axis=1)[:, :positives]
            places.sort(axis=1)
        else:
            places = _distinct_places(positives, total, size, rng)
        found[part] = np.mean(hits / (places + 1), axis=1)
    return found


def _distinct_places(k: int, total: int, draws: int, rng: np.random.Generator) -> Codes:
    """For each draw `k` different places of `total`, sorted. What fell twice is drawn again: all sets stay equally likely."""
    places = np.sort(rng.integers(total, size=(draws, k)), axis=1)
    while True:
        again = np.zeros(places.shape, dtype=np.bool_)
        again[:, 1:] = places[:, 1:] == places[:, :-1]
        if not again.any():
            return places
        places[again] = rng.integers(total, size=int(again.sum()))
        places.sort(axis=1)


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
    members = _rows_of(labels)
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
