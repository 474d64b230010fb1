"""Do replicates find each other? Average precision of replicates among others, over wells, plates left out, and perturbations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from identifiable._checks import UsageError
from identifiable.deconfounding.design import Codes, Design, Labels, Mask
from identifiable.deconfounding.intervals import jackknifed_mean, q_values
from identifiable.deconfounding.metrics.matrices import as_matrix, row_blocks, unit_rows
from identifiable.moments import Array
from identifiable.results import Interval

Column = Literal["plate", "well", "batch", "perturbation", "target"]
Against = Literal["controls", "non-replicates"]
PERMUTATIONS = 1000
TIE = 1e-12  # cosines nearer than this are equal: the order of summation moves them by about 1e-16 per product


# -- average precision: how far ahead replicates rank, ties as in random order


@dataclass(frozen=True)
class Negatives:
    """The cosines a row's replicates have to beat: sorted candidates, less those of its own perturbation (sorted too)."""

    candidates: Array
    own: Array

    @property
    def negatives(self) -> int:
        return len(self.candidates) - len(self.own)

    def at_least(self, cosines: Array) -> Codes:
        def count(values: Array) -> Codes:
            return np.asarray(len(values) - np.searchsorted(values, cosines, side="left"))

        return count(self.candidates) - count(self.own)

    def average_precision(self, positives: Array) -> float:
        if self.negatives == 0:
            return float("nan")
        ranked = np.sort(positives)[::-1]
        above, level = self.at_least(ranked + TIE), self.at_least(ranked - TIE)
        k = np.arange(1, len(ranked) + 1)
        if np.array_equal(above, level):
            return float(np.mean(k / (k + above)))
        starts = np.flatnonzero(np.r_[True, -np.diff(ranked) > TIE])
        stops = np.r_[starts[1:], len(ranked)]
        return sum(
            _tied_precision(int(a), int(above[a]), int(b - a), int(level[b - 1] - above[a]))
            for a, b in zip(starts, stops, strict=True)
        ) / len(ranked)


def _tied_precision(positives: int, negatives: int, tied_positives: int, tied_negatives: int) -> float:
    """Expected sum of precisions at the tied positives, over orders of the ties; the first two numbers rank above them all."""
    n = tied_positives + tied_negatives
    place = np.arange(n)
    hits = positives + 1 + place * (tied_positives - 1) / max(n - 1, 1)
    return float(np.sum(hits / (positives + negatives + 1 + place))) * tied_positives / n


def expected_average_precision(positives: NDArray[Any], total: NDArray[Any]) -> Array:
    """AP expected of a random order of `total` items, `positives` of them relevant: H/L + (M - 1)/(L - 1) (1 - H/L).

    L = total, M = positives, H the L-th harmonic number. One of two is 1 or 1/2:

    >>> expected_average_precision(np.array([1]), np.array([2]))
    array([0.75])
    """
    M, L = np.asarray(positives, dtype=np.float64), np.asarray(total, dtype=np.float64)
    rate = (digamma(L + 1) + np.euler_gamma) / L
    return np.asarray(rate + (M - 1) / np.maximum(L - 1, 1) * (1 - rate))


NO_INTERVAL: Interval = (float("nan"), float("nan"))


# -- means over wells, with plates left out
#
# A plate takes part three times: its wells ask, they answer wells of other plates, and its controls are among those that replicates
# have to beat. Drawing the plates that ask misses two of the three. Leaving a plate out takes all three away.


