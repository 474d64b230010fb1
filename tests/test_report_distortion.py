"""The page of `bilipschitz`: every number from the result, no bound without its warning, honest about what is infinite."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cases import make_distortion
from identifiable import report
from identifiable.report import words as wording
from identifiable.report.distortion import CURVE_POINTS, FEW_POINTS, INFINITE, NO_BOUNDS
from identifiable.report.distortion_methods import LOOSE
from identifiable.report.page import Card, Curves, Notice, Table, Terms, Text
from identifiable.report.pages import page_of
from identifiable.results import Alert, Distortion, SupremumEstimate, from_json, to_json
from page_reading import HOSTILE, RENDERERS, Outline, blocks_of, foreign_loads, text_of, without_style

RESULTS = {
    "plain": make_distortion(),
    "lanczos": make_distortion(lanczos=True),
    "lost": make_distortion(lost=(0, 5), alerts=[Alert("rank_deficient", "At 2 points.")]),
    "undefined": make_distortion(undefined=(1, 2), alerts=[Alert("no_derivative", "At 2 points.")]),
    "nowhere": make_distortion(3, undefined=(0, 1, 2)),
    "nothing finite": make_distortion(2, lost=(0, 1)),
    "one point": make_distortion(1, supremum=False),
    "no estimates": make_distortion(directions=0, supremum=False),
}


def figures_of(result: Distortion) -> dict[str, Curves]:
    return {b.title: b for b in blocks_of(result) if isinstance(b, Curves)}


# -- the same result, the same bytes


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("name", RESULTS)
def test_every_result_is_drawn_alike_after_json_and_never_says_nan(render: Any, name: str) -> None:
    text = render(RESULTS[name])
    assert text == render(from_json(to_json(RESULTS[name])))
    assert not re.search(r"\b(nan|inf|None)\b", without_style(text))


@pytest.mark.parametrize("render", RENDERERS)
def test_a_page_is_drawn_even_if_nothing_could_be_measured(render: Any) -> None:
    def emptied(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: v if k == "settings" else emptied(v) for k, v in value.items()}
        if isinstance(value, list):
            return [emptied(v) for v in value]
        return None if isinstance(value, float) else value

    text = render(from_json(json.dumps(emptied(json.loads(to_json(make_distortion(4)))))))
    assert not re.search(r"\b(nan|inf|None)\b", without_style(text))
    assert wording.MISSING in text


def test_a_distortion_shows_itself(tmp_path: Path) -> None:
    result = make_distortion()
    assert result.table() == report.text_table(result)
    assert result._repr_html_() == report.fragment(result)
    assert result.report(tmp_path / "page.html").read_text(encoding="utf-8") == report.html(result)
    assert report.html(result) != report.html(make_distortion(401))


def test_the_page_has_every_section_and_each_link_has_its_target() -> None:
    keys = [s.key for s in page_of(make_distortion()).sections]
    assert keys == ["verdict", "alerts", "distribution", "estimates", "bounds", "reading", "reproduction"]
    html = report.html(make_distortion())
    assert set(re.findall(r'href="#([\w-]+)"', html)) <= set(re.findall(r'id="([\w-]+)"', html))


# -- what it says


def test_the_verdict_is_the_largest_constant_before_and_after_the_best_scale() -> None:
    (card,) = blocks_of(make_distortion(), "verdict")
    assert isinstance(card, Card)
    assert card.sentence == "1 + L is at most 1.6 at the points seen, and 1.414 after the best scale."
    assert dict(card.facts) | {"largest 1 + L": "1.600", "best scale": "1.131", "points n": "400"} == dict(card.facts)
    assert dict(card.facts)["latents → outputs"] == "3 → 12,288"
    assert (card.tone, card.badge) == ("plain", "exact")


@pytest.mark.parametrize(("name", "said"), [("lost", "loses a direction"), ("nowhere", "no finite derivative")])
def test_a_decoder_without_a_finite_constant_is_a_caution(name: str, said: str) -> None:
    (card,) = blocks_of(RESULTS[name], "verdict")
    assert isinstance(card, Card)
    assert (card.tone, said in card.sentence) == ("caution", True)


def test_points_without_a_derivative_or_a_direction_are_alerts() -> None:
    for name, code in (("lost", "rank_deficient"), ("undefined", "no_derivative")):
        assert [b.code for b in blocks_of(RESULTS[name], "alerts") if isinstance(b, Notice)] == [code]
    assert not any(isinstance(b, Notice) for b in blocks_of(make_distortion(), "alerts"))


def test_the_table_has_the_quantiles_of_every_figure_and_of_the_papers_estimator() -> None:
    result = make_distortion()
    (table,) = (b for b in blocks_of(result, "distribution") if isinstance(b, Table))
    lines = {row[0]: row[1:] for row in table.rows}
    assert len(lines) == 5
    for name, key in (("constant 1 + L", "constant"), ("smallest singular value", "sigma_min")):
        told = result.summary[key]
        shown = (told.mean, told.min, told.q05, told.median, told.q95, told.max)
        assert lines[name] == tuple(map(wording.number, shown))
    assert lines["1 + L by random directions"] == ("1.100", "1.010", "1.020", "1.130", "1.310", "1.370")
    assert len(next(b for b in blocks_of(RESULTS["no estimates"], "distribution") if isinstance(b, Table)).rows) == 4


def test_infinite_constants_are_shown_as_such_and_left_out_of_the_curve_but_counted() -> None:
    result = RESULTS["lost"]
    (table,) = (b for b in blocks_of(result, "distribution") if isinstance(b, Table))
    assert table.rows[0][1] == table.rows[0][-1] == INFINITE
    figure = figures_of(result)["The constant over the points"]
    assert "At 2 points as it is: infinite, not drawn." in figure.description
    assert "second line" not in figure.description
    (curve,) = figure.curves
    assert all(math.isfinite(y) for _, y in curve.points)
    n = sum(not math.isnan(c) for c in result.constant)
    assert curve.points[-1][0] == pytest.approx((n - 3) / (n - 1))  # the two take the last places
    smallest = figures_of(result)["Singular values over the points"].curves[1]
    assert smallest.points[0][0] == pytest.approx(2 / (n - 1))
    assert "not drawn" not in figures_of(make_distortion())["The constant over the points"].description
    assert figures_of(RESULTS["nothing finite"]).keys() == {"Singular values over the points"}
    assert figures_of(RESULTS["nowhere"]) == {}


def test_the_curves_are_quantile_functions_before_and_after_the_best_scale() -> None:
    result = make_distortion()
    plain, scaled = figures_of(result)["The constant over the points"].curves
    assert (plain.label, scaled.label) == ("as it is", "after the best scale")
    for curve in (plain, scaled):
        assert all(a <= b for a, b in pairwise(curve.points))
        assert all(ya <= yb for (_, ya), (_, yb) in pairwise(curve.points))
    assert plain.points[-1][1] == result.largest
    assert scaled.points[-1][1] == pytest.approx(result.best_constant, abs=1e-3)


def test_a_wide_range_is_drawn_on_a_logarithmic_scale() -> None:
    result = make_distortion()
    wide = replace(result, constant=(1e4, *result.constant[1:]))
    assert [figures_of(r)["The constant over the points"].log for r in (result, wide)] == [False, True]


def test_the_papers_estimator_stands_beside_the_exact_constant() -> None:
    told = text_of(make_distortion(), "estimates")
    assert "10 random directions at each point, finds 62 % of the exact constant (median)" in told
    assert "estimator" not in text_of(RESULTS["no estimates"], "estimates")
    assert "does not see that the constant is infinite" in text_of(RESULTS["nothing finite"], "estimates")


def test_the_supremum_has_its_interval_and_says_where_there_is_none() -> None:
    told = text_of(make_distortion(), "estimates")
    assert "from the 40 largest constants: 1.710, 95 % interval [1.620, 2.030]." in told
    assert FEW_POINTS in text_of(RESULTS["one point"], "estimates")
    endless = replace(make_distortion(), supremum=SupremumEstimate(math.inf, (1.9, math.inf), 0.2, 40))
    told = text_of(endless, "estimates")
    assert f"{INFINITE}, 95 % interval [1.900, {INFINITE}]: the points seen do not say" in told
    barely = replace(make_distortion(), supremum=SupremumEstimate(7.2e11, (1.9, math.inf), -0.01, 40))
    assert "without an upper end, so the points seen do not say how large it is" in text_of(barely, "estimates")
    assert "upper end" not in text_of(make_distortion(), "estimates")
    seen = replace(make_distortion(), supremum=SupremumEstimate(math.inf, (math.inf, math.inf), None, 0))
    assert "infinite: so is the constant at a point seen" in text_of(seen, "estimates")


def test_no_bound_stands_without_the_words_worst_case_and_how_loose_it_is() -> None:
    result = make_distortion()
    told = text_of(result, "bounds")
    assert LOOSE in told
    assert "56 to 7,400 times" in told
    (table,) = (b for b in blocks_of(result, "bounds") if isinstance(b, Table))
    assert len(table.rows) == len(result.bounds) == 4
    assert all("worst case" in row[-1] for row in table.rows)
    assert [row[3] for row in table.rows] == ["3.560", "0.410", "3.560", "0.410"]
    assert [row[-1] == "worst case, says nothing" for row in table.rows] == [True, False, True, False]
    text = report.text_table(result)
    assert text.count("worst case") >= 4
    assert "56 to 7,400 times" in " ".join(text.split())


def test_what_all_bounds_assume_is_said_once_and_the_rest_beside_each() -> None:
    (terms,) = (b for b in blocks_of(make_distortion(), "bounds") if isinstance(b, Terms))
    assert terms.items[0] == ("All assume", "both decoders are injective.")
    assert terms.items[1] == ("Theorem 1, universal constant assumes", "the support is a ball.")
    assert len(terms.items) == 5


@pytest.mark.parametrize("name", ["lost", "nowhere", "nothing finite"])
def test_where_no_bound_follows_none_is_shown(name: str) -> None:
    assert text_of(RESULTS[name], "bounds") == NO_BOUNDS
    assert "Theorem 1," not in report.text_table(RESULTS[name])


def test_lanczos_is_said_with_its_errors() -> None:
    told = text_of(RESULTS["lanczos"])
    assert "within 0.012 (smallest) and 0.005 (largest), at worst" in told
    assert "Lanczos with full reorthogonalisation" in told
    assert "Lanczos" not in text_of(make_distortion())


def test_the_methods_say_what_is_ours_and_name_decoder_seed_and_papers() -> None:
    told = text_of(make_distortion(), "reproduction")
    for words in (
        "model:decoder (3 latents, 12,288 outputs)",
        "float64 products",
        "Reconstructed: the estimator",
        "Ours: ",
    ):
        assert words in told
    assert f"Seed {make_distortion().provenance.seed}." in told
    assert all(key in report.html(make_distortion()) for key in ("hosking1987", "nelson2026", "alestalo2001"))


# -- form


def test_the_terminal_shows_headline_quantiles_estimates_bounds_and_alerts() -> None:
    lines = report.text_table(make_distortion(alerts=[Alert("rounding", "In float32.")])).splitlines()
    assert lines[0] == "model:decoder   n 400, latents 3, outputs 12,288, exact"
    assert lines[1].startswith("1 + L is at most 1.6 at the points seen")
    assert any(line.startswith("constant 1 + L ") for line in lines)
    assert "95 % interval [1.620, 2.030]" in " ".join(" ".join(lines).split())
    assert lines[-1] == "! rounding: In float32."


@pytest.mark.parametrize("name", RESULTS)
def test_every_line_fits_a_terminal(name: str) -> None:
    assert max(map(wording.columns_wide, report.text_table(RESULTS[name]).splitlines())) <= 100


def test_hostile_names_are_shown_as_text_and_stay_on_one_line() -> None:
    result = make_distortion(decoder=HOSTILE, alerts=[Alert(HOSTILE, HOSTILE)], settings={HOSTILE: HOSTILE})
    result = replace(result, bounds=(replace(result.bounds[0], statement=HOSTILE, assumes=HOSTILE),))
    for text in (report.html(result), report.fragment(result)):
        assert "<script" not in text
        assert "&lt;script&gt;" in text
        Outline(text)
    dirty = report.text_table(make_distortion(decoder="a\x1b[31m\n"))
    assert "\x1b" not in dirty
    assert dirty.count("\n") == report.text_table(make_distortion(decoder="a")).count("\n")


def test_the_page_loads_nothing_from_elsewhere_and_figures_stay_in_their_frame() -> None:
    for name, result in RESULTS.items():
        text = report.html(result)
        assert foreign_loads(text) == []
        assert all(0 <= float(v) <= 100 for v in re.findall(r'\bx\d?="([\d.-]+)%"', text)), name
        assert all("<title>" in f for f in re.findall(r'<svg class="figure".*?</svg>', text, flags=re.DOTALL))
    assert not re.search(r"\sid=", report.fragment(RESULTS["plain"]))


def test_many_points_make_no_larger_page() -> None:
    result = make_distortion(50_000)
    assert len(report.html(result).encode()) < 200_000
    assert all(len(c.points) <= CURVE_POINTS + 2 for f in figures_of(result).values() for c in f.curves)


def test_text_blocks_say_nothing_twice_and_markdown_has_every_cell() -> None:
    result = make_distortion()
    told = [b.text for b in blocks_of(result) if isinstance(b, Text)]
    assert len(told) == len(set(told))
    text = report.markdown(result).replace("`", "").replace("\\", "")
    for table in (b for b in blocks_of(result) if isinstance(b, Table)):
        for row in table.rows:
            assert "| " + " | ".join(row).replace("<", "&lt;") + " |" in text
