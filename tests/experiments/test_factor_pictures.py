"""experiments.factor_pictures: small files of each published format come back as written; anything else is refused in one line."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from errors import naming
from identifiable._checks import DataError, UsageError
from identifiable.experiments import picture_stores
from identifiable.experiments.factor_pictures import DATASETS, FactorPictures, read_factor_pictures
from identifiable.worlds import FactorGrid

h5py = pytest.importorskip("h5py", reason="the extra `pictures` is not installed")
Image = pytest.importorskip("PIL.Image", reason="the extra `pictures` is not installed")

SEED = 20260118
SMALL = {
    "shapes3d": (2, 3, 1, 2, 2, 2),
    "mpi3d": (2, 1, 2, 1, 3, 2, 2),
    "falcor3d": (2, 1, 3, 1, 1, 2, 1),
    "isaac3d": (2, 1, 1, 1, 3, 1, 1, 1, 2),
    "dsprites": (2, 1, 3, 2, 2),
}
FOLDERS = {"falcor3d": ("Falcor3D_down128", "train-rec.labels"), "isaac3d": ("Isaac3D_down128", "labels.npy")}


def small(name: str) -> FactorGrid:
    return FactorGrid(DATASETS[name].grid.names, SMALL[name])


def labels_of(grid: FactorGrid) -> NDArray[np.float64]:
    """As the sets have them: values, not codes; the last one falls."""
    values = grid.codes(np.arange(grid.n)) / np.maximum(np.array(grid.sizes) - 1, 1)
    values[:, -1] *= -30
    return np.asarray(values)


def noise(*shape: int, most: int = 256) -> NDArray[np.uint8]:
    return np.random.default_rng(SEED).integers(0, most, shape).astype(np.uint8)


def npy(values: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, values, allow_pickle=True)
    return stream.getvalue()


def png(picture: NDArray[np.uint8]) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "PNG")
    return stream.getvalue()


def write_npz(path: Path, *, compressed: bool, **arrays: Any) -> Path:
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    return path


class Trap:
    """Unpickling it makes a folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


def write(
    folder: Path,
    name: str,
    *,
    labels: NDArray[Any] | None = None,
    pictures: NDArray[np.uint8] | None = None,
    compressed: bool = True,
    drop: str = "",
) -> Path:
    """A file of the published format; `drop` leaves a member out."""
    grid = small(name)
    labels = labels_of(grid) if labels is None else labels
    if name in FOLDERS:
        return write_pngs(folder, name, noise(grid.n, 128, 128, 3) if pictures is None else pictures, labels, drop=drop)
    if name == "dsprites":
        pictures = noise(grid.n, 64, 64, most=2) if pictures is None else pictures
        classes = np.column_stack([np.zeros(grid.n), grid.codes(np.arange(grid.n))]).astype(np.int64)
        trap = np.array([Trap(folder / "sprung")], dtype=object)
        arrays = {"metadata": trap, "imgs": pictures, "latents_classes": classes, "latents_values": labels}
    else:
        pictures = noise(grid.n, 64, 64, 3) if pictures is None else pictures
        arrays = {"images": pictures, **({"labels": labels} if name == "shapes3d" else {})}
    arrays = {key: value for key, value in arrays.items() if key != drop}
    if name != "shapes3d":
        return write_npz(folder / f"{name}.npz", compressed=compressed, **arrays)
    with h5py.File(folder / "3dshapes.h5", "w") as file:
        for key, value in arrays.items():
            packing = {"compression": "gzip", "chunks": (7, *[2] * (value.ndim - 1))} if compressed else {}
            file.create_dataset(key, data=value, **packing)
    return folder / "3dshapes.h5"


def write_pngs(folder: Path, name: str, pictures: Any, labels: NDArray[Any], *, drop: str = "") -> Path:
    top, table = FOLDERS[name]
    path = folder / f"{name}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{top}/images/", "")
        for k in reversed(range(len(pictures))):  # order in the archive does not matter, numbers do
            if drop != f"{k:06}.png":
                archive.writestr(f"{top}/images/{k:06}.png", png(pictures[k]))
        if drop != table:
            archive.writestr(f"{top}/{table}", npy(labels))
    return path


def read(path: Path, name: str, **options: Any) -> FactorPictures:
    return read_factor_pictures(path, grid=small(name), **options)


def message(call: Callable[[], Any], kind: type[Exception] = DataError) -> str:
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    return text


