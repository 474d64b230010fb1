"""The words that hold for every comparison: how to read it, what was done, whom to cite."""

from __future__ import annotations

from identifiable.report.page import Section, Terms, Text
from identifiable.report.papers import entries
from identifiable.report.wording import ALLOWED, count, group_name, listed, one_line, setting, short
from identifiable.results import Comparison

# measure -> value when alike, range, value when unrelated
SCALES = {
    "cca": ("1", "0 to 1", "above 0, and near 1 once d approaches n"),
    "svcca": ("1", "0 to 1", "above 0, grows with components / n"),
    "cka": ("1", "0 to 1", "above 0, grows with d / n"),
    "cka_debiased": ("1", "at most 1, may fall below 0", "0"),
}


def bibtex(result: Comparison) -> str:
    """Entries of the papers whose figures are shown."""
    shown = ["nelson", "roeder"]
    if result.pairs:
        shown.append("kornblith")
    if any(pair.similarity.svcca for pair in result.pairs):
        shown.append("raghu")
    if result.spectra:
        shown.append("roy")
    if result.consensus is not None:
        shown.append("gower")
    return entries(shown)


def how_to_read(result: Comparison) -> Section:
    """What the numbers mean, for a reader who sees them for the first time."""
    shown = dict.fromkeys(rung.group for pair in result.pairs for rung in pair.rungs)
    groups = tuple((group_name(g), ALLOWED[g]) for g in shown if g in ALLOWED)
    return Section(
        "reading",
        "How to read this page",
        (
            Text(
                "Train a model twice and the two representations differ, but perhaps only by something harmless. "
                "The ladder asks how much freedom it takes to map one onto the other: the fewer the moves allowed, "
                "the stronger the finding."
            ),
            Terms(groups),
            Terms(
                (
                    (
                        "Error",
                        "Distance between a mapped source row and its partner, divided by the root mean square distance "
                        "between rows of the target. 0 is the same. Always answering with the target's mean gives a root "
                        "mean square error of 1/√2 ≈ 0.71, because the rms distance between rows is √2 times the rms "
                        "distance to the mean; the mean error is then at most 0.71, and less with heavy tails or few "
                        "dimensions. A map that cannot shrink can do worse: unrelated rows lie about 1 apart.",
                    ),
                    (
                        "Held-out",
                        "The map is fitted on some rows and judged on others. In-sample errors judge it on the rows it was "
                        "fitted on, and flatter large groups when n/d is small.",
                    ),
                    (
                        "Mean, quantiles, maximum",
                        "Definition 1 of Nelson et al. (2026) is an essential supremum: no row may be far off. Their "
                        "tables report means. Both are here: the maximum is the supremum over the rows at hand, which can "
                        "only grow with more rows; the 95 % quantile is steadier.",
                    ),
                    (
                        "Mean / diameter",
                        "The paper's figure: the mean error over the largest distance between two target rows. One outlier "
                        "makes the diameter larger and the figure smaller, so compare it only at equal data.",
                    ),
                    (
                        "Chance (nulls)",
                        "Shuffle breaks the pairing of rows; rotation turns one side at random after whitening, which asks "
                        "whether the axes themselves mean something. p is the share of such draws, the observed one "
                        "counted in, that do at least as well; it cannot fall below 1 / (draws + 1). Two trained models "
                        "nearly always beat shuffling: it is a floor, not a proof.",
                    ),
                    (
                        "95 % interval",
                        "Bootstrap interval of the held-out mean: how far the mean would move with other rows of the same "
                        "kind. It does not cover retraining the models.",
                    ),
                    (
                        "ICA efficiency",
                        "How much of the way from signed permutation to rigid ICA goes: (permutation - ICA) / "
                        "(permutation - rigid). 100 % means that each side alone finds the axes a joint rotation would.",
                    ),
                )
            ),
        ),
    )


def paragraphs(result: Comparison) -> list[str]:
    """A methods section, written from the settings of this run."""
    return [_fitting(result), _judging(result), _sources(result)]


def _fitting(result: Comparison) -> str:
    groups = list(dict.fromkeys(rung.group for pair in result.pairs for rung in pair.rungs))
    fitted = listed(group_name(g) for g in groups if g != "ica")
    positions = any(alert.code == "paired_by_position" for alert in result.alerts)
    paired = " Rows were paired by position." if positions else ""
    ica = (
        " For ICA, which is not a group, each side was resolved into independent components by itself; the components "
        "were then matched by a signed permutation and mapped back into the target's space."
        if "ica" in groups
        else ""
    )
    widths = {item.d for item in result.inputs}
    narrowed = (
        " Representations of different width were compared in their common principal subspace."
        if len(widths) > 1
        else ""
    )
    return (
        f"{listed(one_line(i.name) for i in result.inputs)} were compared in every ordered pair.{paired}{narrowed} "
        f"Each source was mapped onto its target by the best map of each of these groups: {fitted or 'none'}; signed "
        "permutations by optimal one-to-one matching of axes, rigid motions and similarities by Procrustes analysis with "
        f"reflections allowed, linear maps by least squares without regularisation, all on centred rows.{ica}"
    )


def _judging(result: Comparison) -> str:
    chosen = result.settings
    folds, bootstrap = chosen.get("folds"), chosen.get("bootstrap")
    by = chosen.get("group_by")
    unit = f"whole groups of {setting(by)}" if by else "rows"
    held_out = (
        f"Held-out errors come from {setting(folds)}-fold cross-validation"
        if folds
        else "Held-out errors are cross-validated"
    )
    drawn = f", folds drawn over {unit}"
    if bootstrap:
        intervals = f"; 95 % intervals of the held-out mean from {setting(bootstrap)} bootstrap draws of {unit}"
    else:
        intervals = "; no bootstrap intervals"
    nulls = {
        (kind, null.draws)
        for pair in result.pairs
        for rung in pair.rungs
        for kind, null in rung.null.items()
        if null is not None
    }
    names = {"shuffle": "row shuffling", "rotation": "random rotation after whitening"}
    told = listed(f"{names.get(kind, one_line(kind))} ({count(draws)} draws)" for kind, draws in sorted(nulls))
    null_text = (
        f" Null distributions: {told}; p = (1 + draws at least as good) / (1 + draws)."
        if nulls
        else " No nulls were drawn."
    )
    epsilons = listed(short(e) for e in sorted({pair.verdict.epsilon for pair in result.pairs}))
    figure = (
        "in-sample mean error over the diameter, as in the paper,"
        if chosen.get("protocol") == "paper"
        else "held-out 95 % quantile"
    )
    return (
        f"{held_out}{drawn}{intervals}.{null_text} The verdict is the smallest group whose {figure} is below "
        f"ε = {epsilons or setting(chosen.get('epsilon'))}. Seed {result.provenance.seed}."
    )


def _sources(result: Comparison) -> str:
    consensus = " The generalised Procrustes consensus follows Gower (1975)." if result.consensus is not None else ""
    return (
        "Implements Definition 1 of Nelson et al. (2026) between two models (statistical identifiability; against known "
        "sources the same ladder is their Definition 2, structural identifiability), with the alignments, in-sample errors "
        "and diameter of their A.7.2. Reconstructed: the formula of ICA efficiency, which reproduces the four values they "
        f"print.{consensus} "
        "Ours: held-out errors, the rms distance as yardstick, quantiles and maximum beside the mean, intervals, nulls and "
        "the verdict. Linear identifiability and CCA as its companion follow Roeder et al. (2021)."
    )
