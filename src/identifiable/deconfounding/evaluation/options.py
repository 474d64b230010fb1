"""What an evaluation is asked for, checked before any work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.deconfounding.corrections.registry import CORRECTIONS
from identifiable.deconfounding.design import Design
from identifiable.deconfounding.evaluation.classifiers import Classifier, LightGBM, classifier_of, settings_text
from identifiable.deconfounding.evaluation.representing import BLIND, REPRESENTATIONS, Rank, only_transductive
from identifiable.deconfounding.folds import HOLD_OUTS, Against, HoldOut, Level
from identifiable.groups import AffineMap
from identifiable.results import Alert
from identifiable.results.evaluation import FitOn

Protocol = Literal["default", "paper", "single-batch"]
PROTOCOLS: tuple[Protocol, ...] = ("default", "paper", "single-batch")
FITS: tuple[FitOn, ...] = ("train", "all")
UNFITTED = ("base", *BLIND)  # the same whatever rows are fitted to
FOLDS = 5  # the paper's
HOLD_OUT: tuple[HoldOut, ...] = ("plate",)


@dataclass(frozen=True, eq=False)
class EvaluateOptions:
    """What an evaluation can be told; lists lose what occurs twice.

    representations   of "base", "pca", "ica" and "rand"
    given             maps that were fitted elsewhere, by name: representations of their own
    corrections       names of `CORRECTIONS`, to compare with
    classifiers       names of `CLASSIFIERS`, or classifiers of scikit-learn
    targets           names of perturbations (of targets, with level "target"); None for the `max_targets` on most plates with at
                      least `min_wells` wells
    against           "controls" of the batches in which the target occurs, or "others": other perturbations on its plates
    fit               "train": transforms see no test plate. "all": they do, as in the paper. Both: their difference estimates leakage
    concentration     top per cents of features by split count to refit on
    protocol          "paper" fits to all rows and holds out plates. "single-batch" trains on one batch and tests on all others,
                      transforms fitted to all rows; batches with fewer than 60 rows or one class are named in `skipped`. What
                      they override of `fit`, `hold_out` and `folds` is an alert
    """

    representations: Sequence[str] = REPRESENTATIONS
    given: Mapping[str, AffineMap] = field(default_factory=dict)
    corrections: Sequence[str] = ()
    classifiers: Sequence[Any] = ("lightgbm", "ridge")
    targets: Sequence[str] | None = None
    max_targets: int = 16
    min_wells: int = 20
    level: Level = "perturbation"
    against: Against = "controls"
    folds: int = FOLDS
    hold_out: Sequence[HoldOut] = HOLD_OUT
    fit: Sequence[FitOn] = ("train",)
    rank: Rank = "auto"
    seeds: int = 1
    rotations: int = 20
    null_guides: int = 4
    concentration: Sequence[float] = ()
    bootstrap: int = 1000
    protocol: Protocol = "default"

    def __post_init__(self) -> None:
        object.__setattr__(self, "classifiers", tuple(classifier_of(c) for c in self.classifiers))
        object.__setattr__(self, "concentration", tuple(float(percent) for percent in self.concentration))
        if self.targets is not None:
            object.__setattr__(self, "targets", tuple(self.targets))
        for name in ("representations", "corrections", "hold_out", "fit"):
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))
        self._check_choices()
        self._check_numbers()
        self._check_names()

    def _check_choices(self) -> None:
        for name, value, choices in (
            *(("representation", each, REPRESENTATIONS) for each in self.representations),
            *(("correction", each, tuple(CORRECTIONS)) for each in self.corrections),
            ("against", self.against, ("controls", "others")),
            ("level", self.level, ("perturbation", "target")),
            ("protocol", self.protocol, PROTOCOLS),
            *(("hold_out", each, HOLD_OUTS) for each in self.hold_out),
            *(("fit", each, FITS) for each in self.fit),
        ):
            if value not in choices:
                raise UsageError(f"{name} {value!r}: expected {', '.join(choices[:-1])} or {choices[-1]}.")

    def _check_numbers(self) -> None:
        for percent in self.concentration:
            if not 0 < percent < 100:
                raise UsageError(f"concentration {percent!r}: expected a per cent of features, above 0 and below 100.")
        for name, least in (("folds", 2), ("seeds", 1), ("rotations", 1), ("null_guides", 0), ("bootstrap", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise UsageError(f"{name} {value!r}: expected a whole number of at least {least}.")

    def _check_names(self) -> None:
        for name in ("classifiers", "hold_out", "fit"):
            if not getattr(self, name):
                raise UsageError(f"{name}: expected at least one, got none.")
        names = [c.name for c in self.classifiers]
        if len(set(names)) < len(names):
            raise UsageError(f"classifiers: each name may occur once, got {', '.join(names)}.")
        if not self.embeddings:
            raise UsageError("representations: expected at least one, got none.")
        taken = [name for name in self.given if name in (*REPRESENTATIONS, *CORRECTIONS, *BLIND)]
        if taken:
            raise UsageError(f"given: {taken[0]!r} is the name of another representation; choose another name.")

    @property
    def settings(self) -> dict[str, Any]:
        """What a result records of them."""
        recorded = {each.name: getattr(self, each.name) for each in fields(self)}
        recorded |= {"given": tuple(self.given), "hold_out": self.holds_out, "fit": self.fits}
        recorded["classifiers"] = {c.name: settings_text(c) for c in self.classifiers}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in recorded.items()}

    @property
    def holds_out(self) -> tuple[HoldOut, ...]:
        """What is held out, with the protocol's own choice in place."""
        return HOLD_OUT if self.protocol == "paper" else tuple(self.hold_out)

    @property
    def fits(self) -> tuple[FitOn, ...]:
        """What transforms are fitted to, with the protocol's own choice in place."""
        return tuple(self.fit) if self.protocol == "default" else ("all",)

    def overridden(self) -> Iterator[Alert]:
        """What a protocol does instead of what was asked for."""
        single = self.protocol == "single-batch"
        changed = []
        if tuple(self.fit) != self.fits:
            changed.append(f"--fit {','.join(self.fit)}")
        if self.protocol != "default" and tuple(self.hold_out) != HOLD_OUT:
            changed.append(f"--hold-out {','.join(self.hold_out)}")
        if single and self.folds != FOLDS:
            changed.append(f"--folds {self.folds}")
        if changed:
            yield Alert("protocol_overrides", {"protocol": self.protocol, self.protocol.replace("-", "_"): changed})

    @property
    def embeddings(self) -> tuple[str, ...]:
        return (*self.representations, *self.given, *self.corrections)

    @property
    def tree(self) -> Classifier:
        """The classifier the verdict is about: LightGBM, or the first."""
        first: Classifier = next((c for c in self.classifiers if isinstance(c, LightGBM)), self.classifiers[0])
        return first

    def is_fitted(self, name: str) -> bool:
        """Whether a representation depends on the rows it is fitted to."""
        return name not in UNFITTED and name not in self.given

    @property
    def labels(self) -> tuple[FitOn, ...]:
        """What conditions are labelled with; what is not fitted at all appears under each of them."""
        more = any(only_transductive(name) for name in self.corrections) and "all" not in self.fits
        return (*self.fits, "all") if more else self.fits

    def check_table(self, blocks: Blocks, design: Design) -> None:
        """Refuse a table this cannot be asked of."""
        design.check_rows(blocks)
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
