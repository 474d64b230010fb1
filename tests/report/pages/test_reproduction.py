"""The page of `reproduce`: every number from the result, ours beside the published ones, and honest about what is lost."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from builders import LEAKS, blocks_of, card_of, check_drawn, make_reproduction, tables_of
from errors import naming
from identifiable import report
from identifiable.report import words as wording
from identifiable.report.page import Curve, Curves, Text
from identifiable.report.pages.reproduction import SAMPLES_DRAWN, correlated
from identifiable.report.render.figures import draw_curves
from identifiable.results import Alert, Choice, Constants, Leak, Reproduction

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
RESULTS["odd choices"] = make_reproduction(
    choices=[Choice("leaks", (0.5, math.nan), "ours", (1.0, math.inf)), Choice("limit", math.inf, "paper")],
    published={"r2": math.nan, "pair": (1, 2)},
    settings={"x": math.inf},
)
RESULTS["no samples"] = replace(
    RESULTS["no samples"], runs=tuple(replace(run, samples=()) for run in RESULTS["no samples"].runs)
)


def figure_of(result: Reproduction, number: str) -> Curves:
    (found,) = (b for b in blocks_of(result, "figures") if isinstance(b, Curves) and b.title.startswith(f"{number}:"))
    return found


def spread(constant: float) -> float:
    """sqrt(2 L + L^2) of 1 + L."""
    return math.sqrt(2 * (constant - 1) + (constant - 1) ** 2)


@pytest.mark.parametrize("name", RESULTS)
def test_every_special_result_is_drawn(name: str) -> None:
    check_drawn(RESULTS[name])


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


# -- the figures


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
    assert re.search(naming("Drawn", 5), figure.description)
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
    assert re.search(naming(400, "leak 0.05", 100, "leak 0.1", 25), flat.description)
    assert "cut off" not in flat.description
    bent = figure_of(replace(PLAIN, leaks=tuple(near(leak, 1.5) for leak in PLAIN.leaks[:2])), "Figure A.3")
    assert bent.clouds == ()
    assert re.search(naming("leak⁻²", 400, "leak 0.05"), bent.description)
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


# -- the tables


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


def test_infinite_constants_are_shown_and_left_out_of_the_figures() -> None:
    lost = replace(PLAIN.runs[-1], exact=Constants(math.inf, math.inf))
    result = replace(PLAIN, runs=(*PLAIN.runs[:-1], lost))
    assert sum(len(c.points) for c in figure_of(result, "Figure 2").clouds) == 56
    assert sum(len(c.points) for c in figure_of(PLAIN, "Figure 2").clouds) == 57
