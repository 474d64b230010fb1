"""What an audit asks of the embedding itself: are its columns usable, and can the plate be read from it?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.stats import rankdata

from identifiable.blocks import Blocks, Progress, fold, one_blas_thread
from identifiable.deconfounding.design import Codes, Design, Labels
from identifiable.groups import WhiteBasis
from identifiable.intake import gather_moments
from identifiable.moments import Array, Moments
from identifiable.results import FeatureCheck

READ_ROWS = 20_000  # rows from which the reading of plates is judged, at most
READ_CLASSES = 200  # and plates, drawn at random
CLASS_ROWS = 4  # a plate (batch) with fewer wells is not read
RIDGE = 0.1  # penalty on standardised columns, as a share of the rows: directions of less than a tenth of the mean variance fade
NAMED_PAIRS = 5
HALF_NORMAL_MEDIAN = 0.6745  # of |N(0, 1)|
HALF_NORMAL_MEDIAN_SE = 0.7867  # times 1/sqrt(m), of the median of m draws: 1 / (2 f) with the density f = 0.6356 there
ALIKE = 0.3  # quartile range of kurtoses, in standard errors: samples from any one distribution differ by 1.35


@dataclass(frozen=True, eq=False)
class Reading:
    """AUROC of each class against the rest on held-out units, and from how many rows."""

    names: tuple[str, ...]
    aurocs: Array
    rows: int
    controls_only: bool
    all_rows: bool


def check_features(blocks: Blocks, *, workers: int | None = None, progress: Progress | None = None) -> FeatureCheck:
    """Constant and dependent columns, Gaussian marginals, rows that occur twice. Two passes, of which the first checks values."""
    moments = gather_moments([blocks], workers=workers, progress=progress)[0]
    energy = moments.energy
    varying = energy > 0
    scale = np.divide(np.sqrt(blocks.n), np.sqrt(energy), out=np.zeros(blocks.d), where=varying)
    start = partial(_Shape, moments.mean, scale)
    shape = fold([blocks], start, workers=workers, progress=progress, stage="shape of columns")
    kurtosis = shape.fourth[varying] / blocks.n - 3
    duplicates, pairs = _duplicates(blocks, np.concatenate(shape.hashes))
    return FeatureCheck(
        constant=int((~varying).sum()),
        rank=WhiteBasis.of(moments).rank,
        duplicate_rows=duplicates,
        duplicate_pairs=pairs,
        median_kurtosis=float(np.median(np.abs(kurtosis))) if kurtosis.size else float("nan"),
        gaussianised=_gaussianised(kurtosis, blocks.n, _free_columns(moments, scale)),
        n_over_d=blocks.n / blocks.d,
    )


class _Shape:
    """The statistic of fourth powers of standardised columns, and of a hash of every row."""

    def __init__(self, mean: Array, scale: Array):
        self.mean, self.scale = mean, scale
        self.fourth = np.zeros(len(mean))
        # Odd multipliers, the same in every strip; any will do, since equal hashes are compared row by row before they are named.
        self.weights = np.random.default_rng(71).integers(0, 2**63, len(mean), dtype=np.uint64) * 2 + 1
        self.hashes: list[NDArray[np.uint64]] = []

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        values = np.array(rows[0], dtype=np.float64, order="C")
        values += 0.0  # -0.0 equals 0.0 and must hash alike
        bits = values.view(np.uint64)
        self.hashes.append(((bits ^ (bits >> np.uint64(29))) * self.weights).sum(axis=1, dtype=np.uint64))
        values -= self.mean
        values *= self.scale
        np.square(values, out=values)
        self.fourth += np.einsum("ij,ij->j", values, values)

    def merge(self, later: _Shape) -> None:
        self.fourth += later.fourth
        self.hashes += later.hashes


def _duplicates(blocks: Blocks, hashes: NDArray[np.uint64]) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Rows equal to an earlier row: how many, and the first few beside the row they repeat."""
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[group] != np.arange(len(hashes)))
    candidates = again[:NAMED_PAIRS]
    earlier = first[group[candidates]]
    equal = (blocks[candidates] == blocks[earlier]).all(axis=1) if candidates.size else np.zeros(0, dtype=bool)
    pairs = tuple((int(a), int(b)) for a, b, same in zip(earlier, candidates, equal, strict=True) if same)
    return int(again.size), pairs


def _free_columns(moments: Moments, scale: Array) -> float:
    """How many independent columns vary as much together: the participation ratio of the correlation's spectrum."""
    correlation = moments.scatter / moments.n * np.outer(scale, scale)
    squares = float((correlation**2).sum())
    return float(np.trace(correlation)) ** 2 / squares if squares else 1.0


def _gaussianised(kurtosis: Array, n: int, free: float) -> bool:
    """Whether columns cannot be told from Gaussian ones by kurtosis, or are all forced to one shape.

    Of n Gaussian values the excess kurtosis has standard error sqrt(24 / n); of independent such columns the median |kurtosis|
    is 0.67 of that, within 0.79 / sqrt(columns). A fixed limit would not do: a column that mixes many sources is near Gaussian
    too, and only its sampling error says how near is too near. Ranks turned into normal scores plate by plate leave a small
    negative kurtosis (-0.06 in 384 wells), but the same in every column, which no sample does.
    """
    if not kurtosis.size:
        return False
    error = float(np.sqrt(24 / n))
    near = float(np.median(np.abs(kurtosis))) < error * (HALF_NORMAL_MEDIAN + 2 * HALF_NORMAL_MEDIAN_SE / np.sqrt(free))
    low, middle, high = np.quantile(kurtosis, [0.25, 0.5, 0.75])
    forced = kurtosis.size >= 10 and high - low < ALIKE * error and -0.5 < middle < 0.1
    return bool(near or forced)


