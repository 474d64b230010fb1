"""A page as plain data: sections of words, tables and figures, with nothing said about how they are drawn.

`pages` decides the content once; `render` turns it into HTML, Markdown or text. The text of the command line has only the
blocks marked `brief`, so no number and no sentence is written twice.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from identifiable.results import Interval

Tone = Literal["good", "caution", "plain"]
MarkKind = Literal["main", "hollow", "q95", "max", "shuffle", "rotation"]
LegendKind = MarkKind | Literal["whisker", "limit", "beyond"]

PNG = b"\x89PNG\r\n\x1a\n"  # how such a file begins
ANSWER = "verdict"  # the section that opens a page
NEXT = "next"  # the section of what to try next
LEFT_OUT = "The picture is left out: what the result holds in its place is not a PNG."


@dataclass(frozen=True)
class Block:
    """A part of a section. The command line prints those marked `brief`, also inside a fold; of a brief fold, its summary."""

    brief: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Text(Block):
    """A paragraph; a note is set smaller, beside what it explains."""

    text: str
    note: bool = False


@dataclass(frozen=True)
class Terms(Block):
    """Words and what they mean."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Code(Block):
    """Text to copy."""

    label: str
    text: str


@dataclass(frozen=True)
class Notice(Block):
    """An alert: its code and its message; `more` are messages of the same code."""

    code: str
    message: str
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class Card(Block):
    """A verdict: one sentence to take away and the few numbers behind it."""

    eyebrow: str
    badge: str
    sentence: str
    tone: Tone
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Column:
    """A table column; numbers are set flush right with figures of equal width. `brief`: the command line prints it."""

    label: str
    kind: Literal["text", "number", "code"] = "number"
    brief: bool = True


def columns(*labels: str, words: Collection[str] = (), hidden: Collection[str] = ()) -> tuple[Column, ...]:
    """Columns of numbers, but for the first and those in `words`; the command line leaves out the `hidden` ones."""
    return tuple(
        Column(label, "text" if i == 0 or label in words else "number", label not in hidden)
        for i, label in enumerate(labels)
    )


@dataclass(frozen=True)
class Spark:
    """A small histogram against the standard Gaussian, in place of its words."""

    heights: tuple[float, ...]
    edges: tuple[float, ...]


@dataclass(frozen=True)
class Gauge:
    """A bar that fills `share` (0 to 1) of its track, beside its words."""

    share: float
    tone: Tone


@dataclass(frozen=True)
class Badge:
    """Words on a coloured ground."""

    tone: Tone


@dataclass(frozen=True)
class Hint:
    """Short words whose whole meaning appears when pointed at; another place of the page must say it too."""

    meaning: str


Picture = Spark | Gauge | Badge | Hint


@dataclass(frozen=True)
class Table(Block):
    """Rows of words. `strong` is the row to look at; `shades` (0 to 6, or None) colours the cells after the first.

    `pictures` gives the cells of a column (its place) a picture each; where there is none, the words stand alone.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: int | None = None
    shades: tuple[tuple[int | None, ...], ...] = ()
    pictures: Mapping[int, tuple[Picture | None, ...]] = field(default_factory=dict)
    brief_rows: int = 20  # the command line prints so many of them; more would scroll the verdict off the screen
    more: int = 0  # rows of this table that stand elsewhere: folded below, or in the JSON only


@dataclass(frozen=True)
class Mark:
    """One reading on the axis of a dot plot."""

    kind: MarkKind
    value: float


@dataclass(frozen=True)
class DotRow:
    """One line of a dot plot, with its main reading in words and perhaps a second one below it.

    `interval` is drawn behind the main mark, `lower` behind the marks below the line.
    """

    label: str
    reading: str
    marks: tuple[Mark, ...]
    second: str = ""
    interval: Interval | None = None
    strong: bool = False
    lower: Interval | None = None


@dataclass(frozen=True)
class Dots(Block):
    """A dot (forest) plot; `threshold` is a labelled vertical line. Of `legend`, the marks that are drawn are shown.

    Its axis starts at 0 and goes to `reach` at least; if `span`, it runs over what is shown, for figures that are read from
    another value or fall below 0.
    """

    title: str
    description: str
    axis: str
    rows: tuple[DotRow, ...]
    legend: tuple[tuple[LegendKind, str], ...]
    threshold: tuple[str, float] | None = None
    span: bool = False
    reach: float = 0.0


@dataclass(frozen=True)
class Curve:
    """A line. `style` (0 to 7) picks colour, dashes and dots; None is one of many, drawn thin and muted.

    Among points a line goes without dots of its own (`dotted`). `bounds` has the interval of each point, None where it has none.
    """

    label: str
    points: tuple[Interval, ...]
    style: int | None
    dotted: bool = True
    bounds: tuple[Interval | None, ...] = ()


@dataclass(frozen=True)
class Cloud:
    """Points without a line. `style` gives them colour and shape of a curve's dots in place of the marks of their kind.

    Without a label they belong to the curve of the same style, and the legend has no line of their own.
    """

    label: str
    points: tuple[Interval, ...]
    kind: MarkKind
    style: int | None = None


@dataclass(frozen=True)
class Curves(Block):
    """Lines and points over common axes; `top` cuts the vertical axis off where a few points would flatten the rest.

    A linear vertical axis starts at `base`, or below it where points do; so does a horizontal one at `across_base`, if given.

    `threshold` is a labelled horizontal line, `cut` a labelled vertical one. On a logarithmic axis every point must be
    positive. If `ordered`, styles 0 to 5 are steps of one quantity and so are their colours; 6 is for what is fitted to them.
    """

    title: str
    description: str
    across: str
    up: str
    curves: tuple[Curve, ...] = ()
    log: bool = False
    top: float | None = None
    threshold: tuple[str, float] | None = None
    clouds: tuple[Cloud, ...] = ()
    log_across: bool = False
    cut: tuple[str, float] | None = None
    ordered: bool = False
    base: float = 0.0
    across_base: float | None = None


@dataclass(frozen=True)
class Grid(Block):
    """A heat map of the wells of a plate in colours that part at 0; a value that is not finite is a well that stays blank.

    `reach` is the value, above and below 0, at which colours are deepest; `unit` says of what. If not `signed`, no value is below 0.
    """

    title: str
    description: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    reach: float
    unit: str
    signed: bool = True


@dataclass(frozen=True)
class Image:
    """A raster picture: a PNG in base64. `alt` is read in its place; `lines` name its lines, all as high, from the top."""

    title: str
    alt: str
    png: str
    width: int
    height: int
    lines: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether it is a picture at all. Results come from files, and nothing else may enter a page as one."""
        try:
            begins = base64.b64decode(self.png, validate=True).startswith(PNG)
        except (binascii.Error, ValueError):
            return False
        return begins and self.width > 0 and self.height > 0


@dataclass(frozen=True)
class Gallery(Block):
    """Pictures to compare: side by side where the screen is wide enough, else one below the other. `small`: a few pixels each."""

    title: str
    description: str
    images: tuple[Image, ...]
    small: bool = False


@dataclass(frozen=True)
class Key(Block):
    """A legend that holds for all figures after it."""

    marks: tuple[tuple[LegendKind, str], ...]


@dataclass(frozen=True)
class Fold(Block):
    """Content that opens on demand."""

    summary: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Heading(Block):
    """A heading inside a section."""

    text: str


@dataclass(frozen=True)
class Section:
    """A titled part of the page; `key` names it in links."""

    key: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """Everything a reader sees; `guide` says in two sentences how to read it."""

    title: str
    subtitle: str
    guide: str
    byline: str
    sections: tuple[Section, ...]
