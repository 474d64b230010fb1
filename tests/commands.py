"""The command line as tests use it: called in this process, with what it printed."""

from __future__ import annotations

from pathlib import Path

from identifiable.cli import main


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
