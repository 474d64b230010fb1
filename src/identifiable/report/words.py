"""How numbers and names are said to a reader: the only place where anything is rounded."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from identifiable._checks import counted as counted
from identifiable._checks import one_line as one_line
from identifiable._checks import plural as plural
from identifiable.results import Interval, PairResult

MISSING = "–"

# Blanks that a line of the page must not break at.
BREAKS = (
    r"(?<=[\d\]]) (?=[%±])|(?<=[≤≥]) (?=\d)|(?<=\|r\|) (?=[\d≥])"
    r"|(?<=±) (?=[\d–])|(?<=\bmean) (?=/)|(?<=\bmean\s/) (?=diam)|(?<=\b[pnd]) (?=[<\d])"
    r"|(?<=ε) (?==)|(?<=ε\s=) (?=\S)"
)

NESTED = ("signed_permutation", "rigid", "similarity", "linear")

GROUPS = {
    "signed_permutation": "signed permutation",
    "rigid": "rigid",
    "similarity": "similarity",
    "linear": "linear",
    "ica": "ICA",
}

UP_TO = {
    "signed_permutation": "a signed permutation",
    "rigid": "a rigid motion",
    "similarity": "a similarity",
    "linear": "a linear map",
    "ica": "a signed permutation of independent components",
}

LETTERS = {"signed_permutation": "P", "rigid": "R", "similarity": "S", "linear": "L", "ica": "I"}


EFFECTIVE_RANK = (
    "Effective rank is the exponential of the entropy of the variance shares (Roy and Vetterli 2007): "
    "d if all directions carry the same variance, near 1 if one carries all."
)


def group_name(group: str) -> str:
    """The group in words."""
    return GROUPS.get(group, one_line(group.replace("_", " ")))


def named(names: Mapping[str, str], key: str) -> str:
    """What `key` is called, or the key itself in plain words."""
    return names.get(key) or one_line(key).replace("_", " ")


def known(value: float | None) -> bool:
    """Whether there is a number to show."""
    return value is not None and math.isfinite(value)


def number(value: float | None, decimals: int = 3) -> str:
    """Fixed decimals where they say something, powers of ten where they would not, a dash where there is nothing."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    size = abs(value)
    if size < 0.5 * 10**-decimals or size >= 1e5:
        digits, power = f"{value:.1e}".split("e")
        return f"{digits}e{int(power)}"
    if size >= 100:
        return f"{value:,.1f}"
    return f"{value:.{min(decimals, 2) if size >= 10 else decimals}f}"


def score(value: float | None, decimals: int = 3) -> str:
    """A score whose scale is known, such as CKA: plain decimals however small it is, where it lies in [-1, 1]."""
    if value is None or not math.isfinite(value) or abs(value) > 1:
        return number(value, decimals)
    return f"{round(value, decimals) + 0.0:.{decimals}f}"  # + 0.0 makes of -0 a plain 0


def beside(value: float | None, limit: float) -> str:
    """`value` with as many decimals as it takes to see on which side of `limit` it lies."""
    if value is None or not math.isfinite(value) or value == limit:
        return number(value)
    for decimals in range(3, 9):
        if float(f"{value:.{decimals}f}") != limit:
            return number(value, decimals)
    return f"{value!r}"


def short(value: float) -> str:
    """A setting or an axis label: as few digits as it takes."""
    return f"{value:g}" if math.isfinite(value) else MISSING


def interval(value: Interval | None, said: Callable[[float], str] = number) -> str:
    """[low, high]."""
    if value is None or not (known(value[0]) and known(value[1])):
        return MISSING
    return f"[{said(value[0])}, {said(value[1])}]"


def probability(value: float | None) -> str:
    """A p-value."""
    if value is None or not math.isfinite(value):
        return MISSING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def percent(value: float | None) -> str:
    """A share, as whole per cent; beyond a thousand it is only said to be."""
    if value is None or not math.isfinite(value):
        return MISSING
    if abs(value) >= 10:
        return "above 999 %" if value > 0 else "below -999 %"
    return f"{100 * value:.0f} %"


def share(value: float | None) -> str:
    """A part of the whole in per cent, with decimals where it is small: among a thousand parts most are."""
    if value is None or not math.isfinite(value):
        return MISSING
    shown = 100 * value
    if 0 < shown < 0.01:
        return "<0.01 %"
    return f"{shown:.{0 if shown >= 10 else 1 if shown >= 1 else 2}f} %"


