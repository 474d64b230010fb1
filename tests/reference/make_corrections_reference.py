"""Make tests/reference/corrections.json: what the usual libraries make of one small screen.

    pip install pycytominer scanpy harmonypy && pip install --no-deps efaar_benchmarking
    python tests/reference/make_corrections_reference.py

Run it again only to add a case; the tests compare with the frozen numbers, so none of the libraries is needed there.
pycytominer must be 1.7.1 or later: before, `Spherize` decomposed rows that were not centred (its issue 747).
"""

from __future__ import annotations

import json
import logging
import sys
import types
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
ROWS, WIDTH, PLATES, BATCHES = 96, 4, 6, 3


def screen(seed: int, *, rows: int = ROWS, width: int = WIDTH, controls: int = 8) -> tuple[Matrix, pd.DataFrame]:
    """Six plates in three batches, shifted and stretched by both; values in thousandths, so the file holds what was fitted."""
    rng = np.random.default_rng(seed)
    plate = np.repeat(np.arange(PLATES), rows // PLATES)
    well = np.tile(np.arange(rows // PLATES), PLATES)
    treatment = np.where(well < controls, "control", np.char.add("t", (rng.integers(0, 4, rows)).astype(str)))
    count = rng.integers(20, 400, rows)
    mixing = rng.standard_normal((width, width))
    X = rng.laplace(size=(rows, width)) @ mixing * np.exp(0.3 * rng.standard_normal((PLATES, width)))[plate]
    X += 10 + 2 * rng.standard_normal((PLATES, width))[plate] + rng.standard_normal((BATCHES, width))[plate // 2]
    X += np.outer(np.log1p(count), rng.standard_normal(width))
    table = pd.DataFrame(
        {
            "plate": [f"p{k}" for k in plate],
            "batch": [f"b{k // 2}" for k in plate],
            "treatment": treatment,
            "well": well,
            "count": count,
        }
    )
    return np.round(1000 * X) / 1000, table


def by_pycytominer(X: Matrix, table: pd.DataFrame, **settings: Any) -> Matrix:
    from pycytominer import normalize

    columns = [f"f{j}" for j in range(X.shape[1])]
    frame = pd.concat([table.add_prefix("Metadata_"), pd.DataFrame(X, columns=columns)], axis=1)
    done = normalize(
        frame,
        features=columns,
        meta_features=[c for c in frame if c.startswith("Metadata_")],
        samples="Metadata_treatment == 'control'",
        **settings,
    )
    return done[columns].to_numpy()


def one_by_one(X: Matrix, table: pd.DataFrame, level: str, method: str) -> Matrix:
    out = np.empty_like(X)
    for _, rows in table.groupby(level).indices.items():
        out[rows] = by_pycytominer(X[rows], table.iloc[rows].reset_index(drop=True), method=method)
    return out


def by_efaar(X: Matrix, table: pd.DataFrame) -> dict[str, Matrix]:
    stub = types.ModuleType("scvi.model")  # efaar imports scvi-tools, which these functions do not use
    stub.SCVI = object  # type: ignore[attr-defined]
    sys.modules.update({"scvi": types.ModuleType("scvi"), "scvi.model": stub})
    from efaar_benchmarking import efaar
    from sklearn.decomposition import PCA

    keys = {"metadata": table, "pert_col": "treatment", "control_key": "control", "batch_col": "batch"}
    return {
        "tvn, efaar 1.0": efaar.tvn_on_controls(X, **keys),
        "pca-cs": efaar.centerscale_on_controls(PCA(whiten=True).fit_transform(X), **keys),
    }


def tvn(X: Matrix, table: pd.DataFrame) -> Matrix:
    """TVN with the controls of each batch brought to mean 0 and variance 1 before CORAL, from its formula.

    The released efaar_benchmarking 1.0 (August 2024) scales on all controls there. Later code of the same authors and others who took
    it up (brieflow, vcb) scale in each batch and give back the covariance of all controls.
    """
    from scipy.linalg import fractional_matrix_power
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    control = (table["treatment"] == "control").to_numpy()
    Z = StandardScaler().fit(X[control]).transform(X)
    Z = PCA(min(control.sum() - 1, Z.shape[1])).fit(Z[control]).transform(Z)  # more axes would have no variance
    batches = [np.asarray(rows) for rows in table.groupby("batch").indices.values()]
    for rows in batches:
        Z[rows] = StandardScaler().fit(Z[rows][control[rows]]).transform(Z[rows])
    ridge = 0.5 * np.eye(Z.shape[1])
    target = fractional_matrix_power(np.cov(Z[control], rowvar=False) + ridge, 0.5)
    for rows in batches:
        source = np.cov(Z[rows][control[rows]], rowvar=False) + ridge
        Z[rows] = Z[rows] @ fractional_matrix_power(source, -0.5) @ target
    return Z


def by_scanpy(X: Matrix, table: pd.DataFrame, tolerance: float) -> Matrix:
    import anndata
    from scanpy.preprocessing import _combat

    solve = _combat._it_sol
    _combat._it_sol = partial(solve, conv=tolerance)
    try:
        data = anndata.AnnData(X.copy(), obs=table.set_index(table.index.astype(str)))
        return np.asarray(_combat.combat(data, key="batch", inplace=False))
    finally:
        _combat._it_sol = solve


def separate_kinds() -> tuple[Matrix, NDArray[np.int64]]:
    """Three kinds of rows, far apart, in three batches of unequal size."""
    rng = np.random.default_rng(1)
    batch = rng.choice(3, 150, p=[0.5, 0.3, 0.2])
    kind = rng.integers(0, 3, 150)
    return rng.standard_normal((150, 3)) + 6 * np.eye(3)[kind] + 1.5 * rng.standard_normal((3, 3))[batch], batch


def unequal_kinds() -> tuple[Matrix, NDArray[np.int64]]:
    """Two kinds of rows that the two batches hold in unequal shares: the diversity penalty decides here."""
    rng = np.random.default_rng(4)
    batch = rng.choice(2, 200, p=[0.7, 0.3])
    kind = (rng.random(200) < np.array([0.3, 0.8])[batch]).astype(int)
    return 0.5 * rng.standard_normal((200, 3)) + 2 * np.eye(3)[kind] + 0.6 * rng.standard_normal((2, 3))[batch], batch


def by_harmonypy(Z: Matrix, batch: NDArray[np.int64], clusters: int, seeds: range, **settings: Any) -> dict[str, Any]:
    """Batches go in as text (whole numbers were once misread); rows come back as rows (the orientation changed in 0.2)."""
    import harmonypy

    logging.disable(logging.CRITICAL)
    Z = np.round(1000 * Z) / 1000
    runs = [
        harmonypy.run_harmony(
            Z,
            {"batch": batch.astype(str)},
            "batch",
            nclust=clusters,
            random_state=s,
            verbose=False,
            ncores=1,
            **settings,
        )
        for s in seeds
    ]
    for run in runs:
        assert run.Z_corr.shape == Z.shape
    return {
        "thousandths": np.rint(1000 * Z).astype(int).tolist(),
        "batch": batch.tolist(),
        "clusters": clusters,
        "iterations": [len(run.objective_harmony) - 1 for run in runs],
        "shares": shortened(runs[0].R),
        "corrected": [shortened(run.Z_corr) for run in runs],
    }


def shortened(values: Matrix) -> list[list[float]]:
    return [[float(f"{v:.10g}") for v in row] for row in np.asarray(values, dtype=float)]


def main() -> None:
    from sklearn.linear_model import LinearRegression

    X, table = screen(seed=0)
    covariate = np.log1p(table[["count"]].to_numpy())
    trend = LinearRegression().fit(covariate, X)
    spherised = {
        f"{method}, epsilon {epsilon:g}": by_pycytominer(
            X, table, method="spherize", spherize_method=method, spherize_epsilon=epsilon
        )
        for method in ("ZCA-cor", "ZCA")
        for epsilon in (1e-6, 2.0)
    }
    values = {
        "control-z": one_by_one(X, table, "plate", "standardize"),
        "control-mad": one_by_one(X, table, "plate", "mad_robustize"),
        "control-z, batch": one_by_one(X, table, "batch", "standardize"),
        "control-mad, batch": one_by_one(X, table, "batch", "mad_robustize"),
        **by_efaar(X, table),
        "tvn": tvn(X, table),
        "combat": by_scanpy(X, table, 1e-13),
        "combat as scanpy stops": by_scanpy(X, table, 1e-4),
        "position-subtracted": X - pd.DataFrame(X).groupby(table["well"]).transform("mean").to_numpy(),
        "count-regressed": X - np.outer(covariate[:, 0] - covariate.mean(), trend.coef_[:, 0]),
        **spherised,
    }
    wide, beside = screen(seed=1, rows=30, width=24, controls=3)  # 18 controls, fewer than columns
    of_wide = {
        "control-z, batch": one_by_one(wide, beside, "batch", "standardize"),
        "tvn": tvn(wide, beside),
        "combat": by_scanpy(wide, beside, 1e-13),
        "ZCA-cor, epsilon 2": by_pycytominer(
            wide, beside, method="spherize", spherize_method="ZCA-cor", spherize_epsilon=2.0
        ),
    }
    packages = ("numpy", "scikit-learn", "pycytominer", "scanpy", "harmonypy", "efaar_benchmarking")
    result = {
        "made_by": "tests/reference/make_corrections_reference.py",
        "versions": {name: version(name) for name in packages},
        "thousandths": np.rint(1000 * X).astype(int).tolist(),
        "design": {name: table[name].tolist() for name in table},
        "values": {name: shortened(found) for name, found in values.items()},
        "wide": {
            "thousandths": np.rint(1000 * wide).astype(int).tolist(),
            "design": {name: beside[name].tolist() for name in beside},
            "values": {name: shortened(found) for name, found in of_wide.items()},
        },
        "harmony": {
            "separate": by_harmonypy(*separate_kinds(), clusters=3, seeds=range(3)),
            "unequal": by_harmonypy(*unequal_kinds(), clusters=2, seeds=range(2)),
            "unequal, ten iterations": by_harmonypy(
                *unequal_kinds(), clusters=2, seeds=range(2), max_iter_harmony=10, epsilon_harmony=-1e9
            ),
        },
    }
    path = Path(__file__).with_name("corrections.json")
    path.write_text(json.dumps(result, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
