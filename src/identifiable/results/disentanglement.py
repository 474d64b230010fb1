"""What `disentangle` found: how latents and factors of the same rows belong together, metric by metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from identifiable.results.record import Alert, Interval, Shown

Kind = Literal["discrete", "continuous"]

# Scores that mean nothing where an alert of InfoMEC stands: shares of information that no latent has, or 0 by definition.
CHANCE = "no_information"
MEANINGLESS = {
    CHANCE: ("infom", "infoc"),
    "no_active_latent": ("infom", "infoc"),
    "one_factor": ("infom",),
    "one_active_latent": ("infoc",),
}


@dataclass(frozen=True)
class FactorLatentMatrix:
    """A number for every factor (row) and latent (column); `what` says in words what the number is."""

    what: str
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ScoreNull:
    """A score where nothing is to be found: the rows of the factors shuffled against those of the latents.

    `p` is the share of shuffles that score at least as high, the observed one counted.
    """

    mean: float
    q95: float
    p: float


@dataclass(frozen=True)
class Metric:
    """One metric: its scores by name, the settings that define it, and what it saw.

    A score is NaN (null in JSON) where it is not defined; an alert then says why. `details` has figures by factor or by
    latent. `intervals` are 95 % intervals of the scores of tables of this size, from random halves and quarters, `nulls` what
    shuffled factors score; both are empty unless asked for. A score can be read as an attribute: ``metric.infom``.
    """

    scores: Mapping[str, float]
    settings: Mapping[str, Any]
    matrix: FactorLatentMatrix | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    alerts: tuple[Alert, ...] = ()
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    nulls: Mapping[str, ScoreNull] = field(default_factory=dict)

    def meaningless(self) -> Mapping[str, Alert]:
        """The scores that are chance or a definition here, each with the alert that says so."""
        there = {alert.code: alert for alert in self.alerts}
        said = [(score, there[code]) for code, scores in MEANINGLESS.items() if code in there for score in scores]
        return {score: alert for score, alert in reversed(said) if score in self.scores}

    def by_definition(self) -> Mapping[str, Alert]:
        """Those of the meaningless scores that are a definition: nothing was there to compare."""
        return {score: alert for score, alert in self.meaningless().items() if alert.code != CHANCE}

    def __getattr__(self, name: str) -> float:
        scores = self.__dict__.get("scores", {})  # not there yet while an instance is being copied
        if name in scores:
            return float(scores[name])
        raise AttributeError(f"no score {name!r}; there are {', '.join(scores) or 'none'}")


@dataclass(frozen=True)
class Factor:
    """One factor of variation. `classes` is the number of values of a discrete one, `entropy` in nats; 0 and NaN otherwise.

    `words`: it was given as words, so that its classes have no order but the alphabet's.
    """

    name: str
    kind: Kind
    classes: int
    entropy: float
    words: bool = False


@dataclass(frozen=True)
class NoisePoint:
    """InfoMEC with Gaussian noise of `noise` standard deviations added to every latent."""

    noise: float
    scores: Mapping[str, float]


@dataclass(frozen=True)
class AfterICA:
    """The scores of the same latents after ICA in one of its three modes.

    `metrics` are as before ICA. `invertible` is False where the step dropped directions. An invertible linear map cannot
    change InfoE of a regression that has converged: `infoe_converged` has it before and after, and `infoe_agrees` says
    whether the two are the same; where the profile's own InfoE moved and these did not, its solver had stopped early.
    """

    mode: Literal["centred", "literal", "whitened"]
    converged: bool
    n_components: int
    invertible: bool
    metrics: Mapping[str, Metric]
    infoe_converged: tuple[float, float]
    infoe_agrees: bool
    alerts: tuple[Alert, ...] = ()


@dataclass(frozen=True, repr=False)
class Disentanglement(Shown):
    """What `disentangle` found of one table of latents and the factors of its rows.

    `active` are the latents that vary, by the rule of the InfoMEC profile. `sweep` is InfoMEC with more and more noise
    added, `after` what ICA makes of the scores; both are empty unless asked for.
    """

    n: int
    latents: tuple[str, ...]
    latent_kind: Kind
    factors: tuple[Factor, ...]
    metrics: Mapping[str, Metric]
    sweep: tuple[NoisePoint, ...] = ()
    after: tuple[AfterICA, ...] = ()
    schema: Literal["identifiable/disentangle/1"] = "identifiable/disentangle/1"

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """One for each score: before ICA (`ica` is empty), and after it in each mode."""
        for ica, metrics in (("", self.metrics), *((step.mode, step.metrics) for step in self.after)):
            for name, metric in metrics.items():
                for score, value in metric.scores.items():
                    low, high = metric.intervals.get(score, (None, None))
                    null = metric.nulls.get(score)
                    found = {"ica": ica, "metric": name, "score": score, "value": value, "low": low, "high": high}
                    yield {**found, "null_mean": null.mean if null else None, "null_p": null.p if null else None}
