"""Readers: 10,000 structural mutations of every format and of every schema.

A damaged file is refused in one line, or read as it is: the same numbers as before, or those that the library of the format reads
in it. Each attempt takes at most 5 s and 500 MB, and runs no code of the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardening import mutations as m
from hardening.attempts import Attempt, attempted
from hardening.checks import Check, Setting

PART = "readers"
TRIES = 10_000
SLOW_TRIES = 3_000  # of what takes more than 20 ms
SHORT = 3  # records in the lists of a saved result
DRAWN = 12  # of so many results that load, one is drawn

Array = NDArray[Any]
Arrays = dict[str, Array]
VALUES = np.arange(12, dtype=np.float32).reshape(4, 3) / 3
IDS = np.array(["u", "v", "w", "é"])
LONGEST_HEADER = 1000  # of a .npy that is read by numpy itself
PARTS: dict[str, Arrays] = {  # of a checkpoint
    "pass 1": {"W": VALUES.astype(float), "n": np.array(4), "names": IDS},
    "pass 2": {"W": VALUES.astype(float) + 1, "n": np.array(4), "names": IDS},
}


@dataclass(frozen=True)
class Subject:
    """A format: its files (`contents`, several), how they are changed and read, and what their library holds them to be."""

    name: str
    contents: Callable[[Path], Sequence[m.Content]]
    change: Callable[[m.Content, Random], tuple[str, Mapping[str, bytes]]]
    read: Callable[[Path], Arrays]
    known: Callable[[Path], Iterable[Array]] | None = None
    opened: str = ""  # what is opened in the folder; the only file if empty
    tries: int = TRIES


def checks(setting: Setting) -> Iterator[Check]:
    for subject in subjects():
        yield tried(subject, setting)
    yield from schemas(setting)
    yield options(setting)


def tried(subject: Subject, setting: Setting) -> Check:
    folder = setting.folder / subject.name.replace(" ", "_")
    check = Check(PART, subject.name)
    attempt = Attempts(subject, folder, setting.seed)
    attempted(check, attempt, setting.of(subject.tries), folder)
    shutil.rmtree(folder)
    return check


class Attempts:
    """The mutations of a subject by their number."""

    def __init__(self, subject: Subject, folder: Path, seed: int):
        self.subject, self.folder, self.seed = subject, folder, seed
        made = folder / "made"
        made.mkdir(parents=True)
        self.contents = list(subject.contents(made))
        shutil.rmtree(made)
        self.good: list[Arrays] = []
        self._there: dict[str, bytes] = {}

    def __call__(self, index: int) -> Attempt:
        if not self.good:  # in the child, whose first reads load libraries
            for content in self.contents:
                self._write(content)
                self.good.append(self.subject.read(self._path(content)))
        rng = Random(f"{self.seed} {self.subject.name} {index}")
        which = rng.randrange(len(self.contents))
        how, content = self.subject.change(self.contents[which], rng)
        self._write(content)
        path = self._path(self.contents[which])
        return Attempt(
            f"#{index} {which} {how}", lambda: self.subject.read(path), lambda found: self._judged(found, which, path)
        )

    def _path(self, content: m.Content) -> Path:
        return self.folder / "now" / (self.subject.opened or (next(iter(content)) if len(content) == 1 else ""))

    def _write(self, content: Mapping[str, bytes]) -> None:
        root = self.folder / "now"
        for name in [*self._there]:
            if name not in content:
                (root / name).unlink()
                del self._there[name]
        for name, data in content.items():
            if self._there.get(name) != data:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_bytes(data)
                self._there[name] = data

    def _judged(self, found: Arrays, which: int, path: Path) -> str | None:
        """A right result is what was written, or what the library reads in the changed file."""
        if same(found, self.good[which]) or self.subject.known is None:
            return None
        held = list(self.subject.known(path))
        for name, values in found.items():
            before = self.good[which].get(name)
            if before is not None and equal(values, before):
                continue
            if any(equal(values, each) for each in held):
                continue
            columns = values.T if values.ndim == 2 else [values]
            if all(any(equal(column, each) for each in held) for column in columns):
                continue
            return (
                f"read {name} {values.shape} {values.dtype} that the file does not hold: {str(values.tolist())[:120]}"
            )
        return None


def equal(a: Array, b: Array) -> bool:
    """The same numbers or words; None and NaN are the same."""
    if a.shape != b.shape:
        return False
    if a.dtype.kind in "fiub" and b.dtype.kind in "fiub":
        with np.errstate(all="ignore"):
            return np.array_equal(a.astype(np.float64), b.astype(np.float64), equal_nan=True)
    try:
        return _words(a) == _words(b)
    except (SystemError, ValueError):  # code points that do not exist
        return a.tobytes() == b.tobytes()


def _words(array: Array) -> list[str]:
    return [v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in array.ravel().tolist()]


def same(a: Arrays, b: Arrays) -> bool:
    return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)


# -- how our readers are called


def table(path: Path) -> Arrays:
    from identifiable.io import open_representation

    found = open_representation(path)
    values = found.values[:]
    if values.shape != found.values.shape or values.dtype.kind not in "fiub":
        raise AssertionError(f"declared {found.values.shape}, read {values.shape} {values.dtype}")
    if values.shape[0] > 1 and not np.array_equal(found.values[np.array([1, 0])], values[[1, 0]], equal_nan=True):
        raise AssertionError("rows in another order are other rows")
    if found.ids is None:
        return {"values": values}
    if len(found.ids) != len(values):
        raise AssertionError(f"{len(values)} rows, {len(found.ids)} ids")
    return {"values": values, "ids": np.asarray(found.ids)}


def screen(path: Path) -> Arrays:
    from identifiable.io import open_screen

    opened = open_screen(path)
    values = opened.representation.values[:]
    if not np.isfinite(values).all():
        raise AssertionError("NaN or infinite values in a screen")
    columns = {f"column {name}": np.asarray(column) for name, column in opened.representation.labels.items()}
    if any(len(column) != len(values) for column in columns.values()):
        raise AssertionError("columns of another length than the values")
    return {"values": values, **columns}


def labels(path: Path) -> Arrays:
    from identifiable.io import read_labels

    return {"labels": read_labels(path)}


def basis(path: Path) -> Arrays:
    from identifiable import load_basis, transform

    found = load_basis(path)
    maps = found.to_components if hasattr(found, "to_components") else found.map
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ours: these columns have no names
        mapped = np.asarray(transform(found, np.ones((3, maps.matrix.shape[0]))))
    if not (np.isfinite(mapped).all() and mapped.shape == (3, maps.matrix.shape[1])):
        raise AssertionError(f"the rows become {mapped.shape} {mapped.ravel()[:3]}")
    return {"matrix": maps.matrix, "offset": maps.offset}


def kept(folder: Path) -> Arrays:
    """The arrays of all parts. Each is absent or as it was kept, in its types, too: who asks for it trusts them."""
    from identifiable.results.kept import KeptArrays

    store, found = KeptArrays(folder, "f" * 32), Arrays()
    for key, before in PARTS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # numpy, of headers that Python 2 wrote
            held = store.get(key)
        if held is None:
            continue
        if not same(held, before) or any(held[name].dtype != array.dtype for name, array in before.items()):
            raise AssertionError(f"{key}: {str(held)[:120]} was not kept")
        found |= {f"{key} {name}": array for name, array in held.items()}
    return found


def factors(path: Path) -> Arrays:
    from identifiable.io.factor_tables import read_factor_table

    found = read_factor_table(path)
    return {f"factor {k}": np.asarray(column) for k, column in enumerate(found.columns)}


def head(path: Path) -> Arrays:
    from identifiable.io.head_files import read_head

    found = read_head(path)
    for label in () if found.labels is None else found.labels.tolist():
        str(label).encode()  # a label that cannot be written would end a later step
    return {name: np.asarray(v) for name, v in zip(("weight", "bias"), found[:2], strict=True) if v is not None}


def model_layers(path: Path) -> Arrays:
    from identifiable.io.layer_files import open_layers

    return {layer.name: layer.values[:] for stored in open_layers(path) for layer in stored.layers}


def inputs(path: Path) -> Arrays:
    from identifiable.io.inputs import identified, open_inputs

    opened = open_inputs(path)
    ids, _ = identified(opened, lambda done: None)
    return {"ids": ids, "inputs": together(opened.get(range(opened.n)))}


def together(values: Any) -> Array:
    """Texts, pictures, lists of tokens or rows, as one array; those of several lengths one after the other, each after its length."""
    each = [np.asarray(value) for value in values]
    if len({value.shape for value in each}) > 1:
        return np.concatenate([np.concatenate([[value.size], value.ravel()]) for value in each])
    return np.array(each)


def jacobians(path: Path) -> Arrays:
    from identifiable.io.jacobian_files import open_jacobians

    return {"values": open_jacobians(path)[:]}


def program(path: Path) -> Arrays:
    from identifiable import bilipschitz

    found = bilipschitz(str(path), np.ones((2, 3)), directions=0)
    return {"sigma": np.round(found.sigma_max, 6)}


# -- what the libraries of the formats hold a file to be


def quietly(read: Callable[..., Any], *given: Any) -> Any:
    """What a library reads; None where it refuses."""
    with suppress(Exception), np.errstate(all="ignore"):
        return read(*given)
    return None


def known_npy(path: Path) -> Iterator[Array]:
    found = quietly(lambda: np.load(path, allow_pickle=False))
    if found is not None:
        yield found
        yield found.ravel()


def known_npz(path: Path) -> Iterator[Array]:
    """Every array, whatever the checksum says: ours does not verify that of members that are not compressed."""
    archive = quietly(lambda: zipfile.ZipFile(path))
    for member in archive.infolist() if archive is not None else ():

        def read(member: zipfile.ZipInfo = member) -> Array:
            content = unchecked(archive, member)
            if int.from_bytes(content[8:10], "little") > LONGEST_HEADER:
                raise ValueError("numpy takes the square of the length of a damaged header")
            return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)

        found = quietly(read)
        if found is not None:
            yield found


def unchecked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with archive.open(member) as stream:
        vars(stream)["_expected_crc"] = None
        return stream.read()


def known_safetensors(path: Path) -> Iterator[Array]:
    from safetensors.numpy import load_file

    for name, found in (quietly(lambda: load_file(path)) or {}).items():
        yield found
        if name == "ids" and found.ndim == 2:
            yield np.char.decode(found.view(f"S{found.shape[1]}").ravel(), "utf-8", "replace")


def known_torch(path: Path) -> Iterator[Array]:
    import torch

    def walk(value: Any) -> Iterator[Array]:
        if isinstance(value, torch.Tensor):
            yield quietly(
                lambda: value.detach().float().numpy() if value.dtype == torch.bfloat16 else value.detach().numpy()
            )
        elif isinstance(value, dict | list | tuple):
            for inner in value.values() if isinstance(value, dict) else value:
                yield from walk(inner)

    found = quietly(lambda: torch.load(path, weights_only=True, map_location="cpu"))
    yield from (each for each in walk(found) if each is not None)
    archive = quietly(lambda: zipfile.ZipFile(path))  # torch also refuses a file for members that hold no tensor
    for member in archive.infolist() if archive is not None else ():
        raw = quietly(unchecked, archive, member)
        if "/data/" not in member.filename or raw is None:
            continue
        if len(raw) == VALUES.nbytes:
            yield np.frombuffer(raw, np.float32).reshape(VALUES.shape)
        if len(raw) == VALUES.nbytes // 2:  # of bfloat16
            wide = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
            yield from (wide.reshape(VALUES.shape), wide.reshape(VALUES.shape).T)


def known_columns(path: Path) -> Iterator[Array]:
    """The columns of an Arrow table, each read alone, and the rows of those that are lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = path.read_bytes()

    def count() -> int:
        if path.suffix == ".parquet":
            return len(pq.ParquetFile(io.BytesIO(content)).schema_arrow)
        return len(opened(None).schema)

    def opened(fields: list[int] | None) -> Any:
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        try:
            return pa.ipc.open_file(io.BytesIO(content), options=options)
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(io.BytesIO(content), options=options)

    def read(k: int) -> Any:
        if path.suffix == ".parquet":
            file = pq.ParquetFile(io.BytesIO(content))
            return file.read(columns=[file.schema_arrow.names[k]], use_threads=False).column(0).to_pylist()
        column = opened([k]).read_all().column(0)
        column.validate(full=True)  # pyarrow itself follows offsets out of the file
        return column.to_pylist()

    for k in range(quietly(count) or 0):
        values = quietly(read, k)
        if values is None:
            continue
        for empty in (float("nan"), "", 0):
            made = quietly(np.array, [empty if v is None else v for v in values])
            if values and hasattr(values[0], "isoformat"):  # numpy writes the thousandths of a second
                yield np.array([empty if v is None else str(np.datetime64(v, "ms")).replace("T", " ") for v in values])
            if made is not None and made.dtype == object:
                made = quietly(made.astype, float)
            if made is not None:
                yield from (made, *(made.T if made.ndim == 2 else ()))


