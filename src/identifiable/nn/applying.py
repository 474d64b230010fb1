"""A torch module as a function of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._extras import require

require("torch", extra="nn", what="identifiable.nn")
import torch  # noqa: E402

ROWS, NUMBERS = 4096, 2**22  # at once, so that what lies between the layers stays small
BYTE = 255  # the largest: pictures in bytes are read as numbers from 0 to 1

Values = NDArray[Any]


@torch.no_grad()
def outputs(
    module: torch.nn.Module,
    rows: Values,
    *,
    function: Callable[[torch.Tensor], torch.Tensor] | None = None,
    at_once: int | None = None,
) -> Values:
    """What a module in eval mode, or another function of its parameters, makes of rows, in the module's own precision.

    Bytes are pictures, and divided by 255. `at_once` rows are taken at a time; unless told, as few as keeps the input small.

    >>> outputs(torch.nn.Identity(), np.ones((2, 3))).shape
    (2, 3)
    """
    like = next((p for p in module.parameters() if p.is_floating_point()), torch.zeros(1))
    call, step = function or module, at_once or rows_at_once(rows.shape[1:])
    parts = [
        call(as_numbers(torch.as_tensor(np.array(rows[a : a + step]), device=like.device), like.dtype))
        for a in range(0, len(rows), step)
    ]
    result: Values = torch.cat(parts).cpu().numpy()
    return result


def as_numbers(rows: torch.Tensor, precision: torch.dtype) -> torch.Tensor:
    """Rows in a precision; those of a picture's bytes as numbers from 0 to 1.

    >>> as_numbers(torch.tensor([0, 51, 255], dtype=torch.uint8), torch.float32)
    tensor([0.0000, 0.2000, 1.0000])
    """
    numbers = rows.to(precision)
    return numbers / BYTE if rows.dtype == torch.uint8 else numbers


def rows_at_once(shape: Sequence[int]) -> int:
    """How many rows of a shape a module is given at a time."""
    return min(ROWS, max(1, NUMBERS // math.prod(shape)))
