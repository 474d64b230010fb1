"""Files behind a URL (`s3://`, `gs://`, `https://`, `memory://`), through fsspec.

A `RemotePath` is a `Path`, so that readers need not know of it: `stored_rows.FileBytes.open` fetches ranges of bytes by it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from identifiable._checks import DataError, MissingExtra
from identifiable._extras import require

URL = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)  # two letters at least: one is a drive of Windows
WEB = ("http", "https")  # these have no folders that can be listed

if TYPE_CHECKING:
    _Base = Path
else:
    _Base = type(Path())  # Path itself cannot be derived from before Python 3.12


class RemotePath(_Base):
    """The path of a file or a folder on another machine."""

    def __str__(self) -> str:
        return re.sub(r"^([^/]+):/+", r"\1://", super().__str__())

    def __fspath__(self) -> str:
        return str(self)

    def absolute(self) -> RemotePath:
        return self

    def exists(self, **how: Any) -> bool:
        return bool(self._asked("exists"))

    def is_dir(self, **how: Any) -> bool:
        return not str(self).lower().startswith(WEB) and bool(self._asked("isdir"))

    def size(self) -> int | None:
        """Its bytes; None of a folder, or where the other side does not say."""
        found = self._asked("info")
        return None if found["type"] == "directory" or found["size"] is None else int(found["size"])

    def found(self, *, pattern: bool) -> list[RemotePath]:
        """The files that match it as a pattern, or that lie under it at any depth."""
        filesystem, at = self.filesystem()
        names = self._asked("glob") if pattern else self._asked("find")
        return [RemotePath(filesystem.unstrip_protocol(name)) for name in names if name.rstrip("/") != at.rstrip("/")]

    def stream(self) -> IO[bytes]:
        """A file object that fetches what is read of it."""
        opened: IO[bytes] = self._asked("open")
        return opened

    def filesystem(self) -> tuple[Any, str]:
        """The file system of fsspec, and the path in it."""
        require("fsspec", extra="remote", what=f"reading {self}")
        from fsspec.core import url_to_fs

        try:
            filesystem, at = url_to_fs(str(self))
        except ImportError as error:
            raise MissingExtra(f"reading {self}: {_line(error)}") from None
        except Exception as error:
            raise self.unread(error) from None
        return filesystem, at

    def unread(self, error: Exception) -> DataError:
        """What a file system said, as one line of ours."""
        if isinstance(error, FileNotFoundError):
            return DataError(f"{self}: no such file; check the address.")
        return DataError(f"{self}: cannot be read ({_line(error)}); check the address and your access to it.")

    def _asked(self, method: str) -> Any:
        filesystem, at = self.filesystem()
        try:
            return getattr(filesystem, method)(at)
        except Exception as error:  # every file system of fsspec raises its own
            raise self.unread(error) from None


def as_path(text: str) -> Path:
    """The path that a text means: of this machine, or of another one."""
    scheme = URL.match(text)
    if scheme is None:
        return Path(text)
    return Path(text[scheme.end() :]) if scheme[1].lower() == "file" else RemotePath(text)


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:120]
