"""How many factors the leak shows, and whether that can be relied on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, Self

import numpy as np

from identifiable.mechanistic.exact import Indices
from identifiable.mechanistic.operator import (
    Spectrum,
    Split,
    local_spectrum,
    nearest_vertex,
    spectrum,
    split,
    subspaces,
)
from identifiable.moments import Array

Form = Literal["outputs", "rows", "local", "scaled"]

# Chosen on blocks of Gaussian, uniform and Student entries, of tanh networks and of bumps on a line, on the slot world and on sprites,
# with 0 to 20 % of noise; shown on other families and seeds by benchmarks/mechanisms.py.
SOFTNESS = 0.5  # added to a leak before ratios are taken: between the ratio of leaks (0) and their difference (large)
REAL = 0.6  # leak_K over what it is without a K-th factor: above it, the K-th factor is none
SEPARATED = 0.3  # leak_K over leak_{K+1}, and over what leak_K is without a K-th factor, for an answer that is certain
EXPLAINED = 0.8  # leak_{K+1} over what it is if the K factors are all there is, for an answer that is certain
EXPLAINED_ONE = 0.85  # the same for K = 1, which no other number supports
EXPLAINED_ELSEWHERE = (
    0.6  # the same for K = 1 in the other forms, which see less (K > 1 in noise had .75 at most, half of it .45)
)
AGREED = 0.8  # share of resamples that find the same number, and of single points that do not find fewer
RESAMPLES = 10
DRAWS = 3  # of the null
LEAST_POINTS = 5  # to resample points; with fewer, outputs are left out
LEFT_OUT = 0.15
FEW = 4  # live rows for each latent, below which rows of one dense factor split by chance
EMPTY = 1e-9  # a squared singular value of a resample below which it has lost a direction


class View(Protocol):
    """The rows in one form: what it takes to count their factors."""

    @property
    def form(self) -> Form: ...
    @property
    def n_points(self) -> int: ...
    def spectrum(self) -> Spectrum: ...
    def split(self, found: Spectrum, n_factors: int) -> Split: ...
    def turned(self, parts: Split, rng: np.random.Generator) -> Self | None: ...
    def resampled(self, rng: np.random.Generator) -> Self | None: ...


@dataclass(frozen=True, eq=False)
class Stacked:
    """Whitened rows of all points together; `nodes` are their outputs, which have owners in the form of that name."""

    white: Array
    nodes: Indices
    points: Indices
    outputs: Indices
    form: Form
    n_points: int

    @property
    def _groups(self) -> Indices | None:
        return None if self.form == "rows" else self.nodes

    def spectrum(self) -> Spectrum:
        return spectrum(self.white, self._groups)

    def split(self, found: Spectrum, n_factors: int) -> Split:
        return split(self.white, found, n_factors, self._groups)

    def turned(self, parts: Split, rng: np.random.Generator) -> Self | None:
        turned = np.zeros_like(self.white)
        of = parts.owners if self.form == "rows" else parts.owners[self.nodes]
        ends = np.cumsum(parts.dimensions)
        sizes = np.bincount(self.nodes, (self.white**2).sum(axis=1))
        place = np.argsort(np.argsort(sizes, kind="stable"))  # the order of the outputs does not matter
        for k, (basis, size, end) in enumerate(zip(parts.parts, parts.dimensions, ends, strict=True)):
            mine = of == k
            turns = _rotations(len(sizes), size, rng)[place[self.nodes[mine]]]
            turned[mine, end - size : end] = np.einsum("ri,rij->rj", _upright(self.white[mine] @ basis), turns)
        return self._with(turned, self.nodes, self.points, self.outputs)

    def resampled(self, rng: np.random.Generator) -> Self | None:
        if self.n_points >= LEAST_POINTS:
            times = np.bincount(rng.integers(0, self.n_points, self.n_points), minlength=self.n_points)[self.points]
        else:
            times = _kept(self.outputs, rng)[self.outputs].astype(np.intp)
        chosen = np.flatnonzero(times)
        nodes = np.unique(self.nodes[chosen], return_inverse=True)[1]
        rows = self.white[chosen] * np.sqrt(times[chosen])[:, None]
        return self._with(rows, nodes, self.points[chosen], self.outputs[chosen])

    def _with(self, rows: Array, nodes: Indices, points: Indices, outputs: Indices) -> Self | None:
        white = _white_again(rows)
        return None if white is None else replace(self, white=white, nodes=nodes, points=points, outputs=outputs)


@dataclass(frozen=True, eq=False)
class PointByPoint:
    """Whitened rows of the same outputs at each point, in a frame of its own."""

    whites: list[Array]
    form: Form = "local"

    @property
    def n_points(self) -> int:
        return len(self.whites)

    def spectrum(self) -> Spectrum:
        return local_spectrum(self.whites)

    def split(self, found: Spectrum, n_factors: int) -> Split:
        """Owners of the outputs; the axes are those of the first point."""
        owners = nearest_vertex(found, n_factors)
        return Split(owners, *subspaces(self.whites[0], owners, n_factors))

    def turned(self, parts: Split, rng: np.random.Generator) -> Self | None:
        K = len(parts.dimensions)
        whites = []
        for white in self.whites:
            axes, dimensions = subspaces(white, parts.owners, K)
            here = Split(parts.owners, axes, dimensions)
            rows = np.zeros_like(white)
            for k, (basis, size, end) in enumerate(zip(here.parts, dimensions, np.cumsum(dimensions), strict=True)):
                mine = parts.owners == k
                turns = _rotations(int(mine.sum()), size, rng)
                rows[mine, end - size : end] = np.einsum("ri,rij->rj", _upright(white[mine] @ basis), turns)
            whites.append(_white_again(rows))
        return self._with(whites)

    def resampled(self, rng: np.random.Generator) -> Self | None:
        if self.n_points >= LEAST_POINTS:
            return replace(self, whites=[self.whites[i] for i in rng.integers(0, self.n_points, self.n_points)])
        kept = np.flatnonzero(_kept(np.arange(len(self.whites[0])), rng))
        return self._with([_white_again(white[kept]) for white in self.whites])

    def _with(self, whites: list[Array | None]) -> Self | None:
        sound = [white for white in whites if white is not None]
        return replace(self, whites=sound) if len(sound) == len(whites) else None


def _upright(rows: Array) -> Array:
    """Rows in a basis that they determine: those farthest apart are a triangle with a positive diagonal. No solver's signs matter."""
    from scipy.linalg import qr

    if len(rows) < rows.shape[1]:
        return rows
    first = qr(rows.T, mode="r", pivoting=True, check_finite=False)[1][: rows.shape[1]]
    axes, triangle = np.linalg.qr(rows[first].T)
    result: Array = rows @ (axes * np.where(np.diagonal(triangle) < 0, -1, 1))
    return result


