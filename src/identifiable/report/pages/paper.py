"""The paper beside a run: which settings are its own, and the table that it prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from identifiable.report.page import Block, Column, Table
from identifiable.report.words import one_line, setting
from identifiable.results import Choice, Table2
from identifiable.results.table2 import ALL_DATA

Triple = tuple[float, float, float]


def choice_tables(choices: Sequence[Choice], lost_as: str = "Lost in our copy of the paper; ours") -> Iterator[Block]:
    """The paper's settings, those in which this run departs from it, and those that are lost, each under its own name."""
    value, papers = Column("value", "code"), Column("the paper's", "code")
    own = [c for c in choices if c.source == "paper"]
    changed = [c for c in choices if c.source == "ours" and c.paper is not None]
    lost = [c for c in choices if c.source == "ours" and c.paper is None]
    for caption, found in (("The paper's settings", own), ("Other than the paper's", changed), (lost_as, lost)):
        heads = (Column("setting", "text"), value, *((papers,) if found is changed else ()))
        if found:
            cells = [(one_line(c.name.replace("_", " ")), setting(c.value), setting(c.paper)) for c in found]
            yield Table(caption, heads, tuple(line[: len(heads)] for line in cells))


@dataclass(frozen=True)
class Published:
    """The published table: scores of each row in each column; `others` are rows whose numbers are Hsu et al.'s own."""

    columns: tuple[str, ...]
    rows: dict[str, tuple[Triple | None, ...]]
    others: tuple[str, ...]

    @classmethod
    def of(cls, result: Table2) -> Published:
        """What `published` holds. It is free-form, so only what has the form of a table is one."""
        names = tuple(_texts(result.published.get("columns")))
        rows = result.published.get("rows")
        told = {
            name: tuple(map(_scores_of, row))
            for name, row in (rows if isinstance(rows, dict) else {}).items()
            if isinstance(row, list) and len(row) == len(names)
        }
        return cls(names, told, tuple(_texts(result.published.get("by_others"))))

    @property
    def data(self) -> list[str]:
        """The data sets of the paper."""
        return [column for column in self.columns if column != ALL_DATA]

    def scores(self, row: str, column: str = ALL_DATA) -> Triple | None:
        return dict(zip(self.columns, self.rows.get(row, ()), strict=False)).get(column)


def _texts(found: Any) -> list[str]:
    return [text for text in found if isinstance(text, str)] if isinstance(found, list) else []


def _scores_of(found: Any) -> Triple | None:
    if not isinstance(found, list) or len(found) != 3:
        return None
    if not all(isinstance(value, (int, float)) and abs(value) < 100 for value in found):
        return None
    first, second, third = map(float, found)
    return first, second, third
