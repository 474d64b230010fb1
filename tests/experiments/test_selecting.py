"""experiments.selecting: which setting and step stands for a model, by runs made by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from identifiable.disentanglement import MODES
from identifiable.experiments.selecting import AFTER_ICA, DISCRETE, ROWS, Selection, estimate, select
from identifiable.results import Cell, Evaluation, Lift, ModelRun

# The 97.5 % quantiles of Student's t with 2 and with 1 degrees of freedom, which have a closed form.
T_OF_THREE, T_OF_TWO = 0.95 / math.sqrt(2 * 0.975 * 0.025), math.tan(math.pi * 0.475)


def scores(infom: float, infoe: float = 0.8, infoc: float = 0.3) -> dict[str, float]:
    return {"infom": infom, "infoe": infoe, "infoc": infoc}


def seen(psnr: float, infom: float | Mapping[str, float], step: int = 10) -> Evaluation:
    by_mode = infom if isinstance(infom, Mapping) else {"none": infom}
    return Evaluation(step, 0.5, psnr, {mode: scores(value) for mode, value in by_mode.items()})


def run(
    model: str,
    *evaluations: Evaluation,
    seed: int = 0,
    data: str = "sprites",
    decay: float = 0.0,
    value: float = math.nan,
    stopped: str = "max_epochs",
) -> ModelRun:
    knob = None if math.isnan(value) else "beta"
    return ModelRun(data, model, knob, value, decay, seed, 10, stopped, evaluations)


def selected(*runs: ModelRun, within: float = 2.0) -> Selection:
    """Of the data sets and models that the runs have, in their order."""
    data, models = (tuple(dict.fromkeys(getattr(r, name) for r in runs)) for name in ("data", "model"))
    return select(runs, data, models, within)


def cell(selection: Selection, row: str, data: str = "sprites") -> Cell:
    found = selection.cell(row, data)
    assert found is not None
    return found


def lift(selection: Selection, data: str = "sprites", ica: str = "centred") -> Lift:
    (found,) = (one for one in selection.lifts if (one.data, one.ica) == (data, ica))
    return found


def codes(selection: Selection) -> dict[str, dict[str, Any]]:
    return {alert.code: alert.values for alert in selection.alerts}


# -- the interval


def test_the_interval_of_three_numbers_is_students() -> None:
    found = estimate([1.0, 2.0, 3.0])
    half = T_OF_THREE / math.sqrt(3)  # their standard deviation is 1
    assert (found.mean, found.n) == (2.0, 3)
    assert found.ci95 == pytest.approx((2 - half, 2 + half), rel=1e-12)
    assert estimate([2.0, 2.0, 2.0]).ci95 == (2.0, 2.0)
    assert estimate([0.0, 2.0]).ci95 == pytest.approx((1 - T_OF_TWO, 1 + T_OF_TWO), rel=1e-12)


def test_one_number_has_no_interval_and_none_has_no_mean() -> None:
    one, none = estimate([0.4]), estimate([math.nan])
    assert (one.mean, one.n, none.n) == (0.4, 1, 0)
    assert all(math.isnan(x) for x in (*one.ci95, *none.ci95, none.mean))


# -- the filter and the choice


def test_a_better_infom_below_the_threshold_is_not_taken_and_just_above_it_is() -> None:
    plain = run("ae", seen(20.0, 0.3))
    blurred = run("beta-vae", seen(17.9, 0.9), value=3.0)
    sharp = run("beta-vae", seen(18.0, 0.5), value=0.3)
    found = selected(plain, blurred, sharp)
    assert found.thresholds == {"sprites": 18.0}
    chosen = cell(found, "beta-VAE")
    assert (chosen.infom.mean, chosen.value, chosen.passed, chosen.considered) == (0.5, 0.3, 1, 2)
    looser = cell(selected(plain, blurred, sharp, within=2.2), "beta-VAE")
    assert (looser.infom.mean, looser.value, looser.passed) == (0.9, 3.0, 2)


def test_the_filter_and_the_choice_are_by_means_over_seeds() -> None:
    plain = [run("ae", seen(20.0, 0.3), seed=s) for s in (0, 1)]
    uneven = [run("beta-vae", seen(psnr, infom), seed=s, value=1.0) for s, psnr, infom in ((0, 10, 0.9), (1, 28, 0.1))]
    even = [run("beta-vae", seen(20.0, 0.49), seed=s, value=2.0) for s in (0, 1)]
    chosen = cell(selected(*plain, *uneven, *even), "beta-VAE")
    assert (chosen.value, chosen.psnr.mean, chosen.passed) == (1.0, 19.0, 2)
    assert chosen.infom.mean == pytest.approx(0.5)
    worse = [run("beta-vae", seen(psnr, 0.9), seed=s, value=1.0) for s, psnr in ((0, 10), (1, 25))]  # 17.5 on average
    assert cell(selected(*plain, *worse, *even), "beta-VAE").value == 2.0


def test_a_step_is_chosen_as_a_setting_is() -> None:
    found = selected(run("ae", seen(12.0, 0.9, step=5), seen(20.0, 0.3, step=10), seen(19.0, 0.4, step=15)))
    chosen = cell(found, "AE")
    assert (chosen.step, chosen.infom.mean, chosen.passed, chosen.considered) == (15, 0.4, 2, 3)


def test_of_equals_the_first_is_taken() -> None:
    plain = run("ae", seen(20.0, 0.3, step=5), seen(20.0, 0.3, step=10), decay=0.1)
    same = run("ae", seen(20.0, 0.3, step=5), decay=0.01)
    assert [(c.weight_decay, c.step) for c in (cell(selected(plain, same), "AE"),)] == [(0.1, 5)]
    assert cell(selected(same, plain), "AE").weight_decay == 0.01


def test_each_mode_of_ica_and_the_latents_as_they_are_choose_for_themselves() -> None:
    first = run("ae", seen(20.0, {"none": 0.5, "centred": 0.6, "literal": 0.2, "whitened": 0.9}), decay=0.1)
    second = run("ae", seen(20.0, {"none": 0.4, "centred": 0.7, "literal": 0.3, "whitened": 0.8}), decay=0.0)
    found = selected(first, second)
    rows = ("AE", *AFTER_ICA.values())
    assert rows == ("AE", "AE + ICA", "AE + ICA (literal)", "AE + ICA (whitened)")
    assert [cell(found, row).weight_decay for row in rows] == [0.1, 0.0, 0.0, 0.1]
    assert [cell(found, row).infom.mean for row in rows] == [0.5, 0.7, 0.3, 0.9]
    assert [cell(found, row).ica for row in rows] == ["none", *MODES]


# -- what is left out


def test_a_setting_of_which_a_seed_lacks_a_mode_is_left_out_of_that_row_alone() -> None:
    every = {"none": 0.4, "centred": 0.6}
    runs = [
        run("ae", seen(20.0, {"none": 0.5, "centred": 0.9}), seed=0, decay=0.1),
        run("ae", seen(20.0, {"none": 0.5}), seed=1, decay=0.1),
        *(run("ae", seen(20.0, every), seed=s, decay=0.0) for s in (0, 1)),
    ]
    found = selected(*runs)
    assert (cell(found, "AE + ICA").weight_decay, cell(found, "AE + ICA").considered) == (0.0, 1)
    assert (cell(found, "AE").weight_decay, cell(found, "AE").considered) == (0.1, 2)
    assert lift(found).difference.mean == pytest.approx(0.2)


def test_a_diverged_run_takes_its_setting_out_even_where_it_had_scores() -> None:
    plain = [run("ae", seen(20.0, 0.3), seed=s) for s in (0, 1)]
    good = [run("beta-vae", seen(20.0, 0.4), seed=s, value=0.3) for s in (0, 1)]
    better = [run("beta-vae", seen(20.0, 0.9), seed=s, value=3.0) for s in (0, 1)]
    diverged = run("beta-vae", seen(20.0, 0.9), seed=1, value=3.0, stopped="diverged")
    assert cell(selected(*plain, *good, *better), "beta-VAE").value == 3.0
    left = cell(selected(*plain, *good, better[0], diverged), "beta-VAE")
    assert (left.value, left.considered) == (0.3, 1)


def test_a_diverged_autoencoder_does_not_raise_the_threshold() -> None:
    best = run("ae", seen(30.0, 0.3), decay=0.1)
    gone = run("ae", seen(30.0, 0.3), decay=0.1, stopped="diverged")
    other = run("ae", seen(20.0, 0.3))
    assert selected(best, other).thresholds == {"sprites": 28.0}
    assert selected(gone, other).thresholds == {"sprites": 18.0}


def test_where_nothing_passes_there_is_no_score_and_an_alert() -> None:
    found = selected(run("ae", seen(20.0, 0.3)), run("beta-vae", seen(11.0, 0.9), value=1.0))
    empty = cell(found, "beta-VAE")
    assert math.isnan(empty.infom.mean)
    assert (empty.infom.n, empty.step, empty.passed, empty.considered) == (0, 0, 0, 1)
    assert codes(found)["filter_leaves_none"] == {"cells": ["beta-VAE on sprites"], "psnr_within": 2.0}
    assert math.isnan(cell(found, "beta-VAE", "all").infom.mean)
    assert cell(found, "AE").infom.mean == 0.3
    passing = selected(run("ae", seen(20.0, 0.3)), run("beta-vae", seen(19.0, 0.9), value=1.0))
    assert "filter_leaves_none" not in codes(passing)


def test_an_empty_cell_says_whether_it_was_the_filter() -> None:
    gone = run("ae", seen(20.0, 0.3), stopped="diverged")
    found = selected(gone, run("beta-vae", seen(19.0, 0.9), value=1.0))
    assert math.isnan(found.thresholds["sprites"])
    assert codes(found)["no_scores"]["cells"] == [f"{row} on sprites" for row in ("AE", *AFTER_ICA.values())]
    assert codes(found)["nothing_to_compare"]["cells"] == ["beta-VAE on sprites"]
    assert "filter_leaves_none" not in codes(found)
    assert math.isnan(lift(found).difference.mean)
    modes = dict.fromkeys(("none", *MODES), 0.3)
    assert codes(selected(run("ae", seen(20.0, modes)))) == {}


# -- over data sets, and before and after


def test_over_all_data_the_mean_of_each_seed_is_taken_first() -> None:
    infoms = {("sprites", 0): 0.2, ("sprites", 1): 0.6, ("scene", 0): 0.4, ("scene", 1): 0.2}
    runs = [run("ae", seen(20.0, infom), seed=s, data=data) for (data, s), infom in infoms.items()]
    found = selected(*runs)
    over = cell(found, "AE", "all")
    assert over.infom.mean == pytest.approx(0.35)  # of 0.3 and 0.4
    half = T_OF_TWO * (0.1 / math.sqrt(2)) / math.sqrt(2)
    assert over.infom.ci95 == pytest.approx((0.35 - half, 0.35 + half), rel=1e-9)
    assert (over.infom.n, over.passed, over.considered) == (2, 2, 2)
    assert (over.step, math.isnan(over.weight_decay)) == (0, True)
    assert [cell(found, "AE", data).infom.mean for data in ("sprites", "scene")] == pytest.approx([0.4, 0.3])


def test_a_data_set_without_a_score_leaves_none_over_all() -> None:
    plain = [run("ae", seen(20.0, 0.3), data=data) for data in ("sprites", "scene")]
    other = [run("beta-vae", seen(psnr, 0.5), data=d, value=1.0) for d, psnr in (("sprites", 20.0), ("scene", 5.0))]
    found = selected(*plain, *other)
    assert math.isnan(cell(found, "beta-VAE", "all").infom.mean)
    assert cell(found, "beta-VAE", "sprites").infom.mean == 0.5
    assert cell(found, "AE", "all").infom.mean == pytest.approx(0.3)


def test_the_lift_is_a_difference_for_each_seed() -> None:
    befores = (0.1, 0.5, 0.3)
    runs = [run("ae", seen(20.0, {"none": b, "centred": b + 0.2}), seed=s) for s, b in enumerate(befores)]
    found = lift(selected(*runs))
    assert found.difference.mean == pytest.approx(0.2)
    assert found.difference.ci95 == pytest.approx((0.2, 0.2), abs=1e-9)  # though before and after spread
    assert found.before.ci95[1] - found.before.ci95[0] > 0.5
    assert (found.before.mean, found.after.mean) == pytest.approx((0.3, 0.5))
    afters = (0.7, 0.3, 0.5)  # the same after the other way round: the mean is the same, the interval is not
    crossed = [
        run("ae", seen(20.0, {"none": b, "centred": a}), seed=s)
        for s, (b, a) in enumerate(zip(befores, afters, strict=True))
    ]
    other = lift(selected(*crossed))
    assert other.difference.mean == pytest.approx(0.2)
    assert other.difference.ci95[0] < -0.5


def test_the_lift_is_over_all_fits_that_pass_and_not_over_the_best() -> None:
    best_before = run("ae", seen(20.0, {"none": 0.6, "centred": 0.61}), decay=0.1)
    best_after = run("ae", seen(20.0, {"none": 0.3, "centred": 0.7}))
    blurred = run("ae", seen(10.0, {"none": 0.1, "centred": 0.9}), decay=0.2)  # below the filter
    found = selected(best_before, best_after, blurred)
    assert cell(found, "AE").infom.mean == 0.6
    assert lift(found).before.mean == pytest.approx(0.45)
    assert lift(found).difference.mean == pytest.approx((0.01 + 0.4) / 2)
    assert math.isnan(lift(found).selected.mean)  # of one seed there are no others to select by


def test_the_difference_of_the_rows_is_at_what_is_best_for_the_other_seeds() -> None:
    runs = [
        run("ae", seen(20.0, {"none": before, "centred": after}), decay=decay, seed=seed)
        for decay, seed, before, after in [
            (0.0, 0, 0.5, 0.9),
            (0.0, 1, 0.4, 0.5),
            (0.1, 0, 0.3, 0.6),
            (0.1, 1, 0.6, 0.8),
        ]
    ]
    found = lift(selected(*runs))
    # After: seed 0 at what is best for seed 1 (decay 0.1: 0.6), seed 1 at decay 0 (0.5). Before: 0.3 and 0.4.
    assert found.selected.mean == pytest.approx(((0.6 - 0.3) + (0.5 - 0.4)) / 2)


def test_selection_alone_lifts_nothing() -> None:
    """ICA that does nothing: before and after are draws of one law. The best after ICA would be lifted by 0.04."""
    rng = np.random.default_rng(0)
    found, chosen, naive = [], [], []
    for _ in range(60):
        runs = [
            run("ae", *(seen(20.0, dict(zip(("none", "centred"), rng.normal(0.5, 0.05, 2), strict=True)), step=k) for k in (1, 2, 3)),
                decay=decay, seed=seed)
            for decay in (0.0, 0.1, 0.2) for seed in range(3)
        ]  # fmt: skip
        selection = selected(*runs)
        found.append(lift(selection).difference.mean)
        chosen.append(lift(selection).selected.mean)
        naive.append(cell(selection, "AE + ICA").infom.mean - 0.5)
    assert abs(np.mean(found)) < 0.01
    assert abs(np.mean(chosen)) < 0.02
    assert np.mean(naive) > 0.03


def test_the_lift_of_infoe_is_its_own() -> None:
    both = {"none": scores(0.3, infoe=0.8), "centred": scores(0.5, infoe=0.7)}
    found = lift(selected(run("ae", Evaluation(10, 0.5, 20.0, both))))
    assert found.infoe_difference.mean == pytest.approx(-0.1)
    assert found.difference.mean == pytest.approx(0.2)


# -- rows


@pytest.mark.parametrize("model", ROWS)
def test_latents_of_quantised_models_are_discrete(model: str) -> None:
    found = selected(run("ae", seen(20.0, 0.3)), run(model, seen(20.0, 0.3)))
    kind = "discrete" if model in ("vq-vae", "vq-vae-wd", "qlae") else "continuous"
    assert cell(found, ROWS[model]).latents == kind


def test_what_is_discrete_is_what_the_models_say() -> None:
    pytest.importorskip("torch")
    from identifiable.nn.representations import MODELS

    assert {kind for kind, model in MODELS.items() if model.discrete} == {m.removesuffix("-wd") for m in DISCRETE}


def test_rows_are_in_order_with_the_autoencoder_and_its_components_first() -> None:
    found = selected(run("qlae", seen(20.0, 0.3)), run("ae", seen(20.0, {"none": 0.3, "centred": 0.4})))
    assert list(dict.fromkeys(c.row for c in found.cells)) == ["AE", *AFTER_ICA.values(), "QLAE"]
    assert [c.data for c in found.cells[:2]] == ["all", "sprites"]
    assert found.cell("VQ-VAE", "sprites") is None
