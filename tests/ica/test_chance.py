"""ica, where directions are Gaussian: what chance explains is left alone, what hides there is found, and refits are not flattered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.polynomial.hermite_e import HermiteE
from scipy.integrate import quad
from scipy.special import comb, gamma
from scipy.stats import norm

from identifiable.blocks import Blocks
from identifiable.groups import haar_rotation
from identifiable.ica import Fit, fit, refits, resolve, search
from identifiable.ica.chance import by_chance, largest_p, too_weak, turn_variances
from identifiable.ica.contrasts import CONTRASTS, contrast
from identifiable.ica.diagnostics import LEAST_STABILITY, WORST_STABILITY
from identifiable.ica.passes import Passes
from identifiable.ica.search import orthogonal
from identifiable.ica.solver import _Sparing
from identifiable.ica.whitening import Whitener
from identifiable.moments import Moments
from identifiable.options import IcaOptions as Settings
from identifiable.options import ResolveOptions
from identifiable.worlds import sources

LOGCOSH = contrast("logcosh")
Rows = Any


@pytest.fixture
def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables take the way of large ones, which leaves alone what chance explains."""
    monkeypatch.setattr("identifiable.ica.fitting.RESTART_OPERATIONS", 0)
    monkeypatch.setattr("identifiable.ica.search.MIN_ROWS", 2_000)


