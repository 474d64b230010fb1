"""Held-out scores, sparsity and classifiers against independent formulas and scikit-learn."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from identifiable._checks import UsageError
from identifiable.deconfounding.design import Labels
from identifiable.deconfounding.evaluation.classifiers import (
    TABLE_6,
    LightGBM,
    Logistic,
    Ridge,
    Sparse,
    classifier_of,
    has_settings_text,
    settings_text,
    trainer,
)
from identifiable.deconfounding.evaluation.held_out import (
    GroupDraws,
    auroc,
    interval,
    least_of_many,
    null_spread,
    score_draws,
    within_plate,
)
from identifiable.deconfounding.evaluation.sparsity import concentration, hoyer, hoyer_null, split_features
from identifiable.groups import haar_rotation


def scored(seed: int, n: int = 400, plates: int = 12, decimals: int = 1):  # type: ignore[no-untyped-def]
    """Scores with ties, two classes, plates."""
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.2
    scores = np.round(rng.standard_normal(n) + positive, decimals)
    return scores, positive, Labels.of(rng.integers(0, plates, n).astype(str))


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
    shares = []
    for i in np.flatnonzero(positive):
        own = scores[~positive & (plate.codes == plate.codes[i])]
        shares.append(np.mean((scores[i] > own) + 0.5 * (scores[i] == own)))
    assert within_plate(scores, positive, plate.codes) == pytest.approx(float(np.mean(shares)), abs=1e-12)
    shifted = scores + 5.0 * plate.codes  # plate effects move the pooled score and not this one
    assert within_plate(shifted, positive, plate.codes) == pytest.approx(float(np.mean(shares)), abs=1e-12)
    assert abs(auroc(shifted, positive) - auroc(scores, positive)) > 0.05


@pytest.mark.parametrize("seed", range(3))
def test_draws_of_plates_equal_weighted_scores_of_their_rows(seed: int) -> None:
    scores, positive, plate = scored(seed)
    draws = GroupDraws.of(plate, 20, seed)
    rows = np.arange(len(scores))
    found = score_draws(scores, positive, rows, plate, draws)
    assert found.pooled[0] == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
    assert found.within[0] == pytest.approx(within_plate(scores, positive, plate.codes), abs=1e-12)
    for k in (1, 7, 20):
        weights = draws.weights[k][plate.codes]
        expected = roc_auc_score(positive, scores, sample_weight=weights)
        assert found.pooled[k] == pytest.approx(expected, abs=1e-12)
        repeated = np.repeat(rows, weights.astype(int))
        again = within_plate(scores[repeated], positive[repeated], plate.codes[repeated])
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


# -- classifiers


def two_classes(seed: int, n: int = 1500, d: int = 12):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.3
    X = rng.laplace(size=(n, d))
    X[positive, :2] += 0.8
    return X.astype(np.float32), positive, haar_rotation(d, rng).astype(np.float32)


@pytest.mark.parametrize("make", [Ridge, Logistic])
def test_linear_probes_do_not_see_rotations(make: type) -> None:
    X, positive, turn = two_classes(0)
    train, test = slice(0, 1000), slice(1000, None)
    plain = auroc(make().fit(X[train], positive[train], 0).scores(X[test]), positive[test])
    turned = auroc(make().fit((X @ turn)[train], positive[train], 0).scores((X @ turn)[test]), positive[test])
    assert plain == pytest.approx(turned, abs=1e-3)
    assert plain > 0.7


@pytest.mark.parametrize("make", [lambda: LightGBM(rounds=30), Sparse])
def test_trees_and_sparse_probes_do_see_rotations(make) -> None:  # type: ignore[no-untyped-def]
    X, positive, turn = two_classes(0)
    plain = make().fit(X[:1000], positive[:1000], 0).scores(X[1000:])
    turned = make().fit((X @ turn)[:1000], positive[:1000], 0).scores((X @ turn)[1000:])
    assert abs(auroc(plain, positive[1000:]) - auroc(turned, positive[1000:])) > 2e-3


def test_ridge_finds_the_direction_of_a_linear_discriminant() -> None:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    X, positive, _ = two_classes(1, n=20_000, d=6)
    mixed = X @ np.random.default_rng(3).standard_normal((6, 6)).astype(np.float32)
    ours = Ridge().fit(mixed, positive, 0).scores(mixed)
    theirs = LinearDiscriminantAnalysis().fit(mixed, positive).decision_function(mixed)
    assert np.corrcoef(ours, theirs)[0, 1] > 0.999
    assert Ridge().fit(np.ones((10, 3)), np.arange(10) < 5, 0).scores(np.ones((2, 3))).tolist() == [0.0, 0.0]


def test_trees_have_the_settings_of_table_6_and_depend_on_the_seed_alone() -> None:
    assert dict(TABLE_6) == {
        "is_unbalance": True,
        "learning_rate": 0.05,
        "num_leaves": 31,
        "feature_fraction": 0.6,
        "reg_alpha": 5.0,
        "reg_lambda": 1.0,
        "min_gain_to_split": 0.8,
        "min_data_in_leaf": 30,
    }
    assert LightGBM().rounds == 100
    X, positive, _ = two_classes(2)
    one, again, other = (LightGBM(rounds=10).fit(X, positive, seed).scores(X) for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_binning_all_rows_once_gives_the_trees_of_one_fit_on_the_same_rows() -> None:
    import lightgbm

    X, positive, _ = two_classes(3)
    classifier = LightGBM(rounds=10)
    rows = np.arange(0, 1500, 3)
    prepared = trainer(classifier, X, rows)
    half = rows[::2]
    ours = prepared.fit(rows, positive[rows], 4)
    settings = {**classifier._parameters(4)}
    data = lightgbm.Dataset(X[rows], positive[rows].astype(np.float32), params=settings)
    theirs = lightgbm.train(settings, data, num_boost_round=10)
    assert np.array_equal(ours.scores(X), theirs.predict(X, raw_score=True))
    assert np.array_equal(ours.split_counts, theirs.feature_importance("split"))
    assert not np.array_equal(prepared.fit(half, positive[half], 4).scores(X), ours.scores(X))


def test_too_few_rows_for_a_split_score_a_half() -> None:
    X, positive, _ = two_classes(4, n=40)
    fitted = LightGBM().fit(X, positive, 0)
    assert fitted.split_counts is not None
    assert fitted.split_counts.sum() == 0
    assert auroc(fitted.scores(X), positive) == 0.5
    assert math.isnan(hoyer(fitted.split_counts))


def test_classifiers_of_scikit_learn_are_taken_and_other_things_refused() -> None:
    X, positive, _ = two_classes(5, n=300)
    forest = classifier_of(RandomForestClassifier(n_estimators=5))
    assert forest.name == "RandomForestClassifier"
    same = [forest.fit(X, positive, 3).scores(X) for _ in range(2)]
    assert np.array_equal(*same)
    assert forest.fit(X, positive, 3).split_counts is None
    with pytest.raises(UsageError, match="classifier 'forest': expected lightgbm, ridge, logistic, l1"):
        classifier_of("forest")
    with pytest.raises(UsageError, match="with fit and decision_function or predict_proba"):
        classifier_of(object())


def forests(last: float) -> VotingClassifier:
    """So long that scikit-learn cuts its text."""
    probes = [(f"a_probe_with_a_long_name_{k}", LogisticRegression(C=0.1 + k)) for k in range(24)]
    probes[12] = (probes[12][0], LogisticRegression(C=last))
    return VotingClassifier(probes, voting="soft")


class Bare:
    """A classifier that does not show its settings."""

    name = "bare"

    def fit(self, X, positive, seed):  # type: ignore[no-untyped-def]
        return classifier_of("ridge").fit(X, positive, seed)


def test_settings_are_written_in_full_and_addresses_never() -> None:
    one, other = (classifier_of(forests(last)) for last in (0.5, 7.0))
    assert repr(one) == repr(other)
    assert settings_text(one) != settings_text(other)
    assert settings_text(one) == settings_text(classifier_of(forests(0.5)))
    assert has_settings_text(one)
    assert settings_text(classifier_of(Bare())).endswith("Bare")
    assert not has_settings_text(classifier_of(Bare()))
    assert not has_settings_text(classifier_of(RandomForestClassifier(random_state=np.random.RandomState(0))))
    assert settings_text(LightGBM(rounds=7)) != settings_text(LightGBM(rounds=8))


def test_a_logistic_probe_that_was_stopped_says_so() -> None:
    X, positive, _ = two_classes(6)
    assert Logistic().fit(X, positive, 0).converged
    assert not Logistic(most_steps=1).fit(X, positive, 0).converged
