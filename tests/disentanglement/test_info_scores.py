"""InfoMEC: the four published codes, what it must and must not care about, and what it does where they divide by zero."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from errors import naming
from identifiable import DataError, PairingError, UsageError
from identifiable.disentanglement import PROFILES, as_codes, disentangle, kernels, small
from identifiable.disentanglement.info_scores import (
    GRADIENT_TOLERANCE,
    RELATIVE_TOLERANCE,
    Regressors,
    converged_infoe,
    cross_entropy,
    design,
    digamma_table,
    regress,
    ross,
    sorted_column,
)
from identifiable.disentanglement.kernels import descend, exponentials, logarithms, logistic_loss
from identifiable.metrics import explicitness, infomec, mig, noise_sweep
from identifiable.options import ScoreOptions

REFERENCE = Path(__file__).parents[1] / "reference"
DETERMINISTIC = 1e-9
# InfoE ends where L-BFGS is stopped, and rounding decides where: the published code moves by `spread` when its rows change
# their order, of which three were tried; another processor rounds in its own way.
OWN_SPREAD = 30.0


def _reference_script() -> Any:
    spec = importlib.util.spec_from_file_location("make_infomec_reference", REFERENCE / "make_infomec_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CASES = _reference_script().cases()
FROZEN = json.loads((REFERENCE / "infomec.json").read_text())["cases"]


def perfect(n: int = 2000, seed: int = 0, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Three factors, each in a latent of its own."""
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(k, size=n) for k in (3, 4, 6)], axis=1)
    return factors + noise * rng.standard_normal(factors.shape), factors


