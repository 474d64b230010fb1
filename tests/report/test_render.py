"""Pages as HTML and text, and figures as SVG: what holds whatever the page says."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from builders import DENSITY_EDGES, make_comparison, make_density, make_resolution
from errors import naming
from identifiable import report
from identifiable.report.frame import entries, glossary
from identifiable.report.page import (
    Block,
    Card,
    Curves,
    Fold,
    Gauge,
    Heading,
    Notice,
    Page,
    Section,
    Spark,
    Table,
    Terms,
    Text,
    columns,
)
from identifiable.report.render.figures import nice_ticks
from identifiable.report.render.html import GAUGE, HEIGHT, draw_picture
from identifiable.report.render.terminal import WIDTH, terminal
from identifiable.report.words import columns_wide

# -- the terminal


def printed(*blocks: Block) -> list[str]:
    page = Page("title", "subtitle", "the guide", "byline", (Section("a", "A", blocks),))
    lines = terminal(page).splitlines()
    while "the guide" in lines:
        lines.remove("the guide")
    return [line.rstrip() for line in lines if line]


def test_only_brief_blocks_are_printed_also_inside_folds() -> None:
    blocks = (Text("one", brief=True), Text("two"), Fold("three", (Text("four", brief=True),)))
    assert printed(*blocks, Fold("five", (Text("six"),), brief=True)) == ["one", "four", "  five"]


def test_blocks_become_lines_and_alerts_come_last() -> None:
    lines = printed(
        Notice("code", "message", ("another",), brief=True),
        Card("eyebrow", "badge", "The sentence.", "good", (("n", "5"), ("d", "2")), brief=True),
        Heading("heading", brief=True),
        Terms((("term", "meaning"),), brief=True),
    )
    assert lines[:5] == ["eyebrow: badge", "The sentence.", "  n 5; d 2", "heading", "term: meaning"]
    assert lines[5].startswith("! code: message (1 more")


def test_columns_are_aligned_hidden_ones_left_out_and_rows_counted() -> None:
    heads = columns("name", "value", "why", words=("why",), hidden=("why",))
    rows = (("a", "1.5", "x"), ("bcdefg", "10.25", "y"), ("c", "0", "z"))
    lines = printed(Table("caption", heads, rows, brief=True, brief_rows=2))
    assert lines[:4] == ["caption", "name    value", "a         1.5", "bcdefg  10.25"]
    assert re.findall(r"\d+", lines[4]) == ["1"]


def test_long_words_go_on_in_the_next_line_and_many_columns_below() -> None:
    words = "word " * 60
    lines = printed(Table("c", columns("name", "said", words=("said",)), (("a", words.strip()),), brief=True))
    assert " ".join(lines).count("word") == 60
    assert max(map(columns_wide, lines)) <= WIDTH
    many = [f"h{i}" for i in range(40)]
    lines = printed(Table("c", columns("name", *many), (("row", *("0.123" for _ in many)),), brief=True))
    assert max(map(columns_wide, lines)) <= WIDTH
    assert [head for line in lines if line.startswith("name") for head in line.split()[1:]] == many
    assert all(line.startswith(("c", "name", "row")) for line in lines)


def test_a_figure_cannot_be_brief() -> None:
    with pytest.raises(TypeError, match="Curves"):
        printed(Curves("title", "", "x", "y", brief=True))


# -- data files


def test_papers_are_found_by_author_and_by_year() -> None:
    assert re.findall(r"\{(\w+),", entries(["nelson", "hyvarinen1999", "hyvarinen1998"])) == [
        "nelson2026statistical", "hyvarinen1999fast", "hyvarinen1998new",
    ]  # fmt: skip
    with pytest.raises(KeyError):
        entries(["nobody"])


def test_a_glossary_has_an_opening_and_its_terms_on_one_line_each() -> None:
    found = glossary("comparison")
    assert found[""]
    assert {"Error", "Held-out", "Sources"} <= set(found)
    assert not any("\n" in text or text != text.strip() for text in found.values())


# -- figures


@pytest.mark.parametrize("upper", [1e-12, 0.103, 1.0, 7.3, 1e6])
def test_ticks_are_few_and_inside_the_axis(upper: float) -> None:
    ticks = nice_ticks(upper)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] == 0
    assert ticks[-1] <= upper * (1 + 1e-9)


def test_a_histogram_is_filled_against_a_gaussian_of_the_same_scale() -> None:
    text = str(draw_picture(Spark(make_density(1.0), DENSITY_EDGES), "heavier <tails>"))
    assert "<title>heavier &lt;tails&gt;</title>" in text
    assert 'role="img"' in text
    fill, line = (re.search(rf'class="{name}" d="([^"]*)"', text) for name in ("fill", "gauss"))
    assert fill is not None
    assert line is not None
    top_of_fill = min(float(y) for y in re.findall(r"V([\d.]+)", fill.group(1)))
    top_of_line = min(float(y) for y in re.findall(r"[ML][\d.-]+ ([\d.]+)", line.group(1)))
    assert 0 <= top_of_fill < top_of_line < HEIGHT  # a Laplace density is higher in the middle
    flat = re.search(r'class="fill" d="([^"]*)"', str(draw_picture(Spark(make_density(-1.0), DENSITY_EDGES), "")))
    assert flat is not None
    assert min(float(y) for y in re.findall(r"V([\d.]+)", flat.group(1))) > 0.2 * HEIGHT


def test_a_spike_runs_off_the_picture_and_not_off_the_cell() -> None:
    spike = tuple(60.0 if i == 30 else 0.0 for i in range(60))
    text = str(draw_picture(Spark(spike, DENSITY_EDGES), ""))
    assert all(0 <= float(y) <= HEIGHT for y in re.findall(r"V([\d.-]+)", text))


@pytest.mark.parametrize(("share", "end"), [(0.0, 0), (0.5, GAUGE / 2), (1.0, GAUGE), (1.7, GAUGE), (-0.2, 0)])
def test_a_bar_is_as_long_as_its_share_and_never_longer_than_its_track(share: float, end: float) -> None:
    assert re.search(naming("bar good", f'd="M0 4H{end:g}"'), draw_picture(Gauge(share, "good"), "x"))


def test_labels_stand_beside_the_axis_where_no_line_crosses_them() -> None:
    text = report.html(make_comparison())
    plots = re.findall(r'<svg class="figure".*?(?=<svg class="beside")', text, flags=re.DOTALL)
    assert plots
    assert not any('class="label' in plot for plot in plots)
    beside = re.findall(r'<svg class="beside".*?</svg>', text, flags=re.DOTALL)
    assert (
        sum("signed permutation</text>" in column for column in beside) == 3
    )  # the ladder, a forest for each direction
    assert any("q95 0.094</text>" in column for column in beside)
    assert all(not re.search("<(path|line)", column) for column in beside)


def test_lines_and_points_of_one_figure_differ_in_shape_and_not_in_colour_alone() -> None:
    text = report.html(make_comparison())
    dashes = [re.search(rf"\.s{i}\{{stroke:var\(--c{i}\)(.*?)\}}", text) for i in range(8)]
    assert len({match.group(1) for match in dashes if match}) == 8
    overlapping = tuple(replace(s, variances=make_comparison().spectra[0].variances) for s in make_comparison().spectra)
    drawn = report.html(replace(make_comparison(), spectra=overlapping))
    first, second = (re.findall(rf'<path class="dots s{i}" d="(M[^"]*M[^"]*)"', drawn)[-1] for i in range(2))
    assert not set(first.split("M")[1:]) & set(second.split("M")[1:])
    cloud = report.html(make_resolution())
    assert re.search(naming('class="cloud"', 'class="m main"'), cloud)
    assert 'class="m hollow hole"' in cloud


# -- colours


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(2 * c for c in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_words_have_enough_contrast_in_light_and_dark() -> None:
    assert contrast("#fff", "#000") == pytest.approx(21)
    assert contrast("#777", "#fff") < 4.5  # the measure can fail
    style = report.html(make_comparison())
    palettes = [
        dict(re.findall(r"--([\w-]+):(#\w+)", block))
        for block in re.findall(r"\.idf\{(--ground.*?)\}", style, re.DOTALL)
    ]
    assert len(palettes) >= 2
    assert palettes[0] != palettes[1]
    for palette in palettes:
        pairs = [(ink, ground) for ink in ("ink", "soft", "accent", "limit") for ground in ("ground", "raised")]
        pairs += [("good", "good-ground"), ("caution", "caution-ground"), ("ink", "caution-ground"), ("good", "ground")]
        pairs += [("on-light", f"h{i}") for i in range(4)] + [("on-mid", "h4"), ("on-dark", "h5"), ("on-dark", "h6")]
        assert [(a, b) for a, b in pairs if contrast(palette[a], palette[b]) < 4.5] == []
        assert [f"c{i}" for i in range(8) if contrast(palette[f"c{i}"], palette["raised"]) < 3] == []
