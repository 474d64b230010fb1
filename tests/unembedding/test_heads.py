"""What two heads fix, and the map read off them, on models whose map is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from errors import naming
from identifiable import DataError, Heads, PairingError, Representation, UsageError, heads
from identifiable.results import from_json, without_time
from identifiable.unembedding.maps import shuffles

MAGIKA = Path("/work/shared/data/magika_061_vs_103.npz")
N = 400


@dataclass
class Pair:
    """Two models with equal probabilities: f' = f A + offset where their heads read."""

    W: Any
    b: Any
    W2: Any
    b2: Any
    A: Any
    offset: Any
    F: Any
    F2: Any

    def call(self, **options: Any) -> Heads:
        return heads(self.W, self.W2, bias=(self.b, self.b2), **options)


def conditioned(k: int, m: int, condition: float, rng: np.random.Generator) -> Any:
    """A centred head whose singular values go from 1 to 1 / condition."""
    raw = rng.standard_normal((k, m))
    left, _, right = np.linalg.svd(raw - raw.mean(axis=0), full_matrices=False)
    rank = min(k - 1, m)
    return left[:, :rank] * np.geomspace(1, 1 / condition, rank) @ right[:rank]


def planted(
    k: int = 12, m: int = 5, *, condition: float = 3.0, temperature: float = 1.0, seed: int = 0, noise: float = 0.0
) -> Pair:
    """Two models related by a known map, with biases; the logits of the second are `temperature` times the first's."""
    rng = np.random.default_rng(seed)
    W2 = conditioned(k, m, condition, rng)
    A, offset = rng.standard_normal((m, m)), rng.standard_normal(m)
    F = rng.standard_normal((N, m))
    F2 = F @ A + offset + noise * rng.standard_normal((N, m))
    # softmax(W f + b) = softmax((W2 f' + b2) / temperature) with f' = A^T f + offset
    W, b2 = W2 @ A.T / temperature, rng.standard_normal(k)
    return Pair(W, (b2 + W2 @ offset) / temperature, W2, b2, A, offset, F, F2)


# -- the map from weights alone


@pytest.mark.parametrize("condition", [1.5, 30, 1e3])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_planted_map_and_offset_are_read_off_the_weights_to_1e_8(condition, seed):
    made = planted(condition=condition, seed=seed)
    way = made.call().maps[0]
    assert (way.fixed, way.dimensions, way.fit) == (5, 5, None)
    assert np.abs(way.matrix - made.A).max() < 1e-8
    assert np.abs(way.offset_vector - made.offset).max() < 1e-8
    assert way.condition == pytest.approx(condition)
    assert way.expressed == pytest.approx(1)
    assert way.expressed_chance == pytest.approx(5 / 11)


def test_the_way_back_is_the_inverse():
    made = planted()
    there, back = made.call().maps
    assert np.allclose(there.matrix @ back.matrix, np.eye(5), atol=1e-9)
    assert np.allclose(made.offset @ back.matrix + back.offset_vector, 0, atol=1e-9)


def test_unrelated_heads_are_expressed_as_far_as_chance():
    rng = np.random.default_rng(3)
    way = heads(rng.standard_normal((300, 6)), rng.standard_normal((300, 60))).maps[0]
    assert way.expressed == pytest.approx(way.expressed_chance, abs=0.08)
    assert way.expressed_chance == pytest.approx(60 / 299)


def test_few_labels_give_the_subspace_and_its_dimension():
    made = planted(k=4, m=7)
    found = made.call(features=(made.F, made.F2))
    way = found.maps[0]
    assert (way.fixed, way.basis.shape, found.heads[1].rank, found.heads[1].diverse) == (3, (7, 3), 3, False)
    assert way.expressed is None
    assert np.allclose(way.basis.T @ way.basis, np.eye(3))
    space = made.W2 - made.W2.mean(axis=0)
    assert np.allclose(space @ way.basis @ way.basis.T, space)
    inside = (made.F @ way.matrix + way.offset_vector) @ way.basis
    assert np.allclose(inside, made.F2 @ way.basis)
    assert {alert.code for alert in found.alerts} == {"head_not_diverse"}
    share = found.heads[1].variance
    assert share == pytest.approx(np.var(made.F2 @ way.basis, axis=0).sum() / np.var(made.F2, axis=0).sum())


