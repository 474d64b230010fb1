"""audit(): what the design of a screen allows one to conclude, before anything is fitted."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

import numpy as np

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks, Progress, in_threads, one_blas_thread
from identifiable.deconfounding.design import Codes, Design, Labels
from identifiable.deconfounding.evaluation.held_out import least_of_many, null_spread
from identifiable.deconfounding.folds import plate_folds
from identifiable.deconfounding.layout import blind as layout
from identifiable.deconfounding.layout.audit_findings import (
    CONFOUNDED,
    NO_SHARED_PLATE,
    Evidence,
    plural,
    sentence_of,
    spread,
    verdict_of,
)
from identifiable.deconfounding.layout.blind import Array, BlindClassifier
from identifiable.deconfounding.layout.embedding_audit import Reading, check_features, read_classes
from identifiable.deconfounding.summary import summarise
from identifiable.intake import default_provenance, inputs_of
from identifiable.representation import Representation
from identifiable.results import (
    Alert,
    Audit,
    BlindScore,
    FoldCheck,
    Input,
    Provenance,
)

BOOTSTRAP = 300  # draws of plates for intervals
CELL_COUNT_BINS = 20

EACH, ANY = "each perturbation", "any perturbation"


def audit(
    blocks: Blocks,
    design: Design,
    *,
    folds: int = 5,
    permutations: int = 200,
    min_wells: int = 20,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
    inputs: Sequence[Input] = (),
    provenance: Provenance | None = None,
    alerts: Sequence[Alert] = (),
) -> Audit:
    """Judge a screen before any fit: can perturbations be told from plates, batches and places on the plate?

    Ours, after section 4.4 of Nelson et al. 2026, whose controls and guides may each keep to their own wells. Classifiers that see
    only position, plate, batch or cell count are scored like the embedding will be, on plates left out; labels are shuffled within
    plates; and the embedding is checked for what would spoil a fit.

    Parameters
    ----------
    folds
        Parts into which whole plates are dealt, as in `evaluate`.
    permutations
        Shuffles of the labels behind each null.
    min_wells
        Wells a perturbation needs to be judged on its own.
    inputs, provenance, alerts
        What is already known of the table; alerts of `assign_roles` belong here.
    """
    _check(blocks, design, permutations, min_wells)
    with one_blas_thread():  # finding the BLAS libraries takes longer than many of the steps
        fold_of = plate_folds(design, folds=folds, seed=seed)
        testable, skipped = evaluable_perturbations(design, fold_of, min_wells)
        wells = _wells_of(design, testable)
        features = check_features(blocks, workers=workers, progress=progress)
        blind = _blind_scores(design, fold_of, wells, seed, workers, progress)
        readings = _readings(blocks, design, folds, seed)
        blind += [score for _, score in readings]
        contrasts = sorted(wells.values(), key=len, reverse=True)[: layout.CONTRASTS]
        dependences = layout.dependences(
            design,
            contrasts or [np.flatnonzero(~design.control)],
            permutations=permutations,
            seed=seed,
            workers=workers,
            progress=progress,
        )
        checks = _fold_checks(design, fold_of, wells)
        confounding = _confounding(design)
        locked = _locked(design, fold_of, wells, seed, workers, progress)
        evidence = Evidence(
            design,
            tuple(blind),
            dependences,
            checks,
            features,
            tuple(testable),
            skipped,
            confounding,
            min_wells,
            locked,
        )
        findings = evidence.findings()
        verdict = verdict_of(findings)
        return Audit(
            inputs=tuple(inputs)
            or inputs_of([Representation(blocks, name=blocks.name)], workers=workers, progress=progress),
            settings={
                "folds": folds,
                "permutations": permutations,
                "min_wells": min_wells,
                "seed": seed,
                "bootstrap": BOOTSTRAP,
                "confounded_above": CONFOUNDED,
                "roles": dict(design.roles),
            },
            alerts=(*alerts, *_alerts(design, readings, len(wells))),
            provenance=provenance or default_provenance(seed, "identifiable.deconfounding.audit(...)"),
            design=summarise(design, blocks.d),
            dependences=dependences,
            blind=tuple(blind),
            confounding=confounding,
            folds=checks,
            features=features,
            findings=findings,
            skipped=skipped,
            verdict=verdict,
            text=sentence_of(verdict, findings, evidence),
        )


def evaluable_perturbations(design: Design, fold_of: Codes, min_wells: int) -> tuple[list[str], dict[str, str]]:
    """Perturbations that can be judged on plates left out, and for each of the others why not."""
    treated = ~design.control
    wells = np.bincount(design.perturbation.codes[treated], minlength=design.perturbation.size)
    with_controls = np.bincount(design.plate.codes[design.control], minlength=design.plate.size) > 0
    beside = np.bincount(
        design.perturbation.codes[treated & with_controls[design.plate.codes]], minlength=design.perturbation.size
    )
    plates = spread(design.perturbation, design.plate, treated)
    parts = spread(design.perturbation, Labels.of(fold_of), treated)
    testable, skipped = [], {}
    for k in np.flatnonzero(wells):
        name = design.perturbation.names[k]
        if wells[k] < min_wells:
            skipped[name] = f"{wells[k]} wells, fewer than {min_wells}"
        elif plates[k] < 2 or parts[k] < 2:
            skipped[name] = "on one plate only" if plates[k] < 2 else "all its plates are in one fold"
        elif not beside[k]:
            skipped[name] = NO_SHARED_PLATE
        else:
            testable.append(name)
    return testable, skipped


def _wells_of(design: Design, names: Sequence[str]) -> dict[str, Codes]:
    """The rows of some perturbations."""
    order = np.argsort(design.perturbation.codes, kind="stable")
    ends = np.cumsum(design.perturbation.counts)
    code = {name: k for k, name in enumerate(design.perturbation.names)}
    return {name: order[ends[code[name]] - design.perturbation.counts[code[name]] : ends[code[name]]] for name in names}


def _check(blocks: Blocks, design: Design, permutations: int, min_wells: int) -> None:
    if blocks.n != design.n:
        raise DataError(
            f"{blocks.name} has {blocks.n} rows and its design {design.n}; they must describe the same rows."
        )
    for name, value, least in (("permutations", permutations, 1), ("min_wells", min_wells, 2)):
        if operator.index(value) < least:
            raise UsageError(f"{name}: expected a whole number of at least {least}, got {value}.")


def _blind_scores(
    design: Design,
    fold_of: Codes,
    wells: Mapping[str, Codes],
    seed: int,
    workers: int | None,
    progress: Progress | None,
) -> list[BlindScore]:
    """What place alone tells of perturbations: each on its own, and all together where controls are on the same plate."""
    draws = _plate_draws(design, seed)
    with_controls = np.bincount(design.plate.codes[design.control], minlength=design.plate.size) > 0
    beside = ~design.control & with_controls[design.plate.codes]
    anything = {ANY: np.flatnonzero(beside if beside.any() else ~design.control)}
    each = dict(wells) or anything
    predicted = EACH if wells else ANY
    scores = []
    if design.address is not None:
        by_position = _by_position(design, fold_of, draws)
        scores += [_blind_score("position", ANY, by_position, anything, workers, progress)]
        if wells:
            scores += [_blind_score("position", EACH, by_position, each, workers, progress)]
    if design.batch is not None and design.batch.size > 1:
        by_batch = BlindClassifier(design, design.batch, layout.count_score, fold_of, draws)
        scores.append(_blind_score("batch", predicted, by_batch, each, workers, progress))
    # A plate that was left out is new to the classifier: by name it could only guess. So nothing is held out here, and the
    # score of wells dealt to plates at random, which is above 0.5, stands beside it.
    by_plate = BlindClassifier(design, design.plate, layout.count_score, None, draws)
    chance = layout.plate_chance(design, list(each.values()), np.random.default_rng([seed, 79]))
    scores.append(
        _blind_score("plate", predicted, by_plate, each, workers, progress, held_out="nothing", chance=chance)
    )
    if design.cell_count is not None:
        edges = np.unique(np.quantile(design.cell_count, np.linspace(0, 1, CELL_COUNT_BINS + 1)[1:-1]))
        binned = Labels.of(np.searchsorted(edges, design.cell_count, side="right"))
        by_count = BlindClassifier(design, binned, layout.count_score, fold_of, draws)
        scores.append(_blind_score("cell_count", predicted, by_count, each, workers, progress))
    return scores


def _plate_draws(design: Design, seed: int) -> Array:
    return layout.plate_draws(design.plate.size, BOOTSTRAP, np.random.default_rng([seed, 73]))


def _by_position(design: Design, fold_of: Codes, draws: Array) -> BlindClassifier:
    return BlindClassifier(design, layout.addresses(design), layout.position_score(design), fold_of, draws)


def _locked(
    design: Design,
    fold_of: Codes,
    wells: Mapping[str, Codes],
    seed: int,
    workers: int | None,
    progress: Progress | None,
) -> dict[str, float]:
    """Perturbations that position alone tells, the most clearly told first: the low ends of their intervals, which hold all at
    once, above what is called confounded."""
    if design.address is None or not wells:
        return {}
    classifier = _by_position(design, fold_of, _plate_draws(design, seed))
    rows = list(wells.values())
    table = np.array(in_threads(classifier.auroc, rows, workers=workers, progress=progress, stage="position, each"))
    controls = int(design.control.sum())
    spreads = np.array([null_spread(len(each), controls) for each in rows])
    least = least_of_many(table, spreads, design.plate.size)
    told = [(name, float(values[0])) for name, values, low in zip(wells, table, least, strict=True) if low > CONFOUNDED]
    return dict(sorted(told, key=lambda pair: -pair[1]))


def _blind_score(
    features: str,
    predicts: str,
    classifier: BlindClassifier,
    wells: Mapping[str, Codes],
    workers: int | None,
    progress: Progress | None,
    *,
    held_out: str = "plate",
    chance: float = 0.5,
) -> BlindScore:
    found = in_threads(
        classifier.auroc, list(wells.values()), workers=workers, progress=progress, stage=f"{features} alone"
    )
    table = np.array(found)
    scored = ~np.isnan(table[:, 0])
    names = [name for name, kept in zip(wells, scored, strict=True) if kept]
    table = table[scored]
    if not names:
        return BlindScore(features, predicts, np.nan, (np.nan, np.nan), 0, held_out=held_out, chance=chance)
    mean = _mean_over_targets(table)
    worst = int(np.argmax(table[:, 0]))
    return BlindScore(
        features=features,
        predicts=predicts,
        auroc=float(mean[0]),
        ci95=layout.interval(mean, classifier.plate.size, crossed=classifier.held_out),
        targets=len(names),
        worst=names[worst] if predicts == EACH else "",
        worst_auroc=float(table[worst, 0]),
        held_out=held_out,
        chance=chance,
    )


def _mean_over_targets(table: Array) -> Array:
    """The mean of every draw over the targets it could score."""
    known = ~np.isnan(table)
    counts = known.sum(axis=0)
    mean: Array = np.divide(
        np.where(known, table, 0.0).sum(axis=0), counts, out=np.full(table.shape[1], np.nan), where=counts > 0
    )
    return mean


def _readings(blocks: Blocks, design: Design, folds: int, seed: int) -> list[tuple[Reading, BlindScore]]:
    """How well plate and batch are read from the embedding."""
    found: list[tuple[Reading, BlindScore]] = []
    for what, held_out in (("plate", "well"), ("batch", "plate")):
        rng = np.random.default_rng([seed, 83, len(found)])
        reading = read_classes(blocks, design, "plate" if what == "plate" else "batch", folds=folds, rng=rng)
        if reading is None:
            continue
        known = reading.aurocs[~np.isnan(reading.aurocs)]
        if not known.size:
            continue
        drawn = known[rng.integers(0, known.size, (BOOTSTRAP, known.size))].mean(axis=1)
        best = int(np.nanargmax(reading.aurocs))
        score = BlindScore(
            features="embedding",
            predicts=what,
            auroc=float(known.mean()),
            ci95=layout.interval(np.append(known.mean(), drawn), max(known.size, 2), crossed=False),
            targets=int(known.size),
            worst=reading.names[best],
            worst_auroc=float(reading.aurocs[best]),
            held_out=held_out,
        )
        found.append((reading, score))
    return found


def _fold_checks(design: Design, fold_of: Codes, wells: Mapping[str, Codes]) -> tuple[FoldCheck, ...]:
    checks = []
    folds_of = {name: set(fold_of[rows].tolist()) for name, rows in wells.items()}
    for k in range(int(fold_of.max()) + 1):
        rows = fold_of == k
        n, controls = int(rows.sum()), int((rows & design.control).sum())
        problem = "no controls" if controls == 0 else "nothing but controls" if controls == n else ""
        missing = tuple(name for name, folds in folds_of.items() if k not in folds)
        checks.append(FoldCheck(k, len(np.unique(design.plate.codes[rows])), n, controls, missing, problem))
    return tuple(checks)


def _confounding(design: Design) -> float:
    """Association of batch and perturbation; NaN where there are not two batches."""
    if design.batch is None:
        return float("nan")
    return layout.cramers_v(design.batch, layout.with_controls_as_one(design))


def _alerts(design: Design, readings: Sequence[tuple[Reading, BlindScore]], testable: int) -> list[Alert]:
    alerts = []
    for reading, score in readings:
        if not reading.all_rows:
            kind = "control rows" if reading.controls_only else "rows"
            alerts.append(
                Alert(
                    f"{score.predicts}_read_from_sample",
                    f"{design.name}: how well the {score.predicts} is read from the embedding was judged on {reading.rows} {kind} of "
                    f"{score.targets} {plural(score.predicts)}, drawn at random.",
                )
            )
    if testable > layout.CONTRASTS:
        alerts.append(
            Alert(
                "information_from_some",
                f"{design.name}: information of perturbation against control is the mean over the {layout.CONTRASTS} perturbations "
                f"with most wells, of {testable}.",
            )
        )
    return alerts
