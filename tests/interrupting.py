"""Commands that are stopped by Ctrl-C once they are at work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs /proc to see when the work begins")


def _heed_interrupts():
    """A shell starts what it puts in the background, such as these tests, deaf to Ctrl-C, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupted(words, ready):
    """Start a command, send Ctrl-C once `ready()` holds, and return its exit code and stderr."""
    command = [sys.executable, "-m", "identifiable", *words]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_interrupts
    ) as process:
        deadline = time.monotonic() + 60
        while not ready(process.pid) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    return process.returncode, err


def reads(name):
    """Whether a process has `name` open or mapped: then it is at work, past its imports."""

    def ready(pid):
        try:
            return name in Path(f"/proc/{pid}/maps").read_text() or any(
                os.path.basename(os.readlink(link)) == name for link in Path(f"/proc/{pid}/fd").iterdir()
            )
        except OSError:
            return False

    return ready
