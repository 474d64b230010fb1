"""The page: complete, self-contained, the same bytes for the same result, and honest about what is missing."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from cases import LADDER, make_comparison, make_errors, make_pair
from identifiable import report
from identifiable._checks import UsageError
from identifiable.report import wording
from identifiable.report.content import PAIRS_IN_BRIEF, comparison_page
from identifiable.report.figures import nice_ticks
from identifiable.report.methods import bibtex
from identifiable.report.page import Card, Dots, Fold, Table
from identifiable.report.reading import cluster_order, efficiency_line, projection, similarity_rows
from identifiable.results import Alert, Comparison, Efficiency, Null, WorstRow, from_json, to_json, without_time

HOSTILE = '<script>alert("1")</script>'
RENDERERS = (report.html, report.fragment, report.markdown, report.text_table)
VOID = {"meta", "br", "circle", "path", "line", "polyline"}


class Outline(HTMLParser):
    """Tags of a page; fails on one that is left open or closed twice."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        last = self.open.pop()
        assert last == tag, f"</{tag}> closes <{last}>"

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.seen if tag == name]


def foreign_loads(text: str) -> list[str]:
    """Everything in a page that a browser would fetch, or run, from elsewhere or from within."""
    outline = Outline(text)
    loads = [tag for tag, _ in outline.seen if tag in ("script", "link", "img", "iframe", "object", "embed", "base")]
    for tag, attributes in outline.seen:
        loads += [f"{tag} {k}" for k in attributes if k in ("src", "srcset", "data", "poster") or k.startswith("on")]
        target = attributes.get("href") or "#"
        loads += [] if target.startswith("#") else [f"{tag} href {target}"]
    styles = "".join(re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL))
    return loads + re.findall(r"@import|url\(|@font-face", styles)


def shown_words(result: Comparison) -> str:
    return " ".join(" ".join(Outline(report.html(result)).words).split())


# -- the page


def test_the_page_has_every_section_and_each_link_has_its_target() -> None:
    outline = Outline(report.html(make_comparison()))
    links = [a["href"] for a in outline.tags("a")]
    targets = ["#" + str(s["id"]) for s in outline.tags("section")]
    assert links == ["#reading", *targets]  # the short guide under the title, then the list of sections
    assert targets == [
        "#alerts", "#verdict", "#pair-1", "#pair-2", "#similarity", "#spectra", "#reading", "#reproduction",
    ]  # fmt: skip


def test_a_page_of_several_models_starts_with_verdict_and_matrices_and_folds_the_pairs() -> None:
    page = comparison_page(make_comparison(4))
    assert [s.key for s in page.sections] == [
        "verdict",
        "alerts",
        "overview",
        "pairs",
        "similarity",
        "spectra",
        "reading",
        "reproduction",
    ]
    overview, pairs = page.sections[2], page.sections[3]
    heat_maps = [b for b in overview.blocks if isinstance(b, Table) and b.shades]
    assert len(heat_maps) == 1 + len(LADDER)  # the verdicts, and one for each group
    assert any(isinstance(b, Dots) and "consensus" in b.title for b in overview.blocks)
    assert len([b for b in pairs.blocks if isinstance(b, Fold)]) == 12
    assert len(Outline(report.html(make_comparison(4))).tags("details")) == 12


def test_the_second_direction_of_two_models_is_folded_under_its_verdict() -> None:
    sections = {s.key: s for s in comparison_page(make_comparison()).sections}
    (fold,) = sections["pair-2"].blocks
    assert isinstance(fold, Fold)
    assert fold.summary == "The other way: rigid (q95 0.095)"
    assert not any(isinstance(b, Fold) for b in sections["pair-1"].blocks)


def test_both_verdicts_of_two_models_have_a_card_only_where_they_differ() -> None:
    alike = make_comparison()
    differ = replace(alike, pairs=(alike.pairs[0], make_pair("run2", "run1", ladder=dict.fromkeys(LADDER, 0.6))))
    for result, cards in ((alike, 1), (differ, 2)):
        verdict = next(s for s in comparison_page(result).sections if s.key == "verdict")
        assert sum(isinstance(b, Card) for b in verdict.blocks) == cards
    assert "The other way, run2 → run1: rigid (q95 0.095)." in shown_words(alike)


def test_the_first_card_of_several_models_is_the_weakest_verdict_and_counts_the_others() -> None:
    result = make_comparison(4)
    (card,) = comparison_page(result).sections[0].blocks
    assert isinstance(card, Card)
    none = [p for p in result.pairs if p.verdict.group is None]
    assert 0 < len(none) < len(result.pairs)
    worst = max(none, key=lambda p: p.rung("linear").held_out.q95)
    assert card.sentence.startswith(f"{worst.source} → {worst.target}: Not the same")
    assert card.facts == (
        ("rigid", "3 of 12 pairs"), ("similarity", "1 of 12 pairs"), ("none of the groups", "8 of 12 pairs"),
    )  # fmt: skip
    (fine,) = comparison_page(make_comparison(3, ladder=dict.fromkeys(LADDER, 0.001))).sections[0].blocks
    assert isinstance(fine, Card)
    assert (fine.badge, fine.tone) == ("signed permutation", "good")


