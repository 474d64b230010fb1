"""The nearest rows of a query, exact: `Index` searches rows held in memory, `nearest_rows` a table that is read in blocks.

Scores come from a product in float32 with a bound on its rounding, pair by pair. A row that the bound cannot rule out is
measured by its differences from the query in float64, and of two rows that tie the lower index wins. So a list depends
neither on the blocks nor on the number of workers. No matrix of all queries by all rows is made.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identifiable._checks import DataError, UsageError
from identifiable._compiling import compiled
from identifiable.blocks import MAX_CHUNK_ROWS, Blocks, fold, in_threads
from identifiable.moments import Array
from identifiable.run import PLAIN, Run, Stage

Metric = Literal["cosine", "euclidean"]
Lists = NDArray[np.intp]
Single = NDArray[np.float32]

NO_ROW = -1
_BLOCK = 512  # queries at a time: large enough for the product, small enough that scores stay in the cache
_PIECE = 2048  # rows at a time
_COMPARED = 2**22  # pairs of entries of two lists compared at a time
_EPS = float(np.finfo(np.float64).eps)
_TINY = 1e-36  # far above what underflow does to a score


@dataclass(frozen=True, eq=False)
class Found:
    """The k nearest rows of every query, nearest first, with their squared distances (of unit rows for cosine).

    `places` are those of the rows asked for: 1 + the number of rows that are nearer, of equal ones those with a lower index.
    """

    lists: Lists
    squares: Array
    places: NDArray[np.int64] | None = None


class Index:
    """Rows to search, held in memory.

    Cosine is the Euclidean distance of rows divided by their length; a row of zeros has cosine 0 with every other.

    >>> index = Index([[0.0], [1.0], [3.0]], metric="euclidean")
    >>> index.nearest([[0.9], [2.5]], 2)
    array([[1, 0],
           [2, 1]])
    >>> index.nearest([[0.0]], 2, own=[0])
    array([[1, 2]])
    """

    def __init__(self, rows: ArrayLike, *, metric: Metric):
        values = _stored(np.asarray(rows))
        self.rows, self.metric = values, metric
        self.frame = _Frame(metric, values)
        self.pieces = [self.frame.piece(at, values[at : at + _PIECE]) for at in range(0, len(values), _PIECE)]

    def __len__(self) -> int:
        return len(self.rows)

    def favouring(self, bonus: Array) -> Index:
        """The same rows where d² - bonus of the row takes the place of the squared distance d²."""
        other = copy(self)
        other.pieces = [p.favoured(bonus[p.first : p.first + len(p.rows)] / self.frame.unit**2) for p in self.pieces]
        return other

    def nearest(self, queries: ArrayLike, k: int, *, own: ArrayLike | None = None, run: Run = PLAIN) -> Lists:
        """The k rows nearest to every query, (q, k), nearest first. `own[i]` is not given to query i (-1: none is left out)."""
        return self.search(queries, k, own=own, run=run).lists

    def search(
        self,
        queries: ArrayLike,
        k: int,
        *,
        own: ArrayLike | None = None,
        place_of: ArrayLike | None = None,
        run: Run = PLAIN,
    ) -> Found:
        """`nearest`, with squared distances and with the place of row `place_of[i]`, among all rows, for query i."""
        values, left_out = _asked(queries, self.rows.shape, k, own)
        places = None if place_of is None else np.asarray(place_of, np.int64)
        _prepare(run, self.frame, self.pieces[0], places is not None)

        def block(start: int) -> Found:
            part = slice(start, start + _BLOCK)
            asked = self.frame.queries(values[part])
            state = _Search(asked, k, left_out[part])
            count = None if places is None else _Places(asked, places[part], self)
            space = np.empty(_BLOCK * _PIECE, np.float32)
            for piece in self.pieces:
                products = _products(asked.unit, piece.near, space)
                state.look(piece, products)
                if count is not None:
                    count.look(piece, products)
            return Found(state.lists, state.squares, None if count is None else count.places)

        parts = in_threads(block, range(0, len(values), _BLOCK), Run(workers=run.workers))
        lists, squares = (np.concatenate([getattr(p, name) for p in parts]) for name in ("lists", "squares"))
        counted = None if places is None else np.concatenate([p.places for p in parts if p.places is not None])
        return Found(lists, squares * self.frame.unit**2, counted)


def nearest_rows(
    source: Blocks,
    queries: ArrayLike,
    k: int,
    *,
    metric: Metric,
    own: ArrayLike | None = None,
    run: Run = PLAIN,
) -> Lists:
    """`Index.nearest` among the rows of a table that need not fit in memory: one pass.

    >>> nearest_rows(Blocks(np.array([[0.0], [1.0], [3.0]])), [[0.9], [2.5]], 2, metric="euclidean")
    array([[1, 0],
           [2, 1]])
    """
    values, left_out = _asked(queries, source.shape, k, own)
    frame = _Frame(metric, values)
    asked = frame.queries(values)
    _prepare(run, frame, frame.piece(0, source[:1]), False)
    start = partial(_Stream, frame, asked, left_out, _Least(len(values), k))
    found = fold([source], start, **run.how, stage=Stage("nearest rows"))
    return found.search.lists


def common_entries(first: Lists, second: Lists) -> tuple[Lists, Lists, Lists]:
    """The entries that two lists of a row share: the row and the place in either; by blocks, since all pairs are compared."""
    n, k, other = len(first), first.shape[1], second.shape[1]
    step = max(1, _COMPARED // (k * other))
    found = [
        at * k * other + np.flatnonzero(first[at : at + step, :, None] == second[at : at + step, None, :])
        for at in range(0, n, step)
    ]
    row, pair = np.divmod(np.concatenate(found), k * other)
    return row, pair // other, pair % other


def _prepare(run: Run, frame: _Frame, piece: _Piece, counts: bool) -> None:
    """Compile the loops here: threads come next."""
    products, index, squares = np.empty((1, 1), np.float32), np.empty((1, 1), np.int64), np.empty((1, 1))
    asked = frame.queries(np.zeros((1, piece.rows.shape[1])))
    run.prepare(_take_nearest, products, asked, piece, index[0], squares[0], squares, index.astype(np.intp))
    if counts:
        run.prepare(_square, asked.rows[0], asked.scale[0], piece.rows[0], piece.scale[0])
        run.prepare(_count_nearer, products, asked, piece, index[0], squares[0], index[0])


def _asked(queries: ArrayLike, shape: tuple[int, ...], k: int, own: ArrayLike | None) -> tuple[Any, NDArray[np.int64]]:
    """Queries and the rows they may not find, checked against the rows to search."""
    values = _stored(np.asarray(queries, np.float64))
    if values.shape[1] != shape[1]:
        raise DataError(f"queries have {values.shape[1]} columns, the rows to search {shape[1]}.")
    left_out = np.full(len(values), NO_ROW, np.int64) if own is None else np.asarray(own, np.int64)
    if left_out.shape != (len(values),):
        raise DataError(f"own: expected one row for each of {len(values)} queries, got shape {left_out.shape}.")
    if not 1 <= k <= shape[0] - (own is not None):
        raise UsageError(f"k={k}: expected 1 to {shape[0] - (own is not None)}, the number of rows to search.")
    return values, left_out


def _stored(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows as the kernels take them: float32 or float64, in one piece."""
    if rows.ndim != 2:
        raise DataError(f"expected a matrix of rows, got shape {rows.shape}.")
    kind = rows.dtype if rows.dtype in (np.float32, np.float64) else np.float64
    return np.require(rows, kind, ["C", "W"])


