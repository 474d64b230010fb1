"""io: what a file holds is what is read, in blocks; what is wrong with it is said in one line."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

import children
from errors import naming
from identifiable import resolve, transform
from identifiable._checks import DataError, OutputError, UsageError
from identifiable.blocks import Blocks
from identifiable.io import (
    open_representation,
    open_screen,
    read_label_table,
    read_labels,
    save_array,
    stored_rows,
    tables,
)
from identifiable.io.tables import TextTable

SEED = 20240517
N, D = 57, 5


@pytest.fixture
def values() -> NDArray[np.float32]:
    return np.random.default_rng(SEED).standard_normal((N, D)).astype(np.float32)


def write(path: Path, values: NDArray[Any], form: str = "") -> str:
    """`values` in the format of the suffix; returns the path as users write it."""
    suffix = path.suffix
    if suffix == ".npy":
        np.save(path, values)
    elif suffix == ".npz":
        (np.savez_compressed if form == "compressed" else np.savez)(path, x=values)
    elif suffix == ".safetensors":
        save_file({"x": np.ascontiguousarray(values)}, path)
    else:
        delimiter = {".csv": ",", ".tsv": "\t"}[suffix]
        path.write_text("".join(delimiter.join(repr(float(v)) for v in row) + "\n" for row in values))
    return str(path)


CONTAINERS = [
    ("a.npy", ""),
    ("a.npz", ""),
    ("a.npz", "compressed"),
    ("a.safetensors", ""),
    ("a.csv", ""),
    ("a.tsv", ""),
]


# What is in the file is what is read


@pytest.mark.parametrize(("name", "form"), CONTAINERS)
@pytest.mark.parametrize("rows", [None, 1, 10, 1000])
def test_every_format_gives_the_same_rows_at_any_block_size(tmp_path, values, name, form, rows):
    representation = open_representation(write(tmp_path / name, values, form), rows=rows)
    assert isinstance(representation.values, Blocks)
    assert representation.values.rows == rows
    assert representation.name == "a"
    assert representation.ids is None
    np.testing.assert_array_equal(representation.values[:], values)
    np.testing.assert_array_equal(np.concatenate(list(representation.values)), values)
    np.testing.assert_array_equal(representation.values[7:9], values[7:9])
    assert representation.values[3:3].shape == (0, D)
    assert not np.array_equal(representation.values[1:3], values[:2])


@pytest.mark.parametrize(("name", "form"), CONTAINERS)
def test_rows_come_in_the_order_of_an_index_array(tmp_path, values, name, form):
    rows = open_representation(write(tmp_path / name, values, form)).values.source
    index = np.random.default_rng(SEED).integers(0, N, 200)
    np.testing.assert_array_equal(rows[index], values[index])
    np.testing.assert_array_equal(rows[np.array([-1, 0])], values[[-1, 0]])
    np.testing.assert_array_equal(rows[np.arange(N) % 2 == 0], values[::2])
    np.testing.assert_array_equal(rows[::3], values[::3])
    assert rows[np.array([], dtype=int)].shape == (0, D)
    with pytest.raises(IndexError, match=f"{N} rows"):
        rows[np.array([N])]


@pytest.mark.parametrize("order", ["C", "F"])
def test_scattered_rows_of_a_long_table_are_right_across_reads(tmp_path, monkeypatch, order):
    monkeypatch.setattr(stored_rows, "SPAN_BYTES", 1000)
    monkeypatch.setattr(stored_rows, "GAP_BYTES", 64)
    table = np.arange(9000, dtype=np.int32).reshape(3000, 3)
    np.save(tmp_path / "a.npy", np.asarray(table, order=order))
    rows = open_representation(tmp_path / "a.npy").values.source
    index = np.random.default_rng(SEED).permutation(3000)
    for part in (index, index[:40], np.sort(index[:500]), np.array([5, 5, 2999, 5])):
        np.testing.assert_array_equal(rows[part], table[part])


@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8", ">f8", "|i1", ">i2", "<u4", "<i8", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_numpy_files_of_any_order_and_byte_order_come_out_native(tmp_path, values, dtype, order, name):
    stored = np.asarray((values * 10).astype(dtype), order=order)
    source = open_representation(write(tmp_path / name, stored)).values.source
    assert source.dtype.isnative
    assert source.dtype == np.dtype(dtype).newbyteorder("=")
    assert source.stored_dtype == str(np.dtype(dtype))
    np.testing.assert_array_equal(source[4:20], stored[4:20])
    np.testing.assert_array_equal(source[np.array([9, 2])], stored[[9, 2]])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
def test_safetensors_of_every_dtype_come_out_as_stored(tmp_path, values, dtype):
    stored = np.abs(values * 10).astype(dtype)
    source = open_representation(write(tmp_path / "a.safetensors", stored)).values.source
    assert source.dtype == stored.dtype
    np.testing.assert_array_equal(source[4:20], stored[4:20])


def safetensors_bytes(header: Any, data: bytes, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def test_bfloat16_is_read_as_float32_and_says_so(tmp_path, values):
    halves = (values.view(np.uint32) >> 16).astype(np.uint16)
    header = {"x": {"dtype": "BF16", "shape": [N, D], "data_offsets": [0, 2 * N * D]}}
    (tmp_path / "a.safetensors").write_bytes(safetensors_bytes(header, halves.tobytes()))
    source = open_representation(tmp_path / "a.safetensors").values.source
    assert (source.dtype, source.stored_dtype) == (np.float32, "bfloat16")
    truncated = (values.view(np.uint32) & 0xFFFF0000).view(np.float32)
    np.testing.assert_array_equal(source[:], truncated)
    np.testing.assert_array_equal(source[np.array([8, 1])], truncated[[8, 1]])
    assert not np.array_equal(source[:], values)


def test_a_part_is_named_after_a_colon(tmp_path, values):
    np.savez(tmp_path / "a.npz", x=values, y=2 * values)
    save_file({"layer.6": values, "layer:7": 3 * values}, tmp_path / "a.safetensors")
    picked = open_representation(f"{tmp_path}/a.npz:y")
    assert picked.name == "a:y"
    np.testing.assert_array_equal(picked.values[:], 2 * values)
    np.testing.assert_array_equal(open_representation(f"{tmp_path}/a.safetensors:layer.6").values[:], values)
    np.testing.assert_array_equal(open_representation(f"{tmp_path}/a.safetensors:layer:7").values[:], 3 * values)


@pytest.mark.parametrize("name", ["run:1.npy", "Żółw été 細胞.npy", "a.NPY", "space and'quote.npy"])
def test_odd_file_names_are_just_names(tmp_path, values, name):
    with (tmp_path / name).open("wb") as file:
        np.save(file, values)
    representation = open_representation(tmp_path / name)
    assert representation.name == name[: name.rindex(".")]
    np.testing.assert_array_equal(representation.values[:], values)


def test_a_colon_in_the_path_and_one_before_the_part_are_told_apart(tmp_path, values):
    np.savez(tmp_path / "run:1.npz", x=values, y=2 * values)
    np.testing.assert_array_equal(open_representation(f"{tmp_path}/run:1.npz:y").values[:], 2 * values)


def test_links_are_followed_and_a_dangling_one_is_named(tmp_path, values):
    write(tmp_path / "a.npy", values)
    (tmp_path / "b.npy").symlink_to(tmp_path / "a.npy")
    (tmp_path / "c.npy").symlink_to(tmp_path / "gone.npy")
    np.testing.assert_array_equal(open_representation(tmp_path / "b.npy").values[:], values)
    with pytest.raises(DataError, match=r"c\.npy:.*gone\.npy"):
        open_representation(tmp_path / "c.npy")


@pytest.mark.parametrize(("name", "form"), CONTAINERS)
def test_rows_are_read_by_many_threads_at_once(tmp_path, name, form):
    table = np.arange(20_000.0).reshape(5000, 4)
    rows = open_representation(write(tmp_path / name, table, form)).values.source
    index = np.random.default_rng(SEED).permutation(5000)

    def check(start: int) -> bool:
        part = index[start : start + 50]
        return np.array_equal(rows[start : start + 50], table[start : start + 50]) and np.array_equal(
            rows[part], table[part]
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, range(0, 5000, 50)))


def test_without_positioned_reads_rows_are_the_same(tmp_path, values, monkeypatch):
    monkeypatch.delattr(os, "preadv", raising=False)  # as on Windows
    source = open_representation(write(tmp_path / "a.npy", values)).values.source
    np.testing.assert_array_equal(source[:], values)
    np.testing.assert_array_equal(source[np.array([9, 0])], values[[9, 0]])


@pytest.mark.parametrize(("name", "form"), CONTAINERS)
def test_a_pickled_source_opens_its_file_again(tmp_path, values, monkeypatch, name, form):
    monkeypatch.chdir(tmp_path)
    blocks = open_representation(Path(write(tmp_path / name, values, form)).name).values
    data = pickle.dumps(blocks)
    assert len(data) < 1000
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(pickle.loads(data)[:], values)
    write(tmp_path / name, values[:-1], form)
    with pytest.raises(DataError, match="the file changed"):
        pickle.loads(data)


def test_a_file_that_changes_while_it_is_read_is_an_error_and_not_a_crash(tmp_path, values):
    rows = open_representation(write(tmp_path / "a.npy", values)).values
    rows[:]
    os.truncate(tmp_path / "a.npy", 200)
    with pytest.raises(DataError, match=r"a\.npy:.*changed while"):
        rows[:]


RESIDENT = """
import sys
import numpy as np
from identifiable.io import open_representation
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
open_representation(sys.argv[2]).values[:10]
before = peak()
total = sum(float(block.sum()) for block in open_representation(sys.argv[1], rows=4096).values)
print(peak() - before, total)
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc, which is Linux only"
)
@pytest.mark.parametrize(
    ("name", "form"), [("a.npy", "C"), ("a.npy", "F"), ("a.npz", ""), ("a.npz", "compressed"), ("a.safetensors", "")]
)
def test_streaming_a_large_file_keeps_little_of_it_in_memory(tmp_path, name, form):
    table = np.ones((200_000, 80), np.float32, order="F" if form == "F" else "C")  # 64 MB
    small = Path(write(tmp_path / name, table[:20], form)).rename(tmp_path / f"small{Path(name).suffix}")
    large = write(tmp_path / name, table, form)
    run = children.run([sys.executable, "-c", RESIDENT, large, str(small)])
    assert run.returncode == 0, run.stderr
    kilobytes, total = run.stdout.split()
    assert float(total) == table.size
    assert int(kilobytes) < 16_000


