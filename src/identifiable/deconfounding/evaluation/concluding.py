"""From finished trials to the result: conditions, differences, leakage, alerts, a verdict with the layout in view, and advice on ICA.

The rules of the verdict, in the order in which they are asked:
1. layout-confounded   position alone tells targets from controls (the low end of its interval above `TELLING`) and no
                       representation is clearly above position: a gain could be the layout's. Or only single targets are told
                       apart, and position tells each of them too.
2. nothing-to-find     no representation under any classifier is clearly above null guides; where null guides themselves cover
                       0.5 (or there are none), no representation is clearly above 0.5 either: a few guides are a noisy measure.
                       Neither over all targets nor for any single one, with all their intervals holding at once.
3. ica-helps, -harms   the paired interval of ICA - PCA over plates excludes 0.
4. no-gain             that interval includes 0 and reaches no further than `MARGIN` either way: a gain worth having is excluded;
                       and most trees could split, else their likeness says nothing.
5. undecided           the interval is wider than that, or trees could not split.
"Clearly" always means that a 95 % interval excludes the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from identifiable.deconfounding.design import listed
from identifiable.deconfounding.evaluation.options import Asked
from identifiable.deconfounding.evaluation.representing import BLIND, READERS_NAMES
from identifiable.deconfounding.evaluation.tabulating import ConditionName, Gap, Tabulation
from identifiable.deconfounding.evaluation.trials import Trial, TrialName
from identifiable.deconfounding.folds import NULL_GUIDES
from identifiable.deconfounding.intervals import FEW_GROUPS
from identifiable.results import Alert, ConditionScore, Difference, Fitted, IcaAdvice, Interval, Leakage
from identifiable.results.evaluation import ALL, HeldOut

RIVALS: Mapping[str, tuple[str, ...]] = {
    "ica": ("pca", "base", "rand", "position"),
    "pca": ("base", "position"),
    "base": ("position",),
    "ica-cs": ("base", "pca-cs", "rand-cs"),
}
LINEAR = ("ridge", "logistic")  # probes that rotations do not change
TELLING = 0.6  # AUROC of position from which on a layout is said to tell
MARGIN = 0.02  # AUROC: a smaller gain is not worth a rotation
FEW_IDENTIFIABLE = 0.1  # of the components; fewer that come back and ICA is called unidentified
MOSTLY_GAUSSIAN = 0.5
Verdict = Literal["ica-helps", "no-gain", "ica-harms", "layout-confounded", "nothing-to-find", "undecided"]


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
    trials: Mapping[TrialName, Trial],
    fitted: Sequence[Fitted],
    *,
    targets: tuple[str, ...],
    null_targets: tuple[str, ...],
    groups: Mapping[HeldOut, int],
    wells_known: bool,
) -> Conclusion:
    """Means, intervals, paired differences and what follows from them. `groups` counts what intervals resample."""
    table = Tabulation(trials, targets, null_targets, groups)
    evidence = _evidence(options, table, fitted, next(iter(groups)))
    shown = (ALL, *targets, *((NULL_GUIDES,) if null_targets else ()), *null_targets)
    return Conclusion(
        conditions=tuple(
            found for name in table.names for target in shown if (found := table.condition(name, target)) is not None
        ),
        differences=tuple(_differences(options, table, (ALL, *targets))),
        leakage=tuple(
            leak
            for name in table.names
            if name.fit == "all" and options.is_fitted(name.representation)
            if (leak := table.leakage(name.representation, name.classifier, name.held_out)) is not None
        ),
        alerts=(
            *_ica_alerts(fitted),
            *_trial_alerts(trials),
            *_interval_alerts(options, groups),
            *_layout_alerts(evidence, wells_known),
        ),
        judgement=judge(evidence),
    )


def _evidence(options: Asked, table: Tabulation, fitted: Sequence[Fitted], held_out: HeldOut) -> Evidence:
    primary = ConditionName("ica", options.tree.name, held_out, options.fits[0])
    linear = next((c.name for c in options.classifiers if c.name in LINEAR), None)
    own = [f for f in fitted if f.representation == "ica" and f.fit == options.fits[0]]
    components = None
    if own:
        known = next((f for f in own if f.identifiable is not None), own[0])
        converged = all(f.converged for f in own)
        components = Components(known.width, known.identifiable, known.gaussian, converged)
    return Evidence.of(
        table,
        primary,
        embeddings=options.embeddings,
        linear=None if linear == primary.classifier else linear,
        components=components,
    )


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
        yield Alert("ica_not_converged", f"ICA stopped before its tolerance in {stopped} of {len(fits)} fits.")


def _trial_alerts(trials: Mapping[TrialName, Trial]) -> Iterator[Alert]:
    unsplit = [name for name, trial in trials.items() if trial.n_splits == 0]
    if unsplit:
        where = listed(
            dict.fromkeys(f"{n.target} in {READERS_NAMES.get(n.representation, n.representation)}" for n in unsplit)
        )
        yield Alert(
            "no_splits",
            f"{len(unsplit)} of {len(trials)} models made no split, so they score 0.5 and have no sparsity ({where}).",
        )
    unsettled = [name.classifier for name, trial in trials.items() if not trial.converged]
    if unsettled:
        names = listed(dict.fromkeys(unsettled))
        yield Alert(
            "not_converged", f"{len(unsettled)} of {len(trials)} models stopped before their tolerance ({names})."
        )


def _interval_alerts(options: Asked, groups: Mapping[HeldOut, int]) -> Iterator[Alert]:
    for held_out, count in groups.items():
        if count < FEW_GROUPS:
            what = "plates" if held_out == "plate" else "batches"
            yield Alert(
                "few_groups", f"intervals come from resampling {count} {what}; below {FEW_GROUPS} they are rough."
            )
    if options.bootstrap < 2:
        yield Alert("no_intervals", "plates were not resampled, so no figure has an interval.")


def _layout_alerts(evidence: Evidence, wells_known: bool) -> Iterator[Alert]:
    if evidence.layout_tells and evidence.position is not None:
        single = listed(f"{c.target} {c.auroc:.2f}" for c in evidence.told_by_position)
        yield Alert(
            "layout_tells",
            f"position alone tells targets from controls with AUROC {evidence.position.auroc:.2f}"
            f"{f'; of single targets it clearly tells {single}' if single else ''}; scores of embeddings include what the layout "
            "tells.",
        )
    if not wells_known:
        yield Alert("no_wells", "the table does not say where wells are, so position alone could not be tested.")


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
    """The verdict in a word and in a sentence, and the advice on ICA."""

    verdict: Verdict
    text: str
    advice: IcaAdvice


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the rules look at: conditions of the embedding, of position alone, and ICA against its rivals.

    `hits` are single targets that are clearly told apart, each in its best condition, `told_by_position` those that position
    tells, `beyond_layout` whether anything is told that position does not tell. `unsplit` counts the models of ICA and PCA
    without a split, and all of them. `primary` are the conditions the verdict is about (one classifier, one way of holding out
    and fitting), `every` all conditions of embeddings under any classifier, `nulls` those of null guides.
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
        position = table.alike("position", name)
        nulls = {each: found for each in table.names if (found := table.condition(each, NULL_GUIDES)) is not None}
        alike = [
            each
            for each in table.names
            if each.representation in embeddings and (each.held_out, each.fit) == (name.held_out, name.fit)
        ]
        hits = _hits(table, alike, nulls)
        told = _told(table, position)
        best = max(primary, key=lambda c: c.auroc, default=None)
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
            over_position=None
            if position is None or best is None
            else table.gap(other(best.representation), position, ALL),
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
            unsplit=_sums([table.unsplit(each) for each in (name, other("pca"))]),
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
        none, models = self.unsplit
        return 2 * none > models

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


def judge(evidence: Evidence) -> Judgement:
    """The verdict, its sentence, and the advice."""
    verdict, text = _verdict(evidence)
    return Judgement(verdict, text, _advice(evidence, verdict))


def _verdict(e: Evidence) -> tuple[Verdict, str]:
    best = max(e.primary, key=lambda c: c.auroc, default=None)
    if e.layout_confounds and e.position is not None and best is not None:
        return "layout-confounded", (
            f"position alone reaches AUROC {_figure(e.position.auroc, e.position.ci95)}, the best representation "
            f"({_name(best)}) {_figure(best.auroc, best.ci95)}: whatever is told apart here, the layout could explain it."
        )
    if e.hits and not e.beyond_layout:
        return "layout-confounded", (
            f"only {_targets(e.hits)} told apart from what targets are compared with, and position alone tells the same: AUROC "
            f"{listed(f'{c.auroc:.3f} ({c.target})' for c in e.told_by_position)}."
        )
    if e.finds_nothing and best is not None:
        above = "" if best.excess != best.excess else f", {_signed(best.excess, best.excess_ci95)} against null guides"
        return "nothing-to-find", (
            f"no representation tells targets from what they are compared with; the best ({_name(best)}) has AUROC "
            f"{_figure(best.auroc, best.ci95)}{above}."
        )
    gain = e.over_pca
    clear = gain is not None and (gain.ci95[0] > 0 or gain.ci95[1] < 0)
    if e.mostly_unsplit and not clear:
        none, models = e.unsplit
        return "undecided", (
            f"{none} of {models} models of PCA + ICA and PCA made no split (too few wells for so many rows in a leaf), so that they "
            f"score alike says nothing about ICA's gain.{_remarks(e)}"
        )
    if gain is None or gain.ci95[0] != gain.ci95[0]:
        return "undecided", "ICA and PCA were not both scored with an interval, so nothing is said about ICA's gain."
    caution = _remarks(e)
    figure = f"ICA - PCA is {_signed(gain.value, gain.ci95)} AUROC on {_held(e)} held out"
    if gain.ci95[0] > 0:
        return "ica-helps", f"{figure}.{caution}"
    if gain.ci95[1] < 0:
        return "ica-harms", f"{figure}.{caution}"
    if max(abs(gain.ci95[0]), abs(gain.ci95[1])) <= MARGIN:
        return "no-gain", f"{figure}: a gain of {MARGIN} is excluded.{caution}"
    return "undecided", f"{figure}: more plates or targets are needed.{caution}"


def _remarks(e: Evidence) -> str:
    """What must be said beside any verdict on ICA: what position tells, and that only single targets are told apart."""
    parts = []
    if e.layout_tells_all and e.position is not None:
        parts.append(
            f" Position alone reaches {_figure(e.position.auroc, e.position.ci95)}: part of every score may be layout."
        )
    elif e.told_by_position:
        named = listed(f"{c.target} ({c.auroc:.3f})" for c in e.told_by_position)
        parts.append(
            f" Position alone tells {named}: what is told of {'it' if _one(e.told_by_position) else 'them'} may be layout."
        )
    if e.hits and not e.finds_over_all:
        parts.append(f" Over all targets nothing is told apart, but {_targets(e.hits)}.")
    return "".join(parts)


def _targets(hits: Sequence[ConditionScore]) -> str:
    named = listed(f"{c.target} ({c.auroc:.3f} in {_name(c)}, {c.classifier})" for c in hits)
    return f"{named} {'is' if _one(hits) else 'are'}"


def _one(several: Sequence[ConditionScore]) -> bool:
    return len(several) == 1


def _name(c: ConditionScore) -> str:
    return READERS_NAMES.get(c.representation, c.representation)


def _advice(e: Evidence, verdict: Verdict) -> IcaAdvice:
    reasons = [reason for reason in (_components(e), _gain(e), _rotation(e), _probe(e), _layout(e)) if reason]
    c = e.components
    if c is None:
        return IcaAdvice("unclear", "ICA was not among the representations.", tuple(reasons))
    if c.unidentified:
        count = c.identifiable if c.identifiable is not None else c.width - (c.gaussian or 0)
        unsure = f"ICA is unidentified here: {count} of {c.width} components are determined by the data"
        if verdict == "ica-helps":
            return IcaAdvice("unclear", f"{unsure}; yet this one gains on plates never seen.", tuple(reasons))
        return IcaAdvice("no", f"{unsure}.", tuple(reasons))
    if verdict == "ica-helps":
        if e.over_linear is not None and e.over_linear.ci95[1] < 0:
            return IcaAdvice(
                "yes",
                "It helps trees, and gives single components; to predict alone, a linear probe does better.",
                tuple(reasons),
            )
        return IcaAdvice("yes", "It helps on plates never seen.", tuple(reasons))
    sentences = {
        "layout-confounded": "This layout cannot show whether ICA helps.",
        "nothing-to-find": "There is nothing here that any representation finds.",
        "ica-harms": "PCA does better on plates never seen.",
        "no-gain": "It neither helps nor harms on plates never seen.",
    }
    if verdict in sentences:
        return IcaAdvice("no", sentences[verdict], tuple(reasons))
    if e.mostly_unsplit:
        return IcaAdvice("unclear", "Most trees could not split, so nothing is known of a gain.", tuple(reasons))
    return IcaAdvice("unclear", "The interval allows a gain and a loss.", tuple(reasons))


def _components(e: Evidence) -> str:
    c = e.components
    if c is None:
        return ""
    parts = []
    if c.identifiable is not None:
        parts.append(f"{c.identifiable} of {c.width} components come back in refits on halves of the plates")
    if c.gaussian is not None:
        parts.append(f"{c.gaussian} of {c.width} look Gaussian")
        if c.gaussian > MOSTLY_GAUSSIAN * c.width:
            parts.append("if rows are means over cells or patches, fit on single ones and apply to the means")
    if not c.converged:
        parts.append("the solver stopped before its tolerance")
    return "components: " + "; ".join(parts)


def _gain(e: Evidence) -> str:
    return "" if e.over_pca is None else f"gain over PCA: {_signed(e.over_pca.value, e.over_pca.ci95)} AUROC"


def _rotation(e: Evidence) -> str:
    return (
        ""
        if e.over_rand is None
        else f"gain over random rotations: {_signed(e.over_rand.value, e.over_rand.ci95)} AUROC"
    )


def _probe(e: Evidence) -> str:
    if e.over_linear is None or e.linear is None:
        return ""
    return (
        f"trees on ICA less a linear probe on {_name(e.linear)}: {_signed(e.over_linear.value, e.over_linear.ci95)} "
        "AUROC; a linear probe does not see rotations"
    )


def _layout(e: Evidence) -> str:
    if e.position is None:
        return "layout: wells are not known, so position was not tested"
    single = listed(f"{c.target} {c.auroc:.3f}" for c in e.told_by_position)
    told = f"; it clearly tells {single}" if single else ""
    return f"layout: position alone has AUROC {_figure(e.position.auroc, e.position.ci95)}{told}"


def _held(e: Evidence) -> str:
    return {"plate": "plates", "batch": "batches"}.get(e.primary[0].held_out, "batches") if e.primary else "plates"


def _figure(value: float, ci95: Interval) -> str:
    return f"{value:.3f} [{ci95[0]:.3f}, {ci95[1]:.3f}]" if ci95[0] == ci95[0] else f"{value:.3f} (no interval)"


def _signed(value: float, ci95: Interval) -> str:
    return f"{value:+.3f} [{ci95[0]:+.3f}, {ci95[1]:+.3f}]" if ci95[0] == ci95[0] else f"{value:+.3f} (no interval)"
