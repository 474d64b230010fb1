"""What every correction of batch effects starts from and leaves behind.

A `Task` is the table, its design and the rows to learn from; `Groups` are the plates or batches that are corrected one by
one; a `Fit` is what was learned: a step that acts on rows, and what a reader must know about it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks, fold
from identifiable.deconfounding.design import Codes, Design, Labels, Mask
from identifiable.groups import GRAM_TOLERANCE, AffineMap
from identifiable.intake import gather_moments
from identifiable.moments import EPS, Array, Moments
from identifiable.results import Alert, Note
from identifiable.run import Run, Stage

T = TypeVar("T")
Level = Literal["plate", "batch"]


class Step(Protocol):
    """What a correction does to rows, given their places in the design."""

    def __call__(self, X: Array, index: Codes, /) -> Array: ...


@dataclass(frozen=True, eq=False)
class Affine:
    """A step that is one affine map, whatever the plate."""

    map: AffineMap

    def __call__(self, X: Array, index: Codes) -> Array:
        return self.map.apply(X)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted step with the columns it gives. `known` marks the rows of the design it can correct; None is all.

    Columns that are components lie along `axes`, orthonormal columns (features, width); None where they are features.
    """

    step: Step
    width: int
    notes: tuple[Note, ...] = ()
    alerts: tuple[Alert, ...] = ()
    known: Mask | None = None
    axes: Array | None = None


@dataclass(frozen=True, eq=False)
class Groups:
    """What is corrected one by one: the plates of a design, or its batches."""

    level: Level
    labels: Labels

    @property
    def levels(self) -> str:
        return "batches" if self.level == "batch" else "plates"

    def named(self, which: Mask) -> dict[str, Any]:
        """These groups, as values of an alert."""
        names = [self.labels.names[k] for k in np.flatnonzero(which)]
        return {"groups": len(names), "level": self.level, "names": names}


@dataclass(frozen=True, eq=False)
class Task:
    """A table, its design, and the rows of it to learn from (`rows`, ascending)."""

    blocks: Blocks
    design: Design
    rows: Codes
    level: Literal["plate", "batch", "auto"] = "auto"
    run: Run = field(default_factory=Run)

    @classmethod
    def of(cls, blocks: Blocks, design: Design, rows: NDArray[Any] | None, **settings: Any) -> Task:
        """A checked task; `rows` None is all of them."""
        design.check_rows(blocks)
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

    def white_map(self) -> tuple[AffineMap, Note]:
        """PCA whitening learned from the rows to fit on, leading directions first, and a note of it."""
        moments = gather_moments([self.blocks.select(self.rows)], self.run)[0]
        axes = PrincipalAxes.of(moments, scaled=False)
        varying = {"rows": axes.n, "directions": len(axes.variances), "columns": self.blocks.d}
        return axes.whitening, Note("whitening", varying)


def serving_controls(task: Task, groups: Groups) -> tuple[Codes, list[Note], list[Alert]]:
    """The controls each group is measured by, as rows of the design, with what to say about them.

    A group is served by its controls among the rows to fit on; one that has none there (a held-out plate) by its own
    controls, which is a use of test rows, though not of their treatments.
    """
    control = task.design.control
    served = groups.labels.count(control & task.fitted) > 0
    rows = np.flatnonzero(control & (task.fitted | ~served[groups.labels.codes]))
    if not rows.size:
        raise DataError(f"{task.design.name}: this correction needs negative controls, and the design marks none.")
    counts = groups.labels.count(rows)
    served_groups = {"groups": int((counts > 0).sum()), "level": groups.level}
    notes = [Note("measured_on_controls", {"controls": len(rows), **served_groups})]
    own = ~served & (counts > 0)
    if own.any():
        notes.append(Note("own_controls", {"groups": int(own.sum()), "level": groups.level}))
    alerts = []
    if (counts == 0).any():
        alerts.append(Alert("groups_without_controls", groups.named(counts == 0)))
    if (counts == 1).any():
        alerts.append(Alert("one_control", groups.named(counts == 1)))
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
    return [Alert("treatment_in_one_group", {"share": share, "level": groups.level})]


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


# -- principal axes of rows


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """Principal axes of rows after centring and, if `scaled`, giving every column unit variance.

    Largest variance first; in each axis the largest loading is positive. Directions in which the rows do not vary are left
    out, and `alerts` says so. `variances` have n in the denominator.
    """

    n: int
    mean: Array
    scale: Array
    vectors: Array
    variances: Array
    alerts: tuple[Alert, ...]

    @classmethod
    def of(cls, moments: Moments, *, scaled: bool, rows: str = "rows") -> PrincipalAxes:
        """From the moments of the rows, which messages call `rows`."""
        spread = np.sqrt(moments.energy / moments.n)
        varies = spread > 0
        scale = np.where(varies, spread if scaled else 1.0, np.inf)
        covariance = moments.scatter / moments.n / np.outer(scale, scale)
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = values[::-1], vectors[:, ::-1]
        kept = values > GRAM_TOLERANCE**2 * max(values[0], 0.0)
        if not kept.any():
            raise DataError(f"the {moments.n} {rows} to fit on are all alike: there is no variation to align by.")
        vectors = np.where(varies[:, None], vectors[:, kept], 0.0)  # rounding where a column is constant
        largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
        vectors = vectors * np.where(largest < 0, -1.0, 1.0)
        return cls(moments.n, moments.mean, scale, vectors, values[kept], _null_directions(moments.n, rows, kept))

    def map(self, matrix: Array) -> AffineMap:
        """``(x - mean) / scale @ matrix``."""
        return AffineMap.about(matrix / self.scale[:, None], self.mean, np.zeros(matrix.shape[1]))

    @property
    def whitening(self) -> AffineMap:
        """To components of mean zero and unit variance on the rows, n in the denominator."""
        return self.map(self.vectors / np.sqrt(self.variances))


