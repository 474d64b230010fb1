"""What the page of `bilipschitz` says: `Distortion` to `Page`, a pure function of the saved result."""

from __future__ import annotations

import math
from collections.abc import Sequence

from identifiable.report.distortion_methods import LOOSE, bibtex, how_to_read, paragraphs
from identifiable.report.frame import alerts_section, page_with, reproduction, saved_form, thinned
from identifiable.report.page import Block, Card, Column, Curve, Curves, Page, Section, Table, Terms, Text, Tone
from identifiable.report.words import (
    MISSING,
    count,
    counted,
    display_name,
    known,
    number,
    one_line,
    percent,
)
from identifiable.results import Distortion, Interval, Summary, SupremumEstimate, WorstCase

GUIDE = (
    "1 + L is the largest factor by which the decoder stretches or shrinks any direction at a point; 1 keeps every length. "
    "Bounds on this page are worst cases and never a forecast."
)
QUANTILES = ("mean", "min", "q05", "median", "q95", "max")
NAMES = {
    "constant": "constant 1 + L",
    "condition": "condition number",
    "sigma_max": "largest singular value",
    "sigma_min": "smallest singular value",
}
INFINITE = "∞"
CURVE_POINTS = 240
WIDE = 30  # largest over smallest from which on an axis is logarithmic
FEW_POINTS = "Fewer than 200 points have a derivative: too few to say how far beyond the largest constant seen the supremum may lie."
NO_BOUNDS = "No bound follows: it takes two different points, and a finite constant at all that have a derivative."


def distortion_page(result: Distortion) -> Page:
    """The page of `result`, exactly as it would be drawn from its saved JSON."""
    saved = saved_form(result)
    sections = [
        Section("verdict", "Verdict", (_card(saved),)),
        alerts_section(saved),
        _distribution(saved),
        _estimates(saved),
        _bounds(saved),
        how_to_read(),
        reproduction(saved, paragraphs(saved), bibtex()),
    ]
    return page_with(
        saved,
        sections,
        title=f"{display_name(saved.decoder)}: how it stretches and shrinks",
        subtitle="How near is this decoder to one that keeps lengths, and how near to identifiable does that make its latents?",
        guide=GUIDE,
    )


def sentence(result: Distortion) -> str:
    """The headline as a sentence."""
    return f"{result.headline[0].upper()}{result.headline[1:]}."


def figure(value: float | None) -> str:
    """A number that may be infinite."""
    return INFINITE if value == math.inf else number(value)


def quantile_lines(result: Distortion) -> list[tuple[str, ...]]:
    """Name and quantiles of every figure that is summarised, the paper's estimate last."""
    summaries: list[tuple[str, Summary]] = [(NAMES[k], result.summary[k]) for k in NAMES if k in result.summary]
    if result.random_directions is not None:
        summaries.append(("1 + L by random directions", result.random_directions))
    return [(name, *(figure(getattr(summary, q)) for q in QUANTILES)) for name, summary in summaries]


def estimator_words(result: Distortion) -> str | None:
    """How much of the constant the paper's estimator finds."""
    found = result.random_directions
    if found is None:
        return None
    who = f"The paper's estimator, {counted(found.directions, 'random direction')} at each point,"
    if not known(found.share):
        return f"{who} does not see that the constant is infinite: its median is {figure(found.median)}."
    return f"{who} finds {percent(found.share)} of the exact constant (median)."


def supremum_words(found: SupremumEstimate | None) -> str:
    """The extrapolated supremum with its interval."""
    if found is None:
        return FEW_POINTS
    if not found.n_tail:
        return "The supremum of 1 + L is infinite: so is the constant at a point seen."
    told = f"{figure(found.estimate)}, 95 % interval [{figure(found.ci95[0])}, {figure(found.ci95[1])}]"
    if found.estimate == math.inf:
        told += ": the points seen do not say that there is a largest constant"
    elif found.ci95[1] == math.inf:  # a tail that barely ends: the estimate may be anything
        told += ": without an upper end, so the points seen do not say how large it is"
    return f"Supremum of 1 + L over the support, extrapolated from the {counted(found.n_tail, 'largest constant')}: {told}."


def bound_line(bound: WorstCase) -> tuple[str, ...]:
    """A bound as a row: never without the words worst case."""
    says = "says nothing" if bound.vacuous else "worst case"
    return (
        one_line(bound.statement),
        figure(bound.constant),
        figure(bound.epsilon),
        figure(bound.relative),
        f"worst case, {says}" if bound.vacuous else says,
    )


def _card(result: Distortion) -> Card:
    middle = result.summary.get("constant")
    facts = [
        ("largest 1 + L", figure(result.largest)),
        ("after the best scale", figure(result.best_constant)),
        ("best scale", number(result.best_scale)),
        ("median 1 + L", figure(middle.median) if middle else MISSING),
        ("points n", count(result.n)),
        ("latents → outputs", f"{count(result.latents)} → {count(result.outputs)}"),
    ]
    tone: Tone = "plain" if result.summary and not (result.deficient or result.undefined) else "caution"
    badge = "exact" if result.method == "exact" else "Lanczos, with errors"
    return Card(display_name(result.decoder), badge, sentence(result), tone, tuple(facts))


