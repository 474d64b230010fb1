"""Resolving: paths are opened, then `ica` does the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from identifiable import ica
from identifiable._checks import UsageError, counted
from identifiable.api.opening import Opened, one_ids_file
from identifiable.blocks import PassLog
from identifiable.intake import as_representation, inputs_of
from identifiable.options import ResolveOptions, takes
from identifiable.results.kept import KeptArrays, digest


@takes(ResolveOptions)
def resolve(*representations: Any, options: ResolveOptions) -> Any:
    """Whiten and unmix, so that what is the same up to a linear map becomes the same up to nothing.

    Implements the recipe of Theorem 2 (Nelson et al. 2026). One representation gives `Resolved`: the map to its
    components, the map back, and the `Resolution` that says which of them another sample would give again. Two or
    more of the same rows are each resolved alone and then matched: `JointlyResolved`, with `models` and a
    `JointResolution` that says which components all of them share.

    Parameters
    ----------
    representations
        Arrays (n, d), `Representation`s, `Blocks`, Dask arrays, or paths (``"run.npz:layer6"`` names a part of a file).
        Where rows are near copies (crops of an image, wells of a plate), pass `group_by`, or all looks stable.

    What is printed and drawn belongs to the result, as for a `Comparison`: ``resolve(X).result.table()`` and
    ``resolve(X).result.report("page.html")``.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> S = rng.laplace(size=(4000, 2))
    >>> resolve(S @ [[2, 1], [1, 1]]).result.headline
    '2 of 2 components are reproducible'
    """
    if not representations:
        raise UsageError("resolve needs at least one representation, got none; pass an array or a path.")
    if len(representations) == 1 and options.shared_above is not None:
        raise UsageError("shared_above needs at least two representations, got one; pass two, or leave it out.")
    with Opened(representations, options) as opened:
        group_by, name = opened.labels(options.group_by)
        labelled = replace(options, group_by=group_by)
        log = _log(options, opened.tables)
        named: dict[str, Any] = {"group_by_name": name, "cluster": opened.cluster, "log": log}
        if len(representations) == 1:
            alone = ica.resolve(opened.tables[0], labelled, **named)
            _say_reused(options, log)
            return alone
        found = ica.resolve_jointly(opened.tables, labelled, **named)
        _say_reused(options, log)
    return replace(found, result=replace(found.result, alerts=(*one_ids_file(options.ids), *found.result.alerts)))


def _say_reused(options: ResolveOptions, log: PassLog | None) -> None:
    if log is not None and log.replayed and (say := getattr(options.progress, "say", None)):
        say(f"{options.checkpoint}: {counted(log.replayed, 'pass')} of an earlier run reused")


def _log(options: ResolveOptions, tables: Sequence[Any]) -> PassLog | None:
    """Where passes over these tables are kept. Other settings ask for other passes, so one folder serves them all."""
    if options.checkpoint is None:
        return None
    inputs = inputs_of([as_representation(table, alone=True) for table in tables])
    return PassLog(KeptArrays(options.checkpoint, digest({"resolve": [given.sha256 for given in inputs]})))
