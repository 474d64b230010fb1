"""Which rows moved: labels whose rows a map serves worse than shuffled labels would have it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.moments import Array
from identifiable.results import MovedGroup

LEVEL = 0.05  # over all labels together
FEWEST_ROWS = 5  # labels with fewer rows are not judged: one odd row would be their mean
DRAWS = 99
FEWEST_DRAWS = 19  # the fewest with which p can be LEVEL
MOST_MOVES = 10_000_000  # rows times draws, some 0.3 CPU s; longer tables get fewer draws


def moved_groups(
    errors: NDArray[Any],
    labels: NDArray[Any],
    *,
    rng: np.random.Generator,
    groups: NDArray[Any] | None = None,
) -> tuple[MovedGroup, ...]:
    r"""Labels whose mean error is above what chance gives, largest mean first.

    Ours. With m_g the mean error of the n_g rows of label g, m and s the mean and deviation over all n rows,
        z_g = (m_g - m) / (s sqrt((1 / n_g - 1 / n))),    p_g = (1 + draws with max_h z_h >= z_g) / (1 + draws),
    where a draw permutes labels. The maximum over labels makes the level hold for all of them together: under
    exchangeable rows at least one label is listed with probability at most `LEVEL`, at any number of draws.

    Rows of a declared group are alike, so they are not exchanged one by one with rows of others. Where each group has
    one label, labels of whole groups are permuted; where labels differ within groups, labels are permuted within each
    group and errors are taken from their group's mean. A label that is one group cannot be judged.

    Parameters
    ----------
    errors
        Held-out error of every row.
    labels
        One label per row, compared as text.

    >>> errors = np.r_[np.ones(50), np.full(10, 2.0)] + np.arange(60) % 7 / 100
    >>> labels = np.array(["a", "b"] * 25 + ["c"] * 10)
    >>> [(g.label, g.rows, g.p) for g in moved_groups(errors, labels, rng=np.random.default_rng(0))]
    [('c', 10, 0.01)]
    """
    values = np.asarray(errors, dtype=np.float64)
    names, label = np.unique(_plain(labels), return_inverse=True)
    unit = np.arange(len(values)) if groups is None else np.unique(_plain(groups), return_inverse=True)[1]
    label_of = np.zeros(int(unit.max(initial=-1)) + 1, dtype=np.intp)
    label_of[unit] = label
    one_label = np.array_equal(label_of[unit], label)
    judged = values if one_label else values - (np.bincount(unit, weights=values) / np.bincount(unit))[unit]
    by_unit = np.argsort(unit, kind="stable")

    def standardised(member: NDArray[np.intp]) -> Array:
        sizes = np.bincount(member, minlength=len(names))
        sums = np.bincount(member, weights=judged, minlength=len(names))
        fit = (sizes >= FEWEST_ROWS) & (sizes < len(judged))
        z = np.full(len(names), -np.inf)
        z[fit] = (sums[fit] / sizes[fit] - judged.mean()) / np.sqrt(1 / sizes[fit] - 1 / len(judged))
        return z

    def drawn() -> NDArray[np.intp]:
        if one_label:
            return rng.permutation(label_of)[unit]
        member = np.empty_like(label)
        member[by_unit] = label[np.lexsort((rng.random(len(label)), unit))]
        return member

    z = standardised(label)
    if not np.isfinite(z).any():
        return ()
    draws = int(np.clip(MOST_MOVES // len(values), FEWEST_DRAWS, DRAWS) + 1) // 20 * 20 - 1  # so that p can be LEVEL
    largest = np.array([standardised(drawn()).max() for _ in range(draws)])
    p = (1 + np.sum(largest[:, None] >= z, axis=0)) / (1 + draws)
    sizes, sums = np.bincount(label), np.bincount(label, weights=values)
    found = [
        MovedGroup(
            str(names[g]),
            int(sizes[g]),
            float(sums[g] / sizes[g]),
            float(sums[g] / sizes[g] / values.mean()),
            float(p[g]),
        )
        for g in np.flatnonzero((p <= LEVEL) & np.isfinite(z))
    ]
    return tuple(sorted(found, key=lambda g: (-g.error, g.label)))


def _plain(names: NDArray[Any]) -> NDArray[Any]:
    """Names that can be sorted: objects as text."""
    names = np.asarray(names)
    return names.astype(str) if names.dtype.kind == "O" else names
