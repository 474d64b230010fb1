"""evaluate(): what it finds in worlds with a known answer, what it shares, keeps and refuses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.naive_bayes import GaussianNB

from deconfounding.short_calls import evaluate, says
from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.deconfounding.checkpoint import Checkpoint
from identifiable.deconfounding.design import Design, Labels
from identifiable.deconfounding.evaluation.classifiers import LightGBM, Ridge
from identifiable.deconfounding.evaluation.concluding import Components
from identifiable.deconfounding.evaluation.representing import Transforms
from identifiable.deconfounding.folds import cross_validation
from identifiable.groups import AffineMap
from identifiable.results import ConditionScore, ScreenEvaluation
from identifiable.run import Run

TREES = LightGBM(rounds=25)
FAST: dict[str, Any] = {
    "classifiers": (TREES, "ridge"),
    "rotations": 1,
    "null_guides": 1,
    "bootstrap": 200,
    "min_wells": 10,
}


def world(
    *,
    plates: int = 30,
    controls: int = 10,
    wells: int = 3,
    effect: float = 0.7,
    latents: str = "heavy-tailed",
    locked: bool = False,
    seed: int = 0,
    d: int = 6,
) -> tuple[Blocks, Design]:
    """Independent latents, mixed; "active" shifts one of them, "idle" none; a plate effect on two others.

    `locked` wells of "active" are always in one column of the plate, and another latent follows the column.
    """
    rng = np.random.default_rng([seed, 99])
    treatment = np.tile(np.repeat(["empty", "active", "idle"], [controls, wells, wells]), plates)
    n, per_plate = len(treatment), controls + 2 * wells
    plate = np.repeat(np.arange(plates), per_plate)
    place = np.concatenate([np.arange(per_plate) if locked else rng.permutation(per_plate) for _ in range(plates)])
    S = rng.standard_normal((n, d))
    if latents == "heavy-tailed":
        S = S * np.abs(S) / np.sqrt(3)
    S[treatment == "active", 0] += effect
    S[:, 1] += 0.5 * rng.standard_normal(plates)[plate]
    if locked:
        S[:, 2] += 2.0 * ((place >= controls) & (place < controls + wells))
    mixing = np.random.default_rng(5).standard_normal((d, d))
    design = Design(
        Labels.of(np.char.add("p", plate.astype(str))),
        Labels.of(treatment),
        treatment == "empty",
        batch=Labels.of(np.char.add("b", (plate // 6).astype(str))),
        row=place // 4,
        column=place % 4,
        name="a world",
    )
    return Blocks(S @ mixing + 3.0, name="a world"), design


@pytest.fixture(scope="module")
def found() -> ScreenEvaluation:
    large = world(plates=40, controls=20, d=8)
    return evaluate(*large, **{**FAST, "rotations": 2, "concentration": (50.0,)})


def condition(result: ScreenEvaluation, *which: str, **more: str) -> ConditionScore:
    found = result.condition(*which, **more)
    assert found is not None, (which, more)
    return found


def same(result: ScreenEvaluation) -> str:
    """A result without what differs between equal runs: the clock."""
    return replace(result, times=(), provenance=replace(result.provenance, time="")).to_json()


# -- what it finds


def test_trees_gain_by_ica_where_latents_are_independent_and_one_of_them_moves(found: ScreenEvaluation) -> None:
    gain = found.difference("ica", "pca", "active", classifier="lightgbm")
    assert gain is not None
    assert gain.ci95[0] > 0
    assert found.verdict == "ica-helps"
    assert found.advice.answer == "yes"
    idle, active = (condition(found, "ica", "lightgbm", name) for name in ("idle", "active"))
    assert idle.ci95[0] < 0.5 < idle.ci95[1]
    assert active.excess_ci95[0] > 0
    assert idle.excess_ci95[0] < 0


def small_screen(names: list[str], place: Any, effect: Mapping[str, float], plates: int = 12) -> tuple[Blocks, Design]:
    """Laplace columns; on every plate a row for each name, where `place` (plate, name, rng) puts it on a grid 12 wide."""
    rng = np.random.default_rng(7)
    wells = np.concatenate([place(names, rng) for _ in range(plates)])
    labels = np.tile(names, plates)
    X = rng.laplace(size=(len(labels), 4))
    X[:, 0] += [effect.get(name, 0.0) for name in labels]
    plate = np.repeat([f"p{k:02d}" for k in range(plates)], len(names))
    design = Design(
        Labels.of(plate), Labels.of(labels), labels == "empty", row=wells // 12, column=wells % 12, name="small"
    )
    return Blocks(X, name="small"), design


def anywhere(names: list[str], rng: np.random.Generator) -> NDArray[Any]:
    return rng.permutation(96)[: len(names)]


def locked_to_the_first_row(*locked: str) -> Any:
    """Some perturbations always in one well of the first row, where nothing else is."""

    def place(names: list[str], rng: np.random.Generator) -> NDArray[Any]:
        free = 12 + rng.permutation(84)[: len(names)]
        return np.array([2 * locked.index(n) + 1 if n in locked else w for n, w in zip(names, free, strict=True)])

    return place


SMALL: dict[str, Any] = {**FAST, "classifiers": ("lightgbm", "ridge"), "representations": ("pca", "ica")}


def remarks(result: ScreenEvaluation) -> dict[str, Mapping[str, Any]]:
    """What is said beside the verdict, by code."""
    return {said.code: said.values for said in result.told.remarks}


TRIPLE = ["empty"] * 4 + ["a", "b", "c"]


def test_a_small_locked_screen_is_confounded_though_the_papers_trees_cannot_split() -> None:
    locked = small_screen(TRIPLE, locked_to_the_first_row("a", "b", "c"), {})
    paper = evaluate(*locked, **SMALL, protocol="paper")
    trees = condition(paper, "pca", "lightgbm")
    assert (trees.auroc, trees.n_splits) == (0.5, 0)
    assert math.isnan(trees.ci95[0])  # a width of zero would seem certain
    assert (paper.verdict, paper.judged_by) == ("layout-confounded", "ridge")
    ours = evaluate(*locked, **SMALL)
    assert (ours.verdict, ours.judged_by) == ("layout-confounded", "lightgbm")
    for classifier in ("lightgbm", "ridge"):  # places are scored by the classifiers of representations
        assert condition(ours, "position", classifier).auroc > 0.99
    assert condition(ours, "pca", "lightgbm").n_splits > 0


def test_the_linear_probe_judges_where_trees_make_no_split_and_trees_where_leaves_are_small_enough() -> None:
    shifted = small_screen(TRIPLE, anywhere, {"a": 3.0, "b": 3.0, "c": 3.0})
    options = {**SMALL, "targets": ["a"], "null_guides": 0}
    paper = evaluate(*shifted, **options, protocol="paper")
    assert (paper.verdict, paper.judged_by) == ("separable", "ridge")
    assert paper.told.values["best"] == condition(paper, "pca", "ridge").auroc
    assert remarks(paper)["trees_unsplit"] == {"unsplit": 10, "models": 10}
    assert "no_splits" in [a.code for a in paper.alerts]
    alone = evaluate(*shifted, **{**options, "classifiers": ("lightgbm",)}, protocol="paper")
    assert (alone.verdict, alone.told.code) == ("undecided", "mostly_unsplit")
    ours = evaluate(*shifted, **options)
    assert ours.judged_by == "lightgbm"
    assert "trees_unsplit" not in remarks(ours)
    for protocol in ("default", "paper"):  # and finds nothing where there is nothing
        nothing = evaluate(*small_screen(TRIPLE, anywhere, {}), **{**options, "targets": None}, protocol=protocol)
        assert nothing.verdict == "nothing-to-find"
    assert condition(ours, "position").ci95[0] < 0.5


def test_scores_that_all_draws_agree_on_have_the_interval_of_chance_and_differences_of_them_none() -> None:
    perfect = small_screen(TRIPLE, anywhere, {"a": 99.0, "b": 99.0, "c": 99.0})
    result = evaluate(*perfect, **{**SMALL, "classifiers": ("ridge",), "null_guides": 0})
    score = condition(result, "pca", "ridge")
    assert score.auroc == 1
    assert 0.5 < score.ci95[0] < 0.95
    assert {a.code: a.values for a in result.alerts}["draws_agree"]["scores"] > 0
    gain = result.difference("ica", "pca")
    assert gain is not None
    assert (gain.difference, math.isnan(gain.ci95[0])) == (0, True)
    assert result.verdict == "separable"
    assert all(c.ci95[0] < c.ci95[1] or math.isnan(c.ci95[0]) for c in (*result.conditions, *result.differences))
    noisy = evaluate(*small_screen(TRIPLE, anywhere, {"a": 1.0}), **{**SMALL, "classifiers": ("ridge",)})
    assert "draws_agree" not in [a.code for a in noisy.alerts]


def test_the_headline_says_how_many_were_judged_and_small_screens_need_fewer_wells() -> None:
    names = ["empty"] * 6 + ["a", "a", "b", "c"]
    small = small_screen(names, anywhere, {"a": 9.0}, plates=8)  # 16, 8 and 8 wells
    options = {"classifiers": ("ridge",), "representations": ("base",), "null_guides": 0, "bootstrap": 50}
    every = evaluate(*small, **options)
    assert (len(every.targets), every.of, every.settings["min_wells"]) == (3, 3, 8)
    assert remarks(every)["coverage"] == {"judged": 3, "of": 3, "level": "perturbation", "wells": 8}
    assert {a.code: a.values for a in every.alerts}["min_wells_adapted"]["wells"] == 8
    one = evaluate(*small, **options, min_wells=16)
    assert (one.targets, remarks(one)["coverage"]["judged"], remarks(one)["coverage"]["of"]) == (("a",), 1, 3)
    assert "min_wells_adapted" not in [a.code for a in one.alerts]
    with pytest.raises(DataError, match=r"20 wells; .*'a', has 16"):
        evaluate(*small, **options, protocol="paper")
    first = evaluate(*small, **options, max_targets=1)
    assert remarks(first)["coverage"]["enough"] == 3


def test_ica_is_not_fitted_to_fewer_rows_than_it_asks_for_unless_the_paper_does() -> None:
    blocks, design = world(plates=6)  # 96 rows
    wide = Blocks(np.random.default_rng(3).laplace(size=(96, 12)), name="wide")
    options = {**FAST, "targets": ["active"], "rotations": 1, "corrections": ("ica-cs",), "null_guides": 0, "folds": 3}
    found = evaluate(wide, design, **options)
    told = {a.code: a.values for a in found.alerts}["ica_not_fitted"]
    assert (told["components"], told["least"], told["rank"]) == (12, 10, told["rows"] // 10)
    assert {s.representation for s in found.scores} == {"base", "pca", "position"}  # all plates are of one batch
    for name in ("ica", "ica-cs"):
        assert math.isnan(condition(found, name).auroc)
        assert condition(found, name).skipped
    assert (found.advice.answer, found.advice.sentence.code) == ("no", "ica_not_fitted")
    assert "ica" not in {f.representation for f in found.fitted}
    paper = evaluate(wide, design, **options, protocol="paper")
    enough = evaluate(blocks, design, **options)  # six columns
    for fitted in (paper, enough):
        assert "ica_not_fitted" not in [a.code for a in fitted.alerts]
        assert condition(fitted, "ica").auroc > 0


def test_a_quick_look_scores_base_and_pca_by_a_linear_probe_and_neighbours_and_never_judges_ica() -> None:
    result = evaluate(*world(plates=12, effect=3.0), quick=True, min_wells=10, null_guides=1, bootstrap=100)
    seen = {(s.representation, s.classifier) for s in result.scores}
    assert seen == {(r, c) for r in ("base", "pca", "position", "plate") for c in ("ridge", "1-nn")}
    assert (result.verdict, result.judged_by) == ("separable", "ridge")
    for classifier in ("ridge", "1-nn"):
        assert condition(result, "pca", classifier, "active").auroc > 0.7
        idle = condition(result, "pca", classifier, "idle")
        assert idle.ci95[0] < 0.5 < idle.ci95[1]


def test_without_controls_perturbations_are_compared_with_each_other() -> None:
    blocks, design = world(plates=12, effect=3.0)
    treated = np.flatnonzero(~design.control)
    bare = design.take(treated)
    result = evaluate(blocks.select(treated), bare, **{**FAST, "representations": ("pca",), "classifiers": ("ridge",)})
    assert result.settings["against"] == "others"
    assert condition(result, "pca", "ridge", "active").auroc > 0.7
    assert evaluate(blocks, design, **{**FAST, "representations": ("pca",), "classifiers": ("ridge",)}).settings[
        "against"
    ] == ("controls")


def test_doses_of_a_compound_are_joined_on_request() -> None:
    blocks, design = world(plates=12, effect=3.0)
    dose = np.arange(design.n) % 2
    doses = np.where(
        design.control, "empty", np.char.add(design.perturbation.text(), np.char.add("_", dose.astype(str)))
    )
    apart = replace(replace_perturbation(design, doses), compound=design.perturbation)
    options = {**FAST, "representations": ("pca",), "classifiers": ("ridge",), "null_guides": 0}
    assert set(evaluate(blocks, apart, **options).targets) == {"active_0", "active_1", "idle_0", "idle_1"}
    joined = evaluate(blocks, apart, **options, level="compound")
    assert (set(joined.targets), joined.of) == ({"active", "idle"}, 2)
    with pytest.raises(UsageError, match=r"'compound' .*--perturbation"):
        evaluate(blocks, design, **options, level="compound")


def test_one_hit_among_many_targets_is_found_and_named() -> None:
    names = ["empty"] * 12 + [f"t{k}" for k in range(12)]
    options = {**SMALL, "classifiers": ("ridge",)}
    hit = evaluate(*small_screen(names, anywhere, {"t3": 9.0}, plates=16), **options)
    assert condition(hit, "pca", "ridge").ci95[0] < 0.5
    assert hit.verdict != "nothing-to-find"
    assert "t3 in PCA" in hit.text
    none = evaluate(*small_screen(names, anywhere, {}, plates=16), **{**options, "representations": ("pca",)})
    assert none.verdict == "nothing-to-find"


def test_one_locked_target_is_named_and_its_score_not_taken_for_biology() -> None:
    names = ["empty"] * 8 + [f"t{k}" for k in range(8)]
    options = {**SMALL, "classifiers": ("ridge",), "representations": ("pca",), "null_guides": 0}
    for effect, verdict in ((9.0, "layout-confounded"), (0.0, "nothing-to-find")):
        result = evaluate(*small_screen(names, locked_to_the_first_row("t2"), {"t2": effect}, plates=24), **options)
        told = next(a.message for a in result.alerts if a.code == "layout_tells")
        assert "t2 1.00" in told
        assert condition(result, "position").ci95[0] < 0.6
        assert result.verdict == verdict
        assert "--against others" in told
    assert "t2 1.000" in result.advice.reasons[-1].message
    for effects in ({}, {"t2": 9.0}):
        free = evaluate(*small_screen(names, anywhere, effects, plates=24), **options)
        assert "layout_tells" not in [a.code for a in free.alerts]


@pytest.mark.parametrize("against", ["controls", "others"])
def test_other_perturbations_are_no_advice_where_they_were_used_or_no_plate_holds_two(against) -> None:
    blocks, design = small_screen(["empty"] * 8 + ["t0"] * 4, locked_to_the_first_row("t0"), {}, plates=24)
    if against == "others":
        names = ["empty"] * 4 + [f"t{k}" for k in range(8)]
        blocks, design = small_screen(names, locked_to_the_first_row("t2"), {}, plates=24)
    options = {**SMALL, "classifiers": ("ridge",), "representations": ("pca",), "null_guides": 0, "against": against}
    (told,) = [a for a in evaluate(blocks, design, **options).alerts if a.code == "layout_tells"]
    assert "instead" not in told.values
    assert told.values["against"] == ("controls" if against == "controls" else "other perturbations")
    assert "--against" not in told.message


def test_targets_without_a_control_on_their_plates_are_named() -> None:
    names = ["empty"] * 8 + ["t0"] * 2 + ["t1"] * 4
    blocks, design = small_screen(names, anywhere, {}, plates=24)
    options = {**SMALL, "classifiers": ("ridge",), "representations": ("pca",), "null_guides": 0}
    own = np.array([int(name[1:]) % 3 == 0 for name in design.plate.text()])  # a third of the plates
    text = design.perturbation.text()
    kept = np.flatnonzero(np.where(own, text == "t1", text != "t1"))
    for rows, alone in ((kept, ["t1"]), (np.arange(design.n), None)):
        result = evaluate(Blocks(np.asarray(blocks[rows]), name="small"), design.take(rows), **options)
        found = [a.values["names"] for a in result.alerts if a.code == "targets_without_controls"]
        assert found == ([alone] if alone else [])


def test_few_components_that_come_back_make_ica_unidentified() -> None:
    assert Components(width=48, identifiable=2, gaussian=10, converged=True).unidentified
    assert not Components(width=48, identifiable=20, gaussian=10, converged=True).unidentified
    assert Components(width=48, identifiable=None, gaussian=46, converged=True).unidentified


@pytest.mark.long
def test_intervals_of_null_guides_cover_a_half_and_plain_percentiles_do_not() -> None:
    """16 worlds of 20 plates, ridge: the interval covers 0.5 in at least 13 (binomial at 95 %: fewer in 1 of 1,000)."""
    covered, narrow = 0, 0
    for seed in range(16):
        blocks, design = world(plates=20, controls=8, wells=2, effect=0.0, seed=seed)
        result = evaluate(
            blocks,
            design,
            representations=("pca",),
            classifiers=("ridge",),
            null_guides=0,
            bootstrap=200,
            targets=["idle"],
        )
        score = condition(result, "pca", "ridge", "idle")
        covered += score.ci95[0] <= 0.5 <= score.ci95[1]
        half = [(end - score.auroc) / 1.55 for end in score.ci95]  # what it is widened by at 20 plates
        narrow += score.auroc + half[0] <= 0.5 <= score.auroc + half[1]
    assert covered >= 13
    assert narrow < covered


# -- what is shared


def test_all_conditions_are_scored_on_the_same_rows_and_folds(found: ScreenEvaluation) -> None:
    rows: dict[tuple[str, int], set[tuple[int, ...]]] = {}
    for s in found.scores:
        rows.setdefault((s.target, s.fold), set()).add((s.n_train, s.n_pos_train, s.n_test, s.n_pos_test))
    assert all(len(counts) == 1 for counts in rows.values())
    assert {s.representation for s in found.scores} == {"base", "pca", "ica", "rand", "position", "plate"}
    second = {(s.classifier, s.target) for s in found.scores if s.rotation == 1}  # scored once, shown as a spread
    assert second == {("lightgbm", "active"), ("lightgbm", "idle")}
    trees = condition(found, "rand", "lightgbm")
    assert trees.spread[0] < trees.auroc < trees.spread[1]
    assert math.isnan(condition(found, "rand", "ridge").spread[0])


def test_concentration_refits_on_top_features_and_on_the_rest(found: ScreenEvaluation) -> None:
    (half,) = condition(found, "ica", "lightgbm", "active").concentration
    assert (half.percent, half.features) == (50.0, 4)
    assert half.top > half.rest + 0.1  # one latent moves, and it is among the top ones
    assert condition(found, "ica", "ridge", "active").concentration == ()


def test_figures_depend_neither_on_workers_nor_on_block_sizes() -> None:
    options = {**FAST, "representations": ("ica",), "targets": ["active"], "null_guides": 0, "folds": 3}
    blocks, design = world(plates=12)
    one = evaluate(blocks, design, **options, workers=1)
    two = evaluate(Blocks(blocks.source, rows=17, name="a world"), design, **options, workers=2)
    assert same(one) == same(two)
    assert same(evaluate(blocks, design, **{**options, "seed": 1})) != same(one)


def _transforms(blocks: Blocks, design: Design, splits: Any) -> Transforms:
    return Transforms(blocks, design, Run(workers=1), rank="auto", given={}, by_fold=splits, checkpoint=Checkpoint())


def test_maps_fitted_on_training_plates_do_not_see_the_test_plates() -> None:
    blocks, design = world(plates=12)
    splits, _ = cross_validation(design, "plate", 4, 0)
    altered = np.array(blocks[0 : blocks.n])
    altered[splits.fold == 2] *= 3.0
    before, after = (
        _transforms(Blocks(X, name="t"), design, splits) for X in (np.array(blocks[0 : blocks.n]), altered)
    )
    for name in ("pca", "ica", "rand"):
        kept = [t.row_map(name, 0, splits, 2) for t in (before, after)]
        moved = [t.row_map(name, 0, splits, 1) for t in (before, after)]
        assert all(m is not None and m.affine is not None for m in (*kept, *moved))
        assert np.allclose(kept[0].affine.matrix, kept[1].affine.matrix, atol=1e-9)  # type: ignore[union-attr]
        assert not np.allclose(moved[0].affine.matrix, moved[1].affine.matrix, atol=1e-3)  # type: ignore[union-attr]


# -- what is kept


class Shelf:
    """A store in memory that breaks off after so many parts, as a killed process does."""

    def __init__(self, most: int | None = None):
        self.parts: dict[str, Mapping[str, NDArray[Any]]] = {}
        self.most = most

    def get(self, key: str) -> Mapping[str, NDArray[Any]] | None:
        return self.parts.get(key)

    def put(self, key: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        if self.most is not None and len(self.parts) >= self.most:
            raise KeyboardInterrupt
        self.parts[key] = {name: np.array(array) for name, array in arrays.items()}


def test_a_run_after_an_interruption_gives_the_same_result_from_what_was_kept() -> None:
    options = {
        **FAST,
        "representations": ("pca", "ica"),
        "corrections": ("control-z",),
        "targets": ["active"],
        "concentration": (50.0,),
        "folds": 3,
        "workers": 1,
    }
    blocks, design = world(plates=12)
    whole = evaluate(blocks, design, **options)
    shelf = Shelf(most=15)
    with pytest.raises(KeyboardInterrupt):
        evaluate(blocks, design, **options, store=shelf)
    assert len(shelf.parts) == 15
    shelf.most = None
    resumed = evaluate(blocks, design, **options, store=shelf)
    assert same(resumed) == same(whole)
    assert 0 < sum(t.kept for t in resumed.times) < sum(t.units for t in resumed.times)
    again = evaluate(blocks, design, **options, store=shelf)
    assert same(again) == same(whole)
    fitting = [t for t in again.times if t.stage in ("moments", "ica", "lightgbm", "ridge", "lightgbm, concentration")]
    assert len(fitting) == 5
    assert all(t.kept == t.units for t in fitting)
    other = Blocks(np.array(blocks[0 : blocks.n]) + 1e-3 * np.arange(blocks.n)[:, None], name="a world")
    fresh = evaluate(other, design, **options, store=shelf)  # other data must find nothing
    assert sum(t.kept for t in fresh.times) == 0


class Bare:
    """A classifier of the user's that does not show what it is set to."""

    name = "bare"

    def fit(self, X: NDArray[Any], positive: NDArray[Any], seed: int) -> Any:
        return Ridge().fit(X, positive, seed)


