"""Replicate mAP, consistency, magnitude and known relations: closed forms, degenerate screens, and the libraries' own values."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest

from identifiable import DataError, UsageError
from identifiable.deconfounding import Design, Labels
from identifiable.deconfounding.metrics import matrices
from identifiable.deconfounding.metrics.matrices import label_means
from identifiable.deconfounding.metrics.relations import relationship_recall
from identifiable.deconfounding.metrics.replicates import (
    _random_precision,
    consistency,
    expected_average_precision,
    magnitude,
    q_values,
    replicate_map,
)
from screen_reference import haar, numbers, reference, screen

CASES = {
    "controls": {},
    "controls_of_the_plate": {"positives_differ_by": ["plate"], "negatives_share": ["plate"]},
    "non_replicates": {"against": "non-replicates", "positives_differ_by": ["plate"]},
}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def small(perturbation: str, plate: str) -> Design:
    """A design from one letter for each row; `c` is the control."""
    names = np.array(list(perturbation))
    return Design(Labels.of(np.array(list(plate))), Labels.of(names), names == "c")


def of_plates(X: np.ndarray, design: Design, **options: object) -> np.ndarray:
    return replicate_map(X, design, positives_differ_by=["plate"], permutations=0, **options).average_precision


def average_precision_of(order: tuple[bool, ...]) -> float:
    hits = np.flatnonzero(order)
    return float(np.mean(np.arange(1, len(hits) + 1) / (hits + 1)))


# replicate mAP


@pytest.mark.parametrize("case", CASES)
def test_replicate_map_matches_copairs(case):
    X, design = screen()
    known = reference()["maps"][case]
    found = replicate_map(X, design, permutations=20_000, rng=rng(), **CASES[case])
    expected = np.full(design.n, np.nan)
    expected[known["rows"]] = numbers(known["average_precision"])
    np.testing.assert_allclose(found.average_precision, expected, atol=1e-6)
    np.testing.assert_array_equal(found.positives[known["rows"]], known["positives"])
    rows = [found.names.index(name) for name in known["perturbation"]]
    np.testing.assert_allclose(found.mean_average_precision[rows], known["mean_average_precision"], atol=1e-6)
    np.testing.assert_allclose(found.normalized[rows], known["normalized"], atol=1e-6)
    # Both p are shares of 20,000 random orders: five standard errors of their difference, at most 0.025.
    p = np.array(known["p"])
    assert np.all(np.abs(found.p[rows] - p) <= 5 * np.sqrt(2 * p * (1 - p) / 20_000) + 2e-4)
    np.testing.assert_allclose(q_values(p), known["q"], atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_a_perturbation_on_one_plate_has_no_map(case):
    X, design = screen()
    found = replicate_map(X, design, permutations=10, rng=rng(), **CASES[case])
    place = found.names.index("g19")
    assert np.isnan([found.mean_average_precision[place], found.p[place], found.q[place]]).all()
    assert found.profiles[place] == 0
    assert np.isfinite(np.delete(found.p, place)).all()
    assert found.mean == pytest.approx(np.nanmean(found.mean_average_precision))


def test_replicates_that_stand_together_have_map_1_and_the_p_of_that_order():
    X = np.array([[1, 0, 0], [1, 0.1, 0], [0, 0, 1], [0, 0.1, 1], *([[0, 1.0, 0]] * 20)])
    found = replicate_map(
        X, small("aabb" + "c" * 20, "pqpq" + "pq" * 10), positives_differ_by=["plate"], permutations=999, rng=rng()
    )
    assert found.names == ("a", "b")
    assert found.mean == 1.0
    np.testing.assert_array_equal(found.normalized, [1, 1])
    np.testing.assert_allclose(found.p, 1 / 21, atol=0.03)  # a random order puts the one replicate first once in 21


def test_replicates_behind_every_control_have_the_lowest_precision():
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.1, 1.0], [-0.1, 1.0]])
    np.testing.assert_allclose(of_plates(X, small("aaccc", "pqpqp"))[:2], 1 / 4)


def test_noise_has_the_precision_of_chance():
    labels = np.array([f"g{i % 60:02d}" for i in range(360)] + ["control"] * 60)
    design = Design(Labels.of(np.arange(420) % 6), Labels.of(labels), labels == "control")
    found = replicate_map(
        rng(1).standard_normal((420, 10)), design, positives_differ_by=(), permutations=200, rng=rng(2)
    )
    assert found.mean == pytest.approx(found.mean_chance, abs=0.02)
    assert np.mean(found.p < 0.05) < 0.1
    shifted = rng(1).standard_normal((420, 10)) + 2 * rng(3).standard_normal((61, 10))[design.perturbation.codes]
    assert replicate_map(shifted, design, positives_differ_by=(), permutations=0).mean > 3 * found.mean_chance


def test_expected_precision_is_the_mean_over_all_orders():
    for positives, total in ((1, 4), (2, 5), (4, 6), (3, 3)):
        orders = [average_precision_of(tuple(np.isin(range(total), c))) for c in combinations(range(total), positives)]
        found = expected_average_precision(np.array([positives]), np.array([total]))
        assert found[0] == pytest.approx(np.mean(orders), abs=1e-12)


@pytest.mark.parametrize(("positives", "total"), [(3, 40), (6, 12)])
def test_random_orders_have_the_expected_precision(positives, total):
    """Few positives are placed by redrawing, many by sorting; 40,000 orders, standard error below 0.0015."""
    found = _random_precision(positives, total, 40_000, rng(4))
    assert found.mean() == pytest.approx(expected_average_precision(np.array(positives), np.array(total)), abs=0.006)
    assert len(np.unique(found.round(9))) > 100


def test_a_space_collapsed_to_one_point_has_the_precision_of_chance_not_1():
    design = small("aaacccc", "pqrpqrp")
    found = replicate_map(np.ones((7, 3)), design, positives_differ_by=["plate"], permutations=0)
    np.testing.assert_allclose(found.average_precision[:3], expected_average_precision(np.array(2), np.array(6)))
    assert found.mean < 0.7


def test_ties_count_as_the_mean_over_their_orders():
    # From row 0: a replicate and two controls at the same cosine, then a control, then a replicate.
    X = np.array([[1, 0], [1, 0], [0, 1], [1, 0], [2, 0], [1, 1.0]])
    found = of_plates(X, small("aaaccc", "pqrpqr"))[0]
    orders = {(*tied, False, True) for tied in permutations((True, False, False))}
    assert found == pytest.approx(np.mean([average_precision_of(order) for order in orders]), abs=1e-12)
    assert found < average_precision_of((True, False, False, False, True))


def test_a_random_order_that_does_as_well_counts_against_it():
    X = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    found = replicate_map(X, small("aac", "pqp"), positives_differ_by=["plate"], permutations=999, rng=rng(5))
    assert found.mean == 1.0
    assert 0.4 < found.p[0] < 0.6  # one replicate against one control is first half of the time


@pytest.mark.parametrize("case", CASES)
def test_map_does_not_depend_on_blocks_or_on_the_order_of_rows(case, monkeypatch):
    X, design = screen()
    whole = replicate_map(X, design, permutations=50, rng=rng(), **CASES[case])
    monkeypatch.setattr(matrices, "BLOCK_VALUES", 700)
    order = rng(6).permutation(design.n)
    parts = replicate_map(X[order], design.take(order), permutations=50, rng=rng(), **CASES[case])
    np.testing.assert_allclose(parts.average_precision, whole.average_precision[order], atol=1e-12)
    np.testing.assert_array_equal(parts.p, whole.p)
    assert not np.allclose(parts.average_precision, whole.average_precision, equal_nan=True)


def test_p_of_a_perturbation_does_not_depend_on_the_others_scored():
    X, design = screen()
    kept = np.flatnonzero(~np.isin(design.perturbation.text(), ["g00", "g07", "g18"]))
    whole = replicate_map(X, design, permutations=50, rng=rng())
    some = replicate_map(X[kept], design.take(kept), permutations=50, rng=rng())
    np.testing.assert_array_equal(some.p, whole.p[[whole.names.index(name) for name in some.names]])
    assert not np.array_equal(some.p, replicate_map(X[kept], design.take(kept), permutations=50, rng=rng(1)).p)


def test_replicates_of_a_target_are_other_perturbations_of_it():
    X = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1.0]])
    guides = np.array(["a1", "a2", "b1", "b2"])
    none = np.zeros(4, dtype=bool)
    design = Design(Labels.of(np.zeros(4)), Labels.of(guides), none, target=Labels.of(np.array(["a", "a", "b", "b"])))
    options = {"against": "non-replicates", "of": "target", "positives_differ_by": ["perturbation"], "permutations": 0}
    assert replicate_map(X, design, **options).mean == 1.0
    crossed = Design(Labels.of(np.zeros(4)), Labels.of(guides), none, target=Labels.of(np.array(["a", "b", "a", "b"])))
    assert replicate_map(X, crossed, **options).mean < 0.6
    unknown = Design(Labels.of(np.zeros(4)), Labels.of(guides), none, target=Labels.of(np.array(["a", "a", "", ""])))
    assert replicate_map(X, unknown, **options).names == ("a",)


def test_a_row_without_negatives_has_no_precision():
    found = of_plates(
        np.eye(4)[[0, 0, 1, 2]] + 0.1, small("aaac", "pqrp"), negatives_share=["plate"]
    )  # the control is on plate p
    assert np.isfinite(found[0])
    assert np.isnan(found[1:]).all()


def test_progress_counts_the_rows_that_ask():
    X, design = screen()
    seen = []
    replicate_map(X, design, permutations=0, negatives_share=["plate"], progress=lambda *step: seen.append(step))
    assert seen[-1] == ("replicate mAP", int((~design.control).sum()), int((~design.control).sum()))
    assert len(seen) == design.plate.size


def test_replicate_map_says_what_is_wrong():
    X, design = screen()
    bare = small("aac", "pqp")
    with pytest.raises(UsageError, match="does not say the well"):
        replicate_map(X[:3], bare, permutations=0)
    with pytest.raises(UsageError, match="'shelf' is no column"):
        replicate_map(X, design, positives_differ_by=["shelf"], permutations=0)
    with pytest.raises(UsageError, match="'controls' or 'non-replicates', got 'others'"):
        replicate_map(X, design, against="others", permutations=0)
    with pytest.raises(UsageError, match="pass rng, or permutations=0"):
        replicate_map(X, design)
    with pytest.raises(DataError, match="10 rows and 300 labels"):
        replicate_map(X[:10], design, permutations=0)
    holed = X.copy()
    holed[7, 2] = np.nan
    with pytest.raises(DataError, match="first in row 7"):
        replicate_map(holed, design, permutations=0)


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


def test_consistency_of_equal_opposed_and_single_rows():
    X = np.array([[1, 0], [2, 0], [0, 1], [0, -3], [1, 1.0]])
    found = consistency(X, Labels.of(np.array(list("aabbc"))), draws=0)
    np.testing.assert_allclose(found.cosine, [1, -1, np.nan])
    assert found.mean == pytest.approx(0)
    assert np.isnan(found.p).all()


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


def test_magnitude_is_0_at_the_controls_and_grows_with_the_shift(monkeypatch):
    controls = rng(9).standard_normal((30, 4))
    labels = Labels.of(np.repeat(["c", "far", "here", "near"], 30))
    X = np.concatenate([controls, controls + 5, controls, controls + 1])
    found = magnitude(X, labels, labels.codes == 0)
    assert found.names == ("far", "here", "near")
    assert found.energy[1] == pytest.approx(0, abs=1e-12)
    assert found.energy[0] > found.energy[2] > 0.1
    monkeypatch.setattr(matrices, "BLOCK_VALUES", 50)
    np.testing.assert_allclose(magnitude(X, labels, labels.codes == 0).energy, found.energy, atol=1e-12)
    fewer = magnitude(X, labels, labels.codes == 0, max_controls=20, rng=rng())
    assert fewer.energy[1] != pytest.approx(0, abs=1e-4)


def test_a_null_label_that_does_as_well_counts_for_consistency_but_not_for_magnitude():
    """As efaar has it: at least as consistent, farther than."""
    cloud = rng(12).standard_normal((6, 3))
    X, labels = np.concatenate([cloud - 4, cloud, cloud]), Labels.of(np.repeat(["c", "n", "x"], 6))
    assert consistency(X, labels, null=["n"]).p[1] == 1
    assert magnitude(X, labels, labels.codes == 0, null=["n"]).p.tolist() == [0]


def test_consistency_and_magnitude_say_what_is_wrong():
    X, labels = np.eye(4), Labels.of(np.array(list("aabb")))
    with pytest.raises(UsageError, match="need random sets; pass rng"):
        consistency(X, labels)
    with pytest.raises(DataError, match="got none of zz"):
        consistency(X, labels, null=["zz"])
    with pytest.raises(DataError, match="expected control rows"):
        magnitude(X, labels, np.zeros(4, dtype=bool))
    with pytest.raises(UsageError, match="1 of 2 controls are drawn"):
        magnitude(X, labels, labels.codes == 0, max_controls=1)


def test_q_values_leave_out_what_has_no_p():
    np.testing.assert_allclose(q_values(np.array([0.01, np.nan, 0.5])), [0.02, np.nan, 0.5])
    assert np.isnan(q_values(np.array([np.nan]))).all()


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


def test_a_pair_counts_itself_among_those_up_to_it():
    X = np.array([[1, 0], [-1, 0.1], [0.3, 1], [0.2, 1.0]])  # a and b are the least alike of six pairs
    options = {"names": list("abcd"), "pairs": [("a", "b")]}
    assert relationship_recall(X, **options, thresholds=(0.15, 0.95)).opposed == 0
    assert relationship_recall(X, **options, thresholds=(0.17, 0.95)).opposed == 1


def test_recall_is_the_same_after_a_rotation_and_another_after_axes_are_dropped():
    known = reference()["recall"]
    X, rest = np.array(known["X"]) / 1000, (known["names"], known["pairs"])
    whole = relationship_recall(X, *rest)
    assert relationship_recall(X @ haar(X.shape[1], 11), *rest) == whole
    assert relationship_recall(X[:, :2], *rest).recall != whole.recall


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


def test_recall_without_a_usable_pair_is_nan():
    found = relationship_recall(np.eye(3), ["a", "b", "c"], [("a", "x"), ("b", "b")])
    assert np.isnan(found.recall)
    assert (found.used, found.given) == (0, 1)


def test_recall_says_what_is_wrong():
    with pytest.raises(DataError, match="3 rows for 2 names"):
        relationship_recall(np.eye(3), ["a", "b", "b"], [("a", "b")])
    with pytest.raises(UsageError, match="two shares in order"):
        relationship_recall(np.eye(3), ["a", "b", "c"], [("a", "b")], thresholds=(0.9, 0.1))


def test_label_means_are_those_of_the_rows_and_refuse_others(monkeypatch):
    X, design = screen()
    whole = label_means(X, design.perturbation)
    np.testing.assert_allclose(whole[0], X[design.perturbation.codes == 0].mean(axis=0))
    monkeypatch.setattr(matrices, "BLOCK_VALUES", 100)
    np.testing.assert_allclose(label_means(X, design.perturbation), whole)
    with pytest.raises(DataError, match="5 rows and 300 labels"):
        label_means(X[:5], design.perturbation)
