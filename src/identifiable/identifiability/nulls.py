"""What chance would give: the held-out errors again, with the link between the sides broken on purpose.

Ours. Two nulls, on at most `null_rows(d)` rows and one split into training and test rows:

shuffle   rows of y are permuted within the training rows and within the test rows. Nothing but pairing is
          lost, so under independence the p-value is exact; any two trained models beat it.
rotation  a side is turned at random before axes are matched: whitened first for ICA (the paper's PCA + Rand),
          as it is for signed permutations. It asks whether the axes themselves are special, so it says
          nothing about larger groups.

Observed and null figures come from the same rows and the same code; p = (1 + draws at least as good) / (1 + draws).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identifiable import similarity
from identifiable.blocks import in_threads
from identifiable.groups import SignedPermutation, WhiteBasis, haar_rotation
from identifiable.ica import permutation_matrix
from identifiable.identifiability.ladder import COLUMNS, FORWARD, ICA, IcaMatcher, Ladder
from identifiable.moments import Array, Moments
from identifiable.results import Null
from identifiable.run import Run, Stage

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
    x: Array,
    y: Array,
    fold: NDArray[np.int64],
    rungs: Sequence[str],
    run: Run,
    *,
    nulls: Sequence[str],
    draws: int,
    ica: IcaMatcher | None,
) -> NullResults:
    """Observed and null held-out means on rows held in memory; `fold` decides which of them are test rows."""
    sample = _Sample(x, y, fold, rungs, ica)
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

    def __init__(self, x: Array, y: Array, fold: NDArray[np.int64], rungs: Sequence[str], ica: IcaMatcher | None):
        self.rungs, self.ica = rungs, ica
        widths = (x.shape[1], y.shape[1])
        is_test = fold == np.argmax(np.bincount(fold))
        train, test = (Moments.of(np.hstack([x[part], y[part]]), widths=widths) for part in (~is_test, is_test))
        self.moments, self.whole = train, train.merge(test)
        self.white_x, self.white_y = (WhiteBasis.of(train.alone(i)) for i in (0, 1))
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
        return rng.permutation(len(self.y)), rng.permutation(len(self.y_test))

    def paired(self, rows: Rows) -> tuple[Array, Array]:
        """Held-out mean of every map, and (CCA, CKA), under a pairing."""
        y, y_test = self.y[rows[0]], self.y_test[rows[1]]
        cross = self.x.T @ y
        ladder = Ladder.fit(_with_cross(self.moments, cross), self.rungs, linear=self._linear, ica=self.ica)
        errors: Array = ladder.errors(self.x_test, y_test).mean(axis=0)
        whole = _with_cross(self.whole, cross + self.x_test.T @ y_test + self.between)
        return errors, np.array([similarity.cca(whole, *self.whole_white), similarity.cka(whole)])

    def rotated(self, rng: np.random.Generator) -> Array:
        """Held-out mean of signed permutations and of ICA's maps, with axes turned at random in place of their own."""
        turn = haar_rotation(self.moments.widths[0], rng)
        turned = self.moments.through((self.moments.mean_x, self.moments.mean_y), (turn, np.eye(len(turn))))
        permuted = turn @ SignedPermutation().fit(turned).matrix
        turn_x, turn_y = haar_rotation(self.white_x.rank, rng), haar_rotation(self.white_y.rank, rng)
        to_x, to_y = self.white_x.basis @ turn_x, self.white_y.basis @ turn_y
        from_x, from_y = to_x.T @ self.moments.xx, to_y.T @ self.moments.yy
        matched = permutation_matrix(to_x.T @ self.moments.xy @ to_y)
        means = (self.moments.mean_x, self.moments.mean_y)
        ladder = Ladder(*means, rotation=permuted, ica_xy=to_x @ matched @ from_y, ica_yx=to_y @ matched.T @ from_x)
        errors: Array = ladder.errors(self.x_test, self.y_test).mean(axis=0)
        errors[COLUMNS["signed_permutation", FORWARD]] = errors[COLUMNS["rigid", FORWARD]]
        return errors

    def _linear(self, moments: Moments) -> tuple[Array, Array]:
        return self.white_x.solve(moments.xy), self.white_y.solve(moments.xy.T)


def _with_cross(moments: Moments, cross: Array) -> Moments:
    """The same moments with another cross-scatter."""
    d = moments.widths[0]
    scatter = moments.scatter.copy()
    scatter[:d, d:], scatter[d:, :d] = cross, cross.T
    return Moments(moments.n, moments.widths, moments.mean, np.zeros(len(scatter)), scatter)
