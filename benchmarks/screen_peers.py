"""Corrections by pycytominer, scanpy and harmonypy, and mAP by copairs, for `screen_methods.py`, which starts it.

PEERS/bin/python benchmarks/screen_peers.py screen.npz corrected.npz

Nothing of `identifiable` is used. A library that is missing, or fails on a screen, is named with the reason.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

LIBRARIES = ("pycytominer", "scanpy", "harmonypy", "copairs", "scikit-learn", "numpy")
Table = Any  # (n, d) array


def columns(X: Table) -> list[str]:
    return [f"Cells_{j}" for j in range(X.shape[1])]


def normalised(X: Table, beside: dict[str, Any], method: str, level: str | None, **settings: Any) -> Table:
    """`pycytominer.normalize` on the controls of every plate or batch, or of all."""
    import pandas as pd
    from pycytominer import normalize

    out = np.empty_like(X)
    groups = np.zeros(len(X)) if level is None else beside[level]
    for value in np.unique(groups):
        rows = groups == value
        frame = pd.DataFrame(X[rows], columns=columns(X))
        frame.insert(0, "Metadata_control", beside["control"][rows].astype(int))
        out[rows] = normalize(
            frame,
            features=columns(X),
            meta_features=["Metadata_control"],
            samples="Metadata_control == 1",
            method=method,
            **settings,
        )[columns(X)].to_numpy()
    return np.nan_to_num(out)


def selected(X: Table, beside: dict[str, Any]) -> Table:
    import pandas as pd
    from pycytominer import feature_select

    scaled = pd.DataFrame(normalised(X, beside, "standardize", "batch"), columns=columns(X))
    operations = ["variance_threshold", "correlation_threshold", "drop_na_columns"]
    return feature_select(scaled, features=columns(X), operation=operations).to_numpy()


def spherised(X: Table, beside: dict[str, Any], epsilon: float) -> Table:
    """After feature_select, as the JUMP recipe has it: of more columns than controls pycytominer refuses some tables."""
    settings = {"spherize_method": "ZCA-cor", "spherize_epsilon": epsilon, "spherize_center": True}
    return normalised(selected(X, beside), beside, "spherize", None, **settings)


def combat(X: Table, beside: dict[str, Any]) -> Table:
    import anndata
    import pandas as pd
    import scanpy as sc

    adata = anndata.AnnData(X.copy(), obs=pd.DataFrame({"batch": pd.Categorical(beside["batch"])}))
    return np.asarray(sc.pp.combat(adata, key="batch", inplace=False))


def components(X: Table, beside: dict[str, Any]) -> Table:
    from sklearn.decomposition import PCA

    return PCA(min(50, *X.shape), random_state=0).fit_transform(X)


def harmony(X: Table, beside: dict[str, Any]) -> Table:
    import harmonypy

    found = harmonypy.run_harmony(
        components(X, beside), {"batch": beside["batch"]}, "batch", random_state=0, verbose=False
    )
    return np.asarray(found.Z_corr)


METHODS: dict[str, Callable[[Table, dict[str, Any]], Table]] = {
    "pycytominer, standardize by plate": partial(normalised, method="standardize", level="plate"),
    "pycytominer, mad_robustize by plate": partial(normalised, method="mad_robustize", level="plate"),
    "pycytominer, standardize by batch": partial(normalised, method="standardize", level="batch"),
    "pycytominer, standardize by batch, feature_select": selected,
    "pycytominer, the same, spherize 1": partial(spherised, epsilon=1.0),
    "pycytominer, the same, spherize 10": partial(spherised, epsilon=10.0),
    "scanpy, combat": combat,
    "scikit-learn, PCA 50": components,
    "harmonypy, PCA 50": harmony,
}


def copairs_map(X: Table, beside: dict[str, Any]) -> float:
    """Replicates on other plates against controls of the same batch: mean over perturbations."""
    import pandas as pd
    from copairs.map import average_precision

    meta = pd.DataFrame({name: beside[name] for name in ("perturbation", "plate", "batch")})
    meta["control"] = beside["control"].astype(int)
    found = average_precision(
        meta,
        X,
        pos_sameby=["perturbation"],
        pos_diffby=["plate"],
        neg_sameby=["batch"],
        neg_diffby=["control"],
        progress_bar=False,
    )
    treated = found[(found["control"] == 0) & found["average_precision"].notna()]
    return float(treated.groupby("perturbation")["average_precision"].mean().mean())


def main(source: str, target: str) -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    given = dict(np.load(source))
    spaces = {name.removeprefix("space "): given.pop(name) for name in list(given) if name.startswith("space ")}
    X, corrected, record = given.pop("X"), {}, {}
    for name, method in METHODS.items():
        begun = time.process_time()
        try:
            corrected[name] = np.asarray(method(X, given), dtype=np.float64)
            record[name] = {"cpu_s": time.process_time() - begun}
        except Exception as error:  # a library that fails is a finding, not the end
            record[name] = {"skipped": f"{type(error).__name__}: {str(error)[:200]}"}
    for name, table in {**spaces, **corrected}.items():
        try:
            record.setdefault(name, {})["copairs_map"] = copairs_map(table, given)
        except Exception as error:
            record.setdefault(name, {})["copairs_skipped"] = f"{type(error).__name__}: {str(error)[:200]}"
    record["versions"] = {name: _version(name) for name in LIBRARIES}
    np.savez(target, record=json.dumps(record), **corrected)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main(*sys.argv[1:])
