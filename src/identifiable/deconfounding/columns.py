"""Columns of a table as labels and numbers: what is empty, mixed or absent is named with its rows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.deconfounding.design import Labels, Mask

EMPTY = ("", "nan", "NaN", "<NA>")  # as tables write a cell without a value
SHOWN_COLUMNS = 30


class ColumnTable:
    """Columns by name, equally long."""

    def __init__(self, columns: Mapping[str, NDArray[Any]], name: str):
        self.name = name
        self._columns = {column: np.asarray(values) for column, values in columns.items()}
        self._labels: dict[str, Labels] = {}
        lengths = {column: len(values) for column, values in self._columns.items()}
        if not lengths or not next(iter(lengths.values())):
            raise DataError(f"{name}: expected columns that say what each row is (plate, well, treatment …), got none.")
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


def rows_named(which: Mask) -> str:
    """How many rows, and the first five of them.

    >>> rows_named(np.array([False, True, True]))
    '2 rows (from 0: 1, 2)'
    """
    rows = np.flatnonzero(which)
    shown = ", ".join(map(str, rows[:5])) + (", …" if rows.size > 5 else "")
    return f"{rows.size} row{'s' * (rows.size != 1)} (from 0: {shown})"


def _number(text: str) -> float:
    """The number a text reads as; NaN for none, infinity for what is no number."""
    if not text:
        return float("nan")
    try:
        value = float(text)
    except ValueError:
        return float("inf")
    return value if np.isfinite(value) else float("inf")
