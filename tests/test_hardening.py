"""The checkers of `scripts/hardening` that stop, fill, race and load can fail: each is shown a fault, and the same without it."""

from __future__ import annotations

import faulthandler
import importlib
import itertools
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from identifiable._importing import import_for_threads
from identifiable.results.writing import write_text

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
PARTS = ("checks", "commands", "concurrency", "disks", "forks", "kills", "load")
TEXT = "0123456789" * 9000
OUTPUT = Path("out/r.txt")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs forks and /proc")


@pytest.fixture(scope="module")
def suite() -> Iterator[Any]:
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(f"hardening.{name}") for name in PARTS})
    finally:
        sys.path.remove(str(SCRIPTS))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path


def whole_of(suite: Any, body: Callable[[], int], folder: Path, kept: str | None = None) -> Any:
    """The reference of a body, and how often two runs of it did not write the same."""
    equal = suite.checks.Check("kills", "equal")
    return suite.kills.reference(body, folder, kept, False, equal), equal.broken


# -- bodies: writers as they should be, and as they should not


def careful() -> int:
    write_text(OUTPUT, TEXT)
    return 0


def in_place() -> int:
    OUTPUT.write_text(TEXT)
    return 0


def leaving() -> int:
    Path("out/.mine.part").write_text("x")
    write_text(OUTPUT, TEXT)
    Path("out/.mine.part").unlink()
    return 0


def wrong_code() -> int:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(5))
    signal.signal(signal.SIGINT, lambda *_: os._exit(5))
    return careful()


def silent() -> int:
    sys.stderr.close()
    os.close(2)
    return careful()


def unlinking() -> int:
    """For a moment there is no file, where there was one."""
    Path("out/.mine.part").write_text(TEXT)
    if OUTPUT.exists():
        OUTPUT.unlink()
    os.rename("out/.mine.part", OUTPUT)
    return 0


def half() -> int:
    """Two files that do not appear together."""
    write_text(OUTPUT, TEXT)
    write_text(OUTPUT.with_name("s.txt"), TEXT)
    return 0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (careful, ""),
        (in_place, "damaged r.txt"),
        (leaving, "left .mine.part"),
        (wrong_code, "exit code 5"),
        (silent, "said ''"),
        (unlinking, "damaged r.txt"),
        (half, "new only r.txt"),
    ],
)
def test_a_writer_that_a_signal_damages_is_caught(suite: Any, folder: Path, body: Callable[[], int], said: str) -> None:
    whole, different = whole_of(suite, body, folder)
    assert different == 0
    stale = suite.checks.Check("kills", "stale")
    found = suite.kills.struck("x", whole, np.random.default_rng(0), 6, stale)
    assert (found.tried, found.broken > 0) == (18, bool(said)), found.examples
    assert said in " ".join(found.examples)


def test_the_first_two_and_the_last_two_steps_are_always_struck_and_late_blows_do_not_count(
    suite: Any, folder: Path
) -> None:
    whole, _ = whole_of(suite, careful, folder)
    whole = replace(whole, steps=["a step"] * 40)
    for number in suite.kills.NUMBERS:
        drawn = [*suite.kills.blows(whole, number, 8, np.random.default_rng(0))]
        assert {1, 2, 39, 40} < {blow.step for blow in drawn[:8]}
    late = suite.forks.run(careful, folder, suite.forks.Blow(signal.SIGTERM, step=30))
    assert not late.struck
    assert suite.forks.run(careful, folder, suite.forks.Blow(signal.SIGTERM, step=2)).struck


def test_an_end_that_takes_too_long_is_caught(suite: Any) -> None:
    ended = suite.forks.Ended(143, "identifiable: \n", (), 9.0, 0.1, 0.1)
    late = suite.forks.Ended(143, "identifiable: \n", (), 9.0, 0.1, 1.01 * suite.kills.limit())
    found = [suite.kills._manners(each, signal.SIGTERM) for each in (ended, late)]
    assert [len(faults) for faults in found] == [0, 1]


def test_part_files_that_the_next_run_passes_over_are_caught(suite: Any, folder: Path) -> None:
    def passing() -> int:
        Path(f"out/.{os.getpid()}.part").touch()
        os.rename(f"out/.{os.getpid()}.part", OUTPUT)
        return 0

    def naming() -> int:
        for part in Path("out").glob(".*.part"):
            print(part.name, file=sys.stderr)
        return passing()

    broken = []
    for body in (passing, naming):
        whole, _ = whole_of(suite, body, folder)
        stale = suite.checks.Check("kills", "stale")
        suite.kills.set_out(whole)
        suite.forks.run(whole.body, folder, suite.forks.Blow(signal.SIGKILL, step=2))
        stale.count(suite.kills._stale("x", "a blow", whole))
        broken.append(stale.broken)
    assert broken == [1, 0]


def test_a_run_that_goes_on_to_another_result_is_caught(suite: Any, folder: Path) -> None:
    def counting() -> int:
        kept = Path("out/kept")
        kept.mkdir(exist_ok=True)
        (kept / str(os.getpid())).touch()
        write_text(OUTPUT, str(len(os.listdir(kept))))
        return 0

    def keeping() -> int:
        Path("out/kept").mkdir(exist_ok=True)
        for k in range(3):
            if not Path(f"out/kept/{k}").exists():
                write_text(f"out/kept/{k}", "x")
        return careful()

    def forgetting() -> int:
        Path("out/kept").mkdir(exist_ok=True)
        for k in range(3):
            write_text(f"out/kept/{k}", "x")
        return careful()

    broken = []
    for body in (counting, forgetting, keeping):
        whole, _ = whole_of(suite, body, folder, "kept")
        broken.append(suite.kills.resumed("x", whole, np.random.default_rng(0), 4).broken)
    assert broken[0] > 0
    assert broken[1] > 0
    assert broken[2] == 0


