"""Commands stopped while they write: SIGKILL, SIGINT and SIGTERM at every kind of moment.

Each command runs to its end twice, in forks of this process (`forks`), the second time over old files, as every run that is stopped:
both write the same, apart from times. Then come the blows, a third of them each signal: half at steps, the first two, at which a part
file appears, and the last two among them; the others at random moments and, SIGKILL, in the middle of a file. One that comes when the
command has ended tries nothing and is drawn again. A promise is broken if

- an output is neither the old file nor the new one, whole; after SIGINT and SIGTERM also if some are old and some are new;
- SIGINT or SIGTERM leaves a file, does not end with 130 or 143 (0 if the work was done first) and one line, or takes longer than a
  second, times the load of each core where that is above 1;
- SIGKILL leaves anything but part files, or the next run neither removes nor names those;
- a run that goes on after SIGKILL does not write what an uninterrupted one does, or does again what was kept.

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
from hardening.commands import OUT, WORK, WRITERS, clear, content, make_inputs, warm

BLOWS = 8  # of each signal, for each command
DRAWS = 4  # times as many until so many have met a command at work
RESUMED = 10  # moments at which a command with a checkpoint is killed
STARTS = 24  # processes stopped from their start
UNKEPT = 3  # batches that a model is shown without their being noted: two that tell the widths, one at work
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
    steps: Sequence[str]  # over old files
    fresh: Sequence[str]  # into an empty folder
    shown: int  # batches, to a model
    seconds: float  # of the command itself

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
    """Two whole runs, the second over old files; None if they do not end well."""
    made: list[tuple[forks.Ended, dict[str, Any]]] = []
    for _ in range(2):
        if made:
            _put_old(folder / OUT, made[0][1])
        (folder / WORK).unlink(missing_ok=True)
        ended = forks.run(body, folder)
        if ended.code != 0:
            equal.count(f"exit code {ended.code}: {ended.said[-300:]}")
            return None
        made.append((ended, contents(folder / OUT, kept)))
        clear(folder / OUT)
    (one, first), (other, second) = made
    different = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    equal.count(f"differ: {', '.join(different)}" if different else None)
    return Reference(
        body, folder, kept, growing, first, other.steps, one.steps, _shown(folder), min(one.work, other.work)
    )


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
        met = 0
        for blow in blows(whole, number, tries, rng):
            before = set_out(whole)
            ended = forks.run(whole.body, whole.folder, blow)
            faults = judge(whole, before, ended, number)
            if not (ended.struck or faults):
                continue
            met += 1
            found.count(f"{blow}: {'; '.join(faults)}" if faults else None)
            if ended.delay is not None and number != signal.SIGKILL:
                delays.append(ended.delay)
            if number == signal.SIGKILL and looked < STALE and parts(whole.out):
                looked += 1
                stale.count(_stale(name, blow, whole))
            if met == tries:
                break
    slowest = max(delays, default=math.nan)
    found.note = f"slowest end {slowest:.2f} s of {len(delays)}"
    clear(whole.out)
    return found


def blows(whole: Reference, number: signal.Signals, tries: int, rng: np.random.Generator) -> Iterator[forks.Blow]:
    """Half of them at steps: the first two, the last two, and some between; then sizes for SIGKILL, and random moments.

    More than so many, for those that come too late; at the end some that never do.
    """
    last = len(whole.steps)
    ends = sorted({1, 2, last - 1, last} & {*range(1, last + 1)})
    between = rng.permutation(np.arange(3, last - 1))[: max(tries // 2 - len(ends), 1)].tolist()
    steps = [*rng.permutation(ends).tolist(), *between][:tries]
    yield from (forks.Blow(number, step=int(k)) for k in steps)
    if number == signal.SIGKILL:
        largest = max(map(_size, whole.files.values()))
        sizes = rng.integers(1, max(largest, 2), (tries - len(steps)) // 2)
        yield from (forks.Blow(number, size=int(k)) for k in sizes)
    for moment in rng.uniform(0, whole.seconds, DRAWS * tries):
        yield forks.Blow(number, seconds=float(moment))
    yield from (forks.Blow(number, step=int(k)) for k in rng.integers(1, last + 1, tries))


def _size(made: Any) -> int:
    return max(map(len, made.values())) if isinstance(made, dict) else len(made)


def set_out(whole: Reference) -> dict[str, bytes]:
    """An old file in the place of each output; in place of a folder nothing."""
    clear(whole.out)
    return _put_old(whole.out, whole.files)


def _put_old(out: Path, files: Contents) -> dict[str, bytes]:
    before = {name: OLD for name in files if "/" not in name}
    for name, text in before.items():
        (out / name).write_bytes(text)
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
    """A command with a checkpoint, killed at so many moments, each time followed by a run to its end; then killed so often in a row.

    The first moment is when all is kept and no output has its name. A run that goes on may write only what was not kept, and show the
    model only batches that were not done.
    """
    found = Check("kills", f"{name}: goes on")
    names = {step.split()[-1]: k for k, step in reversed([*enumerate(whole.fresh, 1)]) if step.startswith("os.rename")}
    late = min(k for file, k in names.items() if file in whole.files)
    moments = [forks.Blow(signal.SIGKILL, step=late)]
    for k in range(DRAWS * tries):
        step, seconds = int(rng.integers(1, len(whole.fresh) + 1)), float(rng.uniform(0, whole.seconds))
        moments.append(forks.Blow(signal.SIGKILL, step=step) if k % 2 else forks.Blow(signal.SIGKILL, seconds=seconds))
    met: list[forks.Blow] = []
    for blow in moments:
        if len(met) == tries:
            break
        fault, struck = _went_on(whole, [blow])
        if struck or fault:
            met.append(blow)
            found.count(fault)
    found.count(_went_on(whole, met)[0])
    clear(whole.out)
    return found


def _went_on(whole: Reference, several: Sequence[forks.Blow]) -> tuple[str | None, bool]:
    """What is wrong with a run after such kills, and whether the last of them met a command at work."""
    clear(whole.out)
    shown, last = 0, None
    for blow in several:
        (whole.folder / WORK).unlink(missing_ok=True)
        last = forks.run(whole.body, whole.folder, blow)
        shown += max(_shown(whole.folder) - UNKEPT, 0)
        shown = shown if (whole.out / str(whole.kept)).exists() else 0
    held = _held(whole)
    (whole.folder / WORK).unlink(missing_ok=True)
    ended = forks.run(whole.body, whole.folder)
    made = {n: c for n, c in contents(whole.out, whole.kept).items() if not n.endswith(PART)}
    different = [n for n in {**made, **whole.files} if made.get(n) != whole.files.get(n)]
    faults = [f"exit code {ended.code}: {ended.said[-300:]}"] if ended.code else []
    faults += [f"differ: {', '.join(different)}"] if different and not ended.code else []
    written, most = _renames(ended.steps), _renames(whole.fresh) - held
    faults += [f"wrote {written} files, of which {most} were not kept"] if written > most else []
    again, most = _shown(whole.folder), whole.shown - shown
    faults += [f"showed the model {again} batches, of which {most} were not kept"] if again > most else []
    struck = last is not None and last.struck
    return (f"{', '.join(map(str, several))}: {'; '.join(faults)}" if faults else None), struck


def _held(whole: Reference) -> int:
    """Whole files in the folder that a command goes on from."""
    folder = whole.out / str(whole.kept)
    return sum(path.is_file() and PART not in path.name for path in folder.rglob("*")) if folder.is_dir() else 0


def _renames(steps: Sequence[str]) -> int:
    return sum(step.startswith("os.rename") for step in steps)


def _shown(folder: Path) -> int:
    """Batches that the model of a command was shown, since WORK was deleted."""
    work = folder / WORK
    return work.stat().st_size if work.exists() else 0


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
    tries = setting.of(STARTS)
    for _ in range(DRAWS * tries):
        k = found.tried
        if k == tries:
            break
        which = k % len(commands)
        number = list(signals.CODES)[k // len(commands) % 2]
        one = signals.strike(commands[which], folder, number, float(rng.uniform(0, lengths[which])))
        faults = [fault for fault in one.faults if fault != f"{one.seconds:.2f} s" or one.seconds > limit()]
        if one.late and not faults:
            continue
        found.count(f"{one.command}, {number.name} at {one.moment:.2f} s: {'; '.join(faults)}" if faults else None)
        seconds.append(one.seconds)
    found.note = f"slowest end {max(seconds, default=math.nan):.2f} s"
    return found
