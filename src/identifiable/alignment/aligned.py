"""A fitted map between two representations, as it is kept and applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable.groups import AffineMap
from identifiable.moments import Array, Moments
from identifiable.results import Holder

INSIDE = 0.99  # share of rows like those of the fit that are within reach
LARGEST_CONDITION = 1e6  # of a matrix that is inverted: float32 rows lose their last digit beyond it


@dataclass(frozen=True, eq=False)
class Reach:
    """Where the rows lie that a map was fitted to.

    `leverage` of a row is its squared distance from their mean in units of their spread (Mahalanobis), over the number of
    columns; rows above `limit` are outside.
    """

    center: Array
    whitener: Array
    limit: float

    @classmethod
    def of(cls, moments: Moments, rows: NDArray[Any], units: Array | None = None) -> Self:
        r"""The reach of the rows that left `moments`; `rows` are some of them, from which the limit follows.

        Ours. The covariance is shrunk towards its mean variance by the oracle approximating intensity (Chen et al. 2010), which
        the moments alone determine, so that fewer rows than columns do no harm. The limit is the 99 % point of the leverage
        that each of `rows` would have had if the fit had not seen it: with q its leverage in units of n, and ρ the intensity,
            q / (1 - (1 - ρ) q / (n - 1)) n / (n - 1).
        Columns are divided by `units` first, where there are some (`groups.units_of`).
        """
        n, d = moments.n, moments.widths[0]
        covariance = moments.scatter / max(n, 1)
        if units is not None:
            covariance = covariance / np.outer(units, units)
        variances, directions = np.linalg.eigh(covariance)
        variances = variances.clip(0)
        mean, squares = float(variances.mean()), float(np.square(variances).sum())
        apart = squares - d * mean**2  # what parts the covariance from a multiple of the identity
        near = (1 - 2 / d) * squares + (d * mean) ** 2
        amount = min(1.0, near / ((n + 1 - 2 / d) * apart)) if apart > 0 else 1.0
        shrunk = (1 - amount) * variances + amount * mean
        safe = np.where(shrunk > 0, shrunk, 1.0)
        whitener = directions * np.sqrt((shrunk > 0) / safe)
        found = cls(moments.mean, whitener if units is None else whitener / units[:, None], np.inf)
        within = d * found.leverage(rows)
        left_out = within / (1 - (1 - amount) * within / (n - 1)).clip(1e-6) * n / (n - 1)
        return cls(found.center, found.whitener, float(np.quantile(left_out / d, INSIDE)))

    def leverage(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Of each row, in the precision of the rows."""
        kind = np.result_type(rows.dtype, np.float32)
        white = (rows - self.center.astype(kind)) @ self.whitener.astype(kind)
        result: NDArray[Any] = np.einsum("ij,ij->i", white, white) / len(self.center)
        return result


@dataclass(frozen=True, eq=False, repr=False)
class Aligned(Holder):
    """The map from the first table to the second, and what `align` found out about it.

    `back` is the inverse, None where the map has none. With `normalize` rows are divided by their length before and after
    the map. `columns` and `target_columns` are the names of the columns of either side, None where they have none. `result` is an
    `Alignment`, None where nothing was evaluated: an `Aligner` fits a map and no more, and has its parameters in `settings`.
    """

    map: AffineMap
    back: AffineMap | None
    reach: Reach
    result: Any = None
    normalize: bool = False
    columns: tuple[str, ...] | None = None
    target_columns: tuple[str, ...] | None = None
    settings: Mapping[str, Any] | None = None

    @property
    def source(self) -> str:
        """The name of the table it was fitted to."""
        return "the source" if self.result is None else str(self.result.ways[0].source)

    @property
    def target(self) -> str:
        """The name of the table it leads to."""
        return "the target" if self.result is None else str(self.result.ways[0].target)

    def way(self, inverse: bool = False) -> AffineMap:
        """The map, or its inverse."""
        by = self.back if inverse else self.map
        if by is None:
            raise UsageError(
                f"inverse: the map from {self.source} to {self.target} has no inverse; "
                f"make one from {self.target} to {self.source} with align."
            )
        return by

    def carrier(self, *, inverse: bool = False, dtype: Any = np.float64) -> Callable[[NDArray[Any]], NDArray[Any]]:
        """What takes rows of the source to the space of the target, or back, computed in `dtype`.

        Rows are centred before the product: columns far from zero would cost float32 its digits.
        """
        by = self.way(inverse)
        center = self.map.apply(self.reach.center[None])[0] if inverse else self.reach.center
        matrix, start = by.matrix.astype(dtype), (center @ by.matrix + by.offset).astype(dtype)
        middle = center.astype(dtype)
        room = np.empty((0, len(middle)), dtype)  # fresh memory for every block costs as much as the product

        def carry(rows: NDArray[Any]) -> NDArray[Any]:
            nonlocal room
            values = unit(rows) if self.normalize else rows
            room = room if len(room) >= len(rows) else np.empty((len(rows), len(middle)), dtype)
            moved = np.subtract(values, middle, out=room[: len(rows)], casting="same_kind") @ matrix
            moved += start
            return unit(moved).astype(dtype, copy=False) if self.normalize else moved

        return carry

    def leverage(self, rows: NDArray[Any]) -> NDArray[Any]:
        """How far each row is from those of the fit; above `reach.limit` it is outside."""
        return self.reach.leverage(unit(rows) if self.normalize else rows)


def inverse_of(by: AffineMap, *, normalize: bool = False, units: Array | None = None) -> AffineMap | None:
    """The map that undoes another one; None where it has none that float32 rows survive, or where lengths are lost.

    `units` of its columns in (`groups.units_of`) do not count: every column that comes back has its own size.
    """
    rows, columns = by.matrix.shape
    if normalize or rows > columns:
        return None
    plain = by if units is None else AffineMap(units[:, None] * by.matrix, by.offset)
    singular = np.linalg.svd(plain.matrix, compute_uv=False)
    if not singular[-1] * LARGEST_CONDITION > singular[0]:
        return None
    back = plain.inverse()
    return back if units is None else AffineMap(back.matrix * units, back.offset * units)


def unit(rows: NDArray[Any]) -> Array:
    """Rows divided by their length; a row of zeros stays."""
    values = np.asarray(rows, np.float64)
    length = np.sqrt(np.einsum("ij,ij->i", values, values))[:, None]
    result: Array = values / np.where(length > 0, length, 1)
    return result
