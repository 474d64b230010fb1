"""The passes over rows an ICA makes, each a fold: no copy of the data, in memory or from a file.

Rows are cut into pieces of `PIECE` rows that stay in the cache through two matrix products and the slope of the
contrast; each product is in the whitener's precision, sums across pieces are float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import Blocks, Progress, fold
from identifiable.ica.contrasts import Contrast, LogCosh, Values
from identifiable.ica.whitening import Whitener
from identifiable.moments import Array

PIECE = 1024
POWERS = 8  # highest moment kept: what the standard error of a kurtosis needs


@dataclass(frozen=True)
class RowChoice:
    """Rows whose uniform number, a hash of seed and position, lies in [low, high).

    Nothing is stored per row, a share of a half is a narrower interval, and no order of the rows (by class, by
    time) makes a choice unrepresentative.
    """

    seed: int = 0
    low: float = 0.0
    high: float = 1.0

    @property
    def share(self) -> float:
        return self.high - self.low

    def part(self, share: float) -> RowChoice:
        """The first `share` of these rows."""
        return RowChoice(self.seed, self.low, self.low + min(share, 1.0) * self.share)

    def positions(self, first: int, count: int) -> NDArray[np.intp] | None:
        """Which of `count` rows from `first` on are chosen; None for all."""
        if self.low <= 0 and self.high >= 1:
            return None
        u = uniforms(self.seed, first, count)
        return np.flatnonzero((u >= self.low) & (u < self.high))


def uniforms(seed: int, first: int, count: int) -> Array:
    """A number in [0, 1) for every row, from its position and the seed (SplitMix64)."""
    with np.errstate(over="ignore"):
        x = np.arange(first + 1, first + count + 1, dtype=np.uint64)
        x = x * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed % 2**63) * np.uint64(0xD1342543DE82EF95)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    result: Array = (x >> np.uint64(11)).astype(np.float64) / 2.0**53
    return result


@dataclass(frozen=True, eq=False)
class StepMeans:
    """What a step needs of components y: `cross` = E G'(y) y^T, `bend` = E G''(y)."""

    cross: Array
    bend: Array
    n: int


@dataclass(frozen=True, eq=False)
class PairMeans:
    """Of every two components i, j: E G''(y_i) y_j^2, E G'(y_i)^2 y_j^2 and E G'(y_i) y_i G'(y_j) y_j; of each, E G'(y_i) y_i."""

    bend: Array
    noise: Array
    shared: Array
    own: Array
    n: int


@dataclass(frozen=True, eq=False)
class CurvatureMeans:
    """What the curvature of every pair and its error need, with q_ij = G''(y_i) y_j^2 and p_i = G'(y_i) y_i.

    E q_ij (`bend`), E p_i (`own`), E q_ij^2, E q_ij q_ji (`bends`), E p_i p_j (`products`), E q_ij p_i (`bend_own`),
    E q_ij p_j (`bend_other`); and with the squares: E q_ij y_j^2, E q_ji y_j^2 (`bend_same`), E p_i y_j^2, E y_j^4.
    """

    bend: Array
    own: Array
    bend_square: Array
    bends: Array
    products: Array
    bend_own: Array
    bend_other: Array
    bend_fourth: Array
    bend_same: Array
    own_square: Array
    fourth: Array
    n: int


@dataclass(frozen=True, eq=False)
class ShapeMeans:
    """Of every component: E y^k, k = 0 ... POWERS; of G its mean, variance and covariances with y and y^2; E G'(y), E y G'(y); max |y|."""

    powers: Array
    value: Array
    value_variance: Array
    value_first: Array
    value_square: Array
    slope: Array
    own: Array
    largest: Array
    n: int


