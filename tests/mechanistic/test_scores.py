"""Scores of given blocks: closed forms, the hierarchy of types, and a counter-example for each converse."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from identifiable._checks import DataError, UsageError
from identifiable.mechanistic import (
    block_scores,
    mutually_non_included,
    scores,
    second_order,
    sparsity_gap,
    structural_sparsity,
)
from identifiable.mechanistic.scores import DIRECTIONS
from identifiable.worlds import SlotWorld

PAIR = [[0], [1]]


def overlapping(outputs: int, overlap: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """Two latents with `outputs` each, the last ones of the first shared: proportional, or generic with `rng`."""
    J = np.zeros((2 * outputs - overlap, 2))
    J[:outputs, 0] = 1 if rng is None else rng.standard_normal(outputs)
    J[outputs - overlap :, 1] = 1 if rng is None else rng.standard_normal(outputs)
    return J


@pytest.mark.parametrize(("overlap", "gap"), [(1, 4), (2, 2), (3, 0)])
def test_sparsity_gap_of_proportional_overlap(overlap: int, gap: int) -> None:
    assert sparsity_gap(overlapping(6, overlap), PAIR).gap == gap


@pytest.mark.parametrize("overlap", [1, 2, 3, 4])
def test_sparsity_gap_of_generic_overlap(overlap: int) -> None:
    assert sparsity_gap(overlapping(6, overlap, np.random.default_rng(overlap)), PAIR).gap == 6 - 1 - overlap


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_sparsity_gap_does_not_depend_on_the_unit_of_the_outputs(scale: float) -> None:
    J = overlapping(6, 2, np.random.default_rng(0))
    J = np.vstack([J, 3 * J[:2]])  # sets of rows that are not independent
    assert sparsity_gap(scale * J, PAIR) == sparsity_gap(J, PAIR)


def test_sparsity_gap_of_two_generic_planes() -> None:
    rng = np.random.default_rng(0)
    gaps = []
    for overlap in range(6):
        J = np.zeros((12 - overlap, 4))
        J[:6, :2], J[6 - overlap :, 2:] = rng.standard_normal((6, 2)), rng.standard_normal((6, 2))
        gaps.append(sparsity_gap(J, [[0, 1], [2, 3]]).gap)
    assert gaps == [5, 3, 2, 1, 0, -1]  # a mixed vector spares 3 of the 12 - o outputs, an aligned one has 5


def test_greedy_finds_the_sparsest_aligned_basis() -> None:
    for seed in range(5):
        rng = np.random.default_rng([1, seed])
        J = np.zeros((8, 3))
        J[:5, :2] = rng.standard_normal((5, 2)) * (rng.random((5, 2)) < 0.7)
        J[4:, 2] = 1
        J[0, 0] = J[1, 1] = 1
        best = min(
            sum(int((np.abs(J[:, :2] @ v) > 1e-9).sum()) for v in pair)
            for pair in combinations(_directions(J[:, :2]), 2)
            if abs(np.linalg.det(np.stack(pair))) > 1e-9
        )
        assert sparsity_gap(J, [[0, 1], [2]]).aligned == best + int(J[:, 2].sum())


def _directions(J: np.ndarray) -> list[np.ndarray]:
    """All directions of the plane that make a row vanish, and a generic one."""
    rows = J[np.abs(J).max(axis=1) > 0]
    return [np.array([r[1], -r[0]]) / np.linalg.norm(r) for r in rows] + [np.array([0.6, 0.8]), np.array([0.28, 0.96])]


def test_a_problem_too_large_for_the_exact_gap_says_how_large() -> None:
    with pytest.raises(UsageError, match="300"):
        sparsity_gap(np.random.default_rng(0).standard_normal((300, 6)), [[0, 1, 2], [3, 4, 5]])


def test_as_many_sets_of_rows_as_may_be_tried_are(monkeypatch: pytest.MonkeyPatch) -> None:
    J = np.random.default_rng(53).standard_normal((6, 3))
    monkeypatch.setattr(scores, "CANDIDATES", math.comb(6, 2))
    assert sparsity_gap(J, [[0], [1, 2]]).aligned == 6 + 5 + 5  # a mixture within the pair spares one output
    monkeypatch.setattr(scores, "CANDIDATES", math.comb(6, 2) - 1)
    with pytest.raises(UsageError, match="15 sets"):
        sparsity_gap(J, [[0], [1, 2]])


def test_zheng_is_type_m_of_single_latents() -> None:
    rng = np.random.default_rng(2)
    patterns = [rng.random((rng.integers(2, 7), rng.integers(2, 5))) < rng.uniform(0.3, 0.8) for _ in range(400)]
    answers = [(structural_sparsity(s), mutually_non_included(s)) for s in patterns]
    assert all(a == b for a, b in answers)
    assert {a for a, _ in answers} == {True, False}


def test_disjoint_blocks_have_all_types() -> None:
    rng = np.random.default_rng(3)
    J = np.zeros((6, 12, 4))
    J[:, :6, :2], J[:, 6:, 2:] = rng.standard_normal((6, 6, 2)), rng.standard_normal((6, 6, 2))
    blocks = [[0, 1], [2, 3]]
    found = block_scores(J, blocks)
    assert (found.contrast, found.overlap, found.interaction, found.non_inclusion) == (0, 0, 1, 1)
    assert found.margin == pytest.approx(0.5, abs=0.05)
    assert found.block_ima == pytest.approx(0, abs=1e-12)
    assert found.ima is not None
    assert found.ima > 0.01
    assert sparsity_gap(J[0], blocks).gap > 0
    world = SlotWorld.of(2, rng=rng)
    share = second_order(world.jvp, world.draw(40, rng=rng), [[0, 1, 2], [3, 4, 5]], rng=rng).share
    assert share == pytest.approx(0, abs=1e-12)


def test_type_m_without_type_d() -> None:
    J = overlapping(6, 2)[None]
    found = block_scores(J, PAIR)
    assert found.non_inclusion == 1
    assert found.overlap == pytest.approx(2 / 10)
    assert found.contrast > 0.1


def test_type_s_without_type_d() -> None:
    J = overlapping(6, 1)
    assert sparsity_gap(J, PAIR).gap > 0
    assert block_scores(J[None], PAIR).overlap > 0


def test_type_h2_without_type_d_or_m() -> None:
    def everywhere(z: np.ndarray, v: np.ndarray) -> np.ndarray:  # sin z_0 + cos z_1 at both outputs
        change = np.cos(z[:, :1]) * v[:, :1] - np.sin(z[:, 1:]) * v[:, 1:]
        return np.concatenate([change, change - np.sin(z[:, 1:]) * v[:, 1:]], axis=1)

    Z = np.random.default_rng(4).standard_normal((60, 2))
    assert second_order(everywhere, Z, PAIR, rng=np.random.default_rng(0)).share == pytest.approx(0, abs=1e-12)
    J = np.stack([everywhere(Z, np.tile(e, (60, 1))) for e in np.eye(2)], axis=2)
    assert block_scores(J, PAIR).non_inclusion == pytest.approx(0, abs=0.1)


def test_a_product_of_two_latents_is_not_additive_and_a_linear_decoder_says_nothing() -> None:
    def product(z: np.ndarray, v: np.ndarray) -> np.ndarray:
        return z[:, :1] * v[:, 1:] + z[:, 1:] * v[:, :1]

    Z = np.random.default_rng(5).standard_normal((60, 2))
    assert second_order(product, Z, PAIR, rng=np.random.default_rng(0)).share == pytest.approx(1)
    assert second_order(lambda z, v: 2 * v, Z, PAIR, rng=np.random.default_rng(0)).share is None


def test_scores_do_not_change_with_the_scale_of_a_block() -> None:
    J = np.random.default_rng(6).standard_normal((3, 9, 2))
    first, second = block_scores(J, PAIR), block_scores(J * [1, 1000], PAIR)
    for name in ("contrast", "overlap", "non_inclusion", "margin", "ima", "block_ima"):
        assert getattr(first, name) == pytest.approx(getattr(second, name), rel=1e-9)


def test_closed_forms_of_ima_and_interaction() -> None:
    angle = 0.3
    J = np.array([[[1.0, math.cos(angle)], [0, math.sin(angle)]]])
    assert block_scores(J, PAIR).ima == pytest.approx(-math.log(math.sin(angle)))
    alike = np.ones((1, 5, 2))
    assert block_scores(alike, PAIR).interaction == pytest.approx(0)
    assert block_scores(alike, PAIR).contrast == pytest.approx(1)
    assert block_scores(alike, PAIR).ima is None
    assert (
        block_scores(np.eye(5, 2)[None] * [1, 0], PAIR).ima is None
    )  # a latent that moves nothing: a volume of exactly 0


@pytest.mark.parametrize("blocks", [[], [[0], []], [[0], [0]], [[0], [2]]])
def test_blocks_must_be_disjoint_latents(blocks: list[list[int]]) -> None:
    with pytest.raises(UsageError, match="from 0 to 1"):
        block_scores(np.ones((1, 3, 2)), blocks)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(DataError, match=r"\(3, 2\)"):
        block_scores(np.ones((3, 2)), PAIR)
    with pytest.raises(DataError, match=r"\(1, 3, 2\)"):
        sparsity_gap(np.ones((1, 3, 2)), PAIR)
    with pytest.raises(DataError, match="got 1"):
        sparsity_gap(np.ones((3, 2)), PAIR)


@pytest.mark.parametrize("blocks", [[[0, 1]], [[0], [2]], [[0], [0, 1]]])
def test_blocks_that_leave_latents_out_or_are_one_have_no_gap(blocks: list[list[int]]) -> None:
    J = overlapping(6, 1, np.random.default_rng(0))
    assert sparsity_gap(J, PAIR).gap > 0
    with pytest.raises(UsageError, match="blocks"):
        sparsity_gap(J, blocks)


def test_second_differences_are_those_of_a_quadratic_at_the_scale_of_the_data() -> None:
    """f = c x y + x^2 / 2: J(z + m) v - J(z) v is c (m_x v_y + m_y v_x) + m_x v_x, with m and v as wide as each latent."""
    widths, c = np.array([2.0, 0.5]), 3.0
    rng = np.random.default_rng(12)
    Z = np.sign(rng.standard_normal((4000, 2))) * widths + 5  # of that standard deviation, whatever the mean

    def jvp(z: np.ndarray, v: np.ndarray) -> np.ndarray:
        return (c * (z[:, :1] * v[:, 1:] + z[:, 1:] * v[:, :1])) + z[:, :1] * v[:, :1]

    found = second_order(jvp, Z, PAIR, rng=rng)
    assert found.across == pytest.approx(c * widths.prod(), rel=0.03)
    assert found.within == pytest.approx(widths[0] ** 2 / math.sqrt(2), rel=0.05)
    whole = math.hypot(found.across, found.within)
    assert found.share == pytest.approx(found.across / whole)
    joined = second_order(jvp, Z, [[0, 1]], rng=rng)
    assert (joined.across, joined.share) == (0, 0)
    # both in one block, each by 1 / sqrt(2): the cross terms are of two independent products
    variance = (2 * (c * widths.prod()) ** 2 + widths[0] ** 4) / 4
    assert joined.within == pytest.approx(math.sqrt(variance), rel=0.05)


def test_second_order_is_the_root_mean_square_of_the_differences_drawn():
    def jvp(z, v):
        return np.column_stack([z[:, 0] * z[:, 1] * v[:, 0] + v[:, 1] ** 3, np.sin(z[:, 0]) * v[:, 1]])

    Z, blocks = np.random.default_rng(0).standard_normal((3, 2)) * [1, 4], [[0], [1]]
    found = second_order(jvp, Z, blocks, rng=np.random.default_rng(1))
    rng, changes = np.random.default_rng(1), {True: [], False: []}
    for _ in range(DIRECTIONS):
        for i in (0, 1):
            for j in (0, 1):
                move, along = np.zeros((3, 2)), np.zeros((3, 2))
                move[:, i] = rng.standard_normal((3, 1))[:, 0] * Z[:, i].std()
                along[:, j] = rng.standard_normal((3, 1))[:, 0] * Z[:, j].std()
                changes[i == j].append(jvp(Z + move, along) - jvp(Z, along))
    for value, same in ((found.across, False), (found.within, True)):
        assert value == pytest.approx(np.sqrt(np.mean(np.square(changes[same]))), rel=1e-12)
