"""Layers of two models: measures against numpy and `compare`, planted matches found, none claimed where there is none."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save_file

from errors import naming
from identifiable import DataError, PairingError, Representation, UsageError, compare, layers
from identifiable.groups import haar_rotation
from identifiable.identifiability import layer_sums
from identifiable.identifiability.layer_measures import shuffled_cka
from identifiable.identifiability.layers import Model, _above, _trend, gumbel_limit, same_depth
from identifiable.results import LayerPair, without_time
from identifiable.run import Run

N = 240


def chain(seed, count, width=6, n=N):
    """Layers that follow from one another, each with some novelty."""
    rng = np.random.default_rng(seed)
    rows, found = rng.standard_normal((n, width)), {}
    for i in range(count):
        rows = rows @ (np.eye(width) + 0.6 * rng.standard_normal((width, width)) / width**0.5)
        rows = np.tanh(rows) + 0.8 * rng.standard_normal((n, width))
        found[f"layer_{i}"] = rows
    return found


def turned(model, seed, noise=0.2, names=None):
    """The same layers rotated, scaled and noisy, in the order and under the names given."""
    rng = np.random.default_rng(seed)
    held = {
        name: 2 * rows @ haar_rotation(rows.shape[1], rng) + noise * rng.standard_normal(rows.shape) + 1
        for name, rows in model.items()
    }
    return dict(zip(names or held, (held[name] for name in (names or held)), strict=True))


def centred(rows):
    return rows - rows.mean(axis=0)


def cka(x, y):
    """The unbiased estimate, from kernels: Song et al. 2012, equation 5."""
    n = len(x)
    K, L = (c @ c.T for c in (centred(x), centred(y)))

    def hsic(K, L):
        K, L = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
        return np.trace(K @ L) + K.sum() * L.sum() / ((n - 1) * (n - 2)) - 2 * (K.sum(0) @ L.sum(0)) / (n - 2)

    return hsic(K, L) / np.sqrt(hsic(K, K) * hsic(L, L))


def svcca(x, y, k):
    sides = []
    for rows in (x, y):
        u, _, _ = np.linalg.svd(centred(rows) / rows.std(axis=0), full_matrices=False)
        sides.append(u[:, :k])
    return np.linalg.svd(sides[0].T @ sides[1], compute_uv=False).mean()


def found_in(result):
    return [match.best for match in result.matches]


# -- the measures


def test_cka_and_svcca_equal_numpy_for_every_pair_of_layers_of_any_width():
    first = chain(0, 2, width=5) | {"layer_2": chain(1, 1, width=7)["layer_0"]}
    second = {f"layer_{i}": np.exp(rows[:, :4] / 2) for i, rows in enumerate(chain(2, 3).values())}
    second["layer_1"] += first["layer_0"][:, :4]
    result = layers(first, second, components=3, null_draws=1)
    for of, left, right in (("models", first, second), ("self", first, first)):
        grid = result.grid(of)
        for i, x in enumerate(left.values()):
            for j, y in enumerate(right.values()):
                assert grid.cka[i][j] == pytest.approx(cka(x, y), abs=1e-10)
                assert grid.svcca[i][j] == pytest.approx(svcca(x, y, 3), abs=1e-10)
    assert result.components == 3
    assert result.grid("self").r2[0][2] == result.grid("self").r2_back[2][0]


@pytest.mark.parametrize("width", [6, 4])
def test_r2_and_overlap_with_their_intervals_are_those_of_compare(width):
    first = chain(3, 2)
    second = {name: rows[:, :width] + 0.5 for name, rows in turned(first, 4).items()}
    result = layers(first, second, null_draws=1, seed=5)
    pairs = compare(first["layer_1"], second["layer_1"], nulls=(), axes=False, seed=5).pairs
    found = result.diagonal[1]
    for pair, value, interval in (
        (pairs[0], found.r2, found.r2_ci95),
        (pairs[1], found.r2_back, found.r2_back_ci95),
    ):
        expected = pair.rung("similarity").r2
        assert (value, *interval) == pytest.approx((expected.value, *expected.ci95), abs=1e-6)
    mutual = pairs[0].neighbours.mutual
    assert (found.overlap, found.overlap_ci95) == (mutual.value, mutual.ci95)
    assert found.cka == pytest.approx(pairs[0].similarity.cka_debiased, abs=1e-10)


def test_every_measure_of_a_layer_with_itself_is_one():
    """Also on fewer rows than columns, where no fit to other rows gives a row back."""
    rng = np.random.default_rng(0)
    models = [{f"layer_{i}": rng.standard_normal((40, 60)) for i in range(2)} for _ in range(2)]
    grid = next(grid for grid in layers(*models).grids if grid.of == "self")
    for measure in ("cka", "svcca", "r2", "r2_back", "overlap"):
        assert np.diag(getattr(grid, measure)).tolist() == [1.0, 1.0], measure


def test_r2_counts_the_variance_outside_the_components():
    first = {name: rows * np.geomspace(3, 0.3, 6) for name, rows in chain(5, 2).items()}
    result = layers(first, turned(first, 6, noise=0), components=2, null_draws=1)
    for pair, layer in zip(result.diagonal, result.layers, strict=False):
        assert layer.kept < 0.95
        assert pair.r2 == pytest.approx(layer.kept, abs=0.01)


def test_a_layer_of_low_rank_has_fewer_components_and_takes_none_from_others():
    first = chain(43, 3)
    first["layer_0"] = first["layer_0"][:, :2] @ np.random.default_rng(45).standard_normal((2, 6))
    second = turned(first, 44)
    result = layers(first, second, null_draws=1)
    grid = result.grid("models")
    assert (result.components, result.layers[0].rank) == (6, 2)
    assert grid.svcca[1][2] == pytest.approx(svcca(first["layer_1"], second["layer_2"], 6), abs=1e-10)
    assert grid.svcca[0][2] == pytest.approx(svcca(first["layer_0"], second["layer_2"], 2), abs=1e-10)
    assert result.diagonal[0].cka == pytest.approx(cka(first["layer_0"], second["layer_0"]), abs=1e-10)


def test_the_interval_of_cka_is_a_jackknife_over_cells_of_rows(monkeypatch):
    first = chain(7, 2)
    second = turned(first, 8, noise=2.0)
    drawn = {}
    from identifiable.identifiability import layers as module

    real = module.measure_pair

    def spy(x, y, found, plan):
        got = real(x, y, found, plan)
        drawn[x.facts.model, x.name, y.facts.model, y.name] = got.cka_without, plan.cell
        return got

    monkeypatch.setattr(module, "measure_pair", spy)
    result = layers(first, second, null_draws=1)
    values, cell = drawn["first", "layer_0", "second", "layer_0"]
    expected = [cka(first["layer_0"][cell != c], second["layer_0"][cell != c]) for c in range(10)]
    assert values == pytest.approx(expected, abs=2e-3)
    assert np.std(values - expected) < 0.1 * np.std(expected)
    low, high = result.diagonal[0].cka_ci95
    assert low < result.diagonal[0].cka < high


def test_tiles_blocks_and_workers_change_nothing(monkeypatch, tmp_path):
    first = chain(9, 3)
    whole = layers(first, turned(first, 10), null_draws=2, workers=1)
    again = layers(first, turned(first, 10), null_draws=2, workers=2)
    assert without_time(again).to_json() == without_time(whole).to_json()
    monkeypatch.setattr(layer_sums, "TILE_BYTES", 1)
    monkeypatch.setattr(layer_sums, "BUFFER_ROWS", 32)
    monkeypatch.setattr("identifiable.blocks.tables.MAX_CHUNK_ROWS", 50)
    small = layers(first, turned(first, 10), null_draws=2)
    for one, other in zip(small.grids, whole.grids, strict=True):
        for measure in ("cka", "svcca", "r2", "overlap"):
            assert np.allclose(getattr(one, measure), getattr(other, measure), atol=1e-10)


def test_shuffled_cka_is_cka_of_shuffled_rows():
    first, second = chain(11, 2, n=60), chain(12, 3, n=60)
    found = shuffled_cka(list(first.values()), list(second.values()), 200, Run(seed=1))
    assert found.shape == (201, 2, 3)
    assert found[0, 1, 2] == pytest.approx(cka(first["layer_1"], second["layer_2"]), abs=1e-5)
    assert np.abs(found[1:].mean(axis=0)).max() < 0.01  # debiased: 0 by chance
    assert len({round(float(v), 9) for v in found[:, 0, 0]}) == 201


# -- planted cases


def test_rotated_noisy_layers_match_one_to_one():
    first = chain(13, 4)
    result = layers(first, turned(first, 14))
    assert (result.text.code, result.matched, result.same, result.tied) == ("layers_one_to_one", 4, 4, 0)
    assert all(match.gap_ci95[0] > 0 and match.p == 0.05 for match in result.matches)
    assert {value.p for pair in result.diagonal for value in pair.null.values()} == {0.05}


def test_a_permuted_order_is_found():
    first = chain(15, 4)
    order = ["layer_2", "layer_0", "layer_3", "layer_1"]
    moved = turned(first, 16, names=order)
    second = {f"block_{i}": rows for i, rows in enumerate(moved.values())}
    result = layers(first, second)
    assert (result.text.code, result.matched, result.same) == ("layers_reordered", 4, 0)
    assert found_in(result) == [f"block_{order.index(name)}" for name in first]
    assert [match.best for match in result.matches_back] == order


@pytest.mark.parametrize("seed", [17, 18])
def test_independent_layers_have_no_match(seed):
    result = layers(chain(seed, 4), chain(seed + 100, 4))
    assert (result.text.code, result.matched, result.tied) == ("layers_unrelated", 0, 0)
    assert max(abs(pair.cka) for pair in result.diagonal) < 0.1
    assert max(pair.r2 for pair in result.diagonal) < 0.05


@pytest.mark.parametrize(("draws", "code"), [(18, "layers_tied"), (19, "layers_unrelated")])
def test_fewer_than_nineteen_shuffles_call_nothing_chance(draws, code):
    result = layers(chain(51, 3), chain(52, 3), null_draws=draws)
    assert min(match.p for match in result.matches) > 0.05
    assert result.text.code == code


def test_the_unit_of_a_layer_changes_no_measure():
    first = chain(53, 3)
    second = turned(first, 54)
    plain = layers(first, second, null_draws=1)
    for units in ((1, 2.0**-30), (2.0**-30, 1)):  # powers of two: no bit of a mantissa changes
        scaled = layers(
            *({k: rows * unit for k, rows in m.items()} for m, unit in zip((first, second), units, strict=True)),
            null_draws=1,
        )
        assert scaled.grids == plain.grids
        assert [pair.cka_ci95 for pair in scaled.diagonal] == [pair.cka_ci95 for pair in plain.diagonal]


@pytest.mark.parametrize("seed", [1, 4])
def test_the_largest_of_a_map_of_noise_is_not_a_similarity(seed):
    """These two are above all 19 shuffles, as 5 % of such maps are."""
    rng = np.random.default_rng(seed)
    first, second = ([rng.standard_normal((150, 8)) for _ in range(4)] for _ in range(2))
    result = layers(first, second)
    assert (result.text.code, result.tied, min(match.p for match in result.matches)) == ("layers_unrelated", 0, 0.05)


def test_the_limit_of_the_largest_is_exceeded_in_one_or_two_per_cent():
    drawn = (np.random.default_rng(0).standard_normal((4000, 20, 16)) ** 2).max(
        axis=2
    )  # as skewed as CKA of one column is by chance
    above = [own > max(gumbel_limit(rest, 0.01), rest.max()) for own, *more in drawn for rest in [np.array(more)]]
    assert 0.005 < np.mean(above) < 0.025


def test_a_weak_similarity_is_not_called_chance():
    first = chain(47, 3)
    result = layers(first, turned(first, 48, noise=4.0))
    assert max(match.cka for match in result.matches) < 0.3
    assert result.text.code != "layers_unrelated"


def test_half_of_the_layers_is_no_correspondence():
    rng = np.random.default_rng(2)
    first = {f"layer_{i}": rng.standard_normal((N, 6)) for i in range(4)}
    said = layers(first, turned(first, 3, names=["layer_0", "layer_1"])).text
    counted = [said.values[name] for name in ("matched", "layers", "same", "chance")]
    assert (said.code, counted) == ("layers_some", [2, 4, 1, 2])
    back = layers(turned(first, 3, names=["layer_0", "layer_1"]), first).text
    assert (back.code, back.values["matched"]) == ("layers_in_order", 2)


def test_layers_beyond_chance_that_are_equally_alike_are_tied_and_not_matched():
    first = chain(20, 3)
    rows = first["layer_1"]
    second = {"a": rows, "b": rows @ haar_rotation(6, np.random.default_rng(0)), "c": rows * 3}
    result = layers(first, second)
    middle = result.matches[1]
    assert (middle.clear, middle.p, len(middle.tied)) == (False, 0.05, 2)
    assert middle.cka == pytest.approx(1)
    assert (result.text.code, result.matched) == ("layers_tied", 0)


def test_layers_that_are_all_most_like_one_are_not_called_a_correspondence():
    rng = np.random.default_rng(46)
    rows = rng.standard_normal((N, 6))
    first = {f"layer_{i}": rows + 0.5 * (i + 1) * rng.standard_normal((N, 6)) for i in range(5)}
    second = {"layer_0": rows, **{f"layer_{i}": rows + 2 * rng.standard_normal((N, 6)) for i in (1, 2, 3)}}
    result = layers(first, second)
    assert (result.text.code, result.text.values["best"], result.text.values["times"]) == ("layers_alike", "layer_0", 5)
    assert result.text.values["every"] == 5
    few = layers({name: first[name] for name in ("layer_0", "layer_1")}, second)
    assert (few.text.code, few.text.values["best"], few.text.values["times"]) == ("layers_share_match", "layer_0", 2)


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ([1, 0, 0, 2], "layers_partly"),  # one layer is the match of two, and depth does not say which
        ([1, 1, 0, 0], "layers_partly"),
        ([0, 0, 1, 2], "layers_in_order"),
        ([2, 0, 1], "layers_reordered"),
        ([1, 1, 1, 0], "layers_share_match"),
        ([1, 1, 1, 1, 0], "layers_alike"),
    ],
)
def test_a_match_in_part_has_neither_an_order_nor_one_layer_for_each(order, code):
    rng = np.random.default_rng(49)
    second = {f"layer_{k}": rng.standard_normal((100, 6)) for k in range(3)}
    first = {f"layer_{i}": second[f"layer_{k}"] + 0.5 * rng.standard_normal((100, 6)) for i, k in enumerate(order)}
    result = layers(first, second)
    assert found_in(result) == [f"layer_{k}" for k in order]
    assert (result.text.code, result.text.values["matched"]) == (code, len(order))
    assert "every" not in result.text.values


def test_a_deeper_model_of_another_width_matches_in_order():
    deep = chain(21, 12, width=5, n=160)
    names = [f"layer_{2 * i + 1}" for i in range(6)]
    wide = np.random.default_rng(22).standard_normal((5, 9))
    shallow = {f"layer_{i}": deep[name] @ np.linalg.qr(wide.T)[0].T * 2 for i, name in enumerate(names)}
    result = layers(shallow, deep, null_draws=19)
    assert found_in(result) == names
    assert (result.text.code, result.matched) == ("layers_in_order", 6)
    assert [pair.second for pair in result.diagonal] == [f"layer_{i}" for i in (0, 2, 4, 7, 9, 11)]


@pytest.mark.parametrize("turn", [False, True])
def test_one_layer_is_found_among_many(turn):
    first = chain(23, 4)
    second = turned(first, 24)
    one = {"head": first["layer_2"]}
    result = layers(second, one) if turn else layers(one, second)
    assert (result.text.code, result.diagonal) == ("layer_found", ())
    assert (result.text.values["layer"], result.text.values["best"]) == ("head", "layer_2")
    assert result.text.values["cka"] == (result.matches_back if turn else result.matches)[0].cka > 0.8
    alone = layers({"layer_1": first["layer_2"]}, second)
    assert [(pair.first, pair.second) for pair in alone.diagonal] == [("layer_1", "layer_1")]
    assert not alone.matches[0].same


def test_one_layer_that_is_as_much_like_several_is_tied_and_not_found():
    first = chain(50, 3, n=120)
    rows = first["layer_1"]
    several = {"a": rows, "b": rows @ haar_rotation(6, np.random.default_rng(50)), "c": 3 * rows, "d": first["layer_0"]}
    for result in (layers({"head": rows}, several), layers(several, {"head": rows})):
        said = result.text
        assert (said.code, said.values["layer"], sorted(said.values["others"])) == (
            "layer_tied",
            "head",
            ["a", "b", "c"],
        )
    assert layers({"head": rows}, several).matched == 0
    assert layers({"head": rows}, {name: several[name] for name in "ad"}).text.code == "layer_found"


def test_depth_is_relative():
    assert same_depth("abc", "xyz") == {0: 0, 1: 1, 2: 2}
    assert list(same_depth("abcdef", "x" * 12).values()) == [0, 2, 4, 7, 9, 11]
    assert list(same_depth("abcde", "xyz").values()) == [0, 0, 1, 2, 2]
    assert same_depth(["q"], ["p", "q"]) == {0: 1}


def test_cka_that_falls_with_depth_is_said():
    first = chain(25, 5, n=120)
    second = {name: rows for i, name in enumerate(first) for rows in [turned(first, 26, noise=0.2 + 0.5 * i)[name]]}
    said = layers(first, second, null_draws=1).text.remarks[0]
    assert said.code == "depth_falls"
    assert said.values["begin"] > said.values["end"] + 0.2
    rises = dict(zip(first, list(second.values())[::-1], strict=True))
    back = layers(dict(zip(first, list(first.values())[::-1], strict=True)), rises, null_draws=1).text.remarks[0]
    assert back.code == "depth_rises"


# -- baselines and alerts


def codes(result):
    return [alert.code for alert in result.alerts]


def test_an_untrained_pair_is_a_baseline():
    first = chain(27, 3)
    second = turned(first, 28)
    before = chain(29, 3), chain(30, 3)
    result = layers(first, second, untrained=before, null_draws=1)
    assert (result.above_untrained, result.grid("untrained").first) == (3, tuple(first))
    assert result.grid("untrained").cka[0][0] == pytest.approx(cka(before[0]["layer_0"], before[1]["layer_0"]))
    assert not {"untrained_missing", "no_more_than_untrained"} & set(codes(result))
    assert result.text.remarks[-1].code == "untrained_pair"
    same = layers(first, second, untrained=(first, turned(first, 28, noise=0.1)), null_draws=1)
    assert same.above_untrained == 0
    alert = next(alert for alert in same.alerts if alert.code == "no_more_than_untrained")
    assert (alert.values["layers"], alert.values["of"]) == (3, 3)
    assert "untrained_missing" in codes(layers(first, second, null_draws=1))


def test_a_pair_is_above_an_untrained_one_by_the_end_of_its_interval_if_it_has_one():
    def pair(cka, interval=None):
        return LayerPair("a", "b", cka=cka, svcca=0.5, r2=0.5, r2_back=0.5, overlap=0.5, cka_ci95=interval)

    assert _above(pair(0.8), pair(0.7, (0.6, 0.9)))
    assert not _above(pair(0.6), pair(0.7, (0.1, 0.2)))
    assert _above(pair(0.8, (0.75, 0.85)), pair(0.7))
    assert not _above(pair(0.8, (0.6, 0.95)), pair(0.7))


def test_a_model_without_a_file_is_its_own_checkpoint():
    model = Model("a", ())
    assert (model.source, model.step, model.checkpoint) == ("", "", "a")
    assert Model("a", (), "file", "step 3").checkpoint == "step 3"


@pytest.mark.parametrize(("weak", "rank"), [(1e-4, 4), (1e-8, 3)])
def test_a_weak_direction_counts_and_rounding_does_not(weak, rank):
    rows = np.random.default_rng(3).standard_normal((200, 4)) * [1, 1, 1, weak]
    result = layers({"a": rows, "b": rows}, {"a": rows[:, ::-1], "b": rows}, null_draws=1)
    assert [layer.rank for layer in result.layers] == [rank] * 4


def test_one_strong_direction_is_said_and_an_even_spread_is_not():
    rng = np.random.default_rng(31)
    even = {f"layer_{i}": rng.standard_normal((N, 8)) for i in range(2)}
    assert "leading_direction" not in codes(layers(even, turned(even, 32), null_draws=1))
    rogue = {name: rows * ([6.0] + [1.0] * 7) for name, rows in even.items()}
    result = layers(rogue, turned(rogue, 32), null_draws=1)
    alert = next(alert for alert in result.alerts if alert.code == "leading_direction")
    assert alert.values["layers"] == 4
    assert result.layers[0].leading == pytest.approx(36 / 43, abs=0.05)
    assert result.layers[0].rogue == pytest.approx(result.layers[0].leading, abs=0.01)
    assert result.layers[0].weight > result.layers[0].leading


def test_few_rows_withhold_intervals_and_matches():
    few = {name: rows[:16] for name, rows in chain(33, 3).items()}
    result = layers(few, turned(few, 34))
    assert {"too_few_groups", "few_rows_for_layers"} <= set(codes(result))
    assert (result.matched, result.diagonal[0].cka_ci95, result.diagonal[0].r2_ci95) == (0, None, None)


def test_rows_are_joined_by_id_and_layers_may_be_a_list():
    first = chain(35, 2)
    ids = np.arange(N)
    order = np.random.default_rng(36).permutation(N)[:200]
    second = {name: rows[order] for name, rows in turned(first, 37).items()}
    result = layers({**first, "ids": ids}, {**second, "ids": ids[order]}, null_draws=1)
    assert (result.n, result.matched) == (200, 2)
    (dropped,) = (alert.values for alert in result.alerts if alert.code == "rows_dropped")
    assert dropped == {"dropped": {"first": N - 200}, "remain": 200}
    listed = layers(list(first.values()), [Representation(rows) for rows in turned(first, 37).values()], null_draws=1)
    assert (listed.diagonal[1].first, listed.n) == ("layer_1", N)
    assert "paired_by_position" in codes(listed)


@pytest.mark.parametrize(
    ("first", "second", "error", "parts"),
    [
        ({}, {"a": 1}, DataError, ["first"]),
        (np.zeros((5, 2)), {}, DataError, ["first", "ndarray"]),
        ({"a": np.eye(20)}, {"b": np.eye(20)}, UsageError, ["compare"]),
        ({"a": np.eye(20), "b": np.eye(21)}, chain(0, 2), DataError, ["a has 20", "b has 21"]),
        (chain(0, 2, n=3), chain(1, 2, n=3), DataError, ["3 rows", "4"]),
        (chain(0, 2, n=50), chain(1, 2, n=60), PairingError, ["50", "60"]),
        (chain(0, 2), {"a": np.ones((N, 3)), "b": np.eye(N)}, DataError, ["second:a"]),
        ({**chain(0, 2), "ids": np.arange(N)}, {**chain(1, 2), "ids": np.arange(N) + N}, PairingError, ["share 0"]),
    ],
)
def test_what_cannot_be_compared_is_refused(first, second, error, parts):
    with pytest.raises(error, match=naming(*parts)):
        layers(first, second)


@pytest.mark.parametrize(
    ("options", "error", "parts"),
    [
        ({"layers": [7]}, DataError, ["7", "layer_0"]),
        ({"untrained": "a.npz"}, UsageError, ["untrained"]),
        ({"untrained": [chain(1, 1), chain(1, 2)]}, DataError, ["1 layers", "2"]),
        ({"names": ["a", "a"]}, UsageError, ["names", "a, a"]),
        ({"ids": ["x"]}, UsageError, ["ids"]),
    ],
)
def test_options_that_do_not_fit_are_refused(options, error, parts):
    with pytest.raises(error, match=naming(*parts)):
        layers(chain(0, 2), chain(1, 2), **options)


# -- over training


def test_a_folder_is_training_and_its_last_file_the_model(tmp_path):
    last = chain(38, 2)
    for run, seed in (("a", 39), ("b", 40)):
        (tmp_path / run).mkdir()
        for step, noise in ((2, 3.0), (10, 0.3), (100, 0.1)):
            saved = {**turned(last, seed, noise), "ids": np.arange(N)}
            save_file(saved, tmp_path / run / f"step_{step}.safetensors")
    both = layers(tmp_path / "a", tmp_path / "b", null_draws=19)
    assert both.names == ("a", "b")
    kinds = [(c.series, c.step, c.checkpoint) for c in both.training]
    assert kinds == [
        ("first", 0, "step_2"), ("second", 0, "step_2"), ("between", 0, "step_2"),
        ("first", 1, "step_10"), ("second", 1, "step_10"), ("between", 1, "step_10"), ("between", 2, "step_100"),
    ]  # fmt: skip
    between = [c for c in both.training if c.series == "between"]
    assert [c.diagonal[0].cka for c in between] == sorted(c.diagonal[0].cka for c in between)
    assert (between[-1].matched, between[-1].diagonal[0].cka) == (2, both.diagonal[0].cka)
    single = layers(tmp_path / "a", tmp_path / "a" / "step_100.safetensors", null_draws=1)
    assert [c.diagonal[1].cka for c in single.training if c.series == "between"][-1] == pytest.approx(1)
    (tmp_path / "a" / "step_2.safetensors").unlink()
    with pytest.raises(DataError, match=naming("a", 2, "b", 3)):
        layers(tmp_path / "a", tmp_path / "b")
    with pytest.raises(UsageError, match=naming("untrained", "b")):
        layers(last, last, untrained=(tmp_path / "b", last))


def test_a_result_is_a_frame_of_pairs():
    pytest.importorskip("pandas")
    first = chain(41, 2)
    frame = layers(first, turned(first, 42), null_draws=1).to_frame()
    assert list(frame.columns[:4]) == ["of", "first", "second", "cka"]
    assert len(frame) == 8


@pytest.mark.parametrize(
    ("cka", "codes"),
    [
        ([0.5], []),
        ([0.5, 0.6], ["depth_between"]),
        ([0.9, 0.7, 0.5, 0.3], ["depth_between"]),
        ([0.9, 0.7, 0.5, 0.3, 0.1], ["depth_falls"]),
        ([0.1, 0.3, 0.5, 0.7, 0.9], ["depth_rises"]),
        ([0.9, 0.1, 0.5, 0.7, 0.3], ["depth_between"]),
        ([0.501, 0.502, 0.503, 0.504, 0.5041], ["depth_between"]),
    ],
)
def test_the_course_over_depth_is_told_from_its_range(cka, codes):
    found = list(_trend([SimpleNamespace(cka=value) for value in cka]))
    assert [answer.code for answer in found] == codes
    if codes and codes[0] != "depth_between":
        assert (found[0].values["begin"], found[0].values["end"]) == (cka[0], cka[-1])


def test_sums_of_pairs_of_layers_take_in_what_waits_when_they_are_merged_and_add_to_what_they_have():
    rng = np.random.default_rng(73)
    x, y = rng.standard_normal((12, 3)), rng.standard_normal((12, 2))
    cell = np.arange(12) % 2
    frames = [(x.mean(axis=0), np.eye(3)[:, :2]), (y.mean(axis=0), np.eye(2))]
    first, later = (layer_sums._CrossSums(frames, [(0, 1)], cell, 2) for _ in range(2))
    first.add(0, [x[:3], y[:3]])
    first.finish()
    first.add(3, [x[3:6], y[3:6]])
    later.add(6, [x[6:], y[6:]])
    first.merge(later)
    ((cross, by_cell),) = first.found
    a, b = x - x.mean(axis=0), y - y.mean(axis=0)
    np.testing.assert_allclose(cross, a.T @ b, atol=1e-12)
    np.testing.assert_allclose(by_cell, [a[cell == c, :2].T @ b[cell == c] for c in (0, 1)], atol=1e-12)
