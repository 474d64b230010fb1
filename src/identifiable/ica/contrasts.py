"""Contrasts: the functions G whose mean tells a component from a Gaussian.

A component of unit variance is scored by |E G(u) - E G(Gaussian)|. `slope` is G', `bend` is G''.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable.ica.kernels import tanh_and_squares
from identifiable.moments import Array

Values = NDArray[np.floating[Any]]


class Contrast(ABC):
    """G, G' and G'' on arrays of any float type; `slope` writes into a buffer of the same shape."""

    name: str
    compiled = True  # whether a pass over rows in float32 runs compiled loops

    @abstractmethod
    def value(self, y: Values) -> Values: ...

    def value_beside(self, y: Values, slope: Values) -> Values:
        """`value` where the slope is known."""
        return self.value(y)

    @abstractmethod
    def slope(self, y: Values, out: Values) -> None: ...

    @abstractmethod
    def bend(self, y: Values, slope: Values) -> Values: ...

    def bends_with_squares(self, y: Values, slope: Values, square: Values, slopes_with_squares: Values) -> Values:
        """Sums over rows of G''(y_i) y_j^2, given those of G'(y_i)^2 y_j^2."""
        return self.bend(y, slope).T @ square

    def slope_and_bends(self, y: Values, out: Values) -> Array:
        """`slope`, and the sum of G'' over rows."""
        self.slope(y, out)
        sums: Array = self.bend(y, out).sum(axis=0, dtype=np.float64)
        return sums


class LogCosh(Contrast):
    """log cosh: scikit-learn's default; robust to outliers."""

    name = "logcosh"

    def value(self, y: Values) -> Values:
        one = y.dtype.type(1)
        size = np.abs(y)
        tail = np.exp(-2 * one * size)
        tail += one
        np.log(tail, out=tail)  # not log1p, which is not vectorised: rounding is of the size of the sum's
        size += tail
        size -= y.dtype.type(np.log(2))
        return size

    def value_beside(self, y: Values, slope: Values) -> Values:
        value = np.abs(slope)  # log cosh y = |y| - log(1 + |tanh y|), an exponential less
        value += y.dtype.type(1)
        np.log(value, out=value)
        return np.subtract(np.abs(y), value, out=value)

    def slope(self, y: Values, out: Values) -> None:
        if y.dtype == np.float32 and y.ndim == 2:  # rows of components, as in a pass
            if self.compiled:
                self.slope_and_bends(y, out)
            else:
                np.tanh(y, out=out)
            return
        # tanh as 1 - 2 / (1 + exp 2y): numpy's exp is vectorised, its tanh is not, which is 1.6 times slower.
        # exp overflows to infinity, which is right: the slope is then 1.
        one = y.dtype.type(1)
        np.multiply(y, 2 * one, out=out)
        np.exp(out, out=out)
        np.add(out, one, out=out)
        np.divide(-2 * one, out, out=out)
        np.add(out, one, out=out)

    def bend(self, y: Values, slope: Values) -> Values:
        result: Values = 1 - slope * slope
        return result

    def bends_with_squares(self, y: Values, slope: Values, square: Values, slopes_with_squares: Values) -> Values:
        result: Values = square.sum(axis=0) - slopes_with_squares  # without a product: G'' = 1 - G'^2
        return result

    def slope_and_bends(self, y: Values, out: Values) -> Array:
        if self.compiled and y.dtype == np.float32:
            squares = np.zeros(y.shape[1], np.float32)
            tanh_and_squares(y, out, squares)
        else:
            self.slope(y, out)
            squares = np.einsum("ij,ij->j", out, out)
        sums: Array = len(y) - np.asarray(squares, np.float64)
        return sums


class Exp(Contrast):
    """-exp(-u^2 / 2): more robust still; for very heavy tails."""

    name = "exp"

    def value(self, y: Values) -> Values:
        result: Values = -np.exp(-y * y / 2)
        return result

    def slope(self, y: Values, out: Values) -> None:
        np.multiply(y, y, out=out)
        out *= y.dtype.type(-0.5)
        np.exp(out, out=out)
        out *= y

    def bend(self, y: Values, slope: Values) -> Values:
        square = y * y
        result: Values = (1 - square) * np.exp(-square / 2)
        return result


class Cube(Contrast):
    """u^4 / 4, which is kurtosis: efficient for light tails, at the mercy of outliers."""

    name = "cube"

    def value(self, y: Values) -> Values:
        square = y * y
        result: Values = square * square / 4
        return result

    def slope(self, y: Values, out: Values) -> None:
        np.multiply(y, y, out=out)
        out *= y

    def bend(self, y: Values, slope: Values) -> Values:
        result: Values = 3 * y * y
        return result


CONTRASTS: dict[str, Contrast] = {c.name: c for c in (LogCosh(), Exp(), Cube())}


FEW = (
    2**18
)  # numbers of a pass up to which numpy is fast enough: compiled loops take half a second to load, or two to compile


def contrast(name: str, numbers: int | None = None) -> Contrast:
    """The contrast of that name, for passes over so many numbers: with few of them, nothing is compiled.

    tanh in numpy and compiled differ by 2e-7, the rounding of float32.
    """
    if name not in CONTRASTS:
        raise UsageError(f"unknown contrast {name!r}; choose from {', '.join(CONTRASTS)}.")
    found = CONTRASTS[name]
    if numbers is not None and numbers <= FEW:
        found = copy(found)
        found.compiled = False
    return found


@dataclass(frozen=True)
class GaussianValues:
    """Of G at a standard Gaussian: its mean, and the variance left after regressing on the square.

    `coupling`: the variance of G'', and that of G' left after regressing on y; what couples two pairs of components by chance.
    `roughness`: how fast the mean of G over a sample varies with the direction: the variance of its slope, per radian, over
    its own (4 for u^4, the mean degree of G in Hermite polynomials).
    `shape_roughness`: the same of u G'(u) - G''(u), by which a step tells a component from a Gaussian; its variance is `coupling`.
    """

    mean: float
    residual_variance: float
    coupling: float
    roughness: float
    shape_roughness: float


@cache
def gaussian_values(name: str) -> GaussianValues:
    """By the trapezoid rule, which is exact to rounding for smooth functions that vanish at both ends."""
    y = np.linspace(-14, 14, 20_001)
    weight = np.exp(-y * y / 2) / np.sqrt(2 * np.pi) * (y[1] - y[0])
    value = np.asarray(contrast(name).value(y), dtype=np.float64)
    slope = np.empty_like(y)
    contrast(name).slope(y, slope)
    bend = np.asarray(contrast(name).bend(y, slope), dtype=np.float64)
    mean, residual, slope_variance = _field(y, weight, value, slope)
    coupling = float(weight @ (bend - weight @ bend) ** 2) + slope_variance
    shape = y * slope - bend
    _, shape_variance, shape_slope = _field(y, weight, shape, np.gradient(shape, y))
    return GaussianValues(mean, residual, coupling, slope_variance / residual, shape_slope / shape_variance)


def _field(y: Array, weight: Array, value: Array, slope: Array) -> tuple[float, float, float]:
    """Mean of a function of a Gaussian, its variance after regressing on the square, and that of its slope after regressing on y."""
    mean = float(weight @ value)
    with_square = float(weight @ ((value - mean) * (y * y - 1)))
    residual = float(weight @ (value - mean) ** 2) - with_square**2 / 2
    return mean, residual, float(weight @ (slope - float(weight @ (slope * y)) * y) ** 2)
