"""The groups of Definition 1, and the affine maps they consist of.

Signed permutations < rigid motions < similarities < linear maps, each with a translation. A group knows
how to fit itself to `Moments`, how to draw a member, whether a map belongs to it, and which groups it
contains; the laws in the tests are generated from these. Maps act on rows: ``g(X) = X @ A + b``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError, as_array, check_numeric, rows_in_memory
from identifiable.moments import Array, Moments

# A direction whose standard deviation, relative to the largest, is below this is rounding: the rule of
# numpy.linalg.lstsq (eps * max(n, d)) at n = 5,000. Gram matrices alone see only down to its square root.
RANK_TOLERANCE = 1e-12
GRAM_TOLERANCE = 1e-6
CLEAR_OF_ROUNDING = 10  # times that: a direction at the edge is seen or not whatever the units are
# Normal equations lose eps * condition^2: 2e-8 here. Above it, measure again in whitened coordinates.
REFINE_ABOVE = 1e4


@dataclass(frozen=True, eq=False)
class AffineMap:
    """``X @ matrix + offset``. Every alignment, whitening and unmixing is one.

    A map has no names of columns, so a data frame is refused: `transform` finds columns by name.

    >>> double = AffineMap(2 * np.eye(2), np.ones(2))
    >>> double.then(double.inverse())(np.array([[3.0, 4.0]]))
    array([[3., 4.]])
    """

    matrix: Array
    offset: Array

    def __post_init__(self) -> None:
        for part in ("matrix", "offset"):
            values = as_array(getattr(self, part), part)
            check_numeric(values.dtype, part)
            object.__setattr__(self, part, values)
        if self.matrix.ndim != 2 or self.offset.shape != (self.matrix.shape[1],):
            raise DataError(
                f"an affine map needs a matrix (d_in, d_out) and an offset (d_out,), "
                f"got {self.matrix.shape} and {self.offset.shape}."
            )

    def __call__(self, X: NDArray[Any]) -> Array:
        if hasattr(X, "columns") or hasattr(X, "obs_names"):
            raise DataError(
                f"rows: expected an array, got {type(X).__name__}, whose columns a map cannot find by name; pass it to transform "
                "with the basis or map, or pass an array with columns in the order of the fit."
            )
        rows = rows_in_memory(X, "rows")
        if rows.shape[1] != len(self.matrix):
            raise DataError(
                f"rows: expected {len(self.matrix)} columns, as the map takes, got {rows.shape[1]}; pass rows of the same model."
            )
        return self.apply(rows)

    def apply(self, X: NDArray[Any]) -> Array:
        """The same of rows that were checked before, for the inside of loops."""
        result: Array = np.asarray(X, dtype=np.float64) @ self.matrix + self.offset
        return result

    def then(self, after: AffineMap) -> AffineMap:
        """First this map, then `after`."""
        return AffineMap(self.matrix @ after.matrix, self.offset @ after.matrix + after.offset)

    def inverse(self) -> AffineMap:
        """The map back; the pseudo-inverse where the matrix is not square."""
        rows, columns = self.matrix.shape
        try:
            back = np.asarray(
                np.linalg.inv(self.matrix) if rows == columns else np.linalg.pinv(self.matrix), np.float64
            )
        except np.linalg.LinAlgError:
            raise DataError("this map is singular: it cannot be inverted.") from None
        return AffineMap(back, -self.offset @ back)

    @classmethod
    def identity(cls, d: int) -> AffineMap:
        return cls(np.eye(d), np.zeros(d))

    @classmethod
    def about(cls, matrix: Array, center_in: Array, center_out: Array) -> AffineMap:
        """The map ``(x - center_in) @ matrix + center_out``."""
        return cls(matrix, center_out - center_in @ matrix)


class Group(ABC):
    """A set of affine maps closed under composition and inverse."""

    name: str
    subgroups: tuple[str, ...]

    @abstractmethod
    def fit(self, moments: Moments) -> AffineMap:
        """The member that maps x nearest to y in squared error (signed permutations: in correlation)."""

    @abstractmethod
    def sample(self, d: int, rng: np.random.Generator) -> AffineMap:
        """A random member on R^d."""

    @abstractmethod
    def contains(self, g: AffineMap, tolerance: float = 1e-9) -> bool:
        """Whether `g` is a member, up to rounding."""


class SignedPermutation(Group):
    """Reorder the axes and flip their signs.

    Implements H_sigma of Definition 1, fitted as in A.7.2: Hungarian assignment on the absolute
    correlations, sign of the correlation, no rescaling; both sides are centred, so a translation is allowed.
    Ours: between different widths it selects columns, or leaves columns at their mean.
    """

    name = "signed_permutation"
    subgroups = ()

    def fit(self, moments: Moments) -> AffineMap:
        return AffineMap.about(permutation_matrix(correlation(moments)), moments.mean_x, moments.mean_y)

    def sample(self, d: int, rng: np.random.Generator) -> AffineMap:
        matrix = np.zeros((d, d))
        matrix[np.arange(d), rng.permutation(d)] = rng.choice([-1.0, 1.0], d)
        return AffineMap(matrix, rng.standard_normal(d))

    def contains(self, g: AffineMap, tolerance: float = 1e-9) -> bool:
        size = np.abs(g.matrix)
        if size.shape[0] != size.shape[1]:
            return False
        one_each = np.array_equal((size > 0.5).sum(axis=0), np.ones(len(size))) and np.array_equal(
            (size > 0.5).sum(axis=1), np.ones(len(size))
        )
        return bool(one_each and np.all(np.minimum(size, np.abs(size - 1)) <= tolerance))


class Rigid(Group):
    """Rotate or reflect, and translate.

    Implements H_rigid of Definition 1, fitted as in A.7.2: orthogonal Procrustes, reflections allowed.
    """

    name = "rigid"
    subgroups = ("signed_permutation",)

    def fit(self, moments: Moments) -> AffineMap:
        rotation, _ = procrustes(moments.xy)
        return AffineMap.about(rotation, moments.mean_x, moments.mean_y)

    def sample(self, d: int, rng: np.random.Generator) -> AffineMap:
        return AffineMap(haar_rotation(d, rng), rng.standard_normal(d))

    def contains(self, g: AffineMap, tolerance: float = 1e-9) -> bool:
        return g.matrix.shape[0] == g.matrix.shape[1] and _is_orthogonal(g.matrix, tolerance)


class Similarity(Group):
    """Rotate or reflect, translate, and scale by one positive number.

    Implements the "rigid similarity" of Table 1; scale = sum of singular values / |X_c|^2.
    """

    name = "similarity"
    subgroups = ("signed_permutation", "rigid")

    def fit(self, moments: Moments) -> AffineMap:
        rotation, singular = procrustes(moments.xy)
        scale = similarity_scale(singular, moments.xx)
        return AffineMap.about(scale * rotation, moments.mean_x, moments.mean_y)

    def sample(self, d: int, rng: np.random.Generator) -> AffineMap:
        scale = float(np.exp(rng.uniform(-1, 1)))
        return AffineMap(scale * haar_rotation(d, rng), rng.standard_normal(d))

    def contains(self, g: AffineMap, tolerance: float = 1e-9) -> bool:
        if g.matrix.shape[0] != g.matrix.shape[1]:
            return False
        scale = float(np.linalg.norm(g.matrix) / np.sqrt(len(g.matrix)))
        return scale > 0 and _is_orthogonal(g.matrix / scale, tolerance)


class Linear(Group):
    """Any linear map, and a translation.

    Implements H_linear of Definition 1, fitted as in A.7.2: least squares without regularisation.
    Directions of x that carry only rounding are left out (minimum-norm solution), never divided by.
    A fit may therefore be singular, which `contains` says.
    """

    name = "linear"
    subgroups = ("signed_permutation", "rigid", "similarity")

    def fit(self, moments: Moments) -> AffineMap:
        matrix = WhiteBasis.of(moments.alone(0)).solve(moments.xy)
        return AffineMap.about(matrix, moments.mean_x, moments.mean_y)

    def sample(self, d: int, rng: np.random.Generator) -> AffineMap:
        stretch = np.exp(rng.uniform(-1, 1, d))
        return AffineMap(haar_rotation(d, rng) * stretch @ haar_rotation(d, rng), rng.standard_normal(d))

    def contains(self, g: AffineMap, tolerance: float = 1e-9) -> bool:
        if g.matrix.shape[0] != g.matrix.shape[1]:
            return False
        singular = np.linalg.svd(g.matrix, compute_uv=False)
        return bool(singular[-1] > tolerance * singular[0])


GROUPS: dict[str, Group] = {g.name: g for g in (SignedPermutation(), Rigid(), Similarity(), Linear())}
"""The ladder, smallest group first."""


def group(name: str) -> Group:
    """The group of that name."""
    if name not in GROUPS:
        raise UsageError(f"unknown group {name!r}; choose from {', '.join(GROUPS)}.")
    return GROUPS[name]


def best_assignment(score: NDArray[Any]) -> NDArray[np.intp]:
    """For each row of a matrix of scores its column in the one-to-one assignment of largest sum; -1 for none (Hungarian)."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(score, maximize=True)
    partner = np.full(len(score), -1, np.intp)
    partner[rows] = columns
    return partner


