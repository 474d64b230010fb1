"""`identifiable.pp`: corrections of AnnData objects where scanpy expects them."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np
import pytest

import identifiable
from deconfounding.short_calls import fit_correction
from identifiable import deconfound
from identifiable._checks import DataError, DataWarning, OutputError
from identifiable.api.screening import screen

ad = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings("ignore::identifiable.DataWarning")
N, WIDTH = 96, 4
CONTROLS = {"control": "DMSO"}
CHOOSING = ("clean", "recommend")
FUNCTIONS = {name: name.replace("_", "-") for name in identifiable.pp.__all__ if name not in CHOOSING}


@pytest.fixture
def adata():
    rng = np.random.default_rng(0)
    well, plate = np.tile(np.arange(24), 4), np.repeat(np.arange(4), 24)
    obs = pd.DataFrame(
        {
            "plate": [f"p{k}" for k in plate],
            "batch": [f"b{k // 2}" for k in plate],
            "well": [f"{'ABCD'[k // 6]}{k % 6 + 1:02d}" for k in well],
            "treatment": np.where(well < 10, "DMSO", np.char.add("t", (well % 5).astype(str))),
            "cell_count": rng.integers(50, 200, N),
        },
        index=[f"w{i}" for i in range(N)],
    )
    X = rng.standard_normal((N, WIDTH)) + 3 * rng.standard_normal((4, WIDTH))[plate]
    made = ad.AnnData(X, obs=obs, obsm={"X_deep": 2 * X[:, :3]}, layers={"raw": X - 1}, uns={"other": 1})
    made.var_names = [f"f{j}" for j in range(WIDTH)]
    return made


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_puts_what_the_room_computes_into_obsm_and_leaves_X(adata, name):
    before, opened = adata.X.copy(), screen(adata, **CONTROLS)
    expected = fit_correction(FUNCTIONS[name], opened.blocks, opened.design).apply(before, np.arange(N))
    assert getattr(identifiable.pp, name)(adata, **CONTROLS) is None
    np.testing.assert_array_equal(adata.obsm["X_corrected"], expected)
    np.testing.assert_array_equal(adata.X, before)
    assert expected.shape != before.shape or np.abs(expected - before).max() > 0.1
    record = adata.uns["identifiable"]["X_corrected"]
    assert record["correction"] == FUNCTIONS[name]
    assert record["roles"]["batch"] == "batch"
    assert adata.uns["other"] == 1


def test_recommend_and_clean_put_what_they_would_write(adata):
    found = deconfound.recommend(adata, candidates=["control-z"], **CONTROLS)
    identifiable.pp.recommend(adata, candidates=["control-z"], **CONTROLS)
    np.testing.assert_array_equal(adata.obsm["X_corrected"], found.corrected[:N])
    assert adata.uns["identifiable"]["X_corrected"]["verdict"] == found.result.verdict
    asked = {"stability": 2, "permutations": 20, "metrics": (), **CONTROLS}
    cleaned = deconfound.clean(adata, **asked)
    done = identifiable.pp.clean(adata, key_added="X_clean", force=True, copy=True, **asked)
    np.testing.assert_allclose(done.obsm["X_clean"], cleaned.basis.map(adata.X), atol=1e-9)
    assert done.uns["identifiable"]["X_clean"]["verdict"] == cleaned.result.verdict
    if not cleaned.result.harmless:
        with pytest.raises(OutputError, match=cleaned.result.verdict):
            identifiable.pp.clean(adata, **asked)
    assert "X_clean" not in adata.obsm


def test_use_rep_key_added_and_copy(adata, tmp_path):
    done = identifiable.pp.sphering(adata, use_rep="X_deep", key_added="X_sphered", epsilon=1.0, copy=True, **CONTROLS)
    assert done.obsm["X_sphered"].shape == (N, 3)
    assert "X_sphered" not in adata.obsm
    assert "identifiable" not in adata.uns
    identifiable.pp.sphering(done, use_rep="layers/raw", key_added="layers/sphered", epsilon=1.0, **CONTROLS)
    identifiable.pp.sphering(done, use_rep=None, epsilon=1.0, **CONTROLS)
    np.testing.assert_allclose(
        done.layers["sphered"], done.obsm["X_corrected"], atol=1e-9
    )  # a constant is centred away
    assert set(done.uns["identifiable"]) == {"X_sphered", "layers_sphered", "X_corrected"}
    assert done.uns["identifiable"]["X_sphered"]["settings"]["epsilon"] == 1.0
    done.write_h5ad(tmp_path / "done.h5ad")
    np.testing.assert_array_equal(ad.read_h5ad(tmp_path / "done.h5ad").obsm["X_sphered"], done.obsm["X_sphered"])
    identifiable.pp.sphering(done, epsilon=0.0, **CONTROLS)
    assert np.abs(done.obsm["X_corrected"] - done.layers["sphered"]).max() > 0.1


def test_what_it_must_be_told_and_what_it_warns_of(adata):
    with pytest.raises(DataError, match=r"sphering .* controls"):
        identifiable.pp.sphering(adata[adata.obs["treatment"] != "DMSO"].copy())
    with pytest.raises(TypeError, match="epsilon"):
        identifiable.pp.combat(adata, epsilon=1.0, **CONTROLS)
    with pytest.raises(DataError, match="'X_none'"):
        identifiable.pp.tvn(adata, use_rep="X_none", **CONTROLS)
    few = pd.DataFrame({"id": adata.obs_names[:50], "lab": "a"})
    with pytest.raises(DataError, match=r"50 of 96"):
        identifiable.pp.control_z(adata, metadata=few, **CONTROLS)
    with pytest.raises(DataError, match=r"layers/deep: .* 4 .* 3;"):
        identifiable.pp.control_z(adata, use_rep="X_deep", key_added="layers/deep", **CONTROLS)
    assert set(adata.layers) == {"raw"}
    bare = adata[~((adata.obs["plate"] == "p0") & (adata.obs["treatment"] == "DMSO"))].copy()
    with pytest.warns(DataWarning, match="groups_without_controls"):
        identifiable.pp.control_z(bare, **CONTROLS)


def test_signatures_are_explicit_and_scanpy_is_not_loaded():
    for name in (*FUNCTIONS, *CHOOSING):
        parameters = inspect.signature(getattr(identifiable.pp, name)).parameters
        assert {"use_rep", "key_added", "copy", "control", "batch", "plate"} <= set(parameters)
        assert parameters["key_added"].default == "X_corrected"
    assert "epsilon" in inspect.signature(identifiable.pp.sphering).parameters
    code = "import sys, identifiable.pp; sys.exit('scanpy' in sys.modules or 'anndata' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
