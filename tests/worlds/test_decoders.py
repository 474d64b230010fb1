"""worlds, the decoders: their derivatives are derivatives, and their constants are found by `jacobians`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from identifiable._checks import UsageError
from identifiable.jacobians import spectra
from identifiable.worlds import MovingSquare, Waves

SEEDS = [0, 1, 2]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("constant", [1.0, 1.1, 3.0])
def test_waves_have_the_constant_they_were_given(constant: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    g = Waves.of(constant, 3, 8, rng=rng)
    Z = rng.uniform(-4, 4, (3000, 3))
    found = spectra(g.jvp, Z)
    np.testing.assert_allclose(found.constant, g.local_constant(Z), rtol=1e-9)
    assert found.constant.max() <= constant * (1 + 1e-9)
    assert found.constant.max() > 1 + 0.95 * (constant - 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_products_of_waves_are_derivatives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    g = Waves.of(2.0, 4, 6, rng=rng)
    z, v, u = rng.standard_normal((5, 4)), rng.standard_normal((5, 4)), rng.standard_normal((5, 6))
    h = 1e-6
    np.testing.assert_allclose(g.jvp(z, v), (g(z + h * v) - g(z - h * v)) / (2 * h), atol=1e-7)
    np.testing.assert_allclose((g.jvp(z, v) * u).sum(axis=1), (v * g.vjp(z, u)).sum(axis=1), rtol=1e-12)


def test_products_of_the_square_are_derivatives() -> None:
    rng = np.random.default_rng(0)
    g = MovingSquare(48, 0.03)
    z = np.column_stack([rng.uniform(0.4, 0.6, (4, 2)), rng.uniform(0.1, 0.2, 4)])
    v, h = rng.standard_normal((4, 3)), 1e-6
    np.testing.assert_allclose(g.jvp(z, v), (g(z + h * v) - g(z - h * v)) / (2 * h), atol=1e-6)


def test_worlds_that_cannot_be_are_refused() -> None:
    rng = np.random.default_rng(0)
    for wrong in (0.9, math.inf, math.nan):
        with pytest.raises(UsageError, match="constant"):
            Waves.of(wrong, 2, 3, rng=rng)
    with pytest.raises(UsageError, match="outputs"):
        Waves.of(1.1, 3, 2, rng=rng)
    with pytest.raises(UsageError, match="pixels"):
        MovingSquare(1)
