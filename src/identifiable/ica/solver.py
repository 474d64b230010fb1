"""The solver: find the components, then polish them, in few passes over the rows.

search   FastICA's fixed point, from starts that are rows far out (heavy tails point at their sources): `search`.
polish   quasi-Newton on the orthogonal group (Picard-O, Ablin et al. 2018): signs adapt to sub- and super-Gaussian
         components, the curvature of independent components is the preconditioner (a step is then FastICA's), L-BFGS,
         Cayley steps. Ours: few components far from their place are turned among themselves first, and where rows are
         many a momentum by pair takes the place of L-BFGS.
audit    components that are not in their place, such as pairs half way between two sources, where the fixed point holds
         though it is no optimum: `auditing`. Before polishing they are turned among themselves, after it once more.
leave    on large tables, directions that chance explains (`chance`): they are not polished, and not waited for. When all
         others have converged, the space they span is searched once more by itself; what is found there is polished. Ours.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from identifiable.groups import haar_rotation
from identifiable.ica.auditing import AUDIT_ROWS, Misplaced, audit, misplaced, turned
from identifiable.ica.chance import by_chance, too_weak, turn_variances
from identifiable.ica.contrasts import Contrast, Values, gaussian_values
from identifiable.ica.curvature import pair_curvature
from identifiable.ica.passes import Passes, Survey, pieces
from identifiable.ica.search import far_rows, orthogonal, search_apart, search_in_rounds, search_together
from identifiable.moments import Array
from identifiable.results import Step

SAMPLE_ROWS = 20_000  # whitened rows a start is chosen from, or 8 for every component
MAX_POLISH = 150
OUTSTANDING = 10  # times the median gain a component holds, to be turned apart from the rest
MUCH = 0.2  # of the gain must be among such components
FAR_TURN = 0.05  # radians two of them must turn into each other; below, what they are to the others matters as much
LOOSE = 1e-3  # of what the others have to gain may be left when they join again
MEMORY = 10  # steps L-BFGS remembers
MANY = 64  # components from which on noise alone couples their pairs
STEADY = 0.05  # mean momentum up to which that noise is small
MOST_MOMENTUM = 0.25  # a larger one would not converge
SMALL_TURN = 0.01  # radians of a component, below which FastICA's turn is the gradient over the curvature
NOT_SKEW = 1e-6  # a turn whose generator is less skew than this is a reflection
NEAR = 0.5  # least cosine of a component's turn for which FastICA's is taken at its word
STAGNANT = 2  # steps without progress after which the precision of the products is taken to be the limit
AT_LIMIT = 1e-6  # share of the contrast that may then be left to gain, and still count as converged
SURE = 0.3  # left of the gain by the last step, below which the next is trusted to do as well
CURVED = (
    0.05  # least cosine between a step and its change of the gradient, to learn from: a flat one would lead far away
)
MIN_CURVATURE = 0.01  # a pair flatter than this is turned no faster
MAX_TURN = 0.5  # radians, in one step of one component
OVERSHOT = (
    2.0  # slope after a step, over the slope before, beyond which the step is taken back; below, the next one mends it
)
NEGLIGIBLE = 1e-3  # of what the rows leave open, squared, that a component need not be turned into those left alone
NEARLY = 1e-3  # of the contrast left to gain, from which on what is left alone is searched by itself
FOUND_BACK = 2  # passes in which components turned by 30 degrees are back: FastICA cubes the tangent
MAX_AUDITS = 4
WEAK_ROWS = 100_000  # on which pairs of weak components are looked at for saddles
UNTANGLED = 1e-7  # tolerance to which misplaced components are polished among themselves, before all are


Search = Literal["quick", "thorough", "together"]


@dataclass(eq=False)
class Solution:
    """Where one start ended: `rotation` (components, rank) in whitened coordinates, with what the rows say of the components.

    The survey was taken one step before the end; `gained` is what that step added to the contrast. Components `left` are
    those that chance explains, which were left alone.
    """

    rotation: Array
    converged: bool
    left: NDArray[np.bool_]
    survey: Survey
    gained: float = 0.0
    rescued: int = 0
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Near:
    """A start near a solution, in place of a search: `scattered` components are turned among themselves first.

    `gaussian` ones are those of the solution: the others have two passes to find back to their place before chance may explain
    them. `scale` is the contrast of the solution. No component is polished that has less than `settled` radians to turn.
    """

    rotation: Array
    gaussian: NDArray[np.bool_]
    scattered: NDArray[np.intp]
    scale: float
    settled: float


def solve_near(passes: Passes, contrast: Contrast, near: Near, *, rng: np.random.Generator, tol: float) -> Solution:
    """Polish from a start near a solution."""
    steps: list[Step] = []
    rotation, some = near.rotation.copy(), near.scattered
    sparing = _Sparing(contrast, steps, rng, np.zeros((0, len(rotation))), looked=True, settled=near.settled)
    if len(some) > 1:
        part = passes.within(rotation[some], store=passes.store())
        apart = polish(
            part, np.eye(len(some)), contrast, near.scale, tol, steps, sparing=replace(sparing, known=deque())
        )
        rotation[some] = apart.rotation @ rotation[some]
    sparing.known.extend([near.gaussian] * FOUND_BACK)
    for _ in range(FOUND_BACK):
        here = _Point.at(passes, rotation, contrast, sparing=sparing, spared=near.gaussian)
        steps.append(Step(passes.spent, "polish", len(rotation), here.turn))
        rotation = cayley(_within_reach(here.newton)) @ rotation
    end = polish(passes, rotation, contrast, near.scale, tol, steps, survey=True, sparing=sparing, spared=near.gaussian)
    rotation = orthogonal(end.rotation)
    survey, gained = _surveyed(passes, rotation, contrast, end)
    return Solution(rotation, end.converged, end.left, survey, gained, 0, steps)


def solve(
    passes: Passes,
    contrast: Contrast,
    *,
    rng: np.random.Generator,
    tol: float,
    far: bool,
    search: Search,
) -> Solution:
    """Search, polish, audit, from one start: at rows far out, or (not `far`) at random directions."""
    steps: list[Step] = []

    def begin(part: Passes) -> Array:
        if not far:
            return haar_rotation(part.whitener.rank, rng)
        return far_rows(part.sample(max(SAMPLE_ROWS, 8 * part.whitener.rank)), rng)

    sample = passes.sample(AUDIT_ROWS, fresh=True)
    spared = np.zeros(passes.whitener.rank, bool)
    if search == "quick":
        found, rest = search_in_rounds(passes, begin, contrast, steps, rng, sample)
        rotation = orthogonal(np.vstack([found, rest]))
        spared[len(found) :] = len(rest) > 1  # a single one was not looked for
    elif search == "thorough":
        rotation = search_apart(passes, begin(passes), contrast, steps)
    else:
        rotation = search_together(passes, begin(passes), contrast, steps)
    scale = sample_contrast(sample, rotation, contrast)
    rotation, tangle = _untangled(passes, sample, rotation, contrast, scale, steps, spared)
    spared[tangle.components] = False
    rescued = len(tangle.saddles)
    sparing = _Sparing(contrast, steps, rng, sample) if search == "quick" else None
    end = polish(passes, rotation, contrast, scale, tol, steps, survey=True, sparing=sparing, spared=spared)
    for _ in range(MAX_AUDITS):
        left = set(np.flatnonzero(end.left).tolist())
        pairs = [pair for pair in audit(sample, end.rotation, contrast) if not left.issuperset(pair)]
        if not pairs:
            break
        rescued += len(pairs)
        spared = end.left
        spared[np.ravel(pairs)] = False
        rotation = turned(end.rotation, pairs)
        end = polish(passes, rotation, contrast, scale, tol, steps, survey=True, sparing=sparing, spared=spared)
    rotation = orthogonal(end.rotation)
    survey, gained = _surveyed(passes, rotation, contrast, end)
    return Solution(rotation, end.converged, end.left, survey, gained, rescued, steps)


@dataclass(eq=False)
class _Sparing:
    """What polishing does not wait for: components that chance explains, and turns of less than `settled` radians. Ours.

    While others are not in their place, several weak sources mixed with each other look like Gaussians, each of them. So the
    space of those components is searched by itself when the others have nearly converged.
    """

    contrast: Contrast
    steps: list[Step]
    rng: np.random.Generator
    sample: Values
    looked: bool = False
    settled: float = 0.0
    known: deque[NDArray[np.bool_]] = field(default_factory=deque)  # what chance explains, in the first passes

    def left(self, shapes: Array, n: int) -> NDArray[np.bool_]:
        """Components that chance explains, by `shapes` on n rows."""
        return self.known.popleft() if self.known else by_chance(shapes, n, self.contrast)

    def turn(self, passes: Passes, space: Array, scale: float) -> tuple[Array, NDArray[np.bool_]] | None:
        """How to turn the components `space` so that what a search finds among them is in its place, and which of them it does not find.

        None if it finds nothing to fix.
        """
        self.looked = True
        if len(space) < 2:
            return None
        part, seen = passes.within(space, store=passes.store()), self.sample @ space.T.astype(self.sample.dtype)
        found, rest = search_in_rounds(
            part, _coordinates, self.contrast, self.steps, self.rng, seen, part.n, patient=True
        )
        if not len(found):
            return None
        rotation, spared = orthogonal(np.vstack([found, rest])), np.arange(len(space)) >= len(found)
        end = polish(part, rotation, self.contrast, scale, UNTANGLED, self.steps, sparing=self, spared=spared)
        return end.rotation, spared


def _coordinates(part: Passes) -> Array:
    return np.eye(part.whitener.rank)


def _untangled(
    passes: Passes,
    sample: Values,
    rotation: Array,
    contrast: Contrast,
    scale: float,
    steps: list[Step],
    spared: NDArray[np.bool_],
) -> tuple[Array, Misplaced]:
    """The rotation with components that are not in their place turned among themselves, and which those were.

    Of weak components only those that are not `spared` are looked at on more rows.
    """
    found = misplaced(sample, rotation, contrast)
    found = replace(found, weak=found.weak[~spared[found.weak]])
    if len(found.weak) > 1:  # more rows for these, which costs little
        part = passes.within(rotation[found.weak], min(WEAK_ROWS / max(passes.n, 1), 1.0), passes.store())
        pairs = part.pairs(np.eye(len(found.weak)), contrast)
        variance = np.ones(len(found.weak)) if part.covariance is None else np.diag(part.covariance)
        bend = pairs.bend / variance
        bends = (bend.sum(axis=1) - np.diag(bend)) / (len(bend) - 1)
        own = pairs.own - bends * (variance - 1)  # as in a step of rows that are not white
        curvature = pair_curvature(bend, own, np.where(bends >= own, 1.0, -1.0))
        found = found.and_saddles(found.weak, curvature, pairs.n, contrast)
    rotation, some = turned(rotation, found.saddles), found.components
    if len(some):
        part = passes.within(rotation[some], store=passes.store())
        rotation[some] = polish(part, np.eye(len(some)), contrast, scale, UNTANGLED, steps).rotation @ rotation[some]
    return rotation, found


def finish(passes: Passes, solution: Solution, contrast: Contrast, *, tol: float) -> Solution:
    """The solution polished once more by these passes, which may be more precise than those that led to it."""
    steps = list(solution.steps)
    scale = float(np.abs(solution.survey.shapes.value - gaussian_values(contrast.name).mean).sum())
    end = polish(passes, solution.rotation, contrast, scale, tol, steps, survey=True)
    rotation = orthogonal(end.rotation)
    survey, gained = _surveyed(passes, rotation, contrast, end)
    return replace(solution, rotation=rotation, converged=end.converged, survey=survey, gained=gained, steps=steps)


def _surveyed(passes: Passes, rotation: Array, contrast: Contrast, end: Polished) -> tuple[Survey, float]:
    """What the rows say where polishing ended, and what the contrast gained since they were asked."""
    return (passes.survey(rotation, contrast), 0.0) if end.survey is None else (end.survey, end.gained)


def polish(
    passes: Passes,
    rotation: Array,
    contrast: Contrast,
    scale: float,
    tol: float,
    steps: list[Step],
    survey: bool = False,
    sparing: _Sparing | None = None,
    spared: NDArray[np.bool_] | None = None,
) -> Polished:
    """Quasi-Newton until the contrast could gain less than `tol` times `scale`; with whether it got there.

    A step is judged by the slope along it before and after, which the passes give anyway: no pass is spent on values.
    A few components that hold much of what there is to gain, and far to turn, are turned among themselves after each step
    of all others: that is cheap, and in one step for all their detours would upset those that are nearly
    there. What is remembered of the others is kept.

    With `survey` the pass that is expected to be the last takes one; the step it leads to is not looked at again.
    Components `spared` are left alone and not even measured, until the survey.
    With `sparing`, components that chance explains are not turned among themselves, and the others are what they would be
    whatever basis is chosen there; nothing is waited for that turns among those and components too weak to be fixed.
    """
    enough, far = tol * scale, 0.0 if sparing is None else sparing.settled
    spared = np.zeros(len(rotation), bool) if spared is None else spared.copy()
    here = _Point.at(passes, rotation, contrast, sparing=sparing, spared=spared)
    memory = _memory(here, passes.n, contrast)
    best, since = here, 0  # and steps since the predicted gain was last made smaller
    left: deque[float] = deque(maxlen=2)  # what each of the last steps left of the gain
    for _ in range(MAX_POLISH):
        steps.append(Step(passes.spent, "polish", len(rotation), here.turn))
        if here.gain < 0.9 * best.gain:
            best, since = here, 0
        rate = max(left, default=1.0)
        turn = None
        if sparing is not None and not sparing.looked and here.gain < max(NEARLY * scale, enough):
            turn = sparing.turn(passes, here.rotation[here.left], scale)
        if turn is not None:
            best, since = here, 0
            left.clear()
        elif here.gain < enough or (rate < SURE and rate * here.gain < enough) or math.sqrt(rate) * here.farthest < far:
            ahead = cayley(memory.step(here)) @ here.rotation  # one more pass would only confirm it
            return Polished(ahead, True, here.left, here.survey, here.gain)
        if since >= STAGNANT and best.gain < AT_LIMIT * scale:
            return Polished(best.rotation, True, best.left, best.survey)
        since += 1
        tangled = here.tangled if turn is None else np.flatnonzero(here.left)
        memory.forget(tangled)  # they are about to become others
        step = memory.step(here)
        others = here.gain - here.gain_among(tangled)
        apart = np.eye(len(rotation))
        if turn is not None:
            apart[np.ix_(tangled, tangled)], spared[tangled] = turn
        elif len(tangled):
            step[np.ix_(tangled, tangled)] = 0  # by many small steps of their own instead
            part = passes.within((cayley(step) @ here.rotation)[tangled], store=passes.store())
            loose = max(LOOSE * others / scale, tol / 2)
            apart[np.ix_(tangled, tangled)] = polish(
                part, np.eye(len(tangled)), contrast, scale, loose, steps, spared=here.left[tangled]
            ).rotation
        next_to_last = rate < SURE and rate**2 * others < enough
        last = len(left) == left.maxlen and (next_to_last or (sparing is not None and rate * others < enough))
        last = survey and (last or (len(left) > 0 and rate * here.farthest < far))
        there = _Point.at(passes, apart @ cayley(step) @ here.rotation, contrast, last, sparing, spared)
        before, after = float((here.gradient * step).sum()), float((there.gradient * step).sum())
        if after > OVERSHOT * abs(before) and np.array_equal(here.signs, there.signs) and not len(tangled):
            step *= before / (before - after)  # where a straight line through both slopes crosses zero
            there = _Point.at(passes, cayley(step) @ here.rotation, contrast, last, sparing, spared)
        memory.learn(step, here, there, tangled)
        left.append(there.gain / (max(others, here.gain / 100) or enough))  # nothing, where all were left alone
        here = there
        if turn is not None:
            best = here  # of more components than before
        if survey:
            passes.meter.expected = passes.spent + _steps_left(here.gain, enough, max(left))
    best = min(best, here, key=lambda point: point.gain)
    return Polished(best.rotation, best.gain < AT_LIMIT * scale, best.left, best.survey)


def _steps_left(gain: float, enough: float, rate: float) -> float:
    """Passes until there is less than `enough` to gain, if each leaves `rate` of it."""
    if gain <= enough:
        return 0.0
    return min(math.log(gain / enough) / -math.log(min(rate, 0.95)), MAX_POLISH)


@dataclass(frozen=True, eq=False)
class Polished:
    """Where polishing ended, and whether at its tolerance; which components were left alone; a survey of its last pass, and
    what the contrast gained since."""

    rotation: Array
    converged: bool
    left: NDArray[np.bool_]
    survey: Survey | None = None
    gained: float = 0.0


@dataclass(frozen=True, eq=False)
class _Point:
    """A rotation with the signed contrast's gradient and curvature over pairs there, as full matrices.

    A component that is left alone has the sign 0, and so no part in the contrast.
    """

    rotation: Array
    signs: Array
    signed: Array  # s_i E G'(y_i) y_j
    curvature: Array
    survey: Survey | None = None
    unfixed: NDArray[np.bool_] | None = None  # components that no step fixes: what turns among them is no gain
    unsure: Array | None = None  # what the rows leave open, squared, of the turns of each into those left alone

    @cached_property
    def gradient(self) -> Array:
        gradient: Array = self.signed - self.signed.T
        return gradient

    @property
    def left(self) -> NDArray[np.bool_]:
        """Components that are left alone."""
        return np.asarray(self.signs == 0)

    @classmethod
    def at(
        cls,
        passes: Passes,
        rotation: Array,
        contrast: Contrast,
        surveyed: bool = False,
        sparing: _Sparing | None = None,
        spared: NDArray[np.bool_] | None = None,
    ) -> _Point:
        """From one pass, in which components `spared` take no part, unless it is a survey.

        The curvature is that of independent components, E G''(y_i) E y_j^2 in place of E G''(y_i) y_j^2: the step is
        then FastICA's. Measured pair by pair it is noisier than weak components can bear: on 20,000 rows polishing 222,000 x
        384 took 18 passes instead of 6. Downhill everywhere, and never almost nothing.
        """
        survey = passes.survey(rotation, contrast) if surveyed else None
        spared = np.zeros(len(rotation), bool) if spared is None else spared
        means = passes.step_of(~spared, rotation, contrast) if survey is None else survey.step
        own = np.diag(means.cross)
        signs = np.where(means.bend >= own, 1.0, -1.0)
        signs[spared] = 0
        unfixed = unsure = None
        if sparing is not None:
            signs[sparing.left(own - means.bend, means.n)] = 0
            unfixed = too_weak(own - means.bend, means.n, contrast, len(rotation)) | (signs == 0)
            unsure = turn_variances(own - means.bend, means.n, contrast, int((signs == 0).sum()))
        signed = signs[:, None] * means.cross
        alone = signs * (means.bend - own)
        return cls(rotation, signs, signed, np.maximum(alone[:, None] + alone, MIN_CURVATURE), survey, unfixed, unsure)

    @property
    def newton(self) -> Array:
        """What a Newton step turns every pair by: FastICA's turn, which for small ones is the gradient over the curvature."""
        plain: Array = -self.gradient / self.curvature
        if self.turn < SMALL_TURN:
            return plain
        turn = orthogonal(np.diag(np.diag(self.curvature) / 2 + np.diag(self.signed)) - self.signed)
        if np.diag(turn).min() < NEAR:
            return plain
        identity = np.eye(len(turn))
        half = np.linalg.solve((turn + identity).T, (turn - identity).T)  # of what it is the `cayley` of
        if np.abs(half + half.T).max() > NOT_SKEW:  # a reflection is the `cayley` of nothing
            return plain
        return np.asarray(half.T - half, np.float64)

    @cached_property
    def gains(self) -> Array:
        """What a Newton step of each pair would add to the contrast, half of it counted for either component."""
        return self.gradient**2 / self.curvature / 4

    @cached_property
    def waited_for(self) -> Array:
        """The same without what turns among components that no step fixes, and what the rows leave open anyway.

        A weak component turns into directions that are left alone for many steps: their couplings are nearly as large as its curvature.
        """
        gains = self.gains.copy()
        if self.unfixed is not None and self.unsure is not None:
            gains[np.ix_(self.unfixed, self.unfixed)] = 0
            turns = ((self.gradient / self.curvature)[:, self.left] ** 2).sum(axis=1)
            calm = turns < NEGLIGIBLE * self.unsure
            gains[np.ix_(calm, self.left)] = gains[np.ix_(self.left, calm)] = 0
        return gains

    @property
    def gain(self) -> float:
        """What a Newton step would add to the contrast, of what is waited for."""
        return float(self.waited_for.sum())

    def gain_among(self, some: NDArray[np.intp]) -> float:
        """What it would add by turning these components among themselves."""
        return float(self.waited_for[np.ix_(some, some)].sum())

    @property
    def tangled(self) -> NDArray[np.intp]:
        """The few components, if there are such, whose turns among themselves are far and hold much of what there is to gain."""
        each = self.gains.sum(axis=1)
        some = np.flatnonzero(each > OUTSTANDING * np.median(each))
        among = np.ix_(some, some)
        if not 2 <= len(some) <= len(each) / 2 or np.abs(self.gradient / self.curvature)[among].max() < FAR_TURN:
            return some[:0]
        return some if self.gains[among].sum() > MUCH * self.gains.sum() else some[:0]

    @cached_property
    def turns(self) -> Array:
        """Radians a Newton step would turn each component."""
        turns: Array = np.sqrt(((self.gradient / self.curvature) ** 2).sum(axis=1))
        return turns

    @property
    def turn(self) -> float:
        """Radians a Newton step would turn a component, on average."""
        return float(self.turns.mean())

    @property
    def farthest(self) -> float:
        """Radians it would turn that component which turns farthest, of those that are fixed at all."""
        return float(self.turns.max(where=True if self.unfixed is None else ~self.unfixed, initial=0.0))


