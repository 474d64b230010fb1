"""Representation: a table whose rows have identities; `pair` joins rows by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, PairingError, as_array, as_text, check_unique_ids, check_values
from identifiable._extras import require


@dataclass(frozen=True, eq=False)
class Representation:
    """What a model says about n samples: `values` (n, d), who the rows are, and a name.

    `values` is a numpy array, a torch tensor, a data frame (pandas, polars, Dask), a pyarrow table, AnnData, or any table that is
    read lazily (a memory-mapped file, a Dask array, `identifiable.Blocks`). `ids` are one text or integer for each row, or the
    name of a column of a data frame, which is then no value. `labels` are further columns of the same rows, by name. `columns` are the
    names of the columns of `values`, None where they have none.

    Without `ids` the index of a pandas frame, or `obs_names` of AnnData, are the ids. Those that only count the rows from 0
    say nothing by themselves: they are kept in `counted`, and are ids only beside a table that has ids.

    >>> Representation(np.zeros((2, 1)), ids=["x", "y"]).ids.tolist()
    ['x', 'y']
    """

    values: Any
    ids: Any = None
    name: str = "array"
    labels: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    counted: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", as_frame(self.values))
        object.__setattr__(self, "name", as_text(str(self.name)))
        if is_frame(self.values) or is_anndata(self.values):
            read = read_frame(self.values, self.ids, self.name)
            for key, value in (("values", read.values), ("ids", read.ids), ("counted", read.counted)):
                object.__setattr__(self, key, value)
            object.__setattr__(self, "columns", read.columns if self.columns is None else self.columns)
        object.__setattr__(self, "values", from_torch(self.values))
        if isinstance(self.ids, str):
            raise DataError(
                f"{self.name}: has no column {self.ids!r} for the ids, only values; pass Representation(values, ids=...) "
                "with one id for each row."
            )
        if not (hasattr(self.values, "shape") and hasattr(self.values, "dtype")):
            object.__setattr__(self, "values", as_array(self.values, self.name))
        n, d = check_values(self.values, self.name)
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
                raise PairingError(
                    f"{self.name}: sample ids must be all text or all integers, got {ids.dtype}; convert them, or pass an array "
                    "to pair rows by position."
                )
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
    length is required. Ids on some sides only is an error: half a join is a guess. An index that counts the
    rows of a data frame from 0 (`Representation.counted`) is ids where another side has ids.

    >>> a = Representation(np.zeros((3, 2)), ids=np.array(["x", "y", "z"]), name="a")
    >>> b = Representation(np.ones((2, 2)), ids=np.array(["z", "x"]), name="b")
    >>> join = pair(a, b)
    >>> join.rows[1].tolist(), join.dropped
    ([1, 0], (1, 0))
    """
    if not representations:
        raise PairingError("there is nothing to pair; pass at least one representation.")
    if any(r.ids is not None for r in representations):
        representations = tuple(replace(r, ids=r.counted) if r.ids is None else r for r in representations)
    with_ids = [r for r in representations if r.ids is not None]
    if not with_ids:
        return _by_position(representations)
    if len(with_ids) < len(representations):
        bare = next(r for r in representations if r.ids is None)
        raise PairingError(
            f"{with_ids[0].name} ({with_ids[0].n:,} rows) has sample ids and {bare.name} ({bare.n:,} rows) has none; "
            "give ids to every representation (--ids), or pair rows by position (--ids none; of a data frame pass .to_numpy())."
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
            f"without sample ids rows are paired by position and must be equally many, got {lengths}; pass ids to join them (--ids, or "
            "Representation(values, ids=...))."
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


# -- data frames and tensors, whose libraries need not be imported to be read


@dataclass(frozen=True, eq=False)
class ReadFrame:
    """A data frame as arrays; `ids` and `counted` as of a `Representation`, not checked."""

    values: NDArray[Any]
    columns: tuple[str, ...]
    ids: Any
    counted: NDArray[Any] | None


def is_frame(source: Any) -> bool:
    """Whether it is a data frame of pandas or polars."""
    return hasattr(source, "columns") and hasattr(source, "to_numpy")


def is_anndata(source: Any) -> bool:
    return hasattr(source, "obs_names") and hasattr(source, "to_df")


def as_frame(source: Any) -> Any:
    """A table of pyarrow (or of what gives one) and a Dask data frame as a frame of pandas; all else as it is."""
    if hasattr(source, "column_names") and hasattr(source, "to_pandas"):
        require("pandas", extra="frames", what="a table of pyarrow")
        return source.to_pandas()
    if hasattr(source, "__dask_graph__") and hasattr(source, "columns"):
        frame = source.compute()
        return frame if frame.index.is_unique else frame.reset_index(drop=True)  # each partition counts from 0
    return source


def from_torch(source: Any) -> Any:
    """A torch tensor as an array, bfloat16 as float32, which holds it exactly; all else as it is."""
    if not (hasattr(source, "detach") and hasattr(source, "cpu")):
        return source
    tensor = source.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def frame_of(source: Any, name: str = "X") -> Any:
    """A table in memory as others than us read it: `X` of an AnnData as a data frame with its names, a torch tensor as an array."""
    if not is_anndata(source):
        return from_torch(as_frame(source))
    read_frame(source, None, name)  # which refuses what is not dense
    return source.to_df()


def row_labels(frame: Any) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Who the rows of a data frame are: `ids` and `counted` of a `Representation`. Polars has no index."""
    index = frame.obs_names if is_anndata(frame) else getattr(frame, "index", None)
    if index is None:
        return None, None
    labels = np.asarray(index)
    if getattr(index, "nlevels", 1) > 1 or labels.dtype.kind in "mM":
        labels = np.array([str(label) for label in index.tolist()])
    counting = np.arange(len(labels))
    counts = labels.dtype.kind in "iu" and np.array_equal(labels, counting)
    counts = counts or (is_anndata(frame) and np.array_equal(labels.astype(str), counting.astype(str)))
    return (None, labels) if counts else (labels, None)


def columns_of(frame: Any) -> list[tuple[str, Any]]:
    """The columns of a data frame, with their names."""
    count = frame.shape[1]
    every = frame.get_columns() if hasattr(frame, "get_columns") else [frame.iloc[:, j] for j in range(count)]
    return list(zip(map(str, frame.columns), every, strict=True))


def column_called(frame: Any, ids: str, name: str) -> NDArray[Any]:
    """The column of a data frame that holds the ids."""
    found = [column for key, column in columns_of(frame) if key == ids]
    if len(found) != 1:
        count = "several columns" if found else "no column"
        raise DataError(f"{name}: has {count} {ids!r} for the ids; it has {_listed(map(str, frame.columns))}.")
    return np.asarray(found[0].to_numpy())


def read_frame(frame: Any, ids: Any, name: str) -> ReadFrame:
    """The values of a data frame or AnnData, and who its rows are: `ids`, a column of that name, or its index."""
    of_rows = frame.obs if is_anndata(frame) else frame
    given = column_called(of_rows, ids, name) if isinstance(ids, str) else ids
    own, counted = (given, None) if ids is not None else row_labels(frame)
    if is_anndata(frame):
        if not isinstance(frame.X, np.ndarray):
            raise DataError(
                f"{name}: expected an AnnData whose X is a dense array in memory, got {type(frame.X).__name__}; pass one of "
                f"its obsm ({', '.join(frame.obsm) or 'it has none'}), or the path of the .h5ad file, which is read in blocks."
            )
        return ReadFrame(frame.X, tuple(map(str, frame.var_names)), own, counted)
    columns = [(key, column) for key, column in columns_of(frame) if not (isinstance(ids, str) and key == ids)]
    others = [key for key, column in columns if kind_of(column.dtype) not in "fiub"]
    if others:
        raise DataError(
            f"{name}: expected columns of numbers, got {len(others)} of another kind ({_listed(others)}); drop them, or "
            "name the one with sample ids (ids=)."
        )
    kinds = {column.dtype for _, column in columns}
    if len(kinds) == 1 and isinstance(next(iter(kinds)), np.dtype) and not isinstance(ids, str):
        values = frame.to_numpy()  # a view
    else:
        arrays = [numbers_of(column) for _, column in columns]
        values = np.column_stack(arrays) if arrays else np.empty((len(frame), 0))
    return ReadFrame(values, tuple(key for key, _ in columns), own, counted)


def numbers_of(column: Any) -> NDArray[Any]:
    """A column of numbers as an array; a missing value is NaN."""
    if hasattr(column.dtype, "na_value") and not isinstance(column.dtype, np.dtype):  # pandas' own types, which know NA
        own = getattr(column.dtype, "numpy_dtype", np.dtype(np.float64))
        return np.asarray(column.to_numpy(own if own.kind == "f" else np.float64, na_value=np.nan))
    return np.asarray(column.to_numpy())


def kind_of(dtype: Any) -> str:
    """The letter numpy has for the type of a column: f, i, u and b are numbers."""
    if not hasattr(dtype, "is_numeric"):
        return str(getattr(dtype, "kind", "O"))
    return "f" if dtype.is_float() else "i" if dtype.is_integer() else "b" if str(dtype) == "Boolean" else "O"  # polars


def _listed(names: Iterable[str], most: int = 5) -> str:
    every = list(names)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "") or "no columns"