def rotated(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    latents, factors = perfect(seed=seed)
    turn = np.linalg.qr(np.random.default_rng(seed + 100).standard_normal((3, 3)))[0]
    return (latents - latents.mean(axis=0)) / latents.std(axis=0) @ turn, factors


# The published codes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("case", CASES)
def test_infomec_equals_the_published_code(case: str, profile: str) -> None:
    latents, factors, discrete = CASES[case]
    found, frozen = infomec(latents, factors, profile=profile, discrete=discrete), FROZEN[case][profile]
    assert found.matrix is not None
    np.testing.assert_allclose(found.matrix.values, frozen["nmi"], atol=DETERMINISTIC)
    assert found.details["active"] == frozen["active"]
    assert found.infom == pytest.approx(frozen["infom"], abs=DETERMINISTIC)
    assert found.infoc == pytest.approx(frozen["infoc"], abs=DETERMINISTIC)
    assert found.infoe == pytest.approx(frozen["infoe"], abs=DETERMINISTIC + OWN_SPREAD * frozen["spread"])


# Its parts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", [3, 10])
@pytest.mark.parametrize("classes", [2, 7, 40])
@pytest.mark.parametrize("ties", [False, True])
def test_neighbours_by_sorting_equal_those_by_trees(classes: int, neighbours: int, ties: bool) -> None:
    rng = np.random.default_rng(classes)
    codes = rng.integers(classes, size=60 * classes)
    column = codes + rng.standard_normal(len(codes)) * classes / 3
    column = np.round(column) if ties else column
    ours = ross(sorted_column(column, 5), codes, neighbours, digamma_table(len(codes)))
    theirs = mutual_info_classif(
        column[:, None], codes, discrete_features=False, n_neighbors=neighbours, random_state=5
    )
    assert ours == pytest.approx(theirs[0], abs=1e-11)
    assert ours > 0.05


def test_compiled_exponentials_and_logarithms_equal_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    logits = rng.uniform(-690, 690, size=(7, 500))
    logits[0, :3] = 0.0, -0.0, 1e-300
    values, sums = logits.copy(), np.zeros(500)
    for row in values:
        exponentials(row, sums)
    np.testing.assert_allclose(values, np.exp(logits), rtol=1e-15)
    np.testing.assert_allclose(sums, np.exp(logits).sum(axis=0), rtol=1e-14)
    positive = np.r_[values.ravel(), 1 + rng.uniform(-0.4, 0.5, 2000), 1 + 1e-12, 1 - 1e-12, 1.0, 2.0]
    found = np.empty(len(positive))
    logarithms(positive, found)
    np.testing.assert_allclose(found, np.log(positive), rtol=1e-15)


@pytest.mark.parametrize("longest", [1.0, 1e9], ids=["as it is", "may overflow"])
@pytest.mark.parametrize(("n", "width", "classes"), [(1, 1, 2), (239, 4, 3), (240, 5, 4), (500, 9, 7)])
def test_the_loss_is_the_weighted_cross_entropy_and_its_gradient(longest, n, width, classes) -> None:
    """Whatever is filled up: rows to whole blocks, features to fours, classes to an even number."""
    rng = np.random.default_rng([n, classes])
    rows, weights = design(rng.standard_normal((n, width - 1))), rng.standard_normal((classes, width))
    codes, importance = rng.integers(classes, size=n), rng.uniform(0.5, 2, n)
    p = np.exp(rows @ weights.T)
    p /= p.sum(axis=1, keepdims=True)
    of, flat, own = Regressors(rows), weights.T.reshape(-1), (np.arange(n), codes)
    label, weight = of.filled(codes), of.filled(importance)
    expected = -(importance * np.log(p[own])).sum()
    p[own] -= 1
    for loss, problem in (
        (logistic_loss, (of.blocks, longest, label, weight)),
        (small.logistic_loss, (rows.T, longest, codes, importance)),
    ):
        gradient = np.empty(classes * width)
        assert loss(flat, classes, *problem, gradient) == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(gradient.reshape(width, classes), rows.T @ (p * importance[:, None]), atol=1e-11)


def hard_problems() -> dict[str, tuple[np.ndarray, np.ndarray, int]]:
    """Regressions whose line searches take one trial, and many: features of very different size, classes far apart, few rows."""
    rng = np.random.default_rng(3)
    codes = rng.integers(5, size=700)
    noise = rng.standard_normal((700, 6))
    return {
        "easy": (noise + 0.4 * codes[:, None], codes, 5),
        "scaled": (noise * [1e-3, 1, 1, 30, 300, 1e3] + codes[:, None], codes, 5),
        "apart": (noise + 40 * (codes[:, None] == np.arange(6)), codes, 5),
        "off centre": (noise + 500 + codes[:, None], codes, 5),
        "skewed": (np.exp(2 * noise) + codes[:, None], codes, 5),
        "few": (noise[:12], np.arange(12) % 3, 3),
    }


@pytest.mark.parametrize("name", hard_problems())
@pytest.mark.parametrize("steps", [1, 4, 12, 40])
@pytest.mark.parametrize("few", [0, small.FEW], ids=["compiled", "numpy"])
def test_the_descent_is_that_of_scipy_step_by_step(name: str, steps: int, few: int, monkeypatch) -> None:
    monkeypatch.setattr(small, "FEW", few)
    features, codes, classes = hard_problems()[name]
    of = Regressors(design(features))
    weight = (len(codes) / (classes * np.bincount(codes)))[codes]
    label, importance = of.filled(codes), of.filled(weight)

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = np.empty_like(flat)
        return logistic_loss(flat, classes, of.blocks, of.longest, label, importance, gradient), gradient

    tolerances = {"gtol": GRADIENT_TOLERANCE, "ftol": RELATIVE_TOLERANCE}
    start = np.zeros(7 * classes)
    theirs = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options={"maxiter": steps, **tolerances})
    ours = regress(of, codes, classes, steps)
    found = ours.weights.T.reshape(-1)
    if (
        steps <= 12
    ):  # later rounding errors have grown; after 400 steps scipy's own end moves by 8 % if rows change their order
        np.testing.assert_allclose(found, theirs.x, rtol=1e-6, atol=1e-9 * np.abs(theirs.x).max())
        assert (ours.steps, ours.converged) == (theirs.nit, theirs.success)
    assert loss_and_gradient(found)[0] == pytest.approx(theirs.fun, rel=1e-7, abs=1e-7)
    if (name, steps) == ("skewed", 12):
        assert theirs.nfev > theirs.nit + 5  # line searches of several trials are among those compared


