"""Small runs of every command give the numbers that are kept in tests/golden (`python scripts/golden.py --write` makes them)."""

from __future__ import annotations

import importlib.util
import json
import re
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
        pytest.importorskip("torch").set_num_threads(1)  # with more, training ends elsewhere (docs/reproducibility.md)
    found, page = golden.result_of(name)
    assert golden.differences(json.loads((golden.GOLDEN / f"{name}.json").read_text()), found) == []
    if page is not None:
        assert differing_cells((golden.GOLDEN / f"{name}.md").read_text(), page) == []


def differing_cells(kept: str, page: str) -> list[tuple[list[str], list[str]]]:
    """Rows of tables whose numbers differ by more than rounding; the last section has versions and hashes."""

    def rows(text: str) -> list[list[str]]:
        tables = re.findall(r"(?:^\|.*\n)+", text.rpartition("\n## ")[0], flags=re.MULTILINE)
        tables = [table for table in tables if not re.search(r"passes|\d s \|", table)]  # paths of solvers, and times
        return [re.findall(r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?", line) for table in tables for line in table.splitlines()]

    before, after = rows(kept), rows(page)
    if len(before) != len(after):
        return [([f"{len(before)} rows"], [f"{len(after)} rows"])]
    return [
        (a, b)
        for a, b in zip(before, after, strict=True)
        if numbers(a) != pytest.approx(numbers(b), rel=2e-3, abs=2e-3)
    ]


def numbers(cells: list[str]) -> list[float]:
    return [float(cell.replace(",", "")) for cell in cells]


def test_a_cell_that_moves_is_seen():
    page = "# page\n\n## one\n\n| a | b |\n|---|---|\n| x | 0.123 |\n\n## last\n\n| hash | 1 |\n"
    assert differing_cells(page, page.replace("0.123", "0.124")) == []
    assert differing_cells(page, page.replace("0.123", "0.223")) == [(["0.123"], ["0.223"])]
    assert differing_cells(page, page.replace("| x | 0.123 |\n", "")) == [(["3 rows"], ["2 rows"])]
    assert differing_cells(page, page.replace("hash | 1", "hash | 2")) == []


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
        ({"cells": [{"infom": 0.4}]}, {"cells": [{"infom": 0.401}]}, 0),
        ({"cells": [{"infom": 0.4}]}, {"cells": [{"infom": 0.41}]}, 1),
        ({"scores": [{"infom": 0.4}]}, {"scores": [{"infom": 0.401}]}, 1),
    ],
)
def test_a_number_that_moves_is_seen(kept, found, differ):
    assert len(golden.differences(kept, found)) == differ
