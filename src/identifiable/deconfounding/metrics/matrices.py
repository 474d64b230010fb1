"""Rows of a space as the metrics need them: checked, of unit length, a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from identifiable._checks import DataError, check_matrix_shape, check_values
from identifiable.deconfounding.design import Labels
from identifiable.moments import Array

BLOCK_VALUES = 1 << 22  # 32 MB of float64: what a metric holds at once beside the rows themselves


def as_matrix(X: Any, rows: int, name: str) -> Array:
    """`X` (an array or `Blocks`) as finite float64, once it has `rows` rows; float64 arrays are not copied."""
    n, _ = check_values(X, name)
    check_rows(n, rows, name)
    found = np.ascontiguousarray(X[:], dtype=np.float64)
    refuse_non_finite(found, 0, name)
    return found


def check_rows(n: int, rows: int, name: str) -> None:
    """Refuse labels that do not go with the rows."""
    if n != rows:
        raise DataError(f"{name}: expected one label for each row, got {n} rows and {rows} labels; pass matching rows.")


def refuse_non_finite(values: Array, first: int, name: str) -> None:
    """Say which row holds NaN or an infinity; `first` is the place of the block in its table."""
    if not np.isfinite(values).all():
        row = first + int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise DataError(f"{name}: expected finite numbers, got NaN or infinity (first in row {row}); drop or fill it.")


def unit_rows(X: Array) -> Array:
    """Rows divided by their length. A row of zeros stays: its cosine with every other row is 0, as in scikit-learn."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(np.divide(X, lengths, out=np.zeros_like(X), where=lengths > 0))


def row_blocks(n: int, width: int) -> Iterator[slice]:
    """Runs of rows such that a table of that many rows and `width` columns stays small."""
    step = max(1, BLOCK_VALUES // max(width, 1))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def label_means(X: Any, labels: Labels) -> Array:
    """The mean row of each label, in the order of `labels.names`; read a block of rows at a time.

    >>> label_means(np.array([[1.0], [3.0], [5.0]]), Labels.of(np.array(["b", "b", "a"]))).ravel().tolist()
    [5.0, 2.0]
    """
    n, d = check_matrix_shape(tuple(X.shape), "embedding")
    check_rows(n, len(labels), "embedding")
    total = np.zeros((labels.size, d))
    for part in row_blocks(n, d):
        values = np.asarray(X[part], dtype=np.float64)
        refuse_non_finite(values, part.start, "embedding")
        np.add.at(total, labels.codes[part], values)
    return np.asarray(total / labels.counts[:, None])
