"""Trials: one classifier trained on some plates and judged on others, for one contrast. Each is computed once and kept.

A trial is judged by AUROC, pooled and within plate, for the plates as they are and for draws of plates. A draw counts every plate a
whole number of times. Over all pairs of plates p, q let U_pq count the pairs of a positive in p and a negative in q that are ranked
rightly (ties half). Then for any draw w
    AUROC(w) = sum_pq w_p w_q U_pq / (sum_p w_p P_p  sum_q w_q N_q),
so rows are sorted once and a thousand draws are one matrix product.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import in_threads
from identifiable.deconfounding.checkpoint import Arrays, Checkpoint, fingerprint
from identifiable.deconfounding.design import Codes, Labels, Mask
from identifiable.deconfounding.evaluation.classifiers import Classifier, Trainer, settings_text, trainer
from identifiable.deconfounding.folds import Contrast, Splits
from identifiable.deconfounding.intervals import plate_draws, ratio
from identifiable.moments import Array
from identifiable.results import Concentration, FoldScore
from identifiable.results.evaluation import FitOn, HeldOut
from identifiable.run import Run, Stage

NULL_DRAWS = (
    256  # of a sparsity by chance: the standard deviation of one draw is about 0.01, so the mean is known to 0.001
)


# -- AUROC


@dataclass(frozen=True, eq=False)
class GroupDraws:
    """How often every group (a plate, a batch) counts: first once each, then in draws with replacement."""

    groups: Labels
    weights: Array

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.groups.codes, self.weights)

    @classmethod
    def of(cls, groups: Labels, draws: int, seed: int) -> GroupDraws:
        """All conditions share the draws of one seed, so that differences between them are paired."""
        return cls(groups, plate_draws(groups.size, draws, np.random.default_rng([seed, 31])))


@dataclass(frozen=True, eq=False)
class DrawnScores:
    """AUROC of one classifier on one fold: of the plates as they are at place 0, of draws of plates after it.

    `pooled` ranks all positives against all negatives, `within` every positive against the negatives of its own plate, a
    positive on a plate without negatives left out. NaN where a draw leaves nothing to rank.
    """

    pooled: Array
    within: Array


def auroc(scores: NDArray[Any], positive: Mask) -> float:
    """Probability that a positive scores above a negative, ties counted half; NaN with one class only.

    >>> auroc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    above, ones, zeros = _pairs(np.asarray(scores), positive, np.zeros(len(scores), dtype=np.intp), 1)
    pairs = float(ones[0] * zeros[0])
    return float(above[0, 0] / pairs) if pairs else float("nan")


def score_draws(scores: NDArray[Any], positive: Mask, rows: Codes, plate: Labels, draws: GroupDraws) -> DrawnScores:
    """Both AUROCs of test rows, given by their places in the design, for every draw of groups."""
    scores = np.asarray(scores)
    present, group = np.unique(draws.groups.codes[rows], return_inverse=True)
    weights = draws.weights[:, present]
    above, ones, zeros = _pairs(scores, positive, group, len(present))
    pooled = ratio(np.einsum("bq,bq->b", weights @ above, weights), (weights @ ones) * (weights @ zeros))
    shares, counted = _own_plate(scores, positive, plate.codes[rows])
    of_positives = group[positive]
    earned = np.bincount(of_positives[counted], weights=shares[counted], minlength=len(present))
    ranked = np.bincount(of_positives[counted], minlength=len(present)).astype(np.float64)
    return DrawnScores(pooled, ratio(weights @ earned, weights @ ranked))


def _pairs(scores: NDArray[Any], positive: Mask, group: Codes, groups: int) -> tuple[Array, Array, Array]:
    """U of every two groups, and positives and negatives of each."""
    ones, zeros = (np.bincount(group[mask], minlength=groups).astype(np.float64) for mask in (positive, ~positive))
    order = np.argsort(scores[positive], kind="stable")
    ranked, of_ranked = scores[positive][order], group[positive][order]
    negative, of_negative = scores[~positive], group[~positive]
    # A negative lies below all positives from a place on; half counted from where it is reached, half from where exceeded.
    below = np.zeros((len(ranked) + 1, groups))
    for side in ("left", "right"):
        place = np.searchsorted(ranked, negative, side=side)
        counts = np.bincount(place * groups + of_negative, minlength=below.size)
        below += counts.reshape(below.shape) / 2
    np.cumsum(below, axis=0, out=below)
    above = np.zeros((groups, groups))
    by_group = np.argsort(of_ranked, kind="stable")
    held, starts = np.unique(of_ranked[by_group], return_index=True)
    if len(held):
        above[held] = np.add.reduceat(below[:-1][by_group], starts, axis=0)
    return above, ones, zeros


