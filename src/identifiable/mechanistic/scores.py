"""Types of mechanistic independence as numbers, for blocks of latents that are given. Every score is free of scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.jacobians import Product
from identifiable.mechanistic.exact import Values
from identifiable.moments import Array

Blocks = Sequence[Sequence[int]]
Support = NDArray[np.bool_]

ACTIVE = 1e-2  # of a column's or block's root mean square: a smaller derivative is none
CANDIDATES = 200_000  # sets of rows that the exact sparsity gap may try
ZERO = 1e-9  # of the largest entry: rounding of a product
DIRECTIONS = 8  # pairs of directions for each block, in second differences


@dataclass(frozen=True)
class BlockScores:
    """How independent given blocks are. `contrast` and the next two are about Type D, `non_inclusion` and `margin` about Type M.

    contrast           compositional contrast, each block divided by its root mean square: 0 for disjoint outputs, 1 for blocks that
                       move every output alike
    overlap            share of the live outputs that two or more blocks move
    interaction        interaction score of Brady et al. 2024: 1 if every output has one block, 0 if all blocks move it alike
    non_inclusion      over pairs of latents of different blocks, the smallest share of points where neither support contains the other
    margin             over the same pairs, the smallest mean number of outputs that one moves and the other does not, over outputs
    ima                Σ log |column| - log volume, mean over points: 0 if columns are orthogonal; None where J loses a direction
    block_ima          the same for blocks: 0 if the blocks are orthogonal to each other
    """

    contrast: float
    overlap: float
    interaction: float
    non_inclusion: float | None
    margin: float | None
    ima: float | None
    block_ima: float | None


def block_scores(jacobians: Values, blocks: Blocks, *, active: float = ACTIVE) -> BlockScores:
    r"""Scores of blocks of latents, from Jacobians (points, outputs, latents).

    Implements the compositional contrast of Brady et al. 2023, Σ_{i<j} |J_n,i| |J_n,j| over outputs n, the interaction score of
    Brady et al. 2024 and the IMA contrast of Gresele et al. 2021 with half the log determinant of JᵀJ for its volume. Reconstructed:
    Types D and M of Matthes et al. 2025 as counts over supports. Ours: each block divided by its root mean square, because the
    contrast as published falls when the latents are rescaled; and the block form of IMA.

    >>> J = np.array([[[1.0, 0], [2, 0], [0, 3]]])
    >>> found = block_scores(J, [[0], [1]])
    >>> found.contrast, found.overlap, found.interaction, found.non_inclusion
    (0.0, 0.0, 1.0, 1.0)
    """
    J = np.asarray(jacobians, np.float64)
    if J.ndim != 3:
        raise DataError(f"Jacobians: expected (points, outputs, latents), got an array of shape {J.shape}.")
    chosen = checked_blocks(blocks, J.shape[2])
    norms = np.stack([np.linalg.norm(J[:, :, b], axis=2) for b in chosen], axis=2)
    sizes = np.sqrt((norms**2).mean(axis=(0, 1)))
    unit = norms / np.where(sizes > 0, sizes, 1)
    pairs = list(combinations(range(len(chosen)), 2))
    live = norms.max(axis=2) > 0
    moved = (unit > active).sum(axis=2)
    shares = np.stack([np.abs(J[:, :, b]).sum(axis=2) for b in chosen], axis=2)
    K = len(chosen)
    top = (shares.max(axis=2)[live] / shares.sum(axis=2)[live]).mean() if live.any() else 1.0
    non_inclusion, margin = _inclusion(supports(J, active), chosen)
    return BlockScores(
        contrast=float(np.mean([(unit[:, :, i] * unit[:, :, j]).mean() for i, j in pairs])) if pairs else 0.0,
        overlap=float((moved[live] > 1).mean()) if live.any() else 0.0,
        interaction=float((top - 1 / K) / (1 - 1 / K)) if K > 1 else 1.0,
        non_inclusion=non_inclusion,
        margin=margin,
        ima=_ima(J, [[a] for b in chosen for a in b]),
        block_ima=_ima(J, chosen),
    )


def checked_blocks(blocks: Blocks, latents: int) -> list[list[int]]:
    chosen = [[int(a) for a in block] for block in blocks]
    listed = [a for block in chosen for a in block]
    if not chosen or not all(chosen) or len(set(listed)) < len(listed) or any(not 0 <= a < latents for a in listed):
        raise UsageError(
            f"blocks: expected disjoint lists of latents from 0 to {latents - 1}, none empty, got {chosen}."
        )
    return chosen


def supports(jacobians: Values, active: float = ACTIVE) -> Support:
    """Which outputs each latent moves, at each point: derivatives above a share of the column's root mean square."""
    J = np.abs(np.asarray(jacobians, np.float64))
    return np.asarray(active * np.sqrt((J**2).mean(axis=(0, 1))) < J)


