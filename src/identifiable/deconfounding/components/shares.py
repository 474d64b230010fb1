"""How much of an axis' variance plates, positions and perturbations explain, judged on wells and plates not used to explain it.

Every share here is a covariance between what some wells predict and what others show, divided by the variance of the axis. It is
unbiased: chance gives 0 on average, where an in-sample share (eta squared) grows with the number of plates or perturbations and a
cross-validated R squared falls below 0 by the noise of its own predictions.

plates and batches  the mean product of two control wells of one plate, less that of two wells far apart. It is the average, over all
                    ways to halve the controls of each plate, of predicting one half by the mean of the other
position            wells' deviations from their plate's mean, predicted by a regression fitted to the controls of other plates
perturbations       deviations from the plate's controls, predicted by the mean deviation of the same perturbation on other plates
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma
from scipy.stats import t

from identifiable.deconfounding.components.variance import (
    CELL_COUNT,
    LAYOUT,
    BetweenPlates,
    PlatePairs,
    Plates,
    PlateSums,
    Positions,
    Replicates,
    Slabs,
    between_plates,
    reordered,
    shuffled_within,
)
from identifiable.deconfounding.design import Codes, Design
from identifiable.deconfounding.intervals import q_values
from identifiable.moments import Array
from identifiable.results import TopPerturbation

FEWEST_TO_BORROW = 10  # perturbations below which their variances say too little about each other
NEWTON_STEPS = 20
SPREAD = "spread"  # how much wells differ within a plate, by plate


@dataclass(frozen=True, eq=False)
class Scores:
    """Technical and biological share of every axis, and what they are without each part of the plates: (parts, axes).

    `cell_count` is the part of the technical share that cell counts explain by themselves, 0 where they are not known.
    """

    technical: Array
    biological: Array
    cell_count: Array
    technical_without: Array
    biological_without: Array


@dataclass(frozen=True, eq=False)
class Questions:
    """All that is asked of an axis, prepared from the design: one preparation serves any number of axes."""

    plates: Plates
    pairs: PlatePairs
    positions: Positions
    replicates: Replicates

    @classmethod
    def of(cls, design: Design, *, rng: np.random.Generator) -> Questions:
        plates = Plates.of(design, rng=rng)
        return cls(plates, PlatePairs.of(plates), Positions.of(plates), Replicates.of(plates, rng=rng))

    def shared_position(self, explained: Mapping[str, Array]) -> Array | float:
        """Variance that replicates share only because they lie at the same place of their plates."""
        shared = (weight * explained[name].clip(min=0) for name, weight in self.replicates.locked.items() if weight > 0)
        return sum(shared, start=0.0)


def whole_variance(values: NDArray[np.float32]) -> Array:
    """Variance of each axis over all wells; the smallest positive number for an axis without any."""
    return np.asarray(np.maximum(values.var(axis=0, dtype=np.float64), np.finfo(np.float64).tiny))


def scores(slabs: Slabs, questions: Questions, *, errors: bool = True) -> Scores:
    """Technical and biological shares of all axes, without permutations: what axes are ranked by.

    Technical is the variance between plates (batches included) and what layout explains within them, over the variance of the same
    wells: plate means are taken out before layout is fitted, so the two do not overlap.
    """
    plates, positions, replicates = questions.plates, questions.positions, questions.replicates
    sums, products, replicated, variances = [], [], [], []
    for slab in slabs:
        values = slab[plates.reference]
        sums.append(PlateSums.of(plates, values))
        products.append(positions.products(values))
        found = replicates.replicated(slab)[None]
        replicated.append(np.concatenate([found, replicates.replicated_without(slab)]) if errors else found)
        variances.append(whole_variance(slab))
    of_plates, of_layout = PlateSums.joined(sums), np.concatenate(products, axis=2)
    technical = []
    total = positive(of_plates.variances(plates).total)
    cell_count = positions.explained(of_layout, (CELL_COUNT,)).get(CELL_COUNT, np.zeros(len(total))) / total
    for left_out in (None, *range(plates.parts)) if errors else (None,):
        between = of_plates.variances(plates, left_out)
        explained = positions.explained(of_layout, (LAYOUT,), left_out).get(LAYOUT, 0.0)
        technical.append((between.plate + explained) / positive(between.total))
    # What replicates share by position is known from all controls; leaving a part of them out would hardly change it.
    shared = questions.shared_position(positions.explained(of_layout, replicates.locked))
    biological = (np.concatenate(replicated, axis=1) - shared) / np.concatenate(variances)
    return Scores(technical[0], biological[0], cell_count, np.array(technical[1:]), biological[1:])


def positive(variances: Array) -> Array:
    """Variances to divide by."""
    return np.asarray(np.where(variances > 0, variances, np.nan))


# -- permutations


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of every factor on every axis (`observed`), and under permutations (`null`: permutations, axes)."""

    observed: Mapping[str, Array]
    null: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class _Axes:
    """Some axes with what every permutation needs of them."""

    slab: NDArray[np.float32]
    values: NDArray[np.float32]  # of reference wells, about their mean
    questions: Questions

    @classmethod
    def of(cls, slab: NDArray[np.float32], questions: Questions) -> _Axes:
        values = slab[questions.plates.reference]
        return cls(slab, values - values.mean(axis=0, dtype=np.float64).astype(np.float32), questions)

    @cached_property
    def energy(self) -> Array:
        return np.asarray((self.values.astype(np.float64) ** 2).sum(axis=0))

    @cached_property
    def distances(self) -> NDArray[np.float32]:
        return self.questions.pairs.log_distances(self.values)

    @cached_property
    def sums(self) -> NDArray[np.float32]:
        return np.asarray(self.questions.plates.sums @ self.values)

    @cached_property
    def variance(self) -> Array:
        return whole_variance(self.slab)

    @cached_property
    def total(self) -> Array:
        return positive(self.between(self.sums, self.questions.plates.batches).total)

    def between(self, sums: NDArray[np.float32], batches: Codes | None) -> BetweenPlates:
        return between_plates(sums.astype(np.float64), self.energy, self.questions.plates.counts, batches)

    def shares(self, order: _Order | None) -> dict[str, Array]:
        """The share of each factor by itself, in the order found or after permutations."""
        questions, values = self.questions, self.values
        plates, positions = questions.plates, questions.positions
        batches = plates.batches
        by_plate = self.between(self.sums if order is None else plates.sums @ values[order.anywhere], batches)
        found = {"plate": by_plate.plate / self.total, SPREAD: self._spread(order)}
        if batches is not None:
            over = batches if order is None else order.batches
            inside = self.sums if order is None else reordered(plates.sums, order.in_batch) @ values
            found["batch"] = self.between(self.sums, over).batch / self.total
            found["plate_in_batch"] = self.between(inside, batches).within_batch / self.total
        explained = positions.explained(positions.products(values if order is None else values[order.in_plate]))
        found |= {name: variance / self.total for name, variance in explained.items()}
        common = questions.replicates.replicated(self.slab, None if order is None else order.wells)
        found["perturbation"] = (common - questions.shared_position(explained)) / self.variance
        return found

    def _spread(self, order: _Order | None) -> Array:
        """The share of plates in how far apart their wells are."""
        pairs, distances = self.questions.pairs, self.distances
        sums = (pairs.sums if order is None else reordered(pairs.sums, order.pairs)) @ distances
        energy = (distances.astype(np.float64) ** 2).sum(axis=0)
        found = between_plates(sums.astype(np.float64), energy, pairs.counts, self.questions.plates.batches)
        return found.plate / positive(found.total)