def known_hdf5(path: Path) -> Iterator[Array]:
    """Every dataset; of AnnData also sparse matrices, categories and nullable columns, made by hand."""
    import h5py

    file = quietly(lambda: h5py.File(path, "r"))
    if file is None:
        return
    with file:
        names: list[str] = []
        quietly(lambda: file.visit(names.append))
        yield from known_elements(lambda name: file[name], names)


def known_zarr(path: Path) -> Iterator[Array]:
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = quietly(lambda: zarr.open(str(path), mode="r", use_consolidated=False))
        if isinstance(root, zarr.Group):
            names = quietly(lambda: [name for name, _ in root.members(max_depth=8)]) or []
            yield from known_elements(lambda name: root[name], names)
        elif root is not None:
            yield from known_elements(lambda name: root, [""])


def known_elements(get: Callable[[str], Any], names: Sequence[str]) -> Iterator[Array]:
    from scipy.sparse import csc_matrix, csr_matrix

    def words(element: Any) -> Array:
        held = np.asarray(element[...])
        if held.dtype.kind in "OT":
            held = np.array([v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in held.tolist()])
        return np.char.decode(held, "utf-8", "replace") if held.dtype.kind == "S" else held

    for name in names:
        element = quietly(get, name)
        if hasattr(element, "dtype"):
            found = quietly(words, element)
            if found is not None:
                yield found
                yield found.astype(bool).astype(int) if found.dtype.kind in "iub" else found
        elif element is not None and {f"{name}/{part}" for part in ("data", "indices", "indptr")} <= {*names}:
            for kind in (csr_matrix, csc_matrix):

                def sparse(element: Any = element, kind: Any = kind) -> Array:
                    parts = tuple(np.asarray(element[part][...]) for part in ("data", "indices", "indptr"))
                    return np.asarray(kind(parts, shape=tuple(element.attrs["shape"])).toarray())

                found = quietly(sparse)
                if found is not None:
                    yield found
        elif element is not None and {f"{name}/{part}" for part in ("codes", "categories")} <= {*names}:

            def coded(element: Any = element) -> Array:
                codes, kinds = np.asarray(element["codes"][...]), words(element["categories"])
                return np.array(["" if code < 0 else str(kinds[code]) for code in codes])

            found = quietly(coded)
            if found is not None:
                yield found
                numbers = quietly(found.astype, float)  # categories may be numbers
                if numbers is not None:
                    yield from (numbers, numbers.astype(np.float32))


