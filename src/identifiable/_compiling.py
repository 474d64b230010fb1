"""Functions compiled by numba: when, where they are kept, and how they reach the bits of a number.

Numba takes half a second to load, and a second or more to compile a loop. So it is loaded when the first compiled function is called
or prepared, and work on few numbers does without it (`ica.contrasts`, `disentanglement.info_scores`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from functools import cache, cached_property, update_wrapper
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

OTHERS_MAY_WRITE = stat.S_IWOTH


class Compiled:
    """What numba makes of a function, made when it is first needed; `plain` is the function itself."""

    def __init__(self, function: Any, make: Callable[[Any], Any]):
        self.plain, self._make = function, make
        self.prepared: set[Any] = set()  # for which arguments
        update_wrapper(self, function)

    @cached_property
    def made(self) -> Any:
        _load()
        return self._make(_linked(self.plain))

    def __call__(self, *arguments: Any) -> Any:
        return self.made(*arguments)


def compiled(function: F, fastmath: frozenset[str] = frozenset({"contract"})) -> F:
    """Compiled when first called, and kept on disk: beside its source, or in the user's cache folder where that is read-only.

    What is kept is code that will run. It is not kept in a folder that everyone may write to or that belongs to another user.
    """

    def make(linked: Any) -> Any:
        from numba import njit

        options: dict[str, Any] = {"nogil": True, "fastmath": set(fastmath), "error_model": "numpy"}
        try:
            kept = njit(cache=True, **options)(linked)
        except RuntimeError:  # neither beside this file nor in a home
            return njit(**options)(linked)
        return (
            kept
            if trusted(Path(kept.stats.cache_path), Path(function.__code__.co_filename))
            else njit(**options)(linked)
        )

    return cast(F, Compiled(function, make))


def in_registers(function: Callable[..., Any]) -> Any:
    """An instruction of its own: through memory, as numpy's `view`, bits would cost as much as all the rest."""

    def make(linked: Any) -> Any:
        from numba.extending import intrinsic

        return intrinsic(linked)

    return Compiled(function, make)


def prepare(kernel: Callable[..., Any], like: tuple[Any, ...], begins: Callable[[], None]) -> None:
    """Compile a function for arguments `like` these, or read it from disk; `begins` is called if it must be compiled."""
    asked = cast(Compiled, kernel)
    if (kinds := tuple(map(_kind, like))) in asked.prepared:  # numba takes a millisecond to find that
        return
    made = asked.made
    from numba import typeof
    from numba.core import event

    heard = {"on_start": lambda self, event: begins(), "on_end": lambda self, event: None}
    listener = type("Starts", (event.Listener,), heard)()
    with event.install_listener("numba:compile", listener):
        made.compile(tuple(typeof(value) for value in like))
    asked.prepared.add(kinds)


def _kind(value: Any) -> Any:
    """What numba compiles a function anew for."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        return value.dtype, value.ndim, flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned
    return (type(value), *map(_kind, value)) if isinstance(value, tuple) else type(value)


def uncompiled(*kernels: Any, **others: Any) -> SimpleNamespace:
    """The functions themselves, that call each other and `others` by their names: the same steps, by numpy."""
    functions = {kernel.__name__: getattr(kernel, "plain", kernel) for kernel in kernels}
    names: dict[str, Any] = {**next(iter(functions.values())).__globals__, **others}
    names |= {name: FunctionType(function.__code__, names) for name, function in functions.items()}
    return SimpleNamespace(**{name: names[name] for name in functions})


def trusted(kept: Path, source: Path) -> bool:
    """Whether code may be kept in a folder: only its owner and group write there, and that is this user, root or who owns the source."""
    if not hasattr(os, "getuid"):  # Windows, where the cache is in the user's profile
        return True
    found = kept.stat()
    return found.st_uid in (os.getuid(), 0, source.stat().st_uid) and not found.st_mode & OTHERS_MAY_WRITE


def _linked(function: Any) -> Any:
    """The function, with what numba made in the place of the compiled functions that it calls."""
    known = function.__globals__
    others = {name: known[name].made for name in function.__code__.co_names if isinstance(known.get(name), Compiled)}
    linked = FunctionType(function.__code__, {**known, **others}, function.__name__, function.__defaults__)
    linked.__module__, linked.__qualname__ = function.__module__, function.__qualname__
    return linked


@cache
def _load() -> None:
    """Numba imports a hundred modules when it first compiles or finds a function kept on disk.

    No thread of a pass may import (`blocks`): `Run.prepare` comes here first, and all is imported on a tiny input.
    """
    from numba import njit

    njit("void(float32[:])", nogil=True)(lambda values: None)
