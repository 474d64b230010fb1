"""Held-out scores, sparsity and classifiers against independent formulas and scikit-learn."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from identifiable.deconfounding.design import Labels
from identifiable.deconfounding.evaluation.trials import (
    GroupDraws,
    auroc,
    concentration,
    hoyer,
    hoyer_null,
    score_draws,
    split_features,
)


def scored(seed: int, n: int = 400, plates: int = 12, decimals: int = 1):  # type: ignore[no-untyped-def]
    """Scores with ties, two classes, plates."""
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.2
    scores = np.round(rng.standard_normal(n) + positive, decimals)
    return scores, positive, Labels.of(rng.integers(0, plates, n).astype(str))


def own_controls_exceeded(scores, positive, plate) -> float:  # type: ignore[no-untyped-def]
    """The mean over positives of the share of their own plate's negatives they exceed, ties counted half."""
    shares = []
    for i in np.flatnonzero(positive):
        own = scores[~positive & (plate == plate[i])]
        if len(own):
            shares.append(np.mean((scores[i] > own) + 0.5 * (scores[i] == own)))
    return float(np.mean(shares))


def within_plate(scores, positive, plate: Labels) -> float:  # type: ignore[no-untyped-def]
    return float(score_draws(scores, positive, np.arange(len(scores)), plate, GroupDraws.of(plate, 0, 0)).within[0])


# -- AUROC


@pytest.mark.parametrize("seed", range(4))
def test_auroc_equals_scikit_learn_with_ties(seed: int) -> None:
    scores, positive, _ = scored(seed)
    assert auroc(scores, positive) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
    assert auroc(-scores, positive) != pytest.approx(roc_auc_score(positive, scores), abs=0.1)
    assert math.isnan(auroc(scores[positive], positive[positive]))


@pytest.mark.parametrize("seed", range(3))
def test_within_plate_is_the_mean_share_of_own_controls_exceeded(seed: int) -> None:
    scores, positive, plate = scored(seed)
    expected = own_controls_exceeded(scores, positive, plate.codes)
    assert within_plate(scores, positive, plate) == pytest.approx(expected, abs=1e-12)
    shifted = scores + 5.0 * plate.codes  # plate effects move the pooled score and not this one
    assert within_plate(shifted, positive, plate) == pytest.approx(expected, abs=1e-12)
    assert abs(auroc(shifted, positive) - auroc(scores, positive)) > 0.05


@pytest.mark.parametrize("seed", range(3))
def test_draws_of_plates_equal_weighted_scores_of_their_rows(seed: int) -> None:
    scores, positive, plate = scored(seed)
    draws = GroupDraws.of(plate, 20, seed)
    rows = np.arange(len(scores))
    found = score_draws(scores, positive, rows, plate, draws)
    assert found.pooled[0] == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
    for k in (1, 7, 20):
        weights = draws.weights[k][plate.codes]
        expected = roc_auc_score(positive, scores, sample_weight=weights)
        assert found.pooled[k] == pytest.approx(expected, abs=1e-12)
        repeated = np.repeat(rows, weights.astype(int))
        again = own_controls_exceeded(scores[repeated], positive[repeated], plate.codes[repeated])
        assert found.within[k] == pytest.approx(again, abs=1e-12)
    assert np.ptp(found.pooled[1:]) > 0.01


def test_a_draw_without_positives_has_no_score_and_batches_move_whole() -> None:
    plate = Labels.of(np.array(["a", "a", "b", "b", "c", "c"]))
    batch = Labels.of(np.array(["x", "x", "x", "x", "y", "y"]))
    positive = np.array([True, False, False, False, True, False])
    draws = GroupDraws(batch, np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 2.0]]))
    found = score_draws(np.array([1.0, 0, 2, 3, 4, 5]), positive, np.arange(6), plate, draws)
    assert found.pooled.tolist() == [pytest.approx(4 / 8), pytest.approx(1 / 3), 0.0]
    assert found.within.tolist() == [0.5, 1.0, 0.0]
    none = score_draws(np.array([2.0, 3]), np.array([False, False]), np.array([2, 3]), plate, draws)
    assert np.isnan(none.pooled).all()


# -- sparsity


@pytest.mark.parametrize("seed", range(5))
def test_hoyer_equals_the_ratio_of_norms_of_hoyer_2004(seed: int) -> None:
    """(sqrt(n) - sum|x| / sqrt(sum x^2)) / (sqrt(n) - 1), in exact fractions up to the roots."""
    counts = np.random.default_rng(seed).poisson(3.0, size=384)
    first, second = (sum(Fraction(int(c)) ** k for c in counts) for k in (1, 2))
    root = math.sqrt(len(counts))
    expected = (root - math.sqrt(first**2 / second)) / (root - 1)
    assert hoyer(counts) == pytest.approx(expected, abs=1e-6)
    assert abs(hoyer(counts**2) - expected) > 1e-3


def test_hoyer_is_one_for_one_feature_zero_for_all_alike_and_unknown_without_splits() -> None:
    assert hoyer(np.array([0, 5, 0])) == pytest.approx(1.0)
    assert hoyer(np.full(7, 2)) == pytest.approx(0.0, abs=1e-12)
    assert math.isnan(hoyer(np.zeros(5)))
    assert math.isnan(hoyer_null(0, 384))


@pytest.mark.parametrize(
    ("splits", "expected"), [(1000, 0.158), (800, 0.187), (600, 0.231), (500, 0.261), (3000, 0.061)]
)
def test_random_splits_look_as_sparse_as_the_specification_says(splits: int, expected: float) -> None:
    assert hoyer_null(splits, 384) == pytest.approx(expected, abs=0.003)
    assert hoyer_null(splits, 48) < expected / 2  # fewer features, less chance sparsity


def test_top_features_are_those_with_most_splits_and_ties_are_not_settled_by_place() -> None:
    counts = np.array([0, 9, 0, 0, 7, 0, 0, 0])
    top, rest = split_features(counts, 25.0, seed=0)
    assert top.tolist() == [1, 4]
    assert sorted([*top, *rest]) == list(range(8))
    firsts = {tuple(split_features(np.zeros(8), 25.0, seed=s)[0].tolist()) for s in range(10)}
    assert len(firsts) > 3


def test_concentration_gives_the_candidate_forms() -> None:
    found = concentration(25.0, 12, top=0.8, rest=0.6, whole=0.82)
    assert (found.difference, found.ratio, found.above_chance) == pytest.approx((0.2, 1 / 3, 2.0))
