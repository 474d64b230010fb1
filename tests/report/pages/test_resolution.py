"""The pages of `resolve`, of one model and of several: every number from the result, small at any width."""

from __future__ import annotations

import inspect
import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest

from builders import (
    blocks_of,
    card_of,
    figure_of,
    make_component,
    make_joint_resolution,
    make_resolution,
    shown_words,
    tables_of,
)
from identifiable import report
from identifiable.ica import diagnostics, joint
from identifiable.report import words
from identifiable.report.messages import wordings
from identifiable.report.page import Code, Fold, Spark, Text
from identifiable.report.pages.components import (
    COMPONENTS_LISTED,
    GISTS,
    PICTURED,
    gist,
    reasons,
    reproducible_limits,
    shape,
)
from identifiable.report.pages.joint import p_cell
from identifiable.report.pages.resolution import PAIRS_LISTED
from identifiable.results import Alert, Reason, Resolution, Start, Step, UnresolvedPair, from_json, to_json

TRUST = "Stability against negentropy"


def texts_of(result: Any, key: str) -> list[str]:
    return [b.text for b in blocks_of(result, key) if isinstance(b, Text)]


def all_good(of: int) -> Resolution:
    return replace(make_resolution(of), components=tuple(make_component(i, of, good=True) for i in range(of)))


# -- every number from the result


def test_the_tables_have_every_number_of_every_component() -> None:
    result = make_resolution(heavy_tailed=(2,))
    first, shapes, order = tables_of(result, "components")
    for component, line, moments, rest in zip(result.components, first.rows, shapes.rows, order.rows, strict=True):
        assert line == (
            str(component.index),
            "yes" if component.identifiable else "no",
            "" if component.identifiable else gist(component.reason),
            shape(component),
            words.beside(component.stability, 1.0),
            words.share(component.variance),
            words.number(component.negentropy),
            words.number(component.curvature),
            words.number(component.angle_se, 4),
        )
        assert moments[1:] == (
            words.plus_minus(component.negentropy, component.negentropy_se),
            words.plus_minus(component.skew, component.skew_se),
            words.plus_minus(component.kurtosis, component.kurtosis_se),
            words.probability(component.gaussian_p),
        )
        assert rest[2:] == (
            f"with {component.hardest}",
            words.number(component.stability_min),
            "yes" if component.sign_kept else "no",
            "0" if component.index == 0 else f"{component.index - 1} to {component.index}",
            words.number(component.residual),
        )
    assert first.rows[2][8] == shapes.rows[2][3] == words.MISSING
    assert first.rows[0][4] == "0.9995"  # not rounded up to perfect agreement


# -- the verdict


def test_the_card_counts_the_reproducible_components_and_says_whether_the_solver_converged() -> None:
    for settled, badge, tone in ((True, "most reproducible", "good"), (False, "NOT converged", "caution")):
        result = make_resolution(converged=settled)
        card = card_of(result)
        assert re.findall(r"\d+", card.sentence) == ["9", "12"]
        assert (card.badge, card.tone) == (badge, tone)
        facts = dict(card.facts)
        assert (facts["rank"], facts["effective rank"], facts["passes"]) == ("12 of 14", "7.4", "19.2")
        assert facts["contrast"] == "14.4671"
        assert len(texts_of(result, "convergence")) == (2 if settled else 3)
    assert card_of(make_resolution(refits=False)).badge == "converged"  # nothing was tested
    many = card_of(replace(make_resolution(), rank=1200, contrast=12345.678))
    assert "1,200" in many.sentence
    assert dict(many.facts)["contrast"] == "12,345.7"


@pytest.mark.parametrize(
    ("good", "tone", "size"), [(0, "caution", "none"), (3, "caution", "few"), (4, "good", "most"), (8, "good", "all")]
)
def test_a_page_is_good_news_only_if_half_of_the_components_hold(good: int, tone: str, size: str) -> None:
    one = replace(make_resolution(8), components=tuple(make_component(i, 8, good=i < good) for i in range(8)))
    joint = make_joint_resolution(2, 8)
    joint = replace(joint, matches=tuple(replace(m, shared=i < good) for i, m in enumerate(joint.matches)))
    assert card_of(one).tone == card_of(joint).tone == tone
    assert [card_of(one).badge.split()[0], card_of(joint).badge.split()[0]] == [size, size]


