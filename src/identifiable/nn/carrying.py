"""A map between representations as a torch module."""

from __future__ import annotations

from identifiable._extras import require
from identifiable.groups import AffineMap

require("torch", extra="nn", what="to_torch")
import torch  # noqa: E402


class Unit(torch.nn.Module):
    """Rows divided by their length; a row of zeros stays."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(rows, dim=-1)


def carrier(by: AffineMap, *, normalize: bool = False) -> torch.nn.Sequential:
    """A linear layer in float32; with `normalize` between two layers that divide rows by their length.

    >>> import numpy as np
    >>> carrier(AffineMap(np.array([[2.0], [3.0]]), np.ones(1)))(torch.ones(1, 2)).item()
    6.0
    """
    linear = torch.nn.Linear(*by.matrix.shape)
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(by.matrix.T.copy()))
        linear.bias.copy_(torch.from_numpy(by.offset))
    return torch.nn.Sequential(*([Unit(), linear, Unit()] if normalize else [linear]))
