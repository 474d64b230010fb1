"""The page of `reproduce fig2` and `figA6`: pairs of autoencoders, their distance against 1 + L, ours beside published."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

import numpy as np

from identifiable.identifiability.trend import FEWEST, spearman, theorem_1_shape
from identifiable.report.frame import framed, glossary, section, terms
from identifiable.report.page import (
    Block,
    Card,
    Cloud,
    Curve,
    Curves,
    DotRow,
    Dots,
    Fold,
    Mark,
    Page,
    Table,
    Terms,
    Text,
    Tone,
    columns,
)
from identifiable.report.pages.distortion import WIDE, or_infinite
from identifiable.report.pages.paper import choice_tables
from identifiable.report.words import (
    MISSING,
    count,
    counted,
    display_name,
    estimate,
    interval,
    known,
    listed,
    number,
    one_line,
    percent,
    sentence_of,
    setting,
    short,
    significant,
)
from identifiable.results import Fit, Interval, Leak, PairRun, Reproduction

GUIDE = (
    "1 + L is the largest factor by which a decoder stretches or shrinks any direction at a sample; 1 keeps every length. "
    "Distances are between the latents of two models trained alike, after the best rigid motion."
)
WHAT = {
    "fig2": ("Figure 2", "Pairs of autoencoders that differ only in their seeds"),
    "figA6": ("Figure A.6", "Pairs of autoencoders of one digit each, which differ only in their seeds"),
}
FIGURES = {
    "constant": "Figure A.3",
    "maximum": "Figure A.4",
    "sample": "Figure A.5",
}  # the paper's number of each picture
FORMS = {"mean": "mean", "maximum": "largest", "sample": "single samples"}
ESTIMATORS = {"exact": "exact", "random_directions": "random"}
UNITS = {"latent": "latents", "diameter": "/ diameter"}
MEASURE = "√(2L + L²)"
LOST = "not in our copy"
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
SAMPLES_DRAWN = 2400
USUAL, CUT = 0.98, 1.5  # the axis ends at this quantile if the largest L is more than so many times it
STEPS = 6  # styles of an ordered figure
FIT_STYLE = 6


def page(result: Reproduction) -> Page:
    words = glossary("reproduction")
    name, what = WHAT[result.experiment]
    removed = words["Removed"].format(threshold=number(result.filter_threshold, 4))
    return framed(
        result,
        title=f"{name}, run again",
        subtitle=f"{what}: is the second model's representation nearer to the first's where decoders are nearer to isometries?",
        guide=GUIDE,
        verdict=_verdict(result),
        sections=[
            section("figures", "The figures", _figures(result)),
            section("leaks", "Leak by leak", _by_leak(result)),
            section("digits", "Digit by digit", _by_digit(result)),
            section("fits", "All fits", _fits(result)),
            section("runs", "Runs", _runs(result)),
            section("choices", "Settings", choice_tables(result.choices)),
        ],
        reading=(
            Text(words[""]),
            terms("reproduction", "1 + L", "Distance", MEASURE, "Slope", "Fits", "Random directions"),
            Terms(
                (
                    (f"Why 1 + L ≤ leak⁻{_power(result)}", words["Bound"].format(power=_power(result))),
                    ("Removed", removed),
                )
            ),
        ),
        methods=(_trained(result), f"{words['Measured']} Seed {result.provenance.seed}.", words["Sources"]),
        papers=("nelson",),
    )


def _power(result: Reproduction) -> str:
    """How often a decoder can multiply by its leak, as a superscript; k where no leak tells."""
    bent = (k for k in result.leaks if known(k.leak) and known(k.bound) and 0 < k.leak < 1 <= k.bound)
    found = next(bent, None)
    return "ᵏ" if found is None else str(round(-math.log(found.bound, found.leak))).translate(SUPERSCRIPTS)


def _kept(result: Reproduction) -> list[PairRun]:
    return [run for run in result.runs if run.removed is None]


def _spearman(fit: Fit | None) -> str:
    return MISSING if fit is None else estimate(fit.spearman, fit.spearman_ci95)


def _leak_name(value: float) -> str:
    return short(value) if known(value) else MISSING


# -- the verdict


def _verdict(result: Reproduction) -> Iterator[Block]:
    yield _card(result)
    if told := _by_leak_words(result):
        yield Text(told, note=True, brief=True)
    yield _published(result)


def _card(result: Reproduction) -> Card:
    found = result.fit()
    low, high = found.spearman_ci95 or (math.nan, math.nan)
    tone: Tone = "caution"
    if not all(map(known, (found.spearman, low, high))):
        badge = "too few pairs"
    elif low > 0:
        unfinished = any(alert.code == "not_converged" for alert in result.alerts)
        badge = "as Theorem 1 suggests" + (", unfinished" if unfinished else "")
        tone = "caution" if unfinished else "good"
    else:
        badge = "the other way round" if high < 0 else "no clear relation"
    facts = (
        ("Spearman", number(found.spearman)),
        ("its 95 % interval", interval(found.spearman_ci95)),
        ("with the leak held fixed", number(found.within_leak)),
        ("R² of the line", number(found.r2)),
        ("pairs kept, removed", f"{count(len(_kept(result)))}, {count(result.removed)}"),
    )
    data = display_name(result.inputs[0].name) if result.inputs else MISSING
    ran = f"{counted(len(result.runs), 'pair')}, {counted(len(result.leaks), 'leak')}, scale {one_line(result.scale)}, {data}"
    name = f"{WHAT[result.experiment][0]}, run again: {ran}"
    return Card(name, badge, sentence_of(result.headline), tone, facts, brief=True)


def _by_leak_words(result: Reproduction) -> str:
    """How the distance changes from the smallest leak to the largest."""
    told = sorted((leak for leak in result.leaks if known(leak.leak) and known(leak.distance)), key=lambda k: k.leak)
    if len(told) < 2:
        return ""
    first, last = told[0], told[-1]
    verb = "falls" if last.distance < first.distance else "rises" if last.distance > first.distance else "stays"
    ends = " to ".join(estimate(k.distance, k.distance_ci95) for k in (first, last))
    return (
        f"From leak {short(first.leak)} to leak {short(last.leak)} the mean distance {verb} from {ends}; over the diameter of "
        f"the latents from {number(first.relative)} to {number(last.relative)}. Spearman's correlation of leak and distance over "
        f"the pairs kept: {estimate(result.leak_spearman, result.leak_spearman_ci95)}."
    )


def _published(result: Reproduction) -> Table:
    """Ours with exact constants, published, ours with the paper's estimator."""
    ours = {(f.form, f.estimator, f.unit): f for f in result.fits}
    exact, drawn = (ours.get(("mean", estimator, "latent")) for estimator in ("exact", "random_directions"))
    same = {
        "runs": ("pairs trained", count(len(result.runs)), ""),
        "removed": ("pairs removed", count(result.removed), ""),
        "spearman": ("Spearman [95 %]", _spearman(exact), _spearman(drawn)),
        "r2": ("R² of the line", number(exact.r2 if exact else None), number(drawn.r2 if drawn else None)),
    }
    others = {k: (one_line(k.replace("_", " ")), MISSING, "") for k in result.published if k not in same}

    def line(key: str, what: str, found: str, again: str) -> tuple[str, ...]:
        value = result.published.get(key)
        return what, found, LOST if value is None else setting(value), again

    return Table(
        "Ours beside published: correlation and line over pairs, mean over samples, distances in units of the latents",
        columns("what", "ours", "published", "ours, random directions"),
        tuple(line(key, *cells) for key, cells in {**same, **others}.items()),
        brief=True,
    )


