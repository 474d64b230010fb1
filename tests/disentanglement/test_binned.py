"""MIG and its relatives, modularity and IRS: against a slow reference, in closed form, and what they do not change with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from identifiable import UsageError
from identifiable.disentanglement import binned
from identifiable.disentanglement.binned import dcimig, information, jemmig, mig, mig_sup, modularity
from identifiable.disentanglement.codes import Codes, as_codes
from identifiable.disentanglement.sampled import irs

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "disentanglement_lib_metrics.json").read_text())[
    "cases"
]
BINNED = {"mig": mig, "mig_sup": mig_sup, "jemmig": jemmig, "dcimig": dcimig, "modularity": modularity}
METRICS = {**BINNED, "irs": irs}
GRID = np.tile(np.indices((4, 4)).reshape(2, -1).T, (5, 1))
every = pytest.mark.parametrize("name", METRICS)


def score(name: str, *given, **options) -> float:
    return METRICS[name](*given, **options).scores[name]


def case(name: str) -> Codes:
    kept = REFERENCE[name]
    kinds = ["continuous" if c else "discrete" for c in kept["continuous"]]
    return as_codes(np.array(kept["latents"]) / 1000, np.array(kept["factors"]), discrete=kept["discrete"], kinds=kinds)


def noisy_code(seed: int, rows: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, 51])
    factors = rng.integers(0, 5, (rows, 3))
    return factors + 0.2 * rng.standard_normal((rows, 3)), factors


@every
@pytest.mark.parametrize("name_of_case", REFERENCE)
def test_a_score_equals_the_slow_reference(name, name_of_case):
    expected = REFERENCE[name_of_case]["scores"][name]
    found = score(name, case(name_of_case))
    assert np.isnan(found) if expected is None else found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name_of_case", REFERENCE)
def test_the_information_matrix_is_factor_by_latent_and_equals_the_slow_reference(name_of_case):
    expected = np.array(REFERENCE[name_of_case]["scores"]["information"])
    found = mig(case(name_of_case)).matrix
    assert found is not None
    assert np.array(found.values).shape == expected.shape
    np.testing.assert_allclose(found.values, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([0, 1, 2, 3], {"modularity": 1.0, "mig": 1.0, "irs": 1.0}),
        ([0, 1, 2, 3, 0, 1, 2, 3], {"modularity": 1.0, "mig": 0.0, "irs": 1.0}),
        ([0, 1], {"modularity": 1.0, "mig": 0.5, "irs": 1.0}),
    ],
    ids=["perfect", "redundant", "missed factors"],
)
def test_codes_of_four_bits_score_as_in_closed_form(columns, expected):
    """Facts that disentanglement_lib's own tests hold: redundancy costs MIG alone, and a missed factor does not cost modularity."""
    bits = np.tile(np.indices((2, 2, 2, 2)).reshape(4, -1).T, (4, 1))
    for name, value in expected.items():
        assert score(name, bits[:, columns] * 0.7, bits) == pytest.approx(value, abs=1e-9)
    two_in_one = (bits @ [2.0, 1.0, 0.0, 0.0])[:, None]  # 1 - (1 + 0 + 0) / (4 - 1): one other factor is told as well
    assert score("modularity", two_in_one, bits) == pytest.approx(2 / 3, abs=1e-9)


@pytest.mark.parametrize("name", ["mig", "mig_sup", "dcimig", "irs"])
def test_pure_noise_scores_near_zero(name):
    rng = np.random.default_rng(2)
    factors = rng.integers(0, 4, (30_000, 2))
    noise = rng.uniform(size=(30_000, 3))
    assert 0 <= score(name, noise, factors) < 0.03
    assert score("modularity", noise, rng.integers(0, 4, (30_000, 3))) > 0.2  # as its docstring warns


@every
def test_constant_latents_are_defined_without_a_warning(name):
    nothing = score(name, np.full((len(GRID), 3), 0.1), GRID)
    assert nothing == pytest.approx(np.log(20) / (np.log(4) + np.log(20)) if name == "jemmig" else 0.0, abs=1e-12)


@pytest.mark.parametrize("name", ["mig_sup", "modularity", "irs", "jemmig"])
def test_an_alert_names_constant_latents_and_no_others(name):
    with_one = METRICS[name](np.column_stack([GRID * 0.3, np.ones(len(GRID))]), GRID, discrete=False)
    (alert,) = with_one.alerts
    assert alert.code == "constant_latents"
    assert alert.values["latents"] == ["latent 2"]
    assert METRICS[name](GRID * 0.3, GRID, discrete=False).alerts == ()


def test_modularity_of_a_single_factor_is_undefined_and_says_so():
    alone = modularity(GRID * 0.3, GRID[:, :1], discrete=False)
    assert np.isnan(alone.modularity)
    assert [a.code for a in alone.alerts] == ["single_factor"]
    assert modularity(GRID * 0.3, GRID).modularity == pytest.approx(1)