def test_the_rule_is_said_with_the_limits_that_are_recorded() -> None:
    result = make_resolution()
    rule = reproducible_limits(result.settings)
    for limit in ("0.93", "0.85", "0.3", "0.0001", "20 %", "0.05"):
        assert limit in rule
    assert rule in texts_of(result, "verdict")
    assert rule in texts_of(make_joint_resolution(), "models")
    assert "0.3" in tables_of(result, "components")[0].caption
    figure, bare = figure_of(result, TRUST), figure_of(make_resolution(settings={"limits": {}}), TRUST)
    assert figure is not None
    assert bare is not None
    assert figure.threshold is not None
    assert figure.threshold[1] == 0.93
    assert bare.threshold is None


@pytest.mark.parametrize(
    "limits", [None, {}, "0.93", [0.93], {"stability": "0.93", "angle_se": None, "residual": True}]
)
def test_a_rule_that_is_not_recorded_is_left_out(limits: Any) -> None:
    result = make_resolution(settings={"limits": limits})
    assert reproducible_limits(result.settings) == ""
    assert texts_of(result, "verdict") == []
    assert "0.3" not in tables_of(result, "components")[0].caption


def test_reasons_of_one_code_are_counted_together_with_their_numbers_as_ranges() -> None:
    values = [(0.92, 0.81), (0.46, 0.81), (0.6, 0.81)]
    reason = [
        Reason("refits_differ", {"mean": a, "worst": b, "least_mean": 0.93, "least_worst": 0.85}) for a, b in values
    ]
    parts = [replace(make_component(i, 8, good=False), reason=r) for i, r in enumerate([*reason, Reason("gaussian")])]
    (many, members), (_, alone) = reasons(parts)
    assert ([c.index for c in members], [c.index for c in alone]) == ([0, 1, 2], [3])
    assert "0.46 to 0.92" in many
    assert "0.81 (" in many
    assert reasons(parts[:1])[0][0] == reason[0].message  # alone, it keeps its numbers
    assert reasons([replace(parts[0], reason=Reason("", stored=""))])[0][0].startswith(words.MISSING)


def test_a_number_of_a_component_is_a_name_and_never_a_range() -> None:
    parts = [replace(make_component(i, 8), reason=Reason("turns_into", {"component": i})) for i in range(2)]
    ((found, _),) = reasons(parts)
    assert "component:" in found
    assert "1" not in found


def test_reasons_of_an_older_version_are_words_as_they_were() -> None:
    result = replace(make_resolution(4), components=tuple(make_component(i, 4, good=False) for i in range(4)))
    data = json.loads(to_json(result))
    for i, component in enumerate(data["components"]):
        component["reason"] = f"text no. {i}"
    old = from_json(json.dumps(data))
    assert [c.reason.message for c in old.components] == [f"text no. {i}" for i in range(4)]
    assert reasons(old.components)[0][0].startswith("text no. 0")


def test_a_line_has_a_reason_in_a_few_words_and_the_table_of_reasons_all_of_it() -> None:
    long = Reason("turns_into", {"component": 3}, 'the contrast is <too> "flat" between them')
    result = make_resolution(4)
    result = replace(result, components=(*result.components[:3], replace(result.components[3], reason=long)))
    assert [row[2] for row in tables_of(result, "components")[0].rows] == ["", "", "", "turns into 3"]
    assert tables_of(result, "verdict")[0].rows[0][0] == long.message
    assert "&lt;too&gt; &#34;flat&#34;" in report.html(result)
    assert len(gist(Reason("", stored="a long reason " * 4))) == 20


