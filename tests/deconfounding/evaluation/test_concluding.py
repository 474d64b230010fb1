"""The verdict of an evaluation and the advice on ICA: which codes follow from which numbers, with nothing fitted."""

from __future__ import annotations

import math
from typing import Any

import pytest

from builders import make_condition
from identifiable.deconfounding.evaluation.concluding import MARGIN, Components, Coverage, Evidence, Judgement, judge
from identifiable.deconfounding.evaluation.tabulating import Gap
from identifiable.deconfounding.folds import Chosen
from identifiable.results import ConditionScore

NOWHERE = (math.nan, math.nan)
KNOWN = Components(48, 40, 3, converged=True)


def gap(low: float, high: float) -> Gap:
    return Gap((low + high) / 2, (low, high), (low + high) / 2, (low, high))


def scored(*aurocs: float, classifier: str = "lightgbm", **rest: Any) -> tuple[ConditionScore, ...]:
    """ICA, PCA and so on, each within 0.02 of its AUROC."""
    return tuple(
        make_condition(name, classifier, auroc=auroc, **rest)
        for name, auroc in zip(("ica", "pca"), aurocs, strict=False)
    )


def judged(primary: tuple[ConditionScore, ...] = scored(0.8, 0.7), **rest: Any) -> Judgement:
    """ICA above PCA and every component found again; position at chance. Changed by `rest`."""
    found: dict[str, Any] = {
        **{"every": primary, "nulls": (), "position": make_condition("position", auroc=0.5), "over_position": None},
        **{"over_pca": gap(0.05, 0.15), "over_rand": gap(0.04, 0.12), "over_linear": None, "linear": None},
        "components": KNOWN,
    }
    coverage = Coverage(2, Chosen(("a", "b"), of=3, wells=20, enough=2), "perturbation")
    return judge(Evidence(primary=primary, **{**found, **rest}), coverage)


CHANCE, WITHOUT = scored(0.5, 0.5), scored(0.8, 0.7, ci95=NOWHERE, excess_ci95=NOWHERE)
HIT, TOLD = make_condition("ica", target="MTOR", auroc=0.9), make_condition("position", target="MTOR", auroc=0.7)
TELLS = make_condition("position", auroc=0.63)  # its interval begins at 0.61
HARDLY = make_condition("position", auroc=0.61)  # and here at 0.59


@pytest.mark.parametrize(
    ("made", "verdict", "code", "remarks"),
    [
        ({}, "ica-helps", "gain", []),
        ({"over_pca": gap(-0.15, -0.05)}, "ica-harms", "gain", []),
        ({"over_pca": gap(-MARGIN, MARGIN)}, "no-gain", "gain", []),
        ({"over_pca": gap(-0.01, 2 * MARGIN)}, "undecided", "gain", []),
        # position
        ({"position": TELLS}, "layout-confounded", "position_explains", []),
        ({"position": TELLS, "over_position": gap(-0.01, 0.2)}, "layout-confounded", "position_explains", []),
        ({"position": TELLS, "over_position": gap(0.01, 0.2)}, "ica-helps", "gain", ["position_alone"]),
        ({"position": HARDLY}, "ica-helps", "gain", []),
        ({"position": None}, "ica-helps", "gain", []),
        ({"told_by_position": (TOLD,)}, "ica-helps", "gain", ["position_alone"]),
        (
            {"hits": (HIT,), "told_by_position": (TOLD,), "beyond_layout": False},
            "layout-confounded",
            "position_explains_targets",
            [],
        ),
        ({"hits": (HIT,), "told_by_position": (TOLD,)}, "ica-helps", "gain", ["position_alone"]),
        # what is found
        ({"primary": CHANCE}, "nothing-to-find", "nothing_found", []),
        ({"primary": CHANCE, "every": (*CHANCE, *scored(0.6, classifier="ridge"))}, "ica-helps", "gain", []),
        ({"primary": CHANCE, "hits": (HIT,)}, "ica-helps", "gain", ["single_targets"]),
        ({"hits": (HIT,)}, "ica-helps", "gain", []),
        # the gain has no interval
        ({"over_pca": None}, "separable", "separated", []),
        ({"over_pca": gap(math.nan, math.nan)}, "separable", "separated", []),
        ({"over_pca": None, "primary": WITHOUT}, "undecided", "no_interval_of_gain", []),
        ({"over_pca": None, "primary": WITHOUT, "hits": (HIT,)}, "separable", "separated", ["single_targets"]),
        ({"primary": (), "over_pca": None}, "undecided", "no_interval_of_gain", []),
        # trees without a split
        ({"unsplit": (51, 100)}, "ica-helps", "gain", []),
        ({"unsplit": (51, 100), "over_pca": gap(-0.1, 0.1)}, "undecided", "mostly_unsplit", []),
        ({"unsplit": (50, 100), "over_pca": gap(-0.1, 0.1)}, "undecided", "gain", []),
    ],
)
def test_the_verdict_and_what_is_said_follow_from_intervals(made, verdict, code, remarks) -> None:
    found = judged(**made)
    assert (found.verdict, found.told.code) == (verdict, code)
    assert [remark.code for remark in found.told.remarks] == ["coverage", *remarks]


