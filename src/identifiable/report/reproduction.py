"""What the page of `reproduce` says: `Reproduction` to `Page`, a pure function of the saved result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np

from identifiable.identifiability.trend import FEWEST, spearman, theorem_1_shape
from identifiable.report.distortion import WIDE, figure
from identifiable.report.frame import alerts_section, page_with, reproduction, saved_form
from identifiable.report.page import (
    Block,
    Card,
    Cloud,
    Column,
    Curve,
    Curves,
    DotRow,
    Dots,
    Fold,
    LegendKind,
    Mark,
    Page,
    Section,
    Table,
    Text,
    Tone,
)
from identifiable.report.render.figures import drawn_marks
from identifiable.report.reproduction_methods import NO_FIGURES, bibtex, bound_name, how_to_read, paragraphs
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
    percent,
    setting,
    short,
    significant,
)
from identifiable.results import Choice, Fit, Interval, Leak, PairRun, Reproduction

GUIDE = (
    "1 + L is the largest factor by which a decoder stretches or shrinks any direction at a sample; 1 keeps every length. "
    "Distances are between the latents of two models trained alike, after the best rigid motion."
)
WHAT = {
    "fig2": ("Figure 2", "Pairs of autoencoders that differ in their seeds alone"),
    "figA6": ("Figure A.6", "Pairs of autoencoders of one digit each, which differ in their seeds alone"),
}
FIGURES = {  # the paper's number of each picture
    "fig2": {"mean": "Figure 2", "constant": "Figure A.3", "maximum": "Figure A.4", "sample": "Figure A.5"},
    "figA6": {
        "mean": "Figure A.6",
        "constant": "As Figure A.3, digits apart",
        "maximum": "As Figure A.4, digits apart",
        "sample": "As Figure A.5, digits apart",
    },
}
FORMS = {"mean": "mean", "maximum": "largest", "sample": "single samples"}
ESTIMATORS = {"exact": "exact", "random_directions": "random"}
UNITS = {"latent": "latents", "diameter": "/ diameter"}
MEASURE = "√(2L + L²)"
LOST = "not in our copy"
SAMPLES_DRAWN = 2400
USUAL, CUT = 0.98, 1.5  # the axis ends at this quantile if the largest L is more than so many times it
STEPS = 6  # styles of an ordered figure
FIT_STYLE = 6


def reproduction_page(result: Reproduction) -> Page:
    """The page of `result`, exactly as it would be drawn from its saved JSON."""
    saved = saved_form(result)
    name, what = WHAT[saved.experiment]
    sections = [
        Section("verdict", "Verdict", (_card(saved), *_beside_published(saved))),
        alerts_section(saved),
        _figures(saved),
        _by_leak(saved),
        _by_digit(saved),
        _fits(saved),
        _runs(saved),
        choices_section(saved.choices),
        how_to_read(saved),
        reproduction(saved, paragraphs(saved), bibtex()),
    ]
    return page_with(
        saved,
        sections,
        title=f"{name}, run again",
        subtitle=f"{what}: is the second model's representation nearer to the first's where decoders are nearer to isometries?",
        guide=GUIDE,
    )


def sentence(result: Reproduction) -> str:
    """The headline as a sentence."""
    return f"{result.headline[0].upper()}{result.headline[1:]}."


def scale_words(result: Reproduction) -> str:
    """What was run, in one line."""
    pairs = counted(len(result.runs), "pair")
    data = display_name(result.inputs[0].name) if result.inputs else MISSING
    return f"{pairs}, {counted(len(result.leaks), 'leak')}, scale {one_line(result.scale)}, {data}"


def leak_name(value: float) -> str:
    return short(value) if known(value) else MISSING


def leak_words(result: Reproduction) -> str | None:
    """How the distance changes from the smallest leak to the largest."""
    told = sorted((leak for leak in result.leaks if known(leak.leak) and known(leak.distance)), key=lambda k: k.leak)
    if len(told) < 2:
        return None
    first, last = told[0], told[-1]
    verb = "falls" if last.distance < first.distance else "rises" if last.distance > first.distance else "stays"
    ends = (f"{number(k.distance)} {interval(k.distance_ci95)}" for k in (first, last))
    return (
        f"From leak {short(first.leak)} to leak {short(last.leak)} the mean distance {verb} from {' to '.join(ends)}; over the "
        f"diameter of the latents from {number(first.relative)} to {number(last.relative)}. Spearman's correlation of leak and "
        f"distance over the pairs kept: {number(result.leak_spearman)} {interval(result.leak_spearman_ci95)}."
    )


def kept(result: Reproduction) -> list[PairRun]:
    """The pairs that take part in the figures."""
    return [run for run in result.runs if run.removed is None]


def correlated(pairs: Sequence[Interval]) -> float | None:
    """Spearman's correlation of the finite ones; None where there are too few or one side does not vary."""
    finite = np.array([(x, y) for x, y in pairs if known(x) and known(y)])
    return spearman(*finite.T) if len(finite) >= FEWEST else None