def stored(name: str) -> NDArray[np.uint8]:
    """What the pictures of `write` must come back as."""
    n = small(name).n
    if name == "dsprites":
        return np.repeat(noise(n, 64, 64, most=2)[:, None] * np.uint8(255), 3, axis=1)
    return noise(n, 64, 64, 3).transpose(0, 3, 1, 2)


# -- round trips


@pytest.mark.parametrize("compressed", [True, False], ids=["compressed", "stored"])
@pytest.mark.parametrize("name", ["shapes3d", "mpi3d", "dsprites"])
def test_arrays_come_back_as_written(name: str, compressed: bool, tmp_path: Path) -> None:
    data = read(write(tmp_path, name, compressed=compressed), name)
    grid = small(name)
    assert (data.name, data.grid, data.n, data.resolution) == (DATASETS[name].name, grid, grid.n, 64)
    assert data.sha256 is None
    index = np.random.default_rng(SEED).permutation(grid.n)[:9]
    index = np.concatenate([index, index[:2]])  # in any order, more than once
    pictures = data.pictures(index)
    assert pictures.shape == (11, 3, 64, 64)
    assert pictures.dtype == np.uint8
    np.testing.assert_array_equal(pictures, stored(name)[index])
    np.testing.assert_array_equal(data.codes(index), grid.codes(index))
    assert not np.array_equal(pictures[0], pictures[1])
    assert data.pictures([]).shape == (0, 3, 64, 64)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("unpacked", [False, True])
@pytest.mark.parametrize("name", ["falcor3d", "isaac3d"])
def test_pngs_come_back_at_half_the_side(name: str, unpacked: bool, tmp_path: Path) -> None:
    grid = small(name)
    y, x = np.mgrid[:128, :128]
    smooth = [127 + 120 * np.sin(x / 17 + k) * np.cos(y / 23 * (1 + c)) for k in range(grid.n) for c in range(3)]
    large = np.round(smooth).astype(np.uint8).reshape(grid.n, 3, 128, 128).transpose(0, 2, 3, 1)
    path = write(tmp_path, name, pictures=large)
    if unpacked:
        zipfile.ZipFile(path).extractall(tmp_path / "unpacked")
        path = tmp_path / "unpacked"
    data = read(path, name)
    assert data.grid == grid
    shown = data.pictures(np.arange(grid.n)[::-1])[::-1].astype(float)
    means = large.astype(float).reshape(grid.n, 64, 2, 64, 2, 3).mean(axis=(2, 4)).transpose(0, 3, 1, 2)
    assert abs(shown - means).max() < 3  # a smooth picture hardly depends on the kernel
    assert abs(shown[1:] - means[:-1]).max() > 20
    assert data.name == DATASETS[name].name


def test_halving_is_the_antialiased_bicubic_of_pillow() -> None:
    """Pillow's filter is Keys' with a = -0.5, stretched, in floating point for mode F: the same as TensorFlow's."""
    weights = picture_stores.bicubic_weights(128, 64)
    picture = noise(128, 128).astype(np.float32)
    expected = np.asarray(Image.fromarray(picture).resize((64, 64), Image.Resampling.BICUBIC))
    np.testing.assert_allclose(weights @ picture @ weights.T, expected, atol=2e-3)
    linear = np.asarray(Image.fromarray(picture).resize((64, 64), Image.Resampling.BILINEAR))
    assert abs(linear - expected).max() > 10
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)


def test_overshoot_is_clipped_and_not_wrapped(tmp_path: Path) -> None:
    edge = np.zeros((small("falcor3d").n, 128, 128, 3), np.uint8)
    edge[:, :, 64:] = 255
    shown = read(write(tmp_path, "falcor3d", pictures=edge), "falcor3d").pictures([0])[0, 0, 32]
    assert shown[:31].max() < 20
    assert shown[33:].min() > 235
    assert (picture_stores.bicubic_weights(128, 64) < 0).any()  # so that there is something to clip


