"""The operator: counts with noise, in the form that fits, and when the answer is not certain."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from identifiable._checks import DataError
from identifiable.mechanistic.factors import find_factors
from identifiable.mechanistic.operator import local_spectrum, spectrum, whitened
from identifiable.mechanistic.sampling import rows_of
from identifiable.worlds import MovingSprites, SlotWorld
from mechanistic.blocks_world import block_jacobians, conditioned, same_partition, sine


def leaks(J: np.ndarray, *, outputs: bool = True) -> np.ndarray:
    rows = rows_of(J)
    return spectrum(whitened(rows.values, rows.eps).white, rows.nodes if outputs else None).leak


@pytest.mark.parametrize("outputs", [True, False])
def test_the_leak_is_zero_up_to_the_number_of_factors_and_not_beyond(outputs: bool) -> None:
    known = block_jacobians([2, 3, 1], np.random.default_rng(0), points=6)
    leak = leaks(known.jacobians, outputs=outputs)
    assert leak[2] < 1e-12
    assert leak[3] > 0.3


def test_the_leak_of_dense_rows_is_that_of_isotropic_directions() -> None:
    leak = leaks(np.random.default_rng(1).standard_normal((1, 40_000, 4)))
    assert leak[1] == pytest.approx(1 - 2 / 6, abs=0.02)


def test_both_sides_of_the_operator_have_one_spectrum() -> None:
    white = np.linalg.qr(np.random.default_rng(2).standard_normal((12, 4)))[
        0
    ]  # 12 rows: more than 10 symmetric dimensions
    few = white[:9] @ np.linalg.inv(np.linalg.cholesky(white[:9].T @ white[:9])).T
    for rows in (white, few):
        A = (rows @ rows.T) ** 2 / np.outer(*2 * [np.linalg.norm(rows, axis=1)])
        expected = 1 - np.sort(np.linalg.eigvalsh(A))[::-1][:5]
        assert np.allclose(spectrum(rows).leak[1:], expected[1:], atol=1e-12)


@pytest.mark.parametrize("outputs", [True, False])
def test_another_basis_and_another_order_of_outputs_change_nothing(outputs: bool) -> None:
    rng = np.random.default_rng(3)
    known = block_jacobians([2, 2, 3], rng, points=5, noise=0.03)
    order = rng.permutation(known.jacobians.shape[1])
    again = known.jacobians[:, order] @ conditioned(7, 30, rng)
    assert np.abs(leaks(known.jacobians, outputs=outputs) - leaks(again, outputs=outputs)).max() < 1e-8
    first, second = find_factors(known.jacobians), find_factors(again)
    assert first.n_factors == second.n_factors == 3
    assert same_partition(first.owners[order], second.owners)


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_noisy_blocks_are_counted_and_their_subspaces_found(noise: float) -> None:
    for seed in range(4):
        rng = np.random.default_rng([4, seed])
        dimensions = rng.integers(1, 4, rng.integers(2, 5)).tolist()
        known = block_jacobians(dimensions, rng, points=6, noise=noise)
        found = find_factors(known.jacobians, seed=seed)
        assert found.n_factors == len(dimensions)
        assert same_partition(found.owners, known.owners)
        for k, subspace in enumerate(known.subspaces):
            assert sine(subspace, found.subspaces[found.owners[known.owners == k][0]]) < 15 * noise


def test_one_dense_factor_is_one_and_certain() -> None:
    found = find_factors(np.random.default_rng(5).standard_normal((6, 60, 4)))
    assert (found.n_factors, found.certain, found.reason) == (1, True, "separated")


def test_exact_blocks_are_certain() -> None:
    found = find_factors(block_jacobians([2, 3], np.random.default_rng(6), points=5).jacobians)
    assert (found.n_factors, found.certain, found.reason, found.form) == (2, True, "exact", "outputs")
    assert set(found.at_points) == {2}
    assert np.nanmax(found.turns) < 1e-6


def test_noise_that_hides_the_factors_leaves_the_answer_uncertain() -> None:
    found = find_factors(block_jacobians([2, 3, 2], np.random.default_rng(7), points=5, noise=0.3).jacobians)
    assert not found.certain
    assert found.reason in {"overlap", "more_structure", "unstable", "accident"}


@pytest.mark.parametrize("overlap", [0.2, 0.3])
def test_a_chain_of_overlapping_slots_is_not_certain(overlap: float) -> None:
    for seed in range(3):
        rng = np.random.default_rng([8, seed])
        world = SlotWorld.of(3, overlap=overlap, rng=rng)
        J = world.jacobian(world.draw(8, rng=rng)) @ rng.standard_normal((9, 9))
        assert not find_factors(J).certain


@pytest.mark.parametrize(("separated", "degrees"), [(True, 1.0), (False, 12.0)])
@pytest.mark.parametrize("occluding", [False, True])
def test_moving_sprites_are_found_by_rows(separated: bool, degrees: float, occluding: bool) -> None:
    rng = np.random.default_rng(9)
    world = MovingSprites(2, radius=0.15, occluding=occluding)
    A = conditioned(4, 5, rng)
    found = find_factors(world.jacobian(world.draw(40, separated=separated, rng=rng)) @ A)
    assert (found.n_factors, found.form, found.moving) == (2, "rows", True)
    back = np.linalg.inv(A)
    for k in range(2):
        nearest = min(sine(back[:, 2 * k : 2 * k + 2], basis) for basis in found.subspaces)
        assert np.degrees(np.arcsin(nearest)) < degrees


def test_a_mixing_that_changes_from_point_to_point_needs_the_local_form() -> None:
    rng = np.random.default_rng(10)
    blocks = block_jacobians([2, 2], rng, points=12, outputs=[30, 30], condition=1.0)
    J = np.stack([point @ rng.standard_normal((4, 4)) for point in blocks.jacobians])
    J += 0.01 * J.std() * rng.standard_normal(J.shape)
    found = find_factors(J)
    assert (found.n_factors, found.form, found.linear) == (2, "local", False)
    assert same_partition(found.owners, blocks.owners)
    assert found.subspaces == ()


def test_local_spectrum_of_one_point_is_that_of_its_rows() -> None:
    white = np.linalg.qr(np.random.default_rng(11).standard_normal((30, 3)))[0]
    assert np.allclose(local_spectrum([white]).leak, spectrum(white).leak, atol=1e-12)


def test_a_sample_finds_what_all_rows_show_within_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    known = block_jacobians([3, 2, 3], np.random.default_rng(12), points=40, outputs=[150, 90, 160], noise=0.02)
    monkeypatch.setattr("identifiable.mechanistic.sampling.WORK", 1.0)
    monkeypatch.setattr("identifiable.mechanistic.sampling.LEAST_ROWS", 2000)
    monkeypatch.setattr("identifiable.mechanistic.sampling.HELD", 2**20)
    tracemalloc.start()
    found = find_factors(known.jacobians)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not found.complete
    assert 1500 < found.rows < 2500
    assert (found.n_factors, found.certain) == (3, True)
    assert same_partition(found.owners, known.owners)
    assert peak < 6 * 2**20 < known.jacobians.nbytes * 7


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_derivatives_that_are_not_finite_are_refused_with_their_point(bad: float) -> None:
    J = np.ones((4, 3, 2))
    J[2, 1, 0] = bad
    with pytest.raises(DataError, match="from 0: 2"):
        find_factors(J)


def test_small_and_degenerate_jacobians_get_an_honest_answer() -> None:
    rng = np.random.default_rng(13)
    assert find_factors(rng.standard_normal((5, 20, 1))).reason == "one_latent"
    one_output = find_factors(rng.standard_normal((1, 1, 3)))
    assert (one_output.n_factors, one_output.rank, one_output.null_space.shape) == (1, 1, (3, 2))
    assert not find_factors(rng.standard_normal((1, 6, 3))).certain
    asleep = block_jacobians([2, 2], rng, points=6).jacobians
    asleep[3] = 0
    assert find_factors(asleep).at_points == (2, 2, 2, 0, 2, 2)
    several = find_factors(rng.standard_normal((9, 1, 2)))
    assert several.n_factors >= 1
    with pytest.raises(DataError, match="zero"):
        find_factors(np.zeros((2, 3, 2)))
