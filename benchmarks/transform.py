"""What `transform` costs beside the bare product ``X @ matrix + offset`` in the same precision.

    python benchmarks/transform.py            # about one CPU minute; writes results/transform.json
    python benchmarks/transform.py --rows 20000 --output /tmp/try.json

CPU seconds of the whole process, BLAS on one thread. `file` reads a `.npy` and writes one, the bare product then does so too
(np.load, np.save). `flags` computes the leverage of every row besides, which is a second product of the same size.
`memory_beside_in_place` is beside a product into memory that is there already (best of all rounds): a result of its own has to be
allocated, which on some machines costs as much as the product.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from machine import interleaved, machine, ratios
from threadpoolctl import threadpool_limits

from identifiable import AffineMap, Moments
from identifiable.alignment import Aligned, Reach
from identifiable.api.transforming import apply_basis

WIDTHS = (384, 768)
SEED = 20240623


def measured(rows: int, d: int, dtype: str, repeat: int, folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((rows, d), np.float32).astype(dtype)
    matrix, offset = np.linalg.qr(rng.standard_normal((d, d)))[0], rng.standard_normal(d)
    sample = X[:4000].astype(np.float64)
    by = Aligned(AffineMap(matrix, offset), None, Reach.of(Moments.of(sample), sample))
    A, b = matrix.astype(dtype), offset.astype(dtype)
    source, target = folder / "X.npy", folder / "Y.npy"
    np.save(source, X)
    out = np.empty_like(X)

    def in_place() -> None:
        np.matmul(X, A, out=out)
        np.add(out, b, out=out)

    taken = interleaved(
        {
            "bare": lambda: X @ A + b,
            "in_place": in_place,
            "memory": lambda: apply_basis(by, X),
            "bare_file": lambda: np.save(folder / "Z.npy", np.load(source) @ A + b),
            "file": lambda: apply_basis(by, source, target),
            "flags": lambda: apply_basis(by, source, target, flags=folder / "flags.parquet"),
        },
        repeat,
    )
    beside = {"memory": "bare", "file": "bare_file", "flags": "bare_file"}
    best = {name: min(t.cpu for t in times) for name, times in taken.items()}
    return {
        "rows": rows,
        "columns": d,
        "dtype": dtype,
        **{name: ratios(taken[name], taken[below])["cpu"] for name, below in beside.items()},
        "memory_beside_in_place": best["memory"] / best["in_place"],
        "cpu_s": best,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "transform.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        lines = [
            measured(options.rows, d, dtype, options.repeat, Path(folder))
            for d in WIDTHS
            for dtype in ("float32", "float64")
        ]
    for line in lines:
        print(*(f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in line.items() if k != "cpu_s"))
    options.output.write_text(json.dumps({"machine": machine(), "runs": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
