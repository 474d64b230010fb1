"""ica, the solver: sources come back, wrong optima are left, and others' programs agree with the numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from identifiable.blocks import Blocks, one_blas_thread
from identifiable.groups import haar_rotation
from identifiable.ica import Fit, fit, fitting, solver
from identifiable.ica.auditing import Misplaced, _kurtosis_gains, audit, misplaced, turned
from identifiable.ica.contrasts import CONTRASTS, contrast, gaussian_values
from identifiable.ica.curvature import pair_curvature
from identifiable.ica.fitting import affordable_starts
from identifiable.ica.passes import Passes
from identifiable.ica.search import orthogonal
from identifiable.ica.solver import _Momentum, _Point, _Secants, cayley, polish, sample_contrast
from identifiable.ica.whitening import Whitener
from identifiable.moments import Moments
from identifiable.options import IcaOptions as Settings
from identifiable.results import Step
from identifiable.run import Run
from identifiable.worlds import sources

Matrix = NDArray[np.float64]
SEEDS = [0, 1, 2]
REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "ica.json").read_text())
LOGCOSH = contrast("logcosh")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Hundreds of small fits: looking for the BLAS libraries once, not in each of them, halves their time."""
    with one_blas_thread():
        yield


def drawn(kinds: str, n: int, rng: np.random.Generator) -> Matrix:
    """Sources of unit variance: l aplace, u niform, g aussian, e xponential, b inary."""
    draw = {
        "l": lambda: rng.laplace(scale=np.sqrt(0.5), size=n),
        "u": lambda: rng.uniform(-np.sqrt(3), np.sqrt(3), n),
        "g": lambda: rng.standard_normal(n),
        "e": lambda: rng.exponential(size=n) - 1,
        "b": lambda: rng.choice([-1.0, 1.0], n),
    }
    return np.column_stack([draw[k]() for k in kinds])


def fitted(X: NDArray[Any], **settings: Any) -> Fit:
    return fit(Blocks(X), Moments.of(X), Settings(**{"restarts": 1, **settings}))


def recovered(S: Matrix, Y: Matrix) -> Matrix:
    """For every source the largest |correlation| with a component; 0 for all if two sources claim the same one."""
    d = S.shape[1]
    r = np.abs(np.corrcoef(S, Y, rowvar=False)[:d, d:])
    return r.max(axis=1) * (len(set(r.argmax(axis=1))) == d)


def total_contrast(Y: Matrix, name: str = "logcosh") -> float:
    Y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    return float(np.abs(contrast(name).value(Y).mean(axis=0) - gaussian_values(name).mean).sum())


# Recovery


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("kinds", "n"),
    [
        ("bb", 2000),
        ("gl", 6000),
        ("gu", 6000),
        ("lllll", 8000),
        ("uuuuu", 8000),
        ("gluel", 10_000),
        ("lubelu" * 2, 10_000),
    ],
)
def test_sources_come_back_up_to_order_and_sign(kinds, n, seed):
    rng = np.random.default_rng([seed, n])
    S = drawn(kinds, n, rng)
    X = S @ rng.standard_normal((len(kinds), len(kinds))) + 5 * rng.standard_normal(len(kinds))
    found = fitted(X, restarts=2)
    assert found.converged
    assert recovered(S, found.to_components(X)).min() > 0.99
    assert recovered(S[::-1], S).max() < 0.9  # the measure can fail


@pytest.mark.parametrize("kinds", ["u" * 40, "g" + "lule" * 9 + "lue"])
def test_forty_sources_come_back(kinds):
    rng = np.random.default_rng(3)
    S = drawn(kinds, 12_000, rng)
    X = S @ rng.standard_normal((40, 40))
    found = fitted(X)
    assert found.converged
    assert recovered(S, found.to_components(X)).min() > 0.985


@pytest.mark.parametrize("name", list(CONTRASTS))
@pytest.mark.parametrize("kinds", ["lll", "uuu", "lueg"])
def test_every_contrast_finds_the_sources(name, kinds):
    rng = np.random.default_rng(4)
    S = drawn(kinds, 8000, rng)
    X = S @ rng.standard_normal((len(kinds), len(kinds)))
    found = fitted(X, contrast=name, restarts=2)
    assert found.converged
    assert recovered(S, found.to_components(X)).min() > 0.98


# Against other programs


@pytest.mark.parametrize("case", list(REFERENCE["cases"]))
@pytest.mark.parametrize("program", ["scikit-learn", "python-picard"])
def test_components_and_contrast_are_those_of_other_programs(case, program):
    """Frozen by tests/reference/make_ica_reference.py."""
    record = REFERENCE["cases"][case]
    X = np.array(record["thousandths"]) / 1000
    found = fitted(X, restarts=6, tol=1e-9, precision="double")
    theirs = (X - X.mean(axis=0)) @ np.array(record[program]["unmixing"]).T
    assert found.contrast == pytest.approx(record[program]["contrast"], rel=1e-6)
    assert total_contrast(found.to_components(X)) == pytest.approx(found.contrast, rel=1e-9)
    assert recovered(theirs, found.to_components(X)).min() > 1 - 1e-6
    assert recovered(theirs, theirs @ haar_rotation(3, np.random.default_rng(0))).min() < 0.99


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("kinds", "n"), [("luge", 500), ("uuuuuuuu", 1000), ("lulueegg", 2000)])
def test_the_contrast_is_at_least_that_of_the_best_of_three_fastica_runs(kinds, n, seed):
    from sklearn.decomposition import FastICA

    rng = np.random.default_rng([seed, 8])
    X = drawn(kinds, n, rng) @ rng.standard_normal((len(kinds), len(kinds)))
    runs = [FastICA(whiten="unit-variance", tol=1e-6, max_iter=4000, random_state=s) for s in range(3)]
    best = max(total_contrast(run.fit_transform(X)) for run in runs)
    assert fitted(X, restarts="auto", seed=seed).contrast > best * (1 - 1e-4)
    assert total_contrast(X) < best


