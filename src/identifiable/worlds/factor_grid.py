"""Factors and the pictures made from them: the complete grid of their levels, and what every world of pictures offers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identifiable._checks import UsageError

FactorKind = Literal["categorical", "continuous"]
Pictures = NDArray[np.uint8]
Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class FactorGrid:
    """Every combination of the levels of some factors, numbered row by row: the first factor varies slowest.

    A code is the level of each factor, counted from 0; an index is the place of a code in the grid.

    >>> grid = FactorGrid(("shape", "x"), (2, 3))
    >>> grid.n, grid.codes([0, 1, 5]).tolist(), grid.index([[1, 2]]).tolist()
    (6, [[0, 0], [0, 1], [1, 2]], [5])
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.names or len(self.names) != len(self.sizes) or len(set(self.names)) != len(self.names):
            raise UsageError(
                f"a grid of factors: expected one size for each of some different names, "
                f"got {len(self.sizes)} sizes for {list(self.names)}."
            )
        if any(size != int(size) or size < 1 for size in self.sizes):
            raise UsageError(f"a grid of factors: expected sizes of at least 1, got {tuple(self.sizes)}.")
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))

    @property
    def n(self) -> int:
        return math.prod(self.sizes)

    def codes(self, index: ArrayLike) -> Codes:
        """One row of levels for each place in the grid."""
        return np.stack(np.unravel_index(self.checked_index(index), self.sizes), axis=1).astype(np.int64)

    def index(self, codes: ArrayLike) -> Codes:
        """The place in the grid of each row of levels."""
        levels = self.checked_codes(codes)
        return np.asarray(np.ravel_multi_index(tuple(levels.T), self.sizes), dtype=np.int64)

    def checked_index(self, index: ArrayLike) -> Codes:
        """`index` as int64, if it is a list of places in this grid."""
        places = np.asarray(index)
        if places.ndim != 1 or (places.size and places.dtype.kind not in "iu"):
            raise UsageError(
                f"index: expected a list of whole numbers, got {places.dtype} of shape {places.shape}; "
                "take np.flatnonzero of a mask, and one number as [number]."
            )
        if places.size and (places.min() < 0 or places.max() >= self.n):
            raise UsageError(f"index: expected 0 to {self.n - 1:,}, got {places.min()} to {places.max()}.")
        return places.astype(np.int64)

    def checked_codes(self, codes: ArrayLike) -> Codes:
        """`codes` as int64, if every row is one of this grid."""
        levels = np.asarray(codes)
        if levels.ndim != 2 or levels.shape[1] != len(self.names) or (levels.size and levels.dtype.kind not in "iu"):
            raise UsageError(
                f"codes: expected whole numbers of shape (n, {len(self.names)}), a column for each of "
                f"{', '.join(self.names)}, got {levels.dtype} of shape {levels.shape}."
            )
        for name, size, column in zip(self.names, self.sizes, levels.T, strict=True):
            if column.size and (column.min() < 0 or column.max() >= size):
                raise UsageError(f"codes: expected {name} from 0 to {size - 1}, got {column.min()} to {column.max()}.")
        return levels.astype(np.int64)


@dataclass(frozen=True)
class Factor:
    """One thing that varies. A categorical one takes the values 0, 1, …; a continuous one runs from `low` to `high`.

    Of a `closed` range `high` is the last level; otherwise `high` shows what `low` does (an angle, a hue) and is left out.
    """

    name: str
    kind: FactorKind
    low: float
    high: float
    closed: bool = True

    def levels(self, size: int) -> Numbers:
        """The values of a grid of so many levels. The only level of a closed range is its middle."""
        if self.kind == "categorical":
            return np.arange(size, dtype=np.float64)
        if size == 1 and self.closed:
            return np.array([(self.low + self.high) / 2])
        return np.linspace(self.low, self.high, size, endpoint=self.closed)


