"""Damage of any kind to a file of any format is one line that names the file, or does not matter; never another exception."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from identifiable import load_basis, resolve, save_basis
from identifiable._checks import DataError
from identifiable.blocks import Blocks
from identifiable.experiments.images import read_images
from identifiable.io import open_representation, open_screen, read_labels, save_anndata, save_table

SEED = 20240517
VALUES = np.arange(12, dtype=np.float32).reshape(4, 3)
IDS = np.array(["u", "v", "w", "é"])
PICTURES = np.random.default_rng(SEED).integers(0, 256, (7, 5, 4)).astype(np.uint8)
IDX = bytes([0, 0, 8, 3]) + struct.pack(">3I", *PICTURES.shape) + PICTURES.tobytes()


def saved(save: Callable[..., Any], *given: Any, **named: Any) -> bytes:
    stream = io.BytesIO()
    save(stream, *given, **named)
    return stream.getvalue()


def zipped(method: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("x.npy", saved(np.save, VALUES))
    return stream.getvalue()


def small_basis(path: Path) -> bytes:
    """A basis without its pictures and history."""
    found = resolve(np.random.default_rng(SEED).laplace(size=(300, 2)), stability=0, restarts=1)
    plain = tuple(replace(component, density=()) for component in found.result.components)
    bare = replace(found.result, components=plain, density_edges=(), steps=(), alerts=())
    return save_basis(path, replace(found, result=bare)).read_bytes()


def table(path: Path) -> NDArray[Any]:
    found = open_representation(path)
    read = found.values[:]
    assert read.shape == found.values.shape
    assert found.ids is None or len(found.ids) == len(read)
    return read


def screen(path: Path) -> NDArray[Any]:
    return open_screen(path).representation.values[:]


# name, content, reader, and what holds of damaged copies: 'cut' ones are refused, what is 'read' is what was written
KINDS: dict[str, tuple[str, Callable[[Path], bytes], Callable[[Path], Any], str]] = {
    "npy": ("a.npy", lambda _: saved(np.save, VALUES), table, "cut"),
    "npy by columns": ("a.npy", lambda _: saved(np.save, np.asfortranarray(VALUES.astype(">i2"))), table, "cut"),
    "npz": ("a.npz", lambda _: saved(np.savez, x=VALUES, ids=IDS), table, "cut"),
    "npz, compressed": ("a.npz", lambda _: saved(np.savez_compressed, x=VALUES, ids=IDS), table, "cut"),
    "npz, lzma": ("a.npz", lambda _: zipped(zipfile.ZIP_LZMA), table, "cut"),
    "safetensors": (
        "a.safetensors",
        lambda _: safetensors.numpy.save({"x": VALUES, "ids": np.arange(4)}),
        table,
        "cut",
    ),
    "csv": ("a.csv", lambda _: b'id,"a",b\r\nu,1.5,2\r\n"v",nan,"4"\r\nw,5,6\r\n', table, ""),
    "tsv": ("a.tsv", lambda _: "\ufeff1\t2\n3\t-4e3\n5\t6\n\n".encode(), table, ""),
    "parquet": (
        "a.parquet",
        lambda path: save_table(path, Blocks(VALUES), {"p": IDS}, ids=IDS).read_bytes(),
        screen,
        "cut",
    ),
    "h5ad": (
        "a.h5ad",
        lambda path: save_anndata(path, Blocks(VALUES), {"p": IDS}, ids=IDS).read_bytes(),
        screen,
        "",
    ),
    "pictures, npz": (
        "m.npz",
        lambda _: saved(np.savez, images=PICTURES),
        lambda path: read_images(path).values,
        "cut, read",
    ),
    "pictures, gzip": (
        "m.gz",
        lambda _: gzip.compress(IDX, mtime=0),
        lambda path: read_images(path).values,
        "cut, read",
    ),
    "pictures, IDX": ("train-images-idx3-ubyte", lambda _: IDX, lambda path: read_images(path).values, "cut"),
    "basis": ("b.safetensors", small_basis, lambda path: load_basis(path).to_components.matrix, "cut, all"),
}


def damaged(content: bytes, rng: np.random.Generator) -> list[tuple[str, bytes]]:
    """Copies cut at up to 80 lengths; with bytes overwritten; with junk put in; with a run removed, doubled or moved."""
    cuts = np.unique(np.linspace(0, len(content) - 1, 80).astype(int))
    copies = [("cut", content[:cut]) for cut in cuts] + [
        ("longer", content + extra) for extra in (b"\0", b"\n", b"x" * 4096)
    ]
    for _ in range(80):
        changed = bytearray(content)
        for at in rng.integers(0, len(content), rng.integers(1, 4)):
            changed[at] = rng.integers(0, 256)
        copies.append(("flipped", bytes(changed)))
    for _ in range(15):
        a, junk = int(rng.integers(0, len(content))), rng.bytes(int(rng.integers(1, 9)))
        b = a + int(rng.integers(1, 64))
        moved = [
            content[:a] + junk + content[a:],
            content[:a] + content[b:],
            content[:b] + content[a:],
            content[b:] + content[:b],
        ]
        copies += [("moved", copy) for copy in moved]
    return [(how, copy) for how, copy in copies if copy != content]


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_refused_in_one_line_or_does_not_matter(tmp_path: Path, kind: str) -> None:
    name, make, read, law = KINDS[kind]
    if kind in ("parquet", "h5ad"):
        pytest.importorskip({"parquet": "pyarrow", "h5ad": "h5py"}[kind])
    path = tmp_path / name
    content = make(path)
    path.write_bytes(content)
    good = read(path)
    messages: list[str] = []
    for how, copy in damaged(content, np.random.default_rng(SEED)):
        path.write_bytes(copy)
        try:
            found = read(path)
            assert not (how == "cut" and "cut" in law), f"{kind}: read {len(copy)} of {len(content)} bytes"
            assert "all" not in law, f"{kind}: read a {how} copy"
            assert "read" not in law or np.array_equal(found, good)
        except DataError as error:
            messages.append(str(error))
        if read is table:
            with suppress(DataError):
                read_labels(path)
    assert len(messages) > 60
    for message in messages:
        assert path.stem in message
        assert "\n" not in message
        assert len(message) < 500 + len(str(path))
