"""From finished trials to the result: conditions, differences, leakage, alerts, a verdict with the layout in view, and advice on ICA.

The verdict is about one classifier: LightGBM or the first; where most trees of the representations make no split, they say nothing,
and the linear probe takes over. The rules, in the order in which they are asked:
1. layout-confounded   position alone tells targets from controls (the low end of its interval above `TELLING`) under some
                       classifier, and the best representation under any classifier is not clearly above that: a gain could be the
                       layout's. Both sides are at their best, so that neither is weak for the classifier's sake. Or only single
                       targets are told apart, and position tells each of them too.
2. nothing-to-find     no representation under any classifier is clearly above null guides; where null guides themselves cover
                       0.5 (or there are none), no representation is clearly above 0.5 either: a few guides are a noisy measure.
                       Neither over all targets nor for any single one, with all their intervals holding at once.
3. separable           something is found, and the gain of ICA was not measured: ICA was not fitted, a linear probe judges (which no
                       rotation changes), or ICA and PCA score the same in every draw of plates.
4. ica-helps, -harms   the paired interval of ICA - PCA over plates excludes 0.
5. no-gain             that interval includes 0 and reaches no further than `MARGIN` either way: a gain worth having is excluded.
6. undecided           the interval is wider than that, or nothing has an interval.
"Clearly" always means that a 95 % interval excludes the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any, Literal

from identifiable.deconfounding.design import Design
from identifiable.deconfounding.evaluation.options import Asked
from identifiable.deconfounding.evaluation.representing import BLIND, READERS_NAMES
from identifiable.deconfounding.evaluation.tabulating import ConditionName, Gap, Tabulation
from identifiable.deconfounding.evaluation.trials import Trial, TrialName
from identifiable.deconfounding.folds import NULL_GUIDES, Chosen, Level
from identifiable.deconfounding.intervals import FEW_GROUPS
from identifiable.results import Alert, Answer, ConditionScore, Difference, Fitted, IcaAdvice, Interval, Leakage
from identifiable.results.evaluation import ALL, HeldOut

RIVALS: Mapping[str, tuple[str, ...]] = {
    "ica": ("pca", "base", "rand", "position"),
    "pca": ("base", "position"),
    "base": ("position",),
    "ica-cs": ("base", "pca-cs", "rand-cs"),
}
LINEAR = ("ridge", "logistic")  # probes that rotations do not change
ROTATED_ALIKE = (*LINEAR, "1-nn")
TELLING = 0.6  # AUROC of position from which on a layout is said to tell
MARGIN = 0.02  # AUROC: a smaller gain is not worth a rotation
FEW_IDENTIFIABLE = 0.1  # of the components; fewer that come back and ICA is called unidentified
MOSTLY_GAUSSIAN = 0.5
Verdict = Literal["ica-helps", "no-gain", "ica-harms", "layout-confounded", "nothing-to-find", "separable", "undecided"]


@dataclass(frozen=True)
class Coverage:
    """How many targets were judged, of those that were chosen from all."""

    judged: int
    chosen: Chosen
    level: Level

    @property
    def said(self) -> Answer:
        values = {"judged": self.judged, "of": self.chosen.of, "level": self.level, "wells": self.chosen.wells}
        more = {"enough": self.chosen.enough} if self.chosen.enough > len(self.chosen.names) else {}
        return Answer("coverage", values | more)


@dataclass(frozen=True, eq=False)
class Conclusion:
    """Everything of a result that is made of trials."""

    conditions: tuple[ConditionScore, ...]
    differences: tuple[Difference, ...]
    leakage: tuple[Leakage, ...]
    alerts: tuple[Alert, ...]
    judgement: Judgement


def conclude(
    options: Asked,
    table: Tabulation,
    fitted: Sequence[Fitted],
    *,
    design: Design,
    coverage: Coverage,
    unfitted: Mapping[str, int] | None,
) -> Conclusion:
    """Means, intervals, paired differences and what follows from them."""
    evidence = replace(_evidence(options, table, fitted, next(iter(table.groups))), unfitted=unfitted)
    shown = (ALL, *table.targets, *((NULL_GUIDES,) if table.null_targets else ()), *table.null_targets)
    return Conclusion(
        conditions=tuple(
            found for name in table.names for target in shown if (found := table.condition(name, target)) is not None
        ),
        differences=tuple(_differences(options, table, (ALL, *table.targets))),
        leakage=tuple(
            leak
            for name in table.names
            if name.fit == "all" and options.is_fitted(name.representation)
            if (leak := table.leakage(name.representation, name.classifier, name.held_out)) is not None
        ),
        alerts=(
            *_ica_alerts(fitted),
            *_trial_alerts(table.trials),
            *_interval_alerts(options, table),
            *_layout_alerts(evidence, options, design),
        ),
        judgement=judge(evidence, coverage),
    )


def _evidence(options: Asked, table: Tabulation, fitted: Sequence[Fitted], held_out: HeldOut) -> Evidence:
    primary = ConditionName("ica", options.tree.name, held_out, options.fits[0])
    linear = next((c.name for c in options.classifiers if c.name in LINEAR), None)
    unsplit = _sums([table.unsplit(replace(primary, representation=name)) for name in options.embeddings])
    takes_over = linear is not None and _most(unsplit)
    if takes_over and linear is not None:
        primary = replace(primary, classifier=linear)
    own = [f for f in fitted if f.representation == "ica" and f.fit == options.fits[0]]
    components = None
    if own:
        known = next((f for f in own if f.identifiable is not None), own[0])
        converged = all(f.converged for f in own)
        components = Components(known.width, known.identifiable, known.gaussian, converged)
    found = Evidence.of(
        table,
        primary,
        embeddings=options.embeddings,
        linear=None if linear == primary.classifier else linear,
        components=components,
    )
    return replace(found, unsplit=unsplit, takes_over=takes_over, quick=options.quick)


def _differences(options: Asked, table: Tabulation, targets: Sequence[str]) -> Iterator[Difference]:
    for name in table.names:
        for rival in _rivals(options, name.representation):
            for target in targets:
                found = table.difference(name, rival, target)
                if found is not None:
                    yield found


def _rivals(options: Asked, name: str) -> tuple[str, ...]:
    if name in options.given:
        return ("ica", "pca", "base")
    if name in options.corrections:
        return RIVALS.get(name, ("base",))
    return () if name in BLIND else RIVALS.get(name, ())


def _ica_alerts(fitted: Sequence[Fitted]) -> Iterator[Alert]:
    fits = [f for f in fitted if f.representation == "ica"]
    stopped = sum(not f.converged for f in fits)
    if stopped:
        yield Alert("ica_not_converged", {"stopped": stopped, "fits": len(fits)})


def _trial_alerts(trials: Mapping[TrialName, Trial]) -> Iterator[Alert]:
    unsplit = [name for name, trial in trials.items() if trial.n_splits == 0]
    if unsplit:
        pairs = dict.fromkeys((n.target, READERS_NAMES.get(n.representation, n.representation)) for n in unsplit)
        where = [f"{target} in {representation}" for target, representation in pairs]
        yield Alert("no_splits", {"models": len(unsplit), "of": len(trials), "where": where})
    unsettled = [name.classifier for name, trial in trials.items() if not trial.converged]
    if unsettled:
        yield Alert(
            "not_converged",
            {"stopped": len(unsettled), "models": len(trials), "classifiers": list(dict.fromkeys(unsettled))},
        )


def _interval_alerts(options: Asked, table: Tabulation) -> Iterator[Alert]:
    for held_out, count in table.groups.items():
        if count < FEW_GROUPS:
            yield Alert(
                "few_groups",
                {"groups": count, "level": "plate" if held_out == "plate" else "batch", "least": FEW_GROUPS},
            )
    if options.bootstrap < 2:
        yield Alert("no_intervals")
    elif alike := table.agreeing():
        yield Alert("draws_agree", {"scores": alike})


def _layout_alerts(evidence: Evidence, options: Asked, design: Design) -> Iterator[Alert]:
    if evidence.layout_tells and evidence.position is not None:
        single = {c.target: c.auroc for c in evidence.told_by_position}
        controls = options.compared_with(design) == "controls"
        against = "controls" if controls else "other perturbations"
        values: dict[str, Any] = {
            "auroc": evidence.position.auroc,
            "by": evidence.position.classifier,
            "against": against,
        }
        values |= {"targets": single} if single else {}
        values |= {"instead": "others"} if controls and design.holds_others else {}
        yield Alert("layout_tells", values)
    if design.address is None:
        yield Alert("no_wells")


# -- verdict and advice


@dataclass(frozen=True)
class Components:
    """What is known of ICA's components: how many there are, how many come back, how many look Gaussian."""

    width: int
    identifiable: int | None
    gaussian: int | None
    converged: bool

    @property
    def unidentified(self) -> bool:
        """Whether hardly any component is determined by the data."""
        if self.identifiable is not None:
            return self.identifiable < FEW_IDENTIFIABLE * self.width
        return self.gaussian is not None and self.gaussian > (1 - FEW_IDENTIFIABLE) * self.width


