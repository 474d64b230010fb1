"""What the page of `deconfound audit` says: `Audit` to `Page`, a pure function of the saved result."""

from __future__ import annotations

import math
from collections.abc import Sequence

from identifiable.report.frame import alerts_section, page_with, reproduction, saved_form
from identifiable.report.page import (
    Badge,
    Block,
    Card,
    Column,
    DotRow,
    Dots,
    LegendKind,
    Page,
    Section,
    Table,
    Terms,
    Text,
    Tone,
)
from identifiable.report.render.figures import drawn_marks
from identifiable.report.screen_methods import (
    BLIND_WORDS,
    CONCLUDE,
    GOOD,
    NEXT,
    audit_bibtex,
    audit_paragraphs,
    audit_reading,
    verdict_name,
)
from identifiable.report.screen_reading import (
    BLIND_HEADS,
    DEPENDENCE_HEADS,
    FOLD_HEADS,
    blind_lines,
    columns_of,
    confounding_words,
    dependence_lines,
    design_section,
    estimate,
    feature_lines,
    findings_by_severity,
    fold_lines,
    fold_words,
    given,
    inside,
    marks,
    screen_name,
    sentence_of,
    severity_name,
    severity_words,
    skipped_section,
    told,
)
from identifiable.report.words import MISSING, count, number, one_line
from identifiable.results import Audit, BlindScore

GUIDE = (
    "AUROC 0.5 is a coin, 1 is always right. Position and plate alone never see a cell: where they do well, any embedding can do as well "
    "without any biology."
)
CHANCE = 0.5
TONES: dict[str, Tone] = {"stop": "caution", "caution": "caution", "fine": "plain"}


def audit_page(result: Audit) -> Page:
    """The page of `result`, exactly as it would be drawn from its saved JSON."""
    saved = saved_form(result)
    card = _card(saved)
    follows = [("What may be concluded", CONCLUDE), ("What to do next", NEXT)]
    words = tuple((head, table[saved.verdict]) for head, table in follows if saved.verdict in table)
    sections = [
        Section("verdict", "Verdict", (card, *([Terms(words)] if words else []))),
        alerts_section(saved, well=card.tone != "caution"),
        _findings(saved),
        design_section(saved.design),
        _blind(saved),
        _dependence(saved),
        _folds(saved),
        _features(saved),
        skipped_section(saved.skipped),
        audit_reading(),
        reproduction(saved, audit_paragraphs(saved), audit_bibtex()),
    ]
    return page_with(
        saved,
        sections,
        title=f"{screen_name(saved)}: what this screen allows one to conclude",
        subtitle="Roles, layout, folds and features, looked at before anything is fitted",
        guide=GUIDE,
    )


def _card(result: Audit) -> Card:
    design = result.design
    facts = [
        ("wells, features", f"{count(design.n)}, {count(design.d)}"),
        ("plates", count(design.plates)),
        ("batches", MISSING if design.batches is None else count(design.batches)),
        ("perturbations", count(design.perturbations)),
        ("control wells", count(design.controls)),
        ("findings", severity_words(result)),
        *((_score_name(score), estimate(score.auroc, score.ci95)) for score in result.blind),
    ]
    tone: Tone = "good" if result.verdict in GOOD else "caution"
    return Card(screen_name(result), verdict_name(result.verdict), sentence_of(result.text), tone, tuple(facts))


def _score_name(score: BlindScore) -> str:
    """'AUROC, position only on any perturbation from controls'."""
    return f"AUROC, {given(score)} on {one_line(score.predicts)}"


def _findings(result: Audit) -> Section:
    found = findings_by_severity(result)
    if not found:
        return Section("findings", "Findings", ())
    table = Table(
        "What was looked at, the gravest first",
        (Column("finding", "text"), Column("severity", "text"), Column("what follows", "text")),
        tuple((one_line(f.code).replace("_", " "), severity_name(f.severity), one_line(f.message)) for f in found),
        pictures={1: tuple(Badge(TONES.get(f.severity, "caution")) for f in found)},
    )
    return Section("findings", "Findings", (table,))


def _blind(result: Audit) -> Section:
    if not result.blind:
        return Section("blind", "Without looking at a cell", ())
    blocks: list[Block] = [Text(BLIND_WORDS)]
    for predicts in dict.fromkeys(score.predicts for score in result.blind):
        blocks += _dots([s for s in result.blind if s.predicts == predicts], predicts)
    columns = columns_of(BLIND_HEADS, numbers=(3, 4, 5, 6))
    caption = "AUROC on wells that were left out of the training. Easiest: the class that is guessed best"
    blocks.append(Table(caption, columns, tuple(blind_lines(result))))
    return Section("blind", "Without looking at a cell", tuple(blocks))


def _dots(scores: Sequence[BlindScore], predicts: str) -> list[Block]:
    rows = [
        DotRow(
            given(score),
            number(score.auroc),
            marks(
                ("main", score.auroc),
                ("hollow", score.worst_auroc if score.worst else math.nan),
                ("shuffle", score.chance if score.chance != CHANCE else math.nan),
            ),
            interval=inside(score.ci95, 0, 1),
        )
        for score in scores
        if marks(("main", score.auroc))
    ]
    if not rows:
        return []
    legend: list[tuple[LegendKind, str]] = [
        ("main", "AUROC"),
        ("whisker", "95 % interval over plates"),
        ("hollow", "the class that is guessed best"),
        ("shuffle", "without any dependence, where that is not 0.5"),
    ]
    shown = drawn_marks(rows)
    return [
        Dots(
            f"To tell {told(predicts)}",
            "On wells that were left out of the training; the table says what was left out.",
            "AUROC",
            tuple(rows),
            tuple((kind, words) for kind, words in legend if kind in shown),
            ("chance", CHANCE),
            span=True,
        )
    ]


def _dependence(result: Audit) -> Section:
    blocks: list[Block] = [Text(confounding_words(result))]
    lines = dependence_lines(result)
    if lines:
        heads = columns_of(DEPENDENCE_HEADS, numbers=range(1, len(DEPENDENCE_HEADS)))
        caption = "Mutual information of the label with where the well is, in nats, beside what shuffled labels give"
        blocks.append(Table(caption, heads, tuple(lines)))
    return Section("dependence", "Does the label tell the place?", tuple(blocks))


def _folds(result: Audit) -> Section:
    if not result.folds:
        return Section("folds", "Folds", ())
    columns = columns_of(FOLD_HEADS, numbers=(1, 2, 3))
    return Section(
        "folds",
        "Folds",
        (Text(fold_words(result)), Table("Plates left out in turn", columns, tuple(fold_lines(result)))),
    )


def _features(result: Audit) -> Section:
    columns = (Column("what", "text"), Column("found", "text"))
    return Section("features", "Features", (Table("Columns of the embedding", columns, tuple(feature_lines(result))),))
