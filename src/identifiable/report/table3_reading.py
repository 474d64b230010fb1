"""What the page and the table of `reproduce table3` share: lines and words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from identifiable.report.pages.screen import representation_name
from identifiable.report.words import MISSING, count, estimate, interval, known, number, one_line, sentence_of, signed
from identifiable.results import GeneScore, Table3

REPRESENTATIONS = ("base", "pca", "ica", "rand")
GENE_HEADS = ("gene", "guides", "figure", *map(representation_name, REPRESENTATIONS))
CONCENTRATION_HEADS = ("representation", "top %", "top", "rest", "all", "difference", "ratio", "Gini", "above chance")
SIMULATED = (
    "The screen is simulated, with the design of RxRx3-core: these figures show that the evaluation runs and what it says where the "
    "truth is known. They neither confirm nor contradict the paper's."
)
REAL = "The screen was read from files; the paper's own figures are in our copy only in part, and without their representation."
COUNTS = (
    "Means over folds and guides, ± standard error as the paper has it; by chance: Hoyer of as many splits at random."
)


def scale_words(result: Table3) -> str:
    """'scale smoke, a simulated screen'."""
    where = "a simulated screen" if result.simulated else (result.inputs[0].name if result.inputs else "files")
    return f"scale {one_line(result.scale)}, {one_line(where)}"


def sentence(result: Table3) -> str:
    return sentence_of(result.headline)


def gain_words(result: Table3) -> str:
    bounds = interval(result.gain_ci95)
    return signed(result.gain) if bounds == MISSING else f"{signed(result.gain)} {bounds}"


def stricter_words(result: Table3) -> str | None:
    """What holding out whole experiments and fitting on training rows only leaves of the gain."""
    found = None if result.stricter is None else result.stricter.difference("ica", "pca")
    if found is None:
        return None
    return (
        "With whole experiments held out and transforms fitted on training rows only, ICA - PCA is "
        f"{signed(found.difference)} {interval(found.ci95)}."
    )


def gene_lines(result: Table3) -> list[tuple[str, ...]]:
    """For each gene a line of AUROC, one of Hoyer and one of what chance gives, as Table 3 has the first two."""
    lines = []
    for gene in dict.fromkeys(score.gene for score in result.genes):
        of = {score.representation: score for score in result.genes if score.gene == gene}
        guides = count(next(iter(of.values())).guides)
        cells = [of.get(name) for name in REPRESENTATIONS]
        lines.append((one_line(gene), guides, "AUROC", *(_auroc(score) for score in cells)))
        lines.append(("", "", "Hoyer", *(_hoyer(score) for score in cells)))
        lines.append(("", "", "by chance, splits", *(_chance(score) for score in cells)))
    return lines


def _auroc(score: GeneScore | None) -> str:
    return MISSING if score is None else _with_error(score.auroc, score.se)


def _hoyer(score: GeneScore | None) -> str:
    return MISSING if score is None else _with_error(score.hoyer, score.hoyer_se)


def _chance(score: GeneScore | None) -> str:
    if score is None or not known(score.hoyer_null):
        return MISSING
    return f"{number(score.hoyer_null)}, {count(round(score.n_splits))}"


def _with_error(value: float, error: float) -> str:
    return f"{number(value)} ± {number(error)}" if known(error) else number(value)


def concentration_lines(result: Table3) -> list[tuple[str, ...]]:
    return [
        (
            representation_name(c.representation),
            f"{c.percent:g}",
            *map(number, (c.top, c.rest, c.whole)),
            *map(signed, (c.difference, c.ratio, c.gini, c.above_chance)),
        )
        for c in result.concentration
    ]


def published_lines(result: Table3) -> list[tuple[str, str]]:
    """What our copy has of the tables."""
    published: Mapping[str, Any] = result.published
    lines = [
        (f"AUROC of {one_line(str(gene))}", number(value))
        for gene, value in dict(published.get("auroc_of_gene", {})).items()
        if isinstance(value, float)
    ]
    for key, words in (("largest_auroc", "largest AUROC of Table 3"), ("concentration", "a concentration of Table 4")):
        if isinstance(published.get(key), float):
            lines.append((words, number(published[key])))
    ends = published.get("hoyer_range")
    if isinstance(ends, (list, tuple)) and len(ends) == 2:
        lines.append(("Hoyer of Table 3, least and most", f"{number(ends[0])}, {number(ends[1])}"))
    return lines


def auroc_words(result: Table3, representation: str) -> str:
    blind = representation == "position"  # judged by a classifier of its own
    found = result.evaluation.condition(representation, None if blind else "lightgbm")
    return MISSING if found is None else estimate(found.auroc, found.ci95)
