"""Tables in many files of one format: patterns (``runs/*.npy``), folders as Spark writes them, Hugging Face `datasets` on disk.

Rows follow each other in the natural order of the files' names. A file is opened when its rows are first read.
"""

from __future__ import annotations

import glob
import itertools
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.io.containers import (
    Container,
    IdentifiedColumn,
    IdentifiedRows,
    check_is_file,
    identities_from_text,
    is_file_name,
    is_folder,
    is_there,
    listed,
    named,
    natural,
    reason,
    shown,
    suffix_of,
)
from identifiable.io.label_columns import Kind
from identifiable.io.labelled import Found, LabelledTable
from identifiable.io.remote import RemotePath
from identifiable.io.stored_rows import FileBytes, Layout, LazyRows, open_again, positions
from identifiable.io.tables import TextTable

OPEN = 128  # shards that are open at once: each may have a file, and a process has some thousand
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
STATE, SPLITS = "state.json", "dataset_dict.json"  # of `datasets`
LARGEST_STATE = 2**24

Reader = Callable[[Path], Container]
_Columns = tuple[int, tuple[str, ...] | None]  # how many, and what they are called


class Shard(NamedTuple):
    """A file, what the folders above it say of all its rows (``day=1``), and a name that no other shard has."""

    path: Path
    keys: Mapping[str, str]
    name: str


# -- rows


class _Slot:
    """A shard that is open, or is being opened by a thread for all."""

    def __init__(self, rows: LazyRows | None = None) -> None:
        self.lock, self.rows = threading.Lock(), rows


@dataclass(frozen=True)
class ShardRecipe:
    """How the rows of one shard are found again, and what they were; `order` is where the columns of the first shard are in it."""

    again: Callable[[], LazyRows]
    n: int
    dtype: str
    order: tuple[int, ...] | None = None  # as they are


class ShardRows:
    """Rows of many tables, one below the other. A `stored_rows.LazyRows`.

    Files of different types are read as their smallest common type.
    """

    def __init__(
        self,
        recipes: Sequence[ShardRecipe],
        width: int,
        names: Sequence[str],
        *,
        decoded: bool,
        stored_dtype: str | None = None,
    ):
        self.recipes, self.names, self.decoded = tuple(recipes), tuple(names), decoded
        self.edges = np.cumsum([0, *(recipe.n for recipe in recipes)])
        self.shape: tuple[int, ...] = (int(self.edges[-1]), width)
        kinds = dict.fromkeys(np.dtype(recipe.dtype) for recipe in recipes)
        self.dtype = np.result_type(*kinds)
        self.stored_dtype = stored_dtype or " and ".join(map(str, kinds))
        self.again: Callable[[], LazyRows] = partial(
            ShardRows, self.recipes, width, self.names, decoded=decoded, stored_dtype=stored_dtype
        )
        self._slots: OrderedDict[int, _Slot] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return self.again, ()

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def files(self) -> dict[str, int]:
        """The names of the files, and how many rows each of them has."""
        return {name: recipe.n for name, recipe in zip(self.names, self.recipes, strict=True)}

    def keep(self, k: int, rows: LazyRows) -> None:
        """A shard that is open already."""
        if len(self._slots) < OPEN:
            self._slots[k] = _Slot(rows)

    def __getitem__(self, rows: slice | NDArray[Any]) -> NDArray[Any]:
        wanted = positions(rows, self.shape[0])
        if isinstance(wanted, tuple):
            start, stop = wanted
            first, last = np.searchsorted(self.edges, [start, max(stop - 1, start)], side="right") - 1
            parts = [
                self._rows_of(k, slice(max(start - int(self.edges[k]), 0), stop - int(self.edges[k])))
                for k in range(int(first), int(last) + 1)
                if stop > start
            ]
            if len(parts) == 1:
                return np.asarray(parts[0]).astype(self.dtype, copy=False)
            return np.concatenate([np.empty((0, self.shape[1]), self.dtype), *parts], dtype=self.dtype)
        out = np.empty((wanted.size, self.shape[1]), self.dtype)
        shard = np.searchsorted(self.edges, wanted, side="right") - 1
        for k in np.unique(shard).tolist():
            here = shard == k
            out[here] = self._rows_of(k, wanted[here] - self.edges[k])
        return out

    def _rows_of(self, k: int, rows: slice | NDArray[Any]) -> NDArray[Any]:
        found, order = self._shard(k)[rows], self.recipes[k].order
        return found if order is None else np.take(found, order, axis=1)

    def _shard(self, k: int) -> LazyRows:
        with self._lock:
            slot = self._slots.pop(k, None) or _Slot()
            self._slots[k] = slot
            while len(self._slots) > OPEN:
                self._slots.popitem(last=False)
        with slot.lock:
            if slot.rows is None:
                recipe = self.recipes[k]
                slot.rows = open_again(recipe.again, (recipe.n, self.shape[1]), recipe.dtype)
            return slot.rows


