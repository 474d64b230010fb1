"""What `deconfound evaluate` found: does a representation tell perturbations from controls on plates it has never seen?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from identifiable.results.record import Answer, Interval, Note, Shown, joined
from identifiable.results.screen import ScreenDesign

HeldOut = Literal["plate", "batch", "single-batch"]
FitOn = Literal["all", "train"]
ALL = "all"  # a score over all targets


@dataclass(frozen=True)
class FoldScore:
    """One classifier trained on some plates and judged on others. The long table: one line for each.

    `held_out` says what test rows share with none of the training rows; `fit` which rows the representation was fitted to. `auroc`
    is over all test rows, `auroc_within_plate` the mean over positives of the share of their own plate's controls they exceed
    (ties half). `n_splits` counts the splits of all trees, `hoyer` the sparsity of their shares over features and `hoyer_null` its
    mean where as many splits fall on features at random; NaN where a classifier has no splits. `rotation` numbers random rotations.
    """

    representation: str
    classifier: str
    target: str
    held_out: HeldOut
    fit: FitOn
    fold: int
    seed: int
    rotation: int
    n_train: int
    n_pos_train: int
    n_test: int
    n_pos_test: int
    auroc: float
    auroc_within_plate: float
    n_splits: float
    hoyer: float
    hoyer_null: float


@dataclass(frozen=True)
class Concentration:
    """A classifier on the top k per cent of features by split count on the training fold, and on the rest.

    The paper's formula is lost; these are its candidates: `difference` top - rest, `ratio` top / rest - 1, `gini` twice the
    difference, and `above_chance` (top - rest) / (rest - 0.5).
    """

    percent: float
    features: int
    top: float
    rest: float
    whole: float
    difference: float
    ratio: float
    above_chance: float

    @property
    def gini(self) -> float:
        return 2 * self.difference


@dataclass(frozen=True)
class ConditionScore:
    """A representation under a classifier, for one target or over all (`target` "all": the mean over targets).

    `auroc` is the mean over folds (and seeds, and rotations), `se` its standard error over folds as the paper has it, `ci95` from
    resampling plates. `spread` is the least and greatest mean over random rotations. `excess` is AUROC less that of null guides
    (random controls called a guide), with its own interval. NaN, and `skipped` says why, where it could not be scored.
    """

    representation: str
    classifier: str
    target: str
    held_out: HeldOut
    fit: FitOn
    auroc: float
    se: float
    ci95: Interval
    within_plate: float
    within_plate_ci95: Interval
    n_splits: float
    hoyer: float
    hoyer_null: float
    folds: int
    excess: float = float("nan")
    excess_ci95: Interval = (float("nan"), float("nan"))
    spread: Interval = (float("nan"), float("nan"))
    concentration: tuple[Concentration, ...] = ()
    skipped: str = ""


@dataclass(frozen=True)
class Difference:
    """AUROC of `first` less that of `second` on the same rows: the interval from resampling plates, both scored on each draw."""

    first: str
    second: str
    classifier: str
    target: str
    held_out: HeldOut
    fit: FitOn
    difference: float
    ci95: Interval
    within_plate: float
    within_plate_ci95: Interval


@dataclass(frozen=True)
class Leakage:
    """What fitting a representation to the test plates too seems to gain: AUROC with fit "all" less that with "train"."""

    representation: str
    classifier: str
    held_out: HeldOut
    difference: float
    ci95: Interval


@dataclass(frozen=True)
class Fitted:
    """A representation that was fitted: its width, and what its solver says. `identifiable` of `width` components are reproducible."""

    representation: str
    fit: FitOn
    fold: int
    width: int
    converged: bool
    identifiable: int | None
    gaussian: int | None
    notes: tuple[Note, ...] = field(default=(), compare=False, metadata={"json": "note"})

    @property
    def note(self) -> str:
        return joined(self.notes)


@dataclass(frozen=True)
class StageTime:
    """Seconds of wall clock spent in a stage; of a resumed run `kept` counts the units that were read, not computed."""

    stage: str
    seconds: float
    units: int
    kept: int = 0


@dataclass(frozen=True)
class IcaAdvice:
    """Should this screen be resolved by ICA? `reasons` for and against, each with its figure."""

    answer: Literal["yes", "no", "unclear"]
    sentence: Answer
    reasons: tuple[Answer, ...]


@dataclass(frozen=True, repr=False)
class ScreenEvaluation(Shown):
    """Representations of a screen side by side, on the same folds of plates.

    Position alone and plate alone are conditions too; `verdict` says what follows, with the layout in view: a gain that position
    alone explains is no gain. `judged_by` is the classifier the verdict is about, `of` the number of perturbations (compounds,
    targets) from which `targets` were chosen.
    """

    design: ScreenDesign
    targets: tuple[str, ...]
    null_targets: tuple[str, ...]
    skipped: Mapping[str, str]
    conditions: tuple[ConditionScore, ...]
    differences: tuple[Difference, ...]
    leakage: tuple[Leakage, ...]
    fitted: tuple[Fitted, ...]
    advice: IcaAdvice
    verdict: Literal[
        "ica-helps", "no-gain", "ica-harms", "layout-confounded", "nothing-to-find", "separable", "undecided"
    ]
    told: Answer = field(compare=False, metadata={"json": "text"})
    times: tuple[StageTime, ...]
    scores: tuple[FoldScore, ...]
    judged_by: str = ""
    of: int = 0
    schema: Literal["identifiable/deconfound-evaluate/1"] = "identifiable/deconfound-evaluate/1"
    rows_in: ClassVar[str] = "scores"

    def condition(
        self, representation: str, classifier: str | None = None, target: str = ALL, **which: str
    ) -> ConditionScore | None:
        """The first condition with these names, or None; `which` may give `held_out` and `fit`."""
        return next(
            (
                c
                for c in self.conditions
                if (c.representation, c.target) == (representation, target)
                and classifier in (None, c.classifier)
                and all(getattr(c, name) == value for name, value in which.items())
            ),
            None,
        )

    def difference(self, first: str = "ica", second: str = "pca", target: str = ALL, **which: str) -> Difference | None:
        """The first paired difference with these names, or None."""
        return next(
            (
                c
                for c in self.differences
                if (c.first, c.second, c.target) == (first, second, target)
                and all(getattr(c, name) == value for name, value in which.items())
            ),
            None,
        )

    @property
    def text(self) -> str:
        return self.told.message
