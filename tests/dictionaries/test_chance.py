"""Chance levels against simulation, and that they are not those of another law."""

from __future__ import annotations

import numpy as np
import pytest

from identifiable import match
from identifiable.dictionaries.assignment import assign
from identifiable.dictionaries.chance import (
    Directions,
    Permuted,
    Shuffled,
    chance,
    isotropic_level,
    isotropic_matching,
    isotropic_maximum,
    span_of,
)

WIDTH = 32


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(("k", "d", "level"), [(512, 768, 0.104), (65_536, 768, 0.150), (512, 64, 0.353), (65_536, 64, 0.493)])  # fmt: skip
def test_the_closed_form_has_the_specified_values(k, d, level):
    assert isotropic_level(k, d) == pytest.approx(level, abs=6e-4)
    assert isotropic_level(k, d, signed=False) == isotropic_level(2 * k, d)


def test_isotropic_levels_are_those_of_simulation():
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(4):
        found = assign(*(unit(rng.standard_normal((512, 64))) for _ in range(2)))
        drawn.append([[each.size.mean(), each.best.mean()] for each in found])
    for (matching, largest), signed in zip(np.mean(drawn, axis=0), (True, False), strict=True):
        assert matching == pytest.approx(isotropic_matching(512, 512, 64, signed=signed), abs=0.003)
        assert largest == pytest.approx(isotropic_maximum(512, 64, signed=signed), abs=0.003)
        assert largest > matching + 0.01


def test_different_sizes_are_between_the_assignment_and_the_maximum():
    rng = np.random.default_rng(1)
    draws = [assign(*(unit(rng.standard_normal((k, 64))) for k in (250, 500)))[0].size.mean() for _ in range(4)]
    assert np.mean(draws) == pytest.approx(isotropic_matching(250, 500, 64, signed=True), abs=0.006)
    assert isotropic_matching(250, 500, 64, signed=True) == isotropic_matching(500, 250, 64, signed=True)


def test_gaussian_directions_have_the_mean_and_covariance_of_the_rows():
    rng = np.random.default_rng(2)
    given = unit(rng.standard_normal((3000, WIDTH)) * np.arange(1, WIDTH + 1) ** -1.0 + 0.2)
    drawn = Directions.of(given).draw(20_000, rng)
    assert np.allclose(np.linalg.norm(drawn, axis=1), 1, atol=1e-5)
    assert np.allclose(drawn.mean(axis=0), given.mean(axis=0), atol=0.03)
    wanted, found = (np.linalg.eigvalsh(np.cov(rows.T))[::-1] for rows in (given, drawn))
    assert np.allclose(found[:5], wanted[:5], rtol=0.2)


def test_null_directions_of_few_rows_are_of_the_whole_space():
    rows = unit(np.random.default_rng(3).standard_normal((5, WIDTH)))
    span = span_of(np.vstack([rows, rows]))
    assert span.shape == (5, WIDTH)
    drawn = Directions.of(rows, span).draw(500, np.random.default_rng(0))
    assert np.linalg.matrix_rank(drawn) == WIDTH
    assert np.allclose(Directions.of(rows, span).root, Directions.of(rows).root, atol=0.02)


def test_permuted_columns_keep_their_entries_and_mean_squares():
    rng = np.random.default_rng(3)
    given = unit(rng.standard_normal((400, WIDTH)) * (rng.random((400, WIDTH)) < 0.1) / np.arange(1, WIDTH + 1) + 1e-9)
    for k in (400, 1000):
        drawn = Permuted.of(given).draw(k, rng)
        assert np.allclose(np.linalg.norm(drawn, axis=1), 1, atol=1e-5)
        assert np.allclose(np.mean(drawn**2, axis=0), np.mean(given**2, axis=0), atol=0.03)
        assert np.mean(np.abs(drawn) > 1e-6) < 0.2


def test_shuffled_rows_keep_their_entries_and_the_columns_their_mean_squares():
    rng = np.random.default_rng(9)
    given = unit(rng.standard_normal((800, WIDTH)) / np.arange(1, WIDTH + 1) * (np.arange(WIDTH) > 0))
    for k in (800, 300, 1000):
        drawn = Shuffled.of(given).draw(k, rng)
        assert np.allclose(np.linalg.norm(drawn, axis=1), 1, atol=1e-5)
        assert not drawn[:, 0].any()
        assert np.allclose(np.mean(drawn**2, axis=0), np.mean(given**2, axis=0), atol=0.06)
    heavy = unit(rng.standard_t(2, (800, WIDTH)))
    peaks = [np.abs(law.of(heavy).draw(800, rng)).max(axis=1).mean() for law in (Shuffled, Permuted)]
    assert peaks[0] == pytest.approx(np.abs(heavy).max(axis=1).mean(), abs=0.02)
    assert peaks[1] < peaks[0] - 0.03


