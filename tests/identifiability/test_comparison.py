"""compare(): recovery, invariance, references against other libraries, and statistics that hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.stats

import identifiable
from builders import make_pair
from errors import naming
from identifiable import Blocks, DataError, PairingError, Representation, UsageError, compare, structural
from identifiable.groups import WhiteBasis
from identifiable.identifiability.judgement import alerts_of, efficiency
from identifiable.identifiability.ladder import PENALTIES, Ridge
from identifiable.moments import Moments
from identifiable.results import Efficiency, without_time
from identifiable.rows import plan_rows
from laws import LADDER, member_outside, rows

FOUR = tuple(g.name for g in LADDER)
LEAST_SQUARES = {"groups": FOUR[1:], "protocol": "paper"}  # the linear map without a penalty
PLAIN = {"intervals": False, "axes": False, "neighbours": 0}
BARE = {"groups": FOUR, "nulls": (), **PLAIN}


def errors_by_hand(X, Y):
    """In-sample mean error of every group from textbook calls on the rows, over the rms distance."""
    Xc, Yc = X - X.mean(axis=0), Y - Y.mean(axis=0)
    rms = np.sqrt(2 * np.sum(Yc**2) / (len(Y) - 1))
    Q, trace = scipy.linalg.orthogonal_procrustes(Xc, Yc)
    B, *_ = np.linalg.lstsq(Xc, Yc, rcond=None)

    def mean(residual):
        return np.linalg.norm(residual, axis=1).mean() / rms

    return {
        "rigid": mean(Xc @ Q - Yc),
        "similarity": mean(trace / np.sum(Xc**2) * Xc @ Q - Yc),
        "linear": mean(Xc @ B - Yc),
    }


def cca_by_qr(X, Y):
    """Canonical correlations from orthonormal bases of the centred columns."""

    def basis(Z):
        u, s, _ = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
        return u[:, s > 1e-12 * s[0]]

    return np.linalg.svd(basis(X).T @ basis(Y), compute_uv=False).clip(0, 1)


def cka_by_kernels(X, Y):
    """Linear CKA from the n x n kernels."""
    H = np.eye(len(X)) - 1 / len(X)
    K, L = H @ X @ X.T @ H, H @ Y @ Y.T @ H
    return np.sum(K * L) / np.sqrt(np.sum(K * K) * np.sum(L * L))


def ill_conditioned(seed, n=600, d=8, condition=1e5):
    """Rows whose column-equilibrated condition number is about `condition`."""
    rng = np.random.default_rng([seed, 21])
    turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return rng.standard_normal((n, d)) * np.logspace(0, -np.log10(condition), d) @ turn.T + 3


def noisy_copy(X, seed, amount=0.3):
    rng = np.random.default_rng([seed, 22])
    return X @ rng.standard_normal((X.shape[1], X.shape[1])) + amount * rng.standard_t(5, X.shape)


CASES = {
    "ordinary": lambda s: (rows(s), noisy_copy(rows(s), s)),
    "condition 1e5": lambda s: (ill_conditioned(s), noisy_copy(ill_conditioned(s), s)),
    "condition 1e5 both sides": lambda s: (ill_conditioned(s), ill_conditioned(s + 1) + 0.1 * ill_conditioned(s)),
    "condition 1e7": lambda s: (
        ill_conditioned(s, condition=1e7),
        ill_conditioned(s, condition=1e7) @ np.diag(np.logspace(0, 7, 8)) + 0.3 * rows(s, n=600, d=8),
    ),
    "one dimension": lambda s: (rows(s, d=1), noisy_copy(rows(s, d=1), s)),
    "n barely above d": lambda s: (rows(s, n=23, d=20), noisy_copy(rows(s, n=23, d=20), s)),
    "constant column": lambda s: (np.c_[rows(s), np.full(400, 7.7)], noisy_copy(rows(s, d=7), s)),
    "duplicated column": lambda s: (rows(s, d=4)[:, [0, 1, 2, 3, 0, 1]], noisy_copy(rows(s), s)),
    "nearly duplicated column": lambda s: (
        np.c_[rows(s), rows(s)[:, :1] + 1e-9 * rows(s + 9)[:, :1]],
        noisy_copy(rows(s, d=7), s),
    ),
    "far from the origin": lambda s: (rows(s) + 1e6, noisy_copy(rows(s), s) - 1e5),
    "mixed units": lambda s: (rows(s) * np.logspace(-5, 5, 6), noisy_copy(rows(s), s)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_figures_equal_scipy_and_numpy_on_the_rows(case, seed):
    X, Y = CASES[case](seed)
    pair, back = compare(X, Y, folds=2 if len(X) < 50 else 5, **BARE | LEAST_SQUARES).pairs
    for direction, expected in ((pair, errors_by_hand(X, Y)), (back, errors_by_hand(Y, X))):
        for group, value in expected.items():
            assert direction.rung(group).in_sample.mean == pytest.approx(value, rel=1e-6, abs=1e-9), group
    assert pair.similarity.cca == pytest.approx(cca_by_qr(X, Y).mean(), rel=1e-6)
    assert pair.similarity.cka == pytest.approx(cka_by_kernels(X, Y), rel=1e-6)


@pytest.mark.parametrize("case", ["condition 1e5", "duplicated column", "nearly duplicated column"])
def test_a_second_pass_is_made_where_it_is_needed_and_said(case):
    X, Y = CASES[case](0)
    result = compare(X, Y, **BARE)
    assert result.pairs[0].solver.refined
    for pair, values in zip(result.pairs, told(result, "ill_conditioned"), strict=True):
        assert (values["source"], values["target"]) == (pair.solver.condition_source, pair.solver.condition_target)
    assert not compare(rows(0), noisy_copy(rows(0), 0), **BARE).pairs[0].solver.refined


def told(result, code):
    return [alert.values for alert in result.alerts if alert.code == code]


def test_a_linear_map_of_few_rows_is_said_to_be_worse_than_a_similarity():
    """24 rows to fit 20 x 20 entries to, where a rotation is the truth."""
    rng = np.random.default_rng(41)
    X = rng.standard_normal((1000, 20))
    Y = X[:, ::-1] + 0.3 * rng.standard_normal(X.shape)
    few = compare(X[:30], Y[:30], **BARE)
    for values, pair in zip(told(few, "larger_group_worse"), few.pairs, strict=True):
        linear, similarity = (pair.rung(group).held_out.mean for group in ("linear", "similarity"))
        assert (values["name"], values["larger"], values["smaller"]) == (
            f"{pair.source} to {pair.target}",
            "linear",
            "similarity",
        )
        assert (values["larger_error"], values["smaller_error"]) == (linear, similarity)
        assert linear > 1.02 * similarity
    assert told(compare(X, Y, **BARE), "larger_group_worse") == []


@pytest.mark.parametrize(
    ("ladder", "said"),
    [
        ({"rigid": 0.100, "similarity": 0.1021}, [("similarity", "rigid")]),
        ({"rigid": 0.100, "similarity": 0.1019}, []),
        ({"rigid": 0.100, "linear": 0.2}, [("linear", "rigid")]),
        (
            {"signed_permutation": 0.1, "rigid": 0.2, "similarity": 0.1},
            [],
        ),  # the permutation has a scale, a rotation none
        ({"signed_permutation": 0.1, "similarity": 0.2}, [("similarity", "signed permutation")]),
        ({"rigid": 0.1, "similarity": 0.1, "linear": 0.1, "ica": 0.9}, []),  # ICA is no group
        ({"rigid": 1e-9, "similarity": 2e-7}, []),  # rounding
    ],
)
def test_a_larger_group_is_worse_beyond_two_in_a_hundred(ladder, said):
    found = [alert.values for alert in alerts_of([make_pair(ladder=ladder)], "default")]
    assert [(values["larger"], values["smaller"]) for values in found] == said


@pytest.mark.parametrize("protocol", ["default", "paper"])
def test_the_efficiency_is_said_to_be_undefined_where_a_permutation_is_as_good(protocol):
    rng = np.random.default_rng(42)
    X = rng.laplace(size=(600, 3))
    noise, turn = 0.01 * rng.standard_normal(X.shape), np.linalg.qr(rng.standard_normal((3, 3)))[0]
    options = {"groups": (*FOUR, "ica"), "protocol": protocol, "nulls": (), **PLAIN}
    permuted, turned = (compare(X, X @ by + noise, **options) for by in (np.eye(3)[::-1], turn))
    arrows = [{"name": f"{pair.source} to {pair.target}"} for pair in permuted.pairs]
    assert told(permuted, "efficiency_undefined") == arrows
    assert told(turned, "efficiency_undefined") == []
    assert turned.pairs[0].ica_efficiency.in_sample > 0.99


@pytest.mark.parametrize(("in_sample", "held_out"), [(None, None), (0.5, None), (None, 0.5)])
def test_an_efficiency_that_is_defined_either_way_is_not_said_to_be_undefined(in_sample, held_out):
    pair = replace(make_pair(), ica_efficiency=Efficiency(in_sample, held_out))
    neither = in_sample is held_out is None
    assert [alert.code for alert in alerts_of([pair], "default")] == ["efficiency_undefined"] * neither
    assert alerts_of([replace(pair, ica_efficiency=None)], "default") == []  # nobody asked


def test_rows_that_have_near_copies_are_said_unless_they_are_declared():
    rng = np.random.default_rng(43)
    copies = np.repeat(np.arange(100), 3)
    X = rng.standard_normal((100, 8))[copies] + 0.01 * rng.standard_normal((300, 8))
    Y = rng.standard_normal((300, 8))
    options = {"nulls": (), **PLAIN, "neighbours": 10}
    (values,) = told(compare(X, Y, names=["jittered", "plain"], **options), "alike_rows")
    distances = np.linalg.norm(X[:, None] - X, axis=2) / np.sqrt(2 * X.var(axis=0).sum())
    np.fill_diagonal(distances, np.inf)
    assert values == {"name": "jittered", "median": pytest.approx(np.median(distances.min(axis=1)), abs=1e-3)}
    for other in ({"group_by": copies}, {"neighbours": 0}):
        assert told(compare(X, Y, **options | other), "alike_rows") == []


def test_normal_equations_alone_would_miss_condition_1e7(monkeypatch):
    """The negative half: with the second pass switched off the same figures are wrong."""
    X, Y = CASES["condition 1e7"](0)
    expected = errors_by_hand(X, Y)["linear"]
    with_it = compare(X, Y, **BARE | LEAST_SQUARES).pairs[0]
    monkeypatch.setattr(WhiteBasis, "needs_refinement", False)
    without = compare(X, Y, **BARE | LEAST_SQUARES).pairs[0]
    assert with_it.rung("linear").in_sample.mean == pytest.approx(expected, rel=1e-6)
    assert abs(without.rung("linear").in_sample.mean / expected - 1) > 1e-3
    assert with_it.solver.condition_source == pytest.approx(1e7, rel=0.9)


def test_the_rank_of_a_spectrum_is_that_of_the_second_pass(monkeypatch):
    X = ill_conditioned(0, condition=1e9)
    found = compare(X, rows(0, n=len(X)), **BARE)
    monkeypatch.setattr(WhiteBasis, "needs_refinement", False)
    once = compare(X, rows(0, n=len(X)), **BARE)
    assert found.spectra[0].rank == found.pairs[0].solver.rank_source == X.shape[1]
    assert once.spectra[0].rank < X.shape[1]


def ridge_by_hand(x, y):
    """The penalised map with the least generalised cross-validation error, from the rows; least squares at the smallest penalty."""
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    turned = u.T @ y
    found = {}
    for penalty in PENALTIES * s[0] ** 2:
        kept = s**2 / (s**2 + penalty)
        free = 1 - kept.sum() / (len(x) - 1)
        left = np.sum((y - u @ (kept[:, None] * turned)) ** 2)
        if free * (len(x) - 1) > 0.5:
            found[penalty] = left / free**2
    best = min(found, key=found.get)
    if best == PENALTIES[0] * s[0] ** 2:
        return np.linalg.lstsq(x, y, rcond=None)[0]
    return vt.T @ ((s / (s**2 + best))[:, None] * turned)


def held_out_by_hand(X, Y, linear, *, scaled):
    """Held-out errors from maps refitted on the rows of the other folds, over the rms distance."""
    fold = plan_rows(len(X), None, seed=0, n_folds=5).fold
    found = {g: np.empty(len(X)) for g in FOUR}
    for k in range(5):
        train, test = fold != k, fold == k
        mx, my = X[train].mean(axis=0), Y[train].mean(axis=0)
        x, y, xt, yt = X[train] - mx, Y[train] - my, X[test] - mx, Y[test] - my
        Q, trace = scipy.linalg.orthogonal_procrustes(x, y)
        B = linear(x, y)
        with np.errstate(invalid="ignore"):
            r = np.nan_to_num(np.corrcoef(x.T, y.T)[: x.shape[1], x.shape[1] :])
        i, j = scipy.optimize.linear_sum_assignment(-np.abs(r))
        P = np.zeros_like(r)
        P[i, j] = np.where(r[i, j] < 0, -1, 1)
        scale = trace / np.sum(x**2)
        if scaled:
            P *= max(np.sum(x @ P * y), 0) / np.sum((x @ P) ** 2)
        for group, A in (("signed_permutation", P), ("rigid", Q), ("similarity", scale * Q), ("linear", B)):
            found[group][test] = np.linalg.norm(xt @ A - yt, axis=1)
    rms = np.sqrt(2 * np.sum((Y - Y.mean(axis=0)) ** 2) / (len(Y) - 1))
    return {g: e / rms for g, e in found.items()}


def few_factors(seed, n, d):
    """More columns than rows, five factors behind them: least-norm maps predict well, others do not."""
    rng = np.random.default_rng([seed, 23])
    S = rng.standard_normal((n, 5))
    return tuple(S @ rng.standard_normal((5, d)) + 0.01 * rng.standard_normal((n, d)) for _ in range(2))


def rarely_active(seed):
    """Columns that vary in one to three rows only, as dead ReLU units do."""
    rng = np.random.default_rng([seed, 24])
    X = rng.standard_normal((600, 10))
    X[:, :3] = 0
    for j in range(3):
        X[rng.choice(600, 1 + j, replace=False), j] = 1 + rng.gamma(1, size=1 + j)
    return X + 0.1, X @ rng.standard_normal((10, 10)) + 0.3 * rng.standard_normal((600, 10))


HELD_OUT_CASES = {
    "ordinary": lambda s: (rows(s), noisy_copy(rows(s), s)),
    "condition 1e5": lambda s: (ill_conditioned(s), noisy_copy(ill_conditioned(s), s)),
    "more columns than rows": lambda s: few_factors(s, 60, 100),
    "fewer training rows than columns": lambda s: few_factors(s, 66, 60),
    "n barely above d": lambda s: (rows(s, n=23, d=20), noisy_copy(rows(s, n=23, d=20), s)),
    "rarely active columns": rarely_active,
}


LINEAR = {
    "default": (FOUR, ridge_by_hand),
    "paper": (("signed_permutation", "rigid", "linear"), lambda x, y: np.linalg.lstsq(x, y, rcond=None)[0]),
}


@pytest.mark.parametrize("protocol", LINEAR)
@pytest.mark.parametrize("case", HELD_OUT_CASES)
@pytest.mark.parametrize("seed", range(2))
def test_held_out_errors_equal_refitting_on_the_other_folds(case, seed, protocol):
    X, Y = HELD_OUT_CASES[case](seed)
    groups, linear = LINEAR[protocol]
    pairs = compare(X, Y, **BARE | {"groups": groups, "protocol": protocol}).pairs
    for pair, expected in zip(
        pairs, (held_out_by_hand(*both, linear, scaled=protocol == "default") for both in ((X, Y), (Y, X))), strict=True
    ):
        # Where training rows do not span all columns many rotations fit equally well, and scipy's is another one.
        spanned = case in ("ordinary", "condition 1e5")
        for group in groups if spanned else ("linear", "signed_permutation"):
            found, values = pair.rung(group).held_out, expected[group]
            # A small penalty on products of rows loses the digits that one on the rows keeps.
            rel = 1e-6 if spanned or protocol == "paper" else 1e-4
            assert found.mean == pytest.approx(values.mean(), rel=rel), group
            assert found.max == pytest.approx(values.max(), rel=rel), group
            assert found.q95 == pytest.approx(np.quantile(values, 0.95), rel=rel), group


def test_float32_rows_give_the_figures_of_float64_arithmetic():
    X = rows(1, n=3000, d=24).astype(np.float32)
    Y = noisy_copy(X, 1, amount=20.0).astype(np.float32)
    narrow, wide = compare(X, Y, **BARE).pairs[0], compare(X.astype(float), Y.astype(float), **BARE).pairs[0]
    assert (narrow.solver.error_dtype, wide.solver.error_dtype) == ("float32", "float64")
    for a, b in zip(narrow.rungs, wide.rungs, strict=True):
        for field in ("mean", "q50", "q95", "q99", "max"):
            assert getattr(a.held_out, field) == pytest.approx(getattr(b.held_out, field), rel=1e-6)
    for side in (compare(X[:, :5], Y, **BARE), compare(X, Y[:, :5], **BARE)):  # whatever the widths
        assert {pair.solver.error_dtype for pair in side.pairs} == {"float32"}
    tiny = compare(X, X + np.float32(1), **BARE).pairs[0]  # a residual of float32's rounding is measured in float64
    assert tiny.solver.error_dtype == "float64"
    assert tiny.rung("rigid").held_out.max < 1e-6


# -- recovery and rejection, through the whole of compare


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("place", range(len(LADDER)), ids=FOUR)
def test_planted_member_is_recovered_and_is_the_verdict_and_smaller_groups_do_not_fit(place, seed):
    X, rng, group = rows(seed), np.random.default_rng([seed, 31]), LADDER[place]
    planted = member_outside(group, LADDER[place - 1], 6, rng) if place else group.sample(6, rng)
    result = compare(X, planted(X), epsilon=1e-6, **BARE)
    assert result.verdict.below_epsilon == group.name
    assert result.verdict.degree == "nearly"
    assert {pair.verdict.group for pair in result.pairs} == {group.name}
    for pair in result.pairs:
        assert pair.rung(group.name).held_out.max < 1e-6
    assert min((result.pairs[0].rung(g.name).held_out.mean for g in LADDER[:place]), default=1) > 0.01


def test_a_representation_is_zero_from_itself_on_every_rung():
    X = rows(0)
    result = compare(X, X.copy(), **BARE | {"groups": (*FOUR, "ica")})
    for pair in result.pairs:
        assert [r.group for r in pair.rungs] == [*FOUR, "ica"]
        assert max(max(r.in_sample.max, r.held_out.max) for r in pair.rungs) < 1e-9
    assert result.verdict.group == "signed_permutation"
    assert "identical_inputs" in {a.code for a in result.alerts}
    assert (result.pairs[0].similarity.cca, result.pairs[0].similarity.cka) == pytest.approx((1, 1))


def test_independent_representations_are_not_called_the_same():
    result = compare(rows(0), rows(77), **BARE)
    assert result.verdict.group is None
    assert min(r.held_out.mean for r in result.rungs) > 0.5


def test_ica_resolves_a_rotation_of_independent_sources_that_a_permutation_cannot():
    rng = np.random.default_rng(5)
    S = rng.laplace(size=(4000, 5))
    a, b = (S @ np.linalg.qr(rng.standard_normal((5, 5)))[0] for _ in range(2))
    options = {"groups": (*FOUR, "ica"), "intervals": False, "neighbours": 0, "null_draws": 19}
    pair = compare(a, b, **options).pairs[0]
    assert pair.rung("ica").held_out.mean < 0.1 < pair.rung("signed_permutation").held_out.mean
    assert (pair.axes.matched, pair.axes.components) == (5, 5)
    assert pair.ica_efficiency.held_out > 0.8
    assert pair.ica_efficiency.ci95[0] <= pair.ica_efficiency.held_out <= pair.ica_efficiency.ci95[1]
    assert pair.rung("ica").null["rotation"].p == 0.05  # no draw of 19 was as good
    assert pair.rung("ica").null["rotation"].mean > 0.3
    assert pair.rung("rigid").null["rotation"] is None  # turning the axes says nothing about rigid motions


@pytest.mark.parametrize(
    ("pair", "permutation", "rigid", "ica", "printed"),
    [  # Table 1 of Nelson et al. 2026 (mean error over the diameter), as quoted by a third party: our copy lost it
        ("Pythia-160M", 0.219, 0.150, 0.202, 25),
        ("MAE", 0.197, 0.109, 0.145, 59),
        ("CheXpert", 0.218, 0.104, 0.175, 38),
        ("ResNet-18", 0.382, 0.206, 0.312, 40),
    ],
)
def test_efficiency_of_table_1_follows_from_its_own_error_columns(pair, permutation, rigid, ica, printed):
    assert round(100 * efficiency(permutation, ica, rigid)) == printed
    assert round(100 * efficiency(permutation, rigid, ica)) != printed  # the order of the columns matters
    assert efficiency(0.4, 0.5, 0.2) == pytest.approx(-0.5)
    assert efficiency(0.2, 0.1, 0.2) is None


def test_efficiency_is_of_the_rungs_in_the_papers_protocol_and_of_disjoint_rows_else():
    rng = np.random.default_rng(12)
    X = rng.standard_normal((1000, 4))
    tables = X, 0.5 * X @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
    options = BARE | {"groups": (*FOUR, "ica"), "axes": True}
    paper = compare(*tables, **options, protocol="paper").pairs[0]
    needed = ("signed_permutation", "ica", "similarity")  # the paper's rigid map has a scale
    in_sample, held_out = (
        efficiency(*(getattr(paper.rung(g), kind).mean for g in needed)) for kind in ("in_sample", "held_out")
    )
    assert (paper.ica_efficiency.in_sample, paper.ica_efficiency.held_out) == (in_sample, held_out)
    unscaled = efficiency(*(paper.rung(g).in_sample.mean for g in ("signed_permutation", "ica", "rigid")))
    assert abs(unscaled - in_sample) > 0.1  # without the scale it would be another number
    assert held_out > 0.2  # Gaussian data have no axes: both sides find the same noise of the same rows
    default = compare(*tables, **options).pairs[0]
    assert default.axes.withheld == "no_axes"
    assert default.ica_efficiency.in_sample == efficiency(*(default.rung(g).in_sample.mean for g in needed))
    assert default.ica_efficiency.held_out is None
    assert compare(*tables, **options | {"groups": FOUR}).pairs[0].ica_efficiency is None


# -- invariance


def assert_same_figures(a, b, *, rel=1e-9):
    for p, q in zip(a.pairs, b.pairs, strict=True):
        for r, s in zip(p.rungs, q.rungs, strict=True):
            for kind in ("in_sample", "held_out"):
                for field in ("mean", "q50", "q95", "q99", "max", "mean_over_diameter"):
                    x, y = getattr(getattr(r, kind), field), getattr(getattr(s, kind), field)
                    assert x == pytest.approx(y, rel=rel, abs=1e-12)
            assert r.held_out.ci95 == pytest.approx(s.held_out.ci95, rel=rel)
            assert r.r2.value == pytest.approx(s.r2.value, rel=rel)
            assert r.kept.ci95 == pytest.approx(s.kept.ci95, rel=rel)
        assert p.shared.rho == pytest.approx(q.shared.rho, rel=rel)
        assert p.neighbours.mutual.value == pytest.approx(q.neighbours.mutual.value)


@pytest.mark.parametrize("seed", range(2))
def test_rows_permuted_together_change_nothing(seed):
    X, Y = rows(seed), noisy_copy(rows(seed), seed)
    ids = np.array([f"sample-{i}" for i in range(len(X))])
    order = np.random.default_rng([seed, 41]).permutation(len(X))
    other = np.random.default_rng([seed, 42]).permutation(len(X))
    options = {"groups": FOUR, "nulls": ()}
    plain = compare(Representation(X, ids, "a"), Representation(Y, ids, "b"), **options)
    moved = compare(Representation(X[order], ids[order], "a"), Representation(Y[other], ids[other], "b"), **options)
    assert_same_figures(plain, moved)


def test_rows_permuted_together_change_nothing_even_where_many_rotations_fit():
    X, Y = few_factors(0, 60, 80)
    ids = np.arange(60)
    order = np.random.default_rng(43).permutation(60)
    plain = compare(Representation(X, ids, "a"), Representation(Y, ids, "b"), **BARE).pairs[0]
    moved = compare(Representation(X[order], ids[order], "a"), Representation(Y, ids, "b"), **BARE).pairs[0]
    for a, b in zip(plain.rungs, moved.rungs, strict=True):
        assert a.held_out.mean == pytest.approx(b.held_out.mean, rel=1e-6), a.group


@pytest.mark.parametrize(("block", "workers"), [(100, 1), (999, 3), (None, 1)])
def test_json_is_the_same_for_every_block_size_and_number_of_workers(block, workers):
    X = rows(3, n=9000, d=5)
    Y = noisy_copy(X, 3)
    options = {"null_draws": 3}
    expected = compare(Blocks(X, name="a"), Blocks(Y, name="b"), workers=2, **options)
    found = compare(Blocks(X, rows=block, name="a"), Blocks(Y, rows=block, name="b"), workers=workers, **options)
    assert without_time(found).to_json() == without_time(expected).to_json()


def test_rows_sorted_by_class_do_not_break_the_folds():
    """A half-split by position trains on one class and tests on the other; ours does not."""
    rng = np.random.default_rng(9)
    X = rng.standard_normal((1000, 4)) + 6 * np.repeat([0, 1], 500)[:, None]
    curve = np.where(np.arange(1000)[:, None] < 500, X @ np.diag([1.0, 2, 3, 4]), X @ np.diag([4.0, 3, 2, 1]))
    held_out = compare(X, curve, **BARE).pairs[0].rung("linear")
    assert held_out.held_out.mean < 1.2 * held_out.in_sample.mean
    B, *_ = np.linalg.lstsq(np.c_[X[:500], np.ones(500)], curve[:500], rcond=None)
    naive = np.linalg.norm(np.c_[X[500:], np.ones(500)] @ B - curve[500:], axis=1).mean()
    rms = np.sqrt(2 * np.sum((curve - curve.mean(axis=0)) ** 2) / 999)
    assert naive / rms > 2 * held_out.held_out.mean


# -- statistics that hold


def test_in_sample_linear_error_of_independent_gaussians_looks_good_and_held_out_does_not():
    rng = np.random.default_rng(10)
    tables = rng.standard_normal((1000, 256)), rng.standard_normal((1000, 256))
    penalised = compare(*tables, **BARE).pairs[0].rung("linear")
    assert abs(penalised.r2.value) < 0.03  # the penalty leaves nothing of it
    result = compare(*tables, **BARE | LEAST_SQUARES)
    linear = result.pairs[0].rung("linear")
    nothing = np.sqrt(0.5)  # predicting the mean, in units of the rms pairwise distance
    assert linear.in_sample.mean < 0.9 * nothing
    assert linear.held_out.mean > 1.1 * nothing
    (few,) = (alert.values for alert in result.alerts if alert.code == "few_rows")
    assert few == {"training": 800, "dimensions": 256, "per_dimension": 3.125, "needed": 3200}
    assert result.pairs[0].similarity.cka > 0.15  # biased: these share nothing
    assert abs(result.pairs[0].similarity.cka_debiased) < 0.01


@pytest.mark.parametrize(("n", "few"), [(24, {"training": 19, "needed": 26}), (25, None)])
def test_ten_training_rows_for_each_dimension_are_enough(n, few):
    X = np.random.default_rng(0).standard_normal((n, 2))  # four of five folds: 19 and 20 rows
    told = [alert.values for alert in compare(X, X[:, ::-1], **BARE).alerts if alert.code == "few_rows"]
    assert told == ([] if few is None else [{**few, "dimensions": 2, "per_dimension": 9.5}])


@pytest.mark.long
def test_shuffle_p_values_are_uniform_under_the_null():
    draws = 19
    groups = ("rigid", "linear")
    p = {g: [] for g in (*groups, "cca", "cka")}
    for seed in range(60):
        rng = np.random.default_rng([seed, 51])
        X, Y = rng.standard_t(4, (40, 3)), rng.standard_t(4, (40, 3))
        pair = compare(X, Y, groups=groups, nulls=("shuffle",), null_draws=draws, seed=seed, workers=1, **PLAIN).pairs[
            0
        ]
        for g in groups:
            p[g].append(pair.rung(g).null["shuffle"].p)
        for s in ("cca", "cka"):
            p[s].append(pair.similarity.null[s].p)
    for name, values in p.items():
        counts = np.bincount(np.rint(np.array(values) * (draws + 1)).astype(int) - 1, minlength=draws + 1)
        assert scipy.stats.chisquare(counts).pvalue > 0.001, name


def test_shuffle_p_value_is_small_when_the_rows_are_linked():
    X = rows(4, n=60, d=3)
    pair = compare(X, noisy_copy(X, 4), nulls=("shuffle",), null_draws=99, **PLAIN).pairs[0]
    assert all(r.null["shuffle"].p == 0.01 for r in pair.rungs if r.group != "signed_permutation")
    assert pair.similarity.null["cca"].p == 0.01


@pytest.mark.long
def test_interval_covers_the_true_held_out_mean():
    """Truth: the average held-out mean of 80 other data sets drawn from the same law."""
    mixing = np.random.default_rng(61).standard_normal((4, 4))

    def draw(seed):
        rng = np.random.default_rng([seed, 62])
        X = rng.laplace(size=(250, 4))
        return X, X @ mixing + rng.standard_t(6, (250, 4)) * np.abs(X[:, :1])

    groups = ("rigid", "linear")
    options = {"groups": groups, "nulls": (), "axes": False, "neighbours": 0, "workers": 1}
    others = [compare(*draw(s), **options, intervals=False).pairs[0] for s in range(1000, 1080)]
    found = [compare(*draw(s), **options).pairs[0] for s in range(60)]
    for group in groups:
        truth = np.mean([pair.rung(group).held_out.mean for pair in others])
        intervals = [pair.rung(group).held_out.ci95 for pair in found]
        assert np.mean([low <= truth <= high for low, high in intervals]) >= 0.88  # once in 100 times it is less
        assert np.mean([low <= 1.2 * truth <= high for low, high in intervals]) < 0.5  # not by being wide


def test_intervals_that_ignore_groups_are_too_narrow():
    rng = np.random.default_rng(63)
    plates = np.repeat(np.arange(40), 25)
    X = rng.standard_normal((1000, 3))
    Y = X + rng.standard_normal((40, 3))[plates] * rng.gamma(1, size=40)[plates][:, None]
    options = {"groups": ("rigid",), "nulls": (), "axes": False, "neighbours": 0}
    by_row = compare(X, Y, **options).rungs[0].held_out.ci95
    by_plate = compare(X, Y, group_by=plates, **options).rungs[0].held_out.ci95
    assert by_plate[1] - by_plate[0] > 2 * (by_row[1] - by_row[0])


# -- widths, three models, sources


def test_a_narrow_third_model_does_not_change_how_two_wide_ones_compare():
    X = rows(0)
    Y = LADDER[1].sample(6, np.random.default_rng(74))(X) + 0.1 * rows(3)
    alone = compare(X, Y, **BARE).pairs[0]
    beside = compare(X, Y, rows(5, d=3), **BARE).pairs[0]
    assert beside.verdict == alone.verdict
    assert beside.rungs == alone.rungs


def test_tables_of_different_widths_are_compared_in_all_their_columns():
    rng = np.random.default_rng(75)
    X = rng.standard_normal((800, 3)) * [4, 2, 1]
    wide = np.c_[X, 1e-3 * rng.standard_normal((800, 2))] @ np.linalg.qr(rng.standard_normal((5, 5)))[0]
    result = compare(X, wide, **BARE)
    pair, back = result.pairs
    assert "different_widths" not in {a.code for a in result.alerts}
    assert (pair.width, sorted(len(s.variances) for s in result.spectra)) == (3, [3, 5])
    assert (
        pair.rung("signed_permutation").r2.value < 0.9
    )  # the principal axes of the wide table are X's, its columns are not
    for direction in (pair, back):
        assert direction.verdict.group == "rigid"
        assert direction.rung("rigid").held_out.q95 < 0.01
        assert (direction.kept_source, direction.kept_target) == (1, 1)
    lost = compare(X, np.c_[X[:, 1:], rng.standard_normal((800, 4))], **BARE).pairs[0]
    assert lost.rung("linear").r2.value < 0.6
    assert (lost.shared.strong, lost.shared.possible) == (2, 3)


@pytest.mark.parametrize("widths", [(3, 2, 2), (2, 3, 2), (2, 2, 3)])
def test_models_of_different_widths_have_a_consensus_in_the_fewest_dimensions(widths):
    result = compare(*(rows(0, d=3)[:, :d] for d in widths), **BARE)
    assert (result.consensus.width, result.consensus.converged) == (2, True)
    assert [a.values["dimensions"] for a in result.alerts if a.code == "different_widths"] == [3]


def test_three_models_give_all_ordered_pairs_a_matrix_and_a_consensus():
    X = rows(0)
    turn = LADDER[1].sample(6, np.random.default_rng(72))
    result = compare(X, turn(X), rows(99), **BARE)
    assert [(p.source, p.target) for p in result.pairs] == [
        ("a", "b"), ("b", "a"), ("a", "c"), ("c", "a"), ("b", "c"), ("c", "b"),
    ]  # fmt: skip
    rigid = next(m for m in result.matrices if m.group == "rigid")
    assert rigid.values[0][1] < 1e-9 < 0.3 < rigid.values[0][2]
    assert [rigid.values[i][i] for i in range(3)] == [0, 0, 0]
    distance = {d.name: d.mean for d in result.consensus.distances}
    assert distance["c"] > 1.2 * distance["a"]
    assert result.consensus.converged


def test_verdict_of_several_models_is_the_weakest_of_all_pairs():
    X = rows(0)
    result = compare(X, X[:, ::-1], LADDER[1].sample(6, np.random.default_rng(76))(X), **BARE)
    assert result.pairs[0].verdict.group == "signed_permutation"
    assert result.verdict.group == "rigid"
    assert compare(X, X, rows(7), **BARE).verdict.group is None


def test_verdict_on_unrelated_rows_says_that_chance_does_as_well():
    result = compare(rows(0, n=80), rows(50, n=80), null_draws=19, **PLAIN)
    assert (result.verdict.degree, result.verdict.form.state, result.verdict.group) == ("none", "none", None)
    linked = compare(rows(0, n=80), noisy_copy(rows(0, n=80), 0, 3.0), null_draws=19, **PLAIN)
    assert linked.verdict.group is None
    assert linked.verdict.degree not in ("none", "nearly")


def test_rotation_null_of_a_permutation_is_not_fooled_by_a_rotated_copy_or_a_scale():
    rng = np.random.default_rng(77)
    X = rng.standard_normal((400, 6)) * [1, 2, 3, 4, 5, 6]
    options = {"groups": ("signed_permutation",), "nulls": ("rotation",), "null_draws": 19, **PLAIN}
    turned = [compare(X, X @ np.linalg.qr(rng.standard_normal((6, 6)))[0], **options) for _ in range(10)]
    assert np.mean([r.rungs[0].null["rotation"].p for r in turned]) > 0.2  # like any other rotation
    assert compare(X, 1.5 * X[:, ::-1], **options).rungs[0].null["rotation"].p == 0.05  # these axes are special


def test_rotation_null_is_that_of_axes_turned_at_random():
    rng = np.random.default_rng(31)
    X = rng.laplace(size=(600, 3)) * [1, 2, 3]
    Y = X + 10  # the sides have different means
    options = BARE | {"nulls": ("rotation",), "null_draws": 60, "groups": ("signed_permutation",), "protocol": "paper"}
    found, back = (pair.rung("signed_permutation").null["rotation"] for pair in compare(X, Y, **options).pairs)
    x, drawn = X - X.mean(axis=0), []
    for _ in range(60):
        turned = x @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
        r = np.corrcoef(turned.T, x.T)[:3, 3:]
        i, j = scipy.optimize.linear_sum_assignment(-np.abs(r))
        guess = np.empty_like(x)
        guess[:, j] = turned[:, i] * np.sign(r[i, j])
        drawn.append(np.linalg.norm(guess - x, axis=1).mean())
    drawn = np.array(drawn) / np.sqrt(2 * np.sum(x**2) / (len(x) - 1))
    assert found.mean == pytest.approx(drawn.mean(), abs=5 * drawn.std() * np.sqrt(2 / 60) + 0.01)
    assert found.observed == pytest.approx(0, abs=1e-6)
    assert back.mean == pytest.approx(found.mean)  # a permutation keeps lengths


def test_a_wide_model_enters_the_consensus_by_its_leading_directions():
    rng = np.random.default_rng(32)
    X = rng.standard_normal((300, 2)) * [3, 2]
    wide = np.c_[X, 0.01 * rng.standard_normal((300, 2))] @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
    result = compare(X, wide, X[:, ::-1], **BARE)
    assert max(d.mean for d in result.consensus.distances) < 0.01
    narrowed = {a.code: a.values for a in result.alerts}["different_widths"]
    assert (narrowed["dimensions"], narrowed["width"]) == (4, 2)
    assert narrowed["share"] == pytest.approx(1, abs=1e-3)


def test_structural_recovers_sources_up_to_order_and_sign():
    rng = np.random.default_rng(73)
    U = rng.laplace(size=(500, 3))
    result = structural(-U[:, [1, 2, 0]], U, **BARE)
    assert result.verdict.group == "signed_permutation"
    assert [(p.source, p.target) for p in result.pairs] == [("representation", "sources")]
    assert structural(np.sinh(U) @ rng.standard_normal((3, 3)), U, **BARE).verdict.group is None
    wide = structural(np.c_[rng.standard_normal((500, 2)), -U[:, [1, 2, 0]]], U, **BARE)
    assert wide.verdict.group == "signed_permutation"
    with pytest.raises(UsageError, match="3 and 6"):
        structural(rows(0, d=3), rows(0))


def test_too_few_groups_for_intervals_are_an_alert():
    options = {"groups": ("rigid",), "nulls": (), "axes": False, "neighbours": 0}
    few = compare(rows(0), rows(1), group_by=np.arange(400) % 6, **options)
    assert next(a.values for a in few.alerts if a.code == "too_few_groups") == {"groups": 6, "least": 20}
    assert few.rungs[0].held_out.ci95 is few.rungs[0].r2.ci95 is None
    many = compare(rows(0), rows(1), folds=150, **options)
    assert [a.values for a in many.alerts if a.code == "too_few_groups"] == [{"rows": 400, "folds": 150, "least": 600}]
    plain = compare(rows(0), rows(1), **options)
    assert "too_few_groups" not in {a.code for a in plain.alerts}
    assert plain.rungs[0].r2.ci95 is not None


# -- bad input, each with its message


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiny_and_huge_scales_are_compared_like_any_other(scale, dtype):
    tables = rows(0), noisy_copy(rows(0), 0)
    plain, scaled = (compare(*both, **BARE).pairs[0] for both in (tables, [(Z * scale).astype(dtype) for Z in tables]))
    assert scaled.rung("linear").held_out.mean == pytest.approx(plain.rung("linear").held_out.mean, rel=1e-5)


HOLES = [np.nan, np.inf, -np.inf]


def with_holes(n, places, values):
    X = rows(0, n=n, d=6)
    X[places, 1] = values
    return X


REFUSED = {
    "holes": (
        DataError,
        r"^b: .* 3 .* in 3 rows .* 3, 7, 9\b",
        lambda: [rows(0), with_holes(400, [3, 7, 9], HOLES)],
        {},
    ),
    "beyond the first chunk": (DataError, r"\b8888\b", lambda: [rows(0, n=9000), with_holes(9000, [8888], np.nan)], {}),
    "overflow": (DataError, r"^b: .*float64", lambda: [rows(0), rows(0) * 1e200], {}),
    "all rows equal": (DataError, r"^b: ", lambda: [rows(0), np.full((400, 6), 0.1)], {}),
    "alone": (UsageError, r"got 1", lambda: [rows(0)], {}),
    "lengths": (PairingError, r"a: 400, b: 399", lambda: [rows(0), rows(0)[1:]], {}),
    "labels": (PairingError, r"400 rows of a, .*\(3,\)", lambda: [rows(0), rows(1)], {"group_by": np.zeros(3)}),
    "masked": (DataError, r"^b: masked", lambda: [rows(0), np.ma.masked_less(rows(1), 0)], {}),
    "ragged": (DataError, r"^a: ", lambda: [[[1.0], [2.0, 3.0]], rows(0)], {}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_tables_that_cannot_be_compared_are_refused_by_name(case):
    error, parts, tables, options = REFUSED[case]
    with pytest.raises(error, match=parts):
        compare(*tables(), **BARE, **options)


def test_the_row_of_a_hole_is_that_of_its_file():
    ids, bad = np.arange(9000), with_holes(9000, [8888], np.nan)
    with pytest.raises(DataError, match=r"\b111\b"):
        compare(Representation(rows(0, n=9000), ids, "a"), Representation(bad[::-1], ids[::-1], "b"), **BARE)


def test_a_transposed_table_is_an_alert_or_an_error_that_asks():
    X = rows(0, n=40, d=60)
    assert "more_columns_than_rows" in {a.code for a in compare(X, X + 1, **BARE).alerts}
    for tall in (X.T, X[:, :40]):
        assert "more_columns_than_rows" not in {a.code for a in compare(tall, tall + 1, **BARE).alerts}
    huge = np.broadcast_to(np.float32(1.0), (20, 200_000))
    with pytest.raises(DataError, match=naming("200000 columns", "20 rows", "swapped")):
        compare(huge, huge, **BARE)


def test_more_folds_than_rows_allow_say_both():
    with pytest.raises(DataError, match=naming("400 rows", "300 folds")):
        compare(rows(0), rows(1), folds=300)


# -- the result


def test_paper_protocol_judges_by_the_in_sample_figure_over_the_diameter():
    X = rows(0)
    Y = noisy_copy(X, 0, amount=1.0)
    three = BARE | {"groups": ("signed_permutation", "rigid", "linear")}
    default = compare(X, Y, epsilon=0.05, **three)
    paper = compare(X, Y, epsilon=0.05, protocol="paper", **three)
    assert default.rungs[1].held_out == paper.rungs[1].held_out  # the figures are the same; the headline is not
    assert default.verdict.below_epsilon is None
    assert paper.verdict.below_epsilon == "linear"
    assert "in_sample_headline" in {a.code for a in paper.alerts}


def test_mean_over_diameter_is_the_mean_error_over_the_largest_distance():
    from scipy.spatial.distance import pdist

    X, Y = rows(0), noisy_copy(rows(0), 0)
    pair = compare(X, Y, **BARE).pairs[0]
    assert pair.scale.diameter == pytest.approx(pdist(Y).max(), rel=1e-12)
    assert pair.scale.rms == pytest.approx(np.sqrt(np.mean(pdist(Y) ** 2)), rel=1e-12)
    for rung in pair.rungs:
        assert rung.in_sample.mean_over_diameter * pair.scale.diameter == pytest.approx(
            rung.in_sample.mean * pair.scale.rms
        )


def test_content_hash_is_of_the_values_not_of_the_container():
    X = rows(0)
    one, two, three = compare(X, np.asfortranarray(X), X.astype(">f8"), **BARE).inputs
    assert one.sha256 == two.sha256 == three.sha256
    changed = X.copy()
    changed[5, 2] += 1e-9
    result = compare(X, changed, **BARE)
    assert result.inputs[1].sha256 != one.sha256
    assert result.provenance.version == identifiable.__version__


def test_worst_rows_are_named_by_id_and_are_the_worst():
    X = rows(0)
    ids = np.array([f"cell-{i}" for i in range(len(X))])
    Y = X.copy()
    Y[17] += 50
    pair = compare(Representation(X, ids, "a"), Representation(Y, ids, "b"), **BARE).pairs[0]
    assert pair.worst[0].row == "cell-17"
    assert [w.error for w in pair.worst] == sorted((w.error for w in pair.worst), reverse=True)


@pytest.mark.parametrize("seed", range(12))
def test_the_penalty_is_that_of_generalised_cross_validation_on_the_rows(seed):
    """Of few rows, where the degree of freedom of the mean counts."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((9, 5)), rng.standard_normal((9, 2))
    Y += 0.7 * X[:, :2]
    x, y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    matrix, penalty = Ridge.of(Moments.of(X)).fit(x.T @ y, float((y**2).sum()))
    top = np.linalg.eigvalsh(x.T @ x)[-1]
    errors = []
    for candidate in PENALTIES * top:
        hat = x @ np.linalg.solve(x.T @ x + candidate * np.eye(5), x.T)
        errors.append(((y - hat @ y) ** 2).sum() / (1 - np.trace(hat) / 8) ** 2)
    best = int(np.argmin(errors))
    assert penalty == pytest.approx(PENALTIES[best] * top if best else 0.0, rel=1e-9)
    expected = np.linalg.solve(x.T @ x + PENALTIES[best] * top * np.eye(5), x.T @ y)
    np.testing.assert_allclose(matrix, expected, rtol=1e-6, atol=1e-9)


