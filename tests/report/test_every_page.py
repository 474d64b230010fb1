"""What every page must satisfy: drawn alike from saved JSON, complete, safe with hostile words, needing nothing else."""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from builders import (
    EXAMPLES,
    HOSTILE,
    RENDERERS,
    Outline,
    blocks_of,
    check_drawn,
    foreign_loads,
    tables_of,
)
from errors import naming
from identifiable import report
from identifiable._checks import UsageError
from identifiable.report import words
from identifiable.report.page import Block, Card, Fold, Notice, Table, Text
from identifiable.report.pages import PAGES, page_of
from identifiable.results import SCHEMAS, Alert, from_json, to_json, without_time

ESCAPES = "a\x1b[31m\n"
DRAWN: dict[tuple[Any, int], str] = {}


def drawn(render: Callable[[Any], str], example: Any) -> str:
    """An example by a renderer; examples are built once, and so is this."""
    if (render, id(example)) not in DRAWN:
        DRAWN[render, id(example)] = render(example)
    return DRAWN[render, id(example)]


def html(example: Any) -> str:
    return drawn(report.html, example)


# -- drawn alike


def test_every_kind_of_result_that_can_be_saved_has_a_page_and_an_example() -> None:
    assert set(PAGES) == set(SCHEMAS.values())
    assert {type(make()) for make in EXAMPLES.values()} == set(PAGES)


def test_a_page_is_drawn_alike_from_saved_json(example: Any) -> None:
    check_drawn(replace(example, settings={**example.settings, "shape": (1, 2), "tolerance": float("inf")}))
    check_drawn(unmeasured(example))


CHOSEN = ("epsilon", "percent", "settings", "published")
BY_ITSELF = ("gain", "gain_ci95")  # Table 3 puts them into its own headline


def unmeasured(result: Any) -> Any:
    """The same result as if nothing could be measured: every number that is not a count is missing."""

    def emptied(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: v if k in (*CHOSEN, *BY_ITSELF) else emptied(v) for k, v in value.items()}
        if isinstance(value, list):
            return [emptied(v) for v in value]
        return None if isinstance(value, float) else value

    return from_json(json.dumps(emptied(json.loads(to_json(result)))))


def test_the_only_time_on_the_page_is_that_of_the_run(example: Any) -> None:
    assert example.provenance.time in html(example)
    assert example.provenance.time not in report.html(without_time(example))


def test_a_result_shows_itself(example: Any, tmp_path: Path) -> None:
    assert example.table() == drawn(report.text_table, example)
    assert example._repr_html_() == drawn(report.fragment, example)
    assert example.report(tmp_path / "page.html").read_text(encoding="utf-8") == html(example)


def test_what_is_no_result_is_refused_with_its_type_and_the_kinds_that_can_be_drawn() -> None:
    for render in RENDERERS:
        with pytest.raises(UsageError, match=r"Cleaning.*Comparison.*\bdict\b"):
            render({})  # type: ignore[arg-type]


# -- complete


def test_the_answer_comes_first_and_each_link_has_its_target(example: Any) -> None:
    keys = [section.key for section in page_of(example).sections]
    assert keys[0] == "verdict"
    assert keys[-2:] == ["reading", "reproduction"]
    assert all(section.blocks for section in page_of(example).sections)
    outline = Outline(html(example))
    assert [a["href"] for a in outline.tags("a")] == ["#reading", *(f"#{key}" for key in keys)]
    assert [s["id"] for s in outline.tags("section")] == keys


def test_every_cell_is_in_the_html_and_in_the_markdown(example: Any) -> None:
    html_words = set(" ".join(Outline(html(example)).words).replace("\u00a0", " ").split())
    markdown = drawn(report.markdown, example)
    plain = markdown.replace("`", "").replace("\\", "")
    for table in tables_of(example):
        for row in table.rows:
            assert (
                "| " + " | ".join(row).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") + " |" in plain
            )
            assert {word for cell in row for word in cell.split()} <= html_words | {HOSTILE}
    for above, below in pairwise(markdown.splitlines()):
        if above.startswith("|") and below.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", above)) == len(re.findall(r"(?<!\\)\|", below))


