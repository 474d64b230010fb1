"""What dictionaries that share nothing would score: isotropic directions in closed form, matched, permuted and shuffled ones by drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import in_threads
from identifiable.dictionaries.assignment import Assignment, Float32, Index, assign
from identifiable.groups import GRAM_TOLERANCE
from identifiable.moments import Array
from identifiable.run import PLAIN, Run, Stage

DRAWN = 1024  # features on either side (geometric mean) up to which null dictionaries are as large as the given ones
LADDER = (512, 1024, 2048)  # sizes that the level of larger dictionaries is extrapolated from
FEWER = (1, 2, 4)  # one in so many draws is also made at that size: larger dictionaries vary less
EULER = 0.5772156649
FITTED, STEPS = 2048, 10  # vectors and steps that fit a Gaussian
EXTREME = 0.99  # of chance matches: a nearer one is called above chance
GRID = 20_001  # points of the integral over cosines


# -- isotropic directions


def isotropic_level(k: float, d: float, *, signed: bool = True) -> float:
    """The cosine that one in k pairs of random directions in d dimensions exceeds, by absolute value where not `signed`.

    Reconstructed (spec/align.md): it is PW-MCC of two isotropic dictionaries of k features, within 0.002 for k from 512 to 16,384
    and within 0.003 from 30 features and 32 dimensions on; too high in fewer dimensions (0.008 in 16, 0.02 in 8, up to 0.08 in 4).

    >>> round(isotropic_level(512, 768), 3), round(isotropic_level(65_536, 64), 3)
    (0.104, 0.493)
    """
    from scipy.special import betaincinv

    share = 2 / k if signed else 1 / k  # of |cosines|
    return float(np.sqrt(betaincinv(0.5, (d - 1) / 2, max(1 - share, 0.0))))


def isotropic_matching(k_a: int, k_b: int, d: int, *, signed: bool) -> float:
    """PW-MCC of isotropic dictionaries of k_a and k_b features.

    Ours for different sizes: between the level of the assignment, P = 1 / k, and that of the mean maximum, P = exp(-0.577) / k
    (Gumbel), in which nobody competes; within 0.003 of simulation for d from 64 to 256.
    """
    small, large = sorted((k_a, k_b))
    return isotropic_level(large * np.exp(EULER * (1 - small / large)), d, signed=signed)


def isotropic_maximum(k: int, d: int, *, signed: bool) -> float:
    """The mean largest cosine of a direction with k random ones: 1 - the integral of F(t)^k."""
    from scipy.special import betainc

    t = np.linspace(-1.0 if signed else 0.0, 1.0, GRID)
    tail = betainc((d - 1) / 2, 0.5, 1 - t**2)
    below = np.where(t < 0, tail / 2, 1 - tail / 2) if signed else 1 - tail
    return float(1 - np.trapezoid(below**k, t))


# -- null dictionaries: Gaussian directions with the mean and covariance of the given one, its columns permuted, or its rows shuffled


class Law(Protocol):
    """How null dictionaries are drawn: k unit vectors."""

    def draw(self, k: int, rng: np.random.Generator) -> Float32: ...


@dataclass(frozen=True, eq=False)
class Directions:
    """Gaussian vectors that, scaled to length 1, have the mean and the covariance of given unit rows.

    Ours. The covariance of few rows is uneven by chance alone, so it is shrunk towards a multiple of the identity of the whole
    space (Ledoit and Wolf 2004; scikit-learn): few rows in many dimensions give isotropic directions. The Gaussian is fitted
    after scaling: one with the covariance of the unit rows themselves would be scaled a second time, which flattens its
    spectrum (0.03 to 0.05 too low where the spectrum decays).
    """

    mean: Float32
    root: Float32

    @classmethod
    def of(cls, unit: Float32, span: Array | None = None) -> Directions:
        """`span` (of `span_of`) is what the rows span, where it is known; all other directions have the same variance."""
        from sklearn.covariance import ledoit_wolf_shrinkage

        d = unit.shape[1]
        basis = None if span is None or len(span) == d else span
        rows = unit if basis is None else unit @ basis.T.astype(np.float32)
        mean = rows.mean(axis=0, dtype=np.float64)
        variances, columns = np.linalg.eigh(_gram(rows) / len(rows) - np.outer(mean, mean))
        inside = columns.T * np.where(mean @ columns < 0, -1.0, 1.0)[:, None]  # signs are the library's whim
        variances = variances.clip(min=0)
        shrinkage = float(ledoit_wolf_shrinkage(unit))
        every = np.append(variances, np.zeros(d - len(variances)))
        spreads, means = _before_scaling(
            (1 - shrinkage) * every + shrinkage * every.mean(), np.append(inside @ mean, np.zeros(d - len(variances)))
        )
        axes = inside if basis is None else inside @ basis
        r = len(axes)
        rest = np.sqrt(np.mean(spreads[r:] ** 2)) if r < d else 0.0
        root = (axes.T * (spreads[:r] - rest)) @ axes + rest * np.eye(d)
        return cls((means[:r] @ axes).astype(np.float32), root.astype(np.float32))

    def draw(self, k: int, rng: np.random.Generator) -> Float32:
        return _scaled(rng.standard_normal((k, len(self.root)), dtype=np.float32) @ self.root + self.mean)


@dataclass(frozen=True, eq=False)
class Permuted:
    """Given unit rows with each column permuted by itself, scaled to length 1 again.

    Ours. It keeps what a Gaussian does not: how the entries of every dimension are distributed (sparse, of one sign, heavy
    tails). It loses what dimensions have in common. Columns are weighted so that the second scaling leaves their mean squares.
    """

    rows: Float32
    weights: Float32

    @classmethod
    def of(cls, unit: Float32) -> Permuted:
        sample = _independent(unit, FITTED, np.random.default_rng(0))
        wanted: Array = np.asarray(np.mean(unit**2, axis=0, dtype=np.float64))
        return cls(unit, _column_weights(sample, np.ones_like(wanted), wanted))

    def draw(self, k: int, rng: np.random.Generator) -> Float32:
        rows = rng.permuted(self.rows, axis=0) if k == len(self.rows) else _independent(self.rows, k, rng)
        live = rows.any(axis=1)
        if not live.all():  # of sparse dictionaries, which as given have no such row
            rows[~live] = rows[rng.choice(np.flatnonzero(live), int(np.sum(~live)))]
        return _scaled(rows * self.weights)


@dataclass(frozen=True, eq=False)
class Shuffled:
    """Given unit rows with the entries of each row in random order, in units of their column's root mean square.

    Ours. It keeps how the length of every row is spread over its entries, which other rows' entries would even out: a row with
    heavy tails points along its largest entry (t of 2 degrees of freedom: 0.04 too low without this null). Columns keep their
    mean squares, and lose all else. These are shrunk to their mean by the share of their differences that is noise (Stein): a large
    entry makes its column's mean square large, and would be divided by it.
    """

    rows: Float32
    live: NDArray[np.bool_]
    spread: Float32
    weights: Float32

    @classmethod
    def of(cls, unit: Float32) -> Shuffled:
        squares: Array = np.asarray(np.mean(unit**2, axis=0, dtype=np.float64))
        live: NDArray[np.bool_] = np.asarray(squares > 0)
        fourth: Array = np.asarray(np.mean(unit**4, axis=0, dtype=np.float64))
        noise = float((fourth - squares**2)[live].mean()) / len(unit)
        apart = float(squares[live].var())
        wanted = squares[live] + min(noise / apart if apart > 0 else 1.0, 1.0) * (squares[live].mean() - squares[live])
        spread = np.sqrt(wanted)
        plain = cls(unit, live, spread.astype(np.float32), np.ones(int(live.sum()), np.float32))
        sample = plain.draw(FITTED, np.random.default_rng(0))[:, live]
        return cls(unit, live, plain.spread, _column_weights(sample, spread, wanted))

    def draw(self, k: int, rng: np.random.Generator) -> Float32:
        chosen = np.arange(k) if k == len(self.rows) else rng.choice(len(self.rows), k, replace=k > len(self.rows))
        drawn = np.zeros((k, len(self.live)), np.float32)
        drawn[:, self.live] = rng.permuted(self.rows[chosen][:, self.live] / self.spread, axis=1) * self.weights
        return _scaled(drawn)


def _column_weights(sample: Float32, start: Array, wanted: Array) -> Float32:
    """What columns are multiplied by so that rows of the sample, scaled to length 1, have the wanted mean squares."""
    weights = start.astype(np.float32)
    for _ in range(STEPS):
        found = np.mean(_scaled(sample * weights) ** 2, axis=0, dtype=np.float64)
        weights *= np.sqrt(np.divide(wanted, found, out=np.ones_like(found), where=found > 0)).astype(np.float32)
    return weights


def _independent(rows: Float32, k: int, rng: np.random.Generator) -> Float32:
    """k rows, each entry from any row of its column."""
    n, d = rows.shape
    drawn: Float32 = rows[rng.integers(n, size=(k, d)), np.arange(d)]
    return drawn


def span_of(unit: Float32) -> Array:
    """An orthonormal basis of the span of the rows, one direction in each row."""
    if len(unit) <= unit.shape[1]:
        _, spread, vectors = np.linalg.svd(unit.astype(np.float64), full_matrices=False)
    else:
        squares, columns = np.linalg.eigh(_gram(unit))
        spread, vectors = np.sqrt(squares.clip(min=0)), columns.T
    span: Array = vectors[spread > GRAM_TOLERANCE * spread.max()]
    return span


def _gram(unit: Float32) -> Array:
    gram = np.zeros((unit.shape[1],) * 2)
    for start in range(0, len(unit), 4096):
        rows = unit[start : start + 4096].astype(np.float64)
        gram += rows.T @ rows
    return gram


def _scaled(rows: Float32) -> Float32:
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Float32 = np.divide(rows, size, out=np.zeros_like(rows), where=size > 0)
    return unit


def _before_scaling(variances: Array, means: Array) -> tuple[Array, Array]:
    """Standard deviations and means of independent Gaussians that have these variances and means once scaled to length 1.

    A fixed point over one sample: each variance by the ratio of wanted to found, each mean by their difference.
    """
    sample = np.random.default_rng(0).standard_normal((FITTED, len(variances)), dtype=np.float32)
    variances = variances.clip(min=0)  # rounding leaves some below 0
    spreads, centres = np.sqrt(variances), means.copy()
    for _ in range(STEPS):
        rows = sample * spreads.astype(np.float32) + centres.astype(np.float32)
        unit = _scaled(rows)
        found = unit.var(axis=0, dtype=np.float64)
        spreads = spreads * np.sqrt(np.divide(variances, found, out=np.ones_like(found), where=found > 0))
        centres = centres + (means - unit.mean(axis=0, dtype=np.float64)) * np.linalg.norm(rows, axis=1).mean()
        whole = np.sqrt(np.sum(spreads**2) + np.sum(centres**2))
        spreads, centres = spreads / whole, centres / whole
    return spreads, centres


class Draw(NamedTuple):
    """The scores of two null dictionaries, and their matches in the convention that was asked for."""

    scores: Array
    found: Assignment


@dataclass(frozen=True, eq=False)
class PairChance:
    """Chance level of a pair: `draws` of its five scores (as `scores_of`), and cosines of chance matches, sorted."""

    draws: Array
    sizes: NDArray[np.floating]

    @property
    def extreme(self) -> float:
        """The cosine that one in a hundred chance matches exceeds."""
        return float(np.quantile(self.sizes, EXTREME))

    def p_of(self, cosines: Float32) -> Array:
        """Of every match the share of chance matches whose cosine is as large."""
        reached = len(self.sizes) - np.searchsorted(self.sizes, cosines, side="left")
        p: Array = (1 + reached) / (1 + len(self.sizes))
        return p


@dataclass(frozen=True, eq=False)
class Chance:
    """Chance levels of every pair, of cycles, and the sizes (geometric mean of a pair) they were drawn at."""

    pairs: list[PairChance]
    cycles: float
    sizes: tuple[int, ...]


def scores_of(found: Sequence[Assignment], signed: bool, threshold: float) -> Array:
    """PW-MCC signed and absolute; in the given convention the mean largest cosine from A to B and back, and the share above."""
    chosen = found[0 if signed else 1]
    means = [found[0].size.mean(), found[1].size.mean(), chosen.best.mean(), chosen.best_back.mean()]
    scores: Array = np.array([*means, np.mean(chosen.size > threshold)], np.float64)
    return scores


def closed_cycles(found: Mapping[tuple[int, int], Assignment], extremes: Sequence[float], count: int) -> float:
    """The share of features that i to j to k and back to i leads to themselves, over all triples and their features.

    Each of the three matches must be above the 99 % point of chance (`extremes`, in order of the pairs).
    """
    above = {at: each.scored > extreme for (at, each), extreme in zip(found.items(), extremes, strict=True)}
    closed = total = 0
    for i, j, k in combinations(range(count), 3):
        there, back = found[i, j].partner, found[i, k].partner
        through = _after(there, found[j, k].partner)
        both = (through >= 0) & (back >= 0)
        near = above[i, j] & above[i, k] & above[j, k][there]
        closed += int(np.sum(both & near & (through == back)))
        total += int(np.sum(both))
    return closed / total if total else float("nan")


def _after(first: Index, second: Index) -> Index:
    found: Index = np.where(first >= 0, second[first], -1)
    return found


def chance(
    laws: Sequence[Law],
    features: Sequence[int],
    signed: bool,
    *,
    draws: int,
    threshold: float,
    seed: int = 0,
    run: Run = PLAIN,
    drawn: int = DRAWN,
    ladder: Sequence[int] = LADDER,
) -> Chance:
    """Scores of null dictionaries, one drawn from each law, matched as the given ones are.

    Ours. Above `drawn` features (geometric mean of the largest pair) they are drawn at the sizes of the `ladder`, all by
    the same factor, and extrapolated: a level is turned into the dimension of isotropic directions that would have it
    (`isotropic_level`), and that dimension is close to linear in the logarithm of the size, also with a shared mean or a
    decaying spectrum: within 0.004 from 512-2,048 to 4,096 on seven such worlds. Draws and cosines of the ladder are shifted
    to that level, so their spread is that of smaller dictionaries: too wide rather than too narrow.
    """
    largest = max(np.sqrt(a * b) for a, b in combinations(features, 2))
    whole = largest <= drawn
    sizes = [int(largest)] if whole else list(ladder)
    counts = [draws] if whole else [max(draws // fewer, 1) for fewer in FEWER]
    jobs = [(size, draw) for size, count in zip(sizes, counts, strict=True) for draw in range(count)]

    def one(job: tuple[int, int]) -> dict[tuple[int, int], Draw]:
        size, draw = job
        rng = np.random.default_rng([seed, 6, size, draw])
        factor = 1.0 if whole else size / largest
        null = [law.draw(max(round(k * factor), 2), rng) for law, k in zip(laws, features, strict=True)]
        made = {}
        for i, j in combinations(range(len(null)), 2):
            found = assign(null[i], null[j], exact=2**31)
            made[i, j] = Draw(scores_of(found, signed, threshold), found[0 if signed else 1])
        return made

    made = in_threads(one, jobs, run, Stage("chance"))
    by_size = [[draw for (s, _), draw in zip(jobs, made, strict=True) if s == size] for size in sizes]
    places = list(combinations(range(len(laws)), 2))
    pairs = [
        _level([[draw[at] for draw in group] for group in by_size], sizes, largest, signed, threshold) for at in places
    ]
    cycles = float("nan")
    if len(laws) > 2:
        last = by_size[-1]
        extremes = [np.quantile(np.concatenate([d[at].found.size for d in last]), EXTREME) for at in places]
        closed = [closed_cycles({at: d[at].found for at in places}, extremes, len(laws)) for d in last]
        cycles = float(np.mean(closed))
    return Chance(pairs, cycles, tuple(sizes))


def _level(
    groups: list[list[Draw]], sizes: Sequence[int], largest: float, signed: bool, threshold: float
) -> PairChance:
    means = np.array([np.mean([draw.scores for draw in group], axis=0) for group in groups])
    level = means[0].copy()
    if len(sizes) > 1:
        for i, convention in enumerate((True, False, signed, signed)):
            level[i] = _extrapolated(means[:, i], sizes, largest, convention)
    main = 0 if signed else 1
    draws = np.array([draw.scores for draw in groups[0]]) + (level - means[0])
    draws[:, -1] = [np.mean(draw.found.size + (level - means[0])[main] > threshold) for draw in groups[0]]
    cosines = np.sort(np.concatenate([draw.found.size for draw in groups[-1]]) + (level - means[-1])[main])
    return PairChance(draws, cosines)


def _extrapolated(levels: Array, sizes: Sequence[int], size: float, signed: bool) -> float:
    """The level at another size, by the dimension that isotropic directions of that level have."""
    dimension = [_dimension(level, k, signed) for level, k in zip(levels, sizes, strict=True)]
    slope, start = np.polyfit(np.log(sizes), dimension, 1)
    return isotropic_level(size, max(start + slope * np.log(size), 1.01), signed=signed)


def _dimension(level: float, k: int, signed: bool) -> float:
    from scipy.optimize import brentq

    return float(brentq(lambda d: isotropic_level(k, d, signed=signed) - np.clip(level, 1e-3, 1 - 1e-9), 1.000001, 1e9))
