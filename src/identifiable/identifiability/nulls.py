"""What chance would give: the held-out errors again, with the link between the sides broken on purpose.

Ours. Two nulls, on at most `null_rows(d)` rows and one split into training and test rows:

shuffle   rows of y are permuted within the training rows and within the test rows; groups of rows move whole.
          Nothing but pairing is lost, so under independence the p-value is exact (groups of different sizes:
          nearly); any two trained models beat it.
rotation  a side is turned at random before axes are matched: whitened first for ICA (the paper's PCA + Rand),
          as it is for signed permutations. It asks whether the axes themselves are special, so it says
          nothing about larger groups.

Observed and null figures come from the same rows and the same code; p = (1 + draws at least as good) / (1 + draws).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable import similarity
from identifiable.blocks import in_threads
from identifiable.groups import WhiteBasis, haar_rotation, permutation_matrix
from identifiable.identifiability.ladder import BACKWARD, COLUMNS, FORWARD, ICA, IcaMatcher, Ladder, Ridge, best_scale
from identifiable.identifiability.run import CompareRun
from identifiable.moments import Array, Moments
from identifiable.results import Null
from identifiable.run import Stage

AXIS_RUNGS = ("signed_permutation", ICA)  # the rungs whose result depends on the choice of axes


def null_rows(d: int) -> int:
    """Rows the nulls are computed on: enough for d dimensions, few enough to repeat a hundred times."""
    return max(2048, 8 * d)


@dataclass(frozen=True, eq=False)
class NullResults:
    """Held-out means by (null, draw, column of the error table), and CCA and CKA under shuffling."""

    observed: Array
    draws: dict[str, Array]
    similarity_observed: Array
    similarity_draws: Array
    rows: int

    def rung(self, name: str, group: str, direction: int, scale: float) -> Null | None:
        """The null of one rung, in units of the target's scale; None where that null says nothing."""
        if name not in self.draws or (name == "rotation" and group not in AXIS_RUNGS):
            return None
        column = COLUMNS[group, direction]
        drawn, observed = self.draws[name][:, column], self.observed[column]
        return self._null(observed / scale, drawn / scale, drawn <= observed)

    def similarity(self) -> dict[str, Null]:
        """Nulls of CCA and CKA; larger is more alike."""
        if not len(self.similarity_draws):
            return {}
        return {
            name: self._null(observed, drawn, drawn >= observed)
            for name, observed, drawn in zip(
                ("cca", "cka"), self.similarity_observed, self.similarity_draws.T, strict=True
            )
        }

    def _null(self, observed: float, drawn: Array, as_good: NDArray[np.bool_]) -> Null:
        p = (1 + int(as_good.sum())) / (1 + len(drawn))
        return Null(float(drawn.mean()), p, float(observed), len(drawn), self.rows)


def measure_nulls(
    run: CompareRun,
    x: Array,
    y: Array,
    rows: NDArray[np.intp],
    ica: IcaMatcher | None,
    units: tuple[Array | None, Array | None] = (None, None),
) -> NullResults:
    """Observed and null held-out means on the rows `rows`, held in memory; their folds decide which of them are test rows.

    `units` are those that `Ridge` divides the columns of x and of y by.
    """
    settings, plan = run.settings, run.plan
    group = None if plan.group is None else plan.group[rows]
    asked = tuple(dict.fromkeys((*settings.groups, "linear")))  # the answer asks whether a linear map beats chance
    sample = _Sample(x, y, plan.fold[rows], asked, ica, group, settings.protocol == "default", units)
    nulls, draws, rungs = settings.nulls, settings.null_draws, settings.groups
    observed, similar = sample.paired(sample.as_given())
    drawn: dict[str, Array] = {}
    similarity_draws = np.zeros((0, 2))
    if "shuffle" in nulls:
        results = in_threads(
            lambda draw: sample.paired(sample.shuffled(np.random.default_rng([run.seed, 1, draw]))),
            range(draws),
            run,
            Stage("shuffle null"),
        )
        drawn["shuffle"] = np.array([errors for errors, _ in results])
        similarity_draws = np.array([s for _, s in results])
    if "rotation" in nulls and any(r in AXIS_RUNGS for r in rungs):
        drawn["rotation"] = np.array(
            in_threads(
                lambda draw: sample.rotated(np.random.default_rng([run.seed, 2, draw])),
                range(draws),
                run,
                Stage("rotation null"),
            )
        )
    return NullResults(observed, drawn, similar, similarity_draws, len(x))


Rows = tuple[NDArray[np.intp], NDArray[np.intp]]  # which training row, and which test row, of y stands where


