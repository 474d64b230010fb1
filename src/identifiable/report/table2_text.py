"""What the command line prints of Table 2, run again."""

from __future__ import annotations

from collections.abc import Sequence

from identifiable.report.frame import alert_lines, saved_form
from identifiable.report.render.terminal import WIDTH, aligned, wrapped
from identifiable.report.table2_methods import row_name
from identifiable.report.table2_reading import (
    LIFT_HEADS,
    SCORE_HEADS,
    Latents,
    cell_line,
    cells_of,
    data_name,
    infoe_words,
    lift_lines,
    otherness,
    published_lines,
    published_table,
    ranking_words,
    scale_words,
    sentence,
    shown_data,
    triple,
)
from identifiable.report.words import clip, columns_wide
from identifiable.results import Table2

NAME = 30  # columns for a name
INFOE_AT = 6  # where a line of lifts has the change of InfoE


def table2_table(result: Table2) -> str:
    """Headline, ours, the published table, what ICA does, alerts."""
    saved = saved_form(result)
    parts = [wrapped(f"Table 2, run again   {scale_words(saved)}", "  "), wrapped(sentence(saved))]
    told = ranking_words(saved)
    parts += [wrapped(told, "  ")] if told else []
    parts += ["", *_ours(saved, "continuous"), *_ours(saved, "discrete"), *_published(saved)]
    wide = [("data", "ICA", *LIFT_HEADS), *lift_lines(saved)]
    heads, *lifts = (line[:INFOE_AT] + line[INFOE_AT + 1 :] for line in wide)  # in words below: a terminal has no room
    if lifts:
        parts += [_fitted(heads, lifts, (0, 1)), wrapped(infoe_words(saved), "  "), ""]
    return "\n".join([*parts, *alert_lines(saved.alerts)]).rstrip("\n") + "\n"


def _ours(result: Table2, latents: Latents) -> list[str]:
    """The first data (all, where there are several) with intervals, then every data set as the paper prints it."""
    data = [name for name in shown_data(result) if cells_of(result, name, latents)]
    if not data:
        return []
    not_comparable = " (not comparable with continuous ones)" if latents == "discrete" else ""
    heads = (f"{latents} latents", *SCORE_HEADS[:-1])  # seeds are in the headline; intervals need the room
    lines = [cell_line(cell)[:-1] for cell in cells_of(result, data[0], latents)]
    parts = [f"Ours, {data_name(data[0])}{not_comparable}", _fitted(heads, lines), ""]
    if len(data) > 1:
        others = data[1:]
        rows = list(dict.fromkeys(cell.row for name in others for cell in cells_of(result, name, latents)))
        table = [(row_name(row), *(_cell(result, row, name, latents) for name in others)) for row in rows]
        parts += [*_triples(f"{latents} latents", others, table), ""]
    return parts


def _cell(result: Table2, row: str, data: str, latents: Latents) -> str:
    found = next((cell for cell in cells_of(result, data, latents) if cell.row == row), None)
    return triple(None if found is None else (found.infom.mean, found.infoe.mean, found.infoc.mean))


def _published(result: Table2) -> list[str]:
    published = published_table(result)
    lines = published_lines(published)
    if not lines:
        return []
    return [*_triples("published", published.columns, lines), wrapped(otherness(result), "  "), ""]


def _triples(what: str, data: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """InfoM InfoE InfoC of every data set, in as many pieces as it takes to stay within the terminal."""
    names = [clip(line[0], NAME) for line in lines]
    room = WIDTH - max(map(columns_wide, (what, *names)))
    width = 2 + max(
        columns_wide(cell) for line in (tuple(map(_short, data)), *(line[1:] for line in lines)) for cell in line
    )
    at_once = max(1, room // width)
    pieces = [range(start, min(start + at_once, len(data))) for start in range(0, len(data), at_once)]
    tables = [
        aligned(
            (what, *(_short(data[i]) for i in piece)),
            [(name, *(line[i + 1] for i in piece)) for name, line in zip(names, lines, strict=True)],
        )
        for piece in pieces
    ]
    return ["InfoM InfoE InfoC", *tables]


def _short(data: str) -> str:
    return clip(data_name(data), 14)


def _fitted(heads: Sequence[str], lines: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    return aligned(heads, [[clip(cell, NAME) for cell in line] for line in lines], left)
