"""What passes over the rows leave of layers: each layer by itself, then pairs of layers, a few at a time.

A layer is digested once: its Gram matrix gives what CKA and SVCCA need and is let go, and so no joint Gram of all layers exists.
Cross-Grams are made for tiles of pairs that fit into `TILE_BYTES`, one pass over the rows of the layers of a tile. Per cell of rows
(half a fold, for cross-validation and jackknife) there are Grams of the leading components only.

In memory at once: 8 bytes x (cells x components² + width x (components + SVCCA components)) for each layer, 8 bytes a row and
layer, and `TILE_BYTES` for the pairs in work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.blocks import Blocks, available_workers, fold
from identifiable.groups import GRAM_TOLERANCE
from identifiable.intake import check_magnitudes, gather_moments
from identifiable.moments import Array, MomentSums
from identifiable.results import Layer
from identifiable.rows import RowPlan
from identifiable.run import Run, Stage
from identifiable.similarity import hsic, principal

TILE_BYTES = 2**28  # of cross-Grams: those of a 2 x 2 tile of 768 columns on two cores
BUFFER_ROWS = 1024  # that are multiplied at once, so that adding a product up costs a tenth of it


@dataclass(frozen=True, eq=False)
class LayerSums:
    """One layer about its mean.

    `basis` (d, w) are the leading principal directions, `principal` (d, k) those of SVCCA, scaled to unit scatter. `trace` is the
    sum of |x|² and `square` is |X^T X|². Per row: `squares`, |x|². Per cell: `counts`, sums of rows (`sums`), of |x|²
    (`energies`) and, in the coordinates of `basis`, `totals` and `grams`.
    """

    facts: Layer
    blocks: Blocks
    mean: Array
    basis: Array
    principal: Array
    trace: float
    square: float
    squares: Array
    counts: Array
    sums: Array
    energies: Array
    totals: Array
    grams: Array
    hsic_without: Array  # of the layer with itself, without each cell; arrays over cells
    trace_without: Array

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def n(self) -> int:
        return len(self.squares)

    @property
    def hsic(self) -> float:
        """HSIC of the layer with itself."""
        return float(hsic(self.n, self.square, float(self.squares @ self.squares), self.trace, self.trace))

    def about(self, test: Array, training: Array) -> tuple[float, float]:
        """Sum of squares of the rows of `test` cells about the mean of the `training` cells: of all columns, and outside `basis`."""
        n, known = test @ self.counts, training @ self.counts

        def squares(energy: float, sums: Array) -> float:
            mean = training @ sums / known
            return float(energy - 2 * mean @ (test @ sums) + n * mean @ mean)

        whole = squares(float(test @ self.energies), self.sums)
        inside = squares(float(test @ np.einsum("cii->c", self.grams)), self.totals)
        return whole, max(whole - inside, 0.0)


def digest(
    model: str,
    name: str,
    blocks: Blocks,
    original_rows: NDArray[np.intp] | None,
    *,
    plan: RowPlan,
    width: int,
    components: int,
    run: Run,
) -> LayerSums:
    """Two passes over one layer: its Gram matrix, then its rows in the leading components."""
    (total,) = gather_moments([blocks], run, original_rows=[original_rows])
    check_magnitudes([blocks], [total])
    if not total.energy.any():
        raise DataError(
            f"{model}:{name}: every row is the same, so there is nothing to compare; leave it out (--layers)."
        )
    variances, directions = np.linalg.eigh(total.scatter)
    variances, directions = variances[::-1].clip(0), directions[:, ::-1]
    trace = float(variances.sum())
    facts = Layer(
        model=model,
        name=name,
        width=blocks.d,
        rank=int(np.sum(variances > GRAM_TOLERANCE**2 * variances[0])),
        leading=float(variances[0]) / trace,
        weight=float(variances[0] ** 2 / np.sum(variances**2)),
        rogue=float(np.diag(total.scatter).max()) / trace,
        kept=float(variances[:width].sum()) / trace,
    )
    basis = np.ascontiguousarray(directions[:, :width])
    found = fold(
        [blocks],
        partial(_RowSums, total.mean, basis, plan.cell, plan.n_cells),
        **run.how,
        stage=Stage("components", f"{model}:{name}"),
    )
    moments = found.moments.moments()
    squares = np.concatenate(found.squares)
    counts, energies, fourths = (by_cell(values, plan) for values in (np.ones_like(squares), squares, squares**2))
    totals, grams = np.stack([m.total for m in moments]), np.stack([m.gram for m in moments])
    left = plan.cell.size - counts
    whole = grams.sum(axis=0)
    kept = [float(np.sum((whole - g - np.outer(t, t) / n) ** 2)) for g, t, n in zip(grams, totals, left, strict=True)]
    trace_without = trace - energies - np.sum(found.sums**2, axis=1) / left
    square = float(np.sum(variances**2))
    square_without = square * np.array(kept) / float(np.sum(whole**2))
    return LayerSums(
        facts,
        blocks,
        total.mean,
        basis,
        principal(total.scatter, components),
        trace,
        square,
        squares,
        counts,
        found.sums,
        energies,
        totals,
        grams,
        hsic(left, square_without, fourths.sum() - fourths, trace_without, trace_without),
        trace_without,
    )


def by_cell(values: Array, plan: RowPlan) -> Array:
    """Sums of the values of rows over every cell."""
    return np.asarray(np.bincount(plan.cell, values, plan.n_cells), dtype=np.float64)


class _RowSums:
    """The statistic of one layer in its leading components, by cells."""

    def __init__(self, mean: Array, basis: Array, cell: NDArray[np.int64], n_cells: int):
        self.mean, self.cell = mean, cell
        self.moments = MomentSums(
            (len(mean),), mean, fold=cell, n_folds=n_cells, buffer_rows=BUFFER_ROWS // 4, maps=[(mean, basis)]
        )
        self.squares: list[Array] = []
        self.sums = np.zeros((n_cells, len(mean)))

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        centred = rows[0] - self.mean
        self.squares.append(np.linalg.vecdot(centred, centred))
        member = self.cell[first : first + len(centred)] == np.arange(len(self.sums))[:, None]
        self.sums += member.astype(np.float64) @ centred
        self.moments.add(first, rows)

    def finish(self) -> None:
        self.moments.finish()

    def merge(self, later: _RowSums) -> None:
        self.squares += later.squares
        self.sums += later.sums
        self.moments.merge(later.moments)


class Crossed(NamedTuple):
    """The cross-scatter of layers i and j, and by cells in the coordinates of their leading components."""

    i: int
    j: int
    cross: Array
    cells: Array


def crossed(
    firsts: Sequence[LayerSums], seconds: Sequence[LayerSums], plan: RowPlan, run: Run, *, itself: bool
) -> Iterator[list[Crossed]]:
    """All pairs of layers, a tile at a time; of one model with `itself`, every pair once."""
    wide, other = (max(len(layer.mean) for layer in layers) for layers in (firsts, seconds))
    width, back = (max(layer.basis.shape[1] for layer in layers) for layers in (firsts, seconds))
    size = 8 * (wide * other + plan.n_cells * width * back) * ((run.workers or available_workers()) + 2)
    step = max(1, math.isqrt(TILE_BYTES // size))
    for a, b in product(range(0, len(firsts), step), range(0, len(seconds), step)):
        left, right = range(a, min(a + step, len(firsts))), range(b, min(b + step, len(seconds)))
        pairs = [(i, j) for i, j in product(left, right) if i < j or not itself]
        if not pairs:
            continue
        layers = [*(firsts[i] for i in left), *(seconds[j] for j in right)]
        places = [(i - a, len(left) + j - b) for i, j in pairs]
        sums = fold(
            [layer.blocks for layer in layers],
            partial(_CrossSums, [(layer.mean, layer.basis) for layer in layers], places, plan.cell, plan.n_cells),
            **run.how,
            stage=Stage("pairs of layers", f"{firsts[a].facts.model}:{firsts[a].name}"),
        )
        yield [Crossed(i, j, *found) for (i, j), found in zip(pairs, sums.found, strict=True)]


class _CrossSums:
    """The statistic of a tile of pairs. Rows wait until there are enough of them to multiply."""

    def __init__(
        self,
        frames: Sequence[tuple[Array, Array]],
        pairs: Sequence[tuple[int, int]],
        cell: NDArray[np.int64],
        n_cells: int,
    ):
        self.frames, self.pairs, self.cell, self.n_cells = frames, pairs, cell, n_cells
        self.found: list[tuple[Array, Array]] = []
        self._waiting: list[tuple[NDArray[np.int64], list[NDArray[Any]]]] = []

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        self._waiting.append((self.cell[first : first + len(rows[0])], rows))
        if sum(len(cell) for cell, _ in self._waiting) >= BUFFER_ROWS:
            self.finish()

    def finish(self) -> None:
        if not self._waiting:
            return
        cells = np.concatenate([cell for cell, _ in self._waiting])
        order = np.argsort(cells, kind="stable")
        edges = np.searchsorted(cells[order], np.arange(self.n_cells + 1))
        own = [slice(a, b) for a, b in pairwise(edges)]
        centred, projected = [], []
        for k, (mean, basis) in enumerate(self.frames):
            centred.append(np.concatenate([rows[k] for _, rows in self._waiting])[order] - mean)
            projected.append(centred[-1] @ basis)
        self._waiting = []
        for at, (a, b) in enumerate(self.pairs):
            product = centred[a].T @ centred[b]
            x, y = projected[a], projected[b]
            if at == len(self.found):
                self.found.append((product, np.stack([x[s].T @ y[s] for s in own])))
                continue
            cross, by_cell = self.found[at]
            cross += product
            for c, s in enumerate(own):
                by_cell[c] += x[s].T @ y[s]

    def merge(self, later: _CrossSums) -> None:
        self.finish()
        later.finish()
        for mine, theirs in zip(self.found, later.found, strict=True):
            for own, other in zip(mine, theirs, strict=True):
                own += other
