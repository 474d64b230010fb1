"""UDR and the unsupervised scores: closed forms, invariances, degenerate latents, and literal computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.stats import spearmanr
from sklearn.linear_model import Lasso
from sklearn.metrics import mutual_info_score

from identifiable import DataError, PairingError, UsageError
from identifiable.disentanglement.codes import as_codes
from identifiable.disentanglement.unsupervised import udr, unsupervised


def gaussian(n: int = 2000, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 4]).standard_normal((n, d))


def turned(Z: np.ndarray, seed: int = 0) -> np.ndarray:
    return Z @ np.linalg.qr(np.random.default_rng([seed, 5]).standard_normal((Z.shape[1], Z.shape[1])))[0]


def codes_of_the_alert(metric) -> list[str]:
    return [alert.code for alert in metric.alerts]


# --- UDR


def orthogonal_columns(n: int = 64) -> np.ndarray:
    """Three columns with every rank correlation exactly 0: digits of the row number."""
    return np.stack([(np.arange(n) // base) % 4 for base in (1, 4, 16)], axis=1).astype(float)


def test_udr_is_exactly_1_for_runs_that_agree_up_to_order_sign_and_a_monotone_map():
    Z = orthogonal_columns()
    found = udr([Z, -Z[:, [2, 0, 1]], np.exp(Z)])
    assert found.udr == pytest.approx(1.0, abs=1e-12)
    assert found.details["runs"] == pytest.approx([1.0] * 3)
    assert math.isnan(found.details["pairwise"][0][0])


@pytest.mark.parametrize("kind", ["spearman", "lasso"])
def test_udr_falls_when_runs_are_turned_against_each_other_and_more_so_for_noise(kind):
    Z = gaussian()
    same = udr([Z, Z[:, ::-1]], kind=kind).udr
    mixed = udr([Z, turned(Z)], kind=kind).udr
    unrelated = udr([Z, gaussian(seed=9)], kind=kind).udr
    assert same > 0.85 > mixed > unrelated
    assert unrelated < 0.05


def literal_udr(R: np.ndarray) -> float:
    total = 0.0
    for b in range(R.shape[1]):
        total += max(R[:, b]) ** 2 / sum(R[:, b]) if sum(R[:, b]) else 0.0
    for a in range(R.shape[0]):
        total += max(R[a]) ** 2 / sum(R[a]) if sum(R[a]) else 0.0
    return total / sum(R.shape)


def test_udr_is_that_of_the_formula_with_scipy_and_of_a_different_width():
    runs = [gaussian(200), turned(gaussian(200)) + 0.5 * gaussian(200, seed=3), gaussian(200)[:, :2]]
    found = udr(runs)
    for i in range(3):
        for j in range(3):
            if i != j:
                x, y = runs[i], runs[j]
                R = np.array([[abs(spearmanr(a, b)[0]) for b in y.T] for a in x.T])
                assert found.details["pairwise"][i][j] == pytest.approx(literal_udr(R), abs=1e-12)
    table = found.details["pairwise"]
    by_run = [np.median([table[i][j] for i in range(3) if i != j]) for j in range(3)]
    assert found.details["runs"] == pytest.approx(by_run)
    assert found.udr == pytest.approx(np.median(by_run))


def test_lasso_udr_is_that_of_one_regression_for_every_latent():
    x, y = gaussian(200), turned(gaussian(200)) + 0.5 * gaussian(200, seed=3)
    X, Y = ((t - t.mean(axis=0)) / t.std(axis=0) for t in (x, y))
    R = np.column_stack([np.abs(Lasso(alpha=0.1).fit(X, column).coef_) for column in Y.T])
    found = udr([x, y], kind="lasso")
    assert found.details["pairwise"][0][1] == pytest.approx(literal_udr(R), abs=1e-9)
    assert found.settings["penalty"] == 0.1
    assert udr([x[:, :1], -x[:, :1]], kind="lasso").udr == pytest.approx(0.9)  # what the penalty leaves of 1


def test_inactive_latents_are_left_out_by_kl_by_mask_or_by_their_spread():
    Z = orthogonal_columns()
    noise = 0.001 * gaussian(64, 2)
    runs = [np.hstack([Z, noise]), np.hstack([noise[:, :1], Z])]
    assert udr(runs).udr == pytest.approx(1.0)
    assert udr(runs).details["active"] == [3, 3]
    kl = [[3.0, 2.0, 1.0, 0.001, 0.01], [0.0, 1.0, 1.0, 1.0]]
    by_kl = udr(runs, kl=kl)
    assert by_kl.udr == pytest.approx(1.0)
    assert by_kl.settings["active"] == "kl > 0.01"
    assert udr(runs, active=[np.array(k) > 0.01 for k in kl]).udr == pytest.approx(1.0)
    assert udr(runs, active=[np.ones(5), np.ones(4)]).udr < 0.95


def test_a_run_without_active_latents_scores_0_and_is_named():
    Z = orthogonal_columns()
    found = udr([Z, Z, np.ones_like(Z)])
    assert found.details["runs"][2] == 0.0
    assert codes_of_the_alert(found) == ["no_active_latents"]
    assert found.alerts[0].values == {"runs": [3]}
    assert not udr([Z, Z]).alerts


def test_what_cannot_be_scored_is_refused():
    Z, ones = gaussian(50), np.ones(3)
    for error, parts, runs, options in (
        (UsageError, "kind: .*'cca'", [Z, Z], {"kind": "cca"}),
        (UsageError, "runs: .*2 runs, got 1", [Z], {}),
        (PairingError, "50 rows .*got 40 of run 2", [Z, Z[:40]], {}),
        (UsageError, "kl or active", [Z, Z], {"kl": [ones] * 2, "active": [ones] * 2}),
        (UsageError, "kl: ", [Z, Z], {"kl": [ones, ones[:2]]}),
        (DataError, "run 2: ", [Z, np.where(Z > 2, np.nan, Z)], {}),
    ):
        with pytest.raises(error, match=parts):
            udr(runs, **options)
    for error, parts, table, options in (
        (UsageError, "bins: .*got 1", gaussian(), {"bins": 1}),
        (DataError, "constant", np.ones((5, 2)), {}),
        (DataError, "2 rows, got 1", np.ones((1, 2)), {}),
    ):
        with pytest.raises(error, match=parts):
            unsupervised(table, **options)


# --- scores of one table


def test_scores_are_those_of_the_definitions_taken_literally():
    Z = gaussian(500) @ np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.3], [0.2, 0.0, 0.5]])
    C = np.cov(Z.T)
    D = np.diag(np.diag(C))
    found = unsupervised(Z)
    assert unsupervised(as_codes(Z, Z)) == found
    kl = 0.5 * (np.trace(np.linalg.inv(D) @ C) - 3 + np.log(np.linalg.det(D) / np.linalg.det(C)))
    assert found.total_correlation == pytest.approx(kl, abs=1e-12)
    root = sqrtm(D)
    expected = np.trace(C + D) - 2 * np.trace(sqrtm(root @ C @ root)).real
    assert found.wasserstein_correlation == pytest.approx(expected, abs=1e-9)
    assert found.wasserstein_correlation_normalised == pytest.approx(expected / np.trace(C), abs=1e-9)
    binned = [np.digitize(z, np.histogram(z, 20)[1][:-1]) for z in Z.T]
    pairs = [mutual_info_score(binned[i], binned[j]) for i in range(3) for j in range(i)]
    assert found.mutual_information == pytest.approx(np.mean(pairs), abs=1e-12)


def test_independent_latents_score_near_0_and_mixed_ones_do_not():
    apart, mixed = unsupervised(gaussian(5000)), unsupervised(gaussian(5000) @ np.triu(np.ones((3, 3))))
    for name, score in apart.scores.items():
        assert score < 0.05
        assert mixed.scores[name] > 2 * score + 0.1


def test_a_constant_latent_is_independent_of_all_others_and_said_so():
    Z = gaussian() @ np.triu(np.ones((3, 3)))
    one, more = unsupervised(Z), unsupervised(np.column_stack([Z, np.full(len(Z), 0.1)]))
    assert codes_of_the_alert(more) == ["constant_latents"]
    assert more.total_correlation == pytest.approx(one.total_correlation)
    assert more.wasserstein_correlation == pytest.approx(one.wasserstein_correlation)
    assert more.mutual_information == pytest.approx(one.mutual_information / 2)  # 3 pairs of 6


def test_latents_that_depend_linearly_have_an_infinite_total_correlation_and_an_alert():
    Z = gaussian()
    found = unsupervised(np.column_stack([Z, Z[:, 0] - 2 * Z[:, 1]]))
    assert found.total_correlation == math.inf
    assert codes_of_the_alert(found) == ["rank_deficient"]
    assert found.alerts[0].values == {"directions": 3, "latents": 4}
    assert math.isfinite(found.wasserstein_correlation)
    single = unsupervised(Z[:, :1])
    assert math.isnan(single.mutual_information)
    assert single.total_correlation == pytest.approx(0.0, abs=1e-12)
    assert codes_of_the_alert(single) == ["one_latent"]
    assert not unsupervised(np.column_stack([Z, Z[:, 0] + 0.01 * Z[:, 1] + 0.001 * gaussian(seed=8)[:, 0]])).alerts
