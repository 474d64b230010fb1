"""LISI, kBET, connectivity, silhouettes and PCR: closed forms, equal rows, and the libraries' own values; all metrics of a space."""

from __future__ import annotations

import numpy as np
import pytest

from identifiable import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.deconfounding import Design, Labels
from identifiable.deconfounding.metrics import matrices
from identifiable.deconfounding.metrics.mixing import (
    bras,
    graph_connectivity,
    kbet,
    kbet_per_label,
    lisi,
    nearest,
    silhouette_batch,
    silhouette_label,
)
from identifiable.deconfounding.metrics.regression import pcr, pcr_comparison
from identifiable.deconfounding.metrics.space_metrics import (
    MAX_BATCHES,
    RECALL,
    SPACE_METRICS,
    batch_of,
    batch_rows,
    replicate_columns,
    replicate_rows,
    space_metrics,
)
from screen_reference import haar, reference, screen


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
    with pytest.raises(DataError, match=r"k=9 needs 2 <= k <= rows .* got 4 rows"):
        nearest(np.eye(4), 9)
    with pytest.raises(DataError, match="5 were asked for, 3 are known"):
        nearest(np.eye(4), 3).first(5)
    with pytest.raises(DataError, match="4 rows and 2 labels"):
        lisi(np.eye(4), Labels.of(np.array(["a", "b"])), k=3)


# the libraries


def test_lisi_matches_scib_metrics_and_harmonypy():
    X, design = screen()
    known = reference()["mixing"]
    for name, labels in (("batch", design.batch), ("label", design.perturbation)):
        np.testing.assert_allclose(lisi(X, labels).rows, known[f"lisi_{name}"], atol=1e-6)
        np.testing.assert_allclose(lisi(X, labels, k=91).rows, known[f"harmonypy_{name}"], atol=1e-6)
        assert np.abs(lisi(X, labels, k=60, perplexity=20).rows - known[f"lisi_{name}"]).max() > 0.1
    assert lisi(X, design.batch).ilisi == pytest.approx(known["ilisi"], abs=1e-6)
    assert lisi(X, design.perturbation).clisi == pytest.approx(known["clisi"], abs=1e-6)


def test_kbet_matches_scib_metrics():
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


def test_connectivity_and_silhouettes_match_scib_metrics():
    X, design = screen()
    known = reference()["mixing"]
    labels, batch = design.perturbation, design.batch
    assert graph_connectivity(X, labels).score == pytest.approx(known["graph_connectivity"], abs=1e-10)
    assert silhouette_label(X, labels).score == pytest.approx(known["silhouette_label"], abs=1e-6)
    assert silhouette_batch(X, batch, labels).score == pytest.approx(known["silhouette_batch"], abs=1e-6)
    assert bras(X, batch, labels).score == pytest.approx(known["bras"], abs=1e-6)


def test_pcr_matches_scib_metrics():
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


def test_clouds_far_apart_are_unmixed_and_one_cloud_is_mixed():
    near, labels = clouds(0.0)
    far, _ = clouds(50.0)
    options = {"k": 30, "perplexity": 10}
    np.testing.assert_allclose(lisi(far, labels, **options).rows, 1)
    assert lisi(far, labels, **options).ilisi == pytest.approx(0)
    assert lisi(far, labels, **options).clisi == pytest.approx(1)
    assert lisi(near, labels, **options).ilisi > 0.5  # 10 neighbours of 2 labels are seldom 5 and 5
    assert kbet(far, labels, k=30).acceptance == 0
    assert kbet(near, labels, k=30).acceptance > 0.8
    one = Labels.of(np.zeros(120))
    assert silhouette_label(far, labels).score > 0.9
    assert silhouette_label(near, labels).score == pytest.approx(0.5, abs=0.02)
    assert silhouette_batch(far, labels, one).score < 0.2
    assert silhouette_batch(near, labels, one).score > 0.95
    assert bras(far, labels, one).score + 0.2 < bras(near, labels, one).score


def test_lisi_of_equal_distances_counts_labels():
    """Three rows of each of three labels, all in one point: every other row weighs the same."""
    labels = Labels.of(np.repeat(list("abc"), 3))
    found = lisi(np.ones((9, 2)), labels, k=9, perplexity=3)
    np.testing.assert_allclose(found.rows, 1 / ((2 / 8) ** 2 + 2 * (3 / 8) ** 2))


def test_metrics_of_one_label_are_nan():
    X, _ = clouds(1.0)
    one = Labels.of(np.zeros(len(X)))
    assert np.isnan([lisi(X, one).ilisi, kbet(X, one).acceptance, silhouette_label(X, one).score]).all()
    assert np.isnan([silhouette_batch(X, one, one).score, kbet_per_label(X, one, one).score]).all()


