"""What the README and docs/reproducibility.md show is run, so that it stays true."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from identifiable.cli import main
from laws import rows

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def fenced(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


SESSIONS = fenced("pycon") + fenced("pycon", (ROOT / "docs" / "reproducibility.md").read_text())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    X = rows(0, n=200, d=3)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    for name, table in (("run1", X), ("run2", X @ turn), ("release", X), ("candidate", X @ turn)):
        np.save(tmp_path / f"{name}.npy", table)
    for name in ("release_ids.txt", "candidate_ids.txt"):
        (tmp_path / name).write_text("\n".join(f"s{i}" for i in range(200)) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_python_example_runs_and_writes_its_page(folder, capsys):
    example, *_ = fenced("python")
    exec(compile(example, "README.md", "exec"), {})
    assert "The same up to a rigid motion" in capsys.readouterr().out
    assert (folder / "run1-vs-run2.html").stat().st_size > 10_000


@pytest.mark.parametrize("number", range(len(SESSIONS)))
def test_what_a_session_shows_is_what_it_prints(number):
    session = SESSIONS[number]
    test = doctest.DocTestParser().get_doctest(session, {}, f"session {number}", "README.md", 0)
    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert found.attempted
    assert not found.failed


def test_the_training_example_runs(folder):
    pytest.importorskip("torch")
    _, example = fenced("python")
    rng = np.random.default_rng(0)
    names = {"rows": rng.standard_normal((300, 64)), "validation": rng.standard_normal((50, 64))}
    exec(compile(example.replace("max_epochs=100", "max_epochs=2"), "README.md", "exec"), names)
    assert names["best"].decoder.leak == pytest.approx(0.3)
    assert (folder / "kept").is_dir()


def test_the_gate_passes_on_models_that_agree_and_fails_on_models_that_do_not(folder, capsys):
    (gate,) = [block for block in fenced("sh") if "--fail-if" in block]
    words = shlex.split(gate.replace("\\\n", " "))
    assert words.pop(0) == "identifiable"
    assert main(words) == 0
    np.save("candidate.npy", rows(9, n=200, d=3))
    assert main(words) == 1
    assert (folder / "drift.html").exists()
