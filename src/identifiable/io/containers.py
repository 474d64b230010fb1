"""What every file format offers to `opening`, and how one array is chosen among several."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, check_matrix_shape, check_numeric
from identifiable.io.stored_rows import FileBytes, Layout, StoredRows
from identifiable.results import Alert

IDS = "ids"  # an array of this name in a .npz or .safetensors file identifies the rows of the others
SHOWN = 12  # names listed in a message
NAME_CHARACTERS = 80
REASON_CHARACTERS = 120


class IdentifiedRows(NamedTuple):
    """A table, and who its rows are and what its columns are called if the file says so."""

    rows: StoredRows
    ids: NDArray[Any] | None
    columns: tuple[str, ...] | None = None


class IdentifiedColumn(NamedTuple):
    """One value for each row, and who the rows are if the file says so."""

    values: NDArray[Any]
    ids: NDArray[Any] | None


class LabelledRows(NamedTuple):
    """A table with names for its columns, and further columns of the same rows.

    `id_name` is the column that `ids` were read from, where they are a column; `notes` say what was left out. `named` is
    False where the names only number the columns.
    """

    rows: StoredRows
    feature_names: tuple[str, ...]
    labels: Mapping[str, NDArray[Any]]
    ids: NDArray[Any] | None
    id_name: str | None
    notes: tuple[Alert, ...] = ()
    named: bool = True


class Container(Protocol):
    """A file that was opened and looked at, not yet read."""

    @property
    def names(self) -> Collection[str]:
        """What can be called by name in it: arrays, tensors, columns."""
        ...

    def table(self, part: str | None, *, ids: str | None, own_ids: bool) -> IdentifiedRows:
        """The 2-D part. Ids are those called `ids`; if None, the file's own ones unless `own_ids` is False."""
        ...

    def column(self, part: str | None) -> IdentifiedColumn:
        """The 1-D part, as text or integers."""
        ...


class LabelledTable(Container, Protocol):
    """A file whose rows have further columns beside their values."""

    def labelled(self, features: Sequence[str] | str | None, ids: str | None) -> LabelledRows:
        """The features, by names and patterns or as the file shows them, with every other column as a label."""
        ...

    def metadata(self, part: str | None = None) -> tuple[Mapping[str, NDArray[Any]], NDArray[Any] | None, str | None]:
        """Columns as labels, all or those that `part` names; the ids of the rows, and the column they were read from."""
        ...


def shown(name: str) -> str:
    """A name from a file, as part of a line of ours: it may hold line breaks, or be as long as a page."""
    name = name if name.isprintable() else repr(name)
    return name if len(name) <= NAME_CHARACTERS else name[:NAME_CHARACTERS] + "…"


def listed(names: Sequence[str]) -> str:
    """Names for a message, each fit to be shown, not too many."""
    more = f", … ({len(names) - SHOWN} more)" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def reason(error: Exception) -> str:
    """What a library said, as part of a line of ours: some quote half the file they choked on."""
    lines = str(error).splitlines()
    return lines[0][:REASON_CHARACTERS] if lines else type(error).__name__


def choose(layouts: Mapping[str, Layout], part: str | None, ndim: int, label: str) -> str:
    """The name of the array to read: `part`, or the only one that could be meant."""
    held = (
        listed([f"{shown(name)} {layout.shape} {layout.stored_dtype}" for name, layout in layouts.items()]) or "nothing"
    )
    if part is not None:
        if part in layouts:
            return part
        similar = difflib.get_close_matches(part, layouts, n=1)
        hint = f"; did you mean {shown(similar[0])}?" if similar else ""
        raise DataError(f"{label}: holds no {part!r}; it holds {held}{hint}")
    others = [name for name in layouts if name != IDS]
    kinds = "fiub" if ndim == 2 else "iuUSbf"
    fitting = [k for k in others if len(layouts[k].shape) == ndim and layouts[k].stored.kind in kinds]
    if len(fitting) == 1:
        return fitting[0]
    if len(others) == 1:  # not fitting either, but then the error can say what is wrong with it
        return others[0]
    raise DataError(
        f"{label}: expected exactly one {ndim}-D array{' of numbers' if ndim == 2 else ''}, found {len(fitting)}; "
        f"it holds {held}: name one after a colon, as in {label}:{shown(next(iter(fitting or others), 'NAME'))}"
    )


def matching(names: Sequence[str], asked: Sequence[str] | str, absent: Callable[[str], DataError]) -> list[int]:
    """Places of the columns that names and patterns select (a text: with commas between), in the order of the table."""
    if isinstance(asked, str):
        if asked in names:
            return [j for j, name in enumerate(names) if name == asked]
        asked = asked.split(",")
    chosen: set[int] = set()
    for pattern in asked:
        here = {j for j, name in enumerate(names) if name == pattern or fnmatch.fnmatchcase(name, pattern)}
        if not here:
            raise absent(pattern)
        chosen |= here
    return sorted(chosen)


def check_table(layout: Layout, label: str) -> None:
    """Refuse what is not a table of real numbers with at least one row and column."""
    if layout.stored.hasobject:
        raise DataError(pickled(label))
    check_numeric(layout.dtype, label)
    check_matrix_shape(layout.shape, label)


def pickled(label: str) -> str:
    return (
        f"{label}: holds Python objects (pickled), which are never loaded because that can run code; "
        "save it again as float32 (ids and labels: as fixed-width text, np.asarray(x, dtype=str))."
    )


def read_whole(file: FileBytes, layout: Layout, label: str) -> NDArray[Any]:
    """A 1-D array (ids, labels) in memory."""
    if layout.stored.hasobject:
        raise DataError(pickled(label))
    shape = layout.shape[:1] if len(layout.shape) == 2 and layout.shape[1] == 1 else layout.shape
    if len(shape) != 1 or layout.stored.itemsize == 0:
        raise DataError(
            f"{label}: expected one value per row (a 1-D array), got shape {layout.shape} {layout.stored_dtype}."
        )
    raw = np.empty(shape[0] * layout.stored.itemsize, np.uint8)
    file.read_into(layout.offset, raw)
    return identities(layout.decode(raw), label)


def identities(values: NDArray[Any], label: str) -> NDArray[Any]:
    """Ids or labels as int64 or as text; numbers that are not whole are refused."""
    kind = values.dtype.kind
    if kind in "US":
        try:
            text = np.char.decode(values, "utf-8") if kind == "S" else values
            for value in text.tolist():
                value.encode("utf-8")
        except (ValueError, SystemError):  # UnicodeError, or code points that do not exist
            raise DataError(f"{label}: expected text, got bytes that are not UTF-8; save it again as text.") from None
        return text
    if kind in "iub":
        return values if kind == "u" and values.dtype.itemsize == 8 else values.astype(np.int64)
    if kind == "f" and np.all(np.abs(values) < 2**53) and np.all(values == np.trunc(values)):
        return values.astype(np.int64)
    raise DataError(f"{label}: expected text or whole numbers (ids, labels), got {values.dtype}.")


def identities_from_text(values: Sequence[str]) -> NDArray[Any]:
    """Text as integers if every value is one written plainly (`7`, not `007` or `7.0`), else as it is."""
    text = np.array(values, dtype=str)
    try:
        numbers = text.astype(np.int64)
    except (ValueError, OverflowError):
        return text
    return numbers if np.array_equal(numbers.astype(str), text) else text