def test_one_label_more_than_dimensions_is_just_enough():
    assert [heads(w, w).heads[0].diverse for w in (planted(k=6).W2, planted(k=5).W2)] == [True, False]


def numbers(found: Heads) -> str:
    parts = without_time(found).to_json()
    return parts[parts.index('"maps"') :]


def test_a_vector_added_to_every_label_changes_nothing_but_the_gauge():
    made = planted()
    plain = made.call(features=(made.F, made.F2))
    made.W2 = made.W2 + np.array([3.0, -1, 0.5, 2, 1])
    made.b2 = made.b2 + 7
    moved = made.call(features=(made.F, made.F2))
    assert moved.heads[1].gauge > 0.9 > plain.heads[1].gauge
    assert np.allclose(moved.maps[0].matrix, plain.maps[0].matrix, atol=1e-9)
    assert np.allclose(moved.maps[0].offset_vector, plain.maps[0].offset_vector, atol=1e-9)
    assert moved.premise.logit_distance == pytest.approx(0, abs=1e-9)
    assert moved.maps[0].fit.r2 == pytest.approx(1)


def test_a_bias_that_is_left_out_moves_the_offset_only():
    made = planted()
    way = heads(made.W, made.W2, features=(made.F, made.F2)).maps[0]
    assert np.allclose(way.matrix, made.A, atol=1e-9)
    assert way.fit.offset_gap > 0.1
    assert made.call(features=(made.F, made.F2)).maps[0].fit.offset_gap == pytest.approx(0, abs=1e-9)


# -- with features


def test_equal_probabilities_are_explained_by_the_map_and_not_by_shuffled_labels():
    made = planted()
    found = made.call(features=(made.F, made.F2))
    fit = found.maps[0].fit
    assert (found.premise.n, found.premise.agreement) == (N, 1)
    assert found.premise.total_variation == pytest.approx(0, abs=1e-9)
    assert [fit.r2, fit.r2_ridge, fit.r2_fitted, fit.correlation] == pytest.approx([1, 1, 1, 1])
    assert (fit.ridge, fit.p) == (0, 1 / 20)
    assert fit.distance < 1e-8
    assert max(fit.null_r2, fit.null_r2_ridge) < 0.7
    assert found.temperature == pytest.approx(1)


@pytest.mark.parametrize("temperature", [0.4, 2.5])
def test_a_planted_temperature_is_reported_with_r2_before_and_after(temperature):
    made = planted(temperature=temperature)
    found = made.call(features=(made.F, made.F2))
    there, back = (way.fit for way in found.maps)
    assert found.temperature == pytest.approx(temperature)
    assert (there.scale, back.scale) == pytest.approx((temperature, 1 / temperature))
    assert there.r2 < 0.7
    assert there.r2_scale == pytest.approx(1)
    assert found.premise.relative_logit_distance > 0.2


@pytest.mark.parametrize("factor", [3.0, 1 / 3])
def test_a_ridge_hides_no_temperature(factor):
    made = planted(k=20, m=6)
    found = heads(made.W * factor, made.W2, features=(made.F, made.F2))
    fit = found.maps[0].fit
    assert found.temperature == pytest.approx(1 / factor)
    assert (fit.r2_scale, fit.r2_fitted) == pytest.approx((1, 1))
    assert fit.r2_scale_ci95[0] > 0.99
    assert fit.r2_ridge < 0.95
    assert fit.null_r2_scale < 0.8
    assert found.text.code == "heads_map_and_temperature"
    assert all(part in found.headline for part in (f"{1 / factor:.2f}", "1.00"))
    assert made.call(features=(made.F, made.F2)).text.code == "heads_map"