def known_text(path: Path) -> Iterator[Array]:
    """The columns of a table of text, with and without its first row, as numbers where they are."""
    import csv
    import gzip

    raw = path.read_bytes()
    raw = quietly(lambda: gzip.decompress(raw)) or raw if path.suffix == ".gz" else raw
    text = raw.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    separator = "\t" if ".tsv" in path.name else ","
    csv.field_size_limit(2**26)
    rows = quietly(lambda: [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row]) or []
    for first in (0, 1):
        for column in zip(*rows[first:], strict=False):
            yield np.array(column)
            yield np.array([cell.strip() for cell in column])
            numbers = quietly(lambda cells: np.array([float(cell) for cell in cells]), column)
            if numbers is not None:
                yield numbers


def known_lines(path: Path) -> Iterator[Array]:
    if path.suffix == ".npy":
        yield from known_npy(path)
    text = path.read_bytes().decode("utf-8-sig", "replace")
    for lines in (
        text.splitlines(),
        text.replace("\r\n", "\n").split("\n"),
    ):  # the first also ends lines at \x1c and the like
        yield np.array([line.strip() for line in lines if line.strip()])
    yield from known_text(path)


def known_inputs(path: Path) -> Iterator[Array]:
    """Inputs and their ids, of the same texts or arrays in memory, as Python or numpy read them; masked tokens are left out by hand."""
    from identifiable.io.inputs import StoredArrays, identified, open_inputs

    def given(source: Any) -> Iterator[Array]:
        opened = quietly(open_inputs, source)
        if opened is not None:
            yield from (quietly(lambda: together(opened.get(range(opened.n)))), quietly(ids_of, opened))

    def ids_of(opened: Any) -> Array:
        return identified(opened, lambda done: None)[0]

    if path.suffix in (".txt", ".jsonl"):
        lines = quietly(lambda: path.read_bytes().decode("utf-8-sig").split("\n")) or []
        last = max((k for k, line in enumerate(lines, 1) if line.strip()), default=0)
        texts = [line.rstrip("\r\n") for line in lines[:last]]
        made = texts if path.suffix == ".txt" else quietly(lambda: [json.loads(line)["text"] for line in texts])
        found = [*given(made)] if made else []
    else:
        held = [*(known_npz(path) if path.suffix == ".npz" else known_npy(path))]
        found = [each for values in held for each in given(values)]
        for values in held:
            for mask in (mask for mask in held if mask.shape == values.shape and values.ndim == 2):

                def masked(values: Array = values, mask: Array = mask) -> list[Array]:
                    opened = StoredArrays(
                        "", "", values.shape, values.dtype, lambda at: values[at], lambda at: mask[at]
                    )
                    return [together(opened.get(range(opened.n))), ids_of(opened)]

                found += quietly(masked) or []
    yield from (each for each in found if each is not None)