@every
def test_order_sign_and_scale_of_latents_do_not_matter_but_rows_and_axes_do(name):
    latents, factors = noisy_code(0)
    before = score(name, latents, factors)
    assert score(name, latents[:, [2, 0, 1]], factors) == pytest.approx(before, abs=1e-12)
    assert score(name, latents * -3.7, factors) == pytest.approx(before, abs=1e-9)
    assert (score(name, latents * [1, -9.3, 0.2], factors) == pytest.approx(before, abs=1e-9)) == (name != "irs")
    assert score(name, as_codes(latents, factors)) == before
    turn = np.linalg.qr(np.random.default_rng(4).standard_normal((3, 3)))[0]
    for worse in (np.random.default_rng(0).permutation(latents), latents @ turn):
        assert score(name, worse, factors) < before - 0.1


def test_a_continuous_factor_is_binned_like_a_latent():
    rng = np.random.default_rng(6)
    factors = rng.uniform(size=(4000, 2))
    assert mig(factors, factors).mig > 0.95
    assert mig(rng.uniform(size=(4000, 2)), factors).mig < 0.02
    assert irs(factors, factors).irs == pytest.approx(1 - 1 / 20, abs=0.01)
    by_hand = np.floor(factors * 20).astype(int)  # the range is all but (0, 1)
    assert mig(factors, factors).mig == pytest.approx(mig(factors, by_hand).mig, abs=0.02)


def test_discrete_latents_keep_values_that_bins_would_merge():
    factor = np.tile(np.arange(40), 25)
    assert mig(factor[:, None], factor).mig == pytest.approx(1)
    assert mig(factor[:, None] * 1.0, factor).mig == pytest.approx(np.log(20) / np.log(40))


def test_irs_has_its_settings_weights_and_factors():
    wide, narrow = case("forty classes"), case("mixed")
    expected = REFERENCE["forty classes"]["scores"]["irs_binned"]  # that of disentanglement_lib
    assert irs(wide, bin_classes=True).irs == pytest.approx(expected, abs=1e-9)
    assert irs(wide, bin_classes=True).irs < irs(wide).irs - 0.01
    assert irs(narrow, bin_classes=True).irs == pytest.approx(irs(narrow).irs, abs=1e-12)
    found = irs(GRID[:, ::-1] * [3.0, 1.0], GRID)
    assert found.details["factor_of_latent"] == [1, 0]
    assert found.details["weight_of_latent"] == pytest.approx([4.5, 1.5])
    assert irs(*noisy_code(0), quantile=1.0).irs < irs(*noisy_code(0)).irs
    for quantile in (0, 1.1):
        with pytest.raises(UsageError, match="quantile"):
            irs(GRID * 0.3, GRID, quantile=quantile)
    constant = np.column_stack([GRID[:, 0] * 0.3, np.ones(len(GRID))])
    assert (irs(constant, GRID).irs, irs(constant, GRID).details["active_latents"]) == (pytest.approx(1.0), 1)
    assert modularity(constant, GRID).modularity == pytest.approx(0.5)


def test_an_outlier_that_empties_the_bins_is_an_alert():
    latents, factors = noisy_code(0)
    assert mig(latents, factors).alerts == ()
    latents[0, 1] = 1e6
    (alert,) = mig(latents, factors).alerts
    assert alert.code == "one_full_bin"
    assert alert.values["latents"] == ["latent 1"]


def test_the_table_is_made_once_for_codes_and_bins(monkeypatch):
    codes, made = as_codes(*noisy_code(0)), []
    monkeypatch.setattr(binned, "_information", lambda c, b, real=binned._information: made.append(b) or real(c, b))
    twenty = [score(name, codes) for name in BINNED]
    assert made == [20]
    assert score("mig", codes, bins=6) != twenty[0]
    assert made == [20, 6]
    assert mig(codes, bins=6).settings["bins"] == 6
    assert information(codes) is information(codes)


@every
@pytest.mark.parametrize("bins", [1, 0, 2.5, True])
def test_bins_that_make_no_sense_are_refused(name, bins):
    with pytest.raises(UsageError, match=f"bins: .*got {bins}"):
        METRICS[name](GRID * 0.3, GRID, bins=bins)


def test_more_classes_than_bins_are_said():
    rng = np.random.default_rng(0)
    factors = np.column_stack([rng.integers(40, size=2000), rng.integers(3, size=2000)])
    found = mig(factors + 0.01 * rng.standard_normal(factors.shape), factors)
    assert "more_classes_than_bins" in {a.code for a in found.alerts}
    assert found.mig < 0.95
    wider = mig(factors + 0.01 * rng.standard_normal(factors.shape), factors, bins=200)
    assert "more_classes_than_bins" not in {a.code for a in wider.alerts}
