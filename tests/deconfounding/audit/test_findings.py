"""Findings of an audit and what follows from them: which codes come for which measurements, with nothing measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from identifiable.deconfounding.audit.blind import about
from identifiable.deconfounding.audit.findings import CONFOUNDED, INFORMED, Evidence, Skipped, answer_of, verdict_of
from identifiable.deconfounding.design import Design, Labels
from identifiable.results import Answer, BlindScore, Dependence, FeatureCheck, Finding, FoldCheck

FEW = {"b": Skipped("few_wells", "6 wells, fewer than 7")}
ONE_FOLD = FoldCheck(1, 1, 18, 6, problem="no treated well")


def design() -> Design:
    """Two plates, one in each batch: on either 6 controls, 6 wells of "a" and 3 of "b"."""
    names = np.tile(np.repeat(["control", "a", "b"], [6, 6, 3]), 2)
    plate = np.repeat(["p0", "p1"], 15)
    return Design(Labels.of(plate), Labels.of(names), names == "control", batch=Labels.of(plate))


def blind(features: str, low: float, auroc: float | None = None) -> BlindScore:
    auroc = low + 0.05 if auroc is None else auroc
    return BlindScore(features, "each perturbation", auroc, (low, 2 * auroc - low), 1)


def address(share: float, p: float) -> tuple[Dependence, ...]:
    return Dependence(about("address"), 0.3, 0.1, 0.2, share, p), Dependence(about("row"), 0.3, 0.1, 0.2, 0.9, 0.01)


def evidence(**rest: Any) -> Evidence:
    """A sound screen: neither position nor batch predicts anything."""
    found: dict[str, Any] = {
        "design": design(),
        "blind": (blind("position", 0.45), blind("batch", 0.45)),
        "dependences": (),
        "folds": (FoldCheck(0, 1, 15, 6), FoldCheck(1, 1, 15, 6)),
        "features": FeatureCheck(0, 3, 0, (), 1.0, False, 10.0),
        "testable": ("a",),
        "skipped": FEW,
        "confounding": 0.1,
        "min_wells": 7,
        "easier": 2,
        "locked": {},
    }
    return Evidence(**{**found, **rest})


def concluded(found: Evidence) -> tuple[dict[str, Finding], str, Answer]:
    findings = found.findings()
    verdict = verdict_of(findings)
    return {each.code: each for each in findings}, verdict, answer_of(verdict, findings, found)


POSITION, BATCH = blind("position", CONFOUNDED + 0.01), blind("batch", CONFOUNDED + 0.01)
QUIET, NEARLY = blind("position", 0.45), blind("position", CONFOUNDED)
NO_TESTS = {"testable": (), "skipped": {"a": FEW["b"], **FEW}, "blind": (QUIET,)}


@pytest.mark.parametrize(
    ("made", "stops", "verdict", "code", "remarks"),
    [
        ({}, [], "clear", "clear", []),
        ({"blind": (POSITION,)}, ["layout"], "layout-confounded", "layout_confounded", []),
        ({"blind": (POSITION, BATCH)}, ["layout", "batch"], "layout-confounded", "layout_confounded", ["batch_too"]),
        (
            {"blind": (POSITION, BATCH), "locked": {"a": 0.9}},
            ["layout", "batch"],
            "layout-confounded",
            "layout_confounded",
            ["batch_too", "locked"],
        ),
        ({"blind": (POSITION,), "locked": {"a": 0.9}}, ["layout"], "layout-confounded", "layout_confounded", ["locked"]),
        ({"blind": (QUIET, BATCH)}, ["batch"], "batch-confounded", "batch_confounded", []),
        ({"blind": (QUIET, blind("batch", CONFOUNDED))}, [], "caution", "caution", ["batch"]),
        ({"blind": (NEARLY,)}, [], "caution", "caution", ["layout"]),
        (NO_TESTS, ["nothing_testable"], "unusable", "unusable", ["nothing_testable"]),
        ({**NO_TESTS, "blind": (POSITION, BATCH)}, ["nothing_testable", "layout", "batch"], "unusable", "unusable", ["nothing_testable"]),
        ({"folds": (FoldCheck(0, 1, 15, 6), ONE_FOLD)}, ["single_class_folds"], "unusable", "unusable", ["single_class_folds"]),
        (
            {**NO_TESTS, "skipped": {"a": Skipped("controls_apart", "no controls on its plates")}},
            ["controls_apart"],
            "batch-confounded",
            "unusable",
            ["controls_apart"],
        ),
    ],
)  # fmt: skip
def test_the_verdict_and_the_answer_are_those_of_the_findings_that_stop(made, stops, verdict, code, remarks) -> None:
    findings, found, told = concluded(evidence(**made))
    assert [each.code for each in findings.values() if each.severity == "stop"] == stops
    assert (found, told.code) == (verdict, code)
    assert [remark.code for remark in told.remarks] == ["coverage", *remarks]


def test_the_answer_has_the_numbers_of_the_score_that_confounds() -> None:
    for made, features in (((POSITION, BATCH), "layout"), ((QUIET, BATCH), "batch")):
        findings, _, told = concluded(evidence(blind=made))
        assert told.values == findings[features].values
        assert (told.values["low"], told.values["above"], told.values["against"]) == (0.61, 0.6, "controls")
    assert "cramers_v" in told.values


def test_nothing_is_testable_where_no_perturbation_has_the_wells() -> None:
    findings, _, _ = concluded(evidence(**NO_TESTS))
    assert findings["nothing_testable"].values == {"least": 7, "most": 12}
    assert "testable" not in findings
    findings, _, _ = concluded(evidence())
    assert findings["testable"].values == {"perturbations": 1, "wells": 7, "skipped": 1}
    assert "nothing_testable" not in findings


def test_where_plates_and_not_wells_are_missing_that_is_said() -> None:
    skipped = {
        "a": Skipped("one_fold", "all plates in one fold"),
        "c": Skipped("one_plate", "on one plate only"),
        **FEW,
    }
    findings, verdict, _ = concluded(evidence(**{**NO_TESTS, "skipped": skipped}))
    found = findings["nothing_testable"]
    assert (found.values, verdict) == ({"least": 7, "few": 1, "one_plate": 1, "one_fold": 1}, "unusable")
    assert "--folds" in found.message
    assert "--min-wells" not in found.message  # which could not help


@pytest.mark.parametrize("read", [(), ("plate",), ("batch",), ("plate", "batch")])
def test_what_the_embedding_contains_about_plates_and_batches_is_no_reason_for_caution(read) -> None:
    scores = [BlindScore("embedding", what, 0.9, (0.8, 0.95), 3) for what in read]
    unscored = BlindScore("embedding", "batch", np.nan, (np.nan, np.nan), 0)
    findings, verdict, _ = concluded(evidence(blind=(QUIET, unscored, *scores)))
    found = [findings[code] for code in ("plate_read", "batch_read") if code in findings]
    told = [({"predicts": what, "auroc": 0.9, "low": 0.8, "high": 0.95, "groups": 3}, "fine") for what in read]
    assert ([(each.values, each.severity) for each in found], verdict) == (told, "clear")


@pytest.mark.parametrize(
    ("dependences", "severity"),
    [
        ((), None),
        (address(INFORMED + 0.01, 0.01)[1:], None),
        (address(INFORMED + 0.01, 0.05), "caution"),
        (address(INFORMED + 0.01, 0.06), "fine"),
        (address(INFORMED, 0.01), "fine"),
        (address(-0.02, 0.8), "fine"),
    ],
)
def test_what_the_address_knows_of_perturbations_is_a_caution_where_it_is_much_and_certain(dependences, severity):
    findings, verdict, told = concluded(evidence(dependences=dependences))
    found = findings.get("layout_information")
    assert (found and found.severity) == severity
    assert verdict == ("caution" if severity == "caution" else "clear")
    assert ("layout_information" in [each.code for each in told.remarks]) == (severity == "caution")
    if found:
        assert found.values == {"share": max(dependences[0].share, 0), "p": dependences[0].p}
