"""The canonical form: order and sign of components by rule, so that two fits give directly comparable columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable.ica.contrasts import gaussian_values
from identifiable.ica.passes import ShapeMeans
from identifiable.moments import Array

ORDERS = ("negentropy", "variance", "kurtosis")
CERTAIN_SKEW = 3.0  # standard errors from zero beyond which skew decides the sign
UNCERTAIN_SKEW = (2.0, 4.5)  # standard errors between which another sample may decide by the other rule


@dataclass(frozen=True, eq=False)
class Shape:
    """Figures of every component with standard errors by the delta method over rows.

    `departure` is E G(u) - E G(Gaussian), `departure_se` its standard error, u being centred and scaled by its own sample.
    """

    negentropy: Array
    negentropy_se: Array
    skew: Array
    skew_se: Array
    kurtosis: Array
    kurtosis_se: Array
    departure: Array
    departure_se: Array
    largest: Array
    n: int
    contrast: str

    @classmethod
    def of(cls, means: ShapeMeans, contrast: str) -> Shape:
        level = gaussian_values(contrast)
        n, m = means.n, means.powers
        skew, fourth = m[3], m[4]
        # Influence functions of skew and kurtosis at mean 0 and variance 1, squared and averaged by power sums.
        skew_variance = _mean_square(m, {3: 1.0, 2: -1.5 * skew, 1: -3.0, 0: 0.5 * skew})
        kurtosis_variance = _mean_square(m, {4: 1.0, 2: -2.0 * fourth, 1: -4.0 * skew, 0: fourth})
        departure = means.value - level.mean
        # u is centred and scaled by its own sample: the influence of a row on E G(u) is G - E G - slope u - scale (u^2 - 1).
        slope, scale = means.slope, means.own / 2
        left = means.value_variance + scale**2 * (m[4] - 1) + slope**2 + 2 * slope * scale * m[3]
        left -= 2 * scale * means.value_square + 2 * slope * means.value_first
        departure_se = np.sqrt(left.clip(0) / n)
        return cls(
            negentropy=departure**2 / (2 * level.residual_variance),
            negentropy_se=np.abs(departure) / level.residual_variance * departure_se,
            skew=skew,
            skew_se=np.sqrt(skew_variance / n),
            kurtosis=fourth - 3,
            kurtosis_se=np.sqrt(kurtosis_variance / n),
            departure=departure,
            departure_se=departure_se,
            largest=means.largest,
            n=n,
            contrast=contrast,
        )

    def reordered(self, order: NDArray[np.intp], signs: Array) -> Shape:
        """The same for the components in another order and with other signs."""
        columns: dict[str, Any] = {k: v[order] for k, v in vars(self).items() if isinstance(v, np.ndarray)}
        return replace(self, **{**columns, "skew": columns["skew"] * signs})


@dataclass(frozen=True, eq=False)
class Canonical:
    """Which component goes where (`order`), with which sign, and how sure that is.

    `rule` says what fixed each sign; `sure` is false where another sample may well fix it otherwise. `keys` and
    `key_se` are what the order goes by, in the new order.
    """

    order: NDArray[np.intp]
    signs: Array
    rule: tuple[Literal["skew", "loading"], ...]
    sure: NDArray[np.bool_]
    keys: Array
    key_se: Array


def canonical(shape: Shape, loadings: Array, angle_se: Array, by: str) -> Canonical:
    """Order by falling negentropy, variance or |kurtosis|; sign by positive skew, or where skew is near zero by loading.

    Ours. `loadings` (components, columns) are the directions back in the data: their squared length is the variance a
    component carries, and the fallback makes their largest entry positive. `angle_se` (radians) says how far another
    sample would turn them, and so whether another entry may become the largest.
    """
    if by not in ORDERS:
        raise UsageError(f"unknown order {by!r}; choose from {', '.join(ORDERS)}.")
    variance = (loadings**2).sum(axis=1)
    keys, errors = {
        "negentropy": (shape.negentropy, shape.negentropy_se),
        "variance": (variance, _variance_errors(shape, loadings, angle_se)),
        "kurtosis": (np.abs(shape.kurtosis), shape.kurtosis_se),
    }[by]
    order = np.argsort(-keys, kind="stable")
    z = np.divide(shape.skew, shape.skew_se, out=np.zeros_like(shape.skew), where=shape.skew_se > 0)[order]
    directions = loadings[order]
    top = np.argmax(np.abs(directions), axis=1)
    by_loading = np.where(directions[np.arange(len(order)), top] < 0, -1.0, 1.0)
    by_skew = np.where(z < 0, -1.0, 1.0)
    skewed = np.abs(z) > CERTAIN_SKEW
    low, high = UNCERTAIN_SKEW
    between = (np.abs(z) > low) & (np.abs(z) < high)
    sure = ~between | (by_skew == by_loading)
    sure &= skewed | _clear_top(directions, angle_se[order])
    return Canonical(
        order,
        np.where(skewed, by_skew, by_loading),
        tuple("skew" if s else "loading" for s in skewed),
        sure,
        keys[order],
        errors[order],
    )


def _variance_errors(shape: Shape, loadings: Array, angle_se: Array) -> Array:
    """Standard errors of the variance a component carries: of its size, and of its direction.

    A turn by t towards another component adds 2 t times the product of their loadings, and t^2 times the other's
    variance; `angle_se` is shared out evenly among the others. Ours.
    """
    largest = float(np.abs(loadings).max())  # squares of variances may overflow in the units of the data
    unit = loadings / (largest or 1.0)
    products = unit @ unit.T
    variance = np.diag(products)
    each = angle_se**2 / max(len(loadings) - 1, 1)  # squared, towards one other component
    others = (products**2).sum(axis=1) - variance**2
    leaked = each * (variance.sum() - variance)
    size = variance**2 * (shape.kurtosis + 2).clip(0) / shape.n
    errors: Array = largest**2 * np.sqrt(size + 4 * each * others.clip(0) + leaked**2)
    return errors


def _clear_top(directions: Array, angle_se: Array) -> NDArray[np.bool_]:
    """Whether the largest entry keeps its sign should another, nearly as large, overtake it.

    A turn by an angle moves each of d entries by about angle / sqrt(d) of the length; the gap of two moves by sqrt(2) of
    that, and three standard errors are allowed for.
    """
    size = np.abs(directions)
    reach = 3 * np.sqrt(2) * angle_se * np.linalg.norm(directions, axis=1) / np.sqrt(directions.shape[1])
    near = size >= (size.max(axis=1) - reach)[:, None]
    return np.asarray(np.abs((np.sign(directions) * near).sum(axis=1)) == near.sum(axis=1))


def _mean_square(powers: Array, terms: dict[int, Array | float]) -> Array:
    """Mean of the square of a polynomial in u, from the means of its powers."""
    total = np.zeros(powers.shape[1])
    for i, a in terms.items():
        for j, b in terms.items():
            total += a * b * powers[i + j]
    return total.clip(0)
