"""The ladder of maps between two representations, fitted from moments, and its errors row by row.

All maps act about the means of the rows they were fitted to, so a map is a matrix. Both directions are
measured together: between tables of one width a signed permutation and a rotation keep lengths, so their error
from y to x is the error from x to y, and the two similarities share one rotation. What remains is three products
per row. Between different widths a signed permutation selects columns, and a rotation is semi-orthogonal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable.groups import AffineMap, correlation, permutation_matrix, procrustes, projection, similarity_scale
from identifiable.moments import Array, Moments

ICA = "ica"
FORWARD, BACKWARD = 0, 1

# Column of the error table for (rung, direction).
COLUMNS = {
    ("signed_permutation", FORWARD): 0,
    ("signed_permutation", BACKWARD): 1,
    ("rigid", FORWARD): 2,
    ("rigid", BACKWARD): 3,
    ("similarity", FORWARD): 4,
    ("similarity", BACKWARD): 5,
    ("linear", FORWARD): 6,
    ("linear", BACKWARD): 7,
    (ICA, FORWARD): 8,
    (ICA, BACKWARD): 9,
}
N_COLUMNS = len(COLUMNS)

LinearSolver = Callable[[Moments], tuple[Array, Array]]
IcaMatcher = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Ladder:
    """Every requested map between x and y, about the means of the training rows; None where not requested.

    `permutation` holds one entry, 1 or -1, for each matched pair of columns. `rotation` maps x to y; `rotation_yx` is
    its transpose between tables of one width.
    """

    mean_x: Array
    mean_y: Array
    permutation: Array | None = None
    permutation_scales: tuple[float, float] | None = None  # there and back; None for no scale
    rotation: Array | None = None
    rotation_yx: Array | None = None
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
        scaled: bool = True,
    ) -> Ladder:
        """Fit the rungs named. `linear` and `ica` say how to get the matrices of those two; `scaled` gives the permutation a scale."""
        parts: dict[str, Any] = {}
        if "signed_permutation" in rungs:
            parts["permutation"] = permutation_matrix(correlation(moments))
            if scaled:
                parts["permutation_scales"] = permutation_scales(parts["permutation"], moments)
        if "rigid" in rungs or "similarity" in rungs:
            parts |= _rotations(moments)
        if "linear" in rungs and linear is not None:
            parts["linear_xy"], parts["linear_yx"] = linear(moments)
        if ICA in rungs and ica is not None:
            parts["ica_xy"], parts["ica_yx"] = ica(moments.xy)
        return cls(moments.mean_x, moments.mean_y, **parts)

    def only(self, rungs: Sequence[str]) -> Ladder:
        """Without the maps of other rungs."""
        drop: dict[str, Any] = {}
        for names, parts in (
            (("signed_permutation",), ("permutation", "permutation_scales")),
            (("rigid", "similarity"), ("rotation", "rotation_yx", "scale_xy", "scale_yx")),
            (("linear",), ("linear_xy", "linear_yx")),
            ((ICA,), ("ica_xy", "ica_yx")),
        ):
            if not set(names) & set(rungs):
                drop |= dict.fromkeys(parts)
        return replace(self, **drop)

    def map(self, rung: str, direction: int) -> AffineMap:
        """The map of a rung that was fitted, from x to y or back."""
        there = direction == FORWARD
        scale: float | None = 1.0
        if rung == "signed_permutation":
            matrix = self.permutation if there or self.permutation is None else self.permutation.T
            scale = 1.0 if self.permutation_scales is None else self.permutation_scales[direction]
        elif rung in ("rigid", "similarity"):
            matrix = self.rotation if there else self.rotation_yx
            scale = 1.0 if rung == "rigid" else self.scale_xy if there else self.scale_yx
        elif rung == "linear":
            matrix = self.linear_xy if there else self.linear_yx
        else:
            matrix = self.ica_xy if there else self.ica_yx
        if matrix is None or scale is None:
            raise UsageError(f"there is no map of {rung!r} here.")
        means = (self.mean_x, self.mean_y) if there else (self.mean_y, self.mean_x)
        return AffineMap.about(scale * matrix, *means)

    @property
    def size(self) -> int:
        """Bytes of its matrices."""
        return sum(value.nbytes for value in vars(self).values() if isinstance(value, np.ndarray))

    @property
    def relative_scale(self) -> float:
        """Spread of y over that of x, as far as they correspond: the fitted scales there and back, which noise lowers alike."""
        return float(np.sqrt(self.scale_xy / self.scale_yx)) if self.scale_xy and self.scale_yx else float("nan")

    @property
    def one_width(self) -> bool:
        return len(self.mean_x) == len(self.mean_y)

    def astype(self, dtype: np.dtype[Any]) -> Ladder:
        """The same maps with matrices in another precision; the means stay in float64."""

        def cast(value: Any) -> Any:
            return value.astype(dtype) if isinstance(value, np.ndarray) else value

        kept = {name: cast(value) for name, value in vars(self).items() if name not in ("mean_x", "mean_y")}
        return Ladder(self.mean_x, self.mean_y, **kept)

    def errors(self, x: NDArray[Any], y: NDArray[Any]) -> Array:
        """Euclidean error of every map at every row: (rows, N_COLUMNS), NaN where there is no map.

        Rows are centred on this ladder's means and have the precision of its matrices.
        """
        out = np.full((len(x), N_COLUMNS), np.nan)
        rooms = (np.empty_like(y), np.empty_like(x))
        for direction, source, target in ((FORWARD, x, y), (BACKWARD, y, x)):
            room = rooms[direction]
            for rung, matrix in (
                ("linear", (self.linear_xy, self.linear_yx)[direction]),
                (ICA, (self.ica_xy, self.ica_yx)[direction]),
            ):
                if matrix is not None:
                    np.matmul(source, matrix, out=room)
                    out[:, COLUMNS[rung, direction]] = _norms(np.subtract(room, target, out=room))
            again = direction == FORWARD or not self.one_width
            if self.permutation is not None and (again or self.permutation_scales is not None):
                matrix = self.permutation if direction == FORWARD else self.permutation.T
                picked = np.argmax(np.abs(matrix), axis=0)
                np.take(source, picked, axis=1, out=room, mode="clip")
                size = 1.0 if self.permutation_scales is None else self.permutation_scales[direction]
                np.multiply(room, (size * matrix[picked, np.arange(len(picked))]).astype(x.dtype), out=room)
                out[:, COLUMNS["signed_permutation", direction]] = _norms(np.subtract(room, target, out=room))
            matrix, scale = ((self.rotation, self.scale_xy), (self.rotation_yx, self.scale_yx))[direction]
            if matrix is not None and again:
                turned = source @ matrix
                out[:, COLUMNS["rigid", direction]] = _norms(np.subtract(turned, target, out=room))
                if self.one_width:
                    np.multiply(y, x.dtype.type(self.scale_yx), out=room)
                    out[:, COLUMNS["similarity", BACKWARD]] = _norms(np.subtract(room, turned, out=room))
                np.multiply(turned, x.dtype.type(scale), out=turned)
                out[:, COLUMNS["similarity", direction]] = _norms(np.subtract(turned, target, out=turned))
        if self.one_width:  # lengths are kept, so there and back are the same
            for rung in ("rigid",) if self.permutation_scales is not None else ("signed_permutation", "rigid"):
                out[:, COLUMNS[rung, BACKWARD]] = out[:, COLUMNS[rung, FORWARD]]
        return out


def _rotations(moments: Moments) -> dict[str, Any]:
    """The rotation, or the semi-orthogonal maps, there and back, with their scales."""
    wide_x, wide_y = (a > b for a, b in (moments.widths, moments.widths[::-1]))
    rotation, singular = procrustes(moments.xy)
    if not (wide_x or wide_y):
        scales = [similarity_scale(singular, side) for side in (moments.xx, moments.yy)]
        return {"rotation": rotation, "rotation_yx": rotation.T, "scale_xy": scales[0], "scale_yx": scales[1]}
    forward = projection(moments.xx, moments.xy) if wide_x else rotation
    backward = projection(moments.yy, moments.xy.T) if wide_y else rotation.T
    return {
        "rotation": forward,
        "rotation_yx": backward,
        "scale_xy": best_scale(forward, moments.xx, moments.xy),
        "scale_yx": best_scale(backward, moments.yy, moments.xy.T),
    }


def permutation_scales(permutation: Array, moments: Moments) -> tuple[float, float]:
    """The best scales of a signed permutation, there and back."""
    inner = max(float(np.sum(permutation * moments.xy)), 0.0)
    matched = np.abs(permutation)
    energies = float(np.diag(moments.xx) @ matched.sum(axis=1)), float(np.diag(moments.yy) @ matched.sum(axis=0))
    return inner / energies[0] if energies[0] > 0 else 0.0, inner / energies[1] if energies[1] > 0 else 0.0


def best_scale(matrix: Array, scatter: Array, cross: Array) -> float:
    """The s that brings ``s x A`` nearest to y; 0 where A points away from y."""
    energy = float(np.sum(matrix * (scatter @ matrix)))
    return max(float(np.sum(matrix * cross)) / energy, 0.0) if energy > 0 else 0.0


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


# -- Linear maps with a penalty on their size, chosen by generalised cross-validation; all from moments.

# Candidate penalties, relative to the largest principal variance: four a decade. At the smallest nothing is penalised.
PENALTIES = np.logspace(-14, 3, 69)
ROUNDING = 1e-13  # of the target's energy: an exact fit leaves no more, so the smallest penalty wins there

LEAST_FREE = 0.5  # rows left over by the parameters; a map through every training row fits exactly and says nothing


@dataclass(frozen=True, eq=False)
class Ridge:
    """Every penalised least-squares map from one table: ``(S + penalty I) B = C``.

    Ours for this purpose; ridge regression towards 0 with one penalty for all target columns, in the coordinates of the
    data, so neither a rotation nor a change of scale of either side moves the prediction. Below some 10 rows per
    dimension least squares predicts worse than the mean of the target, this does not. Where the units of single columns
    would hide directions (`groups.units_of`), columns are divided by these `units` first, and the map is of columns as given.
    """

    n: int
    variances: Array
    directions: Array

    @classmethod
    def of(cls, source: Moments, units: Array | None = None) -> Ridge:
        """From the moments of one table, or of the first of two."""
        if units is None:
            variances, directions = np.linalg.eigh(source.xx)
            return cls(source.n, variances.clip(0), directions)
        variances, directions = np.linalg.eigh(source.xx / np.outer(units, units))
        return cls(source.n, variances.clip(0), directions / units[:, None])

    def fit(self, cross: Array, energy: float) -> tuple[Array, float]:
        """The map with the smallest generalised cross-validation error (Golub, Heath and Wahba 1979), and its penalty.

        `cross` is the centred cross-scatter, `energy` the centred sum of squares of the target. A penalty of 0 stands for
        the smallest candidate.
        """
        turned = self.directions.T @ cross
        top = float(self.variances[-1]) if self.variances.size else 0.0
        if top <= 0 or energy <= 0:
            return np.zeros_like(cross), 0.0
        penalties = PENALTIES[:, None] * top
        shrunk = self.variances + penalties
        found = np.sum(turned**2, axis=1)
        left = energy - np.sum(found * (self.variances + 2 * penalties) / shrunk**2, axis=1)
        free = 1 - np.sum(self.variances / shrunk, axis=1) / (self.n - 1)
        usable = free * (self.n - 1) > LEAST_FREE
        left = np.where(left > ROUNDING * energy, left, 0.0)
        error = np.where(usable, left / np.where(usable, free, 1.0) ** 2, np.inf)
        best = int(np.argmin(error))
        matrix: Array = self.directions @ (turned / shrunk[best][:, None])
        return matrix, float(penalties[best, 0]) if best else 0.0
