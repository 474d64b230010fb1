"""How a call runs: its seed, where its passes run, whom it tells how far it is, and what it has noticed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from identifiable._checks import UsageError
from identifiable._compiling import prepare
from identifiable.results import Alert, Input, Provenance


@dataclass(frozen=True)
class Stage:
    """What a call is doing: `name`, of which table or model (`of`), and in which pass where it passes until it has converged (from 1).

    `about` is how many passes it is likely to take, from how fast it has converged so far.

    >>> str(Stage("resolving", "run1", 3, about=12))
    'run1: resolving, pass 3 of about 12'
    """

    name: str
    of: str = ""
    number: int = 0
    about: int = 0

    @property
    def work(self) -> Stage:
        """The same without what changes from pass to pass."""
        return Stage(self.name, self.of)

    def __str__(self) -> str:
        words = f"{self.of}: {self.name}" if self.of else self.name
        total = f" of about {self.about}" if self.about > self.number else ""
        return f"{words}, pass {self.number}{total}" if self.number else words


COMPILING = Stage("compiling")  # once on a machine: what it makes is kept on disk

Progress = Callable[[Stage, int, int], None]
"""``progress(stage, done, total)``, in rows or in items; called from the thread that called the estimate."""


@dataclass(eq=False)
class Run:
    """What travels through every call besides its data and its options.

    `cluster` is a `distributed.Client` whose workers make the passes over rows. `alerts` are what a reader must know; `inputs` and
    `provenance` the record of the tables and of the command, where they are known already. `log` keeps the passes of a call that
    may be stopped (`blocks.PassLog`).
    """

    seed: int = 0
    workers: int | None = None
    cluster: Any = None
    progress: Progress | None = None
    alerts: list[Alert] = field(default_factory=list)
    inputs: Sequence[Input] = ()
    provenance: Provenance | None = None
    log: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, (int, np.integer)) or self.seed < 0:
            raise UsageError(f"seed {self.seed!r}: expected a whole number of at least 0.")

    @classmethod
    def of(cls, options: Any, **beside: Any) -> Self:
        """As the options of a call say."""
        return cls(options.seed, getattr(options, "workers", None), progress=options.progress, **beside)

    @property
    def how(self) -> dict[str, Any]:
        """Threads, cluster, progress and the log of passes, as `fold` takes them."""
        return {"workers": self.workers, "cluster": self.cluster, "progress": self.progress, "log": self.log}

    def say(self, stage: Stage, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(stage, done, total)

    def prepare(self, kernel: Callable[..., Any], *like: Any) -> None:
        """Compile a function for such arguments, here and not in a thread, or read it from disk; say so if that takes its time."""
        prepare(kernel, like, lambda: self.say(COMPILING, 0, 1))


PLAIN = Run()  # all cores, no cluster, nobody told
