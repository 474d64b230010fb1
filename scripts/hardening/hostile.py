"""Files and names made to do harm: bombs, absurd headers, pickles, paths that lead out, links, markup and escapes in names.

Nothing runs, nothing outside is read or written, no attempt takes more than 5 s and 500 MB, and a page or a line on a terminal shows
a name as text.
"""

from __future__ import annotations

import gzip
import html
import io
import json
import os
import pickle
import re
import shutil
import struct
import subprocess
import unicodedata
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hardening import readers
from hardening.attempts import Attempt, attempted
from hardening.checks import Check, Setting

PART = "hostile"
CANARY = "canary"  # a file that a payload would make
SECRET = 666.25  # a number in a file that nobody named
LARGE = 2**30  # bytes that a bomb becomes
RECORD = 60_000_000  # bytes of a file that is large, and below the 100 MB of the promise


@dataclass(frozen=True)
class Case:
    """A file to be opened: how it is made in an empty folder, and how it is read there."""

    name: str
    make: Callable[[Path], Any]
    read: Callable[[Path], Any]


def checks(setting: Setting) -> Iterator[Check]:
    yield tried("archive bombs", bombs(), setting)
    yield tried("absurd headers", absurd(), setting)
    yield tried("pickles", pickles(), setting)
    yield tried("paths that lead out", paths(), setting)
    yield tried("links", links(), setting)
    yield terminal(setting)
    yield commands(setting)
    yield pages(setting)


def tried(name: str, cases: Sequence[Case], setting: Setting) -> Check:
    def prepare(index: int) -> Attempt:
        case = cases[index]
        folder = setting.folder / name.replace(" ", "-") / str(index)
        folder.mkdir(parents=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case.make(folder)
        return Attempt(case.name, lambda: case.read(folder), lambda found: harm(found, folder))

    return attempted(Check(PART, name), prepare, len(cases), setting.folder / name.replace(" ", "-"))


def harm(found: Any, folder: Path) -> str | None:
    """What a file did: made the canary, or brought a number from elsewhere."""
    if (folder / CANARY).exists():
        return "the payload ran"
    held = found.values() if isinstance(found, dict) else [found]
    if any(isinstance(each, np.ndarray) and each.dtype.kind == "f" and (each == SECRET).any() for each in held):
        return "read a file that nobody named"
    return found if isinstance(found, str) else None


def first_rows(name: str) -> Callable[[Path], Any]:
    """Open a table and look at its ids and its first rows; what it declares may not fit in memory, and that is fine."""

    def read(folder: Path) -> Any:
        from identifiable.io import open_representation

        found = open_representation(folder / name)
        return {"values": found.values[:2]}

    return read


def all_rows(name: str) -> Callable[[Path], Any]:
    return lambda folder: readers.table(folder / name)


def by(read: Callable[[Path], Any], name: str = "") -> Callable[[Path], Any]:
    return lambda folder: read(folder / name)


def written(name: str, make: Callable[[], bytes]) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes(make())


# -- bombs


def zeros(size: int, method: int = zipfile.ZIP_DEFLATED, name: str = "x.npy", head: bytes = b"") -> bytes:
    """A zip archive whose only member is `head` and zeros."""
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(stream, "w", method, compresslevel=1) as archive,
        archive.open(name, "w", force_zip64=True) as member,
    ):
        member.write(head)
        for _ in range(size // 2**20):
            member.write(bytes(2**20))
    return stream.getvalue()


def npy_header(shape: str, descr: str = "<f4") -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def empty_npy(shape: str, descr: str = "<f4") -> bytes:
    return npy_header(shape, descr) + bytes(48)


def headed(content: bytes, length: int) -> bytes:
    """As a `.safetensors` begins: the length of its header, and then the header."""
    return length.to_bytes(8, "little") + content


def understated(content: bytes, size: int) -> bytes:
    """The archive with another size of its member in the directory at its end."""
    at = content.rindex(b"PK\x01\x02") + 24
    return content[:at] + struct.pack("<I", size) + content[at + 4 :]


def packed_gzip(size: int, piece: bytes) -> bytes:
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, compresslevel=1) as file:
        for _ in range(size // len(piece)):
            file.write(piece)
    return stream.getvalue()


def parquet_bomb(folder: Path) -> None:
    """Long words that repeat: 300 MB in some kilobytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    words = pa.array(["x" * (LARGE // 16)] * 5)
    table = pa.table({"id": words, "feature_0": [1.0] * 5})
    pq.write_table(table, folder / "a.parquet", compression="zstd", use_dictionary=False)


def parquet_rows(folder: Path) -> None:
    """Two hundred million equal rows in some kilobytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    block = pa.table({"feature_0": pa.array(np.zeros(2**24, np.float32))})
    with pq.ParquetWriter(folder / "a.parquet", block.schema, compression="zstd") as writer:
        for _ in range(12):
            writer.write_table(block, row_group_size=2**24)


def arrow_bomb(folder: Path) -> None:
    """A packed buffer that says that it unpacks to a terabyte."""
    import pyarrow as pa

    stream = io.BytesIO()
    table = pa.table({"feature_0": pa.array(np.zeros(100_000))})
    with pa.ipc.new_file(stream, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    content = stream.getvalue()
    said = struct.pack("<q", 800_000)
    if said not in content:
        raise AssertionError("the length of the buffer is not where it was")
    (folder / "a.arrow").write_bytes(content.replace(said, struct.pack("<q", 2**40)))


def hdf5_declared(ids: bool, suffix: str) -> Callable[[Path], None]:
    """A billion rows, or ids, that are declared and never written: a file of some kilobytes."""

    def make(folder: Path) -> None:
        import h5py

        with h5py.File(folder / f"a.{suffix}", "w") as file:
            rows = 4 if ids else 10**9
            file.create_dataset("X" if suffix == "h5ad" else "values", (rows, 3), "f4", chunks=(4 if ids else 2**20, 3))
            many = file.create_dataset(
                "ids" if suffix == "h5" else "obs/_index", (10**9 if ids else 4,), "S4", chunks=(2**20 if ids else 4,)
            )
            many.attrs["encoding-type"] = "string-array"
            if suffix == "h5ad":
                file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
                file["obs"].attrs.update({"encoding-type": "dataframe", "_index": "_index", "column-order": []})
                file["X"].attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})

    return make


