"""Corrected tables as files: what pycytominer and scanpy find in them, and where."""

from __future__ import annotations

import numpy as np
import pytest

from identifiable import deconfound
from identifiable._checks import DataError, OutputError
from identifiable.blocks import Blocks
from identifiable.io import open_screen

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

N, FEATURES = 12, ("Cells_Area", "Nuclei_Texture/3 px", "Cytoplasm_Ärea")
METADATA = {
    "Metadata_Plate": np.repeat(["p1", "p2"], 6),
    "Metadata_Well": np.array(["A01", "A02", "B01", "B02", "C01", "C02"] * 2),
    "Metadata_treatment": np.array(["DMSO", "x", "DMSO", "y", "DMSO", "x"] * 2),
    "Metadata_dose": np.array([np.nan, 0.1, np.nan, 1.0, np.nan, 0.1] * 2),
    "Metadata_count": np.arange(N),
}
RECORD = {"method": "sphering", "epsilon": 0.1, "removed": [1, 2]}


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N, len(FEATURES)))


@pytest.fixture
def profiles(tmp_path, values):
    path = tmp_path / "profiles.parquet"
    pd.DataFrame({**METADATA, **dict(zip(FEATURES, values.T, strict=True))}).to_parquet(path)
    return deconfound.screen(path, control="DMSO")


@pytest.fixture
def cells(tmp_path, values):
    ad = pytest.importorskip("anndata")
    adata = ad.AnnData(values, obs=pd.DataFrame(METADATA, index=[f"w{i}" for i in range(N)]))
    adata.var_names = FEATURES
    adata.obsm["X_deep"] = values @ np.ones((3, 3)) + values
    adata.uns["other"] = {"a": 1}
    adata.write_h5ad(tmp_path / "cells.h5ad")
    return tmp_path / "cells.h5ad"


@pytest.mark.parametrize("pycytominer", [False, True])
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_corrected_table_has_the_names_of_the_input(tmp_path, profiles, values, suffix, pycytominer):
    path = tmp_path / f"out{suffix}"
    saved = deconfound.save_corrected(path, profiles, Blocks(-values), record=RECORD, pycytominer=pycytominer)
    written = pd.read_parquet(path) if suffix == ".parquet" else pd.read_csv(path, float_precision="round_trip")
    assert saved.path == path
    assert list(written) == [*METADATA, *FEATURES]  # and no Metadata_Metadata_
    np.testing.assert_array_equal(written[list(FEATURES)], -values)
    for name, column in METADATA.items():
        assert written[name].isna().tolist() == pd.isna(column).tolist()
    assert open_screen(path).feature_names == FEATURES


def test_other_columns_have_names_of_their_own_and_metadata_the_prefix_if_asked(tmp_path, values):
    columns = {name.removeprefix("Metadata_"): column for name, column in METADATA.items()}
    opened = deconfound.screen(values, metadata=columns, control="DMSO")
    few = Blocks(values[:, :2])
    deconfound.save_corrected(tmp_path / "a.parquet", opened, few, record=RECORD, pycytominer=True)
    assert list(pd.read_parquet(tmp_path / "a.parquet")) == [*METADATA, "feature_0", "feature_1"]
    deconfound.save_corrected(tmp_path / "b.parquet", opened, few, record=RECORD, feature_names=["PC1", "PC2"])
    assert list(pd.read_parquet(tmp_path / "b.parquet")) == [*columns, "PC1", "PC2"]


def test_two_metadata_columns_of_one_name_are_refused(tmp_path, values):
    columns = {**METADATA, "Plate": METADATA["Metadata_Plate"]}
    opened = deconfound.screen(values, metadata=columns, control="DMSO", plate="Metadata_Plate")
    with pytest.raises(DataError, match="'Metadata_Plate'"):
        deconfound.save_corrected(tmp_path / "a.csv", opened, Blocks(values), record=RECORD, pycytominer=True)
    with pytest.raises(OutputError, match=r"\.xlsx"):
        deconfound.save_corrected(tmp_path / "a.xlsx", opened, Blocks(values), record=RECORD)
    assert list(tmp_path.iterdir()) == []


def test_the_layer_of_an_h5ad_has_the_corrected_values_and_X_the_input(tmp_path, cells, values):
    ad = pytest.importorskip("anndata")
    opened = deconfound.screen(cells, control="DMSO")
    saved = deconfound.save_corrected(tmp_path / "out.h5ad", opened, Blocks(-values), record=RECORD)
    written = ad.read_h5ad(saved.path)
    assert saved.where == "layers['corrected']"
    np.testing.assert_array_equal(written.layers["corrected"], -values)
    np.testing.assert_array_equal(written.X, values)
    assert written.var_names.tolist() == list(FEATURES)
    assert list(written.obs) == list(METADATA)
    assert written.uns["other"] == {"a": 1}
    assert written.uns["identifiable"]["method"] == "sphering"
    assert written.uns["identifiable"]["removed"].tolist() == [1, 2]


@pytest.mark.parametrize(("part", "width"), [("", 2), (":X_deep", 3)])
def test_what_has_not_the_columns_of_X_goes_to_obsm(tmp_path, cells, values, part, width):
    ad = pytest.importorskip("anndata")
    opened = deconfound.screen(f"{cells}{part}", control="DMSO")
    corrected = Blocks(values[:, :width])
    saved = deconfound.save_corrected(tmp_path / "out.h5ad", opened, corrected, record=RECORD)
    written = ad.read_h5ad(saved.path)
    assert saved.where == "obsm['X_corrected']"
    np.testing.assert_array_equal(written.obsm["X_corrected"], values[:, :width])
    assert not written.layers


def test_a_table_and_joined_metadata_become_an_h5ad(tmp_path, profiles, cells, values):
    ad = pytest.importorskip("anndata")
    deconfound.save_corrected(tmp_path / "a.h5ad", profiles, Blocks(-values), record=RECORD)
    written = ad.read_h5ad(tmp_path / "a.h5ad")
    np.testing.assert_array_equal(written.X, values)
    np.testing.assert_array_equal(written.layers["corrected"], -values)
    assert list(written.obs) == list(METADATA)
    more = pd.DataFrame({"id": [f"w{i}" for i in range(N)], "lab": ["a", "b"] * 6})
    opened = deconfound.screen(cells, metadata=more, control="DMSO")
    deconfound.save_corrected(tmp_path / "b.h5ad", opened, Blocks(values), record=RECORD)
    assert ad.read_h5ad(tmp_path / "b.h5ad").obs["lab"].tolist() == ["a", "b"] * 6
