"""Data with a known answer: independent sources of known laws, mixed by a known map.

Tests and benchmarks measure an estimate against these. Rows are made in fixed blocks with seeds of their own, so a
world does not depend on the number of threads, and a shorter world is the beginning of a longer one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from identifiable._checks import UsageError, check_matrix_shape
from identifiable.blocks import in_threads
from identifiable.groups import AffineMap, haar_rotation
from identifiable.moments import Array
from identifiable.options.experiments import Kind as Kind
from identifiable.run import Run

Family = Literal["generalised_gaussian", "student_t", "scale_mixture", "gamma", "gaussian"]
Values = NDArray[np.floating[Any]]

KINDS: tuple[Kind, ...] = get_args(Kind)
MIX: dict[Kind, float] = {"super": 0.65, "sub": 0.15, "near_gaussian": 0.20}  # shares of the sources by default
BLOCK = 4096  # rows with one seed; changing it changes every world
RARE = 0.15  # of the samples of a scale mixture come from the wide Gaussian


@dataclass(frozen=True)
class Law:
    """The distribution of one source, with mean 0 and variance 1.

    family                 shape
    generalised_gaussian   p of the density exp(-|x|^p): 1 Laplace, 2 Gaussian, infinity uniform
    student_t              degrees of freedom
    scale_mixture          how many times wider the rare Gaussian is
    gamma                  its shape; skewed to the right
    gaussian               no shape
    """

    kind: Kind
    family: Family
    shape: float = math.nan

    @property
    def kurtosis(self) -> float:
        """Fourth moment minus 3; infinite for Student's t with at most 4 degrees of freedom."""
        a = self.shape
        match self.family:
            case "generalised_gaussian":
                return math.gamma(5 / a) * math.gamma(1 / a) / math.gamma(3 / a) ** 2 - 3
            case "student_t":
                return 6 / (a - 4) if a > 4 else math.inf
            case "scale_mixture":
                return 3 * ((1 - RARE + RARE * a**4) / (1 - RARE + RARE * a**2) ** 2 - 1)
            case "gamma":
                return 6 / a
            case "gaussian":
                return 0.0

    @property
    def skew(self) -> float:
        """Third moment; 0 but for the gamma law."""
        return 2 / math.sqrt(self.shape) if self.family == "gamma" else 0.0

    def draw(self, n: int, rng: np.random.Generator, dtype: DTypeLike = np.float64) -> Values:
        """n independent samples."""
        real: Any = np.dtype(dtype)
        a = self.shape
        x: Values
        match self.family:
            case "generalised_gaussian":
                # |x|^p is gamma(1/p); gamma(1/p) = gamma(1 + 1/p) U^p makes x the product of two plain draws.
                x = rng.standard_gamma(1 + 1 / a, n, dtype=real) ** real.type(1 / a)
                x *= 2 * rng.random(n, dtype=real) - 1
                x *= math.sqrt(math.gamma(1 / a) / math.gamma(3 / a))
            case "student_t":
                x = rng.standard_normal(n, dtype=real)
                x *= math.sqrt(a / 2 - 1)  # the deviation a / (a - 2) of t, and chi2(a) = 2 gamma(a / 2)
                x /= np.sqrt(rng.standard_gamma(a / 2, n, dtype=real))
            case "scale_mixture":
                x = rng.standard_normal(n, dtype=real)
                x[rng.random(n, dtype=real) < RARE] *= a
                x /= math.sqrt(1 - RARE + RARE * a**2)
            case "gamma":
                x = rng.standard_gamma(a, n, dtype=real)
                x -= a
                x /= math.sqrt(a)
            case "gaussian":
                x = rng.standard_normal(n, dtype=real)
        return x


