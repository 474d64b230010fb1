"""`identifiable reproduce` on the command line: what it asks for, prints and writes, and every way to use it wrongly.

Hardly anything is trained here: the call that would is replaced by one that remembers how it was called.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

import children
from builders import make_reproduction, make_roeder, make_table2
from commands import check_gates, files, one_line, run, says
from identifiable import experiments
from identifiable.api import load
from identifiable.cli import main, progress
from identifiable.intake import default_provenance
from identifiable.results import Table2
from identifiable.run import Stage

CALL = ["reproduce", "fig2"]


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """An empty current directory, and what `reproduce` was called with."""
    made = []

    def stand_in(name, *, command, **options):
        provenance = default_provenance(options["seed"], command)
        made.append({"name": name, **options})
        print("training")  # as a library below might
        if name == "table2":
            for k in (1, 2):
                if options["progress"] is not None:
                    options["progress"](Stage(f"model {k}"), 1, 2)
                if options["say"] is not None:
                    options["say"](f"run {k}/2: sprites")
            return make_table2(provenance=provenance)
        if name.startswith("roeder-"):
            return make_roeder(name, provenance=provenance)
        return make_reproduction(name, pairs=3, below=0.3, provenance=provenance)

    monkeypatch.setattr(experiments, "reproduce", stand_in)
    monkeypatch.chdir(tmp_path)
    return made


def test_the_example_of_the_help_makes_the_call_and_writes_its_page(calls, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["reproduce", "--help"])
    (example,) = re.findall(r"example:\n  identifiable (.*)", capsys.readouterr().out)
    code, out, err = run(*shlex.split(example), capsys=capsys)
    assert (code, err) == (0, "training\n")
    assert out.startswith("Figure 2")
    assert out.endswith("page: fig2.html\n")
    assert Path("fig2.html").stat().st_size > 10_000
    (call,) = calls
    assert isinstance(call.pop("progress"), progress.Lines)
    assert callable(call.pop("say"))
    expected = {"name": "fig2", "scale": "smoke", "data": None, "seed": 0, "checkpoint": None, "changes": {}}
    assert call == expected


def test_every_option_reaches_the_call(calls, capsys):
    Path("mnist.npz").write_bytes(b"")
    words = ["--scale", "small", "--data", "mnist.npz", "--seed", "3", "--checkpoint", "kept", "--set", "pairs=4"]
    assert run("reproduce", "figA6", *words, "--quiet", capsys=capsys)[:2] == (0, "")
    (call,) = calls
    given = {"scale": "small", "data": "mnist.npz", "seed": 3, "checkpoint": "kept", "changes": {"pairs": 4}}
    assert call == {"name": "figA6", "progress": None, "say": None, **given}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("epochs=50", 50),
        ("rate=1e-3", 0.001),
        ("leaks=0.1,0.5,1", (0.1, 0.5, 1)),
        ("leaks = 0.1, 0.5", (0.1, 0.5)),
        ("leaks=0.5,", (0.5,)),
        ("kind=relu", "relu"),
        ("kinds=relu,tanh", ("relu", "tanh")),
        ("kind=nan", "nan"),  # a word, for the experiment to refuse
        ("kind=a=b", "a=b"),
    ],
)
def test_settings_are_whole_numbers_numbers_words_and_lists_of_them(calls, capsys, text, value):
    assert run(*CALL, "--set", text, "--quiet", capsys=capsys)[0] == 0
    (found,) = calls[0]["changes"].values()
    assert (found, type(found)) == (value, type(value))


def test_settings_may_repeat_and_dashes_in_names_do_not_matter(calls, capsys):
    assert run(*CALL, "--set", "max-epochs=5", "--set", "pairs=2", "--quiet", capsys=capsys)[0] == 0
    assert calls[0]["changes"] == {"max_epochs": 5, "pairs": 2}


def test_the_recorded_command_gives_the_same_call_again(calls, capsys):
    words = ["--scale", "small", "--data", "my data.npz", "--set", "leaks=0.1,1", "--set", "pairs=2", "--seed", "3"]
    assert run(*CALL, *words, "--checkpoint", "kept", "--json", "r.json", "--quiet", capsys=capsys)[0] == 0
    command = load("r.json").provenance.command
    assert command == shlex.join(["identifiable", *CALL, *words])
    assert run(*shlex.split(command)[1:], "--quiet", capsys=capsys)[0] == 0
    assert calls[1] == {**calls[0], "checkpoint": None}
    assert run(*CALL, "--json", "r.json", "--quiet", capsys=capsys)[0] == 0
    assert load("r.json").provenance.command == "identifiable reproduce fig2"


def test_fail_if_decides_the_exit_code(calls, capsys):
    check_gates(
        [*CALL, "--quiet"],
        holds=("spearman < 0.5; spearman_low < 0.5; within_leak < 0.2; r2 < 0.5; sample.slope > 1; runs < 18"),
        fails=(
            "spearman > 0.5; mean.spearman_low < 0.9; spearman_high > 0.9; within_leak < 0.3; "
            "maximum.r2 > 0.5; removed > 2; runs < 19; filter_threshold > 0.03"
        ),
        capsys=capsys,
    )
    check_gates(
        ["reproduce", "table2", "--quiet"],
        holds="lift < 0.1; lift_low < 0.2; before > 0.4; infoe_difference > 0.01",
        fails="lift < 2; lift_low < 0.22; lift_high > 0.3; after > 0.6",
        capsys=capsys,
    )
    check_gates(
        ["reproduce", "roeder-fig3", "--quiet"],
        holds="claims.does_not > 2; claims.paper.does_not > 1; claims.agrees < 1; removed > 2; means.cca.shuffled > 0.1; models < 3",
        fails="claims.does_not > 1; claims.paper.does_not > 0; claims.cannot_tell > 0; removed > 1; "
        "claims.difference_ci95.low < 0; models > 2",
        capsys=capsys,
    )


def test_a_gate_that_cannot_decide_fails_but_keeps_what_took_hours(calls, capsys, monkeypatch):
    monkeypatch.setattr(experiments, "reproduce", lambda *_, **__: make_reproduction(pairs=2, known=False))
    code, _, err = run(*CALL, "--fail-if", "spearman < 0.5", "--json", "r.json", capsys=capsys)
    assert (code, one_line(err)) == (2, True)
    assert "gate cannot decide" in err
    assert files() == ["r.json"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["reproduce"], 2, "fig2, figA6, table1, table2, table3, roeder-fig1, "),
        (["reproduce", "fig2", "--list"], 2, "leave 'fig2' out"),
        (["reproduce", "fig2", "figA6"], 2, "arguments: figA6"),
        ([*CALL, "--set", "epochs"], 2, "--set 'epochs': expected NAME=VALUE"),
        ([*CALL, "--set", "epochs="], 2, "--set 'epochs=': expected NAME=VALUE"),
        ([*CALL, "--set", "=5"], 2, "--set '=5': expected NAME=VALUE"),
        ([*CALL, "--set", "leaks=1,,2"], 2, "--set 'leaks=1,,2': expected NAME=VALUE"),
        ([*CALL, "--set", "pairs=1", "--set", "pairs=2"], 2, "--set 'pairs=2': "),
        ([*CALL, "--data", "mnist.npz", "--json", "mnist.npz"], 3, "of the inputs"),
        ([*CALL, "--checkpoint", "mnist.npz"], 3, "mnist.npz: expected a"),
    ],
)
def test_wrong_usage_is_one_line_before_the_work(calls, capsys, words, code, message):
    Path("mnist.npz").write_bytes(b"pictures")
    found, out, err = run(*words, capsys=capsys)
    assert (found, out, one_line(err)) == (code, "", True), err
    assert message in err
    assert calls == []
    assert Path("mnist.npz").read_bytes() == b"pictures"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce", "fig3"], "'fig3'; choose from fig2, figA6, table1"),
        ([*CALL, "--scale", "large"], "scale 'large'"),
        ([*CALL, "--set", "no_such_setting=1"], "no_such_setting"),
    ],
)
def test_unknown_names_scales_and_settings_are_refused_by_the_real_call(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*words, "--json", "r.json", capsys=capsys)
    assert (code, out, one_line(err)) == (2, "", True), err
    assert message in err
    assert files() == []


def test_the_list_has_every_experiment_with_its_figures_data_and_scales(calls, capsys):
    code, out, err = run("reproduce", "--list", capsys=capsys)
    assert (code, err) == (0, "")
    told = " ".join(out.split())
    for name, found in experiments.EXPERIMENTS.items():
        assert f"{name} " in told
        for words in (found.title, found.figures, found.data, ", ".join(found.scales)):
            assert words in told
    assert max(map(len, out.splitlines())) <= 100
    assert calls == []


WITHOUT_TORCH = (
    "import sys; sys.modules['torch'] = None; from identifiable.cli import main; sys.exit(main(sys.argv[1:]))"
)


def test_without_torch_the_list_is_shown_and_the_rest_says_what_to_install(tmp_path):
    def alone(*words):
        line = [sys.executable, "-c", WITHOUT_TORCH, "reproduce", *words]
        return children.run(line, cwd=tmp_path)

    listed = alone("--list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "figA6" in listed.stdout
    refused = alone("fig2", "--json", "r.json")
    assert (refused.returncode, refused.stdout, one_line(refused.stderr)) == (2, "", True), refused.stderr
    assert says(refused.stderr, "torch", "[nn]'")
    assert list(tmp_path.iterdir()) == []


# -- table2


def test_a_line_for_every_run_goes_to_stderr_and_none_when_quiet(calls, capsys):
    code, out, err = run("reproduce", "table2", "--json", "-", capsys=capsys)
    assert (code, err.splitlines()) == (0, ["training", "run 1/2: sprites", "run 2/2: sprites"])
    assert json.loads(out)["schema"] == "identifiable/reproduce-table2/1"
    code, out, err = run("reproduce", "table2", "--quiet", capsys=capsys)
    assert (code, out, err) == (0, "", "training\n")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(text):
    """What a terminal shows of it in the end: a line for each newline, each from where it was last cleared."""
    return [line.split(progress.CLEAR)[-1] for line in text.split("\n")]


@pytest.fixture
def at_once(monkeypatch):
    """A bar that draws whenever it is called."""
    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.setattr(progress, "SHORT", 0.0)


def test_on_a_terminal_the_lines_stay_and_the_bar_is_taken_back(calls, monkeypatch, at_once):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert main(["reproduce", "table2", "--json", "r.json"]) == 0
    assert shown(screen.getvalue()) == ["training", "run 1/2: sprites", "run 2/2: sprites", ""]
    assert "model 1" in screen.getvalue()
    assert "[" in screen.getvalue()
    assert "model 1" not in "".join(shown(screen.getvalue()))


def test_a_line_above_the_bar_clears_it_and_the_bar_is_drawn_again_below(at_once):
    screen = Terminal()
    with progress.Bar(screen) as bar:
        bar(Stage("training"), 1, 4)
        bar.say("run 1/2")
        assert shown(screen.getvalue()) == ["run 1/2", ""]
        bar(Stage("training"), 2, 4)
        first, second = shown(screen.getvalue())
        assert first == "run 1/2"
        assert second.startswith("training")
    assert shown(screen.getvalue()) == ["run 1/2", ""]


def test_a_bar_that_only_said_lines_clears_nothing_after_them():
    screen = Terminal()
    with progress.Bar(screen) as bar:
        bar.say("run 1/1")
    assert screen.getvalue() == f"{progress.CLEAR}run 1/1\n"


def test_a_gate_on_a_lift_that_is_not_known_cannot_decide(calls, capsys, monkeypatch):
    nothing = make_table2(missing=[("AE + ICA", data) for data in ("all", "sprites", "scene")])
    monkeypatch.setattr(experiments, "reproduce", lambda *_, **__: nothing)
    code, _, err = run("reproduce", "table2", "--fail-if", "lift < 2", "--json", "r.json", capsys=capsys)
    assert (code, one_line(err)) == (2, True)
    assert "gate cannot decide" in err
    assert files() == ["r.json"]


TINY_TABLE2 = ["data=sprites", "models=ae", "seeds=1", "resolution=8", "widths=4", "dense=8", "latents-per-factor=1"]
TINY_TABLE2 += ["rows=60", "validation=60", "sprite_sizes=3,2,2,3,2", "steps=2", "evaluations=1", "batch=8"]


def test_table2_runs_for_real_at_the_smallest_settings(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    words = ["reproduce", "table2", "--scale", "smoke", *(w for text in TINY_TABLE2 for w in ("--set", text))]
    outputs = ["--json", "r.json", "--report", "p.html", "--checkpoint", "kept"]
    code, out, err = run(*words, *outputs, "--fail-if", "lift < 2", capsys=capsys)
    first, second = err.splitlines()
    assert code == 1
    assert says(first, "run 1/1", "sprites, AE", "decay 0", "seed 0", "2 steps")
    assert says(second, "failed", "table2", "lift < 2", "(lift = ")
    assert out.startswith("Table 2")
    found = load("r.json")
    assert isinstance(found, Table2)
    assert (found.data, found.settings["widths"], len(found.runs)) == (("sprites",), [4], 1)
    assert shlex.split(found.provenance.command)[1:7] == [*words[:2], "--set", "data=sprites", "--set", "models=ae"]
    assert files() == ["kept", "p.html", "r.json"]
    assert run(*words, "--quiet", "--checkpoint", "kept", "--json", "again.json", capsys=capsys) == (0, "", "")
    assert [r.evaluations for r in load("again.json").runs] == [r.evaluations for r in found.runs]
    wrong = run(*words, "--set", "profile=hsu", "--json", "no.json", capsys=capsys)
    assert wrong[:2] == (2, "")
    assert one_line(wrong[2])
    assert not Path("no.json").exists()
