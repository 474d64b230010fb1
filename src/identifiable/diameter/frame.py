"""The table as screens see it: rows near a centre, in float32, with bounds on what rounding does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identifiable.blocks import Blocks
from identifiable.diameter import tuning

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Index = NDArray[np.intp]


class Frame:
    """Rows moved to a centre and scaled by a power of two: float32 for screens, float64 for distances."""

    def __init__(self, table: Blocks, center: Float64, exponent: int):
        self.table = table
        self.exponent = exponent
        # Types that float32 holds exactly are centred in float32: one rounding, half the memory traffic.
        kind, size = table.dtype.kind, table.dtype.itemsize
        self.single = kind == "b" or (kind in "iu" and size <= 2) or (kind == "f" and size <= 4)
        scaled = np.ldexp(center, exponent)
        self.center: NDArray[Any] = scaled.astype(np.float32) if self.single else scaled

    def moved(self, by: Float32) -> Frame:
        there = np.asarray(self.center, np.float64) + by
        return Frame(self.table, np.ldexp(there, -self.exponent), self.exponent)

    def near(self, stored: NDArray[Any]) -> Float32:
        """Stored rows, centred, in float32."""
        kind = np.float32 if self.single else np.float64
        rows = np.asarray(stored, kind)
        if self.exponent:
            rows = np.ldexp(rows, self.exponent)
        near: Float32 = (rows - self.center).astype(np.float32, copy=False)
        return near

    def exact(self, rows: Index) -> Float64:
        """Rows by number in float64, scaled and not centred: differences of these are the distances returned."""
        stored = np.asarray(self.table[rows], np.float64)
        return np.ldexp(stored, self.exponent) if self.exponent else stored

    def squared_distances(self, first: Index, second: Index) -> Float64:
        step = max(2**20 // self.table.d, 1)
        parts = []
        for a in range(0, len(first), step):
            difference = self.exact(first[a : a + step])
            difference -= self.exact(second[a : a + step])
            parts.append(np.einsum("ij,ij->i", difference, difference))
        return np.concatenate(parts) if parts else np.empty(0)


class Radii:
    """Fold statistic: the squared distance of every row to the centre, in row order."""

    def __init__(self, frame: Frame):
        self.frame = frame
        self.parts: list[Float32] = []

    def add(self, first: int, rows: list[NDArray[Any]], /) -> None:
        stored = rows[0]
        with np.errstate(all="ignore"):  # rows that are not finite, or not yet at the right scale, are dealt with after
            for at in cache_pieces(*stored.shape):
                near = self.frame.near(stored[at])
                self.parts.append(np.einsum("ij,ij->i", near, near))

    def merge(self, later: Radii, /) -> None:
        self.parts.extend(later.parts)


class Extent:
    """Fold statistic: half the largest |x - center| of any coordinate, in float64 and unscaled."""

    def __init__(self, center: Float64):
        self.half = center / 2
        self.value = 0.0

    def add(self, first: int, rows: list[NDArray[Any]], /) -> None:
        self.value = max(self.value, float(np.abs(rows[0].astype(np.float64) / 2 - self.half).max()))

    def merge(self, later: Extent, /) -> None:
        self.value = max(self.value, later.value)


def cache_pieces(rows: int, d: int) -> list[slice]:
    step = max(tuning.PIECE_VALUES // d, 16)
    return [slice(a, min(a + step, rows)) for a in range(0, rows, step)]


def norm_bound(squares: NDArray[Any], d: int) -> Float64:
    """Upper bounds of row norms from their squares summed in float32."""
    return np.sqrt(squares.astype(np.float64)) * (1 + (d + 8) * tuning.UNIT) + 1e-18


def sample_middle(table: Blocks, center: ArrayLike | None) -> tuple[Float64, int]:
    """A centre and a binary exponent from evenly spaced rows; any choice is correct, a good one is fast."""
    index = np.unique(np.linspace(0, table.n - 1, min(table.n, tuning.SAMPLE_ROWS)).astype(np.intp))
    sample = table[index].astype(np.float64)
    sample = sample[np.isfinite(sample).all(axis=1)]
    if not len(sample):
        return np.zeros(table.d), 0
    given = None if center is None else np.asarray(center, np.float64)
    middle = given if given is not None and np.isfinite(given).all() else (sample / len(sample)).sum(axis=0)
    return middle, _exponent(float(np.abs(sample / 2 - middle / 2).max()))


def _exponent(half_extent: float) -> int:
    """The power of two that brings an extent near one; none where float32 has room to spare anyway."""
    size = math.frexp(half_extent)[1]
    return 0 if half_extent == 0 or abs(size) < 20 else -size


def enclosing_center(rows: Float32, steps: int = 64) -> Float32:
    """Centre of a nearly smallest ball around `rows` (Badoiu and Clarkson 2003)."""
    middle: Float32 = rows.mean(axis=0)
    for t in range(steps):
        off = rows - middle
        farthest = int(np.argmax(np.einsum("ij,ij->i", off, off)))
        middle = middle + off[farthest] / np.float32(t + 2)
    return middle


def pairs_within(radius: Float64, reach: float) -> int:
    """How many ordered pairs have radii that add up to `reach` or more."""
    ordered = np.sort(radius)
    return int((len(ordered) - np.searchsorted(ordered, reach - ordered)).sum())