def test_heavy_tails_are_no_finding_and_a_seventh_of_shared_features_is():
    rng = np.random.default_rng(10)
    A, B = rng.standard_t(2, (2, 300, 48))
    assert match(A, B, null_draws=3).pairs[0].at_chance
    B[::7] = A[::7] + 0.3 * rng.standard_normal(A[::7].shape)
    assert not match(A, rng.permutation(B), null_draws=3).pairs[0].at_chance


def world(k, d, *, spectrum=0.0, share=1.0, heavy=False):
    def make(rng):
        rows = rng.standard_normal((k, d)) * np.arange(1.0, d + 1) ** -spectrum
        return np.exp(rows) if heavy else rows * (rng.random((k, d)) < share) + 1e-12 * rows

    return make


UNRELATED = {
    "few features": (world(20, 100), 0.165),
    "very few dimensions used": (world(300, 48, spectrum=2), 0.949),
    "decaying, few features": (world(100, 200, spectrum=0.7), 0.552),
    "rotations": (lambda rng: np.linalg.qr(rng.standard_normal((64, 64)))[0], 0.268),
    "a zero column": (lambda rng: rng.standard_normal((200, 48)) * (np.arange(48) > 0), 0.365),
    "centred rows": (lambda rng: (rows := rng.standard_normal((200, 48))) - rows.mean(axis=1, keepdims=True), 0.369),
    "sparse": (world(200, 48, share=0.3), 0.41),
    "of one sign": (world(200, 48, heavy=True), 0.71),
    "heavy tails": (lambda rng: rng.standard_t(2, (300, 48)), 0.44),
}


@pytest.mark.parametrize(("make", "level"), UNRELATED.values(), ids=UNRELATED)
def test_unrelated_dictionaries_of_any_kind_are_at_chance_and_their_permuted_selves_are_not(make, level):
    rng = np.random.default_rng(7)
    A, B = make(rng), make(rng)
    nothing, same = match(A, B, null_draws=3).pairs[0], match(A, A[::-1], null_draws=5).pairs[0]
    assert nothing.at_chance
    assert nothing.main.chance == pytest.approx(level, abs=0.025)
    assert (
        nothing.main.chance
        == max(nothing.main.gaussian, nothing.main.permuted, nothing.main.shuffled)
        == getattr(nothing.main, nothing.main.null)
    )
    assert (same.at_chance, round(same.score, 5)) == (False, 1)


def test_duplicated_features_are_found_again():
    rows = np.repeat(np.random.default_rng(8).standard_normal((30, 40)), 3, axis=0)
    assert not match(rows, rows[::-1], null_draws=5).pairs[0].at_chance


WORLDS = {
    "isotropic": lambda rng, k: rng.standard_normal((k, WIDTH)),
    "shared mean": lambda rng, k: rng.standard_normal((k, WIDTH)) + 0.7,
    "steep spectrum": lambda rng, k: rng.standard_normal((k, WIDTH)) / np.arange(1, WIDTH + 1),
}


@pytest.mark.parametrize("make", WORLDS.values(), ids=WORLDS)
def test_dictionaries_that_share_nothing_score_what_the_matched_null_says(make):
    rng = np.random.default_rng(4)
    found = match(make(rng, 400), make(rng, 400), null_draws=3)
    main = found.pairs[0].main
    assert main.value == pytest.approx(main.chance, abs=0.015)
    assert found.text.code == "match_at_chance"


def test_the_isotropic_level_is_too_low_where_directions_are_preferred():
    rng = np.random.default_rng(5)
    main = match(*(WORLDS["steep spectrum"](rng, 200) for _ in range(2)), null_draws=2).pairs[0].main
    assert main.chance - main.isotropic > 0.1


@pytest.mark.parametrize("make", WORLDS.values(), ids=WORLDS)
def test_levels_of_large_dictionaries_are_extrapolated_from_smaller_ones(make):
    rng = np.random.default_rng(6)
    laws = [Directions.of(unit(make(rng, 600))) for _ in range(2)]
    given = {"draws": 16, "threshold": 0.7}
    near = chance(laws, [600, 600], True, **given, drawn=100, ladder=(75, 150, 300))  # at 4,096: benchmarks/match.py
    full = chance(laws, [600, 600], True, **given | {"draws": 4})
    assert (near.sizes, full.sizes) == ((75, 150, 300), (600,))
    assert np.allclose(near.pairs[0].draws.mean(axis=0)[:4], full.pairs[0].draws.mean(axis=0)[:4], atol=0.01)
    assert np.quantile(near.pairs[0].sizes, 0.99) == pytest.approx(np.quantile(full.pairs[0].sizes, 0.99), abs=0.03)
    assert abs(near.pairs[0].draws.mean(axis=0)[:4] - isotropic_level(300, WIDTH)).max() > 0.01


def test_two_rows_of_three_columns_have_finite_chance_levels():
    rows, other = np.random.default_rng(5).laplace(size=(2, 2, 3))
    found = match(rows, other, null_draws=2)  # rounding leaves a variance below 0: a warning is an error here
    assert np.isfinite([found.pairs[0].null99, *found.pairs[0].null_quantiles]).all()