def test_every_reason_that_the_solver_gives_has_its_few_words() -> None:
    source = inspect.getsource(diagnostics) + inspect.getsource(joint)
    given = {c for c in re.findall(r'Reason\(\s*"(\w+)"', source) if not c.startswith("turns_into")}
    given -= {"reproducible"}
    assert given < set(wordings("Reason"))
    assert set(GISTS) == given


@pytest.mark.parametrize(
    ("skew", "kurtosis", "tails", "lean"),
    [
        (0.0, 3.0, "heavier", None),
        (0.0, -1.0, "lighter", None),
        (0.0, 0.1, "Gaussian", None),
        (0.5, 3.0, "heavier", "right"),
        (-0.5, 0.1, "Gaussian", "left"),
        (0.5, math.inf, "too heavy", "right"),
        (math.nan, 0.1, "Gaussian", None),
    ],
)
def test_a_density_is_put_into_words(skew: float, kurtosis: float, tails: str, lean: str | None) -> None:
    said = shape(replace(make_component(0, 4), skew=skew, kurtosis=kurtosis))
    assert tails in said
    assert re.findall("left|right", said) == ([] if lean is None else [lean])


# -- pairs, ties, starts


def test_pairs_that_can_be_separated_do_not_settle_what_refits_did_not() -> None:
    settled = replace(make_resolution(), unresolved=(), ties=(), starts=(Start(0, 14.4, 18.0, True, 0),))
    assert tables_of(settled, "pairs") == []
    (told,) = texts_of(settled, "pairs")
    assert "3 of 12" in told
    assert "--restarts" in texts_of(settled, "convergence")[-1]
    (fine,) = texts_of(replace(all_good(4), unresolved=(), ties=()), "pairs")
    (unknown,) = texts_of(replace(make_resolution(4, refits=False), unresolved=(), ties=()), "pairs")
    assert len({told, fine, unknown}) == 3
    assert "1 of 4" in texts_of(replace(make_resolution(4), unresolved=(), ties=()), "pairs")[0]


@pytest.mark.parametrize(("extra", "said"), [(5, "5 further pairs"), (1, "1 further pair"), (0, None)])
def test_long_lists_of_pairs_are_cut_and_say_how_many_there_are(extra: int, said: str | None) -> None:
    many = tuple(UnresolvedPair(i, i + 1, 0.001, 0.3) for i in range(PAIRS_LISTED + extra))
    result = replace(make_resolution(), unresolved=many, ties=())
    (table,) = tables_of(result, "pairs")
    assert len(table.rows) == PAIRS_LISTED
    assert str(len(many)) in table.caption
    (more,) = tables_of(replace(result, unresolved_pairs=171), "pairs")  # of which the result lists the worst
    assert "171" in more.caption
    notes = [b.text for b in blocks_of(result, "pairs") if isinstance(b, Text) and b.note]
    assert notes == [] if said is None else said in notes[0]


# -- several models


def test_the_matches_are_listed_with_their_partners() -> None:
    result = make_joint_resolution(3)
    table = tables_of(result, "matches")[0]
    assert [c.label for c in table.columns[:3]] == ["run1", "run2", "run3"]
    assert table.rows[0] == ("0", "1", "2", "0.990", "≤ 0.005", "yes", "")
    assert table.rows[1][:3] == ("1", "2 (−)", "3")
    assert table.rows[11] == ("11", "0 (−)", words.MISSING, "0.230", "≤ 0.005", "no", "no partner in run3")
    card = card_of(result)
    assert re.findall(r"\b\d+\b", card.sentence) == ["9", "12", "3"]
    assert dict(card.facts)["rows in common"] == "4,988"
    unsigned = replace(result.matches[0], identifiable=False, reason=Reason("sign_uncertain", {"models": ["run2"]}))
    doubted = replace(result, matches=(unsigned, *result.matches[1:]))
    assert re.findall(r"\b\d+\b", card_of(doubted).sentence) == ["9", "12", "3", "1"]
    assert tables_of(doubted, "matches")[0].rows[0][-2:] == ("yes", "sign uncertain in run2")
    older = replace(result, matches=tuple(replace(match, reason=None) for match in result.matches))
    assert {row[-1] for row in tables_of(older, "matches")[0].rows} == {""}


