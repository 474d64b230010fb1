"""Whitening from float64 moments: directions without variance are dropped and said so, never divided by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.groups import GRAM_TOLERANCE, WhiteBasis
from identifiable.moments import Array, Moments
from identifiable.results import Whitening

Precision = Literal["single", "double"]


@dataclass(frozen=True, eq=False)
class Whitener:
    """``(x - center) @ matrix`` has identity covariance on the rows it was fitted to; `back` returns.

    `dtype` is that of the passes over rows. Where the data is well conditioned (`fused`), rows are only centred
    and the whitening is folded into each product, so no whitened copy is ever made. Otherwise that would lose
    digits to cancellation, and each block is whitened in float64 first, at twice the cost of a pass.
    """

    center: Array
    matrix: Array
    back: Array
    dtype: np.dtype[Any]
    fused: bool
    narrow: bool  # whether float32 rows may be centred in float32
    record: Whitening
    packed: bool = False  # whether rows are white and come as `pack` left them

    @classmethod
    def of(
        cls,
        moments: Moments,
        *,
        rank: int | Literal["auto"] = "auto",
        precision: Precision = "single",
        name: str = "the table",
    ) -> Whitener:
        """The whitener of one representation, keeping `rank` leading directions or all that carry variance."""
        if moments.n < 2:
            raise DataError(f"{name}: whitening needs at least two rows, got {moments.n}.")
        white = WhiteBasis.of(moments)
        if not white.rank:
            raise DataError(
                f"{name}: every column is constant (or its squares vanish), so there is nothing to resolve."
            )
        # The basis has unit scatter; ascending variances, of columns put on a common scale.
        matrix: Array = (white.basis * np.sqrt(moments.n))[:, ::-1]
        if rank != "auto":
            if not 1 <= rank <= white.rank:
                raise UsageError(
                    f"{name}: rank {rank}: expected a number from 1 to {white.rank}, the directions that vary, or 'auto'."
                )
            matrix = _leading(moments, rank)
        back: Array = matrix.T @ moments.scatter / moments.n
        kept = matrix.shape[1]
        dtype = np.dtype(np.float64 if precision == "double" else np.float32)
        record = Whitening(
            rank=kept,
            dropped=len(moments.mean) - kept,
            constant=white.constant,
            condition=white.condition,
            tolerance=GRAM_TOLERANCE,
            spectrum=tuple(_spectrum(moments).tolist()),
            effective_rank=_effective_rank(moments),
            rule="auto" if rank == "auto" else "given",
            precision=precision,
        )
        fused = precision == "double" or (not _cancels(matrix, back) and _within_float32(moments.mean, matrix, back))
        with np.errstate(over="ignore", invalid="ignore"):
            lost = (moments.mean.astype(np.float32) - moments.mean) @ matrix
        return cls(moments.mean, matrix, back, dtype, fused, bool(np.abs(lost).max() < CENTER_NOISE), record)

    @property
    def rank(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def ill_conditioned(self) -> bool:
        """Whether rows are whitened first because their directions differ in scale, and not for the units of the columns alone."""
        return not self.fused and _cancels(self.matrix, self.back)

    @property
    def width(self) -> int:
        """Columns of what `rows` gives."""
        return len(self.center) if self.fused else self.rank

    def within(self, rotation: Array) -> Whitener:
        """To the components `rotation` alone, as the coordinates."""
        return replace(self, matrix=self.matrix @ rotation.T, back=rotation @ self.back)

    def of_white(self) -> Whitener:
        """For rows that this one has whitened, packed where they were in float32."""
        identity = np.eye(self.rank)
        packed = self.dtype == np.float32
        white = np.zeros(self.rank), identity, identity
        return Whitener(*white, dtype=self.dtype, fused=True, narrow=True, record=self.record, packed=packed)

    @property
    def stored_white(self) -> bool:
        """Whether rows come packed, in the very coordinates this one whitens to: there is nothing to multiply them by."""
        return self.packed and np.array_equal(self.matrix, np.eye(self.width))

    def in_double_precision(self) -> Whitener:
        """The same, for passes in float64."""
        return replace(self, dtype=np.dtype(np.float64), fused=True)

    @cached_property
    def _narrow_center(self) -> NDArray[np.float32]:
        return self.center.astype(np.float32)

    def rows(self, x: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
        """Rows as the passes want them, in the buffer `out`: centred, or centred and whitened."""
        out = out[: len(x)]
        if self.packed:
            bits = out.view(np.uint32)
            np.copyto(bits, x)  # then shift: in one step numpy casts through a buffer, which takes three times as long
            bits <<= np.uint32(16)
            return out
        if not self.fused:
            out[:] = (x - self.center) @ self.matrix
        elif self.narrow and self.dtype == np.float32 and x.dtype.kind == "f" and x.dtype.itemsize < 8:
            np.subtract(x, self._narrow_center, out=out)
        else:
            np.subtract(x, self.center, out=out, casting="same_kind")
        return out

    def unmixing(self, rotation: Array) -> NDArray[Any]:
        """What `rows` are multiplied by to give the components `rotation` (components, rank)."""
        matrix = self.matrix @ rotation.T if self.fused else rotation.T
        return np.ascontiguousarray(matrix, dtype=self.dtype)

    def of_rows(self, means: Array) -> Array:
        """Means of something with whitened rows, given its means with what `rows` gives."""
        found: Array = means @ self.matrix if self.fused else means
        return found

    def variances(self, unmixing: NDArray[Any]) -> Array:
        """Of the components `unmixing` gives: 1 but for the rounding of that matrix."""
        exact = np.asarray(unmixing, np.float64)
        directions = self.back @ exact if self.fused else exact
        return np.asarray(np.einsum("ij,ij->j", directions, directions))


def pack(y: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper half of the bits, rounded: two digits and a half, in half the memory. `Whitener.rows` unpacks them."""
    bits = y.view(np.uint32) + np.uint32(0x8000)
    bits >>= np.uint32(16)
    return bits.astype(np.uint16)


