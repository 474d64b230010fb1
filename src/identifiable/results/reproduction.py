"""What `reproduce fig2`, `figA6` and `table3` found: whether Theorem 1 shows in pairs of autoencoders, and ICA in a screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from identifiable.results.distortion import Summary
from identifiable.results.evaluation import ScreenEvaluation
from identifiable.results.record import Interval, Shown

Estimator = Literal["exact", "random_directions"]
Form = Literal["mean", "maximum", "sample"]
Unit = Literal["latent", "diameter"]


@dataclass(frozen=True)
class Choice:
    """A setting of the experiment: its value, and whether that is the paper's own or ours.

    `paper` is the paper's value, None where it is lost in our copy. If it is known and ours is another, this run departs
    from the paper, usually to be smaller.
    """

    name: str
    value: Any
    source: Literal["paper", "ours"]
    paper: Any = None


@dataclass(frozen=True)
class Distances:
    """How far two latent spaces are apart after the best rigid motion: mean and largest |h(f'(x)) - f(x)| over the samples."""

    mean: float
    maximum: float


@dataclass(frozen=True)
class Constants:
    """1 + L of a pair: at each sample the larger of its two decoders' constants; then the mean and largest over the samples."""

    mean: float
    maximum: float


@dataclass(frozen=True)
class PairRun:
    """Two autoencoders that differ in their seeds alone.

    `reconstruction` is the validation loss of either, `epochs` how long each was trained, `stopped` why it ended there.
    `removed` says why the pair takes no part in the figures; None if it does. `diameter` is that of the first model's
    latents. `samples` are some of the (1 + L, distance) of single samples, for the picture.
    """

    leak: float
    pair: int
    digit: int | None
    reconstruction: tuple[float, float]
    epochs: tuple[int, int]
    stopped: tuple[str, str]
    removed: str | None
    distance: Distances
    diameter: float
    exact: Constants
    random_directions: Constants
    samples: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Leak:
    """All pairs of one leak. `bound` is the largest 1 + L the architecture allows: leak^-k with k activations, 2 in the paper.

    `constant` summarises 1 + L of every decoder at every sample, exact; `curve` has its quantiles, (share, 1 + L).
    `distance` is the mean over the pairs kept, `relative` the same over the diameter, each with its 95 % interval.
    """

    leak: float
    bound: float
    pairs: int
    kept: int
    constant: Summary
    random_directions: Summary
    curve: tuple[tuple[float, float], ...]
    reconstruction: float
    distance: float
    distance_ci95: Interval
    relative: float
    relative_ci95: Interval


@dataclass(frozen=True)
class Fit:
    """distance = slope * sqrt(2 L + L^2) through the origin, over pairs kept.

    `form` says of what: mean distance against mean L (Figure 2), largest distance against largest L (A.4), or single samples
    of all pairs, distance against L of the same sample (A.5).

    `r2` is the share of the variance about the mean that the line explains; negative where the mean explains more.
    `spearman` comes with a 95 % bootstrap interval that resamples seeds, each with all its leaks. `within_leak` is the
    correlation with the leak held fixed (ranks within each leak): whether 1 + L tells more than the leak does. None where it is not
    defined. `unit`: distances as they are, or over the diameter of the latents. `n` counts pairs, also where their samples are fitted.
    """

    form: Form
    estimator: Estimator
    unit: Unit
    slope: float
    r2: float | None
    spearman: float | None
    spearman_ci95: Interval | None
    within_leak: float | None
    n: int


@dataclass(frozen=True, repr=False)
class Reproduction(Shown):
    """What came out of an experiment of the paper, run again, beside what is published of it.

    `leak_spearman` is the rank correlation of the leak with the distance, over the pairs kept, with a 95 % bootstrap
    interval: negative where latents come closer as the leak goes to 1. `filter_threshold` is the reconstruction error
    above which a pair was removed.
    """

    experiment: Literal["fig2", "figA6"]
    scale: str
    choices: tuple[Choice, ...]
    published: Mapping[str, Any]
    runs: tuple[PairRun, ...]
    leaks: tuple[Leak, ...]
    fits: tuple[Fit, ...]
    filter_threshold: float
    leak_spearman: float | None
    leak_spearman_ci95: Interval | None
    schema: Literal["identifiable/reproduce/1"] = "identifiable/reproduce/1"
    rows_in: ClassVar[str] = "runs"

    def fit(self, form: Form = "mean", estimator: Estimator = "exact", unit: Unit = "latent") -> Fit:
        """The fit of this form."""
        return next(f for f in self.fits if (f.form, f.estimator, f.unit) == (form, estimator, unit))

    @property
    def removed(self) -> int:
        """Pairs that take no part in the figures."""
        return sum(run.removed is not None for run in self.runs)

    @property
    def about(self) -> str:
        return f"Reproduction of {self.experiment} at scale {self.scale}"


# -- What `reproduce table3` found: a screen evaluated as in Tables 3, 4 and 7 of Nelson et al. (2026).


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