# Tables of text


def text_table(path: Path, text: str | bytes, **options: Any) -> NDArray[Any]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return open_representation(path, **options).values[:]


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n3,4\n",
        "a,b\n1,2\n3,4",
        "a,b\r\n1,2\r\n3,4\r\n",
        "a,b\r1,2\r3,4\r",
        "\ufeffa,b\n1,2\n3,4\n",
        "1,2\n3,4\n",
        "1,2\n3,4\n\n\n",
        "\ufeff1,2\r\n3,4\r\n\r\n",
        '"a","b"\n"1","2"\n"3","4"\n',
        '"a\nb","c, d"\n1,2\n"3",4\n',
        "a,b\n 1 , 2\n3,4.0e0\n",
        ",b,c\nr1,1,2\nr2,3,4\n",
        "x,Sample_ID,y\n1,r1,2\n3,r2,4\n",
        '"","b","c"\n"r, 1",1,2\n"r ""2""\n",3,4\n',
    ],
)
def test_tables_of_every_dialect_hold_the_same_numbers(tmp_path, text):
    np.testing.assert_array_equal(text_table(tmp_path / "a.csv", text), [[1, 2], [3, 4]])


def test_pieces_of_any_size_give_the_same_table(tmp_path, monkeypatch):
    text = (
        "id,a,b\r\n"
        + "".join(f'"r,{i}\r\n",{i},{i / 8}\r\n' if i % 3 else f"s{i},{i},{i / 8}\r\n" for i in range(40))
        + "\r\n"
    )
    expected = np.stack([np.arange(40), np.arange(40) / 8], axis=1)
    for size in [*range(1, 60), 10_000]:
        monkeypatch.setattr(tables, "PIECE_BYTES", size)
        np.testing.assert_array_equal(text_table(tmp_path / "a.csv", text), expected)
        ids = open_representation(tmp_path / "a.csv").ids
        assert ids is not None
        assert (ids[3], ids[4].replace("\n", "|")) == ("s3", "r,4")


