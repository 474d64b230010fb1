"""The canonical form: order and sign by rule, the same columns whatever the data was expressed in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from errors import naming
from identifiable import resolve
from identifiable._checks import UsageError
from identifiable.blocks import Blocks
from identifiable.ica import Resolved, fit
from identifiable.ica.canonical import Canonical, Shape, _clear_top, _variance_errors, canonical
from identifiable.ica.diagnostics import Judged, places, ties
from identifiable.moments import Moments
from identifiable.options import IcaOptions as Settings

Matrix = NDArray[np.float64]
SEEDS = [0, 1, 2]


def skewed(seed: int, n: int = 6000) -> Matrix:
    """Independent sources with skews of their own, so that order and signs are certain."""
    rng = np.random.default_rng([seed, 21])
    return np.column_stack([rng.gamma(shape, size=n) for shape in (0.5, 1.0, 2.0, 4.0)])


def mixed(seed: int, n: int = 6000) -> Matrix:
    rng = np.random.default_rng([seed, 22])
    return np.asarray(skewed(seed, n) @ rng.standard_normal((4, 4)) + rng.normal(0, 3, 4))


def quick(X: NDArray[Any], **settings: Any) -> Resolved:
    return resolve(X, **{"stability": 0, "restarts": 2, "tol": 1e-9, **settings})


def shape_of(d: int, **given: Any) -> Shape:
    """Figures of d components with nothing special about them, but for those given."""
    fields: dict[str, Any] = {
        "negentropy": np.linspace(0.3, 0.1, d),
        "negentropy_se": np.full(d, 0.001),
        "skew": np.zeros(d),
        "skew_se": np.full(d, 0.1),
        "kurtosis": np.linspace(1.0, 2.0, d),
        "kurtosis_se": np.full(d, 0.01),
        "departure": np.full(d, -0.05),
        "departure_se": np.full(d, 0.001),
        "largest": np.full(d, 5.0),
        "n": 1000,
        "contrast": "logcosh",
    }
    return Shape(**{**fields, **{k: np.asarray(v, float) for k, v in given.items()}})


CLEAR = np.array([[3.0, 0.1, -0.2], [0.3, -2.0, 0.1], [0.1, 0.2, 1.0]])
SURE = np.full(3, 0.01)


# The rules


@pytest.mark.parametrize(("by", "order"), [("negentropy", [0, 1, 2]), ("variance", [0, 1, 2]), ("kurtosis", [2, 1, 0])])
def test_order_falls_by_the_key_asked_for(by, order):
    form = canonical(shape_of(3), CLEAR, SURE, by)
    np.testing.assert_array_equal(form.order, order)
    assert (np.diff(form.keys) <= 0).all()
    backwards = canonical(shape_of(3, negentropy=[0.1, 0.2, 0.3], kurtosis=[3, 2, 1]), CLEAR[::-1], SURE, by)
    np.testing.assert_array_equal(backwards.order, order[::-1])
    by_size = canonical(shape_of(3, kurtosis=[0.5, -1.2, 1.0]), CLEAR, SURE, "kurtosis")
    np.testing.assert_array_equal(by_size.order, [1, 2, 0])


def test_an_order_that_there_is_not_is_named():
    with pytest.raises(UsageError, match=naming("negentropi", "kurtosis")):
        canonical(shape_of(3), CLEAR, SURE, "negentropi")


def test_a_basis_takes_columns_in_another_order():
    X = mixed(3, n=500)
    found, order = quick(X), [2, 0, 3, 1]
    other = found.arranged(order)
    np.testing.assert_allclose(other.to_components(X[:, order]), found.to_components(X), atol=1e-9)
    np.testing.assert_allclose(other.from_components(found.to_components(X)), X[:, order], atol=1e-9)
    assert np.abs(other.to_components(X) - found.to_components(X)).max() > 0.1  # not in the old order


def test_sign_makes_skew_positive_and_else_the_largest_loading():
    form = canonical(shape_of(3, skew=[-1.0, 0.01, 2.0]), CLEAR, SURE, "negentropy")
    assert form.rule == ("skew", "loading", "skew")
    np.testing.assert_array_equal(form.signs, [-1, -1, 1])
    assert form.sure.all()
    flipped = canonical(shape_of(3, skew=[1.0, -0.01, -2.0]), -CLEAR, SURE, "negentropy")
    assert flipped.rule == form.rule
    np.testing.assert_array_equal(flipped.signs, -form.signs)


@pytest.mark.parametrize(
    ("skew", "loadings", "angle", "sure"),
    [
        (0.0, [1.0, 0.2, 0.1], 0.01, True),
        (0.0, [1.0, -0.99, 0.1], 0.01, False),  # the other may become the largest, with the other sign
        (0.0, [1.0, 0.99, 0.1], 0.01, True),  # it may, with the same sign
        (0.0, [1.0, -0.6, 0.1], 0.01, True),
        (0.0, [1.0, -0.6, 0.1], 0.5, False),  # the direction itself is uncertain
        (0.31, [1.0, 0.2, 0.1], 0.01, True),  # both rules give the same sign
        (-0.31, [1.0, 0.2, 0.1], 0.01, False),  # another sample may take the other rule
        (-0.29, [1.0, 0.2, 0.1], 0.01, False),
        (-0.2, [1.0, 0.2, 0.1], 0.01, True),  # both ends of the doubtful range are outside it
        (-0.45, [1.0, 0.2, 0.1], 0.01, True),
        (-3.0, [1.0, -0.99, 0.1], 0.01, True),  # skew decides for certain
    ],
)
def test_a_sign_that_another_sample_may_change_is_not_sure(skew, loadings, angle, sure):
    form = canonical(shape_of(1, skew=[skew]), np.array([loadings]), np.array([angle]), "negentropy")
    assert form.sure[0] == sure


# The columns of a fit


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("by", ["negentropy", "variance", "kurtosis"])
def test_a_fit_follows_the_rules(seed, by):
    X = mixed(seed)
    found = quick(X, order=by)
    Y = found.to_components(X)
    keys = {
        "negentropy": [c.negentropy for c in found.result.components],
        "variance": (found.from_components.matrix**2).sum(axis=1),
        "kurtosis": np.abs((Y**4).mean(axis=0) - 3),
    }
    assert (np.diff(keys[by]) < 1e-3).all()
    assert ((Y**3).mean(axis=0) > 0).all()
    assert [c.sign for c in found.result.components] == ["skew"] * 4
    assert [c.index for c in found.result.components] == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_do_not_depend_on_the_coordinates_of_the_data(seed):
    rng = np.random.default_rng([seed, 23])
    X = mixed(seed)
    M = rng.standard_normal((4, 4)) + 2 * np.eye(4)
    Y = quick(X).to_components(X)
    mapped = X @ M + 100 * rng.standard_normal(4)
    np.testing.assert_allclose(quick(mapped).to_components(mapped), Y, atol=2e-3)
    np.testing.assert_allclose(quick(X[:, [2, 0, 3, 1]]).to_components(X[:, [2, 0, 3, 1]]), Y, atol=2e-3)
    np.testing.assert_allclose(quick(X * 1e-5).to_components(X * 1e-5), Y, atol=2e-3)
    np.testing.assert_allclose(quick(-X).to_components(-X), Y, atol=2e-3)
    np.testing.assert_allclose(quick(rng.permutation(X)).to_components(X), Y, atol=2e-3)
    assert np.abs(quick(X**3).to_components(X**3) - Y).max() > 0.5  # another distribution


# Places and ties


def form_of(keys: list[float], errors: list[float]) -> Canonical:
    d = len(keys)
    return Canonical(
        np.arange(d), np.ones(d), ("skew",) * d, np.ones(d, dtype=np.bool_), np.array(keys), np.array(errors)
    )


def test_places_reach_as_far_as_three_standard_errors():
    assert places(form_of([9, 5, 1], [0.1, 0.1, 0.1])) == [(0, 0), (1, 1), (2, 2)]
    assert places(form_of([5.1, 5, 1], [0.1, 0.1, 0.1])) == [(0, 1), (0, 1), (2, 2)]
    assert places(form_of([3, 2, 1], [1, 1, 1])) == [(0, 2)] * 3
    assert places(form_of([2.0], [0.1])) == [(0, 0)]


def test_ties_are_told_among_reproducible_neighbours_only():
    form = form_of([5.1, 5.05, 5.0, 1], [0.1] * 4)
    yes, no = Judged(True, ""), Judged(False, "")
    assert [(t.first, t.second) for t in ties(form, [yes] * 4)] == [(0, 1), (1, 2)]
    assert [(t.first, t.second) for t in ties(form, [yes, no, yes, yes])] == [(0, 2)]
    assert ties(form, [no] * 4) == []
    assert ties(form, [yes] * 4)[0].gap == pytest.approx(0.05 / np.hypot(0.1, 0.1))


# Matching


A = np.arange(12.0).reshape(4, 3) % 5


def test_the_error_of_the_variance_a_component_carries_is_that_seen_over_samples():
    """Most of it is the direction's: a slight turn towards a component of large variance moves a small one much."""
    rng = np.random.default_rng(5)
    A = np.linalg.qr(rng.standard_normal((4, 4)))[0] @ np.diag([1, 3, 10, 30.0]) @ rng.standard_normal((4, 4))
    n, seen, said, size_alone = 3000, [], [], []
    for draw in range(40):
        rng = np.random.default_rng(draw)
        S = np.column_stack([rng.laplace(0, 0.5**0.5, (n, 3)), rng.uniform(-(3**0.5), 3**0.5, n)])
        found = fit(Blocks(S @ A), Moments.of(S @ A), Settings(order="variance", stability=0))
        at = np.abs(np.corrcoef(S.T, found.to_components(S @ A).T)[:4, 4:]).argmax(axis=1)
        variance = (found.from_components.matrix**2).sum(axis=1)
        seen.append(variance[at])
        said.append(found.form.key_se[at])
        size_alone.append((variance * np.sqrt((found.shape.kurtosis + 2) / n))[at])
    ratio = np.mean(said, axis=0) / np.std(seen, axis=0)
    assert np.all((ratio > 0.7) & (ratio < 1.4)), ratio
    assert np.min(np.mean(size_alone, axis=0) / np.std(seen, axis=0)) < 0.7