def match_columns(correlation: Array) -> tuple[NDArray[np.intp], Array]:
    """For each row of a correlation matrix the column it is matched to, and the sign; Hungarian on |r|."""
    order = best_assignment(np.abs(correlation))
    picked = correlation[np.arange(len(order)), order]
    return order, np.where(picked < 0, -1.0, 1.0)


def permutation_matrix(correlation: NDArray[Any]) -> Array:
    """Signed partial permutation that matches rows to columns of a correlation matrix by Hungarian on |r|."""
    tall = correlation.shape[0] > correlation.shape[1]
    order, signs = match_columns(correlation.T if tall else correlation)
    matrix = np.zeros(correlation.T.shape if tall else correlation.shape)
    matrix[np.arange(len(order)), order] = signs
    return matrix.T if tall else matrix


def procrustes(cross: Array) -> tuple[Array, Array]:
    """The orthogonal matrix nearest to a cross-scatter, and the singular values; semi-orthogonal where widths differ.

    Where many fit equally well (fewer rows than dimensions), the one that turns the rest least, so that rounding
    does not determine the choice.
    """
    square = cross.shape[0] == cross.shape[1]
    left, singular, right = np.linalg.svd(cross, full_matrices=square)
    rank = int(np.sum(singular > RANK_TOLERANCE * singular[0])) if square and singular.size else len(singular)
    rotation: Array = left[:, :rank] @ right[:rank]
    if rank < len(singular):
        turn, _, back = np.linalg.svd(left[:, rank:].T @ right[rank:].T)
        rotation += left[:, rank:] @ (turn @ back) @ right[rank:]
    return rotation, singular


