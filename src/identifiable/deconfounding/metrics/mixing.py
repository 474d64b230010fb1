"""Are batches mixed, are perturbations together? LISI, kBET, connectivity, silhouettes, and regression on batch, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.stats import chi2
from sklearn.neighbors import NearestNeighbors

from identifiable._checks import DataError, UsageError, check_values
from identifiable.deconfounding.design import Codes, Labels
from identifiable.deconfounding.metrics.matrices import (
    as_matrix,
    check_rows,
    refuse_non_finite,
    row_blocks,
    unit_rows,
)
from identifiable.moments import Array

LISI_NEIGHBOURS, KBET_NEIGHBOURS, GRAPH_NEIGHBOURS = 90, 50, 15  # scib_metrics.benchmark.Benchmarker
PERPLEXITY = 30.0
PERPLEXITY_TOLERANCE, PERPLEXITY_STEPS = 1e-5, 50  # of the entropy; scib-metrics and harmonypy
ALPHA = 0.05
FEWEST_PER_LABEL = 10  # scib-metrics: kBET of a label with fewer rows is not given
LABEL_NEIGHBOURS = (10, 70)  # scib-metrics: least and most neighbours of kBET within a label
Covariate = Labels | NDArray[Any]
Between = Literal["nearest", "mean_other"]
Distance = Literal["euclidean", "cosine"]


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest other rows of each row, nearest first, and how far they are."""

    indices: Codes
    distances: Array

    @property
    def k(self) -> int:
        """Neighbours with the row itself, as scib-metrics counts them."""
        return int(self.indices.shape[1]) + 1

    def first(self, k: int) -> Neighbours:
        """The k - 1 nearest others."""
        if k > self.k:
            raise DataError(
                f"neighbours: {k} were asked for, {self.k} are known (each row itself counted); ask for more."
            )
        return Neighbours(self.indices[:, : k - 1], self.distances[:, : k - 1])


def nearest(X: Any, k: int) -> Neighbours:
    """The k - 1 nearest other rows of each row by Euclidean distance: exact, and a row is never its own neighbour.

    So k counts the row itself, as in scib-metrics. Rows that are equal are neighbours at distance 0.

    >>> nearest(np.array([[0.0], [0.0], [1.0]]), 2).indices.ravel().tolist()
    [1, 0, 0]
    """
    Z = as_matrix(X, X.shape[0], "embedding")
    if not 2 <= k <= len(Z):
        raise DataError(f"neighbours: k={k} needs 2 <= k <= rows (the row itself counts), got {len(Z)} rows; lower k.")
    Z = Z - Z.mean(axis=0)  # distances are the same, and products of centred rows lose fewer digits
    indices = NearestNeighbors(n_neighbors=k - 1, algorithm="brute").fit(Z).kneighbors(return_distance=False)
    indices = indices.astype(np.intp)
    distances = np.empty(indices.shape)
    # scikit-learn takes distances from products of rows: equal rows come out about 1e-8 apart. Few are left: take them again.
    for part in row_blocks(len(Z), (k - 1) * Z.shape[1]):
        distances[part] = np.linalg.norm(Z[indices[part]] - Z[part][:, None, :], axis=2)
    order = np.argsort(distances, axis=1, kind="stable")
    return Neighbours(np.take_along_axis(indices, order, axis=1), np.take_along_axis(distances, order, axis=1))


@dataclass(frozen=True, eq=False)
class Lisi:
    """Local inverse Simpson index of each row: the effective number of labels among its neighbours, 1 to `labels`.

    `ilisi` is for batches (0 none mixed, 1 all mixed), `clisi` for perturbations (1 each among its own): the median,
    scaled as scib-metrics does. NaN with a single label.
    """

    rows: Array
    labels: int

    @property
    def median(self) -> float:
        return float(np.nanmedian(self.rows))

    @property
    def ilisi(self) -> float:
        return scaled_lisi(self.median, self.labels)

    @property
    def clisi(self) -> float:
        return 1 - self.ilisi


def scaled_lisi(median: float, labels: int) -> float:
    """A LISI between 1 and `labels` as a share of the way: 0 to 1."""
    return (median - 1) / (labels - 1) if labels > 1 else float("nan")


