"""The page of `match`: the sentence first, every score beside chance, the next step that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import blocks_of, make_matches, tables_of
from identifiable.report.frame import glossary
from identifiable.report.page import Card, Curves, Text


def card(result):
    (found,) = [block for block in blocks_of(result, "verdict") if isinstance(block, Card)]
    return found


def steps(result):
    told = [block.text for block in blocks_of(result, "steps") if isinstance(block, Text)]
    return [name for text in told for name, words in glossary("match").items() if words == text]


@pytest.mark.parametrize(
    ("made", "code", "tone", "parts", "next_steps"),
    [
        ({}, "match_pair", "plain", ("412 of 512", "0.7", "0.81", "0.30"), ["Steps matched", "Steps more runs"]),
        ({"chance": 0.8}, "match_at_chance", "caution", ("0.81", "0.80"), ["Steps at chance", "Steps more runs"]),
        ({"count": 3}, "match_several", "plain", ("380 of 512", "88 %", "2 %"), ["Steps matched"]),
        ({"count": 3, "chance": 0.8}, "match_several_at_chance", "caution", ("0.81", "0.80"), ["Steps at chance"]),
    ],
)
def test_the_sentence_has_the_count_and_pw_mcc_beside_chance(made, code, tone, parts, next_steps):
    result = make_matches(**made)
    assert (result.text.code, card(result).tone) == (code, tone)
    assert all(part in card(result).sentence for part in parts)
    assert steps(result) == next_steps


def test_the_next_step_of_bases_at_chance_is_not_to_train_longer():
    result = make_matches(chance=0.8)
    bases = replace(result, dictionaries=tuple(replace(each, basis=True) for each in result.dictionaries))
    assert steps(bases) == ["Steps at chance, bases"]


def test_every_score_stands_beside_both_nulls():
    (table,) = tables_of(make_matches(), "scores")
    assert table.rows[0][1:] == ("0.810", "0.300", "[0.290, 0.310]", "0.050", "0.300", "0.250", "–", "0.200")
    assert [row[-1] for row in table.rows] == ["0.200", "0.210", "0.220", "0.230", "–"]


def test_the_card_counts_of_the_features_that_the_sentence_does():
    assert dict(card(make_matches()).facts)["above 0.7"] == "412 of 512"


def test_matches_and_chance_have_names_in_the_legend():
    (figure,) = [block for block in blocks_of(make_matches(), "cosines") if isinstance(block, Curves)]
    assert [(curve.label, curve.style) for curve in figure.curves] == [("matches", 1), ("by chance", 0)]


def test_spans_are_shown_where_they_are_not_everything():
    assert tables_of(make_matches(), "spans") == []
    (table,) = tables_of(make_matches(whole=False), "spans")
    assert table.rows[0][1:] == ("30 and 40", "64", "0.900", "0.625", "12.5", "80.2")


def test_several_dictionaries_have_a_matrix_and_their_stability():
    matrix, stable = tables_of(make_matches(3), "seeds")
    assert matrix.rows[0][1:] == ("–", "0.810", "0.810")
    assert stable.rows[2] == ("c", "512", "380", "0.790", "0.310")
    assert len(tables_of(make_matches(3), "scores")) == 3
