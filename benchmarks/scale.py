"""The fold on a Dask cluster of this machine, beside the same fold on threads.

    python benchmarks/scale.py                       # about ten minutes, 1 GB of disk; writes results/scale.json
    python benchmarks/scale.py --rows 50000 --output /tmp/try.json
    python benchmarks/scale.py --only throughput     # of the file that is there, this part alone is measured again

`throughput`: `resolve` without refits of 1,000,000 x 256 float32, by two threads and by two worker processes, same cores, same bits;
each twice. The first is cold: the cluster is running, but its workers have not imported anything of ours; the second is warm. CPU seconds
are those of this process (with the scheduler in it) and of the workers: on a machine that others use, the ratio of these is what can be
repeated. `bytes`: what each pass sends to the client, over 4 d² x 8. `memory`: peak of the client and of the largest worker at three
sizes, above what they have before. `model`: `resolve` at three sizes on threads and on worker processes, both warm, and the operations a
second and core that docs/scaling.md counts with. `client`: bytes and seconds to hand a pass of 16 to 10,000 strips to a scheduler that
does nothing with it.
"""

from __future__ import annotations

import argparse
import json
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import distributed
import numpy as np
from machine import machine

from identifiable.api import resolve
from identifiable.blocks import Blocks, cluster, fold

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


OPTIONS: dict[str, Any] = {"stability": 0, "restarts": 1}


@contextmanager
def two_workers() -> Iterator[Any]:
    dask.config.set({"distributed.logging.distributed": "error"})
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local,
        distributed.Client(local) as client,
    ):
        yield client


def measured(path: str, client: Any = None) -> tuple[dict[str, float], Any]:
    """Seconds, and CPU seconds of all processes, of one `resolve`."""

    def cpu() -> float:
        there = {} if client is None else client.run(time.process_time)
        return time.process_time() + sum(there.values())

    before, start = cpu(), time.perf_counter()
    found = resolve(path, scheduler=client, **OPTIONS)
    wall = time.perf_counter() - start
    return {"wall_s": wall, "cpu_s": cpu() - before}, found


def throughput(path: str) -> dict[str, Any]:
    sent: list[tuple[str, int]] = []
    whole = cluster._awaited

    def counted(*given: Any) -> Any:
        found = whole(*given)
        sent.append((type(found).__name__, len(pickle.dumps(found))))
        return found

    cluster._awaited = counted
    runs: dict[str, dict[str, float]] = {}
    with two_workers() as client:
        for name in ("cold", "warm"):
            runs[f"threads_{name}"], here = measured(path)
            sent.clear()
            runs[f"cluster_{name}"], there = measured(path, client)
    d = here.result.inputs[0].d
    return {
        **runs,
        **{
            f"ratio_of_{what}_{name}": runs[f"threads_{name}"][what] / runs[f"cluster_{name}"][what]
            for what in ("wall_s", "cpu_s")
            for name in ("cold", "warm")
        },
        "passes": here.result.passes,
        "same_bits": bool(np.array_equal(here.to_components.matrix, there.to_components.matrix)),
        "bytes_over_4d2_doubles": [[name, round(size / (4 * d * d * 8), 3)] for name, size in sent],
    }


def memory(path: str) -> dict[str, float]:
    with two_workers() as client:
        before, at = max(client.run(peak).values()), peak()
        resolve(path, scheduler=client, **OPTIONS, tol=1e-3)
        return {"client_mb": peak() - at, "worker_mb": max(client.run(peak).values()) - before}


def model(path: str) -> dict[str, Any]:
    """Operations of the passes (2 n r (d + r) each, and n d² of the moments) over the seconds that all of `resolve` takes."""
    found: dict[str, Any] = {}
    with two_workers() as client:
        for where in (None, client):
            measured(path, where)
            name = "threads" if where is None else "workers"
            found[name], resolved = measured(path, where)
            given, passes = resolved.result.inputs[0], resolved.result.passes
            operations = 2 * given.n * given.d * (2 * given.d * passes + given.d)
            found[name]["gflops_of_a_core"] = operations / found[name]["cpu_s"] / 1e9
    return {"passes": passes, **found}


def apart(what: str, path: str) -> dict[str, Any]:
    """One measurement in a process of its own: a peak is never taken back, and workers import what their parent's main module does."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import json, scale; "
        f"print(json.dumps(scale.{what}({path!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=7200, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
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
    parser.add_argument("--only", choices=("throughput", "memory", "model", "client"))
    typed = parser.parse_args()
    result = json.loads(typed.output.read_text()) if typed.only and typed.output.exists() else {}
    result |= {"machine": machine(), "shape": [typed.rows, typed.width]}
    with tempfile.TemporaryDirectory(prefix="identifiable-scale-") as name:
        path = Path(name) / "x.npy"
        for part in [typed.only] if typed.only else ["throughput", "memory", "model", "client"]:
            if part == "client":
                result[part] = client_work()
            elif part == "throughput":
                result[part] = apart(part, made(path, typed.rows, typed.width))
            else:
                sizes = [n * typed.rows // 1_000_000 for n in SIZES]
                result[part] = [{"rows": n, **apart(part, made(path, n, typed.width))} for n in sizes]
            print(json.dumps({part: result[part]}, indent=1), flush=True)
    typed.output.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if result["throughput"]["same_bits"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
