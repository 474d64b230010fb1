"""Functions compiled by numba: how, and how they reach the bits of a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F, fastmath: frozenset[str] = frozenset({"contract"})) -> F:
    """Compiled when first called, and kept on disk where numba finds a folder it may write to."""
    options: dict[str, Any] = {"nogil": True, "fastmath": set(fastmath), "error_model": "numpy"}
    try:
        kept: F = njit(cache=True, **options)(function)
    except RuntimeError:  # neither beside this file nor in a home
        kept = njit(**options)(function)
    return kept


# Numba imports a hundred modules when it first compiles or finds a function kept on disk. No thread of a pass may import
# (`blocks`), so it does that here, on a tiny input.
njit("void(float32[:])", nogil=True)(lambda values: None)


def in_registers(function: Callable[..., Any]) -> Any:
    """An instruction of its own: through memory, as numpy's `view`, bits would cost as much as all the rest."""
    return intrinsic(function)