def _inclusion(moved: Support, blocks: Blocks) -> tuple[float | None, float | None]:
    shares, margins = [], []
    for first, second in combinations(blocks, 2):
        for a in first:
            for b in second:
                only_a = (moved[:, :, a] & ~moved[:, :, b]).sum(axis=1)
                only_b = (moved[:, :, b] & ~moved[:, :, a]).sum(axis=1)
                least = np.minimum(only_a, only_b)
                shares.append(float((least > 0).mean()))
                margins.append(float(least.mean() / moved.shape[1]))
    return (min(shares), min(margins)) if shares else (None, None)


def _ima(J: Array, blocks: Blocks) -> float | None:
    """Sum of log block volumes minus the log volume of all of them, mean over points."""
    everything = [a for block in blocks for a in block]
    with np.errstate(divide="ignore"):
        whole = _log_volume(J[:, :, everything])
        parts = sum(_log_volume(J[:, :, block]) for block in blocks)
    if not np.isfinite(whole).all():
        return None
    return max(0.0, float(np.mean(parts - whole)))


def _log_volume(J: Array) -> Array:
    sizes = np.linalg.svd(J, compute_uv=False)
    lost = (J.shape[1] < J.shape[2]) | (sizes[:, -1] <= ZERO * sizes[:, 0])
    result: Array = np.where(lost, -math.inf, np.log(sizes).sum(axis=1))
    return result


# -- supports of single latents


def structural_sparsity(support: Support) -> bool:
    """Whether, for every latent k, some outputs have supports that intersect in {k} alone (Zheng et al. 2022).

    Implements structural sparsity, which is Type M with factors of one dimension (`mutually_non_included`). Proof (ours). Adding an
    output that k moves to a set can only shrink the intersection and never drops k, so the best set is all outputs that k moves,
    Ω_k. Their supports intersect in {k} if and only if for each other j some output of Ω_k is not moved by j: Ω_k is not in Ω_j.

    >>> structural_sparsity(np.array([[True, False], [True, True], [False, True]]))
    True
    """
    S = np.asarray(support, bool)
    return all(S[:, k].any() and np.array_equal(np.flatnonzero(S[S[:, k]].all(axis=0)), [k]) for k in range(S.shape[1]))


def mutually_non_included(support: Support) -> bool:
    """Type M for latents of one dimension each: no support contains another.

    >>> mutually_non_included(np.array([[True, True], [False, True]]))
    False
    """
    S = np.asarray(support, bool)
    pairs = ((a, b) for a in range(S.shape[1]) for b in range(S.shape[1]) if a != b)
    return bool(S.any(axis=0).all()) and all((S[:, a] & ~S[:, b]).any() for a, b in pairs)


# -- Type S


@dataclass(frozen=True)
class SparsityGap:
    """Type S holds if `gap` is positive: every basis that mixes blocks has more nonzero derivatives than the sparsest one that does not.

    aligned    fewest nonzero derivatives over bases that keep the blocks
    mixed      fewest over those that do not
    """

    aligned: int
    mixed: int

    @property
    def gap(self) -> int:
        return self.mixed - self.aligned

    @property
    def relative(self) -> float:
        return self.gap / self.aligned


def sparsity_gap(jacobian: Values, blocks: Blocks) -> SparsityGap:
    r"""The sparsity gap of one Jacobian (outputs, latents), exactly.

    Reconstructed from second-hand notes of Matthes et al. 2025: rho_minus - rho_plus. Ours: how it is found. Latent directions a with
    weight |J a|_0 are a weighted matroid, so the sparsest basis is greedy over elementary vectors, those that make d - 1 rows of
    rank d - 1 vanish. A basis that mixes differs from the aligned one by one exchange at least: a mixed vector v enters for the
    heaviest vector of its circuit. Candidates are mixed elementary vectors and sums of two aligned ones.

    For problems of up to 200,000 sets of rows (30 outputs and 4 latents: 4,060). Two factors of one dimension with n outputs each, o
    of them shared: n - 2 o where the shared derivatives are proportional, n - 1 - o where they are generic and o is at least 1. Two
    generic factors of two dimensions: n - 2 - o for o at least 1.

    >>> J = np.zeros((11, 2))
    >>> J[:6, 0] = J[5:, 1] = 1
    >>> sparsity_gap(J, [[0], [1]]).gap
    4
    """
    J = np.asarray(jacobian, np.float64)
    if J.ndim != 2:
        raise DataError(f"Jacobian: expected (outputs, latents) of one point, got an array of shape {J.shape}.")
    d = J.shape[1]
    chosen = checked_blocks(blocks, d)
    if sorted(a for b in chosen for a in b) != list(range(d)) or len(chosen) < 2:
        raise UsageError(f"blocks: expected at least two that hold all {d} latents, got {chosen}.")
    if np.linalg.matrix_rank(J) < d:
        raise DataError(
            f"Jacobian: expected rank {d}, got {np.linalg.matrix_rank(J)}; drop the directions that move nothing."
        )
    weigh, candidates = _weigher(J), _elementary(J)
    aligned: list[tuple[int, Array]] = []
    for block in chosen:
        embedded = np.eye(d)[:, block]
        found = [(weigh(embedded @ v), embedded @ v) for v in _elementary(J[:, block])]
        aligned += _greedy(found, len(block))
    total = sum(weight for weight, _ in aligned)
    inverse = np.linalg.inv(np.stack([v for _, v in aligned], axis=1))
    weights = np.array([weight for weight, _ in aligned])
    block_of = np.concatenate([[k] * len(block) for k, block in enumerate(chosen)])

    def exchanged(v: Array) -> float:
        circuit = np.abs(inverse @ v) > ZERO * np.abs(inverse @ v).max()
        mixes = len(set(block_of[circuit])) > 1
        return total + weigh(v) - weights[circuit].max() if mixes else math.inf

    best = min((exchanged(v) for v in candidates), default=math.inf)
    moved = [np.abs(J @ v) > ZERO * np.abs(J @ v).max() for _, v in aligned]
    for i, j in combinations(range(d), 2):
        if block_of[i] != block_of[j]:
            best = min(best, total + int((moved[i] | moved[j]).sum()) - max(weights[i], weights[j]))
    return SparsityGap(total, int(best))


