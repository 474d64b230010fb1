"""The exceptions of this package, and the checks every room shares."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

LONGEST = 4000  # characters of a message: names in it are cut where it is made, and a path has at most 4096 bytes


def one_line(text: str) -> str:
    """`text` as it can be printed anywhere: control characters (line ends, terminal escapes, half characters) spelled out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def as_text(name: str) -> str:
    """`name` as it can be saved anywhere: the bytes of a file name that are not UTF-8, which Python has as half characters, spelled out."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


class IdentifiableError(Exception):
    """Base of every error this package raises on purpose. `exit_code` is what the shell sees."""

    exit_code = 3

    def __init__(self, *said: Any):
        super().__init__(*(one_line(text)[:LONGEST] if isinstance(text, str) else text for text in said))


class UsageError(IdentifiableError, ValueError):
    """The call itself is wrong: an unknown group, a bad option, a condition that cannot be read."""

    exit_code = 2


class DataError(IdentifiableError, ValueError):
    """The data cannot be used: unreadable, wrong shape, not finite, empty."""


class KindError(DataError, TypeError):
    """The values are of a kind that is never a number; a TypeError too, as scikit-learn has it."""


class PairingError(DataError):
    """Rows of two representations cannot be brought together."""


class OutputError(IdentifiableError, OSError):
    """A result cannot be written where it was asked for."""


class MissingExtra(IdentifiableError, ImportError):
    """An optional dependency is not installed."""

    exit_code = 2


class DataWarning(UserWarning):
    """The data can be used, but hold less than the call takes for granted: too few rows, directions without variance."""


# Of the values of a table that is compared with another: errors are kept in float32 (1e-38 to 3e38), 1e3 is left for sums.
SMALLEST, LARGEST = 1e-35, 1e35

CHARACTERS = 300  # of an error in someone else's code that are worth repeating


def words_of(error: BaseException) -> str:
    """What an error in someone else's code is and says, on one line and not too long."""
    return f"{type(error).__name__}: {said(error)}"


@contextmanager
def failing(ours: Callable[[str], IdentifiableError]) -> Iterator[None]:
    """Anything may come out of someone else's code, a `sys.exit()` too: it becomes the error that `ours` makes of its words."""
    try:
        yield
    except (IdentifiableError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ours(words_of(error)) from error


def said(error: BaseException) -> str:
    """What an error says, on one line and not too long."""
    return one_line(" ".join(str(error).split()))[:CHARACTERS]


def counted(n: int, what: str) -> str:
    """'1 pair', '1,200 pairs'."""
    return f"{n:,} {what if n == 1 else plural(what)}"


def plural(what: str) -> str:
    """'pairs', 'batches', 'passes'."""
    return what + ("es" if what.endswith(("ch", "ss")) else "s")


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


def check_values(values: Any, name: str) -> tuple[int, int]:
    """Return `(n, d)` of a table that every call reads: a plain array, in rows and columns, of real numbers."""
    check_plain(values, name)
    try:
        dtype = np.dtype(values.dtype)
    except (AttributeError, TypeError):  # a data frame, a list, a tensor
        raise DataError(
            f"{name}: expected an array or what is read like one (shape, dtype, rows), got {type(values).__name__}; "
            "pass it as it is to a call that takes tables, or an array of its values."
        ) from None
    shape = check_matrix_shape(tuple(values.shape), name)
    check_numeric(dtype, name)
    return shape


def rows_in_memory(values: Any, name: str) -> NDArray[Any]:
    """`values` as a table of finite numbers in memory, refused as every call refuses what is none."""
    rows = as_array(values, name)
    check_values(rows, name)
    bad = ~np.isfinite(rows)
    if bad.any():
        first = ", ".join(map(str, np.flatnonzero(bad.any(axis=1))[:5]))
        raise DataError(
            f"{name}: expected finite numbers, got {counted(int(bad.sum()), 'NaN or infinite value')} "
            f"(first rows, from 0: {first}); remove or impute them."
        )
    return rows


def check_plain(values: Any, name: str) -> None:
    """Refuse arrays of which numpy would show something else than they hold: what is masked as if it were not, what is sparse as one
    object."""
    if parts := _masked_parts(values):
        masked = sum(int(np.sum(np.ma.getmaskarray(part))) for part in parts)
        how = (
            f"pass .filled(value), or drop the rows ({counted(masked, 'value')})"
            if masked
            else "nothing is masked: pass np.asarray(...)"
        )
        raise DataError(f"{name}: masked arrays are not read; {how}.")
    if hasattr(values, "toarray") and not isinstance(
        values, np.ndarray
    ):  # views of AnnData are arrays that have it, too
        raise DataError(f"{name}: sparse matrices are not read; pass .toarray(), or a reduction of it.")


def _masked_parts(values: Any) -> list[Any]:
    """What is masked of a value: itself, or rows of a list, or single numbers in them."""
    if isinstance(values, np.ma.MaskedArray) or not isinstance(values, list | tuple):
        return [values] if isinstance(values, np.ma.MaskedArray) else []
    parts = [each for each in values if isinstance(each, np.ma.MaskedArray)]
    rows = (each for each in values if isinstance(each, list | tuple))
    return parts + [number for row in rows for number in row if isinstance(number, np.ma.MaskedArray)]


def is_missing(value: Any) -> bool:
    """Whether a Python object stands for no value: None, NaN, NaT or pandas.NA."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas.NA is neither equal nor unequal; an array is many
        return type(value).__name__ == "NAType"


def as_array(values: Any, name: str) -> NDArray[Any]:
    """`values` as an array, with the plain reason where they are none."""
    check_plain(values, name)
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # lists of unequal length, tensors of a graph
        raise DataError(
            f"{name}: expected a table of numbers, got {type(values).__name__} ({words_of(error)})."
        ) from None


def check_magnitude(largest: float, name: str) -> None:
    """Refuse a table whose `largest` value is beyond what errors can be kept in; zero is the matter of others."""
    if not (largest == 0 or SMALLEST <= largest <= LARGEST):
        raise DataError(
            f"{name}: expected numbers of ordinary size ({SMALLEST:g} to {LARGEST:g}), the largest are about {largest:.3g}; "
            "divide them by that."
        )


def check_numeric(dtype: np.dtype[Any], name: str) -> None:
    """Refuse dtypes that are not real numbers of at most 64 bits, saying what to do instead."""
    if dtype.kind in "fiub" and dtype.itemsize <= 8:
        return
    what = {
        "f": "numbers of extended precision",
        "O": "Python objects",
        "U": "text",
        "S": "bytes",
        "c": "complex numbers",
    }.get(dtype.kind, str(dtype))
    raise DataError(
        f"{name}: expected real numbers, got {what} (dtype {dtype}); convert it to float32 or float64 first."
    )


def check_unique_ids(ids: NDArray[Any], name: str) -> None:
    """Refuse duplicate sample ids: a join on them would be ambiguous."""
    values, counts = np.unique(ids, return_counts=True)
    repeated = values[counts > 1]
    if repeated.size:
        shown = ", ".join(reprlib.repr(v) for v in repeated[:3].tolist())
        raise PairingError(
            f"{name}: {repeated.size} sample ids occur more than once (first: {shown}); "
            "ids must be unique: drop or rename the repeated rows."
        )
