"""A one-line progress bar on stderr, only where someone is looking."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

WIDTH = 24
EVERY = 0.1  # seconds between redraws


class Bar:
    """Callable as `progress(stage, done, total)`; leaves a clean line behind."""

    def __init__(self, stream: TextIO | None = None):
        self.stream = stream or sys.stderr
        self.stage = ""
        self.started = self.drawn = 0.0
        self.passes = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage != self.stage or done < getattr(self, "_last", 0):
            self.stage, self.started = stage, now
            self.passes += 1
        self._last = done
        if now - self.drawn < EVERY:
            return
        self.drawn = now
        share = done / total if total else 1.0
        spent = now - self.started
        left = f"{spent / share - spent:4.0f} s left" if 0.02 < share < 1 else f"{spent:4.0f} s"
        bar = "#" * int(WIDTH * share) + "." * (WIDTH - int(WIDTH * share))
        self._write(f"{self.passes:3d} {stage:<16.16} [{bar}] {done:,}/{total:,} {left}")

    def _write(self, text: str) -> None:
        self.stream.write("\r\x1b[2K" + text)
        self.stream.flush()

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.drawn:
            self._write("")
