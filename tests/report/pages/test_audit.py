"""The page of `deconfound audit`: what may be concluded first, then every number that it rests on."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from builders import (
    HOSTILE,
    NO_INTERVAL,
    blocks_of,
    card_of,
    check_drawn,
    make_audit,
    make_design,
    table_called,
    text_of,
    with_figures,
    with_words,
)
from identifiable import report
from identifiable.report import words
from identifiable.report.frame import glossary
from identifiable.report.page import Card, Dots, Fold, Mark, Terms
from identifiable.report.pages.screen import EXAMPLES, LISTED, MOST_LISTED, roles_table
from identifiable.results import Answer, Audit, BlindScore, Finding

FULL = make_audit()
BARE = make_audit(
    design=make_design(roles=(), batches=None, targets=None, grid=None, plates=1),
    dependences=(),
    blind=(),
    confounding=math.nan,
    folds=(),
    findings=(),
    skipped={},
    verdict="clear",
    told=Answer("", stored=""),
)
VERDICTS = ("clear", "caution", "layout-confounded", "batch-confounded", "unusable")


def dots_of(result: Audit) -> list[Dots]:
    return [b for b in blocks_of(result) if isinstance(b, Dots)]


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_verdict_comes_with_what_to_conclude_and_what_to_do_next(verdict: Any) -> None:
    result = make_audit(verdict=verdict)
    card, terms, *_ = blocks_of(result)
    assert isinstance(card, Card)
    assert isinstance(terms, Terms)
    assert card.tone == ("good" if verdict == "clear" else "caution")
    assert [value for name, value in card.facts if "position only" in name] == ["0.531 [0.510, 0.552]"]
    assert dict(card.facts)["findings"] == "1 stop, 1 caution, 1 note"
    told = {v: [glossary("audit")[f"{part} {v}"] for part in ("conclude", "next")] for v in VERDICTS}
    assert [meaning for _, meaning in terms.items] == told[verdict]
    printed = " ".join(report.text_table(result).split())
    assert [v for v in VERDICTS if told[v][0] in printed] == [verdict]


def test_roles_and_counts_are_shown() -> None:
    roles = table_called(FULL, "Roles of columns").rows
    assert roles[0] == ("plate", "experiment_name + plate", "75", "gene-001_1, gene-001_2, gene-001_3")
    counts = dict(table_called(FULL, "Counts").rows)
    assert counts["wells per plate"] == "74 to 80, median 80"
    assert counts["controls per plate"] == "16"
    assert counts["wells in use"] == "32 rows × 48 columns"
    bare = dict(table_called(BARE, "Counts").rows)
    assert bare["batches"] == bare["targets"] == words.MISSING
    assert "wells in use" not in bare
    empty = make_design(n=0, wells_per_plate=(0, math.nan, 0), wells_per_perturbation=(0, math.nan, 4))
    none = dict(table_called(make_audit(design=empty), "Counts").rows)
    assert (none["wells per plate"], none["wells per perturbation"]) == ("0", f"0 to 4, median {words.MISSING}")


def test_the_roles_of_a_screen_can_be_printed_before_anything_is_fitted() -> None:
    first, *rest = roles_table("wells\x1b", FULL.design).splitlines()
    assert first.startswith("wells\\x1b: ")
    assert {"6,000", "75", "9", "48", "40", "1,200"} == set(re.findall(r"\b\d[\d,]*\b", first))
    assert sum("experiment_name + plate" in line for line in rest) == 1
    assert roles_table("wells", BARE.design).count("\n") == 1


def test_classifiers_are_drawn_with_their_intervals_beside_chance_by_what_they_predict() -> None:
    labels, plates = dots_of(FULL)
    assert labels.threshold == ("chance", 0.5)
    assert labels.span
    position, plate = labels.rows
    assert position.interval == (0.51, 0.552)
    assert position.marks == (Mark("main", 0.531), Mark("hollow", 0.61))
    assert plate.marks == (Mark("main", 0.5), Mark("shuffle", 0.52))  # a chance of its own is marked
    assert [row.label for row in plates.rows] == ["embedding"]
    table = table_called(FULL, "AUROC on held-out")
    assert table.rows[0] == (
        "position only", "each perturbation vs control", "plate", "0.531", "[0.510, 0.552]", "0.500", "16", "PLK1_guide_1 0.610",
    )  # fmt: skip
    assert table.rows[2][:3] == ("embedding", "plate", "well")


def test_what_could_not_be_scored_is_in_the_table_and_not_in_the_figure() -> None:
    unscored = BlindScore("plate", "each perturbation", math.nan, NO_INTERVAL, 0)
    result = make_audit(blind=(FULL.blind[0], unscored))
    assert [row.label for row in dots_of(result)[0].rows] == ["position only"]
    assert table_called(result, "AUROC on held-out").rows[1][3] == words.MISSING


def test_a_fold_that_cannot_be_used_is_named_and_printed() -> None:
    table = table_called(FULL, "Plates held out")
    assert table.brief
    assert table.rows[1] == ("1", "15", "1,190", "240", "SRC_guide_1", "SRC_guide_1 has no well")
    assert re.search(r"2 folds\b.*, 1 cannot", text_of(FULL, "folds"))
    sound = replace(FULL, folds=FULL.folds[:1])
    assert not table_called(sound, "Plates held out").brief
    assert "cannot" not in text_of(sound, "folds")


def test_many_skipped_perturbations_are_folded_and_beyond_a_limit_left_to_the_json() -> None:
    assert table_called(FULL, "Not evaluated: 1").rows[0][0] == "KIF11_guide_3"
    assert not any(isinstance(b, Fold) for b in blocks_of(FULL, "skipped"))
    total = MOST_LISTED + 7
    result = make_audit(skipped={f"G{i}": "3 wells" for i in range(total)})
    (fold,) = (b for b in blocks_of(result, "skipped") if isinstance(b, Fold))
    assert fold.summary == f"{MOST_LISTED - LISTED:,} more perturbations"
    assert ": 7 further perturbations." in text_of(result, "skipped")
    assert table_called(result, f"Not evaluated: {total:,}").more == total - LISTED
    assert f"… and {total - EXAMPLES:,} more" in report.text_table(result)


@pytest.mark.parametrize(
    "result", [FULL, BARE, with_figures(FULL, 9e99), with_words(FULL, "a long name with blanks " * 8)]
)
def test_every_special_result_is_drawn(result: Audit) -> None:
    check_drawn(result)


def test_unknown_severities_and_verdicts_do_not_break_a_page() -> None:
    odd: Any = make_audit(verdict=HOSTILE, findings=(Finding("a", stored="b", severity=HOSTILE),))  # type: ignore[arg-type]
    assert "<script" not in report.html(odd)
    assert card_of(odd).tone == "caution"
