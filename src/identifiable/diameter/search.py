"""The search: the best pair so far, and the stages that leave nothing better behind."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identifiable._checks import DataError
from identifiable.blocks import Blocks, fold
from identifiable.diameter import tuning
from identifiable.diameter.candidates import (
    Candidates,
    Extent,
    Float32,
    Float64,
    Found,
    Frame,
    Index,
    Radii,
    Task,
    cache_pieces,
    enclosing_center,
    norm_bound,
    pairs_within,
    sample_middle,
)
from identifiable.run import Progress, Stage


def tree_order(points: Float32, leaf: int) -> Index:
    """Order rows so that every run of `leaf` rows is a cell of a k-d tree, cut across the widest axis."""
    order = np.arange(len(points))
    ranges = [(0, len(points))]
    while ranges:
        a, b = ranges.pop()
        if b - a <= leaf:
            continue
        inside = points[order[a:b]]
        axis = int(np.argmax(inside.var(axis=0)))
        half = leaf * max(-(-(b - a) // (2 * leaf)), 1)  # whole leaves on the left
        cut = np.argpartition(inside[:, axis], half)
        order[a:b] = order[a:b][cut]
        ranges += [(a, a + half), (a + half, b)]
    return order


def tree_bounds(heads: Float32, tails: Float32, radius: Float64, leaf: int, turning: float) -> Float32:
    """Upper bounds of the distance between any two rows of two leaves, for all pairs of leaves.

    On the leading axes the smaller of a ball bound and an angular bound (law of cosines at the widest angle),
    then Pythagoras with the remaining norms, then never more than the sum of radii.
    """
    starts = np.arange(0, len(heads), leaf)
    sizes = np.diff(np.append(starts, len(heads)))
    points = heads.astype(np.float64)
    middle = np.add.reduceat(points, starts) / sizes[:, None]
    each = np.repeat(np.arange(len(starts)), sizes)
    spread = np.maximum.reduceat(np.linalg.norm(points - middle[each], axis=1), starts)
    length = np.linalg.norm(points, axis=1)
    longest, shortest = np.maximum.reduceat(length, starts), np.minimum.reduceat(length, starts)
    tail, reach = np.maximum.reduceat(tails, starts), np.maximum.reduceat(radius, starts)

    size = np.linalg.norm(middle, axis=1)
    directed = (size > 1e-6 * longest) & (shortest > 1e-6 * longest)
    toward = middle / np.where(directed, size, 1)[:, None]
    unit = points / np.where(length > 0, length, 1)[:, None]
    chord = np.maximum.reduceat(np.linalg.norm(unit - toward[each], axis=1), starts)
    width = np.where(directed, 2 * np.arcsin(np.minimum(chord / 2, 1)), np.pi)

    squares = np.einsum("ij,ij->i", middle, middle)
    bounds = np.empty((len(starts), len(starts)), np.float32)
    for a in range(0, len(starts), 256):
        rows = slice(a, a + 256)
        gap = np.sqrt(np.maximum(squares[rows, None] + squares - 2 * (middle[rows] @ middle.T), 0)) + 1e-7 * reach.max()
        ball = gap + spread[rows, None] + spread
        angle = np.arccos(np.clip(toward[rows] @ toward.T, -1, 1)) + width[rows, None] + width + 1e-6
        cosine = np.cos(np.minimum(angle, np.pi))
        product = np.where(cosine < 0, longest[rows, None] * longest, shortest[rows, None] * shortest)
        angular = np.sqrt(longest[rows, None] ** 2 + longest**2 - 2 * product * cosine)
        radii = reach[rows, None] + reach
        head = np.minimum(ball, angular) + turning * radii
        bounds[rows] = np.minimum(np.sqrt(head**2 + (tail[rows, None] + tail) ** 2), radii) * (1 + 1e-6)
    return bounds


@dataclass(frozen=True)
class Diameter:
    """`value`: the largest distance; `rows`: the two rows that attain it; `evaluated`: how many pairs were looked at.

    `evaluated` counts pairs for which a product, whole or partial, was formed; all others were excluded in bulk.
    """

    value: float
    rows: tuple[int, int]
    evaluated: int


class Search:
    """One call of `diameter`: the best pair so far, and the stages that leave nothing better behind."""

    def __init__(
        self, table: Blocks, center: ArrayLike | None, workers: int, pool: ThreadPoolExecutor, progress: Progress | None
    ):
        self.table, self.workers, self.pool, self.progress = table, workers, pool, progress
        with np.errstate(all="ignore"):
            self.frame = Frame(table, *sample_middle(table, center))
        self.square = -1.0  # of the best distance so far, at the frame's scale
        self.pair = (0, 0)
        self.evaluated = 0
        self.scratch = threading.local()

    def run(self) -> Diameter:
        n = self.table.n
        radius = self._first_radii()
        if radius is None:
            return Diameter(0.0, (0, min(1, n - 1)), n - 1)
        candidates = self._candidates(radius)
        del radius
        if len(candidates) > 1:
            self._shrink(candidates)
            self._arrange(candidates)
            self._finish(candidates)
        self._report(1.0)
        with np.errstate(over="ignore"):
            value = float(np.ldexp(math.sqrt(self.square), -self.frame.exponent))
        return Diameter(value, self.pair, min(self.evaluated, n * (n - 1) // 2))

    def _report(self, share_of_pairs: float) -> None:
        """The first pass is the first half of the progress, pairs are the second."""
        if self.progress is not None:
            n = self.table.n
            self.progress(Stage("diameter"), n + int(n * share_of_pairs), 2 * n)

    def _map(self, run: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
        return [run(part) for part in parts] if self.workers == 1 or len(parts) < 2 else list(self.pool.map(run, parts))

    # the best pair

    def _floor(self, slack: float) -> float:
        """What a distance between float32 rows must reach for the pair to matter."""
        return max(math.sqrt(max(self.square, 0.0)) * (1 - (self.table.d + 8) * 2.0**-50) - 2 * slack, 0.0)

    def _offer(self, first: Index, second: Index, squares: Float64) -> None:
        """Take the best of exactly evaluated pairs; of equal ones the first in row order."""
        if not len(squares):
            return
        top = squares == squares.max()
        low, high = np.minimum(first[top], second[top]), np.maximum(first[top], second[top])
        at = int(np.lexsort((high, low))[0])
        square, pair = float(squares.max()), (int(low[at]), int(high[at]))
        if square > self.square or (square == self.square and pair < self.pair):
            self.square, self.pair = square, pair

    def _offer_pair(self, first: int, second: int) -> None:
        pair = np.array([first]), np.array([second])
        self._offer(*pair, self.frame.squared_distances(*pair))

    def _offer_among(self, rows: Index, near: Float32) -> None:
        """The farthest pair, as float32 sees it, among a few rows."""
        half = np.einsum("ij,ij->i", near, near) / 2
        first, second = divmod(int(np.argmax(half[:, None] + half - near @ near.T)), len(rows))
        if first != second:
            self._offer_pair(int(rows[first]), int(rows[second]))
        self.evaluated += len(rows) * (len(rows) - 1) // 2

    # stage 1: radii

    def _radii(self, frame: Frame, progress: Progress | None = None) -> Float64:
        done = fold(
            [self.table], lambda: Radii(frame), workers=self.workers, progress=progress, stage=Stage("diameter")
        )
        return norm_bound(np.concatenate(done.parts), self.table.d)

    def _first_radii(self) -> Float64 | None:
        """Distances to a centre, in a frame that suits the data; None if all rows are equal."""

        def half(stage: Stage, done: int, total: int) -> None:
            if self.progress is not None:
                self.progress(stage, done, 2 * total)

        radius = self._radii(self.frame, half)
        self._check_finite(radius)
        largest = float(radius.max())
        if 2.0**-30 < largest < 2.0**50:
            self._offer_extremes(radius, self.frame)
            if 4 * math.sqrt(max(self.square, 0.0)) > largest:
                return radius
        # Equal rows, a centre far outside, or a few rows on another scale: measure from the first row instead.
        center = self.table[0:1][0].astype(np.float64)
        extent = fold([self.table], lambda: Extent(center), workers=self.workers).value
        if extent == 0:
            return None
        self.frame = Frame(self.table, center, -math.frexp(extent)[1])
        radius = self._radii(self.frame)
        self.square = -1.0
        self._offer_pair(0, int(np.argmax(radius)))
        self._offer_extremes(radius, self.frame)
        return radius

    def _check_finite(self, radius: Float64) -> None:
        suspect = np.flatnonzero(~np.isfinite(radius))
        bad: list[int] = []
        for at in cache_pieces(len(suspect), self.table.d):
            rows = suspect[at]
            bad += rows[~np.isfinite(self.table[rows].astype(np.float64)).all(axis=1)].tolist()
        if bad:
            shown = ", ".join(map(str, bad[:3])) + (", ..." if len(bad) > 3 else "")
            raise DataError(
                f"{self.table.name}: {len(bad)} of {self.table.n} rows hold NaN or infinite values "
                f"(first rows: {shown}); remove or repair them first."
            )

    def _offer_extremes(self, radius: Float64, frame: Frame) -> None:
        rows = _largest(radius)
        self._offer_among(rows, frame.near(self.table[rows]))

    def _candidates(self, radius: Float64) -> Candidates:
        """Rows that their radius leaves a chance; while they are too many to keep, a pass with a better centre."""
        rows, slack = self._alive(radius)
        for _ in range(2):
            if len(rows) * self.table.d <= tuning.CACHE_VALUES:
                break
            extremes = _largest(radius)
            frame = self.frame.moved(enclosing_center(self.frame.near(self.table[extremes])))
            moved = self._radii(frame)
            self._offer_extremes(moved, frame)
            left, _ = self._alive(moved)
            if len(left) >= len(rows):
                break
            # The rows that the earlier centre excludes stay excluded, but a radius must be about the new one.
            rows = np.intersect1d(left, rows, assume_unique=True)
            radius, self.frame = moved, frame
            slack = 1.01 * tuning.UNIT * float(radius.max())
        rows = self._settle_extremes(rows, radius, slack)
        store = None
        if len(rows) * self.table.d <= tuning.CACHE_VALUES:
            store = np.empty((len(rows), self.table.d + 3), np.float32)

            def load(at: slice) -> None:
                store[at, : self.table.d] = self.frame.near(self.table[rows[at]])

            self._map(load, cache_pieces(*store.shape))
        return Candidates(self.frame, rows, radius[rows], slack, store)

    def _settle_extremes(self, rows: Index, radius: Float64, slack: float) -> Index:
        """Screen the outermost rows against all others, if many remain only because of them; the rows then left."""
        ordered = rows[np.argsort(-radius[rows], kind="stable")]
        outer = radius[ordered]
        d, floor = self.table.d, self._floor(slack)

        def cost(count: int) -> float:
            left = np.searchsorted(-outer, outer[count] - floor, side="right") - count
            screening = (
                len(rows) * (tuning.READ_COST * d + count * (tuning.PAIR_COST + tuning.AXIS_COST * d)) if count else 0.0
            )
            return float(screening + max(left, 0) * tuning.KEEP_COST * d)

        count = min((m for m in (0, 16, 32, 64, 128, 256, 512) if m < len(rows)), key=cost)
        if not count:
            return rows
        others = np.sort(ordered[count:])  # in the order of storage
        both = np.concatenate([ordered[:count], others])
        c = Candidates(self.frame, both, radius[both], slack, None)
        at, leaves = slice(0, count), np.arange(-(-len(both) // c.leaf))
        heads = c.heads(at)
        self._round(c, [Task(at, heads, leaves[a : a + 16]) for a in range(0, len(leaves), 16)])
        left: Index = others[radius[others] + radius[others].max() >= self._floor(slack)]
        return left

    def _alive(self, radius: Float64) -> tuple[Index, float]:
        largest = float(radius.max())
        slack = 1.01 * tuning.UNIT * largest
        return np.flatnonzero(radius + largest >= self._floor(slack)), slack

    # stage 1 goes on with the rows that are kept

    def _shrink(self, c: Candidates) -> None:
        """Better pairs and a better centre, until they no longer pay."""
        for _ in range(4):
            before = len(c)
            if c.cache is None or before <= tuning.TILE:
                return
            self._walk(c, c.cache)
            self._move(c, c.cache)
            c.keep(c.radius + c.radius.max() >= self._floor(c.slack))
            if len(c) > 0.8 * before:
                return

    def _distances(self, cache: Float32, point: Float32) -> Float64:
        """Upper bounds of the distances from all kept rows to a point."""

        def run(at: slice) -> Float32:
            off = cache[at] - point
            squares: Float32 = np.einsum("ij,ij->i", off, off)
            return squares

        return norm_bound(np.concatenate(self._map(run, cache_pieces(*cache.shape))), self.table.d)

    def _walk(self, c: Candidates, cache: Float32) -> None:
        """From a row to the row farthest from it, and on while the distance grows."""
        ends = np.flatnonzero(np.isin(c.rows, self.pair))
        seen: set[int] = set()
        for start in (*ends.tolist(), *np.argsort(-c.radius, kind="stable")[: tuning.WALKS].tolist()):
            at, reached = start, 0.0
            while at not in seen and len(seen) < tuning.WALK_STEPS:
                seen.add(at)
                away = self._distances(cache, cache[at])
                self.evaluated += len(c)
                far = int(np.argmax(away))
                if away[far] <= reached:
                    break
                reached = float(away[far])
                self._offer_pair(int(c.rows[at]), int(c.rows[far]))
                at = far

    def _move(self, c: Candidates, cache: Float32) -> None:
        """Move the centre towards that of the smallest enclosing ball, if that excludes more pairs."""
        extremes = np.union1d(_largest(c.radius), np.flatnonzero(np.isin(c.rows, self.pair)))
        by = enclosing_center(cache[extremes])
        radius = self._distances(cache, by)
        slack = c.slack + 1.01 * tuning.UNIT * float(radius.max())
        if pairs_within(radius, self._floor(slack)) >= pairs_within(c.radius, self._floor(c.slack)):
            return
        for at in cache_pieces(*cache.shape):
            cache[at] -= by
        c.radius, c.slack = radius, slack

    # stage 2: leaves

    def _arrange(self, c: Candidates) -> None:
        """Order rows into leaves; if much is left to do, without copies, on principal axes and by the better order."""
        d = self.table.d
        by_products = self._products_cost(c)
        if by_products > len(c) * (tuning.COPY_COST + 2 * d):
            self._drop_copies(c)
            by_products = self._products_cost(c)
        by_axes = d**3 + len(c) * (tuning.TREE_COST + tuning.AXIS_COST * d * d / 2)
        if by_products > 2 * by_axes:
            c.leaf = tuning.LEAF * 2 ** max(0, math.ceil(math.log2(len(c) / (tuning.LEAF * tuning.MAX_LEAVES))))
            self._turn(c)
            leading = c.cache if c.turned is None else c.turned
            if leading is not None and (c.axes is not None or d <= tuning.TREE_AXES) and self._cut_tree(c, leading):
                return
        c.arrange(np.argsort(-c.radius, kind="stable"))

    def _products_cost(self, c: Candidates) -> float:
        pairs = pairs_within(c.radius, self._floor(c.slack)) / 2
        return pairs * (tuning.PAIR_COST + tuning.AXIS_COST * self.table.d)

    def _drop_copies(self, c: Candidates) -> None:
        """Leave out rows equal to an earlier one: ties between copies would all have to be evaluated."""
        key = np.empty((len(c), 2), np.float32)
        weights = np.cos(np.arange(self.table.d, dtype=np.float32))
        for at in cache_pieces(len(c), self.table.d):
            near = c.near(at)
            key[at, 0] = np.einsum("ij,ij->i", near, near)
            key[at, 1] = np.einsum("ij,j->i", near, weights)
        order = np.lexsort((c.rows, key[:, 1], key[:, 0]))
        new = np.append(True, (key[order][1:] != key[order][:-1]).any(axis=1))
        models = order[np.maximum.accumulate(np.where(new, np.arange(len(c)), 0))][~new]  # first with the same key
        copies = order[~new]
        keep = np.ones(len(c), bool)
        for at in cache_pieces(len(copies), self.table.d):
            these, those = copies[at], models[at]
            same = (self.table[c.rows[these]] == self.table[c.rows[those]]).all(axis=1)
            keep[these[same]] = False
        if not keep.all():
            c.keep(keep)

    def _turn(self, c: Candidates) -> None:
        """Principal axes of the candidates, as many as the screen will want; none if it will want all."""
        d = self.table.d
        if d <= tuning.TREE_AXES:
            return
        at = np.unique(np.linspace(0, len(c) - 1, min(-(-len(c) // 4), 4 * tuning.SAMPLE_ROWS)).astype(np.intp))
        sample = c.near(at).astype(np.float64)
        axes = np.linalg.eigh(sample.T @ sample)[1][:, ::-1]
        ladder = np.unique(np.append(-(-np.arange(1, 17) * d // 16), min(tuning.TREE_AXES, d)))

        heads = sample @ axes
        some, others = np.arange(0, len(at), max(len(at) // 96, 1)), np.arange(0, len(at), max(len(at) // 384, 1))
        tails = np.sqrt(np.maximum(c.radius[at, None] ** 2 - np.cumsum(heads**2, axis=1)[:, ladder - 1], 0))
        best = self._cheapest(
            (heads[some], tails[some], c.radius[at[some]]),
            (heads[others], tails[others], c.radius[at[others]]),
            ladder,
            self._floor(c.slack),
        )
        if best == len(ladder) - 1:
            return
        width = int(ladder[min(best + 2, len(ladder) - 1)])  # a little more, for rounds that want it
        cache = turned = c.cache
        if cache is not None and width > 0.6 * d:
            width = d  # turned in place: a second array would be too large
        elif cache is not None:
            turned = np.empty((len(c), width), np.float32)
        c.turning = ((d + 1) * 1.01 + 2) * tuning.UNIT * math.sqrt(width)
        axes32 = np.ascontiguousarray(axes[:, :width], np.float32)
        c.ladder = ladder[ladder <= width]
        c.tails = np.empty((len(c), len(c.ladder)), np.float32)

        def turn(rows: slice) -> None:
            heads = c.near(rows) @ axes32
            inside = np.add.reduceat(heads * heads, np.append(0, c.ladder[:-1]), axis=1, dtype=np.float64)
            square = c.radius[rows, None] ** 2
            left = np.maximum(square - np.cumsum(inside, axis=1), 0) + (2.1 * c.turning + 4 * tuning.UNIT) * square
            c.tails[rows] = np.sqrt(left) * (1 + 2 * tuning.UNIT)
            if turned is not None:
                turned[rows] = heads

        self._map(turn, cache_pieces(len(c), d))
        c.axes = axes32
        c.turned = None if turned is cache else turned

    def _cheapest(
        self, some: tuple[Any, Any, Float64], others: tuple[Any, Any, Float64], ladder: Index, floor: float
    ) -> int:
        """The step of the ladder with the least cost per pair: more axes cost more and leave fewer pairs."""
        (heads, tails, radius), (heads2, tails2, radius2) = some, others
        possible = radius[:, None] + radius2 >= floor
        missing = (radius[:, None] ** 2 + radius2**2 - floor**2) / 2
        d, a, costs = self.table.d, 0, []
        for step, k in enumerate(ladder.tolist()):
            missing = missing - heads[:, a:k] @ heads2[:, a:k].T
            alive = (missing + tails[:, step, None] * tails2[:, step] >= 0) & possible
            share = (np.count_nonzero(alive) + 1) / (np.count_nonzero(possible) + 1)
            after = min(
                share * (tuning.EXACT_COST + tuning.EXACT_AXIS_COST * d), 2 * (tuning.PAIR_COST + tuning.AXIS_COST * d)
            )
            costs.append(tuning.PAIR_COST + tuning.AXIS_COST * k + after + (tuning.PASS_COST if k < d else 0))
            a = k
        return int(np.argmin(costs))

    def _cut_tree(self, c: Candidates, leading: Float32) -> bool:
        """Order by a k-d tree if its leaves exclude more pairs than leaves by radius would."""
        step = int(np.flatnonzero(c.ladder <= tuning.TREE_AXES)[-1])
        axes = int(c.ladder[step])
        floor = self._floor(c.slack)
        reach = -np.sort(-c.radius)[:: c.leaf]
        by_radius = np.mean(reach[:, None] + reach >= floor)

        def cut(at: slice, leaf: int) -> tuple[Index, Float32, float]:
            heads = np.ascontiguousarray(leading[at, :axes])
            order = tree_order(heads, leaf)
            tails, radius = c.tails[at, step][order], c.radius[at][order]
            bounds = tree_bounds(heads[order], tails, radius, leaf, c.turning)
            return order, bounds, float(np.mean(bounds >= floor))

        # A tree on every eighth row costs an eighth and has leaves nearly as wide.
        if cut(slice(None, None, 8), c.leaf // 8)[2] > 0.5 * by_radius:
            return False
        order, bounds, by_tree = cut(slice(None), c.leaf)
        if by_tree >= by_radius:
            return False
        c.arrange(order)
        c.bounds = bounds
        return True

    # stages 3 and 4: screens and exact distances

    def _finish(self, c: Candidates) -> None:
        """Screen every pair of leaves that may hold a better pair, in rounds between which L is raised."""
        group = max((tuning.TILE if c.cache is not None else tuning.STREAMED_ROWS) // c.leaf, 1)
        leaves, tasks, size = len(c.reach), list[Task](), 4
        for a in range(0, leaves, group):
            tasks += self._cover(c, a, min(a + group, leaves))
            if len(tasks) >= size or a + group >= leaves:
                self._round(c, tasks)
                tasks, size = [], min(2 * size, tuning.ROUND_TASKS)
                self._report(1 - (1 - a / leaves) ** 2)

    def _cover(self, c: Candidates, a: int, b: int) -> Iterator[Task]:
        """Products that cover what is alive between leaves a..b and later ones; narrow ones if it is scattered."""
        alive = c.between(a, b) >= self._floor(c.slack)
        union = alive.any(axis=0)
        if not union.any():
            return
        if b - a > 1 and np.count_nonzero(union) * (b - a) > 1.3 * np.count_nonzero(alive):
            middle = (a + b) // 2
            yield from self._cover(c, a, middle)
            yield from self._cover(c, middle, b)
            return
        at = slice(a * c.leaf, min(b * c.leaf, len(c)))
        heads = c.heads(at)
        others = a + np.flatnonzero(union)
        size = max(4 * tuning.TILE * tuning.TILE // ((b - a) * c.leaf * c.leaf), 1)
        for first in range(0, len(others), size):
            yield Task(at, heads, others[first : first + size])

    def _round(self, c: Candidates, tasks: list[Task]) -> None:
        for found in self._map(lambda task: self._screen(c, task), tasks):
            self._offer(found.first, found.second, found.squares)
            self.evaluated += found.looked_at

    def _step(self, c: Candidates, task: Task) -> int:
        """How many axes this task's screen should use, from a sample of its own pairs."""
        if len(c.ladder) == 1 or tuning.AXIS_COST * self.table.d < tuning.PASS_COST:
            return len(c.ladder) - 1
        stride = max(len(task.heads) // 48, 1)
        some = np.arange(task.at.start, task.at.stop)[::stride]
        others = (task.leaves[:, None] * c.leaf + np.arange(c.leaf)).ravel()
        others = others[others < len(c)]
        others = others[:: max(len(others) // 192, 1)]
        return self._cheapest(
            (task.heads[::stride], c.tails[some], c.radius[some]),
            (c.heads(others), c.tails[others], c.radius[others]),
            c.ladder,
            self._floor(c.slack),
        )

    def _screen(self, c: Candidates, task: Task) -> Found:
        step = self._step(c, task)
        floor = self._floor(c.slack)
        least = np.float32(floor * floor / 2 * (1 - 1e-6))
        found = [(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0))]
        looked_at = 0
        crowded = False  # once most pairs of a product have passed, the next product will hardly differ
        rows = task.at.stop - task.at.start
        wide = max(tuning.TILE * tuning.TILE // (min(rows, tuning.TILE) * c.leaf), 1)
        parts = [
            np.arange(a, min(a + tuning.TILE, task.at.stop)) for a in range(task.at.start, task.at.stop, tuning.TILE)
        ]
        lefts = [c.left(task.heads[at - task.at.start], at, step) for at in parts]
        for b in range(0, len(task.leaves), wide):
            across = c.positions(task.leaves[b : b + wide])
            right = c.right(across, step)
            numbers = np.arange(across.start, across.stop) if isinstance(across, slice) else across
            for down, left in zip(parts, lefts, strict=True):
                looked_at += len(down) * len(numbers)
                if not crowded:
                    product = self._buffer(len(left), len(right))
                    np.matmul(left, right.T, out=product)
                    if product.max() < least:
                        continue
                    passed = product >= least
                    crowded = bool(np.count_nonzero(passed) > passed.size // tuning.CROWDED)
                pairs = None if crowded else self._passed(c, down, numbers, passed)
                found.append(self._evaluate(c, *(pairs or self._passed_in_float64(c, down, numbers))))
        first, second, squares = (np.concatenate(part) for part in zip(*found, strict=True))
        return Found(first, second, squares, looked_at)

    def _buffer(self, rows: int, columns: int) -> Float32:
        """A product's memory, kept by each thread: fresh pages would cost more than small products."""
        size = rows * columns
        kept = getattr(self.scratch, "values", None)
        if kept is None or len(kept) < size:
            kept = self.scratch.values = np.empty(max(size, tuning.TILE * tuning.TILE), np.float32)
        product: Float32 = kept[:size].reshape(rows, columns)
        return product

    def _passed(
        self, c: Candidates, down: Index, across: Index, passed: NDArray[np.bool_]
    ) -> tuple[Index, Index] | None:
        """Pairs that also pass on all axes; None if they are too many to be worth evaluating one by one."""
        i, j = _pairs(down, across, np.flatnonzero(passed))
        if c.cache is not None:
            far = c.far_apart(i, j, self._floor(c.slack))
            i, j = i[far], j[far]
        return (i, j) if len(i) <= _few(passed.shape) else None

    def _passed_in_float64(self, c: Candidates, down: Index, across: Index) -> tuple[Index, Index]:
        """Screen again by a float64 product: near copies that float32 cannot tell apart."""
        center = np.asarray(self.frame.center, np.float64)
        x, y = self.frame.exact(c.rows[down]) - center, self.frame.exact(c.rows[across]) - center
        rounding = 4 * (self.table.d + 8) * 2.0**-53  # of the product, of centring, and of the distance itself
        x2, y2 = (np.einsum("ij,ij->i", z, z)[:, None] * (1 + rounding) for z in (x, y))
        squares = np.hstack([-2 * x, x2, np.ones_like(x2)]) @ np.hstack([y, np.ones_like(y2), y2]).T
        passed = np.flatnonzero(squares.ravel() >= self.square * (1 - rounding))
        limit = _few(squares.shape)
        if len(passed) > limit:
            passed = np.sort(passed[np.argpartition(-squares.ravel()[passed], limit)[:limit]])
        return _pairs(down, across, passed)

    def _evaluate(self, c: Candidates, i: Index, j: Index) -> tuple[Index, Index, Float64]:
        """Exact distances; the best of them decide, the rest are forgotten."""
        first, second = c.rows[i], c.rows[j]
        squares = self.frame.squared_distances(first, second)
        top = squares >= max(self.square, squares.max(initial=0.0))
        return first[top], second[top], squares[top]


def _few(shape: tuple[int, ...]) -> int:
    """How many pairs of a product are few enough to evaluate: at least four rows or columns of it."""
    return max(math.prod(shape) // tuning.DENSE, 4 * max(shape))


def _pairs(down: Index, across: Index, flat: Index) -> tuple[Index, Index]:
    """Positions of the two rows of each pair of a product, every pair once."""
    i, j = np.divmod(flat, len(across))
    i, j = down[i], across[j]
    once = i < j
    return i[once], j[once]


def _largest(radius: Float64) -> Index:
    """Positions of the tuning.EXTREME_ROWS largest radii, in order of position."""
    count = min(tuning.EXTREME_ROWS, len(radius))
    return np.sort(np.argpartition(-radius, count - 1)[:count])
