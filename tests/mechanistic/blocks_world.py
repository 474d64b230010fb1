"""Jacobians whose factors are known: block by block, mixed by one matrix, outputs in random order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Known(NamedTuple):
    jacobians: Array  # (points, outputs, latents)
    owners: NDArray[np.intp]  # -1: dead
    subspaces: list[Array]


def conditioned(d: int, condition: float, rng: np.random.Generator) -> Array:
    left, right = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    return np.asarray(left * condition ** np.linspace(0, -1, d) @ right if d > 1 else np.ones((1, 1)))


def block_jacobians(
    dimensions: Sequence[int],
    rng: np.random.Generator,
    *,
    points: int = 1,
    outputs: Sequence[int] | None = None,
    condition: float = 10.0,
    noise: float = 0.0,
    extras: bool = False,
    lost: int = 0,
) -> Known:
    """`extras` appends two dead outputs and three copies; `lost` latents move nothing. Noise is a share of the entries' scale."""
    sizes = outputs or [8 * k for k in dimensions]
    d = sum(dimensions) + lost
    J, owners = np.zeros((points, sum(sizes), d)), np.repeat(np.arange(len(sizes)), sizes)
    ends, first = np.cumsum(sizes), 0
    for k, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        J[:, end - size : end, first : first + dimensions[k]] = rng.standard_normal((points, size, dimensions[k]))
        first += dimensions[k]
    if extras:
        J = np.concatenate([J, J[:, :3], np.zeros((points, 2, d))], axis=1)
        owners = np.concatenate([owners, owners[:3], [-1, -1]])
    A = conditioned(d, condition, rng)
    back, mixed = np.linalg.inv(A), J @ A
    mixed += noise * mixed.std() * rng.standard_normal(mixed.shape)
    order = rng.permutation(J.shape[1])
    parts = np.split(back[:, : d - lost], np.cumsum(dimensions)[:-1], axis=1)
    return Known(mixed[:, order], owners[order], parts)


def sine(first: Array, second: Array) -> float:
    """Of the largest angle between two subspaces."""
    a, b = (np.linalg.qr(basis)[0] for basis in (first, second))
    return float(np.linalg.norm(b - a @ (a.T @ b), 2))


def same_partition(first: NDArray[np.intp], second: NDArray[np.intp]) -> bool:
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    return len(pairs) == len(set(first.tolist())) == len(set(second.tolist()))
