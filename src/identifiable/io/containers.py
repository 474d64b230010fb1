"""Where an input lies, what every file format offers to `opening`, and how names stand in a message."""

from __future__ import annotations

import difflib
import fnmatch
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, IdentifiableError, KindError, check_matrix_shape, check_numeric
from identifiable.io.remote import URL, RemotePath, as_path
from identifiable.io.stored_rows import FileBytes, Layout, LazyRows

PACKED = ".gz"
IDS = "ids"  # an array of this name in a .npz or .safetensors file identifies the rows of the others
SHOWN = 12  # names listed in a message
NAME_CHARACTERS = 80
LONGEST_NAME = 255  # bytes of the name of a file: where file systems end
REASON_CHARACTERS = 120
PACKAGE = "identifiable."


class IdentifiedRows(NamedTuple):
    """A table, and who its rows are and what its columns are called if the file says so."""

    rows: LazyRows
    ids: NDArray[Any] | None
    columns: tuple[str, ...] | None = None


class IdentifiedColumn(NamedTuple):
    """One value for each row, and who the rows are if the file says so."""

    values: NDArray[Any]
    ids: NDArray[Any] | None


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


def shown(name: str) -> str:
    """A name from a file, as part of a line of ours: it may hold line breaks, or be as long as a page."""
    name = name if name.isprintable() else repr(name)
    return name if len(name) <= NAME_CHARACTERS else name[:NAME_CHARACTERS] + "…"


def is_file_name(name: str) -> bool:
    """Whether a name from a file can be that of another file in the same folder."""
    return (
        name.isprintable() and len(name.encode()) <= LONGEST_NAME and name == Path(name).name and name not in ("", "..")
    )


def listed(names: Sequence[str]) -> str:
    """Names for a message, each fit to be shown, not too many."""
    more = f", … ({len(names) - SHOWN} more)" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def named(names: Iterable[str]) -> str:
    """Names from a file, for a message."""
    return listed([shown(name) for name in names])


def did_you_mean(name: str, among: Iterable[str]) -> str:
    """The end of a message about a name that is not there; nothing if no other is like it."""
    similar = difflib.get_close_matches(name, among, n=1)
    return f"; did you mean {shown(similar[0])}?" if similar else ""


def reason(error: Exception) -> str:
    """What a library said, as part of a line of ours: some quote half the file they choked on."""
    lines = str(error).splitlines()
    return lines[0][:REASON_CHARACTERS] if lines else type(error).__name__


@contextmanager
def damage_named(damaged: Callable[[str], DataError]) -> Iterator[None]:
    """Any error of a library as one of ours: on damaged files zipfile, pyarrow and h5py raise a dozen unrelated types."""
    try:
        yield
    except IdentifiableError:
        raise
    except Exception as error:
        if is_a_bug(error):
            raise
        raise damaged(reason(error)) from None


def is_a_bug(error: Exception) -> bool:
    """Whether an error is a mistake in this package, which no content of a file can cause: a name that is not there, or a wrong call.

    Others can be either. A name is missing by our fault if it is looked for in a module or in an object of ours, and not in what a
    library has read.
    """
    if isinstance(error, NameError | NotImplementedError | AssertionError):
        return _raised_here(error)
    if isinstance(error, AttributeError):
        of = error.obj if isinstance(error.obj, ModuleType | type) else type(error.obj)
        return _raised_here(error) and (isinstance(of, ModuleType) or of.__module__.startswith(PACKAGE))
    return isinstance(error, TypeError) and _raised_here(error) and " argument" in str(error) and "()" in str(error)


