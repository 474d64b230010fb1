"""Moments: what one pass over the rows leaves behind, enough for every linear estimate.

`Moments` holds the count, sums and Gram matrix of one or several representations side by side, about a
shift. They merge, so k-fold cross-validation costs no extra pass: the training moments of a fold are those
of the other folds (`leave_one_out`). A part can also be taken out again (`minus`), at the cost of digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, as_array, check_magnitude, rows_in_memory

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
ROUNDING = 1e-13  # of a sum of squares about the shift: what removing the mean leaves of a constant column


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
        rows = as_array(rows, "rows")
        if rows.size or rows.ndim != 2:
            rows = rows_in_memory(rows, "rows")
        if widths is not None and (np.ndim(widths) != 1 or sum(widths) != rows.shape[1]):
            raise DataError(f"widths: expected numbers of columns that add up to {rows.shape[1]}, got {widths!r:.60}.")
        rows = np.asarray(rows, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            shift = rows[: max(len(rows), 1)].mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
            centred = rows - shift
            gram = centred.T @ centred
        if not np.isfinite(gram).all():
            check_magnitude(float(np.abs(rows).max()), "rows")
        return cls(len(rows), widths or (rows.shape[1],), shift, centred.sum(axis=0), gram)

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

    @cached_property
    def energy(self) -> Array:
        """Centred sum of squares of every column; exactly zero where only rounding is left of a constant column."""
        squares = np.diag(self.scatter)
        rounding = ROUNDING * np.diag(self.gram) + self.n * (8 * EPS * np.abs(self.mean)) ** 2
        return np.where(squares > rounding, squares, 0.0)

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


def leave_one_out(parts: Sequence[Moments]) -> list[Moments]:
    """For every part the moments of all the others.

    Merged from both ends, never total minus part: a column that varies only inside the part would leave the
    rounding of the subtraction behind, and a map would divide by it.
    """
    before = list(accumulate(parts, Moments.merge))
    after = list(accumulate(reversed(parts), Moments.merge))[::-1]
    return [
        after[k + 1] if k == 0 else before[k - 1] if k == len(parts) - 1 else before[k - 1].merge(after[k + 1])
        for k in range(len(parts))
    ]


def jackknife_spread(draws: Array) -> Array:
    """Half the width of a 95 % interval from values with one group left out (Efron and Stein 1981), Student's t."""
    from scipy.special import stdtrit

    count = len(draws)
    if count < 2:
        return np.full(draws.shape[1:], np.nan)
    deviation = np.sqrt((count - 1) / count * np.sum((draws - draws.mean(axis=0)) ** 2, axis=0))
    return np.asarray(stdtrit(count - 1, 0.975) * deviation)


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
    spare
        Buffers no longer in use, shared by the statistics of one pass: touching fresh memory for every
        strip costs a tenth of the pass.
    """

    def __init__(
        self,
        widths: tuple[int, ...],
        shift: Array,
        *,
        fold: NDArray[np.integer[Any]] | None = None,
        n_folds: int = 1,
        buffer_rows: int = 4096,
        maps: Sequence[tuple[Array, Array] | None] | None = None,
        spare: list[_Buffers] | None = None,
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
        self._spare: list[_Buffers] = [] if spare is None else spare
        self._buffer_rows = buffer_rows
        self._filled = [0] * n_folds
        self._buffers: _Buffers | None = None

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        for a in range(0, len(rows[0]), self._buffer_rows):  # a buffer must hold what one call brings
            part = [block[a : a + self._buffer_rows] for block in rows]
            if self.fold is None:
                self._add(0, part)
                continue
            labels = self.fold[first + a : first + a + len(part[0])]
            for k in range(len(self.counts)):
                chosen = np.flatnonzero(labels == k)
                if chosen.size:
                    self._add(k, [block.take(chosen, axis=0) for block in part])

    def finish(self) -> None:
        """Multiply what is still in the buffers, and hand them on."""
        if self._buffers is not None:
            for k in range(len(self.counts)):
                self._flush(k, self._buffers)
            self._spare.append(self._buffers)
            self._buffers = None

    def __getstate__(self) -> dict[str, Any]:
        """What travels from the workers of a cluster: the sums alone, none of what made them."""
        self.finish()
        return {**self.__dict__, "fold": None, "maps": None, "_spare": []}

    def merge(self, later: MomentSums) -> None:
        self.finish()
        later.finish()
        self.counts += later.counts
        self.totals += later.totals
        self.grams += later.grams

    def moments(self) -> list[Moments]:
        """One `Moments` per fold."""
        with np.errstate(invalid="ignore", over="ignore"):  # as in `fold`: the caller reports what is not finite
            self.finish()
        return [
            Moments(int(n), self.widths, self.shift, total, gram)
            for n, total, gram in zip(self.counts, self.totals, self.grams, strict=True)
        ]

    def _add(self, k: int, rows: list[NDArray[Any]]) -> None:
        """Rows of fold k into its buffer."""
        if self._buffers is None:
            try:
                self._buffers = self._spare.pop()
            except IndexError:  # none left, or another thread was faster
                self._buffers = _Buffers(len(self.counts), self._buffer_rows, self.widths)
        if self._filled[k] + len(rows[0]) > self._buffer_rows:
            self._flush(k, self._buffers)
        start = self._filled[k]
        self._filled[k] = start + len(rows[0])
        self._write(self._buffers.rows[k][start : self._filled[k]], rows)

    def _write(self, out: Array, rows: list[NDArray[Any]]) -> None:
        at = 0
        for block, width, map_ in zip(rows, self.widths, self.maps, strict=True):
            part = out[:, at : at + width]
            if map_ is None:
                np.copyto(part, block)  # then subtract: mixed precision in one step is slower
                part -= self.shift[at : at + width]
            else:
                np.matmul(block - map_[0], map_[1], out=part)
            at += width

    def _flush(self, k: int, buffers: _Buffers) -> None:
        filled = buffers.rows[k][: self._filled[k]]
        self.counts[k] += len(filled)
        self.totals[k] += filled.sum(axis=0)
        np.matmul(filled.T, filled, out=buffers.product)  # numpy sees A.T @ A and calls the symmetric product
        self.grams[k] += buffers.product
        self._filled[k] = 0


class _Buffers:
    """Room for the rows of every fold, and for one product."""

    def __init__(self, n_folds: int, rows: int, widths: tuple[int, ...]):
        d = sum(widths)
        self.rows = [np.empty((rows, d)) for _ in range(n_folds)]
        self.product = np.empty((d, d))


def _block_diagonal(matrices: Sequence[Array]) -> Array:
    out = np.zeros((sum(m.shape[0] for m in matrices), sum(m.shape[1] for m in matrices)))
    row = column = 0
    for m in matrices:
        out[row : row + m.shape[0], column : column + m.shape[1]] = m
        row, column = row + m.shape[0], column + m.shape[1]
    return out
