"""axes: components that two models share are counted, and only where there are any."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest

from identifiable import ica
from identifiable.blocks import Blocks
from identifiable.groups import WhiteBasis, haar_rotation
from identifiable.identifiability import axes as axes_room
from identifiable.identifiability.axes import AxesOf, measure_axes
from identifiable.identifiability.run import CompareRun, Table
from identifiable.intake import gather_moments
from identifiable.moments import Array, Moments
from identifiable.options import CompareOptions, IcaOptions
from identifiable.rows import plan_rows

CELLS = 10


def measured(x: Array, y: Array, *, seed: int = 0, groups: Array | None = None) -> tuple[AxesOf, AxesOf]:
    run = CompareRun(seed, 1, settings=CompareOptions(seed=seed, workers=1))
    run.plan = plan_rows(len(x), None, seed=seed, n_folds=5, groups=groups)
    cell = run.plan.cell % CELLS
    tables = [Table(name, Blocks(rows, name=name), None, run) for name, rows in (("x", x), ("y", y))]
    cells = gather_moments([t.blocks for t in tables], part=cell, n_parts=CELLS)
    for which, table in enumerate(tables):
        table.known_moments = reduce(Moments.merge, cells).alone(which)
    return measure_axes(run, *tables, cells, cell)


def two_models(n: int, laplace: int, gaussian: int, *, seed: int, noise: float = 0.05) -> tuple[Array, Array]:
    """Sources of unit variance, each model with noise and a rotation of its own."""
    rng = np.random.default_rng(seed)
    d = laplace + gaussian
    sources = np.concatenate([rng.laplace(size=(n, laplace)) / np.sqrt(2), rng.standard_normal((n, gaussian))], axis=1)
    x, y = ((sources + noise * rng.standard_normal((n, d))) @ haar_rotation(d, rng) for _ in range(2))
    return x, y


@pytest.mark.parametrize(("laplace", "gaussian"), [(6, 0), (4, 4), (3, 2)])
@pytest.mark.parametrize("seed", [0, 1])
def test_as_many_axes_match_as_sources_are_not_gaussian(laplace: int, gaussian: int, seed: int):
    d = laplace + gaussian
    axes = measured(*two_models(300 * d, laplace, gaussian, seed=seed))[0].axes
    assert axes.matched is not None
    assert abs(axes.matched - laplace) <= 1
    assert axes.components == d
    assert axes.withheld is None
    assert not axes.at_least
    assert axes.chance is not None
    assert axes.chance < 1
    assert sum(r > 0.95 for r in axes.correlations) == axes.matched
    assert axes.converged == (True,) * 4


def test_models_with_sources_of_their_own_share_no_axis_but_repeat_their_own():
    rng = np.random.default_rng(3)
    x, y = (rng.laplace(size=(1500, 5)) @ haar_rotation(5, rng) for _ in range(2))
    forward = measured(x, y)[0]
    assert (forward.axes.matched, forward.axes.own_source, forward.axes.own_target) == (0, 5, 5)
    assert forward.efficiency is None  # a rotation does not fit either


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gaussian_data_have_neither_axes_nor_an_efficiency(seed: int):
    for found in measured(*two_models(1500, 0, 6, seed=seed, noise=0)):
        assert found.axes.withheld == "no_axes"
        assert found.axes.matched == 0
        assert found.efficiency is None


def test_few_rows_withhold_the_count_and_say_how_many_are_needed():
    for found in measured(*two_models(590, 6, 0, seed=0)):
        assert (found.axes.withheld, found.axes.rows_needed) == ("few_rows", 600)
        assert found.axes.matched is None
        assert found.efficiency is None
    assert measured(*two_models(900, 6, 0, seed=0))[0].axes.at_least


@pytest.mark.parametrize(("laplace", "gaussian"), [(6, 0), (3, 3)])
def test_units_of_a_side_move_nothing(laplace: int, gaussian: int):
    x, y = two_models(1800, laplace, gaussian, seed=4)
    for plain, scaled in zip(measured(x, y), measured(3 * x, 0.01 * y + 5), strict=True):
        assert scaled.axes.correlations == pytest.approx(plain.axes.correlations, abs=2e-6)
        assert replace(scaled.axes, correlations=()) == replace(plain.axes, correlations=())
        assert plain.efficiency is not None
        assert scaled.efficiency is not None
        assert scaled.efficiency.held_out == pytest.approx(plain.efficiency.held_out, abs=1e-6)
        assert scaled.efficiency.ci95 == pytest.approx(plain.efficiency.ci95, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_efficiency_of_laplace_sources_under_a_rotation_is_one(seed: int):
    """Noise apart, ICA undoes the whole rotation, and a similarity does no better."""
    for found in measured(*two_models(2400, 6, 0, seed=seed, noise=0.2)):
        assert found.efficiency is not None
        assert found.efficiency.ci95 is not None
        low, high = found.efficiency.ci95
        assert low <= 1 <= high
        assert found.efficiency.held_out == pytest.approx(1, abs=0.1)


def test_efficiency_is_partial_where_part_of_the_sources_is_gaussian():
    found = measured(*two_models(4000, 4, 6, seed=1))[0].efficiency
    assert found is not None
    assert found.held_out is not None
    assert 0 < found.held_out < 0.8


def test_directions_exchange_the_sides():
    forward, backward = measured(*two_models(1500, 3, 2, seed=5))
    assert (forward.axes.own_source, forward.axes.own_target) == (backward.axes.own_target, backward.axes.own_source)
    assert forward.axes.correlations == backward.axes.correlations


def test_a_group_that_fills_nearly_all_rows_leaves_no_second_half():
    x, y = two_models(1200, 3, 0, seed=6)
    groups = np.where(np.arange(1200) < 1150, 0, 1 + np.arange(1200) % 9)
    assert measured(x, y, groups=groups)[0].axes.withheld == "few_rows"


def test_a_narrower_model_matches_in_its_own_width():
    rng = np.random.default_rng(7)
    sources = rng.laplace(size=(2000, 6))
    x, y = sources @ haar_rotation(6, rng), sources[:, :4] @ haar_rotation(4, rng)
    axes = measured(x, y)[0].axes
    assert (axes.matched, axes.components, axes.rows_needed) == (4, 4, 600)


@pytest.mark.parametrize("seed", [1, 2])
def test_columns_of_unequal_variance_are_brought_back_in_their_own_units(seed: int):
    rng = np.random.default_rng(seed)
    sources = rng.laplace(size=(2400, 4)) * [1, 2, 4, 8]
    x, y = (sources + 0.1 * rng.standard_normal(sources.shape) for _ in range(2))
    for found in measured(x @ haar_rotation(4, rng), y):
        assert found.efficiency is not None
        assert found.efficiency.held_out == pytest.approx(1, abs=0.1)


def test_efficiency_does_not_hang_on_where_ica_leaves_gaussian_components(monkeypatch: pytest.MonkeyPatch):
    models = two_models(1800, 3, 3, seed=4)
    plain = measured(*models)
    unmixed, rng = axes_room._unmixed, np.random.default_rng(9)

    def elsewhere(*given: Any) -> Any:
        found = unmixed(*given)
        turn = np.eye(len(found.arbitrary))
        turn[np.ix_(found.arbitrary, found.arbitrary)] = haar_rotation(int(found.arbitrary.sum()), rng)
        return replace(found, to=found.to @ turn, back=turn.T @ found.back, upright=turn.T @ found.upright)

    monkeypatch.setattr(axes_room, "_unmixed", elsewhere)
    for before, after in zip(plain, measured(*models), strict=True):
        assert before.efficiency is not None
        assert after.efficiency is not None
        assert after.efficiency.held_out == pytest.approx(before.efficiency.held_out, abs=1e-9)
        assert after.efficiency.ci95 == pytest.approx(before.efficiency.ci95, abs=1e-9)


def test_a_column_that_does_not_vary_moves_nothing():
    x, y = two_models(1800, 4, 0, seed=4)
    for plain, wider in zip(measured(x, y), measured(np.column_stack([x, np.full(len(x), 7.0)]), y), strict=True):
        assert wider.axes.matched == plain.axes.matched == 4
        assert plain.efficiency is not None
        assert wider.efficiency is not None
        assert wider.efficiency.held_out == pytest.approx(plain.efficiency.held_out, abs=1e-5)


@pytest.mark.parametrize(("fewer", "withheld"), [(25, False), (24, True)])
def test_a_quarter_of_the_rows_needed_is_enough_for_a_half(fewer: int, withheld: bool):
    """One column: 100 rows are needed. The cells are one half each."""
    x = np.random.default_rng(0).laplace(size=(100, 1))
    run = CompareRun(0, 1, settings=CompareOptions(workers=1))
    for first in (fewer, 100 - fewer):
        cell = (np.arange(100) >= first).astype(np.intp)
        tables = [Table(name, Blocks(x, name=name), None, run) for name in "xy"]
        cells = gather_moments([t.blocks for t in tables], part=cell, n_parts=2)
        for which, table in enumerate(tables):
            table.known_moments = reduce(Moments.merge, cells).alone(which)
        assert (measure_axes(run, *tables, cells, cell)[0].axes.withheld == "few_rows") == withheld


def test_upright_axes_are_orthonormal_whatever_the_spectrum():
    """So a turn at random among arbitrary components, which is drawn in them, is uniform."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((500, 4)) * [1, 1, 1, 0.1] @ haar_rotation(4, rng)
    spread = rows.std(axis=0)
    fit = ica.fit(Blocks(rows / spread), Moments.of(rows / spread), IcaOptions(restarts=1))
    unmixing = axes_room._Unmixing.of(fit, 1 / spread)
    np.testing.assert_allclose(unmixing.upright @ unmixing.upright.T, np.eye(4), atol=1e-6)


