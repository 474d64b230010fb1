"""Who goes where: folds, cells and samples, decided row by row from the seed and the row's identity.

Every decision is a hash (SplitMix64, Steele et al. 2014) of the seed, the purpose and the id or position of a row. It depends
neither on the block size nor on the order of rows that have ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError

GAMMA = np.uint64(0x9E3779B97F4A7C15)
CELLS_PER_FOLD = 2  # five folds then make the ten groups of rows that a jackknife leaves out in turn
MOST_ROWS = 0.4  # share of the rows that one cell may hold
FEWEST_UNITS = 2  # independent units (rows, or groups of rows) in a cell, below which there are no intervals

_FOLDS, _CELLS, _SAMPLE = 1, 2, 3  # purposes: different, unrelated decisions from one seed


def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: every input bit moves every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniforms(seed: int, first: int, count: int) -> NDArray[np.float64]:
    """A number in [0, 1) for every row, from its position and the seed."""
    with np.errstate(over="ignore"):
        x = np.arange(first + 1, first + count + 1, dtype=np.uint64)
        x = mixed(x * GAMMA + np.uint64(seed % 2**63) * np.uint64(0xD1342543DE82EF95))
    result: NDArray[np.float64] = (x >> np.uint64(11)).astype(np.float64) / 2.0**53
    return result


@dataclass(frozen=True, eq=False)
class RowPlan:
    """Fold and cell of every row, and rows in an order drawn by the seed (`shuffled`).

    A cell is half a fold: cell c lies in fold c // CELLS_PER_FOLD. `units` counts what may be taken as independent: rows, or
    groups of rows; `group` numbers the groups, None where every row is its own.
    """

    n_folds: int
    cell: NDArray[np.int64]
    units: int
    shuffled: NDArray[np.intp]
    group: NDArray[np.int64] | None = None

    @property
    def n_cells(self) -> int:
        return self.n_folds * CELLS_PER_FOLD

    @cached_property
    def fold(self) -> NDArray[np.int64]:
        return self.cell // CELLS_PER_FOLD

    @cached_property
    def can_leave_out(self) -> bool:
        """Whether the cells hold enough independent units for a jackknife, and none of them most of the rows."""
        sizes = np.bincount(self.cell, minlength=self.n_cells)
        fair = sizes.min() > 0 and sizes.max() <= MOST_ROWS * len(self.cell)
        return bool(fair and self.units >= FEWEST_UNITS * self.n_cells)

    def sample(self, rows: int) -> NDArray[np.intp]:
        """`rows` rows drawn at random, or all of them."""
        return self.shuffled[:rows]


def plan_rows(
    n: int,
    ids: NDArray[Any] | None,
    *,
    seed: int,
    n_folds: int,
    groups: NDArray[Any] | None = None,
    tables: Sequence[str] = (),
) -> RowPlan:
    """Draw folds, cells and a random order. Groups stay whole in folds and cells; `tables` are their names, for errors."""
    if n_folds < 2:
        raise UsageError(f"cross-validation needs at least 2 folds, got {n_folds}.")
    if n < 2 * n_folds:
        whose = f"{' and '.join(dict.fromkeys(tables))}: " if tables else ""
        raise DataError(
            f"{whose}{n} rows are too few for {n_folds} folds of at least two; pass more rows, or fewer folds (--folds, folds=)."
        )
    keys = _keys(np.arange(n) if ids is None else ids)
    shuffled = np.argsort(_hash(keys, seed, _SAMPLE), kind="stable")
    if groups is None:
        rank = _rank(_hash(keys, seed, _FOLDS))
        return RowPlan(n_folds, rank % n_folds * CELLS_PER_FOLD + rank // n_folds % CELLS_PER_FOLD, n, shuffled)
    names, member = np.unique(_as_text(groups), return_inverse=True)
    if len(names) < n_folds:
        raise UsageError(f"{len(names)} groups cannot fill {n_folds} folds; pass at most {len(names)} folds.")
    sizes = np.bincount(member)
    fold = _balanced(_hash(_keys(names), seed, _FOLDS), sizes, n_folds)
    cell = np.empty_like(fold)
    order = _hash(_keys(names), seed, _CELLS)
    for k in range(n_folds):
        own = np.flatnonzero(fold == k)
        cell[own] = k * CELLS_PER_FOLD + _balanced(order[own], sizes[own], CELLS_PER_FOLD)
    return RowPlan(n_folds, cell[member], len(names), shuffled, member)


def _balanced(order: NDArray[np.uint64], sizes: NDArray[np.int64], n_folds: int) -> NDArray[np.int64]:
    """Give groups, in hashed order, to the fold that has the fewest rows so far."""
    filled = np.zeros(n_folds, dtype=np.int64)
    fold = np.empty(len(sizes), dtype=np.int64)
    for g in np.argsort(order, kind="stable"):
        fold[g] = np.argmin(filled)
        filled[fold[g]] += sizes[g]
    return fold


def _rank(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    rank = np.empty(len(values), dtype=np.int64)
    rank[np.argsort(values, kind="stable")] = np.arange(len(values))
    return rank


def _as_text(values: NDArray[Any]) -> NDArray[Any]:
    text = np.asarray(values).astype(str)
    return text.astype(text.dtype.newbyteorder("="))


def _keys(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """A 64-bit number for each id; equal ids give equal numbers, whatever the array's text width."""
    ids = np.asarray(ids)
    if ids.dtype.kind in "iu":
        return ids.astype(np.int64).view(np.uint64)
    text = np.ascontiguousarray(_as_text(ids))
    letters = text.view(np.uint32).reshape(len(text), -1)
    key = np.full(len(text), 0xCBF29CE484222325, dtype=np.uint64)
    for column in letters.T:
        key = np.where(
            column != 0, mixed((key ^ column.astype(np.uint64)) + GAMMA), key
        )  # shorter ids are padded with zeros
    return key


def _hash(keys: NDArray[np.uint64], seed: int, purpose: int) -> NDArray[np.uint64]:
    salt = mixed(np.array([(int(seed) * 8 + purpose) & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64) + GAMMA)
    return mixed((keys ^ salt) + GAMMA)
