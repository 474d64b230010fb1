"""What every command does alike: prints, writes, records, and refuses before the work."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from builders import make_mechanistic, make_reproduction, make_roeder, make_table1, make_table2
from commands import files, one_line, refused, run, says
from identifiable import experiments
from identifiable.api import load
from identifiable.cli import main
from identifiable.intake import default_provenance
from identifiable.results import SCHEMAS, without_time

CALLS = {
    "compare": "compare a.npy b.npy --no-intervals --nulls none --seed 3",
    "resolve": "resolve a.npy --restarts 1 --stability 0 --rank 2",
    "joint": "resolve a.npy b.npy --restarts 1 --stability 0",
    "bilipschitz": "bilipschitz a.npy --decoder model:decoder --directions 4",
    "mechanisms": "mechanisms a.npy --decoder model:decoder --blocks 2,1",
    "disentangle": "disentangle a.npy factors.csv --metrics mig --resolve whitened",
    "align": "align a.npy b.npy --no-curve --holdout 60 --seed 3",
    "heads": "heads h1.npy h2.npy --features a.npy b.npy --null-draws 2",
    "match": "match h1.npy h2.npy --null-draws 2 --unsigned",
    "layers": "layers stack.npz:a_* stack.npz:b_* --null-draws 2 --components 2",
    "extract": "extract model:net a.npy --output layers.safetensors --layers 0,last --batch 50",
    "audit": "deconfound audit wells.csv --permutations 20 --min-wells 4",
    "fig2": "reproduce fig2 --set pairs=3",
    "figA6": "reproduce figA6",
    "table1": "reproduce table1 --scale small",
    "table2": "reproduce table2 --scale small",
    "roeder": "reproduce roeder-fig3 --scale small",
    "mechanistic": "reproduce mechanistic --scale small",
}
MODEL = """
import numpy as np
print("loading the model")

class Squeeze:
    def jvp(self, z, v):
        return v * [2.0, 0.8, 1.0]

decoder = Squeeze()

