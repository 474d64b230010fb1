"""Stop commands at random moments, and see that each ends as docs/interrupting.md promises.

    python scripts/signals.py                         # 200 signals; 45 minutes on two cores with a load of 10
    python scripts/signals.py --signals 20 --seed 1

Each command first runs to its end, twice. Then Ctrl-C and SIGTERM come in turn, at moments drawn uniformly over the shorter of
the two times, start and end included. A run that has ended before its signal has tried nothing: it is not counted, and another
one is drawn. A run has a fault if it ends later than a second after the signal, with a code other than 130 or 143 (or 0, if it
came to its end first), with a traceback, with a temporary file left, with an output that is neither the old one nor a whole new
one, or with some of its outputs new and others old. The kept parts of `deconfound evaluate` serve all runs of it; at the end one
more run must go on from them to the result of the first.

Before the first line of this package runs Python itself is starting, some 30 ms, and after the last one it is closing down: a
signal there is Python's. It ends the process by that signal, for which a shell says 130 or 143 too; in the start Ctrl-C can show
Python's traceback. Such runs are counted apart ("Python"). What tells them: nothing catches SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

LIMIT = 1.0  # seconds from the signal to the end
GIVE_UP = 60.0  # seconds until a run that does not end is killed
OLD = b"old"
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
CHECKPOINT = "kept"
TEMPORARY = "tmp"


@dataclass(frozen=True)
class Command:
    """The words of a command, and the files it writes."""

    words: Sequence[str]
    outputs: Sequence[str] = ()

    @property
    def name(self) -> str:
        part = f" {self.words[1]}" if self.words[0] == "deconfound" else ""
        return f"{self.words[0]}{part}{f' to {Path(self.outputs[0]).suffix}' if self.outputs else ''}"


COMMANDS = (
    Command(["demo"]),
    Command(["compare", "a.npy", "b.npy", "--json", "r.json", "--report", "r.html"], ["r.json", "r.html"]),
    Command(["resolve", "a.npy", "-o", "new.safetensors", "--json", "r.json"], ["new.safetensors", "r.json"]),
    Command(["transform", "basis.safetensors", "tall.npy", "-o", "z.npy"], ["z.npy"]),
    Command(["transform", "basis.safetensors", "tall.npy", "-o", "z.parquet"], ["z.parquet"]),
    Command(["transform", "basis.safetensors", "tall.npy", "-o", "z.h5ad"], ["z.h5ad"]),
    Command(
        ["disentangle", "codes.npy", "factors.npy", "--metrics", "infomec,mig,dci", "--json", "r.json"], ["r.json"]
    ),
    Command(["deconfound", "audit", "cells.parquet", "--permutations", "20", "--json", "r.json"], ["r.json"]),
    Command(
        "deconfound evaluate cells.parquet --level target --min-wells 5 --max-targets 2 --rotations 2 --bootstrap 50 "
        f"--checkpoint {CHECKPOINT} --json r.json".split(),
        ["r.json"],
    ),
)


@dataclass(frozen=True)
class Strike:
    """One run that was stopped, and what was wrong with it."""

    command: str
    signal: signal.Signals
    moment: float
    seconds: float
    code: int
    outside: bool  # Python was starting or closing down
    late: bool  # the process had ended before the signal, which so tried nothing
    faults: Sequence[str] = field(default=())


def make_inputs(folder: Path, rows: int = 400_000) -> None:
    """The tables that the commands read."""
    from identifiable.api import resolve, save_basis
    from identifiable.api.simulating import simulate_cells

    rng = np.random.default_rng(0)
    sources = rng.laplace(size=(20_000, 12))
    for name in "ab":
        np.save(folder / f"{name}.npy", (sources @ rng.standard_normal((12, 12))).astype(np.float32))
    tall = rng.laplace(size=(rows, 12)).astype(np.float32)
    np.save(folder / "tall.npy", tall)
    save_basis(folder / "basis.safetensors", resolve(tall[:5000], stability=0))
    factors = rng.integers(0, 5, size=(2000, 3))
    np.save(folder / "factors.npy", factors)
    np.save(folder / "codes.npy", factors @ rng.standard_normal((3, 5)) + 0.1 * rng.standard_normal((2000, 5)))
    simulate_cells(folder / "cells.parquet", "tiny")


def start(command: Command, folder: Path, stderr: Any) -> subprocess.Popen[bytes]:
    """The command as a process that heeds Ctrl-C, which what a shell puts in the background does not."""
    (folder / TEMPORARY).mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "identifiable", *command.words],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / TEMPORARY)},
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def run_whole(command: Command, folder: Path) -> float:
    """Seconds of the command from start to end."""
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as stderr:
        process = start(command, folder, stderr)
        try:
            code = process.wait(600)
        finally:
            process.kill()
            process.wait()
        stderr.seek(0)
        if code != 0:
            raise SystemExit(f"{command.name}: exit code {code} without a signal: {stderr.read().decode()[-500:]}")
    return time.perf_counter() - begun


def strike(
    command: Command, folder: Path, number: signal.Signals, moment: float, ready: Callable[[], bool] = lambda: True
) -> Strike:
    """Start the command, send the signal after `moment` seconds, once `ready()` holds, and look at what it leaves."""
    for name in command.outputs:
        (folder / name).write_bytes(OLD)
    before = {TEMPORARY, *files(folder)}
    with tempfile.TemporaryFile() as stderr:
        process = start(command, folder, stderr)
        try:
            time.sleep(moment)
            deadline = time.perf_counter() + GIVE_UP
            while not ready() and process.poll() is None and time.perf_counter() < deadline:
                time.sleep(0.002)
            ours = process.poll() is None and catches_sigterm(process.pid)
            done = process.poll() is not None
            sent = time.perf_counter()
            process.send_signal(number)
            try:
                process.wait(GIVE_UP)
            except subprocess.TimeoutExpired:
                process.kill()
            code = process.wait()
            seconds = time.perf_counter() - sent
        finally:
            process.kill()
            process.wait()
        stderr.seek(0)
        said = stderr.read().decode(errors="replace")
    if code == -number and all((folder / name).read_bytes() != OLD for name in command.outputs):
        ours = False  # Python closed down between the look and the signal
    outside = not (ours or done)
    faults = []
    if seconds > LIMIT:
        faults.append(f"{seconds:.2f} s")
    if not outside:
        if code not in ({0} if done else {0, CODES[number]}):
            faults.append(f"exit code {code}")
        if "Traceback" in said:
            faults.append(f"traceback: {said[-2000:]}")
        if code == CODES[number] and said.count("identifiable: ") != 1:
            faults.append(f"said {said[-300:]!r}")
    left = [name for name in files(folder) if name not in before and not kept_part(name)]
    if left:
        faults.append(f"left {', '.join(sorted(left))}")
    faults += damage(command, folder, code)
    return Strike(command.name, number, moment, seconds, code, outside, done, faults)


def catches_sigterm(pid: int) -> bool:
    """Whether the process has a handler for SIGTERM: Python has none by itself."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = int(next(line for line in status.splitlines() if line.startswith("SigCgt")).split()[1], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def files(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*")]


