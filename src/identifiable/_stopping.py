"""How a command ends on Ctrl-C and on SIGTERM: within a second, in one line, and without its temporary files.

Ours. A KeyboardInterrupt comes between two bytecodes of the main thread: never during a long call into compiled code, and
perhaps inside importlib, which then keeps its lock for ever. So none is raised. The interpreter's handler in C writes the
signal's number into a pipe at once, wherever the main thread is; a thread that reads the pipe removes what is unfinished
and ends the process. That thread imports nothing and needs only the GIL, which compiled code gives up.

This module is in force before anything else is imported: it imports what the interpreter has loaded or nearly so.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from _thread import allocate_lock, start_new_thread
from itertools import count

TYPE_CHECKING = False  # not from typing: this is in force before anything else is imported
if TYPE_CHECKING:
    from collections.abc import Callable

SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
TEMPORARY = ".part"  # how the names of files and folders end that are not complete
PATIENCE = 0.3  # seconds: for files that are just taking their names, a reader of stderr, removing what comes back
REST = 0.005  # seconds after which what was removed is still gone
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT

steady = allocate_lock()  # held while a temporary file appears or takes its name: a command does not end in between
unfinished: dict[str, None] = {}  # absolute paths of temporary files and of new folders, a folder before what is in it
complete: list[str] = []  # files that have taken their names
resumable: dict[str, None] = {}  # files of finished parts, from which the same command goes on

# What would move the cursor of a terminal, colour it or turn its text around, written out; line ends and tabs stay.
ESCAPES = {c: f"\\x{c:02x}" for c in (*range(32), *range(127, 160)) if c not in (9, 10)} | {
    c: f"\\u{c:04x}" for c in (0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}

_received = count()
_never = allocate_lock()  # held for ever once the process ends


def end_on_signals() -> None:
    """From now on Ctrl-C ends this process with exit code 130, SIGTERM with 143; a second signal waits for nothing.

    For a process of our own: a call from Python leaves the signals of its caller alone. A signal that is ignored, as Ctrl-C
    is by what a shell puts in the background, stays ignored.
    """
    if os.name != "posix":
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _go_on)
    for _ in range(2):  # while one ends the process, the other waits for a second signal
        start_new_thread(_watch, (reading,))
    os.register_at_fork(before=_hold, after_in_parent=_heed, after_in_child=_leave_to_parent)


def printable(text: str) -> str:
    """`text` as it may stand on a terminal, whatever the names of files and columns in it."""
    return text.translate(ESCAPES)


def last_words(word: str) -> str:
    """What is said when a command is stopped."""
    kept = f"files completed: {len(complete)} (last: {complete[-1]})" if complete else "no result was written"
    on = f"; run the command again to go on from {next(iter(resumable))}" if resumable else ""
    return printable(f"identifiable: {word}; {kept}{on}.")


def _go_on(number: int, frame: object) -> None:
    """The main thread does nothing about a signal: `_watch` does."""


def _watch(reading: int) -> None:
    while (number := os.read(reading, 1)[0]) not in SIGNALS:  # code of the user may handle other signals
        pass
    try:
        if next(_received) == 0:
            steady.acquire(timeout=PATIENCE)  # and never released: no file appears any more
            _say(last_words(SIGNALS[signal.Signals(number)]))
        _never.acquire(blocking=False)
        sys.addaudithook(_make_nothing)
        until = time.monotonic() + PATIENCE
        while _remove_unfinished() and time.monotonic() < until:
            time.sleep(REST)  # a writer may just be making its file or a folder, and compiled code is not held back
    finally:
        os._exit(128 + number)


def _make_nothing(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: a thread that is about to make a file or a folder waits for the end of the process.

    A writer that went on, as the threads of zarr do, would make its folders again as fast as they are removed.
    """
    if event == "os.mkdir" or (event == "open" and isinstance(flags := arguments[2], int) and flags & WRITES):
        _never.acquire()


def _remove_unfinished() -> bool:
    """Remove what is unfinished; whether there was any."""
    left = [path for path in reversed(unfinished) if os.path.lexists(path)]
    for path in left:
        _remove(path)
    return bool(left)


def _remove(path: str) -> None:
    """Remove a temporary file, or a temporary folder with all that is in it; any other folder only if it is empty."""
    if path.endswith(TEMPORARY):
        for at, _, files in os.walk(path, topdown=False):
            for name in files:
                _try(os.unlink, os.path.join(at, name))
            _try(os.rmdir, at)
    _try(os.rmdir if os.path.isdir(path) else os.unlink, path)


def _try(remove: Callable[[str], None], path: str) -> None:
    try:
        remove(path)
    except OSError:  # gone already, or a folder that holds something
        return


def _say(line: str) -> None:
    """To stderr itself: its buffer may be locked, its reader may have stopped reading."""
    try:
        stream = sys.stderr.fileno()
        if select.select([], [stream], [], PATIENCE)[1]:
            clear = "\r\x1b[2K" if os.isatty(stream) else ""  # the bar
            os.write(stream, f"{clear}{line}\n".encode(errors="replace"))
    except (AttributeError, OSError, ValueError):  # closed, or not a file
        pass


def _hold() -> None:
    """A fork shares the pipe, and would end its parent by it: no signal comes before it has left that."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _heed() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _leave_to_parent() -> None:
    signal.set_wakeup_fd(-1)
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) == _go_on:
            signal.signal(number, usual)
    _heed()
