"""Are the same rows near each other on both sides? Nearest neighbours, exact, on rows held in memory; and near copies.

Every row is a query and is searched for (`identifiable.neighbours`), its own row left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import Blocks, fold, in_threads
from identifiable.moments import Array
from identifiable.neighbours import Index as Searchable
from identifiable.neighbours import common_entries
from identifiable.results import Interval, Neighbours, Null, Overlap
from identifiable.run import PLAIN, Run, Stage

Index = NDArray[np.intp]

NEIGHBOURS = 10  # k of Huh et al. 2024
SAMPLE_ROWS = 1000  # ten searches a pair: 0.33 CPU s for 256 columns, 0.44 for 384; 3,000 rows nine times that
QUERIES = 64  # rows looked up among all rows for near copies: enough for a median, one thin product per block
ALIKE = 0.02  # median distance to the nearest row over the rms distance: planted copies .009, real tables .12 to .57
GROWTH = 1.5  # pairs within 4 ALIKE over pairs within 2 ALIKE: 2^d for dense rows in d dimensions, 1 for copies
AS_GIVEN = "as_given"

_BLOCK = 256  # rows at a time whose products with their neighbours are made
_FOLDS = 10  # parts of the jackknife where none are given


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Rows of one table with the k nearest of each: `lists` (n, k) and the centred inner products with them, `kernel`."""

    index: Searchable
    lists: Index
    kernel: Array

    @classmethod
    def of(cls, rows: NDArray[Any], *, k: int = NEIGHBOURS, run: Run = PLAIN) -> Neighbourhood:
        """Search a sample of rows among itself; k is cut to the number of other rows."""
        values = np.asarray(rows, dtype=np.float64)
        index = Searchable(values, metric="euclidean")
        lists = _searched(index, values, min(k, len(values) - 1), run)
        centred = values - values.mean(axis=0)

        def products(start: int) -> list[Array]:
            stop = min(start + _BLOCK, len(centred))
            few = (slice(i, min(i + 32, stop)) for i in range(start, stop, 32))
            return [np.linalg.vecdot(centred[lists[own]], centred[own][:, None]) for own in few]

        parts = in_threads(products, _starts(len(values)), Run(workers=run.workers))
        return cls(index, lists, np.concatenate([rows for part in parts for rows in part]))

    @property
    def rows(self) -> Array:
        rows: Array = self.index.rows
        return rows

    @property
    def spread(self) -> float:
        """Root mean square distance from the mean."""
        return float(np.sqrt(self.rows.var(axis=0).sum()))


def compare_neighbours(
    x: Neighbourhood,
    y: Neighbourhood,
    forward: Mapping[str, Array],
    backward: Mapping[str, Array],
    *,
    shuffles: Sequence[Index],
    part: NDArray[np.int64] | None = None,
    run: Run = PLAIN,
) -> tuple[Neighbours, Neighbours]:
    r"""Neighbour overlap of paired rows, x to y and y to x.

    Two questions. `mutual` needs no map: mean_i |N_x(i) & N_y(i)| / k, N being the k nearest other rows on that side
    (Implements the mutual k-nearest-neighbour measure of Huh et al. 2024; a similarity on either side leaves it as it
    is). `searched` maps row i into the other space and looks there: mean_i |S(i) & N_y(i)| / k, S(i) being the k rows
    of y nearest to the image of x_i, without row i (Ours). Both fall as more rows are searched.

    `chance` is the value under random pairing: k / (n - 1) for `mutual`; for `searched` the mean over all pairs of
    different rows, which is larger where images gather near rows that are everybody's neighbours.
    `null` permutes the pairing: p = (1 + draws at least as large) / (1 + draws).

    Parameters
    ----------
    forward, backward
        Name of a map to the images of the sampled rows, in the coordinates of the other side. Map each row by the
        maps of its own fold, so that images are held out. `as_given` is added where the widths agree: the row itself,
        brought to the mean and the spread of the other side.
    shuffles
        Permutations of the rows: `shuffles[t][i]` is the row of y that stands at row i. Whole groups move together
        where rows of a group are alike.
    part
        Jackknife group of each row, whole groups of rows in one. Intervals are for this number of rows searched and for
        these maps: they cover the draw of the rows, not the fit of the maps.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.standard_normal((60, 3))
    >>> side = Neighbourhood.of(rows, k=5)
    >>> there, _ = compare_neighbours(side, side, {}, {}, shuffles=[rng.permutation(60) for _ in range(19)])
    >>> there.mutual.value, there.searched["as_given"].value, there.null["cknna"].p
    (1.0, 1.0, 0.05)
    """
    n, k = x.lists.shape
    part = np.arange(n) % _FOLDS if part is None else part
    mutual = overlap_of(x.lists, y.lists, part, chance=k / (n - 1))
    observed = _agreement(x.lists, x.kernel, y.lists, y.kernel)
    drawn = np.array([_shuffled(x, y, standing) for standing in shuffles]).reshape(-1, 2)
    null = {
        name: Null(float(values.mean()), (1 + int((values >= value).sum())) / (1 + len(values)), value, len(values), n)
        for name, value, values in zip(("mutual", "cknna"), observed, drawn.T, strict=True)
        if len(values)
    }
    results = []
    for source, target, images in ((x, y, forward), (y, x, backward)):
        if source.rows.shape == target.rows.shape:
            scale = target.spread / source.spread if source.spread else 1.0
            own = (source.rows - source.rows.mean(axis=0)) * scale + target.rows.mean(axis=0)
            images = {AS_GIVEN: own, **images}
        searched = {
            name: overlap_of(_searched(target.index, image, k, run), target.lists, part)
            for name, image in images.items()
        }
        results.append(Neighbours(k, n, mutual, searched, observed[1], null))
    return results[0], results[1]


