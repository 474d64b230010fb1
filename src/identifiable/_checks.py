"""The exceptions of this package, and the checks every room shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class IdentifiableError(Exception):
    """Base of every error this package raises on purpose. `exit_code` is what the shell sees."""

    exit_code = 3


class UsageError(IdentifiableError, ValueError):
    """The call itself is wrong: an unknown group, a bad option, a condition that cannot be read."""

    exit_code = 2


class DataError(IdentifiableError, ValueError):
    """The data cannot be used: unreadable, wrong shape, not finite, empty."""


class PairingError(DataError):
    """Rows of two representations cannot be brought together."""


class OutputError(IdentifiableError, OSError):
    """A result cannot be written where it was asked for."""


class MissingExtra(IdentifiableError, ImportError):
    """An optional dependency is not installed."""

    exit_code = 2


class DataWarning(UserWarning):
    """The data can be used, but hold less than the call takes for granted: too few rows, directions without variance."""


CHARACTERS = 300  # of an error in someone else's code that are worth repeating


def words_of(error: BaseException) -> str:
    """What an error in someone else's code says, on one line and not too long."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:CHARACTERS]}"


def check_matrix_shape(shape: tuple[int, ...], name: str) -> tuple[int, int]:
    """Return `(n, d)` if `shape` is that of a table with at least one row and one column."""
    if len(shape) != 2:
        hint = "reshape it to (n, 1)" if len(shape) == 1 else "flatten or pool it to one row per sample"
        raise DataError(
            f"{name}: expected a 2-D array (rows are samples, columns are dimensions), "
            f"got {len(shape)}-D with shape {tuple(shape)}; {hint}."
        )
    n, d = shape
    if n != n or d != d:
        raise DataError(
            f"{name}: its length is unknown (a Dask array of unknown chunks); call compute_chunk_sizes() on it first."
        )
    if n == 0 or d == 0:
        empty = "rows" if n == 0 else "columns"
        raise DataError(
            f"{name}: expected at least one row and one column, got shape ({n}, {d}): there are no {empty}."
        )
    return n, d


def check_numeric(dtype: np.dtype[Any], name: str) -> None:
    """Refuse dtypes that are not real numbers, saying what to do instead."""
    if dtype.kind in "fiub":
        return
    what = {"O": "Python objects", "U": "text", "S": "bytes", "c": "complex numbers"}.get(dtype.kind, str(dtype))
    raise DataError(
        f"{name}: expected real numbers, got {what} (dtype {dtype}); convert it to float32 or float64 first."
    )


def check_unique_ids(ids: NDArray[Any], name: str) -> None:
    """Refuse duplicate sample ids: a join on them would be ambiguous."""
    values, counts = np.unique(ids, return_counts=True)
    repeated = values[counts > 1]
    if repeated.size:
        shown = ", ".join(repr(v) for v in repeated[:3].tolist())
        raise PairingError(
            f"{name}: {repeated.size} sample ids occur more than once (first: {shown}); "
            "ids must be unique: drop or rename the repeated rows."
        )
