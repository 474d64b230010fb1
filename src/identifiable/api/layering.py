"""Comparing layers: files and mappings become models, then `identifiability` measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from identifiable import identifiability
from identifiable._checks import DataError, UsageError, as_array
from identifiable.api.opening import Opened, is_path, one_ids_file
from identifiable.identifiability import Model
from identifiable.intake import as_representation
from identifiable.io.containers import IDS, stem_of
from identifiable.io.layer_files import choose, open_layers
from identifiable.io.opening import located
from identifiable.options import LayersOptions, takes
from identifiable.results import Layers
from identifiable.run import Run

NAMES = ("first", "second", "untrained first", "untrained second")  # of models without a name of their own


@takes(LayersOptions)
def layers(first: Any, second: Any, /, *, options: LayersOptions) -> Layers:
    """Which layers of two models are alike?

    Every layer of one model is compared with every layer of the other, on the same rows: CKA, SVCCA, R² of a similarity,
    nearest neighbours.

    Parameters
    ----------
    first, second
        The layers of either model: a ``.safetensors`` or ``.npz`` file with several arrays (``file:pattern`` chooses some), a folder
        of such files (checkpoints over training; the last is the model), a mapping of names to arrays or a list of arrays. An
        entry called `ids` says who the rows are.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> first = {f"layer_{i}": rng.standard_normal((200, 4)) for i in range(3)}
    >>> turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    >>> found = layers(first, {name: rows @ turn for name, rows in first.items()})
    >>> found.matched, [match.best for match in found.matches]
    (3, ['layer_0', 'layer_1', 'layer_2'])
    """
    given = [first, second, *(options.untrained or ())]
    each = [options.ids] * len(given) if options.ids is None or isinstance(options.ids, str) else list(options.ids)
    if len(each) != len(given):
        raise UsageError(f"ids: expected one for all or one for each of {len(given)} models, got {len(each)}.")
    names = _names(given, options.names)
    models = [_opened(source, name, ids, options) for source, name, ids in zip(given, names, each, strict=True)]
    for name, checkpoints in zip(names[2:], models[2:], strict=True):
        if len(checkpoints) > 1:
            raise UsageError(f"untrained: expected one file for each model, got the folder {name}.")
    with Opened((), replace(options, ids=None, names=None)) as opened:
        run = Run.of(options, cluster=opened.cluster, alerts=list(one_ids_file(options.ids)))
        untrained = [checkpoints[-1] for checkpoints in models[2:]]
        return identifiability.compare_layers(models[0], models[1], untrained, options, run)


def _names(given: Sequence[Any], asked: Sequence[str] | None) -> list[str]:
    """A name for every model: as asked for, or the shortest that tells files apart."""
    if asked is not None and (len(asked) != 2 or asked[0] == asked[1]):
        raise UsageError(f"names: expected 2 different ones, one for each model, got {', '.join(asked)}.")
    names = []
    for place, source in enumerate(given):
        name = NAMES[place]
        if is_path(source):
            at = located(source)
            name = at.path.resolve().name if at.path.is_dir() else stem_of(at.path)
            if at.part is not None and len([s for s in given if is_path(s) and located(s).path == at.path]) > 1:
                name = at.part  # patterns tell layers of one file apart
            if name in names:
                name = f"{at.path.resolve().parent.name}/{name}"
        names.append(f"{name} (2)" if name in names else name)
    names[:2] = asked or names[:2]
    return names


def _opened(source: Any, name: str, ids: str | None, options: LayersOptions) -> list[Model]:
    """The checkpoints of a model; one, unless it is a folder."""
    if is_path(source):
        found = open_layers(source, asked=options.layers, ids=ids, rows=options.blocks)
        *before, last = found
        earlier = [Model(f"{name}/{one.name}", one.layers, one.path, one.name) for one in before]
        return [*earlier, Model(name, last.layers, last.path, last.name if before else "")]
    if not isinstance(source, Mapping):
        if hasattr(source, "shape") or not isinstance(source, list | tuple):
            raise DataError(
                f"{name}: expected layers, a mapping of names to arrays or a list of arrays, got {type(source).__name__}."
            )
        source = {f"layer_{i}": rows for i, rows in enumerate(source)}
    identities = source.get(ids or IDS)
    held = [str(key) for key in source if key != (ids or IDS)]
    if not held:
        raise DataError(f"{name}: expected layers, arrays (n, d) by name, got none.")
    by_name = {str(key): rows for key, rows in source.items()}
    tables = [as_representation(by_name[key], name=key) for key in choose(held, options.layers, name)]
    if identities is not None:
        tables = [replace(table, ids=as_array(identities, f"{name}, ids")) for table in tables]
    for table in tables[1:]:
        if table.n != tables[0].n:
            raise DataError(
                f"{name}: layers need the same rows, but {tables[0].name} has {tables[0].n} and {table.name} has {table.n}."
            )
    return [Model(name, tuple(tables))]
