"""What scikit-learn's tests of FastICA show to be true of FastICA is true of `ICA`.

The facts are those of sklearn/decomposition/tests/test_fastica.py (1.9); the tests are ours. Tests of
arguments that `ICA` does not have, and of `whitening_` and float32 attributes, are in `test_estimator.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.decomposition import FastICA

from identifiable import ICA

N = 1000
SEEDS = range(2)
by_seed = pytest.mark.parametrize("seed", SEEDS)
by_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])
by_noise = pytest.mark.parametrize(("noise", "least"), [(0.0, 0.99), (0.1, 0.9)])  # the tolerances of theirs


def standardised(x: NDArray[Any]) -> NDArray[Any]:
    return (x - x.mean(axis=0)) / x.std(axis=0)


def square_wave_and_cauchy(seed: int) -> NDArray[Any]:
    """A source with two values and one without a variance: `test_fastica_simple`."""
    wave = np.sign(np.sin(np.linspace(0.001, 100, N)))
    return standardised(np.c_[wave, stats.t.rvs(1, size=N, random_state=seed)])


def rotated(sources: NDArray[Any], noise: float, seed: int, phi: float = 0.6) -> NDArray[Any]:
    turn = np.array([[np.cos(phi), np.sin(phi)], [np.sin(phi), -np.cos(phi)]])
    return standardised(sources @ turn + noise * np.random.default_rng(seed).standard_normal((N, 2)))


def waves_in_six_columns(noise: float, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two periodic sources and six mixtures of them: `test_non_square_fastica`."""
    t, rng = np.linspace(0, 100, N), np.random.default_rng(seed)
    sources = standardised(np.c_[np.sin(t), np.ceil(np.sin(np.pi * t))])
    return sources, standardised(sources @ rng.standard_normal((2, 6)) + noise * rng.standard_normal((N, 6)))


def uniform(seed: int, dtype: Any = np.float64, n: int = 100, d: int = 10) -> NDArray[Any]:
    return np.random.default_rng(seed).random((n, d)).astype(dtype)


def recovery(found: NDArray[Any], sources: NDArray[Any]) -> float:
    """The smaller of the two correlations, sources matched to components one to one."""
    r = np.abs(np.corrcoef(found.astype(np.float64), sources, rowvar=False)[:2, 2:])
    return float(max(min(r[0, 0], r[1, 1]), min(r[0, 1], r[1, 0])))


@by_seed
@by_dtype
@by_noise
@pytest.mark.parametrize("contrast", ["logcosh", "exp", "cube"])
def test_a_square_wave_and_a_cauchy_source_are_separated(seed, dtype, noise, least, contrast):
    sources = square_wave_and_cauchy(seed)
    X = rotated(sources, noise, seed).astype(dtype)
    model = ICA(contrast=contrast)
    Z = model.fit_transform(X)
    assert recovery(Z, sources) > least > recovery(X, sources)
    assert Z.tobytes() == model.transform(X).tobytes()
    assert (Z.shape, model.components_.shape, model.mixing_.shape) == ((N, 2), (2, 2), (2, 2))
    assert Z.dtype == model.components_.dtype == dtype
    # The mixing model: components are linear in centred rows, and the mixing leads back.
    close = {"rtol": 0, "atol": np.abs(Z).max() * (1e-5 if dtype == np.float32 else 1e-7)}
    np.testing.assert_allclose((X - model.mean_) @ model.components_.T, Z, **close)
    np.testing.assert_allclose(Z @ model.mixing_.T + model.mean_, X, **close)


@by_seed
@pytest.mark.parametrize(("noise", "least"), [(0.0, 0.999), (0.1, 0.9)])
def test_two_sources_in_six_columns_are_found(seed, noise, least):
    sources, X = waves_in_six_columns(noise, seed)
    model = ICA(2).fit(X)
    Z = model.transform(X)
    assert recovery(Z, sources) > least
    assert (Z.shape, model.mixing_.shape) == ((N, 2), (6, 2))
    np.testing.assert_allclose((X - model.mean_) @ model.components_.T, Z, atol=1e-9)


@by_seed
@by_dtype
@pytest.mark.parametrize("k", [5, 10])
def test_inverse_transform_returns_what_was_kept(seed, dtype, k):
    X = uniform(seed, dtype)
    model = ICA(k)
    Z = model.fit_transform(X)
    assert (Z.shape, model.components_.shape, model.mixing_.shape) == ((100, k), (k, 10), (10, k))
    back = model.inverse_transform(Z)
    assert back.shape == X.shape
    assert back.dtype == Z.dtype == dtype
    largest = np.abs(back - X).max()
    assert largest < np.abs(back).mean() / 1e5 if k == 10 else largest > 0.1


@by_seed
def test_fastica_finds_the_same_components_up_to_order_and_sign(seed):
    X = np.random.default_rng(seed).laplace(size=(N, 4)) @ np.random.default_rng(seed + 50).standard_normal((4, 4))
    theirs = FastICA(tol=1e-8, max_iter=2000, random_state=seed).fit_transform(X)
    ours = ICA().fit_transform(X)
    r = np.abs(np.corrcoef(ours, theirs, rowvar=False)[:4, 4:])
    assert np.sort(r.max(axis=1))[0] > 1 - 1e-4
    assert sorted(r.argmax(axis=1)) == [0, 1, 2, 3]
