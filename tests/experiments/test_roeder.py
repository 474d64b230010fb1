"""Roeder's figures: intervals over pairs, directions judged by them, and each experiment on data made here."""

from __future__ import annotations

import gzip
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("torch")

from identifiable import Moments
from identifiable._checks import DataError, UsageError
from identifiable.experiments import EXPERIMENTS, reproduce
from identifiable.experiments.roeder import cpc, radial, words
from identifiable.experiments.roeder.measuring import every, from_heads, judged, means, over_pairs, similarities
from identifiable.results import SeedPair, from_json, to_json
from identifiable.similarity import cca, svcca

VALUES = (0.31, 0.35, 0.29, 0.4, 0.33)
RADIAL = {
    "rules": "hard",
    "hidden": (16,),
    "seeds": 3,
    "steps": 20,
    "checkpoints": 1,
    "batch": 64,
    "rows": 200,
    "gate": 2.0,
}
CPC = {"pairs": 2, "width": 8, "widths": (2, 8), "images": (64, 128), "steps": 4, "checkpoints": 2, "rows": 200}
WORDS = {"pairs": 2, "words": 20, "text": 3000, "steps": 20, "checkpoints": 1, "rows": 200}


def pair(value: float, seeds: tuple[int, int], at: float = 0.0, untrained: float = 0.2, part: str = "f") -> SeedPair:
    return SeedPair("iterations", at, part, "cca", seeds, value, 0.1, untrained)


# -- intervals and directions


def test_the_interval_over_disjoint_pairs_is_students():
    mean, ci95 = over_pairs({(2 * k, 2 * k + 1): v for k, v in enumerate(VALUES)})
    expected = stats.t.interval(0.95, 4, np.mean(VALUES), stats.sem(VALUES))
    assert mean == pytest.approx(np.mean(VALUES))
    assert ci95 == pytest.approx(expected)


def test_the_interval_over_all_pairs_covers_the_mean_of_models_that_are_shared():
    """h(a, b) = a + b of normal numbers: pairs that share a model are correlated, and Student's t over them is far too short."""
    covered = naive = 0
    for draw in range(200):
        models = np.random.default_rng(draw).standard_normal(5)
        values = {(a, b): models[a] + models[b] for a, b in every(5)}
        _, (low, high) = over_pairs(values)
        covered += low < 0 < high
        low, high = stats.t.interval(0.95, 9, np.mean([*values.values()]), stats.sem([*values.values()]))
        naive += low < 0 < high
    assert 0.92 <= covered / 200 <= 0.98
    assert naive / 200 < 0.88


def test_too_few_pairs_have_a_mean_and_no_interval():
    assert over_pairs({(0, 1): 0.5, (2, 3): 0.7}) == (pytest.approx(0.6), None)
    assert over_pairs({(0, 1): 0.5, (2, 3): math.nan}) == (0.5, None)
    mean, ci95 = over_pairs({})
    assert (math.isnan(mean), ci95) == (True, None)


@pytest.mark.parametrize(("slope", "found"), [(0.2, "agrees"), (-0.2, "does_not"), (0.0, "cannot_tell")])
def test_a_direction_is_judged_by_the_interval_of_the_difference_within_pairs(slope, found):
    noise = np.random.default_rng(0).normal(0, 0.01, (2, 5))
    rows = [pair(v + slope * at + noise[at, k], (2 * k, 2 * k + 1), at) for at in (0, 1) for k, v in enumerate(VALUES)]
    claim = judged(rows, "rises", "iterations", "f", "cca")
    assert (claim.found, claim.first, claim.last, claim.pairs) == (found, 0.0, 1.0, 5)
    assert claim.difference == pytest.approx(slope, abs=0.02)
    low, high = claim.difference_ci95
    assert low < claim.difference < high


