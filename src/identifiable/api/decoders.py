"""What counts as a decoder: torch modules and functions, exported programs, anything with products of its Jacobian."""

from __future__ import annotations

import hashlib
import inspect
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from identifiable._checks import DataError, IdentifiableError, UsageError
from identifiable.api.opening import is_path
from identifiable.jacobians import Products, Values

PROGRAM = ".pt2"
ACCEPTED = f"a torch.nn.Module, a {PROGRAM} program, an object with a jvp, g(z) for torch or jvp(z, v)"
CHARACTERS = 300  # of an error in someone else's code that are worth repeating


@dataclass(frozen=True, eq=False)
class Decoder:
    """A decoder that can be differentiated. `hint` says what to check when it fails; `sha256` is of its file."""

    name: str
    products: Products
    torch: bool
    hint: str
    sha256: str | None = None

    def told(self, made: Callable[[int], None]) -> Products:
        """Its products, with errors of its own as one of ours, and `made(rows)` called for every product of that many rows."""
        known = self.products
        whole = known.all_directions

        def jvp(z: Values, v: Values) -> Values:
            result = self._call(known.jvp, z, v)
            made(len(z))
            return result

        def all_directions(z: Values) -> Values:
            assert whole is not None
            result = self._call(whole, z)
            made(z.size)  # one product of every row for each latent
            return result

        def vjp(z: Values, u: Values) -> Values:
            assert known.vjp is not None
            return self._call(known.vjp, z, u)

        return Products(jvp, None if known.vjp is None else vjp, None if whole is None else all_directions)

    def _call(self, function: Callable[..., Values], *rows: Values) -> Values:
        try:
            return function(*rows)
        except (IdentifiableError, MemoryError):
            raise
        except Exception as error:  # it is someone else's code: anything may come out of it
            raise DataError(
                f"{self.name}: the decoder failed at {len(rows[0])} points of {rows[0].shape[1]} latents "
                f"({words_of(error)}); {self.hint}"
            ) from error


def words_of(error: Exception) -> str:
    """What an error in someone else's code says, on one line and not too long."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:CHARACTERS]}"


def decoder_of(source: Any, *, shape: tuple[int, ...] | None, latents: int, name: str | None = None) -> Decoder:
    """`source` as a `Decoder` of points with so many latents.

    A function of one argument without default is g(z) and gets torch tensors; one of two is jvp(z, v) and gets arrays.
    Any other could be either and is refused. Torch is loaded only for a decoder of torch.
    """
    if shape is not None and (any(s < 1 for s in shape) or math.prod(shape) != latents):
        raise UsageError(
            f"shape {'x'.join(map(str, shape))}: expected positive numbers whose product is {latents}, the latents of a point."
        )
    if is_path(source):
        return _program(source, shape, name)
    said = name or _name_of(source)
    if isinstance(source, type):
        raise UsageError(f"{said}: expected {ACCEPTED}, got a class; make an instance of it first.")
    if _is_torch_module(source) or (not _has_products(source) and _takes(source, said) == 1):
        hint = "pass --shape (shape=) if it takes latents of another shape, and to a function points in the precision it takes"
        if not _is_torch_module(source):
            hint += "; a function of one argument gets torch tensors: for another framework pass jvp(z, v)"
        return Decoder(said, _torch_products(source, shape), True, f"{hint}.")
    if shape is not None:
        raise UsageError(f"{said}: shape is for torch decoders; this jvp gets rows of {latents} latents.")
    if isinstance(source, Products):
        known = source
    else:
        known = Products(source.jvp, getattr(source, "vjp", None)) if _has_products(source) else Products(source)
    return Decoder(said, known, False, "a jvp(z, v) gets points and directions, both (n, latents).")


def _program(path: str | os.PathLike[str], shape: tuple[int, ...] | None, name: str | None) -> Decoder:
    file = Path(path)
    if file.suffix.lower() != PROGRAM:
        raise UsageError(
            f"decoder {path}: expected the path of an exported program ({PROGRAM}), or {ACCEPTED}; "
            "module:attribute is for the command line."
        )
    if not file.is_file():
        raise DataError(f"{path}: there is no such file; expected a program written by torch.export.save.")
    from identifiable.nn import load_program

    module = load_program(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    hint = "export it with dynamic_shapes for the rows, and pass --shape (shape=) if it takes latents of another shape."
    return Decoder(name or file.name, _torch_products(module, shape), True, hint, digest)


def _torch_products(decoder: Any, shape: tuple[int, ...] | None) -> Products:
    from identifiable.nn import products

    return products(decoder, shape=shape)


def _is_torch_module(source: Any) -> bool:
    torch = sys.modules.get("torch")  # no module of torch exists before torch is loaded
    return torch is not None and isinstance(source, torch.nn.Module)


def _has_products(source: Any) -> bool:
    return isinstance(source, Products) or callable(getattr(source, "jvp", None))


def _takes(source: Any, name: str) -> int:
    """How many arguments a function needs, 1 or 2; anything else is refused."""
    if not callable(source):
        raise UsageError(f"{name}: expected {ACCEPTED}, got {type(source).__name__}.")
    wrap = "wrap it: lambda z: f(z) for torch, lambda z, v: f(z, v) for a jvp"
    try:
        parameters = list(inspect.signature(source).parameters.values())
    except (TypeError, ValueError):
        raise UsageError(f"{name}: expected {ACCEPTED}, cannot see which arguments this one takes; {wrap}.") from None
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    plain = [p for p in needed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(plain) == len(needed) in (1, 2):
        return len(plain)
    if not needed:
        raise UsageError(f"{name}: expected {ACCEPTED}, got a function without arguments; pass what it returns.")
    listed = ", ".join(str(p) for p in needed)
    raise UsageError(f"{name}: expected {ACCEPTED}, got a function of ({listed}), which could be either; {wrap}.")


def _name_of(source: Any) -> str:
    return str(getattr(source, "__name__", type(source).__name__))
