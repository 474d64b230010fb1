"""consensus: the generalised Procrustes mean of several models, and how far each is from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from scipy.spatial.distance import pdist

from identifiable import compare
from identifiable.blocks import Blocks
from identifiable.blocks import tables as blocks_room
from identifiable.groups import haar_rotation
from identifiable.identifiability import comparison as room
from identifiable.identifiability.comparison import consensus
from identifiable.moments import Moments
from identifiable.representation import Representation
from identifiable.results import Consensus
from identifiable.run import Run

Matrix = NDArray[np.float64]
SEEDS = [0, 20240616]


def measured(models: Sequence[Matrix], *, rows: int | None = None, workers: int | None = None) -> Consensus:
    """`consensus` with what `compare` gives it, from plain arrays."""
    widths = tuple(m.shape[1] for m in models)
    moments = Moments.of(np.hstack(models), widths)
    count = len(models)
    scatters = {(i, j): moments.between(i, j).xy for i in range(count) for j in range(count)}
    means = [moments.alone(i).mean for i in range(count)]
    blocks = {f"m{i}": Blocks(m, rows=rows) for i, m in enumerate(models)}
    return consensus(blocks, means, scatters, Run(workers=workers))


def reference(models: Sequence[Matrix]) -> list[tuple[float, float, float, float]]:
    """Gower 1975 on full arrays: turn every model to the mean, take the mean again, until it stands still."""
    turned = [m - m.mean(axis=0) for m in models]
    turned = [m / np.linalg.norm(m) for m in turned]
    middle = turned[0]
    for _ in range(3000):
        turned = [m @ orthogonal_procrustes(m, middle)[0] for m in turned]
        before, middle = middle, np.mean(turned, axis=0)
        if np.linalg.norm(before - middle) < 1e-14:
            break
    scale = np.sqrt(np.mean(pdist(middle) ** 2))
    errors = [np.linalg.norm(m - middle, axis=1) / scale for m in turned]
    return [(float(np.sqrt(np.mean(e**2))), e.mean(), float(np.quantile(e, 0.95)), e.max()) for e in errors]


def figures(found: Consensus) -> Matrix:
    return np.array([(d.rms, d.mean, d.q95, d.max) for d in found.distances])


def copies(seed: int, noise: Sequence[float], n: int = 300, d: int = 4) -> list[Matrix]:
    """One matrix, each time turned, scaled, moved and blurred by so much."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((n, d)) * np.linspace(2, 0.5, d)
    return [
        (truth + s * rng.standard_normal((n, d))) @ haar_rotation(d, rng) * rng.uniform(0.1, 10) + rng.normal(0, 3, d)
        for s in noise
    ]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [3, 5])
def test_turned_scaled_and_moved_copies_are_at_the_consensus(seed, count):
    assert figures(measured(copies(seed, [0.0] * count))).max() < 1e-7
    blurred = figures(measured(copies(seed, [0.2] * count)))
    assert blurred.min() > 1e-3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("outlier", [0, 2, 3])
def test_the_model_that_is_unlike_the_others_is_farthest(seed, outlier):
    models = copies(seed, [0.1] * 4)
    models[outlier] = np.random.default_rng(seed + 1).standard_normal((300, 4))
    rms = figures(measured(models))[:, 0]
    assert rms.argmax() == outlier
    assert rms[outlier] > 2 * np.delete(rms, outlier).max()
    alike = figures(measured(copies(seed, [0.1] * 4)))[:, 0]
    assert alike.max() < 1.5 * alike.min()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("noise", [(0.05, 0.1, 0.2), (0.3, 0.3, 0.3, 0.6), (0.1, 0.1, 1.0, 0.1, 0.1)])
def test_distances_equal_a_plain_iteration_on_full_arrays(monkeypatch, seed, noise):
    monkeypatch.setattr(blocks_room, "MAX_CHUNK_ROWS", 32)  # so that 300 rows are ten strips to merge
    models = copies(seed, noise)
    found, expected = measured(models), np.array(reference(models))
    assert found.converged
    assert np.abs(expected - np.array(reference([*models[:-1], models[-1][::-1]]))).max() > 1e-2
    np.testing.assert_allclose(figures(found), expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_the_models_changes_only_the_order_of_the_distances(seed):
    models = copies(seed, [0.1, 0.2, 0.4])
    forward, backward = figures(measured(models)), figures(measured(models[::-1]))
    assert np.abs(backward - forward).max() > 1e-2
    np.testing.assert_allclose(backward[::-1], forward, atol=1e-8, rtol=0)


def test_models_whose_given_names_collide_are_all_there():
    named = [Representation(m, name=name) for m, name in zip(copies(0, [0.1] * 3), ["a", "a", "a (2)"], strict=True)]
    found = compare(*named, groups=["rigid"], intervals=False, nulls=())
    assert found.consensus is not None
    assert len({d.name for d in found.consensus.distances}) == 3


@pytest.mark.parametrize(("rows", "workers"), [(1, 1), (100, 2)])
def test_neither_block_size_nor_workers_move_a_bit(rows, workers):
    models = copies(7, [0.1, 0.2, 0.4], n=5000)
    assert measured(models, rows=rows, workers=workers) == measured(models, workers=1)
    assert measured(models) != measured([m[::-1] for m in models[:1]] + models[1:])


def test_running_out_of_iterations_is_said(monkeypatch):
    models = copies(0, [1.0, 1.0, 1.0])
    assert measured(models).converged
    assert 1 < measured(models).iterations < room.MAX_ITERATIONS
    monkeypatch.setattr(room, "MAX_ITERATIONS", 1)
    found = measured(models)
    assert (found.converged, found.iterations) == (False, 1)
