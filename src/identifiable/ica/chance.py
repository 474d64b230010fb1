"""What chance alone shows: how far a direction of Gaussian noise, chosen for departing from a Gaussian, departs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from identifiable.ica.contrasts import Contrast, gaussian_values
from identifiable.moments import Array

# Of the test against a Gaussian, over all components together. Strict, because two Gaussians can look stable: random turns in
# a plane match at |r| 0.9 on average.
GAUSSIAN_LEVEL = 1e-3
MOST_ANGLE = 0.3  # radians of standard error a reproducible direction may have: |r| about 0.91 between two samples


def by_chance(shapes: Array, n: int, contrast: Contrast, dimensions: int | None = None) -> NDArray[np.bool_]:
    """Directions that n rows cannot tell from those chosen in Gaussian noise, by `shapes` = E G'(y) y - E G''(y).

    Ours. Every step measures them: they are what a direction adds to the curvature of its pairs. On n Gaussian rows, exactly
    white, their variance is v / n with v the `coupling`, and in k dimensions the largest is about 1.8 sqrt(k v / n). The
    couplings between the turns of one direction towards the k others are a random matrix with the edge 2 sqrt(k v / n)
    (see `solver._Momentum`): where the test finds nothing, steps among such directions follow couplings and lead nowhere.
    With `dimensions`, each counts as the first one chosen in a space of so many; without, as in `chosen_p`.
    """
    level = gaussian_values(contrast.name)
    z = np.abs(shapes) / np.sqrt(level.coupling / n)
    if dimensions is None:
        return np.asarray(chosen_p(z, level.shape_roughness) >= GAUSSIAN_LEVEL)
    return np.asarray(largest_p(z, np.full(len(z), dimensions), level.shape_roughness) >= GAUSSIAN_LEVEL)


def too_weak(shapes: Array, n: int, contrast: Contrast, components: int) -> NDArray[np.bool_]:
    """Directions that n rows cannot fix though they depart from a Gaussian: another sample would turn them by more than `MOST_ANGLE`."""
    return turn_variances(shapes, n, contrast, components) > MOST_ANGLE**2


def turn_variances(shapes: Array, n: int, contrast: Contrast, others: int) -> Array:
    """By how much, squared, n rows leave open the turns of each direction into so many nearly Gaussian others.

    Ours. By the formula of `Directions`: turns into each of the others have the variance of G' left after regressing on y, over n
    and the squared curvature, which is the squared shape.
    """
    level = gaussian_values(contrast.name)
    squares = np.maximum(shapes**2, np.finfo(float).tiny)
    return np.asarray(others * level.roughness * level.residual_variance / n / squares)


def chosen_p(z: Array, roughness: float) -> Array:
    """p-values of orthogonal directions chosen for departing by |z| standard errors from what they are for a Gaussian.

    Ours. In k dimensions of Gaussian noise some direction departs by about 1.75 sqrt(k) standard errors, and which ones ICA
    ends at depends on the last bits of the data. So the largest departure counts as the largest over all directions of the
    space, the next one as the largest over those orthogonal to the first, and so on; a p-value is at least the one before.
    """
    order = np.argsort(-z, kind="stable")
    p: Array = np.empty_like(z)
    p[order] = np.maximum.accumulate(largest_p(z[order], np.arange(len(z), 0, -1), roughness))
    return p


def largest_p(z: Array, dimensions: NDArray[np.intp], roughness: float) -> Array:
    """Probability, at most, that the largest |z| over all directions of a Gaussian space reaches each of these.

    The mean Euler characteristic of the directions above z (Adler and Taylor 2007) of a field on the sphere in d dimensions,
    with the roughness v, k = d - 1, t^2 = v / (v - 1) and the sphere's surface s_d:
        s_d ((v - 1) / 2 pi)^(k / 2) int_z^inf He_k(t x) phi(x) dx.
    He_k is log-concave beyond its largest zero, so its tangent at z bounds the integral; below that zero there are many
    such directions. Exact for one dimension, where no direction is chosen.
    """
    from scipy.special import gammaln, log_ndtr

    t = np.sqrt(roughness / (roughness - 1))
    log_size, ratio = np.zeros_like(z), np.ones_like(z)  # log He_k(t z), and He_k over He_(k - 1)
    growth = np.zeros_like(z)  # of log He_k(t x) at z
    for k in range(1, int(dimensions.max(initial=1))):
        some = dimensions > k
        ratio[some] = (t * z - (k - 1) / ratio)[some]
        ratio[ratio <= 0] = np.nan
        log_size[some] += np.log(ratio[some])
        growth[some] = (t * k / ratio)[some]
    surface = np.log(2) + dimensions / 2 * np.log(np.pi) - gammaln(dimensions / 2)
    decay = z - growth
    tail = log_ndtr(-decay) + (decay**2 - z**2) / 2
    log_p = surface + (dimensions - 1) / 2 * np.log((roughness - 1) / (2 * np.pi)) + log_size + tail
    p: Array = np.exp(np.where(np.isnan(log_p), 0.0, log_p).clip(max=0.0))
    return p