def spearman_cell(fit: Fit | None) -> str:
    """Correlation and interval."""
    if fit is None or not known(fit.spearman):
        return MISSING
    return f"{number(fit.spearman)} {interval(fit.spearman_ci95)}"


def published_lines(result: Reproduction) -> list[tuple[str, str, str, str]]:
    """What, ours with exact constants, published, ours with the paper's estimator."""
    ours = {(f.form, f.estimator, f.unit): f for f in result.fits}
    exact, drawn = (ours.get(("mean", estimator, "latent")) for estimator in ("exact", "random_directions"))
    same: dict[str, tuple[str, str, str]] = {
        "runs": ("pairs trained", count(len(result.runs)), ""),
        "removed": ("pairs removed", count(result.removed), ""),
        "spearman": ("Spearman [95 %]", spearman_cell(exact), spearman_cell(drawn)),
        "r2": ("R² of the line", number(exact.r2 if exact else None), number(drawn.r2 if drawn else None)),
    }
    known_here = [
        (what, found, _published(result.published.get(key)), again) for key, (what, found, again) in same.items()
    ]
    others = [
        (one_line(key.replace("_", " ")), MISSING, _published(value), "")
        for key, value in result.published.items()
        if key not in same
    ]
    return known_here + others


def _published(value: object) -> str:
    return LOST if value is None else setting(value)


def leak_lines(result: Reproduction, only: Callable[[Leak], Sequence[str]]) -> list[tuple[str, ...]]:
    """One line for each leak, with its name before the cells."""
    return [(leak_name(leak.leak), *only(leak)) for leak in result.leaks]


def fit_lines(result: Reproduction) -> list[tuple[str, ...]]:
    """Every fit as a row: form, estimator, unit, slope, R², Spearman, within leak, n."""
    return [
        (
            FORMS[fit.form],
            ESTIMATORS[fit.estimator],
            UNITS[fit.unit],
            number(fit.slope),
            number(fit.r2),
            spearman_cell(fit),
            number(fit.within_leak),
            count(fit.n),
        )
        for fit in result.fits
    ]


def digit_lines(result: Reproduction) -> list[tuple[str, ...]]:
    """One line for each digit: pairs kept, distance, over the diameter, correlation within the digit, reconstruction."""
    digits = sorted({run.digit for run in result.runs if run.digit is not None})
    return [_digit_line(digit, [run for run in result.runs if run.digit == digit]) for digit in digits]


def _digit_line(digit: int, runs: Sequence[PairRun]) -> tuple[str, ...]:
    used = [run for run in runs if run.removed is None]
    return (
        str(digit),
        f"{count(len(used))} of {count(len(runs))}",
        number(_mean([run.distance.mean for run in used])),
        number(_mean([_relative(run) for run in used])),
        number(correlated([(run.exact.mean, run.distance.mean) for run in used])),
        number(_mean([run.exact.mean for run in used])),
        number(_mean([loss for run in used for loss in run.reconstruction]), 4),
    )


DIGIT_HEADS = ("digit", "kept", "distance", "/ diameter", "Spearman", "mean 1 + L", "reconstruction")


def _mean(values: Sequence[float]) -> float | None:
    finite = [v for v in values if known(v)]
    return fmean(finite) if finite else None


def _relative(run: PairRun) -> float:
    return run.distance.mean / run.diameter if known(run.diameter) and run.diameter > 0 else math.nan


def _card(result: Reproduction) -> Card:
    found = result.fit()
    low, high = found.spearman_ci95 or (math.nan, math.nan)
    tone: Tone = "caution"
    if not known(found.spearman) or not (known(low) and known(high)):
        badge = "too few pairs"
    elif low > 0:
        unfinished = any(alert.code == "not_converged" for alert in result.alerts)
        badge, tone = (
            ("as Theorem 1 suggests, unfinished", "caution") if unfinished else ("as Theorem 1 suggests", "good")
        )
    elif high < 0:
        badge = "the other way round"
    else:
        badge = "no clear relation"
    facts = [
        ("Spearman", number(found.spearman)),
        ("its 95 % interval", interval(found.spearman_ci95)),
        ("with the leak held fixed", number(found.within_leak)),
        ("R² of the line", number(found.r2)),
        ("pairs kept, removed", f"{count(len(kept(result)))}, {count(result.removed)}"),
    ]
    return Card(f"{WHAT[result.experiment][0]}: {scale_words(result)}", badge, sentence(result), tone, tuple(facts))


