"""Results as pages: self-contained HTML, notebook fragments, Markdown and the table of the command line.

A report is a pure function of a saved result: the same result gives the same bytes.
"""

from __future__ import annotations

from identifiable.report.headlines import headline
from identifiable.report.messages import message
from identifiable.report.pages import page_of, text_table
from identifiable.report.plots import plot
from identifiable.report.render.html import html as _html
from identifiable.report.render.markdown import markdown as _markdown
from identifiable.results import Shown

__all__ = ["fragment", "headline", "html", "markdown", "message", "plot", "text_table"]


def html(result: Shown) -> str:
    """A complete page that loads nothing from elsewhere. It holds summaries only, never rows of the data."""
    return _html(page_of(result))


def fragment(result: Shown) -> str:
    """The same content for a notebook cell; its style reaches nothing outside itself."""
    return _html(page_of(result), "fragment")


def markdown(result: Shown) -> str:
    """The page as Markdown."""
    return _markdown(page_of(result))
