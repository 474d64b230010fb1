"""Make tests/reference/screen_metrics.json: metrics of a small screen by the libraries that define them.

    pip install copairs==0.5.5 scib-metrics==0.5.10 harmonypy==2.1.0 torch geomloss==0.3.1
    pip install --no-deps efaar_benchmarking==1.0   # its other dependencies are not needed here
    JAX_ENABLE_X64=1 python tests/reference/make_screen_metrics_reference.py

Nothing of `identifiable` is used. The screen (6 plates in 3 batches, 20 perturbations and controls, 300 wells, 12 features) is
stored in thousandths, so the file holds exactly what was scored. Neighbours are scikit-learn's, exact, in float64.
scib-metrics computes in float32 unless JAX_ENABLE_X64 is set; `float32` says how far that is off.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

os.environ["JAX_ENABLE_X64"] = "1"

import jax
import numpy as np
import pandas as pd
import scib_metrics
from copairs.map import average_precision, mean_average_precision
from copairs.matching import assign_reference_index
from efaar_benchmarking.benchmarking import (
    known_relationship_benchmark,
    pert_signal_consistency_benchmark,
    pert_signal_magnitude_benchmark,
)
from harmonypy import compute_lisi
from scib_metrics.nearest_neighbors import NeighborsResults
from scib_metrics.utils import principal_component_regression
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import Bunch

PLATES, PERTURBATIONS, WELLS, WIDTH = 6, 20, 50, 12
NULL = [
    "g00",
    "g02",
    "g06",
    "g09",
    "g11",
]  # stand for unexpressed genes; some have effects, so that p takes several values
DRAWS = 20_000
K = 90


def screen() -> tuple[pd.DataFrame, Any]:
    """g05 to g19 have effects, ever larger; g18 has the same two wells on every plate, g19 is on one plate; the rest are controls."""
    rng = np.random.default_rng(6)
    effects = rng.standard_normal((PERTURBATIONS, WIDTH)) * np.linspace(-0.3, 1.2, PERTURBATIONS)[:, None]
    effects[:5] = 0
    lines, rows = [], []
    for plate in range(PLATES):
        offset = 0.8 * rng.standard_normal(WIDTH)
        wells = 2 + rng.permutation(WELLS - 2)
        treated = [p for p in range(PERTURBATIONS) if p < 19 or plate == 0]
        places = iter(wells.tolist())
        for p in treated:
            for copy in range(2):
                well = copy if p == 18 else next(places)
                lines.append((plate, f"g{p:02d}", well))
                rows.append(effects[p] + offset + rng.standard_normal(WIDTH))
        for well in places:
            lines.append((plate, "control", well))
            rows.append(offset + rng.standard_normal(WIDTH))
    meta = pd.DataFrame(lines, columns=["plate", "perturbation", "well"])
    meta["batch"] = meta.plate // 2
    meta["count"] = np.round(200 + 40 * rng.standard_normal(len(meta))).astype(int)
    return meta, np.round(1000 * np.array(rows)).astype(int)


def listed(values: Any) -> list[float | None]:
    return [None if np.isnan(v) else float(f"{v:.12g}") for v in np.asarray(values, dtype=float)]


def maps(meta: pd.DataFrame, X: Any, cache: str) -> dict[str, Any]:
    index = "reference"
    marked = assign_reference_index(meta, "perturbation == 'control'", reference_col=index)
    treated = meta.perturbation != "control"
    same, other = ["perturbation", index], ["perturbation", index]
    cases = {
        "controls": (marked, X, same, ["plate", "well"], [], other),
        "controls_of_the_plate": (marked, X, same, ["plate"], ["plate"], other),
        "non_replicates": (meta[treated], X[treated], ["perturbation"], ["plate"], [], ["perturbation"]),
    }
    found = {}
    for name, (table, values, pos_same, pos_differ, neg_same, neg_differ) in cases.items():
        ap = average_precision(
            table.reset_index(drop=True), values, pos_same, pos_differ, neg_same, neg_differ, progress_bar=False
        )
        mean = mean_average_precision(
            ap, ["perturbation"], DRAWS, 0.05, seed=0, progress_bar=False, cache_dir=f"{cache}/{name}"
        )
        precision = np.where(ap.n_pos_pairs > 0, ap.average_precision, np.nan)
        found[name] = {
            "rows": np.flatnonzero(treated).tolist() if name == "non_replicates" else list(range(len(meta))),
            "average_precision": listed(precision),
            "positives": ap.n_pos_pairs.tolist(),
            "perturbation": mean.perturbation.tolist(),
            "mean_average_precision": listed(mean.mean_average_precision),
            "normalized": listed(mean.mean_normalized_average_precision),
            "p": listed(mean.p_value),
            "q": listed(mean.corrected_p_value),
        }
    return found


def signals(meta: pd.DataFrame, X: Any) -> dict[str, Any]:
    alike = pert_signal_consistency_benchmark(X, meta, "perturbation", NULL, ["control"], n_jobs=1)
    far = pert_signal_magnitude_benchmark(X, meta, "perturbation", NULL, "control", n_jobs=1)
    far = far[far.pert != "control"]
    return {
        "null": NULL,
        "consistency": {row.pert: listed([row.avgcossim, row.pval]) for row in alike.itertuples()},
        "magnitude": {row.pert: listed([row.edist, row.pval]) for row in far.itertuples()},
    }


def recall() -> dict[str, Any]:
    rng = np.random.default_rng(60)
    names = [f"G{i:02d}" for i in range(40)]
    X = rng.standard_normal((40, 6))
    X[1::2] = X[::2] * np.where(np.arange(20) % 3 == 0, -1, 1)[:, None] + 0.5 * rng.standard_normal((20, 6))
    X = np.round(1000 * X).astype(int)
    pairs = [(f"G{i:02d}", f"G{i + 1:02d}") for i in range(0, 40, 2)]
    pairs += [(names[a], names[b]) for a, b in rng.integers(40, size=(30, 2))]
    pairs += [("G01", "G00"), ("G05", "G05"), ("G07", "elsewhere"), ("G02", "G03")]
    with tempfile.TemporaryDirectory() as folder:
        pd.DataFrame(pairs, columns=["entity1", "entity2"]).to_csv(Path(folder) / "ours.txt", index=False)
        data = Bunch(features=pd.DataFrame(X / 1000), metadata=pd.DataFrame({"gene": names}))
        table = known_relationship_benchmark(
            data, "gene", ["ours"], [(0.05, 0.95), (0.1, 0.9), (0.4, 0.6)], benchmark_data_dir=folder
        )
    return {"names": names, "X": X.tolist(), "pairs": pairs, **{c: table[c][0].item() for c in table if c != "source"}}


def neighbours(X: Any, k: int) -> NeighborsResults:
    distances, indices = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(X).kneighbors(X)
    return NeighborsResults(indices=indices, distances=distances)


def mixing(meta: pd.DataFrame, X: Any) -> dict[str, Any]:
    batch, label = meta.batch.to_numpy().astype(str), meta.perturbation.to_numpy()
    near = neighbours(X, K)
    kbet = scib_metrics.kbet(near.subset_neighbors(50), batch)
    both = compute_lisi(X, pd.DataFrame({"batch": batch, "label": label}), ["batch", "label"], perplexity=30)
    per_label = {}
    for name in np.unique(label):
        rows = label == name
        size = np.unique(batch[rows], return_counts=True)[1]
        if rows.sum() >= 10 and len(size) > 1:
            k = int(min(70, max(10, np.mean(size) // 4))) + 1
            per_label[name] = float(scib_metrics.kbet(neighbours(X[rows], k), batch[rows])[0])
    lisi, silhouette = scib_metrics.lisi_knn(near, label), scib_metrics.silhouette_label(X, label)
    with jax.enable_x64(False):
        single_lisi, single_silhouette = scib_metrics.lisi_knn(near, label), scib_metrics.silhouette_label(X, label)
    return {
        "lisi_batch": listed(scib_metrics.lisi_knn(near, batch)),
        "lisi_label": listed(lisi),
        "harmonypy_batch": listed(both[:, 0]),
        "harmonypy_label": listed(both[:, 1]),
        "ilisi": float(scib_metrics.ilisi_knn(near, batch)),
        "clisi": float(scib_metrics.clisi_knn(near, label)),
        "kbet": float(kbet[0]),
        "kbet_statistic": listed(kbet[1]),
        "kbet_p": listed(kbet[2]),
        "kbet_of_label": per_label,
        "kbet_per_label_by_diffusion": float(scib_metrics.kbet_per_label(near, batch, label)),
        "graph_connectivity": float(scib_metrics.graph_connectivity(near.subset_neighbors(15), label)),
        "silhouette_label": float(silhouette),
        "silhouette_batch": float(scib_metrics.silhouette_batch(X, label, batch)),
        "bras": float(scib_metrics.bras(X, label, batch)),
        "float32": {
            "lisi_label": float(np.abs(single_lisi - lisi).max()),
            "silhouette_label": float(abs(single_silhouette - silhouette)),
        },
    }


def regression(meta: pd.DataFrame, X: Any) -> dict[str, Any]:
    after = X - meta.join(pd.DataFrame(X)).groupby("batch")[list(range(WIDTH))].transform("mean").to_numpy() * 0.7
    batch, count = meta.batch.to_numpy(), meta["count"].to_numpy(dtype=float)
    return {
        "shrink": 0.7,
        "batch": principal_component_regression(X, batch, categorical=True),
        "batch_of_5": principal_component_regression(X, batch, categorical=True, n_components=5),
        "count": principal_component_regression(X, count),
        "comparison": float(scib_metrics.pcr_comparison(X, after, batch, categorical=True)),
        "difference": float(scib_metrics.pcr_comparison(X, after, batch, scale=False, categorical=True)),
    }


def main() -> None:
    meta, stored = screen()
    X = stored / 1000
    with tempfile.TemporaryDirectory() as cache:
        found = {
            "screen": {"X": stored.tolist(), **{name: meta[name].tolist() for name in meta}},
            "maps": maps(meta, X, cache),
            "signals": signals(meta, X),
            "recall": recall(),
            "mixing": mixing(meta, X),
            "regression": regression(meta, X),
        }
    path = Path(__file__).with_name("screen_metrics.json")
    path.write_text(json.dumps(found, separators=(",", ":")).replace('},"', '},\n"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
