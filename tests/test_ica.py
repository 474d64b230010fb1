"""ica, the parts: contrasts, choices of rows, whitening that never divides by what is not there, passes over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from identifiable import resolve
from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.ica.contrasts import CONTRASTS, contrast, gaussian_values
from identifiable.ica.passes import POWERS, Passes, RowChoice
from identifiable.ica.whitening import Whitener
from identifiable.moments import Moments
from identifiable.rows import uniforms
from identifiable.run import Run

Matrix = NDArray[np.float64]
SEEDS = [0, 1, 20240617]
NAMES = list(CONTRASTS)


def laplace_mix(seed: int, n: int, d: int) -> Matrix:
    rng = np.random.default_rng([seed, n, d])
    return np.asarray(rng.laplace(size=(n, d)) @ rng.standard_normal((d, d)) + rng.normal(0, 3, d))


def sloped(name: str, y: NDArray[Any]) -> NDArray[Any]:
    """G' of a column, as the passes ask for it."""
    out = np.empty_like(y)
    with np.errstate(over="ignore"):  # as in a fold
        contrast(name).slope(y, out)
    return out


def whitened(X: NDArray[Any], whitener: Whitener) -> Matrix:
    return np.asarray((np.asarray(X, np.float64) - whitener.center) @ whitener.matrix)


def whiteness_error(Z: NDArray[Any]) -> float:
    """How far the covariance of rows, about zero, is from the identity."""
    Z = np.asarray(Z, np.float64)
    return float(np.abs(Z.T @ Z / len(Z) - np.eye(Z.shape[1])).max())


def seen_rows(X: NDArray[Any], **how: Any) -> NDArray[Any]:
    """All rows whitened, as the passes see them."""
    return Passes(Blocks(X), Whitener.of(Moments.of(X), **how)).sample(10 * len(X))


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
    assert np.abs(sloped(name, y) - G.value(y)).max() > 0.1  # the check can fail


@pytest.mark.parametrize("name", NAMES)
def test_contrasts_are_even_and_their_slopes_odd(name):
    y = np.linspace(0, 8, 100)[:, None]
    np.testing.assert_array_equal(contrast(name).value(y), contrast(name).value(-y))
    np.testing.assert_allclose(sloped(name, y), -sloped(name, -y), atol=1e-15)
    assert np.ptp(contrast(name).value(y)) > 0.5


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