def test_a_map_of_the_wrong_sign_is_no_match():
    made = planted(k=20, m=6)
    fit = heads(-made.W, made.W2, features=(made.F, made.F2)).maps[0].fit
    assert (fit.correlation, fit.p) == (pytest.approx(-1), 1)
    assert fit.null_correlation > fit.correlation
    assert fit.r2_scale < 0.01


@pytest.mark.parametrize("k", [2, 3])
def test_two_and_three_labels_have_no_null_and_a_match_is_not_denied(k):
    made = planted(k=k, m=6)
    found = made.call(features=(made.F, made.F2))
    fit = found.maps[0].fit
    assert fit.r2_ridge == pytest.approx(1)
    assert (fit.draws, math.isnan(fit.p), math.isnan(fit.null_correlation)) == (0, True, True)
    assert [alert.values["labels"] for alert in found.alerts if alert.code == "few_labels"] == [k]
    assert found.text.code == "heads_map_without_null"
    assert numbers(from_json(found.to_json())) == numbers(found)


def test_four_labels_have_a_null_of_all_their_orders_but_the_own():
    made = planted(k=4, m=6)
    fit = made.call(features=(made.F, made.F2), null_draws=50).maps[0].fit
    assert (fit.draws, fit.p) == (23, pytest.approx(1 / 24))
    assert fit.correlation > fit.null_correlation


def test_orders_that_leave_the_head_as_it_is_are_no_shuffles():
    rng = np.random.default_rng(0)
    own = rng.standard_normal(2)
    mirrored = np.array([own, -own, 2 * own, -2 * own])  # one order turns its sign
    assert len(shuffles(mirrored, 50, rng)) == 22
    alike = np.array([own] * 4 + [-4 * own])  # 5 places for the odd one
    assert shuffles(alike, 50, rng) == []
    orders = shuffles(mirrored, 22, rng)
    heads_made = {mirrored[order].tobytes() for order in orders}
    assert len(heads_made) == 22
    assert not heads_made & {mirrored.tobytes(), (-mirrored).tobytes()}


def test_disagreement_shrinks_both_scales_and_is_no_temperature():
    made = planted(k=40, m=10)
    rng = np.random.default_rng(7)
    one, two = (made.F + 0.7 * rng.standard_normal((N, 10)) for _ in range(2))
    found = made.call(features=(one, two @ made.A + made.offset))
    assert max(way.fit.scale for way in found.maps) < 0.9
    assert found.temperature == pytest.approx(1, abs=0.15)


def test_a_ridge_is_chosen_where_the_head_is_ill_conditioned_and_helps_held_out_rows():
    rng = np.random.default_rng(5)
    made = planted(k=40, m=10, condition=200)
    logits = made.F @ (made.W - made.W.mean(axis=0)).T
    # The second model's features are right only as far as its logits show, up to noise in the logits.
    made.F2 = made.F2 + (0.05 * logits.std() * rng.standard_normal((N, 40))) @ np.linalg.pinv(made.W2).T
    fit = made.call(features=(made.F, made.F2)).maps[1].fit
    assert fit.ridge >= 0
    there = made.call(features=(made.F2, made.F), null_draws=1).maps[0].fit  # the features exchanged: a wrong pair
    assert there.ridge > 0
    assert there.r2_ridge > there.r2


@pytest.mark.long
def test_intervals_of_r2_cover_the_known_value_and_narrow_with_rows():
    made, noise = planted(), 0.8
    truth = 1 - 5 * noise**2 / (np.sum(made.A**2) + 5 * noise**2)  # normal features of variance 1, all dimensions fixed
    rng = np.random.default_rng(11)

    def fit(rows: int):
        F = rng.standard_normal((rows, 5))
        F2 = F @ made.A + made.offset + noise * rng.standard_normal((rows, 5))
        return made.call(features=(F, F2), null_draws=1, workers=1).maps[0].fit

    found, many = [fit(60) for _ in range(40)], fit(6000)
    for name in ("r2", "r2_ridge"):
        bounds = [getattr(each, f"{name}_ci95") for each in found]
        assert np.mean([low <= truth <= high for low, high in bounds]) >= 0.85
        low, high = getattr(many, f"{name}_ci95")
        assert high - low < 0.2 * np.median([b - a for a, b in bounds])