def lisi(
    X: Any,
    labels: Labels,
    *,
    perplexity: float = PERPLEXITY,
    k: int = LISI_NEIGHBOURS,
    neighbours: Neighbours | None = None,
) -> Lisi:
    """1 / sum over labels of (share of the neighbours' weight)^2, for each row.

    Weights are exp(-beta distance) over the k - 1 nearest other rows, beta such that their entropy is log(perplexity): found by
    doubling and halving from 1 to within 1e-5, as the originals do, because where the search stops shows in the sixth digit.

    Implements `scib_metrics.lisi_knn` 0.5.10 on exact neighbours, equal to 1e-6; k=91 is `harmonypy.compute_lisi` 2.1, which
    takes 90 rows besides each. By default scib-metrics computes in float32, where the search stops elsewhere: 7e-5 off for
    single rows of the reference screen. `neighbours` saves finding them again.
    """
    found = _neighbours(X, labels, k, neighbours)
    simpson = np.empty(len(labels))
    for part in row_blocks(len(labels), max(found.k, labels.size)):
        weights = _weights(found.distances[part], perplexity)
        share = _by_label(labels.codes[found.indices[part]], labels.size, weights)
        simpson[part] = np.sum(share * share, axis=1)
    return Lisi(1 / simpson, labels.size)


def _neighbours(X: Any, labels: Labels, k: int, known: Neighbours | None) -> Neighbours:
    check_rows(X.shape[0], len(labels), "embedding")
    return nearest(X, k) if known is None else known.first(k)


def _by_label(codes: Codes, size: int, weights: Array | None = None) -> Array:
    """Sums of weights (or counts) of each label, for each row of a table of labels."""
    n = len(codes)
    flat = (codes + size * np.arange(n)[:, None]).ravel()
    counted = np.bincount(flat, weights=None if weights is None else weights.ravel(), minlength=n * size)
    return np.asarray(counted.reshape(n, size), dtype=np.float64)


def _weights(distances: Array, perplexity: float) -> Array:
    D = distances - distances[:, :1]  # the nearest at 0: shares of weight are the same and do not underflow
    n = len(D)
    beta, low, high = np.ones(n), np.full(n, -np.inf), np.full(n, np.inf)
    P, entropy = _shares(D, beta)
    for _ in range(PERPLEXITY_STEPS):
        off = entropy - np.log(perplexity)
        rows = np.flatnonzero(np.abs(off) >= PERPLEXITY_TOLERANCE)
        if len(rows) == 0:
            break
        wide = off[rows] > 0
        low[rows] = np.where(wide, beta[rows], low[rows])
        high[rows] = np.where(wide, high[rows], beta[rows])
        middle = (low[rows] + high[rows]) / 2
        beta[rows] = np.where(np.isfinite(middle), middle, np.where(wide, beta[rows] * 2, beta[rows] / 2))
        P[rows], entropy[rows] = _shares(D[rows], beta[rows])
    return P


def _shares(D: Array, beta: Array) -> tuple[Array, Array]:
    P = np.exp(-D * beta[:, None])
    total = P.sum(axis=1)
    P /= total[:, None]
    return P, np.log(total) + beta * np.sum(D * P, axis=1)


@dataclass(frozen=True, eq=False)
class Kbet:
    """`acceptance`: the share of rows whose neighbourhood has the batches of the whole, by a chi-squared test; 1 is mixed."""

    acceptance: float
    statistic: Array
    p: Array


def kbet(
    X: Any,
    batch: Labels,
    *,
    k: int = KBET_NEIGHBOURS,
    alpha: float = ALPHA,
    neighbours: Neighbours | None = None,
) -> Kbet:
    """k-nearest-neighbour batch effect test: chi-squared of the batches of each row and its k - 1 nearest others.

    Implements `scib_metrics.kbet` 0.5.10 on exact neighbours, equal to 1e-6; the row itself counts, as there. The test needs some
    5 expected rows of each batch, k / 5 batches: with more it accepts or rejects nearly everything. NaN with one batch.
    """
    found = _neighbours(X, batch, k, neighbours)
    expected = batch.counts / len(batch) * k
    statistic = np.empty(len(batch))
    for part in row_blocks(len(batch), max(k, batch.size)):
        counts = _by_label(np.c_[batch.codes[part], batch.codes[found.indices[part]]], batch.size)
        statistic[part] = np.sum((counts - expected) ** 2 / expected, axis=1)
    if batch.size < 2:
        return Kbet(float("nan"), statistic, np.full(len(batch), np.nan))
    p = chi2.sf(statistic, batch.size - 1)
    return Kbet(float(np.mean(p >= alpha)), statistic, p)


