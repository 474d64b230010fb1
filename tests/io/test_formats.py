"""Every format gives the same table: rows, ids, blocks, pickles; and hostile files of the newer ones are refused in one line."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anndata
import fsspec
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import children
from errors import naming
from identifiable import compare, resolve, transform
from identifiable._checks import DataError, MissingExtra, OutputError, UsageError
from identifiable.blocks import Blocks
from identifiable.cli import main
from identifiable.ica import Resolved
from identifiable.io import (
    open_representation,
    open_screen,
    read_label_table,
    save_array,
    save_basis,
    shards,
    zarr_files,
)
from identifiable.io.factor_tables import read_factor_table
from identifiable.io.screens import Gaps
from identifiable.moments import Array
from identifiable.representation import Representation

SEED = 20240517
N, D = 57, 3
VALUES = np.random.default_rng(SEED).laplace(size=(N, D)).astype(np.float32)
VALUES[3, 1] = np.nan
IDS = np.array([f"s{i}" for i in range(N)])
WORDS = np.array(["u", "v", "w"] * (N // 3))
NAMES = [f"feature_{j}" for j in range(D)]
CUTS = [(0, 20), (20, 21), (21, N)]


def frame() -> pd.DataFrame:
    return pd.DataFrame(VALUES, columns=NAMES).assign(id=IDS, word=WORDS)


def adata() -> anndata.AnnData:
    obs = pd.DataFrame({"word": pd.Categorical(WORDS)}, index=IDS)
    return anndata.AnnData(VALUES, obs, pd.DataFrame(index=NAMES), obsm={"X_pca": VALUES[:, :2]})


def stream(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)


def lists(a: int, b: int) -> pa.Table:
    return pa.table(
        {"text": IDS[a:b], "embedding": pa.array(list(VALUES[a:b]), pa.list_(pa.float32())), "id": IDS[a:b]}
    )


# -- one writer for each kind of file; each returns how users write the path


def zarr_array(folder: Path) -> str:
    zarr.create_array(str(folder / "a.zarr"), data=VALUES, chunks=(10, 2), zarr_format=2)
    return f"{folder}/a.zarr"


def zarr_group(folder: Path) -> str:
    root = zarr.open_group(str(folder / "a.zarr"), mode="w", zarr_format=3)
    root.create_array("runs/first", data=VALUES, chunks=(5, D), shards=(20, D))
    root.create_array("runs/second", data=VALUES[:, :2])
    return f"{folder}/a.zarr:runs/first"


def zarr_anndata(version: int) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        with anndata.settings.override(zarr_write_format=version), warnings.catch_warnings(action="ignore"):
            adata().write_zarr(folder / "a.zarr")
        return f"{folder}/a.zarr"

    return write


def hdf5(folder: Path) -> str:
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("runs/values", data=VALUES, chunks=(10, 2), compression="gzip")
        file["ids"] = IDS.astype(object)
    return f"{folder}/a.h5"


def hdf5_named(folder: Path) -> str:
    with h5py.File(folder / "a.hdf5", "w") as file:
        file["x"], file["y"] = VALUES, VALUES[:, :2]
    return f"{folder}/a.hdf5:x"


def hdf5_anndata(folder: Path) -> str:
    adata().write_h5ad(folder / "a.h5")
    return f"{folder}/a.h5"


def feather(folder: Path) -> str:
    frame().to_feather(folder / "a.feather")  # pandas: lz4, one batch
    return f"{folder}/a.feather"


def arrow_polars(folder: Path) -> str:
    """As polars writes: large strings, lists of a fixed size."""
    columns = {"id": pa.array(IDS, pa.large_string()), "v": pa.FixedSizeListArray.from_arrays(VALUES.ravel(), D)}
    table = pa.table(columns)
    with pa.OSFile(f"{folder}/a.arrow", "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=25)
    return f"{folder}/a.arrow"


def parquet_polars(folder: Path) -> str:
    table = pa.table({"id": pa.array(IDS, pa.large_string()), "v": pa.array(list(VALUES), pa.large_list(pa.float32()))})
    pq.write_table(table, folder / "a.parquet", compression="zstd", row_group_size=16, data_page_version="2.0")
    return f"{folder}/a.parquet:v"


def spark(folder: Path) -> str:
    """Spark's layout, with a partition and what it leaves beside the data."""
    out = folder / "table.parquet"
    for day, (a, b) in zip(("1", "2", "10"), CUTS, strict=True):
        (out / f"day={day}").mkdir(parents=True)
        part = out / f"day={day}" / "part-00000-9f.c000.snappy.parquet"
        pq.write_table(pa.Table.from_pandas(frame()[a:b], preserve_index=False), part)
        (part.parent / f".{part.name}.crc").write_bytes(b"crc")
    nothing = pa.Table.from_pandas(frame()[:0], preserve_index=False)
    pq.write_table(nothing.cast(pq.read_schema(part)), part.with_name("part-00001-9f.c000.snappy.parquet"))
    (out / "_SUCCESS").write_text("")
    return str(out)