def test_there_is_no_interval_of_one_row_in_a_part():
    made = planted()
    few = made.call(features=(made.F[:19], made.F2[:19]), null_draws=1).maps[0].fit
    enough = made.call(features=(made.F[:20], made.F2[:20]), null_draws=1).maps[0].fit
    assert (few.r2_ci95, few.r2_ridge_ci95) == (None, None)
    assert enough.r2_ci95 is not None


def test_unrelated_features_are_at_chance():
    rng = np.random.default_rng(0)
    made = planted(k=30, m=6)
    found = heads(made.W, rng.standard_normal((30, 6)), features=(made.F, rng.standard_normal((N, 6))))
    fit = found.maps[0].fit
    assert abs(fit.correlation) < 0.2
    assert fit.r2_ridge < 0.05
    assert found.premise.agreement < 0.2
    assert found.premise.relative_logit_distance == pytest.approx(1, abs=0.1)


def test_labels_in_another_order_are_joined_by_name():
    made = planted()
    names = np.array([f"label {i}" for i in range(12)])
    order = np.random.default_rng(0).permutation(12)
    by_name = heads(made.W, made.W2[order], bias=(made.b, made.b2[order]), labels=[names, names[order]]).maps[0]
    assert np.allclose(by_name.matrix, made.A, atol=1e-9)
    by_position = heads(made.W, made.W2[order], bias=(made.b, made.b2[order])).maps[0]
    assert not np.allclose(by_position.matrix, made.A, atol=0.1)
    assert by_position.expressed < 0.9
    kept = heads(made.W, Representation(made.W2[:9], names[:9]), labels=[names, names[:9]])
    assert kept.heads[0].labels == 9
    assert [a.values["dropped"] for a in kept.alerts if a.code == "labels_dropped"] == [{"first": 3}]


def test_frequent_labels_alone_make_a_head_less_diverse():
    W = np.vstack([planted(k=6, m=5).W2 * 3, np.zeros((2, 5))])
    even = heads(W, W, frequencies=np.ones(8)).heads[0]
    assert (even.weighted_rank, even.frequencies) == (5, "given")
    assert even.weighted_condition == pytest.approx(even.condition)
    assert even.effective_labels == pytest.approx(8)
    rare = heads(W, W, frequencies=[1, 1, 1, 0, 0, 0, 0, 0]).heads[0]
    assert (rare.rank, rare.weighted_rank, rare.smallest_eigenvalue) == (5, 2, 0)
    assert heads(W, W).heads[0].weighted_rank is None


def test_weights_stored_in_half_precision_have_the_rank_they_had():
    W = planted(k=40, m=10).W2
    flat = W @ np.diag([1.0] * 7 + [0.0] * 3)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((10, 10)))[0]
    for dtype in (np.float16, np.float32, np.float64):
        assert heads((flat @ turn).astype(dtype), W).heads[0].rank == 7


def test_the_result_survives_json_and_does_not_depend_on_blocks_or_workers():
    made = planted(noise=0.1)
    found = made.call(features=(made.F, made.F2))
    again = from_json(found.to_json())
    assert again.to_json() == found.to_json()
    with pytest.raises(UsageError, match="matrix"):
        _ = again.maps[0].matrix
    assert numbers(made.call(features=(made.F, made.F2), workers=1)) == numbers(found)
    assert list(found.to_frame()["fit_r2"]) == pytest.approx([way.fit.r2 for way in found.maps])


def test_features_are_joined_by_id():
    made = planted()
    ids = np.arange(N).astype(str)
    shuffled = np.random.default_rng(0).permutation(N)[: N - 5]
    tables = (Representation(made.F, ids), Representation(made.F2[shuffled], ids[shuffled]))
    found = made.call(features=tables)
    assert found.premise.n == N - 5
    assert found.maps[0].fit.r2 == pytest.approx(1)
    assert [alert.code for alert in found.alerts] == ["rows_dropped"]


