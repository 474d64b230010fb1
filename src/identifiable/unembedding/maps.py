"""The map between two models' features that their heads imply, and how well it holds on features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from identifiable.blocks import in_threads
from identifiable.groups import AffineMap, Linear
from identifiable.moments import Array, Moments, jackknife_spread
from identifiable.results import HeadMap, Interval, MapArrays, MapFit
from identifiable.run import Run, Stage
from identifiable.unembedding.head import Head

RIDGES: Array = np.concatenate([[0.0], 10.0 ** np.arange(-5, 1.25, 0.25)])
"""Ridges to choose from, relative to the squared largest singular value of the target's head."""
CELLS = 2  # parts of a fold, which a jackknife leaves out in turn
FEWEST_ROWS = 2  # in each of them, below which there are no intervals
EXACT = 1e-15  # of the variance: what rounding leaves of an exact fit
FEWEST_SHUFFLES = 19  # that differ, below which there is no null: p could not reach 0.05
SAME = 1e-9  # of the largest: labels that differ by less have the same weights


@dataclass(frozen=True, eq=False)
class HeadRelation:
    r"""What equal probabilities imply: in coordinates of the target's row space, ``f'_j = (C_j f + o_j) / s_j``.

    Implements the map of Roeder et al. 2021, f' = A f with A = (L L'^{-1})^T, for whole heads: with centred weights W_c = U S V^T
    of the target and those of the source, equal probabilities mean equal centred logits, so
        V^T f' = S^{-1} U^T (W_c,source f + b_c,source - b_c,target).
    Ours: the restriction to the row space V, which is all that the target's head determines, and the ridge
    s_j / (s_j^2 + ridge s_1^2) in place of 1 / s_j.
    """

    values: Array  # s
    right: Array  # V^T (k, M_target)
    through: Array  # C (k, M_source)
    shift: Array  # o (k,)

    @classmethod
    def of(cls, source: Head, target: Head) -> HeadRelation:
        spectrum = target.spectrum
        shift = spectrum.left.T @ (source.centred_bias - target.centred_bias)
        return cls(spectrum.values, spectrum.right, spectrum.left.T @ source.centred, shift)

    @property
    def affine(self) -> AffineMap:
        """The map on rows of features, into the fixed subspace; without a ridge."""
        return AffineMap((self.through / self.values[:, None]).T @ self.right, (self.shift / self.values) @ self.right)

    def gains(self, ridges: Array) -> Array:
        """What stands in place of 1 / s for each ridge (ridges, k)."""
        gains: Array = self.values / (self.values**2 + ridges[:, None] * self.values[0] ** 2)
        return gains

    def record(self, source: Head, target: Head) -> HeadMap:
        k = source.shape[0]
        rank, affine = len(self.values), self.affine
        vacuous = rank >= k - 1
        size = float(np.sum(source.centred**2))
        return HeadMap(
            source=source.name,
            target=target.name,
            fixed=rank,
            dimensions=target.shape[1],
            condition=target.spectrum.condition,
            expressed=None if vacuous or not size else float(np.sum(self.through**2)) / size,
            # A shuffle acts on centred label vectors irreducibly, so the mean over shuffles is the share of the dimensions.
            expressed_chance=None if vacuous else rank / (k - 1),
            offset=float(np.linalg.norm(affine.offset)),
            arrays=MapArrays(affine.matrix, affine.offset, self.right.T),
        )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over n rows for each dimension of the row space, of features y and of C f = p, about the means of all rows."""

    n: int
    y: Array
    p: Array
    yy: Array
    yp: Array
    pp: Array

    @classmethod
    def of(cls, rows: Moments, total: Moments, relation: HeadRelation, targets: tuple[Array, Array]) -> _Sums:
        """`targets` are y and y y of these rows, which no shuffle of the source's labels changes."""
        C, V = relation.through, relation.right
        y, yy = targets
        p = rows.n * (C @ (rows.mean_x - total.mean_x))
        yp = np.einsum("kt,kt->k", C @ rows.xy, V) + p * y / rows.n
        pp = np.einsum("ks,ks->k", C @ rows.xx, C) + p**2 / rows.n
        return cls(rows.n, y, p, yy, yp, pp)

    @staticmethod
    def targets(rows: Moments, total: Moments, relation: HeadRelation) -> tuple[Array, Array]:
        V = relation.right
        y = rows.n * (V @ (rows.mean_y - total.mean_y))
        return y, np.einsum("kt,kt->k", V @ rows.yy, V) + y**2 / rows.n

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(self.n + other.n, *(a + b for a, b in zip(self._vectors, other._vectors, strict=True)))

    @property
    def _vectors(self) -> tuple[Array, ...]:
        return self.y, self.p, self.yy, self.yp, self.pp

    def about(self, means: _Sums) -> _Sums:
        """The same rows about the means of others."""
        y, p, n = means.y / means.n, means.p / means.n, self.n
        return _Sums(
            n,
            self.y - n * y,
            self.p - n * p,
            self.yy - 2 * y * self.y + n * y**2,
            self.yp - y * self.p - p * self.y + n * y * p,
            self.pp - 2 * p * self.p + n * p**2,
        )

    def errors(self, gains: Array) -> Array:
        """Squared error of ``gain * p`` as a prediction of y, for each row of gains."""
        errors: Array = np.sum(self.yy - 2 * gains * self.yp + gains**2 * self.pp, axis=-1)
        return errors

    def scale(self, gains: Array) -> float:
        """The scalar on the prediction that is best."""
        size = float(np.sum(gains**2 * self.pp))
        return float(np.sum(gains * self.yp)) / size if size else float("nan")

    def scaled(self, gains: Array) -> Array:
        """The row of gains that predicts best once a scalar of at least 0 is chosen for it, times that scalar (1, k)."""
        size, cross = np.sum(gains**2 * self.pp, axis=-1), np.sum(gains * self.yp, axis=-1).clip(0)
        scales = np.divide(cross, size, out=np.zeros_like(cross), where=size > 0)
        best = [np.argmax(scales * cross)]
        found: Array = scales[best, None] * gains[best]
        return found

    def correlation(self, gains: Array) -> float:
        size = float(np.sum(gains**2 * self.pp) * np.sum(self.yy))
        return float(np.sum(gains * self.yp) / np.sqrt(size)) if size else float("nan")