class _Secants:
    """L-BFGS, with the pair curvature as first guess of the Hessian."""

    def __init__(self) -> None:
        self.pairs: deque[tuple[Array, Array]] = deque(maxlen=MEMORY)

    def step(self, here: _Point) -> Array:
        """The quasi-Newton step from here, no component turning far at once: by the two-loop recursion."""
        direction = here.gradient.copy()
        weights = []
        for step, change in reversed(self.pairs):
            rho = 1 / float((step * change).sum())
            weight = rho * float((step * direction).sum())
            weights.append((weight, rho))
            direction -= weight * change
        direction /= here.curvature
        for (step, change), (weight, rho) in zip(self.pairs, reversed(weights), strict=True):
            direction += (weight - rho * float((change * direction).sum())) * step
        return -_within_reach(direction)

    def learn(self, step: Array, here: _Point, there: _Point, tangled: NDArray[np.intp]) -> None:
        if there.gain > OVERSHOT * here.gain:  # whatever led there does not hold here
            self.pairs.clear()
            return
        changed = np.concatenate([tangled, _flipped(here, there)])
        self.forget(changed)
        self._keep(step, there.gradient - here.gradient, changed)

    def forget(self, components: NDArray[np.intp]) -> None:
        if not len(components):
            return
        pairs, self.pairs = self.pairs, deque(maxlen=MEMORY)
        for step, change in pairs:
            self._keep(step, change, components)

    def _keep(self, step: Array, change: Array, without: NDArray[np.intp]) -> None:
        step, change = step.copy(), change.copy()
        for matrix in (step, change):
            matrix[without] = matrix[:, without] = 0
        if float((change * step).sum()) > CURVED * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self.pairs.append((step, change))


