"""The page of `reproduce table3`: the tables of the paper, then the evaluation behind them; the terminal has the tables only."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from builders import card_of, check_drawn, make_evaluation, make_table3, tables_of, text_of
from identifiable.report import words as wording
from identifiable.report.frame import glossary
from identifiable.report.pages import page_of
from identifiable.results import Table3

WORDS = glossary("table3")
PUBLISHED = {"auroc_of_gene": {"SRC": 0.8125, "X": "lost"}, "largest_auroc": 0.912, "hoyer_range": [0.21, 0.66]}


SCORES = make_table3().genes
PLAIN = make_table3(published=PUBLISHED, genes=(*SCORES[:2], replace(SCORES[2], se=math.nan, hoyer_null=math.nan)))
STRICT = make_table3(simulated=False, stricter=make_evaluation(), published={}, concentration=())


@pytest.mark.parametrize("result", [PLAIN, STRICT])
def test_every_special_result_is_drawn(result: Table3) -> None:
    check_drawn(result)


def test_the_verdict_is_the_gain_with_its_interval_and_the_auroc_of_each_representation() -> None:
    facts = dict(card_of(PLAIN).facts)
    assert facts["ICA - PCA, AUROC"] == "+0.021 [0.011, 0.032]"
    found = PLAIN.evaluation.condition("ica", "lightgbm")
    assert found is not None
    assert facts["PCA + ICA"] == wording.estimate(found.auroc, found.ci95)
    assert "scale smoke, a" in card_of(PLAIN).eyebrow
    assert card_of(PLAIN).tone == "good"
    harmful = replace(PLAIN, evaluation=replace(PLAIN.evaluation, verdict="no-gain"))
    assert card_of(harmful).tone == "plain"
    assert (WORDS["Simulated"] in text_of(PLAIN, "verdict"), WORDS["Real"] in text_of(STRICT, "verdict")) == (
        True,
        True,
    )


def test_the_tables_have_every_gene_and_what_is_missing() -> None:
    genes, concentration, published = tables_of(PLAIN, "tables")
    cell = "0.713 ± 0.011"
    assert genes.rows[0] == ("SRC", "2", "AUROC", cell, cell, "0.713", wording.MISSING)
    assert genes.rows[1][3:5] == ("0.420 ± 0.010",) * 2
    assert genes.rows[2][3:6] == ("0.300, 40", "0.300, 40", wording.MISSING)
    numbers = ("25", "0.710", "0.520", "0.730", "+0.190", "+0.365", "+0.380", "-0.100")
    assert concentration.rows == (("PCA + ICA", *numbers),)
    assert [row[1] for row in published.rows] == ["0.812", "0.912", "0.210, 0.660"]
    assert len(tables_of(STRICT, "tables")) == 1


def test_whole_experiments_held_out_are_folded_and_their_gain_is_in_the_verdict() -> None:
    assert STRICT.stricter is not None
    found = STRICT.stricter.difference("ica", "pca")
    assert found is not None
    assert wording.estimate(found.difference, found.ci95, wording.signed) in text_of(STRICT, "verdict")
    keys = [section.key for section in page_of(STRICT).sections]
    assert "stricter" in keys
    assert "stricter" not in [section.key for section in page_of(PLAIN).sections]
    assert {"tables", "scores", "differences", "choices"} <= set(keys)
