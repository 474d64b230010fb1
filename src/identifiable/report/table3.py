"""What `reproduce table3` says: `Table3` to `Page` and to the table of the command line, pure functions of the saved result."""

from __future__ import annotations

from identifiable.report.frame import (
    alert_lines,
    alerts_section,
    entries,
    glossary,
    page_with,
    reproduction,
    saved_form,
)
from identifiable.report.page import Block, Card, Column, Fold, Page, Section, Table, Text, columns
from identifiable.report.pages.evaluation import GUIDE, methods, papers, reading, verdict_badge
from identifiable.report.pages.evaluation import sections as evaluation_sections
from identifiable.report.pages.screen import representation_name
from identifiable.report.render.terminal import aligned, wrapped
from identifiable.report.reproduction import choices_section
from identifiable.report.table3_reading import (
    CONCENTRATION_HEADS,
    COUNTS,
    GENE_HEADS,
    REAL,
    REPRESENTATIONS,
    SIMULATED,
    auroc_words,
    concentration_lines,
    gain_words,
    gene_lines,
    published_lines,
    scale_words,
    sentence,
    stricter_words,
)
from identifiable.report.words import count, sentence_of
from identifiable.results import Table3


def table3_page(result: Table3) -> Page:
    """The page of `result`, exactly as it would be drawn from its saved JSON."""
    saved = saved_form(result)
    card = _card(saved)
    told = [SIMULATED if saved.simulated else REAL, sentence_of(saved.evaluation.text), stricter_words(saved)]
    sections = [
        Section("verdict", "Verdict", (card, *(Text(words) for words in told if words))),
        alerts_section(saved, well=card.tone != "caution"),
        _tables(saved),
        *evaluation_sections(saved.evaluation),
        _stricter(saved),
        choices_section(saved.choices),
        Section("reading", "How to read this page", tuple(reading(saved.evaluation))),
        reproduction(saved, methods(saved.evaluation), entries(papers(saved.evaluation))),
    ]
    return page_with(
        saved,
        sections,
        title="Tables 3, 4 and 7, run again",
        subtitle="A cell-microscopy screen: does ICA help to tell perturbations from controls on plates held out?",
        guide=GUIDE,
    )


def table3_table(result: Table3) -> str:
    """Headline, genes by representation, concentration, what is published, alerts."""
    saved = saved_form(result)
    told = [SIMULATED if saved.simulated else REAL, sentence_of(saved.evaluation.text), stricter_words(saved)]
    parts = [wrapped(f"Tables 3, 4 and 7, run again   {scale_words(saved)}", "  "), wrapped(sentence(saved))]
    parts += [wrapped(words, "  ") for words in told if words]
    parts += ["", aligned(GENE_HEADS, gene_lines(saved), left=(0, 2)), wrapped(COUNTS, "  ")]
    if lines := concentration_lines(saved):
        parts += ["", aligned(CONCENTRATION_HEADS, lines), wrapped(glossary("evaluation")["Concentration"], "  ")]
    if known := published_lines(saved):
        parts += ["", aligned(("published, as far as our copy has it", ""), known)]
    return "\n".join([*parts, *alert_lines(saved.alerts)]) + "\n"


def _card(result: Table3) -> Card:
    badge, tone = verdict_badge(result.evaluation.verdict)
    facts = [
        ("ICA - PCA, AUROC", gain_words(result)),
        *((representation_name(name), auroc_words(result, name)) for name in REPRESENTATIONS),
        ("position only", auroc_words(result, "position")),
        ("guides", count(len(result.evaluation.targets))),
        ("plates", count(result.evaluation.design.plates)),
    ]
    return Card(f"Table 3: {scale_words(result)}", badge, sentence(result), tone, tuple(facts))


def _tables(result: Table3) -> Section:
    heads = columns(*GENE_HEADS, words=("figure",))
    blocks: list[Block] = [
        Table("Table 3: AUROC on plates held out and sparsity of the splits", heads, tuple(gene_lines(result))),
        Text(COUNTS, note=True),
    ]
    if lines := concentration_lines(result):
        numbers = columns(*CONCENTRATION_HEADS)
        blocks += [
            Table("Tables 4 and 7: concentration, all genes", numbers, tuple(lines)),
            Text(glossary("evaluation")["Concentration"], note=True),
        ]
    if known := published_lines(result):
        caption = "Published, as far as our copy has it"
        blocks.append(Table(caption, (Column("what", "text"), Column("figure")), tuple(known)))
    return Section("tables", "The tables", tuple(blocks))


def _stricter(result: Table3) -> Section:
    """The evaluation with whole experiments held out, folded: its scores and differences only."""
    if result.stricter is None:
        return Section("stricter", "Whole experiments held out", ())
    shown = [s for s in evaluation_sections(result.stricter) if s.key in ("scores", "differences")]
    folds = tuple(Fold(section.title, section.blocks) for section in shown if section.blocks)
    return Section("stricter", "Whole experiments held out", (Text(sentence_of(result.stricter.text)), *folds))
