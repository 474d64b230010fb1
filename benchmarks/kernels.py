"""The same tables under other kernels of BLAS and another target of numba: how far numbers move, and whether verdicts do.

    python benchmarks/kernels.py [KERNEL ...]        # docs/reproducibility.md; some 20 s for each kernel

Every kernel runs in a process of its own, with OPENBLAS_CORETYPE (or, for "numba=generic", NUMBA_CPU_NAME) set before numpy is
loaded. Kernels that the processor cannot run end that process, and are said to.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import identifiable
from identifiable import metrics
from identifiable.moments import Moments

KERNELS = ("Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX", "numba=generic", "threads=4")
SHAPES = {
    "laplace": [(2000, 10), (5000, 30)],
    "half Gaussian": [(2000, 12), (3000, 20)],
    "noise": [(500, 15), (300, 10)],
}
SEEDS = 3
OF_THE_RUN = {"not_converged", "refits_not_converged", "starts_disagree"}


def tables() -> Iterator[tuple[str, Any]]:
    for kind, shapes in SHAPES.items():
        for n, d in shapes:
            for seed in range(SEEDS):
                rng = np.random.default_rng([seed, n, d])
                gaussian = {"laplace": 0, "half Gaussian": d // 2, "noise": d}[kind]
                S = np.hstack([rng.laplace(size=(n, d - gaussian)), rng.standard_normal((n, gaussian))])
                yield kind, S @ rng.standard_normal((d, d))


def measured() -> dict[str, Any]:
    """What one process finds."""
    found: dict[str, Any] = {"scatter": [], "errors": [], "infomec": [], "resolved": []}
    for kind, X in tables():
        rng = np.random.default_rng(len(X))
        found["scatter"].append(Moments.of(X).scatter)
        resolved = identifiable.resolve(X)
        found["resolved"].append(
            (
                kind,
                resolved.to_components(X),
                [c.index for c in resolved.result.identifiable],
                {a.code for a in resolved.result.alerts},
            )
        )
        if kind == "laplace":
            Y = X @ rng.standard_normal((X.shape[1], X.shape[1])) + rng.standard_normal(X.shape)
            rungs = identifiable.compare(X, Y).pairs[0].rungs
            found["errors"].append([r.held_out.mean for r in rungs if r.group != "ica"])
            sources = (X[:, :3] > np.median(X[:, :3], axis=0)).astype(int)
            score = metrics.infomec(sources, X[:, :8])
            found["infomec"].append([score.infom, score.infoe, score.infoc])
    return found


def run(kernel: str, out: Path) -> dict[str, Any] | None:
    environment = dict(os.environ)
    match kernel.split("="):
        case ["numba", name]:
            environment["NUMBA_CPU_NAME"] = name
            environment["NUMBA_CPU_FEATURES"] = ""
        case ["threads", count]:
            environment["OMP_NUM_THREADS"] = environment["OPENBLAS_NUM_THREADS"] = count
        case [name] if name:
            environment["OPENBLAS_CORETYPE"] = name
    done = subprocess.run([sys.executable, __file__, "--into", str(out)], env=environment, timeout=3600, check=False)
    return pickle.loads(out.read_bytes()) if done.returncode == 0 else None


def compared(here: dict[str, Any], there: dict[str, Any]) -> str:
    moved = [
        max(np.abs(np.asarray(a) / np.asarray(b) - 1).max() for a, b in zip(here[name], there[name], strict=True))
        for name in ("errors", "infomec")
    ]
    scatter = max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(here["scatter"], there["scatter"], strict=True))
    least, total, verdicts, codes = dict.fromkeys(SHAPES, 1.0), 0, 0, 0
    for (kind, a, kept, first), (_, b, also, second) in zip(here["resolved"], there["resolved"], strict=True):
        d = a.shape[1]
        r = np.abs(np.corrcoef(a, b, rowvar=False)[:d, d:])
        least[kind] = min([least[kind], *(r[i].max() for i in kept)])
        same = {int(r[i].argmax()) for i in kept}  # in the other run's order
        total, verdicts = total + d, verdicts + len(same ^ set(also))
        codes += first - OF_THE_RUN != second - OF_THE_RUN
    return (
        f"moments {scatter:.0e}, errors {moved[0]:.0e}, InfoMEC {moved[1]:.0e}; |r| of reproducible components: laplace "
        f"{least['laplace']:.8f}, half Gaussian {least['half Gaussian']:.5f}; verdicts differ on {verdicts} of {total} "
        f"components, alert codes on {codes} of {len(here['resolved'])} tables"
    )


def main(kernels: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.pickle"
        here = run("", out)
        assert here is not None
        for kernel in kernels:
            there = run(kernel, out)
            print(f"{kernel}: {'not on this processor' if there is None else compared(here, there)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--into"]:
        Path(sys.argv[2]).write_bytes(pickle.dumps(measured()))
    else:
        main(sys.argv[1:] or list(KERNELS))
