"""Retrieval metrics: against plain loops, in spaces of known answer, and with groups left out."""

from __future__ import annotations

import numpy as np
import pytest

from identifiable.deconfounding.design import Design, Labels, joined
from identifiable.deconfounding.metrics import retrieval
from identifiable.deconfounding.metrics.replicates import Ranking, replicate_map
from identifiable.deconfounding.metrics.retrieval import Retrieval, pieced, sampled_rows


def layout(batches: int = 5, plates: int = 2, *, targets: bool = True, controls: int = 4) -> Design:
    """Every batch: plates with controls and 8 perturbations (4 compounds of 2 doses each, 2 targets), one well each."""
    wells = [("dmso", "dmso", "dmso")] * controls + [
        (f"c{k}", f"c{k}_{dose}", f"t{k % 2}") for k in range(4) for dose in (1, 2)
    ]
    rows = [(b, f"b{b}p{p}", *well) for b in range(batches) for p in range(plates) for well in wells]
    batch, plate, compound, perturbation, target = (np.array(column) for column in zip(*rows, strict=True))
    return Design(
        Labels.of(plate),
        Labels.of(perturbation),
        compound == "dmso",
        batch=Labels.of(batch),
        target=Labels.of(target) if targets else None,
        compound=Labels.of(compound),
    )