def test_what_was_kept_is_not_used_for_other_settings_and_damage_is_counted() -> None:
    shelf = Shelf()
    options = {**FAST, "representations": ("base",), "targets": ["active"], "null_guides": 0}
    for smoothing, kept in ((1e-9, 0), (1e-9, 10), (1.0, 0)):  # Base and position in five folds
        mine = GaussianNB(var_smoothing=smoothing)
        result = evaluate(*world(plates=6), **{**options, "classifiers": (mine,)}, store=shelf)
        assert sum(t.kept for t in result.times if t.stage == "GaussianNB") == kept
        assert "checkpoint_damaged" not in {a.code for a in result.alerts}
    shelf.damaged = ("unit-1", "unit-2")  # type: ignore[attr-defined]
    told = evaluate(*world(plates=6), **{**options, "classifiers": (mine,)}, store=shelf).alerts
    assert {a.code: a.message for a in told}["checkpoint_damaged"].startswith("2 parts")
    with pytest.raises(UsageError, match=r"classifier 'bare': .*--checkpoint"):
        evaluate(*world(plates=6), **{**options, "classifiers": (Bare(),)}, store=shelf)


# -- ways to hold out, fit and compare


def test_fitting_to_test_plates_too_is_reported_as_leakage() -> None:
    blocks, design = world(plates=12)
    result = evaluate(
        blocks,
        design,
        **{
            **FAST,
            "representations": ("base", "pca"),
            "classifiers": ("ridge",),
            "corrections": ("combat", "control-z", "count-regressed"),
        },
        fit=("train", "all"),
        hold_out=("plate", "batch"),
    )
    assert {(x.representation, x.held_out) for x in result.leakage} == {
        (name, held) for name in ("pca", "control-z") for held in ("plate", "batch")
    }
    assert result.condition("combat", fit="train") is None  # it exists only for rows it was fitted to
    assert condition(result, "combat", fit="all", held_out="batch").folds == 2
    assert condition(result, "base", fit="train").auroc == condition(result, "base", fit="all").auroc
    lacking = condition(result, "count-regressed")
    assert math.isnan(lacking.auroc)
    assert lacking.skipped.startswith("count-regressed ")


