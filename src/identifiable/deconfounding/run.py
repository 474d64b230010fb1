"""How a call runs: its seed, its threads, what it begins with, and where its time went."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from identifiable._checks import UsageError
from identifiable.blocks import Blocks, Progress
from identifiable.intake import default_provenance, inputs_of
from identifiable.representation import Representation
from identifiable.results import Alert, Input, Provenance, StageTime


@dataclass(frozen=True, eq=False)
class Run:
    """What every call of this room is given besides its data and its options.

    `inputs`, `provenance` and `alerts` are what is already known of the table: its record, the command, and what was said when
    its roles were assigned.
    """

    seed: int = 0
    workers: int | None = None
    progress: Progress | None = None
    inputs: Sequence[Input] = ()
    provenance: Provenance | None = None
    alerts: Sequence[Alert] = ()

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, (int, np.integer)) or self.seed < 0:
            raise UsageError(f"seed {self.seed!r}: expected a whole number of at least 0.")

    @property
    def how(self) -> dict[str, Any]:
        """Threads and progress, as passes over rows take them."""
        return {"workers": self.workers, "progress": self.progress}

    def inputs_of(self, blocks: Blocks) -> tuple[Input, ...]:
        """The record of the table that was given, or of these rows."""
        return tuple(self.inputs) or inputs_of([Representation(blocks, name=blocks.name)], **self.how)

    def record(self, call: str) -> Provenance:
        """The provenance given, or that of a call made from Python."""
        return self.provenance or default_provenance(self.seed, f"identifiable.deconfound.{call}(...)")


class Clock:
    """Seconds and units of every stage, in the order in which stages began."""

    def __init__(self) -> None:
        self._stages: dict[str, list[float]] = {}

    @contextmanager
    def stage(self, name: str, units: int = 1) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - begun, units)

    def add(self, name: str, seconds: float, units: int) -> None:
        entry = self._entry(name)
        entry[0] += seconds
        entry[1] += units

    def kept(self, name: str, units: int = 1) -> None:
        """Units that were read, not computed."""
        entry = self._entry(name)
        entry[1] += units
        entry[2] += units

    def times(self) -> tuple[StageTime, ...]:
        return tuple(StageTime(name, s, int(units), int(kept)) for name, (s, units, kept) in self._stages.items())

    def _entry(self, name: str) -> list[float]:
        return self._stages.setdefault(name, [0.0, 0, 0])
