"""Comparing heads: files and layers become `Head`s, features are opened, then `unembedding` measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError, as_array, check_matrix_shape, check_numeric
from identifiable.api.opening import Opened, is_path, one_ids_file
from identifiable.intake import as_representation
from identifiable.io.head_files import StoredHead, read_head, read_vector
from identifiable.options import HeadsOptions, takes
from identifiable.representation import Representation, from_torch
from identifiable.results import Alert, Heads
from identifiable.run import Run
from identifiable.unembedding import Head, compare_heads

NONE = "none"  # in place of a bias: there is none
FIRST, SECOND = "first", "second"  # heads without a name of their own


@takes(HeadsOptions)
def heads(first: Any, second: Any, /, *, options: HeadsOptions) -> Heads:
    """What do two output layers fix of the representation, and does the map that they imply hold?

    Implements Roeder et al. (2021): if two models give the same probabilities and their heads are diverse, features agree up to
    a linear map, which the heads alone determine. Ours: the restriction to the dimensions that the heads read, the ridge, the
    temperature and the nulls.

    Parameters
    ----------
    first, second
        Weights (labels, dimensions); a layer with `weight` and `bias`; a `Representation` whose ids are label names; or a path:
        ``head.npy``, ``model.npz:head``, ``model.safetensors:lm_head.weight`` or a Hugging Face model directory.

    >>> rng = np.random.default_rng(0)
    >>> W, A = rng.standard_normal((5, 3)), rng.standard_normal((3, 3))
    >>> found = heads(W @ A, W)  # the second model's features are A times the first's
    >>> found.maps[0].fixed, np.allclose(found.maps[0].matrix, A.T)
    (3, True)
    """
    alerts: list[Alert] = []
    given = options.features or ()
    labels = _each(options.labels)
    stored = [
        _stored(source, bias, label, name)
        for source, bias, label, name in zip(
            (first, second), options.bias or (None, None), labels, (FIRST, SECOND), strict=True
        )
    ]
    names = options.names or _distinct([each.name for each in stored])
    if len(names) != 2 or names[0] == names[1]:
        raise UsageError(f"names: expected 2 different ones, one for each head, got {', '.join(names)}.")
    with Opened(given, replace(options, names=None)) as opened:
        tables = _features(opened.tables, names)
        read: Sequence[Representation | None] = tables or [None, None]
        made = [
            _oriented(each._replace(name=name), table, options.layout, alerts)
            for each, name, table in zip(stored, names, read, strict=True)
        ]
        frequencies = _numbers(options.frequencies, "frequencies")
        run = Run.of(options, cluster=opened.cluster, alerts=[*one_ids_file(options.ids), *alerts])
        return compare_heads(made[0], made[1], tables, frequencies, options, run)


def _each(given: Any) -> tuple[Any, Any]:
    """Label names of either head: one for both, or a pair with one for each."""
    if (
        isinstance(given, list | tuple)
        and len(given) == 2
        and all(isinstance(g, str) or np.ndim(g) == 1 for g in given)
    ):
        return given[0], given[1]
    if given is None or isinstance(given, str) or np.ndim(given) == 1:
        return given, given
    raise UsageError(f"labels {given!r}: expected one for both heads or one for each.")


def _stored(source: Any, bias: Any, labels: Any, name: str) -> StoredHead:
    none = isinstance(bias, str) and bias == NONE
    if is_path(source):
        named = labels if isinstance(labels, str) else None
        found = read_head(source, None if none or not is_path(bias) else bias, named)
    else:
        layer = hasattr(source, "weight")
        table = as_representation(source.weight if layer else source, name=name)
        own = getattr(source, "bias", None) if layer else None
        values = np.asarray(table.values[: table.n])
        found = StoredHead(values, None if own is None else from_torch(own), table.ids, table.name, str(values.dtype))
    if none:
        found = found._replace(bias=None)
    elif bias is not None and not (is_path(source) and is_path(bias)):
        found = found._replace(bias=_numbers(bias, "bias"))
    if labels is not None and not (is_path(source) and isinstance(labels, str)):
        found = found._replace(labels=as_array(labels, "labels"))
    return found


def _numbers(given: Any, what: str) -> NDArray[np.float64] | None:
    """One number for each label."""
    if given is None:
        return None
    values = as_array(read_vector(given) if is_path(given) else from_torch(given), what)
    check_numeric(values.dtype, what)
    if values.ndim != 1:
        raise DataError(f"{what}: expected one number for each label, got an array of shape {values.shape}.")
    return values.astype(np.float64)


def _oriented(stored: StoredHead, features: Representation | None, layout: str, alerts: list[Alert]) -> Head:
    """The head with its labels as rows. Bias, label names and features say which axis they are; else rows are labels."""
    rows, columns = check_matrix_shape(stored.weight.shape, stored.name)
    width = None if features is None else features.d
    lengths = {len(column) for column in (stored.bias, stored.labels) if column is not None and np.ndim(column) == 1}
    fits = {
        "rows": lengths <= {rows} and width in (None, columns),
        "columns": lengths <= {columns} and width in (None, rows),
    }
    chosen = layout if layout != "auto" else "columns" if fits["columns"] and not fits["rows"] else "rows"
    if not fits[chosen]:
        told = [f"{length} labels by its bias or label names" for length in sorted(lengths)]
        told += [] if width is None else [f"{width} columns of features"]
        todo = "pass the features that this head reads, and its own bias and label names, or --layout (layout=)"
        if features is not None and columns in (
            features.n,
            features.d,
        ):  # the width of the head is that of other features
            todo = "the heads come first, and --features after them: swap heads and features"
        raise DataError(
            f"{stored.name}: a head of shape ({rows}, {columns}) does not fit {' and '.join(told)}; {todo}."
        )
    if chosen == "columns" and layout == "auto":
        alerts.append(Alert("head_transposed", {"name": stored.name, "rows": rows, "columns": columns}))
    weight = np.asarray(stored.weight.T if chosen == "columns" else stored.weight, dtype=np.float64)
    bias = None if stored.bias is None else np.asarray(stored.bias, dtype=np.float64)
    return Head(weight, bias, stored.labels, stored.name, stored.dtype, stored.precision)


def _features(opened: Sequence[Any], names: Sequence[str]) -> list[Representation]:
    """The tables of features; what has no name is called after its head."""
    tables = [as_representation(table, name=f"features of {name}") for table, name in zip(opened, names, strict=False)]
    return [
        replace(table, name=f"features of {name}")
        if table.name in names or len({t.name for t in tables}) < len(tables)
        else table
        for table, name in zip(tables, names, strict=False)
    ]


def _distinct(names: Sequence[str]) -> list[str]:
    """The shortest names that tell heads apart: `model.npz:a` and `model.npz:b` are a and b."""
    parts = [name.partition(":")[2] or name for name in names]
    first, second = parts if len({name.partition(":")[0] for name in names}) == 1 else names
    return [first, second if second != first else f"{second} (2)"]
