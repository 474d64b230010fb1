"""The words that hold for every disentanglement: what each metric is, how to read it, what was done, whom to cite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from identifiable.report.frame import entries
from identifiable.report.page import Section, Terms, Text
from identifiable.report.words import MISSING, count, counted, listed, one_line, setting, short
from identifiable.results import Disentanglement, Metric


@dataclass(frozen=True)
class Words:
    """A metric to a reader: its name, what it is and how to read it, and the papers it is from."""

    name: str
    meaning: str
    papers: tuple[str, ...] = ()


METRICS = {
    "infomec": Words(
        "InfoMEC",
        "From the mutual information of every factor and latent, over the entropy of the factor (NMI). InfoM: the share of the "
        "best factor in what a latent tells, mean over active latents. InfoC: the share of the best latent in what is told of "
        "a factor. Both are 0 where all shares are alike and 1 where one has everything. InfoE: how much of a factor a linear "
        "model reads off all latents together, fitted and scored on the same rows. Scores of different profiles do not "
        "compare.",
        ("hsu", "ross"),
    ),
    "dci": Words(
        "DCI",
        "How important each latent is to a predictor of each factor. Disentanglement: 1 minus the entropy of a latent's "
        "importances over factors; completeness: the same of a factor over latents; informativeness: how well the predictor "
        "does. Another predictor gives other scores, so it is part of the name.",
        ("eastwood",),
    ),
    "mig": Words(
        "MIG",
        "Of each factor: the mutual information with its best latent minus that with the next, over the entropy of the factor. "
        "Low if a factor is spread over latents; it does not see one latent that holds two factors.",
        ("chen",),
    ),
    "mig_sup": Words(
        "MIG-sup",
        "The same gap of each latent, between its best factor and the next: low if a latent holds two factors.",
        ("li",),
    ),
    "jemmig": Words(
        "JEMMIG",
        "MIG that also asks that the best latent tells of nothing else: from the joint entropy of factor and latent. It cannot "
        "reach 1 if bins are finer than the factor.",
        ("do",),
    ),
    "dcimig": Words(
        "DCIMIG",
        "Each latent's gap is credited to its best factor, and each factor takes the largest credit, over the entropy of all.",
        ("sepliarskaia",),
    ),
    "modularity": Words(
        "Modularity",
        "1 minus what a latent tells of other factors, squared, over what it tells of its best. Easily high: a latent that tells "
        "nearly nothing can be modular.",
        ("ridgeway",),
    ),
    "explicitness": Words(
        "Explicitness",
        "Area under the curve of a logistic regression that reads a factor off all latents, held out. 0.5 is chance in the raw "
        "area.",
        ("ridgeway",),
    ),
    "sap": Words(
        "SAP",
        "How well one latent alone predicts a factor, the best latent minus the next.",
        ("kumar",),
    ),
    "irs": Words(
        "IRS",
        "How little a latent moves when its factor is held and the others change. It says nothing of how much it tells.",
        ("suter",),
    ),
    "mcc": Words(
        "MCC, Pearson",
        "Mean |correlation| of factors and latents under the best one-to-one matching. Linear, so a leak of 1 % costs 1 %.",
        ("hyvarinen2016",),
    ),
    "mcc_spearman": Words(
        "MCC, Spearman", "The same with ranks: what a monotone map of a latent cannot change.", ("hyvarinen2016",)
    ),
    "mcc_linear": Words(
        "MCC after a linear map",
        "The same after the best linear map of the latents, held out: what they hold up to a linear map, mixed or not.",
        ("hyvarinen2016",),
    ),
    "r2": Words("R², linear", "Share of each factor that a linear regression of all latents explains, held out."),
    "r2_kernel": Words("R², kernel", "The same with a kernel regression: what is there, however it is bent."),
    "betavae": Words(
        "BetaVAE score",
        "Whether a linear classifier sees from differences of latents which factor two rows share. Chance is one over the "
        "number of factors; most models come near 1.",
        ("higgins",),
    ),
    "factorvae": Words(
        "FactorVAE score",
        "The latent that varies least while a factor is held votes for that factor; the share of votes that a majority rule "
        "gets right.",
        ("kim",),
    ),
    "unsupervised": Words(
        "Unsupervised",
        "How much latents tell of each other, without looking at factors: 0 is independent, and less is better. Independent "
        "latents need not be disentangled.",
        ("locatello",),
    ),
}
SCORES = {
    "infom": "InfoM",
    "infoe": "InfoE",
    "infoc": "InfoC",
    "informativeness_test": "informativeness, held out",
    "informativeness_train": "informativeness, fitted rows",
    "explicitness": "area, held out",
    "explicitness_train": "area, fitted rows",
    "mcc": "MCC",
    "mig": "MIG",
    "mig_sup": "MIG-sup",
    "jemmig": "JEMMIG",
    "dcimig": "DCIMIG",
    "sap": "SAP",
    "irs": "IRS",
    "r2": "R²",
    "betavae": "accuracy",
    "factorvae": "accuracy",
    "wasserstein_correlation": "Wasserstein correlation",
    "wasserstein_correlation_normalised": "Wasserstein, normalised",
}
MODES = {
    "centred": "centred, without whitening (what the paper wants)",
    "literal": "FastICA(whiten=False) as it is, which neither centres nor whitens (what the paper calls)",
    "whitened": "whitened by rank, then rotated (ours)",
}
SCALE_FREE = (
    "Mutual information has no scale: what matters is whether a neighbour's distance is resolved, not how large it is. In "
    "latents that are nearly free of noise the k-nearest-neighbour estimator resolves a leak of 1 % of another factor and "
    "counts it as it would count a mixture: latents that recover every source with correlation 1.00 and leak at most 2 % score "
    "InfoM 0.73, and the same with noise of 3 % and 10 % of their spread 0.87 and 0.98. So InfoM is read with noise added: "
    "what comes back is leakage below the noise, what stays away is mixture."
)
KINDS = (
    "Discrete codes and continuous latents are scored by different estimators, and so are discrete and continuous factors: "
    "their scores do not belong in one column of a table without saying so."
)


def metric_name(key: str) -> str:
    """A metric as it is called in sentences."""
    return METRICS[key].name if key in METRICS else one_line(key).replace("_", " ")


def score_name(key: str) -> str:
    """A score of a metric in words."""
    return SCORES.get(key, one_line(key).replace("_", " "))


def setting_words(settings: Mapping[str, Any]) -> str:
    """Settings as 'bins 20; predictor forest'."""
    return "; ".join(f"{one_line(k).replace('_', ' ')} {_said(v)}" for k, v in settings.items()) or MISSING


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    return short(value) if isinstance(value, float) else setting(value)


def how_to_read(result: Disentanglement) -> Section:
    """What each metric of this result is, for a reader who sees it for the first time."""
    terms = [(metric_name(key), METRICS[key].meaning) for key in result.metrics if key in METRICS]
    general = [
        (
            "Active",
            "A latent that varies, by the rule of the InfoMEC profile. Those that do not are left out of InfoM and InfoC; InfoE "
            "uses all.",
        ),
        (
            "Chance",
            "Pure noise does not score 0: shares of next to nothing are never quite alike, and the best of several small numbers is "
            "above their mean. What shuffled factors score says what chance gives with these rows.",
        ),
        ("Discrete and continuous", KINDS),
    ]
    return Section(
        "reading",
        "How to read this page",
        (
            Text(
                "A representation is disentangled if each latent tells of one factor (modular), each factor is told by one latent "
                "(compact) and everything about the factors can be read off simply (explicit). No single number says all three."
            ),
            Terms((*terms, *general)),
        ),
    )


def paragraphs(result: Disentanglement) -> list[str]:
    """A methods section, written from the settings and figures of this run."""
    return [_measured(result), *_sampled(result), *_resolved(result), _sources(result)]


def _measured(result: Disentanglement) -> str:
    kinds = [f.kind for f in result.factors]
    factors = " and ".join(f"{kinds.count(k)} {k}" for k in ("discrete", "continuous") if k in kinds)
    told = "; ".join(f"{metric_name(key)}: {setting_words(m.settings)}" for key, m in result.metrics.items())
    return (
        f"{counted(len(result.latents), 'latent')} ({result.latent_kind}) were held against "
        f"{counted(len(result.factors), 'factor')} ({factors}) on {counted(result.n, 'row')}. {told}."
    )


def _sampled(result: Disentanglement) -> list[str]:
    parts = []
    draws = result.settings.get("bootstrap")
    if _some(result.metrics.values(), "intervals"):
        often = f"{count(draws)} random splits" if isinstance(draws, int) else "random splits"
        parts.append(
            f"Intervals (95 %): how much a score differs between the halves of {often} of the rows, and between quarters, "
            "extrapolated to all rows, by Student's t. They know the spread over rows, not the bias of a score that falls or rises "
            "with their number. Rows drawn twice, as in a usual bootstrap, would be their own nearest neighbours."
        )
    draws = result.settings.get("null")
    if _some(result.metrics.values(), "nulls"):
        often = f" {count(draws)} times" if isinstance(draws, int) else ""
        parts.append(
            f"Chance: the rows of the factors were shuffled against those of the latents{often}, and everything scored again; p is "
            "the share of shuffles that score at least as high, the observed one counted."
        )
    if result.sweep:
        levels = listed(f"{short(100 * point.noise)} %" for point in result.sweep)
        parts.append(f"Noise sweep: InfoMEC with Gaussian noise of {levels} of each latent's standard deviation added.")
    return [" ".join(parts)] if parts else []


def _some(metrics: Iterable[Metric], field: str) -> bool:
    return any(getattr(m, field) for m in metrics)


def _resolved(result: Disentanglement) -> list[str]:
    if not result.after:
        return []
    return [
        f"ICA was fitted to the latents alone, {listed(MODES[a.mode] for a in result.after)}, and scored as before."
    ]


def _sources(result: Disentanglement) -> str:
    ours = "intervals from halves, shuffled factors, the noise sweep, the InfoE check"
    told = (
        f"Implements {listed(metric_name(key) for key in result.metrics)} after the papers below."
        if result.metrics
        else ""
    )
    return f"{told} Ours: {ours}. Seed {result.provenance.seed}.".strip()


def bibtex(result: Disentanglement) -> str:
    """Entries of the papers whose metrics were computed."""
    papers = [p for key in result.metrics if key in METRICS for p in METRICS[key].papers]
    return entries(
        dict.fromkeys([*papers, *(["nelson", "hyvarinen1999"] if result.after else []), *([] if papers else ["hsu"])])
    )