def test_the_ladder_shows_every_figure_of_a_rung() -> None:
    result = make_comparison()
    words = shown_words(result)
    for pair in result.pairs:
        for rung in pair.rungs:
            for errors in (rung.in_sample, rung.held_out):
                for value in (errors.mean, errors.q50, errors.q95, errors.q99, errors.max):
                    assert wording.number(value) in words
                assert wording.number(errors.mean_over_diameter, 4) in words
            assert wording.interval(rung.held_out.ci95) in words
    assert "0.9871234" not in words


def test_html_loads_nothing_from_elsewhere() -> None:
    for result in (make_comparison(), make_comparison(4)):
        for text in (report.html(result), report.fragment(result)):
            assert foreign_loads(text) == []
            assert not re.search("https?://", text)
    assert foreign_loads('<img src="x.png"><a href="http://a.b">c</a></img><style>@import "x"</style>') != []


def test_the_search_for_foreign_loads_finds_each_kind() -> None:
    for bad in (
        '<script src="x.js"></script>',
        '<link rel="stylesheet" href="x.css"></link>',
        '<p onclick="x()"></p>',
        "<style>p{background:url(x.png)}</style>",
    ):
        assert foreign_loads(bad), bad


def test_hostile_names_ids_and_messages_are_shown_as_text() -> None:
    result = make_comparison(
        names=[HOSTILE, "b|`*c*`"], alerts=[Alert(HOSTILE, HOSTILE)], command=HOSTILE, text=HOSTILE
    )
    pair = replace(result.pairs[0], worst=(WorstRow(HOSTILE, 0.5),))
    result = replace(result, pairs=(pair, *result.pairs[1:]), settings={**result.settings, HOSTILE: HOSTILE})
    for text in (report.html(result), report.fragment(result)):
        assert "<script" not in text
        assert "&lt;script&gt;" in text
    assert Outline(report.html(result)).tags("script") == []
    outside_code = re.sub(r"`+[^`]*`+", "", report.markdown(result))
    assert "<script" not in outside_code
    assert "&lt;script&gt;" in outside_code


def test_names_with_line_ends_and_terminal_escapes_stay_on_one_line() -> None:
    clean = report.text_table(make_comparison(names=["a", "b"])).count("\n")
    text = report.text_table(make_comparison(names=["a\x1b[31m\n", "b"]))
    assert "\x1b" not in text
    assert "a\\x1b[31m\\n → b" in text
    assert text.count("\n") == clean


def test_markdown_tables_keep_their_columns_whatever_the_names() -> None:
    lines = report.markdown(make_comparison(3, names=["a|b", "c\\", "`d`"])).splitlines()
    for above, below in pairwise(lines):
        if above.startswith("|") and below.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", above)) == len(re.findall(r"(?<!\\)\|", below)), (above, below)


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("n_models", [2, 4])
def test_equal_results_give_equal_bytes_also_after_json(render, n_models) -> None:  # type: ignore[no-untyped-def]
    result = make_comparison(n_models, alerts=[Alert("a", "b")], settings={"shape": (1, 2), "tolerance": math.inf})
    once = render(result)
    assert once == render(
        make_comparison(n_models, alerts=[Alert("a", "b")], settings={"shape": (1, 2), "tolerance": math.inf})
    )
    assert once == render(from_json(to_json(result)))


def test_a_result_with_infinite_figures_looks_the_same_after_json() -> None:
    result = make_comparison()
    rung = replace(result.pairs[0].rungs[0], held_out=replace(make_errors(0.5), max=math.inf, ci95=(0.1, math.inf)))
    result = replace(result, pairs=(replace(result.pairs[0], rungs=(rung, *result.pairs[0].rungs[1:])),))
    for render in RENDERERS:
        assert render(result) == render(from_json(to_json(result)))


def test_the_only_time_on_the_page_is_that_of_the_run() -> None:
    result = make_comparison()
    assert result.provenance.time in report.html(result)
    assert result.provenance.time not in report.html(without_time(result))
    other = replace(result, provenance=replace(result.provenance, time="2001-01-01T00:00:00+00:00"))
    assert report.html(other).replace("2001-01-01T00:00:00+00:00", result.provenance.time) == report.html(result)


def test_twenty_models_stay_below_three_megabytes() -> None:
    names = [f"a_rather_long_name_of_a_model_seed_{i}" for i in range(20)]
    text = report.html(make_comparison(20, names=names, width=384, spectrum=384))
    assert len(text.encode()) < 3_000_000
    assert len(Outline(text).tags("details")) == 380


