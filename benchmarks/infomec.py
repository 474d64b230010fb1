"""What InfoMEC costs, beside the official code: python benchmarks/infomec.py --official infomec.py --python OLD/bin/python

The official code runs on scikit-learn 1.3 and numpy 1 only, so it needs an environment of its own (OLD): Python 3.11 with
scikit-learn==1.3.2 "numpy<2" "scipy<1.12"; the file is disentangle/metrics/infomec.py of kylehkhsu/latent_quantization.
Without the two options only its calls are made, one by one, with today's scikit-learn.

README.md beside this file says what is divided by what. Writes results/infomec.json; the exit code is 1 if scores differ.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CLASSES = (4, 4, 2, 3, 3, 40, 40)  # the factors of MPI3D real_complex
ROWS, LATENTS = 10_000, 14
# The official code breaks ties with noise that it does not seed, which moves its own scores by 1e-8.
AGREEMENT = {"infom": 1e-7, "infoc": 1e-7, "infoe": 1e-6}
TIMES_FASTER = 40  # what the issue asks for

Record = dict[str, Any]


# -- in a fresh process, whatever its packages


def table(rows: int) -> tuple[Any, Any]:
    """Factors as in MPI3D, mixed into twice as many latents with some noise."""
    import numpy as np

    rng = np.random.RandomState(0)
    factors = np.stack([rng.randint(k, size=rows) for k in CLASSES], axis=1)
    standard = (factors - factors.mean(axis=0)) / factors.std(axis=0)
    return 0.5 * standard @ rng.randn(len(CLASSES), LATENTS) + 0.3 * rng.randn(rows, LATENTS), factors


def ours(latents: Any, factors: Any, _: str) -> Record:
    from identifiable.metrics import infomec

    return dict(infomec(latents, factors).scores)


def official(latents: Any, factors: Any, path: str) -> Record:
    """The original file, as it is."""
    from runpy import run_path

    found = run_path(path)["compute_infomec"](factors, latents, discrete_latents=False)
    return {score: float(found[score]) for score in AGREEMENT}


def calls(latents: Any, factors: Any, _: str) -> Record:
    """What the official code calls, with today's scikit-learn: for each pair the neighbours, for each factor two regressions."""
    import numpy as np
    from sklearn.feature_selection import mutual_info_classif
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss, mutual_info_score
    from sklearn.preprocessing import StandardScaler

    standard = StandardScaler().fit_transform(latents)
    nmi = np.empty((factors.shape[1], latents.shape[1]))
    explained = []
    for i, factor in enumerate(factors.T):
        for j in range(latents.shape[1]):
            column = standard[:, j : j + 1]
            nmi[i, j] = mutual_info_classif(column, factor, discrete_features=False, n_neighbors=10, random_state=0)[0]
        nmi[i] /= mutual_info_score(factor, factor)
        left, null = (
            log_loss(
                factor,
                LogisticRegression(C=np.inf, class_weight="balanced", max_iter=100).fit(X, factor).predict_proba(X),
            )
            for X in (standard, np.zeros_like(standard))
        )
        explained.append((null - left) / null)
    m, a = nmi.shape
    infom = ((nmi.max(axis=0) / nmi.sum(axis=0)).mean() - 1 / m) / (1 - 1 / m)
    infoc = ((nmi.max(axis=1) / nmi.sum(axis=1)).mean() - 1 / a) / (1 - 1 / a)
    return {"infom": infom, "infoc": infoc, "infoe": float(np.mean(explained))}


def cpu_seconds() -> float:
    """Of this process and of those it started, which have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def measure(method: str, path: str) -> None:
    """Run twice, everyone alike: the first call imports, compiles and touches its memory; print what the second one took."""
    import warnings

    warnings.simplefilter("ignore")
    run = {"ours": ours, "official": official, "calls": calls}[method]
    latents, factors = table(ROWS)
    started = time.perf_counter()
    run(latents, factors, path)
    first = time.perf_counter() - started
    wall, cpu = time.perf_counter(), cpu_seconds()
    scores = run(latents, factors, path)
    taken = {"wall_s": time.perf_counter() - wall, "cpu_s": cpu_seconds() - cpu, "first_call_s": first}
    print(json.dumps({"scores": scores, **taken}))


# -- here


def fresh(python: str, method: str, path: str) -> Record:
    command = [python, str(Path(__file__).resolve()), "--measure", method, "--official", path]
    # The official code starts processes, which report their warnings whatever this one does.
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{method}: {done.stderr.strip().splitlines()[-1] if done.stderr else done.returncode}")
    found: Record = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--official", default="", help="the original infomec.py")
    parser.add_argument("--python", default="", help="an interpreter on whose packages it runs")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.official)
        return 0
    from machine import machine, warnings_of

    from identifiable.results import write_text

    about = machine()
    peers = {"calls": sys.executable}
    if options.official and options.python:
        peers["official"] = options.python
    taken: dict[str, list[Record]] = {}
    for k in range(options.repeat):
        for method, python in {"ours": sys.executable, **peers}.items():
            print(f"round {k + 1} of {options.repeat}: {method}", file=sys.stderr)
            taken.setdefault(method, []).append(fresh(python, method, options.official))
    differences = {
        peer: {score: abs(taken[peer][0]["scores"][score] - taken["ours"][0]["scores"][score]) for score in AGREEMENT}
        for peer in peers
    }
    faster = {
        f"{peer} over ours": {
            key: statistics.median(
                a[f"{key}_s"] / b[f"{key}_s"] for a, b in zip(taken[peer], taken["ours"], strict=True)
            )
            for key in ("wall", "cpu")
        }
        for peer in peers
    }
    record = {
        "made": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": about,
        "warnings": warnings_of(about),
        "size": {"rows": ROWS, "latents": LATENTS, "classes": CLASSES},
        "asked": TIMES_FASTER,
        "ratios": faster,
        "differences": differences,
        "runs": taken,
    }
    write_text(HERE / "results" / "infomec.json", json.dumps(record, indent=1) + "\n")
    for name, found in faster.items():
        print(f"{name}: {found['wall']:.1f} by the clock, {found['cpu']:.1f} by CPU")
    print(json.dumps(differences, indent=1))
    # Today's scikit-learn ends its regressions elsewhere: only what the official code gives must agree.
    wrong = [s for s, within in AGREEMENT.items() if differences.get("official", {}).get(s, 0.0) > within]
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
