"""`identifiable heads`: what it prints, writes, gates and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from commands import check_gates, files, refused, run
from identifiable.api import load

HEADS = ["heads", "m.npz:head_a", "m.npz:head_b"]
FEATURES = ["--features", "m.npz:a", "m.npz:b", "--null-draws", "3"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    A, W = rng.standard_normal((4, 4)), rng.standard_normal((9, 4))
    a = rng.standard_normal((60, 4))
    arrays = {"a": a, "b": a @ A, "head_a": W @ A.T, "head_b": W, "bias_a": np.ones(9), "bias_b": np.zeros(9)}
    np.savez("m.npz", **arrays, ids=[f"s{i}" for i in range(60)], labels=[f"l{i}" for i in range(9)])
    np.save("A.npy", A)
    return tmp_path


def test_the_sentence_comes_first_and_the_map_is_written(folder, capsys):
    code, out, err = run(*HEADS, *FEATURES, "--map-out", "map.npz", "--json", "r.json", capsys=capsys)
    assert (code, err) == (0, "")
    assert "4 of 4" in out.splitlines()[1]
    with np.load("map.npz") as written:
        assert {name: written[name].shape for name in written} == {"matrix": (4, 4), "offset": (4,), "basis": (4, 4)}
        assert np.allclose(written["matrix"], np.load("A.npy"))
    found = load("r.json")
    assert found.provenance.command.endswith("--features m.npz:a m.npz:b --null-draws 3 --map-out map.npz")
    assert [i.name for i in found.inputs] == ["head_a", "head_b", "a", "b"]


def test_a_model_directory_beside_a_file(folder, capsys):
    with np.load("m.npz") as held:
        weight, bias = held["head_b"], held["bias_b"]
    Path("net").mkdir()
    labels = {str(i): f"l{i}" for i in range(9)}
    Path("net", "config.json").write_text(
        json.dumps({"architectures": ["ViTForImageClassification"], "id2label": labels})
    )
    save_file({"classifier.weight": weight[::-1].copy(), "classifier.bias": bias}, "net/model.safetensors")
    options = ["--labels", "labels", "--labels", "m.npz:labels", "--json", "-"]
    _, out, _ = run("heads", "m.npz:head_a", "m.npz:head_b", *options, capsys=capsys)
    right = json.loads(out)["maps"][0]["expressed"]
    _, out, _ = run("heads", "m.npz:head_a", "net", capsys=capsys)
    assert "net" in out
    assert right == pytest.approx(1)


def test_gates(folder, capsys):
    words = [*HEADS, *FEATURES, "--quiet"]
    check_gates(
        words,
        holds="r2_ridge < 0.9; agreement < 1; heads.rank < 4",
        fails="correlation > 0.9; fixed == 4",
        capsys=capsys,
    )
    for gate in ("r2 < 0.5", "agreement < 0.5"):
        assert "--features" in refused(*HEADS, "--fail-if", gate, code=2, capsys=capsys)


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (["heads", "absent.npz:a", "m.npz:head_b"], 3, ["absent.npz"]),
        (["heads", "m.npz", "m.npz:head_b"], 3, ["m.npz", "head_a (9, 4)"]),
        (["heads", "m.npz:haed_a", "m.npz:head_b"], 3, ["haed_a", "head_a"]),
        (["heads", "m.npz:head_a"], 2, ["W2"]),
        ([*HEADS, "--features", "m.npz:a"], 2, ["--features"]),
        ([*HEADS, "--features", "m.npz:a", "m.npz:head_b"], 3, ["60", "9"]),
        ([*HEADS, "--features", "A.npy", "A.npy"], 2, ["4 rows", "5"]),
        ([*HEADS, "--layout", "diagonal"], 2, ["--layout", "diagonal"]),
        ([*HEADS, "--layout", "columns"], 3, ["head_a", "(9, 4)", "9"]),
        ([*HEADS, "--bias", "m.npz:a", "none"], 3, ["head_a", "(60, 4)"]),
        ([*HEADS, "--labels", "nothing"], 3, ["nothing"]),
        ([*HEADS, "--frequencies", "m.npz:ids"], 3, ["ids"]),
        ([*HEADS, "--map-out", "map.npy"], 2, ["map.npy"]),
        ([*HEADS, "--map-out", "m.npz"], 3, ["m.npz"]),
    ],
)
def test_what_is_wrong_is_one_line_and_leaves_nothing(folder, capsys, words, code, parts):
    before = files()
    err = refused(*words, code=code, capsys=capsys)
    assert all(part in err for part in parts), err
    assert files() == before
