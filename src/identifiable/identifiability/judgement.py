"""From figures to a verdict, an efficiency and alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from identifiable.groups import GROUPS
from identifiable.identifiability.ladder import ICA
from identifiable.moments import Array
from identifiable.results import Alert, Efficiency, PairResult, Rung, Verdict

MIN_WAY = 0.01  # a rigid motion must beat a signed permutation by this share, or the efficiency is 0/0

UP_TO = {
    "signed_permutation": "the order and sign of their axes",
    "rigid": "a rigid motion (rotation, reflection and translation)",
    "similarity": "a similarity (a rigid motion and one scale)",
    "linear": "a linear map",
}


def efficiency(permutation: float, ica: float, rigid: float) -> float | None:
    """How much of the way from a signed permutation to a rigid motion ICA goes; None where there is no way to go.

    Implements the efficiency of Table 1 (A.7.2): (permutation - ica) / (permutation - rigid).

    >>> round(efficiency(0.4, 0.3, 0.2), 6)
    0.5
    """
    way = permutation - rigid
    return float((permutation - ica) / way) if way > MIN_WAY * permutation else None


def efficiency_of(rungs: Sequence[Rung], bootstrap: Mapping[str, Array]) -> Efficiency | None:
    """The efficiency of a ladder that has all three rungs, with the interval of the held-out one."""
    by_name = {r.group: r for r in rungs}
    needed = ("signed_permutation", ICA, "rigid")
    if not all(g in by_name for g in needed):
        return None
    in_sample = efficiency(*(by_name[g].in_sample.mean for g in needed))
    held_out = efficiency(*(by_name[g].held_out.mean for g in needed))
    interval = None
    if bootstrap and held_out is not None:
        permutation, ica, rigid = (bootstrap[g] for g in needed)
        way = permutation - rigid
        if np.all(way > 0):
            low, high = np.quantile((permutation - ica) / way, [0.025, 0.975])
            interval = (float(low), float(high))
    return Efficiency(in_sample, held_out, interval)


def headline(rung: Rung, protocol: str) -> float:
    """The figure the verdict is taken from: the 95 % quantile on held-out rows, or the paper's in-sample mean."""
    return rung.in_sample.mean_over_diameter if protocol == "paper" else rung.held_out.q95


def verdict_of(rungs: Sequence[Rung], epsilon: float, protocol: str, *, own_axes: bool = True) -> Verdict:
    """The smallest group whose headline error is below epsilon.

    ICA is not a group and does not take part; nor do signed permutations where a side was projected onto
    principal components, because its axes are then the projection's and not the model's.
    """
    eligible = [g for g in GROUPS if own_axes or g != "signed_permutation"]
    for rung in rungs:
        if rung.group in eligible and headline(rung, protocol) < epsilon:
            value = headline(rung, protocol)
            how = (
                f"the in-sample mean error is {value:.3g} of the diameter"
                if protocol == "paper"
                else f"95 % of held-out rows land within {value:.3g} of the rms distance"
            )
            return Verdict(rung.group, epsilon, f"The same up to {UP_TO[rung.group]}: {how} (epsilon {epsilon:g}).")
    tried = [r for r in rungs if r.group in eligible]
    if not tried:
        return Verdict(None, epsilon, "No group was fitted, so there is no verdict.")
    best = min(tried, key=lambda r: headline(r, protocol))
    return Verdict(
        None,
        epsilon,
        f"Not the same up to any group tried: the nearest, {best.group.replace('_', ' ')}, leaves "
        f"{headline(best, protocol):.3g} (epsilon {epsilon:g}).",
    )


def alerts_of(pairs: Sequence[PairResult], protocol: str) -> list[Alert]:
    """What a reader should know about the figures themselves."""
    alerts = []
    for p in pairs:
        arrow = f"{p.source} to {p.target}"
        ladder = [r for r in p.rungs if r.group in GROUPS]
        for smaller, larger in pairwise(ladder):
            if larger.held_out.mean > 1.02 * smaller.held_out.mean + 1e-9:
                alerts.append(
                    Alert(
                        "larger_group_worse",
                        f"{arrow}: the {larger.group.replace('_', ' ')} map has a larger held-out mean error "
                        f"({larger.held_out.mean:.3g}) than the {smaller.group.replace('_', ' ')} one "
                        f"({smaller.held_out.mean:.3g}). Maps minimise squared error on training rows; the mean norm on "
                        "held-out rows need not follow, above all with heavy tails or few rows per dimension.",
                    )
                )
        if p.ica_efficiency is not None and p.ica_efficiency.held_out is None:
            alerts.append(
                Alert(
                    "efficiency_undefined",
                    f"{arrow}: a signed permutation already does as well as a rigid motion, so the ICA efficiency is 0/0.",
                )
            )
        if p.solver.refined:
            alerts.append(
                Alert(
                    "ill_conditioned",
                    f"{arrow}: a side is ill-conditioned or short of rank (condition {p.solver.condition_source:.2g} and "
                    f"{p.solver.condition_target:.2g}); linear maps and CCA were measured again in whitened coordinates.",
                )
            )
    if protocol == "paper":
        alerts.append(
            Alert(
                "in_sample_headline",
                "Protocol 'paper': the headline is in-sample and divided by the largest distance, as in the paper. "
                "Such figures improve with more dimensions and heavier tails; the held-out ones are beside them.",
            )
        )
    return alerts
