"""What the answer must not claim: cases found by a reviewer, each false before."""

from dataclasses import replace

import numpy as np
import pytest

import identifiable
from identifiable.identifiability import shared
from identifiable.identifiability.agreement import SHAPES, Agreement
from identifiable.identifiability.judgement import (
    degree_of,
    efficiency,
    efficiency_of,
    form_of,
    gate_group,
    group_below,
    ruled_out_below,
    scale_state,
)
from identifiable.identifiability.ladder import COLUMNS, FORWARD
from identifiable.identifiability.nulls import NullResults, shuffled_rows
from identifiable.results import Efficiency, Errors, Form, Rung, SharedDimensions

BARE = {"nulls": (), "axes": False, "neighbours": 0}


def rotation(d, rng):
    return np.linalg.qr(rng.standard_normal((d, d)))[0]


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def first(X, Y, **options):
    return identifiable.compare(X, Y, **(BARE | options)).pairs[0]


def test_few_draws_do_not_deny_an_agreement(rng):
    X = rng.standard_normal((300, 5))
    pair = first(X, X @ rotation(5, rng) + 0.3 * rng.standard_normal(X.shape), nulls=("shuffle",), null_draws=9)
    assert pair.verdict.degree == "largely"


def test_a_stretch_along_axes_is_no_similarity(rng):
    X = rng.standard_normal((2000, 8))
    pair = first(X, X * np.linspace(0.55, 1.45, 8) + 0.02 * rng.standard_normal(X.shape))
    assert pair.verdict.form.state == "borderline"
    assert pair.verdict.form.beyond == "linear"
    assert pair.verdict.group == "linear"


def test_shared_dimensions_are_counted_within_the_rank(rng):
    B = rng.standard_normal((400, 4))
    D = np.hstack([B, B, B[:, :2]])
    shared = first(D, D.copy()).shared
    assert (shared.strong, shared.possible) == (4, 4)


def test_nothing_is_counted_where_chance_reaches_everything(rng):
    A = rng.standard_normal((500, 3))
    group = np.repeat(np.arange(5), 100)
    pair = first(A, A @ rotation(3, rng) + 0.2 * rng.standard_normal(A.shape), group_by=group)
    if pair.shared.withheld:
        assert pair.shared.strong == 0
    assert pair.verdict.group is None
    assert pair.verdict.form.state != "clear"


def test_rows_that_do_not_span_the_columns_rule_no_rotation_out(rng):
    A = rng.standard_normal((40, 60))
    form = first(A, A @ rotation(60, rng)).verdict.form
    assert (form.group, form.state) != ("linear", "clear")


def test_withheld_intervals_leave_the_form_open_and_the_gate_closed(rng):
    X = rng.standard_normal((16, 3))
    pair = first(X, X @ rotation(3, rng) + 0.05 * rng.standard_normal(X.shape))
    assert pair.rung("linear").r2.ci95 is None
    assert pair.verdict.form.state == "borderline"


def test_units_move_neither_errors_of_a_permutation_nor_labels(rng):
    X = rng.standard_normal((600, 5))
    X[500:] *= 3
    Y = X[:, [2, 0, 1, 4, 3]] + 0.1 * rng.standard_normal(X.shape)
    labels = ["near"] * 500 + ["far"] * 100
    one, three = (first(X, s * Y, labels=labels) for s in (1, 3))
    for group in ("signed_permutation", "similarity", "linear"):
        assert one.rung(group).held_out.mean == pytest.approx(three.rung(group).held_out.mean)
    assert [g.label for g in one.moved] == [g.label for g in three.moved]
    assert one.verdict.group == three.verdict.group


def test_a_gate_takes_the_next_group_where_the_smallest_explains_too_little(rng):
    A = rng.standard_normal((400, 5))
    B = (A @ rotation(5, rng) + 0.3 * rng.standard_normal(A.shape)) * 1.05
    groups = [p.verdict.group for p in identifiable.compare(A, B, **BARE).pairs]
    assert None not in groups


def test_chance_is_judged_by_a_linear_map_that_nobody_asked_for(rng):
    pair = first(*rng.standard_normal((2, 300, 4)), groups=["rigid"], nulls=("shuffle",))
    assert pair.verdict.degree == "none"


def test_one_giant_group_withholds_intervals(rng):
    X = rng.standard_normal((624, 3))
    group = np.r_[np.zeros(600), np.arange(1, 25)]
    pair = first(X, X + 0.1 * rng.standard_normal(X.shape), group_by=group)
    assert pair.rung("linear").r2.ci95 is None


def test_more_neighbours_than_rows_are_cut(rng):
    pair = first(*rng.standard_normal((2, 20, 2)), neighbours=50)
    assert pair.neighbours.k == 9
    assert pair.neighbours.mutual.value < 0.9


