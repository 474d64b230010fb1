"""The page of `deconfound recommend`: the verdict, the ranked methods, the choice held out, wells before and after."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import blocks_of, make_recommendation, table_called
from identifiable import report, results
from identifiable.report.frame import glossary
from identifiable.report.page import Card, Code, Curves, Dots, Fold, Grid, Notice
from identifiable.report.pages import page_of
from identifiable.report.screen_names import LABEL, RETRIEVAL, label_name, method_name
from identifiable.results import Alert

FULL = make_recommendation()
KEPT = replace(FULL, verdict="keep-as-is", written="as-is")


def of_kind(result, kind):
    return [block for block in blocks_of(result) if isinstance(block, kind)]


@pytest.mark.parametrize(("verdict", "tone"), [("recommended", "good"), ("tie", "caution"), ("keep-as-is", "plain")])
def test_the_verdict_has_its_tone(verdict, tone):
    (card,) = of_kind(replace(FULL, verdict=verdict), Card)
    assert card.tone == tone
    assert dict(card.facts)["family chosen in"] == "9 of 10 folds"


def test_the_summary_has_the_scores_of_the_choice_held_out():
    nested = (results.HeldOutScore("nn_cosine", 0.615, 0.015, (-0.02, 0.04)),)
    (card,) = of_kind(replace(FULL, nested=nested), Card)
    assert dict(card.facts)["1-NN, cosine"].startswith("0.600 → 0.615")
    assert "→" not in dict(card.facts)["replicate mAP"]


def test_methods_are_ranked_and_what_is_below_the_input_is_marked():
    table = table_called(FULL, "Scores on batches held out")
    assert [row[:2] for row in table.rows] == [
        ("sphering 0.3", "chosen"),
        ("z-scored columns", "–"),
        ("ComBat", "worse"),
    ]
    assert table.rows[0][2:] == ("0.650", "0.850", "0.750", "9")
    assert table.strong == 0


def test_the_figure_shows_the_worst_metric_of_each_method_with_its_interval():
    (figure,) = of_kind(FULL, Dots)
    assert [(row.label, row.reading, row.interval) for row in figure.rows] == [
        ("sphering 0.3", "+0.050", pytest.approx((0.02, 0.08))),
        ("ComBat", "-0.100", pytest.approx((-0.13, -0.07))),
    ]


def test_wells_are_drawn_before_and_after_by_batch_and_by_target():
    figures = of_kind(FULL, Curves)
    assert len(figures) == 4
    assert [cloud.label for cloud in figures[0].clouds] == ["other", "week 1", "week 2"]
    assert sum(len(cloud.points) for cloud in figures[0].clouds) == 3
    assert len(of_kind(FULL, Grid)) == 2
    assert not of_kind(replace(FULL, pictures=(), plate_maps=()), Curves | Grid)


def test_the_input_that_is_kept_has_no_command_for_new_plates():
    assert any("correction.safetensors" in block.text for block in of_kind(FULL, Code))
    assert not any("transform" in block.text for block in of_kind(KEPT, Code))
    assert not any("transform" in block.text for block in of_kind(replace(FULL, written="combat"), Code))


def test_three_alerts_are_shown_and_the_others_folded():
    several = replace(FULL, alerts=tuple(Alert(f"code_{k}") for k in range(6)))
    (section,) = (s for s in page_of(several).sections if s.key == "alerts")
    assert [type(block) for block in section.blocks] == [Notice, Notice, Notice, Fold]
    assert len(section.blocks[-1].blocks) == 3
    assert report.text_table(several).count("code_") >= 6
    few = replace(FULL, alerts=several.alerts[:3])
    (section,) = (s for s in page_of(few).sections if s.key == "alerts")
    assert [type(block) for block in section.blocks] == [Notice] * 3


def test_every_metric_is_explained():
    assert set(RETRIEVAL.values()) <= set(glossary("recommendation"))


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("control-mad-plate", "control MAD by plate"),
        ("control-z-batch+sphering-0.1", "control z-score by batch, sphering 0.1"),
        ("tvn", "TVN"),
        ("pca", "PCA"),
        ("as-is", "as it is"),
    ],
)
def test_methods_have_names(key, name):
    assert method_name(key) == name
    assert len(label_name(key)) <= LABEL
