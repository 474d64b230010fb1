"""The exact diameter: equal to float64 brute force whatever the data, the workers and the blocks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from errors import naming
from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.diameter import Diameter, diameter, tuning
from identifiable.diameter.candidates import Candidates
from identifiable.diameter.search import Search, tree_bounds, tree_order

Table = NDArray[Any]


def brute_force(table: Table) -> tuple[float, set[tuple[int, int]]]:
    """Largest distance and every pair of rows that attains it, in float64 from the values as they are."""
    rows = table.astype(np.float64)
    distances = np.triu(cdist(rows, rows))
    value = float(distances.max())
    return value, set(zip(*(x.tolist() for x in np.nonzero(distances >= value * (1 - 1e-15))), strict=True))


def distance(table: Table, rows: tuple[int, int]) -> float:
    gap = table[rows[0]].astype(np.float64) - table[rows[1]].astype(np.float64)
    return float(np.linalg.norm(gap))


def assert_exact(table: Table, found: Diameter) -> None:
    value, pairs = brute_force(table)
    assert found.value == pytest.approx(value, rel=1e-14)
    assert distance(table, found.rows) == pytest.approx(value, rel=1e-14)
    assert found.rows[0] < found.rows[1] or len(table) == 1
    assert found.rows in pairs


def heavy_tails(n: int, d: int, rng: np.random.Generator) -> Table:
    return rng.standard_t(2, (n, d))


def gauss(n: int, d: int, rng: np.random.Generator) -> Table:
    return rng.standard_normal((n, d))


def decaying(n: int, d: int, rng: np.random.Generator) -> Table:
    rows: Table = rng.standard_normal((n, d)) * np.logspace(0, -3, d) @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    return rows


def sphere(n: int, d: int, rng: np.random.Generator) -> Table:
    rows: Table = rng.standard_normal((n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def off_centre(n: int, d: int, rng: np.random.Generator) -> Table:
    return rng.standard_normal((n, d)) + 1e4


def one_outlier(n: int, d: int, rng: np.random.Generator) -> Table:
    rows = rng.standard_normal((n, d))
    rows[n // 3] *= 1e12
    return rows


def skewed(n: int, d: int, rng: np.random.Generator) -> Table:
    return rng.exponential(size=(n, d)) ** 3


def collinear(n: int, d: int, rng: np.random.Generator) -> Table:
    return rng.standard_normal((n, 1)) * rng.standard_normal(d) + 3


def two_clusters(n: int, d: int, rng: np.random.Generator) -> Table:
    return 10 * rng.standard_normal((2, d))[rng.integers(0, 2, n)] + rng.standard_normal((n, d))


def near_copies(n: int, d: int, rng: np.random.Generator) -> Table:
    """Two clusters that float32 cannot resolve."""
    return rng.standard_normal((2, d))[rng.integers(0, 2, n)] + 1e-10 * rng.standard_normal((n, d))


KINDS = [heavy_tails, gauss, decaying, sphere, off_centre, one_outlier, skewed, collinear, two_clusters, near_copies]


@pytest.fixture(params=["plain", "arranged", "streamed"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make small data take the ways that large data take: trees and principal axes, or rows that are never kept."""
    if request.param != "plain":
        monkeypatch.setattr(tuning, "TREE_COST", 0.0)
        monkeypatch.setattr(tuning, "KEEP_COST", 0.0)  # and so nothing is settled before it comes to that
        monkeypatch.setattr(tuning, "TILE", 128)
        monkeypatch.setattr(tuning, "LEAF", 32)
        monkeypatch.setattr(tuning, "AXIS_COST", 1.0)
        monkeypatch.setattr(tuning, "STREAMED_ROWS", 512)
    if request.param == "streamed":
        monkeypatch.setattr(tuning, "CACHE_VALUES", 0)
    return str(request.param)


@pytest.mark.parametrize("d", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("make", KINDS)
def test_diameter_equals_brute_force(make: Callable[..., Table], d: int, path: str) -> None:
    table = make(1100, d, np.random.default_rng(d))
    assert_exact(table, diameter(table))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64])
