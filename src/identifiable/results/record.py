"""What every result carries: its inputs, alerts and provenance; and how it shows itself."""

from __future__ import annotations

import os
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from identifiable.results.serial import SCHEMAS, plain, to_json
from identifiable.results.writing import write_text

Interval = tuple[float, float]


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
            _report_room().message(type(self).__name__, self.code, self.values) if self.stored is None else self.stored
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
    """A result: what every result has, and how it shows itself as text, JSON or a page. A class is known by its `schema`."""

    inputs: tuple[Input, ...]
    settings: Mapping[str, Any]
    alerts: tuple[Alert, ...]
    provenance: Provenance

    def __init_subclass__(cls) -> None:
        if "schema" in vars(cls):
            SCHEMAS[cls.__dict__["schema"]] = cls

    @property
    def headline(self) -> str:
        """What was found, in a sentence."""
        return str(_report_room().headline(self))

    def table(self) -> str:
        """The result as text, as the command line prints it."""
        return str(_report_room().text_table(self))

    def to_json(self) -> str:
        """The result as JSON text; `schema` names its form."""
        return to_json(self)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the self-contained page and return its path."""
        return write_text(path, _report_room().html(self))

    def _repr_html_(self) -> str:
        return str(_report_room().fragment(self))


def _report_room() -> Any:
    """The one call upwards: a result can show and word itself. By name and when asked, so this room imports nothing above it."""
    return import_module("identifiable.report")


T = TypeVar("T")


def without_time(result: T) -> T:
    """The same result with what changes between equal runs left empty: when it was made and, of an evaluation, how long it took."""
    record: Any = result
    empty: dict[str, Any] = {"times": ()} if hasattr(record, "times") else {}
    return typing.cast(T, replace(record, provenance=replace(record.provenance, time=""), **empty))