def shards_of(name: str) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        for k, (a, b) in zip((2, 9, 10), CUTS, strict=True):
            path = folder / name.replace("*", f"run-{k}")
            if path.suffix == ".csv":
                frame()[a:b].drop(columns="word").astype(dict.fromkeys(NAMES, float)).to_csv(path, index=False)
            else:
                save_array(path, VALUES[a:b], None if path.suffix == ".npy" else IDS[a:b])
        return f"{folder}/{name}"

    return write


def dataset(folder: Path) -> str:
    """As `datasets.save_to_disk` does."""
    names = [f"data-{k:05d}-of-00003.arrow" for k in range(3)]
    for name, (a, b) in zip(names, CUTS, strict=True):
        stream(folder / name, lists(a, b))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": n} for n in names], "_split": None}))
    (folder / "dataset_info.json").write_text("{}")
    return str(folder)


FORMATS: dict[str, Callable[[Path], str]] = {
    "zarr v2": zarr_array,
    "zarr v3, sharded": zarr_group,
    "anndata zarr v2": zarr_anndata(2),
    "anndata zarr v3": zarr_anndata(3),
    "hdf5, chunks": hdf5,
    "hdf5, path": hdf5_named,
    "hdf5, anndata": hdf5_anndata,
    "feather, pandas": feather,
    "arrow, polars": arrow_polars,
    "parquet, polars": parquet_polars,
    "parquet, Spark": spark,
    "shards, npy": shards_of("*.npy"),
    "shards, safetensors": shards_of("*.safetensors"),
    "shards, parquet": shards_of("part-*.parquet"),
    "shards, csv": shards_of("*.csv"),
    "shards, h5ad": shards_of("*.h5ad"),
    "datasets": dataset,
    "saved zarr": lambda folder: str(save_array(folder / "a.zarr", VALUES, IDS)),
    "saved h5": lambda folder: str(save_array(folder / "a.h5", VALUES, IDS)),
    "saved arrow": lambda folder: str(save_array(folder / "a.arrow", VALUES, IDS)),
}
EMPTY_CELLS = ("feather, pandas", "parquet, Spark", "shards, csv")  # pandas writes NaN so
WITHOUT_IDS = ("zarr v2", "zarr v3, sharded", "hdf5, path", "shards, npy")


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_table_comes_from_every_format(tmp_path, monkeypatch, form):
    monkeypatch.setattr(zarr_files, "KEPT_BYTES", 0)  # two bands are kept: other orders are unpacked
    monkeypatch.setattr(shards, "OPEN", 2)
    monkeypatch.chdir(tmp_path)
    spec = os.path.relpath(FORMATS[form](tmp_path), tmp_path)
    found = open_representation(spec, rows=7, gaps=form in EMPTY_CELLS)
    rows = found.values.source
    assert found.values.dtype == (np.float64 if form == "shards, csv" else np.float32)
    if form in WITHOUT_IDS:
        assert found.ids is None
    else:
        np.testing.assert_array_equal(found.ids, IDS)
    order = np.random.default_rng(SEED).permutation(N)
    np.testing.assert_array_equal(np.concatenate(list(found.values)), VALUES)  # NaN is not lost
    np.testing.assert_array_equal(found.values[4:27], VALUES[4:27])
    np.testing.assert_array_equal(rows[order], VALUES[order])
    np.testing.assert_array_equal(rows[np.array([-1, 0])], VALUES[[-1, 0]])
    assert rows[3:3].shape == (0, D)
    with pytest.raises(IndexError, match=f"{N} rows"):
        rows[np.array([N])]
    data = pickle.dumps(found.values)
    assert len(data) < 2000
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(pickle.loads(data)[:], VALUES)


