"""Commands stopped while they write: SIGKILL, SIGINT and SIGTERM at every kind of moment.

Each command runs to its end twice, in forks of this process (`forks`): both write the same, apart from times. Then come the blows, a
third of them each signal: half at steps, from the first at which a part file appears to the last rename; the others at random moments
and, SIGKILL, in the middle of a file. A promise is broken if

- an output is neither the old file nor the new one, whole; after SIGINT and SIGTERM also if some are old and some are new;
- SIGINT or SIGTERM leaves a file, does not end with 130 or 143 (0 if the work was done first) and one line, or takes longer than a
  second, times the load of each core where that is above 1;
- SIGKILL leaves anything but part files, or the next run neither removes nor names those;
- a run that goes on after SIGKILL does not write what an uninterrupted one does.

Some commands are also stopped from their very start, imports included, by `scripts/signals.py`.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import signals

from hardening import forks
from hardening.checks import Check, Setting
from hardening.commands import OUT, WRITERS, clear, content, make_inputs, warm

BLOWS = 7  # of each signal, for each command
RESUMED = 10  # moments at which a command with a checkpoint is killed
STARTS = 24  # processes stopped from their start
STALE = 4  # kills of each command after which the next run is looked at
NUMBERS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
OLD = b"old"
PART = ".part"
Contents = Mapping[str, Any]


@dataclass(frozen=True)
class Reference:
    """What an uninterrupted run writes, and how."""

    body: Callable[[], int]
    folder: Path
    kept: str | None
    growing: bool
    files: Contents
    steps: Sequence[str]
    seconds: float

    @property
    def out(self) -> Path:
        return self.folder / OUT


def checks(setting: Setting) -> Iterator[Check]:
    folder = setting.folder / "in"
    make_inputs(folder)
    rng = np.random.default_rng(setting.seed)
    stale = Check("kills", "the next run removes or names part files")
    equal = Check("kills", "two uninterrupted runs write the same")
    for writer in WRITERS:
        warm(writer.words, folder)
        whole = reference(forks.command(writer), folder, writer.kept, writer.growing, equal)
        if whole is None:
            continue
        yield struck(writer.name, whole, rng, setting.of(BLOWS), stale)
        if writer.kept is not None:
            yield resumed(writer.name, whole, rng, setting.of(RESUMED))
    yield equal
    yield stale
    yield from_the_start(setting, folder, rng)


def reference(body: Callable[[], int], folder: Path, kept: str | None, growing: bool, equal: Check) -> Reference | None:
    """Two whole runs; None if they do not end well."""
    made = []
    for _ in range(2):
        ended = forks.run(body, folder)
        if ended.code != 0:
            equal.count(f"exit code {ended.code}: {ended.said[-300:]}")
            return None
        made.append((ended, contents(folder / OUT, kept)))
        clear(folder / OUT)
    (one, first), (other, second) = made
    different = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    equal.count(f"differ: {', '.join(different)}" if different else None)
    return Reference(body, folder, kept, growing, first, one.steps, min(one.seconds, other.seconds))


def contents(out: Path, but: str | None = None) -> dict[str, Any]:
    """The content of every file under a folder by its name there."""
    files = {str(path.relative_to(out)): path for path in sorted(out.rglob("*")) if path.is_file()}
    return {name: content(path) for name, path in files.items() if but is None or name.split("/")[0] != but}


def struck(name: str, whole: Reference, rng: np.random.Generator, tries: int, stale: Check) -> Check:
    """A command under all three signals."""
    found = Check("kills", name)
    delays: list[float] = []
    looked = 0
    for number in NUMBERS:
        for blow in blows(whole, number, tries, rng):
            before = set_out(whole)
            ended = forks.run(whole.body, whole.folder, blow)
            faults = judge(whole, before, ended, number)
            found.count(f"{blow}: {'; '.join(faults)}" if faults else None)
            if ended.delay is not None and number != signal.SIGKILL:
                delays.append(ended.delay)
            if number == signal.SIGKILL and looked < STALE and parts(whole.out):
                looked += 1
                stale.count(_stale(name, blow, whole))
    slowest = max(delays, default=math.nan)
    found.note = f"slowest end {slowest:.2f} s of {len(delays)}"
    clear(whole.out)
    return found


def blows(whole: Reference, number: signal.Signals, tries: int, rng: np.random.Generator) -> list[forks.Blow]:
    """Half of them at steps: the first two, the last two, and some between; then random moments, and sizes for SIGKILL."""
    last = len(whole.steps)
    steps = sorted({*range(1, last + 1)} & {1, 2, last - 1, last, *rng.integers(1, last + 1, tries).tolist()})
    chosen = rng.permutation(steps)[: tries // 2].tolist() if len(steps) > tries // 2 else steps
    made = [forks.Blow(number, step=int(k)) for k in chosen]
    if number == signal.SIGKILL:
        largest = max(map(_size, whole.files.values()))
        made += [forks.Blow(number, size=int(k)) for k in rng.integers(1, max(largest, 2), (tries - len(made)) // 2)]
    return made + [forks.Blow(number, seconds=s) for s in rng.uniform(0, whole.seconds, tries - len(made))]


def _size(made: Any) -> int:
    return max(map(len, made.values())) if isinstance(made, dict) else len(made)


def set_out(whole: Reference) -> dict[str, bytes]:
    """An old file in the place of each output; in place of a folder nothing."""
    clear(whole.out)
    before = {name: OLD for name in whole.files if "/" not in name}
    for name, text in before.items():
        (whole.out / name).write_bytes(text)
    return before


def judge(whole: Reference, before: Mapping[str, bytes], ended: forks.Ended, number: signal.Signals) -> list[str]:
    """What is wrong with a run that a signal was sent to."""
    killed = number == signal.SIGKILL
    faults = [] if killed else _manners(ended, number)
    if killed and ended.code not in (-signal.SIGKILL, -signal.SIGXFSZ, 0):
        faults.append(f"exit code {ended.code}: {ended.said[-300:]}")
    found = contents(whole.out, whole.kept)
    left = [name for name in (*found, *_folders(whole.out)) if name not in whole.files and not _expected(name, whole)]
    left += [f"{forks.TEMPORARY}/{path.name}" for path in (whole.folder / forks.TEMPORARY).iterdir()]
    left = [name for name in left if not (killed and PART in name)]
    left += [] if killed else parts(whole.out)
    if left:
        faults.append(f"left {', '.join(sorted(set(left)))}")
    new = [name for name, made in whole.files.items() if found.get(name) == made]
    old = [name for name in whole.files if found.get(name) == before.get(name)]
    damaged = [name for name in whole.files if name not in new and name not in old]
    if damaged:
        faults.append(f"damaged {', '.join(damaged)}")
    folders = {name.split("/")[0] for name in whole.files if "/" in name}
    mixed = bool(new) and len(new) < len(whole.files)
    torn = [one for one in folders if len({name in new for name in whole.files if name.startswith(f"{one}/")}) > 1]
    if (mixed and not killed) or (torn and not whole.growing):
        faults.append(f"new only {', '.join(new)}")
    if ended.code == 0 and len(new) < len(whole.files):
        faults.append("exit code 0 without all outputs")
    return faults


def _manners(ended: forks.Ended, number: signal.Signals) -> list[str]:
    """How a command ends on Ctrl-C and SIGTERM."""
    faults = []
    if ended.code not in (128 + number, 0):
        faults.append(f"exit code {ended.code}")
    own = [line for line in ended.said.splitlines() if line.startswith("identifiable: ")]
    if "Traceback" in ended.said or (ended.code == 128 + number and len(own) != 1):
        faults.append(f"said {ended.said[-300:]!r}")
    if ended.delay is not None and ended.delay > limit():
        faults.append(f"{ended.delay:.2f} s")
    return faults


def limit() -> float:
    """Seconds to the end: one of a core of our own."""
    return signals.LIMIT * max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0)


def _folders(out: Path) -> list[str]:
    return [str(path.relative_to(out)) for path in out.rglob("*") if path.is_dir()]


def _expected(name: str, whole: Reference) -> bool:
    """Whether a run may leave it: what it goes on from, and folders of outputs."""
    return name.split("/")[0] == whole.kept or any(each.startswith(f"{name}/") for each in whole.files)


def parts(out: Path) -> list[str]:
    return [str(path.relative_to(out)) for path in out.rglob(f"*{PART}")]


def _stale(name: str, blow: forks.Blow, whole: Reference) -> str | None:
    """What the next run does with the part files that a killed one has left."""
    for file in [
        path for path in whole.out.iterdir() if path.is_dir() and path.name != whole.kept and PART not in path.name
    ]:
        if not whole.growing:
            return f"{name}, {blow}: {file.name} is there"
    left = parts(whole.out)
    again = forks.run(whole.body, whole.folder)
    silent = [part for part in left if (whole.out / part).exists() and Path(part).name not in again.said]
    return f"{name}, {blow}: {', '.join(silent)}" if silent else None


def resumed(name: str, whole: Reference, rng: np.random.Generator, tries: int) -> Check:
    """A command with a checkpoint, killed at so many moments, each time followed by a run to its end; then killed so often in a row."""
    found = Check("kills", f"{name}: goes on")
    moments = [
        forks.Blow(signal.SIGKILL, step=int(rng.integers(1, len(whole.steps) + 1)))
        if k % 2
        else forks.Blow(signal.SIGKILL, seconds=float(rng.uniform(0, whole.seconds)))
        for k in range(tries)
    ]
    for several in [*([blow] for blow in moments), moments]:
        clear(whole.out)
        for blow in several:
            forks.run(whole.body, whole.folder, blow)
        ended = forks.run(whole.body, whole.folder)
        made = {n: c for n, c in contents(whole.out, whole.kept).items() if not n.endswith(PART)}
        different = [n for n in {**made, **whole.files} if made.get(n) != whole.files.get(n)]
        fault = f"exit code {ended.code}: {ended.said[-300:]}" if ended.code else f"differ: {', '.join(different)}"
        found.count(f"{', '.join(map(str, several))}: {fault}" if ended.code or different else None)
    clear(whole.out)
    return found


FROM_THE_START = (
    ("compare a.npy b.npy --nulls none --json r.json", ("r.json",)),
    ("transform basis.safetensors tall.npy -o z.parquet", ("z.parquet",)),
    ("deconfound audit cells.parquet --permutations 20 --json r.json", ("r.json",)),
)


def from_the_start(setting: Setting, folder: Path, rng: np.random.Generator) -> Check:
    """Processes that a signal meets anywhere between their first import and their end."""
    found = Check("kills", "processes from their start")
    commands = [signals.Command(call.split(), outputs) for call, outputs in FROM_THE_START]
    lengths = [signals.run_whole(command, folder) for command in commands]
    seconds = []
    for k in range(setting.of(STARTS)):
        which = k % len(commands)
        number = list(signals.CODES)[k // len(commands) % 2]
        one = signals.strike(commands[which], folder, number, float(rng.uniform(0, lengths[which])))
        faults = [fault for fault in one.faults if fault != f"{one.seconds:.2f} s" or one.seconds > limit()]
        found.count(f"{one.command}, {number.name} at {one.moment:.2f} s: {'; '.join(faults)}" if faults else None)
        seconds.append(one.seconds)
    found.note = f"slowest end {max(seconds):.2f} s"
    return found
