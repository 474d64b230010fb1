"""What `reproduce table1` found: errors of maps between models, as Table 1 of Nelson et al. (2026) has them, and held out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from identifiable.results.comparison import Bounded
from identifiable.results.record import Shown
from identifiable.results.reproduction import Choice
from identifiable.results.roeder import Found

MapName = Literal["signed_permutation", "ica", "similarity", "linear"]
ORDER: tuple[MapName, ...] = ("signed_permutation", "ica", "similarity", "linear")
"""The maps by their errors in every published row, the largest first. The paper calls the similarity rigid."""


@dataclass(frozen=True)
class MapError:
    """The mean error of a map over the diameter of the target: mean over ordered pairs of models.

    `in_sample` is the paper's protocol. `held_out` is of maps fitted on other rows (of ICA, the matching is), `shuffled` the same
    with rows paired at random. `untrained…` are the same of the models before training; None where they are not at hand. They
    are over another diameter, so compare each with its own shuffled error. `published` is the paper's number for the same models,
    `agreement` whether it lies in the interval.
    """

    map: MapName
    in_sample: Bounded
    held_out: Bounded
    shuffled: float
    untrained: Bounded | None = None
    untrained_held_out: Bounded | None = None
    untrained_shuffled: float | None = None
    published: float | None = None
    agreement: Found | None = None


@dataclass(frozen=True)
class OrderStep:
    """The error of `larger` less that of `smaller`, in sample and held out: above 0 if their order is the published one."""

    larger: MapName
    smaller: MapName
    in_sample: Bounded
    held_out: Bounded
    found: Found
    found_held_out: Found


@dataclass(frozen=True)
class ModelPairs:
    """A line of the table: two models, or all pairs of models that differ only in their seeds.

    kind                 `releases` (two published versions, trained apart), `shared_pretraining` (fine-tuned from one model, so
                         alike from the start), `seeds` (trained here), `published` (models of the paper)
    intervals_over       what a jackknife left out: groups of `rows`, which says nothing about training again, or `models`
    efficiency           (permutation - ICA) / (permutation - similarity), in sample
    efficiency_held_out  the same of ICA on disjoint rows; None where rows are too few for it, or there are no axes
    found                whether the errors fall in the published order: agrees if each step does, does_not if one does not
    """

    name: str
    kind: Literal["releases", "shared_pretraining", "seeds", "published"]
    models: tuple[str, ...]
    n: int
    width: int
    pairs: int
    intervals_over: Literal["rows", "models"]
    errors: tuple[MapError, ...]
    order: tuple[OrderStep, ...]
    efficiency: Bounded | None
    efficiency_held_out: Bounded | None
    found: Found
    found_held_out: Found

    def error(self, name: str) -> MapError:
        """That of a map."""
        return next(error for error in self.errors if error.map == name)


@dataclass(frozen=True, repr=False)
class Table1(Shown):
    """Table 1 of Nelson et al. (2026) run again, on the models and at the scale that `settings` say.

    `published` has the table as published. `agrees` counts lines whose errors fall in the published order.
    """

    scale: str
    choices: tuple[Choice, ...]
    published: Mapping[str, Any]
    lines: tuple[ModelPairs, ...]
    experiment: Literal["table1"] = "table1"
    schema: Literal["identifiable/reproduce-table1/1"] = "identifiable/reproduce-table1/1"
    rows_in: ClassVar[str] = "lines"

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """One for each line and map."""
        for line in self.lines:
            for error in line.errors:
                yield {
                    "name": line.name,
                    "kind": line.kind,
                    "n": line.n,
                    "width": line.width,
                    "pairs": line.pairs,
                    "map": error.map,
                    "in_sample": error.in_sample.value,
                    "held_out": error.held_out.value,
                    "shuffled": error.shuffled,
                    "untrained": None if error.untrained is None else error.untrained.value,
                }

    @property
    def about(self) -> str:
        return f"Table 1 at scale {self.scale}"