class _Momentum:
    """A share of the last step in the next, pair by pair, as much as the noise of the curvature asks for. Ours (derived).

    What a Newton step of independent components leaves comes from couplings H(ij, ik) = E [G''(y_i) - E G''] y_j y_k, which
    are 0 in the population and of variance v / n on n rows. They send a step on and back: twice on, an error returns to its
    own pair by the sum of their squares over both curvatures,
        b_ij = v / (n c_ij) (sum_k 1 / c_ik + sum_k 1 / c_jk),
    whatever the couplings are; b times the step before takes that off (as the Onsager term of a message passing, or the
    second term of a Chebyshev iteration, where all pairs have one b). In the fifth pass over 222,000 x 384 the contrast
    has 1.5e-8 left to gain, with L-BFGS 3.5e-8, without either 1e-7.
    """

    def __init__(self, variance: float, components: int):
        self.variance = variance  # v / n
        self.before = np.zeros((components, components))

    def share(self, here: _Point) -> Array:
        inverse = 1 / here.curvature
        np.fill_diagonal(inverse, 0)
        total = np.where(here.left, 0.0, inverse.sum(axis=1))
        share: Array = self.variance * inverse * (total[:, None] + total)
        return share

    def step(self, here: _Point) -> Array:
        step: Array = here.newton + self.share(here).clip(max=MOST_MOMENTUM) * self.before
        return _within_reach(step)

    def learn(self, step: Array, here: _Point, there: _Point, tangled: NDArray[np.intp]) -> None:
        self.before = step.copy()
        self.forget(np.concatenate([tangled, _flipped(here, there)]))

    def forget(self, components: NDArray[np.intp]) -> None:
        self.before[components] = self.before[:, components] = 0


