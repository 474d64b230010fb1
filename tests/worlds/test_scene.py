"""worlds.sprites and worlds.scene: pictures follow their factors, one by one, smoothly, and depend on nothing else."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable.worlds import FactorGrid, PictureWorld, SceneWorld, SpriteWorld, scene

SEED = 20260117


def worlds(resolution: int = 32, *, continuous: bool = False) -> list[PictureWorld]:
    return [SpriteWorld(resolution, continuous=continuous), SceneWorld(resolution, continuous=continuous)]


def centroids(pictures: NDArray[np.uint8]) -> NDArray[np.float64]:
    """(n, 2): across and down, in pixels from the picture's edge."""
    mass = pictures[:, 0].astype(np.float64)
    place = np.arange(mass.shape[1]) + 0.5
    total = mass.sum(axis=(1, 2))
    return np.stack([(mass.sum(axis=axis) * place).sum(axis=1) / total for axis in (1, 2)], axis=1)


# -- the grid


def test_the_grid_counts_row_by_row_with_the_first_factor_slowest() -> None:
    grid = FactorGrid(("a", "b", "c"), (2, 3, 2))
    assert grid.n == 12
    expected = list(itertools.product(range(2), range(3), range(2)))
    assert grid.codes(np.arange(12)).tolist() == [list(code) for code in expected]
    assert grid.index(expected).tolist() == list(range(12))
    assert grid.codes([]).shape == (0, 3)
    column_major = [code[::-1] for code in itertools.product(range(2), range(3), range(2))]
    assert column_major != expected


# -- both worlds


def test_the_default_grids_are_those_of_the_published_sets() -> None:
    sprites, scenes = SpriteWorld(), SceneWorld()
    assert (sprites.names, sprites.grid.sizes) == (("shape", "scale", "orientation", "x", "y"), (3, 6, 40, 32, 32))
    assert scenes.names == ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation")
    assert scenes.grid.sizes == (10, 10, 10, 8, 4, 15)
    assert [k for k, kind in enumerate(sprites.kinds) if kind == "categorical"] == [0]
    assert [k for k, kind in enumerate(scenes.kinds) if kind == "categorical"] == [4]


@pytest.mark.parametrize("world", worlds() + worlds(continuous=True), ids=lambda w: f"{type(w).__name__}")
def test_a_picture_does_not_depend_on_its_batch(world: PictureWorld) -> None:
    pictures, factors = world.sample(70, np.random.default_rng(SEED))
    assert pictures.shape == (70, 3, 32, 32)
    assert pictures.dtype == np.uint8
    for start, stop in ((0, 1), (33, 34), (5, 28), (0, 70)):
        np.testing.assert_array_equal(world.render(factors[start:stop]), pictures[start:stop])
    np.testing.assert_array_equal(world.render(factors[::-1]), pictures[::-1])
    assert not np.array_equal(pictures[0], pictures[1])


@pytest.mark.parametrize("world", worlds(), ids=lambda w: type(w).__name__)
def test_different_codes_show_different_pictures(world: PictureWorld) -> None:
    rng = np.random.default_rng(SEED)
    codes = world.grid.codes(rng.integers(0, world.grid.n, 60))
    for j, size in enumerate(world.grid.sizes):  # the next level of one factor, the hardest to tell
        other = codes.copy()
        other[:, j] = (other[:, j] + 1) % size
        changed = (world.render(codes) != world.render(other)).any(axis=(1, 2, 3))
        assert changed.all(), world.names[j]
    assert len({picture.tobytes() for picture in world.render(codes)}) == len({tuple(code) for code in codes.tolist()})


@pytest.mark.parametrize("scale", [0, 5])
@pytest.mark.parametrize("shape", [0, 1, 2])
def test_every_orientation_of_every_sprite_is_its_own_but_not_over_a_whole_turn(shape: int, scale: int) -> None:
    codes = np.array([[shape, scale, k, 16, 16] for k in range(40)])

    def different(world: SpriteWorld) -> int:
        return len({picture.tobytes() for picture in world.render(codes)})

    assert different(SpriteWorld(32, channels=1)) == 40
    repeats = different(SpriteWorld(64, channels=1, turn=360))
    assert repeats == 40 if shape == 2 else repeats < 40  # a square comes back 4 times, an ellipse twice, a heart never


@pytest.mark.parametrize("resolution", [16, 32])
def test_a_continuous_world_equals_the_grid_where_their_values_coincide(resolution: int) -> None:
    rng = np.random.default_rng(SEED)
    for gridded, continuous in zip(worlds(resolution), worlds(resolution, continuous=True), strict=True):
        index = rng.integers(0, gridded.grid.n, 20)
        codes = gridded.grid.codes(index)
        pictures = gridded.render(codes)
        np.testing.assert_array_equal(continuous.render(gridded.values(codes)), pictures)
        np.testing.assert_array_equal(continuous.render_index(index), pictures)
        np.testing.assert_array_equal(gridded.render_index(index), pictures)
        between = gridded.values(codes)
        middle = (gridded.factors[3].low + gridded.factors[3].high) / 2
        between[:, 3] = (between[:, 3] + middle) / 2  # x of a sprite, scale of a scene
        assert not np.array_equal(continuous.render(between), pictures)


