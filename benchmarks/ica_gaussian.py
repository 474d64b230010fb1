"""ICA where directions are Gaussian: python benchmarks/ica_gaussian.py PART [options]

fits      worlds with 0, 20 and 40 % Gaussian directions: passes, CPU, contrast of the identifiable part; scikit-learn beside them,
          its time for 200 iterations extrapolated from a few.
refits    what the default refits cost, over the fit alone.
verdicts  planted worlds, small ones on the way of large tables: how often refits that begin at the fit (warm) and refits that
          are searched anew (cold) call a component reproducible, by what it is.

Each part merges its results into results/ica_gaussian.json, with the machine it ran on.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from ica_methods import contrast as total_contrast
from ica_methods import fit_in_child
from machine import machine, warnings_of
from numpy.typing import NDArray

from identifiable import resolve
from identifiable.ica.chance import by_chance
from identifiable.ica.contrasts import contrast, gaussian_values
from identifiable.ica.diagnostics import LEAST_STABILITY, WORST_STABILITY
from identifiable.results import write_text
from identifiable.worlds import MIX, SourceWorld, sources

Array = NDArray[np.float64]
Record = dict[str, Any]
HERE = Path(__file__).resolve().parent
SHARES = (0.0, 0.2, 0.4)
LOGCOSH = contrast("logcosh")


# -- passes and CPU


def mixed(n: int, d: int, gaussian: float, seed: int = 0) -> SourceWorld:
    """A world of the usual mix with a share of Gaussian directions."""
    kinds: Any = {kind: share * (1 - gaussian) for kind, share in MIX.items()}
    return sources(n, d, rng=np.random.default_rng(seed), kinds=kinds | ({"gaussian": gaussian} if gaussian else {}))


def fits(options: argparse.Namespace, before: Record) -> Record:
    report = dict(before)
    n, d = options.size
    for share in options.shares:
        world = mixed(n, d, share)
        with tempfile.TemporaryDirectory(prefix="identifiable-gauss-") as folder:
            data = Path(folder) / "X.npy"
            np.save(data, world.X)
            ours, found = fit_in_child("ours", data, load="float32", seed=0)
            assert found is not None
            record: Record = {
                "ours": {**ours, "contrast": total_contrast(world.X, found), **identifiable_part(world, found)}
            }
            if options.sklearn and share == 0.0:  # what an iteration costs does not depend on the sources
                few, more = (
                    fit_in_child("sklearn", data, load="float64", seed=0, max_iter=k, tol=0.0)[0]
                    for k in options.sklearn
                )
                each = (more["cpu_s"] - few["cpu_s"]) / (more["passes"] - few["passes"])
                whole = few["cpu_s"] + (200 - few["passes"]) * each
                report[f"{n}x{d} scikit-learn float64"] = {
                    "cpu_s_200_iterations_extrapolated": whole,
                    "cpu_s_per_iteration": each,
                    "measured": [few, more],
                }
        report[f"{n}x{d} {share:.0%} Gaussian"] = record
        print(f"{n}x{d} {share:.0%}", {k: record["ours"][k] for k in ("passes", "cpu_s", "converged")}, flush=True)
    return summary(report, n, d)


def identifiable_part(world: SourceWorld, found: Any) -> Record:
    """Of sources that departures on half the rows can show, how many come back (|r| > 0.9), and their contrast."""
    n, d = world.X.shape
    shapes, departures = np.zeros(d), np.zeros(d)
    r = world.mixing.matrix @ found.matrix
    r /= np.linalg.norm(r, axis=0)
    owner = np.abs(r).argmax(axis=1)
    spread = world.sources.std(axis=0)
    for a in range(0, n, 8192):
        s = world.sources[a : a + 8192] / spread
        t = np.tanh(s)
        shapes += (s * t - 1 + t * t).sum(axis=0) / n
        y = np.asarray(found(world.X[a : a + 8192]))[:, owner]
        departures += np.asarray(LOGCOSH.value(y)).sum(axis=0) / n
    gaussian = np.array(world.kinds) == "gaussian"
    can_be = ~gaussian & ~by_chance(shapes, n // 2, LOGCOSH, max(int(gaussian.sum()), 1))
    part = np.abs(departures - gaussian_values("logcosh").mean)[can_be].sum()
    back = np.abs(r).max(axis=1)[can_be] > 0.9
    return {"identifiable_sources": int(can_be.sum()), "found": int(back.sum()), "contrast_of_them": float(part)}


def summary(report: Record, n: int, d: int) -> Record:
    """Passes and CPU with Gaussian directions over those without, and scikit-learn's CPU over ours."""
    names = [f"{n}x{d} {share:.0%} Gaussian" for share in SHARES]
    ours = [report[name]["ours"] for name in names if name in report]
    theirs = report.get(f"{n}x{d} scikit-learn float64") or from_records(n, d)
    report[f"{n}x{d} scikit-learn float64"] = theirs
    report[f"{n}x{d} summary"] = {
        "passes": [round(o["passes"], 2) for o in ours],
        "passes_over_those_without": [round(o["passes"] / ours[0]["passes"], 2) for o in ours],
        "cpu_s": [round(o["cpu_s"], 1) for o in ours],
        "sklearn_200_iterations_over_ours": theirs
        and [round(theirs["cpu_s_200_iterations_extrapolated"] / o["cpu_s"], 1) for o in ours],
    }
    print(json.dumps(report[f"{n}x{d} summary"]))
    return report


