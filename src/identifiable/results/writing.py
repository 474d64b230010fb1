"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from identifiable._checks import OutputError


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write `text` whole or not at all: to a temporary file beside `path`, then renamed over it.

    A pipe or a device (/dev/stdout) cannot be replaced and is written to.
    """
    write_texts({path: text})
    return Path(path)


def write_texts(texts: Mapping[str | os.PathLike[str], str]) -> None:
    """Write several texts, all of them or none: every one is on disk before the first takes its name."""
    paths = {Path(path): text for path, text in texts.items()}
    for path, text in paths.items():
        if _is_stream(path):
            try:
                path.write_text(text, encoding="utf-8", errors="replace")
            except OSError as error:
                raise _unwritable(path, error) from None
    with ExitStack() as stack:
        for path, text in paths.items():
            if not _is_stream(path):
                stack.enter_context(whole_file(path)).write_text(text, encoding="utf-8", errors="replace")


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path` that becomes `path` if the body succeeds and vanishes if not."""
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.", suffix=".part")
        os.close(handle)
    except OSError as error:
        raise _unwritable(path, error) from None
    temporary = Path(name)
    try:
        yield temporary
        if path.is_dir():
            raise IsADirectoryError(21, "it is a directory")
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes files private; a result is an ordinary file
        os.replace(temporary, path)
    except OutputError:  # of another file written together with this one
        temporary.unlink(missing_ok=True)
        raise
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _unwritable(path, error) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _is_stream(path: Path) -> bool:
    """Whether `path` is a pipe or a device."""
    try:
        return path.exists() and not path.is_file() and not path.is_dir()
    except OSError:  # a name no file can have: the attempt to write it says so
        return False


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(f"{path}: cannot write there ({error.strerror}); choose another path.")
