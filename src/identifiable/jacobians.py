r"""Jacobian spectra of a decoder: how much it stretches and shrinks, point by point, and what that says of its constant.

A decoder g is locally (1 + L)-bi-Lipschitz at z with 1 + L = max(sigma_max, 1 / sigma_min) of its Jacobian J(z)
(Definition A.5 of S, derived in A.4). The Jacobian is only ever multiplied: ``jvp(z, v)`` gives J(z_i) v_i for every
row, from any framework (`identifiable.nn.products` for torch), and no more than `MEMORY` of it is held at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.blocks import one_blas_thread, silent
from identifiable.moments import Array

Values = NDArray[np.floating[Any]]
Product = Callable[[Values, Values], Values]
"""``jvp(z, v)``, rows J(z_i) v_i; or ``vjp(z, u)``, rows J(z_i)^T u_i. Outputs may have any shape after the first axis."""


@dataclass(frozen=True, eq=False)
class Products:
    """What is known of a decoder's Jacobian: its products with directions, and with outputs where there is a `vjp`.

    `all_directions` gives J(z)^T of a chunk of points whole, (points, latents, outputs), for a framework that has a
    faster way than one product for every latent.
    """

    jvp: Product
    vjp: Product | None = None
    all_directions: Callable[[Values], Values] | None = None

    def outputs(self, z: Values) -> int:
        """How many numbers the decoder gives at a point."""
        return int(_flat(self.jvp(z[:1], _unit(1, z.shape[1], 0, z.dtype)), 1).shape[1])

    def jacobian(self, z: Values) -> Values:
        """J^T at every point, (points, latents, outputs)."""
        n, d = z.shape
        if self.all_directions is not None:
            return _flat(self.all_directions(z), n).reshape(n, d, -1)
        return np.stack([_flat(self.jvp(z, _unit(n, d, k, z.dtype)), n) for k in range(d)], axis=1)


# Bytes of Jacobian held at once. A convolutional decoder's activations are several times as many; with 2**26 it
# took 1.6 times the CPU and twice the memory (12 and 64 latents, one thread).
MEMORY = 2**24
CONVERTED = 2**22  # bytes of it in float64 at once
EXACT_UP_TO = 512  # latents; beyond, extreme singular values by Lanczos where a vjp is given
LANCZOS_STEPS = 200
LANCZOS_TOLERANCE = 1e-6  # relative residual of an eigenvalue of J^T J at which the iteration ends
SQUARED_DOWN_TO = 1e-3  # sigma_min / sigma_max from which on J^T J gives sigma_min to 1e-9
EXHAUSTED = 4.0  # times eps sqrt(latents) of the largest: what is left by orthogonalising when nothing is
ROUNDING = 4.0  # times eps sqrt(latents): sigma_min / sigma_max below which a direction counts as lost
RANDOM_DIRECTIONS = 10  # A.7.1
TAIL = 0.1  # share of the points the extreme-value fit sees
LEAST_TAIL = 20
DRAWS = 500


@dataclass(frozen=True, eq=False)
class Spectra:
    """Extreme singular values of a decoder's Jacobian at every point.

    `smallest_error` and `largest_error` bound the distance to a true singular value of J (0 where the spectrum is exact);
    `log_volume` is the sum of their logarithms (NaN where only the extremes were computed). A point where the decoder
    has no finite derivative holds NaN; one where it loses a direction holds 0.
    """

    smallest: Array
    largest: Array
    log_volume: Array
    smallest_error: Array
    largest_error: Array
    latents: int
    method: Literal["exact", "lanczos"]

    @cached_property
    def constant(self) -> Array:
        """1 + L = max(sigma_max, 1 / sigma_min); infinite where a direction is lost."""
        with np.errstate(divide="ignore"):
            result: Array = np.maximum(self.largest, 1 / self.smallest)
        return result

    @cached_property
    def condition(self) -> Array:
        """sigma_max / sigma_min: what a global scale cannot change."""
        with np.errstate(divide="ignore", invalid="ignore"):
            result: Array = np.where(self.smallest > 0, self.largest / self.smallest, self.largest * math.inf)
        return result

    @property
    def defined(self) -> NDArray[np.bool_]:
        """Where the decoder has a finite derivative."""
        return np.isfinite(self.largest)

    @property
    def deficient(self) -> NDArray[np.bool_]:
        """Where it loses a direction, as far as the rounding of its products lets one see."""
        return np.asarray(self.smallest == 0)

    def rescaled(self, scale: float) -> Spectra:
        """Those of the decoder times `scale`."""
        if not 0 < scale < math.inf:
            raise UsageError(f"scale: expected a positive number, got {scale}.")
        return replace(
            self,
            smallest=self.smallest * scale,
            largest=self.largest * scale,
            log_volume=self.log_volume + self.latents * math.log(scale),
            smallest_error=self.smallest_error * scale,
            largest_error=self.largest_error * scale,
        )

    @property
    def best_scale(self) -> float:
        """The factor by which to multiply the decoder for the smallest constant over all points: 1 / sqrt(sup inf).

        Ours (derived). The constant is then the square root of the largest sigma_max over the smallest sigma_min.
        """
        low, high = self._extremes
        return 1 / math.sqrt(low * high) if low > 0 else math.nan

    @property
    def best_constant(self) -> float:
        """1 + L over all points after the best global scale."""
        low, high = self._extremes
        return math.sqrt(high / low) if low > 0 else math.inf

    @property
    def _extremes(self) -> tuple[float, float]:
        if not self.defined.any():
            return math.nan, math.nan
        return float(self.smallest[self.defined].min()), float(self.largest[self.defined].max())


def spectra(products: Products | Product, points: Values, *, memory: int = MEMORY) -> Spectra:
    r"""Singular values of J(z) at every point: exact from J^T J, or the extremes by Lanczos where there are many latents.

    Ours. Up to `EXACT_UP_TO` latents, J^T J is put together from one product for every latent, in float64, and
    decomposed; where it is ill-conditioned, J itself is. With more
    latents, where `products` has a vjp, Lanczos with full reorthogonalisation on J^T J until the residual of both ends is below
    `LANCZOS_TOLERANCE`; what is left of it is reported as an error. Without a vjp it stays exact, at d products. A
    function ``jvp(z, v)`` alone is enough.

    >>> def double(z, v):
    ...     return 2 * v
    >>> spectra(double, np.zeros((2, 3))).constant
    array([2., 2.])
    """
    Z = _points(points)
    d = Z.shape[1]
    known = products if isinstance(products, Products) else Products(products)
    method: Literal["exact", "lanczos"]
    if d <= EXACT_UP_TO or known.vjp is None:
        held = 8 * d * max(known.outputs(Z), 1)
        parts, method = [_exact(known.jacobian(part)) for part in _chunks(Z, memory // held)], "exact"
    else:
        held = 8 * d * LANCZOS_STEPS
        parts, method = [_lanczos(known.jvp, known.vjp, part) for part in _chunks(Z, memory // held)], "lanczos"
    smallest, largest, volume, low_error, high_error = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Spectra(smallest, largest, volume, low_error, high_error, d, method)


def random_directions(
    products: Products | Product, points: Values, *, directions: int = RANDOM_DIRECTIONS, rng: np.random.Generator
) -> Array:
    r"""The paper's estimate at every point: max over random unit v of max(|J v|, 1 / |J v|).

    Implements A.7.1 (reconstructed from its sentence). A lower bound on the constant: 10 directions found a third to
    two thirds of it with few latents, and a tenth with 50.

    >>> random_directions(lambda z, v: 2 * v, np.zeros((1, 3)), rng=np.random.default_rng(0))
    array([2.])
    """
    Z = _points(points)
    if directions < 1:
        raise UsageError(f"directions: expected at least 1, got {directions}.")
    jvp = products.jvp if isinstance(products, Products) else products
    found = np.zeros(len(Z))
    for _ in range(directions):
        v = rng.standard_normal(Z.shape)
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        size = np.linalg.norm(_flat(jvp(Z, v.astype(Z.dtype)), len(Z)).astype(np.float64), axis=1)
        with np.errstate(divide="ignore"):
            found = np.maximum(found, np.maximum(size, 1 / size))
    return found


# -- exact


def _exact(jacobian: Values) -> tuple[Array, ...]:
    n, d = jacobian.shape[:2]
    rounding = float(np.finfo(jacobian.dtype).eps)
    gram = _grams(jacobian)
    ok = np.isfinite(gram).all(axis=(1, 2))
    sigma = np.full((n, d), np.nan)
    if ok.any():
        sigma[ok] = np.sqrt(np.linalg.eigvalsh(gram[ok]).clip(0))
    # Squaring doubles the digits that cancel; where that would show, J itself is decomposed, which takes longer.
    for i in np.flatnonzero(ok & (sigma[:, 0] < SQUARED_DOWN_TO * sigma[:, -1])):
        values = np.linalg.svd(jacobian[i].astype(np.float64), compute_uv=False)[::-1]
        sigma[i] = np.concatenate([np.zeros(d - len(values)), values])
    smallest, largest = sigma[:, 0].copy(), sigma[:, -1]
    smallest[smallest <= _lost(d, rounding) * largest] = 0.0
    with np.errstate(divide="ignore"):
        volume = np.log(np.where(smallest[:, None] == 0, 0.0, sigma)).sum(axis=1)
    none = np.zeros(n)
    return smallest, largest, volume, none, none


def _grams(jacobian: Values) -> Array:
    """J^T J at every point, in float64, which only a few points' Jacobians are ever in.

    With one thread of BLAS: its threads and those of the decoder's framework wait for each other by spinning, which made
    these small products up to a hundred times dearer on two busy cores.
    """
    n, d, outputs = jacobian.shape
    gram = np.empty((n, d, d))
    step = max(CONVERTED // max(8 * d * outputs, 1), 1)
    with one_blas_thread(), silent():
        for a in range(0, n, step):
            J = jacobian[a : a + step].astype(np.float64, order="C")
            np.matmul(J, J.transpose(0, 2, 1), out=gram[a : a + step])
    return gram


def _lost(d: int, rounding: float) -> float:
    """sigma_min over sigma_max that rounding alone could make."""
    return ROUNDING * rounding * math.sqrt(d)


# -- Lanczos


def _lanczos(jvp: Product, vjp: Product, Z: Values) -> tuple[Array, ...]:
    """Extreme singular values at every point of a chunk, by Lanczos on J^T J, with what is left open.

    A singular value is |J v| of the Ritz vector v, and not the root of the Ritz value: squaring would lose half the digits
    of a small one. Its error is from the residual of v, the rounding of the products included.
    """
    n, d = Z.shape
    steps = min(LANCZOS_STEPS, d)
    rng = np.random.default_rng(0)  # where the iteration starts; the residual bounds what that can do
    q = rng.standard_normal((n, d))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    basis = np.zeros((n, steps, d))
    alpha, beta = np.zeros((n, steps)), np.zeros((n, steps))
    rounding = float(np.finfo(Z.dtype).eps)
    for k in range(steps):
        basis[:, k] = q
        exhausted = beta[:, k - 1] == 0 if k else np.zeros(n, bool)
        image = jvp(Z, q.astype(Z.dtype))
        rounding = max(rounding, float(np.finfo(image.dtype).eps))
        w = _flat(vjp(Z, image), n).astype(np.float64)
        alpha[:, k] = np.where(exhausted, alpha[:, 0], np.einsum("ij,ij->i", q, w))
        for _ in range(2):  # twice is enough
            w -= np.einsum("ikj,ik->ij", basis[:, : k + 1], np.einsum("ikj,ij->ik", basis[:, : k + 1], w))
        beta[:, k] = np.linalg.norm(w, axis=1)
        # Where what is left is rounding, no other singular value is to be found (an isometry has but one): the rest of T repeats
        # an entry between the extremes.
        noise = (
            EXHAUSTED
            * rounding
            * math.sqrt(d)
            * np.maximum(alpha[:, : k + 1].max(axis=1), beta[:, : k + 1].max(axis=1))
        )
        beta[exhausted | (beta[:, k] <= noise), k] = 0.0
        done = k + 1 == steps
        if done or k % 10 == 9:
            low, high = _ritz(alpha[:, : k + 1], beta[:, : k + 1])
            floor = rounding * high.value
            open_ends = [np.maximum(end.residual - floor, 0) / np.maximum(end.value, 1e-300) for end in (low, high)]
            if done or not np.nanmax(open_ends, initial=0.0) > LANCZOS_TOLERANCE:
                break
        with np.errstate(invalid="ignore", divide="ignore"):
            q = np.where(beta[:, k : k + 1] > 0, w / beta[:, k : k + 1], 0.0)
    found = []
    for end in (low, high):
        v = np.einsum("ik,ikj->ij", end.weights, basis[:, : k + 1])
        # Where all singular values are one, the vector may lie in the part of T that repeats it; any other then serves.
        lengths = np.linalg.norm(v, axis=1, keepdims=True)
        v = np.where(lengths > 1e-6, v / np.maximum(lengths, 1e-6), basis[:, 0])
        sigma = np.linalg.norm(_flat(jvp(Z, v.astype(Z.dtype)), n).astype(np.float64), axis=1)
        found.append((sigma, end.error(sigma**2, floor)))
    (smallest, low_error), (largest, high_error) = found
    smallest[smallest <= _lost(d, rounding) * largest] = 0.0
    unsure = rounding * largest  # of a product with a unit vector
    return smallest, largest, np.full(n, np.nan), low_error + unsure, high_error + unsure


@dataclass(frozen=True, eq=False)
class _End:
    """One end of the spectra of J^T J in a chunk: Ritz value, its vector in the basis, residual, distance to the next value."""

    value: Array
    weights: Array
    residual: Array
    gap: Array

    def error(self, square: Array, floor: Array) -> Array:
        """How far an eigenvalue's root may be from the root of `square`.

        An eigenvalue lies within the residual, and within residual^2 / gap where the others keep their distance (Kato and
        Temple).
        """
        left = self.residual + floor
        with np.errstate(invalid="ignore", divide="ignore"):
            left = np.where(self.gap > left, left**2 / self.gap, left)
            root = np.sqrt(square)
            error: Array = np.maximum(np.sqrt(square + left) - root, root - np.sqrt((square - left).clip(0)))
        return error


def _ritz(alpha: Array, beta: Array) -> tuple[_End, _End]:
    """The lower and the upper end, from the tridiagonal matrices of a chunk."""
    n, k = alpha.shape
    T = np.zeros((n, k, k))
    at = np.arange(k)
    T[:, at, at] = alpha
    T[:, at[:-1], at[1:]] = T[:, at[1:], at[:-1]] = beta[:, :-1]
    ok = np.isfinite(T).all(axis=(1, 2))
    values, vectors = np.full((n, k), np.nan), np.full((n, k, k), np.nan)
    if ok.any():
        values[ok], vectors[ok] = np.linalg.eigh(T[ok])
    left = np.abs(beta[:, -1:] * vectors[:, -1, :])
    second = min(1, k - 1)
    gaps = (
        values[:, second] - values[:, 0] - left[:, second],
        values[:, -1] - values[:, -1 - second] - left[:, -1 - second],
    )
    return (
        _End(values[:, 0], vectors[:, :, 0], left[:, 0], gaps[0]),
        _End(values[:, -1], vectors[:, :, -1], left[:, -1], gaps[1]),
    )


# -- the supremum


@dataclass(frozen=True)
class Supremum:
    """The largest constant anywhere on the support, extrapolated from a sample: an estimate with its 95 % interval.

    `shape` is that of the generalised Pareto law fitted to the logarithms of the largest constants; from 0 on the sample
    does not say that there is a largest one, and the estimate is infinite.
    """

    estimate: float
    low: float
    high: float
    shape: float
    seen: float
    n_tail: int


def supremum(constants: Array, *, rng: np.random.Generator, tail: float = TAIL) -> Supremum | None:
    """The supremum of the constant over the support, by extreme-value theory; None with fewer than 200 points.

    Ours: the upper tail of log(1 + L) by probability-weighted moments (Hosking and Wallis 1987), the end point of the
    fitted law, and a parametric bootstrap of it. Never below the largest constant seen. It assumes that points are
    independent draws of the law the support is meant for.

    >>> rng = np.random.default_rng(0)
    >>> found = supremum(np.exp(rng.uniform(0, 1, 5000)), rng=rng)
    >>> found.low <= np.e <= found.high
    True
    """
    values = np.asarray(constants, dtype=np.float64)
    values = values[~np.isnan(values)]
    if np.isinf(values).any():
        return Supremum(math.inf, math.inf, math.inf, math.inf, math.inf, 0)
    k = max(LEAST_TAIL, round(tail * len(values)))
    if len(values) < 10 * LEAST_TAIL:
        return None
    logs = np.sort(np.log(values))
    threshold, excess = logs[-k - 1], logs[-k:] - logs[-k - 1]
    seen = float(logs[-1])
    if excess[-1] <= 1e-12 * max(1.0, abs(seen)):  # all alike: an isometry, or a linear decoder
        top = float(np.exp(seen))
        return Supremum(top, top, top, -math.inf, top, k)
    shape, scale = _pareto(excess)

    def end(shape: float, scale: float) -> float:
        return max(threshold + scale / -shape, seen) if shape < 0 else math.inf

    ends = []
    for _ in range(DRAWS):
        u = rng.random(k)
        draw = -scale * np.log(u) if abs(shape) < 1e-12 else scale * (u**-shape - 1) / shape
        again = _pareto(np.sort(draw))
        ends.append(end(*again))
    low, high = (float(np.quantile(ends, q, method="nearest")) for q in (0.025, 0.975))
    return Supremum(_exp(end(shape, scale)), _exp(low), _exp(high), shape, float(np.exp(seen)), k)


def _pareto(excess: Array) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto law, from sorted excesses, by probability-weighted moments."""
    n = len(excess)
    rank = np.arange(1, n + 1)
    mean = float(excess.mean())
    weighted = float((excess * (1 - (rank - 0.35) / n)).mean())
    if mean <= 2 * weighted:
        return math.inf, mean
    shape = 2 - mean / (mean - 2 * weighted)
    return shape, 2 * mean * weighted / (mean - 2 * weighted)


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


# -- small


def _points(points: Values) -> Values:
    Z = np.asarray(points)
    if Z.ndim != 2 or Z.dtype.kind != "f" or min(Z.shape) < 1:
        raise DataError(f"points: expected rows of floating-point latents, got {Z.dtype} of shape {Z.shape}.")
    bad = ~np.isfinite(Z).all(axis=1)
    if bad.any():
        raise DataError(f"points: row {int(np.argmax(bad))} is not finite; drop such rows first.")
    return Z


def _unit(n: int, d: int, k: int, dtype: np.dtype[Any]) -> Values:
    v = np.zeros((n, d), dtype)
    v[:, k] = 1
    return v


def _flat(product: Values, n: int) -> Values:
    result = np.asarray(product)
    if result.shape[:1] != (n,) or result.dtype.kind != "f":
        raise DataError(
            f"jvp: expected {n} rows of floating-point numbers, one for each point, got {result.dtype} of shape {result.shape}."
        )
    return result.reshape(n, -1)


def _chunks(Z: Values, rows: int) -> Iterator[Values]:
    for a in range(0, len(Z), max(rows, 1)):
        yield Z[a : a + max(rows, 1)]