def hdf5_chunk(folder: Path) -> None:
    """One chunk of zeros that unpacks to 512 MB."""
    import h5py

    with h5py.File(folder / "a.h5", "w") as file:
        values = file.create_dataset(
            "values", (2**25, 4), "f4", chunks=(2**25, 4), compression="gzip", compression_opts=1
        )
        packer = zlib.compressobj(1)
        raw = b"".join(packer.compress(bytes(2**20)) for _ in range(512)) + packer.flush()
        values.id.write_direct_chunk((0, 0), raw)


def zarr_bomb(codec: str) -> Callable[[Path], None]:
    """A chunk that unpacks to far more than the array declares."""

    def make(folder: Path) -> None:
        root = folder / "a.zarr"
        root.mkdir()
        compressor = {"id": codec, **({"cname": "lz4", "clevel": 5, "shuffle": 1} if codec == "blosc" else {})}
        card = {
            "zarr_format": 2,
            "shape": [4, 3],
            "chunks": [4, 3],
            "dtype": "<f4",
            "compressor": compressor,
            "fill_value": 0,
            "order": "C",
            "filters": None,
        }
        (root / ".zarray").write_text(json.dumps(card))
        packer = zlib.compressobj(wbits=31 if codec == "gzip" else 15)
        raw = b"".join(packer.compress(bytes(2**20)) for _ in range(1024)) + packer.flush()
        if codec == "blosc":  # a header: version, flags, item size, bytes it unpacks to, block size, bytes it has
            raw = struct.pack("<BBBBIII", 2, 1, 0, 4, 2**31 - 17, 2**20, 48) + bytes(32)
        (root / "0.0").write_bytes(raw)

    return make


def torch_bomb(operations: bytes) -> Callable[[Path], Any]:
    def make() -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a/data.pkl", b"\x80\x02" + operations + b".")
        return stream.getvalue()

    return written("a.pt", make)


def many_members() -> bytes:
    stream = io.BytesIO()
    array = readers.saved(np.save, np.zeros((1, 1), np.float32))
    with zipfile.ZipFile(stream, "w") as archive:
        for k in range(60_000):
            archive.writestr(f"{k}.npy", array)
    return stream.getvalue()


