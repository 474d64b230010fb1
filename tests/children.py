"""Processes that tests start: every one ends, or is killed with all it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

SECONDS = 200  # for a child; less than a test has (pyproject.toml), so that the test can say which child it was
SOURCE = Path(__file__).resolve().parents[1] / "src"

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs /proc to see when the work begins")


def _heed_interrupts() -> None:
    """A shell starts what it puts in the background, such as these tests, deaf to Ctrl-C, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def child(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process with `identifiable` on its path; it and what it has started are gone when the block ends, however it ends."""
    path = os.pathsep.join(filter(None, (str(SOURCE), os.environ.get("PYTHONPATH"))))
    options = {"env": {**os.environ, "PYTHONPATH": path}, "preexec_fn": _heed_interrupts, **options}
    process = subprocess.Popen(command, text=True, start_new_session=True, **options)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()
        process.wait()


def run(command: Sequence[str], seconds: float = SECONDS, **options: Any) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` with a time limit and its output captured; with a limit it kills only the first process."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with child(command, **options) as process:
        out, err = process.communicate(timeout=seconds)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def interrupted(
    words: Sequence[str], ready: Callable[[int], bool], number: signal.Signals = signal.SIGINT
) -> tuple[int, str]:
    """Start a command, send it a signal once `ready(pid)` holds, and return its exit code and stderr."""
    command = [sys.executable, "-m", "identifiable", *words]
    with child(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not ready(process.pid) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    return process.returncode, err


def reads(name: str) -> Callable[[int], bool]:
    """Whether a process has `name` open or mapped: then it is at work, past its imports."""

    def ready(pid: int) -> bool:
        try:
            return name in Path(f"/proc/{pid}/maps").read_text() or any(
                os.path.basename(os.readlink(link)) == name for link in Path(f"/proc/{pid}/fd").iterdir()
            )
        except OSError:
            return False

    return ready
