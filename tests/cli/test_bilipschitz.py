"""`identifiable bilipschitz` on the command line: what it prints, writes and returns, and every way to use it wrongly."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from commands import check_gates, files, one_line, refused, run
from errors import naming
from identifiable import bilipschitz
from identifiable.api import load
from identifiable.cli import main
from identifiable.results import Distortion, without_time

MODEL = """
import numpy as np

print("loading the model")


class Squeeze:
    def __init__(self, *factors):
        self.factors = np.array(factors)

    def jvp(self, z, v):
        return v * self.factors


decoder = Squeeze(2.0, 0.8, 1.0)
flat = Squeeze(2.0, 0.0, 1.0)


class Holes:
    def jvp(self, z, v):
        return np.where(z[:, :1] < 0.9, 2 * v, np.nan)


holes = Holes()
number = 7


class Holder:
    inner = decoder


def make_decoder():
    return decoder


def jvp(z, v):
    return decoder.jvp(z, v)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with latents and a model as the current directory; what is imported from it is forgotten afterwards."""
    np.save(tmp_path / "latents.npy", np.random.default_rng(0).uniform(-1, 1, (250, 3)))
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "broken.py").write_text("raise RuntimeError('no\\nGPU')\n")
    (tmp_path / "needy.py").write_text("import no_such_library\n")
    (tmp_path / "script.py").write_text("raise SystemExit(4)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


CALL = ["bilipschitz", "latents.npy", "--decoder", "model:decoder"]


def test_the_example_of_the_help_runs_and_writes_its_page(folder, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["bilipschitz", "--help"])
    told = capsys.readouterr().out
    assert "module:attribute" in told
    (example,) = re.findall(r"example:\n  identifiable (.*)", told)
    code, out, _ = run(*shlex.split(example), capsys=capsys)
    assert code == 0
    assert all(value in out for value in ("1.581", "0.791"))
    assert out.endswith("page: distortion.html\n")
    assert Path("distortion.html").stat().st_size > 10_000


def test_command_line_and_python_give_the_same_result(folder, capsys):
    assert run(*CALL, "--seed", "3", "--directions", "4", "--json", "r.json", "--quiet", capsys=capsys)[:2] == (0, "")
    found = load("r.json")
    assert isinstance(found, Distortion)
    assert shlex.split(found.provenance.command) == ["identifiable", *CALL, "--directions", "4", "--seed", "3"]
    from model import decoder

    expected = bilipschitz(
        decoder, "latents.npy", seed=3, directions=4, name="model:decoder", command=found.provenance.command
    )
    assert without_time(found).to_json() == without_time(expected).to_json()
    assert run(*CALL, "--json", "r.json", "--quiet", capsys=capsys)[0] == 0
    assert without_time(load("r.json")).to_json() != without_time(found).to_json()
    assert load("r.json").provenance.command == f"identifiable {' '.join(CALL)}"


@pytest.mark.parametrize("attribute", ["decoder", "jvp", "Holder.inner"])
def test_objects_functions_and_attributes_of_attributes_are_decoders(folder, capsys, attribute):
    words = ["bilipschitz", "latents.npy", "--decoder", f"model:{attribute}", "--json", "r.json", "--quiet"]
    assert run(*words, capsys=capsys)[0] == 0
    assert (load("r.json").largest, load("r.json").decoder) == (2.0, f"model:{attribute}")


def test_fail_if_decides_the_exit_code(folder, capsys):
    check_gates(
        [*CALL, "--quiet"],
        holds=(
            "constant > 3; best_constant > 1.6; condition >= 2.6; sigma_min < 0.7; deficient > 0; "
            "undefined > 0; supremum.estimate > 2.5"
        ),
        fails=(
            "constant.q95 > 1.9; best_constant > 1.5; condition >= 2.4; sigma_min < 0.9; random_directions.share < 2"
        ),
        capsys=capsys,
    )
    flat = ["bilipschitz", "latents.npy", "--decoder", "model:flat", "--quiet"]
    infinite = "deficient > 0; constant > 1000; best_constant > 1000"
    check_gates(flat, holds="undefined > 0", fails=infinite, capsys=capsys)


def test_what_a_decoder_does_where_it_has_no_derivative_decides_no_gate(folder, capsys):
    words = ["bilipschitz", "latents.npy", "--decoder", "model:holes", "--quiet"]
    missing = int((np.load("latents.npy")[:, 0] >= 0.9).sum())
    assert missing > 0
    judged = "constant > 3; constant > 1; sigma_min.q05 < 1; best_constant > 2; deficient > 0; supremum.estimate > 3"
    check_gates(words, holds="n < 3", fails="undefined > 0", undecided=judged, capsys=capsys)
    assert f"{missing} of 250 points" in refused(*words, "--fail-if", "constant > 3", code=2, capsys=capsys)
    found = bilipschitz(__import__("model").holes, "latents.npy")
    assert re.search(naming(250 - missing, 250, missing), found.headline)


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        ("model", "--decoder model:"),
        (":decoder", "--decoder :decoder:"),
        ("model:", "--decoder model::"),
        ("model.py:decoder", "write model:decoder"),
        ("./sub/model.py:decoder", "write sub.model:decoder"),
        ("modle:decoder", "no module modle"),
        ("model.sub:decoder", "importing model.sub failed|no module model.sub"),
        ("needy:decoder", "'no_such_library'"),
        ("broken:decoder", "broken failed (RuntimeError: no GPU)"),
        ("script:decoder", "exit code 4"),
        ("model:decodr", "'decodr'"),
        ("model:Holder.outer", "'Holder.outer'"),
        ("model:Squeeze", "model:Squeeze: expected a"),
        ("model:make_decoder", "without arguments"),
        ("model:number", "got int"),
    ],
)
def test_what_is_no_decoder_is_one_line_exit_2_and_no_output(folder, capsys, decoder, message):
    words = ["bilipschitz", "latents.npy", "--decoder", decoder, "--json", "r.json"]
    code, out, err = run(*words, capsys=capsys)
    assert (code, out, one_line(err)) == (2, "", True), err
    assert any(part in err for part in message.split("|")), err
    assert "r.json" not in files()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["bilipschitz", "latents.npy"], 2, "--decoder"),
        ([*CALL, "--shape", "a,b"], 2, "--shape 'a':"),
        ([*CALL, "--shape", "2,2"], 2, "shape 2x2:"),
        (["bilipschitz", "none.npy", "--decoder", "model:decoder"], 3, "none.npy"),
        (["bilipschitz", "latents.npy", "--decoder", "none.pt2"], 3, "none.pt2:"),
    ],
)
def test_wrong_usage_and_bad_data_are_one_line(folder, capsys, words, code, message):
    before = Path("latents.npy").read_bytes()
    found, out, err = run(*words, capsys=capsys)
    assert (found, out, one_line(err)) == (code, "", True), err
    assert message in err
    assert Path("latents.npy").read_bytes() == before


def test_a_decoder_of_other_latents_is_one_line(folder, capsys):
    np.save("four.npy", np.zeros((5, 4)))
    code, out, err = run("bilipschitz", "four.npy", "--decoder", "model:decoder", capsys=capsys)
    assert (code, out, one_line(err)) == (3, "", True)
    assert re.search(naming("model:decoder: ", "1 points", "4 latents", "(ValueError: "), err)


def test_torch_modules_of_any_shape_and_programs_are_decoders(folder, capsys):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    Path("net.py").write_text(
        "import torch\ntorch.manual_seed(0)\ndecoder = torch.nn.Conv1d(1, 2, 3, padding=1).double().eval()\n"
    )
    words = ["bilipschitz", "latents.npy", "--decoder", "net:decoder", "--json", "r.json", "--quiet"]
    assert run(*words, "--shape", "1,3", capsys=capsys)[0] == 0
    found = load("r.json")
    assert (found.latents, found.outputs) == (3, 6)
    assert shlex.split(found.provenance.command) == ["identifiable", *words[:4], "--shape", "1,3"]
    from net import decoder

    rows = torch.nn.Sequential(torch.nn.Unflatten(1, (1, 3)), decoder)
    example = (torch.zeros(4, 3).double(),)
    torch.export.save(torch.export.export(rows, example, dynamic_shapes=({0: torch.export.Dim("batch")},)), "net.pt2")
    assert run(*words[:3], "net.pt2", *words[4:], capsys=capsys)[0] == 0
    assert load("r.json").constant == pytest.approx(found.constant)
    code, out, err = run(*words[:3], "net.pt2", "--json", "net.pt2", capsys=capsys)
    assert (code, out, one_line(err), "of the inputs" in err) == (3, "", True, True)