def test_what_rules_a_group_out_rises_with_r2_up_to_a_limit():
    assert [ruled_out_below(r2) for r2 in (0.0, 0.5, 0.7, 1.0)] == pytest.approx([0.48, 0.78, 0.90, 0.90])


@pytest.mark.parametrize(("scale", "r2"), [(2.0, 0.0), (2.0, -1.0), (np.inf, 0.9), (np.nan, 0.9), (0.0, 0.9)])
def test_a_scale_that_cannot_be_told_is_unknown_and_others_are_not(scale, r2):
    assert scale_state(scale, r2) == "unknown"
    assert (scale_state(2.0, 0.9), scale_state(0.5, 0.9), scale_state(1.0, 0.8)) == ("other", "other", "one")
    assert scale_state(1.0, 0.79) == "unknown"


def agreement(forward, backward, spread=None):
    """Of every shape, R² in both directions; with draws that far from it, twice."""
    r2 = np.array([forward, backward], np.float64).T
    draws = np.zeros((0, *r2.shape)) if spread is None else np.stack([r2 - spread, r2 + spread])
    return Agreement(r2, draws)


def test_the_smallest_group_that_keeps_what_a_linear_map_explains_is_the_form():
    low, high = 0.1, 0.95
    by_shape = {
        "signed_permutation": [high] * len(SHAPES),
        "similarity": [high if SHAPES.index(s) >= SHAPES.index("similarity") else low for s in SHAPES],
        "linear": [high if s == "linear" else low for s in SHAPES],
    }
    for group, r2 in by_shape.items():
        for spread in (None, 1e-6):
            form = form_of(agreement(r2, r2, spread), 1.0, chance=False)
            assert (form.group, form.state, form.beyond, form.scale_state) == (group, "clear", None, "one")
        unsure = form_of(agreement(r2, r2), 1.0, chance=False, sure=False)
        assert (unsure.state, unsure.beyond) == ("borderline", "linear")
    unseen = form_of(agreement(by_shape["linear"], by_shape["linear"]), 1.0, chance=False, seen=False)
    assert (unseen.group, unseen.state) == ("signed_permutation", "borderline")
    turned = form_of(agreement(by_shape["similarity"], by_shape["similarity"]), 1.0, chance=False, seen=False)
    assert (turned.group, turned.state, turned.beyond) == ("signed_permutation", "borderline", "similarity")
    nothing = Form(None, "none", None, 3.0, "unknown")
    assert form_of(agreement(by_shape["similarity"], by_shape["similarity"]), 3.0, chance=True) == nothing
    assert form_of(agreement([0.0] * len(SHAPES), [-0.1] * len(SHAPES)), 3.0, chance=False) == nothing
    # a direction in which nothing is explained says nothing
    forward = form_of(agreement(by_shape["similarity"], [-0.2] * len(SHAPES)), 2.0, chance=False)
    assert (forward.group, forward.state, forward.scale_state) == ("similarity", "clear", "other")


def test_what_is_not_asked_for_is_empty_and_says_so(rng):
    X = rng.standard_normal((100, 3))
    pair = first(X, X @ rotation(3, rng), axes=False)
    assert (pair.axes.components, pair.axes.rows_needed, pair.axes.withheld) == (3, 0, "not_asked")


@pytest.mark.parametrize(("rows", "known"), [(20, {"rows": 20}), (200, {})])
def test_columns_beyond_the_rows_are_told_from_columns_that_repeat(rng, rows, known):
    X = np.hstack([base := rng.standard_normal((rows, 12 if rows > 100 else 30)), base[:, :2]])
    span = min(rows - 1, 12 if rows > 100 else 30)
    alerts = identifiable.compare(X, rng.standard_normal((rows, 3)), **BARE).alerts
    (alert,) = (alert for alert in alerts if alert.code == "rank_deficient")
    assert alert.values == {"name": "a", "columns": X.shape[1], "span": span, **known}


def test_a_constant_column_does_not_stop_the_null_of_turned_axes(rng):
    X = rng.standard_normal((120, 3))
    Y = X @ rotation(3, rng)
    Y[:, 1] = 0
    rung = first(X, Y, nulls=("rotation",), null_draws=9).rung("signed_permutation")
    assert np.isfinite(rung.null["rotation"].mean)
    assert rung.null["rotation"].draws == 9