def cknna(x: Neighbourhood, y: Neighbourhood) -> float:
    r"""CKA restricted to pairs of rows that are neighbours on both sides; 1 for alike, near 0 for unrelated.

    Implements CKNNA of Huh et al. 2024, Appendix A. With K and L the linear kernels of centred rows (so that the
    expectations in their formula vanish) and N(i) the k nearest other rows,
        align(K, L) = sum_i sum_{j in N_K(i) & N_L(i)} K_ij L_ij,
        CKNNA = align(K, L) / sqrt(align(K, K) align(L, L)).
    The authors' program takes the unbiased HSIC of the masked kernels instead.
    """
    return _agreement(x.lists, x.kernel, y.lists, y.kernel)[1]


def _agreement(lists_x: Index, kernel_x: Array, lists_y: Index, kernel_y: Array) -> tuple[float, float]:
    """Mutual overlap and CKNNA."""
    row, in_x, in_y = common_entries(lists_x, lists_y)
    products = float(kernel_x[row, in_x] @ kernel_y[row, in_y])
    size = float(np.sqrt(np.sum(kernel_x**2) * np.sum(kernel_y**2)))
    return len(row) / lists_x.size, products / size if size > 0 else float("nan")


def _shuffled(x: Neighbourhood, y: Neighbourhood, standing: Index) -> tuple[float, float]:
    """The agreement with row standing[i] of y at row i: lists are renamed, nothing is searched again."""
    place = np.empty_like(standing)
    place[standing] = np.arange(len(standing))
    return _agreement(x.lists, x.kernel, place[y.lists[standing]], y.kernel[standing])


def overlap_of(found: Index, lists: Index, part: NDArray[np.int64], chance: float | None = None) -> Overlap:
    """The share of two lists of a row that is in both, over all rows, with its interval."""
    n, k = lists.shape
    row, place, _ = common_entries(found, lists)
    if chance is None:
        times_found, times_near = (np.bincount(a.ravel(), minlength=n).astype(np.float64) for a in (found, lists))
        chance = float(times_found @ times_near - len(row)) / (n * (n - 1) * k)
    return Overlap(len(row) / (n * k), chance, _jackknife(found, lists, (row, found[row, place]), part))


def _jackknife(found: Index, lists: Index, common: tuple[Index, Index], part: NDArray[np.int64]) -> Interval | None:
    """95 % interval of an overlap from its values without the rows of one part, as queries and as rows found."""
    from scipy.special import stdtrit

    names, part = np.unique(part, return_inverse=True)
    if len(names) < 3:
        return None

    def without(row: Index, other: Index) -> Array:
        """Number of pairs that are left when the rows of each part are taken out."""
        counts = np.bincount(part[row] * len(names) + part[other], minlength=len(names) ** 2)
        square = counts.reshape(len(names), -1)
        left: Array = square.sum() - square.sum(axis=0) - square.sum(axis=1) + np.diag(square)
        return left

    queries = np.repeat(np.arange(len(lists)), lists.shape[1])
    values = 2 * without(*common) / (without(queries, found.ravel()) + without(queries, lists.ravel()))
    half = float(stdtrit(len(names) - 1, 0.975) * np.sqrt((len(names) - 1) * values.var()))
    value = len(common[0]) / lists.size
    return max(value - half, 0.0), min(value + half, 1.0)