def from_records(n: int, d: int) -> Record | None:
    """scikit-learn's time for 200 iterations by a line through its runs on worlds of that size in results/ica.json."""
    speed = json.loads((HERE / "results" / "ica.json").read_text())["parts"]["speed"]
    runs = [v["opponents"]["sklearn_float64"] for k, v in speed.items() if k.startswith(f"{n}x{d}_")]
    if len(runs) < 2:
        return None
    each, fixed = np.polyfit([r["passes"] for r in runs], [r["cpu_s"] for r in runs], 1)
    points = [[r["passes"], r["cpu_s"]] for r in runs]
    return {
        "cpu_s_200_iterations_extrapolated": float(fixed + 200 * each),
        "cpu_s_per_iteration": float(each),
        "iterations_and_cpu_s_in_ica_json": points,
    }


def refits(options: argparse.Namespace, before: Record) -> Record:
    """`resolve` with its default refits over `resolve` without, in turn, in processes of their own."""
    n, d = options.size
    report = dict(before)
    for share in options.shares:
        world = mixed(n, d, share)
        with tempfile.TemporaryDirectory(prefix="identifiable-gauss-") as folder:
            data = Path(folder) / "X.npy"
            np.save(data, world.X)
            del world
            alone = fit_in_child("ours", data, load="float32", seed=0)[0]
            with_refits = fit_in_child("ours", data, load="float32", seed=0, stability=6)[0]
        report[f"{n}x{d} {share:.0%} Gaussian"] = {
            "alone": alone,
            "with_refits": with_refits,
            "cpu_ratio": with_refits["cpu_s"] / alone["cpu_s"],
        }
        print(f"{n}x{d} {share:.0%}: {with_refits['cpu_s'] / alone['cpu_s']:.2f} times", flush=True)
    return report


# -- verdicts


def planted(d: int, n: int, gaussian: float, rng: np.random.Generator) -> tuple[Array, list[str]]:
    k = round(gaussian * d)
    real = np.hstack([rng.laplace(size=(n, (d - k + 1) // 2)), rng.uniform(-1, 1, (n, (d - k) // 2))])
    return np.hstack([real, rng.standard_normal((n, k))]), ["source"] * (d - k) + ["gaussian"] * k


def look_alikes(n: int, rng: np.random.Generator) -> tuple[Array, list[str]]:
    """A disk with heavy tails, any two axes of which are as good as any other two, beside six sources."""
    real = planted(6, n, 0.0, rng)[0]
    disk = rng.standard_normal((n, 2)) / np.sqrt(rng.chisquare(5, (n, 1)) / 5)
    return np.hstack([real, disk]), ["source"] * 6 + ["look-alike"] * 2


PLANTED: dict[str, Callable[[np.random.Generator], tuple[Array, list[str]]]] = {
    "0 % Gaussian": lambda rng: planted(10, 4000, 0.0, rng),
    "20 % Gaussian": lambda rng: planted(10, 4000, 0.2, rng),
    "40 % Gaussian": lambda rng: planted(10, 4000, 0.4, rng),
    "look-alikes": lambda rng: look_alikes(4000, rng),
    "few rows": lambda rng: planted(20, 100, 0.2, rng),
}


@contextmanager
def as_if_large(warm: bool) -> Iterator[None]:
    """Small tables take the way of large ones, and their refits begin at the fit, however few rows there are; or not at all."""
    with (
        mock.patch("identifiable.ica.fitting.RESTART_OPERATIONS", 0),
        mock.patch("identifiable.ica.refits.begins_near", return_value=warm),
    ):
        yield


def verdicts_of(world: str, seed: int, warm: bool, refits: int = 6) -> Counter[tuple[str, str]]:
    """How many components of each kind are called reproducible, refused, or found again by all refits, whatever the verdict.

    A component is of the kind of the source nearest to it.
    """
    S, kinds = PLANTED[world](np.random.default_rng([seed, 24]))
    d = S.shape[1]
    X = S @ np.random.default_rng([seed, 25]).standard_normal((d, d))
    with as_if_large(warm):
        found = resolve(X, stability=refits, seed=seed)
    r = np.corrcoef(S, found.to_components(X), rowvar=False)[:d, d:]
    counts: Counter[tuple[str, str]] = Counter()
    for c in found.result.components:
        kind = kinds[int(np.abs(r[:, c.index]).argmax())]
        counts[kind, "reproducible" if c.identifiable else "refused"] += 1
        counts[kind, "found again"] += c.stability >= LEAST_STABILITY and c.stability_min >= WORST_STABILITY
    return counts


def verdicts(options: argparse.Namespace, before: Record) -> Record:
    report: Record = {}
    for world in PLANTED:
        counts = {start: Counter[tuple[str, str]]() for start in ("warm", "cold")}
        for seed in range(options.seeds):
            for start, total in counts.items():
                total.update(verdicts_of(world, seed, start == "warm"))
        report[world] = {
            start: {f"{kind}, {what}": int(k) for (kind, what), k in sorted(total.items())}
            for start, total in counts.items()
        }
        print(world, json.dumps(report[world]), flush=True)
    return {"seeds": options.seeds, "counts": report}


PARTS = {"fits": fits, "refits": refits, "verdicts": verdicts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--size", type=lambda text: tuple(map(int, text.split("x"))), default=(60_000, 192))
    parser.add_argument("--shares", type=float, nargs="*", default=SHARES)
    parser.add_argument(
        "--sklearn", type=int, nargs=2, help="iterations of two short runs of scikit-learn, such as 3 25"
    )
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--output", type=Path, default=HERE / "results" / "ica_gaussian.json")
    options = parser.parse_args()
    about = machine()
    known = json.loads(options.output.read_text()) if options.output.exists() else {}
    found = PARTS[options.part](options, known.get(options.part, {}).get("results", {}))
    known[options.part] = {"machine": about, "warnings": warnings_of(about), "results": found}
    write_text(options.output, json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
