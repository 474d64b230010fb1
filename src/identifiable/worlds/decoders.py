"""Decoders whose bi-Lipschitz constant is known: theory meets numbers here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable.groups import haar_rotation
from identifiable.moments import Array

Values = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Waves:
    """A smooth decoder with exactly this bi-Lipschitz constant: waves along each of some rotated axes, then an isometry.

    Ours. Along an axis the map is t + b sin(w t) / w with b = 1 - 1 / constant, so that its slope runs from 1 - b to 1 + b
    and 1 + L = 1 / (1 - b): reached wherever cos(w t) = -1, at every point up to it. Injective for any constant.
    """

    constant: float
    axes: Array
    frequencies: Array
    frame: Array

    @classmethod
    def of(cls, constant: float, latents: int, outputs: int, *, rng: np.random.Generator) -> Waves:
        """A random one.

        >>> g = Waves.of(1.5, 2, 5, rng=np.random.default_rng(0))
        >>> g(np.zeros((3, 2))).shape
        (3, 5)
        """
        if not 1 <= constant < math.inf:
            raise UsageError(f"constant: expected a number of at least 1, got {constant}.")
        if not 1 <= latents <= outputs:
            raise UsageError(f"expected at least as many outputs as latents, got {outputs} and {latents}.")
        axes, frame = haar_rotation(latents, rng), haar_rotation(outputs, rng)[:latents]
        return cls(constant, axes, rng.uniform(2, 4, latents), frame)

    @property
    def bend(self) -> float:
        return 1 - 1 / self.constant

    def __call__(self, z: Values) -> Array:
        t = z @ self.axes
        result: Array = (t + self.bend * np.sin(self.frequencies * t) / self.frequencies) @ self.frame
        return result

    def jvp(self, z: Values, v: Values) -> Array:
        result: Array = (v @ self.axes * self._slopes(z)) @ self.frame
        return result

    def vjp(self, z: Values, u: Values) -> Array:
        result: Array = (u @ self.frame.T * self._slopes(z)) @ self.axes.T
        return result

    def local_constant(self, z: Values) -> Array:
        """1 + L at every point."""
        slopes = self._slopes(z)
        result: Array = np.maximum(slopes.max(axis=1), 1 / slopes.min(axis=1))
        return result

    def _slopes(self, z: Values) -> Array:
        result: Array = 1 + self.bend * np.cos(self.frequencies * (z @ self.axes))
        return result


@dataclass(frozen=True)
class MovingSquare:
    """Pictures of a square that moves and grows on the unit square, blurred: section 3.3.1 of S, its metric in A.6.

    Latents are the centre (x, y) and the half-side r. A pixel is the value at its centre of the square's indicator blurred
    by a Gaussian of standard deviation `width`, and pictures are scaled so that their norm is the integral's: speeds do not
    depend on the resolution. They are `bounds.square_speeds` while the square is far from the border and
    ``1 / resolution << width << r``.
    """

    resolution: int = 64
    width: float = 0.02

    def __post_init__(self) -> None:
        if self.resolution < 2 or not self.width > 0:
            raise UsageError(
                f"expected at least 2 pixels and a positive width, got {self.resolution} and {self.width}."
            )

    def __call__(self, latents: Values) -> Array:
        """(n, resolution, resolution).

        >>> MovingSquare(32)(np.array([[0.5, 0.5, 0.2]])).shape
        (1, 32, 32)
        """
        across, down = (self._edges(latents[:, k], latents[:, 2])[0] for k in (0, 1))
        result: Array = down[:, :, None] * across[:, None, :] / self.resolution
        return result

    def jvp(self, latents: Values, v: Values) -> Array:
        """How the picture changes as the latents do."""
        (across, moved_x, grown_x), (down, moved_y, grown_y) = (
            self._edges(latents[:, k], latents[:, 2]) for k in (0, 1)
        )
        d_across = v[:, :1] * moved_x + v[:, 2:] * grown_x
        d_down = v[:, 1:2] * moved_y + v[:, 2:] * grown_y
        change = d_down[:, :, None] * across[:, None, :] + down[:, :, None] * d_across[:, None, :]
        result: Array = change / self.resolution
        return result

    def _edges(self, centre: Values, half_side: Values) -> tuple[Array, Array, Array]:
        """The blurred interval on the pixels, and its derivatives by centre and half-side."""
        from scipy.special import erf

        pixels = (np.arange(self.resolution) + 0.5) / self.resolution
        left, right = ((pixels - (centre + s * half_side)[:, None]) / self.width for s in (-1, 1))
        values = (erf(left / math.sqrt(2)) - erf(right / math.sqrt(2))) / 2
        density = [np.exp(-(t**2) / 2) / (self.width * math.sqrt(2 * math.pi)) for t in (left, right)]
        return values, density[1] - density[0], density[0] + density[1]