def test_an_opaque_fourth_channel_is_dropped_and_a_transparent_one_refused(tmp_path: Path) -> None:
    n = small("isaac3d").n
    colours = noise(n, 128, 128, 3)
    opaque = np.concatenate([colours, np.full((n, 128, 128, 1), 255, np.uint8)], axis=3)
    plain = read(write(tmp_path, "isaac3d", pictures=colours), "isaac3d").pictures([3])
    np.testing.assert_array_equal(read(write(tmp_path, "isaac3d", pictures=opaque), "isaac3d").pictures([3]), plain)
    opaque[3, 0, 0, 3] = 254
    data = read(write(tmp_path, "isaac3d", pictures=opaque), "isaac3d")
    assert "000003.png: expected red," in message(lambda: data.pictures([3]))
    grey = read(write(tmp_path, "isaac3d", pictures=opaque[..., 0]), "isaac3d")
    assert "got mode L" in message(lambda: grey.pictures([0]))


def test_the_published_sizes_are_those_of_the_specification() -> None:
    assert {key: d.grid.n for key, d in DATASETS.items()} == {
        "shapes3d": 480_000,
        "mpi3d": 460_800,
        "falcor3d": 233_280,
        "isaac3d": 737_280,
        "dsprites": 737_280,
    }
    # The multipliers of the READMEs: 245,760 = 737,280 / 3, …
    assert DATASETS["isaac3d"].grid.index([[1, 0, 0, 0, 0, 0, 0, 0, 0]]).tolist() == [245_760]
    assert DATASETS["isaac3d"].grid.index([[0, 1, 0, 0, 0, 0, 0, 0, 0]]).tolist() == [30_720]
    assert DATASETS["falcor3d"].grid.index([[1, 0, 0, 0, 0, 0, 0]]).tolist() == [46_656]


# -- what is refused


@pytest.mark.parametrize("name", SMALL)
def test_a_file_of_another_size_than_published_is_refused(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name)
    text = message(lambda: read_factor_pictures(path))
    n = DATASETS[name].grid.n
    assert f"{n:,} pictures" in text or f"({n}, 64, 64" in text
    read(path, name)


@pytest.mark.parametrize("name", ["shapes3d", "mpi3d", "dsprites"])
def test_pictures_of_the_wrong_shape_or_type_are_refused(name: str, tmp_path: Path) -> None:
    n = small(name).n
    text = message(lambda: read(write(tmp_path, name, pictures=noise(n, 32, 32, 3)), name))
    assert f"({n}, 64, 64" in text
    assert f"got {(n, 32, 32, 3)}" in text
    shape = (n, 64, 64) if name == "dsprites" else (n, 64, 64, 3)
    text = message(lambda: read(write(tmp_path, name, pictures=np.zeros(shape, np.float32)), name))
    assert re.search(naming("uint8", "got float32"), text)


def test_a_png_of_another_size_is_refused_before_it_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read(write(tmp_path, "falcor3d", pictures=noise(small("falcor3d").n, 64, 64, 3)), "falcor3d")
    monkeypatch.setattr(Image, "open", lambda *_: pytest.fail("it was decoded"))
    assert re.search(naming("128 x 128", "64 x 64"), message(lambda: data.pictures([0])))


@pytest.mark.parametrize("name", ["shapes3d", "falcor3d", "isaac3d"])
def test_labels_in_another_order_are_refused(name: str, tmp_path: Path) -> None:
    labels = labels_of(small(name))
    swapped = labels.copy()
    swapped[:, [0, -2 if name == "falcor3d" else -1]] = labels[:, [-2 if name == "falcor3d" else -1, 0]]
    path = write(tmp_path, name, labels=swapped)
    text = message(lambda: read(path, name))
    assert f"column 0, {small(name).names[0]}" in text
    assert read(path, name, check=False).n == small(name).n
    shuffled = np.random.default_rng(SEED).permutation(labels)
    assert "first that does" in message(lambda: read(write(tmp_path, name, labels=shuffled), name))
    constant = labels.copy()
    constant[:, 0] = 1
    assert "two levels have" in message(lambda: read(write(tmp_path, name, labels=constant), name))
    missing = labels.copy()
    missing[3, 0] = np.nan
    assert "row 3 is" in message(lambda: read(write(tmp_path, name, labels=missing), name))
    assert "labels for each" in message(lambda: read(write(tmp_path, name, labels=labels[:, 1:]), name))
    text = message(lambda: read(write(tmp_path, name, labels=labels.astype("S8")), name))
    assert "expected numbers" in text


def test_one_wrong_label_at_the_end_is_found(tmp_path: Path) -> None:
    labels = labels_of(small("shapes3d"))
    labels[-1, 3] = 0.5
    text = message(lambda: read(write(tmp_path, "shapes3d", labels=labels), "shapes3d"))
    sizes = " x ".join(map(str, small("shapes3d").sizes))
    assert re.search(naming(sizes, "floor_hue, wall_hue", f"row {len(labels) - 1}"), text)