def _rotations(count: int, size: int, rng: np.random.Generator) -> Array:
    turns, triangles = np.linalg.qr(rng.standard_normal((count, size, size)))
    result: Array = turns * np.sign(np.einsum("nii->ni", triangles))[:, None, :]
    return result


def _kept(outputs: Indices, rng: np.random.Generator) -> Array:
    """Of every output, whether it is in a sample without replacement of those that are there."""
    there = np.unique(outputs)
    kept = np.zeros(int(outputs.max()) + 1, dtype=bool)
    kept[rng.permutation(there)[: int(np.ceil((1 - LEFT_OUT) * len(there)))]] = True
    return kept


def _white_again(rows: Array) -> Array | None:
    values, vectors = np.linalg.eigh(rows.T @ rows)
    return None if values[0] < EMPTY else rows @ (vectors / np.sqrt(values)) @ vectors.T


@dataclass(frozen=True, eq=False)
class Count:
    """The factors in one form.

    likely       K by the leak alone
    n_factors    the same, or fewer where the null explains a leak as well
    without      the null's leak_K with K - 1 factors; None for K = 1
    explained    the null's leak_{K+1} with the K factors
    agreement    share of resamples that find `likely`; None until asked for
    """

    form: Form
    found: Spectrum = field(repr=False)
    parts: Split = field(repr=False)
    likely: int
    n_factors: int
    without: float | None
    explained: float
    agreement: float | None = None

    @property
    def leak(self) -> float:
        return float(self.found.leak[self.n_factors - 1])

    @property
    def next_leak(self) -> float:
        return float(self.found.leak[self.n_factors])

    @property
    def separation(self) -> float:
        """leak_K over the smaller of leak_{K+1} and leak_K without a K-th factor; small is good. 1 for K = 1."""
        beside = 1.0 if self.without is None else self.without
        return 1.0 if self.n_factors == 1 else self.leak / max(min(self.next_leak, beside), 1e-300)

    @property
    def separated(self) -> int:
        """The number of factors if it is more than one and its leaks are separated, else 0."""
        return self.n_factors if self.separation <= SEPARATED else 0


