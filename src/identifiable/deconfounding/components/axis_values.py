"""All wells on some axes, held in float32 and a few axes at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.blocks import Blocks, Progress, fold
from identifiable.groups import AffineMap
from identifiable.moments import Array

SLAB = 64  # axes worked on together: rows x SLAB values are copied at a time, not rows x axes

Slabs = Sequence[NDArray[np.float32]]
"""Values of all wells (rows) on some axes, a few columns to each array, so that a product never needs a second copy of all."""


class _Projection:
    """The statistic that writes mapped rows where they belong; strips have rows of their own, so threads never meet."""

    def __init__(self, to_axes: AffineMap, slabs: Slabs):
        self.to_axes, self.slabs = to_axes, slabs

    def add(self, first: int, rows: list[NDArray[np.float64]]) -> None:
        values = self.to_axes(rows[0])
        for k, slab in enumerate(self.slabs):
            slab[first : first + len(values)] = values[:, k * SLAB : (k + 1) * SLAB]

    def merge(self, later: _Projection) -> None:
        pass


def project(
    blocks: Blocks, to_axes: AffineMap, *, workers: int | None = None, progress: Progress | None = None
) -> list[NDArray[np.float32]]:
    """All rows on the axes of a map, in float32: half the memory, and rounding far below what wells differ by."""
    width, axes = to_axes.matrix.shape
    if blocks.d != width:
        raise DataError(f"{blocks.name}: expected {width} columns, as the components were fitted to, got {blocks.d}.")
    slabs = [np.empty((blocks.n, min(SLAB, axes - k)), np.float32) for k in range(0, axes, SLAB)]
    fold([blocks], lambda: _Projection(to_axes, slabs), workers=workers, progress=progress, stage="components")
    if not all(np.isfinite(slab).all() for slab in slabs):
        bad = np.flatnonzero(
            ~np.isfinite(np.concatenate([slab.sum(axis=1)[:, None] for slab in slabs], axis=1)).all(axis=1)
        )
        raise DataError(
            f"{blocks.name}: expected finite numbers, got NaN or infinite values in {len(bad)} rows (first rows, from 0: "
            f"{', '.join(map(str, bad[:5]))}); remove or impute them."
        )
    return slabs


def rotated(slabs: Slabs, rotation: Array) -> list[NDArray[np.float32]]:
    """The same rows on axes turned by a matrix (axes, new axes)."""
    new = rotation.astype(np.float32)
    starts = np.cumsum([0, *(slab.shape[1] for slab in slabs)])
    return [
        np.asarray(
            sum(slab @ new[a : a + slab.shape[1], k : k + SLAB] for slab, a in zip(slabs, starts, strict=False)),
            np.float32,
        )
        for k in range(0, new.shape[1], SLAB)
    ]
