"""Factors of a decoder from its Jacobians: exactly where they are exact, else by the operator in the form that fits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from identifiable.mechanistic.counting import (
    AGREED,
    FEW,
    Count,
    Form,
    PointByPoint,
    Stacked,
    View,
    agreement,
    count,
    judged,
    likely_number,
)
from identifiable.mechanistic.exact import ROUNDING, ExactSplit, Indices, exact_factors
from identifiable.mechanistic.operator import MOST, Frame, local_spectrum, spectrum, subspaces, whitened
from identifiable.mechanistic.sampling import Jacobians, Rows, rows_of
from identifiable.moments import Array
from identifiable.run import PLAIN, Run, Stage

LOOKED_AT = 20  # points that are looked at one by one
OUTPUTS = 1500  # of a point that is looked at alone
OWNED = 0.9  # share of the leverage that is where its output's owner says, if outputs have owners
COUNTING, POINTS = Stage("counting factors"), Stage("looking at points")


@dataclass(frozen=True, eq=False)
class Found:
    """Factors, their latent subspaces, and what was measured on the way.

    reason       a code: why the number is certain, or why not
    leak         leak_1 to leak_{rank + 1} in the `form` that was used; `counts` has every form that was tried
    dimensions   of each factor; in the local form at the first point
    owners       of every output: its factor, -1 if it is dead
    owned        share of the leverage at the points looked at that is where `owners` say
    subspaces    a basis (latents, dimension) of each factor, of length 1 in the whitened metric; empty if not `linear`
    linear       whether one change of basis serves all points
    at_points    number of factors at each of `looked_at`, by itself
    turns        (looked at, factors): largest angle in degrees between a subspace there and its own; NaN if it has no rows there
    """

    n_factors: int
    certain: bool
    reason: str
    form: Form
    leak: Array
    rank: int
    dimensions: tuple[int, ...]
    owners: Indices
    owned: float
    subspaces: tuple[Array, ...]
    null_space: Array
    linear: bool
    complete: bool
    rows: int
    counts: tuple[Count, ...]
    looked_at: Indices
    at_points: tuple[int, ...]
    turns: Array

    @property
    def moving(self) -> bool:
        """Whether outputs change their owner from point to point."""
        return self.owned < OWNED


@dataclass(frozen=True, eq=False)
class _AtPoint:
    """Some outputs of one point in their own whitened frame."""

    outputs: Indices
    values: Array
    frame: Frame


def find_factors(jacobians: Jacobians, *, seed: int = 0, run: Run = PLAIN) -> Found:
    """The factors of a decoder, at these points.

    Ours. (1) `exact_factors` of all rows, at the rounding of their dtype. (2) Otherwise the operator in its forms. The local one is tried
    where the others find one factor, because it needs no common basis; outputs divided by their rms only count where they separate
    more factors than the others find.

    >>> J = np.zeros((5, 12, 3))
    >>> J[:, :8, :2], J[:, 8:, 2:] = np.random.default_rng(0).standard_normal((5, 8, 2)), 1
    >>> found = find_factors(J @ [[1.0, 1, 0], [0, 1, 1], [1, 0, 1]])
    >>> found.n_factors, found.dimensions, found.certain
    (2, (2, 1), True)
    """
    rng = np.random.default_rng(seed)
    n = jacobians.shape[0]
    rows = rows_of(jacobians, seed=seed, run=run)
    frame = whitened(rows.values, rows.eps, rows.nodes)
    looked_at = np.unique(np.linspace(0, n - 1, min(n, LOOKED_AT)).round().astype(np.intp))
    exact = exact_factors(rows.values, eps=rows.eps)
    points = _at_points(jacobians, looked_at, rows, frame)
    forms: tuple[Form, ...] = ("outputs", "rows") if n > 1 else ("outputs",)
    frames = [frame, frame.shortened()][: len(forms)]
    stacked = Stacked(frame.white, rows.nodes, rows.points, rows.outputs, "outputs", n)
    views: list[View] = [
        replace(stacked, white=used.white, form=form) for used, form in zip(frames, forms, strict=True)
    ]
    counts: list[Count] = []
    for view in views:
        run.say(COUNTING, len(counts), len(forms) + 1)
        counts.append(count(view, rng=rng))
    if rows.complete and exact.n_factors > 1:
        outcome = _exactly(exact, counts, rows, frame)
    else:
        if n > 1 and frame.rank > 1 and max(found.n_factors for found in counts) == 1:
            together = _together(points)
            if together is not None:
                views.append(together)
                frames.append(frame)
                counts.append(count(together, rng=rng))
        scaled = _scaled(rows)
        view = replace(stacked, white=scaled.white, form="scaled")
        most = max(found.n_factors for found in counts)
        if likely_number(view.spectrum().leak) > most and (more := count(view, rng=rng)).separated > most:
            views.append(view)
            frames.append(scaled)
            counts.append(more)
        outcome = _nearly(views, counts, rows, frames, rng)
        if outcome.certain and outcome.count.form == "local" and _by_few(points, rows.eps, outcome.n_factors):
            outcome = replace(outcome, certain=False, reason="unstable")
    alone = tuple(_alone(point, rows.eps) for point in points)
    if outcome.certain and outcome.reason == "separated" and _differ(points, alone, outcome.n_factors):
        outcome = replace(outcome, certain=False, reason="points_differ")
    return _described(outcome, tuple(counts), jacobians, rows, points, alone, looked_at, run)


@dataclass(frozen=True, eq=False)
class _Outcome:
    count: Count
    n_factors: int
    reason: str
    certain: bool
    subspaces: tuple[Array, ...]  # empty: the local form
    frame: Frame


def _exactly(exact: ExactSplit, counts: list[Count], rows: Rows, frame: Frame) -> _Outcome:
    """The answer of the exact stage: certain, unless rows that are only repeated make it, or a factor itself nearly splits.

    A factor of two dimensions or more has more directions of rows than dimensions, or it would have split.
    """
    one_owner = all(len(set(exact.owners[rows.outputs == a])) == 1 for a in np.unique(rows.outputs))
    best = counts[0 if one_owner else -1]
    square = _copied(rows, exact.owners, exact.subspaces, ROUNDING * rows.eps * exact.condition)
    nearly = best.separated > exact.n_factors
    reason = "square" if square else "nearly_more" if nearly else "exact"
    return _Outcome(best, exact.n_factors, reason, reason == "exact", exact.subspaces, frame)


def _copied(rows: Rows, owners: Indices, bases: Sequence[Array], rounding: float) -> bool:
    """Whether two factors or more are one row each, repeated with the same gains, up to rounding.

    Ours. Such rows split whatever the decoder: as many rows as latents are independent. Points of a linear decoder repeat them, and so do
    copies of its outputs, with one gain for each copy. Outputs that have each a gain of their own, or a slope that changes from point
    to point, do not: these are factors of one dimension. One such factor alone is no accident.
    """
    lengths = [np.sort(each) / each.sum() for each in _lengths(rows, owners, bases)]
    alike = (len(a) == len(b) and np.abs(a - b).max() <= rounding * a.max() for a, b in combinations(lengths, 2))
    return any(alike)


def _repeated(rows: Rows, owners: Indices, bases: Sequence[Array], leak: float) -> bool:
    """The same with noise, for gains of 1.

    Rows are the same if their lengths spread by no more than noise explains: noise that changes lengths by a share s turns rows too, by s
    for each other latent, and leak_K is then 2 s² at least.
    """
    spread = math.sqrt(leak / 2)
    return sum(bool(each.std() <= spread * each.mean()) for each in _lengths(rows, owners, bases)) > 1


def _lengths(rows: Rows, owners: Indices, bases: Sequence[Array]) -> list[Array]:
    """Of each factor of one dimension, the lengths of its rows."""
    return [np.abs(rows.values[owners == k] @ basis[:, 0]) for k, basis in enumerate(bases) if basis.shape[1] == 1]


def _nearly(
    views: list[View], counts: list[Count], rows: Rows, frames: list[Frame], rng: np.random.Generator
) -> _Outcome:
    """The first form that finds more than one factor, as they are strongest against noise in this order, or one that separates more."""
    best = 0
    for i, found in enumerate(counts):
        if max(found.separated, found.n_factors if counts[best].n_factors == 1 else 1) > counts[best].n_factors:
            best = i
    chosen, frame = counts[best], frames[best]
    if frame.rank == 1:
        known = len(frame.to_white) == 1 or len(rows.values) >= FEW
        return _Outcome(chosen, 1, "one_latent" if known else "few_rows", known, (frame.to_white,), frame)
    chosen = counts[best] = replace(chosen, agreement=agreement(views[best], chosen.likely, rng))
    others = [found for found in counts if found is not chosen]
    why = judged(chosen, len(rows.values), frame.rank, others)
    bases = () if chosen.form == "local" else tuple(frame.to_white @ part for part in chosen.parts.parts)
    if why is None and rows.complete and bases:
        owners = chosen.parts.owners if chosen.form == "rows" else chosen.parts.owners[rows.nodes]
        rounding = ROUNDING * rows.eps  # a leak below it: exact, though the exact stage stopped short by the last bits
        copied = chosen.leak <= rounding and _copied(rows, owners, bases, math.sqrt(rounding))
        why = "square" if copied or _repeated(rows, owners, bases, chosen.leak) else None
    if why is None and chosen.form == "scaled":
        why = "scales"
    return _Outcome(chosen, chosen.n_factors, why or "separated", why is None, bases, frame)


def _scaled(rows: Rows) -> Frame:
    """Rows divided by the rms of their output, as they should be if noise is relative to outputs.

    Ours. The rms depends on the basis of the latents, so such an answer is never certain. But leaks that are separated in any weighting
    of the rows are a split of these rows: a factor a thousand times weaker than another is lost in 1 % of the other's noise.
    """
    rms = np.sqrt(np.bincount(rows.nodes, (rows.values**2).sum(axis=1)))
    return whitened(rows.values / rms[rows.nodes][:, None], rows.eps, rows.nodes)


def _at_points(jacobians: Jacobians, looked_at: Indices, rows: Rows, frame: Frame) -> list[_AtPoint]:
    """The outputs with most leverage, at each point that is looked at."""
    m = jacobians.shape[1]
    weight = np.bincount(rows.outputs, (frame.white**2).sum(axis=1), m)
    outputs = np.sort(np.argsort(-weight, kind="stable")[:OUTPUTS])
    read = np.stack([np.asarray(jacobians[int(i) : int(i) + 1][0][outputs], np.float64) for i in looked_at])
    live = read.any(axis=(0, 2))
    outputs, read = outputs[live], read[:, live]
    found = []
    for values in read:
        if values.any():
            found.append(_AtPoint(outputs, values, whitened(values, rows.eps)))
        else:
            found.append(_AtPoint(outputs[:0], values[:0], replace(frame, white=frame.white[:0])))
    return found


def _together(points: list[_AtPoint]) -> PointByPoint | None:
    """The local form; None where a point has too few rows to say anything."""
    whites = [point.frame.white for point in points if len(point.outputs)]
    few = not whites or min(len(white) / white.shape[1] for white in whites) < FEW
    return None if few else PointByPoint(whites)


def _by_few(points: list[_AtPoint], eps: float, K: int) -> bool:
    """Whether a few strong outputs determine the number of the local form: a tighter bound on them changes it."""
    frames = [whitened(point.values, eps, most=MOST / 4) for point in points if len(point.outputs)]
    return likely_number(local_spectrum([frame.white for frame in frames]).leak) != K


def _differ(points: list[_AtPoint], alone: Sequence[int], K: int) -> bool:
    """Whether points by themselves show fewer factors than all points together.

    Ours. K factors own their outputs at every point, so a point may split further but not less. A point is asked as a resample is, and
    as many have to agree; those with too few rows to count by are not asked.
    """
    heard = [found >= K for point, found in zip(points, alone, strict=True) if _enough(point)]
    return bool(heard) and float(np.mean(heard)) < AGREED


def _enough(point: _AtPoint) -> bool:
    return len(point.outputs) > 0 and (point.frame.white**2).sum(axis=1).astype(bool).sum() >= FEW * point.frame.rank


def _described(
    outcome: _Outcome,
    counts: tuple[Count, ...],
    jacobians: Jacobians,
    rows: Rows,
    points: list[_AtPoint],
    alone: tuple[int, ...],
    looked_at: Indices,
    run: Run,
) -> Found:
    """What was found, with the owners of the outputs and what each point says by itself."""
    K, linear, frame = outcome.n_factors, bool(outcome.subspaces), outcome.frame
    normed = [basis @ np.linalg.inv(np.linalg.qr(frame.from_white.T @ basis, mode="r")) for basis in outcome.subspaces]
    metric = [np.linalg.qr(frame.from_white.T @ basis)[0] for basis in outcome.subspaces]
    m = jacobians.shape[1]
    energies: list[Array] = []
    turns: list[list[float]] = []
    for i, point in zip(looked_at, points, strict=True):
        run.say(POINTS, len(energies), len(looked_at))
        J = np.asarray(jacobians[int(i) : int(i) + 1][0], np.float64)
        here = normed if linear else _local_subspaces(point, outcome.count, K)
        energy = np.stack([((J @ basis) ** 2).sum(axis=1) for basis in here], axis=1) if here else np.zeros((m, K))
        energies.append(energy)
        turns.append(list(_turns(point, energy, metric, frame, K)) if linear else [np.nan] * K)
    stacked = np.stack(energies)
    total = stacked.sum(axis=0)
    owners = np.where(total.sum(axis=1) > 0, total.argmax(axis=1), -1)
    at_home = stacked.argmax(axis=2) == owners
    leverage = stacked.sum(axis=2)
    order = _order(owners, K)
    place = np.argsort(order)
    dimensions = tuple(basis.shape[1] for basis in normed) if linear else outcome.count.parts.dimensions
    return Found(
        n_factors=K,
        certain=outcome.certain,
        reason=outcome.reason,
        form=outcome.count.form,
        leak=outcome.count.found.leak,
        rank=frame.rank,
        dimensions=tuple(dimensions[k] for k in order),
        owners=np.where(owners >= 0, place[owners], -1),
        owned=float((leverage * at_home).sum() / leverage.sum()) if leverage.any() else 1.0,
        subspaces=tuple(normed[k] for k in order) if linear else (),
        null_space=frame.null_space,
        linear=linear,
        complete=rows.complete,
        rows=len(rows.values),
        counts=counts,
        looked_at=looked_at,
        at_points=alone,
        turns=np.array(turns)[:, order],
    )


def _order(owners: Indices, K: int) -> Indices:
    """Factors by their first output; those without one come last."""
    first = [int(np.argmax(owners == k)) if (owners == k).any() else len(owners) for k in range(K)]
    return np.argsort(first, kind="stable")


def _alone(point: _AtPoint, eps: float) -> int:
    """The number of factors at one point, by itself; 0 where nothing moves."""
    white = point.frame.white
    if not len(white):
        return 0
    exact = exact_factors(point.values, eps=eps).n_factors
    return (
        exact if exact > 1 or point.frame.rank == 1 else likely_number(spectrum(white[(white**2).sum(axis=1) > 0]).leak)
    )


def _turns(point: _AtPoint, energy: Array, metric: list[Array], frame: Frame, K: int) -> Iterator[float]:
    """How far each factor's subspace at this point, from the rows that are its own there, is turned from the common one."""
    white, owners = point.frame.white, energy[point.outputs].argmax(axis=1) if len(point.outputs) else point.outputs
    if len(np.unique(owners)) < K or point.frame.rank < frame.rank:
        yield from [np.nan] * K
        return
    axes, dimensions = subspaces(white, owners, K)
    for k, end in enumerate(np.cumsum(dimensions)):
        here = np.linalg.qr(frame.from_white.T @ point.frame.to_white @ axes[:, end - dimensions[k] : end])[0]
        yield largest_angle(here, metric[k])


def largest_angle(first: Array, second: Array) -> float:
    """The largest principal angle in degrees of two orthonormal bases; 90 where they differ in dimension."""
    if first.shape[1] != second.shape[1]:
        return 90.0
    apart = second - first @ (first.T @ second)  # the sine: exact where the cosine rounds to 1
    return float(np.degrees(np.arcsin(min(1.0, float(np.linalg.norm(apart, 2))))))


def _local_subspaces(point: _AtPoint, found: Count, K: int) -> list[Array]:
    """Subspaces at one point, from the owners that the local form found."""
    white = point.frame.white
    owners = found.parts.owners
    if len(white) != len(owners) or len(np.unique(owners)) < K:
        return []
    axes, dimensions = subspaces(white, owners, K)
    ends = np.cumsum(dimensions)
    return [point.frame.to_white @ axes[:, end - size : end] for size, end in zip(dimensions, ends, strict=True)]
