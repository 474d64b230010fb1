"""What `heads` found: how much of a representation two output layers fix, and how well the map read off them holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from identifiable._checks import UsageError
from identifiable.results.record import Answer, Interval, Shown

FACTOR = 1.2  # between the logits of two models, from which on a temperature is worth a sentence
GAIN = 0.01  # of R²: what the sentence shows


@dataclass(frozen=True)
class HeadDiversity:
    """Diversity of one head: K `labels` by M `dimensions`, centred over labels.

    `condition` is the largest over the smallest singular value that is not rounding; `diverse` says that `rank` is M, which
    needs K >= M + 1. The weighted numbers are those of the covariance under label `frequencies`, `predicted` by the model on
    the rows or `given`; `effective_labels` is the exponential of their entropy. `gauge` is the share of the squared weights in
    the vector common to all labels, which changes no probability. `variance` is the share of the variance of the features
    in the `rank` dimensions that the head reads.
    """

    name: str
    labels: int
    dimensions: int
    rank: int
    condition: float
    diverse: bool
    gauge: float
    bias: bool
    frequencies: Literal["predicted", "given"] | None = None
    weighted_rank: int | None = None
    weighted_condition: float | None = None
    smallest_eigenvalue: float | None = None
    effective_labels: float | None = None
    variance: float | None = None


@dataclass(frozen=True)
class MapFit:
    """How well the map from heads predicts the target's features in the `fixed` dimensions, on held-out rows.

    Offsets are fitted on training rows for every map, so R² is about variation; `offset_gap` is how far the offset read off
    the heads leaves the means apart, in units of the rms spread there.

    r2, r2_ridge    of the map as read, and with the `ridge` (relative to the squared largest singular value) that is best
                    on training rows; `…_ci95` are their 95 % intervals over rows, None where rows are too few
    r2_fitted       of a linear map fitted to the features by least squares
    scale           the scalar on the map as read that is best
    r2_scale        with a scalar of at least 0 and the ridge that is best after it, both chosen on training rows
    correlation     of the map's prediction with the features, over all entries
    null_*          the largest over `draws` in which the labels of one head are shuffled, treated alike; `p` of `correlation`.
                    nan, and 0 draws, where fewer than 19 orders of the labels differ (2 or 3 labels)
    distance        |A_heads - A_fitted| / |A_fitted|, weighted by the covariance of the source's features
    """

    n: int
    r2: float
    ridge: float
    r2_ridge: float
    r2_fitted: float
    scale: float
    r2_scale: float
    correlation: float
    distance: float
    offset_gap: float
    null_r2: float
    null_r2_ridge: float
    null_correlation: float
    p: float
    draws: int
    r2_ci95: Interval | None = None
    r2_ridge_ci95: Interval | None = None
    null_r2_scale: float = math.nan
    r2_scale_ci95: Interval | None = None


class MapArrays(NamedTuple):
    """The map on rows, ``features @ matrix + offset``, and an orthonormal basis of the fixed dimensions. Not in JSON."""

    matrix: Any
    offset: Any
    basis: Any


@dataclass(frozen=True)
class HeadMap:
    """The map from the features of `source` to those of `target` that their heads imply if both give the same probabilities.

    It is determined in `fixed` of the target's `dimensions`. `expressed` is the share of the source's centred weights that lie
    in the span of the target's, over labels, `expressed_chance` its mean for shuffled labels; None where the target spans all
    of them, so that the share is 1 whatever the source is. `offset` is the length of the offset that the biases imply.
    """

    source: str
    target: str
    fixed: int
    dimensions: int
    condition: float
    expressed: float | None
    expressed_chance: float | None
    offset: float
    fit: MapFit | None = None
    arrays: MapArrays | None = field(default=None, compare=False, repr=False, metadata={"json": None})

    def _held(self) -> MapArrays:
        if self.arrays is None:
            raise UsageError("matrix: a result read from JSON holds no map; call heads again, or save it (--map-out).")
        return self.arrays

    @property
    def matrix(self) -> Any:
        """(source dimensions, target dimensions): ``features @ matrix + offset_vector``. Only a result of this process has it."""
        return self._held().matrix

    @property
    def offset_vector(self) -> Any:
        """(target dimensions,), in the fixed subspace; `offset` in the file of `--map-out`, where `offset` here is its length."""
        return self._held().offset

    @property
    def basis(self) -> Any:
        """(target dimensions, fixed): an orthonormal basis of the dimensions that the heads fix."""
        return self._held().basis


@dataclass(frozen=True)
class Premise:
    """How nearly two models give the same probabilities on n rows, which is what the map from heads assumes.

    `agreement` is the share of rows with the same most probable label, `total_variation` the mean of half the summed
    absolute differences of probabilities. `logit_distance` is the root mean square distance of centred logits (Nielsen et al.
    2026), `relative_logit_distance` that over the size of both: 0 for equal logits, about 1 for unrelated ones.
    """

    n: int
    agreement: float
    total_variation: float
    logit_distance: float
    relative_logit_distance: float


@dataclass(frozen=True, repr=False)
class Heads(Shown):
    """What `heads` found of two output layers, and all it takes to draw it. `maps` are first to second, and back.

    `temperature` is the factor between the logits of the second model and those of the first. Ours: the root of the ratio of the
    two best scales, one for each way, because disagreement of the models shrinks both alike.
    """

    heads: tuple[HeadDiversity, HeadDiversity]
    maps: tuple[HeadMap, HeadMap]
    premise: Premise | None = None
    temperature: float | None = None
    schema: Literal["identifiable/heads/1"] = "identifiable/heads/1"
    rows_in = "maps"
    written = "map"  # what the command line calls its file

    @property
    def rescaled(self) -> bool:
        """Whether one model is more confident, and a scalar on the map from first to second explains more than a ridge does."""
        fit, factor = self.maps[0].fit, self.temperature
        if fit is None or not factor:
            return False
        return abs(math.log(factor)) > math.log(FACTOR) and fit.r2_scale - fit.r2_ridge > GAIN

    @property
    def text(self) -> Answer:
        """What the heads fix, whether the premise holds, and what the map explains beside what it could and what chance does."""
        way, fit = self.maps[0], self.maps[0].fit
        said: dict[str, Any] = {"fixed": way.fixed, "dimensions": way.dimensions}
        if self.premise is None or fit is None:
            if way.expressed is None:
                return Answer("heads_untested", said)
            return Answer("heads_span", {**said, "expressed": way.expressed, "chance": way.expressed_chance})
        said |= {"variance": self.heads[1].variance, "agreement": self.premise.agreement}
        said |= {"r2": fit.r2_ridge, "fitted": fit.r2_fitted}
        if self.rescaled:
            said |= {"temperature": self.temperature, "scaled": fit.r2_scale}
        if fit.draws:
            said["chance"] = fit.null_r2_scale if self.rescaled else fit.null_r2_ridge
        remarks = (Answer("heads_read_worse", {"read": fit.r2}),) if fit.r2 < 0 < fit.r2_ridge else ()
        if self.rescaled:
            code = "heads_map_and_temperature" if fit.draws else "heads_map_and_temperature_without_null"
        else:
            code = "heads_map" if fit.draws else "heads_map_without_null"
        return Answer(code, said, remarks=remarks)

    @property
    def about(self) -> str:
        return f"Heads of {' and '.join(head.name for head in self.heads)}"
