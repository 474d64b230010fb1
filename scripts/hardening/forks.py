"""A command in a fork of this process, which has imported all that it needs: a run costs its work and no start.

The fork can be stopped by a signal: after some seconds, at its k-th step, or as soon as a file is larger than some size. A step is a
call that opens a file of OUT for writing, or makes, renames, removes one: the signal comes just before the call is carried out.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from threadpoolctl import threadpool_limits

from hardening.commands import OUT, Writer

GIVE_UP = 300.0  # seconds until a run that does not end is killed
STEPS = {"open": (0,), "os.mkdir": (0,), "os.rename": (0, 1), "os.remove": (0,), "os.rmdir": (0,), "os.chmod": (0,)}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
REST = 0.02  # seconds that a step waits after its signal: the thread that heeds signals is to be faster than the writer
TEMPORARY = "tmp"


@dataclass(frozen=True)
class Blow:
    """A signal, and when it comes."""

    number: signal.Signals
    step: int | None = None  # counted from 1
    seconds: float | None = None
    size: int | None = None  # bytes of a file; only for SIGKILL, as which the kernel ends it

    def __str__(self) -> str:
        when = f"step {self.step}" if self.step else f"{self.size} bytes" if self.size else f"{self.seconds:.3f} s"
        return f"{self.number.name} at {when}"


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code (negative: by which signal) and what it said; None: it did not end."""

    code: int | None
    said: str
    steps: Sequence[str]
    seconds: float
    cpu: float
    delay: float | None  # seconds from the signal to the end; None if it came too late, or not at all
    work: float = 0.0  # seconds of the command itself

    @property
    def struck(self) -> bool:
        """Whether the blow met a command that was at work."""
        return self.delay is not None or self.code != 0


def command(writer: Writer) -> Callable[[], int]:
    """What `python -m identifiable` does after its imports."""

    def body() -> int:
        from identifiable.cli.commands import run

        if writer.eager:
            module, _, name = writer.eager.partition(":")
            setattr(import_module(module), name, 0.0)
        sys.argv = ["identifiable", *writer.words]
        return run(None)

    return body


@dataclass(frozen=True)
class Running:
    """A fork that has been started."""

    pid: int
    reading: int
    said: IO[bytes]
    blow: Blow | None
    begun: float


def start(
    body: Callable[[], int], folder: Path, blow: Blow | None = None, prepare: Callable[[], None] | None = None
) -> Running:
    """Call `body` in a fork whose current folder is `folder`. `prepare` comes first in the fork."""
    (folder / TEMPORARY).mkdir(exist_ok=True)
    reading, writing = os.pipe()
    said = tempfile.TemporaryFile()  # noqa: SIM115  (`finish` closes it)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        os.close(reading)
        _child(body, folder, blow, prepare, said.fileno(), writing)
    os.close(writing)
    return Running(pid, reading, said, blow, time.monotonic())


def finish(running: Running) -> Ended:
    """Wait for the end of a fork, and stop it when its time has come."""
    heard, sent = _listen(running.pid, running.reading, running.blow)
    os.close(running.reading)
    _, status, usage = os.wait4(running.pid, 0)
    ended = time.monotonic()
    with running.said as said:
        said.seek(0)
        text = said.read().decode(errors="replace")
    lines = heard.decode(errors="replace").splitlines()
    times = [float(line.split()[1]) for line in lines if line.startswith("sent ")] or ([sent] if sent else [])
    began, done = (
        next((float(line.split()[1]) for line in lines if line.startswith(word)), other)
        for word, other in (("ready ", running.begun), ("end ", ended))
    )
    return Ended(
        None if "gave up" in lines else os.waitstatus_to_exitcode(status),
        text,
        [line for line in lines if line.partition(" ")[0] in STEPS],
        ended - running.begun,
        usage.ru_utime + usage.ru_stime,
        ended - times[0] if times and times[0] < done else None,
        done - began,
    )


def run(
    body: Callable[[], int], folder: Path, blow: Blow | None = None, prepare: Callable[[], None] | None = None
) -> Ended:
    """Call `body` in a fork whose current folder is `folder`, and stop it by `blow`."""
    return finish(start(body, folder, blow, prepare))


def _listen(pid: int, reading: int, blow: Blow | None) -> tuple[bytes, float | None]:
    """What a fork writes until it ends, and when the signal was sent from here."""
    heard, sent = b"", None
    poll = select.poll()
    poll.register(reading)
    deadline = time.monotonic() + GIVE_UP
    strike: float | None = None
    while True:
        if strike is None and b"ready " in heard and blow is not None and blow.seconds is not None and sent is None:
            strike = time.monotonic() + blow.seconds
        until = deadline if strike is None else strike
        if not poll.poll(max(until - time.monotonic(), 0) * 1000):
            if strike is None:
                os.kill(pid, signal.SIGKILL)
                return heard + b"\ngave up\n", sent
            assert blow is not None
            sent, strike = time.monotonic(), None
            os.kill(pid, blow.number)
            continue
        if not (part := os.read(reading, 65536)):
            return heard, sent
        heard += part


def _child(
    body: Callable[[], int],
    folder: Path,
    blow: Blow | None,
    prepare: Callable[[], None] | None,
    stderr: int,
    writing: int,
) -> None:
    """Never returns."""
    code = 99
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        os.dup2(stderr, 2)
        sys.stdout, sys.stderr = (open(k, "w", closefd=False, encoding="utf-8") for k in (1, 2))  # noqa: SIM115
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.chdir(folder)
        tempfile.tempdir = str(folder / TEMPORARY)
        from identifiable._stopping import end_on_signals

        end_on_signals()
        threadpool_limits(os.cpu_count(), user_api="openmp")  # the parent has one, see ONE_THREAD
        if prepare is not None:
            prepare()
        sys.addaudithook(partial(_heed, _Count(str(folder / OUT), writing, blow)))
        if blow is not None and blow.size is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (blow.size, blow.size))
        os.write(writing, f"ready {time.monotonic()}\n".encode())
        code = body()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os.write(writing, f"end {time.monotonic()}\n".encode())
        os._exit(code)


@dataclass
class _Count:
    out: str
    writing: int
    blow: Blow | None
    steps: int = 0


def _heed(count: _Count, event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: tell the parent each step, and strike at the one that was chosen."""
    if event not in STEPS or (event == "open" and not (isinstance(arguments[2], int) and arguments[2] & WRITES)):
        return
    names = [os.fsdecode(arguments[k]) for k in STEPS[event] if isinstance(arguments[k], str | bytes | os.PathLike)]
    if not any(os.path.abspath(name).startswith(count.out) for name in names):
        return
    count.steps += 1
    os.write(count.writing, f"{event} {' '.join(map(os.path.basename, names))}\n".encode())
    if count.blow is not None and count.steps == count.blow.step:
        os.write(count.writing, f"sent {time.monotonic()}\n".encode())
        os.kill(os.getpid(), count.blow.number)
        time.sleep(REST)
