"""The operator: counts with noise, in the form that fits, and when the answer is not certain."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from identifiable._checks import DataError
from identifiable.mechanistic import counting, factors
from identifiable.mechanistic.counting import (
    AGREED,
    LEAST_POINTS,
    LEFT_OUT,
    Count,
    PointByPoint,
    Stacked,
    _rotations,
    _upright,
    _white_again,
    judged,
    likely_number,
)
from identifiable.mechanistic.factors import (
    OWNED,
    _AtPoint,
    _by_few,
    _differ,
    _enough,
    _local_subspaces,
    _repeated,
    find_factors,
    largest_angle,
)
from identifiable.mechanistic.operator import (
    MOST,
    Frame,
    Spectrum,
    Split,
    _bounded,
    local_spectrum,
    nearest_vertex,
    spectrum,
    split,
    subspaces,
    whitened,
)
from identifiable.mechanistic.sampling import rows_allowed, rows_of
from identifiable.worlds import MovingSprites, SlotWorld
from mechanistic.blocks_world import block_jacobians, conditioned, same_partition, sine


def leaks(J: np.ndarray, *, outputs: bool = True) -> np.ndarray:
    rows = rows_of(J)
    return spectrum(whitened(rows.values, rows.eps, rows.nodes).white, rows.nodes if outputs else None).leak


@pytest.mark.parametrize("outputs", [True, False])
def test_the_leak_is_zero_up_to_the_number_of_factors_and_not_beyond(outputs: bool) -> None:
    known = block_jacobians([2, 3, 1], np.random.default_rng(0), points=6)
    leak = leaks(known.jacobians, outputs=outputs)
    assert leak[2] < 1e-12
    assert leak[3] > 0.3


@pytest.mark.parametrize("seed", range(3))
def test_one_factor_leaks_nothing_at_all(seed: int) -> None:
    """Not even the rounding of the largest eigenvalue, which is 1."""
    J = np.random.default_rng([53, seed]).standard_normal((3, 20, 4))
    local = local_spectrum([whitened(at, 1e-15).white for at in J])
    for leak in (leaks(J), leaks(J, outputs=False), local.leak):
        assert leak[0] == 0 < leak[1]


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
    assert [c.explained for c in first.counts] == pytest.approx([c.explained for c in second.counts], abs=1e-8)
    assert (first.certain, first.reason) == (second.certain, second.reason)


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


@pytest.mark.parametrize("spread", [0.01, 0.2])
def test_rows_are_repeated_where_their_lengths_spread_no_more_than_the_leak_explains(spread: float) -> None:
    """Noise of a share s in the lengths is a leak of 2 s^2."""
    one, none = np.array([1 - spread, 1 + spread]), np.zeros(2)
    rows = rows_of(np.column_stack([np.r_[one, none], np.r_[none, one]])[None])
    owners, bases = np.array([0, 0, 1, 1]), np.split(np.eye(2), 2, axis=1)
    assert _repeated(rows, owners, bases, 2.02 * spread**2)
    assert not _repeated(rows, owners, bases, 1.98 * spread**2)
    assert not _repeated(rows, owners, bases[:1], 2.02 * spread**2)  # one such factor is no accident


@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_rows_that_only_repeat_are_no_certain_split(noise: float) -> None:
    rng = np.random.default_rng(14)
    W = rng.standard_normal((4, 4))
    copies = np.concatenate([W, W, -W, W, W])[None]
    for J in (np.repeat(W[None], 10, axis=0), copies):
        found = find_factors(J + noise * rng.standard_normal(J.shape))
        assert not found.certain
        assert noise or (found.n_factors, found.reason) == (4, "square")
    gains = rng.uniform(
        0.5, 2, (10, 4, 1)
    )  # slopes that change from point to point: each output has a latent of its own
    assert noise or find_factors(W * gains).reason == "exact"


def test_copies_of_a_square_decoder_with_gains_are_no_certain_split() -> None:
    rng = np.random.default_rng(19)
    W, gains = rng.standard_normal((4, 4)), rng.uniform(0.3, 3, 6)
    copies = np.concatenate([gain * W for gain in gains])[rng.permutation(24)]
    for J in (
        copies[None],
        np.repeat(copies[None], 5, axis=0),
        W * gains[:, None, None],
        copies[None].astype(np.float32),
    ):
        assert (find_factors(J).n_factors, find_factors(J).reason) == (4, "square")
    own = np.tile(W, (6, 1)) * rng.uniform(
        0.3, 3, (24, 1)
    )  # each output has a gain of its own: four factors of six outputs
    assert (find_factors(own[None]).n_factors, find_factors(own[None]).reason) == (4, "exact")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (0.0, (3, True, "exact")),
        (0.02, (2, False, "nearly_more")),
        (0.1, (2, False, "nearly_more")),
        (1.0, (2, True, "exact")),
    ],
)
def test_an_exact_factor_that_itself_nearly_splits_is_not_certain(
    link: float, expected: tuple[int, bool, str], seed: int
) -> None:
    """Two latents of one output each, linked through all their outputs, beside a block of two."""
    rng = np.random.default_rng([28, seed])
    J = np.zeros((5, 40, 4))
    J[:, :12, 0], J[:, 12:24, 1], J[:, 24:, 2:] = (rng.standard_normal((5, *n)) for n in ((12,), (12,), (16, 2)))
    J[:, :24, :2] += link * rng.standard_normal((5, 24, 2))
    found = find_factors(J @ rng.standard_normal((4, 4)))
    assert (found.n_factors, found.certain, found.reason) == expected


def test_one_latent_whose_derivatives_repeat_is_a_factor_beside_a_block() -> None:
    rng = np.random.default_rng(15)
    J = np.zeros((6, 20, 3))
    J[:, :12, :2], J[:, 12:, 2] = rng.standard_normal((6, 12, 2)), 1
    found = find_factors(J @ rng.standard_normal((3, 3)))
    assert (found.dimensions, found.certain, found.reason) == ((2, 1), True, "exact")


@pytest.mark.parametrize(("points", "least"), [(1, 5), (5, 6)])
def test_one_factor_stays_one_whatever_the_scales_of_its_outputs(points: int, least: int) -> None:
    answers = []
    for seed in range(6):
        rng = np.random.default_rng([16, seed])
        J = rng.standard_normal((points, 40, 4)) * 10 ** rng.uniform(-3, 3, (40, 1)) @ conditioned(4, 10, rng)
        answers.append(find_factors(J))
    assert sum(found.n_factors == 1 for found in answers) >= least
    assert all(found.n_factors == 1 for found in answers if found.certain)


def test_heavy_tails_neither_split_nor_join_factors() -> None:
    one, several = [], []
    for seed in range(4):
        rng = np.random.default_rng([20, seed])
        one.append(find_factors(rng.standard_t(2, size=(8, 40, 4)) @ conditioned(4, 10, rng)))
        J = np.zeros((8, 60, 5))
        J[:, :36, :3], J[:, 36:, 3:] = rng.standard_t(1.5, size=(8, 36, 3)), rng.standard_t(1.5, size=(8, 24, 2))
        J = J @ conditioned(5, 10, rng)
        several.append(find_factors(J + 0.01 * np.median(np.abs(J)) * rng.standard_normal(J.shape)))
    assert sum(found.n_factors == 1 for found in one) >= 3
    assert sum(found.n_factors == 2 for found in several) >= 3
    assert not any(found.certain and found.n_factors != 1 for found in one)
    assert not any(found.certain and found.n_factors != 2 for found in several)


def test_long_rows_are_cut_to_where_they_hold_half() -> None:
    rows = np.random.default_rng(21).standard_t(2, size=(400, 3))
    white, triangle = np.linalg.qr(rows)
    frame = Frame(white, np.linalg.inv(triangle), triangle.T, np.zeros((3, 0)))
    cut = frame.shortened()
    assert np.allclose(cut.white.T @ cut.white, np.eye(3))
    assert np.allclose(cut.from_white.T @ cut.to_white, np.eye(3))
    before, weights = (white**2).sum(axis=1), (cut.white**2).sum(axis=1) / ((rows @ cut.to_white) ** 2).sum(axis=1)
    short = weights > 1 - 1e-9  # the same rows in the new frame
    lengths = before * weights
    assert np.ptp(lengths[~short]) < 1e-9 < lengths[short].max() <= lengths[~short].min() + 1e-9
    assert lengths[~short].sum() == pytest.approx(lengths[short].sum(), rel=0.1)


def test_a_factor_far_weaker_than_another_is_found_by_scaled_outputs_and_not_certain() -> None:
    rng = np.random.default_rng(22)
    J, owners = np.zeros((8, 45, 5)), np.repeat([0, 1], [30, 15])
    J[:, :30, :3], J[:, 30:, 3:] = rng.standard_normal((8, 30, 3)), 1e-3 * rng.standard_normal((8, 15, 2))
    J = J @ conditioned(5, 5, rng)
    J += 0.01 * J.std(axis=(0, 2), keepdims=True) * rng.standard_normal(J.shape)
    found = find_factors(J)
    assert (found.n_factors, found.certain, found.reason, found.form) == (2, False, "scales", "scaled")
    assert same_partition(found.owners, owners)
    divided = find_factors(J / J.std(axis=(0, 2), keepdims=True))
    assert (divided.n_factors, divided.certain, divided.form) == (2, True, "outputs")


@pytest.mark.parametrize("dimensions", [[1, 8], [1, 1, 1, 1, 1]])
def test_factors_of_one_dimension_are_found_beside_any_other(dimensions: list[int]) -> None:
    known = block_jacobians(dimensions, np.random.default_rng(23), points=5, noise=0.01)
    found = find_factors(known.jacobians)
    assert sorted(found.dimensions) == sorted(dimensions)
    assert same_partition(found.owners, known.owners)


def test_every_factor_starts_a_cluster_however_small_its_outputs() -> None:
    known = block_jacobians([1, 1, 4], np.random.default_rng(24), points=5, outputs=[60, 50, 12], noise=0.01)
    assert same_partition(find_factors(known.jacobians).owners, known.owners)


def test_no_output_has_more_than_its_share_of_the_leverage_in_any_basis() -> None:
    rng = np.random.default_rng(17)
    rows, outputs = rng.standard_normal((80, 4)), np.repeat(np.arange(40), 2)
    plain = whitened(rows, 1e-16, outputs).white
    assert np.allclose((plain**2).sum(axis=1), (np.linalg.qr(rows)[0] ** 2).sum(axis=1))  # nothing to bound
    rows *= 10.0 ** -(outputs[:, None] // 2)
    white = whitened(rows, 1e-16, outputs).white
    assert np.bincount(outputs, (np.linalg.qr(rows)[0] ** 2).sum(axis=1)).max() > 0.9 > 1.1 * MOST
    assert np.bincount(outputs, (white**2).sum(axis=1)).max() < 1.1 * MOST
    assert np.allclose(white.T @ white, np.eye(4))
    again = whitened(rows @ conditioned(4, 50, rng), 1e-16, outputs).white
    assert np.abs((again**2).sum(axis=1) - (white**2).sum(axis=1)).max() < 1e-8


def test_a_factor_of_three_outputs_is_found_beside_a_large_one() -> None:
    known = block_jacobians([1, 4], np.random.default_rng(18), points=5, outputs=[3, 60], noise=0.01)
    assert find_factors(known.jacobians).n_factors == 2


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


def test_two_separate_pairs_of_overlapping_slots_are_not_two_certain_factors() -> None:
    rng = np.random.default_rng(26)
    pairs = [SlotWorld.of(2, dim=2, overlap=0.25, rng=rng) for _ in range(2)]
    blocks = [world.jacobian(world.draw(8, rng=rng)) for world in pairs]
    m, d = blocks[0].shape[1:]
    J = np.zeros((8, 2 * m, 2 * d))
    J[:, :m, :d], J[:, m:, d:] = blocks
    J = J @ conditioned(2 * d, 5, rng)
    found = find_factors(J + 0.01 * J.std() * rng.standard_normal(J.shape))
    assert not (found.certain and found.n_factors == 2)


def test_banded_factors_are_certain_where_noise_is_small() -> None:
    rng = np.random.default_rng(27)
    J, first = np.zeros((8, 60, 6)), np.arange(30) // 10
    for j in range(2):
        for block in range(2):
            J[:, 30 * block + np.arange(30), 3 * block + (first + j) % 3] = rng.normal(1, 0.6, (8, 30))
    J = J @ conditioned(6, 5, rng)
    found = find_factors(J + 0.01 * J.std() * rng.standard_normal(J.shape))
    assert (found.n_factors, found.certain, found.reason) == (2, True, "separated")


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


@pytest.mark.parametrize("live", [9, 14])
def test_outputs_that_nothing_moves_change_nothing(live: int) -> None:
    """Nor do they make few outputs enough for the local form, which takes four for each latent."""
    J = np.random.default_rng(27).standard_normal((6, live, 3))
    padded = np.zeros((6, live + 20, 3))
    places = np.r_[:4, 24 : live + 20]
    padded[:, places] = J
    alone, among = find_factors(J), find_factors(padded)
    assert [one.form for one in among.counts] == [one.form for one in alone.counts]
    assert ("local" in [one.form for one in alone.counts]) == (live > 12)
    for one, other in zip(alone.counts, among.counts, strict=True):
        np.testing.assert_allclose(one.found.leak, other.found.leak, atol=1e-9)
    assert (among.n_factors, among.reason, among.at_points) == (alone.n_factors, alone.reason, alone.at_points)
    assert np.array_equal(among.owners[places], alone.owners)
    assert (np.delete(among.owners, places) == -1).all()


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


def test_a_sample_does_not_depend_on_the_basis_or_the_order_of_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(25)
    J = block_jacobians([2, 3], rng, points=24, outputs=[60, 90], noise=0.02).jacobians
    J[:, ::3] *= rng.random((24, 50, 1)) < 0.3  # outputs that are still at some points
    monkeypatch.setattr("identifiable.mechanistic.sampling.WORK", 1.0)
    monkeypatch.setattr("identifiable.mechanistic.sampling.LEAST_ROWS", 800)
    order = rng.permutation(150)
    first, turned, permuted = (find_factors(each) for each in (J, J @ conditioned(5, 100, rng), J[:, order]))
    assert not first.complete
    assert first.rows == turned.rows == permuted.rows < 1000
    assert np.abs(first.leak - turned.leak).max() < 1e-8
    assert np.abs(first.leak - permuted.leak).max() < 1e-8
    assert first.n_factors == turned.n_factors == permuted.n_factors == 2
    assert np.array_equal(first.owners, turned.owners)
    assert same_partition(first.owners[order], permuted.owners)
    assert rows_of(J, seed=1, allowed=800).values.shape != rows_of(J, seed=2, allowed=800).values.shape


def test_the_sums_of_a_sample_are_those_of_all_rows_on_average() -> None:
    J = np.random.default_rng(26).standard_normal((40, 30, 3)) * np.geomspace(0.1, 3, 30)[:, None]
    whole = J.reshape(-1, 3).T @ J.reshape(-1, 3)
    samples = [rows_of(J, seed=seed, allowed=150) for seed in range(60)]
    scale = np.linalg.inv(np.linalg.cholesky(whole))
    found = [scale @ (rows.values.T @ rows.values) @ scale.T for rows in samples]
    assert not any(rows.complete for rows in samples)
    assert np.abs(np.mean(found, axis=0) - np.eye(3)).max() < 0.05
    assert np.max([np.abs(each - np.eye(3)).max() for each in found]) > 0.1  # a single sample is not all rows
    assert np.mean([len(rows.values) for rows in samples]) == pytest.approx(150, rel=0.1)


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
    assert (one_output.certain, one_output.reason) == (False, "few_rows")
    assert not find_factors(rng.standard_normal((1, 6, 3))).certain
    asleep = block_jacobians([2, 2], rng, points=6).jacobians
    asleep[3] = 0
    assert find_factors(asleep).at_points == (2, 2, 2, 0, 2, 2)
    several = find_factors(rng.standard_normal((9, 1, 2)))
    assert several.n_factors >= 1
    with pytest.raises(DataError, match="zero"):
        find_factors(np.zeros((2, 3, 2)))


def test_the_largest_angle_is_that_of_the_planes() -> None:
    tilted = np.array([[1.0, 0.0], [0.0, np.cos(0.3)], [0.0, np.sin(0.3)]])
    assert largest_angle(np.eye(3)[:, :2], tilted) == pytest.approx(np.degrees(0.3))
    assert largest_angle(tilted, tilted) == pytest.approx(0.0, abs=1e-6)
    assert largest_angle(np.eye(3)[:, :1], np.eye(3)[:, 1:2]) == largest_angle(tilted, tilted[:, :1]) == 90.0


@pytest.mark.parametrize("points", [LEAST_POINTS, LEAST_POINTS - 1])
def test_points_are_drawn_again_where_there_are_enough_and_outputs_left_out_else(points: int) -> None:
    rows = rows_of(block_jacobians([2, 2], np.random.default_rng(7), points=points).jacobians)
    white = whitened(rows.values, rows.eps, rows.nodes).white
    view = Stacked(white, rows.nodes, rows.points, rows.outputs, "rows", points).resampled(np.random.default_rng(0))
    assert view is not None
    assert np.allclose(view.white.T @ view.white, np.eye(4))
    drawn = {k: sorted(view.outputs[view.points == k]) for k in np.unique(view.points)}
    whole = sorted(rows.outputs[rows.points == 0])
    if points >= LEAST_POINTS:
        assert len(drawn) < points
        assert all(outputs == whole for outputs in drawn.values())
    else:
        assert len(drawn) == points
        assert all(outputs == drawn[0] for outputs in drawn.values())
        assert 0 < len(drawn[0]) < len(whole)


def two_planes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """White rows in one of two orthogonal planes, turned, and which."""
    rng = np.random.default_rng(seed)
    owners = np.repeat([0, 1], 10)
    rows = np.zeros((20, 4))
    for k in range(2):
        rows[owners == k, 2 * k : 2 * k + 2] = np.linalg.qr(rng.standard_normal((10, 2)))[0]
    return rows @ np.linalg.qr(rng.standard_normal((4, 4)))[0], owners


def test_rows_with_a_wrong_owner_go_where_most_of_them_is() -> None:
    white, owners = two_planes(0)
    said = owners.copy()
    said[3] = 1  # by its position
    positions, sizes = np.eye(5)[said], (white**2).sum(axis=1)
    found = split(white, Spectrum(np.array([0.0, 0, 0.5, 0.5, 0.5]), positions, sizes), 2)
    assert same_partition(found.owners, owners)
    assert not same_partition(said, owners)
    assert found.dimensions == (2, 2)
    for k, part in enumerate(found.parts):
        mine = white[found.owners == k]
        assert np.allclose(mine @ part @ part.T, mine)
    twice = np.repeat(np.arange(20), 2)  # an output with two rows
    by_output = split(white[twice], Spectrum(np.array([0.0, 0, 0.5, 0.5, 0.5]), positions, 2 * sizes), 2, twice)
    assert same_partition(by_output.owners, owners)
    assert len(by_output.owners) == 20


def test_the_local_form_has_the_axes_of_its_first_point() -> None:
    first, owners = two_planes(1)
    second, _ = two_planes(2)
    view = PointByPoint([first, second])
    found = view.split(view.spectrum(), 2)
    assert same_partition(found.owners, owners)
    for k, part in enumerate(found.parts):
        assert np.allclose(first[found.owners == k] @ part @ part.T, first[found.owners == k])
        assert not np.allclose(second[found.owners == k] @ part @ part.T, second[found.owners == k])
    count = Count("local", view.spectrum(), found, 2, 2, None, 0.5)
    assert "positions" not in repr(count)
    frame = Frame(second, np.eye(4), np.eye(4), np.zeros((4, 0)))
    here = _local_subspaces(_AtPoint(np.arange(20), second, frame), count, 2)
    for k, part in enumerate(here):
        assert np.allclose(second[found.owners == k] @ part @ part.T, second[found.owners == k])
    fewer = _AtPoint(np.arange(19), second[1:], replace(frame, white=second[1:]))
    assert _local_subspaces(fewer, count, 2) == _local_subspaces(_AtPoint(np.arange(20), second, frame), count, 3) == []


@pytest.mark.parametrize("allowed", [None, 30])
def test_parts_of_the_jacobians_are_read_once_each(allowed: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    J = np.random.default_rng(4).standard_normal((7, 6, 3))
    whole = rows_of(J, allowed=allowed)
    monkeypatch.setattr("identifiable.mechanistic.sampling.HELD", 2 * 32 * 6 * 3)  # two points at a time
    parts = rows_of(J, allowed=allowed)
    assert whole.complete == parts.complete == (allowed is None)
    assert np.allclose(whole.values, parts.values)
    for name in ("points", "outputs", "nodes"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name))
    if allowed is None:
        assert np.array_equal(parts.values, J.reshape(-1, 3))


def test_the_largest_angle_of_bases_that_rounding_makes_longer_than_1_is_a_right_one() -> None:
    longer = (1 + 1e-12) * np.eye(3)[:, :1]
    assert largest_angle(np.eye(3)[:, 1:2], longer) == 90.0
    assert largest_angle(np.eye(3)[:, :1], longer) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_upright_rows_are_the_same_in_every_basis(size: int) -> None:
    rng = np.random.default_rng([12, size])
    rows = rng.standard_normal((7, size))
    found = _upright(rows)
    assert np.allclose(found @ found.T, rows @ rows.T)  # turned or mirrored, not bent
    for _ in range(4):
        turn = np.linalg.qr(rng.standard_normal((size, size)))[0]
        assert np.allclose(_upright(rows @ turn), found)
        assert np.allclose(_upright(-rows @ turn), found)
    longest = np.argmax((rows**2).sum(axis=1))
    assert np.allclose(found[longest], np.eye(size)[0] * np.linalg.norm(rows[longest]))
    assert not np.allclose(_upright(rows[::-1]), found)


def test_fewer_rows_than_directions_stay_as_they_are() -> None:
    rows = np.random.default_rng(13).standard_normal((2, 3))
    assert np.array_equal(_upright(rows), rows)
    assert not np.allclose(_upright(rows[:, :2]), rows[:, :2])


@pytest.mark.parametrize("form", ["rows", "outputs"])
def test_turned_rows_keep_sizes_and_factors_and_lose_their_directions(form: str) -> None:
    white, owners = two_planes(3)
    nodes = np.arange(20) // 2  # two rows of each output; owners of rows, or of outputs
    view = Stacked(white, nodes, np.arange(20) % 2, nodes, form, 2)
    of_nodes = owners if form == "rows" else owners[::2]
    basis = np.concatenate([np.linalg.svd(white[owners == k])[2][:2] for k in range(2)]).T
    parts = Split(of_nodes, basis, (2, 2))
    turned = view.turned(parts, np.random.default_rng(0))
    assert turned is not None
    assert np.allclose(turned.white.T @ turned.white, np.eye(4))
    for k, columns in enumerate((slice(0, 2), slice(2, 4))):
        assert np.allclose(np.delete(turned.white[owners == k], columns, axis=1), 0)  # in its own factor, nowhere else
    inner, before = turned.white @ turned.white.T, white @ white.T
    within = owners[:, None] == owners
    assert not np.allclose(inner[within], before[within], atol=0.05)
    again = view.turned(parts, np.random.default_rng(0))
    assert again is not None
    assert np.array_equal(again.white, turned.white)


def test_rotations_are_orthogonal_and_of_both_signs() -> None:
    turns = _rotations(200, 3, np.random.default_rng(5))
    assert np.allclose(turns @ turns.transpose(0, 2, 1), np.eye(3))
    assert 0.3 < (np.linalg.det(turns) > 0).mean() < 0.7
    assert (
        np.abs(turns.mean(axis=0)).max() < 0.2
    )  # without the signs of the triangle the diagonal is below 0 on average


@pytest.mark.parametrize("points", [LEAST_POINTS, LEAST_POINTS - 1])
def test_the_local_form_draws_points_again_where_there_are_enough_and_leaves_outputs_out_else(points: int) -> None:
    whites = [two_planes(k)[0] for k in range(points)]
    again = PointByPoint(whites).resampled(np.random.default_rng(0))
    assert again is not None
    assert again.n_points == points
    if points >= LEAST_POINTS:
        drawn = [next(i for i, white in enumerate(whites) if white is each) for each in again.whites]
        assert len(set(drawn)) < points
    else:
        kept = int(np.ceil((1 - LEFT_OUT) * 20))
        assert [white.shape for white in again.whites] == [(kept, 4)] * points
        assert all(np.allclose(white.T @ white, np.eye(4)) for white in again.whites)


def test_rows_that_lost_a_direction_are_not_made_white() -> None:
    white, _ = two_planes(4)
    assert np.allclose(_white_again(3 * white), white)
    mixed = white @ np.array([[2.0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 5]])
    found = _white_again(mixed)
    values, vectors = np.linalg.eigh(mixed.T @ mixed)
    assert np.allclose(found, mixed @ vectors @ np.diag(values**-0.5) @ vectors.T)
    assert _white_again(white * [1, 1, 1, 0]) is None
    assert PointByPoint([white])._with([white, None]) is None


def certain_count(**changes: object) -> Count:
    """Two factors with everything that a certain answer needs."""
    found = Spectrum(np.array([0.0, 0.1, 0.9, 0.9]), np.zeros((20, 4)), np.ones(20))
    parts = Split(np.arange(20) % 2, np.eye(3), (2, 1))
    return replace(Count("outputs", found, parts, 2, 2, 0.8, 1.0, 1.0), **changes)


def leaks_of(*values: float) -> Spectrum:
    return Spectrum(np.array(values), np.zeros((20, 4)), np.ones(20))


@pytest.mark.parametrize(
    ("changes", "rows", "why"),
    [
        ({}, 12, None),
        ({}, 11, "few_rows"),
        ({"likely": 3}, 12, "accident"),
        ({"without": 0.1 / 0.29}, 12, None),
        ({"without": 0.1 / 0.31}, 12, "overlap"),
        ({"explained": 1.12}, 12, None),  # 0.9 of 1.125 is 0.8
        ({"explained": 1.13}, 12, "more_structure"),
        ({"found": leaks_of(0.0, 0.01, 0.9, 0.9), "explained": 1.49}, 12, None),  # clear: 0.6
        ({"found": leaks_of(0.0, 0.01, 0.9, 0.9), "explained": 1.51}, 12, "more_structure"),
        ({"agreement": 0.8}, 12, None),
        ({"agreement": 0.79}, 12, "unstable"),
        ({"agreement": None}, 12, "unstable"),
    ],
)
def test_every_limit_of_a_certain_number_has_its_code(changes: dict, rows: int, why: str | None) -> None:
    assert judged(certain_count(**changes), rows, 3) == why


def test_one_factor_has_limits_of_its_own_and_other_forms_are_asked() -> None:
    one = certain_count(n_factors=1, likely=1, found=leaks_of(0.0, 0.86, 0.9, 0.9), without=None)
    assert (one.separation, one.separated, one.leak, one.next_leak) == (1.0, 0, 0.0, 0.86)
    assert judged(one, 12, 3) is None
    assert judged(replace(one, explained=1.02), 12, 3) == "more_structure"
    assert judged(one, 12, 3, [replace(one, found=leaks_of(0.0, 0.61, 0.9, 0.9))]) is None
    assert judged(one, 12, 3, [replace(one, found=leaks_of(0.0, 0.59, 0.9, 0.9))]) == "more_structure"
    two = certain_count()
    assert judged(one, 12, 3, [two]) == judged(two, 12, 3, [replace(two, n_factors=3, likely=3)]) == "more_structure"
    assert judged(two, 12, 3, [one, two]) is None
    clear = replace(two, found=leaks_of(0.0, 0.01, 0.9, 0.9))
    assert judged(clear, 12, 3, [replace(two, n_factors=3, likely=3)]) is None


def test_separation_is_the_leak_over_the_smaller_of_its_neighbours() -> None:
    two = certain_count()
    assert (two.leak, two.next_leak) == (0.1, 0.9)
    assert two.separation == pytest.approx(0.1 / 0.8)
    assert replace(two, without=0.95).separation == pytest.approx(0.1 / 0.9)
    assert replace(two, without=None).separation == pytest.approx(0.1 / 0.9)
    assert (two.separated, replace(two, without=0.3).separated) == (2, 0)
    assert replace(two, found=leaks_of(0.0, 0.3, 1.0, 1.0), without=1.0).separated == 2  # at the limit


@pytest.mark.parametrize(
    ("leak", "number"),
    [([0.0, 0.9, 1.0], 1), ([0.0, 0.1, 0.9, 1.0], 2), ([0.0, 0.0, 0.0, 0.4], 3), ([0.0, 1e-9, 0.2, 0.6], 3)],
)
def test_the_likely_number_is_where_the_leak_rises_most(leak: list[float], number: int) -> None:
    by_hand = max(range(1, len(leak)), key=lambda K: (leak[K] + 0.5) / (leak[K - 1] + 0.5))
    assert likely_number(np.array(leak)) == by_hand == number


def one_dense(seed: int) -> list[_AtPoint]:
    """Points of one dense factor of four latents."""
    rng = np.random.default_rng(seed)
    points = []
    for _ in range(6):
        values = rng.standard_normal((40, 4))
        points.append(_AtPoint(np.arange(40), values, whitened(values, 2.2e-16)))
    return points


def test_a_number_of_the_local_form_holds_where_no_few_outputs_make_it() -> None:
    J = block_jacobians([2, 2], np.random.default_rng(8), points=6).jacobians
    points = [_AtPoint(np.arange(len(values)), values, whitened(values, 2.2e-16)) for values in J]
    empty = _AtPoint(np.arange(0), J[0][:0], points[0].frame)
    assert not _by_few([*points, empty], 2.2e-16, 2)
    assert _by_few(points, 2.2e-16, 1)
    assert _by_few(one_dense(0), 2.2e-16, 2)
    assert not _by_few(one_dense(0), 2.2e-16, 1)


@pytest.mark.parametrize("seed", range(5))
def test_nodes_end_at_the_nearest_of_the_means_of_their_vertices(seed):
    rng = np.random.default_rng(seed)
    positions, sizes = rng.standard_normal((40, 3)), rng.uniform(0.5, 2, 40)
    owners = nearest_vertex(Spectrum(np.array([0.0, 0, 0, 0.5, 0.6]), positions, sizes), 3)
    means = np.stack([np.average(positions[owners == k], axis=0, weights=sizes[owners == k]) for k in range(3)])
    distances = ((positions[:, None] - means) ** 2).sum(axis=2)
    np.testing.assert_array_equal(owners, distances.argmin(axis=1))


def test_two_noisy_latents_are_two_factors_at_each_point_and_one_where_the_other_moves_nothing() -> None:
    """Each row moves with one latent; at the first point the second latent moves nothing."""
    rng = np.random.default_rng(0)
    J = 0.02 * rng.standard_normal((6, 40, 2))
    J[:, :20, 0] += rng.standard_normal((6, 20))
    J[:, 20:, 1] += rng.standard_normal((6, 20))
    J[0, :, 1] = 0
    assert find_factors(J).at_points == (1, 2, 2, 2, 2, 2)


def test_rows_of_one_point_are_its_outputs_and_asked_once() -> None:
    J = np.random.default_rng(0).standard_normal((2, 30, 3))
    for points, forms in ((1, {"outputs"}), (2, {"outputs", "rows"})):
        tried = [each.form for each in find_factors(J[:points]).counts]
        assert set(tried) & {"outputs", "rows"} == forms


def test_points_that_show_fewer_factors_by_themselves_leave_the_number_uncertain() -> None:
    """All points together find two factors in noise that hides them at single points."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        noisy = block_jacobians([3, 3], rng, points=50, outputs=[15, 15], condition=20.0, noise=0.1).jacobians
        found = find_factors(noisy)
        assert (found.n_factors, found.certain, found.reason) == (2, False, "points_differ")
        assert np.mean([k >= 2 for k in found.at_points]) < AGREED


