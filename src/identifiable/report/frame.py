"""What every page has, whatever the result: its frame, its alerts, its data files, how to get its numbers again."""

from __future__ import annotations

import json
import re
import shlex
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import chain, pairwise
from typing import Any, TypeVar

from identifiable.report.page import (
    ANSWER,
    Block,
    Card,
    Code,
    Column,
    Fold,
    Heading,
    Mark,
    MarkKind,
    Notice,
    Page,
    Section,
    Table,
    Terms,
    Text,
)
from identifiable.report.words import MISSING, clip, count, counted, known, one_line, setting
from identifiable.results import Alert, Shown
from identifiable.results.serial import plain

T = TypeVar("T")
OPEN = 3  # kinds of alert that are read before the first figure
DETAILS = {  # how a table was read, and what the verdict already takes into account
    *("reading", "control_name_shared", "plate_joined", "target_missing", "doses_pooled", "plates_of_one_class"),
    *("targets_left_out", "folds_left_out", "information_from_some", "draws_agree", "no_splits"),
}


def shell_words(command: str) -> list[str]:
    """The words of a recorded command; none if it is not one of the shell."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def written_by(command: str) -> str | None:
    """The file that a recorded command writes with -o, quoted for the shell; None if it writes none."""
    words = shell_words(command)
    joined = (word.removeprefix("--output=") for word in words if word.startswith("--output="))
    apart = (after for word, after in pairwise(words) if word in ("-o", "--output"))
    found = next(chain(joined, apart), None)
    return None if found is None else shlex.quote(found)


def framed(
    result: Shown,
    *,
    title: str,
    subtitle: str,
    guide: str,
    verdict: Iterable[Block],
    sections: Iterable[Section],
    reading: Iterable[Block],
    methods: Iterable[str],
    papers: Iterable[str],
) -> Page:
    """The page of a result: verdict, alerts, its own sections, how to read it, how to get it again. Empty sections go.

    That there are no alerts is said only where no card of the verdict warns.
    """
    answer = tuple(verdict)
    well = not any(isinstance(block, Card) and block.tone == "caution" for block in answer)
    return page_with(
        result,
        [
            Section(ANSWER, "Verdict", answer),
            alerts_section(result, well=well, told={b.code for b in answer if isinstance(b, Notice)}),
            *sections,
            Section("reading", "How to read this page", tuple(reading)),
            reproduction(result, methods, entries(papers)),
        ],
        title=title,
        subtitle=subtitle,
        guide=guide,
    )


# -- data files


@cache
def glossary(kind: str) -> Mapping[str, str]:
    """The texts of `glossary/<kind>.md` by their headings; what stands before the first heading has the name ''."""
    text = files("identifiable.report").joinpath("glossary", f"{kind}.md").read_text(encoding="utf-8")
    opening, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    named = [("", opening), *(part.split("\n", 1) for part in parts)]
    return {name: " ".join(words.split()) for name, words in named}


def terms(kind: str, *names: str) -> Terms:
    """These words of a glossary and what they mean."""
    return Terms(tuple((name, glossary(kind)[name]) for name in names))


def entries(papers: Iterable[str]) -> str:
    """BibTeX of these papers of `papers.bib`: each by its first author, with the year where an author has several."""
    found = _papers()
    return "\n\n".join(found[name] for name in papers)


@cache
def _papers() -> Mapping[str, str]:
    text = files("identifiable.report").joinpath("papers.bib").read_text(encoding="utf-8")
    found = re.findall(r"^(@\w+\{([a-z]+)(\d+).*?^\})", text, flags=re.MULTILINE | re.DOTALL)
    return {name: entry for entry, author, year in found for name in (author, author + year)}


# -- the saved form


def saved_form(result: T) -> T:
    """`result` with its free-form parts as JSON keeps them, so that a page drawn now equals a page drawn from the file.

    The numbers need no such trip: they are shown alike either way (JSON writes non-finite ones as null, and all of those
    are shown as missing), and a million of them would take seconds.
    """
    saved: T = _saved(result, type(result))
    return saved


def _saved(value: Any, kind: Any) -> Any:
    if value is None or not _free(kind):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{name: _saved(getattr(value, name), hint) for name, hint in _saved_fields(type(value))})
    if any(map(is_dataclass, (inner := typing.get_args(kind)))):
        of = next(filter(is_dataclass, inner))
        if isinstance(value, Mapping):
            return {name: _saved(part, of) for name, part in value.items()}
        return tuple(_saved(part, of) for part in value) if isinstance(value, tuple) else _saved(value, of)
    return json.loads(json.dumps(plain(value), allow_nan=False))


@cache
def _saved_fields(kind: type) -> list[tuple[str, Any]]:
    """The fields that the saved form holds, with their annotations."""
    hints = typing.get_type_hints(kind)
    return [(f.name, hints[f.name]) for f in fields(kind) if f.init and f.metadata.get("json", "") is not None]


@cache
def _free(kind: Any) -> bool:
    """Whether an annotation leaves a part of its value free-form."""
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return any(_free(hints[f.name]) for f in fields(kind) if f.metadata.get("json", "") is not None)
    return kind is Any or any(map(_free, typing.get_args(kind)))


def byline(result: Shown) -> str:
    """Version, seed and time of the run."""
    made = f"identifiable {one_line(result.provenance.version)}, seed {result.provenance.seed}"
    return f"{made}, {one_line(result.provenance.time)}" if result.provenance.time else made


def page_with(result: Shown, sections: Iterable[Section], *, title: str, subtitle: str, guide: str) -> Page:
    """The page of a result, without the sections that have nothing to say."""
    return Page(title, subtitle, guide, byline(result), tuple(s for s in sections if s.blocks))


def alerts_by_kind(alerts: Sequence[Alert]) -> list[list[Alert]]:
    """Alerts of one code together, in the order in which the codes first appear."""
    kinds: dict[str, list[Alert]] = {}
    for alert in alerts:
        kinds.setdefault(alert.code, []).append(alert)
    return list(kinds.values())


def notices(alerts: Sequence[Alert], *, brief: bool = False) -> list[Block]:
    """One notice for each kind of alert."""
    return [
        Notice(one_line(first.code), one_line(first.message), tuple(one_line(a.message) for a in more), brief=brief)
        for first, *more in alerts_by_kind(alerts)
    ]


def alerts_section(result: Shown, *, well: bool = True, told: Collection[str] = ()) -> Section:
    """The alerts that are not `told` yet: the first few open, the others folded. That there are none is said if all is `well`."""
    left = [alert for alert in result.alerts if alert.code not in told]
    none: list[Block] = [Text("No alerts: the run found nothing to warn about.")] if well and not result.alerts else []
    found = notices(sorted(left, key=lambda alert: alert.code in DETAILS), brief=True)
    shown, rest = found[:OPEN], found[OPEN:]
    folded = [Fold(f"{counted(len(rest), 'more kind')} of alert", tuple(rest))] if rest else []
    return Section("alerts", "Alerts", (*(shown or none), *folded))


def reproduction(result: Shown, methods: Iterable[str], bibtex: str) -> Section:
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
            Code("Command", one_line(provenance.command) or f"{MISSING} (not recorded)"),
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


# -- pieces


def marks(*candidates: tuple[MarkKind, float | None]) -> tuple[Mark, ...]:
    """Marks of a dot plot, without those that have no value."""
    return tuple(Mark(kind, value) for kind, value in candidates if value is not None and known(value))


def section(key: str, title: str, blocks: Iterable[Block]) -> Section:
    """A part of the page; one without blocks is left out."""
    return Section(key, title, tuple(blocks))


def thinned(size: int, wanted: int) -> list[int]:
    """About `wanted` of the places 0 to `size` - 1 with both ends: a quarter of them the first ones, then evenly."""
    last = size - 1
    head = min(last, wanted // 4)
    tail = wanted - head
    return sorted({*range(head + 1), *(round(head + (last - head) * k / tail) for k in range(tail + 1))})


def matrix(
    caption: str,
    corner: str,
    names: Sequence[str],
    order: Sequence[int],
    cells: Callable[[int, int], str],
    shades: Callable[[int, int], int | None],
    *,
    brief: bool = False,
) -> Table:
    """A square table with numbered columns, in the given order of models."""
    return Table(
        caption,
        (Column(corner, "text"), *(Column(str(i + 1)) for i in range(len(order)))),
        tuple((f"{r + 1} {clip(names[i], 28)}", *(cells(i, j) for j in order)) for r, i in enumerate(order)),
        shades=tuple(tuple(shades(i, j) for j in order) for i in order),
        brief=brief,
    )


def shade(value: float, top: float) -> int:
    """The colour (0 to 6) of `value` on a scale from 0 to `top`."""
    return min(6, int(7 * value / top)) if top > 0 else 0
