"""MCC, R² and SIS: closed forms, what they are invariant to and what not, and values against literal computations."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from errors import naming
from identifiable import DataError, UsageError
from identifiable.disentanglement.correlated import mcc, split_rows
from identifiable.disentanglement.predicted import explicitness, sap
from identifiable.disentanglement.regressed import r2, sis

TURN = np.array([[0.6, 0.8, 0.0], [-0.8, 0.6, 0.0], [0.0, 0.0, 1.0]])


def factors(n: int = 1200, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 1]).uniform(-1, 1, (n, 3))


def noise(n: int = 1200, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 2]).standard_normal((n, d))


def codes_of_the_alert(metric) -> list[str]:
    return [alert.code for alert in metric.alerts]


# --- MCC


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
@pytest.mark.parametrize("after", ["none", "linear"])
def test_mcc_is_1_for_a_perfect_code_in_another_order_sign_and_scale(kind, after):
    S = factors()
    assert mcc(S[:, [2, 0, 1]] * [-3.0, 1e-5, 1e6] + 7, S, kind=kind, after=after).mcc == pytest.approx(1.0, abs=1e-3)
    assert mcc(noise(), S, kind=kind, after=after).mcc < 0.08


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("kind", "corr"), [("pearson", pearsonr), ("spearman", spearmanr)])
def test_mcc_is_the_best_of_all_pairings_tried_one_by_one(kind, corr, seed):
    S, Z = factors(150, seed), factors(150, seed) @ TURN.T + 0.5 * noise(150, 3, seed)
    table = [[abs(corr(S[:, i], Z[:, j])[0]) for j in range(3)] for i in range(3)]
    best = max(np.mean([table[i][p[i]] for i in range(3)]) for p in permutations(range(3)))
    found = mcc(Z, S, kind=kind)
    assert found.mcc == pytest.approx(best, abs=1e-12)
    assert np.allclose(found.matrix.values, table, atol=1e-12)
    assert [abs(r) for r in found.details["correlation"]] == pytest.approx(
        [table[i][j] for i, j in enumerate(found.details["latent"])]
    )


def test_mcc_counts_0_for_a_factor_without_a_latent_and_nothing_for_a_latent_left_over():
    S = factors()
    assert mcc(S[:, :2], S).mcc == pytest.approx(2 / 3, abs=0.03)
    assert None in mcc(S[:, :2], S).details["latent"]
    assert mcc(np.hstack([noise(), S]), S).mcc == pytest.approx(1.0)
    assert mcc(S[:, :2], S, after="linear").mcc == pytest.approx(2 / 3, abs=1e-9)


def test_constant_latents_correlate_0_even_where_their_mean_does_not_round():
    S = factors()
    found = mcc(np.column_stack([np.full(len(S), 0.1), S]), S)
    assert np.array(found.matrix.values)[:, 0].tolist() == [0.0, 0.0, 0.0]
    (said,) = (a.message for a in found.alerts if a.code == "dead_latents")
    assert said.startswith("latent 0")
    assert "dead_latents" not in codes_of_the_alert(mcc(S, S))
    assert found.mcc == pytest.approx(1.0)
    assert mcc(np.ones((len(S), 2)), S).mcc == 0.0
    assert mcc(np.ones((len(S), 2)), S, after="linear").mcc == 0.0


@pytest.mark.parametrize("scale", [1e250, 1e-250])
def test_values_whose_squares_overflow_or_vanish_are_refused(scale):
    S = factors()
    with pytest.raises(DataError, match="ordinary size"):
        mcc(S * scale, S)
    assert mcc(S * scale**0.3, S).mcc == pytest.approx(1.0)


def test_words_enter_by_the_alphabet_and_that_is_said():
    S = factors()
    codes = np.digitize(S[:, 0], np.quantile(S[:, 0], [0.25, 0.5, 0.75]))
    renamed = [np.array(names)[codes] for names in (["a", "b", "c", "d"], ["c", "a", "d", "b"])]
    ordered, shuffled = (mcc(S[:, :1], words) for words in renamed)
    assert ordered.mcc > shuffled.mcc + 0.2
    assert all("words_as_numbers" in {a.code for a in found.alerts} for found in (ordered, shuffled))
    assert "words_as_numbers" not in {a.code for a in mcc(S[:, :1], codes).alerts}
    by_class = [r2(S[:, :1], words) for words in renamed]
    assert all(a.values["indicators"] for found in by_class for a in found.alerts if a.code == "words_as_numbers")
    assert all("words_as_numbers" in {a.code for a in found.alerts} for found in by_class)
    assert "words_as_numbers" not in {a.code for a in r2(S[:, :1], codes).alerts}
    by_indicators = [found.r2 for found in by_class]
    assert by_indicators[0] == pytest.approx(by_indicators[1])


@pytest.mark.parametrize("metric", [mcc, r2, sap, explicitness])
def test_codes_of_a_code_book_enter_as_numbers_and_that_is_said(metric):
    S = np.random.default_rng(9).integers(0, 5, (300, 2))
    names = np.array([3, 0, 4, 1, 2])[S]
    assert "codes_as_numbers" in {a.code for a in metric(names, S).alerts}
    assert "codes_as_numbers" not in {a.code for a in metric(names // 3, S).alerts}  # two codes have no order
    assert "codes_as_numbers" not in {a.code for a in metric(names * 1.0, S).alerts}


def test_mcc_after_a_linear_map_is_not_inflated_where_latents_are_many():
    S, Z = factors(100), noise(100, 40)
    assert mcc(Z, S, after="linear").mcc < 0.35
    everything = np.linalg.lstsq(Z, S - S.mean(axis=0), rcond=None)[0]
    assert np.mean([pearsonr(Z @ everything[:, i], S[:, i])[0] for i in range(3)]) > 0.5  # what in-sample would say


# --- R²


@pytest.mark.parametrize("seed", [0, 1])
def test_linear_r2_is_that_of_scikit_learn_on_the_same_split(seed):
    S, Z = factors(300, seed), noise(300, 5, seed)
    Z[:, :3] += S @ TURN
    fitted, held_out = split_rows(300, 0.2, seed)
    assert len(held_out) == 60
    assert not set(fitted) & set(held_out)
    predicted = LinearRegression().fit(Z[fitted], S[fitted]).predict(Z[held_out])
    expected = r2_score(S[held_out], predicted, multioutput="raw_values")
    assert r2(Z, S, seed=seed).details["r2"] == pytest.approx(expected.tolist(), abs=1e-12)


def test_kernel_r2_is_that_of_scikit_learn_on_the_same_split():
    S, Z = factors(300), np.tanh(3 * factors(300) @ TURN) + 0.1 * noise(300)
    fitted, held_out = split_rows(300, 0.2, 0)
    X = (Z - Z[fitted].mean(axis=0)) / Z[fitted].std(axis=0)
    mean = S[fitted].mean(axis=0)
    model = KernelRidge(alpha=1.0, kernel="rbf", gamma=1 / 3).fit(X[fitted], S[fitted] - mean)
    expected = r2_score(S[held_out], model.predict(X[held_out]) + mean, multioutput="raw_values")
    assert r2(Z, S, predictor="kernel").details["r2"] == pytest.approx(expected.tolist(), abs=1e-10)


def test_linear_r2_does_not_move_under_an_invertible_linear_map():
    S, Z = factors(), factors() + 0.7 * noise()
    mixed = Z @ np.random.default_rng(8).standard_normal((3, 3)) * [1e-4, 1.0, 1e4] + 9
    assert r2(mixed, S).r2 == pytest.approx(r2(Z, S).r2, abs=1e-9)
    assert r2(S @ TURN, S).r2 == pytest.approx(1.0, abs=1e-12)
    assert r2(np.abs(S), S).r2 < 0.1  # what a linear map cannot undo


def test_the_kernel_sees_a_curve_that_the_linear_predictor_does_not():
    Z = factors()
    assert r2(Z, Z**2, predictor="kernel").r2 > 0.95
    assert r2(Z, Z**2, predictor="linear").r2 < 0.05
    assert max(r2(noise(), factors(), predictor=p).r2 for p in ("linear", "kernel")) < 0.03


@pytest.mark.parametrize("predictor", ["linear", "kernel"])
def test_duplicate_and_constant_latents_do_no_harm(predictor):
    S = factors()
    Z = S + 0.3 * noise()
    more = np.column_stack([Z, np.full(len(S), 0.3)])
    assert r2(more, S, predictor=predictor).r2 == pytest.approx(r2(Z, S, predictor=predictor).r2, abs=1e-9)
    assert r2(np.hstack([Z, Z]), S).r2 == pytest.approx(r2(Z, S).r2, abs=1e-9)
    assert r2(np.ones((len(S), 2)), S, predictor=predictor).r2 == pytest.approx(0.0, abs=0.02)


def test_classes_without_order_need_indicators():
    rng = np.random.default_rng(2)
    shape = rng.integers(0, 3, 900)
    corners = np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]])[shape]
    assert r2(corners, shape, classes="indicators").r2 == pytest.approx(1.0)
    ordered = shape[:, None].astype(float)
    assert r2(ordered, shape, classes="numbers").r2 == pytest.approx(1.0)
    assert r2(ordered, shape, classes="indicators").r2 < 0.6


def test_a_factor_that_is_constant_among_the_rows_held_out_is_left_out_of_the_mean_and_said_so():
    n = 100
    fitted, _ = split_rows(n, 0.2, 0)
    rare = np.zeros(n, dtype=int)
    rare[fitted[:20]] = 1
    S = factors(n)
    found = r2(S, [S[:, 0], rare])
    assert found.r2 == pytest.approx(1.0)
    assert np.isnan(found.details["r2"][1])
    assert codes_of_the_alert(found) == ["constant_when_held_out"]
    assert "factor 1" in found.alerts[0].message
    assert np.isnan(r2(S, rare).r2)
    of_slots = sis(S[:, :1], [S[:, 0], rare], [[0]], [[0, 1]])
    assert of_slots.sis > 0.9
    assert codes_of_the_alert(of_slots) == ["constant_when_held_out"]


# --- SIS


def slot_factors(n: int = 600, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 3]).uniform(-1, 1, (n, 4))


PAIRS = [[0, 1], [2, 3]]


def test_sis_is_that_of_a_literal_computation_on_the_same_split():
    S = slot_factors(200)
    Z = np.hstack([S[:, 2:] + 0.3 * S[:, :2], S[:, :2]]) + 0.2 * noise(200, 4)
    fitted, held_out = split_rows(200, 0.2, 0)
    table = np.zeros((2, 2))
    for i, true in enumerate(PAIRS):
        for j, inferred in enumerate(PAIRS):
            x, y = Z[:, inferred], S[:, true]
            x = (x - x[fitted].mean(axis=0)) / x[fitted].std(axis=0)
            mean = y[fitted].mean(axis=0)
            model = KernelRidge(alpha=1.0, kernel="rbf").fit(x[fitted], y[fitted] - mean)
            table[i, j] = max(r2_score(y[held_out], model.predict(x[held_out]) + mean), 0)
    expected = ((table[0, 1] - table[0, 0]) + (table[1, 0] - table[1, 1])) / 2
    found = sis(Z, S, PAIRS, PAIRS)
    assert found.details["pair"] == [1, 0]
    assert np.allclose(found.details["r2"], table, atol=1e-9)
    assert found.sis == pytest.approx(expected, abs=1e-9)


def test_sis_does_not_mind_mixing_within_a_slot_and_minds_it_across():
    S = slot_factors()
    within = np.hstack([S[:, :2] @ TURN[:2, :2], S[:, 2:] ** 3])
    across = S[:, [0, 2, 1, 3]]
    assert sis(within[:, [2, 3, 0, 1]] * [1, -5, 1, 1], S, PAIRS, PAIRS).sis > 0.85
    assert sis(across, S, PAIRS, PAIRS).sis < 0.15
    assert abs(sis(noise(600, 4), S, PAIRS, PAIRS).sis) < 0.05
    assert abs(sis(np.hstack([S, S]), S, [[0, 1, 2, 3], [4, 5, 6, 7]], PAIRS).sis) < 0.05  # each knows everything
    single = sis(S[:, [1, 2, 3, 0]], S)
    assert single.sis > 0.95
    assert np.argmax(single.matrix.values, axis=1).tolist() == [3, 0, 1, 2]


def test_a_slot_without_a_pair_counts_against_sis():
    S = slot_factors()
    found = sis(S[:, :2], S, [[0, 1]], PAIRS)
    assert found.details["pair"] == [0, None]
    assert found.sis == pytest.approx(found.details["own"][0] / 2, abs=0.03)


# --- what is refused


@pytest.mark.parametrize(
    ("metric", "options", "error", "parts"),
    [
        (mcc, {"kind": "kendall"}, UsageError, "kind: .*pearson.*spearman.*'kendall'"),
        (mcc, {"after": "cca"}, UsageError, "after: .*linear.*'cca'"),
        (r2, {"predictor": "mlp"}, UsageError, "predictor: .*linear.*kernel.*'mlp'"),
        (r2, {"classes": "one-hot"}, UsageError, "classes: .*numbers.*indicators.*'one-hot'"),
        (r2, {"predictor": "kernel", "max_rows": 5}, UsageError, "max_rows: .*10, got 5"),
        (sis, {"slots_latents": [[0, 1], [1, 2]]}, UsageError, "slots_latents: .*0 to 3"),
        (sis, {"slots_latents": [[0], []]}, UsageError, "slots_latents: .*0 to 3"),
        (sis, {"slots_latents": [[4]]}, UsageError, "slots_latents: .*0 to 3"),
        (sis, {"slots_latents": []}, UsageError, "slots_latents: .*0 to 3"),
        (sis, {"slots_latents": PAIRS, "slots_factors": [[-1]]}, UsageError, "slots_factors: "),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(metric, options, error, parts):
    S = slot_factors(50)
    with pytest.raises(error, match=parts):
        metric(S, S, **options)


def test_tables_that_cannot_be_scored_are_refused():
    for metric in (lambda Z, S: mcc(Z, S, after="linear"), r2):
        with pytest.raises(DataError, match=naming("10 rows", "got 9")):
            metric(factors(9), factors(9))
    S = slot_factors(50)
    with pytest.raises(DataError, match="slots_factors: "):  # a constant factor is left out, and would shift them
        sis(S, np.column_stack([np.ones(50), S]), PAIRS, [[1, 2], [3, 4]])
