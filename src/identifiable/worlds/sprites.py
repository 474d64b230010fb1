"""One white shape on black: the factors of dSprites, drawn instead of stored, and anti-aliased."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable.worlds.factor_grid import Factor, Numbers, Pictures, PictureWorld

SHAPES = ("square", "ellipse", "heart")
DSPRITES_SIZES = (3, 6, 40, 32, 32)

# Lengths are fractions of the picture's side. Ours: at one scale all shapes cover the same area, so that the scale says
# nothing of the shape; their centroids lie at (x, y); and the largest one, anywhere in the range, stays inside the picture.
HALF_SIDE = 0.13
AREA = (2 * HALF_SIDE) ** 2
FLATNESS = 0.6  # of the ellipse: the short axis over the long one
LONG_AXIS = math.sqrt(AREA / (math.pi * FLATNESS))
HEART_SIDE = math.sqrt(AREA / (1 + math.pi / 4))  # a square, and half a disc on each of two sides that meet
HEART_CENTROID = HEART_SIDE * (1 / 2 + math.pi / 8 * (1 + 2 / (3 * math.pi)) + math.pi / 16) / (1 + math.pi / 4)
REACH = (
    LONG_AXIS  # how far the largest shape extends: the ellipse's tips; the square's corners and the heart's tip less
)
NEAR, FAR = 0.2, 0.8  # of the centre

BATCH_PIXELS = 2**15  # drawn at a time, so that what is in hand stays in the processor's cache

Plane = NDArray[np.float32]
Distance = Callable[[Plane, Plane], Plane]


class SpriteWorld(PictureWorld):
    """Pictures of a square, an ellipse or a heart: shape, scale (0.5 to 1), orientation (degrees), x and y (0.2 to 0.8).

    Ours, after dSprites (Matthey et al. 2017): the same factors and, by default, the same numbers of levels. A pixel is the
    part of it that the shape covers, from the distance of its centre to the outline, where dSprites has 0 or 1.

    A square looks the same after a quarter of a turn and an ellipse after half a turn. dSprites ignores that: it turns every
    shape all the way, 0 and 360 degrees both, so that different codes show the same picture and orientation cannot be read
    off. Here orientations run over [0, `turn`) with a quarter of a turn by default, where every code has its own picture.

    Parameters
    ----------
    channels
        1, or 3 equal ones, as models of colour pictures expect.
    continuous
        Factors are real values, except the shape, and are drawn uniformly from their ranges.
    sizes
        Levels of each factor. One level holds the factor: the first shape, no turn, the middle of the other ranges.

    >>> world = SpriteWorld(32, channels=1)
    >>> world.grid.n, world.render([[2, 5, 0, 16, 16]]).shape
    (737280, (1, 1, 32, 32))
    """

    def __init__(
        self,
        resolution: int = 64,
        *,
        channels: Literal[1, 3] = 3,
        continuous: bool = False,
        sizes: Sequence[int] = DSPRITES_SIZES,
        turn: float = 90.0,
    ):
        if channels not in (1, 3):
            raise UsageError(f"channels: expected 1 or 3, got {channels}.")
        if not 0 < turn <= 360:
            raise UsageError(f"turn: expected an angle above 0 and up to 360 degrees, got {turn}.")
        factors = (
            Factor("shape", "categorical", 0, len(SHAPES) - 1),
            Factor("scale", "continuous", 0.5, 1.0),
            Factor("orientation", "continuous", 0.0, turn, closed=False),
            Factor("x", "continuous", NEAR, FAR),
            Factor("y", "continuous", NEAR, FAR),
        )
        self._arrange(factors, sizes, resolution=resolution, continuous=continuous)
        self.channels = channels
        # The shape, and half a pixel of its edge on each side, whatever part of a pixel its centre is at.
        self._patch = min(math.ceil(2 * REACH * self.resolution) + 3, self.resolution)

    def _draw(self, values: Numbers, out: Pictures) -> None:
        step = max(BATCH_PIXELS // self._patch**2, 1)
        for shape, distance in enumerate(DISTANCES):
            mine = np.flatnonzero(values[:, 0] == shape)
            for start in range(0, mine.size, step):
                rows = mine[start : start + step]
                self._draw_alike(distance, values[rows, 1:], rows, out)

    def _draw_alike(self, distance: Distance, values: Numbers, rows: NDArray[Any], out: Pictures) -> None:
        """Pictures of one shape, each in a patch around its centre; the rest of the picture stays black."""
        scale, centres = values[:, 0], values[:, 2:] * self.resolution
        corners = np.clip(np.floor(centres - self._patch / 2 + 0.5), 0, self.resolution - self._patch)
        pixels = np.arange(self._patch) + 0.5
        unit = (self.resolution * scale)[:, None]
        right, down = ((corners[:, k : k + 1] - centres[:, k : k + 1] + pixels) / unit for k in (0, 1))
        radians = [math.radians(angle) for angle in values[:, 1].tolist()]
        # One at a time: numpy's own cosine may differ in the last bit with the place of a number in the array.
        cosine, sine = (np.array([f(angle) for angle in radians])[:, None] for f in (math.cos, math.sin))
        u = _outer(cosine * right, sine * down)
        v = _outer(-sine * right, cosine * down)
        coverage = 0.5 - distance(u, v) * unit.astype(np.float32)[:, :, None]
        patches = np.rint(np.clip(coverage, 0, 1) * 255).astype(np.uint8)
        for row, (left, top), patch in zip(rows.tolist(), corners.astype(int).tolist(), patches, strict=True):
            out[row, :, top : top + self._patch, left : left + self._patch] = patch


def _outer(along: Numbers, down: Numbers) -> Plane:
    return down.astype(np.float32)[:, :, None] + along.astype(np.float32)[:, None, :]


# Signed distances to the outlines at scale 1, negative inside; exact near the outline, which is where they are looked at.


def _square(u: Plane, v: Plane) -> Plane:
    half = np.float32(HALF_SIDE)
    return _box(np.abs(u) - half, np.abs(v) - half)


def _ellipse(u: Plane, v: Plane) -> Plane:
    """To first order: the implicit function over the length of its gradient."""
    p, q = u / LONG_AXIS, v / (FLATNESS * LONG_AXIS)
    level = p * p + q * q
    slope = np.sqrt((p / LONG_AXIS) ** 2 + (q / (FLATNESS * LONG_AXIS)) ** 2)
    inside: Plane = (level - 1) / np.maximum(2 * slope, np.float32(1e-6))
    return inside


def _heart(u: Plane, v: Plane) -> Plane:
    """A square that stands on its corner, and a disc about the middle of each of its upper sides."""
    diagonal = np.float32(1 / math.sqrt(2))
    p, q = (u - v) * diagonal + HEART_CENTROID, (-u - v) * diagonal + HEART_CENTROID
    half = np.float32(HEART_SIDE / 2)
    square = _box(np.abs(p - half) - half, np.abs(q - half) - half)
    discs = [np.sqrt((p - a) ** 2 + (q - b) ** 2) - half for a, b in ((2 * half, half), (half, 2 * half))]
    result: Plane = np.minimum(square, np.minimum(*discs))
    return result


def _box(across: Plane, along: Plane) -> Plane:
    """From the signed distances to the two pairs of sides."""
    outside = np.sqrt(np.maximum(across, 0) ** 2 + np.maximum(along, 0) ** 2)
    result: Plane = outside + np.minimum(np.maximum(across, along), 0)
    return result


DISTANCES: tuple[Distance, ...] = (_square, _ellipse, _heart)
