"""DCI, SAP and explicitness: against slow optima, in closed form, and what they do and do not change with."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

from errors import naming
from identifiable import DataError, UsageError
from identifiable.disentanglement import predicted
from identifiable.disentanglement.codes import Codes, as_codes
from identifiable.disentanglement.predicted import dci, explicitness, forest_split, lib_split, sap

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "disentanglement_lib_metrics.json").read_text())
PREDICTORS = ("extra_trees", "forest", "gbt", "boosting", "lasso")
every = pytest.mark.parametrize("predictor", PREDICTORS)


def case(name: str) -> Codes:
    kept = REFERENCE["cases"][name]
    kinds = ["continuous" if c else "discrete" for c in kept["continuous"]]
    return as_codes(np.array(kept["latents"]) / 1000, np.array(kept["factors"]), kinds=kinds)


def binary_code(seed: int, rows: int = 300, blur: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, 61])
    factors = rng.integers(0, 2, (rows, 2))
    return factors + blur * rng.standard_normal((rows, 2)), factors


def continuous_code(seed: int, rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, 62])
    factors = rng.uniform(size=(rows, 2))
    return factors + 0.02 * rng.standard_normal((rows, 2)), factors


def turned(latents: np.ndarray) -> np.ndarray:
    return latents @ np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)


# DCI


@pytest.mark.parametrize(
    ("predictor", "model"),
    [
        ("gbt", partial(GradientBoostingClassifier, random_state=0)),
        (
            "forest",
            partial(RandomForestClassifier, n_estimators=100, max_depth=10, criterion="entropy", random_state=0),
        ),
    ],
)
def test_dci_is_the_entropy_of_the_importances_of_the_named_predictor(predictor, model):
    """The split drawn again, the model fitted again, the entropies taken row by row."""
    codes = case("mixed")
    found = dci(codes, predictor=predictor)
    order = np.random.default_rng(0).permutation(codes.n)
    train, test = (order[24:], order[:24]) if predictor == "forest" else (order[:160], order[160:])
    rows, hits = [], []
    for factor in codes.factors:
        fitted = model().fit(codes.latents[train], factor.codes[train])
        rows.append(fitted.feature_importances_)
        hits.append(fitted.score(codes.latents[test], factor.codes[test]))
    R = np.array(rows)
    by_latent = [1 + sum(p * np.log(p + 1e-300) for p in R[:, j] / R[:, j].sum()) / np.log(3) for j in range(5)]
    by_factor = [1 + sum(p * np.log(p + 1e-300) for p in R[i] / R[i].sum()) / np.log(5) for i in range(3)]
    assert found.matrix is not None
    np.testing.assert_allclose(found.matrix.values, R, atol=1e-12)
    assert found.disentanglement == pytest.approx(np.average(by_latent, weights=R.sum(axis=0)), abs=1e-8)
    assert found.completeness == pytest.approx(np.average(by_factor, weights=R.sum(axis=1)), abs=1e-8)
    assert found.informativeness_test == pytest.approx(np.mean(hits))


@pytest.mark.parametrize(
    ("predictor", "code"),
    [(p, binary_code) for p in PREDICTORS] + [(p, continuous_code) for p in ("extra_trees", "lasso")],
)
def test_dci_tells_a_good_code_from_its_rotation_and_both_from_noise(predictor, code):
    latents, factors = code(0)
    good = dci(latents, factors, predictor=predictor)
    mixed = dci(turned(latents), factors, predictor=predictor)
    noise = dci(np.random.default_rng(1).standard_normal(latents.shape), factors, predictor=predictor)
    assert min(good.disentanglement, good.completeness) > (0.75 if predictor == "forest" else 0.9)
    assert min(good.informativeness_train, good.informativeness_test) > 0.9
    assert max(mixed.disentanglement, mixed.completeness) < 0.7
    assert noise.informativeness_test < 0.65
    assert noise.informativeness_test < min(mixed.informativeness_test, good.informativeness_test) - 0.2


@every
def test_a_code_in_one_latent_is_complete_and_not_disentangled(predictor):
    """The same latent tells both factors; the other one is constant."""
    rng = np.random.default_rng(3)
    values = rng.integers(0, 2, 300)
    latents = np.column_stack([values + 0.1 * rng.standard_normal(300), np.ones(300)])
    found = dci(latents, np.column_stack([values, values]), predictor=predictor)
    assert found.completeness == pytest.approx(1, abs=1e-6)
    assert found.disentanglement == pytest.approx(0, abs=1e-6)


def test_a_single_factor_or_latent_leaves_one_score_undefined_and_says_so():
    latents, factors = continuous_code(0)
    one_factor = dci(latents, factors[:, 0], predictor="lasso")
    assert np.isnan(one_factor.disentanglement)
    assert one_factor.completeness > 0.9
    assert [a.code for a in one_factor.alerts] == ["single_factor"]
    one_latent = dci(latents[:, :1], factors, predictor="lasso")
    assert np.isnan(one_latent.completeness)
    assert one_latent.disentanglement > 0.7
    assert [a.code for a in one_latent.alerts] == [
        "single_latent",
        "uninformative",
    ]  # of the second factor it knows nothing
    assert dci(latents, factors, predictor="lasso").alerts == ()


@pytest.mark.parametrize(
    ("predictor", "tolerance"),
    [("lasso", 1e-9), ("extra_trees", 0.01), ("boosting", 0.05)],
)
def test_order_sign_and_scale_of_latents_do_not_matter_to_dci(predictor, tolerance):
    """Only the lasso treats all columns alike to the last digit: trees break ties between columns by chance."""
    latents, factors = continuous_code(0)
    before, after = (dci(z, factors, predictor=predictor) for z in (latents, latents[:, ::-1] * [-4.1, 0.3]))
    for name in before.scores:
        assert after.scores[name] == pytest.approx(before.scores[name], abs=tolerance)


def test_more_threads_change_no_number_and_another_seed_does():
    latents, factors = binary_code(0, 200, blur=0.6)
    for predictor in ("extra_trees",):
        one = dci(latents, factors, predictor=predictor)
        assert dci(latents, factors, predictor=predictor, n_jobs=2) == one
        assert dci(latents, factors, predictor=predictor, seed=1).scores != one.scores


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_a_factor_that_does_not_vary_where_it_is_fitted_is_defined(predictor):
    """Its one other value lies in a row that is only scored."""
    latents, factors = binary_code(0, 90)
    rare = np.zeros(90, dtype=int)
    rare[(forest_split if predictor == "forest" else lib_split)(90, 0).test[0]] = 1
    found = dci(latents, np.column_stack([factors, rare]), predictor=predictor)
    assert found.matrix is not None
    assert found.matrix.values[2] == (0.0, 0.0)
    tested = found.settings["test_rows"]
    assert found.details["test_score_of_factor"][2] == pytest.approx(1 - 1 / tested)
    assert found.details["train_score_of_factor"][2] == 1


def test_the_lasso_refuses_classes_unless_their_order_counts_and_other_wrong_calls(monkeypatch):
    latents, factors = np.random.default_rng(0).standard_normal((60, 2)), np.tile([0, 1, 2], 20)
    with pytest.raises(DataError, match=naming("lasso", "factor 0")):
        dci(latents, factors, predictor="lasso")
    assert dci(latents, factors, predictor="lasso", kinds="continuous").settings["predictor"] == "lasso"
    with pytest.raises(UsageError, match="alpha: "):
        dci(*continuous_code(0), predictor="lasso", alpha=0)
    with pytest.raises(UsageError, match=r"extra_trees.* 'svm'"):
        dci(latents, factors, predictor="svm")
    latents, factors = continuous_code(0)
    strong, weak = (dci(turned(latents), factors, predictor="lasso", alpha=a) for a in (0.5, 0.01))
    assert strong.settings["alpha"] == 0.5
    assert strong.informativeness_test < weak.informativeness_test - 0.2
    monkeypatch.setattr(predicted, "Lasso", partial(predicted.Lasso, max_iter=1))
    stopped = dci(turned(latents), factors, predictor="lasso", alpha=1e-4)
    assert [a.code for a in stopped.alerts] == ["not_converged"]


# Splits


def test_splits_are_those_of_the_originals_and_share_no_row():
    assert lib_split(20_000, 0).settings == {"train_rows": 10_000, "test_rows": 5_000}
    assert lib_split(9, 0).settings == {"train_rows": 6, "test_rows": 3}
    assert lib_split(2, 0).settings == {"train_rows": 1, "test_rows": 1}
    assert forest_split(1000, 0).settings == {"train_rows": 900, "test_rows": 100}
    assert forest_split(2, 0).settings == {"train_rows": 1, "test_rows": 1}
    for split in (lib_split(100, 3), forest_split(100, 3)):
        assert sorted([*split.train, *split.test]) == list(range(100))
    assert not np.array_equal(lib_split(100, 3).train, lib_split(100, 4).train)


# SAP


@pytest.mark.parametrize("name", ["mixed", "continuous"])
def test_sap_scores_of_single_latents_equal_the_slow_optimum(name):
    expected = np.array(REFERENCE["cases"][name]["scores"]["sap_matrix"])
    found = sap(case(name))
    assert found.matrix is not None
    np.testing.assert_allclose(found.matrix.values, expected, atol=1e-9)
    ordered = np.sort(expected, axis=1)
    assert found.sap == pytest.approx((ordered[:, -1] - ordered[:, -2]).mean(), abs=1e-9)


def test_sap_of_a_perfect_code_is_one_for_amounts_and_one_less_a_guess_for_classes():
    latents, factors = continuous_code(1, 3000)
    assert sap(factors, factors).sap > 0.99
    bits = np.tile([[0, 0], [0, 1], [1, 0], [1, 1]], (300, 1))
    assert sap(bits * 1.0, bits).sap == pytest.approx(0.5, abs=0.03)
    assert sap(np.random.default_rng(2).standard_normal(latents.shape), factors).sap < 0.01


@pytest.mark.parametrize("code", [binary_code, continuous_code])
def test_sap_falls_under_rotation_and_is_zero_for_duplicates(code):
    latents, factors = code(2)
    assert sap(latents, factors).sap > 0.4
    assert sap(latents[:, ::-1] * [-1, 1], factors).sap == pytest.approx(sap(latents, factors).sap, abs=1e-9)
    assert sap(turned(latents), factors).sap < 0.15
    assert sap(latents[:, [0, 0, 1, 1]], factors).sap == pytest.approx(0, abs=1e-12)


def test_scale_matters_to_the_penalised_classifier_of_sap_and_not_to_its_correlation():
    latents, factors = continuous_code(4)
    assert sap(latents * 1e-3, factors).sap == pytest.approx(sap(latents, factors).sap, abs=1e-9)
    rng = np.random.default_rng(5)
    classes = rng.integers(0, 5, (400, 1))
    code = np.column_stack([classes + 0.1 * rng.standard_normal((400, 1)), rng.standard_normal(400)])
    assert abs(sap(code * 1e-2, classes).sap - sap(code, classes).sap) > 0.05


@pytest.mark.parametrize("units", [1e-7, 1e-20, 1e-90, 1e12])
def test_the_units_of_one_latent_do_not_change_sap_of_amounts(units):
    latents, factors = continuous_code(1)
    unit = sap(latents, factors)
    assert sap(latents * np.r_[units, np.ones(latents.shape[1] - 1)], factors * units).sap == pytest.approx(
        unit.sap, abs=1e-9
    )
    still = latents.copy()
    still[:, 0] = 0.1 * units  # constant, though its mean leaves rounding
    found = np.array(sap(still, factors).matrix.values)
    assert (found[:, 0] == 0).all()
    rounding = still.copy()
    rounding[::2, 0] = np.nextafter(still[0, 0], np.inf)
    assert (np.array(sap(rounding, factors).matrix.values)[:, 0] == 0).all()
    assert found[:, 1:].max() > 0.5


def test_sap_of_constant_latents_and_a_single_latent_is_defined():
    latents, factors = continuous_code(5)
    constant = sap(np.full((300, 2), 0.1), factors)
    assert constant.sap == 0
    assert [a.code for a in constant.alerts] == ["constant_latents"]
    single = sap(latents[:, :1], factors)
    assert single.details["gap_of_factor"][0] > 0.9
    assert single.details["gap_of_factor"][1] < 0.05
    bits = binary_code(5)[1]
    assert sap(np.ones((300, 2)), bits).sap == 0


def test_sap_of_a_class_seen_only_where_it_is_scored_is_a_guess():
    rare = np.zeros(30, dtype=int)
    rare[lib_split(30, 0).test[0]] = 1
    found = sap(np.random.default_rng(0).standard_normal((30, 2)), rare)
    assert found.matrix is not None
    assert found.matrix.values == ((0.9, 0.9),)


def test_a_classifier_that_stops_early_is_an_alert_of_sap(monkeypatch):
    assert sap(case("mixed")).alerts == ()
    monkeypatch.setattr(predicted, "LinearSVC", partial(predicted.LinearSVC, max_iter=1))
    stopped = sap(case("mixed"))
    assert stopped.alerts[0].code == "not_converged"
    assert stopped.details["converged_of_factor"] == [False, False, False]


# Explicitness


def test_explicitness_equals_the_slow_optimum():
    """scikit-learn stops at a gradient of 1e-4, so an order of two near-equal rows may differ."""
    expected = REFERENCE["cases"]["mixed"]["scores"]["explicitness_of_factor"]
    found = explicitness(case("mixed"))
    assert found.details["auc_of_factor"] == pytest.approx(expected, abs=1e-3)
    assert found.explicitness == pytest.approx(np.mean(expected), abs=1e-3)


def test_explicitness_is_one_for_what_a_line_can_read_and_a_half_for_what_it_cannot():
    latents, factors = binary_code(6, 1500)
    assert explicitness(latents, factors).explicitness == pytest.approx(1, abs=1e-6)
    assert explicitness(latents, factors[:, 0] ^ factors[:, 1]).explicitness == pytest.approx(0.5, abs=0.06)
    assert explicitness(np.full((1500, 2), 0.1), factors).explicitness == pytest.approx(0.5)


def test_explicitness_does_not_see_a_rotation_and_sees_lost_latents():
    codes = case("mixed")
    turn = np.linalg.qr(np.random.default_rng(7).standard_normal((5, 5)))[0]
    before = explicitness(codes).explicitness
    moved = codes.with_latents(codes.latents[:, ::-1] * [-1, 7.3, 0.01, 1, -2])
    assert explicitness(moved).explicitness == pytest.approx(before, abs=1e-3)
    assert explicitness(codes.with_latents(codes.latents @ turn)).explicitness == pytest.approx(before, abs=0.01)
    assert explicitness(codes.with_latents(codes.latents[:, :1])).explicitness < before - 0.1


def test_explicitness_bins_continuous_factors():
    latents, factors = continuous_code(8, 900)
    found = explicitness(latents, factors, bins=5)
    assert found.settings["bins"] == 5
    assert found.explicitness > 0.85
    noise = np.random.default_rng(9).standard_normal(latents.shape)
    assert explicitness(noise, factors, bins=5).explicitness == pytest.approx(0.5, abs=0.08)


def test_classes_that_were_not_fitted_or_not_scored_are_defined():
    latents, factors = binary_code(10, 60)
    split = lib_split(60, 0)
    extra = factors[:, 0].copy()
    extra[split.test[0]] = 2  # never fitted: probability 0 in every row, half of the area
    seen = explicitness(latents, np.column_stack([factors[:, 0], extra]))
    assert seen.details["auc_of_factor"][0] == pytest.approx(1)
    assert seen.details["auc_of_factor"][1] == pytest.approx((1 + 1 + 0.5) / 3, abs=0.05)
    rare = np.zeros(60, dtype=int)
    rare[split.test[0]] = 1  # nothing to fit at all
    left_out = explicitness(latents, np.column_stack([factors[:, 0], rare]))
    assert np.isnan(left_out.details["auc_of_factor"][1])
    assert left_out.explicitness == pytest.approx(left_out.details["auc_of_factor"][0])
    assert [a.code for a in left_out.alerts] == ["too_few_classes"]
    assert np.isnan(explicitness(latents, rare).explicitness)


def test_a_regression_that_stops_early_is_an_alert_of_explicitness(monkeypatch):
    assert explicitness(case("mixed")).alerts == ()
    monkeypatch.setattr(predicted, "LOGISTIC_STEPS", 1)
    stopped = explicitness(case("mixed"))
    assert [a.code for a in stopped.alerts] == ["not_converged"]
    assert stopped.settings["max_iter"] == 1


@pytest.mark.parametrize("metric", [sap, explicitness, partial(dci, predictor="gbt")])
def test_settings_name_the_split_and_the_seed(metric):
    found = metric(*binary_code(11, 90, blur=0.7), seed=5)
    assert {"train_rows": 60, "test_rows": 30, "seed": 5}.items() <= found.settings.items()
    assert metric(*binary_code(11, 90, blur=0.7), seed=6).scores != found.scores


@pytest.mark.parametrize("metric", [sap, explicitness, dci])
def test_values_no_predictor_can_hold_are_refused(metric):
    """liblinear would not end on them."""
    latents, factors = binary_code(13, 40)
    with pytest.raises(DataError, match=r"latent 1: .*1e\+30"):
        metric(latents * [1, 1e60], factors)
    assert metric(latents * [1, 1e-60], factors).scores


@pytest.mark.parametrize("scale", [1e-6, 1e-20])
def test_sap_of_continuous_factors_does_not_depend_on_the_unit_of_the_latents(scale):
    latents, factors = continuous_code(0)
    still = np.column_stack([latents, np.full(len(latents), 0.1)])
    expected = sap(still, factors).sap
    assert expected > 0.5
    assert sap(still * scale, factors).sap == pytest.approx(expected, abs=1e-9)
