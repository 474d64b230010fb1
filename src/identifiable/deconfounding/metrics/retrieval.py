"""Retrieval: do wells find their like across batches, and does a control well still show its batch? For many spaces of the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from identifiable.deconfounding.design import Codes, Design, Labels, Mask, joined
from identifiable.deconfounding.intervals import jackknifed_mean, plate_groups
from identifiable.deconfounding.metrics.matrices import as_matrix, row_blocks, unit_rows
from identifiable.deconfounding.metrics.replicates import TIE
from identifiable.moments import Array
from identifiable.results import Interval

Kind = Literal["euclidean", "cosine"]
Level = Literal["batch", "plate"]
Label = Literal["target", "perturbation", "batch"]
Named = tuple[Label, str]  # the label of a question, and what a neighbour may not share
NN_EUCLIDEAN, NN_COSINE = "nn_euclidean", "nn_cosine"
CONSENSUS, CONSENSUS_BATCH = "consensus", "consensus_batch"
REPLICATE_MAP, BATCH_READABLE = "replicate_map", "batch_readable"
BIOLOGICAL = (NN_EUCLIDEAN, NN_COSINE, CONSENSUS, CONSENSUS_BATCH, REPLICATE_MAP)  # higher is better
RETRIEVAL = (*BIOLOGICAL, BATCH_READABLE)  # lower is better of the last

MAX_QUERIES = 6_000
MAX_CONTROLS = 2_000
MAX_PER_PERTURBATION = 100  # so that one control compound does not take the place of others
FEWEST_BATCHES = 3  # with fewer, plates are held out and left out in turn
LEAST_QUERIES = 20  # below it, or below this share of the wells, a question is not asked
LEAST_SHARE = 0.1
LEAST_OF_ONE_GROUP = 0.9  # of consensus profiles, for batches to be what is left out


@dataclass(frozen=True, eq=False)
class Found:
    """What every query of a metric found in one space: its `value`, and the value `without` the wells of each group.

    Queries are of groups (codes from 0; one that is too large is in none). Without its own group a query asks nothing (NaN).
    """

    value: Array
    without: Array
    weight: Array
    group: Codes

    @property
    def mean(self) -> float:
        return float(self.weight @ self.value / self.weight.sum())

    def interval(self) -> tuple[float, Interval]:
        """The mean and its 95 % interval by leaving out the queries of each group."""
        return self._mean_of(self.value)

    def minus(self, other: Found) -> tuple[float, Interval]:
        """The paired difference to the same queries in another space, and its interval."""
        return self._mean_of(self.value - other.value)

    def where(self, chosen: Mask) -> Found:
        """Some of the queries."""
        return Found(self.value[chosen], self.without[chosen], self.weight[chosen], self.group[chosen])

    def _mean_of(self, value: Array) -> tuple[float, Interval]:
        def left(weights: Array) -> Array:
            """The sum of all, then without each group that asks."""
            by_group = np.bincount(self.group, weights=weights)[asking]
            return np.asarray(np.r_[weights.sum(), weights.sum() - by_group])

        size = self.without.shape[1]
        asking = np.unique(self.group[self.group < size])
        return jackknifed_mean(left(self.weight * value), left(self.weight))


def pieced(parts: Sequence[tuple[Mask, Found]]) -> Found:
    """One result from several spaces: each query as the space says whose mask holds it."""
    first = parts[0][1]
    value, without = np.full_like(first.value, np.nan), np.full_like(first.without, np.nan)
    for chosen, found in parts:
        value[chosen], without[chosen] = found.value[chosen], found.without[chosen]
    return Found(value, without, first.weight, first.group)


@dataclass(frozen=True, eq=False)
class Scores:
    """The metrics of one space, by name."""

    found: Mapping[str, Found]

    def __getitem__(self, metric: str) -> Found:
        return self.found[metric]

    def minus(self, other: Scores) -> dict[str, tuple[float, Interval]]:
        """Every paired difference to another space of the same rows, with its interval."""
        return {name: found.minus(other[name]) for name, found in self.found.items()}


@dataclass(frozen=True, eq=False)
class Coverage:
    """How a metric asks: of `of` wells (or profiles) `queries` have a right answer; `chance` is the score of random neighbours.

    `label` is what a neighbour must share, `across` what it must not (a batch, or a plate).
    """

    queries: int
    of: int
    chance: float
    label: Label
    across: str


@dataclass(frozen=True, eq=False)
class Retrieval:
    r"""The retrieval metrics of a design, prepared once and measured in any number of spaces of its rows.

    nn_euclidean, nn_cosine   share of single wells whose nearest neighbour has their label. The label is the target where there is
                              one, and the neighbour is of another compound and another batch; without targets it is the
                              perturbation, in another batch
    consensus                 the same by cosine for the target on medians of perturbations, of another compound (NSC of BBBC021)
    consensus_batch           also of another batch (NSCB), on medians of a perturbation in a batch
    replicate_map             mean over perturbations of the average precision of replicates on other plates among the controls of
                              the same batch (of the plate where there is one batch; of other perturbations there without controls)
    batch_readable            share of control wells whose nearest neighbour (Euclidean) among controls of other plates is of their
                              batch; without controls, of all wells. Lower is better

    Implements 1-NN mechanism classification as in Ljosa et al. 2013 (consensus) with the exclusion of the batch of Ando et al. 2017
    (consensus_batch), and mAP of copairs (Kalinin et al. 2025). Ours: only queries for which a right answer exists among the allowed
    neighbours count (`coverage`), controls do not ask, and they do not answer for treated wells; a question that fewer than 20
    wells, or a tenth of them, can ask across batches is asked across plates, and else left out. Cosines that tie count half in
    replicate_map.

    Intervals leave out the queries of groups of whole batches (of plates, where there are fewer than 3 batches) in turn; where
    more than a tenth of the consensus profiles lie in several groups, those of compounds. Neighbours stay: leaving them out
    as well would leave whole targets without an answer, and measure that. A choice that must not know a group reads `without`
    it: of every query the best neighbour outside the group of its best one is kept, so this is exact. In replicate_map
    controls stay there.

    Of one perturbation at most 100 wells, evenly spaced, take part in replicate_map. Of more than 6,000 treated wells a sample is
    taken, in whole perturbations (of whole targets, where those are the label) with at most 100 wells each, and 2,000
    controls; `rows` are the places of all wells that take part. Work is a product of these wells with each other for every
    space, a block at a time.

    >>> batch, drug = Labels.of(np.repeat(["a", "b", "c"], 20)), Labels.of(np.tile(["x", "y"], 30))
    >>> design = Design(batch, drug, np.zeros(60, bool), batch=batch)
    >>> asked = Retrieval.of(design)
    >>> asked.scores(np.tile([[1.0, 0.0], [0.0, 1.0]], (30, 1)))["nn_euclidean"].mean
    1.0
    """

    rows: Codes
    design: Design
    groups: Labels
    sampled: bool
    questions: Mapping[str, _Question]
    ranking: _Ranking | None
    profiles: Mapping[str, list[Codes]]
    coverage: Mapping[str, Coverage]

    @classmethod
    def of(cls, design: Design, *, groups: Labels | None = None, seed: int = 0) -> Retrieval:
        """Prepared for a design; `groups` of all its rows are left out in turn (batches or plates, at most 40)."""
        rows = sampled_rows(design, np.random.default_rng([seed, design.n, 29]))
        part = design.take(rows)
        groups = (plate_groups(batches_or_plates(design), seed) if groups is None else groups).take(rows)
        questions: dict[str, _Question] = {}
        profiles: dict[str, list[Codes]] = {}
        coverage: dict[str, Coverage] = {}
        for name, question in (
            (NN_EUCLIDEAN, _wells(part, groups)),
            (CONSENSUS, _consensus(part, groups, profiles)),
            (CONSENSUS_BATCH, _consensus_batch(part, groups, profiles)),
            (BATCH_READABLE, _batches(part, groups)),
        ):
            if question is not None:
                questions[name] = question
                coverage[name] = question.coverage
        if NN_EUCLIDEAN in coverage:
            coverage[NN_COSINE] = coverage[NN_EUCLIDEAN]
        ranking = _Ranking.of(part, groups)
        if ranking is not None:
            coverage[REPLICATE_MAP] = ranking.coverage
        ordered = {name: coverage[name] for name in RETRIEVAL if name in coverage}
        return cls(rows, part, groups, len(rows) < design.n, questions, ranking, profiles, ordered)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics this design has, biological ones first."""
        return tuple(self.coverage)

    @property
    def biological(self) -> tuple[str, ...]:
        return tuple(name for name in self.coverage if name in BIOLOGICAL)

    def group_of(self, metric: str) -> Codes:
        """The group that every query of a metric belongs to (of a consensus profile, that of most of its wells)."""
        if metric == REPLICATE_MAP and self.ranking is not None:
            return self.groups.codes[self.ranking.asks]
        question = self.questions[NN_EUCLIDEAN if metric == NN_COSINE else metric]
        if metric not in self.profiles:
            return self.groups.codes[question.asks]
        members = (self.profiles[metric][k] for k in question.asks)
        return np.array([np.bincount(self.groups.codes[m]).argmax() for m in members], dtype=np.intp)

    def scores(self, X: Array) -> Scores:
        """All metrics of one space, given its rows `rows`."""
        X = as_matrix(X, len(self.rows), self.design.name)
        found: dict[str, Found] = {}
        for name, question in self.questions.items():
            if name == NN_EUCLIDEAN:
                near = _nearest(X, question, ("euclidean", "cosine"))
                found |= {NN_EUCLIDEAN: near["euclidean"], NN_COSINE: near["cosine"]}
            elif name in self.profiles:
                found[name] = _nearest(_medians(X, self.profiles[name]), question, ("cosine",))["cosine"]
            else:
                found[name] = _nearest(X, question, ("euclidean",))["euclidean"]
        if self.ranking is not None:
            found[REPLICATE_MAP] = self.ranking.precision(X)
        return Scores({name: found[name] for name in self.metrics})


