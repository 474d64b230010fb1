"""What `resolve` found: components, how far each can be trusted, and how the solver got there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from identifiable.results.record import Reason, Shown, flat


@dataclass(frozen=True)
class Component:
    """One column of the canonical form; `index` is its place, from 0.

    Of the component u, which has mean 0 and variance 1:

    variance      share of the representation's total variance that u carries
    negentropy    an index: its expansion near a Gaussian (Hyvärinen 1998), (E G(u) - E G(Gaussian))^2 / 2 v, with v what is left
                  of Var G(Gaussian) after regressing on the square; nats near a Gaussian, too large far from one
    skew, kurtosis  third moment, and fourth moment minus 3; every `_se` is a standard error (delta method)
    gaussian_p    of a z-test of E G(u) against a Gaussian's, given that the direction was chosen for departing from it
    curvature     the Theorem 2 margin: the smallest curvature of the contrast over the pairs with another component,
                  `hardest` (its place); 0 means the pair can be turned freely
    angle_se      standard error of the direction in radians, from the sandwich formula over all pairs
    residual      radians the next Newton step would still turn it
    stability     mean |correlation| between the partners this component has in refits, each from its own start on
                  its own half of the rows; None if no refit was asked for. `stability_min` is the worst of them
    sign          what fixed it: "skew", which also holds in other models, or where skew is near zero "loading" (the largest
                  entry of its direction positive), which holds for other samples of this representation only
    sign_kept     whether every refit that finds it gives it the same sign
    places        the first and last place it may take, its key being certain to three standard errors
    density       histogram over `Resolution.density_edges` of a sample of rows, as a density
    """

    index: int
    variance: float
    negentropy: float
    negentropy_se: float
    skew: float
    skew_se: float
    kurtosis: float
    kurtosis_se: float
    gaussian_p: float
    curvature: float
    hardest: int | None
    angle_se: float
    residual: float
    sign: Literal["skew", "loading"]
    identifiable: bool
    reason: Reason
    density: tuple[float, ...]
    places: tuple[int, int]
    stability: float | None = None
    stability_min: float | None = None
    sign_kept: bool | None = None

    @property
    def found_again(self) -> bool:
        """Whether another sample would give its direction again; nothing but its sign may be open."""
        return self.identifiable or self.reason.code == "sign_uncertain"


@dataclass(frozen=True)
class UnresolvedPair:
    """Two components that can be turned into each other: `angle_se` radians of standard error between them."""

    first: int
    second: int
    curvature: float
    angle_se: float


@dataclass(frozen=True)
class Tie:
    """Two neighbours in the order, both reproducible, whose keys differ by only `gap` standard errors: they may swap."""

    first: int
    second: int
    gap: float


@dataclass(frozen=True)
class Start:
    """One start of the solver: where it ended and what it cost in full-data passes."""

    seed: int
    contrast: float
    passes: float
    converged: bool
    rescued: int  # pairs the audit turned by 45 degrees


@dataclass(frozen=True)
class Step:
    """One step of the solver: full-data passes spent so far, what it was doing, and how far it was.

    `active` components were being searched for or turned; `turn` is the mean angle (radians) by which they moved.
    """

    passes: float
    phase: Literal["search", "polish"]
    active: int
    turn: float


@dataclass(frozen=True)
class Whitening:
    """How the rank was found. `spectrum` holds standard deviations along principal directions, largest first.

    `constant` columns never vary; directions below `tolerance` times the largest, once columns are put on a common
    scale, are dropped. `condition` is of the kept directions on that scale.
    """

    rank: int
    dropped: int
    constant: int
    condition: float
    tolerance: float
    spectrum: tuple[float, ...]
    effective_rank: float
    rule: Literal["auto", "given"]
    precision: Literal["single", "double"]


@dataclass(frozen=True, repr=False)
class Resolution(Shown):
    """What `resolve` found in one representation, and all it takes to draw it.

    `contrast` is the sum over components of |E G(u) - E G(Gaussian)|; `passes` counts passes over all rows, a pass over
    a tenth of the rows or for a tenth of the components as less. `unresolved` lists the worst of all
    `unresolved_pairs`. `headline` says how many components are reproducible.
    """

    rank: int
    converged: bool
    passes: float
    contrast: float
    components: tuple[Component, ...]
    whitening: Whitening
    starts: tuple[Start, ...]
    steps: tuple[Step, ...]
    unresolved: tuple[UnresolvedPair, ...]
    unresolved_pairs: int
    ties: tuple[Tie, ...]
    density_edges: tuple[float, ...]
    schema: Literal["identifiable/resolve/1"] = "identifiable/resolve/1"
    rows_in: ClassVar[str] = "components"

    @property
    def identifiable(self) -> tuple[Component, ...]:
        """The components that are reproducible."""
        return tuple(c for c in self.components if c.identifiable)


@dataclass(frozen=True)
class ComponentMatch:
    """A component of the first model and its partner in each of the models, with the correlations.

    `partners[k]` is its place in model k (None if it has none there) and `signs[k]` the sign of its correlation with the
    first model's; `correlation` is the smallest |r| among all pairs of partners, `p` the largest permutation p-value of a
    match with the first model. `shared`: every model has it, with its sign or without; `identifiable`: reproducible within
    every model, with its sign. `reason` says what is missing; None where nothing is, or in a result of an older version.
    """

    partners: tuple[int | None, ...]
    signs: tuple[int | None, ...]
    correlation: float
    p: float
    shared: bool
    identifiable: bool
    reason: Reason | None = None


@dataclass(frozen=True, repr=False)
class JointResolution(Shown):
    """Two or more representations of the same rows, each resolved by itself, and which components all of them share.

    `matches` has one entry for every component of the first model; `shared_counts[i][j]` counts the components that models
    i and j share, matched with each other alone.
    """

    models: tuple[Resolution, ...]
    matches: tuple[ComponentMatch, ...]
    shared_counts: tuple[tuple[int, ...], ...]
    n: int
    schema: Literal["identifiable/resolve-joint/1"] = "identifiable/resolve-joint/1"

    @property
    def shared(self) -> tuple[ComponentMatch, ...]:
        """Components that every model has."""
        return tuple(m for m in self.matches if m.shared)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """One for each component of the first model: what is known of its match, and its place in every model."""
        for match in self.matches:
            yield {**flat(match), **{i.name: place for i, place in zip(self.inputs, match.partners, strict=True)}}
