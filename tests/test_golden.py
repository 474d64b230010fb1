"""Small runs of every command give the numbers that are kept in tests/golden (`python scripts/golden.py --write` makes them)."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "golden.py"


def load_script():
    spec = importlib.util.spec_from_file_location("golden", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["golden"] = module
    spec.loader.exec_module(module)
    return module


golden = load_script()


@pytest.fixture(scope="module")
def workplace():
    with golden.workplace() as folder:
        yield folder


@pytest.mark.parametrize("name", golden.RUNS)
def test_no_number_of_a_small_run_has_moved(name, workplace):
    if name in ("fig2", "table2"):
        pytest.importorskip("torch")
    found, _ = golden.result_of(name)
    assert golden.differences(json.loads((golden.GOLDEN / f"{name}.json").read_text()), found) == []


@pytest.mark.parametrize(
    ("kept", "found", "differ"),
    [
        ({"a": 1.0}, {"a": 1.00001}, 0),
        ({"a": 1.0}, {"a": 1.001}, 1),
        ({"a": [1, 2]}, {"a": [1]}, 1),
        ({"a": True}, {"a": 1}, 1),
        ({"a": "rigid"}, {"a": "linear"}, 1),
        ({"a": 1}, {}, 1),
        ({"a": 1}, {"a": 1, "b": 2}, 0),
    ],
)
def test_a_number_that_moves_is_seen(kept, found, differ):
    assert len(golden.differences(kept, found)) == differ
