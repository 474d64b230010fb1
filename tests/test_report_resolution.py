"""The pages of `resolve`: every number from the result, honest about what is missing, small at any width."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cases import DENSITY_EDGES, make_component, make_density, make_joint_resolution, make_resolution
from identifiable import report
from identifiable._checks import UsageError
from identifiable.ica import diagnostics
from identifiable.report import words as wording
from identifiable.report.components import COMPONENTS_LISTED, GIST, GISTS, PICTURED, gist, reasons, shape
from identifiable.report.page import Block, Card, Curves, Fold, Gauge, Page, Spark, Table, Text
from identifiable.report.pages import PAGES, page_of
from identifiable.report.render.pictures import GAUGE, HEIGHT, draw_picture
from identifiable.report.resolution import PAIRS_LISTED
from identifiable.report.rules import p_cell
from identifiable.results import (
    SCHEMAS,
    Alert,
    JointResolution,
    Resolution,
    Start,
    Step,
    UnresolvedPair,
    from_json,
    to_json,
    without_time,
)
from page_reading import HOSTILE, RENDERERS, Outline, foreign_loads

MAKERS = (make_resolution, make_joint_resolution)


def words_of(result: Resolution | JointResolution) -> str:
    return " ".join(" ".join(Outline(report.html(result)).words).split()).replace("\u00a0", " ")


def blocks_of(page: Page, *keys: str) -> Iterator[Block]:
    """Every block of the named sections (all, if none is named), folded ones too."""

    def inside(blocks: tuple[Block, ...]) -> Iterator[Block]:
        for block in blocks:
            yield block
            if isinstance(block, Fold):
                yield from inside(block.blocks)

    for section in page.sections:
        if not keys or section.key in keys:
            yield from inside(section.blocks)


def tables_of(result: Resolution | JointResolution, *keys: str) -> list[Table]:
    return [b for b in blocks_of(page_of(result), *keys) if isinstance(b, Table)]


def figure_of(result: Resolution | JointResolution, title: str) -> Curves | None:
    return next((b for b in blocks_of(page_of(result)) if isinstance(b, Curves) and b.title == title), None)


def figures_in(text: str) -> list[str]:
    return re.findall(r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?", text)


def numbers_in(data: Any) -> Iterator[float]:
    """Every number of a saved result that a table may show, and those its reasons name."""
    if isinstance(data, dict | list):
        parts = (
            [v for k, v in data.items() if k not in ("density", "spectrum", "sha256")]
            if isinstance(data, dict)
            else data
        )
        for part in parts:
            yield from numbers_in(part)
    elif isinstance(data, str):
        yield from (float(figure.replace(",", "")) for figure in figures_in(data))
    elif data is not None:
        yield float(data)


# -- one place for all kinds


def test_every_kind_of_result_that_can_be_saved_has_a_page() -> None:
    assert set(PAGES) == set(SCHEMAS.values())


def test_what_is_no_result_is_refused_by_name() -> None:
    for render in RENDERERS:
        with pytest.raises(UsageError, match="Resolution.*got dict"):
            render({})  # type: ignore[arg-type]


def test_the_page_of_one_model_has_every_section_and_each_link_has_its_target() -> None:
    outline = Outline(report.html(make_resolution()))
    targets = ["#" + str(s["id"]) for s in outline.tags("section")]
    assert [a["href"] for a in outline.tags("a")] == ["#reading", *targets]
    assert targets == [
        "#verdict", "#alerts", "#components", "#trust", "#pairs", "#convergence", "#rank", "#reading", "#reproduction",
    ]  # fmt: skip


def test_the_page_of_several_models_has_every_section_and_each_link_has_its_target() -> None:
    outline = Outline(report.html(make_joint_resolution()))
    targets = ["#" + str(s["id"]) for s in outline.tags("section")]
    assert [a["href"] for a in outline.tags("a")] == ["#reading", *targets]
    assert targets == ["#verdict", "#alerts", "#matches", "#overview", "#models", "#reading", "#reproduction"]


@pytest.mark.parametrize("make", MAKERS)
def test_a_resolution_shows_itself(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    result = make()
    assert result.table() == report.text_table(result)
    assert result._repr_html_() == report.fragment(result)
    assert result.report(tmp_path / "page.html").read_text(encoding="utf-8") == report.html(result)


# -- the same result, the same bytes


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("make", MAKERS)
def test_equal_results_give_equal_bytes_also_after_json(render, make) -> None:  # type: ignore[no-untyped-def]
    chosen: dict[str, Any] = {"shape": (1, 2), "tolerance": math.inf}
    once = render(make(alerts=[Alert("a", "b")], settings=chosen))
    assert once == render(make(alerts=[Alert("a", "b")], settings=chosen))
    assert once == render(from_json(to_json(make(alerts=[Alert("a", "b")], settings=chosen))))
    assert once != render(make(alerts=[Alert("a", "c")], settings=chosen))


@pytest.mark.parametrize("render", RENDERERS)
def test_figures_that_are_not_finite_look_the_same_after_json_and_are_never_printed(render) -> None:  # type: ignore[no-untyped-def]
    result = make_resolution(heavy_tailed=(0, 3))
    third = replace(result.components[3], stability=math.nan, curvature=-math.inf, density=(math.nan,) * 60)
    result = replace(result, components=(*result.components[:3], third, *result.components[4:]), contrast=math.nan)
    text = render(result)
    assert text == render(from_json(to_json(result)))
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL))
    assert wording.MISSING in text


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("make", MAKERS)
def test_a_page_is_drawn_even_if_nothing_could_be_measured(render, make) -> None:  # type: ignore[no-untyped-def]
    text = render(from_json(json.dumps(_without_fractions(json.loads(to_json(make()))))))
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL))
    assert wording.MISSING in text


def _without_fractions(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: v if k == "settings" else _without_fractions(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_fractions(v) for v in value]
    return None if isinstance(value, float) else value


def test_the_only_time_on_the_page_is_that_of_the_run() -> None:
    for result in (make_resolution(), make_joint_resolution()):
        assert result.provenance.time in report.html(result)
        assert result.provenance.time not in report.html(without_time(result))


# -- every number from the result


def test_the_component_table_shows_every_figure_of_every_component() -> None:
    result = make_resolution(heavy_tailed=(2,))
    first, shapes, more = tables_of(result, "components")
    for component, line, moments, rest in zip(result.components, first.rows, shapes.rows, more.rows, strict=True):
        assert line == (
            str(component.index),
            "yes" if component.identifiable else "no",
            "" if component.identifiable else gist(component.reason),
            shape(component),
            wording.beside(component.stability, 1.0),
            wording.share(component.variance),
            wording.number(component.negentropy),
            wording.number(component.curvature),
            wording.number(component.angle_se, 4),
        )
        assert moments[1:] == (
            wording.plus_minus(component.negentropy, component.negentropy_se),
            wording.plus_minus(component.skew, component.skew_se),
            wording.plus_minus(component.kurtosis, component.kurtosis_se),
            wording.probability(component.gaussian_p),
        )
        assert rest[2:] == (
            f"with {component.hardest}",
            wording.number(component.stability_min),
            "yes" if component.sign_kept else "no",
            "0" if component.index == 0 else f"{component.index - 1} to {component.index}",
            wording.number(component.residual),
        )
    assert first.rows[2][8] == shapes.rows[2][3] == wording.MISSING


def test_every_figure_in_the_tables_and_the_card_is_one_of_the_result() -> None:
    result = make_resolution()
    saved = json.loads(to_json(result))
    shown_as_tables = (
        "inputs",
        "rank",
        "passes",
        "contrast",
        "components",
        "whitening",
        "starts",
        "unresolved",
        "ties",
    )
    values = set(numbers_in({k: saved[k] for k in shown_as_tables}))
    values |= {float(len(part)) for part in (result.starts, result.unresolved, result.ties)}
    values |= {float(len(result.identifiable)), float(len(result.components) - len(result.identifiable))}
    values |= {100 * c.variance for c in result.components} | {result.inputs[0].n / result.inputs[0].d}
    card = next(b for b in blocks_of(page_of(result), "verdict") if isinstance(b, Card))
    cells = [value for _, value in card.facts] + [
        cell
        for t in tables_of(result, "verdict", "components", "pairs", "convergence", "rank")
        for row in t.rows
        for cell in row
    ]
    strangers = [cell for cell in cells for figure in figures_in(cell) if not _rounds_from(figure, values)]
    assert strangers == []
    assert not _rounds_from("0.9871234", values)  # the test can fail


def _rounds_from(figure: str, values: set[float]) -> bool:
    """Whether some value, rounded to the last digit of `figure`, is that figure."""
    shown = figure.replace(",", "")
    digits, _, power = shown.partition("e")
    unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return any(abs(abs(v) - float(shown)) <= 0.5001 * unit for v in values)


def test_the_headline_counts_the_reproducible_components_and_says_whether_the_solver_converged() -> None:
    for converged, badge, tone in ((True, "converged", "good"), (False, "NOT converged", "caution")):
        result = make_resolution(converged=converged)
        card = next(b for b in blocks_of(page_of(result), "verdict") if isinstance(b, Card))
        assert card.sentence == "9 of 12 components are reproducible."
        assert (card.badge, card.tone) == (badge, tone)
        facts = dict(card.facts)
        assert (facts["rank"], facts["effective rank"]) == ("12 of 14", "7.4")
        assert not {"contrast", "passes over the rows"} & set(facts)  # how it got there is no part of the verdict
        assert "19.2 passes over all rows, contrast 14.4671." in words_of(result)
        assert ("stopped before it converged" in words_of(result)) == (not converged)
        assert f"9 of 12 components are reproducible. {badge[0].upper()}{badge[1:]}" in report.text_table(result)


def test_no_reproducible_component_is_no_good_news_even_if_the_solver_converged() -> None:
    result = make_resolution(4)
    none = replace(result, components=tuple(make_component(i, 4, good=False) for i in range(4)))
    card = next(b for b in blocks_of(page_of(none), "verdict") if isinstance(b, Card))
    assert (card.sentence, card.tone) == ("0 of 4 components are reproducible.", "caution")


@pytest.mark.parametrize(("good", "tone"), [(0, "caution"), (3, "caution"), (4, "good"), (8, "good")])
def test_a_page_is_good_news_only_if_half_of_the_components_hold(good: int, tone: str) -> None:
    one = replace(make_resolution(8), components=tuple(make_component(i, 8, good=i < good) for i in range(8)))
    joint = make_joint_resolution(2, 8)
    joint = replace(joint, matches=tuple(replace(m, shared=i < good) for i, m in enumerate(joint.matches)))
    for result in (one, joint):
        card = next(b for b in blocks_of(page_of(result), "verdict") if isinstance(b, Card))
        assert card.tone == tone
        assert ("No alerts" in words_of(result)) == (tone == "good")
        warned = replace(result, alerts=(Alert("few_rows", "Only 40 rows."),))
        assert "Only 40 rows." in words_of(warned)


def test_the_rule_is_said_with_its_limits_and_left_out_where_they_are_not_recorded() -> None:
    said = (
        "Reproducible means: refits on halves find it at mean |r| ≥ 0.93, worst ≥ 0.85; angle error ≤ 0.3 rad; not Gaussian "
        "(p × components < 0.0001) or the only one that is; ≤ 20 % of its variance in one row; still to turn ≤ 0.05 rad; "
        "sign certain."
    )
    legend = "of the direction in radians, at most 0.3 to be reproducible."
    for render in (words_of, lambda r: " ".join(report.text_table(r).split())):
        assert said in render(make_resolution())
        assert legend in render(make_resolution())
        for limits in (None, {}, "0.93", [0.93], {"stability": "0.93", "angle_se": None, "residual": True}):
            words = render(make_resolution(settings={"limits": limits}))
            assert "Reproducible means" not in words
            assert "to be reproducible" not in words
    assert said in words_of(make_joint_resolution())
    figure = figure_of(make_resolution(), "Stability against negentropy")
    bare = figure_of(make_resolution(settings={"limits": {}}), "Stability against negentropy")
    assert figure is not None
    assert bare is not None
    assert (figure.threshold, bare.threshold) == (("0.93 is needed", 0.93), None)


def test_what_makes_a_component_shared_is_said_and_whose_are_counted() -> None:
    end = "p below 0.01, reproducible in every model. Counted are the components of run1, the first model."
    for render in (words_of, lambda r: " ".join(report.text_table(r).split())):
        whole = f"Shared means: every two of its partners correlate at |r| 0.8 or more, {end}"
        assert whole in render(make_joint_resolution())
        assert f"Shared means: {end}" in render(make_joint_resolution(settings={"shared_above": None}))


def test_counts_have_their_thousands_apart_and_one_is_singular() -> None:
    many = replace(make_resolution(), rank=1200, contrast=12345.678)
    for render in (words_of, report.text_table):
        assert "9 of 1,200 components are reproducible" in render(many)
        assert "contrast 12,345.7." in " ".join(render(many).split())
    assert wording.counted(1, "pair") == "1 pair"
    assert [wording.counted(n, "pair") for n in (0, 2, 1200)] == ["0 pairs", "2 pairs", "1,200 pairs"]
    assert "matched components of 1 refit on halves" in words_of(make_resolution(settings={"stability": 1}))
    assert "Left out: 1 constant column." in words_of(make_resolution())


def test_negentropy_is_an_index_and_never_in_nats() -> None:
    for result in (make_resolution(), make_joint_resolution()):
        for render in RENDERERS:
            assert not re.search(r"\bnats\b", render(result))
    assert "negentropy (index)" in words_of(make_resolution())
    assert "too large far from one" in words_of(make_resolution())


def test_pairs_ties_and_starts_are_listed_with_their_figures() -> None:
    result = make_resolution()
    pairs, ties = tables_of(result, "pairs")
    assert pairs.rows == (("9", "10", "0.001", "0.317"), ("10", "11", "0.001", "0.317"))
    assert ties.rows == (("0", "1", "0.62"),)
    (starts,) = tables_of(result, "convergence")
    assert starts.rows[1] == ("1", "14.0571", "19.5", "yes", "1")
    assert starts.strong == 0
    assert "the worst of them ends 6 % below the best" in words_of(result)
    assert "turned 3 pairs that stood wrong" in words_of(result)
    settled = replace(make_resolution(), unresolved=(), ties=(), starts=(Start(0, 14.4, 18.0, True, 0),))
    words = words_of(settled)
    assert "No pair is flat locally" in words
    assert "of 12 components, 3 are still not reproducible" in words
    assert "No pair is flat locally" not in words_of(result)
    assert "Ties in the order" in words_of(result)
    assert len(tables_of(settled, "pairs")) == 0
    assert "Only one start was made" in words
    assert "found no pair that stood wrong" in words


def test_no_flat_pair_is_not_said_to_settle_what_refits_did_not() -> None:
    few = replace(make_resolution(4), unresolved=())
    assert "of 4 components, 1 is still not reproducible" in words_of(few)
    fine = replace(few, components=tuple(make_component(i, 4, good=True) for i in range(4)))
    assert "Every component is also reproducible." in words_of(fine)
    assert "Every component is also reproducible." not in words_of(few)
    assert "was not measured." in words_of(replace(make_resolution(4, refits=False), unresolved=()))


def test_a_start_that_ended_as_high_as_the_best_is_no_gap() -> None:
    alike = tuple(Start(k, 14.4671 - 1e-5 * k, 18.0, True, 0) for k in range(2))
    assert "ends less than 1 % below the best" in words_of(replace(make_resolution(), starts=alike))


def test_long_lists_of_pairs_are_cut_and_say_how_many_there_are() -> None:
    many = tuple(UnresolvedPair(i, i + 1, 0.001, 0.3) for i in range(PAIRS_LISTED + 5))
    result = replace(make_resolution(), unresolved=many)
    table = tables_of(result, "pairs")[0]
    assert table.caption == "Pairs that cannot be resolved, listed: 65, of which the first 60"
    assert len(table.rows) == PAIRS_LISTED
    assert "In the JSON result: 5 further pairs." in words_of(result)
    assert "In the JSON result: 1 further pair." in words_of(replace(result, unresolved=many[: PAIRS_LISTED + 1]))
    assert "In the JSON result" not in words_of(replace(result, unresolved=many[:PAIRS_LISTED]))


def test_the_matches_are_listed_with_their_partners() -> None:
    result = make_joint_resolution(3)
    table = tables_of(result, "matches")[0]
    assert [c.label for c in table.columns[:3]] == ["run1", "run2", "run3"]
    assert table.rows[0] == ("0", "1", "2", "0.990", "≤ 0.005", "yes", "yes")
    assert table.rows[1][:3] == ("1", "2 (−)", "3")
    assert table.rows[11] == ("11", "0 (−)", wording.MISSING, "0.230", "≤ 0.005", "no", "no")
    assert table.columns[-1].label == "reproducible in all"
    card = next(b for b in blocks_of(page_of(result), "verdict") if isinstance(b, Card))
    assert card.sentence == "9 of 12 components are shared by run1, run2, run3."
    assert dict(card.facts)["rows in common"] == "4,988"


@pytest.mark.parametrize(
    ("p", "draws", "shown"),
    [(1 / 201, 200, "≤ 0.005"), (2 / 201, 200, "0.010"), (1 / 1001, 1000, "≤ 0.001"), (2 / 2001, 2000, "<0.001")],
)
def test_the_smallest_p_that_the_draws_can_give_is_a_bound(p: float, draws: int, shown: str) -> None:
    assert p_cell(p, {"draws": draws}) == shown
    assert p_cell(math.nan, {"draws": draws}) == wording.MISSING
    assert p_cell(1 / 201, {}) == "≤ 0.005"


def test_the_matrix_of_models_counts_what_they_share_and_colours_it_by_the_smaller_rank() -> None:
    result = make_joint_resolution(3)
    counts = ((12, 6, 2), (6, 12, 0), (2, 0, 2))
    models = (*result.models[:2], replace(result.models[2], rank=2))
    (table,) = tables_of(replace(result, models=models, shared_counts=counts), "overview")
    assert [row[1:] for row in table.rows] == [("12", "6", "2"), ("6", "12", "0"), ("2", "0", "2")]
    assert table.shades == ((None, 3, 6), (3, None, 0), (6, 0, None))
    assert table.caption == "Components that two models share, at |r| 0.8 or more"


def test_each_model_of_several_is_summarised_with_its_own_alerts() -> None:
    result = make_joint_resolution(2)
    told = replace(result.models[1], alerts=(Alert("rank_deficient", "Two directions were dropped."),), converged=False)
    result = replace(result, models=(result.models[0], told))
    table = tables_of(result, "models")[0]
    assert [(row[1], row[-2], row[-1]) for row in table.rows] == [("9", "0", "converged"), ("9", "1", "NOT converged")]
    assert "Two directions were dropped." in words_of(result)
    assert "Two directions were dropped." not in words_of(make_joint_resolution(2))
    card = next(b for b in blocks_of(page_of(result), "verdict") if isinstance(b, Card))
    assert (card.badge, card.tone) == ("NOT all converged", "caution")


# -- what is missing


def test_absent_stability_is_said_and_not_drawn_as_zero() -> None:
    without, with_refits = make_resolution(refits=False), make_resolution()
    for render in (words_of, report.markdown, lambda r: " ".join(report.text_table(r).split())):
        assert "No refits were made, so there is no stability" in render(without)
        assert "No refits were made, so there is no stability" not in render(with_refits)
    assert figure_of(without, "Stability against negentropy") is None
    assert figure_of(with_refits, "Stability against negentropy") is not None
    table = tables_of(without, "components")[0]
    assert {row[4] for row in table.rows} == {wording.MISSING}
    assert set(table.pictures[4]) == {None}
    assert 'class="gauge"' not in report.html(without)
    assert report.html(with_refits).count('class="gauge"') == 12
    assert "Himberg" in words_of(without)
    assert "No refits were made, so stability is not known." in words_of(without)
    assert "between matched components of 8 refits on halves" in words_of(with_refits)


def test_a_component_without_its_figure_is_left_out_of_the_plot_and_counted() -> None:
    result = make_resolution()
    gaps = (replace(result.components[0], stability=None), replace(result.components[1], negentropy=0.0))
    figure = figure_of(replace(result, components=(*gaps, *result.components[2:])), "Stability against negentropy")
    whole = figure_of(result, "Stability against negentropy")
    assert figure is not None
    assert whole is not None
    assert [len(cloud.points) for cloud in figure.clouds] == [7, 3]
    assert [len(cloud.points) for cloud in whole.clouds] == [9, 3]
    assert figure.description.endswith("Left out, as a figure is missing: 2.")
    assert "Left out" not in whole.description


def test_a_histogram_that_cannot_be_drawn_gives_way_to_its_words() -> None:
    result = make_resolution(3)
    whole = tables_of(result, "components")[0].pictures[3]
    assert all(isinstance(picture, Spark) for picture in whole)
    bad = (replace(result.components[0], density=(0.1, 0.2)), replace(result.components[1], density=()))
    broken = replace(result, components=(*bad, result.components[2]))
    assert [p is None for p in tables_of(broken, "components")[0].pictures[3]] == [True, True, False]
    assert report.html(broken).count('class="spark"') == 1
    assert ">heavier tails, leaning right</td>" in report.html(broken)


def test_a_result_without_steps_starts_or_spectrum_draws_no_empty_figure() -> None:
    result = make_resolution()
    bare = replace(result, steps=(), starts=(), whitening=replace(result.whitening, spectrum=()))
    for title in ("Convergence", "Components at work", "Spectrum"):
        assert figure_of(result, title) is not None
        assert figure_of(bare, title) is None
    assert [type(b) for b in blocks_of(page_of(bare), "convergence")] == [Text]
    one = replace(result, steps=(Step(1.0, "search", 12, 0.3),))
    assert '<path class="dots s1" d="M50' in report.html(one)  # a line of one point would not show


def test_one_component_alone_is_drawn() -> None:
    result = make_resolution(1, starts=1)
    for render in RENDERERS:
        assert render(result) == render(from_json(to_json(result)))
    assert "1 of 1 components are reproducible" in words_of(result)
    assert tables_of(result, "components")[0].rows[0][0] == "0"
    assert tables_of(result, "components")[0].caption.startswith("Component 0.")


def test_no_component_at_all_is_said() -> None:
    result = replace(make_resolution(2), components=(), rank=0, unresolved=(), ties=(), steps=(), starts=())
    for render in RENDERERS:
        assert render(result) == render(from_json(to_json(result)))
    assert "No component was found" in words_of(result)
    assert "No component was found" not in words_of(make_resolution(2))
    assert "There are no components to match." in words_of(replace(make_joint_resolution(), matches=()))


# -- hostile and large


@pytest.mark.parametrize("make", [make_resolution, make_joint_resolution])
def test_hostile_names_reasons_and_messages_are_shown_as_text(make) -> None:  # type: ignore[no-untyped-def]
    named: dict[str, Any] = {"name": HOSTILE} if make is make_resolution else {"names": [HOSTILE, "b|`*c*`", "c"]}
    result = make(**named, alerts=[Alert(HOSTILE, HOSTILE)], settings={HOSTILE: HOSTILE, "contrast": HOSTILE})
    models = result.models if isinstance(result, JointResolution) else (result,)
    spoiled = tuple(
        replace(m, components=(replace(m.components[0], reason=HOSTILE, identifiable=False), *m.components[1:]))
        for m in models
    )
    result = replace(result, models=spoiled) if isinstance(result, JointResolution) else spoiled[0]
    for text in (report.html(result), report.fragment(result)):
        assert "<script" not in text
        assert "&lt;script&gt;" in text
        Outline(text)
    outside_code = re.sub(r"`+[^`]*`+", "", report.markdown(result))
    assert "<script" not in outside_code
    assert "&lt;script&gt;" in outside_code


def test_names_with_line_ends_and_terminal_escapes_stay_on_one_line() -> None:
    for clean, dirty in (
        (make_resolution(name="a"), make_resolution(name="a\x1b[31m\n")),
        (make_joint_resolution(names=["a", "b", "c"]), make_joint_resolution(names=["a\x1b[31m\n", "b", "c"])),
    ):
        text = report.text_table(dirty)
        assert "\x1b" not in text
        assert "a\\x1b[31m\\n" in text
        assert text.count("\n") == report.text_table(clean).count("\n")


@pytest.mark.parametrize("make", MAKERS)
def test_the_pages_load_nothing_from_elsewhere(make) -> None:  # type: ignore[no-untyped-def]
    for text in (report.html(make()), report.fragment(make())):
        assert foreign_loads(text) == []
        assert not re.search("https?://", text)
    assert not re.search(r"\sid=", report.fragment(make()))  # ids of two fragments in one notebook would clash


@pytest.mark.parametrize("d", [400, 1024])
def test_many_components_stay_usable_and_below_a_megabyte(d: int) -> None:
    result = make_resolution(d)
    text = report.html(result)
    assert len(text.encode()) < 1_000_000
    assert text.count('class="spark"') == PICTURED
    first, rest = tables_of(result, "components")[:2]
    assert (len(first.rows), len(rest.rows)) == (PICTURED, d - PICTURED)
    assert rest.pictures == {}
    good = d - d // 4 - PICTURED
    folds = [b.summary for b in blocks_of(page_of(result), "components") if isinstance(b, Fold)]
    assert folds[0] == f"Components 40 to {d - 1}: {good} of {d - PICTURED} reproducible"
    assert len(report.text_table(result).splitlines()) < 40


def test_beyond_the_limit_components_are_left_to_the_json() -> None:
    few = make_resolution(4)
    extra = tuple(replace(few.components[0], index=i) for i in range(COMPONENTS_LISTED + 7))
    text = words_of(replace(few, components=extra, rank=len(extra)))
    assert "In the JSON result: 7 further components." in text
    assert "In the JSON result" not in words_of(few)


def test_twenty_models_of_400_components_stay_below_three_megabytes() -> None:
    result = make_joint_resolution(20, 400, names=[f"{i} " + "x" * 300 for i in range(20)])
    assert len(report.html(result).encode()) < 3_000_000


# -- words


def test_reasons_that_differ_in_figures_only_are_counted_together() -> None:
    parts = [replace(make_component(i, 8, good=False), reason=f"stability 0.{i}1 is below 0.9") for i in range(3)]
    parts.append(replace(make_component(3, 8, good=False), reason="Gaussian"))
    assert [(said, [c.index for c in members]) for said, members in reasons(parts)] == [
        ("stability 0.01 to 0.21 is below 0.9", [0, 1, 2]),
        ("Gaussian", [3]),
    ]
    assert reasons(parts[:1])[0][0] == "stability 0.01 is below 0.9"  # alone, it keeps its figures
    assert reasons([replace(parts[0], reason="")])[0][0].endswith("(no reason recorded)")


def test_the_table_of_reasons_has_both_verdicts_and_those_against_first() -> None:
    (table,) = tables_of(make_resolution(), "verdict")  # above the components, where they are missed
    assert table.rows == (
        ("turns into another component: the contrast is too flat between them", "no", "3", "9, 10, 11"),
        ("told apart, found at |r| 0.99 to 1.00", "yes", "9", "0, 1, 2, 3, 4, 5, 6, 7, 8"),
    )
    fine = replace(make_resolution(3), components=tuple(make_component(i, 3, good=True) for i in range(3)))
    assert "Not reproducible" in report.text_table(make_resolution(4))
    assert "Not reproducible" not in report.text_table(fine)


def test_figures_of_reasons_become_ranges_and_what_is_no_number_is_left_out() -> None:
    def said(*texts: str) -> str:
        ((text, _),) = reasons(replace(make_component(i, 8), reason=t) for i, t in enumerate(texts))
        return text

    poor = "refits on halves find it again only at |r| {}, at worst {} (0.93 and 0.85 are needed)"
    assert said(poor.format("0.92", "0.81"), poor.format("0.46", "0.81"), poor.format("0.6", "0.81")) == poor.format(
        "0.46 to 0.92", "0.81"
    )
    assert said("one row holds 25% of it", "one row holds 100% of it") == "one row holds 25 to 100% of it"
    assert said("on 1.2.3", "on 1.2.4") == "on …"
    assert said("turns into component 3: flat", "turns into component 3: flat") == "turns into component 3: flat"


def test_a_line_has_a_reason_in_a_few_words_and_the_table_of_reasons_all_of_it() -> None:
    long = 'turns into component 3: the contrast is <too> "flat" between them'
    result = make_resolution(4)
    last = replace(result.components[3], reason=long)
    result = replace(result, components=(*result.components[:3], last))
    assert [row[2] for row in tables_of(result, "components")[0].rows] == ["", "", "", "turns into 3"]
    assert tables_of(result, "verdict")[0].rows[0][0] == long
    assert (
        '<span title="turns into component 3: the contrast is &lt;too&gt; &#34;flat&#34; between them">turns into 3</span>'
        in report.html(result)
    )
    assert gist("no colon, here; there") == "no colon"
    assert gist("refits on halves find it again only at |r| 0.92, at worst 0.81") == "refits differ"
    assert len(gist("a reason that nobody has thought of so far and goes on")) == GIST


def test_every_reason_that_the_solver_gives_has_its_few_words() -> None:
    given = inspect.getsource(diagnostics)
    for opening, _ in GISTS:
        assert f'"{opening}' in given, f"no reason opens with {opening!r} any more"
    assert 'f"turns into component {' in given


@pytest.mark.parametrize(
    ("skew", "kurtosis", "said"),
    [
        (0.0, 3.0, "heavier tails"),
        (0.0, -1.0, "lighter tails"),
        (0.0, 0.1, "tails as a Gaussian"),
        (0.5, 3.0, "heavier tails, leaning right"),
        (-0.5, 0.1, "tails as a Gaussian, leaning left"),
        (0.5, math.inf, "tails too heavy to measure, leaning right"),
        (math.nan, 0.1, "tails as a Gaussian"),
    ],
)
def test_a_density_is_put_into_words(skew: float, kurtosis: float, said: str) -> None:
    assert shape(replace(make_component(0, 4), skew=skew, kurtosis=kurtosis)) == said


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (0.0312, 0.0004, "0.0312 ± 0.0004"),
        (5.31, 0.2, "5.3 ± 0.2"),
        (2.71, 0.11, "2.71 ± 0.11"),
        (-0.004, 0.021, "0.00 ± 0.02"),
        (-12345.6, 78.9, "-12,346 ± 79"),
        (2.1e-7, 3e-8, "2.1e-7 ± 3.0e-8"),
        (1.5, math.nan, "1.500 ± –"),
        (math.inf, 1.0, "–"),
        (0.42, 0.0, "0.420"),
    ],
)
def test_a_figure_ends_where_its_standard_error_begins(value: float, error: float, shown: str) -> None:
    assert wording.plus_minus(value, error) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.5, "50 %"), (0.0123, "1.2 %"), (0.0026, "0.26 %"), (2e-6, "<0.01 %"), (0.0, "0.00 %")]
)
def test_small_shares_keep_their_decimals(value: float, shown: str) -> None:
    assert wording.share(value) == shown


def test_almost_perfect_agreement_is_not_rounded_up() -> None:
    assert tables_of(make_resolution(), "components")[0].rows[0][4] == "0.9995"


def test_the_methods_say_what_is_ours_and_what_is_not_and_follow_the_settings() -> None:
    words = words_of(make_resolution())
    for part in (
        "Implements the recipe of Theorem 2 of Nelson et al. (2026)",
        "a local margin, while the bound is a worst case",
        "Ours: refits on half of the rows, the sandwich error of the angles",
        "by ICA with the logcosh contrast: a fixed-point search (FastICA), then a quasi-Newton polish",
        "The best of 3 starts was kept.",
        "is that of all but constant or collinear directions",
        "those below 1.5e-6 times the largest standard deviation were dropped (2)",
    ):
        assert part in words
    other = make_resolution(starts=1, settings={"contrast": "cube"}, converged=False)
    given = replace(other, whitening=replace(other.whitening, rule="given"), steps=other.steps[:3])
    words = words_of(given)
    assert "with the cube contrast: a fixed-point search (FastICA), with the sign" in words
    assert "The rank, 12, was given." in words
    assert "It did NOT converge" in words
    assert "starts was kept" not in words


@pytest.mark.parametrize("make", MAKERS)
def test_the_reproduction_section_has_hashes_seed_versions_and_command(make) -> None:  # type: ignore[no-untyped-def]
    result = make()
    words = words_of(result)
    for item in (*(i.sha256 for i in result.inputs), result.provenance.command, "numpy", "2.3.0", *result.settings):
        assert item in words


# -- figures


def test_a_histogram_is_filled_against_a_gaussian_of_the_same_scale() -> None:
    text = str(draw_picture(Spark(make_density(1.0), DENSITY_EDGES), "heavier <tails>"))
    assert "<title>heavier &lt;tails&gt;</title>" in text
    assert 'role="img"' in text
    fill, line = (re.search(rf'class="{name}" d="([^"]*)"', text) for name in ("fill", "gauss"))
    assert fill is not None
    assert line is not None
    top_of_fill = min(float(y) for y in re.findall(r"V([\d.]+)", fill.group(1)))
    top_of_line = min(float(y) for y in re.findall(r"[ML][\d.-]+ ([\d.]+)", line.group(1)))
    assert 0 <= top_of_fill < top_of_line < HEIGHT  # a Laplace density is higher in the middle
    flat = str(draw_picture(Spark(make_density(-1.0), DENSITY_EDGES), ""))
    lower = re.search(r'class="fill" d="([^"]*)"', flat)
    assert lower is not None
    assert min(float(y) for y in re.findall(r"V([\d.]+)", lower.group(1))) > 0.2 * HEIGHT


def test_a_spike_runs_off_the_picture_and_not_off_the_cell() -> None:
    spike = tuple(60.0 if i == 30 else 0.0 for i in range(60))
    text = str(draw_picture(Spark(spike, DENSITY_EDGES), ""))
    assert all(0 <= float(y) <= HEIGHT for y in re.findall(r"V([\d.-]+)", text))


@pytest.mark.parametrize(("share", "end"), [(0.0, 0), (0.5, GAUGE / 2), (1.0, GAUGE), (1.7, GAUGE), (-0.2, 0)])
def test_a_bar_is_as_long_as_its_share_and_never_longer_than_its_track(share: float, end: float) -> None:
    assert f'class="bar good" d="M0 4H{end:g}"' in draw_picture(Gauge(share, "good"), "x")


def test_the_cut_of_the_spectrum_is_marked_where_directions_were_dropped() -> None:
    result = make_resolution()
    figure = figure_of(result, "Spectrum")
    assert figure is not None
    assert figure.cut == ("rank 12", 12.5)
    assert figure.curves[0].points[0] == (1.0, 1.0)
    full = replace(result, whitening=replace(result.whitening, rank=14, dropped=0))
    whole = figure_of(full, "Spectrum")
    assert whole is not None
    assert whole.cut is None
    assert ">rank 12</text>" in report.html(result)
    assert ">rank 14</text>" not in report.html(full)


def test_search_and_polish_are_separate_lines_of_the_convergence() -> None:
    figure = figure_of(make_resolution(), "Convergence")
    assert figure is not None
    assert [(c.label, len(c.points)) for c in figure.curves] == [("search", 12), ("polish", 6)]
    at_work = figure_of(make_resolution(), "Components at work")
    assert at_work is not None
    assert at_work.curves[0].points[-1] == (12.0, 4.0)


def test_negative_margins_are_inside_the_plot() -> None:
    result = make_resolution(3)
    below = replace(result, components=(replace(result.components[0], curvature=-0.2), *result.components[1:]))
    text = re.search(r"<title>Curvature margin</title>.*?</g></svg>", report.html(below), flags=re.DOTALL)
    assert text is not None
    heights = [float(y) for y in re.findall(r"M[\d.]+ ([\d.-]+)h", text.group(0))]
    assert len(heights) >= 3
    assert all(0 <= y <= 100 for y in heights)
    assert ">-0.2</text>" in text.group(0)


@pytest.mark.parametrize("make", MAKERS)
def test_figures_have_titles_and_stay_inside_their_frame(make) -> None:  # type: ignore[no-untyped-def]
    text = report.html(make())
    figures = re.findall(r'<svg class="figure".*?</svg>', text, flags=re.DOTALL)
    assert figures
    assert all("<title>" in f and "<desc>" in f and 'role="img"' in f for f in figures)
    assert all(0 <= float(v) <= 100 for v in re.findall(r'\bx\d?="([\d.-]+)%"', text))
    outline = Outline(text)
    assert len(outline.tags("caption")) == len(outline.tags("table")) > 0


def test_points_of_a_cloud_differ_in_shape_and_not_in_colour_alone() -> None:
    text = report.html(make_resolution())
    assert '<g class="cloud"><path class="m main"' in text
    assert '<path class="m hollow hole"' in text


# -- markdown and text


@pytest.mark.parametrize("make", MAKERS)
def test_markdown_has_every_cell_of_every_table_of_the_page(make) -> None:  # type: ignore[no-untyped-def]
    result = make(16)
    markdown = report.markdown(result)
    text = markdown.replace("`", "").replace("\\", "")
    found = tables_of(result)
    assert len(found) > 5
    for table in found:
        for row in table.rows:
            assert "| " + " | ".join(row).replace("<", "&lt;") + " |" in text
    for above, below in pairwise(markdown.splitlines()):
        if above.startswith("|") and below.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", above)) == len(re.findall(r"(?<!\\)\|", below))


def test_the_terminal_shows_headline_first_components_reasons_and_alerts() -> None:
    result = make_resolution(80, alerts=[Alert("few_rows", "Only 40 rows.")])
    lines = report.text_table(result).splitlines()
    assert lines[0] == "cells   n 5,012, d 82, n/d 61, rank 80, effective rank 49.0"
    assert lines[1].startswith("60 of 80 components are reproducible. Converged after 19.2 passes, best of 3 starts;")
    table = [line for line in lines if re.match(r"\d+ +(yes|no)", line)]
    assert len(table) == 20
    assert table[0].split() == [
        "0", "yes", "0.9995", "0.02", "%", "0.0500", "±", "0.0006", "0.81", "2.70", "0.140", "0.0042",
    ]  # fmt: skip
    assert "… and 60 more, 40 of them reproducible: in the report and the JSON" in lines
    assert any(line.startswith("Not reproducible: 20 × turns into another component: ") for line in lines)
    assert "Cannot be told apart: 19 pairs, the worst 60 and 61." in lines
    swap = "Ties in the order: 1 pair of neighbours that may swap places with other rows (0 and 1)."
    assert swap in lines
    assert swap in report.text_table(replace(result, unresolved=())).splitlines()
    assert "Ties in the order" not in report.text_table(replace(result, ties=()))
    assert lines[-1] == "! few_rows: Only 40 rows."


def test_the_terminal_shows_models_and_matches_of_a_joint_result() -> None:
    lines = report.text_table(make_joint_resolution(3, 40)).splitlines()
    assert lines[0] == "30 of 40 components are shared by run1, run2, run3. Rows in common: 4,988."
    assert ["run2", "30", "40", "42", "24.5", "9", "19.2", "0", "converged"] in [line.split() for line in lines]
    assert ["0", "1", "2", "0.990", "≤", "0.005", "yes", "yes"] in [line.split() for line in lines]
    assert ["1", "2", "(−)", "3", "0.990", "≤", "0.005", "yes", "yes"] in [line.split() for line in lines]
    assert any(line.endswith("smallest |r|        p  shared  reprod. in all") for line in lines)
    assert any(line.startswith("Columns of models: the partner's place, (−) of opposite sign") for line in lines)
    assert "… and 20 more, 10 of them shared: in the report and the JSON" in lines
    assert not any("smallest |r|" in line for line in report.text_table(make_joint_resolution(12)).splitlines())


def test_every_line_fits_a_terminal() -> None:
    long = "a reason of many words that goes on and on " * 12
    heavy = replace(make_component(0, 4), kurtosis=98765.4, kurtosis_se=4321.0, negentropy=1e-9, negentropy_se=1e-10)
    wide = replace(make_resolution(4), components=(replace(heavy, identifiable=False, reason=long),))
    for result in (make_resolution(), make_resolution(400), make_joint_resolution(5, 1200, names=["x" * 50] * 5), wide):
        assert max(map(wording.columns_wide, report.text_table(result).splitlines())) <= 100


def test_text_blocks_say_nothing_twice() -> None:
    told = [b.text for b in blocks_of(page_of(make_resolution())) if isinstance(b, Text)]
    assert len(told) == len(set(told))


def test_a_few_components_turned_alone_do_not_show_as_the_whole() -> None:
    """Their long turns in between would look as if the polish had gone astray."""
    result = make_resolution()
    whole = [s for s in result.steps if s.phase == "polish"]
    alone = replace(whole[1], passes=whole[1].passes + 0.01, active=2, turn=0.9)
    with_them = replace(result, steps=(*result.steps, alone))
    turns, at_work = (figure_of(with_them, title) for title in ("Convergence", "Components at work"))
    assert turns is not None
    assert at_work is not None
    assert max(y for c in turns.curves if c.label == "polish" for _, y in c.points) < 0.9
    assert 2.0 in [y for c in at_work.curves if c.label == "polish" for _, y in c.points]