def pt(folder: Path) -> str:
    import torch

    torch.save({"values": torch.from_numpy(VALUES), "ids": torch.from_numpy(COUNTED)}, folder / "a.pt")
    return f"{folder}/a.pt:values"


def url(folder: Path) -> str:
    put(fsspec.filesystem("memory"), save_array(folder / "a.parquet", VALUES, IDS), "a.parquet")
    return "memory://t/a.parquet"


def csv(folder: Path) -> str:
    frame().drop(columns="word").astype(dict.fromkeys(NAMES, float)).to_csv(folder / "a.csv", index=False)
    return f"{folder}/a.csv"


EVERYWHERE = FORMATS | {
    "npy": lambda folder: str(save_array(folder / "a.npy", VALUES)),
    "npz": lambda folder: str(save_array(folder / "a.npz", VALUES, IDS)),
    "safetensors": lambda folder: str(save_array(folder / "a.safetensors", VALUES, IDS)),
    "parquet": lambda folder: str(save_array(folder / "a.parquet", VALUES, IDS)),
    "h5ad": lambda folder: str(save_array(folder / "a.h5ad", VALUES, IDS)),
    "csv": csv,
    "pt": pt,
    "memory://": url,
}
COUNTED = np.arange(N)
IN_THE_GATE = ("shards, npy", "zarr v3, sharded", "parquet, Spark")


