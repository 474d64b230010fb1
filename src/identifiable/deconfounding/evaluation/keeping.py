"""Finished parts of long work: kept under keys that name all they depend on; and where the time went."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from identifiable.results import StageTime

Arrays = Mapping[str, NDArray[Any]]
FORMAT = 1  # of what is kept; another number makes older parts invisible


class Store(Protocol):
    """Where arrays are kept between runs."""

    def get(self, key: str, /) -> Arrays | None: ...
    def put(self, key: str, arrays: Arrays, /) -> None: ...


class Kept:
    """Parts of one evaluation in a store; without a store nothing is found and nothing kept.

    `common` is what all parts depend on (the data, the design). Calls may come from several threads.
    """

    def __init__(self, store: Store | None, common: Mapping[str, Any]):
        self._store, self._common = store, _digest(common)
        self._lock = threading.Lock()

    @property
    def keeps(self) -> bool:
        return self._store is not None

    def get(self, kind: str, **what: Any) -> Arrays | None:
        if self._store is None:
            return None
        with self._lock:
            return self._store.get(self._key(kind, what))

    def put(self, kind: str, arrays: Arrays, **what: Any) -> None:
        if self._store is not None:
            with self._lock:
                self._store.put(self._key(kind, what), arrays)

    def _key(self, kind: str, what: Mapping[str, Any]) -> str:
        return f"{kind}-{_digest({'format': FORMAT, 'common': self._common, **what})}"


def _digest(what: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=_plain).encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    """What JSON does not know: arrays by their content, anything else by how it shows itself."""
    if isinstance(value, np.ndarray):
        content = np.ascontiguousarray(value)
        return [str(content.dtype), list(content.shape), hashlib.sha256(content.tobytes()).hexdigest()]
    return value.item() if isinstance(value, np.generic) else repr(value)


def fingerprint(*arrays: NDArray[Any]) -> str:
    """A short name for the content of arrays."""
    return _digest({"arrays": [_plain(array) for array in arrays]})


def text_array(text: str) -> NDArray[np.uint8]:
    """Text as an array that a store can keep."""
    return np.frombuffer(text.encode(), dtype=np.uint8)


def array_text(array: NDArray[Any]) -> str:
    return np.asarray(array, dtype=np.uint8).tobytes().decode()


class Clock:
    """Seconds and units of every stage, in the order in which stages began."""

    def __init__(self) -> None:
        self._stages: dict[str, list[float]] = {}

    @contextmanager
    def stage(self, name: str, units: int = 1) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - begun, units)

    def add(self, name: str, seconds: float, units: int) -> None:
        entry = self._entry(name)
        entry[0] += seconds
        entry[1] += units

    def kept(self, name: str, units: int = 1) -> None:
        """Units that were read, not computed."""
        entry = self._entry(name)
        entry[1] += units
        entry[2] += units

    def times(self) -> tuple[StageTime, ...]:
        return tuple(StageTime(name, s, int(units), int(kept)) for name, (s, units, kept) in self._stages.items())

    def _entry(self, name: str) -> list[float]:
        return self._stages.setdefault(name, [0.0, 0, 0])
