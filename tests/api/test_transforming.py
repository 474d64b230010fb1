"""resolve and transform, the public calls: any container in, the same numbers out, a block at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from errors import naming
from identifiable import Blocks, DataError, JointResolution, Representation, Resolved, UsageError, resolve, transform
from identifiable._checks import OutputError
from identifiable.io import open_representation, save_array

SEED = 11
N, D = 9_000, 3  # more rows than one block of the arithmetic grid
MIX = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, -1.0, 3.0]])


def made(n: int = N, seed: int = SEED) -> NDArray[np.float64]:
    return np.random.default_rng(seed).laplace(size=(n, D)) @ MIX + [5, -2, 100]


@pytest.fixture(scope="module")
def X() -> NDArray[np.float64]:
    return made()


@pytest.fixture(scope="module")
def basis(X: NDArray[np.float64]) -> Resolved:
    return resolve(X, stability=0, restarts=1)


# resolve


def same(a: Resolved, b: Resolved) -> bool:
    return a.to_components.matrix.tobytes() == b.to_components.matrix.tobytes()


CONTAINERS = ["representation", "blocks", "list", "npy", "npz part", "dask"]
LAYOUTS = ["columns in memory", "every second column", "data frame"]


@pytest.mark.parametrize("container", [*CONTAINERS, *LAYOUTS])
def test_resolve_gives_the_same_bits_from_every_container(X, tmp_path, container):
    X = X[:600]
    np.savez(tmp_path / "x.npz", other=X[:, :1], x=X)
    np.save(tmp_path / "x.npy", X)
    source: Any = {
        "representation": lambda: Representation(X, name="x"),
        "blocks": lambda: Blocks(X, rows=7),
        "list": lambda: X.tolist(),
        "npy": lambda: tmp_path / "x.npy",
        "npz part": lambda: f"{tmp_path / 'x.npz'}:x",
        "dask": lambda: pytest.importorskip("dask.array").from_array(X, chunks=(100, D)),
        "columns in memory": lambda: np.asfortranarray(X),
        "every second column": lambda: np.repeat(X, 2, axis=1)[:, ::2],
        "data frame": lambda: pd.DataFrame(X).copy(),
    }[container]()
    options = {"stability": 0, "restarts": 1}
    found = resolve(source, blocks=50, **options)
    assert same(found, resolve(X, **options))
    assert not same(found, resolve(X[::-1][:500], **options))
    assert found.result.inputs[0].sha256 == resolve(X, **options).result.inputs[0].sha256


def test_resolve_of_two_says_what_they_share(X, tmp_path):
    np.save(tmp_path / "one.npy", X[:2000])
    noise = np.random.default_rng(SEED + 1).laplace(size=(2000, D))
    np.save(tmp_path / "two.npy", np.c_[X[:2000] @ MIX[:, :2], noise[:, :1]])
    found = resolve(tmp_path / "one.npy", tmp_path / "two.npy", stability=0, restarts=1)
    assert isinstance(found.result, JointResolution)
    assert [model.result.inputs[0].name for model in found.models] == ["one", "two"]
    assert found.result.shared_counts[0][1] < D
    alone = resolve(X[:2000], X[:2000] @ MIX, stability=0, restarts=1)
    assert alone.result.shared_counts[0][1] == D
    assert not alone.result.shared  # without refits nothing is reproducible, and so nothing shared


def test_resolve_needs_something():
    with pytest.raises(UsageError, match="at least one"):
        resolve()  # type: ignore[call-overload]


# transform


def test_transform_is_the_affine_map(X, basis):
    expected = X @ basis.to_components.matrix + basis.to_components.offset
    np.testing.assert_allclose(transform(basis, X), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.cov(transform(basis, X), rowvar=False, bias=True), np.eye(D), atol=1e-9)
    assert np.abs(transform(basis, X + 1) - expected).max() > 0.1


def test_inverse_of_fewer_components_is_the_nearest_row_in_their_span(X):
    kept = resolve(X, rank=2, stability=0, restarts=1)
    back = transform(kept, transform(kept, X), inverse=True)
    centred = X - X.mean(axis=0)
    leading = np.linalg.svd(centred, full_matrices=False)[2][:2]
    np.testing.assert_allclose(back, centred @ leading.T @ leading + X.mean(axis=0), atol=1e-6)
    assert np.abs(back - X).max() > 0.1


@pytest.mark.parametrize("rows", [1, 7, 4096, None])
@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors"])
def test_transform_gives_the_same_bits_whatever_the_file_and_block(X, basis, tmp_path, rows, suffix):
    small = X[:300] if rows == 1 else X
    source = save_array(tmp_path / f"x.{suffix}", small)
    path = transform(basis, source, tmp_path / f"z.{suffix}", blocks=rows)
    assert path == tmp_path / f"z.{suffix}"
    assert open_representation(path).values[:].tobytes() == transform(basis, small).tobytes()
    assert transform(basis, source, blocks=rows).tobytes() == transform(basis, small).tobytes()


def test_transform_takes_what_resolve_takes(X, basis):
    dask = pytest.importorskip("dask.array")
    expected = transform(basis, X).tobytes()
    sources = (
        Blocks(X, rows=100),
        Representation(X),
        dask.from_array(X, chunks=(1000, D)),
        X.tolist(),
        np.asfortranarray(X),
    )
    for source in sources:
        assert transform(basis, source).tobytes() == expected


def test_only_identifiable_columns_are_those_columns_bit_for_bit(X, tmp_path):
    mixed = np.c_[X, np.random.default_rng(SEED + 2).standard_normal((N, 2))] @ (np.eye(5) + 0.3)
    found = resolve(mixed, stability=2)
    kept = [c.index for c in found.result.identifiable]
    assert kept == [0, 1, 2]
    whole = transform(found, mixed, dtype="float32")
    some = transform(found, mixed, only_identifiable=True, dtype="float32")
    assert some.tobytes() == np.ascontiguousarray(whole[:, kept]).tobytes()
    path = transform(found, mixed, tmp_path / "z.npz", only_identifiable=True)
    assert np.load(path)["values"].shape == (N, 3)
    chosen = replace(
        found.result, components=tuple(replace(c, identifiable=c.index in (1, 4)) for c in found.result.components)
    )
    other = transform(replace(found, result=chosen), mixed, only_identifiable=True, dtype="float32")
    assert np.array_equal(other, whole[:, [1, 4]])


def test_only_identifiable_needs_some_and_a_direction(X, basis, tmp_path):
    with pytest.raises(UsageError, match=r"not measured; .*refits"):
        transform(basis, X, tmp_path / "z.npy", only_identifiable=True)
    with pytest.raises(UsageError, match=r"only_identifiable .*inverse "):
        transform(basis, X, tmp_path / "z.npy", only_identifiable=True, inverse=True)
    gaussian = resolve(np.random.default_rng(SEED).standard_normal((2000, 3)), stability=2)
    with pytest.raises(UsageError, match=naming("a: ", 0, 3)):
        transform(gaussian, X, only_identifiable=True)
    assert not list(tmp_path.iterdir())


class Recorded:
    """Rows that remember how many were asked for at once."""

    def __init__(self, values: NDArray[Any]):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype
        self.asked: list[int] = []

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        block: NDArray[Any] = self.values[rows]
        self.asked.append(len(block))
        return block


@pytest.mark.parametrize("output", [None, "z.npy", "z.npz", "z.safetensors", "z.csv"])
def test_no_more_than_a_block_of_rows_is_read_at_once(basis, tmp_path, output):
    source = Recorded(made(40_000))
    transform(basis, Blocks(source, rows=500), None if output is None else tmp_path / output)
    assert max(source.asked) <= 500
    assert sum(source.asked) == 40_000  # every row is read once
    without = Recorded(made(40_000))
    transform(basis, without, None if output is None else tmp_path / output)
    assert 500 < max(without.asked) <= 4096


DTYPES = {  # of the rows, asked for, of the result
    "double": (np.float64, None, np.float64),
    "single": (np.float32, None, np.float32),
    "half": (np.float16, None, np.float32),
    "whole numbers": (np.int16, None, np.float64),
    "single, more asked": (np.float32, "float64", np.float64),
    "double, less asked": (np.float64, np.float32, np.float32),
    "half asked": (np.float64, "f2", np.float16),
    "other end first": (">f4", None, np.float32),
}


@pytest.mark.parametrize(("stored", "asked", "expected"), DTYPES.values(), ids=DTYPES)
def test_the_precision_of_the_result(X, basis, tmp_path, stored, asked, expected):
    rows = X[:200].astype(stored)
    found = transform(basis, rows, dtype=asked)
    assert found.dtype == expected
    exact = basis.to_components(rows.astype(np.float64))
    np.testing.assert_array_equal(found, exact.astype(expected), "rounded once, from float64")
    path = transform(basis, rows, tmp_path / "z.npy", dtype=asked)
    np.testing.assert_array_equal(np.load(path), found)
    assert np.load(path).dtype == expected


@pytest.mark.parametrize("asked", ["int32", "complex128", "nonsense", object])
def test_a_result_is_in_floats(X, basis, asked):
    with pytest.raises(UsageError, match=naming("dtype", "float16", "float32", "float64")):
        transform(basis, X, dtype=asked)


@pytest.mark.parametrize("dtype", [None, "float32", "float16"])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_text_holds_names_ids_and_numbers_that_read_back_as_the_same(X, basis, tmp_path, suffix, dtype):
    ids = np.array([f'cell "{i}", a\tb' for i in range(50)])
    source = save_array(tmp_path / "x.npz", X[:50], ids)
    path = transform(basis, source, tmp_path / f"z.{suffix}", dtype=dtype, blocks=7)
    found, exact = open_representation(path), transform(basis, X[:50], dtype=dtype)
    assert found.values[:].astype(exact.dtype).tobytes() == exact.tobytes()
    assert found.columns == tuple(f"component_{j:03}" for j in range(D))
    assert found.ids is not None
    assert found.ids.tolist() == ids.tolist()
    bare = open_representation(transform(basis, X[:50], tmp_path / f"bare.{suffix}"))
    assert (bare.ids, bare.columns) == (None, found.columns)
    # columns of words beside the values would be taken for numbers that are damaged
    labelled = save_array(tmp_path / f"l.{suffix}", X[:50], labels={"word": ids})
    assert open_representation(labelled).d == D


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_ids_go_along(X, basis, tmp_path, suffix):
    ids = np.array([f"cell {i}" for i in range(50)])
    source = save_array(tmp_path / f"x.{suffix}", X[:50], ids)
    found = open_representation(transform(basis, source, tmp_path / f"z.{suffix}"))
    assert found.ids is not None
    assert found.ids.tolist() == ids.tolist()
    bare = open_representation(transform(basis, X[:50], tmp_path / f"bare.{suffix}"))
    assert bare.ids is None


def test_ids_asked_for_have_no_place_in_npy_but_those_in_passing_are_left_out(X, basis, tmp_path):
    source = save_array(tmp_path / "x.npz", X[:50], np.arange(50))
    assert np.load(transform(basis, source, tmp_path / "z.npy")).shape == (50, D)
    with pytest.raises(UsageError, match=r"place.*ids"):
        transform(basis, source, tmp_path / "again.npy", ids="ids")
    assert not (tmp_path / "again.npy").exists()


# What is refused


def refused(match: str, *arguments: Any, **options: Any) -> None:
    with pytest.raises(DataError, match=match) as error:
        transform(*arguments, **options)
    assert "\n" not in str(error.value)


def test_another_width_is_refused(X, basis, tmp_path):
    refused(r"expected 3 columns, as a had when the basis was fitted, got 2", basis, X[:, :2])
    np.save(tmp_path / "wide.npy", np.c_[X, X])
    refused(r"wide\.npy: expected 3 columns.* got 6", basis, tmp_path / "wide.npy", tmp_path / "z.npy")
    assert not (tmp_path / "z.npy").exists()


def test_another_number_of_components_is_refused(X):
    kept = resolve(X, rank=2, stability=0, restarts=1)
    refused(r"expected 2 columns, the components of the basis of a, got 3", kept, X, inverse=True)
    assert transform(kept, X[:, :2], inverse=True).shape == X.shape


def test_some_components_cannot_go_back_and_the_error_says_what_is_needed(X, basis):
    Z = pd.DataFrame(transform(basis, X), columns=[f"component_{i:03d}" for i in range(len(basis.result.components))])
    np.testing.assert_allclose(transform(basis, Z, inverse=True), X, rtol=1e-3, atol=1e-3)
    with pytest.raises(DataError, match=rf"{len(Z.columns)} components .* got 2") as caught:
        transform(basis, Z.iloc[:, :2], inverse=True)
    assert "only_identifiable" in str(caught.value)
    assert "or --inverse" not in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("inverse", [False, True])
def test_rows_that_are_not_finite_are_named(X, basis, value, inverse):
    bad = X.copy()
    bad[8_500, 1] = bad[8_501, 0] = bad[8_501, 2] = value
    refused(
        r"got 3 NaN or infinite values in 2 of the rows .*\(first rows, from 0: 8500, 8501\)",
        basis,
        bad,
        inverse=inverse,
    )


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors", "csv"])
def test_rows_that_are_not_finite_leave_no_file(X, basis, tmp_path, suffix):
    bad = X.copy()
    bad[8_500, 1] = np.nan
    source, output = save_array(tmp_path / "x.npy", bad), tmp_path / f"z.{suffix}"
    refused("x.npy: expected finite numbers.*8500", basis, source, output, blocks=100)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]
    output.write_text("an older result")
    refused("8500", basis, source, output)
    assert output.read_text() == "an older result"


def test_what_overflows_the_result_is_refused(X, basis):
    refused(r"mapped into float16 the rows overflow .*ask for dtype float64", basis, X * 1e9, dtype="float16")
    assert np.isfinite(transform(basis, X * 1e9)).all()


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((2, 3, 3)), np.zeros((0, 3)), np.array([["a", "b", "c"]])])
def test_what_is_no_table_is_refused(basis, bad):
    refused("expected", basis, bad)


def test_what_is_no_basis_is_refused(X, tmp_path):
    np.save(tmp_path / "x.npy", X)
    refused("expected a basis", tmp_path / "x.npy", X)
    with pytest.raises(UsageError, match="got ndarray"):
        transform(X, X)  # type: ignore[call-overload]


def test_a_suffix_that_cannot_be_written_is_refused(X, basis, tmp_path):
    with pytest.raises(OutputError, match=r"cannot write \.txt"):
        transform(basis, X, tmp_path / "z.txt")
    assert not list(tmp_path.iterdir())


def test_the_result_may_replace_what_it_was_made_from(X, basis, tmp_path):
    path = Path(save_array(tmp_path / "x.npy", X))
    transform(basis, path, path)
    assert np.load(path).tobytes() == transform(basis, X).tobytes()
