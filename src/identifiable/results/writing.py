"""Files written whole or not at all."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from identifiable._checks import IdentifiableError, OutputError, said
from identifiable._stopping import TEMPORARY, complete, steady, unfinished


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


LONGEST = 255  # bytes a file may be called on every usual disk
STEM = 60  # of them that a temporary file has of the name it will take

# Tells this machine, and a container on it, from others that write to the same disk: numbers of processes repeat there.
HERE = f"{crc32(f'{platform.node()} {_namespace()}'.encode()):08x}-"


class _Finished(NamedTuple):
    """A file that is complete and waits for its name; what it holds beyond `size` bytes goes with the old name."""

    temporary: Path
    path: Path
    size: int | None = None

    def cut(self) -> Path:
        if self.size is not None:
            os.truncate(self.temporary, self.size)
        return self.temporary


# Files that are complete and wait, in a block of `together`, for their names.
_waiting: ContextVar[list[_Finished] | None] = ContextVar("_waiting", default=None)


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
    waiting: list[_Finished] = []
    token = _waiting.set(waiting)
    try:
        yield
        _deliver(waiting)
    finally:
        _waiting.reset(token)
        for file in waiting:
            _discard(file.temporary)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path` that becomes `path` if the body succeeds and vanishes if not.

    A pipe or a device (/dev/stdout) cannot be replaced: the content is copied into it. A link is followed, as by a shell: what it
    points to is replaced, and it stays.
    """
    with _in_the_end(Path(path), folder=False) as temporary:
        yield temporary


@contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The same of a folder. One that holds something is never replaced."""
    path = Path(path)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise OutputError(f"{path}: cannot write there (it is there already); remove it, or choose another path.")
    with _in_the_end(path, folder=True) as temporary:
        yield temporary


@contextmanager
def _in_the_end(path: Path, *, folder: bool) -> Iterator[Path]:
    stem = f".{cut_name(path.name, STEM)}."
    named: dict[str, Any] = {"prefix": f"{stem}{HERE}{os.getpid()}-", "suffix": TEMPORARY}
    try:
        check_writable(path)
        beside = _followed(path).parent
        if not _is_stream(path):
            _remove_stale(beside, stem)
        with steady:
            if folder:
                name = tempfile.mkdtemp(dir=beside, **named)
            else:
                handle, name = tempfile.mkstemp(dir=None if _is_stream(path) else beside, **named)
                os.close(handle)
            temporary = Path(os.path.abspath(name))
            unfinished[str(temporary)] = None
    except OSError as error:
        raise _unwritable(path, error) from None
    except ValueError:  # a NUL in the name
        raise OutputError(f"{path}: this is not the name of a file; choose another path.") from None
    try:
        yield temporary
        waiting = _waiting.get()
        if waiting is None:
            _deliver([_Finished(temporary, path)])
        else:
            waiting.append(_Finished(temporary, path))
    except IdentifiableError as error:  # of this file, or of another one written together with it
        _discard(temporary)
        if str(temporary) in str(error):  # of what reads again what it has written: it is no name for a user
            raise type(error)(str(error).replace(str(temporary), str(path))) from None
        raise
    except OSError as error:
        _discard(temporary)
        raise _unwritable(path, error, temporary) from None
    except BaseException:
        _discard(temporary)
        raise


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """The folder `path` is there. If it was not there before and nothing is in it in the end, it goes again."""
    if path.exists():
        yield
        return
    kept = os.path.abspath(path)
    try:
        with steady:
            path.mkdir()
            unfinished[kept] = None
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        yield
    finally:
        del unfinished[kept]
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def cut_name(name: str, size: int) -> str:
    """A file name of at most `size` bytes: this one, or its beginning and what tells it from others that begin so."""
    whole = os.fsencode(name)
    mark = f"~{crc32(whole):08x}"
    return name if len(whole) <= size else whole[: size - len(mark)].decode("utf-8", "ignore") + mark


def mode_of(path: Path, *, folder: bool = False) -> int:
    """Who may do what with the file that takes the name `path`: as with what is there and is replaced, else as with anything new."""
    target = _followed(path)
    if target.exists():
        return target.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return (0o777 if folder else 0o666) & ~umask


def check_writable(path: Path) -> None:
    """Refuse to replace what may not be written, as a shell does; its folder alone would let us."""
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def take_name(finished: Path, path: str | os.PathLike[str], size: int) -> None:
    """The first `size` bytes of a finished file become `path`; in a block of `together` with the others.

    If that fails the file stays where it is.
    """
    file = _Finished(finished, Path(path), size)
    waiting = _waiting.get()
    if waiting is None:
        _deliver([file])
    else:
        waiting.append(file)


def _discard(temporary: Path) -> None:
    """A temporary file goes, if it has not taken its name. One that was not made here is no temporary file."""
    if str(temporary) in unfinished:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)
        unfinished.pop(str(temporary), None)


def _deliver(files: Sequence[_Finished]) -> None:
    """Give complete files their names: streams first, then all others, which no signal comes between."""
    streams = [file for file in files if _is_stream(file.path)]
    for file in streams:
        with _said(file.path), file.cut().open("rb") as content, file.path.open("wb") as stream:
            shutil.copyfileobj(content, stream)
        _discard(file.temporary)
    others = [file for file in files if file not in streams]
    for file in others:
        with _said(file.path):
            _flush(file.temporary)
    with steady:
        for file in others:
            temporary, path = file.temporary, file.path
            with _said(path):
                folder = temporary.is_dir()
                if path.is_dir() and not folder:
                    raise IsADirectoryError(21, "it is a directory")
                _make_like(_followed(path), file.cut())  # what tempfile makes is private; a result is an ordinary file
                os.replace(temporary, _followed(path))
            complete.append(str(path))
            unfinished.pop(str(temporary), None)


def _make_like(target: Path, temporary: Path) -> None:
    """Give a file the mode of what it replaces, and the owner and the group where that is permitted, as if that were written into."""
    mode = mode_of(target, folder=temporary.is_dir())
    if target.exists() and hasattr(os, "chown"):
        before = target.stat()
        for owner, group in ((-1, before.st_gid), (before.st_uid, -1)):
            with suppress(OSError):
                os.chown(temporary, owner, group)
        if temporary.stat().st_gid != before.st_gid:
            mode &= ~0o070  # what one group may do is not for another
    temporary.chmod(mode)


def _flush(temporary: Path) -> None:
    """Bring a file to the disk before it takes its name: after a power failure there is the old one, or the whole new one.

    Not the files of a folder, which can be thousands of chunks; a folder never takes the place of something.
    """
    if temporary.is_file():
        handle = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _followed(path: Path) -> Path:
    """What a link points to, be it nothing yet; any other path as it is."""
    if not path.is_symlink():
        return path
    target = os.path.realpath(path)
    if os.path.islink(target):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return Path(target)


def _remove_stale(folder: Path, stem: str) -> None:
    """Remove what processes of this machine that are gone have left unfinished beside a path (`kill -9`, a power failure).

    The name has the number of the process. One that lives, be it another with that number, keeps its file; so do other machines.
    """
    for name in os.listdir(folder):
        found = name.startswith(stem + HERE) and name.endswith(TEMPORARY)
        number = name.removeprefix(stem + HERE).partition("-")[0] if found else ""
        if number.isdecimal() and not _lives(int(number)):
            left = folder / name
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's
        return True
    return True


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """An error of the system, as ours."""
    try:
        yield
    except OSError as error:
        raise _unwritable(path, error) from None


def _is_stream(path: Path) -> bool:
    """Whether `path` is a pipe or a device."""
    try:
        return path.exists() and not path.is_file() and not path.is_dir()
    except OSError:  # a name no file can have: the attempt to write it says so
        return False


def _unwritable(path: Path, error: OSError, temporary: Path | None = None) -> OutputError:
    why = error.strerror or said(error)  # libraries raise some without a number
    why = why if temporary is None else why.replace(str(temporary), path.name)
    return OutputError(f"{path}: cannot write there ({why}); choose another path.")
