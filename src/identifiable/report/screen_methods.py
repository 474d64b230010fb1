"""The words that hold for every screen: what things are called, how to read the pages, what was done, whom to cite."""

from __future__ import annotations

from dataclasses import dataclass

from identifiable.report.frame import entries
from identifiable.report.page import Section, Terms, Text
from identifiable.report.words import count, counted, listed, one_line
from identifiable.results import Attribution, Audit, Cleaning, ScreenDesign, ScreenEvaluation

LIGHTGBM = "lightgbm"
LINEAR = ("linear", "ridge", "logistic", "linear_probe")
ROTATIONS = ("pca", "ica", "rand")
BLIND = ("position", "plate", "batch", "cell_count")


@dataclass(frozen=True)
class Words:
    """Something to a reader: its name, what it is, and the papers it is from."""

    name: str
    meaning: str = ""
    papers: tuple[str, ...] = ()


REPRESENTATIONS = {
    "base": Words("Base", "The embedding as it came."),
    "pca": Words("PCA", "Principal components, each scaled to variance 1 (whitened)."),
    "ica": Words("PCA + ICA", "The same, turned so that components are as independent as can be.", ("hyvarinen1999",)),
    "rand": Words("PCA + Rand", "The same, turned at random: what any rotation would give."),
    "position": Words("position only", "Row, column and edge of the well, no picture at all."),
    "plate": Words("plate only", "Which plate the well is on, no picture at all."),
    "batch": Words("batch only", "Which batch the well is in, no picture at all."),
    "cell_count": Words("cell count only", "How many cells the well has, no picture at all."),
    "embedding": Words("embedding", "The embedding as it came."),
    "oracle": Words("true latents", "The latents of the simulator, which no embedding can beat."),
    "given": Words("given basis", "The components of a basis that was fitted before, on single patches for example."),
    "control-z": Words("control z-score", "Each feature less the mean of its plate's controls, over their deviation."),
    "control-mad": Words("control MAD", "The same with the median and the median absolute deviation."),
    "sphering": Words("sphering", "Whitened by the controls."),
    "tvn": Words(
        "TVN", "Typical variation normalisation: whitened by controls, then each batch's controls aligned.", ("ando",)
    ),
    "combat": Words(
        "ComBat", "Shift and scale of each batch estimated by empirical Bayes and taken out.", ("johnson",)
    ),
    "harmony": Words("Harmony", "Clusters mixed over batches, then moved together.", ("korsunsky",)),
    "pca-cs": Words("PCA-CS", "Principal components scaled by the controls of their batch."),
    "ica-cs": Words("ICA-CS", "Independent components scaled by the controls of their batch."),
    "rand-cs": Words("Rand-CS", "Randomly turned components scaled by the controls of their batch."),
    "position-subtracted": Words("less position", "The mean of each well position subtracted."),
    "count-regressed": Words("less cell count", "What cell count predicts of each feature subtracted."),
}
CLASSIFIERS = {
    LIGHTGBM: "LightGBM",
    "linear": "linear probe",
    "linear_probe": "linear probe",
    "ridge": "linear probe",
    "logistic": "logistic probe",
    "l1": "L1 probe",
    "odds": "log odds of places",
}
HELD_OUT = {"plate": "plates left out", "batch": "batches left out", "single-batch": "one batch at a time"}
FIT = {"all": "representations fitted to all wells", "train": "representations fitted to training plates only"}
FACTORS = {"cell_count": "cell count", "spread": "how far wells spread, by plate"}
SPACES = {"ica": "ICA", "pca": "PCA", "rand": "Rand", "whole": "before cleaning", "base": "Base"}
METRICS = {
    "replicate_map": Words(
        "replicate mAP",
        "Mean average precision: are a well's replicates elsewhere nearer to it than controls are?",
        ("kalinin",),
    ),
    "replicate_map_others": Words(
        "replicate mAP, others",
        "The same against wells of other perturbations in place of controls.",
        ("kalinin",),
    ),
    "plate_auroc": Words(
        "plate AUROC", "How well plates can be told apart on control wells left out; 0.5 is not at all."
    ),
    "consistency": Words("perturbation consistency", "Mean cosine between replicates of a perturbation.", ("celik",)),
    "recall": Words(
        "relationship recall",
        "Share of known relationships among the most and the least similar pairs of perturbations.",
        ("celik",),
    ),
    "ilisi": Words("iLISI", "How evenly batches are mixed around a well: 0 not at all, 1 evenly.", ("korsunsky",)),
    "clisi": Words("cLISI", "How pure a well's neighbourhood is of its perturbation: 1 is pure.", ("korsunsky",)),
    "kbet": Words("kBET", "Share of neighbourhoods whose batches are mixed as in the whole.", ("buttner",)),
    "graph_connectivity": Words(
        "graph connectivity", "Share of a perturbation's wells that neighbours join into one piece.", ("luecken",)
    ),
    "silhouette_label": Words(
        "silhouette, perturbation",
        "How much nearer wells lie to their own perturbation than to the next, from 0 to 1.",
        ("rousseeuw", "luecken"),
    ),
    "silhouette_batch": Words(
        "silhouette, batch", "1 if batches of a perturbation overlap, 0 if they lie apart.", ("rousseeuw", "luecken")
    ),
    "bras": Words("BRAS", "The same held against the nearest other batch in place of the nearest other cluster."),
    "pcr_batch": Words(
        "PCR, batch", "Share of variance that the batch explains (principal component regression).", ("luecken",)
    ),
    "pcr_plate": Words(
        "PCR, plate", "Share of variance that the plate explains (principal component regression).", ("luecken",)
    ),
}
VERDICTS = {
    "clear": "clear",
    "caution": "with caution",
    "layout-confounded": "layout-confounded",
    "batch-confounded": "batch-confounded",
    "unusable": "unusable",
    "ica-helps": "ICA helps",
    "no-gain": "no gain",
    "ica-harms": "ICA harms",
    "nothing-to-find": "nothing to find",
    "undecided": "undecided",
    "ica-cleaning-helps": "ICA cleaning helps",
    "nothing-to-remove": "nothing to remove",
    "harms": "cleaning harms",
}
GOOD = ("clear", "ica-helps", "ica-cleaning-helps")
CONCLUDE = {
    "clear": "A perturbation that is told from controls on plates left out is told by something in the cells: neither its place nor "
    "its plate does it alone.",
    "caution": "Differences between representations of the same wells can be read. An AUROC by itself only with the findings below "
    "in view.",
    "layout-confounded": "Nothing about biology from an AUROC against controls: where a well lies gives its label away, so every "
    "embedding that keeps a trace of position scores well, and the one that shows position most clearly scores best.",
    "batch-confounded": "Nothing that needs perturbation and batch apart: perturbations lie in batches of their own, and no analysis "
    "of these wells can say which of the two made a difference.",
    "unusable": "Nothing yet: what is marked stop below keeps any score from meaning what it says.",
}
NEXT = {
    "clear": "Run identifiable deconfound evaluate, then attribute.",
    "caution": "Mend what can be mended. Then run identifiable deconfound evaluate and read AUROC within plate and the excess over null "
    "guides before the pooled AUROC.",
    "layout-confounded": "Compare wells with others at the same places only: perturbations with perturbations rather than with controls, "
    "or replicates at other addresses. If plates are still to be made, place perturbations at random on each.",
    "batch-confounded": "Keep to batches that hold both a perturbation and controls, and score within them. If batches are still to be "
    "made, spread every perturbation over several.",
    "unusable": "Mend what is marked stop and run the audit again.",
}
BLIND_WORDS = (
    "A classifier that is given position, plate, batch or cell count alone never sees a picture. On a sound layout it is at chance; "
    "whatever it reaches above it an embedding can reach without any biology. The embedding is only asked to tell plates and batches apart."
)
ONE_SPACE = (
    "PCA, PCA + ICA and PCA + Rand are one space under three rotations. Whatever looks at distances, angles or any linear combination "
    "must score them alike, a linear probe too; only a step along single axes (trees, an L1 penalty, scaling or dropping components) can "
    "tell them apart."
)
WITHIN_PLATE = (
    "Pooled AUROC ranks all wells of the plates left out together, so shifts from plate to plate blur it; within plate each well is "
    "ranked among its own plate's controls. Null guides are random controls called a guide: what a classifier gets on them is not "
    "biology."
)
PAIRED = "Both representations are scored on the same wells and the same resampled plates: an interval without 0 is a difference."
LEAKAGE = (
    "A representation fitted to all wells has seen the plates it is tested on, without their labels. What it gains by that, it does not "
    "gain on new plates."
)
FEW_SPLITS = (
    "Sparsity at few splits is chance: a few splits cannot touch many features. So Hoyer is read beside its null, what as many splits "
    "give if they fall on features at random; only what lies above it says that a classifier needs few features."
)
LOST_FORMULA = (
    "The paper's formula of concentration is lost from our copy. Shown are its candidates by name: difference (top - rest), Gini (twice "
    "that), ratio (top / rest - 1), and above chance ((top - rest) / (rest - 0.5)). No one of them is claimed to be the paper's."
)
SCORES_WORDS = (
    "Technical: share of a component's variance that plate, batch, position, edge and cell count explain together on control wells. "
    "Biological: share that perturbations explain within plate and that comes back on plates left out. Both are cross-validated: "
    "about 0, or below, where there is nothing."
)
MAP_WORDS = "Mean over plates of each well, plate means taken out, in standard deviations of the component."
INVARIANT = (
    "Metrics marked = look at distances or angles only. PCA, ICA and Rand are one space under rotations, so each has one value for the "
    "three before cleaning; it cannot speak for or against ICA."
)
SAME_AXES = (
    "All three drop as many axes, each ranked by the same technical score. What ICA gains over Rand and PCA is what its axes are worth; "
    "up and left is better. This mAP is the mean over wells, each half of the plates judged with axes chosen on the other; that of the "
    "table of metrics is the mean over perturbations, on one half."
)
NEW_PLATES = "New plates need no refit and no batch label: the same map is applied to their rows."


