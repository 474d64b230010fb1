"""Units: one classifier trained on some plates and judged on others, for one contrast. Each is computed once and kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import Progress, in_threads
from identifiable.deconfounding.design import Codes, Labels
from identifiable.deconfounding.evaluation.classifiers import Classifier, Trainer, settings_text, trainer
from identifiable.deconfounding.evaluation.contrasts import Contrast, Splits
from identifiable.deconfounding.evaluation.held_out import DrawnScores, GroupDraws, auroc, score_draws
from identifiable.deconfounding.evaluation.keeping import Arrays, Clock, Kept, fingerprint
from identifiable.deconfounding.evaluation.sparsity import hoyer, hoyer_null, split_features
from identifiable.moments import Array
from identifiable.results import FoldScore
from identifiable.results.evaluation import FitOn, HeldOut


@dataclass(frozen=True)
class UnitName:
    """Which unit: everything a line of the long table is known by."""

    representation: str
    rotation: int
    fit: FitOn
    held_out: HeldOut
    fold: int
    classifier: str
    seed: int
    target: str


@dataclass(frozen=True, eq=False)
class Unit:
    """What a unit found. `counts` are rows and positives in training, then in test; `splits` of every feature, if it has any.

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

    def line(self, name: UnitName) -> FoldScore:
        """Its line of the long table."""
        n_train, n_pos_train, n_test, n_pos_test = self.counts
        return FoldScore(
            representation=name.representation,
            classifier=name.classifier,
            target=name.target,
            held_out=name.held_out,
            fit=name.fit,
            fold=name.fold,
            seed=name.seed,
            rotation=name.rotation,
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
    """What units of one matrix under one classifier share. `matrix` is asked for only if some unit has not been kept.

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
    """Fits and judges units. `index` are the rows of every matrix, as places in the design."""

    index: Codes
    plate: Labels
    kept: Kept
    clock: Clock
    workers: int | None
    progress: Progress | None
    total: int
    done: int = 0

    @cached_property
    def _rows(self) -> str:
        return fingerprint(self.index)

    def run(self, bench: Bench, wanted: Sequence[tuple[UnitName, Contrast]]) -> dict[UnitName, Unit]:
        """Units of one fold, those that were not kept fitted several at a time."""
        found: dict[UnitName, Unit] = {}
        for name, contrast in wanted:
            arrays = self.kept.get("unit", **self._what(bench, name, contrast))
            if arrays is not None:
                found[name] = _unit_of(arrays)
        self._count_kept(bench.stage, len(found))
        todo = [(name, contrast) for name, contrast in wanted if name not in found]
        if todo:
            matrix = bench.matrix()
            begun = time.perf_counter()
            prepared = self._prepared(bench, matrix, todo[0][0].fold)
            fit = partial(self._fit, bench, matrix, prepared)
            made = in_threads(fit, todo, workers=self.workers, progress=self._part_of_all(bench.stage))
            wall = time.perf_counter() - begun
            # Fitting and judging run side by side; the clock on the wall is shared out by what each took.
            judging = sum(judged for _, _, judged in made) / max(sum(taken for _, taken, _ in made), 1e-9)
            self.clock.add(bench.stage, wall * (1 - judging), len(todo))
            self.clock.add("bootstrap", wall * judging, len(todo))
            self.done += len(todo)
            found.update({name: unit for (name, _), (unit, _, _) in zip(todo, made, strict=True)})
        return {name: found[name] for name, _ in wanted}

    def concentrate(
        self, bench: Bench, units: Mapping[UnitName, Unit], contrasts: Mapping[str, Contrast], percents: Sequence[float]
    ) -> dict[UnitName, Unit]:
        """The same units with refits on the top features by split count of the training fold, and on the rest."""
        items = [(name, percent) for name, unit in units.items() if unit.n_splits > 0 for percent in percents]
        found: dict[tuple[UnitName, float], NDArray[Any]] = {}
        for name, percent in items:
            arrays = self.kept.get("part", **self._what(bench, name, contrasts[name.target]), percent=percent)
            if arrays is not None:
                found[name, percent] = np.asarray(arrays["auroc"])
        self._count_kept(bench.stage, len(found))
        todo = [item for item in items if item not in found]
        if todo:
            matrix = bench.matrix()

            def refit(item: tuple[UnitName, float]) -> Array:
                name, percent = item
                contrast = contrasts[name.target]
                made = self._top_and_rest(bench, matrix, name, units[name], percent, contrast)
                self.kept.put("part", {"auroc": made}, **self._what(bench, name, contrast), percent=percent)
                return made

            with self.clock.stage(bench.stage, len(todo)):
                made = in_threads(refit, todo, workers=self.workers, progress=self._part_of_all(bench.stage))
            self.done += len(todo)
            found.update(zip(todo, made, strict=True))
        return {
            name: replace(unit, parts={p: (float(t), float(r)) for (n, p), (t, r) in found.items() if n == name})
            for name, unit in units.items()
        }

    def _prepared(self, bench: Bench, matrix: NDArray[np.float32], fold: int) -> Trainer:
        return trainer(bench.classifier, matrix, np.flatnonzero(~bench.splits.test(fold, self.index)))

    def _fit(
        self, bench: Bench, matrix: NDArray[np.float32], prepared: Trainer, item: tuple[UnitName, Contrast]
    ) -> tuple[Unit, float, float]:
        """A unit, the seconds it took, and how many of them for judging."""
        begun = time.perf_counter()
        name, contrast = item
        test = bench.splits.test(name.fold, contrast.rows)
        places = np.searchsorted(self.index, contrast.rows)
        fitted = prepared.fit(places[~test], contrast.positive[~test], name.seed)
        scores = fitted.scores(matrix[places[test]])
        fitting = time.perf_counter() - begun
        positive, ones = contrast.positive[test], int(contrast.positive.sum())
        unit = Unit(
            drawn=score_draws(scores, positive, contrast.rows[test], self.plate, bench.draws),
            counts=(int((~test).sum()), ones - int(positive.sum()), int(test.sum()), int(positive.sum())),
            width=matrix.shape[1],
            converged=fitted.converged,
            splits=fitted.split_counts,
        )
        self.kept.put("unit", _unit_arrays(unit), **self._what(bench, name, contrast))
        taken = time.perf_counter() - begun
        return unit, taken, taken - fitting

    def _top_and_rest(
        self,
        bench: Bench,
        matrix: NDArray[np.float32],
        name: UnitName,
        unit: Unit,
        percent: float,
        contrast: Contrast,
    ) -> Array:
        assert unit.splits is not None
        test = bench.splits.test(name.fold, contrast.rows)
        places = np.searchsorted(self.index, contrast.rows)
        found = []
        for columns in split_features(unit.splits, percent, name.seed):
            fitted = bench.classifier.fit(matrix[np.ix_(places[~test], columns)], contrast.positive[~test], name.seed)
            found.append(auroc(fitted.scores(matrix[np.ix_(places[test], columns)]), contrast.positive[test]))
        return np.array(found)

    def _what(self, bench: Bench, name: UnitName, contrast: Contrast) -> dict[str, Any]:
        """All that a unit depends on besides the data: its key in a store."""
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

    def _part_of_all(self, stage: str) -> Progress | None:
        """Progress of some units as progress of all of them."""
        if self.progress is None:
            return None
        report, before = self.progress, self.done
        return lambda _, done, __: report(stage, before + done, self.total)

    def _count_kept(self, stage: str, units: int) -> None:
        if units:
            self.done += units
            self.clock.kept(stage, units)
            if self.progress is not None:
                self.progress(stage, self.done, self.total)


def _unit_arrays(unit: Unit) -> Arrays:
    arrays: dict[str, NDArray[Any]] = {
        "pooled": unit.drawn.pooled,
        "within": unit.drawn.within,
        "counts": np.array([*unit.counts, unit.width, unit.converged], dtype=np.int64),
    }
    return arrays if unit.splits is None else {**arrays, "splits": unit.splits}


def _unit_of(arrays: Arrays) -> Unit:
    n_train, ones_train, n_test, ones_test, width, converged = np.asarray(arrays["counts"]).tolist()
    return Unit(
        drawn=DrawnScores(np.asarray(arrays["pooled"]), np.asarray(arrays["within"])),
        counts=(n_train, ones_train, n_test, ones_test),
        width=width,
        converged=bool(converged),
        splits=np.asarray(arrays["splits"]) if "splits" in arrays else None,
    )
