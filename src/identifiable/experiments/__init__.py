"""The papers' experiments: which data, which settings, what is published. The work is done by the rooms below."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from identifiable._checks import UsageError
from identifiable.blocks import Progress
from identifiable.results import Provenance, Reproduction, Table2, Table3

__all__ = ["EXPERIMENTS", "Experiment", "reproduce"]

SCALES = ("smoke", "small", "paper")


@dataclass(frozen=True)
class Experiment:
    """An experiment that can be run again; `published` and `settings` are what our copy of the paper says of it."""

    title: str
    figures: str
    data: str
    published: Mapping[str, Any]
    settings: Mapping[str, Any]
    scales: tuple[str, ...] = SCALES


def _experiments() -> Mapping[str, Experiment]:
    text = (files("identifiable.experiments") / "paper.toml").read_text(encoding="utf-8")
    return MappingProxyType({name: Experiment(**entry) for name, entry in tomllib.loads(text).items()})


EXPERIMENTS = _experiments()


def reproduce(
    name: str,
    *,
    scale: str = "smoke",
    data: str | None = None,
    seed: int = 0,
    checkpoint: str | None = None,
    changes: Mapping[str, Any] = MappingProxyType({}),
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
    provenance: Provenance | None = None,
) -> Reproduction | Table2 | Table3:
    """Run an experiment of the paper again.

    `scale` is `smoke` (at most a minute, on data that needs no file unless there is `data`), `small` or `paper`; `changes`
    replaces settings by name. `checkpoint` is a folder in which finished work is kept, so that an interrupted call can be made again.
    `say` is called with a line about every model that has been trained, or what was evaluated, where that takes long.
    """
    if name not in EXPERIMENTS:
        raise UsageError(f"there is no experiment {name!r}; choose from {', '.join(EXPERIMENTS)}.")
    if scale not in SCALES:
        raise UsageError(f"scale {scale!r}: expected one of {', '.join(SCALES)}.")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UsageError(f"seed {seed!r}: expected a whole number of at least 0.")
    if name in ("table2", "table3"):
        from identifiable.experiments import table2, table3

        tables: dict[str, Any] = {"table2": table2, "table3": table3}
        found: Table2 | Table3 = tables[name].run(
            EXPERIMENTS[name],
            tables[name].settings(scale, changes),
            scale=scale,
            data=data,
            seed=seed,
            checkpoint=checkpoint,
            progress=progress,
            say=say,
            provenance=provenance,
        )
        return found
    from identifiable.experiments import warm_up

    return warm_up.run(
        name,
        EXPERIMENTS[name],
        warm_up.settings(name, scale, changes),
        scale=scale,
        data=data,
        seed=seed,
        checkpoint=checkpoint,
        progress=progress,
        provenance=provenance,
    )
