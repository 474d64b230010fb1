"""The passes over rows an ICA makes, each a fold: no copy of the data, in memory or from a file.

Rows are cut into pieces that stay in the cache through two matrix products and the slope of the
contrast; each product is in the whitener's precision, sums across pieces are float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import Blocks, chunk_rows, fold
from identifiable.ica import kernels
from identifiable.ica.contrasts import Contrast, Values
from identifiable.ica.whitening import Whitener, pack
from identifiable.moments import Array
from identifiable.rows import uniforms
from identifiable.run import PLAIN, Run, Stage

PIECE_VALUES = 2**18  # of a piece: 1 MB in float32; twice as many are a tenth slower at 384 columns
SUMMED_ROWS = 512  # of a product in float32, to be whitened: kernels that add 4,096 one by one lose ten times as much
HELD_BYTES = 96 * 2**20  # of rows of a part of the space that are held in memory
POWERS = 8  # highest moment kept: what the standard error of a kurtosis needs
RESOLVING = Stage("resolving")


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

    def rest(self, share: float) -> RowChoice:
        """The last `share` of these rows: others than those of `part`, if both are less than half."""
        return RowChoice(self.seed, self.high - min(share, 1.0) * self.share, self.high)

    def positions(self, first: int, count: int) -> NDArray[np.intp] | None:
        """Which of `count` rows from `first` on are chosen; None for all."""
        if self.low <= 0 and self.high >= 1:
            return None
        u = uniforms(self.seed, first, count)
        return np.flatnonzero((u >= self.low) & (u < self.high))

    def counts(self, n: int, chunk: int) -> NDArray[np.intp]:
        """How many of the first 0, chunk, 2 chunk, ... n rows are chosen."""
        each = []
        for first in range(0, n, chunk):
            rows = min(chunk, n - first)
            positions = self.positions(first, rows)
            each.append(rows if positions is None else len(positions))
        return np.cumsum([0, *each])


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


@dataclass(frozen=True, eq=False)
class Survey:
    """What one pass measures of the components: what a step needs, and their shapes."""

    step: StepMeans
    shapes: ShapeMeans


@dataclass(eq=False)
class Meter:
    """What passes cost: `spent`, in steps of all components over all rows; `full` is the products of one such step.

    `expected` is what a fit will have spent in the end, by how fast it converges.
    """

    full: float
    spent: float = 0.0
    expected: float = 0.0


@dataclass(eq=False)
class Passes:
    """The rows, how they are whitened, and which of them are used; `spent` counts passes over all of them.

    `covariance` is that of whitened rows where it is not the identity: they are part of the rows the whitener was
    fitted to, and it is known how far they are from white.
    """

    blocks: Blocks
    whitener: Whitener
    choice: RowChoice = RowChoice()
    run: Run = PLAIN
    stage: Stage = RESOLVING
    covariance: Array | None = None
    meter: Meter = field(default_factory=lambda: Meter(0.0))

    def __post_init__(self) -> None:
        if not self.meter.full:
            self.meter.full = self.n * self.whitener.rank * (self.whitener.width + self.whitener.rank)

    @property
    def n(self) -> int:
        """About how many rows are chosen."""
        return round(self.blocks.n * self.choice.share)

    @property
    def numbers(self) -> int:
        """About how many a pass over all components has."""
        return self.n * self.whitener.rank

    @property
    def spent(self) -> float:
        return self.meter.spent

    def within(self, rotation: Array, share: float = 1.0, store: NDArray[Any] | None = None) -> Passes:
        """The same over the components `rotation` of a share of the rows, which become the coordinates.

        Held in memory if there is room in `store`: then a pass costs no product with all columns. These passes may be
        held there themselves, and are used up. A share of the rows is not white, and where a step looks for weak
        components that is most of its noise; so it is measured, once, and taken off. Ours.
        """
        part = replace(self, whitener=self.whitener.within(rotation), choice=self.choice.part(share))
        if share < 1:
            part.covariance = None
        elif self.covariance is not None:
            part.covariance = rotation @ self.covariance @ rotation.T
        if store is not None and (table := part._table(store)) is not None:
            rows = Blocks(table, name=self.blocks.name)
            part = replace(
                part,
                blocks=rows,
                whitener=part.whitener.of_white(),
                choice=RowChoice(),
                run=replace(self.run, cluster=None),
            )
        if share < 1:
            part.covariance = part._second_moments(_SecondMoments)
        return part

    def by_distance(self) -> Array:
        """E |y|^2 y y^T less what it is for a Gaussian: components are its eigenvectors, with their kurtoses (FOBI, Cardoso 1989)."""
        covariance = np.eye(self.whitener.rank) if self.covariance is None else self.covariance
        gaussian = np.trace(covariance) * covariance + 2 * covariance @ covariance
        found: Array = self._second_moments(_DistanceMoments) - gaussian
        return found

    def step(self, rotation: Array, contrast: Contrast, share: float = 1.0) -> StepMeans:
        """`StepMeans` of the components `rotation` on a share of the rows."""
        return self._step_means(self._fold(partial(_StepSums, given=contrast), rotation, share, products=1), rotation)

    def step_of(self, some: NDArray[np.bool_], rotation: Array, contrast: Contrast) -> StepMeans:
        """`StepMeans` where only `some` of the components take a step: those of the others are 0.

        Where few do, it costs as much less than a `step` of all.
        """
        if some.all():
            return self.step(rotation, contrast)
        means = self._with_rows(rotation[some], contrast)
        cross, bend = np.zeros((len(rotation), self.whitener.rank)), np.zeros(len(rotation))
        cross[some], bend[some] = means.cross, means.bend
        return StepMeans(cross @ rotation.T + np.diag(bend), bend, means.n)

    def fixed_point(self, directions: Array, contrast: Contrast) -> Array:
        """E G'(y) z - E G''(y) w of every direction w: where FastICA's step takes it in the whole space, yet to be orthogonalised.

        For few directions out of many it costs less than `step` of all.
        """
        return self._with_rows(directions, contrast).cross

    def _with_rows(self, directions: Array, contrast: Contrast) -> StepMeans:
        """As `StepMeans`, but `cross` is what `fixed_point` gives."""
        whitener, a = self.whitener, max(len(directions), 1)
        s = self._fold(partial(_FixedPointSums, given=contrast), directions, 1.0, products=whitener.width / a)
        cross, bend = s.cross / s.n, s.bend / s.n
        covariance = np.eye(whitener.rank) if self.covariance is None else self.covariance  # as in `_step_means`
        return StepMeans(whitener.of_rows(cross) - bend[:, None] * (directions @ covariance), bend, s.n)

    def pairs(self, rotation: Array, contrast: Contrast, share: float = 1.0) -> PairMeans:
        """`PairMeans` of the components `rotation` on a share of the rows."""
        sums = self._fold(partial(_PairSums, given=contrast), rotation, share, products=3)
        shared = sums.shared / sums.n
        return PairMeans(sums.bend / sums.n, sums.noise / sums.n, shared, sums.own / sums.n, sums.n)

    def curvatures(self, rotation: Array, contrast: Contrast, share: float = 1.0) -> CurvatureMeans:
        """`CurvatureMeans` of the components `rotation` on a share of the rows."""
        s = self._fold(partial(_CurvatureSums, given=contrast), rotation, share, products=9)
        means = {name: getattr(s, name) / s.n for name in _CurvatureSums.NAMES}
        return CurvatureMeans(**means, n=s.n)

    def survey(self, rotation: Array, contrast: Contrast) -> Survey:
        """`StepMeans` and `ShapeMeans` of the components `rotation`."""
        s = self._fold(partial(_SurveySums, given=contrast), rotation, 1.0, products=1)
        powers, sums = s.powers / s.n, dict(zip(s.SUMS, s.sums / s.n, strict=True))
        # Rounding the unmixing to float32 stretches a component by some 1e-8, which would move a small departure from
        # the Gaussian in its sixth digit, and make equal starts look different.
        value = sums["value"] - (self.whitener.variances(s.unmixing) - 1) / 2 * sums["own"]
        shapes = ShapeMeans(
            powers=powers,
            value=value,
            value_variance=(sums["value_squared"] - value**2).clip(0),
            value_first=sums["value_first"] - value * powers[1],
            value_square=sums["value_square"] - value * powers[2],
            slope=sums["slope"],
            own=sums["own"],
            largest=s.largest,
            n=s.n,
        )
        return Survey(self._step_means(s, rotation), shapes)

    def densities(self, rotation: Array, edges: Sequence[float], rows: int) -> Array:
        """Of each component `rotation`, on about so many rows, a histogram over equal bins; what is farther out counts in the last."""
        s = self._fold(partial(_DensitySums, given=edges), rotation, rows / max(self.n, 1), products=0)
        found: Array = s.counts / (max(s.n, 1) * (edges[1] - edges[0]))
        return found

    def _step_means(self, sums: _StepSums, rotation: Array) -> StepMeans:
        cross, bend = sums.cross / sums.n, sums.bend / sums.n
        if self.covariance is not None:  # to first order, E G'(y_i) y_j moves by E G''(y_i) as E y_i y_j does
            cross -= bend[:, None] * (rotation @ self.covariance @ rotation.T - np.eye(len(rotation)))
        return StepMeans(cross, bend, sums.n)

    def sample(self, rows: int, *, fresh: bool = False) -> NDArray[Any]:
        """About `rows` whitened rows, drawn at random from those chosen; `fresh` ones are not among the first that `within` takes."""
        share = rows / max(self.n, 1)
        part = replace(self, choice=self.choice.rest(share) if fresh else self.choice.part(share))
        table = part._table(np.empty(part._counts()[-1] * self.whitener.rank, self.whitener.dtype))
        assert table is not None
        return table

    def store(self) -> NDArray[Any]:
        """Room for the parts of the space that `within` holds; touched as far as it is used."""
        return np.empty(HELD_BYTES // 2, np.uint16) if self.whitener.dtype == np.float32 else np.empty(HELD_BYTES // 8)

    def _counts(self) -> NDArray[np.intp]:
        return self.choice.counts(self.blocks.n, chunk_rows(self.blocks.d))

    def _table(self, store: NDArray[Any]) -> NDArray[Any] | None:
        """The chosen rows themselves, whitened, in `store` (packed, if that is of whole numbers); None where they do not fit."""
        counts, r = self._counts(), self.whitener.rank
        n = int(counts[-1])
        if n * r > len(store):
            return None
        table = store[: n * r].reshape(n, r)
        places = dict(zip(range(0, self.blocks.n, chunk_rows(self.blocks.d)), counts, strict=False))
        if self.run.cluster is not None and not self.blocks.in_memory:
            kept = self._fold(partial(_SentRows, given=(store.dtype, places)), self._coordinates, 1.0, 0)
            for at, rows in kept.sent:
                table[at : at + len(rows)] = rows
            return table
        here = replace(self, run=replace(self.run, cluster=None))
        if isinstance(self.blocks.source, np.ndarray) and np.may_share_memory(self.blocks.source, store):
            here.run.workers = 1  # row after row, each is written where those read before it were
        here._fold(partial(_Rows, given=(table, places)), here._coordinates, 1.0, 0)
        return table

    @property
    def _coordinates(self) -> Array | None:
        """The whitened rows themselves as components; None where they are stored so."""
        return None if self.whitener.stored_white else np.eye(self.whitener.rank)

    def _second_moments(self, statistic: type[_SecondMoments]) -> Array:
        sums = self._fold(statistic, self._coordinates, 1.0, products=0.5)
        moments: Array = sums.second / sums.n
        return moments

    def _fold(self, statistic: Callable[..., Any], rotation: Array | None, share: float, products: float) -> Any:
        """The statistic over the components `rotation`, or over the coordinates themselves."""
        whitener, choice = self.whitener, self.choice.part(share)
        width, unmixing = (0, None) if rotation is None else (whitener.width, whitener.unmixing(rotation))
        components = whitener.rank if rotation is None else len(rotation)
        operations = self.n * min(share, 1.0) * components * (width + products * components)
        self.meter.spent += operations / self.meter.full
        return self._run(partial(statistic, whitener, unmixing, choice, spare=[]))

    def _run(self, start: Callable[[], Any]) -> Any:
        return fold(
            [self.blocks],
            start,
            **self.run.how,
            stage=replace(self.stage, number=max(round(self.spent), 1), about=round(self.meter.expected)),
        )


def piece_rows(width: int) -> int:
    """Rows of a piece, by the width alone: a power of two that divides the chunks of `blocks`."""
    return min(max(1 << (PIECE_VALUES // width).bit_length() - 1, 256), 4096)


def pieces(sample: Values) -> Iterator[Values]:
    """A sample of rows, piece by piece: arrays of all of it would be memory touched for the first time, and the largest of a fit."""
    step = piece_rows(sample.shape[1])
    return (sample[a : a + step] for a in range(0, len(sample), step))


class _Buffers:
    """Room for one piece: its rows, its components, their slopes, and products of slopes with components or rows."""

    def __init__(self, whitener: Whitener, components: int):
        n = piece_rows(whitener.width)
        self.rows = np.empty((n, whitener.width), whitener.dtype)
        self.components, self.slope = (np.empty((n, components), whitener.dtype) for _ in range(2))
        products = np.empty(components * max(components, whitener.width), whitener.dtype)
        self.product = products[: components**2].reshape(components, components)
        self.product_with_rows = products[: components * whitener.width].reshape(components, whitener.width)


class _Sums(ABC):
    """The part all passes share: choose rows, whiten them, form the components piece by piece.

    `spare` holds buffers no longer in use, shared by the statistics of one pass: touching fresh memory for every strip
    costs a twentieth of the pass.
    """

    def __init__(
        self,
        whitener: Whitener,
        unmixing: NDArray[Any] | None,
        choice: RowChoice,
        spare: list[_Buffers] | None = None,
        given: Any = None,
    ):
        self.whitener, self.unmixing, self.choice, self.given = whitener, unmixing, choice, given
        self.components = whitener.rank if unmixing is None else unmixing.shape[1]
        self.n = 0
        self._spare: list[_Buffers] = [] if spare is None else spare
        self._buffers: _Buffers | None = None
        self.begin()

    @abstractmethod
    def begin(self) -> None:
        """Empty sums; `given` is what they need to know besides the rows."""

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        buffers = self._buffers
        if buffers is None:
            try:
                buffers = self._spare.pop()
            except IndexError:  # none left, or another thread was faster
                buffers = _Buffers(self.whitener, self.components)
            self._buffers = buffers
        x = rows[0]
        positions = self.choice.positions(first, len(x))
        step = len(buffers.rows)
        for a in range(0, len(x) if positions is None else len(positions), step):
            piece = x[a : a + step] if positions is None else x[positions[a : a + step]]
            self.n += len(piece)
            y = self.whitener.rows(piece, buffers.rows)
            if self.unmixing is not None:
                y = np.matmul(y, self.unmixing, out=buffers.components[: len(piece)])
            self.add_components(y, buffers)

    @abstractmethod
    def add_components(self, y: Values, buffers: _Buffers) -> None:
        """Take in the components of one piece."""

    def finish(self) -> None:
        """Hand the buffers on: what is left travels from the workers of a cluster."""
        if self._buffers is not None:
            self._spare.append(self._buffers)
        self._buffers, self._spare = None, []

    def __getstate__(self) -> dict[str, Any]:
        """What travels from the workers of a cluster: the sums, and of what made them the unmixing, which is part of the answer."""
        return {name: value for name, value in self.__dict__.items() if name not in ("whitener", "given", "places")}


class _ContrastSums(_Sums):
    """Sums over the contrast at every component."""

    @property
    def contrast(self) -> Contrast:
        found: Contrast = self.given
        return found

    def slopes(self, y: Values, buffers: _Buffers) -> Values:
        """The contrast's slope at every component, in its buffer."""
        slope = buffers.slope[: len(y)]
        self.contrast.slope(y, slope)
        return slope


