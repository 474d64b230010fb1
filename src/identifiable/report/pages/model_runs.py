"""The models behind Table 2: what they are called, their pictures, their training, what was selected, every run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean

from identifiable.report.frame import glossary
from identifiable.report.page import Block, Curve, Curves, Fold, Gallery, Image, Table, Text, columns
from identifiable.report.pages.disentanglement import MODES
from identifiable.report.words import (
    MISSING,
    clip,
    count,
    counted,
    display_name,
    known,
    listed,
    number,
    one_line,
    short,
)
from identifiable.results import Cell, Evaluation, Interval, ModelRun, Table2, Traversal
from identifiable.results.table2 import ALL_DATA

PLAIN, WITH_ICA, RAW = "AE", "AE + ICA", "none"  # rows, and the mode of latents as they are
CURVE_STYLES = 8


# -- names


def row_name(row: str) -> str:
    """A row as papers write it."""
    said = one_line(row)
    return f"β{said.removeprefix('beta')}" if said.startswith("beta-") else said


def model_name(result: Table2, model: str) -> str:
    """The row of a model before any ICA, which is what readers know it by."""
    return row_name(next((cell.row for cell in result.cells if (cell.model, cell.ica) == (model, RAW)), model))


def data_name(data: str) -> str:
    return "all" if data == ALL_DATA else clip(one_line(data), 24)


def least(result: Table2, data: str) -> str:
    return number(result.thresholds.get(data), 1)


def _setting(run: ModelRun | None, value: float, decay: float) -> list[str]:
    """The number of the objective, if there is one, and the weight decay."""
    knob = run.knob if run is not None else None
    parts = [f"{one_line(knob).replace('_', ' ')} {short(value)}"] if knob is not None and known(value) else []
    return [*parts, *([f"decay {short(decay)}"] if known(decay) else [])]


def _chosen(result: Table2, cell: Cell) -> str:
    """The setting of a cell."""
    if not known(cell.infom.mean):
        return MISSING
    run = next((run for run in result.runs if run.model == cell.model and run.knob is not None), None)
    return ", ".join(_setting(run, cell.value, cell.weight_decay)) or MISSING


# -- pictures and curves


def traversal_blocks(result: Table2) -> Iterator[Block]:
    for data in dict.fromkeys(traversal.data for traversal in result.traversals):
        found = [traversal for traversal in result.traversals if traversal.data == data]
        pair = [t for row in (PLAIN, WITH_ICA) for t in found if t.row == row]
        others = [t for t in found if t not in pair]
        name = display_name(data)
        if pair:
            yield _gallery(f"{name}: latents of the plain autoencoder before and after ICA", pair)
        if others:
            yield Fold(f"{name}: other models", (_gallery(name, others),))


def _gallery(title: str, traversals: Sequence[Traversal]) -> Gallery:
    return Gallery(title, glossary("table2")["Traversals"], tuple(map(_image, traversals)))


def _image(traversal: Traversal) -> Image:
    lines = tuple(one_line(label) for label in traversal.labels)
    described = f"{counted(traversal.columns, 'picture')} in each line, a line for each latent"
    alt = f"{described}; from the top: {'; '.join(lines)}." if lines else f"{described}."
    return Image(row_name(traversal.row), alt, traversal.png, traversal.width, traversal.height, lines)


def training_blocks(result: Table2) -> Iterator[Block]:
    """InfoM and PSNR as training goes on, of the autoencoders that AE + ICA was selected for."""
    chosen = [cell for cell in result.cells if cell.row == WITH_ICA and cell.data != ALL_DATA]
    found = [(cell, runs) for cell in chosen if (runs := _runs_of(result, cell))]
    for cell, runs in found:
        yield from _infom_curves(result, cell, runs)
    yield from _psnr_curves(result, found)


def _runs_of(result: Table2, cell: Cell) -> list[ModelRun]:
    """The fits of a cell: one for each seed."""

    def same(a: float, b: float) -> bool:
        return a == b or (not known(a) and not known(b))

    return [
        run
        for run in result.runs
        if (run.data, run.model) == (cell.data, cell.model)
        and same(run.weight_decay, cell.weight_decay)
        and same(run.value, cell.value)
    ]


def _infom_curves(result: Table2, cell: Cell, runs: Sequence[ModelRun]) -> Iterator[Block]:
    named = {RAW: "before ICA", **{mode: f"after ICA, {mode}" for mode in MODES}}
    drawn = [
        (name, style, _mean_curve(runs, partial(_infom, mode))) for style, (mode, name) in enumerate(named.items())
    ]
    curves = tuple(Curve(name, points, style) for name, style, points in drawn if points)
    if curves:
        yield Curves(
            f"{display_name(cell.data)}: InfoM of the plain autoencoder before and after ICA",
            f"Mean over {counted(len(runs), 'seed')} at {_chosen(result, cell)}, which was selected for AE + ICA.",
            "step",
            "InfoM",
            curves,
            cut=("selected", float(cell.step)) if known(cell.infom.mean) else None,
        )


def _infom(mode: str, evaluation: Evaluation) -> float:
    """InfoM after this mode of ICA; NaN where it was not scored."""
    return evaluation.scores.get(mode, {}).get("infom", math.nan)


def _psnr_curves(result: Table2, found: Sequence[tuple[Cell, Sequence[ModelRun]]]) -> Iterator[Block]:
    drawn = [(cell.data, _mean_curve(runs, lambda evaluation: evaluation.psnr)) for cell, runs in found]
    curves = tuple(
        Curve(display_name(data), points, (i + 1) % CURVE_STYLES) for i, (data, points) in enumerate(drawn) if points
    )
    if not curves:
        return
    floors = {data: result.thresholds.get(data, math.nan) for data, points in drawn if points}
    told = listed(f"{least(result, data)} dB on {display_name(data)}" for data in floors if known(floors[data]))
    alone = next(iter(floors.values())) if len(floors) == 1 else math.nan
    yield Curves(
        "PSNR of the same autoencoders",
        f"In decibels, on validation pictures; ICA does not change it.{f' Least allowed: {told}.' if told else ''}",
        "step",
        "PSNR",
        curves,
        threshold=("least allowed", alone) if known(alone) else None,
    )


def _mean_curve(runs: Sequence[ModelRun], value: Callable[[Evaluation], float]) -> tuple[Interval, ...]:
    """Means over the runs at the steps where all have a value."""
    steps: dict[int, list[float]] = {}
    for run in runs:
        for evaluation in run.evaluations:
            steps.setdefault(evaluation.step, []).append(value(evaluation))
    return tuple(
        (float(step), fmean(values))
        for step, values in sorted(steps.items())
        if len(values) == len(runs) and all(map(known, values))
    )


# -- selection and runs


def selection_blocks(result: Table2) -> Iterator[Block]:
    cells = [cell for cell in result.cells if cell.data != ALL_DATA]
    if not cells:
        return
    yield Text(glossary("table2")["Supervised"])
    yield Table(
        "What was selected. Passed: pairs of setting and step whose mean PSNR reaches the least allowed, of all considered",
        columns("model", "data", "setting", "step", "PSNR", "least PSNR", "passed", words=("data", "setting")),
        tuple(
            (
                row_name(cell.row),
                data_name(cell.data),
                _chosen(result, cell),
                count(cell.step) if known(cell.infom.mean) else MISSING,
                number(cell.psnr.mean, 1),
                least(result, cell.data),
                f"{count(cell.passed)} of {count(cell.considered)}",
            )
            for cell in cells
        ),
    )


def run_blocks(result: Table2) -> Iterator[Block]:
    if result.runs:
        heads = ("model", "data", "seed", "steps", "loss", "PSNR", "InfoM", "InfoM, ICA", "ended")
        table = Table(
            "Each model at its last evaluation; InfoM, ICA: after the centred mode",
            columns(*heads, words=("data", "ended")),
            tuple(_run_line(result, run) for run in result.runs),
        )
        yield Fold(f"All {counted(len(result.runs), 'model')}", (table,))


def _run_line(result: Table2, run: ModelRun) -> tuple[str, ...]:
    last = run.evaluations[-1] if run.evaluations else Evaluation(0, math.nan, math.nan, {})
    return (
        ", ".join([model_name(result, run.model), *_setting(run, run.value, run.weight_decay)]),
        data_name(run.data),
        str(run.seed),
        count(run.steps),
        number(last.loss, 4),
        number(last.psnr, 1),
        *(number(_infom(mode, last)) for mode in (RAW, "centred")),
        one_line(run.stopped),
    )