def _starts(n: int) -> range:
    return range(0, n, _BLOCK)


def _searched(index: Searchable, queries: Array, k: int, run: Run) -> Index:
    """The k rows nearest to every query, by index; query i is never given row i."""
    return np.sort(index.nearest(queries, k, own=np.arange(len(queries)), run=run), axis=1)


@dataclass(frozen=True)
class Closeness:
    """Distance to the nearest of all rows over the rms distance of two rows: median and 5 % point over `queries` rows.

    `growth` is the number of rows within 4 `ALIKE` of a query over the number within 2 `ALIKE`; 1 where there are none.
    """

    median: float
    q05: float
    growth: float
    queries: int

    @property
    def alike(self) -> bool:
        """Most rows have a near copy: another row is close, and the next ones are not nearly so."""
        return self.median < ALIKE and self.growth < GROWTH


def closeness(
    blocks: Blocks,
    queries: Index,
    run: Run = PLAIN,
    *,
    mean: Array,
    rms: float,
    group: NDArray[np.int64] | None = None,
) -> Closeness:
    """How near the nearest of all rows is to the rows `queries`: one pass, because a sample thins copies out.

    Ours. Rows of a query's own `group` are left out (its own row where there are no groups), so declared copies are
    not counted. Rows of one or two dimensions lie close without being copies, so `Closeness.alike` also asks that the
    number of close rows does not grow with the radius. Distances are right to about 0.001 `rms`.
    """
    member = np.arange(blocks.n) if group is None else group
    # Rows of float32 were rounded to it before, so they lose nothing by being centred in it.
    narrow = blocks.dtype in (np.float16, np.float32)
    frame = _Frame(mean.astype(np.float32) if narrow else mean, np.float32(rms) if narrow else rms)
    found = fold(
        [blocks],
        partial(_Closest, frame, frame(blocks[queries]), member, member[queries]),
        **run.how,
        stage=Stage("near copies"),
    )
    distances = np.sqrt(found.squares)
    near, farther = found.counts
    return Closeness(
        float(np.median(distances)),
        float(np.quantile(distances, 0.05)),
        farther / near if near else 1.0,
        len(queries),
    )


@dataclass(frozen=True, eq=False)
class _Frame:
    """Rows about the mean, in units of the rms distance."""

    mean: NDArray[np.floating[Any]]
    rms: float | np.float32

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        values: NDArray[Any] = (rows - self.mean) / self.rms
        return values.astype(np.float32, copy=False)


class _Closest:
    """The statistic that folds rows into the smallest squared distance to each query, in units of rms, and counts."""

    def __init__(self, frame: _Frame, points: NDArray[np.float32], member: NDArray[np.int64], own: NDArray[np.int64]):
        self.frame, self.points, self.member, self.own = frame, points, member, own
        self.half = np.linalg.vecdot(points, points) / 2
        self.squares = np.full(len(points), np.inf)
        self.counts = [0, 0]

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        values = self.frame(rows[0])
        halves = self.half + np.linalg.vecdot(values, values)[:, None] / 2 - values @ self.points.T
        halves[self.member[first : first + len(values)][:, None] == self.own] = np.inf
        best = halves.argmin(axis=0)
        squares = np.square(values[best] - self.points, dtype=np.float64).sum(axis=1)
        squares[np.isinf(halves[best, np.arange(len(best))])] = np.inf
        np.minimum(self.squares, squares, out=self.squares)
        for i, radius in enumerate((2 * ALIKE, 4 * ALIKE)):
            self.counts[i] += int(np.count_nonzero(halves < radius**2 / 2))

    def merge(self, later: _Closest) -> None:
        np.minimum(self.squares, later.squares, out=self.squares)
        self.counts = [a + b for a, b in zip(self.counts, later.counts, strict=True)]
