"""Figures as SVG text. Widths are in per cent, so a figure fits a phone without shrinking its letters.

Curves stretch inside a nested view box; their strokes do not. Colours are classes, so light, dark and print
are the style sheet's business. No ids: several pages may share one notebook.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from markupsafe import Markup, escape

from identifiable.report.page import Curve, Curves, DotRow, Dots, LegendKind, MarkKind
from identifiable.report.words import clip, columns_wide, short
from identifiable.results import Interval

ROW = 44  # pixels of height for one line of a dot plot
LABEL_CHARACTERS = 20  # more would leave no room for the plot on a phone; tables have names whole
READINGS = 72  # pixels kept for the numbers at the right of a dot plot
LEFT = 11.0  # per cent kept free for the labels of a vertical axis
PLOT_TOP, PLOT_HEIGHT = 26, 240
MANY_POINTS = 300  # from which on points of a cloud are drawn finer
MARGIN = 0.03  # of an axis, so that points at its end are seen whole

# Marks are strokes of (almost) no length, drawn as their caps: a view box stretched to the width of the screen
# would turn circles into ellipses, but strokes keep their shape. All marks of a kind are one path.
DOT = "h.01"
STROKES: dict[MarkKind, str] = {
    "main": DOT, "hollow": DOT, "q95": "m0-7v14", "max": "m0-4v8", "shuffle": DOT, "rotation": DOT,
}  # fmt: skip
RINGS: tuple[MarkKind, ...] = ("hollow", "rotation")
SOLID = 1  # the one style of curve without dashes
CURVE_STYLES, DOTS_ON_A_CURVE = 8, 6
FEW_POINTS = 30  # of a curve: its dots are then its points, which a reader takes them for
LOWER_LINE: tuple[MarkKind, ...] = ("hollow", "shuffle", "rotation")
DROP = 12  # pixels from the line of a dot plot to its lesser marks


def draw_dots(figure: Dots) -> Markup:
    """A dot plot in three columns: labels, marks (the lesser ones just below the line), readings."""
    low, upper, ticks = _dot_axis(figure)

    def across(value: float) -> float:
        return 1.5 + 97 * (max(low, value) - low) / (upper - low)

    top = 26 if figure.threshold else 8
    bottom = top + ROW * len(figure.rows)
    lines = [top + ROW * i + 18 for i in range(len(figure.rows))]
    parts = [_stretched(figure, lines, across, upper, (top, bottom, ticks))]
    parts += [_words(short(tick), across(tick), bottom + 15, "tick", _anchor(across(tick))) for tick in ticks]
    if figure.threshold is not None:
        label, value = figure.threshold
        x = across(value)
        parts.append(_words(label, x, 13, "limit-label", "start" if x < 35 else "end" if x > 65 else "middle"))
    labels, readings = [], []
    for row, y in zip(figure.rows, lines, strict=True):
        strong = " strong" if row.strong else ""
        labels.append(_words(clip(row.label, LABEL_CHARACTERS), 0, y + 4, f"label{strong}", "start"))
        readings.append(_words(row.reading, 100, y + (0 if row.second else 4), f"reading{strong}", "end"))
        readings += [_words(row.second, 100, y + 16, f"tick{strong}", "end")] if row.second else []
        if any(mark.value > upper for mark in row.marks):
            parts.append(_words("▸", 100, y + 5, "beyond", "end"))
    height = bottom + 24
    widest = max((columns_wide(clip(row.label, LABEL_CHARACTERS)) for row in figure.rows), default=0)
    axis = Markup('<p class="axis">{}</p>').format(figure.axis) if figure.axis else Markup("")
    plot = _svg(figure.title, figure.description, height, parts)
    return (
        Markup('<div class="forest">')
        + _side(round(7.4 * widest) + 16, height, labels)
        + plot
        + _side(READINGS, height, readings)
        + Markup("</div>")
        + axis
    )


def _side(width: int, height: int, words: Sequence[str]) -> Markup:
    """A column of words beside a plot: as wide as the words need, whatever the screen."""
    return Markup(f'<svg class="beside" width="{width}" height="{height}" aria-hidden="true">{"".join(words)}</svg>')


def drawn_legend(figure: Dots) -> list[tuple[LegendKind, str]]:
    """The legend of a dot plot without the marks that it does not show."""
    drawn = _drawn(figure)
    return [(kind, words) for kind, words in figure.legend if kind in drawn]


def _drawn(figure: Dots) -> set[LegendKind]:
    _, upper, _ = _dot_axis(figure)
    drawn: set[LegendKind] = set() if figure.threshold is None else {"limit"}
    drawn |= {"whisker" for row in figure.rows if _bounds(row)}
    return drawn | {m.kind if m.value <= upper else "beyond" for row in figure.rows for m in row.marks}


def _stretched(
    figure: Dots,
    lines: Sequence[int],
    across: Callable[[float], float],
    upper: float,
    frame: tuple[int, int, Sequence[float]],
) -> str:
    """Everything of a dot plot but its words, in a box as wide as the screen: one unit is one per cent."""
    top, bottom, ticks = frame
    paths = [("grid", "".join(f"M{_round(across(t))} {top}V{bottom}" for t in ticks))]
    paths.append(("track", "".join(f"M1.5 {y}H98.5" for y in lines)))
    if figure.threshold is not None:
        paths.append(("limit", f"M{_round(across(figure.threshold[1]))} 18V{bottom}"))
    placed = list(zip(figure.rows, lines, strict=True))
    bounds = [(bound, y + drop) for row, y in placed for bound, drop in _bounds(row)]
    paths.append(("whisker", "".join(f"M{_round(across(i[0]))} {y}H{_round(across(i[1]))}" for i, y in bounds)))
    marks: list[str] = []
    for kind in reversed(STROKES):  # the headline is drawn last, on top
        drop = DROP if kind in LOWER_LINE else 0
        found = [(m.value, y + drop) for row, y in placed for m in row.marks if m.kind == kind and m.value <= upper]
        marks += _points(kind, "".join(f"M{_round(across(value))} {y}{STROKES[kind]}" for value, y in found))
    body = "".join(f'<path class="{name}" d="{path}"/>' for name, path in paths if path) + "".join(marks)
    return f'<svg width="100%" height="{bottom}" viewBox="0 0 100 {bottom}" preserveAspectRatio="none">{body}</svg>'


def _bounds(row: DotRow) -> list[tuple[Interval, int]]:
    """The intervals of a line that can be drawn, and how far below it each lies."""
    both = ((row.interval, 0), (row.lower, DROP))
    return [(bound, drop) for bound, drop in both if bound is not None and all(map(math.isfinite, bound))]


def draw_curves(figure: Curves) -> Markup:
    """Lines and points over common axes."""
    points = [p for curve in figure.curves for p in (*curve.points, *_ends(curve))]
    points += [p for cloud in figure.clouds for p in cloud.points]
    low_x, high_x, across_ticks = _across_axis([x for x, _ in points], figure)
    low_y, high_y, ticks = _log_axis([y for _, y in points]) if figure.log else _linear_axis(points, figure)
    low_y -= MARGIN * (high_y - low_y) if figure.log and figure.clouds else 0

    def across(value: float) -> float:
        level = math.log10(value) if figure.log_across else value
        return (level - low_x) / (high_x - low_x) if high_x > low_x else 0.5

    def up(value: float) -> float:
        level = math.log10(value) if figure.log else value
        return (level - low_y) / (high_y - low_y)

    def height(value: float) -> float:
        return round(PLOT_TOP + PLOT_HEIGHT * (1 - up(value)), 1)

    def place(value: float) -> float:
        return _round(LEFT + (99.5 - LEFT) * across(value))

    parts = [_words(figure.up, 0, 12, "axis", "start")]
    for tick in ticks:
        y = height(tick)
        parts.append(f'<line class="grid" x1="{LEFT:g}%" x2="100%" y1="{y}" y2="{y}"/>')
        parts.append(_words(_power(tick) if figure.log else short(tick), LEFT - 1, y + 4, "tick", "end"))
    for tick in across_ticks:
        x = place(tick)
        said = _power(tick) if figure.log_across else short(tick)
        parts.append(_words(said, x, PLOT_TOP + PLOT_HEIGHT + 17, "tick", "end" if x > 95 else "middle"))
    parts.append(_words(figure.across, 100, PLOT_TOP + PLOT_HEIGHT + 36, "axis", "end"))
    parts.append(
        f'<svg x="{LEFT:g}%" y="{PLOT_TOP}" width="{99.5 - LEFT}%" height="{PLOT_HEIGHT}" viewBox="0 0 100 100" '
        'preserveAspectRatio="none">'
    )
    for curve in sorted(figure.curves, key=lambda c: c.style != SOLID):  # what it would hide is drawn on top
        parts += _line(curve, _placed(curve.points, across, up))
        ends = _placed(_ends(curve), across, up)
        drawn = "".join(f"M{x} {low}V{high}" for (x, low), (_, high) in zip(ends[::2], ends[1::2], strict=True))
        parts += [f'<path class="bound {_style(curve)}" d="{drawn}"/>'] if drawn else []
    many = sum(len(cloud.points) for cloud in figure.clouds) > MANY_POINTS
    parts.append(f'<g class="cloud{" fine" if many else ""}">' if figure.clouds else "")
    for cloud in figure.clouds:
        path = "".join(f"M{x} {y}{DOT}" for x, y in _placed(cloud.points, across, up) if y >= 0)
        parts += _points(cloud.kind, path, cloud.style)
    parts.append("</g></svg>" if figure.clouds else "</svg>")
    if figure.threshold is not None and 0 <= up(figure.threshold[1]) <= 1:
        y = height(figure.threshold[1])
        parts.append(f'<line class="limit" x1="{LEFT:g}%" x2="100%" y1="{y}" y2="{y}"/>')
        parts.append(_words(figure.threshold[0], LEFT + 1, y - 5, "limit-label", "start"))
    if figure.cut is not None and 0 <= across(figure.cut[1]) <= 1:
        x = place(figure.cut[1])
        parts.append(f'<line class="limit" x1="{x}%" x2="{x}%" y1="{PLOT_TOP}" y2="{PLOT_TOP + PLOT_HEIGHT}"/>')
        left = x > 50
        parts.append(
            _words(figure.cut[0], x + (-1 if left else 1), PLOT_TOP + 12, "limit-label", "end" if left else "start")
        )
    return _svg(figure.title, figure.description, PLOT_TOP + PLOT_HEIGHT + 44, parts)


def _ends(curve: Curve) -> list[tuple[float, float]]:
    """The lower and the upper end of every interval of a curve, in turn."""
    drawn = [(x, bound) for (x, _), bound in zip(curve.points, curve.bounds, strict=False) if bound is not None]
    return [(x, end) for x, bound in drawn for end in bound if all(map(math.isfinite, bound))]


def _placed(
    points: Sequence[tuple[float, float]], across: Callable[[float], float], up: Callable[[float], float]
) -> list[tuple[float, float]]:
    """Points in the stretched box of a plot, 100 units each way, from the top left."""
    return [(_round(100 * across(x)), _round(100 - 100 * up(y))) for x, y in points]


def _line(curve: Curve, placed: Sequence[tuple[float, float]]) -> list[str]:
    parts = []
    if placed:
        path = " ".join(f"{x},{y}" for x, y in placed)
        parts.append(f'<polyline class="curve {_style(curve)}" points="{path}"/>')
    if curve.style is not None and curve.dotted:
        few = len(placed) <= FEW_POINTS
        dots = "".join(f"M{x} {y}{DOT}" for x, y in (placed if few else _dotted(placed, curve.style)) if y >= 0)
        parts.append(f'<path class="dots {_style(curve)}" d="{dots}"/>' if dots else "")
    return parts


def _points(kind: MarkKind, path: str, style: int | None = None) -> list[str]:
    """All marks of one kind as one path, with a second one on top where they are rings."""
    if style is not None:
        return [f'<path class="dots s{style}" d="{path}"/>'] if path else []
    holes = [f"m {kind} hole"] if kind in RINGS else []
    return [f'<path class="{name}" d="{path}"/>' for name in (f"m {kind}", *holes) if path]


def _style(curve: Curve) -> str:
    return "many" if curve.style is None else f"s{curve.style}"


def _dotted(points: Sequence[tuple[float, float]], style: int) -> list[tuple[float, float]]:
    """Places on a curve for the dots that tell it from the others; each style has its own, so none hides another."""
    wanted = [100 * (k + (style + 0.5) / CURVE_STYLES) / DOTS_ON_A_CURVE for k in range(DOTS_ON_A_CURVE)]
    return [
        (_round(x), _round(y0 + (y1 - y0) * (x - x0) / (x1 - x0)))
        for (x0, y0), (x1, y1) in pairwise(points)
        for x in wanted
        if x0 <= x < x1
    ]


def mark_swatch(kind: LegendKind, in_cloud: bool = False, style: int | None = None) -> Markup:
    """A mark for the legend, as a dot plot or a cloud of points shows it."""
    match kind:
        case "beyond":
            body = '<text class="beyond" x="4" y="13">▸</text>'
        case "whisker":
            body = '<path class="whisker" d="M3 8H15"/>'
        case "limit":
            body = '<path class="limit" d="M9 0V16"/>'
        case _:
            body = "".join(_points(kind, f"M9 8{STROKES[kind]}", style))
    body = f'<g class="cloud">{body}</g>' if in_cloud else body
    return Markup(f'<svg class="swatch" width="18" height="16" aria-hidden="true">{body}</svg>')


def curve_swatch(style: int | None, dotted: bool = True) -> Markup:
    """A piece of line for the legend."""
    name = "many" if style is None else f"s{style}"
    body = f'<line class="curve {name}" x1="1" x2="41" y1="8" y2="8"/>'
    if style is not None and dotted:
        body += f'<path class="dots {name}" d="M21 8{DOT}"/>'
    return Markup(f'<svg class="swatch" width="42" height="16" aria-hidden="true">{body}</svg>')


def nice_ticks(upper: float, wanted: int = 5) -> list[float]:
    """Round numbers from 0 to `upper`."""
    step = _round_step(upper / wanted)
    return [k * step for k in range(int(upper / step + 1e-9) + 1)]


def ticks_between(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers from `low` to `high`."""
    step = _round_step((high - low) / wanted)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, first + wanted + 2) if k * step <= high + 1e-9 * step]


