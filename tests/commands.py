"""The command line as tests use it: called in this process, with what it printed."""

from __future__ import annotations

import math
from pathlib import Path
from unittest.mock import patch

from identifiable.cli import main
from identifiable.cli.progress import Lines


@patch.object(Lines.__init__, "__defaults__", (None, math.inf))  # on a busy machine a command would say how far it is
def run(*words, capsys):
    """Exit code, stdout and stderr of a command."""
    code = main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(*words, code, capsys):
    """The one line with which a command refuses; it exits with `code` and prints nothing else."""
    found, out, err = run(*words, capsys=capsys)
    assert (found, out, one_line(err)) == (code, "", True), err
    return err


def one_line(err):
    """Whether a command said one line of its own and no traceback."""
    said = [line for line in err.splitlines() if line != "loading the model"]
    return len(said) == 1 and said[0].startswith("identifiable: ")


def says(text, *parts):
    return all(part in text for part in parts)


def files():
    return sorted(p.name for p in Path().iterdir() if p.name != "__pycache__")


def check_gates(words, *, holds, fails, undecided="", capsys):
    """That a run passes what holds, fails each of the others, and decides nothing it has not measured ("a > 1; b > 2")."""
    holds, fails, undecided = (text.split("; ") if text else [] for text in (holds, fails, undecided))

    def gated(*conditions):
        return run(*words, *(word for condition in conditions for word in ("--fail-if", condition)), capsys=capsys)

    code, _, err = gated(*holds)
    assert (code, "failed:" in err) == (0, False), err
    code, _, err = gated(*holds, *fails)
    failed = {line.partition("failed: ")[2] for line in err.splitlines() if "failed: " in line}
    assert code == 1
    assert {c for c in (*holds, *fails) if any(f": {c} (" in line for line in failed)} == set(fails), err
    for condition in undecided:
        before = files()
        assert condition in refused(*words, "--fail-if", condition, code=2, capsys=capsys)
        assert files() == before
