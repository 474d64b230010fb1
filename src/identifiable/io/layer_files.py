"""Layers of a model: several arrays in a `.safetensors` or `.npz` file; checkpoints: a folder of such files."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from identifiable._checks import DataError
from identifiable.blocks import Blocks
from identifiable.io.array_files import NamedArrays
from identifiable.io.containers import IDS, check_is_file, did_you_mean, named, natural, split_spec, stem_of, suffix_of
from identifiable.io.opening import READERS, open_representation
from identifiable.representation import Representation

FORMATS = {s: r for s, r in READERS.items() if isinstance(r, type) and issubclass(r, NamedArrays)}
CONFIG = "config.json"  # of a folder that holds a model and not its layers
LAST = "last"
ORDER = "layers"  # in the metadata of a .safetensors: names of layers from the first to the last


class StoredLayers(NamedTuple):
    """The layers in one file, in their natural order; every one has the ids of the file."""

    name: str
    path: str
    layers: tuple[Representation, ...]


def open_layers(
    spec: str | os.PathLike[str],
    *,
    asked: Sequence[str | int] = (),
    ids: str | None = None,
    rows: int | None = None,
) -> list[StoredLayers]:
    """The layers in a file (``path`` or ``path:pattern``), or in every file of a folder, in natural order.

    A `.safetensors` whose metadata list its layers, as `extract` writes it, is in that order.

    Every 2-D array of numbers is a layer, but for `ids`; a pattern (``ft_*``, ``a,b``) chooses by name, and `asked` among these.
    """
    at = split_spec(spec, tuple(READERS))
    return [
        _file(path, at.part, asked, ids, rows) for path in (_checkpoints(at.path) if at.path.is_dir() else [at.path])
    ]


def _checkpoints(folder: Path) -> list[Path]:
    files = [path for path in folder.iterdir() if suffix_of(path) in FORMATS and not path.name.startswith(".")]
    if (folder / CONFIG).exists():
        raise DataError(
            f"{folder}: expected files of layers, got a model; write its layers with 'identifiable extract'."
        )
    if not files:
        raise DataError(f"{folder}: expected checkpoints, files of layers ({', '.join(FORMATS)}), found none.")
    return sorted(files, key=lambda path: natural(path.name))


def _file(
    path: Path, pattern: str | None, asked: Sequence[str | int], ids: str | None, rows: int | None
) -> StoredLayers:
    check_is_file(path)
    reader = FORMATS.get(suffix_of(path))
    if reader is None:
        raise DataError(
            f"{path}: expected several layers in one file ({', '.join(FORMATS)}), or a folder of such files; "
            "save them by name, one array for each layer."
        )
    container: Any = reader(path)
    own = [name for name in container.names if name not in (IDS, ids) and _is_table(container.layout(name))]
    if not own:
        raise DataError(
            f"{path}: expected layers, 2-D arrays of numbers, found none; it holds {named(container.names)}."
        )
    names = _ordered(own, container.metadata)
    if pattern is not None:
        names = choose(names, pattern.split(",") if pattern not in names else [pattern], str(path))
    names = choose(names, asked, str(path))
    counts = {name: container.layout(name).shape[0] for name in names}
    if other := next((name for name, count in counts.items() if count != counts[names[0]]), None):
        most = Counter(counts.values()).most_common(1)[0][0]
        alike = [name for name in names if counts[name] == most]
        raise DataError(
            f"{path}: layers need the same rows, but {names[0]} has {counts[names[0]]} and {other} has {counts[other]}; choose "
            f"those that belong together, as in '{path}:{','.join(alike[:3])}'."
        )
    first = open_representation(f"{path}:{names[0]}", ids=ids, rows=rows)
    layers = [
        Representation(Blocks(container.rows(name), rows=rows, name=f"{path}:{name}"), first.ids, name)
        for name in names
    ]
    return StoredLayers(stem_of(path), str(path), tuple(layers))


def _ordered(names: Sequence[str], metadata: Mapping[str, str]) -> list[str]:
    """As the file says, which `extract` wrote; else in natural order."""
    try:
        told = json.loads(metadata.get(ORDER, "[]"))
    except ValueError:
        told = []
    if isinstance(told, list) and set(names) <= set(map(str, told)):
        return sorted(names, key=list(map(str, told)).index)
    return sorted(names, key=natural)


def choose(names: Sequence[str], asked: Sequence[str | int], label: str) -> list[str]:
    """The layers that numbers, `last` and patterns select, in their order; all where none are asked for.

    >>> choose(["layer_0", "layer_4", "layer_12"], [4, "last"], "file")
    ['layer_4', 'layer_12']
    """
    if not asked:
        return list(names)
    chosen: set[str] = set()
    for item in asked:
        found = _chosen(names, item)
        if not found:
            raise DataError(f"{label}: has no layer {item!r}; it has {named(names)}{did_you_mean(str(item), names)}")
        chosen |= found
    return [name for name in names if name in chosen]


def _chosen(names: Sequence[str], item: str | int) -> set[str]:
    text = str(item)
    if text == LAST:
        return {names[-1]}
    if text.isdigit():
        ends = {name: match[1] for name in names if (match := re.search(r"(\d+)$", name))}
        if ends:
            return {name for name, end in ends.items() if int(end) == int(text)}
        return set(names[int(text) : int(text) + 1])
    return {name for name in names if name == text or fnmatch.fnmatchcase(name, text)}


def _is_table(layout: Any) -> bool:
    return len(layout.shape) == 2 and layout.dtype.kind in "fiub" and not layout.stored.hasobject
