"""Nearest neighbours: exact against brute force, chance, permutations, and near copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from identifiable import neighbours as searching
from identifiable.blocks import Blocks, one_blas_thread
from identifiable.groups import haar_rotation
from identifiable.identifiability import neighbours
from identifiable.identifiability.neighbours import (
    AS_GIVEN,
    Closeness,
    Index,
    Neighbourhood,
    cknna,
    closeness,
    compare_neighbours,
    overlap_of,
)
from identifiable.moments import Array
from identifiable.results import Neighbours
from identifiable.run import Run

K = 10


@pytest.fixture(autouse=True)
def blas_limited_once() -> Iterator[None]:
    """Finding the BLAS libraries takes milliseconds, and here hundreds of small searches run."""
    with one_blas_thread():
        yield


def brute_lists(queries: Array, rows: Array, k: int) -> Index:
    """By differences, one query at a time; equal distances go to the lower index."""
    lists = []
    for i, q in enumerate(queries):
        distances = np.square(rows - q).sum(axis=1)
        distances[i] = np.inf
        lists.append(np.sort(np.argsort(distances, kind="stable")[:k]))
    return np.array(lists)


def brute_overlap(left: Index, right: Index) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(a) for a, b in zip(left.tolist(), right.tolist(), strict=True)]))


def compared(x: Array, y: Array, *, draws: int = 0, seed: int = 0, **images: Array) -> Neighbours:
    rng = np.random.default_rng(seed)
    shuffles = [rng.permutation(len(x)) for _ in range(draws)]
    source, target = (Neighbourhood.of(side, run=Run(workers=1)) for side in (x, y))
    return compare_neighbours(source, target, images, {}, shuffles=shuffles, run=Run(workers=1))[0]


def test_overlap_does_not_depend_on_how_many_rows_are_compared_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, queries = np.random.default_rng(3).standard_normal((2, 600, 40))
    agreement = compared(rows, queries)
    monkeypatch.setattr(searching, "_COMPARED", 7 * K**2)  # seven rows of lists at a time
    monkeypatch.setattr(neighbours, "_BLOCK", 37)
    assert compared(rows, queries) == agreement


def test_overlap_is_that_of_brute_force_as_given_and_after_a_map() -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((500, 6)) * [5, 3, 2, 1, 1, 1]
    turn = haar_rotation(6, rng)
    y = 3 * x @ turn + 0.4 * rng.standard_normal((500, 6)) + 7
    image = 3 * x @ turn + 7
    found = compared(x, y, similarity=image)
    near_x, near_y = brute_lists(x, x, K), brute_lists(y, y, K)
    own = (x - x.mean(axis=0)) * np.sqrt(y.var(axis=0).sum() / x.var(axis=0).sum()) + y.mean(axis=0)
    assert (found.k, found.rows) == (K, 500)
    assert found.mutual.value == pytest.approx(brute_overlap(near_x, near_y))
    assert found.searched["similarity"].value == pytest.approx(brute_overlap(brute_lists(image, y, K), near_y))
    assert found.searched[AS_GIVEN].value == pytest.approx(brute_overlap(brute_lists(own, y, K), near_y))
    # The rotation carries rows to their neighbours; without it they arrive elsewhere.
    assert found.searched["similarity"].value > 0.8 > 0.4 > found.searched[AS_GIVEN].value


def test_units_rotation_and_offset_of_a_side_move_no_mutual_overlap() -> None:
    rng = np.random.default_rng(5)
    x, noise = rng.standard_normal((2, 400, 5))
    y = x + 0.3 * noise
    before, after = compared(x, y), compared(40 * x @ haar_rotation(5, rng) - 9, 0.01 * y)
    assert after.mutual == before.mutual
    assert after.cknna == pytest.approx(before.cknna)
    scaled = compared(1000 * x, y)
    assert scaled.searched == before.searched


def test_different_widths_have_mutual_overlap_and_searches_by_maps_only() -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((300, 7))
    there, back = compare_neighbours(
        Neighbourhood.of(x), Neighbourhood.of(x[:, :4]), {"linear": x[:, :4]}, {}, shuffles=[]
    )
    assert list(there.searched) == ["linear"]
    assert there.searched["linear"].value == 1.0
    assert back.searched == {}
    assert there.mutual == back.mutual
    assert there.null == {}


def test_overlap_falls_as_more_rows_are_searched() -> None:
    rng = np.random.default_rng(8)
    x = rng.standard_normal((1600, 8))
    y = x + 0.5 * rng.standard_normal(x.shape)
    values = [compared(x[:n], y[:n]).mutual.value for n in (100, 400, 1600)]
    assert values[0] > values[1] > values[2]


def test_unrelated_sides_overlap_as_chance_says() -> None:
    rng = np.random.default_rng(9)
    x, y = rng.standard_normal((2, 800, 6))
    found = compared(x, y, draws=99, mean=np.zeros_like(y))
    assert found.mutual.chance == K / 799
    assert found.mutual.value == pytest.approx(found.mutual.chance, abs=0.004)
    assert found.null["mutual"].mean == pytest.approx(K / 799, rel=0.05)
    assert min(found.null[name].p for name in ("mutual", "cknna")) > 0.05
    # All images in the middle find the same rows, which many rows have as neighbours: chance is above k / (n - 1).
    middle = found.searched["mean"]
    assert middle.chance > 1.3 * K / 799
    assert middle.value == pytest.approx(middle.chance, abs=0.004)


def test_permutation_p_has_its_level_under_independence() -> None:
    rng = np.random.default_rng(10)
    ps = []
    for seed in range(120):
        x, y = rng.standard_normal((2, 60, 3))
        found = compared(x, y, draws=19, seed=seed)
        ps.append([found.null["mutual"].p, found.null["cknna"].p])
    share = np.mean(np.array(ps) <= 0.05, axis=0)
    assert np.all(share < 0.12)  # 0.05 + 3.5 standard errors
    assert np.median(ps) > 0.3


def test_shuffled_figures_are_those_of_tables_in_that_order() -> None:
    rng = np.random.default_rng(11)
    x, y = rng.standard_normal((2, 200, 4))
    order = rng.permutation(200)
    side_x = Neighbourhood.of(x)
    found, _ = compare_neighbours(side_x, Neighbourhood.of(y), {}, {}, shuffles=[order])
    again, _ = compare_neighbours(side_x, Neighbourhood.of(y[order]), {}, {}, shuffles=[])
    assert found.null["mutual"].mean == pytest.approx(again.mutual.value)
    assert found.null["cknna"].mean == pytest.approx(again.cknna)


def test_cknna_is_its_formula() -> None:
    rng = np.random.default_rng(12)
    x = rng.standard_normal((150, 6)) + 3
    y = np.tanh(x) + 0.1 * rng.standard_normal(x.shape)

    def masked(rows: Array) -> tuple[Array, Array]:
        mask = np.zeros((150, 150))
        np.put_along_axis(mask, brute_lists(rows, rows, K), 1, axis=1)
        centred = rows - rows.mean(axis=0)
        return mask, centred @ centred.T

    (near_x, kernel_x), (near_y, kernel_y) = masked(x), masked(y)
    expected = np.sum(near_x * near_y * kernel_x * kernel_y) / np.sqrt(
        np.sum(near_x * kernel_x**2) * np.sum(near_y * kernel_y**2)
    )
    assert cknna(Neighbourhood.of(x), Neighbourhood.of(y)) == pytest.approx(expected)
    assert cknna(Neighbourhood.of(x), Neighbourhood.of(5 * x)) == pytest.approx(1.0)


def test_interval_covers_the_overlap_of_other_rows() -> None:
    rng = np.random.default_rng(13)

    def drawn() -> Neighbours:
        x = rng.standard_normal((250, 4))
        return compared(x, x + 0.3 * rng.standard_normal(x.shape))

    found = [drawn() for _ in range(100)]
    truth = np.mean([f.mutual.value for f in found])
    inside = [f.mutual.ci95[0] <= truth <= f.mutual.ci95[1] for f in found if f.mutual.ci95]
    assert len(inside) == 100
    assert np.mean(inside) > 0.87  # 0.95 less 3.6 standard errors


def test_few_rows_have_as_many_neighbours_as_there_are() -> None:
    rows = np.random.default_rng(14).standard_normal((6, 2))
    found = compared(rows, rows[::-1].copy())
    assert (found.k, found.mutual.value, found.mutual.chance) == (5, 1.0, 1.0)


def near(rows: Array, group: NDArray[np.int64] | None = None) -> Closeness:
    queries = np.random.default_rng(0).permutation(len(rows))[: neighbours.QUERIES]
    rms = float(np.sqrt(2 * rows.var(axis=0, dtype=np.float64).sum()))
    return closeness(Blocks(rows), queries, Run(workers=1), mean=rows.mean(axis=0), rms=rms, group=group)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearest_of_all_rows_is_that_of_brute_force(dtype: type) -> None:
    rng = np.random.default_rng(15)
    rows: NDArray[Any] = (rng.standard_normal((9000, 5)) + 100).astype(dtype)
    queries = rng.permutation(9000)[: neighbours.QUERIES]
    wide = rows.astype(np.float64)
    rms = float(np.sqrt(2 * wide.var(axis=0).sum()))
    found = closeness(Blocks(rows), queries, Run(workers=1), mean=wide.mean(axis=0), rms=rms)
    distances = NearestNeighbors(n_neighbors=2).fit(wide).kneighbors(wide[queries])[0][:, 1] / rms
    assert found.median == pytest.approx(np.median(distances), abs=1e-3)
    assert found.q05 == pytest.approx(np.quantile(distances, 0.05), abs=1e-3)
    assert found.queries == neighbours.QUERIES


@pytest.mark.parametrize("order", ["one after another", "far apart"])
@pytest.mark.parametrize(("distinct", "times"), [(70, 18), (400, 50), (5000, 2)])
def test_copies_with_jitter_are_alike_wherever_they_stand(distinct: int, times: int, order: str) -> None:
    rng = np.random.default_rng([16, distinct])
    rows = rng.standard_normal((distinct, 16))
    copies = np.repeat(rows, times, axis=0) if order == "one after another" else np.tile(rows, (times, 1))
    found = near(copies + 0.01 * rng.standard_normal(copies.shape))
    assert found.alike
    assert found.median < 0.015


def test_declared_copies_are_not_counted() -> None:
    rng = np.random.default_rng(17)
    rows = np.repeat(rng.standard_normal((70, 16)), 18, axis=0) + 0.01 * rng.standard_normal((1260, 16))
    found = near(rows, group=np.repeat(np.arange(70), 18))
    assert not found.alike
    assert found.median > 0.3
    # Nor where all rows of a block are of the group that asks.
    member = np.repeat([0, 1], 5)
    frame = neighbours._Frame(np.zeros(16, np.float32), np.float32(1))
    closest = neighbours._Closest(frame, frame(rows[:1]), member, member[:1])
    closest.add(0, [rows[:5]])
    assert closest.squares[0] == np.inf
    closest.add(5, [rows[18:23]])
    assert closest.squares[0] == pytest.approx(np.square(rows[18:23] - rows[0]).sum(axis=1).min(), rel=1e-5)


@pytest.mark.parametrize(("n", "d"), [(20_000, 1), (20_000, 2), (150_000, 3), (2000, 8), (300, 64)])
def test_independent_rows_are_not_alike_however_dense(n: int, d: int) -> None:
    found = near(np.random.default_rng([18, d]).standard_normal((n, d)))
    assert not found.alike
    assert (found.median < neighbours.ALIKE) == (d <= 3)  # so the distance alone would take dense rows for copies


def test_the_interval_of_an_overlap_stays_between_0_and_1() -> None:
    rng = np.random.default_rng(0)
    n, k = 30, 4
    lists = np.array([rng.choice(np.delete(np.arange(n), i), k, replace=False) for i in range(n)])
    found, part = lists.copy(), np.arange(n) % 3
    for row in (0, 3, 6, 9):  # all of one part
        found[row, 0] = next(j for j in range(n) if j not in lists[row] and j != row)
    high = overlap_of(found, lists, part).ci95
    assert high is not None
    assert high[1] == 1.0
    assert 0.0 < high[0] < 1.0
    none = overlap_of(found, (lists + 1) % n, part).ci95
    assert none is not None
    assert 0.0 <= none[0] < none[1] < 1.0


def test_close_rows_are_counted_within_twice_and_four_times_the_radius_of_copies() -> None:
    frame = neighbours._Frame(np.zeros(2, np.float32), np.float32(1))
    rows = np.array([[0, 0], [0.03, 0], [0, 0.06], [0.07, 0], [0, 0.1], [0.15, 0]], np.float32)
    member = np.arange(len(rows))
    closest = neighbours._Closest(frame, frame(rows[:1]), member, member[:1])
    closest.add(0, [rows])
    assert closest.counts == [1, 3]  # of ALIKE = 0.02, the row itself apart
