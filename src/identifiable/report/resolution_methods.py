"""The words that hold for every resolution: how to read it, what was done, whom to cite."""

from __future__ import annotations

from collections.abc import Sequence

from identifiable.report.components import has_stability
from identifiable.report.frame import entries
from identifiable.report.page import Section, Terms, Text
from identifiable.report.words import count, counted, display_name, known, listed, number, setting
from identifiable.results import JointResolution, Resolution

Term = tuple[str, str]

REPRODUCIBLE = (
    "Reproducible",
    "Another sample of rows from the same source, resolved from another start, gives this component again. It is a "
    "statement about this representation and these data, not that the component is a cause in the world. One that is not "
    "reproducible may still carry signal: the data fix the space that it shares with others, but not its own direction.",
)
STABILITY = (
    "Stability",
    "The representation is refitted on halves of its rows, whitening and all, each time from a start of its own; this is the "
    "mean |correlation| between the partners that a component has in refits without a row in common. 1 means that all agree. "
    "Half of the rows are less than all of them, so this errs on the side of caution.",
)
CURVATURE = (
    "Curvature margin",
    "How sharply the contrast bends when this component is turned into another one, for the pair where it bends least. "
    "Theorem 2 of Nelson et al. (2026) needs it to be above 0. It is a local margin, at this solution; the bounds of the "
    "theorem are worst cases that grow as it shrinks, and what is measured is usually far milder.",
)


def how_to_read(result: Resolution) -> Section:
    """What the figures mean, for a reader who sees them for the first time."""
    return _reading(
        "Whitening makes all directions of a representation equally long and uncorrelated; which axes to use is then still "
        "open. ICA takes those along which the data look least Gaussian, as mixtures tend to look more so. Where such axes "
        "exist, they come back from every model that is the same up to a linear map; where they do not, any choice is as "
        "good as another. This page says which is which.",
        [REPRODUCIBLE, STABILITY, *_figures(), *_rank_and_order(result)],
    )


def how_to_read_joint() -> Section:
    """The same for several models of the same rows."""
    return _reading(
        "Each model is resolved by itself; components are then matched one to one across models by the |correlation| of "
        "their values on the same rows. Nothing was fitted to make the models agree, so a component that all of them share "
        "was found by each alone.",
        [
            (
                "Shared",
                "The component has a partner in every model, and all partners agree with each other, not only with the first "
                "model's.",
            ),
            (
                "Smallest |r|",
                "The smallest |correlation| among all pairs of partners: the weakest link. The sign does not count, as the "
                "sign of a component is a convention.",
            ),
            (
                "p",
                "Largest p-value of a match with the first model, by permutation of rows: how often the best |correlation| "
                "anywhere between the components of unrelated rows would be as high.",
            ),
            REPRODUCIBLE,
            STABILITY,
            CURVATURE,
        ],
    )


def _reading(opening: str, terms: Sequence[Term]) -> Section:
    return Section("reading", "How to read this page", (Text(opening), Terms(tuple(terms))))


def _figures() -> list[Term]:
    return [
        (
            "Density",
            "The values of the component (filled) against a Gaussian of the same mean and variance (line). A component that "
            "follows the line cannot be found by ICA.",
        ),
        (
            "Negentropy, skew, kurtosis",
            "How far from a Gaussian: 0 for a Gaussian. Negentropy is an index, the first-order value that the "
            "contrast implies: close to the negentropy near a Gaussian, too large far from one; skew is "
            "lopsidedness; kurtosis is the excess over a Gaussian's, above 0 for heavy tails and below 0 for flat tops. "
            "With very heavy tails the kurtosis may not exist; its standard error then says little.",
        ),
        CURVATURE,
        (
            "Angle error",
            "Standard error of the component's direction in radians, over all pairs, if other rows of the same kind had been "
            "drawn. It is local: it does not see a second optimum far away, which is what starts and refits are for.",
        ),
    ]


