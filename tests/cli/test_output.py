"""What a command says, and where: an exit code does not depend on who listens, and stdout is for the result."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import children
from commands import files, refused, run
from errors import naming
from identifiable.cli.output import Stderr, tell

FULL = "/dev/full"
pytestmark = pytest.mark.skipif(not os.path.exists(FULL), reason="needs /dev/full, a disk that is always full")
MODEL = """
import os, sys
import numpy as np

class Decoder:
    def __init__(self, act=lambda: None):
        self.act = act

    def jvp(self, z, v):
        self.act()
        return 2 * v

def stop(error):
    raise error

quiet = Decoder()
prints = Decoder(lambda: print("talk"))
talks = Decoder(lambda: (print("talk"), os.write(1, b"noise"), os.system("echo child")))
exits = Decoder(lambda: sys.exit(1))
leaves = Decoder(lambda: sys.exit())
base = Decoder(lambda: stop(BaseException("of nothing")))
interrupts = Decoder(lambda: stop(KeyboardInterrupt()))
closes = Decoder(lambda: sys.stderr.close())
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "z.npy", rng.standard_normal((12, 2)))
    np.save(tmp_path / "a.npy", rng.laplace(size=(120, 2)))
    (tmp_path / "talkative.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("talkative", None)


def shell(line):
    """A command as a shell runs it: exit code, stdout, stderr."""
    done = children.run(["bash", "-c", f"{shlex.quote(sys.executable)} -m identifiable {line}"])
    return done.returncode, done.stdout, done.stderr


GATE = "--fail-if 'constant > 1' --fail-if 'constant > 9'"
CODES = {
    "simulate sources -o s.npy --rows 50": 0,
    f"bilipschitz z.npy --decoder talkative:quiet {GATE}": 1,
    "compare a.npy a.npy --folds 0": 2,
    "compare a.npy a.npy --bogus": 2,
    "compare a.npy nowhere.npy": 3,
    "bilipschitz z.npy --decoder talkative:prints --quiet": 0,
    "bilipschitz z.npy --decoder talkative:closes --quiet": 0,
}


@pytest.mark.parametrize("line", CODES)
@pytest.mark.parametrize("stderr", ["2>/dev/full", "2> >(exit 0)", "2>/dev/null"])
def test_the_exit_code_is_the_same_where_nothing_can_be_said(folder, line, stderr):
    assert shell(f"{line} {stderr}")[0] == CODES[line]


def test_a_stream_that_fails_raises_nothing_and_one_that_does_not_gets_all():
    with pytest.raises(OSError, match="space"), Path(FULL).open("w") as full:
        print("lost", file=full)
    with Path(FULL).open("w") as full:
        stream = Stderr(full)
        print("lost", file=stream, flush=True)
        assert stream.fileno() == full.fileno()
    heard = io.StringIO()
    print("heard", file=Stderr(heard))
    assert heard.getvalue() == "heard\n"


def test_what_is_told_cannot_move_the_cursor(capsys):
    tell("\x1b[2J")
    assert capsys.readouterr().err == "\\x1b[2J\n"


@pytest.mark.parametrize("line", ["--help", "--version", "compare --help", "deconfound audit --help"])
def test_help_that_cannot_be_written_is_an_error_as_a_result_is(folder, line):
    code, _, err = shell(f"{line} >{FULL}")
    assert (code, err.count("\n")) == (3, 1)
    code, out, err = shell(line)
    assert (code, err) == (0, "")
    assert out


def test_json_on_stdout_stands_alone_whatever_a_decoder_prints(folder):
    code, out, err = shell("bilipschitz z.npy --decoder talkative:talks --json -")
    assert code == 0
    assert json.loads(out)["n"] == 12
    assert all(word in err for word in ("talk", "noise", "child"))


ASIDE = """
import os
from identifiable.cli.output import prints_aside
try:
    with prints_aside():
        os.write(1, b"aside")
        raise KeyError
except KeyError:
    os.write(1, b"result")
"""


def test_stdout_is_itself_again_after_the_code_of_a_user():
    done = children.run([sys.executable, "-c", ASIDE])
    assert (done.stdout, done.stderr) == ("result", "aside")


@pytest.mark.parametrize("command", ["bilipschitz", "mechanisms"])
@pytest.mark.parametrize("how", ["exits", "leaves", "base"])
def test_a_decoder_that_ends_the_process_is_an_error_of_the_decoder(folder, capsys, command, how):
    err = refused(command, "z.npy", "--decoder", f"talkative:{how}", "--json", "r.json", code=3, capsys=capsys)
    assert f"talkative:{how}" in err
    assert "r.json" not in files()


def test_an_interrupt_in_a_decoder_stays_one(folder, capsys):
    assert run("bilipschitz", "z.npy", "--decoder", "talkative:interrupts", capsys=capsys)[0] == 130


def test_a_page_does_not_go_to_stdout_between_the_lines_of_the_table(folder, capsys):
    assert "-" in refused("compare", "a.npy", "a.npy", "--report", "-", code=2, capsys=capsys)
    assert "-" not in files()


LONG = "n" * 252
TOO_LONG = (
    f"resolve a.npy -o {LONG}.safetensors",
    f"compare a.npy a.npy --report {LONG}.html",
    f"compare a.npy a.npy --json {LONG}.json",
    f"compare a.npy a.npy --rows-out {LONG}.csv",
    f"resolve a.npy --checkpoint {LONG}long",
    f"simulate sources -o {LONG}.npy",
    f"simulate sources -o {LONG}long",
    f"mechanisms z.npy --decoder {LONG}.pt2",
    f"extract {LONG}long a.npy -o e.safetensors",
    f"compare a.npy {LONG}.npy",
)


@pytest.mark.parametrize("line", TOO_LONG, ids=lambda line: line.split()[0])
def test_a_name_that_no_file_can_have_is_one_line(folder, capsys, line):
    before = files()
    assert re.search(naming(LONG), refused(*shlex.split(line), code=3, capsys=capsys))
    assert files() == before


@pytest.mark.parametrize("stem", ["n" * 251, "n" * 240, "\N{GREEK SMALL LETTER ALPHA}" * 125 + "n"])
def test_a_name_that_a_file_can_have_is_written(folder, capsys, stem):
    words = ["compare", "a.npy", "a.npy", "--no-intervals", "--nulls", "none", "--quiet", "--json", f"{stem}.txt"]
    assert run(*words, capsys=capsys)[0] == 0
    assert f"{stem}.txt" in files()
