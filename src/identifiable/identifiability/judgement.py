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

    Reconstructed from Table 1 (A.7.2), all four of whose entries it gives: (permutation - ica) / (permutation - rigid).
    None where a rigid motion gains less than `MIN_WAY`: the ratio would be noise.

    >>> round(efficiency(0.4, 0.3, 0.2), 6)
    0.5
    """
    way = permutation - rigid
    return float((permutation - ica) / way) if way > MIN_WAY * permutation else None


def efficiency_of(rungs: Sequence[Rung], bootstrap: Mapping[str, Array]) -> Efficiency | None:
    """The efficiency of a ladder that has all three rungs, with the interval of the held-out one."""
    by_name: dict[str, Rung] = {r.group: r for r in rungs}
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


def verdict_of(rungs: Sequence[Rung], epsilon: float, protocol: str, *, within: Sequence[str] = ()) -> Verdict:
    """The smallest group whose headline error is below epsilon.

    ICA is not a group and does not take part. `within` says which sides were projected onto principal components;
    signed permutations do not take part there, because the axes are the projection's and not the model's.
    """
    eligible = [g for g in GROUPS if not within or g != "signed_permutation"]
    part = f" Compared were {' and '.join(within)}." if within else ""
    tried = [r for r in rungs if r.group in eligible]
    if not tried:
        return Verdict(None, epsilon, "No group was fitted, so there is no verdict.")
    for rung in tried:
        if rung.judged(protocol) < epsilon:
            found = _in_words(rung.judged(protocol), protocol)
            text = f"The same up to {UP_TO[rung.group]}: {found} (epsilon {epsilon:g}).{part}"
            return Verdict(rung.group, epsilon, text)
    best = min(tried, key=lambda r: r.judged(protocol))
    found = _in_words(best.judged(protocol), protocol)
    text = f"Not the same up to any group tried: with the best, {best.group.replace('_', ' ')}, {found} (epsilon {epsilon:g})."
    chance = [null.p for r in tried if (null := r.null.get("shuffle")) is not None]
    if chance and min(chance) > 0.05:
        text += f" That is no better than rows paired at random (p {min(chance):.2f})."
    return Verdict(None, epsilon, text + part)


def _in_words(value: float, protocol: str) -> str:
    if protocol == "paper":
        return f"the in-sample mean error is {value:.3g} of the diameter"
    return f"95 % of held-out rows land within {value:.3g} of the rms distance"


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
                        {
                            "name": arrow,
                            "larger": larger.group.replace("_", " "),
                            "smaller": smaller.group.replace("_", " "),
                            "larger_error": larger.held_out.mean,
                            "smaller_error": smaller.held_out.mean,
                        },
                    )
                )
        if p.ica_efficiency is not None and p.ica_efficiency.held_out is None:
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
