"""The words that hold for every run of Table 2: how to read its page, what was done, whom to cite."""

from __future__ import annotations

from identifiable.report.disentanglement_methods import KINDS, METRICS, MODES, SCALE_FREE
from identifiable.report.frame import entries
from identifiable.report.page import Section, Terms, Text
from identifiable.report.words import counted, display_name, listed, one_line
from identifiable.results import Table2

NOT_COMPARABLE = (
    "Discrete codes are scored by another estimator than continuous latents, so their scores do not compare with those of "
    "continuous models: InfoM of 0.7 here is not the 0.7 of the other table."
)
UNKNOWN = "No number of QLAE or of a VQ-VAE is shown as published: we have none that we could check."
SUPERVISED = (
    "Settings and steps were selected by looking at the factors: of all that reconstruct well enough, the one with the "
    "highest mean InfoM over seeds, on the very pictures that the scores are of. Whoever has no factors cannot choose so, and the "
    "scores are those of a good choice, not of a typical one. The papers do the same, for every model. After ICA the selection is "
    "made anew, so AE and AE + ICA may be rows of different fits."
)
LAW = (
    "InfoE asks what a linear model reads off all latents together. An invertible linear map, such as ICA, cannot change that once "
    "the regression has converged."
)
RAW = "none"  # the mode of latents as they are
PAPERS = {
    "beta-VAE": "higgins",
    "beta-TCVAE": "chen",
    "BioAE": "whittington",
    "VQ-VAE": "oord",
    "VQ-VAE w/ wd": "oord",
}


def row_name(row: str) -> str:
    """A row as papers write it."""
    said = one_line(row)
    return f"β{said.removeprefix('beta')}" if said.startswith("beta-") else said


def model_name(result: Table2, model: str) -> str:
    """The row of a model before any ICA, which is what readers know it by."""
    return row_name(next((cell.row for cell in result.cells if (cell.model, cell.ica) == (model, RAW)), model))


def how_to_read(result: Table2) -> Section:
    """What the figures mean, for a reader who sees them for the first time."""
    modes = [mode for mode in MODES if any(cell.ica == mode for cell in result.cells)]
    return Section(
        "reading",
        "How to read this page",
        (
            Text(
                "Pictures are made of factors: a shape, a size, a place. A model that sees only pictures is to find latents that "
                "each tell of one factor. Nelson et al. (2026) say that a plain autoencoder nearly does: what its latents lack is a "
                "rotation, and ICA finds that rotation without labels. Table 2 holds the two together against models made for the purpose."
            ),
            Terms(
                (
                    ("InfoM, InfoE, InfoC", METRICS["infomec"].meaning),
                    *((f"ICA, {mode}", f"{MODES[mode][0].upper()}{MODES[mode][1:]}.") for mode in modes),
                    (
                        "Lift",
                        "InfoM after ICA less InfoM before, of the same fits: all settings and steps that pass the filter, none selected "
                        "by its score. A difference for each seed, then their mean. Of the rows: AE + ICA less AE, each at the setting "
                        "and step that is best for the other seeds.",
                    ),
                    (
                        "[95 %]",
                        "Interval of the mean over seeds by Student's t, as Hsu et al. (2023) have it. It tells what other seeds would "
                        "give, not what other data would; of a few seeds it is wide. Over all data: of each seed the mean over "
                        "data sets first.",
                    ),
                    (
                        "PSNR",
                        "How well pictures are reconstructed, in decibels: 10 more is a tenth of the squared error. Fits below the "
                        "threshold of their data take no part: latents of a model that does not see its pictures mean little.",
                    ),
                    ("Discrete and continuous", KINDS),
                    ("InfoM and noise", SCALE_FREE),
                )
            ),
        ),
    )


def paragraphs(result: Table2) -> list[str]:
    """A methods section, written from the figures of this run."""
    return [_trained(result), _judged(result), _sources(result)]


def _trained(result: Table2) -> str:
    models = list(dict.fromkeys(model_name(result, run.model) for run in result.runs))
    seeds = {run.seed for run in result.runs}
    return (
        f"{counted(len(result.runs), 'model')} ({listed(models)}) were trained from {counted(len(seeds), 'seed')} on "
        f"{listed(map(display_name, result.data))} (scale {one_line(result.scale)}). "
        "Selected was, for each model and data set, the setting and step with the highest mean InfoM over seeds among those whose "
        "mean PSNR reaches the threshold."
    )


def _judged(result: Table2) -> str:
    told = "Scores are InfoM, InfoE and InfoC on validation pictures; intervals are t intervals of the mean over seeds."
    modes = [mode for mode in MODES if any(cell.ica == mode for cell in result.cells)]
    if modes:
        told += f" ICA was fitted to the latents alone: {'; '.join(MODES[mode] for mode in modes)}."
    return f"{told} Seed {result.provenance.seed}."


def _sources(result: Table2) -> str:
    return (
        "Implements section 4.3 of Nelson et al. (2026) after the protocol of Hsu et al. (2023). Ours: the settings listed as such; "
        "among them the least PSNR and the settings tried, of which neither text tells enough, and centring before ICA; "
        "differences seed by seed; data that are not the papers'."
    )


def bibtex(result: Table2) -> str:
    """Entries of the protocol, the scores and the models that were trained."""
    models = [PAPERS[cell.row] for cell in result.cells if cell.row in PAPERS]
    ica = ["hyvarinen1999"] if any(cell.ica in MODES for cell in result.cells) else []
    return entries(dict.fromkeys(["nelson", "hsu", "ross", *ica, *models]))