def _within_reach(step: Array) -> Array:
    """The step with pairs shortened whose component would turn farther than its slopes and curvatures can hold.

    Of noise, every pair is flat: 36 components that turned by 0.5 into each of the others, as they once could, wandered about
    for ever, and last bits decided where they were when the passes ran out.
    """
    far = np.sqrt((step**2).sum(axis=1)).clip(MAX_TURN) / MAX_TURN
    shortened: Array = step / np.maximum.outer(far, far)
    return shortened


def _flipped(here: _Point, there: _Point) -> NDArray[np.intp]:
    """Components whose sign changed: they follow another function now."""
    return np.flatnonzero(here.signs != there.signs)


def _memory(here: _Point, n: int, contrast: Contrast) -> _Secants | _Momentum:
    """Momentum where components are many and the noise of their curvature is small; else secants."""
    momentum = _Momentum(gaussian_values(contrast.name).coupling / n, len(here.rotation))
    steady = len(here.rotation) >= MANY and float(momentum.share(here).mean()) < STEADY
    return momentum if steady else _Secants()


def sample_contrast(sample: Values, rotation: Array, contrast: Contrast) -> float:
    """Sum over components of |E G(u) - E G(Gaussian)|, on a sample of whitened rows."""
    unmixing = rotation.T.astype(sample.dtype)
    total = np.zeros(len(rotation))
    for piece in pieces(sample):
        total += contrast.value(piece @ unmixing).sum(axis=0, dtype=np.float64)
    return float(np.abs(total / max(len(sample), 1) - gaussian_values(contrast.name).mean).sum())


def cayley(skew: Array) -> Array:
    """An orthogonal matrix that turns by `skew` to second order."""
    identity = np.eye(len(skew))
    return np.asarray(np.linalg.solve(identity - skew / 2, identity + skew / 2), dtype=np.float64)