def _products(queries: Single, near: Single, space: Single) -> Single:
    """queries @ near, in memory that is used again: fresh pages cost time."""
    shape = len(queries), near.shape[1]
    return np.matmul(queries, near, out=space[: shape[0] * shape[1]].reshape(shape))


def _power_of_two(value: float) -> float:
    """The power of two next above a positive value; 1 for zero."""
    return math.ldexp(1.0, math.frexp(value)[1])


class _Queries(NamedTuple):
    """Queries in the units of a frame: `unit` is their direction from its centre, `length` their distance from there."""

    rows: NDArray[Any]
    scale: Array
    unit: Single
    length: Array

    def part(self, which: slice) -> _Queries:
        return _Queries(self.rows[which], self.scale[which], self.unit[which], self.length[which])


class _Piece(NamedTuple):
    """Rows from `first` on: `near` (d, m) about the centre, over `reach`; `squares` are their squared distances from there.

    With h = (|y|² + extra) / 2 in units of reach², a score is h w - p, w being reach over the length of the query and p the product.
    `low` and `high` are h less and plus its rounding, `margin` is the rounding of p, `slack` what else may be wrong with a score.
    """

    first: int
    rows: NDArray[Any]
    scale: Array
    near: Single
    squares: Array
    reach: float
    slack: float
    extra: Array
    low: Single
    high: Single
    margin: Single

    def favoured(self, bonus: Array) -> _Piece:
        return _scored(*self[:7], extra=self.extra - bonus)


