"""What an evaluation is asked for, checked before any work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.deconfounding.corrections.registry import CORRECTIONS
from identifiable.deconfounding.design import Design
from identifiable.deconfounding.evaluation.classifiers import Classifier, LightGBM
from identifiable.deconfounding.evaluation.contrasts import Against, Level
from identifiable.deconfounding.evaluation.representing import (
    BLIND,
    REPRESENTATIONS,
    Rank,
    check_representations,
    only_transductive,
)
from identifiable.deconfounding.evaluation.sparsity import check_percents
from identifiable.deconfounding.folds import HOLD_OUTS, HoldOut
from identifiable.groups import AffineMap
from identifiable.results.evaluation import FitOn

Protocol = Literal["default", "paper", "single-batch"]
PROTOCOLS: tuple[Protocol, ...] = ("default", "paper", "single-batch")
FITS: tuple[FitOn, ...] = ("train", "all")
UNFITTED = ("base", *BLIND)  # the same whatever rows are fitted to


@dataclass(frozen=True, eq=False)
class Request:
    """What was asked for, checked, with the protocol's own choices in place."""

    representations: tuple[str, ...]
    corrections: tuple[str, ...]
    given: Mapping[str, AffineMap]
    classifiers: tuple[Classifier, ...]
    against: Against
    level: Level
    hold_out: tuple[HoldOut, ...]
    fit: tuple[FitOn, ...]
    folds: int
    seeds: int
    rotations: int
    rank: Rank
    null_guides: int
    concentration: tuple[float, ...]
    bootstrap: int
    protocol: Protocol
    seed: int

    def __post_init__(self) -> None:
        check_representations(self.representations, self.corrections)
        check_percents(self.concentration)
        for name, value, choices in (
            ("against", self.against, ("controls", "others")),
            ("level", self.level, ("perturbation", "target")),
            ("protocol", self.protocol, PROTOCOLS),
            *(("hold_out", each, HOLD_OUTS) for each in self.hold_out),
            *(("fit", each, FITS) for each in self.fit),
        ):
            if value not in choices:
                raise UsageError(f"{name} {value!r}: expected {' or '.join(choices)}.")
        for name, least in (
            ("folds", 2),
            ("seeds", 1),
            ("rotations", 1),
            ("null_guides", 0),
            ("bootstrap", 0),
            ("seed", 0),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise UsageError(f"{name} {value!r}: expected a whole number of at least {least}.")
        for name in ("classifiers", "hold_out", "fit"):
            if not getattr(self, name):
                raise UsageError(f"{name}: expected at least one, got none.")
        names = [c.name for c in self.classifiers]
        if len(set(names)) < len(names):
            raise UsageError(f"classifiers: each name may occur once, got {', '.join(names)}.")
        if not (self.representations or self.corrections or self.given):
            raise UsageError("representations: expected at least one, got none.")
        taken = [name for name in self.given if name in (*REPRESENTATIONS, *CORRECTIONS, *BLIND)]
        if taken:
            raise UsageError(f"given: {taken[0]!r} is the name of another representation; choose another name.")

    @property
    def embeddings(self) -> tuple[str, ...]:
        return (*self.representations, *self.given, *self.corrections)

    @property
    def tree(self) -> Classifier:
        """The classifier the verdict is about: LightGBM, or the first."""
        return next((c for c in self.classifiers if isinstance(c, LightGBM)), self.classifiers[0])

    def is_fitted(self, name: str) -> bool:
        """Whether a representation depends on the rows it is fitted to."""
        return name not in UNFITTED and name not in self.given

    @property
    def labels(self) -> tuple[FitOn, ...]:
        """What conditions are labelled with; what is not fitted at all appears under each of them."""
        more = any(only_transductive(name) for name in self.corrections) and "all" not in self.fit
        return (*self.fit, "all") if more else self.fit

    def check_table(self, blocks: Blocks, design: Design) -> None:
        """Refuse a table this cannot be asked of."""
        if blocks.n != design.n:
            raise DataError(
                f"{blocks.name}: {blocks.n} rows, but the design {design.name} has {design.n}; join them by id first."
            )
        if self.against == "controls" and not design.control.any():
            raise DataError(
                f"{design.name}: no row is a negative control; say which are (--control), or compare with other perturbations "
                "(--against others, against=)."
            )
        for name, affine in self.given.items():
            if len(affine.matrix) != blocks.d:
                raise UsageError(
                    f"given {name!r}: expected a map from {blocks.d} columns, got one from {len(affine.matrix)}."
                )