def net():
    from torch import nn

    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    S = rng.gamma([1.0, 2.0, 3.0], size=(240, 3))
    np.save(folder / "a.npy", S @ rng.standard_normal((3, 3)))
    np.save(folder / "b.npy", S @ rng.standard_normal((3, 3)) + 0.01 * rng.standard_normal((240, 3)))
    (folder / "factors.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in (2 * S[:, :2]).astype(int)))
    (folder / "model.py").write_text(MODEL)
    for name in ("h1.npy", "h2.npy"):
        np.save(folder / name, rng.standard_normal((7, 3)))
    np.savez(
        folder / "stack.npz", **{f"{m}_{i}": np.load(folder / f"{m}.npy") ** (i + 1) for m in "ab" for i in (0, 1)}
    )
    assert main(["simulate", "cells", "--preset", "tiny", "-o", str(folder / "wells.csv"), "--quiet"]) == 0
    return folder


@pytest.fixture
def folder(source, tmp_path, monkeypatch):
    """The inputs of every command; nothing is trained: experiments give a result made by hand."""
    for path in source.iterdir():
        if path.is_file():
            (tmp_path / path.name).symlink_to(path)

    def stand_in(name, *, command, seed, **_):
        whole = {
            "table1": make_table1,
            "table2": make_table2,
            "roeder-fig3": make_roeder,
            "mechanistic": make_mechanistic,
        }
        made = whole.get(name, lambda **known: make_reproduction(name, pairs=3, **known))
        return made(provenance=default_provenance(seed, command))

    monkeypatch.setattr(experiments, "reproduce", stand_in)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("model", None)


def figures(path):
    return without_time(load(path)).to_json()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_json_and_page_are_written_and_the_recorded_command_gives_them_again(folder, capsys, call):
    words = shlex.split(call)
    code, out, err = run(*words, "--quiet", "--json", "r.json", "--report", "p.html", capsys=capsys)
    assert (code, out, err.replace("loading the model\n", "")) == (0, "", "")
    result = load("r.json")
    assert type(result) is SCHEMAS[json.loads(Path("r.json").read_text())["schema"]]
    assert run("report", "r.json", "-o", "again.html", capsys=capsys)[:2] == (0, "again.html\n")
    assert Path("p.html").read_bytes() == Path("again.html").read_bytes()
    again = shlex.split(result.provenance.command)
    assert again[0] == "identifiable"
    assert set(words) - {"--scale", "small"} <= set(again) or "--scale" in again
    code, out, _ = run(*again[1:], "--json", "-", capsys=capsys)
    Path("again.json").write_text(out)
    assert (code, figures("again.json")) == (0, figures("r.json"))


BEFORE_THE_WORK = [
    (["--report", "page.pdf"], 2, "page.pdf"),
    (["--report", "no/page.html"], 3, "no/page.html"),
    (["--json", "taken"], 3, "taken"),
    (["--json", "r.html", "--report", "./r.html"], 2, "r.html"),
    (["--fail-if", "no.such.field > 1"], 2, "no.such.field"),
    (["--fail-if", "n <"], 2, "n <"),
    (["--fail-if", "n > 1.2.3"], 2, "1.2.3"),
    (["--fail-if", "__class__.x > 1"], 2, "__class__"),
    (["--seed", "-1"], 2, "--seed -1"),
    (["--no-such-option"], 2, "--no-such-option"),
]


@pytest.mark.parametrize(("extra", "code", "part"), BEFORE_THE_WORK)
@pytest.mark.parametrize(
    "call",
    [
        "compare",
        "resolve",
        "align",
        "bilipschitz",
        "disentangle",
        "heads",
        "match",
        "layers",
        "extract",
        "audit",
        "fig2",
        "table2",
    ],
)
def test_what_cannot_be_done_is_one_line_before_the_work(folder, capsys, monkeypatch, call, extra, code, part):
    Path("taken").mkdir()
    before = files()
    words = (
        CALLS[call]
        .replace("a.npy", "absent.npy")
        .replace("match h1", "match absent")
        .replace("stack", "absent")
        .replace("wells.csv", "absent.csv")
    )
    monkeypatch.setattr(experiments, "reproduce", None)
    err = refused(*shlex.split(words), *extra, code=code, capsys=capsys)
    assert part in err
    assert "absent" not in err
    assert "loading" not in err
    assert files() == before


@pytest.mark.parametrize(
    ("call", "condition", "parts"),
    [
        ("compare", "rigid.null.chance.p > 1", ("'chance'", "shuffle, rotation")),
        ("compare", "rotation.held_out.q95 > 1", ("'rotation'", "signed_permutation")),
        ("compare", "rigid.held.q95 > 1", ("'held'", "in_sample, held_out, null")),
        ("compare", "rigid.held_out.q96 > 1", ("'q96'",)),
        ("compare", "rigid.held_out > 1", ("not a number",)),
        ("compare", "rigid.held_out.mean.x > 1", ("'x'",)),
        ("compare", "verdict.text > 1", ("verdict.text",)),
        ("compare", "q95 > 1", ("'q95'", "pairs.rungs.held_out.q95")),
        ("compare", "verdict.group < rigid", ("verdict.group", "==", "!=")),
        ("compare", "verdict.group == 3", ("'3'", "signed_permutation", "none")),
        ("compare", "verdict.degree == nearley", ("'nearley'", "nearly, largely", "none")),
        ("compare", "linear.r2.value == none", ("'none'", "linear.r2.value")),
        ("resolve", "converged == maybe", ("'maybe'", "converged")),
        ("resolve", "identifiable == true", ("identifiable == true", "'identifiable < 20'")),
        ("resolve", "shared < 10", ("'shared'", "rank, converged")),
        ("resolve", "rigid.held_out.q95 > 1", ("'rigid'",)),
        ("resolve", "density_edges < 3", ("density_edges",)),
        ("resolve", "whitening > 1", ("whitening", "fields")),
        ("resolve", "whitening.depth > 1", ("'depth'", "rank, dropped")),
        ("bilipschitz", "constants > 3", ("'constants'",)),
        ("bilipschitz", "constant.q96 > 3", ("'q96'",)),
        ("bilipschitz", "decoder > 3", ("decoder is", "==")),
        ("align", "recall_11 > 1", ("'recall_11'",)),
        ("align", "advice == maybe", ("'maybe'", "run_both")),
        ("heads", "r3 > 1", ("'r3'",)),
        ("heads", "heads.rang < 3", ("'rang'", "rank")),
        ("fig2", "spearmen > 3", ("'spearmen'",)),
        ("fig2", "maximum.spearmen > 3", ("'spearmen'",)),
        ("fig2", "maximum > 3", ("'maximum'",)),
        ("fig2", "spearman.x > 3", ("'x' is not",)),
        ("fig2", "removed == true", ("removed is a",)),
    ],
)
def test_a_condition_that_cannot_be_read_names_what_can_stand_there(
    folder, capsys, monkeypatch, call, condition, parts
):
    monkeypatch.setattr(experiments, "reproduce", None)
    words = (
        CALLS[call].replace("a.npy", "absent.npy").replace("stack", "absent").replace("--stability 0", "--stability 2")
    )
    err = refused(*shlex.split(words), "--fail-if", condition, code=2, capsys=capsys)
    assert says(err, *parts)
    assert "absent" not in err
    assert "loading" not in err


@pytest.mark.parametrize(
    ("call", "condition"),
    [
        (
            "compare --nulls rotation --null-draws 3",
            "rigid.null.rotation.p < 1",
        ),  # turning says nothing of rigid motions
        ("bilipschitz --directions 0", "random_directions.share < 0.5"),
    ],
)
def test_a_gate_that_cannot_decide_leaves_no_output(folder, capsys, call, condition):
    name, *more = call.split()
    before = files()
    words = [*shlex.split(CALLS[name]), *more, "--json", "r.json", "--fail-if", condition]
    assert "gate cannot decide" in refused(*words, code=2, capsys=capsys)
    assert files() == before


@pytest.mark.parametrize("call", ["compare", "resolve", "bilipschitz", "disentangle", "heads", "extract", "audit"])
def test_an_input_is_never_written_over(folder, capsys, call):
    words = shlex.split(CALLS[call])
    table = next(word for word in words if word.endswith((".npy", ".csv")))
    before = Path(table).read_bytes()
    for flag, target in (("--json", f"./{table}"), ("--report", "link.html")):
        Path("link.html").unlink(missing_ok=True)
        Path("link.html").symlink_to(table)
        assert target in refused(*words, flag, target, code=3, capsys=capsys)
    assert Path(table).read_bytes() == before


@pytest.mark.parametrize(
    "command",
    [
        "compare",
        "resolve",
        "transform",
        "bilipschitz",
        "disentangle",
        "heads",
        "extract",
        "reproduce",
        "report",
        "demo",
    ],
)
def test_help_of_every_command_shows_an_example(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    told = capsys.readouterr().out
    assert f"example:\n  identifiable {command}" in told
    assert "(default )" not in " ".join(told.split())
    for name in re.findall(r"^  --no-(\S+)", told, re.MULTILINE):  # an option stands before its opposite
        assert f"\n  --{name}" in told.partition(f"\n  --no-{name}")[0]


def test_no_command_prints_help_and_an_unknown_one_is_refused(capsys):
    code, out, _ = run(capsys=capsys)
    assert (code, "COMMAND" in out) == (2, True)
    assert "nonsense" in refused("nonsense", code=2, capsys=capsys)
    assert one_line(run("report", "r.json", capsys=capsys)[2])


HOSTILE = "a\x1b]0;x\x07\x1b[2J\x9b31m\u202e.npy"


def test_names_that_would_steer_a_terminal_are_written_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save(HOSTILE, np.random.default_rng(0).laplace(size=(60, 2)))
    code, out, err = run(
        "resolve", HOSTILE, "--stability", "0", "-o", HOSTILE.replace("npy", "safetensors"), capsys=capsys
    )
    assert code == 0
    assert "a\\x1b]0;x\\x07" in out
    code, refusal, said = run("compare", HOSTILE, "none" + HOSTILE, capsys=capsys)
    assert code == 3
    assert "\\x1b" in said
    for text in (out, err, refusal, said):
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & {*text}
