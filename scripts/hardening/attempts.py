"""Attempts in a forked child: what each raises, prints, runs, and costs. A crash ends one attempt and not the suite."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from hardening.checks import Check
from identifiable import DataWarning, IdentifiableError

SECONDS, BYTES = (
    5.0,
    500 * 2**20,
)  # by the processor and by the clock, and of memory: the promise of issue 25 for files below 100 MB
CPU_SECONDS = 12  # then the attempt is ended
PREPARING_SECONDS = 300  # to make the next one
WALL_SECONDS = 300  # an attempt that waits for something is ended too
ADDRESS_BYTES = 8 * 2**30  # so that an attempt cannot fill the machine
LONGEST = 900  # characters of an error, its paths included; the one that names every schema has 790
PAGE = resource.getpagesize()
RUNS_CODE = ("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect")


@dataclass(frozen=True)
class Attempt:
    """What is tried, how (in words that lead back to it), and what is wrong with what it returns, if anything."""

    what: str
    run: Callable[[], Any]
    judge: Callable[[Any], str | None] = lambda found: None


Prepare = Callable[[int], Attempt]


def attempted(
    check: Check, prepare: Prepare, count: int, folder: Path, *, seconds: float = SECONDS, most: float = BYTES
) -> Check:
    """Count attempts 0 … `count` of `prepare`. `folder` is theirs: a file that is opened for writing elsewhere is a fault.

    The note of the check has the slowest one and the one that took most memory.
    """
    folder.mkdir(parents=True, exist_ok=True)
    slowest, largest, first = 0.0, 0, 0
    seen: set[str] = set()
    while first < count:
        for index, record in _repeated(prepare, first, count, folder):
            faults = [record["fault"]] if record["fault"] else []
            if record["seconds"] > seconds:
                faults.append(f"{record['seconds']:.1f} s")
            elif record["waited"] > seconds:
                faults.append(f"{record['waited']:.1f} s by the clock")
            faults += [f"{record['bytes'] / 2**20:.0f} MB"] if record["bytes"] > most else []
            shown = len(check.examples)
            check.count(f"{record['what']}: {'; '.join(faults)}" if faults else None)
            named = record["what"].partition("#")[0]  # attempts that are numbered are many of one kind
            kind = named + re.sub(r"[^A-Za-z ]+", "", " ".join(faults).replace(str(folder), ""))[:40]
            if kind in seen:
                del check.examples[shown:]  # one of each kind tells more
            seen.add(kind)
            slowest, largest = max(slowest, record["seconds"]), max(largest, record["bytes"])
            first = index + 1
    check.note = f"at most {slowest:.2f} s and {largest / 2**20:.0f} MB"
    return check


def _repeated(prepare: Prepare, first: int, count: int, folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a child; an attempt that ended it by the limit on its time is made once more, alone.

    What is changed follows from the number of the attempt, so a file that is slow is slow again. A machine that stands still for some
    seconds is not: seeds 53 and 73 each had one checkpoint that took 12 s once, and a millisecond whenever it was tried again.
    """
    for index, record in _of_child(prepare, first, count, folder):
        if record.get("late"):
            yield from _of_child(prepare, index, index + 1, folder)
        else:
            yield index, record