def test_points_that_show_the_factors_leave_the_number_certain() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        found = find_factors(block_jacobians([3, 3], rng, points=50, outputs=[15, 15], noise=0.02).jacobians)
        assert (found.n_factors, found.certain, found.reason) == (2, True, "separated")


def _point(values: np.ndarray) -> _AtPoint:
    return _AtPoint(np.arange(len(values)), values, whitened(values, 1e-16))


def test_a_point_that_splits_further_or_has_too_few_rows_does_not_speak_against_the_number() -> None:
    rng = np.random.default_rng(0)
    many, few = ([_point(rng.standard_normal((m, 3)))] for m in (30, 6))
    assert not _differ(many * 5, [3, 3, 3, 3, 2], 2)
    assert not _differ(many * 5, [1, 2, 2, 2, 2], 2)
    assert _differ(many * 5, [1, 1, 2, 2, 2], 2)
    assert not _differ(few * 5, [1, 1, 1, 1, 1], 2)


def changing_mixing(points: int, seed: int) -> np.ndarray:
    """Two noisy blocks, mixed anew at each point: only the local form finds them."""
    rng = np.random.default_rng(seed)
    blocks = block_jacobians([2, 2], rng, points=points, outputs=[30, 30], condition=1.0).jacobians
    J = np.stack([point @ rng.standard_normal((4, 4)) for point in blocks])
    return np.asarray(J + 0.01 * J.std() * rng.standard_normal(J.shape))