def test_a_direction_against_a_baseline_and_one_that_was_not_measured():
    rows = [pair(v, (2 * k, 2 * k + 1)) for k, v in enumerate(VALUES)]
    above = judged(rows, "above_untrained", "iterations", "f", "cca")
    assert (above.found, above.first) == ("agrees", None)
    assert above.difference == pytest.approx(np.mean(VALUES) - 0.2)
    nearly = judged(rows, "nearly", "iterations", "f", "cca")
    assert (nearly.found, nearly.difference) == ("does_not", pytest.approx(np.mean(VALUES) - 0.95))
    assert judged(rows, "above_shuffled", "iterations", "f", "cca").difference == pytest.approx(np.mean(VALUES) - 0.1)
    for absent in (judged(rows, "rises", "iterations", "f", "cca"), judged(rows, "rises", "width", "g", "r2")):
        assert (absent.found, absent.difference_ci95) == ("cannot_tell", None)
    (mean,) = means(rows)
    assert (mean.pairs, mean.untrained, mean.shuffled) == (5, pytest.approx(0.2), pytest.approx(0.1))


@pytest.mark.parametrize(
    ("measure", "values", "ends"),
    [
        ("cca", (0.7, 1.0, 1.0), (None, 1.0)),
        ("cca", (0.0, 0.1, 0.8), (0.0, 1.0)),
        ("cca", (-0.02, -0.01, -0.03), (-0.02, None)),  # the mean is never outside
        ("r2", (-0.5, 0.0, 0.9), (None, 1.0)),
        ("map_distance", (0.1, 0.1, 2.0), (0.0, None)),
    ],
)
def test_both_ends_of_an_interval_are_cut_at_what_is_possible(measure, values, ends):
    (mean,) = means([replace(pair(v, (2 * k, 2 * k + 1)), measure=measure) for k, v in enumerate(values)])
    _, free = over_pairs({(2 * k, 2 * k + 1): v for k, v in enumerate(values)})
    for end, possible, uncut in zip(mean.value_ci95, ends, free, strict=True):
        assert end == pytest.approx(uncut if possible is None else possible)


@pytest.mark.parametrize(
    ("axis", "untrained", "expected"),
    [
        ("layer", 0.2, ("does_not", False)),
        ("layer", 0.5, ("cannot_tell", True)),
        ("layer", 0.35, ("cannot_tell", True)),  # above at one end only
        ("layer", math.nan, ("does_not", False)),
        ("iterations", 0.5, ("does_not", False)),  # the first end is the untrained models
    ],
)
def test_a_fall_of_a_measure_no_better_than_untrained_is_not_counted(axis, untrained, expected):
    noise = np.random.default_rng(0).normal(0, 0.01, (2, 5))
    rows = [
        replace(pair(0.4 - 0.1 * at + noise[at, k], (2 * k, 2 * k + 1), at, untrained), axis=axis)
        for at in (0, 1)
        for k in range(5)
    ]
    claim = judged(rows, "rises", axis, "f", "cca")
    assert (claim.found, claim.as_untrained) == expected
    assert claim.difference_ci95[1] < 0


# -- similarities


def test_a_linear_map_is_found_and_unrelated_rows_are_at_zero_on_rows_held_out():
    rng = np.random.default_rng(0)
    X, noise = rng.standard_normal((300, 6)), rng.standard_normal((300, 6))
    alike = similarities(X, X @ rng.standard_normal((6, 6)) + 3, seed=0)
    assert [value for value, _ in alike.values()] == pytest.approx([1.0] * 3)
    unrelated = similarities(X, noise, seed=0)
    assert abs(unrelated["cca"][0]) < 0.06 < 0.09 < unrelated["cca_in_sample"][0]
    assert unrelated["r2"][0] < 0
    half = similarities(X, X + noise, seed=0)
    assert half["r2"][0] == pytest.approx(0.5, abs=0.05)
    assert half["cca"][0] == pytest.approx(np.sqrt(0.5), abs=0.05)


