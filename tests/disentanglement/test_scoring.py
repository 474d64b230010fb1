"""Alerts where a metric must not be trusted: present where its assumptions fail, absent on good input."""

from __future__ import annotations

import doctest
from math import log, sqrt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from builders import make_after
from identifiable import disentangle
from identifiable.disentanglement import METRICS, scoring
from identifiable.disentanglement.codes import dependent_pairs, maximal_correlation, redundancy
from identifiable.disentanglement.correlated import chance_level
from identifiable.metrics import dci, infomec, mcc, mig, r2

NEW = {
    "few_rows",
    "more_latents_than_rows",
    "dependent_factors",
    "chance_level",
    "r2_far_below_zero",
    "uninformative",
    "infoe_in_sample",
    "collinear_latents",
    "rows_alike",
    "no_information",
    "far_from_zero",
    "codes_as_numbers",
}


def codes_of(found: Any) -> set[str]:
    return {alert.code for alert in found.alerts}


def said(found: Any, code: str) -> str:
    (message,) = (alert.message for alert in found.alerts if alert.code == code)
    return message


def correlated(n: int, r: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 81]).multivariate_normal([0, 0], [[1, r], [r, 1]], n)


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
@pytest.mark.parametrize("extra", [0, 4])
def test_good_input_has_none_of_these_alerts(kind: str, extra: int) -> None:
    rng = np.random.default_rng([extra, 80])
    S = rng.integers(0, 5, (1500, 4)) if kind == "discrete" else rng.uniform(size=(1500, 4))
    Z = np.hstack([S + 0.05 * rng.standard_normal(S.shape), rng.standard_normal((1500, extra))])
    found = disentangle(Z, S, metrics=["infomec", "dci", "mig", "mcc", "r2", "sap"])
    assert not codes_of(found) & NEW
    if kind == "continuous":
        assert not NEW & codes_of(dci(Z, S, predictor="lasso"))


# Dependent factors


@pytest.mark.parametrize("r", [0.0, 0.5, 0.9])
def test_maximal_correlation_of_normal_numbers_is_their_correlation(r: float) -> None:
    """Lancaster 1957; halves of normals have (2 / pi) arcsin r, finer bins come near r."""
    a, b = correlated(40_000, r).T
    halves = maximal_correlation((a > 0).astype(np.int64), (b > 0).astype(np.int64))
    assert halves == pytest.approx(2 / np.pi * np.arcsin(r), abs=0.015)
    edges = norm.ppf(np.linspace(0, 1, 21)[1:-1])
    fine = maximal_correlation(np.digitize(a, edges), np.digitize(b, edges))
    assert fine == pytest.approx(r, abs=0.05)


@pytest.mark.parametrize(("rows", "correlation"), [(60, 0.7), (100, 0.7), (200, 0.5), (500, 0.45), (2000, 0.4)])
def test_dependence_of_factors_is_seen_in_few_rows(rows: int, correlation: float) -> None:
    seen = 0
    for seed in range(8):
        S = np.random.default_rng(seed).multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], size=rows)
        seen += "dependent_factors" in codes_of(mcc(S @ np.array([[1, 0.8], [0.8, 1]]), S))
    assert seen >= 7


@pytest.mark.parametrize("rows", [20, 60, 500])
def test_independent_factors_of_any_tails_are_not_called_dependent(rows: int) -> None:
    rng = np.random.default_rng(0)
    called = 0
    for _ in range(40):
        S = np.column_stack(
            [rng.standard_cauchy(rows), rng.gamma(0.3, size=rows), rng.integers(0, 4, rows), rng.normal(size=rows)]
        )
        called += "dependent_factors" in codes_of(mcc(S, S))
    assert called <= 3