@dataclass(eq=False)
class Passes:
    """The rows, how they are whitened, and which of them are used; `spent` counts passes over all of them."""

    blocks: Blocks
    whitener: Whitener
    choice: RowChoice = RowChoice()
    workers: int | None = None
    cluster: Any = None
    progress: Progress | None = None
    stage: str = "resolving"
    spent: float = field(default=0.0)

    @property
    def n(self) -> int:
        """About how many rows are chosen."""
        return round(self.blocks.n * self.choice.share)

    def step(self, rotation: Array, contrast: Contrast, share: float = 1.0) -> StepMeans:
        """`StepMeans` of the components `rotation` on a share of the rows."""
        r = len(rotation) / self.whitener.rank
        sums = self._fold(partial(_StepSums, contrast), rotation, share, cost=r * (1 + r) / 2)
        return StepMeans(sums.cross / sums.n, sums.bend / sums.n, sums.n)

    def pairs(self, rotation: Array, contrast: Contrast, share: float = 1.0) -> PairMeans:
        """`PairMeans` of the components `rotation` on a share of the rows."""
        sums = self._fold(partial(_PairSums, contrast), rotation, share, cost=2.0)
        shared = sums.shared / sums.n
        return PairMeans(sums.bend / sums.n, sums.noise / sums.n, shared, sums.own / sums.n, sums.n)

    def curvatures(self, rotation: Array, contrast: Contrast, share: float = 1.0) -> CurvatureMeans:
        """`CurvatureMeans` of the components `rotation` on a share of the rows."""
        s = self._fold(partial(_CurvatureSums, contrast), rotation, share, cost=5.0)
        means = {name: getattr(s, name) / s.n for name in _CurvatureSums.NAMES}
        return CurvatureMeans(**means, n=s.n)

    def shapes(self, rotation: Array, contrast: Contrast) -> ShapeMeans:
        """`ShapeMeans` of the components `rotation`."""
        s = self._fold(partial(_ShapeSums, contrast), rotation, 1.0, cost=0.5)
        powers, value = s.powers / s.n, s.value / s.n
        # Rounding the unmixing to float32 stretches a component by some 1e-8, which would move a small departure from
        # the Gaussian in its sixth digit, and make equal starts look different.
        value -= (self.whitener.variances(s.unmixing) - 1) / 2 * s.own / s.n
        variance = (s.value_squared / s.n - value**2).clip(0)
        return ShapeMeans(
            powers=powers,
            value=value,
            value_variance=variance,
            value_first=s.value_first / s.n - value * powers[1],
            value_square=s.value_square / s.n - value * powers[2],
            slope=s.slope / s.n,
            own=s.own / s.n,
            largest=s.largest,
            n=s.n,
        )

    def sample(self, rows: int) -> NDArray[Any]:
        """About `rows` whitened rows, drawn at random from those chosen."""
        unmixing = self.whitener.unmixing(np.eye(self.whitener.rank))
        choice = self.choice.part(rows / max(self.n, 1))
        kept: _Kept = self._run(partial(_Kept, LogCosh(), self.whitener, unmixing, choice, spare=[]))
        return kept.rows()

    def _fold(self, statistic: Callable[..., Any], rotation: Array, share: float, cost: float) -> Any:
        choice = self.choice.part(share)
        self.spent += min(share, 1.0) * cost
        return self._run(partial(statistic, self.whitener, self.whitener.unmixing(rotation), choice, spare=[]))

    def _run(self, start: Callable[[], Any]) -> Any:
        return fold(
            [self.blocks],
            start,
            workers=self.workers,
            cluster=self.cluster,
            progress=self.progress,
            stage=f"{self.stage}, pass {self.spent:.0f}" if self.spent else self.stage,
        )


class _Buffers:
    """Room for one piece: its rows, its components, their slopes, and one product of the last two."""

    def __init__(self, whitener: Whitener, components: int):
        self.rows = np.empty((PIECE, whitener.width), whitener.dtype)
        self.components, self.slope = (np.empty((PIECE, components), whitener.dtype) for _ in range(2))
        self.product = np.empty((components, components), whitener.dtype)


class _Sums(ABC):
    """The part all passes share: choose rows, whiten them, form the components piece by piece.

    `spare` holds buffers no longer in use, shared by the statistics of one pass: touching fresh memory for every strip
    costs a twentieth of the pass.
    """

    def __init__(
        self,
        contrast: Contrast,
        whitener: Whitener,
        unmixing: NDArray[Any],
        choice: RowChoice,
        spare: list[_Buffers] | None = None,
    ):
        self.contrast, self.whitener, self.unmixing, self.choice = contrast, whitener, unmixing, choice
        self.n = 0
        self._spare: list[_Buffers] = [] if spare is None else spare
        self._buffers: _Buffers | None = None

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        buffers = self._buffers
        if buffers is None:
            buffers = self._spare.pop() if self._spare else _Buffers(self.whitener, self.unmixing.shape[1])
            self._buffers = buffers
        x = rows[0]
        positions = self.choice.positions(first, len(x))
        for a in range(0, len(x) if positions is None else len(positions), PIECE):
            piece = x[a : a + PIECE] if positions is None else x[positions[a : a + PIECE]]
            self.n += len(piece)
            whitened = self.whitener.rows(piece, buffers.rows)
            y = np.matmul(whitened, self.unmixing, out=buffers.components[: len(piece)])
            self.add_components(y, buffers)

    @abstractmethod
    def add_components(self, y: Values, buffers: _Buffers) -> None:
        """Take in the components of one piece."""

    def slopes(self, y: Values, buffers: _Buffers) -> Values:
        """The contrast's slope at every component, in its buffer."""
        slope = buffers.slope[: len(y)]
        self.contrast.slope(y, slope)
        return slope

    def finish(self) -> None:
        """Hand the buffers on: what is left travels from the workers of a cluster."""
        if self._buffers is not None:
            self._spare.append(self._buffers)
        self._buffers, self._spare = None, []


