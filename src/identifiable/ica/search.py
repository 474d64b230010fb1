"""The search: from a start to directions near the components, by FastICA's fixed point.

in rounds  on large tables. All directions take a step; those that turn far are on their way to no component and wait,
           the others go on by themselves until they settle, which costs as much less as they are few. What has settled
           is set aside, what is left of the space gets coordinates of its own, those that waited start anew from
           directions ordered by kurtosis. On few rows at first, on more whenever few settle. Ours.
apart      where passes are cheap: all directions on all rows; what has settled is set aside.
together   where passes are cheap and optima are many: nothing is set aside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import silent
from identifiable.groups import haar_rotation
from identifiable.ica.chance import by_chance
from identifiable.ica.contrasts import Contrast, Values
from identifiable.ica.passes import Passes, pieces
from identifiable.moments import Array
from identifiable.results import Step

SETTLED = 0.01  # 1 - cosine of the last turn below which a component is set aside in rounds: 0.14 radians
THOROUGH = 1e-5  # the same where a search is cheap: on few rows, setting aside late ends in better optima
TOGETHER = 1e-4  # and where nothing is set aside; scikit-learn's default
MAX_TOGETHER = 150
MAX_APART = 300
STALLED = 40  # steps apart without a component settling after which polishing takes over
SHRUNK = 0.75  # of its coordinates left, from which on what is left gets coordinates of its own
LOST = 0.5  # 1 - cosine of a turn, beyond which a direction is on its way to no component
MIN_ROWS = 20_000  # a search in rounds begins with
EARLY = 0.2  # rows it begins with, over the square of the components
ROWS_PER_SQUARE = 8  # rows it uses at most, over that square: with fewer, weak components are not found
SEARCH_ROWS = 200_000  # and it may always use as many as these
NEARLY_EVERY = 0.7  # a larger share of the rows is all of them
ROUND = 8  # steps of a round
GROWING = 1.05  # times its shape two steps before that a direction on its way to a source has, after so many
BEGUN = 3  # steps
WAITING = 0.7  # 1 - cosine of a turn, beyond which a direction waits for the next round
FEW = 0.08  # of the directions settling in a round, below which the next one takes more rows
MORE = 4  # times the rows when few settle
HELD = 0.5  # of its shape that a direction must show on other rows than those it was found on
HANDFUL = 0.02  # of the directions going on, with which no round does
MAX_ROUNDS = 60
MAX_IDLE = 6  # rounds on the most rows in which nothing settles after which polishing takes over,
IDLE_PASSES = 0.1  # or passes that such rounds have cost: of Gaussian directions there may be many
OUTER = 4  # one of so many directions at either end of the kurtoses begins a round on the most rows; Gaussian ones are between
NARROW = 8  # directions, or one of so many, that go on when few settle on the most rows


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


def search_in_rounds(
    passes: Passes,
    begin: Callable[[Passes], Array],
    contrast: Contrast,
    steps: list[Step],
    rng: np.random.Generator,
    sample: Values,
    rows: float | None = None,
    patient: bool = False,
) -> tuple[Array, Array]:
    """Rounds of fixed-point steps on few `rows` at first, until every direction has settled or none does any more.

    Returns what has settled, and an orthonormal basis of the rest. `begin` chooses the directions it begins with, from
    passes over those rows. A `patient` search looks for weak sources among Gaussian directions; others end when few settle
    on the most rows.

    What settles on few rows must be as little Gaussian on the others of `sample`, what settles on the most rows less so than
    chance: one direction fitted to noise takes the place of a source, and all that are found after it lean aside.

    A direction that has not come near a component is thrown about by noise: at 222,000 x 384 two thirds of all steps went
    there, until those directions were made to wait, and begin where what is looked for is nearer. 3.3 -> 1.7 passes
    (5.4 -> 2.5 with more weak sources).
    """
    d = passes.whitener.rank
    most = min(max(ROWS_PER_SQUARE * d**2, SEARCH_ROWS), passes.n)
    rows = _enough(max(EARLY * d**2, MIN_ROWS) if rows is None else rows, most, passes.n)
    # One store for all parts of the space: memory that is new costs more than what is written into it.
    store, narrow = passes.store(), passes.store()
    part, coordinates, left = _part(passes, np.eye(d), rows, store)
    left = begin(part)
    settled: list[Array] = []
    idle, busy = 0, passes.spent  # rounds in which nothing settled, and passes spent until then
    narrowed = False  # whether this space has been searched so
    tried = np.arange(d)
    for _ in range(MAX_ROUNDS):
        narrowing = patient and not narrowed
        begun = _narrowed(part, contrast, narrow) if narrowing else left[tried]
        found, coming, shapes = _round(part, begun, contrast, steps, narrowing)
        if rows < most:
            found = found[_holds(sample, found @ coordinates, contrast, shapes)]
        else:
            found = found[~by_chance(shapes, part.n, contrast, len(left))]
        waiting = _complement(np.vstack([found, coming]))
        settled.append(found @ coordinates)
        few = len(found) < FEW * len(left)
        left = np.vstack([coming, waiting])
        idle = idle + 1 if few and not len(found) and rows >= most else 0
        busy = busy if idle else passes.spent
        narrowed = (narrowed or narrowing) and not len(found)
        if len(left) <= 1 or (few and rows >= most and not patient):
            break
        if narrowed and (idle >= MAX_IDLE or passes.spent - busy > IDLE_PASSES):
            break
        if few and rows < most:
            rows = _enough(MORE * rows, most, passes.n)
            part, coordinates, left = _part(passes, left @ coordinates, rows, store)
        else:
            coordinates = left @ coordinates
            part, left = part.within(left, store=store), np.eye(len(left))
        tried = np.arange(len(left))
        if len(waiting) > 1:
            if rows >= most and not idle:
                outer = -(-len(waiting) // OUTER)
                tried = np.r_[: len(coming) + outer, len(left) - outer : len(left)]
            lost = left[-len(waiting) :]
            if patient and not narrowed:
                continue
            if idle:  # in a space and on rows seen before, they would begin where they began in vain
                left[-len(waiting) :] = haar_rotation(len(lost), rng) @ lost
            else:
                left[-len(waiting) :] = by_kurtosis(part, lost)
    return np.vstack(settled), left @ coordinates


def _narrowed(part: Passes, contrast: Contrast, store: NDArray[Any]) -> Array:
    """Directions to begin with where weak sources are few among many Gaussian directions, one for `NARROW` dimensions.

    Ours. Of k dimensions that half is kept in which distant rows are most (or least) frequent, and halved again, by its own rows
    alone. The noise of each halving is half that of the one before (in k dimensions n rows show sources by `by_kurtosis`
    from a kurtosis of sqrt(k (2 k + 8) / n) on), and what is left of a weak source stands out more and more. A fixed point
    within the narrowest space costs little, and its directions are near enough to those sources for one in all k.
    In 88 dimensions of 60,000 rows, 11 kept ones hold two thirds of the direction of sources of kurtosis 0.43 to 0.5.
    """
    k = part.whitener.rank
    least = max(NARROW, k // NARROW)
    if k <= 2 * least:
        return np.eye(k)
    begun, ordered = [], by_kurtosis(part, np.eye(k))
    for end in (slice(None, k // 2), slice(-(k // 2), None)):
        space = ordered[end]
        inner, q = part.within(space, store=store), len(space)
        while q > least:
            half = slice(None, max(q // 2, least)) if end.start is None else slice(-max(q // 2, least), None)
            kept = by_kurtosis(inner, np.eye(q))[half]
            space, inner, q = kept @ space, inner.within(kept, store=store), len(kept)
        rotation = by_kurtosis(inner, np.eye(q))
        for _ in range(ROUND):
            means = inner.step(rotation, contrast)
            rotation = orthogonal(means.cross - np.diag(means.bend)) @ rotation
        best = np.argsort(-np.abs(np.diag(means.cross) - means.bend), kind="stable")[: q // 2]
        begun.append(rotation[np.sort(best)] @ space)
    return np.vstack(begun)


def _round(
    part: Passes, directions: Array, contrast: Contrast, steps: list[Step], patient: bool
) -> tuple[Array, Array, Array]:
    """Directions that have settled, those still on their way to a component, and of the former E G'(y) y - E G''(y).

    On its way to a weak source a direction turns far, among noise, before it turns less: a `patient` round gives it time. But its
    shape grows from step to step, and that of a direction in noise stays at about 1.4 times the noise of its dimensions.
    """
    found, coming, shapes = directions[:0], directions, np.zeros(0)
    before = np.zeros((2, len(directions)))  # sizes of the shapes in the last two steps
    for step in range(2 * ROUND if patient else ROUND):
        towards = part.fixed_point(coming, contrast)
        shape = np.einsum("ij,ij->i", towards, coming)
        towards = orthogonal(towards - towards @ found.T @ found)
        change = (1 - np.abs(np.einsum("ij,ij->i", towards, coming))).clip(0)
        steps.append(Step(part.spent, "search", len(coming), float(np.arccos(1 - change.mean()))))
        still = change < SETTLED
        found, shapes = np.vstack([found, towards[still]]), np.concatenate([shapes, shape[still]])
        growing = (step < BEGUN) | (np.abs(shape) > GROWING * before[0])
        go = ((patient and step < ROUND) | (change <= WAITING)) & ~still & growing
        coming, before = towards[go], np.vstack([before[1], np.abs(shape)])[:, go]
        if len(coming) <= HANDFUL * len(directions):
            break
    return found, coming[:0] if patient else coming, shapes


def _holds(sample: Values, directions: Array, contrast: Contrast, shapes: Array) -> NDArray[np.bool_]:
    """Whether each direction has, on other rows, at least half of the shape by which it was found."""
    unmixing, sums = directions.T.astype(sample.dtype), np.zeros((3, len(directions)))
    for piece in pieces(sample):
        y = piece @ unmixing
        slope = np.empty_like(y)
        with silent():
            bends = contrast.slope_and_bends(y, slope)
        sums += np.einsum("ij,ij->j", y, y), np.einsum("ij,ij->j", y, slope), bends
    squares, own, bends = sums / len(sample)
    held: NDArray[np.bool_] = (own - bends * squares) * np.sign(shapes) > HELD * np.abs(shapes)
    return held


def _complement(directions: Array) -> Array:
    """An orthonormal basis of what is orthogonal to these."""
    basis: Array = np.linalg.qr(directions.T, mode="complete")[0][:, len(directions) :].T
    return basis


def search_apart(passes: Passes, rotation: Array, contrast: Contrast, steps: list[Step]) -> Array:
    """Fixed-point steps on all rows; what has settled is set aside, until all has or nothing more does."""
    settled: list[Array] = []
    store = passes.store()
    part, coordinates, active = passes, np.eye(len(rotation)), rotation
    idle = 0
    for _ in range(MAX_APART):
        active, change = _together(part, active, contrast, steps)
        still = change < THOROUGH
        settled.append(active[still] @ coordinates)
        active, lost = active[~still], change[~still] > LOST
        idle = 0 if still.any() else idle + 1
        if len(active) <= 1 or idle >= STALLED:
            break
        if len(active) < SHRUNK * part.whitener.rank:
            coordinates = active @ coordinates
            part, active = part.within(active, store=store), np.eye(len(active))
            if lost.sum() > 1:
                active[lost] = by_kurtosis(part, active[lost])
    return orthogonal(np.vstack([*settled, active @ coordinates]))


def search_together(passes: Passes, rotation: Array, contrast: Contrast, steps: list[Step]) -> Array:
    """Fixed-point steps of all components until none turns.

    Where rows are few, about half the squared dimension, there are many optima; this ends in better ones more often than
    setting components aside, at several times the passes.
    """
    for _ in range(MAX_TOGETHER):
        rotation, change = _together(passes, rotation, contrast, steps)
        if change.max() < TOGETHER:
            break
    return rotation


def _together(passes: Passes, rotation: Array, contrast: Contrast, steps: list[Step]) -> tuple[Array, Array]:
    """All components one step on, and by how much each turned (1 - cosine)."""
    means = passes.step(rotation, contrast)
    turn = orthogonal(means.cross - np.diag(means.bend))
    change = (1 - np.abs(np.diag(turn))).clip(0)
    steps.append(Step(passes.spent, "search", len(rotation), float(np.arccos(1 - change.mean()))))
    return turn @ rotation, change


def _enough(rows: float, most: float, n: int) -> float:
    """Rows to use where so many are wanted: the most, if they are nearly all there are."""
    return most if rows > NEARLY_EVERY * n else min(rows, most)


def _part(passes: Passes, rotation: Array, rows: float, store: NDArray[Any]) -> tuple[Passes, Array, Array]:
    """Passes over some rows of the components `rotation`, what their coordinates are in the space, and the components there."""
    share = rows / max(passes.n, 1)
    if share >= 1 and len(rotation) == passes.whitener.rank:
        return passes, np.eye(len(rotation)), rotation
    return passes.within(rotation, share, store), rotation, np.eye(len(rotation))


def by_kurtosis(part: Passes, lost: Array) -> Array:
    """Other directions in the space of those that are lost: where far rows are many, to where they are few.

    Ours. Light and heavy tails are then looked for in spaces of their own, and what is looked for is nearer to a direction
    the fewer there are. At 222,000 x 384 it halves the steps of the search, once the heaviest tails are found.
    """
    vectors = np.linalg.eigh(lost @ part.by_distance() @ lost.T)[1]
    found: Array = vectors.T @ lost
    return found


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
