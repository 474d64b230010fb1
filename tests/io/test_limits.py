"""Damaged headers are refused before a library allocates what they declare; mistakes of ours are not called damage."""

from __future__ import annotations

import math
import struct
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from children import run
from errors import naming
from identifiable._checks import DataError
from identifiable.io import open_representation, read_labels
from identifiable.io.containers import damage_named
from identifiable.io.hdf5_limits import check_attribute

VALUES = np.random.default_rng(3).standard_normal((60, 4)).astype(np.float32)
SECONDS, MEGABYTES = 5, 500  # for a file below 100 MB; docs/formats.md

READ = """
import sys, time
from pathlib import Path
from identifiable import DataError
from identifiable.io import open_representation
for path in sys.argv[1:]:
    began = time.process_time()
    try:
        open_representation(path).values[:]
        end = "read"
    except DataError as error:
        end = "refused" if path in str(error) else "refused without its name"
    status = Path("/proc/self/status").read_text()  # ru_maxrss has that of the process that started this one
    peak = int(status.split("VmHWM:")[1].split()[0]) // 1024
    print(f"{time.process_time() - began:.2f} {peak} {end}", flush=True)
"""


def long_page(path: Path) -> None:
    """A Parquet file whose only page declares 2 GB: the header of a page has its length as the third field."""
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table({"feature_0": VALUES[:, 0]})
    parquet.write_table(table, path, use_dictionary=False, compression="none", write_statistics=False)
    content = path.read_bytes()
    assert content[4:7] == b"\x15\x00\x15"
    ends = [k for k in range(7, 20) if content[k] < 128]  # where numbers end
    huge = b"\xe8\xff\xff\xff\x0f"
    path.write_bytes(content[:7] + huge + b"\x15" + huge + content[ends[1] + 1 :])


def endless_heap(path: Path) -> None:
    """Texts of HDF5 lie in heaps; an unused part of length 0 is read for ever."""
    content = bytearray(hdf5(path))
    at = content.index(b"GCOL")
    place = at + 16
    while content[place : place + 2] != b"\0\0":
        length = struct.unpack_from("<Q", content, place + 8)[0]
        place += 16 + -(-length // 8) * 8
    struct.pack_into("<Q", content, place + 8, 0)
    path.write_bytes(content)


def circle_of_names(path: Path) -> None:
    """Names of a group lie in a heap whose free places are a list: HDF5 follows one that leads to itself for ever."""
    content = bytearray(hdf5(path))
    at = content.index(b"HEAP")
    size, free, start = struct.unpack_from("<3Q", content, at + 8)
    assert free + 16 <= size
    struct.pack_into("<Q", content, start + free, free)
    path.write_bytes(content)


def long_text(path: Path) -> None:
    """The place of a text is its length, its heap and its number there."""
    content = bytearray(hdf5(path))
    heap = content.index(b"GCOL")
    struct.pack_into("<I", content, content.index(struct.pack("<IQI", 2, heap, 1)), 0x3FFFFFFF)
    path.write_bytes(content)


def wide_chunks(path: Path) -> None:
    content = hdf5(path, chunks=(20, 2), compression="gzip")
    shape = struct.pack("<3I", 20, 2, 4)
    assert content.count(shape) == 1
    path.write_bytes(content.replace(shape, struct.pack("<3I", 2**26, 2, 4)))


def many_rows(path: Path) -> None:
    content = hdf5(path, chunks=(20, 2), compression="gzip", maxshape=(None, 4))
    shape = struct.pack("<2Q", 60, 4)
    path.write_bytes(content.replace(shape, struct.pack("<2Q", 2**28, 4)))


def hdf5(path: Path, **how: object) -> bytes:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=VALUES, **how)
        file["ids"] = [f"{i:02d}" for i in range(60)]
    return path.read_bytes()


DAMAGE = {
    "a.parquet": long_page,
    "heap.h5": endless_heap,
    "names.h5": circle_of_names,
    "text.h5": long_text,
    "chunks.h5": wide_chunks,
    "rows.h5": many_rows,
}


def test_what_a_damaged_header_declares_is_not_allocated(tmp_path: Path) -> None:
    for name, damage in DAMAGE.items():
        damage(tmp_path / name)
    np.save(tmp_path / "good.npy", VALUES)
    paths = [str(tmp_path / name) for name in ("good.npy", *DAMAGE)]
    found = run([sys.executable, "-c", READ, *paths], seconds=60)
    lines = [line.split(maxsplit=2) for line in found.stdout.splitlines()]
    ends = {Path(path).name: end for path, (_, _, end) in zip(paths, lines, strict=False)}
    assert ends == {"good.npy": "read"} | dict.fromkeys(DAMAGE, "refused"), found.stderr
    assert max(float(seconds) for seconds, _, _ in lines) < SECONDS
    assert max(int(peak) for _, peak, _ in lines) < MEGABYTES


