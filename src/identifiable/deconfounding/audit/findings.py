"""What follows from the measurements of an audit: findings, a verdict, and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from identifiable.deconfounding.audit.blind import about
from identifiable.deconfounding.design import Design
from identifiable.deconfounding.folds import FEWEST_WELLS
from identifiable.results import Answer, BlindScore, Dependence, FeatureCheck, Finding, FoldCheck
from identifiable.results.screen import AuditVerdict

# A design is called confounded when the lower end of what place alone scores is above this. The effects of interest score about
# 0.7 (Nelson et al. 2026, Table 3), 0.2 above chance: a layout that alone may give half of that leaves the question open. Random
# layouts score 0.5 on plates left out, and their interval's lower end is below it.
CONFOUNDED = 0.6
NOTICEABLE = 0.55  # a quarter of those effects; less, even if certain, changes no conclusion
INFORMED = 0.1  # share of what a label could tell about the address, from which on it is worth a word
EACH, ANY = "each perturbation", "any perturbation"
FEW_ROWS = 10  # rows per column below which fits are mostly noise
UNUSABLE = ("all_constant", "nothing_testable", "single_class_folds")  # findings after which no score is valid


@dataclass(frozen=True)
class Skipped:
    """Why a perturbation cannot be judged on plates left out."""

    code: Literal["few_wells", "one_plate", "one_fold", "controls_apart"]
    words: str


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that was measured, and the findings that follow from it."""

    design: Design
    blind: tuple[BlindScore, ...]
    dependences: tuple[Dependence, ...]
    folds: tuple[FoldCheck, ...]
    features: FeatureCheck
    testable: tuple[str, ...]
    skipped: Mapping[str, Skipped]
    confounding: float
    min_wells: int
    easier: int  # perturbations that could be judged with as few wells as can be
    locked: Mapping[str, float]  # perturbations that position alone tells, and their AUROC

    def findings(self) -> tuple[Finding, ...]:
        return tuple(
            finding
            for look in (
                self._testable,
                self._controls,
                self._folds,
                self._layout,
                self._information,
                self._batch,
                self._one_batch,
                self._uneven,
                self._plates,
                self._others,
                self._plate_read,
                self._cell_count,
                self._columns,
                self._duplicates,
                self._gaussian,
                self._rows,
            )
            for finding in look()
        )

    def score(self, features: str, predicts: str | None = None) -> BlindScore | None:
        """The blind score with these features that is furthest above what is called confounded."""
        found = [b for b in self.blind if b.features == features and predicts in (None, b.predicts) and b.targets]
        return max(found, key=lambda b: b.ci95[0], default=None)

    def _testable(self) -> list[Finding]:
        why = Counter(each.code for each in self.skipped.values())
        if self.testable:
            skipped = {"skipped": len(self.skipped)} if self.skipped else {}
            values = {"perturbations": len(self.testable), "wells": self.min_wells, **skipped}
            return [Finding("testable", values, severity="fine")]
        if why["controls_apart"]:
            return [Finding("controls_apart", {"perturbations": why["controls_apart"]}, severity="stop")]
        if why["one_plate"] or why["one_fold"]:  # wells enough, and none to predict from
            values = {"few": why["few_wells"], "one_plate": why["one_plate"], "one_fold": why["one_fold"]}
        else:
            values = {"most": int(self.design.perturbation.take(~self.design.control).counts.max())}
        values["least"] = self.min_wells
        return [Finding("nothing_testable", values, severity="stop")]

    def _controls(self) -> list[Finding]:
        return [] if self.design.control.any() else [Finding("no_controls", severity="caution")]

    def _folds(self) -> list[Finding]:
        bad = {f"fold {check.fold}": check.problem for check in self.folds if check.problem}
        folds = len(self.folds)
        if not bad:
            missing = sum(bool(check.missing) for check in self.folds)
            return [Finding("folds", {"folds": folds, **({"missing": missing} if missing else {})}, severity="fine")]
        usable = folds - len(bad)
        values = {"bad": len(bad), "folds": folds, "problems": bad}
        return [Finding("single_class_folds", values, severity="stop" if usable < 2 else "caution")]

    def _layout(self) -> list[Finding]:
        score = self.score("position")
        if score is None:
            return [Finding("layout_unknown", severity="caution")]
        values = self._auroc_of(score) | self.locked_values
        if score.ci95[0] > CONFOUNDED:
            return [Finding("layout", {**values, "above": CONFOUNDED}, severity="stop")]
        if self.locked:  # a mean over all hides a few
            return [Finding("layout", values, severity="caution")]
        return [_against_chance("layout", score, values)]

    def _auroc_of(self, score: BlindScore) -> dict[str, Any]:
        """A blind score of perturbations, and what they are told from."""
        return auroc_of(score) | {"against": self.design.against}

    @property
    def coverage(self) -> Answer:
        """How many perturbations can be judged, and how many more with fewer wells."""
        of, judged = len(self.testable) + len(self.skipped), len(self.testable)
        values = {"judged": judged, "of": of, "level": "perturbation", "wells": self.min_wells}
        more = {"fewer": FEWEST_WELLS, "then": self.easier} if self.easier > judged else {}
        return Answer("coverage", values | more)

    @property
    def locked_values(self) -> dict[str, Any]:
        """Which single perturbations position predicts; nothing where it predicts none."""
        locked = dict(self.locked)
        return {"locked": locked, "predicted": len(locked), "testable": len(self.testable)} if locked else {}

    def _information(self) -> list[Finding]:
        address = next((d for d in self.dependences if d.what == about("address")), None)
        if address is None:
            return []
        informed = address.share > INFORMED and address.p <= 0.05
        values = {"share": max(address.share, 0), "p": address.p}
        return [Finding("layout_information", values, severity="caution" if informed else "fine")]

    def _batch(self) -> list[Finding]:
        score = self.score("batch")
        if score is None:
            return []
        values = self._auroc_of(score) | {"cramers_v": self.confounding}
        if score.ci95[0] > CONFOUNDED:
            return [Finding("batch", {**values, "above": CONFOUNDED}, severity="stop")]
        return [_against_chance("batch", score, values)]

    def _one_batch(self) -> list[Finding]:
        batch = self.design.batch
        if batch is None or batch.size < 2 or not self.testable:
            return []
        batches = self.design.perturbation.spread(batch, ~self.design.control)
        names = self.design.perturbation.names
        alone = [name for name in self.testable if batches[names.index(name)] == 1]
        values = {"alone": len(alone), "perturbations": len(self.testable), "names": alone}
        return [Finding("one_batch_only", values, severity="caution")] if alone else []

    def _uneven(self) -> list[Finding]:
        score = self.score("plate")
        if score is None or not score.ci95[0] > score.chance + CONFOUNDED - 0.5:
            return []
        return [Finding("uneven_plates", auroc_of(score) | {"chance": score.chance}, severity="caution")]

    def _plates(self) -> list[Finding]:
        plate = self.design.plate
        if not self.design.control.any():
            return []
        without = [plate.names[k] for k in np.flatnonzero(plate.count(self.design.control) == 0)]
        values = {"without": len(without), "plates": plate.size, "names": without}
        return [Finding("plates_without_controls", values, severity="caution")] if without else []

    def _others(self) -> list[Finding]:
        """Plates that leave nothing but controls to compare with."""
        plate, treated = self.design.plate, ~self.design.control
        if self.design.holds_others or not self.design.control.any():
            return []
        held = plate.spread(self.design.perturbation, treated)
        values = {"alone": int((held == 1).sum()), "plates": int((held > 0).sum())}
        return [Finding("plates_of_one_perturbation", values, severity="fine")]

    def _plate_read(self) -> list[Finding]:
        scores = {what: self.score("embedding", what) for what in ("plate", "batch")}
        return [
            Finding(f"{what}_read", auroc_of(score) | {"groups": score.targets}, severity="fine")
            for what, score in scores.items()
            if score is not None
        ]

    def _cell_count(self) -> list[Finding]:
        score = self.score("cell_count")
        if score is None or not score.ci95[0] > CONFOUNDED:
            return []
        return [Finding("cell_count", self._auroc_of(score), severity="fine")]

    def _columns(self) -> list[Finding]:
        features, d = self.features, round(len(self.design.control) / self.features.n_over_d)
        if features.constant == d:
            return [Finding("all_constant", {"columns": d}, severity="stop")]
        short = d - features.constant - features.rank
        values = {"rank": features.rank, "columns": d, "constant": features.constant, "directions": short}
        return [Finding("rank", values, severity="fine")] if features.constant or short else []

    def _duplicates(self) -> list[Finding]:
        values = {
            "rows": self.features.duplicate_rows,
            "pairs": [f"{a} and {b}" for a, b in self.features.duplicate_pairs],
        }
        return [Finding("duplicate_rows", values, severity="caution")] if self.features.duplicate_rows else []

    def _gaussian(self) -> list[Finding]:
        values = {"kurtosis": self.features.median_kurtosis}
        return [Finding("gaussianised", values, severity="caution")] if self.features.gaussianised else []

    def _rows(self) -> list[Finding]:
        values = {"rows_per_column": self.features.n_over_d, "least": FEW_ROWS}
        return [Finding("few_rows", values, severity="caution")] if self.features.n_over_d < FEW_ROWS else []


