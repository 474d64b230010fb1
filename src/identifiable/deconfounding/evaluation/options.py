"""What an evaluation is asked for, checked before any work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.deconfounding.corrections.registry import CORRECTIONS
from identifiable.deconfounding.design import Design
from identifiable.deconfounding.evaluation.classifiers import Classifier, LightGBM, classifier_of, settings_text
from identifiable.deconfounding.evaluation.representing import BLIND, REPRESENTATIONS, only_transductive
from identifiable.deconfounding.folds import USUAL_WELLS, Against, HoldOut
from identifiable.groups import AffineMap
from identifiable.options import EvaluateOptions, Option
from identifiable.results import Alert
from identifiable.results.evaluation import FitOn

QUICK: Mapping[str, Any] = {
    "representations": ("base", "pca"),
    "classifiers": ("ridge", "1-nn"),
    "rotations": 1,
    "concentration": (),
}
UNFITTED = ("base", *BLIND)  # the same whatever rows are fitted to
FOLDS = 5  # the paper's
HOLD_OUT: tuple[HoldOut, ...] = ("plate",)


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked(EvaluateOptions):
    """The options of an evaluation, with `given`: maps that were fitted elsewhere, by name. Lists lose what occurs twice."""

    given: Annotated[Mapping[str, AffineMap], Option("representations of their own", flag=None)] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in QUICK.items() if self.quick else ():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "classifiers", tuple(map(self._classifier, self.classifiers)))
        for name in ("representations", "corrections", "hold_out", "fit"):
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))
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

    def _classifier(self, given: Any) -> Classifier:
        """One by its name has the paper's settings where the protocol is the paper's; ours adapts to small screens."""
        found = classifier_of(given)
        ours = isinstance(found, LightGBM) and isinstance(given, str) and self.protocol == "default"
        return replace(found, adapts=True) if ours and isinstance(found, LightGBM) else found

    def settings(self, **beside: Any) -> dict[str, Any]:
        """What a result records of them."""
        classifiers = {c.name: settings_text(c) for c in self.classifiers}
        recorded = super().settings(given=tuple(self.given), classifiers=classifiers, **beside)
        del recorded["basis"]  # it is among those given
        return recorded | {"hold_out": list(self.holds_out), "fit": list(self.fits)}

    @property
    def holds_out(self) -> tuple[HoldOut, ...]:
        """What is held out, with the protocol's own choice in place."""
        return HOLD_OUT if self.protocol == "paper" else tuple(self.hold_out)

    @property
    def fits(self) -> tuple[FitOn, ...]:
        """What transforms are fitted to, with the protocol's own choice in place."""
        return tuple(self.fit) if self.protocol == "default" else ("all",)

    @property
    def least_wells(self) -> int | None:
        """The wells a target needs; None where they follow from the screen."""
        if self.min_wells == "auto":
            return None if self.protocol == "default" else USUAL_WELLS
        return int(self.min_wells)

    def compared_with(self, design: Design) -> Against:
        """What targets are told from: controls, if there are any, unless others are asked for."""
        if self.against == "auto":
            return "controls" if design.control.any() else "others"
        return self.against

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
