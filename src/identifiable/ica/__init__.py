"""Whitening and ICA: turn "the same up to a linear map" into "the same up to order and sign", then fix those too."""

from __future__ import annotations

from identifiable.ica.fitting import Fit, fit
from identifiable.ica.joint import JointlyResolved, resolve_jointly
from identifiable.ica.matching import Matching, match_components, matched_matrices
from identifiable.ica.resolving import Resolved, resolve

__all__ = [
    "Fit",
    "JointlyResolved",
    "Matching",
    "Resolved",
    "fit",
    "match_components",
    "matched_matrices",
    "resolve",
    "resolve_jointly",
]
