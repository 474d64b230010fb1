"""Supervised selection: of each model the setting and step with the best InfoM among those that reconstruct well enough.

The reconstruction filter of Hsu et al. (2023) is not known. Ours is explicit: on average over seeds, at most so many decibels of PSNR
below the best that plain autoencoders reach on the same data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from identifiable.disentanglement import MODES
from identifiable.results import Alert, Cell, Estimate, Evaluation, Interval, Lift, ModelRun
from identifiable.results.disentanglement import Kind
from identifiable.results.table2 import ALL_DATA

PLAIN = "ae"
DISCRETE = ("vq-vae", "vq-vae-wd", "qlae")
ROWS = {
    "ae": "AE",
    "beta-vae": "beta-VAE",
    "beta-tcvae": "beta-TCVAE",
    "bioae": "BioAE",
    "vq-vae": "VQ-VAE",
    "vq-vae-wd": "VQ-VAE w/ wd",
    "qlae": "QLAE",
}
AFTER_ICA = {mode: "AE + ICA" if mode == "centred" else f"AE + ICA ({mode})" for mode in MODES}
SCORES = ("infom", "infoe", "infoc")
CONFIDENCE = 0.975

Setting = tuple[float, float, int]  # value of the knob, weight decay, step


@dataclass(frozen=True)
class Selection:
    """The cells of the table, what ICA lifts, the least PSNR of each data set, and what could not be selected."""

    cells: tuple[Cell, ...]
    lifts: tuple[Lift, ...]
    thresholds: Mapping[str, float]
    alerts: tuple[Alert, ...]

    def cell(self, row: str, data: str) -> Cell | None:
        return next((c for c in self.cells if (c.row, c.data) == (row, data)), None)


@dataclass(frozen=True, eq=False)
class _Chosen:
    """A cell with the evaluations it is about, one for each seed; and all settings and steps that passed."""

    cell: Cell
    evaluations: Mapping[int, Evaluation]
    passed: Mapping[Setting, Mapping[int, Evaluation]]


def select(runs: Sequence[ModelRun], data: Sequence[str], models: Sequence[str], psnr_within: float) -> Selection:
    """Select every row of the table on every data set, and over all of them. Of equals the first run's, and its first step."""
    thresholds = {name: _threshold(runs, name, psnr_within) for name in data}
    rows = [(ROWS[m], m, "none") for m in models if m != PLAIN]
    if PLAIN in models:
        rows = [(ROWS[PLAIN], PLAIN, "none"), *((AFTER_ICA[mode], PLAIN, mode) for mode in MODES), *rows]
    cells: list[Cell] = []
    lifts: list[Lift] = []
    empty: list[Cell] = []
    plain = [_choose(runs, name, ROWS[PLAIN], PLAIN, "none", thresholds[name]) for name in data]
    for row, model, ica in rows:
        own = [_choose(runs, name, row, model, ica, thresholds[name]) for name in data]
        empty += [one.cell for one in own if not one.evaluations]
        cells += [_over_data(own), *(one.cell for one in own)]
        if ica != "none":
            lifts.append(_lift(ALL_DATA, ica, own, plain))
            lifts += [_lift(one.cell.data, ica, [one], [base]) for one, base in zip(own, plain, strict=True)]
    return Selection(tuple(cells), tuple(lifts), thresholds, _why_empty(empty, thresholds, psnr_within))


def estimate(values: Sequence[float]) -> Estimate:
    """The mean with its 95 % interval by Student's t; no interval of one value."""
    found = np.asarray([v for v in values if math.isfinite(v)])
    if not len(found):
        return Estimate(math.nan, (math.nan, math.nan), 0)
    mean = float(found.mean())
    if len(found) < 2:
        return Estimate(mean, (math.nan, math.nan), 1)
    half = float(student.ppf(CONFIDENCE, len(found) - 1) * found.std(ddof=1) / math.sqrt(len(found)))
    interval: Interval = (mean - half, mean + half)
    return Estimate(mean, interval, len(found))


def _by_setting(runs: Iterable[ModelRun], ica: str) -> dict[Setting, dict[int, Evaluation]]:
    """Evaluations of every setting and step, by seed; only those of which every seed has scores."""
    found: dict[Setting, dict[int, Evaluation]] = {}
    seeds: set[int] = set()
    for run in runs:
        seeds.add(run.seed)
        value = -1.0 if math.isnan(run.value) else run.value  # NaN is no key: it does not equal itself
        for seen in run.evaluations:
            if ica in seen.scores and run.stopped != "diverged":
                found.setdefault((value, run.weight_decay, seen.step), {})[run.seed] = seen
    return {setting: own for setting, own in found.items() if set(own) == seeds}


def _threshold(runs: Sequence[ModelRun], data: str, psnr_within: float) -> float:
    plain = _by_setting((r for r in runs if (r.model, r.data) == (PLAIN, data)), "none")
    best = max((_mean(e.psnr for e in own.values()) for own in plain.values()), default=math.nan)
    return best - psnr_within


