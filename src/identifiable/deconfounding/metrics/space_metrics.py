"""All metrics of a space in one form, so that spaces can be set side by side on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from identifiable._checks import UsageError
from identifiable.deconfounding.design import Codes, Design, Labels
from identifiable.deconfounding.intervals import NO_INTERVAL, interval_of_mean, interval_of_median
from identifiable.deconfounding.metrics import mixing
from identifiable.deconfounding.metrics.effects import consistency, relationship_recall
from identifiable.deconfounding.metrics.matrices import label_means
from identifiable.deconfounding.metrics.mixing import pcr
from identifiable.deconfounding.metrics.replicates import Against, Column, Ranking, replicate_map
from identifiable.results import Interval, Note, SpaceMetric
from identifiable.run import PLAIN, Run, Stage

Need = Literal["batches", "replicates", "controls"]
RowsOf = Literal["replicates", "batches", "all"]
Relations = Sequence[tuple[str, str]]  # pairs of perturbations or targets that are known to belong together
RECALL = "recall"  # of known relations, which come from outside the screen
CONTROL, NAMELESS, NAMED = "c", "u", "n"  # kinds of wells, see `_recall`
MAX_ROWS = 20_000
MAX_PER_PERTURBATION = 100  # so that one guide with 1,500 wells does not take the place of 15 others
MAX_BATCHES = mixing.KBET_NEIGHBOURS // 5  # 5 expected neighbours of each batch; with more, kBET and iLISI saturate


@dataclass(frozen=True)
class Measured:
    """A value, its 95 % interval (NaN where there is none), and what a reader must know of it."""

    value: float
    ci95: Interval = NO_INTERVAL
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, eq=False)
class Space:
    """Rows of a space and their design; neighbours are found once for all metrics that need them."""

    X: Any
    design: Design
    relations: Relations = ()

    @cached_property
    def neighbours(self) -> mixing.Neighbours:
        return mixing.nearest(self.X, min(mixing.LISI_NEIGHBOURS, self.design.n))

    @property
    def batch(self) -> Labels:
        return batch_of(self.design)

    @property
    def batch_note(self) -> Note:
        level = "plate" if self.batch is self.design.plate else "batch"
        return Note("groups", {"groups": self.batch.size, "level": level})


@dataclass(frozen=True)
class SpaceMetricSpec:
    """A metric of a space: how it is measured, which way is better, what it needs, which rows it is measured on."""

    name: str
    measure: Callable[[Space, Generator], Measured]
    better: Literal["high", "low"]
    needs: tuple[Need, ...]
    rows: RowsOf
    rotation_invariant: bool = True  # a function of distances, cosines or sums of squares

    def on(self, space: Space, rng: Generator) -> Measured:
        """The value with its interval and notes; NaN where the design lacks what the metric needs."""
        lacking = unmet(space.design, self.needs)
        return Measured(float("nan"), notes=(lacking,)) if lacking else self.measure(space, rng)


def space_metrics(
    X: Any,
    design: Design,
    *,
    space: str,
    only: Collection[str] | None = None,
    relations: Relations = (),
    max_rows: int = MAX_ROWS,
    run: Run = PLAIN,
) -> tuple[SpaceMetric, ...]:
    """Every metric of `SPACE_METRICS` (or `only` some) of one space; recall only where `relations` are known. Ours.

    The same design and seed give the same rows for every space, so values compare. With more than `max_rows` rows, metrics of
    replicates see whole perturbations (`replicate_rows`); those of batches always see at most 10 batches (`batch_rows`);
    principal component regression and recall see all rows. Notes say where it is not all of them.
    """
    unknown = set(only or ()) - set(SPACE_METRICS)
    if unknown:
        raise UsageError(
            f"space_metrics: no metric {', '.join(sorted(unknown))}; there are {', '.join(SPACE_METRICS)}."
        )
    usual = set(SPACE_METRICS) if relations else set(SPACE_METRICS) - {RECALL}
    chosen = [spec for spec in SPACE_METRICS.values() if spec.name in (usual if only is None else only)]
    seen: dict[RowsOf, tuple[Space, tuple[Note, ...]]] = {}
    found = []
    for done, spec in enumerate(chosen):
        if spec.rows not in seen:
            seen[spec.rows] = _space(X, design, relations, spec.rows, max_rows, run.seed)
        part, notes = seen[spec.rows]
        rng = np.random.default_rng([run.seed, list(SPACE_METRICS).index(spec.name)])
        measured = spec.on(part, rng)
        found.append(
            SpaceMetric(
                metric=spec.name,
                space=space,
                value=measured.value,
                ci95=measured.ci95,
                rotation_invariant=spec.rotation_invariant,
                better=spec.better,
                notes=(*measured.notes, *notes),
            )
        )
        run.say(Stage("metrics", space), done + 1, len(chosen))
    return tuple(found)


def _space(
    X: Any, design: Design, relations: Relations, rows: RowsOf, max_rows: int, seed: int
) -> tuple[Space, tuple[Note, ...]]:
    if rows == "all":
        return Space(X, design, relations), ()
    rng = np.random.default_rng([seed, design.n])
    kept = replicate_rows(design, max_rows, rng) if rows == "replicates" else batch_rows(design, max_rows, rng)
    if len(kept) == design.n:
        return Space(X[:], design), ()
    return Space(X[kept], design.take(kept)), (Note("rows_of", {"rows": len(kept), "of": design.n}),)


def batch_of(design: Design) -> Labels:
    """Batches, or plates where the design has no batches or a single one."""
    return design.plate if design.batch is None or design.batch.size < 2 else design.batch


def replicate_rows(design: Design, max_rows: int, rng: Generator) -> Codes:
    """At most `max_rows` rows: a quarter controls, the rest perturbations at random, each with up to 100 of its rows.

    A plain draw of rows would leave most perturbations without a replicate.
    """
    if design.n <= max_rows:
        return np.arange(design.n)
    controls = rng.permutation(np.flatnonzero(design.control))[: max_rows // 4]
    free = max_rows - len(controls)
    treated = rng.permutation(np.flatnonzero(~design.control))
    order = np.argsort(rng.permutation(design.perturbation.size)[design.perturbation.codes[treated]], kind="stable")
    treated = treated[order]
    codes = design.perturbation.codes[treated]
    first = np.r_[True, codes[1:] != codes[:-1]]
    within = np.arange(len(codes)) - np.maximum.accumulate(np.where(first, np.arange(len(codes)), 0))
    treated = treated[within < MAX_PER_PERTURBATION]
    kept = treated[:free]
    if len(kept) < len(treated):  # the last perturbation would be cut: it is left out
        whole = design.perturbation.codes[kept] != design.perturbation.codes[treated[free]]
        kept = kept[whole] if whole.any() else kept
    return np.sort(np.r_[controls, kept])


def batch_rows(design: Design, max_rows: int, rng: Generator) -> Codes:
    """Rows of at most 10 batches drawn at random; of more than `max_rows` rows that many, at random."""
    batch = batch_of(design)
    chosen = rng.permutation(batch.size)[:MAX_BATCHES]
    rows = np.flatnonzero(np.isin(batch.codes, chosen))
    return rows if len(rows) <= max_rows else np.sort(rng.choice(rows, max_rows, replace=False))


def unmet(design: Design, needs: Collection[Need]) -> Note | None:
    """What a design lacks; None if nothing."""
    if "batches" in needs and batch_of(design).size < 2:
        return Note("one_plate")
    if "controls" in needs and not design.control.any():
        return Note("no_controls")
    treated = design.perturbation.codes[~design.control]
    if "replicates" in needs and (len(treated) == 0 or np.bincount(treated).max() < 2):
        return Note("no_two_rows")
    return None


def replicate_columns(design: Design) -> tuple[Column, ...]:
    """What replicates differ in: plate and well, or as much of it as leaves any pair of replicates."""
    choices: tuple[tuple[Column, ...], ...] = (("plate", "well"), ("plate",), ("well",), ())
    for columns in choices:
        if ("well" not in columns or design.address is not None) and _pairs(design, columns) > 0:
            return columns
    return ()


def _pairs(design: Design, differ: tuple[Column, ...]) -> int:
    """Pairs of treated rows of one perturbation that differ in every column: counted by inclusion and exclusion."""
    columns = {"plate": design.plate.codes, "well": None if design.address is None else design.address.codes}
    total = 0
    for chosen in range(1 << len(differ)):
        same = [columns[c] for i, c in enumerate(differ) if chosen >> i & 1]
        keys = np.stack([design.perturbation.codes, *(s for s in same if s is not None)])[:, ~design.control]
        counts = np.unique(keys, axis=1, return_counts=True)[1]
        total += (-1) ** len(same) * int(np.sum(counts * (counts - 1) // 2))
    return total


def _replicate_map(against: Against) -> Callable[[Space, Generator], Measured]:
    def measure(space: Space, rng: Generator) -> Measured:
        columns = replicate_columns(space.design)
        found = replicate_map(space.X, space.design, Ranking(against, positives_differ_by=columns), permutations=0)
        differ = {"differ": " and another ".join(columns)} if columns else {}
        return Measured(
            found.mean,
            interval_of_mean(found.mean_average_precision, rng),
            (Note("replicates", {**differ, "chance": found.mean_chance}),),
        )

    return measure


def _consistency(space: Space, rng: Generator) -> Measured:
    treated = ~space.design.control
    found = consistency(space.X[treated], space.design.perturbation.take(treated), draws=0)
    return Measured(found.mean, interval_of_mean(found.cosine, rng))


def _lisi(space: Space, labels: Labels, rng: Generator, *, mixed: bool) -> Measured:
    known = space.neighbours
    if labels.size < 2 or known.k < 4:
        return Measured(float("nan"), notes=(Note("labels", {"labels": labels.size, "rows": space.design.n}),))
    found = mixing.lisi(space.X, labels, k=known.k, perplexity=known.k // 3, neighbours=known)
    low, high = interval_of_median(found.rows, rng, space.design.plate.codes)
    ends = mixing.scaled_lisi(low, labels.size), mixing.scaled_lisi(high, labels.size)
    return Measured(found.ilisi, ends) if mixed else Measured(found.clisi, (1 - ends[1], 1 - ends[0]))


def _ilisi(space: Space, rng: Generator) -> Measured:
    found = _lisi(space, space.batch, rng, mixed=True)
    return Measured(found.value, found.ci95, found.notes or (space.batch_note,))


def _clisi(space: Space, rng: Generator) -> Measured:
    return _lisi(space, space.design.perturbation, rng, mixed=False)


def _kbet(space: Space, rng: Generator) -> Measured:
    k = min(mixing.KBET_NEIGHBOURS, space.neighbours.k)
    found = mixing.kbet(space.X, space.batch, k=k, neighbours=space.neighbours)
    accepted = np.asarray(found.p >= mixing.ALPHA, dtype=np.float64)
    return Measured(found.acceptance, interval_of_mean(accepted, rng, space.design.plate.codes), (space.batch_note,))


def _connectivity(space: Space, rng: Generator) -> Measured:
    k = min(mixing.GRAPH_NEIGHBOURS, space.neighbours.k)
    found = mixing.graph_connectivity(space.X, space.design.perturbation, k=k, neighbours=space.neighbours)
    return Measured(found.score, interval_of_mean(found.scores, rng))


def _silhouette_label(space: Space, rng: Generator) -> Measured:
    found = mixing.silhouette_label(space.X, space.design.perturbation)
    return Measured(found.score, interval_of_mean((found.rows + 1) / 2, rng, space.design.plate.codes))


def _silhouette_batch(space: Space, rng: Generator) -> Measured:
    found = mixing.silhouette_batch(space.X, space.batch, space.design.perturbation)
    return Measured(found.score, interval_of_mean(found.scores, rng), (space.batch_note,))


def _bras(space: Space, rng: Generator) -> Measured:
    found = mixing.bras(space.X, space.batch, space.design.perturbation)
    return Measured(found.score, interval_of_mean(found.scores, rng), (space.batch_note,))


def _pcr_batch(space: Space, rng: Generator) -> Measured:
    return Measured(pcr(space.X, space.batch).score, notes=(space.batch_note,))


def _recall(space: Space, rng: Generator) -> Measured:
    """Of the mean effects of perturbations, or of targets where more of the relations name those, about the mean of the controls.

    Without controls about the mean of all names. Treated wells without a name (compounds of no known target) take no part.
    """
    if not space.relations:
        return Measured(float("nan"), notes=(Note("no_relations"),))
    known = {name for pair in space.relations for name in pair}
    design = space.design
    labels = max(
        (design.perturbation, *((design.target,) if design.target is not None else ())),
        key=lambda found: sum(name in known for name in found.names),
    )
    what = "perturbations" if labels is design.perturbation else "targets"
    text = labels.text()
    # Wells of a kind first, so that no name can be taken for controls.
    kind = np.where(design.control, CONTROL, np.where(text == "", NAMELESS, NAMED))
    groups = Labels.of(np.char.add(kind, np.where(kind == NAMED, text, "")))
    means, of_kind = label_means(space.X, groups), np.array([name[0] for name in groups.names])
    named = of_kind == NAMED
    if not named.any():
        return Measured(float("nan"), notes=(Note("no_names", {"what": what}),))
    centre = means[of_kind == (CONTROL if CONTROL in of_kind else NAMED)].mean(axis=0)
    names = np.array([name[1:] for name in groups.names])[named]
    found = relationship_recall(means[named] - centre, names, space.relations)
    if not found.used:
        return Measured(
            float("nan"),
            notes=(Note("no_pairs", {"pairs": found.given, "what": what}),),
        )
    return Measured(
        found.recall,
        found.ci95,
        (Note("pairs", {"used": found.used, "pairs": found.given, "what": what, "chance": found.chance}),),
    )


def _pcr_plate(space: Space, rng: Generator) -> Measured:
    return Measured(
        pcr(space.X, space.design.plate).score,
        notes=(Note("groups", {"groups": space.design.plate.size, "level": "plate"}),),
    )


SPACE_METRICS: Mapping[str, SpaceMetricSpec] = {
    spec.name: spec
    for spec in (
        SpaceMetricSpec("replicate_map", _replicate_map("controls"), "high", ("replicates", "controls"), "replicates"),
        SpaceMetricSpec(
            "replicate_map_others", _replicate_map("non-replicates"), "high", ("replicates",), "replicates"
        ),
        SpaceMetricSpec("consistency", _consistency, "high", ("replicates",), "replicates"),
        SpaceMetricSpec(RECALL, _recall, "high", (), "all"),
        SpaceMetricSpec("clisi", _clisi, "high", ("replicates",), "replicates"),
        SpaceMetricSpec("graph_connectivity", _connectivity, "high", ("replicates",), "replicates"),
        SpaceMetricSpec("silhouette_label", _silhouette_label, "high", ("replicates",), "replicates"),
        SpaceMetricSpec("ilisi", _ilisi, "high", ("batches",), "batches"),
        SpaceMetricSpec("kbet", _kbet, "high", ("batches",), "batches"),
        SpaceMetricSpec("silhouette_batch", _silhouette_batch, "high", ("batches",), "batches"),
        SpaceMetricSpec("bras", _bras, "high", ("batches",), "batches"),
        SpaceMetricSpec("pcr_batch", _pcr_batch, "low", ("batches",), "all"),
        SpaceMetricSpec("pcr_plate", _pcr_plate, "low", ("batches",), "all"),
    )
}
"""Metrics by name. Magnitude is not among them: it grows with the scale of a space."""
