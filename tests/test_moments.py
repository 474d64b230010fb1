"""moments: one pass equals numpy, parts go in and come out again, and a far mean costs no digits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from errors import naming
from identifiable._checks import DataError
from identifiable.blocks import Blocks, fold
from identifiable.moments import Moments, MomentSums

SEEDS = [0, 1, 20240612]
WIDTHS = (3, 2, 4)


def table(seed: int, n: int = 200, d: int = sum(WIDTHS)) -> NDArray[np.float64]:
    """Correlated columns with different means and spreads."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + rng.normal(0, 5, d)


def assert_same(a: Moments, b: Moments, tolerance: float = 1e-10) -> None:
    """Same rows, whatever shift either is kept about."""
    assert (a.n, a.widths) == (b.n, b.widths)
    size = np.abs(b.scatter).max() + 1e-300
    np.testing.assert_allclose(a.mean, b.mean, rtol=0, atol=tolerance * (1 + np.abs(b.mean).max()))
    np.testing.assert_allclose(a.scatter, b.scatter, rtol=0, atol=tolerance * size)


# Closed forms


def test_two_rows_by_hand():
    m = Moments.of(np.array([[0.0, 1.0], [2.0, 5.0]]), widths=(1, 1))
    assert (m.n, m.mean_x.tolist(), m.mean_y.tolist()) == (2, [1.0], [3.0])
    assert (m.xx.tolist(), m.yy.tolist(), m.xy.tolist()) == ([[2.0]], [[8.0]], [[4.0]])


def test_one_row_has_a_mean_and_no_scatter():
    m = Moments.of(np.array([[3.0, -4.0]]))
    assert m.mean.tolist() == [3.0, -4.0]
    assert not m.scatter.any()


def test_no_rows_are_the_identity_of_merge():
    m = Moments.of(table(0), WIDTHS)
    nothing = Moments.zero(WIDTHS, np.full(9, 7.0))
    assert_same(m.merge(nothing), m)
    assert_same(nothing.merge(m), m)
    assert Moments.of(np.empty((0, 9)), WIDTHS).n == 0
    assert_same(m.merge(Moments.of(np.empty((0, 9)), WIDTHS)), m)
    with pytest.raises(AssertionError):
        assert_same(m.merge(Moments.of(np.zeros((1, 9)), WIDTHS)), m)


