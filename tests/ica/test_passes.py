"""Which rows a pass takes, and that its means are the plain means, whatever the blocks and the workers."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from identifiable.blocks import Blocks
from identifiable.ica.contrasts import CONTRASTS, contrast
from identifiable.ica.passes import (
    POWERS,
    Passes,
    RowChoice,
    _CurvatureSums,
    _DensitySums,
    _DistanceMoments,
    _FixedPointSums,
    _PairSums,
    _Rows,
    _SecondMoments,
    _SentRows,
    _StepSums,
    _SurveySums,
)
from identifiable.ica.whitening import Whitener
from identifiable.moments import Moments
from identifiable.rows import uniforms

Matrix = NDArray[np.float64]
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
    assert RowChoice(1).positions(0, 10) is RowChoice(1).part(2.0).positions(0, 10) is None  # all
    assert len(RowChoice(1, 0.3, 0.3).positions(0, 1000)) == 0


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
    np.testing.assert_allclose(passes.step(turn[:2], G).cross, step.cross[:2, :2], **close)
    some = passes.step_of(np.array([True, False, True]), turn, G)
    assert some.n == n
    scale = {"rtol": 0, "atol": close["atol"] * np.abs(step.cross).max()}  # sums in float32 cancel
    np.testing.assert_allclose(some.cross, step.cross * [[1], [0], [1]], **scale)
    np.testing.assert_allclose(some.bend, step.bend * [1, 0, 1], **close)

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
    passes.step(np.eye(3), G, share=3.0)  # there are no more rows than all
    assert passes.spent == pytest.approx(2.1)
    passes.step(np.eye(3)[:1], G)
    assert 2.1 < passes.spent < 2.5
    before = passes.spent
    passes.step_of(np.array([True, False, False]), np.eye(3), G)
    assert passes.spent == pytest.approx(before + 1 / 3)


@pytest.mark.parametrize(
    ("asked", "products"), [("step", 1), ("survey", 1), ("pairs", 3), ("curvatures", 9), ("densities", 0)]
)
def test_a_pass_costs_the_products_it_makes_beside_the_one_that_forms_components(table, asked, products):
    """A `step` of all components makes one, of components with components."""
    passes = Passes(Blocks(table), Whitener.of(Moments.of(table)))
    more = ((-1.0, 0.0, 1.0), len(table)) if asked == "densities" else (contrast("cube", 0),)
    getattr(passes, asked)(np.eye(3), *more)
    assert passes.spent == pytest.approx((1 + products) / 2)


# Sums


GIVEN = {
    **dict.fromkeys((_StepSums, _FixedPointSums, _PairSums, _CurvatureSums, _SurveySums), contrast("cube")),
    **{_DensitySums: (-1.0, 0.0, 1.0), _SecondMoments: None, _DistanceMoments: None},
}


@pytest.mark.parametrize("statistic", GIVEN)
@pytest.mark.parametrize("outlier", [3, 597])
def test_two_halves_merged_are_the_whole_and_one_is_not(table, statistic, outlier):
    rows = table[:600].copy()
    rows[outlier] *= 10
    whitener = Whitener.of(Moments.of(rows), precision="double")
    unmixing = whitener.unmixing(np.eye(3))
    whole, first, later = (statistic(whitener, unmixing, RowChoice(), given=GIVEN[statistic]) for _ in range(3))
    whole.add(0, [rows])
    first.add(0, [rows[:400]])
    later.add(400, [rows[400:]])
    for sums in (whole, first, later):
        sums.finish()
    sums = {name for name, value in vars(whole).items() if isinstance(value, np.ndarray)} - {"unmixing"}
    assert any(not np.allclose(getattr(first, name), getattr(whole, name)) for name in sums)
    first.merge(pickle.loads(pickle.dumps(later)))  # from a worker of a cluster
    assert first.n == whole.n == 600
    for name in sums:
        np.testing.assert_allclose(getattr(first, name), getattr(whole, name), rtol=1e-9, atol=1e-9, err_msg=name)


def test_rows_of_a_wide_table_are_kept_in_their_order():
    """Of wide tables a chunk passes in several pieces."""
    X = laplace_mix(8, 5000, 100)
    passes = Passes(Blocks(X), Whitener.of(Moments.of(X), precision="double"))
    expected = whitened(X, passes.whitener)
    np.testing.assert_allclose(passes.sample(99_999), expected, atol=1e-9)
    np.testing.assert_allclose(
        passes.within(np.eye(100)[:2], store=passes.store()).blocks[:], expected[:, :2], atol=1e-9
    )
    sent = _SentRows(
        passes.whitener, passes.whitener.unmixing(np.eye(100)), RowChoice(), given=(expected.dtype, {0: 0})
    )
    sent.add(0, [X[:4096]])
    assert len(sent.sent) > 1
    for at, some in sent.sent:
        np.testing.assert_allclose(some, expected[at : at + len(some)], atol=1e-9)


def test_rows_sent_from_workers_are_those_of_a_table_and_travel_alone(table):
    whitener = Whitener.of(Moments.of(table), precision="double")
    unmixing = whitener.unmixing(np.eye(3))
    places = {0: 0, 400: 400}
    kept = np.zeros((600, 3))
    written = _Rows(whitener, unmixing, RowChoice(), given=(kept, places))
    sent, later = (_SentRows(whitener, unmixing, RowChoice(), given=(kept.dtype, places)) for _ in range(2))
    for first, last, sums in ((0, 400, sent), (400, 600, later)):
        written.add(first, [table[first:last]])
        sums.add(first, [table[first:last]])
        sums.finish()
    np.testing.assert_allclose(kept, whitened(table[:600], whitener), atol=1e-9)
    state = pickle.loads(pickle.dumps(later))
    assert not {"whitener", "given", "places"} & set(vars(state))
    sent.merge(state)
    assert (sent.n, [at for at, _ in sent.sent]) == (600, [0, 400])
    assert np.array_equal(np.vstack([rows for _, rows in sent.sent]), kept)
    packed = _SentRows(whitener, unmixing, RowChoice(), given=(np.dtype(np.uint16), places))
    packed.add(0, [table[:9]])
    assert packed.sent[0][1].dtype == np.uint16
