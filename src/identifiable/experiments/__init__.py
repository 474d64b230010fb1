"""The papers' experiments: which data, which settings, what is published. The work is done by the rooms below."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from types import MappingProxyType
from typing import Any, get_args

from identifiable._checks import UsageError
from identifiable.options import ReproduceOptions, Scale, takes
from identifiable.results import Mechanistic, Reproduction, RoederFigure, Table1, Table2, Table3

__all__ = ["EXPERIMENTS", "Experiment", "reproduce"]

SCALES = get_args(Scale)


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


MODULES: Mapping[str, str] = {
    "table1": "table1",
    "table2": "table2",
    "table3": "table3",
    "mechanistic": "mechanistic",
    "roeder-fig1": "roeder.words",
    "roeder-fig2": "roeder.radial",
    "roeder-fig3": "roeder.cpc",
    "roeder-fig4": "roeder.language",
}
"""The file of every experiment that has one to itself; it has `settings(scale, changes)` and `run(experiment, chosen, options)`."""


@takes(ReproduceOptions)
def reproduce(
    name: str, /, *, options: ReproduceOptions
) -> Reproduction | Table1 | Table2 | Table3 | RoederFigure | Mechanistic:
    """Run an experiment of the paper again.

    `scale` is `smoke` (at most a minute, on data that needs no file unless there is `data`), `small` or `paper`; `changes`
    replaces settings by name.
    """
    if name not in EXPERIMENTS:
        raise UsageError(f"there is no experiment {name!r}; choose from {', '.join(EXPERIMENTS)}.")
    changes = dict(options.changes)
    if name in MODULES:
        module = import_module(f"identifiable.experiments.{MODULES[name]}")
        found: Table1 | Table2 | Table3 | RoederFigure | Mechanistic = module.run(
            EXPERIMENTS[name], module.settings(options.scale, changes), options
        )
        return found
    from identifiable.experiments import warm_up

    return warm_up.run(name, EXPERIMENTS[name], warm_up.settings(name, options.scale, changes), options)
