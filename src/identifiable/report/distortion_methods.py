"""The words that hold for every decoder: how to read its page, what was done, whom to cite."""

from __future__ import annotations

from identifiable.report.frame import entries
from identifiable.report.page import Section, Terms, Text
from identifiable.report.words import count, counted, display_name, setting
from identifiable.results import Distortion

LOOSE = (
    "These are worst cases over all decoders that satisfy what is assumed: on random near-isometries the bound of Theorem 1 was "
    "56 to 7,400 times the error. A bound of a diameter or more says nothing. To know how far apart two models are, compare "
    "them."
)


def how_to_read() -> Section:
    """What the figures mean, for a reader who sees them for the first time."""
    return Section(
        "reading",
        "How to read this page",
        (
            Text(
                "A decoder that keeps lengths leaves its latents no freedom but a rigid motion: two such models of the same "
                "data have the same representation. The less it stretches and shrinks, the nearer it is to that."
            ),
            Terms(
                (
                    (
                        "Constant 1 + L",
                        "max(largest singular value, 1 / smallest singular value) of the Jacobian at a point (Definition A.5 of "
                        "Nelson et al. 2026). A short step in the latents is at most so much longer or shorter in the output. It "
                        "depends on the unit of the output.",
                    ),
                    (
                        "Best scale",
                        "The one factor on the output that makes the largest constant smallest. It is a choice of unit, which "
                        "changes neither the latents nor how identifiable they are, so the constant after it is the one to "
                        "judge by.",
                    ),
                    (
                        "Condition number",
                        "Largest over smallest singular value at a point: what no unit can change. 1 where the decoder is the same "
                        "in all directions, though perhaps another factor elsewhere.",
                    ),
                    (
                        "Infinite",
                        "The smallest singular value is 0 as far as rounding lets one see: two latents give the same output to "
                        "first order, and nothing about them can be recovered from it.",
                    ),
                    (
                        "Supremum",
                        "The theorem needs the largest constant anywhere on the support; points see only some of it. The "
                        "extrapolation assumes that the points are independent draws from that support.",
                    ),
                )
            ),
        ),
    )


def paragraphs(result: Distortion) -> list[str]:
    """A methods section, written from the settings and figures of this run."""
    return [_computed(result), _judged(result), _sources()]


def _computed(result: Distortion) -> str:
    precision = result.settings.get("precision")
    products = f" ({setting(precision)} products)" if isinstance(precision, str) else ""
    how = (
        "from the eigenvalues of JᵀJ in double precision, or where it is ill-conditioned from J itself"
        if result.method == "exact"
        else "as the extremes of JᵀJ by Lanczos with full reorthogonalisation, with errors from its residuals"
    )
    return (
        f"The Jacobian J of {display_name(result.decoder)} ({counted(result.latents, 'latent')}, "
        f"{counted(result.outputs, 'output')}) was multiplied with directions at {count(result.n)} points{products}, and its "
        f"singular values found {how}."
    )


def _judged(result: Distortion) -> str:
    directions = result.random_directions
    beside = (
        f" The estimator of A.7.1 was run beside it, with {counted(directions.directions, 'random direction')} at each point."
        if directions is not None
        else ""
    )
    tail = (
        " The supremum is the end point of a generalised Pareto law fitted by probability-weighted moments to the logarithms "
        f"of the {counted(result.supremum.n_tail, 'largest constant')}, its interval from a parametric bootstrap."
        if result.supremum is not None
        else ""
    )
    return (
        "The constant at a point is max(σ_max, 1/σ_min); points without a finite derivative are left out, and those where σ_min "
        f"vanishes to rounding have an infinite one.{beside}{tail} Seed {result.provenance.seed}."
    )


def _sources() -> str:
    return (
        "Implements Definition A.5 of Nelson et al. (2026) and their Theorem 1, whose constant is derived here (the recursion of "
        "Alestalo, Trotsenko and Väisälä 2001 that they cite is not in our copy), universally and from the shape of the "
        "points. Reconstructed: the estimator of A.7.1, from its sentence. Ours: exact singular values, the best scale, the "
        "extrapolated supremum (fit after Hosking and Wallis 1987)."
    )


def bibtex() -> str:
    """Entries of the papers that the methods name."""
    return entries(["nelson", "alestalo", "hosking"])