@pytest.fixture
def larger(monkeypatch):
    """The writers write more rows: of three strips of a fold. The rows they are compared with."""
    n = 9000
    known = {
        "VALUES": np.random.default_rng(SEED).laplace(size=(n, D)).astype(np.float32),
        "IDS": np.array([f"s{i}" for i in range(n)]),
        "WORDS": np.array(["u", "v", "w"] * (n // 3)),
        "COUNTED": np.arange(n),
        "CUTS": [(0, 2000), (2000, 2001), (2001, n)],
    }
    for name, value in known.items():
        monkeypatch.setattr(sys.modules[__name__], name, value)
    noise = np.random.default_rng(SEED + 1).standard_normal((n, D))
    return known["VALUES"] @ np.array([[2, 1, 0], [0, 1, 0], [1, 0, 1.0]]) + 0.1 * noise


def measured(source: Any, other: Any, **where: Any) -> tuple[list[float], Resolved]:
    """The numbers of `compare`, and the basis of `resolve`."""
    found = compare(source, other, neighbours=0, null_draws=2, axes=False, **where)
    basis = resolve(source, stability=0, restarts=1, **where)
    return numbers(json.loads(found.to_json())["pairs"]), basis


def numbers(thing: Any) -> list[float]:
    if isinstance(thing, dict | list):
        return [x for each in (thing.values() if isinstance(thing, dict) else thing) for x in numbers(each)]
    return [float(thing)] if isinstance(thing, int | float) else []


def agree(one: tuple[list[float], Resolved], other: tuple[list[float], Resolved], X: Array) -> bool:
    """Whether numbers agree to 1e-12, and components correlate above 0.9999."""
    same = len(one[0]) == len(other[0]) and np.allclose(one[0], other[0], rtol=1e-12, atol=1e-300, equal_nan=True)
    components = [basis.to_components(X) for _, basis in (one, other)]
    correlation = np.corrcoef(*components, rowvar=False)[:D, D:]
    return same and bool((np.abs(np.diag(correlation)) > 0.9999).all())


@pytest.mark.parametrize(
    "form", [name if name in IN_THE_GATE else pytest.param(name, marks=pytest.mark.long) for name in EVERYWHERE]
)
def test_compare_and_resolve_give_the_same_from_every_format(tmp_path, larger, form):
    spec = EVERYWHERE[form](tmp_path)
    known = open_representation(spec).ids
    here = measured(Representation(VALUES, known), Representation(larger, known))
    other = Representation(larger, known, "other")
    assert agree(measured(spec, other), here, VALUES)
    moved = Representation(VALUES + np.float32(1e-6), known)
    assert not agree(measured(moved, other), here, VALUES)


def test_partitions_and_columns_beside_the_values_are_labels(tmp_path):
    spec = spark(tmp_path)
    days = np.repeat([1, 2, 10], [b - a for a, b in CUTS])
    labels = open_screen(spec, gaps=Gaps(impute="median")).representation.labels
    np.testing.assert_array_equal(labels["day"], days)
    np.testing.assert_array_equal(labels["word"], WORDS)
    values, ids = read_label_table(f"{spec}:day")
    np.testing.assert_array_equal(values, days)
    np.testing.assert_array_equal(ids, IDS)
    np.testing.assert_array_equal(read_factor_table(f"{spec}:word").columns[0], WORDS)
    with pytest.raises(DataError, match=naming(spec, "wrod", "word")):
        read_label_table(f"{spec}:wrod")


def test_text_of_an_hdf5_file_is_listed_as_it_is_stored(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["y"] = VALUES, VALUES
        file["ids"], file["any"] = np.array(["s0001"] * N, "S5"), IDS.astype(object)
    with pytest.raises(DataError, match=r"any \(\d+,\) text, ids \(\d+,\) \|S5,"):
        open_representation(tmp_path / "a.h5")


def test_a_folder_without_files_says_what_it_holds(tmp_path):
    with pytest.raises(DataError, match="without any"):
        open_representation(tmp_path)
    for name in ("b.zarr", "a.zarr", ".hidden"):
        (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=r"a\.zarr, b\.zarr"):
        open_representation(tmp_path)


@pytest.mark.parametrize(("name", "pattern"), [("run[1].npy", False), ("run*.npy", True), ("run?[1].npy", True)])
def test_a_missing_file_with_brackets_is_a_missing_file(tmp_path, name, pattern):
    with pytest.raises(DataError, match=naming(name)) as caught:
        open_representation(tmp_path / name)
    assert ("no such file" in str(caught.value)) != pattern


def test_bfloat16_of_a_store_is_read_as_float32(tmp_path):
    upper = (VALUES.view(np.uint32) >> 16).astype(np.uint16)
    for version, key, stored in ((2, "dtype", ".zarray"), (3, "data_type", "zarr.json")):
        path = tmp_path / f"{version}.zarr"
        zarr.create_array(str(path), data=upper, chunks=(10, 2), zarr_format=version)
        metadata = json.loads((path / stored).read_text())
        (path / stored).write_text(json.dumps(metadata | {key: "bfloat16", "fill_value": 0.0}))
        found = open_representation(path).values
        assert (found.source.stored_dtype, found.dtype) == ("bfloat16", np.float32)
        np.testing.assert_array_equal(found[:], (upper.astype(np.uint32) << 16).view(np.float32))


# -- other machines


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/t", recursive=True)


def put(memory: Any, source: Path, target: str) -> None:
    for file in [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]:
        memory.pipe(f"/t/{target}" + ("" if file == source else f"/{file.relative_to(source)}"), file.read_bytes())


REMOTE = "a.npy a.npz a.safetensors a.parquet a.arrow a.h5ad a.h5 a.zarr a.csv parts/*.npy parts"


@pytest.mark.parametrize("name", REMOTE.split())
def test_a_url_is_read_like_a_file(tmp_path, memory, name):
    if name.startswith("parts"):
        for k, (a, b) in enumerate(CUTS):
            np.save(tmp_path / f"{k}.npy", VALUES[a:b])
        put(memory, tmp_path, "parts")
    elif name == "a.csv":
        frame().drop(columns="word").to_csv(tmp_path / name, index=False, na_rep="nan")
        put(memory, tmp_path / name, name)
    else:
        put(memory, save_array(tmp_path / name, VALUES, None if name == "a.npy" else IDS), name)
    found = open_representation(f"memory://t/{name}")
    assert found.name in ("a", "parts")
    assert found.ids is None or found.ids[5] == "s5"
    order = np.random.default_rng(SEED).permutation(N)
    np.testing.assert_array_equal(found.values[:].astype(np.float32), VALUES)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(found.values)).source[order].astype(np.float32), VALUES[order]
    )


def test_ranges_of_a_remote_file_are_fetched_and_not_the_whole(tmp_path, memory, monkeypatch):
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((100_000, 4), np.float32))
    memory.pipe("/t/a.npy", buffer.getvalue())
    fetched = []
    ranges = type(memory).cat_ranges
    monkeypatch.setattr(
        type(memory),
        "cat_ranges",
        lambda self, paths, starts, ends, **how: (
            fetched.extend(b - a for a, b in zip(starts, ends, strict=True)) or ranges(self, paths, starts, ends, **how)
        ),
    )
    open_representation("memory://t/a.npy").values[50_000:50_010]
    assert fetched[-1] == 160
    assert sum(fetched) < 20_000


