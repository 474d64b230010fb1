"""What every result carries: its inputs, alerts and provenance; and how it shows itself."""

from __future__ import annotations

import os
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from identifiable._extras import require
from identifiable.results.serial import SCHEMAS, plain, to_json
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
class Said:
    """A code and its values, plain as in JSON. `message` has the words, which are in `report/messages.md` and may change.

    `stored` is the message of a result that was read from a file; it is shown as it is.
    """

    code: str
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)
    stored: str | None = field(default=None, compare=False, repr=False, metadata={"json": "message"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", plain(self.values))

    @property
    def message(self) -> str:
        words = (
            report_room().message(type(self).__name__, self.code, self.values) if self.stored is None else self.stored
        )
        return str(words)


class Alert(Said):
    """Something a reader must know before trusting a number."""


class Reason(Said):
    """Why something is called what it is."""


class Note(Said):
    """What a number was measured on, or a fit made of."""


def joined(notes: Iterable[Note]) -> str:
    """Several notes as one text."""
    return "; ".join(note.message for note in notes)


@dataclass(frozen=True)
class Answer(Said):
    """What a result says in a sentence or two: its verdict, then what must be said beside it."""

    remarks: tuple[Said, ...] = ()

    @property
    def message(self) -> str:
        return (
            super().message
            if self.stored is not None
            else " ".join((super().message, *(more.message for more in self.remarks)))
        )


@dataclass(frozen=True)
class Provenance:
    """What it takes to get these numbers again."""

    version: str
    libraries: Mapping[str, str]
    seed: int
    command: str
    time: str


@dataclass(frozen=True, repr=False)
class Shown:
    """A result: what every result has, and how it shows itself in a line, as text, JSON, a page or a data frame.

    A class is known by its `schema`. `about` and `gist` make the line; `rows_in` names the field whose records are the rows of
    the data frame.
    """

    inputs: tuple[Input, ...]
    settings: Mapping[str, Any]
    alerts: tuple[Alert, ...]
    provenance: Provenance
    rows_in: ClassVar[str]

    def __init_subclass__(cls) -> None:
        if "schema" in vars(cls):
            SCHEMAS[cls.__dict__["schema"]] = cls

    @property
    def headline(self) -> str:
        """What was found, in a sentence."""
        return str(report_room().headline(self))

    @property
    def about(self) -> str:
        """What it is a result of: the kind, and the tables by name."""
        names = [shorten(i.name, 24) for i in self.inputs]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"{type(self).__name__} of {', '.join(names[:3])}{more}"

    @property
    def gist(self) -> str:
        """What was found, as briefly as possible."""
        return self.headline

    def __repr__(self) -> str:
        return f"<{shorten(f'{self.about}: {self.gist}', LINE - 2)}>"

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
    for each in (f for f in fields(record) if f.name != "stored"):
        name, value = f"{before}{each.name}", getattr(record, each.name)
        if isinstance(value, Said):
            found[name] = value.message
        elif is_dataclass(value):
            found |= flat(value, f"{name}_")
        elif each.name.endswith(CI95):
            stem = name.removesuffix(CI95)
            found |= dict(zip((f"{stem}low", f"{stem}high"), value or (None, None), strict=True))
        elif value is None or isinstance(value, bool | int | float | str):
            found[name] = value
    if isinstance(record, Said):
        found[f"{before}message"] = record.message
    return found


def shorten(text: str, width: int) -> str:
    """In one line of at most `width` characters, all of which can be printed."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def report_room() -> Any:
    """The one call upwards: a result can show and word itself. By name and when asked, so this room imports nothing above it."""
    return import_module("identifiable.report")


T = TypeVar("T")


def without_time(result: T) -> T:
    """The same result with what changes between equal runs left empty: when it was made and, of an evaluation, how long it took."""
    record: Any = result
    empty: dict[str, Any] = {"times": ()} if hasattr(record, "times") else {}
    return typing.cast(T, replace(record, provenance=replace(record.provenance, time=""), **empty))