def _rank_and_order(result: Resolution) -> list[Term]:
    order = result.settings.get("order")
    key = f"by {setting(order)}" if isinstance(order, str) else "by a fixed rule"
    return [
        (
            "Order and sign",
            f"ICA leaves both open; here they are fixed {key}, the sign so that the skew is positive, or, where the skew is "
            "near 0, the largest entry of the direction. Ties in the order are listed.",
        ),
        (
            "Variance",
            "The share of the representation's variance that the component carries. Little variance does not mean little to "
            "say: ICA looks at shape, not at size.",
        ),
    ]


def paragraphs(result: Resolution) -> list[str]:
    """A methods section, written from the settings and figures of this run."""
    return [_whitened(result), _solved(result), _judged([result]), _sources()]


def joint_paragraphs(result: JointResolution) -> list[str]:
    names = listed(display_name(i.name) for i in result.inputs)
    matched = (
        f"{names} were each resolved by itself and their components compared on {count(result.n)} common rows: matched one to "
        "one by |correlation| (optimal assignment), with p-values from permuted rows; a component counts as shared if every "
        "model has it."
    )
    return [matched, *(_whitened(m) for m in result.models), _judged(result.models), _sources()]


def _whitened(result: Resolution) -> str:
    table, found = result.inputs[0], result.whitening
    constant = f" Left out: {counted(found.constant, 'constant column')}." if found.constant else ""
    rank = (
        f"The rank, {count(found.rank)}, is that of all but constant or collinear directions: of the principal directions of "
        f"the columns, brought to equal scale, those below {number(found.tolerance)} times the largest standard deviation were "
        f"dropped ({count(found.dropped)})."
        if found.rule == "auto" and known(found.tolerance)
        else f"The rank, {count(found.rank)}, was given."
    )
    return (
        f"{display_name(table.name)} ({count(table.n)} rows, {count(table.d)} columns) was centred and whitened from moments "
        f"in double precision.{constant} {rank}"
    )


def _solved(result: Resolution) -> str:
    contrast = result.settings.get("contrast")
    named = f" with the {setting(contrast)} contrast" if isinstance(contrast, str) else ""
    phases = {step.phase for step in result.steps}
    how = []
    how += ["a fixed-point search (FastICA)"] if "search" in phases else []
    how += ["a quasi-Newton polish over rotations"] if "polish" in phases else []
    way = f": {', then '.join(how)}" if how else ""
    starts = f" The best of {count(len(result.starts))} starts was kept." if len(result.starts) > 1 else ""
    end = "It converged" if result.converged else "It did NOT converge"
    return (
        f"Independent components were found by ICA{named}{way}, with the sign of the contrast of each component adapted to "
        f"its tails.{starts} {end}, after {number(result.passes, 1)} passes over all rows, in {result.whitening.precision} "
        f"precision. Seed {result.provenance.seed}."
    )


def _judged(models: Sequence[Resolution]) -> str:
    asked = (m.settings.get("stability") for m in models)
    refits = {n for n in asked if isinstance(n, int)}
    many = counted(refits.pop(), "refit") if len(refits) == 1 else "refits"
    stability = (
        f"Stability is the mean |correlation| between matched components of {many} on halves of the rows, each from a start of "
        "its own, compared between halves without a row in common."
        if any(has_stability(m.components) for m in models)
        else "No refits were made, so stability is not known."
    )
    return (
        f"{stability} Standard errors of directions are from the sandwich formula, those of moments from the delta method. "
        "Each component carries the reason for which it is called reproducible or not."
    )


def _sources() -> str:
    return (
        "Implements the recipe of Theorem 2 of Nelson et al. (2026), whitening followed by ICA, with the curvature that its "
        "bound needs as a figure per pair: a local margin, while the bound is a worst case. The search follows Hyvärinen "
        "(1999), the polish Ablin et al. (2018), the negentropy Hyvärinen (1998); refits as a test of components go back to "
        "Himberg and Hyvärinen (2003). Ours: refits on half of the rows, the sandwich error of the angles, the audit of pairs, the "
        "rules for order and sign, and the rule that calls a component reproducible."
    )


def bibtex(result: Resolution | JointResolution) -> str:
    """Entries of the papers that the methods name."""
    shown = ["nelson", "hyvarinen1999", "ablin", "hyvarinen1998", "himberg"]
    return entries([*shown, "roy"] if isinstance(result, Resolution) else shown)