@dataclass(frozen=True, eq=False)
class ByLabel:
    """A score that is a mean over labels; NaN for labels that have none, and of `score` if no label has one."""

    names: tuple[str, ...]
    scores: Array

    @property
    def score(self) -> float:
        known = self.scores[~np.isnan(self.scores)]
        return float(known.mean()) if len(known) else float("nan")


def kbet_per_label(X: Any, batch: Labels, labels: Labels, *, alpha: float = ALPHA) -> ByLabel:
    """kBET among the rows of each label, so that a batch with other perturbations is not taken for a batch effect.

    Each label's rows are taken alone, with a quarter of the mean batch (10 to 70) as neighbours, besides the row itself;
    labels with fewer than 10 rows or a single batch have none. Ours in one point: neighbours are exact, in the space itself,
    where `scib_metrics.kbet_per_label` goes through a UMAP graph and diffusion maps, with approximate neighbours. On each
    label it equals `scib_metrics.kbet`; on the reference screen 0.978 against 0.969 by diffusion. Where the graph of a label
    falls apart, scib-metrics gives 0; this does not.
    """
    check_rows(len(batch), len(labels), "batch")
    Z = as_matrix(X, len(labels), "embedding")

    def score(rows: Codes) -> float:
        own = batch.take(rows)
        if len(rows) < FEWEST_PER_LABEL or own.size < 2:
            return float("nan")
        quarter = int(np.mean(own.counts) / 4)
        k = min(max(quarter, LABEL_NEIGHBOURS[0]), LABEL_NEIGHBOURS[1]) + 1
        return kbet(Z[rows], own, k=min(k, len(rows)), alpha=alpha).acceptance

    return _each_label(labels, score)


def _each_label(labels: Labels, score: Callable[[Codes], float]) -> ByLabel:
    return ByLabel(labels.names, np.array([score(rows) for rows in labels.members], dtype=np.float64))


def graph_connectivity(
    X: Any, labels: Labels, *, k: int = GRAPH_NEIGHBOURS, neighbours: Neighbours | None = None
) -> ByLabel:
    """The share of each label's rows in its largest strongly connected part of the graph of k - 1 nearest others.

    Implements `scib_metrics.graph_connectivity` 0.5.10 on exact neighbours, equal to 1e-6.

    >>> graph_connectivity(np.array([[0.0], [0.1], [9.0], [9.1]]), Labels.of(np.array(list("aaab"))), k=2).scores.round(3)
    array([0.667, 1.   ])
    """
    found = _neighbours(X, labels, k, neighbours)
    n = len(labels)
    ends = found.indices.ravel()
    starts = np.repeat(np.arange(n), found.k - 1)
    inside = labels.codes[starts] == labels.codes[ends]  # one graph for all labels: its parts never cross
    graph = csr_matrix((np.ones(int(inside.sum())), (starts[inside], ends[inside])), shape=(n, n))
    _, part = connected_components(graph, directed=True, connection="strong")
    sizes = np.bincount(part)
    largest = np.zeros(labels.size)
    np.maximum.at(largest, labels.codes, sizes[part])
    return ByLabel(labels.names, largest / labels.counts)


@dataclass(frozen=True, eq=False)
class LabelSilhouette:
    """Silhouette of each row, -1 to 1, and `score`, (mean + 1) / 2: 1 where labels lie apart, 0.5 where they overlap."""

    rows: Array
    score: float


