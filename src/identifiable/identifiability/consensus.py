"""The representation several models agree on: their generalised Procrustes mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import Blocks, fold
from identifiable.groups import procrustes
from identifiable.moments import Array
from identifiable.results import Consensus, ConsensusDistance
from identifiable.run import PLAIN, Run, Stage

MAX_ITERATIONS = 500
TOLERANCE = 1e-9  # turning stops when no model moves by more, root mean square over its rows and relative to its size


@dataclass(frozen=True, eq=False)
class Turns:
    """For each model a centred, scaled rotation into the frame of the consensus."""

    matrices: list[Array]
    iterations: int
    converged: bool


def consensus(
    tables: Mapping[str, Blocks],
    means: Sequence[Array],
    scatters: Mapping[tuple[int, int], Array],
    run: Run = PLAIN,
) -> Consensus:
    """Generalised Procrustes mean of three or more models, and the distance of each to it.

    Ours (Gower 1975). Every model is centred and scaled to the same root mean square distance, then all
    are turned towards their mean until it no longer moves. `scatters[i, j]` is the centred cross-scatter of
    models i and j. In-sample. With K models each is part of the mean, so a distance to the mean of the
    *others* is K / (K - 1) times as large.
    """
    count = len(tables)
    size = [float(np.sqrt(np.trace(scatters[i, i]))) for i in range(count)]
    turns = _turn(count, {(i, j): s / (size[i] * size[j]) for (i, j), s in scatters.items()})
    matrices = [q / size[i] for i, q in enumerate(turns.matrices)]
    statistic = fold(
        list(tables.values()),
        partial(_Distances, means, matrices),
        workers=run.workers,
        progress=run.progress,
        stage=Stage("consensus"),
    )
    errors = np.concatenate(statistic.parts)
    n, d = next(iter(tables.values())).shape
    scale = float(np.sqrt(2 * statistic.energy / (n - 1)))
    distances = tuple(
        ConsensusDistance(
            name=name,
            rms=float(np.sqrt(np.mean(e.astype(np.float64) ** 2))) / scale,
            mean=float(e.mean(dtype=np.float64)) / scale,
            q95=float(np.quantile(e, 0.95)) / scale,
            max=float(e.max()) / scale,
        )
        for name, e in zip(tables, errors.T, strict=True)
    )
    return Consensus(d, turns.iterations, turns.converged, distances)


def _turn(count: int, scatters: Mapping[tuple[int, int], Array]) -> Turns:
    turns = [np.eye(len(scatters[0, 0]))] + [procrustes(scatters[i, 0])[0] for i in range(1, count)]
    for iteration in range(1, MAX_ITERATIONS + 1):
        moved = 0.0
        for i in range(count):  # each model in turn towards the sum of the others, so their agreement never falls
            others = np.sum([scatters[i, j] @ q for j, q in enumerate(turns) if j != i], axis=0)
            turn, _ = procrustes(others)
            change = turn - turns[i]
            moved = max(moved, float(np.sum(change * (scatters[i, i] @ change))))
            turns[i] = turn
        if moved <= TOLERANCE**2:
            return Turns(turns, iteration, True)
    return Turns(turns, MAX_ITERATIONS, False)


class _Distances:
    """The statistic: distance of every row of every model to the consensus, and the consensus' energy."""

    def __init__(self, means: Sequence[Array], matrices: Sequence[Array]):
        self.means, self.matrices = means, matrices
        self.parts: list[NDArray[np.float64]] = []
        self.energy = 0.0

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        turned = [(x - m) @ q for x, m, q in zip(rows, self.means, self.matrices, strict=True)]
        middle = np.mean(turned, axis=0)
        self.energy += float(np.sum(middle**2))
        self.parts.append(np.stack([np.linalg.norm(t - middle, axis=1) for t in turned], axis=1))

    def merge(self, later: _Distances) -> None:
        self.parts += later.parts
        self.energy += later.energy
