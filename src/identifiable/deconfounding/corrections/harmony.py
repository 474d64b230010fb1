"""Harmony: soft clusters in which every batch takes its share, and a shift of each batch in each cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from identifiable._checks import DataError
from identifiable.blocks import chunk_rows, one_blas_thread, physical_memory
from identifiable.deconfounding.corrections.tasks import Fit, PrincipalAxes, Selected, Task, confounded
from identifiable.deconfounding.design import Codes
from identifiable.groups import AffineMap
from identifiable.intake import gather_moments
from identifiable.moments import Array
from identifiable.results import Alert, Note
from identifiable.run import PLAIN, Run, Stage

DIMENSIONS = 50
# The settings of harmonypy 2.1 (and of harmony 2 for R).
MAX_CLUSTERS, ROWS_PER_CLUSTER = 100, 30
DIVERSITY = 2.0  # theta
BANDWIDTH = 0.1  # sigma
RIDGE = 0.2  # alpha: the ridge of a batch's shift in a cluster is this times the rows one expects of it there
BLOCK_SHARE = 0.05
ROUNDS = 4
MAX_ITERATIONS = 10
TOLERANCE = 1e-2
# Ours: the start is the best of a few k-means on a sample, so that it depends little on the seed.
SAMPLE, STARTS, KMEANS_ROUNDS = 10_000, 5, 25


@dataclass(frozen=True, eq=False)
class Lookup:
    """Rows that were corrected when fitting, by their place in the design."""

    place: Codes
    corrected: Array

    def __call__(self, X: Array, index: Codes) -> Array:
        return self.corrected[self.place[index]]


@dataclass(frozen=True, eq=False)
class Harmonised:
    """Corrected rows, and the objective after every iteration."""

    rows: Array
    objective: tuple[float, ...]
    converged: bool


def fit_harmony(task: Task, *, dimensions: int = DIMENSIONS) -> Fit:
    """Harmony on the leading principal components of z-scored columns of the rows to fit on; no other row can be corrected.

    Components keep their variances, as in `scanpy.tl.pca` and Korsunsky et al. 2019: cosines of white ones would count the last of
    them as much as the first.
    """
    groups = task.groups(prefer="batch")
    batch = groups.labels.take(task.rows)
    if batch.size < 2:
        raise DataError(
            f"{task.design.name}: Harmony needs rows of at least two {groups.levels}, got {batch.size}; there is nothing to align."
        )
    axes = PrincipalAxes.of(gather_moments([task.blocks.select(task.rows)], task.run)[0], scaled=True)
    width = min(dimensions, axes.vectors.shape[1])
    leading = axes.map(axes.vectors[:, :width])
    _refuse_too_long(task, width)
    with one_blas_thread():
        found = harmonise(_read(task, leading), batch.codes, run=task.run)
    place = np.full(task.design.n, -1, dtype=np.intp)
    place[task.rows] = np.arange(len(task.rows))
    notes = (
        Note("harmony", {"rows": len(task.rows), "groups": batch.size, "level": groups.level, "components": width}),
        Note("iterations", {"iterations": len(found.objective) - 1}),
    )
    alerts = confounded(task, groups)
    if not found.converged:
        alerts.append(Alert("not_converged", {"harmony": MAX_ITERATIONS}))
    return Fit(Lookup(place, found.rows), width, notes, tuple(alerts), known=task.fitted, axes=axes.vectors[:, :width])


def harmonise(Z: Array, batch: Codes, *, clusters: int | None = None, run: Run = PLAIN) -> Harmonised:
    r"""Rows Z with the shift of each batch taken out, cluster by cluster.

    Implements Korsunsky et al. 2019 (Algorithms 1 to 3), with the settings of harmonypy 2.1 and its ridge. In turn:
    soft k-means on unit rows, R_ik ~ exp(-2 (1 - y_k . z_i) / sigma) (E_bk / (O_bk + E_bk))^theta, where O counts the rows
    of batch b in cluster k and E what its share of all rows would give; then, in every cluster, a ridge regression
    of the original rows on the batch, whose shifts are subtracted. It depends on the seed, as all of its kind do, through the
    start and the order of rows. As in harmonypy it ends when a round of clustering lowers the objective by less than 1 %, which
    may be the first. Memory: one number for every row and cluster, and a few copies of Z.
    """
    order = np.argsort(batch, kind="stable")
    rows, codes = Z[order], batch[order]
    rng = np.random.default_rng(run.seed)
    K = clusters or max(min(round(len(Z) / ROWS_PER_CLUSTER), MAX_CLUSTERS), 1)
    unit = _unit(rows)
    centres = _start(unit, K, rng)
    mixture = _Mixture(unit, codes, centres)
    corrected = rows
    objective = [mixture.objective(unit)]
    converged = False
    for iteration in range(MAX_ITERATIONS):
        for _ in range(ROUNDS):
            mixture.update(unit, rng)
        corrected = subtract_shifts(rows, codes, mixture.R, mixture.expected)
        objective.append(mixture.objective(unit))
        unit = _unit(corrected)
        run.say(Stage("Harmony"), iteration + 1, MAX_ITERATIONS)
        if objective[-2] - objective[-1] < TOLERANCE * abs(objective[-2]):
            converged = True
            break
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return Harmonised(corrected[back], tuple(objective), converged)


def subtract_shifts(rows: Array, codes: Codes, R: Array, expected: Array) -> Array:
    """Rows, sorted by batch, less the shift of their batch in each cluster, weighted by their share R in it.

    The regression in a cluster has an intercept w and a shift w_b for each batch with ridge alpha E_b; its
    normal equations are an arrow, solved in closed form: w_b = (S_b - O_b w) / (O_b + alpha E_b).
    """
    spans = list(_batches(codes))
    counted = np.array([R[a:b].sum(axis=0) for a, b in spans])
    sums = np.array([R[a:b].T @ rows[a:b] for a, b in spans])
    ridge = RIDGE * expected
    total = np.maximum(counted + ridge, np.finfo(float).tiny)  # an empty cluster moves nothing
    free = np.maximum((counted * ridge / total).sum(axis=0), np.finfo(float).tiny)
    intercept = (sums * (ridge / total)[:, :, None]).sum(axis=0) / free[:, None]
    shifts = (sums - counted[:, :, None] * intercept) / total[:, :, None]
    corrected = np.empty_like(rows)
    for (a, b), shift in zip(spans, shifts, strict=True):
        corrected[a:b] = rows[a:b] - R[a:b] @ shift
    return corrected


class _Mixture:
    """Shares R of the rows, sorted by batch, in the clusters; `observed` and `expected` rows of each batch in each."""

    def __init__(self, unit: Array, codes: Codes, centres: Array):
        self.codes, self.centres = codes, centres
        n = len(codes)
        self.shares = np.bincount(codes) / n
        self.R = np.empty((n, len(centres)))
        for part in _parts(n, len(centres)):
            self.R[part] = _normalised(self._affinity(unit[part]))
        self.observed = np.array([self.R[a:b].sum(axis=0) for a, b in _batches(codes)])
        self.expected = np.outer(self.shares, self.observed.sum(axis=0))

    def update(self, unit: Array, rng: np.random.Generator) -> None:
        """New centres, then new shares a twentieth of the rows at a time, in random order."""
        self.centres = _unit(self.R.T @ unit)
        order = rng.permutation(len(unit))
        for block in np.array_split(order, max(min(round(1 / BLOCK_SHARE), len(unit)), 1)):
            rows = np.sort(block)  # nearer in memory; the order inside a block does not matter
            self._count(rows, -1.0)
            balance = (self.expected / np.maximum(self.observed + self.expected, np.finfo(float).tiny)) ** DIVERSITY
            self.R[rows] = _normalised(self._affinity(unit[rows]) * balance[self.codes[rows]])
            self._count(rows, 1.0)

    def objective(self, unit: Array) -> float:
        """Distances, entropy of the shares, and how far batches are from their expected share; 0 of the last if balanced."""
        distance = entropy = 0.0
        for part in _parts(len(unit), len(self.centres)):
            R = self.R[part]
            distance += float((R * (2 - 2 * unit[part] @ self.centres.T)).sum())
            entropy += float((R * np.log(np.maximum(R, np.finfo(float).tiny))).sum())
        ratio = (self.observed + self.expected) / np.maximum(2 * self.expected, np.finfo(float).tiny)
        diversity = float((self.observed * np.log(np.maximum(ratio, 0.5))).sum())
        return distance + BANDWIDTH * entropy + BANDWIDTH * DIVERSITY * diversity

    def _affinity(self, unit: Array) -> Array:
        near: Array = np.exp((unit @ self.centres.T - 1) * (2 / BANDWIDTH))
        return near

    def _count(self, rows: Codes, sign: float) -> None:
        R = self.R[rows]
        self.observed = np.maximum(self.observed + sign * _sums_by(self.codes[rows], R, len(self.shares)), 0.0)
        self.expected = np.maximum(self.expected + sign * np.outer(self.shares, R.sum(axis=0)), 0.0)


def _start(unit: Array, K: int, rng: np.random.Generator) -> Array:
    """Centres of the best of a few k-means on a sample of the unit rows."""
    sample = unit if len(unit) <= SAMPLE else unit[np.sort(rng.choice(len(unit), SAMPLE, replace=False))]
    runs = [_kmeans(sample, K, rng) for _ in range(STARTS)]
    return max(runs, key=lambda run: run[1])[0]


def _kmeans(unit: Array, K: int, rng: np.random.Generator) -> tuple[Array, float]:
    """Spherical k-means from k-means++ centres: the centres, and the sum of cosines to the nearest, which is best when large."""
    centres = np.empty((K, unit.shape[1]))
    nearest = np.full(len(unit), np.inf)
    for k in range(K):
        weight = nearest if k and nearest.sum() > 0 else np.ones(len(unit))
        centres[k] = unit[rng.choice(len(unit), p=weight / weight.sum())]
        nearest = np.minimum(nearest, np.maximum(2 - 2 * unit @ centres[k], 0.0))
    reached = -np.inf
    for _ in range(KMEANS_ROUNDS):
        cosine = unit @ centres.T
        own = cosine.argmax(axis=1)
        fit = float(np.take_along_axis(cosine, own[:, None], axis=1).sum())
        if fit - reached <= 1e-6 * len(unit):
            break
        reached = fit
        filled = np.bincount(own, minlength=K) > 0  # an empty cluster keeps its centre
        centres[filled] = _unit(_sums_by(own, unit, K)[filled])
    return centres, reached


def _sums_by(codes: Codes, rows: Array, size: int) -> Array:
    """The sum of the rows of every code."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sums = np.zeros((size, rows.shape[1]))
    sums[ordered[starts]] = np.add.reduceat(rows[order], starts, axis=0)
    return sums


