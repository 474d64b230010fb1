"""What the benchmarks share: the machine they ran on, wall and CPU seconds, and peak memory."""

from __future__ import annotations

import gc
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from identifiable.blocks import available_workers

QUIET_LOAD = 0.5


@dataclass(frozen=True)
class Timed:
    """What a run returned and what it took; `cpu` counts every thread of this process."""

    result: Any
    wall: float
    cpu: float


def timed(run: Callable[[], Any]) -> Timed:
    gc.collect()  # so that freeing what the last run left is not charged to this one
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    return Timed(result, time.perf_counter() - wall, time.process_time() - cpu)


def interleaved(
    runs: Mapping[str, Callable[[], Any]], repeat: int, *, tick: Callable[[str], None] | None = None
) -> dict[str, list[Timed]]:
    """A B C, A B C, ...: noise of the machine that outlasts a round falls on every side of a ratio."""
    taken: dict[str, list[Timed]] = {name: [] for name in runs}
    for k in range(repeat):
        for name, run in runs.items():
            if tick is not None:
                tick(f"round {k + 1} of {repeat}: {name}")
            taken[name].append(timed(run))
    return taken


def ratios(above: Sequence[Timed], below: Sequence[Timed]) -> dict[str, Any]:
    """Median and all values of the ratio within each round, by wall clock and by CPU."""
    both = list(zip(above, below, strict=True))
    wall, cpu = [a.wall / b.wall for a, b in both], [a.cpu / b.cpu for a, b in both]
    return {
        "wall": statistics.median(wall),
        "cpu": statistics.median(cpu),
        "wall_all": wall,
        "cpu_all": cpu,
    }


def seconds(runs: Sequence[Timed]) -> dict[str, Any]:
    """Median, best and all values, as they go into the JSON."""
    wall, cpu = [r.wall for r in runs], [r.cpu for r in runs]
    return {
        "wall_s": statistics.median(wall),
        "cpu_s": statistics.median(cpu),
        "best_wall_s": min(wall),
        "wall_s_all": wall,
        "cpu_s_all": cpu,
    }


def machine() -> dict[str, Any]:
    """Processor, cores, versions, BLAS, and the load average now. Call it before the work starts."""
    return {
        "processor": _processor(),
        "cores": available_workers(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
        "blas": _blas(),
        "load_average_at_start": [round(load, 2) for load in os.getloadavg()],
    }


def warnings_of(about: Mapping[str, Any]) -> list[str]:
    """What a reader must know before trusting these timings. Call it when the work is done."""
    found = []
    load = about["load_average_at_start"][0]
    if load > QUIET_LOAD:
        found.append(f"not quiet: load average {load} at start, above {QUIET_LOAD}")
    threads = [blas["num_threads"] for blas in about["blas"] + _blas()]
    if min(threads, default=about["cores"]) < about["cores"]:
        found.append(f"BLAS had {min(threads)} threads for {about['cores']} cores: the opponents ran below their speed")
    return found


def peak_memory_mb() -> float:
    """High-water mark of this process' resident memory.

    Not `ru_maxrss` on Linux: a child inherits that of the process that started it, so under a large
    parent it reports the parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _blas() -> list[dict[str, Any]]:
    return [
        {key: info.get(key) for key in ("internal_api", "version", "architecture", "num_threads")}
        for info in threadpool_info()
        if info.get("user_api") == "blas"
    ]


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
