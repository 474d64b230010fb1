"""`layers` on two models of 12 layers, beside the same measures computed pair by pair with numpy.

    python benchmarks/layers.py                   # about six CPU minutes, 1.5 GB of disk; writes results/layers.json
    python benchmarks/layers.py --rows 2000 --width 96 --count 4 --output /tmp/try.json

The models are made: a residual stream in which every layer adds a bounded function of the one before, with a spectrum over two
decades; the second model is the first, each layer turned, with noise of its own. `ours` is the command in a fresh process: hashes, all
four measures of A with B and of A with itself, intervals and nulls. `naive` measures a pair from its two arrays (centre, three products,
eigendecompositions for SVCCA and the leading components, five fits, neighbours by sorting all distances), with neither intervals nor
nulls, for a few pairs in this process; its time is multiplied up to as many pairs. CKA, SVCCA and overlap must equal ours to 1e-8, R²
(other folds) to 0.01, or the exit code is 1. Memory is the peak of the fresh process above that of one that only imports.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine, timed, warnings_of
from safetensors.numpy import load_file, save_file

from identifiable.blocks import one_blas_thread
from identifiable.identifiability.neighbours import SAMPLE_ROWS
from identifiable.rows import plan_rows

COMPONENTS, NEIGHBOURS, FOLDS = 256, 10, 5
CHILD = """
import json, resource, sys, time
sys.path.insert(0, {here!r})
from machine import peak_memory_mb
import identifiable
from identifiable.api.layering import layers
from identifiable import identifiability
import scipy.linalg, scipy.special
if {only_imports}:
    print(json.dumps({{"peak_mb": peak_memory_mb()}}))