def many_tensors() -> bytes:
    entry = '"%d":{"dtype":"F32","shape":[0,1],"data_offsets":[0,0]}'
    header = ("{" + ",".join(entry % k for k in range(RECORD // 58)) + "}").encode()
    return len(header).to_bytes(8, "little") + header


def bombs() -> list[Case]:
    table = all_rows
    return [
        Case("npz, zeros", written("a.npz", lambda: zeros(LARGE, head=npy_header(f"({LARGE // 12}, 3)") + bytes(4))), first_rows("a.npz")),
        Case("npz, more than declared", written("a.npz", lambda: zeros(LARGE, head=npy_header("(4, 3)"))), table("a.npz")),
        Case("npz, bz2", written("a.npz", lambda: zeros(LARGE // 4, zipfile.ZIP_BZIP2, head=npy_header("(4, 3)"))), table("a.npz")),
        Case("npz, size understated", written("a.npz", lambda: understated(zeros(LARGE, head=npy_header("(4, 3)")), 128)), table("a.npz")),
        Case("npz, 60,000 members", written("a.npz", many_members), table("a.npz")),
        Case("csv.gz, one cell", written("a.csv.gz", lambda: packed_gzip(LARGE, b"1" * 2**20)), table("a.csv.gz")),
        Case("csv.gz, an open quote", written("a.csv.gz", lambda: packed_gzip(LARGE, b'"a,' + b"1,2\n" * 2**18)), table("a.csv.gz")),
        Case("csv, an open quote in 60 MB", written("a.csv", lambda: b'a,b\n"1,2\n' + b"3,4\n" * (RECORD // 4)), table("a.csv")),
        Case("csv, 60 MB of quotes", written("a.csv", lambda: b"a,b\n" + b'"' * RECORD), table("a.csv")),
        Case("csv, 60 MB of commas", written("a.csv", lambda: b"a,b\n" + b"," * RECORD), table("a.csv")),
        Case("labels, 60 MB in one line", written("a.txt", lambda: b"x" * RECORD), by(readers.labels, "a.txt")),
        Case("labels, 60 MB of ends of lines", written("a.txt", lambda: b"\n" * RECORD), by(readers.labels, "a.txt")),
        Case("parquet, long words", parquet_bomb, table("a.parquet")),
        Case("parquet, two hundred million rows", parquet_rows, first_rows("a.parquet")),
        Case("arrow, a buffer of a terabyte", arrow_bomb, table("a.arrow")),
        Case("h5, a billion rows", hdf5_declared(False, "h5"), first_rows("a.h5")),
        Case("h5, a billion ids", hdf5_declared(True, "h5"), first_rows("a.h5")),
        Case("h5, a billion labels", hdf5_declared(True, "h5"), lambda folder: readers.labels(Path(f"{folder}/a.h5:ids"))),
        Case("h5ad, a billion rows", hdf5_declared(False, "h5ad"), first_rows("a.h5ad")),
        Case("h5ad, a billion names", hdf5_declared(True, "h5ad"), first_rows("a.h5ad")),
        Case("h5, a chunk of 512 MB", hdf5_chunk, first_rows("a.h5")),
        *(Case(f"zarr, {codec}", zarr_bomb(codec), table("a.zarr")) for codec in ("zlib", "gzip", "blosc")),
        Case("pt, 100 million instructions", torch_bomb(b"N" * 100_000_000), table("a.pt")),
        Case("pt, lists in lists", torch_bomb(b"]" * 300_000 + b"a" * 299_999), table("a.pt")),
        Case("pt, a text of 200 MB", torch_bomb(b"X" + struct.pack("<I", 2 * 10**8) + b"x" * 2 * 10**8), table("a.pt")),
        Case("pt, tuples of tuples", torch_bomb(b"N" + b"".join(b"q\x01h\x01h\x01\x87" for _ in range(200))), table("a.pt")),
        Case("safetensors, a million tensors", written("a.safetensors", many_tensors), table("a.safetensors")),
        Case("result, a list of 60 MB", written("a.json", long_result), result),
        Case("result, lists in lists", written("a.json", lambda: b"[" * RECORD), result),
    ]  # fmt: skip


def long_result() -> bytes:
    return b'{"schema": "identifiable/compare/1", "inputs": [' + b"1," * (RECORD // 2) + b"1]}"


def result(folder: Path) -> None:
    readers.read_result(folder / "a.json", drawn=True)


# -- headers that no file can live up to


def absurd() -> list[Case]:
    shapes = (
        "(2**62, 3)",
        "(4611686018427387904, 4)",
        "(1000000000000, 3)",
        "(4, 1000000000000)",
        "(3,) * 99",
        "(0, 9223372036854775807)",
    )
    found = [Case(f"npy, {shape}", written("a.npy", partial(empty_npy, shape)), all_rows("a.npy")) for shape in shapes]
    for descr in ("<U999999999", "|S4294967295", "|V2147483647", "<f4" * 3000):
        found.append(
            Case(
                f"npy, {descr[:20]}",
                written("a.npy", partial(empty_npy, "(1,)", descr)),
                by(readers.labels, "a.npy"),
            )
        )
    for length in (2**63, 2**64 - 1, 10**8, 99_999_999):
        found.append(
            Case(
                f"safetensors, {length}",
                written("a.safetensors", partial(headed, b"{}", length)),
                all_rows("a.safetensors"),
            )
        )
    tensors = {
        "shape": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 8]},
        "offsets": {"dtype": "F32", "shape": [1, 2], "data_offsets": [2**63, 2**63 + 8]},
        "empty": {"dtype": "F32", "shape": [0, 2**40], "data_offsets": [0, 0]},
        "dimensions": {"dtype": "F32", "shape": [1] * 100_000, "data_offsets": [0, 4]},
    }
    for name, entry in tensors.items():
        head = json.dumps({"x": entry}).encode()
        found.append(
            Case(
                f"safetensors, {name}",
                written("a.safetensors", partial(headed, head + bytes(8), len(head))),
                all_rows("a.safetensors"),
            )
        )
    changes: dict[str, dict[str, Any]] = {
        "shape": {"shape": [10**12, 3]}, "chunks": {"chunks": [1, 1], "shape": [10**9, 10**9]}, "no chunks": {"chunks": [0, 0]},
        "one chunk": {"chunks": [2**31, 2**31]}, "type": {"dtype": "<U1000000000"}, "wide": {"shape": [4, 10**12], "chunks": [4, 10**12]},
    }  # fmt: skip
    for name, change in changes.items():
        found.append(Case(f"zarr, {name}", partial(zarr_card, change=change), first_rows("a.zarr")))
        found.append(
            Case(
                f"zarr, ids, {name}",
                partial(zarr_card, change=change),
                lambda folder: readers.labels(folder / "a.zarr"),
            )
        )
    return found


def zarr_card(folder: Path, change: Mapping[str, Any]) -> None:
    root = folder / "a.zarr"
    root.mkdir()
    card = {
        "zarr_format": 2,
        "shape": [4, 3],
        "chunks": [4, 3],
        "dtype": "<f4",
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": None,
    }
    (root / ".zarray").write_text(json.dumps(card | dict(change)))
    (root / "0.0").write_bytes(bytes(48))


# -- pickles


class Payload:
    """Unpickling it makes the canary."""

    def __init__(self, folder: Path):
        self.made = str(folder / CANARY)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.made,)


def objects(folder: Path) -> Any:
    found = np.empty((4, 3), object)
    found[:] = Payload(folder)
    return found


def pickled_torch(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.pt", "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps({"x": Payload(folder)}, protocol=2))


def pickled_program(folder: Path) -> None:
    content = readers.programs(folder)[0]["net.pt2"]
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(stream, "w") as target:
        for member in source.infolist():
            inputs = "input" in member.filename or member.filename.endswith(".pt")
            target.writestr(member.filename, pickle.dumps(Payload(folder)) if inputs else source.read(member))
    (folder / "net.pt2").write_bytes(stream.getvalue())


def pickled_hdf5(folder: Path) -> None:
    """As PyTables keeps objects: bytes in an array, and in attributes; in `uns` and as ids."""
    import h5py

    raw = np.void(pickle.dumps(Payload(folder)))
    made = readers.anndata_of(False)
    made.write_h5ad(folder / "a.h5ad")
    with h5py.File(folder / "a.h5ad", "r+") as file:
        file["uns"].create_dataset("object", data=raw)
        file["uns"].attrs["object"] = raw
        file["obs"].attrs["pandas_type"] = raw
        file["X"].attrs["CLASS"] = raw
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("values", data=readers.VALUES)
        file.create_dataset("ids", data=np.array([raw] * 4))


def pickled_parquet(folder: Path) -> None:
    """In the metadata of pandas, as an extension type of pyarrow (CVE-2023-47248), and as a column of bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    raw = pickle.dumps(Payload(folder))
    field = pa.field(
        "feature_0",
        pa.float64(),
        metadata={"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": raw},
    )
    table = pa.table(
        [pa.array([1.0] * 4), pa.array([raw] * 4)],
        schema=pa.schema([field, pa.field("id", pa.binary())], metadata={"pandas": raw}),
    )
    pq.write_table(table, folder / "a.parquet")
    with pa.ipc.new_file(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table)


def pickled_zarr(folder: Path) -> None:
    raw = pickle.dumps([Payload(folder)] * 12)
    changes: dict[str, dict[str, Any]] = {
        "filter": {"dtype": "|O", "filters": [{"id": "pickle"}]},
        "compressor": {"compressor": {"id": "pickle"}},
        "both": {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "compressor": {"id": "pickle"}},
    }
    for name, change in changes.items():
        (folder / name).mkdir()
        zarr_card(folder / name, change)
        (folder / name / "a.zarr" / "0.0").write_bytes(raw)
    third = folder / "v3" / "a.zarr"
    third.mkdir(parents=True)
    card = {
        "zarr_format": 3, "node_type": "array", "shape": [4, 3], "data_type": "float32", "fill_value": 0, "attributes": {},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "numcodecs.pickle", "configuration": {}}],
    }  # fmt: skip
    (third / "zarr.json").write_text(json.dumps(card))
    (third / "c" / "0").mkdir(parents=True)
    (third / "c" / "0" / "0").write_bytes(raw)


def pickled_checkpoint(folder: Path) -> None:
    kept = folder / "kept"
    kept.mkdir()
    (kept / "checkpoint.json").write_text(json.dumps({"schema": "identifiable/checkpoint/1", "fingerprint": "f" * 32}))
    np.savez(kept / "pass 1.npz", W=objects(folder))


def pickles() -> list[Case]:
    found = []
    doors = {
        "table": readers.table,
        "labels": readers.labels,
        "screen": readers.screen,
        "factors": readers.factors,
        "inputs": readers.inputs,
    }
    for door, read in doors.items():
        found += [
            Case(f"npy, {door}", lambda folder: np.save(folder / "a.npy", objects(folder)), by(read, "a.npy")),
            Case(f"npz, {door}", lambda folder: np.savez(folder / "a.npz", x=objects(folder)), by(read, "a.npz")),
            Case(f"pt, {door}", pickled_torch, by(read, "a.pt")),
            Case(
                f"pt of torch before 1.6, {door}",
                lambda folder: (folder / "a.pt").write_bytes(pickle.dumps(Payload(folder))),
                by(read, "a.pt"),
            ),
        ]
    for name in ("a.h5ad", "a.h5"):
        found += [
            Case(f"{name}, {door}", pickled_hdf5, by(doors[door], name)) for door in ("table", "screen", "labels")
        ]
    for name in ("a.parquet", "a.arrow"):
        found += [
            Case(f"{name}, {door}", pickled_parquet, by(doors[door], name))
            for door in ("table", "screen", "labels", "factors")
        ]
    found += [
        Case(f"zarr, {name}", pickled_zarr, by(readers.table, f"{name}/a.zarr"))
        for name in ("filter", "compressor", "both", "v3")
    ]
    found += [
        Case(f"zarr, {name}, labels", pickled_zarr, by(readers.labels, f"{name}/a.zarr"))
        for name in ("filter", "compressor", "both", "v3")
    ]
    found += [
        Case("Jacobians", lambda folder: np.save(folder / "j.npy", objects(folder)), by(readers.jacobians, "j.npy")),
        Case("checkpoint", pickled_checkpoint, by(readers.kept, "kept")),
        Case("safetensors metadata", pickled_safetensors, by(readers.table, "a.safetensors")),
        Case("safetensors metadata, layers", pickled_safetensors, by(readers.model_layers, "a.safetensors")),
        Case("safetensors metadata, basis", pickled_safetensors, by(readers.basis, "a.safetensors")),
        Case("model folder", pickled_model, by(readers.head, "")),
        Case("pt2", pickled_program, by(readers.program, "net.pt2")),
    ]
    return found


def pickled_safetensors(folder: Path) -> None:
    from safetensors.numpy import save_file

    raw = pickle.dumps(Payload(folder), 0).decode("latin1")
    save_file({"x": readers.VALUES}, folder / "a.safetensors", {"layers": raw, "schema": raw, "pickle": raw})


def pickled_model(folder: Path) -> None:
    (folder / "config.json").write_text(
        json.dumps({"architectures": ["BertForSequenceClassification"], "auto_map": {"AutoModel": "evil.Model"}})
    )
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"classifier.weight": Payload(folder)}, 2))
    (folder / "evil.py").write_text(f"import os; os.mkdir({str(folder / CANARY)!r})")


# -- paths and links


def secret(folder: Path) -> Path:
    """A file beside the one that is read, which nothing in that may lead to."""
    place = folder / "secret"
    place.mkdir()
    values = np.full((4, 3), SECRET, np.float32)
    np.save(place / "s.npy", values)
    from safetensors.numpy import save_file

    save_file({"classifier.weight": values, "x": values}, place / "s.safetensors")
    import pyarrow as pa
    import zarr

    table = pa.table({f"feature_{j}": values[:, j] for j in range(3)})
    with pa.ipc.new_stream(place / "s.arrow", table.schema) as writer:
        writer.write_table(table)
    zarr.create_array(str(place / "s.zarr"), data=values, zarr_format=2)
    import h5py

    with h5py.File(place / "s.h5", "w") as file:
        file.create_dataset("values", data=values)
    return place


def leads_out_npz(folder: Path) -> None:
    secret(folder)
    raw = readers.saved(np.save, readers.VALUES)
    (folder / "in").mkdir()
    with zipfile.ZipFile(folder / "in" / "a.npz", "w") as archive:
        for name in ("../../written.npy", "/tmp/hardening-written.npy", "..\\..\\written.npy", "../secret/s.npy"):
            archive.writestr(name, raw)


def read_every_part(folder: Path) -> Any:
    """Every array of that archive; none may leave a file behind."""
    from identifiable import IdentifiableError
    from identifiable.io import open_representation

    found = {}
    for part in ("../../written", "/tmp/hardening-written", "..\\..\\written", "../secret/s"):
        with suppress(IdentifiableError):
            found[part] = open_representation(f"{folder}/in/a.npz:{part}").values[:]
    left = [
        p
        for p in (folder.parent / "written.npy", folder / "written.npy", Path("/tmp/hardening-written.npy"))
        if p.exists()
    ]
    return f"wrote {left}" if left else found


def leads_out_datasets(folder: Path) -> None:
    secret(folder)
    (folder / "in").mkdir()
    (folder / "in" / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": "../secret/s.arrow"}], "_split": None})
    )


def leads_out_splits(folder: Path) -> None:
    leads_out_datasets(folder)
    (folder / "in" / "state.json").rename(folder / "state.json")
    (folder / "in" / "dataset_dict.json").write_text(json.dumps({"splits": ["..", "../secret"]}))


def leads_out_model(folder: Path) -> None:
    secret(folder)
    (folder / "in").mkdir()
    (folder / "in" / "config.json").write_text(json.dumps({"architectures": ["BertForSequenceClassification"]}))
    index = {"weight_map": {"classifier.weight": "../secret/s.safetensors"}}
    (folder / "in" / "model.safetensors.index.json").write_text(json.dumps(index))


def leads_out_hdf5(kind: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        import h5py

        target = str(secret(folder) / "s.h5")
        with h5py.File(folder / "a.h5", "w") as file:
            if kind == "external link":
                file["values"] = h5py.ExternalLink(target, "/values")
            elif kind == "virtual":
                layout = h5py.VirtualLayout((4, 3), "f4")
                layout[...] = h5py.VirtualSource(target, "values", (4, 3))
                file.create_virtual_dataset("values", layout)
            else:
                file.create_dataset("values", (4, 3), "f4", external=[(str(folder / "secret" / "s.npy"), 128, 48)])

    return make


def leads_out_zarr(kind: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        target = secret(folder)
        zarr_card(folder, {})
        root = folder / "a.zarr"
        if kind == "a link to a chunk":
            (root / "0.0").unlink()
            (root / "0.0").symlink_to(target / "s.zarr" / "0.0")
        elif kind == "a link to an array":
            shutil.rmtree(root)
            root.mkdir()
            (root / ".zgroup").write_text('{"zarr_format": 2}')
            (root / "values").symlink_to(target / "s.zarr")
        else:
            card = json.loads((root / ".zarray").read_text())
            (root / ".zarray").write_text(json.dumps(card | {"dimension_separator": "/../../secret/s.zarr/"}))

    return make


def paths() -> list[Case]:
    return [
        Case("npz members", leads_out_npz, read_every_part),
        Case("datasets", leads_out_datasets, by(readers.table, "in")),
        Case("datasets, splits", leads_out_splits, by(readers.table, "in")),
        Case("weights of a model", leads_out_model, by(readers.head, "in")),
        *(
            Case(f"h5, {kind}", leads_out_hdf5(kind), all_rows("a.h5"))
            for kind in ("external link", "virtual", "external")
        ),
        *(
            Case(f"zarr, {k}", leads_out_zarr(k), all_rows("a.zarr"))
            for k in ("a link to a chunk", "a link to an array", "keys")
        ),
    ]


def victim(folder: Path) -> Path:
    found = folder / "victim"
    found.write_text("as it was")
    return found


def unharmed(folder: Path) -> str | None:
    held = folder / "victim"
    if not held.exists() or held.read_bytes() != b"as it was":
        return "wrote through a link"
    return None


def linked_growing(folder: Path) -> None:
    (folder / "out.safetensors.unfinished").symlink_to(victim(folder))


def grow(folder: Path) -> Any:
    from identifiable import IdentifiableError
    from identifiable.io.growing import GrowingFile

    with suppress(IdentifiableError), GrowingFile(folder / "out.safetensors", {"a": 2}, np.arange(3), {}):
        pass
    return unharmed(folder)


def linked_checkpoint(folder: Path) -> None:
    kept = folder / "kept"
    kept.mkdir()
    (kept / "checkpoint.json").write_text(json.dumps({"schema": "identifiable/checkpoint/1", "fingerprint": "f" * 32}))
    (kept / "pass 1.npz").symlink_to(victim(folder))


def keep(folder: Path) -> Any:
    from identifiable.results.kept import KeptArrays

    kept = KeptArrays(folder / "kept", "f" * 32)
    found = kept.get("pass 1")
    kept.put("pass 1", {"W": readers.VALUES})
    again = kept.get("pass 1")
    if found is not None or again is None or not np.array_equal(again["W"], readers.VALUES):
        return "a checkpoint behind a link is taken, or cannot be replaced"
    return unharmed(folder)


def linked_card(folder: Path) -> None:
    kept = folder / "kept"
    kept.mkdir()
    (kept / "checkpoint.json").symlink_to(victim(folder))


def keep_card(folder: Path) -> Any:
    from identifiable import IdentifiableError
    from identifiable.results.kept import KeptArrays

    with suppress(IdentifiableError):
        KeptArrays(folder / "kept", "f" * 32)
    return unharmed(folder)


def linked_loop(folder: Path) -> None:
    (folder / "a.npy").symlink_to(folder / "b.npy")
    (folder / "b.npy").symlink_to(folder / "a.npy")
    (folder / "deep").mkdir()
    (folder / "deep" / "again").symlink_to(folder / "deep")
    np.save(folder / "deep" / "x.npy", readers.VALUES)


def links() -> list[Case]:
    return [
        Case("unfinished rows", linked_growing, grow),
        Case("a checkpoint", linked_checkpoint, keep),
        Case("the card of checkpoints", linked_card, keep_card),
        Case("a link to itself", linked_loop, all_rows("a.npy")),
        Case("a folder in itself", linked_loop, all_rows("deep")),
    ]


# -- names

RUNS = "document.title='pwned';top.pwned=1"
MARKUP = f'"\'><b data-pwned=1></b><img src=x onerror="{RUNS}"><script>{RUNS}</script></title></style></svg>{{{{7*7}}}}'
ESCAPES = "a\x1b[31mb\x1b]0;title\x07c\rd\ne\u202ef\u2066g\x9bh\x00i\x7fj\u2028k"
HIDDEN = ("Cc", "Cf", "Zl", "Zp", "Cs")  # kinds of characters that steer a terminal, or turn the text around
ALLOWED = "\n\u00ad\u200b\u200d\u2060"  # ends of lines, and places where a line may or may not break


def results(name: str, check: Check) -> Iterator[tuple[str, Any]]:
    """A result of every schema in which every word that may be any word is `name`; one that no page can be drawn of is a fault."""
    for schema, text in readers.saved_results().items():
        try:
            yield schema, spoilt(text, name)
        except Exception as error:
            check.count(f"{schema}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")


def spoilt(text: str, name: str) -> Any:
    """A saved result with `name` in place of its words, and among the keys of its mappings, wherever a page can still be drawn.

    A word becomes the same one wherever it stands, so what is named in one place is still found in another. Words that may not be
    any word are refused, and stay; a page that ends in any other error is a fault.
    """
    from identifiable import IdentifiableError
    from identifiable.report import html as drawn
    from identifiable.results import from_json

    data = json.loads(text)
    words: dict[Any, list[tuple[Any, Any]]] = {}  # where each stands; and mappings by their path

    def look(holder: Any, path: tuple[Any, ...]) -> None:
        for key, value in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            kind = (*path, key if isinstance(holder, dict) else "#")
            if isinstance(value, str) and kind != ("schema",):
                words.setdefault(value, []).append((holder, key))
            elif isinstance(value, dict | list):
                look(value, kind)
                if isinstance(value, dict) and value:
                    words.setdefault(kind, []).append((value, name))

    def spoil(chosen: list[Any]) -> None:
        for word in chosen:
            for holder, key in words[word]:
                holder[key] = f"{name}{order[word]}" if isinstance(word, str) else next(iter(holder.values()))
        with suppress(IdentifiableError):
            drawn(from_json(json.dumps(data)))
            return
        for word in chosen:
            for holder, key in words[word]:
                if isinstance(word, str):
                    holder[key] = word
                else:
                    del holder[key]
        if len(chosen) > 1:
            spoil(chosen[: len(chosen) // 2])
            spoil(chosen[len(chosen) // 2 :])

    look(data, ())
    order = {word: k for k, word in enumerate(words)}
    spoil([*words])
    return from_json(json.dumps(data))


def hidden(text: str) -> str | None:
    """The first character that a terminal would obey rather than show."""
    found = next((c for c in text if unicodedata.category(c) in HIDDEN and c not in ALLOWED), None)
    return None if found is None else f"{found!r} in {text[max(text.index(found) - 30, 0) :][:80]!r}"


def terminal(setting: Setting) -> Check:
    """What results with escapes in every word print: the table, the line of a session, and the headline."""
    check = Check(PART, "escapes in results, on a terminal")
    for schema, found in results(ESCAPES, check):
        for show in ("table", "__repr__", "headline"):
            value = getattr(found, show)
            wrong = hidden(value() if callable(value) else value)
            check.count(None if wrong is None else f"{schema}, {show}: {wrong}")
    return check


def commands(setting: Setting) -> Check:
    """What commands print of files, columns, labels and ids with escapes in their names; missing ones too."""
    from identifiable.cli import main

    folder = setting.folder / "commands"
    folder.mkdir()
    name = ESCAPES.replace("\0", "")
    drawn = np.random.default_rng(3).laplace(size=(60, 3))
    (folder / f"{name}.csv").write_text(
        f'id,"{name}1","{name}2","{name}3"\n'
        + "".join(f'"{name}{k}",{a},{b},{c}\n' for k, (a, b, c) in enumerate(drawn))
    )
    held: dict[str, Any] = {name: drawn, f"{name}2": drawn @ np.diag([1, 2, 3])}
    np.savez(folder / f"{name}.npz", **held)
    csv, npz = str(folder / f"{name}.csv"), str(folder / f"{name}.npz")
    words = [
        [f"{name}.{suffix}"]
        for suffix in ("npy", "npz", "csv", "parquet", "h5ad", "h5", "zarr", "pt", "safetensors", "arrow", "json", "")
    ]
    runs = [
        ["compare", csv, csv],
        ["compare", f"{npz}:{name}", f"{npz}:{name}2"],
        ["compare", f"{npz}:x", npz],
        ["compare", npz, npz],
        ["compare", csv, csv, "--ids", f"{name}.txt"],
        ["compare", csv, csv, "-o", f"{folder}/{name}/{name}.html"],
        ["compare", csv, csv, f"--{name}"],
        ["compare", csv, csv, "--groups", name],
        ["resolve", csv],
        ["resolve", csv, "--ids", name],
        ["resolve", csv, "--group-by", name],
        ["resolve", f"{csv}:{name}"],
        ["report", name, "-o", f"{folder}/{name}.html"],
        ["match", npz, npz],
        ["layers", npz, npz],
        ["heads", npz, npz],
        ["align", csv, csv, "-o", f"{folder}/{name}.safetensors"],
        ["transform", name, csv, "-o", f"{folder}/x.npy"],
        ["disentangle", csv, csv],
        ["mechanisms", name, csv],
        ["bilipschitz", name, csv],
        ["deconfound", "audit", csv],
        ["deconfound", "audit", csv, "--control", name],
        ["extract", name, name, "-o", f"{name}.safetensors"],
        [name],
        *([command, *path, *path] for path in words for command in ("compare", "layers", "match")),
        *(["resolve", *path] for path in words),
    ]
    check = Check(PART, "escapes in names, through commands")
    for run in runs:
        out, err = io.StringIO(), io.StringIO()
        try:
            with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
                warnings.simplefilter("always")
                main(run)
        except SystemExit:
            pass
        said = f"{run[0]!r} …".replace(name, "NAME")
        wrong = hidden(out.getvalue()) or hidden(err.getvalue())
        if "Traceback" in err.getvalue() or "IDENTIFIABLE_DEBUG" in err.getvalue():
            wrong = f"an error of its own: {err.getvalue()[-200:]!r}"
        check.count(None if wrong is None else f"{said} {[w.replace(name, 'NAME') for w in run[1:]]}: {wrong}"[:400])
    return check


FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions", "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--allow-file-access-from-files", "--virtual-time-budget=20000",
)  # fmt: skip
WATCH = """<!doctype html><meta charset="utf-8"><title>quiet</title><body><script>
window.alert = () => { window.pwned = 1; };
const pages = %s, found = {};
for (const page of pages) {
  const frame = document.createElement("iframe");
  frame.onload = () => setTimeout(() => {
    const inner = frame.contentDocument;
    for (const fold of inner.querySelectorAll("details")) fold.open = true;
    found[page] = {
      title: inner.title === "pwned", made: inner.querySelectorAll("[data-pwned], [onerror], script:not([type])").length,
      ran: window.pwned === 1, words: inner.body.innerText.split("data-pwned").length - 1,
      links: [...inner.querySelectorAll("a[href]")].filter((a) => !/^(#|https?:)/.test(a.getAttribute("href"))).length,
    };
    if (Object.keys(found).length === pages.length) {
      const out = document.createElement("pre");
      out.id = "found";
      out.textContent = JSON.stringify(found);
      document.body.append(out);
    }
  }, 200);
  frame.src = page;
  document.body.append(frame);
}
</script>"""


def pages(setting: Setting) -> Check:
    """Pages of results with markup in every word, in a browser: none of it becomes an element, runs, or is lost."""
    from identifiable.report import html as drawn

    folder = setting.folder / "pages"
    folder.mkdir()
    check = Check(PART, "markup in pages, in Chromium")
    made = {}
    for schema, found in results(MARKUP, check):
        made[f"{schema.replace('/', '-')}.html"] = drawn(found)
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, wrong in looked_at(folder, list(made)).items():
        check.count(f"{name}: {wrong}" if wrong else None)
    control = folder / "control"  # the watch sees what it must
    control.mkdir()
    (control / "bad.html").write_text(f"<!doctype html><title>x</title><p>{MARKUP}</p>", encoding="utf-8")
    seen = looked_at(control, ["bad.html"])["bad.html"]
    check.count(
        None if "ran" in seen and "made" in seen else f"the browser does not notice a page without escapes: {seen!r}"
    )
    return check


def looked_at(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """What is wrong with each page, as a browser sees it; nothing if nothing is."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        return dict.fromkeys(names, "there is no Chromium here")
    watch = folder / "watch.html"
    watch.write_text(WATCH % json.dumps([*names]), encoding="utf-8")
    ended = subprocess.run(
        [browser, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", watch.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found = re.search(r'<pre id="found">(.*?)</pre>', ended.stdout, flags=re.DOTALL)
    if found is None:
        return dict.fromkeys(names, f"the browser says nothing: {ended.stderr[-200:]!r}")
    seen = json.loads(html.unescape(found[1]))
    return {
        name: ", ".join(what for what in ("title", "made", "ran", "links") if seen[name][what])
        or ("" if seen[name]["words"] else "no name is shown")
        for name in names
    }
