"""Compiled functions: when numba is loaded, what is said, and where code is kept."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from identifiable._compiling import trusted, uncompiled
from identifiable.cli.progress import COMPILING_TEXT, Bar
from identifiable.run import COMPILING, Run, Stage

SOURCE = """
from identifiable._compiling import compiled

@compiled
def twice(values):
    for j in range(values.size):
        values[j] = doubled(values[j])

@compiled
def doubled(value):
    return 2 * value
"""
VALUES = np.ones(3)


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    path = tmp_path / "package" / "loops.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    return path


def loaded(source: Path) -> ModuleType:
    """As a new process would load it."""
    spec = importlib.util.spec_from_file_location("loops", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compilations(module: ModuleType) -> int:
    said = []
    run = Run(progress=lambda stage, done, total: said.append(stage))
    run.prepare(module.twice, VALUES)
    values = VALUES.copy()
    module.twice(values)
    assert (values == 2).all()
    assert set(said) <= {COMPILING}
    return len(said)


def test_a_compilation_is_said_and_what_is_kept_is_read_again_unless_anyone_could_have_written_it(source):
    first = loaded(source)
    assert compilations(first) == 2
    assert compilations(first) == 0
    assert compilations(loaded(source)) == 0
    folder = Path(loaded(source).twice.made.stats.cache_path)
    assert folder == source.parent / "__pycache__"
    folder.chmod(0o777)
    assert compilations(loaded(source)) == 2


def test_a_read_only_installation_keeps_code_in_the_cache_of_the_user(source, tmp_path):
    (source.parent / "__pycache__").write_text("nothing can be kept here")  # also root cannot
    assert compilations(loaded(source)) == 2
    assert compilations(loaded(source)) == 0
    assert (tmp_path / "cache") in Path(loaded(source).twice.made.stats.cache_path).parents


def test_without_any_folder_code_is_compiled_each_time(source, tmp_path):
    for place in (source.parent / "__pycache__", tmp_path / "cache"):
        place.write_text("nothing can be kept here")
    assert compilations(loaded(source)) == 2
    assert compilations(loaded(source)) == 2


def test_only_folders_of_this_user_root_and_the_installation_are_trusted(source, tmp_path, monkeypatch):
    assert trusted(tmp_path, source)
    tmp_path.chmod(0o757)
    assert not trusted(tmp_path, source)
    tmp_path.chmod(0o775)
    assert trusted(tmp_path, source)
    if os.getuid() == 0:
        os.chown(tmp_path, 4321, -1)
        assert not trusted(tmp_path, source)
        os.chown(source, 4321, -1)
        assert trusted(tmp_path, source)


def test_uncompiled_functions_call_each_other_and_what_is_given(source):
    module = loaded(source)
    plain = uncompiled(module.twice, module.doubled)
    values = VALUES.copy()
    plain.twice(values)
    uncompiled(module.twice, doubled=lambda value: value + 5).twice(values)
    assert (values == 7).all()
    assert "made" not in vars(module.twice)


def test_a_terminal_shows_a_compilation_at_once():
    screen = io.StringIO()
    with Bar(screen) as bar:
        bar(Stage("reading"), 0, 9)
        assert not screen.getvalue()
        bar(COMPILING, 0, 1)
        assert COMPILING_TEXT in screen.getvalue()


def test_small_tables_are_resolved_and_scored_without_numba(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "z.npy", rng.laplace(size=(200, 3)))
    np.save(tmp_path / "l.npy", rng.laplace(size=(3000, 30)))
    np.save(tmp_path / "f.npy", rng.integers(4, size=(3000, 2)))
    script = """
import sys
from identifiable.cli import main
for command in (["resolve", "z.npy", "--stability", "0"], ["disentangle", "l.npy", "f.npy", "--metrics", "infomec"]):
    assert main([*command, "--quiet"]) == 0
assert "numba" not in sys.modules
from identifiable.ica.kernels import tanh_and_squares
tanh_and_squares.made
assert "numba" in sys.modules  # the check can fail
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert (done.returncode, done.stderr) == (0, "")