def test_whole_hdf5_files_pass_the_same_checks(tmp_path: Path) -> None:
    for name, how in {
        "plain": {},
        "packed": {"chunks": (20, 2), "compression": "gzip"},
        "one": {"chunks": (60, 4)},
    }.items():
        path = tmp_path / f"{name}.h5"
        hdf5(path, **how)
        found = open_representation(f"{path}:x", ids="ids")
        np.testing.assert_array_equal(found.values[:], VALUES)
        assert found.ids is not None
        assert found.ids[:2].tolist() == ["00", "01"]


@pytest.mark.parametrize("block", [0, 512])
@pytest.mark.parametrize(
    "before", [0, 7]
)  # attributes written before, some of which lie in a second part of the header
def test_a_text_of_an_attribute_is_no_longer_than_its_place(tmp_path: Path, block: int, before: int) -> None:
    h5py = pytest.importorskip("h5py")
    path, texts = tmp_path / "a.h5", {"one": "encoded", "several": ["first", "second", "third"]}
    with h5py.File(path, "w", userblock_size=block) as file:
        for k in range(before):
            file.attrs[f"earlier {k}"] = np.arange(5.0)
        file.attrs.update(texts)
        file.attrs["reference"] = file.create_group("b").ref
        file.attrs["record"] = np.array([("text", 1)], [("name", h5py.string_dtype()), ("number", "i4")])
        lists = np.array([np.arange(2), np.arange(3)], object)
        file.create_group("lists").attrs.create("some", lists, dtype=h5py.vlen_dtype(int))
    whole = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        for name in file.attrs:
            check_attribute(file, name)
        assert check_attribute(file, "none") is None
        with pytest.raises(ValueError, match="lists"):
            check_attribute(file["lists"], "some")
    for name, word in {"one": "encoded", "several": "second"}.items():
        heap = whole.index(b"GCOL") - block
        places = [k for k in range(len(whole)) if whole[k : k + 12] == struct.pack("<IQ", len(word), heap)]
        assert len(places) == 1
        damaged = bytearray(whole)
        struct.pack_into("<I", damaged, places[0], 2**30)
        path.write_bytes(damaged)
        with h5py.File(path) as file:
            for other in {*file.attrs} - {name}:
                check_attribute(file, other)
            with pytest.raises(ValueError, match=name):
                check_attribute(file, name)


def test_a_missing_chunk_of_hdf5_is_no_row_of_zeros(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", shape=(60, 4), dtype="f4", chunks=(20, 4))
        made[:20] = VALUES[:20]
    with pytest.raises(DataError, match=naming("a.h5", 2, 3)):
        open_representation(tmp_path / "a.h5")


@pytest.mark.parametrize("closed", [False, True])
def test_a_quote_left_open_costs_one_pass(tmp_path: Path, closed: bool) -> None:
    """30 MB took 5 s, four times the text four times four as long: every piece was searched from the first quote on."""
    path = tmp_path / "a.csv"
    rows = b"1.25,2.5,3.125\n" * (15_000_000 // 15)
    path.write_bytes(b"a,b,c\n" + (b'"' + 2 * rows if not closed else b'"1","2\n",3\n' * 1000))
    began = time.process_time()
    if closed:
        assert open_representation(path).values.shape == (1000, 3)
    else:
        for read in (open_representation, read_labels):
            with pytest.raises(DataError, match=r"a\.csv"):
                read(path)
    assert time.process_time() - began < 1.5


@pytest.mark.parametrize("size", [1, 7, 64])
def test_records_are_cut_alike_whatever_the_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    from identifiable.io import tables

    path = tmp_path / "a.csv"
    path.write_bytes(b'id,a,b\r\n"u\r\nv",1,2\r\n"w""x",3,"4"\ry,5,6\n\n')
    whole = open_representation(path)
    monkeypatch.setattr(tables, "PIECE_BYTES", size)
    found = open_representation(path)
    np.testing.assert_array_equal(found.values[:], whole.values[:])
    assert whole.ids is not None
    assert found.ids is not None
    assert found.ids.tolist() == whole.ids.tolist() == ["u\nv", 'w"x', "y"]


class Ours:
    def method(self, one: int) -> None:
        raise NotImplementedError


Ours.__module__ = "identifiable.io.here"
MISTAKES = {
    "name": (NameError, "missing"),
    "attribute": (AttributeError, "ours.none"),
    "module": (AttributeError, "math.none"),
    "call": (TypeError, "ours.method()"),
}
DAMAGES = {"library": "numpy.frombuffer(b'abc', 'f8')", "bytes": "b''.none", "key": "{}['a']", "unpacking": "[1][2]"}


def told(line: str) -> None:
    """A line that runs as if it stood in a module of the package."""
    place = {"__name__": "identifiable.io.here", "ours": Ours(), "numpy": np, "math": math}
    with damage_named(lambda why: DataError(f"a.x: damaged ({why})")):
        exec(compile(line, "here", "exec"), place)


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_of_ours_is_not_called_damage(kind: str) -> None:
    error, line = MISTAKES[kind]
    with pytest.raises(error) as caught:
        told(line)
    assert not isinstance(caught.value, DataError)


@pytest.mark.parametrize("kind", DAMAGES)
def test_what_a_file_can_cause_is_called_damage(kind: str) -> None:
    with pytest.raises(DataError, match="damaged"):
        told(DAMAGES[kind])
