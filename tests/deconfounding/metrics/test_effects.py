"""Consistency, magnitude and known relations of perturbation effects, against efaar_benchmarking and in closed form."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from deconfounding.screen_reference import numbers, reference, screen
from errors import naming
from identifiable import DataError, UsageError
from identifiable.deconfounding.design import Labels
from identifiable.deconfounding.metrics import matrices
from identifiable.deconfounding.metrics.effects import consistency, magnitude, relationship_recall
from identifiable.deconfounding.metrics.matrices import label_means


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# consistency and magnitude


def test_consistency_matches_efaar():
    X, design = screen()
    treated = ~design.control
    known = reference()["signals"]
    found = consistency(X[treated], design.perturbation.take(treated), null=known["null"])
    assert set(found.names) == set(known["consistency"])
    expected = np.array([known["consistency"][name] for name in found.names])
    np.testing.assert_allclose(found.cosine, expected[:, 0], atol=1e-6)
    np.testing.assert_allclose(found.p, expected[:, 1], atol=1e-10)
    assert len(np.unique(found.p)) >= 5


def test_consistency_against_random_sets_finds_an_effect_and_no_other():
    labels = Labels.of(np.repeat([f"g{i:02d}" for i in range(40)], 5))
    X = rng(7).standard_normal((200, 8))
    X[labels.codes == 3] += 2
    found = consistency(X, labels, draws=300, rng=rng(8))
    assert found.p[3] == 1 / 301
    assert np.mean(np.delete(found.p, 3) < 0.05) < 0.15
    assert found.q[3] == np.nanmin(found.q)
    again = consistency(X, labels, draws=300, rng=rng(8))
    np.testing.assert_array_equal(found.p, again.p)
    from_few = consistency(X, labels, draws=300, rng=rng(8), pool=labels.codes < 1)  # 5 rows: one set only
    assert set(from_few.p) <= {1.0, 1 / 301}


def test_a_null_label_with_one_row_is_not_a_draw_of_the_null():
    X = np.array([[1, 0], [1, 0], [0, 1], [0.5, 1], [1, 5], [3, 3.0]])
    labels = Labels.of(np.array(list("aannmm")))
    with_single = Labels.of(np.array(list("aannmk")))
    assert consistency(X, labels, null=["n", "m"]).p.tolist() == [0.0]
    assert consistency(X, with_single, null=["n", "m"]).p[0] == 0.0  # efaar: 0.5
    assert np.isnan(consistency(X, with_single, null=["k"]).p).all()
    cloud = rng(12).standard_normal((6, 3))  # as efaar has it: at least as consistent, farther than
    X, labels = np.concatenate([cloud - 4, cloud, cloud]), Labels.of(np.repeat(["c", "n", "x"], 6))
    assert consistency(X, labels, null=["n"]).p[1] == 1
    assert magnitude(X, labels, labels.codes == 0, null=["n"]).p.tolist() == [0]


def test_magnitude_matches_efaar_up_to_the_floor_of_its_distances():
    X, design = screen()
    known = reference()["signals"]
    found = magnitude(X, design.perturbation, design.control, null=known["null"])
    assert set(found.names) == set(known["magnitude"])
    expected = np.array([numbers(known["magnitude"][name]) for name in found.names])
    floor = 1e-4 * (1 / found.replicates + 1 / design.control.sum())
    np.testing.assert_allclose(found.energy - floor, expected[:, 0], atol=1e-6)
    np.testing.assert_allclose(found.p, expected[:, 1], atol=1e-10)
    assert np.nanmax(np.abs(found.energy - expected[:, 0])) > 5e-6
    assert np.isnan(found.energy[found.names.index("g19")])


# known relations


@pytest.mark.parametrize("thresholds", [(0.05, 0.95), (0.1, 0.9), (0.4, 0.6)])
@pytest.mark.parametrize("block", [None, 130])
def test_recall_matches_efaar(thresholds, block, monkeypatch):
    if block:
        monkeypatch.setattr(matrices, "BLOCK_VALUES", block)
    known = reference()["recall"]
    found = relationship_recall(np.array(known["X"]) / 1000, known["names"], known["pairs"], thresholds=thresholds)
    assert found.recall == pytest.approx(known["recall_{}_{}".format(*thresholds)], abs=1e-10)
    assert (found.used, found.pairs) == (known["query_distribution_size"], known["null_distribution_size"])
    assert found.recall == pytest.approx(found.opposed + found.alike)


def test_recall_finds_likes_and_opposites_in_their_tails_and_chance_elsewhere():
    X = rng(10).standard_normal((60, 16))
    X[1], X[3] = X[0], -X[2]
    names = [f"g{i}" for i in range(60)]
    alike = relationship_recall(X, names, [("g0", "g1")])
    opposed = relationship_recall(X, names, [("g3", "g2"), ("g2", "g3"), ("g2", "g2")])
    assert (alike.alike, alike.opposed, opposed.alike, opposed.opposed) == (1, 0, 0, 1)
    assert (opposed.given, opposed.used) == (1, 1)
    every = relationship_recall(X, names, combinations(names, 2))
    assert every.recall == pytest.approx(every.chance, abs=2 / every.pairs)
    unknown = relationship_recall(np.eye(3), ["a", "b", "c"], [("a", "x"), ("b", "b")])
    assert np.isnan(unknown.recall)
    assert (unknown.used, unknown.given) == (0, 1)


def test_the_interval_of_recall_leaves_out_each_gene_with_all_its_pairs():
    """A gene that is missed is missed in all of its pairs."""
    X = rng(12).standard_normal((80, 16))
    X[:12] = X[0] + 0.1 * X[:12]
    X[5] = rng(13).standard_normal(16)  # a gene of the complex whose guide failed
    names = [f"g{i}" for i in range(80)]
    found = relationship_recall(X, names, combinations(names[:12], 2))
    hits = {pair: 5 not in pair for pair in combinations(range(12), 2)}
    assert found.recall == pytest.approx(np.mean(list(hits.values())), abs=0.05)
    low, high = found.ci95
    assert 0.4 < low < found.recall < high
    spread = np.sqrt(found.recall * (1 - found.recall) / found.used)  # as if pairs were found each by itself
    assert high - low > 2 * 1.96 * 1.5 * spread
    assert np.isnan(relationship_recall(X, names, [("g0", "g1")]).ci95).all()
    all_found = relationship_recall(X, names, combinations(names[:5], 2))
    assert all_found.recall == 1
    assert np.isnan(all_found.ci95).all()  # certainty that few pairs cannot give


def test_label_means_are_those_of_the_rows_and_refuse_others(monkeypatch):
    X, design = screen()
    whole = label_means(X, design.perturbation)
    np.testing.assert_allclose(whole[0], X[design.perturbation.codes == 0].mean(axis=0))
    monkeypatch.setattr(matrices, "BLOCK_VALUES", 100)
    np.testing.assert_allclose(label_means(X, design.perturbation), whole)
    with pytest.raises(DataError, match=naming("5 rows", "300 labels")):
        label_means(X[:5], design.perturbation)


FOUR, EYE = Labels.of(np.array(list("aabb"))), np.eye(4)


@pytest.mark.parametrize(
    ("call", "error", "parts"),
    [
        (lambda: consistency(EYE, FOUR), UsageError, "rng"),
        (lambda: consistency(EYE, FOUR, null=["zz"]), DataError, "consistency: .* zz"),
        (lambda: magnitude(EYE, FOUR, np.zeros(4, dtype=bool)), DataError, "control rows"),
        (lambda: magnitude(EYE, FOUR, FOUR.codes == 0, max_controls=1), UsageError, "1 of 2 controls"),
        (lambda: relationship_recall(np.eye(3), ["a", "b", "b"], [("a", "b")]), DataError, "3 rows for 2 names"),
        (
            lambda: relationship_recall(np.eye(2), ["a", "b"], [("a", "b")], thresholds=(0.9, 0.1)),
            UsageError,
            "thresholds",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(call, error, parts):
    with pytest.raises(error, match=parts):
        call()