@dataclass(frozen=True, eq=False)
class _Scores:
    """What is measured of a relation, true or shuffled; R² on held-out rows."""

    r2: float
    r2_ridge: float
    r2_scale: float
    correlation: float
    ridge: float
    scale: float


@dataclass(frozen=True, eq=False)
class _Features:
    """Moments of the features by fold, and what every relation with one target has in common."""

    folds: Sequence[Moments]
    total: Moments
    targets: list[tuple[Array, Array]]

    @classmethod
    def of(cls, folds: Sequence[Moments], relation: HeadRelation) -> _Features:
        total = reduce(Moments.merge, folds)
        return cls(folds, total, [_Sums.targets(rows, total, relation) for rows in folds])

    @property
    def spread(self) -> float:
        """Squared deviations of the target's features in the row space."""
        return float(sum(np.sum(yy) for _, yy in self.targets))

    def training(self, held: Moments) -> Moments:
        return reduce(Moments.merge, [m for m in self.folds if m is not held])

    def scored(self, relation: HeadRelation) -> _Scores:
        """R² with all choices made on training rows; the choices on all rows."""
        gains = relation.gains(RIDGES)
        plain = gains[:1]
        parts = [_Sums.of(m, self.total, relation, t) for m, t in zip(self.folds, self.targets, strict=True)]
        every = reduce(_Sums.__add__, parts)
        r2, ridged_r2, scaled_r2 = _held_out(parts, gains).tolist()
        return _Scores(
            r2=r2,
            r2_ridge=ridged_r2,
            r2_scale=scaled_r2,
            correlation=every.correlation(plain),
            ridge=float(RIDGES[np.argmin(every.errors(gains))]),
            scale=every.scale(plain),
        )


def _held_out(parts: Sequence[_Sums], gains: Array) -> Array:
    """R² on every part with the choices made on the others: as read, with a ridge, with a scale and the ridge best after it."""
    plain, missed = gains[:1], np.zeros(3)
    for held in parts:
        trained = reduce(_Sums.__add__, [part for part in parts if part is not held])
        on_training, on_held = trained.about(trained), held.about(trained)
        ridged = gains[[np.argmin(on_training.errors(gains))]]
        missed += [on_held.errors(each)[0] for each in (plain, ridged, on_training.scaled(gains))]
    return 1 - missed / float(sum(np.sum(part.yy) for part in parts))


def _intervals(cells: Sequence[Moments], total: Moments, relation: HeadRelation, r2: Array) -> list[Interval | None]:
    """95 % intervals of these R² on held-out rows, symmetric in log(1 - R²).

    Ours, as for `compare`: a jackknife leaves out half a fold at a time. The map is read off the weights, so nothing is fitted
    again but the ridge and the offset. None where a half has fewer than two rows. It covers a planted R² in .94, .93 and .96 of 250
    draws of 60, 120 and 400 normal rows, and in .95 of 60 rows of t with 5 degrees of freedom.
    """
    if min(m.n for m in cells) < FEWEST_ROWS:
        return [None] * len(r2)
    sums = [_Sums.of(m, total, relation, _Sums.targets(m, total, relation)) for m in cells]
    gains = relation.gains(RIDGES)
    without = []
    for left in sums:
        folds = [[s for s in sums[k : k + CELLS] if s is not left] for k in range(0, len(sums), CELLS)]
        without.append(_held_out([reduce(_Sums.__add__, own) for own in folds], gains)[: len(r2)])
    lost = np.log((1 - r2).clip(EXACT))
    reach = jackknife_spread(np.log((1 - np.array(without)).clip(EXACT)))
    return [(float(1 - np.exp(at + by)), float(1 - np.exp(at - by))) for at, by in zip(lost, reach, strict=True)]