def _round_step(raw: float) -> float:
    power = 10.0 ** math.floor(math.log10(raw))
    return next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * 0.999)


def _widened(low: float, high: float) -> tuple[float, float]:
    """An axis with room beside its outermost points; one value alone stands in its middle."""
    room = MARGIN * (high - low) if high - low > 1e-9 * max(abs(low), abs(high)) else 0.1 * abs(low) or 0.1
    return low - room, high + room


def _dot_axis(figure: Dots) -> tuple[float, float, list[float]]:
    """Where the axis starts and ends, and its ticks. A far maximum is pointed at rather than allowed to flatten the rest."""
    if figure.span:
        shown = [m.value for row in figure.rows for m in row.marks]
        shown += [end for row in figure.rows for bound, _ in _bounds(row) for end in bound]
        shown += [figure.threshold[1]] if figure.threshold is not None else []
        low, high = _widened(min(shown, default=0.0), max(shown, default=1.0))
        return low, high, ticks_between(low, high, 4)
    near = [m.value for row in figure.rows for m in row.marks if m.kind != "max"]
    near += [bound[1] for row in figure.rows for bound, _ in _bounds(row)]
    near += [figure.threshold[1]] if figure.threshold is not None else []
    far = [m.value for row in figure.rows for m in row.marks if m.kind == "max"]
    usual = max([figure.reach, *near])
    furthest = max(far, default=0.0)
    upper = 1.03 * max(usual, furthest if furthest <= 2.5 * usual else 0.0)
    upper = upper if upper > 0 else 1.0
    return 0.0, upper, nice_ticks(upper, 4)