def _own_plate(scores: NDArray[Any], positive: Mask, plate: Codes) -> tuple[Array, Mask]:
    """Of every positive the share of its plate's negatives it exceeds, and whether there are any."""
    levels, rank = np.unique(scores, return_inverse=True)
    key = plate.astype(np.int64) * len(levels) + rank
    negative = np.sort(key[~positive])
    start = np.searchsorted(negative, plate[positive].astype(np.int64) * len(levels))
    end = np.searchsorted(negative, (plate[positive].astype(np.int64) + 1) * len(levels))
    reached = np.searchsorted(negative, key[positive], side="left") + np.searchsorted(
        negative, key[positive], side="right"
    )
    counted: Mask = end > start
    return np.where(counted, (reached / 2 - start) / np.maximum(end - start, 1), 0.0), counted


# -- sparsity of the features a tree ensemble splits on, and its concentration in few of them


def hoyer(counts: NDArray[Any]) -> float:
    r"""Sparsity of non-negative counts over d features: 0 if all are equal, 1 if one has everything.

    Implements step 8 of the paper's protocol (Hoyer 2004, section 3.1): with shares p = counts / sum,
        (sqrt(d) - 1 / |p|_2) / (sqrt(d) - 1).
    NaN without any count, and for a single feature.

    >>> hoyer(np.array([3, 0, 0, 0])), hoyer(np.array([2, 2, 2, 2]))
    (1.0, 0.0)
    """
    counts = np.asarray(counts, dtype=np.float64)
    total, d = float(counts.sum()), len(counts)
    if total <= 0 or d < 2:
        return float("nan")
    root = float(np.sqrt(d))
    return float((root - total / np.linalg.norm(counts)) / (root - 1))


@lru_cache(maxsize=4096)
def hoyer_null(splits: int, features: int) -> float:
    """The mean of `hoyer` where so many splits fall on features at random, each as likely.

    Ours: few splits look sparse by chance alone, so a sparsity says nothing without its number of splits. Drawn
    `NULL_DRAWS` times from the multinomial distribution, the same draws for the same two numbers.

    >>> round(hoyer_null(1000, 384), 2)
    0.16
    """
    if splits < 1 or features < 2:
        return float("nan")
    rng = np.random.default_rng([splits, features])
    counts = rng.multinomial(splits, np.full(features, 1 / features), size=NULL_DRAWS)
    lengths = np.linalg.norm(counts, axis=1)
    root = float(np.sqrt(features))
    return float(((root - splits / lengths) / (root - 1)).mean())


