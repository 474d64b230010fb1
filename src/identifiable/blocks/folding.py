"""The one loop over rows.

Every estimate in this package is a fold over row blocks (docs/architecture.md). `fold` walks one or several tables
together and merges what each part leaves behind.

The arithmetic grid is fixed by the shape of the data alone (`Grid`): rows are cut into contiguous strips, each strip into
chunks of `chunk_rows(width)` rows. A strip is folded in order by one worker; strips are merged in order, `STRIPS` at a time,
then what these leave, and so on. So a result does not depend, bit for bit, on the number of workers, on where they are, or
on how many rows are read from storage at a time (`Blocks.rows`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.blocks.tables import Blocks, chunk_rows
from identifiable.blocks.threads import Counter, available_workers, in_order, in_threads, one_blas_thread, silent
from identifiable.run import Progress, Run, Stage

STRIPS = 16  # merged at a time; at least so many strips keep a few workers busy to the end
STRIP_CHUNKS = 64  # at most, in a strip: half a gigabyte in float32, so a large table has many strips
SHARED_STRIPS = 2  # from which on a cluster is asked
ALONE = 2**16  # numbers that one thread has folded before others have begun
READING = Stage("reading")


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


@dataclass(frozen=True)
class Grid:
    """The strips a fold is cut into, by shape alone: whole chunks, as many in each as in any other or one more."""

    n: int
    width: int

    @property
    def chunk(self) -> int:
        return chunk_rows(self.width)

    @property
    def strips(self) -> int:
        chunks = -(-self.n // self.chunk)
        return min(max(STRIPS, -(-chunks // STRIP_CHUNKS)), chunks)

    def strip(self, i: int) -> tuple[int, int]:
        """First and last row, exclusive, of strip i."""
        chunks, parts = -(-self.n // self.chunk), self.strips
        return min(i * chunks // parts * self.chunk, self.n), min((i + 1) * chunks // parts * self.chunk, self.n)


def strips(n: int, width: int) -> list[tuple[int, int]]:
    """All strips of the grid."""
    grid = Grid(n, width)
    return [grid.strip(i) for i in range(grid.strips)]


def fold(
    blocks: Sequence[Blocks],
    start: Callable[[], S],
    *,
    workers: int | None = None,
    cluster: Any = None,
    progress: Progress | None = None,
    log: Any = None,
    stage: Stage = READING,
) -> S:
    """Walk the rows of `blocks` together and return the merged statistic.

    `start()` makes an empty statistic; it is fed chunks `(first_row, [rows of each table])`, and the
    statistics of the strips are merged in row order. Equal number of rows is required. It runs on
    `workers` threads, or on the workers of a Dask `cluster` (a `distributed.Client`), which must see the
    same files under the same paths; the result is the same. A `log` (`PassLog`) keeps it for a run that begins again.

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
    grid = Grid(n, sum(b.d for b in blocks))
    done = Counter()

    def report() -> None:
        if progress is not None:
            progress(stage, done.value, n)

    if log is not None:
        again = partial(fold, blocks, start, workers=workers, cluster=cluster, progress=progress, stage=stage)
        logged: S = log.statistic(blocks, start, again)
        return logged
    with one_blas_thread(), silent():
        # To send rows from here costs more than to fold them, and so does to ask a cluster for one strip.
        if cluster is None or grid.strips < SHARED_STRIPS or all(b.in_memory for b in blocks):
            merged = _on_threads(blocks, start, grid, workers, done, report)
        else:
            from identifiable.blocks.cluster import on_cluster  # which loads dask

            merged = on_cluster(cluster, blocks, start, grid, done, report)
    report()
    return merged


def in_tasks(work: Callable[[A], R], items: Sequence[A], run: Run, stage: Stage) -> list[R]:
    """`[work(item) for item in items]`, each on one core: of the workers of the run's cluster, to whom `work` is sent, or here."""
    if run.cluster is None:
        return in_threads(work, items, run, stage)
    from identifiable.blocks.cluster import on_each  # which loads dask

    found = on_each(run.cluster, work, items, lambda done: run.say(stage, done, len(items)))
    run.say(stage, len(items), len(items))
    return found


def ahead(read: Callable[[int, int], R], n: int, cluster: Any) -> Callable[[int, int], R]:
    """`read(first, stop)` for whoever reads n rows in order: as it is, or by the workers of a cluster, which read ahead."""
    if cluster is None:
        return read
    from identifiable.blocks.cluster import Ahead

    return Ahead(cluster, read, n)


def _on_threads(
    blocks: Sequence[Blocks],
    start: Callable[[], S],
    grid: Grid,
    workers: int | None,
    done: Counter,
    report: Callable[[], None],
) -> S:
    stop = threading.Event()

    def run(part: tuple[int, int]) -> S:
        def stopped(rows: int) -> bool:
            done.add(rows)
            return stop.is_set()

        return walk(blocks, start, part, grid.chunk, stopped)

    parts = strips(grid.n, grid.width)
    count = 1 if grid.n * grid.width <= ALONE else min(workers or available_workers(), len(parts))
    results = in_order(run, parts, count, stop, report)
    with closing(results):  # an error while merging must stop the workers too
        return merged_in_order(results)


def merged_in_order(statistics: Iterable[S]) -> S:
    """Merged `STRIPS` at a time, then what these leave, and so on: the tree of `blocks.cluster`, a few statistics alive at once."""
    waiting: list[tuple[S, int] | None] = []  # of each level: what is merged so far, of how many

    def take(level: int, statistic: S) -> None:
        if level == len(waiting):
            waiting.append(None)
        merged, count = waiting[level] or (statistic, 0)
        if count:
            merged.merge(statistic)
        waiting[level] = (merged, count + 1)
        if count + 1 == STRIPS:
            waiting[level] = None
            take(level + 1, merged)

    for statistic in statistics:
        take(0, statistic)
    left = [found[0] for found in waiting if found is not None]
    whole = left.pop(0)
    for earlier in left:
        earlier.merge(whole)
        whole = earlier
    return whole


def walk(
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
