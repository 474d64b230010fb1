"""Axes of dot plots and curves that do not start at 0, intervals below the line, and legends of points."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from identifiable.report.page import Cloud, Curve, Curves, DotRow, Dots, Mark, Page, Section
from identifiable.report.render.figures import draw_curves, draw_dots, ticks_between
from identifiable.report.render.html import html


def places(figure: Dots) -> list[float]:
    """Where a figure puts its main marks, in per cent from the left."""
    (path,) = re.findall(r'<path class="m main" d="([^"]*)"', draw_dots(figure))
    return [float(x) for x in re.findall(r"M([\d.-]+) ", path)]


def across_ticks(figure: Curves) -> list[str]:
    return re.findall(r'class="tick middle"[^>]*>([^<]*)<', draw_curves(figure))


def test_a_spanning_axis_shows_values_below_zero_and_others_do_not() -> None:
    rows = tuple(DotRow(str(v), "", (Mark("main", v),)) for v in (-0.2, 0.0, 0.2))
    left, middle, right = places(Dots("t", "", "", rows, (), ("none", 0.0), span=True))
    assert 0 < left < middle < right < 100
    assert middle == pytest.approx(50, abs=0.1)
    assert right - middle == pytest.approx(middle - left, abs=0.1)
    assert places(Dots("t", "", "", rows, ()))[0] == places(Dots("t", "", "", rows, ()))[1]  # cut at 0


def test_an_interval_below_the_line_is_drawn_twelve_pixels_lower() -> None:
    row = DotRow("a", "", (Mark("main", 0.5),), interval=(0.4, 0.6), lower=(0.3, 0.7))
    (path,) = re.findall(r'<path class="whisker" d="([^"]*)"', draw_dots(Dots("t", "", "", (row,), (), span=True)))
    heights = [float(y) for y in re.findall(r"M[\d.]+ (\d+)H", path)]
    assert heights[1] - heights[0] == 12
    alone = draw_dots(Dots("t", "", "", (replace(row, lower=(math.nan, 0.7)),), (), span=True))
    assert alone.count("H") < draw_dots(Dots("t", "", "", (row,), (), span=True)).count("H")


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.47, 0.84, [0.5, 0.6, 0.7, 0.8]),
        (-0.11, 0.22, [-0.1, 0.0, 0.1, 0.2]),
        (-30.0, -9.0, [-30, -25, -20, -15, -10]),
    ],
)
def test_ticks_are_round_numbers_inside_the_axis(low: float, high: float, ticks: list[float]) -> None:
    assert ticks_between(low, high) == pytest.approx(ticks)


def test_one_value_alone_stands_in_the_middle_of_a_spanning_axis() -> None:
    for value in (0.0, 0.7, -3.0, 9e99):
        assert places(Dots("t", "", "", (DotRow("a", "", (Mark("main", value),)),), (), span=True)) == [50]


def test_an_axis_with_a_base_has_round_ticks_and_starts_there() -> None:
    cloud = Cloud("a", ((0.613, 0.2), (0.874, 0.3)), "main")
    assert across_ticks(Curves("t", "d", "x", "y", clouds=(cloud,), across_base=0.5)) == ["0.5", "0.6", "0.7", "0.8"]
    assert "0.613" in draw_curves(Curves("t", "d", "x", "y", clouds=(cloud,)))  # without one, at its first point
    negative = Cloud("a", ((-0.3, 0.1), (-0.1, 0.2)), "main")
    below = Curves("t", "d", "x", "y", clouds=(negative,), across_base=0.0)
    assert across_ticks(below) == ["-0.3", "-0.2", "-0.1"]
    assert ">0</text>" in draw_curves(below)


def test_clouds_without_a_label_are_left_out_of_the_legend() -> None:
    def drawn(label: str) -> str:
        points = ((0.0, 0.0), (1.0, 1.0))
        figure = Curves("t", "d", "x", "y", (Curve("line", points, 1),), clouds=(Cloud(label, points, "main", 1),))
        return html(Page("", "", "", "", (Section("a", "a", (figure,)),)))

    assert drawn("").count("<li>") == 1
    assert drawn("measured").count("<li>") == 2