def batches_or_plates(design: Design) -> Labels:
    """What is held out whole: batches, or plates where there are fewer than 3 of them."""
    return design.plate if design.batch is None or design.batch.size < FEWEST_BATCHES else design.batch


def sampled_rows(design: Design, rng: np.random.Generator) -> Codes:
    """All rows, or of a large screen whole perturbations drawn at random (those of a target together) and some controls."""
    controls, treated = np.flatnonzero(design.control), np.flatnonzero(~design.control)
    if len(controls) > MAX_CONTROLS:
        controls = rng.choice(controls, MAX_CONTROLS, replace=False)
    if len(treated) > MAX_QUERIES:
        treated = rng.permutation(treated)
        kind = design.perturbation if design.target is None else design.target
        first, second = rng.permutation(kind.size), rng.permutation(design.perturbation.size)
        order = np.lexsort((second[design.perturbation.codes[treated]], first[kind.codes[treated]]))
        treated = treated[order]
        codes = design.perturbation.codes[treated]
        begins = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
        place = np.arange(len(codes)) - np.repeat(begins, np.diff(np.r_[begins, len(codes)]))
        treated = treated[place < MAX_PER_PERTURBATION]
        codes = design.perturbation.codes[treated]
        stop = min(MAX_QUERIES, len(treated))
        while stop < len(treated) and codes[stop] == codes[stop - 1]:  # the last perturbation stays whole
            stop += 1
        treated = treated[:stop]
    return np.sort(np.r_[controls, treated])


