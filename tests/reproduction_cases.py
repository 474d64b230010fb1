"""Reproductions with plausible numbers, built without training anything."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from statistics import fmean as mean
from statistics import median
from typing import Any, Literal

from scipy.stats import spearmanr

from cases import MADE_BY
from identifiable.results import (
    Alert,
    Choice,
    Constants,
    Distances,
    Fit,
    Input,
    Leak,
    PairRun,
    Provenance,
    Reproduction,
    Summary,
)
from identifiable.results.reproduction import Estimator, Form, Unit

LEAKS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
FOUND_AT_RANDOM = 0.6  # of the logarithm of the exact constant
CHOICES = (
    Choice("clip", 1.0, "paper", 1.0),
    Choice("max_epochs", 80, "ours", 2000),
    Choice("leaks", LEAKS, "ours"),
    Choice("widths", (784, 256, 64, 8), "ours"),
)
PUBLISHED = {"runs": 60, "removed": 11, "spearman": None, "samples": 1000}
FORMS: tuple[Form, ...] = ("mean", "maximum", "sample")
ESTIMATORS: tuple[Estimator, ...] = ("exact", "random_directions")
UNITS: tuple[Unit, ...] = ("latent", "diameter")


def make_reproduction(
    experiment: Literal["fig2", "figA6"] = "fig2",
    *,
    pairs: int = 10,
    leaks: Sequence[float] = LEAKS,
    slope: float = 0.1,
    below: float = 0.05,
    known: bool = True,
    samples: int = 12,
    alerts: Sequence[Alert] = (),
    choices: Sequence[Choice] = CHOICES,
    published: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    provenance: Provenance = MADE_BY,
    seed: int = 0,
) -> Reproduction:
    """Pairs whose distance is `slope` times sqrt(2 L + L^2), give or take a fifth; the first of each small leak is removed.

    Intervals of correlations begin `below` them; there are none unless they are `known`.
    """
    draw = random.Random(seed)
    digits: Sequence[int | None] = range(10) if experiment == "figA6" else [None]
    runs = [
        _run(leak, pair, digit, slope, samples, draw) for leak in leaks for digit in digits for pair in range(pairs)
    ]
    kept = [run for run in runs if run.removed is None]
    return Reproduction(
        inputs=(Input("mnist", 70_000, 784, "uint8", f"{7:064x}"),),
        settings={"scale": "small", "seed": 0, **(settings or {})},
        alerts=tuple(alerts),
        provenance=provenance,
        experiment=experiment,
        scale="small",
        choices=tuple(choices),
        published=PUBLISHED if published is None else published,
        runs=tuple(runs),
        leaks=tuple(_leak(leak, [run for run in runs if run.leak == leak], draw) for leak in leaks),
        fits=tuple(
            _fit(form, e, unit, kept, below if known else None) for form in FORMS for e in ESTIMATORS for unit in UNITS
        ),
        filter_threshold=0.0312,
        leak_spearman=-0.61,
        leak_spearman_ci95=(-0.74, -0.43),
    )


def _run(leak: float, pair: int, digit: int | None, slope: float, samples: int, draw: random.Random) -> PairRun:
    def constant() -> float:
        return leak ** -draw.uniform(0.5, 1.6)

    def apart(found: float) -> float:
        return slope * _across(found) * draw.uniform(0.8, 1.2) + draw.uniform(0.01, 0.05)

    middle, largest = leak ** -draw.uniform(0.9, 1.1), leak ** -draw.uniform(1.5, 1.9)
    bad = pair == 0 and leak < 0.3
    seen = [constant() for _ in range(samples)]
    return PairRun(
        leak=leak,
        pair=pair,
        digit=digit,
        reconstruction=(draw.uniform(0.02, 0.03), 0.035 if bad else draw.uniform(0.02, 0.03)),
        epochs=(draw.randrange(200, 900), 2000 if bad else draw.randrange(200, 900)),
        stopped=("patience", "epochs" if bad else "patience"),
        removed="reconstruction of the second model above the threshold" if bad else None,
        distance=Distances(apart(middle), 1.5 * apart(largest)),
        diameter=6.0 + draw.random(),
        exact=Constants(middle, largest),
        random_directions=Constants(middle**FOUND_AT_RANDOM, largest**FOUND_AT_RANDOM),
        samples=tuple((found, apart(found)) for found in seen),
    )


def _across(constant: float) -> float:
    return math.sqrt(constant**2 - 1)


def _leak(leak: float, runs: Sequence[PairRun], draw: random.Random) -> Leak:
    kept = [run for run in runs if run.removed is None]
    found = sorted(leak ** -draw.uniform(0.3, 1.8) for _ in range(200))
    distance = mean(run.distance.mean for run in kept)
    relative = mean(run.distance.mean / run.diameter for run in kept)
    return Leak(
        leak=leak,
        bound=leak**-2,
        pairs=len(runs),
        kept=len(kept),
        constant=_summary(found),
        random_directions=_summary([value**FOUND_AT_RANDOM for value in found]),
        curve=tuple((i / 199, value) for i, value in enumerate(found)),
        reconstruction=mean(loss for run in runs for loss in run.reconstruction),
        distance=distance,
        distance_ci95=(0.9 * distance, 1.12 * distance),
        relative=relative,
        relative_ci95=(0.9 * relative, 1.12 * relative),
    )


def _summary(ordered: Sequence[float]) -> Summary:
    low, high = (ordered[round(q * (len(ordered) - 1))] for q in (0.05, 0.95))
    return Summary(mean(ordered), ordered[0], low, median(ordered), high, ordered[-1])


def _fit(form: Form, estimator: Estimator, unit: Unit, kept: Sequence[PairRun], below: float | None) -> Fit:
    points = []
    for run in kept:
        at: Constants = getattr(run, estimator)
        scale = run.diameter if unit == "diameter" else 1.0
        match form:
            case "mean":
                points.append((_across(at.mean), run.distance.mean / scale))
            case "maximum":
                points.append((_across(at.maximum), run.distance.maximum / scale))
            case "sample":
                points += [(_across(c), d / scale) for c, d in run.samples]
    x, y = zip(*points, strict=True)
    slope = sum(a * b for a, b in points) / sum(a * a for a in x)
    middle = mean(y)
    left = sum((b - slope * a) ** 2 for a, b in points) / sum((b - middle) ** 2 for b in y)
    if below is None:
        return Fit(form, estimator, unit, slope, None, None, None, None, len(kept))
    spearman = float(spearmanr(x, y).statistic)
    return Fit(form, estimator, unit, slope, 1 - left, spearman, (spearman - below, spearman + 0.004), 0.21, len(kept))