class PictureWorld(ABC):
    """Pictures with known factors, drawn when asked for.

    Factors are codes of `grid`; with `continuous` they are values, in the units of `factors`. A factor with one level is
    held there in either mode. A picture depends on its own factors alone, to the last bit: not on the batch it is drawn in.
    """

    factors: tuple[Factor, ...]
    grid: FactorGrid
    continuous: bool
    resolution: int
    channels: int

    def _arrange(self, factors: tuple[Factor, ...], sizes: Sequence[int], *, resolution: int, continuous: bool) -> None:
        if resolution != int(resolution) or resolution < 4:
            raise UsageError(f"resolution: expected at least 4 pixels, got {resolution}.")
        self.factors, self.resolution, self.continuous = factors, int(resolution), continuous
        self.grid = FactorGrid(tuple(f.name for f in factors), tuple(sizes))
        for factor, size in zip(factors, self.grid.sizes, strict=True):
            if factor.kind == "categorical" and size > factor.high + 1:
                raise UsageError(f"sizes: expected at most {factor.high + 1:.0f} for {factor.name}, got {size}.")
        self._levels = tuple(f.levels(size) for f, size in zip(factors, self.grid.sizes, strict=True))

    @property
    def names(self) -> tuple[str, ...]:
        return self.grid.names

    @property
    def kinds(self) -> tuple[FactorKind, ...]:
        return tuple(factor.kind for factor in self.factors)

    def values(self, codes: ArrayLike) -> Numbers:
        """The values that codes of the grid stand for."""
        levels = self.grid.checked_codes(codes)
        return np.stack([known[column] for known, column in zip(self._levels, levels.T, strict=True)], axis=1)

    def render(self, factors: ArrayLike) -> Pictures:
        """(n, channels, resolution, resolution), from codes, or from values in a continuous world."""
        return self._drawn(self._checked_values(factors) if self.continuous else self.values(factors))

    def render_index(self, index: ArrayLike) -> Pictures:
        """Pictures by their place in the grid, also in a continuous world."""
        return self._drawn(self.values(self.grid.codes(index)))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Pictures, NDArray[Any]]:
        """Pictures of factors drawn independently and uniformly, and those factors: codes, or values if continuous."""
        if n < 0:
            raise UsageError(f"n: expected a number of pictures, got {n}.")
        codes = np.stack([rng.integers(0, size, n) for size in self.grid.sizes], axis=1)
        if not self.continuous:
            return self.render(codes), codes
        values = self.values(codes)
        for j, factor in enumerate(self.factors):
            if factor.kind == "continuous" and self.grid.sizes[j] > 1:
                values[:, j] = rng.uniform(factor.low, factor.high, n)
        return self.render(values), values

    def _checked_values(self, values: ArrayLike) -> Numbers:
        table = np.asarray(values)
        if table.ndim != 2 or table.shape[1] != len(self.factors) or table.dtype.kind not in "fiu":
            raise UsageError(
                f"factors: expected numbers of shape (n, {len(self.factors)}), a column for each of "
                f"{', '.join(self.names)}, got {table.dtype} of shape {table.shape}."
            )
        result = table.astype(np.float64)
        for factor, size, column in zip(self.factors, self.grid.sizes, result.T, strict=True):
            high = size - 1 if factor.kind == "categorical" else factor.high
            if not np.all((column >= factor.low) & (column <= high)):  # NaN is outside too
                raise UsageError(
                    f"factors: expected {factor.name} from {factor.low:g} to {high:g}, "
                    f"got {column.min():g} to {column.max():g}."
                )
            if factor.kind == "categorical" and np.any(column != np.trunc(column)):
                raise UsageError(f"factors: {factor.name} is categorical; expected whole numbers from 0 to {high:g}.")
        return result

    def _drawn(self, values: Numbers) -> Pictures:
        out = np.zeros((len(values), self.channels, self.resolution, self.resolution), np.uint8)
        self._draw(values, out)
        return out

    @abstractmethod
    def _draw(self, values: Numbers, out: Pictures) -> None:
        """Fill `out`, which is black, with the picture of each row of values."""