def _beside_published(result: Reproduction) -> list[Block]:
    told = leak_words(result)
    table = Table(
        "Ours beside the published figures: correlation and line over pairs, mean over samples, distances in units of the latents",
        (Column("what", "text"), *map(Column, ("ours", "published", "ours, random directions"))),
        tuple(published_lines(result)),
    )
    return [*([Text(told)] if told else []), table]


def _figures(result: Reproduction) -> Section:
    names = FIGURES[result.experiment]
    blocks: list[Block] = [
        *_scatter(
            result,
            "mean",
            f"{names['mean']}: distance against {MEASURE}, mean over samples",
            "One mark for each pair kept. Across: from the mean over samples of the larger 1 + L of its two decoders, exact. Up: "
            "the mean over samples of the distance of its latents after the best rigid motion.",
            lambda run: [(run.exact.mean, run.distance.mean)],
        ),
        *_quantile_curves(result, f"{names['constant']}: the constant 1 + L by leak"),
        *_scatter(
            result,
            "maximum",
            f"{names['maximum']}: as {names['mean']}, largest over samples",
            "One mark for each pair kept: the largest 1 + L and the largest distance over its samples, which need not be at the "
            "same sample. This is the form in which Theorem 1 is stated.",
            lambda run: [(run.exact.maximum, run.distance.maximum)],
        ),
        *_scatter(
            result,
            "sample",
            f"{names['sample']}: as {names['mean']}, sample by sample",
            "Some samples of each pair kept, one mark each: the larger 1 + L of its two decoders there, and the distance of its "
            "two latents.",
            lambda run: run.samples,
        ),
    ]
    return Section("figures", "The figures", (*blocks, Text(NO_FIGURES, note=True)) if blocks else ())


def _styles(result: Reproduction) -> list[tuple[float, int]]:
    """Each leak with its style: the colours run from the smallest leak to the largest, however many there are."""
    leaks = sorted({leak.leak for leak in result.leaks if known(leak.leak)})
    steps = max(len(leaks) - 1, 1)
    return [(leak, round((STEPS - 1) * i / steps)) for i, leak in enumerate(leaks)]


def _scatter(
    result: Reproduction, form: str, title: str, told: str, places: Callable[[PairRun], Sequence[Interval]]
) -> list[Block]:
    """Pairs or samples by leak, with the fitted line through the origin."""
    found = [
        (leak, style, [p for run in kept(result) if run.leak == leak for p in _placed(places(run))])
        for leak, style in _styles(result)
    ]
    total = sum(len(points) for _, _, points in found)
    if not total:
        return []
    step = max(math.ceil(total / SAMPLES_DRAWN), 1)
    clouds = [
        Cloud(f"leak {short(leak)}", tuple(points[::step]), "main", style) for leak, style, points in found if points
    ]
    furthest = max(x for cloud in clouds for x, _ in cloud.points)
    fit = next((f for f in result.fits if (f.form, f.estimator, f.unit) == (form, "exact", "latent")), None)
    curves: list[Curve] = []
    if fit is not None and known(fit.slope):
        end = (furthest, fit.slope * furthest)
        curves.append(Curve(f"{number(fit.slope)} · {MEASURE}", ((0.0, 0.0), end), FIT_STYLE, dotted=False))
        told += f" The line has one free parameter: R² {number(fit.r2)}, Spearman {spearman_cell(fit)}, over {counted(fit.n, 'pair')}."
    if step > 1:
        told += f" Drawn: one in {count(step)}."
    return [Curves(title, told, MEASURE, "distance", tuple(curves), clouds=tuple(clouds), ordered=True)]


def _placed(pairs: Sequence[Interval]) -> list[Interval]:
    finite = [(constant, distance) for constant, distance in pairs if known(constant) and known(distance)]
    across = theorem_1_shape(np.array([constant for constant, _ in finite])).tolist()
    return list(zip(across, (distance for _, distance in finite), strict=True))


