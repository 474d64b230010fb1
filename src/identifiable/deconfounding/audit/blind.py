"""What the layout alone tells: information of labels about places, and classifiers that never see the embedding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from identifiable._checks import DataError
from identifiable.blocks import in_threads
from identifiable.deconfounding.design import Codes, Design, Labels, Mask, labels_of
from identifiable.moments import Array
from identifiable.results import Dependence
from identifiable.run import Run, Stage

CONTRASTS = 32  # perturbations, those with most wells, whose information about places is averaged
CHANCE_DRAWS = 100  # over all perturbations, at least one each
REACHED = (
    1e-9  # sums in another order differ by rounding; a shuffle that gives the same table reaches the observed value
)


def mutual_information(a: Labels, b: Labels) -> float:
    """Plug-in mutual information of two labels of the same rows, in nats.

    I = H(a) + H(b) - H(a, b) with the observed shares. Above 0 for independent labels, by about (|a| - 1)(|b| - 1) / 2n.

    >>> a = Labels.of(np.array(["x", "x", "y", "y"]))
    >>> round(mutual_information(a, a), 4), mutual_information(a, Labels.of(np.array(["p", "q", "p", "q"])))
    (0.6931, 0.0)
    """
    marginals = entropy(a.counts) + entropy(b.counts)
    return max(marginals - _joint_entropy(a.codes * b.size + b.codes, a.size * b.size), 0.0)


def entropy(counts: NDArray[np.integer]) -> float:
    """Entropy of observed shares, in nats."""
    times = np.bincount(counts)  # counts repeat: few logarithms are needed
    sizes = np.flatnonzero(times)[1:] if times[0] else np.flatnonzero(times)
    weighted = sizes * times[sizes]
    n = float(weighted.sum())
    return float(np.log(n) - (weighted * np.log(sizes)).sum() / n)


def _joint_entropy(codes: Codes, size: int) -> float:
    if size <= 8 * len(codes):
        return entropy(np.bincount(codes))
    # A table of all pairs would be mostly empty (10,000 perturbations by 1,536 wells): count runs of sorted codes instead.
    ordered = np.sort(codes)
    edges = np.flatnonzero(np.diff(ordered, prepend=-1, append=size))
    return entropy(np.diff(edges))


class ShuffleWithin:
    """Random orders of rows that leave every row in its group.

    Integers of group, random bits and row are sorted, so one sort does it; for 222,000 rows in 1,600 plates 33 bits are random.

    >>> groups = Labels.of(np.array(["p", "q", "p", "q"]))
    >>> order = ShuffleWithin(groups)(np.random.default_rng(0))
    >>> bool((groups.codes[order] == groups.codes).all())
    True
    """

    def __init__(self, groups: Labels):
        n = len(groups)
        self._row_bits = int(n).bit_length()
        self._random_bits = 62 - self._row_bits - int(groups.size).bit_length()
        self._keys = (groups.codes.astype(np.int64) << (self._random_bits + self._row_bits)) | np.arange(n)
        self._members = np.argsort(groups.codes, kind="stable")  # rows of each group in their order, group after group

    def __call__(self, rng: np.random.Generator) -> Codes:
        n = len(self._keys)
        keys = self._keys | (rng.integers(0, 1 << self._random_bits, n) << self._row_bits)
        keys.sort()
        order = np.empty(n, dtype=np.intp)
        order[self._members] = keys & ((1 << self._row_bits) - 1)
        return order


def places_of(design: Design) -> dict[str, Labels]:
    """What a row may be recognised by besides its embedding: address, row and column of its well, plate, batch."""
    places = {}
    if design.address is not None:
        places["address"] = design.address
        places["row"], places["column"] = _lines(design)
    places["plate"] = design.plate
    if design.batch is not None and design.batch.size > 1:
        places["batch"] = design.batch
    return places


def addresses(design: Design) -> Labels:
    """The well of every row, whatever the plate."""
    _lines(design)
    assert design.address is not None
    return design.address


def _lines(design: Design) -> tuple[Labels, Labels]:
    """Rows and columns of wells as labels."""
    if design.row is None or design.column is None:
        raise DataError(
            f"{design.name}: positions of wells are needed and are not known; name their column (well=, --well)."
        )
    return labels_of(design.row), labels_of(design.column)


def dependences(
    design: Design,
    contrasts: Sequence[Codes],
    *,
    permutations: int,
    run: Run,
) -> tuple[Dependence, ...]:
    """How much labels tell about places, against shuffled labels.

    Ours. Labels are all perturbations at once (controls one of them), and each of `contrasts` against controls, averaged. They are
    shuffled within plates for address, row and column, which keeps what every plate holds, and over all rows for plate and batch.
    """
    places = places_of(design)
    label = with_controls_as_one(design)
    draw = partial(_shuffled_information, label, places, ShuffleWithin(design.plate), run.seed)
    null = in_threads(draw, range(permutations), run, Stage("shuffling labels"))
    found = [
        _dependence(
            about(place),
            mutual_information(label, labels),
            np.array([values[place] for values in null]),
            entropy(label.counts),
        )
        for place, labels in places.items()
    ]
    several = [_Contrast.of(design, rows, places) for rows in contrasts]
    draw_contrasts = partial(_shuffled_contrasts, several, run.seed)
    null = in_threads(draw_contrasts, range(permutations), run, Stage("shuffling contrasts"))
    found += [
        _dependence(
            f"perturbation vs {'control' if design.control.any() else 'others'} ~ {place}",
            float(np.mean([contrast.information(contrast.positive, place) for contrast in several])),
            np.array([values[place] for values in null]),
            float(np.mean([contrast.entropy for contrast in several])),
        )
        for place in places
    ]
    return tuple(found)


def about(place: str) -> str:
    """The name of the dependence of all perturbations on a place."""
    return f"perturbation ~ {place}"


def with_controls_as_one(design: Design) -> Labels:
    """Perturbations, with all controls under one name."""
    codes = np.where(design.control, design.perturbation.size, design.perturbation.codes)
    kept, codes = np.unique(codes, return_inverse=True)
    names = (*design.perturbation.names, "control")
    return Labels(codes.astype(np.intp), tuple(names[k] for k in kept))


def _shuffled_information(
    label: Labels, places: Mapping[str, Labels], shuffle: ShuffleWithin, seed: int, draw: int
) -> dict[str, float]:
    rng = np.random.default_rng([seed, 61, draw])
    within = Labels(label.codes[shuffle(rng)], label.names)
    anywhere = Labels(label.codes[rng.permutation(len(label))], label.names)
    return {
        place: mutual_information(anywhere if place in ("plate", "batch") else within, labels)
        for place, labels in places.items()
    }


@dataclass(frozen=True, eq=False)
class _Contrast:
    """One perturbation against controls: `positive` says which of the rows of both are of the perturbation."""

    positive: Mask
    shuffle: ShuffleWithin
    places: Mapping[str, Labels]
    totals: Mapping[str, NDArray[np.intp]]
    entropy: float
    entropies: Mapping[str, float]

    @classmethod
    def of(cls, design: Design, ones: Codes, places: Mapping[str, Labels]) -> _Contrast:
        mask = np.zeros(design.n, dtype=bool)
        mask[ones] = True
        mask[design.told_from(ones)] = True
        rows = np.flatnonzero(mask)
        mask[:] = False
        mask[ones] = True
        there = {place: labels.take(rows) for place, labels in places.items()}
        totals = {place: labels.counts for place, labels in there.items()}
        classes = np.bincount(mask[rows], minlength=2)
        return cls(
            positive=mask[rows],
            shuffle=ShuffleWithin(design.plate.take(rows)),
            places=there,
            totals=totals,
            entropy=entropy(classes),
            entropies={place: entropy(total) for place, total in totals.items()},
        )

    def information(self, positive: Mask, place: str) -> float:
        """Mutual information of the two classes and a place: only the positives need counting, the totals stay."""
        labels = self.places[place]
        ones = labels.count(positive)
        joint = entropy(np.concatenate([ones, self.totals[place] - ones]))
        return max(self.entropy + self.entropies[place] - joint, 0.0)


def _shuffled_contrasts(contrasts: Sequence[_Contrast], seed: int, draw: int) -> dict[str, float]:
    sums: dict[str, float] = {}
    for k, contrast in enumerate(contrasts):
        rng = np.random.default_rng([seed, 67, draw, k])
        within = contrast.positive[contrast.shuffle(rng)]
        anywhere = contrast.positive[rng.permutation(len(contrast.positive))]
        for place in contrast.places:
            value = contrast.information(anywhere if place in ("plate", "batch") else within, place)
            sums[place] = sums.get(place, 0.0) + value / len(contrasts)
    return sums


def _dependence(what: str, observed: float, null: Array, most: float) -> Dependence:
    mean = float(null.mean())
    room = most - mean
    return Dependence(
        what=what,
        information=observed,
        null_mean=mean,
        null_q95=float(np.quantile(null, 0.95)),
        share=(observed - mean) / room if room > REACHED else 0.0,
        p=float((1 + (null >= observed - REACHED).sum()) / (1 + len(null))),
    )


def cramers_v(a: Labels, b: Labels) -> float:
    """Association of two labels from 0 to 1, corrected for the bias of small tables (Bergsma 2013); NaN if one is constant.

    >>> a = Labels.of(np.arange(40) % 4)
    >>> round(cramers_v(a, a), 6), cramers_v(a, Labels.of(np.arange(40) // 20))
    (1.0, 0.0)
    """
    n = len(a)
    if a.size < 2 or b.size < 2:
        return float("nan")
    cells, counts = np.unique(a.codes * b.size + b.codes, return_counts=True)
    expected = a.counts[cells // b.size] * b.counts[cells % b.size] / n
    phi2 = float((counts**2 / expected).sum()) / n - 1  # chi-square over n; cells without rows add nothing to it
    r, k = a.size - 1, b.size - 1
    phi2 = max(phi2 - r * k / (n - 1), 0.0)
    smaller = min(r - r**2 / (n - 1), k - k**2 / (n - 1))
    return float(np.sqrt(min(phi2 / smaller, 1.0))) if smaller > 0 else float("nan")


Score = Callable[[Array, Array], Array]
"""From training counts of positives and controls in each place to a score of each place."""


def position_score(design: Design) -> Score:
    r"""Log odds of every address: counts there, smoothed towards row times column.

    Ours. For each class the share of an address a = (r, c) is
        p(a) = (n_a + A p(r) p(c)) / (n + A),   p(r) = (n_r + 1) / (n + R),
    so an address speaks for itself once it has wells, and until then by its row and column, where edges and gradients show. A
    closed form has no settings to defend, no seed, and scores thousands of perturbations in seconds.
    """
    row, column = (line.codes for line in _lines(design))
    first = np.unique(addresses(design).codes, return_index=True)[1]  # a well of each address tells its row and column
    row, column = row[first], column[first]

    def share(counts: Array) -> Array:
        n, prior = counts.sum(), np.ones(len(counts))
        for line in (row, column):
            of_line = np.bincount(line, counts)
            prior *= ((of_line + 1) / (n + len(of_line)))[line]
        smoothed: Array = (counts + len(counts) * prior) / (n + len(counts))
        return smoothed

    return lambda positives, controls: np.log(share(positives) / share(controls))


def count_score(positives: Array, controls: Array) -> Array:
    """Log odds of every place from its own counts, one more in each class."""
    score: Array = np.log((positives + 1) / (controls + 1))
    return score


class BlindClassifier:
    """Tells perturbations from controls by place alone, on folds of plates it was not trained on.

    `score` maps training counts to scores of places. With `folds` None nothing is held out.
    """

    def __init__(self, design: Design, place: Labels, score: Score, folds: Codes | None, draws: Array):
        self.place, self.score, self.draws = place, score, draws
        self.fold = np.zeros(design.n, dtype=np.intp) if folds is None else folds
        self.held_out = folds is not None
        self.plate, self.design = design.plate, design
        self.controls = self._negatives(np.flatnonzero(design.control))

    def _negatives(self, rows: Codes) -> list[tuple[Codes, Array, tuple[sparse.csr_array, Codes]]]:
        """Of every fold the rows that others are told from, how many are in each place, and on which plates."""
        return [(own, self._counts(own), self._plates(own)) for own in self._by_fold(rows)]

    def auroc(self, positive: Codes) -> Array:
        """AUROC of some rows against controls in every draw of plates; NaN where a draw has but one class.

        The mean over folds, which count by their positives.
        """
        positives = self._by_fold(positive)
        ones = [self._counts(rows) for rows in positives]
        none = not self.design.control.any()
        negatives = self._negatives(self.design.told_from(positive)) if none else self.controls
        value, weight = np.zeros(len(self.draws)), np.zeros(len(self.draws))
        for fold, rows in enumerate(positives):
            train = [k for k in range(len(ones)) if k != fold] if self.held_out else [fold]
            controls = len(negatives[fold][0])
            if not rows.size or not controls or not sum(ones[k].sum() for k in train):
                continue
            scores = self.score(
                np.sum([ones[k] for k in train], axis=0), np.sum([negatives[k][1] for k in train], axis=0)
            )
            wins, pairs = self._drawn_pairs(scores, rows, *negatives[fold][2])
            value += np.divide(wins, pairs, out=np.zeros_like(pairs), where=pairs > 0) * pairs / controls
            weight += pairs / controls
        mean: Array = np.divide(value, weight, out=np.full(len(value), np.nan), where=weight > 0)
        return mean

    def _by_fold(self, rows: Codes) -> list[Codes]:
        return [rows[self.fold[rows] == fold] for fold in range(int(self.fold.max()) + 1)]

    def _counts(self, rows: Codes) -> Array:
        return self.place.count(rows).astype(np.float64)

    def _plates(self, rows: Codes) -> tuple[sparse.csr_array, Codes]:
        """How many of some rows are in each place (lines) of each plate that has any (columns), and those plates."""
        plates, of_plate = np.unique(self.plate.codes[rows], return_inverse=True)
        cells = (self.place.codes[rows], of_plate)
        return sparse.csr_array((np.ones(rows.size), cells), shape=(self.place.size, plates.size)), plates

    def _drawn_pairs(
        self, scores: Array, rows: Codes, controls: sparse.csr_array, control_plates: Codes
    ) -> tuple[Array, Array]:
        """Pairs of a positive and a control in every draw of plates: how many are in the right order (ties half), and all.

        Pairs are counted once for every two plates, which all draws then share.
        """
        positives, plates = self._plates(rows)
        places = np.unique(self.place.codes[rows])
        # Sign gives 1, 0, -1 for above, equal, below: sums of it are wins less losses.
        ahead = positives[places].T @ (np.sign(scores[places][:, None] - scores[None, :]) @ controls)
        here, there = self.draws[:, plates], self.draws[:, control_plates]
        pairs: Array = (here @ positives.sum(axis=0)) * (there @ controls.sum(axis=0))
        wins: Array = (np.einsum("bp,bp->b", here, there @ ahead.T) + pairs) / 2
        return wins, pairs


def weighted_auroc(scores: Array, ones: Array, zeros: Array) -> float:
    """AUROC where place c has `ones[c]` positives and `zeros[c]` negatives; ties count half.

    >>> weighted_auroc(np.array([0.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0]), np.array([2.0, 1.0, 1.0]))
    0.75
    """
    values, group = np.unique(scores, return_inverse=True)
    positives = np.bincount(group, ones, minlength=len(values))
    negatives = np.bincount(group, zeros, minlength=len(values))
    return float(positives @ (np.cumsum(negatives) - negatives / 2) / (ones.sum() * zeros.sum()))


def plate_chance(design: Design, positives: Sequence[Codes], rng: np.random.Generator) -> float:
    """What the share of their own plate would score, on average, if wells of perturbations had fallen on plates at random."""
    controls = design.plate.count(design.control)
    areas = []
    for rows in positives:
        total = controls + design.plate.count(rows) if controls.any() else design.plate.counts
        draws = -(-CHANCE_DRAWS // len(positives))
        for drawn in rng.multivariate_hypergeometric(total, rows.size, size=draws, method="marginals"):
            ones, zeros = drawn.astype(np.float64), (total - drawn).astype(np.float64)
            areas.append(weighted_auroc(count_score(ones, zeros), ones, zeros))
    return float(np.mean(areas))