def _choose(runs: Sequence[ModelRun], data: str, row: str, model: str, ica: str, threshold: float) -> _Chosen:
    settings = _by_setting((r for r in runs if (r.model, r.data) == (model, data)), ica)
    passed = {k: own for k, own in settings.items() if _mean(e.psnr for e in own.values()) >= threshold}
    latents: Kind = "discrete" if model in DISCRETE else "continuous"
    if not passed:
        none = estimate(())
        cell = Cell(data, row, model, ica, latents, none, none, none, none, math.nan, math.nan, 0, 0, len(settings))
        return _Chosen(cell, {}, {})
    best = max(passed, key=lambda k: _mean(e.scores[ica]["infom"] for e in passed[k].values()))
    own = passed[best]
    infom, infoe, infoc = (estimate([e.scores[ica][score] for e in own.values()]) for score in SCORES)
    psnr = estimate([e.psnr for e in own.values()])
    value, decay, step = best
    value = math.nan if value < 0 else value
    return _Chosen(
        Cell(data, row, model, ica, latents, infom, infoe, infoc, psnr, value, decay, step, len(passed), len(settings)),
        own,
        passed,
    )


def _over_data(own: Sequence[_Chosen]) -> Cell:
    """The mean over data sets of each seed, then over seeds; none if a data set has none."""
    first = own[0].cell

    def over(read: Iterable[Mapping[int, float]]) -> Estimate:
        return estimate(_seed_means(list(read)))

    infom, infoe, infoc = (
        over({s: e.scores[first.ica][score] for s, e in one.evaluations.items()} for one in own) for score in SCORES
    )
    psnr = over({s: e.psnr for s, e in one.evaluations.items()} for one in own)
    passed, considered = (sum(getattr(one.cell, name) for one in own) for name in ("passed", "considered"))
    return Cell(
        ALL_DATA, first.row, first.model, first.ica, first.latents, infom, infoe, infoc, psnr, math.nan, math.nan, 0,
        passed, considered,
    )  # fmt: skip


def _lift(data: str, ica: str, own: Sequence[_Chosen], plain: Sequence[_Chosen]) -> Lift:
    """After less before, over all fits that passed: choosing the best after ICA would lift it even if ICA did nothing."""

    def by_seed(mode: str, score: str) -> list[float]:
        return _seed_means([_means_by_seed(one.passed, mode, score) for one in own])

    before, after = by_seed("none", "infom"), by_seed(ica, "infom")
    infoe = by_seed("none", "infoe"), by_seed(ica, "infoe")
    chosen = [
        _seed_means([_left_out(one.passed, mode) for one in some]) for mode, some in (("none", plain), (ica, own))
    ]
    return Lift(
        data,
        ica,
        estimate(before),
        estimate(after),
        estimate([b - a for a, b in zip(before, after, strict=True)]),
        estimate([b - a for a, b in zip(*infoe, strict=True)]),
        estimate([b - a for a, b in zip(*chosen, strict=False)]),
    )


def _means_by_seed(passed: Mapping[Setting, Mapping[int, Evaluation]], mode: str, score: str) -> dict[int, float]:
    """Of every seed the mean over settings and steps."""
    seeds = {seed for own in passed.values() for seed in own}
    return {seed: _mean(own[seed].scores[mode][score] for own in passed.values()) for seed in seeds}


def _left_out(passed: Mapping[Setting, Mapping[int, Evaluation]], mode: str) -> dict[int, float]:
    """InfoM of every seed at the setting and step that is best for the other seeds; of one seed there are no others."""
    found = {}
    for seed in {seed for own in passed.values() for seed in own}:
        others = {k: [e for s, e in own.items() if s != seed] for k, own in passed.items()}
        if any(others.values()):
            best = max(others, key=lambda k: _mean(e.scores[mode]["infom"] for e in others[k]))
            found[seed] = passed[best][seed].scores[mode]["infom"]
    return found


def _seed_means(by_data: Sequence[Mapping[int, float]]) -> list[float]:
    """Of every seed that all data sets have, the mean over data sets."""
    shared = set.intersection(*(set(one) for one in by_data)) if by_data else set()
    return [_mean(one[seed] for one in by_data) for seed in sorted(shared)]


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return float(np.mean(found)) if found else math.nan


def _why_empty(empty: Sequence[Cell], thresholds: Mapping[str, float], psnr_within: float) -> tuple[Alert, ...]:
    codes = ("no_scores", "nothing_to_compare", "filter_leaves_none")
    cells: dict[str, list[str]] = {code: [] for code in codes}
    for cell in empty:
        compared = not math.isnan(thresholds[cell.data])
        code = "no_scores" if not cell.considered else "filter_leaves_none" if compared else "nothing_to_compare"
        cells[code].append(f"{cell.row} on {cell.data}")
    return tuple(Alert(code, {"cells": cells[code], "psnr_within": psnr_within}) for code in codes if cells[code])
