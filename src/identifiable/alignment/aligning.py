"""align(): the map from one representation into another, chosen by what a search finds through it, and what it costs to use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.alignment.advice import BOTH, LEAST_INDEX, MAP, RERANK, OldEncoder, advice
from identifiable.alignment.aligned import Aligned, Reach, inverse_of, unit
from identifiable.alignment.choosing import FOLDS, INDEX, Sample, choose, fitted, held_rows, rows_of
from identifiable.alignment.curve import pairs_needed
from identifiable.alignment.families import AXES_KEPT, families_of
from identifiable.alignment.regions import worst_regions
from identifiable.alignment.retrieval import (
    FETCHED,
    Closeness,
    Parts,
    Searched,
    bounded_share,
    in_whole_index,
    random_rotation,
    recalls,
    retrieve,
    true_lists,
    true_share,
)
from identifiable.blocks import one_blas_thread
from identifiable.groups import AffineMap, haar_rotation
from identifiable.intake import (
    as_representation,
    blocks_of,
    default_provenance,
    distinct,
    gather_moments,
    identical_inputs,
    inputs_of,
    joined,
    joined_labels,
)
from identifiable.moments import Array, Moments
from identifiable.neighbours import Index, Lists, Metric
from identifiable.options import AlignOptions, MapOptions
from identifiable.results import (
    Advice,
    Alert,
    Alignment,
    Answer,
    Baseline,
    Bounded,
    Interval,
    MapUse,
    PairsNeeded,
    Retrieval,
    Way,
)
from identifiable.rows import RowPlan, plan_rows
from identifiable.run import Run

BaselineName = Literal["as_is", "random_rotation", "shuffled_pairs"]

SHARE_HELD_OUT, MOST_HELD_OUT = 1 / 5, 2000  # rows to evaluate on
LEAST_PAIRS = 50  # below, a fold has fewer rows than the ten nearest that are looked for
IN_MEMORY = 20_000  # rows of either table that are held at once: the index, and the pairs of the curve
METRICS: tuple[Metric, ...] = ("cosine", "euclidean")
FEW_QUERIES = 200  # below, an interval of recall is wider than .1 (binomial at .5 and ten trials a query that are not independent)
FAIR = (0.4, 0.6)  # share of true vectors in a mixed index that is no cause for an alert
COPIES = 0.1  # share of rows with a near copy that is
NEAR_COPY = 0.01  # of the root mean square distance
WORTH_SAYING = 0.01  # of recall
CHOICE_QUERIES = 500  # 100 queries find the family (measured: spec/align.md)


def align(
    first: Any,
    second: Any,
    options: AlignOptions,
    *,
    group_by_name: str | None = None,
    labels_name: str | None = None,
    cluster: Any = None,
) -> Aligned:
    """Fit a map from the first representation to the second and say what a search through it finds, both ways.

    Ours. Rows are paired by id. Some are held out for evaluation; on the others the family of maps and its penalty are chosen by
    cross-validated recall. One pass leaves the moments of every fold, so tables need not fit in memory; of at most 20,000 rows
    the values are held, to search among them. The map that is returned is fitted to all rows.
    """
    run = Run.of(options, cluster=cluster)
    names = {
        "group_by": group_by_name or ("labels" if options.group_by is not None else None),
        "labels": labels_name or ("labels" if options.labels is not None else None),
    }
    with one_blas_thread():
        tables = distinct([as_representation(r, i) for i, r in enumerate((first, second))])
        families_of(options.shared(MapOptions), (tables[0].d, tables[1].d))  # refuses before anything is read
        work = _Pairs.of(tables, options, run)
        inputs = inputs_of(tables, run)
        run.alerts += identical_inputs(inputs)
        ways = [_Direction(work, back=back) for back in (False, True)]
        found = [way.result() for way in ways]
        _warn(work, ways, found)
        by = fitted(work.moments, ways[0].choice)
        back = inverse_of(by, normalize=options.normalize)
        reach = Reach.of(work.moments.alone(0), work.x)
    result = Alignment(
        inputs=inputs,
        settings=options.settings(**names),
        alerts=tuple(dict.fromkeys(run.alerts)),
        provenance=default_provenance(options.seed, options.command or "identifiable.align(...)"),
        pairs=work.n,
        ways=(found[0], found[1]),
        text=_answer(found[0]),
    )
    return Aligned(by, back, reach, result, options.normalize, tables[0].columns, tables[1].columns)


@dataclass(eq=False)
class _Pairs:
    """The rows that both tables have: moments of every fold and of the rows held out, and the values of some rows in memory.

    `x` and `y` are these values; `held`, `fold`, `group`, `labels` and `ids` (or numbers in the first table, from 0) are of the
    same rows. `shuffled` puts those that are not held
    out in random order.
    """

    names: tuple[str, str]
    columns: tuple[tuple[str, ...] | None, tuple[str, ...] | None]
    n: int
    folds: list[Moments]
    evaluation: Moments
    x: NDArray[Any]
    y: NDArray[Any]
    held: NDArray[np.bool_]
    fold: NDArray[np.int64]
    group: NDArray[np.int64] | None
    labels: NDArray[Any] | None
    ids: NDArray[Any]
    shuffled: NDArray[np.intp]
    options: AlignOptions
    run: Run

    @classmethod
    def of(cls, tables: Sequence[Any], options: AlignOptions, run: Run) -> _Pairs:
        pairing = joined(tables, run)
        n = pairing.n
        if n < LEAST_PAIRS:
            names = " and ".join(table.name for table in tables)
            raise DataError(f"{names} have {n} rows in common; align needs at least {LEAST_PAIRS}, so pass more.")
        groups, labels = (
            joined_labels(name, getattr(options, name), tables[0], pairing) for name in ("group_by", "labels")
        )
        plan = plan_rows(n, pairing.ids, seed=options.seed, n_folds=FOLDS, groups=groups)
        held = _held_out(plan, options)
        fold = np.full(n, FOLDS)
        fold[~held] = plan_rows(
            int(np.sum(~held)),
            None if pairing.ids is None else pairing.ids[~held],
            seed=options.seed,
            n_folds=FOLDS,
            groups=None if groups is None else groups[~held],
        ).fold
        blocks = [
            rows_of(blocks_of(table) if rows is None else blocks_of(table).select(rows), options.normalize)
            for table, rows in zip(tables, pairing.rows, strict=True)
        ]
        *folds, evaluation = gather_moments(
            blocks,
            run,
            part=fold,
            n_parts=FOLDS + 1,
            original_rows=pairing.rows,
        )
        training = plan.shuffled[~held[plan.shuffled]]
        kept = np.sort(np.r_[np.flatnonzero(held), training[: max(IN_MEMORY - int(held.sum()), IN_MEMORY // 2)]])
        place = np.full(n, -1)
        place[kept] = np.arange(len(kept))
        return cls(
            names=(tables[0].name, tables[1].name),
            columns=(tables[0].columns, tables[1].columns),
            n=n,
            folds=folds,
            evaluation=evaluation,
            x=held_rows(blocks[0], kept),
            y=held_rows(blocks[1], kept),
            held=held[kept],
            fold=fold[kept],
            group=None if plan.group is None else plan.group[kept],
            labels=None if labels is None else labels[kept],
            ids=kept if pairing.ids is None else pairing.ids[kept],
            shuffled=place[training][place[training] >= 0],
            options=options,
            run=run,
        )

    @cached_property
    def training(self) -> Moments:
        return reduce(Moments.merge, self.folds)

    @cached_property
    def moments(self) -> Moments:
        """Of all rows."""
        return self.training.merge(self.evaluation)

    @cached_property
    def index(self) -> NDArray[np.intp]:
        """The rows in memory that are searched."""
        return np.arange(len(self.x)) if self.options.index == "all" else np.flatnonzero(self.held)


class _Direction:
    """The map one way: chosen on rows that are fitted to, evaluated on rows that are not."""

    def __init__(self, work: _Pairs, *, back: bool):
        self.work, self.options, self.run = work, work.options, work.run
        first, second = (1, 0) if back else (0, 1)
        self.source, self.target = work.names[first], work.names[second]
        self.columns = work.columns[first]
        self.x, self.y = (work.y, work.x) if back else (work.x, work.y)
        self.folds = [m.reversed() for m in work.folds] if back else work.folds
        self.training = reduce(Moments.merge, self.folds)
        self.rng = np.random.default_rng([self.options.seed, int(back)])
        rows = work.shuffled[:INDEX]
        sample = Sample.of(self.x[rows], self.y[rows], work.fold[rows], FOLDS, CHOICE_QUERIES)
        self.choice = choose(self.folds, sample, self.options.shared(MapOptions), self.run)
        self.map = fitted(self.training, self.choice)
        held = np.flatnonzero(work.held)
        self.queries, self.answers = self.x[held], self.y[held]
        self.own = np.searchsorted(work.index, held)
        self.parts: Parts = None if work.group is None else work.group[held]
        self.labels = None if work.labels is None else work.labels[held]

    # -- maps and rows

    def carried(self, by: AffineMap, rows: NDArray[Any]) -> Array:
        return unit(by.apply(rows)) if self.options.normalize else by.apply(rows)

    @cached_property
    def mapped(self) -> Array:
        """The rows held out, through the map."""
        return self.carried(self.map, self.queries)

    @cached_property
    def map_in_memory(self) -> AffineMap:
        """The chosen family fitted to all rows in memory that are not held out: the map itself, where that is all rows."""
        rows = self.work.shuffled
        return self.map if len(rows) == self.training.n else self.fitted_to(rows)

    def fitted_to(self, rows: NDArray[np.intp], *, penalty: float = 1.0, normalize: bool = False) -> AffineMap:
        """The chosen family fitted to some rows in memory, its penalty times `penalty`."""
        return self._of(self.x[rows], self.y[rows], penalty, normalize)

    def _of(self, x: NDArray[Any], y: NDArray[Any], penalty: float = 1.0, normalize: bool = False) -> AffineMap:
        if normalize:
            x, y = unit(x), unit(y)
        moments = Moments.of(np.hstack([x, y]), (x.shape[1], y.shape[1]))
        chosen = self.choice.penalty
        return fitted(moments, replace(self.choice, penalty=None if chosen is None else chosen * penalty))

    # -- searches

    @cached_property
    def indexes(self) -> dict[Metric, Index]:
        """The true rows of the target."""
        return {metric: Index(self.y[self.work.index], metric=metric) for metric in METRICS}

    @cached_property
    def truth(self) -> dict[Metric, Lists]:
        return {metric: true_lists(self.answers, index, self.own, self.run) for metric, index in self.indexes.items()}

    def searched(self, queries: NDArray[Any], metric: Metric = "cosine") -> Searched:
        """What queries find among the true rows of the target."""
        return retrieve(queries, self.indexes[metric], self.truth[metric], self.own, parts=self.parts, run=self.run)

    def _stored(self, metric: Metric) -> tuple[Searched, tuple[Array, Array]]:
        """What the target's own vectors find among mapped rows; recall@10 and 10-in-100 of mapped ones among true rows there.

        Only rows held out: the map has seen the others.
        """
        places, true = np.arange(len(self.mapped)), Index(self.answers, metric=metric)
        truth = true_lists(self.answers, true, places, self.run)
        mapped = Index(self.mapped, metric=metric)
        lists = true.nearest(self.mapped, min(FETCHED, len(true) - 1), own=places, run=self.run)
        asked = recalls(lists[:, : truth.shape[1]], truth), recalls(lists, truth)
        return retrieve(self.answers, mapped, truth, places, parts=self.parts, run=self.run), asked

    def recall(self, queries: NDArray[Any]) -> Array:
        """Recall@10 of every query, by cosine."""
        truth = self.truth["cosine"]
        return recalls(self.indexes["cosine"].nearest(queries, truth.shape[1], own=self.own, run=self.run), truth)

    @cached_property
    def old_encoder(self) -> OldEncoder:
        """What the source finds of the target's ten nearest rows, each in its own space."""
        index = Index(self.x[self.work.index], metric="cosine")
        found = index.nearest(self.queries, min(FETCHED, len(index) - 1), own=self.own, run=self.run)
        truth = self.truth["cosine"]
        ten, hundred = recalls(found[:, : truth.shape[1]], truth), recalls(found, truth)
        return OldEncoder(bounded_share(ten, self.parts), bounded_share(hundred, self.parts))

    def copies(self) -> float:
        """The share of the rows held out that have a near copy among the others, in columns of one spread.

        A copy agrees in all columns. Beside one rogue column every row would be near to another.
        """
        deviations = self.y[self.work.index].std(axis=0)
        live = deviations > 0
        rows, answers = (values[:, live] / deviations[live] for values in (self.y[self.work.index], self.answers))
        found = Index(rows, metric="euclidean").search(answers, 1, own=self.own, run=self.run)
        return float(np.mean(found.squares[:, 0] < NEAR_COPY**2 * 2 * live.sum()))

    # -- the result

    def result(self) -> Way:
        found = {metric: self.searched(self.mapped, metric) for metric in METRICS}
        baselines = tuple(self._baseline(name, by) for name, by in self._baselines())
        closeness = self._closeness(self.mapped)
        shuffled = next(each.cosine for each in baselines if each.name == "shuffled_pairs")
        stored = {metric: self._stored(metric) for metric in METRICS}
        uses = tuple(self._uses(found, stored, shuffled))
        return Way(
            source=self.source,
            target=self.target,
            family=self.choice.family,
            group=self.choice.group,
            penalty=self.choice.penalty,
            rank=self.choice.rank,
            why=self.choice.why,
            fitted=self.training.n,
            tried=self.choice.tried,
            choice_queries=self.choice.queries,
            choice_index=self.choice.index,
            invertible=inverse_of(self.map, normalize=self.options.normalize) is not None,
            queries=tuple(each.result for each in found.values()),
            stored=tuple(each.result for each, _ in stored.values()),
            baselines=baselines,
            own_overlap=self.old_encoder.recall_10,
            own_within_100=self.old_encoder.within_100,
            r2=closeness.r2,
            cosine=closeness.cosine,
            mixed=true_share(
                self.answers,
                self.answers,
                self.mapped,
                np.arange(len(self.mapped)),
                seed=self.options.seed,
                run=self.run,
            ),
            curve=self._curve() if self.options.curve else None,
            regions=worst_regions(
                found["cosine"].rows,
                self.queries,
                self.labels,
                columns=self.columns,
                ids=self.work.ids[self.work.held],
                parts=self.parts,
                rng=self.rng,
            ),
            advice=uses[0].advice,
            uses=uses,
        )

    def _uses(
        self,
        found: Mapping[Metric, Searched],
        stored: Mapping[Metric, tuple[Searched, tuple[Array, Array]]],
        shuffled: Retrieval,
    ) -> Iterator[MapUse]:
        """Recall and advice of stored vectors, then of queries, by either metric."""
        for metric, (mapped, asked) in stored.items():
            whole = found[metric]
            recall = in_whole_index(whole.rows, mapped.rows, asked[0], self.parts)
            within = in_whole_index(whole.within, mapped.within, asked[1], self.parts)
            given = replace(whole.result, recall_10=recall, within_100=within)
            yield MapUse("stored", metric, given.index, recall, within, advice(given, self.old_encoder, shuffled))
        for metric, each in found.items():
            r = each.result
            yield MapUse("queries", metric, r.index, r.recall_10, r.within_100, advice(r, self.old_encoder, shuffled))

    def _closeness(self, mapped: Array) -> Closeness:
        return Closeness.of(mapped, self.answers, self.training.mean_y, self.parts)

    def _baselines(self) -> Iterator[tuple[BaselineName, AffineMap]]:
        widths = self.training.widths
        if widths[0] == widths[1]:
            yield "as_is", AffineMap.identity(widths[0])
        yield "random_rotation", random_rotation(self.training, self.rng)
        yield "shuffled_pairs", self._of_shuffled_pairs()

    def _of_shuffled_pairs(self) -> AffineMap:
        """The family fitted to what knows neither which rows correspond nor, where it keeps axes, which columns do.

        Drawn to the identity it would find between two versions of one encoder what the map finds.
        """
        rows = self.work.shuffled
        x, y = self.x[rows], self.y[self.rng.permutation(rows)]
        if self.choice.family not in AXES_KEPT:
            return self._of(x, y)
        turn = AffineMap(haar_rotation(x.shape[1], self.rng), np.zeros(x.shape[1]))
        return turn.then(self._of(turn(x), y))

    def _baseline(self, name: BaselineName, by: AffineMap) -> Baseline:
        mapped = self.carried(by, self.queries)
        return Baseline(name, self.searched(mapped).result, self._closeness(mapped).r2.value)

    def _curve(self) -> PairsNeeded | None:
        rows = self.work.shuffled

        def recall(pairs: int) -> Bounded:
            by = self.map_in_memory if pairs == len(rows) else self.fitted_to(rows[:pairs], penalty=len(rows) / pairs)
            return bounded_share(self.recall(self.carried(by, self.queries)), self.parts)

        return pairs_needed(recall, len(rows))


