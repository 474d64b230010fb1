"""`identifiable deconfound recommend`: files under their input names, the label of the input, new plates."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

import commands
from identifiable.cli import main
from identifiable.worlds import cells

pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")
anndata = pytest.importorskip("anndata")

SPHERED = ["--preset", "rxrx3-core", "--candidates", "sphering"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A loud screen, which sphering helps, and one without technical effects."""
    for name, settings in (("loud", {"loudness": 4.0, "experiments": 8, "effect": 2.0}), ("quiet", {"technical": 0})):
        world = cells("tiny", seed=24 if name == "loud" else 0, **settings)
        features = {f"Cells_{j}": world.X[:, j] for j in range(world.X.shape[1])}
        columns = {key: column.tolist() for key, column in world.metadata.items()}
        pq.write_table(pa.table({**columns, **features}), tmp_path / f"{name}.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


run = partial(commands.run, "deconfound", "recommend")


def test_the_corrected_table_has_the_columns_of_the_input(folder, capsys):
    files = ["-o", "out.parquet", "--save", "c.safetensors", "--report", "p.html", "--json", "r.json"]
    code, out, _ = run("loud.parquet", *SPHERED, *files, capsys=capsys)
    assert code == 0
    result = json.loads((folder / "r.json").read_text())
    assert result["written"] == result["chosen"]
    assert result["written"].startswith("sphering-")
    before, after = pq.read_table("loud.parquet"), pq.read_table("out.parquet")
    assert set(before.column_names) | {"correction"} == set(after.column_names)
    assert after["correction"].unique().to_pylist() == [result["written"]]
    assert after["treatment"].to_pylist() == before["treatment"].to_pylist()
    assert "out.parquet" in out
    assert main(["transform", "c.safetensors", "loud.parquet", "-o", "again.parquet", "--quiet"]) == 0
    again = pq.read_table("again.parquet")
    np.testing.assert_allclose(again["Cells_3"].to_numpy(), after["Cells_3"].to_numpy(), atol=1e-5)


def test_an_h5ad_says_where_the_values_are(folder, capsys):
    code, out, _ = run("loud.parquet", *SPHERED, "-o", "out.h5ad", "--json", "r.json", capsys=capsys)
    assert code == 0
    assert "layers['corrected']" in out
    assert "unchanged" not in out.splitlines()[-1]
    adata = anndata.read_h5ad("out.h5ad")
    assert adata.uns["identifiable"]["correction"] == json.loads((folder / "r.json").read_text())["written"]
    np.testing.assert_allclose(adata.layers["corrected"].mean(axis=0), 0, atol=1e-3)


def test_a_table_that_is_kept_is_a_labelled_copy(folder, capsys):
    code, out, _ = run("quiet.parquet", "--preset", "rxrx3-core", "-o", "out.csv", "--json", "r.json", capsys=capsys)
    assert code == 0
    last = out.splitlines()[-1]
    assert last.startswith("out.csv")
    assert "unchanged" in last
    assert "corrected" not in last
    assert json.loads((folder / "r.json").read_text())["verdict"] == "keep-as-is"
    lines = (folder / "out.csv").read_text().splitlines()
    place, feature = (lines[0].split(",").index(name) for name in ("correction", "Cells_0"))
    assert {line.split(",")[place] for line in lines[1:]} == {"as-is"}
    values = [float(line.split(",")[feature]) for line in lines[1:]]
    np.testing.assert_allclose(values, pq.read_table("quiet.parquet")["Cells_0"].to_numpy(), rtol=1e-6)


def test_a_gate_on_the_stability_of_the_choice(folder, capsys):
    code, _, err = run("quiet.parquet", "--preset", "rxrx3-core", "--fail-if", "folds > 3", "--quiet", capsys=capsys)
    assert code == 1
    assert "folds" in err


def test_a_metric_that_is_unknown_is_refused(folder, capsys):
    code, _, err = run("quiet.parquet", "--metric", "beauty", capsys=capsys)
    assert code == 2
    assert "beauty" in err
