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
    """`infom`, `infom_low`, `infom_p`, `mig` (of mig), `dci.completeness`, `after.infom` (of every mode), `after.centred.infom`."""

    def find(given: tuple[str, ...]) -> Field:
        path = tuple(part.lower() for part in given)
        name = ".".join(path)
        after = path[0] == AFTER
        mode, rest = _mode(path[1:], modes, name) if after else (None, path)
        if len(rest) not in (1, 2):
            raise UsageError(f"{name} names no score; write infom, or METRIC.SCORE as in mig.mig.")
        metric, score = rest if len(rest) == 2 else (_metric_of(rest[0], metrics), rest[0])
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


def _metric_of(score: str, metrics: Collection[str]) -> str:
    """Whose score a single name is: that of the metric of this name, or one of InfoMEC."""
    return next((metric for metric in metrics if metric == _bare(score)), BARE)


def _bare(score: str) -> str:
    """The score that a figure is about: without `_low`, `_high` or `_p`."""
    return next((score.removesuffix(s) for s in (*ENDS, CHANCE) if score.endswith(s)), score)


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
        yield name, _figure(result.metrics.get(metric), metric, score)
    for step in result.after if after else ():
        if mode is None and not step.converged:
            raise UsageError(
                f"{step.mode} ICA did not converge, so the gate cannot decide; judge it all the same by its name "
                f"({AFTER}.{step.mode}.{score}), or pass --resolve whitened."
            )
        if mode in (None, step.mode):
            yield f"{name}, {step.mode} ICA", _figure(step.metrics.get(metric), metric, score)


def _figure(metric: Metric | None, name: str, score: str) -> float | None:
    """A score, or a figure about it; None where that was not measured. A metric of one score may stand for it."""
    if metric is None:
        return None
    bare = _bare(score)
    whose = next(iter(metric.scores)) if bare == name and len(metric.scores) == 1 else bare
    if score in metric.scores:
        return metric.scores[score]
    if whose not in metric.scores:
        choices = ", ".join(key if name == BARE else f"{name}.{key}" for key in metric.scores)
        raise UsageError(f"no score {score!r} of {name}; choose from {choices}.")
    suffix = score.removeprefix(bare)
    if suffix in ENDS:
        return metric.intervals.get(whose, (math.nan, math.nan))[ENDS[suffix]]
    if suffix == CHANCE:
        null = metric.nulls.get(whose)
        return None if null is None else null.p
    return metric.scores[whose]