def drawn(n: int, real: int, gaussian: int, rng: np.random.Generator) -> Rows:
    heavy, light = rng.laplace(size=(n, real - real // 2)), rng.uniform(-1, 1, (n, real // 2))
    S = np.hstack([heavy, light, rng.standard_normal((n, gaussian))])
    return S / S.std(axis=0)


def mixed(S: Rows, rng: np.random.Generator) -> Rows:
    return S @ (haar_rotation(S.shape[1], rng) * np.logspace(0, 1, S.shape[1]))


def fitted(X: Rows, **settings: Any) -> Fit:
    return fit(Blocks(X), Moments.of(X), Settings(**settings))


def owners(S: Rows, components: Rows) -> Rows:
    """The source nearest to every component, and |r| with it."""
    d = S.shape[1]
    r = np.abs(np.corrcoef(S, components, rowvar=False)[:d, d:])
    return r.argmax(axis=0), r.max(axis=0)


# -- what chance shows


@pytest.mark.parametrize("name", list(CONTRASTS))
def test_chance_explains_directions_chosen_in_gaussian_noise_and_no_source(name):
    """Twelve steps of a fixed point choose directions that depart as far as noise allows; a plain test takes most of them for sources."""
    score, n, k = contrast(name), 4000, 12
    rejected = 0
    for seed in range(6):
        X = np.random.default_rng([seed, 1]).standard_normal((n, k))
        passes, rotation = Passes(Blocks(X), Whitener.of(Moments.of(X), precision="double")), np.eye(k)
        for _ in range(12):
            means = passes.step(rotation, score)
            rotation = orthogonal(means.cross - np.diag(means.bend)) @ rotation
        means = passes.step(rotation, score)
        shapes = np.diag(means.cross) - means.bend
        assert by_chance(shapes, n, score).sum() >= k - 1
        rejected += int((~by_chance(shapes, n, score, dimensions=1)).sum())
    assert rejected > 6  # the check can fail
    S = drawn(n, 6, 0, np.random.default_rng(2))
    passes = Passes(Blocks(S), Whitener.of(Moments.of(S), precision="double"))
    means = passes.step(orthogonal(passes.whitener.back.T), score)
    assert not by_chance(np.diag(means.cross) - means.bend, n, score, dimensions=20).any()


def test_the_limit_of_chance_grows_with_dimensions_and_falls_with_rows():
    shapes = np.linspace(0, 0.3, 3001)
    limits = {(n, k): shapes[~by_chance(shapes, n, LOGCOSH, k)][0] for n in (2000, 8000) for k in (1, 10, 40)}
    assert limits[2000, 1] == pytest.approx(3.29 * np.sqrt(0.125 / 2000), rel=0.02)
    assert limits[2000, 40] > 1.6 * limits[2000, 10] > 1.6 * limits[2000, 1]
    for k in (1, 10, 40):
        assert limits[8000, k] == pytest.approx(limits[2000, k] / 2, rel=0.02)
    weak = shapes[~too_weak(shapes, 8000, LOGCOSH, 40)][0]
    assert weak == pytest.approx(np.sqrt(40 * 0.0274 / 8000) / 0.3, rel=0.02)
    none, one = turn_variances(np.array([0.0, 0.1]), 8000, LOGCOSH, 40)
    assert one == pytest.approx(40 * 0.0274 / 8000 / 0.01, rel=0.02)
    assert none > 1e6


def mean_euler_characteristic(z: float, d: int, roughness: float) -> float:
    """The formula of `largest_p`, with its integral by quadrature."""
    t, k = np.sqrt(roughness / (roughness - 1)), d - 1
    he = HermiteE.basis(k)
    tail = quad(lambda x: he(t * x) * norm.pdf(x), z, z + 12, epsabs=0, limit=200)[0]
    surface = 2 * np.pi ** (d / 2) / gamma(d / 2)
    return float(surface * ((roughness - 1) / (2 * np.pi)) ** (k / 2) * tail)


@pytest.mark.parametrize("roughness", [4.0, 4.33, 5.3])
@pytest.mark.parametrize(("d", "z"), [(2, 3.0), (3, 3.5), (5, 4.5), (8, 6.0), (20, 8.5)])
def test_the_p_value_of_the_largest_departure_is_the_integral_and_little_more(d, z, roughness):
    """Above the largest zero of the polynomial the tangent bounds it; below, the p-value is 1."""
    found = largest_p(np.array([z, z + 1, z + 2, 0.5]), np.full(4, d), roughness)
    exact = np.array([mean_euler_characteristic(z + step, d, roughness) for step in range(3)])
    assert (found[:3] >= exact).all()
    np.testing.assert_allclose(found[:3], exact, rtol=0.04)
    assert found[0] > 4 * found[1] > 16 * found[2]
    assert found[3] == 1


def test_one_direction_has_the_p_value_of_a_plain_test_and_several_have_their_own():
    z = np.array([0.5, 2.0, 4.0])
    np.testing.assert_allclose(largest_p(z, np.ones(3, np.intp), 4.0), 2 * norm.sf(z))
    mixed = largest_p(np.full(3, 4.0), np.array([3, 1, 2]), 4.0)
    np.testing.assert_allclose(mixed, [largest_p(np.array([4.0]), np.array([d]), 4.0)[0] for d in (3, 1, 2)])
    assert mixed[0] > 4 * mixed[2] > 16 * mixed[1]


def test_the_p_value_is_how_often_a_field_on_the_circle_goes_higher():
    """The fourth-order field sum_j sqrt(C(4, j)) cos^j sin^(4 - j) g_j has unit variance and the roughness 4."""
    rng, j = np.random.default_rng(9), np.arange(5)
    angle = np.linspace(0, np.pi, 120, endpoint=False)[:, None]
    waves = np.sqrt(comb(4, j)) * np.cos(angle) ** j * np.sin(angle) ** (4 - j)
    top = np.abs(rng.standard_normal((40_000, 5)) @ waves.T).max(axis=1)
    for z in (2.5, 3.0, 3.5):
        p = largest_p(np.array([z]), np.array([2]), 4.0)[0]
        assert np.mean(top > z) == pytest.approx(p, rel=0.15)
        assert np.mean(top > z) > 4 * norm.sf(z)  # than that of one direction


# -- the solver


@pytest.mark.usefixtures("as_if_large")
def test_passes_do_not_grow_with_gaussian_directions():
    rng = np.random.default_rng(3)
    spent = []
    for gaussian in (0, 4, 8):
        S = drawn(12_000, 20 - gaussian, gaussian, rng)
        X = mixed(S, rng)
        found = fitted(X, restarts=1)
        owner, r = owners(S, found.to_components(X))
        assert found.converged
        np.testing.assert_array_equal(found.directions.signs == 0, owner >= 20 - gaussian)
        assert r[owner < 20 - gaussian].min() > 0.98
        spent.append(sum(s.phase == "polish" and s.active == 20 for s in found.solution.steps))
    assert max(spent) <= 1.5 * spent[0]


@pytest.mark.usefixtures("as_if_large")
def test_weak_sources_among_gaussian_directions_do_not_keep_the_solver_busy():
    """They were once polished together with directions left alone, which went on for 180 passes."""
    kinds = {"super": 0.52, "sub": 0.12, "near_gaussian": 0.16, "gaussian": 0.2}
    found = fitted(sources(40_000, 128, rng=np.random.default_rng(101), kinds=kinds).X, restarts=1)
    assert found.converged
    assert found.passes.spent < 20
    assert 20 <= found.solution.left.sum() <= 30


def test_a_round_gives_up_on_noise_and_not_on_a_source(monkeypatch):
    """A direction of noise stays as far from a Gaussian as it is, one near a source goes farther from step to step."""
    rng = np.random.default_rng(6)
    S = drawn(12_000, 1, 39, rng)
    passes = Passes(Blocks(S), Whitener.of(Moments.of(S)))
    truth = orthogonal(passes.whitener.back.T)
    begun = orthogonal(truth[:8] + 0.15 * rng.standard_normal((8, 40)))
    spent = []
    for growing in (search.GROWING, 0.0):
        monkeypatch.setattr(search, "GROWING", growing)
        steps: list[Any] = []
        found, _, shapes = search._round(passes, begun, LOGCOSH, steps, True)
        told = found[~by_chance(shapes, passes.n, LOGCOSH, 40)]
        assert len(told) == 1
        assert np.abs(told[0] @ truth[0]) > 0.97
        spent.append(sum(step.active for step in steps))
    assert spent[0] < 0.8 * spent[1]


def test_where_starts_cost_little_nothing_is_left_alone():
    X = np.random.default_rng(4).standard_normal((1000, 4))
    assert not fitted(X).solution.left.any()


def test_what_hides_among_gaussians_is_found_and_gaussians_alone_give_nothing():
    """Four sources spread over 40 directions: none of the directions is told from a Gaussian."""
    rng = np.random.default_rng(5)
    for real in (4, 0):
        S = drawn(12_000, real, 40 - real, rng)
        passes = Passes(Blocks(S), Whitener.of(Moments.of(S)))
        space = haar_rotation(40, rng)
        means = passes.step(space, LOGCOSH)
        assert by_chance(np.diag(means.cross) - means.bend, means.n, LOGCOSH).all()
        turn = _Sparing(LOGCOSH, [], rng, passes.sample(2_000, fresh=True)).turn(passes, space, 1.0)
        if not real:
            assert turn is None
            continue
        assert turn is not None
        rotation, spared = turn
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(40), atol=1e-9)
        means = passes.step(rotation @ space, LOGCOSH)
        told = ~by_chance(np.diag(means.cross) - means.bend, means.n, LOGCOSH)
        assert told.sum() == real
        np.testing.assert_array_equal(spared, ~told)


# -- refits that begin at the fit


@contextmanager
def refits_begin(how: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("identifiable.ica.fitting.RESTART_OPERATIONS", 0)
        patch.setattr(refits, "begins_near", lambda *_: how != "cold")
        if how == "at the fit":
            patch.setattr(refits, "SHAKEN", 0.0)
            patch.setattr(refits, "DOUBTFUL", np.inf)
        yield


def disk(n: int, rng: np.random.Generator) -> Rows:
    """Four sources and a bivariate t, every two axes of which are as good."""
    return np.hstack([drawn(n, 4, 0, rng), rng.standard_normal((n, 2)) / np.sqrt(rng.chisquare(5, (n, 1)) / 5)])


PLANTED = {
    "Gaussian": (lambda rng: drawn(3000, 5, 3, rng), 5),
    "look-alikes": (lambda rng: disk(3000, rng), 4),
    "few rows": (lambda rng: drawn(60, 12, 0, rng), 0),
}


def found_again(world: str, how: str, seeds: range) -> tuple[int, int, int, int]:
    """Of components that can be had again, and of those that cannot: how many all refits find, and how many are reproducible."""
    make, real = PLANTED[world]
    counts = np.zeros(4, int)
    for seed in seeds:
        rng = np.random.default_rng([seed, 6])
        S = make(rng)
        X = mixed(S, rng)
        with refits_begin(how):
            found = resolve(X, ResolveOptions(stability=2, seed=seed))
        owner = owners(S, found.to_components(X))[0]
        for c in found.result.components:
            again = c.stability >= LEAST_STABILITY and c.stability_min >= WORST_STABILITY
            counts += np.array(
                [again, 0, c.identifiable, 0] if owner[c.index] < real else [0, again, 0, c.identifiable]
            )
    return tuple(counts.tolist())


@pytest.mark.parametrize("world", list(PLANTED))
def test_refits_that_begin_at_the_fit_refuse_what_others_refuse(world):
    warm, cold = (found_again(world, how, range(4)) for how in ("warm", "cold"))
    assert warm[0] >= cold[0]
    assert warm[1] <= cold[1]
    assert warm[3] == cold[3] == 0
    assert warm[2] >= cold[2] - 1


def test_a_start_that_is_not_shaken_flatters_look_alikes():
    flattered = found_again("look-alikes", "at the fit", range(4))[1]
    assert flattered > found_again("look-alikes", "warm", range(4))[1]


def test_a_shaken_start_turns_every_component_away_from_the_fit():
    rng = np.random.default_rng(7)
    S = drawn(3000, 5, 3, rng)
    with refits_begin("warm"):
        found = fitted(S)
    near = refits.shaken(found, found.whitener, rng)
    r = np.abs(np.einsum("ij,ij->i", near.rotation, found.rotation))
    paired = np.flatnonzero(~near.gaussian)
    np.testing.assert_allclose(np.sort(r[paired])[:4], np.cos(np.pi / 6))  # the fifth has no partner left
    assert near.gaussian.sum() == 3
    assert r[near.gaussian].max() < 0.999
    np.testing.assert_allclose(near.rotation @ near.rotation.T, np.eye(8), atol=1e-9)


def test_few_rows_or_cheap_starts_are_searched_anew():
    def moments(n: int, d: int) -> Moments:
        return Moments.of(np.random.default_rng(8).standard_normal((n, d)))

    assert not refits.begins_near(moments(2000, 20), 20)  # cheap
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("identifiable.ica.fitting.RESTART_OPERATIONS", 0)
        assert refits.begins_near(moments(200, 20), 20)
        assert not refits.begins_near(moments(199, 20), 20)
        assert not refits.begins_near(moments(2000, 19), 20)  # of lower rank
