"""What `layers` found: every layer of one model beside every layer of another, and which of them match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from identifiable.results.comparison import Null
from identifiable.results.record import Answer, Interval, Shown

Measure = Literal["cka", "svcca", "r2", "r2_back", "overlap"]
MEASURES: tuple[Measure, ...] = ("cka", "svcca", "r2", "r2_back", "overlap")
Values = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Layer:
    """One layer of one model.

    leading    share of the variance in the largest principal component
    weight     share of that component in the layer's weight in CKA, which goes with the square of the variance
    rogue      share of the variance in the one column that has most of it
    kept       share of the variance in the components that R² uses
    """

    model: str
    name: str
    width: int
    rank: int
    leading: float
    weight: float
    rogue: float
    kept: float


@dataclass(frozen=True)
class LayerGrid:
    """Every measure between layers of two models, a row for each layer of the first: the two `models`, the first model and
    it`self`, or the `untrained` pair.

    cka        linear CKA, debiased
    svcca      mean canonical correlation of the leading components of either layer
    r2         held-out R² of a similarity from the first to the second, `r2_back` from the second to the first
    overlap    share of the nearest neighbours of a row that are the same in both

    `components` are those of SVCCA, fewer where a layer has a lower rank.
    """

    of: Literal["models", "self", "untrained"]
    first: tuple[str, ...]
    second: tuple[str, ...]
    cka: Values
    svcca: Values
    r2: Values
    r2_back: Values
    overlap: Values
    components: int


@dataclass(frozen=True)
class LayerPair:
    """A layer of the first model and the layer of the second at the same depth, with intervals and shuffled rows (`null`)."""

    first: str
    second: str
    cka: float
    svcca: float
    r2: float
    r2_back: float
    overlap: float
    cka_ci95: Interval | None = None
    svcca_ci95: Interval | None = None
    r2_ci95: Interval | None = None
    r2_back_ci95: Interval | None = None
    overlap_ci95: Interval | None = None
    null: Mapping[Measure, Null] | None = None


@dataclass(frozen=True)
class LayerMatch:
    """The layer of the other model that a layer is most like, by CKA.

    It is a match (`clear`) if its CKA is above that of every other layer by more than the interval of the difference, and above
    that of shuffled rows (`p`). `tied` are the other layers it cannot be told from, none where it is not above chance. `gap` is the
    difference to the `runner_up`.
    `same`: the best match is at the same depth. `by` has the best match by the other measures.
    """

    layer: str
    best: str
    cka: float
    clear: bool
    same: bool
    p: float
    by: Mapping[Measure, str]
    cka_ci95: Interval | None = None
    runner_up: str | None = None
    gap: float | None = None
    gap_ci95: Interval | None = None
    tied: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayerCheckpoint:
    """Two checkpoints of training: of the `first` model and its last, of the `second` and its last, or of both (`between`)."""

    series: Literal["first", "second", "between"]
    step: int
    checkpoint: str
    against: str
    matched: int
    same: int
    diagonal: tuple[LayerPair, ...]
    matches: tuple[LayerMatch, ...]


@dataclass(frozen=True, repr=False)
class Layers(Shown):
    """What `layers` found of two models, and all it takes to draw it.

    `matched` layers of the first model have one clear best match in the second, `same` of them at the same depth; `tied` have
    several. `diagonal` has the pairs at the same depth: the same place from the first layer to the last, to the nearest where the
    models have different numbers of layers. `above_untrained` of them have a CKA whose interval lies above the untrained pair.
    """

    names: tuple[str, str]
    n: int
    text: Answer
    matched: int
    same: int
    tied: int
    diagonal: tuple[LayerPair, ...]
    matches: tuple[LayerMatch, ...]
    matches_back: tuple[LayerMatch, ...]
    layers: tuple[Layer, ...]
    grids: tuple[LayerGrid, ...]
    components: int
    map_components: int
    neighbours: int
    sample: int
    above_untrained: int | None = None
    sources: tuple[str, ...] = ()
    training: tuple[LayerCheckpoint, ...] = ()
    schema: Literal["identifiable/layers/1"] = "identifiable/layers/1"
    rows_in = "grids"

    @property
    def about(self) -> str:
        return f"Layers of {' and '.join(self.names)}"

    def grid(self, of: str) -> LayerGrid | None:
        """The grid of that name; None where it was not measured."""
        return next((grid for grid in self.grids if grid.of == of), None)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """One row for each pair of layers of each grid."""
        for grid in self.grids:
            for i, first in enumerate(grid.first):
                for j, second in enumerate(grid.second):
                    values: dict[str, float] = {measure: getattr(grid, measure)[i][j] for measure in MEASURES}
                    yield {"of": grid.of, "first": first, "second": second, **values}
