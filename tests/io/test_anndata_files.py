"""`.h5ad`: what is in the matrices and in obs is what is read; what is written, anndata reads."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from errors import naming
from identifiable import resolve, save_basis, transform
from identifiable._checks import DataError, MissingExtra, UsageError
from identifiable.api.transforming import apply_basis
from identifiable.blocks import Blocks
from identifiable.io import (
    extend_anndata,
    open_representation,
    open_screen,
    read_label_table,
    save_anndata,
    screen_of_anndata,
)
from identifiable.io.anndata_writing import storable

ad = pytest.importorskip("anndata")
h5py = pytest.importorskip("h5py")
pd = pytest.importorskip("pandas")
sparse = pytest.importorskip("scipy.sparse")

SEED = 20260702
N, D = 40, 5


@pytest.fixture
def values() -> NDArray[np.float32]:
    return np.random.default_rng(SEED).standard_normal((N, D)).astype(np.float32)


def ids() -> list[str]:
    return [f"well-{i:02d}" for i in range(N)]


def annotated(values: Any) -> Any:
    obs = pd.DataFrame(
        {
            "plate": pd.Categorical(["p1", "p2", None, "p1"] * 10),
            "gene": [f"g{i % 7}" for i in range(N)],
            "cells": np.arange(N),
            "dose": np.where(np.arange(N) % 2, np.nan, 0.5),
            "site": pd.array([1, None, 3, 4] * 10, dtype="Int64"),
            "flag": pd.array([True, None, False, True] * 10, dtype="boolean"),
            "control": np.arange(N) % 4 == 0,
        },
        index=ids(),
    )
    adata = ad.AnnData(values, obs=obs, var=pd.DataFrame(index=[f"f{j}" for j in range(D)]))
    return adata


def check_labels(labels: Any) -> None:
    assert labels["plate"][:4].tolist() == ["p1", "p2", "", "p1"]
    assert labels["gene"][:2].tolist() == ["g0", "g1"]
    assert labels["cells"].dtype == np.int64
    np.testing.assert_array_equal(labels["dose"][:2], [0.5, np.nan])
    np.testing.assert_array_equal(labels["site"][:4], [1, np.nan, 3, 4])
    np.testing.assert_array_equal(labels["flag"][:4], [1, np.nan, 0, 1])
    assert labels["control"][:2].tolist() == [1, 0]


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_rows_and_obs_are_those_of_the_file(tmp_path, values, compression):
    annotated(values).write_h5ad(tmp_path / "a.h5ad", compression=compression)
    found = open_screen(tmp_path / "a.h5ad")
    table = found.representation
    assert table.ids.tolist() == ids()
    assert found.feature_names == ("f0", "f1", "f2", "f3", "f4")
    assert list(table.labels) == ["plate", "gene", "cells", "dose", "site", "flag", "control"]
    check_labels(table.labels)
    np.testing.assert_array_equal(table.values[:N], values)
    index = np.random.default_rng(1).integers(0, N, 90)
    np.testing.assert_array_equal(table.values[index], values[index])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(table.values.source))[3:9], values[3:9])


def test_a_sparse_matrix_by_rows_is_read_and_one_by_columns_is_not(tmp_path, values):
    thin = np.where(np.abs(values) > 1, values, 0)
    annotated(sparse.csr_matrix(thin)).write_h5ad(tmp_path / "a.h5ad")
    np.testing.assert_array_equal(open_representation(tmp_path / "a.h5ad").values[:N], thin)
    annotated(sparse.csc_matrix(thin)).write_h5ad(tmp_path / "b.h5ad")
    with pytest.raises(DataError, match=r"b\.h5ad:X:.*csc_matrix"):
        open_representation(tmp_path / "b.h5ad")


def test_a_part_is_a_key_of_obsm_or_a_layer(tmp_path, values):
    adata = annotated(values)
    adata.obsm["X_openphenom"] = values[:, :2] * 2
    adata.layers["raw"] = values + 1
    adata.obsm["both"] = values[:, :1]
    adata.layers["both"] = values
    adata.write_h5ad(tmp_path / "a.h5ad")
    path = f"{tmp_path}/a.h5ad"
    found = open_screen(f"{path}:X_openphenom")
    np.testing.assert_array_equal(found.representation.values[:N], values[:, :2] * 2)
    assert found.feature_names == ("X_openphenom_0", "X_openphenom_1")
    np.testing.assert_array_equal(open_representation(f"{path}:raw").values[:N], values + 1)
    np.testing.assert_array_equal(open_representation(f"{path}:layers/both").values[:N], values)
    with pytest.raises(DataError, match=naming("'both'", "obsm/both")):
        open_representation(f"{path}:both")
    with pytest.raises(DataError, match="holds no 'X_pca'"):
        open_representation(f"{path}:X_pca")


def test_obs_gives_labels_and_ids(tmp_path, values):
    annotated(values).write_h5ad(tmp_path / "a.h5ad")
    labels, of = read_label_table(f"{tmp_path}/a.h5ad:gene")
    assert labels[1] == "g1"
    assert of.tolist() == ids()
    assert open_representation(tmp_path / "a.h5ad", ids="cells").ids.tolist() == list(range(N))
    with pytest.raises(DataError, match=r"value.*every.*10"):
        read_label_table(f"{tmp_path}/a.h5ad:plate")
    with pytest.raises(DataError, match="it has 7"):
        read_label_table(f"{tmp_path}/a.h5ad")
    with pytest.raises(DataError, match="'batch'"):
        read_label_table(f"{tmp_path}/a.h5ad:batch")


def test_text_with_a_missing_mask_and_categories_of_old_are_read(tmp_path, values):
    annotated(values).write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "r+") as root:
        obs = root["obs"]
        group = obs.create_group("note")
        group.attrs.update({"encoding-type": "nullable-string-array", "encoding-version": "0.1.0"})
        group["values"] = ["a", "b"] * 20
        group["mask"] = np.arange(N) == 1
        obs["__categories/old"] = ["x", "y"]
        obs["old"] = np.array([0, 1, -1, 0] * 10, np.int8)
        obs["old"].attrs["categories"] = obs["__categories/old"].ref
    labels = open_screen(tmp_path / "a.h5ad").representation.labels
    assert labels["note"][:3].tolist() == ["a", "", "a"]
    assert labels["old"][:4].tolist() == ["x", "y", "", "x"]
    assert "__categories" not in labels


# Damage


def damaged(path: Path, change: Any) -> Path:
    with h5py.File(path, "r+") as root:
        change(root)
    return path


def _outside(root: Any) -> None:
    del root["X"]
    root["X"] = h5py.ExternalLink("other.h5ad", "X")


def _short(root: Any) -> None:
    del root["X"]
    root["X"] = np.zeros((3, D))


def _codes(root: Any) -> None:
    root["obs/plate/codes"][0] = 17


def _text(root: Any) -> None:
    del root["X"]
    root["X"] = np.array([b"a", b"b"])


def _no_obs(root: Any) -> None:
    del root["obs"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_outside, "'X'"),
        (_short, r"a\.h5ad:X: 3 rows.*40"),
        (_codes, "2 categories"),
        (_text, "expected real numbers,"),
        (_no_obs, "'obs'"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, values, change, message):
    annotated(values).write_h5ad(tmp_path / "a.h5ad")
    with pytest.raises(DataError, match=message):
        open_screen(damaged(tmp_path / "a.h5ad", change))


def test_without_h5py_the_extra_is_named(tmp_path, values, monkeypatch):
    annotated(values).write_h5ad(tmp_path / "a.h5ad")
    monkeypatch.setattr("identifiable._extras.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=naming("h5py", "[anndata]'")):
        open_representation(tmp_path / "a.h5ad")


# In memory


def test_anndata_in_memory_is_as_in_a_file(values):
    adata = annotated(sparse.csr_matrix(np.where(values > 0, values, 0)))
    adata.obsm["X_a"] = values[:, :2]
    found = screen_of_anndata(adata)
    check_labels(found.representation.labels)
    index = np.array([7, 3, 3])
    np.testing.assert_array_equal(found.representation.values[index], np.where(values > 0, values, 0)[index])
    other = screen_of_anndata(adata, use_rep="X_a")
    np.testing.assert_array_equal(other.representation.values[:N], values[:, :2])
    with pytest.raises(DataError, match=r"'X_b';.*X_a\."):
        screen_of_anndata(adata, use_rep="X_b")


def test_anndata_backed_by_a_file_says_to_pass_the_file(tmp_path, values):
    annotated(values).write_h5ad(tmp_path / "a.h5ad")
    backed = ad.read_h5ad(tmp_path / "a.h5ad", backed="r")
    with pytest.raises(UsageError, match=r"backed.*file;.*a\.h5ad"):
        screen_of_anndata(backed)
    backed.file.close()


# Writing


LABELS = {
    "plate": np.array(["p1", "", "p2", "p1"] * 10),
    "well": np.array(ids()),
    "cells": np.arange(N),
    "dose": np.where(np.arange(N) % 2, np.nan, 0.5),
    "control": np.arange(N) % 4 == 0,
}


def test_anndata_reads_what_was_written(tmp_path, values):
    path = save_anndata(
        tmp_path / "a.h5ad",
        Blocks(values, rows=7),
        LABELS,
        ids=np.array(ids()),
        feature_names=[f"f{j}" for j in range(D)],
        obsm={"X_ica": Blocks(values[:, :2], rows=9), "X_rand": values[:, :3]},
        varm={"PCs": np.eye(D)},
        uns={"identifiable": {"seed": 1, "none": None, "names": ["a", "b"], "table": [{"x": 1.5}, {"x": None}]}},
    )
    adata = ad.read_h5ad(path)
    np.testing.assert_array_equal(adata.X, values)
    assert adata.X.dtype == np.float32
    assert adata.obs_names.tolist() == ids()
    assert adata.var_names.tolist() == ["f0", "f1", "f2", "f3", "f4"]
    assert isinstance(adata.obs["plate"].dtype, pd.CategoricalDtype)
    assert adata.obs["plate"].isna().sum() == 10
    assert not isinstance(adata.obs["well"].dtype, pd.CategoricalDtype)  # every one is different
    assert adata.obs["control"].dtype == bool
    np.testing.assert_array_equal(adata.obsm["X_ica"], values[:, :2])
    np.testing.assert_array_equal(adata.varm["PCs"], np.eye(D))
    record = adata.uns["identifiable"]
    assert record["names"].tolist() == ["a", "b"]
    assert "none" not in record
    assert record["table"] == {"0": {"x": 1.5}, "1": {}}
    assert open_screen(path).representation.labels["plate"].tolist() == LABELS["plate"].tolist()
    adata.write_h5ad(tmp_path / "b.h5ad")  # what was read can be written on


def test_a_copy_keeps_everything_and_gains_what_was_added(tmp_path, values):
    before = annotated(values)
    before.obsm["X_pca"] = values[:, :3]
    before.obsm["X_ica"] = np.zeros((N, 1))
    before.layers["raw"] = values + 1
    before.uns["other"] = {"a": 1}
    before.write_h5ad(tmp_path / "a.h5ad", compression="gzip")
    path = extend_anndata(
        tmp_path / "a.h5ad",
        tmp_path / "b.h5ad",
        obs={"plate": np.array(["q"] * N), "is_control": np.arange(N) < 3},
        obsm={"X_ica": values[:, :2]},
        varm={"PCs": np.eye(D), "ica_unmixing": np.eye(2)},
        uns={"identifiable": {"seed": 0}},
    )
    after = ad.read_h5ad(path)
    np.testing.assert_array_equal(after.X, values)
    np.testing.assert_array_equal(after.layers["raw"], values + 1)
    np.testing.assert_array_equal(after.obsm["X_pca"], values[:, :3])
    np.testing.assert_array_equal(after.obsm["X_ica"], values[:, :2])
    assert after.uns["other"] == {"a": 1}
    assert set(after.obs["plate"]) == {"q"}
    assert after.obs["is_control"].sum() == 3
    pd.testing.assert_frame_equal(
        after.obs.drop(columns=["plate", "is_control"]), ad.read_h5ad(tmp_path / "a.h5ad").obs.drop(columns=["plate"])
    )
    assert list(after.varm) == ["PCs"]  # two rows are not five variables
    np.testing.assert_array_equal(after.uns["identifiable"]["varm"]["ica_unmixing"], np.eye(2))
    assert after.uns["identifiable"]["seed"] == 0


def test_a_copy_that_fails_leaves_nothing(tmp_path, values):
    annotated(values).write_h5ad(tmp_path / "a.h5ad")
    with pytest.raises(DataError, match=naming("obsm 'X_ica'", 3, 40)):
        extend_anndata(tmp_path / "a.h5ad", tmp_path / "b.h5ad", obsm={"X_ica": values[:3]})
    with pytest.raises(DataError, match=r"'a':.*40.*\(2,\)"):
        extend_anndata(tmp_path / "a.h5ad", tmp_path / "b.h5ad", obs={"a": np.arange(2)})
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5ad"]


def test_what_a_h5ad_cannot_hold_is_made_storable():
    found = storable(
        {"n": 2**70, "t": ("a", "b"), "mixed": [1, "a", None], "e": [], "a/b": np.array(["x"]), "path": Path("x")}
    )
    assert found["n"] == str(2**70)
    assert found["t"].dtype == object
    assert found["mixed"] == {"0": 1, "1": "a"}
    assert found["e"].shape == (0,)
    assert found["a_b"].tolist() == ["x"]
    assert found["path"] == "x"
    assert list(storable({"x": [[1], [2]] * 6})["x"])[:2] == ["00", "01"]


# from one .h5ad to another


def furnished(values: Any) -> Any:
    """What real files hold beside `X`: a sparse layer, categories in an order of their own, nested uns, raw, graphs."""
    rng = np.random.default_rng(SEED)
    n, d = values.shape
    obs = pd.DataFrame(
        {
            "dose": pd.Categorical(rng.choice(["low", "high", "none"], n), ["none", "low", "high"], ordered=True),
            "count": pd.array(rng.integers(0, 9, n), dtype="Int64"),
            "fine": rng.random(n) > 0.5,
        },
        index=[f"cell{i}" for i in range(n)],
    )
    var = pd.DataFrame({"gene": [f"g{j}" for j in range(d)]}, index=[f"v{j}" for j in range(d)])
    adata = ad.AnnData(values, obs=obs, var=var)
    adata.raw = ad.AnnData(sparse.random(n, 2 * d, 0.3, format="csr", rng=rng), obs=obs[[]])
    adata.layers["counts"] = sparse.random(n, d, 0.2, format="csr", rng=rng)
    adata.obsm["X_pca"] = rng.standard_normal((n, 2))
    adata.obsm["frame"] = pd.DataFrame({"a": rng.random(n)}, index=obs.index)
    adata.obsp["connectivities"] = sparse.random(n, n, 0.01, format="csr", rng=rng)
    adata.varm["PCs"] = rng.standard_normal((d, 2))
    adata.uns = {"neighbors": {"params": {"n": 15, "metric": "cosine"}}, "colors": np.array(["#fff", "#000"])}
    return adata


def test_transform_keeps_what_stands_beside_the_matrix_and_names_what_it_drops(tmp_path, values):
    adata = furnished(values)
    adata.write_h5ad(tmp_path / "in.h5ad", compression="gzip")
    basis = resolve(tmp_path / "in.h5ad", stability=0, restarts=1)
    with pytest.warns(UserWarning, match="parts_dropped") as said:
        transform(basis, tmp_path / "in.h5ad", tmp_path / "out.h5ad")
    dropped = {"layers/counts", "varm/PCs", "var/gene"}
    assert all(name in str(said[0].message) for name in dropped)
    assert not any(name in str(said[0].message) for name in ("obsm/", "obsp/", "uns/", "raw"))
    found = ad.read_h5ad(tmp_path / "out.h5ad")
    np.testing.assert_array_equal(found.X, transform(basis, tmp_path / "in.h5ad"))
    assert list(found.var_names) == [f"component_{k:03d}" for k in range(found.n_vars)]
    pd.testing.assert_frame_equal(found.obs, adata.obs)
    np.testing.assert_array_equal(found.obsm["X_pca"], adata.obsm["X_pca"])
    pd.testing.assert_frame_equal(found.obsm["frame"], adata.obsm["frame"])
    assert (found.obsp["connectivities"] != adata.obsp["connectivities"]).nnz == 0
    assert (found.raw.X != adata.raw.X).nnz == 0
    assert list(found.raw.var_names) == list(adata.raw.var_names)
    assert found.uns["neighbors"] == adata.uns["neighbors"]
    assert found.uns["colors"].tolist() == ["#fff", "#000"]
    assert not found.layers
    again = ad.read_h5ad(transform(basis, tmp_path / "out.h5ad", tmp_path / "back.h5ad", inverse=True))
    assert list(again.var_names) == list(adata.var_names)
    np.testing.assert_allclose(again.X, values, atol=1e-4)
    pd.testing.assert_frame_equal(again.obs, adata.obs)


def test_of_a_key_of_obsm_the_matrix_of_the_file_is_named_as_dropped(tmp_path, values):
    adata = furnished(values)
    adata.write_h5ad(tmp_path / "in.h5ad")
    basis = resolve(f"{tmp_path / 'in.h5ad'}:X_pca", stability=0, restarts=1)
    with pytest.warns(UserWarning, match=r"parts_dropped.* X[,.]"):
        transform(basis, f"{tmp_path / 'in.h5ad'}:X_pca", tmp_path / "out.h5ad")
    assert "X_pca" in ad.read_h5ad(tmp_path / "out.h5ad").obsm


def test_ids_that_were_asked_for_name_the_rows_of_the_copy(tmp_path, values):
    adata = furnished(values)
    adata.obs["well"] = [f"w{i}" for i in range(len(values))]
    del adata.layers["counts"], adata.varm["PCs"], adata.var["gene"]
    adata.write_h5ad(tmp_path / "in.h5ad")
    basis = resolve(tmp_path / "in.h5ad", stability=0, restarts=1)
    with pytest.warns(UserWarning, match=r"parts_dropped.*obsm/frame"):  # it repeats the other names of the rows
        transform(basis, tmp_path / "in.h5ad", tmp_path / "out.h5ad", ids="well")
    found = ad.read_h5ad(tmp_path / "out.h5ad")
    assert found.obs_names[0] == "w0"
    assert found.raw is not None
    assert set(adata.obs) <= set(found.obs)


@pytest.mark.parametrize(
    ("given", "output"),
    [("memory", "out.h5ad"), ("in.zarr", "out.h5ad"), ("in.h5ad", "out.zarr"), ("in.zarr", "out.zarr")],
)
def test_what_goes_along_in_no_other_case_is_named(tmp_path, values, given, output):
    pytest.importorskip("zarr")
    adata = furnished(values)
    del adata.obs["count"]  # its mask is all one value, of which zarr writes no chunk
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of anndata, about zarr
        adata.write_h5ad(tmp_path / "in.h5ad")
        adata.write_zarr(tmp_path / "in.zarr")
    basis = resolve(tmp_path / "in.h5ad", stability=0, restarts=1)
    done = apply_basis(basis, adata if given == "memory" else tmp_path / given, tmp_path / output)
    (alert,) = [alert for alert in done.alerts if alert.code == "parts_dropped"]
    named = set(alert.values["parts"])
    assert {"obsm/X_pca", "obsp/connectivities", "uns/neighbors", "layers/counts", "var/gene", "raw"} <= named
    assert any(name.startswith("obs/") for name in named) == (given == "memory")
    assert "X" not in named
    bare = apply_basis(basis, ad.AnnData(values), tmp_path / f"bare-{output}")
    assert "parts_dropped" not in [alert.code for alert in bare.alerts]


@pytest.mark.parametrize("kind", ["external link", "soft link", "array elsewhere", "reference"])
def test_what_leads_out_of_the_file_is_not_copied(tmp_path, values, kind):
    furnished(values).write_h5ad(tmp_path / "in.h5ad")
    with h5py.File(tmp_path / "in.h5ad", "r+") as file:
        uns = file["uns"]
        if kind == "external link":
            uns["odd"] = h5py.ExternalLink("/etc/other.h5", "/x")
        elif kind == "soft link":
            uns["odd"] = h5py.SoftLink("/obs")
        elif kind == "array elsewhere":
            uns.create_dataset("odd", (3,), "f8", external=[("/etc/hostname", 0, 24)])
        else:
            uns["odd"] = np.arange(3)
            uns["odd"].attrs["categories"] = file["obs"].ref
    basis = resolve(tmp_path / "in.h5ad", stability=0, restarts=1)
    with pytest.warns(UserWarning, match=r"parts_dropped.*uns/odd"):
        transform(basis, tmp_path / "in.h5ad", tmp_path / "out.h5ad")
    with h5py.File(tmp_path / "out.h5ad") as file:
        assert "odd" not in file["uns"]
        assert "neighbors" in file["uns"]


def test_parts_are_copied_in_little_memory(tmp_path):
    """A raw matrix of 160 MB goes along; what the process holds at most grows by far less."""
    n, wide = 2000, 10_000
    with h5py.File(tmp_path / "in.h5ad", "w") as file:
        adata = ad.AnnData(np.random.default_rng(0).laplace(size=(n, 3)))
        adata.raw = ad.AnnData(np.zeros((n, 1)))
        adata.write_h5ad(tmp_path / "small.h5ad")
        with h5py.File(tmp_path / "small.h5ad") as small:
            for key in small:
                small.copy(key, file)
            file.attrs.update(small.attrs)
        del file["raw/X"]
        file.create_dataset("raw/X", data=np.zeros((n, wide)))
    save_basis(tmp_path / "b.safetensors", resolve(tmp_path / "in.h5ad", stability=0, restarts=1))
    script = (
        "import resource, sys, anndata, h5py\nfrom identifiable.cli import main\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        "before = peak(); assert main(sys.argv[1:]) == 0; print(peak() - before)"
    )
    words = ["transform", "b.safetensors", "in.h5ad", "-o", "out.h5ad", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.h5ad").stat().st_size > 160e6
    assert int(done.stdout) < 60
