"""The page of `deconfound clean`: what was removed, what it cost, and whether other axes would have done as well."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from identifiable import report
from identifiable.deconfounding.metrics.space_metrics import SPACE_METRICS
from identifiable.report import words
from identifiable.report.frame import glossary
from identifiable.report.page import Code, Curves, Dots, Fold, Terms
from identifiable.report.pages import page_of
from identifiable.report.pages.cleaning import METRICS, UNSAVED, apply_command
from identifiable.results import Answer, Cleaning, SpaceMetric, from_json, to_json
from identifiable.results.cleaning import CleanDifference
from page_reading import blocks_of, card_of, table_called, text_of
from screen_result_cases import (
    NO_INTERVAL,
    make_attribution,
    make_cleaning,
    make_design,
    make_points,
    with_figures,
    with_words,
)

ATTRIBUTION = make_attribution(grid=(2, 3))
FULL = make_cleaning(attribution=ATTRIBUTION)
NOTHING = make_cleaning(
    attribution=make_attribution(size=0, told=Answer("", stored="")),
    curve=(),
    metrics=(),
    outputs=(),
    biology_lost=0.0,
    verdict="nothing-to-remove",
    told=Answer("", stored=""),
    design=make_design(batches=None, grid=None),
)
SHRUNK = replace(FULL, method="shrink", removed=(), weights=tuple(1 - 0.02 * i for i in range(48)))
ICA_ALONE = replace(FULL, curve=tuple(p for p in make_points() if p.space == "ica"), verdict="harms")


def curves_of(result: Cleaning) -> list[Curves]:
    return [b for b in blocks_of(result, "trade-off") if isinstance(b, Curves)]


def test_settings_of_the_attribution_are_shown_as_json_keeps_them() -> None:
    odd = replace(FULL, settings={"sizes": (1, 2)}, attribution=replace(ATTRIBUTION, settings={"sizes": (1, 2)}))
    assert report.html(odd) == report.html(from_json(to_json(odd)))


def test_sections_appear_only_when_there_is_something() -> None:
    assert [s.key for s in page_of(FULL).sections] == [
        "verdict", "alerts", "trade-off", "removed", "metrics", "outputs", "design", "reading", "reproduction",
    ]  # fmt: skip
    bare = [s.key for s in page_of(NOTHING).sections]
    assert bare == ["verdict", "alerts", "removed", "outputs", "design", "reading", "reproduction"]


# -- the verdict


@pytest.mark.parametrize(
    ("verdict", "tone", "badge"),
    [
        ("ica-cleaning-helps", "good", "ICA cleaning helps"),
        ("no-gain", "caution", "no gain"),
        ("nothing-to-remove", "plain", "nothing to remove"),
        ("harms", "caution", "cleaning harms"),
    ],
)
def test_the_verdict_has_the_price_and_only_a_gain_is_good_news(verdict: Any, tone: str, badge: str) -> None:
    card = card_of(replace(FULL, verdict=verdict))
    facts = dict(card.facts)
    assert (card.tone, card.badge) == (tone, badge)
    assert (facts["dropped"], facts["biology lost"], facts["budget"]) == ("12 of 48 components", "3 %", "10 %")
    assert facts["plate AUROC"] == "0.940 → 0.580"
    assert facts["replicate mAP"] == "0.410 → 0.458"


def test_the_price_stands_beside_that_of_other_axes_with_the_paired_difference() -> None:
    found = (CleanDifference("pca", 12, 0.19, (0.16, 0.22)), CleanDifference("whole", 12, -0.01, (-0.03, 0.01)))
    result = replace(FULL, differences=(*found, CleanDifference("rand", 12, math.nan, NO_INTERVAL)))
    table = table_called(result, "Axes removed from")
    assert table.brief
    assert table.rows == (
        ("before cleaning", "0.940", "0.410", "[0.390, 0.430]", "0 %", "-0.010 [-0.030, 0.010]"),
        ("ICA", "0.580", "0.458", "[0.438, 0.478]", "10 %", words.MISSING),
        ("PCA", "0.676", "0.266", "[0.246, 0.286]", "10 %", "+0.190 [0.160, 0.220]"),
        ("Rand", "0.868", "0.290", "[0.270, 0.310]", "10 %", words.MISSING),
    )
    (figure,) = (b for b in blocks_of(result, "trade-off") if isinstance(b, Dots))
    assert [(row.label, row.reading) for row in figure.rows] == [("ICA - PCA", "+0.190"), ("ICA - before", "-0.010")]
    assert figure.threshold == ("no difference", 0.0)
    assert not any(isinstance(b, Dots) for b in blocks_of(FULL))
    assert [row[0] for row in table_called(ICA_ALONE, "Axes removed from").rows] == ["before cleaning", "ICA"]


# -- the trade-off


def test_the_trade_off_has_three_curves_and_the_chosen_point_marked() -> None:
    (figure,) = curves_of(FULL)
    assert [curve.label.split()[0] for curve in figure.curves] == ["ICA", "PCA", "Rand"]
    assert figure.curves[0].points[0] == (0.94, 0.41)
    assert figure.across_base == 0.5
    chosen = figure.clouds[-1]
    assert "12 components" in chosen.label
    assert chosen.points[0] == pytest.approx((0.58, 0.458))
    assert all(cloud.label == "" for cloud in figure.clouds[:-1])
    (shrunk,) = curves_of(SHRUNK)
    assert all(cloud.label == "" for cloud in shrunk.clouds)
    assert curves_of(with_figures(FULL, None)) == curves_of(with_figures(FULL, 9e99)) == []


def test_the_trade_off_is_in_numbers_too() -> None:
    rows = table_called(FULL, "Spaces at the").rows
    assert rows[0] == ("0", "ICA", "0.940", "0.410", "[0.390, 0.430]", "0 %")
    assert [row[:2] for row in rows[-3:]] == [("12", "ICA"), ("12", "PCA"), ("12", "Rand")]


def test_a_point_that_was_not_measured_is_in_the_table_and_not_drawn() -> None:
    odd = replace(FULL, curve=(replace(FULL.curve[0], plate_auroc=math.inf), *FULL.curve[1:5]))
    (figure,) = curves_of(odd)
    assert len(figure.curves[0].points) == 4
    assert table_called(odd, "Spaces at the").rows[0][2] == words.MISSING


# -- what was removed


def test_removed_components_are_listed_with_their_roles_the_most_technical_first() -> None:
    table = table_called(FULL, "Dropped: 12 of 48")
    assert table.brief
    assert table.rows[0] == ("0", "technical", "0", "0.620", "0.005", "plate 0.43")
    assert len(table.rows) == 12
    assert {row[1] for row in table.rows} == {"technical"}
    shrunk = table_called(SHRUNK, "Shrunk: 47 of 48")
    assert next(row[2] for row in shrunk.rows if row[0] == "5") == "0.90"
    assert any(isinstance(b, Fold) for b in blocks_of(SHRUNK, "removed"))
    assert len(list(blocks_of(NOTHING, "removed"))) == 1


def test_a_removed_component_that_the_attribution_lacks_is_still_listed() -> None:
    result = replace(FULL, removed=(0, 77))
    assert ("77", *[words.MISSING] * 5) in table_called(result, "Dropped").rows


# -- metrics


def test_rotation_invariant_metrics_are_marked_and_stand_once_before_cleaning() -> None:
    table = table_called(FULL, "↑ higher is")
    assert table.brief
    assert [c.label for c in table.columns] == [
        "metric", "before cleaning", "ICA, cleaned", "PCA, cleaned", "Rand, cleaned",
    ]  # fmt: skip
    assert table.rows == (
        ("replicate mAP ↑ =", "0.410 [0.390, 0.430]", "0.458", "0.270", "0.290"),
        ("PCR, plate ↓ =", "0.380", "0.020", "0.140", "0.330"),
        ("plate AUROC ↓", "0.940 [0.930, 0.950]", "0.580", "0.680", "0.870"),
    )
    assert f"Replicate mAP: {FULL.metrics[0].note}" in text_of(FULL, "metrics")
    plain = replace(FULL, metrics=(SpaceMetric("plate_auroc", "ica", 0.6, NO_INTERVAL, False, "low"),))
    assert [row[0] for row in table_called(plain, "↑ higher is").rows] == ["plate AUROC ↓"]


def test_every_metric_that_is_measured_is_explained_and_only_those_shown() -> None:
    assert set(SPACE_METRICS) <= set(METRICS)
    assert {name for name, _ in METRICS.values()} <= set(glossary("cleaning"))
    explained = {name for b in blocks_of(FULL, "reading") if isinstance(b, Terms) for name, _ in b.items}
    assert "PCR, plate" in explained
    assert "kBET" not in explained
    assert "luecken2022" in report.html(FULL)
    assert "buttner2019" not in report.html(FULL)


# -- what was written


def test_files_are_named_and_new_plates_are_one_command_away() -> None:
    (code,) = (b for b in blocks_of(FULL, "outputs") if isinstance(b, Code))
    assert code.text == "identifiable transform 'clean basis.safetensors' new_plates.parquet -o new_clean.parquet"
    assert [row[0] for row in table_called(FULL, "Files").rows] == ["cleaned.h5ad", "clean basis.safetensors"]
    assert "--save-basis" not in text_of(FULL, "outputs")
    assert code.text in report.text_table(FULL)


def test_without_a_saved_basis_the_page_says_how_to_get_one() -> None:
    result = replace(FULL, outputs=("cleaned.h5ad",))
    assert f"--save-basis {UNSAVED}" in text_of(result, "outputs")
    assert UNSAVED in apply_command(result)


def test_a_file_name_cannot_smuggle_in_a_command() -> None:
    hostile = replace(FULL, outputs=("a;rm -r b.safetensors",))
    assert "transform 'a;rm -r b.safetensors' " in apply_command(hostile)


# -- form


@pytest.mark.parametrize(
    "result",
    [
        FULL,
        NOTHING,
        SHRUNK,
        ICA_ALONE,
        *(with_figures(FULL, figure) for figure in (None, 9e99, -9e99)),
        with_words(FULL, "a long name with blanks " * 8),
    ],
)
def test_every_line_fits_a_terminal_and_figures_stay_in_their_frame(result: Cleaning) -> None:
    lines = [line for line in report.text_table(result).splitlines() if "identifiable transform" not in line]
    assert max(map(words.columns_wide, lines)) <= 100
    assert all(0 <= float(v) <= 100 for v in re.findall(r'\bx\d?="([\d.-]+)%"', report.html(result)))
