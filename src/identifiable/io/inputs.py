"""What a model is shown: lines of text, JSON lines, pictures, or arrays. Read when they are needed, known by their content.

An input's id is a hash of its content, so rows of two models that saw the same inputs pair by id, whatever the order. Of each
input only its place in the file and its id are kept in memory.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable._extras import require
from identifiable.io.array_files import ArraysInFile, NpyFile
from identifiable.io.containers import IDS, Location, check_is_file, listed, named, reason, shown, split_spec, suffix_of
from identifiable.io.opening import READERS
from identifiable.io.stored_rows import FileBytes

Kind = Literal["text", "tokens", "pictures", "arrays"]
ARRAYS = (".npy", ".npz", ".safetensors", ".pt", ".pth")
JSON_LINES = (".jsonl", ".ndjson")
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
FIELD = "text"  # of a JSON line, unless another is named
MASK = "attention_mask"  # beside token ids: which of them count
CHUNK = 2**20  # bytes read at once to find the ends of lines
AT_ONCE = 64  # inputs that are hashed at once
SHOWN_PICTURES = 5
HASH_BYTES = 8
CHANNELS = (1, 3, 4)


class Inputs(ABC):
    """`n` inputs of one kind, got by their places."""

    name: str
    label: str
    n: int
    kind: Kind

    @abstractmethod
    def get(self, places: Sequence[int] | NDArray[Any]) -> Any:
        """These inputs: texts, token ids (without those that are masked), pictures (PIL), or an array of them."""

    @abstractmethod
    def contents(self, start: int, stop: int) -> Iterable[bytes]:
        """What their ids are made of; what cannot be used is refused, by its place."""


def open_inputs(source: Any) -> Inputs:
    """Inputs from a path, or from a list of texts or an array in memory.

    A path is a text file (an input a line), `.jsonl` (``file.jsonl:field``), a folder of pictures, or an array in a `.npy`,
    `.npz`, `.safetensors` or `.pt` (``file.npz:key``).
    """
    if isinstance(source, Inputs):
        return source
    if not isinstance(source, str | os.PathLike):
        return _given(source)
    at = split_spec(source, (*READERS, *JSON_LINES))
    if at.path.is_dir():
        return PictureFolder(at)
    check_is_file(at.path)
    suffix = suffix_of(at.path)
    if suffix in ARRAYS:
        return _stored(at)
    if suffix in READERS or suffix.endswith(".gz"):
        raise DataError(
            f"{at.path}: expected inputs as text (one a line), .jsonl, a folder of pictures or {', '.join(ARRAYS)}, got {suffix}; "
            "write one column of it as text or as an array."
        )
    if suffix in JSON_LINES:
        return JsonLines(at)
    if at.part is not None:
        raise DataError(f"{at.path}: a text file has one input a line and no parts; drop the colon and {at.part!r}.")
    return TextLines(at)


def identified(inputs: Inputs, told: Callable[[int], None]) -> tuple[NDArray[np.int64], int]:
    """An id for every input, and how many of them repeat another one. `told(done)` is called as it goes on.

    The id is a hash of 63 bits of the content. What occurs again is hashed with its number, so ids are unique, and the k-th
    occurrence has the same id in every order of the inputs.
    """
    ids = np.empty(inputs.n, np.int64)
    for start in range(0, inputs.n, AT_ONCE):
        stop = min(start + AT_ONCE, inputs.n)
        ids[start:stop] = [_hash(content) for content in inputs.contents(start, stop)]
        told(stop)
    order = np.argsort(ids, kind="stable")
    again = np.flatnonzero(np.diff(ids[order]) == 0) + 1
    number, last = 0, -1
    renamed = []
    for place in again.tolist():
        number = number + 1 if place == last + 1 else 1
        last = place
        row = int(order[place])
        renamed.append((row, _hash(next(iter(inputs.contents(row, row + 1))), number)))
    for row, value in renamed:
        ids[row] = value
    return ids, len(again)


def _hash(content: bytes, number: int = 0) -> int:
    salt = number.to_bytes(HASH_BYTES, "little") if number else b""
    return int.from_bytes(blake2b(content, digest_size=HASH_BYTES, salt=salt).digest(), "little") >> 1


# -- text


class TextLines(Inputs):
    """A text file, an input a line. Blank lines at its end are not inputs; elsewhere they are refused."""

    kind = "text"

    def __init__(self, at: Location):
        self.name, self.label = at.path.name, str(at.path)
        self._file = FileBytes.open(at.path, self.label)
        self._ends = np.fromiter(_line_ends(self._file), np.int64)
        self.n = len(self._ends)
        while self.n and not self._line(self.n - 1).strip():
            self.n -= 1
        if not self.n:
            raise DataError(f"{self.label}: expected at least one line of text, found none.")

    def get(self, places: Sequence[int] | NDArray[Any]) -> list[str]:
        return [self._text(int(i)) for i in places]

    def contents(self, start: int, stop: int) -> Iterable[bytes]:
        return [self._text(i).encode() for i in range(start, stop)]

    def _line(self, i: int) -> bytes:
        start = int(self._ends[i - 1]) if i else 0
        return self._file.read(start, int(self._ends[i]) - start).rstrip(b"\r\n")

    def _text(self, i: int) -> str:
        try:
            text = self._line(i).decode("utf-8-sig" if i == 0 else "utf-8")
        except UnicodeDecodeError:
            raise DataError(f"{self.label}: line {i + 1} is not UTF-8; save the file as UTF-8.") from None
        if not text.strip():
            raise DataError(f"{self.label}: line {i + 1} is blank; expected an input in every line.")
        return text


class JsonLines(TextLines):
    """A JSON object a line, of which one field is the text."""

    def __init__(self, at: Location):
        self._field = at.part or FIELD
        super().__init__(at)

    def _text(self, i: int) -> str:
        line = super()._text(i)
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError(f"{self.label}: line {i + 1} is not JSON.") from None
        found = record.get(self._field) if isinstance(record, dict) else None
        if not isinstance(found, str) or not found.strip():
            held = named(map(str, record)) if isinstance(record, dict) else type(record).__name__
            raise DataError(
                f"{self.label}: line {i + 1} has no text in the field {self._field!r}; it has {held or 'nothing'}: name the field "
                f"after a colon, as in {self.label}:FIELD"
            )
        if not _is_text(found):
            raise DataError(
                f"{self.label}: line {i + 1} has half a character (a lone surrogate); write the file again."
            )
        return found


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _line_ends(file: FileBytes) -> Iterator[int]:
    """Where every line ends, its line break included."""
    for start in range(0, file.size, CHUNK):
        chunk = np.frombuffer(file.read(start, CHUNK), np.uint8)
        yield from (start + 1 + np.flatnonzero(chunk == ord("\n"))).tolist()
    if file.size and file.read(file.size - 1, 1) != b"\n":
        yield file.size


class GivenTexts(Inputs):
    """Texts in memory."""

    kind = "text"
    name = label = "texts"

    def __init__(self, texts: Sequence[str]):
        self._texts, self.n = texts, len(texts)

    def get(self, places: Sequence[int] | NDArray[Any]) -> list[str]:
        return [self._texts[int(i)] for i in places]

    def contents(self, start: int, stop: int) -> Iterable[bytes]:
        for i in range(start, stop):
            if not isinstance(self._texts[i], str) or not self._texts[i].strip() or not _is_text(self._texts[i]):
                raise DataError(f"{self.label}: expected a text at {i} (from 0), got {self._texts[i]!r}.")
        return [text.encode() for text in self._texts[start:stop]]


# -- pictures


class PictureFolder(Inputs):
    """The pictures in a folder and in those inside it, in the order of their paths."""

    kind = "pictures"

    def __init__(self, at: Location):
        require("PIL", extra="models", what="reading pictures")
        self.name, self.label = at.path.resolve().name, str(at.path)
        if at.part is not None:
            raise DataError(f"{at.path}: a folder of pictures has no parts; drop the colon and {at.part!r}.")
        self._paths = sorted(p for p in at.path.rglob("*") if p.suffix.lower() in PICTURES and p.is_file())
        self.n = len(self._paths)
        if not self.n:
            held = named(sorted(os.listdir(at.path)))
            raise DataError(
                f"{at.path}: expected pictures ({' '.join(PICTURES)}), found none; it holds {held or 'nothing'}."
            )

    def get(self, places: Sequence[int] | NDArray[Any]) -> list[Any]:
        return [_picture(self._paths[int(i)]) for i in places]

    def contents(self, start: int, stop: int) -> Iterable[bytes]:
        broken = []
        for path in self._paths[start:stop]:
            try:
                _picture(path)
            except DataError as error:
                broken.append((path, str(error)))
        if broken:  # all of them: someone has to repair them
            for path in self._paths[stop:]:
                try:
                    _picture(path)
                except DataError as error:
                    broken.append((path, str(error)))
            names = listed([shown(str(path.relative_to(self.label))) for path, _ in broken])
            raise DataError(
                f"{self.label}: {len(broken)} of {self.n} pictures cannot be decoded ({names}); repair or remove them. First: "
                f"{broken[0][1]}"
            )
        return (path.read_bytes() for path in self._paths[start:stop])


def _picture(path: Path) -> Any:
    """A picture, turned as its EXIF data say."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            image.load()
            return ImageOps.exif_transpose(image)
    except Exception as error:  # Pillow raises a dozen unrelated types on damaged files
        raise DataError(f"{path.name}: {reason(error)}") from None