# -- the figures


def _figures(result: Reproduction) -> Iterator[Block]:
    first = WHAT[result.experiment][0]
    names = {key: name if first == "Figure 2" else f"As {name}, digits apart" for key, name in FIGURES.items()}
    blocks = [
        *_scatter(
            result,
            "mean",
            f"{first}: distance against {MEASURE}, mean over samples",
            "One mark for each pair kept. Across: the mean over samples of the larger 1 + L of its two decoders, exact. Up: the "
            "mean over samples of the distance of its latents after the best rigid motion.",
            lambda run: [(run.exact.mean, run.distance.mean)],
        ),
        *_constants(result, f"{names['constant']}: the constant 1 + L by leak"),
        *_scatter(
            result,
            "maximum",
            f"{names['maximum']}: as {first}, largest over samples",
            "One mark for each pair kept: the largest 1 + L and the largest distance over its samples, which need not be at the "
            "same sample. Theorem 1 is stated in this form.",
            lambda run: [(run.exact.maximum, run.distance.maximum)],
        ),
        *_scatter(
            result,
            "sample",
            f"{names['sample']}: as {first}, sample by sample",
            "Some samples of each pair kept, one mark each: the larger 1 + L of its two decoders there, and the distance of its "
            "two latents.",
            lambda run: run.samples,
        ),
    ]
    yield from blocks
    if blocks:
        yield Text(glossary("reproduction")["No figures"], note=True)