CENTER_NOISE = 1e-4  # most that rounding the mean to float32 may move a component, in its standard deviations
FUSED_NOISE = 1e-3  # most rounding, in standard deviations of a component, that folding the whitening may cost


def _cancels(matrix: Array, back: Array) -> bool:
    """Whether folding the whitening into products of float32 costs more than `FUSED_NOISE`: small directions are read off large ones."""
    return not _stretch(matrix, back) * float(np.finfo(np.float32).eps) < FUSED_NOISE


def _stretch(matrix: Array, back: Array) -> float:
    """How much larger the terms of ``x @ matrix`` are than their sum: what cancels when a small direction is read off."""
    typical = np.sqrt((back**2).sum(axis=0))  # standard deviation of every column
    return float(np.max(typical @ np.abs(matrix)) / np.sqrt(len(typical)))


def _within_float32(*arrays: Array) -> bool:
    """Whether all sizes, and products of two of them, are well inside what float32 can hold."""
    sizes = np.concatenate([np.abs(a).ravel() for a in arrays])
    sizes = sizes[sizes > 0]
    return bool(sizes.max() < 1e15 and np.median(sizes) > 1e-15)


def _leading(moments: Moments, rank: int) -> Array:
    """Whitening of the `rank` principal directions of largest variance, in the units of the data."""
    variances, vectors = np.linalg.eigh(moments.scatter / moments.n)
    leading: Array = (vectors / np.sqrt(variances.clip(min=np.finfo(float).tiny)))[:, ::-1][:, :rank]
    return leading


def _spectrum(moments: Moments) -> Array:
    """Standard deviations along principal directions, largest first."""
    variances = np.linalg.eigvalsh(moments.scatter / moments.n)[::-1]
    spread: Array = np.sqrt(variances.clip(0))
    return spread


def _effective_rank(moments: Moments) -> float:
    """exp(entropy) of the normalised variances (Roy and Vetterli 2007)."""
    variances = _spectrum(moments) ** 2
    share = variances[variances > 0] / variances.sum()
    return float(np.exp(-np.sum(share * np.log(share))))