def test_a_number_of_the_local_form_that_few_outputs_make_is_not_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    J = changing_mixing(12, 10)
    found = find_factors(J)
    assert (found.n_factors, found.form, found.certain, found.reason) == (2, "local", True, "separated")
    monkeypatch.setattr(factors, "_by_few", lambda *_: True)
    found = find_factors(J)
    assert (found.n_factors, found.form, found.certain, found.reason) == (2, "local", False, "unstable")


def test_a_point_where_nothing_moves_changes_no_owner_of_the_local_form() -> None:
    J = changing_mixing(12, 10)
    alive = find_factors(J)
    found = find_factors(np.concatenate([J, np.zeros((1, *J.shape[1:]))]))
    assert (found.n_factors, found.form, found.at_points[-1]) == (2, "local", 0)
    np.testing.assert_array_equal(found.owners, alive.owners)
    assert found.owned == pytest.approx(alive.owned, abs=1e-12)


def test_agreement_is_the_share_of_resamples_that_find_the_same_number():
    def of(leak):
        return SimpleNamespace(spectrum=lambda: SimpleNamespace(leak=np.array(leak)))

    two, three = of([0, 1e-6, 0.5, 0.6]), of([0, 1e-6, 2e-6, 0.6])
    drawn = iter([two] * 5 + [three] * 2 + [None] * 3)
    view = SimpleNamespace(resampled=lambda rng: next(drawn))
    assert counting.agreement(view, 2, np.random.default_rng(73)) == 0.5


