"""Matching dictionaries: files become `Dictionary`s, one feature in each row, then `dictionaries` matches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from identifiable._checks import DataError, UsageError
from identifiable.api.opening import is_path, open_sources
from identifiable.dictionaries import Dictionary, match_dictionaries
from identifiable.ica import Resolved
from identifiable.intake import as_representation, blocks_of, distinct, inputs_of
from identifiable.io import load_basis
from identifiable.io.basis_files import holds_basis
from identifiable.io.opening import located
from identifiable.options import MatchOptions, takes
from identifiable.representation import Representation
from identifiable.results import Alert, Input, Matches
from identifiable.run import Run


@takes(MatchOptions)
def match(*dictionaries: Any, options: MatchOptions) -> Matches:
    """Which features of two or more dictionaries are the same, one to one, and how many would be by chance?

    Implements PW-MCC (Hungarian assignment on cosines), with and without absolute values. Ours: the nulls beside every score, the
    assignment of large dictionaries from candidates, stability over three or more.

    Parameters
    ----------
    *dictionaries
        Decoder matrices with one feature in each row (SAE `W_dec`), as arrays, tensors, data frames or paths
        (``sae.safetensors:W_dec``, ``decoder.npy``); or bases that `resolve` gave or wrote, of which mixing directions are matched.

    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((6, 32))
    >>> found = match(A, A[[2, 0, 1, 5, 4, 3]])
    >>> found.pairs[0].arrays.partner
    array([1, 2, 0, 5, 4, 3])
    """
    bases = [_basis_of(source) for source in dictionaries]
    plain: list[Any] = [
        source if basis is None else basis[0] for source, basis in zip(dictionaries, bases, strict=True)
    ]
    layouts = _each(options.features, len(plain))
    turned = [
        at for at, (basis, layout) in enumerate(zip(bases, layouts, strict=True)) if basis and layout == "columns"
    ]
    if turned:
        raise UsageError(
            f"features: dictionary {turned[0] + 1} is a basis, whose features are rows; leave out --features columns."
        )
    flat = [at for at, source in enumerate(plain) if getattr(source, "ndim", 2) == 1]
    if flat:
        raise DataError(
            f"dictionary {flat[0] + 1}: expected a matrix with one feature in each row, got 1-D with shape {np.shape(plain[flat[0]])}; a "
            "single feature cannot be matched, pass the whole decoder."
        )
    opened = open_sources(plain, options.ids, None, options.names)
    tables = distinct([as_representation(table, i) for i, table in enumerate(opened)])
    run = Run.of(options, alerts=_columns_checked(tables, options.features))
    run.inputs = inputs_of(tables, run)
    given = zip(tables, layouts, bases, strict=True)
    made = [Dictionary.of(_oriented(table, layout), fitted=basis and basis[1]) for table, layout, basis in given]
    return match_dictionaries(made, options, run)


def _basis_of(source: Any) -> tuple[Representation, Input] | None:
    """The mixing directions of a basis, one in each row, and the table it was fitted to; None of anything else."""
    name = Representation.name
    if is_path(source):
        if not holds_basis(source):
            return None
        name, source = located(source).name, load_basis(source)
    if not isinstance(source, Resolved):
        return None
    names = source.result.settings.get("columns")
    columns = None if names is None else tuple(names)
    return Representation(source.from_components.matrix, name=name, columns=columns), source.result.inputs[0]


def _each(features: Sequence[str], count: int) -> Sequence[str]:
    if len(features) not in (1, count):
        raise UsageError(
            f"features: expected rows or columns, one for all or one for each of {count}, got {len(features)}."
        )
    return list(features) * count if len(features) == 1 else features


def _oriented(table: Representation, layout: str) -> Representation:
    if layout == "rows":
        return table
    values = np.asarray(blocks_of(table)[: table.n]).T
    return replace(table, values=values, ids=table.columns, columns=None, labels={}, counted=None)


def _columns_checked(tables: Sequence[Representation], features: Sequence[str]) -> list[Alert]:
    """Dimensions that have names must have the same order."""
    named = [table for table in tables if table.columns is not None and tuple(features) == ("rows",)]
    for other in named[1:]:
        first, names = named[0].columns or (), other.columns or ()
        if first != names and sorted(first) == sorted(names):
            raise DataError(
                f"{named[0].name} and {other.name} have the same columns in another order; sort them alike."
            )
        if first != names and len(first) == len(names):
            return [Alert("columns_differ", {"first": named[0].name, "second": other.name})]
    return []
