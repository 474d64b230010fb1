"""Jacobians in a file: a `.npy` of points by outputs by latents, mapped and not read whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.io.containers import check_is_file, reason

SUFFIX = ".npy"


def open_jacobians(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array of a `.npy` file, of any shape; what it must be is checked where it is used."""
    file = Path(path)
    if file.suffix.lower() != SUFFIX:
        raise DataError(f"{path}: expected Jacobians in a {SUFFIX} file (points, outputs, latents).")
    check_is_file(file)
    try:
        return np.asanyarray(np.load(file, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path}: not a readable {SUFFIX} file of numbers ({reason(error)}).") from None
