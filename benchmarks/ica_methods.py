"""Every ICA the benchmark runs, behind one call, and the neutral judge of what it found.

`fit_in_child` runs one method in a process of its own: that process loads a .npy file, fits, and reports seconds and
peak memory, so nothing of one method is charged to another.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from machine import peak_memory_mb, timed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from identifiable.groups import AffineMap

Array = NDArray[np.float64]
Rows = NDArray[Any]

BLOCK = 4096
MAX_ITERATIONS = 200  # of scikit-learn and torch: scikit-learn's default
NOT_INSTALLED = "not installed"


@dataclass(frozen=True)
class Fit:
    """A map from rows to components, and what the method says of itself; `passes` are iterations for most."""

    to_components: AffineMap
    passes: float
    converged: bool
    settings: dict[str, Any] = field(default_factory=dict)


# -- the methods: rows in, `Fit` out


def ours(X: Rows | Path, *, seed: int = 0, workers: int | None = None, **options: Any) -> Fit:
    """This package's engine by itself: without refits, unless `stability` asks for them."""
    result, to_components = resolved(X, seed=seed, workers=workers, **{"stability": 0, **options})
    return Fit(to_components, result.passes, result.converged, {"seed": seed, "workers": workers, **options})


def resolved(X: Rows | Path, *, seed: int = 0, **options: Any) -> tuple[Any, AffineMap]:
    """THE adapter to this package, `resolve` as users call it: its `Resolution` and the map to the components."""
    from identifiable import resolve

    found = resolve(X, seed=seed, **options)
    return found.result, found.to_components


def sklearn(X: Rows, *, seed: int = 0, max_iter: int = MAX_ITERATIONS, tol: float = 1e-4, mended: bool = False) -> Fit:
    """scikit-learn's FastICA; `mended` so that its symmetric decorrelation, of one small matrix, is in float64.

    Fed float32, the smallest eigenvalues there round to nothing where some sources are weak, and it does not converge.
    """
    from sklearn.decomposition import FastICA, _fastica
    from sklearn.exceptions import ConvergenceWarning

    model = FastICA(whiten="unit-variance", max_iter=max_iter, tol=tol, random_state=seed)
    decorrelate = _fastica._sym_decorrelation

    def in_float64(W: Rows) -> Rows:
        return np.asarray(decorrelate(W.astype(np.float64)), W.dtype)

    patch = mock.patch.object(_fastica, "_sym_decorrelation", in_float64) if mended else contextlib.nullcontext()
    with patch, threadpool_limits(1, user_api="blas"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    converged = not any(issubclass(w.category, ConvergenceWarning) for w in caught)
    unmixing = np.asarray(model.components_, dtype=np.float64).T
    to_components = AffineMap.about(unmixing, np.asarray(model.mean_, np.float64), np.zeros(unmixing.shape[1]))
    settings = {"seed": seed, "max_iter": max_iter, "tol": tol, "mended": mended}
    return Fit(to_components, model.n_iter_, converged, settings)


def picard(X: Rows, *, seed: int = 0, max_iter: int = 100, fastica_it: int | None = None) -> Fit:
    """python-picard at its default tolerance; `max_iter` is cut (its default 500 takes a quarter of an hour)."""
    from picard import picard as solve

    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        K, W, _, mean, iterations = solve(
            X.T,
            ortho=True,
            extended=True,
            max_iter=max_iter,
            fastica_it=fastica_it,
            random_state=seed,
            return_X_mean=True,
            return_n_iter=True,
        )
    unmixing = np.asarray((W @ K).T, np.float64)
    to_components = AffineMap.about(unmixing, np.asarray(mean, np.float64), np.zeros(unmixing.shape[1]))
    settings = {"seed": seed, "max_iter": max_iter, "fastica_it": fastica_it}
    converged = not any("converge" in str(w.message).lower() for w in caught)
    return Fit(to_components, float(iterations) + (fastica_it or 0), converged, settings)


def torch_fastica(X: Rows, *, seed: int = 0, max_iter: int = MAX_ITERATIONS, tol: float = 1e-4) -> Fit:
    """FastICA (symmetric, logcosh, float32) as one writes it in torch; the stopping rule of scikit-learn."""
    import torch

    torch.set_num_threads(1)
    x = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))
    n = len(x)
    mean = x.mean(dim=0, dtype=torch.float64)
    z = x - mean.float()
    variances, vectors = torch.linalg.eigh((z.T @ z).double() / n)
    K = vectors / variances.sqrt()
    z = z @ K.float()

    def symmetric(w: Any) -> Any:
        # In float64: in float32 the smallest eigenvalues round below zero and the whole run becomes NaN.
        s, u = torch.linalg.eigh(w.double() @ w.double().T)
        return ((u / s.sqrt()) @ u.T @ w.double()).float()

    W = symmetric(torch.randn(z.shape[1], z.shape[1], generator=torch.Generator().manual_seed(seed)))
    change, k = math.inf, 0
    while change >= tol and k < max_iter:
        y = z @ W.T
        g = torch.tanh(y)
        new = symmetric(g.T @ z / n - (1 - g * g).mean(dim=0)[:, None] * W)
        change = float(((new * W).sum(dim=1).abs() - 1).abs().max())
        W, k = new, k + 1
    unmixing = (K @ W.double().T).numpy()
    to_components = AffineMap.about(unmixing, mean.numpy(), np.zeros(unmixing.shape[1]))
    return Fit(to_components, k, change < tol, {"seed": seed, "max_iter": max_iter, "tol": tol})


