"""The basis of a screen: scaled features, and no more axes than the rows can carry."""

from __future__ import annotations

import numpy as np
import pytest

from identifiable.blocks import Blocks
from identifiable.deconfounding.components.resolving import (
    ReproducibleRank,
    Scaling,
    axes_above_noise,
    carried_rank,
    reproducible_rank,
    screen_basis,
)
from identifiable.deconfounding.design import Design, Labels
from identifiable.moments import Moments
from identifiable.options import AttributeOptions
from identifiable.representation import Representation
from identifiable.run import Run

QUICK = AttributeOptions(stability=0)


def design_of(n: int, plates: int = 10) -> Design:
    names = np.resize(["control", "drug"], n)
    return Design(Labels.of(np.resize(np.arange(plates), n)), Labels.of(names), names == "control")


def sources(n: int, k: int, d: int, *, noise: float = 0.1, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.laplace(size=(n, k)) @ rng.standard_normal((k, d)) + noise * rng.standard_normal((n, d))


def basis_of(X: np.ndarray, **options):
    return screen_basis(
        Representation(X, name="wells"), design_of(len(X)), AttributeOptions(**{"stability": 0, **options}), Run()
    )


def test_units_do_not_decide_which_axes_are_kept_and_maps_take_raw_rows():
    X = sources(600, 3, 8)
    units = 10.0 ** np.arange(-4, 4)
    plain, scaled = basis_of(X, rank=3), basis_of(5 + X * units, rank=3)
    Z, scaled_Z = plain.to_components(X), scaled.to_components(5 + X * units)
    assert scaled_Z == pytest.approx(Z, abs=1e-4)
    assert Z.std(axis=0) == pytest.approx(np.ones(3), abs=1e-6)
    assert scaled.from_components(scaled_Z) == pytest.approx(5 + plain.from_components(Z) * units, rel=1e-3)
    assert scaled.result.settings["scaled"] is True


def test_constant_features_are_left_out_said_and_come_back():
    X = np.c_[sources(400, 2, 4), np.full(400, 7.0)]
    found = basis_of(X)
    (alert,) = (a for a in found.result.alerts if a.code == "constant_columns")
    assert (alert.values["constant"], alert.values["columns"]) == (1, 5)
    assert found.to_components.matrix[4] == pytest.approx(np.zeros(4))
    assert found.from_components(found.to_components(X))[:, 4] == pytest.approx(np.full(400, 7.0))
    assert "constant_columns" not in {a.code for a in basis_of(X[:, :4]).result.alerts}


def test_a_scaling_is_undone_by_its_way_back():
    X = 3 + sources(200, 3, 4) * [1, 10, 100, 1e3]
    scaling = Scaling.of(Moments.of(X))
    assert scaling(X).std(axis=0) == pytest.approx(np.ones(4))
    assert scaling.on(Blocks(X))[:] == pytest.approx(scaling(X))


def test_independent_features_have_no_axis_above_the_noise_and_shared_factors_have_theirs():
    rng = np.random.default_rng(0)
    alone = [
        axes_above_noise(np.linalg.eigvalsh(np.corrcoef(rng.standard_normal((150, 90)).T)), 150) for _ in range(20)
    ]
    assert sum(alone) <= 1
    shared = np.linalg.eigvalsh(np.corrcoef(sources(150, 4, 90, noise=1.0).T))
    assert axes_above_noise(shared, 150) == 4


@pytest.mark.parametrize(
    ("n", "d", "factors", "rank"),
    [
        (632, 516, 12, 12),  # as BBBC021: the axes above the noise
        (150, 516, 40, 15),  # one axis for 10 rows
        (600, 40, 3, 40),  # ten rows an axis: all of them
        (100, 60, 0, 2),  # nothing above the noise
    ],
)
def test_the_rank_is_what_the_rows_can_carry(n, d, factors, rank):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d))
    if factors:
        X += 3 * rng.laplace(size=(n, factors)) @ rng.standard_normal((factors, d))
    carried = carried_rank(Moments.of(X))
    assert (carried.rank, carried.varying) == (rank, min(n - 1, d))


def test_a_bounded_rank_is_recorded_and_said_and_one_that_is_asked_for_is_kept():
    X = sources(100, 5, 60, noise=0.5)
    found = basis_of(X)
    assert found.result.rank == 5
    assert found.result.settings["rank_rule"] == {"rank": 5, "varying": 60, "above_noise": 5, "by_rows": 10}
    (alert,) = (a for a in found.result.alerts if a.code == "rank_bounded")
    assert (alert.values["rank"], alert.values["rows"]) == (5, 100)
    asked = basis_of(X, rank=8)
    assert asked.result.rank == 8
    assert "rank_bounded" not in {a.code for a in asked.result.alerts}


def test_a_rank_with_reproducible_components_is_found_where_noise_hides_them():
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    X = np.c_[9 * (rng.exponential(size=(3000, 3)) - 1), rng.standard_normal((3000, 9))] @ turn
    table, design, asked = Representation(X), design_of(3000), AttributeOptions(stability=2)
    found = screen_basis(table, design, asked, Run())
    assert found.result.rank == 12
    assert reproducible_rank(table, design, asked, Run(), found) == ReproducibleRank(6, 3)
    lower = screen_basis(table, design, AttributeOptions(stability=2, rank=6), Run())
    assert reproducible_rank(table, design, asked, Run(), lower) is None  # they are reproducible already
    assert reproducible_rank(table, design, QUICK, Run(), found) is None  # nobody has tried