def _quantile_curves(result: Reproduction, title: str) -> list[Block]:
    """Quantile functions of 1 + L by leak, and the bounds that the architecture sets them."""
    styles = dict(_styles(result))
    drawn = [
        (leak, tuple((x, y) for x, y in leak.curve if known(x) and known(y) and y > 0))
        for leak in result.leaks
        if leak.leak in styles
    ]
    curves = tuple(Curve(f"leak {short(leak.leak)}", points, styles[leak.leak]) for leak, points in drawn if points)
    if not curves:
        return []
    log, top = _vertical(curves)
    largest = max(y for curve in curves for _, y in curve.points)
    reach = WIDE * largest if log else largest if top is None else top
    bounded = [leak for leak, points in drawn if points and known(leak.bound) and leak.bound > 0]
    rings = tuple((1.0, leak.bound) for leak in bounded if leak.bound <= reach)
    beyond = [f"{significant(leak.bound, 4)} at leak {short(leak.leak)}" for leak in bounded if leak.bound > reach]
    bound = bound_name(result)
    told = ["Over every decoder and sample of a leak: at 0.95 stands the constant that 95 % do not exceed."]
    allowed = f"the largest that the architecture allows, {bound}"
    told += [f"Rings: {allowed}."] if rings else []
    told += [f"{'Beyond the axis' if rings else f'Beyond the axis is {allowed}'}: {listed(beyond)}."] if beyond else []
    told += [f"The largest constants, up to {number(largest)}, are cut off."] if top is not None else []
    told += ["Logarithmic scale."] if log else []
    return [
        Curves(
            title,
            " ".join(told),
            "share of decoders and samples",
            "1 + L",
            curves,
            log=log,
            top=top,
            clouds=(Cloud(f"bound of the architecture, {bound}", rings, "hollow"),) if rings else (),
            ordered=True,
            base=1.0,
        )
    ]


def _vertical(curves: Sequence[Curve]) -> tuple[bool, float | None]:
    """Whether the axis of the constants is logarithmic, and where to cut a linear one if a few would flatten the rest."""
    points = [point for curve in curves for point in curve.points]
    heights = [y for _, y in points]
    if max(heights) > WIDE * min(heights):
        return True, None
    usual = max((y for x, y in points if x <= USUAL), default=max(heights))
    return False, usual if max(heights) - 1 > CUT * (usual - 1) > 0 else None


def _by_leak(result: Reproduction) -> Section:
    rows = [
        DotRow(
            f"leak {leak_name(leak.leak)}",
            number(leak.distance),
            (Mark("main", leak.distance),),
            interval=leak.distance_ci95 if all(map(known, leak.distance_ci95)) else None,
        )
        for leak in result.leaks
        if known(leak.distance)
    ]
    blocks: list[Block] = []
    if rows:
        legend: list[tuple[LegendKind, str]] = [("main", "mean over the pairs kept"), ("whisker", "95 % interval")]
        shown = drawn_marks(rows)
        blocks.append(
            Dots(
                "Distance by leak",
                "The bound of Theorem 1 shrinks towards leak 1, where decoders are linear isometries; what it bounds need not.",
                "mean distance of the latents of a pair after the best rigid motion",
                tuple(rows),
                tuple((kind, words) for kind, words in legend if kind in shown),
            )
        )
    heads = ("leak", "kept", "distance", "95 %", "/ diameter", "95 %", "reconstruction")
    blocks.append(
        Table(
            "Mean distance over the pairs kept, with its 95 % interval; reconstruction is the mean validation loss",
            (Column(heads[0], "text"), *map(Column, heads[1:])),
            tuple(leak_lines(result, _distance_cells)),
        )
    )
    quantiles = ("median", "q95", "max")
    blocks.append(
        Table(
            "1 + L of every decoder at every sample: exact first, then by the paper's estimator, random directions, with the share of "
            f"the exact median that it finds. Bound: {bound_name(result)}",
            (
                *(Column("leak", "text"), Column("bound")),
                *map(Column, quantiles),
                *map(Column, (f"random {q}" for q in quantiles)),
                Column("found"),
            ),
            tuple(leak_lines(result, constant_cells)),
        )
    )
    return Section("leaks", "Leak by leak", tuple(blocks))


def _distance_cells(leak: Leak) -> tuple[str, ...]:
    return (
        f"{count(leak.kept)} of {count(leak.pairs)}",
        number(leak.distance),
        interval(leak.distance_ci95),
        number(leak.relative),
        interval(leak.relative_ci95),
        number(leak.reconstruction, 4),
    )


def constant_cells(leak: Leak) -> tuple[str, ...]:
    """Bound, quantiles exact and by random directions, and how much of the median the latter find."""
    exact, drawn = leak.constant, leak.random_directions
    share = drawn.median / exact.median if known(exact.median) and exact.median > 0 else None
    return (
        significant(leak.bound, 4),
        *(figure(v) for s in (exact, drawn) for v in (s.median, s.q95, s.max)),
        percent(share),
    )


