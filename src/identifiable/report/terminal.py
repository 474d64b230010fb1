"""Words and tables for a terminal of fixed width."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

from identifiable.report.record import alerts_by_kind
from identifiable.report.wording import columns_wide, count, one_line, pad
from identifiable.results import Alert

WIDTH = 100  # columns of a terminal


def aligned(heads: Sequence[str], lines: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Columns two blanks apart: those of `left` flush left, numbers flush right."""
    widths = [max(columns_wide(line[i]) for line in (heads, *lines)) for i in range(len(heads))]
    return "\n".join(
        "  ".join(
            pad(cell, width, right=i not in left) for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (heads, *lines)
    )


def wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def alert_lines(alerts: Sequence[Alert]) -> list[str]:
    """One paragraph for each kind of alert."""
    return [
        wrapped(f"! {one_line(first.code)}: {one_line(first.message)}{_more(len(more))}", "  ")
        for first, *more in alerts_by_kind(alerts)
    ]


def _more(others: int) -> str:
    return f" ({count(others)} more of this kind in the report and the JSON)" if others else ""
