"""The page of `reproduce table1`: errors of maps between models, in the paper's protocol and held out, ours and published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from identifiable.report.frame import framed, glossary, marks, section, terms
from identifiable.report.headlines import VERDICTS
from identifiable.report.page import Block, Card, DotRow, Dots, Page, Table, Text, Tone, columns
from identifiable.report.pages.paper import choice_tables
from identifiable.report.words import (
    MISSING,
    count,
    counted,
    estimate,
    known,
    listed,
    number,
    one_line,
    percent,
    percent_interval,
    sentence_of,
    signed,
)
from identifiable.results import Bounded, Table1
from identifiable.results.table1 import ORDER, ModelPairs

GUIDE = (
    "Each number is the mean error of a map from one model to the other, over the diameter of the target; smaller is closer. Compare "
    "the maps within a line, held out rather than in sample."
)
MAPS = {
    "signed_permutation": "permutation",
    "similarity": "similarity",
    "linear": "linear",
    "ica": "ICA",
}  # in the order of the published columns
KINDS = {
    "releases": "two releases, trained apart",
    "shared_pretraining": "shared pretraining",
    "seeds": "trained here from different seeds",
    "published": "the paper's models",
}
MODELS = ("what relates them", "rows", "dimensions", "ordered pairs", "intervals over")
STEPS = ("held out [95 %]", "held out", "in sample [95 %]", "in sample")
READING = (
    *("Permutation", "Similarity", "Linear", "ICA", "In sample", "Held out"),
    *("Shuffled", "Untrained", "Intervals", "Agrees"),
)
BADGES: dict[str, tuple[str, Tone]] = {
    "agrees": ("the published order", "good"),
    "does_not": ("another order", "caution"),
    "cannot_tell": ("cannot tell", "plain"),
}


def page(result: Table1) -> Page:
    words = glossary("table1")
    return framed(
        result,
        title="Table 1, run again",
        subtitle="Pairs of models: how close do a permutation, ICA, a similarity and a linear map bring them?",
        guide=GUIDE,
        verdict=_verdict(result),
        sections=[
            section("table", "The table", _table(result)),
            section("order", "The order of the maps", _order(result)),
            section("errors", "Errors with intervals and baselines", _errors(result)),
            section("choices", "Settings", choice_tables(result.choices)),
        ],
        reading=(Text(words[""]), terms("table1", *READING)),
        methods=(words["Measured"], *([words["GPT"]] if any(x.kind == "seeds" for x in result.lines) else [])),
        papers=("nelson",),
    )


def _verdict(result: Table1) -> Iterator[Block]:
    found = {line.found_held_out for line in result.lines} or {"cannot_tell"}
    badge, tone = BADGES[next(word for word in ("does_not", "cannot_tell", "agrees") if word in found)]
    facts = [
        (one_line(line.name), f"{VERDICTS[line.found_held_out]} held out, {VERDICTS[line.found]} in sample")
        for line in result.lines
    ]
    eyebrow = f"Table 1, run again: {counted(len(result.lines), 'line')}, scale {one_line(result.scale)}"
    yield Card(eyebrow, badge, sentence_of(result.headline), tone, tuple(facts), brief=True)
    yield Text(glossary("table1")["Sizes"], note=True, brief=True)


# -- the table


def _table(result: Table1) -> Iterator[Block]:
    yield Table(
        "Mean error over the diameter: ours, then published (in sample; its rigid map has a scale)",
        columns(
            "models", "protocol", *MAPS.values(), "efficiency", "order", words=("protocol", "order"), hidden=("order",)
        ),
        (*(row for line in result.lines for row in _lines(line)), *_published(result.published)),
        brief=True,
        brief_rows=60,
    )
    if missing := [one_line(line.name) for line in result.lines if not _has_untrained(line)]:
        yield Text(f"Untrained models are not at hand for {listed(missing)}.", note=True, brief=True)
    if result.lines and all(map(_ordered_by_chance, result.lines)):
        yield Text(glossary("table1")["Order by chance"], note=True, brief=True)
    yield Table(
        "The models",
        columns("models", *MODELS, words=("what relates them", "intervals over")),
        tuple(
            (
                one_line(line.name),
                KINDS[line.kind],
                *map(count, (line.n, line.width, line.pairs)),
                line.intervals_over,
            )
            for line in result.lines
        ),
        brief=True,
    )


def _ordered_by_chance(line: ModelPairs) -> bool:
    """Whether shuffled rows have the published order down to the similarity."""
    chance = [line.error(name).shuffled for name in ORDER[:-1]]
    return all(a > b for a, b in pairwise(chance))


def _has_untrained(line: ModelPairs) -> bool:
    return any(error.untrained is not None for error in line.errors)


def _lines(line: ModelPairs) -> Iterator[tuple[str, ...]]:
    """A model pair in both protocols, and its baselines, which are held out."""
    errors = [line.error(name) for name in MAPS]
    in_sample = (*(number(e.in_sample.value) for e in errors), _share(line.efficiency))
    held_out = (*(number(e.held_out.value) for e in errors), _share(line.efficiency_held_out))
    yield one_line(line.name), "in sample", *in_sample, VERDICTS[line.found]
    yield "", "held out", *held_out, VERDICTS[line.found_held_out]
    yield "", "shuffled", *(number(e.shuffled) for e in errors), "", ""
    if _has_untrained(line):
        before = [e.untrained_held_out for e in errors]
        yield "", "untrained", *(number(None if b is None else b.value) for b in before), "", ""
        yield "", "untrained, shuffled", *(number(e.untrained_shuffled) for e in errors), "", ""


def _share(found: Bounded | None) -> str:
    return MISSING if found is None else percent(found.value)


def _published(published: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The published table; `published` is free-form, so only what has the form of a line is one."""
    rows = published.get("rows")
    for name, row in (rows if isinstance(rows, dict) else {}).items():
        if isinstance(row, dict) and all(isinstance(row.get(key), float) for key in (*MAPS, "efficiency")):
            errors = [row[key] for key in ORDER]
            falls = "as stated" if errors == sorted(errors, reverse=True) else "another"
            title = row["title"] if isinstance(row.get("title"), str) else str(name)
            yield one_line(title), "published", *(number(row[key]) for key in MAPS), percent(row["efficiency"]), falls


