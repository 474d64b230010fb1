"""Metrics of a space: which way is better, what they need, and the rows they are measured on."""

from __future__ import annotations

import numpy as np
import pytest

from deconfounding.screen_reference import haar, screen
from deconfounding.short_calls import says
from identifiable import UsageError
from identifiable.blocks import Blocks
from identifiable.deconfounding.design import Design, Labels
from identifiable.deconfounding.metrics.space_metrics import (
    MAX_BATCHES,
    RECALL,
    SPACE_METRICS,
    Space,
    batch_of,
    batch_rows,
    replicate_columns,
    replicate_rows,
    space_metrics,
    unmet,
)
from identifiable.run import Run


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def measured(name, X, design, rng):
    found = SPACE_METRICS[name].on(Space(X, design), rng)
    return found.value, found.ci95


# all metrics of a space

OF_THE_SCREEN = [name for name in SPACE_METRICS if name != RECALL]  # which needs known relations too


@pytest.mark.parametrize("name", OF_THE_SCREEN)
def test_metrics_are_what_they_say_over_rotations_and_see_axes_that_are_dropped(name):
    X, design = screen()
    spec = SPACE_METRICS[name]
    value, interval = measured(name, X, design, rng(5))
    assert np.isnan(interval).all() if spec.rows == "all" else interval[0] - 0.02 <= value <= interval[1] + 0.02
    assert spec.rows == "all" or np.ptp(interval) > 1e-4
    for seed in (6, 7):
        turned, around = measured(name, X @ haar(X.shape[1], seed), design, rng(5))
        assert (abs(turned - value) < 1e-8) == spec.rotation_invariant
        np.testing.assert_allclose(around, interval, atol=1e-8)
    fewer, _ = measured(name, X[:, :4], design, rng(5))
    assert abs(fewer - value) > 1e-4


@pytest.mark.parametrize("name", OF_THE_SCREEN)
def test_the_better_way_is_the_way_of_a_space_with_biology_and_without_plates(name):
    """The same noise with large effects of perturbations, or with large offsets of batches."""
    _, design = screen()
    noise = rng(9).standard_normal((design.n, 8))
    good = noise + 3 * rng(10).standard_normal((design.perturbation.size, 8))[design.perturbation.codes]
    bad = noise + 3 * rng(11).standard_normal((design.batch.size, 8))[design.batch.codes]
    spec = SPACE_METRICS[name]
    gain = measured(name, good, design, rng())[0] - measured(name, bad, design, rng())[0]
    assert (gain if spec.better == "high" else -gain) > 0.01


def test_what_a_design_lacks_is_said_and_not_scored():
    X, design = screen()
    one_plate = np.flatnonzero(design.plate.codes == 0)
    found = {m.metric: m for m in space_metrics(X[one_plate], design.take(one_plate), space="whole")}
    assert np.isnan(found["kbet"].value)
    assert "one plate" in found["kbet"].note
    assert found["replicate_map"].value > 0
    treated = np.flatnonzero(~design.control)
    without = {m.metric: m for m in space_metrics(X[treated], design.take(treated), space="whole")}
    assert np.isnan(without["replicate_map"].value)
    assert "no controls" in without["replicate_map"].note
    assert without["replicate_map_others"].value > 0
    once = np.unique(design.perturbation.codes, return_index=True)[1]
    single = {m.metric: m for m in space_metrics(X[once], design.take(once), space="whole")}
    assert np.isnan(single["consistency"].value)
    assert codes_of(single["consistency"]) == ["no_two_rows"]
    assert "no_two_rows" not in codes_of(found["consistency"])
    assert "two rows" in single["consistency"].note


def codes_of(metric):
    return [note.code for note in metric.notes]


@pytest.mark.parametrize(
    ("perturbation", "control", "plates", "needs", "code"),
    [
        ("cab", [1, 0, 0], [0, 1, 1], {"replicates"}, "no_two_rows"),
        ("caa", [1, 0, 0], [0, 1, 1], {"replicates"}, None),
        ("cca", [1, 1, 0], [0, 1, 1], {"replicates"}, "no_two_rows"),  # two controls are no replicates
        ("ccc", [1, 1, 1], [0, 1, 1], {"replicates"}, "no_two_rows"),
        ("cab", [1, 0, 0], [0, 1, 1], set(), None),
        ("caa", [0, 0, 0], [0, 1, 1], {"controls", "replicates"}, "no_controls"),
        ("caa", [0, 0, 0], [0, 1, 1], {"batches", "replicates"}, None),
        ("caa", [1, 0, 0], [0, 0, 0], {"batches"}, "one_plate"),
    ],
)
def test_what_a_metric_lacks_is_named_before_it_is_measured(perturbation, control, plates, needs, code):
    design = Design(Labels.of(np.array(plates)), Labels.of(np.array(list(perturbation))), np.array(control, bool))
    found = unmet(design, needs)
    assert (None if found is None else found.code) == code