def _held_out(plan: RowPlan, options: AlignOptions) -> NDArray[np.bool_]:
    """The rows to evaluate on: whole groups, where there are groups, until there are enough."""
    n = len(plan.shuffled)
    wanted = options.holdout or min(max(round(n * SHARE_HELD_OUT), 1), MOST_HELD_OUT)
    if n - wanted < LEAST_PAIRS // 2:
        raise UsageError(
            f"holdout {wanted}: expected at most {n - LEAST_PAIRS // 2} of {n} rows; some must be fitted to."
        )
    held = np.zeros(n, bool)
    if plan.group is None:
        held[plan.shuffled[:wanted]] = True
        return held
    if plan.units < FOLDS + 1:
        raise UsageError(f"group_by: expected at least {FOLDS + 1} groups, of which one is held out, got {plan.units}.")
    drawn = plan.group[plan.shuffled]
    order = drawn[np.sort(np.unique(drawn, return_index=True)[1])]  # groups as they first appear
    count = 1 + int(np.searchsorted(np.cumsum(np.bincount(drawn)[order]), wanted))
    return np.isin(plan.group, order[: min(count, plan.units - FOLDS)])


# -- what a reader must know


def _answer(way: Way) -> Answer:
    found = way.uses[0]
    low, high = found.recall_10.ci95 or (found.recall_10.value, found.recall_10.value)
    values: dict[str, Any] = {
        "source": way.source,
        "target": way.target,
        "recall": found.recall_10.value,
        "low": low,
        "high": high,
        "index": found.index,
        "within": found.within_100.value,
        "by_distance": way.uses[1].recall_10.value,
        "queries": way.uses[2].recall_10.value,
        "own": way.own_overlap.value,
        "least_map": MAP,
        "least_rerank": RERANK,
        "least_both": BOTH,
    }
    if found.index < LEAST_INDEX:
        values["least_index"] = LEAST_INDEX
    if way.own_within_100 is not None:
        values["own_within"] = way.own_within_100.value
    if found.index >= LEAST_INDEX and (ends := found.within_100.ci95) is not None and _is_close(ends, way.advice):
        values |= {"within_low": ends[0], "within_high": ends[1]}
    shuffled = next(each.cosine.recall_10 for each in way.baselines if each.name == "shuffled_pairs")
    if way.advice == "re_embed" and low <= (shuffled.ci95 or (0, shuffled.value))[1]:
        values["shuffled"] = shuffled.value
    return Answer(way.advice, values)