def _styles(result: Reproduction) -> list[tuple[float, int]]:
    """Each leak with its style: the colours run from the smallest leak to the largest, however many there are."""
    leaks = sorted({leak.leak for leak in result.leaks if known(leak.leak)})
    steps = max(len(leaks) - 1, 1)
    return [(leak, round((STEPS - 1) * i / steps)) for i, leak in enumerate(leaks)]


def _scatter(
    result: Reproduction, form: str, title: str, told: str, places: Callable[[PairRun], Sequence[Interval]]
) -> Iterator[Block]:
    """Pairs or samples by leak, with the fitted line through the origin."""
    found = [
        (leak, style, [p for run in _kept(result) if run.leak == leak for p in _placed(places(run))])
        for leak, style in _styles(result)
    ]
    step = math.ceil(sum(len(points) for _, _, points in found) / SAMPLES_DRAWN)
    if not step:
        return
    clouds = tuple(
        Cloud(f"leak {short(leak)}", tuple(points[::step]), "main", style) for leak, style, points in found if points
    )
    furthest = max(x for cloud in clouds for x, _ in cloud.points)
    fit = next((f for f in result.fits if (f.form, f.estimator, f.unit) == (form, "exact", "latent")), None)
    curves: tuple[Curve, ...] = ()
    if fit is not None and known(fit.slope):
        ends = ((0.0, 0.0), (furthest, fit.slope * furthest))
        curves = (Curve(f"{number(fit.slope)} · {MEASURE}", ends, FIT_STYLE, dotted=False),)
        told += f" The line has one free parameter: R² {number(fit.r2)}, Spearman {_spearman(fit)}, over {counted(fit.n, 'pair')}."
    if step > 1:
        told += f" Drawn: one in {count(step)}."
    yield Curves(title, told, MEASURE, "distance", curves, clouds=clouds, ordered=True)


def _placed(pairs: Sequence[Interval]) -> list[Interval]:
    finite = [(constant, distance) for constant, distance in pairs if known(constant) and known(distance)]
    across = theorem_1_shape(np.array([constant for constant, _ in finite])).tolist()
    return list(zip(across, (distance for _, distance in finite), strict=True))