def test_p_values_count_draws_that_are_as_good_and_no_draws_say_nothing():
    columns = max(COLUMNS.values()) + 1
    draws = np.tile([[1.0], [2.0], [4.0]], (1, columns))
    found = NullResults(np.full(columns, 2.0), {"rotation": draws}, np.array([0.5, 0.9]), np.array([[0.5, 0.1]]), 77)
    null = found.rung("rotation", "signed_permutation", FORWARD, 2.0)
    assert (null.mean, null.p, null.observed, null.draws, null.rows) == (pytest.approx(7 / 6), 3 / 4, 1.0, 3, 77)
    assert found.rung("rotation", "linear", FORWARD, 1.0) is found.rung("shuffle", "linear", FORWARD, 1.0) is None
    assert {name: null.p for name, null in found.similarity().items()} == {"cca": 1.0, "cka": 0.5}
    assert replace(found, similarity_draws=np.zeros((0, 2))).similarity() == {}


def rung(group, in_sample, held_out):
    """A rung whose errors differ by kind: q95 is twice the mean, and over the diameter it is half."""
    sides = (Errors(e, e, 2 * e, 3 * e, 4 * e, e / 2) for e in (in_sample, held_out))
    return Rung(group, *sides, {})


def test_a_verdict_takes_the_smallest_group_below_epsilon_by_the_figure_of_its_protocol():
    rungs = [
        rung("signed_permutation", 0.8, 0.9),
        rung("ica", 0.0, 0.0),
        rung("similarity", 0.2, 0.4),
        rung("linear", 0.1, 0.1),
    ]
    assert group_below(rungs, 1.0, "default") == "similarity"
    assert group_below(rungs, 0.8, "default") == group_below(rungs, 0.3, "default") == "linear"
    assert group_below(rungs, 2.0, "default") == "signed_permutation"
    assert group_below(rungs, 0.2, "default") is None
    assert (group_below(rungs, 0.3, "paper"), group_below(rungs, 0.41, "paper")) == ("similarity", "signed_permutation")


def test_an_efficiency_needs_all_three_rungs_and_a_way_to_go():
    rungs = [rung("signed_permutation", 0.8, 0.9), rung("ica", 0.5, 0.7), rung("similarity", 0.2, 0.4)]
    apart = Efficiency(None, 0.3, (0.1, 0.5))
    assert efficiency_of(rungs, apart, "default") == Efficiency(pytest.approx(0.5), 0.3, (0.1, 0.5))
    assert efficiency_of(rungs, None, "default") == Efficiency(pytest.approx(0.5), None)
    assert efficiency_of(rungs, apart, "paper") == Efficiency(pytest.approx(0.5), pytest.approx(0.4))
    for left_out in range(3):
        assert efficiency_of(rungs[:left_out] + rungs[left_out + 1 :], apart, "paper") is apart
    assert efficiency(1.0, 0.9, 0.991) is None
    assert efficiency(1.0, 0.9, 0.98) == pytest.approx(5)


def test_a_gate_opens_for_a_certain_group_that_explains_enough_of_what_is_shared():
    r2 = [0.5, 0.91, 0.93, 0.95]  # of signed permutations, rigid motions, similarities and linear maps
    found = agreement(r2, [0.1, 0.2, 0.89, 0.96])
    shared = SharedDimensions(10, 9, 1, 0.1, 0.9, 0.9, ())
    similar = Form("similarity", "clear", None, 1.0, "one")

    def gate(form=similar, direction=0, asked=SHAPES, shared=shared):
        return gate_group(found, form, shared, direction, asked)

    assert gate() == "rigid"
    assert gate(form=replace(similar, scale_state="other")) == gate(asked=("similarity", "linear")) == "similarity"
    assert gate(direction=1) == "linear"
    assert gate(form=replace(similar, group="signed_permutation")) == "rigid"
    assert gate(form=Form("similarity", "borderline", "linear", 1.0, "one")) == "linear"
    assert gate(form=Form(None, "none", None, 1.0, "unknown")) is gate(shared=replace(shared, strong=8)) is None
    assert gate(asked=("signed_permutation",)) is gate(direction=1, asked=("similarity",)) is None


@pytest.mark.parametrize(
    ("r2", "degree"), [(0.95, "nearly"), (0.94, "largely"), (0.8, "largely"), (0.5, "partly"), (0.49, "little")]
)
def test_degrees_begin_at_their_limits_and_chance_has_none(r2, degree):
    form = Form("linear", "clear", None, 1.0, "one")
    assert degree_of(r2, form) == degree
    assert degree_of(r2, replace(form, state="none")) == "none"


@pytest.mark.parametrize("groups", [None, [0, 0, 0, 1, 1, 2, 2, 2, 2, 3]])
def test_groups_are_paired_whole_and_single_rows_are_permuted(groups):
    group = None if groups is None else np.array(groups)
    rows = [shuffled_rows(10, group, seed) for seed in range(20)]
    if group is None:
        assert all(sorted(each) == list(range(10)) for each in rows)
        assert len({tuple(each) for each in rows}) == 20
        return
    for each in rows:
        met = [set(group[each[group == name]]) for name in range(4)]
        assert all(len(other) == 1 for other in met)
        assert set.union(*met) == {0, 1, 2, 3}
        own = [len(set(each[group == name])) for name in range(4)]
        sizes = np.bincount(group)
        assert own == [min(sizes[name], sizes[next(iter(met[name]))]) for name in range(4)]
    assert any(each[0] != 0 for each in rows)


