"""Jacobians in, rows to work on out: all of them, or in two passes a sample by leverage that fits in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, check_magnitude
from identifiable.mechanistic.exact import RANK, Indices, Values, precision_of
from identifiable.moments import Array
from identifiable.rows import uniforms
from identifiable.run import PLAIN, Run, Stage

HELD = 2**26  # bytes of rows held at once, and of a part of the Jacobians that is read
WORK = 2e9  # multiplications for the operator of all rows, which is made some twenty times: a second on one core
LEAST_ROWS = 4000  # kept whatever the operator costs: the smaller side of it is then rows by rows
TOGETHER = (
    8  # points of one output that a sample keeps or drops together, so that the output form has several rows of each
)
READING, CHOOSING = Stage("reading Jacobians"), Stage("choosing rows")


class Jacobians(Protocol):
    """(points, outputs, latents): an array, a memory map, or a decoder that makes its Jacobians as they are read."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def __getitem__(self, points: Any, /) -> NDArray[Any]: ...


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of the Jacobians, of which point and output each is, and the `nodes` that an owner is sought for.

    `values` are divided by the root of the probability with which a row was kept. A node is an output, or an output at `TOGETHER`
    points where rows are a sample (not `complete`). `eps` is the rounding of the numbers as they were given.
    """

    values: Array
    points: Indices
    outputs: Indices
    nodes: Indices
    complete: bool
    eps: float


def operator_size(latents: int) -> int:
    return latents * (latents + 1) // 2


def rows_allowed(latents: int) -> int:
    """How many rows may be held."""
    return int(max(LEAST_ROWS, min(HELD // (8 * latents), WORK / operator_size(latents) ** 2)))


def rows_of(jacobians: Jacobians, *, seed: int = 0, run: Run = PLAIN, allowed: int | None = None) -> Rows:
    """All rows that are not zero where there are few enough of them; else a sample, in two passes.

    Ours. The first pass keeps the triangle of a QR decomposition, the second keeps row g with probability proportional to its
    leverage, the share of the d directions that it carries. The same outputs are kept at `TOGETHER` points in a row. Draws go to
    outputs by their leverage, so the sample does not depend on the order of the outputs or on the basis of the latents.
    """
    n, m, d = jacobians.shape
    budget = allowed or rows_allowed(d)
    step = max(1, HELD // (32 * m * d))
    if n * m <= budget:
        values = np.concatenate(
            [_part(jacobians, a, min(a + step, n), run, READING).reshape(-1, d) for a in range(0, n, step)]
        )
        check_magnitude(float(np.abs(values).max()), "Jacobians")
        live = np.flatnonzero(values.any(axis=1))
        _some(live)
        points, outputs = np.divmod(live, m)
        nodes = np.unique(outputs, return_inverse=True)[1]
        return Rows(np.asarray(values[live], np.float64), points, outputs, nodes, True, precision_of(values))
    triangle, eps = np.zeros((0, d)), 1.0
    for a in range(0, n, step):
        part = _part(jacobians, a, min(a + step, n), run, READING).reshape(-1, d)
        eps = min(eps, precision_of(part))
        triangle = np.asarray(np.linalg.qr(np.concatenate([triangle, np.asarray(part, np.float64)]), mode="r"))
    check_magnitude(float(np.abs(triangle).max()), "Jacobians")
    _some(np.flatnonzero(triangle))
    _, sizes, right = np.linalg.svd(triangle, full_matrices=False)
    rank = int((sizes > RANK * eps * d * sizes[0]).sum())
    whiten = right[:rank].T / sizes[:rank]
    kept: list[tuple[Array, Indices, Indices]] = []
    draws = np.full(m, np.nan)
    for a in range(0, n, step):
        part = np.asarray(_part(jacobians, a, min(a + step, n), run, CHOOSING), np.float64)
        leverage = ((part @ whiten) ** 2).sum(axis=2)
        chance = np.minimum(1.0, budget / rank * leverage)
        drawn = np.empty_like(leverage)
        for i in range(a, a + len(part)):
            drawn[i - a] = draws = _drawn(leverage[i - a], draws if i % TOGETHER else np.full(m, np.nan), i, seed)
        point, output = np.nonzero(drawn < chance)
        kept.append((part[point, output] / np.sqrt(chance[point, output])[:, None], point + a, output))
    values, points, outputs = (np.concatenate(column) for column in zip(*kept, strict=True))
    nodes = np.unique(points // TOGETHER * m + outputs, return_inverse=True)[1]
    return Rows(values, points, outputs, nodes, False, eps)


def _drawn(leverage: Array, draws: Array, point: int, seed: int) -> Array:
    """The draws of the outputs at `TOGETHER` points: an output gets its own where it first moves, in the order of leverage there."""
    new = np.flatnonzero(np.isnan(draws) & (leverage > 0))
    used, m = int(np.count_nonzero(~np.isnan(draws))), len(draws)
    result = draws.copy()
    result[new[np.argsort(leverage[new], kind="stable")]] = uniforms(seed, point // TOGETHER * m + used, len(new))
    return result


def _part(jacobians: Jacobians, start: int, stop: int, run: Run, stage: Stage) -> Values:
    part: Values = np.asarray(jacobians[start:stop])
    bad = ~np.isfinite(part).all(axis=(1, 2))
    if bad.any():
        raise DataError(
            f"Jacobians: expected finite derivatives, got NaN or infinite ones at {int(bad.sum())} of the points {start} to "
            f"{stop - 1} (first, from 0: {start + int(np.argmax(bad))}); remove those points."
        )
    run.say(stage, stop, jacobians.shape[0])
    return part


def _some(found: Indices) -> None:
    if not len(found):
        raise DataError("Jacobians: expected at least one derivative that is not zero, got only zeros.")
