"""Families of maps from moments: what each recovers, that paths agree with maps, that nothing blows up."""

from __future__ import annotations

import numpy as np
import pytest

from identifiable._checks import DataError, UsageError
from identifiable.alignment.families import FAMILIES, GROUP_OF, Paths, families_of
from identifiable.groups import GROUPS, group, haar_rotation
from identifiable.moments import Moments
from identifiable.options import MapOptions

AUTO = tuple(f for f in FAMILIES if f != "reduced_rank")


def moments(X, Y):
    return Moments.of(np.hstack([X, Y]), (X.shape[1], Y.shape[1]))


def planted(n=200, widths=(5, 5), noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, widths[0])) * np.linspace(2, 0.5, widths[0]) + 3
    Y = X @ rng.standard_normal(widths) + noise * rng.standard_normal((n, widths[1])) - 1
    return X, Y


def applied(paths, family, rows, at=-1):
    """Rows through the map of a family, at a place of its path."""
    path = paths.penalties(family)
    return paths.map(family, path[at] if path.size else None)(rows)


# What each family is


def test_families_of_a_rotation_recover_it():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4))
    turn = haar_rotation(4, rng)
    paths = Paths(moments(X, X @ turn + 2))
    for family in ("rigid", "similarity"):
        np.testing.assert_allclose(paths.map(family)(X), X @ turn + 2, atol=1e-9)
    for family in ("ridge", "scaled_ridge", "shrink"):
        np.testing.assert_allclose(paths.map(family, 0.0)(X), X @ turn + 2, atol=1e-9)
    assert not np.allclose(paths.map("signed_permutation")(X), X @ turn + 2, atol=0.1)


def test_toward_identity_goes_from_the_rotation_to_the_identity():
    X, Y = planted()
    paths = Paths(moments(X, Y))
    np.testing.assert_allclose(paths.matrix("toward_identity", 1e-9), paths.matrix("rigid"), atol=1e-6)
    np.testing.assert_allclose(paths.matrix("toward_identity", 1e9), np.eye(5), atol=1e-6)
    turns = [np.linalg.norm(paths.matrix("toward_identity", p) - np.eye(5)) for p in (0.01, 0.3, 10)]
    assert turns == sorted(turns, reverse=True)


def test_shrink_goes_from_least_squares_to_the_similarity():
    X, Y = planted()
    m = moments(X, Y)
    paths = Paths(m)
    np.testing.assert_allclose(paths.matrix("shrink", 0.0), group("linear").fit(m).matrix, atol=1e-9)
    np.testing.assert_allclose(paths.matrix("shrink", 1e9), paths.matrix("similarity"), atol=1e-6)


def test_ridge_is_ridge_regression():
    X, Y = planted(n=30, widths=(5, 3))
    penalty = 0.2
    alpha = penalty * X.var(axis=0).mean() * len(X)
    x, y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    expected = np.linalg.lstsq(np.vstack([x, np.sqrt(alpha) * np.eye(5)]), np.vstack([y, np.zeros((5, 3))]))[0]
    found = Paths(moments(X, Y)).map("ridge", penalty)
    np.testing.assert_allclose(found(X), x @ expected + Y.mean(axis=0), atol=1e-9)


@pytest.mark.parametrize("widths", [(5, 5), (5, 3), (3, 5)])
def test_half_has_the_roots_of_the_singular_values_of_ridge(widths):
    X, Y = planted(widths=widths)
    paths = Paths(moments(X, Y))
    covariance, penalty = np.cov(X.T, bias=True), 0.3
    values, vectors = np.linalg.eigh(covariance + penalty * np.trace(covariance) / widths[0] * np.eye(widths[0]))
    root = vectors * np.sqrt(values) @ vectors.T
    ridge, half = (np.linalg.svd(root @ paths.matrix(f, penalty)) for f in ("ridge", "half"))
    np.testing.assert_allclose(half[1] ** 2 / half[1][0] ** 2, ridge[1] / ridge[1][0], rtol=1e-6)


@pytest.mark.parametrize("family", ["similarity", "scaled_toward_identity", "scaled_ridge", "half"])
def test_scaled_families_spread_as_the_target_does(family):
    X, Y = planted()
    mapped = applied(Paths(moments(X, Y)), family, X, at=3)
    assert mapped.var(axis=0).sum() == pytest.approx(Y.var(axis=0).sum())
    assert applied(Paths(moments(X, Y)), "ridge", X).var(axis=0).sum() < 0.9 * Y.var(axis=0).sum()


def test_reduced_rank_is_the_best_of_its_rank():
    X, Y = planted(widths=(5, 4))
    m = moments(X, Y)
    paths = Paths(m)
    cut = paths.matrix("reduced_rank", 0.0, 2)
    assert np.linalg.matrix_rank(cut) == 2
    fit = group("linear").fit(m).matrix
    np.testing.assert_allclose(paths.matrix("reduced_rank", 0.0, 4), fit, atol=1e-9)
    centred = X - X.mean(axis=0)
    left, singular, right = np.linalg.svd(centred @ fit, full_matrices=False)
    np.testing.assert_allclose(centred @ cut, left[:, :2] * singular[:2] @ right[:2], atol=1e-8)


def test_a_projection_beats_a_rotation_cut_from_the_cross_scatter():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6)) * [8, 1, 1, 1, 1, 1]
    Y = X[:, 1:3] + 0.1 * rng.standard_normal((400, 2))
    m = moments(X, Y)
    assert Paths(m).r2("rigid", m)[0] > 0.9


