"""Files written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from identifiable._checks import OutputError

# Files that are complete and wait, in a block of `together`, for their names: (temporary, path).
_waiting: ContextVar[list[tuple[Path, Path]] | None] = ContextVar("_waiting", default=None)


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write `text` whole or not at all: to a temporary file beside `path`, then renamed over it."""
    write_texts({path: text})
    return Path(path)


def write_texts(texts: Mapping[str | os.PathLike[str], str]) -> None:
    """Write several texts, all of them or none."""
    with together():
        for path, text in texts.items():
            with whole_file(path) as temporary:
                temporary.write_text(text, encoding="utf-8", errors="replace")


@contextmanager
def together() -> Iterator[None]:
    """All files written in this block through `whole_file` appear when it ends; if it fails, none does.

    Every one is complete on disk before the first takes its name. A pipe or a device, whose content cannot be taken
    back, is written first.
    """
    if _waiting.get() is not None:  # inside another block, whose end decides
        yield
        return
    waiting: list[tuple[Path, Path]] = []
    token = _waiting.set(waiting)
    try:
        yield
        for temporary, path in sorted(waiting, key=lambda pair: not _is_stream(pair[1])):
            try:
                _deliver(temporary, path)
            except OSError as error:
                raise _unwritable(path, error) from None
    finally:
        _waiting.reset(token)
        for temporary, _ in waiting:
            temporary.unlink(missing_ok=True)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path` that becomes `path` if the body succeeds and vanishes if not.

    A pipe or a device (/dev/stdout) cannot be replaced: the content is copied into it.
    """
    path = Path(path)
    folder = None if _is_stream(path) else path.parent
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=f".{path.name[:60]}.", suffix=".part")
        os.close(handle)
    except OSError as error:
        raise _unwritable(path, error) from None
    temporary = Path(name)
    try:
        yield temporary
        waiting = _waiting.get()
        if waiting is None:
            _deliver(temporary, path)
        else:
            waiting.append((temporary, path))
    except OutputError:  # of another file written together with this one
        temporary.unlink(missing_ok=True)
        raise
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _unwritable(path, error) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _deliver(temporary: Path, path: Path) -> None:
    """Give a complete file its name."""
    if _is_stream(path):
        with temporary.open("rb") as content, path.open("wb") as stream:
            shutil.copyfileobj(content, stream)
        temporary.unlink()
        return
    if path.is_dir():
        raise IsADirectoryError(21, "it is a directory")
    umask = os.umask(0)
    os.umask(umask)
    temporary.chmod(0o666 & ~umask)  # mkstemp makes files private; a result is an ordinary file
    os.replace(temporary, path)


def _is_stream(path: Path) -> bool:
    """Whether `path` is a pipe or a device."""
    try:
        return path.exists() and not path.is_file() and not path.is_dir()
    except OSError:  # a name no file can have: the attempt to write it says so
        return False


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(f"{path}: cannot write there ({error.strerror}); choose another path.")
