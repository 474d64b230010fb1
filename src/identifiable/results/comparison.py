"""What `compare` found: rungs, pairs, spectra, consensus."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from identifiable._checks import UsageError
from identifiable.options.tables import Null as NullName
from identifiable.options.tables import Rung as RungName
from identifiable.results.record import Interval, Shown


@dataclass(frozen=True)
class Scale:
    """Yardsticks of the target: the exact largest pairwise distance, and the root mean square one."""

    diameter: float
    rms: float


@dataclass(frozen=True)
class Errors:
    """Euclidean errors over rows, divided by `Scale.rms`; `mean_over_diameter` is the paper's figure.

    `quantiles` holds the 0th to the 100th percentile, for drawing; `ci95` is of the mean (held-out only).
    """

    mean: float
    q50: float
    q95: float
    q99: float
    max: float
    mean_over_diameter: float
    quantiles: tuple[float, ...] = ()
    ci95: Interval | None = None


@dataclass(frozen=True)
class Null:
    """What chance gives: the same held-out mean on data with the link broken `draws` times.

    On tables longer than `rows` both the null and `observed` use that many rows, drawn by the seed.
    """

    mean: float
    p: float
    observed: float
    draws: int
    rows: int


@dataclass(frozen=True)
class Rung:
    """One step of the ladder. `null` maps the name of a null to its result; None where it says nothing."""

    group: RungName
    in_sample: Errors
    held_out: Errors
    null: Mapping[NullName, Null | None]

    def judged(self, protocol: str) -> float:
        """The figure a verdict is taken from: the 95 % quantile on held-out rows, or the paper's in-sample mean."""
        return self.in_sample.mean_over_diameter if protocol == "paper" else self.held_out.q95


@dataclass(frozen=True)
class Efficiency:
    """How much of the way from permutation to rigid ICA goes: (permutation - ica) / (permutation - rigid)."""

    in_sample: float | None
    held_out: float | None
    ci95: Interval | None = None


@dataclass(frozen=True)
class Similarity:
    """Mean canonical correlation, the same on k principal components, and linear CKA; 1 is alike.

    `null` holds the mean of each under row shuffling and its p-value.
    """

    cca: float
    svcca: Mapping[str, float]
    cka: float
    cka_debiased: float
    null: Mapping[str, Null]


@dataclass(frozen=True)
class Verdict:
    """The smallest group whose headline error is below epsilon; None if there is none."""

    group: str | None
    epsilon: float
    text: str


@dataclass(frozen=True)
class Solver:
    """How the linear maps were obtained. `refined`: a second pass in whitened coordinates was needed."""

    condition_source: float
    condition_target: float
    rank_source: int
    rank_target: int
    refined: bool
    error_dtype: str


@dataclass(frozen=True)
class WorstRow:
    """A row the verdict's map (the linear one if no group fits) serves badly on held-out data."""

    row: str
    error: float


@dataclass(frozen=True)
class PairResult:
    """Source to target: can the source be mapped onto the target, by how large a group?

    `dropped` counts the rows of both sides without a partner. Where the sides differ in width, the wider one is
    compared in its first `width` principal components; `kept_source` and `kept_target` are the shares of variance
    that were compared.
    """

    source: str
    target: str
    n: int
    dropped: int
    width: int
    kept_source: float
    kept_target: float
    scale: Scale
    rungs: tuple[Rung, ...]
    ica_efficiency: Efficiency | None
    similarity: Similarity
    verdict: Verdict
    solver: Solver
    worst: tuple[WorstRow, ...]

    def rung(self, group: str) -> Rung:
        """The rung of that name."""
        for rung in self.rungs:
            if rung.group == group:
                return rung
        raise UsageError(f"there is no rung {group!r} here; choose from {', '.join(r.group for r in self.rungs)}.")


@dataclass(frozen=True)
class Spectrum:
    """Principal variances of one representation, largest first.

    `rank` counts directions above rounding; `effective_rank` is exp(entropy) of the normalised
    variances (Roy and Vetterli 2007).
    """

    name: str
    variances: tuple[float, ...]
    rank: int
    effective_rank: float


@dataclass(frozen=True)
class ErrorMatrix:
    """Held-out mean error of one group for every ordered pair; `values[i][j]` maps i onto j, 0 on the diagonal."""

    group: str
    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ConsensusDistance:
    """Distance of one model to the consensus, per row, in units of the consensus' rms distance."""

    name: str
    rms: float
    mean: float
    q95: float
    max: float


@dataclass(frozen=True)
class Consensus:
    """Generalised Procrustes mean of three or more models, each centred and scaled to unit rms first."""

    width: int
    iterations: int
    converged: bool
    distances: tuple[ConsensusDistance, ...]


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """What `compare` found, and all it takes to draw it."""

    pairs: tuple[PairResult, ...]
    spectra: tuple[Spectrum, ...]
    matrices: tuple[ErrorMatrix, ...] = ()
    consensus: Consensus | None = None
    schema: Literal["identifiable/compare/1"] = "identifiable/compare/1"

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """The ladder of the first pair."""
        return self.pairs[0].rungs

    @property
    def verdict(self) -> Verdict:
        """The weakest verdict over all ordered pairs: what holds for every one of them."""
        pair = self.weakest
        if len(self.pairs) <= 2:
            return pair.verdict
        return replace(pair.verdict, text=f"{pair.source} to {pair.target}: {pair.verdict.text}")

    @property
    def weakest(self) -> PairResult:
        """The pair that takes the largest group, or has none; of those, the one whose best figure is the largest."""
        protocol = str(self.settings.get("protocol"))

        def weakness(pair: PairResult) -> tuple[int, float]:
            names = [rung.group for rung in pair.rungs]
            if pair.verdict.group in names:
                return names.index(pair.verdict.group), pair.rung(pair.verdict.group).judged(protocol)
            return len(names), min((rung.judged(protocol) for rung in pair.rungs), default=math.inf)

        return max(self.pairs, key=weakness)

    def __repr__(self) -> str:
        names = ", ".join(i.name for i in self.inputs)
        return f"<Comparison of {names}: {self.verdict.group or 'not the same up to any group'}>"