def test_no_paragraph_stands_twice_in_a_part(example: Any) -> None:
    def check(blocks: tuple[Block, ...]) -> None:
        told = [block.text for block in blocks if isinstance(block, Text)]
        assert len(told) == len(set(told))
        for fold in (block for block in blocks if isinstance(block, Fold)):
            check(fold.blocks)

    for section in page_of(example).sections:
        check(section.blocks)


def test_hashes_seed_versions_settings_and_command_are_on_the_page(example: Any) -> None:
    text = " ".join(cell for table in tables_of(example, "reproduction") for row in table.rows for cell in row)
    for item in (*(i.sha256 for i in example.inputs), *example.provenance.libraries, *example.settings):
        assert item in text
    assert example.provenance.command in drawn(report.markdown, example)


def test_alerts_of_one_kind_stand_together_and_none_is_lost(example: Any) -> None:
    alerts = tuple(Alert(code, {"no": i}, f"{code} no. {i}") for i in range(5) for code in ("few_rows", "other_code"))
    warned = replace(example, alerts=alerts)
    notices = [block for block in blocks_of(warned, "alerts") if isinstance(block, Notice)]
    assert [(n.code, len(n.more)) for n in notices] == [("few_rows", 4), ("other_code", 4)]
    for text in (report.html(warned), report.markdown(warned)):
        assert all(alert.message in text for alert in alerts)
    for line, notice in zip(report.text_table(warned).splitlines()[-2:], notices, strict=True):
        assert re.match(naming(f"! {notice.code}: {notice.code} no. 0", len(notice.more)), line)


def test_three_kinds_of_alert_are_open_and_the_others_folded_details_last(example: Any) -> None:
    codes = ("reading", "first", "second", "third", "fourth")
    warned = replace(example, alerts=tuple(Alert(code, {}, f"told by {code}") for code in codes))
    *shown, fold = next(section.blocks for section in page_of(warned).sections if section.key == "alerts")
    assert [block.code for block in shown if isinstance(block, Notice)] == ["first", "second", "third"]
    assert isinstance(fold, Fold)
    assert [block.code for block in fold.blocks if isinstance(block, Notice)] == ["fourth", "reading"]
    assert [line.split(":")[0] for line in report.text_table(warned).splitlines()[-5:]] == [
        f"! {code}" for code in (*codes[1:], "reading")
    ]
    few = replace(warned, alerts=warned.alerts[:3])
    assert all(isinstance(block, Notice) for block in blocks_of(few, "alerts"))


def test_that_there_are_no_alerts_is_said_only_where_the_verdict_does_not_warn(example: Any) -> None:
    quiet = replace(example, alerts=())
    cards = [block for block in blocks_of(quiet, "verdict") if isinstance(block, Card)]
    well = all(card.tone != "caution" for card in cards)
    assert any(section.key == "alerts" for section in page_of(quiet).sections) == well


# -- hostile words


