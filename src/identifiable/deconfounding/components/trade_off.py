"""What taking axes out costs and brings: plate predictability against replicate mAP, for ICA, PCA and random axes.

Axes are chosen on one half of the plates (of the batches, where replicates lie in one batch) and judged on the other, and the other
way round. What is judged are the scaled features
less what the removed axes contribute to them, as they would be written. With nothing removed this is the table as it came, whatever
the axes; what differs afterwards is what their axes are worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.blocks import Blocks
from identifiable.deconfounding.components.attributing import MATERIAL
from identifiable.deconfounding.components.shares import Questions, scores
from identifiable.deconfounding.components.variance import Slabs, indicator, rotated, same_pairs
from identifiable.deconfounding.design import Codes, Design, Labels
from identifiable.deconfounding.folds import plate_folds
from identifiable.deconfounding.intervals import plate_groups
from identifiable.deconfounding.metrics.replicates import Ranking, WellSums, replicate_map
from identifiable.deconfounding.metrics.space_metrics import replicate_columns, replicate_rows
from identifiable.groups import haar_rotation
from identifiable.moments import Array
from identifiable.options.screens import HoldOut
from identifiable.results import Interval
from identifiable.run import Run, Stage

Method = Literal["drop", "shrink"]
AxesOf = Literal["ica", "pca", "rand"]
SPACES: tuple[AxesOf, ...] = ("ica", "pca", "rand")
FEWEST_PLATES = 4  # two in each half: what belongs to a plate cannot be told on one
MOSTLY = 0.5  # share of pairs of replicates in one batch from which on replicates are ranked within batches


@dataclass(frozen=True, eq=False)
class Ranked:
    """Axes of a half of the plates: technical and biological score of each, and the order in which they would go."""

    technical: Array
    biological: Array
    cell_count: Array

    @classmethod
    def of(cls, slabs: Slabs, questions: Questions) -> Ranked:
        found = scores(slabs, questions, errors=False)
        return cls(found.technical, found.biological, found.cell_count)

    def chosen(self, method: Method, budget: float) -> Array:
        """One factor for each axis when those more technical than biological go, within the budget of biology."""
        technical, biological = np.nan_to_num(self.technical), np.nan_to_num(self.biological)
        candidates = [k for k in self.order.tolist() if technical[k] >= MATERIAL and technical[k] > biological[k]]
        candidates = candidates if has_place(technical, self.cell_count) else []
        return budgeted(candidates, self.technical, self.biological, method, budget)

    @cached_property
    def order(self) -> Codes:
        """Axes by technical less biological score, highest first."""
        return removal_order(self.technical, self.biological)

    def weights(self, removed: int, method: Method) -> Array:
        """One factor for each axis when the first `removed` of the order are dropped or shrunk."""
        found = np.ones(len(self.technical))
        gone = self.order[:removed]
        found[gone] = 0.0 if method == "drop" else kept_share(self.technical, self.biological)[gone]
        return found

    def biology_lost(self, weights: Array) -> float:
        return biology_lost(self.biological, weights)


def removal_order(technical: Array, biological: Array) -> Codes:
    """Axes by technical less biological score, highest first; a score that could not be measured counts as 0."""
    return np.argsort(-(np.nan_to_num(technical) - np.nan_to_num(biological)), kind="stable").astype(np.intp)


def has_place(technical: Array, cell_count: Array) -> bool:
    """Whether plate, batch or position make any axis technical.

    Some axis follows cell counts in every screen. Where no plate and no place is behind any of them, nothing is confounded.
    """
    return bool(np.any(np.nan_to_num(technical) - np.nan_to_num(cell_count).clip(min=0) >= MATERIAL))


def budgeted(candidates: Sequence[int], technical: Array, biological: Array, method: Method, budget: float) -> Array:
    """One factor for each axis: candidates go one after the other, but for those that would overdraw the budget of biology."""
    target = np.zeros(len(technical)) if method == "drop" else kept_share(technical, biological)
    weights = np.ones(len(technical))
    for k in candidates:
        tried = weights.copy()
        tried[k] = target[k]
        if biology_lost(biological, tried) <= budget:
            weights = tried
    return weights


def kept_share(technical: Array, biological: Array) -> Array:
    """Biology as a share of biology and technique: the factor an axis is shrunk by. Scores below 0 are chance and count as 0."""
    biology, technique = (np.nan_to_num(score).clip(min=0) for score in (biological, technical))
    total = biology + technique
    return np.asarray(np.divide(biology, total, out=np.ones_like(total), where=total > 0))


def biology_lost(biological: Array, weights: Array) -> float:
    """Share of the positive biological scores that goes with these weights, which act on variances by their squares.

    Scores below 0 are chance and do not pay for others. Scores above 0 may be chance too, so the loss is rather over- than
    understated. NaN where no score is above 0: there is nothing that a share could be of.
    """
    known = np.nan_to_num(biological).clip(min=0)
    total = float(known.sum())
    return float((1 - weights**2) @ known / total) if total > 0 else float("nan")


def in_batches(design: Design) -> bool:
    """Whether most pairs of replicates lie in one batch: what a batch has of its own would then bring them together."""
    if design.batch is None or design.batch.size < 2:
        return False
    treated = ~design.control
    codes = (labels.codes[treated] for labels in (design.perturbation, design.plate, design.batch))
    same, pairs = same_pairs(*codes)
    return same > MOSTLY * pairs


@dataclass(frozen=True, eq=False)
class Half:
    """Some plates: their rows, what is asked of their axes, and which of the rows are judged."""

    rows: Codes
    design: Design
    questions: Questions
    judged: Codes  # among `rows`: whole perturbations and controls, at most so many
    features: NDArray[np.float32]  # scaled, of the judged wells
    centre: NDArray[np.float32]  # mean of the reference wells on the scaled features

    @classmethod
    def of(cls, features: Blocks, design: Design, rows: Codes, max_rows: int, seed: int) -> Half:
        part = design.take(rows)
        questions = Questions.of(part, rng=np.random.default_rng(seed))
        judged = replicate_rows(part, max_rows, np.random.default_rng([seed, part.n]))
        total = sum((block.sum(axis=0) for block in features.select(rows[questions.plates.reference])), start=0.0)
        centre = np.asarray(total / len(questions.plates.reference), np.float32)
        return cls(rows, part, questions, judged, features.select(rows[judged])[:].astype(np.float32), centre)

    @cached_property
    def judged_design(self) -> Design:
        return self.design.take(self.judged)

    @cached_property
    def batch_bound(self) -> bool:
        """Such replicates are ranked among controls of their own batch, which it brings together as much."""
        return in_batches(self.judged_design)

    @cached_property
    def groups(self) -> Labels:
        """Of plates, to be left out in turn."""
        return plate_groups(self.judged_design.plate)

    def replicates(self, values: NDArray[np.float32]) -> WellSums:
        """What the judged wells find on other plates; nothing where none has a replicate there."""
        design = self.judged_design
        if design.control.all():
            return WellSums.none(self.groups.size)
        ranking = Ranking(
            against="controls" if design.control.any() else "non-replicates",
            positives_differ_by=replicate_columns(design),
            negatives_share=("batch",) if self.batch_bound else (),
        )
        found = replicate_map(values, design, ranking, leave_out=self.groups, permutations=0).sums
        assert found is not None
        return found

    @cached_property
    def _sides(self) -> tuple[Codes, Codes]:
        """Reference wells of every plate in two halves, in turn; plates with a single one are left out."""
        plates = self.questions.plates
        usable = plates.counts[plates.codes] >= 2
        rows, codes = plates.reference[usable], plates.codes[usable]
        order = np.lexsort((np.random.default_rng(0).random(len(rows)), codes))
        place = np.arange(len(rows)) - np.searchsorted(codes[order], codes[order])
        return rows[order[place % 2 == 0]], rows[order[place % 2 == 1]]

    def plate_predictor(self, at: Callable[[Codes], NDArray[np.float32]]) -> PlatePredictor:
        """From the values of rows, which `at` gives."""
        first, second = self._sides
        codes = self.design.plate.codes
        return PlatePredictor.of(at(first), codes[first], at(second), codes[second])


@dataclass(frozen=True, eq=False)
class PlatePredictor:
    """Linear discriminant analysis of plates: centroids and spread from half of their controls, judged on the other half.

    Discriminants see a plate that moves along one axis by little, but more than wells of a plate differ; a nearest centroid would
    not. With nothing removed they do not depend on the rotation.
    """

    centroids: Array  # (plates, axes)
    within: Array  # covariance of wells about their centroids
    values: Array  # of the wells judged
    own: Codes  # their plates, as rows of `centroids`
    shrink: float

    @classmethod
    def of(
        cls, train: NDArray[np.float32], train_plate: Codes, test: NDArray[np.float32], test_plate: Codes
    ) -> PlatePredictor:
        known, codes = np.unique(train_plate, return_inverse=True)
        adding = indicator(codes.astype(np.intp), len(known)).astype(np.float64)
        centroids = (adding @ train.astype(np.float64)) / np.bincount(codes)[:, None]
        away = train - centroids[codes]
        freedom = max(len(train) - len(known), 1)
        # Covariances of few wells are drawn towards a sphere, by as much as axes outnumber wells.
        shrink = train.shape[1] / (train.shape[1] + freedom)
        return cls(
            centroids, away.T @ away / freedom, test.astype(np.float64), np.searchsorted(known, test_plate), shrink
        )

    def auroc(self, weights: Array) -> float:
        """The share of other plates that a well is farther from than from its own (ties half), mean over wells.

        For each well this is the AUROC of its own plate against the others; 0.5 is chance. NaN with a single plate.
        """
        plates, kept = len(self.centroids), np.flatnonzero(weights > 0)
        if plates < 2 or not len(self.values):
            return float("nan")
        if not len(kept):
            return 0.5
        scale = weights[kept]
        within = self.within[np.ix_(kept, kept)] * np.outer(scale, scale)
        size = float(np.trace(within)) / len(kept)
        if size <= 0:
            return float("nan")
        precision = np.linalg.inv((1 - self.shrink) * within + self.shrink * size * np.eye(len(kept)))
        centroids, values = self.centroids[:, kept] * scale, self.values[:, kept] * scale
        turned = centroids @ precision
        distance = np.einsum("ij,ij->i", turned, centroids) - 2 * values @ turned.T
        own = distance[np.arange(len(values)), self.own][:, None]
        farther = (distance > own).sum(axis=1) + 0.5 * ((distance == own).sum(axis=1) - 1)
        return float(farther.mean() / (plates - 1))


@dataclass(frozen=True, eq=False)
class OnAxes:
    """A half of the plates on the axes of one space: their scores there, and the few wells that are judged."""

    half: Half
    ranked: Ranked
    values: NDArray[np.float32]  # of the judged wells
    centre: NDArray[np.float32]  # mean of the reference wells
    back: NDArray[np.float32]  # (axes, features): what each axis contributes to the scaled features
    predictor: PlatePredictor

    @classmethod
    def of(cls, half: Half, slabs: Slabs, back: Array) -> OnAxes:
        part = [slab[half.rows] for slab in slabs]

        def at(rows: Codes) -> NDArray[np.float32]:
            return np.concatenate([slab[rows] for slab in part], axis=1)

        return cls(
            half,
            Ranked.of(part, half.questions),
            at(half.judged),
            at(half.questions.plates.reference).mean(axis=0),
            back.astype(np.float32),
            half.plate_predictor(at),
        )

    def judged_by(self, other: OnAxes, removed: int, method: Method) -> Judged:
        """This half with the axes that the other one chose; the origin is the other one's too."""
        weights = other.ranked.weights(removed, method)
        gone = np.flatnonzero(weights < 1)
        away = (self.values[:, gone] - other.centre[gone]) * (1 - weights[gone]).astype(np.float32)
        shown = np.asarray(self.half.features - other.half.centre - away @ self.back[gone], np.float32)
        return Judged(self.half.replicates(shown), self.predictor.auroc(weights), self.ranked.biology_lost(weights))