class _Sample:
    """Rows in memory, split once, with everything that shuffling leaves unchanged computed once."""

    def __init__(
        self,
        x: Array,
        y: Array,
        fold: NDArray[np.int64],
        rungs: Sequence[str],
        ica: IcaMatcher | None,
        group: NDArray[np.int64] | None,
        penalised: bool,
        units: tuple[Array | None, Array | None],
    ):
        self.rungs, self.ica = rungs, ica
        widths = (x.shape[1], y.shape[1])
        is_test = fold == np.argmax(np.bincount(fold))
        train, test = (Moments.of(np.hstack([x[part], y[part]]), widths=widths) for part in (~is_test, is_test))
        self.moments, self.whole = train, train.merge(test)
        self.group = None if group is None else (group[~is_test], group[is_test])
        self.white_x, self.white_y = (WhiteBasis.of(train.alone(i)) for i in (0, 1))
        self.ridges = (Ridge.of(train, units[0]), Ridge.of(train.reversed(), units[1])) if penalised else None
        self.whole_white = tuple(WhiteBasis.of(self.whole.alone(i)) for i in (0, 1))
        self.x, self.y = x[~is_test] - train.mean_x, y[~is_test] - train.mean_y
        self.x_test, self.y_test = x[is_test] - train.mean_x, y[is_test] - train.mean_y
        # What the means of the two parts add to the cross-scatter of all rows, however each part is shuffled.
        self.between = self.whole.xy - train.xy - self.x_test.T @ self.y_test

    def as_given(self) -> Rows:
        """The pairing of the data."""
        return np.arange(len(self.y)), np.arange(len(self.y_test))

    def shuffled(self, rng: np.random.Generator) -> Rows:
        """A pairing at random that keeps training rows training rows, so only the pairing changes."""
        groups = self.group or (None, None)
        return shuffled_rows(len(self.y), groups[0], rng), shuffled_rows(len(self.y_test), groups[1], rng)

    def paired(self, rows: Rows) -> tuple[Array, Array]:
        """Held-out mean of every map, and (CCA, CKA), under a pairing."""
        y, y_test = self.y[rows[0]], self.y_test[rows[1]]
        cross = self.x.T @ y
        scaled = self.ridges is not None
        moments = with_cross(self.moments, cross)
        ladder = Ladder.fit(moments, self.rungs, linear=self._linear, ica=self.ica, scaled=scaled)
        errors: Array = ladder.errors(self.x_test, y_test).mean(axis=0)
        whole = with_cross(self.whole, cross + self.x_test.T @ y_test + self.between)
        return errors, np.array([similarity.cca(whole, *self.whole_white), similarity.cka(whole)])

    def rotated(self, rng: np.random.Generator) -> Array:
        """Held-out mean of signed permutations and of ICA's maps, with axes turned at random in place of their own."""
        m = self.moments
        parts: dict[str, Any] = {}
        if "signed_permutation" in self.rungs:
            turn = haar_rotation(m.widths[0], rng)
            spread = np.sqrt(np.outer(np.sum(turn * (m.xx @ turn), axis=0), np.diag(m.yy)))
            cross = turn.T @ m.xy
            permuted = turn @ permutation_matrix(np.divide(cross, spread, out=np.zeros_like(cross), where=spread > 0))
            there, back = (
                (1.0, 1.0)
                if self.ridges is None
                else (best_scale(permuted, m.xx, m.xy), best_scale(permuted.T, m.yy, m.xy.T))
            )
            parts |= {"linear_xy": there * permuted, "linear_yx": back * permuted.T}
        if self.ica is not None:
            turn_x, turn_y = haar_rotation(self.white_x.rank, rng), haar_rotation(self.white_y.rank, rng)
            to_x, to_y = self.white_x.basis @ turn_x, self.white_y.basis @ turn_y
            matched = permutation_matrix(to_x.T @ m.xy @ to_y)
            parts |= {"ica_xy": to_x @ matched @ to_y.T @ m.yy, "ica_yx": to_y @ matched.T @ to_x.T @ m.xx}
        ladder = Ladder(m.mean_x, m.mean_y, **parts)
        errors: Array = ladder.errors(self.x_test, self.y_test).mean(axis=0)
        for direction in (FORWARD, BACKWARD):
            errors[COLUMNS["signed_permutation", direction]] = errors[COLUMNS["linear", direction]]
        return errors

    def _linear(self, moments: Moments) -> tuple[Array, Array]:
        if self.ridges is None:
            return self.white_x.solve(moments.xy), self.white_y.solve(moments.xy.T)
        forward, backward = self.ridges
        return forward.fit(moments.xy, np.trace(moments.yy))[0], backward.fit(moments.xy.T, np.trace(moments.xx))[0]


def shuffled_rows(n: int, group: NDArray[np.int64] | None, seed: Any) -> NDArray[np.intp]:
    """A pairing at random. Groups move whole: the rows of a group meet those of one other, over again where they are more."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    if group is None:
        return order
    order = order[np.argsort(group[order], kind="stable")]  # rows of a group in any order
    names, first, sizes = np.unique(group[order], return_index=True, return_counts=True)
    rows = np.empty(n, dtype=np.intp)
    for own, other in enumerate(rng.permutation(len(names))):
        rows[order[first[own] : first[own] + sizes[own]]] = order[first[other] + np.arange(sizes[own]) % sizes[other]]
    return rows


def with_cross(moments: Moments, cross: Array) -> Moments:
    """The same moments with another cross-scatter."""
    d = moments.widths[0]
    scatter = moments.scatter.copy()
    scatter[:d, d:], scatter[d:, :d] = cross, cross.T
    return Moments(moments.n, moments.widths, moments.mean, np.zeros(len(scatter)), scatter)
