"""compare(): two or more representations of the same rows, up the ladder of groups, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable.blocks import Blocks, fold, one_blas_thread
from identifiable.groups import procrustes
from identifiable.identifiability.judgement import alerts_of
from identifiable.identifiability.pairs import PairRun
from identifiable.identifiability.run import CompareRun, Table
from identifiable.intake import (
    as_representation,
    blocks_of,
    default_provenance,
    distinct,
    identical_inputs,
    inputs_of,
    joined,
    joined_labels,
)
from identifiable.moments import Array
from identifiable.options import CompareOptions, IcaOptions
from identifiable.representation import Representation
from identifiable.results import Comparison, Consensus, ConsensusDistance, ErrorMatrix, PairResult
from identifiable.rows import plan_rows
from identifiable.run import PLAIN, Run, Stage


def compare(
    representations: Sequence[Any],
    options: CompareOptions,
    *,
    group_by_name: str | None = None,
    labels_name: str | None = None,
    cluster: Any = None,
    ica: IcaOptions | None = None,
) -> Comparison:
    """Compare two or more representations of the same rows, for every ordered pair.

    Implements Definition 1 of Nelson et al. 2026 and the alignments of A.7.2: for each group the map
    fitted by it, its error at every row (mean as in the paper, quantiles and maximum because the
    definition is an essential supremum). Ours: cross-validated errors, the rms normaliser, intervals,
    nulls and the verdict. ICA is not a group: each side is resolved once, by itself, on all its rows; only
    the matching is cross-validated.

    Parameters
    ----------
    representations
        Arrays (n, d), `Representation`s, `Blocks` or Dask arrays. With ids rows are joined on them.
    options
        `group_by` and `labels` hold one label per row of the first representation, called `group_by_name` and `labels_name`
        in the result.
    cluster
        A `distributed.Client`: its workers make the passes over the rows.
    ica
        How the rung of ICA is fitted, if not as `resolve` does.
    """
    if len(representations) < 2:
        raise UsageError(f"compare needs at least two representations, got {len(representations)}.")
    run = CompareRun.of(options, cluster=cluster, settings=options, **({} if ica is None else {"ica": ica}))
    import_module("scipy.optimize")  # columns are matched in threads, which do not import
    names = {
        "group_by": group_by_name or ("labels" if options.group_by is not None else None),
        "labels": labels_name or ("labels" if options.labels is not None else None),
    }
    with one_blas_thread():
        return _compared(run, [as_representation(r, i) for i, r in enumerate(representations)], names)


def structural(Z: Any, sources: Any, options: CompareOptions, **named: Any) -> Comparison:
    """How nearly a representation recovers known sources, up the same ladder.

    Implements Definition 2 of Nelson et al. 2026: the error of ``h(f(x)) - u`` for the best h of each
    group. The result holds the one pair, representation to sources; the rest is as for `compare`.
    """
    Z, sources = as_representation(Z, name="representation"), as_representation(sources, name="sources")
    if Z.d < sources.d:
        raise UsageError(f"Definition 2 needs at least as many dimensions as sources, got {Z.d} and {sources.d}.")
    result = compare([Z, sources], options, **named)
    return replace(result, pairs=result.pairs[:1])


def _compared(run: CompareRun, representations: list[Representation], names: Mapping[str, str | None]) -> Comparison:
    representations = distinct(representations)
    pairing = joined(representations, run)
    run.ids = pairing.ids
    groups, run.labels = (
        joined_labels(name, getattr(run.settings, name), representations[0], pairing) for name in names
    )
    run.plan = plan_rows(
        pairing.n,
        pairing.ids,
        seed=run.settings.seed,
        n_folds=run.settings.folds,
        groups=groups,
        tables=[r.name for r in representations],
    )
    tables = [
        Table(r.name, blocks_of(r) if rows is None else blocks_of(r).select(rows), rows, run)
        for r, rows in zip(representations, pairing.rows, strict=True)
    ]
    inputs = inputs_of(representations, run)
    run.alerts[:0] = identical_inputs(inputs)
    pairs: list[PairResult] = []
    for i, x in enumerate(tables):
        for j, y in enumerate(tables[i + 1 :], start=i + 1):
            pairs += PairRun(run, x, y).results(pairing.dropped[i] + pairing.dropped[j])
    many = len(tables) > 2
    mean = _consensus(run, tables) if many else None
    run.alerts += alerts_of(pairs, run.settings.protocol)
    return Comparison(
        inputs=inputs,
        settings=run.settings.settings(**names),
        alerts=tuple(dict.fromkeys(run.alerts)),
        provenance=default_provenance(run.settings.seed, run.settings.command or "identifiable.compare(...)"),
        pairs=tuple(pairs),
        spectra=tuple(t.spectrum for t in tables),
        matrices=_matrices([t.name for t in tables], pairs) if many else (),
        consensus=mean,
    )


def _consensus(run: CompareRun, tables: list[Table]) -> Consensus:
    """The consensus in the width all models have."""
    width = min(t.blocks.d for t in tables)
    narrow = [t.narrowed(width) for t in tables]
    scatters = {}
    for i, x in enumerate(narrow):
        scatters[i, i] = x.moments.scatter
        for j, y in enumerate(narrow[i + 1 :], start=i + 1):
            scatters[i, j] = run.cross_scatter(x, y)
            scatters[j, i] = scatters[i, j].T
    return consensus(
        {t.name: t.blocks for t in narrow},
        [t.moments.mean for t in narrow],
        scatters,
        run,
    )


def _matrices(names: Sequence[str], pairs: Sequence[PairResult]) -> tuple[ErrorMatrix, ...]:
    """One matrix of held-out means per rung."""
    place = {name: i for i, name in enumerate(names)}
    matrices = []
    for group in (r.group for r in pairs[0].rungs):
        values = np.zeros((len(names), len(names)))
        for p in pairs:
            values[place[p.source], place[p.target]] = p.rung(group).held_out.mean
        matrices.append(ErrorMatrix(group, tuple(names), tuple(tuple(row) for row in values.tolist())))
    return tuple(matrices)


# -- The representation several models agree on: their generalised Procrustes mean.

MAX_ITERATIONS = 500
TOLERANCE = 1e-9  # turning stops when no model moves by more, root mean square over its rows and relative to its size


@dataclass(frozen=True, eq=False)
class Turns:
    """For each model a centred, scaled rotation into the frame of the consensus."""

    matrices: list[Array]
    iterations: int
    converged: bool


def consensus(
    tables: Mapping[str, Blocks],
    means: Sequence[Array],
    scatters: Mapping[tuple[int, int], Array],
    run: Run = PLAIN,
) -> Consensus:
    """Generalised Procrustes mean of three or more models, and the distance of each to it.

    Ours (Gower 1975). Every model is centred and scaled to the same root mean square distance, then all
    are turned towards their mean until it no longer moves. `scatters[i, j]` is the centred cross-scatter of
    models i and j. In-sample. With K models each is part of the mean, so a distance to the mean of the
    *others* is K / (K - 1) times as large.
    """
    count = len(tables)
    size = [float(np.sqrt(np.trace(scatters[i, i]))) for i in range(count)]
    turns = _turn(count, {(i, j): s / (size[i] * size[j]) for (i, j), s in scatters.items()})
    matrices = [q / size[i] for i, q in enumerate(turns.matrices)]
    statistic = fold(
        list(tables.values()),
        partial(_Distances, means, matrices),
        workers=run.workers,
        progress=run.progress,
        stage=Stage("consensus"),
    )
    errors = np.concatenate(statistic.parts)
    n, d = next(iter(tables.values())).shape
    scale = float(np.sqrt(2 * statistic.energy / (n - 1)))
    distances = tuple(
        ConsensusDistance(
            name=name,
            rms=float(np.sqrt(np.mean(e.astype(np.float64) ** 2))) / scale,
            mean=float(e.mean(dtype=np.float64)) / scale,
            q95=float(np.quantile(e, 0.95)) / scale,
            max=float(e.max()) / scale,
        )
        for name, e in zip(tables, errors.T, strict=True)
    )
    return Consensus(d, turns.iterations, turns.converged, distances)


def _turn(count: int, scatters: Mapping[tuple[int, int], Array]) -> Turns:
    turns = [np.eye(len(scatters[0, 0]))] + [procrustes(scatters[i, 0])[0] for i in range(1, count)]
    for iteration in range(1, MAX_ITERATIONS + 1):
        moved = 0.0
        for i in range(count):  # each model in turn towards the sum of the others, so their agreement never falls
            others = np.sum([scatters[i, j] @ q for j, q in enumerate(turns) if j != i], axis=0)
            turn, _ = procrustes(others)
            change = turn - turns[i]
            moved = max(moved, float(np.sum(change * (scatters[i, i] @ change))))
            turns[i] = turn
        if moved <= TOLERANCE**2:
            return Turns(turns, iteration, True)
    return Turns(turns, MAX_ITERATIONS, False)


class _Distances:
    """The statistic: distance of every row of every model to the consensus, and the consensus' energy."""

    def __init__(self, means: Sequence[Array], matrices: Sequence[Array]):
        self.means, self.matrices = means, matrices
        self.parts: list[NDArray[np.float64]] = []
        self.energy = 0.0

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        turned = [(x - m) @ q for x, m, q in zip(rows, self.means, self.matrices, strict=True)]
        middle = np.mean(turned, axis=0)
        self.energy += float(np.sum(middle**2))
        self.parts.append(np.stack([np.linalg.norm(t - middle, axis=1) for t in turned], axis=1))

    def merge(self, later: _Distances) -> None:
        self.parts += later.parts
        self.energy += later.energy
