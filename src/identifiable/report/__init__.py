"""Results as pages: self-contained HTML, notebook fragments, Markdown and the table of the command line.

A report is a pure function of a saved result: the same result gives the same bytes.
"""

from __future__ import annotations

from identifiable.report.html import fragment, html
from identifiable.report.markdown import markdown
from identifiable.report.pages import text_table

__all__ = ["fragment", "html", "markdown", "text_table"]
