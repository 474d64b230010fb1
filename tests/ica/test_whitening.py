"""Whitening never divides by what is not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.ica.contrasts import contrast
from identifiable.ica.passes import Passes
from identifiable.ica.whitening import Whitener
from identifiable.moments import Moments

Matrix = NDArray[np.float64]


def laplace_mix(seed: int, n: int, d: int) -> Matrix:
    rng = np.random.default_rng([seed, n, d])
    return np.asarray(rng.laplace(size=(n, d)) @ rng.standard_normal((d, d)) + rng.normal(0, 3, d))


def whitened(X: NDArray[Any], whitener: Whitener) -> Matrix:
    return np.asarray((np.asarray(X, np.float64) - whitener.center) @ whitener.matrix)


def whiteness_error(Z: NDArray[Any]) -> float:
    """How far the covariance of rows, about zero, is from the identity."""
    Z = np.asarray(Z, np.float64)
    return float(np.abs(Z.T @ Z / len(Z) - np.eye(Z.shape[1])).max())


def seen_rows(X: NDArray[Any], **how: Any) -> NDArray[Any]:
    """All rows whitened, as the passes see them."""
    return Passes(Blocks(X), Whitener.of(Moments.of(X), **how)).sample(10 * len(X))


# Whitening


@pytest.mark.parametrize("rank", [2, 3, 4, "auto"])
@pytest.mark.parametrize("mixed", [False, True])
def test_columns_over_twelve_decades_are_all_whitened(rank, mixed):
    rng = np.random.default_rng(0)
    X = (
        rng.laplace(size=(2000, 4))
        @ (np.eye(4) + mixed * np.triu(rng.standard_normal((4, 4))))
        * np.logspace(0, -12, 4)
    )
    whitener = Whitener.of(Moments.of(X), rank=rank)
    assert whitener.rank == (4 if rank == "auto" else rank)
    assert whiteness_error(whitened(X, whitener)) < 1e-6
    assert whiteness_error(seen_rows(X, rank=rank)) < 1e-3


@pytest.mark.parametrize("condition", [1e2, 1e5])
def test_an_ill_conditioned_mix_is_whitened_to_a_millionth(condition):
    rng = np.random.default_rng(1)
    turn, other = (np.linalg.qr(rng.standard_normal((6, 6)))[0] for _ in range(2))
    X = rng.laplace(size=(3000, 6)) @ (turn * np.logspace(0, -np.log10(condition), 6) @ other) + rng.standard_normal(6)
    whitener = Whitener.of(Moments.of(X))
    assert (whitener.rank, whitener.record.dropped) == (6, 0)
    assert whitener.record.condition == pytest.approx(condition, rel=0.5)
    assert whiteness_error(whitened(X, whitener)) < 1e-6
    assert whiteness_error(seen_rows(X)) < 3e-3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_a_huge_offset_leaves_no_mean_in_the_components(dtype, offset):
    rng = np.random.default_rng(2)
    X = (rng.laplace(size=(20_000, 3)) + offset * np.array([1, 1.1, 0.97])).astype(dtype)
    seen = seen_rows(X)
    assert np.abs(seen.mean(axis=0, dtype=np.float64)).max() < 1e-4
    assert whiteness_error(seen) < 1e-4


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_directions_without_variance_are_dropped_and_never_divided_by(rank, mean):
    rng = np.random.default_rng(rank)
    X = rng.laplace(size=(400, rank)) @ rng.standard_normal((rank, 6)) + mean
    X = np.hstack([X, np.full((400, 2), 7.5)])
    whitener = Whitener.of(Moments.of(X))
    assert (whitener.matrix.shape, whitener.back.shape) == ((8, rank), (rank, 8))
    assert (whitener.record.rank, whitener.record.dropped, whitener.record.constant) == (rank, 8 - rank, 2)
    assert np.isfinite(whitener.matrix).all()
    white = whitened(X, whitener)
    assert whiteness_error(white) < 1e-6
    np.testing.assert_allclose(white @ whitener.back, X - X.mean(axis=0), atol=1e-6)
    full = Whitener.of(Moments.of(X + 1e-2 * rng.standard_normal(X.shape)))
    assert (full.rank, full.record.dropped, full.record.constant) == (8, 0, 0)


@pytest.mark.parametrize(("change", "rank"), [(0.0, 2), (1e-9, 2), (1e-4, 3), (1.0, 3)])
def test_a_duplicated_column_is_dropped_and_a_nearly_duplicated_one_kept(change, rank):
    rng = np.random.default_rng(3)
    two = rng.laplace(size=(1000, 2))
    X = np.column_stack([two, two[:, 0] + change * rng.laplace(size=1000)])
    whitener = Whitener.of(Moments.of(X))
    assert whitener.rank == rank
    assert whiteness_error(whitened(X, whitener)) < 1e-6


@pytest.mark.parametrize("n", [2, 3, 10, 20])
def test_fewer_rows_than_columns_leave_one_direction_less_than_rows(n):
    X = np.random.default_rng(4).standard_normal((n, 20))
    whitener = Whitener.of(Moments.of(X))
    assert whitener.rank == n - 1
    assert whiteness_error(whitened(X, whitener)) < 1e-6


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_given_rank_keeps_the_leading_principal_directions(rank):
    X = laplace_mix(0, 800, 4)
    whitener = Whitener.of(Moments.of(X), rank=rank)
    centred = X - X.mean(axis=0)
    _, spread, right = np.linalg.svd(centred, full_matrices=False)
    leading = right[:rank].T
    assert (whitener.rank, whitener.record.rule, whitener.record.dropped) == (rank, "given", 4 - rank)
    assert whiteness_error(whitened(X, whitener)) < 1e-9
    np.testing.assert_allclose(whitener.matrix, leading @ (leading.T @ whitener.matrix), atol=1e-9)
    np.testing.assert_allclose(whitened(X, whitener) @ whitener.back, centred @ leading @ leading.T, atol=1e-8)
    np.testing.assert_allclose(whitener.record.spectrum, spread / np.sqrt(800), rtol=1e-9)


def test_the_effective_rank_counts_directions_by_entropy():
    rng = np.random.default_rng(5)
    even = np.linalg.qr(rng.standard_normal((100, 4)))[0]
    even -= even.mean(axis=0)
    assert Whitener.of(Moments.of(even)).record.effective_rank == pytest.approx(4, rel=0.02)
    steep = even * [1, 1e-4, 1e-4, 1e-4]
    assert Whitener.of(Moments.of(steep)).record.effective_rank == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("rank", [0, 4, 99])
def test_a_rank_that_is_not_there_says_how_many_are(rank):
    X = laplace_mix(0, 100, 4)
    X[:, 3] = X[:, 0]
    with pytest.raises(UsageError, match=f"rank {rank}"):
        Whitener.of(Moments.of(X), rank=rank)
    assert Whitener.of(Moments.of(X), rank=3).rank == 3


def test_nothing_to_whiten_is_an_error_that_says_so():
    with pytest.raises(DataError, match="constant"):
        Whitener.of(Moments.of(np.full((10, 3), 4.2)))
    with pytest.raises(DataError, match="rows, got 1"):
        Whitener.of(Moments.of(np.ones((1, 3))))


def test_whitening_in_each_product_or_before_it_gives_the_same_components():
    X = laplace_mix(1, 3000, 4)
    folded, first = (Whitener.of(Moments.of(X)) for _ in range(2))
    assert folded.fused
    object.__setattr__(first, "fused", False)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    G = contrast("logcosh")
    steps = [Passes(Blocks(X), w).step(turn, G) for w in (folded, first)]
    np.testing.assert_allclose(steps[0].cross, steps[1].cross, atol=1e-5)
    np.testing.assert_allclose(*(Passes(Blocks(X), w).sample(99_999) for w in (folded, first)), atol=1e-4)


# Passes