def read_classes(
    blocks: Blocks, design: Design, what: Literal["plate", "batch"], *, folds: int, rng: np.random.Generator
) -> Reading | None:
    """How well a linear classifier tells plates apart on held-out wells, or batches on held-out plates.

    Ours. Ridge regression on class membership, in a sample of rows. Controls only, where they are enough: plates with other
    perturbations differ for a good reason. None where there are not two classes to tell apart.
    """
    labels = design.plate if what == "plate" else design.batch
    if labels is None:
        return None
    rows = _sample(design, labels, what, np.flatnonzero(design.control), rng)
    controls_only = rows is not None
    if rows is None:
        rows = _sample(design, labels, what, np.arange(design.n), rng)
    if rows is None:
        return None
    classes = labels.take(rows)
    units = Labels.of(np.arange(rows.size)) if what == "plate" else design.plate.take(rows)
    part = _parts(classes, units, folds, rng)
    with one_blas_thread():
        aurocs = _held_out_aurocs(blocks[rows].astype(np.float64), classes, part, folds)
    everything = int(design.control.sum()) if controls_only else design.n
    return Reading(classes.names, aurocs, int(rows.size), controls_only, rows.size == everything)


def _sample(design: Design, labels: Labels, what: str, rows: Codes, rng: np.random.Generator) -> Codes | None:
    """Rows of classes that are large enough, at most `READ_ROWS` of `READ_CLASSES`; None if fewer than two are."""
    counts = np.bincount(labels.codes[rows], minlength=labels.size)
    enough = counts >= CLASS_ROWS
    if what == "batch":  # one plate is left out, another must be there to learn from
        pairs = np.unique(np.stack([labels.codes[rows], design.plate.codes[rows]]), axis=1)[0]
        enough &= np.bincount(pairs, minlength=labels.size) >= 2
    classes = np.flatnonzero(enough)
    if classes.size < 2:
        return None
    classes = np.sort(rng.permutation(classes)[:READ_CLASSES])
    rows = rng.permutation(rows[np.isin(labels.codes[rows], classes)])
    taken = READ_ROWS // classes.size
    return np.sort(rows[_number_within(labels.codes[rows]) < taken])


def _parts(classes: Labels, units: Labels, folds: int, rng: np.random.Generator) -> Codes:
    """The fold of every row: units of each class are dealt out in random order."""
    pairs, codes = np.unique(np.stack([classes.codes, units.codes]), axis=1, return_inverse=True)
    order = rng.permutation(pairs.shape[1])
    number = np.empty(pairs.shape[1], dtype=np.intp)
    number[order] = _number_within(pairs[0][order])
    part: Codes = (number % folds)[codes.ravel()]
    return part


def _number_within(codes: Codes) -> Codes:
    """0, 1, 2 … within each code, in the order of rows."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    number = np.empty(len(codes), dtype=np.intp)
    number[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(np.append(starts, len(codes))))
    return number


def _held_out_aurocs(values: Array, classes: Labels, part: Codes, folds: int) -> Array:
    """One against the rest on the rows of each fold; the mean over folds weighted by the rows of the class."""
    total, weight = np.zeros(classes.size), np.zeros(classes.size)
    for k in range(folds):
        train, test = part != k, part == k
        if not test.any():
            continue
        scores = _ridge_scores(values[train], classes.codes[train], classes.size, values[test])
        ones = np.bincount(classes.codes[test], minlength=classes.size).astype(np.float64)
        known = np.bincount(classes.codes[train], minlength=classes.size) > 0
        pairs = ones * (test.sum() - ones)
        ranks = rankdata(scores, axis=0)
        sums = np.bincount(
            classes.codes[test], ranks[np.arange(len(ranks)), classes.codes[test]], minlength=classes.size
        )
        usable = (pairs > 0) & known
        area = np.divide(sums - ones * (ones + 1) / 2, pairs, out=np.zeros(classes.size), where=usable)
        total += area * ones * usable
        weight += ones * usable
    mean: Array = np.divide(total, weight, out=np.full(classes.size, np.nan), where=weight > 0)
    return mean


def _ridge_scores(train: Array, codes: Codes, size: int, test: Array) -> Array:
    mean, spread = train.mean(axis=0), train.std(axis=0)
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-12 * (np.abs(mean) + spread.max()))
    x, z = (train - mean) * scale, (test - mean) * scale
    members = np.eye(size)[codes]
    members -= members.mean(axis=0)
    penalty = RIDGE * len(x)
    if x.shape[1] <= len(x):
        coefficients = solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ members, assume_a="pos")
        scores: Array = z @ coefficients
    else:
        scores = z @ (x.T @ solve(x @ x.T + penalty * np.eye(len(x)), members, assume_a="pos"))
    return scores