def test_in_sample_they_are_the_papers_cca_and_svcca():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 5))
    Y = X @ rng.standard_normal((5, 4)) + rng.standard_normal((100, 4))
    moments = Moments.of(np.hstack([X, Y]), widths=(5, 4))
    assert similarities(X, Y, seed=0)["cca_in_sample"][0] == pytest.approx(cca(moments))
    found = similarities(X, Y, seed=0, components=2)
    assert found["svcca_in_sample"][0] == pytest.approx(svcca(moments, 2))
    assert found["svcca"][0] < found["svcca_in_sample"][0]
    assert similarities(X, X, seed=0, components=2)["svcca"][0] == pytest.approx(1.0)


def test_the_map_from_heads_is_found_where_logits_are_equal_and_not_otherwise():
    rng = np.random.default_rng(2)
    W, A, F = rng.standard_normal((9, 3)), rng.standard_normal((3, 3)), rng.standard_normal((200, 3))
    found = from_heads([W, W @ np.linalg.inv(A)], [F, F @ A.T], seed=0)
    assert found["r2_heads"][0] == pytest.approx(1.0)
    assert found["map_distance"][0] == pytest.approx(0.0, abs=1e-8)
    assert found["r2_heads"][1] < 0.9
    assert from_heads([W, W], [F, F @ A.T], seed=0)["r2_heads"][0] < 0.9


# -- Figure 2


def test_labels_are_drawn_from_their_probabilities_and_hard_ones_are_sectors():
    chosen = radial.settings("small", {"labels": 4})
    rng = np.random.default_rng(0)
    points = np.tile([[1.0, 0.1]], (20_000, 1))
    soft = radial.World(chosen, "soft")
    drawn = np.bincount(soft.labelled(points, rng)[:, 2].astype(int), minlength=4) / len(points)
    np.testing.assert_allclose(drawn, soft.probabilities(points[:1])[0], atol=0.01)
    corners = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    assert radial.World(chosen, "hard").probabilities(corners).argmax(axis=1).tolist() == [0, 1, 2, 3]
    opposite = radial.World(replace(chosen, angle="pi"), "hard").probabilities(corners).argmax(axis=1)
    assert opposite.tolist() == [1, 3, 1, 3]
    assert radial.entropy(np.full((2, 8), 1 / 8)) == pytest.approx(math.log(8))
    assert radial.entropy(np.eye(3)) == 0.0


def test_soft_classifiers_agree_up_to_the_map_of_their_heads_and_untrained_ones_do_not(tmp_path):
    quick = {"rules": ("soft",), "rows": 500}
    found = reproduce("roeder-fig2", changes=quick, checkpoint=str(tmp_path))
    last = {m.measure: m for m in found.means if m.at == 300}
    assert last["cca"].value > 0.9 > last["cca"].untrained
    assert last["r2_heads"].value > 0.9 > 0.7 > last["r2_heads"].shuffled
    assert last["cca"].shuffled < 0.1
    assert {m.at for m in found.means} == {0, 150, 300}
    claims = {(c.part, c.measure): c.found for c in found.claims}
    assert claims["hard labels", "cca"] == "cannot_tell"  # not asked for
    assert all(model.loss - model.floor < 0.3 * (math.log(18) - model.floor) for model in found.models)
    again = reproduce("roeder-fig2", changes=quick, checkpoint=str(tmp_path))
    assert again.pairs == found.pairs
    assert from_json(to_json(found)).means == from_json(to_json(again)).means


def test_smoke_leaves_pairs_of_hard_labels():
    found = reproduce("roeder-fig2", changes={"rules": ("hard",), "rows": 500})
    assert (found.removed, len({pair.seeds for pair in found.pairs})) == (0, 3)
    assert all(claim.pairs for claim in found.claims if claim.source == "paper")


def test_models_are_left_out_by_their_loss():
    found = reproduce("roeder-fig2", changes=RADIAL)
    told = entropy_of_labels()
    above = sorted((m.loss - m.floor) / (told - m.floor) for m in found.models)
    gated = reproduce("roeder-fig2", changes={**RADIAL, "gate": (above[1] + above[2]) / 2})
    (removed,) = [model for model in gated.models if model.removed]
    assert (removed.removed, gated.removed, len(found.models)) == ("above_floor", 1, 3)
    assert {p.seeds for p in gated.pairs} == {tuple(k for k in range(3) if k != removed.seed)}
    assert [a.values["removed"] for a in gated.alerts if a.code == "models_removed"] == [1]
    with pytest.raises(DataError, match="3 models"):
        reproduce("roeder-fig2", changes={**RADIAL, "gate": 1e-6})


