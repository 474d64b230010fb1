"""Worlds have the laws they claim, and come out the same again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from identifiable._checks import DataError, UsageError
from identifiable.groups import AffineMap, haar_rotation
from identifiable.worlds import BLOCK, KINDS, Law, Values, random_law, recovery, sources

LAWS = {
    "Laplace": (Law("super", "generalised_gaussian", 1.0), 3.0),
    "Gaussian by its shape": (Law("near_gaussian", "generalised_gaussian", 2.0), 0.0),
    "flat": (Law("sub", "generalised_gaussian", 50.0), -1.2),
    "t10": (Law("super", "student_t", 10.0), 1.0),
    "scale mixture": (Law("super", "scale_mixture", 3.0), 3 * ((0.85 + 0.15 * 81) / 2.2**2 - 1)),
    "gamma": (Law("skewed", "gamma", 4.0), 1.5),
    "Gaussian": (Law("gaussian", "gaussian"), 0.0),
}


def far_from(x: Values, law: Law) -> list[str]:
    """Which of mean, variance and excess kurtosis lie further than five standard errors from what the law says."""
    x = np.asarray(x, np.float64)
    expected = {"mean": (x, 0.0), "variance": (x**2, 1.0), "kurtosis": (x**4 - 3, law.kurtosis)}
    return [
        name
        for name, (values, value) in expected.items()
        if abs(values.mean() - value) > 5 * values.std() / np.sqrt(len(values))
    ]


@pytest.mark.parametrize(("law", "kurtosis"), LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_law_has_its_moments(law: Law, kurtosis: float, dtype: type[np.floating]) -> None:
    assert law.kurtosis == pytest.approx(kurtosis, abs=2e-2 if law.shape == 50 else 1e-12)
    x = law.draw(200_000, np.random.default_rng(1), dtype)
    assert x.dtype == dtype
    assert far_from(x, law) == []
    assert np.mean(np.asarray(x, np.float64) ** 3) == pytest.approx(law.skew, abs=0.1)


def test_wrong_moments_are_noticed() -> None:
    laplace = Law("super", "generalised_gaussian", 1.0)
    x = laplace.draw(200_000, np.random.default_rng(1))
    assert far_from(x + 0.02, laplace) == ["mean"]
    assert "variance" in far_from(1.02 * x, laplace)
    assert far_from(x, Law("super", "generalised_gaussian", 1.2)) == ["kurtosis"]


@pytest.mark.parametrize("seed", range(3))
def test_kinds_have_the_kurtosis_they_claim(seed: int) -> None:
    rng = np.random.default_rng([4, seed])
    drawn = {kind: random_law(kind, rng) for kind in KINDS}
    claimed = {kind: law.kurtosis for kind, law in drawn.items()}
    assert claimed["super"] > 1
    assert claimed["sub"] < -0.5
    assert 0 < claimed["near_gaussian"] < 1.1
    assert claimed["gaussian"] == 0
    assert drawn["skewed"].skew > 0.5
    measured = {kind: float(np.mean(law.draw(50_000, rng) ** 4)) - 3 for kind, law in drawn.items()}
    assert measured["super"] > 0.8
    assert measured["sub"] < -0.5
    assert 0.05 < measured["near_gaussian"] < 1.4
    assert abs(measured["gaussian"]) < 0.15


def test_the_default_mix_is_65_15_20() -> None:
    world = sources(10, 100, rng=np.random.default_rng(5))
    assert [world.kinds.count(kind) for kind in KINDS] == [65, 15, 20, 0, 0]
    assert world.kinds[:65] != ("super",) * 65  # in random order
    assert len(world.of_kind("super", "sub")) == 80
    assert all(len(sources(2, d, rng=np.random.default_rng(6)).kinds) == d for d in range(1, 12))


def test_sources_are_uncorrelated_with_unit_variance() -> None:
    world = sources(40_000, 6, rng=np.random.default_rng(7), kinds=("super", "sub", "near_gaussian") * 2)
    assert world.sources.dtype == world.X.dtype == np.float32
    assert np.abs(world.sources.mean(axis=0)).max() < 0.03
    assert np.abs(np.cov(world.sources.T) - np.eye(6)).max() < 0.1
    assert np.abs(np.corrcoef(world.X.T) - np.eye(6)).max() > 0.3  # mixing is visible


def test_the_mixing_makes_x_and_its_inverse_returns_the_sources() -> None:
    world = sources(5000, 5, rng=np.random.default_rng(8), decades=2.0, dtype=np.float64)
    assert np.allclose(world.mixing(world.sources), world.X, atol=1e-12)
    assert np.allclose(world.mixing.inverse()(world.X), world.sources, atol=1e-10)


def test_the_spectrum_falls_over_the_decades_asked_for() -> None:
    world = sources(10, 40, rng=np.random.default_rng(9), decades=4.0)
    singular = np.linalg.svd(world.mixing.matrix, compute_uv=False)
    assert singular == pytest.approx(np.logspace(0, -2, 40))
    flat = sources(10, 40, rng=np.random.default_rng(9), decades=0.0)
    assert np.linalg.svd(flat.mixing.matrix, compute_uv=False) == pytest.approx(np.ones(40))


def test_a_nonlinearity_makes_the_rows_depart_from_the_mixing() -> None:
    worlds = [sources(20_000, 4, rng=np.random.default_rng(11), nonlinearity=a, dtype=np.float64) for a in (0.0, 0.1)]
    away = [float(np.std(w.mixing.inverse()(w.X) - w.sources)) for w in worlds]
    assert away[0] < 1e-9
    assert 0.03 < away[1] < 0.1  # 0.1 tanh of a unit-variance variable
    assert np.array_equal(worlds[0].sources, worlds[1].sources)
    recovered = worlds[1].recovery(worlds[1].mixing.inverse())
    assert 0.99 < recovered.min() < 1 - 1e-6


def test_the_same_seed_gives_the_same_world_on_any_threads_and_another_seed_another() -> None:
    one, two, other = (
        sources(BLOCK + 50, 7, rng=np.random.default_rng(s), nonlinearity=0.1, workers=w)
        for s, w in ((12, 1), (12, 3), (13, 1))
    )
    assert np.array_equal(one.X, two.X)
    assert one.laws == two.laws
    assert not np.array_equal(one.X, other.X)
    assert one.laws != other.laws


def test_a_shorter_world_is_the_beginning_of_a_longer_one_but_no_block_repeats() -> None:
    short, long = (sources(n, 3, rng=np.random.default_rng(15)) for n in (BLOCK + 7, 2 * BLOCK + 1))
    assert np.array_equal(short.sources, long.sources[: BLOCK + 7])
    assert np.allclose(short.X, long.X[: BLOCK + 7], atol=1e-6)  # a product of fewer rows may round differently
    assert not np.array_equal(long.sources[:BLOCK], long.sources[BLOCK : 2 * BLOCK])


def test_a_world_is_written_into_memory_maps_in_place(tmp_path: Path) -> None:
    shape = (BLOCK + 100, 3)
    files = tmp_path / "sources.npy", tmp_path / "X.npy"
    S, X = (np.lib.format.open_memmap(f, mode="w+", dtype=np.float32, shape=shape) for f in files)
    world = sources(*shape, rng=np.random.default_rng(16), out=(S, X))
    assert world.X is X
    for table in (S, X):
        table.flush()
    in_memory = sources(*shape, rng=np.random.default_rng(16))
    assert np.array_equal(np.load(files[0]), in_memory.sources)
    assert np.array_equal(np.load(files[1]), in_memory.X)


def test_recovery_is_one_for_the_answer_in_any_order_sign_and_scale() -> None:
    world = sources(BLOCK + 300, 4, rng=np.random.default_rng(17), offset=5.0, dtype=np.float64)
    shuffled = AffineMap(np.diag([2.0, -1.0, 0.1, -5.0])[:, [2, 0, 3, 1]], np.full(4, 7.0))
    assert world.recovery(world.mixing.inverse().then(shuffled)) == pytest.approx(np.ones(4), abs=1e-9)


def test_recovery_is_less_than_one_for_a_wrong_answer() -> None:
    world = sources(5000, 4, rng=np.random.default_rng(18), dtype=np.float64)
    back = world.mixing.inverse()
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]]
    turned = recovery(world.sources, world.X, back.then(AffineMap(turn, np.zeros(4))))
    assert turned[:2] == pytest.approx(np.cos(0.5), abs=0.03)
    assert turned[2:] == pytest.approx(1, abs=1e-9)
    lost = recovery(world.sources, world.X, back.then(AffineMap(np.eye(4)[:, :3], np.zeros(3))))
    assert lost == pytest.approx([1, 1, 1, 0])
    blind = recovery(
        world.sources, world.X, back.then(AffineMap(haar_rotation(4, np.random.default_rng(1)), np.zeros(4)))
    )
    assert blind.min() < 0.95


def test_kinds_may_be_given_as_shares():
    shares = {"super": 0.5, "gaussian": 0.25, "skewed": 0.25}
    world = sources(200, 8, rng=np.random.default_rng(0), kinds=shares)
    assert sorted(world.kinds) == ["gaussian"] * 2 + ["skewed"] * 2 + ["super"] * 4
    again = sources(200, 8, rng=np.random.default_rng(0), kinds={"super": 0.65, "sub": 0.15, "near_gaussian": 0.2})
    plain = sources(200, 8, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(again.X, plain.X)


FITS, SHORT = np.zeros((10, 3), np.float32), np.zeros((9, 3), np.float32)


@pytest.mark.parametrize(
    ("n", "options", "error", "parts"),
    [
        (10, {"kinds": ("super", "flat", "sub")}, UsageError, "'flat'; .* super, sub"),
        (10, {"kinds": ("super", "sub")}, UsageError, "3 sources, got 2"),
        *(
            (10, {"kinds": wrong}, UsageError, "sources: ")
            for wrong in ({"super": 0.5}, {"super": 2, "sub": -1}, {"heavy": 1.0}, {})
        ),
        (10, {"nonlinearity": -0.1}, UsageError, "got -0.1, 4.0 and 1.0"),
        (0, {}, DataError, "no rows"),
        (10, {"out": (FITS, SHORT)}, UsageError, r"X .*\(10, 3\), got float32 .*\(9, 3\)"),
        (10, {"out": (FITS.astype(int), FITS)}, UsageError, "sources .*got int64"),
        (10, {"out": (FITS, FITS.astype(float))}, UsageError, "float32 and float64"),
    ],
)
def test_worlds_that_cannot_be_are_refused(n: int, options: dict[str, Any], error: type, parts: str) -> None:
    with pytest.raises(error, match=parts):
        sources(n, 3, rng=np.random.default_rng(0), **options)
