"""Cells that stand for no value: what they look like in text, in columns of words and of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.io.tables import Parsed, TextTable

# What pandas reads and writes for a missing word. In this case of letters: `none` is a fair name of a dose.
MARKS_AMONG_WORDS = frozenset({"", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaN", "nan", "NULL", "null", "None"})
MARKS_AMONG_NUMBERS = frozenset({"", "na", "n/a", "<na>", "#n/a", "nan", "null", "none", "?", ".", "-"})

REMEDY = "fill them in, remove those rows, or leave them out with --drop-missing (drop_missing=True)"


class GappedTable(TextTable):
    """A table of numbers in text whose missing cells are NaN; `first_gap` says where the first was, once it has been read."""

    def __init__(self, path: Path):
        super().__init__(path)
        self.first_gap: str | None = None

    def _fast(self, line: int, text: str, columns: list[int], id_column: int | None) -> Parsed | None:
        found = super()._fast(line, text, columns, id_column)
        return None if found is None or np.isnan(found[0]).any() else found  # cell by cell, to know where

    def _number(self, at: int, cells: Sequence[str], column: int) -> float:
        cell = cells[column].strip()
        if cell.lower() not in MARKS_AMONG_NUMBERS:
            return super()._number(at, cells, column)
        self.first_gap = self.first_gap or f"line {at}, {self._shown(column)}: {said(cell)}"
        return float("nan")


def said(cell: str) -> str:
    """A missing cell, as an error calls it."""
    return f"{cell!r} is a missing value" if cell else "the cell is empty"


def of_rows(missing: NDArray[np.bool_]) -> str:
    """How many rows have a missing cell; `missing` marks rows, or their cells."""
    count = int(missing.reshape(len(missing), -1).any(axis=1).sum())
    return f"{count:,} of {len(missing):,} rows {'has' if count == 1 else 'have'} a missing value"


def gaps_in(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values of a column in memory are missing: NaN, None (of objects), or a mark among words."""
    if column.dtype.kind == "f":
        return np.asarray(np.isnan(column), dtype=bool)
    if column.dtype.kind == "O":
        return np.array([_is_gap(value) for value in column.tolist()], dtype=bool)
    if column.dtype.kind == "U":
        return np.asarray(np.isin(np.char.strip(column), sorted(MARKS_AMONG_WORDS)), dtype=bool)
    return np.zeros(len(column), dtype=bool)


def _is_gap(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip() in MARKS_AMONG_WORDS
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA is neither equal nor unequal
        return True