class _StepSums(_ContrastSums):
    def begin(self) -> None:
        r = self.components
        self.cross, self.bend = np.zeros((r, r)), np.zeros(r)

    def add_components(self, y: Values, buffers: _Buffers) -> None:
        slope = buffers.slope[: len(y)]
        self.bend += self.contrast.slope_and_bends(y, slope)
        self.cross += np.matmul(slope.T, y, out=buffers.product)

    def merge(self, later: Self) -> None:
        self.n += later.n
        self.cross += later.cross
        self.bend += later.bend


class _FixedPointSums(_StepSums):
    """As a step, but with the rows in place of the components."""

    def begin(self) -> None:
        super().begin()
        self.cross = np.zeros((self.components, self.whitener.width))

    def add_components(self, y: Values, buffers: _Buffers) -> None:
        slope, rows = buffers.slope[: len(y)], buffers.rows[: len(y)]
        self.bend += self.contrast.slope_and_bends(y, slope)
        for a in range(0, len(y), SUMMED_ROWS):
            some = slice(a, a + SUMMED_ROWS)
            self.cross += np.matmul(slope[some].T, rows[some], out=buffers.product_with_rows)


class _PairSums(_ContrastSums):
    def begin(self) -> None:
        r = self.components
        self.bend, self.noise, self.shared = np.zeros((r, r)), np.zeros((r, r)), np.zeros((r, r))
        self.own = np.zeros(r)

    def add_components(self, y: Values, buffers: _Buffers) -> None:
        slope = self.slopes(y, buffers)
        square = y * y
        noise = (slope * slope).T @ square
        self.noise += noise
        self.bend += self.contrast.bends_with_squares(y, slope, square, noise)
        slope *= y
        self.shared += slope.T @ slope
        self.own += slope.sum(axis=0, dtype=np.float64)

    def merge(self, later: _PairSums) -> None:
        self.n += later.n
        for name in ("bend", "noise", "shared", "own"):
            getattr(self, name).__iadd__(getattr(later, name))


