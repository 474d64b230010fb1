"""From figures to a verdict, an efficiency and alerts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from identifiable.groups import GROUPS
from identifiable.identifiability.agreement import SHAPES, Agreement
from identifiable.identifiability.ladder import ICA
from identifiable.options.tables import Rung as RungName
from identifiable.results import Alert, Efficiency, Form, PairResult, Rung, SharedDimensions
from identifiable.results.comparison import Degree, ScaleState, Shape

DEGREES: dict[Degree, float] = {"nearly": 0.95, "largely": 0.8, "partly": 0.5}  # R² from which on
CLEAR = 0.95  # of the linear map's R², kept by a group that holds
SOMETHING = 0.05  # R² above which a direction says something about the form
SAME = 0.9  # R², and share of the dimensions, that a gate asks for
MIN_WAY = 0.01  # a similarity must beat a signed permutation by this share, or the efficiency is 0/0


def efficiency(permutation: float, ica: float, similarity: float) -> float | None:
    """How much of the way from a signed permutation to a similarity ICA goes; None where there is no way to go.

    Reconstructed from Table 1 (A.7.2), all four of whose entries it gives: (permutation - ica) / (permutation - rigid). The
    paper's rigid map has a global scale, so it is our similarity. None where that gains less than `MIN_WAY`: the ratio would
    be noise.

    >>> round(efficiency(0.4, 0.3, 0.2), 6)
    0.5
    """
    way = permutation - similarity
    return float((permutation - ica) / way) if way > MIN_WAY * permutation else None


def efficiency_of(rungs: Sequence[Rung], apart: Efficiency | None, protocol: str) -> Efficiency | None:
    """The paper's in-sample efficiency, of a ladder that has all three rungs, beside that of ICA fitted on disjoint rows.

    With protocol paper the held-out one is of the rungs too: ICA of both sides sees all rows, its matching does not.
    """
    by_name: dict[str, Rung] = {r.group: r for r in rungs}
    needed = ("signed_permutation", ICA, "similarity")
    if not all(g in by_name for g in needed):
        return apart
    in_sample = efficiency(*(by_name[g].in_sample.mean for g in needed))
    if protocol == "paper":
        return Efficiency(in_sample, efficiency(*(by_name[g].held_out.mean for g in needed)))
    return Efficiency(in_sample, None) if apart is None else replace(apart, in_sample=in_sample)


def degree_of(r2: float, form: Form) -> Degree:
    """How much a linear map explains, in five steps; nothing where it does not beat chance."""
    if form.state == "none":
        return "none"
    return next((word for word, least in DEGREES.items() if r2 >= least), "little")


def form_of(agreement: Agreement, scale: float, *, chance: bool, sure: bool = True, seen: bool = True) -> Form:
    """The smallest group that keeps what a linear map explains, in both directions.

    Ours. A group is clear where the lower bounds of what it keeps are at least `CLEAR` in both directions, ruled out where
    the upper bounds are below `ruled_out_below` in both; else it is borderline. Noise in the target makes the reverse
    direction look like shrinkage, so the second limit falls with R². A direction in which nothing is explained says nothing.
    Where intervals are withheld or few dimensions are shared (not `sure`) nothing is clear, and nothing is ruled out where
    rows do not span the columns (not `seen`): no rotation can be told from a linear map there. `scale` is that of y over that
    of x.
    """
    linear = SHAPES.index("linear")
    r2 = agreement.r2[linear]
    if chance or r2.max() <= 0:
        return Form(None, "none", None, scale, "unknown")
    told = (
        np.flatnonzero(agreement.r2_interval()[0][linear] > SOMETHING)
        if agreement.bounded
        else np.flatnonzero(r2 > SOMETHING)
    )
    told = told if told.size else np.flatnonzero(r2 == r2.max())
    state = scale_state(scale, float(r2[told].min()))
    low, high = agreement.kept_interval() if agreement.bounded else (agreement.kept, agreement.kept)
    limit = ruled_out_below(float(r2[told].min()))

    def holds(group: Shape) -> bool:
        return bool(low[SHAPES.index(group), told].min() >= CLEAR)

    def fails(group: Shape) -> bool:
        return bool(seen and high[SHAPES.index(group), told].max() < limit)

    groups: tuple[Shape, ...] = ("signed_permutation", "similarity", "linear")
    for at, group in enumerate(groups[:-1]):
        if holds(group) and sure:
            return Form(group, "clear", None, scale, state)
        if holds(group) or not (fails(group) and sure):
            beyond: Shape = next((g for g in groups[at + 1 : -1] if holds(g) and sure), "linear")
            return Form(group, "borderline", beyond, scale, state)
    return Form("linear", "clear", None, scale, state)


def ruled_out_below(r2: float) -> float:
    """What a group must keep not to be ruled out; by the lower R² of the two directions."""
    return min(0.90, 0.48 + 0.60 * r2)


def scale_state(scale: float, r2: float) -> ScaleState:
    """Whether the ratio of the two spreads can be told from 1: noise hides it by a factor of up to 1 / sqrt(R²).

    >>> scale_state(2.0, 0.95), scale_state(1.01, 0.95), scale_state(1.3, 0.5)
    ('other', 'one', 'unknown')
    """
    if r2 <= 0 or not np.isfinite(scale) or scale <= 0:
        return "unknown"
    if abs(np.log(scale)) > -0.5 * np.log(r2) + 0.05:
        return "other"
    return "one" if r2 >= 0.8 else "unknown"


def gate_group(
    agreement: Agreement, form: Form, shared: SharedDimensions, direction: int, asked: Sequence[str]
) -> RungName | None:
    """The group for gates, of those asked for: it certainly holds, explains `SAME`, and nearly all dimensions are strongly shared."""
    group: RungName | None = form.group if form.state == "clear" else form.beyond
    if group is None or shared.strong < SAME * shared.possible:
        return None
    if group == "similarity" and form.scale_state == "one":
        group = "rigid"
    possible = [at for at in range(SHAPES.index(group), len(SHAPES)) if SHAPES[at] in asked]
    return next((SHAPES[at] for at in possible if agreement.r2[at, direction] >= SAME), None)


def group_below(rungs: Sequence[Rung], epsilon: float, protocol: str) -> RungName | None:
    """The smallest group whose headline error is below epsilon. ICA is not a group and does not take part."""
    return next((r.group for r in rungs if r.group in GROUPS and r.judged(protocol) < epsilon), None)


def alerts_of(pairs: Sequence[PairResult], protocol: str) -> list[Alert]:
    """What a reader should know about the figures themselves."""
    alerts = []
    for p in pairs:
        arrow = f"{p.source} to {p.target}"
        ladder = [r for r in p.rungs if r.group in GROUPS]
        for smaller, larger in pairwise(ladder):
            if larger.group != "rigid" and larger.held_out.mean > 1.02 * smaller.held_out.mean + 1e-6:
                alerts.append(
                    Alert(
                        "larger_group_worse",
                        {
                            "name": arrow,
                            "larger": larger.group,
                            "smaller": smaller.group.replace("_", " "),
                            "larger_error": larger.held_out.mean,
                            "smaller_error": smaller.held_out.mean,
                        },
                    )
                )
        if p.ica_efficiency is not None and p.ica_efficiency.held_out is None and p.ica_efficiency.in_sample is None:
            alerts.append(Alert("efficiency_undefined", {"name": arrow}))
        if p.solver.refined:
            alerts.append(
                Alert(
                    "ill_conditioned",
                    {"name": arrow, "source": p.solver.condition_source, "target": p.solver.condition_target},
                )
            )
    if protocol == "paper":
        alerts.append(Alert("in_sample_headline"))
    return alerts