@pytest.mark.parametrize("family", [f for f in FAMILIES if GROUP_OF[f] in ("rigid", "similarity")])
def test_maps_are_members_of_their_group(family):
    X, Y = planted()
    paths = Paths(moments(X, Y))
    path = paths.penalties(family)
    assert GROUPS[GROUP_OF[family]].contains(paths.map(family, path[2] if path.size else None), tolerance=1e-7)


# Paths


@pytest.mark.parametrize("widths", [(5, 5), (5, 3), (3, 5)])
@pytest.mark.parametrize("family", AUTO)
def test_r2_along_a_path_is_that_of_its_maps_on_the_rows(family, widths):
    if "identity" in family and widths[0] != widths[1]:
        return
    X, Y = planted(n=60, widths=widths)
    paths = Paths(moments(X[:40], Y[:40]))
    found = paths.r2(family, moments(X[40:], Y[40:]))
    path = paths.penalties(family)
    about = np.sum((Y[40:] - Y[:40].mean(axis=0)) ** 2)
    expected = [
        1 - np.sum((Y[40:] - paths.map(family, p)(X[40:])) ** 2) / about for p in (path if path.size else [None])
    ]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_paths_are_half_decades_and_do_not_depend_on_units():
    X, Y = planted()
    path = Paths(moments(X, Y)).penalties("ridge")
    assert path[0] == 0
    np.testing.assert_allclose(np.diff(np.log10(path[1:])), 0.5)
    np.testing.assert_allclose(Paths(moments(1000 * X, Y)).penalties("ridge"), path)
    assert Paths(moments(X, Y)).penalties("rigid").size == 0


# Difficult rows


def difficult(kind, rng):
    X = rng.standard_normal((40, 6))
    if kind == "few rows":
        X = X[:5]
    elif kind == "rank":
        X[:, 4:] = X[:, :2] @ rng.standard_normal((2, 2))
    elif kind == "constant":
        X[:, 3] = 7.5
    elif kind == "rogue":
        X[:, 0] *= 1e6
    return X


@pytest.mark.parametrize("side", ["x", "y", "both"])
@pytest.mark.parametrize("kind", ["few rows", "rank", "constant", "rogue"])
def test_no_map_is_infinite_or_blows_up(kind, side):
    rng = np.random.default_rng(3)
    X, Y = difficult(kind, rng), difficult(kind, rng)
    if side != "both":
        plain = rng.standard_normal((len(X), 6))
        X, Y = (X, plain) if side == "x" else (plain, Y)
    paths = Paths(moments(X, Y))
    spread = np.sqrt(np.square(Y - Y.mean(axis=0)).sum(axis=1).max())
    for family in AUTO:
        for at in (0, len(paths.penalties(family)) // 2, -1):
            mapped = applied(paths, family, X, at)
            assert np.isfinite(mapped).all()
            if family not in ("signed_permutation", "rigid", "toward_identity"):  # these have no scale
                assert np.abs(mapped - Y.mean(axis=0)).max() < 30 * spread


def test_a_side_without_variance_is_refused():
    with pytest.raises(DataError, match="target"):
        Paths(moments(np.arange(8.0).reshape(4, 2), np.ones((4, 2))))


# Which may be tried


def test_auto_tries_every_family_but_reduced_rank():
    assert families_of(MapOptions(), (4, 4)) == AUTO
    assert {f for f in AUTO if "identity" in f} == set(AUTO) - set(families_of(MapOptions(), (4, 3)))


@pytest.mark.parametrize("name", list(GROUPS))
def test_a_group_leaves_its_own_families(name):
    found = families_of(MapOptions(group=name), (4, 4))
    assert found
    assert {GROUP_OF[family] for family in found} == {name}


def test_a_penalty_and_a_rank_leave_linear_maps():
    assert families_of(MapOptions(ridge=0.1), (4, 4)) == ("ridge",)
    assert families_of(MapOptions(rank=2, ridge=0.1, group="linear"), (4, 4)) == ("reduced_rank",)
    for options in (MapOptions(group="rigid", ridge=0.1), MapOptions(group="similarity", rank=2)):
        with pytest.raises(UsageError, match=options.group):
            families_of(options, (4, 4))
    with pytest.raises(UsageError, match=r"rank 5.*4"):
        families_of(MapOptions(rank=5), (4, 6))
    with pytest.raises(UsageError, match="ridge"):
        Paths(moments(*planted())).map("ridge")


@pytest.mark.parametrize(("n", "penalty"), [(40, 0.1), (40, 0.0), (12, 0.1), (12, 0.0)])
def test_the_error_of_a_row_left_out_is_that_of_the_hat_matrix(n: int, penalty: float) -> None:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, 20)) * np.logspace(0, -1, 20)
    y = x @ rng.standard_normal((20, 3)) + rng.standard_normal((n, 3))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    paths = Paths(Moments.of(np.hstack([x, y]), (20, 3)))
    shift = max(penalty * np.square(x).mean(), 1e-7)
    left = np.eye(n) - x @ np.linalg.solve(x.T @ x / n + shift * np.eye(20), x.T) / n
    free = (np.trace(left) - 1) / (n - 1)  # one degree goes to the mean
    expected = np.square(left @ y).sum() / n / free**2
    assert paths.left_out(np.array([penalty]))[0] == pytest.approx(expected, rel=1e-3)
