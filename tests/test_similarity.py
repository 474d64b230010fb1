"""CCA, SVCCA and CKA: declared invariances as laws, and values against independent formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from errors import naming
from identifiable import DataError, Moments
from identifiable.groups import GROUPS, procrustes
from identifiable.similarity import INVARIANT_TO, canonical_correlations, cca, cka, cka_debiased, svcca
from laws import LADDER, SEEDS, member_outside, moments, rows

MEASURES = {"cca": cca, "svcca": lambda m: svcca(m, 3), "cka": cka}
by_seed = pytest.mark.parametrize("seed", SEEDS)


def related(seed: int) -> tuple[np.ndarray, np.ndarray]:
    X = rows(seed)
    rng = np.random.default_rng([seed, 81])
    return X, X @ rng.standard_normal((6, 6)) + 4 * rng.standard_normal(X.shape)


@by_seed
@pytest.mark.parametrize(("measure", "group"), [(m, g) for m in INVARIANT_TO for g in INVARIANT_TO[m]])
def test_a_measure_is_invariant_to_the_groups_it_declares(measure, group, seed):
    X, Y = related(seed)
    g = GROUPS[group].sample(6, np.random.default_rng([seed, 82]))
    assert MEASURES[measure](moments(g(X), Y)) == pytest.approx(MEASURES[measure](moments(X, Y)), rel=1e-9)


@by_seed
@pytest.mark.parametrize(
    ("measure", "group"), [(m, g.name) for m in INVARIANT_TO for g in LADDER if g.name not in INVARIANT_TO[m]]
)
def test_a_measure_is_not_invariant_to_the_groups_it_does_not_declare(measure, group, seed):
    X, Y = related(seed)
    smaller = LADDER[[g.name for g in LADDER].index(group) - 1]
    g = member_outside(GROUPS[group], smaller, 6, np.random.default_rng([seed, 83]))
    if measure == "svcca" and group == "similarity":
        assert not GROUPS["rigid"].contains(g)  # it is the turn in it that moves the measure, not the scale
    assert abs(MEASURES[measure](moments(g(X), Y)) - MEASURES[measure](moments(X, Y))) > 1e-4


@by_seed
@pytest.mark.parametrize("k", [1, 3, 6])
def test_svcca_equals_the_published_recipe_on_the_rows(seed, k):
    """Roeder et al. 2021: centre, divide by the standard deviation, thin SVD, k left vectors, mean correlation."""
    X, Y = related(seed)

    def left(Z):
        Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
        return np.linalg.svd(Z, full_matrices=False)[0][:, :k]

    expected = np.linalg.svd(left(X).T @ left(Y), compute_uv=False).mean()
    assert svcca(moments(X, Y), k) == pytest.approx(expected, rel=1e-9)


def hsic_unbiased(K, L):
    """Song et al. 2012, equation 5, on kernels with their diagonals removed."""
    n = len(K)
    K, L = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
    one = np.ones(n)
    terms = np.trace(K @ L) + one @ K @ one * (one @ L @ one) / ((n - 1) * (n - 2)) - 2 / (n - 2) * one @ K @ L @ one
    return terms / (n * (n - 3))


@by_seed
@pytest.mark.parametrize("n", [5, 40])
def test_debiased_cka_equals_the_estimator_on_kernels(seed, n):
    X, Y = (Z[:n] for Z in related(seed))
    K, L = X @ X.T, Y @ Y.T
    expected = hsic_unbiased(K, L) / np.sqrt(hsic_unbiased(K, K) * hsic_unbiased(L, L))
    squares = np.stack([np.sum((Z - Z.mean(axis=0)) ** 2, axis=1) for Z in (X, Y)], axis=1)
    assert cka_debiased(moments(X, Y), squares) == pytest.approx(expected, rel=1e-6)


def test_identical_sides_are_alike_and_a_pure_noise_side_is_not():
    X = rows(0, n=2000)
    noise = np.random.default_rng(84).standard_normal(X.shape)
    assert [cca(moments(X, X)), cka(moments(X, X)), svcca(moments(X, X), 2)] == pytest.approx([1, 1, 1])
    assert max(cca(moments(X, noise)), cka(moments(X, noise)), svcca(moments(X, noise), 2)) < 0.1


def test_canonical_correlations_are_as_many_as_the_smaller_rank():
    X = rows(0, d=4)
    wide = np.c_[X, X[:, 0] + X[:, 1]]
    assert len(canonical_correlations(moments(wide, rows(1, d=3)))) == 3
    assert len(canonical_correlations(moments(wide, rows(1, d=6)))) == 4


def test_svcca_of_more_components_than_there_are_says_how_many_there_are():
    X = rows(0, d=2)
    with pytest.raises(DataError, match=naming("svcca", 3, 2, 2)):
        svcca(moments(X, X), 3)


def test_sides_without_variance_have_no_value():
    flat = Moments.of(np.ones((5, 2)), widths=(1, 1))
    assert np.isnan(cca(flat))
    assert np.isnan(cka(flat))
    assert np.isnan(cka_debiased(Moments.of(np.eye(3)[:, :2], widths=(1, 1)), np.ones((3, 2))))


# Facts of Williams et al. 2021, "Generalized shape metrics", which netrep's tests show of its metrics.


@by_seed
def test_canonical_correlations_are_cosines_of_principal_angles_and_cca_procrustes_of_white_rows(seed):
    X, Y = (np.linalg.qr(Z - Z.mean(axis=0))[0] for Z in related(seed))
    angles = scipy.linalg.subspace_angles(X, Y)
    m = moments(X, Y)
    np.testing.assert_allclose(canonical_correlations(m), np.sort(np.cos(angles))[::-1], atol=1e-9)
    assert cca(m) == pytest.approx(procrustes(m.xy)[1].sum() / np.sqrt(np.trace(m.xx) * np.trace(m.yy)), rel=1e-9)


@by_seed
@pytest.mark.parametrize("measure", [cca, cka])
def test_no_way_round_is_shorter_by_the_arc(measure, seed):
    X, Y, Z = (related(s)[1] for s in (seed, seed + 10, seed + 20))
    xy, xz, zy = (np.arccos(measure(moments(a, b))) for a, b in ((X, Y), (X, Z), (Z, Y)))
    assert xy <= xz + zy + 1e-9
    plane = np.linalg.qr(X - X.mean(axis=0))[0][:, :2]
    fan = [plane @ [[np.cos(a)], [np.sin(a)]] for a in np.radians([0, 30, 60])]
    apart = [1 - measure(moments(fan[i], fan[j])) for i, j in ((0, 2), (0, 1), (1, 2))]
    assert apart[0] > apart[1] + apart[2]  # one minus a cosine is no distance