def test_a_correction_that_fails_in_one_way_of_holding_out_keeps_the_scores_of_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(self: Transforms, name: str, white: AffineMap, splits: Any, fold: int | None) -> Any:
        if splits.held_out == "batch":
            raise DataError("no such batch")
        return original(self, name, white, splits, fold)

    original = Transforms._correction
    monkeypatch.setattr(Transforms, "_correction", failing)
    options = {**FAST, "representations": ("pca",), "classifiers": ("ridge",), "corrections": ("control-z",)}
    result = evaluate(*world(plates=12), **options, hold_out=("plate", "batch"))
    assert condition(result, "control-z", held_out="plate").auroc > 0.5
    assert condition(result, "control-z", held_out="batch").skipped == "no such batch"


def test_the_papers_protocol_fits_to_all_rows() -> None:
    blocks, design = world(plates=12)
    result = evaluate(blocks, design, **{**FAST, "representations": ("pca",)}, protocol="paper", fit=("train",))
    assert {s.fit for s in result.scores} == {"all"}
    assert result.settings["fit"] == ["all"]
    told = next(a.message for a in result.alerts if a.code == "protocol_overrides")
    assert says(told, "'paper'", "--fit train")
    assert "--hold-out" not in told
    asked = evaluate(blocks, design, **{**FAST, "representations": ("pca",)}, protocol="paper", fit=("all",))
    assert "protocol_overrides" not in [a.code for a in asked.alerts]