def _distribution(result: Distortion) -> Section:
    blocks: list[Block] = []
    scaled = _rescaled(result)
    blocks += _curves(
        "The constant over the points",
        "Points in the order of their constant: at 0.95 stands the constant that 95 % of the points do not exceed."
        + (" The second line is the same decoder with its output multiplied by the best scale." if scaled else ""),
        "1 + L",
        [("as it is", result.constant), *([("after the best scale", scaled)] if scaled else [])],
    )
    blocks += _curves(
        "Singular values over the points",
        "Largest and smallest singular value of the Jacobian, each in its own order: how much the decoder stretches and "
        "shrinks. Where both are 1 it keeps every length.",
        "singular value",
        [("largest", result.sigma_max), ("smallest", result.sigma_min)],
        ("lengths kept", 1.0),
    )
    lines = quantile_lines(result)
    if lines:
        columns = (Column("what", "text"), *map(Column, QUANTILES))
        blocks.append(
            Table(f"Over {count(result.n - result.undefined)} points with a derivative", columns, tuple(lines), 0)
        )
    if result.method == "lanczos":
        low, high = (max(filter(known, e), default=0.0) for e in (result.sigma_min_error, result.sigma_max_error))
        blocks.append(
            Text(
                f"Singular values by Lanczos: each lies within {number(low)} (smallest) and {number(high)} (largest), at worst, "
                "of a singular value of the Jacobian; the residual does not say that none lies further out."
            )
        )
    return Section("distribution", "How much it stretches and shrinks", tuple(blocks))


def _rescaled(result: Distortion) -> list[float]:
    """The constants after the best scale, where there is one."""
    scale = result.best_scale
    if not known(scale) or scale <= 0:
        return []
    pairs = zip(result.sigma_min, result.sigma_max, strict=True)
    return [max(scale * high, 1 / (scale * low)) for low, high in pairs if known(low) and known(high) and low > 0]


def _curves(
    title: str,
    told: str,
    up: str,
    found: Sequence[tuple[str, Sequence[float]]],
    threshold: tuple[str, float] | None = None,
) -> list[Block]:
    """Quantile functions of positive figures; what is infinite or 0 has its share of the points and is told in words."""
    curves = [
        Curve(label, points, style)
        for style, (label, values) in enumerate(found, start=1)
        if (points := _quantiles([v for v in values if not math.isnan(v)]))
    ]
    if not curves:
        return []
    heights = [y for curve in curves for _, y in curve.points]
    missing = ""
    for what, outside in (("infinite", math.inf), ("0", 0.0)):
        counts = {label: sum(v == outside for v in values) for label, values in found}
        missing += "".join(f" At {counted(n, 'point')} {label}: {what}, not drawn." for label, n in counts.items() if n)
    log = max(heights) > WIDE * min(heights)
    scale = " Logarithmic scale." if log else ""
    return [
        Curves(title, told + missing + scale, "share of the points", up, tuple(curves), log=log, threshold=threshold)
    ]


def _quantiles(values: Sequence[float]) -> tuple[Interval, ...]:
    """(share, value), more finely towards the largest values, which are what the supremum is about.

    Shares are of all values; those that are 0 or infinite take theirs and are not drawn.
    """
    ordered = sorted(v for v in values if 0 < v < math.inf)
    below, last = sum(v <= 0 for v in values), len(values) - 1
    places = sorted(len(ordered) - 1 - k for k in thinned(len(ordered), CURVE_POINTS)) if ordered else []
    return tuple(((below + k) / last if last else 1.0, ordered[k]) for k in places)


def _estimates(result: Distortion) -> Section:
    """The supremum, and the paper's estimator beside the exact constant."""
    if not result.summary:
        return Section("estimates", "Beyond these points", ())
    blocks: list[Block] = [Text(supremum_words(result.supremum))]
    found = result.supremum
    if found is not None and found.n_tail:
        blocks.append(
            Table(
                "Supremum of 1 + L",
                (Column("what", "text"), Column("value")),
                (
                    ("largest seen", figure(result.largest)),
                    ("extrapolated", figure(found.estimate)),
                    ("95 % interval, from", figure(found.ci95[0])),
                    ("95 % interval, to", figure(found.ci95[1])),
                    ("shape of the tail", number(found.shape)),
                    ("points in the tail", count(found.n_tail)),
                ),
            )
        )
    words = estimator_words(result)
    if words is not None:
        blocks.append(Text(f"{words} A direction drawn at random misses the extremes, more so with more latents."))
    return Section("estimates", "Beyond these points, and with fewer directions", tuple(blocks))


def _bounds(result: Distortion) -> Section:
    if not result.bounds:
        return Section("bounds", "What it bounds, at worst", (Text(NO_BOUNDS),))
    heads = ("1 + L", "bound", "bound / diameter")
    return Section(
        "bounds",
        "What it bounds, at worst",
        (
            Text(
                "Two decoders with this constant that reconstruct alike have latents that agree, after the best rigid motion, to "
                f"within the bound. {LOOSE}"
            ),
            Table(
                f"Worst-case bounds; the diameter of the points is {number(result.diameter)}",
                (Column("statement", "text"), *map(Column, heads), Column("standing", "text")),
                tuple(map(bound_line, result.bounds)),
            ),
            Terms(_assumptions(result.bounds)),
        ),
    )


def _assumptions(bounds: Sequence[WorstCase]) -> tuple[tuple[str, str], ...]:
    """What all bounds assume, said once, and what each assumes besides."""
    parts = [one_line(bound.assumes).split("; ") for bound in bounds]
    common = [part for part in parts[0] if all(part in others for others in parts)]
    rest = ("; ".join(part for part in own if part not in common) for own in parts)
    each = ((f"{one_line(b.statement)} assumes", f"{r}.") for b, r in zip(bounds, rest, strict=True) if r)
    return (*((("All assume", "; ".join(common) + "."),) if common else ()), *each)
