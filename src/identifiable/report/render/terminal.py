"""Page to text for a terminal of fixed width: the blocks marked brief, then the guide, then the alerts."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest

from identifiable.report.page import ANSWER, NEXT, Block, Card, Code, Fold, Heading, Notice, Page, Table, Terms, Text
from identifiable.report.words import columns_wide, count, pad

WIDTH = 100  # columns of a terminal
CELLS = (60, 50, 40, 32, 26, 22)  # columns of a cell of words, from what one would like to the least
NARROW = " " * 2
JSON = "in the report and the JSON"


def terminal(page: Page) -> str:
    """The page in brief. Alerts come last, where the eye is when the prompt returns; after them only what to try next.

    Alerts that belong to the answer stay in it.
    """
    shown = [
        (section.key, block) for section in page.sections if section.key != NEXT for block in _brief(section.blocks)
    ]
    last = [block for section in page.sections if section.key == NEXT for block in (Text(""), *_brief(section.blocks))]
    alerts = [block for key, block in shown if isinstance(block, Notice) and key != ANSWER]
    others = [block for key, block in shown if not isinstance(block, Notice) or key == ANSWER]
    return printed([*others, Text(""), Text(page.guide), *alerts, *last])


def printed(blocks: Sequence[Block]) -> str:
    """Blocks as text, one blank line at most between them."""
    lines: list[str] = []
    for line in (line for block in blocks for line in _lines(block)):
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).rstrip("\n") + "\n"


def _brief(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        if block.brief:
            yield Text(block.summary, note=True) if isinstance(block, Fold) else block
        if isinstance(block, Fold):
            yield from _brief(block.blocks)


def _lines(block: Block) -> Iterator[str]:
    match block:
        case Text(text=text, note=note):
            yield wrapped(NARROW * note + text, NARROW * note)
        case Heading(text=text):
            yield from ("", wrapped(text))
        case Terms(items=items):
            yield from (wrapped(f"{term}: {meaning}", NARROW) for term, meaning in items)
        case Notice(code=code, message=message, more=more):
            others = f" ({count(len(more))} more of this kind {JSON})" if more else ""
            yield wrapped(f"! {code}: {message}{others}", NARROW)
        case Card():
            yield from ("", wrapped(f"{block.eyebrow}: {block.badge}", NARROW), wrapped(block.sentence))
            yield wrapped(NARROW + "; ".join(f"{name} {value}" for name, value in block.facts), NARROW)
        case Table():
            yield from ("", wrapped(block.caption), *_table(block), "")
        case Code(text=text):
            yield textwrap.indent(text, NARROW)
        case _:
            raise TypeError(
                f"expected a block of words to print, got {type(block).__name__}; a figure cannot be brief."
            )


def _table(table: Table) -> Iterator[str]:
    """Aligned columns. Where they do not fit, words go on in the next line; where that does not help, columns go on below."""
    kept = [i for i, column in enumerate(table.columns) if column.brief]
    columns = [table.columns[i] for i in kept]
    rows = table.rows[: table.brief_rows]
    for room in CELLS:
        lines = [line for row in rows for line in _wrapped_row([row[i] for i in kept], room)]
        widths = [
            max(map(columns_wide, (column.label, *(line[j] for line in lines)))) for j, column in enumerate(columns)
        ]
        if sum(widths) + len(NARROW) * (len(widths) - 1) <= WIDTH:
            break
    for piece in _pieces(widths):
        yield aligned(
            [columns[j].label for j in piece],
            [[line[j] for j in piece] for line in lines],
            [place for place, j in enumerate(piece) if j == 0 or columns[j].kind != "number"],
        )
    if left := table.more + len(table.rows) - len(rows):
        yield f"… and {count(left)} more: {JSON}"


def _wrapped_row(cells: Sequence[str], room: int) -> Iterator[tuple[str, ...]]:
    """The lines of a row whose cells are at most so wide."""
    parts = [[cell] if columns_wide(cell) <= room else textwrap.wrap(cell, room) for cell in cells]
    yield from zip_longest(*parts, fillvalue="")


def _pieces(widths: Sequence[int]) -> Iterator[list[int]]:
    """The columns in as many pieces as it takes to stay within the terminal; each begins with the first column."""
    piece, used = [0], widths[0]
    for j, width in enumerate(widths[1:], start=1):
        if len(piece) > 1 and used + len(NARROW) + width > WIDTH:
            yield piece
            piece, used = [0], widths[0]
        piece.append(j)
        used += len(NARROW) + width
    yield piece


def aligned(heads: Sequence[str], lines: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Columns two blanks apart: those of `left` flush left, numbers flush right."""
    widths = [max(columns_wide(line[i]) for line in (heads, *lines)) for i in range(len(heads))]
    return "\n".join(
        NARROW.join(
            pad(cell, width, right=i not in left) for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (heads, *lines)
    )


def wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
