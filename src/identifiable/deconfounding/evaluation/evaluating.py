"""evaluate(): representations of a screen side by side, on the same folds of plates that were never seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, IdentifiableError, UsageError
from identifiable.blocks import Blocks
from identifiable.deconfounding.checkpoint import Arrays, Checkpoint, Store
from identifiable.deconfounding.corrections.registry import CORRECTIONS
from identifiable.deconfounding.design import Design, listed, summarise
from identifiable.deconfounding.evaluation.classifiers import Classifier, LightGBM, has_settings_text, settings_text
from identifiable.deconfounding.evaluation.concluding import Coverage, conclude
from identifiable.deconfounding.evaluation.options import Asked
from identifiable.deconfounding.evaluation.representing import (
    BLIND,
    GatheredRows,
    RowMap,
    Transforms,
    blind_features,
    only_transductive,
)
from identifiable.deconfounding.evaluation.tabulating import Tabulation
from identifiable.deconfounding.evaluation.trials import Bench, GroupDraws, Trial, TrialName, Workbench
from identifiable.deconfounding.folds import (
    Contrast,
    Splits,
    choose_targets,
    cross_validation,
    null_contrasts,
    single_batches,
    target_contrast,
    usable,
)
from identifiable.deconfounding.run import record_of, table_of
from identifiable.groups import AffineMap
from identifiable.intake import content_hash
from identifiable.options import EvaluateOptions
from identifiable.results import Alert, ConditionScore, Fitted, Note, ScreenEvaluation
from identifiable.results.evaluation import ALL, FitOn
from identifiable.run import Run

NUMERIC = ("numpy", "scipy", "scikit-learn")  # their versions move figures too
CONCENTRATED = ("base", "pca", "ica", "rand")


def evaluate(
    blocks: Blocks,
    design: Design,
    options: EvaluateOptions | None = None,
    run: Run | None = None,
    *,
    given: Mapping[str, AffineMap] | None = None,
    store: Store | None = None,
) -> ScreenEvaluation:
    """Tell every target from controls on plates held out, in each representation, on the same folds and rows.

    Implements steps 2 to 9 of section 4.4 of Nelson et al. (2026) with ``protocol="paper"``. Ours: transforms fitted on training
    plates (the default), the baselines that never see the embedding, linear probes, null guides, intervals from resampling
    plates, sparsity beside its null, and the verdict.

    Transforms and folds are shared by all targets, classifiers and seeds. Random rotations after the first are scored with one
    classifier and one seed; the baselines `position` and `plate` by the classifiers of the representations, with one seed. A verdict
    is about LightGBM if it is among the classifiers, otherwise about the first of them; where most trees make no split, about the
    linear probe. With the default protocol small screens adapt: the size of a leaf (`LightGBM.adapts`) and the wells a target needs
    (`enough_wells`); and ICA is not fitted to fewer rows for each component than it asks for itself.

    Parameters
    ----------
    given
        Maps that were fitted elsewhere, by name: representations of their own.
    store
        Where finished parts are kept (``get(key)``, ``put(key, arrays)``); a run after an interruption takes them from there
        and gives the same figures. A classifier whose settings cannot be written down is refused there.
    """
    asked, run = Asked(**vars(options or EvaluateOptions()), given=given or {}), run or Run()
    asked.check_table(blocks, design)
    if store is not None:
        _check_keepable(asked.classifiers)
    evaluation = _Evaluation(blocks, design, asked, run, store)
    evaluation.score_all()
    return evaluation.result()


def _check_keepable(classifiers: Sequence[Classifier]) -> None:
    """Refuse to keep the work of a classifier that cannot be told from the same one with other settings."""
    for classifier in classifiers:
        if not has_settings_text(classifier):
            raise UsageError(
                f"classifier {classifier.name!r}: what it is set to cannot be written down ({settings_text(classifier):.80}), so finished "
                "parts could be taken for those of other settings; run without a checkpoint (--checkpoint, store), or give it a "
                "__repr__ that names its settings."
            )


@dataclass(frozen=True, eq=False)
class _Plan:
    """One way of holding out: its splits, the folds in which each contrast can be scored, and draws of what is held out."""

    splits: Splits
    folds: Mapping[str, tuple[int, ...]]
    draws: GroupDraws


@dataclass(frozen=True)
class _Item:
    """A representation to score; `rotation` numbers random rotations."""

    name: str
    rotation: int = 0


class _Evaluation:
    """One run: what it is about, and what it has found so far."""

    def __init__(self, blocks: Blocks, design: Design, options: Asked, run: Run, store: Store | None):
        self.blocks, self.design, self.options, self.run, self.store = blocks, design, options, run, store
        chosen = choose_targets(
            design, options.targets, level=options.level, most=options.max_targets, min_wells=options.least_wells
        )
        self.chosen, against = chosen, options.compared_with(design)
        self.unfitted: Mapping[str, int] | None = None  # why ICA was not fitted
        self.alerts: list[Alert] = []
        self._alerted: set[tuple[str, str]] = set()
        self.skipped: dict[str, str] = {}
        self.trials: dict[TrialName, Trial] = {}
        self.fitted: list[Fitted] = []
        self.unscored: list[ConditionScore] = []
        self.plans: list[_Plan] = []
        self.contrasts = {
            c.name: c
            for c in (
                *(target_contrast(design, n, level=options.level, against=against) for n in chosen.names),
                *null_contrasts(design, options.null_guides, against=against, seed=run.seed),
            )
        }
        self.checkpoint = Checkpoint(store, self._common(store))
        self.clock = self.checkpoint.clock
        by_fold = None
        for splits, more in self._splits():
            folds, skipped, left_out = usable(list(self.contrasts.values()), splits, against)
            self.skipped.update(skipped)
            self.alerts += [*more, *left_out]
            if any(name not in self._nulls for name in folds):
                self.plans.append(_Plan(splits, folds, GroupDraws.of(splits.groups, options.bootstrap, run.seed)))
            if by_fold is None and "train" in options.fits:
                by_fold = splits
        if not self.plans:
            raise DataError(
                f"{design.name}: no target can be scored; {listed(f'{k}: {v}' for k, v in self.skipped.items())}."
            )
        self.skipped.update(chosen.skipped)
        self.alerts += self._without_controls()
        self.alerts += [*run.alerts, *options.overridden(), *chosen.alerts]
        self.transforms = Transforms(
            blocks, design, run, rank=options.rank, given=options.given, by_fold=by_fold, checkpoint=self.checkpoint
        )

    @cached_property
    def _nulls(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.contrasts.values() if c.null)

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Targets that are scored in at least one way of holding out."""
        return tuple(
            name for name, c in self.contrasts.items() if not c.null and any(name in plan.folds for plan in self.plans)
        )

    def _without_controls(self) -> Iterator[Alert]:
        """Targets that the audit does not judge: all controls they are compared with lie on other plates."""
        if self.options.compared_with(self.design) != "controls":
            return
        beside = self.design.plate.count(self.design.control)[self.design.plate.codes] > 0
        scored = (self.contrasts[name] for name in self.targets)
        names = [each.name for each in scored if not beside[each.rows[each.positive]].any()]
        if names:
            yield Alert("targets_without_controls", {"names": names, "targets": len(names)})

    def _common(self, store: Store | None) -> Mapping[str, Any]:
        """What every kept part depends on: the data and the design."""
        if store is None:
            return {}
        from identifiable import __version__

        design = self.design
        given = {name: [m.matrix, m.offset] for name, m in self.options.given.items()}
        return {
            "data": [i.sha256 for i in self.run.inputs] or content_hash(self.blocks),
            "plate": design.plate.codes,
            "batch": None if design.batch is None else design.batch.codes,
            "control": design.control,
            "perturbation": design.perturbation.codes,
            "places": [design.row, design.column, design.cell_count],
            "given": given,
            "versions": [__version__, self._libraries(), {name: version(name) for name in NUMERIC}],
        }

    def _splits(self) -> Iterator[tuple[Splits, list[Alert]]]:
        if self.options.protocol == "single-batch":
            yield single_batches(self.design), []
            return
        for hold_out in self.options.holds_out:
            yield cross_validation(self.design, hold_out, self.options.folds, self.run.seed)

    # -- trials

    def score_all(self) -> None:
        """Fit and judge every trial."""
        index = np.unique(np.concatenate([self.contrasts[n].rows for plan in self.plans for n in plan.folds]))
        self.workbench = Workbench(index, self.design.plate, self.checkpoint, self.run, total=0)
        self.transforms.everything()  # the checked pass: rows that are not finite are refused before any work
        self._check_ica()
        self.workbench.total = sum(self._trial_count(item, plan) for plan in self.plans for item in self._items())
        for plan in self.plans:
            for item in self._items():
                self._score(item, plan)

    def _check_ica(self) -> None:
        """Leave ICA out where it cannot be identified, and say so; the paper's protocols fit it whatever the rows."""
        if "ica" not in self.options.representations or self.options.protocol != "default":
            return
        splits, fit = self.plans[0].splits, self.options.fits[0]
        fold = 0 if self._varies(_Item("ica"), fit) else None
        self.unfitted = self.transforms.too_few_rows(splits, fold)
        if self.unfitted is not None:
            self.alerts.append(Alert("ica_not_fitted", self.unfitted))
            why = Note("ica_not_fitted", self.unfitted).message
            for plan in self.plans:
                for each in self.options.fits:
                    self._cannot(_Item("ica"), plan.splits, each, why)

    def _items(self) -> Iterator[_Item]:
        """What is scored. Rotations are what ICA is compared with: without it there is nothing to compare."""
        left_out = () if self.unfitted is None else ("ica", "rand")
        for name in self.options.embeddings:
            if name not in left_out:
                yield _Item(name)
        batch = self.design.batch
        for name in BLIND:
            if batch is not None and batch.size > 1 if name == "plate" else self.design.address is not None:
                yield _Item(name)
        if "rand" in self.options.representations and self.unfitted is None:
            for rotation in range(1, self.options.rotations):
                yield _Item("rand", rotation)

    def _classifiers(self, item: _Item) -> tuple[tuple[Classifier, int], ...]:
        """Classifiers of an item, and how many seeds of each."""
        if item.name in BLIND:
            return tuple((c, 1) for c in self.options.classifiers)
        if item.rotation:
            return ((self.options.tree, 1),)
        return tuple((c, self.options.seeds) for c in self.options.classifiers)

    def _contrasts(self, item: _Item, plan: _Plan) -> list[Contrast]:
        """Null guides measure what representations make of chance; further rotations and places need none."""
        without = bool(item.rotation) or item.name in BLIND
        return [self.contrasts[name] for name in plan.folds if not (without and self.contrasts[name].null)]

    def _fits(self, item: _Item) -> tuple[FitOn, ...]:
        if not self.options.is_fitted(item.name):
            return self.options.labels[:1]
        return ("all",) if only_transductive(item.name) else self.options.fits

    def _trial_count(self, item: _Item, plan: _Plan) -> int:
        contrasts, folds = self._contrasts(item, plan), plan.folds
        scored = sum(len(folds[c.name]) for c in contrasts)
        count = sum(seeds for _, seeds in self._classifiers(item)) * scored
        if self._concentrates(item, self.options.tree):
            count += len(self.options.concentration) * sum(len(folds[c.name]) for c in contrasts if not c.null)
        return count * len(self._fits(item))

    def _concentrates(self, item: _Item, classifier: Classifier) -> bool:
        wanted = item.name in CONCENTRATED or item.name in self.options.given
        return wanted and not item.rotation and isinstance(classifier, LightGBM)

    def _score(self, item: _Item, plan: _Plan) -> None:
        if item.name in CORRECTIONS and (lacking := CORRECTIONS[item.name].lacking(self.design)):
            self._cannot(item, plan.splits, self._fits(item)[0], lacking)
            return
        if item.name in CORRECTIONS and "ica_map" in CORRECTIONS[item.name].needs and self.unfitted is not None:
            self._cannot(item, plan.splits, self._fits(item)[0], Note("ica_not_fitted", self.unfitted).message)
            return
        for fit in self._fits(item):
            everyone = tuple(range(plan.splits.count))
            parts = [((k,), k) for k in everyone] if self._varies(item, fit) else [(everyone, None)]
            for shared, fold in parts:
                try:
                    self._score_matrix(item, fit, plan, shared, fold)
                except IdentifiableError as error:
                    if item.name not in CORRECTIONS:
                        raise
                    self._cannot(item, plan.splits, fit, str(error))
                    break

    def _varies(self, item: _Item, fit: FitOn) -> bool:
        """Whether a representation is another one in every fold."""
        return fit == "train" and self.options.is_fitted(item.name)

    def _cannot(self, item: _Item, splits: Splits, fit: FitOn, why: str) -> None:
        """A correction that could not be fitted is a condition without scores, and says so."""
        nan, none = float("nan"), (float("nan"), float("nan"))
        dropped = (item.name, fit, splits.held_out)  # what is finished of another way of holding out stays
        self.trials = {n: u for n, u in self.trials.items() if (n.representation, n.fit, n.held_out) != dropped}
        self.unscored += [
            ConditionScore(
                item.name, c.name, ALL, splits.held_out, fit, nan, nan, none, nan, none, nan, nan, nan, 0, skipped=why
            )
            for c in self.options.classifiers
        ]

    def _score_matrix(self, item: _Item, fit: FitOn, plan: _Plan, shared: tuple[int, ...], fold: int | None) -> None:
        """All trials of one matrix, for the folds that share it."""
        splits = plan.splits
        matrix = cache(lambda: self._matrix(item, splits, fold))
        labels = (fit,) if self.options.is_fitted(item.name) else self.options.labels
        fitted = {
            "representation": item.name,
            "rotation": item.rotation,
            "fitted_to": None if fold is None else splits.fold == fold,
            "rank": self.options.rank,
            "transform_seed": self.run.seed,
        }
        self._record(item, fit, splits, fold)
        for classifier, seeds in self._classifiers(item):
            stage = f"{classifier.name}, rotations" if item.rotation else classifier.name
            bench = Bench(matrix, classifier, splits, plan.draws, fitted, stage)
            for k in shared:
                wanted = [
                    (TrialName(item.name, item.rotation, fit, splits.held_out, k, classifier.name, s, c.name), c)
                    for s in range(seeds)
                    for c in self._contrasts(item, plan)
                    if k in plan.folds[c.name]
                ]
                if not wanted:
                    continue
                trials = self.workbench.run(bench, wanted)
                if self.options.concentration and self._concentrates(item, classifier):
                    trials |= self._concentrated(bench, trials)
                for name, trial in trials.items():
                    self.trials.update({replace(name, fit=label): trial for label in labels})

    def _concentrated(self, bench: Bench, trials: Mapping[TrialName, Trial]) -> dict[TrialName, Trial]:
        first = {n: u for n, u in trials.items() if n.seed == 0 and not self.contrasts[n.target].null}
        parts = replace(bench, stage=f"{bench.stage}, concentration")
        return self.workbench.concentrate(parts, first, self.contrasts, self.options.concentration)

    # -- matrices

    @cached_property
    def _gathered(self) -> GatheredRows:
        with self.clock.stage("gathering"):
            return GatheredRows(self.blocks, self.workbench.index, self.transforms.everything().mean, self.run.workers)

    def _matrix(self, item: _Item, splits: Splits, fold: int | None) -> NDArray[np.float32]:
        if item.name in BLIND:
            return blind_features(item.name, self.design, self.workbench.index)
        row_map = self.transforms.row_map(item.name, item.rotation, splits, fold)
        rows = self._gathered
        with self.clock.stage("gathering"):
            return rows.through(row_map)

    def _record(self, item: _Item, fit: FitOn, splits: Splits, fold: int | None) -> None:
        """What a result says of a fitted representation."""
        if item.name in BLIND or item.rotation or (fold is None and splits is not self.plans[0].splits):
            return
        row_map = self._row_map_words(item, splits, fold)
        for alert in row_map.alerts:  # once, not for every fold
            if (item.name, alert.code) not in self._alerted:
                self._alerted.add((item.name, alert.code))
                self.alerts.append(alert)
        several = len(self.plans) > 1 and fold is not None
        held_out = (Note("held_out", {"level": splits.held_out}),) if several else ()
        self.fitted.append(
            Fitted(
                representation=item.name,
                fit=fit,
                fold=-1 if fold is None else fold,
                width=row_map.width,
                converged=row_map.converged,
                identifiable=row_map.identifiable,
                gaussian=row_map.gaussian,
                notes=(*held_out, *row_map.notes),
            )
        )

    def _row_map_words(self, item: _Item, splits: Splits, fold: int | None) -> RowMap:
        """The map of an item, or for a correction whose map was made before, only what there is to say of it."""
        if item.name == "base":
            return RowMap(lambda X, index: X, self.blocks.d)
        if item.name not in CORRECTIONS:
            found = self.transforms.row_map(item.name, item.rotation, splits, fold)
            assert found is not None
            return found
        what = {"name": item.name, "rows": None if fold is None else splits.fold == fold, "rank": self.options.rank}

        def fitted() -> Arrays:
            found = self.transforms.row_map(item.name, item.rotation, splits, fold)
            assert found is not None
            return found.arrays

        return RowMap.of_arrays(self.checkpoint.part("corrections", fitted, **what, seed=self.run.seed))

    def result(self) -> ScreenEvaluation:
        provenance = record_of(self.run, "evaluate")
        nulls = tuple(name for name in self._nulls if any(name in plan.folds for plan in self.plans))
        groups = {plan.splits.held_out: plan.splits.groups.size for plan in self.plans}
        with self.clock.stage("tabulating"):
            found = conclude(
                self.options,
                Tabulation(self.trials, self.targets, nulls, groups),
                self.fitted,
                design=self.design,
                coverage=Coverage(len(self.targets), self.chosen, self.options.level),
                unfitted=self.unfitted,
            )
        return ScreenEvaluation(
            inputs=table_of(self.run, self.blocks),
            settings={
                **self.options.settings(),
                "min_wells": self.chosen.wells,
                "against": self.options.compared_with(self.design),
                "seed": self.run.seed,
            },
            alerts=(*self.alerts, *self._damage(), *found.alerts),
            provenance=replace(provenance, libraries={**provenance.libraries, **self._libraries()}),
            design=summarise(self.design, self.blocks.d),
            targets=self.targets,
            null_targets=nulls,
            skipped=self.skipped,
            conditions=(*found.conditions, *self.unscored),
            differences=found.differences,
            leakage=found.leakage,
            fitted=tuple(self.fitted),
            advice=found.judgement.advice,
            verdict=found.judgement.verdict,
            told=found.judgement.told,
            times=self.clock.times(),
            scores=tuple(trial.line(name) for name, trial in self.trials.items()),
            judged_by=found.judgement.by,
            of=self.chosen.of,
        )

    def _damage(self) -> Iterator[Alert]:
        damaged = getattr(self.store, "damaged", ())  # of stores that look whether an entry can be read
        if damaged:
            yield Alert("checkpoint_damaged", {"parts": len(damaged)})

    def _libraries(self) -> dict[str, str]:
        if not any(isinstance(c, LightGBM) for c in self.options.classifiers):
            return {}
        return {"lightgbm": version("lightgbm")}
