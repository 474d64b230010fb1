"""Replicate mAP, consistency, magnitude and known relations: closed forms, degenerate screens, and the libraries' own values."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest

from deconfounding.screen_reference import numbers, reference, screen
from deconfounding.short_calls import replicate_map
from errors import naming
from identifiable import DataError, UsageError
from identifiable.deconfounding.design import Design, Labels
from identifiable.deconfounding.intervals import jackknifed_mean, q_values
from identifiable.deconfounding.metrics import matrices
from identifiable.deconfounding.metrics.replicates import (
    WellSums,
    _random_precision,
    expected_average_precision,
    precision_without_each,
)

CASES = {
    "controls": {},
    "controls_of_the_plate": {"positives_differ_by": ["plate"], "negatives_share": ["plate"]},
    "non_replicates": {"against": "non-replicates", "positives_differ_by": ["plate"]},
}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def small(perturbation: str, plate: str) -> Design:
    """A design from one letter for each row; `c` is the control."""
    names = np.array(list(perturbation))
    return Design(Labels.of(np.array(list(plate))), Labels.of(names), names == "c")


def of_plates(X: np.ndarray, design: Design, **options: object) -> np.ndarray:
    return replicate_map(X, design, positives_differ_by=["plate"], permutations=0, **options).average_precision


def average_precision_of(order: tuple[bool, ...]) -> float:
    hits = np.flatnonzero(order)
    return float(np.mean(np.arange(1, len(hits) + 1) / (hits + 1)))


# replicate mAP


@pytest.mark.parametrize("case", CASES)
def test_replicate_map_matches_copairs(case):
    X, design = screen()
    known = reference()["maps"][case]
    found = replicate_map(X, design, permutations=20_000, rng=rng(), **CASES[case])
    expected = np.full(design.n, np.nan)
    expected[known["rows"]] = numbers(known["average_precision"])
    np.testing.assert_allclose(found.average_precision, expected, atol=1e-6)
    np.testing.assert_array_equal(found.positives[known["rows"]], known["positives"])
    rows = [found.names.index(name) for name in known["perturbation"]]
    np.testing.assert_allclose(found.mean_average_precision[rows], known["mean_average_precision"], atol=1e-6)
    np.testing.assert_allclose(found.normalized[rows], known["normalized"], atol=1e-6)
    # Both p are shares of 20,000 random orders: five standard errors of their difference, at most 0.025.
    p = np.array(known["p"])
    assert np.all(np.abs(found.p[rows] - p) <= 5 * np.sqrt(2 * p * (1 - p) / 20_000) + 2e-4)
    np.testing.assert_allclose(q_values(p), known["q"], atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_a_perturbation_on_one_plate_has_no_map(case):
    X, design = screen()
    found = replicate_map(X, design, permutations=10, rng=rng(), **CASES[case])
    place = found.names.index("g19")
    assert np.isnan([found.mean_average_precision[place], found.p[place], found.q[place]]).all()
    assert found.profiles[place] == 0
    bare = of_plates(np.eye(4)[[0, 0, 1, 2]] + 0.1, small("aaac", "pqrp"), negatives_share=["plate"])
    assert np.isfinite(bare).tolist() == [True, False, False, False]  # the only control is on plate p
    assert np.isfinite(np.delete(found.p, place)).all()
    assert found.mean == pytest.approx(np.nanmean(found.mean_average_precision))


def test_expected_precision_is_the_mean_over_all_orders():
    for positives, total in ((1, 4), (2, 5), (4, 6), (3, 3)):
        orders = [average_precision_of(tuple(np.isin(range(total), c))) for c in combinations(range(total), positives)]
        found = expected_average_precision(np.array([positives]), np.array([total]))
        assert found[0] == pytest.approx(np.mean(orders), abs=1e-12)


@pytest.mark.parametrize(("positives", "total"), [(3, 40), (6, 12)])
def test_random_orders_have_the_expected_precision(positives, total):
    """Few positives are placed by redrawing, many by sorting; 40,000 orders, standard error below 0.0015."""
    found = _random_precision(positives, total, 40_000, rng(4))
    assert found.mean() == pytest.approx(expected_average_precision(np.array(positives), np.array(total)), abs=0.006)
    assert len(np.unique(found.round(9))) > 100


def test_a_space_collapsed_to_one_point_has_the_precision_of_chance_not_1():
    design = small("aaacccc", "pqrpqrp")
    found = replicate_map(np.ones((7, 3)), design, positives_differ_by=["plate"], permutations=0)
    np.testing.assert_allclose(found.average_precision[:3], expected_average_precision(np.array(2), np.array(6)))
    assert found.mean < 0.7


def test_ties_count_as_the_mean_over_their_orders():
    # From row 0: a replicate and two controls at the same cosine, then a control, then a replicate.
    X = np.array([[1, 0], [1, 0], [0, 1], [1, 0], [2, 0], [1, 1.0]])
    found = of_plates(X, small("aaaccc", "pqrpqr"))[0]
    orders = {(*tied, False, True) for tied in permutations((True, False, False))}
    assert found == pytest.approx(np.mean([average_precision_of(order) for order in orders]), abs=1e-12)
    assert found < average_precision_of((True, False, False, False, True))


@pytest.mark.parametrize("case", CASES)
def test_map_does_not_depend_on_blocks_or_on_the_order_of_rows(case, monkeypatch):
    X, design = screen()
    whole = replicate_map(X, design, permutations=50, rng=rng(), **CASES[case])
    monkeypatch.setattr(matrices, "BLOCK_VALUES", 700)
    order = rng(6).permutation(design.n)
    parts = replicate_map(X[order], design.take(order), permutations=50, rng=rng(), **CASES[case])
    np.testing.assert_allclose(parts.average_precision, whole.average_precision[order], atol=1e-12)
    np.testing.assert_array_equal(parts.p, whole.p)
    kept = np.flatnonzero(~np.isin(design.perturbation.text(), ["g00", "g07", "g18"]))
    some = replicate_map(X[kept], design.take(kept), permutations=50, rng=rng(), **CASES[case])
    same = [whole.names.index(name) for name in some.names]  # nor on the others that are scored
    assert case == "non_replicates" or np.array_equal(some.p, whole.p[same], equal_nan=True)
    assert not np.allclose(parts.average_precision, whole.average_precision, equal_nan=True)


def test_replicates_of_a_target_are_other_perturbations_of_it():
    X = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1.0]])
    guides = np.array(["a1", "a2", "b1", "b2"])
    none = np.zeros(4, dtype=bool)
    design = Design(Labels.of(np.zeros(4)), Labels.of(guides), none, target=Labels.of(np.array(["a", "a", "b", "b"])))
    options = {"against": "non-replicates", "of": "target", "positives_differ_by": ["perturbation"], "permutations": 0}
    assert replicate_map(X, design, **options).mean == 1.0
    crossed = Design(Labels.of(np.zeros(4)), Labels.of(guides), none, target=Labels.of(np.array(["a", "b", "a", "b"])))
    assert replicate_map(X, crossed, **options).mean < 0.6
    unknown = Design(Labels.of(np.zeros(4)), Labels.of(guides), none, target=Labels.of(np.array(["a", "a", "", ""])))
    assert replicate_map(X, unknown, **options).names == ("a",)


def test_replicate_map_says_what_is_wrong():
    X, design = screen()
    bare = small("aac", "pqp")
    with pytest.raises(UsageError, match="the well "):
        replicate_map(X[:3], bare, permutations=0)
    with pytest.raises(UsageError, match="'shelf'"):
        replicate_map(X, design, positives_differ_by=["shelf"], permutations=0)
    with pytest.raises(UsageError, match="'non-replicates', got 'others'"):
        replicate_map(X, design, against="others", permutations=0)
    with pytest.raises(UsageError, match="pass rng"):
        replicate_map(X, design)
    with pytest.raises(DataError, match=naming("10 rows", "300 labels")):
        replicate_map(X[:10], design, permutations=0)
    holed = X.copy()
    holed[7, 2] = np.nan
    with pytest.raises(DataError, match="row 7"):
        replicate_map(holed, design, permutations=0)


# -- plates left out

PLATES = 6


def leaving_screen(seed):
    rng = np.random.default_rng(seed)
    names = np.tile(["control"] * 4 + ["a", "a", "b", "b", "c"], PLATES)
    design = Design(Labels.of(np.repeat(np.arange(PLATES), 9)), Labels.of(names), names == "control")
    return rng.standard_normal((design.n, 3)), design


def found(X, design, against, **options):
    return replicate_map(X, design, against=against, positives_differ_by=("plate",), permutations=0, **options)


SPACES = {
    "several axes": lambda X: X,
    "one axis": lambda X: X[:, :1],  # where every cosine is 1 or -1
    "whole numbers": lambda X: np.round(X) + np.array([3.0, 0.0, 0.0]),
    "collapsed": lambda X: np.ones_like(X),
}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("against", ["controls", "non-replicates"])
def test_sums_without_a_plate_are_those_of_a_screen_that_never_had_it(against, space):
    X, design = leaving_screen(0)
    X = SPACES[space](X)
    sums = found(X, design, against, leave_out=design.plate).sums
    whole = found(X, design, against)
    assert whole.sums is None
    asked = np.isfinite(whole.average_precision)
    assert (sums.precision[0], sums.wells[0]) == pytest.approx((whole.average_precision[asked].sum(), asked.sum()))
    for plate in range(PLATES):
        rows = np.flatnonzero(design.plate.codes != plate)
        fewer = found(X[rows], design.take(rows), against, leave_out=design.plate.take(rows))
        known = np.isfinite(fewer.average_precision)
        expected = fewer.average_precision[known].sum(), fewer.sums.chance[0], known.sum()
        got = sums.precision[1 + plate], sums.chance[1 + plate], sums.wells[1 + plate]
        assert got == pytest.approx(expected, abs=1e-12)
        if space != "collapsed":
            assert got[0] != pytest.approx(sums.precision[0] * (PLATES - 1) / PLATES, abs=1e-6)


def test_a_list_without_its_only_replicate_or_its_only_negative_is_not_counted():
    precision, left, others = precision_without_each(
        np.array([0.9, 0.1]), np.array([0, 1]), np.array([0.5, 0.2]), np.array([2, 2]), 4
    )
    assert precision == pytest.approx([1 / 3, 1, np.nan, (1 + 2 / 4) / 2], nan_ok=True)
    assert (left.tolist(), others.tolist()) == ([1, 1, 2, 2], [2, 2, 0, 2])
    alone, _, _ = precision_without_each(np.array([0.9]), np.array([1]), np.array([0.9]), np.array([0]), 3)
    assert alone == pytest.approx([np.nan, np.nan, 0.75], nan_ok=True)  # before or behind what is level, as often


def test_halves_side_by_side_stay_whole_where_the_other_loses_a_plate():
    first = WellSums(np.array([6.0, 4.0, 2.0]), np.array([3.0, 2.0, 1.0]), np.array([6.0, 3.0, 3.0]))
    second = WellSums(np.array([8.0, 5.0]), np.array([4.0, 1.0]), np.array([8.0, 4.0]))
    both = first.beside(second)
    assert both.precision.tolist() == [14, 12, 10, 11]
    assert both.wells.tolist() == [14, 11, 11, 10]
    assert both.mean_chance == pytest.approx(7 / 14)


def test_plates_that_do_not_ask_or_that_silence_the_others_lend_no_certainty():
    silent = WellSums.none(3)
    two = WellSums(np.array([3.0, 0, 0]), np.zeros(3), np.array([4.0, 0, 0]))  # each has replicates on the other only
    mean, ends = two.beside(silent).mean_precision()
    assert mean == 0.75
    assert np.isnan(ends).all()
    assert np.isnan(two.beside(two).mean_precision()[1]).all()
    many = WellSums(np.r_[10.0, np.arange(5, 10.0)], np.zeros(6), np.r_[12.0, np.full(5, 9.0)])
    assert two.beside(many).groups == 6
    assert np.isfinite(two.beside(many).mean_precision()[1]).all()
    assert np.isnan(jackknifed_mean(np.array([3.0, 2, 2, 0]), np.array([4.0, 3, 3, 0]))[1]).all()