def test_single_batches_train_one_model_each_and_are_tested_on_the_others() -> None:
    blocks, design = world(plates=16, controls=12)  # batches of 108, 108 and 72 rows
    result = evaluate(
        blocks, design, **{**FAST, "representations": ("pca",), "targets": ["active"]}, protocol="single-batch"
    )
    assert {s.held_out for s in result.scores} == {"single-batch"}
    told = next(a.message for a in result.alerts if a.code == "protocol_overrides")
    assert "--folds" not in told  # five is what everybody has who asks for nothing
    mine = [s for s in result.scores if (s.target, s.classifier, s.representation) == ("active", "ridge", "pca")]
    assert [s.n_train for s in mine] == [90, 90, 60]
    assert all(s.n_train + s.n_test == 240 for s in mine)
    small, small_design = world(plates=16, controls=5)
    with pytest.raises(DataError, match=r"active: single-batch .* b0: "):
        evaluate(small, small_design, **{**FAST, "targets": ["active"]}, protocol="single-batch")


def test_maps_from_elsewhere_and_classifiers_of_the_user_are_scored() -> None:
    blocks, design = world(plates=12)
    first = AffineMap(np.linalg.inv(np.random.default_rng(5).standard_normal((6, 6)))[:, :1], np.zeros(1))
    result = evaluate(
        blocks,
        design,
        **{**FAST, "representations": ("pca",), "classifiers": (GaussianNB(),)},
        given={"truth": first},
        targets=["active"],
    )
    truth, pca = (condition(result, name, "GaussianNB", "active") for name in ("truth", "pca"))
    assert truth.auroc > pca.auroc
    with pytest.raises(UsageError, match=r"given 'truth': .* 6 columns, .* 3"):
        evaluate(blocks, design, given={"truth": AffineMap(np.eye(3), np.zeros(3))}, classifiers=("ridge",))
    with pytest.raises(UsageError, match="given: 'pca'"):
        evaluate(blocks, design, given={"pca": first}, classifiers=("ridge",))