# -- containers


class Shards:
    """Files of arrays, or of text, one below the other. A `containers.Container`."""

    def __init__(self, shards: Sequence[Shard], label: str, reader: Reader):
        self.shards, self.label, self.reader = tuple(shards), label, reader
        self._first = self.reader(shards[0].path)
        self.names: tuple[str, ...] = tuple(self._first.names)

    def table(self, part: str | None, *, ids: str | None, own_ids: bool) -> IdentifiedRows:
        found: list[ShardRecipe] = []
        opened: list[LazyRows] = []
        row_ids = []
        width, names = 0, None
        for shard in self.shards:
            table = self.reader(shard.path).table(part, ids=ids, own_ids=own_ids)
            if not found:
                width, names = table.rows.shape[1], table.columns
            order = self._order(shard, (table.rows.shape[1], table.columns), (width, names))
            found.append(_recipe(table.rows, order))
            row_ids.append(table.ids)
            if len(opened) < OPEN:
                opened.append(table.rows)
        stored = {each.stored_dtype for each in opened}
        rows = ShardRows(
            found,
            width,
            self._file_names(),
            decoded=getattr(opened[0], "decoded", False),
            stored_dtype=stored.pop() if len(stored) == 1 else None,
        )
        for k, each in enumerate(opened):
            rows.keep(k, each)
        return IdentifiedRows(rows, self._joined(row_ids, "ids"), names)

    def column(self, part: str | None) -> IdentifiedColumn:
        columns = [self.reader(shard.path).column(part) for shard in self.shards]
        values = self._joined([column.values for column in columns], part or "the column")
        assert values is not None
        return IdentifiedColumn(values, self._joined([column.ids for column in columns], "ids"))

    def _order(self, shard: Shard, own: _Columns, first: _Columns) -> tuple[int, ...] | None:
        """Where the columns of the first shard are in another one: by name where they have names, None where they are as there."""
        (width, names), (expected, wanted) = own, first
        if own == first:
            return None
        if width != expected or names is None or wanted is None or len(set(wanted)) < width or {*names} != {*wanted}:
            raise DataError(
                f"{shard.path}: expected the {expected} columns of {self.shards[0].path.name} "
                f"({named(wanted or ()) or 'without names'}), got {width} ({named(names or ()) or 'without names'}); shards need "
                "the same columns."
            )
        place = {name: j for j, name in enumerate(names)}
        return tuple(place[name] for name in wanted)

    def _joined(self, columns: Sequence[NDArray[Any] | None], what: str) -> NDArray[Any] | None:
        held = [column for column in columns if column is not None]
        if len(held) < len(columns):
            if not held:
                return None
            missing = next(shard for shard, column in zip(self.shards, columns, strict=True) if column is None)
            raise DataError(f"{missing.path}: has no {shown(what)}, other shards have; give all of them or none.")
        kinds = {"U" if column.dtype.kind == "U" else "f" if column.dtype.kind == "f" else "i" for column in held}
        if kinds <= {"i", "f"} or kinds <= {"U", "i"}:
            return np.concatenate([column.astype(str) for column in held] if "U" in kinds else held)
        words = next(shard for shard, column in zip(self.shards, held, strict=True) if column.dtype.kind == "U")
        raise DataError(f"{words.path}: {shown(what)} is text there and numbers in other shards; store it alike.")

    def _file_names(self) -> list[str]:
        return [shard.name for shard in self.shards]


