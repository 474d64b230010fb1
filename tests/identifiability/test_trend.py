"""How distance follows distortion: the one-parameter fit, and rank correlations with their interval."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from identifiable.identifiability import trend as room
from identifiable.identifiability.trend import Trend, spearman, theorem_1_shape, trend


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "RESAMPLES", 300)


L = np.array([0.0, 0.05, 0.1, 0.3, 0.6, 1.0, 2.0, 3.0])


def of(constants: np.ndarray, distances: np.ndarray, strata: np.ndarray | None = None, seed: int = 0) -> Trend:
    n = len(constants)
    return trend(
        constants,
        distances,
        units=np.arange(n),
        strata=np.zeros(n, int) if strata is None else strata,
        rng=np.random.default_rng(seed),
    )


def test_the_fit_finds_the_slope_and_explains_all_of_an_exact_law() -> None:
    found = of(1 + L, 0.7 * np.sqrt(2 * L + L**2))
    assert found.slope == pytest.approx(0.7)
    assert found.r2 == pytest.approx(1.0)
    assert found.spearman == pytest.approx(1.0)
    np.testing.assert_allclose(theorem_1_shape(1 + L), np.sqrt(2 * L + L**2), atol=1e-12)
    falling = of(1 + L, 1.0 - 0.2 * L)
    assert falling.r2 < 0  # less than the mean explains
    assert falling.spearman == pytest.approx(-1.0)


@pytest.mark.parametrize("seed", range(2))
def test_spearman_is_scipys_also_with_ties(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 6, 40).astype(float), rng.standard_normal(40)
    assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic)
    assert spearman(np.ones(40), y) is None


def test_the_interval_covers_the_rank_correlation_of_the_law() -> None:
    """Of a normal pair with correlation r it is 6 / pi asin(r / 2)."""
    truth = 6 / np.pi * np.arcsin(0.6 / 2)
    covered = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal(50)
        y = 0.6 * x + 0.8 * rng.standard_normal(50)
        found = of(2 + np.exp(x), y, seed=seed)
        assert found.spearman_ci95 is not None
        covered += found.spearman_ci95[0] <= truth <= found.spearman_ci95[1]
    assert 35 <= covered <= 40


def test_observations_of_one_unit_do_not_count_as_many() -> None:
    rng = np.random.default_rng(0)
    x = np.repeat(2 + rng.random(12), 50)
    y = np.repeat(rng.random(12), 50) + 0.01 * rng.random(600)
    strata = np.zeros(600, int)
    by_unit = trend(x, y, units=np.repeat(np.arange(12), 50), strata=strata, rng=np.random.default_rng(1))
    by_row = trend(x, y, units=np.arange(600), strata=strata, rng=np.random.default_rng(1))
    assert by_unit.spearman_ci95 is not None
    assert by_row.spearman_ci95 is not None
    widths = [high - low for low, high in (by_unit.spearman_ci95, by_row.spearman_ci95)]
    assert widths[0] > 3 * widths[1]


def test_a_common_cause_makes_a_correlation_that_vanishes_within_strata() -> None:
    rng = np.random.default_rng(0)
    strata = np.repeat(np.arange(5), 40)
    caused = of(2 + strata + rng.random(200), strata + rng.random(200), strata)
    assert caused.spearman is not None
    assert caused.spearman > 0.9
    assert abs(caused.within or 0) < 0.2
    z = rng.random(200)
    own = of(2 + strata + z, strata + z, strata)
    assert own.within == pytest.approx(1.0)


def test_strata_that_do_not_vary_or_are_few_tell_nothing() -> None:
    x = np.concatenate([np.ones(20), 2 + np.arange(6.0)])
    y = np.concatenate([np.arange(20.0), np.arange(6.0)])
    strata = np.repeat([0, 1], [20, 6])
    assert of(x, y, strata).within == pytest.approx(1.0)  # the first holds rounding at best
    assert of(x[18:24], y[18:24], np.array([0, 0, 1, 1, 1, 1])).within is None
    assert (of(1 + L[:3], L[:3]).spearman, of(1 + L[:3], L[:3]).spearman_ci95) == (None, None)  # three units


def test_distances_that_do_not_vary_have_no_share_of_variance() -> None:
    found = trend(np.array([1.1, 1.2, 1.5, 2.0]), np.ones(4), units=np.arange(4), strata=np.zeros(4, int), rng=RNG())
    assert found.r2 is None
    assert found.spearman is None


def RNG() -> np.random.Generator:
    return np.random.default_rng(0)