def test_the_largest_page_with_ladders_and_a_larger_one_stay_below_three_megabytes() -> None:
    names = [f"{i} " + "x" * 300 for i in range(30)]  # names are cut in titles, so their length cannot blow up the page
    assert len(report.html(make_comparison(21, names=names[:21], width=384, spectrum=384)).encode()) < 3_000_000
    assert PAIRS_IN_BRIEF < 30 * 29
    text = report.html(make_comparison(30, names=names, width=384, spectrum=384))
    assert len(text.encode()) < 3_000_000
    assert "listed by verdict only" in text


def test_the_page_holds_no_row_but_the_worst_by_name() -> None:
    words = shown_words(make_comparison())
    assert "cell-0042" in words
    assert "Rows served worst" in words
    bare = replace(make_comparison(), pairs=(make_pair(worst=()),))
    assert "Rows served worst" not in shown_words(bare)


# -- headline


def test_the_paper_protocol_puts_in_sample_over_diameter_first() -> None:
    default, paper = make_comparison(), make_comparison(protocol="paper")
    assert "in-sample, as in the paper" in shown_words(paper)
    assert "in-sample, as in the paper" not in shown_words(default)
    for result, first, second in ((default, "held-out", "in-sample"), (paper, "in-sample", "held-out")):
        blocks = next(s for s in comparison_page(result).sections if s.key == "pair-1").blocks
        table = next(b for b in blocks if isinstance(b, Table))
        assert [row[1] for row in table.rows[:2]] == [first, second]
        assert (table.columns[2].label == "mean / diameter") == (result is paper)
        forest = next(b for b in blocks if isinstance(b, Dots))
        rung = result.pairs[0].rungs[0]
        expected = rung.in_sample.mean_over_diameter if result is paper else rung.held_out.mean
        assert next(m.value for m in forest.rows[0].marks if m.kind == "main") == expected


def test_the_paper_protocol_draws_every_mark_in_units_of_the_diameter() -> None:
    result = make_comparison(protocol="paper")
    blocks = next(s for s in comparison_page(result).sections if s.key == "pair-1").blocks
    marks = {m.kind: m.value for m in next(b for b in blocks if isinstance(b, Dots)).rows[0].marks}
    pair = result.pairs[0]
    unit = pair.scale.rms / pair.scale.diameter
    shuffle = pair.rungs[0].null["shuffle"]
    assert shuffle is not None
    assert marks["max"] == pytest.approx(pair.rungs[0].in_sample.max * unit, rel=1e-12)
    assert marks["shuffle"] == pytest.approx(shuffle.mean * unit, rel=1e-12)


def test_paper_matrices_hold_the_papers_figure() -> None:
    result = make_comparison(3, protocol="paper")
    text = report.text_table(result)
    expected = wording.number(result.pairs[0].rung("rigid").in_sample.mean_over_diameter)
    assert "rigid: in-sample mean / diameter, as in the paper" in text
    assert expected in text
    assert "rigid: held-out mean" in report.text_table(make_comparison(3))


def test_the_verdict_says_which_group_and_the_recorded_sentence_wins() -> None:
    assert "The same up to a rigid motion: 95 % of held-out rows land within" in shown_words(make_comparison())
    assert "Not the same up to any group tried" in shown_words(make_comparison(ladder=dict.fromkeys(LADDER, 0.6)))
    assert "A sentence from the run." in shown_words(make_comparison(text="A sentence from the run."))


# -- what a reader must know


def test_alerts_come_before_the_verdict_and_their_absence_is_said() -> None:
    words = shown_words(make_comparison(alerts=[Alert("few_rows", "Only 40 rows.")]))
    assert words.index("few_rows") < words.index("Only 40 rows.") < words.index("The same up to")
    assert "No alerts" not in words
    assert "No alerts" in shown_words(make_comparison())
    assert report.text_table(make_comparison(alerts=[Alert("few_rows", "Only 40 rows.")])).endswith(
        "! few_rows: Only 40 rows.\n"
    )


def test_many_alerts_of_one_kind_are_folded_but_none_is_lost() -> None:
    alerts = [Alert("ill_conditioned", f"pair number {i}") for i in range(50)]
    text = report.html(make_comparison(alerts=alerts))
    assert all(f"pair number {i}" in text for i in range(50))
    assert "and 49 more of this kind" in text
    assert len(Outline(text).tags("code")) == 1
    printed = report.text_table(make_comparison(alerts=alerts))
    assert printed.endswith("! ill_conditioned: pair number 0 (49 more of this kind in the report and the JSON)\n")
    single = report.html(make_comparison(alerts=alerts[:1]))
    assert "more of this kind" not in single
    assert all(f"- pair number {i}" in report.markdown(make_comparison(alerts=alerts)) for i in range(1, 50))


