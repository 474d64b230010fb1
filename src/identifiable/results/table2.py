"""What `reproduce table2` found: models trained on pictures with known factors, scored by InfoMEC, before and after ICA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from identifiable.results.disentanglement import Kind
from identifiable.results.record import Interval, Shown
from identifiable.results.reproduction import Choice

ALL_DATA = "all"  # a cell or lift over every data set: of each seed the mean over them


@dataclass(frozen=True)
class Evaluation:
    """A model after `step` steps, on the validation pictures.

    `scores` has InfoM, InfoE and InfoC of the latents as they are (`none`) and, of a plain autoencoder, after ICA in each mode.
    """

    step: int
    loss: float
    psnr: float
    scores: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class ModelRun:
    """One model trained from one seed. `knob` names the number of its objective that was set to `value`, if it has one."""

    data: str
    model: str
    knob: str | None
    value: float
    weight_decay: float
    seed: int
    steps: int
    stopped: str
    evaluations: tuple[Evaluation, ...]


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its 95 % interval (t, as Hsu et al. do); NaN where there is none."""

    mean: float
    ci95: Interval
    n: int


@dataclass(frozen=True)
class Cell:
    """A model on a data set: its scores at the setting and step with the best mean InfoM among those that reconstruct well enough.

    `passed` of `considered` pairs of setting and step did. Where none did, scores are NaN. `ica` is the mode of ICA, or none.
    Discrete and continuous latents are not comparable.
    """

    data: str
    row: str
    model: str
    ica: str
    latents: Kind
    infom: Estimate
    infoe: Estimate
    infoc: Estimate
    psnr: Estimate
    value: float
    weight_decay: float
    step: int
    passed: int
    considered: int


@dataclass(frozen=True)
class Lift:
    """What ICA does to InfoM (and InfoE) of the same autoencoders: after less before, a difference for each seed.

    Each is a mean over all settings and steps that reconstruct well enough: nothing is selected by its score, which would favour
    what it was selected for. `selected` is the difference of the rows AE + ICA and AE, each at the setting and step that is best
    for the other seeds; NaN of one seed.
    """

    data: str
    ica: str
    before: Estimate
    after: Estimate
    difference: Estimate
    infoe_difference: Estimate
    selected: Estimate


@dataclass(frozen=True)
class Traversal:
    """Pictures of a decoder as one latent (or component of ICA) at a time moves, from its 5 % to its 95 % quantile.

    Of the first seed, at the end of training. A line for each latent, the most varying first, `columns` pictures wide; `png` is
    the whole, base64. `labels` say which factor each latent tells most about, and how much (normalised mutual information).
    """

    data: str
    row: str
    columns: int
    labels: tuple[str, ...]
    width: int
    height: int
    png: str


@dataclass(frozen=True, repr=False)
class Table2(Shown):
    """Table 2 of Nelson et al. (2026) run again, on the data and at the scale that `settings` say.

    `published` has the table as published. `thresholds` are the least PSNR of each data set that a setting must reach on average.
    """

    scale: str
    choices: tuple[Choice, ...]
    published: Mapping[str, Any]
    data: tuple[str, ...]
    thresholds: Mapping[str, float]
    cells: tuple[Cell, ...]
    lifts: tuple[Lift, ...]
    runs: tuple[ModelRun, ...]
    traversals: tuple[Traversal, ...]
    experiment: Literal["table2"] = "table2"
    schema: Literal["identifiable/reproduce-table2/1"] = "identifiable/reproduce-table2/1"
    rows_in: ClassVar[str] = "cells"

    def cell(self, row: str, data: str = ALL_DATA) -> Cell | None:
        """The cell of a row, or None."""
        return next((c for c in self.cells if (c.row, c.data) == (row, data)), None)

    def lift(self, ica: str = "centred", data: str = ALL_DATA) -> Lift | None:
        """The lift of a mode of ICA, or None."""
        return next((found for found in self.lifts if (found.ica, found.data) == (ica, data)), None)

    @property
    def about(self) -> str:
        return f"Table 2 at scale {self.scale}"
