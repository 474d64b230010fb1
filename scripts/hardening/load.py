"""An hour of mixed commands in one process, and some in processes of their own: memory stays flat, nothing is left open or behind.

    python scripts/hardening --only load --output benchmarks/results/hardening_load.json

A round is every command that writes, in random order, with some that are refused between them. After each round the process is
measured: resident memory, objects of Python, descriptors, threads, temporary files. The first quarter of the rounds is not judged:
what is loaded at first use stays. Of the others a Theil-Sen line is drawn; it may rise by `RISE` from its first round to its last.
`RISE` was chosen before the hour was run: it is above what the allocator's scatter does to a line through a few dozen rounds, and 1 %
of 700 MB in 200 rounds is 35 kB a round, less than one page of HTML that is kept.
"""

from __future__ import annotations

import gc
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardening.checks import Check, Setting
from hardening.commands import OUT, WRITERS, called, clear, make_inputs

HOUR = 3600.0
RISE = 0.01
REFUSED = (  # a command, and its exit code
    ("compare absent.npy b.npy", 3),
    ("compare a.npy h1.npy --json out/r.json", 3),
    ("resolve factors.csv --rank 0", 2),
    ("transform map.safetensors few.npy -o nowhere/z.npy", 3),
    ("report a.npy -o out/p.html", 3),
    ("deconfound audit cells.parquet --plate nothing", 2),
    ("match h1.npy h2.npy --fail-if nothing<1", 2),
)
CHILDREN = 3  # commands of a round that also run in a process of their own


@dataclass(frozen=True)
class Sample:
    """What a process holds."""

    seconds: float
    megabytes: float
    objects: int
    descriptors: int
    threads: int


def sample(since: float) -> Sample:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return Sample(
        time.monotonic() - since,
        pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        len(gc.get_objects()),
        len(os.listdir("/proc/self/fd")),
        int(status["Threads"]),
    )


def rise(values: Sequence[float]) -> float:
    """By which share of its level a series rises, from a quarter of it to its end, along a Theil-Sen line."""
    kept = np.asarray(values, float)[len(values) // 4 :]
    if len(kept) < 2:
        return 0.0
    later, earlier = np.tril_indices(len(kept), -1)
    slope = np.median((kept[later] - kept[earlier]) / (later - earlier))
    return float(slope * (len(kept) - 1) / np.median(kept))


def rounds(seconds: float, one: Callable[[], None]) -> list[Sample]:
    """Samples after each round, for so long; at least four."""
    since = time.monotonic()
    found: list[Sample] = []
    while time.monotonic() - since < seconds or len(found) < 4:
        one()
        found.append(sample(since))
    return found


def flat(name: str, values: Sequence[float], note: str = "") -> Check:
    """A check that a series of samples does not rise."""
    found = Check("load", name, note=note)
    grown = rise(values)
    found.count(f"rises by {grown:.1%}: {_thinned(values)}" if grown > RISE else None)
    return found


def _thinned(values: Sequence[float]) -> str:
    """Twelve values of many."""
    return " ".join(f"{values[round(k)]:,.0f}" for k in np.linspace(0, len(values) - 1, min(12, len(values))))


def checks(setting: Setting) -> Iterator[Check]:
    folder, kept = setting.folder / "in", tempfile.tempdir
    temporary = setting.folder / "tmp"
    temporary.mkdir()
    tempfile.tempdir = str(temporary)
    make_inputs(folder)
    rng = np.random.default_rng(setting.seed)
    inside, outside, left = (
        Check("load", "commands in one process"),
        Check("load", "commands of their own"),
        Check("load", "files left"),
    )
    before = {path.name for path in folder.iterdir()}
    calls = [*((writer.words, 0) for writer in WRITERS), *((shlex.split(call), code) for call, code in REFUSED)]

    def one() -> None:
        for k in rng.permutation(len(calls)):
            words, code = calls[k]
            found, said = called(words, folder)
            inside.count(None if found == code else f"{' '.join(words)}: {found}, {said[-200:]}")
            behind = [str(path) for path in (folder / OUT).rglob("*.part")]
            behind += [str(path) for path in temporary.iterdir()]
            behind += [path.name for path in folder.iterdir() if path.name not in before]
            left.count(f"{' '.join(words)}: {' '.join(behind)}" if behind else None)
            clear(folder / OUT)
        for k in rng.choice(len(calls), CHILDREN, replace=False):
            words, code = calls[k]
            ended = subprocess.run(
                [sys.executable, "-m", "identifiable", *words],
                cwd=folder,
                env={**os.environ, "TMPDIR": str(temporary)},
                capture_output=True,
                check=False,
                timeout=600,
            )
            outside.count(
                None if ended.returncode == code else f"{' '.join(words)}: {ended.returncode}, {ended.stderr[-200:]!r}"
            )
            clear(folder / OUT)

    found = rounds(HOUR * setting.share, one)
    tempfile.tempdir = kept
    memory = [each.megabytes for each in found]
    yield from (inside, outside, left)
    minutes = found[-1].seconds / 60
    yield flat("resident memory (MB)", memory, f"{len(found)} rounds in {minutes:.0f} min: {_thinned(memory)}")
    for name in ("objects", "descriptors", "threads"):
        values = [float(getattr(each, name)) for each in found]
        yield flat(name, values, _thinned(values))