@dataclass(frozen=True, eq=False)
class Judged:
    """A space with some axes removed, on plates that were not used to choose them."""

    replicates: WellSums
    plate_auroc: float
    biology_lost: float

    def and_(self, other: Judged) -> Judged:
        """Both halves side by side."""
        return Judged(
            self.replicates.beside(other.replicates),
            (self.plate_auroc + other.plate_auroc) / 2,
            (self.biology_lost + other.biology_lost) / 2,
        )


@dataclass(frozen=True, eq=False)
class TradeOff:
    """All spaces at all numbers of axes removed, and what it takes to compare them."""

    judged: Mapping[tuple[AxesOf, int], Judged]
    ranked: Mapping[AxesOf, tuple[Ranked, Ranked]]  # on each half of the plates
    rotations: Mapping[AxesOf, Array | None]  # from components to the axes of each space
    halves: tuple[Half, Half]

    def difference(self, first: tuple[AxesOf, int], second: tuple[AxesOf, int]) -> tuple[float, Interval]:
        """Replicate mAP of the first less that of the second, on the same wells."""
        return self.judged[first].replicates.mean_above(self.judged[second].replicates)


def principal_rotation(back: Array) -> Array:
    """The rotation from components to whitened principal axes of the features, largest variance first.

    Components are white, so with X = Z B the covariance of X is B^T B; for B = U S V^T its principal axes, scaled to unit
    variance, are X V / S = Z U.
    """
    return np.asarray(np.linalg.svd(back, full_matrices=False)[0])