# The 45-degree audit


def symmetric_pair(seed: int, kinds: str = "uull") -> Matrix:
    """Rows in which two sources of one law, the first columns, may be swapped and flipped without changing the table."""
    rng = np.random.default_rng(seed)
    base = drawn(kinds, 500, rng)
    parts = []
    for swap, flip in product((False, True), (1.0, -1.0)):
        part = base.copy()
        part[:, :2] = part[:, [1, 0]] if swap else part[:, :2]
        part[:, 1] *= flip
        parts.append(part)
    whole = np.vstack(parts)
    return np.vstack([whole, -whole])


@pytest.mark.parametrize("seed", SEEDS)
def test_two_sources_at_45_degrees_are_a_fixed_point_and_the_audit_finds_them(seed):
    X = symmetric_pair(seed)
    passes = Passes(Blocks(X), Whitener.of(Moments.of(X), precision="double"))
    sample = passes.sample(99_999)
    truth = orthogonal((passes.whitener.back / X.std(axis=0)).T)
    at = sample_contrast(sample, truth, LOGCOSH)
    wrong = turned(truth, [(0, 1)])
    end = polish(passes, wrong, LOGCOSH, at, 1e-6, [])
    assert end.converged
    stuck = end.rotation
    assert sample_contrast(sample, stuck, LOGCOSH) < 0.8 * at
    assert audit(sample, stuck, LOGCOSH) == [(0, 1)]
    rescued = polish(passes, turned(stuck, [(0, 1)]), LOGCOSH, at, 1e-6, [])
    assert rescued.converged
    assert sample_contrast(sample, rescued.rotation, LOGCOSH) > at * (1 - 1e-6)
    assert audit(sample, rescued.rotation, LOGCOSH) == []


@pytest.mark.parametrize("name", list(CONTRASTS))
@pytest.mark.parametrize("kinds", ["uuuull", "llllll", "bbuull"])
def test_the_audit_finds_exactly_the_planted_pairs(name, kinds):
    S = drawn(kinds, 8000, np.random.default_rng(9))
    S = (S - S.mean(axis=0)) / S.std(axis=0)
    assert audit(S, np.eye(6), contrast(name)) == []
    planted = turned(np.eye(6), [(0, 3), (2, 4)] if kinds == "llllll" else [(0, 1)])
    expected = {(0, 3), (2, 4)} if kinds == "llllll" else {(0, 1)}
    assert set(audit(S, planted, contrast(name))) == expected


def test_the_audit_turns_no_component_twice():
    """Four sources, equally mixed: every two components gain by a turn."""
    S = drawn("bbbb", 4000, np.random.default_rng(9))
    S = (S - S.mean(axis=0)) / S.std(axis=0)
    mixed = turned(turned(np.eye(4), [(0, 1), (2, 3)]), [(0, 2), (1, 3)])
    for pair in ((0, 1), (0, 2), (0, 3)):
        assert audit(S, mixed[list(pair)], LOGCOSH) == [(0, 1)]
    pairs = audit(S, mixed, LOGCOSH)
    assert sorted(i for pair in pairs for i in pair) == [0, 1, 2, 3]
    rotation = turned(mixed, pairs)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(4), atol=1e-12)


# Laws of the steps


def skews(seed: int, count: int, d: int = 4) -> list[Matrix]:
    rng = np.random.default_rng(seed)
    return [a - a.T for a in rng.standard_normal((count, d, d))]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_quasi_newton_direction_obeys_the_secant_and_descends(seed):
    """With pairs (s, H s) of one positive form H, the last pair is reproduced and the direction goes downhill."""
    curvature = np.random.default_rng(seed).uniform(0.5, 2, (4, 4))
    curvature = curvature + curvature.T
    weights = np.random.default_rng([seed, 1]).uniform(0.5, 2, (4, 4))
    form = weights + weights.T
    memory = _Secants()
    memory.pairs.extend((s, form * s) for s in skews(seed, 5))
    step, change = memory.pairs[-1]

    def direction(gradient: Matrix, memory: _Secants) -> Matrix:
        """The step of a point with this gradient, too short to be cut off."""
        here = _Point(np.eye(4), np.ones(4), 1e-3 * gradient / 2, curvature)
        return -1e3 * memory.step(here)

    np.testing.assert_allclose(direction(change, memory), step, atol=1e-10)
    gradient = skews(seed + 50, 1)[0]
    found = direction(gradient, memory)
    np.testing.assert_allclose(found, -found.T, atol=1e-12)
    assert (found * gradient).sum() > 0
    np.testing.assert_allclose(direction(gradient, _Secants()), gradient / curvature)
    assert np.abs(found - gradient / curvature).max() > 1e-3
    memory.forget(np.array([3]))  # of the others the last pair is reproduced still
    step, change = step.copy(), change.copy()
    for matrix in (step, change):
        matrix[3] = matrix[:, 3] = 0
    np.testing.assert_allclose(direction(change, memory), step, atol=1e-10)


