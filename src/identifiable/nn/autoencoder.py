"""The autoencoder of A.7.1: orthogonal weights, no biases, LeakyReLU, so that its constant is bounded by its leak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from identifiable._checks import UsageError
from identifiable._extras import require

require("torch", extra="nn", what="identifiable.nn")
import torch  # noqa: E402
from torch import nn  # noqa: E402

# Of (1 + e)^(-1/2) = 1 - e / 2 + 3 e^2 / 8 - ...: enough to bring ||e|| = 0.1 below 5e-6 in one go.
INVERSE_ROOT = (1.0, -1 / 2, 3 / 8, -5 / 16, 35 / 128)
NEAR, FAR = 0.25, 0.75  # bounds on ||e|| beyond which the series is used twice, and not at all


class OrthogonalAutoencoder(nn.Module):
    r"""Fully connected encoder and decoder with orthonormal weights, and LeakyReLU between layers.

    Implements the architecture of A.7.1 of Nelson et al. (2026). `widths` run from the input to the latents; the decoder
    mirrors them. Every weight keeps lengths (or projects), and every activation multiplies by 1 or by the leak, so all
    singular values of the decoder's Jacobian lie in [leak^k, 1], with k the activations in between: 1 + L is at most
    leak^-k. With leak 1 the autoencoder is linear and the decoder an isometry.

    Ours: weights stay orthonormal because training follows the part of the gradient along such matrices
    (`project_gradients`) and each step ends at the nearest one (`project`). torch's `parametrizations.orthogonal` computes
    Householder reflections and differentiates through them column by column, which takes many times as long
    (`benchmarks/training.py`).

    >>> model = OrthogonalAutoencoder((6, 4, 2), leak=0.5)
    >>> z = model.encoder(torch.ones(3, 6))
    >>> z.shape, model.decoder(z).shape
    (torch.Size([3, 2]), torch.Size([3, 6]))
    """

    def __init__(self, widths: Sequence[int], leak: float, *, seed: int = 0):
        super().__init__()
        if len(widths) < 2 or any(a < b for a, b in pairwise(widths)) or widths[-1] < 1:
            raise UsageError(f"widths {tuple(widths)}: expected them to fall from the input to the latents.")
        if not 0 < leak <= 1:
            raise UsageError(
                f"leak {leak}: expected a number above 0 (there a decoder loses directions) and at most 1."
            )
        generator = torch.Generator().manual_seed(seed)
        self.encoder = Layers(widths, leak, generator)
        self.decoder = Layers(widths[::-1], leak, generator)

    def loss(self, rows: torch.Tensor) -> torch.Tensor:
        """Mean squared error of the reconstruction."""
        return nn.functional.mse_loss(self.decoder(self.encoder(rows)), rows)

    @staticmethod
    def project_gradients(parameters: Mapping[str, torch.Tensor], gradients: Mapping[str, torch.Tensor]) -> None:
        """Leave of every gradient what turns the weight and not what stretches it, in place; weights may be stacked.

        The rest would be undone by `project`, and until then drown what Adam is to follow: in a trial the loss stayed at
        0.091 for 240 steps, and fell to 0.038 without it.
        """
        for name, weight in parameters.items():
            gradients[name].copy_(_along_orthonormal(weight, gradients[name]))

    @staticmethod
    def project(parameters: Mapping[str, torch.Tensor]) -> None:
        """Put every weight back where it is orthonormal, in place; weights may be stacked along leading axes."""
        for weight in parameters.values():
            weight.copy_(nearest_orthonormal(weight))


class Layers(nn.Module):
    """Orthonormal weights with LeakyReLU in between."""

    leak: torch.Tensor

    def __init__(self, widths: Sequence[int], leak: float, generator: torch.Generator):
        super().__init__()
        self.weights = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths))
        for layer in self.weights:
            # In float64: its rounding, which depends on the number of threads, does not reach the weights.
            start = torch.empty(layer.weight.shape, dtype=torch.float64)
            layer.weight.data.copy_(nn.init.orthogonal_(start, generator=generator))
        self.register_buffer("leak", torch.tensor(float(leak)))  # a buffer, so that stacked models may differ in it

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        *inner, last = self.weights
        for layer in inner:
            rows = layer(rows)
            rows = torch.where(rows > 0, rows, self.leak * rows)
        result: torch.Tensor = last(rows)
        return result


def nearest_orthonormal(weight: torch.Tensor) -> torch.Tensor:
    """The nearest matrix whose rows (if it is wide) or columns (if it is tall) are orthonormal: the polar factor.

    W (W^T W)^(-1/2), of a stack of matrices. For those nearly orthonormal, as they are after a step, by a series in
    e = W^T W - 1, which takes matrix products only and leaves of e about ||e||^5 / 2, once or twice; for others by
    eigenvalues.
    """
    if weight.shape[-2] < weight.shape[-1]:
        return nearest_orthonormal(weight.mT).mT
    e = weight.mT @ weight
    e.diagonal(dim1=-2, dim2=-1).sub_(1)
    square = e @ e
    _, first, second, third, fourth = INVERSE_ROOT
    tail = third * e + fourth * square
    tail.diagonal(dim1=-2, dim2=-1).add_(second)
    change = first * e + square @ tail
    bound = torch.linalg.matrix_norm(square).sqrt()  # of the largest |eigenvalue| of e; what is not finite has diverged
    far = (bound > FAR) & e.isfinite().all(dim=-1).all(dim=-1)
    if far.any():
        values, vectors = torch.linalg.eigh(e[far].double())
        root = (vectors * ((1 + values).clamp(min=1e-12).rsqrt() - 1)[..., None, :]) @ vectors.mT
        change[far] = root.to(change.dtype)
    nearest = weight + weight @ change
    again = (bound > NEAR) & (bound <= FAR)
    if again.any():
        nearest[again] = nearest_orthonormal(nearest[again])
    return nearest


def _along_orthonormal(weight: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """The tangent part of a gradient at an orthonormal matrix: G - W sym(W^T G) where W is tall."""
    if weight.shape[-2] < weight.shape[-1]:
        return _along_orthonormal(weight.mT, gradient.mT).mT
    across = weight.mT @ gradient
    return gradient - weight @ ((across + across.mT) / 2)
