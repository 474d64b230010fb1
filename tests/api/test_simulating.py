"""`simulate`: worlds in files, with the truth beside them, all files or none."""

from __future__ import annotations

import csv
import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from errors import naming
from identifiable._checks import OutputError, UsageError
from identifiable.api import simulating
from identifiable.api.simulating import simulate_cells, simulate_sources
from identifiable.cli import simulate
from identifiable.cli.options import Parser
from identifiable.groups import AffineMap
from identifiable.worlds import cells, recovery


def run(*arguments: str | Path) -> int:
    """The exit code of `identifiable simulate …`."""
    parser = Parser(prog="identifiable")
    simulate.add_to(parser.add_subparsers(parser_class=Parser))
    options = parser.parse_args(["simulate", *map(str, arguments)])
    code: int = options.run(options)
    return code


def truth_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


# -- cells


def test_a_folder_holds_the_world_its_metadata_and_the_truth(tmp_path: Path):
    made = simulate_cells(tmp_path / "world", "tiny", seed=3, layout=0.5)
    world = cells("tiny", seed=3, layout=0.5)
    assert [path.name for path in made.files] == ["X.npy", "metadata.csv", "truth.npy", "truth.json"]
    assert np.array_equal(np.load(made.table), world.X)
    assert made.latents is not None
    assert np.array_equal(np.load(made.latents), world.S)
    assert made.metadata is not None
    with made.metadata.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["well_id"] for row in rows] == world.metadata["well_id"].tolist()
    assert [int(row["plate"]) for row in rows] == world.metadata["plate"].tolist()
    doses = [float(row["concentration"] or "nan") for row in rows]
    assert np.array_equal(doses, world.metadata["concentration"], equal_nan=True)
    assert not np.array_equal(np.load(made.table), cells("tiny", seed=4, layout=0.5).X)


def test_the_truth_tells_roles_effects_relations_settings_and_constants(tmp_path: Path):
    made = simulate_cells(tmp_path, "tiny", seed=1, delta=0.5, layers=2)
    world = cells("tiny", seed=1, delta=0.5, layers=2)
    truth = truth_of(made.truth)
    assert truth["schema"] == "identifiable/simulate/1"
    assert (truth["world"], truth["preset"], truth["seed"]) == ("cells", "tiny", 1)
    assert (truth["n"], truth["d"]) == world.X.shape
    assert truth["roles"] == list(world.roles)
    assert truth["factors"] == list(world.factors)
    assert truth["settings"]["delta"] == 0.5
    assert truth["stretches"]["bounds"] == pytest.approx([0.25, 2.25])
    assert 0.25 < truth["stretches"]["found"][0] < 1 < truth["stretches"]["found"][1] < 2.25
    assert ["EIF3H", "MTOR"] in truth["relations"]
    dense = np.zeros_like(world.effects)
    for name, shifts in truth["effects"].items():
        for latent, size in shifts.items():
            dense[world.treatments == name, int(latent)] = size
    assert np.allclose(dense, world.effects, rtol=1e-5)
    assert not any(name.startswith(("HCK", "EMPTY")) for name in truth["effects"])


def test_a_parquet_has_metadata_and_features_and_the_truth_beside_it(tmp_path: Path):
    parquet = pytest.importorskip("pyarrow.parquet")
    made = simulate_cells(tmp_path / "wells.parquet", "tiny")
    world = cells("tiny")
    assert [path.name for path in made.files] == ["wells.parquet", "wells.truth.npy", "wells.truth.json"]
    table = parquet.read_table(made.table)
    features = [name for name in table.column_names if name.startswith("feature_")]
    assert np.array_equal(np.stack([table[name].to_numpy() for name in features], axis=1), world.X)
    assert table["treatment"].to_pylist() == world.metadata["treatment"].tolist()
    assert set(world.metadata) <= set(table.column_names)


def test_an_h5ad_has_the_latents_in_obsm_and_the_roles_in_uns(tmp_path: Path):
    anndata = pytest.importorskip("anndata")
    made = simulate_cells(tmp_path / "wells.h5ad", "tiny")
    world = cells("tiny")
    assert [path.name for path in made.files] == ["wells.h5ad", "wells.truth.json"]
    data = anndata.read_h5ad(made.table)
    assert np.array_equal(data.X, world.X)
    assert np.array_equal(data.obsm["S_true"], world.S)
    assert data.obs_names.tolist() == world.metadata["well_id"].tolist()
    assert list(data.uns["simulation"]["roles"]) == list(world.roles)


def test_patches_are_written_well_after_well(tmp_path: Path):
    made = simulate_cells(tmp_path, "tiny", patches=3, pooled=True, keep_patches=True)
    assert made.patches is not None
    patches = np.load(made.patches)
    assert patches.shape == (3 * made.n, made.d)
    assert np.allclose(patches.reshape(made.n, 3, made.d).mean(axis=1), np.load(made.table), atol=1e-5)


def test_rows_are_made_in_blocks_and_progress_is_told(tmp_path: Path):
    told: list[tuple[Any, int, int]] = []
    made = simulate_cells(tmp_path, "medium", progress=lambda *step: told.append(step), experiments=6)
    by_stage = {
        stage: [done for name, done, _ in told if str(name) == stage] for stage in ("X: simulating", "S: simulating")
    }
    for steps in by_stage.values():
        assert len(steps) > 1  # no table is made whole
        assert steps == sorted(steps)
        assert steps[-1] == made.n


