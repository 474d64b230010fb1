"""Parts of the space: on a share of the rows, in coordinates of their own, held in half the bits; and the compiled loops of a pass."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from identifiable.blocks import Blocks
from identifiable.groups import haar_rotation
from identifiable.ica.canonical import Shape
from identifiable.ica.contrasts import CONTRASTS, FEW, contrast
from identifiable.ica.fitting import fit
from identifiable.ica.kernels import add_shapes, tanh_and_squares
from identifiable.ica.passes import Passes, RowChoice
from identifiable.ica.search import _holds, _narrowed, by_kurtosis, far_rows, orthogonal, search_in_rounds
from identifiable.ica.whitening import Whitener, pack
from identifiable.moments import Moments
from identifiable.options import IcaOptions as Settings
from identifiable.worlds import sources

LOGCOSH = contrast("logcosh")
WIDTH = 12


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    """Half heavy, half light tails, mixed."""
    rng = np.random.default_rng(5)
    S = np.hstack([rng.laplace(size=(30_000, WIDTH // 2)), rng.uniform(-1, 1, (30_000, WIDTH // 2))])
    return S @ rng.standard_normal((WIDTH, WIDTH))


def passes_of(X: np.ndarray, precision: str = "double") -> Passes:
    return Passes(Blocks(X), Whitener.of(Moments.of(X), precision=precision), RowChoice(3))


# -- compiled loops


def test_compiled_tanh_is_tanh_and_its_squares_are_summed():
    y = np.linspace(-30, 30, 60_003, dtype=np.float32).reshape(3, -1)
    found, squares = np.empty_like(y), np.zeros(y.shape[1], np.float32)
    tanh_and_squares(y, found, squares)
    np.testing.assert_allclose(found, np.tanh(y.astype(np.float64)), atol=2.5e-7)
    np.testing.assert_allclose(squares, (found**2).sum(axis=0), rtol=1e-6)
    assert np.abs(found - y.clip(-1, 1)).max() > 0.2  # the check can fail
    ends = np.array([[np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0, 1e-30]], np.float32)
    tanh_and_squares(ends, ends, np.zeros(7, np.float32))
    np.testing.assert_array_equal(ends, [[np.nan, 1, -1, 1, -1, 0, 0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_sums_are_the_plain_sums(dtype):
    y = np.random.default_rng(0).standard_normal((500, 7)).astype(dtype)
    value, slope = np.asarray(LOGCOSH.value(y)), np.tanh(y)
    powers, sums, largest = np.zeros((9, 7)), np.zeros((6, 7)), np.zeros(7)
    add_shapes(y, slope, value, powers, sums, largest)
    exact = y.astype(np.float64)
    np.testing.assert_allclose(powers, [(exact**k).sum(axis=0) for k in range(9)], rtol=1e-4, atol=1e-3)
    products = [value, value**2, value * y, value * y**2, slope, slope * y]
    np.testing.assert_allclose(sums, [p.sum(axis=0, dtype=np.float64) for p in products], rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(largest, np.abs(y).max(axis=0))


@pytest.mark.parametrize("name", CONTRASTS)
def test_a_pass_over_few_numbers_finds_what_compiled_loops_find(name, table):
    """To the rounding of float32, relative for high powers."""
    some, rotation = passes_of(table[:400], "single"), np.eye(WIDTH)
    by_numpy, compiled = (contrast(name, numbers) for numbers in (FEW, FEW + 1))
    assert (by_numpy.compiled, compiled.compiled) == (False, True)
    first, second = (some.survey(rotation, score) for score in (by_numpy, compiled))
    np.testing.assert_allclose(first.step.cross, second.step.cross, atol=1e-6)
    np.testing.assert_allclose(first.step.bend, second.step.bend, atol=1e-6)
    for field in fields(first.shapes):
        one, other = getattr(first.shapes, field.name), getattr(second.shapes, field.name)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=field.name)
    other = some.survey(rotation, contrast("exp" if name == "cube" else "cube", FEW))
    assert np.abs(first.step.cross - other.step.cross).max() > 0.1


# -- held rows


def test_packed_rows_keep_three_digits_in_half_the_bytes():
    y = (np.random.default_rng(1).standard_t(2, (1000, 5)) * 50).astype(np.float32)
    whitener = Whitener.of(Moments.of(y), precision="single").of_white()
    packed = pack(y)
    assert packed.nbytes == y.nbytes // 2
    back = whitener.rows(packed, np.empty_like(y))
    np.testing.assert_allclose(back, y, rtol=2.0**-8)
    assert np.abs(back - y).max() > 0


@pytest.mark.parametrize(("precision", "close"), [("single", 3e-3), ("double", 1e-10)])
def test_a_part_gives_the_means_of_its_components(table, precision, close):
    passes = passes_of(table, precision)
    some = haar_rotation(WIDTH, np.random.default_rng(0))[:5]
    turn = haar_rotation(5, np.random.default_rng(1))
    expected = passes.step(turn @ some, LOGCOSH)
    held = passes.within(some, store=passes.store())
    lazy = passes.within(some)
    assert (held.n, lazy.n) == (passes.n, passes.n)
    assert held.blocks is not passes.blocks
    assert lazy.blocks is passes.blocks
    for part in (held, lazy):
        found = part.step(turn, LOGCOSH)
        np.testing.assert_allclose(found.cross, expected.cross, atol=close)
        np.testing.assert_allclose(found.bend, expected.bend, atol=close)
    assert np.abs(held.step(np.eye(5), LOGCOSH).cross - expected.cross).max() > 4 * close  # other components


@pytest.mark.parametrize(("precision", "close"), [("single", 5e-3), ("double", 1e-10)])
def test_a_part_of_a_part_takes_the_place_of_the_first(table, precision, close):
    passes, rng = passes_of(table, precision), np.random.default_rng(2)
    some, fewer = haar_rotation(WIDTH, rng)[:8], haar_rotation(8, rng)[:3]
    store = passes.store()
    first = passes.within(some, 0.5, store)
    covariance = fewer @ first.covariance @ fewer.T
    second = first.within(fewer, store=store)
    assert np.shares_memory(second.blocks.source, first.blocks.source)
    np.testing.assert_allclose(second.covariance, covariance)
    alone = passes.within(fewer @ some, 0.5)
    np.testing.assert_allclose(second.step(np.eye(3), LOGCOSH).cross, alone.step(np.eye(3), LOGCOSH).cross, atol=close)


@pytest.mark.parametrize(("precision", "close"), [("single", 5e-3), ("double", 1e-10)])
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_the_fixed_point_of_few_directions_is_that_of_a_step_of_all(table, precision, close, share):
    """In the whole space, also from the table itself, and where rows are not white."""
    passes = passes_of(table, precision)
    rotation = haar_rotation(WIDTH, np.random.default_rng(6))
    for part in (passes, passes.within(np.eye(WIDTH), share, passes.store()), passes.within(np.eye(WIDTH), share)):
        means = part.step(rotation, LOGCOSH)
        expected = (means.cross - np.diag(means.bend)) @ rotation
        few = part.fixed_point(rotation[:3], LOGCOSH)
        np.testing.assert_allclose(few, expected[:3], atol=close)
        assert np.abs(few - expected[3:6]).max() > 0.02


def test_a_share_of_the_rows_is_freed_of_not_being_white(table):
    """The same rows with and without what is taken off, against all rows."""
    passes = passes_of(table)
    rotation = haar_rotation(WIDTH, np.random.default_rng(4))
    whole = passes.step(rotation, LOGCOSH).cross
    part = passes.within(rotation, 0.1, passes.store())
    raw, freed = passes.step(rotation, LOGCOSH, 0.1).cross, part.step(np.eye(WIDTH), LOGCOSH).cross
    assert part.n == passes.step(rotation, LOGCOSH, 0.1).n
    apart = ~np.eye(WIDTH, dtype=bool)
    errors = [float(np.sqrt(((found - whole)[apart] ** 2).mean())) for found in (raw, freed)]
    assert errors[1] < 0.5 * errors[0]
    assert errors[1] > 1e-6  # a tenth of the rows is not all of them


def test_far_rows_tell_light_tails_from_heavy_ones(table):
    passes = passes_of(table)
    values, vectors = np.linalg.eigh(passes.within(np.eye(WIDTH)).by_distance())
    assert (values[: WIDTH // 2] < -0.8).all()  # a uniform has kurtosis -1.2
    assert (values[WIDTH // 2 :] > 1.5).all()  # a Laplacian 3
    kurtosis = (((table - table.mean(axis=0)) @ passes.whitener.matrix @ vectors) ** 4).mean(axis=0) - 3
    assert kurtosis[0] < -0.1
    assert kurtosis[-1] > 0.5


# -- the search on few rows, and the survey


def far_rows_of(part):
    return far_rows(part.sample(20_000), np.random.default_rng(1))


def test_a_search_that_begins_on_few_rows_finds_the_sources_for_less():
    world = sources(40_000, 30, rng=np.random.default_rng(0), kinds={"super": 0.6, "sub": 0.4})
    spent, best = [], []
    for rows in (3_000, np.inf):
        passes = passes_of(world.X, "single")
        fresh, rng = passes.sample(5_000, fresh=True), np.random.default_rng(2)
        rotation = np.vstack(search_in_rounds(passes, far_rows_of, LOGCOSH, [], rng, fresh, rows))
        S = (world.sources - world.sources.mean(axis=0)) / world.sources.std(axis=0)
        y = (world.X - world.X.mean(axis=0)) @ passes.whitener.matrix @ rotation.T
        best.append(np.abs(S.T @ y / len(y)).max(axis=0).min())
        spent.append(passes.spent)
    assert min(best) > 0.97
    assert spent[0] < 0.7 * spent[1]


def test_a_search_in_rounds_ends_where_there_is_nothing_to_find():
    X = np.random.default_rng(7).standard_normal((30_000, 20))
    passes, steps = passes_of(X, "single"), []
    rng, fresh = np.random.default_rng(2), passes.sample(5_000, fresh=True)
    rotation = np.vstack(search_in_rounds(passes, lambda part: np.eye(20), LOGCOSH, steps, rng, fresh, rows=5_000))
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(20), atol=1e-9)
    assert len(steps) < 300


def test_weak_sources_that_are_alike_are_told_apart_among_many_gaussians():
    """Their kurtoses, which are equal, tell the space that they span; the fixed point there tells them apart."""
    rng = np.random.default_rng([3, 30])
    S = rng.standard_normal((15_000, 24))
    S[:, :3] = 0.6 * S[:, :3] + 0.8 * rng.laplace(scale=np.sqrt(0.5), size=(15_000, 3))
    passes = passes_of(S)
    truth = orthogonal((passes.whitener.back / S.std(axis=0)).T)[:3]
    begun = _narrowed(passes, LOGCOSH, passes.store())
    assert begun.shape == (8, 24)
    assert np.abs(begun @ truth.T).max(axis=0).min() > 0.95
    ordered = by_kurtosis(passes, np.eye(24))
    assert np.abs(ordered @ truth.T).max(axis=0).min() < 0.9  # by kurtosis alone they are not


def test_a_search_in_rounds_makes_lost_directions_wait():
    """Steps of few directions at a time, and all sources found: some rounds do without most of what is left."""
    world = sources(40_000, 40, rng=np.random.default_rng(1), kinds={"super": 0.5, "sub": 0.3, "near_gaussian": 0.2})
    passes, steps = passes_of(world.X, "single"), []
    start, rng = haar_rotation(40, np.random.default_rng(0)), np.random.default_rng(3)
    search_in_rounds(passes, lambda part: start, LOGCOSH, steps, rng, passes.sample(5_000, fresh=True), 8_000)
    active = np.array([s.active for s in steps])
    assert active[0] == 40
    assert (np.diff(active) > 0).any()  # another round, with those that waited
    assert active.mean() < 20


def test_a_direction_fitted_to_noise_does_not_hold_on_other_rows():
    """The direction of one far row among Gaussians looks heavy-tailed on the rows it was taken from, and there alone."""
    rng = np.random.default_rng(3)
    seen, fresh = rng.standard_normal((2, 3_000, 30))
    seen[:, 0], fresh[:, 0] = rng.laplace(scale=np.sqrt(0.5), size=(2, 3_000))
    seen[0, 1:] *= 6
    directions = np.vstack([np.eye(30)[0], np.append(0, seen[0, 1:]) / np.linalg.norm(seen[0, 1:])])
    y = seen @ directions.T
    y /= y.std(axis=0)
    shapes = (y * np.tanh(y)).mean(axis=0) - (1 - np.tanh(y) ** 2).mean(axis=0)
    assert _holds(fresh, directions, LOGCOSH, shapes).tolist() == [True, False]
    assert not _holds(fresh, directions, LOGCOSH, -shapes).any()  # the other tails


def test_fresh_rows_are_others_than_those_a_search_begins_with(table):
    passes = passes_of(table)
    first, fresh, part = passes.sample(3_000), passes.sample(3_000, fresh=True), passes.within(np.eye(WIDTH), 0.1)
    seen = {tuple(row) for row in np.round(first, 9)}
    assert not seen & {tuple(row) for row in np.round(fresh, 9)}
    assert len(seen) == part.step(np.eye(WIDTH), LOGCOSH).n == len(first)


def test_the_contrast_of_a_fit_is_that_of_where_it_ended():
    """Shapes are surveyed one step before the end; what the step added is in the contrast."""
    X = sources(20_000, 20, rng=np.random.default_rng(0)).X
    found = fit(Blocks(X), Moments.of(X), Settings(restarts=1, precision="double", tol=1e-6))
    again = found.passes.survey(found.rotation, LOGCOSH)
    at_the_end = float(np.abs(Shape.of(again.shapes, "logcosh").departure).sum())
    assert found.contrast == pytest.approx(at_the_end, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_densities_are_those_of_a_histogram(dtype):
    X = np.random.default_rng(4).laplace(size=(3_000, 5)).astype(dtype)
    passes, edges = passes_of(X, "single"), np.linspace(-5, 5, 41)
    rotation = haar_rotation(5, np.random.default_rng(5))
    found = passes.densities(rotation, edges.tolist(), 3_000)
    y = ((X - X.mean(axis=0)) @ passes.whitener.matrix @ rotation.T).clip(-4.999, 4.999)
    expected = np.stack([np.histogram(column, edges, density=True)[0] for column in y.T])
    # Rounding puts a value or two on the other side of an edge.
    np.testing.assert_allclose(found, expected, atol=3 / (3_000 * 0.25))
    np.testing.assert_allclose(found.sum(axis=1) * 0.25, 1)
    assert np.abs(found - expected[::-1]).max() > 0.03  # of other components


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_beyond_the_edges_count_in_the_first_and_the_last_bin(dtype):
    X = np.random.default_rng(10).exponential(size=(3_000, 2)).astype(dtype)
    passes, edges = passes_of(X, "single"), np.linspace(-0.5, 1.5, 5)
    found = passes.densities(np.eye(2), edges.tolist(), 3_000)
    y = (X - X.mean(axis=0)) @ passes.whitener.matrix
    inner = [np.histogram(column, edges)[0][1:-1] for column in y.T]
    counts = [[np.sum(c < edges[1]), *middle, np.sum(c >= edges[-2])] for c, middle in zip(y.T, inner, strict=True)]
    np.testing.assert_allclose(
        found * 3_000 * 0.5, counts, atol=2
    )  # rounding puts a value on the other side of an edge
    assert np.min(counts) > 100
    two = passes_of(np.tile([-1.0, 1.0], 50)[:, None].astype(dtype))  # both at an edge
    np.testing.assert_allclose(two.densities(np.eye(1), [-1.0, -0.5, 0.0, 0.5, 1.0], 100), [[1, 0, 0, 1]])


def test_rows_stored_white_are_not_multiplied_again():
    """The sample of a held part is its rows; in a part of that part they are turned, as it says."""
    passes = passes_of(np.random.default_rng(8).laplace(size=(5_000, 6)), "single")
    held = passes.within(np.eye(6), 1.0, passes.store())
    assert held.whitener.stored_white
    assert not passes.whitener.stored_white
    np.testing.assert_allclose(held.sample(99_999), passes.sample(99_999), rtol=2**-8, atol=1e-6)
    turn = haar_rotation(6, np.random.default_rng(9))[:4]
    part = replace(held, whitener=held.whitener.within(turn))
    assert not part.whitener.stored_white
    np.testing.assert_allclose(part.sample(99_999), held.sample(99_999) @ turn.T, atol=1e-5)


def test_where_divide_and_conquer_gives_up_another_decomposition_finds_the_same(monkeypatch):
    matrix = np.random.default_rng(12).standard_normal((4, 6))
    expected = orthogonal(matrix)
    np.testing.assert_allclose(expected @ expected.T, np.eye(4), atol=1e-12)

    def gives_up(*_, **__):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "svd", gives_up)
    np.testing.assert_allclose(orthogonal(matrix), expected, atol=1e-12)


def test_four_rows_for_each_column_are_enough_to_begin_at_the_farthest():
    """All of them are drawn then, and the first direction is that of the longest row; with one fewer it is one by chance."""
    for rows, near in ((20, True), (19, False)):
        sample = np.random.default_rng(1).standard_normal((rows, 5))
        sample[7] *= 100
        first = far_rows(sample, np.random.default_rng(2))[0]
        assert (abs(first @ sample[7]) / np.linalg.norm(sample[7]) > 1 - 1e-12) == near