@dataclass(frozen=True, eq=False)
class _Order:
    """One permutation of each kind: of reference wells over all plates, within batches and within plates; of pairs of them over
    plates; of the batches of plates; of all wells within plates."""

    anywhere: Codes
    pairs: Codes
    in_batch: Codes
    in_plate: Codes
    batches: Codes
    wells: Codes

    @classmethod
    def drawn(cls, questions: Questions, rng: np.random.Generator) -> _Order:
        plates = questions.plates
        batches = np.zeros(len(plates.counts), np.intp) if plates.batches is None else plates.batches
        return cls(
            rng.permutation(len(plates.reference)),
            rng.permutation(len(questions.pairs.codes)),
            shuffled_within(batches[plates.codes], rng),
            shuffled_within(plates.codes, rng),
            rng.permutation(batches),
            shuffled_within(plates.design.plate.codes, rng),
        )


def shares(
    slabs: Slabs,
    questions: Questions,
    *,
    permutations: int,
    seed: int,
    run: Callable[[Callable[[int], dict[str, Array]], Sequence[int]], list[dict[str, Array]]],
) -> Shares:
    """Shares of all factors with their nulls; `run` maps a function over the numbers of the permutations."""
    axes = [_Axes.of(slab, questions) for slab in slabs]

    def joined(order: _Order | None) -> dict[str, Array]:
        parts = [part.shares(order) for part in axes]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    observed = joined(None)
    drawn = run(lambda k: joined(_Order.drawn(questions, np.random.default_rng([seed, k]))), range(permutations))
    return Shares(observed, {name: np.array([draw[name] for draw in drawn]) for name in observed})


def pooled_p(observed: Array, null: Array) -> Array:
    """p-values against the permutations of all axes together, each in standard deviations of its own.

    Axes are standardised and their nulls differ in mean and width at most a little in shape, so the draws of d axes serve
    each of them: the smallest p is 1 / (1 + permutations x d), small enough to survive a correction over d axes.

    >>> p = pooled_p(np.array([0.0, 9.0]), np.random.default_rng(0).standard_normal((200, 2)))
    >>> bool(p[0] > 0.05), round(float(p[1]), 4)
    (True, 0.0025)
    """
    centre, width = null.mean(axis=0), null.std(axis=0)
    usable = np.isfinite(observed) & (width > 0)
    p = np.ones(len(observed))
    if usable.any():
        draws = np.sort(((null[:, usable] - centre[usable]) / width[usable]).ravel())
        z = (observed[usable] - centre[usable]) / width[usable]
        p[usable] = (1 + len(draws) - np.searchsorted(draws, z)) / (1 + len(draws))
    return p