def _is_close(ends: Interval, said: Advice) -> bool:
    """Whether the interval of 10 in 100, moved by half of itself, would give the other of two advices: re-rank, or keep the old."""
    low, high = ends
    near = abs(low - RERANK) < (high - low) / 2
    return near and said == ("keep_old" if low < RERANK else "map_and_rerank")


def _warn(work: _Pairs, ways: Sequence[_Direction], found: Sequence[Way]) -> None:
    say = work.run.alerts.append
    widths = work.training.widths
    if work.training.n < max(widths):
        say(Alert("few_pairs", {"pairs": work.training.n, "dimensions": max(widths)}))
    queries = found[0].queries[0].queries
    if queries < FEW_QUERIES:
        say(Alert("few_queries", {"queries": queries, "least": FEW_QUERIES}))
    if widths[0] != widths[1]:
        first, second = work.names
        sizes = {"first_width": widths[0], "second_width": widths[1]}
        say(Alert("widths_differ", {"first": first, "second": second, **sizes}))
    for which, name in enumerate(work.names):
        constant = int(np.sum(work.moments.alone(which).energy == 0))
        if constant:
            say(Alert("constant_columns", {"name": name, "constant": constant, "columns": widths[which]}))
    if len(work.index) < work.n and work.options.index == "all":
        say(Alert("index_sampled", {"index": len(work.index), "rows": work.n}))
    searched = found[0].queries[0]
    if searched.index < LEAST_INDEX:
        say(Alert("small_index", {"index": searched.index, "least": LEAST_INDEX}))
    for each in found[0].baselines:
        as_is, mapped = each.cosine.recall_10.value, searched.recall_10.value
        if each.name == "as_is" and as_is >= mapped - WORTH_SAYING and found[0].advice != "re_embed":
            say(Alert("map_not_needed", {"as_is": as_is, "recall": mapped, "index": searched.index}))
    for direction, way in zip(ways, found, strict=True):
        if not FAIR[0] <= way.mixed <= FAIR[1]:
            code = "mapped_crowd_out" if way.mixed < 0.5 else "true_crowd_out"
            say(Alert(code, {"source": way.source, "target": way.target, "share": way.mixed}))
        copies = direction.copies()
        if work.group is None and copies > COPIES:
            say(Alert("near_copies", {"name": way.target, "share": copies}))
    if not work.options.normalize:
        _hint_to_normalize(work, ways[0])


def _hint_to_normalize(work: _Pairs, way: _Direction) -> None:
    """An alert where the same family, fitted to rows of length one, finds more by cosine: by two standard errors of the difference."""
    by = way.fitted_to(work.shuffled, normalize=True)
    gain = way.recall(by(unit(way.queries))) - way.recall(way.map_in_memory(way.queries))
    error = float(gain.std() / np.sqrt(len(gain)))
    if gain.mean() > max(2 * error, WORTH_SAYING):
        work.run.alerts.append(Alert("normalize_helps", {"gain": float(gain.mean()), "index": len(work.index)}))
