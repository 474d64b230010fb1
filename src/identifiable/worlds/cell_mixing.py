"""From latents to the columns of an embedding: a curved map of known bi-Lipschitz constants, then a linear one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from identifiable.groups import haar_rotation
from identifiable.moments import Array
from identifiable.worlds.cell_settings import CellSettings, Stream

Single = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class CellMixing:
    """``x = (f(s * amplitude) @ turn * spread + noise) @ frame + offset``.

    f is `layers` times ``z + delta * tanh(z @ V) @ U`` with orthogonal U, V: each layer stretches lengths by
    factors from 1 - delta to 1 + delta. `frame` has orthonormal rows, as many as there are latents.
    """

    amplitude: Array
    delta: float
    layers: tuple[tuple[Array, Array], ...]
    turn: Array
    spread: Array
    frame: Array
    offset: Array
    noise: float

    @classmethod
    def of(cls, settings: CellSettings, seed: int) -> CellMixing:
        rng = np.random.default_rng([seed, Stream.MIXING])
        k, d = settings.latents, settings.width
        nuisance = k - settings.biology - settings.technical
        levels = 1.0, settings.loudness, 1 / settings.loudness
        amplitude = np.repeat(levels, (settings.biology, settings.technical, nuisance))
        turn, frame = haar_rotation(k, rng), haar_rotation(d, rng)[:k]
        offset = rng.standard_normal(d)
        spread = np.logspace(0, -np.log10(settings.kappa), k)
        layers = tuple((haar_rotation(k, rng), haar_rotation(k, rng)) for _ in range(settings.layers))
        return cls(
            amplitude, settings.delta, layers if settings.delta else (), turn, spread, frame, offset,
            settings.noise * float(spread[-1]),
        )  # fmt: skip

    def __call__(self, latents: Single, noise: Single | None = None) -> Single:
        """Rows of the table. `noise`, standard normal and of the latents' shape, lies in the space they span: no new rank."""
        amplitude, linear, frame, offset = self._single
        z: Single = latents * amplitude
        for U, V in self._single_layers:
            z = z + (np.float32(self.delta) * np.tanh(z @ V)) @ U
        mixed: Single = z @ linear + offset
        if noise is not None and self.noise:
            mixed += (np.float32(self.noise) * noise) @ frame
        return mixed

    @cached_property
    def _single(self) -> tuple[Single, ...]:
        parts = self.amplitude, self.turn * self.spread @ self.frame, self.frame, self.offset
        return tuple(part.astype(np.float32) for part in parts)

    @cached_property
    def _single_layers(self) -> list[tuple[Single, Single]]:
        return [(U.astype(np.float32), V.astype(np.float32)) for U, V in self.layers]

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which factors the curved part stretches lengths, everywhere."""
        return (1 - self.delta) ** len(self.layers), (1 + self.delta) ** len(self.layers)

    def stretches(self, latents: Single) -> tuple[float, float]:
        """The smallest and largest factor by which the curved part stretches lengths near these points."""
        low, high = np.inf, 0.0
        for point in np.asarray(latents, np.float64) * self.amplitude:
            z, jacobian = point, np.eye(len(point))
            for U, V in self.layers:
                t = np.tanh(z @ V)
                jacobian = jacobian + self.delta * (jacobian @ V * (1 - t**2)) @ U
                z = z + self.delta * t @ U
            singular = np.linalg.svd(jacobian, compute_uv=False)
            low, high = min(low, float(singular[-1])), max(high, float(singular[0]))
        return low, high