class LabelledShards(LabelledTable, Shards):
    """Files of tables with named columns, one below the other; what folders say (``day=1``) is a column of labels."""

    def __init__(self, shards: Sequence[Shard], label: str, reader: Reader):
        Shards.__init__(self, shards, label, reader)
        first = self._first
        assert isinstance(first, LabelledTable)
        self.index, self.unnamed = first.index, first.unnamed
        self._own = tuple(first.names)
        self._keys = {key: self._key(key) for key in shards[0].keys}
        twice = [key for key in self._keys if key in self._own]
        if twice:
            raise DataError(f"{label}: {shown(twice[0])!r} is a folder and a column of the files; rename one.")
        self.names = (*self._own, *self._keys)
        self._counts: list[int] = []
        self._kinds = self._checked()

    @property
    def first(self) -> LabelledTable:
        return self._labelled(self._first)

    @property
    def column_names(self) -> tuple[str, ...]:
        return (*getattr(self._first, "column_names", ()), *self._keys)

    @property
    def columns(self) -> Sequence[str]:
        return [*self.first.columns, *self._keys]

    def kinds(self) -> dict[str, Kind]:
        return self._kinds

    def heads(self, features: tuple[str, ...], width: int) -> tuple[str, ...] | None:
        return self.first.heads(features, width)

    def stored(self, name: str) -> str:
        return self.first.stored(name)

    def table(self, part: str | None, *, ids: str | None, own_ids: bool) -> IdentifiedRows:
        return (Shards if isinstance(self._first, TextTable) else LabelledTable).table(
            self, part, ids=ids, own_ids=own_ids
        )

    def column(self, part: str | None) -> IdentifiedColumn:
        text = isinstance(self._first, TextTable) and part not in self._keys
        return (Shards if text else LabelledTable).column(self, part)

    def read(self, names: Sequence[str]) -> Found:
        own = [name for name in names if name not in self._keys]
        parts: dict[str, list[NDArray[Any] | None]] = {name: [] for name in own}
        counts = []
        for shard in self.shards:
            table: Any = self.reader(shard.path)
            read = table.read(own or self._own[:1])
            for name in own:
                parts[name].append(read[name])
            counts.append(table.n if hasattr(table, "n") else len(next(iter(read.values()))))
        found: Found = {
            name: None if any(part is None for part in held) else self._joined(held, name)
            for name, held in parts.items()
        }
        return found | {name: np.repeat(self._keys[name], counts) for name in names if name in self._keys}

    def rows(self, features: Any) -> LazyRows:
        found, opened = [], {}
        for k, shard in enumerate(self.shards):
            table: Any = self.reader(shard.path)
            if hasattr(table, "outline"):  # it says what it holds before it is unpacked
                layout: Layout = table.outline(features)
                recipe = ShardRecipe(table.recipe(features), layout.shape[0], layout.dtype.str)
                width = layout.shape[1]
            else:
                rows = table.rows(features)
                recipe = _recipe(rows)
                width = rows.shape[1]
                if k < OPEN:
                    opened[k] = rows
            own = width, self._labelled(table).heads(features, width)
            if k == 0:
                first = own
            found.append(replace(recipe, order=self._order(shard, own, first)))
        result = ShardRows(found, first[0], self._file_names(), decoded=not opened)
        for k, rows in opened.items():
            result.keep(k, rows)
        return result

    def _checked(self) -> dict[str, Kind]:
        """What the columns hold in all shards, which need the same names."""
        kinds: dict[str, set[Kind]] = {}
        for shard in self.shards:
            table = self._labelled(self.reader(shard.path))
            if set(table.names) != set(self._own):
                odd = sorted(set(table.names) ^ set(self._own))
                raise DataError(
                    f"{shard.path}: expected the columns of {self.shards[0].path.name}; only one of the two has {named(odd)}."
                )
            if not isinstance(table, TextTable) or table.column_names:
                for name, kind in table.kinds().items():
                    kinds.setdefault(name, set()).add(kind)
        numbers: set[Kind] = {"float", "whole"}
        own: dict[str, Kind] = {
            name: next(iter(found)) if len(found) == 1 else "float" if found <= numbers else "other"
            for name, found in kinds.items()
        }
        return own | dict.fromkeys(self._keys, "other")

    def _key(self, key: str) -> NDArray[Any]:
        values = []
        for shard in self.shards:
            if key not in shard.keys:
                raise DataError(f"{shard.path}: expected it in a folder {shown(key)}=…, as other shards are.")
            values.append("" if shard.keys[key] == NO_VALUE else unquote(shard.keys[key]))
        return identities_from_text(values)

    def _labelled(self, container: Any) -> LabelledTable:
        assert isinstance(container, LabelledTable)
        return container


def _recipe(rows: LazyRows, order: tuple[int, ...] | None = None) -> ShardRecipe:
    return ShardRecipe(rows.again, int(rows.shape[0]), rows.dtype.str, order)