else:
    wall, cpu = time.perf_counter(), time.process_time()
    found = layers({a!r}, {b!r})
    spent = {{"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu, "peak_mb": peak_memory_mb()}}
    print(json.dumps({{**spent, "result": json.loads(found.to_json())}}))
"""


def make(folder: Path, rows: int, width: int, count: int) -> tuple[Path, Path]:
    """Two files of layers."""
    rng = np.random.default_rng(0)
    spread = np.logspace(0, -1, width)
    x = rng.standard_normal((rows, width)) * spread
    models: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    ids = np.arange(rows)
    for layer in range(count):
        x = 0.9 * x + 0.5 * np.tanh(2 * x @ rng.standard_normal((width, width)) / np.sqrt(width)) * spread
        turn = np.linalg.qr(rng.standard_normal((width, width)))[0]
        noisy = x @ turn + 0.2 * rng.standard_normal((rows, width)) * spread @ turn
        models[0][f"layer_{layer}"] = x.astype(np.float32)
        models[1][f"layer_{layer}"] = noisy.astype(np.float32)
    paths = (folder / "a.safetensors", folder / "b.safetensors")
    for path, model in zip(paths, models, strict=True):
        save_file({**model, "ids": ids}, path)
    return paths


def child(a: Path, b: Path, *, only_imports: bool = False) -> dict[str, Any]:
    code = CHILD.format(here=str(Path(__file__).parent), a=str(a), b=str(b), only_imports=only_imports)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=3600)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def naive(x: np.ndarray, y: np.ndarray, sample: np.ndarray) -> dict[str, float]:
    """The measures of one pair, from its arrays."""
    n = len(x)
    x, y = (v.astype(np.float64) - v.mean(axis=0, dtype=np.float64) for v in (x, y))
    xx, yy, xy = x.T @ x, y.T @ y, x.T @ y

    def hsic(product: float, p: np.ndarray, q: np.ndarray) -> float:
        s, t = (p**2).sum(1), (q**2).sum(1)
        return float(product - s @ t + s.sum() * t.sum() / ((n - 1) * (n - 2)) - 2 * (s @ t) / (n - 2))

    cka = hsic((xy**2).sum(), x, y) / np.sqrt(hsic((xx**2).sum(), x, x) * hsic((yy**2).sum(), y, y))
    leading, projected = [], []
    k = min(COMPONENTS, n // 10, x.shape[1], y.shape[1])
    for gram, rows in ((xx, x), (yy, y)):
        scale = 1 / np.sqrt(np.diag(gram))
        values, vectors = np.linalg.eigh(gram * scale[:, None] * scale)
        leading.append(vectors[:, ::-1][:, :k] * scale[:, None] / np.sqrt(values[::-1][:k]))
        projected.append(rows @ np.linalg.eigh(gram)[1][:, ::-1][:, :COMPONENTS])
    svcca = np.linalg.svd(leading[0].T @ xy @ leading[1], compute_uv=False).mean()
    error = about = 0.0
    for k in range(FOLDS):
        test = np.arange(n) % FOLDS == k
        (u, v), (s, t) = ((p[~test], p[test]) for p in projected)
        mean_u, mean_s, mean_y = u.mean(0), s.mean(0), y[~test].mean(0)
        left, singular, right = np.linalg.svd((u - mean_u).T @ (s - mean_s))
        scale = singular.sum() / ((u - mean_u) ** 2).sum()
        whole = ((y[test] - mean_y) ** 2).sum()
        outside = whole - ((t - mean_s) ** 2).sum()
        error += ((scale * (v - mean_u) @ left @ right - (t - mean_s)) ** 2).sum() + outside
        about += whole
    lists = []
    for rows in (x[sample], y[sample]):
        squares = (rows**2).sum(1)
        distances = squares[:, None] + squares - 2 * rows @ rows.T
        np.fill_diagonal(distances, np.inf)
        lists.append(np.argsort(distances, axis=1)[:, :NEIGHBOURS])
    overlap = np.mean([len(set(p) & set(q)) for p, q in zip(*(each.tolist() for each in lists), strict=True)])
    return {
        "cka": float(cka),
        "svcca": float(svcca),
        "r2": float(1 - error / about),
        "overlap": float(overlap / NEIGHBOURS),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--count", type=int, default=12, help="layers of each model")
    parser.add_argument("--pairs", type=int, default=4, help="pairs that the naive way measures")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "layers.json")
    options = parser.parse_args()
    about = machine()
    with tempfile.TemporaryDirectory(prefix="layers-", dir=os.environ.get("TMPDIR", "/tmp")) as name:
        a, b = make(Path(name), options.rows, options.width, options.count)
        base = child(a, b, only_imports=True)
        ours = child(a, b)
        models = load_file(a), load_file(b)
    result = ours.pop("result")
    grid = next(grid for grid in result["grids"] if grid["of"] == "models")
    sample = plan_rows(options.rows, models[0]["ids"], seed=0, n_folds=FOLDS).sample(SAMPLE_ROWS)
    spent, worst = [], dict.fromkeys(("cka", "svcca", "r2", "overlap"), 0.0)
    for pair in range(options.pairs):
        i, j = pair % options.count, (3 * pair) % options.count
        with one_blas_thread():
            taken = timed(lambda i=i, j=j: naive(models[0][f"layer_{i}"], models[1][f"layer_{j}"], sample))
        spent.append(taken.cpu)
        for measure, value in taken.result.items():
            worst[measure] = max(worst[measure], abs(value - grid[measure][i][j]))
    pairs = options.count**2 + options.count * (options.count - 1) // 2
    naive_cpu = float(np.median(spent)) * pairs
    record = {
        "machine": about,
        "warnings": warnings_of(about),
        "rows": options.rows,
        "width": options.width,
        "layers": [options.count, options.count],
        "ours": {**ours, "above_imports_mb": ours["peak_mb"] - base["peak_mb"]},
        "naive": {"cpu_s_of_a_pair": spent, "pairs": pairs, "cpu_s": naive_cpu},
        "cpu_ratio": naive_cpu / ours["cpu_s"],
        "joint_gram_mb": 8 * (2 * options.count * options.width) ** 2 / 2**20,
        "largest_difference": worst,
        "matched": result["matched"],
    }
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps({k: v for k, v in record.items() if k != "machine"}, indent=1))
    exact = max(worst["cka"], worst["svcca"], worst["overlap"]) < 1e-8
    return 0 if exact and worst["r2"] < 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