def test_an_mcc_of_0_97_of_mixed_dependent_factors_is_not_passed_over() -> None:
    """Dense mixing of factors that correlate 0.9: MCC says they are recovered."""
    S = correlated(2000, 0.9)
    Z = S @ [[1.0, 0.4], [0.4, 1.0]]
    found = mcc(Z, S)
    assert found.mcc > 0.97
    assert all(part in said(found, "dependent_factors") for part in ("factor 0", "factor 1", "1 of 1"))
    assert "dependent_factors" in codes_of(mig(Z, S))
    assert "dependent_factors" not in codes_of(mcc(Z, np.random.default_rng(1).uniform(size=S.shape)))


def test_dependence_of_words_and_of_bent_factors_is_seen_and_a_grid_in_order_is_not() -> None:
    rng = np.random.default_rng(82)
    shape = rng.integers(0, 3, 600)
    words = np.array(["cube", "ball", "cone"])[shape]
    hue = np.where(rng.uniform(size=600) < 0.9, (shape * 2) % 3, rng.integers(0, 3, 600))
    Z = rng.standard_normal((600, 2))
    assert "dependent_factors" in codes_of(mig(Z, [words, hue]))
    amount = rng.uniform(-1, 1, 600)
    assert "dependent_factors" in codes_of(mig(Z, np.column_stack([amount, amount**2])))
    grid = np.indices((4, 15, 40, 10)).reshape(4, -1).T
    assert "dependent_factors" not in codes_of(mig(grid[:, :1] * 1.0, grid))


def test_chance_does_not_make_factors_dependent() -> None:
    """Of 40 classes on few rows, the largest singular value of noise is far from 0."""
    for seed, n in enumerate((20, 100, 400, 3000)):
        S = np.random.default_rng([seed, 83]).integers(0, 40, (n, 6))
        assert not dependent_pairs(list(S.astype(float)[:, :6].T), [True] * 6, 0.3)
        assert not dependent_pairs(list(np.random.default_rng([seed, 84]).uniform(size=(6, n))), [False] * 6, 0.3)


@pytest.mark.parametrize("rows", [60, 200, 500])
@pytest.mark.parametrize("law", ["rare", "zipf"])
def test_rare_classes_that_meet_by_chance_are_not_called_dependent(rows: int, law: str) -> None:
    called = 0
    for seed in range(20):
        rng = np.random.default_rng([seed, 87])
        S = rng.uniform(size=(rows, 8)) < 0.03 if law == "rare" else np.minimum(rng.zipf(2.0, (rows, 8)), 20)
        called += bool(dependent_pairs(list(S.astype(float).T), [True] * 8, 0.3))
    assert called <= 1


@pytest.mark.parametrize("copies", [8, 6])
def test_rare_classes_that_keep_together_are_called_dependent(copies: int) -> None:
    """Eight of 200 rows, of which nearly all are those of the other factor."""
    first, second = np.zeros((2, 200))
    first[:8] = second[8 - copies : 16 - copies] = 1
    assert dependent_pairs([first, second], [True, True], 0.3)


def test_many_factors_are_compared_by_correlation() -> None:
    columns = list(np.random.default_rng(85).standard_normal((60, 500)))
    assert not dependent_pairs(columns, [False] * 60, 0.3)
    (pair,) = dependent_pairs([*columns, columns[7] + 0.1 * columns[3]], [False] * 61, 0.3)
    assert (pair.first, pair.second) == (7, 60)
    assert pair.correlation == pytest.approx(1 / sqrt(1.01), abs=0.01)


def test_redundancy_is_r2_by_the_other_columns() -> None:
    rng = np.random.default_rng(86)
    X = rng.standard_normal((4000, 3))
    found = redundancy(np.column_stack([X, X[:, 0] + X[:, 1] + X[:, 2] + rng.standard_normal(4000), np.ones(4000)]))
    assert found == pytest.approx([0.5, 0.5, 0.5, 0.75, 0.0], abs=0.03)
    assert redundancy(X[:, [0, 0, 1]]) == pytest.approx([1, 1, 0], abs=0.01)


# The chance level of MCC