def _null_directions(n: int, rows: str, kept: Mask) -> tuple[Alert, ...]:
    dropped = int((~kept).sum())
    if not dropped:
        return ()
    return (
        Alert(
            "null_directions",
            {"rows": n, "kind": rows, "directions": int(kept.sum()), "of": len(kept), "dropped": dropped},
        ),
    )


# -- statistics of every plate or batch, in one pass over the rows


@dataclass(frozen=True, eq=False)
class Selected:
    """Rows of a table with the group of each; `table` may map them as they are read."""

    table: Blocks
    places: Codes
    codes: Codes
    size: int

    @classmethod
    def of(cls, task: Task, places: Codes, codes: Codes, size: int, through: AffineMap | None = None) -> Selected:
        """The rows `places` of a task's table, `codes` being those of all rows of the design."""
        table = task.blocks.select(places)
        if through is not None:
            table = table.through(through.apply, through.matrix.shape[1])
        return cls(table, places, codes[places], size)

    def read(self, first: int, rows: NDArray[Any]) -> Array:
        """A chunk in float64; values that are not finite are refused with the rows they are in."""
        block = np.asarray(rows, dtype=np.float64)
        bad = ~np.isfinite(block).all(axis=1)
        if bad.any():
            found = self.places[first : first + len(block)][bad]
            raise DataError(
                f"{self.table.name}: expected finite numbers, got NaN or infinite values (first rows, from 0: "
                f"{', '.join(map(str, found[:5]))}); remove or impute them."
            )
        return block


class GroupMoments:
    """Count, mean and centred sum of squares of every column in every group; memory is groups x columns.

    Each chunk is centred by its own group means before squaring (Chan, Golub and LeVeque 1983), so large offsets of plates
    cost no digits.
    """

    def __init__(self, rows: Selected):
        self.rows = rows
        self.counts = np.zeros(rows.size, dtype=np.int64)
        self.means = np.zeros((rows.size, rows.table.d))
        self.squares = np.zeros((rows.size, rows.table.d))

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        block = self.rows.read(first, rows[0])
        codes = self.rows.codes[first : first + len(block)]
        order = np.argsort(codes, kind="stable")
        block = block[order]
        which, starts, counts = np.unique(codes[order], return_index=True, return_counts=True)
        means = np.add.reduceat(block, starts, axis=0) / counts[:, None]
        block -= np.repeat(means, counts, axis=0)
        np.square(block, out=block)
        self._absorb(which, counts, means, np.add.reduceat(block, starts, axis=0))

    def finish(self) -> None:
        del self.rows  # what is left travels from the workers of a cluster

    def merge(self, later: GroupMoments) -> None:
        which = np.flatnonzero(later.counts)
        self._absorb(which, later.counts[which], later.means[which], later.squares[which])

    def _absorb(self, which: Codes, counts: NDArray[np.int64], means: Array, squares: Array) -> None:
        before = self.counts[which]
        total = before + counts
        step = means - self.means[which]
        self.means[which] += step * (counts / total)[:, None]
        self.squares[which] += squares + step**2 * (before * counts / total)[:, None]
        self.counts[which] = total

    @property
    def energy(self) -> Array:
        """`squares`, exactly zero where only the rounding of a constant column is left."""
        rounding = self.counts[:, None] * (8 * EPS * np.abs(self.means)) ** 2
        return np.where(self.squares > rounding, self.squares, 0.0)

    @property
    def overall_mean(self) -> Array:
        mean: Array = self.counts @ self.means / self.counts.sum()
        return mean


class GroupSummaries(Generic[T]):
    """`summarise(rows of a group)` for every group, each called once its last row has come.

    Only groups that are incomplete are held: where a file goes plate by plate that is one plate, at worst all rows selected.
    """

    def __init__(self, rows: Selected, summarise: Callable[[Array], T]):
        self.rows, self.summarise = rows, summarise
        self.expected = np.bincount(rows.codes, minlength=rows.size)
        self.waiting: dict[int, list[Array]] = {}
        self.done: dict[int, T] = {}

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        block = self.rows.read(first, rows[0])
        codes = self.rows.codes[first : first + len(block)]
        for group in np.unique(codes).tolist():
            self._append(group, [block[codes == group]])

    def finish(self) -> None:
        del self.rows  # as in `GroupMoments`

    def merge(self, later: GroupSummaries[T]) -> None:
        self.done.update(later.done)
        for group, parts in later.waiting.items():
            self._append(group, parts)

    def _append(self, group: int, parts: list[Array]) -> None:
        held = self.waiting.setdefault(group, [])
        held += parts
        if sum(map(len, held)) == self.expected[group]:
            self.done[group] = self.summarise(np.concatenate(held))
            del self.waiting[group]


def group_moments(task: Task, rows: Selected, stage: str) -> GroupMoments:
    """The moments of every group, in one pass."""
    found = fold([rows.table], partial(GroupMoments, rows), **task.run.how, stage=Stage(stage))
    if not np.isfinite(found.squares).all():
        raise DataError(
            f"{task.blocks.name}: the squares of the values overflow float64; divide the data by a constant first."
        )
    return found


def group_summaries(task: Task, rows: Selected, summarise: Callable[[Array], T], stage: str) -> dict[int, T]:
    """The summary of every group that has rows, in one pass."""

    def start() -> GroupSummaries[T]:
        return GroupSummaries(rows, summarise)

    return fold([rows.table], start, **task.run.how, stage=Stage(stage)).done