@pytest.mark.parametrize("kind", ["normal", "ties", "rounded sums", "constant"])
def test_few_rows_have_the_neighbours_that_compiled_loops_find(kind: str) -> None:
    rng = np.random.default_rng(4)
    column = {
        "normal": rng.standard_normal(900),
        "ties": rng.integers(4, size=900).astype(float),
        "rounded sums": 1e8 + rng.integers(50, size=900) * 2.0**-25,
        "constant": np.ones(900),
    }[kind]
    codes = np.r_[rng.integers(5, size=890), 5, 5, 6, 7, 7, 7, 7, 7, 7, 7]
    sizes, order = np.bincount(codes), np.argsort(column, kind="stable")
    values = column[order] if kind == "rounded sums" else sorted_column(column, 0).values
    by_class = np.argsort(codes[order], kind="stable")
    counts = np.arange(901.0)  # in the place of digammas: whole numbers, and their sum is exact
    found = [loops.neighbour_digammas(values, by_class, sizes, 3, counts) for loops in (kernels, small)]
    assert found[0] == found[1] > 900
    assert small.neighbour_digammas(values, by_class, sizes, 4, counts) != found[1]


def test_a_score_by_numpy_is_the_compiled_one(monkeypatch) -> None:
    """Unconverged regressions, too: 1e-9 is what the documentation of `infomec` promises of converged ones."""
    table = noisy(300, 5)
    by_numpy = infomec(*table)
    monkeypatch.setattr(small, "FEW", 0)
    monkeypatch.setattr(small, "FEW_ROWS", 0)
    compiled = infomec(*table)
    assert by_numpy.scores == pytest.approx(compiled.scores, abs=1e-9)
    assert by_numpy.scores != compiled.scores  # other last digits: they are two ways


def test_all_compiled_code_is_in_one_file() -> None:
    """numba's cache sees a change of the file of a function only: a descent must not keep the loss of an older file."""
    folder = Path(kernels.__file__).parent
    assert [path.name for path in folder.glob("*.py") if "import compiled" in path.read_text(encoding="utf-8")] == [
        "kernels.py"
    ]
    assert descend.__module__ == logistic_loss.__module__


@pytest.mark.parametrize("classes", [2, 5])
def test_a_converged_regression_is_that_of_scikit_learn(classes: int) -> None:
    rng = np.random.default_rng(classes)
    codes = rng.integers(classes, size=800)
    features = rng.standard_normal((800, 4)) + 0.5 * codes[:, None]
    rows = design(features)
    ours = regress(Regressors(rows), codes, classes, 5000, gradient_tolerance=1e-5, relative_tolerance=1e-14)
    theirs = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=5000, tol=1e-9).fit(features, codes)
    assert ours.converged
    assert cross_entropy(ours, rows, codes) == pytest.approx(log_loss(codes, theirs.predict_proba(features)), abs=1e-7)
    assert cross_entropy(ours, rows, codes) < math.log(classes) - 0.05


# What it cares about -----------------------------------------------------------------------------------------------------


def test_a_perfect_code_scores_one_and_rotation_leaves_its_explicitness_alone() -> None:
    before, after = infomec(*perfect()), infomec(*rotated())
    assert before.scores == pytest.approx({"infom": 1, "infoc": 1, "infoe": 1}, abs=0.02)
    assert after.infom < before.infom - 0.4
    assert after.infoc < before.infoc - 0.4
    assert after.infoe == pytest.approx(before.infoe, abs=0.01)
    discrete = infomec(perfect()[1], perfect()[1])
    assert discrete.settings["latents"] == "discrete"
    assert (discrete.infom, discrete.infoe) == pytest.approx((1, 1), abs=0.01)


def test_a_common_scale_does_not_matter_but_one_of_a_single_latent_can() -> None:
    latents, factors = rotated()
    latents = np.concatenate([latents, np.random.default_rng(3).standard_normal((len(latents), 1))], axis=1)
    before = infomec(latents, factors)
    assert infomec(1000 * latents, factors).infom == pytest.approx(before.infom, abs=1e-9)
    shrunk = latents * [1, 1, 1, 1e-3]  # the noise falls below the range test
    assert before.details["active"] == [True] * 4
    assert infomec(shrunk, factors).details["active"] == [True] * 3 + [False]
    assert infomec(shrunk, factors).infom != pytest.approx(before.infom, abs=1e-3)


def test_noise_lies_within_its_null_and_a_code_does_not() -> None:
    latents, factors = perfect(n=600)
    noise = np.random.default_rng(1).standard_normal(latents.shape)
    of_noise = disentangle(as_codes(noise, factors), ScoreOptions(metrics=["infomec"], null=20)).metrics["infomec"]
    of_code = disentangle(as_codes(latents, factors), ScoreOptions(metrics=["infomec"], null=20)).metrics["infomec"]
    assert of_noise.nulls["infoe"].p > 0.05
    assert of_code.nulls["infoe"].p == pytest.approx(1 / 21)
    assert of_noise.infoe <= of_noise.nulls["infoe"].q95 + 0.01
    assert of_code.infoe > of_code.nulls["infoe"].q95 + 0.5


