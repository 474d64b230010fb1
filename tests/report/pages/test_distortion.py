"""The page of `bilipschitz`: every number from the result, no bound without its warning, honest about what is infinite."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise

import pytest

from builders import blocks_of, check_drawn, make_distortion, tables_of, text_of
from errors import naming
from identifiable import report
from identifiable.report import words as wording
from identifiable.report.frame import glossary
from identifiable.report.page import Curves
from identifiable.report.pages.distortion import CURVE_POINTS, INFINITE
from identifiable.results import Distortion, SupremumEstimate

WORDS = glossary("distortion")
PLAIN = make_distortion()
RESULTS = {
    "lanczos": make_distortion(lanczos=True),
    "lost": make_distortion(lost=(0, 5)),
    "undefined": make_distortion(undefined=(1, 2)),
    "nowhere": make_distortion(3, undefined=(0, 1, 2)),
    "nothing finite": make_distortion(2, lost=(0, 1)),
    "one point": make_distortion(1, supremum=False),
    "no estimates": make_distortion(directions=0, supremum=False),
}


def figures_of(result: Distortion) -> dict[str, Curves]:
    """By what their vertical axis shows."""
    return {b.up: b for b in blocks_of(result) if isinstance(b, Curves)}


@pytest.mark.parametrize("name", RESULTS)
def test_every_special_result_is_drawn(name: str) -> None:
    check_drawn(RESULTS[name])


def test_the_table_has_the_quantiles_of_every_number_and_of_the_papers_estimator() -> None:
    (table,) = tables_of(PLAIN, "distribution")
    lines = {row[0]: row[1:] for row in table.rows}
    assert len(lines) == 5
    for name, key in (("constant 1 + L", "constant"), ("smallest singular value", "sigma_min")):
        told = PLAIN.summary[key]
        shown = (told.mean, told.min, told.q05, told.median, told.q95, told.max)
        assert lines[name] == tuple(map(wording.number, shown))
    assert lines["1 + L by random directions"] == ("1.100", "1.010", "1.020", "1.130", "1.310", "1.370")
    assert len(tables_of(RESULTS["no estimates"], "distribution")[0].rows) == 4


def test_infinite_constants_are_shown_as_such_and_left_out_of_the_curve_but_counted() -> None:
    result = RESULTS["lost"]
    (table,) = tables_of(result, "distribution")
    assert table.rows[0][1] == table.rows[0][-1] == INFINITE
    figure = figures_of(result)["1 + L"]
    assert "At 2 points" in figure.description
    (curve,) = figure.curves  # there is no best scale
    assert all(math.isfinite(y) for _, y in curve.points)
    n = sum(not math.isnan(c) for c in result.constant)
    assert curve.points[-1][0] == pytest.approx((n - 3) / (n - 1))  # the two take the last places
    smallest = figures_of(result)["singular value"].curves[1]
    assert smallest.points[0][0] == pytest.approx(2 / (n - 1))
    assert "not drawn" not in figures_of(PLAIN)["1 + L"].description
    assert figures_of(RESULTS["nothing finite"]).keys() == {"singular value"}
    assert figures_of(RESULTS["nowhere"]) == {}


def test_the_curves_are_quantile_functions_before_and_after_the_best_scale() -> None:
    plain, scaled = figures_of(PLAIN)["1 + L"].curves
    for curve in (plain, scaled):
        assert all(a <= b for a, b in pairwise(curve.points))
        assert all(ya <= yb for (_, ya), (_, yb) in pairwise(curve.points))
    assert plain.points[-1][1] == PLAIN.largest
    assert scaled.points[-1][1] == pytest.approx(PLAIN.best_constant, abs=1e-3)


def test_a_wide_range_is_drawn_on_a_logarithmic_scale() -> None:
    wide = replace(PLAIN, constant=(1e4, *PLAIN.constant[1:]))
    assert [figures_of(r)["1 + L"].log for r in (PLAIN, wide)] == [False, True]


def test_the_supremum_has_its_interval_and_says_where_there_is_none() -> None:
    def told(estimate: float, ci95: tuple[float, float], tail: int = 40) -> str:
        return text_of(replace(PLAIN, supremum=SupremumEstimate(estimate, ci95, -0.1, tail)), "estimates")

    assert re.search(naming(40, "1.710", "[1.620, 2.030]"), told(1.71, (1.62, 2.03)))
    assert re.search(naming(INFINITE, f"[1.900, {INFINITE}]: "), told(math.inf, (1.9, math.inf)))
    assert re.search(naming("7.2e11", f"[1.900, {INFINITE}]: "), told(7.2e11, (1.9, math.inf)))
    assert "interval" not in told(math.inf, (math.inf, math.inf), 0)
    assert WORDS["Few points"] in text_of(RESULTS["one point"], "estimates")
    values = dict(row for t in tables_of(PLAIN, "estimates") for row in t.rows)
    assert (values["largest seen"], values["shape of the tail"], values["points in the tail"]) == (
        "1.600",
        "-0.410",
        "40",
    )


def test_no_bound_stands_without_the_words_worst_case_and_how_loose_it_is() -> None:
    (table,) = tables_of(PLAIN, "bounds")
    assert table.brief
    assert [row[3] for row in table.rows] == ["3.560", "0.410", "3.560", "0.410"]
    assert [row[-1] for row in table.rows] == ["worst case, vacuous", "worst case"] * 2
    assert WORDS["Loose"] in text_of(PLAIN, "bounds")
    printed = " ".join(report.text_table(PLAIN).split())
    assert WORDS["Loose"] in printed
    assert re.search(naming(56, 7400), printed)


@pytest.mark.parametrize("name", ["lost", "nowhere", "nothing finite"])
def test_where_no_bound_follows_none_is_shown(name: str) -> None:
    assert text_of(RESULTS[name], "bounds") == WORDS["No bounds"]


def test_many_points_make_no_larger_page() -> None:
    result = make_distortion(50_000)
    assert len(report.html(result).encode()) < 200_000
    assert all(len(c.points) <= CURVE_POINTS + 2 for f in figures_of(result).values() for c in f.curves)