def named(table: dict[str, Words] | dict[str, str], key: str) -> str:
    """What `key` is called, or the key itself in plain words."""
    found = table.get(key)
    if found is None:
        return one_line(key).replace("_", " ")
    return found.name if isinstance(found, Words) else found


def representation_name(key: str) -> str:
    return named(REPRESENTATIONS, key)


def classifier_name(key: str) -> str:
    return named(CLASSIFIERS, key)


def verdict_name(key: str) -> str:
    return named(VERDICTS, key)


def space_name(key: str) -> str:
    return named(SPACES, key)


def factor_name(key: str) -> str:
    return named(FACTORS, key)


def metric_name(key: str) -> str:
    return named(METRICS, key)


def protocol_name(held_out: str, fit: str) -> str:
    """'plates left out, representations fitted to all wells'."""
    return f"{named(HELD_OUT, held_out)}, {named(FIT, fit)}"


# -- how to read

AUROC = (
    "AUROC",
    "The chance that a well of the perturbation is ranked above a control: 0.5 is a coin, 1 is always. Judged on plates that the "
    "classifier has not seen.",
)
PLATES_AGAIN = (
    "95 % interval",
    "From drawing whole plates again and again: wells of one plate are alike, and single wells would make the interval too short.",
)
DEPENDENCE = (
    "Mutual information",
    "How much knowing a label tells about where the well is, in nats. Chance gives more than 0 when labels are many, so it is read "
    "beside shuffles. Share: what exceeds their mean, of all that could.",
)
CONFOUNDING = (
    "Cramér's V",
    "Batch against perturbation, corrected for bias: 0 if every batch has the same perturbations, 1 if each has its own.",
)
STABILITY = (
    "Stability",
    "Mean |correlation| of a component with its partner when ICA is fitted again; 1 is the same each time.",
)
Q_VALUES = (
    "q",
    "A p-value corrected for looking at many (Benjamini and Hochberg): of what has q below 0.05 about one in twenty is chance.",
)


