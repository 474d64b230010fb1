"""Numbers from hashes: a row's own, whatever the order in which rows are read. SplitMix64 (Steele et al. 2014)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GAMMA = np.uint64(0x9E3779B97F4A7C15)


def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: every input bit moves every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniforms(seed: int, first: int, count: int) -> NDArray[np.float64]:
    """A number in [0, 1) for every row, from its position and the seed."""
    with np.errstate(over="ignore"):
        x = np.arange(first + 1, first + count + 1, dtype=np.uint64)
        x = mixed(x * GAMMA + np.uint64(seed % 2**63) * np.uint64(0xD1342543DE82EF95))
    result: NDArray[np.float64] = (x >> np.uint64(11)).astype(np.float64) / 2.0**53
    return result