@pytest.mark.parametrize("orthogonal", [True, False])
def test_errors_of_carried_variance_are_the_formula_one_component_at_a_time(orthogonal: bool) -> None:
    rng = np.random.default_rng(0)
    loadings = np.diag([3.0, 2.0, 1.0]) if orthogonal else rng.standard_normal((3, 5))
    angle, kurtosis, n, zero = np.array([0.1, 0.2, 0.3]), np.array([-1.0, 0.5, 3.0]), 400, np.zeros(3)
    shape = Shape(zero, zero, zero, zero, kurtosis, zero, zero, zero, zero, n, "logcosh")
    found = _variance_errors(shape, loadings, angle)
    for i in range(3):
        own = loadings[i] @ loadings[i]
        others = [j for j in range(3) if j != i]
        size = own**2 * (kurtosis[i] + 2) / n
        turned = 4 * angle[i] ** 2 / 2 * sum((loadings[i] @ loadings[j]) ** 2 for j in others)
        leaked = angle[i] ** 2 / 2 * sum(loadings[j] @ loadings[j] for j in others)
        assert found[i] == pytest.approx(np.sqrt(size + turned + leaked**2), rel=1e-9)


def test_two_largest_entries_of_one_size_fix_a_sign_only_where_they_agree():
    exact = np.zeros(3)
    np.testing.assert_array_equal(
        _clear_top(np.array([[2.0, -2.0, 1.0], [2.0, 2.0, 1.0], [1.0, -2.0, 1.0]]), exact), [False, True, True]
    )
