"""Comparing: paths are opened, then `identifiability` measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from identifiable import identifiability
from identifiable.api.opening import connected, is_path, labels_of, one_ids_file, open_sources
from identifiable.intake import as_representation
from identifiable.results import Comparison


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

    >>> import numpy as np
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
    opened = open_sources(sources, ids, blocks)
    if is_path(group_by):
        options.setdefault("group_by_name", str(group_by))
        group_by = labels_of(group_by, as_representation(opened[0]))
    with connected(scheduler) if scheduler else nullcontext() as cluster:
        result = measure(*opened, group_by=group_by, cluster=cluster, **options)
    return replace(result, alerts=(*one_ids_file(ids), *result.alerts))
