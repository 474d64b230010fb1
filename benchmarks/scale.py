"""The fold on a Dask cluster of this machine, beside the same fold on threads.

    python benchmarks/scale.py                       # about five minutes, 1 GB of disk; writes results/scale.json
    python benchmarks/scale.py --rows 50000 --output /tmp/try.json

`throughput`: `resolve` without refits of 1,000,000 x 256 float32, by two threads and by two worker processes, same cores, same bits. The
cluster is running before the clock is started; the first pass, in which workers import, counts. `bytes`: the largest statistic that a
pass sends to the client, over 4 d² x 8. `memory`: peak of the client and of the largest worker at three sizes, above what they have
before. `model`: `resolve` on threads at three sizes, and the operations a second that docs/scaling.md counts with (`--only model` measures
these alone). `client`: bytes and seconds to hand a pass of 16 to 10,000 strips to a scheduler that does nothing with it.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dask
import distributed
import numpy as np
from machine import machine, timed

from identifiable.api import resolve
from identifiable.blocks import Blocks, cluster, fold
from identifiable.intake import blocks_of
from identifiable.io import open_representation

SIZES = (200_000, 400_000, 800_000)
STRIPS = (16, 160, 1_600, 10_000)


class Nothing:
    """A statistic of no work."""

    def add(self, first: int, rows: Any) -> None: ...
    def merge(self, later: Any) -> None: ...


class Counting:
    """A client that hands a pass to nobody."""

    def get(self, graph: Any, keys: Any, **how: Any) -> Any:
        self.sent = len(pickle.dumps(graph))
        raise InterruptedError

    def run_on_scheduler(self, function: Any, **how: Any) -> int:
        return 0


class Far:
    """Rows that lie elsewhere."""

    def __init__(self, n: int):
        self.shape, self.dtype = (n, 256), np.dtype(np.float32)

    def __getitem__(self, rows: Any) -> Any:
        raise AssertionError("nobody reads them")


def made(path: Path, n: int, d: int) -> str:
    """Mixed sources in a file, written in blocks."""
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((d, d)).astype(np.float32) / np.float32(d**0.5)
    out = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
    for a in range(0, n, 50_000):
        out[a : a + 50_000] = rng.laplace(size=(min(50_000, n - a), d)).astype(np.float32) @ mixing
    out.flush()
    return str(path)


def peak(dask_worker: Any = None) -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def throughput(path: str, address: str) -> dict[str, Any]:
    options: dict[str, Any] = {"stability": 0, "restarts": 1}
    here = timed(lambda: resolve(path, **options))
    sent: list[int] = []
    whole = cluster._awaited

    def counted(*given: Any) -> Any:
        found = whole(*given)
        sent.append(len(pickle.dumps(found)))
        return found

    cluster._awaited = counted
    try:
        there = timed(lambda: resolve(path, scheduler=address, **options))
    finally:
        cluster._awaited = whole
    d = here.result.result.inputs[0].d
    same = np.array_equal(here.result.to_components.matrix, there.result.to_components.matrix)
    return {
        "threads_s": here.wall,
        "cluster_s": there.wall,
        "ratio": here.wall / there.wall,
        "passes": here.result.result.passes,
        "folds": len(sent),
        "same_bits": bool(same),
        "largest_statistic_over_4d2_doubles": sorted(size / (4 * d * d * 8) for size in sent)[-3:],
    }


def memory(folder: Path, d: int, sizes: tuple[int, ...]) -> list[dict[str, float]]:
    """Each size in a cluster and a client of its own: a peak is never taken back."""
    import subprocess

    found = []
    for n in sizes:
        path = made(folder / "m.npy", n, d)
        code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import scale; scale.child({path!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=1200, check=True)
        found.append({"rows": n, **json.loads(done.stdout.splitlines()[-1])})
    return found


def child(path: str) -> None:
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local,
        distributed.Client(local) as client,
    ):
        before, at = max(client.run(peak).values()), peak()
        resolve(path, scheduler=client.scheduler.address, stability=0, restarts=1, tol=1e-3)
        print(json.dumps({"client_mb": peak() - at, "worker_mb": max(client.run(peak).values()) - before}))


def model(folder: Path, d: int, sizes: tuple[int, ...]) -> list[dict[str, float]]:
    """Operations of the passes (2 n r (d + r) each, and n d² of the moments) over the seconds that all of `resolve` takes."""
    found = []
    for n in sizes:
        path = made(folder / "m.npy", n, d)
        taken = timed(lambda path=path: resolve(path, stability=0, restarts=1))
        passes = taken.result.result.passes
        operations = 2 * n * d * (2 * d * passes + d)
        found.append({"rows": n, "passes": passes, "wall_s": taken.wall, "gflops": operations / taken.wall / 1e9})
    return found


def client_work() -> list[dict[str, float]]:
    found = []
    for strips in STRIPS:
        table, nobody = Blocks(Far(strips * 64 * 4096)), Counting()
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            try:
                fold([table], Nothing, cluster=nobody)
            except InterruptedError:
                taken.append(time.perf_counter() - start)
        found.append({"strips": strips, "bytes": nobody.sent, "ms": 1000 * min(taken)})
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "scale.json")
    parser.add_argument("--only", choices=("model",))
    typed = parser.parse_args()
    sizes = tuple(n * typed.rows // 1_000_000 for n in SIZES)
    if typed.only:
        with tempfile.TemporaryDirectory(prefix="identifiable-scale-") as name:
            known = json.loads(typed.output.read_text())
            known["model"] = model(Path(name), typed.width, sizes)
        typed.output.write_text(json.dumps(known, indent=1) + "\n")
        print(json.dumps(known["model"], indent=1))
        return 0
    dask.config.set({"distributed.logging.distributed": "error"})
    with tempfile.TemporaryDirectory(prefix="identifiable-scale-") as name:
        folder = Path(name)
        path = made(folder / "x.npy", typed.rows, typed.width)
        blocks_of(open_representation(path))
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local,
            distributed.Client(local) as client,
        ):
            fast = throughput(path, client.scheduler.address)
        os.unlink(path)
        result = {
            "machine": machine(),
            "shape": [typed.rows, typed.width],
            "throughput": fast,
            "memory": memory(folder, typed.width, sizes),
            "model": model(folder, typed.width, sizes),
            "client": client_work(),
        }
    typed.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 0 if fast["same_bits"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
