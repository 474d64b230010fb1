"""A torch module as a function of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._extras import require

require("torch", extra="nn", what="identifiable.nn")
import torch  # noqa: E402

ROWS = 4096  # at once, so that what lies between the layers stays small

Values = NDArray[np.floating[Any]]


@torch.no_grad()
def outputs(module: torch.nn.Module, rows: Values) -> Values:
    """What a module in eval mode makes of rows, in its own precision.

    >>> outputs(torch.nn.Identity(), np.ones((2, 3))).shape
    (2, 3)
    """
    like = next((p for p in module.parameters() if p.is_floating_point()), torch.zeros(1))
    parts = [
        module(torch.as_tensor(np.ascontiguousarray(rows[a : a + ROWS]), dtype=like.dtype, device=like.device))
        for a in range(0, len(rows), ROWS)
    ]
    result: Values = torch.cat(parts).cpu().numpy()
    return result