METHODS: dict[str, Callable[..., Fit]] = {"ours": ours, "sklearn": sklearn, "picard": picard, "torch": torch_fastica}
NEEDS = {"picard": "picard", "torch": "torch"}


def installed(method: str) -> bool:
    return method not in NEEDS or find_spec(NEEDS[method]) is not None


# -- the neutral judge: float64, numpy, the same for everyone


def logcosh(y: Array) -> Array:
    size = np.abs(y)
    result: Array = size + np.log1p(np.exp(-2 * size)) - math.log(2)
    return result


def _gaussian_density(y: float) -> float:
    return math.exp(-y * y / 2) / math.sqrt(2 * math.pi)


@cache
def gaussian_logcosh() -> float:
    from scipy.integrate import quad  # not above: a child would carry it in its peak memory

    return 2 * quad(lambda y: float(logcosh(np.array(y))) * _gaussian_density(y), 0, 40, epsabs=1e-14)[0]


def contrast(X: Rows, to_components: AffineMap) -> float:
    """C1 = sum_i |E logcosh(y_i) - E logcosh(N(0, 1))| of components brought to mean 0 and variance 1 here."""
    n, k = len(X), to_components.matrix.shape[1]
    total, squares, values = np.zeros(k), np.zeros(k), np.zeros(k)
    for a in range(0, n, BLOCK):
        y = to_components(X[a : a + BLOCK])
        total += y.sum(axis=0)
        squares += (y * y).sum(axis=0)
    mean = total / n
    deviation = np.sqrt(squares / n - mean**2)
    for a in range(0, n, BLOCK):
        values += logcosh((to_components(X[a : a + BLOCK]) - mean) / deviation).sum(axis=0)
    return float(np.abs(values / n - gaussian_logcosh()).sum())


def covariance(X: Rows) -> Array:
    """Covariance of the rows, read in blocks."""
    center = np.asarray(X[:BLOCK], np.float64).mean(axis=0)
    total, scatter = np.zeros(X.shape[1]), np.zeros((X.shape[1], X.shape[1]))
    for a in range(0, len(X), BLOCK):
        x = X[a : a + BLOCK] - center
        total += x.sum(axis=0)
        scatter += x.T @ x
    result: Array = scatter / len(X) - np.outer(total, total) / len(X) ** 2
    return result


