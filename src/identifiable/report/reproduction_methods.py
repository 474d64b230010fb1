"""The words that hold for every run of an experiment: how to read its page, what was done, whom to cite."""

from __future__ import annotations

import math

from identifiable.report.frame import entries
from identifiable.report.page import Section, Terms, Text
from identifiable.report.words import count, counted, known, number, one_line
from identifiable.results import Reproduction

NO_FIGURES = (
    "Our copy of the paper has its text but no figures. What exactly Figures A.3 to A.5 plot is reconstructed from the sentences "
    "about them, so compare what these show, not how they look."
)


SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def bound_name(result: Reproduction) -> str:
    """'leak⁻²': the bound on 1 + L that so many activations set, as the leaks and their bounds tell it."""
    return f"leak⁻{_activations(result)}"


def _activations(result: Reproduction) -> str:
    """How often a decoder can multiply by its leak, as a superscript; k where no leak tells."""
    bent = (k for k in result.leaks if known(k.leak) and known(k.bound) and 0 < k.leak < 1 <= k.bound)
    found = next(bent, None)
    return "ᵏ" if found is None else str(round(-math.log(found.bound, found.leak))).translate(SUPERSCRIPTS)


def how_to_read(result: Reproduction) -> Section:
    """What the figures mean, for a reader who sees them for the first time."""
    return Section(
        "reading",
        "How to read this page",
        (
            Text(
                "Train a model twice: are the two representations the same, up to a rotation and a shift? Theorem 1 of Nelson et al. "
                "(2026) says that they are the nearer to it the nearer the decoder is to an isometry. The leak of the activations "
                "turns that knob: at leak 1 these autoencoders are linear and their decoders isometries; towards 0 they bend."
            ),
            Terms(
                (
                    (
                        "1 + L",
                        "max(largest singular value, 1 / smallest singular value) of the decoder's Jacobian at a sample (Definition "
                        "A.5). A short step in the latents is at most so much longer or shorter in the output.",
                    ),
                    (
                        f"Why 1 + L ≤ {bound_name(result)}",
                        "Weights are orthonormal and each activation between layers multiplies by 1 or by the leak, so all singular "
                        f"values lie in [leak{_activations(result)}, 1] and 1 + L is 1 / the smallest.",
                    ),
                    (
                        "Distance",
                        "|h(f'(x)) - f(x)| of a sample x, for the two encoders f and f' and the rigid motion h that is best on "
                        "all samples. In units of the latents, or over their diameter.",
                    ),
                    (
                        "√(2L + L²)",
                        "What Theorem 1 bounds the distance by, up to a constant that depends on the number of latents, times the "
                        "diameter. The bound is a worst case over all decoders with that L, and L is the largest over the support; "
                        "means and single samples are a look at what usually happens.",
                    ),
                    (
                        "Slope",
                        "Fitted, one free parameter. It is not the constant of the theorem, which holds in the worst case and is "
                        "far larger; a good fit shows that distance follows the decoder, not that the bound is tight.",
                    ),
                    (
                        "Removed",
                        "Pairs of which a model reconstructs worse than the threshold: Theorem 1 is about models that fit the data "
                        f"equally well. The threshold here is a validation loss of {number(result.filter_threshold, 4)}.",
                    ),
                    (
                        "Random directions",
                        "The paper's estimator of 1 + L: the worst of a few directions drawn at random. It misses the extremes, so it "
                        "is smaller than the exact constant, more so with more latents.",
                    ),
                )
            ),
        ),
    )


def paragraphs(result: Reproduction) -> list[str]:
    """A methods section, written from the figures of this run."""
    return [_trained(result), _judged(result), _sources()]


def _trained(result: Reproduction) -> str:
    by = " for each digit" if any(run.digit is not None for run in result.runs) else ""
    return (
        f"{counted(len(result.runs), 'pair')} of autoencoders, whose two models differ in their seeds alone, were trained at "
        f"{counted(len(result.leaks), 'leak')}{by} (scale {one_line(result.scale)}). Pairs of "
        f"which either model's validation loss exceeds {number(result.filter_threshold, 4)} were removed: {count(result.removed)}. The "
        "latents of the second model were brought onto those of the first by the best rigid motion, reflections allowed."
    )


def _judged(result: Reproduction) -> str:
    return (
        "1 + L is max(σ_max, 1/σ_min) of the decoder's Jacobian, at each sample the larger of the pair's two; beside it stands the "
        "estimate from random directions. The line distance = c · √(2L + L²) is fitted by least squares, c its only parameter; "
        "intervals of Spearman's correlation come from a bootstrap that resamples seeds, so pairs of one seed and samples of one pair stay "
        f"together. Seed {result.provenance.seed}."
    )


def _sources() -> str:
    return (
        "Implements A.7.1 of Nelson et al. (2026). Reconstructed: the estimator from random directions and what Figures A.3 to A.5 "
        "plot, from the sentences that describe them. Ours: the settings listed as such, exact singular values, L of a pair (at every "
        "sample the larger of its two decoders'), intervals (seeds are drawn anew, each with all its leaks, because pairs of the "
        "same seeds are not independent), the correlation with the leak held fixed."
    )


def bibtex() -> str:
    """The entry of the paper."""
    return entries(["nelson"])
