"""The page of `bilipschitz`: how much a decoder stretches and shrinks, beyond the points seen, and what that bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from identifiable.report.frame import framed, glossary, section, terms, thinned
from identifiable.report.page import Block, Card, Curve, Curves, Page, Table, Terms, Text, columns
from identifiable.report.words import (
    MISSING,
    count,
    counted,
    display_name,
    known,
    number,
    one_line,
    percent,
    sentence_of,
    setting,
)
from identifiable.results import Distortion, Interval, SupremumEstimate, WorstCase

GUIDE = (
    "1 + L is the largest factor by which the decoder stretches or shrinks any direction at a point; 1 keeps every length. "
    "Bounds are worst cases, not predictions."
)
QUANTILES = ("mean", "min", "q05", "median", "q95", "max")
NAMES = {
    "constant": "constant 1 + L",
    "condition": "condition number",
    "sigma_max": "largest singular value",
    "sigma_min": "smallest singular value",
}
READING = ("Constant 1 + L", "Best scale", "Condition number", "Infinite", "Supremum")
INFINITE = "∞"
CURVE_POINTS = 240
WIDE = 30  # largest over smallest from which on an axis is logarithmic


def page(result: Distortion) -> Page:
    words = glossary("distortion")
    return framed(
        result,
        title=f"{display_name(result.decoder)}: how it stretches and shrinks",
        subtitle="How near is this decoder to one that keeps lengths, and how near to identifiable does that make its latents?",
        guide=GUIDE,
        verdict=(_card(result),),
        sections=[
            section("distribution", "How much it stretches and shrinks", _distribution(result)),
            section("estimates", "Beyond these points, and with fewer directions", _estimates(result)),
            section("bounds", "What it bounds, at worst", _bounds(result)),
        ],
        reading=(Text(words[""]), terms("distortion", *READING)),
        methods=(_computed(result), _judged(result), words["Sources"]),
        papers=("nelson", "alestalo", "hosking"),
    )


def or_infinite(value: float | None) -> str:
    """A number that may be infinite."""
    return INFINITE if value == math.inf else number(value)


def _card(result: Distortion) -> Card:
    middle = result.summary.get("constant")
    facts = (
        ("largest 1 + L", or_infinite(result.largest)),
        ("after the best scale", or_infinite(result.best_constant)),
        ("best scale", number(result.best_scale)),
        ("median 1 + L", or_infinite(middle.median) if middle else MISSING),
        ("points n", count(result.n)),
        ("latents → outputs", f"{count(result.latents)} → {count(result.outputs)}"),
    )
    well = result.summary and not (result.deficient or result.undefined)
    badge = "exact" if result.method == "exact" else "Lanczos, with errors"
    return Card(
        display_name(result.decoder),
        badge,
        sentence_of(result.headline),
        "plain" if well else "caution",
        facts,
        brief=True,
    )


# -- at the points


def _distribution(result: Distortion) -> Iterator[Block]:
    scaled = _rescaled(result)
    yield from _curves(
        "The constant over the points",
        "Points in the order of their constant: 95 % of them do not exceed the constant at 0.95."
        + (" The second line is the same decoder with its output multiplied by the best scale." if scaled else ""),
        "1 + L",
        [("as it is", result.constant), *([("after the best scale", scaled)] if scaled else [])],
    )
    yield from _curves(
        "Singular values over the points",
        "Largest and smallest singular value of the Jacobian, each in its own order: how much the decoder stretches and "
        "shrinks. Where both are 1 it keeps every length.",
        "singular value",
        [("largest", result.sigma_max), ("smallest", result.sigma_min)],
        ("lengths kept", 1.0),
    )
    summaries = [(NAMES[key], result.summary[key]) for key in NAMES if key in result.summary]
    drawn = [("1 + L by random directions", result.random_directions)] if result.random_directions else []
    if summaries or drawn:
        yield Table(
            f"Over {count(result.n - result.undefined)} points with a derivative",
            columns("over points", *QUANTILES),
            tuple((name, *(or_infinite(getattr(s, q)) for q in QUANTILES)) for name, s in (*summaries, *drawn)),
            0,
            brief=True,
        )
    if result.method == "lanczos":
        low, high = (max(filter(known, e), default=0.0) for e in (result.sigma_min_error, result.sigma_max_error))
        yield Text(
            f"Singular values by Lanczos: each lies within {number(low)} (smallest) and {number(high)} (largest), at worst, "
            "of a singular value of the Jacobian. The residual does not show that none lies further out."
        )


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
) -> Iterator[Block]:
    """Quantile functions of positive numbers; what is infinite or 0 has its share of the points and is told in words."""
    curves = tuple(
        Curve(label, points, style)
        for style, (label, values) in enumerate(found, start=1)
        if (points := _quantiles([v for v in values if not math.isnan(v)]))
    )
    if not curves:
        return
    heights = [y for curve in curves for _, y in curve.points]
    for what, outside in (("infinite", math.inf), ("0", 0.0)):
        for label, values in found:
            if n := sum(v == outside for v in values):
                told += f" At {counted(n, 'point')} {label}: {what}, not drawn."
    log = max(heights) > WIDE * min(heights)
    told += " Logarithmic scale." if log else ""
    yield Curves(title, told, "share of the points", up, curves, log=log, threshold=threshold)


def _quantiles(values: Sequence[float]) -> tuple[Interval, ...]:
    """(share, value), more finely towards the largest values, which decide the supremum.

    Shares are of all values; those that are 0 or infinite take theirs and are not drawn.
    """
    ordered = sorted(v for v in values if 0 < v < math.inf)
    below, last = sum(v <= 0 for v in values), len(values) - 1
    places = sorted(len(ordered) - 1 - k for k in thinned(len(ordered), CURVE_POINTS)) if ordered else []
    return tuple(((below + k) / last if last else 1.0, ordered[k]) for k in places)


# -- beyond them


def _estimates(result: Distortion) -> Iterator[Block]:
    """The supremum, and the paper's estimator beside the exact constant."""
    if not result.summary:
        return
    found, drawn = result.supremum, result.random_directions
    yield Text(_supremum(found), note=True, brief=True)
    if found is not None and found.n_tail:
        yield Table(
            "Supremum of 1 + L",
            columns("what", "value"),
            (
                ("largest seen", or_infinite(result.largest)),
                ("extrapolated", or_infinite(found.estimate)),
                ("95 % interval, from", or_infinite(found.ci95[0])),
                ("95 % interval, to", or_infinite(found.ci95[1])),
                ("shape of the tail", number(found.shape)),
                ("points in the tail", count(found.n_tail)),
            ),
        )
    if drawn is not None:
        estimator = f"The paper's estimator, {counted(drawn.directions, 'random direction')} at each point,"
        finds = (
            f"finds {percent(drawn.share)} of the exact constant (median)"
            if known(drawn.share)
            else f"does not detect that the constant is infinite: its median is {or_infinite(drawn.median)}"
        )
        yield Text(f"{estimator} {finds}. Random directions miss the extremes, more so with more latents.", brief=True)


