"""Are shared axes counted rightly, and does the interval of the efficiency cover? python benchmarks/answer_axes.py [--count 100] [--seed S]

Two models see the same independent sources, k of them not Gaussian (Laplace, uniform, exponential), each with noise of its own,
through mixings and scales of their own. Dimensions, k, rows per dimension, noise, mixings, scales and seeds are drawn at run time.

matched     |matched - k| <= 1 at 200 rows per dimension and more, where noise is below 0.1 of a source
withheld    no count below 100 rows per dimension
covers      the efficiency is withheld, or its interval holds the truth, which is computed from the population's covariances and the
            sources' own directions; what is Gaussian is turned at random, and the share of turns inside the interval counts
units       the largest change of the efficiency after a change of units
cost        CPU of all over that of the four fits, where those take more than 0.3 s
"""

from __future__ import annotations

import argparse
import json
import secrets
import time
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine, warnings_of

from identifiable import ica
from identifiable.blocks import Blocks
from identifiable.groups import haar_rotation, permutation_matrix
from identifiable.identifiability import axes
from identifiable.identifiability.run import CompareRun, Table
from identifiable.intake import gather_moments
from identifiable.moments import Array, Moments
from identifiable.options import CompareOptions
from identifiable.rows import plan_rows

RESULTS = Path(__file__).parent / "results" / "answer_axes.json"
CELLS, TURNS = 10, 200
SOURCES = {
    "laplace": lambda rng, n: rng.laplace(size=n) / np.sqrt(2),
    "uniform": lambda rng, n: rng.uniform(-np.sqrt(3), np.sqrt(3), size=n),
    "exponential": lambda rng, n: rng.exponential(size=n) - 1,
    "gaussian": lambda rng, n: rng.standard_normal(n),
}


@dataclass(frozen=True)
class World:
    """Sources of unit variance, those that are not Gaussian first; noise and mixing of both models."""

    kinds: tuple[str, ...]
    noise: Array
    mixings: tuple[Array, Array]

    @classmethod
    def drawn(cls, rng: np.random.Generator, d: int, k: int) -> World:
        kinds = [*rng.choice(["laplace", "uniform", "exponential"], size=k).tolist(), *["gaussian"] * (d - k)]
        noise = rng.choice([0.0, 0.1, 0.5]) * rng.uniform(size=(2, d))
        shear, scales = rng.choice([0.0, 0.2, 0.5]), np.exp(rng.uniform(-5, 5, size=2))
        first, second = (s * np.exp(shear * rng.standard_normal((d, 1))) * haar_rotation(d, rng) for s in scales)
        return cls(tuple(kinds), noise, (first, second))

    @property
    def k(self) -> int:
        return sum(kind != "gaussian" for kind in self.kinds)

    def rows(self, rng: np.random.Generator, n: int) -> list[Array]:
        sources = np.stack([SOURCES[kind](rng, n) for kind in self.kinds], axis=1)
        both = zip(self.noise, self.mixings, strict=True)
        return [(sources + noise * rng.standard_normal(sources.shape)) @ mixing for noise, mixing in both]

    def efficiencies(self, rng: np.random.Generator) -> Array:
        """Of the population: one for each turn of the Gaussian sources; a single one where they have no room to turn."""
        (a, b), spread = self.mixings, np.sqrt(1 + self.noise**2)
        xx, yy, xy = a.T * spread[0] ** 2 @ a, b.T * spread[1] ** 2 @ b, a.T @ b
        to_x, to_y, back = np.linalg.inv(a) / spread[0], np.linalg.inv(b) / spread[1], spread[1][:, None] * b

        def error(matrix: Array) -> float:
            common = float(np.sum(matrix * xy))
            return float(np.sqrt(max(np.trace(yy) - common**2 / np.sum(matrix * (xx @ matrix)), 0.0)))

        permutation = error(permutation_matrix(xy / np.sqrt(np.outer(np.diag(xx), np.diag(yy)))))
        left, _, right = np.linalg.svd(xy)
        rigid = error(left @ right)
        d, k = len(self.kinds), self.k
        found = []
        for _ in range(TURNS if d - k > 1 else 1):
            turns = [np.eye(d), np.eye(d)]
            for turn in turns if d - k > 1 else []:
                turn[k:, k:] = haar_rotation(d - k, rng)
            x, y = to_x @ turns[0], to_y @ turns[1]
            through = error(x @ permutation_matrix(x.T @ xy @ y) @ turns[1].T @ back)
            found.append((permutation - through) / (permutation - rigid))
        return np.array(found)


