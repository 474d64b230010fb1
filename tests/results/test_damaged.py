"""A saved result with one wrong value: a page is drawn, or the file and the field are named. Never anything else."""

from __future__ import annotations

import copy
import json
import math
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from builders import EXAMPLES, make_audit
from identifiable.cli import main
from identifiable.results.serial import SCHEMAS, _typed

WRONG: tuple[Any, ...] = (
    "wrong",
    None,
    True,
    -1,
    0,
    0.5,
    10**6,
    -1e50,
    [],
    {},
    [1],
    ["x"],
    [[]],
    {"a": 1},
    {"a": None},
)
SAMPLE = 15  # fields of a kind, each with one wrong value

Path = tuple[str | int, ...]


def places(data: Any, path: Path = ()) -> Iterator[Path]:
    """Where values stand, containers too."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def fields_of(data: Any, draw: random.Random) -> list[Path]:
    """A place of every field: of many alike (``rungs[0].mean``, ``rungs[1].mean``) one is drawn."""
    alike: dict[Path, list[Path]] = {}
    for path in places(data):
        alike.setdefault(tuple("#" if isinstance(step, int) else step for step in path), []).append(path)
    return [draw.choice(found) for found in alike.values()]


def spoiled(data: Any, path: Path, value: Any) -> str:
    data = copy.deepcopy(data)
    holder = data
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return json.dumps(data)


def outcome(text: str, folder: Any, capsys: Any) -> int:
    """The exit code of `report`; whatever it is, the output is as it must be."""
    (folder / "saved.json").write_text(text)
    page = folder / "page.html"
    page.unlink(missing_ok=True)
    code = main(["report", str(folder / "saved.json"), "-o", str(page)])
    err = capsys.readouterr().err
    assert page.exists() == (code == 0)
    assert ("saved.json: " in err, err.count("\n")) == ((False, 0) if code == 0 else (True, 1)), err
    return code


def test_every_kind_of_result_is_among_them():
    assert {EXAMPLES[kind]().schema for kind in EXAMPLES} == set(SCHEMAS)


@pytest.mark.parametrize("kind", [kind for kind in EXAMPLES if kind not in ("comparison, paper", "four models")])
def test_one_wrong_value_is_drawn_or_refused(kind, tmp_path, capsys):
    draw = random.Random(f"8 {kind}")
    data = json.loads(EXAMPLES[kind]().to_json())
    assert outcome(json.dumps(data), tmp_path, capsys) == 0
    chosen = fields_of(data, draw)
    for path in draw.sample(chosen, min(SAMPLE, len(chosen))):
        value = draw.choice(WRONG)
        assert outcome(spoiled(data, path, value), tmp_path, capsys) in (0, 3), (path, value)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("joint", ("shared_counts",), []),
        ("joint", ("inputs",), []),
        ("distortion", ("sigma_min",), []),
        ("reproduction", ("fits",), []),
    ],
)
def test_lists_that_do_not_fit_each_other_are_refused(kind, path, value, tmp_path, capsys):
    data = json.loads(EXAMPLES[kind]().to_json())
    assert outcome(spoiled(data, path, value), tmp_path, capsys) == 3


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("resolution", ("components", 1, "sign")),
        ("joint", ("models", 0, "whitening", "precision")),
        ("distortion", ("method",)),
        ("disentanglement", ("factors", 0, "kind")),
        ("audit", ("verdict",)),
        ("evaluation", ("verdict",)),
        ("table3", ("evaluation", "verdict")),
        ("cleaning", ("attribution", "components", 0, "role")),
    ],
)
@pytest.mark.parametrize("value", ["wrong", 1, None])
def test_a_word_that_is_none_of_the_choices_is_refused_by_its_field(kind, path, value, tmp_path, capsys):
    data = json.loads(EXAMPLES[kind]().to_json())
    (tmp_path / "saved.json").write_text(spoiled(data, path, value))
    assert main(["report", str(tmp_path / "saved.json"), "-o", str(tmp_path / "page.html")]) == 3
    err = capsys.readouterr().err
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    assert f"({where}: " in err
    assert "saved.json" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


@dataclass(frozen=True)
class Part:
    number: float | Literal["all"]
    place: tuple[int, int] | None = None


@dataclass(frozen=True)
class Whole:
    parts: Mapping[str, Part | str]


def test_of_several_kinds_the_value_is_one_and_the_nearest_is_named():
    found = _typed(Whole, {"parts": {"a": {"number": "all"}, "b": "plain"}}, "")
    assert found == Whole({"a": Part("all"), "b": "plain"})
    assert math.isnan(_typed(Part, {"number": None}, "").number)
    for wrong, where in (
        ({"number": "none"}, "parts.a.number"),
        ({"number": 1, "place": [1, True]}, "parts.a.place[1]"),
    ):
        with pytest.raises(Exception, match=re.escape(f"{where}: ")):
            _typed(Whole, {"parts": {"a": wrong}}, "")


def test_an_unexpected_error_is_never_exit_1(tmp_path, capsys, monkeypatch):
    (tmp_path / "saved.json").write_text(make_audit().to_json())
    monkeypatch.setattr("identifiable.cli.report.check_page", lambda path: 1 // 0)
    words = ["report", str(tmp_path / "saved.json"), "-o", str(tmp_path / "page.html")]
    assert main(words) == 70
    err = capsys.readouterr().err
    assert ("ZeroDivisionError" in err, "IDENTIFIABLE_DEBUG" in err, err.count("\n")) == (True, True, 1)
    monkeypatch.setenv("IDENTIFIABLE_DEBUG", "1")
    assert main(words) == 70
    assert "Traceback" in capsys.readouterr().err
