"""Chunks of a `.zarr` are unpacked here, and not by what zarr would choose. zarr is needed to import this.

numcodecs believes what a chunk says of itself: blosc reads memory beyond a chunk that was cut short (other numbers in every run, and
no error), and a megabyte of zlib becomes a gigabyte where the array declares 48 bytes. Here a chunk has the length it says, and
becomes at most as long as its array declares.
"""

from __future__ import annotations

import asyncio
import bz2
import gzip
import io
import lzma
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numcodecs
import numpy as np
from numcodecs.compat import ensure_bytes, ndarray_copy
from zarr.abc.codec import BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer
from zarr.registry import register_codec

NAME = "identifiable.unpacking"
LEAST = 2**20  # bytes that a chunk may always have more
TEXTS = 2**28  # bytes of a chunk of texts, which are of any length
LARGEST_ITEM = 16  # bytes of a number after a filter
STREAMS: Mapping[str, Callable[[io.BytesIO], Any]] = {
    "gzip": lambda packed: gzip.GzipFile(fileobj=packed, mode="rb"),
    "bz2": bz2.BZ2File,
    "lzma": lzma.LZMAFile,
}
COMPRESSORS = frozenset([*STREAMS, "zlib", "blosc", "zstd", "lz4"])
NOTHING = "nothing"  # in place of a codec, where none is
WORDS = ("vlen-utf8", "vlen-bytes")  # codecs of texts
COUNT = 4  # bytes of the number of texts of a chunk, and of the length of each


def unpacked(codec: str, packed: bytes, most: int, texts: bool = False) -> bytes:
    """A chunk as it was before `codec`, of at most `most` bytes (ValueError); `texts`: of texts, of which it says the number."""
    if codec == NOTHING:
        found = packed
    elif codec == "zlib":
        worker = zlib.decompressobj()
        found = worker.decompress(packed, most + 1)
        if len(found) <= most and not worker.eof:
            raise ValueError("a chunk ends early")
    elif codec in STREAMS:
        with STREAMS[codec](io.BytesIO(packed)) as stream:
            found = stream.read(most + 1)
    else:
        _check_header(codec, packed, most)
        found = ensure_bytes(numcodecs.get_codec({"id": codec}).decode(packed))
    if len(found) > most:
        raise _too_long(most)
    if texts and (said := int.from_bytes(found[:COUNT], "little")) * COUNT > len(found) - COUNT:
        raise ValueError(
            f"a chunk of {len(found):,} bytes says it has {said:,} texts"
        )  # a place for each would be made
    return found


def _check_header(codec: str, packed: bytes, most: int) -> None:
    """Refuse a chunk that is not as long as it says, or says that it becomes too long."""
    whole = 0
    if codec == "blosc":
        whole, length = (int.from_bytes(packed[at : at + 4], "little") for at in (4, 12))
        if len(packed) < 16 or length != len(packed):
            raise ValueError(f"a chunk of {len(packed):,} bytes should have {length:,}")
    elif codec == "lz4":
        whole = int.from_bytes(packed[:4], "little")
    elif codec == "zstd" and len(packed) > 14:
        described = packed[4]
        single = described >> 5 & 1
        size = (single, 2, 4, 8)[described >> 6]
        start = 6 - single + (0, 1, 2, 4)[described & 3]
        whole = int.from_bytes(packed[start : start + size], "little")
    if whole > most:
        raise _too_long(most)


def _too_long(most: int) -> ValueError:
    return ValueError(f"a chunk becomes longer than {most:,} bytes")


def _limit(shape: Sequence[int], item: int | None) -> int:
    """Bytes of a chunk; `item`: bytes of each value, None for texts."""
    whole = math.prod(shape) * (item or 0)
    return TEXTS if item is None else whole + whole // 64 + LEAST  # what is packed twice may grow in between