class _CurvatureSums(_ContrastSums):
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

    def begin(self) -> None:
        r = self.components
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


class _SurveySums(_StepSums):
    SUMS = ("value", "value_squared", "value_first", "value_square", "slope", "own")

    def begin(self) -> None:
        super().begin()
        r = self.components
        self.powers = np.zeros((POWERS + 1, r))
        self.sums = np.zeros((len(self.SUMS), r))
        self.largest = np.zeros(r)

    def add_components(self, y: Values, buffers: _Buffers) -> None:
        super().add_components(y, buffers)
        slope = buffers.slope[: len(y)]
        value = self.contrast.value_beside(y, slope)
        if self.contrast.compiled:
            kernels.add_shapes(y, slope, value, self.powers, self.sums, self.largest)
            return
        power = np.ones(y.shape)
        for k in range(POWERS + 1):
            self.powers[k] += power.sum(axis=0)
            power *= y
        for k, product in enumerate((value, value * value, value * y, value * y * y, slope, slope * y)):
            self.sums[k] += product.sum(axis=0, dtype=np.float64)
        np.maximum(self.largest, np.abs(y).max(axis=0), out=self.largest)

    def merge(self, later: Self) -> None:
        super().merge(later)
        self.powers += later.powers
        self.sums += later.sums
        np.maximum(self.largest, later.largest, out=self.largest)