def silhouette_label(X: Any, labels: Labels) -> LabelSilhouette:
    """Average silhouette width of perturbations (ASW label), Euclidean, scaled to 0 to 1.

    Implements `scib_metrics.silhouette_label` 0.5.10, equal to 1e-6 (its float32 is 1e-8 off), a block of rows at a
    time. A label with one row has silhouette 0, as in scikit-learn. NaN with a single label.
    """
    Z = as_matrix(X, len(labels), "embedding")
    if labels.size < 2:
        return LabelSilhouette(np.full(len(Z), np.nan), float("nan"))
    rows = _silhouettes(Z - Z.mean(axis=0), labels, "euclidean", "nearest")
    return LabelSilhouette(rows, float((rows.mean() + 1) / 2))


def silhouette_batch(X: Any, batch: Labels, labels: Labels) -> ByLabel:
    """Average silhouette width of batches within each perturbation (ASW batch): 1 - |silhouette|, 1 is mixed.

    Implements `scib_metrics.silhouette_batch` 0.5.10, equal to 1e-6. Its maintainers prefer `bras`: batches that overlap one
    neighbour batch only look mixed here. Labels with one batch, or with a batch for each row, have none.
    """
    return _batch_silhouette(X, batch, labels, "euclidean", "nearest")


def bras(X: Any, batch: Labels, labels: Labels) -> ByLabel:
    """Batch removal adapted silhouette (Rautenstrauch and Ohler 2025): as ASW batch, by cosine, to rows of all other batches.

    Implements `scib_metrics.bras` 0.5.10 (its default, `mean_other`), equal to 1e-6.
    """
    return _batch_silhouette(X, batch, labels, "cosine", "mean_other")


def _batch_silhouette(X: Any, batch: Labels, labels: Labels, distance: Distance, between: Between) -> ByLabel:
    check_rows(len(batch), len(labels), "batch")
    Z = as_matrix(X, len(labels), "embedding")
    Z = unit_rows(Z) if distance == "cosine" else Z - Z.mean(axis=0)

    def score(rows: Codes) -> float:
        own = batch.take(rows)
        if own.size in (1, len(rows)):
            return float("nan")
        return float(np.mean(1 - np.abs(_silhouettes(Z[rows], own, distance, between))))

    return _each_label(labels, score)


def _silhouettes(Z: Array, labels: Labels, distance: Distance, between: Between) -> Array:
    """(b - a) / max(a, b): a the mean distance to rows of the same label, b to those of the nearest or of all other labels."""
    n = len(Z)
    order = np.argsort(labels.codes, kind="stable")
    place = np.empty(n, dtype=np.intp)
    place[order] = np.arange(n)
    sorted_rows = Z[order]
    squares = np.sum(sorted_rows * sorted_rows, axis=1)
    starts = np.cumsum(labels.counts) - labels.counts
    found = np.empty(n)
    for part in row_blocks(n, n):
        D = Z[part] @ sorted_rows.T
        if distance == "cosine":
            np.clip(1 - D, 0, 2, out=D)
        else:
            D *= -2
            D += squares
            D += squares[place[part]][:, None]
            np.sqrt(np.maximum(D, 0, out=D), out=D)
        here = np.arange(len(D))
        D[here, place[part]] = 0
        own = labels.codes[part]
        sums = np.add.reduceat(D, starts, axis=1)
        within = sums[here, own] / np.maximum(labels.counts[own] - 1, 1)
        if between == "nearest":
            means = sums / labels.counts
            means[here, own] = np.inf
            beyond = means.min(axis=1)
        else:
            beyond = (sums.sum(axis=1) - sums[here, own]) / (n - labels.counts[own])
        scale = np.maximum(within, beyond)
        known = (labels.counts[own] > 1) & (scale > 0)
        found[part] = np.where(known, (beyond - within) / np.where(known, scale, 1), 0)
    return found


# -- how much of a space's variance a covariate explains


@dataclass(frozen=True, eq=False)
class PrincipalComponentRegression:
    """Share of variance explained, of each component (`r2`, largest variance first) and of all together (`score`)."""

    score: float
    r2: Array
    variance: Array