def _constants(result: Reproduction, title: str) -> Iterator[Block]:
    """Quantile functions of 1 + L by leak, and the bounds that the architecture sets them."""
    styles = dict(_styles(result))
    drawn = [
        (leak, points)
        for leak in result.leaks
        if leak.leak in styles and (points := tuple((x, y) for x, y in leak.curve if known(x) and known(y) and y > 0))
    ]
    if not drawn:
        return
    curves = tuple(Curve(f"leak {short(leak.leak)}", points, styles[leak.leak]) for leak, points in drawn)
    log, top = _vertical(curves)
    largest = max(y for curve in curves for _, y in curve.points)
    reach = WIDE * largest if log else largest if top is None else top
    bounded = [leak for leak, _ in drawn if known(leak.bound) and leak.bound > 0]
    rings = tuple((1.0, leak.bound) for leak in bounded if leak.bound <= reach)
    beyond = listed(f"{significant(k.bound, 4)} at leak {short(k.leak)}" for k in bounded if k.bound > reach)
    bound = f"leak⁻{_power(result)}"
    told = "Over every decoder and sample of a leak: 95 % do not exceed the constant at 0.95."
    told += f" Rings: the largest constant that the architecture allows, {bound}." if rings else ""
    told += f" Beyond the axis{'' if rings else f', {bound}'}: {beyond}." if beyond else ""
    told += f" The largest constants, up to {number(largest)}, are cut off." if top is not None else ""
    told += " Logarithmic scale." if log else ""
    yield Curves(
        title,
        told,
        "share of decoders and samples",
        "1 + L",
        curves,
        log=log,
        top=top,
        clouds=(Cloud(f"bound of the architecture, {bound}", rings, "hollow"),) if rings else (),
        ordered=True,
        base=1.0,
    )


def _vertical(curves: Sequence[Curve]) -> tuple[bool, float | None]:
    """Whether the axis of the constants is logarithmic, and where to cut a linear one if a few would flatten the rest."""
    points = [point for curve in curves for point in curve.points]
    heights = [y for _, y in points]
    if max(heights) > WIDE * min(heights):
        return True, None
    usual = max((y for x, y in points if x <= USUAL), default=max(heights))
    return False, usual if max(heights) - 1 > CUT * (usual - 1) > 0 else None


# -- the tables


def _by_leak(result: Reproduction) -> Iterator[Block]:
    rows = tuple(
        DotRow(
            f"leak {_leak_name(leak.leak)}",
            number(leak.distance),
            (Mark("main", leak.distance),),
            interval=leak.distance_ci95 if all(map(known, leak.distance_ci95)) else None,
        )
        for leak in result.leaks
        if known(leak.distance)
    )
    if rows:
        yield Dots(
            "Distance by leak",
            "The bound of Theorem 1 shrinks towards leak 1, where decoders are linear isometries; the distance need not.",
            "mean distance of the latents of a pair after the best rigid motion",
            rows,
            (("main", "mean over the pairs kept"), ("whisker", "95 % interval")),
        )
    yield Table(
        "Mean distance over the pairs kept, with its 95 % interval; reconstruction is the mean validation loss",
        columns("leak", "kept", "distance", "95 %", "/ diameter", "95 %", "reconstruction"),
        tuple(
            (
                _leak_name(leak.leak),
                f"{count(leak.kept)} of {count(leak.pairs)}",
                number(leak.distance),
                interval(leak.distance_ci95),
                number(leak.relative),
                interval(leak.relative_ci95),
                number(leak.reconstruction, 4),
            )
            for leak in result.leaks
        ),
        brief=True,
    )
    quantiles = ("median", "q95", "max")
    yield Table(
        "1 + L of every decoder at every sample: exact, then by random directions (the paper's estimator) with the share of the "
        f"exact median that it finds. Bound: leak⁻{_power(result)}",
        columns("leak", "bound", *quantiles, *(f"random {q}" for q in quantiles), "found"),
        tuple(map(_constant_cells, result.leaks)),
        brief=True,
    )


def _constant_cells(leak: Leak) -> tuple[str, ...]:
    exact, drawn = leak.constant, leak.random_directions
    share = drawn.median / exact.median if known(exact.median) and exact.median > 0 else None
    quantiles = (or_infinite(v) for s in (exact, drawn) for v in (s.median, s.q95, s.max))
    return _leak_name(leak.leak), significant(leak.bound, 4), *quantiles, percent(share)


def _by_digit(result: Reproduction) -> Iterator[Block]:
    digits = sorted({run.digit for run in result.runs if run.digit is not None})
    if digits:
        yield Table(
            "Over the pairs kept of each digit. Spearman: of mean 1 + L with the mean distance, within the digit, over all leaks",
            columns("digit", "kept", "distance", "/ diameter", "Spearman", "mean 1 + L", "reconstruction"),
            tuple(_digit_line(digit, [run for run in result.runs if run.digit == digit]) for digit in digits),
            brief=True,
        )


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