def _how_to_read(opening: str, *terms: tuple[str, str]) -> Section:
    return Section("reading", "How to read this page", (Text(opening), Terms(terms)))


def audit_reading() -> Section:
    return _how_to_read(
        "A screen can score well for the wrong reason: a perturbation that always lies in the same wells, or in batches of its own, is "
        "told apart without a look at its cells. The audit asks for that before anything is fitted.",
        AUROC,
        PLATES_AGAIN,
        DEPENDENCE,
        CONFOUNDING,
        (
            "Folds",
            "Plates are left out whole, in turn. A fold in which a perturbation or the controls are missing cannot score it.",
        ),
        (
            "Gaussian features",
            "Independent components are found by their non-Gaussian shape. Features made Gaussian rank by rank leave ICA nothing.",
        ),
    )


def evaluation_reading(result: ScreenEvaluation) -> Section:
    shown = dict.fromkeys(c.representation for c in result.conditions)
    return _how_to_read(
        "Does a representation tell perturbations from controls on plates it has never seen, and is that biology or layout? All "
        "representations are judged on the same folds of plates.",
        AUROC,
        PLATES_AGAIN,
        *((REPRESENTATIONS[key].name, REPRESENTATIONS[key].meaning) for key in shown if key in REPRESENTATIONS),
        ("Hoyer sparsity", "Of the shares of splits over features: 0 if all are used alike, 1 if one alone."),
        (
            "s.e.",
            "Standard error over folds, as the paper has it. Folds share training plates, so it is too small; the interval is not.",
        ),
    )