# -- the order


def _order(result: Table1) -> Iterator[Block]:
    yield Table(
        "Error of the first map less that of the second: above 0 in every published line",
        columns("models", "step", *STEPS, words=("step", "held out", "in sample"), hidden=STEPS[2:]),
        tuple(row for line in result.lines for row in _steps(line)),
        brief=True,
        brief_rows=60,
    )
    same = [(line, error) for line in result.lines for error in line.errors if error.published is not None]
    if same:
        yield Table(
            "The paper's models: ours in sample, and published",
            columns("models", "map", "ours [95 %]", "published", "word", words=("map", "word")),
            tuple(
                (
                    one_line(line.name),
                    MAPS[error.map],
                    _bounds(error.in_sample),
                    number(error.published),
                    MISSING if error.agreement is None else VERDICTS[error.agreement],
                )
                for line, error in same
            ),
            brief=True,
            brief_rows=60,
        )


def _steps(line: ModelPairs) -> Iterator[tuple[str, ...]]:
    name = one_line(line.name)
    for step in line.order:
        held_out = (_bounds(step.held_out, signed), VERDICTS[step.found_held_out])
        in_sample = (_bounds(step.in_sample, signed), VERDICTS[step.found])
        yield name, f"{MAPS[step.larger]} - {MAPS[step.smaller]}", *held_out, *in_sample
        name = ""


def _bounds(found: Bounded | None, said: Any = number) -> str:
    return MISSING if found is None else estimate(found.value, found.ci95, said)


# -- intervals and baselines


def _errors(result: Table1) -> Iterator[Block]:
    for line in result.lines:
        yield Dots(
            f"{one_line(line.name)}: error of every map",
            "The held-out error beside that in sample, that of untrained models (held out) and that of rows paired at random.",
            "mean error over the diameter",
            tuple(_dots(line)),
            (
                ("main", "held out"),
                ("whisker", "95 % interval"),
                ("hollow", "in sample"),
                ("q95", "untrained"),
                ("shuffle", "paired at random"),
            ),
        )
    protocols = (
        ("In sample, the paper's protocol [95 %]", "in_sample", "efficiency", "untrained"),
        (
            "Held out [95 %]; efficiency of ICA on disjoint rows",
            "held_out",
            "efficiency_held_out",
            "untrained_held_out",
        ),
    )
    for caption, key, share, before in protocols:
        rows = []
        for line in result.lines:
            errors = [line.error(name) for name in MAPS]
            shared = _share_interval(getattr(line, share))
            rows.append((one_line(line.name), *(_bounds(getattr(error, key)) for error in errors), shared))
            if _has_untrained(line):
                rows.append(("untrained", *(_bounds(getattr(error, before)) for error in errors), ""))
        yield Table(caption, columns("models", *MAPS.values(), "efficiency"), tuple(rows))


def _share_interval(found: Bounded | None) -> str:
    if found is None or found.ci95 is None:
        return _share(found)
    return f"{percent(found.value)} {percent_interval(found.ci95)}"


def _dots(line: ModelPairs) -> Iterator[DotRow]:
    for name in ORDER:
        error = line.error(name)
        before = None if error.untrained_held_out is None else error.untrained_held_out.value
        bounds = error.held_out.ci95
        yield DotRow(
            MAPS[name],
            number(error.held_out.value),
            marks(
                ("main", error.held_out.value),
                ("hollow", error.in_sample.value),
                ("q95", before),
                ("shuffle", error.shuffled),
            ),
            interval=bounds if bounds is not None and all(map(known, bounds)) else None,
        )