class Unpacking:
    """A step of decoding in zarr 2: `codec`, of at most `most` bytes, and whether texts come of it."""

    codec_id = NAME

    def __init__(self, codec: str, most: int, texts: bool = False):
        self.codec, self.most, self.texts = codec, most, texts

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return cls(**config)

    def get_config(self) -> dict[str, Any]:
        return {"id": NAME, "codec": self.codec, "most": self.most, "texts": self.texts}

    def encode(self, buf: Any) -> Any:
        raise NotImplementedError  # stores are read through this, never written

    def decode(self, buf: Any, out: Any = None) -> Any:
        return ndarray_copy(unpacked(self.codec, ensure_bytes(buf), self.most, self.texts), out)


@dataclass(frozen=True)
class ChunkUnpacking(BytesBytesCodec):
    """The same in zarr 3, where a step is told what the chunk is, within a shard too."""

    codec: str
    texts: bool = False
    is_fixed_size = False

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return cls(**data["configuration"])

    def to_dict(self) -> dict[str, Any]:
        return {"name": NAME, "configuration": {"codec": self.codec, "texts": self.texts}}

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        most = _limit(chunk_spec.shape, getattr(chunk_spec.dtype, "item_size", None))
        found = await asyncio.to_thread(unpacked, self.codec, chunk_bytes.to_bytes(), most, self.texts)
        return chunk_spec.prototype.buffer.from_bytes(found)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        raise NotImplementedError  # as above


numcodecs.register_codec(Unpacking)
register_codec(NAME, ChunkUnpacking)


def guarded_steps(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of an array, in which everything that unpacks is one of the above."""
    kept = dict(metadata)
    if "codecs" in kept:
        return kept | {"codecs": _steps(kept["codecs"])}
    if kept.get("compressor") is None and not kept.get("filters"):
        return kept
    texts = "|O" in str(kept.get("dtype"))
    item = None if texts else LARGEST_ITEM if kept.get("filters") else np.dtype(kept.get("dtype")).itemsize
    most = _limit(kept["chunks"], item)
    for key in ("compressor", "filters"):
        kept[key] = _step_2(kept.get(key), most)
    if texts:
        steps = [*(kept["filters"] or ()), kept["compressor"]]
        *filters, kept["compressor"] = _counted(
            steps, "id", lambda codec: {"id": NAME, "codec": codec, "most": most, "texts": True}
        )
        kept["filters"] = filters or None
    return kept


def _counted(steps: list[Any], key: str, ours: Callable[[str], Mapping[str, Any]]) -> list[Any]:
    """Steps of which the one behind texts looks at their number: `ours` of its codec, and where there is none, of `NOTHING`."""
    place = next((k for k, step in enumerate(steps) if isinstance(step, Mapping) and step.get(key) in WORDS), None)
    if place is None:
        return steps
    after = steps[place + 1] if place + 1 < len(steps) else None
    if after is None:
        codec = NOTHING
    elif isinstance(after, Mapping) and after.get(key) == NAME:
        codec = after.get("configuration", after)["codec"]
    else:
        return steps
    return [*steps[: place + 1], ours(codec), *steps[place + 2 :]]


def _step_2(step: Any, most: int) -> Any:
    if isinstance(step, list):
        return [_step_2(each, most) for each in step]
    known = isinstance(step, Mapping) and step.get("id") in COMPRESSORS
    return {"id": NAME, "codec": step["id"], "most": most} if known else step


def _steps(steps: Any) -> Any:
    if isinstance(steps, list):
        made = [_steps(each) for each in steps]
        return _counted(made, "name", lambda codec: {"name": NAME, "configuration": {"codec": codec, "texts": True}})
    if not isinstance(steps, Mapping):
        return steps
    codec = str(steps.get("name")).removeprefix("numcodecs.")
    if codec in COMPRESSORS:
        return {"name": NAME, "configuration": {"codec": codec}}
    inner = steps.get("configuration")
    if not isinstance(inner, Mapping):
        return steps
    return {**steps, "configuration": {key: _steps(v) if key.endswith("codecs") else v for key, v in inner.items()}}