def likely_number(leak: Array) -> int:
    """K that maximises log((leak_{K+1} + c) / (leak_K + c)).

    Ours. With c = 0 two leaks of noise decide, with a large c (the eigengap) a factor of three or four latents may fall apart.
    """
    return int(np.argmax(np.diff(np.log(leak + SOFTNESS)))) + 1


def count(view: View, *, rng: np.random.Generator) -> Count:
    r"""The number of factors in one form.

    Ours. The null of k factors turns each node at random inside its factor: what the outputs do together inside a factor is lost,
    sizes and owners are kept. If the K-th factor is an accident of few rows, leak_K is not much smaller than in the null of K - 1.
    """
    found = view.spectrum()
    likely = likely_number(found.leak)
    K, nulls = likely, {}
    while K > 1:
        nulls[K - 1] = null_leak(view, found, K - 1, rng)
        if found.leak[K - 1] <= REAL * nulls[K - 1]:
            break
        K = likely_number(found.leak[:K])
    parts = view.split(found, K)
    explained = nulls[K] if K in nulls else null_leak(view, found, K, rng)
    return Count(view.form, found, parts, likely, K, nulls.get(K - 1), explained)


def null_leak(view: View, found: Spectrum, k: int, rng: np.random.Generator) -> float:
    """leak_{k+1} if there are k factors and no more: the median of `DRAWS`; 0 where turned rows lose a direction."""
    parts = view.split(found, k)
    drawn = [view.turned(parts, rng) for _ in range(DRAWS)]
    return float(np.median([0.0 if turned is None else turned.spectrum().leak[k] for turned in drawn]))


def agreement(view: View, likely: int, rng: np.random.Generator) -> float:
    """Share of resamples over points (over outputs if there are few points) that find the same number."""
    drawn = (view.resampled(rng) for _ in range(RESAMPLES))
    return float(np.mean([again is not None and likely_number(again.spectrum().leak) == likely for again in drawn]))


def judged(found: Count, live_rows: int, rank: int, others: Sequence[Count] = ()) -> str | None:
    """Why the number of factors is not certain, as a code; None if it is. `others` are the forms that were not chosen."""
    if live_rows < FEW * rank:
        return "few_rows"
    if found.n_factors != found.likely:
        return "accident"
    if found.n_factors > 1 and not found.separated:
        return "overlap"
    clear = (
        found.separation <= SEPARATED**2
    )  # noise is no reason for the next leak: as without any, only a factor that is real is one
    if found.next_leak < (EXPLAINED_ONE if found.n_factors == 1 else REAL if clear else EXPLAINED) * found.explained:
        return "more_structure"
    if not clear and any(other.n_factors > found.n_factors for other in others):
        return "more_structure"
    if found.n_factors == 1 and any(o.next_leak < EXPLAINED_ELSEWHERE * o.explained for o in others):
        return "more_structure"
    if found.agreement is None or found.agreement < AGREED:
        return "unstable"
    return None