def test_metrics_of_a_space_say_space_rows_and_batches():
    X, design = screen()
    names = ("replicate_map", "ilisi", "pcr_plate")
    found = space_metrics(X, design, space="ica", only=names, max_rows=150, run=Run(3))
    assert tuple(m.metric for m in found) == names
    assert all(m.space == "ica" and m.rotation_invariant for m in found)
    assert says(found[0].note, "another plate", "another well", "of 300 rows")
    assert says(found[1].note, "3 batches", "150 of 300")
    assert found[2].note == "6 plates"
    assert space_metrics(X, design, space="ica", only=names, max_rows=150, run=Run(3)) == found
    assert space_metrics(X, design, space="ica", only=names, max_rows=150, run=Run(4)) != found
    alone = space_metrics(X, design, space="ica", only=["ilisi"], max_rows=150, run=Run(3))
    assert alone == found[1:2]
    blocks = space_metrics(Blocks(X, rows=37), design, space="ica", only=names, max_rows=150, run=Run(3))
    assert [m.value for m in blocks] == [m.value for m in found]
    with pytest.raises(UsageError, match=r"magic; .* replicate_map,"):
        space_metrics(X, design, space="x", only=["magic"])


def pathways(*, effect: float):
    """40 genes with two guides each, in pathways of two whose effects are alike; a large offset of everything."""
    rows = rng(21)
    gene = np.r_[np.repeat(np.arange(40), 12), np.full(120, -1)]
    guide = np.where(gene < 0, "control", [f"G{g:02d}_{i % 2}" for i, g in enumerate(gene)])
    shift = effect * np.repeat(rows.standard_normal((20, 10)), 2, axis=0)
    X = 20 + rows.standard_normal((600, 10)) + np.where(gene[:, None] < 0, 0, shift[gene])
    target = np.where(gene < 0, "control", [f"G{g:02d}" for g in gene])
    design = Design(Labels.of(np.arange(600) % 6), Labels.of(guide), gene < 0, target=Labels.of(target))
    return X, design, [(f"G{2 * k:02d}", f"G{2 * k + 1:02d}") for k in range(20)]


def test_known_relations_are_recalled_from_the_mean_effects_of_genes_about_the_controls():
    X, design, known = pathways(effect=1.0)
    (found,) = space_metrics(X, design, space="x", only=[RECALL], relations=known)
    assert found.value > 0.9
    (weaker,) = space_metrics(*pathways(effect=0.5)[:2], space="x", only=[RECALL], relations=known)
    assert 0.1 < weaker.ci95[0] < weaker.value < weaker.ci95[1] <= 1
    assert says(found.note, "20 of 20", "targets; 0.1 ")
    assert codes_of(found) == ["pairs"]
    (turned,) = space_metrics(X @ haar(10, 1), design, space="x", only=[RECALL], relations=known)
    assert turned.value == found.value
    (without,) = space_metrics(*pathways(effect=0.0)[:2], space="x", only=[RECALL], relations=known)
    assert without.value == pytest.approx(0.1, abs=0.1)
    treated = np.flatnonzero(~design.control)  # then about the mean of all
    (alone,) = space_metrics(X[treated], design.take(treated), space="x", only=[RECALL], relations=known)
    assert alone.value > 0.9
    guides = [(f"{a}_0", f"{b}_1") for a, b in known]
    (of_guides,) = space_metrics(X, design, space="x", only=[RECALL], relations=guides)
    assert "among the perturbations" in of_guides.note
    assert of_guides.value > 0.8