def attribution_reading() -> Section:
    return _how_to_read(
        "ICA gives axes; this page asks what each is about. An axis that moves with the plate and not with any perturbation can go, one "
        "that moves with perturbations on every plate must stay.",
        ("Role", "Technical, biological, both or neither, by the limits under Settings."),
        Q_VALUES,
        STABILITY,
        (
            "Effect",
            "Mean of a perturbation's wells less that of the controls on the same plates, in standard deviations of the component.",
        ),
    )


def cleaning_reading(result: Cleaning) -> Section:
    shown = dict.fromkeys(m.metric for m in result.metrics)
    return _how_to_read(
        "Components that are technical are dropped or shrunk. That takes plate out, and some biology with it: the question is the price, "
        "and whether any other axes would have done as well.",
        (
            "Biology lost",
            "Share of the biological score of all components that went with those removed; the budget is what one was willing to lose.",
        ),
        *((METRICS[key].name, METRICS[key].meaning) for key in ("plate_auroc", "replicate_map") if key not in shown),
        *((METRICS[key].name, METRICS[key].meaning) for key in shown if key in METRICS),
        ("Technical and biological", SCORES_WORDS),
    )


# -- methods in words


def batches_words(batches: int) -> str:
    """'1 batch', '12 batches'."""
    return f"{count(batches)} {'batch' if batches == 1 else 'batches'}"


def _screen(design: ScreenDesign) -> str:
    batches = f" in {batches_words(design.batches)}" if design.batches is not None else ""
    return (
        f"{counted(design.n, 'well')} of {counted(design.plates, 'plate')}{batches}, {counted(design.d, 'feature')}, "
        f"{counted(design.perturbations, 'perturbation')}, {counted(design.controls, 'control well')}"
    )