def simulated(n: int, d: int, m: int, *, mixed: bool) -> float:
    rng = np.random.default_rng([n, d, m, 87])
    found = []
    for _ in range(20):
        S = rng.standard_normal((n, m))
        Z = S @ rng.standard_normal((m, d)) if mixed else rng.standard_normal((n, d))
        size = np.abs(np.corrcoef(S.T, Z.T)[:m, m:])
        found.append(size[linear_sum_assignment(size, maximize=True)].sum() / m)
    return float(np.mean(found))


@pytest.mark.parametrize(("n", "d", "m"), [(3, 3, 3), (30, 400, 3), (60, 20, 4), (100, 3, 3), (200, 50, 5), (60, 2, 4)])
def test_the_chance_level_is_that_of_simulated_noise(n: int, d: int, m: int) -> None:
    found = chance_level(d, m, n - 1)
    assert found == pytest.approx(simulated(n, d, m, mixed=False), abs=0.12 if n == 3 else 0.03)


@pytest.mark.parametrize(("d", "m"), [(400, 3), (400, 10), (50, 5)])
def test_the_chance_level_of_mixtures_is_that_of_simulated_ones(d: int, m: int) -> None:
    assert chance_level(d, m, m) == pytest.approx(simulated(4000, d, m, mixed=True), abs=0.02)


def test_400_random_mixtures_of_3_factors_score_like_a_recovery_and_the_alert_says_so() -> None:
    rng = np.random.default_rng(88)
    S = rng.uniform(size=(2000, 3))
    found = mcc(S @ rng.standard_normal((3, 400)), S)
    assert found.mcc > 0.98
    expected = f"{simulated(2000, 400, 3, mixed=True):.2f}"
    assert all(part in said(found, "chance_level") for part in ("400 latents", expected))
    assert found.details["chance_of_mixtures"] > 0.98 > 0.1 > found.details["chance_of_noise"]
    assert "chance_level" not in codes_of(mcc(S @ rng.standard_normal((3, 6)), S))


def test_three_rows_of_noise_carry_two_alerts() -> None:
    rng = np.random.default_rng(89)
    found = mcc(rng.standard_normal((3, 3)), rng.standard_normal((3, 3)), kinds="continuous")
    assert {"few_rows", "chance_level", "more_latents_than_rows"} <= codes_of(found)
    assert "3 rows" in said(found, "few_rows")
    assert {"latents": 3, "rows": 3} in [a.values for a in found.alerts if a.code == "more_latents_than_rows"]
    assert not NEW & codes_of(mcc(rng.standard_normal((300, 3)), rng.standard_normal((300, 3)), kinds="continuous"))


# R² and informativeness


def test_r2_far_below_zero_names_the_factor_and_the_reach() -> None:
    """A latent that hardly varies on the rows fitted, and does on one held out."""
    rng = np.random.default_rng(91)
    Z, S = rng.standard_normal((100, 2)), rng.uniform(size=(100, 2))
    held_out = np.random.default_rng(0).permutation(100)[80:]
    Z[:, 1] *= 1e-15
    Z[held_out[0], 1] = 1.0
    found = r2(Z, S)
    assert found.r2 < -1e20
    message = said(found, "r2_far_below_zero")
    assert all(part in message for part in ("factor 0", "80 rows"))
    assert any(f"{value:.3g}" in message for value in found.details["r2"])
    assert "r2_far_below_zero" not in codes_of(r2(rng.standard_normal((200, 3)), rng.uniform(size=(200, 2))))


def test_noise_is_uninformative_and_a_code_is_not() -> None:
    rng = np.random.default_rng(92)
    S = rng.integers(0, 3, (300, 2))
    half = np.column_stack([S[:, 0] + 0.1 * rng.standard_normal(300), rng.standard_normal(300)])
    message = said(dci(half, S), "uninformative")
    assert message.startswith("factor 1:")
    assert "uninformative" not in codes_of(dci(half, S[:, :1]))
    assert "uninformative" in codes_of(infomec(rng.standard_normal((300, 5)), S, holdout=0.5, parts=("infoe",)))
    assert "uninformative" not in codes_of(infomec(S + 0.3 * rng.standard_normal(S.shape), S, holdout=0.5))


