"""Files of layers: natural order, which arrays are layers, how some are chosen, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from errors import naming
from identifiable import DataError
from identifiable.io.layer_files import choose, natural, open_layers


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    arrays = {f"layer_{i}": rng.standard_normal((5, 2)).astype(np.float32) for i in (0, 10, 2)}
    save_file({**arrays, "ids": np.arange(5), "mask": np.ones(5)}, "m.safetensors")
    np.savez("m.npz", **arrays, ids=list("abcde"), names=np.array([["x", "y"]] * 5), head=np.ones((7, 2)))
    return tmp_path


def names(spec, **how):
    return [layer.name for layer in open_layers(spec, **how)[0].layers]


def test_layers_are_the_tables_of_numbers_in_natural_order(folder):
    (found,) = open_layers("m.safetensors")
    assert (found.name, found.path) == ("m", "m.safetensors")
    assert [layer.name for layer in found.layers] == ["layer_0", "layer_2", "layer_10"]
    assert [layer.ids.tolist() for layer in found.layers] == [[0, 1, 2, 3, 4]] * 3
    with np.load("m.npz") as held:
        assert np.array_equal(open_layers("m.npz:layer_*")[0].layers[1].values[0:5], held["layer_2"])
    assert sorted(["b2", "b10", "a", "b"], key=natural) == ["a", "b", "b2", "b10"]


@pytest.mark.parametrize(
    ("spec", "asked", "expected"),
    [
        ("m.npz:layer_*", (), [0, 2, 10]),
        ("m.npz:layer_10,layer_0", (), [0, 10]),
        ("m.npz:layer_[02]", ("last",), [2]),
        ("m.safetensors", (0, "last"), [0, 10]),
        ("m.safetensors", ("2", "layer_1*"), [2, 10]),
    ],
)
def test_patterns_numbers_and_last_choose(folder, spec, asked, expected):
    assert names(spec, asked=asked) == [f"layer_{i}" for i in expected]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ('["stem", "block", "fc"]', ["stem", "block", "fc"]),
        ('["stem", "fc"]', ["block", "fc", "stem"]),
        ("no list", ["block", "fc", "stem"]),
    ],
)
def test_a_file_may_say_the_order_of_its_layers(tmp_path, told, expected):
    rows = np.ones((5, 2))
    save_file({"block": rows, "fc": rows + 1, "stem": rows + 2}, tmp_path / "m.safetensors", {"layers": told})
    assert names(tmp_path / "m.safetensors") == expected


def test_layers_of_other_rows_are_refused_with_names_that_belong_together(tmp_path):
    np.savez(tmp_path / "m.npz", odd=np.ones((4, 2)), stem=np.ones((5, 2)), top=np.ones((5, 2)))
    with pytest.raises(DataError, match=naming("odd has 4", "5", "m.npz:stem,top")):
        names(tmp_path / "m.npz")
    assert names(f"{tmp_path / 'm.npz'}:stem,top") == ["stem", "top"]


def test_without_numbers_in_names_a_number_is_a_place():
    assert choose(["stem", "middle", "top"], [1], "m") == ["middle"]
    with pytest.raises(DataError, match=naming("m", 3, "stem, middle, top")):
        choose(["stem", "middle", "top"], [3], "m")


def test_a_folder_holds_checkpoints(folder):
    (folder / "run").mkdir()
    for step in (9, 100, 20):
        save_file({"layer_0": np.ones((5, 2)), "layer_1": np.ones((5, 2))}, folder / "run" / f"s{step}.safetensors")
    (folder / "run" / "notes.txt").write_text("x")
    assert [found.name for found in open_layers("run:layer_1")] == ["s9", "s20", "s100"]


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("absent.npz", ["absent.npz"]),
        ("m.npz", ["m.npz", "head has 7", "layer_0 has 5"]),
        ("m.npz:lyaer_0", ["m.npz", "lyaer_0", "layer_0"]),
        ("table.npy", ["table.npy", ".safetensors"]),
        ("flat.npz", ["flat.npz", "none", "a"]),
        ("empty", ["empty", ".npz"]),
        ("model", ["model", "extract"]),
        ("broken.safetensors", ["broken.safetensors"]),
    ],
)
def test_what_holds_no_layers_is_named(folder, spec, parts):
    np.save("table.npy", np.ones((5, 2)))
    np.savez("flat.npz", a=np.ones(5), ids=np.arange(5))
    (folder / "empty").mkdir()
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    (folder / "broken.safetensors").write_bytes(b"not tensors at all")
    with pytest.raises(DataError, match=naming(*parts)) as error:
        open_layers(spec)
    assert "\n" not in str(error.value)
