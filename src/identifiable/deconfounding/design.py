"""Design: which plate, well and perturbation every row is, and which rows are controls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]


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

    def take(self, rows: NDArray[Any]) -> Labels:
        """The labels of some rows; names that do not occur among them are left out."""
        kept, codes = np.unique(self.codes[rows], return_inverse=True)
        return Labels(codes.astype(np.intp), tuple(self.names[k] for k in kept))

    def text(self) -> NDArray[np.str_]:
        """The labels themselves, one for each row."""
        return np.asarray(self.names, dtype=str)[self.codes]


@dataclass(frozen=True, eq=False)
class Design:
    """What is known of every row of a screen besides its embedding.

    plate          the physical plate: where numbers of plates repeat from batch to batch, batch and number together
    perturbation   the finest treatment (a guide, a compound at a dose); control wells carry the name of their control
    control        which rows are negative controls
    batch          what plates belong to (an experiment, a week); None where the table does not say
    target         what several perturbations share (a gene, a compound, a mechanism); None where the table does not say
    row, column    of the well, from 0; None where the table does not say
    cell_count     cells in the well; None where the table does not say
    roles          role -> the column of the table it was read from
    """

    plate: Labels
    perturbation: Labels
    control: Mask
    batch: Labels | None = None
    target: Labels | None = None
    row: Codes | None = None
    column: Codes | None = None
    cell_count: NDArray[np.float64] | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    name: str = "screen"

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

    def take(self, rows: NDArray[Any]) -> Design:
        """The design of some rows, by index or mask."""
        return Design(
            plate=self.plate.take(rows),
            perturbation=self.perturbation.take(rows),
            control=self.control[rows],
            batch=None if self.batch is None else self.batch.take(rows),
            target=None if self.target is None else self.target.take(rows),
            row=None if self.row is None else self.row[rows],
            column=None if self.column is None else self.column[rows],
            cell_count=None if self.cell_count is None else self.cell_count[rows],
            roles=self.roles,
            name=self.name,
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