def _of_child(prepare: Prepare, first: int, count: int, folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of attempts from `first` on, until one ends the child; that one has the reason as its fault."""
    ours, theirs = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(ours)
        try:
            with os.fdopen(theirs, "w") as pipe:
                _run(prepare, first, count, folder, pipe)
        finally:
            os._exit(0)
    os.close(theirs)
    index, what, hangs = first, "", False
    with os.fdopen(ours) as pipe:
        while True:
            if not _ready(pipe):
                os.kill(child, signal.SIGKILL)
                hangs = True
            line = pipe.readline()
            if not line.endswith("\n"):
                break
            record = json.loads(line)
            if "fault" in record:
                yield index, record
                index += 1
            what = record["what"]
    _, status = os.waitpid(child, 0)
    if index < count:
        ended = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status >> 8}"
        why = f"waits for more than {WALL_SECONDS} s" if hangs else f"the process ended ({ended})"
        late = hangs or ended == signal.SIGXCPU.name
        yield index, {"what": what, "fault": why, "seconds": 0.0, "waited": 0.0, "bytes": 0, "late": late}


def _ready(pipe: IO[str]) -> bool:
    return bool(select.select([pipe], [], [], WALL_SECONDS)[0])


def _run(prepare: Prepare, first: int, count: int, folder: Path, pipe: IO[str]) -> None:
    heard: list[str] = []
    printed = folder.with_name(f"{folder.name}.printed")
    descriptor = os.open(printed, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    tempfile.tempdir = str(folder)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * PAGE
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_BYTES, used + ADDRESS_BYTES))
    attempt = Attempt("", lambda: None)
    measured(attempt, heard)  # what is loaded at the first use is no fault
    sys.addaudithook(_hook(heard, str(folder)))
    for index in range(first, count):
        try:
            attempt = prepare(index)
        except Exception as error:
            attempt = Attempt(f"#{index}", partial(_raise, error))
        pipe.write(json.dumps({"what": attempt.what}) + "\n")
        pipe.flush()
        heard.clear()
        _allow(CPU_SECONDS)
        record = measured(attempt, heard)
        _allow(PREPARING_SECONDS)
        sys.stdout.flush()
        size = os.fstat(descriptor).st_size
        if size:
            text = os.pread(descriptor, 300, 0).decode(errors="replace")
            record["fault"] = record["fault"] or f"printed {text!r}"
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
        pipe.write(json.dumps(record) + "\n")
        pipe.flush()


def _raise(error: Exception) -> None:
    raise RuntimeError(f"the attempt itself cannot be made: {type(error).__name__}: {error}") from error


def measured(attempt: Attempt, heard: list[str] | None = None) -> dict[str, Any]:
    """One attempt in this process: its fault, processor seconds and the bytes by which memory grew meanwhile."""
    heard = [] if heard is None else heard
    before = _memory()
    began, since = time.process_time(), time.monotonic() - _queued()
    found, fault, refused = None, None, False
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = attempt.run()
            ended = time.process_time()
        except IdentifiableError as error:
            ended = time.process_time()
            fault, refused = wrong_with_message(str(error)), True
        except BaseException as error:  # libraries also panic, exit and interrupt
            ended = time.process_time()
            fault = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    waited = time.monotonic() - _queued() - since
    grown = _memory(peak=True) - before
    foreign = [each for each in warned if not issubclass(each.category, DataWarning)]
    if fault is None:
        fault = None if refused else _judged(attempt, found)
    if fault is None and foreign:
        fault = f"warned {foreign[0].category.__name__}: {' '.join(str(foreign[0].message).split())[:200]}"
    if heard:
        fault = f"ran or wrote {heard[0]}"
    return {"what": attempt.what, "fault": fault, "seconds": ended - began, "waited": waited, "bytes": max(grown, 0)}


def _judged(attempt: Attempt, found: Any) -> str | None:
    """What is wrong with a result; what the judge itself warns of does not matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return attempt.judge(found)
        except Exception as error:
            return f"its judge raised {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def wrong_with_message(text: str) -> str | None:
    """Why an error is not one line that can be shown on a terminal; None if it is."""
    if not text.strip():
        return "an error without a message"
    if len(text) > LONGEST:
        return f"an error of {len(text)} characters: {text[:200]!r}"
    hidden = [character for character in text if not (character.isprintable() or character == "\u202f")]
    return f"an error with {hidden[0]!r} in it: {text[:200]!r}" if hidden else None


def _memory(*, peak: bool = False) -> int:
    """Bytes of this process; at the `peak` since the last call without it, where the system can tell."""
    if peak:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * PAGE


def _queued() -> float:
    """Seconds in which this process was ready and no core was free: no fault of what is tried; 0 where the system does not tell."""
    with suppress(OSError), open("/proc/self/schedstat") as file:
        return int(file.read().split()[1]) / 1e9
    return 0.0


def _allow(seconds: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + seconds, hard))


def _is_numba() -> bool:
    """Whether numba is at work: it keeps what it compiled as pickles, in a folder of its own."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith("numba."):
            return True
    return False


def _hook(heard: list[str], folder: str) -> Callable[[str, tuple[Any, ...]], None]:
    written = os.O_WRONLY | os.O_RDWR | os.O_CREAT

    def elsewhere(path: str) -> bool:
        return not path.startswith((folder, "/dev/", "/proc/self/")) and "__pycache__" not in path

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event in RUNS_CODE and not (event == "pickle.find_class" and _is_numba()):
            heard.append(f"{event} {given[:2]!r}"[:200])
        elif event == "open" and isinstance(given[0], str) and (given[2] or 0) & written and elsewhere(given[0]):
            heard.append(f"open for writing {given[0]!r}"[:200])

    return hook
