"""What `reproduce table3` found: a screen evaluated as in Tables 3, 4 and 7 of Nelson et al. (2026)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from identifiable.results.evaluation import ScreenEvaluation
from identifiable.results.record import Interval, Shown
from identifiable.results.reproduction import Choice


@dataclass(frozen=True)
class GeneScore:
    """A gene under a representation, as a line of Table 3: means and standard errors over folds and guides.

    `hoyer_null` is what as many splits give where they fall on features at random.
    """

    gene: str
    guides: int
    representation: str
    auroc: float
    se: float
    hoyer: float
    hoyer_se: float
    hoyer_null: float
    n_splits: float


@dataclass(frozen=True)
class GeneConcentration:
    """A representation over all genes, as a line of Tables 4 and 7, in every form that the lost formula may have had."""

    representation: str
    percent: float
    top: float
    rest: float
    whole: float
    difference: float
    ratio: float
    gini: float
    above_chance: float


@dataclass(frozen=True, repr=False)
class Table3(Shown):
    """Tables 3, 4 and 7 of Nelson et al. (2026) run again, on the data and at the scale that `settings` say.

    `evaluation` is by the paper's protocol; `stricter` holds out whole experiments and fits on training rows only. `simulated`:
    the screen is ours, and its figures say nothing about the paper's.
    """

    scale: str
    simulated: bool
    choices: tuple[Choice, ...]
    published: Mapping[str, Any]
    genes: tuple[GeneScore, ...]
    concentration: tuple[GeneConcentration, ...]
    gain: float
    gain_ci95: Interval
    evaluation: ScreenEvaluation
    stricter: ScreenEvaluation | None = None
    experiment: Literal["table3"] = "table3"
    schema: Literal["identifiable/reproduce-table3/1"] = "identifiable/reproduce-table3/1"
    rows_in: ClassVar[str] = "genes"

    @property
    def about(self) -> str:
        return f"Table 3 at scale {self.scale}"