def test_weights_of_unequal_size_are_said_where_no_features_choose_a_ridge():
    rng = np.random.default_rng(6)
    first, second = conditioned(12, 5, 9.9, rng), conditioned(12, 5, 10.1, rng)
    F = rng.standard_normal((N, 5))
    told, with_features = (
        [alert.values for alert in heads(first, second, **given).alerts if alert.code == "head_ill_conditioned"]
        for given in ({}, {"features": (F, F @ rng.standard_normal((5, 5))), "null_draws": 1})
    )
    assert told == [{"name": "second", "condition": pytest.approx(10.1)}]
    assert with_features == []


# -- layers, layouts


def test_a_layer_with_weight_and_bias_is_a_head_and_labels_may_be_columns():
    made = planted()

    class Layer:
        def __init__(self, weight: Any, bias: Any):
            self.weight, self.bias = weight, bias

    layers = Layer(made.W, made.b), Layer(made.W2, made.b2)
    assert np.allclose(heads(*layers).maps[0].offset_vector, made.offset)
    assert not np.allclose(heads(*layers, bias=("none", "none")).maps[0].offset_vector, made.offset)
    turned = heads(made.W.T, made.W2.T, bias=(made.b, made.b2))
    assert np.allclose(turned.maps[0].matrix, made.A)
    assert [alert.code for alert in turned.alerts].count("head_transposed") == 2
    by_features = heads(made.W.T, made.W2.T, features=(made.F, made.F2))
    assert by_features.heads[0].labels == 12
    assert heads(made.W.T, made.W2.T, layout="columns").heads[0].labels == 12
    assert heads(made.W.T, made.W2.T).heads[0].labels == 5


# -- what is refused


@pytest.mark.parametrize(
    ("change", "error", "parts"),
    [
        ({"first": np.ones((4, 3))}, DataError, ("first", 4, "second", 12)),
        ({"first": np.ones((12, 5))}, DataError, ("first",)),
        ({"first": np.full((12, 5), np.nan)}, DataError, ("first", 60)),
        ({"first": np.ones((1, 5))}, DataError, ("first", 2, 1)),
        ({"bias": (np.ones(4), None)}, DataError, ("first", 12, 5, 4)),
        ({"features": (np.ones((N, 4)), np.ones((N, 5)))}, DataError, ("first", 12, 5, 4)),
        ({"features": (np.ones((6, 5)), np.ones((6, 5)))}, UsageError, (6, 5)),
        ({"features": (np.ones((9, 5)), np.ones((8, 5)))}, PairingError, (9, 8)),
        ({"features": (np.ones((9, 5)),)}, UsageError, ("features",)),
        ({"bias": "none"}, UsageError, ("bias",)),
        ({"frequencies": [1, 2]}, DataError, ("frequencies", 12, 2)),
        ({"frequencies": -np.ones(12)}, DataError, ("frequencies", 12)),
        ({"labels": ["a"] * 12}, PairingError, ("first", 1)),
        ({"labels": 7}, UsageError, ("labels",)),
        ({"names": ["a", "a"]}, UsageError, ("names", "a, a")),
        ({"layout": "diagonal"}, UsageError, ("layout", "diagonal")),
    ],
)
def test_what_cannot_be_compared_is_refused(change, error, parts):
    made = planted()
    given = {"first": made.W, "second": made.W2, **change}
    with pytest.raises(error, match=naming(*parts)):
        heads(given.pop("first"), given.pop("second"), **given)


# -- a real pair


