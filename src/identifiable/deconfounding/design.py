"""Design: which plate, well and perturbation every row is, and which rows are controls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.blocks import Blocks
from identifiable.results import Role, ScreenDesign
from identifiable.results.screen import UnusedColumn

Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]

EMPTY = ("", "nan", "NaN", "<NA>")  # as tables write a cell without a value
SHOWN = 3  # names given in a message before "and k more"
EXAMPLES = 3  # of the labels of a role
LEAST_REPLICATED = 0.5  # of the wells with a replicate on another plate, that keep one when doses are told apart


@dataclass(frozen=True, eq=False)
class Labels:
    """One label for each row, as codes into `names`, which are sorted and all occur.

    >>> Labels.of(np.array(["b", "a", "b"])).codes.tolist()
    [1, 0, 1]
    """

    codes: Codes
    names: tuple[str, ...]

    @classmethod
    def of(cls, values: NDArray[Any]) -> Labels:
        names, codes = np.unique(np.asarray(values).astype(str), return_inverse=True)
        return cls(codes.astype(np.intp), tuple(names.tolist()))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def size(self) -> int:
        """How many different labels there are."""
        return len(self.names)

    @cached_property
    def counts(self) -> NDArray[np.intp]:
        """Rows of each label."""
        return np.bincount(self.codes, minlength=self.size)

    @cached_property
    def members(self) -> list[Codes]:
        """The rows of each label, ascending."""
        return np.split(np.argsort(self.codes, kind="stable"), np.cumsum(self.counts)[:-1])

    def count(self, rows: NDArray[Any]) -> NDArray[np.intp]:
        """How many of some rows each label has."""
        return np.bincount(self.codes[rows], minlength=self.size)

    def spread(self, over: Labels, rows: Mask) -> NDArray[np.intp]:
        """Over how many different labels each label is spread, counting some rows."""
        pairs = np.unique(self.codes[rows] * over.size + over.codes[rows]) // over.size
        return np.bincount(pairs, minlength=self.size)

    def take(self, rows: NDArray[Any]) -> Labels:
        """The labels of some rows; names that do not occur among them are left out."""
        kept, codes = np.unique(self.codes[rows], return_inverse=True)
        return Labels(codes.astype(np.intp), tuple(self.names[k] for k in kept))

    def text(self) -> NDArray[np.str_]:
        """The labels themselves, one for each row."""
        return np.asarray(self.names, dtype=str)[self.codes]


def pairs_of(first: NDArray[Any], second: NDArray[Any]) -> tuple[tuple[str, str], ...]:
    """Two columns as pairs of labels, written as those of a screen are; rows with an empty cell are left out.

    >>> pairs_of(np.array([1.0, 2.0, np.nan]), np.array(["a", "", "b"]))
    (('1', 'a'),)
    """
    names = zip(labels_of(first).text().tolist(), labels_of(second).text().tolist(), strict=True)
    return tuple((a, b) for a, b in names if a and b)


def labels_of(values: NDArray[Any]) -> Labels:
    """Labels of text or numbers: blanks around words do not count, and 1.0 is 1 where all are numbers.

    >>> labels_of(np.array([2.0, 1.0, np.nan])).names, labels_of(np.array([" b", "b", "1.0"])).names
    (('', '1', '2'), ('1.0', 'b'))
    """
    unique, codes = np.unique(values, return_inverse=True)
    names = [str(value).strip() for value in unique]
    names = ["" if name in EMPTY else name for name in names]
    if all(re.fullmatch(r"-?\d+(\.\d*)?", name) for name in names if name):
        names = [re.sub(r"\.0*$", "", name) for name in names]
    kept, places = np.unique(np.array(names), return_inverse=True)
    return Labels(places[codes].astype(np.intp), tuple(kept.tolist()))


def joined(parts: Sequence[Labels], separator: str) -> Labels:
    """One label for each combination that occurs: the words of its parts, empty ones left out."""
    if len(parts) == 1:
        return parts[0]
    combinations, codes = np.unique(np.stack([part.codes for part in parts]), axis=1, return_inverse=True)
    words = [[part.names[k] for part, k in zip(parts, column, strict=True)] for column in combinations.T]
    names = [separator.join(word for word in row if word) for row in words]
    if len(set(names)) < len({tuple(row) for row in words}):  # "a_b" + "c" and "a" + "b_c" must stay two
        names = [f" {separator} ".join(row) for row in words]
    order = np.argsort(names)
    place = np.empty(len(names), dtype=np.intp)
    place[order] = np.arange(len(names))
    return Labels(place[codes.ravel()], tuple(names[k] for k in order))


@dataclass(frozen=True, eq=False)
class Design:
    """What is known of every row of a screen besides its embedding.

    plate          the physical plate: where numbers of plates repeat from batch to batch, batch and number together
    perturbation   the finest treatment (a guide, a compound at a dose); control wells carry the name of their control
    control        which rows are negative controls
    batch          what plates belong to (an experiment, a week); None where the table does not say
    compound       the perturbation whatever its dose; None where no dose is part of it
    target         what several perturbations share (a gene, a compound, a mechanism); None where the table does not say
    row, column    of the well, from 0; None where the table does not say
    cell_count     cells in the well; None where the table does not say
    dose           of the perturbation, where it has a column of its own and `perturbation` pools doses; None otherwise
    roles          role -> the column of the table it was read from
    unused         columns that play no role
    """

    plate: Labels
    perturbation: Labels
    control: Mask
    batch: Labels | None = None
    target: Labels | None = None
    row: Codes | None = None
    column: Codes | None = None
    cell_count: NDArray[np.float64] | None = None
    dose: Labels | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[UnusedColumn, ...] = ()
    name: str = "screen"
    compound: Labels | None = None

    @property
    def compounds(self) -> Labels:
        """The compound of every row, doses joined."""
        return self.perturbation if self.compound is None else self.compound

    @property
    def n(self) -> int:
        return len(self.plate)

    @cached_property
    def address(self) -> Labels | None:
        """The well on its plate, whatever the plate."""
        if self.row is None or self.column is None:
            return None
        width = int(self.column.max()) + 1
        kept, codes = np.unique(self.row * width + self.column, return_inverse=True)
        return Labels(codes.astype(np.intp), tuple(address_name(int(k) // width, int(k) % width) for k in kept))

    @cached_property
    def edge(self) -> Mask | None:
        """Wells in the outermost rows and columns that are in use."""
        if self.row is None or self.column is None:
            return None
        found: Mask = (
            (self.row == self.row.min())
            | (self.row == self.row.max())
            | (self.column == self.column.min())
            | (self.column == self.column.max())
        )
        return found

    @cached_property
    def doses_apart(self) -> Design:
        """The same with every dose of a perturbation as one of its own; as it is where doses are hardly ever replicated."""
        if self.dose is None:
            return self
        treated = ~self.control
        apart = joined([self.perturbation, self.dose], "_").text()
        named = Labels.of(np.where(treated, apart, self.perturbation.text()))
        pooled_on, apart_on = (
            labels.spread(self.plate, treated)[labels.codes] for labels in (self.perturbation, named)
        )
        if (apart_on[treated] > 1).sum() < LEAST_REPLICATED * (pooled_on[treated] > 1).sum():
            return self
        return replace(self, perturbation=named, dose=None, compound=self.compounds)

    @property
    def against(self) -> str:
        """What a perturbation is told from."""
        return "controls" if self.control.any() else "other perturbations"

    @cached_property
    def holds_others(self) -> bool:
        """Whether most treated wells share their plate with another perturbation, so that these can be compared."""
        treated = ~self.control
        several = self.plate.spread(self.perturbation, treated)[self.plate.codes[treated]] > 1
        return bool(2 * several.sum() > several.size)

    def told_from(self, positive: Codes) -> Codes:
        """The rows that some rows are told from: all controls, or where there are none all others."""
        others = self.control.copy() if self.control.any() else np.ones(self.n, dtype=np.bool_)
        others[positive] = False
        return np.flatnonzero(others)

    def check_rows(self, blocks: Blocks) -> None:
        """Refuse a table whose rows this cannot be the design of."""
        if blocks.n != self.n:
            raise DataError(
                f"{blocks.name}: {blocks.n} rows, but the design {self.name} has {self.n}; join them by id first."
            )

    def take(self, rows: NDArray[Any]) -> Design:
        """The design of some rows, by index or mask."""
        return Design(
            plate=self.plate.take(rows),
            perturbation=self.perturbation.take(rows),
            control=self.control[rows],
            batch=None if self.batch is None else self.batch.take(rows),
            dose=None if self.dose is None else self.dose.take(rows),
            target=None if self.target is None else self.target.take(rows),
            row=None if self.row is None else self.row[rows],
            column=None if self.column is None else self.column[rows],
            cell_count=None if self.cell_count is None else self.cell_count[rows],
            roles=self.roles,
            unused=self.unused,
            name=self.name,
            compound=None if self.compound is None else self.compound.take(rows),
        )


def address_name(row: int, column: int) -> str:
    """A well as it is written on plates, from places that start at 0.

    >>> address_name(0, 0), address_name(31, 47)
    ('A01', 'AF48')
    """
    letters = ""
    place = row + 1
    while place:
        place, letter = divmod(place - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return f"{letters}{column + 1:02d}"


# -- for readers


def first_rows(which: Mask) -> dict[str, Any]:
    """How many rows, and the first five of them, as values of an alert."""
    rows = np.flatnonzero(which)
    return {"rows": len(rows), "first": rows[:5].tolist()}


def rows_named(which: Mask) -> str:
    """How many rows, and the first five of them.

    >>> rows_named(np.array([False, True, True]))
    '2 rows (from 0: 1, 2)'
    """
    rows = np.flatnonzero(which)
    shown = ", ".join(map(str, rows[:5])) + (", …" if rows.size > 5 else "")
    return f"{rows.size} row{'s' * (rows.size != 1)} (from 0: {shown})"


def listed(names: Iterable[str]) -> str:
    """The first few names and how many more there are.

    >>> listed(["p1", "p2", "p3", "p4", "p5"])
    'p1, p2, p3 and 2 more'
    """
    every = list(names)
    rest = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + rest


def summarise(design: Design, d: int) -> ScreenDesign:
    """The roles of a design and how many rows play them; `d` is the width of the embedding."""
    treated = ~design.control
    controls = design.plate.count(design.control)
    perturbations = design.perturbation.take(treated)
    return ScreenDesign(
        n=design.n,
        d=d,
        roles=tuple(_roles(design)),
        batches=None if design.batch is None else design.batch.size,
        plates=design.plate.size,
        perturbations=perturbations.size,
        targets=None if design.target is None else design.target.take(treated).size,
        controls=int(design.control.sum()),
        wells_per_plate=_range(design.plate.counts),
        controls_per_plate=_range(controls),
        wells_per_perturbation=_range(perturbations.counts),
        grid=None
        if design.row is None or design.column is None
        else (len(np.unique(design.row)), len(np.unique(design.column))),
        unused=design.unused,
    )


def _roles(design: Design) -> list[Role]:
    labels: dict[str, Labels | None] = {
        "batch": design.batch,
        "plate": design.plate,
        "well": design.address,
        "perturbation": design.perturbation,
        "target": design.target,
        "control": design.perturbation.take(design.control) if design.control.any() else None,
        "cell_count": None if design.cell_count is None else labels_of(design.cell_count),
    }
    return [
        Role(role, design.roles.get(role, ""), found.size, frequent(found))
        for role, found in labels.items()
        if found is not None
    ]


def frequent(labels: Labels) -> tuple[str, ...]:
    """The most frequent labels."""
    return tuple(labels.names[k] for k in np.argsort(-labels.counts, kind="stable")[:EXAMPLES])


def _range(counts: NDArray[np.intp]) -> tuple[int, float, int]:
    return int(counts.min()), float(np.median(counts)), int(counts.max())
