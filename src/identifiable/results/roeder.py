"""What `reproduce roeder-fig1` to `roeder-fig4` found: are representations of retrained models alike up to a linear map?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from identifiable.results.record import Interval, Shown
from identifiable.results.reproduction import Choice

Measure = Literal["cca", "cca_in_sample", "svcca", "svcca_in_sample", "r2", "r2_heads", "map_distance"]
Claimed = Literal["rises", "above_untrained", "above_shuffled", "nearly"]
Found = Literal["agrees", "does_not", "cannot_tell"]


@dataclass(frozen=True)
class SeedModel:
    """One trained model. `part` says which kind it is, `seed` which of that kind.

    `loss` is on held-out rows after `steps`; `floor` is the least possible loss on the same rows, where that is known. `removed`
    says why the model takes no part: `diverged`, or `above_floor`.
    """

    part: str
    seed: int
    steps: int
    loss: float
    floor: float | None = None
    removed: Literal["diverged", "above_floor"] | None = None


@dataclass(frozen=True)
class SeedPair:
    """A measure of one pair of models that differ in their seeds, on rows that neither was trained on.

    Words of `roeder-fig1` are the exception: their vectors are trained, and are held out of fitted maps and canonical pairs only.

    `axis` is what is varied (iterations, images, width, layer), `at` its value. `shuffled` is the same with rows (for maps read
    off heads: labels) paired at random, `untrained` the same for the two models before training.
    """

    axis: str
    at: float
    part: str
    measure: Measure
    seeds: tuple[int, int]
    value: float
    shuffled: float
    untrained: float


@dataclass(frozen=True)
class SeedMean:
    """The mean over pairs of the same condition and measure, with its 95 % interval; None of fewer than three independent pairs.

    Both ends are cut at what is possible: 0 and 1 for canonical correlations, 1 above for R², 0 below for the map distance.
    """

    axis: str
    at: float
    part: str
    measure: Measure
    pairs: int
    value: float
    value_ci95: Interval | None
    shuffled: float
    untrained: float


@dataclass(frozen=True)
class Claim:
    """A statement about a direction, and whether this run's interval supports it.

    rises             the measure at `last` is above that at `first` of the axis
    above_untrained   the measure at `last` is above that of the same models before training
    above_shuffled    the measure at `last` is above that with rows or labels paired at random
    nearly            the measure at `last` is above `first`, from which on `compare` calls two representations nearly alike

    `source` ours: the paper does not state it; it is shown because the theorem implies it, or as a baseline. `difference` is the mean
    over pairs, with its 95 % interval. `found`: agrees where the interval lies above 0, does_not where it
    lies below 0, else cannot_tell. `as_untrained`: at an end of the axis the measure is no better than that of untrained models, so a
    rise or fall cannot tell.
    """

    claim: Claimed
    axis: str
    part: str
    measure: Measure
    first: float | None
    last: float
    pairs: int
    difference: float
    difference_ci95: Interval | None
    found: Found
    source: Literal["paper", "ours"] = "paper"
    as_untrained: bool = False


@dataclass(frozen=True)
class Scatter:
    """Two-dimensional representations of the same rows by the two models of a pair, as they are, and the second one mapped.

    `mapped` is the second model's representation under the affine map to the first's that was fitted on other rows.
    """

    part: str
    seeds: tuple[int, int]
    first: tuple[tuple[float, float], ...]
    second: tuple[tuple[float, float], ...]
    mapped: tuple[tuple[float, float], ...]


@dataclass(frozen=True, repr=False)
class RoederFigure(Shown):
    """A figure of Roeder et al. (2021) run again, beside what is published of it.

    `stand_in`: the models or the data are smaller than the paper's, so numbers do not compare, only directions.

    """

    experiment: Literal["roeder-fig1", "roeder-fig2", "roeder-fig3", "roeder-fig4"]
    scale: str
    stand_in: bool
    choices: tuple[Choice, ...]
    published: Mapping[str, Any]
    claims: tuple[Claim, ...]
    means: tuple[SeedMean, ...]
    pairs: tuple[SeedPair, ...]
    models: tuple[SeedModel, ...]
    scatters: tuple[Scatter, ...] = ()
    schema: Literal["identifiable/reproduce-roeder/1"] = "identifiable/reproduce-roeder/1"
    rows_in: ClassVar[str] = "pairs"

    @property
    def removed(self) -> int:
        """Models that take no part in the measures."""
        return sum(model.removed is not None for model in self.models)

    @property
    def about(self) -> str:
        return f"{self.experiment} at scale {self.scale}"
