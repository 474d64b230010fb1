"""Tensors of a `.pt` are read as torch reads them, and nothing in the file is executed."""

from __future__ import annotations

import collections
import os
import pickle
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from commands import run
from errors import naming
from identifiable import DataError
from identifiable.io import open_representation, read_labels
from identifiable.io.head_files import read_head

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def values():
    return torch.from_numpy(np.random.default_rng(0).standard_normal((30, 4)))


def read(spec):
    table = open_representation(spec)
    return np.asarray(table.values[: table.n])


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.uint16, torch.bool],
)
def test_a_tensor_is_what_torch_loads(tmp_path, values, dtype):
    kept = (10 * values.abs()).to(dtype)
    torch.save(kept, tmp_path / "a.pt")
    loaded = torch.load(tmp_path / "a.pt", weights_only=True)
    truth = (loaded.float() if dtype == torch.bfloat16 else loaded).numpy()
    np.testing.assert_array_equal(read(tmp_path / "a.pt"), truth)
    assert open_representation(tmp_path / "a.pt").values.source.stored_dtype == str(dtype).removeprefix("torch.")


def test_tensors_of_a_dict_have_names(tmp_path, values):
    layer = torch.nn.Linear(4, 3)
    layer.register_parameter("scale", torch.nn.Parameter(torch.ones(2, 2)))
    held = {"epoch": 3, "name": "run", "state": layer.state_dict(), "list": [values, values.T.contiguous()]}
    held |= {
        "turned": values.T,
        "part": values[5:9],
        "layer": collections.OrderedDict(w=layer.weight),
    }
    torch.save(held, tmp_path / "a.pt")
    for part, truth in {
        "state.weight": layer.weight, "list.0": values, "list.1": values.T, "turned": values.T, "part": values[5:9],
        "layer.w": layer.weight, "state.scale": torch.ones(2, 2),
    }.items():  # fmt: skip
        np.testing.assert_array_equal(read(f"{tmp_path}/a.pt:{part}"), truth.detach().numpy(), part)
    torch.save({"x": values, "ids": torch.arange(30)}, tmp_path / "ids.pt")
    np.testing.assert_array_equal(open_representation(tmp_path / "ids.pt").ids, np.arange(30))
    np.testing.assert_array_equal(read_labels(f"{tmp_path}/ids.pt:ids"), np.arange(30))
    with pytest.raises(DataError, match=naming("a.pt", "state.wight", "state.weight")):
        read(f"{tmp_path}/a.pt:state.wight")
    torch.save({"strided": values[:, ::2], "sparse": values.to_sparse()}, tmp_path / "b.pt")
    with pytest.raises(DataError, match=naming("b.pt:strided", "(4, 2)")):
        read(f"{tmp_path}/b.pt:strided")


def test_every_command_reads_it(tmp_path, values, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.save({"x": values.to(torch.bfloat16)}, "a.pt")
    torch.save(values.float(), "b.pth")
    assert run("compare", "a.pt:x", "b.pth", "--no-axes", "--nulls", "none", "--quiet", capsys=capsys)[0] == 0
    assert run("resolve", "b.pth", "--stability", "0", "--restarts", "1", "--quiet", capsys=capsys)[0] == 0
    found = read_head("a.pt:x")
    assert (found.dtype, found.weight.shape) == ("bfloat16", (30, 4))


class Evil:
    def __reduce__(self):
        return os.mkdir, ("made",)


def _archive(path, pickled, **members):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        for name, content in members.items():
            archive.writestr(f"archive/data/{name}", content)


def test_code_in_a_file_is_not_run(tmp_path, monkeypatch, values):
    monkeypatch.chdir(tmp_path)
    torch.save({"x": values, "evil": Evil()}, "a.pt")
    np.testing.assert_array_equal(read("a.pt"), values.numpy())
    _archive("b.pt", pickle.dumps(Evil(), protocol=2))
    with pytest.raises(DataError, match=naming("b.pt")):
        read("b.pt")
    assert not os.path.exists("made")


def test_damage_is_an_error_of_one_line(tmp_path, monkeypatch, values):
    monkeypatch.chdir(tmp_path)
    torch.save(values, "a.pt")
    whole = Path("a.pt").read_bytes()
    loop = []
    loop.append(loop)
    broken = {
        "short.pt": whole[:300],
        "text.pt": b"no zip at all",
        "old.pt": pickle.dumps(1),
    }
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
    _archive("loop.pt", pickle.dumps(loop, protocol=2))
    _archive("cut.pt", pickle.dumps({"a": 1}, protocol=2)[:-4])
    _archive("call.pt", b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(NK\x00K\x01K\x01tR.")
    with zipfile.ZipFile("a.pt") as archive, zipfile.ZipFile("small.pt", "w") as other:
        for member in archive.infolist():
            content = archive.read(member)
            other.writestr(member.filename, content[:-8] if member.filename.endswith("data/0") else content)
    for name in (*broken, "loop.pt", "cut.pt", "call.pt", "small.pt"):
        with pytest.raises(DataError, match=naming(name)) as found:
            read(name)
        assert "\n" not in str(found.value)


def test_odd_text_in_a_damaged_file_is_refused_without_a_warning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _archive("text.pt", b"S'\\q'\n.")
    with (
        warnings.catch_warnings(record=True, action="always") as heard,
        pytest.raises(DataError, match=naming("text.pt")),
    ):
        read("text.pt")
    assert [
        each for each in heard if each.category is not ResourceWarning
    ] == []  # of other files, when they are collected