def forget_parts(folder: Path) -> None:
    """Delete the finished parts of an evaluation."""
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)


def kept_part(name: str) -> bool:
    """Whether a file is a finished part of an evaluation."""
    return name == CHECKPOINT or (name.startswith(f"{CHECKPOINT}/") and not name.endswith(".part"))


def damage(command: Command, folder: Path, code: int) -> list[str]:
    """What is wrong with the outputs: each is the old one, or new and whole; all are old, or all new."""
    found = []
    new = [name for name in command.outputs if (folder / name).read_bytes() != OLD]
    if len(new) not in ((len(command.outputs),) if code == 0 else (0, len(command.outputs))):
        found.append(f"of {', '.join(command.outputs)} only {', '.join(new)} is new")
    for name in new:
        try:
            READERS[Path(name).suffix](folder / name)
        except Exception as error:  # whatever a reader says about a damaged file
            found.append(f"{name}: {error!r}")
    return found


def _read_page(path: Path) -> None:
    if not path.read_text().rstrip().endswith("</html>"):
        raise ValueError("it has no end")


def _read_rows(path: Path) -> None:
    from identifiable.intake import blocks_of
    from identifiable.io import open_representation

    for block in blocks_of(open_representation(path)):
        if not np.isfinite(block).all():
            raise ValueError("it has no rows somewhere")


def _read_result(path: Path) -> None:
    from identifiable.api import load

    load(path)


def _read_basis(path: Path) -> None:
    from identifiable.api import load_basis

    load_basis(path)


READERS: dict[str, Callable[[Path], None]] = {
    ".json": _read_result,
    ".html": _read_page,
    ".safetensors": _read_basis,
    ".npy": _read_rows,
    ".parquet": _read_rows,
    ".h5ad": _read_rows,
}


def result_of(path: Path) -> Any:
    """A saved result without what differs between equal runs."""
    fields = json.loads(path.read_text())
    return {name: value for name, value in fields.items() if name not in ("provenance", "times")}


def table(strikes: Sequence[Strike]) -> str:
    """A line for every command, and one for all."""
    lines = [f"{'command':<30} signals  done Python  seconds to the end: median  q95    max   faults"]
    names = dict.fromkeys(s.command for s in strikes)
    for name in [*names, "all"]:
        some = [s for s in strikes if name in (s.command, "all")]
        seconds = [s.seconds for s in some]
        q50, q95, most = np.quantile(seconds, [0.5, 0.95, 1.0])
        done, outside, faults = (
            sum(map(bool, of)) for of in zip(*((s.code == 0, s.outside, s.faults) for s in some), strict=True)
        )
        lines.append(f"{name:<30} {len(some):7} {done:5} {outside:6} {q50:27.3f} {q95:6.3f} {most:6.3f} {faults:7}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--signals", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_inputs(folder)
        lengths = []
        for command in COMMANDS:  # twice: the first of all compiles what numba keeps
            seconds = []
            for _ in range(2):
                forget_parts(folder)
                seconds.append(run_whole(command, folder))
            lengths.append(min(seconds))
        first = result_of(folder / "r.json")  # of `deconfound evaluate`, which is last
        forget_parts(folder)
        strikes: list[Strike] = []
        late = 0
        while len(strikes) < options.signals:
            k = len(strikes)
            command, length = COMMANDS[k % len(COMMANDS)], lengths[k % len(COMMANDS)]
            number = list(CODES)[k // len(COMMANDS) % 2]
            found = strike(command, folder, number, float(rng.uniform(0, length)))
            if found.faults:
                print(f"{command.name}, {number.name} at {found.moment:.3f} s: {'; '.join(found.faults)}", flush=True)
            if found.late and not found.faults:
                late += 1
            else:
                strikes.append(found)
        run_whole(COMMANDS[-1], folder)
        resumed = result_of(folder / "r.json") == first
    load = f", load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(
        f"seed {options.seed}, {os.cpu_count()} cores{load}; {late} more had ended before the signal\n{table(strikes)}"
    )
    print(f"the evaluation that was stopped {'goes on to the same result' if resumed else 'ENDS IN ANOTHER RESULT'}")
    return int(any(s.faults for s in strikes) or not resumed)


if __name__ == "__main__":
    sys.exit(main())
