"""Classifiers: what rotations change, the paper's trees, and settings as text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression

from errors import naming
from identifiable._checks import UsageError
from identifiable.deconfounding.evaluation.classifiers import (
    PENALTIES,
    TABLE_6,
    LightGBM,
    Logistic,
    Nearest,
    Ridge,
    Sparse,
    classifier_of,
    has_settings_text,
    settings_text,
    trainer,
)
from identifiable.deconfounding.evaluation.trials import auroc, hoyer
from identifiable.groups import haar_rotation

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


def test_leaves_that_adapt_split_few_rows_and_are_those_of_table_6_from_sixty_on() -> None:
    X, positive, _ = two_classes(4, n=60)
    X[positive] += 2
    few = LightGBM(adapts=True).fit(X, positive, 0)
    assert few.split_counts is not None
    assert few.split_counts.sum() > 0
    assert auroc(few.scores(X), positive) > 0.9
    X, positive, _ = two_classes(4, n=400)
    assert positive.sum() >= 60
    paper, ours = (LightGBM(rounds=10, adapts=adapts).fit(X, positive, 0).scores(X) for adapts in (False, True))
    assert np.array_equal(paper, ours)


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_ridge_of_fewer_rows_than_columns_equals_least_squares_with_the_same_penalty(offset: float) -> None:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((30, 50)) + offset
    positive = rng.random(30) < 0.4
    weights = vars(Ridge().fit(X, positive, 0))["weights"]
    centred, response = X - X.mean(axis=0), positive - positive.mean()
    S, m = centred.T @ centred / 30, centred.T @ response / 30
    penalties = PENALTIES * np.trace(S) / 50
    direct = [
        np.linalg.solve(S + penalty * np.eye(50), m) for penalty in penalties[8:]
    ]  # others are singular by machine
    assert min(np.abs(weights - each).max() for each in direct) < 1e-8 * np.abs(weights).max()


def test_targets_share_the_moments_of_the_rows_they_are_told_from() -> None:
    X, positive, _ = two_classes(9, n=300)
    rows = np.arange(300)
    prepared = trainer(Ridge(), X, rows)
    for labels in (positive, positive & (rows % 2 == 0), positive):  # the second has other negatives
        alone = Ridge().fit(X, labels, 0).scores(X)
        assert np.allclose(prepared.fit(rows, labels, 0).scores(X), alone, atol=1e-6)


def test_neighbours_find_a_cluster_whatever_the_units_and_nothing_in_noise() -> None:
    rng = np.random.default_rng(10)
    X, positive = rng.standard_normal((400, 5)), np.arange(400) % 4 == 0
    noise = auroc(Nearest().fit(X[:200], positive[:200], 0).scores(X[200:]), positive[200:])
    assert abs(noise - 0.5) < 0.12
    X[positive, 0] += 4
    for units in (np.ones(5), np.array([1e-3, 1e3, 1, 1, 1])):
        found = Nearest().fit(X[:200] * units, positive[:200], 0)
        assert auroc(found.scores(X[200:] * units), positive[200:]) > 0.95
    assert len(vars(Nearest(most=20).fit(X, positive, 0))["zeros"]) == 20


def test_classifiers_of_scikit_learn_are_taken_and_other_things_refused() -> None:
    X, positive, _ = two_classes(5, n=300)
    forest = classifier_of(RandomForestClassifier(n_estimators=5))
    assert forest.name == "RandomForestClassifier"
    same = [forest.fit(X, positive, 3).scores(X) for _ in range(2)]
    assert np.array_equal(*same)
    assert forest.fit(X, positive, 3).split_counts is None
    with pytest.raises(UsageError, match=naming("'forest': ", "lightgbm", "l1")):
        classifier_of("forest")
    with pytest.raises(UsageError, match="decision_function"):
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