def test_classes_of_dsprites_in_another_order_or_colour_are_refused(tmp_path: Path) -> None:
    grid = small("dsprites")
    classes = np.column_stack([np.zeros(grid.n), grid.codes(np.arange(grid.n))]).astype(np.int64)
    pictures = noise(grid.n, 64, 64, most=2)

    def saved(changed: NDArray[Any]) -> Path:
        return write_npz(tmp_path / "d.npz", compressed=True, imgs=pictures, latents_classes=changed)

    assert read(saved(classes), "dsprites").n == grid.n
    assert "column 0, shape" in message(lambda: read(saved(classes[:, [0, 2, 1, 3, 4, 5]]), "dsprites"))
    assert "expected one colour" in message(lambda: read(saved(classes + np.eye(6, dtype=int)[0]), "dsprites"))


def test_pixels_of_dsprites_above_one_are_refused(tmp_path: Path) -> None:
    pictures = noise(small("dsprites").n, 64, 64, most=2)
    pictures[5, 0, 0] = 2
    data = read(write(tmp_path, "dsprites", pictures=pictures), "dsprites")
    assert data.pictures([4]).max() == 255
    assert re.search(naming("0 or 1", "got 2"), message(lambda: data.pictures([5])))


@pytest.mark.parametrize(
    ("name", "drop", "complaint"),
    [
        ("shapes3d", "images", "an array images"),
        ("shapes3d", "labels", "an array labels"),
        ("dsprites", "latents_classes", "an array latents_classes, found metadata,"),
        ("falcor3d", "train-rec.labels", "Falcor3D_down128/train-rec.labels: there is"),
        ("isaac3d", "labels.npy", "Isaac3D_down128/labels.npy: there is"),
        ("isaac3d", "000004.png", "expected 12 pictures, 000000.png to 000011.png, found 11"),
    ],
)
def test_a_missing_part_is_named(name: str, drop: str, complaint: str, tmp_path: Path) -> None:
    assert complaint in message(lambda: read(write(tmp_path, name, drop=drop), name))


def test_pictures_missing_from_a_folder_are_counted(tmp_path: Path) -> None:
    zipfile.ZipFile(write(tmp_path, "isaac3d")).extractall(tmp_path)
    folder = tmp_path / "Isaac3D_down128"
    (folder / "images" / "000004.png").rename(folder / "images" / "000400.png")
    assert re.search(naming(12, 11), message(lambda: read(folder, "isaac3d")))
    shutil.rmtree(folder / "images")
    assert "folder of pictures" in message(lambda: read(folder, "isaac3d"))


