"""Checkpoint: finished parts of long work, kept under keys that name all they depend on, so that a run that was stopped goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from identifiable.deconfounding.run import Clock
from identifiable.results.kept import digest, plain_content

Arrays = Mapping[str, NDArray[Any]]
FORMAT = 3  # of what is kept; another number makes older parts invisible


class Store(Protocol):
    """Where arrays are kept between runs."""

    def get(self, key: str, /) -> Arrays | None: ...
    def put(self, key: str, arrays: Arrays, /) -> None: ...


class Checkpoint:
    """Parts of one evaluation in a store; without a store nothing is found and nothing kept.

    `common` is what all parts depend on (the data, the design); `clock` says what was computed and what was read. Calls may come
    from several threads.
    """

    def __init__(self, store: Store | None = None, common: Mapping[str, Any] | None = None):
        self.clock = Clock()
        self._store, self._common = store, digest(common or {})
        self._lock = threading.Lock()

    def get(self, kind: str, **what: Any) -> Arrays | None:
        if self._store is None:
            return None
        with self._lock:
            return self._store.get(self._key(kind, what))

    def put(self, kind: str, arrays: Arrays, **what: Any) -> None:
        if self._store is not None:
            with self._lock:
                self._store.put(self._key(kind, what), arrays)

    def part(self, kind: str, make: Callable[[], Arrays], **what: Any) -> Arrays:
        """The arrays of a part: as they were kept, or made now and kept from now on."""
        found = self.get(kind, **what)
        if found is not None:
            self.clock.kept(kind)
            return found
        made = make()
        self.put(kind, made, **what)
        return made

    def _key(self, kind: str, what: Mapping[str, Any]) -> str:
        return f"{kind}-{digest({'format': FORMAT, 'common': self._common, **what})}"


def fingerprint(*arrays: NDArray[Any]) -> str:
    """A short name for the content of arrays."""
    return digest({"arrays": [plain_content(array) for array in arrays]})


def text_array(text: str) -> NDArray[np.uint8]:
    """Text as an array that a store can keep."""
    return np.frombuffer(text.encode(), dtype=np.uint8)


def array_text(array: NDArray[Any]) -> str:
    return np.asarray(array, dtype=np.uint8).tobytes().decode()