def random_law(kind: Kind, rng: np.random.Generator) -> Law:
    """A law of this kind with a random family and shape.

    >>> random_law("sub", np.random.default_rng(0)).kurtosis < 0
    True
    """
    match kind:
        case "super":
            families: tuple[Family, ...] = ("generalised_gaussian", "student_t", "scale_mixture")
            family = families[rng.integers(len(families))]
            low, high = {"generalised_gaussian": (0.7, 1.2), "student_t": (3.0, 6.0), "scale_mixture": (2.5, 5.0)}[
                family
            ]
            return Law(kind, family, float(rng.uniform(low, high)))
        case "sub":
            return Law(kind, "generalised_gaussian", float(rng.uniform(4.0, 10.0)))
        case "near_gaussian":
            return Law(kind, "generalised_gaussian", float(rng.uniform(1.4, 1.8)))
        case "skewed":
            return Law(kind, "gamma", float(rng.uniform(1.0, 6.0)))
        case "gaussian":
            return Law(kind, "gaussian")


@dataclass(frozen=True, eq=False)
class SourceWorld:
    """Rows `X` made of `sources`, one law per column, by the map `mixing`.

    With S the sources and R a random rotation, ``X = mixing(S + nonlinearity * tanh(S @ R))``: at nonlinearity 0 the
    sources are the answer, above it they depend on each other a little.
    """

    sources: Values
    X: Values
    mixing: AffineMap
    laws: tuple[Law, ...]
    nonlinearity: float

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(law.kind for law in self.laws)

    def of_kind(self, *kinds: Kind) -> NDArray[np.intp]:
        """The columns of the sources of these kinds."""
        return np.flatnonzero([law.kind in kinds for law in self.laws])

    def recovery(self, to_components: AffineMap) -> Array:
        """For each source |correlation| with the component it is matched to (Hungarian); 0 if there is none left."""
        return recovery(self.sources, self.X, to_components)