def _by_digit(result: Reproduction) -> Section:
    lines = digit_lines(result)
    if not lines:
        return Section("digits", "Digit by digit", ())
    return Section(
        "digits",
        "Digit by digit",
        (
            Table(
                "Over the pairs kept of each digit. Spearman: of mean 1 + L with the mean distance, within the digit, over all leaks",
                (Column(DIGIT_HEADS[0], "text"), *map(Column, DIGIT_HEADS[1:])),
                tuple(lines),
            ),
        ),
    )


def _fits(result: Reproduction) -> Section:
    heads = ("slope", "R²", "Spearman [95 %]", "leak held fixed", "pairs")
    strong = next((i for i, f in enumerate(result.fits) if f == result.fit()), None)
    return Section(
        "fits",
        "All fits",
        (
            Table(
                f"distance = slope · {MEASURE}, through the origin; over samples the mean or the largest of a pair, or single samples; "
                "1 + L exact or by random directions; distances in units of the latents or over their diameter. Leak held fixed: Spearman "
                "of the ranks within each leak, which tells whether 1 + L says more than the leak does",
                (*(Column(head, "text") for head in ("form", "1 + L", "distance")), *map(Column, heads)),
                tuple(fit_lines(result)),
                strong,
            ),
            Text(
                "R² is the share of the variance about the mean that the line explains. A line through the origin can explain less "
                "than the mean does: then it is negative.",
                note=True,
            ),
        ),
    )


def _runs(result: Reproduction) -> Section:
    removed = [(run, run.removed) for run in result.runs if run.removed is not None]
    first: Block = Text("No pair was removed.")
    if removed:
        columns = (Column("run", "text"), Column("losses"), Column("epochs"), Column("distance"), Column("why", "text"))
        lines = [(*_named(run), number(run.distance.mean), one_line(why)) for run, why in removed]
        first = Table(f"Removed: {counted(len(removed), 'pair')}", columns, tuple(lines))
    heads = ("losses", "epochs", "1 + L", "max", "random", "distance", "max", "/ diameter")
    everything = Table(
        "Two models each: their validation losses and epochs, and why training ended. 1 + L and distance: mean and largest over "
        "samples; random: mean 1 + L by random directions",
        (Column("run", "text"), *map(Column, heads), Column("ended", "text"), Column("removed", "text")),
        tuple(map(_run_line, result.runs)),
    )
    return Section("runs", "Runs", (first, Fold(f"All {counted(len(result.runs), 'pair')}", (everything,))))


def _named(run: PairRun) -> tuple[str, str, str]:
    """Which run, with the losses and epochs of its two models."""
    digit = "" if run.digit is None else f", digit {run.digit}"
    losses = ", ".join(number(v, 4) for v in run.reconstruction)
    return f"leak {leak_name(run.leak)}{digit}, pair {run.pair}", losses, ", ".join(map(count, run.epochs))


def _run_line(run: PairRun) -> tuple[str, ...]:
    return (
        *_named(run),
        figure(run.exact.mean),
        figure(run.exact.maximum),
        figure(run.random_directions.mean),
        number(run.distance.mean),
        number(run.distance.maximum),
        number(_relative(run)),
        ", ".join(map(one_line, dict.fromkeys(run.stopped))),
        "" if run.removed is None else "yes",
    )


def choices_section(choices: Sequence[Choice], lost_as: str = "Lost in our copy of the paper; ours") -> Section:
    """The paper's settings, those of which this run departs from it, and those that are lost, each under its own name."""
    value, papers = Column("value", "code"), Column("the paper's", "code")
    own = [c for c in choices if c.source == "paper"]
    changed = [c for c in choices if c.source == "ours" and c.paper is not None]
    lost = [c for c in choices if c.source == "ours" and c.paper is None]
    tables: list[tuple[str, tuple[Column, ...], list[tuple[str, ...]]]] = [
        ("The paper's settings", (value,), [(_name(c), setting(c.value)) for c in own]),
        ("Other than the paper's", (value, papers), [(_name(c), setting(c.value), setting(c.paper)) for c in changed]),
        (lost_as, (value,), [(_name(c), setting(c.value)) for c in lost]),
    ]
    blocks = [
        Table(caption, (Column("setting", "text"), *columns), tuple(lines))
        for caption, columns, lines in tables
        if lines
    ]
    return Section("choices", "Settings", tuple(blocks))


def _name(choice: Choice) -> str:
    return one_line(choice.name.replace("_", " "))
