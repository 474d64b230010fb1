"""A plate as a heat map, as SVG text. Wells of one colour are one path, so that a plate of 1,536 stays a few kilobytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup, escape

from identifiable.report.page import Grid
from identifiable.report.words import clip, number, one_line

STEPS = 4  # shades on either side of 0
LEFT = 7  # per cent kept free for the letters of rows
TOP = 18  # pixels kept free for the numbers of columns
TALLEST = 300  # pixels of a plate of many rows; a well is at most WELL high
WELL = 26
LETTERS = 13  # pixels that a row letter needs
COLUMNS_NAMED = 12  # more numbers would run together on a phone
NAME = 4  # characters of a row or a column


def draw_grid(grid: Grid) -> Markup:
    """Wells on their plate: letters down, numbers across, deep blue far below 0 and deep orange far above."""
    high = min(WELL, TALLEST / max(1, len(grid.rows)))
    bottom = round(TOP + high * len(grid.rows))
    width = 100 - LEFT
    parts = []
    for j in _spaced(len(grid.columns), math.ceil(len(grid.columns) / COLUMNS_NAMED)):
        x = LEFT + width * (j + 0.5) / len(grid.columns)
        parts.append(_words(grid.columns[j], f"{x:.1f}%", TOP - 5, "tick middle"))
    for i in _spaced(len(grid.rows), math.ceil(LETTERS / high)):
        parts.append(_words(grid.rows[i], f"{LEFT - 1.5}%", TOP + high * (i + 0.5) + 4, "tick end"))
    box = f"0 0 {len(grid.columns)} {len(grid.rows)}"
    parts.append(
        f'<svg x="{LEFT}%" y="{TOP}" width="{width}%" height="{bottom - TOP}" viewBox="{box}" '
        f'preserveAspectRatio="none" shape-rendering="crispEdges">{_wells(grid)}</svg>'
    )
    head = f'<svg class="figure" role="img" width="100%" height="{bottom + 2}"><title>{escape(grid.title)}</title>'
    told = f"<desc>{escape(grid.description)}</desc>"
    return _key(grid) + Markup(f"{head}{told}{''.join(parts)}</svg>")


def _wells(grid: Grid) -> str:
    """The wells, one path for each shade; neighbours in a row that share one are drawn as one stretch."""
    paths: dict[int, list[str]] = {}
    for y, row in enumerate(grid.values):
        x = 0
        for shade, run in groupby(row, key=lambda value: _shade(value, grid.reach)):
            long = len(list(run))
            if shade is not None:
                paths.setdefault(shade, []).append(f"M{x} {y}h{long}v1h-{long}z")
            x += long
    return "".join(f'<path class="w{shade}" d="{"".join(runs)}"/>' for shade, runs in sorted(paths.items()))


def _shade(value: float, reach: float) -> int | None:
    """0 (far below) over 4 (about 0) to 8 (far above); None where there is nothing to show."""
    if not math.isfinite(value):
        return None
    share = max(-1.0, min(1.0, value / reach)) if reach > 0 else 0.0
    return STEPS + round(STEPS * share)


def _key(grid: Grid) -> Markup:
    """The shades from the lowest to the highest, between what they stand for."""
    bar = "".join(f'<path class="w{k}" d="M{14 * k} 2h14v12h-14z"/>' for k in range(2 * STEPS + 1))
    return Markup(
        '<ul class="legend"><li>-{reach}<svg class="figure swatch" width="{wide}" height="16" aria-hidden="true">'
        "<title>{unit}</title>{bar}</svg>{reach} {unit}</li></ul>"
    ).format(reach=number(grid.reach, 2), wide=14 * (2 * STEPS + 1), unit=grid.unit, bar=Markup(bar))


def _spaced(size: int, step: int) -> Sequence[int]:
    return range(0, size, max(1, step))


def _words(text: str, x: str, y: float, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y:g}">{escape(clip(one_line(text), NAME))}</text>'