# -- what it refuses


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"representations": ("umap",)}, "'umap': .* base, pca, ica or rand"),
        ({"corrections": ("magic",)}, "corrections 'magic': .* control-z"),
        ({"fit": ("test",)}, "fit 'test': .* train or all"),
        ({"hold_out": ()}, "hold_out: .* none"),
        ({"against": "nothing"}, "'nothing': .* controls or others"),
        ({"protocol": "ours"}, "'ours': .* paper or single-batch"),
        ({"seeds": 0}, "seeds 0: .* 1"),
        ({"bootstrap": -1}, "bootstrap -1: .* 0"),
        ({"concentration": (100.0,)}, "concentration 100.0: "),
        ({"classifiers": ("ridge", "ridge")}, "classifiers: .* ridge, ridge"),
        ({"representations": ()}, "representations: .* none"),
        ({"targets": ["ghost"]}, "perturbation 'ghost'"),
    ],
)
def test_wrong_calls_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        evaluate(*world(plates=6), **{"classifiers": ("ridge",), **options})


@pytest.mark.parametrize("name", ["all", "null guides", "null guide 1"])
def test_perturbations_named_like_a_mean_or_a_null_guide_are_refused(name: str) -> None:
    blocks, design = world(plates=6)
    wells = np.where(design.perturbation.text() == "active", name, design.perturbation.text())
    for targets in (None, [name]):
        with pytest.raises(DataError, match=rf"perturbation {name!r} .18 wells."):
            evaluate(blocks, replace_perturbation(design, wells), classifiers=("ridge",), min_wells=5, targets=targets)
    alike = replace_perturbation(design, np.where(wells == name, f"{name} of them", wells))
    options = {"classifiers": ("ridge",), "representations": ("pca",), "null_guides": 0}
    assert f"{name} of them" in evaluate(blocks, alike, **options, min_wells=5, bootstrap=0).targets