def test_nan_and_inf_are_numbers_in_a_table(tmp_path):
    read = text_table(tmp_path / "a.csv", "a,b\nnan,inf\n-Infinity,NaN\n")
    np.testing.assert_array_equal(read, [[np.nan, np.inf], [-np.inf, np.nan]])


def test_numbers_survive_the_way_through_text_bit_for_bit(tmp_path):
    exact = np.random.default_rng(SEED).standard_normal((200, 7)) * 10.0 ** np.arange(-150, 200, 50)
    np.testing.assert_array_equal(open_representation(write(tmp_path / "a.csv", exact)).values[:], exact)


def test_the_numbered_header_pandas_writes_is_not_a_row(tmp_path):
    np.testing.assert_array_equal(text_table(tmp_path / "a.csv", "0,1,2\n5,6,7\n"), [[5, 6, 7]])
    np.testing.assert_array_equal(text_table(tmp_path / "b.csv", "0,1,3\n5,6,7\n"), [[0, 1, 3], [5, 6, 7]])
    np.testing.assert_array_equal(text_table(tmp_path / "c.csv", "0,1\n5,6\n"), [[0, 1], [5, 6]])


TABLE = "name,f_1,f_2,g,plate\nu,1,2,3,p\nv,4,5,6,q\n"


@pytest.mark.parametrize(
    ("part", "expected"),
    [("f_*", [[1, 2], [4, 5]]), ("g", [[3], [6]]), ("g,f_1", [[1, 3], [4, 6]]), ("[fg]*", [[1, 2, 3], [4, 5, 6]])],
)
def test_columns_are_chosen_by_pattern_in_the_order_of_the_file(tmp_path, part, expected):
    (tmp_path / "a.csv").write_text(TABLE)
    representation = open_representation(f"{tmp_path}/a.csv:{part}", ids="name")
    np.testing.assert_array_equal(representation.values[:], expected)
    assert representation.name == f"a:{part}"
    assert representation.ids is not None
    assert representation.ids.tolist() == ["u", "v"]


def test_a_column_that_looks_like_ids_is_a_value_only_if_named(tmp_path):
    (tmp_path / "a.csv").write_text("id,x\n7,1\n8,2\n")
    assert open_representation(tmp_path / "a.csv").ids.tolist() == [7, 8]
    np.testing.assert_array_equal(open_representation(f"{tmp_path}/a.csv:*").values[:], [[1], [2]])
    named = open_representation(f"{tmp_path}/a.csv:id,x")
    np.testing.assert_array_equal(named.values[:], [[7, 1], [8, 2]])
    assert named.ids is None


def test_columns_without_a_header_are_called_by_their_number(tmp_path):
    (tmp_path / "a.csv").write_text("1,2,30\n4,5,60\n")
    np.testing.assert_array_equal(open_representation(f"{tmp_path}/a.csv:0,2").values[:], [[1, 30], [4, 60]])
    by_ids = open_representation(tmp_path / "a.csv", ids="2")
    assert by_ids.ids is not None
    assert (by_ids.ids.tolist(), by_ids.d) == ([30, 60], 2)


# Ids


def test_ids_are_found_beside_the_values(tmp_path, values):
    names = np.array([f"cell {i} é" for i in range(N)])
    np.savez(tmp_path / "a.npz", x=values, ids=names, other=names[::-1])
    save_file({"x": values, "ids": np.arange(N)}, tmp_path / "a.safetensors")
    assert open_representation(tmp_path / "a.npz").ids.tolist() == names.tolist()
    assert open_representation(tmp_path / "a.npz", ids="other").ids.tolist() == names[::-1].tolist()
    assert open_representation(tmp_path / "a.safetensors").ids.tolist() == list(range(N))
    assert open_representation(f"{tmp_path}/a.npz:x").ids.tolist() == names.tolist()


@pytest.mark.parametrize("container", ["a.npy", "a.npz", "a.safetensors", "a.csv"])
def test_ids_come_from_a_file_beside(tmp_path, values, container):
    path = write(tmp_path / container, values)
    names = [f"s{i}" for i in range(N)]
    (tmp_path / "ids.txt").write_text("\ufeff" + "\r\n".join(names) + "\r\n\r\n")
    np.save(tmp_path / "text.npy", np.array(names))
    np.save(tmp_path / "bytes.npy", np.array(names, dtype="S"))
    np.save(tmp_path / "whole.npy", np.arange(N, dtype=">i4")[:, None])
    (tmp_path / "ids.csv").write_text("well,plate\n" + "".join(f"{s},1\n" for s in names))
    for sidecar in ("ids.txt", "text.npy", "bytes.npy", "ids.csv:well"):
        assert open_representation(path, ids=f"{tmp_path}/{sidecar}").ids.tolist() == names
    assert open_representation(path, ids=f"{tmp_path}/whole.npy").ids.tolist() == list(range(N))


