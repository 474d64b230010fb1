"""What the command line prints of an experiment run again."""

from __future__ import annotations

from identifiable.report.frame import alert_lines, saved_form
from identifiable.report.render.terminal import aligned, wrapped
from identifiable.report.reproduction import (
    DIGIT_HEADS,
    MEASURE,
    WHAT,
    constant_cells,
    digit_lines,
    fit_lines,
    leak_lines,
    leak_words,
    published_lines,
    scale_words,
    sentence,
)
from identifiable.report.words import count, interval, number
from identifiable.results import Leak, Reproduction


def reproduction_table(result: Reproduction) -> str:
    """Headline, ours beside the published figures, leak by leak, digits, fits, alerts."""
    saved = saved_form(result)
    parts = [wrapped(f"{WHAT[saved.experiment][0]}, run again   {scale_words(saved)}", "  "), wrapped(sentence(saved))]
    told = leak_words(saved)
    parts += [wrapped(told, "  ")] if told else []
    parts += ["", aligned(("", "ours", "published", "ours, random dir."), published_lines(saved)), ""]
    heads = ("leak", "bound", "1 + L median", "random dir.", "reconstr.", "distance [95 %]", "/ diam.", "kept")
    parts += [aligned(heads, leak_lines(saved, _leak_cells)), ""]
    digits = digit_lines(saved)
    parts += [aligned(DIGIT_HEADS, digits), ""] if digits else []
    fits = ("fit", "1 + L", "distance", "slope", "R²", "Spearman [95 %]", "leak fixed", "pairs")
    parts.append(aligned(fits, fit_lines(saved), (0, 1, 2)))
    parts.append(
        wrapped(
            f"distance = slope · {MEASURE}; the slope is fitted and is not the constant of Theorem 1, a worst case.",
            "  ",
        )
    )
    return "\n".join([*parts, *alert_lines(saved.alerts)]) + "\n"


def _leak_cells(leak: Leak) -> tuple[str, ...]:
    bound, median, _, _, drawn, *_ = constant_cells(leak)
    return (
        bound,
        median,
        drawn,
        number(leak.reconstruction, 4),
        f"{number(leak.distance)} {interval(leak.distance_ci95)}",
        number(leak.relative),
        f"{count(leak.kept)}/{count(leak.pairs)}",
    )
