"""Commands whose disk is full: from no free byte to enough of them, in steps of 16 kB.

OUT is a tmpfs of its own (root may mount one; elsewhere RLIMIT_FSIZE limits each file, and the table says so). Every output has an old
file in its place. With too little room a command ends with exit code 3 and one line that names no temporary file; the old files are
still there and nothing else is, but finished parts of a checkpoint. A command with a checkpoint then goes on, with room, to the result
of an uninterrupted run. With stdout on a full disk the outputs are all old or, where a command says their names at its end, all new.
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from hardening import forks
from hardening.checks import Check, Setting
from hardening.commands import OUT, WRITERS, clear, make_inputs, warm
from hardening.kills import PART, Reference, contents, reference, set_out

STEP = 16_384  # bytes
ROOM = 64_000_000
FULL = "full"  # a file that takes room
REFUSED = 3  # the exit code


def checks(setting: Setting) -> Iterator[Check]:
    folder = setting.folder / "in"
    make_inputs(folder)
    equal = Check("disks", "two uninterrupted runs write the same")
    stdout = Check("disks", "stdout on a full disk")
    mounts = _may_mount(setting.folder)
    for writer in WRITERS:
        warm(writer.words, folder)
        whole = reference(forks.command(writer), folder, writer.kept, writer.growing, equal)
        if whole is None:
            continue
        before = set_out(whole)
        ended = forks.run(whole.body, folder, prepare=_full_stdout)
        faults = min((judge(whole, files, ended) for files in (before, whole.files)), key=len)
        stdout.count(f"{writer.name}: {'; '.join(faults)}" if faults else None)
        clear(folder / OUT)
        yield filled(writer.name, whole, round(STEP / min(setting.share, 1)), mounts)
        clear(folder / OUT)
    yield equal
    yield stdout


def filled(name: str, whole: Reference, step: int, mounts: bool = True) -> Check:
    """A command with more room each time, until it has enough."""
    found = Check("disks", name, note="" if mounts else "RLIMIT_FSIZE")
    room = 0
    while True:
        with disk(whole.out) if mounts else _same_disk(whole.out):
            before = set_out(whole)
            if mounts:
                _leave_room(whole.out, room)
            ended = forks.run(whole.body, whole.folder, prepare=None if mounts else partial(_limit_files, room))
            faults = judge(whole, before, ended)
            if ended.code == REFUSED and whole.kept is not None and not faults:
                faults = _goes_on(whole, mounts)
            found.count(f"{room} bytes: {'; '.join(faults)}" if faults else None)
        if ended.code == 0 or room > ROOM:
            found.note += f" enough: {room / 1000:.0f} kB"
            return found
        room += step


def judge(whole: Reference, before: Mapping[str, object], ended: forks.Ended) -> list[str]:
    """What is wrong with a run that had little room."""
    if ended.code not in (0, REFUSED):
        return [f"exit code {ended.code}: {ended.said[-300:]}"]
    faults = []
    found = contents(whole.out, whole.kept)
    found.pop(FULL, None)
    if ended.code == REFUSED:
        own = [line for line in ended.said.splitlines() if line.startswith("identifiable: ")]
        if len(own) != 1 or "Traceback" in ended.said or PART in own[0]:
            faults.append(f"said {ended.said[-300:]!r}")
    expected = before if ended.code == REFUSED else whole.files
    damaged = [name for name in expected if found.get(name) != expected[name]]
    if damaged:
        faults.append(f"exit code {ended.code}, damaged {', '.join(damaged)}")
    kept = [] if whole.kept is None else [str(p) for p in (whole.out / whole.kept).rglob(f"*{PART}")]
    folders = [path.name for path in whole.out.iterdir() if path.is_dir() and path.name != whole.kept]
    left = {*found, *kept, *folders} - {*expected, *(name.split("/")[0] for name in expected)}
    if left:
        faults.append(f"left {', '.join(sorted(left))}")
    return faults


def _goes_on(whole: Reference, mounts: bool) -> list[str]:
    """What is wrong with a run from the kept parts, with room."""
    if mounts:
        (whole.out / FULL).unlink()
        _resize(whole.out, ROOM)
    ended = forks.run(whole.body, whole.folder)
    found = contents(whole.out, whole.kept)
    if ended.code != 0:
        return [f"does not go on: exit code {ended.code}: {ended.said[-300:]}"]
    different = [name for name, made in whole.files.items() if found.get(name) != made]
    return [f"goes on to another {', '.join(different)}"] if different else []


# -- disks


def _may_mount(folder: Path) -> bool:
    try:
        with disk(folder / "try"):
            return True
    except (OSError, subprocess.SubprocessError):
        return False


@contextmanager
def disk(folder: Path) -> Iterator[None]:
    """A tmpfs at `folder` for as long as the block runs."""
    folder.mkdir(exist_ok=True)
    _mount(f"size={ROOM}", folder)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True, timeout=60)


@contextmanager
def _same_disk(folder: Path) -> Iterator[None]:
    yield


def _mount(options: str, folder: Path) -> None:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def _resize(folder: Path, size: int) -> None:
    _mount(f"remount,size={size}", folder)


def _leave_room(folder: Path, room: int) -> None:
    """So many bytes are free on the disk."""
    (folder / FULL).write_bytes(b"x")  # a size of 0 would be no limit
    usage = os.statvfs(folder)
    _resize(folder, (usage.f_blocks - usage.f_bfree) * usage.f_frsize + room)


def _limit_files(size: int) -> None:
    size = max(size, 4096)  # what a command says goes to a file too
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _full_stdout() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