@dataclass(frozen=True, eq=False)
class WellSums:
    """Sums over wells that asked: at place 0 all of them, then with each group of plates left out.

    precision    average precision
    chance       what it would be of a random order
    wells        how many asked and had both a replicate and a negative
    """

    precision: Array
    chance: Array
    wells: Array

    @classmethod
    def none(cls, groups: int) -> WellSums:
        return cls(*np.zeros((3, groups + 1)))

    @property
    def groups(self) -> int:
        return len(self.wells) - 1

    def beside(self, others: WellSums) -> WellSums:
        """Both, of plates that have nothing to do with each other: where one is left out, all of the others stay.

        Where nobody asks, nothing can be left out. Where leaving a group out silences all the others, they count as one group.
        """

        def joined(mine: Array, theirs: Array) -> Array:
            return np.concatenate([mine[:1] + theirs[0], mine[1:] + theirs[0], mine[0] + theirs[1:]])

        first, second = self._lasting(), others._lasting()
        return WellSums(
            joined(first.precision, second.precision),
            joined(first.chance, second.chance),
            joined(first.wells, second.wells),
        )

    def _lasting(self) -> WellSums:
        if not self.wells[0]:
            return WellSums.none(0)
        if (self.wells[1:] > 0).all():
            return self
        return WellSums(*(np.array([sums[0], 0.0]) for sums in (self.precision, self.chance, self.wells)))

    @property
    def mean_chance(self) -> float:
        return float(self.chance[0] / self.wells[0]) if self.wells[0] else float("nan")

    def mean_precision(self) -> tuple[float, Interval]:
        return jackknifed_mean(self.precision, self.wells)

    def mean_above_chance(self) -> tuple[float, Interval]:
        return jackknifed_mean(self.precision - self.chance, self.wells)

    def mean_above(self, others: WellSums) -> tuple[float, Interval]:
        """Of the same wells and replicates in another space: precision here less precision there."""
        return jackknifed_mean(self.precision - others.precision, self.wells)


def precision_without_each(
    positives: Array, of_positives: Codes, negatives: Array, of_negatives: Codes, groups: int
) -> tuple[Array, Codes, Codes]:
    """Average precision of a list with each group left out; what is left of its positives, and of its negatives.

    Similarities and groups of both. NaN where no positive or no negative is left.
    """
    order = np.argsort(-positives, kind="stable")
    rising, of_ranked, P = positives[order][::-1], of_positives[order], len(positives)
    stays = of_ranked != np.arange(groups)[:, None]
    rank = np.cumsum(stays, axis=1)
    left, others = rank[:, -1], len(negatives) - np.bincount(of_negatives, minlength=groups)
    known = (left > 0) & (others > 0)
    behind = np.searchsorted(rising, negatives - TIE, side="left")  # positives that a negative is ahead of
    if np.any(behind < np.searchsorted(rising, negatives + TIE, side="right")):
        return _with_ties(positives, of_positives, negatives, of_negatives, known), left, others
    first = np.bincount(of_negatives * (P + 1) + P - behind, minlength=groups * (P + 1)).reshape(groups, P + 1)
    by_group = np.cumsum(first[:, :P], axis=1)
    above = by_group.sum(axis=0) - by_group
    with np.errstate(invalid="ignore"):  # 0 / 0: a positive that is left out, with nothing before it
        precision = np.where(stays, rank / (rank + above), 0.0).sum(axis=1)
    return np.divide(precision, left, out=np.full(groups, np.nan), where=known), left, others


def _with_ties(positives: Array, of_positives: Codes, negatives: Array, of_negatives: Codes, known: Mask) -> Array:
    """One list after the other: what is level counts as in random order."""
    found = np.full(len(known), np.nan)
    order = np.argsort(negatives, kind="stable")
    negatives, of_negatives = negatives[order], of_negatives[order]
    for group in np.flatnonzero(known):
        rest = Negatives(negatives[of_negatives != group], np.empty(0))
        found[group] = rest.average_precision(positives[of_positives != group])
    return found