def test_what_to_do_next_follows_from_what_is_reproducible() -> None:
    def commands(result: Resolution) -> list[str]:
        return [b.text for b in blocks_of(result, "steps") if isinstance(b, Code)]

    none = replace(make_resolution(4), components=tuple(make_component(i, 4, good=False) for i in range(4)))
    assert ["--only-identifiable" in text for text in commands(make_resolution())] == [True]
    assert ["--only-identifiable" in text for text in commands(all_good(4))] == [False]
    assert [text.split()[1] for text in (*commands(all_good(4)), *commands(none))] == ["transform", "compare"]
    assert commands(make_resolution(refits=False)) == []


@pytest.mark.parametrize(
    ("p", "draws", "shown"),
    [(1 / 201, 200, "≤ 0.005"), (2 / 201, 200, "0.010"), (1 / 1001, 1000, "≤ 0.001"), (2 / 2001, 2000, "<0.001")],
)
def test_the_smallest_p_that_the_draws_can_give_is_a_bound(p: float, draws: int, shown: str) -> None:
    assert p_cell(p, {"draws": draws}) == shown
    assert p_cell(math.nan, {"draws": draws}) == words.MISSING
    assert p_cell(1 / 201, {}) == "≤ 0.005"


def test_the_matrix_of_models_counts_what_they_share_and_colours_it_by_the_smaller_rank() -> None:
    result = make_joint_resolution(3)
    counts = ((12, 6, 2), (6, 12, 0), (2, 0, 2))
    models = (*result.models[:2], replace(result.models[2], rank=2))
    (table,) = tables_of(replace(result, models=models, shared_counts=counts), "overview")
    assert [row[1:] for row in table.rows] == [("12", "6", "2"), ("6", "12", "0"), ("2", "0", "2")]
    assert table.shades == ((None, 3, 6), (3, None, 0), (6, 0, None))


def test_each_model_of_several_is_summarised_with_its_own_alerts() -> None:
    result = make_joint_resolution(2)
    told = replace(result.models[1], alerts=(Alert("rank_deficient", stored="Two of 14."),), converged=False)
    result = replace(result, models=(result.models[0], told))
    table = tables_of(result, "models")[0]
    assert [(row[1], row[-2], row[-1]) for row in table.rows] == [("9", "0", "converged"), ("9", "1", "NOT converged")]
    assert "Two of 14." in shown_words(result)
    assert "Two of 14." not in report.text_table(result)  # the command line counts them
    assert (card_of(result).badge, card_of(result).tone) == ("NOT all converged", "caution")


# -- what is missing


def test_absent_stability_is_said_and_not_drawn_as_zero() -> None:
    without, refitted = make_resolution(refits=False), make_resolution()
    assert ["--stability" in text for text in texts_of(without, "components")] == [True]
    assert texts_of(refitted, "components") == []
    assert "--stability" in report.text_table(without)
    assert figure_of(without, TRUST) is None
    assert figure_of(refitted, TRUST) is not None
    table = tables_of(without, "components")[0]
    assert {row[4] for row in table.rows} == {words.MISSING}
    assert set(table.pictures[4]) == {None}
    assert 'class="gauge"' not in report.html(without)
    assert report.html(refitted).count('class="gauge"') == 12
    assert "8 refits" in shown_words(refitted)
    assert "1 refit on" in shown_words(make_resolution(settings={"stability": 1}))


def test_a_component_without_its_number_is_left_out_of_the_plot_and_counted() -> None:
    result = make_resolution()
    gaps = (replace(result.components[0], stability=None), replace(result.components[1], negentropy=0.0))
    figure = figure_of(replace(result, components=(*gaps, *result.components[2:])), TRUST)
    whole = figure_of(result, TRUST)
    assert figure is not None
    assert whole is not None
    assert [len(cloud.points) for cloud in figure.clouds] == [7, 3]
    assert [len(cloud.points) for cloud in whole.clouds] == [9, 3]
    assert figure.description.removeprefix(whole.description).endswith(" 2.")


