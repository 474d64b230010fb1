"""Two heads against each other: diversity, the map both ways and, with features, what it explains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import binom

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks, fold, one_blas_thread
from identifiable.intake import blocks_of, content_hash, default_provenance, gather_moments, identical_inputs, inputs_of
from identifiable.moments import Array, Moments
from identifiable.options import HeadsOptions
from identifiable.representation import Representation, pair
from identifiable.results import Alert, HeadDiversity, HeadMap, Heads, Input, Premise
from identifiable.rows import uniforms
from identifiable.run import Run, Stage
from identifiable.unembedding.head import Head, joined
from identifiable.unembedding.maps import CELLS, FEWEST_SHUFFLES, HeadRelation, fit_of

LOGITS = 2**21  # logits of a model that are held at once
SHUFFLES = 999  # of the labels, none of which may agree as well, before features are said to be swapped
ILL_CONDITIONED = 10  # of a head, from which on a ridge predicts features better (measured: spec/models.md)


def compare_heads(
    first: Head,
    second: Head,
    features: Sequence[Representation],
    frequencies: Array | None,
    options: HeadsOptions,
    run: Run,
) -> Heads:
    """What two heads fix of the features of their models, and how well that holds on features if there are any.

    Implements Roeder et al. 2021 (diversity and the linear map, from weights alone) and the logit distance of Nielsen et al.
    2026. Ours: the restriction to the row space, the ridge, temperature and nulls.
    """
    *heads, lost = joined(first, second)
    if lost:
        run.alerts.append(Alert("labels_dropped", {"dropped": lost, "remain": len(heads[0].weight)}))
    inputs = (*(_input(h) for h in (first, second)), *inputs_of(features, run))
    run.alerts += identical_inputs(inputs[:2])
    given = _checked_frequencies(frequencies, len(heads[0].weight))
    with one_blas_thread():
        for head in heads:
            if not head.spectrum.rank:
                raise DataError(f"{head.name}: all labels have the same weights, so it separates none; check the file.")
        rows = _measured(heads, features, options, run) if features else None
        diversity = [_diversity(head, i, given, rows) for i, head in enumerate(heads)]
        cells = rows.cells if rows else []
        maps = [_map(*way, cells, options, run) for way in ((heads, False), (heads[::-1], True))]
    for found in diversity:
        if not found.diverse:
            values = {"name": found.name, "labels": found.labels, "dimensions": found.dimensions, "rank": found.rank}
            run.alerts.append(Alert("head_not_diverse", values))
        if found.condition > ILL_CONDITIONED and not features:
            run.alerts.append(Alert("head_ill_conditioned", {"name": found.name, "condition": found.condition}))
    if any(way.fit is not None and not way.fit.draws for way in maps):
        run.alerts.append(Alert("few_labels", {"labels": len(heads[0].weight), "least": FEWEST_SHUFFLES}))
    return Heads(
        inputs=inputs,
        settings=options.settings(),
        alerts=tuple(dict.fromkeys(run.alerts)),
        provenance=default_provenance(options.seed, options.command or "identifiable.heads(...)"),
        heads=(diversity[0], diversity[1]),
        maps=(maps[0], maps[1]),
        premise=rows.premise if rows else None,
        temperature=_temperature(maps),
    )


def _temperature(maps: Sequence[HeadMap]) -> float | None:
    """The factor between logits; None without features, or where a scale is not positive."""
    scales = [way.fit.scale for way in maps if way.fit is not None and way.fit.scale > 0]
    return float(np.sqrt(scales[0] / scales[1])) if len(scales) == 2 else None


def _input(head: Head) -> Input:
    weight = head.weight if head.bias is None else np.column_stack([head.weight, head.bias])
    return Input(head.name, *head.shape, head.dtype, content_hash(Blocks(weight)))


def _checked_frequencies(frequencies: Array | None, labels: int) -> Array | None:
    if frequencies is None:
        return None
    if frequencies.shape != (labels,) or not (
        np.isfinite(frequencies).all() and frequencies.min() >= 0 < frequencies.sum()
    ):
        raise DataError(
            f"frequencies: expected a count or share of at least 0 for each of {labels} labels, got shape {frequencies.shape}."
        )
    shares: Array = frequencies / frequencies.sum()
    return shares


@dataclass(frozen=True, eq=False)
class _Rows:
    """What the rows of features leave behind: moments of `CELLS` parts of every fold, the premise, mean probabilities of either model."""

    cells: list[Moments]
    premise: Premise
    probabilities: list[Array]


def _diversity(head: Head, which: int, given: Array | None, rows: _Rows | None) -> HeadDiversity:
    if rows is None:
        return replace(head.diversity(given), frequencies=None if given is None else "given")
    total = reduce(Moments.merge, rows.cells).alone(which).scatter
    right, whole = head.spectrum.right, float(np.trace(total))
    return replace(
        head.diversity(rows.probabilities[which] if given is None else given),
        frequencies="predicted" if given is None else "given",
        variance=float(np.sum((right @ total) * right)) / whole if whole > 0 else float("nan"),
    )


def _measured(heads: Sequence[Head], features: Sequence[Representation], options: HeadsOptions, run: Run) -> _Rows:
    for head, table in zip(heads, features, strict=True):
        if table.d != head.shape[1]:
            raise DataError(
                f"{table.name}: expected {head.shape[1]} columns, one for each dimension that {head.name} reads, got {table.d}."
            )
    pairing = pair(*features)
    if any(pairing.dropped):
        lost = {r.name: k for r, k in zip(features, pairing.dropped, strict=True) if k}
        run.alerts.append(Alert("rows_dropped", {"dropped": lost, "remain": pairing.n}))
    if pairing.n < 2 * options.folds:
        raise UsageError(f"{pairing.n} rows are too few for {options.folds} folds of at least two; pass more rows.")
    widest = max(table.d for table in features)
    if pairing.n < 2 * widest:
        values = {"training": pairing.n - pairing.n // options.folds, "dimensions": widest}
        run.alerts.append(Alert("few_rows", {**values, "per_dimension": values["training"] / widest}))
    tables = [
        blocks_of(table) if rows is None else blocks_of(table).select(rows)
        for table, rows in zip(features, pairing.rows, strict=True)
    ]
    rank = np.argsort(np.argsort(uniforms(options.seed, 0, pairing.n), kind="stable"))
    cell = rank % options.folds * CELLS + rank // options.folds % CELLS
    cells = gather_moments(tables, run, part=cell, n_parts=CELLS * options.folds, original_rows=pairing.rows)
    total = reduce(Moments.merge, cells)
    for place, blocks in enumerate(tables):
        if not total.alone(place).energy.any():
            raise DataError(f"{blocks.name}: every row is the same, so there is nothing to map; pass other features.")
    sums = fold(tables, partial(_Logits, heads), **run.how, stage=Stage("logits"))
    if heads[0].shape == heads[1].shape and 2 * sums.same < sums.n:
        orders = fold(tables, partial(_Orders, heads), **run.how, stage=Stage("logits, features swapped"))
        if orders.swapped(np.random.default_rng([options.seed, 2])):
            first, second = (table.name for table in features)
            shares = {"same": orders.given / orders.n, "other": orders.other / orders.n}
            run.alerts.insert(0, Alert("features_swapped", {"first": first, "second": second, **shares}))
    return _Rows(cells, sums.premise(), [total / pairing.n for total in sums.probabilities])


def _map(heads: Sequence[Head], back: bool, cells: Sequence[Moments], options: HeadsOptions, run: Run) -> HeadMap:
    source, target = heads
    relation = HeadRelation.of(source, target)
    found = relation.record(source, target)
    if not (cells and found.fixed):
        return found
    rng = np.random.default_rng([options.seed, int(back)])
    ways = [m.reversed() for m in cells] if back else cells
    return replace(found, fit=fit_of(source, target, relation, ways, draws=options.null_draws, rng=rng, run=run))


class _Logits:
    """The statistic that compares the probabilities of two models row by row."""

    def __init__(self, heads: Sequence[Head]):
        self.heads = heads
        self.n = self.same = 0
        self.variation = self.distance = self.size = 0.0
        self.probabilities = [np.zeros(len(head.weight)) for head in heads]

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        step = max(LOGITS // len(self.heads[0].weight), 1)
        for start in range(0, len(rows[0]), step):
            logits = [
                np.asarray(x[start : start + step], np.float64) @ head.centred.T + head.centred_bias
                for head, x in zip(self.heads, rows, strict=True)
            ]
            shares = [_softmax(each) for each in logits]
            self.n += len(logits[0])
            self.same += int(np.sum(logits[0].argmax(axis=1) == logits[1].argmax(axis=1)))
            self.variation += float(np.abs(shares[0] - shares[1]).sum() / 2)
            self.distance += float(np.sum((logits[0] - logits[1]) ** 2))
            self.size += float(sum(np.sum(each**2) for each in logits))
            for total, share in zip(self.probabilities, shares, strict=True):
                total += share.sum(axis=0)

    def merge(self, later: _Logits) -> None:
        self.n += later.n
        self.same += later.same
        self.variation += later.variation
        self.distance += later.distance
        self.size += later.size
        for total, more in zip(self.probabilities, later.probabilities, strict=True):
            total += more

    def premise(self) -> Premise:
        return Premise(
            n=self.n,
            agreement=self.same / self.n,
            total_variation=self.variation / self.n,
            logit_distance=float(np.sqrt(self.distance / self.n)),
            relative_logit_distance=float(np.sqrt(self.distance / self.size)) if self.size else 0.0,
        )


class _Orders:
    """The statistic that asks whether each head should read the other's features."""

    def __init__(self, heads: Sequence[Head]):
        self.heads = heads
        self.n = self.given = self.other = self.both = 0
        self.labels: Counter[tuple[int, int]] = Counter()  # most probable with the features swapped

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        step = max(LOGITS // len(self.heads[0].weight), 1)
        for start in range(0, len(rows[0]), step):
            chosen = [
                [
                    (np.asarray(x[start : start + step], np.float64) @ h.centred.T + h.centred_bias).argmax(axis=1)
                    for x in ways
                ]
                for h, ways in zip(self.heads, (rows, rows[::-1]), strict=True)
            ]
            (own, foreign), (own2, foreign2) = chosen
            given, other = own == own2, foreign == foreign2
            self.n += len(given)
            self.given += int(given.sum())
            self.other += int(other.sum())
            self.both += int((given & other).sum())
            self.labels.update(zip(foreign.tolist(), foreign2.tolist(), strict=True))

    def merge(self, later: _Orders) -> None:
        for name in ("n", "given", "other", "both"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.labels.update(later.labels)

    def swapped(self, rng: np.random.Generator) -> bool:
        """Whether the models choose the same label in most rows if the features are swapped, and not as they are.

        Ours. Two tests at level 1 / (`SHUFFLES` + 1): rows that agree in one order only favour the other one (McNemar, exact), and no
        shuffle of one head's labels agrees as well there, as shuffles of unrelated heads do. The majority is asked for because heads
        and features of two checkpoints move together, so that half of either may agree better than two models that are right.
        """
        level = 1 / (SHUFFLES + 1)
        k = len(self.heads[0].weight)
        if not 2 * self.given < self.n < 2 * self.other or gammaln(k + 1) < -np.log(level):
            return False
        only = self.other - self.both
        if binom.sf(only - 1, only + self.given - self.both, 0.5) > level:
            return False
        first, second = np.array(list(self.labels)).T
        rows = np.array(list(self.labels.values()))
        shuffled = (int(rows[rng.permutation(k)[first] == second].sum()) for _ in range(SHUFFLES))
        return all(agree < self.other for agree in shuffled)


def _softmax(logits: Array) -> Array:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Array = raised / raised.sum(axis=1, keepdims=True)
    return shares
