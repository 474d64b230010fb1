"""The public calls: what is given as a path is opened, then the room that knows the work is called."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable import identifiability
from identifiable._checks import DataError, PairingError, UsageError, check_unique_ids
from identifiable._extras import require
from identifiable.intake import as_representation
from identifiable.io import open_representation, read_label_table
from identifiable.representation import Representation, comparable_ids
from identifiable.results import Alert, Comparison, from_json


def compare(
    *representations: Any,
    ids: str | Sequence[str] | None = None,
    group_by: Any = None,
    blocks: int | None = None,
    scheduler: str | None = None,
    **options: Any,
) -> Comparison:
    """Are these the same representation, and up to what?

    Parameters
    ----------
    representations
        Two or more of the same rows: arrays (n, d), `Representation`s, `Blocks`, Dask arrays, or paths
        (``"run.npz:layer6"`` names a part of a file).
    ids
        For paths: the column, key or sidecar file that holds sample ids; one for all, or one for each.
    group_by
        One label per row, or the path of a label file (``"labels.csv:plate"``): rows with one label stay together.
    blocks
        For paths: rows to read from storage at once. Changes memory, never a figure.
    scheduler
        Address of a Dask scheduler whose workers make the passes over the rows; they must see the files
        under the same paths. Changes no figure.
    options
        ``groups``, ``folds``, ``bootstrap``, ``nulls``, ``null_draws``, ``epsilon``, ``protocol``, ``seed``, ``workers``,
        ``progress``: see `identifiable.identifiability.compare`.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> compare(X, X @ [[0.6, 0.8], [-0.8, 0.6]], bootstrap=0, nulls=()).verdict.group
    'rigid'
    """
    return _measured(identifiability.compare, representations, ids, group_by, blocks, scheduler, options)


def structural(
    Z: Any,
    sources: Any,
    *,
    ids: str | Sequence[str] | None = None,
    group_by: Any = None,
    blocks: int | None = None,
    scheduler: str | None = None,
    **options: Any,
) -> Comparison:
    """How nearly does a representation recover known sources, up the same ladder (Definition 2)?

    As many dimensions as sources are needed. Arrays or paths; everything else as for `compare`.
    """
    return _measured(identifiability.structural, (Z, sources), ids, group_by, blocks, scheduler, options)


_ONE_IDS_FILE = (
    "{} names the rows of every table, so row i is taken to be the same sample everywhere, as without ids. "
    "Give each table its own (--ids once per table) if their rows may be in another order."
)


def _measured(
    measure: Callable[..., Comparison],
    sources: Sequence[Any],
    ids: str | Sequence[str] | None,
    group_by: Any,
    blocks: int | None,
    scheduler: str | None,
    options: dict[str, Any],
) -> Comparison:
    """Open what is a path, connect where asked, and measure."""
    opened = _open(sources, ids, blocks)
    if isinstance(group_by, (str, os.PathLike)):
        options.setdefault("group_by_name", str(group_by))
        group_by = _labels_of(group_by, as_representation(opened[0]))
    with connected(scheduler) if scheduler else nullcontext() as cluster:
        result = measure(*opened, group_by=group_by, cluster=cluster, **options)
    if isinstance(ids, str) and Path(ids).is_file():  # one list of names for every table is pairing by position
        result = replace(result, alerts=(Alert("one_ids_file", _ONE_IDS_FILE.format(ids)), *result.alerts))
    return result


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the Dask scheduler at `address`."""
    require("distributed", extra="dask", what="a Dask scheduler")
    from distributed import Client

    try:
        client: Any = Client(address, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {address} ({error}); start one with 'dask scheduler'."
        ) from None
    with client:
        yield client


def load(path: str | os.PathLike[str]) -> Comparison:
    """A result saved as JSON."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise DataError(f"{path}: expected a JSON result of identifiable, could not read it ({why}).") from None
    result: Comparison = from_json(text, str(path))
    return result


def _open(sources: Sequence[Any], ids: str | Sequence[str] | None, rows: int | None) -> list[Any]:
    each = [ids] * len(sources) if ids is None or isinstance(ids, str) else list(ids)
    if len(each) != len(sources):
        raise UsageError(f"ids: expected one for all or one for each of {len(sources)} tables, got {len(each)}.")
    opened = [
        open_representation(s, ids=i, rows=rows) if isinstance(s, (str, os.PathLike)) else s
        for s, i in zip(sources, each, strict=True)
    ]
    if all(isinstance(s, (str, os.PathLike)) for s in sources):
        for i, name in enumerate(_short_names([r.name for r in opened], [Path(s) for s in sources])):
            opened[i] = replace(opened[i], name=name)
    return opened


def _short_names(names: list[str], paths: list[Path]) -> list[str]:
    """The shortest names that tell files apart: `runs.npz:a` and `runs.npz:b` are a and b; x/run.npy is x/run beside y/run."""
    parts = [name.partition(":")[2] or name for name in names]
    folders = [f"{path.resolve().parent.name}/{name}" for path, name in zip(paths, names, strict=True)]
    one_file = len({name.partition(":")[0] for name in names}) == 1
    for candidate in ([parts] if one_file else []) + [names, folders]:
        if len(set(candidate)) == len(candidate):
            return candidate
    return names


def _labels_of(spec: str | os.PathLike[str], first: Representation) -> NDArray[Any]:
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
