"""Contrasts: derivatives, Gaussian values, and numbers at their ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from identifiable.ica.contrasts import CONTRASTS, contrast, gaussian_values
from identifiable.ica.kernels import add_powers

NAMES = list(CONTRASTS)


def sloped(name: str, y: NDArray[Any]) -> NDArray[Any]:
    """G' of a column, as the passes ask for it."""
    out = np.empty_like(y)
    with np.errstate(over="ignore"):  # as in a fold
        contrast(name).slope(y, out)
    return out


# Contrasts


@pytest.mark.parametrize("name", NAMES)
def test_slope_and_bend_are_the_derivatives_of_the_contrast(name):
    y = np.linspace(-6, 6, 401)[:, None]
    h = 1e-5
    G = contrast(name)
    first = (G.value(y + h) - G.value(y - h)) / (2 * h)
    second = (sloped(name, y + h) - sloped(name, y - h)) / (2 * h)
    scale = 1 + np.abs(second).max()
    np.testing.assert_allclose(sloped(name, y), first, atol=1e-8 * scale)
    np.testing.assert_allclose(G.bend(y, sloped(name, y)), second, atol=1e-7 * scale)
    both = np.empty_like(y)
    np.testing.assert_allclose(G.slope_and_bends(y, both), G.bend(y, sloped(name, y)).sum(axis=0), atol=1e-9)
    np.testing.assert_array_equal(both, sloped(name, y))
    np.testing.assert_array_equal(G.value(y), G.value(-y))
    assert np.abs(sloped(name, y) - G.value(y)).max() > 0.1  # the check can fail


@pytest.mark.parametrize("name", NAMES)
def test_gaussian_values_agree_with_quadrature(name):
    def mean(f):
        return integrate.quad(lambda x: f(x) * stats.norm.pdf(x), -12, 12, epsabs=1e-12, limit=200)[0]

    def G(x):
        return float(contrast(name).value(np.array([x]))[0])

    level = mean(G)
    variance = mean(lambda x: (G(x) - level) ** 2) - mean(lambda x: (G(x) - level) * (x * x - 1)) ** 2 / 2
    assert gaussian_values(name).mean == pytest.approx(level, abs=1e-9)
    assert gaussian_values(name).residual_variance == pytest.approx(variance, rel=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_contrasts_at_extreme_values_are_their_limits(dtype):
    y = np.array([0.0, 60, -60, 400, -400, 1e4, -1e4], dtype=dtype)
    found = {n: (contrast(n).value(y), sloped(n, y), contrast(n).bend(y, sloped(n, y))) for n in NAMES}
    assert {a.dtype for each in found.values() for a in each} == {np.dtype(dtype)}
    value, slope, bend = found["logcosh"]
    row = np.empty((1, len(y)), dtype)  # as in a pass, where it is compiled
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(contrast("logcosh").slope_and_bends(y[None], row), bend, atol=1e-6)
    np.testing.assert_allclose(row[0], np.sign(y), atol=1e-7)
    np.testing.assert_allclose(value, np.where(y == 0, 0, np.abs(y) - np.log(2)), atol=1e-6, rtol=1e-6)
    np.testing.assert_allclose(slope, np.sign(y), atol=1e-7)
    np.testing.assert_allclose(bend, y == 0, atol=1e-6)
    assert not any(each[1:].any() for each in found["exp"])
    assert all(np.isfinite(each).all() for each in found["cube"])


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_costs_no_more_than_its_rounding(name):
    y = np.random.default_rng(0).standard_normal((1000, 3))
    narrow = y.astype(np.float32)
    scale = np.abs(contrast(name).value(y)).max()
    np.testing.assert_allclose(contrast(name).value(narrow), contrast(name).value(y), atol=1e-6 * scale)
    np.testing.assert_allclose(sloped(name, narrow), sloped(name, y), atol=1e-6 * scale)


# Passes


def test_sums_of_powers_are_those_of_numpy():
    y = np.random.default_rng(73).standard_normal((5, 2)) + 1.0
    sums = np.zeros((8, 2))
    add_powers.plain(y, *sums)
    np.testing.assert_allclose(sums, [(y**k).sum(axis=0) for k in range(1, 9)], rtol=1e-12)