@pytest.mark.parametrize("compressed", [True, False], ids=["compressed", "stored"])
@pytest.mark.parametrize("name", SMALL)
def test_a_truncated_file_is_refused(name: str, compressed: bool, tmp_path: Path) -> None:
    path = write(tmp_path, name, compressed=compressed)
    whole = path.read_bytes()
    for kept in (len(whole) // 3, len(whole) - 40):
        path.write_bytes(whole[:kept])
        text = message(lambda: read(path, name).pictures(np.arange(small(name).n)))
        assert "truncated" in text or "does not match" in text, text
    path.write_bytes(whole)
    read(path, name).pictures([0])


@pytest.mark.parametrize("name", ["mpi3d", "dsprites", "falcor3d", "shapes3d"])
def test_flipped_bytes_inside_compressed_pictures_are_noticed(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name)
    whole = bytearray(path.read_bytes())
    for k in range(len(whole) // 4, len(whole) // 4 + 400):
        whole[k] ^= 0x5A
    path.write_bytes(whole)
    text = message(lambda: read(path, name, check=False).pictures(np.arange(small(name).n)))
    assert "damaged" in text


def test_the_other_sets_of_mpi3d_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "mpi3d_real.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (1_036_800, 64, 64, 3)}
    )
    size = 1_036_800 * 64 * 64 * 3
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", header.getvalue())
    declared = (len(header.getvalue()) + size).to_bytes(8, "little")
    # A directory that declares all 12.7 GB (in the zip64 field), without the bytes: what counts is what it says.
    raw = path.read_bytes()
    start = raw.index(b"PK\x01\x02")
    entry = bytearray(raw[start:])
    packed = entry[20:24]
    entry[24:28] = b"\xff\xff\xff\xff"
    name_end = 46 + len("images.npy")
    extra = b"\x01\x00\x08\x00" + declared
    entry[30:32] = len(extra).to_bytes(2, "little")
    entry[name_end:name_end] = extra
    end = entry.index(b"PK\x05\x06")
    entry[end + 12 : end + 16] = (end).to_bytes(4, "little")
    assert entry[20:24] == packed
    path.write_bytes(raw[:start] + bytes(entry))
    text = message(lambda: read_factor_pictures(path))
    assert re.search(naming("MPI3D", "real_complex", 460_800), text)


def test_nothing_pickled_is_ever_loaded(tmp_path: Path) -> None:
    trap = np.array([Trap(tmp_path / "sprung")], dtype=object)
    grid = small("dsprites")
    pictures = noise(grid.n, 64, 64, most=2)
    paths = [
        write_npz(tmp_path / "a.npz", compressed=True, imgs=trap, latents_classes=trap),
        write_npz(tmp_path / "b.npz", compressed=True, imgs=pictures, latents_classes=trap),
        write_npz(tmp_path / "c.npz", compressed=False, images=trap),
    ]
    for path, name in zip(paths, ("dsprites", "dsprites", "mpi3d"), strict=True):
        assert "Python objects (pickled)" in message(lambda p=path, k=name: read(p, k))
    for name in FOLDERS:
        path = write(tmp_path, name, labels=trap)
        assert "never loaded" in message(lambda p=path, k=name: read(p, k))
    assert not (tmp_path / "sprung").exists()
    pickle.loads(pickle.dumps(Trap(tmp_path / "sprung")))
    assert (tmp_path / "sprung").exists()  # the trap works


def test_a_zip_that_inflates_past_what_it_declares_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "falcor3d")
    with zipfile.ZipFile(path) as archive:
        members = {m.filename: archive.read(m) for m in archive.infolist()}
    members["Falcor3D_down128/images/000002.png"] = bytes(50_000_000)
    members["Falcor3D_down128/../../outside.png"] = b"never written"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    data = read(path, "falcor3d")
    assert "1,048,576 bytes" in message(lambda: data.pictures([2]))
    assert data.pictures([1]).shape == (1, 3, 64, 64)
    raw = bytearray(path.read_bytes())
    entry = raw.index(b"PK\x01\x02", raw.index(b"PK\x01\x02"))
    while b"000002.png" not in raw[entry : entry + 46 + 60]:
        entry = raw.index(b"PK\x01\x02", entry + 4)
    raw[entry + 24 : entry + 28] = (1000).to_bytes(4, "little")  # now it lies: 1,000 bytes
    path.write_bytes(raw)
    lying = read(path, "falcor3d")
    assert "000002.png: damaged or" in message(lambda: lying.pictures([2]))
    assert not (tmp_path.parent / "outside.png").exists()


def test_hdf5_that_leads_into_another_file_is_refused(tmp_path: Path) -> None:
    secret = write(tmp_path, "shapes3d").rename(tmp_path / "secret.h5")
    grid = small("shapes3d")
    linked = tmp_path / "linked.h5"
    with h5py.File(linked, "w") as file:
        file["images"] = h5py.ExternalLink(str(secret), "images")
        file["labels"] = labels_of(grid)
    virtual = tmp_path / "virtual.h5"
    with h5py.File(virtual, "w") as file:
        layout = h5py.VirtualLayout((grid.n, 64, 64, 3), np.uint8)
        layout[:] = h5py.VirtualSource(str(secret), "images", (grid.n, 64, 64, 3))
        file.create_virtual_dataset("images", layout)
        file["labels"] = labels_of(grid)
    elsewhere = tmp_path / "elsewhere.h5"
    with h5py.File(elsewhere, "w") as file:
        places = [(str(secret), 0, grid.n * 64 * 64 * 3)]
        file.create_dataset("images", (grid.n, 64, 64, 3), np.uint8, external=places)
        file["labels"] = labels_of(grid)
    for path in (linked, virtual, elsewhere):
        assert "the file itself" in message(lambda p=path: read(p, "shapes3d"))
    read(secret, "shapes3d")


# -- checksums, names, missing files


