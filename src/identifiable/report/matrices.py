"""Square tables of models against models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from identifiable.report.page import Column, Table
from identifiable.report.wording import clip

Cells = Callable[[int, int], str]
Shades = Callable[[int, int], int | None]


def matrix(
    caption: str, corner: str, names: Sequence[str], order: Sequence[int], cells: Cells, shades: Shades
) -> Table:
    """A square table with numbered columns, in the given order of models."""
    return Table(
        caption,
        (Column(corner, "text"), *(Column(str(i + 1)) for i in range(len(order)))),
        tuple((f"{r + 1} {clip(names[i], 28)}", *(cells(i, j) for j in order)) for r, i in enumerate(order)),
        shades=tuple(tuple(shades(i, j) for j in order) for i in order),
    )


def shade(value: float, top: float) -> int:
    """The colour (0 to 6) of `value` on a scale from 0 to `top`."""
    return min(6, int(7 * value / top)) if top > 0 else 0
