"""The checkers of `scripts/hardening` that try files, names and numbers can fail: each is shown what it must catch."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from identifiable._checks import DataError
from identifiable.results.kept import KeptArrays

sys.path.append(str(Path(__file__).parents[1] / "scripts"))
attempts, checks, mutations, readers, hostile, values = (
    importlib.import_module(f"hardening.{name}")
    for name in ("attempts", "checks", "mutations", "readers", "hostile", "values")
)

VALUES = np.arange(6.0).reshape(2, 3)
CONTENT = {"a.npy": readers.saved(np.save, VALUES)}


def tried(run: Any, folder: Path, *, judge: Any = lambda found: None, count: int = 1, **limits: Any) -> Any:
    check = checks.Check("part", "name")
    return attempts.attempted(
        check, lambda k: attempts.Attempt(f"#{k}", lambda: run(k), judge), count, folder, **limits
    )


def refuse(_: int) -> None:
    raise DataError("a.npy: expected a table.")


def raise_key_error(_: int) -> None:
    raise KeyError("x")


class RawError(DataError):
    """Without the care that errors of ours take of what stands in them."""

    def __str__(self) -> str:
        return self.said

    def __init__(self, said: str):
        self.said = said


def raise_two_lines(_: int) -> None:
    raise RawError("a.npy:\nexpected a table.")


def raise_an_escape(_: int) -> None:
    raise RawError("a\x1b[31m.npy: expected a table.")


def work(_: int) -> None:
    began = time.process_time()
    while time.process_time() - began < 0.05:
        pass


def fill(_: int) -> None:
    np.ones(300 * 2**20, np.uint8).sum()  # more than the allocator has at hand


def crash(_: int) -> None:
    os.kill(os.getpid(), 9)


def write_elsewhere(_: int) -> None:
    with open("/tmp/hardening-elsewhere", "w"):  # made, and removed by the test
        pass


@pytest.mark.parametrize(
    ("run", "limits", "says"),
    [
        (raise_key_error, {}, "KeyError"),
        (raise_two_lines, {}, r"\n"),
        (raise_an_escape, {}, r"\x1b"),
        (work, {"seconds": 0.02}, " s"),
        (lambda k: time.sleep(0.1), {"seconds": 0.05}, "by the clock"),
        (fill, {"most": 2**24}, " MB"),
        (crash, {}, "SIGKILL"),
        (lambda k: os.write(1, b"noise"), {}, "noise"),
        (lambda k: os.posix_spawn("/bin/true", ["true"], {}), {}, "os.posix_spawn"),
        (write_elsewhere, {}, "hardening-elsewhere"),
    ],
)
def test_an_attempt_that_breaks_the_promise_is_counted(tmp_path, run, limits, says):
    found = tried(run, tmp_path / "now", **limits)
    Path("/tmp/hardening-elsewhere").unlink(missing_ok=True)
    assert (found.tried, found.broken) == (1, 1)
    assert says in found.examples[0]


def test_an_attempt_that_ends_by_the_limit_on_its_time_is_made_once_more(tmp_path, monkeypatch):
    monkeypatch.setattr(attempts, "CPU_SECONDS", 1)
    there = tmp_path / "there"

    def spin(k: int) -> None:
        while k == 1:
            pass

    def spin_once(k: int) -> None:
        if not there.exists():
            os.close(os.open(there, os.O_CREAT))
            spin(k)

    monkeypatch.setattr(attempts, "_hook", lambda *_: lambda *_: None)
    found = tried(spin, tmp_path / "now", count=3)
    assert (found.tried, found.broken) == (3, 1)
    assert "SIGXCPU" in found.examples[0]
    found = tried(lambda k: spin_once(k) if k == 1 else None, tmp_path / "now", count=3)
    assert there.exists()
    assert (found.tried, found.broken) == (3, 0)


def test_an_attempt_that_keeps_it_is_not_and_one_crash_ends_one_attempt(tmp_path):
    assert tried(refuse, tmp_path / "now").broken == 0
    assert tried(lambda k: k, tmp_path / "now").broken == 0
    found = tried(lambda k: crash(k) if k == 1 else None, tmp_path / "now", count=4)
    assert (found.tried, found.broken) == (4, 1)
    assert found.examples[0].startswith("#1")


def subject(read: Any) -> Any:
    return readers.Subject(
        "try", lambda folder: [CONTENT], mutations.alone(mutations.changed_npy), read, readers.known_npy, tries=40
    )


def read_right(path: Path) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy, of headers that Python 2 wrote
            return {"values": np.load(path, allow_pickle=False)}
    except Exception as error:
        raise DataError("a.npy: damaged.") from error


def test_a_reader_that_gives_other_numbers_or_nan_is_caught_and_a_right_one_is_not(tmp_path):
    setting = checks.Setting(0, 1.0, tmp_path)

    def read_anything(path: Path) -> dict[str, Any]:
        try:
            return {"values": np.load(path, allow_pickle=False)}
        except Exception:
            return {"values": np.full((2, 3), np.nan)}

    def count(read: Any) -> int:
        return int(readers.tried(subject(read), setting).broken)

    assert count(read_right) == 0
    assert count(read_anything) > 10
    assert count(lambda path: {"values": VALUES[:1]} if path.stat().st_size % 2 else read_right(path)) > 5


def test_a_checkpoint_that_gives_what_was_not_kept_is_caught_and_ours_is_not(tmp_path, monkeypatch):
    (part,) = (replace(each, tries=60) for each in readers.subjects() if each.name == "checkpoints")
    setting = checks.Setting(0, 1.0, tmp_path)
    assert readers.tried(part, setting).broken == 0
    monkeypatch.setattr(KeptArrays, "_seal", lambda *given: b"")  # a digest that is always right
    assert readers.tried(part, setting).broken > 10


@pytest.mark.parametrize("name", ["inputs", "bases and maps"])
def test_every_reader_has_a_judge_of_what_it_reads(tmp_path, name):
    assert [each.name for each in readers.subjects() if each.known is None] == []
    right = next(each for each in readers.subjects() if each.name == name)
    reads = []

    def zeros(path: Path) -> dict[str, Any]:
        reads.append(path)
        found = right.read(path)
        good = len(reads) <= 4  # of each file, before it is changed
        return found if good else {name: v * 0 if v.dtype.kind in "fi" else v for name, v in found.items()}

    for read, wrong in ((right.read, False), (zeros, True)):
        found = readers.tried(replace(right, read=read, tries=60), checks.Setting(0, 1.0, tmp_path))
        assert (found.broken > 5) is wrong, found.examples


def test_every_mutation_can_be_made_again_and_changes_something():
    for change in (mutations.changed_npy, mutations.changed_text, mutations.changed_json, mutations.changed_bytes):
        content = b'{"a": [1, 2.5, "x"], "b": {"c": null}}' if change is mutations.changed_json else CONTENT["a.npy"]
        content = b"id,a\nu,1\nv,2\n" if change is mutations.changed_text else content
        made = [change(content, Random(k))[1] for k in range(60)]
        assert made == [change(content, Random(k))[1] for k in range(60)]
        assert sum(each != content for each in made) > 45
        assert len(set(made)) > 25


def test_every_value_of_a_json_text_is_found_where_it_stands():
    data = {"a": [1, {"b": "x, ]"}, []], "c": {"d": None, "e é": -2.5}}
    text = json.dumps(data, indent=1, ensure_ascii=False)
    found = {path: json.loads(text[start:end]) for path, start, end in mutations.spans(text)}
    assert found[()] == data
    assert (found["a", 1, "b"], found["c", "e é"], found["a", 2]) == ("x, ]", -2.5, [])
    assert len(found) == 9
    how, wrong = mutations.JsonText(text).wrong(0, Random(0))
    assert how
    assert wrong != text


@dataclass(frozen=True)
class Said:
    code: str


@dataclass(frozen=True)
class Found:
    score: float
    alerts: tuple[Said, ...] = ()
    hoyer: float = 0.5


def test_a_number_that_is_not_finite_needs_an_alert_that_plain_numbers_do_not_raise():
    plain, few = values.numbers(Found(1.0)), (Said("few_rows"),)
    assert "score" in values.silent(plain, set(), Found(np.nan))
    assert "score" in values.silent(plain, set(), Found(-np.inf))
    assert values.silent(plain, set(), Found(np.nan, few)) is None
    assert "score" in values.silent(plain, {"few_rows"}, Found(np.nan, few))
    assert values.silent(plain, set(), Found(1.0)) is None
    assert values.silent({".score": np.nan}, set(), Found(np.nan)) is None  # undefined by its definition


def test_an_alert_about_a_number_excuses_that_one_alone():
    plain, unsplit = values.numbers(Found(1.0)), (Said("no_splits"),)
    assert values.silent(plain, {"no_splits"}, Found(1.0, unsplit, np.nan)) is None
    assert "score" in values.silent(plain, {"no_splits"}, Found(np.nan, unsplit, np.nan))
    assert "hoyer" in values.silent(plain, {"no_splits"}, Found(1.0, (), np.nan))


def test_the_same_numbers_in_another_form_give_the_same_result():
    plain = values.numbers(Found(1.0))
    assert values.like(plain, Found(1.0 + 1e-6)) is None
    assert "1.01" in values.like(plain, Found(1.01))
    assert "0.51" in values.like(values.numbers(Found(1e6)), Found(1e6, (), 0.51))
    assert values.like({}, Found(1.0)) is not None


def test_a_public_name_without_a_call_and_one_left_out_that_is_not_public_are_found():
    tried, left_out = ("compare", "compare, three", "metrics.mcc"), {"load": "a file"}
    assert values.without_call(("compare", "mcc", "load"), tried, left_out) == []
    assert values.without_call(("compare", "mcc", "load", "align"), tried, left_out) == ["align"]
    assert values.without_call(("compare", "mcc"), tried, left_out) == ["load"]


def test_every_way_to_give_the_same_numbers_does():
    X, _ = values.drawn(0)
    for change in values.SAME.values():
        assert np.array_equal(np.asarray(change(X.copy()), float), X)


def test_what_steers_a_terminal_and_what_a_payload_did_are_seen(tmp_path):
    assert hostile.hidden("a\nb é") is None
    assert "x1b" in hostile.hidden("a\x1b[31m")
    assert "u202e" in hostile.hidden("a\u202eb")
    assert hostile.harm({"x": VALUES}, tmp_path) is None
    assert hostile.harm({"x": np.full(3, hostile.SECRET)}, tmp_path) is not None
    (tmp_path / hostile.CANARY).mkdir()
    assert hostile.harm(None, tmp_path) is not None


def test_a_page_that_ends_in_an_error_at_a_name_is_caught_and_a_refused_word_is_not(monkeypatch):
    text = readers.saved_results()["identifiable/match/1"]
    assert hostile.spoilt(text, hostile.MARKUP).to_json().count("data-pwned") > 10
    report = importlib.import_module("identifiable.report")
    right = report.html

    def crash(result: Any) -> str:
        if "data-pwned" in result.to_json():
            raise KeyError("data-pwned")
        return right(result)

    monkeypatch.setattr(report, "html", crash)
    with pytest.raises(KeyError):
        hostile.spoilt(text, hostile.MARKUP)
    monkeypatch.setattr(readers, "saved_results", lambda: {"match": text})
    check = checks.Check("hostile", "pages")
    assert ([*hostile.results(hostile.MARKUP, check)], check.broken) == ([], 1)
