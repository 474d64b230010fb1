"""experiments.images: pictures come back as they were written, with their labels; whatever is wrong is one line."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from errors import naming
from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.experiments import images
from identifiable.experiments.images import Images, read_images
from identifiable.intake import content_hash

SEED = 20250301
MNIST = Path("/work/shared/data/mnist.npz")
N, HEIGHT, WIDTH = 7, 5, 4
TYPES = {"uint8": 0x08, "int8": 0x09, "int16": 0x0B, "int32": 0x0C, "float32": 0x0D, "float64": 0x0E}


def pictures(n: int = N, dtype: Any = np.uint8, seed: int = SEED) -> NDArray[Any]:
    return np.random.default_rng(seed).integers(0, 256, (n, HEIGHT, WIDTH)).astype(dtype)


def classes(n: int = N, seed: int = SEED) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 10, n).astype(np.uint8)


def idx(values: NDArray[Any], *, shape: tuple[int, ...] | None = None, magic: bytes | None = None) -> bytes:
    """The bytes of an IDX file; `shape` and `magic` tell lies."""
    declared = values.shape if shape is None else shape
    start = bytes([0, 0, TYPES[values.dtype.name], len(declared)]) if magic is None else magic
    return (
        start + struct.pack(f">{len(declared)}I", *declared) + values.astype(values.dtype.newbyteorder(">")).tobytes()
    )


def keras(compressed: bool = True, **arrays: Any) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)
    return stream.getvalue()


def whole(compressed: bool = True) -> bytes:
    return keras(
        compressed, x_train=pictures(), y_train=classes(), x_test=pictures(3, seed=1), y_test=classes(3, seed=1)
    )


def put(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    return path


def same(found: Images, values: NDArray[Any], labels: NDArray[Any] | None) -> bool:
    if (found.labels is None) != (labels is None) or found.values.dtype != values.dtype:
        return False
    return np.array_equal(found.values, values) and (labels is None or np.array_equal(found.labels, labels))


# What is in the file is what is read


@pytest.mark.parametrize("compressed", [True, False])
def test_keras_archives_give_both_parts(tmp_path, compressed):
    path = put(tmp_path, "m.npz", whole(compressed))
    train, test = read_images(path), read_images(str(path), part="test")
    assert same(train, pictures(), classes())
    assert same(test, pictures(3, seed=1), classes(3, seed=1))
    assert (train.name, test.name) == ("m:train", "m:test")
    assert train.labels.dtype == np.int64
    assert train.sha256 == content_hash(Blocks(pictures().reshape(N, -1))) != test.sha256
    assert not same(train, pictures(seed=2), classes())


def test_an_archive_of_one_set_needs_no_labels_and_takes_any_order(tmp_path):
    values = pictures(dtype=np.float32) / 3
    bare = read_images(put(tmp_path, "a.npz", keras(images=np.asfortranarray(values))))
    assert same(bare, values, None)
    assert bare.name == "a"
    assert bare.values.flags.c_contiguous
    labelled = read_images(put(tmp_path, "b.npz", keras(images=values.astype(">f8"), labels=classes().astype(">i8"))))
    assert same(labelled, values.astype(float), classes())
    assert labelled.values.dtype.isnative


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("dash", ["-", "."])
def test_idx_files_find_their_labels_beside_them(tmp_path, dtype, suffix, dash):
    values = pictures(dtype=dtype)
    path = put(tmp_path, f"train-images{dash}idx3-ubyte{suffix}", idx(values))
    assert same(read_images(path), values, None)
    put(tmp_path, f"train-labels{dash}idx1-ubyte", idx(classes()))
    found = read_images(path)
    assert same(found, values, classes())
    assert found.name == f"train-images{dash}idx3-ubyte"
    assert found.sha256 == content_hash(Blocks(values.reshape(N, -1)))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_test_set_is_found_beside_the_training_set_and_not_mistaken_for_it(tmp_path, suffix):
    train = put(tmp_path, f"train-images-idx3-ubyte{suffix}", idx(pictures()))
    with pytest.raises(DataError, match=r"test.*beside.*\(t10k-images-idx3-ubyte"):
        read_images(train, part="test")
    test = put(tmp_path, "t10k-images-idx3-ubyte.gz", idx(pictures(3, seed=1)))
    put(tmp_path, "t10k-labels-idx1-ubyte.gz", idx(classes(3, seed=1)))
    for path in (train, test):
        assert same(read_images(path, part="test"), pictures(3, seed=1), classes(3, seed=1))
    assert same(read_images(train), pictures(), None)
    with pytest.raises(DataError, match=r"name says.*part='test'"):
        read_images(test)
    with pytest.raises(DataError, match=r"name.*itself"):
        read_images(put(tmp_path, "digits.idx", idx(pictures())), part="test")


def test_labels_given_win_and_may_be_of_any_format(tmp_path):
    path = put(tmp_path, "train-images-idx3-ubyte", idx(pictures()))
    put(tmp_path, "train-labels-idx1-ubyte", b"damaged")
    other = classes(seed=5)
    np.save(tmp_path / "y.npy", other)
    (tmp_path / "y.txt").write_text("".join(f"{label}\n" for label in other))
    (tmp_path / "y.csv").write_text("class,no\n" + "".join(f"{label},1\n" for label in other))
    given = [
        put(tmp_path, "y.idx", idx(other)),
        put(tmp_path, "y.gz", idx(other.astype(np.int32))),
        tmp_path / "y.npy",
        tmp_path / "y.txt",
        f"{tmp_path}/y.csv:class",
    ]
    for labels in given:
        assert same(read_images(path, labels=labels), pictures(), other)
    assert same(read_images(put(tmp_path, "m.npz", whole()), labels=given[0]), pictures(), other)
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte:.*IDX"):
        read_images(path)


@pytest.mark.skipif(not MNIST.exists(), reason=f"needs {MNIST}; the tests above cover its format")
def test_mnist_is_mnist():
    train, test = read_images(MNIST), read_images(MNIST, part="test")
    assert train.values.shape == (60_000, 28, 28)
    assert test.values.shape == (10_000, 28, 28)
    assert train.values.dtype == np.uint8
    assert train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(train.labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


# What is wrong is said in one line


def with_nan() -> NDArray[np.float64]:
    values = pictures(dtype=np.float64)
    values[2, 1, 1] = np.nan
    values[4, 0, 0] = np.inf
    return values


IDX3 = "train-images-idx3-ubyte"
HUGE = (4_000_000_000, 65_535, 65_535)
BAD: dict[str, tuple[str, bytes, str]] = {
    "nothing": (IDX3, b"", "file is empty"),
    "text": ("a.npz", b"hello, world", "IDX.*b'hello, w'"),
    "an unknown type": (IDX3, idx(pictures(), magic=b"\0\0\x0a\x03"), r"IDX.*b'\\x00"),
    "another format after gzip": ("a.gz", b"not idx at all", "IDX.*b'not '"),
    "labels for pictures": (IDX3, idx(classes()), "one of 1"),
    "four dimensions": (IDX3, idx(pictures()[..., None]), "3 dimensions"),
    "cut in the magic": (IDX3, b"\0\0\x08", "an IDX file"),
    "cut in the header": (IDX3, idx(pictures())[:11], "truncated within its"),
    "cut in the pixels": (IDX3, idx(pictures())[:-1], "truncated: .*140 bytes"),
    "cut, gzipped": ("a.gz", idx(pictures())[:-1], "truncated: .*140 bytes.*139"),
    "too long": (IDX3, idx(pictures()) + b"x", "bytes follow the"),
    "too long, gzipped": ("a.gz", idx(pictures()) + bytes(10**6), "bytes follow the"),
    "absurd lengths": (IDX3, idx(pictures(), shape=HUGE), r"truncated: .*140"),
    "absurd lengths, gzipped": ("a.gz", idx(pictures(), shape=HUGE), "most, however well"),
    "no pictures": (IDX3, idx(pictures(), shape=(0, 4_294_967_295, 4_294_967_295)), "which holds nothing"),
    "NaN in an IDX file": (IDX3, idx(with_nan()), r"NaN.*\(2 of 7"),
    "NaN in an archive": ("a.npz", keras(x_train=with_nan()), "a.npz:x_train: picture 2 holds NaN"),
    "integers": (IDX3, idx(pictures(dtype=np.int16)), "uint8 or floating"),
    "text for pixels": ("a.npz", keras(images=pictures().astype("U3")), "uint8 or floating"),
    "a table": ("a.npz", keras(images=pictures()[0]), r"shape \(5, 4\)"),
    "channels": ("a.npz", keras(images=pictures()[..., None]), r"shape \(7, 5, 4, 1\)"),
    "no picture": ("a.npz", keras(images=pictures()[:0]), r"shape \(0, 5, 4\)"),
    "other names": ("a.npz", keras(train=pictures()), "x_train or images"),
    "no arrays": ("a.npz", keras(), "it as np.savez"),
    "too few labels": (
        "a.npz",
        keras(images=pictures(), labels=classes()[1:]),
        "6 labels.*7 pictures.*images",
    ),
    "labels of text": ("a.npz", keras(images=pictures(), labels=classes().astype(str)), "one whole number"),
    "labels one-hot": (
        "a.npz",
        keras(images=pictures(), labels=np.eye(7, dtype=int)),
        r"shape \(7, 7\)",
    ),
    "labels too large": (
        "a.npz",
        keras(images=pictures(), labels=np.full(N, 2**63, np.uint64)),
        "above 9223372036854775807",
    ),
    "objects": ("a.npz", keras(images=pictures().astype(object)), r"Python objects \(pickled\)"),
    "labels that are objects": (
        "a.npz",
        keras(images=pictures(), labels=np.array([None] * N)),
        r"labels: holds Python",
    ),
    "a cut archive": ("a.npz", whole()[:-30], "damaged or truncated"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_one_line_that_helps(tmp_path, what):
    name, content, message = BAD[what]
    path = put(tmp_path, name, content)
    with pytest.raises(DataError, match=message) as caught:
        read_images(path)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    assert len(text) < 400 + len(str(path))


@pytest.mark.parametrize(
    ("name", "labels", "message"),
    [
        ("y", idx(classes()[1:]), "y: 6 labels.*7 pictures.*train-images"),
        ("y", idx(pictures()), "1 dimensions"),
        ("y.txt", b"a\nb\n", "got <U1"),
        ("y.idx", idx(np.arange(N, dtype=np.float32)), "picture, got float32"),
    ],
)
def test_bad_labels_are_one_line_that_helps(tmp_path, name, labels, message):
    path = put(tmp_path, IDX3, idx(pictures()))
    with pytest.raises(DataError, match=message):
        read_images(path, labels=put(tmp_path, name, labels))
    assert same(read_images(path, labels=put(tmp_path, "good", idx(classes()))), pictures(), classes())


def test_paths_that_lead_nowhere_and_parts_that_are_none(tmp_path):
    put(tmp_path, IDX3, idx(pictures()))
    with pytest.raises(DataError, match=f"mean {IDX3}"):
        read_images(tmp_path / "train-images-idx3-ubyt")
    with pytest.raises(DataError, match=r"file,.*directory"):
        read_images(tmp_path)
    with pytest.raises(DataError, match=r"nowhere\.idx:.*such file"):
        read_images(tmp_path / IDX3, labels=tmp_path / "nowhere.idx")
    with pytest.raises(UsageError, match=naming("part: ", "'train'", "'test'", "'valid'")):
        read_images(tmp_path / IDX3, part="valid")
    with pytest.raises(DataError, match=r"x_test.*pictures,.*images"):
        read_images(put(tmp_path, "a.npz", keras(images=pictures())), part="test")


# Hostile files


def peak_of(call: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"bytes follow|truncated"):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_gzip_bomb_is_inflated_no_further_than_its_header_says(tmp_path):
    bomb = put(tmp_path, "a.gz", idx(pictures()) + bytes(50_000_000))
    assert bomb.stat().st_size < 100_000
    assert peak_of(lambda: read_images(bomb)) < 5_000_000


def test_lengths_are_compared_with_the_file_before_anything_is_allocated(tmp_path):
    lies = idx(pictures(), shape=(1_000_000, 1_000, 10))
    for name in (IDX3, "a.gz"):
        path = put(tmp_path, name, lies)
        assert peak_of(lambda path=path: read_images(path)) < 1_000_000


class Exploding:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("exploded"),))


def test_nothing_is_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|O", "fortran_order": False, "shape": (N, 5, 4)})
    for names in (("images",), ("images", "labels")):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for name in names:
                good = io.BytesIO()
                np.save(good, pictures())
                evil = header.getvalue() + pickle.dumps(Exploding())
                archive.writestr(f"{name}.npy", evil if name == names[-1] else good.getvalue())
        with pytest.raises(DataError, match="loaded because"):
            read_images(put(tmp_path, "a.npz", stream.getvalue()))
    assert not Path("exploded").exists()
    pickle.loads(pickle.dumps(Exploding()))
    assert Path("exploded").exists(), "the trap works"


@pytest.mark.parametrize(
    ("descr", "shape", "data"),
    [
        ("'|V0'", (7, 5, 4), b""),
        ("'<U0'", (7, 5, 4), b""),
        ("[('a', '|u1'), ('b', '|u1')]", (7, 5, 2), bytes(140)),
        ("('|u1', (2,))", (7, 5, 2), bytes(140)),
        ("'|u1'", (1,) * 70, b"x"),
        ("'|u1'", (0, 10**30, 5), b""),
        ("'|u1'", (10**6, 10**6, 10**6), b"x"),
        ("'<c8'", (7, 5, 4), bytes(8 * 140)),
    ],
)
def test_headers_of_arrays_that_cannot_be_are_refused(tmp_path, descr, shape, data):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("images.npy", member)
    with pytest.raises(DataError, match=r"a\.npz") as caught:
        read_images(put(tmp_path, "a.npz", stream.getvalue()))
    assert "\n" not in str(caught.value)


def test_what_does_not_fit_in_memory_says_so(tmp_path, monkeypatch):
    def too_much(*_: Any) -> Any:
        raise MemoryError

    path, archive = put(tmp_path, IDX3, idx(pictures())), put(tmp_path, "m.npz", whole())
    monkeypatch.setattr(images.np, "empty", too_much)
    monkeypatch.setattr(images, "check_is_file", lambda _: None)
    monkeypatch.setattr(images.FileBytes, "read", lambda self, at, size: Path(self.label).read_bytes()[at : at + size])
    for file in (path, archive):
        with pytest.raises(DataError, match=r"fit.*memory"):
            read_images(file)
