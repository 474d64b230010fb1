"""A basis file: one file, read back bit for bit, and refused if a single byte of it is not as it was written."""

from __future__ import annotations

import hashlib
import json
import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors import safe_open

from builders import make_cleaning, make_comparison
from identifiable import AffineMap, DataError, Resolved, load_basis, resolve, save_basis
from identifiable._checks import OutputError
from identifiable.deconfounding.feature_map import FeatureMap

Tensors = dict[str, NDArray[Any]]
SEED = 20240617


@pytest.fixture(scope="module")
def basis() -> Resolved:
    X = np.random.default_rng(SEED).laplace(size=(300, 2)) @ [[2, 1], [1, 1]] + 5
    found = resolve(X, stability=0, restarts=1)
    # Without its pictures and history, so that every byte of the file can be tried.
    plain = tuple(replace(component, density=()) for component in found.result.components)
    return replace(found, result=replace(found.result, components=plain, density_edges=(), steps=(), alerts=()))


@pytest.fixture
def saved(basis: Resolved, tmp_path: Path) -> Path:
    return save_basis(tmp_path / "basis.safetensors", basis)


def parts(path: Path) -> tuple[dict[str, str], Tensors]:
    """Metadata and tensors, as the safetensors library reads them."""
    with safe_open(path, framework="numpy") as file:
        return dict(file.metadata()), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def write_by_hand(path: Path, metadata: dict[str, Any], tensors: Tensors, *, true_hash: bool = True) -> Path:
    """A file of the same format, written without the code under test, with a hash that fits."""
    header: dict[str, Any] = {
        "__metadata__": {"sha256": "0" * 64} | {k: v for k, v in metadata.items() if k != "sha256"}
    }
    data = b""
    for name, tensor in tensors.items():
        kind = {"float64": "F64", "float32": "F32"}[str(tensor.dtype)]
        span = [len(data), len(data) + tensor.nbytes]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": span}
        data += tensor.tobytes()
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text + data
    digest = hashlib.sha256(content).hexdigest() if true_hash else "1" * 64
    path.write_bytes(content.replace(b"0" * 64, digest.encode(), 1))
    return path


