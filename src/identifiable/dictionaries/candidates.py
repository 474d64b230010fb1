"""Large dictionaries: the nearest partners of every feature from blocked products, and a sparse assignment among them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from identifiable._compiling import compiled
from identifiable.blocks import Blocks, fold
from identifiable.dictionaries.assignment import Float32, FromCandidates, Index
from identifiable.groups import best_assignment
from identifiable.run import Run, Stage

CANDIDATES = 20  # nearest partners of every feature that the sparse assignment may choose from, on either side
TILE = 2**24  # cosines that are held at once by a thread: 64 MB
LEFT = 2**24  # cosines between features without a partner that are held at once
FEW_LEFT = 0.001  # share of features without a partner that moves the mean by less than 0.001, whatever they get
MORE = 2**21  # candidates, in all, of features that got none of theirs
SHIFT = 3.0  # the sparse solver takes a weight of 0 for no edge


def from_candidates(A: Float32, B: Float32, conventions: tuple[bool, ...], run: Run) -> list[FromCandidates]:
    """The assignment among the `CANDIDATES` nearest partners of every feature, for each convention (signed or not).

    Ours. A slack column for every row makes a full assignment possible; features that this leaves
    over bring more, and all is solved again; rows that still take the slack are
    matched with the columns that are left, exactly, as many at once as memory allows.
    """
    side = _Side.empty(1)
    run.prepare(_keep_nearest, side.score, True, 0, side.score, side.place, side.score, side.place)
    found = fold([Blocks(A)], partial(_Nearest, B, conventions), **run.how, stage=Stage("candidates"))
    return [_chosen(A, B, *sides, signed) for sides, signed in zip(found.sides(), conventions, strict=True)]


@dataclass(frozen=True, eq=False)
class _Side:
    """The nearest features of the other side: cosines (features, CANDIDATES), in no order, and whose they are."""

    score: Float32
    place: NDArray[np.int32]

    @classmethod
    def empty(cls, features: int) -> _Side:
        shape = (features, CANDIDATES)
        return cls(np.full(shape, -np.inf, np.float32), np.full(shape, -1, np.int32))


class _Nearest:
    """Fold statistic over rows of A: the nearest features of B to each, and of A to each of B, for every convention."""

    def __init__(self, B: Float32, conventions: tuple[bool, ...]):
        self.B, self.conventions = B, conventions
        self.rows: list[list[_Side]] = [[] for _ in conventions]
        self.columns = [_Side.empty(len(B)) for _ in conventions]

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        """Rows of A that follow those seen before, in tiles that stay near the processor."""
        step = max(TILE // len(self.B), 64)
        for start in range(0, len(rows[0]), step):
            cosines = np.asarray(rows[0][start : start + step], np.float32) @ self.B.T
            for which, signed in enumerate(self.conventions):
                side, back = _Side.empty(len(cosines)), self.columns[which]
                _keep_nearest(cosines, signed, first + start, side.score, side.place, back.score, back.place)
                self.rows[which].append(side)

    def merge(self, later: _Nearest) -> None:
        for which, (mine, others) in enumerate(zip(self.columns, later.columns, strict=True)):
            self.rows[which] += later.rows[which]
            _merge_nearest(mine.score, mine.place, others.score, others.place)

    def sides(self) -> list[tuple[_Side, _Side]]:
        whole = [
            _Side(np.concatenate([s.score for s in rows]), np.concatenate([s.place for s in rows]))
            for rows in self.rows
        ]
        return list(zip(whole, self.columns, strict=True))


def _push(score: Any, place: Any, value: Any, at: Any) -> None:
    """Put a value into a heap whose smallest stands first."""
    score[0], place[0] = value, at
    i, n = 0, len(score)
    while True:
        child = 2 * i + 1
        if child >= n:
            return
        if child + 1 < n and score[child + 1] < score[child]:
            child += 1
        if score[child] >= score[i]:
            return
        score[i], score[child] = score[child], score[i]
        place[i], place[child] = place[child], place[i]
        i = child


_push = compiled(_push)


@compiled
def _keep_nearest(
    cosines: Any, signed: Any, first: Any, score: Any, place: Any, back_score: Any, back_place: Any
) -> None:
    back = back_score[:, 0].copy()  # side by side: the heaps themselves are too far apart to be read for every cosine
    for i in range(cosines.shape[0]):
        least = score[i, 0]
        for j in range(cosines.shape[1]):
            value = cosines[i, j]
            if not signed and value < 0:
                value = -value
            if value > least:
                _push(score[i], place[i], value, j)
                least = score[i, 0]
            if value > back[j]:
                _push(back_score[j], back_place[j], value, first + i)
                back[j] = back_score[j, 0]


@compiled
def _merge_nearest(score: Any, place: Any, others: Any, places: Any) -> None:
    for j in range(score.shape[0]):
        for c in range(others.shape[1]):
            if others[j, c] > score[j, 0]:
                _push(score[j], place[j], others[j, c], places[j, c])


def _chosen(A: Float32, B: Float32, rows: _Side, columns: _Side, signed: bool) -> FromCandidates:
    n, m = len(A), len(B)
    if n > m:  # the solver wants a partner for every row
        turned = _partners(B, A, columns, rows, signed)
        partner = np.full(n, -1, np.intp)
        partner[turned] = np.arange(m)
    else:
        partner = _partners(A, B, rows, columns, signed)
    two = np.partition(rows.score, -2, axis=1)[:, -2:]
    nearest = rows.place[np.arange(n), rows.score.argmax(axis=1)].astype(np.intp)
    return FromCandidates(partner, two[:, 1], two[:, 0], nearest, columns.score.max(axis=1))


def _partners(A: Float32, B: Float32, rows: _Side, columns: _Side, signed: bool) -> Index:
    """A partner in B for every row of A, which has no more rows than B."""
    n, m = len(A), len(B)
    source = np.concatenate([np.repeat(np.arange(n), CANDIDATES), columns.place.ravel()])
    target = np.concatenate([rows.place.ravel(), np.repeat(np.arange(m), CANDIDATES)])
    score = np.concatenate([rows.score.ravel(), columns.score.ravel()])
    known = np.isfinite(score)
    edges, first = np.unique(source[known] * np.int64(m) + target[known], return_index=True)
    score = score[known][first]
    partner = _solved(edges, score, n, m)
    left, free = np.flatnonzero(partner < 0), np.setdiff1d(np.arange(m), partner)
    if len(left) > FEW_LEFT * n:
        row, column, ahead = _others(A[left], B, signed)
        column_back, row_back, back = _others(B[free], A, signed)
        more = [left[row] * np.int64(m) + column, row_back * np.int64(m) + free[column_back]]
        edges, first = np.unique(np.concatenate([edges, *more]), return_index=True)
        partner = _solved(edges, np.concatenate([score, ahead, back])[first], n, m)
    left = np.flatnonzero(partner < 0)
    free = np.setdiff1d(np.arange(m), partner)
    for start, stop in _pieces(len(left), len(free)):
        some = left[start:stop]
        cosines = A[some] @ B[free].T
        found = best_assignment(cosines if signed else np.abs(cosines))
        partner[some] = free[found]
        free = np.delete(free, found)
    return partner


def _solved(edges: NDArray[np.int64], score: Float32, n: int, m: int) -> Index:
    """The best assignment along these edges (row times m plus column); -1 for rows that they leave without a partner."""
    slack = np.zeros(
        n
    )  # about the cosine of what is left over. Tried: the cosine of the last candidate (0.015 lower), -1
    rows = np.concatenate([edges // m, np.arange(n)]).astype(np.int32)  # the solver of scipy 1.13 takes no others
    columns = np.concatenate([edges % m, m + np.arange(n)]).astype(np.int32)
    weights = np.concatenate([score, slack]).astype(np.float64) + SHIFT
    whole = coo_array((weights, (rows, columns)), shape=(n, m + n)).tocsr()
    _, chosen = min_weight_full_bipartite_matching(whole, maximize=True)
    partner: Index = np.where(chosen < m, chosen, -1).astype(np.intp)
    return partner


def _others(some: Float32, others: Float32, signed: bool) -> tuple[Index, Index, Float32]:
    """More candidates for features that got none of theirs: which of them, whose, and the cosine.

    Features of a dense group ask for the same partners, so each brings as many as memory allows.
    """
    count = min(max(CANDIDATES, MORE // len(some)), len(others))
    found, score = [], []
    step = max(TILE // len(others), 1)
    for start in range(0, len(some), step):
        cosines = some[start : start + step] @ others.T
        cosines = cosines if signed else np.abs(cosines)
        nearest = np.argpartition(cosines, -count, axis=1)[:, -count:]
        found.append(nearest.ravel())
        score.append(np.take_along_axis(cosines, nearest, axis=1).ravel())
    return np.repeat(np.arange(len(some)), count), np.concatenate(found), np.concatenate(score)


def _pieces(left: int, free: int) -> list[tuple[int, int]]:
    """Features without a partner, as many at once as memory allows."""
    step = max(LEFT // max(free, 1), 1)
    return [(start, min(start + step, left)) for start in range(0, left, step)]
