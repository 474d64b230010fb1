"""Jacobians in a file: a `.npy` of points by outputs by latents, mapped and not read whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, check_numeric
from identifiable.io.array_files import NpyFile
from identifiable.io.containers import check_is_file, damage_named, pickled

SUFFIX = ".npy"


def open_jacobians(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array of a `.npy` file, of any shape; what it must be is checked where it is used."""
    file = Path(path)
    if file.suffix.lower() != SUFFIX:
        raise DataError(f"{path}: expected Jacobians in a {SUFFIX} file (points, outputs, latents).")
    check_is_file(file)
    with damage_named(lambda why: DataError(f"{path}: not a readable {SUFFIX} file of numbers ({why}).")):
        layout = NpyFile(file).layout()
        if layout.stored.hasobject:
            raise DataError(pickled(str(path)))
        check_numeric(layout.stored, str(path))
        return np.memmap(file, layout.stored, "r", layout.offset, layout.shape, "F" if layout.fortran else "C")