def one_line(error: pytest.ExceptionInfo[DataError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


def assert_same(a: Resolved, b: Resolved) -> None:
    for name in ("to_components", "from_components"):
        one, other = getattr(a, name), getattr(b, name)
        assert one.matrix.tobytes() == other.matrix.tobytes()
        assert one.offset.tobytes() == other.offset.tobytes()
    assert a.result == b.result


# What is kept


def test_a_basis_comes_back_bit_for_bit(basis: Resolved, saved: Path) -> None:
    assert_same(load_basis(saved), basis)
    turned = replace(basis, to_components=AffineMap(-basis.to_components.matrix, basis.to_components.offset))
    with pytest.raises(AssertionError):
        assert_same(load_basis(saved), turned)


def test_the_file_is_plain_safetensors_with_the_result_beside_the_maps(basis: Resolved, saved: Path) -> None:
    metadata, tensors = parts(saved)
    assert metadata["schema"] == "identifiable/basis/1"
    assert json.loads(metadata["result"])["schema"] == "identifiable/resolve/1"
    assert {name: (t.shape, str(t.dtype)) for name, t in tensors.items()} == {
        "to_components.matrix": ((2, 2), "float64"),
        "to_components.offset": ((2,), "float64"),
        "from_components.matrix": ((2, 2), "float64"),
        "from_components.offset": ((2,), "float64"),
    }
    np.testing.assert_array_equal(tensors["to_components.matrix"], basis.to_components.matrix)
    data_start = 8 + int.from_bytes(saved.read_bytes()[:8], "little")
    assert data_start % 8 == 0


def test_the_hash_is_of_the_file_with_zeros_in_its_place(saved: Path) -> None:
    recorded = parts(saved)[0]["sha256"]
    content = saved.read_bytes()
    assert hashlib.sha256(content.replace(recorded.encode(), b"0" * 64)).hexdigest() == recorded
    assert hashlib.sha256(content).hexdigest() != recorded


def test_a_rank_deficient_basis_comes_back(tmp_path: Path) -> None:
    X = np.random.default_rng(SEED).laplace(size=(300, 2)) @ [[2, 1, 0, 3], [1, 1, 0, 4]]
    found = resolve(X, stability=0, restarts=1)
    assert found.to_components.matrix.shape == (4, 2)
    assert_same(load_basis(save_basis(tmp_path / "b.safetensors", found)), found)


# What is refused


def test_a_file_written_by_hand_to_the_same_rules_loads(basis: Resolved, saved: Path) -> None:
    """The forgeries below are refused for what they are, not for how they were written."""
    assert_same(load_basis(write_by_hand(saved, *parts(saved))), basis)
    with pytest.raises(DataError, match="sha256 differs"):
        load_basis(write_by_hand(saved, *parts(saved), true_hash=False))


def test_a_hash_of_zeros_elsewhere_in_the_file_is_no_matter(basis: Resolved, tmp_path: Path) -> None:
    """Zeros hold the place of the hash while it is computed; the result may hold such text too."""
    zeros = replace(basis.result, inputs=(replace(basis.result.inputs[0], sha256="0" * 64),))
    found = load_basis(save_basis(tmp_path / "b.safetensors", replace(basis, result=zeros)))
    assert found.result.inputs[0].sha256 == "0" * 64


NAN, INF = float("nan"), float("inf")


def spoiled(name: str, value: Any) -> Any:
    return lambda tensors: {**tensors, name: value(tensors[name]) if callable(value) else value}


BAD_TENSORS = {
    "a transposed shape": (spoiled("to_components.matrix", np.zeros((1, 4))), "expected to_components.matrix of shape"),
    "fewer components": (spoiled("to_components.matrix", lambda m: m[:, :1].copy()), r"shape \(2, 2\)"),
    "an offset too long": (spoiled("from_components.offset", np.zeros(3)), "from_components.offset of shape"),
    "an offset with two axes": (spoiled("to_components.offset", np.zeros((2, 1))), "to_components.offset of shape"),
    "single precision": (spoiled("to_components.matrix", lambda m: m.astype(np.float32)), "got .* float32"),
    "a NaN": (spoiled("from_components.matrix", lambda m: np.where(m == m[0, 0], NAN, m)), "NaN or infinite"),
    "an infinity": (spoiled("to_components.offset", lambda m: m + INF), "NaN or infinite"),
    "a missing tensor": (
        lambda t: {k: v for k, v in t.items() if k != "from_components.offset"},
        "expected the tensors",
    ),
    "no tensors": (lambda t: {}, "got nothing"),
    "another tensor": (lambda t: {**t, "more\nof it": np.zeros(1)}, "expected the tensors"),
}


@pytest.mark.parametrize(("change", "message"), BAD_TENSORS.values(), ids=BAD_TENSORS)
def test_maps_that_cannot_be_are_refused_even_with_a_fitting_hash(saved: Path, change: Any, message: str) -> None:
    metadata, tensors = parts(saved)
    with pytest.raises(DataError, match=message) as error:
        load_basis(write_by_hand(saved, metadata, change(tensors)))
    one_line(error)


def edited_result(change: Any) -> Any:
    def edit(metadata: dict[str, str]) -> dict[str, str]:
        result = json.loads(metadata["result"])
        change(result)
        return {**metadata, "result": json.dumps(result)}

    return edit


BAD_METADATA = {
    "a later schema": (lambda m: {**m, "schema": "identifiable/basis/2"}, "got schema 'identifiable/basis/2'; update"),
    "another schema": (lambda m: {**m, "schema": "something/1"}, "pass a file"),
    "no schema": (lambda m: {k: v for k, v in m.items() if k != "schema"}, "a file without"),
    "no result": (lambda m: {k: v for k, v in m.items() if k != "result"}, "not JSON|got none"),
    "a result that is not JSON": (lambda m: {**m, "result": "{"}, "not JSON"),
    "a result of compare": (lambda m: {**m, "result": make_comparison().to_json()}, "got identifiable/compare/1"),
    "a rank of one": (edited_result(lambda r: r.update(rank=1)), "contradicts itself"),
    "a component less": (edited_result(lambda r: r["components"].pop()), "contradicts itself"),
    "no input": (edited_result(lambda r: r["inputs"].clear()), "contradicts itself"),
    "another width": (edited_result(lambda r: r["inputs"][0].update(d=3)), "of 3 columns"),
    "a field that is missing": (edited_result(lambda r: r.pop("whitening")), "does not follow"),
    "a field of another type": (edited_result(lambda r: r.update(rank="two")), "does not follow"),
}


@pytest.mark.parametrize(("change", "message"), BAD_METADATA.values(), ids=BAD_METADATA)
def test_a_result_that_does_not_fit_is_refused_even_with_a_fitting_hash(saved: Path, change: Any, message: str) -> None:
    metadata, tensors = parts(saved)
    with pytest.raises(DataError, match=message) as error:
        load_basis(write_by_hand(saved, change(metadata), tensors))
    one_line(error)


@pytest.mark.parametrize("digest", ["", "0" * 63, "F" * 64, None])
def test_a_hash_that_is_none_is_refused(saved: Path, digest: str | None) -> None:
    recorded = parts(saved)[0]["sha256"].encode()
    new = b"null" if digest is None else b'"%s"' % digest.encode()
    content = saved.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length].replace(b'"%s"' % recorded, new)
    saved.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length :])
    with pytest.raises(DataError, match="lost its sha256"):
        load_basis(saved)


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 5000,
        b"[]",
        b"null",
        b"{}",
        b'{"__metadata__": 3}',
        b'{"__metadata__": {"schema": {"a": "\\n"}}}',
        b"\xff\xfe",
        b"{",
    ],
)
def test_any_header_is_refused_in_one_line(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "b.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(DataError, match=re.escape(str(path))) as error:
        load_basis(path)
    one_line(error)


def test_tensors_that_are_no_basis_are_refused_by_their_header_alone(tmp_path: Path) -> None:
    """A model of many gigabytes given by mistake is not read."""
    header = b'{"w":{"dtype":"F64","shape":[1073741824],"data_offsets":[0,8589934592]}}'
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(len(header) + 8 + 2**33)  # sparse: takes no room
    with pytest.raises(DataError, match=r"without.*schema"):
        load_basis(path)


class Trap:
    """Unpickling it leaves a file behind."""

    def __init__(self, at: Path) -> None:
        self.at = at

    def __reduce__(self) -> Any:
        return Path.touch, (self.at,)


def test_loading_executes_nothing(saved: Path, tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    pickle.loads(pickle.dumps(Trap(sprung)))
    assert sprung.exists()  # the trap works
    sprung.unlink()
    saved.write_bytes(pickle.dumps(Trap(sprung)))
    with pytest.raises(DataError, match="expected a basis"):
        load_basis(saved)
    assert not sprung.exists()


def test_a_path_that_leads_nowhere_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        load_basis(tmp_path / "absent.safetensors")
    with pytest.raises(DataError, match="got a directory"):
        load_basis(tmp_path)
    (tmp_path / "empty.safetensors").touch()
    with pytest.raises(DataError, match="empty"):
        load_basis(tmp_path / "empty.safetensors")


# Writing


@pytest.mark.parametrize("name", ["basis.npy", "basis"])
def test_a_basis_has_one_suffix(basis: Resolved, tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match=r"basis.*kept.*\.safetensors"):
        save_basis(tmp_path / name, basis)
    assert not list(tmp_path.iterdir())


def test_what_could_not_be_loaded_is_not_saved(basis: Resolved, saved: Path) -> None:
    before = saved.read_bytes()
    broken = replace(basis, to_components=AffineMap(np.full((2, 2), np.nan), np.zeros(2)))
    with pytest.raises(DataError, match=r"would.*again .*NaN"):
        save_basis(saved, broken)
    misfit = replace(basis, result=replace(basis.result, rank=5))
    with pytest.raises(DataError, match="contradicts itself"):
        save_basis(saved, misfit)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


# -- maps of features


def feature_map(columns=("a", "b")):
    result = make_cleaning()
    d = result.inputs[0].d
    rng = np.random.default_rng(0)
    names = None if columns is None else tuple(f"{columns[0]}{j}" for j in range(d))
    return FeatureMap(AffineMap(rng.standard_normal((d, d)), rng.standard_normal(d)), result, names)


@pytest.mark.parametrize("columns", [None, ("a", "b")])
def test_a_map_of_features_is_read_back_with_its_names_and_its_result(tmp_path, columns):
    kept = feature_map(columns)
    found = load_basis(save_basis(tmp_path / "map.safetensors", kept))
    assert isinstance(found, FeatureMap)
    assert found.columns == kept.columns
    assert np.array_equal(found.map.matrix, kept.map.matrix)
    assert found.result.to_json() == kept.result.to_json()
    with pytest.raises(DataError, match=r"map\.matrix"):
        save_basis(tmp_path / "other.safetensors", replace(kept, map=AffineMap(np.eye(2), np.zeros(2))))