def noisy(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two factors in two latents with noise, and a latent of noise alone."""
    rng = np.random.default_rng(seed)
    factors = rng.integers(4, size=(n, 2))
    return np.column_stack([factors + 0.5 * rng.standard_normal((n, 2)), rng.standard_normal(n)]), factors


@pytest.mark.long
def test_intervals_cover_the_mean_score_of_tables_of_their_size() -> None:
    """Of 8 tables; 95 % asked, and fewer than 5 of 8 is what a right interval gives once in 2,000 times."""
    names = ["infomec", "mig", "irs", "modularity"]
    others = [disentangle(as_codes(*noisy(150, 1000 + k)), ScoreOptions(metrics=names)).metrics for k in range(8)]
    expected = {(n, key): np.mean([o[n].scores[key] for o in others]) for n in names for key in others[0][n].scores}
    covered = dict.fromkeys(expected, 0)
    for k in range(8):
        found = disentangle(as_codes(*noisy(150, k)), ScoreOptions(metrics=names, bootstrap=10)).metrics
        for (name, key), mean in expected.items():
            low, high = found[name].intervals[key]
            assert high <= 1
            covered[name, key] += low <= mean <= high
    assert min(covered.values()) >= 5, covered
    assert max(high - low for low, high in found["infomec"].intervals.values()) < 1.0  # and they are not the whole line


def test_rare_classes_are_said() -> None:
    latents, factors = noisy(400, 0)
    rare = np.column_stack([factors, np.arange(400) == 7])
    options = ScoreOptions(metrics=["mig", "unsupervised"], bootstrap=10, null=3)
    found, without = (disentangle(as_codes(latents, f), options).metrics for f in (rare, factors))
    assert "rare_classes" in {a.code for a in found["mig"].alerts}
    assert all(math.isnan(end) for end in found["mig"].intervals["mig"])  # a single row is in no two halves
    assert "rare_classes" not in {a.code for a in without["mig"].alerts}
    assert without["mig"].nulls
    assert not without["unsupervised"].nulls  # which asks for no factors


def test_infom_of_a_noiseless_leak_rises_with_noise() -> None:
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(10, size=3000) for _ in range(4)], axis=1)
    standard = (factors - factors.mean(axis=0)) / factors.std(axis=0)
    mixing = np.eye(4) + 0.015 * rng.standard_normal((4, 4))  # nearly perfect: cross-correlations of 1 to 2 %
    leaking = standard @ mixing
    assert np.abs(np.corrcoef(leaking.T, standard.T)[:4, 4:].diagonal()).min() > 0.99
    points = noise_sweep(leaking, factors)
    found = [point.scores["infom"] for point in points]
    assert [point.noise for point in points] == [0.0, 0.01, 0.03, 0.1]
    assert found[0] < 0.8
    assert found[-1] > 0.95
    own = [point.scores["infom"] for point in noise_sweep(*perfect())]  # nothing to cover
    assert own[-1] == pytest.approx(own[0], abs=0.03)


def test_explicitness_of_held_out_rows_is_not_that_of_fitted_ones() -> None:
    rng = np.random.default_rng(0)
    factors, latents = rng.integers(5, size=(200, 1)), rng.standard_normal((200, 30))
    assert infomec(latents, factors, parts=("infoe",)).infoe > 0.15  # overfitted
    assert infomec(latents, factors, parts=("infoe",), holdout=0.5).infoe < 0


def test_an_invertible_map_leaves_converged_explicitness_as_it_is() -> None:
    latents, factors = rotated()
    latents = latents + np.random.default_rng(9).standard_normal(latents.shape)
    mixing = np.array([[1.0, 0.9, 0.0], [0.0, 1.0, 0.9], [0.0, 0.0, 0.01]])
    before, after = (converged_infoe(as_codes(z, factors)) for z in (latents, latents @ mixing))
    assert after == pytest.approx(before, abs=1e-6)
    lost = converged_infoe(as_codes(latents[:, :2], factors))  # not invertible
    assert lost < before - 0.01


def test_continuous_factors_are_scored() -> None:
    rng = np.random.default_rng(0)
    factors = rng.uniform(size=(2000, 2))
    aligned = infomec(factors + 0.01 * rng.standard_normal(factors.shape), factors)
    mixed = infomec(factors @ [[1.0, -1.0], [1.0, 1.0]] + 0.01 * rng.standard_normal(factors.shape), factors)
    assert aligned.infom > 0.9
    assert aligned.infoe > 0.99
    assert mixed.infom < 0.3
    assert mixed.infoe > 0.99
    assert infomec(rng.standard_normal((2000, 2)), factors).infoe < 0.01


# Where the originals fail ------------------------------------------------------------------------------------------------


def test_latents_without_information_are_defined() -> None:
    """Of two factors and three latents of noise the original gives NaN in 7 of 12 draws."""
    dropped = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        latents, factors = rng.standard_normal((200, 3)), rng.integers(3, size=(200, 2))
        found = infomec(latents, factors)
        assert all(math.isfinite(value) for value in found.scores.values())
        silent = [a for a in found.alerts if a.code == "uninformative_latents"]
        dropped += bool(silent)
        if silent:
            other = infomec(latents, factors, profile="hsu-training", parts=("infom",))
            assert math.isfinite(other.infom)
    assert dropped > 3


def test_what_is_alone_or_constant_is_defined_and_said() -> None:
    latents, factors = perfect()
    whole, alone, single = (
        infomec(z, s) for z, s in ((latents, factors), (latents[:, :1], factors), (latents, factors[:, :1]))
    )
    nothing = infomec(np.ones((len(factors), 2)), factors)
    more = infomec(latents, np.column_stack([factors, np.zeros(len(factors), dtype=int)]))
    assert (alone.infoc, single.infom) == (0, 0)
    assert [list(each.by_definition()) for each in (alone, single, whole)] == [["infoc"], ["infom"], []]
    assert set(nothing.meaningless()) == {"infom", "infoc"}
    assert nothing.scores == pytest.approx({"infom": 0, "infoc": 0, "infoe": 0}, abs=1e-9)
    assert more.infom == pytest.approx(whole.infom)
    codes = [{a.code for a in each.alerts} for each in (alone, single, nothing, more)]
    for code, said in zip(
        ("one_active_latent", "one_factor", "no_active_latent", "constant_factors"), codes, strict=True
    ):
        assert code in said
        assert code not in {a.code for a in whole.alerts}


def test_a_regression_that_stopped_early_is_said() -> None:
    latents, factors, _ = CASES["mixed 40x5x3"]
    found = infomec(latents, factors)
    assert False in found.details["converged_of_factor"]
    assert "infoe_stopped_early" in {a.code for a in found.alerts}
    latents, factors, _ = CASES["aligned 2x3"]
    assert "infoe_stopped_early" not in {a.code for a in infomec(latents, factors).alerts}


@pytest.mark.parametrize(
    ("latents", "factors", "options", "error", "message"),
    [
        (np.full((5, 2), np.nan), np.arange(5), {}, DataError, "10 NaN or infinite"),
        (np.ones(5), np.arange(5), {}, DataError, "2-D"),
        (np.ones((5, 2)), np.arange(4), {}, PairingError, "expected 5 rows"),
        (np.eye(5), np.zeros(5, dtype=int), {}, DataError, "factor 0"),
        (np.eye(5), np.arange(5), {"profile": "hsu"}, UsageError, "hsu-standalone"),
        (np.eye(5), np.arange(5), {"parts": ()}, UsageError, "infom"),
        (np.eye(5), np.arange(5), {"holdout": 1.0}, UsageError, "holdout"),
        (np.eye(10), np.arange(20).reshape(10, 2) % 3, {"holdout": 0.96}, UsageError, "10 rows"),
        (np.arange(40_000).reshape(-1, 2), np.arange(20_000) % 3, {"discrete": True}, DataError, "--continuous"),
        (np.eye(5), np.arange(5), {"seed": 2**32}, UsageError, "whole number"),
        (np.eye(5), np.arange(5), {"seed": 1.5}, UsageError, "whole number"),
        (np.eye(5) * 1e200, np.arange(5), {}, DataError, "ordinary size"),
        (np.eye(5), np.arange(5), {"kinds": ["discrete"] * 2}, UsageError, "kinds: .* 1 factors"),
        (np.eye(5), np.array(list("abcde")), {"kinds": "continuous"}, DataError, "call it discrete"),
        (np.array([["a"]]), np.arange(1), {}, DataError, "text"),
        (np.eye(5), None, {}, UsageError, "beside the latents"),
        (np.eye(5), np.array([1, 2, 3, 4, np.nan]), {}, DataError, "column 0 .*NaN"),
    ],
)
def test_bad_input_is_refused(latents: Any, factors: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        infomec(latents, factors, **options)


def test_columns_that_are_no_factors_are_noticed() -> None:
    latents, factors = perfect(n=300)
    numbers = np.column_stack([factors, np.arange(300)])
    found = infomec(latents, numbers, parts=("infom",))
    assert "taken_as_continuous" in {a.code for a in found.alerts}
    words = [*factors.T.astype(str), np.array([f"image{i}" for i in range(300)])]
    with pytest.raises(DataError, match=naming(300, "300 rows")):
        infomec(latents, words)
    rare = np.column_stack([factors, np.arange(300) // 4])
    assert "few_rows_per_class" in {a.code for a in infomec(latents, rare, parts=("infom",)).alerts}
    assert infomec(latents, factors, parts=("infom",)).alerts == ()


def test_float_codes_of_few_values_are_noticed() -> None:
    _, factors = perfect()
    assert "few_values" in {a.code for a in infomec(factors / 7, factors, parts=("infom",)).alerts}
    assert "few_values" not in {a.code for a in infomec(factors / 7, factors, parts=("infom",), discrete=True).alerts}
    assert "few_values" not in {a.code for a in infomec(*perfect(), parts=("infom",)).alerts}


def test_whole_numbers_that_mostly_occur_once_are_no_codes() -> None:
    factors = np.random.default_rng(3).uniform(size=(300, 2))
    levels = np.round(1000 * factors).astype(np.int16)
    found, asked = (infomec(levels, factors, parts=("infom",), discrete=discrete) for discrete in (None, True))
    assert found.infom == infomec(levels.astype(float), factors, parts=("infom",)).infom > 0.9
    assert "taken_as_continuous" in {a.code for a in found.alerts}
    assert asked.infom < 0.2
    assert {a.code for a in asked.alerts} == {"few_rows_per_class"}
    assert infomec(levels // 100, factors, parts=("infom",)).alerts == ()


def test_noise_is_no_information_and_a_code_is() -> None:
    latents, factors = perfect(n=300)
    noise = np.random.default_rng(4).standard_normal(latents.shape)
    found = infomec(noise, factors)
    (alert,) = (a for a in found.alerts if a.code == "no_information")
    assert alert.values["nmi"] == np.max(found.matrix.values)
    assert set(found.meaningless()) == {"infom", "infoc"}
    assert not infomec(np.column_stack([noise, latents[:, 0]]), factors).meaningless()


@pytest.mark.parametrize("profile", PROFILES)
def test_latents_that_carry_a_factor_and_are_left_out_for_their_scale_are_named(profile: str) -> None:
    factors = np.random.default_rng(5).uniform(size=(400, 3))
    (alert,) = infomec(factors * [0.04, 1, 1], factors, profile=profile, parts=("infoc",)).alerts
    assert (alert.code, list(alert.values["informative"])) == ("pruned_latents", ["latent 0"])
    still = np.column_stack([factors, 1e-3 * np.random.default_rng(6).standard_normal(400)])
    assert infomec(still, factors, profile=profile, parts=("infoc",)).alerts == ()


def test_latents_so_far_from_0_that_the_noise_of_ties_blurs_them_are_named() -> None:
    factors = np.random.default_rng(7).uniform(size=(400, 2))
    found = infomec(factors + np.array([1e10, 1e3]), factors, parts=("infom",))
    (alert,) = (a for a in found.alerts if a.code == "far_from_zero")
    assert alert.values["latents"] == ["latent 0"]
    assert alert.values["noise"] == pytest.approx(1.0 / factors[:, 0].std(), rel=0.01)


def test_a_far_outlier_of_a_factor_is_an_alert() -> None:
    factors = np.random.default_rng(8).uniform(size=(400, 2))
    far = factors.copy()
    far[0, 1] = 1e6
    for found in (infomec(factors, far), mig(factors, far), explicitness(factors, far)):
        (alert,) = (a for a in found.alerts if a.code == "one_full_bin")
        assert alert.values["factors"] == ["factor 1"]
    assert "one_full_bin" not in {a.code for a in infomec(factors, factors).alerts}


def test_tables_of_pandas_keep_names_and_are_joined_on_their_labels() -> None:
    pandas = pytest.importorskip("pandas")
    latents, factors = perfect(n=400)
    labels = [f"r{i}" for i in range(400)]
    z = pandas.DataFrame(latents, columns=list("abc"), index=labels)
    s = pandas.DataFrame(factors, columns=["shape", "size", "hue"], index=labels)
    s["shape"] = np.array(["x", "y", "z"])[factors[:, 0]]
    order = np.random.default_rng(0).permutation(400)
    before, joined = infomec(z, s, parts=("infom",)), infomec(z, s.iloc[order], parts=("infom",))
    assert joined.infom == before.infom > 0.9
    assert as_codes(z, s).names == ("shape", "size", "hue")
    assert as_codes(z, s).latent_names == ("a", "b", "c")
    by_position = infomec(z.to_numpy(), s.iloc[order].to_numpy(), parts=("infom",))
    assert by_position.infom != pytest.approx(before.infom, abs=0.1)
    with pytest.raises(PairingError, match="first: 'r3'"):
        infomec(z, s.rename(index={"r3": "other"}))
    s.loc["r5", "shape"] = None
    with pytest.raises(DataError, match=naming("column 0", 1)):
        infomec(z, s)


def test_ica_undoes_a_rotation_and_the_explicitness_agrees() -> None:
    found = disentangle(
        as_codes(*rotated()), ScoreOptions(metrics=["infomec"], resolve=["centred", "whitened"], bootstrap=2, null=2)
    )
    before = found.metrics["infomec"].infom
    for step in found.after:
        assert step.converged
        assert step.metrics["infomec"].infom > before + 0.4
        assert step.infoe_agrees
        low, high = step.metrics["infomec"].intervals["infom"]
        assert low < step.metrics["infomec"].infom <= high
        assert step.metrics["infomec"].nulls["infoe"].p == pytest.approx(1 / 3)
    assert found.metrics["infomec"].infom < 0.6


def test_a_metric_or_mode_that_does_not_apply_loses_no_other() -> None:
    rng = np.random.default_rng(0)
    latents, factors = rng.standard_normal((300, 3)), rng.uniform(size=(300, 2))  # BetaVAE wants classes
    found = disentangle(as_codes(latents, factors), ScoreOptions(metrics="all"))
    assert "infomec" in found.metrics
    assert "betavae" not in found.metrics
    assert any(a.code == "metric_left_out" and a.message.startswith("betavae") for a in found.alerts)
    with pytest.raises(DataError, match="discrete factors"):
        disentangle(as_codes(latents, factors), ScoreOptions(metrics=["betavae"]))
    far = rotated()[0] * [3000, 1, 1] + 1e6
    modes = disentangle(as_codes(far, rotated()[1]), ScoreOptions(metrics=["mig"], resolve=["literal", "whitened"]))
    assert [step.mode for step in modes.after] == ["whitened"]
    assert "ica_failed" in {a.code for a in modes.alerts}


def test_ica_and_noise_of_discrete_codes_are_refused_or_left_out() -> None:
    codes = as_codes(perfect()[1], perfect()[1])
    with pytest.raises(UsageError, match="continuous latents"):
        disentangle(codes, ScoreOptions(metrics=["mig"], resolve=["centred"]))
    with pytest.raises(UsageError, match="continuous latents"):
        noise_sweep(codes)
    left_out = disentangle(codes, ScoreOptions(metrics=["mig"], noise_sweep=True))
    assert left_out.sweep == ()
    assert "no_noise_sweep" in {a.code for a in left_out.alerts}


def test_the_number_of_workers_changes_nothing() -> None:
    latents, factors = rotated()
    one, two = (infomec(latents, factors, workers=w) for w in (1, 2))
    assert one == two
    assert infomec(latents, factors, seed=1).infom == one.infom  # no ties, so the noise that breaks them tells nothing
    tied = np.round(latents, 1)
    assert infomec(tied, factors, seed=1).infom != infomec(tied, factors, seed=0).infom