def test_wells_without_a_target_are_neither_controls_nor_a_gene():
    X, design, known = pathways(effect=0.6)
    (alone,) = space_metrics(X, design, space="x", only=[RECALL], relations=known)
    more = np.r_[X, X[:400] + 50]  # compounds of no known target, far away
    joined = Design(
        Labels.of(np.r_[design.plate.codes, design.plate.codes[:400]]),
        Labels.of(np.r_[design.perturbation.text(), [f"compound{i}" for i in range(400)]]),
        np.r_[design.control, np.zeros(400, bool)],
        target=Labels.of(np.r_[design.target.text(), np.full(400, "")]),
    )
    (beside,) = space_metrics(more, joined, space="x", only=[RECALL], relations=known)
    assert (beside.value, beside.ci95, beside.note) == (alone.value, alone.ci95, alone.note)
    controls = np.flatnonzero(design.control)
    (none,) = space_metrics(X[controls], design.take(controls), space="x", only=[RECALL], relations=known)
    assert np.isnan(none.value)
    assert "treated well" in none.note
    (strange,) = space_metrics(X, design, space="x", only=[RECALL], relations=[("x", "y")])
    assert says(strange.note, "none of 1", "perturbations")
    assert (codes_of(none), codes_of(strange), codes_of(alone)) == (["no_names"], ["no_pairs"], ["pairs"])
    assert strange.notes[0].values == {"pairs": 1, "what": "perturbations"}


def test_recall_is_measured_only_where_relations_are_known():
    X, design, known = pathways(effect=1.0)
    assert RECALL not in {m.metric for m in space_metrics(X, design, space="x")}
    assert RECALL in {m.metric for m in space_metrics(X, design, space="x", relations=known)}
    (asked,) = space_metrics(X, design, space="x", only=[RECALL])
    assert np.isnan(asked.value)
    assert "known relations" in asked.note
    (known_ones,) = space_metrics(X, design, space="x", only=[RECALL], relations=known)
    assert (codes_of(asked), codes_of(known_ones)) == (["no_relations"], ["pairs"])


# rows


def screen_of(plates: int, wells: int, perturbations: int, *, batches: int) -> Design:
    n = plates * wells
    control = np.arange(n) % 10 == 0
    names = np.where(control, "control", [f"g{i % perturbations:03d}" for i in range(n)])
    plate = np.repeat(np.arange(plates), wells)
    return Design(Labels.of(plate), Labels.of(names), control, batch=Labels.of(plate % batches))


def test_rows_of_replicates_are_whole_perturbations():
    design = screen_of(40, 50, 77, batches=4)
    rows = replicate_rows(design, 600, rng(12))
    part = design.take(rows)
    assert part.control.sum() == 150
    assert 550 < len(rows) <= 600
    whole = dict(zip(design.perturbation.names, design.perturbation.counts, strict=True))
    kept = dict(zip(part.perturbation.names, part.perturbation.counts, strict=True))
    assert 5 < len(kept) < 40
    assert all(kept[name] == whole[name] for name in kept if name != "control")
    np.testing.assert_array_equal(replicate_rows(design, 2000, rng(12)), np.arange(2000))


def test_one_large_perturbation_does_not_take_the_place_of_others():
    design = screen_of(40, 50, 3, batches=4)  # 600 rows of each
    part = design.take(replicate_rows(design, 500, rng(13)))
    treated = np.bincount(part.perturbation.codes[~part.control])
    assert sorted(treated[treated > 0]) == [100, 100, 100]


def test_rows_of_batches_are_of_few_batches():
    design = screen_of(60, 20, 10, batches=30)
    rows = batch_rows(design, 10_000, rng(14))
    assert design.take(rows).batch.size == MAX_BATCHES
    assert len(rows) == MAX_BATCHES * 40
    assert len(batch_rows(design, 77, rng(14))) == 77
    one = screen_of(4, 20, 5, batches=1)
    assert batch_of(one) is one.plate  # plates stand in
    assert batch_of(screen_of(4, 20, 5, batches=2)).size == 2


def test_replicates_differ_in_as_much_as_leaves_a_pair():
    plate, names, no = np.array([0, 1, 0, 1]), np.array(list("aabb")), np.zeros(4, dtype=bool)

    def columns(plate: np.ndarray, column: np.ndarray | None) -> tuple[str, ...]:
        row = None if column is None else np.zeros(4, dtype=np.intp)
        return replicate_columns(Design(Labels.of(plate), Labels.of(names), no, row=row, column=column))

    assert columns(plate, np.array([0, 1, 2, 3])) == ("plate", "well")
    assert columns(plate, np.array([0, 0, 1, 1])) == ("plate",)  # every perturbation has its own well
    assert columns(plate, None) == ("plate",)
    assert columns(0 * plate, np.array([0, 1, 2, 3])) == ("well",)
    assert columns(0 * plate, None) == ()
    assert columns(np.array([0, 0, 0, 1]), np.array([0, 1, 2, 2])) == ("plate",)  # never both in one pair
