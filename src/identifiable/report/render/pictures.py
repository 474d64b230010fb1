"""Small pictures inside the cells of a table, as SVG text. Their words are read aloud, or stand beside them."""

from __future__ import annotations

import math

from markupsafe import Markup, escape

from identifiable.report.page import Badge, Gauge, Hint, Picture, Spark

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