def sources(
    n: int,
    d: int,
    *,
    rng: np.random.Generator,
    kinds: Kind | Sequence[Kind] | Mapping[Kind, float] | None = None,
    nonlinearity: float = 0.0,
    decades: float = 4.0,
    offset: float = 1.0,
    dtype: DTypeLike = np.float32,
    out: tuple[Values, Values] | None = None,
    workers: int | None = None,
) -> SourceWorld:
    """A world of n rows and d independent sources. Ours.

    Parameters
    ----------
    kinds
        One kind for all sources, one for each, or the share of each kind, in random order. Without it 65 % are
        super-Gaussian (generalised Gaussian, Student's t, scale mixtures), 15 % sub-Gaussian and 20 % nearly Gaussian.
    decades
        of variance between the first and the last principal component of `X`; the singular values of the mixing fall
        from 1 to ``10 ** (-decades / 2)`` in equal ratios.
    offset
        Standard deviation of the column means, relative to the typical standard deviation of a column.
    out
        Arrays ``(sources, X)`` to fill, block by block, in place of new ones: memory maps from
        ``numpy.lib.format.open_memmap`` for a world larger than memory.

    >>> world = sources(1000, 3, rng=np.random.default_rng(0), kinds=("super", "sub", "gaussian"))
    >>> world.X.shape, world.kinds
    ((1000, 3), ('super', 'sub', 'gaussian'))
    """
    n, d = check_matrix_shape((n, d), "sources")
    if nonlinearity < 0 or decades < 0 or offset < 0:
        raise UsageError(
            "sources: expected nonlinearity, decades and offset of at least 0, "
            f"got {nonlinearity}, {decades} and {offset}; pass 0 to leave one out."
        )
    seed = [int(word) for word in rng.integers(2**63, size=2)]
    laws = tuple(random_law(kind, rng) for kind in _kinds(kinds, d, rng))
    spread = np.logspace(0, -decades / 2, d) if d > 1 else np.ones(1)
    size = math.sqrt(np.sum(spread**2) / d)  # root mean square of the standard deviations of the columns
    mixing = AffineMap(haar_rotation(d, rng) * spread @ haar_rotation(d, rng), offset * size * rng.standard_normal(d))
    bend = haar_rotation(d, rng)
    S, X = (np.empty((n, d), dtype), np.empty((n, d), dtype)) if out is None else out
    _check_out(S, X, (n, d))
    A, b, R = (m.astype(S.dtype) for m in (mixing.matrix, mixing.offset, bend))

    def fill(k: int) -> None:
        part = slice(k * BLOCK, min((k + 1) * BLOCK, n))
        rows = part.stop - part.start
        S[part] = _block(laws, np.random.default_rng([*seed, k]), S.dtype)[:, :rows].T
        bent = S[part] + S.dtype.type(nonlinearity) * np.tanh(S[part] @ R) if nonlinearity else S[part]
        X[part] = bent @ A + b

    in_threads(fill, range(-(-n // BLOCK)), Run(workers=workers))
    return SourceWorld(S, X, mixing, laws, nonlinearity)


def recovery(truth: Values, X: Values, to_components: AffineMap) -> Array:
    """For each source |correlation| with the component it is matched to (Hungarian); 0 if there is none left.

    Reads the rows in blocks, so both tables may be memory maps.

    >>> world = sources(500, 2, rng=np.random.default_rng(1))
    >>> recovery(world.sources, world.X, world.mixing.inverse()).round(4).tolist()
    [1.0, 1.0]
    """
    from scipy.optimize import linear_sum_assignment

    k, d = to_components.matrix.shape[1], truth.shape[1]
    shift = np.asarray(to_components(X[:BLOCK])).mean(axis=0)
    total, scatter, n = np.zeros(d + k), np.zeros((d + k, d + k)), len(X)
    for a in range(0, n, BLOCK):
        both = np.hstack([np.asarray(truth[a : a + BLOCK], np.float64), to_components(X[a : a + BLOCK]) - shift])
        total += both.sum(axis=0)
        scatter += both.T @ both
    scatter -= np.outer(total, total) / n
    deviation = np.sqrt(np.maximum(np.diag(scatter), np.finfo(float).tiny))
    correlation = (scatter / np.outer(deviation, deviation))[:d, d:]
    found = np.zeros(d)
    rows, columns = linear_sum_assignment(-np.abs(correlation))
    found[rows] = np.abs(correlation[rows, columns])
    return found


def _block(laws: Sequence[Law], rng: np.random.Generator, dtype: np.dtype[Any]) -> Values:
    """One whole block of samples, a row for each law: whole even at the end, so that a longer world goes on."""
    block = np.empty((len(laws), BLOCK), dtype)
    for row, law in zip(block, laws, strict=True):
        row[:] = law.draw(BLOCK, rng, dtype)
    return block


def _kinds(kinds: Kind | Sequence[Kind] | Mapping[Kind, float] | None, d: int, rng: np.random.Generator) -> list[Kind]:
    if kinds is None or isinstance(kinds, Mapping):
        shares = MIX if kinds is None else kinds
        if min(shares.values(), default=-1.0) < 0 or not math.isclose(sum(shares.values()), 1, abs_tol=1e-9):
            raise UsageError(
                f"sources: expected shares of kinds that are at least 0 and add up to 1, got {dict(shares)}."
            )
        names = list(shares)
        ends = np.rint(np.cumsum([shares[name] for name in names]) * d).astype(int)
        each = [name for name, m in zip(names, np.diff(ends, prepend=0), strict=True) for _ in range(m)]
        kinds = [each[i] for i in rng.permutation(d)]
    chosen: list[Kind] = [kinds] * d if isinstance(kinds, str) else list(kinds)
    if unknown := [kind for kind in chosen if kind not in KINDS]:
        raise UsageError(f"sources: unknown kind {unknown[0]!r}; choose from {', '.join(KINDS)}.")
    if len(chosen) != d:
        raise UsageError(
            f"sources: expected one kind for each of {d} sources, got {len(chosen)}; pass one for all or {d}."
        )
    return chosen


def _check_out(S: Values, X: Values, shape: tuple[int, int]) -> None:
    """Refuse arrays to fill that do not fit, before any row is made."""
    for name, array in (("sources", S), ("X", X)):
        if array.shape != shape or array.dtype not in (np.float32, np.float64):
            raise UsageError(
                f"sources: the array given for {name} must be float32 or float64 of shape {shape}, "
                f"got {array.dtype} of shape {array.shape}; make it with that shape and dtype."
            )
    if S.dtype != X.dtype:
        raise UsageError(
            f"sources: both arrays in `out` must have one dtype, got {S.dtype} and {X.dtype}; make them alike."
        )