def audit_paragraphs(result: Audit) -> list[str]:
    return [
        f"{_screen(result.design)}. Classifiers that are given position, plate, batch or cell count alone were trained and judged on "
        "plates left out; intervals are from drawing plates again. Mutual information of labels with place was held against shuffles "
        "within plate (of plate and batch: over all wells).",
        f"Ours: the layout audit. No part of it is in Nelson et al. (2026). Seed {result.provenance.seed}.",
    ]


def evaluation_paragraphs(result: ScreenEvaluation) -> list[str]:
    classifiers = list(dict.fromkeys(classifier_name(c.classifier) for c in result.conditions))
    representations = list(dict.fromkeys(representation_name(c.representation) for c in result.conditions))
    folds = max((c.folds for c in result.conditions), default=0)
    nulls = f" and {counted(len(result.null_targets), 'null guide')}" if result.null_targets else ""
    judged = (
        f"{_screen(result.design)}. {counted(len(result.targets), 'perturbation')}{nulls} were told from controls by "
        f"{listed(classifiers)} on {listed(representations)}, over {counted(folds, 'fold')} that are the same for all; "
        f"{counted(len(result.scores), 'fit')} in all, each a line of scores in the JSON."
        if result.conditions
        else f"{_screen(result.design)}. No representation could be scored."
    )
    return [
        judged,
        "Implements section 4.4 of Nelson et al. (2026) with the LightGBM settings of its Table 6. Reconstructed: what is left open there "
        "(folds, rounds, seeds, the formula of concentration). Ours: the linear probe, position and plate alone, null guides, AUROC within "
        "plate, intervals from resampled plates, paired differences, the null of sparsity, several random rotations. "
        f"Seed {result.provenance.seed}.",
    ]


def attribution_paragraphs(result: Attribution) -> list[str]:
    return [
        f"{_screen(result.design)}. {counted(len(result.components), 'component')} of PCA whitening and FastICA. Shares of variance are "
        "cross-validated: those of plate and batch on control wells, half of each plate's controls predicted from the other half; p from "
        "permutations within plate (of plate and batch: of wells over plates), q over all components.",
        f"Ours: attribution, scores and roles. Seed {result.provenance.seed}.",
    ]


def cleaning_paragraphs(result: Cleaning) -> list[str]:
    touched = sum(weight < 1 for weight in result.weights)
    done = "dropped" if result.method == "drop" else "shrunk"
    return [
        f"{_screen(result.design)}. Of {counted(len(result.weights), 'component')} {count(touched)} {'was' if touched == 1 else 'were'} "
        f"{done}. The same number of axes of PCA and of random rotations, ranked by the same score, was dropped for comparison. "
        "Intervals of replicate mAP come from leaving plates out in turn (jackknife).",
        f"Ours: cleaning by technical score within a budget, and the comparison. Seed {result.provenance.seed}.",
    ]


# -- whom to cite


def audit_bibtex() -> str:
    return entries(["nelson"])


def evaluation_papers(result: ScreenEvaluation) -> list[str]:
    shown = dict.fromkeys(c.representation for c in result.conditions)
    trees = ["ke"] if any(c.classifier == LIGHTGBM for c in result.conditions) else []
    of = [paper for key in shown if key in REPRESENTATIONS for paper in REPRESENTATIONS[key].papers]
    return list(dict.fromkeys(["nelson", *trees, "hoyer", *of]))


def evaluation_bibtex(result: ScreenEvaluation) -> str:
    return entries(evaluation_papers(result))


def attribution_bibtex() -> str:
    return entries(["nelson", "hyvarinen1999", "benjamini"])


def cleaning_bibtex(result: Cleaning) -> str:
    of = [paper for m in result.metrics if m.metric in METRICS for paper in METRICS[m.metric].papers]
    return entries(dict.fromkeys(["nelson", "hyvarinen1999", "benjamini", "kalinin", *of]))