# -- which perturbations move an axis


@dataclass(frozen=True, eq=False)
class PerturbationEffects:
    """(perturbations, axes): mean effect in standard deviations of the axis, and its p-value."""

    names: tuple[str, ...]
    wells: NDArray[np.intp]
    effect: NDArray[np.float32]
    p: Array

    def q(self) -> Array:
        """Benjamini-Hochberg over all perturbations and axes together."""
        return q_values(self.p.ravel()).reshape(self.p.shape)

    def top(self, axis: int, q: Array, count: int) -> tuple[TopPerturbation, ...]:
        """The perturbations of smallest p on an axis, larger effects first where p is equal."""
        p, effect = self.p[:, axis], self.effect[:, axis]
        order = np.lexsort((-np.abs(effect), p))[:count]
        return tuple(
            TopPerturbation(self.names[k], float(effect[k]), int(self.wells[k]), float(p[k]), float(q[k, axis]))
            for k in order.tolist()
            if np.isfinite(p[k])
        )


def perturbation_effects(slabs: Slabs, replicates: Replicates) -> PerturbationEffects:
    """Effect of every perturbation that lies on two plates or more, on every axis.

    Ours, with the moderated t-test of limma (Smyth 2004). The effect on a plate is the mean of its wells less that of the plate's
    controls; plates are the unit, so neither many wells of one plate nor the noise of its controls passes for evidence.
    A perturbation on few plates borrows from the others how much effects on an axis vary from plate to plate.
    """
    cells = replicates.cells
    adding = cells.by_owner.astype(np.float64)
    plates = np.asarray(adding @ np.ones(adding.shape[1]))
    wells = np.asarray(adding @ cells.counts).round().astype(np.intp)
    effects, p = [], []
    for slab in slabs:
        means = (cells.adding @ replicates.deviations(slab)) / cells.counts[:, None]
        effect = (adding @ means) / plates[:, None]
        squares = adding @ (means - effect[cells.owner]) ** 2
        effects.append((effect / np.sqrt(whole_variance(slab))).astype(np.float32))
        p.append(moderated_p(effect, squares / (plates - 1)[:, None], plates))
    return PerturbationEffects(replicates.names, wells, np.concatenate(effects, axis=1), np.concatenate(p, axis=1))


def moderated_p(mean: Array, variance: Array, plates: Array) -> Array:
    """Two-sided p-values of means over `plates` units of the given sample variances: (perturbations, axes).

    Implements limma's `eBayes` (Smyth 2004): on each axis true variances are taken as scaled inverse chi-square, and each
    sample variance is drawn towards their centre in proportion to what it lacks in degrees of freedom.
    """
    freedom = (plates - 1)[:, None]
    prior, centre = _prior(variance, freedom)
    with np.errstate(invalid="ignore"):
        drawn = np.where(np.isinf(prior), centre, (prior * centre + freedom * variance) / (prior + freedom))
    error = np.sqrt(drawn / plates[:, None])
    ratio = np.divide(np.abs(mean), error, out=np.full(mean.shape, np.nan), where=error > 0)
    return np.asarray(2 * t.sf(ratio, np.minimum(prior + freedom, 1e9)), np.float64)


def _prior(variance: Array, freedom: Array) -> tuple[Array, Array]:
    """Degrees of freedom and centre of the variances of an axis, from the spread of their logarithms (limma's `fitFDist`)."""
    axes = variance.shape[1]
    if len(variance) < FEWEST_TO_BORROW:
        return np.zeros(axes), np.ones(axes)
    floor = 1e-5 * np.maximum(np.median(variance, axis=0), np.finfo(np.float64).tiny)  # as limma: no logarithm of zero
    logs = np.log(np.maximum(variance, floor)) - digamma(freedom / 2) + np.log(freedom / 2)
    excess = logs.var(axis=0, ddof=1) - polygamma(1, freedom / 2).mean()
    prior = np.where(excess > 0, 2 * _inverse_trigamma(np.maximum(excess, 1e-12)), np.inf)
    finite = np.minimum(prior, 1e12)
    centre = np.exp(logs.mean(axis=0) + digamma(finite / 2) - np.log(finite / 2))
    return prior, centre


def _inverse_trigamma(value: Array) -> Array:
    """The number whose trigamma is `value`, by Newton's method on its reciprocal (Smyth 2004, appendix)."""
    found = 0.5 + 1 / value
    for _ in range(NEWTON_STEPS):
        trigamma = polygamma(1, found)
        found += trigamma * (1 - trigamma / value) / polygamma(2, found)
    return np.asarray(found)