class _StepSums(_Sums):
    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        r = self.unmixing.shape[1]
        self.cross, self.bend = np.zeros((r, r)), np.zeros(r)

    def add_components(self, y: Values, buffers: _Buffers) -> None:
        slope = self.slopes(y, buffers)
        self.cross += np.matmul(slope.T, y, out=buffers.product)
        self.bend += self.contrast.bend_sums(y, slope)

    def merge(self, later: _StepSums) -> None:
        self.n += later.n
        self.cross += later.cross
        self.bend += later.bend


class _PairSums(_Sums):
    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        r = self.unmixing.shape[1]
        self.bend, self.noise, self.shared = np.zeros((r, r)), np.zeros((r, r)), np.zeros((r, r))
        self.own = np.zeros(r)

    def add_components(self, y: Values, buffers: _Buffers) -> None:
        slope = self.slopes(y, buffers)
        square = y * y
        self.bend += self.contrast.bend(y, slope).T @ square
        self.noise += (slope * slope).T @ square
        slope *= y
        self.shared += slope.T @ slope
        self.own += slope.sum(axis=0, dtype=np.float64)

    def merge(self, later: _PairSums) -> None:
        self.n += later.n
        for name in ("bend", "noise", "shared", "own"):
            getattr(self, name).__iadd__(getattr(later, name))


class _CurvatureSums(_Sums):
    VECTORS = ("own", "fourth")
    MATRICES = (
        "bend",
        "bend_square",
        "bends",
        "products",
        "bend_own",
        "bend_other",
        "bend_fourth",
        "bend_same",
        "own_square",
    )
    NAMES = VECTORS + MATRICES  # as in CurvatureMeans

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        r = self.unmixing.shape[1]
        for name in self.NAMES:
            setattr(self, name, np.zeros(r if name in self.VECTORS else (r, r)))

    def add_components(self, y: Values, buffers: _Buffers) -> None:
        slope = self.slopes(y, buffers)
        bend, square = self.contrast.bend(y, slope), y * y
        own, curved, fourth = slope * y, bend * square, square * square
        found = (
            own.sum(axis=0, dtype=np.float64),
            fourth.sum(axis=0, dtype=np.float64),
            bend.T @ square,
            (bend * bend).T @ fourth,
            curved.T @ curved,
            own.T @ own,
            (bend * own).T @ square,
            bend.T @ (square * own),
            bend.T @ fourth,
            square.T @ curved,
            own.T @ square,
        )
        for name, part in zip(self.NAMES, found, strict=True):
            getattr(self, name).__iadd__(part)

    def merge(self, later: _CurvatureSums) -> None:
        self.n += later.n
        for name in self.NAMES:
            getattr(self, name).__iadd__(getattr(later, name))


class _ShapeSums(_Sums):
    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        r = self.unmixing.shape[1]
        self.powers = np.zeros((POWERS + 1, r))
        self.value, self.value_squared = np.zeros(r), np.zeros(r)
        self.value_first, self.value_square = np.zeros(r), np.zeros(r)
        self.slope, self.own = np.zeros(r), np.zeros(r)
        self.largest = np.zeros(r)

    def add_components(self, y: Values, buffers: _Buffers) -> None:
        total = partial(np.einsum, "ij,ij->j")
        value, slope = self.contrast.value(y), self.slopes(y, buffers)
        y2 = y * y
        y3, y4 = y2 * y, y2 * y2
        sums = (total(y, y), total(y2, y), total(y2, y2), total(y3, y2), total(y3, y3), total(y4, y3), total(y4, y4))
        self.powers[0] += len(y)
        self.powers[1] += y.sum(axis=0, dtype=np.float64)
        self.powers[2:] += sums
        self.value += value.sum(axis=0, dtype=np.float64)
        self.value_squared += total(value, value)
        self.value_first += total(value, y)
        self.value_square += total(value, y2)
        self.slope += slope.sum(axis=0, dtype=np.float64)
        self.own += total(slope, y)
        np.maximum(self.largest, np.abs(y).max(axis=0), out=self.largest)

    def merge(self, later: _ShapeSums) -> None:
        self.n += later.n
        for name in ("powers", "value", "value_squared", "value_first", "value_square", "slope", "own"):
            getattr(self, name).__iadd__(getattr(later, name))
        np.maximum(self.largest, later.largest, out=self.largest)


class _Kept(_Sums):
    """The chosen rows themselves, whitened."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.parts: list[NDArray[Any]] = []

    def add_components(self, y: Values, buffers: _Buffers) -> None:
        self.parts.append(y.copy())

    def merge(self, later: _Kept) -> None:
        self.parts += later.parts

    def rows(self) -> NDArray[Any]:
        width = self.unmixing.shape[1]
        return np.concatenate(self.parts) if self.parts else np.empty((0, width), self.unmixing.dtype)
