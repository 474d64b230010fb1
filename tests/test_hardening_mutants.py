"""The parts of scripts/hardening that judge the tests and the numbers: they notice what they should, and only that."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
TOY = '''
"""A room."""
LEVEL = 3


def grown(values: list[int], by: int = 2) -> int:
    """The sum, and more."""
    if by > 9:
        raise ValueError("more than" + " 9")
    total = sum(values) + by
    return total


def waits(n):
    while n > 0:
        n -= 1
    return n
'''


@pytest.fixture(scope="module")
def hardening():
    """The package of the scripts, which is not on the path of tests."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        yield {name: importlib.import_module(f"hardening.{name}") for name in ("mutants", "references")}
    finally:
        sys.path.remove(str(ROOT / "scripts"))


@pytest.fixture
def toy(tmp_path, hardening):
    path = tmp_path / "toy.py"
    path.write_text(TOY)
    spec = importlib.util.spec_from_file_location("toy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    mutants = hardening["mutants"]
    return module, {m.change: m for m in map(mutants.described, mutants.mutants(path))}


def test_every_mutant_differs_and_what_is_read_by_people_is_left_alone(toy, hardening):
    _, found = toy
    trees = [ast.dump(hardening["mutants"].tree_of(m)) for m in found.values()]
    assert len({*trees, ast.dump(ast.parse(TOY))}) == len(trees) + 1
    assert {"sum(values) + by -> sum(values) - by", "by > 9 -> by >= 9", "return total -> return None"} <= set(found)
    assert {"LEVEL = 3 -> LEVEL = 4", "total = sum(values) + by -> pass", "n > 0 -> n <= 0"} <= set(found)
    texts = "".join(after for _, _, after in (c.partition(" -> ") for c in found))
    assert "XX" not in texts
    assert "more than" not in texts
    assert {m.function for m in found.values()} == {"", "grown", "waits"}


def test_a_killed_a_surviving_and_an_endless_mutant_are_told_apart(toy, hardening):
    module, found = toy
    exchange, fate = hardening["mutants"].exchange, hardening["mutants"].fate
    tests = [("adds", lambda: module.grown([1, 2]) == 5, 0.0), ("waits", lambda: module.waits(3) == 0, 0.0)]

    def of(change: str, seconds: float = 0.0) -> str | None:
        return fate(lambda: exchange(found[change]), [(n, t, seconds) for n, t, _ in tests])

    assert fate(lambda: None, tests) is None
    assert of("sum(values) + by -> sum(values) - by") == "adds"
    assert of("by > 9 -> by >= 9") is None
    assert module.grown([1, 2]) == 5  # here nothing has changed
    started = time.process_time()
    hardening["mutants"].GRACE, kept = 0.0, hardening["mutants"].GRACE
    try:
        assert of("n -= 1 -> n += 1") == "time"
    finally:
        hardening["mutants"].GRACE = kept
    assert time.process_time() - started < 2
    with pytest.raises(RuntimeError, match="KeyError"):
        fate(lambda: found["nothing of the kind"], tests)


def test_a_sample_is_the_same_for_a_seed_and_over_all_rooms(hardening, monkeypatch):
    mutants = hardening["mutants"]
    two = mutants.files()[:2]
    monkeypatch.setattr(mutants, "files", lambda: two)
    first, again, other = (mutants.sample(12, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert {m.path for m in first} == set(two)
    assert len({(m.path, m.line) for m in first}) == 12


def test_judged_survivors_name_code_that_exists(hardening):
    mutants = hardening["mutants"]
    sources = {}
    for (file, function, change), (kind, why) in mutants.judged().items():
        if file not in sources:
            sources[file] = ast.unparse(ast.parse((mutants.SOURCE / file).read_text()))
        source = sources[file]
        assert f"def {function.rpartition('.')[2]}(" in source or not function, (file, function)
        assert change.partition(" -> ")[0].strip() in source, change
        assert kind in (*mutants.NO_FAULT, "elsewhere", "open")
        assert len(why.split()) >= 4


def test_a_wrong_reference_is_caught(hardening):
    references = hardening["references"]
    right = references.compared("PW-MCC", references.matched, [0])
    assert right.kept
    assert right.tried >= 3

    def wrong(seed):
        for found in references.matched(seed):
            yield found._replace(reference=np.asarray(found.reference) + 1e-5)

    check = references.compared("PW-MCC", wrong, [0])
    assert check.broken == check.tried == right.tried
    assert not check.kept
    assert "pw_mcc" in check.examples[0]
    assert references.Found("nan", np.nan, 1.0).fault is not None


def test_every_test_that_a_promise_names_exists():
    page = (ROOT / "docs" / "reproducibility.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) >= 30
    missing = [f"{path}::{name}" for path, name in named if name not in functions(ROOT / path)]
    assert missing == []
    assert "test_of_nothing" not in functions(ROOT / named[0][0])


@cache
def functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_a_change_of_free_variables_needs_a_fresh_process(tmp_path, hardening):
    mutants = hardening["mutants"]
    path = tmp_path / "toy.py"
    path.write_text(
        "class A(list):\n    def add(self, x):\n        super().append(x)\n        self.sort()\n        return min(x, 1)\n"
    )
    found = {m.change: m for m in map(mutants.described, mutants.mutants(path))}
    assert mutants.rebinds(found["super().append(x) -> pass"])
    assert not mutants.rebinds(found["self.sort() -> pass"])
    assert not any("min(1, x)" in change for change in found)  # the same, by definition