def test_rows_are_a_sample_from_where_the_operator_of_all_would_take_more_than_its_work():
    assert rows_allowed(20) == int(2e9 / 210**2)
    assert rows_allowed(2) == 2**26 // 16
    assert rows_allowed(200) == 4000


def test_an_output_whose_rows_cancel_counts_and_is_bounded():
    rows = np.array([3.0, -3.0, *[1.0, -1.0] * 8])[:, None]
    nodes = np.repeat(np.arange(9), 2)
    white, _ = _bounded(rows / np.linalg.norm(rows), nodes, MOST)
    assert np.bincount(nodes, white[:, 0] ** 2).max() < MOST + 0.01
    assert (white**2).sum() == pytest.approx(1)


def test_rows_whose_entries_cancel_are_live():
    white = np.array([[1.0, -1.0]] * 8)
    nothing = np.zeros((2, 0))
    assert _enough(_AtPoint(np.arange(8), white, Frame(white, np.eye(2), np.eye(2), nothing)))
    assert not _enough(_AtPoint(np.arange(8), white, Frame(white * ([1], *[[0]] * 7), np.eye(2), np.eye(2), nothing)))


def test_outputs_move_only_where_less_than_the_limit_is_with_their_owners():
    found = find_factors(np.random.default_rng(73).standard_normal((2, 12, 2)))
    assert [replace(found, owned=owned).moving for owned in (OWNED, np.nextafter(OWNED, 0))] == [False, True]


def test_the_subspaces_of_a_split_are_those_of_its_owners():
    rng = np.random.default_rng(73)
    rows = 0.1 * rng.standard_normal((20, 4))
    rows[:10, :2] += rng.standard_normal((10, 2))
    rows[10:, 2:] += rng.standard_normal((10, 2))
    white = np.linalg.qr(rows)[0]
    wrong = np.eye(2)[np.r_[np.zeros(11, int), np.ones(9, int)]]  # one of the second factor stands with the first
    found = split(white, Spectrum(np.array([0, 0, 1.0, 1, 1]), wrong, (white**2).sum(axis=1)), 2)
    np.testing.assert_array_equal(found.owners, np.repeat([0, 1], 10))
    axes, dimensions = subspaces(white, found.owners, 2)
    assert found.dimensions == dimensions == (2, 2)
    np.testing.assert_array_equal(found.axes, axes)