def entropy_of_labels() -> float:
    """Of hard labels of the points that are held out, nearly even."""
    chosen = radial.settings("smoke", RADIAL)
    world = radial.World(chosen, "hard")
    points = world.points(chosen.rows, np.random.default_rng([0, 1]))
    return radial.entropy(world.probabilities(points).mean(axis=0, keepdims=True))


# -- Figure 3


def test_patches_are_of_the_upper_and_the_lower_half():
    pictures = np.broadcast_to(np.arange(12, dtype=np.uint8)[:, None], (50, 1, 12, 12))
    found = cpc.patches(pictures, 4, np.random.default_rng(0)).reshape(50, 2, 4, 4)
    assert set(np.unique(found[:, 0])) == set(range(6))
    assert set(np.unique(found[:, 1])) == set(range(6, 12))
    assert np.all(np.diff(found.astype(int), axis=2) == 1)
    with pytest.raises(UsageError, match="patch 7"):
        cpc.patches(pictures, 7, np.random.default_rng(0))


def test_every_condition_is_trained_and_compared():
    found = reproduce("roeder-fig3", changes=CPC)
    places = {axis: {m.at for m in found.means if m.axis == axis} for axis in ("iterations", "images", "width")}
    assert places == {"iterations": {0, 2, 4}, "images": {64, 128}, "width": {2, 8}}
    assert len(found.models) == 3 * 4
    assert {p.seeds for p in found.pairs} == {(0, 1), (2, 3)}
    assert {p.part for p in found.pairs} == {"f", "g"}
    ends = {m.axis: m.value for m in found.means if (m.part, m.measure) == ("f", "cca") and m.at in (4, 128, 8)}
    assert ends["iterations"] == ends["images"] == ends["width"]  # one and the same models
    start = [p for p in found.pairs if p.at == 0]
    assert all(p.value == p.untrained for p in start)
    assert len(found.claims) == 6
    assert any(alert.code == "stand_in" for alert in found.alerts)