def measure(x: Array, y: Array, seed: int) -> tuple[axes.AxesOf, float]:
    """What is found, and the CPU seconds beyond the moments, which compare has."""
    run = CompareRun(seed, 1, settings=CompareOptions(seed=seed, workers=1))
    run.plan = plan_rows(len(x), None, seed=seed, n_folds=5)
    tables = [Table(name, Blocks(rows, name=name), None, run) for name, rows in (("x", x), ("y", y))]
    cell = run.plan.cell % CELLS
    cells = gather_moments([t.blocks for t in tables], part=cell, n_parts=CELLS)
    for which, table in enumerate(tables):
        table.known_moments = reduce(Moments.merge, cells).alone(which)
    begun = time.process_time()
    found = axes.measure_axes(run, *tables, cells, cell)[0]
    return found, time.process_time() - begun


class FitSeconds:
    """CPU seconds of `ica.fit` while it stands in its place."""

    def __init__(self) -> None:
        self.fit, self.total = ica.fit, 0.0

    def __call__(self, *given: Any, **named: Any) -> ica.Fit:
        begun = time.process_time()
        found = self.fit(*given, **named)
        self.total += time.process_time() - begun
        return found


def one(rng: np.random.Generator) -> dict[str, Any]:
    d = int(rng.integers(2, 25))
    k = int(rng.integers(0, d + 1))
    per = float(np.exp(rng.uniform(np.log(60), np.log(1200))))
    world, seed = World.drawn(rng, d, k), int(rng.integers(2**31))
    x, y = world.rows(rng, round(per * d))
    axes.ica.fit = fits = FitSeconds()
    found, spent = measure(x, y, seed)
    axes.ica.fit = fits.fit
    line: dict[str, Any] = {"d": d, "k": k, "rows_per_dimension": len(x) / d, "noise": float(world.noise.max())}
    line |= {"withheld": found.axes.withheld, "matched": found.axes.matched, "own": found.axes.own_source}
    if fits.total > 0.3:
        line["cost"] = spent / fits.total
    if found.efficiency is not None and found.efficiency.ci95 is not None:
        truth, (low, high) = world.efficiencies(rng), found.efficiency.ci95
        again = measure(x * float(np.exp(rng.uniform(-3, 3))), y, seed)[0].efficiency if rng.uniform() < 0.1 else None
        line |= {"efficiency": found.efficiency.held_out, "low": low, "high": high, "truth": float(truth.mean())}
        line["covers"] = float(np.mean((truth >= low) & (truth <= high)))
        line["units"] = None if again is None else abs(again.held_out - found.efficiency.held_out)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None, help="drawn at run time if not given")
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    rng, about, begun = np.random.default_rng(seed), machine(), time.process_time()
    lines = [one(rng) for _ in range(options.count)]
    many = [line for line in lines if line["rows_per_dimension"] >= 200 and line["noise"] <= 0.1]
    few = [line for line in lines if line["rows_per_dimension"] < 99.5]
    known = [line for line in lines if "covers" in line]
    exact = [line for line in known if line["d"] - line["k"] < 2]
    rates = {
        "matched within 1": _mean([abs(line["matched"] - line["k"]) <= 1 for line in many]),
        "withheld below 100": _mean([line["withheld"] == "few_rows" for line in few]),
        "Gaussian: no efficiency": _mean(["covers" not in line for line in lines if line["k"] == 0]),
        "efficiency covers": _mean([line["covers"] for line in known]),
        "efficiency covers, no arbitrary components": _mean([line["covers"] for line in exact]),
        "half width, median": _median([(line["high"] - line["low"]) / 2 for line in known]),
        "units: largest change": max((line["units"] for line in known if line["units"] is not None), default=None),
        "cost over the fits, largest": max((line["cost"] for line in lines if "cost" in line), default=None),
    }
    for name, value in rates.items():
        print(f"{name:45} {value}")
    record = {
        "benchmark": "answer_axes",
        "command": f"python benchmarks/answer_axes.py --count {options.count} --seed {seed}",
        "machine": about,
        "warnings": warnings_of(about),
        "cpu_seconds": round(time.process_time() - begun, 1),
        "rates": rates,
        "draws": lines,
    }
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")


def _mean(values: list[Any]) -> str | None:
    return f"{np.mean(values):.3f} of {len(values)}" if values else None


def _median(values: list[float]) -> float | None:
    return round(float(np.median(values)), 4) if values else None


if __name__ == "__main__":
    main()
