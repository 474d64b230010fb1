"""Which family of maps, and at which penalty: by what the map is for, the nearest rows that it finds.

R² does not predict recall across families (measured regret: .038 against .004 below five pairs a dimension), so it is shown and
nothing is chosen by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable.alignment.aligned import Aligned, Reach, inverse_of, unit
from identifiable.alignment.families import FAMILIES, GROUP_OF, Family, HeldOut, Paths, families_of
from identifiable.blocks import Blocks, in_threads, one_blas_thread
from identifiable.groups import GROUPS, AffineMap, units_of
from identifiable.intake import blocks_of, gather_moments, joined
from identifiable.moments import Array, Moments, leave_one_out
from identifiable.neighbours import Index, common_entries
from identifiable.options import MapOptions
from identifiable.representation import Representation
from identifiable.results import Candidate, Reason
from identifiable.rows import plan_rows
from identifiable.run import PLAIN, Run, Stage

NEAREST = 10
LARGE = 2000  # rows of an index in which ten are few
ENTRIES = 400  # neighbours, over all queries, that a score counts at least
FOLDS = 5
INDEX = 5000  # rows that are searched, at most
QUERIES = 1000  # 100 find the family; more settle the penalty
WIDE, FEWER_FOLDS = 1024, 2  # columns above which decompositions cost minutes, and the folds that are tried there
SCORE, RECALL = range(2)
TIE = 0.5  # standard errors of the difference between two families, over the same queries
ALIKE = 0.01  # of a squared error

Job = tuple[Family, float | None]


def held_rows(table: Blocks, rows: NDArray[np.intp]) -> NDArray[np.floating]:
    """Rows of a table in memory, half precision and integers as floats in which they can be summed."""
    values = table[rows]
    return np.ascontiguousarray(values, np.result_type(values.dtype, np.float32))


def rows_of(blocks: Blocks, normalize: bool) -> Blocks:
    """Unit rows, or the rows as they are."""
    return blocks.through(unit, blocks.d) if normalize else blocks


def place_weights(rows: int) -> Array:
    """What places in a list of nearest rows count, nearest first, in an index of so many rows.

    The score of a query is the sum of w_i w_j over the rows that stand at place i of the list it finds and at place j of the true one,
    over its largest possible value. In an index of at least 2,000 rows w = 1 for ten places: recall@10. Ours for fewer rows: w falls
    as exp(-place / k). Ten of 200 rows are a coarse neighbourhood, and the map that finds them is not the map that finds ten of many
    (measured: it loses up to .09 of recall@10 in an index of 6,400); k = rows / 200 is the share that ten of 2,000 are. Where
    that leaves few entries to count, k grows until there are 400 (planted maps, 20 to 100 rows: less regret than either).

    >>> place_weights(2000).tolist(), len(place_weights(200))
    ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 8)
    """
    if rows >= LARGE:
        return np.ones(NEAREST)
    k = max(rows * NEAREST / LARGE, ENTRIES / rows)
    weights: Array = np.exp(-np.arange(min(int(np.ceil(4 * k)), rows - 1)) / k)
    return weights


@dataclass(frozen=True, eq=False)
class Sample:
    """Paired rows held in memory, in random order: at most `QUERIES` of them are mapped and searched for.

    `fold[i]` is the part whose moments hold row i; `index` are the rows of the target that are searched, and `own[i]` is the place
    of row i among them.
    """

    x: NDArray[np.floating]
    y: NDArray[np.floating]
    fold: NDArray[np.integer]
    index: NDArray[np.floating]
    own: NDArray[np.integer]

    @classmethod
    def of(cls, x: NDArray[Any], y: NDArray[Any], fold: NDArray[np.integer], folds: int, queries: int) -> Sample:
        """All rows to search among; as queries those of as few folds as hold enough, for maps of a fold cost more than searches."""
        asked = np.flatnonzero(fold < max(FEWER_FOLDS, -(-queries * folds // len(x))))[:queries]
        return cls(x[asked], y[asked], fold[asked], y, asked)


@dataclass(frozen=True)
class Choice:
    """The family of maps that is used, with all that were tried: `queries` rows searched among `index`, each held out from its map."""

    family: Family
    group: str
    penalty: float | None
    rank: int | None
    tried: tuple[Candidate, ...]
    why: Reason
    queries: int
    index: int
    units: Array | None = None  # of the columns of x, as for `Paths`


def fitted(moments: Moments, choice: Choice) -> AffineMap:
    """The chosen map, fitted to all rows of `moments`."""
    return Paths(moments, choice.units).map(choice.family, choice.penalty, choice.rank)


def chosen_map(
    source: Representation, target: Representation, options: MapOptions, run: Run = PLAIN
) -> tuple[Aligned, Choice]:
    """The map that is chosen on all rows and fitted to all of them: no row is left to evaluate it on.

    One pass over the rows; at most `INDEX` of them are held in memory.
    """
    pairing = joined([source, target], run)
    tables = [
        rows_of(blocks_of(table) if rows is None else blocks_of(table).select(rows), options.normalize)
        for table, rows in zip((source, target), pairing.rows, strict=True)
    ]
    folds = min(FOLDS, pairing.n // 2)
    plan = plan_rows(pairing.n, pairing.ids, seed=run.seed, n_folds=folds)
    parts = gather_moments(tables, run, part=plan.fold, n_parts=folds, original_rows=pairing.rows)
    rows = plan.sample(INDEX)
    x, y = (held_rows(table, rows) for table in tables)
    moments = reduce(Moments.merge, parts)
    units = units_of(moments.alone(0))
    choice = choose(parts, Sample.of(x, y, plan.fold[rows], folds, QUERIES), options, run, units=units)
    by = fitted(moments, choice)
    back = inverse_of(by, normalize=options.normalize, units=units)
    reach = Reach.of(moments.alone(0), x, units)
    return Aligned(by, back, reach, None, options.normalize, source.columns, target.columns), choice


def choose(
    parts: Sequence[Moments], sample: Sample, options: MapOptions, run: Run = PLAIN, *, units: Array | None = None
) -> Choice:
    """Choose by cross-validated recall@10 (cosine): every query is mapped by the map fitted to the other folds.

    Ours. The truth of a query are the rows nearest to its partner in the target; see `place_weights` for few rows. Penalties are
    tried in decades, then half a decade to either side of the best. Of the families, the smallest group wins whose score is
    within half a standard error, of paired differences, of the highest. What was chosen is a little better here than on other
    rows (.004 on average): evaluate it on rows that were not used here. `units` are those of `Paths`.
    """
    families = families_of(options, (parts[0].widths[0], parts[0].widths[1]))
    with one_blas_thread():
        return _chosen(_Trials(parts, sample, options, run, units), families)


def _chosen(trials: _Trials, families: Sequence[Family]) -> Choice:
    paths = {family: trials.path(family) for family in families}
    trials.run([(family, p) for family, path in paths.items() for p in path[::2] or (None,)])
    trials.run([(family, p) for family, path in paths.items() for p in _beside(trials.best(family)[1], path)])
    jobs = [trials.settled(family) for family in families]
    means = [trials.mean(job) for job in jobs]
    top = int(np.argmax(means))
    errors = [trials.standard_error(job, jobs[top]) for job in jobs]
    tied = [i for i in range(len(jobs)) if means[top] - means[i] <= TIE * errors[i]]
    size = list(GROUPS)
    chosen = min(tied, key=lambda i: (size.index(GROUP_OF[jobs[i][0]]), -trials.correlation(jobs[i])))
    tried = tuple(
        Candidate(
            family=job[0],
            group=GROUP_OF[job[0]],
            penalty=job[1],
            score=means[i],
            standard_error=trials.standard_error(job),
            recall_10=trials.mean(job, RECALL),
            r2=trials.r2(job),
            chosen=i == chosen,
        )
        for i, job in enumerate(jobs)
    )
    return Choice(
        family=jobs[chosen][0],
        group=GROUP_OF[jobs[chosen][0]],
        penalty=trials.refitted(jobs[chosen]),
        rank=trials.options.rank,
        tried=tried,
        why=_why(tried, chosen, top, errors, len(trials.index)),
        queries=trials.queries,
        index=len(trials.index),
        units=trials.units,
    )


def _why(tried: Sequence[Candidate], chosen: int, top: int, errors: Sequence[float], index: int) -> Reason:
    """Why `chosen`: alone, tied with the highest score, or the highest; `errors` are of the difference from the highest."""
    own = tried[chosen]
    values: dict[str, Any] = {"family": own.family, "group": own.group} | ({"few": index} if index < LARGE else {})
    if len(tried) == 1:
        return Reason("only_family", values)
    if chosen != top:
        gap = {"gap": tried[top].score - own.score, "standard_error": errors[chosen]}
        return Reason("smaller_group_ties", values | {"best": tried[top].family} | gap)
    second = max((i for i in range(len(tried)) if i != chosen), key=lambda i: tried[i].score)
    gain = {"gain": own.score - tried[second].score, "standard_error": errors[second]}
    return Reason("highest_recall", values | {"second": tried[second].family} | gain)


class _Trials:
    """Score and recall@10 of every query under every map that was tried."""

    def __init__(
        self, parts: Sequence[Moments], sample: Sample, options: MapOptions, run: Run, units: Array | None = None
    ):
        self.options, self.runs, self.units = options, run, units
        rows = slice(0, QUERIES)
        self.x, self.own, fold = sample.x[rows], sample.own[rows], sample.fold[rows]
        if len(sample.index) < 2:
            raise UsageError(f"{len(sample.index)} rows to search among: expected at least 2.")
        nearest = min(NEAREST, len(sample.index) - 1)
        weights = place_weights(len(sample.index))
        self.k = max(nearest, len(weights))
        self.weights = np.zeros((2, self.k))
        self.weights[SCORE, : len(weights)] = weights / np.linalg.norm(weights)
        self.weights[RECALL, :nearest] = 1 / np.sqrt(nearest)
        self.index = Index(sample.index, metric="cosine")
        self.truth = self.index.nearest(sample.y[rows], self.k, own=self.own, run=run)
        self.parts = parts
        used = range(len(parts) if min(parts[0].widths) <= WIDE else FEWER_FOLDS)
        self.rows = {k: found for k in used if (found := np.flatnonzero(fold == k)).size}
        self.queries = sum(map(len, self.rows.values()))
        training = leave_one_out(parts)
        made = in_threads(partial(Paths, units=units), [training[k] for k in self.rows], Run(workers=run.workers))
        self.paths = dict(zip(self.rows, made, strict=True))
        self.tests = {k: HeldOut(paths.moments, parts[k]) for k, paths in self.paths.items()}
        self.recalls: dict[Job, Array] = {}
        self.forms: dict[Job, Array] = {}

    def path(self, family: Family) -> tuple[float, ...]:
        """The penalties to try, the same for every fold; none for a family without."""
        if self.options.ridge != "auto":
            return (float(self.options.ridge),)
        return tuple(next(iter(self.paths.values())).penalties(family).tolist())

    def run(self, jobs: Iterable[Job]) -> None:
        todo = sorted(
            {job for job in jobs if job not in self.recalls}, key=lambda job: (job[1] or 0.0, FAMILIES.index(job[0]))
        )

        def of_fold(k: int) -> list[tuple[Array, Array]]:
            with one_blas_thread():  # once for all searches of this thread
                return [self._tried(k, job) for job in todo]

        found = in_threads(of_fold, list(self.rows), self.runs, Stage("trying maps"))
        for i, job in enumerate(todo):
            self.recalls[job] = np.concatenate([fold[i][0] for fold in found], axis=1)
            self.forms[job] = np.sum([fold[i][1] for fold in found], axis=0)

    def _tried(self, k: int, job: Job) -> tuple[Array, Array]:
        """Score and recall of every query of a fold, and the sums over all its rows that R² and the correlation follow from."""
        rows, by = self.rows[k], self.paths[k].map(*job, self.options.rank)
        found = self.index.nearest(by.apply(self.x[rows]), self.k, own=self.own[rows], run=Run(workers=1))
        row, in_found, in_truth = common_entries(found, self.truth[rows])
        recall = np.array([np.bincount(row, w[in_found] * w[in_truth], len(rows)) for w in self.weights])
        return recall, self.parts[k].n * self.tests[k].forms(by.matrix)

    def mean(self, job: Job, which: int = SCORE) -> float:
        return float(self.recalls[job][which].mean())

    def best(self, family: Family) -> Job:
        return max((job for job in self.recalls if job[0] == family), key=lambda job: (self.mean(job), job[1] or 0))

    def standard_error(self, job: Job, other: Job | None = None) -> float:
        """Of the score, or of its difference from that of another map on the same queries."""
        values = self.recalls[job][SCORE] - (self.recalls[other][SCORE] if other is not None else 0.0)
        return float(values.std() / np.sqrt(len(values)))

    def r2(self, job: Job) -> float:
        """Held-out R², pooled over the folds."""
        shared, mapped, spread = self.forms[job]
        return float(1 - (spread - 2 * shared + mapped) / spread)

    def correlation(self, job: Job) -> float:
        """Of mapped and true rows, all columns together, pooled over the folds: what R² is at the best scale, which no cosine sees."""
        shared, mapped, spread = self.forms[job]
        return float(shared / np.sqrt(mapped * spread)) if mapped * spread > 0 else 0.0

    def refitted(self, job: Job) -> float | None:
        """The penalty for all rows that stands to the best of all rows as that of the job to the best of the folds.

        Ours. Folds have fewer rows than the refit. Where that is as many as columns, or a few more, the best penalty of the two
        differs by decades: a map without penalty amplifies noise without limit (the interpolation peak) or, where there is none,
        is exact. What is best is that of generalised cross-validation (`Paths.left_out`), on half decades.
        """
        family, penalty = job
        if penalty is None or self.options.ridge != "auto" or GROUP_OF[family] != "linear":
            return penalty
        every = Paths(reduce(Moments.merge, self.parts), self.units)
        paths = [every, *self.paths.values()]
        every_path = np.concatenate([each.penalties(family)[1:] for each in paths])
        first, last = (_place(penalty, 1.0) for penalty in (every_path.min(), every_path.max()))
        grid = 10.0 ** (np.arange(first - 1, last + 1) / 2)
        of_all = _largest_best(every.left_out(grid))
        of_folds = _largest_best(np.sum([each.left_out(grid) for each in self.paths.values()], axis=0))
        at = _place(penalty, self.path(family)[1]) - (first - 1) + of_all - of_folds
        return float(grid[min(at, len(grid) - 1)]) if at > 0 else 0.0

    def settled(self, family: Family) -> Job:
        """The penalty of a family: of those whose score ties with the highest, the one with the highest correlation."""
        top = self.best(family)
        jobs = [job for job in self.recalls if job[0] == family]
        tied = [job for job in jobs if self.mean(top) - self.mean(job) <= TIE * self.standard_error(job, top)]
        return max(tied, key=lambda job: (self.correlation(job), job[1] or 0))


def _largest_best(errors: Array) -> int:
    """The last place whose error is the least, but for 1 %: small penalties are all alike."""
    return int(np.flatnonzero(errors <= (1 + ALIKE) * errors.min())[-1])


def _place(penalty: float, least: float) -> int:
    """Half decades above 1; none is a half decade below the least."""
    return round(2 * math.log10(penalty)) if penalty > 0 else round(2 * math.log10(least)) - 1


def _beside(penalty: float | None, path: Sequence[float]) -> list[float]:
    """The neighbours of a penalty on its path."""
    if penalty is None:
        return []
    at = path.index(penalty)
    return list(path[max(at - 1, 0) : at + 2])