# -- arrays


class StoredArrays(Inputs):
    """The items of an array in a file, or in memory, along its first axis.

    Whole numbers in two dimensions are token ids; negative ones, and those that an `attention_mask` beside them leaves out, are
    padding. Bytes in three or four dimensions are pictures, with the channels last or first.
    """

    def __init__(
        self, name: str, label: str, shape: tuple[int, ...], dtype: np.dtype[Any], rows: Any, mask: Any = None
    ):
        self.name, self.label, self._rows, self._mask = name, label, rows, mask
        if len(shape) < 2 or 0 in shape:
            raise DataError(f"{label}: expected an array of inputs along its first axis, got shape {shape}.")
        if dtype.kind not in "fiu":
            raise DataError(f"{label}: expected numbers, got {dtype}.")
        self.n, self._item = shape[0], shape[1:]
        whole = dtype.kind in "iu"
        self.kind = "tokens" if whole and len(shape) == 2 and dtype != np.uint8 else "arrays"
        if dtype == np.uint8 and len(shape) in (3, 4):
            require("PIL", extra="models", what="pictures in arrays")
            self.kind = "pictures"
            last = len(shape) == 3 or shape[-1] in CHANNELS
            if not last and shape[1] not in CHANNELS:
                raise DataError(
                    f"{label}: expected pictures (n, height, width), (n, height, width, channels) or (n, channels, height, width), "
                    f"got {shape}."
                )
            self._channels_first = not last
        if whole and self.kind == "arrays" and dtype != np.uint8:
            raise DataError(
                f"{label}: expected token ids (n, tokens), bytes of pictures or real numbers, got {dtype} of {shape}."
            )

    def get(self, places: Sequence[int] | NDArray[Any]) -> Any:
        values = self._rows(np.asarray(places, np.intp))
        if self.kind == "arrays":
            return values
        if self.kind == "tokens":
            kept = values >= 0 if self._mask is None else self._mask(np.asarray(places, np.intp)) > 0
            return [row[keep].astype(np.int64) for row, keep in zip(values, kept, strict=True)]
        from PIL import Image

        if self._channels_first:
            values = np.moveaxis(values, 1, -1)
        return [Image.fromarray(np.ascontiguousarray(v[..., 0] if v.shape[2:] == (1,) else v)) for v in values]

    def contents(self, start: int, stop: int) -> Iterable[bytes]:
        if self.kind == "tokens":
            return [row.tobytes() for row in self.get(range(start, stop))]
        values = self._rows(np.arange(start, stop))
        head = f"{values.dtype.newbyteorder('<').str};{values.shape[1:]};".encode()
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            bad = start + int(np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))[0])
            raise DataError(f"{self.label}: expected finite numbers, got NaN or infinite ones in row {bad} (from 0).")
        return [head + np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes() for value in values]


