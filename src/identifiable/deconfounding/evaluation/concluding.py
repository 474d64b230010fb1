"""From finished units to the result: conditions, differences, leakage, alerts, verdict and advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from identifiable.deconfounding.corrections.correcting import listed
from identifiable.deconfounding.evaluation.advice import Components, Evidence, Judgement, judge
from identifiable.deconfounding.evaluation.contrasts import NULL_GUIDES
from identifiable.deconfounding.evaluation.representing import BLIND, READERS_NAMES
from identifiable.deconfounding.evaluation.requesting import Request
from identifiable.deconfounding.evaluation.tabulating import ConditionName, Tabulation
from identifiable.deconfounding.evaluation.units import Unit, UnitName
from identifiable.results import Alert, ConditionScore, Difference, Fitted, Leakage
from identifiable.results.evaluation import ALL, HeldOut

RIVALS: Mapping[str, tuple[str, ...]] = {
    "ica": ("pca", "base", "rand", "position"),
    "pca": ("base", "position"),
    "base": ("position",),
    "ica-cs": ("base", "pca-cs", "rand-cs"),
}
LINEAR = ("ridge", "logistic")  # probes that rotations do not change
FEW_GROUPS = 10  # groups below which an interval from resampling them is rough


@dataclass(frozen=True, eq=False)
class Conclusion:
    """Everything of a result that is made of units."""

    conditions: tuple[ConditionScore, ...]
    differences: tuple[Difference, ...]
    leakage: tuple[Leakage, ...]
    alerts: tuple[Alert, ...]
    judgement: Judgement


def conclude(
    request: Request,
    units: Mapping[UnitName, Unit],
    fitted: Sequence[Fitted],
    *,
    targets: tuple[str, ...],
    null_targets: tuple[str, ...],
    groups: Mapping[HeldOut, int],
    wells_known: bool,
) -> Conclusion:
    """Means, intervals, paired differences and what follows from them. `groups` counts what intervals resample."""
    table = Tabulation(units, targets, null_targets, groups)
    evidence = _evidence(request, table, fitted, next(iter(groups)))
    shown = (ALL, *targets, *((NULL_GUIDES,) if null_targets else ()), *null_targets)
    return Conclusion(
        conditions=tuple(
            found for name in table.names for target in shown if (found := table.condition(name, target)) is not None
        ),
        differences=tuple(_differences(request, table, (ALL, *targets))),
        leakage=tuple(
            leak
            for name in table.names
            if name.fit == "all" and request.is_fitted(name.representation)
            if (leak := table.leakage(name.representation, name.classifier, name.held_out)) is not None
        ),
        alerts=(
            *_ica_alerts(fitted),
            *_unit_alerts(units),
            *_interval_alerts(request, groups),
            *_layout_alerts(evidence, wells_known),
        ),
        judgement=judge(evidence),
    )


def _evidence(request: Request, table: Tabulation, fitted: Sequence[Fitted], held_out: HeldOut) -> Evidence:
    primary = ConditionName("ica", request.tree.name, held_out, request.fit[0])
    linear = next((c.name for c in request.classifiers if c.name in LINEAR), None)
    own = [f for f in fitted if f.representation == "ica" and f.fit == request.fit[0]]
    components = None
    if own:
        known = next((f for f in own if f.identifiable is not None), own[0])
        converged = all(f.converged for f in own)
        components = Components(known.width, known.identifiable, known.gaussian, converged)
    return Evidence.of(
        table,
        primary,
        embeddings=request.embeddings,
        linear=None if linear == primary.classifier else linear,
        components=components,
    )


def _differences(request: Request, table: Tabulation, targets: Sequence[str]) -> Iterator[Difference]:
    for name in table.names:
        for rival in _rivals(request, name.representation):
            for target in targets:
                found = table.difference(name, rival, target)
                if found is not None:
                    yield found


def _rivals(request: Request, name: str) -> tuple[str, ...]:
    if name in request.given:
        return ("ica", "pca", "base")
    if name in request.corrections:
        return RIVALS.get(name, ("base",))
    return () if name in BLIND else RIVALS.get(name, ())


def _ica_alerts(fitted: Sequence[Fitted]) -> Iterator[Alert]:
    fits = [f for f in fitted if f.representation == "ica"]
    stopped = sum(not f.converged for f in fits)
    if stopped:
        yield Alert("ica_not_converged", f"ICA stopped before its tolerance in {stopped} of {len(fits)} fits.")


def _unit_alerts(units: Mapping[UnitName, Unit]) -> Iterator[Alert]:
    unsplit = [name for name, unit in units.items() if unit.n_splits == 0]
    if unsplit:
        where = listed(
            dict.fromkeys(f"{n.target} in {READERS_NAMES.get(n.representation, n.representation)}" for n in unsplit)
        )
        yield Alert(
            "no_splits",
            f"{len(unsplit)} of {len(units)} models made no split, so they score 0.5 and have no sparsity ({where}).",
        )
    unsettled = [name.classifier for name, unit in units.items() if not unit.converged]
    if unsettled:
        names = listed(dict.fromkeys(unsettled))
        yield Alert(
            "not_converged", f"{len(unsettled)} of {len(units)} models stopped before their tolerance ({names})."
        )


def _interval_alerts(request: Request, groups: Mapping[HeldOut, int]) -> Iterator[Alert]:
    for held_out, count in groups.items():
        if count < FEW_GROUPS:
            what = "plates" if held_out == "plate" else "batches"
            yield Alert(
                "few_groups", f"intervals come from resampling {count} {what}; below {FEW_GROUPS} they are rough."
            )
    if request.bootstrap < 2:
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