def normal(n: int, d: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def nearest_by_hand(X, asks, answers, right, barred, cosine):
    """The share of queries whose nearest allowed row is right, among those with a right one; NaN without any."""
    hits = []
    for i in asks:
        free = [j for j in answers if j != i and not barred(i, j)]
        if not any(right(i, j) for j in free):
            continue
        if cosine:
            near = [X[i] @ X[j] / np.linalg.norm(X[i]) / np.linalg.norm(X[j]) for j in free]
        else:
            near = [-np.sum((X[i] - X[j]) ** 2) for j in free]
        hits.append(right(i, free[int(np.argmax(near))]))
    return float(np.mean(hits)) if hits else float("nan")


@pytest.mark.parametrize("metric", ["nn_euclidean", "nn_cosine"])
@pytest.mark.parametrize("targets", [True, False])
def test_neighbours_are_those_of_a_plain_loop_also_without_each_batch(metric, targets):
    design = layout(targets=targets)
    X = normal(design.n)
    asked = Retrieval.of(design)
    found = asked.scores(X)[metric]
    label = (design.target if targets else design.perturbation).codes
    batch, compound = design.batch.codes, design.compounds.codes
    treated = np.flatnonzero(~design.control)

    def by_hand(kept):
        return nearest_by_hand(
            X,
            kept,
            kept,
            lambda i, j: label[i] == label[j],
            lambda i, j: batch[i] == batch[j] or (targets and compound[i] == compound[j]),
            metric == "nn_cosine",
        )

    assert found.mean == pytest.approx(by_hand(treated))
    for g in range(5):
        assert np.nanmean(found.without[:, g]) == pytest.approx(by_hand(treated[batch[treated] != g]))
    assert asked.coverage[metric].label == ("target" if targets else "perturbation")
    assert asked.coverage[metric].across == "batch"


@pytest.mark.parametrize("metric", ["consensus", "consensus_batch"])
def test_consensus_excludes_the_compound_and_with_the_batch_also_the_batch(metric):
    design = wide()
    X = normal(design.n, seed=3)
    kinds = design.perturbation if metric == "consensus" else joined([design.perturbation, design.batch], "|")
    treated = np.flatnonzero(~design.control)
    rows = [treated[kinds.codes[treated] == k] for k in np.unique(kinds.codes[treated])]
    first = [r[0] for r in rows]
    target, compound, batch = (x.codes[first] for x in (design.target, design.compounds, design.batch))
    expected = nearest_by_hand(
        np.array([np.median(X[r], axis=0) for r in rows]),
        range(len(rows)),
        range(len(rows)),
        lambda i, j: target[i] == target[j],
        lambda i, j: compound[i] == compound[j] or (metric == "consensus_batch" and batch[i] == batch[j]),
        True,
    )
    assert Retrieval.of(design).scores(X)[metric].mean == pytest.approx(expected)
    assert "consensus" not in Retrieval.of(layout()).metrics  # 8 profiles are too few to ask
    assert not Retrieval.of(design).sampled


def wide() -> Design:
    """30 compounds of 10 targets, each on the plates of one batch of 5."""
    rows = [(k % 5, f"b{k % 5}p{p}", f"c{k}", f"t{k % 10 % 3}") for k in range(30) for p in range(2)]
    rows += [(b, f"b{b}p{p}", "dmso", "dmso") for b in range(5) for p in range(2) for _ in range(3)]
    batch, plate, compound, target = (np.array(column) for column in zip(*rows, strict=True))
    return Design(Labels.of(plate), Labels.of(compound), compound == "dmso", Labels.of(batch), Labels.of(target))


def test_the_batch_is_read_from_controls_of_other_plates():
    design = layout(plates=3)
    control = np.flatnonzero(design.control)
    X = normal(design.n, seed=1)
    expected = nearest_by_hand(
        X,
        control,
        control,
        lambda i, j: design.batch.codes[i] == design.batch.codes[j],
        lambda i, j: design.plate.codes[i] == design.plate.codes[j],
        False,
    )
    assert Retrieval.of(design).scores(X)["batch_readable"].mean == pytest.approx(expected)
    shifted = X + 50 * np.eye(6)[design.batch.codes]
    assert Retrieval.of(design).scores(shifted)["batch_readable"].mean == 1.0
    assert expected < 0.5


def test_replicate_map_is_that_of_copairs():
    design = layout()
    X = normal(design.n, seed=2) + 2 * normal(9, seed=5)[design.perturbation.codes]
    found = Retrieval.of(design).scores(X)["replicate_map"]
    ranking = Ranking(positives_differ_by=["plate"], negatives_share=["batch"])
    known = replicate_map(X, design, ranking, permutations=0, leave_out=design.batch)
    assert found.mean == pytest.approx(known.mean)
    np.testing.assert_allclose(found.value, known.average_precision[~design.control])
    sums = known.sums  # the perturbations are equally frequent, so means over wells are those over perturbations
    np.testing.assert_allclose(np.nanmean(found.without, axis=0), sums.precision[1:] / sums.wells[1:])


def test_a_collapsed_space_gains_nothing_from_ties():
    design = layout()
    scores = Retrieval.of(design).scores(np.ones((design.n, 2)))
    assert scores["replicate_map"].mean < 0.75
    assert scores["nn_cosine"].mean < 0.75


def test_without_controls_replicates_are_ranked_among_other_perturbations():
    design = layout(controls=0)
    asked = Retrieval.of(design)
    good, noise = 3 * np.eye(8)[design.perturbation.codes], normal(design.n, 8)
    assert asked.scores(good)["replicate_map"].mean == pytest.approx(1.0)
    assert asked.scores(noise)["replicate_map"].mean < 0.7
    assert asked.coverage["batch_readable"].of == design.n


def test_paired_differences_have_an_interval_over_batches():
    design = layout(batches=8)
    signal = 3 * normal(9, seed=7)[design.perturbation.codes]
    asked = Retrieval.of(design)
    better = asked.scores(signal + normal(design.n))
    worse = asked.scores(signal + 6 * normal(design.n))
    gain, (low, high) = better.minus(worse)["replicate_map"]
    assert gain == pytest.approx(better["replicate_map"].mean - worse["replicate_map"].mean)
    assert 0 < low < gain < high
    same = better.minus(better)["nn_cosine"]
    assert same == (0.0, (0.0, 0.0))
    assert better["nn_cosine"].interval()[0] == better["nn_cosine"].mean


def test_pieces_of_several_spaces_are_put_together():
    design = layout()
    asked = Retrieval.of(design)
    a, b = (asked.scores(normal(design.n, seed=seed)) for seed in (0, 1))
    for metric in asked.metrics:
        first = asked.group_of(metric) < 2
        both = pieced([(first, a[metric]), (~first, b[metric])])
        np.testing.assert_array_equal(both.value[first], a[metric].value[first])
        np.testing.assert_array_equal(both.value[~first], b[metric].value[~first])
        assert both.where(first).mean == a[metric].where(first).mean


def test_one_batch_is_judged_across_plates():
    design = layout(batches=1, plates=4)
    asked = Retrieval.of(design)
    assert asked.coverage["nn_cosine"].across == "plate"
    assert asked.groups.size == 4
    assert "consensus_batch" not in asked.metrics


def test_a_question_that_nobody_can_answer_is_left_out():
    plates = np.repeat(["p", "q"], 10)
    names = np.array([f"x{k}" for k in range(16)] + ["dmso"] * 4)
    asked = Retrieval.of(Design(Labels.of(plates), Labels.of(names), names == "dmso"))
    assert asked.biological == ()


def test_a_large_screen_is_sampled_in_whole_perturbations(monkeypatch):
    monkeypatch.setattr(retrieval, "MAX_QUERIES", 30)
    monkeypatch.setattr(retrieval, "MAX_CONTROLS", 10)
    design = layout()
    rows = sampled_rows(design, np.random.default_rng(0))
    part = design.take(rows)
    assert part.control.sum() == 10
    treated = part.perturbation.take(~part.control)
    assert 30 <= len(treated) < 40
    assert (treated.counts == 10).all()
    assert Retrieval.of(design).sampled
