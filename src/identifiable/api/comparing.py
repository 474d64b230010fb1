"""Comparing: paths are opened, then `identifiability` measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from identifiable import identifiability
from identifiable.api.opening import Opened, one_ids_file
from identifiable.options import CompareOptions, takes
from identifiable.results import Comparison


@takes(CompareOptions)
def compare(*representations: Any, options: CompareOptions) -> Comparison:
    """Are these the same representation, and up to what?

    Parameters
    ----------
    representations
        Two or more of the same rows: arrays (n, d), `Representation`s, `Blocks`, Dask arrays, or paths
        (``"run.npz:layer6"`` names a part of a file).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> compare(X, X @ [[0.6, 0.8], [-0.8, 0.6]], intervals=False, nulls=()).verdict.group
    'rigid'
    """
    return _measured(identifiability.compare, representations, options)


@takes(CompareOptions)
def structural(Z: Any, sources: Any, /, *, options: CompareOptions) -> Comparison:
    """How nearly does a representation recover known sources, up the same ladder (Definition 2)?

    Parameters
    ----------
    Z, sources
        Arrays or paths, with as many dimensions as sources.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> U = rng.laplace(size=(300, 2))
    >>> structural(U @ [[1.0, 1.0], [-1.0, 1.0]], U, intervals=False, nulls=(), groups=["rigid", "similarity"]).verdict.group
    'similarity'
    """
    return _measured(
        lambda tables, *how, **named: identifiability.structural(*tables, *how, **named), (Z, sources), options
    )


def _measured(measure: Callable[..., Comparison], sources: Sequence[Any], options: CompareOptions) -> Comparison:
    with Opened(sources, options) as opened:
        group_by, group_by_name = opened.labels(options.group_by)
        labels, labels_name = opened.labels(options.labels)
        result = measure(
            opened.tables,
            replace(options, group_by=group_by, labels=labels),
            group_by_name=group_by_name,
            labels_name=labels_name,
            cluster=opened.cluster,
        )
    from identifiable.report.answer import answer  # pages are not needed before there is a result

    pairs = tuple(replace(pair, verdict=replace(pair.verdict, text=answer(pair))) for pair in result.pairs)
    return replace(result, pairs=pairs, alerts=(*one_ids_file(options.ids), *result.alerts))