# -- nearest neighbours


@dataclass(frozen=True, eq=False)
class _Question:
    """Rows that ask, in order; rows that may answer, by group; a right answer has the label and differs in every column.

    `left` says for every query and group whether it still has a right answer without that group.
    """

    label: Codes
    differ: tuple[Codes, ...]
    asks: Codes
    answers: Codes
    edges: Codes
    left: Mask
    group: Codes
    coverage: Coverage

    @classmethod
    def of(
        cls,
        label: Labels,
        differ: Sequence[Labels],
        asks: Codes,
        answers: Codes,
        groups: Codes,
        size: int,
        named: Named,
    ) -> _Question | None:
        """None where fewer than 20 rows, or a tenth, or rows of one label only, can be answered. Code `size`: in no group."""
        answers = answers[np.argsort(groups[answers], kind="stable")]
        edges = np.searchsorted(groups[answers], np.arange(size + 2))
        columns = tuple(labels.codes for labels in differ)
        right = np.zeros((len(asks), size + 1), dtype=np.intp)
        allowed = np.zeros(len(asks), dtype=np.intp)
        for part in row_blocks(len(asks), max(len(answers), 1)):
            rows = asks[part]
            free = ~_barred(columns, rows, answers)
            allowed[part] = free.sum(axis=1)
            free &= label.codes[rows, None] == label.codes[answers]
            right[part] = np.diff(np.c_[np.zeros(len(rows), np.intp), np.cumsum(free, axis=1)][:, edges], axis=1)
        total = right.sum(axis=1)
        can = total > 0
        if can.sum() < max(LEAST_QUERIES, LEAST_SHARE * len(asks)) or len(np.unique(label.codes[asks[can]])) < 2:
            return None
        left = (total[:, None] - right[:, :size] > 0) & (groups[asks][:, None] != np.arange(size))
        chance = float(np.mean(total[can] / allowed[can]))
        coverage = Coverage(int(can.sum()), len(asks), chance, *named)
        return cls(label.codes, columns, asks[can], answers, edges, left[can], groups[asks[can]], coverage)


