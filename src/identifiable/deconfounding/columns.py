"""Columns of a table as labels and numbers, and what those that play no role could be."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.deconfounding.design import Design, Labels, Mask, frequent, joined, labels_of, rows_named
from identifiable.deconfounding.presets import is_about_wells
from identifiable.results import Alert
from identifiable.results.screen import UnusedColumn

SHOWN_COLUMNS = 30


class ColumnTable:
    """Columns by name, equally long, as labels and numbers: what is empty, mixed or absent is named with its rows."""

    def __init__(self, columns: Mapping[str, NDArray[Any]], name: str):
        self.name = name
        self._columns = {column: np.asarray(values) for column, values in columns.items()}
        self._labels: dict[str, Labels] = {}
        lengths = {column: len(values) for column, values in self._columns.items()}
        if not lengths or not next(iter(lengths.values())):
            raise DataError(
                f"{name}: expected columns that say what each row is (plate, well, treatment …), got none; "
                "pass a table of the same wells (--metadata wells.csv, metadata=)."
            )
        self.n = next(iter(lengths.values()))
        if odd := next((column for column, n in lengths.items() if n != self.n), None):
            raise DataError(
                f"{name}: columns must be equally long, got {odd} with {lengths[odd]} rows and {next(iter(lengths))} with {self.n}."
            )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._columns)

    def asked(self, option: str, role: str) -> tuple[str, ...]:
        """The columns an option names: one, or several with commas between them."""
        columns = (option,) if option in self._columns else tuple(part.strip() for part in option.split(","))
        for column in columns:
            if column not in self._columns:
                lowered = {known.lower(): known for known in self._columns}
                close = [lowered[k] for k in difflib.get_close_matches(column.lower(), lowered, 2)]
                hint = f"did you mean {' or '.join(close)}?" if close else f"it has {self.overview()}."
                raise UsageError(f"{self.name}: there is no column {column!r} to be the {role}; {hint}")
        return columns

    def overview(self) -> str:
        """Every column with its number of different values."""
        shown = [f"{column} ({self._different(column)} values)" for column in list(self._columns)[:SHOWN_COLUMNS]]
        more = len(self._columns) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more else "")

    def labels(self, column: str) -> Labels:
        """A column as labels; the label of an empty cell is the empty text."""
        if column not in self._labels:
            self._labels[column] = labels_of(self._of_one_kind(column))
        return self._labels[column]

    def complete(self, column: str, role: str) -> Labels:
        """A column as labels, none of them empty."""
        labels = self.labels(column)
        empty = labels.codes == labels.names.index("") if "" in labels.names else np.zeros(self.n, dtype=bool)
        if empty.any():
            raise DataError(
                f"{self.name}: {column} ({role}) is empty in {rows_named(empty)}; fill these cells or drop the rows."
            )
        return labels

    def label(self, columns: Sequence[str], role: str) -> Labels:
        """One label from one or several columns without empty cells."""
        return joined([self.complete(column, role) for column in columns], "_")

    def numbers(self, column: str, role: str) -> NDArray[np.float64]:
        """A column as numbers, NaN where a cell is empty; text is read if all of it is numbers."""
        values = self._of_one_kind(column)
        labels = self.labels(column)
        if values.dtype.kind in "fiub":
            found = values.astype(np.float64)
        else:
            found = np.array([_number(name) for name in labels.names])[labels.codes]
        bad = np.isinf(found)
        if bad.any():
            shown = ", ".join(repr(v) for v in labels.text()[np.flatnonzero(bad)[:5]].tolist())
            raise DataError(
                f"{self.name}: {column} ({role}) should hold numbers, got {shown} in {rows_named(bad)}; correct these cells, or name "
                f"another column (--{role.replace('_', '-')})."
            )
        return found

    def _different(self, column: str) -> int:
        values = self._columns[column]
        return len(set(values.tolist())) if values.dtype == object else len(np.unique(values))

    def _of_one_kind(self, column: str) -> NDArray[Any]:
        """Text or numbers. Python objects become text if all are; a mixture is refused."""
        values = self._columns[column]
        if values.dtype.kind == "S":
            return np.char.decode(values, "utf-8")
        if values.dtype.kind in "Ufiub":
            return values
        if values.dtype.kind == "T":
            return values.astype(str)
        if values.dtype != object:
            raise DataError(f"{self.name}: {column} should hold text or numbers, got {values.dtype}; store it as text.")
        cells = values.tolist()
        empty = np.array([cell is None or cell != cell for cell in cells])
        text = np.array([isinstance(cell, str) for cell in cells])
        numbers = ~empty & ~text
        if text.any() and numbers.any():
            a, b = int(np.flatnonzero(text)[0]), int(np.flatnonzero(numbers)[0])
            raise DataError(
                f"{self.name}: {column} mixes text (row {a}: {cells[a]!r}) and numbers (row {b}: {cells[b]!r}; {int(numbers.sum())} of "
                f"{self.n} rows, from 0); store it as text, or as numbers."
            )
        if text.any():
            return np.array(["" if gone else cell for cell, gone in zip(cells, empty, strict=True)])
        return np.array([np.nan if gone else cell for cell, gone in zip(cells, empty, strict=True)], dtype=np.float64)


def _number(text: str) -> float:
    """The number a text reads as; NaN for none, infinity for what is no number."""
    if not text:
        return float("nan")
    try:
        value = float(text)
    except ValueError:
        return float("inf")
    return value if np.isfinite(value) else float("inf")


# -- columns without a role


def unused_columns(table: ColumnTable, design: Design, control: str) -> tuple[UnusedColumn, ...]:
    """The columns that play no role, those that could be the perturbation first."""
    used = {column for role, said in design.roles.items() if role != "control" for column in (said, *said.split(","))}
    found = []
    for column in table.names:
        if column in used or column == control:
            continue
        try:
            labels = table.labels(column)
        except DataError:  # of mixed kinds: no role could be read from it
            continue
        candidate = not is_about_wells(column) and _could_be_perturbation(labels, design)
        found.append(UnusedColumn(column, labels.size, tuple(filter(None, frequent(labels))), candidate))
    return tuple(sorted(found, key=lambda each: not each.candidate))


def _could_be_perturbation(labels: Labels, design: Design) -> bool:
    """Whether labels vary within most plates, most of them repeat on other plates, and the perturbation does not determine them.

    Ours: what a perturbation has and plates, batches, wells, copies of the perturbation and numbers of rows do not.
    """
    if labels.size < 2 or 2 * labels.size > design.n:
        return False
    every = np.ones(design.n, dtype=np.bool_)
    within = design.plate.spread(labels, every)
    over = labels.spread(design.plate, every)
    apart = design.perturbation.spread(labels, every)
    varies, repeats = 2 * (within > 1).sum() >= len(within), 2 * (over > 1).sum() >= len(over)
    return bool(varies and repeats and (apart > 1).any() and not _only_a_place(labels, design, every))


def _only_a_place(labels: Labels, design: Design, every: Mask) -> bool:
    """Whether the well determines labels (an edge, a quadrant), where it does not determine the perturbation."""
    if design.address is None:
        return False
    of_labels, of_perturbations = (
        bool((design.address.spread(each, every) <= 1).all()) for each in (labels, design.perturbation)
    )
    return of_labels and not of_perturbations


def candidates(design: Design) -> list[Alert]:
    """Columns without a role that could be the perturbation: the biology of a study may be among them."""
    found = [each for each in design.unused if each.candidate]
    if not found:
        return []
    values = {
        "name": design.name,
        "columns": [f"{each.column} ({each.values} values)" for each in design.unused],
        "candidates": [each.column for each in found],
        "number": len(found),
        "example": found[0].column,
        "used": design.roles["perturbation"],
    }
    control = design.roles.get("control", "")
    if control and " in " not in control:  # those of a preset are found whatever the perturbation is
        values["control"] = control
    return [Alert("unused_columns", values)]
