"""Components of two tables are matched one to one, by sign, with p-values over the family."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from identifiable._checks import DataError, PairingError, UsageError
from identifiable.blocks import Blocks
from identifiable.groups import permutation_matrix
from identifiable.ica import joint, match_components

SEEDS = [0, 1, 2]


# Matching


def test_a_large_table_is_shuffled_by_some_of_its_rows_the_same_in_all_models(monkeypatch):
    X, given = np.arange(100.0).reshape(50, 2), []
    monkeypatch.setattr(joint, "TEST_ROWS", 20)
    monkeypatch.setattr(
        joint, "match_components", lambda x, y, **_: given.append((x, y)) or SimpleNamespace(p=np.array([0.25, 0.5]))
    )
    assert joint._p_values([Blocks(X), Blocks(X + 7), Blocks(X + 9)], 53).tolist() == [0.25, 0.5]
    for (x, y), more in zip(given, (7, 9), strict=True):
        assert len(np.unique(x[:, 0])) == len(x) == 20
        np.testing.assert_array_equal(y, x + more)
    assert np.array_equal(given[0][0], given[1][0])
    assert not np.array_equal(given[0][0], X[:20])  # not the first ones


@pytest.mark.parametrize(
    ("correlation", "expected"),
    [
        ([[0.9, 0.1], [0.2, -0.8]], [[1, 0], [0, -1]]),
        ([[0.1, -0.9], [0.8, 0.2]], [[0, -1], [1, 0]]),
        ([[0.1, 0.2, -0.9], [0.7, 0.1, 0.1]], [[0, 0, -1], [1, 0, 0]]),
        ([[0.1, 0.7], [0.2, 0.1], [-0.9, 0.1]], [[0, 1], [0, 0], [-1, 0]]),
        ([[-0.3]], [[-1]]),
        ([[0.9, 0.8], [0.8, 0.1]], [[0, 1], [1, 0]]),  # the best sum, not the best first
    ],
)
def test_matching_by_hand(correlation, expected):
    np.testing.assert_array_equal(permutation_matrix(np.array(correlation)), expected)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (6, 3), (1, 5), (5, 1)])
def test_a_match_is_a_signed_partial_permutation_and_turns_with_its_matrix(seed, shape):
    r = np.random.default_rng(seed).uniform(-1, 1, shape)
    matrix = permutation_matrix(r)
    assert matrix.shape == shape
    assert np.abs(matrix).sum() == min(shape)
    assert np.abs(matrix).sum(axis=0).max() == np.abs(matrix).sum(axis=1).max() == 1
    assert set(np.unique(matrix)) <= {-1.0, 0.0, 1.0}
    np.testing.assert_array_equal(permutation_matrix(r.T), matrix.T)
    np.testing.assert_array_equal(permutation_matrix(-r), -matrix)
    assert (matrix * r).sum() > 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("d", [1, 2, 7])
def test_a_planted_permutation_with_signs_is_found(seed, d):
    rng = np.random.default_rng(seed)
    A = rng.laplace(size=(400, d))
    order, signs = rng.permutation(d), rng.choice([-1.0, 1.0], d)
    B = np.empty_like(A)
    B[:, order] = A * signs + 0.2 * rng.standard_normal(A.shape)
    found = match_components(A, B, rng=rng)
    np.testing.assert_array_equal(found.partner, order)
    np.testing.assert_array_equal(found.sign, signs)
    assert (found.correlation > 0.95).all()
    assert (found.p == 1 / 201).all()
    assert (match_components(A, B[::-1], rng=rng).p > 0.01).all()  # other rows


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_of_unlike_width_leave_the_rest_without_a_partner(seed):
    rng = np.random.default_rng(seed)
    A = rng.laplace(size=(300, 5))
    B = A[:, [3, 1]] * [-1, 1]
    narrow, wide = match_components(A, B, rng=rng), match_components(B, A, rng=rng)
    np.testing.assert_array_equal(narrow.partner, [-1, 1, -1, 0, -1])
    np.testing.assert_array_equal(narrow.sign[[1, 3]], [1, -1])
    np.testing.assert_array_equal(narrow.correlation[[0, 2, 4]], 0)
    np.testing.assert_array_equal(narrow.p[[0, 2, 4]], 1)
    np.testing.assert_array_equal(wide.partner, [3, 1])
    assert (wide.p < 0.01).all()


def test_p_values_of_independent_tables_are_uniform():
    """Family-wise: the smallest of all p-values is below alpha in a share alpha of the draws."""
    rng = np.random.default_rng(5)
    least = [
        match_components(rng.laplace(size=(40, 3)), rng.laplace(size=(40, 4)), draws=39, rng=rng).p.min()
        for _ in range(300)
    ]
    assert abs(np.mean(np.array(least) <= 0.1) - 0.1) < 0.06
    assert abs(np.mean(np.array(least) <= 0.5) - 0.5) < 0.1


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 + 0.1])
def test_a_constant_column_correlates_with_nothing(value):
    rng = np.random.default_rng(6)
    A = rng.laplace(size=(500, 3))
    found = match_components(
        np.column_stack([A, np.full(500, value)]), np.column_stack([A[:, ::-1], np.full(500, value / 3)]), rng=rng
    )
    np.testing.assert_array_equal(found.partner[:3], [2, 1, 0])
    assert found.correlation[3] < 1e-6
    assert (found.p[:3] < 0.01).all()
    assert found.p[3] == 1


@pytest.mark.parametrize("scale", [1e-14, 1e-150, 1e200])
def test_the_scale_of_a_table_does_not_change_its_matches(scale):
    A = np.random.default_rng(7).laplace(size=(300, 3))
    found = match_components(A * scale, A[:, ::-1])
    np.testing.assert_array_equal(found.partner, [2, 1, 0])
    np.testing.assert_allclose(found.correlation, 1)


A = np.arange(12.0).reshape(4, 3) % 5


@pytest.mark.parametrize(
    ("first", "second", "draws", "error"),
    [
        (A, A[:3], 10, PairingError),
        (A, A[:, 0], 10, DataError),
        (A[:2], A[:2], 10, DataError),
        (A, A * np.nan, 10, DataError),
        (A, A, -1, UsageError),
        (A, A, 2.5, UsageError),
        (A[:, :0], A, 10, DataError),
        ([["a", "b"]] * 4, A, 10, DataError),
        (A * 1j, A, 10, DataError),
    ],
)
def test_what_cannot_be_matched_is_refused(first, second, draws, error):
    with pytest.raises(error):
        match_components(first, second, draws=draws)
