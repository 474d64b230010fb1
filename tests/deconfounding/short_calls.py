"""The calls of the room with their options as keywords, so that a test says only what it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from identifiable.deconfounding import roles
from identifiable.deconfounding.audit import auditing
from identifiable.deconfounding.components import attributing, cleaning
from identifiable.deconfounding.corrections import registry
from identifiable.deconfounding.evaluation import evaluating
from identifiable.deconfounding.metrics import replicates
from identifiable.options import AttributeOptions, AuditOptions, CleanOptions, EvaluateOptions, ScreenOptions
from identifiable.run import Run


def short(function: Callable[..., Any], options: type, *, runs: bool = True) -> Callable[..., Any]:
    """`function(*data, options, run)` with the fields of both as keywords; other keywords are passed on."""

    kinds = (options, Run) if runs else (options,)

    def call(*data: Any, **given: Any) -> Any:
        names = [{each.name for each in fields(kind)} & given.keys() for kind in kinds]
        asked = [kind(**{name: given[name] for name in own}) for kind, own in zip(kinds, names, strict=True)]
        return function(*data, *asked, **{name: given[name] for name in given.keys() - set().union(*names)})

    return call


audit = short(auditing.audit, AuditOptions)
evaluate = short(evaluating.evaluate, EvaluateOptions)
attribute = short(attributing.attribute, AttributeOptions)
clean = short(cleaning.clean, CleanOptions)
fit_correction = short(registry.fit_correction, registry.CorrectionOptions)
assign_roles = short(roles.assign_roles, ScreenOptions, runs=False)
replicate_map = short(replicates.replicate_map, replicates.Ranking, runs=False)


def says(text: str, *parts: str) -> bool:
    """Whether a text for readers has all its variable parts: counts, names, options."""
    return all(part in text for part in parts)
