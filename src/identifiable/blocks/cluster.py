"""A fold on the workers of a Dask cluster.

A pass is one graph: a task for every strip, and tasks that merge what these leave in the fixed tree of
`folding.merged_in_order`. It is drawn on the scheduler, from a few numbers (`_Pass`), so the client sends the small state,
receives one statistic, and does no more for many strips than for few. A task that fails is tried again; what a lost worker
held is computed anew by the others.

Strips whose reading costs something (they are decoded, or come from a Dask array) stay on the workers between the passes of a
call where they fit: a task of its own reads them, and the client keeps its key.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

import cloudpickle
import dask
import numpy as np
from dask.highlevelgraph import HighLevelGraph, Layer
from numpy.typing import NDArray

from identifiable._checks import DataError, IdentifiableError
from identifiable.blocks.folding import STRIPS, Grid, Statistic, walk
from identifiable.blocks.tables import Blocks
from identifiable.blocks.threads import Counter, one_blas_thread

S = TypeVar("S", bound=Statistic)
A = TypeVar("A")
R = TypeVar("R")
Key = Any

RETRIES = 3  # of a task that fails
MERGED = 4  # statistics that one task merges: a task costs some 5 ms of work elsewhere, a statistic memory
HELD_SHARE = 0.3  # of the memory of all workers that strips may take
AHEAD = 2  # steps for each thread of the workers that are read before they are asked for
PATIENCE = 60.0  # seconds without a single worker, while one may be on its way
POLL = 1.0  # seconds between questions to the scheduler
FREED = 2**26
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
UNFINISHED = ("waiting", "no-worker", "queued", "processing")


def on_cluster(
    client: Any, blocks: Sequence[Blocks], start: Callable[[], S], grid: Grid, done: Counter, report: Callable[[], None]
) -> S:
    """The merged statistic of all rows, as `fold` has it."""
    held = _held(client, blocks, grid)
    work = _Pass(f"identifiable-{uuid4().hex[:12]}", grid, start, held)
    layers = {**held.layers, work.name: work}
    dependencies = {name: set(held.dependencies.get(name, ())) for name in held.layers}
    dependencies[work.name] = set(held.layers)
    graph = HighLevelGraph(layers, dependencies)
    wanted = [work.root, *held.wanted()]
    whole, *kept = _started(client, graph, wanted)
    held.keep(kept)

    def tell(unfinished: int) -> None:
        if unfinished:
            done.value = work.rows_of(grid.strips - unfinished)
        report()

    statistic: S = _awaited(client, whole, work.strip_group, tell)
    return statistic


def on_each(client: Any, work: Callable[[A], R], items: Sequence[A], tell: Callable[[int], None]) -> list[R]:
    """`[work(item) for item in items]`, a task each; `tell(done)` is told how many are done."""
    name = f"identifiable-each-{uuid4().hex[:12]}"
    tasks: dict[Key, Any] = {f"{name}-work": _Parcel.of(work)}
    tasks |= {(name, i): (_called, f"{name}-work", _Parcel.of(item)) for i, item in enumerate(items)}
    tasks[f"{name}-whole"] = (_together, *((name, i) for i in range(len(items))))
    (whole,) = _started(client, tasks, [f"{name}-whole"])
    found: list[R] = _awaited(client, whole, name, lambda unfinished: tell(len(items) - unfinished))
    return found


class Ahead:
    """`read(first, stop)` on the workers of a cluster, some steps before it is asked for: for whoever reads n rows in order."""

    def __init__(self, client: Any, read: Callable[[int, int], Any], n: int):
        self._client, self._n = client, n
        self._name = f"identifiable-ahead-{uuid4().hex[:12]}"
        (self._read,) = _started(client, {self._name: _Parcel.of(read)}, [self._name])
        self._steps = 1 + AHEAD * max(sum(client.nthreads().values()), 1)
        self._coming: dict[tuple[int, int], Any] = {}

    def __call__(self, first: int, stop: int) -> Any:
        step = max(stop - first, 1)
        if (first, stop) not in self._coming:
            self._coming.clear()
        for a in range(first, min(first + self._steps * step, self._n), step):
            place = (a, min(a + step, self._n))
            if place not in self._coming:
                self._coming[place] = self._client.submit(
                    _called, self._read, *place, key=(self._name, a, uuid4().hex), retries=RETRIES
                )
        return _awaited(self._client, self._coming.pop((first, stop)), self._name, lambda unfinished: None)


def _started(client: Any, graph: Any, keys: list[Key]) -> list[Any]:
    """The futures of these keys. Dask warns of a state of more than 10 MB, which is that of 1,200 columns."""
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
        futures: list[Any] = client.get(graph, keys, sync=False, retries=RETRIES)
    return futures


def _awaited(client: Any, whole: Any, group: str, tell: Callable[[int], None]) -> Any:
    """What a task leaves, or the error of ours that a task it needs has left."""
    try:
        found = _watched(client, whole, group, tell)
    except BaseException:
        with suppress(Exception):  # a client that was closed has nothing to cancel
            whole.cancel()
        raise
    if isinstance(found, _Failed):
        raise found.error
    return found


def _watched(client: Any, whole: Any, group: str, tell: Callable[[int], None]) -> Any:
    """What a task leaves; meanwhile `tell(unfinished tasks of the group)`, and an eye on whether anybody is there to do it."""
    from distributed import wait

    alone = time.monotonic()
    while True:
        try:
            wait(whole, timeout=POLL)  # not result(timeout=), which at its end may cancel what is on its way here
            return whole.result()
        except TimeoutError:
            pass
        except Exception as error:
            raise _explained(client, error) from None
        try:
            unfinished, workers = client.run_on_scheduler(_state_of, group=group)
        except Exception as error:
            raise _explained(client, error) from None
        if workers:
            alone = time.monotonic()
        elif time.monotonic() - alone > PATIENCE:
            raise DataError(
                f"the Dask cluster at {_address(client)} has had no worker for {PATIENCE:.0f} s; start one with "
                "'dask worker ADDRESS', or let it grow, then run the command again."
            )
        tell(unfinished)


def _state_of(dask_scheduler: Any, group: str) -> tuple[int, int]:
    """Tasks of a group that are not finished, and workers: run by the scheduler."""
    known = dask_scheduler.task_groups.get(group)
    states = {} if known is None else known.states
    return sum(states.get(state, 0) for state in UNFINISHED), len(dask_scheduler.workers)


def _explained(client: Any, error: Exception) -> DataError:
    """Whatever went wrong elsewhere, in a line that says what to do."""
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        return DataError(
            f"workers of the Dask cluster died {RETRIES} times on one part of the rows ({error!s:.200}); "
            "give them more memory, or read fewer rows at once (--blocks)."
        )
    lost = (
        getattr(client, "status", "") != "running" or "Cancelled" in type(error).__name__ or isinstance(error, OSError)
    )
    if lost:
        return DataError(
            f"the Dask scheduler at {_address(client)} went away: the connection was lost; start it again with "
            "'dask scheduler', then run the command again."
        )
    return DataError(f"a worker of the cluster failed: {error!r:.300}")


def _address(client: Any) -> str:
    scheduler = getattr(client, "scheduler", None)
    return str(getattr(scheduler, "address", "an unknown address"))


@dataclass(frozen=True)
class _Failed:
    """An error of ours, which no retry would mend, as the value of a task."""

    error: IdentifiableError


@dataclass(frozen=True, eq=False)
class _Parcel:
    """What only the workers unpack: Dask looks for no tasks in it, and the scheduler need not know its classes.

    Each worker unpacks it once, so that its tasks share what they can: a mapped file, and the buffers of a pass.
    """

    content: bytes

    @classmethod
    def of(cls, thing: Any) -> _Parcel:
        return cls(cloudpickle.dumps(thing))

    @cached_property
    def opened(self) -> Any:
        return cloudpickle.loads(self.content)

    def __getstate__(self) -> dict[str, bytes]:
        return {"content": self.content}


class _Pass(Layer):  # type: ignore[misc] # untyped base
    """The tasks of one pass, drawn when the scheduler asks for them."""

    def __init__(self, name: str, grid: Grid, start: Callable[[], Any], held: _Held):
        super().__init__()
        self.name, self.grid, self.start = name, grid, _Parcel.of(start)
        self.tables, self.strips = held.tables, held.strips
        self._drawn: dict[Key, Any] | None = None

    @property
    def strip_group(self) -> str:
        return f"{self.name}-strip"

    @property
    def root(self) -> Key:
        return f"{self.name}-whole"

    def rows_of(self, strips: int) -> int:
        return self.grid.n * min(strips, self.grid.strips) // self.grid.strips

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_drawn": None}

    def is_materialized(self) -> bool:
        return self._drawn is not None

    def get_output_keys(self) -> set[Key]:
        return {self.root}

    @property
    def drawn(self) -> dict[Key, Any]:
        if self._drawn is None:
            state = f"{self.name}-state"
            tasks: dict[Key, Any] = {state: self.start}
            for i in range(self.grid.strips):
                given = [self.strips(i)] if self.strips is not None else []
                tasks[(self.strip_group, i)] = (_strip, self.tables, state, self.grid, i, *given)
            merges = _tree(self.name, [(self.strip_group, i) for i in range(self.grid.strips)])
            *_, last = merges
            tasks |= {self.root if key == last else key: task for key, task in merges.items()}
            self._drawn = tasks
        return self._drawn

    def __getitem__(self, key: Key) -> Any:
        return self.drawn[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self.drawn)

    def __len__(self) -> int:
        return len(self.drawn)


def _tree(name: str, items: list[Key]) -> dict[Key, Any]:
    """Tasks that merge `items` as `merged_in_order` does, up to `MERGED` at a time; the last of them has the whole."""
    tasks: dict[Key, Any] = {}
    level = 0
    while len(items) > 1 or not tasks:
        above = []
        for g in range(0, len(items), STRIPS):
            merged, *later = items[g : g + STRIPS]
            for j in range(0, len(later), MERGED - 1):
                key = (f"{name}-merge", level, g, j)
                tasks[key] = (_merged, merged, *later[j : j + MERGED - 1])
                merged = key
            above.append(merged)
        if len(items) == 1:
            tasks[f"{name}-merge"] = (_merged, *items)
        items, level = above, level + 1
    return tasks


def _strip(tables: _Parcel, start: _Parcel, grid: Grid, i: int, given: list[NDArray[Any]] | None = None) -> Any:
    """The statistic of one strip, on a worker."""
    _keep_freed_memory()
    part = grid.strip(i)
    blocks = tables.opened if given is None else [Blocks(_Shifted(rows, part[0], grid.n)) for rows in given]
    try:
        with one_blas_thread():
            return walk(blocks, start.opened, part, grid.chunk)
    except IdentifiableError as error:
        return _Failed(error)
    except Exception as error:
        raise RuntimeError(f"rows {part[0]} to {part[1]}: {error!r:.200}") from error


@cache
def _keep_freed_memory() -> None:
    """Let this worker use memory again that it has freed, up to `FREED` bytes, as a process does that Dask has not started.

    Dask starts workers with MALLOC_TRIM_THRESHOLD_=65536, which switches off that glibc adapts: each chunk of rows is then a new
    mapping, whose pages the system clears again. That was a tenth of a pass (400,000 x 256).
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is not None:  # another C library may have none
        set_option(M_MMAP_THRESHOLD, FREED // 2)
        set_option(M_TRIM_THRESHOLD, FREED)


def _read(tables: _Parcel, grid: Grid, i: int) -> list[NDArray[Any]]:
    """The rows of a strip of every table, decoded, to be kept."""
    first, last = grid.strip(i)
    return [np.ascontiguousarray(table[first:last]) for table in tables.opened]


def _called(work: _Parcel, *given: Any) -> Any:
    """A function of a parcel, on a worker; what it is given may be parcels too."""
    _keep_freed_memory()
    try:
        with one_blas_thread():
            return work.opened(*(each.opened if isinstance(each, _Parcel) else each for each in given))
    except IdentifiableError as error:
        return _Failed(error)


def _together(*found: Any) -> Any:
    return next((each for each in found if isinstance(each, _Failed)), list(found))


def _merged(first: Any, *later: Any) -> Any:
    """All in one, in order; what other tasks may be given again stays as it is."""
    for found in (first, *later):
        if isinstance(found, _Failed):
            return found
    whole = deepcopy(first) if later else first
    for found in later:
        whole.merge(found)
    return whole


class _Shifted:
    """Rows of a strip under the numbers they have in the table."""

    def __init__(self, rows: NDArray[Any], first: int, n: int):
        self.rows, self.first = rows, first
        self.shape, self.dtype = (n, rows.shape[1]), rows.dtype

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        return self.rows[rows.start - self.first : rows.stop - self.first]


@dataclass(eq=False)
class _Held:
    """How the strips of some tables reach the tasks, and what of them stays on the workers while the tables are used."""

    blocks: Sequence[Blocks]
    tables: Key
    strips: Callable[[int], Key] | None
    layers: dict[str, Any]
    dependencies: dict[str, set[str]]
    keys: list[Key]
    futures: list[Any] = field(default_factory=list)

    def wanted(self) -> list[Key]:
        """The keys to be kept that are not yet."""
        return [] if self.futures else self.keys

    def keep(self, futures: list[Any]) -> None:
        self.futures = self.futures or futures


_HELD: WeakKeyDictionary[Any, dict[tuple[int, ...], _Held]] = WeakKeyDictionary()


def _held(client: Any, blocks: Sequence[Blocks], grid: Grid) -> _Held:
    """What is known of these tables on this cluster; of others nothing is kept, but for those of the last few folds."""
    known = _HELD.setdefault(client, {})
    place = tuple(id(b) for b in blocks)
    if place not in known:
        while len(known) >= KEPT_TABLES:
            known.pop(next(iter(known)))
        known[place] = _described(client, blocks, grid)
    return known[place]


KEPT_TABLES = 4


@dataclass(frozen=True)
class _StripKey:
    """The key of strip i: a function that travels."""

    name: str

    def __call__(self, i: int) -> Key:
        return (self.name, i)


def _described(client: Any, blocks: Sequence[Blocks], grid: Grid) -> _Held:
    name = f"identifiable-rows-{uuid4().hex[:12]}"
    tables = f"{name}-tables"
    layers: dict[str, Any] = {}
    dependencies: dict[str, set[str]] = {}
    fits = sum(b.n * b.d * b.dtype.itemsize for b in blocks) <= HELD_SHARE * _memory(client)
    if any(hasattr(b.base, "__dask_graph__") for b in blocks):
        arrays = [_as_dask(b, grid) for b in blocks]
        graph: dict[Key, Any] = {tables: _Parcel.of([])}
        for i in range(grid.strips):
            graph[(name, i)] = (_together, *((array.name, i, 0) for array in arrays))
        for array in arrays:
            layers |= array.dask.layers
            dependencies |= array.dask.dependencies
        layers[name] = graph
        dependencies[name] = {array.name for array in arrays}
        strips: Callable[[int], Key] | None = _StripKey(name)
    elif fits and any(b.decoded for b in blocks):
        graph = {tables: _Parcel.of(list(blocks))}
        for i in range(grid.strips):
            graph[(name, i)] = (_read, tables, grid, i)
        layers[name] = graph
        strips = _StripKey(name)
    else:
        layers[name] = {tables: _Parcel.of(list(blocks))}
        strips = None
    keys = [tables, *([(name, i) for i in range(grid.strips)] if strips is not None and fits else [])]
    return _Held(blocks, tables, strips, layers, dependencies, keys)


def _as_dask(blocks: Blocks, grid: Grid) -> Any:
    """The table as a Dask array of one block for each strip."""
    import dask.array

    rows = tuple(last - first for first, last in map(grid.strip, range(grid.strips)))
    chunks = (rows, (blocks.d,))
    if not hasattr(blocks.base, "__dask_graph__"):
        return dask.array.from_array(_Read(blocks), chunks=chunks, asarray=False)
    return blocks.lazily().rechunk(chunks)


class _Read:
    """A table as Dask reads one: by pairs of slices."""

    ndim = 2

    def __init__(self, blocks: Blocks):
        self.blocks, self.shape, self.dtype = blocks, blocks.shape, blocks.dtype

    def __getitem__(self, place: tuple[slice, slice]) -> NDArray[Any]:
        rows, columns = place
        return self.blocks[rows][:, columns]


def _memory(client: Any) -> float:
    """Bytes that all workers together may use."""
    return float(client.run_on_scheduler(_memory_of))


def _memory_of(dask_scheduler: Any) -> int:
    return sum(worker.memory_limit or 0 for worker in dask_scheduler.workers.values())
