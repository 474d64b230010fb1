"""clean(): a screen without its technical components, and what that costs beside dropping other axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks, one_blas_thread
from identifiable.deconfounding.components.attributing import role_at
from identifiable.deconfounding.components.resolving import Scaling, screen_basis
from identifiable.deconfounding.components.shares import Questions
from identifiable.deconfounding.components.trade_off import (
    SPACES,
    AxesOf,
    Method,
    Ranked,
    TradeOff,
    biology_lost,
    budgeted,
    has_place,
    principal_rotation,
    removal_order,
    trade_off,
)
from identifiable.deconfounding.components.variance import CELL_COUNT, Slabs, project
from identifiable.deconfounding.design import Design, Labels, summarise
from identifiable.deconfounding.folds import plate_folds
from identifiable.deconfounding.intervals import FEW_GROUPS
from identifiable.deconfounding.metrics.retrieval import (
    BATCH_READABLE,
    NN_COSINE,
    NN_EUCLIDEAN,
    REPLICATE_MAP,
    Retrieval,
    Scores,
    batches_or_plates,
    pieced,
)
from identifiable.deconfounding.metrics.space_metrics import space_metrics
from identifiable.deconfounding.run import record_of
from identifiable.groups import AffineMap, haar_rotation
from identifiable.ica import Resolved
from identifiable.intake import gather_moments
from identifiable.moments import Array
from identifiable.options import CleanOptions
from identifiable.representation import Representation
from identifiable.results import Alert, Answer, Attribution, Cleaning, CleanPoint, SpaceMetric
from identifiable.results.cleaning import CleanCheck, CleanDifference
from identifiable.run import Run, Stage

Verdict = Literal["ica-cleaning-helps", "no-gain", "nothing-to-remove", "keep-as-is", "harms"]
MAX_ROWS = 6000  # of each half of the plates, judged by replicate mAP at every point of the curve
METRIC_ROWS = 8000  # of the half that metrics are measured on: five spaces, and neighbours cost rows squared
BEYOND = 2  # the curve ends at so many times the number of axes chosen
OF_WELLS = (NN_EUCLIDEAN, NN_COSINE, REPLICATE_MAP)  # metrics of single wells: those of profiles move by chance
CHECK_FOLDS = 5  # parts of the batches (or plates), each cleaned by what the others choose
ROUNDING = 1e-9  # of the size of a feature: a spread below it is what rounding leaves of a constant


def clean(
    resolved: Resolved,
    blocks: Blocks,
    design: Design,
    attribution: Attribution,
    options: CleanOptions | None = None,
    run: Run | None = None,
    *,
    curve_points: Sequence[int] | None = None,
    max_rows: int = MAX_ROWS,
) -> Cleaning:
    """Which components to take out, what goes with them, and whether any other axes would have done as well. Ours.

    Which components go is decided on all plates (`choose_weights`). What that is worth is judged apart: on each half of the plates
    with axes ranked on the other half, ICA, PCA and a random rotation alike, with as many axes removed from the features.
    "ica-cleaning-helps" needs intervals above 0, from leaving plates out, of replicate mAP less that of PCA, less that of no cleaning
    and less chance. ICA and whitening see all rows, without labels.

    Metrics of retrieval (1-NN across batches, consensus, replicate mAP: `Retrieval`) of the cleaned table are compared with those of
    the table as it came: on the table as it would be written, and on wells of batches (or plates) that were not used to choose
    components. Features are in standard deviations of their table; single wells of the table as written
    are judged in the units they came in, too.
    "harms" is said where a metric has an interval below the input; "keep-as-is" where one is lower by more than `margin`, which
    may be chance.

    Parameters
    ----------
    curve_points
        Numbers of axes removed; None for 1, 2, 4, ... to twice the number chosen. 0 and that number are always among them.
    max_rows
        Wells of each half that replicate mAP is measured on, whole perturbations drawn at random.
    """
    if max_rows < 2:
        raise UsageError(f"max_rows: expected at least 2 wells to judge by, got {max_rows}.")
    options, run = options or CleanOptions(), run or Run()
    design.check_rows(blocks)
    components = resolved.to_components.matrix.shape[1]
    if len(attribution.components) != components:
        raise DataError(
            f"{design.name}: expected an attribution of the {components} components given, got one of "
            f"{len(attribution.components)}; attribute these components first."
        )
    chosen = choose_weights(attribution, method=options.method, budget=options.budget, fdr=options.fdr)
    removed = len(chosen.removed)
    with one_blas_thread():
        slabs = project(blocks, resolved.to_components, run)
        scaling = Scaling.of(gather_moments([blocks], run)[0])
        back = scaling.of_scaled(resolved.from_components)
        points = _points(removed, components, curve_points)
        found = trade_off(
            slabs,
            back,
            scaling.on(blocks),
            design,
            points=points,
            method=options.method,
            max_rows=max_rows,
            run=run,
        )
        table = _metrics(scaling.on(blocks), slabs, back, found, removed, options, run)
        checks = _checks(resolved, blocks, slabs, design, chosen, options, run) if removed else ()
    differences = _differences(found, removed)
    verdict, told = judge(chosen, differences, checks, found, attribution, options.margin)
    said = (*run.alerts, *attribution.alerts, *_alerts(design, found))
    return Cleaning(
        inputs=tuple(run.inputs) or attribution.inputs,
        settings={
            "method": options.method,
            "budget": options.budget,
            "fdr": options.fdr,
            "margin": options.margin,
            "max_rows": max_rows,
            "curve_points": tuple(points),
            "metrics": tuple(dict.fromkeys(metric.metric for metric in table)),
            "relations": len(set(options.relations)),
            "held_out": "plate" if batches_or_plates(design) is design.plate else "batch",
            "seed": run.seed,
            "replicate_map_chance": found.judged["ica", 0].replicates.mean_chance,
        },
        alerts=tuple(dict.fromkeys(said)),
        provenance=record_of(run, "clean"),
        design=summarise(design, blocks.d),
        method=options.method,
        budget=options.budget,
        weights=tuple(chosen.weights.tolist()),
        removed=chosen.removed,
        biology_lost=chosen.biology_lost,
        curve=_curve(found, points),
        metrics=table,
        verdict=verdict,
        told=told,
        attribution=attribution,
        differences=differences,
        checks=checks,
    )


def fit_cleaning(
    blocks: Blocks, design: Design, options: CleanOptions | None = None, run: Run | None = None
) -> AffineMap:
    """The map of features that `clean` would save for these rows, chosen by technical and biological scores alone. Ours.

    In seconds, without refits, permutations or a verdict: for whoever judges the cleaned rows by other means.
    """
    options, run = options or CleanOptions(), run or Run()
    found = screen_basis(Representation(blocks, name=blocks.name), design, replace(options, stability=0), run)
    questions = Questions.of(design.doses_apart, rng=np.random.default_rng(run.seed))
    ranked = Ranked.of(project(blocks, found.to_components, run), questions)
    return cleaned_map(found, ranked.chosen(options.method, options.budget).tolist())


# -- which components go


@dataclass(frozen=True, eq=False)
class Chosen:
    """A factor for each component, those that were touched in the order they went, and the share of biology that goes with them.

    `unfound` would have been candidates, had refits found any component again.
    """

    weights: Array
    removed: tuple[int, ...]
    biology_lost: float
    unfound: tuple[int, ...] = ()


def choose_weights(
    attribution: Attribution, *, method: Method = "drop", budget: float = 0.1, fdr: float = 0.05
) -> Chosen:
    """Drop or shrink technical components, by technical less biological score, within the budget of biology.

    Components that are technical only go first; those that are both follow if more of them is technical than biological. One that
    would overdraw the budget stays, and the next is tried. Nothing goes where

    - refits find no component again: none is called technical then (`attribute`), because another sample would have others;
    - the screen shows no biology (the interval of the sum of all scores reaches 0): what would be lost cannot be measured;
    - cell count alone makes components technical (`has_place`).
    """
    technical = np.array([card.technical for card in attribution.components])
    biological = np.array([card.biological for card in attribution.components])
    roles = [role_at(card, fdr) for card in attribution.components]
    counts = np.array([card.share(CELL_COUNT) for card in attribution.components])
    order = removal_order(technical, biological).tolist()
    candidates = [k for k in order if roles[k] == "technical"]
    candidates += [k for k in order if roles[k] == "both" and technical[k] > biological[k]]
    if not (shows_biology(attribution) and has_place(technical[candidates], counts[candidates])):
        candidates = []
    unfound = tuple(candidates) if len(attribution.refused) == len(roles) else ()
    candidates = [] if unfound else candidates
    weights = budgeted(candidates, technical, biological, method, budget)
    removed = tuple(k for k in candidates if weights[k] < 1)
    return Chosen(weights, removed, biology_lost(biological, weights) if removed else 0.0, unfound)


def shows_biology(attribution: Attribution) -> bool:
    """Whether perturbations have effects that replicate, over all components together."""
    return attribution.biology_ci95[0] > 0


def cleaned_components(resolved: Resolved, weights: Sequence[float]) -> AffineMap:
    """The map from rows to weighted components. It needs no batch label, so new plates need no refit."""
    to, factors = resolved.to_components, np.asarray(weights, np.float64)
    components = to.matrix.shape[1]
    if factors.shape != (components,):
        raise UsageError(f"weights: expected one for each of {components} components, got shape {factors.shape}.")
    return AffineMap(to.matrix * factors, to.offset * factors)


def cleaned_basis(resolved: Resolved, weights: Sequence[float]) -> Resolved:
    """The basis of the components with a weight above 0, each times its weight; back, it gives rows without the rest."""
    kept = np.flatnonzero(np.asarray(weights) > 0).tolist()
    to, back, result = cleaned_components(resolved, weights), resolved.from_components, resolved.result
    return Resolved(
        AffineMap(to.matrix[:, kept], to.offset[kept]),
        # Not divided by the weights: what was shrunk stays so on the way back.
        AffineMap(back.matrix[kept], back.offset),
        replace(
            result,
            rank=len(kept),
            components=tuple(result.components[place] for place in kept),
            whitening=replace(result.whitening, rank=len(kept)),
            unresolved=(),
            ties=(),
        ),
    )


def cleaned_map(resolved: Resolved, weights: Sequence[float]) -> AffineMap:
    """The map from features to the same features, in their units, without what the components lose by their weights.

    Dropping a component sets it to its mean over the rows it was fitted to. What lies outside the components stays as it is, so
    weights of 1 give the input.
    """
    lost = [weight - 1 for weight in weights]
    to, back = cleaned_components(resolved, lost), resolved.from_components.matrix
    return AffineMap(np.eye(len(to.matrix)) + to.matrix @ back, to.offset @ back)


def compared_spaces(resolved: Resolved, cleaned: Resolved, seed: int) -> dict[str, AffineMap]:
    """Maps from rows to the spaces a cleaning is compared in: PCA-white, all components, the cleaned ones, one random rotation."""
    to, turn = resolved.to_components, principal_rotation(resolved.from_components.matrix)
    white = AffineMap(to.matrix @ turn, to.offset @ turn)  # largest variance first
    rotation = haar_rotation(white.matrix.shape[1], np.random.default_rng(seed))
    return {
        "pca_white": white,
        "ica": to,
        "ica_clean": cleaned.to_components,
        "rand": AffineMap(white.matrix @ rotation, white.offset @ rotation),
    }


# -- what it is worth


def _points(chosen: int, axes: int, given: Sequence[int] | None) -> list[int]:
    """Numbers of axes removed; one axis at least is left."""
    if given is None:
        most = max(BEYOND * chosen, 2)
        given = [2**k for k in range(most.bit_length()) if 2**k <= most]
    if any(point < 0 for point in given):
        raise UsageError(f"curve_points: expected numbers of axes from 0 up, got {list(given)}.")
    return sorted({point for point in (0, chosen, *given) if point < axes or point == chosen})


def _curve(found: TradeOff, points: Sequence[int]) -> tuple[CleanPoint, ...]:
    curve = []
    for space in SPACES:
        for removed in points:
            judged = found.judged[space, removed]
            value, interval = judged.replicates.mean_precision()
            curve.append(CleanPoint(space, removed, judged.plate_auroc, value, judged.biology_lost, interval))
    return tuple(curve)


def _differences(found: TradeOff, removed: int) -> tuple[CleanDifference, ...]:
    if not removed:
        return ()
    others: tuple[tuple[Literal["pca", "rand", "whole"], tuple[AxesOf, int]], ...] = (
        ("pca", ("pca", removed)),
        ("rand", ("rand", removed)),
        ("whole", ("ica", 0)),
    )
    return tuple(CleanDifference(name, removed, *found.difference(("ica", removed), other)) for name, other in others)


def judge(
    chosen: Chosen,
    differences: Sequence[CleanDifference],
    checks: Sequence[CleanCheck],
    found: TradeOff,
    attribution: Attribution,
    margin: float,
) -> tuple[Verdict, Answer]:
    """The verdict, and its reason."""
    removed, components = len(chosen.removed), len(chosen.weights)
    if not shows_biology(attribution):
        low, high = attribution.biology_ci95
        return "keep-as-is", Answer("no_biology", {"biology": attribution.biology, "low": low, "high": high})
    if not removed and chosen.unfound:
        return "nothing-to-remove", Answer(
            "none_found_again", {"unfound": len(chosen.unfound), "components": components}
        )
    if not removed:
        return "nothing-to-remove", Answer("nothing_technical", {"components": components})
    values: dict[str, Any] = {"removed": removed, "components": components}
    by_name = {difference.against: difference for difference in differences}
    whole, pca = by_name["whole"], by_name["pca"]
    worse = sorted((c for c in checks if is_worse(c, margin)), key=lambda c: (not c.ci95[1] < 0, c.difference))
    if worse:
        worst, (low, high) = worse[0], worse[0].ci95
        values |= {"worst": worst.metric, "input": worst.input, "cleaned": worst.cleaned, "margin": margin}
        values |= {"difference": worst.difference, "low": low, "high": high}
        return ("harms", Answer("cleaning_harms", values)) if high < 0 else ("keep-as-is", Answer("not_better", values))
    if not np.isfinite(whole.difference):
        return "no-gain", Answer("no_replicates_held_out", values)
    values |= {"before": found.judged["ica", 0].plate_auroc, "after": found.judged["ica", removed].plate_auroc}
    for name, against in (("whole", whole), ("pca", pca)):
        values |= {name: against.difference, f"{name}_low": against.ci95[0], f"{name}_high": against.ci95[1]}
    at_chance = found.judged["ica", removed].replicates.mean_above_chance()[1][0] <= 0
    if whole.ci95[0] > 0 and pca.ci95[0] > 0 and not at_chance:
        return "ica-cleaning-helps", Answer("cleaned", values)
    lowest = min((c for c in checks if c.better == "high"), key=lambda c: c.difference, default=None)
    values |= {"margin": margin} | ({} if lowest is None else {"lowest": {lowest.metric: lowest.difference}})
    return "no-gain", Answer("cleaned", values, remarks=(Answer("replicates_at_chance"),) * at_chance)


def is_worse(check: CleanCheck, margin: float) -> bool:
    """Whether biology is found worse than in the table as it came: by more than the margin, or by an interval below 0."""
    return check.better == "high" and (check.difference < -margin or check.ci95[1] < 0)


def _checks(
    resolved: Resolved, blocks: Blocks, slabs: Slabs, design: Design, chosen: Chosen, options: CleanOptions, run: Run
) -> tuple[CleanCheck, ...]:
    """Metrics of retrieval, cleaned against input: of the table as it would be written, and of what was not used to choose.

    For the second, batches are dealt into 5 parts (plates, where there are fewer than 3 batches). The wells of a part are judged in
    the table that the choice of the other parts would give, by technical and biological scores alone.
    """
    asked = Retrieval.of(design, seed=run.seed)
    came = blocks.select(asked.rows)[:].astype(np.float64)

    def cleaned(weights: Array) -> Array:
        return cleaned_map(resolved, weights.tolist()).apply(came)

    written = cleaned(chosen.weights)
    before = asked.scores(_standardised(came))
    units = batches_or_plates(design)
    parts = min(CHECK_FOLDS, units.size)
    fold = plate_folds(design, folds=parts, hold_out="plate" if units is design.plate else "batch", seed=run.seed)
    apart: list[Scores] = []
    for k in range(parts):
        rows = np.flatnonzero(fold != k)
        ranked = Ranked.of(
            [slab[rows] for slab in slabs], Questions.of(design.take(rows), rng=np.random.default_rng(run.seed))
        )
        apart.append(asked.scores(_standardised(cleaned(ranked.chosen(options.method, options.budget)))))
        run.say(Stage("checks"), k + 1, parts)
    of_part = replace(asked, groups=Labels(fold[asked.rows], tuple(map(str, range(parts)))))
    held_out = Scores(
        {
            name: pieced([(of_part.group_of(name) == k, each[name]) for k, each in enumerate(apart)])
            for name in asked.metrics
        }
    )
    return (
        *_compared(before, asked.scores(_standardised(written)), held_out=False),
        *(
            c
            for c in _compared(asked.scores(came), asked.scores(written), held_out=False, scaled=False)
            if c.metric in OF_WELLS
        ),
        *_compared(before, held_out, held_out=True),
    )


def _standardised(rows: Array) -> Array:
    """Every feature about its mean and in standard deviations; 0 where only rounding of a constant is left."""
    centred = rows - rows.mean(axis=0)
    spread, size = centred.std(axis=0), np.abs(rows).max(axis=0)
    return np.asarray(np.divide(centred, spread, out=np.zeros_like(centred), where=spread > ROUNDING * size))


def _compared(before: Scores, after: Scores, *, held_out: bool, scaled: bool = True) -> list[CleanCheck]:
    return [
        CleanCheck(
            metric,
            held_out,
            before[metric].mean,
            found.mean,
            *found.minus(before[metric]),
            better="low" if metric == BATCH_READABLE else "high",
            scaled=scaled,
        )
        for metric, found in after.found.items()
    ]


def _metrics(
    features: Blocks,
    slabs: Slabs,
    back: Array,
    found: TradeOff,
    removed: int,
    options: CleanOptions,
    run: Run,
) -> tuple[SpaceMetric, ...]:
    """Metrics of the second half of the plates on scaled features: as they came, and less the axes that the first half chose."""
    if options.metrics is not None and not options.metrics:
        return ()
    half = found.halves[1]
    came = features.select(half.rows)[:].astype(np.float32)
    spaces: dict[str, Blocks] = {"base": Blocks(came, name="base")}
    values = np.concatenate([slab[half.rows] for slab in slabs], axis=1)
    for space in SPACES if removed else ():
        rotation = found.rotations[space]
        turn = np.eye(len(back)) if rotation is None else rotation
        lost = (turn * (1 - found.ranked[space][0].weights(removed, options.method))) @ turn.T @ back
        spaces[space] = Blocks(came - values @ lost.astype(np.float32), name=space)
    return tuple(
        metric
        for space, rows in spaces.items()
        for metric in space_metrics(
            rows,
            half.design,
            space=space,
            only=options.metrics,
            relations=options.relations,
            max_rows=METRIC_ROWS,
            run=run,
        )
    )


def _alerts(design: Design, found: TradeOff) -> list[Alert]:
    judged = sum(len(half.judged) for half in found.halves)
    plates = sum(half.judged_design.plate.size for half in found.halves)
    alerts: list[tuple[bool, str, dict[str, Any]]] = [
        (plates < FEW_GROUPS, "few_groups", {"groups": plates, "level": "plate", "least": FEW_GROUPS}),
        (judged < design.n, "judged_on_some_wells", {"judged": judged, "wells": design.n}),
        (any(half.batch_bound for half in found.halves), "replicates_in_one_batch", {}),
    ]
    return [Alert(code, {"name": design.name, **values}) for holds, code, values in alerts if holds]