# Equal to numpy


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_mean_and_scatter_equal_numpy(seed, dtype):
    X = (10 * table(seed)).astype(dtype)
    m = Moments.of(X, (4, 5))
    reference = np.cov(X.astype(np.float64), rowvar=False) * (len(X) - 1)
    np.testing.assert_allclose(m.mean, X.astype(np.float64).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(m.scatter, reference, rtol=0, atol=1e-12 * np.abs(reference).max())
    np.testing.assert_array_equal(m.xx, m.scatter[:4, :4])
    np.testing.assert_array_equal(m.xy, m.scatter[:4, 4:])
    np.testing.assert_array_equal(m.yy, m.scatter[4:, 4:])
    assert m.scatter.dtype == np.float64
    assert np.abs(Moments.of(X[1:]).scatter - reference).max() > 1e-6 * np.abs(reference).max()


# Parts


@pytest.mark.parametrize("seed", SEEDS)
def test_merge_neither_minds_the_order_nor_the_grouping_of_the_parts(seed):
    X = table(seed)
    a, b, c = (Moments.of(part, WIDTHS) for part in (X[:17], X[17:120], X[120:]))
    whole = Moments.of(X, WIDTHS)
    for merged in (a.merge(b).merge(c), a.merge(b.merge(c)), c.merge(a).merge(b), b.merge(a.merge(c))):
        assert_same(merged, whole)
    with pytest.raises(AssertionError):
        assert_same(a.merge(b), whole)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("taken", [0, 1, 100, 180])
def test_minus_takes_out_what_merge_put_in(seed, taken):
    X = table(seed)
    whole, part, rest = (Moments.of(x, WIDTHS) for x in (X, X[:taken], X[taken:]))
    assert_same(whole.minus(part), rest, 1e-9)
    assert_same(rest.merge(part).minus(part), rest, 1e-9)
    if taken:
        with pytest.raises(AssertionError):
            assert_same(whole, rest, 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_taking_out_all_rows_leaves_none(seed):
    m = Moments.of(table(seed), WIDTHS)
    empty = m.minus(m)
    assert empty.n == 0
    assert not empty.gram.any()
    assert not empty.total.any()


@pytest.mark.parametrize("seed", SEEDS)
def test_another_shift_changes_neither_mean_nor_scatter(seed):
    m = Moments.of(table(seed), WIDTHS)
    shift = np.random.default_rng(seed).normal(0, 5, 9)
    moved = m.about(shift)
    np.testing.assert_array_equal(moved.shift, shift)
    assert_same(moved, m)
    assert_same(moved.about(m.shift), m)
    assert m.about(m.shift.copy()) is m
    assert not np.allclose(moved.gram, m.gram)  # what is stored did move


def test_more_rows_than_there_are_cannot_be_taken_out():
    few, many = Moments.of(np.ones((3, 2))), Moments.of(np.ones((4, 2)))
    with pytest.raises(DataError, match=r"4.*3"):
        few.minus(many)
    assert many.minus(few).n == 1


@pytest.mark.parametrize("other", [(2,), (1, 2), (2, 1, 1)])
def test_moments_of_other_widths_are_refused(other):
    m, stranger = Moments.of(np.ones((3, 3)), (2, 1)), Moments.of(np.ones((3, sum(other))), other)
    for act in (m.merge, m.minus):
        with pytest.raises(DataError, match=naming((2, 1), other)):
            act(stranger)
    assert m.merge(Moments.of(np.ones((3, 3)), (2, 1))).n == 6


# Columns


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("source", "target"), [(0, 1), (1, 0), (0, 2), (2, 1), (1, 1)])
def test_between_are_the_moments_of_those_two(seed, source, target):
    X = table(seed)
    parts = np.split(X, np.cumsum(WIDTHS)[:-1], axis=1)
    found = Moments.of(X, WIDTHS).between(source, target)
    expected = Moments.of(np.hstack([parts[source], parts[target]]), (WIDTHS[source], WIDTHS[target]))
    assert_same(found, expected)
    np.testing.assert_array_equal(found.xy, Moments.of(X, WIDTHS).between(target, source).xy.T)


def test_reversed_exchanges_source_and_target():
    m = Moments.of(table(1, d=5), (2, 3))
    turned = m.reversed()
    assert turned.widths == (3, 2)
    np.testing.assert_array_equal(turned.mean_x, m.mean_y)
    np.testing.assert_array_equal(turned.xx, m.yy)
    np.testing.assert_array_equal(turned.xy, m.xy.T)
    np.testing.assert_array_equal(turned.reversed().gram, m.gram)
    assert not np.array_equal(turned.xy, m.xy[: turned.xy.shape[0], : turned.xy.shape[1]])


@pytest.mark.parametrize("seed", SEEDS)
def test_through_gives_the_moments_of_the_mapped_rows(seed):
    rng = np.random.default_rng(seed)
    X = table(seed, d=5)
    centers, matrices = [rng.normal(0, 3, 2), rng.normal(0, 3, 3)], [rng.normal(size=(2, 4)), rng.normal(size=(3, 1))]
    mapped = np.hstack([(X[:, :2] - centers[0]) @ matrices[0], (X[:, 2:] - centers[1]) @ matrices[1]])
    found = Moments.of(X, (2, 3)).through(centers, matrices)
    assert_same(found, Moments.of(mapped, (4, 1)))
    np.testing.assert_array_equal(found.scatter, found.scatter.T)
    with pytest.raises(AssertionError):
        assert_same(Moments.of(X, (2, 3)).through([c + 1 for c in centers], matrices), Moments.of(mapped, (4, 1)))


# A far mean


def far_table(seed: int, offset: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows near zero on a grid of 2^-20, and the same rows moved by `offset` without rounding."""
    near = np.round(np.random.default_rng(seed).standard_normal((5000, 4)) * 2**20) / 2**20
    far = near + offset
    assert np.array_equal(far - offset, near)
    return near, far


def worst(found: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("offset", [2.0**20, -(2.0**20), 2.0**25])
def test_a_mean_a_million_deviations_away_keeps_nine_digits(seed, offset):
    near, far = far_table(seed, offset)
    expected = (near - near.mean(axis=0)).T @ (near - near.mean(axis=0))
    assert worst(Moments.of(far).scatter, expected) < 1e-9
    first, second = Moments.of(far[:1000]), Moments.of(far[1000:])
    assert worst(first.merge(second).scatter, expected) < 1e-9
    assert worst(first.merge(second).minus(second).scatter, first.scatter) < 1e-9
    sums = fold([Blocks(far)], lambda: MomentSums((4,), far[:300].mean(axis=0)))
    assert worst(sums.moments()[0].scatter, expected) < 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_the_raw_gram_formula_loses_those_digits(seed):
    near, far = far_table(seed, 2.0**20)
    expected = (near - near.mean(axis=0)).T @ (near - near.mean(axis=0))
    naive = far.T @ far - len(far) * np.outer(far.mean(axis=0), far.mean(axis=0))
    assert worst(naive, expected) > 1e-6
    unshifted = fold([Blocks(far)], lambda: MomentSums((4,), np.zeros(4)))
    assert worst(unshifted.moments()[0].scatter, expected) > 1e-6


# The statistic


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("buffer_rows", [1, 7, 2048])
@pytest.mark.parametrize("dtype", ["f4", "f8", "u1", "?"])
def test_sums_per_fold_are_the_moments_of_the_rows_of_that_fold(seed, buffer_rows, dtype):
    X, labels = (10 * np.abs(table(seed))).astype(dtype), np.random.default_rng(seed).integers(0, 3, 200)
    sums = MomentSums(WIDTHS, np.ones(9), fold=labels, n_folds=4, buffer_rows=buffer_rows)
    for first in range(0, 200, 33):
        sums.add(first, np.split(X[first : first + 33], np.cumsum(WIDTHS)[:-1], axis=1))
    parts = sums.moments()
    assert [p.n for p in parts] == [*np.bincount(labels, minlength=4)]
    for k in range(3):
        assert_same(parts[k], Moments.of(X[labels == k], WIDTHS))
    assert parts[3].n == 0
    if dtype != "?":
        with pytest.raises(AssertionError):
            assert_same(parts[0], Moments.of(X[labels == 1], WIDTHS))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_fold_over_long_tables_gives_the_moments_of_all_rows(workers):
    X, Y = table(4, n=9001, d=3), table(5, n=9001, d=2)
    labels = np.random.default_rng(4).integers(0, 3, 9001)
    shift = np.r_[X[0], Y[0]]
    sums = fold([Blocks(X), Blocks(Y)], lambda: MomentSums((3, 2), shift, fold=labels, n_folds=3), workers=workers)
    rows = np.hstack([X, Y])
    for k, part in enumerate(sums.moments()):
        assert_same(part, Moments.of(rows[labels == k], (3, 2)))
    total = sums.moments()[0].merge(sums.moments()[1]).merge(sums.moments()[2])
    assert_same(total, Moments.of(rows, (3, 2)))
    with pytest.raises(AssertionError):
        assert_same(sums.moments()[0], total)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_folds_all_rows_stay_together_and_merging_adds_the_rest(seed):
    X = table(seed)
    first, rest = MomentSums((9,), np.zeros(9), buffer_rows=16), MomentSums((9,), np.zeros(9), buffer_rows=16)
    first.add(0, [X[:50]])
    rest.add(50, [X[50:]])
    first.merge(rest)
    assert len(first.moments()) == 1
    assert_same(first.moments()[0], Moments.of(X))
    first.add(0, [X[:1]])  # a statistic that was looked at goes on
    assert first.moments()[0].n == 201


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_with_maps_are_the_moments_of_the_mapped_rows(seed):
    rng = np.random.default_rng(seed)
    X, labels = table(seed, d=5), rng.integers(0, 2, 200)
    maps = [(rng.normal(0, 3, 2), rng.normal(size=(2, 4))), (rng.normal(0, 3, 3), rng.normal(size=(3, 1)))]
    sums = MomentSums((2, 3), np.full(5, 9.0), fold=labels, n_folds=2, maps=maps)
    sums.add(0, [X[:, :2], X[:, 2:]])
    mapped = np.hstack([(X[:, :2] - maps[0][0]) @ maps[0][1], (X[:, 2:] - maps[1][0]) @ maps[1][1]])
    for k, part in enumerate(sums.moments()):
        assert part.widths == (4, 1)
        assert_same(part, Moments.of(mapped[labels == k], (4, 1)))
        direct = Moments.of(X[labels == k], (2, 3)).through([c for c, _ in maps], [m for _, m in maps])
        assert_same(part, direct)
    with pytest.raises(AssertionError):
        assert_same(sums.moments()[0], Moments.of(mapped[labels == 1], (4, 1)))


def test_a_map_may_be_left_out_for_one_representation():
    rng = np.random.default_rng(8)
    X, center, matrix = table(8, d=5), rng.normal(0, 3, 2), rng.normal(size=(2, 4))
    rows = [X[:, :2], X[:, 2:]]
    sums, bare = (MomentSums((2, 3), X.mean(axis=0), maps=m) for m in ([(center, matrix), None], None))
    sums.add(0, rows)
    bare.add(0, rows)
    assert_same(sums.moments()[0], Moments.of(np.hstack([(X[:, :2] - center) @ matrix, X[:, 2:]]), (4, 3)))
    assert_same(bare.moments()[0], Moments.of(X, (2, 3)))


def test_moments_of_lists_are_those_of_the_array():
    values = [[0.0, 1.0], [2.0, 5.0], [3.0, -1.0]]
    assert_same(Moments.of(values, widths=(1, 1)), Moments.of(np.array(values), widths=(1, 1)))
