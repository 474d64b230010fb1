"""Tables whose columns have names: some are features, the others labels of the rows, and one may tell who the rows are.

`LabelledTable` is the one class behind text, `.parquet`, `.h5ad`, data frames and AnnData objects. A format says which columns it
has and what they hold, and reads them; which are features, which are ids, and what is refused is the same for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.blocks import Rows
from identifiable.io.containers import IdentifiedColumn, IdentifiedRows, identities, named, shown
from identifiable.io.label_columns import (
    METADATA,
    WELL_ID,
    FeatureChoice,
    Kind,
    choose_features,
    choose_without,
    columns_named,
    is_id_name,
)
from identifiable.results import Alert

Columns = Mapping[str, NDArray[Any]]
Found = dict[str, NDArray[Any] | None]
NoFeature = Callable[[str], bool]  # whether a column of that name is no feature unless it is asked for


def never(name: str) -> bool:
    return False


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """What was read of a table: rows of features, None of metadata alone, and the columns beside them.

    `label` is for errors; `notes` say how columns were taken. `id_name` is the column that `ids` were read from, where they are a column.
    `numbered` where the names of the features only number them.
    """

    label: str
    labels: Columns
    ids: NDArray[Any] | None = None
    id_name: str | None = None
    rows: Any = None  # a `blocks.Rows`
    feature_names: tuple[str, ...] = ()
    numbered: bool = False
    notes: tuple[Alert, ...] = ()

    @property
    def n(self) -> int:
        return int(self.rows.shape[0]) if self.rows is not None else len(next(iter(self.labels.values())))

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the features, if they are not numbers of ours."""
        return None if self.numbered else self.feature_names

    def ids_in(self, name: str) -> NDArray[Any]:
        """A column that names the rows."""
        return checked_ids(self.labels, name, self.label)


