"""The same results, bit for bit, wherever they are computed: in threads, after a fork, in new processes, inside a running event loop;
and two writers of one file.

Two processes that write the same files at once both succeed, and the files are whole; where a folder or rows that are not finished can
have one writer only, the other is refused in one line. Meanwhile a reader sees an old file or a new one, each whole.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import select
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from hardening import forks
from hardening.checks import Check, Setting
from hardening.commands import FORMATS, OUT, WRITERS, Writer, called, clear, content, make_inputs
from hardening.kills import PART, Reference, contents, reference, set_out

REPEATS = 4
RACES = 3  # of two writers, for each command
THREADS = 8
REFUSED = 3  # the exit code of a second writer, where there can be only one


# -- what is computed


def _calls(folder: str) -> dict[str, Callable[[int], Any]]:
    """Public calls by name, each from a number of worker threads."""
    import identifiable as ours

    at = Path(folder)
    a, b, few, h1, h2, factors = (
        str(at / name) for name in ("a.npy", "b.npy", "few.npy", "h1.npy", "h2.npy", "factors.csv")
    )
    stack = {m: f"{at}/stack.npz:{m}_*" for m in "ab"}
    return {
        "compare": lambda w: ours.compare(a, b, null_draws=2, workers=w),
        "resolve": lambda w: ours.resolve(a, stability=2, workers=w),
        "resolve of two": lambda w: ours.resolve(a, b, stability=2, workers=w),
        "align": lambda w: ours.align(a, b, holdout=100, workers=w),
        "match": lambda w: ours.match(h1, h2, null_draws=2, workers=w),
        "heads": lambda w: ours.heads(h1, h2, features=(a, b), null_draws=2, workers=w),
        "layers": lambda w: ours.layers(stack["a"], stack["b"], null_draws=2, workers=w),
        "disentangle": lambda w: ours.disentangle(a, factors, metrics=["infomec", "mig"], workers=w),
        "bilipschitz": lambda w: ours.bilipschitz(_squeeze, few),
        "audit": lambda w: ours.deconfound.audit(str(at / "cells.parquet"), permutations=20, workers=w),
    }


def _squeeze(z: Any, v: Any) -> Any:
    return v * [2.0, 0.8, 1.0]


def answer(folder: str, name: str, workers: int = 1) -> str:
    """The result of a call as text, without its time."""
    from identifiable.results import without_time

    found = _calls(folder)[name](workers)
    text: str = without_time(getattr(found, "result", found)).to_json()
    return text


def names() -> list[str]:
    return list(_calls(""))


# -- where it is computed


def in_threads(folder: str, which: Iterable[str]) -> list[str]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(partial(answer, folder), which))


def in_processes(method: str, folder: str, which: Iterable[str]) -> list[str]:
    with multiprocessing.get_context(method).Pool(2) as pool:
        return pool.map_async(partial(answer, folder), list(which), chunksize=1).get(forks.GIVE_UP)


def in_a_loop(folder: str, which: Iterable[str]) -> list[str]:
    """In a coroutine of a running loop, as a notebook calls."""

    async def cell() -> list[str]:
        return [answer(folder, name) for name in which]

    return asyncio.run(cell())


def beside_a_loop(folder: str, which: Iterable[str]) -> list[str]:
    """In threads that a running loop waits for."""

    async def cell() -> list[str]:
        return list(await asyncio.gather(*(asyncio.to_thread(answer, folder, name) for name in which)))

    return asyncio.run(cell())


def in_threads_at_first_use(folder: str, which: Iterable[str]) -> list[str]:
    """In threads of a new process, whose imports and compilations meet."""
    program = (
        f"import sys, json; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from hardening.concurrency import in_threads\n"
        f"print(json.dumps(in_threads({folder!r}, {list(which)!r})))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False)
    if ended.returncode != 0:
        raise RuntimeError(f"exit code {ended.returncode}: {ended.stderr[-300:]}")
    found: list[str] = json.loads(ended.stdout)
    return found


PLACES: dict[str, Callable[[str, Iterable[str]], list[str]]] = {
    "threads": in_threads,
    "threads at first use": in_threads_at_first_use,
    "fork": partial(in_processes, "fork"),
    "spawn": partial(in_processes, "spawn"),
    "a running event loop": in_a_loop,
    "threads of an event loop": beside_a_loop,
}


def checks(setting: Setting) -> Iterator[Check]:
    folder = setting.folder / "in"
    make_inputs(folder)
    rng = random.Random(setting.seed)
    alone = {name: answer(str(folder), name) for name in names()}
    for place, compute in PLACES.items():
        which = names() * setting.of(REPEATS)
        rng.shuffle(which)
        yield same(place, alone, which, partial(compute, str(folder)))
    yield same(
        "2 and 4 workers",
        alone,
        names() * 2,
        lambda w: [answer(str(folder), n, 2 + 2 * (i % 2)) for i, n in enumerate(w)],
    )
    yield commands_in_a_loop(folder)
    yield from races(setting, folder)


def same(place: str, alone: dict[str, str], which: list[str], compute: Callable[[list[str]], list[str]]) -> Check:
    """Every call gives what it gives alone."""
    found = Check("concurrency", place)
    try:
        answers = compute(which)
    except Exception as error:  # whatever a place raises is what is to be shown
        found.count(f"{type(error).__name__}: {error}")
        return found
    for name, text in zip(which, answers, strict=True):
        found.count(None if text == alone[name] else f"{name} differs")
    return found


def commands_in_a_loop(folder: Path) -> Check:
    """Commands that a notebook calls write what they write elsewhere."""
    found = Check("concurrency", "commands inside a running event loop")
    for writer in WRITERS:
        clear(folder / OUT)
        called(writer.words, folder)
        alone = contents(folder / OUT, writer.kept)
        clear(folder / OUT)

        async def cell(words: list[str] = writer.words) -> tuple[int, str]:
            return called(words, folder)

        code, said = asyncio.run(cell())
        right = code == 0 and contents(folder / OUT, writer.kept) == alone
        found.count(None if right else f"{writer.name}: {code}, {said[-200:]}")
    clear(folder / OUT)
    return found


# -- two writers of one file


def races(setting: Setting, folder: Path) -> Iterator[Check]:
    equal = Check("concurrency", "two uninterrupted runs write the same")
    twice = Check("concurrency", "two processes that write the same files")
    for writer in WRITERS:
        whole = reference(forks.command(writer), folder, writer.kept, writer.growing, equal)
        if whole is None:
            continue
        for _ in range(setting.of(RACES)):
            set_out(whole)
            ended = [forks.finish(each) for each in [forks.start(whole.body, folder) for _ in range(2)]]
            faults = judge(
                whole, [whole.files], ended, one_writer=any("/" in n for n in whole.files) or bool(writer.kept)
            )
            twice.count(f"{writer.name}: {'; '.join(faults)}" if faults else None)
        clear(folder / OUT)
    yield equal
    yield twice
    other = Check("concurrency", "two processes that write other rows to one file, and a reader")
    for form in FORMATS:
        pair = [
            reference(
                forks.command(Writer(table, f"transform basis.safetensors {table}.npy -o out/z.{form}")),
                folder,
                None,
                False,
                equal,
            )
            for table in ("tall", "a")
        ]
        for _ in range(setting.of(RACES)):
            if pair[0] is None or pair[1] is None:
                continue
            set_out(pair[0])
            running = [forks.start(each.body, folder) for each in pair if each is not None]
            seen = _watched(folder / OUT / f"z.{form}", running)
            ended = [forks.finish(each) for each in running]
            wholes = [each.files for each in pair if each is not None]
            faults = judge(pair[0], wholes, ended, one_writer=form == "zarr")
            if form != "zarr" and any(text not in (b"old", *(files[f"z.{form}"] for files in wholes)) for text in seen):
                faults.append("a reader saw another file")
            other.count(f".{form}: {'; '.join(faults)}" if faults else None)
        clear(folder / OUT)
    yield other


def _watched(path: Path, running: list[forks.Running]) -> list[Any]:
    """What a reader sees of a file until both writers have ended."""
    poll = select.poll()
    seen: list[Any] = []
    for each in running:
        poll.register(each.reading, select.POLLHUP)
    hung: set[int] = set()
    while len(hung) < len(running):
        if path.is_file() and len(seen) < 200:
            seen.append(content(path))
        hung |= {descriptor for descriptor, _ in poll.poll(1)}
    return seen


def judge(whole: Reference, wholes: list[Any], ended: list[forks.Ended], one_writer: bool) -> list[str]:
    """What is wrong with the end of two writers, who may have left what either writes alone."""
    faults = []
    codes = sorted(each.code if each.code is not None else -1 for each in ended)
    if codes != [0, 0] and not (one_writer and codes == [0, REFUSED]):
        faults.append(f"exit codes {codes}: {' '.join(each.said[-200:] for each in ended)}")
    for each in ended:
        own = [line for line in each.said.splitlines() if line.startswith("identifiable: ")]
        if each.code == REFUSED and (len(own) != 1 or "Traceback" in each.said):
            faults.append(f"said {each.said[-300:]!r}")
    found = contents(whole.out, whole.kept)
    if found not in wholes:
        known = {name for files in wholes for name in files}
        faults.append(
            f"damaged or left: {', '.join(n for n in {*found, *known} if all(found.get(n) != f.get(n) for f in wholes))}"
        )
    left = [str(path) for path in whole.out.rglob(f"*{PART}")]
    return [*faults, f"left {', '.join(left)}"] if left else faults