def verdict_of(findings: Sequence[Finding]) -> AuditVerdict:
    """The worst of the findings; the layout before the batch, which comparing within plates can still overcome."""
    stops = {finding.code for finding in findings if finding.severity == "stop"}
    if stops & set(UNUSABLE):
        return "unusable"
    if "layout" in stops:
        return "layout-confounded"
    if stops:
        return "batch-confounded"
    return "caution" if any(finding.severity == "caution" for finding in findings) else "clear"


def answer_of(verdict: AuditVerdict, findings: Sequence[Finding], evidence: Evidence) -> Answer:
    """What the verdict means and what to do next, with how many perturbations that is about."""
    told = _meaning(verdict, findings, evidence)
    return replace(told, remarks=(evidence.coverage, *told.remarks))


def _meaning(verdict: AuditVerdict, findings: Sequence[Finding], evidence: Evidence) -> Answer:
    stops = {finding.code: finding for finding in findings if finding.severity == "stop"}
    cautions = [finding for finding in findings if finding.severity == "caution"]
    if verdict == "unusable":
        return Answer("unusable", remarks=(next(stops[code] for code in UNUSABLE if code in stops),))
    if verdict == "layout-confounded":
        locked = evidence.locked_values
        also = [Answer("batch_too")] * ("batch" in stops) + ([Answer("locked", locked)] if locked else [])
        return Answer("layout_confounded", stops["layout"].values, remarks=tuple(also))
    if verdict == "batch-confounded":
        if "controls_apart" in stops:
            return Answer("unusable", remarks=(stops["controls_apart"],))
        return Answer("batch_confounded", stops["batch"].values)
    if verdict == "caution":
        more = (Answer("more_cautions", {"more": len(cautions) - 1}),) if len(cautions) > 1 else ()
        return Answer("caution", remarks=(cautions[0], *more))
    return Answer("clear")


def auroc_of(score: BlindScore) -> dict[str, Any]:
    """A blind score as values of a finding."""
    low, high = score.ci95
    predicts = "perturbations on average" if score.predicts == EACH else score.predicts
    return {"predicts": predicts, "auroc": score.auroc, "low": low, "high": high}


def _against_chance(code: str, score: BlindScore, values: dict[str, Any]) -> Finding:
    """What a score that confounds nothing is called beside chance."""
    if score.ci95[0] > 0.5 and score.auroc > NOTICEABLE:
        return Finding(code, {**values, "noticeable": NOTICEABLE}, severity="caution")
    small = {"small": NOTICEABLE} if score.auroc <= NOTICEABLE else {}
    return Finding(code, values | small, severity="fine")