def significant(value: float | None, digits: int = 6) -> str:
    """A number whose last digits matter, such as the contrasts of two starts."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:,.{digits}g}"


def plus_minus(value: float | None, error: float | None) -> str:
    """A number to the first digit that its standard error leaves uncertain, or to the second where the first is a 1."""
    if value is None or not math.isfinite(value):
        return MISSING
    if error == 0:
        return number(value)  # no spread was seen, which is not the same as certain
    if error is None or not math.isfinite(error) or error < 0:
        return f"{number(value)} ± {number(error)}"
    power = math.floor(math.log10(error))
    decimals = max(0, (1 if error < 2 * 10.0**power else 0) - power)
    if decimals > 5 or max(abs(value), error) >= 1e5:
        return f"{number(value)} ± {number(error)}"
    return f"{round(value, decimals) + 0.0:,.{decimals}f} ± {error:,.{decimals}f}"  # + 0.0 makes of -0 a plain 0


def signed(value: float) -> str:
    """A difference with its sign."""
    return f"+{number(value)}" if known(value) and value > 0 else number(value)


def estimate(
    value: float | None,
    bounds: Interval | None,
    said: Callable[[float], str] = number,
    ends: Callable[[float], str] = number,
) -> str:
    """'0.809 [0.790, 0.828]', without the interval where there is none."""
    if value is None or not math.isfinite(value):
        return MISSING
    within = interval(bounds, ends)
    return said(value) if within == MISSING else f"{said(value)} {within}"


def yes_no(value: bool | None) -> str:
    return MISSING if value is None else "yes" if value else "no"


def percent_interval(value: Interval | None) -> str:
    """[low, high] in per cent."""
    if value is None or not (known(value[0]) and known(value[1])):
        return MISSING
    return f"[{100 * value[0]:.0f}, {100 * value[1]:.0f}] %"


def count(value: int) -> str:
    """A whole number with thousands apart."""
    return f"{value:,}"


def ratio(n: int, d: int) -> str:
    """Rows per dimension."""
    if d == 0:
        return MISSING
    value = n / d
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def duration(seconds: float) -> str:
    """'12 s', '3.4 min', '2.1 h'."""
    if seconds < 120:
        return f"{number(seconds, 1)} s"
    return f"{number(seconds / 60, 1)} min" if seconds < 7200 else f"{number(seconds / 3600, 1)} h"


def rows(value: int) -> str:
    """So many rows."""
    return counted(value, "row")


def listed(words: Iterable[str]) -> str:
    """a, b and c."""
    items = list(words)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


def sentence_of(text: str) -> str:
    """The words of a result as a sentence on one line."""
    said = one_line(text).strip()
    if not said:
        return MISSING
    return f"{said[0].upper()}{said[1:]}{'' if said.endswith(('.', '!', '?')) else '.'}"


def bound(text: str) -> str:
    """`text` with what belongs together ('95 %', '1 ± 2', 'mean / diameter', 'p 0.010', 'ε = 0.1') kept on one line."""
    return re.sub(BREAKS, "\u00a0", text)


def display_name(name: str) -> str:
    """A name as it appears in titles and sentences; the table of inputs has it whole."""
    return clip(one_line(name), 60)


def arrow(pair: PairResult) -> str:
    """source → target."""
    return f"{display_name(pair.source)} → {display_name(pair.target)}"


def setting(value: Any) -> str:
    """A setting as one line."""
    if value is None:
        return MISSING
    return one_line(value) if isinstance(value, str) else one_line(json.dumps(value, ensure_ascii=False))


def columns_wide(text: str) -> int:
    """Terminal columns that `text` takes: two for East Asian wide characters, none for combining marks."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def pad(text: str, width: int, *, right: bool = False) -> str:
    """`text` filled with blanks to `width` terminal columns."""
    blanks = " " * max(0, width - columns_wide(text))
    return blanks + text if right else text + blanks


def clip(text: str, width: int) -> str:
    """`text`, cut in the middle with an ellipsis if it is wider than `width`."""
    if columns_wide(text) <= width:
        return text
    half = (width - 1) // 2
    return f"{_head(text, width - 1 - half)}…{_head(text[::-1], half)[::-1]}"


def _head(text: str, width: int) -> str:
    """As many characters from the start as fit into `width` columns."""
    used = 0
    for i, character in enumerate(text):
        used += _columns(character)
        if used > width:
            return text[:i]
    return text
