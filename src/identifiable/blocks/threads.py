"""Work on the threads of this process, with BLAS at one thread each."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from identifiable.run import PLAIN, Run, Stage

FITTING = Stage("fitting")

A = TypeVar("A")
R = TypeVar("R")


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

    _limited.active = True
    try:
        with _thread_pools(len(sys.modules)).limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.active = False


@lru_cache(maxsize=1)
def _thread_pools(modules: int) -> Any:
    """The libraries with threads of their own, looked for again when more modules are imported: a look takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def silent() -> np.errstate:
    """No warnings of numpy about NaN, infinity and overflow: the caller reports them, with their rows."""
    return np.errstate(invalid="ignore", over="ignore")


def in_threads(work: Callable[[A], R], items: Sequence[A], run: Run = PLAIN, stage: Stage = FITTING) -> list[R]:
    """`[work(item) for item in items]` with one worker thread per core and BLAS at one thread each."""
    finished: list[R] = []

    def report() -> None:
        run.say(stage, len(finished), len(items))

    with one_blas_thread():
        count = min(run.workers or available_workers(), max(len(items), 1))
        for result in in_order(work, items, count, threading.Event(), report):
            finished.append(result)
    report()
    return finished


def in_order(
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


class Counter:
    """Rows done so far, added to by several threads."""

    def __init__(self) -> None:
        self.value = 0
        self._lock = threading.Lock()

    def add(self, n: int) -> None:
        with self._lock:
            self.value += n
