"""The arrays of `identifiable demo`, and the script that makes them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import identifiable

DATA = Path(identifiable.__file__).parent / "data" / "digits_autoencoders.npz"
SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "make_demo_data.py"
RUNS = ("run1", "run2", "run3", "run4")


@pytest.fixture(scope="module")
def arrays() -> Mapping[str, NDArray[Any]]:
    with np.load(DATA, allow_pickle=False) as file:
        return dict(file)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_demo_data", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def linear_misfit(X: NDArray[Any], Y: NDArray[Any]) -> float:
    """Share of the variance of Y that the best linear map from X leaves over."""
    A = np.column_stack([X, np.ones(len(X))]).astype(np.float64)
    residual = Y - A @ np.linalg.lstsq(A, Y.astype(np.float64), rcond=None)[0]
    return float(np.sum(residual**2) / np.sum((Y - Y.mean(axis=0)) ** 2))


def test_the_file_is_small_and_holds_what_the_demo_reads(arrays: Mapping[str, NDArray[Any]]) -> None:
    assert set(arrays) == {*RUNS, "ids", "labels"}
    assert DATA.stat().st_size < 500_000


def test_ids_are_unique_and_labels_are_those_of_the_images(
    arrays: Mapping[str, NDArray[Any]], script: ModuleType
) -> None:
    ids = arrays["ids"]
    assert len(set(ids.tolist())) == 1797
    assert (ids[0], ids[-1]) == ("digit-0001", "digit-1797")
    np.testing.assert_array_equal(arrays["labels"], script.digits()[1])


def test_the_runs_agree_in_part_but_none_is_a_linear_copy_of_another(arrays: Mapping[str, NDArray[Any]]) -> None:
    misfits = {(a, b): linear_misfit(arrays[a], arrays[b]) for a in RUNS for b in RUNS if a != b}
    assert min(misfits.values()) > 0.01, misfits
    assert max(misfits.values()) < 0.25, misfits


def test_a_linear_copy_and_unrelated_rows_would_be_noticed(arrays: Mapping[str, NDArray[Any]]) -> None:
    rng = np.random.default_rng(0)
    run = arrays["run1"]
    assert linear_misfit(run, run @ rng.standard_normal((8, 8)) + 1) < 1e-6
    assert linear_misfit(run, run[rng.permutation(len(run))]) > 0.9


def test_training_twice_gives_the_same_arrays_and_another_seed_does_not(script: ModuleType) -> None:
    X, _ = script.digits()
    first, again = (script.train(X, script.RUNS[0], epochs=2).latents(X) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - script.train(X, script.RUNS[1], epochs=2).latents(X)).max() > 0.1


@pytest.mark.parametrize("activation", ["tanh", "leaky_relu"])
def test_the_gradients_are_those_of_the_loss(script: ModuleType, activation: str) -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((10, 6))
    model = script.Autoencoder(6, script.Run("check", seed=1, hidden=5, activation=activation), rng)
    parameters = [*model.weights, *model.biases]

    def loss() -> float:
        squares = sum(np.sum(W**2) for W in model.weights)
        error = np.sum((model.layers(X)[-1] - X) ** 2) / len(X)
        return float((error + script.WEIGHT_DECAY * squares) / 2)

    for parameter, gradient in zip(parameters, model.gradients(X), strict=True):
        step = 1e-6 * rng.standard_normal(parameter.shape)
        parameter += step
        above = loss()
        parameter -= 2 * step
        below = loss()
        parameter += step
        assert (above - below) / 2 == pytest.approx(np.sum(gradient * step), rel=1e-4, abs=1e-12)


def test_the_second_opinion_recovers_a_planted_rotation_and_rejects_a_shear(script: ModuleType) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 4)) * [4, 3, 2, 1]
    rotation = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    shear = np.eye(4) + np.eye(4, k=1)
    assert script.held_out_errors(X, X @ rotation)["rigid"] < 1e-12
    assert script.held_out_errors(X, X @ shear)["rigid"] > 0.05
    assert script.held_out_errors(X, X @ shear)["linear"] < 1e-12