def correlated(pairs: Sequence[Interval]) -> float | None:
    """Spearman's correlation of the finite ones; None where there are too few or one side does not vary."""
    finite = np.array([(x, y) for x, y in pairs if known(x) and known(y)])
    return spearman(*finite.T) if len(finite) >= FEWEST else None


def _mean(values: Sequence[float]) -> float | None:
    finite = [v for v in values if known(v)]
    return fmean(finite) if finite else None


def _relative(run: PairRun) -> float:
    return run.distance.mean / run.diameter if known(run.diameter) and run.diameter > 0 else math.nan


def _fits(result: Reproduction) -> Iterator[Block]:
    heads = ("1 + L", "distance", "slope", "R²", "Spearman [95 %]", "leak held fixed", "pairs")
    yield Table(
        f"distance = slope · {MEASURE}, through the origin; distances in units of the latents or over their diameter",
        columns("over samples", *heads, words=heads[:2]),
        tuple(
            (
                FORMS[fit.form],
                ESTIMATORS[fit.estimator],
                UNITS[fit.unit],
                number(fit.slope),
                number(fit.r2),
                _spearman(fit),
                number(fit.within_leak),
                count(fit.n),
            )
            for fit in result.fits
        ),
        next((i for i, fit in enumerate(result.fits) if fit == result.fit()), None),
        brief=True,
    )
    yield Text(
        "The slope is fitted. It is not the constant of Theorem 1, which is a worst case.", note=True, brief=True
    )


def _runs(result: Reproduction) -> Iterator[Block]:
    removed = [(run, run.removed) for run in result.runs if run.removed is not None]
    if removed:
        yield Table(
            f"Removed: {counted(len(removed), 'pair')}",
            columns("run", "losses", "epochs", "distance", "why", words=("why",)),
            tuple((*_named(run), number(run.distance.mean), one_line(why)) for run, why in removed),
        )
    else:
        yield Text("No pair was removed.")
    heads = ("losses", "epochs", "1 + L", "max", "random", "distance", "max", "/ diameter", "ended", "removed")
    everything = Table(
        "Two models each: their validation losses and epochs, and why training ended. 1 + L and distance: mean and largest over "
        "samples; random: mean 1 + L by random directions",
        columns("run", *heads, words=("ended", "removed")),
        tuple(map(_run_line, result.runs)),
    )
    yield Fold(f"All {counted(len(result.runs), 'pair')}", (everything,))


def _named(run: PairRun) -> tuple[str, str, str]:
    """Which run, with the losses and epochs of its two models."""
    digit = "" if run.digit is None else f", digit {run.digit}"
    losses = ", ".join(number(v, 4) for v in run.reconstruction)
    return f"leak {_leak_name(run.leak)}{digit}, pair {run.pair}", losses, ", ".join(map(count, run.epochs))


def _run_line(run: PairRun) -> tuple[str, ...]:
    return (
        *_named(run),
        *map(or_infinite, (run.exact.mean, run.exact.maximum, run.random_directions.mean)),
        *map(number, (run.distance.mean, run.distance.maximum, _relative(run))),
        ", ".join(map(one_line, dict.fromkeys(run.stopped))),
        "" if run.removed is None else "yes",
    )


# -- methods


def _trained(result: Reproduction) -> str:
    by = " for each digit" if any(run.digit is not None for run in result.runs) else ""
    return (
        f"{counted(len(result.runs), 'pair')} of autoencoders, whose two models differ only in their seeds, were trained at "
        f"{counted(len(result.leaks), 'leak')}{by} (scale {one_line(result.scale)}). Pairs in which either model's validation loss "
        f"exceeds {number(result.filter_threshold, 4)} were removed: {count(result.removed)}. The latents of the second model were "
        "mapped onto those of the first by the best rigid motion, reflections allowed."
    )
