"""What representations, classifiers, corrections and metrics of screens are called: one name each, in messages, tables and figures."""

from __future__ import annotations

import re

from identifiable.report.words import named

REPRESENTATIONS = {  # what each means: `glossary/evaluation.md`, under its name
    "base": "Base",
    "pca": "PCA",
    "ica": "PCA + ICA",
    "rand": "PCA + random",
    "position": "position only",
    "plate": "plate only",
    "batch": "batch only",
    "cell_count": "cell count only",
    "embedding": "embedding",
    "oracle": "true latents",
    "given": "given basis",
    "control-z": "control z-score",
    "control-mad": "control MAD",
    "sphering": "sphering",
    "tvn": "TVN",
    "combat": "ComBat",
    "harmony": "Harmony",
    "pca-cs": "PCA-CS",
    "ica-cs": "ICA-CS",
    "rand-cs": "Rand-CS",
    "position-subtracted": "less position",
    "count-regressed": "less cell count",
}
CLASSIFIERS = {
    "lightgbm": "LightGBM",
    "linear": "linear probe",
    "linear_probe": "linear probe",
    "ridge": "linear probe",
    "logistic": "logistic probe",
    "l1": "L1 probe",
    "1-nn": "1-NN",
    "odds": "log odds",
}
INPUTS = {"as-is": "as it is", "z-score": "z-scored columns", "input": "the input"}
RETRIEVAL = {  # what each means: `glossary/recommendation.md`, under its name
    "nn_euclidean": "1-NN, Euclidean",
    "nn_cosine": "1-NN, cosine",
    "consensus": "consensus",
    "consensus_batch": "consensus, other batch",
    "replicate_map": "replicate mAP",
    "batch_readable": "batch readable",
}
LABEL = 20  # characters of a label beside a figure
SHORTER = (("control z-score", "z"), ("control ", ""), ("sphering", "sph."))


def representation_name(key: str) -> str:
    return named(REPRESENTATIONS, key)


def classifier_name(key: str) -> str:
    return named(CLASSIFIERS, key)


def method_name(key: str) -> str:
    """A correction: 'control z-score by batch, sphering 1', where the last number is the ridge."""
    if key in INPUTS:
        return INPUTS[key]
    return ", ".join(_one_method(part) for part in key.split("+"))


def _one_method(key: str) -> str:
    if found := re.fullmatch(r"(control-\w+)-(plate|batch)", key):
        return f"{representation_name(found[1])} by {found[2]}"
    if found := re.fullmatch(r"sphering-([\d.]+)", key):
        return f"sphering {found[1]}"
    return {"pca": "PCA", "ica-clean": "ICA cleaning"}.get(key) or representation_name(key)


def label_name(key: str) -> str:
    """The same, abbreviated where it would not fit beside a figure."""
    name = method_name(key)
    for long, short in SHORTER if len(name) > LABEL else ():
        name = name.replace(long, short)
    return name


def name_of(key: str) -> str:
    """The name of a metric, a classifier, a correction or a representation."""
    return RETRIEVAL.get(key) or CLASSIFIERS.get(key) or method_name(key)
