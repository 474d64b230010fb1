"""What `deconfound recommend` found: which correction to use, by which metrics, and what it was compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from identifiable.results.record import Answer, Interval, Note, Shown, joined
from identifiable.results.screen import ScreenDesign


@dataclass(frozen=True)
class AskedMetric:
    """A metric, what it asks, and what the input scores.

    Of `of` wells (perturbations, of consensus metrics) `queries` have a right answer. A neighbour is right if it has the same
    `label`, and must lie in another `across`. `chance` is the score of random neighbours. `reference` is the better of the
    table as it is and its z-scored columns, in this metric: what all methods are compared with.
    """

    metric: str
    better: Literal["high", "low"]
    label: str
    across: str
    queries: int
    of: int
    chance: float
    reference: str
    value: float
    ci95: Interval


@dataclass(frozen=True)
class MethodScore:
    """A metric of a method on batches held out, and its paired difference to the input."""

    method: str
    metric: str
    value: float
    ci95: Interval
    difference: float
    difference_ci95: Interval


@dataclass(frozen=True)
class TriedMethod:
    """A correction that was tried.

    `fitted` says what it learned from: "training" rows, the "own controls" of every plate or batch (also of those held out), or
    "all rows" without labels. `worth` is its smallest difference to the input over the biological metrics; `harmless` whether
    none of them falls below the input by more than the margin allows; `tied` whether it ties with the best; `picks` in how many
    folds it was chosen.
    """

    name: str
    family: str
    fitted: Literal["training", "own controls", "all rows"]
    worth: float
    harmless: bool
    tied: bool
    picks: int
    notes: tuple[Note, ...] = field(default=(), compare=False, metadata={"json": "note"})

    @property
    def note(self) -> str:
        return joined(self.notes)


@dataclass(frozen=True)
class Pick:
    """The method that was chosen without some batches (or plates)."""

    held_out: tuple[str, ...]
    method: str
    family: str


@dataclass(frozen=True)
class HeldOutScore:
    """A metric on batches that had no part in the choice of the method, and the paired difference to the input."""

    metric: str
    value: float
    difference: float
    difference_ci95: Interval


@dataclass(frozen=True)
class WellPicture:
    """Some wells in two dimensions, before and after, with their batch and their label (codes into the names; -1 is another)."""

    method: Literal["pca", "umap"]
    before: tuple[Interval, ...]
    after: tuple[Interval, ...]
    batch: tuple[int, ...]
    batches: tuple[str, ...]
    label: tuple[int, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class PlateMap:
    """The mean over plates of each well along the direction in which controls vary most within plates, before or after."""

    space: Literal["before", "after"]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, repr=False)
class Recommendation(Shown):
    """Which correction of a screen to use, chosen with whole batches held out; or to keep the table as it is.

    `chosen` is the best method, `written` what was written: `chosen`, or "as-is" with the verdict "keep-as-is". `nested` are
    scores of the choice itself: made without each part of the batches, judged on it. `wells` is how many wells the metrics are
    measured on.
    """

    design: ScreenDesign
    verdict: Literal["recommended", "tie", "keep-as-is"]
    told: Answer = field(compare=False, metadata={"json": "text"})
    chosen: str
    written: str
    family: str
    stable: float
    margin: float
    held_out: Literal["batch", "plate"]
    folds: int
    wells: int
    metrics: tuple[AskedMetric, ...]
    methods: tuple[TriedMethod, ...]
    scores: tuple[MethodScore, ...]
    nested: tuple[HeldOutScore, ...]
    picks: tuple[Pick, ...]
    skipped: Mapping[str, str]
    pictures: tuple[WellPicture, ...] = ()
    plate_maps: tuple[PlateMap, ...] = ()
    outputs: tuple[str, ...] = ()
    schema: Literal["identifiable/deconfound-recommend/1"] = "identifiable/deconfound-recommend/1"
    rows_in: ClassVar[str] = "scores"

    @property
    def text(self) -> str:
        return self.told.message

    def score(self, method: str, metric: str) -> MethodScore | None:
        """What a method scores."""
        return next((s for s in self.scores if (s.method, s.metric) == (method, metric)), None)
