"""`extract` from torch modules: what is written, what is kept when it is stopped, what is refused."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file
from torch import nn

import children
from commands import run
from errors import naming
from identifiable import DataError, UsageError, extract, load
from identifiable._checks import OutputError
from identifiable._stopping import last_words
from identifiable.io import growing
from identifiable.results.writing import together

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        for block in self.blocks:
            x = torch.relu(block(x)) + x
        return self.head(self.norm(x))

def make():
    print("made")
    return Net()

torch.manual_seed(5)
net = Net().eval()
"""
KILLED = """
import os, signal, sys
import torch
torch.set_num_threads(1)
from identifiable import extract
from identifiable.io import growing
sys.path.insert(0, ".")
import model
growing.SECONDS = -1

def progress(stage, done, total):
    if stage.name == "extracting" and done >= 12:
        os.kill(os.getpid(), signal.SIGKILL)

extract(model.net, "x.npy", output="out.safetensors", layers=["blocks.1", "output"], batch=4, progress=progress)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((30, 6)).astype(np.float32))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("model", None)


@pytest.fixture
def net(folder):
    import model

    return model.net


def truth(net, X):
    """Blocks, in numpy."""
    w = {name: values.double().numpy() for name, values in net.state_dict().items()}
    x, states = X.astype(np.float64), []
    for k in range(3):
        states.append(x @ w[f"blocks.{k}.weight"].T + w[f"blocks.{k}.bias"])
        x = np.maximum(states[-1], 0) + x
    normed = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    normed = normed * w["norm.weight"] + w["norm.bias"]
    return states, normed, normed @ w["head.weight"].T + w["head.bias"]


def test_layers_of_a_module_are_what_its_parts_give(net):
    found = extract(net, "x.npy", output="out.safetensors", layers=["blocks.1", "norm", "last"], batch=7)
    held = load_file("out.safetensors")
    states, normed, output = truth(net, np.load("x.npy"))
    for name, expected in (("blocks.1", states[1]), ("norm", normed), ("output", output)):
        np.testing.assert_allclose(held[name], expected, atol=1e-5)
    assert {layer.name: layer.final_norm for layer in found.layers} == {
        "blocks.1": False,
        "norm": True,
        "output": False,
    }
    assert (found.n, found.pool, found.truncated, found.model.family) == (30, None, 0, "module")
    with safe_open("out.safetensors", "numpy") as file:
        about = file.metadata()
    assert (about["schema"], about["weights_sha256"]) == ("identifiable/extracted/1", found.model.sha256)
    assert json.loads(about["final_norm"]) == {"blocks.1": "no", "norm": "yes", "output": "no"}


def test_a_long_name_and_a_private_file_are_what_they_were(net, tmp_path):
    output = tmp_path / ("n" * 243 + ".safetensors")
    output.touch(mode=0o600)
    extract(net, "x.npy", output=output, layers=["last"])
    assert output.stat().st_mode & 0o777 == 0o600
    assert load_file(output)


def test_rows_that_will_replace_a_private_file_are_private_before_they_do(folder):
    Path("out.safetensors").touch(mode=0o600)
    with growing.GrowingFile("out.safetensors", {"a": 2}, np.arange(3), {}) as file:
        assert file.path.stat().st_mode & 0o777 == 0o600
    with growing.GrowingFile("new.safetensors", {"a": 2}, np.arange(3), {}) as file:
        assert file.path.stat().st_mode & 0o777 != 0o600


def test_tokens_and_maps_are_pooled(folder):
    tokens, maps = (
        np.random.default_rng(0).standard_normal((5, 7, 3)),
        np.random.default_rng(1).standard_normal((5, 3, 2, 4)),
    )
    for values, pool, expected in (
        (tokens, None, tokens.mean(axis=1)), (tokens, "last", tokens[:, -1]), (tokens, "cls", tokens[:, 0]),
        (maps, "mean", maps.mean(axis=(2, 3))),
    ):  # fmt: skip
        extract(nn.Identity(), values.astype(np.float32), output="out.safetensors", pool=pool)
        np.testing.assert_allclose(load_file("out.safetensors")["output"], expected, atol=1e-6)


def test_a_killed_run_goes_on_and_gives_the_same_bytes(net, folder):
    layers = ["blocks.1", "output"]
    extract(net, "x.npy", output="whole.safetensors", layers=layers, batch=4, workers=1)
    done = children.run([sys.executable, "-c", KILLED], seconds=100)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (folder / "out.safetensors").exists()
    shutil.copy("out.safetensors.unfinished", "kept")
    told = []

    def progress(stage, done, total):
        if stage.name == "extracting":
            told.append((done, total))

    with pytest.raises(DataError, match=naming("out.safetensors.unfinished")):  # other options do not touch it
        extract(net, "x.npy", output="out.safetensors", layers=layers, batch=5)
    with open("out.safetensors.unfinished") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(DataError, match=naming("out.safetensors.unfinished")):  # nor a second process
            extract(net, "x.npy", output="out.safetensors", layers=layers, batch=4)
    assert Path("out.safetensors.unfinished").read_bytes() == Path("kept").read_bytes()
    extract(net, "x.npy", output="out.safetensors", layers=layers, batch=4, progress=progress, workers=1)
    assert told[-1] == (18, 18)  # 12 of 30 were finished
    assert Path("out.safetensors").read_bytes() == Path("whole.safetensors").read_bytes()
    assert sorted(p.name for p in folder.glob("out*")) == ["out.safetensors"]


def test_an_error_keeps_finished_batches_and_nothing_else(net, folder, monkeypatch):
    monkeypatch.setattr(growing, "SECONDS", 1000)

    def stop(stage, done, total):
        if stage.name == "extracting" and done >= 8:
            assert "out.safetensors.unfinished" in last_words("interrupted")
            raise KeyboardInterrupt

    extract(net, "x.npy", output="whole.safetensors", batch=4)
    with pytest.raises(KeyboardInterrupt):
        extract(net, "x.npy", output="out.safetensors", batch=4, progress=stop)
    assert "unfinished" not in last_words("interrupted")
    assert Path("out.safetensors.unfinished").read_bytes()[-8:] == (2).to_bytes(8, "little")
    extract(net, "x.npy", output="out.safetensors", batch=4)
    assert Path("out.safetensors").read_bytes() == Path("whole.safetensors").read_bytes()
    with pytest.raises(DataError, match=naming("Broken", "ZeroDivisionError")):
        extract(Broken(), "x.npy", output="no.safetensors")
    with pytest.raises(DataError, match=naming("Dice", "output")):
        extract(Dice(), "x.npy", output="no.safetensors")
    with pytest.raises(DataError, match=naming("Infinite", "output", 30)):
        extract(Infinite(), "x.npy", output="no.safetensors")
    assert not list(folder.glob("no*"))


DAMAGED = {
    "one bit of the count": lambda held: held[:-6] + bytes([held[-6] ^ 1]) + held[-5:],
    "count of ones": lambda held: held[: -growing.COUNT] + b"\xff" * growing.COUNT,
    "zeros": lambda held: held[: -growing.JOURNAL] + bytes(growing.JOURNAL),
    "mark": lambda held: held.replace(growing.MARK, b"xdentifi"),
    "without its journal": lambda held: held[: -growing.JOURNAL],
    "some bytes short": lambda held: held[:-16],
    "longer": lambda held: held + bytes(8),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_unfinished_rows_with_a_damaged_journal_are_begun_again(tmp_path, damage):
    rows = {"a": np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)}
    opened = partial(growing.GrowingFile, tmp_path / "out.safetensors", {"a": 2}, np.arange(4), {"fingerprint": "f"})
    with opened() as file:
        file.write([2, 3], {"a": rows["a"][2:]})
    path = tmp_path / "out.safetensors.unfinished"
    with opened() as file:
        assert file.done == 1
    path.write_bytes(DAMAGED[damage](path.read_bytes()))
    with opened() as file:
        assert file.done == 0
        file.write(range(4), rows)
        file.finish()
        with suppress(ZeroDivisionError), together():  # another file fails: the next run finds all rows
            file.deliver()
            raise ZeroDivisionError
    with opened() as file:
        assert file.done == 1
        file.finish()
        file.deliver()
    np.testing.assert_array_equal(load_file(tmp_path / "out.safetensors")["a"], rows["a"])


def test_a_whole_file_whose_journal_is_cut_off_is_not_begun_again(tmp_path):
    rows = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)
    opened = partial(growing.GrowingFile, tmp_path / "out.safetensors", {"a": 2}, np.arange(4), {"fingerprint": "f"})
    path = tmp_path / "out.safetensors.unfinished"
    for places, whole in ((range(2), False), (range(4), True)):  # killed just before the file takes its name
        with opened() as file:
            file.write(places, {"a": rows[: len(places)]})
            if whole:
                file.finish()
        os.truncate(path, path.stat().st_size - growing.JOURNAL)
        with opened() as file:
            assert (file.done > 0) is whole
            if whole:
                file.finish()
                file.deliver()
    np.testing.assert_array_equal(load_file(tmp_path / "out.safetensors")["a"], rows)


def test_a_full_disk_is_one_line_and_keeps_what_was_written(net, folder, monkeypatch):
    write, left = growing._write, [12]

    def full(file, offset, content):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, offset, content)

    with monkeypatch.context() as patched:
        patched.setattr(growing, "_write", full)
        with pytest.raises(OutputError, match=naming("out.safetensors.unfinished", "No space left")):
            extract(net, "x.npy", output="out.safetensors", batch=4)
    assert not Path("out.safetensors").exists()
    extract(net, "x.npy", output="out.safetensors", batch=4)
    extract(net, "x.npy", output="whole.safetensors", batch=4)
    assert Path("out.safetensors").read_bytes() == Path("whole.safetensors").read_bytes()


class Broken(nn.Module):
    def forward(self, x):
        raise ZeroDivisionError


class Dice(nn.Module):
    def forward(self, x):
        return x + torch.rand(1)


class Infinite(nn.Module):
    def forward(self, x):
        return x / (torch.arange(30)[-len(x) :, None] != 29).float() if len(x) == 30 else x


def test_the_old_file_stays_until_the_new_one_is_whole(net, folder):
    (folder / "out.safetensors").write_text("old")
    with pytest.raises(UsageError, match=naming("nothing")):
        extract(net, "x.npy", output="out.safetensors", layers=["nothing"])
    assert (folder / "out.safetensors").read_text() == "old"
    extract(net, "x.npy", output="out.safetensors")
    assert set(load_file("out.safetensors")) == {"output", "ids"}


def test_untrained_makes_a_model_anew(folder, net):
    import model

    made = []
    for seed in (0, 0, 1):
        extract(model.make, "x.npy", output="out.safetensors", untrained=seed)
        made.append(load_file("out.safetensors")["output"])
    np.testing.assert_array_equal(made[0], made[1])
    assert np.abs(made[0] - made[2]).max() > 0.01
    with pytest.raises(UsageError, match=naming("Net")):
        extract(net, "x.npy", output="out.safetensors", untrained=0)


@pytest.mark.parametrize(
    ("model", "inputs", "more", "parts"),
    [
        (3, "x.npy", {}, ("int",)),
        (lambda: 3, "x.npy", {}, ("lambda", "int")),
        (nn.Identity(), ["a text"], {}, ("text", "arrays")),
        (nn.Identity(), np.zeros((3, 4, 4, 3), np.uint8), {}, ("pictures",)),
        (nn.Identity(), "x.npy", {"output": "out.npy"}, ("out.npy", ".safetensors")),
        (nn.Identity(), "x.npy", {"output": ""}, ("output",)),
        (nn.Identity(), "x.npy", {"pool": "best"}, ("best", "patches")),
        (nn.Identity(), np.zeros((3, 4, 2), np.float32), {"pool": "patches"}, ("patches", "mean")),
        (nn.Identity(), "x.npy", {"batch": 0}, ("batch",)),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_written(folder, model, inputs, more, parts):
    with pytest.raises(UsageError, match=naming(*parts)):
        extract(model, inputs, **{"output": "out.safetensors", **more})
    assert not list(folder.glob("out*"))


def test_repeated_inputs_are_counted(net):
    X = np.load("x.npy")
    found = extract(net, np.concatenate([X, X[:3]]), output="out.safetensors")
    assert (found.repeated, [a.code for a in found.alerts]) == (3, ["inputs_repeated"])
    held = load_file("out.safetensors")
    assert len(set(held["ids"].tolist())) == 33
    np.testing.assert_allclose(held["output"][:3], held["output"][30:], atol=1e-6)


def test_the_command_line_gives_the_same_file(folder, net, capsys):
    extract(net, "x.npy", output="a.safetensors", layers=["blocks.0"])
    words = ["extract", "model:net", "x.npy", "-o", "b.safetensors", "--layers", "blocks.0", "--json", "r.json"]
    code, out, err = run(*words, "--report", "p.html", capsys=capsys)
    assert code == 0
    assert "layers: b.safetensors" in out
    held, again = load_file("a.safetensors"), load_file("b.safetensors")
    np.testing.assert_array_equal(held["blocks.0"], again["blocks.0"])
    assert load("r.json").model.name == "model:net"
    assert run(*words, "--fail-if", "n < 100", capsys=capsys)[0] == 1
    assert run(*words, "--fail-if", "layers.final_norm == true", "--fail-if", "truncated > 0", capsys=capsys)[0] == 0
    code, out, err = run(
        "extract", "model:make", "x.npy", "-o", "c.safetensors", "--untrained", "3", "--quiet", capsys=capsys
    )
    assert (code, out, err) == (0, "", "made\n")
