"""Exact nearest rows against the bare product: python benchmarks/search.py [--queries 10000] [--rows 200000] [--width 384]

`product` makes the same scores in blocks of 1,024 queries by 4,096 rows, float32, one BLAS thread, and forgets them. `nearest_rows`
finds the ten nearest rows exactly, `index` in rows held in memory (prepared before), both on one worker. Rounds take turns; a
ratio is formed within each round. The lists of a few queries must be those of brute force in float64, or the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from machine import interleaved, machine, ratios, seconds, warnings_of

from identifiable.blocks import Blocks, one_blas_thread
from identifiable.neighbours import Index, Metric, nearest_rows
from identifiable.run import Run

RESULTS = Path(__file__).parent / "results" / "search.json"
K, CHECKED = 10, 20
ALONE = Run(workers=1)


def table(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Rows with a decaying spectrum and a mean, as embeddings have them."""
    return rng.standard_normal((n, d), dtype=np.float32) * np.logspace(0, -1.5, d, dtype=np.float32) + np.float32(0.2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--metric", choices=("cosine", "euclidean"), default="cosine")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    about = machine()
    rng = np.random.default_rng(0)
    rows, queries = (table(n, arguments.width, rng) for n in (arguments.rows, arguments.queries))
    metric: Metric = arguments.metric
    nearest_rows(Blocks(rows[:100]), queries[:10], K, metric=metric, run=ALONE)  # compiles
    index = Index(rows, metric=metric)

    space = np.empty((1024, 4096), np.float32)

    def product() -> None:
        for a in range(0, len(rows), 4096):
            block = rows[a : a + 4096].T
            for b in range(0, len(queries), 1024):
                part = queries[b : b + 1024]
                np.matmul(part, block, out=space[: len(part), : block.shape[1]])

    with one_blas_thread():
        taken = interleaved(
            {
                "product": product,
                "nearest_rows": lambda: nearest_rows(Blocks(rows), queries, K, metric=metric, run=ALONE),
                "index": lambda: index.nearest(queries, K, run=ALONE),
            },
            arguments.repeat,
            tick=lambda text: print(text, file=sys.stderr),
        )
    wide, few = (a.astype(np.float64) for a in (rows, queries[:CHECKED]))
    if metric == "cosine":
        wide, few = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (wide, few))
    brute = np.array([np.argsort(np.square(wide - q).sum(axis=1), kind="stable")[:K] for q in few])
    exact = all(np.array_equal(taken[name][0].result[:CHECKED], brute) for name in ("nearest_rows", "index"))
    found = {
        "machine": about,
        "warnings": warnings_of(about),
        "shape": {
            "queries": arguments.queries,
            "rows": arguments.rows,
            "width": arguments.width,
            "k": K,
            "metric": metric,
        },
        "exact": exact,
        "seconds": {name: seconds(runs) for name, runs in taken.items()},
        "over_product": {name: ratios(taken[name], taken["product"]) for name in ("nearest_rows", "index")},
    }
    arguments.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, ratio in found["over_product"].items():
        print(f"{name} / product: CPU {ratio['cpu']:.3f}, wall {ratio['wall']:.3f}")
    print(f"exact: {exact}")
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