@pytest.mark.parametrize("continuous", [False, True])
def test_samples_cover_the_ranges_and_a_factor_with_one_level_stays(continuous: bool) -> None:
    world = SpriteWorld(16, channels=1, continuous=continuous, sizes=(3, 6, 1, 32, 32))
    pictures, factors = world.sample(500, np.random.default_rng(SEED))
    again, same = world.sample(500, np.random.default_rng(SEED))
    np.testing.assert_array_equal(pictures, again)
    np.testing.assert_array_equal(factors, same)
    values = factors if continuous else world.values(factors)
    assert set(values[:, 0]) == {0, 1, 2}
    assert set(values[:, 2]) == {0}
    assert (len(np.unique(values[:, 3])) > 400) == continuous
    np.testing.assert_allclose([values[:, 3].min(), values[:, 3].max()], [0.2, 0.8], atol=0.01)
    assert abs(np.corrcoef(values[:, [0, 1, 3, 4]], rowvar=False)[np.triu_indices(4, 1)]).max() < 0.15


# -- sprites


@pytest.mark.parametrize("shape", [0, 1, 2])
def test_the_area_grows_with_the_square_of_the_scale_and_is_that_of_every_shape(shape: int) -> None:
    world = SpriteWorld(64, channels=1)
    codes = np.array([[shape, scale, 7, 16, 16] for scale in range(6)])
    area = world.render(codes).sum(axis=(1, 2, 3)) / 255 / 64**2
    np.testing.assert_allclose(area, 0.26**2 * world.values(codes)[:, 1] ** 2, rtol=0.02)
    other = world.render([[shape, 5, 7, 3, 20], [shape, 5, 30, 31, 31]]).sum(axis=(1, 2, 3)) / 255 / 64**2
    np.testing.assert_allclose(other, area[5], rtol=0.01)  # wherever it is, however turned: nothing is cut off


@pytest.mark.parametrize("shape", [0, 1, 2])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_centroid_follows_x_and_y_to_a_fiftieth_of_a_pixel_which_hard_edges_do_not(shape: int, axis: int) -> None:
    world = SpriteWorld(32, channels=1, continuous=True)
    values = np.tile([shape, 0.8, 20.0, 0.5, 0.5], (41, 1))
    values[:, 3 + axis] = np.linspace(0.2, 0.8, 41)
    pictures = world.render(values)

    def error(shown: NDArray[np.uint8]) -> float:
        return float(abs(centroids(shown) - values[:, 3:] * 32).max())

    assert error(pictures) < 0.02
    assert error(np.where(pictures >= 128, 255, 0).astype(np.uint8)) > 0.05


def test_three_channels_are_equal_and_one_is_the_same() -> None:
    codes = np.array([[2, 5, 3, 4, 5]])
    colour, grey = SpriteWorld(32).render(codes), SpriteWorld(32, channels=1).render(codes)
    assert grey.shape == (1, 1, 32, 32)
    np.testing.assert_array_equal(colour, np.repeat(grey, 3, axis=1))
    assert colour.max() == 255
    assert colour.min() == 0
    assert 0 < ((colour > 0) & (colour < 255)).mean() < 0.2  # an edge, and only that, is grey


# -- the scene


def changed(world: SceneWorld, factor: int, code: list[int]) -> NDArray[np.bool_]:
    """Which pixels change with another level of one factor."""
    other = list(code)
    other[factor] = (other[factor] + 5) % world.grid.sizes[factor]
    a, b = world.render([code, other])
    return np.asarray((a != b).any(axis=0))


@pytest.mark.parametrize("shape", range(4))
def test_a_hue_changes_the_pixels_of_its_surface_and_no_others(shape: int) -> None:
    world = SceneWorld(64)
    code = [1, 3, 6, 6, shape, 4]
    floor, wall, solid = (changed(world, factor, code) for factor in range(3))
    parts = floor.astype(int) + wall + solid
    assert parts.min() == 1  # every pixel has a colour
    assert (parts > 1).mean() < 0.1  # and only edges have two
    assert 0.02 < solid.mean() < 0.4
    rows, columns = np.nonzero(solid)
    assert abs(columns.mean() - 31.5) < 1  # the camera looks at it
    assert rows.min() > 4
    assert rows.max() < 60
    assert not solid[:, :8].any()
    assert wall[0].all()  # above
    assert floor[-1].all()  # below


def test_the_solid_grows_with_its_scale_and_hides_what_is_behind_it() -> None:
    world = SceneWorld(64)
    for shape in range(4):
        areas = [changed(world, 2, [0, 3, 6, scale, shape, 7]).sum() for scale in range(8)]
        assert (np.diff(areas) > 0).all()
        inside = changed(world, 2, [0, 3, 6, 7, shape, 7]) & ~changed(world, 0, [0, 3, 6, 7, shape, 7])
        assert not (inside & changed(world, 1, [0, 3, 6, 7, shape, 7])).all()
        assert inside.sum() > 100


