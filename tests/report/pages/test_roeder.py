"""The page of Roeder's figures: statements judged, baselines beside every number, curves and planes drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from builders import blocks_of, card_of, check_drawn, make_roeder, tables_of
from identifiable.experiments.roeder.measuring import judged
from identifiable.report.page import Curves, Dots, Text
from identifiable.report.pages.roeder import WHAT
from identifiable.report.pages.roeder import page as build
from identifiable.report.words import MISSING, number
from identifiable.results import RoederFigure, SeedModel

MADE = make_roeder()
BARE = make_roeder(claims=(), published={}, models=(), scatters=(), means=(), pairs=())
AGREES, DOES_NOT, CANNOT, OURS = MADE.claims


@pytest.mark.parametrize("result", [*map(make_roeder, WHAT), BARE])
def test_every_special_result_is_drawn(result: RoederFigure) -> None:
    check_drawn(result)


def test_every_statement_has_its_difference_and_what_this_run_says() -> None:
    claims, ends, published = tables_of(MADE, "verdict")
    assert [(row[0], row[2], row[-1]) for row in claims.rows] == [
        ("CCA (f)", "paper", "agrees"),
        ("CCA (g)", "paper", "does not"),
        ("R² (f)", "paper", "cannot tell"),
        ("CCA (g)", "ours", "does not"),
    ]
    low, high = AGREES.difference_ci95 or (math.nan, math.nan)
    assert claims.rows[0][3:6] == ("0, 600", f"+{number(AGREES.difference)} [{number(low)}, {number(high)}]", "5")
    assert [row[3:] for row in ends.rows] == [("0.010", "0.400")] * 3
    assert published.rows == (("iterations", "4000"),)


@pytest.mark.parametrize(
    ("claims", "tone"),
    [
        ((AGREES,), "good"),
        ((AGREES, OURS), "good"),
        ((OURS,), "plain"),
        ((DOES_NOT,), "caution"),
        ((CANNOT,), "plain"),
        ((AGREES, CANNOT), "caution"),
        ((DOES_NOT, CANNOT), "caution"),
        ((), "plain"),
    ],
)
def test_the_tone_is_good_only_where_every_statement_agrees(claims, tone) -> None:
    assert card_of(replace(MADE, claims=claims)).tone == tone


def test_the_headline_counts_statements_and_gives_the_first_interval() -> None:
    said = MADE.headline
    assert "1 of 3" in said
    assert number(AGREES.difference) in said
    assert "5 pairs" in said
    assert BARE.headline != said


def test_means_are_lines_pairs_points_and_baselines_marks() -> None:
    (drawn, *_) = [b for b in blocks_of(MADE) if isinstance(b, Curves)]
    assert [(c.label, len(c.points)) for c in drawn.curves] == [("f", 3), ("g", 3)]
    assert [(c.kind, len(c.points)) for c in drawn.clouds] == [
        ("main", 15),
        ("main", 15),
        ("hollow", 6),
        ("shuffle", 6),
    ]
    (dots,) = [b for b in blocks_of(MADE) if isinstance(b, Dots)]
    assert [[mark.kind for mark in row.marks] for row in dots.rows] == [["main", "shuffle", "hollow"]] * 3


def test_planes_are_drawn_before_and_after_the_map() -> None:
    before, after = [b for b in blocks_of(MADE) if isinstance(b, Curves)][-2:]
    (found,) = MADE.scatters
    assert [cloud.points for cloud in before.clouds] == [found.first, found.second]
    assert [cloud.points for cloud in after.clouds] == [found.first, found.mapped]


def test_a_part_without_a_pair_has_a_sentence_and_no_row() -> None:
    absent = judged((), "nearly", "iterations", "hard labels", "cca")
    models = tuple(SeedModel("hard labels", k, 600, 2.0, 0.0, "above_floor" if k else None) for k in range(3))
    found = replace(MADE, claims=(absent,), models=models)
    assert tables_of(found, "verdict")[0].rows == ()
    (said,) = [block.text for block in blocks_of(found, "verdict") if isinstance(block, Text)]
    for text in (said, found.headline):
        assert all(part in text for part in ("hard labels", "2 of 3"))
    assert MISSING not in found.headline
    assert (absent.first, absent.found) == (0.95, "cannot_tell")
    both = replace(found, claims=(absent, AGREES))
    assert [row[0] for row in tables_of(both, "verdict")[0].rows] == ["CCA (f)"]
    assert number(AGREES.difference) in both.headline
    assert "2 of 3" not in replace(both, models=()).headline


def test_a_measure_no_better_than_untrained_is_marked() -> None:
    marked = replace(CANNOT, as_untrained=True)
    cells = [tables_of(replace(MADE, claims=(claim,)), "verdict")[0].rows[0][-1] for claim in (CANNOT, marked)]
    assert cells[0] == "cannot tell"
    assert "untrained" in cells[1]


def test_words_are_not_called_rows_that_no_model_was_trained_on() -> None:
    guides = {name: build(make_roeder(name)).guide for name in WHAT}
    assert "words" in guides["roeder-fig1"]
    assert all("words" not in guide for name, guide in guides.items() if name != "roeder-fig1")


def test_models_that_are_left_out_say_why() -> None:
    (models,) = tables_of(MADE, "models")
    assert [bool(row[-1]) for row in models.rows] == [False, True, True]
    assert models.rows[0][5] == "0.2700"
    assert models.rows[2][3:6] == (MISSING,) * 3
