"""The page of `deconfound clean`: what was taken out, what it cost, and whether other axes would have done as well."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from identifiable import report
from identifiable.deconfounding.metrics.space_metrics import SPACE_METRICS
from identifiable.report import words as wording
from identifiable.report.cleaning_reading import UNSAVED, apply_command
from identifiable.report.page import Card, Cloud, Code, Curve, Curves, Dots, Fold, Page, Section
from identifiable.report.pages import page_of
from identifiable.report.render.html import _environment
from identifiable.report.screen_methods import INVARIANT, METRICS, NEW_PLATES, SAME_AXES
from identifiable.results import Alert, Cleaning, SpaceMetric, from_json, to_json
from identifiable.results.cleaning import CleanDifference
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
    make_attribution,
    make_cleaning,
    make_design,
    make_points,
    with_figures,
    with_words,
)

SMALL = (8, 12)
ATTRIBUTION = make_attribution(grid=(2, 3))
FULL = make_cleaning(attribution=ATTRIBUTION)
RESULTS = {
    "full": FULL,
    "nothing": make_cleaning(
        attribution=make_attribution(size=0, text=""),
        curve=(),
        metrics=(),
        outputs=(),
        biology_lost=0.0,
        verdict="nothing-to-remove",
        text="",
        design=make_design(batches=None, grid=None),
    ),
    "no inputs": replace(FULL, inputs=()),
    "nothing measured": with_figures(FULL, None),
    "huge": with_figures(FULL, 9e99),
    "far below": with_figures(FULL, -9e99),
    "one component": make_cleaning(attribution=make_attribution(size=1, grid=SMALL)),
    "shrunk": replace(FULL, method="shrink", removed=(), weights=tuple(1 - 0.02 * i for i in range(48))),
    "ICA alone": replace(FULL, curve=tuple(p for p in make_points() if p.space == "ica"), verdict="harms"),
}


def curves_of(result: Cleaning) -> list[Curves]:
    return [b for b in blocks_of(result, "trade-off") if isinstance(b, Curves)]


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("name", RESULTS)
def test_every_result_is_drawn_alike_after_json_and_never_says_nan(render: Any, name: str) -> None:
    check_drawn_alike_after_json(RESULTS[name], render)


def test_settings_of_the_attribution_are_shown_as_json_keeps_them() -> None:
    odd = replace(FULL, settings={"sizes": (1, 2)}, attribution=replace(ATTRIBUTION, settings={"sizes": (1, 2)}))
    assert report.html(odd) == report.html(from_json(to_json(odd)))


def test_a_cleaning_shows_itself(tmp_path: Path) -> None:
    assert FULL.table() == report.text_table(FULL)
    assert FULL.report(tmp_path / "page.html").read_text(encoding="utf-8") == report.html(FULL)


def test_sections_appear_only_when_there_is_something() -> None:
    keys = [s.key for s in page_of(FULL).sections]
    assert keys == [
        "verdict",
        "alerts",
        "trade-off",
        "removed",
        "metrics",
        "outputs",
        "design",
        "reading",
        "reproduction",
    ]
    bare = [s.key for s in page_of(RESULTS["nothing"]).sections]
    assert bare == ["verdict", "alerts", "removed", "outputs", "design", "reading", "reproduction"]
    html = report.html(FULL)
    assert set(re.findall(r'href="#([\w-]+)"', html)) <= set(re.findall(r'id="([\w-]+)"', html))


# -- the verdict


@pytest.mark.parametrize(
    ("verdict", "tone"),
    [("ica-cleaning-helps", "good"), ("no-gain", "caution"), ("nothing-to-remove", "plain"), ("harms", "caution")],
)
def test_the_verdict_has_the_price_and_only_a_gain_is_good_news(verdict: Any, tone: str) -> None:
    card = next(b for b in blocks_of(replace(FULL, verdict=verdict)) if isinstance(b, Card))
    facts = dict(card.facts)
    assert card.tone == tone
    assert (facts["dropped"], facts["biology lost"], facts["of a budget of"]) == ("12 of 48", "3 %", "10 %")
    assert facts["plate AUROC"] == "0.940 → 0.580"
    assert facts["replicate mAP"] == "0.410 → 0.458"


def test_the_price_is_told_beside_that_of_other_axes() -> None:
    said = (
        "Plate AUROC 0.940 and replicate mAP 0.410 before. With 12 axes removed: ICA 0.580 and 0.458 [0.438, 0.478]; "
        "PCA 0.676 and 0.266 [0.246, 0.286]; Rand 0.868 and 0.290 [0.270, 0.310]."
    )
    assert said in text_of(FULL, "verdict")
    assert said in " ".join(report.text_table(FULL).split())
    assert "axes removed:" not in text_of(RESULTS["nothing"], "verdict")
    assert "PCA" not in text_of(RESULTS["ICA alone"], "verdict").split("With 12")[1]


# -- the trade-off


def test_the_trade_off_has_three_curves_and_the_chosen_point_marked() -> None:
    (figure,) = curves_of(FULL)
    assert [curve.label for curve in figure.curves] == ["ICA axes removed", "PCA axes removed", "Rand axes removed"]
    assert figure.curves[0].points[0] == (0.94, 0.41)
    assert figure.across_base == 0.5
    chosen = figure.clouds[-1]
    assert chosen.label == "chosen: 12 components removed"
    assert chosen.points[0] == pytest.approx((0.58, 0.458))
    assert all(cloud.label == "" for cloud in figure.clouds[:-1])
    assert SAME_AXES in text_of(FULL, "trade-off")
    (shrunk,) = curves_of(RESULTS["shrunk"])
    assert all(cloud.label == "" for cloud in shrunk.clouds)
    assert curves_of(RESULTS["huge"]) == curves_of(RESULTS["nothing measured"]) == []


def test_paired_differences_are_drawn_beside_no_difference_and_told() -> None:
    found = (CleanDifference("pca", 12, 0.19, (0.16, 0.22)), CleanDifference("whole", 12, -0.01, (-0.03, 0.01)))
    result = replace(FULL, differences=(*found, CleanDifference("rand", 12, math.nan, NO_INTERVAL)))
    (figure,) = (b for b in blocks_of(result, "trade-off") if isinstance(b, Dots))
    assert [(row.label, row.reading) for row in figure.rows] == [
        ("ICA - PCA", "+0.190"),
        ("ICA - before", "-0.010"),
    ]
    assert figure.threshold == ("no difference", 0.0)
    said = "Replicate mAP, paired: ICA - PCA +0.190 [0.160, 0.220]; ICA - before -0.010 [-0.030, 0.010]."
    assert said in text_of(result, "verdict")
    assert said in " ".join(report.text_table(result).split())
    assert "paired" not in text_of(FULL, "verdict")
    assert not any(isinstance(b, Dots) for b in blocks_of(FULL))


def test_the_trade_off_is_in_figures_too() -> None:
    rows = table_called(FULL, "Spaces at the same number").rows
    assert rows[0] == ("0", "ICA", "0.940", "0.410", "[0.390, 0.430]", "0 %")
    assert [row[:2] for row in rows[-3:]] == [("12", "ICA"), ("12", "PCA"), ("12", "Rand")]


def test_clouds_without_a_label_are_left_out_of_the_legend() -> None:
    def drawn(label: str) -> str:
        points = ((0.0, 0.0), (1.0, 1.0))
        figure = Curves("t", "d", "x", "y", (Curve("line", points, 1),), clouds=(Cloud(label, points, "main", 1),))
        page = Page("", "", "", "", (Section("a", "a", (figure,)),))
        return _environment().get_template("page.html").render(page=page)

    assert drawn("").count("<li>") == 1
    assert drawn("measured").count("<li>") == 2


# -- what was removed


def test_removed_components_are_listed_with_their_roles_the_most_technical_first() -> None:
    table = table_called(FULL, "Dropped: 12 of 48 components")
    assert table.rows[0] == ("0", "technical", "0", "0.620", "0.005", "plate 0.43")
    assert len(table.rows) == 12
    assert {row[1] for row in table.rows} == {"technical"}
    shrunk = table_called(RESULTS["shrunk"], "Shrunk: 47 of 48 components")
    assert next(row[2] for row in shrunk.rows if row[0] == "5") == "0.90"
    assert any(isinstance(b, Fold) for b in blocks_of(RESULTS["shrunk"], "removed"))
    assert text_of(RESULTS["nothing"], "removed") == "No component was removed."


def test_a_removed_component_that_the_attribution_lacks_is_still_listed() -> None:
    result = replace(FULL, removed=(0, 77))
    assert ("77", *[wording.MISSING] * 5) in table_called(result, "Dropped").rows


# -- metrics


def test_rotation_invariant_metrics_are_marked_and_stand_once_before_cleaning() -> None:
    table = table_called(FULL, "↑ better if high")
    assert [c.label for c in table.columns] == [
        "metric",
        "before cleaning",
        "ICA, cleaned",
        "PCA, cleaned",
        "Rand, cleaned",
    ]
    assert table.rows == (
        ("replicate mAP ↑ =", "0.410 [0.390, 0.430]", "0.458", "0.270", "0.290"),
        ("PCR, plate ↓ =", "0.380", "0.020", "0.140", "0.330"),
        ("plate AUROC ↓", "0.940 [0.930, 0.950]", "0.580", "0.680", "0.870"),
    )
    assert INVARIANT in text_of(FULL, "metrics")
    assert INVARIANT in " ".join(report.text_table(FULL).split())
    assert "Replicate mAP: replicates in another plate" in text_of(FULL, "metrics")
    plain = replace(FULL, metrics=(SpaceMetric("plate_auroc", "ica", 0.6, NO_INTERVAL, False, "low"),))
    assert INVARIANT not in text_of(plain) + " ".join(report.text_table(plain).split())


def test_every_metric_that_is_measured_has_words_and_only_those_shown_are_explained() -> None:
    assert set(SPACE_METRICS) <= set(METRICS)
    assert METRICS["pcr_plate"].meaning in text_of(FULL, "reading")
    assert METRICS["kbet"].meaning not in text_of(FULL, "reading")
    assert "luecken2022" in report.html(FULL)
    assert "buttner2019" not in report.html(FULL)


# -- what was written


def test_files_are_named_and_new_plates_are_one_command_away() -> None:
    (code,) = (b for b in blocks_of(FULL, "outputs") if isinstance(b, Code))
    assert code.text == "identifiable transform 'clean basis.safetensors' new_plates.parquet -o new_clean.parquet"
    assert [row[0] for row in table_called(FULL, "Files").rows] == ["cleaned.h5ad", "clean basis.safetensors"]
    assert NEW_PLATES in text_of(FULL, "outputs")
    assert "--save-basis" not in text_of(FULL, "outputs")
    assert code.text in report.text_table(FULL)


def test_without_a_saved_basis_the_page_says_how_to_get_one() -> None:
    result = replace(FULL, outputs=("cleaned.h5ad",))
    assert f"clean again with --save-basis {UNSAVED}." in text_of(result, "outputs")
    assert UNSAVED in apply_command(result)
    assert "Files" not in text_of(RESULTS["nothing"], "outputs")


def test_a_file_name_cannot_smuggle_in_a_command() -> None:
    assert apply_command(replace(FULL, outputs=("a;rm -r b.safetensors",))).startswith(
        "identifiable transform 'a;rm -r b.safetensors' "
    )


# -- form


@pytest.mark.parametrize("name", [*RESULTS, "hostile"])
def test_every_line_fits_a_terminal(name: str) -> None:
    result = RESULTS.get(name) or with_words(FULL, "a long name with blanks " * 8)
    lines = [line for line in report.text_table(result).splitlines() if "identifiable transform" not in line]
    assert max(map(wording.columns_wide, lines)) <= 100


@pytest.mark.parametrize("names", [True, False])
def test_hostile_words_are_shown_as_text_and_stay_on_one_line(names: bool) -> None:
    result = with_words(make_cleaning(attribution=ATTRIBUTION, alerts=(Alert("a", "b"),)), HOSTILE, names=names)
    check_words_are_shown_as_text(result)
    check_words_stay_on_one_line(with_words(FULL, "a"), with_words(FULL, "a\x1b\n"))


def test_the_page_loads_nothing_from_elsewhere_and_figures_stay_in_their_frame() -> None:
    check_pages_stand_alone(RESULTS, FULL)


def test_text_blocks_say_nothing_twice_and_markdown_has_every_cell() -> None:
    check_every_cell_is_told(FULL)


def test_figures_that_are_no_shares_are_told_and_not_drawn() -> None:
    odd = replace(FULL, curve=(replace(FULL.curve[0], plate_auroc=math.inf), *FULL.curve[1:5]))
    (figure,) = curves_of(odd)
    assert len(figure.curves[0].points) == 4
    assert table_called(odd, "Spaces at the same number").rows[0][2] == wording.MISSING