def test_a_common_class_alone_is_no_information() -> None:
    """95 % accuracy, all of it from the class that is nearly always right."""
    rng = np.random.default_rng(93)
    S = (rng.uniform(size=(1200, 2)) < 0.05).astype(int)
    found = dci(rng.standard_normal((1200, 3)), S)
    assert found.informativeness_test > 0.9
    assert "uninformative" in codes_of(found)


def test_rare_classes_that_are_found_are_not_called_a_guess() -> None:
    """98 % of the rows have the same class, so a good accuracy is within two standard errors of that of a guess."""
    S = (np.random.default_rng(94).uniform(size=(600, 3)) < 0.02).astype(int)
    found = dci(S + 0.05 * np.random.default_rng(95).standard_normal(S.shape), S)
    assert found.disentanglement > 0.95
    assert "uninformative" not in codes_of(found)


def test_copies_of_rows_are_seen_and_few_combinations_of_factors_are_none() -> None:
    rng = np.random.default_rng(97)
    Z, S = rng.standard_normal((100, 3)), rng.uniform(size=(100, 3))
    four = rng.permutation(np.repeat(np.arange(100), 4))
    assert codes_of(mcc(Z[four], S[four])) == {"rows_alike"}
    assert codes_of(mcc(Z[four], (9 * S[four]).astype(int))) == {"rows_alike"}
    (alert,) = mcc(np.vstack([Z, Z[:6]]), np.vstack([S, S[:6]])).alerts
    assert alert.values["copied"] == 12 / 106
    assert not mcc(np.vstack([Z, Z[:2]]), np.vstack([S, S[:2]])).alerts
    grid = np.repeat(np.indices((4, 4)).reshape(2, -1).T, 20, axis=0)
    for factors in (grid, rng.integers(0, 4, (300, 2))):
        assert "rows_alike" not in codes_of(mcc(factors * 0.5, factors))  # a code without noise


# InfoE in sample


def in_sample_infoe(Z: np.ndarray, y: np.ndarray) -> float:
    X = StandardScaler().fit_transform(Z)
    model = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=100).fit(X, y)
    return 1 - log_loss(y, model.predict_proba(X)) / log(len(np.unique(y)))


@pytest.mark.parametrize(("n", "d", "classes"), [(60, 20, 4), (200, 50, 4), (400, 10, 2), (600, 10, 10)])
def test_the_alert_gives_a_level_that_noise_does_reach(n: int, d: int, classes: int) -> None:
    """Noise, and the same by scikit-learn: InfoE comes up to 1.0 at 60 x 20."""
    rng = np.random.default_rng([n, d, 95])
    Z, y = rng.standard_normal((n, d)), rng.integers(0, classes, n)
    reached = in_sample_infoe(Z, y)
    found = infomec(Z, y, parts=("infoe",))
    assert found.infoe == pytest.approx(reached, abs=0.02)
    floor = min(1.0, d * (classes - 1) / (2 * n * log(classes)))
    if floor < 0.05:
        assert "infoe_in_sample" not in codes_of(found)
        assert reached < 0.07
        return
    assert all(part in said(found, "infoe_in_sample") for part in (f"{floor:.2f}", "holdout", "--null"))
    assert floor < reached + 0.02
    assert "infoe_in_sample" not in codes_of(infomec(Z, y, parts=("infoe",), holdout=0.3))
    assert infomec(Z, y, parts=("infoe",), holdout=0.3).infoe < 0.05