def test_gaussian_values_of_the_cube_are_those_of_the_fourth_moment():
    """E u^4 / 4 = 3/4; Var u^4 = 96, Cov(u^4, u^2) = 12: (96 - 144 / 2) / 16."""
    assert gaussian_values("cube").mean == pytest.approx(0.75, rel=1e-12)
    assert gaussian_values("cube").residual_variance == pytest.approx(1.5, rel=1e-12)
    assert gaussian_values("exp").mean == pytest.approx(-np.sqrt(0.5), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logcosh_at_extreme_values_is_the_absolute_value_less_log_two(dtype):
    y = np.array([0.0, 50, -50, 400, -400, 1e4, -1e4], dtype=dtype)
    value, slope = contrast("logcosh").value(y), sloped("logcosh", y)
    assert (value.dtype, slope.dtype) == (dtype, dtype)
    np.testing.assert_allclose(value, np.where(y == 0, 0, np.abs(y) - np.log(2)), atol=1e-6, rtol=1e-6)
    np.testing.assert_allclose(slope, np.sign(y), atol=1e-7)
    np.testing.assert_allclose(contrast("logcosh").bend(y, slope), y == 0, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_at_extreme_values_is_zero_and_the_cube_is_finite(dtype):
    y = np.array([-1e4, -60, 60, 1e4], dtype=dtype)
    for got in (contrast("exp").value(y), sloped("exp", y), contrast("exp").bend(y, sloped("exp", y))):
        assert got.dtype == dtype
        np.testing.assert_array_equal(np.abs(got), 0)
    cube = (contrast("cube").value(y), sloped("cube", y), contrast("cube").bend(y, sloped("cube", y)))
    assert all(got.dtype == dtype and np.isfinite(got).all() for got in cube)


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_costs_no_more_than_its_rounding(name):
    y = np.random.default_rng(0).standard_normal((1000, 3))
    narrow = y.astype(np.float32)
    scale = np.abs(contrast(name).value(y)).max()
    np.testing.assert_allclose(contrast(name).value(narrow), contrast(name).value(y), atol=1e-6 * scale)
    np.testing.assert_allclose(sloped(name, narrow), sloped(name, y), atol=1e-6 * scale)


def test_an_unknown_contrast_says_which_there_are():
    with pytest.raises(UsageError, match=r"'tanh'.*logcosh, exp, cube"):
        contrast("tanh")


# Which rows


@pytest.mark.parametrize("seed", [0, 1, 2**40 + 5, 2**70])
def test_row_numbers_are_uniform_and_without_memory(seed):
    u = uniforms(seed, 0, 20_000)
    assert u.min() >= 0
    assert u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > 1e-4
    for lag in (1, 2, 16, 1024):
        assert abs(np.corrcoef(u[:-lag], u[lag:])[0, 1]) < 0.03
    assert stats.kstest(u * u, "uniform").pvalue < 1e-10  # the test has power


def test_row_numbers_depend_on_the_position_alone_not_on_the_cut():
    whole = uniforms(3, 0, 1000)
    pieces = np.concatenate([uniforms(3, a, min(a + 77, 1000) - a) for a in range(0, 1000, 77)])
    np.testing.assert_array_equal(whole, pieces)
    assert abs(np.corrcoef(whole, uniforms(4, 0, 1000))[0, 1]) < 0.1
    assert not np.intersect1d(whole, uniforms(4, 0, 1000)).size


@pytest.mark.parametrize("seed", [0, 7, 123456789])
def test_two_halves_share_no_row_and_miss_none(seed):
    n = 5001
    first, second = (RowChoice(seed, low, low + 0.5).positions(0, n) for low in (0.0, 0.5))
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(np.sort(np.concatenate([first, second])), np.arange(n))
    assert abs(len(first) - n / 2) < 4 * np.sqrt(n / 4)


def test_a_part_is_contained_in_every_larger_part():
    half = RowChoice(5, 0.5, 1.0)
    parts = [set(map(int, half.part(share).positions(0, 4000))) for share in (0.1, 0.3, 1.0)]
    assert parts[0] < parts[1] < parts[2]
    assert parts[2] == set(map(int, half.positions(0, 4000)))
    assert half.part(7.0) == half
    assert half.part(0.1).share == pytest.approx(0.05)


def test_all_rows_need_no_positions_and_none_are_none():
    assert RowChoice(1).positions(0, 10) is None
    assert RowChoice(1).part(2.0).positions(0, 10) is None
    assert len(RowChoice(1, 0.3, 0.3).positions(0, 1000)) == 0


# Whitening


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("spread", [1.0, 1e3, 1e-9])
def test_whitened_rows_have_identity_covariance_and_come_back(seed, spread):
    X = laplace_mix(seed, 500, 4) * np.array([spread, 1, 1, 1])
    whitener = Whitener.of(Moments.of(X))
    white = whitened(X, whitener)
    assert whiteness_error(white) < 1e-8
    np.testing.assert_allclose((white @ whitener.back) / X.std(axis=0), (X - X.mean(axis=0)) / X.std(axis=0), atol=1e-7)
    assert whiteness_error(X) > 0.1


@pytest.mark.parametrize("rank", [2, 3, 4, "auto"])
@pytest.mark.parametrize("mixed", [False, True])
def test_columns_over_twelve_decades_are_all_whitened(rank, mixed):
    rng = np.random.default_rng(0)
    X = (
        rng.laplace(size=(2000, 4))
        @ (np.eye(4) + mixed * np.triu(rng.standard_normal((4, 4))))
        * np.logspace(0, -12, 4)
    )
    whitener = Whitener.of(Moments.of(X), rank=rank)
    assert whitener.rank == (4 if rank == "auto" else rank)
    assert whiteness_error(whitened(X, whitener)) < 1e-6
    assert whiteness_error(seen_rows(X, rank=rank)) < 1e-3


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e5])
def test_an_ill_conditioned_mix_is_whitened_to_a_millionth(condition):
    rng = np.random.default_rng(1)
    turn, other = (np.linalg.qr(rng.standard_normal((6, 6)))[0] for _ in range(2))
    X = rng.laplace(size=(3000, 6)) @ (turn * np.logspace(0, -np.log10(condition), 6) @ other) + rng.standard_normal(6)
    whitener = Whitener.of(Moments.of(X))
    assert (whitener.rank, whitener.record.dropped) == (6, 0)
    assert whitener.record.condition == pytest.approx(condition, rel=0.5)
    assert whiteness_error(whitened(X, whitener)) < 1e-6
    assert whiteness_error(seen_rows(X)) < 3e-3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_a_huge_offset_leaves_no_mean_in_the_components(dtype, offset):
    rng = np.random.default_rng(2)
    X = (rng.laplace(size=(20_000, 3)) + offset * np.array([1, 1.1, 0.97])).astype(dtype)
    seen = seen_rows(X)
    assert np.abs(seen.mean(axis=0, dtype=np.float64)).max() < 1e-4
    assert whiteness_error(seen) < 1e-4


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_directions_without_variance_are_dropped_and_never_divided_by(seed, rank, mean):
    rng = np.random.default_rng(seed)
    X = rng.laplace(size=(400, rank)) @ rng.standard_normal((rank, 6)) + mean
    X = np.hstack([X, np.full((400, 2), 7.5)])
    whitener = Whitener.of(Moments.of(X))
    assert (whitener.matrix.shape, whitener.back.shape) == ((8, rank), (rank, 8))
    assert (whitener.record.rank, whitener.record.dropped, whitener.record.constant) == (rank, 8 - rank, 2)
    assert np.isfinite(whitener.matrix).all()
    white = whitened(X, whitener)
    assert whiteness_error(white) < 1e-6
    np.testing.assert_allclose(white @ whitener.back, X - X.mean(axis=0), atol=1e-6)
    full = Whitener.of(Moments.of(X + 1e-2 * rng.standard_normal(X.shape)))
    assert (full.rank, full.record.dropped, full.record.constant) == (8, 0, 0)