def known_program(path: Path) -> Iterator[Array]:
    """The largest singular values of the Jacobian that torch finds, at the rows that `program` gives; NaN where it has no derivative."""
    import torch

    def read() -> Array:
        net = torch.export.load(str(path)).module()
        rows = [torch.autograd.functional.jacobian(lambda z: net(z[None])[0], torch.ones(3).double()) for _ in range(2)]
        largest = [float(torch.linalg.svdvals(row).max()) if row.isfinite().all() else np.nan for row in rows]
        return np.round(largest, 6)

    found = quietly(read)
    if found is not None:
        yield np.asarray(found)


def known_folder(one: Callable[[Path], Iterable[Array]]) -> Callable[[Path], Iterator[Array]]:
    """Rows of all files of a folder, one below the other in the natural order of their names."""

    def known(folder: Path) -> Iterator[Array]:
        from identifiable.io.containers import natural

        paths = sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: natural(str(p.relative_to(folder))))
        held = [found for path in paths if (found := list(one(path)))]
        yield from (each for found in held for each in found)
        for parts in (*zip(*held, strict=False), *zip(*held[::-1], strict=False)):
            made = quietly(np.concatenate, parts)
            if made is not None:
                yield made

    return known


# -- the files


def subjects() -> list[Subject]:
    other = saved(np.save, np.zeros((7, 5)))
    folder = m.changed_folder
    parquet, arrow = m.changed_arrow(True), m.changed_arrow(False)
    pickled = m.changed_zip(m.changed_bytes)
    arrays = m.changed_zip(m.changed_npy)
    return [
        Subject("npy", npy, m.alone(m.changed_npy, [other]), table, known_npy),
        Subject("npz", npz, m.alone(arrays, [saved(np.savez, other=IDS)]), table, known_npz),
        Subject("safetensors", safetensors, m.alone(m.changed_safetensors, [other]), table, known_safetensors),
        Subject("pt", torch_files, m.alone(pickled, [other]), table, known_torch),
        Subject("csv", text, m.alone(by_start), table, known_text),
        Subject("parquet", parquet_files, m.alone(parquet, [other]), table, known_columns),
        Subject("parquet, a screen", parquet_files, m.alone(parquet, [other]), screen, known_columns),
        Subject("arrow", arrow_files, m.alone(arrow, [other]), table, known_columns),
        Subject("h5", hdf5_files, m.alone(m.changed_hdf5, [other]), table, known_hdf5),
        Subject("h5ad", anndata_files, m.alone(m.changed_hdf5, [other]), table, known_hdf5),
        Subject("h5ad, a screen", anndata_files, m.alone(m.changed_hdf5, [other]), screen, known_hdf5),
        Subject("zarr", zarr_stores, folder(in_store), table, known_zarr, "a.zarr"),
        Subject("zarr, AnnData", anndata_stores, folder(in_store), table, known_zarr, "a.zarr", SLOW_TRIES),
        Subject("shards", shards, folder(in_shards), table, known_folder(known_any), "."),
        Subject("datasets", datasets, folder(in_shards), table, known_folder(known_any), "."),
        Subject("labels", label_files, m.alone(by_start), labels, known_lines),
        Subject("factors", factor_files, m.alone(by_start), factors, known_any),
        Subject("heads", heads, folder(in_shards), head, known_folder(known_any), "."),
        Subject("layers", layer_files, folder(in_shards), model_layers, known_folder(known_any), "."),
        Subject("inputs", input_files, m.alone(changed_input), inputs, known_inputs),
        Subject("Jacobians", jacobian_files, m.alone(m.changed_npy, [other]), jacobians, known_npy),
        Subject("bases and maps", bases, m.alone(changed_basis), basis, known_safetensors),
        Subject("checkpoints", checkpoints, in_checkpoint, kept, known_kept, "."),
        Subject("pt2", programs, m.alone(pickled), program, known_program, tries=SLOW_TRIES),
    ]  # fmt: skip


