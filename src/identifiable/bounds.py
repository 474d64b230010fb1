r"""The theorems as numbers: how far apart two representations can be, at worst, by what is known of their decoders.

Every function here is a worst case over all models that satisfy its assumptions, and usually far above what happens:
on random near-isometries the bound of Theorem 1 was 56 to 7,400 times the error. Beside a bound, show a measurement.

D is the number of latents, Delta the diameter of the representation's support, 1 + L the local bi-Lipschitz constant of
a decoder (`identifiable.jacobians`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.moments import Array

LARGEST_D = 64  # the universal constant doubles with every latent; beyond this it says nothing in any case
GAUSSIAN_LOG_COSH = 0.3745672074914382  # E log cosh of a standard normal, by quadrature
THRESHOLDS = 4000  # values of K tried; each gives a valid bound, the best is taken


# -- near-isometries


def near_isometry_error(heights: NDArray[np.floating], epsilon: float) -> float:
    r"""Largest distance of an `epsilon`-near-isometry of a set of diameter 1 to some isometry, by the set's shape.

    Derived, in place of the recursion of Alestalo, Trotsenko and Väisälä that the paper cites (Lemma A.4), which is
    lost in our copy. `heights` are the set's widths in the order of a greedy search (`heights`): h_1 = 1, h_k the largest
    distance to the affine hull of the points chosen before; a set with fewer dimensions than the space ends with height 0,
    because a near-isometry may bend it into the others. With a = 3 + 1.5 eps, p = 2 + eps,

        R_k = a + sum_{j<k} (2 C_j + C_j^2 eps / h_j^2),   q_k = sqrt(1 - R_k eps / h_k^2),
        C_1 = (a + 1) / (1 - eps),   C_k = R_k (1 + 1 / (1 + q_k)) / q_k,

    the k-th coordinate moves by at most C_k eps / h_k; coordinates from some level on may be treated as thin instead.
    The least over all levels, and never more than the trivial 2 + eps. Worst case.

    >>> near_isometry_error(np.array([1.0]), 0.01) <= 2.01
    True
    >>> near_isometry_error(np.array([1.0, 0.9]), 0.0)
    0.0
    """
    h = np.asarray(heights, dtype=np.float64)
    _check_heights(h)
    _check_positive("epsilon", epsilon, zero=True)
    trivial = 2 + epsilon
    if epsilon >= 1:
        return trivial
    if len(h) == 1:
        return min(2 * epsilon, trivial)  # on a line: f(x) is known to eps from both ends
    a, p = 3 + 1.5 * epsilon, 2 + epsilon
    C = (a + 1) / (1 - epsilon)
    R, moved, best = a, 0.0, trivial
    for k in range(1, len(h)):
        R += 2 * C + C**2 * epsilon / h[k - 1] ** 2
        moved += (C * epsilon / h[k - 1]) ** 2
        thin = h[k] + math.sqrt(h[k] ** 2 + (R + p - a) * epsilon)
        best = min(best, math.sqrt(moved + thin**2))
        left = 1 - R * epsilon / h[k] ** 2 if h[k] > 0 else -1.0
        if left <= 0:
            return best
        q = math.sqrt(left)
        C = R * (1 + 1 / (1 + q)) / q
    return min(best, math.sqrt(moved + (C * epsilon / h[-1]) ** 2))


def heights(points: NDArray[np.floating], ends: tuple[int, int]) -> Array:
    """Widths h_1 = 1, h_2, ... of a set over its diameter, by greedy choice of the point farthest from those before.

    `ends` are the rows of two points at the largest distance (`identifiable.diameter.diameter`). The set of the
    theorem is convex; its vertices are enough, because a distance to an affine subspace is largest at one. Where they span
    fewer dimensions than there are, the last height is 0.

    >>> heights(np.array([[0.0, 0], [4, 0], [2, 1]]), (0, 1))
    array([1.  , 0.25])
    """
    X = np.asarray(points, dtype=np.float64)
    if X.ndim != 2 or len(X) < 2 or not np.isfinite(X).all():
        raise DataError(f"heights: expected at least two rows of finite numbers, got an array of shape {X.shape}.")
    reach = max(float(np.linalg.norm(X - X[end], axis=1).max()) for end in ends)
    if reach > (1 + 1e-9) * float(np.linalg.norm(X[ends[0]] - X[ends[1]])):
        raise DataError(
            "heights: a point lies farther away than the two ends are apart; pass the ends of the diameter."
        )
    left = X - X[ends[0]]
    found: list[float] = []
    chosen = ends[1]
    for _ in range(X.shape[1]):
        direction = left[chosen]
        length = float(np.linalg.norm(direction))
        if length == 0:
            found.append(0.0)
            break
        found.append(length)
        left = left - np.outer(left @ (direction / length), direction / length)
        chosen = int(np.argmax(np.einsum("ij,ij->i", left, left)))
    if found[0] == 0:
        raise DataError("heights: all points are equal.")
    result: Array = np.array(found) / found[0]
    return result


@cache
def universal_constant(d: int) -> float:
    r"""c_D with which an eps-near-isometry of any set of diameter 1 in R^D is within c_D sqrt(eps) of an isometry.

    Derived (`near_isometry_error` with every height either above K sqrt(eps) or treated as thin, K the best one, the worst
    over eps); about 2.5 times 2^D. Not the constant of the paper, whose recursion and example value are lost. Worst case.

    >>> [round(universal_constant(d), 1) for d in (1, 2, 3)]
    [2.0, 9.5, 19.9]
    """
    if not 1 <= d <= LARGEST_D:
        raise UsageError(f"universal_constant: expected 1 to {LARGEST_D} dimensions, got {d}; use the form by heights.")
    if d == 1:
        return 2.0
    K = np.geomspace(1.0, 40 * 2.0**d, THRESHOLDS)
    # The bound over sqrt(eps) grows with eps and the trivial one falls: the worst is where they meet, at c_D about 2.5 times
    # 2^D.
    low, high = (2 / (25 * 2.0**d)) ** 2, 1.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        if _by_threshold(d, middle, K).min() < (2 + middle) / math.sqrt(middle):
            low = middle
        else:
            high = middle
    return (2 + low) / math.sqrt(low)


def _by_threshold(d: int, epsilon: float, K: Array) -> Array:
    """The error over sqrt(eps), the worst over which level is the first thin one, for each threshold K sqrt(eps)."""
    if epsilon >= 1:
        return np.full(K.shape, np.inf)
    a, p, root = 3 + 1.5 * epsilon, 2 + epsilon, math.sqrt(epsilon)
    C = np.full(K.shape, (a + 1) / (1 - epsilon))
    over_height = np.full(K.shape, root)  # sqrt(eps) / h_j, at most: h_1 = 1, and 1 / K from then on
    R, moved, worst = np.full(K.shape, a), np.zeros(K.shape), np.zeros(K.shape)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for _ in range(1, d):
            R = R + 2 * C + (C * over_height) ** 2
            moved = moved + (C * over_height) ** 2
            worst = np.maximum(worst, np.sqrt(moved + (K + np.sqrt(K**2 + R + p - a)) ** 2))
            q = np.sqrt(1 - R / K**2)  # NaN where the induction stops
            C = R * (1 + 1 / (1 + q)) / q
            over_height = 1 / K
        worst = np.maximum(worst, np.sqrt(moved + (C * over_height) ** 2))
    result: Array = np.where(np.isfinite(worst), worst, np.inf)
    return result


# -- Theorem 1 and 3, A.4, A.5


def distortion(constant: float, other: float | None = None) -> float:
    """eta: two decoders with these constants 1 + L make the map between their latents an eta Delta near-isometry.

    Derived: the map is (1 + L)(1 + L')-bi-Lipschitz, globally where the support is convex, so eta = (1 + L)(1 + L') - 1;
    2 L + L^2 for equal ones.

    >>> distortion(1.1)
    0.2100...
    """
    for value in (constant, constant if other is None else other):
        if not value >= 1:
            raise UsageError(f"a bi-Lipschitz constant 1 + L is at least 1, got {value}.")
    return constant * (constant if other is None else other) - 1


def theorem_1(constant: float, d: int, diameter: float = 1.0, *, other: float | None = None) -> float:
    r"""Largest distance of two representations after the best rigid motion: c_D sqrt(2 L + L^2) Delta.

    Implements Theorem 1 (S), with c_D derived (`universal_constant`) where the paper's is lost. Assumes that
    reconstructions are identifiable, decoders are injective, smooth and locally (1 + L)-bi-Lipschitz (`constant` = 1 + L;
    `other` for the second decoder's), and the support is convex and compact with this diameter. Beyond L = 0.41, or where
    it is smaller, the trivial bound ((1 + L)^2 + 1) Delta. Worst case.

    >>> theorem_1(1.0, 8)
    0.0
    """
    eta = distortion(constant, other)
    _check_positive("diameter", diameter, zero=True)
    if 0 in (eta, diameter):
        return 0.0
    sharp = universal_constant(d) * math.sqrt(eta) if eta <= 1 else math.inf
    return min(sharp, 2 + eta) * diameter


def theorem_1_by_shape(
    constant: float, shape: NDArray[np.floating], diameter: float = 1.0, *, other: float | None = None
) -> float:
    """Theorem 1 with the heights of the actual support (`heights`) in place of the universal constant. Worst case.

    Derived. Linear in L where the support is wide in every direction.

    >>> theorem_1_by_shape(1.0, np.array([1.0, 0.5]))
    0.0
    """
    eta = distortion(constant, other)
    _check_positive("diameter", diameter, zero=True)
    if 0 in (eta, diameter):
        return 0.0
    return math.inf if math.isinf(eta) else near_isometry_error(shape, eta) * diameter


def theorem_3(generator: float, decoder: float, d: int, diameter: float = 1.0) -> float:
    r"""Largest distance of a representation to the true sources after the best rigid motion.

    Implements Theorem 3 (S) in its sharper derived form, c_D sqrt((1 + L)(1 + delta) - 1) Delta: the generator of the data
    is locally (1 + delta)-bi-Lipschitz (`generator`), the decoder (1 + L) (`decoder`). Worst case.
    """
    return theorem_1(generator, d, diameter, other=decoder)


def isometry_constant(deviation: float) -> float:
    """1 + L = 1 / (1 - e) of a decoder whose singular values all lie within e of 1.

    Implements A.4 (dynamical isometry) in its tight derived form; the paper's is (1 + e) / (1 - e).

    >>> isometry_constant(0.5)
    2.0
    """
    if not deviation >= 0:
        raise UsageError(f"deviation: expected at least 0, got {deviation}.")
    return 1 / (1 - deviation) if deviation < 1 else math.inf


def structural_to_statistical(epsilon: float, norm: float = 1.0) -> float:
    """2 C eps: two models within eps of the sources are so close to each other.

    Implements A.5 (derived). `norm` is C, the largest operator norm of the linear part of the map back; 1 for rigid maps
    and signed permutations. Worst case.
    """
    return 2 * norm * epsilon


# -- Theorem 2


@dataclass(frozen=True)
class Perturbation:
    """eps' = linear eps + square eps^2: what whitening and ICA make of a distance eps. Worst case.

    `whitening` is C_w of Lemma A.6 and `unmixing` kappa of Lemma A.8.
    """

    linear: float
    square: float
    whitening: float
    unmixing: float

    def __call__(self, epsilon: float) -> float:
        """eps' at this eps. Valid only where eps is small enough for the curvature to persist."""
        return self.linear * epsilon + self.square * epsilon**2 if epsilon else 0.0


def whitening_stability(size: float, variance: float) -> float:
    r"""C with || W_X X - W_Y Y || <= C eps for rows within eps of each other: lambda^(-1/2) (1 + Delta^2 / lambda).

    Implements Lemma A.5 (derived along the paper's proof). `size` bounds the norm of centred rows, `variance` is lambda,
    the smallest eigenvalue of either covariance. Worst case.

    >>> whitening_stability(2.0, 1.0)
    5.0
    """
    return rotation_stability(size, variance, 1.0, 1.0)


def rotation_stability(size: float, variance: float, smallest: float, largest: float) -> float:
    r"""C_w with || f_w - O f'_w || <= C_w eps when || f - A f' || <= eps: whitening leaves only a rotation O.

    Implements Lemma A.6 (derived; the printed form may be cruder): with the singular values of A between `smallest` and
    `largest`, lambda^(-1/2) [1 + (Delta^2 / lambda) smax (1 + smax) / (smin (1 + smin))]. Worst case.
    """
    _check_positive("size", size)
    _check_positive("variance", variance)
    _check_positive("smallest singular value", smallest)
    if largest < smallest:
        raise UsageError(f"singular values: the largest, {largest}, is below the smallest, {smallest}.")
    spread = largest * (1 + largest) / (smallest * (1 + smallest))
    return (1 + size**2 / variance * spread) / math.sqrt(variance)


def theorem_2(
    size: float,
    variance: float,
    margin: float,
    d: int,
    *,
    smallest: float = 1.0,
    largest: float = 1.0,
    slope: float = 1.0,
    bend: float = 1.0,
) -> Perturbation:
    r"""K and K' with eps' = K eps + K' eps^2 for the distance up to order and sign after whitening and ICA.

    Implements Theorem 2 (S) with constants derived from Lemmas A.5, A.6 and A.8: B = Delta / sqrt(lambda),
    kappa = (sqrt(d) L1 + B L2) / mu, K = C_w (1 + kappa B), K' = kappa C_w^2.

    Parameters
    ----------
    size, variance
        Delta, the largest norm of a centred row, and lambda, the smallest eigenvalue of the covariance.
    margin
        mu, the smallest curvature of the contrast over pairs: half of `Component.curvature` at its smallest. At 0 the
        bound is infinite.
    smallest, largest
        Singular values of the linear map between the two representations.
    slope, bend
        Bounds L1, L2 on |G'| and |G''|; 1 for log cosh.

    Worst case: in a trial a perturbation of 0.034 moved components by 0.043, and the bound was 5.9.
    """
    whitening = rotation_stability(size, variance, smallest, largest)
    if not margin >= 0:
        raise UsageError(f"margin: expected at least 0, got {margin}.")
    B = size / math.sqrt(variance)
    kappa = (math.sqrt(d) * slope + B * bend) / margin if margin > 0 else math.inf
    return Perturbation(whitening * (1 + kappa * B), kappa * whitening**2, whitening, kappa)


def theorem_2_of(
    rows: NDArray[np.floating], components: NDArray[np.floating], *, linear: NDArray[np.floating] | None = None
) -> Perturbation:
    """`theorem_2` for log cosh with every constant measured: on the rows, their resolved components, and the linear map.

    `components` are those of the rows (`ICA.transform`); `linear` maps the other representation to this one, and is left
    out where the two differ by a rotation. On a sample, so as near to worst case as the sample is to the support.

    >>> rng = np.random.default_rng(0)
    >>> U = rng.laplace(size=(2000, 2)) / np.sqrt(2)
    >>> found = theorem_2_of(U, U)
    >>> alone = whitening_stability(float(np.linalg.norm(U - U.mean(0), axis=1).max()),
    ...                             float(np.linalg.eigvalsh(np.cov(U.T, bias=True))[0]))
    >>> math.isclose(found.whitening, alone)
    True
    """
    X = np.asarray(rows, dtype=np.float64)
    if X.ndim != 2 or len(X) < 2 or not np.isfinite(X).all():
        raise DataError(f"theorem_2_of: expected at least two rows of finite numbers, got an array of shape {X.shape}.")
    centred = X - X.mean(axis=0)
    spectrum = np.linalg.eigvalsh(centred.T @ centred / len(X))
    variance = float(spectrum[0])
    if variance <= len(spectrum) * np.finfo(np.float64).eps * spectrum[-1]:
        raise DataError("theorem_2_of: the rows do not vary in every direction; leave those out first.")
    stretch = np.ones(1) if linear is None else np.linalg.svd(np.asarray(linear, dtype=np.float64), compute_uv=False)
    size = float(np.linalg.norm(centred, axis=1).max())
    margin = log_cosh_margin(components)
    return theorem_2(size, variance, margin, X.shape[1], smallest=float(stretch[-1]), largest=float(stretch[0]))


def log_cosh_margin(components: NDArray[np.floating]) -> float:
    """mu: the smallest curvature of the log cosh contrast over pairs of independent components, |s_a alpha_a + s_b alpha_b| / 2.

    Derived (below Theorem 2 in docs/theory.md): alpha = E G''(u) - E u G'(u), s the sign of E G(u) - E G(Gaussian); 0 for two
    Gaussians. Components are brought to mean 0 and variance 1.
    """
    U = np.asarray(components, dtype=np.float64)
    if U.ndim != 2 or U.shape[1] < 2 or len(U) < 2 or not np.isfinite(U).all() or not np.ptp(U, axis=0).all():
        raise DataError(
            f"components: expected at least two that vary, with finite values, got an array of shape {U.shape}."
        )
    U = (U - U.mean(axis=0)) / U.std(axis=0)
    slope = np.tanh(U)
    alpha = (1 - slope**2).mean(axis=0) - (U * slope).mean(axis=0)
    departure = (np.logaddexp(U, -U) - math.log(2)).mean(axis=0) - GAUSSIAN_LOG_COSH
    signed = np.where(departure < 0, -alpha, alpha)
    pairs = np.add.outer(signed, signed)[np.triu_indices(len(signed), 1)]
    return float(np.abs(pairs).min()) / 2


# -- A.6, the moving and growing square


@dataclass(frozen=True)
class SquareSpeeds:
    """Speeds of the mollified square as it moves and grows, and the constants that follow for a range of half-sides."""

    moving: float
    growing: float


def square_speeds(half_side: float, width: float) -> SquareSpeeds:
    r"""||d image / d position|| = 2 sqrt(r) k and ||d image / d r|| = sqrt(8 r) k, k = (2 s sqrt(pi))^(-1/2).

    Implements A.6 (derived, checked to 3 % at width 0.01; a third-party note quotes 2 r for the first, with a root
    probably lost). `half_side` is r, `width` the standard deviation s of the blur, both small beside the image.

    >>> speeds = square_speeds(0.2, 0.01)
    >>> round(speeds.growing / speeds.moving, 4)
    1.4142
    """
    _check_positive("half_side", half_side)
    _check_positive("width", width)
    k = (2 * width * math.sqrt(math.pi)) ** -0.5
    return SquareSpeeds(2 * math.sqrt(half_side) * k, math.sqrt(8 * half_side) * k)


def square_constant(smallest: float, largest: float) -> float:
    """1 + L = (r_max / r_min)^(1/4) of the square with half-sides in this range, r rescaled by sqrt(2), after the best scale.

    Implements A.6 (derived): there the map is conformal with factor 2 sqrt(r) k.

    >>> square_constant(0.1, 0.1)
    1.0
    """
    _check_positive("smallest half-side", smallest)
    if largest < smallest:
        raise UsageError(f"half-sides: the largest, {largest}, is below the smallest, {smallest}.")
    return float((largest / smallest) ** 0.25)


def _check_positive(name: str, value: float, *, zero: bool = False) -> None:
    if not (value > 0 or (zero and value == 0)) or math.isnan(value):
        raise UsageError(f"{name}: expected a number {'of at least' if zero else 'above'} 0, got {value}.")


def _check_heights(h: Array) -> None:
    if h.ndim != 1 or len(h) < 1 or not np.isfinite(h).all() or abs(h[0] - 1) > 1e-9 or np.any(h < 0):
        raise DataError("heights: expected finite numbers from 1 downwards, as `heights` gives them.")
    if np.any(np.diff(h) > 1e-9):
        raise DataError("heights: each must be at most the one before, as a greedy choice gives them.")
