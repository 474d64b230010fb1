"""What `reproduce mechanistic` found: are slots read off the Jacobian of a decoder that was trained without knowing them?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from identifiable.results.record import Shown
from identifiable.results.reproduction import Choice
from identifiable.results.table2 import Estimate

Way = Literal["true", "raw", "ica", "found", "then_penalty", "penalty"]
Draws = Literal["independent", "own"]


@dataclass(frozen=True)
class SlotModel:
    """One autoencoder trained without a penalty, and the factors of its decoder.

    `loss` is the mean squared error on held-out rows of variance 1. `right`: the number of factors and all their dimensions are those
    of the slots. `linear`: one basis serves all points; where none does, `found` is the nearest one. `leak` is that of the
    number found, `next_leak` that of one more.
    """

    slots: int
    overlap: float
    dependence: float
    seed: int
    loss: float
    n_factors: int
    dimensions: tuple[int, ...]
    right: bool
    certain: bool
    reason: str
    linear: bool
    leak: float
    next_leak: float


@dataclass(frozen=True)
class SlotScore:
    """The slot identifiability score of one model, read in one way.

    true           the true latents: the largest score that this regression can give
    raw            latents as trained, the first ones as the first slot
    ica            components of ICA, each in the slot that it is most about (an oracle)
    found          latents in the basis that the decoder's Jacobians give
    then_penalty   trained further from that basis with the compositional contrast
    penalty        trained with the contrast from the start, knowing the number and size of slots

    `draws`: rows on which it is measured have independent slots, or slots as dependent as those of training (`own`). `contrast` is
    the compositional contrast of the decoder's blocks, a mean over pairs; None where there is no decoder.
    """

    slots: int
    overlap: float
    dependence: float
    seed: int
    way: Way
    draws: Draws
    sis: float
    contrast: float | None = None


@dataclass(frozen=True)
class SlotCell:
    """The mean of a score over the seeds of a condition."""

    slots: int
    overlap: float
    dependence: float
    way: Way
    draws: Draws
    sis: Estimate


@dataclass(frozen=True)
class GapCell:
    """The sparsity gap of two factors of one dimension with `outputs` each, `shared` of them; Type S holds where it is above 0.

    `kind` says how the derivatives of shared outputs are related; `formula` is the gap by our closed form.
    """

    kind: Literal["proportional", "generic"]
    outputs: int
    shared: int
    gap: int
    formula: int


@dataclass(frozen=True, repr=False)
class Mechanistic(Shown):
    """Slot autoencoders over overlap, slots, dependence and seeds.

    `lift` is found less raw, over all conditions. `over_ica` is found less ICA where training slots are dependent, None if none
    are. Both are differences within models on independent draws; each seed's mean over conditions comes first.
    """

    scale: str
    choices: tuple[Choice, ...]
    published: Mapping[str, Any]
    lift: Estimate
    over_ica: Estimate | None
    cells: tuple[SlotCell, ...]
    gaps: tuple[GapCell, ...]
    models: tuple[SlotModel, ...]
    scores: tuple[SlotScore, ...]
    experiment: Literal["mechanistic"] = "mechanistic"
    schema: Literal["identifiable/reproduce-mechanistic/1"] = "identifiable/reproduce-mechanistic/1"
    rows_in: ClassVar[str] = "scores"

    @property
    def right(self) -> float:
        """Share of models whose factors have the number and dimensions of the slots."""
        return sum(model.right for model in self.models) / len(self.models) if self.models else float("nan")

    def cell(
        self, slots: int, overlap: float, dependence: float, way: Way, draws: Draws = "independent"
    ) -> SlotCell | None:
        """The mean of one condition, or None."""
        key = (slots, overlap, dependence, way, draws)
        return next((c for c in self.cells if (c.slots, c.overlap, c.dependence, c.way, c.draws) == key), None)

    @property
    def about(self) -> str:
        return f"slot autoencoders at scale {self.scale}"
