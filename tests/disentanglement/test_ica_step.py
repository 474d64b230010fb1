"""The ICA step in its three modes: what each recovers, and what becomes of latents FastICA cannot turn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from errors import naming
from identifiable import DataError, UsageError
from identifiable.disentanglement.codes import as_codes
from identifiable.disentanglement.correlated import mcc
from identifiable.disentanglement.ica_step import ica_step

MODES = ("centred", "literal", "whitened")


def sources(seed: int, n: int = 3000) -> np.ndarray:
    """Three uniform and three discrete sources of variance 1."""
    rng = np.random.default_rng([seed, 6])
    S = np.column_stack([rng.uniform(-1, 1, (n, 3)), rng.integers(0, 4, (n, 3))])
    return S / S.std(axis=0)


def off_centre(S: np.ndarray, seed: int, width: int = 12) -> np.ndarray:
    """The sources and nearly silent latents beside them, rotated and moved away from the origin."""
    rng = np.random.default_rng([seed, 7])
    silent = 0.05 * rng.standard_normal((len(S), width - S.shape[1]))
    rotation = np.linalg.qr(rng.standard_normal((width, width)))[0]
    return np.hstack([S, silent]) @ rotation + rng.uniform(-2, 2, width)


def recovered(latents: np.ndarray, S: np.ndarray) -> float:
    return mcc(latents, S, kinds="continuous").mcc


def codes_of_the_alert(step) -> list[str]:
    return [alert.code for alert in step.alerts]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_centring_recovers_the_sources_and_the_literal_call_does_not(seed):
    S = sources(seed)
    Z = off_centre(S, seed)
    raw, centred, literal = recovered(Z, S), ica_step(Z), ica_step(Z, mode="literal")
    assert raw < 0.9
    assert recovered(centred.latents, S) > 0.99
    assert centred.converged
    assert not centred.alerts
    assert recovered(literal.latents, S) < recovered(centred.latents, S) - 0.02


def test_whitening_recovers_the_sources_too():
    S = sources(0, 1500)
    step = ica_step(off_centre(S, 0), mode="whitened")
    assert recovered(step.latents, S) > 0.98
    assert step.n_components == 12
    assert step.invertible
    assert np.allclose(step.latents.std(axis=0), 1, atol=1e-6)  # silent latents are scaled up too
    assert np.linalg.norm(step.matrix, axis=0).max() > 10


@pytest.mark.parametrize("mode", ["centred", "literal"])
def test_the_step_is_a_rotation_that_keeps_silent_latents_silent(mode):
    Z = off_centre(sources(1), 1)
    step = ica_step(Z, mode=mode)
    assert np.allclose(step.matrix.T @ step.matrix, np.eye(12), atol=1e-4)
    assert step.n_components == 12
    assert step.invertible
    total = Z.var(axis=0).sum()
    assert step.latents.var(axis=0).sum() == pytest.approx(total, rel=1e-4)
    assert mode == "literal" or np.sum(step.latents.std(axis=0) < 0.1) == 6
    assert np.array_equal(ica_step(as_codes(Z, sources(1)), mode=mode).latents, step.latents)


@pytest.mark.parametrize("mode", MODES)
def test_latents_are_what_matrix_and_offset_make_of_them(mode):
    Z = off_centre(sources(2), 2)
    step = ica_step(Z, mode=mode)
    assert np.allclose((Z - step.offset) @ step.matrix, step.latents, atol=1e-9)
    assert step.mode == mode
    if mode == "literal":
        assert not step.offset.any()
    else:
        assert np.allclose(step.latents.mean(axis=0), 0, atol=1e-9)


def test_literal_is_the_call_of_scikit_learn_as_it_stands():
    Z = off_centre(sources(3, 800), 3)
    with pytest.warns(ConvergenceWarning):
        expected = FastICA(whiten=False, random_state=5).fit_transform(Z)
    assert np.allclose(ica_step(Z, mode="literal", seed=5).latents, expected, atol=1e-9)
    centred = FastICA(whiten=False, random_state=5).fit_transform(Z - Z.mean(axis=0))
    assert np.allclose(ica_step(Z, seed=5).latents, centred, atol=1e-9)
    assert not np.allclose(centred, expected, atol=0.1)


def test_the_literal_result_moves_with_the_origin_and_the_centred_one_does_not():
    Z = off_centre(sources(0, 800), 0)
    assert np.allclose(ica_step(Z + 3).latents, ica_step(Z).latents, atol=1e-6)
    moved, kept = ica_step(Z + 3, mode="literal").latents, ica_step(Z, mode="literal").latents
    assert not np.allclose(moved - moved.mean(axis=0), kept - kept.mean(axis=0), atol=0.1)


@pytest.mark.parametrize("mode", MODES)
def test_gaussian_latents_gain_nothing(mode):
    S = np.random.default_rng(11).standard_normal((3000, 4))
    Z = S @ np.linalg.qr(np.random.default_rng(12).standard_normal((4, 4)))[0]
    step = ica_step(Z, mode=mode)
    assert recovered(step.latents, S) < 0.95
    assert ("gaussian_components" in codes_of_the_alert(step)) == (mode == "whitened")
    assert "stability_not_measured" not in codes_of_the_alert(step)
    uniform = sources(0)[:, :3]
    Y = uniform @ np.linalg.qr(np.random.default_rng(12).standard_normal((3, 3)))[0]
    assert recovered(ica_step(Y, mode=mode).latents, uniform) > 0.99


def test_a_solver_that_stops_early_is_a_field_and_an_alert_and_no_warning():
    Z = off_centre(sources(0, 800), 0)
    step = ica_step(Z, max_iter=2)
    assert not step.converged
    assert step.n_iter == 2
    assert codes_of_the_alert(step) == ["not_converged"]
    assert ica_step(Z).converged


def test_constant_latents_are_left_out_of_the_centred_rotation():
    S = sources(0)[:, :3]
    Z = off_centre(S, 0, width=3)
    more = np.insert(Z, 1, 0.1, axis=1)
    step = ica_step(more)
    assert codes_of_the_alert(step) == ["constant_latents"]
    assert step.alerts[0].values == {"left_out": [2]}
    assert np.allclose(np.delete(step.latents, 1, axis=1), ica_step(Z).latents)
    assert not step.latents[:, 1].any()
    assert step.n_components == 4


def test_constant_latents_are_turned_with_the_others_where_it_is_literal():
    Z = np.insert(off_centre(sources(0)[:, :3], 0, width=3), 1, 0.1, axis=1)
    step = ica_step(Z, mode="literal")
    assert "constant_latents" in codes_of_the_alert(step)
    assert np.allclose(step.matrix.T @ step.matrix, np.eye(4), atol=1e-4)
    assert np.abs(step.matrix[1]).max() < 1 - 1e-3  # it is mixed into more than one component
    assert np.abs(ica_step(Z).matrix[1]).tolist() == [0, 1, 0, 0]


def test_constant_and_duplicate_latents_lower_the_rank_of_whitening():
    Z = off_centre(sources(0)[:, :3], 0, width=3)
    step = ica_step(np.column_stack([Z, Z[:, 0], np.ones(len(Z))]), mode="whitened")
    assert step.n_components == 3
    assert not step.invertible
    assert step.latents.shape == (3000, 3)
    assert step.matrix.shape == (5, 3)
    assert "rank_deficient" in codes_of_the_alert(step)


def test_a_matrix_that_is_no_rotation_is_refused_with_the_columns_and_the_way_out():
    Z = off_centre(sources(0), 0)
    big = 1000 * np.insert(Z, 3, 5.0, axis=1)
    with pytest.raises(DataError, match=naming("(literal)", "latents 4", "mode='whitened'")):
        ica_step(big, mode="literal")
    with pytest.raises(DataError, match=r"\(centred\)"):
        ica_step(1000 * Z[:, [0, 0, 1, 2]])
    with pytest.raises(DataError, match="ordinary size"):
        ica_step(1e300 * Z)
    assert ica_step(1000 * Z[:, [0, 0, 1, 2]], mode="whitened").n_components == 3


def test_the_step_says_what_it_expected():
    Z = off_centre(sources(0, 100), 0)
    with pytest.raises(UsageError, match=r"^mode.*'white'"):
        ica_step(Z, mode="white")
    with pytest.raises(UsageError, match=r"^max_iter.* 0\b"):
        ica_step(Z, max_iter=0)
    with pytest.raises(DataError, match=naming(12, 8)):
        ica_step(Z[:8])
    for mode in MODES:
        with pytest.raises(DataError, match=r"column is constant"):
            ica_step(np.ones((20, 2)), mode=mode)
    with pytest.raises(DataError, match="latents: "):
        ica_step(np.where(Z > 1, np.inf, Z))