@pytest.mark.parametrize(
    ("change", "rank"),
    [(0.0, 2), (1e-9, 2), (1e-4, 3), (1.0, 3)],
)
def test_a_duplicated_column_is_dropped_and_a_nearly_duplicated_one_kept(change, rank):
    rng = np.random.default_rng(3)
    two = rng.laplace(size=(1000, 2))
    X = np.column_stack([two, two[:, 0] + change * rng.laplace(size=1000)])
    whitener = Whitener.of(Moments.of(X))
    assert whitener.rank == rank
    assert whiteness_error(whitened(X, whitener)) < 1e-6


@pytest.mark.parametrize("n", [2, 3, 10, 20])
def test_fewer_rows_than_columns_leave_one_direction_less_than_rows(n):
    X = np.random.default_rng(4).standard_normal((n, 20))
    whitener = Whitener.of(Moments.of(X))
    assert whitener.rank == n - 1
    assert whiteness_error(whitened(X, whitener)) < 1e-6


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_given_rank_keeps_the_leading_principal_directions(rank):
    X = laplace_mix(0, 800, 4)
    whitener = Whitener.of(Moments.of(X), rank=rank)
    centred = X - X.mean(axis=0)
    _, spread, right = np.linalg.svd(centred, full_matrices=False)
    leading = right[:rank].T
    assert (whitener.rank, whitener.record.rule, whitener.record.dropped) == (rank, "given", 4 - rank)
    assert whiteness_error(whitened(X, whitener)) < 1e-9
    np.testing.assert_allclose(whitener.matrix, leading @ (leading.T @ whitener.matrix), atol=1e-9)
    np.testing.assert_allclose(whitened(X, whitener) @ whitener.back, centred @ leading @ leading.T, atol=1e-8)
    np.testing.assert_allclose(whitener.record.spectrum, spread / np.sqrt(800), rtol=1e-9)