def correlation(cov: Array, first: AffineMap, second: AffineMap) -> Array:
    """Correlations between the components of two maps, on rows whose covariance is `cov`."""
    a, b = (m.matrix / np.sqrt(np.einsum("ij,ij->j", m.matrix, cov @ m.matrix)) for m in (first, second))
    result: Array = a.T @ cov @ b
    return result


def partners(r: Array) -> tuple[NDArray[np.intp], Array]:
    """For each row of a correlation matrix the column it is matched to (-1 for none) and the correlation (0)."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(-np.abs(r))
    partner, value = np.full(len(r), -1), np.zeros(len(r))
    partner[rows], value[rows] = columns, r[rows, columns]
    return partner, value


def off_diagonal(cov: Array, to_components: AffineMap) -> float:
    """The largest correlation between two components of one map: a contrast is worth nothing if they are not distinct."""
    r = correlation(cov, to_components, to_components)
    return float(np.abs(r - np.diag(np.diag(r))).max())


# -- one method in its own process


def fit_in_child(method: str, data: Path, *, load: str, **options: Any) -> tuple[dict[str, Any], AffineMap | None]:
    """Fit `method` to the rows in `data` in a fresh process; what it took, and the map it found.

    `load` is how the child hands the rows over: "float32" or "float64" arrays in memory (loading is not timed), or
    "path", in which case the method reads the file itself.
    """
    if not installed(method):
        return {"method": method, "skipped": NOT_INSTALLED}, None
    with tempfile.TemporaryDirectory(prefix="identifiable-ica-") as folder:
        out = Path(folder) / "map.npz"
        job = {"method": method, "data": str(data), "load": load, "out": str(out), "options": options}
        command = [sys.executable, str(Path(__file__).resolve()), json.dumps(job)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{method} on {data.name} failed with exit code {done.returncode}; its message is above.")
        with np.load(out) as found:
            to_components = AffineMap(found["matrix"], found["offset"])
    return json.loads(done.stdout.splitlines()[-1]), to_components


def _child(job: dict[str, Any]) -> dict[str, Any]:
    method = METHODS[job["method"]]
    _load_for(job["method"])
    imports = peak_memory_mb()
    X = Path(job["data"]) if job["load"] == "path" else _loaded(Path(job["data"]), job["load"])
    took = timed(lambda: method(X, **job["options"]))
    peak = peak_memory_mb()  # before anything else is computed
    fit: Fit = took.result
    np.savez(job["out"], matrix=fit.to_components.matrix, offset=fit.to_components.offset)
    return {
        "method": job["method"],
        "input": job["load"],
        "settings": fit.settings,
        "cpu_s": took.cpu,
        "wall_s": took.wall,
        "passes": float(fit.passes),
        "cpu_s_per_pass": took.cpu / max(float(fit.passes), 1.0),
        "converged": bool(fit.converged),
        "peak_mb": peak,
        "imports_mb": imports,
        "memory_at_end": _memory_now(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def _loaded(path: Path, dtype: str) -> Rows:
    """The rows in memory; read, not mapped, so that neither file pages nor a second copy count as the method's."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        assert version == (1, 0), version
        shape, _, stored = np.lib.format.read_array_header_1_0(file)
        X = np.empty(shape, dtype)
        for a in range(0, len(X), BLOCK):
            part = X[a : a + BLOCK]
            part[:] = np.fromfile(file, stored, part.size).reshape(part.shape)
    return X


def _load_for(method: str) -> None:
    """Load what the method imports and what it compiles, by a fit of a small table: neither timed nor taken for its memory."""
    import scipy.linalg  # noqa: F401

    METHODS[method](np.random.default_rng(0).laplace(size=(500, 4)).astype(np.float32))


def _memory_now() -> dict[str, float]:
    """Anonymous and file-backed resident memory: pages of a mapped file are cache, but count as resident."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return {
            k: int(v.split()[0]) / 1024 for k, _, v in (line.partition(":") for line in lines) if k.startswith("Rss")
        }
    return {}


if __name__ == "__main__":
    print(json.dumps(_child(json.loads(sys.argv[1]))))