def test_silhouettes_are_those_of_scikit_learn():
    from sklearn.metrics import silhouette_samples

    X, design = screen()
    single = Labels.of(np.r_[["alone"], design.perturbation.text()[1:]])
    expected = silhouette_samples(X, single.codes)
    np.testing.assert_allclose(silhouette_label(X, single).rows, expected, atol=1e-10)
    assert silhouette_label(X, single).rows[0] == 0


def test_silhouettes_of_equal_rows_are_0():
    labels = Labels.of(np.array(list("aabb")))
    np.testing.assert_array_equal(silhouette_label(np.ones((4, 3)), labels).rows, 0)
    assert bras(np.ones((4, 3)), labels, Labels.of(np.zeros(4))).score == pytest.approx(1)


def test_a_label_in_two_places_is_half_connected():
    X = np.r_[np.arange(6.0), 100 + np.arange(6.0), 50 + np.arange(6.0)][:, None]
    found = graph_connectivity(X, Labels.of(np.repeat(["split", "split", "whole"], 6)), k=4)
    assert found.scores.tolist() == [0.5, 1.0]
    assert found.score == 0.75


def test_pcr_is_the_between_share_of_the_sum_of_squares():
    X, labels = clouds(3.0)
    means = matrices.label_means(X, labels)[labels.codes]
    expected = np.sum((means - X.mean(axis=0)) ** 2) / np.sum((X - X.mean(axis=0)) ** 2)
    found = pcr(X, labels)
    assert found.score == pytest.approx(expected, abs=1e-12)
    assert found.variance.sum() == pytest.approx(X.var(axis=0, ddof=1).sum())
    assert np.all(np.diff(found.variance) <= 0)
    np.testing.assert_allclose(pcr(means, labels).score, 1)
    assert pcr(means, labels).r2[0] == pytest.approx(1)
    assert pcr(X, Labels.of(rng(4).permutation(labels.codes))).score < 0.05


def test_pcr_of_a_space_without_variance_is_nan_and_of_a_constant_number_0():
    X, labels = clouds(1.0)
    assert np.isnan(pcr(np.ones((len(X), 3)), labels).score)
    assert pcr(X, np.ones(len(X))).score == 0
    assert np.isnan(pcr_comparison(np.ones((len(X), 3)), X, labels).score)


def test_a_correction_that_makes_it_worse_scores_0_and_shows_its_change():
    X, labels = clouds(1.0)
    worse, _ = clouds(4.0)
    found = pcr_comparison(X, worse, labels)
    assert found.score == 0
    assert found.change > 0.1


def test_pcr_says_what_is_wrong():
    X, labels = clouds(1.0)
    with pytest.raises(UsageError, match="components is 1 to 5"):
        pcr(X, labels, components=6)
    with pytest.raises(DataError, match="got 1 that are not"):
        pcr(X, np.r_[np.nan, np.zeros(len(X) - 1)])
    with pytest.raises(DataError, match="first in row 2"):
        pcr(np.where(np.arange(len(X))[:, None] == 2, np.inf, X), labels)


