"""What the page of `reproduce table2` says: `Table2` to `Page`, a pure function of the saved result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean

from identifiable.report.disentanglement_methods import MODES
from identifiable.report.frame import alerts_section, page_with, reproduction, saved_form
from identifiable.report.page import (
    Block,
    Card,
    Column,
    Curve,
    Curves,
    DotRow,
    Dots,
    Fold,
    Gallery,
    Image,
    LegendKind,
    Mark,
    Page,
    Section,
    Table,
    Text,
    Tone,
)
from identifiable.report.render.figures import drawn_marks
from identifiable.report.reproduction import choices_section
from identifiable.report.table2_methods import (
    NOT_COMPARABLE,
    RAW,
    SUPERVISED,
    UNKNOWN,
    bibtex,
    how_to_read,
    model_name,
    paragraphs,
    row_name,
)
from identifiable.report.table2_reading import (
    LIFT_HEADS,
    PLAIN,
    SCORE_HEADS,
    WITH_ICA,
    Latents,
    bounded,
    cell_line,
    cells_of,
    chosen_words,
    data_name,
    infoe_words,
    lift_lines,
    otherness,
    published_infoe_words,
    published_lines,
    published_table,
    published_words,
    ranking_words,
    scale_words,
    sentence,
    shown_data,
    signed,
    triple,
)
from identifiable.report.words import (
    MISSING,
    count,
    counted,
    display_name,
    interval,
    known,
    listed,
    number,
    one_line,
    short,
)
from identifiable.results import Cell, Evaluation, Interval, ModelRun, Table2, Traversal
from identifiable.results.table2 import ALL_DATA

GUIDE = (
    "InfoM says how much each latent keeps to one factor of the pictures: 1 if it tells of one alone, 0 if of all alike. InfoE: how "
    "much of the factors a linear model reads off. InfoC: how much each factor keeps to one latent. Of each, 1 is best."
)
CURVE_STYLES = 8
CHOSEN_HEADS = ("setting", "step", "PSNR", "least PSNR", "passed")


def table2_page(result: Table2) -> Page:
    """The page of `result`, exactly as it would be drawn from its saved JSON."""
    saved = saved_form(result)
    words = [ranking_words(saved), published_words(saved)]
    sections = [
        Section("verdict", "Verdict", (_card(saved), *(Text(text) for text in words if text))),
        alerts_section(saved),
        _scores(saved),
        _lifts(saved),
        _traversals(saved),
        _training(saved),
        _selection(saved),
        _runs(saved),
        choices_section(saved.choices, "Not told by the papers, or without a counterpart there; ours"),
        how_to_read(saved),
        reproduction(saved, paragraphs(saved), bibtex(saved)),
    ]
    return page_with(
        saved,
        sections,
        title="Table 2, run again",
        subtitle="Models of pictures with known factors: does ICA turn a plain autoencoder's latents so that each tells of one?",
        guide=GUIDE,
    )


def _card(result: Table2) -> Card:
    found = result.lift()
    tone: Tone = "caution"
    if found is None or not known(found.difference.mean):
        badge = "nothing passes the filter"
    elif not bounded(found.difference):
        badge = "too few seeds"
    elif found.difference.ci95[0] > 0:
        badge, tone = "ICA lifts InfoM", "good"
    elif found.difference.ci95[1] < 0:
        badge = "ICA lowers InfoM"
    else:
        badge = "no clear effect"
    lift = None if found is None else found.difference
    facts = [
        ("lift of InfoM", MISSING if lift is None else signed(lift.mean)),
        ("its 95 % interval", MISSING if lift is None else interval(lift.ci95)),
        (
            "InfoM before, after ICA",
            MISSING if found is None else f"{number(found.before.mean)}, {number(found.after.mean)}",
        ),
        ("seeds", MISSING if lift is None else count(lift.n)),
        ("data, scale", f"{listed(map(display_name, result.data)) or MISSING}, {one_line(result.scale)}"),
    ]
    return Card(f"Table 2: {scale_words(result)}", badge, sentence(result), tone, tuple(facts))


def _scores(result: Table2) -> Section:
    first, *others = shown_data(result) or [ALL_DATA]
    apart: list[Block] = [block for data in others for block in _dots(result, data, "continuous")]
    continuous = [
        *_dots(result, first, "continuous"),
        *_score_table(result, first, "continuous"),
        *_published(result),
        *(block for data in others for block in _score_table(result, data, "continuous")),
        *([Fold("InfoM on each data set, drawn", tuple(apart))] if apart else []),
    ]
    discrete = [
        *_dots(result, first, "discrete"),
        *(block for data in (first, *others) for block in _score_table(result, data, "discrete")),
    ]
    return Section("scores", "The table", (*continuous, *([Text(NOT_COMPARABLE), *discrete] if discrete else [])))


def _dots(result: Table2, data: str, latents: Latents) -> list[Block]:
    cells = [cell for cell in cells_of(result, data, latents) if known(cell.infom.mean)]
    if not cells:
        return []
    rows = [
        DotRow(
            row_name(cell.row),
            number(cell.infom.mean),
            (Mark("main", cell.infom.mean),),
            interval=_within(cell.infom.ci95) if bounded(cell.infom) else None,
            strong=cell.row in (PLAIN, WITH_ICA),
        )
        for cell in cells
    ]
    legend: list[tuple[LegendKind, str]] = [("main", "mean over seeds"), ("whisker", "95 % interval")]
    shown = drawn_marks(rows)
    beyond = any(bounded(cell.infom) and cell.infom.ci95 != _within(cell.infom.ci95) for cell in cells)
    told = "Each row at the setting and step selected for it."
    return [
        Dots(
            f"InfoM of {latents} latents, {_on(data)}",
            f"{told} Intervals are drawn as far as InfoM can go, from 0 to 1." if beyond else told,
            "InfoM",
            tuple(rows),
            tuple((kind, words) for kind, words in legend if kind in shown),
        )
    ]


def _on(data: str) -> str:
    return "all data" if data == ALL_DATA else display_name(data)


def _within(bounds: Interval) -> Interval:
    """An interval cut to where InfoM can be: one of two seeds would flatten the rest of a figure."""
    low, high = (min(1.0, max(0.0, bound)) for bound in bounds)
    return low, high


def _score_table(result: Table2, data: str, latents: Latents) -> list[Block]:
    cells = cells_of(result, data, latents)
    if not cells:
        return []
    published = published_table(result)
    beside = data in published.data and any(published.scores(cell.row, data) for cell in cells)
    heads = (*SCORE_HEADS, "published") if beside else SCORE_HEADS
    lines = [
        (*cell_line(cell), triple(published.scores(cell.row, data))) if beside else cell_line(cell) for cell in cells
    ]
    what = "mean over data sets" if data == ALL_DATA else f"at least {_least(result, data)} dB"
    caption = f"Ours, {_on(data)}, {latents} latents ({what}): mean over seeds"
    return [
        Table(
            f"{caption}; published: InfoM InfoE InfoC" if beside else caption,
            (Column("model", "text"), *map(Column, heads)),
            tuple(lines),
            next((i for i, cell in enumerate(cells) if cell.row == WITH_ICA), None),
        )
    ]


def _least(result: Table2, data: str) -> str:
    return number(result.thresholds.get(data), 1)


def _published(result: Table2) -> list[Block]:
    published = published_table(result)
    lines = published_lines(published)
    if not lines:
        return []
    whose = (
        "Rows marked (Hsu et al.) are the numbers of Hsu et al. (2023), as the paper cites them. "
        if published.others
        else ""
    )
    other = ", not to be laid over ours" if otherness(result) else ""
    names = list(published.rows)
    return [
        Table(
            f"Published, Table 2 of Nelson et al. (2026){other}: InfoM InfoE InfoC",
            (Column("model", "text"), *(Column(data_name(column)) for column in published.columns)),
            tuple(lines),
            names.index(WITH_ICA) if WITH_ICA in names else None,
        ),
        Text(f"{whose}{UNKNOWN}", note=True),
    ]


def _lifts(result: Table2) -> Section:
    lines = lift_lines(result)
    if not lines:
        return Section("lifts", "What ICA does", ())
    table = Table(
        "InfoM of the same autoencoders before and after ICA: means over all settings and steps that pass the filter, since the best "
        "after ICA would be lifted by being chosen. The rows AE and AE + ICA are selected; their difference, each at what is best for "
        "the other seeds, is in the column 'of the rows'",
        (Column("data", "text"), Column("ICA", "text"), *map(Column, LIFT_HEADS)),
        tuple(lines),
        next((i for i, line in enumerate(lines) if line[1] == "centred"), None),
    )
    modes = [mode for mode in MODES if any(lift.ica == mode for lift in result.lifts)]
    told = "; ".join(f"{mode}: {MODES[mode]}" for mode in modes)
    words = [infoe_words(result), published_infoe_words(result)]
    return Section(
        "lifts",
        "What ICA does",
        (
            table,
            *([Text(f"Modes of ICA: {told}.", note=True)] if told else []),
            *(Text(text) for text in words if text),
        ),
    )


def _traversals(result: Table2) -> Section:
    blocks: list[Block] = []
    for data in dict.fromkeys(traversal.data for traversal in result.traversals):
        found = [traversal for traversal in result.traversals if traversal.data == data]
        pair = [t for row in (PLAIN, WITH_ICA) for t in found if t.row == row]
        others = [t for t in found if t not in pair]
        name = display_name(data)
        blocks += [_gallery(f"{name}: latents of the plain autoencoder before and after ICA", pair)] if pair else []
        blocks += [Fold(f"{name}: other models", (_gallery(name, others),))] if others else []
    return Section("traversals", "Traversals", tuple(blocks))


def _gallery(title: str, traversals: Sequence[Traversal]) -> Gallery:
    return Gallery(
        title,
        "In each line one latent moves, from its 5 % to its 95 % quantile; the most varying come first. Beside it the factor that "
        "the latent tells most about, and how much of it (normalised mutual information). Where latents are disentangled, one "
        "thing changes in each line. Models of the first seed at the end of training, which need not be the step selected.",
        tuple(map(_image, traversals)),
    )


def _image(traversal: Traversal) -> Image:
    lines = tuple(one_line(label) for label in traversal.labels)
    described = f"{counted(traversal.columns, 'picture')} in each line, a line for each latent"
    return Image(
        row_name(traversal.row),
        f"{described}; from the top: {'; '.join(lines)}." if lines else f"{described}.",
        traversal.png,
        traversal.width,
        traversal.height,
        lines,
    )


def _training(result: Table2) -> Section:
    """InfoM and PSNR as training goes on, of the autoencoders that AE + ICA was selected for."""
    chosen = [cell for cell in result.cells if cell.row == WITH_ICA and cell.data != ALL_DATA]
    found = [(cell, runs) for cell in chosen if (runs := _runs_of(result, cell))]
    blocks = [block for cell, runs in found for block in _infom_curves(result, cell, runs)]
    return Section("training", "As training goes on", (*blocks, *_psnr_curves(result, found)))


def _runs_of(result: Table2, cell: Cell) -> list[ModelRun]:
    """The fits of a cell: one for each seed."""
    return [
        run
        for run in result.runs
        if (run.data, run.model) == (cell.data, cell.model)
        and _same(run.weight_decay, cell.weight_decay)
        and _same(run.value, cell.value)
    ]


def _same(a: float, b: float) -> bool:
    return a == b or (not known(a) and not known(b))


def _infom_curves(result: Table2, cell: Cell, runs: Sequence[ModelRun]) -> list[Block]:
    modes = [RAW, *MODES]
    named = {RAW: "before ICA", **{mode: f"after ICA, {mode}" for mode in MODES}}
    styles = {RAW: 0, "centred": 1, "literal": 2, "whitened": 3}
    drawn = [(mode, _mean_curve(runs, partial(_infom, mode))) for mode in modes]
    curves = tuple(Curve(named[mode], points, styles[mode]) for mode, points in drawn if points)
    if not curves:
        return []
    return [
        Curves(
            f"{display_name(cell.data)}: InfoM of the plain autoencoder before and after ICA",
            f"Mean over {counted(len(runs), 'seed')} at {chosen_words(result, cell)}, which AE + ICA was selected for.",
            "step",
            "InfoM",
            curves,
            cut=("selected", float(cell.step)) if known(cell.infom.mean) else None,
        )
    ]


def _infom(mode: str, evaluation: Evaluation) -> float:
    """InfoM after this mode of ICA; NaN where it was not scored."""
    return evaluation.scores.get(mode, {}).get("infom", math.nan)


def _psnr_curves(result: Table2, found: Sequence[tuple[Cell, Sequence[ModelRun]]]) -> list[Block]:
    drawn = [(cell, _mean_curve(runs, lambda evaluation: evaluation.psnr)) for cell, runs in found]
    curves = tuple(
        Curve(display_name(cell.data), points, (i + 1) % CURVE_STYLES)
        for i, (cell, points) in enumerate(drawn)
        if points
    )
    if not curves:
        return []
    least = {cell.data: result.thresholds.get(cell.data, math.nan) for cell, points in drawn if points}
    told = [f"{_least(result, data)} dB on {display_name(data)}" for data in least if known(least[data])]
    alone = next(iter(least.values())) if len(least) == 1 else math.nan
    return [
        Curves(
            "PSNR of the same autoencoders",
            f"In decibels, on validation pictures; ICA does not change it.{f' Least allowed: {listed(told)}.' if told else ''}",
            "step",
            "PSNR",
            curves,
            threshold=("least allowed", alone) if known(alone) else None,
        )
    ]


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


def _selection(result: Table2) -> Section:
    cells = [cell for cell in result.cells if cell.data != ALL_DATA]
    if not cells:
        return Section("selection", "Selection", ())
    lines = tuple(
        (
            row_name(cell.row),
            data_name(cell.data),
            chosen_words(result, cell),
            count(cell.step) if known(cell.infom.mean) else MISSING,
            number(cell.psnr.mean, 1),
            _least(result, cell.data),
            f"{count(cell.passed)} of {count(cell.considered)}",
        )
        for cell in cells
    )
    setting, *numbers = CHOSEN_HEADS
    return Section(
        "selection",
        "Selection",
        (
            Text(SUPERVISED),
            Table(
                "What was selected. Passed: pairs of setting and step whose mean PSNR reaches the least allowed, of all considered",
                (Column("model", "text"), Column("data", "text"), Column(setting, "text"), *map(Column, numbers)),
                lines,
            ),
        ),
    )


def _runs(result: Table2) -> Section:
    if not result.runs:
        return Section("runs", "Runs", ())
    heads = ("seed", "steps", "loss", "PSNR", "InfoM", "InfoM, ICA")
    table = Table(
        "Each model at its last evaluation; InfoM, ICA: after the centred mode",
        (Column("model", "text"), Column("data", "text"), *map(Column, heads), Column("ended", "text")),
        tuple(_run_line(result, run) for run in result.runs),
    )
    return Section("runs", "Runs", (Fold(f"All {counted(len(result.runs), 'model')}", (table,)),))


def _run_line(result: Table2, run: ModelRun) -> tuple[str, ...]:
    knob = (
        [f"{one_line(run.knob).replace('_', ' ')} {short(run.value)}"]
        if run.knob is not None and known(run.value)
        else []
    )
    decay = [f"decay {short(run.weight_decay)}"] if known(run.weight_decay) else []
    last = run.evaluations[-1] if run.evaluations else Evaluation(0, math.nan, math.nan, {})
    return (
        ", ".join([model_name(result, run.model), *knob, *decay]),
        data_name(run.data),
        str(run.seed),
        count(run.steps),
        number(last.loss, 4),
        number(last.psnr, 1),
        *(number(_infom(mode, last)) for mode in (RAW, "centred")),
        one_line(run.stopped),
    )
