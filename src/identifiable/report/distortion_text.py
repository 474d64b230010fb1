"""What the command line prints of a decoder's distortion."""

from __future__ import annotations

from identifiable.report.distortion import (
    QUANTILES,
    bound_line,
    estimator_words,
    quantile_lines,
    sentence,
    supremum_words,
)
from identifiable.report.distortion_methods import LOOSE
from identifiable.report.frame import alert_lines, saved_form
from identifiable.report.render.terminal import aligned, wrapped
from identifiable.report.words import clip, count, number, one_line
from identifiable.results import Distortion

STATEMENT = 50  # columns of a bound's name


def distortion_table(result: Distortion) -> str:
    """Headline, quantiles over the points, what they leave open, bounds, alerts."""
    saved = saved_form(result)
    shape = f"n {count(saved.n)}, latents {count(saved.latents)}, outputs {count(saved.outputs)}, {saved.method}"
    parts = [
        wrapped(f"{one_line(saved.decoder)}   {shape}", "  "),
        wrapped(f"{sentence(saved)} Best scale {number(saved.best_scale)}."),
        "",
    ]
    lines = quantile_lines(saved)
    if lines:
        parts += [aligned(("over points", *QUANTILES), lines), ""]
        parts += [wrapped(text, "  ") for text in (estimator_words(saved), supremum_words(saved.supremum)) if text]
    if saved.bounds:
        rows = [(clip(name, STATEMENT), *rest) for name, *rest in map(bound_line, saved.bounds)]
        parts += ["", aligned(("bound, at worst", "1 + L", "bound", "/ diameter", "standing"), rows, (0, 4))]
        parts.append(wrapped(LOOSE, "  "))
    return "\n".join([*parts, *alert_lines(saved.alerts)]) + "\n"
