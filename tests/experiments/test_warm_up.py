"""`reproduce`: the MNIST warm-up on scikit-learn's digits, small enough for a test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from builders import make_reproduction
from identifiable._checks import DataError, UsageError
from identifiable.experiments import EXPERIMENTS, reproduce, warm_up
from identifiable.results import Reproduction

TINY: dict[str, Any] = {
    "leaks": (0.2, 1.0),
    "pairs": 3,
    "hidden": (24, 12),
    "latents": 3,
    "rows": 400,
    "validation": 100,
    "samples": 80,
    "batch": 100,
    "max_epochs": 12,
}


@pytest.fixture(scope="module")
def fig2() -> Reproduction:
    return reproduce("fig2", changes=TINY)


def test_every_pair_of_every_leak_is_run_and_measured(fig2: Reproduction) -> None:
    assert [(r.leak, r.pair) for r in fig2.runs] == [(leak, pair) for leak in (0.2, 1.0) for pair in range(3)]
    for run in fig2.runs:
        assert 0 < run.distance.mean <= run.distance.maximum < run.diameter
        assert 1 <= run.exact.mean <= run.exact.maximum <= run.leak**-2 * (1 + 1e-5)
        assert run.random_directions.maximum <= run.exact.maximum * (1 + 1e-5)
        assert run.epochs == (12, 12)
    assert {len(f) for f in (fig2.leaks, fig2.fits)} == {2, 12}
    assert "not_converged" in {a.code for a in fig2.alerts}


def test_a_linear_decoder_is_an_isometry_and_a_leaky_one_is_not(fig2: Reproduction) -> None:
    leaky, linear = fig2.leaks
    assert {r.exact.maximum for r in fig2.runs if r.leak == 1.0} == {1.0}  # and not its rounding
    assert linear.constant.max == pytest.approx(1, abs=1e-5)
    assert leaky.constant.median > 1.01
    assert leaky.bound == pytest.approx(25)


def test_a_pair_with_one_model_twice_is_at_distance_zero() -> None:
    chosen = warm_up.settings("fig2", "smoke", TINY)
    values, labels, _ = warm_up._pictures(None, "smoke", needs_labels=False)
    (rows,) = warm_up._parts(values, labels, chosen, by_digit=False, seed=0)
    from identifiable.nn import OrthogonalAutoencoder, train

    models = [OrthogonalAutoencoder((64, 24, 12, 3), 0.2, seed=s) for s in (0, 1)]
    one, other = train(models, rows.training, rows.validation, chosen.training, seeds=[0, 1])
    same = warm_up._measure(one, one, 0.2, 0, rows, 10, 0).run
    different = warm_up._measure(one, other, 0.2, 0, rows, 10, 0).run
    assert same.distance.maximum < 1e-6 * same.diameter
    assert different.distance.mean > 1e-3 * different.diameter


def test_a_pair_that_reconstructs_worse_than_the_reference_is_removed_and_says_why(fig2: Reproduction) -> None:
    worst = max(max(r.reconstruction) for r in fig2.runs if r.leak == 1.0)
    assert fig2.filter_threshold < worst
    for run in fig2.runs:
        assert (run.removed is None) == (max(run.reconstruction) <= fig2.filter_threshold)
    assert any("above" in (r.removed or "") for r in fig2.runs)
    assert fig2.removed == sum(r.removed is not None for r in fig2.runs)


@pytest.mark.parametrize(
    ("kept", "empty"),
    [((0.2, 0.7, 1.0), None), ((0.2, 1.0), [0.7]), ((), [0.2, 0.7, 1.0]), ((0.2, 0.2), [0.7, 1.0])],
)
def test_leaks_of_which_the_filter_leaves_no_pair_are_named(kept: tuple[float, ...], empty: list[float] | None) -> None:
    chosen = warm_up.settings("fig2", "smoke", {**TINY, "leaks": (0.2, 0.7, 1.0)})
    run = make_reproduction().runs[0]

    def measured(leak: float) -> warm_up._Measured:
        one = replace(run, leak=leak, stopped=("patience", "patience"))
        return warm_up._Measured(one, np.ones(2), np.ones((2, 2)), np.ones((2, 2)))

    alerts = warm_up._alerts([measured(leak) for leak in (0.2, 0.7, 1.0)], [measured(leak) for leak in kept], chosen)
    assert [(alert.code, alert.values) for alert in alerts] == (
        [] if empty is None else [("leaks_empty", {"leaks": empty})]
    )


@pytest.mark.long
def test_each_digit_has_models_of_its_own(tmp_path: Path) -> None:
    small = {**TINY, "pairs": 1, "rows": 60, "validation": 30, "samples": 40, "batch": 30, "max_epochs": 2}
    found = reproduce("figA6", changes=small, checkpoint=str(tmp_path / "kept"))
    assert [r.digit for r in found.runs] == [digit for digit in range(10) for _ in (0.2, 1.0)]
    assert found.published["runs"] == 180
    assert len({r.distance.mean for r in found.runs}) == 20
    assert sorted(p.name for p in (tmp_path / "kept").iterdir()) == [f"digit-{k}" for k in range(10)]
    again = reproduce("figA6", changes=small, checkpoint=str(tmp_path / "kept"))
    assert again.runs == found.runs


def test_a_file_of_pictures_is_used_when_it_is_given(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 255, (700, 5, 5)).astype(np.uint8)
    np.savez(tmp_path / "own.npz", x_train=pictures, y_train=np.arange(700) % 10)
    small = {**TINY, "hidden": (12, 6), "pairs": 1, "max_epochs": 2}
    found = reproduce("fig2", data=str(tmp_path / "own.npz"), changes=small)
    assert (found.inputs[0].n, found.inputs[0].d) == (700, 25)
    assert "own" in found.inputs[0].name
    with pytest.raises(DataError, match="pictures"):
        reproduce("fig2", data=str(tmp_path / "own.npz"), changes={**small, "samples": 650})


@pytest.mark.parametrize(
    ("pictures", "words"),
    [
        (np.full((700, 5, 5), 7, np.uint8), "all 80 "),
        (np.random.default_rng(0).standard_normal((700, 5, 5)), "expected pixels"),
        (np.full((700, 5, 5), 1e300), "expected pixels"),
        (np.zeros((700, 5, 5), np.uint8), "bright"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_pictures_that_show_nothing_are_refused(tmp_path: Path, pictures: np.ndarray, words: str) -> None:
    np.savez(tmp_path / "own.npz", x_train=pictures, y_train=np.arange(700) % 10)
    with pytest.raises(DataError, match=words):
        reproduce("fig2", data=str(tmp_path / "own.npz"), changes={**TINY, "hidden": (12, 6)})


@pytest.mark.parametrize(
    ("name", "value", "parts"),
    [
        ("pairs", 2.5, "whole number"),
        ("pairs", 0, "1"),
        ("leaks", (0.5, 1.5), "1"),
        ("leaks", (1e-200, 1.0), "0.001"),
        ("leaks", (0.5, "a"), "number"),
        ("reference_leak", 0.3, "reference_leak 0.3"),
        ("percentile", 0.0, "percentile"),
        ("samples", 3, "latents"),
        ("hidden", (24, 30), "fall"),
        ("batch", 0, "batch"),
        ("epochs", 3, "'epochs'"),
        ("learning_rate", 1e30, "learning_rate"),  # a reference that diverges is no reference
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, value: Any, parts: str) -> None:
    with pytest.raises((UsageError, DataError), match=parts):
        reproduce("fig2", changes={**TINY, "max_epochs": 2, name: value})


@pytest.mark.parametrize(
    ("name", "options", "parts"),
    [
        ("fig3", {}, "'fig3'"),
        ("fig2", {"seed": -1}, "seed -1"),
        ("fig2", {"scale": "huge"}, "scale 'huge'"),
        ("fig2", {"scale": "small"}, r"--data mnist\.npz"),
    ],
)
def test_runs_that_cannot_be_are_refused(name: str, options: dict[str, Any], parts: str) -> None:
    with pytest.raises(UsageError, match=parts):
        reproduce(name, **options)


def test_presets_and_the_paper_file_name_real_settings() -> None:
    for name, experiment in EXPERIMENTS.items():
        if name not in warm_up.PRESETS:  # tests/experiments/test_table2.py
            continue
        for scale in experiment.scales:
            chosen = warm_up.settings(name, scale, {})
            assert replace(chosen, **experiment.settings)
        assert warm_up.settings(name, "paper", {}).pairs == experiment.settings["pairs"]
