"""What every page has, whatever the result: who made it, what to know before trusting it, how to get it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from identifiable.report.page import Block, Code, Column, Heading, Notice, Page, Section, Table, Text
from identifiable.report.wording import MISSING, count, one_line, setting
from identifiable.results import (
    Alert,
    Attribution,
    Audit,
    Cleaning,
    Comparison,
    Disentanglement,
    Distortion,
    JointResolution,
    Metric,
    Reproduction,
    Resolution,
    ScreenEvaluation,
    Table2,
    Table3,
    to_json,
)

Screened = Audit | ScreenEvaluation | Attribution | Cleaning
Drawn = (
    Comparison | Resolution | JointResolution | Distortion | Reproduction | Disentanglement | Table2 | Table3 | Screened
)
R = TypeVar(
    "R",
    Comparison,
    Resolution,
    JointResolution,
    Distortion,
    Reproduction,
    Disentanglement,
    Table2,
    Table3,
    Audit,
    ScreenEvaluation,
    Attribution,
    Cleaning,
)


def saved_form(result: R) -> R:
    """`result` with its settings as JSON keeps them, so that a page drawn now equals a page drawn from the file.

    Only the free-form part makes the trip: the numbers are shown alike either way (JSON writes non-finite ones as
    null, and all of those are shown as missing), and a million of them would take seconds.
    """
    if isinstance(result, JointResolution):
        result = replace(result, models=tuple(map(saved_form, result.models)))
    if isinstance(result, Table3):
        strict = None if result.stricter is None else saved_form(result.stricter)
        result = replace(result, evaluation=saved_form(result.evaluation), stricter=strict)
    if isinstance(result, (Reproduction, Table2, Table3)):
        choices = tuple(replace(c, **_saved({"value": c.value, "paper": c.paper})) for c in result.choices)
        result = replace(result, choices=choices, published=_saved(result.published))
    if isinstance(result, Disentanglement):
        after = tuple(replace(a, metrics=_saved_metrics(a.metrics)) for a in result.after)
        result = replace(result, metrics=_saved_metrics(result.metrics), after=after)
    if isinstance(result, Cleaning):
        result = replace(result, attribution=saved_form(result.attribution))
    return replace(result, settings=_saved(result.settings))


def _saved(settings: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(to_json(settings))
    return kept


def _saved_metrics(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    return {name: replace(m, settings=_saved(m.settings), details=_saved(m.details)) for name, m in metrics.items()}


def byline(result: Drawn) -> str:
    """Version, seed and time of the run."""
    made = f"identifiable {one_line(result.provenance.version)}, seed {result.provenance.seed}"
    return f"{made}, {one_line(result.provenance.time)}" if result.provenance.time else made


def page_with(result: Drawn, sections: Iterable[Section], *, title: str, subtitle: str, guide: str) -> Page:
    """The page of a result, without the sections that have nothing to say."""
    return Page(title, subtitle, guide, byline(result), tuple(s for s in sections if s.blocks))


def alerts_by_kind(alerts: Sequence[Alert]) -> list[list[Alert]]:
    """Alerts of one code together, in the order in which the codes first appear."""
    kinds: dict[str, list[Alert]] = {}
    for alert in alerts:
        kinds.setdefault(alert.code, []).append(alert)
    return list(kinds.values())


def notices(alerts: Sequence[Alert]) -> list[Block]:
    """One notice for each kind of alert."""
    return [
        Notice(one_line(first.code), one_line(first.message), tuple(one_line(a.message) for a in more))
        for first, *more in alerts_by_kind(alerts)
    ]


def alerts_section(result: Drawn, *, well: bool = True) -> Section:
    """The alerts. That there are none is good news, and said only if all is `well`."""
    none: list[Block] = [Text("No alerts: the run found nothing to warn about.")] if well else []
    blocks = notices(result.alerts) or none
    return Section("alerts", "Alerts", tuple(blocks))


def reproduction(result: Drawn, methods: Iterable[str], bibtex: str) -> Section:
    """What it takes to get these numbers again, the methods in words and whom to cite."""
    provenance = result.provenance
    facts = [
        ("identifiable", provenance.version),
        *((one_line(k), v) for k, v in provenance.libraries.items()),
        ("seed", str(provenance.seed)),
        ("time", provenance.time or f"{MISSING} (not recorded)"),
    ]
    return Section(
        "reproduction",
        "Reproduction",
        (
            Table(
                "Inputs",
                (Column("name", "text"), Column("n"), Column("d"), Column("dtype", "text"), Column("sha256", "code")),
                tuple(
                    (one_line(i.name), count(i.n), count(i.d), one_line(i.dtype), one_line(i.sha256))
                    for i in result.inputs
                ),
            ),
            Code("Command", provenance.command or f"{MISSING} (not recorded)"),
            Table(
                "Versions and seed",
                (Column("what", "text"), Column("value", "code")),
                tuple((name, one_line(value)) for name, value in facts),
            ),
            Table(
                "Settings",
                (Column("setting", "text"), Column("value", "code")),
                tuple((one_line(k), setting(v)) for k, v in sorted(result.settings.items())),
            ),
            Heading("Methods"),
            *(Text(paragraph) for paragraph in methods),
            Code("BibTeX", bibtex),
        ),
    )
