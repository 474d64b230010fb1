"""Where an input lies: `path` or `path:part`, and the errors of a path that leads nowhere."""

from __future__ import annotations

import difflib
import os
import stat
from pathlib import Path

from identifiable._checks import DataError

PACKED = ".gz"


def split_spec(spec: str | os.PathLike[str], suffixes: tuple[str, ...]) -> tuple[Path, str | None]:
    """`path` and `part` of `path:part`. Both may hold colons: the longest prefix that exists is the path.

    If nothing exists, the path ends at the first of the known `suffixes`, so that the error names the
    file and not the part.
    """
    text = os.fsdecode(spec)
    if not text:
        raise DataError("expected the path of a file, got an empty name.")
    if os.path.lexists(text):
        return Path(text), None
    colons = [i for i, character in enumerate(text) if character == ":"]
    existing = [i for i in reversed(colons) if i and os.path.lexists(text[:i])]
    likely = [i for i in colons if text[:i].lower().endswith(suffixes)]
    for cut in existing + likely:
        if not text[cut + 1 :]:
            raise DataError(
                f"{text}: expected the name of a part after the colon, got nothing; drop the colon or name one."
            )
        return Path(text[:cut]), text[cut + 1 :]
    return Path(text), None


def suffix_of(path: Path) -> str:
    """The suffix that tells the format, in small letters; of a packed table both (`.csv.gz`)."""
    *before, last = [suffix.lower() for suffix in path.suffixes] or [""]
    return before[-1] + last if last == PACKED and before else last


def stem_of(path: Path) -> str:
    """The name without that suffix."""
    return path.name[: len(path.name) - len(suffix_of(path))]


def check_is_file(path: Path) -> None:
    """Refuse what cannot be a data file, before anything is opened (opening a pipe would wait for ever)."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise _absent(path, error) from None
    except ValueError:  # a NUL in the name
        raise DataError(f"{str(path)!r}: this is not the name of a file.") from None
    if stat.S_ISDIR(mode):
        raise DataError(f"{path}: expected a file, got a directory; name a file in it.")
    if not stat.S_ISREG(mode):
        raise DataError(f"{path}: expected a file on disk, got a pipe or device; save it to a file first.")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty (0 bytes); write it again.")


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
