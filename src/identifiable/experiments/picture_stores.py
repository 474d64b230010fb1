"""Where the pictures of a published data set lie, and how some of them are fetched: `.npz`, HDF5, a zip or folder of PNG.

Every length a file declares is compared with what is there, or with what the data set must have, before it is allocated;
nothing is unpickled, unpacked to a path that a file names, or inflated past its declared size.
"""

from __future__ import annotations

import io
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable._extras import require
from identifiable.io.anndata_files import dense_rows
from identifiable.io.array_files import HEADER_BYTES, LOCAL_HEADER, NpzFile, check_size, layout_of
from identifiable.io.containers import damage_named, named, pickled, reason
from identifiable.io.stored_rows import FileBytes, Layout, StoredRows

AGAIN = "copy or download it again"
PNG_HEAD = struct.Struct(">8s4s4sII")  # signature, length and type of the first chunk, width, height
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_BYTES = 2**20  # far more than a picture of 128 x 128 takes
PNG_NAME = re.compile(r"(\d{6})\.png")
KEYS_CUBIC = -0.5  # Keys' parameter in tf.image.resize(method="bicubic")

Raw = NDArray[np.uint8]


class PictureStore(Protocol):
    """Pictures by their numbers."""

    def read(self, index: NDArray[np.int64]) -> Raw:
        """(n, height, width, channels), as stored."""
        ...


def check_pictures(shape: tuple[int, ...], dtype: np.dtype[Any], expected: tuple[int, ...], label: str) -> None:
    """Refuse an array of pictures of another shape or type."""
    if shape != expected:
        raise DataError(
            f"{label}: expected pictures of shape {expected}, got {shape}; check that it is the right file."
        )
    if dtype != np.uint8:
        raise DataError(f"{label}: expected pixels as uint8, got {dtype}; {AGAIN}.")


# -- .npz


class PictureArchive(NpzFile):
    """Arrays of pictures in a `.npz`.

    A stored member is read where it lies. A compressed one is unpacked once, when first read, into a temporary file
    without a name, so memory stays small and TMPDIR needs room for all of it.
    """

    def pictures(self, name: str, shape: tuple[int, ...]) -> RowStore:
        label = f"{self._label}:{name}"
        layout = self._found(name)
        check_pictures(layout.shape, layout.stored, shape, label)
        if layout.fortran:
            raise DataError(f"{label}: expected pictures one after another (C order), got Fortran order; {AGAIN}.")
        return RowStore(partial(self._picture_rows, name), shape[1:])

    def length(self, name: str) -> int:
        return (*self._found(name).shape, 0)[0]

    def labels(self, name: str, shape: tuple[int, int]) -> NDArray[Any]:
        layout = self._found(name)
        check_labels(layout.shape, layout.stored, shape, f"{self._label}:{name}")
        return self.array(name)

    def _found(self, name: str) -> Layout:
        if name in self._broken:
            raise self._broken[name]
        if name not in self._layouts:
            held = named(self.names) or "no arrays"
            raise DataError(f"{self._label}: expected an array {name}, found {held}; check that it is the right file.")
        if self._layouts[name].stored.hasobject:
            raise DataError(pickled(f"{self._label}:{name}"))
        return self._layouts[name]

    def _picture_rows(self, name: str) -> StoredRows:
        return StoredRows(*_flat(*self.located(name)), partial(_archive_again, self._path.absolute(), name))


class RowStore:
    """Pictures as rows of an array in a file, which is unpacked or located when the first one is asked for."""

    def __init__(self, rows: Callable[[], StoredRows], shape: tuple[int, ...]):
        self._open, self._shape = rows, shape if len(shape) == 3 else (*shape, 1)

    @cached_property
    def _rows(self) -> StoredRows:
        return self._open()

    def read(self, index: NDArray[np.int64]) -> Raw:
        return self._rows[index].reshape(index.size, *self._shape)


def _flat(file: FileBytes, layout: Layout) -> tuple[FileBytes, Layout]:
    n, *rest = layout.shape
    return file, Layout(layout.offset, (n, math.prod(rest)), layout.stored)


def _archive_again(path: Path, name: str) -> StoredRows:
    return PictureArchive(path)._picture_rows(name)


def check_labels(shape: tuple[int, ...], dtype: np.dtype[Any], expected: tuple[int, int], label: str) -> None:
    """Refuse a table of labels of another shape, or of what is not numbers."""
    if shape != expected:
        raise DataError(
            f"{label}: expected a row of {expected[1]} labels for each of {expected[0]:,} pictures, got shape {shape}; "
            "check that it is the right file."
        )
    if dtype.kind not in "fiu":
        raise DataError(f"{label}: expected numbers, got {dtype}; {AGAIN}.")


# -- HDF5


