"""MCC, R² and SIS: closed forms, what they are invariant to and what not, and values against literal computations."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from identifiable import DataError, UsageError
from identifiable.disentanglement.codes import as_codes
from identifiable.disentanglement.correlated import mcc, split_rows
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


@pytest.mark.parametrize("after", ["none", "linear"])
def test_mcc_of_noise_is_near_0(after):
    assert mcc(noise(), factors(), after=after).mcc < 0.08


def test_mcc_falls_when_latents_are_turned_and_its_weak_form_does_not():
    S = factors()
    assert mcc(S @ TURN, S).mcc < 0.9
    assert mcc(S @ TURN, S, after="linear").mcc == pytest.approx(1.0, abs=1e-9)


def test_spearman_sees_through_a_monotone_map_and_pearson_does_not():
    S = factors()
    Z = np.exp(5 * S)
    assert mcc(Z, S, kind="spearman").mcc == pytest.approx(1.0, abs=1e-12)
    assert mcc(Z, S, kind="pearson").mcc < 0.9


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


def test_one_latent_for_two_factors_pairs_with_one_of_them_only():
    S = factors()[:, :2]
    Z = S.sum(axis=1, keepdims=True)
    assert mcc(Z, S).mcc == pytest.approx(np.sqrt(0.5) / 2, abs=0.03)


def test_constant_latents_correlate_0_even_where_their_mean_does_not_round():
    S = factors()
    found = mcc(np.column_stack([np.full(len(S), 0.1), S]), S)
    assert np.array(found.matrix.values)[:, 0].tolist() == [0.0, 0.0, 0.0]
    assert found.mcc == pytest.approx(1.0)
    assert mcc(np.ones((len(S), 2)), S).mcc == 0.0
    assert mcc(np.ones((len(S), 2)), S, after="linear").mcc == 0.0


def test_mcc_between_two_runs_agrees_for_the_same_run_and_not_for_another():
    run = noise(800, 4)
    again = run[:, ::-1] * [2.0, -1.0, 1.0, 3.0]
    assert mcc(again, run, kinds="continuous").mcc == pytest.approx(1.0)
    assert mcc(noise(800, 4, seed=5), run, kinds="continuous").mcc < 0.1


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
    by_indicators = [r2(S[:, :1], words).r2 for words in renamed]
    assert by_indicators[0] == pytest.approx(by_indicators[1])


def test_a_dead_latent_is_named():
    S = factors()
    with_dead = mcc(np.column_stack([S, np.zeros(len(S))]), S)
    (alert,) = (a for a in with_dead.alerts if a.code == "dead_latents")
    assert alert.values == {"latents": ["latent 4"]}
    assert "dead_latents" not in {a.code for a in mcc(S, S).alerts}


def test_mcc_after_a_linear_map_is_not_inflated_where_latents_are_many():
    S, Z = factors(100), noise(100, 40)
    assert mcc(Z, S, after="linear").mcc < 0.35
    everything = np.linalg.lstsq(Z, S - S.mean(axis=0), rcond=None)[0]
    assert np.mean([pearsonr(Z @ everything[:, i], S[:, i])[0] for i in range(3)]) > 0.5  # what in-sample would say


def test_mcc_after_a_linear_map_counts_directions_once_where_factors_are_copies():
    S = factors()
    assert mcc(S[:, :1], S[:, [0, 0]], after="linear").mcc == pytest.approx(1.0)
    assert mcc(S[:, :1], S[:, :2], after="linear").mcc == pytest.approx(0.5)


def test_mcc_takes_class_numbers_of_discrete_factors():
    S = np.random.default_rng(3).integers(0, 4, (600, 2)) * 10
    assert mcc(S.astype(float), S).mcc == pytest.approx(1.0)
    assert mcc(np.exp(S.astype(float)), S).mcc < 0.95


def test_mcc_accepts_checked_codes_and_passes_their_alerts_on():
    S = np.column_stack([factors(), np.ones(1200)])
    codes = as_codes(S[:, :3], S)
    found = mcc(codes)
    assert found.mcc == mcc(S[:, :3], S).mcc == pytest.approx(1.0)
    assert codes_of_the_alert(found) == ["constant_factors"]


def test_the_same_seed_gives_the_same_halves_and_settings_say_which():
    S, Z = factors(), factors() @ TURN + noise()
    one, two, other = (mcc(Z, S, after="linear", seed=s) for s in (4, 4, 5))
    assert one.mcc == two.mcc != other.mcc
    assert one.settings["seed"] == 4
    assert "seed" not in mcc(Z, S).settings


def test_mcc_says_which_words_it_knows():
    with pytest.raises(UsageError, match=r"kind: expected pearson or spearman, got 'kendall'"):
        mcc(factors(), factors(), kind="kendall")
    with pytest.raises(UsageError, match=r"after: expected none or linear, got 'cca'"):
        mcc(factors(), factors(), after="cca")


def test_too_few_rows_to_hold_some_out_are_refused():
    with pytest.raises(DataError, match=r"expected at least 10 rows to hold some out, got 9; pass more rows"):
        mcc(factors(9), factors(9), after="linear")
    with pytest.raises(DataError, match="at least 10 rows"):
        r2(factors(9), factors(9))


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


@pytest.mark.parametrize("predictor", ["linear", "kernel"])
def test_r2_of_noise_is_not_above_0_by_more_than_chance(predictor):
    assert r2(noise(), factors(), predictor=predictor).r2 < 0.03


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


def test_indicators_and_numbers_agree_on_two_classes():
    rng = np.random.default_rng(2)
    side = rng.integers(0, 2, 400)
    Z = side[:, None] + rng.standard_normal((400, 2))
    assert r2(Z, side, classes="indicators").r2 == pytest.approx(r2(Z, side, classes="numbers").r2, abs=1e-9)


def test_the_kernel_sees_a_recorded_subsample():
    S = factors()
    found = r2(S, S, predictor="kernel", max_rows=200)
    assert found.settings["rows"] == 200
    assert found.r2 != r2(S, S, predictor="kernel", max_rows=400).r2
    assert "rows" not in r2(S, S).settings


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
    assert "factor 2" in found.alerts[0].message
    alone = r2(S, rare)
    assert np.isnan(alone.r2)


def test_r2_says_which_words_and_sizes_it_knows():
    S = factors(50)
    with pytest.raises(UsageError, match=r"predictor: expected linear or kernel, got 'mlp'"):
        r2(S, S, predictor="mlp")
    with pytest.raises(UsageError, match=r"classes: expected numbers or indicators, got 'one-hot'"):
        r2(S, S, classes="one-hot")
    with pytest.raises(UsageError, match=r"max_rows: expected at least 10, got 5"):
        r2(S, S, predictor="kernel", max_rows=5)


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


def test_sis_of_noise_and_of_latents_that_all_know_everything_is_near_0():
    S = slot_factors()
    assert abs(sis(noise(600, 4), S, PAIRS, PAIRS).sis) < 0.05
    everything = np.hstack([S, S])
    assert abs(sis(everything, S, [[0, 1, 2, 3], [4, 5, 6, 7]], PAIRS).sis) < 0.05


def test_sis_of_single_columns_has_a_factor_latent_matrix():
    S = slot_factors()[:, :3]
    found = sis(S[:, [1, 2, 0]], S)
    assert found.sis > 0.95
    assert np.argmax(found.matrix.values, axis=1).tolist() == [2, 0, 1]
    assert sis(S, S, [[0], [1, 2]], [[0], [1, 2]]).matrix is None


def test_a_slot_without_a_pair_counts_against_sis():
    S = slot_factors()
    found = sis(S[:, :2], S, [[0, 1]], PAIRS)
    assert found.details["pair"] == [0, None]
    assert found.sis == pytest.approx(found.details["own"][0] / 2, abs=0.03)


def test_wrong_slots_are_refused_with_what_was_expected():
    S = slot_factors(50)
    for wrong in ([[0, 1], [1, 2]], [[0], []], [[4]], []):
        with pytest.raises(UsageError, match=r"slots_latents: expected groups of different columns from 0 to 3"):
            sis(S, S, wrong)
    with pytest.raises(UsageError, match="slots_factors: expected groups"):
        sis(S, S, PAIRS, [[-1]])


def test_slots_of_factors_are_refused_where_a_constant_factor_would_shift_them():
    S = slot_factors(50)
    with pytest.raises(DataError, match=r"slots_factors: a factor is constant and left out"):
        sis(S, np.column_stack([np.ones(50), S]), PAIRS, [[1, 2], [3, 4]])


def test_sis_leaves_out_a_factor_that_is_constant_among_the_rows_held_out():
    fitted, _ = split_rows(100, 0.2, 0)
    rare = np.zeros(100, dtype=int)
    rare[fitted[:20]] = 1
    S = slot_factors(100)
    found = sis(S[:, :1], [S[:, 0], rare], [[0]], [[0, 1]])
    assert found.sis > 0.9
    assert codes_of_the_alert(found) == ["constant_when_held_out"]