# Units of single columns


def in_small_units(X, scale):
    return X * np.r_[scale, np.ones(X.shape[1] - 1)]


@pytest.mark.parametrize("scale", [1e-5, 1e-7, 1e-10, 1e-15, 1e9])
def test_the_units_of_a_column_cost_no_direction(scale):
    X = np.random.default_rng(3).standard_normal((300, 3))
    Y = X @ np.random.default_rng(4).standard_normal((3, 3))
    found = compare(in_small_units(X, scale), Y, nulls="shuffle", null_draws=19, **PLAIN)
    pair = found.pairs[0]
    assert pair.rung("linear").r2.value == pytest.approx(1, abs=1e-6)
    assert (pair.verdict.degree, pair.shared.strong) == ("nearly", 3)
    assert pair.rung("linear").null["shuffle"].observed < 1e-4 < 0.5 < pair.rung("linear").null["shuffle"].mean
    told = [alert.values["name"] for alert in found.alerts if alert.code == "unequal_units"]
    assert told == (["a"] if scale != 1e-5 else [])
    back = found.pairs[1].rung("linear").r2.value
    assert back == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("scale", [1e-7, 1e-15])
def test_a_penalty_and_its_intervals_do_not_depend_on_how_small_the_units_are(scale):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, 20))
    Y = X @ rng.standard_normal((20, 4)) + 4 * rng.standard_normal((60, 4))
    unit, small = (
        compare(in_small_units(X, s), Y, nulls=(), **PLAIN | {"intervals": True}).pairs[0].rung("linear")
        for s in (1, scale)
    )
    assert unit.r2.value == pytest.approx(
        small.r2.value, abs=0.02
    )  # penalised in columns of one spread, which X nearly has
    np.testing.assert_allclose(small.r2.ci95, unit.r2.ci95, atol=0.05)
    assert unit.r2.value > 0.25


def test_a_column_that_others_determine_is_still_left_out():
    X = rows(3, n=300, d=3)
    Y = X @ np.random.default_rng(4).standard_normal((3, 3)) + 0.3 * rows(6, n=300, d=3)
    whole, more = (compare(table, Y, nulls=(), **PLAIN) for table in (X, np.column_stack([X, X[:, 0] + X[:, 1]])))
    assert {"rank_deficient", "unequal_units"} & {alert.code for alert in more.alerts} == {"rank_deficient"}
    assert more.pairs[0].solver.rank_source == 3
    assert more.pairs[0].rung("linear").r2.value == pytest.approx(whole.pairs[0].rung("linear").r2.value, abs=1e-3)
