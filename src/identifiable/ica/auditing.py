"""Components that are not in their place though a fixed point holds them there, told from a sample of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import silent
from identifiable.ica.contrasts import Contrast, Values, gaussian_values
from identifiable.ica.curvature import pair_curvature
from identifiable.ica.passes import pieces
from identifiable.moments import Array

LEAST_SPREAD = 1e-6  # variance of G''(y) of a component; that of two values is 0, but for rounding
SADDLE = 4.0  # standard errors by which the curvature of a pair must be negative
AUDIT_ROWS = 10_000
AUDIT_CLIP = 4.0  # standard deviations; an outlier must not decide a kurtosis
AUDIT_PAIRS = 4  # pairs confirmed at most, per component
KURTOSIS_GAIN = 0.05  # about what the contrast's AUDIT_GAIN is in kurtosis, halved to be safe
AUDIT_GAIN = 0.002  # contrast a pair must gain at 45 degrees, beyond two standard errors
FAR_PAIR = 0.1  # radians a Newton step would turn two components into each other, from which on they are misplaced,
FAR_ERRORS = 6.0  # and as many standard errors


@dataclass(frozen=True, eq=False)
class Misplaced:
    """What a search left where no source is.

    saddles   disjoint pairs whose contrast surely grows as they turn into each other, whichever way; the worst first. Half
              way between two sources both slopes vanish, and polishing notices it late, when all others are in place.
    far       components that would turn far into another one.
    weak      components of which a sample of these rows could not tell.
    """

    saddles: list[tuple[int, int]]
    far: NDArray[np.intp]
    weak: NDArray[np.intp]

    @property
    def components(self) -> NDArray[np.intp]:
        """Those not in their place."""
        return np.union1d(self.far, np.array(self.saddles, np.intp).ravel())

    def and_saddles(self, among: NDArray[np.intp], curvature: Array, n: int, contrast: Contrast) -> Misplaced:
        """With those among some components whose curvature, on n rows, is known."""
        others = _saddles(np.triu(curvature / _typical_error(contrast, n), 1))
        known = {i for pair in self.saddles for i in pair}
        pairs = [(int(among[i]), int(among[j])) for i, j in others]
        return replace(self, saddles=self.saddles + [pair for pair in pairs if not known & set(pair)])


def _typical_error(contrast: Contrast, n: int) -> float:
    """Standard error, at most, of the curvature of two nearly Gaussian components: E y^4 is 3, and each counts once."""
    return float(np.sqrt(2 * 3 * gaussian_values(contrast.name).coupling / n))


def misplaced(sample: Values, rotation: Array, contrast: Contrast) -> Misplaced:
    """Which components of a sample of whitened rows are not in their place. Ours."""
    y = np.asarray(sample @ rotation.T.astype(sample.dtype))
    n, d = y.shape
    if d < 2 or n < 16:
        return Misplaced([], np.zeros(0, np.intp), np.zeros(0, np.intp))
    spread = np.sqrt(np.einsum("ij,ij->j", y, y) / n)
    y /= np.where(spread > 0, spread, 1)  # on this sample, or the noise of that variance would be most of all
    cross, second, bent = (np.zeros((d, d)) for _ in range(3))
    sums = np.zeros((4, d))
    for piece in pieces(y):
        slope = np.empty_like(piece)
        with silent():
            contrast.slope(piece, slope)
            bend, square = np.asarray(contrast.bend(piece, slope)), piece * piece
        cross += slope.T @ piece
        second += piece.T @ piece
        bent += bend.T @ square
        sums += bend.sum(axis=0), *(np.einsum("ij,ij->j", other, other) for other in (bend, square, slope))
    cross, second, bent = cross / n, second / n, bent / n
    bends, bend_squares, fourth, slope_squares = sums / n
    own = np.diag(cross)
    signs = np.where(bends >= own, 1.0, -1.0)
    curvature = pair_curvature(bent, own, signs)
    noise = np.outer((bend_squares - bends**2).clip(LEAST_SPREAD), fourth)
    saddles = _saddles(np.triu(curvature / np.sqrt((noise + noise.T).clip(LEAST_SPREAD) / n), 1))

    signed = signs[:, None] * (cross - bends[:, None] * second)  # the sample is not white
    gradient = signed - signed.T
    alone = np.abs(bends - own)
    rest = slope_squares - own**2  # of G' after regressing on y
    error = np.sqrt((rest[:, None] + rest + np.subtract.outer(alone, alone) ** 2).clip(LEAST_SPREAD) / n)
    far = np.abs(gradient) > np.maximum(FAR_PAIR * (alone[:, None] + alone), FAR_ERRORS * error)
    weak = alone < SADDLE * _typical_error(contrast, n)
    return Misplaced(saddles, np.flatnonzero(far.any(axis=1)), np.flatnonzero(weak))


def _saddles(scores: Array) -> list[tuple[int, int]]:
    """Disjoint pairs whose curvature is negative by enough standard errors, the worst first."""
    taken: set[int] = set()
    pairs = []
    first, second = np.nonzero(scores <= -SADDLE)
    worst = np.argsort(scores[first, second], kind="stable")
    for i, j in zip(first[worst], second[worst], strict=True):
        if not {i, j} & taken:
            taken |= {i, j}
            pairs.append((int(i), int(j)))
    return pairs


def audit(sample: Values, rotation: Array, contrast: Contrast) -> list[tuple[int, int]]:
    """Disjoint pairs of components whose contrast gains when both are turned by 45 degrees.

    Every pair is screened by what its kurtosis would gain, which two products give for all of them; the most promising
    are confirmed by the contrast itself, with the gain's standard error.
    """
    unmixing = rotation.T.astype(sample.dtype)
    n, d = len(sample), len(rotation)
    if d < 2 or n < 16:
        return []
    gains = np.triu(_kurtosis_gains(sample, unmixing), 1)
    first, second = np.nonzero(gains > KURTOSIS_GAIN)
    promising = np.argsort(-gains[first, second], kind="stable")[: AUDIT_PAIRS * d]
    first, second = first[promising], second[promising]
    named = np.union1d(first, second)  # columns to confirm by; where components are Gaussian, many pairs share them
    y = dict(zip(named.tolist(), np.asarray(unmixing[:, named].T @ sample.T, np.float64), strict=True))
    level = gaussian_values(contrast.name).mean
    taken: set[int] = set()
    pairs = []
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        if i not in taken and j not in taken and _gains(np.column_stack([y[i], y[j]]), contrast, level):
            taken |= {i, j}
            pairs.append((i, j))
    return pairs


def _kurtosis_gains(sample: Values, unmixing: Values) -> Array:
    """For every pair what the sum of |kurtosis| gains at 45 degrees."""
    n, d = len(sample), unmixing.shape[1]
    second, both, three_one = (np.zeros((d, d)) for _ in range(3))
    for piece in pieces(sample):
        y = np.clip(piece @ unmixing, -AUDIT_CLIP, AUDIT_CLIP)
        square = y * y
        second += y.T @ y
        both += square.T @ square
        three_one += (square * y).T @ y
    second, both, three_one = second / n, both / n, three_one / n
    fourth = np.diag(both)
    own = np.diag(second).clip(1e-6)  # a component may be 0 on these rows
    alone = np.abs(fourth / own**2 - 3)
    even = fourth[:, None] + fourth + 6 * both
    odd = 4 * (three_one + three_one.T)
    spread = own[:, None] + own
    together = sum(np.abs((even + s * odd) / (spread + s * 2 * second).clip(1e-6) ** 2 - 3) for s in (1, -1))
    gains: Array = together - alone[:, None] - alone
    return gains


def _gains(pair: Array, contrast: Contrast, level: float) -> bool:
    """Whether the contrast of two components (columns) surely gains at 45 degrees."""
    turned_pair = pair @ (np.array([[1.0, 1.0], [1.0, -1.0]]) * np.sqrt(0.5))
    values = [np.asarray(contrast.value(columns)) - level for columns in (pair, turned_pair)]
    now, then = (value @ np.sign(value.mean(axis=0)) for value in values)
    gain = then - now
    return float(gain.mean()) > AUDIT_GAIN + 2 * float(gain.std()) / float(np.sqrt(len(gain)))


def turned(rotation: Array, pairs: list[tuple[int, int]]) -> Array:
    """The rotation with each of these pairs of components turned by 45 degrees."""
    result = rotation.copy()
    for i, j in pairs:
        result[i], result[j] = (rotation[i] + rotation[j]) * np.sqrt(0.5), (rotation[i] - rotation[j]) * np.sqrt(0.5)
    return result