class Hdf5Pictures:
    """Two arrays of an HDF5 file. h5py is asked what they are; rows are then read from the file itself.

    A compressed array is unpacked once, when first read, into a temporary file without a name: the published file's chunks
    cut across pictures, so that one picture costs as much as thousands.
    """

    def __init__(self, path: Path, images: str, labels: str, shape: tuple[int, ...]):
        self._path, self._label, self._images, self._labels, self._shape = path, str(path), images, labels, shape
        with self._dataset(images) as dataset:
            check_pictures(dataset.shape, dataset.dtype, shape, f"{path}:{images}")

    def pictures(self) -> RowStore:
        return RowStore(self._rows, self._shape[1:])

    def labels(self, width: int) -> NDArray[Any]:
        with self._dataset(self._labels) as dataset:
            check_labels(dataset.shape, dataset.dtype, (self._shape[0], width), f"{self._label}:{self._labels}")
            with damage_named(self._damaged):
                values: NDArray[Any] = dataset[...]
        return values

    def _rows(self) -> StoredRows:
        layout = Layout(0, (self._shape[0], math.prod(self._shape[1:])), np.dtype(np.uint8))
        with self._dataset(self._images) as dataset:
            return dense_rows(
                dataset, layout, FileBytes.open(self._path, self._label), self._label, self._damaged, self._rows
            )

    @contextmanager
    def _dataset(self, name: str) -> Iterator[Any]:
        require("h5py", extra="pictures", what="Shapes3D")
        import h5py

        with damage_named(self._damaged):
            file = h5py.File(self._path, "r")
        with file:
            with damage_named(self._damaged):
                kind = file.get(name, getlink=True)
                # A link or an array may lead into another file; what was named is this one.
                found = file[name] if isinstance(kind, h5py.HardLink) else None
                held = named(file)
            if not isinstance(found, h5py.Dataset) or found.is_virtual or found.external:
                raise DataError(
                    f"{self._label}: expected an array {name} in the file itself, found {held or 'nothing'}; "
                    "check that it is the right file."
                )
            yield found

    def _damaged(self, why: str) -> DataError:
        return DataError(f"{self._label}: not HDF5, or damaged or truncated ({why}); {AGAIN}.")


# -- a zip or a folder of PNG


class PngArchive:
    """`FOLDER/images/000000.png`, … and a `.npy` of labels in a zip.

    Of the archive's directory only where each picture lies is kept: some 30 bytes for each.
    """

    def __init__(self, file: FileBytes, members: Sequence[zipfile.ZipInfo], folder: str, n: int, side: int):
        self._file, self._side, self._folder = file, side, folder
        self._others = {m.filename: m for m in members if not m.filename.endswith(".png")}
        self._places = np.zeros((n, 5), np.int64)
        found = 0
        for member in members:
            if (number := png_number(member.filename, f"{folder}/images/")) is None:
                continue
            found += 1
            if number < n:
                self._places[number] = _place(member)
        check_count(found, int((self._places[:, 2] > 0).sum()), n, f"{file.label}:{folder}/images")

    def labels(self, name: str, shape: tuple[int, int]) -> NDArray[Any]:
        label = f"{self._file.label}:{self._folder}/{name}"
        if (member := self._others.get(f"{self._folder}/{name}")) is None:
            raise DataError(f"{label}: there is no such member in the archive; {AGAIN}.")
        most = math.prod(shape) * 8 + HEADER_BYTES
        return labels_from_npy(self._member(_place(member), most, label), shape, label)

    def read(self, index: NDArray[np.int64]) -> Raw:
        out = np.empty((index.size, self._side, self._side, 3), np.uint8)
        for k, number in enumerate(index.tolist()):
            label = f"{self._file.label}:{self._folder}/images/{number:06}.png"
            place = tuple(self._places[number].tolist())
            out[k] = decode_png(self._member(place, PNG_BYTES, label), self._side, label)
        return out

    def _member(self, place: tuple[int, ...], most: int, label: str) -> bytes:
        """The bytes of one member, if they are what the archive's directory says."""
        offset, packed, size, checksum, method = place
        if max(size, packed) > most:
            raise DataError(f"{label}: expected at most {most:,} bytes, the archive declares {size:,}; {AGAIN}.")
        head = self._file.read(offset, LOCAL_HEADER.size).ljust(LOCAL_HEADER.size, b"\0")
        signature, _, name_length, extra_length = LOCAL_HEADER.unpack(head)
        data = self._file.read(offset + LOCAL_HEADER.size + name_length + extra_length, packed)
        if method == zipfile.ZIP_DEFLATED:
            try:
                data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, size + 1)
            except zlib.error as error:
                raise DataError(f"{label}: damaged ({reason(error)}); {AGAIN}.") from None
        elif method != zipfile.ZIP_STORED:
            raise DataError(
                f"{label}: packed by a method that is not read here ({method}); unpack it, name the folder."
            )
        if signature != b"PK\x03\x04" or len(data) != size or zlib.crc32(data) != checksum:
            raise DataError(f"{label}: damaged or truncated (its size or checksum differs); {AGAIN}.")
        return data


