"""Means over wells whose replicates lie on other plates: sums with plates left out, and what intervals from them cover."""

from __future__ import annotations

import numpy as np
import pytest

from identifiable.deconfounding.design import Design, Labels
from identifiable.deconfounding.metrics.left_out import WellSums, jackknifed_mean, plate_groups, precision_without_each
from identifiable.deconfounding.metrics.replicates import replicate_map

PLATES = 6


def screen(seed):
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
    X, design = screen(0)
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
    two = WellSums(
        np.array([3.0, 0.0, 0.0]), np.zeros(3), np.array([4.0, 0.0, 0.0])
    )  # each has replicates on the other only
    mean, ends = two.beside(silent).mean_precision()
    assert mean == 0.75
    assert np.isnan(ends).all()
    assert np.isnan(two.beside(two).mean_precision()[1]).all()
    many = WellSums(np.r_[10.0, np.arange(5, 10.0)], np.zeros(6), np.r_[12.0, np.full(5, 9.0)])
    assert two.beside(many).groups == 6
    assert np.isfinite(two.beside(many).mean_precision()[1]).all()
    assert np.isnan(jackknifed_mean(np.array([3.0, 2, 2, 0]), np.array([4.0, 3, 3, 0]))[1]).all()


def test_of_a_mean_of_plates_the_interval_is_the_textbooks():
    """Plates that ask only: the jackknife is then Student's interval of the mean of their values."""
    values = np.random.default_rng(1).standard_normal(9)
    sums, wells = np.r_[values.sum(), values.sum() - values], np.r_[9.0, np.full(9, 8.0)]
    mean, (low, high) = jackknifed_mean(sums, wells)
    reach = 2.306004 * values.std(ddof=1) / 3  # the 97.5 % point of t with 8 degrees of freedom
    assert (mean, mean - low, high - mean) == pytest.approx((values.mean(), reach, reach), rel=1e-6)


def without_each(values):
    """Sums of a table of pairs of plates, whole and with each plate left out."""
    n = len(values)
    keep = ~np.eye(n, dtype=bool)
    sums = [values.sum()] + [values[np.ix_(keep[p], keep[p])].sum() for p in range(n)]
    return np.array(sums), np.r_[n * (n - 1.0), np.full(n, (n - 1.0) * (n - 2))]


def test_intervals_cover_where_plates_are_poor_at_asking_and_answering_alike_and_draws_of_asking_plates_do_not():
    rng = np.random.default_rng(2)
    plates, covered, by_asking = 20, [], []
    for _ in range(300):
        effect, both = rng.standard_normal(plates), rng.standard_normal((plates, plates))
        values = effect[:, None] + effect + both + both.T
        np.fill_diagonal(values, 0)
        mean, (low, high) = jackknifed_mean(*without_each(values))
        covered.append(low <= 0 <= high)
        error = (values.sum(axis=1) / (plates - 1)).std(ddof=1) / np.sqrt(plates)
        by_asking.append(abs(mean) <= 2.093 * error)
    assert 0.92 <= np.mean(covered) <= 0.99
    assert np.mean(by_asking) < 0.8


def test_two_plates_have_a_mean_and_no_interval_and_nothing_asked_has_neither():
    mean, ends = jackknifed_mean(np.array([3.0, 1.0, 2.0]), np.array([4.0, 2.0, 2.0]))
    assert mean == 0.75
    assert np.isnan(ends).all()
    assert np.isnan(WellSums.none(5).mean_precision()[0])
    assert np.isnan(WellSums.none(5).mean_chance)


def test_many_plates_are_left_out_in_groups_of_as_many_plates():
    plates = Labels.of(np.repeat(np.arange(130), 3))
    groups = plate_groups(plates)
    assert groups.size == 40
    sizes = [len(set(plates.codes[groups.codes == g].tolist())) for g in range(40)]
    assert set(sizes) == {3, 4}
    assert sum(sizes) == 130  # no plate is torn apart
    assert plate_groups(plates.take(plates.codes < 40)).size == 40
    few = plates.take(plates.codes < 9)
    assert plate_groups(few) is few
