"""Results as pages: self-contained HTML, notebook fragments, Markdown and the table of the command line.

A report is a pure function of a saved result: the same result gives the same bytes.
"""

from __future__ import annotations

from identifiable.report.frame import Drawn
from identifiable.report.pages import page_of, text_table
from identifiable.report.plots import plot
from identifiable.report.render.html import html as _html
from identifiable.report.render.markdown import markdown as _markdown

__all__ = ["fragment", "html", "markdown", "plot", "text_table"]


def html(result: Drawn) -> str:
    """A complete page that loads nothing from elsewhere. It holds summaries only, never rows of the data."""
    return _html(page_of(result))


def fragment(result: Drawn) -> str:
    """The same content for a notebook cell; its style reaches nothing outside itself."""
    return _html(page_of(result), "fragment")


def markdown(result: Drawn) -> str:
    """The page as Markdown."""
    return _markdown(page_of(result))
