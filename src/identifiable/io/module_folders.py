"""A map as a folder that sentence-transformers reads: a `Dense` module, then `Normalize`. Nothing in it is executed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from identifiable.groups import AffineMap
from identifiable.io.array_files import safetensors_header
from identifiable.results import whole_file
from identifiable.results.writing import new_folder, together, write_text

DENSE, NORMALIZE = "Dense", "Normalize"
PACKAGE = "sentence_transformers.models"
IDENTITY = "torch.nn.modules.linear.Identity"


def save_modules(path: str | os.PathLike[str], by: AffineMap, *, normalize_first: bool = False) -> Path:
    """Write the folder and return its path. `modules.json` lists the modules; the weights are float32.

    Rows are divided by their length after the map, and before it too if `normalize_first`.
    """
    folder = Path(path)
    kinds = [*([NORMALIZE] if normalize_first else []), DENSE, NORMALIZE]
    places = [f"{i}_{kind}" for i, kind in enumerate(kinds)]
    listed: list[dict[str, Any]] = [
        {"idx": i, "name": str(i), "path": place, "type": f"{PACKAGE}.{kind}"}
        for i, (place, kind) in enumerate(zip(places, kinds, strict=True))
    ]
    inside, outside = by.matrix.shape
    config = {"in_features": inside, "out_features": outside, "bias": True, "activation_function": IDENTITY}
    with new_folder(folder):
        for place in places:  # git and zip files leave empty folders out, so each has a config.json
            (folder / place).mkdir(exist_ok=True)
        with together():
            for place, kind in zip(places, kinds, strict=True):
                write_text(folder / place / "config.json", json.dumps(config if kind == DENSE else {}, indent=2) + "\n")
            with whole_file(folder / places[kinds.index(DENSE)] / "model.safetensors") as temporary:
                temporary.write_bytes(_weights(by))
            write_text(folder / "modules.json", json.dumps(listed, indent=2) + "\n")
    return folder


def _weights(by: AffineMap) -> bytes:
    tensors = {"linear.bias": by.offset, "linear.weight": by.matrix.T}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in tensors.items():
        raw = np.ascontiguousarray(tensor, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    return safetensors_header(header) + data
