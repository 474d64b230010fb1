"""Exact nearest rows: against brute force, on awkward tables, in memory and in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from identifiable import DataError, UsageError, neighbours
from identifiable.blocks import Blocks, one_blas_thread
from identifiable.moments import Array
from identifiable.neighbours import Index, Lists, Metric, common_entries, nearest_rows
from identifiable.run import Run

K = 10
ALONE = Run(workers=1)


@pytest.fixture(autouse=True)
def blas_limited_once() -> Iterator[None]:
    """Finding the BLAS libraries takes milliseconds, and here many small searches run."""
    with one_blas_thread():
        yield


def brute(queries: Array, rows: Array, k: int, *, own: Lists | None = None, metric: Metric = "euclidean") -> Lists:
    """By differences, one query at a time; equal distances go to the lower index."""
    lists = []
    for i, q in enumerate(queries):
        if metric == "cosine":
            lengths = np.linalg.norm(rows, axis=1)
            with np.errstate(invalid="ignore"):
                distances = -np.nan_to_num(rows @ q / lengths) / np.linalg.norm(q)
        else:
            distances = np.square(rows - q).sum(axis=1)
        if own is not None:
            distances[own[i]] = np.inf
        lists.append(np.argsort(distances, kind="stable")[:k])
    return np.array(lists)


def table(name: str) -> Array:
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((1500, 12))
    match name:
        case "offset":
            return rows + 1e9
        case "rogue column":
            return rows * [1e7, *[1.0] * 11]
        case "heavy tails":
            return rng.standard_t(1.5, rows.shape)
        case "tiny units":
            return rows * 2.0**-600
        case "whole numbers":
            return rng.integers(0, 3, (1500, 4)).astype(float)
        case "copies":
            return np.repeat(rows[:75], 20, axis=0)
    return rows


TABLES = ("normal", "offset", "rogue column", "heavy tails", "tiny units", "whole numbers", "copies")


@pytest.mark.parametrize("name", TABLES)
def test_lists_are_those_of_brute_force_in_memory_and_in_blocks(name: str) -> None:
    rows = table(name)
    own = np.arange(3, 1500, 9)
    scale = 2.0**600 if name == "tiny units" else 1.0  # squares of tiny numbers are zero in the brute force
    expected = brute(rows[own] * scale, rows * scale, K, own=own)
    assert np.array_equal(Index(rows, metric="euclidean").nearest(rows[own], K, own=own, run=ALONE), expected)
    streamed = nearest_rows(Blocks(rows, rows=100), rows[own], K, metric="euclidean", own=own, run=ALONE)
    assert np.array_equal(streamed, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_both_metrics_and_any_type_of_number(metric: Metric, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    rows, queries = (100 * rng.standard_normal((n, 8)) + 30 for n in (900, 80))
    stored: NDArray[Any] = rows.astype(dtype)
    expected = brute(queries, stored.astype(float), K, metric=metric)
    assert np.array_equal(Index(stored, metric=metric).nearest(queries, K), expected)
    assert np.array_equal(nearest_rows(Blocks(stored), queries, K, metric=metric), expected)


@pytest.mark.parametrize("factor", [1e-30, 1.0, 1e6])
def test_queries_far_from_the_rows_or_nearly_zero_are_searched_exactly(factor: float) -> None:
    rng = np.random.default_rng(2)
    rows, queries = rng.standard_normal((2, 300, 5))
    expected = brute(queries * factor, rows, K)
    assert np.array_equal(Index(rows, metric="euclidean").nearest(queries * factor, K), expected)
    assert np.array_equal(nearest_rows(Blocks(rows), queries * factor, K, metric="euclidean"), expected)


def test_a_row_of_zeros_has_cosine_zero() -> None:
    rows = np.array([[1.0, 0.1], [0.0, 0.0], [-1.0, 0.1], [1.0, 4.0]])
    assert Index(rows, metric="cosine").nearest([[1.0, 0.0]], 4).tolist() == [[0, 3, 1, 2]]


def test_lists_are_those_of_scikit_learn() -> None:
    rows = np.random.default_rng(3).standard_normal((700, 64)).astype(np.float32)
    for metric in ("cosine", "euclidean"):
        theirs = NearestNeighbors(n_neighbors=K, algorithm="brute", metric=metric).fit(rows)
        found = theirs.kneighbors(return_distance=False)
        assert np.array_equal(Index(rows, metric=metric).nearest(rows, K, own=np.arange(700)), found)


def test_lists_depend_neither_on_blocks_nor_on_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    rows, queries = rng.standard_normal((9000, 6)), rng.standard_normal((300, 6))
    whole = Index(rows, metric="cosine").nearest(queries, K, run=ALONE)
    assert np.array_equal(whole, nearest_rows(Blocks(rows), queries, K, metric="cosine", run=Run(workers=3)))
    monkeypatch.setattr(neighbours, "_BLOCK", 37)
    monkeypatch.setattr(neighbours, "_PIECE", 250)
    assert np.array_equal(whole, Index(rows, metric="cosine").nearest(queries, K, run=Run(workers=3)))


@pytest.mark.parametrize("name", ["normal", "whole numbers", "copies"])
def test_places_are_those_of_a_full_sort(name: str) -> None:
    rows = table(name)
    rng = np.random.default_rng(5)
    queries = rows[:60] + rng.integers(0, 2, (60, rows.shape[1])) * np.repeat([0.0, 1.0, 3.0], 20)[:, None]
    asked = np.r_[np.arange(40), rng.integers(0, len(rows), 20)]
    found = Index(rows, metric="euclidean").search(queries, K, place_of=asked, run=ALONE)
    order = brute(queries, rows, len(rows))
    assert found.places is not None
    assert np.array_equal(found.places, 1 + np.argmax(order == asked[:, None], axis=1))
    squares = np.square(rows[found.lists] - queries[:, None]).sum(axis=2)
    assert np.allclose(found.squares, squares)


def test_a_bonus_brings_a_row_nearer() -> None:
    rows = np.array([[0.0], [1.0], [3.0]])
    assert Index(rows, metric="euclidean").nearest([[0.1]], 3).tolist() == [[0, 1, 2]]
    with_bonus = Index(rows, metric="euclidean").favouring(np.array([0.0, 0.0, 9.0]))
    assert with_bonus.nearest([[0.1]], 3).tolist() == [[2, 0, 1]]


def test_common_entries_are_the_pairs_of_places() -> None:
    first, second = np.array([[1, 2], [3, 4]]), np.array([[9, 2, 1], [5, 6, 7]])
    row, here, there = common_entries(first, second)
    assert list(zip(row.tolist(), here.tolist(), there.tolist(), strict=True)) == [(0, 0, 2), (0, 1, 1)]


def test_what_cannot_be_searched_is_refused() -> None:
    index = Index(np.zeros((5, 3)), metric="euclidean")
    with pytest.raises(DataError, match=r"4 columns.* 3"):
        index.nearest(np.zeros((2, 4)), 1)
    with pytest.raises(UsageError, match=r"k=5.* 4,"):
        index.nearest(np.zeros((2, 3)), 5, own=[0, 1])
    with pytest.raises(DataError, match=r"own.* 2 .*\(1,\)"):
        index.nearest(np.zeros((2, 3)), 1, own=[0])
    with pytest.raises(DataError, match=r"\(3,\)"):
        index.nearest(np.zeros(3), 1)