def _raised_here(error: Exception) -> bool:
    """Whether the last line of Python that ran was ours."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).startswith(PACKAGE)


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


def piped(label: str) -> str:
    return f"{label}: expected a file on disk, got a pipe or device; save it to a file first."


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
    if kind == "f":
        wide = values.astype(np.result_type(values, np.float64))  # 2**53 is infinite in half precision
        if np.all(np.abs(wide) < 2**53) and np.all(wide == np.trunc(wide)):
            return wide.astype(np.int64)
    raise DataError(f"{label}: expected text or whole numbers (ids, labels), got {values.dtype}.")


def identities_from_text(values: Sequence[str]) -> NDArray[Any]:
    """Text as integers if every value is one written plainly (`7`, not `007` or `7.0`), else as it is."""
    text = np.array(values, dtype=str)
    try:
        numbers = text.astype(np.int64)
    except (ValueError, OverflowError):
        return text
    return numbers if np.array_equal(numbers.astype(str), text) else text


# -- where an input lies


class Location(NamedTuple):
    path: Path
    part: str | None

    @property
    def label(self) -> str:
        """What errors call it."""
        return str(self.path) if self.part is None else f"{self.path}:{self.part}"

    @property
    def name(self) -> str:
        """What pages call it; shards by the folder they are in."""
        stem = stem_of(self.path)
        stem = (self.path.parent.name or stem) if set(stem) <= {"*"} else stem
        return stem if self.part is None else f"{stem}:{self.part}"


def split_spec(spec: str | os.PathLike[str], suffixes: tuple[str, ...]) -> Location:
    """`path` and `part` of `path:part`. Both may hold colons: the longest prefix that exists is the path.

    If nothing exists, the path ends at the first of the known `suffixes`, so that the error names the
    file and not the part. So does a URL, and a pattern (``runs/*.npy``).
    """
    text = str(spec) if isinstance(spec, RemotePath) else os.fsdecode(spec)
    if not text:
        raise DataError("expected the path of a file, got an empty name.")
    scheme = URL.match(text)
    if scheme is None and os.path.lexists(text):
        return Location(Path(text), None)
    colons = [i for i, character in enumerate(text) if character == ":"]
    existing = [i for i in reversed(colons) if i and scheme is None and os.path.lexists(text[:i])]
    likely = [i for i in colons if text[:i].lower().endswith(suffixes)]
    for cut in existing + likely:
        if not text[cut + 1 :]:
            raise DataError(
                f"{text}: expected the name of a part after the colon, got nothing; drop the colon or name one."
            )
        return Location(as_path(text[:cut]), text[cut + 1 :])
    return Location(as_path(text), None)


def is_pattern(path: Path) -> bool:
    """Whether a path stands for all files whose names match it."""
    if isinstance(path, RemotePath):
        return "*" in str(path)
    return any(character in str(path) for character in "*?[") and not os.path.lexists(path)


def is_folder(path: Path) -> bool:
    """Whether there is a folder; a name that no file can have is none."""
    return path.is_dir() if isinstance(path, RemotePath) else os.path.isdir(path)


def is_there(path: Path) -> bool:
    """Whether there is anything, be it a link to nothing."""
    return path.exists() if isinstance(path, RemotePath) else os.path.lexists(path)


def natural(name: str) -> list[tuple[bool, int, str]]:
    """A key that puts layer_2 before layer_10."""
    parts = re.split(r"(\d+)", name)
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def suffix_of(path: Path) -> str:
    """The suffix that tells the format, in small letters; of a packed table both (`.csv.gz`)."""
    *before, last = [suffix.lower() for suffix in path.suffixes] or [""]
    return before[-1] + last if last == PACKED and before else last


def stem_of(path: Path) -> str:
    """The name without that suffix."""
    return path.name[: len(path.name) - len(suffix_of(path))]


def file_path(given: Any) -> Path:
    """What was given as the path of a file."""
    try:
        return Path(os.fsdecode(given))
    except TypeError:
        raise KindError(f"expected the path of a file, got {type(given).__name__}.") from None


def check_is_file(path: Path) -> None:
    """Refuse what cannot be a data file, before anything is opened (opening a pipe would wait for ever)."""
    if isinstance(path, RemotePath):
        if path.is_dir():
            raise DataError(f"{path}: expected a file, got a directory; name a file in it.")
        if path.size() == 0:
            raise DataError(f"{path}: the file is empty (0 bytes); write it again.")
        return
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise _absent(path, error) from None
    except ValueError:  # a NUL in the name
        raise DataError(f"{str(path)!r}: this is not the name of a file.") from None
    if stat.S_ISDIR(mode):
        raise DataError(f"{path}: expected a file, got a directory; name a file in it.")
    if not stat.S_ISREG(mode):
        raise DataError(piped(str(path)))
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty (0 bytes); write it again.")


def check_is_there(path: Path) -> None:
    """As `check_is_file`, for tables that may also be folders, or many files by a pattern."""
    if not is_pattern(path) and not is_folder(path):
        check_is_file(path)


def check_is_folder(path: Path) -> None:
    """Refuse what is not there, or is a file where a folder is expected."""
    if isinstance(path, RemotePath) or os.path.isdir(path):
        return
    check_is_file(path)
    raise DataError(f"{path}: expected a folder, got a file; unpack it, or check how it was written.")


def _absent(path: Path, error: OSError) -> DataError:
    if not isinstance(error, FileNotFoundError):
        return DataError(f"{path}: cannot be opened ({error.strerror}); check the path and its permissions.")
    if path.is_symlink():
        return DataError(f"{path}: the link points to {os.readlink(path)}, which does not exist.")
    try:
        neighbours = os.listdir(path.parent)
    except OSError:
        return DataError(f"{path}: no such file, and no readable directory {path.parent} either; check the path.")
    similar = difflib.get_close_matches(path.name, neighbours, n=3)
    hint = f"did you mean {' or '.join(similar)}?" if similar else "check the path."
    return DataError(f"{path}: no such file; {hint}")