def pcr(X: Any, covariate: Covariate, *, components: int | None = None) -> PrincipalComponentRegression:
    """R^2 of each principal component on a covariate, averaged with the components' variances as weights.

    `Labels` are a category, an array is a number for each row. Over all components the score is the between-groups share of
    the total sum of squares, so any rotation leaves it; of random labels it is about (labels - 1) / (rows - 1), not 0.

    Implements `scib_metrics.utils.principal_component_regression` 0.5.10, equal to 1e-6, from the covariance and the sums
    of each label: rows are read a block at a time, and no table of rows and components is made. A component
    without variance counts for nothing, where scib-metrics gives NaN.

    >>> X = np.array([[0.0, 1.0], [0.0, -1.0], [2.0, 1.0], [2.0, -1.0]])
    >>> pcr(X, Labels.of(np.array(list("aabb")))).score
    0.5
    """
    n, d = check_values(X, "embedding")
    check_rows(n, len(covariate), "embedding")
    if components is not None and not 1 <= components <= min(n, d):
        raise UsageError(f"pcr: components is 1 to {min(n, d)} for {n} x {d} values, got {components}.")
    mean = sum(_part(X, rows).sum(axis=0) for rows in row_blocks(n, d)) / n
    gram, explained = np.zeros((d, d)), _Explained.of(covariate, d)
    for rows in row_blocks(n, d):
        values = _part(X, rows) - mean
        gram += values.T @ values
        explained.add(values, rows)
    energy, axes = np.linalg.eigh(gram)
    energy, axes = np.maximum(energy[::-1], 0), axes[:, ::-1]
    kept = slice(0, components or min(n, d))
    energy, fitted = energy[kept], explained.energy(axes[:, kept])
    real = energy > energy.max(initial=0) * d * np.finfo(np.float64).eps
    r2 = np.divide(fitted, energy, out=np.zeros(len(energy)), where=real)
    score = float(r2 @ energy / energy.sum()) if real.any() else float("nan")
    return PrincipalComponentRegression(score, r2, energy / max(n - 1, 1))


def _part(X: Any, rows: slice) -> Array:
    values = np.asarray(X[rows], dtype=np.float64)
    refuse_non_finite(values, rows.start, "embedding")
    return values


@dataclass(eq=False)
class _Explained:
    """The sum of squares a covariate explains along any axis, from sums over centred rows: of a label, or times a number."""

    covariate: Covariate
    sums: Array
    weights: Array

    @classmethod
    def of(cls, covariate: Covariate, d: int) -> _Explained:
        if isinstance(covariate, Labels):
            return cls(covariate, np.zeros((covariate.size, d)), 1 / covariate.counts)
        numbers = np.asarray(covariate, dtype=np.float64).reshape(-1)
        if not np.isfinite(numbers).all():
            raise DataError(
                f"covariate: expected finite numbers, got {int((~np.isfinite(numbers)).sum())} that are not."
            )
        centred = numbers - numbers.mean()
        spread = float(centred @ centred)
        return cls(centred, np.zeros((1, d)), np.array([1 / spread if spread > 0 else 0.0]))

    def add(self, values: Array, rows: slice) -> None:
        if isinstance(self.covariate, Labels):
            np.add.at(self.sums, self.covariate.codes[rows], values)
        else:
            self.sums += self.covariate[rows] @ values

    def energy(self, axes: Array) -> Array:
        return np.asarray(self.weights @ (self.sums @ axes) ** 2)


@dataclass(frozen=True)
class RegressionComparison:
    """PCR `before` and `after` a correction. `score`: the share that is gone, 0 (none, or more than before) to 1."""

    before: float
    after: float
    score: float

    @property
    def change(self) -> float:
        """After less before: negative where the covariate explains less."""
        return self.after - self.before


def pcr_comparison(
    before: Any, after: Any, covariate: Covariate, *, components: int | None = None
) -> RegressionComparison:
    """How much less of the variance a covariate explains after a correction.

    Implements `scib_metrics.pcr_comparison` 0.5.10 (`score` is its scaled value, cut at 0 as there; `change` the other).
    NaN where the covariate explained nothing to begin with.
    """
    first = pcr(before, covariate, components=components).score
    second = pcr(after, covariate, components=components).score
    return RegressionComparison(first, second, max(0.0, (first - second) / first) if first > 0 else float("nan"))