def open_shards(shards: Sequence[Shard], label: str, reader: Reader) -> Container:
    """Many files as one table."""
    for shard in shards:
        if not is_folder(shard.path):
            check_is_file(shard.path)
    opened = lru_cache(OPEN)(reader)
    held = [shard for shard in shards if getattr(opened(shard.path), "n", 1)]  # Spark also writes files without rows
    if not held:
        raise DataError(f"{label}: expected rows, got {len(shards)} files without any.")
    kind = LabelledShards if isinstance(opened(held[0].path), LabelledTable) else Shards
    return kind(held, label, opened)


# -- which files


def matched(pattern: Path) -> list[Shard]:
    """The files that match a pattern, in natural order."""
    if isinstance(pattern, RemotePath):
        found: list[Path] = list(pattern.found(pattern=True))
    else:
        found = [Path(name) for name in glob.glob(str(pattern), recursive=True)]
    found = [path for path in found if not path.name.startswith((".", "_"))]
    if not found:
        if not {"*", "?"} & set(str(pattern)):  # the name of a file may hold brackets
            raise DataError(f"{pattern}: no such file, and none matches it as a pattern ([...]); check the path.")
        raise DataError(f"{pattern}: no file matches; check the pattern, and put it in quotes.")
    fixed = itertools.takewhile(lambda part: not any(character in part for character in "*?["), pattern.parts)
    return _sorted(found, len(list(fixed)))


def under(folder: Path) -> list[Shard]:
    """The data files of a folder and of its folders ``key=value``, in natural order; none if it holds none.

    What begins with a dot or an underscore (`_SUCCESS`) is about the data.
    """
    if isinstance(folder, RemotePath):
        return _sorted([path for path in folder.found(pattern=False) if not _hidden(path, folder)], len(folder.parts))
    found: list[Path] = []
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        other = [name for name in folders if "=" not in name]
        if other and any("=" in name for name in (*folders, Path(at).name)):
            raise DataError(f"{at}: expected files and folders key=value, also got {named(other)}; name the files.")
        folders[:] = [name for name in folders if "=" in name]
        found += [Path(at) / name for name in files if not name.startswith((".", "_"))]
    return _sorted(found, len(folder.parts))


def one_format(shards: Sequence[Shard], known: Sequence[str], label: str) -> str:
    """The suffix that all files have."""
    suffixes = sorted({suffix_of(shard.path) for shard in shards})
    if len(suffixes) > 1 or suffixes[0] not in known:
        raise DataError(
            f"{label}: expected files of one format ({', '.join(known)}), got "
            f"{listed([shown(suffix or 'without a suffix') for suffix in suffixes])}; name them by a pattern, as in '{label}/*.npy'."
        )
    return suffixes[0]


def dataset_files(folder: Path) -> list[Shard] | None:
    """The files of a data set that Hugging Face `datasets` saved to disk, as its `state.json` lists them; None if it is none."""
    if is_there(folder / SPLITS):
        raise DataError(f"{folder}: holds several data sets; name one of its folders, as in {folder}/train")
    state = folder / STATE
    if not is_there(state):
        return None
    check_is_file(state)
    try:
        known = json.loads(FileBytes.open(state, str(state)).read(0, LARGEST_STATE))
        names = [str(entry["filename"]) for entry in known["_data_files"]]
        indices = known.get("_indices_data_files") or known.get("_indices_files")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{state}: expected the state of a data set ({reason(error)}); save it again.") from None
    if indices:
        raise DataError(f"{folder}: its rows are chosen by an index; save it again after .flatten_indices().")
    for name in names:
        if not is_file_name(name):
            raise DataError(f"{state}: expected names of files in the same folder, got {shown(name)!r}.")
    if not names:
        raise DataError(f"{folder}: expected a data set with rows, got one without files.")
    return [Shard(folder / name, {}, name) for name in names]


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts[len(folder.parts) :])


def _sorted(paths: Sequence[Path], depth: int) -> list[Shard]:
    """Files in natural order, with what the folders below the first `depth` say."""
    ordered = sorted(paths, key=lambda path: [natural(part) for part in path.parts])
    return [Shard(path, _keys(path.parts[depth:-1]), "-".join(path.parts[depth:])) for path in ordered]


def _keys(parts: Sequence[str]) -> dict[str, str]:
    pairs = (part.partition("=") for part in parts if "=" in part)
    return {unquote(key): value for key, _, value in pairs if key}
