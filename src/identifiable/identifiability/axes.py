"""Whether two models share axes: components of ICA matched between them, and how much of a rotation ICA undoes.

Ours. ICA of the two models is fitted on disjoint halves of the rows. Fitted on the same rows, both sides find the same
sampling noise and agree about it: an efficiency of 0.66 on Gaussian data. Everything but the four fits follows from moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable import ica
from identifiable.blocks import Blocks
from identifiable.groups import GROUPS, WhiteBasis, haar_rotation
from identifiable.ica.diagnostics import looks_gaussian
from identifiable.ica.matching import match_correlations
from identifiable.identifiability.judgement import efficiency
from identifiable.identifiability.run import CompareRun, Table
from identifiable.intake import gather_moments
from identifiable.moments import Array, Moments, leave_one_out
from identifiable.options import IcaOptions
from identifiable.results import Axes, Efficiency
from identifiable.run import Stage

MATCHED = 0.95  # |r| above which two components are one
LEAST_ROWS = 100  # rows per component below which ICA of half of them repeats nothing, even of Laplace sources
SURE_ROWS = 200  # rows per component from which on the count is that of the sources, and not a lower bound
IN_MEMORY = 2**26  # values of half a table, up to which it is read once
TURNS = 12  # random rotations, for chance and for components whose direction is arbitrary
LEAST_OWN = 0.5  # |r| between halves, below which attenuation is not corrected any further


@dataclass(frozen=True, eq=False)
class AxesOf:
    """Axes and efficiency of one direction; the efficiency is None where axes are withheld or there is no way to go."""

    axes: Axes
    efficiency: Efficiency | None = None


@dataclass(frozen=True, eq=False)
class _Unmixing:
    """To components of unit variance and back, about the means; `arbitrary` marks components that can be turned freely.

    `own` is |r| of every component with its partner in the other half: how much sampling turns it (1 where arbitrary).
    """

    to: Array
    back: Array
    upright: Array  # (components, columns) in the coordinates of a symmetric whitening, whose signs no rounding decides
    arbitrary: NDArray[np.bool_]
    converged: bool
    own: Array

    @classmethod
    def of(cls, fit: ica.Fit, unit: Array) -> _Unmixing:
        """Of columns that were multiplied by `unit`."""
        gaussian = looks_gaussian(fit.shape)
        gaussian &= gaussian.sum() > 1  # a single Gaussian component is what the others leave over
        to, back = unit[:, None] * fit.to_components.matrix, fit.from_components.matrix / unit
        axes = fit.whitener.back / np.sqrt((fit.whitener.back**2).sum(axis=0)).clip(np.finfo(float).tiny)
        upright = fit.rotation @ (axes / np.linalg.norm(axes, axis=1, keepdims=True))
        return cls(to, back, upright, gaussian, fit.converged, np.ones(len(back)))

    def turned(self, rng: np.random.Generator) -> _Unmixing:
        """With its arbitrary components turned at random among themselves, wherever ICA had left them."""
        some = np.flatnonzero(self.arbitrary)
        turn, triangle = np.linalg.qr(self.upright[some] @ rng.standard_normal((self.upright.shape[1], len(some))))
        turn *= np.where(np.diag(triangle) < 0, -1.0, 1.0)
        to, back = self.to.copy(), self.back.copy()
        to[:, some], back[some] = to[:, some] @ turn, turn.T @ back[some]
        return replace(self, to=to, back=back)


def measure_axes(
    run: CompareRun, x: Table, y: Table, cells: Sequence[Moments], cell: NDArray[np.integer[Any]]
) -> tuple[AxesOf, AxesOf]:
    """Axes that two tables share, source to target and back.

    `cell` gives the cell of every row and `cells` the moments of each, x and y side by side. Even cells are one half of the
    rows and odd ones the other, so rows that belong together must share a cell.
    """
    total = reduce(Moments.merge, cells)
    rank = max(x.white.rank, y.white.rank)
    axes = Axes(components=min(x.white.rank, y.white.rank), rows_needed=LEAST_ROWS * rank)
    fewest = min(sum(c.n for c in cells[half::2]) for half in (0, 1))
    if total.n < axes.rows_needed or 4 * fewest < axes.rows_needed:
        few = AxesOf(replace(axes, withheld="few_rows"))
        return few, few
    sides = []
    for table in (x, y):
        if table.halves is None:  # once for all pairs
            first, second = (_unmixed(run, table, half, cell % 2 == half) for half in (0, 1))
            table.halves = _repeated(first, second, table.moments.scatter)
        sides.append(table.halves)
    (source, own_source), (target, own_target) = sides
    crossed = [(source[0], target[1]), (source[1], target[0])]
    # Errors are misses, not inventions, so either count is a lower bound; the smaller one needs no luck.
    fewer = min((_match(*pair, total.xx, total.yy, total.xy) for pair in crossed), key=lambda m: m.count)
    axes = replace(
        axes,
        matched=fewer.count,
        own_source=own_source,
        own_target=own_target,
        chance=_chance(x.white, y.white, total.xy, np.random.default_rng([run.settings.seed, 5])),
        at_least=total.n < SURE_ROWS * rank,
        correlations=tuple(np.sort(fewer.sizes[fewer.meant])[::-1].round(6).tolist()),
        converged=tuple(u.converged for side in (source, target) for u in side),
    )
    back = replace(
        axes, own_source=own_target, own_target=own_source, converged=axes.converged[2:] + axes.converged[:2]
    )
    if not own_source and not own_target:
        return AxesOf(replace(axes, withheld="no_axes")), AxesOf(replace(back, withheld="no_axes"))
    if axes.at_least:  # components are turned too far by sampling for an efficiency that can be trusted
        return AxesOf(axes), AxesOf(back)
    turns = TURNS if any(u.arbitrary.any() for pair in crossed for u in pair) else 1
    rng = np.random.default_rng([run.settings.seed, 6])
    paired = [[_Paired.of(s.turned(rng), t.turned(rng), total) for _ in range(turns)] for s, t in crossed]
    full = [c for c in cells if c.n]
    return (
        AxesOf(axes, _efficiency(full, x.white, paired)),
        AxesOf(back, _efficiency([c.reversed() for c in full], y.white, [[p.reversed() for p in d] for d in paired])),
    )


def _unmixed(run: CompareRun, table: Table, half: int, chosen: NDArray[np.bool_]) -> _Unmixing:
    """ICA of half of the rows. Columns are standardised first: no rounding then depends on their units."""
    center, spread = table.moments.mean, np.sqrt(table.moments.energy / table.moments.n)
    unit = 1 / np.where(spread > 0, spread, 1.0)
    rows = table.blocks.select(np.flatnonzero(chosen)).through(lambda part: (part - center) * unit, len(unit))
    if rows.n * rows.d <= IN_MEMORY:
        rows = Blocks(np.concatenate([part.astype(np.float32) for part in rows]), name=table.name)
    fit = ica.fit(
        rows,
        gather_moments([rows], run)[0],
        IcaOptions(seed=run.settings.seed + half, restarts=1),
        run,
        stage=Stage(f"axes, half {half + 1} of 2", table.name),
    )
    return _Unmixing.of(fit, unit)


# -- matching


@dataclass(frozen=True, eq=False)
class _Match:
    """Partners of the first's components among the second's (-1 for none), |r|, and which pairs are no accident.

    Two leftover Gaussians align by chance at 0.9, so pairs in which one looks Gaussian do not count.
    """

    partner: NDArray[np.intp]
    sizes: Array
    meant: NDArray[np.bool_]

    @property
    def count(self) -> int:
        return int(np.sum(self.sizes[self.meant] > MATCHED))


def _match(first: _Unmixing, second: _Unmixing, own_first: Array, own_second: Array, cross: Array) -> _Match:
    spreads = (_spread(first.to, own_first), _spread(second.to, own_second))
    partner, sizes = match_correlations(first.to.T @ cross @ second.to / np.outer(*spreads))
    return _Match(partner, sizes, (partner >= 0) & ~first.arbitrary & ~second.arbitrary[partner])


def _spread(to: Array, scatter: Array) -> Array:
    spread: Array = np.sqrt(np.einsum("ij,ij->j", to, scatter @ to))
    return spread


def _repeated(first: _Unmixing, second: _Unmixing, scatter: Array) -> tuple[list[_Unmixing], int]:
    """Both halves of a model, each with how well its components repeat in the other; and how many do."""
    match = _match(first, second, scatter, scatter, scatter)
    back = np.ones(len(second.own))
    has = match.partner >= 0
    back[match.partner[has]] = match.sizes[has]
    both = [
        replace(u, own=np.where(u.arbitrary, 1.0, own.clip(LEAST_OWN)))
        for u, own in ((first, match.sizes), (second, back))
    ]
    return both, match.count


def _chance(x: WhiteBasis, y: WhiteBasis, cross: Array, rng: np.random.Generator) -> float:
    """Mean count of matched components after random rotations of whitened rows.

    No row or column of such a matrix is longer than 1, so entries above `MATCHED` pair components one to one.
    """
    white = x.basis.T @ cross @ y.basis
    turned = (haar_rotation(x.rank, rng) @ white @ haar_rotation(y.rank, rng) for _ in range(TURNS))
    return float(np.mean([np.sum(np.abs(r) > MATCHED) for r in turned]))


# -- efficiency


@dataclass(frozen=True, eq=False)
class _Paired:
    """Matched components side by side: to those of the source and back, to those of the target and back.

    `gain` divides what two matched components have in common by what half of the rows leave of it: the root of what the
    two halves of either side have in common (Spearman's correction for attenuation).
    """

    source: tuple[Array, Array]
    target: tuple[Array, Array]
    gain: Array

    @classmethod
    def of(cls, source: _Unmixing, target: _Unmixing, total: Moments) -> _Paired:
        match = _match(source, target, total.xx, total.yy, total.xy)
        has = np.flatnonzero(match.partner >= 0)
        partner = match.partner[has]
        to, back = target.to[:, partner], target.back[partner]
        signs = np.sign(np.einsum("ij,ij->j", source.to[:, has], total.xy @ to))
        gain = 1 / np.sqrt(source.own[has] * target.own[partner])
        return cls((source.to[:, has], source.back[has]), (to * signs, signs[:, None] * back), gain)

    def reversed(self) -> _Paired:
        return _Paired(self.target, self.source, self.gain)

    @property
    def matrix(self) -> Array:
        """From source to target through the components."""
        return self.source[0] @ self.target[1]

    @property
    def overlap(self) -> Array:
        """The same with what it has in common with the target corrected."""
        return (self.source[0] * self.gain) @ self.target[1]


class _Cells:
    """Scatters of every cell about the means of all rows."""

    def __init__(self, cells: Sequence[Moments]):
        mean = reduce(Moments.merge, cells).mean
        about = [c.about(mean).gram for c in cells]
        d = cells[0].widths[0]
        self.xx, self.xy = np.stack([g[:d, :d] for g in about]), np.stack([g[:d, d:] for g in about])
        self.yy = np.array([np.trace(g[d:, d:]) for g in about])

    def squares(self, matrix: Array, *overlaps: Array) -> Array:
        """Sums of squared errors of a map in every cell, with the scale that fits the other cells best.

        A row for each of `overlaps`, which stand for the matrix in what it has in common with the target.
        """
        energy = np.tensordot(self.xx, matrix @ matrix.T, 2)
        common = np.stack([np.tensordot(self.xy, overlap, 2) for overlap in overlaps])
        others = common.sum(axis=1, keepdims=True) - common
        scale = others / np.maximum(energy.sum() - energy, np.finfo(float).tiny)
        found: Array = scale**2 * energy - 2 * scale * common + self.yy
        return found


def _efficiency(cells: Sequence[Moments], white: WhiteBasis, paired: Sequence[Sequence[_Paired]]) -> Efficiency | None:
    """(permutation - ica) / (permutation - similarity) of root mean square errors on held-out cells, each with a scale.

    `paired` holds the components of each crossing of halves, in several random turns of those whose direction is arbitrary.
    The error of ICA is that of many rows, by the correction of `_Paired`.

    The interval (Student's t) adds the variances of what leaving a cell out, exchanging the halves and turning arbitrary
    components move, and takes half of the correction as the standard error of the squared error of ICA.
    """
    from scipy.special import stdtrit

    rows, turns = _Cells(cells), len(paired[0])
    others = leave_one_out(cells)
    permutation, similarity = (
        np.array([rows.squares(m, m)[0, k] for k, m in enumerate(GROUPS[g].fit(known).matrix for known in others)])
        for g in ("signed_permutation", "similarity")
    )
    found = np.array([rows.squares(m, m, p.overlap) for draws in paired for p in draws for m in (p.matrix,)])
    raw, corrected = found[:, 0].mean(axis=0), found[:, 1]  # corrected: (crossing and turn, cell)
    left = 1 - float(np.sum((white.basis.T @ rows.xy.sum(axis=0)) ** 2)) / float(rows.yy.sum())

    def value(squares: Array, without: int | None = None) -> float:
        kept = np.arange(len(cells)) != without
        least = left * rows.yy[kept].sum()  # no linear map does better than least squares
        sums = (permutation[kept].sum(), max(squares[kept].sum(), least), similarity[kept].sum())
        found = efficiency(*(float(np.sqrt(max(s, 0.0))) for s in sums))
        return np.nan if found is None else found

    mean = corrected.mean(axis=0)
    point = value(mean)
    if np.isnan(point):
        return None
    first, second = (value(half.mean(axis=0)) for half in (corrected[:turns], corrected[turns:]))
    variance = (
        (len(cells) - 1) ** 2 / len(cells) * float(np.var([value(mean, k) for k in range(len(cells))], ddof=1))
        + (first - second) ** 2 / 4
        + (float(np.var([value(squares) for squares in corrected])) if turns > 1 else 0.0)
    )
    student = float(stdtrit(len(cells) - 1, 0.975))
    unsure = student / 2 * (raw - mean)
    down, up = (np.hypot(student * np.sqrt(variance), value(mean + sign * unsure) - point) for sign in (1, -1))
    interval = (point - float(down), point + float(up))
    return Efficiency(None, point, None if np.isnan(interval).any() else interval)
