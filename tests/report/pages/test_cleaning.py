"""The page of `deconfound clean`: what was removed, what it cost, and whether other axes would have done as well."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from builders import (
    NO_INTERVAL,
    blocks_of,
    card_of,
    check_drawn,
    make_attribution,
    make_cleaning,
    make_design,
    make_points,
    table_called,
    text_of,
    with_figures,
    with_words,
)
from identifiable import report
from identifiable.deconfounding.metrics.space_metrics import SPACE_METRICS
from identifiable.report import words
from identifiable.report.frame import glossary
from identifiable.report.page import Curves, Dots, Terms
from identifiable.report.pages.cleaning import METRICS, UNSAVED, apply_command
from identifiable.results import Answer, Cleaning, SpaceMetric
from identifiable.results.cleaning import CleanDifference

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


# -- the verdict


@pytest.mark.parametrize(
    ("verdict", "tone", "badge"),
    [
        ("ica-cleaning-helps", "good", "ICA cleaning helps"),
        ("no-gain", "caution", "no gain"),
        ("nothing-to-remove", "plain", "nothing to remove"),
        ("keep-as-is", "caution", "keep the table as it is"),
        ("harms", "caution", "cleaning harms"),
    ],
)
def test_the_verdict_has_the_price_and_only_a_gain_is_good_news(verdict: Any, tone: str, badge: str) -> None:
    card = card_of(replace(FULL, verdict=verdict))
    facts = dict(card.facts)
    assert (card.tone, card.badge) == (tone, badge)
    assert (facts["dropped"], facts["biology lost, all plates"], facts["budget"]) == (
        "12 of 48 components",
        "3 %",
        "10 %",
    )
    assert facts["plate AUROC, half against half"] == "0.940 → 0.580"
    assert facts["replicate mAP, half against half"] == "0.410 → 0.458"


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
    assert not any(isinstance(b, Dots) for b in blocks_of(FULL, "trade-off"))
    assert [row[0] for row in table_called(ICA_ALONE, "Axes removed from").rows] == ["before cleaning", "ICA"]


# -- cleaned against input


def test_metrics_of_the_cleaned_table_stand_beside_those_of_the_input() -> None:
    table = table_called(FULL, "All wells with")
    assert table.brief
    assert [row[0] for row in table.rows] == ["1-NN, cosine ↑", "1-NN, cosine ↑", "batch readable ↓"]
    assert table.rows[1][2:] == ("0.600", "0.580", "-0.020 [-0.050, 0.010]")
    figures = [b for b in blocks_of(FULL, "checks") if isinstance(b, Dots)]
    assert [[(row.label, row.reading) for row in figure.rows] for figure in figures] == [
        [("1-NN, cosine", "+0.060")],
        [("1-NN, cosine", "-0.020")],
    ]
    explained = {name for b in blocks_of(FULL, "reading") if isinstance(b, Terms) for name, _ in b.items}
    assert {"1-NN, cosine", "batch readable"} <= explained
    assert not list(blocks_of(replace(FULL, checks=()), "checks"))


def test_a_table_that_was_withheld_has_no_file_and_no_command() -> None:
    kept = replace(FULL, verdict="harms", outputs=())
    assert "--force" in text_of(kept, "outputs")
    assert "--force" not in text_of(replace(FULL, outputs=()), "outputs")
    assert apply_command(kept) not in report.markdown(kept)


# -- the trade-off


def test_a_point_that_was_not_measured_is_in_the_table_and_not_drawn() -> None:
    odd = replace(FULL, curve=(replace(FULL.curve[0], plate_auroc=math.inf), *FULL.curve[1:5]))
    (figure,) = curves_of(odd)
    assert len(figure.curves[0].points) == 4
    assert table_called(odd, "Spaces at the").rows[0][2] == words.MISSING


# -- what was removed


def test_a_removed_component_that_the_attribution_lacks_is_still_listed() -> None:
    result = replace(FULL, removed=(0, 77))
    assert ("77", *[words.MISSING] * 5) in table_called(result, "Dropped").rows


# -- metrics


def test_rotation_invariant_metrics_are_marked_and_stand_once_before_cleaning() -> None:
    table = table_called(FULL, "On one half")
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
    assert [row[0] for row in table_called(plain, "On one half").rows] == ["plate AUROC ↓"]


def test_every_metric_that_is_measured_is_explained_and_only_those_shown() -> None:
    assert set(SPACE_METRICS) <= set(METRICS)
    assert {name for name, _ in METRICS.values()} <= set(glossary("cleaning"))
    explained = {name for b in blocks_of(FULL, "reading") if isinstance(b, Terms) for name, _ in b.items}
    assert "PCR, plate" in explained
    assert "kBET" not in explained
    assert "luecken2022" in report.html(FULL)
    assert "buttner2019" not in report.html(FULL)


# -- what was written


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
        *(with_figures(FULL, figure) for figure in (9e99, -9e99)),
        with_words(FULL, "a long name with blanks " * 8),
    ],
)
def test_every_special_result_is_drawn(result: Cleaning) -> None:
    check_drawn(result)
