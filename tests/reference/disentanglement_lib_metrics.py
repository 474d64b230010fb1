"""Make tests/reference/disentanglement_lib_metrics.json: the metrics of disentanglement_lib, written out slowly.

    python tests/reference/disentanglement_lib_metrics.py

Written from the published definitions, row by row and pair by pair, with nothing of `identifiable`: numpy for arrays and the
edges of its histogram, scipy for a general minimiser (the optima of the support vector machine and of the logistic
regression, which disentanglement_lib takes from scikit-learn). Choices that are ours (splits, ties, a single latent) are
those that the docstrings of `identifiable.disentanglement` state. Run it again only to add a case.
"""

from __future__ import annotations

import json
from collections import Counter
from importlib.metadata import version
from math import ceil, floor, log
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

BINS = 20
Column = list[float]


def bins_of(column: Column) -> list[float]:
    """numpy's histogram, then the last left edge that is not above the value."""
    edges = np.histogram(column, BINS)[1][:-1]
    return [float(sum(edge <= value for edge in edges)) for value in column]


def entropy(*columns: Column) -> float:
    n = len(columns[0])
    return -sum(c / n * log(c / n) for c in Counter(zip(*columns, strict=True)).values())


def mutual_information(a: Column, b: Column) -> float:
    n, alone_a, alone_b = len(a), Counter(a), Counter(b)
    found = sum(
        c / n * log((c / n) / (alone_a[x] / n * alone_b[y] / n))
        for (x, y), c in Counter(zip(a, b, strict=True)).items()
    )
    return found if found > 1e-15 else 0.0


def gap(values: list[float]) -> float:
    ordered = sorted(values if len(values) > 1 else [*values, 0.0])
    return ordered[-1] - ordered[-2]


def binned_scores(
    latents: list[Column], factors: list[Column], continuous: list[bool], discrete: bool
) -> dict[str, Any]:
    Z = latents if discrete else [bins_of(z) for z in latents]
    S = [bins_of(s) if c else s for s, c in zip(factors, continuous, strict=True)]
    info = [[mutual_information(s, z) for z in Z] for s in S]
    H = [entropy(s) for s in S]
    m, d = len(S), len(Z)
    mig = sum(gap(info[i]) / H[i] for i in range(m)) / m
    mig_sup = sum(gap([info[i][j] / H[i] for i in range(m)]) for j in range(d)) / d
    jemmig = 0.0
    for i in range(m):
        top = max(info[i])
        star = min((j for j in range(d) if info[i][j] > top - 1e-12), key=lambda j: entropy(Z[j]))
        size = len(set(Z[star])) if discrete else BINS
        jemmig += (1 - (entropy(S[i], Z[star]) - gap(info[i])) / (H[i] + log(size))) / m
    credit = [0.0] * m
    for j in range(d):
        over = [info[i][j] for i in range(m)]
        owner = over.index(max(over))
        credit[owner] = max(credit[owner], gap(over))
    modularity = None
    if m > 1:
        modularity = 0.0
        for j in range(d):
            over = sorted(info[i][j] ** 2 for i in range(m))
            if over[-1] > 0:
                modularity += (1 - sum(over[:-1]) / (over[-1] * (m - 1))) / d
    return {
        "information": info,
        "mig": mig,
        "mig_sup": mig_sup,
        "jemmig": jemmig,
        "dcimig": sum(credit) / sum(H),
        "modularity": modularity,
    }