def saved(save: Callable[..., Any], *given: Any, **named: Any) -> bytes:
    stream = io.BytesIO()
    save(stream, *given, **named)
    return stream.getvalue()


def npy(folder: Path) -> list[m.Content]:
    arrays = (VALUES, np.asfortranarray(VALUES.astype(">i2")), VALUES.astype(np.float64), VALUES > 1)
    return [{"a.npy": saved(np.save, array)} for array in arrays]


def npz(folder: Path) -> list[m.Content]:
    return [{"a.npz": saved(save, x=VALUES, ids=IDS)} for save in (np.savez, np.savez_compressed)]


def safetensors(folder: Path) -> list[m.Content]:
    from safetensors.numpy import save

    from identifiable.io import save_array

    written = save_array(folder / "a.safetensors", VALUES, IDS).read_bytes()
    return [{"a.safetensors": save({"x": VALUES, "ids": np.arange(4)}, {"a": "b"})}, {"a.safetensors": written}]


def torch_files(folder: Path) -> list[m.Content]:
    import torch

    values = torch.tensor(VALUES)
    held = (values, {"x": values, "y": torch.zeros(3)}, torch.nn.Linear(3, 4).state_dict(), {"x": values.T.bfloat16()})
    return [{"a.pt": saved(lambda stream, each=each: torch.save(each, stream))} for each in held]


def text(folder: Path) -> list[m.Content]:
    import gzip

    content = 'id,"a",b\nu,1.5,2\n"v",-3,"4"\nw,5,6e-3\né,7,8\n'.encode()
    bare = b"1\t2\n3\t-4e3\n5\t6\n7\t8\n"
    return [{"a.csv": content}, {"a.tsv": bare}, {"a.csv.gz": gzip.compress(content, mtime=0)}]


def columns(words: bool = True) -> Any:
    import pyarrow as pa

    made = {"id": pa.array(IDS.tolist())} if words else {}
    made |= {f"feature_{j}": pa.array(VALUES[:, j]) for j in range(3)}
    return pa.table(made | ({"p": pa.array(["a", "b", None, "a"]), "n": pa.array([1, 2, 3, 4])} if words else {}))


def parquet_files(folder: Path) -> list[m.Content]:
    import pyarrow.parquet as pq

    from identifiable.blocks import Blocks
    from identifiable.io import save_table

    ours = save_table(folder / "a.parquet", Blocks(VALUES), {"p": IDS}, ids=IDS).read_bytes()
    made = [
        saved(lambda s, c=c, g=g: pq.write_table(columns(), s, compression=c, row_group_size=g))
        for c, g in (("snappy", 2), ("zstd", 9), ("none", 3), ("gzip", 9))
    ]
    frame = columns().to_pandas().set_index("id")
    return [{"a.parquet": content} for content in (ours, *made, saved(lambda s: frame.to_parquet(s)))]


def arrow_files(folder: Path) -> list[m.Content]:
    import pyarrow as pa
    from pyarrow.feather import write_feather

    def write(stream: Any, kind: Any) -> None:
        with kind(stream, columns().schema) as writer:
            writer.write_table(columns(), max_chunksize=2)

    files = [{"a.arrow": saved(write, pa.ipc.new_file)}]
    return [*files, {"a.feather": saved(lambda s: write_feather(columns(), s, compression="uncompressed"))}]


def hdf5_files(folder: Path) -> list[m.Content]:
    import h5py

    def write(stream: Any, **packed: Any) -> None:
        with h5py.File(stream, "w") as file:
            file.create_dataset("values", data=VALUES, **packed)
            file.create_dataset("ids", data=IDS.tolist(), dtype=h5py.string_dtype())

    packings: tuple[dict[str, Any], ...] = (
        {},
        {"chunks": (2, 3), "compression": "gzip", "shuffle": True},
        {"chunks": (1, 2), "fletcher32": True},
    )
    return [{"a.h5": saved(write, **packing)} for packing in packings]


def anndata_of(sparse: bool) -> Any:
    import anndata
    import pandas
    from scipy.sparse import csr_matrix

    obs = pandas.DataFrame({"p": pandas.Categorical(["a", "b", "a", "b"]), "n": [1, 2, 3, 4]}, index=IDS)
    values = VALUES.copy()
    return anndata.AnnData(csr_matrix(values) if sparse else values, obs=obs, obsm={"z": values[:, :2]}, uns={"k": "v"})