def _barred(columns: Sequence[Codes], rows: Codes, answers: Codes) -> Mask:
    """Pairs that may not be neighbours: a row and itself, and rows that share one of the columns."""
    barred: Mask = rows[:, None] == answers
    for codes in columns:
        barred |= codes[rows, None] == codes[answers]
    return barred


def _nearest(X: Array, question: _Question, kinds: Sequence[Kind]) -> dict[Kind, Found]:
    """Whether the nearest neighbour of every query is right, and so without each group; one product serves all kinds."""
    n, size = len(question.asks), question.left.shape[1]
    value = {kind: np.empty(n) for kind in kinds}
    without = {kind: np.empty((n, size)) for kind in kinds}
    V = X[question.answers]
    squares = np.einsum("ij,ij->i", V, V)
    inverse = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)
    answered = question.label[question.answers]
    for part in row_blocks(n, len(V)):
        rows = question.asks[part]
        product = X[rows] @ V.T
        barred = _barred(question.differ, rows, question.answers)
        for kind in kinds:
            near = 2 * product - squares if kind == "euclidean" else product * inverse
            near[barred] = -np.inf
            best, place = _best_by_group(near, question.edges)
            first = best.argmax(axis=1)
            line = np.arange(len(rows))
            hit = answered[place[line, first]] == question.label[rows]
            best[line, first] = -np.inf
            second = best.argmax(axis=1)
            other = answered[place[line, second]] == question.label[rows]
            value[kind][part] = hit
            left = np.where(first[:, None] == np.arange(size), other[:, None], hit[:, None])
            without[kind][part] = np.where(question.left[part], left, np.nan)
    return {kind: Found(value[kind], without[kind], np.ones(n), question.group) for kind in kinds}


def _best_by_group(near: Array, edges: Codes) -> tuple[Array, Codes]:
    """The largest of every line in each run of columns, and its column; minus infinity for a run without columns."""
    groups = len(edges) - 1
    best, place = np.full((len(near), groups), -np.inf), np.zeros((len(near), groups), dtype=np.intp)
    for g in range(groups):
        a, b = edges[g], edges[g + 1]
        if b > a:
            at = near[:, a:b].argmax(axis=1)
            place[:, g] = a + at
            best[:, g] = np.take_along_axis(near[:, a:b], at[:, None], axis=1)[:, 0]
    return best, place


