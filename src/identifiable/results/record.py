"""What every result carries: its inputs, alerts and provenance; and how it shows itself."""

from __future__ import annotations

import os
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from identifiable._extras import require
from identifiable.results.serial import to_json
from identifiable.results.writing import write_text

Interval = tuple[float, float]
CI95 = "ci95"  # the end of the name of every field that holds an interval
LINE = 199  # characters of a repr, at most


@dataclass(frozen=True)
class Input:
    """One representation that went in. `sha256` is of its values, row by row, whatever the container."""

    name: str
    n: int
    d: int
    dtype: str
    sha256: str


@dataclass(frozen=True)
class Alert:
    """Something a reader must know before trusting a number."""

    code: str
    message: str


@dataclass(frozen=True)
class Provenance:
    """What it takes to get these numbers again."""

    version: str
    libraries: Mapping[str, str]
    seed: int
    command: str
    time: str


class Shown:
    """A result that can show itself in a line, as text, JSON, a page or a data frame.

    `about` and `headline` make the line; `rows_in` names the field whose records are the rows of the data frame.
    """

    inputs: tuple[Input, ...]
    rows_in: ClassVar[str]

    @property
    def about(self) -> str:
        """What it is a result of: the kind, and the tables by name."""
        names = [shorten(i.name, 24) for i in self.inputs]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"{type(self).__name__} of {', '.join(names[:3])}{more}"

    @property
    def headline(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{shorten(f'{self.about}: {self.headline}', LINE - 2)}>"

    def to_frame(self) -> Any:
        """The numbers as a tidy pandas data frame: one row for each pair and measure, component, score or point."""
        require("pandas", extra="frames", what="to_frame")
        import pandas

        return pandas.DataFrame(list(self.rows()))

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """The rows of `to_frame`, by column."""
        for record in getattr(self, self.rows_in):
            yield flat(record)

    def table(self) -> str:
        """The result as text, as the command line prints it."""
        return str(report_room().text_table(self))

    def to_json(self) -> str:
        """The result as JSON text; `schema` names its form."""
        return to_json(self)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the self-contained page and return its path."""
        return write_text(path, report_room().html(self))

    def _repr_html_(self) -> str:
        return str(report_room().fragment(self))


class Holder:
    """What a call returns with its result: it shows itself as the result does."""

    result: Any

    def __repr__(self) -> str:
        return f"<{shorten(f'{type(self).__name__}: {self.result.headline}', LINE - 2)}>"

    def _repr_html_(self) -> str:
        return str(self.result._repr_html_())

    def to_frame(self) -> Any:
        """The result as a pandas data frame."""
        return self.result.to_frame()


def flat(record: Any, before: str = "") -> dict[str, Any]:
    """The numbers and words of a record by name; an interval `x_ci95` as x_low and x_high, a record within it as x_name."""
    found: dict[str, Any] = {}
    for field in fields(record):
        name, value = f"{before}{field.name}", getattr(record, field.name)
        if is_dataclass(value):
            found |= flat(value, f"{name}_")
        elif field.name.endswith(CI95):
            stem = name.removesuffix(CI95)
            found |= dict(zip((f"{stem}low", f"{stem}high"), value or (None, None), strict=True))
        elif value is None or isinstance(value, bool | int | float | str):
            found[name] = value
    return found


def shorten(text: str, width: int) -> str:
    """In one line of at most `width` characters, all of which can be printed."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def report_room() -> Any:
    """The one call upwards: a result can show itself. By name and when asked, so this room imports nothing above it."""
    return import_module("identifiable.report")


T = TypeVar("T")


def without_time(result: T) -> T:
    """The same result with what changes between equal runs left empty: when it was made and, of an evaluation, how long it took."""
    record: Any = result
    empty: dict[str, Any] = {"times": ()} if hasattr(record, "times") else {}
    return typing.cast(T, replace(record, provenance=replace(record.provenance, time=""), **empty))