@dataclass(frozen=True)
class Judgement:
    """The verdict, by which classifier, what it says, and the advice on ICA."""

    verdict: Verdict
    by: str
    told: Answer
    advice: IcaAdvice


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the rules look at: conditions of the embedding, of position alone, and ICA against its rivals.

    `hits` are single targets that are clearly told apart, each in its best condition, `told_by_position` those that position
    tells, `beyond_layout` whether anything is told that position does not tell. `unsplit` counts the models of representations
    without a split, and all of them; `takes_over` whether the linear probe judges in place of trees. `primary` are the conditions
    the verdict is about (one classifier, one way of holding out and fitting), `every` all conditions of embeddings under any
    classifier, `nulls` those of null guides. `position` is under the classifier that makes most of it, and `over_position` the best
    representation under any classifier against it. `unfitted` says why ICA was not fitted, `quick` that it was not asked for.
    """

    primary: tuple[ConditionScore, ...]
    every: tuple[ConditionScore, ...]
    nulls: tuple[ConditionScore, ...]
    position: ConditionScore | None
    over_position: Gap | None
    over_pca: Gap | None
    over_rand: Gap | None
    over_linear: Gap | None
    linear: ConditionScore | None
    components: Components | None
    hits: tuple[ConditionScore, ...] = ()
    told_by_position: tuple[ConditionScore, ...] = ()
    beyond_layout: bool = True
    unsplit: tuple[int, int] = (0, 0)
    takes_over: bool = False
    unfitted: Mapping[str, int] | None = None
    quick: bool = False

    @classmethod
    def of(
        cls,
        table: Tabulation,
        name: ConditionName,
        *,
        embeddings: Sequence[str],
        linear: str | None,
        components: Components | None,
    ) -> Evidence:
        """`name` is ICA under the classifier the verdict is about; `linear` names a linear probe, if there is one."""

        def other(representation: str, classifier: str = name.classifier) -> ConditionName:
            return ConditionName(representation, classifier, name.held_out, name.fit)

        every = [
            found
            for each in table.names
            if each.representation in embeddings and (found := table.condition(each, ALL)) is not None
        ]
        primary = [found for each in embeddings if (found := table.condition(other(each), ALL)) is not None]
        position = _position(table, name)
        nulls = {each: found for each in table.names if (found := table.condition(each, NULL_GUIDES)) is not None}
        alike = [
            each
            for each in table.names
            if each.representation in embeddings and (each.held_out, each.fit) == (name.held_out, name.fit)
        ]
        hits = _hits(table, alike, nulls)
        told = _told(table, position)
        rival = None if position is None else _best(table, alike)
        probed = (
            None
            if linear is None
            else max(
                (c for c in every if (c.classifier, c.held_out, c.fit) == (linear, name.held_out, name.fit)),
                key=lambda c: c.auroc,
                default=None,
            )
        )
        return cls(
            primary=tuple(primary),
            every=tuple(every),
            nulls=tuple(nulls.values()),
            position=None if position is None else table.condition(position, ALL),
            over_position=None if position is None or rival is None else table.gap(rival, position, ALL),
            over_pca=table.gap(name, other("pca"), ALL),
            over_rand=table.gap(name, other("rand"), ALL),
            over_linear=None
            if probed is None
            else table.gap(name, other(probed.representation, probed.classifier), ALL),
            linear=probed,
            components=components,
            hits=tuple(found for _, found in hits),
            told_by_position=told,
            beyond_layout=_beyond_layout(table, alike, hits, position, [c.target for c in told]),
        )

    @property
    def layout_tells_all(self) -> bool:
        return self.position is not None and self.position.ci95[0] > TELLING

    @property
    def layout_tells(self) -> bool:
        """Whether position tells targets over all, or any single one: a mean over eight hides one that it tells."""
        return self.layout_tells_all or bool(self.told_by_position)

    @property
    def layout_confounds(self) -> bool:
        return self.layout_tells_all and not (self.over_position is not None and self.over_position.ci95[0] > 0)

    @property
    def finds_over_all(self) -> bool:
        """Whether any condition is clearly above null guides over all targets."""
        return any(self._finds(c) for c in self._known)

    @property
    def finds_nothing(self) -> bool:
        """Whether no condition is, and no single target clearly told; where nothing has an interval, that is not known."""
        return bool(self._known) and not self.finds_over_all and not self.hits

    @property
    def mostly_unsplit(self) -> bool:
        """Whether trees judge although most of them made no split: there is no linear probe."""
        return _most(self.unsplit) and not self.takes_over

    @property
    def by(self) -> str:
        """The classifier that judges."""
        return self.primary[0].classifier if self.primary else ""

    @property
    def rotations_alike(self) -> bool:
        """Whether no rotation changes the classifier that judges."""
        return self.by in ROTATED_ALIKE

    @property
    def _known(self) -> list[ConditionScore]:
        return [c for c in self.every if c.ci95[0] == c.ci95[0]]

    def _finds(self, c: ConditionScore) -> bool:
        null = next(
            (
                n
                for n in self.nulls
                if (n.representation, n.classifier, n.held_out, n.fit)
                == (c.representation, c.classifier, c.held_out, c.fit)
            ),
            None,
        )
        chance = null is None or null.ci95[0] <= 0.5
        return c.excess_ci95[0] > 0 or (chance and c.ci95[0] > 0.5)


def _position(table: Tabulation, name: ConditionName) -> ConditionName | None:
    """Position alone under the classifier that tells most by it, held out and fitted as `name` is."""
    found = [
        (each, scored)
        for each in table.names
        if (each.representation, each.held_out, each.fit) == ("position", name.held_out, name.fit)
        and (scored := table.condition(each, ALL)) is not None
    ]
    known = [pair for pair in found if pair[1].ci95[0] == pair[1].ci95[0]] or found
    return max(known, key=lambda pair: (pair[1].ci95[0], pair[1].auroc), default=(None, None))[0]


def _best(table: Tabulation, names: Sequence[ConditionName]) -> ConditionName | None:
    """The condition with the highest AUROC."""
    scored = {each: found.auroc for each in names if (found := table.condition(each, ALL)) is not None}
    return max(scored, key=lambda each: scored[each], default=None)


def _hits(
    table: Tabulation, names: Sequence[ConditionName], nulls: Mapping[ConditionName, ConditionScore]
) -> list[tuple[ConditionName, ConditionScore]]:
    """Single targets whose AUROC is clearly above chance (above null guides, where these are), each in its best condition."""
    best: dict[str, tuple[ConditionName, ConditionScore]] = {}
    for (name, target), low in table.least(names).items():
        null = nulls.get(name)
        chance = null.auroc if null is not None and null.ci95[0] > 0.5 else 0.5
        found = table.condition(name, target)
        if found is not None and low > chance and (target not in best or found.auroc > best[target][1].auroc):
            best[target] = (name, found)
    return [best[target] for target in table.targets if target in best]


def _told(table: Tabulation, position: ConditionName | None) -> tuple[ConditionScore, ...]:
    """Single targets that position tells: the low ends of their intervals, which hold all at once, above `TELLING`."""
    if position is None:
        return ()
    telling = [target for (_, target), low in table.least([position]).items() if low > TELLING]
    return tuple(found for target in telling if (found := table.condition(position, target)) is not None)


def _beyond_layout(
    table: Tabulation,
    names: Sequence[ConditionName],
    hits: Sequence[tuple[ConditionName, ConditionScore]],
    position: ConditionName | None,
    told: Sequence[str],
) -> bool:
    """Whether a target is told that position does not tell, or is told clearly better, or the others are in the mean."""
    if position is None or not told:
        return True
    for name, found in hits:
        gap = table.gap(name, position, found.target)
        if found.target not in told or (gap is not None and gap.ci95[0] > 0):
            return True
    others = [target for target in table.targets if target not in told]
    return any(table.mean_interval(name, others)[0] > 0.5 for name in names)


def _sums(pairs: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(a for a, _ in pairs), sum(b for _, b in pairs)


def _most(unsplit: tuple[int, int]) -> bool:
    none, models = unsplit
    return 2 * none > models


def judge(evidence: Evidence, coverage: Coverage) -> Judgement:
    """The verdict, what it says, how many targets that is about, and the advice."""
    verdict, told = _verdict(evidence)
    said = replace(told, remarks=(coverage.said, *told.remarks, *_taken_over(evidence)))
    return Judgement(verdict, evidence.by, said, _advice(evidence, verdict))


def _taken_over(e: Evidence) -> Iterator[Answer]:
    """That another classifier judges than was asked for, or none can say whether ICA gains."""
    if e.takes_over:
        yield Answer("trees_unsplit", {"unsplit": e.unsplit[0], "models": e.unsplit[1]})
    if e.unfitted is not None:
        yield Answer("ica_not_fitted", e.unfitted)


def _verdict(e: Evidence) -> tuple[Verdict, Answer]:
    best = max(e.primary, key=lambda c: c.auroc, default=None)
    if e.layout_confounds and e.position is not None and (rival := _rival(e, e.position) or best) is not None:
        scores = _of_position(e.position) | _scored(rival, "best") | {"representation": _name(rival)}
        return "layout-confounded", Answer("position_explains", {**scores, "classifier": rival.classifier})
    if e.hits and not e.beyond_layout:
        return "layout-confounded", Answer("position_explains_targets", _found(e) | _told_by_position(e))
    if e.finds_nothing and best is not None:
        values = _scored(best, "best") | {"representation": _name(best)}
        if best.excess == best.excess:
            values |= _interval("excess", best.excess, best.excess_ci95)
        return "nothing-to-find", Answer("nothing_found", values)
    gain = e.over_pca
    clear = gain is not None and (gain.ci95[0] > 0 or gain.ci95[1] < 0)
    remarks = tuple(_remarks(e))
    if e.mostly_unsplit and not clear:
        none, models = e.unsplit
        return "undecided", Answer("mostly_unsplit", {"unsplit": none, "models": models}, remarks=remarks)
    if gain is None or gain.ci95[0] != gain.ci95[0] or e.rotations_alike:
        found = best is not None and (e.finds_over_all or bool(e.hits))
        if not found or best is None:
            return "undecided", Answer("no_interval_of_gain")
        values = _scored(best, "best") | {"representation": _name(best), "classifier": best.classifier}
        return "separable", Answer("separated", {**values, "level": _held(e)}, remarks=remarks)
    values = _interval("gain", gain.value, gain.ci95) | {"level": _held(e)}
    if gain.ci95[0] > 0:
        return "ica-helps", Answer("gain", values, remarks=remarks)
    if gain.ci95[1] < 0:
        return "ica-harms", Answer("gain", values, remarks=remarks)
    if max(abs(gain.ci95[0]), abs(gain.ci95[1])) <= MARGIN:
        return "no-gain", Answer("gain", {**values, "excluded": MARGIN}, remarks=remarks)
    return "undecided", Answer("gain", {**values, "undecided": MARGIN}, remarks=remarks)


def _remarks(e: Evidence) -> Iterator[Answer]:
    """What must be said beside any verdict on ICA: what position predicts, and that only single targets are found."""
    if e.layout_tells_all and e.position is not None:
        yield Answer("position_alone", _of_position(e.position))
    elif e.told_by_position:
        yield Answer("position_alone", _told_by_position(e))
    if e.hits and not e.finds_over_all:
        yield Answer("single_targets", _found(e))


def _rival(e: Evidence, position: ConditionScore) -> ConditionScore | None:
    """The best representation under any classifier, held out and fitted as position is."""
    alike = (c for c in e.every if (c.held_out, c.fit) == (position.held_out, position.fit))
    return max(alike, key=lambda c: c.auroc, default=None)


def _of_position(position: ConditionScore) -> dict[str, Any]:
    return _scored(position, "position") | {"by": position.classifier}


def _interval(name: str, value: float, ci95: Interval) -> dict[str, float]:
    return {name: value, f"{name}_low": ci95[0], f"{name}_high": ci95[1]}


def _scored(c: ConditionScore, name: str) -> dict[str, Any]:
    return _interval(name, c.auroc, c.ci95)


def _found(e: Evidence) -> dict[str, Any]:
    return {"hits": {f"{c.target} in {_name(c)}, {c.classifier}": c.auroc for c in e.hits}}


def _told_by_position(e: Evidence) -> dict[str, Any]:
    return {"targets": {c.target: c.auroc for c in e.told_by_position}}


def _name(c: ConditionScore) -> str:
    return READERS_NAMES.get(c.representation, c.representation)


def _advice(e: Evidence, verdict: Verdict) -> IcaAdvice:
    reasons = tuple(_reasons(e))
    c = e.components
    if e.unfitted is not None:
        return IcaAdvice("no", Answer("ica_not_fitted", e.unfitted), reasons)
    if c is None:
        return IcaAdvice("unclear", Answer("ica_missing", {"quick": "--quick"} if e.quick else {}), reasons)
    if c.unidentified:
        count = c.identifiable if c.identifiable is not None else c.width - (c.gaussian or 0)
        values = {"determined": count, "components": c.width}
        if verdict == "ica-helps":
            return IcaAdvice(
                "unclear", Answer("unidentified", {**values, "gain": e.over_pca and e.over_pca.value}), reasons
            )
        return IcaAdvice("no", Answer("unidentified", values), reasons)
    if verdict == "ica-helps":
        beaten = e.over_linear is not None and e.over_linear.ci95[1] < 0
        return IcaAdvice("yes", Answer("helps_trees" if beaten else "helps"), reasons)
    if verdict in ("layout-confounded", "nothing-to-find", "ica-harms", "no-gain"):
        return IcaAdvice("no", Answer(verdict), reasons)
    return IcaAdvice("unclear", Answer(_why_unclear(e, verdict)), reasons)


def _why_unclear(e: Evidence, verdict: Verdict) -> str:
    if _most(e.unsplit):
        return "unsplit"
    if verdict == "separable" and e.over_pca is not None:
        return "rotations_alike"
    unmeasured = e.over_pca is None or isnan(e.over_pca.ci95[0])
    return "no_interval_of_gain" if unmeasured else "wide_interval"


def _reasons(e: Evidence) -> Iterator[Answer]:
    """For and against, each with its numbers."""
    c = e.components
    if c is not None and c.identifiable is not None:
        yield Answer("components_found", {"found": c.identifiable, "components": c.width})
    if c is not None and c.gaussian is not None:
        most = {"most": MOSTLY_GAUSSIAN} if c.gaussian > MOSTLY_GAUSSIAN * c.width else {}
        yield Answer("components_gaussian", {"gaussian": c.gaussian, "components": c.width, **most})
    if c is not None and not c.converged:
        yield Answer("solver_stopped")
    for code, gap in (("gain_over_pca", e.over_pca), ("gain_over_rotations", e.over_rand)):
        if gap is not None and not e.rotations_alike:
            yield Answer(code, _interval("gain", gap.value, gap.ci95))
    if e.over_linear is not None and e.linear is not None:
        values = _interval("gain", e.over_linear.value, e.over_linear.ci95) | {"representation": _name(e.linear)}
        yield Answer("gain_over_linear", values)
    if e.position is None:
        yield Answer("position_unknown")
    else:
        targets = _told_by_position(e) if e.told_by_position else {}
        yield Answer("position_scores", _of_position(e.position) | targets)


def _held(e: Evidence) -> str:
    return "batch" if e.primary and e.primary[0].held_out != "plate" else "plate"
