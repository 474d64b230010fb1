"""Reading a page in tests: its blocks, and what they say in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from typing import Any

from identifiable import report
from identifiable.report.page import Block, Card, Curves, Fold, Table, Terms, Text
from identifiable.report.pages import page_of
from identifiable.results.serial import from_json, to_json

HOSTILE = '<script>alert("1")</script>'
RENDERERS = (report.html, report.fragment, report.markdown, report.text_table)
VOID = {"meta", "br", "circle", "path", "line", "polyline"}


class Outline(HTMLParser):
    """Tags of a page; fails on one that is left open or closed twice."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        last = self.open.pop()
        assert last == tag, f"</{tag}> closes <{last}>"

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.seen if tag == name]


def foreign_loads(text: str) -> list[str]:
    """Everything in a page that a browser would fetch, or run, from elsewhere or from within."""
    outline = Outline(text)
    loads = [tag for tag, _ in outline.seen if tag in ("script", "link", "img", "iframe", "object", "embed", "base")]
    for tag, attributes in outline.seen:
        loads += [f"{tag} {k}" for k in attributes if k in ("src", "srcset", "data", "poster") or k.startswith("on")]
        target = attributes.get("href") or "#"
        loads += [] if target.startswith("#") else [f"{tag} href {target}"]
    styles = "".join(re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL))
    return loads + re.findall(r"@import|url\(|@font-face", styles)


def blocks_of(result: Any, *keys: str) -> Iterator[Block]:
    """The blocks of these sections (all without one), those inside a fold after it."""
    for section in page_of(result).sections:
        if not keys or section.key in keys:
            yield from unfolded(section.blocks)


def unfolded(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Fold):
            yield from unfolded(block.blocks)


def tables_of(result: Any, *keys: str) -> list[Table]:
    return [block for block in blocks_of(result, *keys) if isinstance(block, Table)]


def card_of(result: Any) -> Card:
    """The first card of the verdict."""
    return next(block for block in blocks_of(result, "verdict") if isinstance(block, Card))


def figure_of(result: Any, title: str) -> Curves | None:
    return next((b for b in blocks_of(result) if isinstance(b, Curves) and b.title == title), None)


def shown_words(result: Any) -> str:
    """Every word of the HTML page on one line."""
    return " ".join(" ".join(Outline(report.html(result)).words).split())


def text_of(result: Any, *keys: str) -> str:
    """Everything a section says, in words."""
    parts: list[str] = []
    for block in blocks_of(result, *keys):
        match block:
            case Text(text=text):
                parts.append(text)
            case Table(caption=caption, rows=rows):
                parts += [caption, *(cell for row in rows for cell in row)]
            case Terms(items=items):
                parts += [word for item in items for word in item]
            case Card(sentence=sentence, facts=facts):
                parts += [sentence, *(word for fact in facts for word in fact)]
            case _:
                pass
    return " ".join(parts)


def table_called(result: Any, start: str) -> Table:
    """The table whose caption begins so."""
    return next(b for b in blocks_of(result) if isinstance(b, Table) and b.caption.startswith(start))


def without_style(text: str) -> str:
    return re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)


def check_drawn_alike_after_json(result: Any, render: Callable[[Any], str]) -> None:
    text = render(result)
    assert text == render(from_json(to_json(result)))
    assert not re.search(r"\b(nan|inf|None)\b", without_style(text))
