r"""Families of maps from one representation into another, every one of them fitted from moments.

Rows are centred on both sides. With S the covariance of x, C that of x with y and λ a penalty:

signed_permutation  columns matched one to one, with a sign
rigid               the rotation nearest to C (Procrustes); into fewer columns the projection that fits best with one scale, into
                    more the semi-orthogonal matrix nearest to C
toward_identity     the rotation nearest to C + λ I: between two versions of one model, whose axes correspond
similarity          the rotation, scaled so that mapped rows spread as much as those of the target
scaled_toward_identity   toward_identity with that scale
shrink              s Q + Δ, Q the rotation and Δ = (S + λ)^-1 (C - s S Q): a linear map that a penalty draws to the similarity
ridge               (S + λ)^-1 C
scaled_ridge        ridge with that scale
half                (S + λ)^-½ U Σ^½ V', where U Σ V' = (S + λ)^-½ C, scaled as the similarity is: between ridge, which has
                    Σ, and a rotation, which has Σ^0 with λ → ∞
reduced_rank        (S + λ)^-½ U Σ V' with only the largest K singular values

A scale is matched to the spread of the target; the scale of least squares shrinks mapped rows, and the nearest rows by
distance are then those near the mean (recall .43 instead of .50, measured on real pairs). Penalties are given as shares of the
mean variance: of x, for `toward_identity` of both sides (geometric mean). Where the units of columns of x alone would cost directions
(`groups.units_of`), S and λ of the linear families are of x with columns divided by their standard deviations.

Procrustes: Schönemann 1966. Reduced rank: Izenman 1975. `toward_identity`, `shrink` and `half` are Ours in this use.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal, get_args

import numpy as np

from identifiable._checks import DataError, UsageError
from identifiable.groups import RANK_TOLERANCE, AffineMap, group, procrustes, projection
from identifiable.moments import Array, Moments
from identifiable.options import MapOptions

Family = Literal[
    "signed_permutation",
    "rigid",
    "toward_identity",
    "similarity",
    "scaled_toward_identity",
    "shrink",
    "ridge",
    "scaled_ridge",
    "half",
    "reduced_rank",
]
FAMILIES: tuple[Family, ...] = get_args(Family)

GROUP_OF: dict[Family, str] = {
    "signed_permutation": "signed_permutation",
    "rigid": "rigid",
    "toward_identity": "rigid",
    "similarity": "similarity",
    "scaled_toward_identity": "similarity",
    **dict.fromkeys(FAMILIES[FAMILIES.index("shrink") :], "linear"),
}
"""The group of every family, smallest group first."""

AXES_KEPT = ("toward_identity", "scaled_toward_identity")  # only between tables of one width
TOWARD_IDENTITY = (-6, 2)  # half decades: at the first the data decide, at the last the axes stay as they are


def families_of(options: MapOptions, widths: tuple[int, int]) -> tuple[Family, ...]:
    """The families that may be tried: those of the group, of them what a penalty or a rank leaves.

    >>> families_of(MapOptions(group="rigid"), (3, 3)), families_of(MapOptions(ridge=0.1), (3, 3))
    (('rigid', 'toward_identity'), ('ridge',))
    """
    asked = [name for name, value in (("ridge", options.ridge != "auto"), ("rank", options.rank is not None)) if value]
    if asked and options.group not in ("auto", "linear"):
        raise UsageError(
            f"{' and '.join(asked)}: expected only with a linear map, got group {options.group!r}; "
            f"use group 'linear', or leave out {' and '.join(asked)}."
        )
    if options.rank is not None:
        if options.rank > min(widths):
            raise UsageError(
                f"rank {options.rank}: expected at most {min(widths)}, the smaller of the widths {widths}."
            )
        return ("reduced_rank",)
    if options.ridge != "auto":
        return ("ridge",)
    return tuple(
        family
        for family in FAMILIES
        if family != "reduced_rank"
        and options.group in ("auto", GROUP_OF[family])
        and (family not in AXES_KEPT or widths[0] == widths[1])
    )


class Paths:
    """Every map of every family from the moments of one training set, whose decompositions are made once.

    >>> rows = np.random.default_rng(0).standard_normal((50, 2))
    >>> paths = Paths(Moments.of(np.hstack([rows, rows @ [[0, 3], [-3, 0]]]), (2, 2)))
    >>> paths.map("similarity").matrix.round(6) + 0.0
    array([[ 0.,  3.],
           [-3.,  0.]])
    """

    def __init__(self, moments: Moments, units: Array | None = None):
        """`units` are what the linear families divide the columns of x by (`groups.units_of` of all rows)."""
        self.moments, self.units = moments, units
        d = moments.widths[0]
        self.energies = float(moments.energy[:d].sum()) / moments.n, float(moments.energy[d:].sum()) / moments.n
        if not all(self.energies):
            side = "source" if not self.energies[0] else "target"
            raise DataError(f"every row of the {side} is the same, so there is no map to fit.")
        self.covariance, self.cross = moments.xx / moments.n, moments.xy / moments.n
        self._last_turn: tuple[float, Array] | None = None

    def penalties(self, family: Family) -> Array:
        """The path: none, then half decades, over which every principal direction of x goes from free to shrunk to nothing.

        Empty for a family without a penalty. A rotation towards the identity starts at a thousandth instead of none: it is then
        the rotation of `rigid`.
        """
        if family in AXES_KEPT:
            return _half_decades(*TOWARD_IDENTITY)
        if GROUP_OF[family] != "linear":
            return np.empty(0)
        variances = self._principal[0] / self._unit
        least = float(variances[variances > RANK_TOLERANCE * variances[-1]][0]) / 10
        most = float(variances[-1]) * (10 if family == "shrink" else 1)
        return np.append(0.0, _half_decades(int(np.floor(2 * np.log10(least))), int(np.ceil(2 * np.log10(most)))))

    def map(self, family: Family, penalty: float | None = None, rank: int | None = None) -> AffineMap:
        """The map of a family, about the means of its training rows."""
        return AffineMap.about(self.matrix(family, penalty, rank), self.moments.mean_x, self.moments.mean_y)

    def matrix(self, family: Family, penalty: float | None = None, rank: int | None = None) -> Array:
        if family == "signed_permutation":
            return group(family).fit(self.moments).matrix
        if family == "rigid":
            return self._rotation
        if family == "similarity":
            return self._similarity
        if penalty is None or penalty < 0:
            raise UsageError(f"{family}: expected a penalty of at least 0, got {penalty!r}.")
        if family in AXES_KEPT:
            rotation = self._toward_identity(penalty)
            return self._spread_as_target(rotation) if family == "scaled_toward_identity" else rotation
        if family == "reduced_rank":
            return self._cut(penalty, min(self.cross.shape) if rank is None else rank)
        if family == "half":
            return self._halved(penalty)
        matrix = self._penalised(penalty, shrink=family == "shrink")
        return self._spread_as_target(matrix) if family == "scaled_ridge" else matrix

    def r2(self, family: Family, test: Moments) -> Array:
        """Held-out R² of every map along the path (one without penalties has one), from the moments of the held-out rows.

        R² = 1 - sum |y - f(x)|² / sum |y - mean of the training rows|², as everywhere.
        """
        held_out = HeldOut(self.moments, test)
        penalties = self.penalties(family)
        if family in ("ridge", "shrink"):
            return self._r2_of_path(held_out, penalties, shrink=family == "shrink")
        return np.array([held_out.r2(self.matrix(family, p)) for p in (penalties if penalties.size else [None])])

    # -- what is made once

    @property
    def _unit(self) -> float:
        """Mean variance of x, in the units in which it is penalised."""
        return self.energies[0] / len(self.cross) if self.units is None else float(self._principal[0].mean())

    @cached_property
    def _rotation(self) -> Array:
        if self.cross.shape[0] > self.cross.shape[1]:  # which directions of x are kept is fitted, too
            return projection(self.covariance, self.cross)
        return procrustes(self.cross)[0]

    @cached_property
    def _similarity(self) -> Array:
        return self._spread_as_target(self._rotation)

    @cached_property
    def _principal(self) -> tuple[Array, Array]:
        """Variances of x, ascending, and their directions; where there are units, those of x divided by them, which x times these gives."""
        if self.units is None:
            variances, directions = np.linalg.eigh(self.covariance)
            return variances.clip(0), directions
        variances, directions = np.linalg.eigh(self.covariance / np.outer(self.units, self.units))
        return variances.clip(0), directions / self.units[:, None]

    @cached_property
    def _turned(self) -> Array:
        """C with x in principal directions."""
        return self._principal[1].T @ self.cross

    @cached_property
    def _turned_left(self) -> Array:
        """What the similarity leaves of C, in the same directions."""
        variances, directions = self._principal
        back = directions.T if self.units is None else directions.T * self.units**2
        return self._turned - variances[:, None] * (back @ self._similarity)

    def left_out(self, penalties: Array) -> Array:
        """Mean squared error of ridge for a training row that is left out, along a path of penalties: generalised cross-validation.

        Implements Golub, Heath and Wahba 1979, from moments: residuals over (1 - degrees of freedom / n)², and their limit where a map
        without penalty fits every row.
        """
        variances = self._principal[0]
        free = variances > RANK_TOLERANCE * variances[-1]
        kept, explained = variances[free], np.square(self._turned[free]).sum(axis=1) / variances[free]
        rows = self.moments.n - 1
        spare = max(rows - len(kept), 0)
        rest = max(self.energies[1] - float(explained.sum()), 0.0) if spare else 0.0
        shift = np.maximum(penalties * self._unit, 1e-6 * kept[0])[:, None]
        left = shift / (kept + shift)
        result: Array = (left**2 @ explained + rest) / np.square((left.sum(axis=1) + spare) / rows)
        return result

    def kept(self, penalty: float) -> int:
        """How many directions of x a map with this penalty uses."""
        return int(np.count_nonzero(self._inverse(penalty)))

    # -- maps with a penalty

    def _inverse(self, penalty: float) -> Array:
        """1 / (variance + penalty) of every principal direction; 0 where that is rounding."""
        variances = self._principal[0]
        shifted = variances + penalty * self._unit
        return np.divide(1.0, shifted, out=np.zeros_like(shifted), where=shifted > RANK_TOLERANCE * variances[-1])

    def _toward_identity(self, penalty: float) -> Array:
        if self._last_turn is None or self._last_turn[0] != penalty:  # two families share it
            unit = np.sqrt(self.energies[0] * self.energies[1]) / len(self.cross)
            self._last_turn = penalty, procrustes(self.cross + penalty * unit * np.eye(len(self.cross)))[0]
        return self._last_turn[1]

    def _penalised(self, penalty: float, *, shrink: bool) -> Array:
        turned = self._turned_left if shrink else self._turned
        matrix: Array = self._principal[1] @ (self._inverse(penalty)[:, None] * turned)
        return matrix + self._similarity if shrink else matrix

    def _white(self, penalty: float) -> tuple[Array, Array]:
        """(S + λ)^-½ in principal directions, and U Σ V' = that times C."""
        root = np.sqrt(self._inverse(penalty))[:, None]
        return root, root * self._turned

    def _halved(self, penalty: float) -> Array:
        root, white = self._white(penalty)
        squares, vectors, tall = _squares(white)
        roots = squares.clip(RANK_TOLERANCE * squares[-1]) ** -0.25
        power = (vectors * roots) @ vectors.T
        return self._spread_as_target(self._principal[1] @ (root * (white @ power if tall else power @ white)))

    def _cut(self, penalty: float, rank: int) -> Array:
        root, white = self._white(penalty)
        _, vectors, tall = _squares(white)
        kept = vectors[:, -rank:]
        return self._principal[1] @ (root * (white @ kept @ kept.T if tall else kept @ (kept.T @ white)))

    def _spread_as_target(self, matrix: Array) -> Array:
        """The matrix, scaled so that mapped rows vary as much as those of the target."""
        energy = float(np.sum(matrix * (self.covariance @ matrix)))
        return matrix * np.sqrt(self.energies[1] / energy) if energy > 0 else matrix

    def _r2_of_path(self, test: HeldOut, penalties: Array, *, shrink: bool) -> Array:
        """By quadratic forms in principal directions: a product of matrices for all penalties, none for each."""
        directions = self._principal[1]
        cross, spread = test.cross, test.spread
        turned = self._turned
        if shrink:
            cross = cross - test.covariance @ self._similarity
            spread = test.squares(self._similarity)
            turned = self._turned_left
        inner = np.sum((directions.T @ cross) * turned, axis=1)
        outer = (directions.T @ test.covariance @ directions) * (turned @ turned.T)
        inverse = np.array([self._inverse(p) for p in penalties])
        left = spread - 2 * inverse @ inner + np.sum(inverse * (inverse @ outer), axis=1)
        r2: Array = 1 - left / test.spread
        return r2