def test_noise_of_continuous_factors_reaches_the_share_of_its_columns() -> None:
    """E R² = d / (n - 1) in sample."""
    rng = np.random.default_rng(96)
    Z, S = rng.standard_normal((200, 50)), rng.standard_normal((200, 3))
    found = infomec(Z, S, parts=("infoe",))
    assert found.infoe == pytest.approx(50 / 199, abs=0.06)
    assert f"{50 / 199:.2f}" in said(found, "infoe_in_sample")
    Z, y = rng.integers(0, 30, (500, 4)), rng.integers(0, 3, 500)  # of discrete latents, values are columns
    assert "infoe_in_sample" in codes_of(infomec(Z, y, parts=("infoe",)))
    assert "infoe_in_sample" not in codes_of(infomec(Z * 1.0, y, parts=("infoe",), discrete=False))


# On the command line, and in the result


GUIDE = Path(__file__).parents[2] / "docs" / "metrics.md"


@pytest.mark.parametrize(
    ("infoe", "invertible", "codes"),
    [
        ((0.991, 0.9914), True, []),
        ((0.991, 0.95), True, ["infoe_moved"]),
        ((0.991, 1.01), True, ["infoe_moved"]),
        ((0.991, 0.95), False, []),  # directions were dropped: it may move
    ],
)
def test_explicitness_that_an_invertible_map_moves_is_an_alert(
    infoe: tuple[float, float], invertible: bool, codes: list[str]
) -> None:
    codes_of_a_table = SimpleNamespace(alerts=(), discrete=False)
    after = [make_after(), make_after("whitened", infoe=infoe, invertible=invertible)]
    found = scoring._alerts(codes_of_a_table, {}, after, asked_for_sweep=False)  # type: ignore[arg-type]
    assert [alert.code for alert in found] == codes
    assert [alert.values for alert in found] == [
        {"mode": "whitened", "before": 0.991, "after": infoe[1]} for _ in codes
    ]


def test_the_guide_to_the_metrics_runs_and_names_every_metric_and_alert() -> None:
    found = doctest.testfile(str(GUIDE), module_relative=False, encoding="utf-8")
    assert found.attempted > 5
    assert not found.failed
    words = GUIDE.read_text(encoding="utf-8")
    assert not [name for name in (*METRICS, *NEW) if f"`{name}`" not in words]


# Tables in the wrong order


@pytest.mark.parametrize("seed", range(3))
def test_factors_given_as_latents_are_pointed_at(seed: int) -> None:
    rng = np.random.default_rng([seed, 90])
    S = np.column_stack([rng.integers(0, k, 600) for k in (5, 4, 3)])
    Z = (S + 0.1 * rng.standard_normal(S.shape)) @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
    assert "perhaps_swapped" in codes_of(disentangle(S, Z, metrics=["infomec"]))
    assert "perhaps_swapped" not in codes_of(disentangle(Z, S, metrics=["infomec"]))
    assert "perhaps_swapped" not in codes_of(disentangle(S, Z, metrics=["infomec"], discrete=True))
    assert "perhaps_swapped" not in codes_of(disentangle(S, Z, metrics=["infomec"], kinds="continuous"))


@pytest.mark.parametrize("seed", range(3))
def test_codes_of_a_model_are_not_taken_for_factors(seed: int) -> None:
    """Scalars of code books of ten values, as QLAE has them, and entries of one book, as VQ; of discrete and of continuous factors."""
    rng = np.random.default_rng([seed, 91])
    S = np.column_stack([rng.integers(0, k, 600) for k in (5, 4, 3)])
    smooth = rng.uniform(size=(600, 3))
    mixed = np.column_stack([S[:, 0], smooth[:, 1:]])
    quantised = np.floor(10 * smooth).astype(int)
    books = rng.integers(0, 64, (600, 6))
    for codes, factors in ((S, S), (quantised, S), (quantised, smooth), (books, smooth), (books, S), (S, mixed)):
        assert "perhaps_swapped" not in codes_of(disentangle(codes, factors, metrics=["infomec"]))