def _supremum(found: SupremumEstimate | None) -> str:
    """The extrapolated supremum with its interval."""
    if found is None:
        return glossary("distortion")["Few points"]
    if not found.n_tail:
        return "The supremum of 1 + L is infinite, because the constant is infinite at one of the points."
    told = f"{or_infinite(found.estimate)}, 95 % interval [{or_infinite(found.ci95[0])}, {or_infinite(found.ci95[1])}]"
    if found.estimate == math.inf:
        told += ": these points do not show that there is a largest constant"
    elif found.ci95[1] == math.inf:  # a tail that barely ends: the estimate may be anything
        told += ": the interval has no upper end, so these points do not show how large it is"
    return f"Supremum of 1 + L over the support, extrapolated from the {counted(found.n_tail, 'largest constant')}: {told}."


# -- the bounds


def _bounds(result: Distortion) -> Iterator[Block]:
    words = glossary("distortion")
    if not result.bounds:
        yield Text(words["No bounds"])
        return
    yield Text(words["Bounded"])
    yield Table(
        f"Worst-case bounds; the diameter of the points is {number(result.diameter)}",
        columns("statement", "1 + L", "bound", "/ diameter", "standing", words=("standing",)),
        tuple(
            (
                one_line(bound.statement),
                *map(or_infinite, (bound.constant, bound.epsilon, bound.relative)),
                "worst case, vacuous" if bound.vacuous else "worst case",
            )
            for bound in result.bounds
        ),
        brief=True,
    )
    yield Text(words["Loose"], note=True, brief=True)
    yield Terms(_assumptions(result.bounds))


def _assumptions(bounds: Sequence[WorstCase]) -> tuple[tuple[str, str], ...]:
    """What all bounds assume, said once, and what each assumes besides."""
    parts = [one_line(bound.assumes).split("; ") for bound in bounds]
    common = [part for part in parts[0] if all(part in others for others in parts)]
    rest = ("; ".join(part for part in own if part not in common) for own in parts)
    each = ((f"{one_line(b.statement)} assumes", f"{r}.") for b, r in zip(bounds, rest, strict=True) if r)
    return (*((("All assume", "; ".join(common) + "."),) if common else ()), *each)


# -- methods


def _computed(result: Distortion) -> str:
    precision = result.settings.get("precision")
    products = f" ({setting(precision)} products)" if isinstance(precision, str) else ""
    how = (
        "from the eigenvalues of JᵀJ in double precision, or from J itself where JᵀJ is ill-conditioned"
        if result.method == "exact"
        else "as the extremes of JᵀJ by Lanczos with full reorthogonalisation, with errors from its residuals"
    )
    return (
        f"The Jacobian J of {display_name(result.decoder)} ({counted(result.latents, 'latent')}, "
        f"{counted(result.outputs, 'output')}) was multiplied with directions at {count(result.n)} points{products}. Its "
        f"singular values were computed {how}."
    )


def _judged(result: Distortion) -> str:
    told = (
        "The constant at a point is max(σ_max, 1/σ_min). Points without a finite derivative are left out; points where σ_min is "
        "0 up to rounding have an infinite constant."
    )
    if result.random_directions is not None:
        directions = counted(result.random_directions.directions, "random direction")
        told += f" The estimator of A.7.1 was run beside it, with {directions} at each point."
    if result.supremum is not None:
        told += (
            " The supremum is the end point of a generalised Pareto law fitted by probability-weighted moments to the "
            f"logarithms of the {counted(result.supremum.n_tail, 'largest constant')}, its interval from a parametric bootstrap."
        )
    return f"{told} Seed {result.provenance.seed}."
