"""The types of the package and its scripts hold. A test, so that it runs beside the others: alone it takes a minute."""

from __future__ import annotations

import sys
from pathlib import Path

import children

ROOT = Path(__file__).parent.parent
# A sixth of the time of a first run would go into writing its cache.
CACHE = [] if (ROOT / ".mypy_cache").exists() else ["--cache-dir=/dev/null"]


def test_mypy_finds_no_error():
    done = children.run([sys.executable, "-m", "mypy", *CACHE], cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_finds_an_error(tmp_path):
    (tmp_path / "wrong.py").write_text("number: int = 'text'\n")
    done = children.run([sys.executable, "-m", "mypy", "--config-file=", str(tmp_path / "wrong.py")], cwd=tmp_path)
    assert done.returncode == 1
    assert "wrong.py:1" in done.stdout
