"""The page of `deconfound evaluate`: differences with their intervals, layout and chance beside every gain."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from identifiable import report
from identifiable.deconfounding.corrections.registry import CORRECTIONS
from identifiable.report import words as wording
from identifiable.report.page import Card, Dots, Fold, Mark, Text
from identifiable.report.pages import page_of
from identifiable.report.screen_evaluation import DIFFERENCES_DRAWN
from identifiable.report.screen_evaluation_reading import Board, duration, first_difference, layout_words, probe_words
from identifiable.report.screen_methods import FEW_SPLITS, LOST_FORMULA, ONE_SPACE, REPRESENTATIONS, WITHIN_PLATE
from identifiable.report.screen_reading import LISTED
from identifiable.results import Alert, IcaAdvice, ScreenEvaluation, StageTime
from page_reading import (
    HOSTILE,
    RENDERERS,
    blocks_of,
    check_drawn_alike_after_json,
    check_every_cell_is_told,
    check_pages_stand_alone,
    check_words_are_shown_as_text,
    check_words_stay_on_one_line,
    table_called,
    text_of,
)
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
PLATE = ("plate", "train")
NOTHING: dict[str, Any] = {
    "targets": (),
    "null_targets": (),
    "skipped": {},
    "conditions": (),
    "differences": (),
    "leakage": (),
    "fitted": (),
    "times": (),
    "verdict": "undecided",
    "advice": IcaAdvice("unclear", "", ()),
    "text": "",
}
RESULTS = {
    "full": FULL,
    "bare": make_evaluation(**NOTHING),
    "no inputs": replace(FULL, inputs=()),
    "nothing measured": with_figures(SMALLER, None),
    "huge": with_figures(SMALLER, 9e99),
    "far below": with_figures(SMALLER, -9e99),
    "trees alone": make_evaluation(
        conditions=tuple(c for c in make_conditions() if c.classifier == "lightgbm"),
        differences=(),
        leakage=(),
        times=(),
    ),
    "a probe alone": make_evaluation(conditions=tuple(c for c in make_conditions() if c.classifier == "ridge")),
    "one perturbation": make_evaluation(targets=TARGETS[:1], null_targets=()),
    "no batches": make_evaluation(design=make_design(batches=None, grid=None), conditions=tuple(make_conditions())),
    "skipped": make_evaluation(
        conditions=(
            make_condition("base", auroc=0.6),
            make_condition("harmony", skipped="needs two batches", se=math.nan, ci95=NO_INTERVAL),
        ),
        verdict="layout-confounded",
    ),
}


def dots_called(result: ScreenEvaluation, start: str) -> Dots:
    return next(b for b in blocks_of(result) if isinstance(b, Dots) and b.title.startswith(start))


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("name", RESULTS)
def test_every_result_is_drawn_alike_after_json_and_never_says_nan(render: Any, name: str) -> None:
    check_drawn_alike_after_json(RESULTS[name], render)


def test_an_evaluation_shows_itself(tmp_path: Path) -> None:
    assert FULL.table() == report.text_table(FULL)
    assert FULL.report(tmp_path / "page.html").read_text(encoding="utf-8") == report.html(FULL)
    assert report.html(FULL) != report.html(make_evaluation("others"))


def test_sections_appear_only_when_there_is_something() -> None:
    def keys(name: str) -> list[str]:
        return [s.key for s in page_of(RESULTS[name]).sections]

    assert keys("full") == [
        "verdict", "alerts", "advice", "scores", "differences", "targets", "leakage", "sparsity", "fitted", "time", "skipped",
        "design", "reading", "reproduction",
    ]  # fmt: skip
    assert keys("bare") == ["verdict", "advice", "design", "reading", "reproduction"]
    html = report.html(FULL)
    assert set(re.findall(r'href="#([\w-]+)"', html)) <= set(re.findall(r'id="([\w-]+)"', html))


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
    card = next(b for b in blocks_of(make_evaluation(verdict=verdict)) if isinstance(b, Card))
    assert (card.tone, card.badge) == (tone, badge)
    assert dict(card.facts)["ICA - PCA, AUROC"] == "+0.108 [0.078, 0.138]"
    assert report.text_table(make_evaluation(verdict=verdict)).splitlines()[1].startswith(f"{badge}: ICA tells")


@pytest.mark.parametrize(("answer", "tone"), [("yes", "good"), ("no", "caution"), ("unclear", "plain")])
def test_the_advice_is_a_card_with_its_reasons_and_can_say_no(answer: Any, tone: str) -> None:
    result = make_evaluation(
        advice=IcaAdvice(answer, "the components are Gaussian", ("38 of 48 are Gaussian", "no gain"))
    )
    card, *reasons = blocks_of(result, "advice")
    assert isinstance(card, Card)
    assert (card.badge, card.tone, card.sentence) == (answer, tone, "The components are Gaussian.")
    assert [b.text for b in reasons if isinstance(b, Text)] == ["1. 38 of 48 are Gaussian.", "2. No gain."]
    assert f"Use ICA here? {answer}: The components are Gaussian." in report.text_table(result)
    assert "  - 38 of 48 are Gaussian.\n" in report.text_table(result)


# -- scores


def test_trees_and_the_probe_are_drawn_side_by_side_with_chance_position_nulls_and_rotations() -> None:
    figure = dots_called(FULL, "AUROC, plates left out, representations fitted to training plates")
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
    assert {kind for kind, _ in figure.legend} == {"main", "hollow", "whisker", "shuffle", "rotation"}
    alone = dots_called(RESULTS["trees alone"], "AUROC")
    assert "hollow" not in {kind for kind, _ in alone.legend}


def test_pooled_and_within_plate_stand_in_one_line_with_the_excess_over_null_guides() -> None:
    rows = table_called(FULL, "Mean over perturbations; plates left out, representations fitted to training").rows
    assert rows[4] == (
        "PCA + ICA", "LightGBM", "0.809 [0.789, 0.829]", "0.008", "0.819 [0.794, 0.844]", "+0.306 [0.279, 0.329]", "5",
    )  # fmt: skip
    assert rows[5][:2] == ("PCA + ICA", "linear probe")
    assert WITHIN_PLATE in text_of(FULL, "scores")


def test_other_ways_to_leave_out_and_to_fit_are_folded() -> None:
    folds = [b.summary for b in blocks_of(FULL, "scores") if isinstance(b, Fold)]
    assert folds == [
        "Plates left out, representations fitted to all wells",
        "Batches left out, representations fitted to training plates only",
    ]
    assert not any(isinstance(b, Fold) for b in blocks_of(RESULTS["trees alone"], "scores"))


def test_a_probe_that_sees_rotations_alike_is_said_to_and_one_that_does_not_is_called_out() -> None:
    said = probe_words(Board(FULL), PLATE)
    assert (
        said == "The linear probe scores 0.740 on PCA, 0.740 on PCA + ICA and 0.740 on PCA + Rand: alike, as it must."
    )
    assert said in text_of(FULL, "scores")
    assert ONE_SPACE in text_of(FULL, "scores")
    assert ONE_SPACE in " ".join(report.text_table(FULL).split())
    apart = tuple(
        replace(c, auroc=0.78) if (c.representation, c.classifier) == ("ica", "ridge") else c for c in FULL.conditions
    )
    broken = text_of(make_evaluation(conditions=apart), "scores")
    assert "0.040 apart, though rotations cannot differ to a linear probe" in broken
    assert "alike, as it must" not in broken
    assert probe_words(Board(RESULTS["trees alone"]), PLATE) == ""


def test_position_that_scores_as_much_as_any_representation_is_said() -> None:
    assert layout_words(Board(FULL), PLATE) == (
        "Without a picture: position only 0.531 [0.511, 0.551] and plate only 0.500 [0.480, 0.520]."
    )
    locked = tuple(
        replace(c, auroc=0.99, ci95=(0.98, 1.0)) if c.representation == "position" else c for c in FULL.conditions
    )
    told = text_of(make_evaluation(conditions=locked), "scores")
    assert "No representation scores more than position only: what they score need not be biology." in told
    assert "No representation scores more" not in text_of(FULL, "scores")


def test_ica_is_placed_among_random_rotations() -> None:
    assert (
        "Random rotations score from 0.685 to 0.702, 0.693 on average; ICA's 0.809 lies above all of them."
        in text_of(FULL, "scores")
    )
    lower = tuple(
        replace(c, auroc=0.69) if (c.representation, c.target) == ("ica", "all") else c for c in FULL.conditions
    )
    assert "ICA's 0.690 lies among them." in text_of(make_evaluation(conditions=lower), "scores")


def test_what_was_not_scored_is_said_with_its_reason() -> None:
    assert "Not scored (needs two batches): Harmony, LightGBM." in text_of(RESULTS["skipped"], "scores")
    assert "Not scored (needs two batches): Harmony, LightGBM." in report.text_table(RESULTS["skipped"])
    assert [row.label for row in dots_called(RESULTS["skipped"], "AUROC").rows] == ["Base"]
    assert "Not scored" not in text_of(FULL)


def test_every_correction_that_can_be_asked_for_has_words() -> None:
    assert set(CORRECTIONS) <= set(REPRESENTATIONS)
    told = text_of(FULL, "reading")
    assert REPRESENTATIONS["tvn"].meaning in told
    assert REPRESENTATIONS["combat"].meaning not in told
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
    rows = table_called(FULL, "AUROC of the first less").rows
    assert rows[0] == ("PCA + ICA - PCA", "LightGBM", "+0.108 [0.078, 0.138]", "+0.118 [0.088, 0.148]")
    found = first_difference(FULL)
    assert found is not None
    assert (found.first, found.second, found.fit) == ("ica", "pca", "train")
    assert first_difference(make_evaluation(differences=())) is None


def test_a_loss_is_drawn_left_of_the_line() -> None:
    loss = make_difference(difference=-0.04, ci95=(-0.06, -0.02), within_plate=-0.03, within_plate_ci95=(-0.05, -0.01))
    result = make_evaluation(differences=(loss,), verdict="ica-harms")
    assert "-0.040 [-0.060, -0.020]" in text_of(result, "verdict")
    html = report.html(result)
    limit = re.search(r'<path class="limit" d="M([\d.]+) 18', html[html.index("Paired differences,") :])
    main = re.search(r'<path class="m main" d="M([\d.]+) ', html[html.index("Paired differences,") :])
    assert limit is not None
    assert main is not None
    assert float(main[1]) < float(limit[1])


# -- perturbations


def test_perturbations_are_a_heat_map_with_the_gain_and_null_guides_marked() -> None:
    table = table_called(FULL, "AUROC of LightGBM")
    assert [c.label for c in table.columns][:4] == ["perturbation", "Base", "PCA", "PCA + ICA"]
    assert table.rows[0][0] == "MTOR_guide_1"
    assert table.rows[0][3] == "0.779"
    assert table.rows[0][-1] == "+0.108 [0.078, 0.138]"
    assert table.rows[-1][0] == "null 2 (null guide)"
    shades = table.shades[0]
    assert shades[2] > shades[0] > shades[5]  # type: ignore[operator]
    assert shades[-1] is None
    assert table.shades[-1][0] == 0  # a null guide is at chance


def test_many_perturbations_are_folded() -> None:
    names = tuple(f"G{i}" for i in range(LISTED + 12))
    result = make_evaluation(
        targets=names,
        null_targets=(),
        conditions=tuple(make_condition("ica", target=t, auroc=0.7) for t in ("all", *names)),
        differences=tuple(make_difference(target=t) for t in names),
    )
    folds = [b for b in blocks_of(result, "targets") if isinstance(b, Fold)]
    assert folds[0].summary == "12 more perturbations"
    assert len(next(b for b in folds[1].blocks if isinstance(b, Dots)).rows) == DIFFERENCES_DRAWN
    assert folds[1].summary.endswith(f"the first {DIFFERENCES_DRAWN}")


# -- leakage, sparsity, fits, time


def test_leakage_stands_beside_both_fits() -> None:
    rows = table_called(FULL, "AUROC, and what it gains").rows
    assert rows[0] == ("PCA + ICA", "LightGBM", "plates left out", "0.813", "0.809", "+0.004 [-0.001, 0.009]")
    assert rows[1][-1] == "0"


def test_sparsity_is_never_shown_without_its_null_and_its_splits() -> None:
    rows = table_called(FULL, "Splits of LightGBM").rows
    assert rows[2] == ("PCA + ICA", "1,812", "0.262", "0.112", "+0.150")
    assert [row[0] for row in rows] == ["Base", "PCA", "PCA + ICA", "PCA + Rand", "TVN"]
    assert FEW_SPLITS in text_of(FULL, "sparsity")
    assert FEW_SPLITS in " ".join(report.text_table(FULL).split())
    marks = dots_called(FULL, "Hoyer").rows[2].marks
    assert marks == (Mark("main", 0.262), Mark("shuffle", 0.112))
    assert FEW_SPLITS not in text_of(RESULTS["a probe alone"])


def test_concentration_is_shown_by_its_candidates_and_claims_no_formula() -> None:
    table = table_called(FULL, "Concentration")
    assert [c.label for c in table.columns][-4:] == ["difference", "Gini", "ratio", "above chance"]
    assert table.rows[1] == ("PCA", "25 %", "12", "0.790", "0.640", "0.809", "+0.150", "+0.300", "+0.234", "+1.070")
    assert LOST_FORMULA in text_of(FULL, "sparsity")
    assert LOST_FORMULA not in text_of(RESULTS["skipped"])


def test_what_was_fitted_says_how_much_of_it_is_reproducible() -> None:
    rows = table_called(FULL, "Reproducible").rows
    assert rows[0] == ("PCA + ICA", "training plates", "0", "48", "yes", "41 of 48", "3", wording.MISSING)
    assert rows[1][4] == "no"
    assert rows[2][1:3] == ("all wells", wording.MISSING)


def test_the_longest_stage_is_named_first_with_its_share() -> None:
    assert "15.9 min in all; most of it, 85 %, LightGBM. 320 units were read from an earlier run." in text_of(
        FULL, "time"
    )
    rows = table_called(FULL, "Wall clock").rows
    assert rows[0] == ("LightGBM", "13.5 min", "85 %", "960", "320")
    assert rows[-1] == ("folds", "0.4 s", "0 %", "5", wording.MISSING)
    assert "Time:" not in report.text_table(make_evaluation(times=(StageTime("a", math.nan, 0),)))


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.04, "4.0e-2 s"), (12.0, "12.0 s"), (300.0, "5.0 min"), (9000.0, "2.5 h"), (math.nan, "–")]
)
def test_durations_are_said_in_the_unit_that_fits(seconds: float, said: str) -> None:
    assert duration(seconds) == said


# -- form


@pytest.mark.parametrize("name", [*RESULTS, "hostile"])
def test_every_line_fits_a_terminal(name: str) -> None:
    result = RESULTS.get(name) or with_words(SMALLER, "a long name with blanks " * 8)
    assert max(map(wording.columns_wide, report.text_table(result).splitlines())) <= 100


@pytest.mark.parametrize("names", [True, False])
def test_hostile_words_are_shown_as_text_and_stay_on_one_line(names: bool) -> None:
    result = with_words(replace(SMALLER, alerts=(Alert("a", "b"),)), HOSTILE, names=names)
    check_words_are_shown_as_text(result)
    check_words_stay_on_one_line(with_words(SMALLER, "a"), with_words(SMALLER, "a\x1b\n"))


def test_the_page_loads_nothing_from_elsewhere_and_figures_stay_in_their_frame() -> None:
    check_pages_stand_alone(RESULTS, FULL)


def test_text_blocks_say_nothing_twice_and_markdown_has_every_cell() -> None:
    check_every_cell_is_told(FULL)
