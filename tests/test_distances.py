"""Groups and similarities as distances between representations: Williams et al. 2021, "Generalized shape metrics".

The facts are those that netrep's tests/test_metrics.py shows of its metrics; the tests are ours. A distance
minimises over a group: with `alpha` 1 over rigid motions (Procrustes), with 0 over linear maps (CCA, which is Procrustes of
whitened rows), and in between of rows whitened in part.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
import scipy.linalg
from numpy.typing import NDArray

from identifiable import GROUPS, compare
from identifiable.groups import Linear, Rigid, SignedPermutation, Similarity, haar_rotation, procrustes
from identifiable.similarity import canonical_correlations, cca, cka
from laws import moments, squared_error

Rows = NDArray[np.float64]
Distance = Callable[[Rows, Rows], float]

N, D = 100, 10
by_seed = pytest.mark.parametrize("seed", [1, 2, 3])
by_alpha = pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])


def whitened(X: Rows, alpha: float) -> Rows:
    """Centred rows, stretched towards unit variance in every direction: not at all for `alpha` 1, wholly for 0."""
    X = X - X.mean(axis=0)
    variances, directions = np.linalg.eigh(X.T @ X / len(X))
    return X @ (alpha * np.eye(X.shape[1]) + (1 - alpha) * directions / np.sqrt(variances) @ directions.T)


def euclidean(X: Rows, Y: Rows) -> float:
    """What is left after the best rigid motion."""
    return float(np.linalg.norm(Rigid().fit(moments(X, Y))(X) - Y))


def angle(X: Rows, Y: Rows) -> float:
    """The same for rows of any scale: the arc between them on the sphere."""
    m = moments(X, Y)
    return float(np.arccos(min(procrustes(m.xy)[1].sum() / np.sqrt(np.trace(m.xx) * np.trace(m.yy)), 1.0)))


def random_rows(seed: int, count: int = 2, n: int = N, d: int = D) -> list[Rows]:
    rng = np.random.default_rng([seed, 71])
    return [rng.standard_normal((n, d)) for _ in range(count)]


def triangle_fails(distance: Distance, tables: list[Rows]) -> bool:
    """Whether some way round is shorter than the direct one."""
    return any(distance(x, y) > distance(x, m) + distance(m, y) + 1e-9 for x, m, y in permutations(tables, 3))


@by_seed
def test_a_rotation_and_a_shift_are_at_no_distance(seed):
    rng = np.random.default_rng(seed)
    X, other = random_rows(seed)
    Y = X @ haar_rotation(D, rng) + rng.standard_normal(D)
    assert euclidean(X, Y) < 1e-9
    assert angle(X, Y) < 1e-6
    assert euclidean(X, other) > 1
    assert angle(X, other) > 0.5
    assert squared_error(SignedPermutation().fit(moments(X, Y)), X, Y) > 0.1


@by_seed
def test_a_rotation_of_either_side_moves_no_distance(seed):
    X, Y = random_rows(seed)
    turn = haar_rotation(D, np.random.default_rng(seed))
    for distance in (euclidean, angle):
        assert distance(X @ turn, Y) == pytest.approx(distance(X, Y), rel=1e-9)
        assert distance(X, Y @ turn) == pytest.approx(distance(X, Y), rel=1e-9)
        assert distance(X, Y) == pytest.approx(distance(Y, X), rel=1e-9)


@by_seed
def test_a_scale_is_at_no_angle_and_at_a_distance(seed):
    rng = np.random.default_rng(seed)
    (X,) = random_rows(seed, 1)
    Y = 3 * X @ haar_rotation(D, rng) + rng.standard_normal(D)
    assert angle(X, Y) < 1e-6
    assert squared_error(Similarity().fit(moments(X, Y)), X, Y) < 1e-9
    # Of centred rows |3x - x| = 2|x|.
    assert euclidean(X, Y) == pytest.approx(2 * np.linalg.norm(X - X.mean(axis=0)), rel=1e-9)


@by_seed
def test_a_linear_map_is_at_no_distance_for_cca_and_at_one_for_procrustes(seed):
    rng = np.random.default_rng(seed)
    (X,) = random_rows(seed, 1)
    Y = X @ rng.standard_normal((D, D)) + rng.standard_normal(D)
    m = moments(X, Y)
    assert 1 - cca(m) < 1e-9
    assert squared_error(Linear().fit(m), X, Y) < 1e-9
    assert angle(X, Y) > 0.1
    assert squared_error(Similarity().fit(m), X, Y) > 0.1
    assert cka(m) < 0.99


@pytest.mark.parametrize("slope", [0.5, 1.0, 4.0])
def test_the_angle_of_a_shear_is_that_of_its_singular_values(slope):
    X = whitened(random_rows(0, 1, d=2)[0], 0)
    shear = np.array([[1.0, slope], [0.0, 1.0]])
    singular = np.linalg.svd(shear, compute_uv=False)
    expected = np.arccos(singular.sum() / np.sqrt(2 * (singular**2).sum()))
    assert angle(X, X @ shear) == pytest.approx(expected, rel=1e-9)
    assert cca(moments(X, X @ shear)) == pytest.approx(1, abs=1e-12)


@by_seed
def test_canonical_correlations_are_cosines_of_principal_angles(seed):
    X, Y = (np.linalg.qr(Z - Z.mean(axis=0))[0] for Z in random_rows(seed))
    angles = scipy.linalg.subspace_angles(X, Y)
    np.testing.assert_allclose(canonical_correlations(moments(X, Y)), np.sort(np.cos(angles))[::-1], atol=1e-9)
    assert angle(X, Y) == pytest.approx(np.arccos(np.cos(angles).mean()), rel=1e-9)


@by_seed
def test_cca_is_procrustes_of_white_rows(seed):
    X, Y = random_rows(seed)
    assert angle(whitened(X, 0), whitened(Y, 0)) == pytest.approx(np.arccos(cca(moments(X, Y))), rel=1e-9)
    assert abs(angle(X, Y) - np.arccos(cca(moments(X, Y)))) > 1e-3


@by_seed
@by_alpha
@pytest.mark.parametrize("distance", [euclidean, angle])
def test_no_way_round_is_shorter(seed, alpha, distance):
    tables = [whitened(Z, alpha) for Z in random_rows(seed, 3, n=31, d=20)]
    assert not triangle_fails(distance, tables)
    # Rows on the way from one to the other, where the inequality is tight.
    between = [tables[0], (tables[0] + tables[1]) / 2, tables[1]]
    assert not triangle_fails(distance, between)


@by_seed
def test_no_way_round_is_shorter_by_the_arc_of_cka(seed):
    assert not triangle_fails(lambda X, Y: float(np.arccos(cka(moments(X, Y)))), random_rows(seed, 3, n=31, d=20))


def test_what_is_no_distance_is_found_out():
    """Squares, and one minus a cosine, are shorter by a detour."""
    (X,) = random_rows(0, 1)
    assert triangle_fails(lambda a, b: euclidean(a, b) ** 2, [X, 2 * X, 3 * X])
    assert not triangle_fails(euclidean, [X, 2 * X, 3 * X])
    plane = np.linalg.qr(X - X.mean(axis=0))[0][:, :2]
    fan = [plane @ [[np.cos(a)], [np.sin(a)]] for a in np.radians([0, 30, 60])]
    assert triangle_fails(lambda a, b: 1 - cca(moments(a, b)), fan)
    assert not triangle_fails(lambda a, b: float(np.arccos(cca(moments(a, b)))), fan)
    assert angle(fan[0], fan[2]) == pytest.approx(np.radians(60), rel=1e-9)


@by_seed
def test_columns_in_another_order_are_at_no_distance(seed):
    rng = np.random.default_rng(seed)
    X, other = random_rows(seed)
    Y = X[:, rng.permutation(D)] * rng.choice([-1.0, 1.0], D)
    assert squared_error(SignedPermutation().fit(moments(X, Y)), X, Y) < 1e-12
    assert squared_error(SignedPermutation().fit(moments(X, other)), X, other) > 0.5


@pytest.mark.parametrize("group", list(GROUPS))
def test_compare_places_a_map_on_its_rung(group):
    """The ladder of `compare`: no error from the group of the map on, in either direction, and errors below it."""
    rng = np.random.default_rng(5)
    (X,) = random_rows(5, 1)
    Y = GROUPS[group].sample(D, rng)(X)
    result = compare(X, Y, groups=list(GROUPS), bootstrap=0, nulls=())
    place = list(GROUPS).index(group)
    for pair in result.pairs:
        errors = [pair.rung(name).held_out.mean for name in GROUPS]
        assert max(errors[place:]) < 1e-6
        assert min(errors[:place], default=1.0) > 0.05