def test_parts_and_ids_of_a_url_are_named_as_those_of_a_file(tmp_path, memory):
    put(memory, save_array(tmp_path / "a.npz", VALUES, IDS), "a.npz")
    memory.pipe("/t/ids.txt", "\n".join(IDS).encode())
    assert open_representation("memory://t/a.npz:values").name == "a:values"
    assert open_representation("memory://t/a.npz", ids="memory://t/ids.txt").ids[3] == "s3"


@pytest.mark.parametrize(
    ("spec", "error", "parts"),
    [
        ("memory://t/no.npy", DataError, ("memory://t/no.npy",)),
        ("memory://t/empty.npy", DataError, ("memory://t/empty.npy", "0 bytes")),
        ("memory://t/no/*.npy", DataError, ("memory://t/no/*.npy",)),
        ("memory://t/no.zarr", DataError, ("memory://t/no.zarr",)),
        ("nosuchscheme://t/a.npy", DataError, ("nosuchscheme",)),
        ("gs://bucket/a.npy", MissingExtra, ("gs://bucket/a.npy", "gcsfs")),
    ],
)
def test_a_bad_url_is_one_line(memory, spec, error, parts):
    memory.pipe("/t/empty.npy", b"")
    with pytest.raises(error, match=naming(*parts)) as caught:
        open_representation(spec)
    assert "\n" not in str(caught.value)


def test_a_remote_file_that_cannot_be_read_by_ranges_needs_room(tmp_path, memory, monkeypatch):
    frame().drop(columns="word").to_csv(tmp_path / "a.csv", index=False)
    put(memory, tmp_path / "a.csv", "a.csv")
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=5))
    with pytest.raises(DataError, match=naming("memory://t/a.csv", "5 free")):
        open_representation("memory://t/a.csv")


# -- hostile files


def metadata_of(path: Path, **changes: Any) -> None:
    file = path / ("zarr.json" if (path / "zarr.json").exists() else ".zarray")
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def store(folder: Path, version: int = 3, **how: Any) -> Path:
    zarr.create_array(str(folder / "a.zarr"), data=VALUES, chunks=(10, D), zarr_format=version, **how)
    return folder / "a.zarr"


def truncated_chunk(folder: Path) -> str:
    chunk = store(folder) / "c" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes()[:7])
    return "a.zarr"


def missing_chunk(folder: Path) -> str:
    (store(folder, 2) / "1.0").unlink()
    return "a.zarr"


def chunk_elsewhere(folder: Path) -> str:
    """A link out of the store: its bytes would be read as numbers, and written into results."""
    path = store(folder, compressors=None)
    (folder / "secret").write_bytes(bytes(10 * D * 4))
    (path / "c" / "1" / "0").unlink()
    (path / "c" / "1" / "0").symlink_to(folder / "secret")
    return "a.zarr"


def changed(version: int, **changes: Any) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        metadata_of(store(folder, version), **changes)
        return "a.zarr"

    return make


def pickled_ids(folder: Path) -> str:
    root = zarr.open_group(str(folder / "a.zarr"), mode="w", zarr_format=2)
    root.create_array("values", data=VALUES)
    root.create_array("ids", data=np.arange(N))
    metadata_of(folder / "a.zarr" / "ids", dtype="|O", filters=[{"id": "pickle", "protocol": 5}], fill_value=None)
    return "a.zarr"


