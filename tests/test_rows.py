"""rows: who goes where is decided by the seed and the identity of the row, and by nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from errors import naming
from identifiable._checks import DataError, UsageError
from identifiable.rows import CELLS_PER_FOLD, FEWEST_UNITS, RowPlan, plan_rows

SEEDS = [0, 1, 2, 3, 20240614]


def text_ids(n: int) -> NDArray[Any]:
    return np.char.mod("cell-%d", np.arange(n))


IDENTITIES = {"position": lambda n: None, "integers": lambda n: np.arange(n) * 3 - n, "text": text_ids}


def by_id(plan: RowPlan, ids: NDArray[Any]) -> dict[Any, tuple[int, int]]:
    return dict(zip(ids.tolist(), zip(plan.fold.tolist(), plan.cell.tolist(), strict=True), strict=True))


# Folds without groups


@pytest.mark.parametrize(("n", "n_folds", "sizes"), [(4, 2, [2, 2]), (10, 3, [4, 3, 3]), (11, 5, [3, 2, 2, 2, 2])])
def test_fold_sizes_by_hand(n, n_folds, sizes):
    fold = plan_rows(n, None, seed=0, n_folds=n_folds).fold
    assert sorted(np.bincount(fold, minlength=n_folds), reverse=True) == sizes


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n", [20, 997, 5003])
@pytest.mark.parametrize("n_folds", [2, 5, 10])
@pytest.mark.parametrize("identity", IDENTITIES)
def test_folds_cells_and_the_random_order_cover_the_rows_evenly(seed, n, n_folds, identity):
    plan = plan_rows(n, IDENTITIES[identity](n), seed=seed, n_folds=n_folds)
    folds, cells = np.bincount(plan.fold, minlength=n_folds), np.bincount(plan.cell, minlength=plan.n_cells)
    assert len(folds) == plan.n_folds == n_folds
    assert folds.max() - folds.min() <= 1
    assert len(cells) == plan.n_cells == n_folds * CELLS_PER_FOLD
    assert plan.can_leave_out == (n >= FEWEST_UNITS * plan.n_cells)
    assert cells.max() - cells.min() <= 1
    assert np.array_equal(np.sort(plan.shuffled), np.arange(n))
    assert not np.array_equal(plan.shuffled, np.arange(n))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("identity", ["integers", "text"])
def test_the_order_of_rows_with_ids_decides_nothing(seed, identity):
    ids = IDENTITIES[identity](400)
    order = np.random.default_rng(seed).permutation(400)
    plan, moved = (plan_rows(400, i, seed=seed, n_folds=5) for i in (ids, ids[order]))
    assert by_id(plan, ids) == by_id(moved, ids[order])
    assert ids[plan.shuffled].tolist() == ids[order][moved.shuffled].tolist()
    assert not np.array_equal(plan.fold, moved.fold)  # the rows did move
    bare = plan_rows(400, None, seed=seed, n_folds=5)
    assert by_id(bare, ids) != {i: by_id(bare, ids[order])[i] for i in ids.tolist()}  # positions would decide


@pytest.mark.parametrize("seed", SEEDS)
def test_other_rows_leave_the_hash_order_of_the_rest(seed):
    ids = text_ids(300)
    all_rows = ids[plan_rows(300, ids, seed=seed, n_folds=5).shuffled]
    some = ids[plan_rows(200, ids[:200], seed=seed, n_folds=5).shuffled]
    assert some.tolist() == [i for i in all_rows.tolist() if i in set(ids[:200].tolist())]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", ["U8", "U20", "U200", "O", "S20"])
def test_the_width_and_the_container_of_text_ids_decide_nothing(seed, dtype):
    ids = text_ids(100)
    plan, other = (plan_rows(100, i, seed=seed, n_folds=5) for i in (ids, ids.astype(dtype)))
    np.testing.assert_array_equal(plan.fold, other.fold)
    np.testing.assert_array_equal(plan.cell, other.cell)
    np.testing.assert_array_equal(plan.shuffled, other.shuffled)
    renamed = plan_rows(100, np.char.add(ids, "x"), seed=seed, n_folds=5)
    assert not np.array_equal(plan.fold, renamed.fold)


def test_the_byte_order_of_text_ids_decides_nothing():
    ids = text_ids(100)
    plan, other = (plan_rows(100, i, seed=0, n_folds=5) for i in (ids, ids.astype(ids.dtype.newbyteorder())))
    np.testing.assert_array_equal(plan.fold, other.fold)


@pytest.mark.parametrize("dtype", ["i2", "i8", "u8", ">i4"])
def test_the_width_of_integer_ids_decides_nothing(dtype):
    plan, other = (plan_rows(100, np.arange(100).astype(d), seed=0, n_folds=5) for d in ("i4", dtype))
    np.testing.assert_array_equal(plan.fold, other.fold)
    assert not np.array_equal(plan.fold, plan_rows(100, np.arange(1, 101), seed=0, n_folds=5).fold)


def test_ids_of_the_same_letters_in_another_order_are_different_rows():
    ids = np.array(["ab", "ba", "abc", "acb", "a", "b", "", "aa"])
    orders = {tuple(plan_rows(8, ids, seed=s, n_folds=2).shuffled.tolist()) for s in range(40)}
    assert len(orders) == 40
    first = [ids[plan_rows(8, ids, seed=s, n_folds=2).shuffled[0]] for s in range(200)]
    assert set(first) == set(ids.tolist())


@pytest.mark.parametrize("seed", [0, 1, 17, -3, 2**70])
def test_the_same_seed_draws_the_same_and_the_next_one_draws_anew(seed):
    n = 5000
    plan, again, other = (plan_rows(n, None, seed=s, n_folds=5) for s in (seed, seed, seed + 1))
    np.testing.assert_array_equal(plan.fold, again.fold)
    np.testing.assert_array_equal(plan.shuffled, again.shuffled)
    agreement = (plan.fold == other.fold).mean()
    assert abs(agreement - 1 / 5) < 5 * np.sqrt(0.2 * 0.8 / n)


def test_a_numpy_integer_is_a_seed():
    plan, other = (plan_rows(100, None, seed=s, n_folds=5) for s in (3, np.int64(3)))
    np.testing.assert_array_equal(plan.fold, other.fold)


# The hash


def p_of_independence(a: NDArray[Any], b: NDArray[Any]) -> float:
    table = np.zeros((int(a.max()) + 1, int(b.max()) + 1))
    np.add.at(table, (a, b), 1)
    return float(stats.chi2_contingency(table).pvalue)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("identity", IDENTITIES)
@pytest.mark.parametrize("pattern", ["parity", "of_four", "half", "sorted_classes"])
def test_where_a_row_stands_says_nothing_about_its_fold(seed, identity, pattern):
    n = 8000
    position = np.arange(n)
    label = {
        "parity": position % 2,
        "of_four": position % 4,
        "half": position * 2 // n,
        "sorted_classes": position // 100,
    }
    plan = plan_rows(n, IDENTITIES[identity](n), seed=seed, n_folds=4)
    assert p_of_independence(label[pattern], plan.fold) > 1e-4
    assert p_of_independence(label[pattern], plan.cell % CELLS_PER_FOLD) > 1e-4  # nor about its half of the fold
    np.testing.assert_array_equal(plan.fold, plan.cell // CELLS_PER_FOLD)


def test_the_test_of_independence_finds_folds_dealt_in_turn_or_in_runs():
    position = np.arange(8000)
    assert p_of_independence(position % 2, position % 4) < 1e-10
    assert p_of_independence(position // 100, position * 4 // 8000) < 1e-10


@pytest.mark.parametrize("seed", SEEDS)
def test_folds_cells_and_samples_are_unrelated_draws(seed):
    plan = plan_rows(2000, None, seed=seed, n_folds=2)
    rank = np.argsort(plan.shuffled)
    assert abs(stats.spearmanr(rank, plan.cell).statistic) < 5 / np.sqrt(2000)
    assert abs(stats.pointbiserialr(plan.fold, rank).statistic) < 5 / np.sqrt(2000)
    assert abs(stats.spearmanr(rank, np.arange(2000)).statistic) < 5 / np.sqrt(2000)
    assert stats.spearmanr(rank, rank // 2).statistic > 0.99  # related ones would show


def test_a_sample_is_the_head_of_the_random_order_or_all_of_it():
    plan = plan_rows(50, None, seed=0, n_folds=5)
    np.testing.assert_array_equal(plan.sample(10), plan.shuffled[:10])
    assert len(set(plan.sample(10).tolist())) == 10
    assert len(plan.sample(1000)) == 50


# Groups


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("labels", ["text", "integers", "objects"])
def test_groups_stay_whole_in_folds_and_cells(seed, labels):
    member = np.random.default_rng(seed).integers(0, 23, 600)
    groups = {
        "text": np.char.mod("plate %d", member),
        "integers": member,
        "objects": np.char.mod("p%d", member).astype(object),
    }
    plan = plan_rows(600, None, seed=seed, n_folds=5, groups=groups[labels])
    for g in range(23):
        assert len(set(plan.fold[member == g])) == 1
        assert len(set(plan.cell[member == g])) == 1
    assert plan.n_cells == len(set(plan.cell.tolist())) == 10
    assert (plan.units, plan.can_leave_out) == (23, True)
    assert not plan_rows(600, None, seed=seed, n_folds=5, groups=member % 19).can_leave_out
    loose = plan_rows(600, None, seed=seed, n_folds=5)
    assert any(len(set(loose.fold[member == g])) > 1 for g in range(23))


@pytest.mark.parametrize("seed", SEEDS)
def test_folds_of_groups_differ_by_no_more_than_the_largest_group(seed):
    rng = np.random.default_rng(seed)
    member = np.repeat(np.arange(60), rng.integers(1, 40, 60))
    fold = plan_rows(len(member), None, seed=seed, n_folds=5, groups=member).fold
    sizes = np.bincount(fold, minlength=5)
    assert sizes.max() - sizes.min() <= np.bincount(member).max()
    assert sizes.min() > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_equal_groups_fill_the_folds_evenly_and_not_in_turn(seed):
    member = np.repeat(np.arange(20), 7)
    fold = plan_rows(140, None, seed=seed, n_folds=4, groups=member).fold
    assert np.bincount(fold).tolist() == [35, 35, 35, 35]
    assert not np.array_equal(fold[::7], np.arange(20) % 4)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_rows_decides_nothing_about_groups(seed):
    rng = np.random.default_rng(seed)
    ids, groups = text_ids(300), np.char.mod("p%d", rng.integers(0, 12, 300))
    order = rng.permutation(300)
    plan = plan_rows(300, ids, seed=seed, n_folds=3, groups=groups)
    moved = plan_rows(300, ids[order], seed=seed, n_folds=3, groups=groups[order])
    assert by_id(plan, ids) == by_id(moved, ids[order])
    other = plan_rows(300, ids, seed=seed + 1, n_folds=3, groups=groups)
    assert by_id(plan, ids) != by_id(other, ids)


# What cannot be planned


@pytest.mark.parametrize("n_folds", [1, 0, -2])
def test_fewer_than_two_folds_are_refused(n_folds):
    with pytest.raises(UsageError, match=f"got {n_folds}"):
        plan_rows(100, None, seed=0, n_folds=n_folds)


def test_too_few_rows_are_refused():
    with pytest.raises(DataError, match=r"^9.*5"):
        plan_rows(9, None, seed=0, n_folds=5)
    with pytest.raises(DataError, match=naming("a and b", 9, 5)):
        plan_rows(9, None, seed=0, n_folds=5, tables=["a", "b"])
    assert np.bincount(plan_rows(10, None, seed=0, n_folds=5).fold).tolist() == [2] * 5


def test_too_few_groups_are_refused():
    groups = np.repeat(["x", "y", "z"], 10)
    with pytest.raises(UsageError, match=r"3.*5.*3"):
        plan_rows(30, None, seed=0, n_folds=5, groups=groups)
    assert np.bincount(plan_rows(30, None, seed=0, n_folds=3, groups=groups).fold).tolist() == [10] * 3
