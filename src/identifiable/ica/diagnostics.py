"""Which components are real: margins, standard errors of directions, tests, and a verdict with its reason for each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from identifiable.ica.canonical import Canonical, Shape
from identifiable.ica.chance import GAUSSIAN_LEVEL, MOST_ANGLE, chosen_p
from identifiable.ica.contrasts import gaussian_values
from identifiable.ica.curvature import pair_curvature
from identifiable.ica.passes import PairMeans
from identifiable.ica.stability import Stability
from identifiable.moments import Array
from identifiable.results import Reason, Tie, UnresolvedPair

NO_ERROR = 1e-12  # of a departure, from which down it is certain: two values, or one row
PAIR_ANGLE = 0.25  # radians of standard error between two components from which on they are listed as unresolved
LEAST_STABILITY = 0.93  # mean |r| between refits on halves
WORST_STABILITY = 0.85
LEAST_MARGIN = 2.5  # standard errors by which the curvature on unseen rows must be positive
MOST_RESIDUAL = 0.05  # radians
MOST_IN_ONE_ROW = 0.2  # of a component's variance
PAIR_ROWS = 40_000  # on which the curvature of pairs and its errors are measured
LISTED_PAIRS = 4  # unresolved pairs kept in a result, per component; the worst ones
FLAT = 1e-6  # curvature from which down a pair turns freely
TIE = 3.0  # standard errors


LIMITS = {
    "gaussian_level": GAUSSIAN_LEVEL,
    "angle_se": MOST_ANGLE,
    "stability": LEAST_STABILITY,
    "stability_min": WORST_STABILITY,
    "unseen_margin": LEAST_MARGIN,
    "residual": MOST_RESIDUAL,
    "variance_in_one_row": MOST_IN_ONE_ROW,
}
"""What a component must keep to be called reproducible, as recorded in a result's settings."""


@dataclass(frozen=True, eq=False)
class Directions:
    """How well each direction is determined, from the curvature and noise of the contrast over all pairs.

    The sandwich formula of an M-estimator: the gradient of a pair is the mean of s_i G'(y_i) y_j - s_j G'(y_j) y_i, and the
    whitening, which makes the sample covariance exactly white, takes k / 2 y_i y_j off it, k = a_i - a_j and
    a_i = s_i E[G''(y_i) + y_i G'(y_i)]. Divided by the curvature it is how far two components turn into each other; with
    the whitening's own part, how far a direction moves. Ours (derived for independent components, checked by Monte
    Carlo); it says what another sample would do, given that the solver finds the same optimum.
    """

    curvature: Array  # of every pair, halved as in Theorem 2
    pair_se: Array  # radians, of every pair; at most 1
    angle_se: Array  # radians, of every component
    residual: Array  # radians
    signs: Array  # of the signed contrast: +1 for super-Gaussian components with log cosh, 0 for those left alone

    @classmethod
    def of(cls, pairs: PairMeans, cross: Array, bend: Array, n: int, left: NDArray[np.bool_]) -> Directions:
        """`cross` and `bend` as a step's means on all `n` rows; `pairs` may be of fewer rows; components `left` have no part."""
        own = np.diag(cross)
        signs = np.where(left, 0.0, np.where(bend >= own, 1.0, -1.0))
        curvature = pair_curvature(pairs.bend, pairs.own, signs)
        noise = np.where(left[:, None], 0.0, pairs.noise)
        raw = noise + noise.T - 2 * np.outer(signs, signs) * pairs.shared
        k, m = (np.subtract.outer(v, v) for v in (signs * (bend + own), signs * own))
        noise = (raw + k**2 / 4 - k * m).clip(0)
        flat = curvature <= FLAT
        usable = np.where(flat, 1.0, curvature)
        turning = np.where(flat, 1.0, (noise / usable**2 / n).clip(max=1.0))
        moving = np.where(flat, 1.0, ((noise / usable**2 + (m - k / 2) / usable + 0.25) / n).clip(0, 1))
        for variance in (turning, moving):
            np.fill_diagonal(variance, 0.0)
        signed = signs[:, None] * cross
        step = np.where(flat, 0.0, (signed - signed.T) / usable).clip(-1, 1)
        np.fill_diagonal(curvature, np.inf)
        return cls(
            curvature / 2,
            np.sqrt(turning),
            np.sqrt(moving.sum(axis=1)),
            np.sqrt((step**2).sum(axis=1)),
            signs,
        )

    def reordered(self, order: NDArray[np.intp]) -> Directions:
        square = np.ix_(order, order)
        return Directions(
            self.curvature[square],
            self.pair_se[square],
            self.angle_se[order],
            self.residual[order],
            self.signs[order],
        )

    @property
    def margin(self) -> Array:
        """Theorem 2's margin of every component: the smallest curvature of its pairs; infinite for a single component."""
        least: Array = self.curvature.min(axis=1)
        return least

    @property
    def hardest(self) -> list[int | None]:
        """The component each is hardest to tell from."""
        return [int(k) if len(self.curvature) > 1 else None for k in self.curvature.argmin(axis=1)]

    def unresolved(self, gaussian: NDArray[np.bool_]) -> tuple[list[UnresolvedPair], int]:
        """Pairs that another sample may turn into each other, worst first and at most a few per component; and how many.

        Two components that cannot be told from Gaussians are such a pair, whatever their curvature at this optimum.
        """
        first, second = np.nonzero(np.triu((self.pair_se > PAIR_ANGLE) | np.logical_and.outer(gaussian, gaussian), 1))
        worst = np.argsort(-self.pair_se[first, second], kind="stable")[: LISTED_PAIRS * len(self.angle_se)]
        listed = [
            UnresolvedPair(int(i), int(j), float(self.curvature[i, j]), float(self.pair_se[i, j]))
            for i, j in zip(first[worst], second[worst], strict=True)
        ]
        return listed, len(first)


