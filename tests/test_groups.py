"""Groups: laws generated from their declared structure, references, and the cases that break naive fits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from errors import naming
from identifiable import DataError, UsageError, groups
from identifiable.groups import (
    AffineMap,
    Group,
    Linear,
    Preconditioner,
    Rigid,
    SignedPermutation,
    Similarity,
    WhiteBasis,
    group,
    procrustes,
    projection,
    spread_ratio,
    units_of,
)
from identifiable.moments import Moments
from laws import (
    LADDER,
    SEEDS,
    law_closed_under_composition_and_inverse,
    law_fit_is_a_member,
    law_larger_group_never_fits_worse,
    law_outsider_is_rejected,
    law_planted_member_is_recovered,
    law_sample_is_a_member,
    law_smaller_is_contained,
    moments,
    proper_pairs,
    rows,
    squared_error,
)

by_group = pytest.mark.parametrize("group", LADDER, ids=lambda g: g.name)
by_pair = pytest.mark.parametrize(
    ("smaller", "larger"), proper_pairs(), ids=[f"{a.name}<{b.name}" for a, b in proper_pairs()]
)
LAWS = [
    law_planted_member_is_recovered,
    law_fit_is_a_member,
    law_sample_is_a_member,
    law_closed_under_composition_and_inverse,
]
NESTED = [law_smaller_is_contained, law_outsider_is_rejected, law_larger_group_never_fits_worse]
by_seed = pytest.mark.parametrize("seed", SEEDS)


@by_group
@by_seed
@pytest.mark.parametrize("law", LAWS)
def test_law_of_a_group(law, group, seed):
    law(group, seed)


@by_pair
@by_seed
@pytest.mark.parametrize("law", NESTED)
def test_law_of_nested_groups(law, smaller, larger, seed):
    law(smaller, larger, seed)


class Impostor(Rigid):
    """Claims to be the group of rigid motions and never turns anything."""

    def fit(self, moments):
        return AffineMap.about(1.5 * np.eye(moments.widths[0]), moments.mean_x, moments.mean_y)

    def sample(self, d, rng):
        return AffineMap(np.diag(np.arange(1.0, d + 1)), rng.standard_normal(d))


@pytest.mark.parametrize("law", LAWS)
def test_each_law_fails_for_an_impostor(law):
    with pytest.raises(AssertionError):
        law(Impostor(), 0)


@pytest.mark.parametrize("law", NESTED)
def test_each_nested_law_fails_when_the_order_is_reversed(law):
    with pytest.raises(AssertionError):
        law(Linear(), SignedPermutation(), 0)


@by_seed
@pytest.mark.parametrize("d", [1, 2, 7])
def test_rigid_equals_scipy_orthogonal_procrustes(seed, d):
    X, Y = rows(seed, d=d), rows(seed + 50, d=d)
    expected, _ = scipy.linalg.orthogonal_procrustes(X - X.mean(axis=0), Y - Y.mean(axis=0))
    np.testing.assert_allclose(Rigid().fit(moments(X, Y)).matrix, expected, rtol=1e-6, atol=1e-9)


@by_seed
@pytest.mark.parametrize("d", [1, 2, 7])
def test_linear_equals_numpy_lstsq(seed, d):
    X, Y = rows(seed, d=d), rows(seed + 50, d=d)
    expected, *_ = np.linalg.lstsq(np.c_[X, np.ones(len(X))], Y, rcond=None)
    fitted = Linear().fit(moments(X, Y))
    np.testing.assert_allclose(np.vstack([fitted.matrix, fitted.offset]), expected, rtol=1e-6, atol=1e-8)


def test_signed_permutation_ignores_scale_because_it_matches_correlations():
    X = rows(0, d=3)
    Y = np.c_[-100 * X[:, 2], 0.01 * X[:, 0], X[:, 1]]
    expected = np.array([[0, 1, 0], [0, 0, 1], [-1, 0, 0]])
    np.testing.assert_array_equal(SignedPermutation().fit(moments(X, Y)).matrix, expected)
    X[:, 1] = 4.0  # of a constant column it is still a permutation
    assert SignedPermutation().contains(SignedPermutation().fit(moments(X, X)))


def test_rank_deficient_linear_fit_is_finite_and_as_good_as_lstsq():
    X = rows(1, d=4)
    X = np.c_[X, X[:, 0] + X[:, 1], np.full(len(X), 3.0)]
    Y = rows(2, d=6)
    fitted = Linear().fit(moments(X, Y))
    expected, *_ = np.linalg.lstsq(np.c_[X, np.ones(len(X))], Y, rcond=None)
    best = AffineMap(expected[:-1], expected[-1])
    assert np.isfinite(fitted.matrix).all()
    assert squared_error(fitted, X, Y) == pytest.approx(squared_error(best, X, Y), rel=1e-9)
    assert not Linear().contains(fitted)


def test_white_basis_drops_null_directions_and_counts_constant_columns():
    X = rows(3, d=3)
    X = np.c_[X, X[:, 0] - X[:, 2], np.full(len(X), 1e6)]
    white = WhiteBasis.of(moments(X, X).alone(0))
    assert (white.rank, white.constant) == (3, 1)
    assert white.needs_refinement
    scatter = moments(X, X).xx
    np.testing.assert_allclose(white.basis.T @ scatter @ white.basis, np.eye(3), atol=1e-9)
    assert not WhiteBasis.of(moments(rows(4), rows(5)).alone(0)).needs_refinement


def test_condition_does_not_depend_on_the_units_of_a_column():
    X = rows(6)
    scaled = X * np.logspace(-6, 6, X.shape[1])
    a, b = (WhiteBasis.of(moments(Z, Z).alone(0)).condition for Z in (X, scaled))
    assert a == pytest.approx(b, rel=1e-6)


def test_preconditioner_back_undoes_its_matrix():
    X = rows(7)
    frame = Preconditioner.of(moments(X, X).alone(0))
    np.testing.assert_allclose(frame.matrix @ frame.back, np.eye(X.shape[1]), atol=1e-9)


@pytest.mark.parametrize(("spread", "rank"), [(1e-10, 100), (1e-12, 99)])
def test_a_second_pass_resolves_directions_to_a_share_of_the_largest(spread, rank):
    """A hundred columns that go together spread ten times as far as one: 1e-12 of a column is 1e-13 of that."""
    X = rows(8, n=400, d=1) + 0.1 * rows(9, n=400, d=99)
    X = np.c_[X, X.mean(axis=1) + spread * rows(10, n=400, d=1)[:, 0]]
    frame = Preconditioner.of(moments(X, X).alone(0))
    again = (X - frame.center) @ frame.matrix
    assert Preconditioner.white(moments(again, again).alone(0)).rank == rank


def test_affine_map_composes_and_inverts():
    g, h = Linear().sample(3, np.random.default_rng(0)), Linear().sample(3, np.random.default_rng(1))
    X = rows(8, d=3)
    np.testing.assert_allclose(g.then(h)(X), h(g(X)), atol=1e-9)
    np.testing.assert_allclose(g.inverse()(g(X)), X, atol=1e-9)
    np.testing.assert_array_equal(AffineMap.identity(3)(X), X)


def test_what_is_no_map_or_no_group_is_refused():
    with pytest.raises(DataError, match="singular"):
        AffineMap(np.zeros((2, 2)), np.zeros(2)).inverse()
    with pytest.raises(DataError, match=r"\(d_in, d_out\) .*\(d_out,\)"):
        AffineMap(np.eye(2), np.zeros(3))
    with pytest.raises(UsageError, match=naming("signed_permutation", "rigid", "similarity", "linear")):
        group("affine")


def test_every_subgroup_is_declared_smallest_first():
    for position, g in enumerate(LADDER):
        assert isinstance(g, Group)
        assert list(g.subgroups) == [s.name for s in LADDER[:position]]


def test_a_stretch_is_no_motion_and_no_similarity():
    def stretch(*by: float) -> AffineMap:
        return AffineMap(np.diag(by), np.zeros(2))

    assert Rigid().contains(stretch(1.0, -1.0))
    assert Similarity().contains(stretch(1.2, -1.2))
    assert not Rigid().contains(stretch(1.2, 1.2))
    assert not Rigid().contains(stretch(0.5, 0.5))
    assert not Similarity().contains(stretch(1.2, 0.9))


def test_a_map_between_different_widths_is_in_no_group():
    for g in LADDER:
        assert not g.contains(AffineMap(np.eye(3)[:, :2], np.zeros(2)))
        assert not g.contains(AffineMap(np.eye(3)[:2], np.zeros(3)))
        assert g.contains(AffineMap(np.eye(3), np.zeros(3)))
        assert not g.contains(AffineMap(np.zeros((3, 3)), np.zeros(3)))


@pytest.mark.parametrize("unit", [1e-4, 1e4])
def test_a_projection_does_not_depend_on_units(unit):
    rng = np.random.default_rng(17)
    X = rng.standard_normal((40, 4)) * [4, 2, 1, 0.5]
    Y = X @ np.linalg.qr(rng.standard_normal((4, 2)))[0] + 0.1 * rng.standard_normal((40, 2))
    found, plain = (projection((u * X).T @ (u * X), (u * X).T @ Y) for u in (unit, 1.0))
    assert np.allclose(found, plain)
    assert np.abs(plain - procrustes(X.T @ Y)[0]).max() > 0.01
    start = np.eye(4)[:, :2]
    assert np.array_equal(projection(np.zeros((4, 4)), np.zeros((4, 2)), start), start)


def test_a_projection_of_white_rows_ends_after_one_step(monkeypatch):
    """Of white rows the polar factor is the answer; where rows are not white, more steps are made, and fewer than are allowed."""
    rng = np.random.default_rng(53)
    cross, taken = rng.standard_normal((4, 2)), []
    polar = procrustes(cross)[0]
    monkeypatch.setattr(groups, "procrustes", lambda matrix: taken.append(1) or procrustes(matrix))
    assert np.allclose(projection(np.eye(4), cross), polar)
    assert len(taken) == 2  # the start, and the step that gains nothing
    taken.clear()
    found = projection(np.diag([4.0, 2.0, 1.0, 0.5]), cross)
    assert 2 < len(taken) < 50
    assert not np.allclose(found, polar, atol=1e-3)


def test_a_member_is_one_up_to_rounding_only():
    swap = np.array([[0.0, 1.0], [-1.0, 0.0]])
    stretched = {"signed_permutation": 1.1, "rigid": 1.1, "similarity": [[1.1], [1.0]], "linear": [[0.0], [1.0]]}
    for g in LADDER:
        assert g.contains(AffineMap(swap + 1e-12, np.zeros(2)))
        assert not g.contains(AffineMap(swap * stretched[g.name], np.zeros(2)))
        assert not g.contains(AffineMap(np.array([[1.0, 1.0], [1.0, 1.0 + 1e-12]]), np.zeros(2)))


@by_group
def test_a_map_between_widths_is_in_no_group_of_square_maps(group):
    assert group.contains(AffineMap(np.ones((2, 3)), np.zeros(3))) is False


@pytest.mark.parametrize("scale", [1e-20, 1e-7, 1e8])
def test_units_that_hide_directions_are_the_deviations_of_the_columns(scale):
    X = rows(5, n=200, d=4) @ np.diag([1.0, 1.0, scale, 1.0])
    X[:, 3] = 7.0  # constant
    units = units_of(Moments.of(X))
    assert units is not None
    np.testing.assert_allclose(units, [*X[:, :3].std(axis=0), 1.0])
    np.testing.assert_allclose(spread_ratio(Moments.of(X)), units[:3].max() / units[:3].min())


@pytest.mark.parametrize("case", ["ordinary", "spread", "dependent", "nearly dependent", "few rows", "constant"])
def test_units_that_hide_nothing_are_left_alone(case):
    X = rows(5, n=200, d=4)
    if case == "spread":
        X = np.random.default_rng(5).standard_normal((200, 4)) * [1.0, 1e-4, 10.0, 1.0]
    if case == "dependent":  # in any units
        X = np.column_stack([X, X[:, 0] + X[:, 1], 1e-3 * X[:, 2]])
    if case == "nearly dependent":  # at the edge of rounding, where units decide nothing
        X = np.column_stack([X[:, 0], X[:, 0] + 2e-6 * X[:, 1]])
    if case == "few rows":
        X = rows(5, n=5, d=30) * np.geomspace(1, 1e-4, 30)
    if case == "constant":
        X = np.full((9, 3), 0.1)
    assert units_of(Moments.of(X)) is None


def test_an_affine_map_may_be_given_as_lists_of_numbers():
    double = AffineMap([[2, 0], [0, 2]], [1, 3])
    assert isinstance(double.matrix, np.ndarray)
    np.testing.assert_array_equal(double.then(double)([[1.0, -1.0]]), [[7.0, 5.0]])


@pytest.mark.parametrize("group", [SignedPermutation(), Rigid(), Similarity()], ids=lambda g: g.name)
def test_what_is_off_a_group_by_more_than_rounding_is_no_member_unless_it_is_allowed_for(group):
    rng = np.random.default_rng(73)
    member = group.sample(3, rng)
    off = AffineMap(member.matrix + 1e-6 * rng.standard_normal((3, 3)), member.offset)
    assert group.contains(member)
    assert not group.contains(off)
    assert group.contains(off, 1e-4)


def test_a_similarity_of_a_constant_table_has_the_scale_1():
    X, Y = np.full((30, 2), 4.0), rows(73, n=30, d=2)
    assert Rigid().contains(Similarity().fit(moments(X, Y)))