def test_ids_that_are_plain_integers_become_integers_and_others_stay_text(tmp_path):
    for text, expected in [
        ("7\n-8\n", [7, -8]),
        ("007\n8\n", ["007", "8"]),
        ("7.0\n8\n", ["7.0", "8"]),
        (f"{2**70}\n1\n", [str(2**70), "1"]),
    ]:
        (tmp_path / "l.txt").write_text(text)
        assert read_labels(str(tmp_path / "l.txt")).tolist() == expected


# Labels


def test_labels_come_from_a_column_an_array_or_lines(tmp_path):
    (tmp_path / "l.csv").write_text('id,plate,dose\nu,"p, 1",1\nv,p2,2\n')
    np.savez(tmp_path / "l.npz", plate=np.array(["p", "q"]), dose=np.array([1.0, 2.0]), x=np.zeros((2, 3)))
    np.save(tmp_path / "l.npy", np.array([True, False]))
    (tmp_path / "labels").write_text("p\nq")
    save_file({"plate": np.array([4, 5], np.uint8), "x": np.zeros((2, 3))}, tmp_path / "l.safetensors")
    assert read_labels(f"{tmp_path}/l.csv:plate").tolist() == ["p, 1", "p2"]
    assert read_labels(f"{tmp_path}/l.csv:dose").tolist() == [1, 2]
    assert read_labels(f"{tmp_path}/l.csv:id").tolist() == ["u", "v"]
    assert read_labels(f"{tmp_path}/l.npz:plate").tolist() == ["p", "q"]
    assert read_labels(f"{tmp_path}/l.npz:dose").tolist() == [1, 2]
    assert read_labels(f"{tmp_path}/l.npy").tolist() == [1, 0]
    assert read_labels(f"{tmp_path}/labels").tolist() == ["p", "q"]
    assert read_labels(f"{tmp_path}/l.safetensors").tolist() == [4, 5]


def test_labels_carry_the_ids_to_join_by(tmp_path):
    (tmp_path / "l.csv").write_text("plate,sample_id\np,u\nq,v\n")
    np.savez(tmp_path / "l.npz", plate=np.array([1, 2]), ids=np.array(["u", "v"]))
    (tmp_path / "bare.csv").write_text("plate\np\nq\n")
    for spec in (f"{tmp_path}/l.csv:plate", f"{tmp_path}/l.csv", f"{tmp_path}/l.npz"):
        _, ids = read_label_table(spec)
        assert ids is not None
        assert ids.tolist() == ["u", "v"]
    labels, ids = read_label_table(f"{tmp_path}/bare.csv")
    assert (labels.tolist(), ids) == (["p", "q"], None)


# Saving


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_what_is_saved_in_blocks_is_what_comes_back(tmp_path, values, suffix):
    path = save_array(tmp_path / f"z{suffix}", Blocks(values.astype(">f4"), rows=10))
    read = open_representation(path)
    assert read.ids is None
    np.testing.assert_array_equal(read.values[:], values)
    others = {".npy": np.load, ".npz": lambda p: np.load(p)["values"], ".safetensors": lambda p: load_file(p)["values"]}
    np.testing.assert_array_equal(others[suffix](path), values)
    assert [p.name for p in tmp_path.iterdir()] == [f"z{suffix}"]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("kind", ["text", "objects", "integers", "large integers"])
def test_ids_are_saved_with_the_values(tmp_path, values, suffix, kind):
    text = [f"é{i}" * (i % 3 + 1) for i in range(N)]
    ids = {
        "text": np.array(text),
        "objects": np.array(text, dtype=object),
        "integers": np.arange(N, dtype=">i4"),
        "large integers": np.arange(N, dtype=np.uint64) + 2**63,
    }[kind]
    read = open_representation(save_array(tmp_path / f"z{suffix}", values, ids=ids))
    np.testing.assert_array_equal(read.values[:], values)
    assert read.ids is not None
    assert read.ids.tolist() == ids.tolist()


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, values):
    class Failing:
        shape, dtype = (5000, 400), np.dtype(np.float32)

        def __getitem__(self, rows: slice) -> NDArray[Any]:
            if rows.start > 0:
                raise DataError("the source broke")
            return np.zeros((rows.stop - rows.start, 400), np.float32)

    for suffix in (".npy", ".npz", ".safetensors"):
        path = tmp_path / f"z{suffix}"
        path.write_text("precious")
        with pytest.raises(DataError, match="the source broke"):
            save_array(path, Failing())
        assert path.read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 3


def test_saving_says_what_it_cannot_do(tmp_path, values):
    with pytest.raises(OutputError, match=r"z\.xyz:.*\.xyz;.*\.npy, \.npz, \.safetensors"):
        save_array(tmp_path / "z.xyz", values)
    with pytest.raises(UsageError, match=r"\.npy.*\.npz.*\.safetensors"):
        save_array(tmp_path / "z.npy", values, ids=np.arange(N))
    with pytest.raises(DataError, match=r"57 rows,.*shape"):
        save_array(tmp_path / "z.npz", values, ids=np.arange(3))
    with pytest.raises(DataError, match=r"\.safetensors.*float128"):
        save_array(tmp_path / "z.safetensors", values.astype(np.float128))
    with pytest.raises(OutputError, match="cannot write there"):
        save_array(tmp_path / "no" / "z.npy", values)
    assert not list(tmp_path.iterdir())


