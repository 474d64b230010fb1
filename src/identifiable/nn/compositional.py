"""Decoders whose blocks of latents own their outputs: a penalty, a change of basis to start it from, and the autoencoder of slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable._extras import require
from identifiable.nn.convolutional import start_uniformly

require("torch", extra="nn", what="identifiable.nn")
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.func import jvp, vmap  # noqa: E402

LEAK = 0.2  # of LeakyReLU below 0, in Brady et al. 2023
WEIGHT = 0.1  # of the contrast beside a mean squared error
SMALLEST = 1e-12  # squared length of a block's norms, from which on they are divided by it


def compositional_contrast(
    decoder: Callable[[torch.Tensor], torch.Tensor], latents: torch.Tensor, blocks: Sequence[int]
) -> torch.Tensor:
    r"""How much blocks of latents move the same outputs: 0 where no output depends on two blocks, the mean over rows.

    Implements the compositional contrast of Brady et al. 2023, sum_n sum_{i<j} |J_n,i| |J_n,j| over outputs n with |J_n,i| the length
    of the row of block i, in a scale of its own (ours): each block is divided by its root mean square over the outputs at that point,
    and the sum is a mean over outputs. So a pair of blocks has the cosine between its two profiles of lengths, from 0 to 1.
    The raw contrast is made small by decoders that shrink, and one divided by the energy of all blocks by one block that shrinks.

    Parameters
    ----------
    decoder
        Rows of latents to outputs; a module or a function. One that is bound to other inputs is a `lambda z: ...`.
    latents
        (rows, latents).
    blocks
        How many latents each block has, in their order; they must add up to the latents.

    >>> latents = torch.zeros(3, 4)
    >>> apart = torch.block_diag(torch.ones(5, 2), torch.ones(6, 2))
    >>> compositional_contrast(lambda z: z @ apart.T, latents, (2, 2)).item()
    0.0
    >>> round(compositional_contrast(lambda z: 7 * z @ torch.ones(4, 9), latents, (1, 3)).item(), 6)
    1.0
    """
    if min(blocks, default=0) < 1 or sum(blocks) != latents.shape[1]:
        raise UsageError(f"blocks {tuple(blocks)}: expected sizes that add up to {latents.shape[1]} latents.")
    units = torch.eye(latents.shape[1], dtype=latents.dtype, device=latents.device)

    def column(unit: torch.Tensor) -> torch.Tensor:
        moved: torch.Tensor = jvp(decoder, (latents,), (unit.expand_as(latents),))[1]
        return moved.flatten(1)

    squares = vmap(column)(units) ** 2  # (latents, rows, outputs); the decoder itself runs once
    sums = torch.stack([part.sum(dim=0) for part in squares.split(list(blocks))])
    # The root of a sum of 0 has no derivative; a dead output has none of its own.
    lengths = sums.clamp(min=SMALLEST).sqrt() * (sums > SMALLEST)
    profiles = lengths / sums.sum(dim=-1, keepdim=True).clamp(min=SMALLEST).sqrt()
    total = profiles.sum(dim=0) ** 2 - (profiles**2).sum(dim=0)  # twice the sum over pairs, of every row and output
    return total.sum(dim=-1).mean() / 2


class Penalised(nn.Module):
    r"""A model whose training also makes blocks of its latents move outputs of their own: loss + weight * contrast.

    Ours: "change the basis, then penalise". `basis` (latents, latents) has the directions of the blocks as columns, z = s A^T, as
    `identifiable.mechanisms` finds them; latents s of `encoder` and `decoder` are in that basis, and training begins with the same
    reconstructions. A penalty from scratch ends in bad minima where there are three blocks or more; one that starts in a found basis
    has little left to do. `model` is any with `encoder`, `decoder` and `loss(rows)`; latents are the first numbers that its encoder
    gives (a variational one gives deviations after the means).

    >>> model = SlotAutoencoder(outputs=10, latents=4, hidden=8)
    >>> turned = Penalised(model, (2, 2), basis=np.eye(4)[::-1])
    >>> turned.encoder(torch.ones(3, 10)).shape, turned.loss(torch.ones(3, 10)).ndim
    (torch.Size([3, 4]), 0)
    """

    basis: torch.Tensor
    inverse: torch.Tensor
    weight: torch.Tensor

    def __init__(
        self,
        model: Any,
        blocks: Sequence[int],
        *,
        weight: float = WEIGHT,
        basis: NDArray[np.floating[Any]] | None = None,
    ):
        super().__init__()
        d = sum(blocks)
        A = np.eye(d) if basis is None else np.asarray(basis, dtype=np.float64)
        if A.shape != (d, d) or not np.isfinite(A).all() or np.linalg.matrix_rank(A) < d:
            raise UsageError(
                f"basis of shape {A.shape}: expected an invertible matrix of {d} x {d}, as the blocks add up to."
            )
        if not weight >= 0:
            raise UsageError(f"weight {weight}: expected a number of at least 0.")
        self.model, self.blocks = model, tuple(int(size) for size in blocks)
        precision = next(p.dtype for p in model.parameters())
        for name, values in (("basis", A), ("inverse", np.linalg.inv(A)), ("weight", np.array(float(weight)))):
            self.register_buffer(name, torch.as_tensor(values.copy()).to(precision))
        if noise := getattr(model, "noise", 0):
            self.noise = noise
        for name in ("project", "project_gradients"):  # parameters of the model alone, under longer names
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))

    def regularised(self, name: str) -> bool:
        asked = getattr(self.model, "regularised", None)
        return asked is None or bool(asked(name.removeprefix("model.")))

    def encoder(self, rows: torch.Tensor) -> torch.Tensor:
        return self.model.encoder(rows)[:, : sum(self.blocks)] @ self.inverse.mT

    def decoder(self, latents: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.model.decoder(latents @ self.basis.mT)
        return outputs

    def loss(self, rows: torch.Tensor, *noise: torch.Tensor) -> torch.Tensor:
        contrast = compositional_contrast(self.decoder, self.encoder(rows), self.blocks)
        loss: torch.Tensor = self.model.loss(rows, *noise) + self.weight * contrast
        return loss


class SlotAutoencoder(nn.Module):
    """A fully connected encoder and decoder of three layers each, LeakyReLU(0.2) between them.

    Implements the networks of the synthetic experiment of Brady et al. 2023. Rows may hold the outputs of more than one world side by side,
    (rows, worlds, outputs); `world` says which ones this model sees, so that models of different worlds are trained in one stack.

    >>> model = SlotAutoencoder(outputs=40, latents=6)
    >>> model.decoder(model.encoder(torch.ones(2, 40))).shape
    torch.Size([2, 40])
    """

    world: torch.Tensor

    def __init__(self, outputs: int, latents: int, *, hidden: int = 80, world: int = 0, seed: int = 0):
        super().__init__()
        widths = (outputs, hidden, hidden, latents)
        self.layers_in, self.layers_out = _layers(widths), _layers(widths[::-1])
        start_uniformly(self, torch.Generator().manual_seed(seed))
        self.register_buffer("world", torch.tensor(world))

    def encoder(self, rows: torch.Tensor) -> torch.Tensor:
        latents: torch.Tensor = self.layers_in(self._own(rows))
        return latents

    def decoder(self, latents: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.layers_out(latents)
        return outputs

    def loss(self, rows: torch.Tensor) -> torch.Tensor:
        """Mean squared error of the reconstruction."""
        own = self._own(rows)
        return nn.functional.mse_loss(self.decoder(self.encoder(own)), own)

    def _own(self, rows: torch.Tensor) -> torch.Tensor:
        return rows if rows.ndim == 2 else rows.index_select(1, self.world[None])[:, 0]


def _layers(widths: Sequence[int]) -> nn.Sequential:
    *inner, last = pairwise(widths)
    layers = [layer for a, b in inner for layer in (nn.Linear(a, b), nn.LeakyReLU(LEAK))]
    return nn.Sequential(*layers, nn.Linear(*last))
