"""Pairs of names, as a table of known relations lists them: one pair in each row, the names of two columns above them."""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.io.containers import listed, shown
from identifiable.io.locations import check_is_file, split_spec
from identifiable.io.opening import READERS
from identifiable.io.screens import labelled_table


def read_pairs(spec: str | os.PathLike[str]) -> tuple[NDArray[Any], NDArray[Any]]:
    """First and second names: the first two columns of a `.csv`, `.tsv` or `.parquet`, or two named after a colon (``path:a,b``)."""
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
    first, second = list(columns.values())[:2]
    return first, second