def test_diameter_equals_brute_force_in_every_dtype(dtype: type, path: str) -> None:
    table: Table = (np.random.default_rng(2).standard_normal((1200, 16)) * 10 + 40).astype(dtype)
    assert_exact(table, diameter(table))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("d", [1, 2, 3, 64])
def test_diameter_of_a_few_rows(n: int, d: int) -> None:
    table = np.random.default_rng(3).standard_normal((n, d))
    found = diameter(table)
    assert_exact(table, found)
    assert (found.value == 0) == (n == 1)


def test_diameter_of_equal_rows_is_zero_until_one_differs(path: str) -> None:
    table = np.full((3000, 5), 0.1, np.float32)
    assert diameter(table).value == 0
    assert diameter(table, center=np.full(5, 0.3)).value == 0
    table[2000, 3] = np.nextafter(np.float32(0.1), np.float32(1))
    found = diameter(table)
    assert found.rows == (0, 2000)
    assert found.value == float(table[2000, 3]) - float(table[0, 3])


@pytest.mark.parametrize("scale", [1e-20, 1e20, 1e-38, 1e36])
def test_diameter_does_not_overflow_or_underflow_in_float32(scale: float) -> None:
    table = (np.random.default_rng(4).standard_normal((800, 10)) * scale).astype(np.float32)
    assert_exact(table, diameter(table))


@pytest.mark.parametrize("power", [-1000, -600, 600, 1000])
def test_diameter_scales_exactly_by_powers_of_two(power: int) -> None:
    table = np.random.default_rng(5).standard_normal((800, 10))
    there, here = diameter(np.ldexp(table, power)), diameter(table)
    assert there.rows == here.rows
    assert there.value == np.ldexp(here.value, power)
    assert diameter(np.ldexp(table, power) * 1.5).value != there.value


def test_a_row_on_a_far_smaller_scale_than_the_sample_is_not_lost() -> None:
    table = np.zeros((5000, 4))
    table[7, 2], table[4001, 2] = 1e-200, -2e-200  # not among the evenly spaced rows that set the first scale
    found = diameter(table)
    assert found.rows == (7, 4001)
    assert found.value == pytest.approx(3e-200, rel=1e-15)


def test_ties_go_to_the_first_pair_in_row_order(path: str) -> None:
    grid = np.stack(np.meshgrid(*[np.arange(4)] * 5, indexing="ij"), -1).reshape(-1, 5)
    shuffled = grid[np.random.default_rng(6).permutation(len(grid))]
    value, pairs = brute_force(shuffled)
    assert len(pairs) == 2**4
    found = diameter(shuffled)
    assert (found.value, found.rows) == (value, min(pairs))


@pytest.mark.parametrize("make", [heavy_tails, gauss, sphere])
@pytest.mark.parametrize("d", [2, 3, 24])
def test_diameter_does_not_depend_on_workers_blocks_or_center(make: Callable[..., Table], d: int, path: str) -> None:
    rng = np.random.default_rng(9)
    table = make(2500, d, rng).astype(np.float32)
    found = diameter(Blocks(table), workers=1)
    for rows, workers in ((100, 1), (None, 2), (777, 3)):
        assert diameter(Blocks(table, rows=rows), workers=workers) == found
    for center in (table.mean(axis=0), table[0], np.full(d, 1e3), np.full(d, np.nan)):
        moved = diameter(table, center=center)
        assert (moved.value, moved.rows) == (found.value, found.rows)


def test_few_pairs_are_looked_at_when_tails_are_heavy_and_all_when_rows_are_equally_far() -> None:
    rng = np.random.default_rng(13)
    pairs = 20_000 * 19_999 / 2
    easy, hard = heavy_tails(20_000, 32, rng), sphere(20_000, 32, rng)
    assert diameter(easy).evaluated < 0.002 * pairs
    assert diameter(hard).evaluated > 0.5 * pairs


@pytest.mark.parametrize("d", [2, 3])
def test_trees_leave_out_most_pairs_of_a_circle_and_of_a_sphere(d: int) -> None:
    found = diameter(sphere(40_000, d, np.random.default_rng(14)))
    assert found.evaluated < 0.1 * 40_000 * 39_999 / 2


