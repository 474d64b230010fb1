"""One-to-one assignment by cosine: the published definition, and large dictionaries against the exact solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from identifiable import match
from identifiable.dictionaries.assignment import assign

WIDTH = 32


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def planted(k, shared, rng, noise=0.5):
    """Two dictionaries of k features, of which `shared` are the same up to noise, in another order and of other lengths."""
    A, B = rng.standard_normal((2, k, WIDTH))
    B[:shared] = A[:shared] + noise * rng.standard_normal((shared, WIDTH))
    order = rng.permutation(k)
    return A * rng.uniform(0.5, 2, (k, 1)), B[order] * rng.uniform(0.5, 2, (k, 1)), np.argsort(order)[:shared]


def slow_pw_mcc(A, B, absolute):
    """The definition, a cosine at a time."""
    table = np.array([[a @ b / np.sqrt((a @ a) * (b @ b)) for b in B] for a in A])
    table = np.abs(table) if absolute else table
    rows, columns = linear_sum_assignment(-table)
    return table[rows, columns].mean()


@pytest.mark.parametrize(("k_a", "k_b"), [(40, 40), (40, 28), (28, 40)])
def test_pw_mcc_is_the_published_definition_in_both_conventions(k_a, k_b):
    A, B, _ = planted(40, 20, np.random.default_rng(0))
    B[:7] *= -1
    A, B = A[:k_a], B[:k_b]
    pair = match(A, B, null_draws=1).pairs[0]
    assert pair.score_of("pw_mcc").value == pytest.approx(slow_pw_mcc(A, B, False), abs=1e-6)
    assert pair.score_of("pw_mcc_absolute").value == pytest.approx(slow_pw_mcc(A, B, True), abs=1e-6)
    assert pair.score_of("pw_mcc_absolute").value > pair.score_of("pw_mcc").value + 0.02
    few = min(k_a, k_b)
    assert (pair.matched, pair.unmatched_first, pair.unmatched_second) == (few, k_a - few, k_b - few)


def test_partners_and_margins_are_those_of_the_planted_features():
    A, B, partner = planted(60, 30, np.random.default_rng(1))
    found = match(A, B, null_draws=1).pairs[0].arrays
    assert np.array_equal(found.partner[:30], partner)
    cosines = unit(A) @ unit(B).T
    others = np.delete(cosines[3], found.partner[3])
    assert found.margin[3] == pytest.approx(cosines[3, found.partner[3]] - others.max(), abs=1e-6)
    taken = cosines[30:].argmax(axis=1) != found.partner[30:]  # whose nearest feature went to another
    assert taken.any()
    assert np.array_equal(found.margin[30:] < 0, taken)


def decaying(k, rng):
    return rng.standard_normal((k, WIDTH)) * np.arange(1, WIDTH + 1) ** -0.5


def clumped(k, rng):
    centres = np.random.default_rng(5).standard_normal((k // 20, WIDTH))
    return centres[rng.integers(len(centres), size=k)] + 0.3 * rng.standard_normal((k, WIDTH))


def uneven(k, rng):
    """A dense group of 150 features in the one dictionary of 500, of 15 in the other of 501."""
    group = 150 if k == 500 else 15
    near = np.random.default_rng(5).standard_normal(WIDTH) + 0.1 * rng.standard_normal((group, WIDTH))
    return np.vstack([near, rng.standard_normal((k - group, WIDTH))])


@pytest.mark.parametrize(
    ("make", "size", "tolerance"),
    [
        (lambda k, rng: rng.standard_normal((k, WIDTH)), (600, 600), 0.001),
        (lambda k, rng: rng.standard_normal((k, WIDTH)) + 1, (500, 700), 0.001),
        (decaying, (700, 500), 0.001),
        (clumped, (600, 600), 0.006),
        (uneven, (500, 501), 0.002),
        (uneven, (501, 500), 0.002),
    ],
    ids=["isotropic", "shared mean", "decaying", "clumps", "uneven groups", "uneven back"],
)
def test_the_sparse_assignment_is_nearly_the_exact_one(make, size, tolerance):
    rng = np.random.default_rng(2)
    A, B = (unit(make(k, rng)) for k in size)
    for exact, sparse in zip(assign(A, B), assign(A, B, exact=1), strict=True):
        assert (exact.solver, sparse.solver) == ("hungarian", "sparse")
        has = sparse.partner >= 0
        assert has.sum() == min(size) == len(set(sparse.partner[has]))
        assert 0 <= exact.size.mean() - sparse.size.mean() + 1e-6 <= tolerance
        assert np.allclose(exact.best, sparse.best, atol=1e-6)
        assert np.allclose(exact.best_back, sparse.best_back, atol=1e-6)
        same = exact.partner == sparse.partner
        assert same.mean() > 0.5
        assert np.allclose(exact.margin[same & has], sparse.margin[same & has], atol=1e-6)


def test_the_number_of_threads_changes_nothing():
    from identifiable.run import Run

    rng = np.random.default_rng(3)
    A, B = (unit(rng.standard_normal((5000, 4))) for _ in range(2))
    one, two = (assign(A[:4500], B[:300], Run(workers=w), exact=1)[0] for w in (1, 2))
    assert np.array_equal(one.partner, two.partner)
    assert np.array_equal(one.cosine, two.cosine)