def test_a_larger_group_with_a_worse_mean_is_explained() -> None:
    worse = {**LADDER, "linear": 0.08}
    assert "Linear contains similarity, yet its held-out mean is larger" in shown_words(make_comparison(ladder=worse))
    assert "yet its" not in shown_words(make_comparison())
    invisible = {**LADDER, "linear": LADDER["similarity"] * 1.0001}  # the same three decimals
    assert "yet its" not in shown_words(make_comparison(ladder=invisible))
    few = replace(make_comparison(ladder=worse), pairs=(make_pair(ladder=worse, n=200, width=32),))
    assert "n/d is only 6.2" in shown_words(few)


def test_ica_is_called_no_group() -> None:
    told = "each side is resolved by itself, then matched by signed permutation"
    without = {g: m for g, m in LADDER.items() if g != "ica"}
    for render in (shown_words, report.markdown, report.text_table):
        assert told in render(make_comparison())
        assert told not in render(make_comparison(ladder=without))


def test_reading_guide_gives_supremum_and_mean_their_names() -> None:
    words = shown_words(make_comparison())
    for part in ("essential supremum", "0.71", "Held-out", "Chance (nulls)"):
        assert part in words


def test_predicting_the_mean_gives_an_rms_error_of_071_and_a_mean_of_at_most_that() -> None:
    # The guide's claim, on three points at the corners of a right triangle: exact arithmetic.
    points = [(0.0, 0.0), (3.0, 0.0), (0.0, 4.0)]
    centre = (1.0, 4 / 3)
    to_centre = [math.dist(p, centre) for p in points]
    all_pairs = [math.dist(p, q) for p in points for q in points]  # ordered, with itself: n² pairs
    rms = math.sqrt(sum(v * v for v in all_pairs) / len(all_pairs))
    assert math.sqrt(sum(v * v for v in to_centre) / 3) / rms == pytest.approx(math.sqrt(0.5), rel=1e-12)
    assert sum(to_centre) / 3 / rms < math.sqrt(0.5)


# -- missing parts


def test_missing_figures_are_dashes_with_a_reason_and_never_nan() -> None:
    result = make_comparison(nulls=False, bootstrap=0, quantiles=False)
    gaps = replace(result.pairs[0], ica_efficiency=Efficiency(None, None))
    result = replace(result, pairs=(gaps, *result.pairs[1:]))
    words, whole = shown_words(result), shown_words(make_comparison())
    for reason in (
        "No intervals: the bootstrap was switched off.",
        "No nulls were drawn",
        "No quantiles were saved",
        "not defined: rigid does no better",
        "no shuffled values were drawn for CCA;",
    ):
        assert reason in words
        assert reason not in whole
    assert wording.MISSING in words


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("n_models", [2, 3])
def test_not_a_number_is_never_printed(render, n_models) -> None:  # type: ignore[no-untyped-def]
    result = make_comparison(n_models, names=["a", "b", "c"][:n_models])
    broken = json.loads(to_json(result))
    emptied = from_json(json.dumps(_without_numbers(broken)))
    text = render(emptied)
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL))
    assert wording.MISSING in text