def test_a_failure_leaves_no_file_and_no_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*arguments: Any) -> Path:
        raise OutputError("disk: cannot write there (No space left on device); choose another path.")

    old = simulate_cells(tmp_path / "old", "tiny", seed=1)
    before = old.table.read_bytes()
    monkeypatch.setattr(simulating, "write_text", broken)  # the last file
    for folder in ("new", "old"):
        with pytest.raises(OutputError, match="No space left"):
            simulate_cells(tmp_path / folder, "tiny", seed=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]
    assert old.table.read_bytes() == before
    assert sorted((tmp_path / "old").iterdir()) == sorted(old.files)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wells.zip", r"wells\.zip: .*\.parquet, \.csv, \.h5ad"),
        ("missing/wells.csv", r"wells\.csv: .*no folder .*missing"),
        ("file", r"file: .*a file"),
    ],
)
def test_a_place_that_cannot_be_written_is_named_before_any_work(tmp_path: Path, name: str, message: str):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match=message):
        simulate_cells(tmp_path / name, "rxrx3core")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


# -- sources


def test_sources_are_written_with_the_map_that_mixed_them(tmp_path: Path):
    made = simulate_sources(tmp_path / "X.npy", 2000, 4, seed=5, kinds=("super", "sub", "gaussian", "skewed"))
    assert [path.name for path in made.files] == ["X.npy", "X.truth.npy", "X.truth.json"]
    truth = truth_of(made.truth)
    assert made.latents is not None
    X, S = np.load(made.table), np.load(made.latents)
    mixing = AffineMap(np.array(truth["mixing"]["matrix"]), np.array(truth["mixing"]["offset"]))
    assert truth["kinds"] == ["super", "sub", "gaussian", "skewed"]
    assert np.allclose(mixing(S), X, atol=1e-5)
    assert recovery(S, X, mixing.inverse()).min() > 0.999
    assert recovery(S, X, AffineMap(np.eye(4), np.zeros(4))).min() < 0.9


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system has no such call")
def test_a_full_disk_is_noticed_before_sources_are_written_into_a_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(file: int, start: int, size: int) -> None:
        raise OSError(errno.ENOSPC, f"{size} bytes")

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    with pytest.raises(OutputError, match=rf"\({128 + 4 * 30 * 2} bytes\)"):
        simulate_sources(tmp_path / "new", 30, 2)
    assert list(tmp_path.iterdir()) == []


def test_sources_refuse_a_size_or_seed_that_is_none(tmp_path: Path):
    with pytest.raises(UsageError, match=naming("got", 0, 3)):
        simulate_sources(tmp_path, 0, 3)
    with pytest.raises(UsageError, match=naming("seed: ", 0, -1)):
        simulate_sources(tmp_path, 10, 3, seed=-1)
    assert not list(tmp_path.iterdir())


# -- the command


def test_the_command_writes_what_the_call_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code = run(
        "cells", "-o", tmp_path / "by_command", "--preset", "tiny", "--seed", "2", "--layout", "fixed", "--no-biology",
        "--set", "delta=0.3", "--set", "compound-plates=1,2", "--set", "query=4",
    )  # fmt: skip
    knobs: dict[str, Any] = {"delta": 0.3, "compound_plates": (1, 2), "query": 4}
    made = simulate_cells(tmp_path / "by_call", "tiny", seed=2, layout="fixed", no_biology=True, **knobs)
    assert code == 0
    assert capsys.readouterr().out.startswith(f"{made.n} x 24: {tmp_path / 'by_command' / 'X.npy'}, ")
    for path in made.files:
        assert (tmp_path / "by_command" / path.name).read_bytes() == path.read_bytes()


def test_the_command_makes_sources_of_the_kinds_in_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run("sources", "-o", tmp_path / "x.npy", "--rows", "50", "--columns", "3", "--kinds", "sub,gaussian", "--quiet")
    assert capsys.readouterr().out == ""
    assert np.load(tmp_path / "x.npy").shape == (50, 3)
    assert truth_of(tmp_path / "x.truth.json")["kinds"] == ["sub", "gaussian", "sub"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cells", "-o", "x", "--set", "delta"], "--set 'delta': .*NAME=VALUE .*experiments"),
        (["cells", "-o", "x", "--set", "layout=fixed"], "--set 'layout=fixed': .*NAME=VALUE"),
        (["cells", "-o", "x", "--set", "delta=a"], "--set 'delta=a': .*a number"),
        (["cells", "-o", "x", "--set", "query=1.5"], "--set 'query=1.5': .*whole number"),
        (["cells", "-o", "x", "--set", "compound_plates=a"], "--set 'compound_plates=a': .*whole numbers"),
        (["cells", "-o", "x", "--set", "rho=0", "--set", "rho=1"], "--set 'rho=1': .*rho .*twice"),
        (["cells", "-o", "x", "--keep-patches"], "--keep-patches: .*--patches M"),
        (["cells", "-o", "x", "--patches", "4"], "--patches 4: .*--pooled .*--keep-patches"),
        (["cells", "-o", "x", "--preset", "huge"], "preset 'huge'"),
        (["cells"], "required: -o"),
        (["sources", "-o", "x", "--kinds", "odd"], "--kinds 'odd': .*super, sub, near_gaussian, gaussian .*skewed"),
        ([], "required: WORLD"),
    ],
)
def test_a_wrong_command_says_what_was_expected_and_writes_nothing(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        run(*arguments)
    assert not list(tmp_path.iterdir())