@pytest.mark.parametrize("name", list(CONTRASTS))
def test_pair_curvature_is_the_second_derivative_of_the_signed_contrast(name):
    rng = np.random.default_rng(0)
    X = drawn("lue", 4000, rng)
    whitener = Whitener.of(Moments.of(X), precision="double")
    passes = Passes(Blocks(X), whitener)
    rotation, G = haar_rotation(3, rng), contrast(name)
    pairs, step = passes.pairs(rotation, G), passes.step(rotation, G)
    signs = np.array([1.0, -1.0, 1.0])
    curvature = pair_curvature(pairs.bend, np.diag(step.cross), signs)
    y = (X - whitener.center) @ whitener.matrix @ rotation.T

    def value(i: int, j: int, angle: float) -> float:
        turn = np.eye(3)
        turn[[i, j], [i, j]] = np.cos(angle)
        turn[i, j], turn[j, i] = np.sin(angle), -np.sin(angle)
        return float(G.value(y @ turn.T).mean(axis=0) @ signs)

    h = 1e-3
    for i, j in ((0, 1), (0, 2), (1, 2)):
        second = (value(i, j, h) - 2 * value(i, j, 0) + value(i, j, -h)) / h**2
        slope = (value(i, j, h) - value(i, j, -h)) / (2 * h)
        assert curvature[i, j] == pytest.approx(second, rel=2e-3, abs=2e-4)
        assert (signs[:, None] * step.cross)[i, j] - (signs[:, None] * step.cross)[j, i] == pytest.approx(
            slope, rel=1e-3, abs=1e-4
        )


@pytest.mark.parametrize("kinds", ["l" * 12, "u" * 12, "lu" * 6])
def test_a_pair_half_way_between_two_sources_is_a_saddle(kinds):
    X = drawn(kinds, 20_000, np.random.default_rng(8))
    passes = Passes(Blocks(X), Whitener.of(Moments.of(X)))
    truth = orthogonal((passes.whitener.back / X.std(axis=0)).T)
    sample = passes.sample(10_000)
    right = misplaced(sample, truth, LOGCOSH)
    assert right.saddles == []
    assert right.components.size == 0
    wrong = misplaced(sample, turned(truth, [(2, 4), (1, 7)]), LOGCOSH)
    assert wrong.saddles in ([(2, 4), (1, 7)], [(1, 7), (2, 4)])
    assert wrong.components.tolist() == [1, 2, 4, 7]


@pytest.mark.parametrize("seed", SEEDS)
def test_components_mixed_among_themselves_are_told_from_the_others(seed):
    """Also on a sample that is not white."""
    rng = np.random.default_rng([seed, 2])
    X = drawn("lu" * 6, 20_000, rng)
    passes = Passes(Blocks(X), Whitener.of(Moments.of(X)))
    truth = orthogonal((passes.whitener.back / X.std(axis=0)).T)
    mixed = truth.copy()
    mixed[[3, 5, 8]] = cayley(0.4 * skews(seed, 1, 3)[0]) @ truth[[3, 5, 8]]
    sample = passes.sample(3_000) + 0.05 * rng.standard_normal(12).astype(np.float32)
    assert set(misplaced(sample, mixed, LOGCOSH).components) <= {3, 5, 8}
    assert misplaced(sample, mixed, LOGCOSH).components.size >= 2
    assert misplaced(sample, truth, LOGCOSH).components.size == 0


def test_an_audit_confirms_pairs_by_their_own_columns():
    """Many Gaussian columns make many pairs promising; only the one that is half way between two sources is confirmed."""
    rng = np.random.default_rng(0)
    S = rng.standard_normal((10_000, 40)).astype(np.float32)
    S[:, [7, 31]] = rng.laplace(size=(10_000, 2)) / np.sqrt(2)
    assert audit(S, np.eye(40), LOGCOSH) == []
    assert audit(S, turned(np.eye(40), [(7, 31)]), LOGCOSH) == [(7, 31)]


def test_gaussians_are_not_misplaced():
    rng = np.random.default_rng(9)
    sample = rng.standard_normal((10_000, 40))
    assert misplaced(sample, np.eye(40), LOGCOSH).components.size == 0
    assert misplaced(sample[:10], np.eye(40), LOGCOSH).components.size == 0
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    assert misplaced(np.sign(sample[:15, :3]), turn, LOGCOSH).components.size == 0  # too few rows to say
    assert misplaced(np.sign(sample[:500, :3]), turn, LOGCOSH).components.size > 0


def test_what_was_learnt_of_a_component_is_forgotten_once_it_is_turned_apart():
    """Of older steps too, and the others keep what they had."""
    memory, steps = _Secants(), skews(8, 3)
    memory.pairs.extend((s, 2 * s) for s in steps[:2])
    here, there = (_Point(np.eye(4), np.ones(4), size * steps[2], np.ones((4, 4))) for size in (2.0, 1.0))
    memory.learn(-steps[2], here, there, np.array([3]))
    assert len(memory.pairs) == 3
    for (step, _), before in zip(memory.pairs, (*steps[:2], -steps[2]), strict=True):
        assert not step[3].any()
        assert not step[:, 3].any()
        np.testing.assert_array_equal(step[:3, :3], before[:3, :3])