def _given(source: Any) -> Inputs:
    if isinstance(source, list | tuple) and (not source or isinstance(source[0], str)):
        if not source:
            raise DataError("inputs: expected at least one, got an empty list.")
        return GivenTexts(source)
    values = np.asarray(source)
    return StoredArrays("array", "inputs", values.shape, values.dtype, lambda places: values[places])


def _stored(at: Location) -> Inputs:
    file: Any = READERS[suffix_of(at.path)](at.path)
    assert isinstance(file, NpyFile | ArraysInFile)
    if isinstance(file, NpyFile) and at.part is not None:
        raise DataError(f"{at.path}: a .npy file is one array without parts; drop the colon and {at.part!r}.")
    name = "" if isinstance(file, NpyFile) else _array_name(file, at)
    layout, rows = file.layout(name), _items(file, name, at)
    mask = None
    if MASK in file.names and name != MASK:
        if file.layout(MASK).shape != layout.shape:
            raise DataError(
                f"{at.label}: {MASK} has shape {file.layout(MASK).shape}, expected that of the ids, {layout.shape}."
            )
        if file.layout(MASK).dtype.kind not in "biuf":
            raise DataError(f"{at.label}: {MASK} is of {file.layout(MASK).dtype}, expected numbers; save it again.")
        mask = _items(file, MASK, at)
    return StoredArrays(at.name, at.label, layout.shape, layout.dtype, rows, mask)


def _array_name(file: ArraysInFile, at: Location) -> str:
    names = [name for name in file.names if name not in (IDS, MASK)]
    if at.part in file.names:
        return str(at.part)
    if at.part is not None or len(names) != 1:
        held = listed([f"{shown(name)} {file.layout(name).shape}" for name in names]) or "nothing"
        raise DataError(f"{at.label}: expected the name of an array after a colon; it holds {held}.")
    return names[0]


def _items(file: NpyFile | ArraysInFile, name: str, at: Location) -> Callable[[NDArray[np.intp]], NDArray[Any]]:
    """Items of an array by their places, read where they lie."""
    where, layout = file.located(name)
    if layout.fortran or layout.stored.hasobject:
        raise DataError(
            f"{at.label}: expected an array of numbers in C order; save it again with np.ascontiguousarray."
        )
    width = layout.nbytes // max(layout.shape[0], 1)

    def items(places: NDArray[np.intp]) -> NDArray[Any]:
        raw = np.empty((len(places), width), np.uint8)
        flat = raw.reshape(-1).data
        where.read_all_into(
            (layout.offset + int(place) * width, flat[k * width : (k + 1) * width]) for k, place in enumerate(places)
        )
        return layout.decode(raw).reshape(len(places), *layout.shape[1:])

    return items
