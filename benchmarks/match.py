"""What `match` claims of its nulls and of its assignment of large dictionaries, measured.

    python benchmarks/match.py           # two CPU minutes; writes results/match.json (parts by name: `match.py sparse`)
    python benchmarks/match.py large     # 65,536 x 768, one core: five CPU minutes, 2 GB of memory, 400 MB of disk

isotropic    PW-MCC of simulated isotropic dictionaries minus the closed form
sparse       exact PW-MCC minus that of the sparse assignment, 4,096 features
chance       the matched null, extrapolated to 4,096 features from 512 to 2,048, minus the same null drawn at 4,096
independent  PW-MCC of dictionaries that share nothing minus the chance that `match` reports, 1,024 features
large        seconds and peak memory of `match` on two files, in a process of its own, and how many planted partners it finds
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine, peak_memory_mb, timed

from identifiable import match
from identifiable.dictionaries.assignment import assign
from identifiable.dictionaries.chance import Directions, chance, isotropic_level
from identifiable.run import Run

FEATURES, WIDTH = 4096, 96
ALONE = Run(workers=1)
Make = Callable[[int, np.random.Generator], Any]


def unit(rows: Any) -> Any:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def gaussian(mean: Any, spread: Any) -> Make:
    return lambda k, rng: unit(mean + rng.standard_normal((k, WIDTH)) * spread)


STEPS = np.arange(1, WIDTH + 1)
WORLDS: dict[str, Make] = {
    "isotropic": gaussian(0.0, 1.0),
    "shared mean": gaussian(0.5, 1.0),
    "narrow cone": gaussian(2.0, 1.0),
    "decaying spectrum": gaussian(0.0, STEPS**-0.5),
    "steep spectrum": gaussian(0.0, 1.0 / STEPS),
    "mean and spectrum": gaussian(1.5 * (STEPS == 4), STEPS**-0.5),
    "few dimensions": gaussian(0.0, np.where(STEPS <= 8, 1.0, 0.1)),
}


def clumped(k: int, rng: np.random.Generator) -> Any:
    centres = np.random.default_rng(5).standard_normal((k // 20, WIDTH))
    return unit(centres[rng.integers(len(centres), size=k)] + 0.3 * rng.standard_normal((k, WIDTH)))


def half_shared(k: int, rng: np.random.Generator) -> Any:
    common = np.random.default_rng(6).standard_normal((k, WIDTH))
    own = rng.standard_normal((k, WIDTH))
    return unit(np.where(np.arange(k)[:, None] % 2, common + 0.7 * own, own))


def isotropic() -> dict[str, float]:
    rng = np.random.default_rng(0)
    found = {}
    for k, d, draws in ((512, 64, 6), (512, 768, 6), (2048, 64, 2), (2048, 256, 2)):
        sizes = [[each.size.mean() for each in assign(*_two(k, d, rng), ALONE)] for _ in range(draws)]
        for mean, signed in zip(np.mean(sizes, axis=0), (True, False), strict=True):
            found[f"{k} x {d}, {'signed' if signed else 'absolute'}"] = float(
                mean - isotropic_level(k, d, signed=signed)
            )
    return found


def _two(k: int, d: int, rng: np.random.Generator) -> list[Any]:
    return [unit(rng.standard_normal((k, d))) for _ in range(2)]


def sparse() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    chosen = ("isotropic", "narrow cone", "decaying spectrum")
    worlds = {name: WORLDS[name] for name in chosen} | {"clumps": clumped, "half shared": half_shared}
    found = {}
    for name, make in worlds.items():
        A, B = make(FEATURES, rng), make(FEATURES, rng)
        exact = timed(lambda A=A, B=B: assign(A, B, ALONE, exact=FEATURES))
        quick = timed(lambda A=A, B=B: assign(A, B, ALONE, exact=1))
        missed = [float(e.size.mean() - q.size.mean()) for e, q in zip(exact.result, quick.result, strict=True)]
        found[name] = {"signed": missed[0], "absolute": missed[1], "cpu_s_exact": exact.cpu, "cpu_s_sparse": quick.cpu}
    return found


def extrapolated() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    found = {}
    for name, make in WORLDS.items():
        laws = [Directions.of(make(FEATURES, rng)) for _ in range(2)]
        level = chance(laws, [FEATURES] * 2, True, draws=19, threshold=0.7, run=ALONE).pairs[0]
        null = assign(*(law.draw(FEATURES, rng) for law in laws), ALONE, conventions=(True,))[0]
        drawn = {"pw_mcc": null.size.mean(), "max_cosine": null.best.mean(), "99 %": np.quantile(null.size, 0.99)}
        said = {"pw_mcc": level.draws[:, 0].mean(), "max_cosine": level.draws[:, 2].mean()}
        said["99 %"] = np.quantile(level.sizes, 0.99)
        found[name] = {"full": float(drawn["pw_mcc"])} | {key: float(said[key] - drawn[key]) for key in drawn}
    return found


def independent() -> dict[str, float]:
    rng = np.random.default_rng(3)
    found = {}
    for name, make in WORLDS.items():
        result = match(make(1024, rng), make(1024, rng), null_draws=3, workers=1)
        found[name] = result.pairs[0].main.value - result.pairs[0].main.chance
    return found


def large(features: int, width: int) -> dict[str, Any]:
    """Half of the features are shared, with noise that leaves a cosine of 0.82; the others are of one dictionary alone."""
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        one = rng.standard_normal((features, width), dtype=np.float32)
        np.save(f"{folder}/one.npy", one)
        one[: features // 2] += 0.7 * rng.standard_normal((features // 2, width), dtype=np.float32)
        one[features // 2 :] = rng.standard_normal((features - features // 2, width), dtype=np.float32)
        order = rng.permutation(features)
        np.save(f"{folder}/two.npy", one[order])
        np.save(f"{folder}/order.npy", order)
        del one
        done = subprocess.run(
            [sys.executable, __file__, "alone", "--folder", folder], check=True, capture_output=True, timeout=3600
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return {"features": features, "width": width, **found}


def alone(folder: str) -> dict[str, Any]:
    took = timed(lambda: match(f"{folder}/one.npy", f"{folder}/two.npy", workers=1))
    pair, order = took.result.pairs[0], np.load(f"{folder}/order.npy")
    shared = len(order) // 2
    right = float(np.mean(order[pair.arrays.partner[:shared]] == np.arange(shared)))
    scores = {s.name: {"value": s.value, "chance": s.chance} for s in pair.scores}
    about = {"above": pair.above, "chance_above": pair.chance_above, "solver": pair.solver, "planted_found": right}
    return {"wall_s": took.wall, "cpu_s": took.cpu, "peak_mb": peak_memory_mb(), **about, "scores": scores}


PARTS = {"isotropic": isotropic, "sparse": sparse, "chance": extrapolated, "independent": independent}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[*PARTS], help=f"{', '.join(PARTS)} (default), or large")
    parser.add_argument("--features", type=int, default=65_536)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--folder", help="of the files that `alone` reads")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "match.json")
    options = parser.parse_args()
    if options.parts == ["alone"]:
        print(json.dumps(alone(options.folder)))
        return
    known = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {}
    for name in options.parts:
        about = machine()
        found = large(options.features, options.width) if name == "large" else PARTS[name]()
        known[name] = {**found, "machine": about}
        print(name, json.dumps(found, indent=1), flush=True)
        options.output.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