def ids_without_end(folder: Path) -> str:
    root = zarr.open_group(str(folder / "a.zarr"), mode="w")
    root.create_array("values", data=VALUES)
    root.create_array("ids", data=np.arange(N), chunks=(1,))
    metadata_of(folder / "a.zarr" / "ids", shape=[10**10])
    return "a.zarr"


def hdf5_with(make: Callable[[Any, Path], None]) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        with h5py.File(folder / "other.h5", "w") as other:
            other["x"] = VALUES
        with h5py.File(folder / "a.h5", "w") as file:
            make(file, folder)
        return "a.h5:x"

    return write


def external_link(file: Any, folder: Path) -> None:
    file["x"] = h5py.ExternalLink(str(folder / "other.h5"), "x")


def external_bytes(file: Any, folder: Path) -> None:
    file.create_dataset("x", (2, 2), "f4", external=[(str(folder / "other.h5"), 0, 16)])


def virtual(file: Any, folder: Path) -> None:
    layout = h5py.VirtualLayout((N, D), "f4")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "x", (N, D))
    file.create_virtual_dataset("x", layout)


def references(file: Any, folder: Path) -> None:
    file["y"] = 1
    file.create_dataset("x", data=np.full((2, 2), file["y"].ref, dtype=object), dtype=h5py.ref_dtype)


def any_length(file: Any, folder: Path) -> None:
    file.create_dataset("x", (2, 2), h5py.vlen_dtype(np.float32))


def bytes_of(name: str, content: bytes) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / name).write_bytes(content)
        return name

    return write


def cut(source: Callable[[Path], str], share: float) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        path = Path(source(folder).partition(":")[0])
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
        return path.name

    return write


def state(**known: Any) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / "set").mkdir()
        stream(folder / "outside.arrow", lists(0, N))
        (folder / "set" / "state.json").write_text(json.dumps(known))
        return "set"

    return write


def second_shard(name: str, values: Any) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        first, second = folder / name.replace("*", "1"), folder / name.replace("*", "2")
        if first.suffix == ".parquet":
            frame().to_parquet(first)
            values.to_parquet(second)
        else:
            np.save(first, VALUES)
            np.save(second, values)
        return name

    return write


def mixed_folder(folder: Path) -> str:
    (folder / "set").mkdir()
    np.save(folder / "set" / "a.npy", VALUES)
    (folder / "set" / "b.csv").write_text("1,2\n")
    return "set"