def anndata_files(folder: Path) -> list[m.Content]:
    from identifiable.blocks import Blocks
    from identifiable.io import save_anndata

    made = [save_anndata(folder / "ours.h5ad", Blocks(VALUES), {"p": IDS}, ids=IDS)]
    for sparse in (False, True):
        made.append(folder / f"{sparse}.h5ad")
        anndata_of(sparse).write_h5ad(made[-1])
    return [{"a.h5ad": path.read_bytes()} for path in made]


def held(folder: Path, at: str = "") -> m.Content:
    return {f"{at}{p.relative_to(folder)}": p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def zarr_stores(folder: Path) -> list[m.Content]:
    import zarr

    for version in (2, 3):
        root = zarr.open_group(str(folder / f"{version}.zarr"), mode="w", zarr_format=version)
        root.create_array("values", data=VALUES, chunks=(2, 3))
        root.create_array("ids", data=np.arange(4), chunks=(4,))
    zarr.create_array(str(folder / "4.zarr"), data=VALUES, zarr_format=3)
    return [held(folder / f"{version}.zarr", "a.zarr/") for version in (2, 3, 4)]


def anndata_stores(folder: Path) -> list[m.Content]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sparse in (False, True):
            anndata_of(sparse).write_zarr(folder / f"{sparse}.zarr")
    return [held(folder / f"{sparse}.zarr", "a.zarr/") for sparse in (False, True)]


def shards(folder: Path) -> list[m.Content]:
    import pyarrow.parquet as pq

    halves = [saved(lambda s, k=k: pq.write_table(columns().slice(2 * k, 2), s)) for k in (0, 1)]
    return [
        {f"part-{k}.npy": saved(np.save, VALUES[2 * k : 2 * k + 2]) for k in (0, 1)},
        {f"part-{k}.npz": saved(np.savez, x=VALUES[2 * k : 2 * k + 2], ids=IDS[2 * k : 2 * k + 2]) for k in (0, 1)},
        {f"day={k}/part-{k}.parquet": half for k, half in enumerate(halves)},
        {f"part-{k}.csv": f"id,a,b\nx{k},1,{k}\ny{k},2,{k}\n".encode() for k in (0, 1)},
    ]


def datasets(folder: Path) -> list[m.Content]:
    import pyarrow as pa

    def write(stream: Any, k: int) -> None:
        half = columns().slice(2 * k, 2)
        with pa.ipc.new_stream(stream, half.schema) as writer:
            writer.write_table(half)

    names = [f"data-0000{k}-of-00002.arrow" for k in (0, 1)]
    state = {
        "_data_files": [{"filename": name} for name in names],
        "_fingerprint": "f",
        "_split": None,
        "_indices_files": None,
    }
    files = {name: saved(write, k) for k, name in enumerate(names)}
    return [{**files, "state.json": json.dumps(state).encode(), "dataset_info.json": b"{}"}]


def label_files(folder: Path) -> list[m.Content]:
    content = "a\nb\né\na\n".encode()
    return [
        {"l.txt": content},
        {"l.npy": saved(np.save, IDS)},
        {"l.npy": saved(np.save, np.arange(4))},
        {"l.csv": b"id,p\nu,1\nv,2\n"},
    ]


def factor_files(folder: Path) -> list[m.Content]:
    return [
        {"f.csv": b"id,floor,wall\nu,1,red\nv,2,blue\nw,3,red\n"},
        {"f.npz": saved(np.savez, floor=np.arange(4), wall=IDS)},
    ]


def heads(folder: Path) -> list[m.Content]:
    from safetensors.numpy import save

    config = {
        "architectures": ["BertForSequenceClassification"],
        "id2label": {str(k): f"l{k}" for k in range(4)},
        "model_type": "bert",
    }
    tensors = {"classifier.weight": VALUES, "classifier.bias": np.zeros(4, np.float32)}
    index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, "model-00001-of-00001.safetensors")}
    said = json.dumps(config).encode()
    return [
        {"config.json": said, "model.safetensors": save(tensors)},
        {
            "config.json": said,
            "model.safetensors.index.json": json.dumps(index).encode(),
            "model-00001-of-00001.safetensors": save(tensors),
        },
    ]


def layer_files(folder: Path) -> list[m.Content]:
    from safetensors.numpy import save

    layers = {f"layer_{k}": VALUES + k for k in range(3)} | {"ids": np.arange(4)}
    return [
        {
            f"step_{k}.safetensors": save(layers, {"layers": json.dumps(["layer_0", "layer_1", "layer_2"])})
            for k in (1, 2)
        },
        {"step_1.npz": saved(np.savez, **layers)},
    ]


def input_files(folder: Path) -> list[m.Content]:
    lines = [json.dumps({"text": f"line {k}", "n": k}) for k in range(4)]
    pictures = np.arange(4 * 5 * 6 * 3, dtype=np.uint8).reshape(4, 5, 6, 3)
    return [
        {"a.txt": "one\ntwo\nthree é\n".encode()},
        {"a.jsonl": "\n".join(lines).encode()},
        {"a.npy": saved(np.save, pictures)},
        {"a.npz": saved(np.savez, input_ids=np.arange(12).reshape(3, 4), attention_mask=np.ones((3, 4), int))},
    ]


