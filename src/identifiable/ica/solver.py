"""The solver: find the components, then polish them, in few passes over the rows.

search   FastICA's fixed point, all components at once, from starts that are rows far out (heavy tails point at their
         sources). Components that stop turning are set aside, and the rest is searched for in what is left of the
         space: a pass then costs less, and stragglers are no longer disturbed. On few rows at first, on more where few
         components settle; what is left starts anew from directions ordered by kurtosis. Ours. Where passes are cheap,
         a search uses all rows, and some starts keep all components together instead.
polish   quasi-Newton on the orthogonal group (Picard-O, Ablin et al. 2018): signs adapt to sub- and super-Gaussian
         components, the curvature of independent components is the preconditioner (a step is then FastICA's), L-BFGS,
         Cayley steps. Ours: few components far from their place are turned among themselves first.
audit    every pair is tried at 45 degrees, where fixed points that are no optimum sit; what gains is turned and
         polished again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable.groups import haar_rotation
from identifiable.ica.contrasts import Contrast, Values, gaussian_values
from identifiable.ica.passes import CurvatureMeans, Passes, Survey, piece_rows
from identifiable.moments import Array
from identifiable.results import Step

SETTLED = 0.01  # 1 - cosine of the last turn below which a component is set aside: 0.14 radians
THOROUGH = 1e-5  # the same where a search is cheap: on few rows, setting aside late ends in better optima
TOGETHER = 1e-4  # and where nothing is set aside; scikit-learn's default
MAX_TOGETHER = 150
ROWS_PER_SQUARE = (
    8  # rows a search among r components uses at most, over r^2; with fewer, weak components are not found
)
MIN_ROWS = 20_000
SEARCH_ROWS = 200_000
EARLY = 0.2  # rows a quick search begins with, over the square of the components
FEW = 0.05  # of the components settling in a step, below which a search takes twice the rows
PATIENCE = 4  # steps it waits for the first to settle
NEARLY_EVERY = 0.7  # a larger share of the rows is all of them
SHRUNK = 0.75  # of its coordinates left, from which on what is left gets coordinates of its own
LOST = 0.5  # 1 - cosine of a turn, beyond which a direction is on its way to no component
STALLED = 40  # search steps without a component settling after which polishing takes over
MAX_SEARCH = 300
MAX_POLISH = 150
OUTSTANDING = 10  # times the median gain a component holds, to be turned apart from the rest
MUCH = 0.2  # of the gain must be among such components
LOOSE = 1e-3  # of what the others have to gain may be left when they join again
MEMORY = 10  # steps L-BFGS remembers
STAGNANT = 2  # steps without progress after which the precision of the products is taken to be the limit
AT_LIMIT = 1e-6  # share of the contrast that may then be left to gain, and still count as converged
SURE = 0.3  # left of the gain by the last step, below which the next is trusted to do as well
MIN_CURVATURE = 0.01  # a pair flatter than this is turned no faster
MAX_TURN = 0.5  # radians, in one step of one pair
OVERSHOT = (
    2.0  # slope after a step, over the slope before, beyond which the step is taken back; below, the next one mends it
)
AUDIT_ROWS = 10_000
AUDIT_CLIP = 4.0  # standard deviations; an outlier must not decide a kurtosis
AUDIT_PAIRS = 4  # pairs confirmed at most, per component
KURTOSIS_GAIN = 0.05  # about what the contrast's AUDIT_GAIN is in kurtosis, halved to be safe
AUDIT_GAIN = 0.002  # contrast a pair must gain at 45 degrees, beyond two standard errors
MAX_AUDITS = 4


Search = Literal["quick", "thorough", "together"]


@dataclass(eq=False)
class Solution:
    """Where one start ended: `rotation` (components, rank) in whitened coordinates, with what the rows say of the components.

    The survey was taken one step before the end; `gained` is what that step added to the contrast.
    """

    rotation: Array
    converged: bool
    survey: Survey
    gained: float = 0.0
    rescued: int = 0
    steps: list[Step] = field(default_factory=list)


def solve(
    passes: Passes,
    contrast: Contrast,
    *,
    rng: np.random.Generator,
    tol: float,
    far: bool = True,
    search: Search = "quick",
) -> Solution:
    """Search, polish, audit, from one start: at rows far out, or (not `far`) at random directions."""
    sample = passes.sample(max(MIN_ROWS, 8 * passes.whitener.rank))
    steps: list[Step] = []
    start = far_rows(sample, rng) if far else haar_rotation(passes.whitener.rank, rng)
    sample = sample[:AUDIT_ROWS].copy()
    if search == "together":
        rotation = search_together(passes, start, contrast, steps)
    else:
        quick = search == "quick"
        rows = max(EARLY * len(start) ** 2, MIN_ROWS) if quick else np.inf
        rotation = search_apart(passes, start, contrast, steps, SETTLED if quick else THOROUGH, rows)
    scale = sample_contrast(sample, rotation, contrast)
    end = polish(passes, rotation, contrast, scale, tol, steps, survey=True)
    rescued = 0
    for _ in range(MAX_AUDITS):
        pairs = audit(sample, end.rotation, contrast)
        if not pairs:
            break
        rescued += len(pairs)
        end = polish(passes, turned(end.rotation, pairs), contrast, scale, tol, steps, survey=True)
    rotation = orthogonal(end.rotation)
    survey, gained = (passes.survey(rotation, contrast), 0.0) if end.survey is None else (end.survey, end.gained)
    return Solution(rotation, end.converged, survey, gained, rescued, steps)


def far_rows(sample: Values, rng: np.random.Generator) -> Array:
    """Orthogonal directions towards rows that lie far out, chosen by pivoted QR from a random half of the farther rows.

    Ours. A row where one heavy-tailed source is large points at that source; random directions would start
    sqrt(d) times farther away. In a trial at 50,000 x 256 it saved 7 of 45 passes.
    """
    from scipy.linalg import qr

    n, d = sample.shape
    if n < 4 * d:
        return haar_rotation(d, rng)
    norms = np.einsum("ij,ij->i", sample, sample)
    pool = np.argpartition(-norms, min(8 * d, n - 1))[: 8 * d]
    chosen = rng.choice(pool, size=min(4 * d, len(pool)), replace=False)
    directions = np.asarray(sample[np.sort(chosen)], dtype=np.float64)
    basis: Array = qr(directions.T, mode="economic", pivoting=True)[0]
    return basis.T


def search_apart(
    passes: Passes,
    rotation: Array,
    contrast: Contrast,
    steps: list[Step],
    settled_below: float = SETTLED,
    rows: float = np.inf,
) -> Array:
    """Fixed-point steps; what has settled is set aside, until all has or nothing more does.

    On `rows` rows at first, and on twice as many whenever few settle. What is left of the space is looked at in
    coordinates of its own.
    """
    settled: list[Array] = []
    most = min(max(ROWS_PER_SQUARE * len(rotation) ** 2, SEARCH_ROWS), passes.n)
    rows = min(rows, most)
    # One store for all parts of the space: memory that is new costs more than what is written into it.
    store = passes.store()
    part, directions, active = _part(passes, rotation, rows, store)
    idle = before = 0
    for _ in range(MAX_SEARCH):
        means = part.step(active, contrast)
        turn = orthogonal(means.cross - np.diag(means.bend))
        active = turn @ active
        change = (1 - np.abs(np.diag(turn))).clip(0)
        still = change < settled_below
        steps.append(Step(passes.spent, "search", len(active), float(np.arccos(1 - change.mean()))))
        settled.append(active[still] @ directions)
        active, lost = active[~still], change[~still] > LOST
        count = int(still.sum())
        idle = 0 if count else idle + 1
        if len(active) <= 1 or idle >= STALLED:
            break
        slow = count <= before and count < FEW * len(active) and (before or idle > PATIENCE)
        before = count
        if slow and rows < most:
            rows, before = min(2 * rows, most), 0
            part, directions, active = _part(passes, active @ directions, rows, store)
        elif len(active) < SHRUNK * part.whitener.rank:
            directions = active @ directions
            part, active = part.within(active, store=store), np.eye(len(active))
        else:
            continue
        if part is not passes and lost.sum() > 1:
            active[lost] = _by_kurtosis(part, active[lost])
    return orthogonal(np.vstack([*settled, active @ directions]))


def _part(passes: Passes, rotation: Array, rows: float, store: NDArray[Any]) -> tuple[Passes, Array, Array]:
    """Passes over some rows of the components `rotation`, what their coordinates are in the space, and the components there."""
    share = rows / max(passes.n, 1)
    if share > NEARLY_EVERY:
        share = 1.0
        if len(rotation) == passes.whitener.rank:
            return passes, np.eye(len(rotation)), rotation
    return passes.within(rotation, share, store), rotation, np.eye(len(rotation))


def _by_kurtosis(part: Passes, lost: Array) -> Array:
    """Other directions in the space of those that are lost: where far rows are many, to where they are few.

    Ours. Light and heavy tails are then looked for in spaces of their own, and what is looked for is nearer to a direction
    the fewer there are. At 222,000 x 384 it halves the steps of the search, once the heaviest tails are found.
    """
    vectors = np.linalg.eigh(lost @ part.by_distance() @ lost.T)[1]
    found: Array = vectors.T @ lost
    return found


def search_together(passes: Passes, rotation: Array, contrast: Contrast, steps: list[Step]) -> Array:
    """Fixed-point steps of all components until none turns.

    Where rows are few, about half the squared dimension, there are many optima; this ends in better ones more often than
    setting components aside, at several times the passes.
    """
    for _ in range(MAX_TOGETHER):
        means = passes.step(rotation, contrast)
        turn = orthogonal(means.cross - np.diag(means.bend))
        rotation = turn @ rotation
        change = (1 - np.abs(np.diag(turn))).clip(0)
        steps.append(Step(passes.spent, "search", len(rotation), float(np.arccos(1 - change.mean()))))
        if change.max() < TOGETHER:
            break
    return rotation


def polish(
    passes: Passes,
    rotation: Array,
    contrast: Contrast,
    scale: float,
    tol: float,
    steps: list[Step],
    survey: bool = False,
) -> Polished:
    """Quasi-Newton until the contrast could gain less than `tol` times `scale`; with whether it got there.

    A step is judged by the slope along it before and after, which the passes give anyway: no pass is spent on values.
    A few components that hold much of what there is to gain are turned among themselves first: that costs next to
    nothing, and in one step for all of them their detours would upset those that are nearly there. In trials at
    222,000 x 384 it halved the passes. (Tried without gain: carrying L-BFGS' memory over, finding more of them.)

    With `survey` the pass that is expected to be the last takes one; the step it leads to is not looked at again.
    """
    enough = tol * scale
    memory: deque[tuple[Array, Array]] = deque(maxlen=MEMORY)
    here = _Point.at(passes, rotation, contrast)
    best, since = here, 0  # and steps since the predicted gain was last made smaller
    left: deque[float] = deque(maxlen=2)  # what each of the last steps left of the gain
    for _ in range(MAX_POLISH):
        steps.append(Step(passes.spent, "polish", len(rotation), here.turn))
        if here.gain < 0.9 * best.gain:
            best, since = here, 0
        rate = max(left, default=1.0)
        if here.gain < enough or (rate < SURE and rate * here.gain < enough):
            ahead = cayley(here.step(memory)) @ here.rotation  # one more pass would only confirm it
            return Polished(ahead, True, here.survey, here.gain)
        if since >= STAGNANT and best.gain < AT_LIMIT * scale:
            return Polished(best.rotation, True, best.survey)
        since += 1
        tangled = here.tangled
        if len(tangled):
            memory.clear()  # of other components, most of it about these
        step = here.step(memory)
        others = here.gain - here.gain_among(tangled)
        apart = np.eye(len(rotation))
        if len(tangled):
            step[tangled] = step[:, tangled] = 0  # what they are to the others is seen when they are apart
            part = passes.within(here.rotation[tangled], store=passes.store())
            loose = max(LOOSE * others / scale, tol / 2)
            apart[np.ix_(tangled, tangled)] = polish(part, np.eye(len(tangled)), contrast, scale, loose, steps).rotation
        last = survey and rate < SURE and rate**2 * others < enough
        there = _Point.at(passes, apart @ cayley(step) @ here.rotation, contrast, last)
        before, after = float((here.gradient * step).sum()), float((there.gradient * step).sum())
        if after > OVERSHOT * abs(before) and np.array_equal(here.signs, there.signs) and not len(tangled):
            step *= before / (before - after)  # where a straight line through both slopes crosses zero
            there = _Point.at(passes, cayley(step) @ here.rotation, contrast, last)
        change = there.gradient - here.gradient
        if len(tangled) or not np.array_equal(here.signs, there.signs):
            memory.clear()  # of another function, or other components
        elif float((change * step).sum()) > 0:
            memory.append((step, change))
        left.append(there.gain / max(others, here.gain / 100))
        here = there
    return Polished(here.rotation, here.gain < AT_LIMIT * scale, here.survey)


@dataclass(frozen=True, eq=False)
class Polished:
    """Where polishing ended, and whether at its tolerance; a survey of its last pass, and what the contrast gained since."""

    rotation: Array
    converged: bool
    survey: Survey | None = None
    gained: float = 0.0


@dataclass(frozen=True, eq=False)
class _Point:
    """A rotation with the signed contrast's gradient and curvature over pairs there, as full matrices."""

    rotation: Array
    signs: Array
    gradient: Array
    curvature: Array
    survey: Survey | None = None

    @classmethod
    def at(cls, passes: Passes, rotation: Array, contrast: Contrast, surveyed: bool = False) -> _Point:
        """From one pass.

        The curvature is that of independent components, E G''(y_i) E y_j^2 in place of E G''(y_i) y_j^2: the step is
        then FastICA's. Measured pair by pair it is noisier than weak components can bear: on 20,000 rows polishing 222,000 x
        384 took 18 passes instead of 6. Downhill everywhere, and never almost nothing.
        """
        survey = passes.survey(rotation, contrast) if surveyed else None
        means = passes.step(rotation, contrast) if survey is None else survey.step
        own = np.diag(means.cross)
        signs = np.where(means.bend >= own, 1.0, -1.0)
        signed = signs[:, None] * means.cross
        alone = np.abs(means.bend - own)
        return cls(rotation, signs, signed - signed.T, np.maximum(alone[:, None] + alone, MIN_CURVATURE), survey)

    def step(self, memory: deque[tuple[Array, Array]]) -> Array:
        """The quasi-Newton step from here, no pair turning far at once."""
        return -_lbfgs(self.gradient, self.curvature, memory).clip(-MAX_TURN, MAX_TURN)

    @cached_property
    def gains(self) -> Array:
        """What a Newton step of each pair would add to the contrast, half of it counted for either component."""
        return self.gradient**2 / self.curvature / 4

    @property
    def gain(self) -> float:
        """What a Newton step would add to the contrast."""
        return float(self.gains.sum())

    def gain_among(self, some: NDArray[np.intp]) -> float:
        """What it would add by turning these components among themselves."""
        return float(self.gains[np.ix_(some, some)].sum())

    @property
    def tangled(self) -> NDArray[np.intp]:
        """The few components, if there are such, whose turns among themselves hold much of what there is to gain."""
        each = self.gains.sum(axis=1)
        some = np.flatnonzero(each > OUTSTANDING * np.median(each))
        few = 2 <= len(some) <= len(each) / 2
        return some if few and self.gain_among(some) > MUCH * self.gain else some[:0]

    @property
    def turn(self) -> float:
        """Radians a Newton step would turn a component, on average."""
        return float(np.sqrt(((self.gradient / self.curvature) ** 2).sum(axis=1)).mean())


def pair_curvature(bend: Array, own: Array, signs: Array) -> Array:
    """Second derivative of the signed contrast as two components turn into each other.

    s_i (E G''(y_i) y_j^2 - E G'(y_i) y_i) + the same with i and j exchanged; positive at an optimum. For independent
    components half of it is the pair formula below Theorem 2 in docs/theory.md.
    """
    half = signs[:, None] * (bend - own[:, None])
    curvature: Array = half + half.T
    return curvature


def curvature_errors(means: CurvatureMeans, signs: Array) -> Array:
    """Standard errors of `pair_curvature`, from the variance over rows of s_i (q_ij - p_i) + s_j (q_ji - p_j).

    The components having unit variance on these rows, what their squares explain of it does not vary.
    """
    both = np.outer(signs, signs)
    own = np.diag(means.products)
    # (s_i q_ij + s_j q_ji)^2, (s_i p_i + s_j p_j)^2 and twice their product
    bends = means.bend_square + means.bend_square.T + 2 * both * means.bends
    owns = own[:, None] + own + 2 * both * means.products
    mixed = means.bend_own + means.bend_own.T + both * (means.bend_other + means.bend_other.T)
    mean = pair_curvature(means.bend, means.own, signs)
    with_square = signs[:, None] * (means.bend_fourth - means.own_square)
    with_square += signs * (means.bend_same - np.diag(means.own_square)) - mean
    explained = with_square**2 / np.maximum(means.fourth - 1, 1e-12)
    variance = bends + owns - 2 * mixed - mean**2 - explained - explained.T
    errors: Array = np.sqrt(np.maximum(variance, 0.1 * np.abs(mean) ** 2) / means.n)
    return errors


def _lbfgs(gradient: Array, curvature: Array, memory: deque[tuple[Array, Array]]) -> Array:
    """The quasi-Newton direction: two-loop recursion with the pair curvature as first guess of the Hessian."""
    direction = gradient.copy()
    weights = []
    for step, change in reversed(memory):
        rho = 1 / float((step * change).sum())
        weight = rho * float((step * direction).sum())
        weights.append((weight, rho))
        direction -= weight * change
    direction /= curvature
    for (step, change), (weight, rho) in zip(memory, reversed(weights), strict=True):
        direction += (weight - rho * float((change * direction).sum())) * step
    return direction


def audit(sample: Values, rotation: Array, contrast: Contrast) -> list[tuple[int, int]]:
    """Disjoint pairs of components whose contrast gains when both are turned by 45 degrees.

    Every pair is screened by what its kurtosis would gain, which two products give for all of them; the most promising
    are confirmed by the contrast itself, with the gain's standard error.
    """
    y = np.asarray(sample @ rotation.T.astype(sample.dtype))
    n, d = y.shape
    if d < 2 or n < 16:
        return []
    gains = np.triu(_kurtosis_gains(np.clip(y, -AUDIT_CLIP, AUDIT_CLIP)), 1)
    promising = np.argsort(-gains, axis=None, kind="stable")[: AUDIT_PAIRS * d]
    level = gaussian_values(contrast.name).mean
    taken: set[int] = set()
    pairs = []
    for i, j in zip(*np.unravel_index(promising, gains.shape), strict=True):
        if gains[i, j] <= KURTOSIS_GAIN:
            break
        if i not in taken and j not in taken and _gains(y[:, [i, j]].astype(np.float64), contrast, level):
            taken |= {i, j}
            pairs.append((int(i), int(j)))
    return pairs


def _kurtosis_gains(y: Values) -> Array:
    """For every pair what the sum of |kurtosis| gains at 45 degrees."""
    n = len(y)
    square = y * y
    fourth = np.einsum("ij,ij->j", square, square).astype(np.float64) / n
    second = np.asarray(y.T @ y, dtype=np.float64) / n
    both = np.asarray(square.T @ square, dtype=np.float64) / n
    three_one = np.asarray((square * y).T @ y, dtype=np.float64) / n
    own = np.diag(second)
    alone = np.abs(fourth / own**2 - 3)
    even = fourth[:, None] + fourth + 6 * both
    odd = 4 * (three_one + three_one.T)
    spread = own[:, None] + own
    together = sum(np.abs((even + s * odd) / (spread + s * 2 * second).clip(1e-6) ** 2 - 3) for s in (1, -1))
    gains: Array = together - alone[:, None] - alone
    return gains


def _gains(pair: Array, contrast: Contrast, level: float) -> bool:
    """Whether the contrast of two components (columns) surely gains at 45 degrees."""
    turned_pair = pair @ (np.array([[1.0, 1.0], [1.0, -1.0]]) * np.sqrt(0.5))
    values = [np.asarray(contrast.value(columns)) - level for columns in (pair, turned_pair)]
    now, then = (value @ np.sign(value.mean(axis=0)) for value in values)
    gain = then - now
    return float(gain.mean()) > AUDIT_GAIN + 2 * float(gain.std()) / float(np.sqrt(len(gain)))


def turned(rotation: Array, pairs: list[tuple[int, int]]) -> Array:
    """The rotation with each of these pairs of components turned by 45 degrees."""
    result = rotation.copy()
    for i, j in pairs:
        result[i], result[j] = (rotation[i] + rotation[j]) * np.sqrt(0.5), (rotation[i] - rotation[j]) * np.sqrt(0.5)
    return result


def sample_contrast(sample: Values, rotation: Array, contrast: Contrast) -> float:
    """Sum over components of |E G(u) - E G(Gaussian)|, on a sample of whitened rows."""
    unmixing = rotation.T.astype(sample.dtype)
    total = np.zeros(len(rotation))
    piece = piece_rows(len(unmixing))
    for a in range(0, len(sample), piece):  # in pieces: all at once would be the largest arrays of a whole fit
        total += contrast.value(sample[a : a + piece] @ unmixing).sum(axis=0, dtype=np.float64)
    return float(np.abs(total / max(len(sample), 1) - gaussian_values(contrast.name).mean).sum())


def orthogonal(matrix: Array) -> Array:
    """The nearest matrix with orthonormal rows."""
    try:
        left, _, right = np.linalg.svd(matrix, full_matrices=False)
    except (
        np.linalg.LinAlgError
    ):  # divide and conquer gives up on some matrices with equal singular values; QR does not
        from scipy.linalg import svd

        left, _, right = svd(matrix, full_matrices=False, lapack_driver="gesvd")
    nearest: Array = left @ right
    return nearest


def cayley(skew: Array) -> Array:
    """An orthogonal matrix that turns by `skew` to second order."""
    identity = np.eye(len(skew))
    return np.asarray(np.linalg.solve(identity - skew / 2, identity + skew / 2), dtype=np.float64)