HOSTILE: dict[str, tuple[Callable[[Path], str], tuple[str, ...]]] = {
    "zarr, no store": (lambda folder: (folder / "a.zarr").mkdir() or "a.zarr", ("a.zarr",)),
    "zarr, a file": (bytes_of("a.zarr", b"x"), ("a.zarr",)),
    "zarr, metadata are no JSON": (lambda f: (store(f) / "zarr.json").write_text("{") and "a.zarr", ("a.zarr",)),
    "zarr, metadata are a list": (lambda f: (store(f) / "zarr.json").write_text("[1]") and "a.zarr", ("a.zarr",)),
    "zarr, chunk truncated": (truncated_chunk, ("a.zarr",)),
    "zarr, chunk missing": (missing_chunk, ("a.zarr", "1.0")),
    "zarr, chunk elsewhere": (chunk_elsewhere, ("a.zarr", "c/1/0")),
    "zarr, absurd shape": (changed(3, shape=[10**12, D]), ("a.zarr", "c/")),
    "zarr, absurd chunks": (
        changed(2, shape=[10**10, 10**6], chunks=[10**10, 10**6]),
        ("a.zarr", f"{10**10 * 10**6 * 4:,}"),
    ),
    "zarr, shape below zero": (changed(2, shape=[-5, D]), ("a.zarr",)),
    "zarr, objects": (changed(2, dtype="|O", fill_value=None), ("a.zarr",)),
    "zarr, pickled": (changed(2, filters=[{"id": "pickle"}]), ("a.zarr", "pickle")),
    "zarr, pickled ids": (pickled_ids, ("a.zarr", "pickle", "ids")),
    "zarr, ids without end": (ids_without_end, ("a.zarr", "ids", 10**10)),
    "zarr, unknown codec": (changed(3, codecs=[{"name": "numcodecs.pickle", "configuration": {}}]), ("pickle",)),
    "zarr, path out of it": (lambda folder: f"{store(folder).name}:../a.zarr", ("a.zarr", "../a.zarr")),
    "hdf5, external link": (hdf5_with(external_link), ("a.h5", "x")),
    "hdf5, external bytes": (hdf5_with(external_bytes), ("a.h5:x",)),
    "hdf5, virtual": (hdf5_with(virtual), ("a.h5:x",)),
    "hdf5, references": (hdf5_with(references), ("a.h5:x",)),
    "hdf5, any length": (hdf5_with(any_length), ("a.h5:x",)),
    "hdf5, other magic": (bytes_of("a.h5", b"PK\x03\x04" + bytes(99)), ("a.h5",)),
    "hdf5, truncated": (cut(hdf5, 0.6), ("a.h5",)),
    "hdf5, two tables": (
        hdf5_with(lambda file, _: file.update({"y": VALUES, "z": VALUES}) or file.create_group("x")),
        ("a.h5", "y (57, 3)", "z (57, 3)"),
    ),
    "arrow, other magic": (bytes_of("a.arrow", b"\x93NUMPY" + bytes(99)), ("a.arrow",)),
    "arrow, truncated": (cut(arrow_polars, 0.5), ("a.arrow",)),
    "feather, truncated": (cut(feather, 0.9), ("a.feather",)),
    "arrow, length without end": (bytes_of("a.arrow", b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(64)), ("a.arrow",)),
    "datasets, path out of it": (
        state(_data_files=[{"filename": "../outside.arrow"}]),
        ("state.json", "../outside.arrow"),
    ),
    "datasets, absolute path": (state(_data_files=[{"filename": "/etc/passwd"}]), ("state.json", "/etc/passwd")),
    "datasets, file missing": (state(_data_files=[{"filename": "a.arrow"}]), ("a.arrow",)),
    "datasets, no files": (state(_data_files=[]), ("set",)),
    "datasets, other state": (state(files=1), ("state.json", "_data_files")),
    "datasets, index": (
        state(_data_files=[{"filename": "a.arrow"}], _indices_data_files=[{"filename": "i.arrow"}]),
        ("set", "flatten_indices"),
    ),
    "shards, none": (lambda folder: "no-*.npy", ("no-*.npy",)),
    "shards, other width": (second_shard("s-*.npy", VALUES[:, :2]), ("s-2.npy", 3, "s-1.npy", 2)),
    "shards, other columns": (
        second_shard("s-*.parquet", frame().rename(columns={"feature_1": "odd"})),
        ("s-2.parquet", "s-1.parquet", "feature_1", "odd"),
    ),
    "shards, ids twice": (second_shard("s-*.parquet", frame()), ("57",)),
    "shards, empty file": (lambda folder: bytes_of("s-1.npy", b"")(folder) and "s-*.npy", ("s-1.npy", "0 bytes")),
    "folder of two formats": (mixed_folder, ("set", ".csv", ".npy")),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(tmp_path, monkeypatch, kind):
    make, parts = HOSTILE[kind]
    monkeypatch.chdir(tmp_path)
    spec = make(tmp_path)
    with pytest.raises(DataError, match=naming(*parts)) as caught:
        for _ in open_representation(spec).values:  # refused when it is opened, or when a bad chunk is read
            pass
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 900
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(("make", "name"), [(arrow_polars, "a.arrow"), (feather, "a.feather"), (hdf5, "a.h5")])
def test_damage_anywhere_is_refused_or_does_not_matter(tmp_path, make, name):
    make(tmp_path)
    path, rng = tmp_path / name, np.random.default_rng(SEED)
    content = path.read_bytes()
    refused = []
    for _ in range(60):
        copy = bytearray(content)
        for at in rng.integers(0, len(content), 3):
            copy[at] = rng.integers(0, 256)
        path.write_bytes(copy)
        try:
            assert open_representation(path).values[:].shape == (N, D)
        except DataError as error:
            refused.append(str(error))
    assert len(refused) > 3
    assert all(path.stem in line and "\n" not in line for line in refused)


# -- writing


def test_a_folder_is_written_whole_or_not_at_all(tmp_path):
    with pytest.raises(DataError, match=naming("0.5")):
        save_array(tmp_path / "a.zarr", Blocks(_Failing()), None)
    assert not list(tmp_path.iterdir())
    save_array(tmp_path / "a.zarr", VALUES, IDS)
    with pytest.raises(OutputError, match=naming("a.zarr")):
        save_array(tmp_path / "a.zarr", VALUES, IDS)
    assert anndata.read_zarr(tmp_path / "a.zarr").obs_names[5] == "s5"
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


class _Failing:
    shape, dtype = (N, D), np.dtype(np.float32)

    def __getitem__(self, rows: Any) -> Any:
        raise DataError("0.5 of it is not there")


@pytest.mark.parametrize("suffix", [".zarr", ".arrow", ".feather"])
def test_labels_and_names_are_written_beside_the_values(tmp_path, suffix):
    path = save_array(tmp_path / f"a{suffix}", np.nan_to_num(VALUES), IDS, {"word": WORDS}, ["x", "y", "z"])
    found = open_screen(path).representation
    assert found.columns == ("x", "y", "z")
    np.testing.assert_array_equal(found.labels["word"], WORDS)
    np.testing.assert_array_equal(found.ids, IDS)


def test_shards_are_transformed_to_shards_of_the_same_names(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X = np.nan_to_num(VALUES)
    basis = resolve(X, stability=0, restarts=1)
    save_basis("basis.safetensors", basis)
    Z = transform(basis, X)
    Path("runs").mkdir()
    for k, (a, b) in zip((2, 9, 10), CUTS, strict=True):
        save_array(f"runs/run-{k}.safetensors", X[a:b], IDS[a:b])
    assert main(["transform", "basis.safetensors", "runs/*.safetensors", "-o", "out"]) == 0
    assert {path.name for path in Path("out").iterdir()} == {path.name for path in Path("runs").iterdir()}
    found = open_representation("out")
    np.testing.assert_array_equal(found.values[:], Z)
    np.testing.assert_array_equal(found.ids, IDS)
    np.testing.assert_array_equal(open_representation("out/run-9.safetensors").values[:], Z[20:21])
    assert main(["transform", "basis.safetensors", "runs", "-o", "all.zarr", "--quiet"]) == 0
    np.testing.assert_array_equal(open_representation("all.zarr").values[:], Z)
    assert main(["transform", "basis.safetensors", "runs", "-o", "out"]) == 3  # it is there
    np.save("one.npy", X)
    assert main(["transform", "basis.safetensors", "one.npy", "-o", "other"]) == 2  # one file is not written as many
    assert not Path("other").exists()
    with pytest.raises(UsageError, match=naming("other", 50, 57)):
        save_array("other", VALUES, shards={"a.npy": 50})


def test_partitions_are_transformed_under_names_that_differ(tmp_path):
    whole = frame().fillna(0.0)
    for day, (a, b) in zip("123", CUTS, strict=True):
        (tmp_path / "in" / f"day={day}").mkdir(parents=True)
        whole[a:b].to_parquet(tmp_path / "in" / f"day={day}" / "part-0.parquet", index=False)
    basis = resolve(whole[NAMES], stability=0, restarts=1)
    out = transform(basis, tmp_path / "in", tmp_path / "out")
    assert sorted(path.name for path in out.iterdir()) == [f"day={day}-part-0.parquet" for day in "123"]
    found = open_screen(out).representation
    np.testing.assert_array_equal(found.labels["day"], np.repeat([1, 2, 3], [b - a for a, b in CUTS]))
    np.testing.assert_array_equal(found.values[:], transform(basis, whole[NAMES]))


STOPPED = """
import os, signal, sys, time
from pathlib import Path
from identifiable import _stopping
folder, kept = Path(sys.argv[1], ".a.zarr.x.part"), Path(sys.argv[1], "kept")
for each in (folder / "c" / "0", kept):
    each.mkdir(parents=True)
    (each / "1").write_text("x")
    _stopping.unfinished[str(folder if each.is_relative_to(folder) else kept)] = None
_stopping.end_on_signals()
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(20)
"""


def test_a_stopped_command_leaves_no_half_of_a_folder(tmp_path):
    run = children.run([sys.executable, "-c", STOPPED, str(tmp_path)])
    assert run.returncode == 143
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]  # a folder of finished files is not a temporary one
