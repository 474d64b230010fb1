"""The rule that chooses a correction: no metric is bought with another, ties go to the least readable, small gains are none."""

from __future__ import annotations

import numpy as np
import pytest

from identifiable.deconfounding.recommendation.choosing import Sums, choose

GROUPS = 8
NOISE = 0.001 * np.array([1, -1, 1, -1, 1, -1, 1, -1.0])


def sums(*means: float, noise: float = 1.0) -> Sums:
    """Candidates of these means, in groups of 10 queries each, which differ a little from group to group."""
    rows = [10 * (mean + (i + 1) * noise * NOISE) for i, mean in enumerate(means)]
    return Sums(np.array(rows), np.full(GROUPS, 10.0))


def inputs(size: int) -> np.ndarray:
    return np.arange(size) < 2


def test_a_metric_is_not_bought_with_another():
    found = choose(
        {"nn_cosine": sums(0.5, 0.5, 0.9, 0.6), "replicate_map": sums(0.5, 0.5, 0.3, 0.6)}, inputs(4), margin=0.03
    )
    assert found.chosen == 3
    assert found.harmless.tolist() == [True, True, False, True]
    assert found.worth == pytest.approx([0, 0, -0.2, 0.1], abs=0.01)


def test_the_input_is_the_better_of_both_in_each_metric():
    found = choose({"nn_cosine": sums(0.5, 0.7, 0.65), "replicate_map": sums(0.8, 0.6, 0.75)}, inputs(3), margin=0.03)
    assert not found.harmless[2]
    assert found.chosen < 2


def test_of_ties_the_one_with_the_least_readable_batch_is_chosen():
    tied = {"nn_cosine": sums(0.5, 0.5, 0.60, 0.6005, noise=5)}
    assert choose({**tied, "batch_readable": sums(0.8, 0.8, 0.3, 0.6)}, inputs(4), margin=0.03).chosen == 2
    assert choose({**tied, "batch_readable": sums(0.8, 0.8, 0.6, 0.3)}, inputs(4), margin=0.03).chosen == 3
    apart = {"nn_cosine": sums(0.5, 0.5, 0.60, 0.70), "batch_readable": sums(0.8, 0.8, 0.3, 0.6)}
    assert choose(apart, inputs(4), margin=0.03).chosen == 3


def test_a_gain_below_the_margin_is_none():
    little = choose({"nn_cosine": sums(0.5, 0.5, 0.52)}, inputs(3), margin=0.03)
    assert little.chosen < 2
    assert little.contender == 2
    assert choose({"nn_cosine": sums(0.5, 0.5, 0.3)}, inputs(3), margin=0.03).contender is None
    assert choose({"nn_cosine": sums(0.5, 0.5, 0.54)}, inputs(3), margin=0.03).chosen == 2
    quieter = {"nn_cosine": sums(0.5, 0.5, 0.5), "batch_readable": sums(0.8, 0.8, 0.3)}
    assert choose(quieter, inputs(3), margin=0.03).chosen == 2


def test_where_intervals_are_wide_the_value_itself_must_not_be_below():
    narrow, wide = sums(0.5, 0.5, 0.48), sums(0.5, 0.5, 0.48, noise=40)
    assert choose({"nn_cosine": narrow}, inputs(3), margin=0.03).harmless[2]
    assert not choose({"nn_cosine": wide}, inputs(3), margin=0.03).harmless[2]


def test_two_groups_have_no_standard_error():
    few = Sums(np.array([[5.0, 5.0], [5.0, 5.0], [6.0, 7.0]]), np.array([10.0, 10.0]))
    difference, error = few.less(0)
    assert difference.tolist() == pytest.approx([0, 0, 0.15])
    assert np.isnan(error).all()


def test_without_a_biological_metric_the_input_is_kept():
    assert choose({"batch_readable": sums(0.8, 0.8, 0.1)}, inputs(3), margin=0.03).chosen == 0