def test_the_interval_of_an_efficiency_holds_what_its_correction_may_be_wrong_by(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(73)
    turn = haar_rotation(3, rng)
    x = rng.standard_normal((400, 3)) * [3.0, 2.0, 1.0]
    y = x @ turn + 0.3 * rng.standard_normal((400, 3))
    cells = [Moments.of(part, widths=(3, 3)) for part in np.split(np.hstack([x, y]), CELLS)]
    white = WhiteBasis.of(reduce(Moments.merge, cells).alone(0))
    pair = axes_room._Paired((np.eye(3), np.eye(3)), (turn.T, turn), np.ones(3))
    plain = axes_room._efficiency(cells, white, [[pair], [pair]])
    squares = axes_room._Cells.squares

    def corrected(self: axes_room._Cells, matrix: Array, *overlaps: Array) -> Array:
        found = squares(self, matrix, *overlaps)
        return (
            found + np.array([[2.0], [0.0]]) if len(overlaps) == 2 else found
        )  # the error before the correction is larger

    monkeypatch.setattr(axes_room._Cells, "squares", corrected)
    wider = axes_room._efficiency(cells, white, [[pair], [pair]])
    assert plain is not None
    assert wider is not None
    assert wider.held_out == plain.held_out
    assert plain.ci95 is not None
    assert wider.ci95 is not None
    assert wider.ci95[0] < plain.ci95[0] - 1e-3 < plain.ci95[1] < wider.ci95[1]