def _scored(
    first: int,
    rows: NDArray[Any],
    scale: Array,
    near: Single,
    squares: Array,
    reach: float,
    slack: float,
    *,
    extra: Array,
) -> _Piece:
    """A piece with the bounds of its scores."""
    rounding = 2 * (len(near) + 8) * float(np.finfo(np.float32).eps)
    half = (squares + extra) / (2 * reach**2)
    low, high = ((half + part * np.abs(half)).astype(np.float32) for part in (-rounding, rounding))
    margin = (rounding / reach * np.sqrt(squares)).astype(np.float32)
    return _Piece(first, rows, scale, near, squares, reach, slack, extra, low, high, margin)


class _Frame:
    """The units of a search: rows are scaled (to length 1 for cosine), then taken about a centre near their mean."""

    def __init__(self, metric: Metric, rows: NDArray[Any]):
        self.metric = metric
        self.unit = 1.0 if metric == "cosine" else _power_of_two(float(np.abs(rows).max(initial=0.0)))
        total = np.zeros(rows.shape[1])
        for at in range(0, len(rows), MAX_CHUNK_ROWS):
            part = rows[at : at + MAX_CHUNK_ROWS]
            total += self.scale(part) @ part
        self.center = total / max(len(rows), 1)
        if metric == "euclidean":  # so that units follow the spread, not the offset
            peak = max(
                float(np.abs(rows[at : at + MAX_CHUNK_ROWS] / self.unit - self.center).max())
                for at in range(0, len(rows), MAX_CHUNK_ROWS)
            )
            power = _power_of_two(peak)
            self.unit, self.center = self.unit * power, self.center / power

    def scale(self, rows: NDArray[Any]) -> Array:
        """What a row is multiplied by."""
        if self.metric == "euclidean":
            return np.full(len(rows), 1 / self.unit)
        peak = np.abs(rows).max(axis=1).astype(np.float64)
        length = peak * np.sqrt(np.square(rows / np.where(peak > 0, peak, 1.0)[:, None]).sum(axis=1))
        inverse: Array = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        return inverse

    def about(self, rows: NDArray[Any], scale: Array) -> Array:
        moved: Array = rows * scale[:, None]
        moved -= self.center
        return moved

    def queries(self, rows: NDArray[Any]) -> _Queries:
        scale = self.scale(rows)
        moved = self.about(rows, scale)
        length = np.sqrt(np.linalg.vecdot(moved, moved))
        length[length < _TINY] = _TINY
        return _Queries(rows, scale, (moved / length[:, None]).astype(np.float32), length)

    def piece(self, first: int, stored: NDArray[Any]) -> _Piece:
        rows = _stored(stored)
        scale = self.scale(rows)
        moved = self.about(rows, scale)
        squares = np.linalg.vecdot(moved, moved)
        reach = _power_of_two(float(np.sqrt(squares.max())))
        moved /= reach
        return _scored(
            first=first,
            rows=rows,
            scale=scale,
            near=np.ascontiguousarray(moved.astype(np.float32).T),
            squares=squares,
            reach=reach,
            extra=np.where(scale == 0, 1.0, 0.0),
            slack=16 * _EPS * (float(np.linalg.norm(self.center)) + 1) / reach + _TINY,
        )