def _linear_axis(points: Sequence[tuple[float, float]], figure: Curves) -> tuple[float, float, list[float]]:
    heights = [y - figure.base for _, y in points]
    highest = max(heights)
    limit = figure.threshold[1] - figure.base if figure.threshold is not None else 0.0
    top = highest if figure.top is None else figure.top - figure.base
    upper = 1.05 * max(top, min(limit, 3 * highest) if highest > 0 else limit)
    upper = upper if upper > 0 else 1.0
    lower = 1.05 * min(0.0, *heights) - (MARGIN * upper if figure.clouds else 0.0)
    ticks = nice_ticks(max(upper, -lower))
    below = [-tick for tick in reversed(ticks) if lower <= -tick < 0]
    shown = [*below, *(tick for tick in ticks if tick <= upper)]
    return lower + figure.base, upper + figure.base, [tick + figure.base for tick in shown]


def _across_axis(values: Sequence[float], figure: Curves) -> tuple[float, float, list[float]]:
    if figure.log_across:
        return _log_axis(values)
    low, high = min(values), max(values)
    if figure.across_base is not None:
        low, high = _widened(min(low, figure.across_base), max(high, figure.across_base))
        return low, high, ticks_between(low, high)
    beside = MARGIN * (high - low) if figure.clouds else 0.0
    return low - beside, high + beside, _across_ticks(low, high)