def test_cifar_is_read_from_its_binary_version_and_never_from_pickles(tmp_path):
    rng = np.random.default_rng(0)
    for k in (1, 2):
        records = rng.integers(0, 256, (40, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        records.tofile(tmp_path / f"data_batch_{k}.bin")
    pictures = cpc.read_cifar(str(tmp_path))
    assert pictures.shape == (80, 3, 32, 32)
    np.testing.assert_array_equal(pictures[40:].reshape(40, -1), records[:, 1:])
    small = {**CPC, "patch": 8, "outputs": 2, "layers": 2, "batch": 10, "images": (20,), "widths": (8,), "rows": 40}
    found = reproduce("roeder-fig3", scale="paper", data=str(tmp_path), changes=small)
    assert (found.stand_in, found.inputs[0].n, found.inputs[0].d) == (False, 80, 3072)
    (tmp_path / "data_batch_2.bin").write_bytes(b"\0" * 3072)
    with pytest.raises(DataError, match="3,072"):
        cpc.read_cifar(str(tmp_path))
    pickles = tmp_path / "py"
    pickles.mkdir()
    (pickles / "data_batch_1").write_bytes(b"\x80\x02.")
    with pytest.raises(DataError, match="pickles"):
        cpc.read_cifar(str(pickles))


# -- Figure 1


def test_windows_have_the_word_last_and_other_words_in_contexts_only():
    text = words.Text.of(["a", "b", "a", "c", "a", "b", "a", "d", "a", "b"], 2, "letters")
    assert text.vocabulary == ("a", "b")
    assert text.numbers.tolist() == [0, 1, 0, 2, 0, 1, 0, 2, 0, 1]
    training, held_out = text.windows(3)
    assert training.tolist() == [[0, 0, 1], [1, 2, 0], [2, 1, 0], [0, 0, 1], [1, 2, 0]]
    assert len(held_out) == 0
    assert np.bincount(text.unigrams()) / words.UNIGRAMS == pytest.approx([5 / 8, 3 / 8], abs=1e-4)


def test_a_text_is_read_plain_or_packed_up_to_a_limit(tmp_path):
    plain, packed = tmp_path / "t.txt", tmp_path / "t.txt.gz"
    plain.write_text("It's THE end,\nthe End! 42")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, packed):
        assert words.read_words(str(path), 100) == ["it's", "the", "end", "the", "end"]
        assert words.read_words(str(path), 2) == ["it's", "the"]
    plain.write_bytes(b"caf\xe9")
    packed.write_bytes(packed.read_bytes()[:-9])
    for path in (plain, packed):
        with pytest.raises(DataError, match=path.name):
            words.read_words(str(path), 100)
    with pytest.raises(DataError, match="at least 20"):
        words.Text.of(["a", "b"], 20, "short")


@pytest.mark.parametrize("samples", [0, 3])
def test_words_and_contexts_are_compared_and_drawn(samples):
    found = reproduce("roeder-fig1", changes={**WORDS, "noise_samples": samples})
    assert {(m.part, m.measure) for m in found.means} >= {
        ("words", "cca"),
        ("words", "r2"),
        ("contexts", "r2"),
        ("contexts", "r2_heads"),
    }
    drawn = {s.part: s for s in found.scatters}
    assert (len(drawn["words"].first), len(drawn["words"].mapped)) == (10, 10)  # the map is fitted on the others
    uniform = math.log(20)
    assert all(model.loss < uniform for model in found.models)
    assert len(found.claims) == 5


# -- what is missing


@pytest.mark.parametrize(
    ("name", "scale", "part"),
    [("roeder-fig1", "small", "--data"), ("roeder-fig3", "small", "mnist"), ("roeder-fig3", "paper", "data_batch")],
)
def test_a_scale_that_needs_a_file_says_which(name, scale, part):
    with pytest.raises(UsageError, match=part):
        reproduce(name, scale=scale)


@pytest.mark.parametrize(
    ("module", "change", "part"),
    [
        (radial, {"rules": "firm"}, "soft or hard"),
        (radial, {"angle": "3pi"}, "2pi or pi"),
        (radial, {"gate": 0.0}, "gate"),
        (radial, {"checkpoints": 7}, "checkpoints 7"),
        (radial, {"seeds": 1}, "seeds 1"),
        (cpc, {"widths": (8, 8)}, "widths"),
        (cpc, {"images": (10,)}, "images"),
        (cpc, {"checkpoints": 7}, "checkpoints 7"),
        (cpc, {"pairs": 0}, "pairs 0"),
        (words, {"window": 4}, "window 4"),
        (words, {"checkpoints": 7}, "checkpoints 7"),
        (words, {"words": 3}, "words 3"),
    ],
)
def test_a_setting_that_cannot_be_is_named(module, change, part):
    with pytest.raises(UsageError, match=part):
        module.settings("smoke", change)


def test_data_that_are_too_few_are_counted(tmp_path):
    (tmp_path / "t.txt").write_text("one two three " * 20)
    with pytest.raises(DataError, match="got 3"):
        reproduce("roeder-fig1", data=str(tmp_path / "t.txt"))
    np.savez(tmp_path / "p.npz", images=np.zeros((30, 12, 12), np.uint8))
    with pytest.raises(DataError, match="got 30"):
        reproduce("roeder-fig3", data=str(tmp_path / "p.npz"))


def test_every_statement_of_the_paper_is_one_that_can_be_judged():
    for name in ("roeder-fig1", "roeder-fig2", "roeder-fig3"):
        for claim in EXPERIMENTS[name].published["claims"]:
            assert judged([], **claim).found == "cannot_tell"
