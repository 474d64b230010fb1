"""From trials to conditions: means over folds, seeds and rotations, their intervals, paired differences, leakage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from identifiable.deconfounding.evaluation.trials import DrawnScores, Trial, TrialName, concentration, top_count
from identifiable.deconfounding.folds import NULL_GUIDES
from identifiable.deconfounding.intervals import NO_INTERVAL, agree, interval, least_of_many, mean_of, null_spread
from identifiable.moments import Array
from identifiable.results import Concentration, ConditionScore, Difference, Interval, Leakage
from identifiable.results.evaluation import ALL, FitOn, HeldOut

Named = tuple[TrialName, Trial]


@dataclass(frozen=True)
class ConditionName:
    """A representation under a classifier, and how it was held out and fitted."""

    representation: str
    classifier: str
    held_out: HeldOut
    fit: FitOn


@dataclass(frozen=True)
class Gap:
    """A paired difference of two conditions with its interval."""

    value: float
    ci95: Interval
    within: float
    within_ci95: Interval


class Tabulation:
    """All trials of an evaluation, and every figure that is made of them.

    `groups` counts, for each kind of holding out, the plates or batches that were resampled.
    """

    def __init__(
        self,
        trials: Mapping[TrialName, Trial],
        targets: Sequence[str],
        null_targets: Sequence[str],
        groups: Mapping[HeldOut, int],
    ):
        self.trials, self.targets, self.null_targets, self.groups = trials, tuple(targets), tuple(null_targets), groups
        self._of: dict[ConditionName, dict[str, list[Named]]] = {}
        for name, trial in trials.items():
            condition = ConditionName(name.representation, name.classifier, name.held_out, name.fit)
            self._of.setdefault(condition, {}).setdefault(name.target, []).append((name, trial))
        self._draws: dict[tuple[ConditionName, str], DrawnScores | None] = {}

    @property
    def names(self) -> tuple[ConditionName, ...]:
        """Conditions in the order in which their trials were made."""
        return tuple(self._of)

    def draws(self, name: ConditionName, target: str) -> DrawnScores | None:
        """AUROC draw by draw: the mean over folds, seeds and rotations; over all targets or null guides where so named."""
        key = (name, target)
        if key not in self._draws:
            self._draws[key] = self._averaged(name, target)
        return self._draws[key]

    def _averaged(self, name: ConditionName, target: str) -> DrawnScores | None:
        if target in (ALL, NULL_GUIDES):
            found = [drawn for each in self._members(target) if (drawn := self.draws(name, each)) is not None]
        else:
            found = [_drawn(trials) for trials in _by("rotation", self._trials(name, target)).values()]
        return _mean_draws(found) if found else None

    def _members(self, target: str) -> tuple[str, ...]:
        return {ALL: self.targets, NULL_GUIDES: self.null_targets}.get(target, (target,))

    def _trials(self, name: ConditionName, target: str) -> list[Named]:
        return self._of.get(name, {}).get(target, [])

    def condition(self, name: ConditionName, target: str) -> ConditionScore | None:
        """The scores of a condition for one target, for all of them, or for all null guides."""
        drawn = self.draws(name, target)
        if drawn is None:
            return None
        members = self._members(target)
        trials = [pair for each in members for pair in self._trials(name, each)]
        of_folds = [
            float(np.mean([u.drawn.pooled[0] for _, u in of]))
            for each in members
            for of in _by("fold", self._trials(name, each)).values()
        ]
        silent = self._silent(name, target)
        excess, excess_ci95 = self._excess(name, target, drawn)
        return ConditionScore(
            **vars(name),
            target=target,
            auroc=float(drawn.pooled[0]),
            se=float(np.std(of_folds, ddof=1) / np.sqrt(len(of_folds))) if len(of_folds) > 1 else float("nan"),
            ci95=NO_INTERVAL if silent else self._auroc_interval(name, drawn.pooled, target),
            within_plate=float(drawn.within[0]),
            within_plate_ci95=NO_INTERVAL if silent else self._auroc_interval(name, drawn.within, target),
            n_splits=_mean(u.n_splits for _, u in trials),
            hoyer=_mean(u.hoyer for _, u in trials),
            hoyer_null=_mean(u.hoyer_null for _, u in trials),
            folds=len({pair[0].fold for pair in trials}),
            excess=excess,
            excess_ci95=NO_INTERVAL if silent else excess_ci95,
            spread=self._spread(name, members),
            concentration=tuple(_concentrations(trials)),
        )

    def _excess(self, name: ConditionName, target: str, drawn: DrawnScores) -> tuple[float, Interval]:
        null = self.draws(name, NULL_GUIDES)
        if null is None or target == NULL_GUIDES or target in self.null_targets:
            return float("nan"), NO_INTERVAL
        above = drawn.pooled - null.pooled
        return float(above[0]), self._interval(name, above)

    def _spread(self, name: ConditionName, members: Sequence[str]) -> Interval:
        """Least and greatest mean over targets of a rotation."""
        means: dict[int, list[float]] = {}
        for each in members:
            for rotation, trials in _by("rotation", self._trials(name, each)).items():
                means.setdefault(rotation, []).append(float(_drawn(trials).pooled[0]))
        over_targets = [_mean(of) for of in means.values()]
        return (min(over_targets), max(over_targets)) if len(over_targets) > 1 else NO_INTERVAL

    def gap(self, first: ConditionName, second: ConditionName, target: str) -> Gap | None:
        """AUROC of one condition less that of another on the same rows and draws; both held out alike."""
        one, other = self.draws(first, target), self.draws(second, target)
        if one is None or other is None:
            return None
        pooled, within = one.pooled - other.pooled, one.within - other.within
        if self._silent(first, target) and self._silent(second, target):
            return Gap(float(pooled[0]), NO_INTERVAL, float(within[0]), NO_INTERVAL)
        return Gap(float(pooled[0]), self._interval(first, pooled), float(within[0]), self._interval(first, within))

    def difference(self, name: ConditionName, second: str, target: str) -> Difference | None:
        """A condition against another representation under the same classifier."""
        found = self.gap(name, replace(name, representation=second), target)
        if found is None:
            return None
        return Difference(
            first=name.representation,
            second=second,
            classifier=name.classifier,
            target=target,
            held_out=name.held_out,
            fit=name.fit,
            difference=found.value,
            ci95=found.ci95,
            within_plate=found.within,
            within_plate_ci95=found.within_ci95,
        )

    def mean_interval(self, name: ConditionName, targets: Iterable[str]) -> Interval:
        """The interval of the mean over some targets."""
        found = [drawn for each in targets if (drawn := self.draws(name, each)) is not None]
        return interval(_mean_draws(found).pooled, self.groups[name.held_out], bounded=True) if found else NO_INTERVAL

    def least(self, names: Sequence[ConditionName]) -> dict[tuple[ConditionName, str], float]:
        """Lower ends of the AUROC of every single target in conditions held out alike, which hold all at once."""
        which = [(n, t) for n in names for t in self.targets if self.draws(n, t) is not None and not self._silent(n, t)]
        drawn = [found.pooled for n, t in which if (found := self.draws(n, t)) is not None]
        if not drawn:
            return {}
        spreads = np.array([self._null_spread(n, t) for n, t in which])
        ends = least_of_many(np.stack(drawn), spreads, self.groups[names[0].held_out])
        return dict(zip(which, ends.tolist(), strict=True))

    def _null_spread(self, name: ConditionName, target: str) -> float:
        """Standard deviation, if there were nothing to tell, of a mean over folds, and over targets where there are several."""
        members = [each for each in self._members(target) if self._trials(name, each)]
        of_folds = [
            trials[0][1].counts for each in members for trials in _by("fold", self._trials(name, each)).values()
        ]
        variances = [null_spread(positives, n - positives) ** 2 for _, _, n, positives in of_folds]
        return float(np.sqrt(sum(variances)) / len(variances))

    def unsplit(self, name: ConditionName) -> tuple[int, int]:
        """Of the models of a condition for targets how many made no split, and how many there are."""
        splits = [trial.n_splits for each in self.targets for _, trial in self._trials(name, each)]
        return sum(n == 0 for n in splits), len(splits)

    def _silent(self, name: ConditionName, target: str) -> bool:
        """Whether no model told any two rows apart: no draw then differs from 0.5, and an interval of no width is no evidence."""
        return all(trial.constant for each in self._members(target) for _, trial in self._trials(name, each))

    def leakage(self, representation: str, classifier: str, held_out: HeldOut) -> Leakage | None:
        """What fitting a representation to the test plates too seems to gain."""
        found = self.gap(
            ConditionName(representation, classifier, held_out, "all"),
            ConditionName(representation, classifier, held_out, "train"),
            ALL,
        )
        return None if found is None else Leakage(representation, classifier, held_out, found.value, found.ci95)

    def agreeing(self) -> int:
        """Conditions whose draws of plates all agree, so that their intervals are those of chance."""
        several = ((name, target) for name in self.names for target in (ALL, *self.targets))
        return sum(
            (drawn := self.draws(name, target)) is not None and agree(drawn.pooled) and not self._silent(name, target)
            for name, target in several
        )

    def _interval(self, name: ConditionName, draws: Array) -> Interval:
        return interval(draws, self.groups[name.held_out])

    def _auroc_interval(self, name: ConditionName, draws: Array, target: str) -> Interval:
        spread = self._null_spread(name, target)
        return interval(draws, self.groups[name.held_out], bounded=True, spread=spread)


def _mean_draws(parts: Iterable[DrawnScores]) -> DrawnScores:
    listed = list(parts)
    return DrawnScores(mean_of(p.pooled for p in listed), mean_of(p.within for p in listed))


def _mean(values: Iterable[float]) -> float:
    known = [v for v in values if v == v]
    return float(np.mean(known)) if known else float("nan")


def _by(field: str, trials: Sequence[Named]) -> dict[int, list[Named]]:
    """Trials by one of the numbers in their names."""
    found: dict[int, list[Named]] = {}
    for name, trial in trials:
        found.setdefault(getattr(name, field), []).append((name, trial))
    return found


def _drawn(trials: Sequence[Named]) -> DrawnScores:
    """The mean over folds, then seeds."""
    return _mean_draws(_mean_draws(u.drawn for _, u in of_seed) for of_seed in _by("seed", trials).values())


def _concentrations(trials: Sequence[Named]) -> Iterable[Concentration]:
    percents = dict.fromkeys(percent for _, trial in trials for percent in trial.parts)
    for percent in percents:
        found = [trial for _, trial in trials if percent in trial.parts]
        width = found[0].width
        yield concentration(
            percent,
            top_count(width, percent),
            top=_mean(trial.parts[percent][0] for trial in found),
            rest=_mean(trial.parts[percent][1] for trial in found),
            whole=_mean(float(trial.drawn.pooled[0]) for trial in found),
        )
