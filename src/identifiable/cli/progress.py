"""A one-line progress bar on stderr, only where someone is looking."""

from __future__ import annotations

import re
import shutil
import sys
import time
from types import TracebackType
from typing import Any, TextIO

from numpy.typing import NDArray

from identifiable.blocks import Blocks, Progress

WIDTH = 16
EVERY = 0.1  # seconds between redraws
STAGE_WIDTH = 20
_PASS = re.compile(r", pass \d+$")  # how a stage that makes passes until it has converged counts them


class Bar:
    """Callable as `progress(stage, done, total)`; leaves a clean line behind.

    It counts the passes over the rows. A stage of one pass shows the time left; one that makes passes until it has
    converged, "resolving x, pass 3", cannot know it and shows the time since the start.
    """

    def __init__(self, stream: TextIO | None = None):
        self.stream = stream or sys.stderr
        self.stage = ""
        self.begun = self.started = time.monotonic()
        self.done = self.passes = 0
        self.drawn = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage != self.stage or done < self.done:
            self.stage, self.started = stage, now
            self.passes += 1
        self.done = done
        if now - self.drawn < EVERY:
            return
        self.drawn = now
        share = min(done / total, 1.0) if total else 1.0
        work, converging = _PASS.subn("", stage)
        spent = now - self.started
        if converging or not 0.02 < share < 1:
            clock = f"{now - self.begun:.0f} s"
        else:
            clock = f"{spent / share - spent:.0f} s left"
        filled = "#" * int(WIDTH * share)
        self._write(f"{_clipped(work)} [{filled:.<{WIDTH}}] pass {self.passes}, {clock}  {done:,}/{total:,}")

    def _write(self, text: str) -> None:
        room = shutil.get_terminal_size().columns - 1  # a line that wraps could not be taken back
        self.stream.write("\r\x1b[2K" + text[:room])
        self.stream.flush()

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.drawn:
            self._write("")


class Watched:
    """Rows of a table that report how far they have been read, each time they are. A `blocks.Rows`."""

    def __init__(self, rows: Blocks, progress: Progress, stage: str):
        self.rows, self.progress, self.stage = rows, progress, stage
        self.shape, self.dtype = rows.shape, rows.dtype

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        values = self.rows[rows]
        self.progress(self.stage, rows.indices(self.rows.n)[1], self.rows.n)
        return values


def _clipped(text: str) -> str:
    return f"{text:<{STAGE_WIDTH}}" if len(text) <= STAGE_WIDTH else text[: STAGE_WIDTH - 1] + "…"
