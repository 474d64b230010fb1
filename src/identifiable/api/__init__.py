"""The public calls: what is given as a path is opened, then the room that knows the work is called.

The scikit-learn estimator is in `identifiable.api.estimator` and `disentangle` in `identifiable.api.disentangling`, so that only
who uses them loads scikit-learn and what compiles.
"""

from __future__ import annotations

from identifiable.api.comparing import compare, structural
from identifiable.api.decoding import bilipschitz
from identifiable.api.factoring import mechanisms
from identifiable.api.opening import connected, load
from identifiable.api.resolving import resolve
from identifiable.api.transforming import transform
from identifiable.io import load_basis, save_basis

__all__ = [
    "bilipschitz",
    "compare",
    "connected",
    "load",
    "load_basis",
    "mechanisms",
    "resolve",
    "save_basis",
    "structural",
    "transform",
]
