"""Intervals: draws of plates, plates left out in turn, and false discovery."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from identifiable.deconfounding.design import Labels
from identifiable.deconfounding.evaluation.trials import GroupDraws, auroc, score_draws
from identifiable.deconfounding.intervals import (
    interval,
    jackknifed_mean,
    least_of_many,
    null_spread,
    plate_groups,
    q_values,
)
from identifiable.deconfounding.metrics.replicates import WellSums


def test_an_interval_needs_draws() -> None:
    draws = np.concatenate([[0.6], np.random.default_rng(0).normal(0.6, 0.02, 2000)])
    low, high = interval(
        draws, 1000
    )  # twice the variance: plates meet in training and in test, and again the other way
    assert low == pytest.approx(0.6 - 1.96 * 0.02 * 2**0.5, abs=0.005)
    assert high == pytest.approx(0.6 + 1.96 * 0.02 * 2**0.5, abs=0.005)
    few = interval(draws, 4)
    assert few[0] < low < high < few[1]  # four plates say less than their draws seem to
    assert all(math.isnan(end) for end in interval(draws[:1], 100))


def test_an_interval_never_leaves_its_value_out_however_far_off_its_draws_are() -> None:
    """Scores that are equal all over a plate: own pairs are ties, draws count them four times, so draws are too low."""
    plates, rng = 8, np.random.default_rng(1)
    ones = rng.integers(1, 8, plates)
    plate = np.repeat(np.arange(plates), 10)
    positive = np.concatenate([np.arange(10) < k for k in ones])
    labels = Labels.of(plate)
    draws = GroupDraws.of(labels, 400, 0)
    found = score_draws(ones[plate].astype(float), positive, np.arange(len(plate)), labels, draws).pooled
    assert found[1:].mean() < found[0] - 0.01
    low, high = interval(found, plates)
    assert low < found[0] < high
    assert interval(np.r_[found[0], found[1:] - 0.1], plates) == pytest.approx(
        (low, high)
    )  # how far off does not matter
    skewed = np.r_[0.9, np.full(990, 0.2), np.full(10, 1.0)]  # 97.5 % of the draws are below their own mean
    assert interval(skewed, 1000)[1] == 0.9


def test_lower_ends_of_many_hold_at_once_and_few_perfect_ranks_are_no_evidence() -> None:
    rng = np.random.default_rng(0)
    draws = 0.5 + 0.05 * rng.standard_normal((40, 500))
    many = least_of_many(draws, np.full(40, 0.01), 1000)
    alone = np.array([interval(line, 1000)[0] for line in draws])
    assert (many < alone).all()
    assert not (many > 0.5).any()
    perfect = np.ones((2, 200))
    few, enough = least_of_many(perfect, np.array([null_spread(2, 10), null_spread(20, 200)]), 20)
    assert few < 0.5 < enough
    assert np.isnan(least_of_many(perfect[:, :1], np.ones(2), 20)).all()


@pytest.mark.parametrize(("ones", "zeros"), [(3, 4), (6, 5)])
def test_the_spread_of_chance_is_that_of_all_orders(ones: int, zeros: int) -> None:
    places = combinations(range(ones + zeros), ones)
    areas = [auroc(np.arange(ones + zeros), np.isin(np.arange(ones + zeros), chosen)) for chosen in places]
    assert null_spread(ones, zeros) == pytest.approx(np.std(areas))


def test_an_interval_is_centred_widened_for_few_plates_and_absent_without_an_estimate():
    drawn = np.r_[0.7, 0.5 + np.linspace(-0.05, 0.05, 101)]
    low, high = interval(drawn, 1000, crossed=False, bounded=True)
    assert (low + high) / 2 == pytest.approx(0.7)
    assert high - low == pytest.approx(0.095, rel=0.01)
    few = interval(drawn, 4, crossed=False, bounded=True)
    assert few[1] - few[0] > 1.8 * (high - low)
    assert np.isnan(interval(np.r_[np.nan, drawn], 10, crossed=True, bounded=True)).all()


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


def test_q_values_leave_out_what_has_no_p():
    np.testing.assert_allclose(q_values(np.array([0.01, np.nan, 0.5])), [0.02, np.nan, 0.5])
    assert np.isnan(q_values(np.array([np.nan]))).all()
