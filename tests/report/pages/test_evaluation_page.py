"""The page of `deconfound evaluate`: differences with their intervals, layout and chance beside every gain."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from identifiable import report
from identifiable.deconfounding.corrections.registry import CORRECTIONS
from identifiable.report import words
from identifiable.report.frame import glossary
from identifiable.report.page import Card, Dots, Fold, Mark, Terms, Text
from identifiable.report.pages import page_of
from identifiable.report.pages.conditions import Conditions, layout_words, probe_words, rotation_words
from identifiable.report.pages.evaluation import DRAWN
from identifiable.report.pages.screen import LISTED, REPRESENTATIONS
from identifiable.results import Answer, IcaAdvice, ScreenEvaluation, StageTime
from page_reading import blocks_of, card_of, table_called, text_of
from screen_result_cases import (
    NO_INTERVAL,
    TARGETS,
    make_condition,
    make_conditions,
    make_design,
    make_difference,
    make_evaluation,
    with_figures,
    with_words,
)

FULL = make_evaluation()
SMALLER = make_evaluation(conditions=tuple(make_conditions()))
BARE = make_evaluation(
    targets=(),
    null_targets=(),
    skipped={},
    conditions=(),
    differences=(),
    leakage=(),
    fitted=(),
    times=(),
    verdict="undecided",
    advice=IcaAdvice("unclear", Answer("", stored=""), ()),
    told=Answer("", stored=""),
)
TREES = make_evaluation(
    conditions=tuple(c for c in make_conditions() if c.classifier == "lightgbm"), differences=(), leakage=(), times=()
)
PROBE = make_evaluation(conditions=tuple(c for c in make_conditions() if c.classifier == "ridge"))
SKIPPED = make_evaluation(
    conditions=(
        make_condition("base", auroc=0.6),
        make_condition("harmony", skipped="needs two batches", se=math.nan, ci95=NO_INTERVAL),
    ),
    verdict="layout-confounded",
)
PLATE = ("plate", "train")


def dots_called(result: ScreenEvaluation, start: str) -> Dots:
    return next(b for b in blocks_of(result) if isinstance(b, Dots) and b.title.startswith(start))


def changed(representation: str, classifier: str = "", **fields: Any) -> Conditions:
    """The full evaluation, the conditions of a representation over all targets changed."""
    conditions = tuple(
        replace(c, **fields)
        if (c.representation, c.target) == (representation, "all") and classifier in ("", c.classifier)
        else c
        for c in FULL.conditions
    )
    return Conditions(make_evaluation(conditions=conditions))


def test_sections_appear_only_when_there_is_something() -> None:
    assert [s.key for s in page_of(FULL).sections] == [
        "verdict", "alerts", "advice", "scores", "differences", "targets", "leakage", "sparsity", "fitted", "time", "skipped",
        "design", "reading", "reproduction",
    ]  # fmt: skip
    assert [s.key for s in page_of(BARE).sections] == ["verdict", "advice", "design", "reading", "reproduction"]


# -- verdict and advice


@pytest.mark.parametrize(
    ("verdict", "tone", "badge"),
    [
        ("ica-helps", "good", "ICA helps"),
        ("no-gain", "plain", "no gain"),
        ("ica-harms", "caution", "ICA harms"),
        ("layout-confounded", "caution", "layout-confounded"),
        ("nothing-to-find", "caution", "nothing to find"),
        ("undecided", "caution", "undecided"),
    ],
)
def test_only_a_gain_is_good_news(verdict: Any, tone: str, badge: str) -> None:
    card = card_of(make_evaluation(verdict=verdict))
    assert (card.tone, card.badge) == (tone, badge)
    facts = dict(card.facts)
    assert facts["ICA - PCA, AUROC"] == "+0.108 [0.078, 0.138]"
    assert (facts["PCA + ICA"], facts["position only"]) == ("0.809", "0.531")


@pytest.mark.parametrize(("answer", "tone"), [("yes", "good"), ("no", "caution"), ("unclear", "plain")])
def test_the_advice_is_a_card_with_its_reasons_and_can_say_no(answer: Any, tone: str) -> None:
    reasons = tuple(Answer("", stored=said) for said in ("38 of 48", "no gain"))
    result = make_evaluation(advice=IcaAdvice(answer, Answer("", stored="all Gaussian"), reasons))
    card, *reasons = blocks_of(result, "advice")
    assert isinstance(card, Card)
    assert (card.badge, card.tone, card.sentence) == (answer, tone, "All Gaussian.")
    assert [b.text for b in reasons if isinstance(b, Text)] == ["1. 38 of 48.", "2. No gain."]
    assert all(b.brief for b in (card, *reasons))


# -- scores


def test_trees_and_the_probe_are_drawn_side_by_side_with_chance_position_nulls_and_rotations() -> None:
    figure = dots_called(FULL, "AUROC. Plates held")
    rows = {row.label: row for row in figure.rows}
    assert list(rows) == ["Base", "PCA", "PCA + ICA", "PCA + Rand", "TVN", "position only", "plate only"]
    assert figure.threshold == ("chance", 0.5)
    ica, rand = rows["PCA + ICA"], rows["PCA + Rand"]
    assert (ica.reading, ica.second, ica.strong) == ("0.809", "0.740", True)
    assert ica.interval == pytest.approx((0.789, 0.829))
    assert ica.lower == pytest.approx((0.7203, 0.7603))
    assert [(m.kind, round(m.value, 4)) for m in ica.marks] == [("main", 0.809), ("hollow", 0.7403), ("shuffle", 0.503)]
    assert [m for m in rand.marks if m.kind == "rotation"] == [Mark("rotation", 0.685), Mark("rotation", 0.702)]
    assert rows["position only"].lower is None
    assert "hollow" not in {mark.kind for row in dots_called(TREES, "AUROC").rows for mark in row.marks}


def test_pooled_and_within_plate_stand_in_one_line_with_the_excess_over_null() -> None:
    table = table_called(FULL, "AUROC, mean over")
    assert table.brief
    assert table.rows[2] == (
        "PCA + ICA", "LightGBM", "0.809 [0.789, 0.829]", "0.819 [0.794, 0.844]", "+0.306 [0.279, 0.329]", "0.008", "5",
    )  # fmt: skip
    assert ("PCA + ICA", "linear probe") in [row[:2] for row in table.rows]


def test_a_representation_with_a_classifier_of_its_own_stands_once_in_the_table_and_in_the_figure() -> None:
    blind = make_condition("position", "odds", auroc=0.55)
    result = make_evaluation(conditions=(make_condition("base", auroc=0.6), blind))
    assert [row[:2] for row in table_called(result, "AUROC, mean over").rows] == [
        ("Base", "LightGBM"),
        ("position only", "log odds"),
    ]
    figure = dots_called(result, "AUROC")
    assert [row.label for row in figure.rows] == ["Base", "position only"]
    assert "log odds" in dict(figure.legend)["main"]


def test_other_protocols_are_folded_under_their_scores() -> None:
    first, second = (b for b in blocks_of(FULL, "scores") if isinstance(b, Fold))
    assert first.summary.startswith("Plates held out")
    assert "fitted to all" in first.summary
    assert second.summary.startswith("Batches held out")
    assert "PCA + ICA 0.813" in first.summary
    assert "PCA + ICA 0.759" in second.summary
    assert first.brief
    assert not any(isinstance(b, Fold) for b in blocks_of(TREES, "scores"))


def test_a_probe_must_score_rotations_alike_and_one_that_does_not_is_called_out() -> None:
    said = probe_words(Conditions(FULL), PLATE)
    assert said.count("0.740") == 3
    assert "equal" in said
    assert said in text_of(FULL, "scores")
    broken = probe_words(changed("ica", "ridge", auroc=0.78), PLATE)
    assert "0.040 apart" in broken
    assert "equal" not in broken
    assert probe_words(Conditions(TREES), PLATE) == ""


def test_position_that_scores_as_much_as_any_representation_is_said() -> None:
    said = layout_words(Conditions(FULL), PLATE)
    assert "position only 0.531 [0.511, 0.551]" in said
    assert "plate only 0.500 [0.480, 0.520]" in said
    locked = layout_words(changed("position", auroc=0.99, ci95=(0.98, 1.0)), PLATE)
    assert "than position only:" in locked
    assert "more than" not in said
    assert layout_words(Conditions(PROBE), PLATE) == ""


@pytest.mark.parametrize(("auroc", "side"), [(0.809, "above all"), (0.69, "among"), (0.6, "below all")])
def test_ica_is_placed_among_random_rotations(auroc: float, side: str) -> None:
    said = rotation_words(changed("ica", "lightgbm", auroc=auroc), PLATE)
    assert {"0.685", "0.702", "0.693", words.number(auroc)} <= set(re.findall(r"[\d.]+\d", said))
    assert f", {side} " in said
    assert rotation_words(Conditions(SKIPPED), PLATE) == ""


def test_what_was_not_scored_is_said_with_its_reason() -> None:
    (said,) = (b for b in blocks_of(SKIPPED, "scores") if isinstance(b, Text) and "(needs two batches)" in b.text)
    assert "Harmony, LightGBM" in said.text
    assert said.brief
    assert [row.label for row in dots_called(SKIPPED, "AUROC").rows] == ["Base"]


def test_every_correction_is_explained_and_only_those_shown() -> None:
    assert set(CORRECTIONS) <= set(REPRESENTATIONS)
    assert set(REPRESENTATIONS.values()) <= set(glossary("evaluation"))
    explained = {name for b in blocks_of(FULL, "reading") if isinstance(b, Terms) for name, _ in b.items}
    assert "TVN" in explained
    assert "ComBat" not in explained
    assert "ando2017" in report.html(FULL)
    assert "johnson2007" not in report.html(FULL)


# -- differences


def test_ica_less_pca_comes_first_with_the_line_of_no_difference() -> None:
    figure = dots_called(FULL, "Paired differences")
    assert [row.label for row in figure.rows] == ["ICA - PCA", "PCA - Base", "ICA - Rand"]
    assert figure.threshold == ("no difference", 0.0)
    assert figure.span
    assert figure.rows[0].reading == "+0.108"
    assert figure.rows[0].interval == pytest.approx((0.078, 0.138))
    assert figure.rows[0].lower == pytest.approx((0.088, 0.148))
    rows = table_called(FULL, "AUROC of the").rows
    assert rows[0] == ("PCA + ICA - PCA", "LightGBM", "+0.108 [0.078, 0.138]", "+0.118 [0.088, 0.148]")
    (fold,) = (b for b in blocks_of(FULL, "differences") if isinstance(b, Fold))
    assert fold.summary.endswith("ICA - PCA +0.108 [0.078, 0.138]")


def test_the_gain_is_that_of_the_main_classifier_and_of_the_first_protocol_that_has_one() -> None:
    other = make_difference(difference=0.5, ci95=NO_INTERVAL)
    probe = replace(other, classifier="ridge")
    late = replace(other, fit="all")
    for differences in ((probe, make_difference()), (late, make_difference())):
        scores = Conditions(make_evaluation(differences=differences))
        assert scores.gain(*scores.protocols) == "+0.108 [0.078, 0.138]"
    none = Conditions(make_evaluation(differences=()))
    assert none.gain(*none.protocols) == words.MISSING


def test_a_loss_is_drawn_left_of_the_line() -> None:
    loss = make_difference(difference=-0.04, ci95=(-0.06, -0.02), within_plate=-0.03, within_plate_ci95=(-0.05, -0.01))
    result = make_evaluation(differences=(loss,), verdict="ica-harms")
    assert "-0.040 [-0.060, -0.020]" in text_of(result, "verdict")
    html = report.html(result)
    figure = html[html.index("Paired differences,") :]
    limit, main = (
        re.search(rf'<path class="{kind}" d="M([\d.]+) ', figure) for kind in ("limit", "m main")
    )  # places from the left
    assert limit is not None
    assert main is not None
    assert float(main[1]) < float(limit[1])


# -- perturbations


def test_perturbations_are_a_heat_map_with_the_gain_and_nulls_marked() -> None:
    table = table_called(FULL, "AUROC of LightGBM")
    assert [c.label for c in table.columns][:4] == ["perturbation", "Base", "PCA", "PCA + ICA"]
    assert (table.rows[0][0], table.rows[0][3], table.rows[0][-1]) == ("MTOR_guide_1", "0.779", "+0.108 [0.078, 0.138]")
    assert table.rows[-1][0] == "null 2 (null)"
    shades = table.shades[0]
    assert shades[2] > shades[0] > shades[5]  # type: ignore[operator]
    assert shades[-1] is None
    assert table.shades[-1][0] == 0  # a null is at chance


def test_many_perturbations_are_folded() -> None:
    names = tuple(f"G{i}" for i in range(LISTED + 12))
    result = make_evaluation(
        targets=names,
        null_targets=(),
        conditions=tuple(make_condition("ica", target=t, auroc=0.7) for t in ("all", *names)),
        differences=tuple(make_difference(target=t) for t in names),
    )
    rest, figure = (b for b in blocks_of(result, "targets") if isinstance(b, Fold))
    assert rest.summary == "12 more perturbations"
    assert len(next(b for b in figure.blocks if isinstance(b, Dots)).rows) == DRAWN
    assert figure.summary.endswith(f"first {DRAWN}")


# -- leakage, sparsity, fits, time


def test_leakage_stands_beside_both_fits() -> None:
    rows = table_called(FULL, "AUROC by what").rows
    assert rows[0] == ("PCA + ICA", "LightGBM", "plates held out", "0.813", "0.809", "+0.004 [-0.001, 0.009]")
    assert rows[1][-1] == "0"


def test_sparsity_is_never_shown_without_its_null_and_its_splits() -> None:
    rows = table_called(FULL, "Splits of LightGBM").rows
    assert rows[2] == ("PCA + ICA", "1,812", "0.262", "0.112", "+0.150")
    assert [row[0] for row in rows] == ["Base", "PCA", "PCA + ICA", "PCA + Rand", "TVN"]
    assert dots_called(FULL, "Hoyer").rows[2].marks == (Mark("main", 0.262), Mark("shuffle", 0.112))
    assert not list(blocks_of(PROBE, "sparsity"))


def test_concentration_is_shown_by_all_its_candidates() -> None:
    table = table_called(FULL, "Concentration")
    assert [c.label for c in table.columns][-4:] == ["difference", "Gini", "ratio", "above chance"]
    assert table.rows[1] == ("PCA", "25 %", "12", "0.790", "0.640", "0.809", "+0.150", "+0.300", "+0.234", "+1.070")
    assert not table.brief


def test_what_was_fitted_says_how_much_of_it_is_reproducible() -> None:
    rows = table_called(FULL, "Reproducible").rows
    assert rows[0] == ("PCA + ICA", "training plates", "0", "48", "yes", "41 of 48", "3", words.MISSING)
    assert (rows[1][4], rows[1][-1]) == ("no", FULL.fitted[1].note)
    assert rows[2][1:3] == ("all wells", words.MISSING)


def test_the_longest_stage_comes_first_with_its_share() -> None:
    text = text_of(FULL, "time")
    assert re.search(r"15\.9 min .* 85 % .* LightGBM\. 320 units", text)
    rows = table_called(FULL, "Wall clock by").rows
    assert rows[0] == ("LightGBM", "13.5 min", "85 %", "960", "320")
    assert rows[-1] == ("folds", "0.4 s", "0 %", "5", words.MISSING)
    assert not list(blocks_of(make_evaluation(times=(StageTime("a", math.nan, 0),)), "time"))


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.04, "4.0e-2 s"), (12.0, "12.0 s"), (300.0, "5.0 min"), (9000.0, "2.5 h")]
)
def test_durations_are_said_in_the_unit_that_fits(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


# -- form


@pytest.mark.parametrize(
    "result",
    [
        FULL,
        BARE,
        TREES,
        PROBE,
        SKIPPED,
        make_evaluation(targets=TARGETS[:1], null_targets=()),
        make_evaluation(design=make_design(batches=None, grid=None), conditions=tuple(make_conditions())),
        *(with_figures(SMALLER, figure) for figure in (None, 9e99, -9e99)),
        with_words(SMALLER, "a long name with blanks " * 8),
    ],
)
def test_every_line_fits_a_terminal_and_figures_stay_in_their_frame(result: ScreenEvaluation) -> None:
    assert max(map(words.columns_wide, report.text_table(result).splitlines())) <= 100
    assert all(0 <= float(v) <= 100 for v in re.findall(r'\bx\d?="([\d.-]+)%"', report.html(result)))
