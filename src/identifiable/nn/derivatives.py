"""Products with the Jacobian of a torch decoder, numpy in and numpy out."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError, words_of
from identifiable._extras import require
from identifiable.jacobians import Products

require("torch", extra="nn", what="identifiable.nn")
import torch  # noqa: E402
from torch.func import jvp as forward_product  # noqa: E402
from torch.func import vjp as backward_product  # noqa: E402
from torch.func import vmap  # noqa: E402

DATA_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"

Values = NDArray[np.floating[Any]]
Decoder = Callable[[torch.Tensor], torch.Tensor]


def products(decoder: torch.nn.Module | Decoder, *, shape: tuple[int, ...] | None = None) -> Products:
    """The products of a decoder's Jacobian, as `jacobians.spectra` wants them.

    A module must be in eval mode (dropout and batch statistics would make the output depend on chance or on the other
    rows). Its own precision is kept: points are converted to the dtype and device of its parameters. `shape` is that of one
    point where the decoder does not take rows of latents, (8, 4, 4) for a spatial latent.

    >>> import torch
    >>> g = torch.nn.Linear(2, 3, bias=False).double()
    >>> products(g).jvp(np.zeros((1, 2)), np.array([[1.0, 0]])).shape
    (1, 3)
    """
    if isinstance(decoder, torch.nn.Module) and decoder.training and _has_modes(decoder):
        raise UsageError(
            "the decoder is in training mode, in which dropout or batch statistics change its output; call decoder.eval() first."
        )
    like = _like(decoder)
    known = isinstance(decoder, torch.nn.Module)

    def on_rows(z: torch.Tensor) -> torch.Tensor:
        rows = decoder(z.reshape(len(z), *shape) if shape is not None else z)
        if not isinstance(rows, torch.Tensor) or rows.shape[:1] != z.shape[:1]:
            got = tuple(rows.shape) if isinstance(rows, torch.Tensor) else type(rows).__name__
            raise DataError(f"the decoder must return a tensor with one row for each of {len(z)} points, got {got}.")
        return rows.reshape(len(z), -1)

    def tensor(values: Values) -> torch.Tensor:
        dtype = like.dtype if known else None  # a function gets points in the precision they have
        return torch.as_tensor(np.ascontiguousarray(values), dtype=dtype, device=like.device)

    def jvp(z: Values, v: Values) -> Values:
        with _differentiable():
            return _numpy(forward_product(on_rows, (tensor(z),), (tensor(v),))[1])

    def vjp(z: Values, u: Values) -> Values:
        with _differentiable():
            return _numpy(backward_product(on_rows, tensor(z))[1](tensor(u))[0])

    def all_directions(z: Values) -> Values:
        n, d = z.shape
        points = tensor(z)
        units = torch.eye(d, dtype=points.dtype, device=like.device)[:, None, :].expand(d, n, d)
        with _differentiable():  # the decoder itself runs once, its derivative for all directions at once
            columns = vmap(lambda v: forward_product(on_rows, (points,), (v,))[1])(units)
        return _numpy(columns.transpose(0, 1))

    return Products(jvp, vjp, all_directions)


def load_program(path: Path) -> Decoder:
    """A decoder exported with `torch.export.save` (`.pt2`): a graph of torch operations and its weights.

    Pickles inside are read as data only. torch still evaluates expressions of the graph, so a program should come from
    someone you trust.
    """
    try:
        with _no_pickled_code(), _unlogged():
            program = torch.export.load(path)
    except Exception as error:
        why = words_of(error).partition(" Please check the warnings")[0]  # which are not shown
        raise DataError(f"{path}: not a program exported with torch.export.save ({why}).") from error
    module: Decoder = program.module()
    return module


@contextmanager
def _unlogged() -> Iterator[None]:
    """Without torch's log: of a file that it cannot read it writes a traceback there, and then raises the same error."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def _no_pickled_code() -> Iterator[None]:
    """Let torch read pickles as data only.

    `torch.export.load` (2.13) unpickles example inputs, and custom weights, without restriction where the safe way fails, so
    a crafted file could run anything; this closes that way.
    """
    before = os.environ.get(DATA_ONLY)
    os.environ[DATA_ONLY] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[DATA_ONLY]
        else:
            os.environ[DATA_ONLY] = before


def _has_modes(module: torch.nn.Module) -> bool:
    """Whether some part of it does something else in training than in use."""
    parts, norms = torch.nn.modules, (torch.nn.modules.batchnorm._NormBase,)  # batch and instance norms
    modes = (parts.dropout._DropoutNd, parts.batchnorm._BatchNorm, torch.nn.MultiheadAttention)
    return any(
        isinstance(part, modes)
        or (isinstance(part, norms) and part.track_running_stats)
        or (isinstance(part, torch.nn.RNNBase) and part.dropout > 0)
        for part in module.modules()
    )


def _like(decoder: Any) -> torch.Tensor:
    """A tensor of the decoder's precision, on its device."""
    tensors = [*decoder.parameters(), *decoder.buffers()] if isinstance(decoder, torch.nn.Module) else []
    floating = [t for t in tensors if t.is_floating_point()]
    if len({(t.dtype, t.device) for t in floating}) > 1:
        raise UsageError(
            "the decoder's parameters differ in dtype or device; convert them to one, e.g. decoder.float()."
        )
    return floating[0].detach() if floating else torch.zeros(1, dtype=torch.float64)


@contextmanager
def _differentiable() -> Iterator[None]:
    """Kernels that have a forward derivative: attention and transformer layers otherwise take fused ones that have none."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _numpy(values: torch.Tensor) -> Values:
    array: Values = values.detach().cpu().numpy()
    return array