def percentile(values: Column, q: float) -> float:
    """Linear between order statistics, as numpy's default."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low, high = ordered[floor(at)], ordered[ceil(at)]
    return low + (high - low) * (at - floor(at))


def irs(latents: list[Column], factors: list[Column], continuous: list[bool], bin_all: bool) -> float:
    S = [bins_of(s) if c or bin_all else s for s, c in zip(factors, continuous, strict=True)]
    total, weights = 0.0, 0.0
    for z in latents:
        if max(z) == min(z):
            continue
        mean = sum(z) / len(z)
        widest = max(abs(x - mean) for x in z)
        best = -np.inf
        for s in S:
            strays = []
            for value in sorted(set(s)):
                here = [x for x, v in zip(z, s, strict=True) if v == value]
                centre = sum(here) / len(here)
                strays.append(percentile([abs(x - centre) for x in here], 0.99))
            best = max(best, 1 - sum(strays) / len(strays) / widest)
        total += widest * best
        weights += widest
    return total / weights if weights else 0.0


def dci_scores(importance: np.ndarray) -> dict[str, float]:
    """Disentanglement and completeness of an importance matrix, factor × latent."""
    R = importance if importance.sum() else np.ones_like(importance)
    m, d = R.shape

    def concentration(values: np.ndarray) -> float:
        p = [(v + 1e-11) / sum(u + 1e-11 for u in values) for v in values]
        return 1 + sum(x * log(x) / log(len(p)) for x in p)

    return {
        "disentanglement": sum(concentration(importance[:, j]) * R[:, j].sum() / R.sum() for j in range(d)),
        "completeness": sum(concentration(importance[i]) * R[i].sum() / R.sum() for i in range(m)),
    }


def split(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(n)
    return order[: round(2 * n / 3)], order[round(2 * n / 3) :]


def machine(x: np.ndarray, sign: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Slope and intercept of the squared-hinge machine of one number; liblinear penalises the intercept too."""

    def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
        short = np.maximum(0, 1 - sign * (v[0] * x + v[1]))
        pull = -2 * 0.01 * weight * short * sign
        return 0.5 * v @ v + 0.01 * (weight * short**2).sum(), v + np.array([(pull * x).sum(), pull.sum()])

    return minimize(loss, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-9}).x


