"""A basis knows the names of the columns it was fitted to: other orders are matched by name, other names are refused."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from errors import naming
from identifiable import ICA, Aligner, DataError, Representation, compare, load_basis, resolve, save_basis, transform
from identifiable import deconfound as screens
from identifiable.blocks import Blocks
from identifiable.cli import main
from identifiable.io import open_representation, save_anndata
from identifiable.worlds.cell_world import cells

NAMES = ("alpha", "beta", "gamma")
ORDER = [2, 0, 1]
OTHER = tuple(NAMES[j] for j in ORDER)
MIXED = np.array([[2.0, 1, 0], [1, 1, 1], [0, -1, 3]])
X = np.random.default_rng(17).gamma([1, 2, 3], size=(400, 3)) @ [[2.0, 1, 0], [1, 1, 1], [0, -1, 3]]
KINDS = ["csv", "tsv", "csv.gz", "parquet", "h5ad", "frame"]
QUICK: dict[str, Any] = {"stability": 0, "restarts": 1}


def table(folder: Path, kind: str, values: np.ndarray = X, names: tuple[str, ...] = NAMES, stem: str = "x") -> Any:
    """`values` under `names`, as a file or a data frame."""
    frame = pd.DataFrame(values, columns=list(names))
    path = folder / f"{stem}.{kind}"
    if kind == "frame":
        return frame
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "h5ad":
        save_anndata(path, Blocks(values), {}, feature_names=names)
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",", float_format="%.17g")
    return path


def other_order(folder: Path, kind: str) -> Any:
    return table(folder, kind, X[:, ORDER], tuple(NAMES[j] for j in ORDER), stem="other")


@pytest.fixture(scope="module")
def basis() -> Any:
    return resolve(pd.DataFrame(X, columns=list(NAMES)), **QUICK)


@pytest.fixture(scope="module")
def bare() -> Any:
    return resolve(X, **QUICK)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_in_another_order_are_matched_by_name(tmp_path, kind):
    found = resolve(table(tmp_path, kind), **QUICK)
    assert found.columns == NAMES
    kept = load_basis(save_basis(tmp_path / "basis.safetensors", found))
    assert kept.columns == NAMES
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = transform(kept, table(tmp_path, kind))
        assert np.array_equal(transform(kept, other_order(tmp_path, kind)), expected)
    assert not np.allclose(kept.to_components(X[:, ORDER]), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_is_missing_is_refused(tmp_path, basis, kind):
    renamed = table(tmp_path, kind, names=("alpha", "beta", "delta"))
    with pytest.raises(DataError, match=naming(1, 3, "gamma")):
        transform(basis, renamed)
    assert np.array_equal(transform(basis, table(tmp_path, kind)), transform(basis, table(tmp_path, "frame")))


@pytest.mark.parametrize("kind", ["csv", "parquet", "h5ad", "frame"])
def test_columns_the_basis_does_not_know_are_left_aside(tmp_path, basis, kind):
    wider = table(tmp_path, kind, np.c_[np.arange(400.0), X[:, ORDER]], ("more", *(NAMES[j] for j in ORDER)))
    assert np.array_equal(transform(basis, wider), transform(basis, table(tmp_path, "frame")))


@pytest.mark.parametrize("kind", ["array", "npy", "csv without a header", "obsm"])
def test_columns_without_names_are_taken_by_position_with_an_alert(tmp_path, basis, kind):
    np.save(tmp_path / "x.npy", X)
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", fmt="%.17g")
    save_anndata(tmp_path / "x.h5ad", Blocks(X), {}, feature_names=NAMES, obsm={"X_e": X})
    bare = {
        "array": X,
        "npy": tmp_path / "x.npy",
        "csv without a header": tmp_path / "x.csv",
        "obsm": f"{tmp_path / 'x.h5ad'}:X_e",
    }[kind]
    with pytest.warns(UserWarning, match="columns_not_checked"):
        assert np.array_equal(transform(basis, bare), transform(basis, table(tmp_path, "frame")))


def test_names_that_the_basis_does_not_know_are_said(tmp_path, bare):
    assert bare.columns is None
    with pytest.warns(UserWarning, match="columns_not_checked"):
        transform(bare, table(tmp_path, "csv"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        transform(bare, X)


@pytest.mark.parametrize("kind", ["csv", "h5ad", "frame"])
def test_a_name_that_occurs_twice_is_refused_in_another_order_only(tmp_path, kind):
    names = ("alpha", "beta", "beta")
    basis = resolve(table(tmp_path, kind, names=names), **QUICK)
    assert np.allclose(transform(basis, table(tmp_path, kind, names=names)), basis.to_components(X))
    with pytest.raises(DataError, match="beta"):
        transform(basis, table(tmp_path, kind, names=("beta", "alpha", "beta")))


def test_joint_mode_and_groups_keep_the_names_of_every_table(tmp_path):
    found = resolve(table(tmp_path, "csv"), other_order(tmp_path, "csv"), **QUICK)
    assert [model.columns for model in found.models] == [NAMES, tuple(NAMES[j] for j in ORDER)]
    assert found.result.shared_counts[0][1] == 3
    assert "columns" not in found.result.settings
    grouped = resolve(table(tmp_path, "parquet"), group_by=np.arange(400) // 4, stability=2, restarts=1)
    assert grouped.columns == NAMES


@pytest.mark.parametrize("suffix", [".parquet", ".h5ad"])
def test_inverse_writes_the_names_and_finds_components_by_theirs(tmp_path, basis, suffix):
    Z = transform(basis, table(tmp_path, "frame"), tmp_path / f"z{suffix}")
    components = open_representation(Z)
    assert components.columns == ("component_000", "component_001", "component_002")
    back = open_representation(transform(basis, Z, tmp_path / f"back{suffix}", inverse=True))
    assert back.columns == NAMES
    assert np.allclose(back.values[:], X)
    turned = Representation(components.values[:][:, ORDER], columns=tuple(components.columns[j] for j in ORDER))
    assert np.allclose(transform(basis, turned, inverse=True), X)
    with pytest.raises(DataError, match="component_002"):
        transform(basis, Representation(X, columns=("component_000", "component_001", "x")), inverse=True)


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet", "h5ad"])
def test_a_saved_ica_knows_the_names_of_its_features(tmp_path, kind):
    model = ICA(restarts=1).fit(table(tmp_path, kind))
    model.save(tmp_path / "ica.safetensors")
    loaded = ICA.load(tmp_path / "ica.safetensors")
    assert loaded.feature_names_in_.tolist() == model.feature_names_in_.tolist() == list(NAMES)
    expected = model.transform(table(tmp_path, kind))
    for fitted in (model, loaded):
        assert np.array_equal(fitted.transform(other_order(tmp_path, "csv")), expected)
        assert np.array_equal(fitted.transform(table(tmp_path, "frame")), expected)
        with pytest.raises(ValueError, match="feature names"):
            fitted.transform(other_order(tmp_path, "frame"))
        with pytest.warns(UserWarning, match="feature names") as said:
            fitted.transform(X)
        assert len(said) == 1


def numbered(first: int = 0) -> pd.DataFrame:
    return pd.DataFrame(X, columns=range(first, first + 3))


@pytest.mark.parametrize("first", [0, 1])
def test_names_that_are_numbers_are_matched_by_an_ica_too(tmp_path, first):
    frame = numbered(first)
    model = ICA(restarts=1).fit(frame)
    resolved = resolve(frame, **QUICK)
    assert model.basis_.columns == resolved.columns == tuple(map(str, frame.columns))
    loaded = ICA.load(save_basis(tmp_path / "basis.safetensors", resolved))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fitted in (model, loaded):
            expected = fitted.transform(frame)
            assert np.array_equal(fitted.transform(frame[frame.columns[ORDER]]), expected)
            assert np.array_equal(
                fitted.transform(frame.rename(columns=str)[[str(first + j) for j in ORDER]]), expected
            )
            assert np.array_equal(fitted.transform(X), expected)
    with (
        pytest.warns(UserWarning, match="columns_not_checked")
        if first
        else pytest.raises(DataError, match=naming(3, 2))
    ):
        model.transform(numbered(1 - first).iloc[:, : 3 if first else 2])


def test_an_ica_finds_the_columns_of_its_output_by_name():
    frame = pd.DataFrame(X, columns=list(NAMES))
    model = ICA(restarts=1).fit(frame).set_output(transform="pandas")
    Z = model.transform(frame)
    components = Z.set_axis(["component_000", "component_001", "component_002"], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back = model.inverse_transform(Z)
        assert np.allclose(back, X)
        for turned in (Z.iloc[:, ORDER], components.iloc[:, ORDER], Representation(Z.iloc[:, ORDER])):
            assert np.array_equal(model.inverse_transform(turned), back)
        assert np.array_equal(model.inverse_transform(Z.to_numpy()), back)
    with pytest.raises(DataError, match=naming(1, 3, "ica2")):
        model.inverse_transform(Z.rename(columns={"ica2": "x"}))
    with pytest.warns(UserWarning, match="columns_not_checked"):
        model.inverse_transform(frame)


def test_an_aligner_finds_the_columns_of_both_views_by_name():
    left = pd.DataFrame(X, columns=list(NAMES))
    for names in (list("xyz"), [0, 1, 2]):
        right = pd.DataFrame(X @ [[0, 2, 0], [0, 0, 2], [-2, 0, 0]], columns=names)
        model = Aligner("linear").fit(left, right)
        other = right.iloc[:, ORDER]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.array_equal(model.inverse_transform(other), model.inverse_transform(right))
            assert model.score(left, other) == model.score(left, right) > 0.99
    model = Aligner("linear").fit(left, right.set_axis(list("xyz"), axis=1))
    with pytest.raises(DataError, match=naming(3, 3, "x")):
        model.score(left, left)
    with pytest.warns(UserWarning, match="columns_not_checked"):
        model.score(left, right)


@pytest.mark.parametrize("kind", ["pyarrow", "dask"])
def test_tables_of_pyarrow_and_data_frames_of_dask_have_names(basis, kind):
    frame = pd.DataFrame(X, columns=list(NAMES))
    if kind == "pyarrow":
        of: Any = pytest.importorskip("pyarrow").Table.from_pandas
    else:
        of = partial(pytest.importorskip("dask.dataframe").from_pandas, npartitions=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = transform(basis, frame)
        assert np.array_equal(transform(basis, of(frame.iloc[:, ORDER])), expected)
        model = ICA(restarts=1).fit(of(frame))
        assert np.array_equal(model.transform(of(frame)), expected)
        assert compare(of(frame), frame.sample(frac=1, random_state=0)).inputs[0].n == 400
    assert model.feature_names_in_.tolist() == list(NAMES)


def test_partitions_of_dask_that_each_count_from_0_name_no_rows():
    dask_frame = pytest.importorskip("dask.dataframe")
    halves = dask_frame.concat([dask_frame.from_pandas(pd.DataFrame(X[:200]), npartitions=1)] * 2)
    assert Representation(halves).ids is None
    assert Representation(halves).n == 400


def test_a_map_takes_no_data_frame(basis):
    for maps in (basis.to_components, basis.from_components, compare(X, X @ MIXED).pair("a", "b").map("linear")):
        with pytest.raises(DataError, match="transform"):
            maps(pd.DataFrame(X, columns=list(NAMES)))


def test_the_basis_of_mechanisms_keeps_the_names_of_latents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Z = np.random.default_rng(0).standard_normal((60, 3))
    J = np.zeros((60, 20, 3))
    J[:, :12, :2], J[:, 12:, 2] = np.random.default_rng(1).standard_normal((60, 12, 2)), 1
    np.save("J.npy", J @ MIXED)
    latents, other = table(tmp_path, "parquet", Z), table(tmp_path, "parquet", Z[:, ORDER], OTHER, stem="other")
    assert main(["mechanisms", str(latents), "--jacobians", "J.npy", "-o", "b.safetensors", "--quiet"]) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        factors = transform("b.safetensors", latents, tmp_path / "s.parquet")
        assert np.array_equal(transform("b.safetensors", other), transform("b.safetensors", latents))
    assert not set(open_representation(factors).columns or ()) & set(NAMES)  # factors are no latents
    values = open_representation(factors).values[:]
    back = open_representation(transform("b.safetensors", values, tmp_path / "z.parquet", inverse=True))
    assert back.columns == NAMES
    assert np.allclose(back.values[:], Z)


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "h5ad"])
def test_the_command_line_matches_refuses_and_says(tmp_path, capsys, kind):
    path, other = table(tmp_path, kind), other_order(tmp_path, kind)
    basis, output = tmp_path / "basis.safetensors", tmp_path / "z.npy"
    words = ["resolve", str(path), "-o", str(basis), "--restarts", "1", "--stability", "0", "--quiet"]
    assert main(words) == 0
    written = []
    for source in (path, other):
        assert main(["transform", str(basis), str(source), "-o", str(output)]) == 0
        assert capsys.readouterr().err == ""
        written.append(output.read_bytes())
    assert written[0] == written[1]
    wrong = table(tmp_path, kind, names=("alpha", "beta", "delta"), stem="wrong")
    assert main(["transform", str(basis), str(wrong), "-o", str(output)]) == 3
    err = capsys.readouterr().err
    assert (err.count("\n"), "wrong" in err, "gamma" in err) == (1, True, True)
    assert output.read_bytes() == written[0]
    np.save(tmp_path / "bare.npy", X)
    assert main(["transform", str(basis), str(tmp_path / "bare.npy"), "-o", str(output)]) == 0
    assert "columns_not_checked" in capsys.readouterr().err


def test_a_screen_is_matched_with_a_basis_by_name():
    world = cells("tiny", seed=3)
    names = [f"feature_{j}" for j in range(world.X.shape[1])]
    frame = pd.DataFrame(world.X, columns=names).assign(**world.metadata)
    turned = frame[names[::-1] + list(world.metadata)]
    basis = resolve(frame[names], **QUICK)
    how: dict[str, Any] = {"basis": basis, "permutations": 20, "preset": "rxrx3-core"}
    expected, found = (screens.attribute(source, **how).result for source in (frame, turned))
    assert [c.technical for c in found.components] == pytest.approx([c.technical for c in expected.components])
    assert "columns_not_checked" not in [alert.code for alert in found.alerts]
    with pytest.raises(DataError, match="feature_0"):
        screens.attribute(frame.rename(columns={"feature_0": "feature_x"}), **how)
    bare = screens.attribute(world.X, metadata=world.metadata, **how).result
    assert [alert.code for alert in bare.alerts].count("columns_not_checked") == 1


@pytest.mark.parametrize("spelled", ["plate", "{file}:plate"])
def test_a_column_of_labels_is_no_value(tmp_path, spelled):
    rng = np.random.default_rng(8)
    x = rng.standard_normal((200, 3))
    rows = [",".join([*map(repr, row.tolist()), str(i // 20), f"tag{i % 2}"]) for i, row in enumerate(x)]
    file = tmp_path / "x.csv"
    file.write_text("\n".join(["a,b,c,plate,tag", *rows]) + "\n")
    by = spelled.format(file=file)
    found = compare(file, x @ rng.standard_normal((3, 3)), group_by=by, labels="tag", nulls=())
    assert (found.inputs[0].d, found.pairs[0].rung("linear").r2.value) == (3, pytest.approx(1))
    assert (
        resolve(f"{file}:a,b,c,plate", group_by=by, stability=0).result.inputs[0].d == 4
    )  # columns that are asked for