@pytest.mark.skipif(not MAGIKA.exists(), reason="needs the real pair of heads in /work/shared/data")
def test_two_releases_of_magika():
    files = [f"{MAGIKA}:{name}" for name in ("head_a", "head_b", "a", "b")]
    found = heads(*files[:2], features=files[2:], null_draws=3)
    for way, target in zip(found.maps, found.heads[::-1], strict=True):
        assert (way.fixed, way.dimensions) == (213, 512)
        assert target.variance == pytest.approx(0.51, abs=0.005)
        assert way.fit.correlation >= 0.45
        assert way.fit.null_correlation <= 0.05
        assert way.fit.r2_fitted > way.fit.r2_ridge > 0.25 > 0 > way.fit.r2
    assert found.premise.agreement == pytest.approx(0.81, abs=0.005)
    assert found.temperature == pytest.approx(1, abs=0.05)
    assert all(part in found.headline for part in ("213 of 512", "81 %", "0.31"))
    assert "features_swapped" not in {alert.code for alert in found.alerts}
    turned = heads(*files[:2], features=files[:1:-1], null_draws=1).alerts[0]
    assert (turned.code, turned.values["same"], turned.values["other"]) == (
        "features_swapped", pytest.approx(0.38, abs=0.005), pytest.approx(0.81, abs=0.005),
    )  # fmt: skip


# -- features in the wrong order


def classifiers(k: int, seed: int, *, moved: float = 1.0) -> tuple[list[Any], list[Any]]:
    """Heads and features of two models of k labels, of one width: the second is the first turned by a rotation, and noise.

    `moved` is the share of that rotation in the second model: 1 for one trained by itself, less for a later checkpoint.
    """
    rng = np.random.default_rng([seed, 7])
    m = 16
    centres = 2 * rng.standard_normal((k, m))
    first = centres[rng.integers(0, k, 600)] + rng.standard_normal((600, m))
    skew = rng.standard_normal((m, m))
    turn = np.linalg.qr(np.eye(m) + moved * (skew - skew.T))[0]
    second = (first + 0.3 * rng.standard_normal(first.shape)) @ turn
    return [centres, (centres + 0.2 * rng.standard_normal(centres.shape)) @ turn], [first, second]


def swapped(W: list[Any], F: list[Any]) -> bool:
    found = heads(*W, features=F, null_draws=1)
    return "features_swapped" in {alert.code for alert in found.alerts}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [10, 60])
def test_features_in_the_order_of_the_other_heads_are_said_first(k: int, seed: int) -> None:
    W, F = classifiers(k, seed)
    assert not swapped(W, F)
    found = heads(*W, features=F[::-1], null_draws=1)
    assert found.alerts[0].code == "features_swapped"
    assert found.alerts[0].values["same"] == found.premise.agreement < 0.5 < found.alerts[0].values["other"]
    assert found.headline.startswith(found.alerts[0].message)


@pytest.mark.parametrize("seed", range(12))
def test_features_in_the_right_order_are_never_said_to_be_swapped(seed: int) -> None:
    """Models of other labels, random heads, heads that give one label to nearly all rows, checkpoints of one model, two labels."""
    rng = np.random.default_rng([seed, 8])
    for k in (2, 3, 10, 60):
        W, F = classifiers(k, seed)
        assert not swapped([W[0], W[1][rng.permutation(k)]], F)
        assert not swapped([rng.standard_normal(w.shape) for w in W], F)
        assert not swapped([rng.standard_normal(w.shape) for w in W], [f + 20 for f in F])
        for moved in (0.01, 0.1):
            assert not swapped(*classifiers(k, seed, moved=moved))


def test_heads_of_other_widths_have_one_order_only() -> None:
    W, F = classifiers(10, 0)
    wider = [np.pad(W[1], ((0, 0), (0, 3))), np.pad(F[1], ((0, 0), (0, 3)))]
    assert not swapped([W[0], wider[0]], [F[0], wider[1]])


def test_heads_given_as_features_are_to_be_swapped_with_them() -> None:
    W, F = classifiers(10, 0)
    with pytest.raises(DataError, match=r"\(600, 16\).* 10 columns.*swap"):
        heads(*F, features=[w.T for w in W])
    with pytest.raises(DataError, match=r"\(10, 16\).* 7 columns") as other:
        heads(*W, features=[f[:, :7] for f in F])
    assert "swap" not in str(other.value)
