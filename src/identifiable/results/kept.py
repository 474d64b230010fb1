"""Arrays by key in a folder, from which a run that was stopped goes on."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, unquote

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from identifiable._checks import DataError, OutputError, UsageError
from identifiable.results.writing import whole_file, write_text

SCHEMA = "identifiable/checkpoint/1"
CARD = "checkpoint.json"  # the fingerprint of the run, beside its arrays
ENTRY, MEMBER = ".npz", ".npy"
LONGEST_HEADER = 1000  # bytes of that of an array; ours have some 120
LONGEST = 200  # bytes of a name; file systems end at 255, and a temporary file needs some


class KeptArrays:
    """Arrays by key in a folder, one `.npz` for each key, each written whole.

    Ours. `fingerprint` tells runs apart: the same data and settings give the same one. A folder of another run is refused.
    Arrays of numbers and text only: nothing is pickled. The comment of each archive holds a digest of the fingerprint, the key and
    the arrays. An entry that cannot be read, or that has another digest or none, counts as absent, and its key is in `damaged`.
    """

    def __init__(self, folder: str | os.PathLike[str], fingerprint: str):
        self.folder, self._fingerprint = Path(folder), fingerprint
        self.damaged: list[str] = []
        try:
            held = [name for name in os.listdir(self.folder) if not name.startswith(".")] if self._is_there() else []
        except OSError as error:
            raise self._unwritable(error.strerror) from None
        self._carded = CARD in held
        if self._carded:
            self._check(fingerprint)
        elif held:
            raise DataError(
                f"{folder}: expected an empty folder or the checkpoints of this run, found other files "
                f"(first: {min(held)}); choose another folder."
            )

    def get(self, key: str) -> dict[str, NDArray[Any]] | None:
        """The arrays kept under `key`; None if there are none."""
        path = self._path(key)
        if not path.exists():
            return None
        try:
            if not path.is_file():
                raise OSError("a pipe or device")  # to open it might wait for ever
            # numpy warns of shapes beyond 64 bits before it refuses them.
            with path.open("rb") as file, zipfile.ZipFile(file) as archive, np.errstate(invalid="ignore"):
                held = {name.removesuffix(MEMBER): _array(archive, name) for name in archive.namelist()}
                if archive.comment != self._seal(key, held):
                    raise ValueError("content that was not kept under this key in this run")
                return held
        except Exception:  # zipfile and numpy raise a dozen unrelated types on damaged archives
            if key not in self.damaged:
                self.damaged.append(key)
            return None

    def put(self, key: str, arrays: Mapping[str, Any]) -> None:
        """Keep arrays under `key`, in place of those that are there."""
        values = {name: np.asarray(array) for name, array in arrays.items()}
        for name, array in values.items():
            if array.dtype.hasobject:
                raise UsageError(
                    f"{key}: {name!r} is an array of Python objects; keep numbers or text (a JSON as one)."
                )
        path = self._path(key)
        self._begin()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):  # a link or a pipe is replaced, not written to
            path.unlink(missing_ok=True)
        with whole_file(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            archive.comment = self._seal(key, values)
            for name, array in values.items():
                with archive.open(f"{name}{MEMBER}", "w", force_zip64=True) as member:
                    npy_format.write_array(member, array, allow_pickle=False)

    def keys(self) -> tuple[str, ...]:
        """The keys that have an entry, in order."""
        names = os.listdir(self.folder) if self.folder.is_dir() else []
        return tuple(
            sorted(unquote(n.removesuffix(ENTRY)) for n in names if n.endswith(ENTRY) and not n.startswith("."))
        )

    def _seal(self, key: str, arrays: Mapping[str, NDArray[Any]]) -> bytes:
        """A digest of an entry. The order in memory counts: sums round by it."""
        content = [[name, array.flags.fnc, array] for name, array in arrays.items()]
        return digest({"run": self._fingerprint, "key": key, "arrays": content}).encode()

    def _is_there(self) -> bool:
        """Whether there is the folder; if not, that it can be made. A run that is refused in the end has then made nothing."""
        if os.path.lexists(self.folder):
            return True
        above = next(each for each in self.folder.absolute().parents if os.path.lexists(each))
        if not above.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(above, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return False

    def _begin(self) -> None:
        """The folder and its card, before its first entry."""
        if self._carded:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error.strerror) from None
        if os.path.lexists(self.folder / CARD):  # of another run, since this one has looked
            self._check(self._fingerprint)
        card = {"schema": SCHEMA, "fingerprint": self._fingerprint}
        write_text(self.folder / CARD, json.dumps(card) + "\n")
        self._carded = True

    def _unwritable(self, why: str | None) -> OutputError:
        return OutputError(f"{self.folder}: cannot keep checkpoints there ({why}); choose another folder.")

    def _path(self, key: str) -> Path:
        name = quote(key, safe=" ,=()+") + ENTRY  # a key may hold slashes and colons, which a name may not
        if not key or len(name) > LONGEST:
            raise UsageError(f"key {key[:60]!r}: expected 1 to {LONGEST} characters.")
        return self.folder / name.replace(".", "%2E", 1) if name.startswith(".") else self.folder / name

    def _check(self, fingerprint: str) -> None:
        path = self.folder / CARD
        try:
            card = json.loads(path.read_text(encoding="utf-8") if path.is_file() else "")  # a pipe would not end
            known = card["fingerprint"] if card["schema"] == SCHEMA else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            known = None
        if not isinstance(known, str):
            raise DataError(
                f"{self.folder}: {CARD} is damaged or of another version; delete the folder or choose another one."
            )
        if known != fingerprint:
            raise DataError(
                f"{self.folder}: holds the checkpoints of a run on other data or with other settings "
                f"({known[:16].encode('unicode_escape').decode()} there, {fingerprint[:16]} here); choose another folder, or "
                "delete this one to begin anew."
            )


def _array(archive: zipfile.ZipFile, member: str) -> NDArray[Any]:
    """One array, whose header numpy would read for minutes if damage made it long."""
    with archive.open(member) as stream:
        start = npy_format.MAGIC_LEN
        head = cast(zipfile.ZipExtFile, stream).peek(start + 2)
        if int.from_bytes(head[start : start + 2], "little") > LONGEST_HEADER:
            raise ValueError("a header that was not written here")
        result: NDArray[Any] = npy_format.read_array(stream, allow_pickle=False)
        return result


def digest(what: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=plain_content).encode()).hexdigest()[:32]


def plain_content(value: Any) -> Any:
    """What JSON does not know: arrays by their content, anything else by how it shows itself."""
    if isinstance(value, np.ndarray):
        content: Any = np.ascontiguousarray(value)
        return [str(content.dtype), list(value.shape), hashlib.sha256(content).hexdigest()]
    return value.item() if isinstance(value, np.generic) else repr(value)
