"""blocks: every row is seen once, and neither the block size nor the number of workers moves a bit."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

from errors import naming
from identifiable import intake
from identifiable._checks import DataError
from identifiable.blocks import (
    MAX_CHUNK_ROWS,
    STRIPS,
    Blocks,
    chunk_rows,
    fold,
    in_threads,
    one_blas_thread,
    strips,
    threads,
)
from identifiable.blocks import tables as blocks_room
from identifiable.run import Run, Stage

SEEDS = [0, 1, 20240611]
BLOCK_ROWS = [1, 7, 100, None]
WORKERS = [1, 2, 3]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 32 rows, so that a few thousand rows make 16 strips of many chunks."""
    monkeypatch.setattr(blocks_room, "MAX_CHUNK_ROWS", 32)


class Gram:
    """A sum whose last bits depend on the order and the grouping of its terms."""

    def __init__(self) -> None:
        self.value: Any = 0.0

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        self.value = self.value + rows[0].T @ rows[-1]

    def merge(self, later: Gram) -> None:
        self.value = self.value + later.value


class Seen:
    """The rows that came, in the order they came, and whether each chunk and strip followed the one before."""

    def __init__(self) -> None:
        self.rows: list[float] = []
        self.first: int | None = None
        self.unbroken = True

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        self.first = first if self.first is None else self.first
        self.unbroken &= first == self.first + len(self.rows)
        self.unbroken &= all(len(r) == len(rows[0]) for r in rows)
        self.rows += rows[0][:, 0].tolist()

    def merge(self, later: Seen) -> None:
        assert self.first is not None
        self.unbroken &= later.unbroken and later.first == self.first + len(self.rows)
        self.rows += later.rows


class DaskLike:
    """A lazy table: it has a shape and a dtype, and slicing it gives something that only `np.asarray` opens."""

    class Part:
        def __init__(self, values: NDArray[Any]):
            self.values = values

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
            return self.values if dtype is None else self.values.astype(dtype)

    def __init__(self, values: NDArray[Any]):
        self._values, self.shape, self.dtype = values, values.shape, values.dtype
        self.read: list[int] = []

    def __getitem__(self, rows: Any) -> DaskLike.Part:
        part = self._values[rows]
        self.read.append(len(part))
        return self.Part(part)