def coupled(n_pairs_of: int, noise: float, rng: np.random.Generator) -> tuple[_Point, Any]:
    """A point of a quadratic whose pairs are coupled at random, as finitely many rows couple them, and its Hessian."""
    d = n_pairs_of
    curvature = rng.uniform(0.2, 1.0, d)
    couplings = rng.standard_normal((d, d, d)) * np.sqrt(noise)
    couplings = (couplings + couplings.transpose(0, 2, 1)) / np.sqrt(2)
    both = curvature[:, None] + curvature

    def hessian(step: Matrix) -> Matrix:
        rows = np.einsum("ijk,ik->ij", couplings, step)
        return both * step + rows - rows.T

    optimum = 1e-4 * rng.standard_normal((d, d))
    gradient = hessian(optimum.T - optimum)
    return _Point(np.eye(d), np.ones(d), gradient / 2, both), hessian


@pytest.mark.parametrize("seed", SEEDS)
def test_momentum_takes_off_what_couplings_by_chance_send_back(seed):
    """On a quadratic: with the derived share a fifth step leaves far less than with none, and than with three times as much."""
    d, noise = 80, 2e-4
    first, hessian = coupled(d, noise, np.random.default_rng(seed))
    left = []
    for share in (0.0, 1.0, 3.0):
        memory, here = _Momentum(share * noise, d), first
        for _ in range(5):
            step = memory.step(here)
            there = _Point(here.rotation, here.signs, (here.gradient + hessian(step)) / 2, here.curvature)
            memory.learn(step, here, there, np.zeros(0, np.intp))
            here = there
        left.append(here.gain / first.gain)
    assert left[1] < 0.3 * left[0]
    assert left[1] < 0.1 * left[2]


def test_a_newton_step_is_that_of_fastica():
    rng = np.random.default_rng(10)
    X = drawn("lulue", 5000, rng)
    passes = Passes(Blocks(X), Whitener.of(Moments.of(X), precision="double"))
    truth = orthogonal((passes.whitener.back / X.std(axis=0)).T)
    here = _Point.at(passes, cayley(0.1 * skews(0, 1, 5)[0]) @ truth, LOGCOSH)
    means = passes.step(here.rotation, LOGCOSH)
    fast = orthogonal(means.cross - np.diag(means.bend))
    np.testing.assert_allclose(np.abs(cayley(here.newton)), np.abs(fast), atol=1e-9)
    plain = -here.gradient / here.curvature
    assert np.abs(here.newton - plain).max() > 1e-3
    far = _Point.at(passes, haar_rotation(5, rng), LOGCOSH)
    np.testing.assert_array_equal(far.newton, -far.gradient / far.curvature)
    near = _Point(here.rotation, here.signs, np.diag(np.diag(here.signed)) + 1e-5 * here.signed, here.curvature)
    np.testing.assert_allclose(near.newton, -near.gradient / near.curvature, atol=1e-8)


def test_no_step_is_taken_for_a_reflection():
    """Nearly the reflection in a direction that all eight components share alike: each turns by less than 60 degrees."""
    curvature = np.full((8, 8), 2.0)
    np.fill_diagonal(curvature, 1.5)
    here = _Point(np.eye(8), np.ones(8), 0.25 + 0.02 * skews(0, 1, 8)[0], curvature)
    turn = orthogonal(np.diag(np.diag(here.curvature) / 2 + np.diag(here.signed)) - here.signed)
    assert np.linalg.det(turn) < 0 < solver.NEAR < np.diag(turn).min()
    assert here.turn > solver.SMALL_TURN
    np.testing.assert_array_equal(here.newton, -here.gradient / here.curvature)


def test_a_tighter_tolerance_leaves_a_smaller_step_and_never_less_contrast():
    rng = np.random.default_rng(0)
    X = drawn("lulge", 3000, rng) @ rng.standard_normal((5, 5))
    loose, tight = (fitted(X, tol=tol, precision="double") for tol in (1e-3, 1e-10))
    assert tight.converged
    assert tight.directions.residual.max() < 1e-4
    assert tight.contrast > loose.contrast - 1e-9
    assert tight.solution.steps[-1].passes > loose.solution.steps[-1].passes
    assert tight.solution.steps[-1].turn < loose.solution.steps[-1].turn


def test_running_out_of_steps_is_a_field_and_no_warning(monkeypatch):
    rng = np.random.default_rng(0)
    X = drawn("lulge", 3000, rng) @ rng.standard_normal((5, 5))
    assert fitted(X).converged
    monkeypatch.setattr("identifiable.ica.solver.MAX_POLISH", 1)
    monkeypatch.setattr("identifiable.ica.solver.AT_LIMIT", 0.0)
    monkeypatch.setattr("identifiable.ica.search.MAX_APART", 1)
    assert not fitted(X).converged


def test_the_best_of_several_starts_is_kept_and_all_are_told():
    rng = np.random.default_rng(12)
    X = rng.standard_normal((400, 6))
    found = fitted(X, restarts=4)
    reached = [s.contrast for s in found.starts]
    assert len(reached) == 4
    assert found.contrast == pytest.approx(max(reached), rel=1e-6)  # finished in double precision
    assert max(reached) - min(reached) > 1e-4  # Gaussian rows: starts end apart
    assert fitted(X, restarts=1).starts[0].contrast == reached[0]


@pytest.mark.parametrize(
    ("kinds", "searches"),
    [("lu", ["thorough", "together", "thorough"]), ("gggggg", ["thorough", "together", "together", "together"])],
)
def test_starts_hold_components_together_once_two_of_them_disagree(monkeypatch, kinds, searches):
    asked, solve = [], fitting.solve
    monkeypatch.setattr(fitting, "solve", lambda *given, **how: asked.append(how["search"]) or solve(*given, **how))
    found = fitted(drawn(kinds, 400, np.random.default_rng(12)), restarts=len(searches))
    assert asked == searches
    reached = [start.contrast for start in found.starts]
    assert (max(reached) - min(reached) < fitting.SAME_CONTRAST * max(reached)) == (kinds == "lu")


