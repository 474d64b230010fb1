"""The published data sets of pictures with known factors, read from the files their authors give away.

Nothing is downloaded: a missing file is an error that says where it can be had. Pictures are fetched when asked for.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identifiable._checks import DataError, UsageError
from identifiable.experiments.picture_stores import (
    AGAIN,
    Halved,
    Hdf5Pictures,
    PictureArchive,
    PictureStore,
    PngArchive,
    PngFolder,
)
from identifiable.io.containers import check_is_file, named, reason
from identifiable.io.stored_rows import FileBytes
from identifiable.worlds.factor_grid import FactorGrid

RESOLUTION = 64
READ_TOGETHER = 512  # pictures
HASHED_TOGETHER = 2**22  # bytes
ZIP, HDF5 = b"PK", b"\x89HDF"  # how the files begin
FIRST_NAME = 30  # where a zip has the name of its first member
ARCHIVE_PICTURES, ARCHIVE_LABELS = (
    "imgs",
    "latents_classes",
)  # keys of dSprites; its `metadata` is a pickle: not touched
MPI3D_OTHERS = 1_036_800  # pictures of its toy, realistic and real sets


@dataclass(frozen=True)
class DataSet:
    """What is published: where it can be had, and what the file must hold. `size` is of the download, if known."""

    name: str
    grid: FactorGrid
    format: str
    url: str
    size: str | None
    licence: str | None
    file_hint: str  # part of the usual file name

    @property
    def where(self) -> str:
        facts = ", ".join(fact for fact in (self.size, self.licence) if fact)
        return f"{self.url} ({facts})" if facts else self.url


def _grid(**sizes: int) -> FactorGrid:
    return FactorGrid(tuple(sizes), tuple(sizes.values()))


_DRIVE = "https://drive.google.com/uc?id="

# Factors in the order of the files, the slowest first. No checksum of a published file is known to us.
DATASETS: dict[str, DataSet] = {
    "shapes3d": DataSet(
        "Shapes3D",
        _grid(floor_hue=10, wall_hue=10, object_hue=10, scale=8, shape=4, orientation=15),
        "HDF5 with `images` and `labels`",
        "https://storage.googleapis.com/3d-shapes/3dshapes.h5",
        "268 MB",
        "Apache-2.0",
        "3dshapes",
    ),
    "mpi3d": DataSet(
        "MPI3D real_complex",
        _grid(
            object_color=4,
            object_shape=4,
            object_size=2,
            camera_height=3,
            background_color=3,
            horizontal_axis=40,
            vertical_axis=40,
        ),
        ".npz with `images`",
        f"{_DRIVE}1Tp8eTdHxgUMtsZv5uAoYAbJR1BOa_OQm",
        None,
        "CC-BY 4.0",
        "mpi3d",
    ),
    "falcor3d": DataSet(
        "Falcor3D",
        FactorGrid(
            (
                "lighting_intensity",
                *(f"lighting_{axis}-dir" for axis in "xyz"),
                *(f"camera_{axis}-pos" for axis in "xyz"),
            ),
            (5, 6, 6, 6, 6, 6, 6),
        ),
        "zip of Falcor3D_down128/images/%06d.png and train-rec.labels",
        f"{_DRIVE}1XAQfFK1x6cpN1eiovbP0hVfLTm5SsSoJ",
        "3.7 GB",
        "CC-BY 4.0",
        "falcor3d",
    ),
    "isaac3d": DataSet(
        "Isaac3D",
        FactorGrid(
            (
                "object_shape",
                "robot_x",
                "robot_y",
                "camera_height",
                "object_scale",
                "lighting_intensity",
                "lighting_y-dir",
                "object_color",
                "wall_color",
            ),
            (3, 8, 5, 4, 4, 4, 6, 4, 4),
        ),
        "zip of Isaac3D_down128/images/%06d.png and labels.npy",
        f"{_DRIVE}1OmQ1G2wnm6eTsSFGTKFZZAh5D3nQTW1B",
        "13 GB",
        "CC-BY 4.0",
        "isaac3d",
    ),
    "dsprites": DataSet(
        "dSprites",
        _grid(shape=3, scale=6, orientation=40, x=32, y=32),
        ".npz with `imgs` and `latents_classes`",
        "https://github.com/google-deepmind/dsprites-dataset",
        None,
        None,
        "dsprites",
    ),
}
PNG_FOLDERS = {"falcor3d": ("Falcor3D_down128", "train-rec.labels"), "isaac3d": ("Isaac3D_down128", "labels.npy")}


@dataclass(frozen=True, eq=False)
class FactorPictures:
    """A data set whose pictures are read when asked for: picture `i` shows the factors `codes([i])`.

    `sha256` is of the file, if it was asked for or compared.
    """

    name: str
    grid: FactorGrid
    resolution: int
    sha256: str | None
    store: PictureStore = field(repr=False)

    @property
    def n(self) -> int:
        return self.grid.n

    def codes(self, index: ArrayLike) -> NDArray[np.int64]:
        """The level of each factor, (k, factors)."""
        return self.grid.codes(index)

    def pictures(self, index: ArrayLike) -> NDArray[np.uint8]:
        """(k, 3, resolution, resolution), 0 to 255; only these are in memory."""
        places = self.grid.checked_index(index)
        out = np.empty((places.size, 3, self.resolution, self.resolution), np.uint8)
        for start in range(0, places.size, READ_TOGETHER):
            some = slice(start, start + READ_TOGETHER)
            out[some] = self.store.read(places[some]).transpose(0, 3, 1, 2)  # one channel fills all three
        return out


def read_factor_pictures(
    path: str | os.PathLike[str],
    *,
    dataset: str | None = None,
    check: bool = True,
    grid: FactorGrid | None = None,
    expected_sha256: str | None = None,
    checksum: bool = False,
) -> FactorPictures:
    """Open the file of a published data set: Shapes3D, MPI3D real_complex, Falcor3D, Isaac3D or dSprites.

    Pictures come as three channels of 64 x 64. Those of Falcor3D and Isaac3D are made from the release of 128 x 128;
    those of dSprites are 0 and 255 in three equal channels. What a file holds compressed in one piece (Shapes3D, dSprites,
    perhaps MPI3D) is unpacked into a temporary file, 3 to 6 GB, at the first picture; TMPDIR says where.

    Parameters
    ----------
    path
        The file as it was downloaded. Falcor3D and Isaac3D may be a folder that was unpacked from it.
    dataset
        A key of `DATASETS`; recognised by the content if not given.
    check
        Compare every row of labels with the grid of factors, in its published order, and the file with `path`.sha256 if
        there is one, as `sha256sum` writes it. (MPI3D has no labels: only the number of pictures is known.)
    grid
        For a file of the published format with fewer levels: how many of each factor.
    expected_sha256
        Refuse any other file. The authors of these sets publish none that is known to us.
    checksum
        Compute the sha256 of the file even if there is nothing to compare it with.
    """
    file = Path(os.fsdecode(path))
    known = None if dataset is None else _known(dataset)
    _check_present(file, known)
    key = known or _recognised(file)
    wanted = DATASETS[key].grid if grid is None else _checked_grid(grid, key)
    store, labels = OPENERS[key](file, key, wanted, check)
    if labels is not None:
        check_row_major(labels, wanted, f"{file}: labels of {DATASETS[key].name}")
    found = _checksum(file, expected_sha256, check=check, wanted=checksum)
    return FactorPictures(DATASETS[key].name, wanted, RESOLUTION, found, store)


def check_row_major(labels: NDArray[Any], grid: FactorGrid, label: str) -> None:
    """Refuse labels that are not this grid, row by row: a column must depend on its own factor, one value for each level."""
    stride = grid.n
    for j, (name, size) in enumerate(zip(grid.names, grid.sizes, strict=True)):
        period, stride = stride, stride // size
        values = labels[:period:stride, j]
        wrong = np.flatnonzero(labels[:, j] != np.tile(np.repeat(values, stride), grid.n // period))
        if wrong.size or np.unique(values).size != size:
            where = f"row {wrong[0]:,} is the first that does not fit" if wrong.size else "two levels have one value"
            raise DataError(
                f"{label}: column {j}, {name}, is not that of a grid {' x '.join(map(str, grid.sizes))} of "
                f"{', '.join(grid.names)} with the first slowest ({where}); the factors are in another order, or it is "
                "another file."
            )


# -- which data set it is


def _known(dataset: str) -> str:
    if dataset.lower() not in DATASETS:
        raise UsageError(f"dataset: expected one of {', '.join(DATASETS)}, got {dataset!r}.")
    return dataset.lower()


def _check_present(path: Path, known: str | None) -> None:
    if path.is_dir():
        return
    name = path.name.lower()
    likely = known or next((key for key, d in DATASETS.items() if d.file_hint in name or key in name), None)
    if not os.path.lexists(path):
        if likely is not None:
            missing = f"{DATASETS[likely].name} is not part of this package: download it yourself from {DATASETS[likely].where}"
        else:
            sets = "; ".join(f"{d.name} from {d.where}" for d in DATASETS.values())
            missing = (
                f"published data sets are not part of this package: check the path, or download one yourself: {sets};"
            )
        raise DataError(f"{path}: no such file; {missing} and name the file.")
    check_is_file(path)


def _recognised(path: Path) -> str:
    if path.is_dir():
        for key, (folder, labels) in PNG_FOLDERS.items():
            if (path / folder).is_dir() or (path / labels).is_file():
                return key
        raise _unknown(path, "a folder without either set of labels")
    head = FileBytes.open(path, str(path)).read(0, 64)
    if head.startswith(HDF5):
        return "shapes3d"
    if not head.startswith(ZIP):
        raise _unknown(path, f"a file that begins with {head[:8]!r}")
    for key, (folder, _) in PNG_FOLDERS.items():
        if head.startswith(folder.encode(), FIRST_NAME):  # spares listing hundreds of thousands of members twice
            return key
    names = [member.filename for member in _members(FileBytes.open(path, str(path)))]
    for key, (folder, _) in PNG_FOLDERS.items():
        if any(name.startswith(f"{folder}/") for name in names):
            return key
    for key, member in (("dsprites", f"{ARCHIVE_PICTURES}.npy"), ("mpi3d", "images.npy")):
        if member in names:
            return key
    raise _unknown(path, f"an archive of {named(names) or 'nothing'}")


def _unknown(path: Path, what: str) -> DataError:
    formats = "; ".join(f"{d.name} ({d.format})" for d in DATASETS.values())
    return DataError(f"{path}: expected the published file of one of {formats}; got {what}; check the path.")


def _checked_grid(grid: FactorGrid, key: str) -> FactorGrid:
    published = DATASETS[key].grid
    if grid.names != published.names or any(a > b for a, b in zip(grid.sizes, published.sizes, strict=True)):
        raise UsageError(
            f"grid: expected the factors of {DATASETS[key].name}, at most {dict(zip(*_pair(published), strict=True))}, "
            f"got {dict(zip(*_pair(grid), strict=True))}."
        )
    return grid


def _pair(grid: FactorGrid) -> tuple[tuple[str, ...], tuple[int, ...]]:
    return grid.names, grid.sizes


def _members(file: FileBytes) -> list[zipfile.ZipInfo]:
    try:
        with file.stream() as stream, zipfile.ZipFile(stream) as archive:
            return archive.infolist()
    except Exception as error:  # zipfile raises a dozen unrelated types on damaged archives
        raise DataError(f"{file.label}: the zip is damaged or truncated ({reason(error)}); {AGAIN}.") from None


# -- one way in for each format: the pictures, and the labels if there are any to compare

Opened = tuple[PictureStore, NDArray[Any] | None]


def _open_shapes3d(path: Path, key: str, grid: FactorGrid, check: bool) -> Opened:
    file = Hdf5Pictures(path, "images", "labels", (grid.n, RESOLUTION, RESOLUTION, 3))
    return file.pictures(), file.labels(len(grid.names)) if check else None


def _open_mpi3d(path: Path, key: str, grid: FactorGrid, check: bool) -> Opened:
    archive = PictureArchive(path)
    if archive.length("images") == MPI3D_OTHERS != grid.n:
        raise DataError(
            f"{path}: {MPI3D_OTHERS:,} pictures are the toy, realistic or real set of MPI3D; expected real_complex, "
            f"{grid.n:,}: {DATASETS[key].where}"
        )
    return archive.pictures("images", (grid.n, RESOLUTION, RESOLUTION, 3)), None


def _open_pngs(path: Path, key: str, grid: FactorGrid, check: bool) -> Opened:
    folder, name = PNG_FOLDERS[key]
    source: PngArchive | PngFolder
    if path.is_dir():
        source = PngFolder(path / folder if (path / folder).is_dir() else path, grid.n, 2 * RESOLUTION)
    else:
        file = FileBytes.open(path, str(path))
        source = PngArchive(file, _members(file), folder, grid.n, 2 * RESOLUTION)
    return Halved(source, RESOLUTION), source.labels(name, (grid.n, len(grid.names))) if check else None


def _open_dsprites(path: Path, key: str, grid: FactorGrid, check: bool) -> Opened:
    archive = PictureArchive(path)
    pictures = _Silhouettes(archive.pictures(ARCHIVE_PICTURES, (grid.n, RESOLUTION, RESOLUTION)), str(path))
    if not check:
        return pictures, None
    classes = archive.labels(ARCHIVE_LABELS, (grid.n, len(grid.names) + 1))
    if classes[:, 0].any():
        raise DataError(f"{path}:{ARCHIVE_LABELS}: expected one colour, number 0, in the first column; {AGAIN}.")
    return pictures, classes[:, 1:]


OPENERS: dict[str, Callable[[Path, str, FactorGrid, bool], Opened]] = {
    "shapes3d": _open_shapes3d,
    "mpi3d": _open_mpi3d,
    "falcor3d": _open_pngs,
    "isaac3d": _open_pngs,
    "dsprites": _open_dsprites,
}


@dataclass(frozen=True)
class _Silhouettes:
    """Pictures of 0 and 1, as 0 and 255."""

    stored: PictureStore
    label: str

    def read(self, index: NDArray[np.int64]) -> NDArray[np.uint8]:
        values = self.stored.read(index)
        if values.size and values.max() > 1:
            raise DataError(f"{self.label}: expected pixels 0 or 1, got {values.max()}; {AGAIN}.")
        return values * np.uint8(255)


# -- checksums


def _checksum(path: Path, expected: str | None, *, check: bool, wanted: bool) -> str | None:
    source = "expected_sha256"
    sidecar = path.with_name(f"{path.name}.sha256")
    if expected is None and check and not path.is_dir() and sidecar.is_file():
        expected, source = _from_sidecar(sidecar), str(sidecar)
    if expected is None and not wanted:
        return None
    if path.is_dir():
        raise UsageError(f"{path}: a folder has no checksum; name the zip it was unpacked from.")
    if expected is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", expected):
        raise UsageError(f"{source}: expected a sha256, 64 hexadecimal digits, got {expected[:80]!r}.")
    digest = hashlib.sha256()
    with FileBytes.open(path, str(path)).stream() as stream:
        while chunk := stream.read(HASHED_TOGETHER):
            digest.update(chunk)
    found = digest.hexdigest()
    if expected is not None and expected.lower() != found:
        raise DataError(f"{path}: expected sha256 {expected.lower()} ({source}), found {found}; {AGAIN}.")
    return found


def _from_sidecar(path: Path) -> str:
    words = FileBytes.open(path, str(path)).read(0, 4096).decode("utf-8", "replace").split()
    return words[0] if words else ""