class PngFolder:
    """The same, unpacked."""

    def __init__(self, folder: Path, n: int, side: int):
        self._folder, self._side = folder, side
        try:
            names = os.listdir(folder / "images")
        except OSError as error:
            raise DataError(f"{folder}/images: expected a folder of pictures ({error.strerror}); {AGAIN}.") from None
        numbers = {number for name in names if (number := png_number(name, "")) is not None}
        check_count(len(numbers), sum(number < n for number in numbers), n, f"{folder}/images")

    def labels(self, name: str, shape: tuple[int, int]) -> NDArray[Any]:
        path = self._folder / name
        return labels_from_npy(_small_file(path, math.prod(shape) * 8 + HEADER_BYTES), shape, str(path))

    def read(self, index: NDArray[np.int64]) -> Raw:
        out = np.empty((index.size, self._side, self._side, 3), np.uint8)
        for k, number in enumerate(index.tolist()):
            path = self._folder / "images" / f"{number:06}.png"
            out[k] = decode_png(_small_file(path, PNG_BYTES), self._side, str(path))
        return out


class Halved:
    """Pictures of twice the side, made smaller as they are read, as `tf.image.resize(bicubic, antialias=True)` does.

    Ours: rounded to uint8, at most half a level of 255 away from the unrounded values that Hsu et al. trained on.
    """

    def __init__(self, pictures: PictureStore, side: int):
        self._pictures, self._weights = pictures, bicubic_weights(2 * side, side)

    def read(self, index: NDArray[np.int64]) -> Raw:
        large = self._pictures.read(index).astype(np.float32)
        rows = np.einsum("ij,njkc->nikc", self._weights, large, optimize=True)
        small = np.einsum("ij,nkjc->nkic", self._weights, rows, optimize=True)
        rounded: Raw = np.rint(np.clip(small, 0, 255)).astype(np.uint8)
        return rounded


def bicubic_weights(source: int, target: int) -> NDArray[np.float32]:
    """(target, source): Keys' cubic kernel, stretched by source / target against aliasing, cut at the border, of sum 1."""
    ratio = source / target
    centres = (np.arange(target) + 0.5) * ratio - 0.5
    t = np.abs(np.arange(source)[None, :] - centres[:, None]) / ratio
    inner = ((KEYS_CUBIC + 2) * t - (KEYS_CUBIC + 3)) * t * t + 1
    outer = KEYS_CUBIC * (((t - 5) * t + 8) * t - 4)
    kernel = np.where(t <= 1, inner, np.where(t < 2, outer, 0))
    weights: NDArray[np.float32] = (kernel / kernel.sum(axis=1, keepdims=True)).astype(np.float32)
    return weights


def png_number(name: str, prefix: str) -> int | None:
    matched = PNG_NAME.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
    return None if matched is None else int(matched[1])


def check_count(found: int, within: int, n: int, label: str) -> None:
    if found != n or within != n:
        raise DataError(
            f"{label}: expected {n:,} pictures, 000000.png to {n - 1:06}.png, found {found:,}, {within:,} of them in that "
            f"range; {AGAIN}."
        )


def labels_from_npy(data: bytes, shape: tuple[int, int], label: str) -> NDArray[Any]:
    layout = layout_of(data[:HEADER_BYTES], label)
    if layout.stored.hasobject:
        raise DataError(pickled(label))
    check_labels(layout.shape, layout.stored, shape, label)
    check_size(layout, len(data), label)
    values = layout.decode(np.frombuffer(data, np.uint8, offset=layout.offset))
    return values.reshape(shape, order="F" if layout.fortran else "C")


def decode_png(data: bytes, side: int, label: str) -> Raw:
    """(side, side, 3). A fourth channel is dropped if it hides nothing."""
    require("PIL", extra="pictures", what="a data set of PNG files")
    from PIL import Image

    head = data[: PNG_HEAD.size].ljust(PNG_HEAD.size, b"\0")
    signature, _, kind, width, height = PNG_HEAD.unpack(head)
    if signature != PNG_SIGNATURE or kind != b"IHDR":
        raise DataError(f"{label}: expected a PNG file, got one that begins with {data[:8]!r}; {AGAIN}.")
    if (width, height) != (side, side):  # before anything is allocated for it
        raise DataError(f"{label}: expected a picture of {side} x {side} pixels, got {width} x {height}; {AGAIN}.")
    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as picture:
            mode, values = picture.mode, np.array(picture, np.uint8)
    except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError, … on damaged files
        raise DataError(f"{label}: damaged or truncated ({reason(error)}); {AGAIN}.") from None
    if mode == "RGBA" and bool((values[:, :, 3] == 255).all()):
        return np.ascontiguousarray(values[:, :, :3])
    if mode != "RGB":
        raise DataError(f"{label}: expected red, green and blue of 8 bits, got mode {mode}; {AGAIN}.")
    return values


def _place(member: zipfile.ZipInfo) -> tuple[int, int, int, int, int]:
    encrypted = member.flag_bits & 1
    method = -1 if encrypted else member.compress_type
    return member.header_offset, member.compress_size, member.file_size, member.CRC, method


def _small_file(path: Path, most: int) -> bytes:
    file = FileBytes.open(path, str(path))
    if file.size > most:
        raise DataError(f"{path}: expected at most {most:,} bytes, got {file.size:,}; {AGAIN}.")
    return file.read(0, file.size)
