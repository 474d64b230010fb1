"""Are they the right components? Many small worlds, several starts of ours, the best of five scikit-learn runs.

Every finished piece is a line of a JSON lines file, so an interrupted run goes on where it stopped. Lines of ours carry
a fingerprint of the engine and are not used again once it has changed; scikit-learn's stay.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ica_methods import Array, contrast, correlation, covariance, ours, partners, sklearn

import identifiable
from identifiable.groups import AffineMap
from identifiable.worlds import SourceWorld, sources

RECIPE = 1  # raise it when the worlds or what is done with them change
ROWS = (2_000, 5_000, 10_000, 20_000, 50_000)
WIDTHS = (4, 8, 16, 32, 64, 128)
NONLINEARITIES = (0.0, 0.1)
REFERENCE_RUNS = 5
REFERENCE_ITERATIONS = 300
STARTS = 3  # of ours on every world
SAME = 0.99  # |correlation| above which two components are one
RECOVERED = 0.99
SLACKS = (0.0, 1e-6, 1e-4)  # relative
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Case:
    """One world."""

    rows: int
    width: int
    nonlinearity: float
    replicate: int

    @property
    def name(self) -> str:
        return f"r{RECIPE}_{self.rows}x{self.width}_nl{self.nonlinearity:g}_{self.replicate}"

    def world(self) -> SourceWorld:
        seed = [RECIPE, self.rows, self.width, round(1000 * self.nonlinearity), self.replicate]
        rng = np.random.default_rng(seed)
        return sources(self.rows, self.width, rng=rng, nonlinearity=self.nonlinearity, decades=4.0, workers=1)


def cases(rows: Sequence[int] = ROWS, widths: Sequence[int] = WIDTHS) -> list[Case]:
    """Two worlds of every size (one at 50,000 rows), with and without nonlinearity; largest first."""
    every = [
        Case(n, d, bend, replicate)
        for n in rows
        for d in widths
        if n >= 10 * d
        for bend in NONLINEARITIES
        for replicate in range(1 if n >= 50_000 else 2)
    ]
    return sorted(every, key=lambda c: -c.rows * c.width)


def engine() -> str:
    """A fingerprint of the code that decides our components."""
    package = Path(identifiable.__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*package.glob("ica/*.py"), package / "groups.py", package / "moments.py"]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


# -- one piece of work; everything here runs in a process with one thread


def reference(case: Case, folder: Path) -> dict[str, Any]:
    """scikit-learn: the best of five runs, which of its components a refit on half of the rows reproduces."""
    world = case.world()
    X = world.X.astype(np.float64)
    start = time.process_time()
    fits = [sklearn(X, seed=seed, max_iter=REFERENCE_ITERATIONS) for seed in range(REFERENCE_RUNS)]
    cpu = time.process_time() - start
    contrasts = [contrast(world.X, fit.to_components) for fit in fits]
    best = fits[int(np.argmax(contrasts))].to_components
    half = np.random.default_rng([RECIPE, case.replicate, 77]).permutation(case.rows)[: case.rows // 2]
    refit = sklearn(X[half], seed=REFERENCE_RUNS, max_iter=REFERENCE_ITERATIONS)
    _, again = partners(correlation(covariance(world.X), best, refit.to_components))
    reproduced = np.flatnonzero(np.abs(again) > SAME)
    np.savez(folder / f"{case.name}.npz", matrix=best.matrix, offset=best.offset, reproduced=reproduced)
    return {
        "side": "sklearn",
        "case": case.name,
        **asdict(case),
        "contrasts": contrasts,
        "converged": [fit.converged for fit in fits],
        "iterations": [int(fit.passes) for fit in fits],
        "refit_converged": refit.converged,
        "cpu_s": cpu,
        "reproduced": len(reproduced),
        **recovered(world, best),
    }


def candidate(case: Case, seed: int, folder: Path, fingerprint: str) -> dict[str, Any]:
    """Ours with one seed (as many starts as `restarts="auto"` makes), against what is known and against scikit-learn's components."""
    world = case.world()
    start = time.process_time()
    fit = ours(world.X, seed=seed, workers=1)
    cpu = time.process_time() - start
    with np.load(folder / f"{case.name}.npz") as kept:
        theirs, reproduced = AffineMap(kept["matrix"], kept["offset"]), kept["reproduced"]
    _, r = partners(correlation(covariance(world.X), theirs, fit.to_components))
    matched = np.abs(r[reproduced])
    return {
        "side": "ours",
        "case": case.name,
        "seed": seed,
        "engine": fingerprint,
        "contrast": contrast(world.X, fit.to_components),
        "converged": fit.converged,
        "passes": fit.passes,
        "cpu_s": cpu,
        "reproduced": len(reproduced),
        "matched": int(np.sum(matched > SAME)),
        "missed": sorted(matched[matched <= SAME].tolist()),
        **recovered(world, fit.to_components),
    }