def _without_numbers(value):  # type: ignore[no-untyped-def]
    """The same JSON with every fraction gone, as if nothing could be measured."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k != "ci95"}
        return {k: v if k in ("epsilon", "settings") else _without_numbers(v) for k, v in kept.items()}
    if isinstance(value, list):
        return [_without_numbers(v) for v in value]
    return None if isinstance(value, float) else value


def test_pages_without_ica_or_with_one_group_are_drawn() -> None:
    alone = make_comparison(ladder={"rigid": 0.04})
    assert alone.pairs[0].ica_efficiency is None
    assert "not computed: it needs the signed permutation, rigid and ICA rungs" in shown_words(alone)
    assert "ICA efficiency" not in report.text_table(alone)
    assert "ICA efficiency" in report.text_table(make_comparison())


def test_comparing_a_thing_with_itself_draws_zeros() -> None:
    result = make_comparison(ladder=dict.fromkeys(LADDER, 0.0))
    words = shown_words(result)
    assert "Identical up to a signed permutation: every held-out row lands on its partner." in words
    assert "within 0" not in words
    assert "yet its" not in words


def test_errors_of_rounding_are_identical_and_need_no_explanation() -> None:
    rounding = {"signed_permutation": 1e-9, "rigid": 2e-8, "similarity": 3e-8, "linear": 9e-8, "ica": 2e-8}
    recorded = "The same up to the order and sign of their axes: 95 % of held-out rows land within 1e-9."
    words = shown_words(make_comparison(ladder=rounding, text=recorded))
    assert "Identical up to a signed permutation" in words
    assert "yet its" not in words
    table = report.text_table(make_comparison(ladder=rounding))
    assert max(map(wording.columns_wide, table.splitlines())) <= 100
    visible = shown_words(make_comparison(ladder={g: 1e3 * m for g, m in rounding.items()}))
    assert "Identical" not in visible
    assert "yet its" in visible


def test_a_constant_representation_has_no_spectrum_to_draw() -> None:
    result = make_comparison()
    flat = tuple(replace(s, variances=(0.0, 0.0), rank=0, effective_rank=math.nan) for s in result.spectra)
    words = shown_words(replace(result, spectra=flat))
    assert "Share of variance by principal component" not in words
    assert "Spectrum of each representation" in words


def test_only_a_comparison_can_be_drawn() -> None:
    with pytest.raises(UsageError, match="expected a Comparison to draw, got dict"):
        report.html({})  # type: ignore[arg-type]


def test_an_efficiency_over_next_to_nothing_is_not_printed_as_a_figure() -> None:
    pair = make_pair()
    for share, told in (
        (Efficiency(-3884.8, None), "– held-out, below -999 % in-sample (says nothing here"),
        (Efficiency(0.59, 0.57), "57 % held-out, 59 % in-sample\n"),
    ):
        text = report.text_table(replace(make_comparison(), pairs=(replace(pair, ica_efficiency=share),)))
        assert told in text


@pytest.mark.parametrize(
    ("share", "reason"),
    [
        (1.12, "(above 100 %: ICA may rescale axes, which a rigid motion cannot)"),
        (-0.1, "(below 0: worse than a permutation)"),
        (0.7, None),
    ],
)
def test_an_efficiency_outside_0_to_100_per_cent_is_explained(share: float, reason: str | None) -> None:
    line = efficiency_line(Efficiency(share, share))
    assert line.endswith("in-sample" if reason is None else reason)


# -- what was compared


def test_a_projected_side_is_named_with_its_share_of_variance() -> None:
    whole = make_comparison()
    part = replace(whole, pairs=tuple(make_pair(p.source, p.target, kept=(1.0, 0.857)) for p in whole.pairs))
    told = "the first 32 principal components of run2 (86 % of its variance)"
    assert f"d 32, {told}, n/d" in " ".join(report.text_table(part).split())
    section = {s.key: s for s in comparison_page(part).sections}
    card = next(b for b in section["verdict"].blocks if isinstance(b, Card))
    table = next(b for b in section["pair-1"].blocks if isinstance(b, Table))
    assert ("compared", told) in card.facts
    assert table.caption.endswith(f"Compared: {told}")
    for render in (shown_words, report.text_table):
        assert "principal components of" not in render(whole)
    assert "(above 99 % of its variance)" in projection(make_pair(kept=(0.9999, 1.0)))


def test_a_null_on_fewer_rows_says_so_and_shows_the_value_on_the_same_rows() -> None:
    result = make_comparison()
    text = " ".join(report.text_table(result).split())
    assert "shuffled and p: on 2,000 of 5,000 rows" in text
    assert "CCA 0.983 (on 2,000 of 5,000 rows: 0.900, shuffled 0.061, p 0.010)" in text
    table = next(s for s in comparison_page(result).sections if s.key == "similarity").blocks[1]
    assert isinstance(table, Table)
    assert table.rows[0][:5] == ("CCA", "0.983", "0.900", "0.061", "0.010")
    assert "0.983 (0.900 on the same rows; 0.061; 0.010)" in shown_words(make_comparison(3))
    whole = replace(result, pairs=tuple(replace(p, n=2000) for p in result.pairs))
    assert "of 2,000 rows" not in report.text_table(whole)
    assert "on the same rows" not in shown_words(whole)


def test_a_comparison_with_sources_asks_whether_it_recovers_them() -> None:
    both = make_comparison(names=["representation", "sources"])
    assert comparison_page(replace(both, pairs=both.pairs[:1])).subtitle.startswith("Does it recover the sources")
    for other in (both, make_comparison()):
        assert comparison_page(other).subtitle.startswith("Are these the same representation")


# -- markdown and text


def test_the_list_of_pairs_holds_the_figure_the_verdict_is_taken_from() -> None:
    for protocol, title in (
        ("default", "held-out 95 % quantile (q95), the figure the verdict is taken from"),
        ("paper", "in-sample mean / diameter, as in the paper, the figure the verdict is taken from"),
    ):
        result = make_comparison(3, protocol=protocol)
        pair = result.pairs[0]
        rung = pair.rung("rigid")
        figure = rung.in_sample.mean_over_diameter if protocol == "paper" else rung.held_out.q95
        lines = report.text_table(result).splitlines()
        assert f"Each pair: {title}" in lines
        assert next(line for line in lines if line.startswith("run1 → run2")).split()[4] == wording.number(figure)
        table = next(s for s in comparison_page(result).sections if s.key == "pairs").blocks[0]
        assert isinstance(table, Table)
        assert table.caption == f"Each ordered pair: {title}"
        assert table.rows[0][3] == wording.number(figure)
    told = "The matrices hold means; the verdicts are taken from the 95 % quantiles"
    for render in (shown_words, report.text_table):
        assert told in render(make_comparison(3))
        assert told not in render(make_comparison(3, protocol="paper"))


def test_the_diagonal_of_a_matrix_is_empty_on_the_page_too() -> None:
    overview = next(s for s in comparison_page(make_comparison(3)).sections if s.key == "overview")
    for table in (b for b in overview.blocks if isinstance(b, Table) and b.shades):
        dots = [(r, c) for r, row in enumerate(table.rows) for c, cell in enumerate(row[1:]) if cell == "·"]
        assert dots == [(0, 0), (1, 1), (2, 2)]


def test_the_consensus_names_its_yardstick() -> None:
    for render in (shown_words, report.text_table):
        assert "the consensus' own rms distance between rows: a model far from" in " ".join(
            render(make_comparison(3)).split()
        )
        assert "consensus' own" not in render(make_comparison(2))


def test_markdown_has_every_cell_of_every_table_of_the_page() -> None:
    result = make_comparison(3)
    text = report.markdown(result)

    def tables(blocks):  # type: ignore[no-untyped-def]
        for block in blocks:
            if isinstance(block, Table):
                yield block
            elif isinstance(block, Fold):
                yield from tables(block.blocks)

    found = [t for s in comparison_page(result).sections for t in tables(s.blocks)]
    assert len(found) > 20
    for table in found:
        for row in table.rows:
            assert "| " + " | ".join(row[1:]).replace("<", "&lt;") + " |" in text.replace("`", "").replace("\\", "")
    assert "| 0.9871234 |" not in text


def test_the_table_fits_a_terminal_and_its_columns_line_up() -> None:
    for result in (make_comparison(), make_comparison(protocol="paper"), make_comparison(4), make_comparison(20)):
        text = report.text_table(result)
        assert max(map(wording.columns_wide, text.splitlines())) <= 100
    ladder = [
        line for line in report.text_table(make_comparison()).splitlines() if re.match("group|signed|rigid|ICA  ", line)
    ]
    assert len({len(line) for line in ladder[:4]}) == 1


def test_the_table_has_header_verdict_ladder_and_similarity() -> None:
    lines = report.text_table(make_comparison()).splitlines()
    assert lines[0] == "run1 → run2   n 5,000, d 32, n/d 156, 12 rows dropped"
    assert lines[1].startswith("The same up to a rigid motion")
    assert lines[3].split()[:3] == ["group", "held-out", "mean"]
    rigid = next(line for line in lines if line.startswith("rigid"))
    assert rigid.split() == [
        "rigid",
        "0.043",
        "[0.041,",
        "0.044]",
        "0.094",
        "0.128",
        "0.040",
        "0.0110",
        "0.970",
        "0.010",
    ]
    assert sum("CCA 0.983" in line for line in lines) == 1  # the same both ways, so said once


def test_the_paper_table_starts_with_the_papers_figure() -> None:
    lines = report.text_table(make_comparison(protocol="paper")).splitlines()
    header = next(line for line in lines if line.startswith("group"))
    assert header.split()[1:3] == ["in-sample", "mean/diam"]
    assert any("in-sample, as in the paper" in line for line in lines)


def test_a_matrix_wider_than_the_terminal_is_cut_into_pieces() -> None:
    text = report.text_table(make_comparison(20))
    heads = [line.split() for line in text.splitlines() if re.fullmatch(r"[\d ]+", line)]
    assert [n for head in heads[:2] for n in head] == [str(i + 1) for i in range(20)]
    assert "380 ordered pairs are too many to list" in text


def test_the_methods_follow_the_settings() -> None:
    words = shown_words(make_comparison(settings={"folds": 7, "group_by": "labels.csv:plate"}))
    assert "7-fold cross-validation, folds drawn over whole groups of labels.csv:plate" in words
    assert "200 bootstrap draws" in words
    plain = shown_words(make_comparison(bootstrap=0, nulls=False))
    assert "5-fold cross-validation, folds drawn over rows; no bootstrap intervals. No nulls were drawn." in plain
    assert "Implements Definition 1 of Nelson et al. (2026)" in plain
    assert "Ours: held-out errors" in plain


def test_bibtex_names_the_papers_shown_and_no_others() -> None:
    two, three = make_comparison(), make_comparison(3)
    assert re.findall(r"@\w+\{(\w+),", bibtex(three))[-1] == "gower1975generalized"
    assert "gower" not in bibtex(two)
    assert "2603.11970" in bibtex(two)
    assert "raghu" in bibtex(two)
    bare = replace(two.pairs[0], similarity=replace(two.pairs[0].similarity, svcca={}))
    assert "raghu" not in bibtex(replace(two, pairs=(bare,)))


def test_the_reproduction_section_has_hashes_seed_versions_and_command() -> None:
    result = make_comparison()
    words = shown_words(result)
    for item in (*(i.sha256 for i in result.inputs), result.provenance.command, "numpy", "2.3.0", "group_by"):
        assert item in words


# -- looks that can be checked


def test_every_figure_has_a_title_and_every_table_a_caption() -> None:
    text = report.html(make_comparison(4))
    figures = re.findall(r'<svg class="figure".*?</svg>', text, flags=re.DOTALL)
    assert figures
    assert all("<title>" in f and "<desc>" in f and 'role="img"' in f for f in figures)
    outline = Outline(text)
    assert len(outline.tags("caption")) == len(outline.tags("table")) > 0


def test_the_fragment_styles_nothing_outside_itself() -> None:
    text = report.fragment(make_comparison())
    style = re.search(r"<style>(.*?)</style>", text, flags=re.DOTALL)
    assert style is not None
    rules = re.sub(r"@media[^{]*\{", "", style.group(1))
    selectors = [s for rule in re.findall(r"([^{}]+)\{", rules) for s in rule.split(",")]
    assert len(selectors) > 50
    assert all(".idf" in s for s in selectors if s.strip()), [s for s in selectors if ".idf" not in s]
    assert not re.search(r"\sid=", text)  # ids of two fragments in one notebook would clash
    assert "<html" not in text


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(2 * c for c in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_words_have_enough_contrast_in_light_and_dark() -> None:
    assert contrast("#fff", "#000") == pytest.approx(21)
    assert contrast("#777", "#fff") < 4.5  # the measure can fail
    style = report.html(make_comparison())
    palettes = [
        dict(re.findall(r"--([\w-]+):(#\w+)", block))
        for block in re.findall(r"\.idf\{(--ground.*?)\}", style, re.DOTALL)
    ]
    assert len(palettes) >= 2
    assert palettes[0] != palettes[1]
    for palette in palettes:
        pairs = [(ink, ground) for ink in ("ink", "soft", "accent", "limit") for ground in ("ground", "raised")]
        pairs += [("good", "good-ground"), ("caution", "caution-ground"), ("ink", "caution-ground"), ("good", "ground")]
        pairs += [("on-light", f"h{i}") for i in range(4)] + [("on-mid", "h4"), ("on-dark", "h5"), ("on-dark", "h6")]
        assert [(a, b) for a, b in pairs if contrast(palette[a], palette[b]) < 4.5] == []
        assert [f"c{i}" for i in range(8) if contrast(palette[f"c{i}"], palette["raised"]) < 3] == []


def test_figures_and_units_are_not_torn_apart_by_a_line_end() -> None:
    for loose, tight in (
        ("95 % of rows", "95\u00a0% of rows"),
        ("mean / diameter: over", "mean\u00a0/\u00a0diameter: over"),
        ("chance, p 0.010", "chance, p\u00a00.010"),
        ("ε = 0.1", "ε\u00a0=\u00a00.1"),
        ("cup 7 or so", "cup 7 or so"),
    ):
        assert wording.bound(loose) == tight
    captions = re.findall(r"<caption>.*?</caption>", report.html(make_comparison()))
    assert any("mean\u00a0/\u00a0diameter" in c for c in captions)
    assert not any("mean / diameter" in c for c in captions)


def test_wide_tables_scroll_in_a_box_that_keys_can_reach_and_that_says_so() -> None:
    text = report.html(make_comparison())
    boxes = [a for a in Outline(text).tags("div") if "scroll" in str(a.get("class"))]
    assert len(boxes) == len(Outline(text).tags("table"))
    assert all(box["tabindex"] == "0" and box["role"] == "region" and box["aria-label"] for box in boxes)
    wide = ["wide" in str(box["class"]) for box in boxes]
    assert any(wide)
    assert not all(wide)
    assert '.idf .wide::before{content:"scroll →"' in text


def test_labels_stand_beside_the_axis_where_no_line_crosses_them() -> None:
    text = report.html(make_comparison())
    plots = re.findall(r'<svg class="figure".*?(?=<svg class="beside")', text, flags=re.DOTALL)
    assert plots
    assert not any('class="label' in plot for plot in plots)
    beside = re.findall(r'<svg class="beside".*?</svg>', text, flags=re.DOTALL)
    assert sum("signed permutation</text>" in column for column in beside) == 2  # one forest for each direction
    assert any("q95 0.094</text>" in column for column in beside)
    assert all(not re.search("<(path|line)", column) for column in beside)


def test_the_legend_names_every_mark_that_is_drawn() -> None:
    def legend(result: Comparison) -> dict[str, str]:
        blocks = next(s for s in comparison_page(result).sections if s.key == "pair-1").blocks
        return dict(next(b for b in blocks if isinstance(b, Dots)).legend)

    result = make_comparison()
    assert set(legend(result)) == {"main", "whisker", "hollow", "q95", "max", "shuffle", "rotation", "limit"}
    pair = result.pairs[0]
    far = replace(pair.rungs[0], held_out=replace(pair.rungs[0].held_out, max=50.0))
    distant = replace(result, pairs=(replace(pair, rungs=(far, *pair.rungs[1:])),))
    assert legend(distant)["beyond"] == "a maximum off the scale"
    assert report.html(distant).count("▸") == 2  # in the figure and in its legend
    bare = legend(make_comparison(bootstrap=0, nulls=False))
    assert not {"whisker", "shuffle", "rotation"} & set(bare)


def test_lines_of_one_figure_differ_in_dashes_and_dots_and_not_in_colour_alone() -> None:
    text = report.html(make_comparison())
    dashes = [re.search(rf"\.s{i}\{{stroke:var\(--c{i}\)(.*?)\}}", text) for i in range(8)]
    assert len({match.group(1) for match in dashes if match}) == 8
    overlapping = tuple(replace(s, variances=make_comparison().spectra[0].variances) for s in make_comparison().spectra)
    drawn = report.html(replace(make_comparison(), spectra=overlapping))
    first, second = (re.findall(rf'<path class="dots s{i}" d="(M[^"]*M[^"]*)"', drawn)[-1] for i in range(2))
    assert not set(first.split("M")[1:]) & set(second.split("M")[1:])


def test_two_sentences_under_the_title_say_how_to_read_the_page() -> None:
    for protocol, figure in (("default", "q95"), ("paper", "diameter")):
        result = make_comparison(protocol=protocol)
        told = comparison_page(result).guide
        assert figure in told
        assert "rms distance between target rows" in told
        assert "ε" in told
        assert told.count(". ") == 1
        for render in (shown_words, report.markdown):
            assert told in render(result)


def test_figures_stay_inside_their_frame() -> None:
    text = report.html(make_comparison(4))
    shares = [float(v) for v in re.findall(r'\bx\d?="([\d.-]+)%"', text)]
    assert shares
    assert all(0 <= v <= 100 for v in shares)


# -- small parts


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.0834, "0.083"),
        (1.5, "1.500"),
        (12.345, "12.35"),
        (2.1e-9, "2.1e-9"),
        (123456.0, "1.2e5"),
        (math.nan, "–"),
        (None, "–"),
    ],
)
def test_numbers_are_said_briefly(value: float | None, shown: str) -> None:
    assert wording.number(value) == shown


def test_a_figure_just_below_epsilon_is_not_rounded_onto_it() -> None:
    assert wording.beside(0.0999, 0.1) == "0.0999"
    assert wording.beside(0.09999999, 0.1) == "0.09999999"
    assert wording.beside(0.05, 0.1) == "0.050"


def test_wide_characters_are_padded_by_the_columns_they_take() -> None:
    assert wording.columns_wide("細胞") == 4
    assert wording.pad("細胞", 6) == "細胞  "
    assert wording.columns_wide(wording.clip("細胞" * 30, 21)) <= 21
    assert wording.clip("short", 21) == "short"


def test_clustering_brings_families_together_whatever_the_order() -> None:
    # two families, {0, 2, 4} and {1, 3}: 0.1 within, 0.9 across
    distances = [[0.0 if i == j else 0.1 if (i - j) % 2 == 0 else 0.9 for j in range(5)] for i in range(5)]
    order = cluster_order(distances)
    assert sorted(order) == list(range(5))
    assert sum((a - b) % 2 for a, b in pairwise(order)) == 1
    assert cluster_order([]) == ()
    assert sorted(cluster_order([[0.0, math.nan], [math.nan, 0.0]])) == [0, 1]


def test_nulls_of_svcca_are_found_by_their_number_of_components() -> None:
    similarity = make_pair().similarity
    null = Null(mean=0.2, p=0.5, observed=0.9, draws=9, rows=10)
    both = replace(similarity, svcca={"16": 0.9, "4": 0.8}, null={"svcca_16": null})
    found = {name: value for _, name, _, value in similarity_rows(both)}
    assert found["SVCCA, 16 components"] == null
    assert found["SVCCA, 4 components"] is None
    assert list(found)[1:3] == ["SVCCA, 4 components", "SVCCA, 16 components"]


@pytest.mark.parametrize("upper", [1e-12, 0.103, 1.0, 7.3, 1e6])
def test_ticks_are_few_and_inside_the_axis(upper: float) -> None:
    ticks = nice_ticks(upper)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] == 0
    assert ticks[-1] <= upper * (1 + 1e-9)


def test_a_result_shows_itself(tmp_path: Path) -> None:
    result = make_comparison()
    assert result.table() == report.text_table(result)
    assert result._repr_html_() == report.fragment(result)
    assert result.report(tmp_path / "page.html").read_text(encoding="utf-8") == report.html(result)
