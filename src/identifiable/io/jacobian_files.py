"""Jacobians in a file: a `.npy` of points by outputs by latents, of which the wanted points are read."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, check_numeric
from identifiable.io.array_files import NpyFile
from identifiable.io.containers import check_is_file, damage_named, pickled
from identifiable.io.stored_rows import FileBytes, Layout

SUFFIX = ".npy"


class StoredJacobians:
    """The array of a file, by runs of points, as they are stored; whole numbers as float64."""

    def __init__(self, file: FileBytes, layout: Layout):
        self._file, self._layout = file, layout
        self.shape = layout.shape
        self.dtype = layout.stored if layout.stored.kind == "f" else np.dtype(np.float64)

    def __getitem__(self, points: slice) -> NDArray[Any]:
        (n, *point), stored = self.shape, self._layout.stored
        start, stop, _ = points.indices(n)
        width, fortran = math.prod(point), self._layout.fortran
        # Of an array in Fortran order each of the numbers of a point lies among its own of the other points.
        block = np.empty((width, stop - start) if fortran else (stop - start, width), stored)
        for j, run in enumerate(block if fortran else [block]):
            first = j * n + start if fortran else start * width
            self._file.read_into(self._layout.offset + first * stored.itemsize, run.reshape(-1).view(np.uint8))
        shape = (stop - start, *point)
        values = block.T.reshape(shape, order="F") if fortran else block.reshape(shape)
        return values.astype(self.dtype, copy=False)


def open_jacobians(path: str | os.PathLike[str]) -> StoredJacobians:
    """The Jacobians in a `.npy` file."""
    file = Path(path)
    if file.suffix.lower() != SUFFIX:
        raise DataError(f"{path}: expected Jacobians in a {SUFFIX} file (points, outputs, latents).")
    check_is_file(file)
    with damage_named(lambda why: DataError(f"{path}: not a readable {SUFFIX} file of numbers ({why}).")):
        held, layout = NpyFile(file).located()
        if layout.stored.hasobject:
            raise DataError(pickled(str(path)))
    check_jacobians(layout.shape, layout.stored, str(path))
    return StoredJacobians(held, layout)


def check_jacobians(shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> None:
    """Refuse what is no array of numbers by points, outputs and latents."""
    if len(shape) != 3 or min(shape) < 1:
        swapped = "; two axes are those of latents, so swap the two if you passed both" if len(shape) == 2 else ""
        raise DataError(
            f"{name}: expected Jacobians (points, outputs, latents), got an array of shape {shape}{swapped}."
        )
    check_numeric(dtype, name)