def recovered(world: SourceWorld, to_components: AffineMap) -> dict[str, Any]:
    """Mean |correlation| with the true sources: the clearly non-Gaussian ones, and all."""
    r: Array = world.recovery(to_components)
    strong = r[world.of_kind("super", "sub")]
    return {"recovery_strong": float(strong.mean()), "recovery_all": float(r.mean()), "recovery_min": float(r.min())}


# -- the run


def run(
    folder: Path, lines: Path, *, chosen: Sequence[Case], starts: int, processes: int, tick: Callable[[str], None]
) -> dict[str, Any]:
    """Do what is not yet in `lines`, then sum up all of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for variable in BLAS_VARIABLES:
        os.environ[variable] = "1"  # read by the children when they start
    fingerprint = engine()
    done = list(read(lines))
    pool = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))
    with pool, lines.open("a", encoding="utf-8") as log:

        def carry_out(stage: str, jobs: list[tuple[Any, ...]]) -> None:
            pending = [pool.submit(*job) for job in jobs]
            try:
                for k, future in enumerate(as_completed(pending)):
                    record = future.result()
                    done.append(record)
                    log.write(json.dumps(record) + "\n")
                    log.flush()
                    tick(f"{stage}: {k + 1} of {len(jobs)} ({record['case']})")
            finally:
                for future in pending:
                    future.cancel()

        known = {r["case"] for r in done if r["side"] == "sklearn"}
        have = {name for name in known if (folder / f"{name}.npz").exists()}
        done = [r for r in done if r["side"] != "sklearn" or r["case"] in have]
        carry_out("scikit-learn", [(reference, c, folder) for c in chosen if c.name not in have])
        ran = {(r["case"], r["seed"]) for r in done if r["side"] == "ours" and r["engine"] == fingerprint}
        todo = [(c, s) for c in chosen for s in range(starts) if (c.name, s) not in ran]
        carry_out("ours", [(candidate, c, s, folder, fingerprint) for c, s in todo])
    return summary(done, [c.name for c in chosen], range(starts), fingerprint)


def read(lines: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of the file; one cut off by an interruption is left out."""
    if lines.exists():
        for line in lines.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                continue


