"""A page as HTML, Markdown or text. Nothing here knows a result."""
