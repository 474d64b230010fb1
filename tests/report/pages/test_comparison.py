"""The page of `compare`: every number of the ladder, the verdict that decides, honest about what is missing."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from builders import (
    LADDER,
    Outline,
    blocks_of,
    card_of,
    make_comparison,
    make_errors,
    make_pair,
    table_called,
    tables_of,
)
from errors import naming
from identifiable import report
from identifiable.report import words
from identifiable.report.answer import advice, answer
from identifiable.report.page import Block, Card, Curves, Dots, Notice, Table, Terms, Text
from identifiable.report.pages import page_of
from identifiable.report.pages.comparison import PAIRS_IN_BRIEF, cluster_order, similarity_rows
from identifiable.report.pages.ladder import card, efficiency_line, verdict_words
from identifiable.report.render.figures import drawn_legend
from identifiable.results import Alert, Efficiency, Null, PairResult, Rung, from_json, to_json


def ladder_of(result: Any) -> Table:
    return table_called(result, f"{result.pairs[0].source} → {result.pairs[0].target}: ")


def curves_of(result: Any, key: str) -> list[Curves]:
    return [b for b in blocks_of(result, key) if isinstance(b, Curves)]


def notes_of(result: Any) -> list[str]:
    """The notes under the ladder of the first pair."""
    blocks = page_of(result).sections
    return [b.text for s in blocks if s.key == "pair-1" for b in s.blocks if isinstance(b, Text)]


def with_rung(result: Any, i: int = 0, **changes: Any) -> Any:
    """The same comparison, its first pair only, with one rung changed."""
    pair = result.pairs[0]
    rungs = [replace(rung, **changes) if k == i else rung for k, rung in enumerate(pair.rungs)]
    return replace(result, pairs=(replace(pair, rungs=tuple(rungs)),))


# -- two models


def test_the_page_opens_with_sentence_picture_ladder_and_what_to_do() -> None:
    assert [type(b) for b in blocks_of(make_comparison(), "verdict")] == [Card, Dots, Text, Table, Text, Terms]
    older = make_comparison(older="As recorded.")
    assert [type(b) for b in blocks_of(older, "verdict")] == [Card, Table, Text]  # nothing to draw the others from
    keys = [section.key for section in page_of(make_comparison()).sections]
    assert [key for key in keys if key != "alerts"][1:6] == ["shared", "axes", "neighbours", "moved", "pair-1"]


def test_the_picture_has_r2_of_every_group_both_ways() -> None:
    result = make_comparison()
    there, back = result.pairs
    picture = next(b for b in blocks_of(result, "verdict") if isinstance(b, Dots))
    assert [row.label for row in picture.rows] == [words.group_name(g) for g in LADDER if g != "ica"]
    for row, rung, other in zip(picture.rows, there.rungs, back.rungs, strict=False):
        marks = {m.kind: m.value for m in row.marks}
        assert rung.r2 is not None
        assert other.r2 is not None
        assert (marks["main"], marks["hollow"]) == (rung.r2.value, other.r2.value)


def test_shared_dimensions_axes_and_neighbours_have_their_numbers() -> None:
    result = make_comparison()
    shared = result.pairs[0].shared
    assert shared is not None
    (curve,) = curves_of(result, "shared")
    assert curve.curves[0].points == tuple((k + 1.0, rho) for k, rho in enumerate(shared.rho))
    assert [row[1] for row in table_called(result, "Components of ICA").rows] == ["2", "9", "7", "0.1"]
    neighbours = table_called(result, "Share of the 10")
    assert [row[1] for row in neighbours.rows] == ["60 %", "7 %", "23 %", "90 %", "91 %"]
    assert "3,000" in neighbours.caption
    assert table_called(result, "Labels whose").rows == (("plate 7", "40", "0.310", "2.10", "0.050"),)


@pytest.mark.parametrize(
    ("withheld", "rows_needed", "shown"), [("few_rows", 3200, "3,200"), ("not_asked", 0, None), ("no_axes", 0, "2")]
)
def test_axes_that_are_withheld_say_why(withheld: Any, rows_needed: int, shown: str | None) -> None:
    result = make_comparison()
    axes = result.pairs[0].axes
    assert axes is not None
    pair = replace(result.pairs[0], axes=replace(axes, withheld=withheld, rows_needed=rows_needed))
    blocks = list(blocks_of(replace(result, pairs=(pair,)), "axes"))
    told = " ".join(b.text for b in blocks if isinstance(b, Text))
    told += " ".join(cell for b in blocks if isinstance(b, Table) for row in b.rows for cell in row)
    assert (shown is None and not blocks) or (shown is not None and shown in told)
    assert "ICA" not in answer(pair)
    assert "ICA" in answer(result.pairs[0])
    for matched, least in ((3, True), (0, False)):  # a lower bound of 0 says nothing
        bound = replace(result.pairs[0], axes=replace(axes, matched=matched, at_least=True))
        assert ("at least" in answer(bound)) is least


def test_copies_and_few_rows_are_in_the_sentence() -> None:
    pair = make_pair()
    assert pair.shared is not None
    same = Alert("identical_inputs", {"first": pair.source, "second": pair.target})
    other = Alert("identical_inputs", {"first": pair.source, "second": "another"})
    copies, plain = answer(pair, [same]), answer(pair, [other])
    assert plain == answer(pair)
    assert copies.endswith(plain)
    assert copies.startswith(f"{pair.source} and {pair.target} ")
    few = Alert("few_rows", {"training": 20, "dimensions": 4, "per_dimension": 5.0})
    weak = replace(pair, shared=replace(pair.shared, strong=1, partly=0))
    for each in (pair, weak):
        assert ("at least" in answer(each, [few]), "at least" in answer(each)) == (True, False)


def test_dimensions_that_are_not_counted_have_no_number() -> None:
    pair = make_pair()
    withheld = replace(pair, shared=replace(pair.shared, withheld=True, strong=0, partly=0))
    for each, number in ((withheld, False), (pair, True)):
        facts = dict(card(each).facts)
        assert any(letter.isdigit() for letter in facts["shared dimensions"]) == number


def test_the_sentence_names_degree_form_and_dimensions() -> None:
    pair = make_pair()
    shared = pair.shared
    assert shared is not None
    assert re.match(naming("Nearly", "rotation", 28, 32, 4), answer(pair))
    assert re.search(r"^Largely", answer(make_pair(ladder={**LADDER, "linear": 0.3, "rigid": 0.31, "similarity": 0.3})))
    one = replace(shared, strong=1, partly=0, variance_target=0.99)
    assert re.search(naming(1, 32, "99 %"), answer(replace(pair, shared=one)))
    nothing = replace(pair.verdict, degree="none", r2=-0.01, r2_back=-0.02)
    assert re.search(r"-0\.01 there and -0\.02", answer(replace(pair, verdict=nothing)))
    apart = replace(pair.verdict, r2=0.94, degree="largely", r2_back=0.62, degree_back="partly")
    assert re.search(naming("run1 → run2: ", "0.94", "run2 → run1: ", "0.62"), answer(replace(pair, verdict=apart)))


def test_p_values_are_printed_where_a_shuffle_does_as_well() -> None:
    def printed(p: float) -> tuple[list[str], int]:
        result = make_comparison()
        rungs = [replace(rung, null={"shuffle": Null(0.7, p, 0.1, 19, 5000)}) for rung in result.pairs[0].rungs]
        found = replace(result, pairs=(replace(result.pairs[0], rungs=tuple(rungs)),))
        table = next(b for b in blocks_of(found, "verdict") if isinstance(b, Table))
        told = [b.text for b in blocks_of(found, "verdict") if isinstance(b, Text)]
        return [c.label for c in table.columns if c.brief], sum("19" in text for text in told)

    assert [("p" in heads, told) for heads, told in map(printed, (0.05, 0.1))] == [(False, 1), (True, 0)]
    assert "p" in [column.label for column in ladder_of(make_comparison()).columns]


def test_an_alert_that_may_void_the_answer_stands_before_the_advice_and_once() -> None:
    doubted, other = Alert("paired_by_position"), Alert("efficiency_undefined", {"name": "run1 to run2"})
    result = replace(make_comparison(), alerts=(other, doubted))
    blocks = list(blocks_of(result, "verdict"))
    notices = [b for b in blocks if isinstance(b, Notice)]
    assert [b.code for b in notices] == ["paired_by_position"]
    assert blocks.index(notices[0]) < next(i for i, b in enumerate(blocks) if isinstance(b, Terms))
    assert [b.code for b in blocks_of(result, "alerts") if isinstance(b, Notice)] == ["efficiency_undefined"]
    text = report.text_table(result)
    assert (text.count("paired_by_position"), text.count("efficiency_undefined")) == (1, 1)
    assert text.index("paired_by_position") < text.index("Next: ") < text.index("efficiency_undefined")


def test_with_few_rows_the_unexplained_share_is_an_upper_bound() -> None:
    pair = make_pair()
    pair = replace(pair, verdict=replace(pair.verdict, r2=0.62, r2_back=0.62))
    sure, few = (next(advice(pair, alerts)) for alerts in ((), (Alert("few_rows"),)))
    assert ("again" in sure, "again" in few) == (True, False)
    assert re.search(naming("At most", "38 %"), few)


def test_few_words_have_r2_of_the_group_they_name_and_of_the_linear_map() -> None:
    pair = make_pair()
    found = {rung.group: words.number(rung.r2.value, 2) for rung in pair.rungs if rung.r2 is not None}
    assert f"rigid {found['rigid']}, linear {found['linear']}" in verdict_words(pair)
    form = pair.verdict.form
    assert form is not None
    bent = replace(pair, verdict=replace(pair.verdict, form=replace(form, group="linear")))
    assert verdict_words(bent).count("linear") == 1


def test_what_to_do_follows_from_the_numbers() -> None:
    pair = make_pair()
    assert len(list(advice(pair))) == 2
    assert list(advice(make_pair(older="As recorded."))) == []
    little = make_pair(ladder=dict.fromkeys(LADDER, 0.6))
    assert "72 %" in next(advice(little))  # of the variance unexplained
    assert "72 %" not in next(advice(pair))
    few = replace(pair, shared=replace(pair.shared, lower_bound=True), n=100)
    (more, *_) = advice(few, [Alert("few_rows", {"needed": 400})])
    assert "400" in more
    whole = replace(few, shared=replace(few.shared, strong=few.shared.possible, partly=0))
    assert "400" not in " ".join(advice(whole, [Alert("few_rows", {"needed": 400})]))  # there is nothing to gain


def none_of(pair: PairResult) -> PairResult:
    """A pair in which no linear map beats chance."""
    return replace(pair, verdict=replace(pair.verdict, degree="none", degree_back="none", r2=0.0, r2_back=0.0))


def test_where_no_line_holds_neighbours_decide_what_is_said_and_done() -> None:
    linked = none_of(make_pair())
    assert linked.neighbours is not None
    apart = replace(linked.neighbours, mutual=replace(linked.neighbours.mutual, value=0.002, ci95=(0.0, 0.004)))
    unrelated = replace(linked, neighbours=apart)
    assert card(linked).badge != card(unrelated).badge
    assert ("60 %" in answer(linked), "60 %" in answer(unrelated)) == (True, False)
    by_position = [Alert("paired_by_position")]
    said = {tuple(advice(pair, alerts)) for pair in (linked, unrelated) for alerts in ((), by_position)}
    assert len(said) == 3  # rows are to be checked in the second only, by ids or in the lists of ids
    assert list(advice(linked)) == list(advice(linked, by_position))
    assert "pass ids" not in " ".join(advice(unrelated))
    result = make_comparison()
    assert report.text_table(replace(result, pairs=(linked, result.pairs[1]))).count("60 %") == 1


def test_few_loud_dimensions_are_counted_where_the_degree_would_stand() -> None:
    pair = make_pair()
    assert pair.shared is not None
    loud = replace(pair, shared=replace(pair.shared, strong=1, partly=0))
    assert card(pair).tone == "good"
    assert (card(loud).badge, card(loud).tone) == ("1 of 32 dimensions shared", "caution")
    assert card(loud).badge in verdict_words(loud)
    partly = replace(loud, verdict=replace(loud.verdict, degree="partly", degree_back="partly"))
    assert card(partly).badge != card(loud).badge
    three = make_comparison(3)
    result, several = (
        replace(three, pairs=tuple(replace(p, verdict=pair.verdict, shared=each.shared) for p in three.pairs))
        for each in (pair, loud)
    )
    assert (card_of(result).tone, card_of(several).tone) == ("good", "caution")
    assert card_of(result).eyebrow != card_of(several).eyebrow


@pytest.mark.parametrize("protocol", ["default", "paper"])
def test_the_page_has_every_number_of_the_ladder(protocol: str) -> None:
    result = make_comparison(protocol=protocol)
    shown = {
        cell for key in ("pair-1", "pair-2") for table in tables_of(result, key) for row in table.rows for cell in row
    }
    for pair in result.pairs:
        for rung in pair.rungs:
            for errors in (rung.in_sample, rung.held_out):
                values = (errors.mean, errors.q50, errors.q95, errors.q99, errors.max)
                assert {words.number(v) for v in values} <= shown
                assert words.number(errors.mean_over_diameter, 4) in shown
            assert words.interval(rung.held_out.ci95) in shown
            for null in filter(None, rung.null.values()):
                assert {words.number(null.mean), words.probability(null.p), words.count(null.draws)} <= shown
    assert "0.9871234" not in shown


def test_the_ladder_has_one_line_per_group_and_marks_the_verdict() -> None:
    table = ladder_of(make_comparison())
    assert [c.label for c in table.columns[1:]] == ["R²", "95 % interval", "kept", "error", "q95", "shuffled", "p"]
    assert table.rows[1] == ("rigid", "0.996", "[0.986, 0.996]", "100 %", "0.043", "0.094", "0.970", "0.010")
    assert table.rows[4][1:4] == (words.MISSING,) * 3  # ICA has errors only
    assert table.strong == 1
    assert len(ladder_of(make_comparison(nulls=False)).columns) == 6


def test_a_result_saved_before_r2_was_measured_is_drawn_with_its_sentence() -> None:
    older = make_comparison(older="As recorded.")
    assert card_of(older).sentence == "As recorded."
    assert card_of(older).badge == "rigid"
    assert dict(card_of(older).facts)["smallest group with an error below ε = 0.1"] == "rigid"
    assert ladder_of(older).rows[1] == ("rigid", "0.043", "0.094", "0.970", "0.010")
    three = make_comparison(3, older="As recorded.")
    assert card_of(three).sentence.endswith("As recorded.")
    assert report.html(older) == report.html(from_json(to_json(older)))


def test_the_paper_protocol_puts_in_sample_over_diameter_first() -> None:
    for protocol, first in (("default", "held-out"), ("paper", "in-sample")):
        result = make_comparison(protocol=protocol)
        rung, scale = result.pairs[0].rungs[0], result.pairs[0].scale
        labels = [c.label for c in ladder_of(result).columns]
        assert ("mean/diam" in labels) == (protocol == "paper")
        whole = table_called(result, "Errors over")
        assert [row[1] for row in whole.rows[:2]] == [first, "in-sample" if first == "held-out" else "held-out"]
        forest = next(b for b in blocks_of(result, "pair-1") if isinstance(b, Dots))
        marks = {m.kind: m.value for m in forest.rows[0].marks}
        unit = scale.rms / scale.diameter if protocol == "paper" else 1.0
        errors = rung.in_sample if protocol == "paper" else rung.held_out
        shuffle = rung.null["shuffle"]
        assert shuffle is not None
        assert marks["main"] == pytest.approx(errors.mean * unit, rel=1e-12)
        assert marks["max"] == pytest.approx(errors.max * unit, rel=1e-12)
        assert marks["shuffle"] == pytest.approx(shuffle.mean * unit, rel=1e-12)


def test_the_card_names_degree_gates_and_size() -> None:
    good, none = card_of(make_comparison()), card_of(make_comparison(ladder=dict.fromkeys(LADDER, 0.6)))
    assert (good.badge, good.tone) == ("nearly the same", "good")
    assert none.tone == "caution"
    facts = dict(good.facts)
    assert (facts["verdict.group, for gates"], facts["shared dimensions"]) == ("rigid", "28 of 32, 4 partly")
    assert dict(none.facts)["verdict.group, for gates"] == "none"
    assert (facts["rows"], facts["rows dropped"], facts["rows per dimension"]) == ("5,000", "12", "156")


def test_rounding_errors_need_no_note() -> None:
    rounding = {"signed_permutation": 1e-9, "rigid": 2e-8, "similarity": 3e-8, "linear": 9e-8, "ica": 2e-8}
    for ladder in (rounding, dict.fromkeys(LADDER, 0.0)):
        assert notes_of(make_comparison(ladder=ladder)) == []
    visible = make_comparison(ladder={g: 1e3 * m for g, m in rounding.items()})
    assert len(notes_of(visible)) == 6  # three steps of the ladder, held-out and in-sample


def test_a_larger_group_with_a_worse_mean_is_explained() -> None:
    worse = {**LADDER, "linear": 0.08}
    held_out, in_sample = notes_of(make_comparison(ladder=worse))
    assert re.search(r"held-out .*linear", held_out)
    assert re.search(r"in-sample .*linear", in_sample)
    assert notes_of(make_comparison()) == []
    assert notes_of(make_comparison(ladder={**LADDER, "linear": LADDER["similarity"] * 1.0001})) == []  # same decimals
    few = replace(make_comparison(), pairs=(make_pair(ladder=worse, n=200, width=32),))
    assert "6.2" in notes_of(few)[0]
    assert "1,024" in notes_of(few)[0]


def test_a_scale_that_a_rigid_map_does_not_fit_is_said_once_and_is_the_reason_only_where_there_is_one() -> None:
    result = make_comparison(ladder={**LADDER, "rigid": 0.8})
    pair = result.pairs[0]
    assert pair.verdict.form is not None
    assert len(notes_of(result)) == 2  # held-out and in-sample, for a reason that is not the scale
    form = replace(pair.verdict.form, scale=2.998, scale_state="other")
    scaled = replace(pair, verdict=replace(pair.verdict, form=form))
    (note,) = notes_of(replace(result, pairs=(scaled, *result.pairs[1:])))
    assert "2.998" in note


def test_missing_numbers_are_dashes_with_a_reason() -> None:
    bare = make_comparison(nulls=False, intervals=False, quantiles=False)
    assert len(notes_of(bare)) == 2  # no intervals, no nulls
    assert {row[2] for row in ladder_of(bare).rows} == {words.MISSING}
    assert curves_of(bare, "pair-1") == []
    similarity = table_called(bare, "Similarity of")
    assert {row[2:4] for row in similarity.rows} == {(words.MISSING, words.MISSING)}
    note = next(b.text for b in blocks_of(bare, "similarity") if isinstance(b, Text) and b.note)
    assert all(row[0] in note for row in similarity.rows)


def test_numbers_that_are_not_finite_look_the_same_after_json() -> None:
    broken = with_rung(make_comparison(), held_out=replace(make_errors(0.5), max=math.inf, ci95=(0.1, math.inf)))
    for render in (report.html, report.markdown, report.text_table):
        assert render(broken) == render(from_json(to_json(broken)))
    assert table_called(broken, "Errors over").rows[0][7] == words.MISSING


@pytest.mark.parametrize(
    ("efficiency", "start", "reason"),
    [
        (None, "– (", True),
        (Efficiency(None, None), "– (", True),
        (Efficiency(-3884.8, None), "– held-out, below -999 % in-sample", True),
        (Efficiency(0.59, 0.57, (0.5, 0.64)), "57 % [50, 64] % held-out, 59 % in-sample", False),
        (Efficiency(None, 0.57, (0.5, 0.64)), "57 % [50, 64] % held-out", False),
        (Efficiency(0.59, None), "– held-out, 59 % in-sample", True),
        (Efficiency(1.12, 1.12), "112 % held-out, 112 % in-sample", True),
        (Efficiency(-0.1, -0.1), "-10 % held-out, -10 % in-sample", True),
    ],
)
def test_an_efficiency_that_needs_a_reason_has_one(efficiency: Efficiency | None, start: str, reason: bool) -> None:
    line = efficiency_line(efficiency)
    assert line.startswith(start)
    assert line.endswith(")") == reason


def test_a_page_with_one_group_is_drawn() -> None:
    alone = make_comparison(ladder={"rigid": 0.04})
    assert alone.pairs[0].ica_efficiency is None
    assert [row[0] for row in ladder_of(alone).rows] == ["rigid"]
    names = [term for b in blocks_of(alone, "reading") if isinstance(b, Terms) for term, _ in b.items]
    assert names[0] == "rigid"
    assert "ICA" not in names


def test_a_null_on_fewer_rows_says_so_and_shows_the_value_on_the_same_rows() -> None:
    result = make_comparison()
    assert re.search(naming(2000, 5000), ladder_of(result).caption)
    similarity = table_called(result, "Similarity of")
    assert similarity.rows[0][:5] == ("CCA", "0.983", "0.900", "0.061", "0.010")
    assert "0.983 (0.900; 0.061; 0.010)" in table_called(make_comparison(3), "Similarity of each").rows[0]
    whole = replace(result, pairs=tuple(replace(p, n=2000) for p in result.pairs))
    assert "of 2,000 rows" not in ladder_of(whole).caption
    assert table_called(whole, "Similarity of").rows[0][:4] == ("CCA", "0.983", "0.061", "0.010")


# -- several models


def test_a_page_of_several_models_starts_with_the_weakest_verdict_and_counts_the_others() -> None:
    result = make_comparison(4)
    worst = max(result.pairs, key=lambda p: p.rung("linear").held_out.q95)
    card = card_of(result)
    assert card.sentence.startswith(f"{worst.source} → {worst.target}: ")
    facts = dict(card.facts)
    assert (facts["largely the same"], facts["nearly the same"]) == ("8 of 12 ordered pairs", "4 of 12 ordered pairs")
    fine = card_of(make_comparison(3, ladder=dict.fromkeys(LADDER, 0.001)))
    assert (fine.badge, fine.tone) == ("nearly the same", "good")
    cells = table_called(result, "Each ordered pair").rows[0]
    assert cells[1:7] == ("0.23", "0.91", "0.91", "0.92", words.MISSING, "28 of 32")


def test_the_matrices_have_every_pair_and_an_empty_diagonal() -> None:
    for protocol in ("default", "paper"):
        result = make_comparison(3, protocol=protocol)
        matrices = [t for t in tables_of(result, "overview") if t.shades]
        assert len(matrices) == 1 + len(LADDER)  # the verdicts, and one for each group
        for table in matrices:
            assert [row[i + 1] for i, row in enumerate(table.rows)] == ["·"] * 3
        rung = result.pairs[0].rung("rigid")
        value = rung.in_sample.mean_over_diameter if protocol == "paper" else rung.held_out.mean
        rigid = next(t for t in matrices if t.caption.startswith("Rigid"))
        assert words.number(value) in {cell for row in rigid.rows for cell in row}
    assert any(isinstance(b, Dots) for b in blocks_of(make_comparison(3), "overview"))
    assert table_called(make_comparison(3), "Distance of").rows[1] == (
        "run2", "0.164", "0.148", "0.279", "0.508",
    )  # fmt: skip


def test_clustering_brings_families_together_whatever_the_order() -> None:
    # two families, {0, 2, 4} and {1, 3}: 0.1 within, 0.9 across
    distances = [[0.0 if i == j else 0.1 if (i - j) % 2 == 0 else 0.9 for j in range(5)] for i in range(5)]
    order = cluster_order(distances)
    assert sorted(order) == list(range(5))
    assert sum((a - b) % 2 for a, b in pairwise(order)) == 1
    assert sorted(cluster_order([[0.0, math.nan], [math.nan, 0.0]])) == [0, 1]
    assert order == [0, 2, 4, 1, 3]  # within a family, and of families, as given


@pytest.mark.parametrize(("models", "folds"), [(20, 382), (21, 422), (30, 2)])
def test_many_models_stay_below_three_megabytes(models: int, folds: int) -> None:
    names = [
        f"{i} " + "x" * 300 for i in range(models)
    ]  # names are cut in titles, so their length cannot blow up the page
    text = report.html(make_comparison(models, names=names, width=384, spectrum=384))
    assert len(text.encode()) < 3_000_000
    assert len(Outline(text).tags("details")) == folds
    assert (folds == 2) == (models * (models - 1) > PAIRS_IN_BRIEF)


# -- similarity and spectra


def test_nulls_of_svcca_are_found_by_their_number_of_components() -> None:
    similarity = make_pair().similarity
    null = Null(mean=0.2, p=0.5, observed=0.9, draws=9, rows=10)
    both = replace(similarity, svcca={"16": 0.9, "4": 0.8}, null={"svcca_16": null})
    found = {name: value for _, name, _, value in similarity_rows(both)}
    assert found["SVCCA, 16 components"] == null
    assert found["SVCCA, 4 components"] is None
    assert list(found)[1:3] == ["SVCCA, 4 components", "SVCCA, 16 components"]


def test_a_constant_representation_has_no_spectrum_to_draw() -> None:
    result = make_comparison()
    flat = tuple(replace(s, variances=(0.0, 0.0), rank=0, effective_rank=math.nan) for s in result.spectra)
    assert curves_of(result, "spectra")
    assert curves_of(replace(result, spectra=flat), "spectra") == []
    table = table_called(replace(result, spectra=flat), "Spectrum of each")
    assert table.rows[0] == ("run1", "2", "0", words.MISSING, words.MISSING, words.MISSING)
    assert table_called(result, "Spectrum of each").rows[0] == ("run1", "32", "32", "16.0", "17 %", "16")


# -- the figures


def test_the_legend_names_every_mark_that_is_drawn_and_no_other() -> None:
    def drawn(result: Any) -> set[str]:
        return {kind for kind, _ in drawn_legend(next(b for b in blocks_of(result, "pair-1") if isinstance(b, Dots)))}

    result = make_comparison()
    whole = {"main", "whisker", "hollow", "q95", "max", "shuffle", "rotation", "limit"}
    assert drawn(result) == whole
    far = with_rung(result, held_out=replace(result.pairs[0].rungs[0].held_out, max=50.0))
    assert drawn(far) == whole | {"beyond"}
    assert report.html(far).count("▸") == 2  # in the figure and in its legend
    assert drawn(make_comparison(intervals=False, nulls=False)) == whole - {"whisker", "shuffle", "rotation"}


def test_a_far_maximum_does_not_flatten_the_curves() -> None:
    result = make_comparison()
    rung: Rung = result.pairs[0].rungs[0]
    (far,) = curves_of(with_rung(result, held_out=replace(rung.held_out, max=50.0)), "pair-1")
    (near,) = curves_of(result, "pair-1")
    assert near.top is None
    assert far.top == pytest.approx(1.3 * max(r.held_out.q99 for r in result.pairs[0].rungs))
    assert "50.00" in far.description


# -- the terminal


@pytest.mark.parametrize(("models", "matrices", "listed"), [(2, 0, False), (4, 1, True), (7, 0, True), (20, 0, False)])
def test_a_terminal_has_the_matrix_of_few_models_and_the_list_of_a_few_more(
    models: int, matrices: int, listed: bool
) -> None:
    text = report.text_table(make_comparison(models))
    heads = [line.split()[3:] for line in text.splitlines() if line.startswith("source \\ target")]
    assert heads == [[str(i + 1) for i in range(models)]] * matrices
    assert ("\nrun1 → run2 " in text) == listed
    assert max(map(words.columns_wide, text.splitlines())) <= 100
    brief: list[Block] = [b for b in blocks_of(make_comparison(models)) if b.brief]
    found = [b for b in brief if isinstance(b, Table)]
    ladder = moved = 1
    consensus = models > 2
    assert len(found) == ladder + moved + matrices + listed + consensus