def test_one_direction_less_than_the_rows_allow_is_no_lack_of_rows(rng):
    X = rng.standard_normal((20, 18)) @ rng.standard_normal((18, 30))
    alerts = identifiable.compare(X, rng.standard_normal((20, 3)), **BARE).alerts
    (alert,) = (alert for alert in alerts if alert.code == "rank_deficient")
    assert alert.values == {"name": "a", "columns": 30, "span": 18}


def test_ica_that_has_converged_gives_no_alert(rng, monkeypatch):
    X, Y = (rng.laplace(size=(1500, 3)) @ rng.standard_normal((3, 3)) for _ in range(2))
    ask = BARE | {"groups": ("rigid", "ica")}
    assert "ica_not_converged" not in [alert.code for alert in identifiable.compare(X, Y, **ask).alerts]


TESTED = {"nulls": ("shuffle",), "intervals": True}


@pytest.mark.parametrize("seed", [13, 38, 41, 44])
def test_unrelated_tables_that_beat_every_shuffle_by_chance_do_not_agree(seed):
    X, Y = np.random.default_rng([seed, 77]).standard_normal((2, 300, 6))
    pairs = identifiable.compare(X, Y, **(BARE | TESTED)).pairs
    assert min(pair.rung("linear").null["shuffle"].p for pair in pairs) == 0.05  # one of twenty does
    assert {pair.verdict.degree for pair in pairs} == {"none"}


@pytest.mark.parametrize("dimensions", [6, 1])
def test_a_weak_agreement_in_all_dimensions_or_a_tiny_one_in_one_of_them_is_not_chance(rng, dimensions):
    X, Y = rng.standard_normal((2, 1500, 6))
    if dimensions == 6:
        Y += 0.25 * X @ rotation(6, rng)
    else:
        Y[:, 0] = 1e-3 * X[:, 0]  # one shared dimension without variance: R² cannot be told from 0
    pair = first(X, Y, **TESTED)
    assert pair.shared.strong + pair.shared.partly == (0 if dimensions == 6 else 1)
    assert pair.verdict.degree == "little"


def test_neighbours_agree_where_no_line_does_and_not_where_rows_are_unrelated(rng):
    angle = rng.uniform(0, 2 * np.pi, 600)
    once, twice = (np.column_stack([np.cos(k * angle), np.sin(k * angle)]) for k in (1, 2))
    linked = first(once, twice, **TESTED, neighbours=10)
    assert linked.verdict.degree == "none"
    assert linked.neighbours.agree
    unrelated = [first(once, twice[rng.permutation(600)], **TESTED, neighbours=10) for _ in range(5)]
    assert [pair.neighbours.agree for pair in unrelated] == [False] * 5
    assert not first(once, twice, neighbours=10).neighbours.agree  # without shuffles nothing says what chance gives


def test_where_both_directions_explain_next_to_nothing_the_better_one_gives_the_form():
    same = [0.04] * len(SHAPES)
    other = [0.02 if shape == "linear" else 0.0 for shape in SHAPES]
    for found in (agreement(same, other), agreement(other, same)):
        assert form_of(found, 1.0, chance=False).group == "signed_permutation"


def test_constant_columns_of_a_table_are_counted_in_an_alert_of_it(rng):
    X = np.hstack([rng.standard_normal((60, 2)), np.ones((60, 2))])
    alerts = identifiable.compare(X, rng.standard_normal((60, 3)), **BARE, intervals=False).alerts
    (alert,) = (alert for alert in alerts if alert.code == "constant_columns")
    assert alert.values == {"name": "a", "constant": 2, "columns": 4}


def test_chance_that_just_reaches_a_strong_dimension_withholds_nothing(rng, monkeypatch):
    monkeypatch.setattr(shared, "_chance", lambda *_: shared.STRONG)
    monkeypatch.setattr(shared, "expected_chance", lambda *_: shared.STRONG)
    X = rng.standard_normal((60, 2))
    found = first(X, X.copy(), intervals=False).shared
    assert (found.withheld, found.strong, found.chance) == (False, 2, shared.STRONG)


def test_the_precision_of_errors_is_that_which_the_map_of_all_rows_needs(rng):
    X, Y = rng.standard_normal((2, 20, 30)).astype(np.float32)  # what fits all of 20 rows leaves nothing of them
    pair = first(X, Y, groups=("linear",), protocol="paper", intervals=False)
    assert pair.solver.error_dtype == "float64"
    assert pair.rung("linear").in_sample.mean < 1e-13
