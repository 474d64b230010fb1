"""Rows in blocks, and the one loop over them.

Every estimate in this package is a fold over row blocks (docs/architecture.md). `Blocks` is a tall
table that need not fit in memory; `fold` walks one or several of them together and merges what each
part leaves behind.

The arithmetic grid is fixed by the shape of the data alone: rows are cut into at most `STRIPS`
contiguous strips, each strip into chunks of `chunk_rows(width)` rows; a strip is folded in order by one
worker and strips are merged in order. So a result does not depend, bit for bit, on the number of
workers or on how many rows are read from storage at a time (`Blocks.rows`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, IdentifiableError, UsageError, check_matrix_shape, check_numeric
from identifiable.run import PLAIN, Progress, Run, Stage

STRIPS = 16  # enough to keep a few workers busy to the end, few enough that merging costs nothing
CHUNK_VALUES = 2**21  # values per chunk: 16 MB as float64, so a chunk and its products stay in the L3 cache
MAX_CHUNK_ROWS = 4096
READING, FITTING = Stage("reading"), Stage("fitting")


class Rows(Protocol):
    """What `Blocks` needs of a table: a shape, a dtype, and rows by slice or by an array of indices."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def __getitem__(self, rows: Any, /) -> Any: ...


class Blocks:
    """A table of n rows and d columns, read a block of rows at a time.

    Parameters
    ----------
    source
        A numpy array, a memory map, a Dask array, or anything with `shape`, `dtype` and row indexing.
    rows
        How many rows to read from storage at once. It changes memory and speed, never a result.
    """

    def __init__(self, source: Rows, *, rows: int | None = None, name: str = "array"):
        self.n, self.d = check_matrix_shape(tuple(source.shape), name)
        check_numeric(np.dtype(source.dtype), name)
        if rows is not None and rows < 1:
            raise DataError(f"{name}: a block needs at least one row, got rows={rows}.")
        self.source = source
        self.rows = rows
        self.name = name

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.d

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.source.dtype)

    def __getitem__(self, rows: slice | NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Rows as stored, read at most `self.rows` at a time. May be a view of the source."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.n)
            if step != 1:
                raise IndexError("Blocks are read in contiguous runs; pass an index array to skip rows.")
            step = self.rows or max(stop - start, 1)
            parts = [np.asarray(self.source[a : min(a + step, stop)]) for a in range(start, stop, step)]
        else:
            step = self.rows or max(len(rows), 1)
            parts = [np.asarray(self.source[rows[a : a + step]]) for a in range(0, len(rows), step)]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty((0, self.d), self.dtype)

    def select(self, index: NDArray[np.integer[Any]]) -> Blocks:
        """The same table with rows `index`, in that order, still read lazily."""
        return Blocks(_Selected(self, index), rows=self.rows, name=self.name)

    def through(self, function: Callable[[NDArray[Any]], NDArray[np.float64]], width: int) -> Blocks:
        """The same rows after a row-wise map to `width` columns, computed as they are read."""
        return Blocks(
            _Mapped(self, function, width), name=self.name
        )  # storage blocks end at the source: the map sees chunks

    def __iter__(self) -> Iterator[NDArray[Any]]:
        step = self.rows or chunk_rows(self.d)
        for start in range(0, self.n, step):
            yield self[start : min(start + step, self.n)]


class _Selected:
    """Rows of a table through an index array."""

    def __init__(self, source: Rows, index: NDArray[np.integer[Any]]):
        self.source, self.index = source, index
        self.shape = (len(index), source.shape[1])
        self.dtype = source.dtype

    def __getitem__(self, rows: slice | NDArray[np.integer[Any]]) -> NDArray[Any]:
        picked: NDArray[Any] = self.source[self.index[rows]]
        return picked


class _Mapped:
    """Rows of a table after a map."""

    def __init__(self, source: Rows, function: Callable[[NDArray[Any]], NDArray[np.float64]], width: int):
        self.source, self.function = source, function
        self.shape = (source.shape[0], width)
        self.dtype = np.dtype(np.float64)

    def __getitem__(self, rows: slice | NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        return self.function(self.source[rows])


class Statistic(Protocol):
    """What a fold accumulates: it takes rows in, and absorbs the statistic of the rows that follow.

    A statistic that keeps work for later may have a method `finish()`, called by the worker after the
    last rows of its strip.
    """

    def add(self, first: int, rows: list[NDArray[Any]], /) -> None: ...
    def merge(self, later: Self, /) -> None: ...


S = TypeVar("S", bound=Statistic)
A = TypeVar("A")
R = TypeVar("R")


def chunk_rows(width: int) -> int:
    """Rows per chunk of the arithmetic grid for a total width; a power of two, by the width alone."""
    fitting = max(CHUNK_VALUES // max(width, 1), 1)
    return min(max(1 << (fitting.bit_length() - 1), 256), MAX_CHUNK_ROWS)


def strips(n: int, width: int) -> list[tuple[int, int]]:
    """The contiguous row ranges a fold is cut into, by shape alone: whole chunks, as many in each as in any other or one more."""
    chunk = chunk_rows(width)
    chunks = -(-n // chunk)
    parts = min(STRIPS, chunks)
    edges = [min(i * chunks // parts * chunk, n) for i in range(parts + 1)]
    return list(pairwise(edges))


def available_workers() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def physical_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**34


_limited = threading.local()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread: our threads fill the cores, and a sum's order must not depend on them."""
    if getattr(_limited, "active", False):  # finding the BLAS libraries again costs milliseconds
        yield
        return
    import scipy.linalg  # noqa: F401  (its own BLAS, loaded later, would escape the limit)
    from threadpoolctl import threadpool_limits

    _limited.active = True
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        _limited.active = False


def silent() -> np.errstate:
    """No warnings of numpy about NaN, infinity and overflow: the caller reports them, with their rows."""
    return np.errstate(invalid="ignore", over="ignore")


def fold(
    blocks: Sequence[Blocks],
    start: Callable[[], S],
    *,
    workers: int | None = None,
    cluster: Any = None,
    progress: Progress | None = None,
    stage: Stage = READING,
) -> S:
    """Walk the rows of `blocks` together and return the merged statistic.

    `start()` makes an empty statistic; it is fed chunks `(first_row, [rows of each table])`, and the
    statistics of the strips are merged in row order. Equal number of rows is required. It runs on
    `workers` threads, or on the workers of a Dask `cluster` (a `distributed.Client`), which must see the
    same files under the same paths; the result is the same.

    >>> class Count:
    ...     n = 0
    ...     def add(self, first, rows): self.n += len(rows[0])
    ...     def merge(self, later): self.n += later.n
    >>> fold([Blocks(np.zeros((10_000, 3)))], Count).n
    10000
    """
    if not blocks:
        raise DataError("fold needs at least one table.")
    if workers is not None and (not isinstance(workers, (int, np.integer)) or workers < 1):
        raise UsageError(f"workers: expected a whole number of at least 1, got {workers!r}.")
    n = blocks[0].n
    if any(b.n != n for b in blocks):
        raise DataError(f"fold needs tables of equal length, got {', '.join(f'{b.name}: {b.n}' for b in blocks)} rows.")
    width = sum(b.d for b in blocks)
    parts, chunk = strips(n, width), chunk_rows(width)
    stop = threading.Event()
    done = _Counter()

    def run(part: tuple[int, int]) -> S:
        def stopped(rows: int) -> bool:
            done.add(rows)
            return stop.is_set()

        return _walk(blocks, start, part, chunk, stopped)

    def report() -> None:
        if progress is not None:
            progress(stage, done.value, n)

    with one_blas_thread(), silent():
        if cluster is None:
            results = _in_order(run, parts, min(workers or available_workers(), len(parts)), stop, report)
        else:
            results = _on_cluster(cluster, blocks, start, parts, chunk, done, report)
        with closing(results):  # an error while merging must stop the workers too
            merged = next(results)
            for later in results:
                merged.merge(later)
    report()
    return merged


def _walk(
    blocks: Sequence[Blocks],
    start: Callable[[], S],
    part: tuple[int, int],
    chunk: int,
    stopped: Callable[[int], bool] = lambda rows: False,
) -> S:
    """The statistic of one strip, fed chunk by chunk; `stopped(rows just done)` ends it early."""
    statistic = start()
    with silent():
        for a in range(part[0], part[1], chunk):
            b = min(a + chunk, part[1])
            statistic.add(a, [table[a:b] for table in blocks])
            if stopped(b - a):
                break
        if finish := getattr(statistic, "finish", None):
            finish()
    return statistic


def _on_cluster(
    cluster: Any,
    blocks: Sequence[Blocks],
    start: Callable[[], S],
    parts: Sequence[tuple[int, int]],
    chunk: int,
    done: _Counter,
    tick: Callable[[], None],
) -> Generator[S, None, None]:
    """Yield the statistic of every strip in order, computed by the workers of a Dask cluster."""
    shared = cluster.scatter([(blocks, start)], broadcast=True, hash=False)[0]
    futures = cluster.map(_walk_on_worker, parts, shared=shared, chunk=chunk, pure=False)
    try:
        for part, future in zip(parts, futures, strict=True):
            try:
                statistic: S = future.result()
            except IdentifiableError:
                raise
            except Exception as error:  # whatever a remote machine did wrong, said in one line
                raise DataError(
                    f"a worker of the cluster failed on rows {part[0]} to {part[1]}: {error!r:.300}"
                ) from None
            done.add(part[1] - part[0])
            tick()
            yield statistic
    finally:
        cluster.cancel(futures)


def _walk_on_worker(part: tuple[int, int], shared: tuple[Sequence[Blocks], Callable[[], S]], chunk: int) -> S:
    with one_blas_thread():
        return _walk(*shared, part, chunk)


def in_threads(work: Callable[[A], R], items: Sequence[A], run: Run = PLAIN, stage: Stage = FITTING) -> list[R]:
    """`[work(item) for item in items]` with one worker thread per core and BLAS at one thread each."""
    finished: list[R] = []

    def report() -> None:
        run.say(stage, len(finished), len(items))

    with one_blas_thread():
        count = min(run.workers or available_workers(), max(len(items), 1))
        for result in _in_order(work, items, count, threading.Event(), report):
            finished.append(result)
    report()
    return finished


def _in_order(
    run: Callable[[A], R], parts: Sequence[A], workers: int, stop: threading.Event, tick: Callable[[], None]
) -> Generator[R, None, None]:
    """Yield `run(part)` for every part in order, at most `workers + 1` of them alive at once."""
    if workers == 1:
        for part in parts:
            yield run(part)
            tick()
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: list[Future[R]] = []
        todo = iter(parts)
        try:
            for part in todo:
                waiting.append(pool.submit(run, part))
                if len(waiting) <= workers:
                    continue
                yield _wait(waiting.pop(0), tick)
            while waiting:
                yield _wait(waiting.pop(0), tick)
        finally:  # Ctrl-C or an error in one strip: the other workers stop at their next chunk
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


def _wait(future: Future[R], tick: Callable[[], None]) -> R:
    while True:
        try:
            result = future.result(timeout=0.2)
        except TimeoutError:
            if not future.done():
                tick()
                continue
            result = future.result()  # it arrived just now, or the strip itself raised TimeoutError
        tick()
        return result


class _Counter:
    """Rows done so far, added to by several threads."""

    def __init__(self) -> None:
        self.value = 0
        self._lock = threading.Lock()

    def add(self, n: int) -> None:
        with self._lock:
            self.value += n
