"""What an error must name, in whatever words: for ``match=`` and for lines that a command prints."""

from __future__ import annotations

import re


def naming(*parts: object) -> str:
    r"""The pattern of a text that names these parts in this order; a number is never a part of another one.

    >>> bool(re.search(naming("a.csv", 3, 1200), "a.csv: 3 of 1,200 rows"))
    True
    >>> [bool(re.search(naming("a.csv", 3), text)) for text in ("a.csv: 13 rows", "a.csv: 3.5", "3 rows of a.csv")]
    [False, False, False]
    """
    return "(?s)" + ".*".join(_number(p) if isinstance(p, int) else re.escape(str(p)) for p in parts)


def _number(value: int) -> str:
    return rf"(?<!\d)(?<!\d[.,])(?:{value}|{value:,})(?![.,]?\d)"
