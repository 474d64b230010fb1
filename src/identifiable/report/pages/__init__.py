"""One file per kind of result, with a function `page(result) -> Page`; this one knows which belongs to which.

How a page file is written (`comparison.py` is the example, `ladder.py` a part of it that is a noun of its own):

- `page` calls `framed(...)` (`report/frame.py`) once: title, subtitle, guide (two sentences), `verdict` blocks, `sections`,
  `reading` (how to read the page), `methods` (paragraphs) and `papers` (names in `papers.bib`). The frame adds alerts,
  inputs, versions and settings, and drops empty sections. `result` is already in its saved form.
- A section is `section(key, title, blocks)`, and its blocks come from a generator: `yield Table(...)`, `yield Text(...)`.
  A generator that yields nothing is a section that is left out.
- Mark with `brief=True` what the command line prints: the card, the tables and notes that carry the answer. There is no
  other text builder. Figures cannot be brief. `columns(..., hidden=...)` keeps columns off the terminal, `brief_rows` says how
  many rows are printed. A table that is too wide goes on below; choose short heads so that it does not. Alerts and the guide
  are printed at the end without being marked.
- Text that does not depend on the result stands in `report/glossary/<kind>.md`: what is before the first heading is the
  opening of "How to read this page", each `## Name` a term (`terms(kind, *names)`) or a paragraph (`glossary(kind)[name]`).
- A dot plot lists all its marks in `legend`; the renderer shows those that are drawn. Numbers and names go through
  `report/words.py`; names of users always through `one_line`, `display_name` or `arrow`.
- The annotation of `page(result: ...)` says whose page it is; nothing else needs to know the file.
"""

from __future__ import annotations

import pkgutil
import typing
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from identifiable._checks import UsageError
from identifiable.report.frame import saved_form
from identifiable.report.page import Page
from identifiable.report.render.terminal import terminal
from identifiable.report.words import listed
from identifiable.results import Shown


def _pages() -> Iterator[tuple[type, Callable[[Any], Page]]]:
    """The class that each `page` of this folder is annotated with, and the page."""
    for found in pkgutil.iter_modules(__path__):
        drawn = getattr(import_module(f"{__name__}.{found.name}"), "page", None)
        if drawn is not None:
            yield typing.get_type_hints(drawn)["result"], drawn


PAGES: dict[type, Callable[[Any], Page]] = dict(_pages())


def page_of(result: Shown) -> Page:
    """The page of any result, exactly as it would be drawn from its saved JSON."""
    drawn = next((page for kind, page in PAGES.items() if isinstance(result, kind)), None)
    if drawn is None:
        kinds = listed(kind.__name__ for kind in PAGES)
        raise UsageError(
            f"expected a result to draw ({kinds}), got {type(result).__name__}; pass what a command returned."
        )
    return drawn(saved_form(result))


def text_table(result: Shown) -> str:
    """What the command line prints of any result."""
    return terminal(page_of(result))