def projection(scatter: Array, cross: Array, start: Array | None = None) -> Array:
    """The semi-orthogonal R, wide to narrow, that with a scale s of its own brings ``s x R`` nearest to y.

    Ours: the length of x R depends on R, so there is no closed form. Majorisation (Kiers 1990) from `start`, or from the
    singular vectors of the cross-scatter; no step raises the error. It ends at a relative gain of 1e-6, or after 50 steps.
    """
    rotation = procrustes(cross)[0] if start is None else start
    top = float(np.linalg.norm(scatter, 2))
    explained = 0.0
    for _ in range(50):
        mapped = scatter @ rotation
        inner, energy = float(np.sum(rotation * cross)), float(np.sum(rotation * mapped))
        gain = max(inner, 0.0) ** 2 / energy if energy > 0 else 0.0
        if gain <= explained * (1 + 1e-6):
            break
        explained = gain
        rotation = procrustes(cross + inner / energy * (top * rotation - mapped))[0]
    return rotation


def similarity_scale(singular: Array, scatter: Array) -> float:
    """The one scale of a similarity: sum of singular values of the cross-scatter over the source's energy."""
    energy = float(np.trace(scatter))
    return float(singular.sum() / energy) if energy > 0 else 1.0


def haar_rotation(d: int, rng: np.random.Generator) -> Array:
    """A uniformly random orthogonal matrix: QR of a Gaussian one with the signs of R's diagonal fixed."""
    q, r = np.linalg.qr(rng.standard_normal((d, d)))
    rotation: Array = q * np.where(np.diag(r) < 0, -1.0, 1.0)
    return rotation


@dataclass(frozen=True, eq=False)
class WhiteBasis:
    """Directions of one representation that carry variance, scaled to unit scatter.

    With V = `basis` (d, rank): V^T S V = I for the centred scatter S. Columns are put on a common scale
    before the eigendecomposition, so units do not decide what counts as rounding. ``x V @ back`` is x on the
    rows the scatter is of. `condition` is of the kept directions in the common scale; `constant` counts the
    columns without variance.
    """

    basis: Array
    back: Array
    condition: float
    constant: int

    @classmethod
    def of(cls, moments: Moments, *, tolerance: float = GRAM_TOLERANCE, equilibrate: bool = True) -> WhiteBasis:
        """`tolerance` is on standard deviations relative to the largest."""
        frame = _Frame.of(moments, equilibrate)
        top = frame.variances[-1] if frame.variances.size else 0.0
        keep = frame.variances > tolerance**2 * top
        kept = frame.variances[keep]
        condition = float(np.sqrt(top / kept[0])) if kept.size else float("inf")
        root = np.sqrt(kept)
        return cls(frame.directions[:, keep] / root, root[:, None] * frame.inverse[keep], condition, frame.constant)

    @property
    def rank(self) -> int:
        return int(self.basis.shape[1])

    @property
    def needs_refinement(self) -> bool:
        """Whether a Gram matrix alone is too coarse: ill-conditioned, or short of rank beyond constant columns."""
        return self.condition > REFINE_ABOVE or self.rank + self.constant < len(self.basis)

    def solve(self, cross: Array, frame: Preconditioner | None = None) -> Array:
        """Least-squares matrix B of ``x B = y`` from the cross-scatter of x and y, of least norm where many fit.

        With `frame`, scatter and cross-scatter are in its coordinates and B is in those of the data.
        """
        white = self.basis.T @ cross
        if self.rank + self.constant == len(self.basis):
            matrix: Array = self.basis @ white
            return matrix if frame is None else frame.matrix @ matrix
        back = self.back if frame is None else self.back @ frame.back
        return np.asarray(np.linalg.pinv(back) @ white, dtype=np.float64)


