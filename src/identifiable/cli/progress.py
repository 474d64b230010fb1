"""A one-line progress bar on stderr, only where someone is looking; lines for a log of long work elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType
from typing import TextIO

from identifiable._stopping import printable
from identifiable.run import Stage

WIDTH = 16
EVERY = 0.1  # seconds between redraws
SHORT = 0.5  # seconds a single pass must last to be worth a line of its own
PATIENCE = 10.0  # seconds of work from which on a log is worth a line
STEPS = 10  # lines that one stage may take, besides those that break a silence
SILENCE = 30.0  # seconds after which a log has a line though nothing new began
LONG = 5.0  # seconds from which on one of many passes says how far it is
STAGE_WIDTH = 20
NAME_WIDTH = 24
SPINNER = "|/-\\"
CLEAR = "\r\x1b[2K"  # the line the cursor is in


class Bar:
    """Callable as `progress(stage, done, total)`; leaves a clean line behind.

    A stage of one pass shows rows and the time left. One of many passes shows which model and refit, the pass, how many are
    likely, and the time that these would take; rows that run from none to all again and again would tell nothing.
    """

    def __init__(self, stream: TextIO | None = None):
        self.stream = stream or sys.stderr
        self.begun = self.entered = self.started = time.monotonic()  # of all, of the stage, of the pass
        self.stage = self.work = Stage("")  # with the number of its pass, and without
        self.left: set[Stage] = set()  # stages that are over: a late pass for one of them is no return to it
        self.done = self.repeats = self.turn = 0
        self.drawn = 0.0

    def __call__(self, stage: Stage, done: int, total: int) -> None:
        now = time.monotonic()
        self._enter(stage, done, now)
        if now - self.drawn < EVERY:
            return
        text = self._text(done, total, now)
        if text:
            self.drawn = now
            self._write(text)

    def say(self, line: str) -> None:
        """Print a line that stays, above the bar."""
        self.stream.write(f"{CLEAR}{printable(line)}\n")
        self.stream.flush()
        self.drawn = 0.0  # nothing is there now: draw at once, and leave nothing to clear

    def _enter(self, stage: Stage, done: int, now: float) -> None:
        """Notice when a pass, a stage or a model is new."""
        work = stage.work
        if work != self.work:
            self.left.add(self.work)
            self.work, self.entered, self.repeats = work, now, 0
        if stage != self.stage or done < self.done or not self.repeats:
            self.stage, self.started = stage, now
            self.repeats += 1
        self.done = done

    def _text(self, done: int, total: int, now: float) -> str:
        share = min(done / total, 1.0) if total else 1.0
        elapsed = f"elapsed {now - self.begun:.0f} s"
        spent = now - self.started
        if self.stage.number and self.work not in self.left:
            return self._count(self.stage.number, share, spent, self._forecast(share, now) or elapsed)
        if self.repeats > 1:
            return self._count(self.repeats, share, spent, elapsed) if now - self.entered >= SHORT else ""
        if spent < SHORT:
            return ""
        clock = f"{spent / share - spent:.0f} s left" if 0.02 < share < 1 else elapsed
        filled = "#" * int(WIDTH * share)
        label = f"{_clipped(str(self.work), STAGE_WIDTH):<{STAGE_WIDTH}}"
        return f"{label} [{filled:.<{WIDTH}}] {clock}  {done:,}/{total:,}"

    def _count(self, number: int, share: float, spent: float, elapsed: str) -> str:
        self.turn += 1
        within = f" ({share:.0%})" if spent >= LONG else ""
        stage = Stage(self.work.name, _shortened(self.work.of), number, self.stage.about)
        return f"{SPINNER[self.turn % len(SPINNER)]} {stage}{within}, {elapsed}"

    def _forecast(self, share: float, now: float) -> str:
        """The time that the likely passes of this stage will take; nothing where they are not known."""
        made = self.stage.number - 1 + share
        left = self.stage.about - made
        return f"{(now - self.entered) / made * left:.0f} s left" if self.stage.about and made > 1 and left > 0 else ""

    def _write(self, text: str) -> None:
        room = shutil.get_terminal_size().columns - 1  # a line that wraps could not be taken back
        self.stream.write(CLEAR + printable(text)[:room])
        self.stream.flush()

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.drawn:
            self._write("")


class Lines:
    """Callable as `progress(stage, done, total)`: a line for each new stage, for each tenth of it, and every 30 s. Short work says
    nothing.

    Lines are at least half the `patience` apart, and a stage that makes passes until it has converged is one stage: a log of an
    hour's work must be short enough to read.
    """

    def __init__(self, stream: TextIO | None = None, patience: float = PATIENCE):
        self.stream = stream or sys.stderr
        self.patience = patience
        self.begun = time.monotonic()
        self.said: tuple[Stage, int] | None = None
        self.last = -patience

    def __call__(self, stage: Stage, done: int, total: int) -> None:
        elapsed = time.monotonic() - self.begun
        now = (stage.work, 0 if stage.number else STEPS * done // max(total, 1))
        quiet = elapsed - self.last
        if elapsed < self.patience or quiet < self.patience / 2 or (now == self.said and quiet < SILENCE):
            return
        self.said, self.last = now, elapsed
        self.say(f"{stage}: {done:,} of {total:,} done, {elapsed:.0f} s")

    def say(self, line: str) -> None:
        self.stream.write(f"{printable(line)}\n")
        self.stream.flush()


def _shortened(name: str) -> str:
    """Without its middle where it is long: names of runs differ at their ends."""
    half = (NAME_WIDTH - 1) // 2
    return name if len(name) <= NAME_WIDTH else f"{name[:half]}…{name[-half:]}"


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
