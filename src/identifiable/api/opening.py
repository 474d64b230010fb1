"""What the public calls share: opening paths, reaching a cluster, loading results."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, PairingError, UsageError, check_unique_ids
from identifiable._extras import require
from identifiable.intake import as_representation
from identifiable.io import open_representation, read_label_table
from identifiable.io.containers import check_is_file, file_path, named
from identifiable.io.opening import labelled_table, located
from identifiable.options.running import Tables
from identifiable.representation import Representation, comparable_ids
from identifiable.results import Alert, Shown, from_json


def is_path(source: Any) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(source, (str, os.PathLike))


def open_sources(
    sources: Sequence[Any],
    ids: str | Sequence[str] | None,
    rows: int | None = None,
    names: Sequence[str] | None = None,
    labels: Collection[str] = (),
) -> list[Any]:
    """Every path among `sources` as a `Representation`, read `rows` at a time, and so what `ids` or `names` are given for.

    The rest is left as it is. `labels` are columns of the first table that hold no values.
    """
    each = [ids] * len(sources) if ids is None or isinstance(ids, str) else list(ids)
    if len(each) != len(sources):
        raise UsageError(
            f"ids: expected one name or file for all or one for each of {len(sources)} tables, got {len(each)}; ids of rows that "
            "are in memory go with their table: Representation(values, ids=...)."
        )
    opened = [_opened(s, i, rows, () if k else labels) for k, (s, i) in enumerate(zip(sources, each, strict=True))]
    if names is None and all(is_path(s) for s in sources):
        names = _short_names([r.name for r in opened], [Path(s) for s in sources])
    elif names is not None and (len(names) != len(sources) or len(set(names)) < len(names)):
        raise UsageError(f"names: expected {len(sources)} different ones, one for each table, got {', '.join(names)}.")
    if names is None:
        return opened
    tables = [as_representation(r, i, alone=len(opened) == 1) for i, r in enumerate(opened)]
    return [replace(table, name=name) for table, name in zip(tables, names, strict=True)]


def _opened(source: Any, ids: str | None, rows: int | None, labels: Collection[str]) -> Any:
    if is_path(source):
        return open_representation(source, ids=ids, rows=rows, labels=labels)
    if ids is None or isinstance(source, Representation):  # one that is open has its ids
        return source
    return replace(as_representation(source, ids=ids, name="table"), name=Representation.name)


def one_ids_file(ids: str | Sequence[str] | None) -> tuple[Alert, ...]:
    """The alert that one list of names for every table is pairing by position."""
    if isinstance(ids, str) and Path(ids).is_file():
        return (Alert("one_ids_file", {"ids": ids}),)
    return ()


class Opened:
    """What a call was given, opened: tables, and the cluster that reads them, while it is entered."""

    def __init__(self, sources: Sequence[Any], options: Tables):
        self._file = located(sources[0]).path if sources and is_path(sources[0]) else None
        labels = [self._own_column(getattr(options, name, None)) for name in ("group_by", "labels")]
        self.tables = open_sources(sources, options.ids, options.blocks, options.names, [n for n in labels if n])
        self._connection = connected(options.scheduler)
        self.cluster: Any = None

    def _own_column(self, given: Any) -> str | None:
        """The column of the first table that `given` may name: by its name, or as FILE:COLUMN of that file."""
        if self._file is None or not is_path(given):
            return None
        at = located(given)
        return at.part if at.path == self._file else str(given)

    def labels(self, given: Any) -> tuple[Any, str | None]:
        """One label for each row of the first table, and their name: labels, a column of that table, or a file of them."""
        if not is_path(given):
            return given, None
        first, name = as_representation(self.tables[0]), str(given)
        if name in first.labels:
            return first.labels[name], name
        table = None if self._file is None else labelled_table(self._file)
        if table is not None and name in table.columns:
            return table.column(name).values, name
        file = located(given).path
        if file.suffix or os.path.lexists(file):
            return labels_of(given, first), name
        held = named([*first.labels, *(table.columns if table is not None else ())]) or "no columns of labels"
        raise DataError(f"{name!r}: expected FILE:COLUMN or a column of {first.name}, which has {held}.")

    def __enter__(self) -> Self:
        self.cluster = self._connection.__enter__()
        return self

    def __exit__(self, *how: Any) -> None:
        self._connection.__exit__(*how)


@contextmanager
def connected(scheduler: Any) -> Iterator[Any]:
    """A client of the Dask scheduler at an address, or the client that was given, which stays open; None where there is none."""
    if not scheduler:
        yield None
        return
    require("distributed", extra="dask", what="a Dask scheduler")
    from distributed import Client

    if not isinstance(scheduler, str):
        yield scheduler
        return
    with _unlogged():
        try:
            client: Any = Client(scheduler, timeout="10s", set_as_default=False)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"no Dask scheduler answers at {scheduler} ({error}); start one with 'dask scheduler'."
            ) from None
        with client:
            yield client


@contextmanager
def _unlogged() -> Iterator[None]:
    """Without the traceback that distributed logs when a scheduler is lost: `blocks.cluster` says it in one line."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]  # each has a level of its own
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def load(path: str | os.PathLike[str]) -> Shown:
    """A result saved as JSON; its class follows from its schema."""
    file = file_path(path)
    check_is_file(file)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise DataError(f"{path}: expected a JSON result of identifiable, could not read it ({why}).") from None
    result: Shown = from_json(text, str(path))
    return result


def _short_names(names: list[str], paths: list[Path]) -> list[str]:
    """The shortest names that tell files apart: `runs.npz:a` and `runs.npz:b` are a and b; x/run.npy is x/run beside y/run."""
    parts = [name.partition(":")[2] or name for name in names]
    folders = [f"{path.resolve().parent.name}/{name}" for path, name in zip(paths, names, strict=True)]
    one_file = len({name.partition(":")[0] for name in names}) == 1
    for candidate in ([parts] if one_file else []) + [names, folders]:
        if len(set(candidate)) == len(candidate):
            return candidate
    return names


def labels_of(spec: str | os.PathLike[str], first: Representation) -> NDArray[Any]:
    """Labels of the rows of `first`, joined by id where both have ids."""
    labels, ids = read_label_table(spec)
    if ids is None or first.ids is None:
        if len(labels) != first.n:
            raise PairingError(
                f"{spec}: expected one label for each of the {first.n} rows of {first.name}, got {len(labels)}."
            )
        return labels
    known, wanted = comparable_ids(ids, str(spec)).astype(str), comparable_ids(first.ids, first.name).astype(str)
    check_unique_ids(known, str(spec))
    order = np.argsort(known, kind="stable")
    known = known[order]
    place = np.searchsorted(known, wanted).clip(max=len(known) - 1)
    missing = known[place] != wanted
    if missing.any():
        raise PairingError(
            f"{spec}: {int(missing.sum())} of {first.n} sample ids of {first.name} have no label "
            f"(first: {wanted[missing][0]}); add them or drop those rows."
        )
    joined: NDArray[Any] = labels[order[place]]
    return joined
