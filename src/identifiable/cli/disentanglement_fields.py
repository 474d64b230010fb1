"""What a condition on a disentanglement may name: a score, an end of its interval or its p, before ICA or after."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

from identifiable._checks import UsageError
from identifiable.cli.conditions import Field, Fields
from identifiable.results import Disentanglement, Metric

BARE = "infomec"  # the metric whose scores need no name before them
AFTER = "after"
ENDS = {"_low": 0, "_high": 1}
CHANCE = "_p"


def disentanglement_fields(*, metrics: Collection[str], modes: Collection[str], bootstrap: bool, null: bool) -> Fields:
    """`infom`, `infom_low`, `infom_p`, `mig.mig`, `after.infom` (of every mode) and `after.centred.infom`."""

    def find(path: tuple[str, ...]) -> Field:
        name = ".".join(path)
        after = path[0] == AFTER
        mode, rest = _mode(path[1:], modes, name) if after else (None, path)
        if len(rest) not in (1, 2):
            raise UsageError(f"{name} names no score; write infom, or METRIC.SCORE as in mig.mig.")
        metric, score = rest if len(rest) == 2 else (BARE, rest[0])
        if metric not in metrics:
            hint = "" if len(rest) == 2 else f" ({score!r} alone is a score of {BARE})"
            raise UsageError(
                f"{metric} was not measured{hint}; choose from {', '.join(metrics)}, or add it to --metrics."
            )
        if score.endswith(tuple(ENDS)) and not bootstrap:
            raise UsageError(f"{name} was not measured: needs intervals; pass --bootstrap 100 or more.")
        if score.endswith(CHANCE) and not null:
            raise UsageError(f"{name} was not measured: needs shuffled factors; pass --null 100 or more.")
        return Field(float, lambda result: _values(result, metric, score, after, mode))

    return Fields("infom < 0.6", find)


def _mode(rest: tuple[str, ...], modes: Collection[str], name: str) -> tuple[str | None, tuple[str, ...]]:
    """The mode of ICA that is named, if any, and what follows it."""
    if not modes:
        raise UsageError(f"{name} was not measured: needs scores after ICA; pass --resolve.")
    return (rest[0], rest[1:]) if rest and rest[0] in modes else (None, rest)


def _values(
    result: Disentanglement, metric: str, score: str, after: bool, mode: str | None
) -> Iterator[tuple[str, Any]]:
    name = result.inputs[0].name if result.inputs else "latents"
    if not after:
        yield name, _figure(result.metrics[metric], metric, score)
    for step in result.after if after else ():
        if mode in (None, step.mode):
            found = step.metrics.get(metric)
            yield f"{name}, {step.mode} ICA", None if found is None else _figure(found, metric, score)


def _figure(metric: Metric, name: str, score: str) -> float | None:
    """A score, or a figure about it; None where that was not measured."""
    if score in metric.scores:
        return metric.scores[score]
    for suffix, end in ENDS.items():
        if score.removesuffix(suffix) in metric.scores:
            return metric.intervals.get(score.removesuffix(suffix), (math.nan, math.nan))[end]
    if score.removesuffix(CHANCE) in metric.scores:
        null = metric.nulls.get(score.removesuffix(CHANCE))
        return None if null is None else null.p
    raise UsageError(f"no score {score!r} of {name}; choose from {', '.join(metric.scores)}.")