class LabelledTable(ABC):
    """A table that was opened, not yet read. A format gives `names`, `columns`, `kinds`, `read` and `rows`."""

    label: str
    names: tuple[str, ...]  # what ids may be called
    index: str | None = None  # the column that the format itself says are the ids
    unnamed: str | None = None  # a column that is taken for the ids if no other looks like them

    @property
    def columns(self) -> Sequence[str]:
        """The columns that may be labels."""
        return self.names

    @abstractmethod
    def kinds(self) -> dict[str, Kind]:
        """What each column holds that may be a feature."""

    @abstractmethod
    def read(self, names: Sequence[str]) -> Mapping[str, NDArray[Any] | None]:
        """Columns in memory, in the form of `label_columns`; None for one that does not hold single values."""

    @abstractmethod
    def rows(self, features: Any) -> Rows:
        """The rows of the columns that were chosen, read lazily."""

    def heads(self, features: tuple[str, ...], width: int) -> tuple[str, ...] | None:
        """What the columns of such rows are called; None if they have no names."""
        return features

    def where(self, name: str) -> str:
        return f"{self.label}: column {shown(name)!r}"

    def stored(self, name: str) -> str:
        """How a column is stored that holds no single values."""
        return "something else"

    def choose(
        self, asked: Sequence[str] | str | None, ids: str | None, no_feature: NoFeature = never
    ) -> FeatureChoice:
        """The features; what looks like ids is none unless named as one."""
        kinds = {n: k for n, k in self.kinds().items() if n != ids and (asked is not None or not is_id_name(n))}
        return (
            choose_without(kinds, no_feature, self.label)
            if asked is None
            else choose_features(kinds, asked, self.label)
        )

    def table(self, part: str | None, *, ids: str | None, own_ids: bool) -> IdentifiedRows:
        choice = self.choose(part, ids)
        row_ids = self.identified(ids, self._beside(choice.names), {})[0] if ids or own_ids else None
        rows: Any = self.rows(choice.names)
        return IdentifiedRows(rows, row_ids, self.heads(choice.names, rows.shape[1]))

    def column(self, part: str | None) -> IdentifiedColumn:
        wanted = self._one_column(part)
        return IdentifiedColumn(self._ids(wanted, {}), self.identified(None, self._beside([wanted]), {})[0])

    def labelled(
        self,
        features: Sequence[str] | str | None,
        ids: str | None,
        *,
        no_feature: NoFeature = never,
    ) -> LabelledRows:
        """The features, by names and patterns or as the table shows them, with every other column as a label.

        `no_feature` says of a name that it is none unless it is asked for.
        """
        choice = self.choose(features, ids, no_feature)
        rows = self.rows(choice.names)
        beside = self._beside(choice.names)
        found = dict(self.read(beside))
        row_ids, id_name = self.identified(ids, beside, found)
        heads = self.heads(choice.names, rows.shape[1])
        stem = choice.names[0].rpartition("/")[2]
        names = heads if heads is not None else tuple(f"{stem}_{j}" for j in range(rows.shape[1]))
        labels, notes = self._labels(found, beside)
        return LabelledRows(self.label, labels, row_ids, id_name, rows, names, heads is None, (*choice.notes, *notes))

    def metadata(self, part: str | None = None) -> LabelledRows:
        """Columns as labels, all or those that `part` names."""
        wanted = columns_named(self.columns, part, self.label)
        found = dict(self.read(wanted))
        row_ids, id_name = self.identified(None, self.columns, found)
        return LabelledRows(self.label, self._labels(found, wanted)[0], row_ids, id_name)

    def identified(
        self, asked: str | None, among: Sequence[str], found: Found
    ) -> tuple[NDArray[Any] | None, str | None]:
        """Who the rows are, by the column `asked` for or the table's own `among` others; `found` were read already."""
        name = self.index if asked is None else asked
        if name is None:
            like = [other for other in among if is_id_name(other)]
            name = own_id_name(like, partial(self._found, found), self.label)
        name = self.unnamed if name is None else name
        return (None, None) if name is None else (self._ids(name, found), name or None)

    def _ids(self, name: str, found: Found) -> NDArray[Any]:
        if self._found(found, name) is None and name in found:
            raise DataError(f"{self.where(name)}: expected text or whole numbers, got {self.stored(name)}.")
        return checked_ids(found, name, self.label, self.where(name))

    def _found(self, found: Found, name: str) -> NDArray[Any] | None:
        if name not in found and name in self.names:
            found.update(self.read([name]))
        return found.get(name)

    def _beside(self, features: Iterable[str]) -> list[str]:
        chosen = set(features)
        return [name for name in self.columns if name not in chosen]

    def _labels(self, found: Found, names: Iterable[str]) -> tuple[dict[str, NDArray[Any]], tuple[Alert, ...]]:
        """The columns that hold single values, and a note that names the others."""
        labels = {name: values for name in names if (values := found[name]) is not None}
        left_out = [f"{shown(name)} ({self.stored(name)[:40]})" for name in names if name not in labels]
        return labels, (Alert("reading", {"left_out": left_out}),) if left_out else ()

    def _one_column(self, part: str | None) -> str:
        if part is not None:
            return part if part in (*self.columns, self.index) else columns_named(self.columns, part, self.label)[0]
        choice = [name for name in self.columns if name != self.index and not is_id_name(name)] or list(self.columns)
        if len(choice) != 1:
            raise DataError(
                f"{self.label}: expected one column, it has {len(choice)} ({named(choice)}); "
                f"name one after a colon, as in {self.label}:{shown(choice[0]) if choice else 'NAME'}"
            )
        return choice[0]


def check_names(names: Sequence[str], label: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{label}: several columns are called {shown(twice)!r}; rename all but one.")


def checked_ids(columns: Mapping[str, Any], name: str, label: str, where: str = "") -> NDArray[Any]:
    """A column of ids; an error if it is not there or has gaps."""
    if name not in columns:
        raise DataError(f"{label}: no column {name!r} for the ids; it has {named(columns) or 'no columns'}.")
    where = where or f"{label}: column {shown(name)!r}"
    return identities(filled_ids(columns[name], where), where)


def own_id_name(like: Sequence[str], read: Callable[[str], NDArray[Any] | None], label: str) -> str | None:
    """The column of ids among those named `like` one. A `well_id` that repeats names wells, not rows."""
    plain = [name for name in like if name.lower().removeprefix(METADATA) != WELL_ID]
    if len(plain) > 1:
        raise DataError(f"{label}: columns {named(plain)} could all be the ids; choose one with --ids.")
    if plain:
        return plain[0]
    wells = [name for name in like if (values := read(name)) is not None and len(np.unique(values)) == len(values)]
    return next(iter(wells), None)


def filled_ids(values: NDArray[Any], where: str) -> NDArray[Any]:
    """`values` if none is missing."""
    missing = values == "" if values.dtype.kind == "U" else values != values
    if missing.any():
        rows = np.flatnonzero(missing)
        first = ", ".join(map(str, rows[:5].tolist()))
        raise DataError(f"{where}: expected a value in every row, {len(rows)} rows have none (first, from 0: {first}).")
    return values