def test_batches_that_a_model_is_shown_again_are_caught(suite: Any, folder: Path) -> None:
    def showing(*, again: bool) -> int:
        note = Path("out/kept")
        done = int(note.read_text()) if note.exists() and not again else 0
        for k in range(done, 20):
            with Path(suite.commands.WORK).open("a") as file:
                file.write(".")
            write_text("out/kept", str(k + 1))
        return careful()

    broken = []
    for again in (True, False):
        whole, _ = whole_of(suite, partial(showing, again=again), folder, "kept")
        broken.append(suite.kills.resumed("x", whole, np.random.default_rng(0), 4).broken)
    assert broken[0] > 0
    assert broken[1] == 0


def test_two_runs_that_differ_are_caught_and_their_times_are_not(suite: Any, folder: Path) -> None:
    def timed() -> int:
        write_text("out/r.json", f'{{"time": "2026-01-01T00:00:{os.getpid() % 60:02}+00:00"}}')
        return 0

    def drawn() -> int:
        OUTPUT.write_text(str(os.getpid()))
        return 0

    assert [whole_of(suite, body, folder)[1] for body in (timed, drawn)] == [0, 1]


# -- full disks


def refusing(body: Callable[[], int], lines: int = 1, code: int = 3) -> Callable[[], int]:
    def refused() -> int:
        try:
            return body()
        except OSError:
            print("identifiable: no room.\n" * lines, end="", file=sys.stderr)
            return code

    return refused


def leaving_on_error() -> int:
    Path("out/.mine.part").write_text("")
    code = careful()
    Path("out/.mine.part").unlink()
    return code


def crashing() -> int:
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if most != resource.RLIM_INFINITY and most < len(TEXT):
        faulthandler.disable()  # of pytest
        os.kill(os.getpid(), signal.SIGBUS)
    return careful()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (refusing(careful), ""),
        (refusing(in_place), "damaged r.txt"),
        (refusing(leaving_on_error), "left .mine.part"),
        (refusing(careful, lines=2), "said"),
        (refusing(careful, code=70), "exit code 70"),
        (crashing, "exit code -7"),
    ],
    ids=["careful", "in_place", "leaving", "two lines", "a bug", "SIGBUS"],
)
def test_a_writer_that_a_full_disk_damages_is_caught(
    suite: Any, folder: Path, body: Callable[[], int], said: str
) -> None:
    whole, _ = whole_of(suite, body, folder)
    found = suite.disks.filled("x", whole, 50_000, mounts=False)
    assert (found.tried, found.broken > 0) == (3, bool(said)), found.examples
    assert said in " ".join(found.examples)


# -- concurrency


def test_an_answer_that_differs_and_one_that_fails_are_caught(suite: Any) -> None:
    def answer(names: list[str]) -> list[str]:
        return ["1" for _ in names]

    def fail(names: list[str]) -> list[str]:
        raise ImportError("half a module")

    same = suite.concurrency.same
    alone = {"a": "1", "b": "2"}
    assert [same("x", alone, [*names], answer).broken for names in ("aa", "ab")] == [0, 1]
    assert same("x", alone, ["a"], fail).broken == 1


def test_only_a_thread_imports_all_of_scikit_learn_at_once() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert "sklearn.cluster" in pool.submit(import_for_threads).result()
    assert import_for_threads() == ()


def test_two_writers_that_damage_a_file_are_caught(suite: Any, folder: Path) -> None:
    def appending() -> int:
        with OUTPUT.open("r+" if OUTPUT.exists() else "w") as file:
            file.write("x" * (os.getpid() % 2 + 1))
        return 0

    judge, Ended = suite.concurrency.judge, suite.forks.Ended
    whole, _ = whole_of(suite, careful, folder)
    fine, refused, bug = (Ended(c, "identifiable: \n" if c else "", (), 0.1, 0.1, None) for c in (0, 3, 70))
    for one_writer in (False, True):
        suite.forks.run(careful, folder)
        assert judge(whole, [whole.files], [fine, fine], one_writer) == []
        assert bool(judge(whole, [whole.files], [fine, refused], one_writer)) is not one_writer
        assert judge(whole, [whole.files], [fine, bug], one_writer) != []
        suite.forks.run(appending, folder)
        assert "r.txt" in judge(whole, [whole.files], [fine, fine], one_writer)[0]


# -- load


def test_what_grows_is_caught_and_what_scatters_is_not(suite: Any) -> None:
    rng = np.random.default_rng(0)
    level = 700 + rng.normal(0, 3, 60)
    level[:10] -= np.linspace(80, 0, 10)  # what is loaded at first use
    leak = level + 0.3 * np.arange(60)
    assert [suite.load.flat("x", list(values)).broken for values in (level, leak)] == [0, 1]


def test_memory_and_files_that_a_process_keeps_are_caught(suite: Any, folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(suite.load.gc, "collect", lambda: 0)  # of all that other tests hold: slow
    held: list[Any] = []
    numbers = itertools.count()

    def leaky() -> None:
        held.append(np.ones(4_000_000))
        held.append((folder / str(next(numbers))).open("w"))

    try:
        for one, broken in ((lambda: time.sleep(0), 0), (leaky, 1)):
            found = suite.load.rounds(0.0, one)
            for name in ("megabytes", "descriptors"):
                assert suite.load.flat(name, [getattr(each, name) for each in found]).broken == broken, found
    finally:
        for each in held[1::2]:
            each.close()
