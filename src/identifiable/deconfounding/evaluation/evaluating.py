"""evaluate(): representations of a screen side by side, on the same folds of plates that were never seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, IdentifiableError, UsageError
from identifiable.blocks import Blocks, Progress
from identifiable.deconfounding.corrections.correcting import listed
from identifiable.deconfounding.corrections.registry import CORRECTIONS
from identifiable.deconfounding.design import Design
from identifiable.deconfounding.evaluation.classifiers import (
    Classifier,
    LightGBM,
    classifier_of,
    has_settings_text,
    settings_text,
)
from identifiable.deconfounding.evaluation.concluding import conclude
from identifiable.deconfounding.evaluation.contrasts import (
    Against,
    Contrast,
    Level,
    Splits,
    choose_targets,
    cross_validation,
    null_contrasts,
    single_batches,
    target_contrast,
    usable,
)
from identifiable.deconfounding.evaluation.held_out import GroupDraws
from identifiable.deconfounding.evaluation.keeping import Clock, Kept, Store
from identifiable.deconfounding.evaluation.representing import (
    BLIND,
    REPRESENTATIONS,
    GatheredRows,
    Rank,
    RowMap,
    Transforms,
    blind_classifier,
    blind_features,
    only_transductive,
    row_map_of_record,
    row_map_record,
)
from identifiable.deconfounding.evaluation.requesting import Protocol, Request
from identifiable.deconfounding.evaluation.units import Bench, Unit, UnitName, Workbench
from identifiable.deconfounding.folds import HoldOut
from identifiable.deconfounding.summary import summarise
from identifiable.groups import AffineMap
from identifiable.intake import content_hash, default_provenance
from identifiable.results import Alert, ConditionScore, Fitted, Input, Provenance, ScreenEvaluation
from identifiable.results.evaluation import ALL, FitOn

FOLDS = 5  # the paper's
HOLD_OUT: tuple[HoldOut, ...] = ("plate",)
NUMERIC = ("numpy", "scipy", "scikit-learn")  # their versions move figures too
CONCENTRATED = ("base", "pca", "ica", "rand")


def evaluate(
    blocks: Blocks,
    design: Design,
    *,
    representations: Sequence[str] = REPRESENTATIONS,
    corrections: Sequence[str] = (),
    classifiers: Sequence[Any] = ("lightgbm", "ridge"),
    given: Mapping[str, AffineMap] | None = None,
    targets: Sequence[str] | None = None,
    max_targets: int = 16,
    min_wells: int = 20,
    level: Level = "perturbation",
    against: Against = "controls",
    folds: int = FOLDS,
    hold_out: Sequence[HoldOut] = HOLD_OUT,
    fit: Sequence[FitOn] = ("train",),
    rank: Rank = "auto",
    seeds: int = 1,
    rotations: int = 20,
    null_guides: int = 4,
    concentration: Sequence[float] = (),
    bootstrap: int = 1000,
    protocol: Protocol = "default",
    seed: int = 0,
    workers: int | None = None,
    store: Store | None = None,
    progress: Progress | None = None,
    inputs: Sequence[Input] = (),
    provenance: Provenance | None = None,
    alerts: Sequence[Alert] = (),
) -> ScreenEvaluation:
    """Tell every target from controls on plates held out, in each representation, on the same folds and rows.

    Implements steps 2 to 9 of section 4.4 of Nelson et al. (2026) with ``protocol="paper"``. Ours: transforms fitted on training
    plates (the default), the baselines that never see the embedding, linear probes, null guides, intervals from resampling
    plates, sparsity beside its null, and the verdict.

    Transforms and folds are shared by all targets, classifiers and seeds. Random rotations after the first are scored with one
    classifier and one seed; the baselines `position` and `plate` by the log odds of places ("odds"), as audit does. A verdict
    is about LightGBM if it is among the classifiers, otherwise about the first of them.

    Parameters
    ----------
    given
        Maps that were fitted elsewhere, by name: representations of their own.
    targets
        Names of perturbations (of targets, with ``level="target"``); by default the `max_targets` on most plates with at least
        `min_wells` wells.
    against
        "controls" of the batches in which the target occurs, or "others": other perturbations on its plates.
    fit
        "train": transforms see no test plate. "all": they do, as in the paper. Both: their difference estimates leakage.
    protocol
        "paper" fits to all rows and holds out plates. "single-batch" trains on one batch and tests on all others, transforms
        fitted to all rows; batches with fewer than 60 rows or one class are named in `skipped`. What they override of `fit`,
        `hold_out` and `folds` is an alert.
    store
        Where finished parts are kept (``get(key)``, ``put(key, arrays)``); a run after an interruption takes them from there
        and gives the same figures. A classifier whose settings cannot be written down is refused there.
    """
    request = Request(
        representations=tuple(dict.fromkeys(representations)),
        corrections=tuple(dict.fromkeys(corrections)),
        given=dict(given or {}),
        classifiers=tuple(classifier_of(c) for c in classifiers),
        against=against,
        level=level,
        hold_out=HOLD_OUT if protocol == "paper" else tuple(dict.fromkeys(hold_out)),
        fit=("all",) if protocol in ("paper", "single-batch") else tuple(dict.fromkeys(fit)),
        folds=folds,
        seeds=seeds,
        rotations=rotations,
        rank=rank,
        null_guides=null_guides,
        concentration=tuple(float(p) for p in concentration),
        bootstrap=bootstrap,
        protocol=protocol,
        seed=seed,
    )
    request.check_table(blocks, design)
    if store is not None:
        _check_keepable(request.classifiers)
    chosen = choose_targets(design, targets, level=level, most=max_targets, min_wells=min_wells)
    evaluation = _Evaluation(blocks, design, request, chosen.names, store, tuple(inputs), workers, progress)
    evaluation.skipped.update(chosen.skipped)
    overridden = _overridden(request, tuple(hold_out), tuple(fit), folds)
    evaluation.alerts += [*alerts, *overridden, *chosen.alerts]
    evaluation.run()
    settings = {
        "representations": list(request.representations),
        "given": list(request.given),
        "corrections": list(request.corrections),
        "classifiers": {c.name: settings_text(c) for c in request.classifiers},
        "targets": None if targets is None else list(targets),
        "max_targets": max_targets,
        "min_wells": min_wells,
        "level": level,
        "against": against,
        "folds": folds,
        "hold_out": list(request.hold_out),
        "fit": list(request.fit),
        "rank": rank,
        "seeds": seeds,
        "rotations": rotations,
        "null_guides": null_guides,
        "concentration": list(request.concentration),
        "bootstrap": bootstrap,
        "protocol": protocol,
        "seed": seed,
    }
    return evaluation.result(settings, provenance or default_provenance(seed, "identifiable.deconfound.evaluate(...)"))


def _check_keepable(classifiers: Sequence[Classifier]) -> None:
    """Refuse to keep the work of a classifier that cannot be told from the same one with other settings."""
    for classifier in classifiers:
        if not has_settings_text(classifier):
            raise UsageError(
                f"classifier {classifier.name!r}: what it is set to cannot be written down ({settings_text(classifier):.80}), so finished "
                "parts could be taken for those of other settings; run without a checkpoint (--checkpoint, store), or give it a "
                "__repr__ that names its settings."
            )


def _overridden(request: Request, hold_out: tuple[HoldOut, ...], fit: tuple[FitOn, ...], folds: int) -> Iterator[Alert]:
    """What a protocol does instead of what was asked for."""
    if request.protocol == "default":
        return
    single = request.protocol == "single-batch"
    changed = []
    if fit != request.fit:
        changed.append(f"--fit {','.join(fit)} was asked for, transforms are fitted to all rows")
    if hold_out != HOLD_OUT:
        done = "one batch trains and all others are tested" if single else "plates are held out"
        changed.append(f"--hold-out {','.join(hold_out)} was asked for, {done}")
    if single and folds != FOLDS:
        changed.append(f"--folds {folds} was asked for, there is one for every batch")
    if changed:
        yield Alert("protocol_overrides", f"protocol {request.protocol!r}: {'; '.join(changed)}.")


@dataclass(frozen=True)
class _Item:
    """A representation to score; `rotation` numbers random rotations."""

    name: str
    rotation: int = 0


class _Evaluation:
    """One run: what it is about, and what it has found so far."""

    def __init__(
        self,
        blocks: Blocks,
        design: Design,
        request: Request,
        targets: tuple[str, ...],
        store: Store | None,
        inputs: tuple[Input, ...],
        workers: int | None,
        progress: Progress | None,
    ):
        self.blocks, self.design, self.request = blocks, design, request
        self.inputs, self.store = inputs, store
        self.workers, self.progress = workers, progress
        self.clock = Clock()
        self.alerts: list[Alert] = []
        self._alerted: set[tuple[str, str]] = set()
        self.skipped: dict[str, str] = {}
        self.units: dict[UnitName, Unit] = {}
        self.fitted: list[Fitted] = []
        self.unscored: list[ConditionScore] = []
        self.plan: list[tuple[Splits, dict[str, tuple[int, ...]]]] = []
        self.contrasts = {
            c.name: c
            for c in (
                *(target_contrast(design, name, level=request.level, against=request.against) for name in targets),
                *null_contrasts(design, request.null_guides, against=request.against, seed=request.seed),
            )
        }
        self.kept = Kept(store, self._common(store))
        by_fold = None
        for splits, more in self._splits():
            folds, skipped, left_out = usable(list(self.contrasts.values()), splits, request.against)
            self.skipped.update(skipped)
            self.alerts += [*more, *left_out]
            if any(name not in self._nulls for name in folds):
                self.plan.append((splits, folds))
            if by_fold is None and "train" in request.fit:
                by_fold = splits
        if not self.plan:
            raise DataError(
                f"{design.name}: no target can be scored; {listed(f'{k}: {v}' for k, v in self.skipped.items())}."
            )
        self.transforms = Transforms(
            blocks,
            design,
            rank=request.rank,
            seed=request.seed,
            by_fold=by_fold,
            given=request.given,
            kept=self.kept,
            clock=self.clock,
            workers=workers,
            progress=progress,
        )

    @cached_property
    def _nulls(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.contrasts.values() if c.null)

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Targets that are scored in at least one way of holding out."""
        return tuple(
            name for name, c in self.contrasts.items() if not c.null and any(name in folds for _, folds in self.plan)
        )

    def _common(self, store: Store | None) -> Mapping[str, Any]:
        """What every kept part depends on: the data and the design."""
        if store is None:
            return {}
        from identifiable import __version__

        design = self.design
        given = {name: [m.matrix, m.offset] for name, m in self.request.given.items()}
        return {
            "data": [i.sha256 for i in self.inputs] or content_hash(self.blocks),
            "plate": design.plate.codes,
            "batch": None if design.batch is None else design.batch.codes,
            "control": design.control,
            "perturbation": design.perturbation.codes,
            "places": [design.row, design.column, design.cell_count],
            "given": given,
            "versions": [__version__, self._libraries(), {name: version(name) for name in NUMERIC}],
        }

    def _splits(self) -> Iterator[tuple[Splits, list[Alert]]]:
        if self.request.protocol == "single-batch":
            yield single_batches(self.design), []
            return
        for hold_out in self.request.hold_out:
            yield cross_validation(self.design, hold_out, self.request.folds, self.request.seed)

    # -- units

    def run(self) -> None:
        """Fit and judge every unit."""
        index = np.unique(np.concatenate([self.contrasts[n].rows for _, folds in self.plan for n in folds]))
        self.workbench = Workbench(
            index, self.design.plate, self.kept, self.clock, self.workers, self.progress, total=0
        )
        self.transforms.everything()  # the checked pass: rows that are not finite are refused before any work
        self.workbench.total = sum(
            self._unit_count(item, splits, folds) for splits, folds in self.plan for item in self._items()
        )
        for splits, folds in self.plan:
            draws = GroupDraws.of(splits.groups, self.request.bootstrap, self.request.seed)
            for item in self._items():
                self._score(item, splits, folds, draws)

    def _items(self) -> Iterator[_Item]:
        for name in self.request.embeddings:
            yield _Item(name)
        for name in BLIND:
            if name == "plate" or self.design.address is not None:
                yield _Item(name)
        if "rand" in self.request.representations:
            for rotation in range(1, self.request.rotations):
                yield _Item("rand", rotation)

    def _classifiers(self, item: _Item) -> tuple[tuple[Classifier, int], ...]:
        """Classifiers of an item, and how many seeds of each."""
        if item.name in BLIND:
            return ((blind_classifier(item.name, self.design), 1),)
        if item.rotation:
            return ((self.request.tree, 1),)
        return tuple((c, self.request.seeds) for c in self.request.classifiers)

    def _contrasts(self, item: _Item, folds: Mapping[str, tuple[int, ...]]) -> list[Contrast]:
        return [self.contrasts[name] for name in folds if not (item.rotation and self.contrasts[name].null)]

    def _fits(self, item: _Item) -> tuple[FitOn, ...]:
        if not self.request.is_fitted(item.name):
            return self.request.labels[:1]
        return ("all",) if only_transductive(item.name) else self.request.fit

    def _unit_count(self, item: _Item, splits: Splits, folds: Mapping[str, tuple[int, ...]]) -> int:
        contrasts = self._contrasts(item, folds)
        scored = sum(len(folds[c.name]) for c in contrasts)
        count = sum(seeds for _, seeds in self._classifiers(item)) * scored
        if self._concentrates(item, self.request.tree):
            count += len(self.request.concentration) * sum(len(folds[c.name]) for c in contrasts if not c.null)
        return count * len(self._fits(item))

    def _concentrates(self, item: _Item, classifier: Classifier) -> bool:
        wanted = item.name in CONCENTRATED or item.name in self.request.given
        return wanted and not item.rotation and isinstance(classifier, LightGBM)

    def _score(self, item: _Item, splits: Splits, folds: Mapping[str, tuple[int, ...]], draws: GroupDraws) -> None:
        if item.name in CORRECTIONS and (lacking := CORRECTIONS[item.name].lacking(self.design)):
            self._cannot(item, splits, self._fits(item)[0], lacking)
            return
        for fit in self._fits(item):
            everyone = tuple(range(splits.count))
            parts = [((k,), k) for k in everyone] if self._varies(item, fit) else [(everyone, None)]
            for shared, fold in parts:
                try:
                    self._score_matrix(item, fit, splits, folds, draws, shared, fold)
                except IdentifiableError as error:
                    if item.name not in CORRECTIONS:
                        raise
                    self._cannot(item, splits, fit, str(error))
                    break

    def _varies(self, item: _Item, fit: FitOn) -> bool:
        """Whether a representation is another one in every fold."""
        return fit == "train" and self.request.is_fitted(item.name)

    def _cannot(self, item: _Item, splits: Splits, fit: FitOn, why: str) -> None:
        """A correction that could not be fitted is a condition without scores, and says so."""
        nan, none = float("nan"), (float("nan"), float("nan"))
        dropped = (item.name, fit, splits.held_out)  # what is finished of another way of holding out stays
        self.units = {n: u for n, u in self.units.items() if (n.representation, n.fit, n.held_out) != dropped}
        self.unscored += [
            ConditionScore(
                item.name, c.name, ALL, splits.held_out, fit, nan, nan, none, nan, none, nan, nan, nan, 0, skipped=why
            )
            for c in self.request.classifiers
        ]

    def _score_matrix(
        self,
        item: _Item,
        fit: FitOn,
        splits: Splits,
        folds: Mapping[str, tuple[int, ...]],
        draws: GroupDraws,
        shared: tuple[int, ...],
        fold: int | None,
    ) -> None:
        """All units of one matrix, for the folds that share it."""
        matrix = _Once(lambda: self._matrix(item, splits, fold))
        labels = (fit,) if self.request.is_fitted(item.name) else self.request.labels
        fitted = {
            "representation": item.name,
            "rotation": item.rotation,
            "fitted_to": None if fold is None else splits.fold == fold,
            "rank": self.request.rank,
            "transform_seed": self.request.seed,
        }
        self._record(item, fit, splits, fold)
        for classifier, seeds in self._classifiers(item):
            stage = f"{classifier.name}, rotations" if item.rotation else classifier.name
            bench = Bench(matrix, classifier, splits, draws, fitted, stage)
            for k in shared:
                wanted = [
                    (UnitName(item.name, item.rotation, fit, splits.held_out, k, classifier.name, s, c.name), c)
                    for s in range(seeds)
                    for c in self._contrasts(item, folds)
                    if k in folds[c.name]
                ]
                if not wanted:
                    continue
                units = self.workbench.run(bench, wanted)
                if self.request.concentration and self._concentrates(item, classifier):
                    units |= self._concentrated(bench, units)
                for name, unit in units.items():
                    self.units.update({replace(name, fit=label): unit for label in labels})

    def _concentrated(self, bench: Bench, units: Mapping[UnitName, Unit]) -> dict[UnitName, Unit]:
        first = {n: u for n, u in units.items() if n.seed == 0 and not self.contrasts[n.target].null}
        parts = replace(bench, stage=f"{bench.stage}, concentration")
        return self.workbench.concentrate(parts, first, self.contrasts, self.request.concentration)

    # -- matrices

    @cached_property
    def _gathered(self) -> GatheredRows:
        with self.clock.stage("gathering"):
            return GatheredRows(self.blocks, self.workbench.index, self.transforms.everything().mean, self.workers)

    def _matrix(self, item: _Item, splits: Splits, fold: int | None) -> NDArray[np.float32]:
        if item.name in BLIND:
            return blind_features(item.name, self.design, self.workbench.index)
        row_map = self.transforms.row_map(item.name, item.rotation, splits, fold)
        rows = self._gathered
        with self.clock.stage("gathering"):
            return rows.through(row_map)

    def _record(self, item: _Item, fit: FitOn, splits: Splits, fold: int | None) -> None:
        """What a result says of a fitted representation."""
        if item.name in BLIND or item.rotation or (fold is None and splits is not self.plan[0][0]):
            return
        row_map = self._row_map_words(item, splits, fold)
        for alert in row_map.alerts:  # once, not for every fold
            if (item.name, alert.code) not in self._alerted:
                self._alerted.add((item.name, alert.code))
                self.alerts.append(alert)
        self.fitted.append(
            Fitted(
                representation=item.name,
                fit=fit,
                fold=-1 if fold is None else fold,
                width=row_map.width,
                converged=row_map.converged,
                identifiable=row_map.identifiable,
                gaussian=row_map.gaussian,
                note=f"{splits.held_out} held out; {row_map.note}"
                if len(self.plan) > 1 and fold is not None
                else row_map.note,
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
        what = {"name": item.name, "rows": None if fold is None else splits.fold == fold, "rank": self.request.rank}
        arrays = self.kept.get("correction", **what, seed=self.request.seed)
        if arrays is None:
            found = self.transforms.row_map(item.name, item.rotation, splits, fold)
            assert found is not None
            arrays = row_map_record(found)
            self.kept.put("correction", arrays, **what, seed=self.request.seed)
        return row_map_of_record(arrays)

    def result(self, settings: Mapping[str, Any], provenance: Provenance) -> ScreenEvaluation:
        nulls = tuple(name for name in self._nulls if any(name in folds for _, folds in self.plan))
        with self.clock.stage("tabulating"):
            found = conclude(
                self.request,
                self.units,
                self.fitted,
                targets=self.targets,
                null_targets=nulls,
                groups={splits.held_out: splits.groups.size for splits, _ in self.plan},
                wells_known=self.design.address is not None,
            )
        return ScreenEvaluation(
            inputs=self.inputs or (self._input(),),
            settings=settings,
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
            text=found.judgement.text,
            times=self.clock.times(),
            scores=tuple(unit.line(name) for name, unit in self.units.items()),
        )

    def _damage(self) -> Iterator[Alert]:
        damaged = getattr(self.store, "damaged", ())  # of stores that look whether an entry can be read
        if damaged:
            yield Alert(
                "checkpoint_damaged",
                f"{len(damaged)} parts of the checkpoint could not be read and were computed again.",
            )

    def _input(self) -> Input:
        return Input(self.blocks.name, self.blocks.n, self.blocks.d, str(self.blocks.dtype), content_hash(self.blocks))

    def _libraries(self) -> dict[str, str]:
        if not any(isinstance(c, LightGBM) for c in self.request.classifiers):
            return {}
        return {"lightgbm": version("lightgbm")}


class _Once:
    """A matrix that is made when it is first asked for."""

    def __init__(self, make: Callable[[], NDArray[np.float32]]):
        self._make = make
        self._made: NDArray[np.float32] | None = None

    def __call__(self) -> NDArray[np.float32]:
        if self._made is None:
            self._made = self._make()
        return self._made