def test_what_is_said_of_position_and_of_single_targets_has_their_scores() -> None:
    explained = judged(position=TELLS).told.values
    assert (explained["position"], explained["position_low"], explained["best"]) == (0.63, 0.61, 0.8)
    assert judged(position=TELLS, over_position=gap(0.01, 0.2)).told.remarks[1].values["position_high"] == 0.65
    single = judged(hits=(HIT,), told_by_position=(TOLD,), beyond_layout=False).told.values
    assert (list(single["hits"].values()), single["targets"]) == ([0.9], {"MTOR": 0.7})
    trees = (*scored(0.8, 0.7), *scored(0.82, classifier="ridge"))
    at_best = judged(every=trees, position=make_condition("position", "odds", auroc=0.63)).told.values
    assert (at_best["best"], at_best["classifier"], at_best["by"]) == (0.82, "ridge", "odds")  # each at its best
    alone = judged(primary=CHANCE, hits=(HIT,)).told.remarks[1].values
    assert list(alone["hits"].values()) == [0.9]
    nothing = judged(primary=CHANCE).told.values
    assert (nothing["best"], nothing["best_low"]) == (0.5, 0.48)
    assert "excess" in nothing
    assert "excess" not in judged(primary=scored(0.5, 0.5, excess=math.nan)).told.values


LINEAR = {"linear": scored(0.75, classifier="ridge")[0]}
USUAL = ["components_found", "components_gaussian", "gain_over_pca", "gain_over_rotations", "position_scores"]


def usual(*left_out: str) -> list[str]:
    return [code for code in USUAL if code not in left_out]


@pytest.mark.parametrize(
    ("made", "answer", "code", "reasons"),
    [
        ({}, "yes", "helps", USUAL),
        # a linear probe
        ({**LINEAR, "over_linear": gap(-0.1, -0.01)}, "yes", "helps_trees", [*USUAL[:4], "gain_over_linear", USUAL[4]]),
        ({**LINEAR, "over_linear": gap(-0.1, 0.01)}, "yes", "helps", [*USUAL[:4], "gain_over_linear", USUAL[4]]),
        ({**LINEAR, "over_linear": None}, "yes", "helps", USUAL),
        (
            {**LINEAR, "over_linear": gap(-0.1, -0.01), "over_pca": gap(-0.15, -0.05)},
            "no",
            "ica-harms",
            [*USUAL[:4], "gain_over_linear", USUAL[4]],
        ),
        # components
        ({"components": None}, "unclear", "ica_missing", usual("components_found", "components_gaussian")),
        ({"components": None, "quick": True}, "unclear", "ica_missing", usual("components_found", "components_gaussian")),
        ({"components": None, "unfitted": {"rows": 9}}, "no", "ica_not_fitted", USUAL[2:]),
        ({"components": Components(48, 40, 3, converged=False)}, "yes", "helps", [*USUAL[:2], "solver_stopped", *USUAL[2:]]),
        ({"components": Components(48, None, 3, converged=True)}, "yes", "helps", usual("components_found")),
        ({"components": Components(48, 40, None, converged=True)}, "yes", "helps", usual("components_gaussian")),
        ({"components": Components(50, 5, 3, converged=True)}, "yes", "helps", USUAL),
        ({"components": Components(50, 4, 3, converged=True)}, "unclear", "unidentified", USUAL),
        # position and gains
        ({"position": None}, "yes", "helps", [*USUAL[:4], "position_unknown"]),
        ({"over_pca": gap(-0.01, 0.1)}, "unclear", "wide_interval", USUAL),
        ({"over_pca": gap(-0.01, 0.1), "unsplit": (51, 100)}, "unclear", "unsplit", USUAL),
        ({"over_pca": gap(*NOWHERE)}, "unclear", "rotations_alike", USUAL),  # the same score in every draw
        ({"over_pca": gap(*NOWHERE), "primary": WITHOUT}, "unclear", "no_interval_of_gain", USUAL),
        ({"over_pca": None}, "unclear", "no_interval_of_gain", usual("gain_over_pca")),  # PCA was not asked for
        ({"over_pca": None, "over_rand": None}, "unclear", "no_interval_of_gain", usual("gain_over_pca", "gain_over_rotations")),
        ({"primary": scored(0.8, 0.7, classifier="ridge")}, "unclear", "rotations_alike", [*USUAL[:2], USUAL[4]]),
        ({"primary": CHANCE}, "no", "nothing-to-find", USUAL),
    ],
)  # fmt: skip
def test_the_advice_and_its_reasons_are_those_of_the_numbers(made, answer, code, reasons) -> None:
    found = judged(**made).advice
    assert (found.answer, found.sentence.code) == (answer, code)
    assert [reason.code for reason in found.reasons] == reasons


@pytest.mark.parametrize(("gaussian", "most"), [(24, False), (25, True)])
def test_components_are_mostly_gaussian_from_more_than_half_on(gaussian: int, most: bool) -> None:
    reasons = judged(components=Components(48, 40, gaussian, converged=True)).advice.reasons
    found, looks = reasons[:2]
    assert found.values == {"found": 40, "components": 48}
    assert (looks.values["gaussian"], "most" in looks.values) == (gaussian, most)


def test_the_reason_of_position_names_the_targets_it_tells() -> None:
    (plain,), (telling,) = (
        [r for r in judged(told_by_position=told).advice.reasons if r.code == "position_scores"]
        for told in ((), (TOLD,))
    )
    assert plain.values["position"] == telling.values["position"] == 0.5
    assert "targets" not in plain.values
    assert telling.values["targets"] == {"MTOR": 0.7}
