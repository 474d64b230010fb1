"""Principal axes from float64 moments: what is whitened, and which directions are left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identifiable._checks import DataError
from identifiable.deconfounding.design import Mask
from identifiable.groups import GRAM_TOLERANCE, AffineMap
from identifiable.moments import Array, Moments
from identifiable.results import Alert


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """Principal axes of rows after centring and, if `scaled`, giving every column unit variance.

    Largest variance first; in each axis the largest loading is positive. Directions in which the rows do not vary are left
    out, and `alerts` says so. `variances` have n in the denominator.
    """

    n: int
    mean: Array
    scale: Array
    vectors: Array
    variances: Array
    alerts: tuple[Alert, ...]

    @classmethod
    def of(cls, moments: Moments, *, scaled: bool, rows: str = "rows") -> PrincipalAxes:
        """From the moments of the rows, which messages call `rows`."""
        spread = np.sqrt(moments.energy / moments.n)
        varies = spread > 0
        scale = np.where(varies, spread if scaled else 1.0, np.inf)
        covariance = moments.scatter / moments.n / np.outer(scale, scale)
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = values[::-1], vectors[:, ::-1]
        kept = values > GRAM_TOLERANCE**2 * max(values[0], 0.0)
        if not kept.any():
            raise DataError(f"the {moments.n} {rows} to fit on are all alike: there is no variation to align by.")
        vectors = vectors[:, kept]
        largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
        vectors = vectors * np.where(largest < 0, -1.0, 1.0)
        return cls(moments.n, moments.mean, scale, vectors, values[kept], _null_directions(moments.n, rows, kept))

    def map(self, matrix: Array) -> AffineMap:
        """``(x - mean) / scale @ matrix``."""
        return AffineMap.about(matrix / self.scale[:, None], self.mean, np.zeros(matrix.shape[1]))

    @property
    def whitening(self) -> AffineMap:
        """To components of mean zero and unit variance on the rows, n in the denominator."""
        return self.map(self.vectors / np.sqrt(self.variances))


def _null_directions(n: int, rows: str, kept: Mask) -> tuple[Alert, ...]:
    dropped = int((~kept).sum())
    if not dropped:
        return ()
    return (
        Alert(
            "null_directions",
            f"{n} {rows} vary in {int(kept.sum())} of {len(kept)} directions; the other {dropped} are dropped, "
            "and what perturbations do along them with them.",
        ),
    )