def wide_range(seed: int, n: int = 3001, d: int = 5) -> NDArray[np.float64]:
    """Values over sixteen orders of magnitude: a sum of them in another order has other bits."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-8, 8, (n, 1))


# A result depends neither on the block size nor on the workers


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("rows", BLOCK_ROWS)
@pytest.mark.usefixtures("small_chunks")
def test_a_fold_gives_the_same_bits_at_any_block_size_and_any_number_of_workers(seed, workers, rows):
    X, Y = wide_range(seed), wide_range(seed + 100)
    reference = fold([Blocks(X), Blocks(Y)], Gram, workers=1).value
    found = fold([Blocks(X, rows=rows), Blocks(Y, rows=rows)], Gram, workers=workers).value
    assert found.tobytes() == reference.tobytes()
    np.testing.assert_allclose(found, X.T @ Y, rtol=1e-6, atol=1e-9 * np.abs(X).max() * np.abs(Y).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_another_grid_gives_other_bits_so_the_law_above_can_fail(monkeypatch, seed):
    X, results = wide_range(seed), []
    for chunk in (32, 64):
        monkeypatch.setattr(blocks_room, "MAX_CHUNK_ROWS", chunk)
        results.append(fold([Blocks(X)], Gram, workers=1).value.tobytes())
    assert results[0] != results[1]


@pytest.mark.parametrize("n", [1, 31, 32, 33, 512, 513, 3001])
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.usefixtures("small_chunks")
def test_a_fold_sees_every_row_once_and_in_order(n, workers):
    X = np.arange(n, dtype=float)[:, None]
    seen = fold([Blocks(X), Blocks(-X)], Seen, workers=workers)
    assert seen.unbroken
    assert seen.rows == X[:, 0].tolist()


def test_tables_are_walked_together():
    X = np.arange(9000.0).reshape(-1, 1)
    together = fold([Blocks(X), Blocks(3 * X)], Gram).value
    shifted = fold([Blocks(X), Blocks(3 * np.roll(X, 1, axis=0))], Gram).value
    assert together == pytest.approx(3 * (X**2).sum(), rel=1e-12)
    assert shifted < 0.9999999 * together


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 4095, 4096, 4097, 65_536, 65_537, 222_000, 10**9])
@pytest.mark.parametrize("width", [1, 2, 63, 384, 768, 8192, 10**7])
def test_strips_cover_all_rows_without_overlap(n, width):
    parts, chunk = strips(n, width), chunk_rows(width)
    assert parts[0][0] == 0
    assert parts[-1][1] == n
    assert all(before[1] == after[0] for before, after in pairwise(parts))
    assert all(a < b for a, b in parts)
    assert len(parts) <= max(STRIPS, -(-n // chunk) // 32)
    assert all(a % chunk == 0 for a, _ in parts)


def test_chunks_are_powers_of_two_and_shrink_with_the_width():
    sizes = [chunk_rows(width) for width in (1, 100, 512, 513, 2048, 8192, 10**7)]
    assert sizes == [4096, 4096, 4096, 2048, 1024, 256, 256]
    assert all(size & (size - 1) == 0 and size <= MAX_CHUNK_ROWS for size in sizes)


# Views


@pytest.mark.parametrize("rows", BLOCK_ROWS)
@pytest.mark.parametrize("seed", SEEDS)
def test_select_gives_the_rows_of_the_index_in_its_order(seed, rows):
    rng = np.random.default_rng(seed)
    X, index = rng.standard_normal((500, 3)), rng.integers(0, 500, 230)
    chosen = Blocks(X, rows=rows, name="x").select(index)
    assert (chosen.shape, chosen.name, chosen.rows, chosen.dtype) == ((230, 3), "x", rows, X.dtype)
    np.testing.assert_array_equal(chosen[:], X[index])
    np.testing.assert_array_equal(chosen[40:60], X[index][40:60])
    np.testing.assert_array_equal(chosen[np.array([5, 2, 2])], X[index][[5, 2, 2]])
    np.testing.assert_array_equal(chosen.select(np.array([7, 0]))[:], X[index[[7, 0]]])
    assert not np.array_equal(chosen[:], X[np.sort(index)])


@pytest.mark.parametrize("rows", BLOCK_ROWS)
def test_through_maps_the_rows_as_they_are_read(rows):
    X = np.arange(60, dtype=np.int16).reshape(20, 3)
    mapped = Blocks(X, rows=rows).through(lambda block: block[:, :2] * 0.5, 2)
    assert (mapped.shape, mapped.dtype) == ((20, 2), np.float64)
    np.testing.assert_array_equal(mapped[:], X[:, :2] / 2)
    np.testing.assert_array_equal(mapped.select(np.array([9, 3]))[:], X[[9, 3], :2] / 2)
    assert not np.array_equal(mapped[:], X[:, :2])


def test_views_read_only_the_rows_they_need():
    source = DaskLike(np.zeros((1000, 2)))
    view = Blocks(source).select(np.arange(0, 1000, 10)).through(lambda block: block + 1.0, 2)
    assert source.read == []
    assert view[3:8].shape == (5, 2)
    assert source.read == [5]


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_a_map_is_given_the_same_runs_of_rows_at_any_block_size(rows):
    """A matrix product of 7 rows has other last bits than the same rows among 600, so what is read must not decide."""
    X, runs = np.zeros((600, 3)), []

    def record(block: NDArray[Any]) -> NDArray[np.float64]:
        runs.append(len(block))
        return block

    assert Blocks(X, rows=rows).through(record, 3)[:].shape == (600, 3)
    assert runs == [600]


@pytest.mark.parametrize("rows", BLOCK_ROWS)
def test_a_table_is_never_read_in_larger_parts_than_asked(rows):
    source = DaskLike(np.arange(2000.0).reshape(1000, 2))
    table = Blocks(source, rows=rows)
    np.testing.assert_array_equal(table[10:990], source._values[10:990])
    np.testing.assert_array_equal(table[np.arange(500)], source._values[:500])
    assert max(source.read) == (rows or 980)
    assert sum(source.read) == 980 + 500


def test_an_empty_run_has_the_width_of_the_table():
    table = Blocks(np.ones((5, 3), dtype=np.float32), rows=2)
    assert table[2:2].shape == (0, 3)
    assert table[np.array([], dtype=int)].shape == (0, 3)
    assert table[2:2].dtype == np.float32
    assert table[2:3].shape == (1, 3)


def test_skipping_rows_by_a_stepped_slice_is_refused():
    with pytest.raises(IndexError, match="contiguous runs"):
        Blocks(np.zeros((5, 2)))[::2]


@pytest.mark.parametrize("rows", [None, 100])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.usefixtures("small_chunks")
def test_a_lazy_source_that_is_no_array_folds_like_one(rows, workers):
    X = wide_range(5, n=900)
    lazy = fold([Blocks(DaskLike(X), rows=rows)], Gram, workers=workers).value
    assert lazy.tobytes() == fold([Blocks(X)], Gram).value.tobytes()
    assert lazy.tobytes() != fold([Blocks(DaskLike(X[::-1]))], Gram).value.tobytes()


# Errors, interruption and progress


class Failing(Seen):
    """Raises when it meets row `at`; every other strip waits for that, then takes its time."""

    seen_chunks = 0
    lock = threading.Lock()

    def __init__(self, at: int, error: BaseException, failed: threading.Event):
        super().__init__()
        self.at, self.error, self.failed = at, error, failed

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        if first <= self.at < first + len(rows[0]):
            self.failed.set()
            raise self.error
        with Failing.lock:
            Failing.seen_chunks += 1
        if first > self.at:
            assert self.failed.wait(30)
            time.sleep(0.001)

    def merge(self, later: Seen) -> None:
        pass


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("error", [RuntimeError("no such row"), KeyboardInterrupt(), TimeoutError("slow disk")])
def test_an_error_in_one_strip_is_raised_and_the_other_workers_stop(monkeypatch, workers, error):
    monkeypatch.setattr(blocks_room, "MAX_CHUNK_ROWS", 1)
    monkeypatch.setattr(Failing, "seen_chunks", 0)
    n, failed, before = 16 * 3000, threading.Event(), threading.active_count()
    with pytest.raises(type(error)):
        fold([Blocks(np.zeros((n, 1)))], lambda: Failing(0, error, failed), workers=workers)
    assert Failing.seen_chunks < 3000  # one strip alone has 3000 chunks, and workers - 1 were busy
    assert threading.active_count() == before


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("at", [0, 700, 1599])
@pytest.mark.parametrize("error", [RuntimeError("no such row"), KeyboardInterrupt()])
@pytest.mark.usefixtures("small_chunks")
def test_an_error_at_any_row_is_raised_with_any_number_of_workers(workers, at, error):
    failed = threading.Event()
    failed.set()  # nobody waits
    with pytest.raises(type(error)) as caught:
        fold([Blocks(np.zeros((1600, 1)))], lambda: Failing(at, error, failed), workers=workers)
    assert caught.value is error


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.usefixtures("small_chunks")
def test_an_error_of_the_source_is_raised(workers):
    class Torn(DaskLike):
        def __getitem__(self, rows: Any) -> DaskLike.Part:
            if rows.stop > 900:
                raise OSError("file ends at row 900")
            return super().__getitem__(rows)

    with pytest.raises(OSError, match=naming(900)):
        fold([Blocks(Torn(np.zeros((1000, 1))))], Seen, workers=workers)
    assert len(fold([Blocks(Torn(np.zeros((900, 1))))], Seen, workers=workers).rows) == 900


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.usefixtures("small_chunks")
def test_progress_rises_to_the_number_of_rows_and_comes_from_the_calling_thread(workers):
    calls: list[tuple[str, int, int]] = []
    threads = set()

    def progress(stage: str, done: int, total: int) -> None:
        calls.append((stage, done, total))
        threads.add(threading.current_thread())

    fold([Blocks(np.zeros((3001, 2)))], Seen, workers=workers, progress=progress, stage="counting")
    done = [d for _, d, _ in calls]
    assert {(stage, total) for stage, _, total in calls} == {("counting", 3001)}
    assert done == sorted(done)
    assert done[-1] == 3001
    assert len(set(done)) > 1
    assert threads == {threading.current_thread()}


def test_an_error_in_progress_stops_the_fold():
    def progress(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        fold([Blocks(np.zeros((20_000, 2)))], Seen, workers=2, progress=progress)
    assert threading.active_count() == before


def test_a_result_that_arrives_just_after_the_wait_ran_out_is_not_an_error():
    class JustLate(Future[str]):
        def result(self, timeout: float | None = None) -> str:
            if self.done():
                return super().result(timeout)
            self.set_result("done")  # another thread, between the time-out and the look at done()
            raise TimeoutError

    assert threads._wait(JustLate(), lambda: None) == "done"


def test_an_error_while_merging_stops_the_workers(monkeypatch):
    class Unmergeable(Failing):
        def merge(self, later: Seen) -> None:
            raise RuntimeError("cannot merge")

    monkeypatch.setattr(blocks_room, "MAX_CHUNK_ROWS", 1)
    released = threading.Event()
    released.set()
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="cannot merge") as caught:
        fold([Blocks(np.zeros((16 * 200, 1)))], lambda: Unmergeable(-1, RuntimeError(), released), workers=2)
    running = threading.active_count() - before
    del caught  # frees the generator that holds the workers, whatever the outcome
    assert running == 0


def test_tables_of_unequal_length_are_refused_with_their_names_and_lengths():
    tables = [Blocks(np.zeros((10, 2)), name="a"), Blocks(np.zeros((12, 2)), name="b")]
    with pytest.raises(DataError, match=r"10,.*12"):
        fold(tables, Seen)
    assert len(fold([tables[0], tables[0]], Seen).rows) == 10


# Threads


@pytest.mark.parametrize("workers", [None, 1, 2, 3, 50])
def test_in_threads_keeps_the_order_of_the_items(workers):
    def run(k: int) -> int:
        time.sleep(0.002 if k % 3 == 0 else 0.0)  # later items finish first
        return k * k

    calls: list[tuple[Stage, int, int]] = []
    result = in_threads(run, range(20), Run(workers=workers, progress=lambda *c: calls.append(c)), Stage("squares"))
    assert result == [k * k for k in range(20)]
    assert calls[-1] == (Stage("squares"), 20, 20)
    assert [c[1] for c in calls] == sorted(c[1] for c in calls)


@pytest.mark.parametrize("workers", WORKERS)
def test_in_threads_of_nothing_is_nothing_and_an_error_is_raised(workers):
    assert in_threads(lambda k: k, [], Run(workers=workers)) == []
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda k: 1 / k, [3, 2, 1, 0], Run(workers=workers))


def test_in_threads_uses_other_threads_only_when_there_is_more_than_one_worker():
    here = threading.current_thread()
    assert set(in_threads(lambda _: threading.current_thread(), range(4), Run(workers=1))) == {here}
    assert here not in in_threads(lambda _: threading.current_thread(), range(4), Run(workers=2))


def test_blas_has_one_thread_inside_a_fold_and_its_own_number_after():
    class Threads(Seen):
        def add(self, first: int, rows: list[NDArray[Any]]) -> None:
            self.rows += blas_threads()

    before = blas_threads()
    assert before  # numpy has a BLAS whose threads can be seen
    inside = fold([Blocks(np.zeros((10, 2)))], Threads).rows
    assert inside == [1] * len(before)
    with one_blas_thread():
        assert blas_threads() == inside
    assert blas_threads() == before


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


# What is no table is refused, with what to do


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.zeros(4), r"t: .*2-D.*1-D.*\(4,\).*\(n, 1\)"),
        (np.zeros((2, 3, 4)), r"t: .*2-D.*3-D.*\(2, 3, 4\)"),
        (np.zeros(()), r"t: .*2-D.*0-D.*\(\)"),
        (np.zeros((4, 0)), r"shape \(4, 0\)"),
        (np.zeros((0, 4)), r"shape \(0, 4\)"),
        (np.zeros((2, 2), dtype=object), r"\(dtype object\)"),
        (np.array([["a", "b"]]), r"text \(dtype <U1\)"),
        (np.array([[b"a", b"b"]]), r"bytes \(dtype \|S1\)"),
        (np.zeros((2, 2), dtype=complex), r"complex.*\(dtype complex128\)"),
        (np.zeros((2, 2), dtype="M8[s]"), r"numbers, got datetime64\[s\]"),
        (np.zeros((2, 2), dtype=[("x", "f8")]), r"real numbers, got \[\('x', '<f8'\)\]"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(source, message):
    with pytest.raises(DataError, match=message):
        Blocks(source, name="t")


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u1", "i8", "u8", "?", ">f4"])
def test_every_kind_of_real_number_is_taken(dtype):
    table = Blocks(np.ones((3, 2), dtype=dtype))
    assert (table.n, table.d, table.dtype) == (3, 2, np.dtype(dtype))


@pytest.mark.parametrize("rows", [0, -5])
def test_a_block_of_no_rows_is_refused(rows):
    with pytest.raises(DataError, match=f"^t: .*rows={rows}"):
        Blocks(np.zeros((3, 2)), rows=rows, name="t")


def test_a_lazy_table_of_unknown_length_is_refused():
    class Unknown(DaskLike):
        def __init__(self) -> None:
            super().__init__(np.zeros((3, 2)))
            self.shape: tuple[Any, ...] = (float("nan"), 2)  # what Dask says before chunk sizes are computed

    with pytest.raises(DataError, match="unknown"):
        Blocks(Unknown(), name="t")


def test_a_table_that_is_hashed_in_strips_has_one_hash_whatever_reads_it(monkeypatch):
    monkeypatch.setattr(intake, "SERIAL_BYTES", 1000)
    X = np.random.default_rng(0).standard_normal((20_000, 3))
    found = intake.content_hash(Blocks(X))
    assert found == intake.content_hash(Blocks(X, rows=77), Run(workers=1))
    X[12_345, 1] += 1e-9
    assert found != intake.content_hash(Blocks(X))
