"""The page of `reproduce table2`: every number from the result, kinds of latents apart, nothing claimed of other data."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest

from builders import (
    ROWS,
    STEPS,
    Outline,
    blocks_of,
    card_of,
    check_drawn,
    make_png,
    make_table2,
    tables_of,
)
from errors import naming
from identifiable import report
from identifiable._checks import DataError
from identifiable.report import words as wording
from identifiable.report.frame import glossary
from identifiable.report.page import LEFT_OUT, Curves, Dots, Image, Table, Text
from identifiable.results import Alert, Cell, Choice, Evaluation, Table2, from_json, to_json

WORDS = glossary("table2")
PLAIN = make_table2()
CONTINUOUS = tuple(row for row in ROWS if row not in ("QLAE", "VQ-VAE"))
RESULTS = {
    "plain": PLAIN,
    "lowers": make_table2(lift=-0.3),
    "unclear": make_table2(lift=0.01),
    "one seed": make_table2(seeds=1),
    "one data set": make_table2(data=["sprites"]),
    "the paper's data": make_table2(data=["shapes3d", "mpi3d"], scale="paper"),
    "nothing passes": make_table2(missing=[(row, data) for row in ROWS for data in ("all", "sprites", "scene")]),
    "a row is missing": make_table2(missing=[("BioAE", "scene"), ("BioAE", "all")]),
    "continuous alone": make_table2(rows=CONTINUOUS, traversals=False),
    "bare": replace(
        make_table2(rows=(), choices=(), published={}, alerts=[Alert("few", stored="Few.")], traversals=False), runs=()
    ),
    "many data sets": make_table2(data=["sprites", "scene", "dsprites", "shapes3d", "mpi3d", "falcor3d", "isaac3d"]),
    "wide": make_table2(half=1.5, infoe_moves=-0.2, lift=-0.3),
    **{
        f"published {i}": make_table2(published=published, choices=[Choice("pair", (1, math.inf), "ours", (2.0,))])
        for i, published in enumerate(
            (
                {"columns": ("all",), "rows": {"AE": ((0.1, math.nan, 0.2),), "x": (1,)}, "by_others": "AE"},
                {"columns": 3, "rows": [1], "by_others": None},
                {"columns": ["all"], "rows": {"AE": [["a", 1, 2]], "AE + ICA": [[1e300, 1, 2]]}},
            )
        )
    },
}


def estimated(cell: Cell | None) -> str:
    assert cell is not None
    return wording.estimate(cell.infom.mean, cell.infom.ci95)


def score_tables(result: Table2, latents: str = "continuous") -> list[Table]:
    """Ours with intervals: all data first, then each data set."""
    found = [
        t
        for t in tables_of(result, "scores")
        if t.caption.startswith("Ours") and "PSNR" in {c.label for c in t.columns}
    ]
    return [t for t in found if f"{latents} latents" in t.caption]


def notes(result: Table2, key: str) -> str:
    """What a section says beside its tables."""
    return " ".join(block.text for block in blocks_of(result, key) if isinstance(block, Text))


@pytest.mark.parametrize("name", RESULTS)
def test_every_special_result_is_drawn(name: str) -> None:
    check_drawn(RESULTS[name])


# -- the verdict


def test_the_verdict_is_the_lift_with_its_interval_seeds_data_and_scale() -> None:
    card = card_of(PLAIN)
    assert re.search(naming("+0.26 [+0.21, +0.31]", "0.39", "0.65"), card.sentence)
    assert (card.tone, card.badge) == ("good", "ICA lifts InfoM")
    assert dict(card.facts) == {
        "lift of InfoM": "+0.260",
        "its 95 % interval": "[0.210, 0.310]",
        "InfoM before, after ICA": "0.390, 0.650",
        "seeds": "3",
    }
    assert re.search(naming("sprites", "scene", "3 seeds", "72 models", "small"), card.eyebrow)


@pytest.mark.parametrize(
    ("name", "badge", "lift"),
    [
        ("lowers", "ICA lowers InfoM", "-0.300"),
        ("unclear", "no clear effect", "+0.010"),
        ("one seed", "too few seeds", "+0.260"),
        ("nothing passes", "nothing passes the filter", wording.MISSING),
    ],
)
def test_a_verdict_that_does_not_lift_or_cannot_say_is_a_caution(name: str, badge: str, lift: str) -> None:
    card = card_of(RESULTS[name])
    assert (card.tone, card.badge) == ("caution", badge)
    assert dict(card.facts)["lift of InfoM"] == lift
    assert "nan" not in card.sentence


def test_the_best_model_made_for_the_purpose_stands_against_ae_and_ica_whoever_wins() -> None:
    best = PLAIN.cell("beta-VAE")
    told = notes(PLAIN, "verdict")
    assert best is not None
    assert all(
        words in told for words in (estimated(PLAIN.cell("AE + ICA")), "is above", f"β-VAE with {estimated(best)}")
    )
    assert "intervals overlap" in told
    infom = replace(best.infom, mean=0.9, ci95=(0.88, 0.92))
    better = replace(PLAIN, cells=tuple(replace(c, infom=infom) if c is best else c for c in PLAIN.cells))
    assert "is below" in notes(better, "verdict")
    assert "do not overlap" in notes(better, "verdict")
    assert "QLAE" not in told
    assert "overlap" not in notes(make_table2(rows=("AE", "AE + ICA", "QLAE")), "verdict")


# -- the table


def test_each_data_set_has_a_table_with_intervals_and_all_data_come_first() -> None:
    tables = score_tables(PLAIN)
    assert [t.caption.split(",")[1].strip() for t in tables] == ["all data", "sprites", "scene"]
    rows = {row[0]: row[1:] for row in tables[2].rows}
    cell = PLAIN.cell("AE + ICA", "scene")
    assert cell is not None
    scores = [wording.estimate(e.mean, e.ci95) for e in (cell.infom, cell.infoe, cell.infoc)]
    assert rows["AE + ICA"] == (*scores, wording.number(cell.psnr.mean, 1), "3")
    assert [t.rows[t.strong][0] for t in tables if t.strong is not None] == ["AE + ICA"] * 3
    (alone,) = score_tables(RESULTS["one data set"])
    assert "sprites" in alone.caption
    assert "22.0 dB" in alone.caption


@pytest.mark.parametrize("name", ["plain", "one data set", "the paper's data", "a row is missing", "continuous alone"])
def test_discrete_rows_never_stand_among_continuous_ones(name: str) -> None:
    result = RESULTS[name]
    for table in tables_of(result, "scores"):
        shown = {row[0] for row in table.rows}
        if "discrete latents" in table.caption:
            assert shown == {"QLAE", "VQ-VAE"}
        else:
            assert not shown & {"QLAE", "VQ-VAE", "VQ-VAE w/ wd"}
    for dots in (b for b in blocks_of(result, "scores") if isinstance(b, Dots)):
        shown = {row.label for row in dots.rows}
        assert shown == {"QLAE", "VQ-VAE"} if "discrete" in dots.title else not shown & {"QLAE", "VQ-VAE"}
    has_discrete = any(cell.latents == "discrete" for cell in result.cells)
    assert (WORDS["Not comparable"] in notes(result, "scores")) == has_discrete
    assert (WORDS["Not comparable"] in " ".join(report.text_table(result).split())) == has_discrete


def test_latents_of_an_unknown_kind_are_refused() -> None:
    data = json.loads(to_json(PLAIN))
    data["cells"][0]["latents"] = "other"
    with pytest.raises(DataError, match=r"cells\[0\]\.latents.*'other'"):
        from_json(json.dumps(data))


def test_a_row_that_no_setting_passed_for_is_shown_as_missing_and_left_out_of_the_figure() -> None:
    result = RESULTS["a row is missing"]
    tables = score_tables(result)
    rows = [{row[0]: row[1:] for row in t.rows}["BioAE"] for t in tables]
    assert rows[0] == rows[2] == (wording.MISSING,) * 5
    assert rows[1][0] == estimated(result.cell("BioAE", "sprites"))
    first = next(b for b in blocks_of(result, "scores") if isinstance(b, Dots))
    assert "BioAE" not in [row.label for row in first.rows]
    selected = {row[:2]: row[2:] for row in tables_of(result, "selection")[0].rows}
    assert selected["BioAE", "scene"] == (*[wording.MISSING] * 3, "23.0", "0 of 12")
    assert re.search(r"^BioAE( +–){4}$", report.text_table(result), flags=re.MULTILINE)


def test_published_numbers_stand_apart_with_whose_they_are_and_no_discrete_one() -> None:
    (table,) = (t for t in tables_of(PLAIN, "scores") if t.caption.startswith("Published"))
    assert [c.label for c in table.columns] == ["model", "all", "shapes3d", "mpi3d"]
    assert table.rows[1] == ("β-VAE (Hsu et al.)", "0.59 0.81 0.55", "0.59 0.99 0.49", "0.45 0.71 0.51")
    assert table.rows[0][0] == "AE"
    assert "not comparable" in table.caption
    assert WORDS["Unknown"] in notes(PLAIN, "scores")
    told = notes(PLAIN, "verdict")
    assert re.search(naming("0.39 (AE)", "0.65 (AE + ICA)"), told)
    assert "not comparable" in told
    assert "scale small" in told
    assert all("published" not in [c.label for c in t.columns] for t in score_tables(PLAIN))
    assert not [t for t in tables_of(make_table2(published={}), "scores") if "ublished" in t.caption]


def test_published_numbers_stand_in_the_same_table_only_where_the_data_are_the_same() -> None:
    result = RESULTS["the paper's data"]
    assert "not comparable" not in notes(result, "verdict")
    ours = score_tables(result)
    assert ["published" in [c.label for c in t.columns] for t in ours] == [False, True, True]
    assert {row[0]: row[-1] for row in ours[1].rows}["AE + ICA"] == "0.79 0.99 0.52"
    assert {row[0]: row[-1] for row in ours[1].rows}["BioAE"] == wording.MISSING
    assert "only shapes3d" in notes(make_table2(data=["shapes3d"], scale="paper"), "verdict")


# -- what ICA does


def test_lifts_are_listed_by_data_and_mode_with_what_became_of_infoe() -> None:
    (table,) = tables_of(PLAIN, "lifts")
    assert [row[:2] for row in table.rows] == [
        (data, mode) for data in ("all", "sprites", "scene") for mode in ("centred", "literal", "whitened")
    ]
    assert table.rows[1][2:] == (
        "0.390",
        "0.600",
        "+0.210 [0.160, 0.260]",
        "+0.210 [0.160, 0.260]",
        "+0.001 [-0.049, 0.051]",
        "3",
    )
    assert table.strong == 0
    assert [row[0] for row in tables_of(RESULTS["one data set"], "lifts")[0].rows] == ["sprites"] * 3
    assert tables_of(RESULTS["one seed"], "lifts")[0].rows[0][4] == "+0.260"
    assert tables_of(RESULTS["nothing passes"], "lifts")[0].rows[0][2:] == (wording.MISSING,) * 6


# -- pictures


def images_in(text: str) -> list[dict[str, str | None]]:
    return Outline(text).tags("img")


SOUND = make_png(1, 1, 2)


@pytest.mark.parametrize(
    "png",
    [
        "",
        "not base64!",
        f'{SOUND}" onerror="alert(1)',
        f"{SOUND}<script>",
        f"{SOUND}\n",
        "é",
        "PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIi8+",  # <svg onload="alert(1)"/>
        "R0lGODlhAQABAAAAACw=",  # a GIF
        "https://elsewhere.example/a.png",
    ],
)
def test_what_is_not_a_png_is_left_out_with_a_note(png: str) -> None:
    bad = replace(PLAIN.traversals[0], png=png)
    result = from_json(to_json(replace(PLAIN, traversals=(bad, *PLAIN.traversals[1:]))))
    assert not Image("", "", png, 1, 1).sound
    for text in (report.html(result), report.fragment(result)):
        assert len(images_in(text)) == 3
        assert LEFT_OUT in text
        assert "onerror" not in text
        assert "elsewhere" not in text
    assert f"- AE: {LEFT_OUT}" in report.markdown(result)
    assert LEFT_OUT not in report.html(PLAIN) + report.markdown(PLAIN)


def test_a_picture_without_a_size_is_left_out() -> None:
    assert Image("", "", SOUND, 2, 2).sound
    assert not Image("", "", SOUND, 0, 2).sound
    assert not Image("", "", SOUND, 2, -1).sound


# -- training, selection, runs


def test_curves_are_means_over_the_seeds_of_the_setting_selected_for_ae_and_ica() -> None:
    first, second, psnr = (b for b in blocks_of(PLAIN, "training") if isinstance(b, Curves))
    assert [curve.label for curve in first.curves] == [
        "before ICA", "after ICA, centred", "after ICA, literal", "after ICA, whitened",
    ]  # fmt: skip
    assert [x for x, _ in first.curves[0].points] == list(STEPS)
    assert [y for _, y in first.curves[0].points] == pytest.approx([0.21, 0.31, 0.41, 0.61])
    assert [y for _, y in first.curves[1].points] == pytest.approx([0.31, 0.41, 0.51, 0.71])
    assert first.cut == ("selected", 2000.0)
    assert second.title.startswith("scene:")
    assert [curve.label for curve in psnr.curves] == ["sprites", "scene"]
    assert [y for _, y in psnr.curves[0].points] == pytest.approx([11, 15, 19, 27])
    assert re.findall(r"[\d.]+ dB", psnr.description) == ["22.0 dB", "23.0 dB"]
    assert psnr.threshold is None
    *_, alone = (b for b in blocks_of(RESULTS["one data set"], "training") if isinstance(b, Curves))
    assert alone.threshold == ("least allowed", 22.0)


def test_runs_at_other_settings_and_steps_that_a_seed_lacks_are_no_part_of_a_curve() -> None:
    def without_last(number: int) -> Table2:
        runs = list(PLAIN.runs)
        runs[number] = replace(runs[number], evaluations=runs[number].evaluations[:-1])
        return replace(PLAIN, runs=tuple(runs))

    places = {(r.data, r.model, r.weight_decay, r.seed): i for i, r in enumerate(PLAIN.runs)}
    same = next(
        b for b in blocks_of(without_last(places["sprites", "ae", 0.0, 1]), "training") if isinstance(b, Curves)
    )
    assert len(same.curves[0].points) == 4
    cut = next(
        b for b in blocks_of(without_last(places["sprites", "ae", 0.01, 1]), "training") if isinstance(b, Curves)
    )
    assert len(cut.curves[0].points) == 3


def test_scores_without_finite_numbers_are_left_out_of_curves() -> None:
    lost = Evaluation(5000, math.nan, math.inf, {"none": {"infom": math.inf}})
    runs = tuple(replace(run, evaluations=(*run.evaluations, lost)) for run in PLAIN.runs)
    first, *_, psnr = (b for b in blocks_of(replace(PLAIN, runs=runs), "training") if isinstance(b, Curves))
    assert max(x for curve in (*first.curves, *psnr.curves) for x, _ in curve.points) == 4000
