"""What `bilipschitz` found: how much a decoder stretches and shrinks, point by point, and what follows at worst."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from identifiable.results.record import Interval, Shown


def _or_infinite(value: float) -> float:
    """JSON has no infinity, and gives NaN back: where a figure cannot be NaN it means one."""
    return math.inf if math.isnan(value) else value


def _restore(record: Any, *names: str) -> None:
    for name in names:
        object.__setattr__(record, name, _or_infinite(getattr(record, name)))


@dataclass(frozen=True)
class Summary:
    """A figure over all points where the decoder has a derivative. Quantiles are values of points, so one may be infinite."""

    mean: float
    min: float
    q05: float
    median: float
    q95: float
    max: float

    def __post_init__(self) -> None:
        _restore(self, *(f.name for f in fields(Summary)))


@dataclass(frozen=True)
class RandomDirections(Summary):
    """The paper's estimate of the constant (A.7.1), from `directions` random directions at every point.

    `share` is the median over points of estimate / exact constant; None where no constant is finite.
    """

    directions: int
    share: float | None


@dataclass(frozen=True)
class SupremumEstimate:
    """The largest constant anywhere on the support, extrapolated from the largest of `seen`, with its 95 % interval.

    `n_tail` points were fitted; `shape` is that of the generalised Pareto law of their logarithms, None where they do
    not vary or one is infinite. From shape 0 on the points do not say that there is a largest one: infinite.
    """

    estimate: float
    ci95: Interval
    shape: float | None
    n_tail: int

    def __post_init__(self) -> None:
        _restore(self, "estimate")
        object.__setattr__(self, "ci95", tuple(map(_or_infinite, self.ci95)))


@dataclass(frozen=True)
class WorstCase:
    """A bound on how far two representations can be apart, if what it `assumes` is so: in latent units, and over the diameter.

    `constant` is the bi-Lipschitz constant it is for. Usually far above what happens, whence `worst_case`.
    """

    statement: str
    constant: float
    epsilon: float
    relative: float
    assumes: str
    worst_case: bool = True

    def __post_init__(self) -> None:
        _restore(self, "constant", "epsilon", "relative")

    @property
    def vacuous(self) -> bool:
        """Whether it says nothing: a distance as large as the representation itself is allowed."""
        return self.relative >= 1


@dataclass(frozen=True, repr=False)
class Distortion(Shown):
    """What `bilipschitz` found of one decoder at n points, and all it takes to draw it.

    Of the Jacobian at every point, in the order of the points:

    sigma_min, sigma_max  extreme singular values; NaN where the decoder has no finite derivative, sigma_min 0 where it loses a
                          direction; `sigma_min_error`, `sigma_max_error` bound the distance to a singular value of it
                          (empty where `method` is exact)
    constant              1 + L = max(sigma_max, 1 / sigma_min); infinite where a direction is lost
    condition             sigma_max / sigma_min, which no scale changes
    log_volume            sum of the logarithms of all singular values; NaN where only the extremes are known

    `summary` has a `Summary` of each of the first four, and is empty where no point has a derivative. `undefined` and
    `deficient` count the points without a derivative, and those with one that lose a direction. `best_scale` is the factor
    on the decoder's output that makes the largest constant smallest, `best_constant` that constant. `diameter` is the
    largest distance between two points. In JSON null stands for what is infinite or not defined.
    """

    decoder: str
    n: int
    latents: int
    outputs: int
    method: Literal["exact", "lanczos"]
    undefined: int
    deficient: int
    best_scale: float
    best_constant: float
    diameter: float
    summary: Mapping[str, Summary]
    supremum: SupremumEstimate | None
    random_directions: RandomDirections | None
    bounds: tuple[WorstCase, ...]
    sigma_min: tuple[float, ...]
    sigma_max: tuple[float, ...]
    constant: tuple[float, ...]
    condition: tuple[float, ...]
    log_volume: tuple[float, ...]
    sigma_min_error: tuple[float, ...] = ()
    sigma_max_error: tuple[float, ...] = ()
    schema: Literal["identifiable/bilipschitz/1"] = "identifiable/bilipschitz/1"

    def __post_init__(self) -> None:
        if self.summary:
            _restore(self, "best_constant")
        lost = {i for i, sigma in enumerate(self.sigma_min) if sigma == 0}
        infinite = {"constant": math.inf, "condition": math.inf}
        infinite |= {"log_volume": -math.inf} if self.method == "exact" else {}
        for name, value in infinite.items() if lost else ():
            restored = tuple(value if i in lost else v for i, v in enumerate(getattr(self, name)))
            object.__setattr__(self, name, restored)

    @property
    def largest(self) -> float:
        """The largest constant seen; NaN where no point has a derivative."""
        return self.summary["constant"].max if "constant" in self.summary else math.nan

    @property
    def about(self) -> str:
        return f"Distortion of {self.decoder}"

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """One for each point."""
        names = ("sigma_min", "sigma_max", "constant", "condition", "log_volume")
        for values in zip(*(getattr(self, name) for name in names), strict=True):
            yield dict(zip(names, values, strict=True))