def test_the_effective_rank_counts_directions_by_entropy():
    rng = np.random.default_rng(5)
    even = np.linalg.qr(rng.standard_normal((100, 4)))[0]
    even -= even.mean(axis=0)
    assert Whitener.of(Moments.of(even)).record.effective_rank == pytest.approx(4, rel=0.02)
    steep = even * [1, 1e-4, 1e-4, 1e-4]
    assert Whitener.of(Moments.of(steep)).record.effective_rank == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("rank", [0, 4, 99])
def test_a_rank_that_is_not_there_says_how_many_are(rank):
    X = laplace_mix(0, 100, 4)
    X[:, 3] = X[:, 0]
    with pytest.raises(UsageError, match=f"rank {rank}"):
        Whitener.of(Moments.of(X), rank=rank)
    assert Whitener.of(Moments.of(X), rank=3).rank == 3


def test_nothing_to_whiten_is_an_error_that_says_so():
    with pytest.raises(DataError, match="constant"):
        Whitener.of(Moments.of(np.full((10, 3), 4.2)))
    with pytest.raises(DataError, match="two rows, got 1"):
        Whitener.of(Moments.of(np.ones((1, 3))))


def test_whitening_in_each_product_or_before_it_gives_the_same_components():
    X = laplace_mix(1, 3000, 4)
    folded, first = (Whitener.of(Moments.of(X)) for _ in range(2))
    assert folded.fused
    object.__setattr__(first, "fused", False)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    G = contrast("logcosh")
    steps = [Passes(Blocks(X), w).step(turn, G) for w in (folded, first)]
    np.testing.assert_allclose(steps[0].cross, steps[1].cross, atol=1e-5)
    np.testing.assert_allclose(*(Passes(Blocks(X), w).sample(99_999) for w in (folded, first)), atol=1e-4)


@pytest.mark.parametrize("condition", [1e1, 1e3, 1e5])
def test_single_and_double_precision_agree(condition):
    rng = np.random.default_rng(6)
    mixing = np.linalg.qr(rng.standard_normal((5, 5)))[0] * np.logspace(0, -np.log10(condition), 5)
    X = rng.gamma(1.0, size=(4000, 5)) @ (mixing @ np.linalg.qr(rng.standard_normal((5, 5)))[0])
    found = [resolve(X, precision=p, stability=0, restarts=1).to_components(X) for p in ("single", "double")]
    np.testing.assert_allclose(found[0], found[1], atol=2e-3)
    assert np.sqrt(np.mean((found[0] - found[1]) ** 2)) < 3e-4


# Passes


@pytest.fixture(scope="module")
def table() -> Matrix:
    return laplace_mix(7, 6000, 3)


def components(X: Matrix, whitener: Whitener, rotation: Matrix) -> Matrix:
    return whitened(X, whitener) @ rotation.T


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("precision", ["single", "double"])
def test_every_mean_of_a_pass_is_the_plain_mean(table, name, precision):
    whitener = Whitener.of(Moments.of(table), precision=precision)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    y = components(table, whitener, turn)
    G, n = contrast(name), len(table)
    value, slope = G.value(y), sloped(name, y)
    bend = G.bend(y, slope)
    passes = Passes(Blocks(table), whitener)
    close = {"rtol": 1e-4, "atol": 1e-4} if precision == "single" else {"rtol": 1e-9, "atol": 1e-9}

    step = passes.step(turn, G)
    assert step.n == n
    np.testing.assert_allclose(step.cross, slope.T @ y / n, **close)
    np.testing.assert_allclose(step.bend, bend.mean(axis=0), **close)

    pairs = passes.pairs(turn, G)
    np.testing.assert_allclose(pairs.bend, bend.T @ y**2 / n, **close)
    np.testing.assert_allclose(pairs.noise, (slope**2).T @ y**2 / n, **close)
    np.testing.assert_allclose(pairs.shared, (slope * y).T @ (slope * y) / n, **close)
    np.testing.assert_allclose(pairs.own, (slope * y).mean(axis=0), **close)

    shapes = passes.survey(turn, G).shapes
    np.testing.assert_allclose(shapes.powers, [(y**k).mean(axis=0) for k in range(POWERS + 1)], **close)
    np.testing.assert_allclose(shapes.value, value.mean(axis=0), **close)
    np.testing.assert_allclose(shapes.value_variance, value.var(axis=0), **close)
    np.testing.assert_allclose(shapes.value_square, (value * y**2).mean(axis=0) - value.mean(axis=0), **close)
    np.testing.assert_allclose(shapes.largest, np.abs(y).max(axis=0), **close)