class HeldOut:
    """Second moments of held-out rows about the means of the training rows, a row's share of them."""

    def __init__(self, training: Moments, test: Moments):
        d = training.widths[0]
        gram = test.about(training.mean).gram / test.n
        self.covariance, self.cross = gram[:d, :d], gram[:d, d:]
        self.spread = float(np.trace(gram[d:, d:]))

    def forms(self, matrix: Array) -> Array:
        """Of the map with this matrix: mean product of mapped and true rows, mean square of mapped and of true rows."""
        return np.array([np.sum(matrix * self.cross), np.sum(matrix * (self.covariance @ matrix)), self.spread])

    def squares(self, matrix: Array) -> float:
        """Mean squared error of the map with this matrix."""
        shared, mapped, spread = self.forms(matrix)
        return float(spread - 2 * shared + mapped)

    def r2(self, matrix: Array) -> float:
        return 1 - self.squares(matrix) / self.spread


def _half_decades(first: int, last: int) -> Array:
    path: Array = 10.0 ** (np.arange(first, last + 1) / 2)
    return path


def _squares(matrix: Array) -> tuple[Array, Array, bool]:
    """Squared singular values, ascending, and the singular vectors of the shorter side; True if those are of its columns."""
    tall = matrix.shape[0] > matrix.shape[1]
    squares, vectors = np.linalg.eigh(matrix.T @ matrix if tall else matrix @ matrix.T)
    return squares, vectors, tall
