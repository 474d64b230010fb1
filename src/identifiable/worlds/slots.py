"""Decoders whose factors own their outputs: slots of a mixture, and sprites that move. Both know their Jacobian."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable.moments import Array

Values = NDArray[np.floating[Any]]

DRAWN, BEST = (
    200,
    0.25,
)  # matrices drawn to know their condition numbers, and the share of them, from below, that is good enough
SLOPE = 0.01  # of the generator's LeakyReLU below 0


@dataclass(frozen=True, eq=False)
class SlotWorld:
    """Slots of latents, each of which moves outputs of its own by the same random network: section 5 of Brady et al. 2023.

    Two layers without bias, LeakyReLU(0.01), columns of length 1, matrices in the best quarter of condition numbers. Ours: the width
    of the hidden layer, which is that of a slot's outputs; `overlap`, the share of its outputs that a slot has in common with the
    next one on a line, where both are added; `dependence`, the correlation of the same latent in different slots.
    """

    slots: int
    first: Array
    second: Array
    overlap: float
    dependence: float

    @classmethod
    def of(
        cls,
        slots: int = 2,
        *,
        dim: int = 3,
        outputs: int = 20,
        overlap: float = 0.0,
        dependence: float = 0.0,
        rng: np.random.Generator,
    ) -> SlotWorld:
        """A random one.

        >>> world = SlotWorld.of(3, overlap=0.1, rng=np.random.default_rng(0))
        >>> world.latents, world.outputs, world(np.zeros((5, 9))).shape
        (9, 56, (5, 56))
        """
        if slots < 1 or not 1 <= dim <= outputs:
            raise UsageError(
                f"expected a slot and at least as many outputs as latents, got {slots}, {outputs} and {dim}."
            )
        if not (0 <= overlap <= 1 and 0 <= dependence < 1):
            raise UsageError(f"expected overlap and dependence from 0 to 1, got {overlap} and {dependence}.")
        return cls(slots, _conditioned(dim, outputs, rng), _conditioned(outputs, outputs, rng), overlap, dependence)

    @property
    def latents(self) -> int:
        return self.slots * len(self.first)

    @property
    def own(self) -> int:
        """Outputs of a slot."""
        return int(self.second.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.starts[-1]) + self.own

    @property
    def starts(self) -> NDArray[np.intp]:
        """The first output of each slot; the others follow."""
        return np.arange(self.slots) * (self.own - round(self.overlap * self.own))

    def draw(self, n: int, *, rng: np.random.Generator) -> Array:
        """Latents: Gaussian, of variance 1, correlated between slots by `dependence`."""
        shared, own = (
            rng.standard_normal((n, 1, len(self.first))),
            rng.standard_normal((n, self.slots, len(self.first))),
        )
        z: Array = math.sqrt(self.dependence) * shared + math.sqrt(1 - self.dependence) * own
        return z.reshape(n, -1)

    def __call__(self, z: Values) -> Array:
        return self._placed([hidden * slopes @ self.second for hidden, slopes in self._hidden(z)])

    def jacobian(self, z: Values) -> Array:
        """(points, outputs, latents)."""
        n, dim = len(z), len(self.first)
        result = np.zeros((n, self.outputs, self.latents))
        for k, (start, (_, slopes)) in enumerate(zip(self.starts, self._hidden(z), strict=True)):
            block = np.einsum("ah,nh,ho->noa", self.first, slopes, self.second, optimize=True)
            result[:, start : start + self.own, k * dim : (k + 1) * dim] = block
        return result

    def jvp(self, z: Values, v: Values) -> Array:
        moves = np.split(v, self.slots, axis=1)
        return self._placed(
            [move @ self.first * slopes @ self.second for move, (_, slopes) in zip(moves, self._hidden(z), strict=True)]
        )

    def _hidden(self, z: Values) -> list[tuple[Array, Array]]:
        hidden = [part @ self.first for part in np.split(z, self.slots, axis=1)]
        return [(h, np.where(h > 0, 1.0, SLOPE)) for h in hidden]

    def _placed(self, parts: list[Array]) -> Array:
        result = np.zeros((len(parts[0]), self.outputs))
        for start, part in zip(self.starts, parts, strict=True):
            result[:, start : start + self.own] += part
        return result


def _conditioned(rows: int, columns: int, rng: np.random.Generator) -> Array:
    """A random matrix with columns of length 1, in the best quarter of condition numbers."""
    drawn = rng.uniform(-1, 1, (DRAWN, rows, columns))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    conditions = np.linalg.cond(drawn)
    result: Array = drawn[int(rng.choice(np.flatnonzero(conditions <= np.quantile(conditions, BEST))))]
    return result


@dataclass(frozen=True)
class MovingSprites:
    """Pictures of discs that move on the unit square: `latents` are (x, y) of each. Ours.

    A disc is (1 - r²)² of the distance r from its centre over `radius`, and 0 outside, so its outputs change as it moves and every
    derivative is exact. Discs are added, or the later one covers the earlier one (`occluding`). Disc k has the brightness 1 + k / 2.
    """

    sprites: int = 2
    resolution: int = 16
    radius: float = 0.2
    occluding: bool = False

    def __post_init__(self) -> None:
        if self.sprites < 1 or self.resolution < 2 or not 0 < self.radius < 0.5:
            raise UsageError(
                f"expected a sprite, 2 pixels and a radius from 0 to 0.5, got {self.sprites}, {self.resolution} and {self.radius}."
            )

    def draw(self, n: int, *, separated: bool = False, rng: np.random.Generator) -> Array:
        """Centres, uniform over where a disc is inside; if `separated`, no two discs of a picture touch.

        >>> MovingSprites(3).draw(4, rng=np.random.default_rng(0)).shape
        (4, 6)
        """
        found: list[Array] = []
        while len(found) < n:
            z = rng.uniform(self.radius, 1 - self.radius, (self.sprites, 2))
            apart = np.linalg.norm(z[:, None] - z, axis=2) + np.eye(self.sprites)
            if not separated or apart.min() > 2 * self.radius:
                found.append(z.reshape(-1))
        return np.stack(found)

    def __call__(self, z: Values) -> Array:
        """(n, resolution, resolution)."""
        shapes, _ = self._shapes(z)
        result: Array = np.einsum("nkp,nkp->np", self._bright(shapes), self._seen(shapes))
        return result.reshape(len(z), self.resolution, self.resolution)

    def jacobian(self, z: Values) -> Array:
        """(points, pixels, latents)."""
        shapes, moved = self._shapes(z)
        seen, bright = self._seen(shapes), self._bright(shapes)
        result = np.empty((len(z), shapes.shape[2], 2 * self.sprites))
        for k in range(self.sprites):
            through = np.ones_like(shapes[:, k])
            behind = np.zeros_like(through)  # what disc k covers, as seen through the discs between
            if self.occluding:
                rest = 1 - shapes[:, k]
                behind = sum((bright[:, j] * _over(seen[:, j], rest) for j in range(k)), behind)
            through = (1 + k / 2) * seen[:, k] - behind
            result[:, :, 2 * k : 2 * k + 2] = through[:, :, None] * moved[:, k]
        return result

    def jvp(self, z: Values, v: Values) -> Array:
        result: Array = np.einsum("npd,nd->np", self.jacobian(z), v)
        return result

    def _shapes(self, z: Values) -> tuple[Array, Array]:
        """The discs (n, sprites, pixels), and their derivatives by the centre (n, sprites, pixels, 2)."""
        side = (np.arange(self.resolution) + 0.5) / self.resolution
        pixels = np.stack(np.meshgrid(side, side, indexing="xy"), axis=-1).reshape(-1, 2)
        offset = (pixels - z.reshape(len(z), self.sprites, 1, 2)) / self.radius
        inside = np.maximum(1 - (offset**2).sum(axis=3), 0)
        return inside**2, 4 * inside[..., None] * offset / self.radius

    def _bright(self, shapes: Array) -> Array:
        result: Array = shapes * (1 + np.arange(self.sprites) / 2)[:, None]
        return result

    def _seen(self, shapes: Array) -> Array:
        """The share of each disc that no later one covers."""
        if not self.occluding:
            return np.ones_like(shapes)
        rest = np.cumprod(1 - shapes[:, ::-1], axis=1)[:, ::-1]
        return np.concatenate([rest[:, 1:], np.ones_like(rest[:, :1])], axis=1)


def _over(product: Array, factor: Array) -> Array:
    """product / factor where a product of factors of which one is 0 has a limit: discs are below 1 but at their centre."""
    return np.divide(product, factor, out=np.zeros_like(product), where=factor > 0)
