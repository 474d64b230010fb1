"""A plate as a heat map."""

from __future__ import annotations

import math
import re

import pytest

from identifiable.report.page import Grid
from identifiable.report.render.html import draw_grid


def wells_drawn(text: str) -> dict[str, int]:
    """How many wells have each shade."""
    inner = text[text.index("viewBox") :]
    return {
        shade: sum(int(n) for n in re.findall(r"h(\d+)v1", path))
        for shade, path in re.findall(r'class="(w\d)" d="([^"]*)"', inner)
    }


@pytest.mark.parametrize(("rows", "columns", "step"), [(8, 12, 1), (8, 48, 4)])
def test_the_plate_is_drawn_with_its_letters_and_numbers_and_a_title(rows: int, columns: int, step: int) -> None:
    letters, numbers = "ABCDEFGH"[:rows], tuple(f"{j:02d}" for j in range(1, columns + 1))
    text = draw_grid(Grid("t", "d", tuple(letters), numbers, ((0.5,) * columns,) * rows, 1.0, "sd"))
    assert re.findall(r'class="tick end"[^>]*>([^<]*)<', text) == list(letters)
    assert re.findall(r'class="tick middle"[^>]*>([^<]*)<', text) == list(numbers[::step])
    assert "<title>t</title>" in text


def test_wells_are_coloured_on_either_side_of_zero_and_those_not_in_use_stay_blank() -> None:
    values = ((math.nan, -1.0, -0.5), (0.0, 0.5, 9.0))
    grid = Grid("t", "d", ("A", "B"), ("1", "2", "3"), values, 1.0, "sd")
    assert wells_drawn(draw_grid(grid)) == {"w0": 1, "w2": 1, "w4": 1, "w6": 1, "w8": 1}
    blank = Grid("t", "d", ("A",), ("1",), ((math.inf,),), 1.0, "sd")
    assert wells_drawn(draw_grid(blank)) == {}


def test_small_values_of_a_wide_scale_share_the_colour_of_zero() -> None:
    flat = Grid("t", "d", ("A",), ("1", "2"), ((1e-3, -1e-3),), 0.25, "sd")
    assert wells_drawn(draw_grid(flat)) == {"w4": 2}


@pytest.mark.parametrize(("signed", "least", "shades"), [(True, "-1.00", 9), (False, "0", 5)])
def test_the_key_begins_at_zero_where_no_value_is_below(signed: bool, least: str, shades: int) -> None:
    key = draw_grid(Grid("t", "d", ("A",), ("1",), ((0.5,),), 1.0, "sd", signed)).split("</ul>")[0]
    assert f"<li>{least}<" in key
    assert key.count("<path") == shades