def test_a_pass_over_some_components_is_that_part_of_the_whole(table):
    passes = Passes(Blocks(table), Whitener.of(Moments.of(table), precision="double"))
    G, turn = contrast("logcosh"), np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    whole, part = passes.step(turn, G), passes.step(turn[:2], G)
    np.testing.assert_allclose(part.cross, whole.cross[:2, :2], atol=1e-12)
    np.testing.assert_allclose(part.bend, whole.bend[:2], atol=1e-12)


def test_a_share_of_the_rows_and_a_half_are_the_means_over_those_rows(table):
    whitener = Whitener.of(Moments.of(table), precision="double")
    G = contrast("logcosh")
    for choice, share in ((RowChoice(9), 0.25), (RowChoice(9, 0.5, 1.0), 1.0), (RowChoice(9, 0.5, 1.0), 0.3)):
        chosen = choice.part(share).positions(0, len(table))
        y = whitened(table[chosen], whitener)
        step = Passes(Blocks(table), whitener, choice).step(np.eye(3), G, share)
        assert step.n == len(chosen) < len(table)
        np.testing.assert_allclose(step.cross, np.tanh(y).T @ y / len(y), atol=1e-10)
    np.testing.assert_array_equal(
        Passes(Blocks(table), whitener, RowChoice(9, 0.5, 1.0)).sample(99_999),
        Passes(Blocks(table), whitener).sample(99_999)[RowChoice(9, 0.5, 1.0).positions(0, len(table))],
    )


def test_passes_spent_count_rows_and_components(table):
    passes = Passes(Blocks(table), Whitener.of(Moments.of(table)))
    G = contrast("logcosh")
    passes.step(np.eye(3), G)
    assert passes.spent == pytest.approx(1.0)
    passes.step(np.eye(3), G, share=0.1)
    assert passes.spent == pytest.approx(1.1)
    passes.step(np.eye(3)[:1], G)
    assert 1.1 < passes.spent < 1.5


@pytest.mark.parametrize("n", [900, 20_000, 70_001])
def test_means_are_the_same_bits_whatever_the_block_size_and_the_workers(n):
    X = laplace_mix(8, n, 3).astype(np.float32)
    whitener = Whitener.of(Moments.of(X))
    G = contrast("logcosh")
    results = set()
    for rows, workers in ((None, 1), (None, 2), (None, 3), (101, 1), (5000, 2)):
        passes = Passes(Blocks(X, rows=rows), whitener, RowChoice(1, 0.0, 0.6), Run(workers=workers))
        step, pairs, shapes = (
            passes.step(np.eye(3), G),
            passes.pairs(np.eye(3), G, 0.5),
            passes.survey(np.eye(3), G).shapes,
        )
        arrays = [step.cross, step.bend, pairs.bend, pairs.noise, pairs.shared, pairs.own, shapes.powers]
        arrays += [shapes.value, shapes.value_variance, shapes.value_square, shapes.largest, passes.sample(500)]
        results.add(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    assert len(results) == 1
    other = Passes(Blocks(X), whitener, RowChoice(2, 0.0, 0.6), Run(workers=1))
    assert other.step(np.eye(3), G).cross.tobytes() not in next(iter(results))
