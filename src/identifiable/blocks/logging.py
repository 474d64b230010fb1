"""Passes that were made before a run was stopped.

A pass is a function of its rows and of the small state it starts with, so its statistic is kept under a digest of both. A run
that begins again asks for the same passes in the same order: those that are kept are not made again, and it ends with the same
numbers, bit for bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks.folding import Statistic
from identifiable.blocks.tables import Blocks

S = TypeVar("S", bound=Statistic)
PASS = "pass"
HIDDEN = "spare"  # buffers that statistics of one pass hand on: no part of what they are


class Store(Protocol):
    """Where arrays are kept between runs."""

    def get(self, key: str, /) -> Mapping[str, NDArray[Any]] | None: ...
    def put(self, key: str, arrays: Mapping[str, NDArray[Any]], /) -> None: ...


class PassLog:
    """Statistics of passes over tables in storage, in a store that belongs to one run on the same tables."""

    def __init__(self, store: Store):
        self._store = store
        self.replayed = 0

    def statistic(self, blocks: list[Blocks], start: Callable[[], S], make: Callable[[], S]) -> S:
        """The statistic as it was kept; or as `make` makes it, kept from now on."""
        empty = start()
        if all(b.in_memory for b in blocks) or not getattr(empty, "replayable", True):
            return make()  # cheap to make again, or written elsewhere
        key = f"{PASS}-{_digest([[b.name, b.shape, b.dtype.str] for b in blocks], start)}"
        known = self._store.get(key)
        if known is not None:
            self.replayed += 1
            return _filled(empty, known)
        made = make()
        self._store.put(key, _numbers(made, empty))
        return made


def _numbers(statistic: Any, empty: Any) -> dict[str, NDArray[Any]]:
    """The numbers of a statistic that it did not start with."""
    found = {}
    for name, value in vars(statistic).items():
        if not isinstance(value, np.ndarray | np.generic | int | float):
            continue
        before = getattr(empty, name, None)
        if not (isinstance(before, np.ndarray) and before is value):
            found[name] = np.asarray(value)
    return found


def _filled(empty: S, numbers: Mapping[str, NDArray[Any]]) -> S:
    if finish := getattr(empty, "finish", None):
        finish()
    for name, value in numbers.items():
        setattr(empty, name, value if value.ndim else value.item())
    return empty


def _digest(*what: Any) -> str:
    content = hashlib.sha256()
    for part in what:
        _add(content, part)
    return content.hexdigest()[:40]


def _add(content: Any, thing: Any) -> None:
    """The content of what a pass starts with, whatever it is made of."""
    content.update(f"<{type(thing).__module__}.{type(thing).__qualname__}>".encode())
    if isinstance(thing, np.ndarray):
        content.update(f"{thing.dtype.str}{thing.shape}".encode())
        content.update(np.ascontiguousarray(thing).data)
    elif isinstance(thing, partial):
        _add(content, [thing.func, thing.args, {k: v for k, v in thing.keywords.items() if k != HIDDEN}])
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            _add(content, key)
            _add(content, value)
    elif isinstance(thing, list | tuple):
        for value in thing:
            _add(content, value)
    elif isinstance(thing, type) or (callable(thing) and hasattr(thing, "__qualname__")):
        content.update(f"{thing.__module__}.{thing.__qualname__}".encode())
    elif is_dataclass(thing):
        for each in fields(thing):
            _add(content, getattr(thing, each.name))
    elif hasattr(thing, "__dict__"):
        _add(content, vars(thing))
    else:
        content.update(repr(thing).encode())
