"""What `deconfound` found of a screen: its design, and whether that allows any conclusion (`audit`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from identifiable.results.record import Answer, Interval, Said, Shown

Severity = Literal["stop", "caution", "fine"]
AuditVerdict = Literal["clear", "caution", "layout-confounded", "batch-confounded", "unusable"]


@dataclass(frozen=True)
class Role:
    """A column of the table and the role it plays: how many values it has, and the most frequent of them."""

    role: str
    column: str
    values: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class UnusedColumn:
    """A column of metadata that plays no role. A `candidate` could be the perturbation: it varies within plates and repeats over
    them, and the perturbation does not determine it."""

    column: str
    values: int
    examples: tuple[str, ...]
    candidate: bool


@dataclass(frozen=True)
class ScreenDesign:
    """Roles and counts of a screen. Ranges are least, median and most; `grid` is the rows and columns of wells in use."""

    n: int
    d: int
    roles: tuple[Role, ...]
    batches: int | None
    plates: int
    perturbations: int
    targets: int | None
    controls: int
    wells_per_plate: tuple[int, float, int]
    controls_per_plate: tuple[int, float, int]
    wells_per_perturbation: tuple[int, float, int]
    grid: tuple[int, int] | None = None
    unused: tuple[UnusedColumn, ...] = ()


@dataclass(frozen=True)
class Dependence:
    """How much a label tells about where a well is: mutual information in nats, and what it is under permutation.

    `share` is the information in excess of the null's mean over the most that could be (the entropy of the label less that mean).
    `p` counts shuffles within plate (of plate and batch: over all rows) that reach the observed value, that one counted.
    """

    what: str
    information: float
    null_mean: float
    null_q95: float
    share: float
    p: float


@dataclass(frozen=True)
class BlindScore:
    """A classifier that never sees the embedding, or only whether plates can be told apart.

    `features` it is given (`position`, `plate`, `batch`, `cell_count`, `embedding`), what it predicts (`predicts`: a perturbation
    against controls, or the plate), AUROC on rows it was not trained on (of many classes: the mean over one-against-rest), and its
    95 % interval over plates. `held_out` says what those rows share with none of the training rows: a plate, a well, or "nothing",
    where the score is that of the plate's own share of positives. `chance` is what it would score without any dependence.
    `targets` counts the classes it is a mean over, `worst` is the one it tells best.
    """

    features: str
    predicts: str
    auroc: float
    ci95: Interval
    targets: int
    worst: str = ""
    worst_auroc: float = float("nan")
    held_out: str = "plate"
    chance: float = 0.5


@dataclass(frozen=True)
class FoldCheck:
    """Rows of one fold of plates; `problem` says what is wrong with it, or is empty."""

    fold: int
    plates: int
    rows: int
    controls: int
    missing: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class FeatureCheck:
    """The columns of the embedding. Gaussian marginals (a median |excess kurtosis| near 0) leave ICA nothing to hold on to.

    `median_kurtosis` is None where every column is constant.
    """

    constant: int
    rank: int
    duplicate_rows: int
    duplicate_pairs: tuple[tuple[int, int], ...]
    median_kurtosis: float | None
    gaussianised: bool
    n_over_d: float


@dataclass(frozen=True)
class Finding(Said):
    """One thing the audit looked at, and what follows from it."""

    severity: Severity = field(kw_only=True)


@dataclass(frozen=True, repr=False)
class Audit(Shown):
    """Before any fit: what the design of a screen allows one to conclude.

    `confounding` is Cramér's V (bias-corrected) of batch and perturbation, 0 to 1; NaN without batches. `skipped` names
    perturbations with too few wells or plates to be evaluated, and why.
    """

    design: ScreenDesign
    dependences: tuple[Dependence, ...]
    blind: tuple[BlindScore, ...]
    confounding: float
    folds: tuple[FoldCheck, ...]
    features: FeatureCheck
    findings: tuple[Finding, ...]
    skipped: Mapping[str, str]
    verdict: AuditVerdict
    told: Answer = field(compare=False, metadata={"json": "text"})
    schema: Literal["identifiable/deconfound-audit/1"] = "identifiable/deconfound-audit/1"
    rows_in: ClassVar[str] = "findings"

    @property
    def text(self) -> str:
        return self.told.message