def test_a_histogram_that_cannot_be_drawn_gives_way_to_its_words() -> None:
    result = make_resolution(3)
    assert all(isinstance(picture, Spark) for picture in tables_of(result, "components")[0].pictures[3])
    bad = (replace(result.components[0], density=(0.1, 0.2)), replace(result.components[1], density=()))
    broken = replace(result, components=(*bad, result.components[2]))
    assert [p is None for p in tables_of(broken, "components")[0].pictures[3]] == [True, True, False]
    assert report.html(broken).count('class="spark"') == 1
    assert f">{shape(broken.components[0])}</td>" in report.html(broken)


def test_a_result_without_steps_starts_or_spectrum_draws_no_empty_figure() -> None:
    result = make_resolution()
    bare = replace(result, steps=(), starts=(), whitening=replace(result.whitening, spectrum=()))
    for title in ("Convergence", "Components at work", "Spectrum"):
        assert figure_of(result, title) is not None
        assert figure_of(bare, title) is None
    assert [type(b) for b in blocks_of(bare, "convergence")] == [Text]
    one = replace(result, steps=(Step(1.0, "search", 12, 0.3),))
    assert 'class="dots s1" d="M50' in report.html(one)  # a line of one point would not show


def test_one_component_and_none_are_drawn_alike_after_json() -> None:
    none = replace(make_resolution(2), components=(), rank=0, unresolved=(), ties=(), steps=(), starts=())
    for result in (make_resolution(1, starts=1), none, replace(make_joint_resolution(), matches=())):
        for render in (report.html, report.markdown, report.text_table):
            assert render(result) == render(from_json(to_json(result)))
    assert tables_of(none, "components") == []
    assert len(texts_of(none, "components")) == 1
    assert len(tables_of(make_resolution(1, starts=1), "components")[0].rows) == 1


# -- large


@pytest.mark.parametrize("d", [400, 1024])
def test_many_components_stay_usable_and_below_a_megabyte(d: int) -> None:
    result = make_resolution(d)
    text = report.html(result)
    assert len(text.encode()) < 1_000_000
    assert text.count('class="spark"') == PICTURED
    first, rest = tables_of(result, "components")[:2]
    assert (len(first.rows), len(rest.rows)) == (PICTURED, d - PICTURED)
    assert rest.pictures == {}
    fold = next(b for b in blocks_of(result, "components") if isinstance(b, Fold))
    assert re.findall(r"\d+", fold.summary) == ["40", str(d - 1), str(d - d // 4 - PICTURED), str(d - PICTURED)]
    assert fold.summary in " ".join(report.text_table(result).split())
    assert len(report.text_table(result).splitlines()) < 65


def test_beyond_the_limit_components_are_left_to_the_json() -> None:
    few = make_resolution(4)
    extra = tuple(replace(few.components[0], index=i) for i in range(COMPONENTS_LISTED + 7))
    (note,) = texts_of(replace(few, components=extra, rank=len(extra)), "components")
    assert re.findall(r"\d+", note) == ["7"]
    assert texts_of(few, "components") == []


@pytest.mark.long
def test_twenty_models_of_400_components_stay_below_three_megabytes() -> None:
    result = make_joint_resolution(20, 400, names=[f"{i} " + "x" * 300 for i in range(20)])
    assert len(report.html(result).encode()) < 3_000_000


# -- the figures


def test_negative_margins_are_inside_the_plot() -> None:
    result = make_resolution(3)
    below = replace(result, components=(replace(result.components[0], curvature=-0.2), *result.components[1:]))
    text = re.search(r"<title>Curvature margin</title>.*?</g></svg>", report.html(below), flags=re.DOTALL)
    assert text is not None
    heights = [float(y) for y in re.findall(r"M[\d.]+ ([\d.-]+)h", text.group(0))]
    assert len(heights) >= 3
    assert all(0 <= y <= 100 for y in heights)
    assert ">-0.2</text>" in text.group(0)
