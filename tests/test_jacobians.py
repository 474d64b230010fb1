"""jacobians: spectra of decoders whose spectra are known, and estimates that know what they leave open."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from errors import naming
from identifiable import jacobians as room
from identifiable._checks import DataError, UsageError
from identifiable.groups import haar_rotation
from identifiable.jacobians import EXACT_UP_TO, Product, Products, random_directions, spectra, supremum

Matrix = NDArray[np.float64]
SEEDS = [0, 1, 2]


def linear(A: NDArray[Any]) -> Product:
    """The decoder z -> A z, A (outputs, latents)."""
    return lambda z, v: np.asarray(v @ A.T)


def with_spectrum(values: Matrix, m: int, rng: np.random.Generator) -> Matrix:
    d = len(values)
    return np.asarray(haar_rotation(m, rng)[:, :d] * values @ haar_rotation(d, rng))


def mlp(rng: np.random.Generator, d: int, m: int) -> tuple[Product, Product, Product]:
    """tanh network: its Jacobian's products both ways, and the Jacobian itself."""
    A, B = rng.standard_normal((2 * d, d)), rng.standard_normal((m, 2 * d))

    def slope(z: Matrix) -> Matrix:
        return np.asarray(1 - np.tanh(z @ A.T) ** 2)

    return (
        lambda z, v: ((v @ A.T) * slope(z)) @ B.T,
        lambda z, u: ((u @ B) * slope(z)) @ A,
        lambda z, _: np.einsum("mk,nk,kd->nmd", B, slope(z), A),
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("values", [[1.0], [3.0, 1.0], [1e3, 1.0, 1e-3], [2.0, 2.0, 2.0, 0.5]])
def test_linear_decoders_have_the_spectrum_they_were_given(values: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = with_spectrum(np.array(values), 9, rng)
    found = spectra(linear(A), rng.standard_normal((5, len(values))))
    np.testing.assert_allclose(found.largest, max(values), rtol=1e-8)
    np.testing.assert_allclose(found.smallest, min(values), rtol=1e-8)
    np.testing.assert_allclose(found.constant, max(max(values), 1 / min(values)), rtol=1e-8)
    np.testing.assert_allclose(found.condition, max(values) / min(values), rtol=1e-8)
    np.testing.assert_allclose(found.log_volume, np.log(values).sum(), atol=1e-8)
    assert found.method == "exact"
    assert found.best_constant == pytest.approx(math.sqrt(max(values) / min(values)))
    best = found.rescaled(found.best_scale)
    assert best.constant.max() == pytest.approx(found.best_constant)
    for scale in (0.9, 1.1):
        assert found.rescaled(found.best_scale * scale).constant.max() > best.constant.max()
    np.testing.assert_allclose(
        best.log_volume, np.log(values).sum() + len(values) * math.log(found.best_scale), atol=1e-8
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_networks_have_the_spectrum_of_their_jacobian_whatever_the_memory(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    jvp, _, jacobian = mlp(rng, 6, 20)
    Z = rng.standard_normal((40, 6)).astype(dtype)
    truth = np.linalg.svd(jacobian(Z.astype(float), Z), compute_uv=False)
    for memory in (1, 20_000, 2**26):
        found = spectra(jvp, Z, memory=memory)
        np.testing.assert_allclose(found.largest, truth[:, 0], rtol=1e-4)
        np.testing.assert_allclose(found.smallest, truth[:, -1], rtol=1e-4)
        np.testing.assert_allclose(found.log_volume, np.log(truth).sum(axis=1), atol=1e-3)


def test_a_lost_direction_is_an_infinite_constant_and_no_crash() -> None:
    rng = np.random.default_rng(0)
    A = with_spectrum(np.array([1.0, 0.5, 0.0]), 7, rng)
    for dtype in (np.float64, np.float32):
        found = spectra(linear(A.astype(dtype)), rng.standard_normal((3, 3)).astype(dtype))
        assert np.all(found.deficient)
        assert np.all(found.constant == np.inf)
        assert np.all(found.condition == np.inf)
        assert np.all(found.log_volume == -np.inf)
        assert found.best_constant == math.inf
        assert math.isnan(found.best_scale)
    wide = spectra(linear(rng.standard_normal((2, 3))), rng.standard_normal((3, 3)))
    assert np.all(wide.deficient)  # fewer outputs than latents lose a direction
    assert not spectra(linear(with_spectrum(np.array([1.0, 1e-5]), 7, rng)), np.zeros((1, 2))).deficient.any()


def test_a_point_without_a_derivative_is_left_out_and_the_others_stay() -> None:
    def root(z: Matrix, v: Matrix) -> Matrix:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(v / (2 * np.sqrt(z)))

    Z = np.array([[1.0, 4.0], [0.0, 1.0], [1.0, 1.0]])
    found = spectra(root, Z)
    assert found.defined.tolist() == [True, False, True]
    assert np.isnan(found.constant[1])
    assert np.isnan(found.log_volume[1])
    assert found.constant[[0, 2]] == pytest.approx([4, 2])
    assert not found.deficient.any()
    assert found.best_constant == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("seed", SEEDS)
def test_lanczos_finds_the_extremes_and_says_how_well(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    jvp, vjp, jacobian = mlp(rng, 40, 120)
    Z = rng.standard_normal((6, 40))
    truth = np.linalg.svd(jacobian(Z, Z), compute_uv=False)
    monkeypatch.setattr(room, "EXACT_UP_TO", 10)
    found = spectra(Products(jvp, vjp), Z)
    assert found.method == "lanczos"
    np.testing.assert_allclose(found.largest, truth[:, 0], rtol=1e-5)
    np.testing.assert_allclose(found.smallest, truth[:, -1], rtol=1e-4)
    monkeypatch.setattr(room, "LANCZOS_STEPS", 12)  # too few for the lower end: it must say so
    short = spectra(Products(jvp, vjp), Z)
    assert np.all(short.smallest_error > 1e-3 * short.smallest)
    assert np.all(short.largest <= truth[:, 0] * (1 + 1e-9))
    assert np.all(short.smallest >= truth[:, -1] * (1 - 1e-9))
    for values, error in ((short.largest, short.largest_error), (short.smallest, short.smallest_error)):
        nearest = np.abs(truth - values[:, None]).min(axis=1)
        assert np.all(nearest <= error + 1e-9)  # a true singular value lies within the error
    exact = spectra(jvp, Z)
    assert exact.method == "exact"  # without a vjp nothing is approximated in silence


def _diagonal(sigma: np.ndarray, dtype: Any, rotated: bool = False) -> Products:
    d = len(sigma)
    rng = np.random.default_rng(3)
    left, right = (np.linalg.qr(rng.standard_normal((d, d)))[0] if rotated else np.eye(d) for _ in range(2))
    A = ((left * sigma) @ right.T).astype(dtype)
    return Products(lambda z, v: v @ A.T, lambda z, u: u @ A)


BEYOND = EXACT_UP_TO + 8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "few", [[1.0], [1.1], [0.25, 1.0], [3.0, 1.0], [0.5, 1.0, 2.0]], ids=lambda few: "/".join(map(str, few))
)
def test_lanczos_ends_where_there_are_few_different_singular_values(few: list[float], dtype: Any) -> None:
    """An isometry has one: after a step nothing is left to look for but rounding."""
    sigma = np.full(BEYOND, few[-1])
    sigma[: len(few)] = few
    found = spectra(_diagonal(sigma, dtype), np.zeros((2, BEYOND), dtype))
    assert found.method == "lanczos"
    np.testing.assert_allclose(found.smallest, min(few), rtol=1e-5)
    np.testing.assert_allclose(found.largest, max(few), rtol=1e-5)
    assert np.all(found.largest_error < 1e-5)


@pytest.mark.parametrize(
    ("dtype", "condition"), [(np.float32, 3e2), (np.float32, 1e4), (np.float64, 1e4), (np.float64, 1e9)]
)
def test_errors_of_lanczos_cover_rounding(dtype: Any, condition: float) -> None:
    sigma = np.r_[1 / condition, np.linspace(0.5, 1, BEYOND - 1)]
    found = spectra(_diagonal(sigma, dtype, rotated=True), np.zeros((3, BEYOND), dtype))
    unit = np.eye(BEYOND, dtype=dtype)
    A = _diagonal(sigma, dtype, rotated=True).jvp(unit, unit).astype(np.float64)
    truth = np.linalg.svd(A, compute_uv=False)
    assert np.all(np.abs(found.smallest - truth[-1]) <= found.smallest_error)
    assert np.all(np.abs(found.largest - truth[0]) <= found.largest_error)
    assert np.all(found.smallest_error < 0.01 * truth[-1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lanczos_sees_a_direction_that_is_lost(dtype: Any) -> None:
    sigma = np.r_[0.0, np.linspace(0.5, 1, BEYOND - 1)]
    found = spectra(_diagonal(sigma, dtype, rotated=True), np.zeros((3, BEYOND), dtype))
    assert found.deficient.all()
    assert np.isfinite(found.smallest_error).all()


@pytest.mark.parametrize("d", [4, 100, 256])
def test_a_small_singular_value_in_single_precision_is_not_called_lost(d: int) -> None:
    sigma = np.r_[1e-5, np.linspace(0.5, 1, d - 1)]
    known = _diagonal(sigma, np.float32, rotated=True)
    found = spectra(known, np.zeros((1, d), np.float32))
    assert found.method == "exact"
    assert found.smallest[0] == pytest.approx(1e-5, rel=0.02)
    lost = spectra(_diagonal(np.r_[0.0, sigma[1:]], np.float32, rotated=True), np.zeros((1, d), np.float32))
    assert lost.deficient.all()


@pytest.mark.parametrize("seed", SEEDS)
def test_random_directions_find_a_part_of_the_constant(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jvp, _, _ = mlp(rng, 8, 30)
    Z = rng.standard_normal((50, 8))
    exact = spectra(jvp, Z).constant
    ten = random_directions(jvp, Z, rng=np.random.default_rng(seed))
    more = random_directions(jvp, Z, directions=200, rng=np.random.default_rng(seed))
    assert np.all(ten <= exact * (1 + 1e-9))
    assert np.all(ten <= more * (1 + 1e-9))
    assert np.mean(ten / exact) < 0.95
    isometry = random_directions(lambda z, v: v, Z, rng=rng)
    np.testing.assert_allclose(isometry, 1)


@pytest.mark.parametrize("top", [1.5, 4.0])
def test_the_supremum_is_covered_nine_times_in_ten(top: float) -> None:
    covered, above = 0, 0
    for draw in range(40):
        rng = np.random.default_rng(draw)
        found = supremum(np.exp(np.log(top) * rng.beta(2, 2, 2000)), rng=rng)
        assert found is not None
        covered += found.low * (1 - 1e-12) <= top <= found.high * (1 + 1e-12)
        above += found.seen >= top
        assert found.seen <= found.estimate
        assert found.shape < 0.2
    assert covered >= 0.85 * 40
    assert above == 0  # the largest value seen never is the supremum


def test_a_tail_without_end_has_no_supremum_and_equal_constants_have_theirs() -> None:
    rng = np.random.default_rng(0)
    heavy = supremum(np.exp(rng.pareto(1.5, 5000)), rng=rng)
    assert heavy is not None
    assert heavy.high == math.inf
    assert heavy.shape > 0.3
    same = supremum(np.full(500, 2.0), rng=rng)
    assert same is not None
    assert (same.low, same.estimate, same.high) == pytest.approx((2, 2, 2))
    lost = supremum(np.array([1.0] * 300 + [math.inf]), rng=rng)
    assert lost is not None
    assert lost.estimate == math.inf
    assert supremum(np.ones(50), rng=rng) is None


def test_points_products_and_options_that_cannot_be_are_refused() -> None:
    Z = np.zeros((3, 2))
    for wrong in (np.zeros(3), np.zeros((3, 2), int), np.zeros((0, 2)), np.array([[0.0, 1], [np.nan, 1]])):
        with pytest.raises(DataError, match="points: "):
            spectra(lambda z, v: v, wrong)
    with pytest.raises(DataError, match=naming("jvp: ", "1 rows")):
        spectra(lambda z, v: v.T, Z)
    with pytest.raises(UsageError, match="directions"):
        random_directions(lambda z, v: v, Z, directions=0, rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match="scale"):
        spectra(lambda z, v: v, Z).rescaled(0.0)
