"""Pairs of names, as a table of known relations lists them: one pair in each row, in the first two columns."""

from __future__ import annotations

import os

from identifiable._checks import DataError
from identifiable.io.containers import listed, shown
from identifiable.io.locations import check_is_file, split_spec
from identifiable.io.opening import READERS
from identifiable.io.screens import labelled_table


def read_pairs(spec: str | os.PathLike[str]) -> tuple[tuple[str, str], ...]:
    """The pairs of a `.csv`, `.tsv` or `.parquet`: of its first two columns, or of two named after a colon (``path:a,b``)."""
    path, part = split_spec(spec, tuple(READERS))
    check_is_file(path)
    table = labelled_table(path)
    if table is None:
        raise DataError(f"{path}: expected a table of pairs of names (.csv, .tsv, .parquet), got an array.")
    columns = table.metadata(part)[0]
    if len(columns) < 2 or (part is not None and len(columns) > 2):
        raise DataError(
            f"{path}: expected two columns of names, one pair in each row, got {len(columns)} "
            f"({listed([shown(name) for name in columns])}); name two after a colon, as in {path}:first,second"
        )
    first, second = (values.astype(str).tolist() for values in list(columns.values())[:2])
    pairs = tuple((a, b) for a, b in zip(first, second, strict=True) if a and b)
    if not pairs:
        raise DataError(f"{path}: expected pairs of names, found none.")
    return pairs