def off(kinds: str, n: int) -> tuple[Passes, Matrix]:
    """Passes over sources, and their rotation turned away by a tenth of a radian."""
    X = drawn(kinds, n, np.random.default_rng(53))
    passes = Passes(Blocks(X), Whitener.of(Moments.of(X), precision="double"))
    truth = orthogonal((passes.whitener.back / X.std(axis=0)).T)
    return passes, cayley(0.1 * skews(53, 1, len(kinds))[0]) @ truth


def test_polishing_takes_a_survey_where_it_is_asked_to():
    passes, wrong = off("lule", 1000)
    few = contrast("logcosh", 0)  # nothing is compiled
    plain, surveyed = (polish(passes, wrong, few, 0.3, 1e-6, [], **survey) for survey in ({}, {"survey": True}))
    assert plain.converged
    assert plain.survey is None
    assert surveyed.survey is not None
    np.testing.assert_allclose(surveyed.rotation, plain.rotation, atol=1e-6)


@pytest.mark.parametrize(("scale", "converged"), [(1.0, True), (1e-200, False)])
def test_what_is_left_at_the_limit_of_precision_is_judged_by_the_scale(monkeypatch, scale, converged):
    passes, wrong = off("lule", 500)
    monkeypatch.setattr(solver, "MAX_POLISH", 25)
    steps: list[Step] = []
    assert polish(passes, wrong, LOGCOSH, scale, 0.0, steps).converged == converged
    assert (len(steps) < 25) == converged


def test_a_survey_at_the_very_end_leaves_nothing_gained_since(monkeypatch):
    """One that stops right after its last look returns the point it looked at."""
    passes, wrong = off("lule", 1000)
    few = contrast("logcosh", 0)  # nothing is compiled
    for most in range(1, 10):
        monkeypatch.setattr(solver, "MAX_POLISH", most)
        end = polish(passes, wrong, few, 0.3, 1e-6, [], survey=True)
        if end.survey is not None:
            break
    shown = passes.survey(end.rotation, few).shapes.value
    np.testing.assert_array_equal(end.survey.shapes.value, shown)
    assert end.gained == 0


def test_a_gain_that_never_shrinks_is_given_up_after_two_steps(monkeypatch):
    """Nine tenths of what was least so far is no progress; rounding may go on to wander about there for ever."""
    passes, wrong = off("lule", 500)
    little = _Point(wrong, np.ones(4), 1e-6 * skews(3, 1)[0], np.ones((4, 4)))
    monkeypatch.setattr(_Point, "at", lambda *_, **__: little)
    steps: list[Step] = []
    end = polish(passes, wrong, LOGCOSH, 1.0, 0.0, steps)
    assert 0 < little.gain < solver.AT_LIMIT
    assert end.converged
    assert len(steps) == solver.STAGNANT + 1


@pytest.mark.parametrize(("share", "at_once"), [(2.0, True), (0.5, False)])
def test_what_is_left_alone_is_searched_when_little_of_the_scale_is_left_to_gain(share, at_once):
    passes, wrong = off("lule", 4000)
    gain = _Point.at(passes, wrong, LOGCOSH).gain
    steps: list[Step] = []
    searched = []

    class Looking(solver._Sparing):
        def turn(self, *_: Any) -> None:
            searched.append(len(steps))
            self.looked = True

    looking = Looking(LOGCOSH, steps, np.random.default_rng(0), np.zeros((0, 4)))
    polish(passes, wrong, LOGCOSH, share * gain / solver.NEARLY, 1e-9, steps, sparing=looking)
    assert len(searched) == 1
    assert (searched[0] == 1) == at_once


def test_few_tangled_components_are_turned_apart_and_the_rest_is_not_upset(monkeypatch):
    """Three of twenty mixed among themselves: little is paid, and the other seventeen are not turned away."""
    rng = np.random.default_rng(4)
    X = drawn("lulu" * 5, 20_000, rng)
    passes = Passes(Blocks(X), Whitener.of(Moments.of(X), precision="double"))
    truth = orthogonal((passes.whitener.back / X.std(axis=0)).T)
    scale = sample_contrast(passes.sample(20_000), truth, LOGCOSH)
    optimum = polish(passes, truth, LOGCOSH, scale, 1e-12, []).rotation
    mixed = optimum.copy()
    mixed[:3] = haar_rotation(3, rng) @ optimum[:3]
    steps: list[Step] = []
    found = polish(passes, mixed, LOGCOSH, scale, 1e-12, steps)
    assert found.converged
    assert np.abs(found.rotation[3:] @ optimum[3:].T).max(axis=1).min() > 1 - 1e-8
    apart = [s for s in steps if s.active < 20]
    assert apart
    assert {s.active for s in apart} <= {2, 3}
    monkeypatch.setattr(solver, "MUCH", 2.0)  # never
    together: list[Step] = []
    polish(passes, mixed, LOGCOSH, scale, 1e-12, together)
    assert all(s.active == 20 for s in together)
    assert sum(s.active == 20 for s in steps) < len(together)