def fit_of(
    source: Head,
    target: Head,
    relation: HeadRelation,
    cells: Sequence[Moments],
    *,
    draws: int,
    rng: np.random.Generator,
    run: Run,
) -> MapFit | None:
    """How well the map from heads predicts the target's features, on folds of rows; None where they do not vary there.

    `cells` are the moments of the rows, `CELLS` to a fold.
    Offsets come from training rows for every map. The null shuffles the labels of the source's head; its ridge is chosen
    in the same way. Without enough shuffles that differ there is no null: its numbers are nan and `draws` is 0.
    """
    folds = [reduce(Moments.merge, cells[k : k + CELLS]) for k in range(0, len(cells), CELLS)]
    features = _Features.of(folds, relation)
    total, spread = features.total, features.spread
    if not spread > 0:
        return None
    found = features.scored(relation)
    orders = shuffles(source.centred, draws, rng)
    stage = Stage("shuffling labels", f"{source.name} → {target.name}")
    null = in_threads(lambda order: features.scored(_shuffled(source, target, order)), orders, run, stage)
    beyond = sum(each.correlation >= found.correlation for each in null)

    def largest(name: str) -> float:
        return max((getattr(each, name) for each in null), default=float("nan"))

    implied, best = relation.through / relation.values[:, None], relation.right @ Linear().fit(total).matrix.T
    gap = relation.right @ (total.mean_y - relation.affine(total.mean_x[None])[0])
    size = _size(best, total.xx)
    bounds = _intervals(cells, total, relation, np.array([found.r2, found.r2_ridge, found.r2_scale]))
    return MapFit(
        n=total.n,
        r2=found.r2,
        ridge=found.ridge,
        r2_ridge=found.r2_ridge,
        r2_fitted=1 - sum(_missed(relation, held, features.training(held)) for held in folds) / spread,
        scale=found.scale,
        r2_scale=found.r2_scale,
        correlation=found.correlation,
        distance=_size(implied - best, total.xx) / size if size else float("nan"),
        offset_gap=float(np.linalg.norm(gap) / np.sqrt(spread / total.n)),
        null_r2=largest("r2"),
        null_r2_ridge=largest("r2_ridge"),
        null_correlation=largest("correlation"),
        p=(1 + beyond) / (1 + len(null)) if null else float("nan"),
        draws=len(null),
        r2_ci95=bounds[0],
        r2_ridge_ci95=bounds[1],
        null_r2_scale=largest("r2_scale"),
        r2_scale_ci95=bounds[2],
    )


def shuffles(centred: Array, draws: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Orders of the labels of a centred head (labels, dimensions), each of which makes another head of it; none where too few exist.

    Ours. Orders that leave the head as it is, up to its sign, are no null: with two labels there is no other. Labels with the same
    weights may change places. One number for each label, a random mixture of its weights, stands for them all.

    >>> [len(shuffles(np.eye(k) - 1 / k, 100, np.random.default_rng(0))) for k in (2, 3, 4, 9)]
    [0, 0, 23, 100]
    """
    label = centred @ np.random.default_rng(0).standard_normal(centred.shape[1])
    label = np.round(label / (np.abs(label).max() * SAME)) + 0.0  # no -0, of which the bytes differ
    _, same = np.unique(label, return_counts=True)
    log_orders = gammaln(len(label) + 1) - gammaln(same + 1).sum()
    mirrored = np.array_equal(np.sort(label), np.sort(-label))  # then some order changes nothing but the sign
    exist = np.exp(min(log_orders, 50.0)) - 1 - mirrored
    if exist < FEWEST_SHUFFLES - 0.5:
        return []
    seen = {label.tobytes(), (-label + 0.0).tobytes()}
    found: list[NDArray[np.int64]] = []
    while len(found) < min(draws, round(exist)):
        order = rng.permutation(len(label))
        if (key := label[order].tobytes()) not in seen:
            seen.add(key)
            found.append(order)
    return found


def _shuffled(source: Head, target: Head, order: NDArray[np.int64]) -> HeadRelation:
    """The relation if the labels of the source were in another order."""
    spectrum = target.spectrum
    shift = np.zeros(spectrum.rank)  # offsets are fitted
    return HeadRelation(spectrum.values, spectrum.right, spectrum.left.T @ source.centred[order], shift)


def _missed(relation: HeadRelation, held: Moments, trained: Moments) -> float:
    """Squared error on held-out rows, in the row space, of a linear map fitted by least squares."""
    V = relation.right
    B = Linear().fit(trained).matrix @ V.T
    x, y = (held.mean_x - trained.mean_x) @ B, (held.mean_y - trained.mean_y) @ V.T
    about_means = np.sum((V @ held.yy) * V) - 2 * np.sum((held.xy @ V.T) * B) + np.sum((held.xx @ B) * B)
    return float(about_means + held.n * np.sum((y - x) ** 2))


def _size(matrix: Array, scatter: Array) -> float:
    """Norm of a map (k, d) under the scatter of what it acts on."""
    return float(np.sqrt(np.sum((matrix @ scatter) * matrix).clip(0)))