def spoiled(value: Any, kind: Any, text: str) -> Any:
    """`value` of the annotation `kind` with `text` in place of every free name and sentence."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if value is None or kind is Any:
        return value
    if kind is str:
        return text if value else value
    if is_dataclass(value) and not isinstance(value, type):
        hints = typing.get_type_hints(type(value))
        changed = {f.name: spoiled(getattr(value, f.name), hints[f.name], text) for f in fields(value)}
        return replace(value, **changed)
    if isinstance(value, Mapping):
        free = Any in inner
        return {text: text} if free else {k: spoiled(v, inner[-1], text) for k, v in value.items()}
    if origin is tuple:
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(spoiled(v, k, text) for v, k in zip(value, kinds, strict=True))
    if origin in (types.UnionType, typing.Union):
        return spoiled(value, next(k for k in inner if k is not type(None)), text)
    return value


def test_hostile_words_are_shown_as_text(example: Any) -> None:
    result = spoiled(replace(example, alerts=(Alert("a", stored="b"),)), type(example), HOSTILE)
    for text in (report.html(result), report.fragment(result)):
        assert "<script" not in text
        assert "&lt;script&gt;" in text
        Outline(text)
    outside_code = re.sub(r"(`+)[^`]*\1", "", report.markdown(result))
    assert "<script" not in outside_code
    assert "&lt;script&gt;" in outside_code


def test_line_ends_and_terminal_escapes_in_words_never_reach_the_terminal(example: Any) -> None:
    warned = replace(example, alerts=(Alert("a", stored="b"),))
    clean, dirty = (report.text_table(spoiled(warned, type(example), text)) for text in ("a", ESCAPES))
    assert "\x1b" not in dirty
    assert "a\\x1b[31m\\n" in dirty
    assert max(map(words.columns_wide, dirty.splitlines())) <= 100
    assert re.sub(r"a\\x1b\[31m\\n", "a", dirty.lower()).split() == clean.lower().split()


def test_control_characters_of_a_recorded_command_are_spelled_out(example: Any) -> None:
    command = "identifiable compare 'a\x1b[31m\x07.npy' b.npy -o 'm\x07.csv'"
    result = replace(example, provenance=replace(example.provenance, command=command))
    for text in (report.html(result), report.markdown(result), report.text_table(result)):
        assert not {"\x1b", "\x07"} & set(text)
    assert "a\\x1b[31m\\x07.npy" in report.markdown(result)


# -- standing alone


def test_a_page_needs_nothing_else(example: Any) -> None:
    for text in (html(example), drawn(report.fragment, example)):
        pictures = re.findall(r'<img src="data:image/png;base64,[A-Za-z0-9+/=]+"', text)
        assert foreign_loads(text) == [*["img"] * len(pictures), *["img src"] * len(pictures)]
        assert not re.search("https?://", text)
    assert "default-src 'none'" in html(example)


@pytest.mark.parametrize(
    "bad",
    [
        '<script src="x.js"></script>',
        '<link rel="stylesheet" href="x.css"></link>',
        '<p onclick="x()"></p>',
        '<a href="http://a.b">c</a>',
        "<style>p{background:url(x.png)}</style>",
        '<style>@import "x"</style>',
    ],
)
def test_the_search_for_foreign_loads_finds_each_kind(bad: str) -> None:
    assert foreign_loads(bad)


def test_a_fragment_claims_nothing_of_its_host(example: Any) -> None:
    text = drawn(report.fragment, example)
    style = re.search(r"<style>(.*?)</style>", text, flags=re.DOTALL)
    assert style is not None
    rules = re.sub(r"@media[^{]*\{", "", style.group(1))
    selectors = [s for rule in re.findall(r"([^{}]+)\{", rules) for s in rule.split(",")]
    assert len(selectors) > 50
    assert all(".idf" in s for s in selectors if s.strip())
    assert not re.search(r"\sid=", text)  # ids of two fragments in one notebook would clash
    assert "<html" not in text


# -- looks that can be checked


def test_figures_have_titles_and_stay_inside_their_frame_and_tables_have_captions(example: Any) -> None:
    text = html(example)
    for figure in re.findall(r'<svg class="figure".*?</svg>', text, flags=re.DOTALL):
        assert "<title>" in figure
        assert 'role="img"' in figure or "swatch" in figure
    assert all(0 <= float(v) <= 100 for v in re.findall(r'\bx\d?="([\d.-]+)%"', text))
    outline = Outline(text)
    boxes = [a for a in outline.tags("div") if "scroll" in str(a.get("class"))]
    assert len(outline.tags("caption")) == len(outline.tags("table")) == len(boxes) > 0
    assert all(box["tabindex"] == "0" and box["role"] == "region" and box["aria-label"] for box in boxes)


def test_the_terminal_has_the_brief_blocks_of_the_page_and_nothing_else(example: Any) -> None:
    text = drawn(report.text_table, example)
    printed = set(text.split())
    brief = [block for block in blocks_of(example) if block.brief]
    assert any(isinstance(block, Card) for block in brief)
    for block in brief:
        if isinstance(block, Card):
            assert set(f"{block.eyebrow}: {block.badge} {block.sentence}".split()) <= printed
        if isinstance(block, Table):
            shown = [i for i, column in enumerate(block.columns) if column.brief]
            for row in block.rows[: block.brief_rows]:
                assert {word for i in shown for word in row[i].split()} <= printed
    assert max(map(words.columns_wide, text.splitlines())) <= 100
    silent = next(table for table in tables_of(example, "reproduction"))  # not brief
    assert silent.rows[0][-1] not in printed
