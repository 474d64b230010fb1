"""Exact diameter against brute force: python benchmarks/diameter.py [--n 100000] [--quick]

Brute force is the best we can write: products of 1024 x 1024 rows over the upper triangle with the squared
norms as two more columns, so that one matrix product and one maximum settle a tile; one worker thread for each
core and one BLAS thread. Twice: in float64 throughout (the reference), and in float32 with every pair within
rounding of the best evaluated in float64 (the faster opponent).

Brute force in float32 runs in full on every dataset and must agree with `diameter`, except where ties are too many
for it to evaluate (`ties_capped`, near copies: there float64 decides). In float64 it runs in full on real-like data,
isotropic Gaussians and near copies; elsewhere on 2 % of the tiles, and their time is scaled (`scaled`): it does not
depend on the values. Ratios are within one run, on the same number of threads; `diameter` is the median of three.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import available_workers, one_blas_thread
from identifiable.diameter import diameter

TILE = 1024
MOST_TIES = 2**14  # evaluated in one tile of brute force; more would only make the opponent slower
RESULTS = Path(__file__).parent / "results" / "diameter.json"
Table = NDArray[Any]


def spectrum(d: int, decades: float) -> NDArray[np.float64]:
    return np.logspace(0, -decades, d)


def rotation(d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return np.linalg.qr(rng.standard_normal((d, d)))[0]


def real_like(n: int, d: int, rng: np.random.Generator) -> Table:
    """Heavy-tailed, sub-Gaussian and near-Gaussian sources, mixed over 3.5 decades, mildly nonlinear, off centre."""
    sources = rng.standard_normal((n, d), dtype=np.float32)
    sources[:, ::3] = rng.laplace(size=(n, len(range(0, d, 3)))) * np.abs(sources[:, ::3]) ** 0.5
    sources[:, 1::3] = rng.uniform(-1.7, 1.7, size=(n, len(range(1, d, 3))))
    mixing = (rotation(d, rng) * spectrum(d, 3.5)) @ rotation(d, rng)
    mixed = sources @ mixing.astype(np.float32)
    return np.asarray(mixed + 0.1 * np.tanh(mixed) + rng.standard_normal(d), np.float32)


def anisotropic_heavy(n: int, d: int, rng: np.random.Generator) -> Table:
    return np.asarray((rng.standard_t(4, (n, d)) * spectrum(d, 3.5)) @ rotation(d, rng), np.float32)


def anisotropic_gauss(n: int, d: int, rng: np.random.Generator) -> Table:
    return np.asarray((rng.standard_normal((n, d)) * spectrum(d, 3.5)) @ rotation(d, rng), np.float32)


def isotropic_gauss(n: int, d: int, rng: np.random.Generator) -> Table:
    return rng.standard_normal((n, d), dtype=np.float32)


def heavy(n: int, d: int, rng: np.random.Generator) -> Table:
    return np.asarray(rng.standard_t(3, (n, d)), np.float32)


def sphere(n: int, d: int, rng: np.random.Generator) -> Table:
    """Unit norms: every row is equally far from the centre."""
    rows = rng.standard_normal((n, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def normalised(n: int, d: int, rng: np.random.Generator) -> Table:
    """Embeddings divided by their norms, in a cone, as contrastive encoders give them."""
    rows = rng.standard_normal((n, d)) * spectrum(d, 1.5) @ rotation(d, rng) + 0.5 * rng.standard_normal(d) / d**0.5
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def two_points(n: int, d: int, rng: np.random.Generator) -> Table:
    """Copies of two rows: a quarter of all pairs tie."""
    return rng.standard_normal((2, d), dtype=np.float32)[rng.integers(0, 2, n)]


def near_copies(n: int, d: int, rng: np.random.Generator) -> Table:
    """Two clusters narrower than float32 rounding, all rows distinct in float64."""
    return rng.standard_normal((2, d))[rng.integers(0, 2, n)] + 1e-10 * rng.standard_normal((n, d))


def one_hot(n: int, d: int, rng: np.random.Generator) -> Table:
    return np.eye(d, dtype=np.float32)[rng.integers(0, d, n)]


CASES: list[tuple[int, Callable[[int, int, np.random.Generator], Table]]] = [
    (2, heavy),
    (2, isotropic_gauss),
    (2, sphere),
    (3, sphere),
    (8, sphere),
    (64, real_like),
    (64, anisotropic_heavy),
    (64, anisotropic_gauss),
    (64, isotropic_gauss),
    (64, normalised),
    (64, sphere),
    (64, two_points),
    (64, near_copies),
    (64, one_hot),
    (384, real_like),
    (384, anisotropic_heavy),
    (384, anisotropic_gauss),
    (384, normalised),
    (384, isotropic_gauss),
]


FULL64 = (real_like, isotropic_gauss, near_copies)


def brute_force(table: Table, dtype: type, part: float = 1.0) -> dict[str, Any]:
    """Largest distance, and seconds; with `part` < 1 only that share of the tiles, their time scaled up."""
    clock = [(time.perf_counter(), time.process_time())]
    n, d = table.shape
    centred = table.astype(np.float64)
    centred -= centred.mean(axis=0)
    half = (np.einsum("ij,ij->i", centred, centred) / 2)[:, None]
    one = np.ones_like(half)
    left: Table = np.hstack([-centred, half, one]).astype(dtype)
    right: Table = np.hstack([centred, one, half]).astype(dtype)
    del centred
    tolerance = 4 * (d + 8) * float(np.finfo(dtype).eps) * float(half.max())
    starts = range(0, n, TILE)
    tiles = [(a, b) for a in starts for b in starts if b >= a]
    total = len(tiles)
    tiles = tiles[:: max(round(1 / part), 1)]
    best = [0.0]
    capped: list[tuple[float, int, int]] = []

    def run(which: range) -> list[tuple[float, int, int]]:
        product: Table = np.empty((TILE, TILE), dtype)
        kept: list[tuple[float, int, int]] = []
        for a, b in (tiles[t] for t in which):
            x, y = left[a : a + TILE], right[b : b + TILE]
            out = product if len(x) == len(y) == TILE else np.empty((len(x), len(y)), dtype)
            np.matmul(x, y.T, out=out)
            top = float(out.max())
            if top >= best[0] - tolerance:
                best[0] = max(best[0], top)
                kept.append((top, a, b))
        return kept

    workers = available_workers()
    clock.append((time.perf_counter(), time.process_time()))
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        kept = [
            tile for some in pool.map(run, [range(w, len(tiles), workers) for w in range(workers)]) for tile in some
        ]
    clock.append((time.perf_counter(), time.process_time()))

    def check(tile: tuple[float, int, int]) -> float:
        top, a, b = tile
        if top < best[0] - tolerance:
            return 0.0
        i, j = np.nonzero(left[a : a + TILE] @ right[b : b + TILE].T >= best[0] - tolerance)
        if len(i) > MOST_TIES:
            capped.append(tile)
        i, j = i[:MOST_TIES], j[:MOST_TIES]
        gap = table[a + i].astype(np.float64) - table[b + j].astype(np.float64)
        return float(np.einsum("ij,ij->i", gap, gap).max(initial=0.0))

    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        value = max(pool.map(check, kept)) ** 0.5
    clock.append((time.perf_counter(), time.process_time()))
    (set_up, tiles_wall, checks), (set_up_cpu, tiles_cpu, checks_cpu) = np.diff(np.array(clock), axis=0).T
    scale = total / len(tiles)
    return {
        "value": value,
        "wall_s": set_up + scale * tiles_wall + checks,
        "cpu_s": set_up_cpu + scale * tiles_cpu + checks_cpu,
        "scaled": scale > 1,
        "ties_capped": bool(capped),
    }


def measure(n: int, d: int, make: Callable[..., Table], seed: int, part32: float, part64: float) -> dict[str, Any]:
    table = make(n, d, np.random.default_rng(seed))
    diameter(table[:2000])  # load what is loaded once
    runs = []
    for _ in range(3):
        wall, cpu = time.perf_counter(), time.process_time()
        found = diameter(table)
        runs.append((time.perf_counter() - wall, time.process_time() - cpu))
        if runs[0][0] > 5:
            break
    wall, cpu = (float(np.median(column)) for column in zip(*runs, strict=True))
    row: dict[str, Any] = {
        "n": n,
        "d": d,
        "data": make.__name__,
        "seed": seed,
        "diameter": found.value,
        "rows": list(found.rows),
        "evaluated_share": found.evaluated / (n * (n - 1) / 2),
        "wall_s": wall,
        "cpu_s": cpu,
        "runs": len(runs),
    }
    for bits, dtype, part in ((32, np.float32, part32), (64, np.float64, part64)):
        brute = brute_force(table, dtype, part)
        row[f"brute{bits}"] = brute
        row[f"wall_ratio_{bits}"], row[f"cpu_ratio_{bits}"] = brute["wall_s"] / wall, brute["cpu_s"] / cpu
        close = abs(found.value - brute["value"]) <= 1e-13 * found.value
        row[f"equals_brute{bits}"] = None if brute["scaled"] or (brute["ties_capped"] and not close) else bool(close)
    return row


def machine() -> dict[str, Any]:
    return {
        "platform": platform.platform(),
        "cores": available_workers(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "load_before": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="brute force on 5 %% of the pairs; prints, writes nothing")
    parser.add_argument("--only", help="a dataset's name or width")
    options = parser.parse_args()
    about, rows = machine(), []
    names = " ".join(f"{name:>8}" for name in ("wall_s", "brute32", "brute64", "ratio32", "ratio64", "cpu32", "cpu64"))
    print(f"{'d':>4} {'data':18} {names}  share equals brute32, brute64 (None: not run in full, or ties capped)")
    for d, make in CASES:
        if options.only and options.only not in (str(d), make.__name__):
            continue
        part32, part64 = (0.05, 0.02) if options.quick else (1.0, 1.0 if make in FULL64 else 0.02)
        row = measure(options.n, d, make, options.seed, part32, part64)
        rows.append(row)
        seconds = f"{row['wall_s']:8.3f} {row['brute32']['wall_s']:8.2f} {row['brute64']['wall_s']:8.2f}"
        ratios = " ".join(f"{row[f'{kind}_ratio_{bits}']:8.1f}" for kind in ("wall", "cpu") for bits in (32, 64))
        equal = f"{row['equals_brute32']} {row['equals_brute64']}"
        print(f"{d:4} {make.__name__:18} {seconds} {ratios} {row['evaluated_share']:6.3f} {equal}", flush=True)
    if not options.quick and not options.only:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({"machine": about, "cases": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