def test_nothing_depends_on_the_size_of_blocks(monkeypatch):
    X, design = screen()
    labels, batch = design.perturbation, design.batch

    def everything() -> list[np.ndarray]:
        return [
            lisi(X, labels).rows,
            kbet(X, batch).statistic,
            silhouette_label(X, labels).rows,
            bras(X, batch, labels).scores,
            pcr(X, batch).r2,
            pcr(X, design.cell_count).r2,
        ]

    whole = everything()
    monkeypatch.setattr(matrices, "BLOCK_VALUES", 3000)
    for a, b in zip(whole, everything(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


# all metrics of a space

OF_THE_SCREEN = [name for name in SPACE_METRICS if name != RECALL]  # which needs known relations too


@pytest.mark.parametrize("name", OF_THE_SCREEN)
def test_metrics_are_what_they_say_over_rotations_and_see_axes_that_are_dropped(name):
    X, design = screen()
    spec = SPACE_METRICS[name]
    value, interval = spec.function(X, design, rng(5))
    for seed in (6, 7):
        turned, around = spec.function(X @ haar(X.shape[1], seed), design, rng(5))
        assert (abs(turned - value) < 1e-8) == spec.rotation_invariant
        np.testing.assert_allclose(around, interval, atol=1e-8)
    fewer, _ = spec.function(X[:, :4], design, rng(5))
    assert abs(fewer - value) > 1e-4


@pytest.mark.parametrize("name", OF_THE_SCREEN)
def test_intervals_hold_their_value(name):
    X, design = screen()
    value, (low, high) = SPACE_METRICS[name].function(X, design, rng(8))
    if SPACE_METRICS[name].rows == "all":
        assert np.isnan([low, high]).all()
    else:
        assert low - 0.02 <= value <= high + 0.02
        assert high - low > 1e-4


@pytest.mark.parametrize("name", OF_THE_SCREEN)
def test_the_better_way_is_the_way_of_a_space_with_biology_and_without_plates(name):
    """The same noise with large effects of perturbations, or with large offsets of batches."""
    _, design = screen()
    noise = rng(9).standard_normal((design.n, 8))
    good = noise + 3 * rng(10).standard_normal((design.perturbation.size, 8))[design.perturbation.codes]
    bad = noise + 3 * rng(11).standard_normal((design.batch.size, 8))[design.batch.codes]
    spec = SPACE_METRICS[name]
    gain = spec.function(good, design, rng())[0] - spec.function(bad, design, rng())[0]
    assert (gain if spec.better == "high" else -gain) > 0.01


def test_what_a_design_lacks_is_said_and_not_scored():
    X, design = screen()
    one_plate = np.flatnonzero(design.plate.codes == 0)
    found = {m.metric: m for m in space_metrics(X[one_plate], design.take(one_plate), space="whole")}
    assert np.isnan(found["kbet"].value)
    assert found["kbet"].note == "there is one plate only"
    assert found["replicate_map"].value > 0
    treated = np.flatnonzero(~design.control)
    without = {m.metric: m for m in space_metrics(X[treated], design.take(treated), space="whole")}
    assert without["replicate_map"].note == "there are no controls"
    assert without["replicate_map_others"].value > 0
    once = np.unique(design.perturbation.codes, return_index=True)[1]
    single = {m.metric: m for m in space_metrics(X[once], design.take(once), space="whole")}
    assert single["consistency"].note == "no perturbation has two rows"


def test_metrics_of_a_space_say_space_rows_and_batches():
    X, design = screen()
    names = ("replicate_map", "ilisi", "pcr_plate")
    found = space_metrics(X, design, space="ica", only=names, max_rows=150, seed=3)
    assert tuple(m.metric for m in found) == names
    assert all(m.space == "ica" and m.rotation_invariant for m in found)
    assert "another plate and another well" in found[0].note
    assert "of 300 rows" in found[0].note
    assert found[1].note == "3 batches; on 150 of 300 rows"
    assert found[2].note == "6 plates"
    assert space_metrics(X, design, space="ica", only=names, max_rows=150, seed=3) == found
    assert space_metrics(X, design, space="ica", only=names, max_rows=150, seed=4) != found
    alone = space_metrics(X, design, space="ica", only=["ilisi"], max_rows=150, seed=3)
    assert alone == found[1:2]


def test_metrics_of_blocks_are_those_of_the_array():
    X, design = screen()
    names = ("consistency", "kbet", "pcr_batch")
    seen = []
    blocks = Blocks(X, rows=37)
    found = space_metrics(blocks, design, space="x", only=names, max_rows=120, progress=lambda *step: seen.append(step))
    assert [m.value for m in found] == [m.value for m in space_metrics(X, design, space="x", only=names, max_rows=120)]
    assert seen[-1] == ("metrics of x", 3, 3)


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
    assert found.note == "20 of 20 known pairs have both ends among the targets; 0.1 expected by chance"
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
    assert none.note.startswith("no treated well has a name")
    (strange,) = space_metrics(X, design, space="x", only=[RECALL], relations=[("x", "y")])
    assert strange.note == "none of 1 known pairs has both ends among the perturbations; check how they are written"


def test_recall_is_measured_only_where_relations_are_known():
    X, design, known = pathways(effect=1.0)
    assert RECALL not in {m.metric for m in space_metrics(X, design, space="x")}
    assert RECALL in {m.metric for m in space_metrics(X, design, space="x", relations=known)}
    (asked,) = space_metrics(X, design, space="x", only=[RECALL])
    assert np.isnan(asked.value)
    assert asked.note == "no known relations were given"


def test_an_unknown_metric_is_refused_by_name():
    X, design = screen()
    with pytest.raises(UsageError, match="no metric magic; there are replicate_map,"):
        space_metrics(X, design, space="x", only=["magic"])


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


def test_plates_stand_in_where_there_is_one_batch():
    design = screen_of(4, 20, 5, batches=1)
    assert batch_of(design) is design.plate
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
