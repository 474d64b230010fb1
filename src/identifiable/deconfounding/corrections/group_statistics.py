"""Statistics of every plate or batch in one pass over the rows: means and variances, or a summary of a group's rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.blocks import Blocks, fold
from identifiable.deconfounding.corrections.correcting import Task
from identifiable.deconfounding.design import Codes
from identifiable.groups import AffineMap
from identifiable.moments import EPS, Array

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Selected:
    """Rows of a table with the group of each; `table` may map them as they are read."""

    table: Blocks
    places: Codes
    codes: Codes
    size: int

    @classmethod
    def of(cls, task: Task, places: Codes, codes: Codes, size: int, through: AffineMap | None = None) -> Selected:
        """The rows `places` of a task's table, `codes` being those of all rows of the design."""
        table = task.blocks.select(places)
        if through is not None:
            table = table.through(through, through.matrix.shape[1])
        return cls(table, places, codes[places], size)

    def read(self, first: int, rows: NDArray[Any]) -> Array:
        """A chunk in float64; values that are not finite are refused with the rows they are in."""
        block = np.asarray(rows, dtype=np.float64)
        bad = ~np.isfinite(block).all(axis=1)
        if bad.any():
            found = self.places[first : first + len(block)][bad]
            raise DataError(
                f"{self.table.name}: expected finite numbers, got NaN or infinite values (first rows, from 0: "
                f"{', '.join(map(str, found[:5]))}); remove or impute them."
            )
        return block


class GroupMoments:
    """Count, mean and centred sum of squares of every column in every group; memory is groups x columns.

    Each chunk is centred by its own group means before squaring (Chan, Golub and LeVeque 1983), so large offsets of plates
    cost no digits.
    """

    def __init__(self, rows: Selected):
        self.rows = rows
        self.counts = np.zeros(rows.size, dtype=np.int64)
        self.means = np.zeros((rows.size, rows.table.d))
        self.squares = np.zeros((rows.size, rows.table.d))

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        block = self.rows.read(first, rows[0])
        codes = self.rows.codes[first : first + len(block)]
        order = np.argsort(codes, kind="stable")
        block = block[order]
        which, starts, counts = np.unique(codes[order], return_index=True, return_counts=True)
        means = np.add.reduceat(block, starts, axis=0) / counts[:, None]
        block -= np.repeat(means, counts, axis=0)
        np.square(block, out=block)
        self._absorb(which, counts, means, np.add.reduceat(block, starts, axis=0))

    def merge(self, later: GroupMoments) -> None:
        which = np.flatnonzero(later.counts)
        self._absorb(which, later.counts[which], later.means[which], later.squares[which])

    def _absorb(self, which: Codes, counts: NDArray[np.int64], means: Array, squares: Array) -> None:
        before = self.counts[which]
        total = before + counts
        step = means - self.means[which]
        self.means[which] += step * (counts / total)[:, None]
        self.squares[which] += squares + step**2 * (before * counts / total)[:, None]
        self.counts[which] = total

    @property
    def energy(self) -> Array:
        """`squares`, exactly zero where only the rounding of a constant column is left."""
        rounding = self.counts[:, None] * (8 * EPS * np.abs(self.means)) ** 2
        return np.where(self.squares > rounding, self.squares, 0.0)

    @property
    def overall_mean(self) -> Array:
        mean: Array = self.counts @ self.means / self.counts.sum()
        return mean


class GroupSummaries(Generic[T]):
    """`summarise(rows of a group)` for every group, each called once its last row has come.

    Only groups that are incomplete are held: where a file goes plate by plate that is one plate, at worst all rows selected.
    """

    def __init__(self, rows: Selected, summarise: Callable[[Array], T]):
        self.rows, self.summarise = rows, summarise
        self.expected = np.bincount(rows.codes, minlength=rows.size)
        self.waiting: dict[int, list[Array]] = {}
        self.done: dict[int, T] = {}

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        block = self.rows.read(first, rows[0])
        codes = self.rows.codes[first : first + len(block)]
        for group in np.unique(codes).tolist():
            self._append(group, [block[codes == group]])

    def merge(self, later: GroupSummaries[T]) -> None:
        self.done.update(later.done)
        for group, parts in later.waiting.items():
            self._append(group, parts)

    def _append(self, group: int, parts: list[Array]) -> None:
        held = self.waiting.setdefault(group, [])
        held += parts
        if sum(map(len, held)) == self.expected[group]:
            self.done[group] = self.summarise(np.concatenate(held))
            del self.waiting[group]


def group_moments(task: Task, rows: Selected, stage: str) -> GroupMoments:
    """The moments of every group, in one pass."""
    found = fold([rows.table], partial(GroupMoments, rows), workers=task.workers, progress=task.progress, stage=stage)
    if not np.isfinite(found.squares).all():
        raise DataError(
            f"{task.blocks.name}: the squares of the values overflow float64; divide the data by a constant first."
        )
    return found


def group_summaries(task: Task, rows: Selected, summarise: Callable[[Array], T], stage: str) -> dict[int, T]:
    """The summary of every group that has rows, in one pass."""

    def start() -> GroupSummaries[T]:
        return GroupSummaries(rows, summarise)

    return fold([rows.table], start, workers=task.workers, progress=task.progress, stage=stage).done
