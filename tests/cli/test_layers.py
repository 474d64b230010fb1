"""`identifiable layers`: what it prints, writes, gates and refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from commands import check_gates, files, refused, run
from identifiable.api import load

DATA = Path("/work/shared/data/rxnfp_three_encoders.npz")
CALL = ["layers", "a.safetensors", "m.npz:b_*"]
QUICK = ["--null-draws", "2"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    first = {f"layer_{i}": rng.standard_normal((80, 4)) for i in range(3)}
    save_file({**first, "ids": np.arange(80)}, "a.safetensors")
    save_file({"layer_0": np.ones((3, 2)), "layer_1": np.ones((3, 2))}, "short.safetensors")
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    second = {
        f"b_{i}": (rows @ turn + 0.1 * rng.standard_normal((80, 4)))[::-1] for i, rows in enumerate(first.values())
    }
    before = {f"b0_{i}": rng.standard_normal((80, 4)) for i in range(3)}
    np.savez("m.npz", **second, **before, ids=np.arange(80)[::-1], other=np.ones((9, 2)))
    np.savez("ids.npz", x=first["layer_0"], y=first["layer_1"], ids=np.arange(80) + 80)
    np.savez("one.npz", x=first["layer_0"], ids=np.arange(80))
    np.savez("none.npz", x=np.ones(80))
    return tmp_path


def test_the_sentence_comes_first_and_the_next_command_last(folder, capsys):
    code, out, err = run(*CALL, "--json", "r.json", "--report", "p.html", capsys=capsys)
    assert (code, err) == (0, "")
    assert "3 of 3" in out.splitlines()[1]
    found = load("r.json")
    weakest = min(found.diagonal, key=lambda pair: pair.cka)
    command = f"identifiable compare a.safetensors:{weakest.first} m.npz:{weakest.second}"
    assert command in out
    assert (found.names, found.sources, found.n) == (("a", "m"), ("a.safetensors", "m.npz"), 80)
    assert [i.name for i in found.inputs][::5] == ["a:layer_0", "m:b_2"]
    assert Path("p.html").stat().st_size > 10_000
    assert run(*command.split()[1:], "--quiet", "--no-intervals", "--no-axes", "--nulls", "none", capsys=capsys)[0] == 0


def test_an_untrained_pair_from_one_file_and_chosen_layers(folder, capsys):
    words = [*CALL, "--untrained", "m.npz:b0_*", "m.npz:b0_*", "--layers", "0,last", *QUICK, "--json", "-"]
    code, out, _ = run(*words, capsys=capsys)
    Path("r.json").write_text(out)
    found = load("r.json")
    assert (code, [pair.first for pair in found.diagonal]) == (0, ["layer_0", "layer_2"])
    assert (found.above_untrained, found.grid("untrained").first) == (0, ("b0_0", "b0_2"))
    assert found.provenance.command.endswith("--layers 0,last --untrained 'm.npz:b0_*' 'm.npz:b0_*' --null-draws 2")


def test_gates(folder, capsys):
    check_gates(
        [*CALL, *QUICK, "--quiet"],
        holds="diagonal.cka < 0.5; matched < 3; matches.gap_low < 0",
        fails="diagonal.cka > 0.5; same == 3; diagonal.r2_back_low > 0.1; text.code == layers_one_to_one",
        capsys=capsys,
    )
    assert "layer_0, b_0" in run(*CALL, *QUICK, "--quiet", "--fail-if", "diagonal.cka > 0.5", capsys=capsys)[2]


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (["layers", "absent.npz", "m.npz:b_*"], 3, ["absent.npz"]),
        (["layers", "a.safetensors", "m.npz"], 3, ["m.npz", "80", "9"]),
        (["layers", "a.safetensors", "m.npz:c_*"], 3, ["c_*", "b_0"]),
        (["layers", "a.safetensors", "none.npz"], 3, ["none.npz"]),
        (["layers", "one.npz", "one.npz"], 2, ["compare"]),
        (["layers", "a.safetensors", "ids.npz"], 3, ["share 0", "80"]),
        (["layers", "short.safetensors", "short.safetensors"], 3, ["3 rows"]),
        (["layers", "a.safetensors"], 2, ["B"]),
        ([*CALL, "--untrained", "one.npz"], 2, ["--untrained"]),
        ([*CALL, "--untrained", "one.npz", "one.npz"], 3, ["1 layers"]),
        ([*CALL, "--layers", "9"], 3, ["9", "layer_0"]),
        ([*CALL, "--components", "0"], 2, ["--components 0"]),
        ([*CALL, "--json", "a.safetensors"], 3, ["a.safetensors"]),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_lost(folder, capsys, words, code, parts):
    before = files()
    err = refused(*words, code=code, capsys=capsys)
    assert all(part in err for part in parts)
    assert files() == before


@pytest.mark.skipif(
    not DATA.exists(), reason=f"{DATA} is not here; planted layers are in tests/identifiability/test_layers.py"
)
def test_encoders_in_one_file_are_told_apart_by_patterns(folder, capsys):
    words = ["layers", f"{DATA}:ft_mean_*", f"{DATA}:ft_10k_mean_*", "--components", "16", *QUICK, "--json", "r.json"]
    assert run(*words, "--quiet", capsys=capsys)[0] == 0
    found = load("r.json")
    assert (found.names, found.matched, found.same) == (("ft_mean_*", "ft_10k_mean_*"), 2, 2)
    assert found.diagonal[0].cka > found.diagonal[1].cka + 0.3  # fine-tuning moves the last layer
