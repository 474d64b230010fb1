"""resolve: the same bits for the same seed, the same columns for another, and the truth where it cannot work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from identifiable import resolve
from identifiable._checks import DataError, PairingError, UsageError
from identifiable.blocks import Blocks
from identifiable.groups import haar_rotation
from identifiable.ica import Resolved, resolve_jointly
from identifiable.ica.matching import match_correlations
from identifiable.ica.refits import _halves, group_numbers
from identifiable.options import ResolveOptions
from identifiable.representation import Representation
from identifiable.results import Resolution, from_json, without_time
from identifiable.run import Run
from identifiable.worlds import sources

Matrix = NDArray[np.float64]


def with_gaussians(seed: int, n: int = 6000) -> Matrix:
    """Three skewed sources, a heavy-tailed one, a sub-Gaussian one and two Gaussians."""
    kinds = ("skewed", "skewed", "skewed", "super", "sub", "gaussian", "gaussian")
    world = sources(n, 7, rng=np.random.default_rng([seed, 40]), kinds=kinds, decades=2.0, dtype=np.float64)
    return np.asarray(world.X)


def quick(X: Any, **settings: Any) -> Resolved:
    return resolve(X, **{"stability": 0, "restarts": 1, **settings})


def codes(result: Resolution) -> set[str]:
    return {a.code for a in result.alerts}


def bits(found: Resolved) -> bytes:
    return found.to_components.matrix.tobytes() + found.from_components.matrix.tobytes()


def cross_correlation(Y: Matrix, Z: Matrix) -> Matrix:
    d = Y.shape[1]
    return np.asarray(np.corrcoef(Y, Z, rowvar=False)[:d, d:])


def same_columns(X: Matrix, first: Resolved, second: Resolved, least: float) -> int:
    """How many components both call reproducible; fails if one of them has another direction, sign or impossible place."""
    r = cross_correlation(first.to_components(X), second.to_components(X))
    partner, size = match_correlations(r)
    shared = 0
    for i, j in enumerate(partner):
        one, two = first.result.components[i], second.result.components[j]
        if one.identifiable:
            assert size[i] > least, (i, j, size[i], one.reason)
        if one.identifiable and two.identifiable:
            shared += 1
            assert r[i, j] > 0, f"components {i} and {j} have opposite signs: {one.sign}, {two.sign}"
            assert max(one.places[0], two.places[0]) <= min(one.places[1], two.places[1]), (one.places, two.places)
    return shared


# Determinism


def test_the_same_seed_gives_the_same_result_and_another_seed_other_bits():
    X = with_gaussians(0, 2000)
    first, again, other = (resolve(X, stability=2, restarts=2, seed=s) for s in (0, 0, 1))
    assert bits(first) == bits(again)
    assert without_time(first.result) == without_time(again.result)
    assert bits(first) != bits(other)


@pytest.mark.parametrize(("n", "refits"), [(1500, 2), (30_000, 0)])
def test_block_size_and_workers_do_not_change_a_bit(n, refits):
    X = with_gaussians(1, n).astype(np.float32)
    ways = [(None, 1), (None, 2), (None, 3), (333, 1), (5000, 2)]
    found = [quick(Blocks(X, rows=rows), stability=refits, workers=workers) for rows, workers in ways]
    assert len({bits(f) for f in found}) == 1
    assert len({without_time(f.result).to_json() for f in found}) == 1
    assert bits(quick(Blocks(X[:-1]))) != bits(found[0])


def test_another_seed_gives_the_same_columns_where_they_are_called_reproducible():
    X = with_gaussians(0)
    found = [resolve(X, stability=2, seed=s) for s in (0, 11)]
    for a, b in (found, found[::-1]):
        assert same_columns(X, a, b, least=0.98) >= 2
    for f in found:
        assert sum(c.identifiable for c in f.result.components) <= 6  # the two Gaussians are not


@pytest.mark.parametrize("data", [0, 1])
def test_two_halves_of_a_table_give_the_same_columns_signs_and_order(data):
    X = with_gaussians(data, 16_000)
    order = np.random.default_rng(data).permutation(len(X))
    halves = [quick(X[part], stability=2) for part in (order[:8000], order[8000:])]
    assert same_columns(X, *halves, least=0.95) >= 3
    assert same_columns(X, *halves[::-1], least=0.95) >= 3


def test_the_check_of_columns_fails_where_it_should():
    X = with_gaussians(0)
    found = quick(X, stability=2)
    flipped = Resolved(
        type(found.to_components)(-found.to_components.matrix, -found.to_components.offset),
        found.from_components,
        found.result,
    )
    with pytest.raises(AssertionError, match="opposite signs"):
        same_columns(X, found, flipped, least=0.9)
    with pytest.raises(AssertionError):
        same_columns(X, found, quick(X**3, stability=2), least=0.9)


# Where it cannot work


def test_dropped_dimensions_are_said_and_the_rest_is_resolved():
    rng = np.random.default_rng(0)
    S = rng.exponential(size=(3000, 2))
    mixed = np.asarray(S @ rng.standard_normal((2, 2)))
    for X, dropped in (
        (np.column_stack([mixed, np.full(3000, 1e6 + 0.1)]), 1),
        (np.column_stack([mixed, mixed]), 2),
        (np.column_stack([mixed, mixed @ rng.standard_normal((2, 5))]), 5),
        (np.column_stack([mixed, mixed[:, 0] * (1 + 1e-14)]), 1),
    ):
        found = quick(X, stability=2)
        assert len(found.result.identifiable) == found.result.rank == 2
        assert "rank_deficient" in codes(found.result)
        assert found.result.whitening.dropped == dropped
        np.testing.assert_allclose(found.from_components(found.to_components(X)), X, atol=1e-6)
        assert np.abs(cross_correlation(found.to_components(X), S)).max(axis=0).min() > 0.99
    assert "rank_deficient" not in codes(quick(mixed).result)


@pytest.mark.parametrize(("n", "d"), [(20, 50), (55, 50), (60, 30), (5, 3), (3, 3), (2, 3), (2, 1)])
@pytest.mark.parametrize("refits", [0, 2])
def test_too_few_rows_give_no_reproducible_component_and_an_alert(n, d, refits):
    X = np.random.default_rng([n, d]).laplace(size=(n, d))
    result = quick(X, stability=refits).result
    assert result.identifiable == ()
    assert result.rank == min(n - 1, d)
    assert "few_rows" in codes(result)
    assert codes(result) & {"nothing_reproducible", "stability_not_measured"}
    assert ("rank_deficient" in codes(result)) == (n <= d)


def test_without_refits_nothing_is_called_reproducible_and_that_is_said():
    X = np.random.default_rng(9).exponential(size=(4000, 3))
    none, some = quick(X).result, quick(X, stability=2).result
    assert (len(none.identifiable), len(some.identifiable)) == (0, 3)
    assert all(c.reason.code == "not_refitted" for c in none.components)
    assert "not measured" in none.headline
    assert "stability_not_measured" in codes(none) - codes(some)
    assert "--stability" in next(a.message for a in none.alerts if a.code == "stability_not_measured")


@pytest.mark.parametrize("law", ["gaussian", "laplace", "exponential", "binary"])
@pytest.mark.parametrize("refits", [0, 2])
def test_one_column_is_its_own_component(law, refits):
    rng = np.random.default_rng(1)
    x = {
        "gaussian": rng.standard_normal(1000),
        "laplace": rng.laplace(size=1000),
        "exponential": -rng.exponential(size=1000),
        "binary": (rng.random(1000) < 0.2).astype(float),
    }[law]
    found = quick(7 + 3 * x[:, None], stability=refits)
    (component,) = found.result.components
    sign = -1 if law == "exponential" else 1
    np.testing.assert_allclose(
        found.to_components(7 + 3 * x[:, None])[:, 0], sign * (x - x.mean()) / x.std(), atol=1e-9
    )
    assert (component.hardest, component.places, component.variance) == (None, (0, 0), pytest.approx(1))
    assert component.sign == ("skew" if law in ("exponential", "binary") else "loading")
    assert "gaussian_components" not in codes(found.result)
    assert from_json(found.result.to_json()).to_json() == found.result.to_json()


@pytest.mark.parametrize("law", ["cauchy", "t1.5"])
def test_tails_without_a_variance_are_survived_and_said(law):
    """Directions may be found; what two halves both call reproducible must be the same, with the same sign."""
    for seed in range(2):
        rng = np.random.default_rng([seed, 41])
        S = rng.standard_cauchy((4000, 4)) if law == "cauchy" else rng.standard_t(1.5, (4000, 4))
        X = np.asarray(S @ rng.standard_normal((4, 4)))
        halves = [quick(X[part], stability=2) for part in (slice(0, 2000), slice(2000, None))]
        for half in halves:
            assert "heavy_tails" in codes(half.result)
            assert all(
                np.isfinite([c.negentropy, c.angle_se, c.skew_se, c.kurtosis_se]).all() for c in half.result.components
            )
        calm = X[np.abs(S).max(axis=1) < np.quantile(np.abs(S).max(axis=1), 0.95)]
        r = cross_correlation(*(half.to_components(calm) for half in halves))
        partner, size = match_correlations(r)
        for i, j in enumerate(partner):
            if halves[0].result.components[i].identifiable and halves[1].result.components[j].identifiable:
                assert size[i] > 0.8
                assert r[i, j] > 0


@pytest.mark.parametrize("size", [1e2, 1e6])
def test_one_giant_row_is_survived_said_and_not_called_reproducible(size):
    rng = np.random.default_rng(2)
    X = rng.laplace(size=(2000, 4)) * [4, 3, 2, 1]
    X[17] = size
    result = quick(X, stability=2).result
    assert "heavy_tails" in codes(result)
    spike = max(result.components, key=lambda c: c.kurtosis)
    assert spike.kurtosis > 100
    assert not spike.identifiable


def test_a_column_that_varies_in_one_row_only_does_not_stop_a_given_rank():
    X = np.column_stack([np.random.default_rng(3).laplace(size=(1000, 2)), np.eye(1000)[:, :1]])
    result = quick(X, rank=3, stability=4).result
    assert result.rank == 3
    assert not max(result.components, key=lambda c: c.kurtosis).identifiable


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float16, np.float32, np.bool_])
def test_every_real_dtype_is_resolved_as_its_float64_values(dtype):
    rng = np.random.default_rng(5)
    X = (rng.exponential(size=(2000, 3)) * [20, 10, 5]).clip(0, 100).astype(dtype)
    if dtype is np.bool_:
        X = rng.random((2000, 3)) < [0.5, 0.4, 0.3]
    found, wide = quick(X), quick(X.astype(np.float64))
    np.testing.assert_allclose(found.to_components.matrix, wide.to_components.matrix, rtol=1e-2, atol=1e-4)
    assert found.result.inputs[0].dtype == np.dtype(dtype).name


@pytest.mark.parametrize("scale", [1e-120, 1e-30, 1e30, 1e120])
@pytest.mark.parametrize("all_columns", [True, False])
def test_units_far_outside_single_precision_change_nothing(scale, all_columns):
    X = np.random.default_rng(6).gamma([0.5, 1.0, 2.0], size=(2000, 3))
    units = np.full(3, scale) if all_columns else np.array([scale, 1.0, 1 / scale])
    Y = quick(X).to_components(X)
    np.testing.assert_allclose(quick(X * units).to_components(X * units), Y, atol=2e-3)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((50, 3), 4.2), "constant"),
        (np.where(np.eye(50)[:, :3] == 1, np.nan, 1.0), "NaN .* 3 rows"),
        (np.where(np.eye(50)[:, :3] == 1, np.inf, 1.0), "NaN .* 3 rows"),
        (np.ones((1, 3)), "two rows"),
        (np.ones(5), "2-D"),
        (np.empty((0, 3)), "no rows"),
        (np.empty((5, 0)), "no columns"),
        (np.ones((5, 2)) * 1j, "complex"),
        (np.random.default_rng(0).laplace(size=(50, 3)) * 1e200, "overflow"),
    ],
)
def test_what_cannot_be_resolved_is_refused_in_one_line_that_names_it(X, message):
    with pytest.raises(DataError, match=message) as caught:
        resolve(Representation(X, name="my-run") if X.ndim == 2 and X.size else X)
    assert "\n" not in str(caught.value)
    if X.ndim == 2 and X.size:
        assert "my-run" in str(caught.value)


@pytest.mark.parametrize(("name", "value"), [("rank", 9), ("stability", 3)])
def test_a_setting_that_does_not_fit_the_table_is_named(name, value):
    with pytest.raises(UsageError, match=name):
        quick(np.random.default_rng(7).laplace(size=(100, 3)), **{name: value})


# Results


def test_a_resolution_tells_what_its_maps_do():
    X = with_gaussians(1, 4000)
    found = quick(X, restarts=2)
    Y, result = found.to_components(X), found.result
    np.testing.assert_allclose(Y.T @ Y / len(Y), np.eye(7), atol=1e-8)
    np.testing.assert_allclose(found.from_components(Y), X, atol=1e-8)
    centred = X - X.mean(axis=0)
    share = [np.sum(np.outer(Y[:, i], Y[:, i] @ centred / len(Y)) ** 2) / np.sum(centred**2) for i in range(7)]
    np.testing.assert_allclose([c.variance for c in result.components], share, rtol=1e-6)
    assert sum(c.variance for c in result.components) == pytest.approx(1)
    np.testing.assert_allclose([c.skew for c in result.components], (Y**3).mean(axis=0), atol=1e-3)
    np.testing.assert_allclose([c.kurtosis for c in result.components], (Y**4).mean(axis=0) - 3, rtol=1e-3, atol=1e-3)
    widths = np.diff(result.density_edges)
    np.testing.assert_allclose([np.dot(c.density, widths) for c in result.components], 1, atol=1e-2)
    assert len(result.starts) == result.settings["restarts"] == 2
    assert result.contrast == pytest.approx(max(s.contrast for s in result.starts))
    assert all(a.passes <= b.passes for a, b in zip(result.steps, result.steps[1:], strict=False))
    assert result.passes >= sum(s.passes for s in result.starts)


def test_a_given_rank_is_told_as_asked_for():
    X = with_gaussians(2, 2000)
    result = quick(X, rank=np.int64(3), seed=np.int64(3), stability=np.int32(2), tol=np.float32(1e-5)).result
    assert from_json(result.to_json()).settings["seed"] == 3
    assert (result.rank, len(result.components), result.whitening.dropped) == (3, 3, 4)
    assert sum(c.variance for c in result.components) < 1
    (alert,) = [a for a in result.alerts if a.code == "rank_deficient"]
    assert (alert.values["dropped"], "tolerance" in alert.values) == (4, False)


def test_components_that_are_rounding_of_the_stored_values_are_said():
    rng = np.random.default_rng(21)
    X = rng.laplace(size=(2000, 3))
    X[:, 0] = 1e5 + 0.005 * X[:, 0]  # float32 is 0.008 apart there
    found = {t: {a.code: a.values for a in resolve(X.astype(t), stability=0).result.alerts} for t in ("f4", "f8")}
    assert found["f4"]["below_input_precision"]["components"] == 1
    assert found["f4"]["below_input_precision"]["dtype"] == "float32"
    assert "below_input_precision" not in found["f8"]


def remembering(n: int, memory: float, rng: np.random.Generator) -> Matrix:
    """Mixed sources, each of which keeps the share `memory` of its value in the row before."""
    S = lfilter([np.sqrt(1 - memory**2)], [1, -memory], rng.laplace(size=(n, 2)), axis=0)
    return np.asarray(S @ rng.standard_normal((2, 2)))


def alike(X: Matrix, **settings: Any) -> float | None:
    """The correlation of the alert about rows that are alike; None without it."""
    return next((a.values["correlation"] for a in quick(X, **settings).result.alerts if a.code == "rows_alike"), None)


def test_rows_like_their_neighbours_are_said_and_shuffled_or_grouped_ones_are_not():
    rng = np.random.default_rng(31)
    X = remembering(2000, 0.6, rng)
    Y = quick(X).to_components(X)
    lagged = [np.corrcoef(y[1:], y[:-1])[0, 1] for y in Y.T]
    assert alike(X) == pytest.approx(max(lagged), abs=2e-3)
    assert alike(X) == pytest.approx(0.6, abs=0.05)
    assert alike(remembering(2000, -0.6, rng)) is None
    assert alike(rng.permutation(X)) is None
    assert alike(X, group_by=np.repeat(np.arange(20), 100)) is None


@pytest.mark.parametrize(("memory", "said"), [(0.0, False), (0.1, False), (0.3, True), (0.6, True)])
def test_first_rows_of_another_mean_are_compared_about_their_own(memory, said):
    """Neighbours are compared in the first 5,000 rows, which here lie two standard deviations from the others."""
    X = remembering(12_000, memory, np.random.default_rng(32))
    X[:5000] += 2 * X.std(axis=0)
    whole = max(np.corrcoef(y[1:], y[:-1])[0, 1] for y in quick(X).to_components(X).T)
    assert whole > max(memory, 0.2) + 0.1  # about the mean of all rows even independent ones are alike
    assert alike(X) == (pytest.approx(memory, abs=0.05) if said else None)


def test_neighbours_of_fewer_than_a_hundred_rows_are_not_compared():
    X = remembering(100, 0.9, np.random.default_rng(33))
    assert alike(X) == pytest.approx(0.9, abs=0.15)
    assert alike(X[:99]) is None


@pytest.mark.parametrize(
    ("smallest", "units", "precision", "said"),
    [
        (1e-5, 1.0, "single", True),
        (1e-5, np.array([1.0, 1e4, 1e-4]), "single", True),
        (1e-5, 1.0, "double", False),
        (1e-3, 1.0, "single", False),
        (1.0, np.array([1.0, 1e-5, 1e5]), "single", False),  # columns in other units are no directions of other sizes
        (1.0, 1e30, "single", False),  # rows are whitened first, for float32 cannot hold products of them
        (1e-5, 1e30, "single", True),
    ],
)
def test_directions_that_differ_much_in_scale_are_said_with_their_condition(smallest, units, precision, said):
    rng = np.random.default_rng(34)
    turn = haar_rotation(3, rng)
    X = rng.laplace(size=(2000, 3)) * [1, 1, smallest] @ turn * units
    told = [a.values["condition"] for a in quick(X, precision=precision).result.alerts if a.code == "ill_conditioned"]
    centred = X - X.mean(axis=0)
    condition = np.linalg.cond(centred / np.linalg.norm(centred, axis=0))
    assert told == ([pytest.approx(condition, rel=1e-4)] if said else [])
    assert (condition > 1e4) == (smallest == 1e-5)


def test_a_run_that_ends_before_it_has_converged_says_so(monkeypatch):
    X = np.random.default_rng(22).standard_normal((300, 8))
    assert "not_converged" not in {a.code for a in resolve(X, stability=0).result.alerts}
    monkeypatch.setattr("identifiable.ica.solver.MAX_POLISH", 1)
    monkeypatch.setattr("identifiable.ica.solver.AT_LIMIT", 0.0)
    found = resolve(X, stability=0, restarts=1).result
    assert "not_converged" in {a.code for a in found.alerts}


def test_halves_for_refits_keep_groups_whole():
    groups = np.random.default_rng(23).integers(9, size=200)
    X = np.c_[groups, np.arange(200)].astype(float)
    first, second = (np.asarray(table[:]) for table, _, _ in _halves(Blocks(X), 3, groups, Run(workers=1)))
    assert not set(first[:, 0]) & set(second[:, 0])
    assert sorted(np.r_[first, second][:, 1]) == list(range(200))
    assert abs(len(set(first[:, 0])) - len(set(second[:, 0]))) <= 1


def test_halves_for_refits_hold_as_many_groups_where_their_number_is_even():
    groups = np.repeat(np.arange(6), 2)
    for seed in range(8):
        halves = [table[:] for table, _, _ in _halves(Blocks(groups[:, None] + 0.0), seed, groups, Run(workers=1))]
        assert [len(np.unique(half)) for half in halves] == [3, 3]


def test_groups_reach_the_refits_and_labels_that_do_not_fit_are_refused():
    rng = np.random.default_rng(6)
    X = rng.laplace(size=(600, 2)) @ rng.standard_normal((2, 2))
    labels = np.repeat(np.arange(30), 20).astype(str)
    plain, grouped = (resolve(X, stability=2, restarts=1, group_by=by).result for by in (None, labels))
    assert (plain.settings["group_by"], grouped.settings["group_by"]) == (None, "labels")
    assert [c.stability for c in plain.components] != [c.stability for c in grouped.components]
    for wrong, error in ((labels[1:], PairingError), (np.zeros(600), UsageError)):
        with pytest.raises(error, match="group_by"):
            resolve(X, stability=2, group_by=wrong)


def test_halves_of_which_one_is_constant_are_no_refit_and_that_is_said():
    X = np.random.default_rng(9).laplace(size=(400, 2)) @ [[1.0, 2.0], [-1.0, 1.0]]
    labels = np.repeat([0, 1], 200)
    both = quick(X, stability=4, group_by=labels).result
    assert {c.reason.code for c in both.components} == {"reproducible"}
    X[:200] = 3
    one = quick(X, stability=4, group_by=labels).result
    assert {c.reason.code for c in one.components} == {"not_refitted"}
    (told,) = [alert for alert in one.alerts if alert.code == "stability_not_measured"]
    assert (told.values["asked"], told.values["rows"]) == (4, 400)
    assert "--stability" not in told.message


def test_rows_that_only_one_model_has_are_dropped_and_counted():
    rng = np.random.default_rng(7)
    S, alone = rng.laplace(size=(500, 2)), ResolveOptions(stability=0, restarts=1)
    ids = np.arange(500).astype(str)
    first = Representation(S @ rng.standard_normal((2, 2)), ids=ids, name="first")
    second = Representation((S @ rng.standard_normal((2, 2)))[7:], ids=ids[7:], name="second")
    result = resolve_jointly([first, second], alone).result
    alert = next(alert for alert in result.alerts if alert.code == "rows_dropped")
    assert alert.values == {"dropped": {"first": 7}, "remain": 493}
    assert result.n == 493
    assert "paired_by_position" not in codes(result)
    by_position = resolve_jointly([first.values, 2 * first.values], alone).result
    assert "paired_by_position" in codes(by_position)
    assert "rows_dropped" not in codes(by_position)


def test_labels_of_groups_go_with_the_rows_of_the_first_model_that_others_have_too():
    rng = np.random.default_rng(8)
    S, labels = rng.laplace(size=(500, 2)), np.repeat(np.arange(50), 10)
    ids = np.arange(500).astype(str)
    first, second = S @ rng.standard_normal((2, 2)), S @ rng.standard_normal((2, 2))
    tables = [Representation(first, ids=ids, name="first"), Representation(second[7:], ids=ids[7:], name="second")]
    found = resolve_jointly(tables, ResolveOptions(stability=2, restarts=1, group_by=labels)).models[0].result
    ours, others = (resolve(first[7:], stability=2, restarts=1, group_by=by) for by in (labels[7:], labels[:-7]))
    assert found.components == ours.result.components
    assert found.components != others.result.components


def test_a_joint_basis_says_by_which_call_it_was_made():
    rng = np.random.default_rng(0)
    tables = [rng.laplace(size=(600, 3)) @ rng.standard_normal((3, 3)) for _ in range(2)]
    found = resolve(*tables, stability=0, restarts=1)
    assert found.result.provenance.command == "identifiable.resolve(...)"


def test_pictures_are_kept_to_four_digits():
    rng = np.random.default_rng(0)
    found = resolve(rng.laplace(size=(900, 2)), stability=0, restarts=1)
    densities = 1e4 * np.array([component.density for component in found.result.components])
    np.testing.assert_allclose(densities, densities.round(), atol=1e-6)
    assert densities.max() > 1000


def test_group_labels_that_are_no_array_are_refused_by_the_name_of_the_option():
    rows = Representation(np.eye(3), name="a")
    with pytest.raises(DataError, match=r"^group_by: masked"):
        group_numbers(np.ma.masked_array([0, 1, 1]), rows)


def test_refits_count_passes_over_the_rows_of_their_halves():
    X = np.random.default_rng(73).laplace(size=(600, 2))
    alone, refitted = (resolve(X, stability=k, restarts=1).result.passes for k in (0, 2))
    assert refitted > alone + 2  # two refits, each of several passes over half of the rows and one over the other
