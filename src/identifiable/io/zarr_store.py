"""What zarr may see of a store: files below its folder, and metadata that name no code. zarr is needed to import this."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore, WrapperStore

from identifiable._checks import DataError
from identifiable.io.containers import pickled, piped, shown
from identifiable.io.remote import RemotePath
from identifiable.io.zarr_unpacking import guarded_steps

METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
BFLOAT16 = "bfloat16"
# Steps of coding that turn bytes into bytes or numbers. `pickle` and what nobody knows is not among them.
CODECS = frozenset(
    [
        "bytes",
        "transpose",
        "sharding_indexed",
        "vlen-utf8",
        "vlen-bytes",
        "blosc",
        "zstd",
        "gzip",
        "zlib",
        "lz4",
        "lzma",
        "bz2",
        "crc32",
        "crc32c",
        "adler32",
        "fletcher32",
        "jenkins_lookup3",
        "shuffle",
        "delta",
        "fixedscaleoffset",
        "quantize",
        "bitround",
        "packbits",
        "astype",
    ]
)


class GuardedStore(WrapperStore[Store]):
    """A store that refuses links out of its folder, unknown steps of coding, and chunks that are not there.

    zarr reads a missing chunk as its fill value. In a table of vectors that is damage that nobody sees, so it is an error.
    """

    def __init__(self, store: Store, label: str, root: str | None):
        super().__init__(store)
        self._label = label
        self._root = None if root is None else os.path.realpath(root)
        self.bfloat16: set[str] = set()  # arrays that zarr sees as uint16

    def _with_store(self, store: Store) -> GuardedStore:
        again = GuardedStore(store, self._label, self._root)
        again.bfloat16 = self.bfloat16
        return again

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        self._refuse_elsewhere(key)
        found = await super().get(key, prototype, byte_range)
        folder, _, name = key.rpartition("/")
        if name not in METADATA:
            if found is None:
                raise DataError(
                    f"{self._label}: chunk {shown(key)} is missing; copy the store again, or, if its values are all the "
                    "fill value, write it with write_empty_chunks=True."
                )
            return found
        if found is None or name in (".zattrs", ".zmetadata"):
            return found
        checked = self._checked(folder, json.loads(found.to_bytes()))
        return prototype.buffer.from_bytes(json.dumps(checked).encode())

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return [await self.get(key, prototype, wanted) for key, wanted in key_ranges]

    def below(self, path: str) -> list[str]:
        """The names in a folder, in order."""

        async def listed() -> list[str]:
            return sorted([name async for name in self.list_dir(path)])

        return sync(listed())

    def _refuse_elsewhere(self, key: str) -> None:
        """Only files in the store are opened: a link may lead anywhere, a pipe may never end."""
        if self._root is None:
            return
        place = os.path.realpath(os.path.join(self._root, key))
        if os.path.commonpath([place, self._root]) != self._root:
            raise DataError(
                f"{self._label}: {shown(key)} leads out of the store, which is not followed; copy it there."
            )
        if os.path.exists(place) and not (os.path.isfile(place) or os.path.isdir(place)):
            raise DataError(piped(f"{self._label}: {shown(key)}"))

    def _checked(self, folder: str, metadata: Any) -> Any:
        """The metadata of an array or a group. bfloat16, which zarr does not know, becomes uint16 and is noted."""
        if not isinstance(metadata, Mapping):
            raise DataError(f"{self._label}: the metadata of {shown(folder) or 'its root'} are damaged; {AGAIN}.")
        steps = [*_steps(metadata)]
        if "|O" in json.dumps(metadata.get("dtype")) and not {"vlen-utf8", "vlen-bytes"} & {*steps}:
            raise DataError(f"{self._label}: {pickled(shown(folder) or 'its root')}")
        for name in steps:
            if name.removeprefix("numcodecs.") not in CODECS:
                raise DataError(
                    f"{self._label}: {shown(folder) or 'its root'} is coded by {shown(name)!r}, which is not read because it "
                    f"could run code; write it again with one of {', '.join(sorted(CODECS))}."
                )
        kept = {key: value for key, value in metadata.items() if key != "consolidated_metadata"}
        for key, whole in (("data_type", "uint16"), ("dtype", "<u2")):
            if kept.get(key) == BFLOAT16:
                self.bfloat16.add(folder)
                kept |= {key: whole, "fill_value": 0}
        return guarded_steps(kept)


AGAIN = "copy or write it again"


def _steps(metadata: Mapping[str, Any]) -> Iterable[str]:
    """The names of all steps of coding, those within a shard too."""
    waiting: list[Any] = [metadata.get("codecs"), metadata.get("filters"), metadata.get("compressor")]
    while waiting:
        step = waiting.pop()
        if isinstance(step, list):
            waiting += step
        elif isinstance(step, Mapping):
            yield str(step.get("name", step.get("id")))
            inner = step.get("configuration")
            if isinstance(inner, Mapping):
                waiting += [inner.get("codecs"), inner.get("index_codecs")]
        elif step is not None:
            yield str(step)


def guarded(path: Any) -> GuardedStore:
    """The store at a path of this machine, or of another one."""
    if isinstance(path, RemotePath):
        return GuardedStore(FsspecStore.from_url(str(path), read_only=True), str(path), None)
    return GuardedStore(LocalStore(path, read_only=True), str(path), str(path))
