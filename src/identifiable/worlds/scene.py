"""One solid in the corner of a room: the factors of Shapes3D, ray-cast instead of stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identifiable.worlds.factor_grid import Factor, Numbers, Pictures, PictureWorld

SHAPES = ("cube", "cylinder", "sphere", "capsule")
SHAPES3D_SIZES = (10, 10, 10, 8, 4, 15)

# Lengths in room units; y points up, the floor is y = 0, the walls are x = -WALL and z = -WALL, and the solid stands at the
# origin. The camera goes round the origin on a circle; at orientation 0 it looks straight into the corner.
WALL = 3.0
CAMERA_DISTANCE, CAMERA_HEIGHT, LOOK_AT_HEIGHT = 6.0, 3.2, 1.1
HALF_VIEW = math.tan(math.radians(21))  # half the side of the picture at distance 1
TO_LIGHT = np.array([0.45, 0.8, 0.25], np.float32) / np.float32(math.sqrt(0.45**2 + 0.8**2 + 0.25**2))
AMBIENT = 0.4  # of full brightness; the rest is Lambert's cosine
# The cube stands along the walls, so its faces are lit as they are: in one hue it would vanish if the room were as bright.
DULL_FLOOR, DULL_WALL = 0.85, 0.75
SATURATION, BRIGHTNESS = 0.85, 1.0
HALF_CUBE, CYLINDER_RADIUS, HALF_CYLINDER = 0.75, 0.75, 0.9
SPHERE_RADIUS, CAPSULE_RADIUS, HALF_CAPSULE = 0.95, 0.65, 0.55
BALL_HEIGHT, BALL_RADIUS = (
    0.95,
    1.46,
)  # a ball around any of them: 1.45 to the capsule's top, 1.43 to the cube's corners

SUBPIXELS = 3  # rays along each side of a pixel
CACHE_BYTES = 2**27
BATCH_PIXELS = 2**16  # coloured at a time, so that what is in hand stays in the processor's cache
MATERIALS = 3  # floor, wall, object

Vectors = NDArray[np.float32]
Lengths = NDArray[np.float32]
Index = NDArray[np.intp]


class SceneWorld(PictureWorld):
    """Pictures of a room with a cube, a cylinder, a sphere or a capsule in it, its floor, walls and object coloured.

    Ours, after Shapes3D (Burgess and Kim 2018): the same factors in the same order and, by default, the same numbers of
    levels. Hues are turns of the colour circle, [0, 1); scale 0.75 to 1.25; orientation is the camera's, -30 to 30 degrees
    round the room. The light is fixed to the room: faces are shaded by Lambert's law, and the solid throws a shadow.

    Shapes, scales and orientations on a grid are cast once and kept (at most 128 MB), then only coloured. A continuous
    world casts every picture anew, which is some fifty times slower.

    Parameters
    ----------
    continuous
        Factors are real values, except the shape, and are drawn uniformly from their ranges.
    sizes
        Levels of each factor. One level holds the factor: red, the first shape, the middle of the other ranges.

    >>> world = SceneWorld(32)
    >>> world.grid.n, world.render([[0, 3, 6, 7, 2, 7]]).shape
    (480000, (1, 3, 32, 32))
    """

    channels = 3

    def __init__(self, resolution: int = 64, *, continuous: bool = False, sizes: Sequence[int] = SHAPES3D_SIZES):
        factors = (
            Factor("floor_hue", "continuous", 0.0, 1.0, closed=False),
            Factor("wall_hue", "continuous", 0.0, 1.0, closed=False),
            Factor("object_hue", "continuous", 0.0, 1.0, closed=False),
            Factor("scale", "continuous", 0.75, 1.25),
            Factor("shape", "categorical", 0, len(SHAPES) - 1),
            Factor("orientation", "continuous", -30.0, 30.0),
        )
        self._arrange(factors, sizes, resolution=resolution, continuous=continuous)
        self._camera = _camera_rays(self.resolution)
        each = MATERIALS * self.resolution**2 * np.dtype(np.float32).itemsize
        self._kept = lru_cache(maxsize=max(CACHE_BYTES // each, 1))(self._cast)

    def __reduce__(self) -> tuple[Any, ...]:  # the cache cannot be pickled, and need not be
        return _scene_again, (self.resolution, self.continuous, self.grid.sizes)

    def _draw(self, values: Numbers, out: Pictures) -> None:
        cast = self._cast if self.continuous else self._kept
        step = max(BATCH_PIXELS // self.resolution**2, 1)
        for start in range(0, len(values), step):
            rows = values[start : start + step]
            light = np.stack([cast(*row) for row in rows[:, 3:].tolist()])
            colours = _colours(rows[:, :MATERIALS])
            # Written out: a matrix product may round differently with the size of the batch.
            mixed = light[:, None, 0] * colours[:, 0, :, None, None]
            for m in range(1, MATERIALS):
                mixed += light[:, None, m] * colours[:, m, :, None, None]
            out[start : start + step] = np.rint(np.minimum(mixed * 255, 255))

    def _cast(self, scale: float, shape: float, orientation: float) -> NDArray[np.float32]:
        """How much light of each material reaches each pixel, (3, resolution, resolution)."""
        rays, solid = self._camera.turned(orientation), SOLIDS[int(shape)]
        distance, surface = _room(rays)
        brightness, material = FACES[surface], np.where(surface == FLOOR, 0, 1)
        floor = np.flatnonzero(surface == FLOOR)  # no shadow is long enough to reach a wall
        points = Rays(rays.chosen(floor).at(distance[floor]), TO_LIGHT[:, None])
        near = np.flatnonzero(points.pass_near(scale))
        shaded = np.isfinite(solid(points.chosen(near), scale).distance)
        brightness[floor[near[shaded]]] = AMBIENT * DULL_FLOOR
        near = np.flatnonzero(rays.pass_near(scale))
        hits = solid(rays.chosen(near), scale)
        seen = hits.distance < distance[near]
        brightness[near[seen]] = _lambert(hits.normal[:, seen])
        material[near[seen]] = 2
        light = np.empty((MATERIALS, self.resolution, self.resolution), np.float32)
        for m in range(MATERIALS):
            light[m] = (brightness * (material == m)).reshape(-1, *light[m].shape).mean(axis=0)
        light.setflags(write=False)
        return light


class Rays(NamedTuple):
    """Coordinates of origins and of directions, each (3, n); origins may be one for all, (3, 1)."""

    origin: Vectors
    direction: Vectors

    def turned(self, degrees: float) -> Rays:
        """About the upright axis."""
        cosine, sine = (np.float32(f(math.radians(degrees))) for f in (math.cos, math.sin))
        return Rays(*(np.stack([cosine * x + sine * z, y, cosine * z - sine * x]) for x, y, z in self))

    def chosen(self, which: Index) -> Rays:
        """Some of them."""
        return Rays(*(v if v.shape[1] == 1 else v.take(which, axis=1) for v in self))

    def at(self, distance: Lengths) -> Vectors:
        result: Vectors = self.origin + self.direction * distance
        return result

    def pass_near(self, scale: float) -> NDArray[np.bool_]:
        """Which of the lines meet a ball that holds any solid of that scale: the others need not be cast."""
        height, radius = np.float32(scale * BALL_HEIGHT), np.float32(scale * BALL_RADIUS)
        (x, y, z), (u, v, w) = self.origin, self.direction
        y = y - height
        along = x * u + y * v + z * w
        near: NDArray[np.bool_] = (x * x + y * y + z * z - radius * radius) * (u * u + v * v + w * w) <= along * along
        return near


class Hits(NamedTuple):
    """Where rays first meet a surface: the distance, infinite for none, and the unit normal there, (3, n)."""

    distance: Lengths
    normal: Vectors


def _scene_again(resolution: int, continuous: bool, sizes: tuple[int, ...]) -> SceneWorld:
    return SceneWorld(resolution, continuous=continuous, sizes=sizes)


def _camera_rays(resolution: int) -> Rays:
    """At orientation 0: through the first subpixel of every pixel, row by row from the top left, then the second, …"""
    diagonal = CAMERA_DISTANCE / math.sqrt(2)
    origin = np.array([diagonal, CAMERA_HEIGHT, diagonal])
    forward = np.array([0, LOOK_AT_HEIGHT, 0]) - origin
    forward /= math.sqrt(float((forward**2).sum()))
    right = np.array([1, 0, -1]) / math.sqrt(2)
    up = np.cross(right, forward)
    count = resolution * SUBPIXELS
    offsets = HALF_VIEW * ((2 * np.arange(count) + 1) / count - 1).reshape(resolution, SUBPIXELS).T
    layout = (SUBPIXELS, SUBPIXELS, resolution, resolution)
    across = np.broadcast_to(offsets[None, :, None, :], layout).reshape(-1)
    down = np.broadcast_to(offsets[:, None, :, None], layout).reshape(-1)
    direction = forward[:, None] + right[:, None] * across - up[:, None] * down
    return Rays(origin[:, None].astype(np.float32), direction.astype(np.float32))


def _room(rays: Rays) -> tuple[Lengths, Index]:
    """How far the floor or a wall is along each ray of the camera, which all meet one, and the axis it is normal to."""
    far = np.empty(rays.direction.shape, np.float32)
    with np.errstate(divide="ignore"):
        for axis, plane in enumerate((-WALL, 0.0, -WALL)):
            np.divide(np.float32(plane) - rays.origin[axis], rays.direction[axis], out=far[axis])
    far[far <= 0] = np.inf
    return far.min(axis=0), far.argmin(axis=0)


def _cube(rays: Rays, scale: float) -> Hits:
    """Between three pairs of planes: the last one entered is the face that is seen."""
    half = np.float32(scale * HALF_CUBE)
    centre = np.array([[0], [half], [0]], np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = (centre - rays.origin - np.copysign(half, rays.direction)) / rays.direction
        last = (centre - rays.origin + np.copysign(half, rays.direction)) / rays.direction
    axis = first.argmax(axis=0)
    enter = first.max(axis=0)
    normal = np.where(np.arange(3)[:, None] == axis, -np.sign(rays.direction), np.float32(0))
    missed = (enter > last.min(axis=0)) | (enter <= 0)
    return Hits(np.where(missed, np.float32(np.inf), enter), normal)


def _cylinder(rays: Rays, scale: float) -> Hits:
    """Its side, and its top. The bottom is on the floor, where nothing sees it."""
    radius, height = np.float32(scale * CYLINDER_RADIUS), np.float32(scale * 2 * HALF_CYLINDER)
    side = _upright(rays, radius, np.float32(0), height)
    with np.errstate(divide="ignore", invalid="ignore"):
        top = (height - rays.origin[1]) / rays.direction[1]
        x, _, z = rays.at(top)
        on_top = (rays.direction[1] < 0) & (x * x + z * z <= radius * radius) & (top > 0)
    normal = np.where(on_top, np.array([[0], [1], [0]], np.float32), side.normal)
    return Hits(np.where(on_top, top, side.distance), normal)


def _sphere(rays: Rays, scale: float) -> Hits:
    radius = np.float32(scale * SPHERE_RADIUS)
    return _ball(rays, radius, radius)


def _capsule(rays: Rays, scale: float) -> Hits:
    """A cylinder between two balls."""
    radius, length = np.float32(scale * CAPSULE_RADIUS), np.float32(scale * 2 * HALF_CAPSULE)
    side = _upright(rays, radius, radius, radius + length)
    return _nearer(side, _nearer(_ball(rays, radius, radius), _ball(rays, radius, radius + length)))


def _nearer(a: Hits, b: Hits) -> Hits:
    first = a.distance < b.distance
    return Hits(np.where(first, a.distance, b.distance), np.where(first, a.normal, b.normal))


SOLIDS: tuple[Callable[[Rays, float], Hits], ...] = (_cube, _cylinder, _sphere, _capsule)


def _upright(rays: Rays, radius: np.float32, low: np.float32, high: np.float32) -> Hits:
    """The side of an upright cylinder between two heights."""
    distance = _round_surface(rays, radius, (0, 2), (np.float32(0), np.float32(0)))
    with np.errstate(invalid="ignore"):  # infinity times zero, where there is none
        x, y, z = rays.at(distance)
        distance = np.where((y >= low) & (y <= high), distance, np.float32(np.inf))
    normal = np.stack([x, np.zeros_like(x), z]) / radius
    return Hits(distance, np.where(np.isfinite(distance), normal, np.float32(0)))


def _ball(rays: Rays, radius: np.float32, height: np.float32) -> Hits:
    distance = _round_surface(rays, radius, (0, 1, 2), (np.float32(0), height, np.float32(0)))
    with np.errstate(invalid="ignore"):
        x, y, z = rays.at(distance)
        normal = np.stack([x, y - height, z]) / radius
    return Hits(distance, np.where(np.isfinite(distance), normal, np.float32(0)))


def _round_surface(
    rays: Rays, radius: np.float32, axes: tuple[int, ...], centre: tuple[np.float32, ...]
) -> NDArray[np.float32]:
    """The nearer solution of |origin + t direction - centre| = radius over some of the axes; infinite for none ahead."""
    a: Any = sum(rays.direction[k] * rays.direction[k] for k in axes)
    b: Any = sum(rays.direction[k] * (rays.origin[k] - c) for k, c in zip(axes, centre, strict=True))
    c: Any = sum((rays.origin[k] - c) ** 2 for k, c in zip(axes, centre, strict=True)) - radius * radius
    under = b * b - a * c
    near = (-b - np.sqrt(np.maximum(under, 0))) / a
    return np.where((under > 0) & (near > 0), near, np.float32(np.inf))


def _lambert(normal: Vectors) -> Lengths:
    cosine = normal[0] * TO_LIGHT[0] + normal[1] * TO_LIGHT[1] + normal[2] * TO_LIGHT[2]
    result: Lengths = np.float32(AMBIENT) + np.float32(1 - AMBIENT) * np.maximum(cosine, 0)
    return result


FLOOR = 1  # the axis it is normal to
FACES = _lambert(np.eye(3, dtype=np.float32)) * np.array([DULL_WALL, DULL_FLOOR, DULL_WALL], np.float32)


def _colours(hues: Numbers) -> NDArray[np.float32]:
    """Red, green and blue of each hue, (n, hues, 3), as HSV defines them."""
    sixths = np.mod(hues[:, :, None] * 6 + np.array([5, 3, 1]), 6)
    fall = SATURATION * np.clip(np.minimum(sixths, 4 - sixths), 0, 1)
    result: NDArray[np.float32] = (BRIGHTNESS * (1 - fall)).astype(np.float32)
    return result
