"""Make tests/reference/ica.json: what scikit-learn's FastICA and python-picard find on small tables.

    pip install scikit-learn python-picard && python tests/reference/make_ica_reference.py

Run it again only to add a case; the tests compare with the frozen numbers, so neither library is needed there.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import FastICA

Matrix = NDArray[np.float64]
ROWS = 250
CASES = {
    "laplace": ("laplace", "laplace", "laplace"),
    "uniform": ("uniform", "uniform", "uniform"),
    "super_sub_and_skewed": ("laplace", "uniform", "gamma"),
    "one_gaussian": ("gaussian", "laplace", "uniform"),
}


def table(kinds: tuple[str, ...], seed: int) -> Matrix:
    """Mixed sources in thousandths, so that the file holds exactly what was fitted."""
    rng = np.random.default_rng(seed)
    draw = {
        "laplace": lambda: rng.laplace(size=ROWS),
        "uniform": lambda: rng.uniform(-1.7, 1.7, ROWS),
        "gamma": lambda: rng.gamma(1.0, size=ROWS),
        "gaussian": lambda: rng.standard_normal(ROWS),
    }
    sources = np.column_stack([draw[k]() for k in kinds])
    mixing = rng.standard_normal((len(kinds), len(kinds)))
    return np.round(1000 * sources @ mixing) / 1000


def unit(X: Matrix, unmixing: Matrix) -> Matrix:
    """The unmixing (components, columns) scaled to components of unit variance."""
    return unmixing / ((X - X.mean(axis=0)) @ unmixing.T).std(axis=0)[:, None]


def contrast(X: Matrix, unmixing: Matrix) -> float:
    """Sum over components of |E log cosh u - its Gaussian mean|, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    level = weights @ np.log(np.cosh(nodes)) / weights.sum()
    y = (X - X.mean(axis=0)) @ unmixing.T
    return float(np.abs(np.log(np.cosh(y)).mean(axis=0) - level).sum())


def by_sklearn(X: Matrix) -> Matrix:
    runs = []
    for seed in range(10):
        model = FastICA(whiten="unit-variance", tol=1e-10, max_iter=5000, random_state=seed)
        runs.append(unit(X, model.fit(X).components_))
    return max(runs, key=lambda w: contrast(X, w))


def by_picard(X: Matrix) -> Matrix:
    from picard import picard  # not a dependency: only who makes the numbers again needs it

    runs = []
    for seed in range(10):
        whitening, rotation, _ = picard(X.T, ortho=True, extended=True, tol=1e-10, max_iter=2000, random_state=seed)
        runs.append(unit(X, rotation @ whitening))
    return max(runs, key=lambda w: contrast(X, w))


def frozen(name: str, seed: int) -> dict[str, Any]:
    X = table(CASES[name], seed)
    fits = {"scikit-learn": by_sklearn(X), "python-picard": by_picard(X)}
    return {
        "thousandths": np.round(1000 * X).astype(int).tolist(),
        **{k: {"unmixing": w.tolist(), "contrast": contrast(X, w)} for k, w in fits.items()},
    }


def main() -> None:
    record = {
        "made_by": "tests/reference/make_ica_reference.py",
        "versions": {name: version(name) for name in ("numpy", "scikit-learn", "python-picard")},
        "cases": {name: frozen(name, seed) for seed, name in enumerate(CASES)},
    }
    path = Path(__file__).with_name("ica.json")
    path.write_text(json.dumps(record, separators=(",", ":")) + "\n")
    for name, case in record["cases"].items():
        print(name, case["scikit-learn"]["contrast"], case["python-picard"]["contrast"])


if __name__ == "__main__":
    main()