def summary(
    records: Iterable[dict[str, Any]], names: Sequence[str], seeds: Iterable[int], fingerprint: str
) -> dict[str, Any]:
    records = list(records)
    theirs = {r["case"]: r for r in records if r["side"] == "sklearn" and r["case"] in names}
    wanted = set(seeds)
    mine = [
        r
        for r in records
        if r["side"] == "ours" and r["engine"] == fingerprint and r["case"] in theirs and r["seed"] in wanted
    ]
    best = {name: max(r["contrasts"]) for name, r in theirs.items()}
    short = [(r["contrast"] - best[r["case"]]) / best[r["case"]] for r in mine]
    every = [c for r in theirs.values() for c in r["contrasts"]]
    theirs_short = [(c - best[name]) / best[name] for name, r in theirs.items() for c in r["contrasts"]]
    reproduced, matched = sum(r["reproduced"] for r in mine), sum(r["matched"] for r in mine)
    return {
        "engine": fingerprint,
        "worlds": len(theirs),
        "runs": len(mine),
        "share_at_least_best_of_sklearn": {f"{s:g}": float(np.mean(np.array(short) >= -s)) for s in SLACKS},
        "share_of_single_sklearn_runs": {f"{s:g}": float(np.mean(np.array(theirs_short) >= -s)) for s in SLACKS},
        "relative_contrast_quantiles": dict(
            zip(("min", "1%", "5%", "50%", "max"), np.quantile(short, (0, 0.01, 0.05, 0.5, 1)).tolist(), strict=True)
        ),
        "worst": sorted(
            (
                {"case": r["case"], "seed": r["seed"], "relative": s, "converged": r["converged"]}
                for r, s in zip(mine, short, strict=True)
                if s < 0
            ),
            key=lambda w: w["relative"],
        )[:40],
        "not_converged": {
            "ours": sum(not r["converged"] for r in mine),
            "sklearn": sum(not c for r in theirs.values() for c in r["converged"]),
            "sklearn_runs": len(every),
        },
        "half_data": {
            "reproduced_components": reproduced,
            "matched_above_0.99": matched,
            "missed": sorted(m for r in mine for m in r["missed"])[:50],
            "runs_with_a_miss": sum(bool(r["missed"]) for r in mine),
        },
        "cpu_s": {
            "ours_per_run": _mean(mine, "cpu_s"),
            "sklearn_per_run": _mean(theirs.values(), "cpu_s", REFERENCE_RUNS),
        },
        "recovery": recovery_table(mine, theirs),
    }


def recovery_table(mine: Sequence[dict[str, Any]], theirs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Recovery by n and d where sources are independent, and from which n the mean exceeds 0.99.

    Sampling noise turns a component by about sqrt(d / n), so 1 - |r| falls as c d / n: one constant c, the median
    over worlds where recovery is above 0.9, gives the n from which the mean should exceed 0.99, 100 c d.
    """
    rows = []
    for name, r in theirs.items():
        runs = [m for m in mine if m["case"] == name]
        if r["nonlinearity"] == 0 and runs:
            rows.append((r["width"], r["rows"], runs, r))
    table = []
    for d, n in sorted({(d, n) for d, n, _, _ in rows}):
        at = [(runs, r) for width, count, runs, r in rows if (width, count) == (d, n)]
        every = [m for runs, _ in at for m in runs]
        found = {key: _mean(every, key) for key in ("recovery_strong", "recovery_all")}
        sk = {f"sklearn_{key}": _mean([r for _, r in at], key) for key in ("recovery_strong", "recovery_all")}
        table.append({"d": d, "n": n, **found, **sk})
    rules = {}
    for key in ("recovery_strong", "recovery_all"):
        close = [(1 - t[key]) * t["n"] / t["d"] for t in table if t[key] > 0.9]
        widths = sorted({t["d"] for t in table})
        rules[key] = {
            "c": float(np.median(close)) if close else None,
            "n_over_d": float(np.median(close)) / (1 - RECOVERED) if close else None,
            "smallest_n_seen": {str(d): _from_which_n([t for t in table if t["d"] == d], key) for d in widths},
        }
    return {"table": table, "from_which_n": rules}


def _from_which_n(table: Sequence[dict[str, Any]], key: str) -> int | None:
    """The smallest n from which on every larger one exceeds 0.99; None if the largest does not."""
    smallest = None
    for t in sorted(table, key=lambda t: -t["n"]):
        if t[key] <= RECOVERED:
            break
        smallest = t["n"]
    return smallest


def _mean(records: Iterable[dict[str, Any]], key: str, over: int = 1) -> float:
    return float(np.mean([r[key] for r in records])) / over
