"""Factors of variation in files: columns of numbers or words, under the names that the file gives them.

A `.csv` or `.tsv` with the names in its first line; columns of a `.parquet`; `obs` of a `.h5ad`; a `.npy` of one factor or
one column for each; a `.npz` with such an array, or with one array for each factor under its name; a 2-D tensor of a
`.safetensors`. Factors are few columns, so they are read whole. Nothing is unpickled.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.io.array_files import NpyFile, NpzFile
from identifiable.io.containers import (
    IDS,
    check_is_there,
    identities,
    identities_from_text,
    is_folder,
    is_pattern,
    listed,
    named,
    pickled,
    shown,
    suffix_of,
)
from identifiable.io.label_columns import MARKS_AMONG_NUMBERS, MARKS_AMONG_WORDS, REMEDY, gaps_in, of_rows, said
from identifiable.io.labelled import LabelledTable
from identifiable.io.opening import check_count, labelled_table, located, open_representation, sidecar_ids
from identifiable.io.tables import DELIMITERS, TextTable

INTEGER = re.compile(r"[+-]?\d+")


@dataclass(frozen=True, eq=False)
class FactorTable:
    """Columns of one length, numbers or words; `names` is None where the source has none, `stored_dtype` how it stores them.

    `missing` (rows, columns) marks cells without a value, whose place in a column then holds no sense; None: there are none.
    """

    columns: tuple[NDArray[Any], ...]
    names: tuple[str, ...] | None
    ids: NDArray[Any] | None
    name: str
    stored_dtype: str
    missing: NDArray[np.bool_] | None = None

    @property
    def n(self) -> int:
        return len(self.columns[0])

    @property
    def gapped(self) -> NDArray[np.bool_]:
        """Which rows have a missing cell."""
        return np.zeros(self.n, dtype=bool) if self.missing is None else np.asarray(self.missing.any(axis=1))


def read_factor_table(
    spec: str | os.PathLike[str], *, ids: str | None = None, drop_missing: bool = False
) -> FactorTable:
    """The factors in a file, with the ids of its rows.

    Parameters
    ----------
    spec
        ``path`` or ``path:part``; a part is one name or a list of names and patterns with commas (``floor,wall_*``).
    ids
        As for `open_representation`.
    drop_missing
        Mark missing cells (`FactorTable.missing`) for the caller to drop; otherwise they are refused.
    """
    at = located(spec)
    (path, part), label, name = at, at.label, at.name
    check_is_there(path)
    suffix = suffix_of(path)
    many = is_pattern(path) or is_folder(path)
    if suffix in DELIMITERS and not many:
        found = _FactorText(path).factors(part, ids, name, drop_missing=drop_missing)
    elif (table := labelled_table(path)) is not None:
        found = _from_columns(table, path, part, ids, name)
    elif suffix == ".npz" and not many:
        found = _FactorArrays(path).factors(part, ids, name)
    elif suffix == ".npy" and not many:
        found = _from_npy(path, part, ids, name)
    else:
        found = _from_tensors(spec, ids)
    check_count(found.ids, found.n, label, ids)
    return found if suffix in DELIMITERS and not many else with_gaps(found, label, drop_missing=drop_missing)


def with_gaps(table: FactorTable, label: str, *, drop_missing: bool) -> FactorTable:
    """`table` with its missing cells marked, or refused; infinite numbers are refused either way."""
    missing = np.column_stack([gaps_in(column) for column in table.columns])
    if missing.any() and not drop_missing:
        row, j = (int(place) for place in np.argwhere(missing)[0])
        raise DataError(f"{label}: {_cell_name(table, row, j)} is missing: {of_rows(missing)}; {REMEDY}.")
    for j, column in enumerate(table.columns):
        if column.dtype.kind == "f" and np.isinf(column).any():
            row = int(np.isinf(column).argmax())
            raise DataError(f"{label}: {_cell_name(table, row, j)}: expected a finite number, got {column[row]}.")
    return replace(table, missing=missing) if missing.any() else table


def _cell_name(table: FactorTable, row: int, column: int) -> str:
    what = repr(table.names[column]) if table.names else str(column + 1)
    return f"row {row} (from 0), column {what}"


class _FactorText(TextTable):
    """A table of text whose columns may hold words."""

    def factors(self, part: str | None, ids: str | None, name: str, *, drop_missing: bool) -> FactorTable:
        inside = ids is not None and ids in self.names
        columns, id_column = self.roles(part, ids if inside else None, ids is None)
        lines: list[int] = []
        cells: list[list[str]] = [[] for _ in columns]
        own: list[str] = []
        for at, record in self.records():
            lines.append(at)
            for column, j in zip(cells, columns, strict=True):
                column.append(record[j].strip())
            if id_column is not None:
                own.append(self.filled(at, record, id_column))
        if not lines:
            raise DataError(f"{self.label}: expected rows of factors, found a header and nothing below it.")
        self._refuse_a_header_that_is_a_row(columns, cells)
        missing = np.column_stack([_missing(column) for column in cells])
        if missing.any() and not drop_missing:
            row, j = (int(place) for place in np.argwhere(missing)[0])
            where = f"line {lines[row]}, {self.headed(columns[j])}: {said(cells[j][row])}"
            raise DataError(f"{self.label}: {where}; {of_rows(missing)}; {REMEDY}.")
        found = tuple(
            self._typed(j, column, lines, gaps)
            for j, column, gaps in zip(columns, cells, missing.T.tolist(), strict=True)
        )
        row_ids = identities_from_text(own) if own else None
        return FactorTable(
            found,
            tuple(self._header[j] for j in columns) if self._has_header else None,
            row_ids if ids is None or inside else sidecar_ids(ids, self._path, self),
            name,
            "text",
            missing if missing.any() else None,
        )

    def _refuse_a_header_that_is_a_row(self, columns: Sequence[int], cells: Sequence[Sequence[str]]) -> None:
        """Words at the top are names, unless each also occurs below: then a row would be lost without a word."""
        if self._has_header and all(self._header[j] in set(below) for j, below in zip(columns, cells, strict=True)):
            first = named(self._header[j] for j in columns)
            raise DataError(
                f"{self.label}: expected the names of the factors in line 1, got what looks like a row ({first}: each occurs "
                "again below it); put the names of the factors there."
            )

    def _typed(self, column: int, cells: Sequence[str], lines: Sequence[int], gaps: Sequence[bool]) -> NDArray[Any]:
        """A column as integers, as numbers, or as words, by the cells that have a value; the others get that of one of them."""
        held = [cell for cell, gap in zip(cells, gaps, strict=True) if not gap]
        if not held:
            raise DataError(f"{self.label}: {self.headed(column)}: no row has a value; leave the column out.")
        filled = [held[0] if gap else cell for cell, gap in zip(cells, gaps, strict=True)]
        numbers = [_number(cell) for cell in filled]
        words = [i for i, number in enumerate(numbers) if number is None]
        if not words:
            return np.array(filled, np.int64) if all(map(_is_integer, filled)) else np.array(numbers, np.float64)
        if any(n is not None and not _is_integer(c) for n, c in zip(numbers, filled, strict=True)):
            where = f"line {lines[words[0]]}, {self.headed(column)}"
            raise DataError(
                f"{self.label}: {where}: {filled[words[0]][:60]!r} is not a number, and other lines of that column have "
                "numbers; correct it or drop the row."
            )
        return np.array(filled, dtype=str)


class _FactorArrays(NpzFile):
    """A `.npz` with factors: one array of them, or one for each under its name."""

    def factors(self, part: str | None, ids: str | None, name: str) -> FactorTable:
        chosen = self._chosen(part, ids)
        arrays = [_as_table(self.array(key), f"{self._label}:{shown(key)}") for key in chosen]
        lengths = {len(a) for a in arrays}
        if len(lengths) > 1:
            held = listed([f"{shown(key)} {len(a)}" for key, a in zip(chosen, arrays, strict=True)])
            raise DataError(
                f"{self._label}: expected factors of the same rows, got arrays of different lengths ({held})."
            )
        columns = tuple(np.ascontiguousarray(column) for a in arrays for column in a.T)
        named = all(a.shape[1] == 1 for a in arrays)
        dtypes = {str(a.dtype) for a in arrays}
        return FactorTable(
            columns,
            tuple(chosen) if named else None,
            self._row_ids(ids, chosen),
            name,
            dtypes.pop() if len(dtypes) == 1 else "mixed",
        )

    def _chosen(self, part: str | None, ids: str | None) -> list[str]:
        if part is not None:
            if part in self.names:
                return [part]
            matched = [[k for k in self.names if fnmatch.fnmatchcase(k, pattern)] for pattern in part.split(",")]
            missing = [p for p, keys in zip(part.split(","), matched, strict=True) if not keys]
            if missing:
                raise DataError(f"{self._label}: holds no {missing[0]!r}; it holds {named(self.names)}.")
            return list(dict.fromkeys(key for keys in matched for key in keys))
        others = [key for key in self.names if key not in (IDS, ids)]
        flat = [key for key in others if key in self._layouts and len(self._layouts[key].shape) == 1]
        if len(others) == 1 or (others and len(flat) == len(others)):
            return others
        return [self._choose(None, 2)]

    def _row_ids(self, ids: str | None, chosen: Sequence[str]) -> NDArray[Any] | None:
        if ids is None:
            return self.column(IDS).values if IDS in self.names and IDS not in chosen else None
        return self.column(ids).values if ids in self.names else sidecar_ids(ids, self._path, self)


def _from_npy(path: Path, part: str | None, ids: str | None, name: str) -> FactorTable:
    container = NpyFile(path)  # refuses a damaged header, a wrong length and a part
    if part is not None:
        container.column(part)
    try:
        values = np.load(path, allow_pickle=False)
    except ValueError:
        raise DataError(pickled(str(path))) from None
    table = _as_table(values, str(path))
    columns = tuple(np.ascontiguousarray(column) for column in table.T)
    beside = None if ids is None else sidecar_ids(ids, path, container)
    return FactorTable(columns, None, beside, name, str(values.dtype))


def _from_columns(container: LabelledTable, path: Path, part: str | None, ids: str | None, name: str) -> FactorTable:
    """Columns of a file that names and types them."""
    found = container.metadata(part)
    own, id_name = found.ids, found.id_name
    if ids is not None:
        inside = ids in container.names
        own, id_name = container.column(ids).values if inside else sidecar_ids(ids, path, container), ids
    chosen = {key: column for key, column in found.labels.items() if part is not None or key != id_name}
    if not chosen:
        raise DataError(f"{path}: expected columns of factors, found none beside the ids.")
    return FactorTable(tuple(chosen.values()), tuple(chosen), own, name, "columns")


def _from_tensors(spec: str | os.PathLike[str], ids: str | None) -> FactorTable:
    opened = open_representation(spec, ids=ids)
    values = opened.values[: opened.n]
    columns = tuple(np.ascontiguousarray(column) for column in values.T)
    return FactorTable(columns, None, opened.ids, opened.name, str(opened.values.source.stored_dtype))


def _as_table(values: NDArray[Any], label: str) -> NDArray[Any]:
    """An array of one or two dimensions, not empty, of numbers or words, as rows and columns."""
    table = values[:, None] if values.ndim == 1 else values
    if table.ndim != 2 or not table.size:
        raise DataError(f"{label}: expected one value or one row of factors for each sample, got shape {values.shape}.")
    if table.dtype.kind not in "fiubUS":
        raise DataError(f"{label}: expected numbers or words, got {table.dtype}; convert it first.")
    return identities(table.ravel(), label).reshape(table.shape) if table.dtype.kind in "US" else table


def _missing(cells: Sequence[str]) -> NDArray[np.bool_]:
    """Which cells stand for no value; more of them do if all others are numbers."""
    numbers = [_number(cell) is not None for cell in cells]
    without = [cell.lower() in MARKS_AMONG_NUMBERS for cell in cells]
    if any(numbers) and all(n or w for n, w in zip(numbers, without, strict=True)):
        return np.array(without)
    return np.array([cell in MARKS_AMONG_WORDS for cell in cells])


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return None if "_" in cell or not np.isfinite(value) else value  # 1_000 is Python; nan is a gap


def _is_integer(cell: str) -> bool:
    return INTEGER.fullmatch(cell) is not None and len(cell) < 19  # as many digits as int64 surely holds