def units_of(moments: Moments) -> Array | None:
    """Standard deviations of the columns of one representation, where their units alone cost directions; else None.

    Ours. A fit in the coordinates of the data takes directions below `GRAM_TOLERANCE` of the largest standard deviation for rounding.
    Where fewer are left of the covariance than stand clear of rounding in the correlation matrix, it is the units of single columns
    that hide the others: divide by these numbers (1 for a constant column). Decide it once, on all rows: folds would not all agree.
    """
    energy = moments.energy
    live = np.flatnonzero(energy)
    scatter = moments.scatter[np.ix_(live, live)]
    try:  # a twentieth of the work of an eigendecomposition, and nearly always the answer
        np.linalg.cholesky(scatter - GRAM_TOLERANCE**2 * np.trace(scatter) * np.eye(len(live)))
        return None
    except np.linalg.LinAlgError:
        clear = WhiteBasis.of(moments, tolerance=CLEAR_OF_ROUNDING * GRAM_TOLERANCE).rank
        if WhiteBasis.of(moments, equilibrate=False).rank >= clear:
            return None
    return np.where(energy > 0, np.sqrt(energy / moments.n), 1.0)


def spread_ratio(moments: Moments) -> float:
    """The largest standard deviation of a column over the smallest of those that vary."""
    live = moments.energy[moments.energy > 0]
    return float(np.sqrt(live.max() / live.min()))


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """Coordinates ``(x - center) @ matrix`` in which one representation is white as far as a Gram matrix can see.

    Ours, after CholeskyQR2. Moments measured again in these coordinates have a condition near one, so
    a second pass resolves directions down to `RANK_TOLERANCE`, as a QR of the rows would. A direction
    below `GRAM_TOLERANCE` is scaled as if it stood there; constant columns are left out. `back` undoes
    `matrix` on the columns that vary.
    """

    center: Array
    matrix: Array
    back: Array

    @classmethod
    def of(cls, moments: Moments) -> Preconditioner:
        frame = _Frame.of(moments, equilibrate=True)
        spread = np.sqrt(frame.variances.clip(0))
        spread = np.maximum(spread, GRAM_TOLERANCE * spread[-1]) if spread.size else spread
        return cls(moments.mean, frame.directions / spread, spread[:, None] * frame.inverse)

    @staticmethod
    def white(again: Moments) -> WhiteBasis:
        """The white basis of moments measured in these coordinates, whose scale now says what is rounding."""
        return WhiteBasis.of(again, tolerance=RANK_TOLERANCE / GRAM_TOLERANCE, equilibrate=False)


@dataclass(frozen=True, eq=False)
class _Frame:
    """Principal directions of the columns that vary, ascending by variance; on a common scale if equilibrated."""

    directions: Array
    inverse: Array
    variances: Array
    constant: int

    @classmethod
    def of(cls, moments: Moments, equilibrate: bool) -> _Frame:
        energy = moments.energy
        live = np.flatnonzero(energy)
        scale = np.sqrt(energy[live]) if equilibrate else np.ones(len(live))
        variances, vectors = np.linalg.eigh(moments.scatter[np.ix_(live, live)] / np.outer(scale, scale))
        directions = np.zeros((len(energy), len(live)))
        inverse = np.zeros((len(live), len(energy)))
        directions[live] = vectors / scale[:, None]
        inverse[:, live] = vectors.T * scale
        return cls(directions, inverse, variances, len(energy) - len(live))


def correlation(moments: Moments) -> Array:
    """Correlations of the columns of x with those of y; zero where a column is constant."""
    d = moments.widths[0]
    spread = np.sqrt(np.outer(moments.energy[:d], moments.energy[d:]))
    return np.divide(moments.xy, spread, out=np.zeros_like(spread), where=spread > 0)


def _is_orthogonal(matrix: Array, tolerance: float) -> bool:
    return bool(np.allclose(matrix.T @ matrix, np.eye(len(matrix)), atol=tolerance, rtol=0))
