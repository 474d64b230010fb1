"""What a call of this room records of itself: its inputs, its command, and where its time went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from identifiable.blocks import Blocks
from identifiable.intake import default_provenance, inputs_of
from identifiable.representation import Representation
from identifiable.results import Input, Provenance, StageTime
from identifiable.run import Run


def record_of(run: Run, call: str) -> Provenance:
    """The provenance given, or that of a call made from Python."""
    return run.provenance or default_provenance(run.seed, f"identifiable.deconfound.{call}(...)")


def table_of(run: Run, blocks: Blocks) -> tuple[Input, ...]:
    """The record of the table that was given, or of these rows."""
    return tuple(run.inputs) or inputs_of([Representation(blocks, name=blocks.name)], run)


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