class _DensitySums(_Sums):
    def begin(self) -> None:
        edges: Sequence[float] = self.given
        self.first, self.width, self.bins = edges[0], edges[1] - edges[0], len(edges) - 1
        self.counts = np.zeros((self.components, self.bins), np.intp)

    def add_components(self, y: Values, buffers: _Buffers) -> None:
        place = np.clip((y - self.first) / self.width, 0, self.bins - 1).astype(np.intp)
        place += self.bins * np.arange(self.components)  # all columns at once: numpy's histogram sorts each
        self.counts += np.bincount(place.ravel(), minlength=self.counts.size).reshape(self.counts.shape)

    def merge(self, later: Self) -> None:
        self.n += later.n
        self.counts += later.counts


class _SecondMoments(_Sums):
    def begin(self) -> None:
        self.second = np.zeros((self.components, self.components))

    def add_components(self, y: Values, buffers: _Buffers) -> None:
        self.second += np.matmul(y.T, y, out=buffers.product)

    def merge(self, later: _SecondMoments) -> None:
        self.n += later.n
        self.second += later.second


class _DistanceMoments(_SecondMoments):
    """Second moments of rows that count by the square of their distance from the centre."""

    def add_components(self, y: Values, buffers: _Buffers) -> None:
        distance = np.sqrt(np.einsum("ij,ij->i", y, y))
        super().add_components(np.multiply(y, distance[:, None], out=buffers.slope[: len(y)]), buffers)


class _Rows(_Sums):
    """No sums: the chosen rows, whitened, into a table. `given` is the table, and where the rows of each chunk begin."""

    replayable = False

    def begin(self) -> None:
        self.table, self.places = self.given
        self.at = 0

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        self.at = self.places[first]
        super().add(first, rows)

    def add_components(self, y: Values, buffers: _Buffers) -> None:
        self.table[self.at : self.at + len(y)] = pack(y) if self.table.dtype == np.uint16 else y
        self.at += len(y)

    def merge(self, later: _Rows) -> None:
        self.n += later.n


class _SentRows(_Sums):
    """As `_Rows`, from workers who cannot write into the table: `sent` has the rows, and where in it they belong."""

    replayable = False

    def begin(self) -> None:
        self.stored, self.places = self.given
        self.at = 0
        self.sent: list[tuple[int, NDArray[Any]]] = []

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        self.at = self.places[first]
        super().add(first, rows)

    def add_components(self, y: Values, buffers: _Buffers) -> None:
        self.sent.append((self.at, pack(y) if self.stored == np.uint16 else y.copy()))
        self.at += len(y)

    def merge(self, later: _SentRows) -> None:
        self.n += later.n
        self.sent += later.sent
