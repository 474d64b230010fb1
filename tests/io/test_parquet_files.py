"""`.parquet`: what is in the columns is what is read, which columns are features is said, and tables are written to be read."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from errors import naming
from identifiable._checks import DataError, MissingExtra, OutputError, PairingError
from identifiable.blocks import Blocks
from identifiable.io import arrow_files, open_representation, open_screen, read_label_table, save_array, save_table
from identifiable.io.label_columns import choose_features

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SEED = 20260701
N, D = 61, 7


@pytest.fixture
def values() -> NDArray[np.float32]:
    return np.random.default_rng(SEED).standard_normal((N, D)).astype(np.float32)


def ids() -> list[str]:
    return [f"well-{i:03d}" for i in range(N)]


def write(path: Path, values: NDArray[Any], *, rows: int | None = None, index: str | None = None, **beside: Any) -> str:
    """Features `feature_0`, …, with other columns before them, in groups of `rows`."""
    table = pa.table({**beside, **{f"feature_{j}": column for j, column in enumerate(values.T)}})
    if index is not None:
        table = table.replace_schema_metadata({"pandas": json.dumps({"index_columns": [index]})})
    pq.write_table(table, path, row_group_size=rows)
    return str(path)


# Rows


@pytest.mark.parametrize("rows", [None, 10])
@pytest.mark.parametrize("panel", [arrow_files.PANEL, 3])
def test_rows_are_those_of_the_file_by_slice_and_by_index(tmp_path, values, monkeypatch, rows, panel):
    monkeypatch.setattr(arrow_files, "PANEL", panel)
    monkeypatch.setattr(arrow_files, "BATCH_ROWS", 8)
    found = open_representation(write(tmp_path / "a.parquet", values, rows=rows), rows=9)
    assert found.ids is None
    assert found.values.dtype == np.float32
    assert found.values.source.stored_dtype == "float32"
    np.testing.assert_array_equal(found.values[:N], values)
    index = np.random.default_rng(1).integers(0, N, 100)
    np.testing.assert_array_equal(found.values[index], values[index])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found.values.source))[3:9], values[3:9])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
def test_numbers_keep_their_type(tmp_path, values, dtype):
    stored = (values * 10).astype(dtype)
    found = open_representation(write(tmp_path / "a.parquet", stored) + ":feature_*")
    assert found.values.dtype == dtype
    np.testing.assert_array_equal(found.values[:N], stored)


@pytest.mark.parametrize("fixed", [True, False])
def test_a_column_of_lists_is_an_embedding(tmp_path, values, fixed):
    kind = pa.list_(pa.float32(), D) if fixed else pa.list_(pa.float32())
    column = pa.array(values.tolist(), kind)
    pq.write_table(pa.table({"well_id": ids(), "embedding": column}), tmp_path / "a.parquet", row_group_size=20)
    for spec in (f"{tmp_path}/a.parquet", f"{tmp_path}/a.parquet:embedding"):
        found = open_screen(spec)
        np.testing.assert_array_equal(found.representation.values[:N], values)
        assert found.feature_names[-1] == f"embedding_{D - 1}"
        assert list(found.representation.labels) == ["well_id"]


def test_lists_of_another_length_or_without_a_number_are_refused(tmp_path):
    for broken, message in (
        ([[1.0, 2.0], [1.0]], r"row 1 \(from 0\), column 'e': expected a list of 2 numbers, as in row 0, got 1"),
        ([[1.0, 2.0], None], "row 1 .* got nothing"),
        ([[1.0, 2.0], [1.0, None]], r"row 1 \(from 0\), column 'e': a number of the list is empty"),
    ):
        pq.write_table(pa.table({"e": pa.array(broken, pa.list_(pa.float64()))}), tmp_path / "a.parquet")
        with pytest.raises(DataError, match=message):
            open_representation(tmp_path / "a.parquet")


# Which columns are features


def test_whole_numbers_and_text_are_no_features(tmp_path, values):
    path = write(tmp_path / "a.parquet", values, plate=np.arange(N), gene=["g"] * N, concentration=np.ones(N))
    found = open_screen(path)
    assert found.representation.d == D
    assert set(found.representation.labels) == {"plate", "gene", "concentration"}
    (note,) = found.notes
    assert note.values == {"features": D, "patterns": "feature_*", "others": ["concentration"]}
    named = open_screen(path, features=["feature_*", "plate"])
    assert named.feature_names[0] == "plate"
    assert "plate" not in named.representation.labels


def test_features_are_chosen_by_the_habits_of_the_field():
    assert choose_features({"Metadata_dose": "float", "a": "float", "b1": "float"}, None, "t").names == ("a", "b1")
    jump = choose_features({"Metadata_Plate": "other", "Cells_a": "float", "Cells_n": "whole"}, None, "t")
    assert jump.names == ("Cells_a",)
    assert [note.values for note in jump.notes] == [{"whole": ["Cells_n"]}]
    assert choose_features({"Cells_a": "float", "Nuclei_b": "float", "dose": "float"}, None, "t").names == (
        "Cells_a",
        "Nuclei_b",
    )
    assert choose_features({"a": "float", "b": "float"}, None, "t") == choose_features(
        {"a": "float", "b": "float", "c": "other"}, "*", "t"
    )
    assert choose_features({"e_0": "float", "id": "whole", "plate": "whole"}, "*", "t").names == ("e_0",)


def test_a_dose_among_numbered_columns_is_not_guessed_about(tmp_path, values):
    kinds = {"emb_0": "float", "emb_1": "float", "dose": "float"}
    with pytest.raises(DataError, match=naming(2, "emb_0, emb_1, …", "t:emb_*")):
        choose_features(kinds, None, "t")  # type: ignore[arg-type]
    assert choose_features(kinds, "emb_*", "t").names == ("emb_0", "emb_1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("featrue_0", "no column matches 'featrue_0'; .*did you mean"),
        ("gene", "column 'gene' holds no"),
        ("ge*", r"column that matches 'ge\*' holds numbers \(gene\)"),
    ],
)
def test_features_that_are_not_there_are_said(tmp_path, values, part, message):
    path = write(tmp_path / "a.parquet", values, gene=["g"] * N)
    with pytest.raises(DataError, match=message):
        open_representation(f"{path}:{part}")


def test_a_file_without_floats_says_so(tmp_path):
    pq.write_table(pa.table({"gene": ["a", "b"]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"columns.*floats"):
        open_representation(tmp_path / "a.parquet")


# Ids and labels


def test_ids_come_from_the_index_of_pandas_or_a_column(tmp_path, values):
    path = write(tmp_path / "a.parquet", values, index="__index_level_0__", __index_level_0__=ids(), other=range(N))
    assert open_representation(path).ids.tolist() == ids()
    assert open_representation(path, ids="other").ids.tolist() == list(range(N))
    assert "__index_level_0__" not in open_screen(path).representation.labels
    path = write(tmp_path / "b.parquet", values, well_id=ids())
    assert open_representation(path).ids.tolist() == ids()
    path = write(tmp_path / "c.parquet", values, well_id=["A01"] * N)  # one row for each cell of a well
    assert open_representation(path).ids is None


def test_a_pandas_frame_is_read_as_it_was_written(tmp_path, values):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(values, columns=[f"f{j}" for j in range(D)], index=pd.Index(ids(), name="well"))
    frame["plate"] = pd.Categorical(["p1", None] * 30 + ["p2"])
    frame["cells"] = pd.array([1, None] * 30 + [3], dtype="Int64")
    frame["ok"] = [True, False] * 30 + [True]
    frame["day"] = pd.Timestamp("2026-01-02")
    frame.to_parquet(tmp_path / "a.parquet")
    found = open_screen(tmp_path / "a.parquet").representation
    assert found.ids.tolist() == ids()
    np.testing.assert_array_equal(found.values[:N], values)
    assert found.labels["plate"][:3].tolist() == ["p1", "", "p1"]
    np.testing.assert_array_equal(found.labels["cells"][:3], [1.0, np.nan, 1.0])
    assert found.labels["ok"].dtype == np.int64
    assert found.labels["day"][0].startswith("2026-01-02")


def test_repeated_and_missing_ids_are_refused(tmp_path, values):
    path = write(tmp_path / "a.parquet", values, who=["x"] * N, gap=[None, *ids()[1:]])
    with pytest.raises(PairingError, match=r"1.*\(first: 'x'\)"):
        open_representation(path, ids="who")
    with pytest.raises(DataError, match=r"'gap':.*1.*\(first,.*0: 0\)"):
        open_representation(path, ids="gap")


def test_one_column_is_read_as_labels_with_its_ids(tmp_path, values):
    path = write(tmp_path / "a.parquet", values, id=ids(), plate=np.arange(N) // 10)
    labels, of = read_label_table(f"{path}:plate")
    assert labels.tolist() == (np.arange(N) // 10).tolist()
    assert of.tolist() == ids()
    with pytest.raises(DataError, match=r"column,.*8"):
        read_label_table(path)
    with pytest.raises(DataError, match=r"plat';.*did.*plate\?"):
        read_label_table(f"{path}:plat")


def test_columns_that_hold_no_single_values_are_left_out_and_said(tmp_path, values):
    path = write(tmp_path / "a.parquet", values, tags=[["a", "b"]] * N, plate=["p"] * N)
    found = open_screen(path)
    assert list(found.representation.labels) == ["plate"]
    assert found.notes[0].values["left_out"][0].startswith("tags (list<")


# Damage


def test_an_empty_cell_is_named_by_row_and_column(tmp_path, values):
    table = {f"feature_{j}": column.tolist() for j, column in enumerate(values.T)}
    table["feature_4"][13] = None
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet:.*13 \(from 0\),.*'feature_4':.*\(null\)"):
        open_representation(tmp_path / "a.parquet")
    read = open_representation(tmp_path / "a.parquet", gaps=True).values[:N]
    assert np.argwhere(np.isnan(read)).tolist() == [[13, 4]]


def test_more_rows_than_a_disk_holds_are_refused_before_they_are_unpacked(tmp_path, values, monkeypatch):
    path = write(tmp_path / "a.parquet", values)
    monkeypatch.setattr("identifiable.io.stored_rows.shutil.disk_usage", lambda _: type("usage", (), {"free": 100}))
    with pytest.raises(DataError, match=naming("a.parquet", 1708, 100, "columns")):
        open_representation(path)


def test_without_pyarrow_the_extra_is_named(tmp_path, values, monkeypatch):
    path = write(tmp_path / "a.parquet", values)
    monkeypatch.setattr("identifiable._extras.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"a\.parquet.*\[tables\]"):
        open_representation(path)


# Writing


LABELS: dict[str, NDArray[Any]] = {
    "plate": np.array(["p1", ""] * 30 + ["p2"]),
    "cells": np.arange(N),
    "dose": np.array([0.5, np.nan] * 30 + [2.0]),
}


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("pycytominer", [False, True])
def test_a_table_that_was_written_is_read_again(tmp_path, values, monkeypatch, suffix, pycytominer):
    monkeypatch.setattr("identifiable.io.saving.GROUP_VALUES", 10 * D)
    path = save_table(
        tmp_path / f"a{suffix}", Blocks(values, rows=9), LABELS, ids=np.array(ids()), pycytominer=pycytominer
    )
    found = open_screen(path)
    before = "Metadata_" if pycytominer else ""
    np.testing.assert_array_equal(found.representation.values[:N].astype(np.float32), values)
    assert found.representation.ids.tolist() == ids()
    assert list(found.representation.labels) == [f"{before}{name}" for name in ("id", *LABELS)]
    for name, column in LABELS.items():
        np.testing.assert_array_equal(found.representation.labels[before + name], column, strict=suffix == ".parquet")
    if suffix == ".parquet":
        assert pq.ParquetFile(path).num_row_groups == 7


def test_what_cannot_be_written_is_said_and_nothing_is_left(tmp_path, values):
    blocks = Blocks(values)
    with pytest.raises(OutputError, match=naming(".xlsx", ".parquet", ".csv")):
        save_table(tmp_path / "a.xlsx", blocks, {})
    with pytest.raises(DataError, match=r"7.*1"):
        save_table(tmp_path / "a.csv", blocks, {}, feature_names=["x"])
    with pytest.raises(DataError, match=r"columns.*called 'feature_3'"):
        save_table(tmp_path / "a.csv", blocks, {"feature_3": np.arange(N)})
    with pytest.raises(DataError, match=r"'a':.*61.*int64.*\(3,\)"):
        save_table(tmp_path / "a.parquet", blocks, {"a": np.arange(3)})
    with pytest.raises(DataError, match=r"\.parquet.*float128"):
        save_array(tmp_path / "a.parquet", values.astype(np.float128))
    assert list(tmp_path.iterdir()) == []
