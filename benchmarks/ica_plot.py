"""The scaling plot: CPU seconds per pass against n and against d, as plain SVG with logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 420, 320  # of one panel
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 48
INK, GRID, LINE, GUIDE = "#333", "#ddd", "#2364aa", "#999"

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """Points to draw, the slope of the guide through their last one, and what the axes are."""

    title: str
    x_label: str
    y_label: str
    points: Points
    guide: float
    guide_label: str


def scaling_svg(panels: Sequence[Panel]) -> str:
    body = [_panel(panel, k * WIDTH) for k, panel in enumerate(panels)]
    total = WIDTH * len(panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {HEIGHT}" width="{total}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="11" fill="{INK}">\n'
        f'<rect width="{total}" height="{HEIGHT}" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _panel(panel: Panel, x0: float) -> str:
    points = sorted(p for p in panel.points if p[0] > 0 and p[1] > 0)
    low_x, high_x = math.log10(points[0][0]) - 0.08, math.log10(points[-1][0]) + 0.08
    last_x, last_y = points[-1]
    guide = [(x, last_y * (x / last_x) ** panel.guide) for x in (points[0][0], last_x)]
    heights = [math.log10(y) for _, y in [*points, *guide]]
    low_y, high_y = min(heights) - 0.15, max(heights) + 0.15

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low_x) / (high_x - low_x)
        up = (math.log10(y) - low_y) / (high_y - low_y)
        return x0 + LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    bottom, left, right = HEIGHT - BOTTOM, x0 + LEFT, x0 + WIDTH - RIGHT
    parts = [f'<text x="{left}" y="22" font-size="13">{panel.title}</text>']
    for power in range(math.ceil(low_y), math.floor(high_y) + 1):
        _, y = at(last_x, 10.0**power)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for k, (x, _) in enumerate(points):
        px, _ = at(x, last_y)
        parts.append(f'<line x1="{px:.1f}" y1="{bottom}" x2="{px:.1f}" y2="{bottom + 4}" stroke="{INK}"/>')
        lower = 16 if k % 2 == 0 else 27  # neighbours may stand close
        parts.append(f'<text x="{px:.1f}" y="{bottom + lower}" text-anchor="middle">{_short(x)}</text>')
    parts.append(f'<path d="{_path([at(*p) for p in guide])}" fill="none" stroke="{GUIDE}" stroke-dasharray="4 3"/>')
    gx, gy = at(*guide[0])
    parts.append(f'<text x="{gx + 6:.1f}" y="{gy + 12:.1f}" fill="{GUIDE}">{panel.guide_label}</text>')
    parts.append(f'<path d="{_path([at(*p) for p in points])}" fill="none" stroke="{LINE}" stroke-width="1.5"/>')
    for p in points:
        px, py = at(*p)
        parts.append(
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{LINE}"><title>{_short(p[0])}: {p[1]:.3g}</title></circle>'
        )
    parts.append(f'<line x1="{left}" y1="{bottom}" x2="{right}" y2="{bottom}" stroke="{INK}"/>')
    middle_x, middle_y = (left + right) / 2, (TOP + bottom) / 2
    parts.append(f'<text x="{middle_x:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{panel.x_label}</text>')
    parts.append(
        f'<text x="{x0 + 14}" y="{middle_y:.1f}" text-anchor="middle" '
        f'transform="rotate(-90 {x0 + 14} {middle_y:.1f})">{panel.y_label}</text>'
    )
    return "\n".join(parts)


def _path(points: Points) -> str:
    return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _short(x: float) -> str:
    if x >= 1e6:
        return f"{x / 1e6:g}M"
    return f"{x / 1e3:g}k" if x >= 1e4 else f"{x:g}"
