"""What every correction of batch effects starts from and leaves behind.

A `Task` is the table, its design and the rows to learn from; `Groups` are the plates or batches that are corrected one by
one; a `Fit` is what was learned: a step that acts on rows, and what a reader must know about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks, Progress
from identifiable.deconfounding.corrections.principal_axes import PrincipalAxes
from identifiable.deconfounding.design import Codes, Design, Labels, Mask
from identifiable.groups import AffineMap
from identifiable.intake import gather_moments
from identifiable.moments import Array
from identifiable.results import Alert

Level = Literal["plate", "batch"]
SHOWN = 3  # names given in a message before "and k more"


class Step(Protocol):
    """What a correction does to rows, given their places in the design."""

    def __call__(self, X: Array, index: Codes, /) -> Array: ...


@dataclass(frozen=True, eq=False)
class Affine:
    """A step that is one affine map, whatever the plate."""

    map: AffineMap

    def __call__(self, X: Array, index: Codes) -> Array:
        return self.map(X)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted step with the columns it gives. `known` marks the rows of the design it can correct; None is all."""

    step: Step
    width: int
    notes: tuple[str, ...] = ()
    alerts: tuple[Alert, ...] = ()
    known: Mask | None = None


@dataclass(frozen=True, eq=False)
class Groups:
    """What is corrected one by one: the plates of a design, or its batches."""

    level: Level
    labels: Labels

    @property
    def levels(self) -> str:
        return "batches" if self.level == "batch" else "plates"

    def names(self, which: Mask) -> str:
        return listed(self.labels.names[k] for k in np.flatnonzero(which))


@dataclass(frozen=True, eq=False)
class Task:
    """A table, its design, and the rows of it to learn from (`rows`, ascending)."""

    blocks: Blocks
    design: Design
    rows: Codes
    level: Literal["plate", "batch", "auto"] = "auto"
    seed: int = 0
    workers: int | None = None
    progress: Progress | None = None

    @classmethod
    def of(cls, blocks: Blocks, design: Design, rows: NDArray[Any] | None, **settings: Any) -> Task:
        """A checked task; `rows` None is all of them."""
        if blocks.n != design.n:
            raise DataError(
                f"{blocks.name}: {blocks.n} rows, but the design {design.name} has {design.n}; join them by id first."
            )
        return cls(blocks, design, _checked_rows(rows, design.n), **settings)

    @cached_property
    def fitted(self) -> Mask:
        """Which rows of the design are learned from."""
        mask = np.zeros(self.design.n, dtype=np.bool_)
        mask[self.rows] = True
        return mask

    @property
    def everything(self) -> bool:
        return len(self.rows) == self.design.n

    @property
    def fitted_controls(self) -> Codes:
        found = np.flatnonzero(self.fitted & self.design.control)
        if len(found) < 2:
            raise DataError(
                f"{self.design.name}: this correction is learned from negative controls, and the {len(self.rows)} rows to fit on "
                f"hold {len(found)}; name the controls, or choose a correction that needs none."
            )
        return found

    def groups(self, *, prefer: Level) -> Groups:
        """The groups to correct; `auto` takes the preferred level, and plates where there are not two batches."""
        level = self.level
        batch = self.design.batch
        if level == "auto":
            level = "plate" if prefer == "plate" or batch is None or batch.size < 2 else "batch"
        if level == "plate":
            return Groups("plate", self.design.plate)
        if batch is None:
            raise UsageError(f"{self.design.name}: level 'batch', but the design names no batches; use level 'plate'.")
        return Groups("batch", batch)

    def white_map(self) -> tuple[AffineMap, str]:
        """PCA whitening learned from the rows to fit on, leading directions first, and a note of it."""
        moments = gather_moments([self.blocks.select(self.rows)], workers=self.workers, progress=self.progress)[0]
        axes = PrincipalAxes.of(moments, scaled=False)
        note = f"PCA whitening of {axes.n} rows, {len(axes.variances)} of {self.blocks.d} directions vary"
        return axes.whitening, note


def serving_controls(task: Task, groups: Groups) -> tuple[Codes, list[str], list[Alert]]:
    """The controls each group is measured by, as rows of the design, with what to say about them.

    A group is served by its controls among the rows to fit on; one that has none there (a held-out plate) by its own
    controls, which is a use of test rows, though not of their treatments.
    """
    codes, control = groups.labels.codes, task.design.control
    size = groups.labels.size
    served = np.bincount(codes[control & task.fitted], minlength=size) > 0
    rows = np.flatnonzero(control & (task.fitted | ~served[codes]))
    if not rows.size:
        raise DataError(f"{task.design.name}: this correction needs negative controls, and the design marks none.")
    counts = np.bincount(codes[rows], minlength=size)
    notes = [f"measured on {len(rows)} controls of {int((counts > 0).sum())} {groups.levels}"]
    own = ~served & (counts > 0)
    if own.any():
        notes.append(
            f"{int(own.sum())} {groups.levels} not among the fitted rows are corrected by their own controls: test controls "
            "are used, test treatments are not"
        )
    alerts = []
    if (counts == 0).any():
        alerts.append(
            Alert(
                "groups_without_controls",
                f"{int((counts == 0).sum())} {groups.levels} have no controls ({groups.names(counts == 0)}): "
                "the controls of all others stand in, so what is particular to these stays in.",
            )
        )
    if (counts == 1).any():
        alerts.append(
            Alert(
                "one_control",
                f"{int((counts == 1).sum())} {groups.levels} have one control ({groups.names(counts == 1)}): "
                f"their spread is taken from the other {groups.levels}.",
            )
        )
    return rows, notes, alerts


def confounded(task: Task, groups: Groups) -> list[Alert]:
    """An alert where most treated rows have a treatment that occurs in one group only: no method can part the two."""
    rows = task.rows[~task.design.control[task.rows]]
    if not rows.size:
        return []
    treatments = task.design.perturbation.codes[rows]
    pairs = np.unique(np.column_stack([treatments, groups.labels.codes[rows]]), axis=0)
    alone = np.bincount(pairs[:, 0]) == 1
    share = float(alone[treatments].mean())
    if share <= 0.5:
        return []
    return [
        Alert(
            "treatment_in_one_group",
            f"{share:.0%} of the treated rows have a treatment that occurs in one {groups.level} only: "
            f"removing the {groups.level} removes the treatment too, and nothing in the data can tell them apart.",
        )
    ]


def listed(names: Iterable[str]) -> str:
    """The first few names and how many more there are.

    >>> listed(["p1", "p2", "p3", "p4", "p5"])
    'p1, p2, p3 and 2 more'
    """
    every = list(names)
    rest = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + rest


def _checked_rows(rows: NDArray[Any] | None, n: int) -> Codes:
    if rows is None:
        return np.arange(n, dtype=np.intp)
    rows = np.asarray(rows)
    if rows.dtype == np.bool_:
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or not rows.size:
        raise UsageError(
            f"rows: expected places of rows in the design, at least one, got {rows.dtype} of {rows.shape}."
        )
    places = np.unique(rows).astype(np.intp)
    if len(places) != len(rows) or places[0] < 0 or places[-1] >= n:
        raise UsageError(
            f"rows: expected different places from 0 to {n - 1}, got {len(rows)} from {rows.min()} to {rows.max()}."
        )
    return places
