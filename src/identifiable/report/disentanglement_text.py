"""What the command line prints of a disentanglement."""

from __future__ import annotations

from collections.abc import Sequence

from identifiable.report.disentanglement_reading import (
    UNSETTLED,
    after_caveat,
    after_lines,
    chance_words,
    factor_lines,
    ica_words,
    infoe_words,
    leak_words,
    noise_lines,
    notes_below_scores,
    place_words,
    score_heads,
    score_lines,
    sentence,
    size_words,
    table_name,
)
from identifiable.report.frame import alert_lines, saved_form
from identifiable.report.render.terminal import aligned, wrapped
from identifiable.report.words import clip, count
from identifiable.results import Disentanglement

FACTORS_SHOWN = 20  # more would scroll the headline off the screen
LABEL = 42  # columns of a metric and its score
NAME = 24  # columns of a factor's or a latent's name


def disentanglement_table(result: Disentanglement) -> str:
    """Headline, all scores, the factors with their best latents, noise, before and after ICA, alerts."""
    saved = saved_form(result)
    parts = [wrapped(f"{table_name(saved)}   n {count(saved.n)}, {size_words(saved)}", "  "), wrapped(sentence(saved))]
    parts += [wrapped(text, "  ") for text in (chance_words(saved), leak_words(saved)) if text]
    if saved.metrics:
        parts += ["", _scores(score_heads(saved.metrics), score_lines(saved))]
        parts += [wrapped(words, "  ") for words in notes_below_scores(saved)]
    parts += ["", *_factors(saved)]
    if saved.sweep:
        parts += ["", aligned(*noise_lines(saved))]
    if saved.after:
        caveat = after_caveat(saved)
        parts += ["", *([wrapped(caveat, "  ")] if caveat else []), _before_and_after(saved)]
        for after in saved.after:
            parts.append(
                wrapped(f"{after.mode.capitalize()} ICA: {ica_words(after)} {infoe_words(saved, after)}", "  ")
            )
    return "\n".join([*parts, *alert_lines(saved.alerts)]) + "\n"


def _before_and_after(result: Disentanglement) -> str:
    """Scores before and after ICA; below the head of a mode, whether it did not converge: beside it there is no room."""
    heads = ("before", *(f"{after.mode} ICA" for after in result.after))
    marks = ("", "", ("", *("" if after.converged else UNSETTLED for after in result.after)))
    return _scores(heads, [*([marks] if any(marks[2]) else []), *after_lines(result)])


def _scores(heads: Sequence[str], lines: Sequence[tuple[str, str, tuple[str, ...]]]) -> str:
    """One line for each score, under the name of its metric if that has only one."""
    metrics = [metric for metric, _, _ in lines]
    rows = [
        (clip(metric if metrics.count(metric) == 1 else f"{metric}, {score}", LABEL), *figures)
        for metric, score, figures in lines
    ]
    return aligned(("score", *heads), rows)


def _factors(result: Disentanglement) -> list[str]:
    lines = factor_lines(result)
    heads = ("factor", "kind", "values", "best latent", "NMI", "next", "NMI")[: len(lines[0]) if lines else 3]
    shown = [tuple(clip(cell, NAME) for cell in line) for line in lines[:FACTORS_SHOWN]]
    more = len(lines) - len(shown)
    table = aligned(heads, shown, left=(0, 1, 3, 5))
    place = place_words(result) if len(heads) > 3 else ""
    return [
        table,
        *([wrapped(place, "  ")] if place else []),
        *([f"… and {count(more)} more: in the report and the JSON"] if more > 0 else []),
    ]