def test_checksums_are_compared_only_with_what_is_given(tmp_path: Path) -> None:
    path = write(tmp_path, "shapes3d")
    true = hashlib.sha256(path.read_bytes()).hexdigest()
    wrong = "0" * 64
    assert read(path, "shapes3d").sha256 is None
    assert read(path, "shapes3d", checksum=True).sha256 == true
    assert read(path, "shapes3d", expected_sha256=true.upper()).sha256 == true
    text = message(lambda: read(path, "shapes3d", expected_sha256=wrong))
    assert f"expected sha256 {wrong} (expected_sha256), found {true}" in text
    sidecar = tmp_path / "3dshapes.h5.sha256"
    sidecar.write_text(f"{true}  3dshapes.h5\n")
    assert read(path, "shapes3d").sha256 == true
    sidecar.write_text(f"{wrong}  3dshapes.h5\n")
    assert f"expected sha256 {wrong} ({sidecar}), found {true}" in message(lambda: read(path, "shapes3d"))
    assert read(path, "shapes3d", check=False).sha256 is None
    assert read(path, "shapes3d", expected_sha256=true).sha256 == true  # what the caller says comes first
    for nonsense in ("", "abc\n"):
        sidecar.write_text(nonsense)
        assert "64 hexadecimal digits" in message(lambda: read(path, "shapes3d"), UsageError)


def test_a_folder_has_no_checksum(tmp_path: Path) -> None:
    zipfile.ZipFile(write(tmp_path, "falcor3d")).extractall(tmp_path)
    text = message(lambda: read(tmp_path / "Falcor3D_down128", "falcor3d", checksum=True), UsageError)
    assert "a folder has" in text


@pytest.mark.parametrize("name", SMALL)
def test_a_missing_file_says_where_to_get_it(name: str, tmp_path: Path) -> None:
    known = DATASETS[name]
    path = tmp_path / "nowhere.bin"
    for text in (
        message(lambda: read_factor_pictures(path, dataset=name.upper())),
        message(lambda: read_factor_pictures(tmp_path / f"{known.file_hint}_v1.zip")),
        message(lambda: read_factor_pictures(name)),
    ):
        assert known.url in text
        assert known.name in text
        assert (known.size or "") in text
    told = message(lambda: read_factor_pictures(path))
    assert all(f"{d.name} from {d.url}" in told for d in DATASETS.values())
    path.touch()
    assert "download" not in message(lambda: read_factor_pictures(path))


def test_what_is_no_data_set_is_refused_with_what_could_be(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("not an archive")
    text = message(lambda: read_factor_pictures(tmp_path / "text.npz"))
    assert re.search(naming("Shapes3D", "HDF5", "`images`", "`labels`"), text)
    assert "b'not an a'" in text
    other = write_npz(tmp_path / "other.npz", compressed=True, x_train=np.zeros(3))
    assert "archive of x_train.npy" in message(lambda: read_factor_pictures(other))
    (tmp_path / "empty").mkdir()
    assert "folder without either" in message(lambda: read_factor_pictures(tmp_path / "empty"))
    assert "shapes3d, mpi3d" in message(lambda: read_factor_pictures(other, dataset="cars3d"), UsageError)


def test_a_name_that_does_not_fit_the_file_is_refused(tmp_path: Path) -> None:
    zipped = write(tmp_path, "mpi3d")
    assert "not HDF5" in message(lambda: read(zipped, "shapes3d", dataset="shapes3d"))
    assert "an array imgs," in message(lambda: read(zipped, "dsprites", dataset="dsprites"))
    assert "expected 12 pictures" in message(lambda: read(zipped, "falcor3d", dataset="falcor3d"))
    hdf5 = write(tmp_path, "shapes3d")
    assert "looks like HDF5" in message(lambda: read(hdf5, "mpi3d", dataset="mpi3d"))
    assert read(zipped, "mpi3d", dataset="MPI3D").name == "MPI3D real_complex"


def test_a_grid_of_other_factors_or_more_levels_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "shapes3d")
    for grid in (small("dsprites"), FactorGrid(DATASETS["shapes3d"].grid.names, (11, 1, 1, 1, 1, 1))):
        text = message(lambda g=grid: read_factor_pictures(path, grid=g), UsageError)
        assert "factors of Shapes3D" in text


def test_pictures_outside_the_grid_are_refused(tmp_path: Path) -> None:
    data = read(write(tmp_path, "shapes3d"), "shapes3d")
    text = message(lambda: data.pictures([data.n]), UsageError)
    assert re.search(naming("index: ", 0, data.n - 1, "got", data.n, data.n), text)