class _Search:
    """The nearest rows so far. Rows farther than `bound` are not wanted: k that are nearer are known, here or elsewhere."""

    def __init__(self, asked: _Queries, k: int, own: NDArray[np.int64]):
        self.asked, self.own = asked, own
        self.lists = np.full((len(own), k), NO_ROW, np.intp)
        self.squares = np.full((len(own), k), np.inf)
        self.bound = np.full(len(own), np.inf)

    def look(self, piece: _Piece, products: Single, part: slice = slice(None)) -> None:
        asked = self.asked.part(part)
        _take_nearest(products, asked, piece, self.own[part], self.bound[part], self.squares[part], self.lists[part])

    def merge(self, later: _Search) -> None:
        k = self.lists.shape[1]
        squares = np.concatenate([self.squares, later.squares], axis=1)
        order = np.argsort(squares, axis=1, kind="stable")[:, :k]  # rows of `later` have higher indices
        self.squares = np.take_along_axis(squares, order, axis=1)
        self.lists = np.take_along_axis(np.concatenate([self.lists, later.lists], axis=1), order, axis=1)


class _Places:
    """The number of rows nearer than a given one, so far."""

    def __init__(self, asked: _Queries, rows: NDArray[np.int64], index: Index):
        self.asked, self.rows = asked, rows
        self.limit = np.empty(len(rows))
        for i, row in enumerate(rows):
            piece = index.pieces[row // _PIECE]
            at = row % _PIECE
            self.limit[i] = _square(asked.rows[i], asked.scale[i], piece.rows[at], piece.scale[at]) + piece.extra[at]
        self.places = np.ones(len(rows), np.int64)

    def look(self, piece: _Piece, products: Single) -> None:
        _count_nearer(products, self.asked, piece, self.rows, self.limit, self.places)


class _Least:
    """The k least squared distances that any strip has found: what one knows saves the others work, and moves no list.

    Strips in other threads may replace each other's `squares`. Then some are forgotten; none is ever counted twice.
    """

    def __init__(self, queries: int, k: int):
        self.squares = np.full((queries, k), np.inf)

    def add(self, fresh: Array) -> None:
        k = fresh.shape[1]
        self.squares = np.partition(np.concatenate([self.squares, fresh], axis=1), k - 1, axis=1)[:, :k]


class _Stream:
    """The statistic that folds rows into the nearest ones of every query."""

    def __init__(self, frame: _Frame, asked: _Queries, own: NDArray[np.int64], least: _Least):
        self.frame, self.least = frame, least
        self.search = _Search(asked, least.squares.shape[1], own)

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        search, unit = self.search, self.search.asked.unit
        np.minimum(search.bound, self.least.squares.max(axis=1), out=search.bound)
        space = np.empty(_BLOCK * _PIECE, np.float32)
        for at in range(0, len(rows[0]), _PIECE):
            piece = self.frame.piece(first + at, rows[0][at : at + _PIECE])
            for start in range(0, len(unit), _BLOCK):
                part = slice(start, start + _BLOCK)
                search.look(piece, _products(unit[part], piece.near, space), part)
        self.least.add(np.where(search.lists >= first, search.squares, np.inf))

    def merge(self, later: _Stream) -> None:
        self.search.merge(later.search)


# -- Loops over scores. Most rows are ruled out a run at a time. Runs are slices read from their start: so the compiler compares
# several scores at once, 0.2 ns for each instead of 1.5.

_RUN = 128
_SEVERAL = frozenset({"contract", "nnan", "nsz", "reassoc"})  # scores are numbers; sums in any order


def _square_of(query: Any, query_scale: float, row: Any, row_scale: float) -> float:
    total = 0.0
    for c in range(len(query)):
        difference = row[c] * row_scale - query[c] * query_scale
        total += difference * difference
    return total


_square = compiled(_square_of, _SEVERAL)


def _any_below_of(edge: Any, low: Any, margin: Any, products: Any, weight: Any) -> bool:
    found = False
    for j in range(len(low)):
        found |= low[j] * weight - margin[j] - products[j] <= edge
    return found


_any_below = compiled(_any_below_of, _SEVERAL)


def _count_below_of(edge: Any, high: Any, margin: Any, products: Any, weight: Any) -> Any:
    count = np.float32(0)
    for j in range(len(high)):
        count += np.float32(1) if high[j] * weight + margin[j] - products[j] < edge else np.float32(0)
    return count


_count_below = compiled(_count_below_of, _SEVERAL)


def _take_nearest_of(products: Any, asked: Any, piece: Any, own: Any, bound: Any, squares: Any, lists: Any) -> None:
    count, k = products.shape[1], squares.shape[1]
    kept = np.empty(count, np.int64)
    bounds = np.empty(count, np.float32)
    heap = np.empty(k, np.float32)  # the k least upper bounds, the largest first
    for i in range(len(products)):
        length = asked.length[i]
        weight = np.float32(piece.reach / length)
        unit = 2 * length * piece.reach
        doubt = np.float32(piece.slack * (1 + piece.reach / length) + 1e-12 * length / piece.reach)
        for place in range(k):
            score = (min(squares[i, k - 1 - place], bound[i]) - length * length) / unit
            heap[place] = np.float32(score + 1e-6 * abs(score)) + doubt
        edge = heap[0]
        found = 0
        for start in range(0, count, _RUN):
            stop = min(start + _RUN, count)
            if not _any_below(edge, piece.low[start:stop], piece.margin[start:stop], products[i, start:stop], weight):
                continue
            for j in range(start, stop):
                lower = piece.low[j] * weight - piece.margin[j] - products[i, j]
                if lower > edge or piece.first + j == own[i]:
                    continue
                kept[found] = j
                bounds[found] = lower
                found += 1
                upper = piece.high[j] * weight + piece.margin[j] - products[i, j] + doubt
                if upper < heap[0]:
                    at = 0
                    while True:
                        child = 2 * at + 1
                        if child >= k:
                            break
                        if child + 1 < k and heap[child + 1] > heap[child]:
                            child += 1
                        if heap[child] <= upper:
                            break
                        heap[at] = heap[child]
                        at = child
                    heap[at] = upper
                    edge = heap[0]
        for c in range(found):
            if bounds[c] > edge:
                continue
            j = kept[c]
            square = _square(asked.rows[i], asked.scale[i], piece.rows[j], piece.scale[j]) + piece.extra[j]
            if square > bound[i] or not square < squares[i, k - 1]:
                continue
            place = k - 1
            while place > 0 and square < squares[i, place - 1]:
                squares[i, place] = squares[i, place - 1]
                lists[i, place] = lists[i, place - 1]
                place -= 1
            squares[i, place] = square
            lists[i, place] = piece.first + j
        bound[i] = min(bound[i], squares[i, k - 1])


_take_nearest = compiled(_take_nearest_of, frozenset())


def _count_nearer_of(products: Any, asked: Any, piece: Any, given: Any, limits: Any, places: Any) -> None:
    count = products.shape[1]
    for i in range(len(products)):
        length = asked.length[i]
        weight = np.float32(piece.reach / length)
        score = (limits[i] - length * length) / (2 * length * piece.reach)
        doubt = np.float32(piece.slack * (1 + piece.reach / length) + 1e-12 * length / piece.reach)
        above = np.float32(score + 1e-6 * abs(score)) + doubt
        below = np.float32(score - 1e-6 * abs(score)) - doubt
        for start in range(0, count, _RUN):
            stop = min(start + _RUN, count)
            if not _any_below(above, piece.low[start:stop], piece.margin[start:stop], products[i, start:stop], weight):
                continue
            if (
                _count_below(below, piece.high[start:stop], piece.margin[start:stop], products[i, start:stop], weight)
                == stop - start
            ):
                places[i] += stop - start
                continue
            for j in range(start, stop):
                if piece.low[j] * weight - piece.margin[j] - products[i, j] > above or piece.first + j == given[i]:
                    continue
                if piece.high[j] * weight + piece.margin[j] - products[i, j] < below:
                    places[i] += 1
                    continue
                square = _square(asked.rows[i], asked.scale[i], piece.rows[j], piece.scale[j]) + piece.extra[j]
                if square < limits[i] or (square == limits[i] and piece.first + j < given[i]):
                    places[i] += 1


_count_nearer = compiled(_count_nearer_of, frozenset())