def _unit(rows: Array) -> Array:
    """Rows of length one; a row of zeros stays."""
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    unit: Array = rows / np.maximum(length, np.finfo(float).tiny)[:, None]
    return unit


def _normalised(weights: Array) -> Array:
    total = weights.sum(axis=1, keepdims=True)
    shares: Array = np.where(total > 0, weights / np.maximum(total, np.finfo(float).tiny), 1 / weights.shape[1])
    return shares


def _batches(codes: Codes) -> Iterator[tuple[int, int]]:
    """Where each batch begins and ends among rows sorted by it."""
    edges = np.r_[0, np.flatnonzero(np.diff(codes)) + 1, len(codes)]
    return zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)


def _parts(n: int, width: int) -> Iterator[slice]:
    step = chunk_rows(width)
    return (slice(a, min(a + step, n)) for a in range(0, n, step))


def _read(task: Task, leading: AffineMap) -> Array:
    """The rows to fit on in the leading components."""
    chosen = Selected.of(task, task.rows, np.zeros(task.design.n, dtype=np.intp), 1, leading)
    rows = np.empty(chosen.table.shape)
    for part in _parts(len(rows), task.blocks.d):
        rows[part] = chosen.read(part.start, chosen.table[part])
        task.run.say(Stage("reading"), part.stop, len(rows))
    return rows


def _refuse_too_long(task: Task, width: int) -> None:
    n = len(task.rows)
    needed, memory = 8 * n * (MAX_CLUSTERS + 6 * width), physical_memory()
    if needed > memory:
        raise DataError(
            f"{task.blocks.name}: Harmony on {n} rows needs about {needed / 1e9:.0f} GB, this machine has {memory / 1e9:.0f}; "
            "choose a correction that streams (ComBat, control scaling), or fewer rows."
        )
