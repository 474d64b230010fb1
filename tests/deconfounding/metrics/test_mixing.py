"""LISI, kBET, connectivity, silhouettes and PCR: closed forms, equal rows, and the libraries' own values; all metrics of a space."""

from __future__ import annotations

import numpy as np
import pytest

from deconfounding.screen_reference import reference, screen
from errors import naming
from identifiable import DataError, UsageError
from identifiable.deconfounding.design import Labels
from identifiable.deconfounding.metrics import matrices
from identifiable.deconfounding.metrics.mixing import (
    bras,
    graph_connectivity,
    kbet,
    kbet_per_label,
    lisi,
    nearest,
    pcr,
    pcr_comparison,
    silhouette_batch,
    silhouette_label,
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def clouds(apart: float, *, size: int = 60, seed: int = 1) -> tuple[np.ndarray, Labels]:
    """Two clouds of points whose centres are `apart`."""
    X = rng(seed).standard_normal((2 * size, 5))
    X[size:, 0] += apart
    return X, Labels.of(np.repeat(["a", "b"], size))


# neighbours


def test_neighbours_are_the_nearest_others_in_order():
    X = rng(2).standard_normal((80, 6))
    found = nearest(X, 8)
    D = np.linalg.norm(X[:, None] - X, axis=2)
    np.fill_diagonal(D, np.inf)
    np.testing.assert_array_equal(found.indices, np.argsort(D, axis=1)[:, :7])
    np.testing.assert_allclose(found.distances, np.sort(D, axis=1)[:, :7], atol=1e-12)
    assert found.first(3).k == 3


def test_equal_rows_are_neighbours_at_distance_0_and_never_themselves():
    X = np.repeat(rng(3).standard_normal((10, 4)), 6, axis=0) + 1000
    found = nearest(X, 6)
    assert not np.any(found.indices == np.arange(60)[:, None])
    np.testing.assert_array_equal(found.distances, 0)
    np.testing.assert_array_equal(found.indices // 6, np.repeat(np.arange(10), 6)[:, None] * np.ones(5))


def test_neighbours_say_how_many_rows_there_are():
    with pytest.raises(DataError, match=naming("k=9", "4 rows")):
        nearest(np.eye(4), 9)
    with pytest.raises(DataError, match=r"5 .*, 3 "):
        nearest(np.eye(4), 3).first(5)
    with pytest.raises(DataError, match=naming("4 rows", "2 labels")):
        lisi(np.eye(4), Labels.of(np.array(["a", "b"])), k=3)


# the libraries


@pytest.mark.parametrize("block", [None, 3000])
def test_lisi_matches_scib_metrics_and_harmonypy(block, monkeypatch):
    monkeypatch.setattr(matrices, "BLOCK_VALUES", block or matrices.BLOCK_VALUES)
    X, design = screen()
    known = reference()["mixing"]
    for name, labels in (("batch", design.batch), ("label", design.perturbation)):
        np.testing.assert_allclose(lisi(X, labels).rows, known[f"lisi_{name}"], atol=1e-6)
        np.testing.assert_allclose(lisi(X, labels, k=91).rows, known[f"harmonypy_{name}"], atol=1e-6)
        assert np.abs(lisi(X, labels, k=60, perplexity=20).rows - known[f"lisi_{name}"]).max() > 0.1
    assert lisi(X, design.batch).ilisi == pytest.approx(known["ilisi"], abs=1e-6)
    assert lisi(X, design.perturbation).clisi == pytest.approx(known["clisi"], abs=1e-6)


@pytest.mark.parametrize("block", [None, 3000])
def test_kbet_matches_scib_metrics(block, monkeypatch):
    monkeypatch.setattr(matrices, "BLOCK_VALUES", block or matrices.BLOCK_VALUES)
    X, design = screen()
    known = reference()["mixing"]
    found = kbet(X, design.batch)
    assert found.acceptance == pytest.approx(known["kbet"], abs=1e-10)
    np.testing.assert_allclose(found.statistic, known["kbet_statistic"], atol=1e-6)
    np.testing.assert_allclose(found.p, known["kbet_p"], atol=1e-6)
    each = kbet_per_label(X, design.batch, design.perturbation)
    by_name = dict(zip(each.names, each.scores, strict=True))
    assert np.isnan(by_name.pop("g19"))  # two rows, one batch
    assert by_name == pytest.approx(known["kbet_of_label"], abs=1e-10)
    assert each.score == pytest.approx(known["kbet_per_label_by_diffusion"], abs=0.02)


@pytest.mark.parametrize("block", [None, 3000])
def test_connectivity_and_silhouettes_match_scib_metrics(block, monkeypatch):
    monkeypatch.setattr(matrices, "BLOCK_VALUES", block or matrices.BLOCK_VALUES)
    X, design = screen()
    known = reference()["mixing"]
    labels, batch = design.perturbation, design.batch
    assert graph_connectivity(X, labels).score == pytest.approx(known["graph_connectivity"], abs=1e-10)
    assert silhouette_label(X, labels).score == pytest.approx(known["silhouette_label"], abs=1e-6)
    assert silhouette_batch(X, batch, labels).score == pytest.approx(known["silhouette_batch"], abs=1e-6)
    assert bras(X, batch, labels).score == pytest.approx(known["bras"], abs=1e-6)


@pytest.mark.parametrize("block", [None, 3000])
def test_pcr_matches_scib_metrics(block, monkeypatch):
    monkeypatch.setattr(matrices, "BLOCK_VALUES", block or matrices.BLOCK_VALUES)
    X, design = screen()
    known = reference()["regression"]
    assert pcr(X, design.batch).score == pytest.approx(known["batch"], abs=1e-8)
    assert pcr(X, design.batch, components=5).score == pytest.approx(known["batch_of_5"], abs=1e-8)
    assert pcr(X, design.cell_count).score == pytest.approx(known["count"], abs=1e-8)
    after = X - known["shrink"] * matrices.label_means(X, design.batch)[design.batch.codes]
    found = pcr_comparison(X, after, design.batch)
    assert found.score == pytest.approx(known["comparison"], abs=1e-8)
    assert found.change == pytest.approx(known["difference"], abs=1e-8)


# closed forms


def test_lisi_of_equal_distances_counts_labels():
    """Three rows of each of three labels, all in one point: every other row weighs the same."""
    labels = Labels.of(np.repeat(list("abc"), 3))
    found = lisi(np.ones((9, 2)), labels, k=9, perplexity=3)
    np.testing.assert_allclose(found.rows, 1 / ((2 / 8) ** 2 + 2 * (3 / 8) ** 2))
    np.testing.assert_array_equal(silhouette_label(np.ones((9, 2)), labels).rows, 0)
    assert bras(np.ones((9, 2)), labels, Labels.of(np.zeros(9))).score == pytest.approx(1)


def test_metrics_of_one_label_are_nan():
    X, _ = clouds(1.0)
    one = Labels.of(np.zeros(len(X)))
    assert np.isnan([lisi(X, one).ilisi, kbet(X, one).acceptance, silhouette_label(X, one).score]).all()
    assert np.isnan([silhouette_batch(X, one, one).score, kbet_per_label(X, one, one).score]).all()


def test_a_label_in_two_places_is_half_connected():
    X = np.r_[np.arange(6.0), 100 + np.arange(6.0), 50 + np.arange(6.0)][:, None]
    found = graph_connectivity(X, Labels.of(np.repeat(["split", "split", "whole"], 6)), k=4)
    assert found.scores.tolist() == [0.5, 1.0]
    assert found.score == 0.75


def test_pcr_of_a_space_without_variance_is_nan_and_of_a_constant_number_0():
    X, labels = clouds(1.0)
    assert np.isnan(pcr(np.ones((len(X), 3)), labels).score)
    assert pcr(X, np.ones(len(X))).score == 0
    assert np.isnan(pcr_comparison(np.ones((len(X), 3)), X, labels).score)
    worse = pcr_comparison(X, clouds(4.0)[0], labels)  # a correction that makes it worse
    assert worse.score == 0
    assert worse.change > 0.1


def test_pcr_says_what_is_wrong():
    X, labels = clouds(1.0)
    with pytest.raises(UsageError, match=naming("components", 1, 5)):
        pcr(X, labels, components=6)
    with pytest.raises(DataError, match=naming("covariate: ", 1)):
        pcr(X, np.r_[np.nan, np.zeros(len(X) - 1)])
    with pytest.raises(DataError, match="row 2"):
        pcr(np.where(np.arange(len(X))[:, None] == 2, np.inf, X), labels)
