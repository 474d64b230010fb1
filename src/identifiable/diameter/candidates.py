"""The rows that may still be an end of the diameter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identifiable.blocks import Blocks
from identifiable.diameter import tuning

# -- The table as screens see it: rows near a centre, in float32, with bounds on what rounding does.

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


class Candidates:
    """Rows that remain: their numbers, radii, and how screens see them.

    `slack` is eta of the module's docstring. Up to tuning.CACHE_VALUES the centred rows are kept in `cache`; beyond, they
    are read again whenever they are needed. The cache has room for the three further columns of `screen`, so that
    a screen on all axes need not copy it.
    """

    def __init__(self, frame: Frame, rows: Index, radius: Float64, slack: float, store: Float32 | None):
        d = frame.table.d
        self.frame, self.rows, self.radius, self.slack, self.store = frame, rows, radius, slack, store
        self.axes: Float32 | None = None  # the leading principal axes; None: the stored axes
        self.turned: Float32 | None = None  # kept rows on few axes; if None and there are axes, the cache is turned
        self.place: Index | None = None  # where the cache holds the row at a position, if not there
        self.turning = 0.0  # eps of the module's docstring
        self.ladder = np.array([d])  # numbers of axes a screen may use, and the norms beyond them
        self.tails = np.zeros((len(rows), 1), np.float32)
        self.leaf = tuning.LEAF
        self.bounds: Float32 | None = None  # between leaves; None: the sum of their largest radii
        self.reach = np.zeros(0)  # largest radius in each leaf

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def cache(self) -> Float32 | None:
        return None if self.store is None else self.store[:, : self.frame.table.d]

    def near(self, at: slice | Index) -> Float32:
        """Centred rows, before any order is given to them."""
        return self.frame.near(self.frame.table[self.rows[at]]) if self.cache is None else self.cache[at]

    def heads(self, at: slice | Index) -> Float32:
        if self.turned is not None:
            return self.turned[at]
        near = self.near(at)
        return near if self.axes is None or self.cache is not None else near @ self.axes

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Drop rows, before any order is given to them."""
        if self.store is not None:  # moved up in place: a copy would double the largest array we hold
            kept = np.flatnonzero(mask)
            for at in cache_pieces(len(kept), self.store.shape[1]):
                self.store[at] = self.store[kept[at]]
            self.store = self.store[: len(kept)]
        self.rows, self.radius, self.tails = self.rows[mask], self.radius[mask], self.tails[mask]

    def arrange(self, order: Index) -> None:
        """Put rows in this order and cut them into leaves."""
        self.rows, self.radius, self.tails = self.rows[order], self.radius[order], self.tails[order]
        self.reach = np.maximum.reduceat(self.radius, np.arange(0, len(self), self.leaf))
        moved = self.cache if self.turned is None else self.turned
        if moved is not None:
            band = max(2**22 // len(self), 16)  # a few columns at a time, again to avoid a copy of the whole
            for a in range(0, moved.shape[1], band):
                moved[:, a : a + band] = moved[order, a : a + band]
        if self.turned is not None:
            self.place = order
        elif self.store is not None:
            self._last_columns(self.store, slice(None), len(self.ladder) - 1, left=False)

    def far_apart(self, first: Index, second: Index, floor: float) -> NDArray[np.bool_]:
        """Which pairs of kept rows may be `floor` or more apart, from float32 differences on all axes."""
        assert self.cache is not None
        d = self.cache.shape[1]
        error = self.turning if self.turned is None else 0.0
        far = np.empty(len(first), bool)
        for at in cache_pieces(len(first), 2 * d):
            i, j = (x[at] if self.place is None else self.place[x[at]] for x in (first, second))
            gap = self.cache[i]
            gap -= self.cache[j]
            distance = norm_bound(np.einsum("ij,ij->i", gap, gap), d + 2)  # 2 more: the difference was rounded too
            far[at] = distance + error * (self.radius[first[at]] + self.radius[second[at]]) >= floor
        return far

    def between(self, a: int, b: int) -> NDArray[Any]:
        """Upper bounds of the distances between rows of leaves a..b and rows of leaves a and later."""
        if self.bounds is not None:
            return self.bounds[a:b, a:]
        sums: Float64 = self.reach[a:b, None] + self.reach[a:]
        return sums

    def positions(self, leaves: Index) -> slice | Index:
        """Where the rows of these leaves stand; a slice, hence no copy, if they follow each other."""
        if leaves[-1] - leaves[0] == len(leaves) - 1:
            return slice(int(leaves[0]) * self.leaf, min((int(leaves[-1]) + 1) * self.leaf, len(self)))
        at = (leaves[:, None] * self.leaf + np.arange(self.leaf)).ravel()
        return at[at < len(self)]

    def left(self, heads: Float32, at: Index, step: int) -> Float32:
        """One side of the screening product: leading axes, two columns that add q_i + q_j, and tail norms if any."""
        side = self._side(heads, at, step, left=True)
        np.negative(side[:, : self.ladder[step]], out=side[:, : self.ladder[step]])
        return side

    def right(self, at: slice | Index, step: int) -> Float32:
        """The other side."""
        if self.store is not None and self.turned is None and step == len(self.ladder) - 1:
            return self.store[at, : self._columns(step)]
        return self._side(self.heads(at), at, step, left=False)

    def _columns(self, step: int) -> int:
        return int(self.ladder[step]) + (2 if self.axes is None else 3)

    def _side(self, heads: Float32, at: slice | Index, step: int, *, left: bool) -> Float32:
        k = int(self.ladder[step])
        side = np.empty((len(heads), self._columns(step)), np.float32)
        side[:, :k] = heads[:, :k]
        self._last_columns(side, at, step, left=left)
        return side

    def _last_columns(self, side: Float32, at: slice | Index, step: int, *, left: bool) -> None:
        k = int(self.ladder[step])
        half = self.radius[at] ** 2 * (0.5 + (k + 12) * tuning.UNIT * 1.01 + 2 * self.turning)
        side[:, k] = half if left else 1
        side[:, k + 1] = 1 if left else half
        if self.axes is not None:
            side[:, k + 2] = self.tails[at, step]


@dataclass(frozen=True, eq=False)
class Task:
    """A product to screen: rows `at` with these heads, against the rows of some leaves."""

    at: slice
    heads: Float32
    leaves: Index


@dataclass(frozen=True, eq=False)
class Found:
    first: Index
    second: Index
    squares: Float64
    looked_at: int