def jacobian_files(folder: Path) -> list[m.Content]:
    return [{"j.npy": saved(np.save, np.arange(24.0).reshape(2, 4, 3))}]


def bases(folder: Path) -> list[m.Content]:
    from identifiable import align, resolve, save_basis
    from identifiable.deconfounding.feature_map import FeatureMap
    from identifiable.groups import AffineMap

    drawn = np.random.default_rng(5).laplace(size=(300, 2))
    found = resolve(drawn, stability=0, restarts=1)
    plain = tuple(replace(component, density=()) for component in found.result.components)
    found = replace(found, result=replace(found.result, components=plain, density_edges=(), steps=(), alerts=()))
    aligned = align(drawn, drawn @ [[0.6, 0.8], [-0.8, 0.6]])
    identity = AffineMap(np.eye(2), np.zeros(2))
    made = (found, FeatureMap(identity, found.result, ("a", "b")), aligned)
    return [
        {"b.safetensors": save_basis(folder / f"{k}.safetensors", each).read_bytes()} for k, each in enumerate(made)
    ]


def checkpoints(folder: Path) -> list[m.Content]:
    from identifiable.results.kept import KeptArrays

    for key, arrays in PARTS.items():
        KeptArrays(folder, "f" * 32).put(key, arrays)
    return [held(folder)]


def programs(folder: Path) -> list[m.Content]:
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()).double().eval()
    batch = {0: torch.export.Dim("batch")}
    made = torch.export.export(net, (torch.zeros(4, 3).double(),), dynamic_shapes=(batch,))
    torch.export.save(made, folder / "net.pt2")
    return [{"net.pt2": (folder / "net.pt2").read_bytes()}]


# -- what is changed in files that hold files


def in_checkpoint(content: m.Content, rng: Random) -> tuple[str, Mapping[str, bytes]]:
    """Files exchanged, removed or damaged; or a valid archive with other arrays and the comment it had."""
    if rng.random() < 0.5:
        return m.changed_folder(in_shards)(content, rng)
    name = rng.choice([each for each in sorted(content) if each.endswith(".npz")])
    with zipfile.ZipFile(io.BytesIO(content[name])) as archive, np.load(io.BytesIO(content[name])) as arrays:
        comment, inside = archive.comment, {each: arrays[each] for each in arrays.files}
    how = changed_arrays(inside, rng)
    stream = io.BytesIO(saved(np.savez, **inside))
    with zipfile.ZipFile(stream, "a") as archive:
        archive.comment = comment
    return f"{name} {how}", {**content, name: stream.getvalue()}


