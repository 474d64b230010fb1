"""The exact stage: factors as connected components of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from identifiable._checks import DataError
from identifiable.mechanistic import exact_factors
from identifiable.mechanistic.exact import precision_of
from mechanistic.blocks_world import block_jacobians, same_partition, sine


@pytest.mark.parametrize(("dtype", "condition", "near"), [(np.float64, 100.0, 1e-8), (np.float32, 1e4, 1e-2)])
def test_random_cases_give_number_owners_and_subspaces(dtype: type, condition: float, near: float) -> None:
    for seed in range(30):
        rng = np.random.default_rng([1, seed])
        dimensions = rng.integers(1, 5, rng.integers(1, 6)).tolist()
        known = block_jacobians(dimensions, rng, condition=condition, extras=True)
        found = exact_factors(known.jacobians[0].astype(dtype))
        assert found.n_factors == len(dimensions)
        assert same_partition(found.owners, known.owners)
        for k, subspace in enumerate(known.subspaces):
            own = found.owners[known.owners == k][0]
            assert found.dimensions[own] == dimensions[k]
            assert sine(subspace, found.subspaces[own]) < near


def test_rank_deficiency_is_reported_beside_the_factors() -> None:
    known = block_jacobians([2, 3], np.random.default_rng(0), lost=2)
    found = exact_factors(known.jacobians[0])
    assert found.dimensions in ((2, 3), (3, 2))
    assert found.null_space.shape == (7, 2)
    assert np.abs(known.jacobians[0] @ found.null_space).max() < 1e-10


def test_a_square_block_splits_at_one_point_and_not_over_several() -> None:
    known = block_jacobians([3, 2], np.random.default_rng(1), outputs=[3, 12], points=4)
    assert exact_factors(known.jacobians[0]).n_factors == 4
    assert exact_factors(known.jacobians.reshape(-1, 5)).n_factors == 2


def test_a_reducible_block_splits_and_an_irreducible_one_does_not() -> None:
    rng = np.random.default_rng(2)
    reducible = np.zeros((8, 2))
    reducible[:4, :1], reducible[4:, 1:] = rng.standard_normal((4, 1)), rng.standard_normal((4, 1))
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    assert exact_factors(reducible @ turn).dimensions == (1, 1)
    assert exact_factors(rng.standard_normal((8, 2))).dimensions == (2,)


def test_a_weak_connection_above_rounding_joins_two_blocks() -> None:
    known = block_jacobians([2, 2], np.random.default_rng(3))
    joined = np.concatenate(
        [
            known.jacobians[0],
            known.jacobians[0][known.owners == 0][:1] + 1e-6 * known.jacobians[0][known.owners == 1][:1],
        ]
    )
    assert exact_factors(known.jacobians[0]).n_factors == 2
    assert exact_factors(joined).n_factors == 1


def test_scales_of_outputs_change_nothing() -> None:
    rng = np.random.default_rng(4)
    known = block_jacobians([2, 1, 3], rng)
    scaled = known.jacobians[0] * 10 ** rng.uniform(-5, 5, (known.jacobians.shape[1], 1))
    assert np.array_equal(exact_factors(scaled).owners, exact_factors(known.jacobians[0]).owners)
    assert np.array_equal(exact_factors(1e-20 * known.jacobians[0]).owners, exact_factors(known.jacobians[0]).owners)


def test_there_is_no_gap_where_nothing_can_be_dropped() -> None:
    for rows in (np.ones((3, 1)), np.random.default_rng(6).standard_normal((8, 2))):
        found = exact_factors(rows)
        assert (found.n_factors, found.gap) == (1, 0.0)
    assert exact_factors(np.eye(2)).gap > 0


def test_only_zeros_are_refused() -> None:
    with pytest.raises(DataError, match="zero"):
        exact_factors(np.zeros((4, 2)))


def test_numbers_that_single_precision_holds_have_its_rounding() -> None:
    wide = np.random.default_rng(5).standard_normal((6, 3))
    single, double = np.finfo(np.float32).eps, np.finfo(np.float64).eps
    assert precision_of(wide) == double
    assert precision_of(wide.astype(np.float32)) == precision_of(wide.astype(np.float32).astype(np.float64)) == single
    assert precision_of(np.arange(6.0)) == double  # whole numbers are no sign of it