def svc_accuracy(x: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """One machine for each class against the rest; balanced weights, which liblinear gives the class itself only."""
    classes = np.unique(y[train])
    share = {c: len(train) / (len(classes) * (y[train] == c).sum()) for c in classes}
    if len(classes) == 2:
        weight = np.array([share[c] for c in y[train]])
        slope, at = machine(x[train], np.where(y[train] == classes[1], 1.0, -1.0), weight)
        found = classes[(slope * x[test] + at > 0).astype(int)]
    else:
        lines = [
            machine(x[train], np.where(y[train] == c, 1.0, -1.0), np.where(y[train] == c, share[c], 1.0))
            for c in classes
        ]
        found = classes[np.argmax([slope * x[test] + at for slope, at in lines], axis=0)]
    return float(np.mean(found == y[test]))


def sap(Z: np.ndarray, S: np.ndarray, continuous: list[bool]) -> list[list[float]]:
    train, test = split(len(Z))
    rows = []
    for i, values in enumerate(S.T):
        row = []
        for z in Z.T:
            if not continuous[i]:
                row.append(svc_accuracy(z, values, train, test))
            elif z[train].var(ddof=1) <= 1e-12:
                row.append(0.0)
            else:
                row.append(float(np.corrcoef(z[train], values[train])[0, 1] ** 2))
        rows.append(row)
    return rows


def logistic(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Weights (classes × columns) of softmax regression with half the squared norm of all but the last column added."""
    k, d = int(y.max()) + 1, X.shape[1]
    hot = np.eye(k)[y]
    free = np.ones(d)
    free[-1] = 0

    def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
        W = v.reshape(k, d)
        logits = X @ W.T
        logits = logits - logits.max(axis=1, keepdims=True)
        P = np.exp(logits)
        P /= P.sum(axis=1, keepdims=True)
        value = -np.log((P * hot).sum(axis=1)).sum() + 0.5 * (W**2 * free).sum()
        return value, ((P - hot).T @ X + W * free).ravel()

    return minimize(
        loss, np.zeros(k * d), jac=True, method="L-BFGS-B", options={"gtol": 1e-10, "ftol": 1e-16, "maxiter": 10**5}
    ).x.reshape(k, d)


def area(score: np.ndarray, inside: np.ndarray) -> float:
    """How often a row of the class scores above a row of the rest; ties count half."""
    wins = sum((a > b) + 0.5 * (a == b) for a in score[inside] for b in score[~inside])
    return float(wins / (inside.sum() * (~inside).sum()))


def explicitness(Z: np.ndarray, S: np.ndarray) -> list[float]:
    train, test = split(len(Z))
    X = np.column_stack([(Z - Z[train].mean(axis=0)) / Z[train].std(axis=0), np.ones(len(Z))])
    found = []
    for values in S.T:
        y = values.astype(int)
        W = logistic(X[train], y[train])
        P = np.exp(X[test] @ W.T)
        P /= P.sum(axis=1, keepdims=True)
        found.append(float(np.mean([area(P[:, c], y[test] == c) for c in np.unique(y[test])])))
    return found


def cases() -> dict[str, dict[str, Any]]:
    """Latents in thousandths and factors, so that the file holds exactly what was scored."""
    rng = np.random.default_rng(20)
    grid = np.array([[i, j] for _ in range(6) for i in range(4) for j in range(3)])
    n = len(grid)
    three = np.column_stack([rng.integers(0, k, 240) for k in (2, 5, 3)])
    mixed = three @ rng.standard_normal((3, 5)) + 0.4 * rng.standard_normal((240, 5))
    wide = np.column_stack([rng.integers(0, 40, 240), rng.integers(0, 3, 240)])
    amounts = np.round(rng.uniform(size=240), 3)
    found = {
        "perfect": (grid * 0.5, grid),
        "one latent for two factors": (np.column_stack([grid @ [3, 1], np.zeros(n)]), grid),
        "noise": (rng.standard_normal((n, 3)), grid),
        "constant": (np.full((n, 3), 0.1), grid),
        "one active latent": (np.column_stack([np.full(n, 0.1), grid[:, 0], np.full(n, -2)]), grid),
        "a single latent": (grid[:, :1] + 0.1 * rng.standard_normal((n, 1)), grid),
        "duplicates": (grid[:, [0, 0, 1, 1]] * 1.0, grid),
        "a single factor": (rng.standard_normal((n, 2)) + grid[:, :1], grid[:, :1]),
        "mixed": (mixed, three),
        "forty classes": (wide + 0.2 * rng.standard_normal((240, 2)), wide),
        "continuous": (
            np.column_stack([amounts + 0.05 * rng.standard_normal(240), three[:, 0] + 0.2 * rng.standard_normal(240)]),
            np.column_stack([amounts, three[:, 0]]),
        ),
        "codes": (rng.integers(0, 30, (240, 2)) + three[:, :2], three),
    }
    return {
        name: {
            "latents": np.round(np.asarray(Z) * 1000).astype(int).tolist(),
            "factors": np.asarray(S).tolist(),
            "continuous": [name == "continuous" and i == 0 for i in range(np.shape(S)[1])],
            "discrete": name == "codes",
        }
        for name, (Z, S) in found.items()
    }


def scored(case: dict[str, Any]) -> dict[str, Any]:
    Z, S = np.array(case["latents"]) / 1000, np.array(case["factors"], dtype=float)
    latents, factors = Z.T.tolist(), S.T.tolist()
    found = binned_scores(latents, factors, case["continuous"], case["discrete"])
    found["irs"] = irs(latents, factors, case["continuous"], bin_all=False)
    found["irs_binned"] = irs(latents, factors, case["continuous"], bin_all=True)
    return found


def main() -> None:
    found: dict[str, Any] = {"made_with": {name: version(name) for name in ("numpy", "scipy")}, "cases": {}}
    for name, case in cases().items():
        found["cases"][name] = {**case, "scores": scored(case)}
    for name in ("mixed", "continuous"):
        case = found["cases"][name]
        Z, S = np.array(case["latents"]) / 1000, np.array(case["factors"], dtype=float)
        case["scores"]["sap_matrix"] = sap(Z, S, case["continuous"])
        if name == "mixed":
            case["scores"]["explicitness_of_factor"] = explicitness(Z, S)
    rng = np.random.default_rng(21)
    matrices = {
        "random": np.round(rng.exponential(size=(3, 5)), 3),
        "perfect": np.eye(3),
        "one latent for all": np.outer([1, 1, 1], [1, 0, 0, 0]),
        "nothing": np.zeros((2, 3)),
        "a dead latent": np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]),
    }
    found["importance"] = {name: {"matrix": R.tolist(), **dci_scores(R * 1.0)} for name, R in matrices.items()}
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
