"""What `mechanisms` found: factors of a decoder by the outputs they move, and how far the number can be relied on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from identifiable.results.record import Reason, Shown

Rows = tuple[tuple[float, ...], ...]
MechanismForm = Literal["outputs", "rows", "local", "scaled"]


@dataclass(frozen=True)
class MechanismFactor:
    """One factor; `index` is its place, from 0.

    outputs      that it owns; empty where outputs change their owner from point to point
    subspace     `dimension` latent directions that move its outputs only; empty where no one basis serves all points
    axes         the latents nearest to it, and `axis_angle`, the largest angle in degrees between their span and the subspace
    ica_angle    the same to the nearest components of ICA; None where latents were not given, or too few
    turn         median over points of the largest angle between its subspace there and `subspace`; `turn_max` the largest
    maps         how much it moves each output at each of `Mechanisms.shown_points`, 1 for the most; means of neighbours if many
    """

    index: int
    dimension: int
    outputs: tuple[int, ...]
    n_outputs: int
    subspace: Rows
    axes: tuple[int, ...]
    axis_angle: float | None
    ica_angle: float | None
    turn: float | None
    turn_max: float | None
    maps: Rows = ()


@dataclass(frozen=True)
class FormCount:
    """The number of factors in one form of the operator, its leaks, and what they are judged by (`mechanistic.counting`)."""

    form: MechanismForm
    n_factors: int
    leak: tuple[float, ...]
    separation: float
    explained: float
    agreement: float | None


@dataclass(frozen=True)
class IndependenceScores:
    """Scores of blocks (`mechanistic.scores.BlockScores`): of the factors in the found basis, or of given latents as they are.

    `second_order` is the share of mixed second differences across blocks; None without a decoder.
    """

    blocks: tuple[int, ...]
    contrast: float
    overlap: float
    interaction: float
    non_inclusion: float | None
    margin: float | None
    ima: float | None
    block_ima: float | None
    second_order: float | None = None


@dataclass(frozen=True, repr=False)
class Mechanisms(Shown):
    """What `mechanisms` found of one decoder at n points, and all it takes to draw it.

    `n_factors` is always a number; `certain` says whether to rely on it and `reason` why. `leak` is leak_1, leak_2, …: 0 up to
    the number of factors without noise. `form` is that of the operator; `linear` says whether one change of basis serves all points,
    `moving` whether outputs change their owner. `agree` is the share of `looked_at` points that show `n_factors` by themselves
    (`at_points`). `null_space` holds directions that move nothing, `dead` counts outputs that nothing moves.
    """

    decoder: str
    n: int
    outputs: int
    latents: int
    n_factors: int
    certain: bool
    reason: Reason
    form: MechanismForm
    linear: bool
    moving: bool
    owned: float
    leak: tuple[float, ...]
    factors: tuple[MechanismFactor, ...]
    null_space: Rows
    dead: int
    agree: float
    at_points: tuple[int, ...]
    looked_at: tuple[int, ...]
    forms: tuple[FormCount, ...]
    rows_used: int
    complete: bool
    shown_points: tuple[int, ...] = ()
    picture: tuple[int, int] | None = None
    scores: IndependenceScores | None = None
    given: IndependenceScores | None = None
    basis: Any = field(default=None, compare=False, repr=False, metadata={"json": None})
    schema: Literal["identifiable/mechanisms/1"] = "identifiable/mechanisms/1"
    rows_in: ClassVar[str] = "factors"

    @property
    def about(self) -> str:
        return f"Mechanisms of {self.decoder}"

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the latents, None where they had none."""
        known = self.settings.get("columns")
        return tuple(map(str, known)) if known else None
