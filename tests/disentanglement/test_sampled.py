"""BetaVAE and FactorVAE scores from one encoding: closed forms, degenerate tables, and literal sampling of a grid."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from identifiable import DataError, UsageError
from identifiable.disentanglement.codes import as_codes
from identifiable.disentanglement.sampled import betavae_score, factorvae_score

FEW = {"train": 600, "test": 300}
SCORES = {"betavae": betavae_score, "factorvae": factorvae_score}
REFERENCE = Path(__file__).parents[1] / "reference" / "sampled.json"
both = pytest.mark.parametrize("name", SCORES)


def grid(*sizes: int) -> np.ndarray:
    return np.stack(np.meshgrid(*map(range, sizes), indexing="ij"), -1).reshape(-1, len(sizes))


OF_THE_INPUT = ("few_rows_per_class", "few_values", "few_rows")  # grids are small here, and codes are exact


def own_alerts(metric):
    return [alert for alert in metric.alerts if alert.code not in OF_THE_INPUT]


def codes_of_the_alert(metric) -> list[str]:
    return [alert.code for alert in own_alerts(metric)]


@both
def test_a_perfect_code_scores_1_in_any_order_sign_and_scale(name):
    S = grid(3, 4, 5)
    found = SCORES[name](S[:, [2, 0, 1]] * [-2.0, 1.0, 30.0] + 4, S, **FEW)
    assert found.scores[name] == 1.0
    assert found.details["chance"] == pytest.approx(1 / 3)
    assert not own_alerts(found)


@both
@pytest.mark.parametrize("case", ["turned", "one_latent_for_two_factors", "noisy", "noise"])
def test_scores_come_from_the_distribution_of_literal_sampling(name, case):
    reference = json.loads(REFERENCE.read_text())
    size = {k: reference["sizes"][k] for k in ("samples", "train", "test")}
    known = reference["cases"][case]
    codes = as_codes(np.array(known["latents"]), np.array(reference["factors"]))
    ours = np.mean([SCORES[name](codes, seed=seed, **size).scores[name] for seed in range(8)])
    error = known[name]["sd"] * math.sqrt(1 / 8 + 1 / reference["sizes"]["repeats"])
    assert abs(ours - known[name]["mean"]) < 4 * error + 1e-9


def test_betavae_depends_on_the_scale_through_its_penalty_and_factorvae_does_not():
    S = grid(5, 5)
    turned = S @ np.array([[1.0, 0.5], [0.3, -1.0]])
    tiny = 1e-4 * turned
    assert betavae_score(turned, S, **FEW).betavae > 0.9
    assert betavae_score(tiny, S, **FEW).betavae < betavae_score(turned, S, **FEW).betavae
    assert (
        factorvae_score(tiny, S, prune_below=0, **FEW).factorvae
        == factorvae_score(turned, S, prune_below=0, **FEW).factorvae
    )


def test_latents_below_the_threshold_have_no_vote_and_the_alert_names_them():
    S = grid(4, 4)
    Z = np.column_stack([S[:, 0], 0.01 * S[:, 1], S[:, 1], np.full(16, 2.0)])
    found = factorvae_score(Z, S, **FEW)
    assert found.details["active"] == [True, False, True, False]
    assert codes_of_the_alert(found) == ["pruned_latents"]
    assert own_alerts(found)[0].values["latents"] == ["latent 1", "latent 3"]
    assert found.factorvae == 1.0
    votes = np.array(found.matrix.values)
    assert votes[:, [1, 3]].sum() == 0
    assert np.allclose(votes.sum(axis=1), 1)


def test_without_an_active_latent_factorvae_is_0_as_in_disentanglement_lib_and_betavae_guesses():
    S = grid(4, 4)
    for Z in (0.001 * S, np.ones((16, 2))):
        found = factorvae_score(Z, S, **FEW)
        assert found.factorvae == 0.0
        assert codes_of_the_alert(found) == ["pruned_latents"]
    assert abs(betavae_score(np.ones((16, 2)), S, **FEW).betavae - 0.5) < 0.12
    with_constant = np.column_stack([np.full(16, 0.1), S])
    assert factorvae_score(with_constant, S, prune_below=0, **FEW).factorvae == 1.0


@both
def test_one_factor_has_nothing_to_be_told_from(name):
    S = grid(6, 3)
    found = SCORES[name](S.astype(float), S[:, :1], **FEW)
    assert math.isnan(found.scores[name])
    assert codes_of_the_alert(found) == ["one_factor"]


@both
def test_a_row_whose_values_no_other_row_has_is_not_drawn(name):
    S = np.vstack([grid(4, 4), [[9, 9]]])
    Z = S.astype(float)
    Z[-1] = -500.0  # would swamp every example it is in
    found = SCORES[name](Z, S, **FEW)
    assert found.scores[name] == 1.0
    assert codes_of_the_alert(found) == ["unpaired_rows", "unpaired_rows"]
    assert own_alerts(found)[0].values == {"factor": "factor 0", "alone": 1, "rows": 17}
    twice = SCORES[name](np.vstack([Z, Z[-1:]]), np.vstack([S, S[-1:]]), **FEW)
    assert not own_alerts(twice)


@both
def test_factors_that_no_rows_share_are_left_out_and_none_left_is_an_error(name):
    S = grid(5, 5)
    between = np.random.default_rng(0).permutation(np.linspace(0, 1, 25))
    codes = as_codes(S.astype(float), [S[:, 0], S[:, 1], between])
    found = SCORES[name](codes, **FEW)
    assert found.scores[name] == 1.0
    assert codes_of_the_alert(found) == ["continuous_factor"]
    assert found.details["factors"] == ["factor 0", "factor 1"]
    assert found.matrix is None
    with pytest.raises(DataError, match="factor 0"):
        SCORES[name](S.astype(float), np.linspace(0, 1, 25), **FEW)
    with pytest.raises(DataError, match="bin them"):
        SCORES[name](S.astype(float), np.arange(25), **FEW)


@both
def test_correlated_factors_of_a_sample_are_drawn_as_they_occur(name):
    rng = np.random.default_rng(1)
    first = rng.integers(0, 4, 3000)
    second = np.where(rng.random(3000) < 0.95, first, rng.integers(0, 4, 3000))
    S = np.column_stack([first, second])
    free = np.column_stack([first, rng.permutation(second)])
    assert SCORES[name](S.astype(float), S, samples=8, **FEW).scores[name] < 0.97
    assert SCORES[name](free.astype(float), free, samples=8, **FEW).scores[name] > 0.98


@both
def test_the_same_seed_gives_the_same_score_and_another_seed_another(name):
    S = grid(5, 5, 5)
    Z = S + np.random.default_rng(0).standard_normal(S.shape)
    one, again, other = (SCORES[name](Z, S, samples=5, seed=seed, **FEW) for seed in (1, 1, 2))
    assert one == again
    assert one.scores != other.scores
    assert other.settings["seed"] == 2


def test_a_regression_that_stops_early_is_an_alert_and_no_warning():
    S = grid(5, 5)
    Z = np.random.default_rng(0).standard_normal((25, 40)) * np.geomspace(1, 1e7, 40)
    assert "not_converged" in codes_of_the_alert(betavae_score(Z, S, samples=4, **FEW))
    assert not own_alerts(betavae_score(S.astype(float), S, **FEW))


@both
def test_sizes_are_checked(name):
    S = grid(3, 3)
    for option, wrong in (
        ("samples", 1),
        ("train", 10),
        ("test", 0),
        *([("prune_below", -1)] if name == "factorvae" else []),
    ):
        with pytest.raises(UsageError, match=f"{option}: .*got {wrong}"):
            SCORES[name](S.astype(float), S, **{option: wrong})


@both
def test_settings_of_disentanglement_lib_are_the_default(name):
    S = grid(3, 3)
    known = {"samples": 64, "train": 10_000, "test": 5_000, "seed": 0}
    assert known.items() <= SCORES[name](S.astype(float), S).settings.items()
    assert factorvae_score(S.astype(float), S, **FEW).settings["prune_below"] == 0.05
