"""The page of `deconfound evaluate`: differences with their intervals, layout and chance beside every gain."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from builders import (
    NO_INTERVAL,
    TARGETS,
    blocks_of,
    card_of,
    check_drawn,
    make_condition,
    make_conditions,
    make_design,
    make_difference,
    make_evaluation,
    table_called,
    text_of,
    with_figures,
    with_words,
)
from identifiable import report
from identifiable.deconfounding.corrections.registry import CORRECTIONS
from identifiable.report import words
from identifiable.report.frame import glossary
from identifiable.report.page import Card, Dots, Fold, Terms, Text
from identifiable.report.pages.conditions import Conditions, layout_words, probe_words, rotation_words
from identifiable.report.pages.evaluation import DRAWN, page
from identifiable.report.pages.screen import LISTED
from identifiable.report.screen_names import REPRESENTATIONS
from identifiable.results import Answer, IcaAdvice, ScreenEvaluation

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


# -- verdict and advice


@pytest.mark.parametrize(
    ("verdict", "tone", "badge"),
    [
        ("ica-helps", "good", "ICA helps"),
        ("no-gain", "plain", "no gain"),
        ("ica-harms", "caution", "ICA harms"),
        ("layout-confounded", "caution", "layout-confounded"),
        ("nothing-to-find", "caution", "nothing to find"),
        ("separable", "good", "separable"),
        ("undecided", "caution", "undecided"),
    ],
)
def test_only_a_gain_is_good_news(verdict: Any, tone: str, badge: str) -> None:
    card = card_of(make_evaluation(verdict=verdict))
    assert (card.tone, card.badge) == (tone, badge)
    facts = dict(card.facts)
    assert facts["ICA - PCA, AUROC"] == "+0.108 [0.078, 0.138]"
    assert (facts["PCA + ICA"], facts["position only"]) == ("0.809", "0.531")


def test_ica_that_was_left_out_is_not_tested_and_not_unclear() -> None:
    def badge(code: str) -> str:
        result = replace(FULL, advice=IcaAdvice("unclear", Answer(code, stored=code), ()))
        (card,) = (b for b in blocks_of(result, "advice") if isinstance(b, Card))
        return card.badge

    assert (badge("ica_missing"), badge("wide_interval")) == ("not tested", "unclear")


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
        *(with_figures(SMALLER, figure) for figure in (9e99, -9e99)),
        with_words(SMALLER, "a long name with blanks " * 8),
    ],
)
def test_every_special_result_is_drawn(result: ScreenEvaluation) -> None:
    check_drawn(result)


def test_the_guide_names_ica_only_where_it_was_scored() -> None:
    quick = replace(
        FULL, conditions=tuple(c for c in FULL.conditions if c.representation in ("base", "pca", "position"))
    )
    assert "ICA" in page(FULL).guide
    assert "ICA" not in page(quick).guide
