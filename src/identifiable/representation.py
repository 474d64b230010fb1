"""Representation: a table whose rows have identities; `pair` brings rows of several together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, PairingError, check_matrix_shape, check_numeric, check_unique_ids


@dataclass(frozen=True, eq=False)
class Representation:
    """What a model says about n samples: `values` (n, d), who the rows are, and a name.

    `values` is a numpy array, or any table that is read lazily (a memory-mapped file, a Dask array,
    `identifiable.Blocks`). `labels` are further columns of the same rows, by name. `columns` are the names of the
    columns of `values`, None where they have none.
    """

    values: Any
    ids: NDArray[Any] | None = None
    name: str = "array"
    labels: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        n, d = check_matrix_shape(tuple(self.values.shape), self.name)
        check_numeric(np.dtype(self.values.dtype), self.name)
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(map(str, self.columns)))
            if len(self.columns) != d:
                raise DataError(f"{self.name}: expected a name for each of {d} columns, got {len(self.columns)}.")
        if self.ids is not None:
            ids = np.asarray(self.ids)
            if ids.dtype.kind == "T":  # numpy's variable-width text
                ids = ids.astype(object)
            if ids.shape != (n,):
                raise PairingError(f"{self.name}: expected one id for each of {n} rows, got ids of shape {ids.shape}.")
            if ids.dtype == object and all(isinstance(i, int) and not isinstance(i, bool) for i in ids.tolist()):
                ids = np.array(ids.tolist())
            if ids.dtype.kind not in "iuUS" and not all(isinstance(i, str) for i in ids.tolist()):
                raise PairingError(f"{self.name}: sample ids must be all text or all integers, got {ids.dtype}.")
            ids = ids if ids.dtype.kind in "iuUS" else ids.astype(str)
            check_unique_ids(ids, self.name)
            object.__setattr__(self, "ids", ids)
        for key, column in self.labels.items():
            if len(column) != n:
                raise DataError(f"{self.name}: label {key!r} has {len(column)} values for {n} rows.")

    @property
    def n(self) -> int:
        return int(self.values.shape[0])

    @property
    def d(self) -> int:
        return int(self.values.shape[1])


@dataclass(frozen=True, eq=False)
class Pairing:
    """Which rows of each representation are the same samples.

    `rows[k]` indexes the k-th representation (None: all rows, in order); `ids` are those of the
    shared rows (None when paired by position); `dropped[k]` counts the rows left out.
    """

    rows: tuple[NDArray[np.intp] | None, ...]
    ids: NDArray[Any] | None
    dropped: tuple[int, ...]
    n: int


def pair(*representations: Representation, missing: Literal["drop", "error"] = "drop") -> Pairing:
    """Join rows of two or more representations on their ids, in the order of the first.

    With ids on every side the rows present everywhere are kept and what was dropped is counted
    (`missing="error"` refuses instead). With ids on no side rows are paired by position and equal
    length is required. Ids on some sides only is an error: half a join is a guess.

    >>> a = Representation(np.zeros((3, 2)), ids=np.array(["x", "y", "z"]), name="a")
    >>> b = Representation(np.ones((2, 2)), ids=np.array(["z", "x"]), name="b")
    >>> join = pair(a, b)
    >>> join.rows[1].tolist(), join.dropped
    ([1, 0], (1, 0))
    """
    if not representations:
        raise PairingError("there is nothing to pair; pass at least one representation.")
    with_ids = [r for r in representations if r.ids is not None]
    if not with_ids:
        return _by_position(representations)
    if len(with_ids) < len(representations):
        bare = next(r for r in representations if r.ids is None)
        raise PairingError(
            f"{with_ids[0].name} has sample ids and {bare.name} has none; give ids to every representation (--ids), or to none."
        )
    ids = [comparable_ids(r.ids, r.name) for r in representations]
    if len({column.dtype.kind in "iu" for column in ids}) > 1:
        kinds = ", ".join(f"{r.name}: {r.ids.dtype}" for r in representations if r.ids is not None)
        raise PairingError(f"sample ids are numbers on one side and text on another ({kinds}); store them alike.")
    shared = ids[0]
    for column in ids[1:]:
        shared = shared[np.isin(shared, column)]
    names = " and ".join(r.name for r in representations)
    if not shared.size:
        raise PairingError(
            f"{names} share 0 of {ids[0].size} sample ids (first ids: "
            + "; ".join(f"{r.name}: {column[0]!s}" for r, column in zip(representations, ids, strict=True))
            + "); check that the ids mean the same samples."
        )
    dropped = tuple(int(column.size - shared.size) for column in ids)
    if missing == "error" and any(dropped):
        raise PairingError(
            f"{names} share {shared.size} of {max(c.size for c in ids)} sample ids; pass missing='drop' to compare only those."
        )
    rows = tuple(_positions(column, shared) for column in ids)
    return Pairing(rows, shared, dropped, int(shared.size))


def _by_position(representations: Sequence[Representation]) -> Pairing:
    counts = {r.n for r in representations}
    if len(counts) > 1:
        lengths = ", ".join(f"{r.name}: {r.n}" for r in representations)
        raise PairingError(
            f"without sample ids rows are paired by position and must be equally many, got {lengths}; pass ids (--ids) to join them."
        )
    return Pairing((None,) * len(representations), None, (0,) * len(representations), counts.pop())


def comparable_ids(values: NDArray[Any] | None, name: str) -> NDArray[Any]:
    """Ids as signed integers or as text, so that equal ids compare equal across containers."""
    ids = np.asarray(values)
    if ids.dtype.kind == "i" or (ids.dtype.kind == "u" and int(ids.max()) <= np.iinfo(np.int64).max):
        return ids.astype(np.int64)
    if ids.dtype.kind == "u":  # beyond int64: numpy would compare such numbers as rounded floats
        raise PairingError(f"{name}: the sample id {ids.max()} is beyond 64-bit signed integers; store ids as text.")
    if ids.dtype.kind == "S":
        try:
            return np.char.decode(ids, "utf-8")
        except UnicodeDecodeError:
            raise PairingError(f"{name}: sample ids are bytes that are not UTF-8; store them as text.") from None
    return ids.astype(str)


def _positions(ids: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.intp] | None:
    """Where each wanted id stands in `ids`; None if that is every row in order."""
    if ids.size == wanted.size and np.array_equal(ids, wanted):
        return None
    order = np.argsort(ids, kind="stable")
    return order[np.searchsorted(ids, wanted, sorter=order)]
