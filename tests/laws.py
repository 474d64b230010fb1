"""Laws of groups and measures, stated once and generated for every group and seed.

Each law has its negative half in `tests/test_groups.py`: a checker that cannot fail proves nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from identifiable.groups import GROUPS, AffineMap, Group
from identifiable.moments import Moments

LADDER = list(GROUPS.values())
SEEDS = range(5)


def proper_pairs() -> list[tuple[Group, Group]]:
    """(smaller, larger) for every declared containment."""
    return [(GROUPS[name], larger) for larger in LADDER for name in larger.subgroups]


def rows(seed: int, n: int = 400, d: int = 6) -> NDArray[np.float64]:
    """Correlated, skewed, off-centre rows: nothing a fit could get right by symmetry."""
    rng = np.random.default_rng([seed, 11])
    mixing = rng.standard_normal((d, d))
    return rng.gamma(1.5, size=(n, d)) @ mixing + 5 * rng.standard_normal(d)


def moments(X: NDArray[np.float64], Y: NDArray[np.float64]) -> Moments:
    return Moments.of(np.hstack([X, Y]), widths=(X.shape[1], Y.shape[1]))


def squared_error(g: AffineMap, X: NDArray[np.float64], Y: NDArray[np.float64]) -> float:
    """Root mean square error over the spread of Y."""
    return float(np.sqrt(np.sum((g(X) - Y) ** 2) / np.sum((Y - Y.mean(axis=0)) ** 2)))


def member_outside(larger: Group, smaller: Group, d: int, rng: np.random.Generator) -> AffineMap:
    """A member of the larger group that the smaller one does not contain."""
    for _ in range(100):
        g = larger.sample(d, rng)
        if not smaller.contains(g, tolerance=0.05):
            return g
    raise AssertionError(f"{larger.name} never left {smaller.name} in 100 draws")


def law_planted_member_is_recovered(group: Group, seed: int) -> None:
    X = rows(seed)
    planted = group.sample(X.shape[1], np.random.default_rng([seed, 12]))
    Y = planted(X)
    fitted = group.fit(moments(X, Y))
    assert squared_error(fitted, X, Y) < 1e-6
    assert np.abs(fitted.matrix - planted.matrix).max() < 1e-6
    assert np.abs(fitted.offset - planted.offset).max() < 1e-6


def law_fit_is_a_member(group: Group, seed: int) -> None:
    X, Y = rows(seed), rows(seed + 100)
    assert group.contains(group.fit(moments(X, Y)), tolerance=1e-9)


def law_sample_is_a_member(group: Group, seed: int) -> None:
    assert group.contains(group.sample(5, np.random.default_rng(seed)))


def law_closed_under_composition_and_inverse(group: Group, seed: int) -> None:
    rng = np.random.default_rng([seed, 13])
    g, h = group.sample(4, rng), group.sample(4, rng)
    assert group.contains(g.then(h))
    assert group.contains(g.inverse())


def law_smaller_is_contained(smaller: Group, larger: Group, seed: int) -> None:
    assert larger.contains(smaller.sample(5, np.random.default_rng([seed, 14])))


def law_outsider_is_rejected(smaller: Group, larger: Group, seed: int) -> None:
    rng = np.random.default_rng([seed, 15])
    X = rows(seed)
    Y = member_outside(larger, smaller, X.shape[1], rng)(X)
    assert squared_error(smaller.fit(moments(X, Y)), X, Y) > 0.02


def law_larger_group_never_fits_worse(smaller: Group, larger: Group, seed: int) -> None:
    X, Y = rows(seed), rows(seed + 200)
    m = moments(X, Y)
    assert squared_error(larger.fit(m), X, Y) <= squared_error(smaller.fit(m), X, Y) * (1 + 1e-12)
