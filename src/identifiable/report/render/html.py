"""Page to HTML: one file that needs nothing else, or a fragment for a notebook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import groupby

import jinja2
from markupsafe import Markup, escape

from identifiable.report.page import LEFT_OUT, Badge, Gauge, Grid, Hint, Page, Picture, Spark
from identifiable.report.render.figures import curve_swatch, draw_curves, draw_dots, drawn_legend, mark_swatch
from identifiable.report.words import bound, clip, number, one_line


def html(page: Page, template: str = "page") -> str:
    """A whole file that loads nothing from elsewhere or, as a `fragment`, the same for a notebook cell."""
    return _environment().get_template(f"{template}.html").render(page=page)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("identifiable.report.render"),
        autoescape=True,  # names and ids come from users
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        left_out=LEFT_OUT,
        draw_dots=draw_dots,
        drawn_legend=drawn_legend,
        draw_curves=draw_curves,
        draw_grid=draw_grid,
        draw_picture=draw_picture,
        mark_swatch=mark_swatch,
        curve_swatch=curve_swatch,
    )
    environment.filters["kind"] = lambda block: type(block).__name__
    environment.filters["bound"] = bound
    return environment


# -- A plate as a heat map, as SVG text. Wells of one colour are one path, so that a plate of 1,536 stays a few kilobytes.

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
    shades = range(0 if grid.signed else STEPS, 2 * STEPS + 1)
    bar = "".join(f'<path class="w{k}" d="M{14 * i} 2h14v12h-14z"/>' for i, k in enumerate(shades))
    least, most = number(-grid.reach if grid.signed else 0, 2), number(grid.reach, 2)
    return Markup(
        '<ul class="legend"><li>{least}<svg class="figure swatch" width="{wide}" height="16" aria-hidden="true">'
        "<title>{unit}</title>{bar}</svg>{most} {unit}</li></ul>"
    ).format(least=least, most=most, wide=14 * len(shades), unit=grid.unit, bar=Markup(bar))


def _spaced(size: int, step: int) -> Sequence[int]:
    return range(0, size, max(1, step))


def _words(text: str, x: str, y: float, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y:g}">{escape(clip(one_line(text), NAME))}</text>'


# -- Small pictures inside the cells of a table, as SVG text. Their words are read aloud, or stand beside them.

WIDTH, HEIGHT = 84, 28  # pixels of a histogram
GAUSSIAN_PEAK = 1 / math.sqrt(2 * math.pi)
HIGHEST = 3 * GAUSSIAN_PEAK  # a spike above it runs off the picture rather than flatten the Gaussian
GAUSSIAN_POINTS = 32
SPAN = 4.0  # standard deviations shown each way; further out a histogram of this size has nothing to see
GAUGE = 40  # pixels of a full bar


def draw_picture(picture: Picture, words: str) -> Markup:
    """The picture with its words."""
    match picture:
        case Spark():
            return _histogram(picture, words)
        case Gauge(share=share, tone=tone):
            filled = round(GAUGE * min(1.0, max(0.0, share)), 1)
            bar = f'<path class="rail" d="M0 4H{GAUGE}"/><path class="bar {tone}" d="M0 4H{filled:g}"/>'
            return Markup(
                f'{escape(words)}<svg class="gauge" width="{GAUGE}" height="8" aria-hidden="true">{bar}</svg>'
            )
        case Badge(tone=tone):
            return Markup(f'<b class="badge {tone}">{escape(words)}</b>')
        case Hint(meaning=meaning):
            return Markup(f'<span title="{escape(meaning)}">{escape(words)}</span>')


def _histogram(spark: Spark, words: str) -> Markup:
    """Filled steps of the density, and the standard Gaussian as a line, on one scale."""
    low, high = max(spark.edges[0], -SPAN), min(spark.edges[-1], SPAN)
    if low >= high:
        low, high = spark.edges[0], spark.edges[-1]
    top = 1.05 * min(HIGHEST, max(GAUSSIAN_PEAK, *spark.heights))

    def across(value: float) -> str:
        return f"{WIDTH * (value - low) / (high - low):.1f}".removesuffix(".0")

    def up(density: float) -> str:
        return f"{HEIGHT * (1 - min(density / top, 1.0)):.1f}".removesuffix(".0")

    steps = "".join(f"V{up(h)}H{across(right)}" for h, right in zip(spark.heights, spark.edges[1:], strict=True))
    places = [low + (high - low) * k / GAUSSIAN_POINTS for k in range(GAUSSIAN_POINTS + 1)]
    line = "L".join(f"{across(x)} {up(GAUSSIAN_PEAK * math.exp(-x * x / 2))}" for x in places)
    return Markup(
        f'<svg class="spark" role="img" width="{WIDTH}" height="{HEIGHT}"><title>{escape(words)}</title>'
        f'<path class="fill" d="M{across(spark.edges[0])} {HEIGHT}{steps}V{HEIGHT}Z"/><path class="gauss" d="M{line}"/></svg>'
    )
