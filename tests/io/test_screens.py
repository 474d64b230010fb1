"""Screens: embeddings with what is known of every well; whatever does not fit together is said, with its rows and columns."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from identifiable import compare, disentangle, resolve, transform
from identifiable._checks import DataError, PairingError, UsageError
from identifiable.blocks import Blocks
from identifiable.deconfounding.presets import is_about_wells
from identifiable.io import (
    open_representation,
    open_screen,
    read_labels,
    save_anndata,
    save_table,
    screen_of_array,
    screen_of_frame,
    tables,
)
from identifiable.io.screens import Gaps

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("h5py")

SEED = 20260703
N, D = 30, 4
SHARED = Path("/work/shared/data")


@pytest.fixture
def values() -> NDArray[np.float32]:
    return np.random.default_rng(SEED).standard_normal((N, D)).astype(np.float32)


def wells() -> list[str]:
    return [f"gene-00{i % 3}_{i}_A01" for i in range(N)]


def frame(values: NDArray[Any]) -> Any:
    """As RxRx3-core has its embeddings."""
    features = pd.DataFrame(values, columns=[f"feature_{j}" for j in range(D)])
    return pd.concat([pd.DataFrame({"well_id": wells()}), features], axis=1)


def metadata() -> Any:
    """As RxRx3-core has its metadata."""
    return pd.DataFrame(
        {
            "well_id": wells(),
            "experiment_name": [f"gene-00{i % 3}" for i in range(N)],
            "plate": [i % 2 + 1 for i in range(N)],
            "address": ["A01"] * N,
            "gene": ["" if i % 5 == 0 else f"G{i % 5}" for i in range(N)],
            "concentration": [0.25 if i % 5 == 0 else None for i in range(N)],
            "barcode": [f"{i:04d}" for i in range(N)],
            "control": [i % 2 == 0 for i in range(N)],
        }
    )


def check_metadata(labels: Any, rows: Any = slice(None)) -> None:
    index = np.arange(N)[rows]
    assert labels["plate"].dtype == np.int64
    assert labels["plate"].tolist() == (index % 2 + 1).tolist()
    assert labels["gene"].dtype.kind == "U"
    assert labels["gene"].tolist() == ["" if i % 5 == 0 else f"G{i % 5}" for i in index]
    np.testing.assert_array_equal(labels["concentration"], np.where(index % 5 == 0, 0.25, np.nan))
    assert labels["barcode"].tolist() == [f"{i:04d}" for i in index]  # no number: its zeros would be lost
    assert labels["control"].dtype == np.int64
    assert labels["control"].tolist() == (index % 2 == 0).tolist()


# One file


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv", ".csv.gz"])
def test_one_file_gives_features_and_labels(tmp_path, values, monkeypatch, suffix):
    monkeypatch.setattr(tables, "PIECE_BYTES", 700)
    path = tmp_path / f"screen{suffix}"
    both = frame(values).merge(metadata(), on="well_id")
    both.to_parquet(path) if suffix == ".parquet" else both.to_csv(
        path, index=False, sep="\t" if "tsv" in suffix else ","
    )
    found = open_screen(path)
    np.testing.assert_array_equal(found.representation.values[:N].astype(np.float32), values)
    assert found.representation.ids.tolist() == wells()
    assert found.representation.name == "screen"
    assert found.feature_names == ("feature_0", "feature_1", "feature_2", "feature_3")
    assert found.path == path
    assert [note.values for note in found.notes] == [
        {"features": D, "patterns": "feature_*", "others": ["concentration"]}
    ]
    check_metadata(found.representation.labels)
    alone = open_screen(f"{path}:feature_1")
    assert alone.representation.d == 1
    assert "feature_2" in alone.representation.labels
    with pytest.raises(UsageError, match=r"features .*twice"):
        open_screen(f"{path}:feature_1", features="feature_2")


def test_a_text_table_needs_names_for_its_columns(tmp_path):
    (tmp_path / "a.csv").write_text("1.5,2\n3.5,4\n")
    with pytest.raises(DataError, match=r"a\.csv: .*names .*line 1"):
        open_screen(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("x,x,plate\n1.5,2.5,p\n")
    with pytest.raises(DataError, match=r"a\.csv: .*columns .*'x'"):
        open_screen(tmp_path / "a.csv")


def test_a_packed_text_table_is_read_like_any_other(tmp_path, values):
    lines = "\n".join(",".join(map(repr, row)) for row in values.astype(float).tolist())
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(f"a,b,c,d\n{lines}\n".encode()))
    assert open_representation(tmp_path / "a.csv.gz").name == "a"
    np.testing.assert_array_equal(open_representation(tmp_path / "a.csv.gz").values[:N], values)
    whole = (tmp_path / "a.csv.gz").read_bytes()
    for data, message in (
        (whole[:-9], r"a\.csv\.gz: not gzip"),
        (b"a,b\n1,2\n", "not gzip"),
        (gzip.compress(b"", mtime=0), r"a\.csv\.gz.* is empty"),
    ):
        (tmp_path / "a.csv.gz").write_bytes(data)
        with pytest.raises(DataError, match=message):
            open_representation(tmp_path / "a.csv.gz")


def test_a_packed_table_larger_than_the_disk_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1.5,2.5\n" * 10_000))
    monkeypatch.setattr("identifiable.io.tables.shutil.disk_usage", lambda _: type("usage", (), {"free": 1000}))
    with pytest.raises(DataError, match=r"a\.csv\.gz: .*900 bytes"):
        open_representation(tmp_path / "a.csv.gz")


# Two files


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".parquet", ".h5ad"])
def test_metadata_are_joined_on_ids_in_any_order(tmp_path, values, suffix):
    frame(values).to_parquet(tmp_path / "emb.parquet")
    order = np.random.default_rng(1).permutation(N)
    other = metadata().iloc[order]
    path = tmp_path / f"metadata{suffix}"
    if suffix == ".parquet":
        other.to_parquet(path, index=False)
    elif suffix == ".h5ad":
        columns = {name: other[name].fillna("" if name == "gene" else np.nan).to_numpy() for name in other}
        obs = {name: column.astype(str) if column.dtype == object else column for name, column in columns.items()}
        save_anndata(path, Blocks(np.zeros((N, 1))), obs)
    else:
        other.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    found = open_screen(tmp_path / "emb.parquet", metadata=path)
    assert (found.dropped_values, found.dropped_metadata) == (0, 0)
    assert found.representation.ids.tolist() == wells()
    np.testing.assert_array_equal(found.representation.values[:N], values)
    check_metadata(found.representation.labels)


def test_rows_without_a_partner_are_dropped_and_counted(tmp_path, values):
    frame(values).iloc[3:].to_parquet(tmp_path / "emb.parquet", index=False)
    metadata().iloc[:20].to_csv(tmp_path / "meta.csv", index=False)
    found = open_screen(tmp_path / "emb.parquet", metadata=tmp_path / "meta.csv", ids="well_id")
    assert (found.dropped_values, found.dropped_metadata) == (10, 3)
    assert found.representation.ids.tolist() == wells()[3:20]
    np.testing.assert_array_equal(found.representation.values[:17], values[3:20])
    check_metadata(found.representation.labels, slice(3, 20))


def test_ids_that_do_not_join_are_said_with_examples(tmp_path, values):
    frame(values).to_parquet(tmp_path / "emb.parquet", index=False)
    other = metadata()
    other["well_id"] = [f"other-{i}" for i in range(N)]
    other.to_csv(tmp_path / "meta.csv", index=False)
    with pytest.raises(PairingError, match=r"none of 30 and 30 .*\(.*gene-000_0_A01, .*; other-0, "):
        open_screen(tmp_path / "emb.parquet", metadata=tmp_path / "meta.csv")
    other["well_id"] = [wells()[0]] * 2 + wells()[2:]
    other.to_csv(tmp_path / "meta.csv", index=False)
    with pytest.raises(PairingError, match=r"meta\.csv: 1 sample ids .*\(.*'gene-000_0_A01'\)"):
        open_screen(tmp_path / "emb.parquet", metadata=tmp_path / "meta.csv", ids="well_id")
    other["well_id"] = ["", *wells()[1:]]
    other.to_csv(tmp_path / "meta.csv", index=False)
    with pytest.raises(DataError, match=r"column 'well_id': .*, 1 rows"):
        open_screen(tmp_path / "emb.parquet", metadata=tmp_path / "meta.csv", ids="well_id")
    other.drop(columns="well_id").to_csv(tmp_path / "meta.csv", index=False)
    with pytest.raises(PairingError, match=r"^emb .*meta\.csv .*no column .*--ids"):
        open_screen(tmp_path / "emb.parquet", metadata=tmp_path / "meta.csv")


def test_two_columns_that_could_join_are_not_chosen_between(tmp_path, values):
    both = frame(values).rename(columns={"well_id": "a"}).assign(b=np.arange(N))
    both.to_parquet(tmp_path / "emb.parquet", index=False)
    both[["a", "b"]].assign(plate="p").to_csv(tmp_path / "meta.csv", index=False)
    with pytest.raises(PairingError, match=r"joined.*b\b"):
        open_screen(tmp_path / "emb.parquet", metadata=tmp_path / "meta.csv")
    found = open_screen(tmp_path / "emb.parquet", metadata=tmp_path / "meta.csv", ids="b")
    assert found.representation.ids.tolist() == list(range(N))


def test_a_column_of_both_files_must_say_the_same(tmp_path, values):
    frame(values).assign(plate=np.arange(N) % 2 + 1).to_parquet(tmp_path / "emb.parquet", index=False)
    metadata().to_csv(tmp_path / "meta.csv", index=False)
    assert "plate" in open_screen(tmp_path / "emb.parquet", metadata=tmp_path / "meta.csv").representation.labels
    frame(values).assign(plate=9).to_parquet(tmp_path / "emb.parquet", index=False)
    with pytest.raises(DataError, match=r"column 'plate' .* 30 rows \(.*gene-000_0_A01: 9 and 1\)"):
        open_screen(tmp_path / "emb.parquet", metadata=tmp_path / "meta.csv")


def test_rows_of_an_array_have_their_metadata_in_order(tmp_path, values):
    np.save(tmp_path / "emb.npy", values)
    metadata().to_csv(tmp_path / "meta.csv", index=False)
    found = open_screen(tmp_path / "emb.npy", metadata=tmp_path / "meta.csv")
    check_metadata(found.representation.labels)
    assert found.representation.ids.tolist() == wells()
    assert [note.values for note in found.notes] == [{"metadata": f"{tmp_path}/meta.csv", "table": "emb"}]
    metadata().iloc[:9].to_csv(tmp_path / "meta.csv", index=False)
    with pytest.raises(PairingError, match=r"emb .*30 rows .*meta\.csv 9"):
        open_screen(tmp_path / "emb.npy", metadata=tmp_path / "meta.csv")


def test_an_array_with_ids_is_joined(tmp_path, values):
    np.savez(tmp_path / "emb.npz", x=values, ids=np.array(wells()))
    metadata().iloc[::-1].iloc[:9].to_csv(tmp_path / "meta.csv", index=False)
    for ids in (None, "well_id"):
        found = open_screen(f"{tmp_path}/emb.npz", metadata=tmp_path / "meta.csv", ids=ids)
        assert (found.dropped_values, found.dropped_metadata) == (21, 0)
        check_metadata(found.representation.labels, slice(21, N))


def test_what_is_no_metadata_is_said(tmp_path, values):
    np.save(tmp_path / "emb.npy", values)
    with pytest.raises(DataError, match=r"emb\.npy: .*metadata .*\.csv"):
        open_screen(tmp_path / "emb.npy", metadata=tmp_path / "emb.npy")
    with pytest.raises(UsageError, match=r"metadata: .*DataFrame .*got int"):
        screen_of_array(values, metadata=3)
    (tmp_path / "a.xlsx").write_text("x")
    with pytest.raises(DataError, match=r"a\.xlsx: .*\.xlsx; .*\.parquet"):
        open_screen(tmp_path / "a.xlsx")


# Features that are not finite


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".npy"])
def test_features_that_are_not_finite_are_named_by_row_and_column(tmp_path, values, suffix):
    values[[2, 2, 20], [0, 3, 1]] = [np.nan, np.inf, np.nan]
    path = tmp_path / f"emb{suffix}"
    if suffix == ".npy":
        np.save(path, values)
    elif suffix == ".csv":
        frame(values).to_csv(path, index=False)
    else:
        frame(values).to_parquet(path, index=False)
    who = "" if suffix == ".npy" else r" \(gene-002_2_A01\)"
    message = rf"got 3 .* 2 rows and 3 columns \(.*: row 2{who} column feature_0"
    with pytest.raises(DataError, match=message):
        open_screen(path)
    if suffix == ".parquet":
        assert open_screen(path, features="feature_2").representation.d == 1


def holed(values: NDArray[Any]) -> NDArray[Any]:
    values[[2, 2, 20], [0, 3, 1]] = [np.nan, np.inf, np.nan]
    return values


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".npy"])
def test_columns_or_rows_with_gaps_are_left_out_or_filled_with_medians_on_request(tmp_path, values, suffix):
    whole = values.copy()
    path = tmp_path / f"emb{suffix}"
    if suffix == ".npy":
        np.save(path, holed(values))
    elif suffix == ".csv":
        frame(holed(values)).to_csv(path, index=False)
    else:
        frame(holed(values)).to_parquet(path, index=False)
    with pytest.raises(DataError, match=r"feature_0, .*--drop-nan .*--impute"):
        open_screen(path)

    columns = open_screen(path, gaps=Gaps(drop="columns"))
    kept = [j for j in range(D) if j not in (0, 1, 3)]
    np.testing.assert_allclose(columns.representation.values[0:N], whole[:, kept], rtol=1e-6)
    assert columns.feature_names == tuple(f"feature_{j}" for j in kept)
    told = columns.notes[-1]
    assert (told.code, told.values["columns"], told.values["of"]) == ("columns_dropped", 3, D)

    rows = open_screen(path, gaps=Gaps(drop="rows"))
    others = [i for i in range(N) if i not in (2, 20)]
    np.testing.assert_allclose(rows.representation.values[0 : N - 2], whole[others], rtol=1e-6)
    if suffix != ".npy":
        assert rows.representation.ids.tolist() == [wells()[i] for i in others]
    told = rows.notes[-1]
    assert (told.code, told.values["rows"], told.values["first"]) == ("wells_dropped", 2, [2, 20])

    filled = open_screen(path, gaps=Gaps(impute="median"))
    found = np.asarray(filled.representation.values[0:N])
    assert found[2, 0] == pytest.approx(np.median(np.delete(whole[:, 0], 2)), rel=1e-6)
    assert found[2, 3] == pytest.approx(np.median(np.delete(whole[:, 3], 2)), rel=1e-6)
    np.testing.assert_allclose(found[others], whole[others], rtol=1e-6)
    told = filled.notes[-1]
    assert (told.code, told.values["values"], told.values["columns"]) == ("values_imputed", 3, 3)
    assert {columns.path, rows.path, filled.path} == {None}  # its values are no longer those of the file


def test_gaps_that_leave_nothing_are_refused_and_a_whole_table_is_left_as_it_is(tmp_path, values):
    np.save(tmp_path / "whole.npy", values)
    for gaps in (Gaps(drop="columns"), Gaps(drop="rows"), Gaps(impute="median")):
        opened = open_screen(tmp_path / "whole.npy", gaps=gaps)
        assert (opened.notes, opened.path, opened.representation.d) == ((), tmp_path / "whole.npy", D)
    values[3] = np.nan
    values[:, 1] = np.nan
    np.save(tmp_path / "holed.npy", values)
    for gaps, other in (
        (Gaps(drop="columns"), "rows"),
        (Gaps(drop="rows"), "columns"),
        (Gaps(impute="median"), "columns"),
    ):
        with pytest.raises(DataError, match=f"--drop-nan {other}"):
            open_screen(tmp_path / "holed.npy", gaps=gaps)
    with pytest.raises(UsageError, match="'rows' and impute 'median'"):
        Gaps(drop="rows", impute="median")


def test_numbers_named_like_a_dose_or_a_replicate_are_metadata_unless_they_are_asked_for(tmp_path, values):
    table = pd.DataFrame(values, columns=[f"f{chr(97 + j)}" for j in range(D)])
    names = {"concentration": 0.1, "Replicate": 1.0, "passage_number": 12.0, "time_h": 24.5}
    for name, cell in names.items():
        table[name] = cell
    table.to_parquet(tmp_path / "emb.parquet", index=False)
    opened = open_screen(tmp_path / "emb.parquet", no_feature=is_about_wells)
    assert opened.representation.d == D
    assert set(names) <= set(opened.representation.labels)
    (told,) = [note for note in opened.notes if note.code == "not_features"]
    assert (told.values["columns"], told.values["features"]) == (list(names), D)
    asked = open_screen(tmp_path / "emb.parquet", features=["fa", "time_h"], no_feature=is_about_wells)
    assert asked.feature_names == ("fa", "time_h")
    assert "not_features" not in [note.code for note in asked.notes]
    numbered = pd.DataFrame(values, columns=[f"rep{j}" for j in range(D)])  # an embedding, not replicates
    numbered["dose"] = 0.5
    embedded = screen_of_frame(numbered, no_feature=is_about_wells).representation
    assert (embedded.d, set(embedded.labels)) == (D, {"dose"})


def test_a_word_among_features_is_said_with_its_line(tmp_path, values):
    wrong = frame(values).astype({"feature_2": object})
    wrong.loc[4, "feature_2"] = "n.d."
    wrong.to_csv(tmp_path / "emb.csv", index=False)
    with pytest.raises(DataError, match=r"emb\.csv: line 6, column 'feature_2': 'n\.d\.' "):
        open_screen(tmp_path / "emb.csv")
    wrong.astype({"feature_2": str}).to_parquet(tmp_path / "emb.parquet")
    for features in (None, "feature_*"):
        with pytest.raises(DataError, match=r"emb.*: .*numbers .*text in feature_2"):
            open_screen(tmp_path / "emb.parquet", features=features)
    assert open_screen(tmp_path / "emb.parquet", features=["feature_0", "feature_1"]).representation.d == 2


def test_a_row_keeps_its_number_in_the_file_when_others_are_dropped(tmp_path, values):
    values[20, 1] = np.nan
    frame(values).to_parquet(tmp_path / "emb.parquet", index=False)
    metadata().iloc[10:].to_csv(tmp_path / "meta.csv", index=False)
    with pytest.raises(DataError, match=r"row 20 \(gene-002_20_A01\) column feature_1"):
        open_screen(tmp_path / "emb.parquet", metadata=tmp_path / "meta.csv")
    metadata().iloc[:10].to_csv(tmp_path / "meta.csv", index=False)
    assert open_screen(tmp_path / "emb.parquet", metadata=tmp_path / "meta.csv").representation.n == 10


# In memory


def test_a_frame_is_read_as_a_file_is(values):
    both = frame(values).merge(metadata(), on="well_id")
    found = screen_of_frame(both)
    check_metadata(found.representation.labels)
    assert found.representation.ids.tolist() == wells()
    assert found.representation.values.dtype == np.float32
    assert screen_of_frame(both.set_index("barcode")).representation.ids[3] == "0003"
    joined = screen_of_frame(frame(values), metadata=metadata().iloc[:5])
    assert (joined.dropped_values, joined.representation.n) == (25, 5)


def test_a_column_of_mixed_types_is_refused_with_its_rows(values):
    mixed = frame(values)
    mixed["plate"] = pd.Series([1, "1", None] * 10, dtype=object)
    with pytest.raises(DataError, match=r"column 'plate': .*10 rows of text .*rows 1, 4, 7.* 10 of numbers"):
        screen_of_frame(mixed)
    mixed["plate"] = pd.Series([1, 2, None] * 10, dtype=object)
    np.testing.assert_array_equal(screen_of_frame(mixed).representation.labels["plate"][:3], [1, 2, np.nan])
    mixed["plate"] = pd.Series([[1], [2], [3]] * 10)
    with pytest.raises(DataError, match=r"column 'plate': .*got a list"):
        screen_of_frame(mixed)
    with pytest.raises(DataError, match=r"columns .*'a'"):
        screen_of_frame(pd.DataFrame([[1.5, 2.5]], columns=["a", "a"]))


def test_an_array_takes_metadata_from_a_mapping(values):
    found = screen_of_array(values, metadata={"plate": ["p", "q"] * 15, "cells": list(range(N))})
    assert found.representation.labels["plate"][:2].tolist() == ["p", "q"]
    assert found.representation.labels["cells"].dtype == np.int64
    with pytest.raises(DataError, match=r"rows of text .* and 1 of numbers"):
        screen_of_array(values, metadata={"plate": ["p"] * (N - 1) + [1]})
    with pytest.raises(DataError, match=r"columns .*one length"):
        screen_of_array(values, metadata={"plate": ["p"], "b": ["p", "q"]})


def test_whole_numbers_too_large_for_a_float_stay_what_they_are(tmp_path):
    labels = screen_of_array(np.ones((2, 1)), metadata={"a": [2**60 + 1, None], "b": [2**70, 1]}).representation.labels
    assert labels["a"].tolist() == [str(2**60 + 1), ""]
    assert labels["b"].tolist() == [str(2**70), "1"]


# Other commands read the same files


def test_the_same_rows_in_any_format_are_the_same_representation(tmp_path):
    X = np.random.default_rng(SEED).laplace(size=(200, 3)) @ np.random.default_rng(1).standard_normal((3, 3))
    ids = np.array([f"w{i}" for i in range(200)])
    plates = {"plate": np.array(["p", "q"] * 100), "dose": np.arange(200) / 7}
    a = save_table(tmp_path / "a.parquet", Blocks(X), plates, ids=ids)
    b = save_anndata(tmp_path / "b.h5ad", Blocks(X[::-1].copy()), {}, ids=ids[::-1].copy())
    pair = compare(a, b, folds=2, intervals=False, nulls=()).pairs[0]
    assert pair.n == 200
    assert max(rung.in_sample.max for rung in pair.rungs) < 1e-9
    assert read_labels(f"{a}:plate")[1] == "q"
    basis = resolve(a, stability=0)
    with pytest.warns(UserWarning, match="columns_not_checked"):  # b numbers its variables, a has names
        from_b = transform(basis, b)[::-1]
    for output in ("z.parquet", "z.h5ad"):
        found = open_screen(transform(basis, a, tmp_path / output)).representation
        assert found.ids.tolist() == ids.tolist()
        np.testing.assert_array_equal(found.values[:200], from_b)
        assert found.labels["plate"].tolist() == plates["plate"].tolist()
        np.testing.assert_array_equal(found.labels["dose"], plates["dose"])
    scored = disentangle(a, f"{a}:plate", metrics=["mig"])
    assert [factor.name for factor in scored.factors] == ["plate"]


@pytest.mark.parametrize(
    ("name", "shape", "label"),
    [
        ("bbbc021_per_well_mean_raw.parquet", (632, 516), "Metadata_Compound"),
        ("resistance_cellpainting_2760wells.parquet", (2760, 41), "treatment"),
    ],
)
def test_real_profiles_are_read_as_they_are(name, shape, label):
    if not (SHARED / name).exists():
        pytest.skip(f"{SHARED / name} is not on this machine")
    found = open_screen(SHARED / name)
    assert (found.representation.n, found.representation.d) == shape
    assert "DMSO" in "".join(found.representation.labels[label].tolist())


def test_one_bad_cell_of_a_screen_is_to_be_corrected_and_not_named_an_id_column(tmp_path):
    path = tmp_path / "wells.csv"
    path.write_text("plate,feature_0,feature_1\np1,1.5,2\np1,n/a?,3\n")
    with pytest.raises(DataError, match=r"line 3, column 'feature_0'.*--impute") as found:
        open_screen(path, features="feature_*")
    assert "--ids" not in str(found.value)
    with pytest.raises(DataError, match="--ids feature_0") as plain:
        open_representation(f"{path}:feature_*")
    assert "--impute" not in str(plain.value)
