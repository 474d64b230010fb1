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
- Register the page in `PAGES` and delete its entry in `TEXTS`, the old files and the old imports below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from identifiable._checks import UsageError
from identifiable.report.disentanglement import disentanglement_page
from identifiable.report.disentanglement_text import disentanglement_table
from identifiable.report.distortion import distortion_page
from identifiable.report.distortion_text import distortion_table
from identifiable.report.frame import Drawn, saved_form
from identifiable.report.page import Page
from identifiable.report.pages import attribution, audit, cleaning, comparison, evaluation, joint, resolution
from identifiable.report.render.terminal import terminal
from identifiable.report.reproduction import reproduction_page
from identifiable.report.reproduction_text import reproduction_table
from identifiable.report.table2 import table2_page
from identifiable.report.table2_text import table2_table
from identifiable.report.table3 import table3_page, table3_table
from identifiable.report.words import listed
from identifiable.results import (
    Attribution,
    Audit,
    Cleaning,
    Comparison,
    Disentanglement,
    Distortion,
    JointResolution,
    Reproduction,
    Resolution,
    ScreenEvaluation,
    Table2,
    Table3,
)

PAGES: dict[type, Callable[[Any], Page]] = {
    Comparison: comparison.page,
    Resolution: resolution.page,
    JointResolution: joint.page,
    Distortion: distortion_page,
    Reproduction: reproduction_page,
    Disentanglement: disentanglement_page,
    Table2: table2_page,
    Table3: table3_page,
    Audit: audit.page,
    ScreenEvaluation: evaluation.page,
    Attribution: attribution.page,
    Cleaning: cleaning.page,
}
# Kinds whose text is still written beside their page. A page with brief blocks needs no entry; the last to go takes the table.
TEXTS: dict[type, Callable[[Any], str]] = {
    Distortion: distortion_table,
    Reproduction: reproduction_table,
    Disentanglement: disentanglement_table,
    Table2: table2_table,
    Table3: table3_table,
}


def page_of(result: Drawn) -> Page:
    """The page of any result, exactly as it would be drawn from its saved JSON."""
    drawn = next((page for kind, page in PAGES.items() if isinstance(result, kind)), None)
    if drawn is None:
        kinds = listed(kind.__name__ for kind in PAGES)
        raise UsageError(
            f"expected a result to draw ({kinds}), got {type(result).__name__}; pass what a command returned."
        )
    return drawn(saved_form(result))


def text_table(result: Drawn) -> str:
    """What the command line prints of any result."""
    written = next((text for kind, text in TEXTS.items() if isinstance(result, kind)), None)
    return terminal(page_of(result)) if written is None else written(result)
