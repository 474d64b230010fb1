"""The page of `reproduce table2`: every number from the result, kinds of latents apart, nothing claimed of other data."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest

from identifiable import report
from identifiable._checks import DataError
from identifiable.report import words as wording
from identifiable.report.frame import glossary
from identifiable.report.page import LEFT_OUT, Curves, Dots, Fold, Gallery, Image, Table, Text
from identifiable.report.pages import page_of
from identifiable.results import Alert, Cell, Choice, Evaluation, Table2, from_json, to_json
from page_reading import RENDERERS, Outline, blocks_of, card_of, tables_of, text_of, without_style
from table2_cases import KNOBS, PUBLISHED, ROWS, STEPS, make_png, make_table2

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


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("name", [name for name in RESULTS if name != "plain"])
def test_every_result_is_drawn_alike_after_json(render: Any, name: str) -> None:
    text = render(RESULTS[name])
    assert text == render(from_json(to_json(RESULTS[name])))
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"base64,[\w+/=]+", "", without_style(text)))


@pytest.mark.parametrize("render", RENDERERS)
def test_choices_and_published_numbers_of_any_form_are_drawn_alike_after_json(render: Any) -> None:
    for published in (
        {"columns": ("all",), "rows": {"AE": ((0.1, math.nan, 0.2),), "x": (1,)}, "by_others": "AE"},
        {"columns": 3, "rows": [1], "by_others": None},
        {"columns": ["all"], "rows": {"AE": [["a", 1, 2]], "AE + ICA": [[1e300, 1, 2]]}},
    ):
        result = make_table2(published=published, choices=[Choice("pair", (1, math.inf), "ours", (2.0,))])
        assert render(result) == render(from_json(to_json(result)))


def test_sections_stand_only_where_there_is_something() -> None:
    keys = [s.key for s in page_of(PLAIN).sections]
    everything = ["verdict", "alerts", "scores", "lifts", "traversals", "training", "selection", "runs", "choices"]
    assert keys == [*everything, "reading", "reproduction"]
    assert [s.key for s in page_of(RESULTS["bare"]).sections] == ["verdict", "alerts", "reading", "reproduction"]
    assert "traversals" not in [s.key for s in page_of(RESULTS["continuous alone"]).sections]


# -- the verdict


def test_the_verdict_is_the_lift_with_its_interval_seeds_data_and_scale() -> None:
    card = card_of(PLAIN)
    assert "+0.26 [+0.21, +0.31], from 0.39 to 0.65" in card.sentence
    assert (card.tone, card.badge) == ("good", "ICA lifts InfoM")
    assert dict(card.facts) == {
        "lift of InfoM": "+0.260",
        "its 95 % interval": "[0.210, 0.310]",
        "InfoM before, after ICA": "0.390, 0.650",
        "seeds": "3",
    }
    assert "sprites and scene, 3 seeds, 72 models, scale small" in card.eyebrow


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


def test_several_data_sets_are_also_shown_as_the_paper_prints_them() -> None:
    (table,) = (
        t
        for t in tables_of(PLAIN, "scores")
        if [c.label for c in t.columns] == ["model", "sprites", "scene"] and "continuous" in t.caption
    )
    cell = PLAIN.cell("AE + ICA", "scene")
    assert cell is not None
    shown = " ".join(wording.number(e.mean, 2) for e in (cell.infom, cell.infoe, cell.infoc))
    assert {row[0]: row[2] for row in table.rows}["AE + ICA"] == shown


@pytest.mark.parametrize("name", [name for name in RESULTS if name != "bare"])
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


def test_the_figure_has_infom_of_every_row_with_its_interval_and_marks_the_two_to_look_at() -> None:
    first, *_ = (b for b in blocks_of(PLAIN, "scores") if isinstance(b, Dots))
    cells = [PLAIN.cell(row) for row in CONTINUOUS]
    assert [(row.marks[0].value, row.interval) for row in first.rows] == [
        (c.infom.mean, c.infom.ci95) for c in cells if c is not None
    ]
    assert [row.label for row in first.rows if row.strong] == ["AE", "AE + ICA"]
    wide, *_ = (b for b in blocks_of(make_table2(half=0.5), "scores") if isinstance(b, Dots))
    cut = [row.interval for row in wide.rows[:2] if row.interval is not None]
    assert [bound for bounds in cut for bound in bounds] == pytest.approx([0.0, 0.89, 0.15, 1.0])
    assert wide.description != first.description  # it says that intervals are cut
    drawn = next(b for b in blocks_of(PLAIN, "scores") if isinstance(b, Fold))
    assert [b.title.split(", ")[1] for b in drawn.blocks if isinstance(b, Dots)] == ["sprites", "scene"]


def test_published_numbers_stand_apart_with_whose_they_are_and_no_discrete_one() -> None:
    (table,) = (t for t in tables_of(PLAIN, "scores") if t.caption.startswith("Published"))
    assert [c.label for c in table.columns] == ["model", "all", "shapes3d", "mpi3d"]
    assert table.rows[1] == ("β-VAE (Hsu et al.)", "0.59 0.81 0.55", "0.59 0.99 0.49", "0.45 0.71 0.51")
    assert table.rows[0][0] == "AE"
    assert "not comparable" in table.caption
    assert WORDS["Unknown"] in notes(PLAIN, "scores")
    told = notes(PLAIN, "verdict")
    assert "from 0.39 (AE) to 0.65 (AE + ICA)" in told
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


def test_infoe_that_moved_is_explained_and_that_of_the_published_table_too() -> None:
    told, moved = notes(PLAIN, "lifts"), notes(make_table2(infoe_moves=-0.2), "lifts")
    assert "at most 0.01" in told
    assert "-0.200 (all, centred)" in moved
    assert "at most 0.01" not in moved
    assert WORDS["InfoE and ICA"] not in notes(RESULTS["nothing passes"], "lifts")
    assert "from 0.40 (AE) to 0.66 (AE + ICA) on mpi3d" in told
    still = {**PUBLISHED, "rows": {"AE": [[0.3, 0.7, 0.2]] * 3, "AE + ICA": [[0.6, 0.7, 0.4]] * 3}}
    assert "(AE + ICA)" not in notes(make_table2(published=still), "lifts")


# -- pictures


def galleries(result: Table2) -> list[Gallery]:
    return [b for b in blocks_of(result, "traversals") if isinstance(b, Gallery)]


def images_in(text: str) -> list[dict[str, str | None]]:
    return Outline(text).tags("img")


def test_traversals_stand_before_and_after_ica_with_a_label_for_each_line() -> None:
    first, second = galleries(PLAIN)
    assert [image.title for image in first.images] == ["AE", "AE + ICA"]
    assert first.title.startswith("sprites:")
    assert second.title.startswith("scene:")
    assert first.images[0].lines == PLAIN.traversals[0].labels
    drawn = images_in(report.html(PLAIN))
    assert [image["src"] for image in drawn] == [f"data:image/png;base64,{t.png}" for t in PLAIN.traversals]
    assert (drawn[0]["width"], drawn[0]["height"]) == ("224", "320")
    assert all("position_x 0.90; orientation 0.85" in str(image["alt"]) for image in drawn)
    assert report.html(PLAIN).count('<li title="position_x 0.90">') == 4
    assert "- AE + ICA: 7 pictures" in report.markdown(PLAIN)
    assert "base64" not in report.markdown(PLAIN)


def test_the_pictures_of_other_models_are_folded_away() -> None:
    other = replace(PLAIN.traversals[0], row="beta-VAE")
    result = replace(PLAIN, traversals=(*PLAIN.traversals, other))
    folds = [b for b in blocks_of(result, "traversals") if isinstance(b, Fold)]
    assert [fold.summary for fold in folds] == ["sprites: other models"]
    assert [image.title for g in folds[0].blocks if isinstance(g, Gallery) for image in g.images] == ["β-VAE"]
    assert not [b for b in blocks_of(PLAIN, "traversals") if isinstance(b, Fold)]


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
    assert "22.0 dB on sprites and 23.0 dB on scene" in psnr.description
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


def test_the_selection_says_what_was_chosen_how_many_passed_and_that_it_saw_the_factors() -> None:
    (table,) = tables_of(PLAIN, "selection")
    rows = {row[:2]: row[2:] for row in table.rows}
    assert rows["β-VAE", "sprites"] == ("beta 3, decay 0.01", "2,000", "24.0", "22.0", "5 of 12")
    assert rows["AE + ICA", "scene"][0] == "decay 0.01"
    assert ("AE", "all") not in rows
    assert len(rows) == 2 * len(ROWS)
    assert WORDS["Supervised"] in notes(PLAIN, "selection")


def test_every_run_is_listed_under_the_name_of_its_row() -> None:
    (table,) = tables_of(PLAIN, "runs")
    assert len(table.rows) == len(PLAIN.runs)
    run = PLAIN.runs[0]
    last = run.evaluations[-1]
    scores = [wording.number(last.scores[mode]["infom"]) for mode in ("none", "centred")]
    figures = (wording.number(last.loss, 4), wording.number(last.psnr, 1), *scores)
    assert table.rows[0] == ("AE, decay 0", "sprites", "0", "4,000", *figures, "steps")
    assert {row[0].split(",")[0] for row in table.rows} == {"AE", "β-VAE", "β-TCVAE", "BioAE", "QLAE", "VQ-VAE"}
    assert any(row[0] == "β-TCVAE, lambda tc 3, decay 0.01" for row in table.rows)
    assert KNOBS["beta-tcvae"] == "lambda_tc"
    diverged = replace(PLAIN, runs=(replace(run, evaluations=(), stopped="diverged"),))
    assert tables_of(diverged, "runs")[0].rows[0][4:] == (*[wording.MISSING] * 4, "diverged")


def test_settings_are_split_into_the_papers_those_changed_and_those_lost() -> None:
    paper, changed, lost = tables_of(PLAIN, "choices")
    assert paper.rows == (("batch", "128"),)
    assert changed.rows == (("steps", "4000", "200000"),)
    assert lost.rows == (("psnr within", "2.0"),)


def test_the_methods_name_models_modes_and_what_is_ours_and_cite_what_was_run() -> None:
    told = text_of(PLAIN, "reproduction")
    models = "72 models (AE, β-VAE, β-TCVAE, BioAE, QLAE and VQ-VAE)"
    for words in (models, "3 seeds on sprites and scene", "Ours: ", "FastICA(whiten=False)"):
        assert words in told
    html = report.html(PLAIN)
    for key in ("nelson2026", "hsu2023", "higgins2017", "chen2018", "whittington2023", "oord2017", "hyvarinen1999"):
        assert key in html
    plain = report.html(make_table2(rows=("AE",)))
    for key in ("higgins2017", "whittington2023", "oord2017", "hyvarinen1999"):
        assert key not in plain


def test_scores_without_finite_numbers_are_left_out_of_curves() -> None:
    lost = Evaluation(5000, math.nan, math.inf, {"none": {"infom": math.inf}})
    runs = tuple(replace(run, evaluations=(*run.evaluations, lost)) for run in PLAIN.runs)
    first, *_, psnr = (b for b in blocks_of(replace(PLAIN, runs=runs), "training") if isinstance(b, Curves))
    assert max(x for curve in (*first.curves, *psnr.curves) for x, _ in curve.points) == 4000


# -- the terminal


def test_the_terminal_has_ours_published_and_lifts_in_this_order() -> None:
    result = make_table2(alerts=[Alert("few", stored="Few.")])
    brief = [(t.caption.split(",")[0], t.columns[0].label) for t in tables_of(result) if t.brief]
    ours = ("Ours", "model")
    assert brief == [
        ours,
        ours,
        ("Published", "model"),
        ours,
        ours,
        (tables_of(result, "lifts")[0].caption.split(",")[0], "data"),
    ]
    lines = report.text_table(result).splitlines()
    assert lines[-1] == "! few: Few."
    assert any(re.match(rf"AE \+ ICA +{re.escape(estimated(PLAIN.cell('AE + ICA')))}", line) for line in lines)


def test_every_line_fits_a_terminal_also_of_all_data_sets_at_once() -> None:
    many = make_table2(data=["sprites", "scene", "dsprites", "shapes3d", "mpi3d", "falcor3d", "isaac3d"])
    for result in (*RESULTS.values(), many, make_table2(half=1.5), make_table2(infoe_moves=-0.2, lift=-0.3)):
        assert max(map(wording.columns_wide, report.text_table(result).splitlines())) <= 100
    assert all(name in report.text_table(many) for name in many.data)
