"""What a part of the suite reports: how often something was tried, and how often the promise did not hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

EXAMPLES = 12  # failures that a check keeps to be read


@dataclass
class Check:
    """One row of the table: `name` was tried `tried` times and the promise was broken `broken` times.

    `most` is how often it may be broken (mutants that survive), `note` what was measured beside (seconds, memory).
    """

    part: str
    name: str
    tried: int = 0
    broken: int = 0
    most: int = 0
    note: str = ""
    seconds: float = 0.0
    examples: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic, repr=False)

    def count(self, fault: str | None) -> None:
        """One more try; `fault` says what went wrong, None that nothing did."""
        self.tried += 1
        self.seconds = time.monotonic() - self.started
        if fault is not None:
            self.broken += 1
            if len(self.examples) < EXAMPLES:
                self.examples.append(fault)

    @property
    def kept(self) -> bool:
        """Whether the promise held; never where nothing was tried."""
        return self.tried > 0 and self.broken <= self.most


@dataclass(frozen=True)
class Setting:
    """What a part is given: a seed, the share of the full number of tries, an empty folder of its own, processes it may use."""

    seed: int
    share: float
    folder: Path
    jobs: int = 1

    def of(self, tries: int) -> int:
        """So many tries at full size; at least one."""
        return max(round(tries * self.share), 1)


Part = Callable[[Setting], Iterator[Check]]
