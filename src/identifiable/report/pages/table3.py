"""The page of `reproduce table3`: AUROC, sparsity and concentration of genes, then the evaluation of the screen behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from identifiable.report.frame import framed, glossary, section
from identifiable.report.page import Block, Card, Fold, Page, Table, Text, columns
from identifiable.report.pages import evaluation
from identifiable.report.pages.paper import choice_tables
from identifiable.report.screen_names import representation_name
from identifiable.report.words import MISSING, count, estimate, known, number, one_line, sentence_of, signed
from identifiable.results import GeneScore, Table3

REPRESENTATIONS = ("base", "pca", "ica", "rand")
CONCENTRATION = ("top %", "top", "rest", "all", "difference", "ratio", "Gini", "above chance")
PUBLISHED = {"largest_auroc": "largest AUROC of Table 3", "concentration": "a concentration of Table 4"}


def page(result: Table3) -> Page:
    return framed(
        result,
        title="Tables 3, 4 and 7, run again",
        subtitle="A cell-microscopy screen: does ICA help to distinguish perturbations from controls on held-out plates?",
        guide=evaluation.GUIDE,
        verdict=_verdict(result),
        sections=[
            section("tables", "The tables", _tables(result)),
            *(section(s.key, s.title, _unprinted(s.blocks)) for s in evaluation.sections(result.evaluation)),
            section("stricter", "Whole experiments held out", _stricter(result)),
            section("choices", "Settings", choice_tables(result.choices)),
        ],
        reading=evaluation.reading(result.evaluation),
        methods=evaluation.methods(result.evaluation),
        papers=evaluation.papers(result.evaluation),
    )


def _verdict(result: Table3) -> Iterator[Block]:
    yield _card(result)
    yield Text(glossary("table3")["Simulated" if result.simulated else "Real"], note=True, brief=True)
    yield Text(sentence_of(result.evaluation.text), note=True, brief=True)
    found = None if result.stricter is None else result.stricter.difference("ica", "pca")
    if found is not None:
        yield Text(
            "With whole experiments held out and transforms fitted on training rows only, ICA - PCA is "
            f"{estimate(found.difference, found.ci95, signed)}.",
            note=True,
            brief=True,
        )


def _card(result: Table3) -> Card:
    badge, tone = evaluation.verdict_badge(result.evaluation.verdict)

    def auroc(representation: str, classifier: str | None = "lightgbm") -> str:
        found = result.evaluation.condition(representation, classifier)
        return MISSING if found is None else estimate(found.auroc, found.ci95)

    facts = [
        ("ICA - PCA, AUROC", estimate(result.gain, result.gain_ci95, signed)),
        *((representation_name(name), auroc(name)) for name in REPRESENTATIONS),
        ("position only", auroc("position", None)),  # judged by a classifier of its own
        ("guides", count(len(result.evaluation.targets))),
        ("plates", count(result.evaluation.design.plates)),
    ]
    where = "a simulated screen" if result.simulated else result.inputs[0].name if result.inputs else "files"
    eyebrow = f"Tables 3, 4 and 7, run again: scale {one_line(result.scale)}, {one_line(where)}"
    return Card(eyebrow, badge, sentence_of(result.headline), tone, tuple(facts), brief=True)


def _tables(result: Table3) -> Iterator[Block]:
    yield Table(
        "Table 3: AUROC on held-out plates and sparsity of the splits",
        columns("gene", "guides", "number", *map(representation_name, REPRESENTATIONS), words=("number",)),
        tuple(_gene_lines(result)),
        brief=True,
        brief_rows=60,
    )
    yield Text(glossary("table3")["Cells"], note=True, brief=True)
    if result.concentration:
        yield Table(
            "Tables 4 and 7: concentration, all genes",
            columns("representation", *CONCENTRATION),
            tuple(
                (
                    representation_name(c.representation),
                    f"{c.percent:g}",
                    *map(number, (c.top, c.rest, c.whole)),
                    *map(signed, (c.difference, c.ratio, c.gini, c.above_chance)),
                )
                for c in result.concentration
            ),
            brief=True,
        )
        yield Text(glossary("evaluation")["Concentration"], note=True, brief=True)
    if published := tuple(_published(result)):
        yield Table("Published, as far as our copy has it", columns("what", "number"), published, brief=True)


def _gene_lines(result: Table3) -> Iterator[tuple[str, ...]]:
    """For each gene a line of AUROC, one of Hoyer and one of what chance gives, as Table 3 has the first two."""
    lines: dict[str, Callable[[GeneScore], str]] = {
        "AUROC": lambda s: _with_error(s.auroc, s.se),
        "Hoyer": lambda s: _with_error(s.hoyer, s.hoyer_se),
        "by chance, splits": lambda s: (
            f"{number(s.hoyer_null)}, {count(round(s.n_splits))}" if known(s.hoyer_null) else MISSING
        ),
    }
    for gene in dict.fromkeys(score.gene for score in result.genes):
        of = {score.representation: score for score in result.genes if score.gene == gene}
        named = (one_line(gene), count(next(iter(of.values())).guides))
        for name, said in lines.items():
            yield (*named, name, *(said(of[key]) if key in of else MISSING for key in REPRESENTATIONS))
            named = ("", "")


def _with_error(value: float, error: float) -> str:
    return f"{number(value)} ± {number(error)}" if known(error) else number(value)


def _published(result: Table3) -> Iterator[tuple[str, str]]:
    """What our copy has of the tables; `published` is free-form."""
    published = result.published
    for gene, value in dict(published.get("auroc_of_gene", {})).items():
        if isinstance(value, float):
            yield f"AUROC of {one_line(str(gene))}", number(value)
    for key, words in PUBLISHED.items():
        if isinstance(published.get(key), float):
            yield words, number(published[key])
    ends = published.get("hoyer_range")
    if isinstance(ends, (list, tuple)) and len(ends) == 2:
        yield "Hoyer of Table 3, least and most", f"{number(ends[0])}, {number(ends[1])}"


def _stricter(result: Table3) -> Iterator[Block]:
    """The evaluation with whole experiments held out, folded: its scores and differences only."""
    if result.stricter is not None:
        yield Text(sentence_of(result.stricter.text))
        for part in evaluation.sections(result.stricter):
            if part.key in ("scores", "differences") and part.blocks:
                yield Fold(part.title, tuple(_unprinted(part.blocks)))


def _unprinted(blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks of an evaluation, none of them brief: the command line prints the tables of the paper."""
    for block in blocks:
        inner = {"blocks": tuple(_unprinted(block.blocks))} if isinstance(block, Fold) else {}
        yield replace(block, brief=False, **inner)