def test_the_corner_of_the_room_moves_with_the_camera() -> None:
    world = SceneWorld(64)
    pictures = world.render([[0, 3, 6, 0, 2, k] for k in range(15)])
    top = pictures[:, :, 0].sum(axis=1).astype(int)  # the wall alone: its two sides differ in brightness
    corner = abs(np.diff(top, axis=1)).argmax(axis=1)
    assert (np.diff(corner) > 0).all()
    assert abs(corner[7] - 31) <= 1  # straight ahead in the middle


def test_hues_are_those_of_hsv() -> None:
    import colorsys

    hues = np.linspace(0, 0.99, 23)
    ours = scene._colours(np.tile(hues[:, None], (1, 3)))
    for k, hue in enumerate(hues):
        expected = colorsys.hsv_to_rgb(hue, scene.SATURATION, scene.BRIGHTNESS)
        np.testing.assert_allclose(ours[k], np.tile(expected, (3, 1)), atol=1e-6)
    assert abs(ours[0] - ours[5]).max() > 0.1


def test_a_small_cache_shows_the_same_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SceneWorld(16)
    monkeypatch.setattr(scene, "CACHE_BYTES", 2 * 3 * 16 * 16 * 4)
    small = SceneWorld(16)
    for world in (whole, small):
        pictures, codes = world.sample(40, np.random.default_rng(SEED))
        np.testing.assert_array_equal(small.render(codes[::-1]), pictures[::-1])
    assert small._kept.cache_info().currsize == 2
    assert whole._kept.cache_info().currsize > 20


def test_nothing_that_could_be_seen_lies_outside_the_ball_that_is_cast() -> None:
    for shape, solid in enumerate(scene.SOLIDS):
        rays = scene._camera_rays(48).turned(11.0)
        hit = np.isfinite(solid(rays, 1.25).distance)
        assert hit.sum() > 100
        assert rays.pass_near(1.25)[hit].all(), scene.SHAPES[shape]
        assert not rays.pass_near(0.3)[hit].all()


def test_a_scene_survives_pickling() -> None:
    world = SceneWorld(16, continuous=True, sizes=(2, 3, 4, 5, 2, 6))
    again = pickle.loads(pickle.dumps(world))
    index = np.arange(0, world.grid.n, 97)
    np.testing.assert_array_equal(again.render_index(index), world.render_index(index))
    assert again.continuous
    assert again.grid == world.grid


# -- what is refused

GRID = FactorGrid(("hue", "x"), (2, 3))
GRIDDED, FREE = SpriteWorld(16), SpriteWorld(16, continuous=True)


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        *((lambda sizes=sizes: FactorGrid(("a", "b"), sizes), "factors: ") for sizes in ((2,), (2, 0), (2, 1.5))),
        (lambda: GRID.codes([0, 6]), "index: .*0 to 5, got 0 to 6"),
        (lambda: GRID.codes([-1]), "index: .*0 to 5, got -1 to -1"),
        (lambda: GRID.codes([0.0]), "got float64"),
        (lambda: GRID.codes(3), "got int64"),
        (lambda: GRID.index([[0, 3]]), "x .*0 to 2, got 3 to 3"),
        (lambda: GRID.index([[0, 0, 0]]), r"\(n, 2\).*hue, x, got int64 .*\(1, 3\)"),
        (lambda: GRIDDED.render([[0, 6, 0, 0, 0]]), "scale .*0 to 5, got 6 to 6"),
        (lambda: GRIDDED.render([[0, 0.5, 0, 0, 0]]), "whole numbers"),
        (lambda: GRIDDED.sample(-1, np.random.default_rng(SEED)), "n: "),
        (lambda: FREE.render([[0, 0.4, 0, 0.5, 0.5]]), "scale .*0.5 to 1, got 0.4 to 0.4"),
        (lambda: FREE.render([[0, 0.5, 0, np.nan, 0.5]]), "x .*0.2 to 0.8, got nan"),
        (lambda: FREE.render([[0.5, 0.5, 0, 0.5, 0.5]]), "shape is categorical"),
        (lambda: FREE.render([0, 0.5, 0, 0.5, 0.5]), r"shape \(n, 5\)"),
        (lambda: SpriteWorld(resolution=3), "resolution: .*4"),
        (lambda: SpriteWorld(channels=2), "channels: .*1 or 3"),
        (lambda: SpriteWorld(sizes=(4, 1, 1, 1, 1)), "3 for shape, got 4"),
        (lambda: SpriteWorld(sizes=(3, 1)), "size"),
        (lambda: SpriteWorld(turn=400), "turn: "),
    ],
)
def test_factors_and_worlds_that_cannot_be_are_refused(call: Any, parts: str) -> None:
    FREE.render([[0, 0.5, 0, 0.5, 0.5]])
    with pytest.raises(UsageError, match=parts):
        call()