def _log_axis(numbers: Sequence[float]) -> tuple[float, float, list[float]]:
    values = [math.log10(v) for v in numbers]
    low, high = math.floor(min(values)), math.ceil(max(values))
    high = max(high, low + 1)
    step = max(1, math.ceil((high - low) / 6))
    return low, high, [10.0**k for k in range(low, high + 1, step)]


def _across_ticks(low: float, high: float) -> list[float]:
    if high <= low:
        return [low]
    inner = [t for t in nice_ticks(high, 4) if t > low + 0.08 * (high - low)]
    return [low, *inner]


def _power(value: float) -> str:
    exponent = round(math.log10(value))
    return short(value) if exponent >= -3 else f"1e{exponent}"


def _anchor(x: float) -> str:
    return "start" if x < 3 else "end" if x > 96 else "middle"


def _words(text: str, x: float, y: float, kind: str, anchor: str) -> str:
    side = "" if anchor == "start" else f" {anchor}"
    return f'<text class="{kind}{side}" x="{_round(x)}%" y="{y:g}">{escape(text)}</text>'


def _round(value: float) -> float:
    shown = round(value, 1)
    return int(shown) if shown == int(shown) else shown


def _svg(title: str, description: str, height: int, parts: Sequence[str]) -> Markup:
    head = f'<svg class="figure" role="img" width="100%" height="{height}"><title>{escape(title)}</title>'
    told = f"<desc>{escape(description)}</desc>" if description else ""
    return Markup(f"{head}{told}{''.join(parts)}</svg>")