def gaussian_p(shape: Shape) -> Array:
    """Two-sided p-value of E G(u) against a Gaussian's, given that the direction was chosen for departing from it. Ours."""
    level = gaussian_values(shape.contrast)
    # Between the error of a Gaussian and the one measured: the tails of a mean are as skew as G, and where a direction with a
    # large departure is chosen, the first alone is too small on one side and the second too small on the other.
    errors = np.sqrt(np.sqrt(level.residual_variance / shape.n) * shape.departure_se.clip(NO_ERROR))
    return chosen_p(np.abs(shape.departure) / errors, level.roughness)


def looks_gaussian(shape: Shape) -> NDArray[np.bool_]:
    """Components that the contrast cannot tell from a Gaussian, or from a direction chosen in Gaussian noise."""
    return np.asarray(gaussian_p(shape) >= GAUSSIAN_LEVEL)


@dataclass(frozen=True)
class Judged:
    """Whether a component is reproducible, and why or why not."""

    identifiable: bool
    reason: Reason


def judge(shape: Shape, directions: Directions, form: Canonical, stability: Stability | None) -> list[Judged]:
    """The verdict on every component: the first objection found, or none.

    Without refits nothing is called reproducible: curvature and standard errors are taken at an optimum chosen
    for being one, and in data without any (a sphere, a multivariate t) they look fine for some components.
    """
    # One Gaussian component is what the others leave over, and so determined; two can be turned freely.
    gaussian = looks_gaussian(shape)
    gaussian &= gaussian.sum() > 1
    verdicts = []
    for i in range(len(gaussian)):
        no = _one_row(shape, i) or _objection(i, bool(gaussian[i]), directions, form, stability)
        if no is None and stability is not None:
            found = {"correlation": stability.mean[i], "refits": stability.refits}
            verdicts.append(Judged(True, Reason("reproducible", found)))
        else:
            verdicts.append(Judged(False, no or Reason("not_refitted")))
    return verdicts


def _one_row(shape: Shape, i: int) -> Reason | None:
    share = float(shape.largest[i]) ** 2 / shape.n
    return Reason("one_row", {"share": share}) if share > MOST_IN_ONE_ROW else None


def _objection(
    i: int, gaussian: bool, directions: Directions, form: Canonical, stability: Stability | None
) -> Reason | None:
    if gaussian:
        return Reason("gaussian")
    if directions.residual[i] > MOST_RESIDUAL:
        return Reason("not_settled", {"turn": directions.residual[i]})
    if directions.angle_se[i] > MOST_ANGLE:
        partner = int(np.argmax(directions.pair_se[i]))
        if directions.pair_se[i, partner] > PAIR_ANGLE:
            return Reason("turns_into", {"component": partner})
        return Reason("uncertain_direction", {"angle_se": directions.angle_se[i]})
    if stability is not None and (stability.mean[i] < LEAST_STABILITY or stability.least[i] < WORST_STABILITY):
        return Reason(
            "refits_differ",
            {
                "mean": stability.mean[i],
                "worst": stability.least[i],
                "least_mean": LEAST_STABILITY,
                "least_worst": WORST_STABILITY,
            },
        )
    if stability is not None and stability.margin[i] < LEAST_MARGIN:
        return Reason("turns_into_unseen", {"component": int(stability.flattest[i])})
    if not form.sure[i] or (stability is not None and not stability.sign_kept[i]):
        return Reason("sign_uncertain")
    return None


def places(form: Canonical) -> list[tuple[int, int]]:
    """First and last place of every component that its key allows, to `TIE` standard errors of the difference."""
    gap = form.keys[:, None] - form.keys
    error = TIE * np.sqrt(form.key_se[:, None] ** 2 + form.key_se**2)
    above, below = (gap < -error).sum(axis=1), (gap > error).sum(axis=1)
    return [(int(a), int(len(form.keys) - 1 - b)) for a, b in zip(above, below, strict=True)]


def ties(form: Canonical, judged: list[Judged]) -> list[Tie]:
    """Neighbours among the reproducible components whose order is not certain."""
    kept = [i for i, verdict in enumerate(judged) if verdict.identifiable]
    found = []
    for i, j in pairwise(kept):
        error = float(np.hypot(form.key_se[i], form.key_se[j]))
        gap = float(form.keys[i] - form.keys[j])
        if gap < TIE * error:
            found.append(Tie(i, j, gap / error if error else 0.0))
    return found
