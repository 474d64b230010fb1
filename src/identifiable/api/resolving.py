"""Resolving: paths are opened, then `ica` does the work."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, overload

from identifiable import ica
from identifiable._checks import UsageError
from identifiable.api.opening import connected, is_path, labels_of, one_ids_file, open_sources
from identifiable.ica import JointlyResolved, Resolved
from identifiable.intake import as_representation


@overload
def resolve(
    representation: Any,
    /,
    *,
    ids: str | Sequence[str] | None = None,
    group_by: Any = None,
    blocks: int | None = None,
    scheduler: str | None = None,
    **options: Any,
) -> Resolved: ...
@overload
def resolve(
    first: Any,
    second: Any,
    /,
    *others: Any,
    ids: str | Sequence[str] | None = None,
    group_by: Any = None,
    blocks: int | None = None,
    scheduler: str | None = None,
    **options: Any,
) -> JointlyResolved: ...
def resolve(
    *representations: Any,
    ids: str | Sequence[str] | None = None,
    group_by: Any = None,
    blocks: int | None = None,
    scheduler: str | None = None,
    **options: Any,
) -> Resolved | JointlyResolved:
    """Whiten and unmix, so that what is the same up to a linear map becomes the same up to nothing.

    Implements the recipe of Theorem 2 (Nelson et al. 2026). One representation gives `Resolved`: the map to its
    components, the map back, and the `Resolution` that says which of them another sample would give again. Two or
    more of the same rows are each resolved alone and then matched: `JointlyResolved`, with `models` and a
    `JointResolution` that says which components all of them share.

    Parameters
    ----------
    representations
        Arrays (n, d), `Representation`s, `Blocks`, Dask arrays, or paths (``"run.npz:layer6"`` names a part of a file).
    ids
        For paths: the column, key or sidecar file that holds sample ids; one for all, or one for each.
    group_by
        One label per row, or the path of a label file (``"labels.csv:plate"``): rows with one label stay together
        in the refits. Say so where rows are near copies (crops of an image, wells of a plate), or all looks stable.
    blocks
        For paths: rows to read from storage at once. Changes memory, never a figure.
    scheduler
        Address of a Dask scheduler whose workers make the passes over the rows. Changes no figure.
    options
        ``rank``, ``contrast``, ``order``, ``restarts``, ``stability``, ``tol``, ``precision``, ``seed``, ``workers``,
        ``progress``: see `identifiable.ica.resolve`; of two or more representations also ``shared_above``, the
        |correlation| from which on a component counts as shared.

    What is printed and drawn belongs to the result, as for a `Comparison`: ``resolve(X).result.table()`` and
    ``resolve(X).result.report("page.html")``, of one representation or several.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> S = rng.laplace(size=(4000, 2))
    >>> resolve(S @ [[2, 1], [1, 1]]).result.headline
    '2 of 2 components are reproducible'
    """
    if not representations:
        raise UsageError("resolve needs at least one representation, got none; pass an array or a path.")
    if len(representations) == 1 and "shared_above" in options:
        raise UsageError(
            "shared_above is about components of several representations, got one; pass two, or leave it out."
        )
    opened = open_sources(representations, ids, blocks)
    if is_path(group_by):
        options.setdefault("group_by_name", str(group_by))
        group_by = labels_of(group_by, as_representation(opened[0]))
    with connected(scheduler) if scheduler else nullcontext() as cluster:
        if len(opened) == 1:
            return ica.resolve(opened[0], group_by=group_by, cluster=cluster, **options)
        found = ica.resolve_jointly(*opened, group_by=group_by, cluster=cluster, **options)
    return replace(found, result=replace(found.result, alerts=(*one_ids_file(ids), *found.result.alerts)))
