"""A correction of a table that needs no labels: a map from features to the same features, which new plates can be sent through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from identifiable.groups import AffineMap
from identifiable.results import Holder


@dataclass(frozen=True, eq=False, repr=False)
class FeatureMap(Holder):
    """The map, the result that says what it does, and the names of the features (None where they have none)."""

    map: AffineMap
    result: Any
    columns: tuple[str, ...] | None = None
