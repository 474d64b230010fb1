r"""The exact diameter of a representation: the largest Euclidean distance between two of its rows.

How it avoids most of the n (n - 1) / 2 distances (Ours):

1. One pass leaves the distance `r` of every row to a centre. A pair can be farthest only if
   r_i + r_j reaches the best distance L found so far; for heavy-tailed data a few hundred rows remain.
   Better centres (towards the smallest enclosing ball) and better L (walks from a row to the row
   farthest from it) are found on the rows that remain.
2. Where that is not enough, rows are turned to their principal axes and cut into small leaves, by
   radius or by a k-d tree on the first few axes; pairs of leaves whose distance is bounded below L are left out.
3. What remains is screened with matrix products on the first k axes only; the rest of a distance is
   bounded by the norms of the remaining coordinates. `k` is chosen from a sample by cost.
4. Pairs that pass the screen are evaluated in float64 from the stored values. Only these set L.

Why it is exact. Let u = 2^-24. Screens see float32 rows x' = fl(x - c), so |x' - (x - c)| <= eta with
eta = u max|x'| (one more such term for each later move of the centre; 1 % is added for terms in u^2, and
scaling is by powers of two). Hence |x - y| <= |x' - y'| + 2 eta: a pair can only reach L if
|x' - y'| >= L - 2 eta, the threshold of every screen. Against that threshold the screen is an upper bound:

- a dot product of length m computed in any order is off by at most gamma_m |a||b|, gamma_m = m u / (1 - m u)
  (Higham, Accuracy and Stability, 3.1), so a computed norm times 1 + (m + 8) u is above the true one;
- turned rows h' = fl(x' V) with V orthonormal to float32 rounding are off by at most
  eps |x'|, eps = (gamma_d + 2 u) sqrt(k) (column by column, then Cauchy-Schwarz; 2 u covers rounding V and its
  departure from orthonormal);
- the screen computes  s = q_i + q_j - h'_i h'_j + t_i t_j  in one product of k + 3 columns, where t bounds the
  norm of what V leaves out (t^2 = r^2 - |h'|^2 + 2.1 eps r^2) and q = r^2 (1/2 + gamma_{k+12} + 2 eps). The
  absolute values in that product sum to at most |h'_i||h'_j| + t_i t_j + q_i + q_j, which is r_i^2 + r_j^2 up to
  terms that the + 12 covers, so its rounding is
  below gamma (r_i^2 + r_j^2); the turning changes h_i h_j by at most 2 eps r_i r_j <= eps (r_i^2 + r_j^2).
  Hence s >= |x'_i - x'_j|^2 / 2 for every pair.

Nothing that could reach L is left out, ties included; of tied pairs the first in row order is returned.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identifiable._checks import UsageError
from identifiable.blocks import Blocks, available_workers, one_blas_thread
from identifiable.diameter.search import Diameter, Search
from identifiable.run import Progress

__all__ = ["Diameter", "diameter"]


def diameter(
    blocks: Blocks | NDArray[Any],
    *,
    center: ArrayLike | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Diameter:
    r"""Largest Euclidean distance between two rows, exactly as float64 brute force would find it.

    Ours: max over i < j of |x_i - x_j|, each distance in float64 from the stored values, ties to the
    first pair in row order. Does not depend on `workers`, `center` or the block size; `evaluated` does on `center`.
    One limit: where more than one pair in 64 of a product of a thousand rows by a thousand ties with the best
    to float64 rounding, only the leading ones are evaluated, and the value is exact to that rounding.

    Parameters
    ----------
    center
        A point in the middle of the rows, such as their mean; without it, the mean of a sample of rows.
        Any point gives the same diameter, a good one sooner.

    >>> diameter(np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]]))
    Diameter(value=5.0, rows=(0, 1), evaluated=3)
    """
    table = blocks if isinstance(blocks, Blocks) else Blocks(blocks)
    if center is not None and np.shape(center) != (table.d,):
        raise UsageError(f"center: expected one value for each of {table.d} columns, got shape {np.shape(center)}.")
    count = workers or available_workers()
    with one_blas_thread(), ThreadPoolExecutor(count) as pool:
        return Search(table, center, count, pool, progress).run()