def split_features(counts: NDArray[Any], percent: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The top per cent of features by count, and the rest; ties in an order drawn by `seed`, not by place.

    Leading principal components come first, so the order of columns must not decide among features never split on.
    """
    d = len(counts)
    shuffled = np.random.default_rng([seed, 23]).permutation(d)
    order = shuffled[np.argsort(-np.asarray(counts)[shuffled], kind="stable")]
    top = top_count(d, percent)
    return np.sort(order[:top]), np.sort(order[top:])


def top_count(features: int, percent: float) -> int:
    """How many features are the top per cent: at least one, and at least one is left."""
    return min(max(round(features * percent / 100), 1), features - 1)


def concentration(percent: float, features: int, top: float, rest: float, whole: float) -> Concentration:
    """The candidates for the paper's lost formula, from three AUROCs. Reconstructed."""
    above = rest - 0.5
    return Concentration(
        percent=percent,
        features=features,
        top=top,
        rest=rest,
        whole=whole,
        difference=top - rest,
        ratio=top / rest - 1 if rest else float("nan"),
        above_chance=(top - rest) / above if above else float("nan"),
    )


# -- trials


@dataclass(frozen=True)
class TrialName:
    """Which trial: everything a line of the long table is known by."""

    representation: str
    rotation: int
    fit: FitOn
    held_out: HeldOut
    fold: int
    classifier: str
    seed: int
    target: str


@dataclass(frozen=True, eq=False)
class Trial:
    """What a trial found. `counts` are rows and positives in training, then in test; `splits` of every feature, if it has any.

    `parts` holds, for per cents of features, the AUROC of a refit on the top ones and on the rest.
    """

    drawn: DrawnScores
    counts: tuple[int, int, int, int]
    width: int
    converged: bool = True
    splits: NDArray[np.int64] | None = None
    parts: Mapping[float, tuple[float, float]] = field(default_factory=dict)

    @property
    def constant(self) -> bool:
        """Whether all rows got one score: then every draw is 0.5, and how little they differ says nothing."""
        return not bool((np.abs(self.drawn.pooled - 0.5) > 0).any())

    @property
    def n_splits(self) -> float:
        return float("nan") if self.splits is None else float(self.splits.sum())

    @property
    def hoyer(self) -> float:
        return float("nan") if self.splits is None else hoyer(self.splits)

    @property
    def hoyer_null(self) -> float:
        return float("nan") if self.splits is None else hoyer_null(int(self.splits.sum()), self.width)

    def line(self, name: TrialName) -> FoldScore:
        """Its line of the long table."""
        n_train, n_pos_train, n_test, n_pos_test = self.counts
        return FoldScore(
            **vars(name),
            n_train=n_train,
            n_pos_train=n_pos_train,
            n_test=n_test,
            n_pos_test=n_pos_test,
            auroc=float(self.drawn.pooled[0]),
            auroc_within_plate=float(self.drawn.within[0]),
            n_splits=self.n_splits,
            hoyer=self.hoyer,
            hoyer_null=self.hoyer_null,
        )


@dataclass(frozen=True, eq=False)
class Bench:
    """What trials of one matrix under one classifier share. `matrix` is asked for only if some trial has not been kept.

    `fitted` names what the matrix depends on, for the keys of a store.
    """

    matrix: Callable[[], NDArray[np.float32]]
    classifier: Classifier
    splits: Splits
    draws: GroupDraws
    fitted: Mapping[str, Any]
    stage: str


@dataclass(eq=False)
class Workbench:
    """Fits and judges trials. `index` are the rows of every matrix, as places in the design."""

    index: Codes
    plate: Labels
    checkpoint: Checkpoint
    how: Run
    total: int
    done: int = 0

    @cached_property
    def _rows(self) -> str:
        return fingerprint(self.index)

    def run(self, bench: Bench, wanted: Sequence[tuple[TrialName, Contrast]]) -> dict[TrialName, Trial]:
        """Trials of one fold, those that were not kept fitted several at a time."""
        found: dict[TrialName, Trial] = {}
        for name, contrast in wanted:
            arrays = self.checkpoint.get("trial", **self._what(bench, name, contrast))
            if arrays is not None:
                found[name] = _trial_of(arrays)
        self._count_kept(bench.stage, len(found))
        todo = [(name, contrast) for name, contrast in wanted if name not in found]
        if todo:
            matrix = bench.matrix()
            begun = time.perf_counter()
            train = np.flatnonzero(~bench.splits.test(todo[0][0].fold, self.index))
            prepared = trainer(bench.classifier, matrix, train)
            fit = partial(self._fit, bench, matrix, prepared)
            made = in_threads(fit, todo, self._part_of_all(), Stage(bench.stage))
            wall = time.perf_counter() - begun
            # Fitting and judging run side by side; the clock on the wall is shared out by what each took.
            judging = sum(judged for _, _, judged in made) / max(sum(taken for _, taken, _ in made), 1e-9)
            self.checkpoint.clock.add(bench.stage, wall * (1 - judging), len(todo))
            self.checkpoint.clock.add("bootstrap", wall * judging, len(todo))
            self.done += len(todo)
            found.update({name: trial for (name, _), (trial, _, _) in zip(todo, made, strict=True)})
        return {name: found[name] for name, _ in wanted}

    def concentrate(
        self,
        bench: Bench,
        trials: Mapping[TrialName, Trial],
        contrasts: Mapping[str, Contrast],
        percents: Sequence[float],
    ) -> dict[TrialName, Trial]:
        """The same trials with refits on the top features by split count of the training fold, and on the rest."""
        items = [(name, percent) for name, trial in trials.items() if trial.n_splits > 0 for percent in percents]
        found: dict[tuple[TrialName, float], NDArray[Any]] = {}
        for name, percent in items:
            arrays = self.checkpoint.get("part", **self._what(bench, name, contrasts[name.target]), percent=percent)
            if arrays is not None:
                found[name, percent] = np.asarray(arrays["auroc"])
        self._count_kept(bench.stage, len(found))
        todo = [item for item in items if item not in found]
        if todo:
            matrix = bench.matrix()

            def refit(item: tuple[TrialName, float]) -> Array:
                name, percent = item
                contrast = contrasts[name.target]
                made = self._top_and_rest(bench, matrix, name, trials[name], percent, contrast)
                self.checkpoint.put("part", {"auroc": made}, **self._what(bench, name, contrast), percent=percent)
                return made

            with self.checkpoint.clock.stage(bench.stage, len(todo)):
                made = in_threads(refit, todo, self._part_of_all(), Stage(bench.stage))
            self.done += len(todo)
            found.update(zip(todo, made, strict=True))
        return {
            name: replace(trial, parts={p: (float(t), float(r)) for (n, p), (t, r) in found.items() if n == name})
            for name, trial in trials.items()
        }

    def _fit(
        self, bench: Bench, matrix: NDArray[np.float32], prepared: Trainer, item: tuple[TrialName, Contrast]
    ) -> tuple[Trial, float, float]:
        """A trial, the seconds it took, and how many of them for judging."""
        begun = time.perf_counter()
        name, contrast = item
        test = bench.splits.test(name.fold, contrast.rows)
        places = np.searchsorted(self.index, contrast.rows)
        fitted = prepared.fit(places[~test], contrast.positive[~test], name.seed)
        scores = fitted.scores(matrix[places[test]])
        fitting = time.perf_counter() - begun
        positive, ones = contrast.positive[test], int(contrast.positive.sum())
        trial = Trial(
            drawn=score_draws(scores, positive, contrast.rows[test], self.plate, bench.draws),
            counts=(int((~test).sum()), ones - int(positive.sum()), int(test.sum()), int(positive.sum())),
            width=matrix.shape[1],
            converged=fitted.converged,
            splits=fitted.split_counts,
        )
        self.checkpoint.put("trial", _trial_arrays(trial), **self._what(bench, name, contrast))
        taken = time.perf_counter() - begun
        return trial, taken, taken - fitting

    def _top_and_rest(
        self,
        bench: Bench,
        matrix: NDArray[np.float32],
        name: TrialName,
        trial: Trial,
        percent: float,
        contrast: Contrast,
    ) -> Array:
        assert trial.splits is not None
        test = bench.splits.test(name.fold, contrast.rows)
        places = np.searchsorted(self.index, contrast.rows)
        found = []
        for columns in split_features(trial.splits, percent, name.seed):
            fitted = bench.classifier.fit(matrix[np.ix_(places[~test], columns)], contrast.positive[~test], name.seed)
            found.append(auroc(fitted.scores(matrix[np.ix_(places[test], columns)]), contrast.positive[test]))
        return np.array(found)

    def _what(self, bench: Bench, name: TrialName, contrast: Contrast) -> dict[str, Any]:
        """All that a trial depends on besides the data: its key in a store."""
        return {
            **bench.fitted,
            "classifier": settings_text(bench.classifier),
            "rows": self._rows,
            "draws": bench.draws.fingerprint,
            "splits": bench.splits.fingerprint,
            "contrast": contrast.fingerprint,
            "fold": name.fold,
            "seed": name.seed,
        }

    def _part_of_all(self) -> Run:
        """The run, with progress of some trials told as progress of all of them."""
        before = self.done
        return replace(self.how, progress=lambda stage, done, _: self.how.say(stage, before + done, self.total))

    def _count_kept(self, stage: str, trials: int) -> None:
        if trials:
            self.done += trials
            self.checkpoint.clock.kept(stage, trials)
            self.how.say(Stage(stage), self.done, self.total)


def _trial_arrays(trial: Trial) -> Arrays:
    arrays: dict[str, NDArray[Any]] = {
        "pooled": trial.drawn.pooled,
        "within": trial.drawn.within,
        "counts": np.array([*trial.counts, trial.width, trial.converged], dtype=np.int64),
    }
    return arrays if trial.splits is None else {**arrays, "splits": trial.splits}


def _trial_of(arrays: Arrays) -> Trial:
    n_train, ones_train, n_test, ones_test, width, converged = np.asarray(arrays["counts"]).tolist()
    return Trial(
        drawn=DrawnScores(np.asarray(arrays["pooled"]), np.asarray(arrays["within"])),
        counts=(n_train, ones_train, n_test, ones_test),
        width=width,
        converged=bool(converged),
        splits=np.asarray(arrays["splits"]) if "splits" in arrays else None,
    )
