"""The page of `reproduce`: every number from the result, ours beside the published ones, and honest about what is lost."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from identifiable import report
from identifiable.report import words as wording
from identifiable.report.frame import glossary
from identifiable.report.page import Cloud, Curve, Curves, Dots, Text
from identifiable.report.pages import page_of
from identifiable.report.pages.reproduction import LOST, SAMPLES_DRAWN, correlated
from identifiable.report.render.figures import draw_curves
from identifiable.results import Alert, Choice, Constants, Leak, Reproduction
from page_reading import RENDERERS, blocks_of, card_of, check_drawn_alike_after_json, tables_of, text_of
from reproduction_cases import LEAKS, make_reproduction

WORDS = glossary("reproduction")
PLAIN = make_reproduction()
DIGITS = make_reproduction("figA6", pairs=3, samples=4)
RESULTS = {
    "plain": PLAIN,
    "digits": DIGITS,
    "unclear": make_reproduction(below=1.2),
    "no correlation": make_reproduction(pairs=2, known=False),
    "one leak": make_reproduction(pairs=3, leaks=[0.5]),
    "linear alone": make_reproduction(pairs=3, leaks=[1.0, 0.7]),
    "nothing kept": replace(PLAIN, runs=tuple(replace(run, removed="loss") for run in PLAIN.runs)),
    "no samples": make_reproduction(samples=2, choices=[], published={}, alerts=[Alert("few", stored="Few.")]),
}
RESULTS["no samples"] = replace(
    RESULTS["no samples"], runs=tuple(replace(run, samples=()) for run in RESULTS["no samples"].runs)
)


def figure_of(result: Reproduction, number: str) -> Curves:
    (found,) = (b for b in blocks_of(result, "figures") if isinstance(b, Curves) and b.title.startswith(f"{number}:"))
    return found


def spread(constant: float) -> float:
    """sqrt(2 L + L^2) of 1 + L."""
    return math.sqrt(2 * (constant - 1) + (constant - 1) ** 2)


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("name", [name for name in RESULTS if name != "plain"])
def test_every_result_is_drawn_alike_after_json(render: Any, name: str) -> None:
    check_drawn_alike_after_json(RESULTS[name], render)


@pytest.mark.parametrize("render", RENDERERS)
def test_choices_and_published_numbers_of_any_kind_are_drawn_alike_after_json(render: Any) -> None:
    choices = [Choice("leaks", (0.5, math.nan), "ours", (1.0, math.inf)), Choice("limit", math.inf, "paper")]
    result = make_reproduction(choices=choices, published={"r2": math.nan, "pair": (1, 2)}, settings={"x": math.inf})
    check_drawn_alike_after_json(result, render)


def test_sections_appear_only_when_there_is_something() -> None:
    expected = ["verdict", "alerts", "figures", "leaks", "fits", "runs", "choices", "reading", "reproduction"]
    assert [s.key for s in page_of(PLAIN).sections] == expected
    assert [s.key for s in page_of(DIGITS).sections] == [*expected[:4], "digits", *expected[4:]]


# -- the verdict


def test_the_verdict_is_the_correlation_with_its_interval_the_line_and_the_pairs_kept() -> None:
    card, fit = card_of(PLAIN), PLAIN.fit()
    assert (card.tone, card.badge) == ("good", "as Theorem 1 suggests")
    facts = dict(card.facts)
    assert facts["Spearman"] == wording.number(fit.spearman)
    assert facts["its 95 % interval"] == wording.interval(fit.spearman_ci95)
    assert facts["R² of the line"] == wording.number(fit.r2)
    assert facts["with the leak held fixed"] == "0.210"
    assert facts["pairs kept, removed"] == "57, 3"


def test_a_verdict_that_disagrees_or_cannot_decide_is_a_caution() -> None:
    against = replace(PLAIN.fit(), spearman=-0.5, spearman_ci95=(-0.7, -0.2))
    cards = {
        "no clear relation": card_of(RESULTS["unclear"]),
        "too few pairs": card_of(RESULTS["no correlation"]),
        "the other way round": card_of(replace(PLAIN, fits=(against, *PLAIN.fits[1:]))),
        "as Theorem 1 suggests, unfinished": card_of(replace(PLAIN, alerts=(Alert("not_converged", stored="Of 2."),))),
    }
    assert {card.badge for card in cards.values()} == set(cards)
    assert [card.tone for card in cards.values()] == ["caution"] * 4


def test_what_happens_from_the_smallest_leak_to_the_largest_is_said_whichever_way_it_goes() -> None:
    def told(result: Reproduction) -> str:
        return "".join(b.text for b in blocks_of(result, "verdict") if isinstance(b, Text))

    first, last = PLAIN.leaks[0], PLAIN.leaks[-1]
    ends = [wording.estimate(leak.distance, leak.distance_ci95) for leak in (first, last)]
    assert f"falls from {ends[0]} to {ends[1]}" in told(PLAIN)
    assert wording.estimate(PLAIN.leak_spearman, PLAIN.leak_spearman_ci95) in told(PLAIN)
    assert told(PLAIN) == told(replace(PLAIN, leaks=PLAIN.leaks[::-1]))
    swapped = (replace(first, distance=last.distance), *PLAIN.leaks[1:-1], replace(last, distance=first.distance))
    assert "rises from" in told(replace(PLAIN, leaks=swapped))
    assert told(RESULTS["one leak"]) == ""


def test_ours_stand_beside_the_published_figures_and_what_is_lost_is_called_so() -> None:
    (table,) = tables_of(PLAIN, "verdict")
    lines = {row[0]: row[1:] for row in table.rows}
    random = PLAIN.fit(estimator="random_directions")
    assert lines["pairs trained"] == ("60", "60", "")
    assert lines["pairs removed"] == ("3", "11", "")
    assert lines["R² of the line"] == (wording.number(PLAIN.fit().r2), LOST, wording.number(random.r2))
    assert lines["Spearman [95 %]"][1] == LOST
    assert lines["samples"] == (wording.MISSING, "1000", "")
    (table,) = tables_of(make_reproduction(published={"r2": 0.87}), "verdict")
    assert {row[0]: row[2] for row in table.rows}["R² of the line"] == "0.87"


# -- the figures


def test_the_four_figures_carry_the_papers_numbers_and_say_that_they_are_reconstructed() -> None:
    titles = [b.title.partition(":")[0] for b in blocks_of(PLAIN, "figures") if isinstance(b, Curves)]
    assert titles == ["Figure 2", "Figure A.3", "Figure A.4", "Figure A.5"]
    assert WORDS["No figures"] in text_of(PLAIN, "figures")
    titles = [b.title.partition(":")[0] for b in blocks_of(DIGITS, "figures") if isinstance(b, Curves)]
    assert titles[0] == "Figure A.6"
    assert all(title.endswith("digits apart") for title in titles[1:])


@pytest.mark.parametrize(("number", "form"), [("Figure 2", "mean"), ("Figure A.4", "maximum")])
def test_each_pair_kept_is_one_mark_in_the_colour_of_its_leak_and_the_line_goes_through_the_origin(
    number: str, form: str
) -> None:
    figure = figure_of(PLAIN, number)
    expected = {
        leak: [
            (spread(getattr(run.exact, form)), getattr(run.distance, form))
            for run in PLAIN.runs
            if run.leak == leak and run.removed is None
        ]
        for leak in LEAKS
    }
    assert [cloud.label for cloud in figure.clouds] == [f"leak {leak:g}" for leak in LEAKS]
    for cloud, points in zip(figure.clouds, expected.values(), strict=True):
        assert np.array(cloud.points) == pytest.approx(np.array(points))
    assert [cloud.style for cloud in figure.clouds] == [0, 1, 2, 3, 4, 5]
    (line,) = figure.curves
    fit = next(f for f in PLAIN.fits if (f.form, f.estimator, f.unit) == (form, "exact", "latent"))
    end = max(x for points in expected.values() for x, _ in points)
    assert line.points[0] == (0.0, 0.0)
    assert line.points[1] == pytest.approx((end, fit.slope * end))
    assert line.label.startswith(wording.number(fit.slope))
    assert f"R² {wording.number(fit.r2)}" in figure.description


def test_single_samples_are_drawn_from_the_runs_kept_and_thinned_where_they_are_many() -> None:
    points = [p for cloud in figure_of(PLAIN, "Figure A.5").clouds for p in cloud.points]
    samples = [p for run in PLAIN.runs if run.removed is None for p in run.samples]
    expected = [(spread(constant), distance) for constant, distance in samples]
    assert np.array(sorted(points)) == pytest.approx(np.array(sorted(expected)))
    many = make_reproduction(samples=200)
    figure = figure_of(many, "Figure A.5")
    assert SAMPLES_DRAWN / 2 < sum(len(cloud.points) for cloud in figure.clouds) <= SAMPLES_DRAWN + len(LEAKS)
    assert "Drawn: one in 5." in figure.description
    assert "Drawn" not in figure_of(PLAIN, "Figure A.5").description
    assert len(report.html(many).encode()) < 300_000


def test_the_constants_are_quantile_curves_by_leak_with_the_bound_of_the_architecture_at_their_end() -> None:
    figure = figure_of(PLAIN, "Figure A.3")
    assert [(curve.label, curve.points) for curve in figure.curves] == [
        (f"leak {leak.leak:g}", leak.curve) for leak in PLAIN.leaks
    ]
    (rings,) = figure.clouds
    assert rings.points == tuple((1.0, leak.bound) for leak in PLAIN.leaks)
    assert figure.log
    assert "leak⁻²" in rings.label


def test_constants_far_below_their_bounds_are_not_flattened_by_them_nor_by_the_largest_few() -> None:
    def near(leak: Leak, largest: float) -> Leak:
        return replace(leak, curve=((0.0, 1.0), (0.5, 1.1), (0.95, 1.4), (1.0, largest if leak.leak < 1 else 1.0)))

    flat = figure_of(replace(PLAIN, leaks=tuple(near(leak, 1.5) for leak in PLAIN.leaks)), "Figure A.3")
    assert (flat.log, flat.top, flat.base) == (False, None, 1.0)
    assert [cloud.points for cloud in flat.clouds] == [((1.0, 1.0),)]
    assert "400 at leak 0.05, 100 at leak 0.1, 25 at" in flat.description
    assert "cut off" not in flat.description
    bent = figure_of(replace(PLAIN, leaks=tuple(near(leak, 1.5) for leak in PLAIN.leaks[:2])), "Figure A.3")
    assert bent.clouds == ()
    assert "leak⁻²: 400 at leak 0.05" in bent.description
    tailed = figure_of(replace(PLAIN, leaks=tuple(near(leak, 3.4) for leak in PLAIN.leaks)), "Figure A.3")
    assert (tailed.log, tailed.top) == (False, 1.4)
    assert "3.400" in tailed.description


def test_an_axis_starts_at_its_base_and_reaches_below_where_points_do() -> None:
    line = Curve("l", ((0.0, 1.0), (1.0, 1.2)), 1)
    ticks = re.findall(r'class="tick end"[^>]*>([^<]*)<', draw_curves(Curves("t", "d", "x", "y", (line,), base=1.0)))
    assert ticks[:5] == ["1", "1.05", "1.1", "1.15", "1.2"]
    plain = re.findall(r'class="tick end"[^>]*>([^<]*)<', draw_curves(Curves("t", "d", "x", "y", (line,))))
    assert plain[0] == "0"
    deep = Curve("l", ((0.0, 0.8), (1.0, 1.2)), 1)
    ticks = re.findall(r'class="tick end"[^>]*>([^<]*)<', draw_curves(Curves("t", "d", "x", "y", (deep,), base=1.0)))
    assert ticks[0] == "0.8"


def test_a_figure_without_points_is_left_out() -> None:
    assert not [
        b for b in blocks_of(RESULTS["no samples"], "figures") if getattr(b, "title", "").startswith("Figure A.5")
    ]
    titles = [b.title for b in blocks_of(RESULTS["nothing kept"], "figures") if isinstance(b, Curves)]
    assert [title.partition(":")[0] for title in titles] == ["Figure A.3"]


def test_colours_run_over_all_steps_however_many_leaks_there_are() -> None:
    for leaks in ([0.1, 1.0], [0.1 * i for i in range(1, 11)]):
        styles = [cloud.style for cloud in figure_of(make_reproduction(leaks=leaks), "Figure 2").clouds]
        assert (styles[0], styles[-1], styles) == (0, 5, sorted(s for s in styles if s is not None))


def test_points_of_a_style_and_a_line_without_dots_are_drawn_so() -> None:
    cloud, line = Cloud("c", ((0.0, 1.0),), "main", 3), Curve("l", ((0.0, 0.0), (2.0, 2.0)), 6, dotted=False)
    drawn = draw_curves(Curves("t", "d", "x", "y", (line,), clouds=(cloud,)))
    assert drawn.count('class="dots s3"') == 1
    assert 'class="m main"' not in drawn
    assert 'class="dots s6"' not in drawn
    assert 'class="dots s6"' in draw_curves(Curves("t", "d", "x", "y", (replace(line, dotted=True),)))
    fine = Cloud("c", tuple((i / 400, i / 400) for i in range(400)), "main", 3)
    assert 'class="cloud fine"' in draw_curves(Curves("t", "d", "x", "y", clouds=(fine,)))
    assert 'class="cloud fine"' not in drawn


# -- the tables


def test_the_tables_by_leak_have_every_number_of_it() -> None:
    distances, constants = tables_of(PLAIN, "leaks")
    leak = PLAIN.leaks[1]
    relative = (wording.number(leak.relative), wording.interval(leak.relative_ci95))
    shown = ("9 of 10", wording.number(leak.distance), wording.interval(leak.distance_ci95), *relative)
    assert distances.rows[1] == ("0.1", *shown, wording.number(leak.reconstruction, 4))
    exact, random = leak.constant, leak.random_directions
    figures = (exact.median, exact.q95, exact.max, random.median, random.q95, random.max)
    assert constants.rows[1] == (
        "0.1",
        "100",
        *map(wording.number, figures),
        wording.percent(random.median / exact.median),
    )
    (dots,) = (b for b in blocks_of(PLAIN, "leaks") if isinstance(b, Dots))
    assert [row.marks[0].value for row in dots.rows] == [leak.distance for leak in PLAIN.leaks]
    assert [row.interval for row in dots.rows] == [leak.distance_ci95 for leak in PLAIN.leaks]


def test_the_table_of_fits_has_every_fit_and_marks_the_headlines() -> None:
    (table,) = tables_of(PLAIN, "fits")
    assert len(table.rows) == len(PLAIN.fits) == 12
    assert len({row[:3] for row in table.rows}) == 12
    assert table.strong == 0
    fit = PLAIN.fit("maximum", "random_directions", "diameter")
    row = next(row for row in table.rows if row[:3] == ("largest", "random", "/ diameter"))
    assert row[3:5] == (wording.number(fit.slope), wording.number(fit.r2))
    assert row[5] == f"{wording.number(fit.spearman)} {wording.interval(fit.spearman_ci95)}"
    assert row[-1] == "57"


def test_every_run_is_listed_and_removed_ones_say_why() -> None:
    removed, everything = tables_of(PLAIN, "runs")
    assert removed.caption == "Removed: 3 pairs"
    assert {row[-1] for row in removed.rows} == {run.removed for run in PLAIN.runs if run.removed}
    assert len(everything.rows) == 60
    assert sum(row[-1] == "yes" for row in everything.rows) == 3
    run = PLAIN.runs[-1]
    losses = ", ".join(wording.number(v, 4) for v in run.reconstruction)
    assert everything.rows[-1][:2] == ("leak 1, pair 9", losses)
    assert len(tables_of(RESULTS["linear alone"], "runs")) == 1  # no pair was removed
    assert tables_of(DIGITS, "runs")[1].rows[-1][0] == "leak 1, digit 9, pair 2"


def test_digits_have_a_table_with_the_correlation_within_each() -> None:
    (table,) = tables_of(DIGITS, "digits")
    assert [row[0] for row in table.rows] == [str(digit) for digit in range(10)]
    kept = [run for run in DIGITS.runs if run.digit == 4 and run.removed is None]
    row = table.rows[4]
    assert row[1] == f"{len(kept)} of 18"
    assert row[2] == wording.number(sum(run.distance.mean for run in kept) / len(kept))
    within = spearmanr([run.exact.mean for run in kept], [run.distance.mean for run in kept]).statistic
    assert row[4] == wording.number(float(within))
    assert tables_of(PLAIN, "digits") == []
    runs = tuple(replace(run, removed="loss") if run.digit == 4 else run for run in DIGITS.runs)
    gone = tables_of(replace(DIGITS, runs=runs), "digits")[0].rows[4]
    assert gone == ("4", "0 of 18", *[wording.MISSING] * 5)


def test_ranks_that_tie_count_as_their_mean_and_too_few_or_constant_ones_not_at_all() -> None:
    pairs = [(1.0, 3.0), (1.0, 1.0), (2.0, 2.0), (5.0, 9.0), (5.0, 9.0)]
    assert correlated(pairs) == pytest.approx(spearmanr(*zip(*pairs, strict=True)).statistic)
    assert correlated([*pairs, (math.nan, 100.0)]) == correlated(pairs)
    assert correlated(pairs[:3]) is None
    assert correlated([(1.0, float(i)) for i in range(5)]) is None


def test_settings_are_split_into_the_papers_those_changed_and_those_lost() -> None:
    paper, changed, lost = tables_of(PLAIN, "choices")
    assert paper.rows == (("clip", "1.0"),)
    assert changed.rows == (("max epochs", "80", "2000"),)
    assert ("widths", "[784, 256, 64, 8]") in lost.rows
    (only,) = tables_of(make_reproduction(choices=[Choice("widths", 3, "ours")]), "choices")
    assert only.caption == lost.caption


def test_the_bound_is_named_after_the_activations_that_it_counts() -> None:
    assert "leak⁻²" in figure_of(PLAIN, "Figure A.3").description
    assert "≤ leak⁻²" in text_of(PLAIN, "reading")
    cubed = replace(PLAIN, leaks=tuple(replace(leak, bound=leak.leak**-3) for leak in PLAIN.leaks))
    assert "leak⁻³" in figure_of(cubed, "Figure A.3").description
    assert "[leak³, 1]" in text_of(cubed, "reading")
    assert "≤ leak⁻ᵏ" in text_of(replace(PLAIN, leaks=PLAIN.leaks[-1:]), "reading")


def test_reading_and_methods_have_the_threshold_the_counts_and_the_seed() -> None:
    assert "0.0312" in text_of(PLAIN, "reading")
    told = text_of(PLAIN, "reproduction")
    for words in ("60 pairs", "6 leaks (scale small)", "removed: 3", "0.0312", f"Seed {PLAIN.provenance.seed}."):
        assert words in told
    assert "6 leaks for each digit" in text_of(DIGITS, "reproduction")
    assert "nelson2026" in report.html(PLAIN)


def test_infinite_constants_are_shown_and_left_out_of_the_figures() -> None:
    lost = replace(PLAIN.runs[-1], exact=Constants(math.inf, math.inf))
    result = replace(PLAIN, runs=(*PLAIN.runs[:-1], lost))
    assert sum(len(c.points) for c in figure_of(result, "Figure 2").clouds) == 56
    assert sum(len(c.points) for c in figure_of(PLAIN, "Figure 2").clouds) == 57


# -- the terminal


def test_the_terminal_has_every_table_but_runs_and_settings() -> None:
    brief = [table.columns[0].label for table in tables_of(DIGITS) if table.brief]
    assert brief == ["what", "leak", "leak", "digit", "over samples"]


@pytest.mark.parametrize("name", RESULTS)
def test_every_line_fits_a_terminal(name: str) -> None:
    assert max(map(wording.columns_wide, report.text_table(RESULTS[name]).splitlines())) <= 100