def trade_off(
    slabs: Slabs,
    back: Array,
    features: Blocks,
    design: Design,
    *,
    points: Sequence[int],
    method: Method = "drop",
    max_rows: int,
    run: Run,
) -> TradeOff:
    """Judge ICA, PCA and random axes with each number of `points` removed, on plates not used to choose them. Ours.

    `slabs` are all rows on the components, `features` the same rows on the scaled features, `back` (components, features) what
    components contribute to these. Of each half at most `max_rows` rows are judged by replicate mAP.
    """
    plates = design.plate
    whole = design.batch is not None and design.batch.size >= FEWEST_PLATES and in_batches(design)
    apart: HoldOut = "batch" if whole else "plate"
    enough = plates.size >= FEWEST_PLATES
    fold = plate_folds(design, folds=2, hold_out=apart, seed=run.seed) if enough else np.zeros(design.n, np.intp)
    if (
        min(len(np.unique(plates.codes[fold == k])) for k in range(2)) < 2
    ):  # one plate may hold as many wells as all others
        raise DataError(
            f"{design.name}: expected at least {FEWEST_PLATES} plates of similar size, got {plates.size}; axes are chosen on one half "
            "of the wells, plates whole, and judged on the other."
        )
    first, second = (Half.of(features, design, np.flatnonzero(fold == k), max_rows, run.seed) for k in range(2))
    halves = (first, second)
    axes = sum(slab.shape[1] for slab in slabs)
    rotations: dict[AxesOf, Array | None] = {
        "ica": None,
        "pca": principal_rotation(back),
        "rand": haar_rotation(axes, np.random.default_rng([run.seed, axes])),
    }
    judged: dict[tuple[AxesOf, int], Judged] = {}
    ranked: dict[AxesOf, tuple[Ranked, Ranked]] = {}
    steps, done = len(SPACES) * len(points), 0
    for space in SPACES:
        rotation = rotations[space]
        turned = slabs if rotation is None else rotated(slabs, rotation)
        turned_back = back if rotation is None else rotation.T @ back
        one, two = OnAxes.of(first, turned, turned_back), OnAxes.of(second, turned, turned_back)
        ranked[space] = one.ranked, two.ranked
        for removed in points:
            if removed == 0 and space != SPACES[0]:  # the same space, whatever its axes
                judged[space, 0] = judged[SPACES[0], 0]
            else:
                judged[space, removed] = one.judged_by(two, removed, method).and_(two.judged_by(one, removed, method))
            done += 1
            run.say(Stage("trade-off"), done, steps)
    return TradeOff(judged, ranked, rotations, halves)
