"""Which components of a screen are technical and which are biology: shares, effects, roles."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from builders import make_card
from deconfounding.short_calls import assign_roles, attribute
from errors import naming
from identifiable import resolve
from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.deconfounding.components import attributing
from identifiable.deconfounding.components.resolving import ReproducibleRank
from identifiable.deconfounding.components.shares import (
    Questions,
    moderated_p,
    perturbation_effects,
    pooled_p,
    scores,
    shares,
)
from identifiable.deconfounding.components.variance import POSITION, RIDGE, SLAB, Plates, Positions, between_plates
from identifiable.deconfounding.design import Design, Labels
from identifiable.deconfounding.intervals import jackknife
from identifiable.groups import AffineMap
from identifiable.ica import Resolved
from identifiable.results import without_time
from identifiable.results.serial import from_json
from identifiable.worlds.cell_world import cells

PLATES, CONTROLS, PERTURBATIONS, ROWS, COLUMNS = 16, 10, 12, 6, 8


def plain_design(rng, *, plates=PLATES, batches=None, locked=False, wells=2, places=True) -> Design:
    """Plates with 10 controls and 12 perturbations on two wells each, anywhere on a grid of 6 x 8 or each at its own place."""
    labels = np.array(["control"] * CONTROLS + [f"drug{k:02d}" for k in range(PERTURBATIONS)] * wells)
    size = len(labels)
    place = [np.arange(size) if locked else rng.permutation(ROWS * COLUMNS)[:size] for _ in range(plates)]
    if locked:  # controls over the whole plate, so that they say what position does
        kept = rng.permutation(ROWS * COLUMNS)[: size - CONTROLS]
        place = [np.r_[rng.permutation(np.setdiff1d(np.arange(48), kept))[:CONTROLS], kept] for _ in range(plates)]
    address = np.concatenate(place)
    plate = np.repeat(np.arange(plates), size)
    names = np.tile(labels, plates)
    return Design(
        plate=Labels.of(np.char.add("p", np.char.zfill(plate.astype(str), 2))),
        perturbation=Labels.of(names),
        control=names == "control",
        batch=None if batches is None else Labels.of((plate % batches).astype(str)),
        row=address // COLUMNS if places else None,
        column=address % COLUMNS if places else None,
        name="plain",
    )


def as_components(X) -> tuple[Resolved, Blocks]:
    """Columns, standardised, passed off as the components themselves."""
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    d = X.shape[1]
    result = resolve(X, stability=0, restarts=1).result
    return Resolved(AffineMap.identity(d), AffineMap.identity(d), result), Blocks(X, name="plain")


def questions_of(design: Design) -> Questions:
    return Questions.of(design, rng=np.random.default_rng(0))


def slab(X):
    return [np.ascontiguousarray(X, np.float32)]


# -- shares


def test_noise_has_no_share_on_average_where_eta_squared_has_one():
    rng = np.random.default_rng(1)
    design = plain_design(rng)
    noise = rng.standard_normal((design.n, SLAB))
    found = scores(slab(noise), questions_of(design), errors=False)
    assert abs(found.technical.mean()) < 0.02
    assert abs(found.biological.mean()) < 0.005
    controls = noise[design.control]
    means = np.array([controls[design.plate.codes[design.control] == p].mean(axis=0) for p in range(PLATES)])
    assert (
        np.mean(means.var(axis=0) / controls.var(axis=0)) > 0.08
    )  # the share that an in-sample estimate would have given


def test_plate_variance_is_the_mean_over_all_halvings_of_each_plates_controls():
    rng = np.random.default_rng(2)
    wells = rng.standard_normal((3, 4)) + rng.standard_normal((3, 1))  # 3 plates of 4
    halvings = [
        np.mean([plate[list(half)].mean() * plate[[k for k in range(4) if k not in half]].mean() for plate in wells])
        for half in combinations(range(4), 2)
    ]
    apart = np.mean([a.mean() * b.mean() for a, b in combinations(wells, 2)])
    found = between_plates(wells.sum(axis=1)[:, None], (wells**2).sum(keepdims=True)[0], np.full(3, 4.0), None)
    assert found.plate[0] == pytest.approx(np.mean(halvings) - apart, abs=1e-12)


def test_shares_of_batch_and_plate_are_the_variances_put_in():
    rng = np.random.default_rng(3)
    design = plain_design(rng, plates=60, batches=30)
    batch, plate = rng.standard_normal((30, SLAB)), rng.standard_normal((60, SLAB))
    X = np.sqrt(2) * batch[design.batch.codes] + plate[design.plate.codes] + rng.standard_normal((design.n, SLAB))
    found = shares(slab(X), questions_of(design), permutations=20, seed=0, run=lambda f, k: [f(i) for i in k]).observed
    assert found["batch"].mean() == pytest.approx(0.5, abs=0.04)
    assert found["plate_in_batch"].mean() == pytest.approx(0.25, abs=0.03)
    assert found["plate"].mean() == pytest.approx(0.75, abs=0.03)
    assert abs(found["row"].mean()) < 0.01
    assert abs(found["perturbation"].mean()) < 0.01


def test_positions_are_told_from_plates_and_from_each_other():
    rng = np.random.default_rng(4)
    design = plain_design(rng, plates=40)
    noise = rng.standard_normal((design.n, 3)) * 0.5
    row, column = np.array([2, -1, 0, 1, 0, -2.0]), np.linspace(-1.5, 1.5, COLUMNS)
    X = np.stack([row[design.row], column[design.column], 2.0 * design.edge], axis=1) + noise
    found = shares(slab(X), questions_of(design), permutations=20, seed=0, run=lambda f, k: [f(i) for i in k]).observed
    assert found["row"][0] > 0.7 > 0.1 > found["column"][0]
    assert found["column"][1] > 0.7 > 0.1 > found["row"][1]
    assert found["edge"][2] > 0.7
    assert np.all(np.abs(found["plate"]) < 0.1)


def test_cell_count_counts_on_controls_only():
    rng = np.random.default_rng(5)
    design = plain_design(rng)
    count = np.exp(5 + 0.3 * rng.standard_normal(design.n))
    killed = ~design.control & (design.perturbation.codes == 3)
    count[killed] /= 10
    design = Design(design.plate, design.perturbation, design.control, cell_count=count)
    follows, biology = np.log(count), 3.0 * killed + rng.standard_normal(design.n)
    X = np.stack([follows + 0.1 * rng.standard_normal(design.n), biology], axis=1)
    found = shares(slab(X), questions_of(design), permutations=20, seed=0, run=lambda f, k: [f(i) for i in k]).observed
    assert found["cell_count"][0] > 0.8
    assert abs(found["cell_count"][1]) < 0.05  # although cell count and axis go together over all wells
    assert abs(np.corrcoef(np.log(count), biology)[0, 1]) > 0.3


def test_replicated_share_is_what_other_plates_predict():
    rng = np.random.default_rng(6)
    design = plain_design(rng, plates=5, places=False)
    X = rng.standard_normal((design.n, 2)) + rng.standard_normal((PERTURBATIONS + 1, 2))[design.perturbation.codes]
    plate, codes = design.plate.codes, design.perturbation.codes
    centre = np.array([X[design.control & (plate == p)].mean(axis=0) for p in range(5)])
    away = X - centre[plate]
    total = np.zeros(2)
    for i in np.flatnonzero(~design.control):
        others = (codes == codes[i]) & (plate != plate[i])
        total += away[i] * away[others].mean(axis=0)
    found = scores(slab(X), questions_of(design), errors=False).biological
    assert found == pytest.approx(total / design.n / X.var(axis=0), rel=1e-4)


def test_an_effect_that_differs_from_plate_to_plate_is_no_biology():
    rng = np.random.default_rng(7)
    design = plain_design(rng, plates=24)
    own = rng.standard_normal((24, PERTURBATIONS + 1, SLAB))[design.plate.codes, design.perturbation.codes]
    own[design.control] = rng.standard_normal((int(design.control.sum()), SLAB))
    found = scores(slab(own), questions_of(design), errors=False).biological
    assert abs(found.mean()) < 0.02  # although the two wells of a perturbation on a plate are alike
    steady = rng.standard_normal((PERTURBATIONS + 1, SLAB))[design.perturbation.codes]
    assert scores(slab(own + steady), questions_of(design), errors=False).biological.mean() > 0.2


def test_position_does_not_pass_for_biology_where_each_perturbation_has_its_place():
    rng = np.random.default_rng(8)
    gradient = np.linspace(-2, 2, ROWS)
    for locked in (False, True):
        design = plain_design(rng, plates=24, locked=locked)
        X = gradient[design.row][:, None] + 0.3 * rng.standard_normal((design.n, 4))
        found = scores(slab(X), questions_of(design), errors=False)
        assert np.all(found.technical > 0.8)
        assert np.all(found.biological < 0.1)
    blind = Design(design.plate, design.perturbation, design.control)  # nobody says where wells lie
    assert np.all(scores(slab(X), questions_of(blind), errors=False).biological > 0.25)


def test_controls_in_one_column_do_not_make_every_perturbation_look_active():
    rng = np.random.default_rng(9)
    design = plain_design(rng, plates=24)
    column = np.where(design.control, 0, 1 + design.column % (COLUMNS - 1))
    design = Design(design.plate, design.perturbation, design.control, row=design.row, column=column)
    X = 2.0 * (column == 0)[:, None] + rng.standard_normal((design.n, 8))
    found = questions_of(design)
    assert found.plates.uncovered == {"columns": (1, 8)}
    assert np.all(np.abs(scores(slab(X), found, errors=False).biological) < 0.03)
    anywhere = plain_design(rng, plates=24)
    X = 2.0 * anywhere.control[:, None] + rng.standard_normal((anywhere.n, 8))  # an effect all perturbations have
    assert np.all(scores(slab(X), questions_of(anywhere), errors=False).biological > 0.2)


def test_few_perturbations_on_a_plate_do_not_hide_their_effect_where_controls_lie_in_one_column():
    rng = np.random.default_rng(9)
    plates, drugs = 24, 6
    drug = np.repeat(np.arange(plates) % drugs, 8)  # one drug on each plate
    control = np.tile(np.arange(8) < 4, plates)
    names = np.where(control, "control", np.char.add("drug", drug.astype(str)))
    column = np.where(control, 0, 1 + np.tile(np.arange(8), plates) % 4)
    plate = np.repeat(np.arange(plates), 8)
    design = Design(Labels.of(plate), Labels.of(names), control, row=np.zeros(len(plate), np.intp), column=column)
    X = rng.standard_normal((len(plate), 8))
    found = questions_of(design)
    assert found.plates.uncovered
    assert np.all(np.abs(scores(slab(X), found, errors=False).biological) < 0.15)
    shift = 2.0 * rng.standard_normal((drugs, 8))[drug] * ~control[:, None]
    assert np.median(scores(slab(X + shift), found, errors=False).biological) > 0.4


def test_a_stain_that_only_changes_the_spread_of_a_plate_shows_as_spread():
    rng = np.random.default_rng(10)
    design = plain_design(rng, plates=30)
    stain = np.exp(0.8 * rng.standard_normal(30))
    noise = rng.standard_exponential((design.n, SLAB)) - 1  # skewed: distances from plate means go together by chance
    noise[:, 0] *= stain[design.plate.codes]
    drawn = shares(slab(noise), questions_of(design), permutations=40, seed=0, run=lambda f, k: [f(i) for i in k])
    p = pooled_p(drawn.observed["spread"], drawn.null["spread"])
    assert drawn.observed["spread"][0] > 0.1
    assert p[0] < 0.01
    assert abs(drawn.observed["spread"][1:].mean()) < 0.01
    assert np.mean(p[1:] < 0.05) <= 0.16


def test_permutation_p_values_of_noise_are_spread_evenly():
    rng = np.random.default_rng(11)
    design = plain_design(rng, batches=4)
    X = rng.standard_t(4, (design.n, SLAB))
    drawn = shares(slab(X), questions_of(design), permutations=40, seed=0, run=lambda f, k: [f(i) for i in k])
    for factor, observed in drawn.observed.items():
        p = pooled_p(observed, drawn.null[factor])
        assert np.mean(p < 0.05) <= 0.16, factor  # 64 axes: 0.05 and four standard errors
        assert 0.35 < p.mean() < 0.65, factor


def test_jackknife_intervals_cover_the_share_of_plates():
    rng = np.random.default_rng(17)
    design = plain_design(rng, plates=40)
    X = rng.standard_normal((40, SLAB))[design.plate.codes] + rng.standard_normal((design.n, SLAB))
    found = scores(slab(X), questions_of(design))
    low, high = jackknife(found.technical, found.technical_without)
    assert np.mean((low <= 0.5) & (high >= 0.5)) >= 0.85  # at 95 %, 64 axes
    assert np.mean(high - low) < 0.5


# -- effects


def test_moderated_t_is_calibrated_and_borrows_strength():
    rng = np.random.default_rng(13)
    X = rng.standard_normal((2000, 3))  # three plates: two degrees of freedom
    mean, variance = X.mean(axis=1)[:, None], X.var(axis=1, ddof=1)[:, None]
    p = moderated_p(mean, variance, np.full(2000, 3.0))[:, 0]
    assert 0.03 < np.mean(p < 0.05) < 0.07
    shifted = moderated_p(mean + 3, variance, np.full(2000, 3.0))[:, 0]
    assert np.mean(shifted < 1e-4) > 0.8
    assert np.mean(ttest_1samp(X + 3, 0, axis=1).pvalue < 1e-4) < 0.1
    alone = rng.standard_normal((3, 6)) + 0.5  # nobody to borrow from: the plain one
    found = moderated_p(alone.mean(axis=1)[:, None], alone.var(axis=1, ddof=1)[:, None], np.full(3, 6.0))
    assert found[:, 0] == pytest.approx(ttest_1samp(alone, 0, axis=1).pvalue)


def test_moderated_t_tells_noisy_perturbations_from_quiet_ones():
    rng = np.random.default_rng(14)
    spread = np.sqrt(8 / rng.chisquare(8, 3000))  # variances as limma has them, 8 degrees of freedom
    X = spread[:, None] * rng.standard_normal((3000, 4))
    p = moderated_p(X.mean(axis=1)[:, None], X.var(axis=1, ddof=1)[:, None], np.full(3000, 4.0))[:, 0]
    assert np.mean(p < 0.001) < 0.003
    pooled = np.abs(X.mean(axis=1)) / np.sqrt(X.var(axis=1, ddof=1).mean() / 4)
    assert np.mean(pooled > 3.29) > 0.003  # what one variance for all would have given


def test_effects_name_what_moves_an_axis_and_nothing_else():
    rng = np.random.default_rng(15)
    design = plain_design(rng)
    X = rng.standard_normal((design.n, 3)) + 5.0 * rng.standard_normal((PLATES, 1))[design.plate.codes]
    X[design.perturbation.text() == "drug07", 1] -= 9.0
    found = perturbation_effects(slab(X), questions_of(design).replicates)
    q = found.q()
    first = found.top(1, q, 3)[0]
    assert first.name == "drug07"
    assert first.q < 1e-4
    assert first.wells == 2 * PLATES
    assert first.effect == pytest.approx(-9.0 / X[:, 1].std(), abs=0.2)
    assert np.sum(q < 0.05) == 1


# -- cards


def world(seed: int, **knobs):
    made = cells("small", seed=seed, **knobs)
    return made, assign_roles(made.metadata, name="simulated").design


def test_nothing_is_biological_in_a_world_without_biology_even_if_treatments_keep_their_wells():
    made, design = world(0, no_biology=True, layout="fixed", query=16, query_genes=16)
    result = attribute(resolve(made.X, stability=0, restarts=1), Blocks(made.X), design, permutations=30)
    assert len(result.of_role("biological", "both")) <= 1
    assert len(result.of_role("technical")) >= 10
    assert result.biology_ci95[0] < 0


def mixed(seed=16, plates=PLATES, **knobs):
    """Four axes: plate, perturbation, both, neither."""
    rng = np.random.default_rng(seed)
    design = plain_design(rng, plates=plates, **knobs)
    plate, effect = rng.standard_normal((plates, 4)), 1.5 * rng.standard_normal((PERTURBATIONS + 1, 4))
    effect[0] = 0  # controls
    has = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], float)
    X = plate[design.plate.codes] * has[:, 0] + effect[design.perturbation.codes] * has[:, 1]
    return X + rng.laplace(size=(design.n, 4)) * 0.7, design


def test_roles_say_what_was_put_in():
    X, design = mixed()
    found, blocks = as_components(X)
    result = attribute(found, blocks, design, permutations=40)
    assert [card.role for card in result.components] == ["technical", "biological", "both", "neither"]
    card = result.components[1]
    assert card.biological_ci95[0] < card.biological < card.biological_ci95[1]
    assert len(card.top) == 10
    assert card.top[0].q < 0.01 < result.components[3].top[0].q
    assert {share.factor for share in card.shares} == {"plate", "row", "column", "edge", "perturbation", "spread"}


def test_components_that_refits_do_not_find_again_have_scores_and_no_card():
    X, design = mixed()
    found, blocks = as_components(X)
    known = [replace(c, stability=0.99, identifiable=c.index == 1) for c in found.result.components]
    found = replace(found, result=replace(found.result, components=tuple(known)))
    result = attribute(found, blocks, design, permutations=20, elsewhere=ReproducibleRank(2, 1))
    assert result.refused == (0, 2, 3)
    assert [bool(card.top) for card in result.components] == [False, True, False, False]
    assert [bool(card.plate_map) for card in result.components] == [False, True, False, False]
    assert result.components[0].role == "technical"  # which clean needs
    assert (result.reproducible_rank, result.reproducible_there) == (2, 1)
    (remark,) = result.told.remarks
    assert (remark.code, remark.values["refused"], remark.values["rank"]) == ("cards_refused", 3, 2)
    untried = attribute(*as_components(X), design, permutations=20)
    assert (untried.refused, untried.told.remarks) == ((), ())  # nobody has tried to find them again
    assert all(card.top for card in untried.components)


@pytest.mark.parametrize(
    ("stability", "identifiable", "codes", "kept"),
    [
        (None, (None, None, None), ["roles"], 3),  # nobody has tried to find them again
        (0.99, (True, True, True), ["roles"], 3),
        (0.99, (True, False, True), ["roles", "cards_refused"], 2),
        (0.99, (False, False, False), ["none_reproducible", "cards_refused"], 0),
    ],
)
def test_only_components_that_are_found_again_are_said_to_have_a_role(stability, identifiable, codes, kept):
    cards = [
        make_card(k, role, stability=stability, identifiable=again)
        for k, (role, again) in enumerate(zip(("technical", "biological", "technical"), identifiable, strict=True))
    ]
    told = attributing._answer(cards, ReproducibleRank(2, 1))
    assert [told.code, *(remark.code for remark in told.remarks)] == codes
    assert told.values["components"] == 3
    roles = {"technical": 2, "biological": 1 if kept == 3 else 0, "both": 0, "neither": 0}
    assert {name: told.values.get(name) for name in roles} == (roles if kept else dict.fromkeys(roles))
    assert told.values.get("reproducible") == (kept if kept in (1, 2) else None)
    for remark in told.remarks:
        assert remark.values == {"refused": 3 - kept, "components": 3, "rank": 2, "reproducible": 1}


def test_a_plate_map_shows_wells_with_plate_means_taken_out():
    X, design = mixed()
    X[:, 3] = 10.0 * design.plate.codes + design.row
    found, blocks = as_components(X)
    result = attribute(found, blocks, design, permutations=20)
    shown = np.array(result.components[3].plate_map) * X[:, 3].std()
    assert shown.shape == (len(result.grid_rows), len(result.grid_columns)) == (ROWS, COLUMNS)
    assert result.grid_rows[0] == "A"
    assert np.nanmean(shown, axis=1) == pytest.approx(np.arange(ROWS) - 2.5, abs=0.3)
    unused = Design(design.plate, design.perturbation, design.control, row=design.row, column=2 * design.column)
    assert np.isnan(attribute(found, blocks, unused, permutations=20).components[0].plate_map[0][1])


def test_results_depend_on_neither_threads_nor_blocks_and_are_read_back():
    X, design = mixed(batches=4)
    found, blocks = as_components(X)
    one = attribute(found, blocks, design, permutations=20, workers=1)
    two = attribute(found, Blocks(blocks.source, rows=37, name="plain"), design, permutations=20, workers=2)
    assert without_time(one).to_json() == without_time(two).to_json()
    assert from_json(one.to_json()).to_json() == one.to_json()
    other = attribute(found, blocks, design, permutations=20, seed=1)
    assert without_time(other).to_json() != without_time(one).to_json()


def codes_of(found, blocks, design):
    return {alert.code for alert in attribute(found, blocks, design, permutations=20).alerts}


def test_without_replicates_nothing_is_called_biological_and_few_controls_are_said():
    X, design = mixed()
    bare = Design(design.plate, design.perturbation, np.zeros(design.n, bool))
    assert "few_controls" in codes_of(*as_components(X), bare)
    assert "few_controls" not in codes_of(*as_components(X), design)
    once = np.where(design.control, "control", np.char.add("drug", np.arange(design.n).astype(str)))
    single = Design(design.plate, Labels.of(once), design.control)
    found, blocks = as_components(X)
    result = attribute(found, blocks, single, permutations=20)
    assert [card.role for card in result.components] == ["technical", "neither", "technical", "neither"]
    assert np.isnan(result.components[1].biological)
    assert result.components[1].top == ()
    assert "no_replicates" in codes_of(found, blocks, single)


def alerts_of(design: Design) -> dict[str, dict]:
    return {alert.code: dict(alert.values) for alert in attributing._alerts(questions_of(design))}


@pytest.mark.parametrize(
    ("at", "covered"),
    [
        (lambda k: (k % ROWS, k // ROWS), ["2 of 8 columns"]),
        (lambda k: (k // COLUMNS, k % COLUMNS), ["2 of 6 rows"]),
        (lambda k: (k // 5, k % 5), ["2 of 6 rows"]),
        (lambda k: (k % 3, k % 4), []),  # half of the rows, and of the columns
    ],
)
def test_controls_in_less_than_half_of_the_rows_or_columns_are_an_alert(at, covered):
    design = plain_design(np.random.default_rng(40))
    row, column = design.row.copy(), design.column.copy()
    for p in range(PLATES):
        controls = np.flatnonzero(design.control & (design.plate.codes == p))
        row[controls], column[controls] = at(np.arange(CONTROLS))
    found = alerts_of(replace(design, row=row, column=column))
    assert ("controls_in_few_places" in found) == bool(covered)
    assert found.get("controls_in_few_places", {}).get("covered", []) == covered
    assert "controls_in_few_places" not in alerts_of(replace(design, row=None, column=None))


def test_treated_wells_without_a_replicate_elsewhere_or_a_control_are_counted():
    design = plain_design(np.random.default_rng(41))
    treated = PLATES * PERTURBATIONS * 2
    first = design.plate.codes == 0
    names = design.perturbation.text()
    alone = replace(design, perturbation=Labels.of(np.where(first & (names == "drug03"), "alone", names)))
    assert alerts_of(alone)["not_replicated"] == {"name": "plain", "wells": 2, "treated": treated}
    bare = design.take(~(first & design.control))  # a plate without controls
    assert alerts_of(bare)["not_replicated"] == {"name": "plain", "wells": 2 * PERTURBATIONS, "treated": treated}
    assert "not_replicated" not in alerts_of(design)
    once = np.where(design.control, "control", np.char.add("drug", np.arange(design.n).astype(str)))
    none = alerts_of(replace(design, perturbation=Labels.of(once)))  # said as a whole, not as a count
    assert "no_replicates" in none
    assert "not_replicated" not in none


def test_what_cannot_be_attributed_is_refused_with_a_reason():
    X, design = mixed()
    found, blocks = as_components(X)
    one = design.plate.codes == 0
    with pytest.raises(DataError, match=naming("2 plates", 1)):
        attribute(found, Blocks(X[one]), design.take(one))
    with pytest.raises(DataError, match=naming(100, 544)):
        attribute(found, Blocks(X[:100]), design)
    with pytest.raises(DataError, match=naming("4 columns", 3)):
        attribute(found, Blocks(X[:, :3]), design)
    with pytest.raises(UsageError, match=naming("permutations 5: ", 20)):
        attribute(found, blocks, design, permutations=5)
    with pytest.raises(UsageError, match=naming("fdr 1.5: ", 1)):
        attribute(found, blocks, design, fdr=1.5)
    with pytest.raises(UsageError, match=naming("top -1: ", 0)):
        attribute(found, blocks, design, top=-1)
    X[[7, 9], 2] = np.nan
    with pytest.raises(DataError, match=naming("2 rows", ": 7, 9)")):
        attribute(found, Blocks(X, name="holes"), design)


# few plates


def test_a_part_left_out_takes_no_part_in_what_position_explains():
    rng = np.random.default_rng(0)
    plates = Plates.of(plain_design(rng, plates=3, wells=1), rng=rng)
    places = Positions.of(plates)
    values = rng.standard_normal((len(plates.reference), 2)).astype(np.float32)
    values -= plates.means(values)
    part, levels = plates.part[plates.codes], places.factors[POSITION]
    found = places.explained(places.products(values), [POSITION], left_out=0)[POSITION]
    X, total = places.features[:, levels].astype(float), 0.0
    for judged, other in ((1, 2), (2, 1)):
        a, b = part == other, part == judged
        weights = np.linalg.solve(X[a].T @ X[a] + RIDGE * np.eye(len(levels)), X[a].T @ values[a])
        total += ((X[b] @ weights) * values[b]).sum(axis=0)
    np.testing.assert_allclose(found, total / (part != 0).sum(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("plates", [2, 3, 4])
def test_few_plates_of_few_wells_are_attributed(plates):
    rng = np.random.default_rng(1)
    design = layout_of_rows(plates)
    X = rng.standard_normal((design.n, 4)) + rng.standard_normal((plates, 4))[design.plate.codes]
    cards = attribute(*as_components(X), design).components
    assert len(cards) == 4
    assert all(np.isfinite(share.share) for card in cards for share in card.shares if share.factor == POSITION)


def layout_of_rows(plates: int) -> Design:
    """Plates with 8 controls and 12 perturbations in two rows, anew on each: some columns of a plate hold no control."""
    rng = np.random.default_rng(0)
    names = np.concatenate(
        [rng.permutation(["control"] * 8 + [f"drug{k:02d}" for k in range(12)]) for _ in range(plates)]
    )
    well = np.tile(np.arange(20), plates)
    plate = np.repeat([f"p{k}" for k in range(plates)], 20)
    return Design(Labels.of(plate), Labels.of(names), names == "control", row=well // 12, column=well % 12, name="few")
