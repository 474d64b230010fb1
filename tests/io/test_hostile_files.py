"""Files that were damaged or made to do harm: no wrong numbers, nothing written through a link, little time and memory, one line."""

from __future__ import annotations

import gzip
import json
import os
import struct
import subprocess
import sys
import warnings
import zipfile
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import children
from errors import naming
from identifiable import Representation, load, load_basis, save_basis
from identifiable._checks import DataError, KindError, OutputError, PairingError, words_of
from identifiable.io import open_representation, open_screen, read_labels
from identifiable.io.array_files import LARGEST_HEADER
from identifiable.io.growing import GrowingFile
from identifiable.io.head_files import read_head
from identifiable.io.jacobian_files import open_jacobians
from identifiable.results.kept import KeptArrays
from identifiable.results.writing import write_text

VALUES = np.random.default_rng(5).standard_normal((8, 3)).astype(np.float32)


def read(path: Path) -> Any:
    return open_representation(path).values[:]


# -- .pt


@pytest.mark.parametrize("order", [b"", b"litt", b"littlelittle", b"big", b"little"])
def test_a_byte_order_that_is_none_is_refused(tmp_path, order):
    torch = pytest.importorskip("torch")
    torch.save(torch.from_numpy(VALUES), tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as source, zipfile.ZipFile(tmp_path / "b.pt", "w") as copy:
        for member in source.namelist():
            copy.writestr(member, order if member.endswith("byteorder") else source.read(member))
    if order in (b"big", b"little"):
        truth = VALUES if order == b"little" else VALUES.byteswap()
        np.testing.assert_array_equal(read(tmp_path / "b.pt").view("u4"), truth.view("u4"))
        return
    with pytest.raises(DataError, match=r"b\.pt"):
        read(tmp_path / "b.pt")


def test_a_pickle_of_many_instructions_ends_early(tmp_path, monkeypatch):
    monkeypatch.setattr("identifiable.io.torch_files.MOST_INSTRUCTIONS", 1000)
    with zipfile.ZipFile(tmp_path / "a.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"\x80\x02" + b"N" * 1001 + b".")
    with pytest.raises(DataError, match=naming("a.pt", "instructions")):
        read(tmp_path / "a.pt")


# -- .zarr


def store(root: Path, form: str) -> Path:
    """Values in a chunk, its compressor and version of zarr by the `form`; the file of the chunk."""
    zarr = pytest.importorskip("zarr")
    import numcodecs

    version, codec = form.split()
    if version == "2":
        packing = {"zarr_format": 2, "compressors": numcodecs.get_codec({"id": codec})}
    else:
        packing = {
            "compressors": {
                "blosc": zarr.codecs.BloscCodec,
                "gzip": zarr.codecs.GzipCodec,
                "zstd": zarr.codecs.ZstdCodec,
            }[codec]()
        }
        packing |= {"shards": (8, 3)} if version == "sharded" else {}
    zarr.create_array(root, data=VALUES, chunks=(4, 3), **packing)
    return root / {"2": "0.0", "3": "c/0/0", "sharded": "c/0/0"}[version]


PACKED = [
    *(f"2 {codec}" for codec in ("blosc", "zlib", "gzip", "bz2", "lzma", "lz4", "zstd")),
    *(f"{version} {codec}" for version in ("3", "sharded") for codec in ("blosc", "gzip", "zstd")),
]


@pytest.mark.parametrize("form", PACKED)
def test_chunks_of_zarr_are_what_was_written_or_refused(tmp_path, form):
    chunk = store(tmp_path / "a.zarr", form)
    np.testing.assert_array_equal(read(tmp_path / "a.zarr"), VALUES)
    content = chunk.read_bytes()
    if form.startswith("sharded"):  # the first chunk, before the index
        start = 12 if form.endswith("blosc") else 0
        chunk.write_bytes(content[:start] + bytes(4) + content[start + 4 :])
    else:
        chunk.write_bytes(content[: len(content) - 7])
    with pytest.raises(DataError, match=r"a\.zarr"):
        read(tmp_path / "a.zarr")


def blosc(size: int) -> bytes:
    return struct.pack("<BBBBIII", 2, 1, 0, 4, size, 2**20, 48) + bytes(32)


BOMBS = {
    "2 zlib": lambda: zlib.compress(bytes(2**23)), "2 gzip": lambda: gzip.compress(bytes(2**23)), "2 blosc": lambda: blosc(2**30),
    "3 gzip": lambda: gzip.compress(bytes(2**23)), "3 blosc": lambda: blosc(2**30),
    "2 lz4": lambda: struct.pack("<I", 2**30) + bytes(40),
    "3 zstd": lambda: b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", 2**30) + bytes(40),
}  # fmt: skip


@pytest.mark.parametrize("form", BOMBS)
def test_chunks_of_zarr_become_no_longer_than_declared(tmp_path, form):
    store(tmp_path / "a.zarr", form).write_bytes(BOMBS[form]())
    with pytest.raises(DataError, match=naming("a.zarr", "longer than", "1,048,")):
        read(tmp_path / "a.zarr")


@pytest.mark.parametrize("compressor", ["gzip", None])
@pytest.mark.parametrize("version", [2, 3])
def test_a_chunk_of_zarr_has_no_more_texts_than_its_bytes_can_hold(tmp_path, version, compressor):
    """A place for each text is made before one is read: a gigabyte for a damaged byte."""
    zarr = pytest.importorskip("zarr")
    import numcodecs

    gzips = numcodecs.GZip() if version == 2 else zarr.codecs.GzipCodec()
    words = np.array([f"row {k}" for k in range(8)], dtype=object)
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    root.create_array("x", data=VALUES)
    made = root.create_array("ids", shape=(8,), chunks=(8,), dtype=str, compressors=gzips if compressor else None)
    made[:] = words
    chunk = tmp_path / "a.zarr" / "ids" / ("0" if version == 2 else "c/0")
    packed = chunk.read_bytes()
    content = gzip.decompress(packed) if compressor else packed
    assert int.from_bytes(content[:4], "little") == 8
    for said in (8, 9, 2**27):
        changed = said.to_bytes(4, "little") + content[4:]
        chunk.write_bytes(gzip.compress(changed) if compressor else changed)
        if said == 8:
            found = open_representation(f"{tmp_path / 'a.zarr'}:x", ids="ids")
            assert found.ids.tolist() == words.tolist()
        else:
            with pytest.raises(DataError, match=naming("a.zarr", f"{said:,} texts" if said > 9 else "")):
                open_representation(f"{tmp_path / 'a.zarr'}:x", ids="ids")


def test_a_damaged_array_of_a_group_leaves_nothing_to_be_printed(tmp_path, capfd):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    for name in ("values", "more", "others"):
        group.create_array(name, data=VALUES)
    group.create_group("inner").create_array("last", data=VALUES)
    assert open_representation(f"{tmp_path}/a.zarr:inner/last").values.shape == VALUES.shape
    (tmp_path / "a.zarr" / "values" / "zarr.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"a\.zarr"):
        read(tmp_path / "a.zarr")
    import gc

    gc.collect()
    assert capfd.readouterr() == ("", "")


# -- pipes, and what is no name


@pytest.mark.parametrize("name", ["r.json", "b.safetensors", "z.zarr/.zarray", "z.zarr/zarr.json"])
def test_pipes_are_refused_before_they_are_opened(tmp_path, name):
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    os.mkfifo(place)
    if ".zarr" in name:
        pytest.importorskip("zarr")
        door, path = read, place.parent
    else:
        door, path = (load if name.endswith(".json") else load_basis), place
    with pytest.raises(DataError, match=naming(place.name, "pipe")):
        door(path)


@pytest.mark.parametrize("door", [load, load_basis, partial(save_basis, basis=None)])
@pytest.mark.parametrize("given", [None, 3])
def test_a_path_is_asked_for_by_its_type(door, given):
    with pytest.raises(KindError, match=type(given).__name__):
        door(given)


def test_a_name_with_a_nul_is_no_file():
    with pytest.raises(DataError, match="x00"):
        load("a\0b.json")
    with pytest.raises(OutputError, match="x00"):
        write_text("a\0b.json", "")


# -- links


def test_unfinished_rows_are_not_written_through_a_link(tmp_path):
    (tmp_path / "victim").write_text("as it was")
    (tmp_path / "a.safetensors.unfinished").symlink_to(tmp_path / "victim")
    with pytest.raises(OutputError, match=r"a\.safetensors\.unfinished"):
        GrowingFile(tmp_path / "a.safetensors", {"a": 2}, np.arange(3), {})
    assert (tmp_path / "victim").read_text() == "as it was"
    with GrowingFile(tmp_path / "b.safetensors", {"a": 2}, np.arange(3), {}) as file:
        file.write([0, 1, 2], {"a": VALUES[:3, :2]})
        file.finish()
        np.testing.assert_array_equal(read(file.deliver()), VALUES[:3, :2])


def test_a_checkpoint_takes_the_place_of_a_link(tmp_path):
    (tmp_path / "victim").write_text("as it was")
    kept = KeptArrays(tmp_path / "kept", "f" * 32)
    kept.put("a", {"x": VALUES})
    (tmp_path / "kept" / "b.npz").symlink_to(tmp_path / "victim")
    assert kept.get("b") is None
    kept.put("b", {"x": VALUES})
    np.testing.assert_array_equal(kept.get("b")["x"], VALUES)
    assert not (tmp_path / "kept" / "b.npz").is_symlink()
    assert (tmp_path / "victim").read_text() == "as it was"


# -- headers, sizes and numbers


def test_long_headers_of_safetensors_are_refused(tmp_path):
    for extra, fits in ((0, True), (8, False)):
        header = (
            json.dumps({"x": {"dtype": "F32", "shape": [8, 3], "data_offsets": [0, 96]}})
            .encode()
            .ljust(LARGEST_HEADER + extra)
        )
        (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + VALUES.tobytes())
        if fits:
            np.testing.assert_array_equal(read(tmp_path / "a.safetensors"), VALUES)
        else:
            with pytest.raises(DataError, match=naming("a.safetensors", LARGEST_HEADER, LARGEST_HEADER + extra)):
                read(tmp_path / "a.safetensors")


def test_chunks_of_hdf5_that_unpack_to_very_much_are_refused(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    monkeypatch.setattr("identifiable.io.hdf5_limits.LARGE", 2**14)
    values = np.random.default_rng(0).standard_normal((2**12, 4))
    for name, table in (("zeros", np.zeros_like(values)), ("values", values)):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file.create_dataset("x", data=table, chunks=table.shape, compression="gzip")
    np.testing.assert_array_equal(read(tmp_path / "values.h5"), values)
    with pytest.raises(DataError, match=r"zeros\.h5"):
        read(tmp_path / "zeros.h5")


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_texts_of_a_page_are_no_ids(tmp_path, suffix):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    for length, fits in ((2**12, True), (2**22 + 1, False)):
        words = [f"{'x' * (length - 1)}{k}" for k in range(4)]
        table = pa.table({"id": words, "a": VALUES[:4, 0]})
        path = tmp_path / f"a.{suffix}"
        if suffix == "parquet":
            pq.write_table(table, path, compression="zstd", use_dictionary=False)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
        if fits:
            assert open_representation(path).ids.tolist() == words
        else:
            with pytest.raises(DataError, match=naming(path.name, "id")):
                open_representation(path)


def test_an_id_of_a_page_that_repeats_is_shortened():
    with pytest.raises(PairingError, match="1 sample ids") as error:
        Representation(VALUES[:2], ids=["x" * 100_000] * 2, name="a")
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("size", [1e36, 1e150, 1e300, 1e-40])
def test_screens_hold_numbers_of_ordinary_size(tmp_path, size):
    def write(factor: float) -> Path:
        table = np.column_stack([np.arange(8), VALUES.astype(np.float64) * factor])
        rows = [",".join([f"p1,A{int(k):02d},x", *map(repr, map(float, row))]) for k, *row in table.tolist()]
        (tmp_path / "a.csv").write_text("plate,well,treatment,f_0,f_1,f_2\n" + "\n".join(rows) + "\n")
        return tmp_path / "a.csv"

    assert open_screen(write(1e30)).representation.values.shape == (8, 3)
    with pytest.raises(DataError, match=naming("1e-35", "1e+35")):
        open_screen(write(size))


# -- other types than expected


@pytest.mark.parametrize("header", ["'shape': (4, 3", "'shape': (True, 3)}", "'shape': '4'}", "'shape': (4L, 30L)}"])
def test_headers_of_jacobians_are_refused_in_one_line(tmp_path, header, recwarn):
    text = ("{'descr': '<f8', 'fortran_order': False, " + header).encode()
    path = tmp_path / "j.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(96))
    with pytest.raises(DataError, match=r"j\.npy"):
        open_jacobians(path)
    assert not recwarn.list


@pytest.mark.parametrize("order", [np.ascontiguousarray, np.asfortranarray])
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<i2"])
def test_jacobians_are_read_by_points_from_the_file(tmp_path, order, dtype):
    path, cube = tmp_path / "j.npy", np.arange(60).reshape(5, 4, 3).astype(dtype)
    np.save(path, order(cube))
    J = open_jacobians(path)
    assert J.dtype == (cube.dtype if cube.dtype.kind == "f" else np.float64)
    for points in (slice(None), slice(1, 4), slice(4, 5)):
        np.testing.assert_array_equal(J[points], cube[points])


SHORTENED = """
import os, sys
import numpy as np
from identifiable._checks import DataError
from identifiable.io import arrow_files, open_representation
from identifiable.io.jacobian_files import open_jacobians

def read(path):
    if path.endswith(".npy"):
        jacobians = open_jacobians(path)
        os.truncate(path, 5000)
        return jacobians[:]
    unpack = arrow_files.ArrowTable._write_panel
    def shortened(*given):
        batches = arrow_files.ArrowTable._all_batches
        def cut(*given):
            found = batches(*given)
            yield next(found)
            os.truncate(path, 5000)
            yield from found
        arrow_files.ArrowTable._all_batches = cut
        unpack(*given)
    arrow_files.ArrowTable._write_panel = shortened
    return open_representation(path)

try:
    read(sys.argv[1])
except DataError as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["a.arrow", "stream.arrow", "j.npy"])
def test_a_file_that_is_shortened_while_it_is_read_does_not_end_the_process(tmp_path, name):
    if name.endswith(".npy"):
        np.save(tmp_path / name, np.ones((2000, 4, 3)))
    else:
        pa = pytest.importorskip("pyarrow")
        table = pa.table({f"f{j}": np.ones(5000) for j in range(4)})
        opened = pa.ipc.new_stream if name.startswith("stream") else pa.ipc.new_file
        with opened(tmp_path / name, table.schema) as file:
            file.write_table(table, max_chunksize=1000)
    done = children.run([sys.executable, "-c", SHORTENED, str(tmp_path / name)])
    assert done.returncode == 0, done.stderr
    assert name in done.stdout


@pytest.mark.parametrize(
    "placed", [{"classifier.weight": 2, "classifier.bias": "a.safetensors"}, {"x": {}}, [], {"x": None}]
)
def test_places_of_tensors_are_names(tmp_path, placed):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["BertForSequenceClassification"]}))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    with pytest.raises(DataError, match=naming("model.safetensors.index.json", "weight_map")):
        read_head(tmp_path)


def test_half_a_character_is_no_label(tmp_path):
    labels = {"0": "a", "1": "b\ud800"}
    (tmp_path / "config.json").write_text(
        json.dumps({"architectures": ["BertForSequenceClassification"], "id2label": labels})
    )
    save_file({"classifier.weight": VALUES[:2]}, tmp_path / "model.safetensors")
    with pytest.raises(DataError, match="UTF-8"):
        read_head(tmp_path)
    (tmp_path / "config.json").write_text((tmp_path / "config.json").read_text().replace("\\ud800", ""))
    assert read_head(tmp_path).labels.tolist() == ["a", "b"]


@pytest.mark.parametrize("values", [None, 3.0, "word", [[1.0], [2.0, 3.0]], object()])
def test_what_is_no_table_is_no_representation(values):
    with pytest.raises(DataError, match="table:"):
        Representation(values, name="table")
    assert Representation([[1.0, 2.0], [3.0, 4.0]]).values.tolist() == [[1, 2], [3, 4]]


# -- messages


def test_messages_can_be_printed_whatever_stands_in_a_file():
    said = str(DataError("a\x1b[31m\r\nb\u202e\ud800\x00: expected é, ± and 日本."))
    assert said.isprintable()
    assert said.endswith("expected é, ± and 日本.")
    assert str(OutputError("a\tb")) == r"a\tb"
    assert len(str(DataError("x" * 10**5))) < 5000


def test_many_columns_that_could_be_ids_are_not_all_named(tmp_path):
    names = [f"id{'_' * k}" for k in range(1)] + [
        f"{'I' if k & 1 else 'i'}{'D' if k & 2 else 'd'}" for k in range(1, 4)
    ]
    (tmp_path / "a.csv").write_text(",".join([*names, "x"]) + "\n" + "1,2,3,4,5\n6,7,8,9,10\n")
    with pytest.raises(DataError, match=naming("a.csv", *names)):
        open_representation(tmp_path / "a.csv")


def test_bz2_in_an_archive_is_refused_and_the_other_arrays_are_read(tmp_path):
    np.savez(tmp_path / "a.npz", x=VALUES)
    with zipfile.ZipFile(tmp_path / "a.npz", "a", zipfile.ZIP_BZIP2) as archive, archive.open("y.npy", "w") as member:
        np.save(member, VALUES)
    np.testing.assert_array_equal(open_representation(f"{tmp_path}/a.npz:x").values[:], VALUES)
    with pytest.raises(DataError, match=naming("a.npz:y", "bz2")):
        open_representation(f"{tmp_path}/a.npz:y")


def test_more_chunks_of_zarr_than_anyone_writes_are_refused(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "a.zarr", shape=(4, 2**18), chunks=(4, 1), dtype="f4")
    with pytest.raises(DataError, match=naming("a.zarr", 2**18)):
        open_representation(tmp_path / "a.zarr")


# -- found by damaging files at random


def test_a_batch_of_arrow_without_a_column_of_its_file_is_one_line(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    from identifiable.io.arrow_files import ArrowTable

    table = pa.table({"first": VALUES[:, 0], "second": VALUES[:, 1]})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    np.testing.assert_array_equal(read(tmp_path / "a.arrow"), VALUES[:, :2])
    monkeypatch.setattr(ArrowTable, "_all_batches", lambda *_: iter(table.select(["first"]).to_batches()))
    with pytest.raises(DataError, match=naming("a.arrow", "second")):
        read(tmp_path / "a.arrow")


@pytest.mark.parametrize(("end", "known"), [(b"\n", True), (b"\x0b", False), (b"\x0c", True)])
def test_a_header_ends_as_numpy_takes_it(tmp_path, end, known):
    path = tmp_path / "a.npy"
    np.save(path, VALUES)
    content = bytearray(path.read_bytes())
    content[127:128] = end
    path.write_bytes(content)
    if known:
        np.testing.assert_array_equal(read(path), np.load(path))
        return
    for door, error in ((np.load, ValueError), (read, DataError)):
        with pytest.raises(error, match="header"):
            door(path)


@pytest.mark.timeout(15)
def test_padding_of_a_header_costs_no_time(tmp_path):
    """numpy took the square of the spaces before a damaged byte, here minutes."""
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (8, 3" + b" " * 9500 + b"\0)}"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + VALUES.tobytes())
    with pytest.raises(DataError, match=naming("a.npy", "header")):
        read(tmp_path / "a.npy")
    text = text.replace(b"\0", b" ")
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + VALUES.tobytes())
    np.testing.assert_array_equal(read(tmp_path / "a.npy"), VALUES)


def test_an_array_in_each_place_is_refused(tmp_path):
    text = b"{'descr': ('<f4', (3,)), 'fortran_order': False, 'shape': (8,)}\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + VALUES.tobytes())
    with pytest.raises(DataError, match=naming("a.npy", "header")):
        read_labels(tmp_path / "a.npy")


def moved_directory(raw: bytes) -> bytes:
    """The entry of the last member in the directory of an archive leads to the first member."""
    at = raw.rindex(b"PK\x01\x02")
    return raw[: at + 42] + bytes(4) + raw[at + 46 :]


def longer_extra(raw: bytes) -> bytes:
    """The header of the last member ends four bytes too early: its numbers would be those before."""
    at = raw.rindex(b"PK\x03\x04")
    (extra,) = struct.unpack("<H", raw[at + 28 : at + 30])
    return raw[: at + 28] + struct.pack("<H", extra - 4) + raw[at + 30 :]


@pytest.mark.parametrize("change", [moved_directory, longer_extra])
def test_numbers_are_not_read_from_another_place_of_an_archive(tmp_path, change):
    path = tmp_path / "a.npz"
    values = np.arange(6000.0).reshape(-1, 3)
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("x", "y"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.save(member, values if name == "y" else np.zeros_like(values))
    np.testing.assert_array_equal(open_representation(f"{path}:y").values[:], values)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=r"a\.npz"):
        open_representation(f"{path}:y").values[:]


def test_an_archive_whose_members_have_gaps_is_verified_by_checksums(tmp_path):
    """As some tools leave them that delete members."""
    values = np.arange(6000.0).reshape(-1, 3)
    np.savez(tmp_path / "a.npz", x=values)
    raw = (tmp_path / "a.npz").read_bytes()
    at, end = raw.index(b"PK\x01\x02"), raw.index(b"PK\x05\x06")
    gap = raw[:at] + b"gap" + raw[at:end] + raw[end : end + 16] + struct.pack("<I", at + 3) + raw[end + 20 :]
    (tmp_path / "a.npz").write_bytes(gap)
    np.testing.assert_array_equal(read(tmp_path / "a.npz"), values)
    (tmp_path / "a.npz").write_bytes(gap.replace(values.tobytes(), values[::-1].tobytes()))
    with pytest.raises(DataError, match=naming("a.npz", "checksum")):
        read(tmp_path / "a.npz")


def test_two_members_of_one_name_are_refused(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save(torch.from_numpy(VALUES), tmp_path / "a.pt")
    np.testing.assert_array_equal(read(tmp_path / "a.pt"), VALUES)
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        members = [(each.filename, archive.read(each)) for each in archive.infolist()]
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        for name, content in members:
            archive.writestr(name, content)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(*members[-1])
    with pytest.raises(DataError, match=r"a\.pt"):
        read(tmp_path / "a.pt")


FLIPS = """
import sys
from pathlib import Path
from identifiable import DataError
from identifiable.io import open_representation
path = Path("a.parquet")
whole, refused = path.read_bytes(), 0
for at in range(len(whole) - int.from_bytes(whole[-8:-4], "little") - 8, len(whole)):
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
    try:
        open_representation(path).values[:]
    except DataError:
        refused += 1
print(refused)
"""


def test_damaged_statistics_of_parquet_do_not_end_the_process(tmp_path):
    """pyarrow ends the process where it is asked about one column of a group of rows whose histogram is too long."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"id": ["u", "v"], "x": [1.0, 2.0]}), tmp_path / "a.parquet", compression="none")
    ended = subprocess.run([sys.executable, "-c", FLIPS], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 20


def test_chunks_that_are_too_short_are_refused(tmp_path):
    """HDF5 ends the process where it looks for the checksum of fewer bytes than that has."""
    h5py = pytest.importorskip("h5py")
    for damaged in (False, True):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            made = file.create_dataset("x", data=VALUES, chunks=(4, 3), fletcher32=True)
            if damaged:
                made.id.write_direct_chunk((4, 0), b"ab")
        if damaged:
            with pytest.raises(DataError, match=naming("a.h5", "chunk")):
                read(tmp_path / "a.h5")
        else:
            np.testing.assert_array_equal(read(tmp_path / "a.h5"), VALUES)


def test_ids_in_half_precision_are_whole_numbers(tmp_path):
    np.savez(tmp_path / "a.npz", x=VALUES, ids=np.arange(8, dtype=np.float16))
    assert open_representation(tmp_path / "a.npz").ids.tolist() == [*range(8)]
    np.savez(tmp_path / "a.npz", x=VALUES, ids=np.array([*range(7), np.inf], np.float16))
    with pytest.raises(DataError, match=naming("a.npz", "float16")):
        open_representation(tmp_path / "a.npz")


def test_sparse_rows_begin_with_the_first_value(tmp_path):
    """Else all values could be left out without a word."""
    h5py, anndata = pytest.importorskip("h5py"), pytest.importorskip("anndata")
    from scipy.sparse import csr_matrix

    anndata.AnnData(csr_matrix(VALUES)).write_h5ad(tmp_path / "a.h5ad")
    np.testing.assert_array_equal(read(tmp_path / "a.h5ad"), VALUES)
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        file["X/indptr"][...] = 7
    with pytest.raises(DataError, match=naming("a.h5ad", 7)):
        read(tmp_path / "a.h5ad")


@pytest.mark.parametrize("shape", [[[]], [8], [8, 3.5], [8, "3"], 8, "83", None, [[8, 3]], [-8, 3], [8, 2**70]])
def test_a_sparse_matrix_has_two_lengths(tmp_path, shape):
    pytest.importorskip("zarr")
    anndata = pytest.importorskip("anndata")
    from scipy.sparse import csr_matrix

    with anndata.settings.override(zarr_write_format=2), warnings.catch_warnings(action="ignore"):
        anndata.AnnData(csr_matrix(VALUES)).write_zarr(tmp_path / "a.zarr")
    np.testing.assert_array_equal(read(tmp_path / "a.zarr"), VALUES)
    for kept in (tmp_path / "a.zarr" / "X" / ".zattrs", tmp_path / "a.zarr" / ".zmetadata"):
        card = json.loads(kept.read_text())
        (card["metadata"]["X/.zattrs"] if "metadata" in card else card)["shape"] = shape
        kept.write_text(json.dumps(card))
    with pytest.raises(DataError, match=naming("a.zarr")):
        read(tmp_path / "a.zarr")


def test_chunks_of_zarr_beyond_64_bits_are_refused(tmp_path):
    """zarr made a table of whatever the memory held before."""
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "a.zarr", data=VALUES)
    np.testing.assert_array_equal(read(tmp_path / "a.zarr"), VALUES)
    card = json.loads((tmp_path / "a.zarr" / "zarr.json").read_text())
    card["chunk_grid"]["configuration"]["chunk_shape"][0] = 10**300
    (tmp_path / "a.zarr" / "zarr.json").write_text(json.dumps(card))
    with pytest.raises(DataError, match=naming("a.zarr", "chunks")) as caught:
        read(tmp_path / "a.zarr")
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


LONG = "x" * 5000


def test_long_names_are_shortened_in_messages(tmp_path):
    (tmp_path / "a.csv").write_text(f"{LONG},b\nword,2\n1,2\n")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "state.json").write_text(json.dumps({"_data_files": [{"filename": LONG}]}))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": LONG}}))
    for path, call in (("a.csv", open_representation), ("set", open_representation), ("model", read_head)):
        with pytest.raises(DataError, match=r"x{40}") as caught:
            call(tmp_path / path)
        assert len(str(caught.value)) < 400 + 2 * len(str(tmp_path))


def test_what_others_say_is_shortened_after_it_is_spelled_out():
    assert len(str(DataError(words_of(ValueError("\0" * 10**4))))) < 400
