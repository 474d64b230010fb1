"""One fit: whiten, solve from one or more starts, put the best into canonical form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import Blocks, chunk_rows, one_blas_thread
from identifiable.groups import AffineMap
from identifiable.ica import kernels
from identifiable.ica.canonical import Canonical, Shape, canonical
from identifiable.ica.contrasts import contrast
from identifiable.ica.diagnostics import PAIR_ROWS, Directions
from identifiable.ica.passes import RESOLVING, Passes, RowChoice
from identifiable.ica.solver import Near, Search, Solution, finish, solve, solve_near
from identifiable.ica.whitening import Whitener
from identifiable.moments import Array, Moments
from identifiable.options import IcaOptions
from identifiable.results import Start
from identifiable.run import PLAIN, Run, Stage

# "auto" restarts: where a start takes a second or two, three of them; and where they disagree, more, until three end at
# the best contrast or half a minute is spent.
AGREEING = 3
SAME_CONTRAST = 1e-6  # relative
RESTART_OPERATIONS = 2e11
TYPICAL_PASSES = 40
DISPUTE_OPERATIONS = 1.2e12
MOST_STARTS = 24
FEWER_PAIR_ROWS = 5_000  # where a fit begins near another, whose pairs are the ones that are judged
FINER = 0.005  # of the tolerance, where a pass is cheap; then the last ones are in double precision


def starts_of(settings: IcaOptions, n: int, rank: int) -> int:
    """How many starts a fit of this size makes if they agree."""
    return affordable_starts(n, rank) if settings.restarts == "auto" else settings.restarts


def affordable_starts(n: int, rank: int) -> int:
    """Starts that cost little for a table of this size."""
    return int(np.clip(RESTART_OPERATIONS // (_operations(n, rank) * TYPICAL_PASSES), 1, AGREEING))


def _operations(n: int, rank: int) -> float:
    """What a step costs, in operations of a matrix product: two over the rows, and the decomposition of a square matrix."""
    return 4.0 * n * rank**2 + 100.0 * rank**3


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit in canonical form: `rotation` (components, rank) in whitened coordinates, and what led to it."""

    passes: Passes
    rotation: Array
    shape: Shape
    form: Canonical
    directions: Directions
    solution: Solution
    starts: tuple[Start, ...]

    @property
    def whitener(self) -> Whitener:
        return self.passes.whitener

    @property
    def converged(self) -> bool:
        return self.solution.converged

    @property
    def contrast(self) -> float:
        """Sum over components of |E G(u) - E G(Gaussian)|."""
        return float(np.abs(self.shape.departure).sum()) + self.solution.gained

    @cached_property
    def to_components(self) -> AffineMap:
        """From rows of the data to components of mean 0 and variance 1."""
        w = self.whitener
        return AffineMap.about(w.matrix @ self.rotation.T, w.center, np.zeros(len(self.rotation)))

    @cached_property
    def from_components(self) -> AffineMap:
        """Back to the data; exact where no direction was dropped."""
        return AffineMap(self.rotation @ self.whitener.back, self.whitener.center)


@one_blas_thread()
def fit(
    blocks: Blocks,
    moments: Moments,
    settings: IcaOptions,
    run: Run = PLAIN,
    *,
    choice: RowChoice | None = None,
    first: int = 0,
    stage: Stage = RESOLVING,
    near: Callable[[Whitener, np.random.Generator], Near] | None = None,
) -> Fit:
    """Resolve the rows of `blocks` (those of `choice`), whose moments are known.

    Starts are numbered from `first`. Even ones begin at rows far out, odd ones at random directions: where all far rows
    are alike (counts, outliers), the former would all be one start. Where starts cost little, odd ones hold all
    components together, once two starts disagree, all do, and the best is finished in double precision. With `near`, the one start
    is what it makes of the whitener.
    """
    if run.cluster is None and blocks.n <= chunk_rows(blocks.d):  # each pass would read all rows at once
        blocks = Blocks(blocks[:], name=blocks.name)
    whitener = Whitener.of(moments, rank=settings.rank, precision=settings.precision, name=blocks.name)
    passes = Passes(blocks, whitener, choice or RowChoice(settings.seed), run, stage)
    score = contrast(settings.contrast, passes.numbers)
    if score.compiled:
        kernels.prepare(run, whitener.dtype)
    best: tuple[float, Solution] | None = None
    starts = []
    cheap = affordable_starts(moments.n, whitener.rank) > 1
    tol = settings.tol * FINER if cheap else settings.tol
    disputed = False
    for k in count(first):
        before = passes.spent
        search: Search = ("together" if k % 2 or disputed else "thorough") if cheap else "quick"
        rng = np.random.default_rng([settings.seed, k])
        if near is None:
            solution = solve(passes, score, rng=rng, tol=tol, far=k % 2 == 0, search=search)
        else:
            solution = solve_near(passes, score, near(whitener, rng), rng=rng, tol=tol)
        measured = float(np.abs(Shape.of(solution.survey.shapes, settings.contrast).departure).sum())
        reached = measured + solution.gained
        starts.append(Start(k, reached, passes.spent - before, solution.converged, solution.rescued))
        if best is None or reached > best[0]:
            best = (reached, solution)
        agree = sum(s.contrast >= (1 - SAME_CONTRAST) * best[0] for s in starts)
        disputed = agree < len(starts)
        wanted = starts_of(settings, moments.n, whitener.rank)
        if settings.restarts == "auto" and cheap and disputed:
            spent = passes.spent * _operations(moments.n, whitener.rank)
            wanted = MOST_STARTS if agree < AGREEING and spent < DISPUTE_OPERATIONS else 0
        if len(starts) >= wanted:
            break
    assert best is not None
    solution = best[1]
    if cheap and settings.precision == "single":
        exact = replace(passes, whitener=whitener.in_double_precision())
        solution = finish(
            exact, solution, contrast(settings.contrast, 0), tol=tol
        )  # or all would be compiled for float64
    return _in_canonical_form(passes, settings, solution, tuple(starts), PAIR_ROWS if near is None else FEWER_PAIR_ROWS)


def _in_canonical_form(
    passes: Passes, settings: IcaOptions, solution: Solution, starts: tuple[Start, ...], pair_rows: int
) -> Fit:
    score = contrast(settings.contrast, passes.numbers)
    shape, step = Shape.of(solution.survey.shapes, settings.contrast), solution.survey.step
    pairs = passes.pairs(solution.rotation, score, pair_rows / passes.n)
    directions = Directions.of(pairs, step.cross, step.bend, step.n, solution.left)
    form = canonical(shape, solution.rotation @ passes.whitener.back, directions.angle_se, settings.order)
    order: NDArray[np.intp] = form.order
    return Fit(
        passes,
        solution.rotation[order] * form.signs[:, None],
        shape.reordered(order, form.signs),
        form,
        directions.reordered(order),
        solution,
        starts,
    )
