"""Do intervals of `deconfound evaluate` cover the truth? python benchmarks/screen_calibration.py [--draws 100] [--plates 30] [--quick]

Simulated screens without any effect (`cells("tiny", no_biology=True)`: 6 experiments of 5 plates, 16 empty wells and 16 guides each,
random layout, 24 columns; transforms fitted on training plates, LightGBM with the settings of Table 6 and ridge). Every guide and
every null guide then has a true AUROC of 0.5, and every two representations a true difference of 0. Counted is how often the 95 %
interval covers that; `unwidened` counts the same for plain percentiles of the draws of plates, without the factor of
`intervals.interval`. `all` is the mean over targets, of which there is one in each screen; intervals of the several targets of one
screen share their controls and are not independent.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine, warnings_of
from scipy.stats import norm, t

from identifiable.blocks import Blocks
from identifiable.deconfounding.design import Design, Labels
from identifiable.deconfounding.evaluation.evaluating import evaluate
from identifiable.deconfounding.evaluation.options import EvaluateOptions
from identifiable.deconfounding.intervals import TWICE_USED
from identifiable.results import Interval, ScreenEvaluation
from identifiable.run import Run
from identifiable.worlds import cells

RESULTS = Path(__file__).parent / "results" / "screen_calibration.json"
EXPERIMENTS = 6


def screen(plates: int, seed: int) -> tuple[Blocks, Design]:
    """A screen in which no guide does anything."""
    world = cells(
        "tiny",
        seed=seed,
        experiments=EXPERIMENTS,
        plates=plates // EXPERIMENTS,
        empty=16,
        query=0,
        compound_plates=(1,),
        no_biology=True,
    )
    meta = {name: np.asarray(column).astype(str) for name, column in world.metadata.items()}
    plate = np.char.add(np.char.add(meta["experiment_name"], "_"), meta["plate"])
    design = Design(
        plate=Labels.of(plate),
        perturbation=Labels.of(meta["treatment"]),
        control=meta["treatment"] == "EMPTY_control",
        batch=Labels.of(meta["experiment_name"]),
        name=f"screen {seed}",
    )
    return Blocks(world.X, name=design.name), design


def checked(result: ScreenEvaluation) -> Iterator[tuple[str, float, float, Interval]]:
    """What is counted: its name, the truth, the value and its interval."""
    for c in result.conditions:
        if c.representation == "plate":
            continue
        kind = {"all": "all"}.get(c.target, "null guide" if c.target in result.null_targets else "target")
        if c.target != "null guides":
            name = f"{c.classifier}: AUROC of {c.representation}, {kind}"
            yield name, 0.5, c.auroc, c.ci95
            yield f"{name}, within plate", 0.5, c.within_plate, c.within_plate_ci95
    for x in result.differences:
        if (x.first, x.second, x.classifier) == ("ica", "pca", "lightgbm"):
            kind = "all" if x.target == "all" else "target"
            yield f"lightgbm: ICA - PCA, {kind}", 0.0, x.difference, x.ci95
            yield f"lightgbm: ICA - PCA, {kind}, within plate", 0.0, x.within_plate, x.within_plate_ci95


def covers(truth: float, value: float, interval: Interval, narrower: float) -> bool:
    low, high = (value + (end - value) / narrower for end in interval)
    return low <= truth <= high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--plates", type=int, default=30, help=f"a multiple of {EXPERIMENTS}")
    parser.add_argument("--quick", action="store_true", help="5 draws; prints, writes nothing")
    options = parser.parse_args()
    about, begun = machine(), time.perf_counter()
    lines: dict[str, list[tuple[bool, bool, float, float]]] = {}
    verdicts: dict[str, int] = {}
    draws = 5 if options.quick else options.draws
    for seed in range(draws):
        blocks, design = screen(options.plates, seed)
        asked = EvaluateOptions(("pca", "ica"), max_targets=3, null_guides=2, bootstrap=1000, min_wells=10)
        result = evaluate(blocks, design, asked, Run(seed))
        groups = design.plate.size
        widened = TWICE_USED * math.sqrt(groups / (groups - 1)) * float(t.ppf(0.975, groups - 1) / norm.ppf(0.975))
        verdicts[result.verdict] = verdicts.get(result.verdict, 0) + 1
        for name, truth, value, interval in checked(result):
            found = (
                covers(truth, value, interval, 1.0),
                covers(truth, value, interval, widened),
                value,
                interval[1] - interval[0],
            )
            lines.setdefault(name, []).append(found)
        print(
            f"{seed + 1} of {draws}, {time.perf_counter() - begun:.0f} s: {result.verdict}", file=sys.stderr, flush=True
        )
    table: list[dict[str, Any]] = []
    for name, found in lines.items():
        columns = np.array(found, dtype=float)
        table.append(
            {
                "interval": name,
                "n": len(found),
                "covers": round(float(columns[:, 0].mean()), 4),
                "unwidened": round(float(columns[:, 1].mean()), 4),
                "mean": round(float(columns[:, 2].mean()), 4),
                "sd": round(float(columns[:, 2].std(ddof=1)), 4),
                "width": round(float(columns[:, 3].mean()), 4),
            }
        )
        line = table[-1]
        print(
            f"{name:55} n {line['n']:4}  covers {line['covers']:.3f}  unwidened {line['unwidened']:.3f}  sd {line['sd']:.4f}"
        )
    print(verdicts)
    if not options.quick:
        record = {
            "benchmark": "screen_calibration",
            "command": f"python benchmarks/screen_calibration.py --draws {draws} --plates {options.plates}",
            "machine": about,
            "warnings": warnings_of(about),
            "seconds": round(time.perf_counter() - begun, 1),
            "draws": draws,
            "plates": options.plates,
            "verdicts": verdicts,
            "coverage": table,
        }
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