def test_tables_it_cannot_use_are_refused_with_their_rows() -> None:
    blocks, design = world(plates=6)
    with pytest.raises(DataError, match=r"96 rows, .* 80"):
        evaluate(blocks, design.take(np.arange(80)), classifiers=("ridge",))
    bare = Design(design.plate, design.perturbation, np.zeros(design.n, dtype=np.bool_))
    with pytest.raises(DataError, match="--control"):
        evaluate(blocks, bare, classifiers=("ridge",), against="controls")
    one = Design(Labels.of(np.full(design.n, "p")), design.perturbation, design.control)
    with pytest.raises(DataError, match=r"one plate .p."):
        evaluate(blocks, one, classifiers=("ridge",), min_wells=5)
    holed = np.array(blocks[0 : blocks.n])
    holed[7, 1] = np.nan
    with pytest.raises(DataError, match=r"1 row \(.*: 7\)"):
        evaluate(Blocks(holed, name="holed"), design, classifiers=("ridge",), min_wells=5)


def test_targets_on_too_few_plates_are_skipped_by_name_and_the_rest_scored() -> None:
    blocks, design = world(plates=12)
    wells = design.perturbation.text()
    wells[(wells == "idle") & (design.plate.codes > 0)] = "empty"
    design = replace_perturbation(design, wells)
    result = evaluate(
        blocks,
        design,
        classifiers=("ridge",),
        representations=("pca",),
        targets=["active", "idle"],
        min_wells=2,
        bootstrap=0,
    )
    assert result.targets == ("active",)
    assert "wells of idle" in result.skipped["idle"]
    assert {"no_intervals"} <= {a.code for a in result.alerts}
    assert all(math.isnan(c.ci95[0]) for c in result.conditions)
    assert result.verdict == "undecided"


def replace_perturbation(design: Design, wells: NDArray[Any]) -> Design:
    return Design(
        design.plate,
        Labels.of(wells),
        wells == "empty",
        batch=design.batch,
        row=design.row,
        column=design.column,
        name=design.name,
    )