def _separated(design: Design) -> list[tuple[Level, Labels]]:
    """What a neighbour may not share with a query, the stricter first."""
    levels: list[tuple[Level, Labels]] = [("plate", design.plate)]
    if design.batch is not None and design.batch.size > 1:
        levels.insert(0, ("batch", design.batch))
    return levels


def _wells(design: Design, groups: Labels) -> _Question | None:
    treated = np.flatnonzero(~design.control)
    for level, apart in _separated(design):
        if design.target is not None:
            differ = (design.compounds, apart)
            of_target: Named = ("target", level)
            if found := _Question.of(design.target, differ, treated, treated, groups.codes, groups.size, of_target):
                return found
        named: Named = ("perturbation", level)
        if found := _Question.of(design.perturbation, (apart,), treated, treated, groups.codes, groups.size, named):
            return found
    return None


def _batches(design: Design, groups: Labels) -> _Question | None:
    """The batch (the plate where there is one batch only, or none) of controls, among those of other plates where it can be."""
    rows = np.flatnonzero(design.control) if design.control.any() else np.arange(design.n)
    level, batch = _separated(design)[0]
    for differ in ((design.plate,), ()) if level == "batch" else ((),):
        named: Named = ("batch", "plate" if differ else "well")
        if found := _Question.of(batch, differ, rows, rows, groups.codes, groups.size, named):
            return found
    return None


def _consensus(design: Design, groups: Labels, profiles: dict[str, list[Codes]]) -> _Question | None:
    return _of_medians(CONSENSUS, design, design.perturbation, groups, profiles)


def _consensus_batch(design: Design, groups: Labels, profiles: dict[str, list[Codes]]) -> _Question | None:
    if design.batch is None or design.batch.size < 2:
        return None
    return _of_medians(CONSENSUS_BATCH, design, joined([design.perturbation, design.batch], "|"), groups, profiles)


def _of_medians(
    name: str, design: Design, kinds: Labels, groups: Labels, profiles: dict[str, list[Codes]]
) -> _Question | None:
    """The question of `consensus` or `consensus_batch`, whose rows are medians of wells; `profiles` gets the wells of each."""
    treated = np.flatnonzero(~design.control)
    if design.target is None or not treated.size:
        return None
    members = [treated[rows] for rows in kinds.take(treated).members]
    some = np.array([rows[0] for rows in members])
    at = np.arange(len(some))
    lowest = np.array([groups.codes[rows].min() for rows in members])
    highest = np.array([groups.codes[rows].max() for rows in members])
    of_group, size = np.where(lowest == highest, lowest, groups.size), groups.size
    compounds = design.compounds.take(some)
    if np.mean(lowest == highest) < LEAST_OF_ONE_GROUP:
        left = plate_groups(compounds)
        of_group, size = left.codes, left.size
    differ = [compounds]
    across = "compound"
    if name == CONSENSUS_BATCH and design.batch is not None:
        differ.append(design.batch.take(some))
        across = "batch"
    found = _Question.of(design.target.take(some), differ, at, at, of_group, size, ("target", across))
    if found is not None:
        profiles[name] = members
    return found


def _medians(X: Array, members: Sequence[Codes]) -> Array:
    return np.array([np.median(X[rows], axis=0) for rows in members])


# -- replicates among controls


