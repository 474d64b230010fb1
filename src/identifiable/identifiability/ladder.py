"""The ladder of maps between two representations, fitted from moments, and its errors row by row.

All maps act about the means of the rows they were fitted to, so a map is a matrix. Both directions are
measured together: a signed permutation and a rotation keep lengths, so their error from y to x is the
error from x to y; the two similarities share one rotation. What remains is three products per row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.groups import SignedPermutation, procrustes, similarity_scale
from identifiable.moments import Array, Moments

ICA = "ica"
FORWARD, BACKWARD = 0, 1

# Column of the error table for (rung, direction).
COLUMNS = {
    ("signed_permutation", FORWARD): 0,
    ("signed_permutation", BACKWARD): 0,
    ("rigid", FORWARD): 1,
    ("rigid", BACKWARD): 1,
    ("similarity", FORWARD): 2,
    ("similarity", BACKWARD): 3,
    ("linear", FORWARD): 4,
    ("linear", BACKWARD): 5,
    (ICA, FORWARD): 6,
    (ICA, BACKWARD): 7,
}
N_COLUMNS = 8

LinearSolver = Callable[[Moments], tuple[Array, Array]]
IcaMatcher = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Ladder:
    """Every requested map between x and y, about the means of the training rows; None where not requested."""

    mean_x: Array
    mean_y: Array
    columns: NDArray[np.intp] | None = None  # signed permutation: column j of y is signs[j] * column columns[j] of x
    signs: Array | None = None
    rotation: Array | None = None
    scale_xy: float | None = None
    scale_yx: float | None = None
    linear_xy: Array | None = None
    linear_yx: Array | None = None
    ica_xy: Array | None = None
    ica_yx: Array | None = None

    @classmethod
    def fit(
        cls,
        moments: Moments,
        rungs: Sequence[str],
        *,
        linear: LinearSolver | None = None,
        ica: IcaMatcher | None = None,
    ) -> Ladder:
        """Fit the rungs named. `linear` and `ica` say how to get the matrices of those two."""
        parts: dict[str, Any] = {}
        if "signed_permutation" in rungs:
            matrix = SignedPermutation().fit(moments).matrix
            parts["columns"] = np.argmax(np.abs(matrix), axis=0)
            parts["signs"] = matrix[parts["columns"], np.arange(len(matrix))]
        if "rigid" in rungs or "similarity" in rungs:
            parts["rotation"], singular = procrustes(moments.xy)
            if "similarity" in rungs:
                parts["scale_xy"] = similarity_scale(singular, moments.xx)
                parts["scale_yx"] = similarity_scale(singular, moments.yy)
        if "linear" in rungs and linear is not None:
            parts["linear_xy"], parts["linear_yx"] = linear(moments)
        if ICA in rungs and ica is not None:
            parts["ica_xy"], parts["ica_yx"] = ica(moments.xy)
        return cls(moments.mean_x, moments.mean_y, **parts)

    def astype(self, dtype: np.dtype[Any]) -> Ladder:
        """The same maps with matrices in another precision; the means stay in float64."""

        def cast(value: Any) -> Any:
            return value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value

        kept = {name: cast(value) for name, value in vars(self).items() if name not in ("mean_x", "mean_y")}
        return Ladder(self.mean_x, self.mean_y, **kept)

    def errors(self, x: NDArray[Any], y: NDArray[Any]) -> Array:
        """Euclidean error of every map at every row: (rows, N_COLUMNS), NaN where there is no map.

        Rows are centred on this ladder's means and have the precision of its matrices.
        """
        out = np.full((len(x), N_COLUMNS), np.nan)
        room = np.empty_like(x)
        if self.columns is not None and self.signs is not None:
            np.take(x, self.columns, axis=1, out=room, mode="clip")
            np.multiply(room, self.signs, out=room)
            out[:, 0] = _norms(np.subtract(room, y, out=room))
        if self.rotation is not None:
            turned = x @ self.rotation
            out[:, 1] = _norms(np.subtract(turned, y, out=room))
            if self.scale_xy is not None and self.scale_yx is not None:
                np.multiply(y, x.dtype.type(self.scale_yx), out=room)
                out[:, 3] = _norms(np.subtract(room, turned, out=room))
                np.multiply(turned, x.dtype.type(self.scale_xy), out=turned)
                out[:, 2] = _norms(np.subtract(turned, y, out=turned))
        for column, matrix, source, target in (
            (4, self.linear_xy, x, y),
            (5, self.linear_yx, y, x),
            (6, self.ica_xy, x, y),
            (7, self.ica_yx, y, x),
        ):
            if matrix is not None:
                np.matmul(source, matrix, out=room)
                out[:, column] = _norms(np.subtract(room, target, out=room))
        return out


class ErrorTable:
    """The statistic that folds rows into per-row errors: in-sample by `total`, held-out by the row's own fold.

    Errors are kept in float32 (4 bytes a row and map, for quantiles); sums and maxima in float64.
    `spreads` keeps |x|^2 and |y|^2 of centred rows, so that the yardstick can be bootstrapped with the errors.
    """

    def __init__(self, total: Ladder, held_out: Sequence[Ladder], fold: NDArray[np.int64], dtype: np.dtype[Any]):
        self.total, self.held_out, self.fold, self.dtype = total, held_out, fold, dtype
        self.parts: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
        self.spreads: list[Array] = []
        self.sums = np.zeros((2, N_COLUMNS))
        self.maxima = np.zeros((2, N_COLUMNS))

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        fold = self.fold[first : first + len(rows[0])]
        means = (self.total.mean_x, self.total.mean_y)
        x, y = (
            np.subtract(block, mean).astype(self.dtype, copy=False) for block, mean in zip(rows, means, strict=True)
        )
        in_sample = self.total.errors(x, y)
        held_out = np.empty_like(in_sample)
        for k, ladder in enumerate(self.held_out):
            chosen = np.flatnonzero(fold == k)
            own_x, own_y = x.take(chosen, axis=0), y.take(chosen, axis=0)
            own_x += (self.total.mean_x - ladder.mean_x).astype(self.dtype)
            own_y += (self.total.mean_y - ladder.mean_y).astype(self.dtype)
            held_out[chosen] = ladder.errors(own_x, own_y)
        for kind, errors in enumerate((in_sample, held_out)):
            self.sums[kind] += errors.sum(axis=0)
            np.fmax(self.maxima[kind], errors.max(axis=0), out=self.maxima[kind])
        self.spreads.append(np.stack([_squares(x), _squares(y)], axis=1))
        self.parts.append((in_sample.astype(np.float32), held_out.astype(np.float32)))

    def merge(self, later: ErrorTable) -> None:
        self.parts += later.parts
        self.sums += later.sums
        np.fmax(self.maxima, later.maxima, out=self.maxima)
        self.spreads += later.spreads

    def column(self, kind: int, column: int) -> NDArray[np.float32]:
        """Errors of all rows in order; kind 0 in-sample, 1 held-out."""
        return np.concatenate([part[kind][:, column] for part in self.parts])

    def spread(self) -> Array:
        """|x|^2 and |y|^2 of every centred row, in order."""
        return np.concatenate(self.spreads)


def _squares(rows: NDArray[Any]) -> Array:
    return np.asarray(np.linalg.vecdot(rows, rows), dtype=np.float64)


def _norms(rows: NDArray[Any]) -> Array:
    return np.sqrt(_squares(rows))
