"""What follows from the measurements of an audit: findings, a verdict, and a sentence that says what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from identifiable.deconfounding.audit.blind import about
from identifiable.deconfounding.design import Design
from identifiable.results import BlindScore, Dependence, FeatureCheck, Finding, FoldCheck
from identifiable.results.screen import AuditVerdict

# A design is called confounded when the lower end of what place alone scores is above this. The effects of interest score about
# 0.7 (Nelson et al. 2026, Table 3), 0.2 above chance: a layout that alone may give half of that leaves the question open. Random
# layouts score 0.5 on plates left out, and their interval's lower end is below it.
CONFOUNDED = 0.6
NOTICEABLE = 0.55  # a quarter of those effects; less, even if certain, changes no conclusion
INFORMED = 0.1  # share of what a label could tell about the address, from which on it is worth a word
FEW_ROWS = 10  # rows per column below which fits are mostly noise
NAMED = 5


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
    locked: Mapping[str, float]  # perturbations that position alone tells, and their AUROC

    def findings(self) -> tuple[Finding, ...]:
        return tuple(
            finding
            for look in (
                self._testable,
                self._folds,
                self._layout,
                self._information,
                self._batch,
                self._one_batch,
                self._uneven,
                self._plates,
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
        skipped = len(self.skipped)
        apart = sum(each.code == "controls_apart" for each in self.skipped.values())
        if self.testable:
            left = f"; {skipped} are not (too few wells or plates, or no controls beside them)" if skipped else ""
            return [
                Finding(
                    "testable",
                    "fine",
                    f"{counted(len(self.testable), 'perturbation')} can be judged on plates left out{left}.",
                )
            ]
        if apart:
            return [
                Finding(
                    "controls_apart",
                    "stop",
                    f"Perturbations and controls never share a plate ({apart} perturbations with wells enough): their difference cannot "
                    "be told from that of plates. Put controls on every plate.",
                )
            ]
        most = int(self.design.perturbation.take(~self.design.control).counts.max())
        return [
            Finding(
                "nothing_testable",
                "stop",
                f"No perturbation has {self.min_wells} wells on two plates (the most frequent has {most} wells): join perturbations by "
                "target or drop the dose (--perturbation, perturbation=), or lower the number (--min-wells, min_wells=).",
            )
        ]

    def _folds(self) -> list[Finding]:
        bad = [check for check in self.folds if check.problem]
        if not bad:
            missing = sum(bool(check.missing) for check in self.folds)
            left = f"; in {missing} of them some perturbation is missing" if missing else ""
            return [Finding("folds", "fine", f"All {len(self.folds)} folds of plates hold both classes{left}.")]
        named = ", ".join(f"fold {check.fold}: {check.problem}" for check in bad)
        usable = len(self.folds) - len(bad)
        return [
            Finding(
                "single_class_folds",
                "stop" if usable < 2 else "caution",
                f"{len(bad)} of {len(self.folds)} folds of plates hold one class only ({named}); they cannot be scored.",
            )
        ]

    def _layout(self) -> list[Finding]:
        score = self.score("position")
        if score is None:
            return [
                Finding(
                    "layout_unknown",
                    "caution",
                    "The wells are not known, so what the layout alone tells stays unknown.",
                )
            ]
        told = (
            f"Position alone tells {score.predicts} from controls with AUROC {_with_interval(score)} on plates left out"
        )
        if score.ci95[0] > CONFOUNDED:
            return [
                Finding("layout", "stop", f"{told}: a score of the embedding may be the layout's.{self.locked_words}")
            ]
        if self.locked:  # a mean over all hides a few
            return [Finding("layout", "caution", f"{told}.{self.locked_words}")]
        if score.ci95[0] > 0.5 and score.auroc > NOTICEABLE:
            return [Finding("layout", "caution", f"{told}: above chance, if not by much; read scores against it.")]
        return [Finding("layout", "fine", f"{told}: {_near_chance(score)}.")]

    @property
    def locked_words(self) -> str:
        """Which single perturbations position tells, to be said after a sentence; nothing where it tells none."""
        if not self.locked:
            return ""
        named = _named([f"{name} ({auroc:.2f})" for name, auroc in self.locked.items()])
        return (
            f" Of single perturbations it clearly tells {len(self.locked)} of {len(self.testable)}: {named}; their scores may be the "
            "layout's."
        )

    def _information(self) -> list[Finding]:
        address = next((d for d in self.dependences if d.what == about("address")), None)
        if address is None:
            return []
        told = f"The address tells {max(address.share, 0):.0%} of which perturbation a well has (p = {address.p:.2g})."
        informed = address.share > INFORMED and address.p <= 0.05
        return [Finding("layout_information", "caution" if informed else "fine", told)]

    def _batch(self) -> list[Finding]:
        score = self.score("batch")
        if score is None:
            return []
        told = (
            f"The batch alone tells {score.predicts} from controls with AUROC {_with_interval(score)} on plates left out (Cramér's V of "
            f"batch and perturbation {self.confounding:.2f})"
        )
        if score.ci95[0] > CONFOUNDED:
            return [
                Finding("batch", "stop", f"{told}: pooled over batches, a score of the embedding may be the batch's.")
            ]
        if score.ci95[0] > 0.5 and score.auroc > NOTICEABLE:
            return [Finding("batch", "caution", f"{told}: compare within plates.")]
        return [Finding("batch", "fine", f"{told}: {_near_chance(score)}.")]

    def _one_batch(self) -> list[Finding]:
        batch = self.design.batch
        if batch is None or batch.size < 2 or not self.testable:
            return []
        batches = self.design.perturbation.spread(batch, ~self.design.control)
        names = self.design.perturbation.names
        alone = [name for name in self.testable if batches[names.index(name)] == 1]
        if not alone:
            return []
        return [
            Finding(
                "one_batch_only",
                "caution",
                f"{len(alone)} of {len(self.testable)} perturbations live in one batch only ({_named(alone)}): whether their effect would "
                "be there in another cannot be said.",
            )
        ]

    def _uneven(self) -> list[Finding]:
        score = self.score("plate")
        if score is None or not score.ci95[0] > score.chance + CONFOUNDED - 0.5:
            return []
        return [
            Finding(
                "uneven_plates",
                "caution",
                f"Plates hold very unequal shares of perturbations and controls: who knew the plate could score {_with_interval(score)} "
                f"(wells dealt at random: {score.chance:.2f}). Differences of plates then pass for effects; compare within plates.",
            )
        ]

    def _plates(self) -> list[Finding]:
        plate = self.design.plate
        controls = plate.count(self.design.control)
        without = [plate.names[k] for k in np.flatnonzero(controls == 0)]
        if not without:
            return []
        return [
            Finding(
                "plates_without_controls",
                "caution",
                f"{len(without)} of {plate.size} plates hold no control ({_named(without)}): their wells are compared with controls of "
                "other plates.",
            )
        ]

    def _plate_read(self) -> list[Finding]:
        found = []
        for what, where in (("plate", "held-out wells"), ("batch", "held-out plates")):
            score = self.score("embedding", what)
            if score is not None:
                above = "more than" if score.ci95[0] > 0.5 else "no more than"
                told = f"The {what} is read from the embedding with AUROC {_with_interval(score)} on {where}, {above} chance"
                found.append(Finding(f"{what}_read", "fine", f"{told} ({counted(score.targets, what)})."))
        return found

    def _cell_count(self) -> list[Finding]:
        score = self.score("cell_count")
        if score is None or not score.ci95[0] > CONFOUNDED:
            return []
        told = f"The number of cells alone tells {score.predicts} from controls with AUROC {_with_interval(score)} on plates left out"
        return [Finding("cell_count", "fine", f"{told}: what an embedding adds is what exceeds it.")]

    def _columns(self) -> list[Finding]:
        features, d = self.features, len(self.design.control) / self.features.n_over_d
        short = round(d) - features.constant - features.rank
        if not features.constant and not short:
            return []
        parts = [f"{counted(features.constant, 'column')} constant"] if features.constant else []
        parts += [f"{counted(short, 'direction')} of the others without variance"] if short else []
        return [
            Finding(
                "rank", "fine", f"Rank {features.rank} of {round(d)}: {', '.join(parts)}; whitening leaves them out."
            )
        ]

    def _duplicates(self) -> list[Finding]:
        features = self.features
        if not features.duplicate_rows:
            return []
        pairs = ", ".join(f"{a} and {b}" for a, b in features.duplicate_pairs)
        return [
            Finding(
                "duplicate_rows",
                "caution",
                f"{counted(features.duplicate_rows, 'row')} equal an earlier row exactly (rows from 0: {pairs}); copies that fall into "
                "training and test give the answer away.",
            )
        ]

    def _gaussian(self) -> list[Finding]:
        if not self.features.gaussianised:
            return []
        return [
            Finding(
                "gaussianised",
                "caution",
                f"The columns cannot be told from Gaussian ones (median |excess kurtosis| {self.features.median_kurtosis:.3f}), as after "
                "rank-based normalisation or much averaging: ICA has little or nothing to hold on to. Use features before that step.",
            )
        ]

    def _rows(self) -> list[Finding]:
        if self.features.n_over_d >= FEW_ROWS:
            return []
        return [
            Finding(
                "few_rows",
                "caution",
                f"There are {self.features.n_over_d:.1f} rows for each column; below {FEW_ROWS} what is fitted is mostly noise: reduce "
                "the columns (--rank, rank=).",
            )
        ]


def verdict_of(findings: Sequence[Finding]) -> AuditVerdict:
    """The worst of the findings; the layout before the batch, which comparing within plates can still overcome."""
    stops = {finding.code for finding in findings if finding.severity == "stop"}
    if stops & {"nothing_testable", "single_class_folds"}:
        return "unusable"
    if "layout" in stops:
        return "layout-confounded"
    if stops:
        return "batch-confounded"
    return "caution" if any(finding.severity == "caution" for finding in findings) else "clear"


def sentence_of(verdict: AuditVerdict, findings: Sequence[Finding], evidence: Evidence) -> str:
    """What the verdict means and what to do next."""
    by_code = {finding.code: finding for finding in findings}
    position, batch = evidence.score("position"), evidence.score("batch")
    if verdict == "unusable":
        return next(
            f.message for f in findings if f.severity == "stop" and f.code in ("nothing_testable", "single_class_folds")
        )
    if verdict == "layout-confounded" and position is not None:
        also = " The batch alone tells it too." if by_code.get("batch") and by_code["batch"].severity == "stop" else ""
        return (
            f"where a well lies tells {position.predicts} from controls (AUROC {_with_interval(position)} on plates left out), so a score "
            f"of the embedding proves no biology.{also}{evidence.locked_words} Believe only what exceeds position alone "
            "in evaluate, or run plates with the layout shuffled."
        )
    if verdict == "batch-confounded":
        if "controls_apart" in by_code:
            return by_code["controls_apart"].message
        assert batch is not None
        return (
            f"the batch tells {batch.predicts} from controls (AUROC {_with_interval(batch)} on plates left out), so pooled scores prove "
            "no biology. Read AUROC within plates, and hold out batches in evaluate."
        )
    cautions = [finding.message for finding in findings if finding.severity == "caution"]
    if verdict == "caution":
        more = f" And {counted(len(cautions) - 1, 'more reservation')}, see findings." if len(cautions) > 1 else ""
        return f"the design can be evaluated, with care. {cautions[0]}{more}"
    return "nothing in the design or the columns stands in the way; go on to evaluate."


def _with_interval(score: BlindScore) -> str:
    low, high = score.ci95
    return f"{score.auroc:.2f} [{low:.2f}, {high:.2f}]"


def _near_chance(score: BlindScore) -> str:
    return "little more than chance" if score.auroc <= NOTICEABLE else "the interval reaches chance"


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")


def plural(word: str) -> str:
    return f"{word}es" if word.endswith("ch") else f"{word}s"


def counted(n: int, word: str) -> str:
    return f"{n} {word if n == 1 else plural(word)}"