def changed_arrays(inside: Arrays, rng: Random) -> str:
    name, other = rng.sample(sorted(inside), 2)
    array = inside[name]
    how = rng.choice(("gone", "renamed", "exchanged", "another", "more", "shape", "half", "type", "NaN", "number"))
    if how in ("gone", "renamed"):
        del inside[name]
    if how in ("renamed", "more"):
        inside[rng.choice(("V", "other"))] = array
    elif how == "exchanged":
        inside[name], inside[other] = inside[other], array
    elif how == "another":
        inside[name] = inside[other]
    elif how == "shape":
        inside[name] = rng.choice((array.reshape(1, *array.shape), array.T[None], array.ravel()[None]))
    elif how == "half":
        inside[name] = array.ravel()[: array.size // 2]
    elif how == "type":
        inside[name] = array.astype(
            rng.choice(("U9", ">U1") if array.dtype.kind == "U" else ("U9", ">f8", "f4", "c16"))
        )
    elif how == "NaN":
        inside[name] = np.full(array.shape, np.nan)
    elif how == "number":
        inside[name] = array.copy()
        inside[name].flat[rng.randrange(array.size)] = rng.choice((0, 7))
    return f"{name} {how}"


def in_store(name: str) -> Callable[[bytes, Random], tuple[str, bytes]]:
    return (
        m.changed_json
        if name.endswith(("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"))
        else m.changed_bytes
    )


def in_shards(name: str) -> Callable[[bytes, Random], tuple[str, bytes]]:
    kinds = {
        ".npy": m.changed_npy, ".npz": m.changed_zip(m.changed_npy), ".parquet": m.changed_arrow(True), ".csv": m.changed_text,
        ".json": m.changed_json, ".safetensors": m.changed_safetensors,
    }  # fmt: skip
    return next((change for suffix, change in kinds.items() if name.endswith(suffix)), m.changed_bytes)


def known_kept(path: Path) -> Iterator[Array]:
    """Of changed parts nothing may be read."""
    return iter(())


def known_any(path: Path) -> Iterator[Array]:
    kinds = {
        ".npy": known_npy, ".npz": known_npz, ".parquet": known_columns, ".arrow": known_columns, ".csv": known_text,
        ".safetensors": known_safetensors,
    }  # fmt: skip
    read = kinds.get(path.suffix.lower())
    return iter(()) if read is None else iter(read(path))


def by_start(content: bytes, rng: Random) -> tuple[str, bytes]:
    """A change that suits what the first bytes say the file is; text if nothing else."""
    kinds = {b"PK": m.changed_zip(m.changed_npy), b"\x93N": m.changed_npy, b"\x1f\x8b": m.changed_gzip}
    return kinds.get(content[:2], m.changed_text)(content, rng)


def changed_input(content: bytes, rng: Random) -> tuple[str, bytes]:
    if content[:1] != b"{":
        return by_start(content, rng)
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    how, lines[at] = m.changed_json(lines[at], rng)
    return f"line {at} {how}", b"\n".join(lines)


def changed_basis(content: bytes, rng: Random) -> tuple[str, bytes]:
    """The header changed, or the result that it holds, with the hash made right: an edit by someone who knows how."""
    if rng.random() < 0.3:
        return m.changed_bytes(content, rng)
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    parts = [name for name in header["__metadata__"] if name not in ("schema", "sha256")]
    if parts and rng.random() < 0.7:
        name = rng.choice(parts)
        how, inner = m.changed_json(header["__metadata__"][name].encode(), rng)
        header["__metadata__"][name] = inner.decode("utf-8", "replace")
        how, raw = f"{name} {how}", json.dumps(header).encode()
    else:
        how, raw = m.changed_json(json.dumps(header).encode(), rng)
    raw += b" " * (-len(raw) % 8)
    recorded = header["__metadata__"]["sha256"].encode()
    empty = (len(raw).to_bytes(8, "little") + raw + content[8 + length :]).replace(recorded, b"0" * 64, 1)
    return f"signed {how}", empty.replace(b"0" * 64, hashlib.sha256(empty).hexdigest().encode(), 1)


# -- results and options


def schemas(setting: Setting) -> Iterator[Check]:
    """Saved results: every field wrong in every way, then at random. One of twelve that load is drawn."""
    from identifiable.results.serial import SCHEMAS

    texts = saved_results()
    for schema in SCHEMAS:
        folder = setting.folder / "result"
        folder.mkdir(exist_ok=True)
        check = Check(PART, f"{schema}, saved")
        yield attempted(
            check,
            saved_result(m.JsonText(texts[schema]), folder / "saved.json", setting.seed),
            setting.of(TRIES),
            folder,
        )
        shutil.rmtree(folder)


def saved_results() -> dict[str, str]:
    """The smallest example of every schema as JSON text, shortened. The examples are those of the tests."""
    sys.path.append(str(Path(__file__).parents[2] / "tests"))
    examples: Mapping[str, Callable[[], Any]] = import_module("builders").EXAMPLES
    texts: dict[str, list[str]] = {}
    for make in examples.values():
        made = make()
        texts.setdefault(made.schema, []).append(made.to_json())
    return {schema: shortened(min(found, key=len)) for schema, found in texts.items()}


def shortened(text: str) -> str:
    """A result with as few records in its lists as a page can still be drawn of."""
    from identifiable.report import html
    from identifiable.results import from_json

    for kind in sorted(
        {tuple("#" if isinstance(s, int) else s for s in path) for path, _, _ in m.spans(text)}, key=len
    ):
        data = json.loads(text)
        for values in within(data, kind):
            if isinstance(values, list):
                del values[SHORT:]
        shorter = json.dumps(data, indent=1)
        if len(shorter) < len(text) - 200:
            with suppress(Exception):
                html(from_json(shorter))
                text = shorter
    return text


def within(data: Any, kind: m.Path) -> list[Any]:
    """The values at a path in which "#" stands for any place of a list."""
    found = [data]
    for step in kind:
        lists = step == "#"
        held: list[Any] = [each for each in found if isinstance(each, list if lists else dict)]
        found = [inner for each in held for inner in (each if lists else [each[step]] if step in each else [])]
    return found


def saved_result(text: m.JsonText, path: Path, seed: int) -> Callable[[int], Attempt]:
    order = list(range(text.ways))
    Random(seed).shuffle(order)

    def attempt(index: int) -> Attempt:
        rng = Random(f"{seed} {index}")
        how, changed = text.wrong(order[index], rng) if index < len(order) else text.changed(rng)
        path.write_text(changed, encoding="utf-8", errors="surrogateescape")
        return Attempt(f"#{index} {how}", lambda: read_result(path, drawn=index % DRAWN == 0))

    return attempt


def read_result(path: Path, *, drawn: bool) -> None:
    from identifiable import load
    from identifiable.cli.report import _drawn

    if not drawn:
        load(path)
    else:
        _drawn(str(path), "page.html")


GIVEN: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 3.5, 1e300, float("nan"), float("inf"), 10**30, "", "wrong", "a\nb", "auto", b"x", [], [1], ["x"], [None],
    {}, {"a": 1}, (), (1, 2), np.zeros(3), np.float64("nan"), np.int64(2), object, lambda: None, "\x1b[31m", "1,2", 2**63, -0.0, 1j, set(),
)  # fmt: skip


def options(setting: Setting) -> Check:
    """Every option of every call, given what it may not be: refused in one line, or taken."""
    from identifiable import options as declared

    kinds = [
        kind for name in declared.__all__
        if isinstance(kind := getattr(declared, name), type) and issubclass(kind, declared.Options) and kind is not declared.Options
    ]  # fmt: skip
    cases = [(kind, option.name) for kind in kinds for option in declared.declared(kind)]

    def attempt(index: int) -> Attempt:
        kind, name = cases[index % len(cases)]
        value = GIVEN[index // len(cases) % len(GIVEN)]
        return Attempt(f"{kind.__name__}({name}={value!r})"[:120], lambda: kind(**{name: value}))

    return attempted(Check(PART, "options"), attempt, setting.of(len(cases) * len(GIVEN)), setting.folder / "options")
