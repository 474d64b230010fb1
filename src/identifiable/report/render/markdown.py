"""Page to Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from identifiable.report.page import (
    LEFT_OUT,
    Block,
    Card,
    Code,
    Curves,
    Dots,
    Fold,
    Gallery,
    Grid,
    Heading,
    Key,
    Notice,
    Page,
    Table,
    Terms,
    Text,
)


def markdown(page: Page) -> str:
    """Every word and number of the HTML, with figures described and their tables kept."""
    parts = [f"# {_safe(page.title)}", _safe(page.subtitle), _safe(page.guide), _safe(page.byline)]
    for section in page.sections:
        parts.append(f"## {_safe(section.title)}")
        parts += _markdown_blocks(section.blocks, level=3)
    return "\n\n".join(parts) + "\n"


def _markdown_blocks(blocks: Sequence[Block], level: int) -> Iterator[str]:
    for block in blocks:
        yield from _markdown_block(block, level)


def _markdown_block(block: Block, level: int) -> Iterator[str]:
    match block:
        case Text(text=text):
            yield _safe(text)
        case Heading(text=text):
            yield f"{'#' * level} {_safe(text)}"
        case Terms(items=items):
            yield "\n".join(f"- **{_safe(term)}**: {_safe(meaning)}" for term, meaning in items)
        case Notice(code=code, message=message, more=more):
            times = f" × {len(more) + 1}" if more else ""
            yield f"> **Alert** {_code(code)}{times}: {_safe(message)}"
            if more:
                yield "\n".join(f"- {_safe(other)}" for other in more)
        case Card():
            facts = "\n".join(f"- {_safe(name)}: {_safe(value)}" for name, value in block.facts)
            yield f"**{_safe(block.eyebrow)}** ({_safe(block.badge)})"
            yield f"**{_safe(block.sentence)}**"
            yield facts
        case Table():
            yield f"*{_safe(block.caption)}*"
            yield _markdown_table(block)
        case Dots() | Curves() | Grid():
            yield f"Figure: {_safe(block.title)}. {_safe(block.description)}".rstrip()
        case Gallery():
            yield f"Figure: {_safe(block.title)}. {_safe(block.description)}"
            said = ((image.title, image.alt if image.sound else LEFT_OUT) for image in block.images)
            yield "\n".join(f"- {_safe(title)}: {_safe(words)}" for title, words in said)
        case Key():
            return  # a legend without its figures says nothing
        case Fold(summary=summary, blocks=inner):
            yield f"{'#' * level} {_safe(summary)}"
            yield from _markdown_blocks(inner, level + 1)
        case Code(label=label, text=text):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            yield f"{_safe(label)}:"
            yield f"{fence}\n{text}\n{fence}"


def _markdown_table(table: Table) -> str:
    def cell(text: str, kind: str) -> str:
        return _code(text).replace("|", "\\|") if kind == "code" and text else _safe(text)

    kinds = [column.kind for column in table.columns]
    lines = [
        [_safe(column.label) for column in table.columns],
        ["---:" if kind == "number" else "---" for kind in kinds],
        *([cell(text, kind) for text, kind in zip(row, kinds, strict=True)] for row in table.rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _safe(text: str) -> str:
    """Text that Markdown shows as it stands: no tags, links, emphasis or new cells from a user's name."""
    text = re.sub(r"([\\`*|])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)
    text = re.sub(r"\](?=[(\[:])", r"\\]", text)
    return re.sub(r"^([#+-])(?=\s)", r"\\\1", text)


def _code(text: str) -> str:
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    blank = " " if len(fence) > 1 else ""
    return f"{fence}{blank}{text}{blank}{fence}"