@pytest.fixture
def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables take the way of large ones: a search in rounds on shares of the rows, and momentum."""
    monkeypatch.setattr("identifiable.ica.fitting.RESTART_OPERATIONS", 0)
    monkeypatch.setattr("identifiable.ica.search.MIN_ROWS", 2_000)
    monkeypatch.setattr("identifiable.ica.solver.WEAK_ROWS", 3_000)
    monkeypatch.setattr("identifiable.ica.auditing.AUDIT_ROWS", 2_000)
    monkeypatch.setattr(solver, "AUDIT_ROWS", 2_000)
    monkeypatch.setattr(solver, "MANY", 2)


@pytest.mark.usefixtures("as_if_large")
def test_the_contrast_of_a_start_is_that_where_it_ends():
    """Its last pass is a step before, which at this tolerance gains a hundred-thousandth."""
    X = drawn("l" * 20, 1000, np.random.default_rng(0))
    found = fitted(X, precision="double", tol=1e-5)
    ends = total_contrast(X @ found.to_components.matrix)
    assert found.solution.gained > 8e-6 * ends
    assert found.starts[0].contrast == pytest.approx(ends, rel=4e-6)
    assert found.contrast == pytest.approx(ends, rel=4e-6)


@pytest.mark.usefixtures("as_if_large")
@pytest.mark.parametrize("name", list(CONTRASTS))
def test_sources_of_a_large_table_come_back(name, monkeypatch):
    used: set[str] = set()
    for kind in (_Momentum, _Secants):

        def step(self: Any, here: _Point, kind: Any = kind, plain: Any = kind.step) -> Matrix:
            used.add(kind.__name__)
            return plain(self, here)

        monkeypatch.setattr(kind, "step", step)
    rng = np.random.default_rng([0, 11])
    S = drawn("lu" * 8, 15_000, rng)
    X = S @ rng.standard_normal((16, 16)) + 3
    found = fitted(X, contrast=name)
    assert found.converged
    assert recovered(S, found.to_components(X)).min() > 0.98
    np.testing.assert_allclose(found.rotation @ found.rotation.T, np.eye(16), atol=1e-9)
    assert any(s.phase == "search" and s.active < 16 for s in found.solution.steps)
    assert "_Momentum" in used


@pytest.mark.usefixtures("as_if_large")
@pytest.mark.parametrize("precision", ["single", "double"])
def test_a_large_table_gives_the_same_bits_whatever_blocks_and_workers(precision):
    X = sources(9_000, 12, rng=np.random.default_rng(1)).X
    settings = Settings(restarts=1, precision=precision)
    first = fit(Blocks(X), Moments.of(X), settings, Run(workers=1)).rotation
    for rows, workers in ((None, 2), (777, 1), (100, 2)):
        np.testing.assert_array_equal(
            fit(Blocks(X, rows=rows), Moments.of(X), settings, Run(workers=workers)).rotation, first
        )
    other = fit(Blocks(X), Moments.of(X), Settings(restarts=1, precision=precision, seed=1)).rotation
    assert (other != first).any()


@pytest.mark.usefixtures("as_if_large")
@pytest.mark.parametrize("name", list(CONTRASTS))
@pytest.mark.parametrize(
    "case", ["gaussian", "giant row", "rare", "zero but for few rows", "cauchy", "two columns", "counts"]
)
def test_hard_input_on_the_way_of_large_tables_ends_with_a_rotation(case, name):
    rng = np.random.default_rng(12)
    X = {
        "gaussian": lambda: rng.standard_normal((6000, 20)),
        "giant row": lambda: rng.laplace(size=(6000, 8)) * np.where(np.arange(6000) == 7, 1e6, 1)[:, None],
        "rare": lambda: (rng.random((8000, 12)) < 0.003).astype(float),
        "zero but for few rows": lambda: np.vstack([np.eye(6), np.zeros((8000, 6)), -np.eye(6)]),
        "cauchy": lambda: rng.standard_cauchy((6000, 6)),
        "two columns": lambda: rng.laplace(size=(6000, 2)),
        "counts": lambda: rng.poisson(0.3, (6000, 10)).astype(float),
    }[case]()
    found = fitted(X, contrast=name)
    d = len(found.rotation)
    np.testing.assert_allclose(found.rotation @ found.rotation.T, np.eye(d), atol=1e-9)
    assert len(found.solution.steps) < 1000


def test_polishing_never_leaves_a_good_point_for_a_bad_one():
    """All Gaussian: flat everywhere, where a quasi-Newton step out of one flat pair goes anywhere."""
    X = np.random.default_rng(0).standard_normal((20_000, 20))
    found = fitted(X, precision="double")
    assert found.converged
    assert found.contrast > 0.055


def test_weak_saddles_are_found_on_more_rows(monkeypatch):
    """Nearly Gaussian pairs half way between two sources, of which a thousand rows cannot tell."""
    rng = np.random.default_rng(13)
    S = drawn("g" * 8, 60_000, rng) + 0.9 * drawn("l" * 8, 60_000, rng)
    passes = Passes(Blocks(S), Whitener.of(Moments.of(S)))
    truth = orthogonal((passes.whitener.back / S.std(axis=0)).T)
    wrong = turned(truth, [(0, 3), (2, 6)])
    sample = passes.sample(1_000, fresh=True)
    assert misplaced(sample, wrong, LOGCOSH).saddles == []
    for rows in (40_000, 60_000):  # a share, which is not white, and all
        monkeypatch.setattr(solver, "WEAK_ROWS", rows)
        found, tangle = solver._untangled(passes, sample, wrong, LOGCOSH, 1.0, [], np.zeros(8, bool))
        assert len(tangle.saddles) == 2
        assert np.abs(found @ truth.T).max(axis=1).min() > 0.9
        assert not solver._untangled(passes, sample, truth, LOGCOSH, 1.0, [], np.zeros(8, bool))[1].saddles
        assert not solver._untangled(passes, sample, wrong, LOGCOSH, 1.0, [], np.ones(8, bool))[1].saddles


def test_weak_saddles_show_on_rows_that_are_not_white(monkeypatch):
    """On half of the rows a component has a variance of 1 up to some hundredths, as much as its departure from a Gaussian."""
    monkeypatch.setattr(solver, "WEAK_ROWS", 9_000)
    found = []
    for seed in range(6):
        rng = np.random.default_rng([13, seed])
        S = drawn("g" * 8, 20_000, rng) + 0.9 * drawn("l" * 8, 20_000, rng)
        passes = Passes(Blocks(S), Whitener.of(Moments.of(S)))
        truth = orthogonal((passes.whitener.back / S.std(axis=0)).T)
        wrong, sample = turned(truth, [(0, 3), (2, 6)]), passes.sample(1_000, fresh=True)
        found += solver._untangled(passes, sample, wrong, LOGCOSH, 1.0, [], np.zeros(8, bool))[1].saddles
    assert set(found) == {(0, 3), (2, 6)}
    assert len(found) >= 8  # of 12; 2 if that is not taken off


def test_starts_that_agree_are_three_and_starts_that_do_not_are_more():
    """Half as many rows as the squared dimension: many optima, and a third start would not be the last word."""
    easy = sources(5000, 5, rng=np.random.default_rng(0), kinds=("super", "super", "sub", "sub", "skewed")).X
    assert len(fitted(easy, restarts="auto").starts) == 3
    hard = sources(400, 30, rng=np.random.default_rng(1)).X
    found, two = fitted(hard, restarts="auto"), fitted(hard, restarts=2)
    assert len(found.starts) > 6
    assert [s.contrast for s in found.starts[:2]] == [s.contrast for s in two.starts]
    assert found.contrast > two.contrast * 1.001


def test_a_step_turns_no_component_farther_than_its_limit():
    step = np.array([[0.0, 3.0, 0.1], [-3.0, 0.0, 0.0], [-0.1, 0.0, 0.0]])
    shortened = solver._within_reach(step)
    assert np.linalg.norm(shortened, axis=1).max() <= solver.MAX_TURN
    assert np.allclose(shortened, -shortened.T)
    assert shortened[0, 1] > 0.05
    small = step * 0.01
    assert np.array_equal(solver._within_reach(small), small)


def test_the_audit_finds_two_components_at_45_degrees():
    sample = np.random.default_rng(8).laplace(size=(4000, 2)) / np.sqrt(2)
    diagonal = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    assert audit(sample, diagonal, LOGCOSH) == [(0, 1)]
    assert audit(sample, np.eye(2), LOGCOSH) == []


def test_the_audit_finds_weak_sources_at_45_degrees():
    """Excess kurtoses of 0.5: turned into each other they lose half of it each."""
    rng = np.random.default_rng(3)
    weak = 0.8 * rng.uniform(-np.sqrt(3), np.sqrt(3), (20_000, 2)) + 0.6 * rng.standard_normal((20_000, 2))
    diagonal = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    assert audit(weak, diagonal, LOGCOSH) == [(0, 1)]
    assert audit(weak, np.eye(2), LOGCOSH) == audit(rng.standard_normal((20_000, 2)), diagonal, LOGCOSH) == []


def test_a_start_that_ends_at_45_degrees_is_turned_and_polished_again(monkeypatch):
    X = symmetric_pair(0)
    passes = Passes(Blocks(X), Whitener.of(Moments.of(X), precision="double"))
    truth = orthogonal((passes.whitener.back / X.std(axis=0)).T)
    best = sample_contrast(passes.sample(99_999), truth, LOGCOSH)

    def solved(begin: Matrix) -> tuple[float, int]:
        monkeypatch.setattr(solver, "search_together", lambda *_: begin)
        monkeypatch.setattr(solver, "_untangled", lambda p, s, rotation, *_: (rotation, Misplaced([], none, none)))
        found = solver.solve(passes, LOGCOSH, rng=np.random.default_rng(0), tol=1e-6, far=True, search="together")
        assert found.converged
        return sample_contrast(passes.sample(99_999), found.rotation, LOGCOSH) / best, found.rescued

    none = np.zeros(0, np.intp)
    assert solved(turned(truth, [(0, 1)])) == (pytest.approx(1, abs=1e-3), 1)
    assert solved(truth) == (pytest.approx(1, abs=1e-3), 0)


@pytest.mark.parametrize("untangling", [True, False])
def test_a_source_that_was_not_looked_for_is_no_longer_left_alone_once_it_is_turned(monkeypatch, untangling):
    """The search ends with a source half way to another one in either part; the other components are Gaussian."""
    X = symmetric_pair(0, "lluugg")
    passes = Passes(Blocks(X), Whitener.of(Moments.of(X), precision="double"))
    truth = orthogonal((passes.whitener.back / X.std(axis=0)).T)
    begin = turned(truth, [(0, 1)])[[0, 2, 3, 1, 4, 5]]
    searches = [(begin[:3], begin[3:])]  # a second one, among what is left alone, finds nothing

    def search(part: Passes, *_: Any, **__: Any) -> tuple[Matrix, Matrix]:
        d = part.whitener.rank
        return searches.pop() if searches else (np.zeros((0, d)), np.eye(d))

    monkeypatch.setattr(solver, "search_in_rounds", search)
    if not untangling:
        none = np.zeros(0, np.intp)
        monkeypatch.setattr(solver, "_untangled", lambda p, s, rotation, *_: (rotation, Misplaced([], none, none)))
        named = [[(0, 3)]]  # the first time whatever polishing made of the saddle, which hangs on last bits
        monkeypatch.setattr(solver, "audit", lambda *given: named.pop() if named else audit(*given))
    found = solver.solve(passes, LOGCOSH, rng=np.random.default_rng(0), tol=1e-6, far=True, search="quick")
    assert found.rescued >= 1
    assert not searches
    place = np.abs(truth @ found.rotation.T).argmax(axis=1)
    assert np.abs(truth @ found.rotation.T).max(axis=1)[:4].min() > 0.9
    assert found.left[place].tolist() == [False] * 4 + [True] * 2


def test_two_sources_mixed_in_what_was_left_alone_are_found_there(monkeypatch):
    """The first search ends with two sources, and two others 20 degrees from their place, which look like Gaussians before."""
    X = drawn("lulu", 6_000, np.random.default_rng(0))
    passes = Passes(Blocks(X), Whitener.of(Moments.of(X), precision="double"))
    truth = orthogonal((passes.whitener.back / X.std(axis=0)).T)
    c, s = np.cos(np.pi / 9), np.sin(np.pi / 9)
    none = np.zeros(0, np.intp)
    monkeypatch.setattr(solver, "_untangled", lambda p, s, rotation, *_: (rotation, Misplaced([], none, none)))
    searches, search = [(truth[:2], np.array([[c, s], [-s, c]]) @ truth[2:])], solver.search_in_rounds
    monkeypatch.setattr(
        solver, "search_in_rounds", lambda *given, **how: searches.pop() if searches else search(*given, **how)
    )
    found = solver.solve(passes, LOGCOSH, rng=np.random.default_rng(0), tol=1e-6, far=True, search="quick")
    assert np.abs(truth @ found.rotation.T).max(axis=1).min() > 0.999
    assert not found.left.any()


def test_turns_among_what_is_left_alone_are_not_waited_for():
    """Component 2 is left alone: the small turn of 0 into it is within what the rows leave open, the turn of 1 is not."""
    turns = np.array([[0, 0.3, 0.01], [-0.3, 0, 0.2], [-0.01, -0.2, 0]])
    signs, curvature = np.array([1.0, 1.0, 0.0]), np.full((3, 3), 2.0)
    unsure = np.full(3, 1.5e-4 / solver.NEGLIGIBLE)  # between the squares of the two turns
    gains = turns**2 / 2
    plain = _Point(np.eye(3), signs, turns, curvature)  # its gradient is twice that
    assert np.allclose(plain.gains, gains)
    assert np.array_equal(plain.waited_for, plain.gains)
    unfixed = np.array([False, False, True])
    here = _Point(np.eye(3), signs, turns, curvature, unfixed=unfixed, unsure=unsure)
    expected = gains.copy()
    expected[0, 2] = expected[2, 0] = 0
    assert np.allclose(here.waited_for, expected)
    assert here.gain == pytest.approx(expected.sum())
    assert here.gain_among(np.array([0, 1])) == pytest.approx(2 * expected[0, 1])
    both = _Point(np.eye(3), signs, turns, curvature, unfixed=np.array([True, True, False]), unsure=unsure)
    expected[:2, :2] = 0
    assert np.allclose(both.waited_for, expected)


@pytest.mark.parametrize(
    ("n", "rank", "starts"), [(5_000, 5, 3), (1_000_000, 24, 2), (222_000, 384, 1), (100, 400, 1), (1_000_000, 8, 3)]
)
def test_small_tables_get_three_starts_and_large_ones_one(n, rank, starts):
    assert affordable_starts(n, rank) == starts


def test_what_a_turn_gains_in_kurtosis_is_that_of_the_turned_columns():
    rng = np.random.default_rng(21)
    sample = np.column_stack([rng.uniform(-1, 1, (5000, 2)), rng.exponential(size=(5000, 1)).clip(0, 3) - 1])
    sample[:, 2] *= 0.7  # neither white nor of unit variance
    sample[:, 1] += 0.1 * sample[:, 0]

    def kurtosis(column):
        return abs((column**4).mean() / (column**2).mean() ** 2 - 3)

    gains = _kurtosis_gains(sample, np.eye(3))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        x, y = sample[:, i], sample[:, j]
        expected = kurtosis(x + y) + kurtosis(x - y) - kurtosis(x) - kurtosis(y)
        assert gains[i, j] == pytest.approx(expected, rel=1e-9)
        assert gains[j, i] == pytest.approx(expected, rel=1e-9)
    far = sample.copy()
    far[0] = 1e3  # an outlier is clipped
    assert np.abs(_kurtosis_gains(far, np.eye(3)) - gains)[~np.eye(3, dtype=bool)].max() < 3
    assert kurtosis(far[:, 0]) > 1000


def test_after_an_audit_what_the_last_polish_left_is_spared_but_for_the_pairs_that_are_turned(monkeypatch):
    S = drawn("lll", 300, np.random.default_rng(73))
    named, spared = [[], [(0, 1)]], []

    def polished(*given, **how):
        spared.append(how["spared"].tolist())
        return replace(polish(*given, **how), left=np.array([False, True, True]))

    monkeypatch.setattr(solver, "polish", polished)
    monkeypatch.setattr(solver, "audit", lambda *_: named.pop())
    passes = Passes(Blocks(S), Whitener.of(Moments.of(S)))
    solver.solve(passes, LOGCOSH, rng=np.random.default_rng(1), tol=1e-4, far=False, search="together")
    assert spared == [[False] * 3, [False, False, True]]
