"""Codes and values in words. The words are in `messages.md`: a part for each class, a heading for each code.

A paragraph is one wording; the first of which all names are among the values is taken. A name stands in braces, with a form
behind a colon: that of Python (`.2f`), `%`, a noun to count (`{n:row}` is "3 rows"), one word for 1 and another for more
(`{n:is|are}`), or `name`: what readers call a metric, a method or a classifier (of a dict its keys: `{metrics:name .3f}`). The
values `after_ica`, `metric` and `name` stand before a message that does not show them itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import Any, NamedTuple

from identifiable.report.screen_names import name_of
from identifiable.report.words import MISSING, count, counted, percent, plural

SHOWN = 5  # names of a list; the result has all of them
BEFORE = {"after_ica": "after ICA ({})", "metric": "{}", "name": "{}"}


def message(kind: str, code: str, values: Mapping[str, Any]) -> str:
    """What a code of a class says with these values; a code without words is said as it is."""
    fitting = (each for each in wordings(kind).get(code, ()) if each[1] <= values.keys())
    words, names = next(fitting, ("", frozenset()))
    if not words:
        return code
    text = _FORMATTER.vformat(words, (), values)
    before = "".join(f"{form.format(values[n])}: " for n, form in BEFORE.items() if n in values.keys() - names)
    alone = kind != "Note" and not before and not words.startswith("{")
    return before + (text[:1].upper() + text[1:] if alone else text)


@cache
def wordings(kind: str) -> Mapping[str, tuple[tuple[str, frozenset[str]], ...]]:
    """Of every code of a class its wordings, each with the names it needs."""
    text = files("identifiable.report").joinpath("messages.md").read_text(encoding="utf-8")
    part = re.split(rf"^# {kind}$", text, flags=re.MULTILINE)[1:]
    found = {}
    for entry in re.split(r"^## ", part[0].split("\n# ")[0], flags=re.MULTILINE)[1:] if part else ():
        code, *paragraphs = (" ".join(paragraph.split()) for paragraph in entry.strip().split("\n\n"))
        found[code] = tuple((words, names_in(words)) for words in paragraphs)
    return found


def names_in(words: str) -> frozenset[str]:
    """The values that a wording shows."""
    parts = list(Formatter().parse(words))
    return frozenset(name for _, name, _, _ in parts if name).union(
        *(names_in(form) for _, _, form, _ in parts if form)
    )


class Extent(NamedTuple):
    """The numbers of more than one result, as a range."""

    low: float
    high: float


class _Said(Formatter):
    def format_field(self, value: Any, form: str) -> str:
        if isinstance(value, Extent):
            ends = dict.fromkeys(self.format_field(end, form) for end in value)
            return " to ".join(ends)
        if "|" in form:
            one, more = form.split("|")
            return one if value == 1 else more
        if form.split(" ")[0] == "name":
            if isinstance(value, Mapping):
                shown = [f"{name_of(name)} {self.format_field(part, form[5:])}" for name, part in value.items()]
            else:
                shown = list(map(name_of, value)) if isinstance(value, list) else [name_of(value)]
            return ("; " if any("," in each for each in shown) else ", ").join(shown)  # some names have a comma
        if isinstance(value, Mapping):
            told = ((name, part, self.format_field(part, form)) for name, part in value.items())
            value, form = [f"{n} ({said})" if isinstance(part, list) else f"{n} {said}" for n, part, said in told], ""
        if isinstance(value, list):
            shown = [self.format_field(part, form) for part in value[:SHOWN]]
            return ", ".join(shown) + (f" and {count(len(value) - SHOWN)} more" if len(value) > SHOWN else "")
        if value is None:  # not finite
            return MISSING
        if form == "%":
            return percent(float(value))
        if form == "plural":
            return plural(value)
        if len(form) > 1 and form.replace(" ", "").isalpha():
            return counted(value, form)
        return count(value) if isinstance(value, int) and not form else str(format(value, form))


_FORMATTER = _Said()