def screened(
    table: Table, step: int, keep: bool, monkeypatch: pytest.MonkeyPatch
) -> tuple[Candidates, NDArray[np.float64]]:
    """All rows as candidates turned to principal axes in an arbitrary order, and their true distances in float64."""
    n, d = table.shape
    monkeypatch.setattr(Search, "_cheapest", lambda *_: step)
    with ThreadPoolExecutor(1) as pool:
        search = Search(Blocks(table), None, 1, pool, None)
        radius = search._radii(search.frame)
        store = np.empty((n, d + 3), np.float32) if keep else None
        near = search.frame.near(table)
        if store is not None:
            store[:, :d] = near
        c = Candidates(search.frame, np.arange(n), radius, 0.0, store)
        search._turn(c)
    order = np.random.default_rng(18).permutation(n)
    c.arrange(order)
    rows = near[order].astype(np.float64)
    return c, cdist(rows, rows)


def screen_excess(c: Candidates, distances: NDArray[np.float64]) -> float:
    """By how much the screens stay above half the squared distance, at the pair and step where it is least."""
    everyone = np.arange(len(c))
    least = np.inf
    for step in range(len(c.ladder)):
        bound = c.left(c.heads(everyone), everyone, step) @ c.right(slice(None), step).T
        least = min(least, float((bound - distances**2 / 2).min()))
    return least


WAYS = pytest.mark.parametrize(("step", "keep"), [(0, True), (12, True), (0, False), (12, False), (16, True)])


@WAYS
@pytest.mark.parametrize("make", KINDS)
def test_screens_are_never_below_the_distance(
    make: Callable[..., Table], step: int, keep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(600, 64, np.random.default_rng(17))
    c, distances = screened(table, min(step, 15), keep, monkeypatch)
    assert (c.axes is None) == (step == 16)  # the last step asks for all axes: rows stay as they are
    assert screen_excess(c, distances) >= 0
    if keep:
        i, j = np.triu_indices(len(c), 1)
        at = np.random.default_rng(19).choice(len(i), 200, replace=False)
        for pair in at:
            assert c.far_apart(i[pair : pair + 1], j[pair : pair + 1], float(distances[i[pair], j[pair]])).all()


def test_the_law_of_the_screens_fails_without_room_for_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "UNIT", -(2.0**-16))
    c, distances = screened(sphere(600, 64, np.random.default_rng(17)), 15, True, monkeypatch)
    assert screen_excess(c, distances) < 0


@pytest.mark.parametrize("d", [2, 3, 8, 64])
@pytest.mark.parametrize("make", KINDS)
def test_bounds_between_leaves_are_never_below_the_distance(
    make: Callable[..., Table], d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(700, d, np.random.default_rng(20))
    c, distances = screened(table, 0, True, monkeypatch)
    step = int(np.flatnonzero(c.ladder <= tuning.TREE_AXES)[-1])
    heads = np.ascontiguousarray(c.heads(np.arange(len(c)))[:, : c.ladder[step]])
    order = tree_order(heads, 16)
    assert sorted(order.tolist()) == list(range(len(c)))
    bounds = tree_bounds(heads[order], c.tails[order, step], c.radius[order], 16, c.turning)
    starts = np.arange(0, len(c), 16)
    ordered = distances[np.ix_(order, order)]
    farthest = np.maximum.reduceat(np.maximum.reduceat(ordered, starts, axis=0), starts, axis=1)
    assert (bounds >= farthest).all()
    if make is sphere and d <= 3:  # and they are of use: most leaves of a circle or sphere are seen to be near
        assert np.median(bounds) < 0.95 * farthest.max()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_counted_and_named(bad: float) -> None:
    table = np.random.default_rng(15).standard_normal((9000, 3)).astype(np.float32)
    table[[17, 18, 4000, 8999], [0, 1, 2, 0]] = bad
    with pytest.raises(DataError, match=naming("run1.npy: ", 4, 9000, "17, 18, 4000")):
        diameter(Blocks(table, name="run1.npy"))
    with pytest.raises(DataError, match=naming(1, 9000, 17)):
        diameter(np.where(np.arange(9000)[:, None] == 17, bad, 1.0))
    with pytest.raises(UsageError, match=naming("3 columns", "(2,)")):
        diameter(np.zeros((4, 3)), center=[0.0, 0.0])
