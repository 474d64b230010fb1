"""A correction of a table as it is kept: a map from features to the same features, which new plates can be sent through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from identifiable.groups import AffineMap
from identifiable.results import Holder


@dataclass(frozen=True)
class BeforeMap:
    """What is done to the rows of new plates before the map, from columns of their table that `roles` names.

    Each plate or batch (`level`) is centred and scaled by its own controls; "all rows" is a correction that exists only for the
    rows it was fitted to.
    """

    method: Literal["control-z", "control-mad", "all rows"]
    level: Literal["plate", "batch"] = "plate"
    roles: Mapping[str, str] = field(default_factory=dict)
    named: str = ""  # what the correction is called


@dataclass(frozen=True, eq=False, repr=False)
class FeatureMap(Holder):
    """The map, the result that says what it does, and the names of the features (None where they have none).

    `before` is None for a map that needs nothing but the rows.
    """

    map: AffineMap
    result: Any
    columns: tuple[str, ...] | None = None
    before: BeforeMap | None = None