@dataclass(frozen=True, eq=False)
class _Ranking:
    """Queries that rank replicates among negatives: `lists` of (queries, negatives), and pairs of a query and its replicate."""

    asks: Codes
    weight: Array
    lists: tuple[tuple[Codes, Codes], ...]  # places in `asks`, rows of the negatives
    query: Codes  # of each pair, its place in `asks`, ascending
    replicate: Codes  # of each pair, a row
    groups: Labels
    own_names: Codes | None  # perturbations of all rows, where negatives are treated wells
    coverage: Coverage

    @classmethod
    def of(cls, design: Design, groups: Labels) -> _Ranking | None:
        """None where no well has a replicate on another plate and something to beat."""
        level, share = _separated(design)[0]
        controls = bool(design.control.any())
        pairs = _replicates(design)
        shared = design.control if controls else ~design.control
        others = share.count(shared)
        if not controls:
            others = others - 1
        treated = np.flatnonzero(~design.control)
        asks = np.unique(pairs[0])
        asks = asks[others[share.codes[asks]] > 0]
        if len(asks) < 2:
            return None
        place = np.full(design.n, -1, dtype=np.intp)
        place[asks] = np.arange(len(asks))
        kept = place[pairs[0]] >= 0
        query, replicate = place[pairs[0][kept]], pairs[1][kept]
        order = np.argsort(query, kind="stable")
        names = design.perturbation.codes[asks]
        weight = 1.0 / np.bincount(names)[names]
        lists = []
        for value in np.unique(share.codes[asks]):
            here = share.codes == value
            lists.append((np.flatnonzero(here[asks]), np.flatnonzero(here & shared)))
        chance = float("nan")
        coverage = Coverage(len(asks), len(treated), chance, "perturbation", level)
        own = None if controls else design.perturbation.codes
        return cls(asks, weight, tuple(lists), query[order], replicate[order], groups, own, coverage)

    def precision(self, X: Array) -> Found:
        """Average precision of every query, and without the replicates of each group."""
        U = unit_rows(X)
        cosine = np.empty(len(self.query))
        for part in row_blocks(len(cosine), U.shape[1]):
            cosine[part] = np.einsum("ij,ij->i", U[self.asks[self.query[part]]], U[self.replicate[part]])
        above = self._above(U, cosine)
        order = np.lexsort((-cosine, self.query))
        above, of = above[order], self.groups.codes[self.replicate[order]]
        starts = np.flatnonzero(np.r_[True, np.diff(self.query) > 0])
        runs = np.diff(np.r_[starts, len(cosine)])

        def mean(kept: Mask) -> Array:
            rank = np.cumsum(kept)
            rank = rank - np.repeat(rank[starts] - kept[starts], runs)
            precise = np.divide(rank, rank + above, out=np.zeros(len(rank)), where=kept)
            count = np.add.reduceat(kept.astype(np.float64), starts)
            total = np.add.reduceat(precise, starts)
            return np.asarray(np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0))

        value = mean(np.ones(len(cosine), dtype=bool))
        without = np.column_stack([mean(of != g) for g in range(self.groups.size)])
        own = self.groups.codes[self.asks]
        without[np.arange(len(own)), own] = np.nan
        return Found(value, without, self.weight, own)

    def _above(self, U: Array, cosine: Array) -> Array:
        """Of every pair, how many negatives of the query are nearer to it than the replicate; ties count half."""
        above = np.empty(len(cosine))
        starts = np.searchsorted(self.query, np.arange(len(self.asks) + 1))
        for queries, negatives in self.lists:
            V = U[negatives]
            for part in row_blocks(len(queries), len(negatives)):
                some = queries[part]
                near = U[self.asks[some]] @ V.T
                if self.own_names is not None:
                    same = self.own_names[self.asks[some], None] == self.own_names[negatives]
                    near[same] = -np.inf
                near.sort(axis=1)
                for q, line in zip(some.tolist(), near, strict=True):
                    of = slice(starts[q], starts[q + 1])
                    beaten = np.searchsorted(line, cosine[of] - TIE) + np.searchsorted(line, cosine[of] + TIE)
                    above[of] = len(line) - beaten / 2
        return above


def _replicates(design: Design) -> tuple[Codes, Codes]:
    """Pairs of treated rows of one perturbation on different plates; of at most 100 of its rows, evenly spaced."""
    first: list[Codes] = []
    second: list[Codes] = []
    for rows in design.perturbation.members:
        own = rows[~design.control[rows]]
        if len(own) > MAX_PER_PERTURBATION:
            own = own[np.linspace(0, len(own) - 1, MAX_PER_PERTURBATION).astype(np.intp)]
        a, b = np.nonzero(design.plate.codes[own][:, None] != design.plate.codes[own])
        first.append(own[a])
        second.append(own[b])
    if not first:
        return np.empty(0, np.intp), np.empty(0, np.intp)
    return np.concatenate(first), np.concatenate(second)
