"""A correction for plates it was not fitted to: what is kept of it, and how their own controls come first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import Blocks
from identifiable.deconfounding.corrections.registry import CorrectionOptions, fit_correction
from identifiable.deconfounding.corrections.streaming import GroupScaling
from identifiable.deconfounding.corrections.tasks import Affine, Fit
from identifiable.deconfounding.design import Design
from identifiable.deconfounding.feature_map import BeforeMap, FeatureMap
from identifiable.deconfounding.recommendation.candidates import Candidate, Chained, Same, Stepped
from identifiable.deconfounding.roles import known_roles
from identifiable.groups import AffineMap
from identifiable.results import Alert, Recommendation


def kept_map(
    result: Recommendation, candidate: Candidate, fit: Fit, design: Design, d: int, columns: tuple[str, ...] | None
) -> FeatureMap:
    """A correction as it is saved: without the pictures of its result."""
    told = replace(result, pictures=(), plate_maps=())
    if isinstance(fit.step, Same):
        return FeatureMap(AffineMap.identity(d), told, columns)
    if isinstance(fit.step, Affine):
        return FeatureMap(fit.step.map, told, columns)
    if isinstance(fit.step, Chained) and isinstance(fit.step.first, GroupScaling) and candidate.scaling is not None:
        method, level = candidate.scaling
        return FeatureMap(fit.step.then, told, columns, BeforeMap(method, level, dict(design.roles), candidate.name))
    return FeatureMap(AffineMap.identity(d), told, columns, BeforeMap("all rows", named=candidate.name))


def scaled_by_own_controls(
    blocks: Blocks, labels: Mapping[str, NDArray[Any]], before: BeforeMap
) -> tuple[Blocks, tuple[Alert, ...]]:
    """Rows of new plates, each plate or batch centred and scaled by its own controls."""
    design = known_roles(labels, before.roles, name=blocks.name)
    found = fit_correction(before.method, blocks, design, CorrectionOptions(level=before.level))
    places = np.arange(blocks.n)
    return Blocks(Stepped(blocks, places, found.fit.step, blocks.d), name=blocks.name), found.alerts