@dataclass
class LeavingOut:
    """Collects what wells found, one after the other, with each group of rows left out."""

    groups: Labels
    _sums: Array = field(init=False)

    def __post_init__(self) -> None:
        self._sums = np.zeros((3, self.groups.size + 1))

    @property
    def sums(self) -> WellSums:
        return WellSums(*self._sums)

    def add(
        self, row: int, precision: float, positives: Codes, cosines: Array, negatives: Codes, other_cosines: Array
    ) -> None:
        """A well, its average precision, and the rows it ranked with their cosines to it."""
        of, size = self.groups.codes, self.groups.size
        without, left, others = precision_without_each(cosines, of[positives], other_cosines, of[negatives], size)
        without[of[row]] = np.nan
        asks = ~np.isnan(without)
        total = len(positives) + len(negatives)
        chance = expected_average_precision(np.array(len(positives)), np.array(total))
        self._sums[:, 0] += precision, float(chance), 1
        self._sums[0, 1:][asks] += without[asks]
        self._sums[1, 1:][asks] += expected_average_precision(left[asks], (left + others)[asks])
        self._sums[2, 1:][asks] += 1


# -- replicate mAP of perturbations


@dataclass(frozen=True)
class Ranking:
    """Which rows are replicates of which, and which rows they have to beat.

    A treated row ranks its positives (rows of the same perturbation, or target, that differ in *every* column of
    `positives_differ_by`) among its negatives (all controls, or all treated rows of other perturbations, that agree in
    every column of `negatives_share`).
    """

    against: Against = "controls"
    of: Literal["perturbation", "target"] = "perturbation"
    positives_differ_by: Sequence[Column] = ("plate", "well")
    negatives_share: Sequence[Column] = ()

    def __post_init__(self) -> None:
        if self.against not in ("controls", "non-replicates"):
            raise UsageError(f"replicate_map: against is 'controls' or 'non-replicates', got {self.against!r}.")


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
    ranking: Ranking | None = None,
    *,
    leave_out: Labels | None = None,
    permutations: int = PERMUTATIONS,
    rng: np.random.Generator | None = None,
) -> ReplicateMap:
    """Mean average precision of replicates by cosine, against controls or against other perturbations.

    With a_k negatives above the k-th of P positives of a row (`Ranking` says which rows these are)
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
    >>> replicate_map(X, screen, Ranking(positives_differ_by=["plate"]), permutations=0).mean
    1.0
    """
    ranking = ranking or Ranking()
    if permutations and rng is None:
        raise UsageError("replicate_map: p-values need random draws; pass rng, or permutations=0 for none.")
    U = unit_rows(as_matrix(X, design.n, design.name))
    groups = _column(design, ranking.of)
    asks = ~design.control & (groups.text() != "")
    among_own = ranking.against == "non-replicates"
    answers = asks if among_own else design.control
    columns = [_column(design, name).codes for name in ranking.positives_differ_by]
    differ = np.stack(columns) if columns else None
    n = design.n
    precision, positives, total = np.full(n, np.nan), np.zeros(n, np.intp), np.zeros(n, np.intp)
    leaving = None if leave_out is None else LeavingOut(leave_out)
    for queries, negatives in _lists(design, groups, asks, answers, ranking.negatives_share):
        for row, own, above, line in _ranked(U, groups, queries, negatives, own_among=among_own):
            ours = own[_differs(differ, row, own)]
            if len(ours):
                positives[row], total[row] = len(ours), len(ours) + above.negatives
                cosines = U[ours] @ U[row]
                precision[row] = above.average_precision(cosines)
                if leaving is not None and above.negatives:
                    others = groups.codes[negatives] != groups.codes[row]
                    leaving.add(row, precision[row], ours, cosines, negatives[others], line[others])
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
    members = groups.members
    among = np.isin(np.arange(len(U)), candidates) if own_among else np.zeros(len(U), dtype=np.bool_)
    V = U[candidates]
    for part in row_blocks(len(queries), max(len(candidates), 1)):
        rows = queries[part]
        for row, line in zip(rows.tolist(), U[rows] @ V.T, strict=True):
            own = members[groups.codes[row]]
            counted = own[among[own]]
            yield row, own, Negatives(np.sort(line), np.sort(U[counted] @ U[row])), line


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
    members = groups.members
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
