"""Moments: what one pass over the rows leaves behind, enough for every linear estimate.

`Moments` holds the count, sums and Gram matrix of one or several representations side by side, about a
shift. They merge, and a part can be taken out again (`minus`), so k-fold cross-validation costs no
extra pass: training = total - fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """First and second moments of n rows of one or more representations side by side.

    With z = row - shift over all columns (`widths` says which columns belong to which
    representation): `total` = sum z, `gram` = sum z z^T, all in float64. A shift near the mean keeps
    the centred scatter free of cancellation.

    With two representations, `mean_x`, `mean_y`, `xx`, `yy`, `xy` are the means and centred scatters.

    >>> m = Moments.of(np.array([[0.0, 1.0], [2.0, 5.0]]), widths=(1, 1))
    >>> m.mean_x, m.xy
    (array([1.]), array([[4.]]))
    """

    n: int
    widths: tuple[int, ...]
    shift: Array
    total: Array
    gram: Array

    @classmethod
    def of(cls, rows: NDArray[Any], widths: tuple[int, ...] | None = None) -> Moments:
        """Moments of rows held in memory."""
        rows = np.asarray(rows, dtype=np.float64)
        shift = rows[: max(len(rows), 1)].mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
        centred = rows - shift
        return cls(len(rows), widths or (rows.shape[1],), shift, centred.sum(axis=0), centred.T @ centred)

    @classmethod
    def zero(cls, widths: tuple[int, ...], shift: Array) -> Moments:
        """Moments of no rows: the identity of `merge`."""
        d = sum(widths)
        return cls(0, widths, shift, np.zeros(d), np.zeros((d, d)))

    @property
    def mean(self) -> Array:
        return self.shift + self.total / max(self.n, 1)

    @cached_property
    def scatter(self) -> Array:
        """Sum over rows of the outer product of what is left after removing the mean."""
        return self.gram - np.outer(self.total, self.total) / max(self.n, 1)

    @property
    def mean_x(self) -> Array:
        return self.mean[: self.widths[0]]

    @property
    def mean_y(self) -> Array:
        return self.mean[self.widths[0] :]

    @property
    def xx(self) -> Array:
        return self.scatter[: self.widths[0], : self.widths[0]]

    @property
    def yy(self) -> Array:
        return self.scatter[self.widths[0] :, self.widths[0] :]

    @property
    def xy(self) -> Array:
        return self.scatter[: self.widths[0], self.widths[0] :]

    def about(self, shift: Array) -> Moments:
        """The same moments about another shift."""
        if np.array_equal(shift, self.shift):
            return self
        delta = self.shift - shift
        cross = np.outer(delta, self.total)
        gram = self.gram + cross + cross.T + self.n * np.outer(delta, delta)
        return Moments(self.n, self.widths, shift, self.total + self.n * delta, gram)

    def merge(self, other: Moments) -> Moments:
        """Moments of the rows of both."""
        other = self._aligned(other)
        return Moments(self.n + other.n, self.widths, self.shift, self.total + other.total, self.gram + other.gram)

    def minus(self, other: Moments) -> Moments:
        """Moments without the rows of `other`, which must be among them."""
        if other.n > self.n:
            raise DataError(f"cannot take {other.n} rows out of moments of {self.n}.")
        other = self._aligned(other)
        return Moments(self.n - other.n, self.widths, self.shift, self.total - other.total, self.gram - other.gram)

    def between(self, source: int, target: int) -> Moments:
        """Moments of two of the representations, source first."""
        return self._columns(
            np.r_[self._range(source), self._range(target)], (self.widths[source], self.widths[target])
        )

    def alone(self, which: int) -> Moments:
        """Moments of one of the representations."""
        return self._columns(self._range(which), (self.widths[which],))

    def reversed(self) -> Moments:
        """Two representations with source and target exchanged."""
        return self.between(1, 0)

    def through(self, centers: Sequence[Array], matrices: Sequence[Array]) -> Moments:
        """Moments of `(x - center) @ matrix` for each representation, without another pass."""
        blocks = _block_diagonal(matrices)
        mean = (self.mean - np.concatenate(centers)) @ blocks
        widths = tuple(m.shape[1] for m in matrices)
        scatter = blocks.T @ self.scatter @ blocks
        return Moments(self.n, widths, mean, np.zeros(sum(widths)), (scatter + scatter.T) / 2)

    def _range(self, which: int) -> NDArray[np.intp]:
        start = sum(self.widths[:which])
        return np.arange(start, start + self.widths[which])

    def _columns(self, columns: NDArray[np.intp], widths: tuple[int, ...]) -> Moments:
        return Moments(self.n, widths, self.shift[columns], self.total[columns], self.gram[np.ix_(columns, columns)])

    def _aligned(self, other: Moments) -> Moments:
        if other.widths != self.widths:
            raise DataError(f"moments of widths {self.widths} and {other.widths} do not merge.")
        return other.about(self.shift)


class MomentSums:
    """The statistic that folds rows into one `Moments` per cross-validation fold.

    Rows are gathered by fold into float64 buffers, about the shift, and each full buffer costs one
    symmetric product, so the Grams of all folds together cost what the Gram of all rows costs.

    Parameters
    ----------
    fold
        The fold of every row, or None to keep all rows together.
    maps
        For each representation None, or `(center, matrix)`: accumulate moments of `(x - center) @ matrix`
        instead of x. Used to measure again in coordinates where the data is well conditioned.
    """

    def __init__(
        self,
        widths: tuple[int, ...],
        shift: Array,
        *,
        fold: NDArray[np.integer[Any]] | None = None,
        n_folds: int = 1,
        buffer_rows: int = 2048,
        maps: Sequence[tuple[Array, Array] | None] | None = None,
    ):
        self.fold = fold
        self.maps = maps or [None] * len(widths)
        self.widths = tuple(d if m is None else m[1].shape[1] for d, m in zip(widths, self.maps, strict=True))
        shifts = np.split(shift, np.cumsum(widths)[:-1])
        mapped = [s if m is None else np.zeros(m[1].shape[1]) for s, m in zip(shifts, self.maps, strict=True)]
        self.shift = np.concatenate(mapped)
        d = sum(self.widths)
        self.counts = np.zeros(n_folds, dtype=np.int64)
        self.totals = np.zeros((n_folds, d))
        self.grams = np.zeros((n_folds, d, d))
        self._buffers: list[Array] = []
        self._buffer_rows = buffer_rows
        self._filled = [0] * n_folds

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        m = len(rows[0])
        if self.fold is None:
            self._append(0, rows)
            return
        labels = self.fold[first : first + m]
        for k in range(len(self.counts)):
            chosen = np.flatnonzero(labels == k)
            if chosen.size:
                self._append(k, [block.take(chosen, axis=0) for block in rows])

    def merge(self, later: MomentSums) -> None:
        self._flush_all()
        later._flush_all()
        self.counts += later.counts
        self.totals += later.totals
        self.grams += later.grams

    def moments(self) -> list[Moments]:
        """One `Moments` per fold."""
        with np.errstate(invalid="ignore", over="ignore"):  # as in `fold`: the caller reports what is not finite
            self._flush_all()
        return [
            Moments(int(n), self.widths, self.shift, total, gram)
            for n, total, gram in zip(self.counts, self.totals, self.grams, strict=True)
        ]

    def _append(self, k: int, rows: list[NDArray[Any]]) -> None:
        m = len(rows[0])
        if not self._buffers:
            shape = (self._buffer_rows, sum(self.widths))
            self._buffers = [np.empty(shape) for _ in self.counts]
            self._product = np.empty((shape[1], shape[1]))
        for a in range(0, m, self._buffer_rows):
            part = rows if m <= self._buffer_rows else [block[a : a + self._buffer_rows] for block in rows]
            count = len(part[0])
            if self._filled[k] + count > self._buffer_rows:
                self._flush(k)
            self._write(self._buffers[k][self._filled[k] : self._filled[k] + count], part)
            self._filled[k] += count

    def _write(self, out: Array, rows: list[NDArray[Any]]) -> None:
        at = 0
        for block, width, map_ in zip(rows, self.widths, self.maps, strict=True):
            part = out[:, at : at + width]
            if map_ is None:
                np.subtract(block, self.shift[at : at + width], out=part)
            else:
                np.matmul(block - map_[0], map_[1], out=part)
            at += width

    def _flush(self, k: int) -> None:
        filled = self._buffers[k][: self._filled[k]]
        self.counts[k] += len(filled)
        self.totals[k] += filled.sum(axis=0)
        np.matmul(filled.T, filled, out=self._product)  # numpy sees A.T @ A and calls the symmetric product
        self.grams[k] += self._product
        self._filled[k] = 0

    def _flush_all(self) -> None:
        if self._buffers:
            for k in range(len(self.counts)):
                self._flush(k)
            self._buffers = []


def _block_diagonal(matrices: Sequence[Array]) -> Array:
    out = np.zeros((sum(m.shape[0] for m in matrices), sum(m.shape[1] for m in matrices)))
    row = column = 0
    for m in matrices:
        out[row : row + m.shape[0], column : column + m.shape[1]] = m
        row, column = row + m.shape[0], column + m.shape[1]
    return out