# What is wrong is said in one line


def npy_bytes(header: str | bytes, data: bytes = b"", version: int = 1) -> bytes:
    text = header if isinstance(header, bytes) else header.encode("latin-1")
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def array_bytes(values: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def zip_bytes(compress: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compress) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return buffer.getvalue()


def one_tensor(**changes: Any) -> dict[str, Any]:
    return {"x": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16], **changes}}


GOOD_NPY = array_bytes(np.zeros((4, 3), np.float32))
HUGE = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 1000000), }\n"
BAD_FILES: list[tuple[str, bytes, str]] = [
    ("a.npy", b"", "0 bytes"),
    ("a.csv", b"", "0 bytes"),
    ("a.xlsx", b"PK", r"\.npy, .*\.csv, .*\.safetensors, .*\.h5ad"),
    ("a", b"1,2", r"\.npy"),
    ("a.npy", b"\x01\x02\x03random", r"\.npy file"),
    ("a.npy", zip_bytes(x=GOOD_NPY), r"\.npy file"),
    ("a.npy", GOOD_NPY[:-1], r"truncated.*\(4, 3\).*float32.*48 bytes"),
    ("a.npy", GOOD_NPY[:40], r"header.*\(EOF"),
    ("a.npy", GOOD_NPY + b"\0", r"shape \(4, 3\)"),
    ("a.npy", array_bytes(np.array([[1, "a"]], dtype=object)), r"Python objects \(pickled\)"),
    ("a.npy", array_bytes(np.array([["a", "b"]])), r"\(dtype <U1\)"),
    ("a.npy", array_bytes(np.zeros((2, 2), complex)), "expected real numbers,"),
    ("a.npy", array_bytes(np.zeros(2, [("f", "<f4")])), "real numbers, got"),
    ("a.npy", array_bytes(np.float32(3)), r"2-D.*0-D.*\(\)"),
    ("a.npy", array_bytes(np.zeros(3)), r"2-D.*1-D.*\(3,\)"),
    ("a.npy", array_bytes(np.zeros((2, 2, 2))), "2-D.*3-D"),
    ("a.npy", array_bytes(np.zeros((0, 2))), r"shape \(0, 2\)"),
    ("a.npy", array_bytes(np.zeros((2, 0))), r"shape \(2, 0\)"),
    ("a.npy", npy_bytes(HUGE), r"truncated.*\(1000000000000, 1000000\)"),
    ("a.npy", npy_bytes(HUGE.replace("(10", "(-10")), r"shape \(-10"),
    ("a.npy", npy_bytes("{'descr': __import__('os').system('touch pwned')}\n"), r"\.npy header"),
    ("a.npy", npy_bytes("(" * 9000 + ")" * 900), r"\.npy header"),
    ("a.npy", npy_bytes(b"{" * 4, version=2)[:9], r"\.npy header"),
    ("a.npz", b"not a zip", "begins with b'not"),
    ("a.npz", zip_bytes(x=GOOD_NPY)[:-30], r"damaged .*\(File"),
    ("a.npz", zip_bytes(x=GOOD_NPY[:-1]), r"a\.npz:x: truncated"),
    ("a.npz", zip_bytes(x=GOOD_NPY + b"\0" * 99), r"a\.npz:x: 99 bytes"),
    ("a.npz", zip_bytes(x=npy_bytes(HUGE, b"\0" * 99)), r"a\.npz:x: truncated"),
    ("a.npz", zip_bytes(), "found 0; .*nothing"),
    (
        "a.npz",
        zip_bytes(x=GOOD_NPY, y=GOOD_NPY),
        r"found 2; .*x \(4, 3\) float32,.*y \(4, 3\) float32",
    ),
    (
        "a.npz",
        zip_bytes(x=array_bytes(np.zeros(3)), y=array_bytes(np.zeros(2))),
        r"found 0; .*x \(3,\) float64,.*y",
    ),
    ("a.npz", zip_bytes(x=array_bytes(np.array([{}]))), r"a\.npz:x: holds Python"),
    ("a.npz", zip_bytes(x=array_bytes(np.zeros(3))), "2-D array"),
    ("a.npz", zip_bytes(x=GOOD_NPY, ids=array_bytes(np.array(["a", None]))), r"a\.npz:ids: holds Python"),
    ("a.npz", zip_bytes(x=GOOD_NPY, ids=array_bytes(np.arange(3))), "4 rows.*3 ids"),
    ("a.npz", zip_bytes(x=GOOD_NPY, ids=array_bytes(np.array([1, 2, 2, 3]))), "1 sample ids"),
    ("a.npz", zip_bytes(x=GOOD_NPY, ids=array_bytes(np.array([1, 2, 2.5, 3]))), r"a\.npz:ids: expected text"),
    ("a.npz", zip_bytes(x=GOOD_NPY, ids=array_bytes(np.zeros((4, 2)))), r"a\.npz:ids: expected one"),
    ("a.npz", zip_bytes(x=GOOD_NPY, ids=array_bytes(np.array([b"\xff"] * 4))), r"a\.npz:ids: expected text,"),
    ("a.safetensors", b"tiny", "first 8 bytes"),
    ("a.safetensors", b"random bytes that are no header", "header.*truncated"),
    ("a.safetensors", safetensors_bytes(one_tensor(), bytes(16), 2**63), "9,223,372,036,854,775,808"),
    ("a.safetensors", safetensors_bytes(one_tensor(), bytes(15)), r"truncated \("),
    ("a.safetensors", safetensors_bytes(one_tensor(data_offsets=[0, 2**40]), bytes(16)), r"truncated \("),
    ("a.safetensors", safetensors_bytes(one_tensor(data_offsets=[-16, 0]), bytes(16)), r"truncated \("),
    ("a.safetensors", safetensors_bytes(one_tensor(shape=[2**62, 4]), bytes(16)), r"truncated \("),
    (
        "a.safetensors",
        safetensors_bytes(one_tensor() | {"y": one_tensor()["x"]}, bytes(16)),
        r"truncated \(",
    ),
    ("a.safetensors", safetensors_bytes(b"[" * 5000, b""), r"truncated \("),
    ("a.safetensors", safetensors_bytes({}, b""), "found 0; .*nothing"),
    ("a.safetensors", safetensors_bytes(one_tensor(shape=[4]), bytes(16)), "2-D array"),
    ("a.safetensors", safetensors_bytes(one_tensor(shape=[0, 4], data_offsets=[0, 0]), b""), "are no rows"),
    ("a.safetensors", safetensors_bytes(one_tensor(dtype="C64", shape=[1, 2]), bytes(16)), "got complex numbers"),
    ("a.csv", b"a,b\n1,2\n3\n", r"a\.csv: line 3.*1 cells"),
    ("a.csv", b"a,b\n1,2\n3,4,5\n", "line 3.*3 cells"),
    ("a.csv", b"a,b\n1,2\n3,\n", "line 3, column 'b'"),
    ("a.csv", b"a,b\n1,2\n3,x y\n", "line 3.*'b': 'x y'"),
    ("a.csv", b'a,b\n1,2\n"3",x\n', "line 3.*'b': 'x'"),
    ("a.csv", b'a,b\n1,2\n"3,5",4\n', "line 3.*'a': '3,5'"),
    ("a.csv", b"1,2\n3,1_0\n", "line 2.*2: '1_0'"),
    ("a.csv", b"a,b\n1,2\n\n3,4\n", "line 3.*blank"),
    ("a.csv", b"\na,b\n1,2\n", "line 1.*blank"),
    ("a.csv", b'a,b\n"1",2\n\n3,4\n', "line 3.*blank"),
    ("a.csv", b"\n\n\n", "text, found nothing"),
    ("a.csv", b"\xef\xbb\xbf", "text, found nothing"),
    ("a.csv", b"a,b\n", "rows of numbers,"),
    ("a.csv", b"a;b\n1;2\n", "expected cells separated"),
    ("a.tsv", b"a,b\n1,2\n", "expected cells separated"),
    ("a.csv", "a,b\n1,2\n".encode("utf-16"), "UTF-8.*UTF-16"),
    ("a.csv", b"a,b\n1,2\n3,\xff\n", "line 3: .*UTF-8.*0xff"),
    ("a.csv", b'a,b\n1,2\n3,"4\n5,6\n', "line 3: .*quotes"),
    ("a.csv", b'a,b\n1,"2"x\n', "line 2: "),
    ("a.csv", b"a,b\n1,2\0\n", "line 2"),
    ("a.csv", b"id,x\nu,1\n,2\n", "line 3, column 'id'"),
    ("a.csv", b"id,x\nu,1\nu,2\n", "1 sample ids"),
    ("a.csv", b"id,index,x\nu,1,2\n", "id, index"),
    ("a.csv", b'"a\nb",c,c\n1,2\n', "line 3.*2 cells"),
    (
        "a.npz",
        zip_bytes(**{"x\ny": GOOD_NPY, "z" * 500: GOOD_NPY}),
        r"'x\\ny' \(4, 3\).*z{80}… \(4, 3\)",
    ),
    ("a.csv", b"id\nu\n", r"only ids \(id\)"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES)
def test_a_bad_file_is_one_line_that_helps(tmp_path, monkeypatch, name, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        open_representation(name)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("a")
    assert caught.value.exit_code == 3
    assert [p.name for p in tmp_path.iterdir()] == [name]


BAD_SPECS: list[tuple[str, dict[str, Any], str]] = [
    ("", {}, "an empty name"),
    ("valeus.npz", {}, r"values\.npz or values\."),
    ("valeus.npz:x", {}, r"valeus\.npz: no such"),
    ("zzz", {}, "such file; check"),
    ("no/such/place.npy", {}, "readable directory no/such"),
    ("values.npy/a.npy", {}, r"\(Not a directory\)"),
    ("x" * 300 + ".npy", {}, r"\(File name too"),
    ("nul\0.npy", {}, "not the name"),
    ("folder", {}, "folder: expected a"),
    ("pipe.npy", {}, "file on disk,"),
    ("values.npz:", {}, "a part after"),
    ("values.npy:x", {}, r"values\.npy.*\.npy file"),
    ("values.npz:z", {}, r"x \(4, 3\) float32,.*note \(2,\) object"),
    ("values.npz:note", {}, r"values\.npz:note: holds Python"),
    ("values.safetensors:lyer", {}, r"layer \(4, 3\) float32"),
    ("values.safetensors:eight", {}, "F8_E4M3"),
    ("values.csv:f_*", {}, r"'f_\*';.*a, b"),
    ("values.csv:a,c", {}, "column matches 'c'"),
    ("bare.csv:a", {}, "called 0, 1"),
    ("values.csv", {"ids": "nope"}, r"id, a, b\)"),
    ("values.npy", {"ids": "nope"}, r"no named parts\)"),
    ("values.npy", {"ids": "five.txt"}, r"values\.npy: 4 rows.*5 ids.*five\.txt"),
    ("values.npy", {"ids": "same.txt"}, "values: 1 sample"),
    ("values.npy", {"ids": "gap.txt"}, r"gap\.txt: line 2"),
    ("values.npy", {"ids": "values.npy"}, r"1-D.*shape \(4, 3\)"),
    ("values.npy", {"rows": 0}, "a block needs"),
    ("twice.csv", {"ids": "a"}, "2 columns.*'a'"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo("pipe.npy")
    Path("values.npy").write_bytes(GOOD_NPY)
    Path("values.npz").write_bytes(zip_bytes(x=GOOD_NPY, note=array_bytes(np.array(["a", None]))))
    header = {
        "layer": {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, 48]},
        "eight": {"dtype": "F8_E4M3", "shape": [4, 3], "data_offsets": [48, 60]},
    }
    Path("values.safetensors").write_bytes(safetensors_bytes(header, bytes(60)))
    Path("values.csv").write_text("id,a,b\nu,1,2\nv,3,4\n")
    Path("bare.csv").write_text("1,2\n3,4\n")
    Path("twice.csv").write_text("a,a,b\n1,2,3\n")
    Path("five.txt").write_text("a\nb\nc\nd\ne\n")
    Path("same.txt").write_text("a\nb\nb\nc\n")
    Path("gap.txt").write_text("a\n\nb\nc\n")
    Path("notes.txt").write_bytes(b"caf\xe9\n")
    Path("blank.txt").write_text("\n")
    return tmp_path


@pytest.mark.parametrize(("spec", "options", "message"), BAD_SPECS)
def test_a_bad_request_is_one_line_that_helps(folder, spec, options, message):
    with pytest.raises(DataError, match=message) as caught:
        open_representation(spec, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("values.csv:c", "column matches 'c'"),
        ("values.csv", r"2 \(a, b\)"),
        ("values.npy", "value per row"),
        ("values.npz:y", "holds no 'y'"),
        ("values.npz:note", "holds Python objects"),
        ("same.txt:b", "colon and 'b'"),
        ("notes.txt", r"notes\.txt: line 1: .*UTF-8.*0xe9"),
        ("blank.txt", r"blank\.txt: expected text,"),
        ("folder", "folder: expected a"),
        ("nothing.txt", r"you mean notes\.txt"),
    ],
)
def test_bad_labels_are_one_line_that_helps(folder, spec, message):
    with pytest.raises(DataError, match=message):
        read_labels(spec)


def test_no_labels_is_an_error(tmp_path):
    np.save(tmp_path / "l.npy", np.zeros(0, int))
    (tmp_path / "l.csv").write_text("plate\n")
    for name in ("l.npy", "l.csv"):
        with pytest.raises(DataError, match="found none"):
            read_labels(f"{tmp_path}/{name}")


def test_a_file_that_may_not_be_read_says_so(tmp_path, values, monkeypatch):
    path = write(tmp_path / "a.npy", values)

    def refuse(*_: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(stored_rows.os, "open", refuse)  # chmod would not stop root
    with pytest.raises(DataError, match=r"a\.npy:.*\(Permission denied\)"):
        open_representation(path)


def test_a_disk_error_while_reading_says_so(tmp_path, values, monkeypatch):
    rows = open_representation(write(tmp_path / "a.npy", values)).values

    def fail(*_: Any) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(stored_rows, "_read_at", fail)
    with pytest.raises(DataError, match=r"a\.npy:.*\(Input/output error\)"):
        rows[:]


def test_a_member_too_large_to_unpack_is_refused_before_it_is(tmp_path, values, monkeypatch):
    path = write(tmp_path / "a.npz", values, "compressed")
    usage = type("usage", (), {"free": 100})
    monkeypatch.setattr("identifiable.io.stored_rows.shutil.disk_usage", lambda _: usage)
    with pytest.raises(DataError, match=naming("a.npz:x", 1268, 100, "TMPDIR")):
        open_representation(path)
    usage.free = 2000
    np.testing.assert_array_equal(open_representation(path).values[:], values)


def test_a_full_disk_while_unpacking_says_where(tmp_path, values, monkeypatch):
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stored_rows.tempfile, "TemporaryFile", full)
    for name, form in (("a.npz", "compressed"), ("a.csv", "")):
        with pytest.raises(DataError, match=r" \(No.*device\);.*TMPDIR"):
            open_representation(write(tmp_path / name, values, form))


def test_an_encrypted_or_exotic_member_is_an_error(tmp_path):
    content = bytearray(zip_bytes(x=GOOD_NPY))
    for method, match in ((None, "encrypted"), (99, "compression")):
        changed = bytearray(content)
        for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            at = changed.index(signature) + offset
            if method is None:
                changed[at] |= 1
            else:
                changed[at + 2] = method
        (tmp_path / "a.npz").write_bytes(changed)
        with pytest.raises(DataError, match=naming("a.npz", "damaged", match)):
            open_representation(tmp_path / "a.npz")


def test_a_line_without_end_is_refused_before_memory_fills(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "PIECE_BYTES", 100)
    monkeypatch.setattr(tables, "MAX_RECORD_BYTES", 1000)
    (tmp_path / "a.csv").write_text('a,b\n1,"' + "2\n" * 5000)
    with pytest.raises(DataError, match="bytes without"):
        open_representation(tmp_path / "a.csv")


# Nothing else escapes: damage of every kind is a DataError or does not matter


def test_ids_of_another_array_of_the_file_are_not_taken(tmp_path):
    np.savez(tmp_path / "m.npz", rows=np.ones((6, 3)), head=np.ones((4, 3)), ids=np.arange(6))
    assert open_representation(f"{tmp_path}/m.npz:head").ids is None
    assert len(open_representation(f"{tmp_path}/m.npz:rows").ids) == 6
    np.savez(tmp_path / "wrong.npz", head=np.ones((4, 3)), ids=np.arange(6))
    with pytest.raises(DataError, match="4 rows but 6 ids"):
        open_representation(f"{tmp_path}/wrong.npz:head")


# -- columns in another order

NAMES = ["aa", "bb", "cc", "dd", "ee"]
ORDER = [3, 0, 4, 2, 1]


def written(path, values, order=None):
    """A table with named columns, in another order if one is given."""
    order = [*range(values.shape[1])] if order is None else order
    lines = [",".join(NAMES[j] for j in order)] + [",".join(map(repr, row[order].tolist())) for row in values]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def test_all_columns_of_a_text_are_read_in_the_order_of_the_features(tmp_path):
    values = np.random.default_rng(0).standard_normal((20, 5))
    written(tmp_path / "a.csv", values, ORDER)
    found = open_screen(tmp_path / "a.csv", features=NAMES).representation
    np.testing.assert_array_equal(found.values[:], values[:, [NAMES.index(name) for name in found.columns]])
    np.testing.assert_array_equal(TextTable(tmp_path / "a.csv").rows(NAMES)[0:20], values)
    np.testing.assert_array_equal(TextTable(tmp_path / "a.csv").rows(NAMES[:2])[0:20], values[:, :2])


def shard_written(path, values, names, at):
    """A table in a file of any format that names columns; rows are called by their number."""
    if path.suffix in (".csv", ".tsv") or path.suffix == ".gz":
        pd = pytest.importorskip("pandas")
        pd.DataFrame(values, columns=names).to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    elif path.suffix in (".parquet", ".feather"):
        pytest.importorskip("pyarrow")
        pd = pytest.importorskip("pandas")
        getattr(pd.DataFrame(values, columns=names), f"to_{path.suffix[1:]}")(path)
    else:
        ad, pd = pytest.importorskip("anndata"), pytest.importorskip("pandas")
        if path.suffix == ".zarr":
            pytest.importorskip("zarr")
        frame = pd.DataFrame(values, [f"r{at + i}" for i in range(len(values))], names)
        getattr(ad.AnnData(frame), f"write_{path.suffix[1:]}")(path)


@pytest.mark.filterwarnings("ignore")  # of anndata about zarr
@pytest.mark.parametrize("form", ["csv", "tsv", "csv.gz", "parquet", "feather", "h5ad", "zarr"])
def test_shards_with_columns_in_another_order_are_those_of_one_table(tmp_path, form):
    values = np.random.default_rng(0).gamma([0.5, 1, 2, 4, 3], size=(600, 5))
    names = list(NAMES)
    (tmp_path / "set").mkdir()
    for k, order in enumerate(([0, 1, 2, 3, 4], ORDER, ORDER[::-1])):
        third = values[200 * k : 200 * (k + 1), order]
        shard_written(tmp_path / "set" / f"s-{k}.{form}", third, [names[j] for j in order], 200 * k)
    basis = resolve(values_of(values), stability=0, restarts=1)
    many = [
        f"{tmp_path}/set/s-*.{form}",
        *([] if form == "zarr" else [str(tmp_path / "set")]),
    ]  # a store is a folder itself
    for source in many:
        found = open_representation(source)
        assert found.columns == tuple(names)
        np.testing.assert_array_equal(found.values[:], values)
        np.testing.assert_array_equal(found.values.source[np.array([450, 3, 201])], values[[450, 3, 201]])
        np.testing.assert_array_equal(transform(basis, source), transform(basis, values_of(values)))
        again = resolve(source, stability=0, restarts=1)
        np.testing.assert_array_equal(again.to_components.matrix, basis.to_components.matrix)
        assert again.columns == basis.columns
    shard_written(tmp_path / "set" / f"s-3.{form}", values[:200], [*names[:-1], "odd"], 900)
    for source in many:
        with pytest.raises(DataError, match=naming(f"s-3.{form}", f"s-0.{form}")):
            resolve(source, stability=0)


@pytest.mark.filterwarnings("ignore")  # of anndata about names that repeat
def test_shards_whose_names_do_not_tell_columns_apart_are_not_reordered(tmp_path):
    for k, names in enumerate((["a", "a", "b"], ["a", "b", "a"])):
        shard_written(tmp_path / f"{k}.h5ad", np.ones((2, 3)), names, 10 * k)
    with pytest.raises(DataError, match=naming("1.h5ad", "0.h5ad")):
        open_representation(f"{tmp_path}/*.h5ad")
    (tmp_path / "0.csv").write_text("a,b,c\n1,2,3\n")
    (tmp_path / "1.csv").write_text("1,2,3\n")  # no names at all
    with pytest.raises(DataError, match=naming("1.csv", "0.csv")):
        open_representation(f"{tmp_path}/*.csv")


def values_of(values):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(values, columns=NAMES)


@pytest.mark.parametrize(
    ("header", "second", "counts"),
    [("0,1,2", "0.5,1,2", True), ("2,0,1", "0.5,1,2", True), ("2,0,1", "1,0,2", False), ("2,0,3", "0.5,1,2", False)],
)
def test_numbers_that_count_the_columns_are_a_header(tmp_path, header, second, counts):
    (tmp_path / "a.csv").write_text(f"{header}\n{second}\n{second}\n")
    found = open_representation(tmp_path / "a.csv")
    assert (found.n, found.columns) == ((2, tuple(header.split(","))) if counts else (3, None))


def test_members_that_are_no_tables_are_not_offered(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones((4, 3, 2)), y=np.ones(4))
    with pytest.raises(DataError, match="found 0") as caught:
        open_representation(tmp_path / "a.npz")
    assert "a.npz:x" not in str(caught.value)
    assert "reshape" in str(caught.value)
    np.savez(tmp_path / "b.npz", x=np.ones((4, 3)), y=np.ones((4, 2)))
    with pytest.raises(DataError, match=r"found 2.*b\.npz:x"):
        open_representation(tmp_path / "b.npz")
