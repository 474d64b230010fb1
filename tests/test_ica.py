"""ica: whitening never divides by what is not there; unmixing finds sources up to order and sign, or says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from identifiable import ica
from identifiable.blocks import Blocks
from identifiable.ica import Unmixing, matched_matrices, permutation_matrix, unmix, whiten
from identifiable.moments import Moments

Matrix = NDArray[np.float64]
SEEDS = [0, 1, 20240617]


def mixed(seed: int, n: int, d: int) -> tuple[Matrix, Matrix]:
    """Laplace sources, and a mix of them with a mean."""
    rng = np.random.default_rng(seed)
    sources = rng.laplace(size=(n, d))
    return sources, sources @ rng.standard_normal((d, d)) + rng.normal(0, 3, d)


def unmixed(X: NDArray[Any], *, seed: int = 0, rows: int | None = None) -> Unmixing:
    sample = np.random.default_rng(5).permutation(len(X))[:rows]
    return unmix(Blocks(X), Moments.of(X), sample, seed=seed)


def correlations(a: Matrix, b: Matrix) -> Matrix:
    return np.corrcoef(a, b, rowvar=False)[: a.shape[1], a.shape[1] :]


# Whitening


def test_whitening_two_columns_by_hand():
    X = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    matrix, back = whiten(Moments.of(X))
    np.testing.assert_allclose((X @ matrix).T @ (X @ matrix) / 4, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(np.sort(np.abs(X @ matrix).max(axis=0)), [np.sqrt(2), np.sqrt(2)])
    np.testing.assert_allclose(matrix @ back, np.eye(2), atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("spread", [1.0, 1e3, 1e-100])
def test_whitened_rows_have_identity_covariance_and_come_back(seed, spread):
    X = mixed(seed, 500, 4)[1] * np.array([spread, 1, 1, 1])
    matrix, back = whiten(Moments.of(X))
    white = (X - X.mean(axis=0)) @ matrix
    np.testing.assert_allclose(white.T @ white / 500, np.eye(4), atol=1e-8)
    np.testing.assert_allclose((white @ back) / X.std(axis=0), (X - X.mean(axis=0)) / X.std(axis=0), atol=1e-8)
    assert np.abs(np.cov(X, rowvar=False, bias=True) - np.eye(4)).max() > 0.1


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_directions_without_variance_are_dropped_and_never_divided_by(seed, rank, mean):
    rng = np.random.default_rng(seed)
    X = rng.laplace(size=(400, rank)) @ rng.standard_normal((rank, 6)) + mean
    X = np.hstack([X, np.full((400, 2), 7.5)])
    matrix, back = whiten(Moments.of(X))
    assert matrix.shape == (8, rank)
    assert back.shape == (rank, 8)
    assert np.isfinite(matrix).all()
    assert np.isfinite(back).all()
    white = (X - X.mean(axis=0)) @ matrix
    np.testing.assert_allclose(white.T @ white / 400, np.eye(rank), atol=1e-6)
    np.testing.assert_allclose(white @ back, X - X.mean(axis=0), atol=1e-6)
    full = X + 1e-2 * rng.standard_normal(X.shape)
    assert whiten(Moments.of(full))[0].shape == (8, 8)


def test_whitening_a_constant_table_keeps_nothing():
    matrix, back = whiten(Moments.of(np.full((10, 3), 4.2)))
    assert (matrix.shape, back.shape) == ((3, 0), (0, 3))


# Unmixing


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_unmix_finds_laplace_sources_up_to_signed_permutation(seed, d, dtype):
    sources, X = mixed(seed, 5000, d)
    found = unmixed(X.astype(dtype))
    r = np.abs(correlations(found.to_components(X), sources))
    assert (r.max(axis=0) > 0.99).all()
    assert sorted(r.argmax(axis=0)) == list(range(d))
    assert (found.converged, found.rank, found.rows) == (True, d, 5000)
    if d > 1:
        assert np.abs(correlations(X, sources)).max(axis=0).min() < 0.95  # it was mixed


@pytest.mark.parametrize("seed", SEEDS)
def test_components_have_unit_variance_and_go_back_to_the_rows(seed):
    X = mixed(seed, 2000, 4)[1]
    found = unmixed(X)
    components = found.to_components(X)
    np.testing.assert_allclose(components.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(components.T @ components / 2000, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(found.from_components(components), X, atol=1e-8)
    assert np.abs(found.from_components(components[:, ::-1]) - X).max() > 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_unmix_keeps_to_the_rank_of_its_input(seed):
    rng = np.random.default_rng(seed)
    sources = rng.laplace(size=(3000, 3))
    X = np.hstack([sources @ rng.standard_normal((3, 5)) + 2.0, np.ones((3000, 1))])
    found = unmixed(X)
    assert (found.rank, found.to_components.matrix.shape, found.from_components.matrix.shape) == (3, (6, 3), (3, 6))
    r = np.abs(correlations(found.to_components(X), sources))
    assert (r.max(axis=0) > 0.99).all()
    np.testing.assert_allclose(found.from_components(found.to_components(X)), X, atol=1e-6)


@pytest.mark.parametrize("rows", [None, 700])
def test_the_same_seed_gives_the_same_bits_and_another_seed_other_ones(rows):
    X = mixed(3, 1500, 4)[1]
    first, again, other = (unmixed(X, seed=s, rows=rows) for s in (0, 0, 1))
    assert first.to_components.matrix.tobytes() == again.to_components.matrix.tobytes()
    assert first.from_components.matrix.tobytes() == again.from_components.matrix.tobytes()
    assert first.to_components.matrix.tobytes() != other.to_components.matrix.tobytes()
    assert first.rows == (rows or 1500)


def test_the_sample_decides_and_its_order_does_not():
    X = mixed(4, 1500, 3)[1]
    moments, sample = Moments.of(X), np.random.default_rng(0).permutation(1500)[:600]
    one, turned, other = (unmix(Blocks(X), moments, s, seed=0) for s in (sample, sample[::-1], (sample + 1) % 1500))
    assert one.to_components.matrix.tobytes() == turned.to_components.matrix.tobytes()
    assert one.to_components.matrix.tobytes() != other.to_components.matrix.tobytes()


@pytest.mark.parametrize("seed", SEEDS)
def test_gaussian_rows_give_white_components_and_a_word_on_convergence(seed):
    X = np.random.default_rng(seed).standard_normal((500, 6))
    found = unmixed(X)
    components = found.to_components(X)
    assert found.converged in (True, False)
    assert 1 <= found.iterations <= ica.MAX_ITERATIONS
    assert found.converged or found.iterations == ica.MAX_ITERATIONS
    np.testing.assert_allclose(components.T @ components / 500, np.eye(6), atol=1e-8)
    assert np.isfinite(found.from_components.matrix).all()


def test_running_out_of_iterations_is_a_field_and_no_warning(monkeypatch):
    X = mixed(0, 1000, 5)[1]
    assert unmixed(X).converged
    monkeypatch.setattr(ica, "MAX_ITERATIONS", 2)
    found = unmixed(X)
    assert (found.converged, found.iterations) == (False, 2)


# Matching


@pytest.mark.parametrize(
    ("correlation", "expected"),
    [
        ([[0.9, 0.1], [0.2, -0.8]], [[1, 0], [0, -1]]),
        ([[0.1, -0.9], [0.8, 0.2]], [[0, -1], [1, 0]]),
        ([[0.1, 0.2, -0.9], [0.7, 0.1, 0.1]], [[0, 0, -1], [1, 0, 0]]),
        ([[0.1, 0.7], [0.2, 0.1], [-0.9, 0.1]], [[0, 1], [0, 0], [-1, 0]]),
        ([[-0.3]], [[-1]]),
        ([[0.9, 0.8], [0.8, 0.1]], [[0, 1], [1, 0]]),  # the best sum, not the best first
    ],
)
def test_matching_by_hand(correlation, expected):
    np.testing.assert_array_equal(permutation_matrix(np.array(correlation)), expected)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (6, 3), (1, 5), (5, 1)])
def test_a_match_is_a_signed_partial_permutation_and_turns_with_its_matrix(seed, shape):
    r = np.random.default_rng(seed).uniform(-1, 1, shape)
    matrix = permutation_matrix(r)
    assert matrix.shape == shape
    assert np.abs(matrix).sum() == min(shape)
    assert np.abs(matrix).sum(axis=0).max() == np.abs(matrix).sum(axis=1).max() == 1
    assert set(np.unique(matrix)) <= {-1.0, 0.0, 1.0}
    np.testing.assert_array_equal(permutation_matrix(r.T), matrix.T)
    np.testing.assert_array_equal(permutation_matrix(-r), -matrix)
    assert (matrix * r).sum() > 0


def relative_error(X: Matrix, Y: Matrix, matrix: Matrix) -> float:
    x, y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    return float(np.linalg.norm(x @ matrix - y) / np.linalg.norm(y))


def both_ways(X: Matrix, Y: Matrix) -> tuple[float, float]:
    """Error of the map through matched components, X to Y and back."""
    moments = Moments.of(np.hstack([X, Y]), (X.shape[1], Y.shape[1]))
    forward, backward = matched_matrices(unmixed(X), unmixed(Y, seed=1), moments.xy)
    return relative_error(X, Y, forward), relative_error(Y, X, backward)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_mixes_of_the_same_sources_are_mapped_onto_each_other(seed):
    rng = np.random.default_rng(seed)
    sources = rng.laplace(size=(5000, 4))
    X, Y = (sources @ rng.standard_normal((4, 4)) + rng.normal(0, 2, 4) for _ in range(2))
    assert max(both_ways(X, Y)) < 0.01
    assert min(both_ways(X, Y[::-1])) > 0.5  # other rows: the sources are not shared


@pytest.mark.parametrize("seed", SEEDS)
def test_gaussian_sources_cannot_be_matched_component_by_component(seed):
    rng = np.random.default_rng(seed)
    sources = rng.standard_normal((2000, 4))
    X = sources @ rng.standard_normal((4, 4))
    Y = X @ rng.standard_normal((4, 4)) + 0.5 * rng.standard_normal((2000, 4)) @ rng.standard_normal((4, 4))
    linear = np.linalg.lstsq(X - X.mean(axis=0), Y - Y.mean(axis=0), rcond=None)[0]
    assert both_ways(X, Y)[0] > 1.2 * relative_error(X, Y, linear)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mix_of_some_of_the_sources_is_mapped_onto_and_not_from(seed):
    """Of unlike ranks only as many components as the smaller has are matched."""
    rng = np.random.default_rng(seed)
    sources = rng.laplace(size=(5000, 4))
    X, Y = sources @ rng.standard_normal((4, 4)), sources[:, :2] @ rng.standard_normal((2, 4))
    onto, back = both_ways(X, Y)
    assert onto < 0.1
    assert back > 0.3