def _weigher(J: Array) -> Callable[[Array], int]:
    def weigh(v: Array) -> int:
        return int((np.abs(J @ v) > ZERO * np.abs(J).max() * np.abs(v).max()).sum())

    return weigh


def _elementary(J: Array) -> list[Array]:
    """Directions that make d - 1 independent rows vanish."""
    live = J[np.abs(J).max(axis=1) > 0]
    m, d = live.shape
    if d == 1:
        return [np.ones(1)]
    if math.comb(m, d - 1) > CANDIDATES:
        raise UsageError(
            f"sparsity_gap: {m} outputs and {d} latents need {math.comb(m, d - 1):,} sets of rows, at most {CANDIDATES:,} are tried; "
            "choose fewer outputs."
        )
    sets = np.array(list(combinations(range(m), d - 1)))
    _, sizes, right = np.linalg.svd(live[sets], full_matrices=True)
    independent = sizes[:, -1] > ZERO * sizes[:, 0]
    return list(right[independent, -1])


def _greedy(candidates: list[tuple[int, Array]], rank: int) -> list[tuple[int, Array]]:
    """The lightest candidates that are linearly independent."""
    kept: list[tuple[int, Array]] = []
    for weight, v in sorted(candidates, key=lambda pair: pair[0]):
        if np.linalg.matrix_rank(np.stack([u for _, u in kept] + [v]), tol=math.sqrt(ZERO)) > len(kept):
            kept.append((weight, v))
        if len(kept) == rank:
            break
    return kept


# -- Type H_2


@dataclass(frozen=True)
class SecondOrder:
    """Mixed second differences, as root mean squares: `across` two blocks and `within` one. `share` is 0 for an additive decoder.

    None where both are 0: a linear decoder is additive in every basis.
    """

    across: float
    within: float

    @property
    def share(self) -> float | None:
        whole = math.hypot(self.across, self.within)
        return self.across / whole if whole > 0 else None


def second_order(jvp: Product, points: Values, blocks: Blocks, *, rng: np.random.Generator) -> SecondOrder:
    r"""Whether blocks interact: J(z + δ) v - J(z) v for δ and v in two blocks, and in the same block.

    Reconstructed: Type H_2 of Matthes et al. 2025 (the cross-block second derivative is 0; Lachapelle et al. 2023 call such
    decoders additive). Ours: a difference at the scale of the data in place of a second derivative, which is 0 almost everywhere
    for piecewise linear decoders. Along one latent alone there is no such difference within a block of one dimension but by curvature.

    >>> def squares(z, v):
    ...     return 2 * z * v
    >>> Z = np.random.default_rng(0).standard_normal((50, 2))
    >>> second_order(squares, Z, [[0], [1]], rng=np.random.default_rng(0)).share
    0.0
    """
    Z = np.asarray(points, np.float64)
    if Z.ndim != 2 or len(Z) < 2:
        raise DataError(f"points: expected at least two rows of latents, got an array of shape {Z.shape}.")
    chosen = checked_blocks(blocks, Z.shape[1])
    scale = Z.std(axis=0)
    sums = {True: [0.0, 0], False: [0.0, 0]}
    for _ in range(DIRECTIONS):
        for i, first in enumerate(chosen):
            for j, second in enumerate(chosen):
                move, along = (_direction(Z.shape, block, scale, rng) for block in (first, second))
                change = np.asarray(jvp(Z + move, along), np.float64) - np.asarray(jvp(Z, along), np.float64)
                sums[i == j][0] += float((change**2).sum())
                sums[i == j][1] += change.size
    across, within = (math.sqrt(sums[same][0] / max(sums[same][1], 1)) for same in (False, True))
    return SecondOrder(across, within)


def _direction(shape: tuple[int, ...], block: Sequence[int], scale: Array, rng: np.random.Generator) -> Array:
    """A random direction inside a block for every point, as long as the data are wide."""
    v = np.zeros(shape)
    v[:, block] = rng.standard_normal((shape[0], len(block))) * scale[block] / math.sqrt(len(block))
    return v
