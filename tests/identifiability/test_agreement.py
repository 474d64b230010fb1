"""Degree, form and shared dimensions: planted truths, invariances, and the negative half of each."""

from dataclasses import replace

import numpy as np
import pytest

import identifiable
from identifiable.groups import haar_rotation, procrustes, projection
from identifiable.identifiability.agreement import Agreement, Maps
from identifiable.identifiability.ladder import BACKWARD, FORWARD, Ladder, Ridge
from identifiable.identifiability.shared import expected_chance
from identifiable.moments import Moments
from identifiable.rows import plan_rows

BARE = {"nulls": (), "axes": False, "neighbours": 0}
NUMBERS = {"rtol": 1e-7, "atol": 1e-9}


def planted(shape, *, n=1500, d=8, noise=0.1, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.linspace(1, 0.4, d)
    A = {
        "signed_permutation": np.eye(d)[rng.permutation(d)] * rng.choice([-1, 1], d),
        "similarity": haar_rotation(d, rng),
        "linear": haar_rotation(d, rng) * np.exp(np.linspace(-1.5, 1.5, d)) @ haar_rotation(d, rng),
    }[shape]
    Y = (X + noise * rng.standard_normal((n, d))) @ A
    return X, scale * Y + 3.0


def first(X, Y, **options):
    return identifiable.compare(X, Y, **(BARE | options)).pairs[0]


# -- form


@pytest.mark.parametrize("shape", ["signed_permutation", "similarity", "linear"])
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_the_planted_group_is_named_with_its_scale(shape, scale):
    pair = first(*planted(shape, scale=scale))
    form = pair.verdict.form
    assert (form.group, form.state) == (shape, "clear")
    if shape != "linear":
        assert form.scale == pytest.approx(scale, rel=0.03)
        assert form.scale_state == ("one" if scale == 1 else "other")
    named = "rigid" if shape == "similarity" and scale == 1 else shape
    assert pair.verdict.group == named


def test_units_of_either_side_move_nothing_but_the_scale():
    X, Y = planted("similarity", noise=0.4)
    one, two = first(X, Y), first(100 * X, 0.01 * Y)
    assert two.verdict.form.scale == pytest.approx(1e-4 * one.verdict.form.scale)
    assert (one.verdict.degree, one.verdict.form.group) == (two.verdict.degree, two.verdict.form.group)
    np.testing.assert_allclose(one.shared.rho, two.shared.rho, **NUMBERS)
    for group in ("signed_permutation", "similarity", "linear"):
        np.testing.assert_allclose(one.rung(group).r2.value, two.rung(group).r2.value, **NUMBERS)
        np.testing.assert_allclose(one.rung(group).r2.ci95, two.rung(group).r2.ci95, **NUMBERS)


def test_a_group_that_keeps_part_is_neither_clear_nor_beyond():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((2000, 6))
    Y = X * np.exp(np.linspace(-0.45, 0.45, 6)) @ haar_rotation(6, rng)  # a mild stretch
    form = first(X, Y).verdict.form
    assert (form.group, form.state, form.beyond) == ("similarity", "borderline", "linear")


def test_unrelated_tables_have_neither_degree_nor_form():
    rng = np.random.default_rng(0)
    pair = first(*rng.standard_normal((2, 600, 6)), nulls=("shuffle",))
    assert pair.verdict.degree == "none"
    assert pair.verdict.form.group is None
    assert pair.verdict.group is None
    assert pair.shared.strong == pair.shared.partly == 0


def test_a_small_r2_that_shuffled_rows_reach_is_no_agreement():
    rng = np.random.default_rng([4, 40])
    X = rng.standard_normal((60, 2))
    Y = 0.22 * X + rng.standard_normal((60, 2))
    pair = identifiable.compare(X, Y, nulls=("shuffle",), null_draws=39, neighbours=0, axes=False).pairs[0]
    assert pair.rung("linear").null["shuffle"].p > 0.05
    assert pair.verdict.r2 > 0
    assert pair.verdict.degree == "none"


# -- degree


@pytest.mark.parametrize(("noise", "degree"), [(0.1, "nearly"), (0.4, "largely"), (0.9, "partly"), (3.0, "little")])
def test_the_degree_follows_r2(noise, degree):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((3000, 5))
    pair = first(X, X + noise * rng.standard_normal(X.shape))
    assert pair.verdict.degree == degree
    low, high = pair.rung("linear").r2.ci95
    assert low < 1 / (1 + noise**2) < high


def test_few_rows_do_not_ruin_a_linear_map():
    X, Y = planted("similarity", n=60, d=20, noise=0.5)
    pair = first(X, Y)
    assert pair.rung("linear").r2.value > 0.3
    assert pair.shared.lower_bound


@pytest.mark.parametrize("loud", [10.0, 1e4])
def test_one_loud_column_that_agrees_makes_no_verdict(loud):
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((2, 900, 16))
    X[:, 3] *= loud
    Y[:, 5] = X[:, 3]
    pair = first(X, Y)
    assert pair.verdict.group is None
    assert pair.shared.strong == 1
    assert pair.shared.few
    assert pair.shared.variance_target > 0.8
    assert (pair.verdict.form.state, pair.verdict.form.beyond) == ("borderline", "linear")
    alone = first(X[:, [3]], Y[:, [5]])  # the column by itself has a form
    assert (alone.shared.few, alone.verdict.form.state) == (False, "clear")


@pytest.mark.parametrize("missing", ["permutation", "rotation", "linear_xy", "rotation_yx", "linear_yx"])
def test_a_ladder_without_a_rung_has_no_agreement(missing):
    square = np.eye(2)
    parts = dict.fromkeys(("permutation", "rotation", "linear_xy", "rotation_yx", "linear_yx"), square)
    whole = Maps(Ladder(np.zeros(2), np.zeros(2), **parts), (0.0, 0.0), Moments.of(np.eye(4), widths=(2, 2)))
    asked = [BACKWARD] if missing.endswith("_yx") else [FORWARD] if missing != "permutation" else [FORWARD, BACKWARD]
    for direction in asked:
        assert all(np.array_equal(matrix, square) for matrix in whole.matrices(direction))
        with pytest.raises(ValueError, match="every rung"):
            replace(whole, ladder=replace(whole.ladder, **{missing: None})).matrices(direction)


def test_nothing_is_kept_where_a_linear_map_explains_nothing():
    r2 = np.array([[0.1, 0.2], [0.2, 0.2], [0.3, 0.2], [0.4, 0.0]])
    kept = Agreement(r2, np.zeros((0, 4, 2))).kept
    np.testing.assert_allclose(kept, [[0.25, 0], [0.5, 0], [0.75, 0], [1, 0]])


# -- widths


def test_a_subset_of_columns_is_recovered_and_its_reverse_is_not():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((1500, 24))
    there, back = identifiable.compare(X, X[:, rng.permutation(24)[:10]], **BARE).pairs
    assert there.verdict.r2 == pytest.approx(1)
    assert there.rung("signed_permutation").r2.value == pytest.approx(1)
    assert back.verdict.r2 == pytest.approx(10 / 24, abs=0.03)
    assert there.shared.strong == there.shared.possible == 10


def test_a_wide_table_is_projected_by_what_the_narrow_one_asks_for():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((2000, 12)) * np.r_[5.0 * np.ones(6), np.ones(6)]
    Y = X[:, 6:] @ haar_rotation(6, rng)  # the quiet half, which principal components would drop
    assert first(X, Y).rung("similarity").r2.value > 0.9999
    moments = Moments.of(np.hstack([X, Y]), widths=(12, 6))
    R = projection(moments.xx, moments.xy)
    np.testing.assert_allclose(R.T @ R, np.eye(6), atol=1e-9)


def test_projecting_is_never_worse_than_singular_vectors():
    rng = np.random.default_rng(6)
    for _ in range(5):
        X = rng.standard_normal((400, 9)) @ rng.standard_normal((9, 9))
        Y = X @ rng.standard_normal((9, 4)) + rng.standard_normal((400, 4))
        m = Moments.of(np.hstack([X, Y]), widths=(9, 4))

        def explained(R, m=m):
            return np.sum(R * m.xy) ** 2 / np.sum(R * (m.xx @ R))

        assert explained(projection(m.xx, m.xy)) >= explained(procrustes(m.xy)[0]) * (1 - 1e-12)


# -- shared dimensions


@pytest.mark.parametrize("k", [0, 3, 10])
def test_shared_dimensions_are_counted_whatever_the_mixing(k):
    rng = np.random.default_rng(k)
    rho = np.r_[np.full(k, 0.97), np.full(10 - k, 0.6)]
    Z, E = rng.standard_normal((2, 200, 10))
    Y = rho * Z + np.sqrt(1 - rho**2) * E
    mixes = rng.standard_normal((2, 10, 10)) * 10.0 ** rng.uniform(-2, 2, (2, 1, 10))
    pair = first(Z @ mixes[0], Y @ mixes[1], intervals=False)
    assert abs(pair.shared.strong - k) <= 1


def test_chance_is_higher_with_fewer_rows_and_measured_where_it_matters():
    assert expected_chance(96, (32, 32)) == pytest.approx(0.50, abs=0.06)
    assert expected_chance(992, (32, 32)) == pytest.approx(0.16, abs=0.04)
    rng = np.random.default_rng(7)
    shared = first(*rng.standard_normal((2, 60, 20)), intervals=False).shared
    assert 0.35 < shared.chance < 0.75
    assert shared.strong == shared.partly == 0


# -- ridge


def test_the_penalty_vanishes_for_exact_data_and_grows_for_noise():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((200, 6))
    B = rng.standard_normal((6, 4))

    def fitted(Y):
        m = Moments.of(np.hstack([X, Y]), widths=(6, 4))
        return Ridge.of(m).fit(m.xy, float(np.trace(m.yy)))

    matrix, penalty = fitted(X @ B)
    assert penalty == 0
    np.testing.assert_allclose(matrix, B, atol=1e-9)
    noise, large = fitted(rng.standard_normal((200, 4)))
    assert large > 100
    assert np.abs(noise).max() < 0.1


def test_the_penalty_is_that_of_scikit_learn():
    from sklearn.linear_model import RidgeCV

    rng = np.random.default_rng(9)
    X = rng.standard_normal((80, 12)) * np.logspace(0, -1, 12)
    y = X @ rng.standard_normal((12, 1)) + 0.5 * rng.standard_normal((80, 1))
    m = Moments.of(np.hstack([X, y]), widths=(12, 1))
    matrix, penalty = Ridge.of(m).fit(m.xy, float(np.trace(m.yy)))
    peer = RidgeCV(alphas=[penalty]).fit(X, y.ravel())
    np.testing.assert_allclose(matrix[:, 0], peer.coef_, rtol=1e-6)


# -- rows


def test_cells_halve_folds_and_keep_groups_whole():
    groups = np.repeat(np.arange(60), 5)
    plan = plan_rows(300, None, seed=0, n_folds=5, groups=groups)
    assert plan.can_leave_out
    for g in range(60):
        assert len(set(plan.cell[groups == g])) == 1
    assert set(plan.cell) == set(range(10))
    np.testing.assert_array_equal(plan.fold, plan.cell // 2)
