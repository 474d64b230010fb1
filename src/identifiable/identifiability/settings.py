"""What can be asked of a comparison, and the defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from identifiable._checks import UsageError
from identifiable.groups import GROUPS
from identifiable.identifiability.ladder import ICA
from identifiable.identifiability.nulls import NULLS

RUNGS = (*GROUPS, ICA)
PROTOCOLS = ("default", "paper")


@dataclass(frozen=True)
class Settings:
    """What was asked. Everything here moves a number; where and in what blocks it runs does not."""

    groups: tuple[str, ...] = RUNGS
    folds: int = 5
    group_by: str | None = None
    bootstrap: int = 200
    nulls: tuple[str, ...] = NULLS
    null_draws: int = 99
    epsilon: float = 0.1
    protocol: str = "default"
    seed: int = 0

    def __post_init__(self) -> None:
        _known("group", self.groups, RUNGS)
        _known("null", self.nulls, NULLS)
        _known("protocol", (self.protocol,), PROTOCOLS)
        if not self.groups:
            raise UsageError(f"choose at least one group from {', '.join(RUNGS)}.")
        for name in ("folds", "bootstrap", "null_draws", "seed"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise UsageError(f"{name}: expected a whole number, got {value!r}.")
        if not 0 <= self.seed < 2**32:
            raise UsageError(f"seed: expected a number from 0 to 4294967295, got {self.seed}.")
        if self.bootstrap < 0 or self.null_draws < 1 or not 0 < self.epsilon < float("inf"):
            raise UsageError(
                f"expected bootstrap >= 0, null_draws >= 1 and a finite epsilon > 0, "
                f"got {self.bootstrap}, {self.null_draws} and {self.epsilon}."
            )

    def public(self) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in vars(self).items() if k != "seed"}


def _known(what: str, names: Sequence[str], choices: Sequence[str]) -> None:
    for name in names:
        if name not in choices:
            raise UsageError(f"unknown {what} {name!r}; choose from {', '.join(choices)}.")


DEFAULT = Settings()
