"""audit(): what the design of a screen allows one to conclude, before anything is fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.stats import rankdata

from identifiable.blocks import Blocks, fold, in_threads, one_blas_thread
from identifiable.deconfounding.audit import blind as layout
from identifiable.deconfounding.audit.blind import BlindClassifier
from identifiable.deconfounding.audit.findings import ANY, CONFOUNDED, EACH, Evidence, Skipped, answer_of, verdict_of
from identifiable.deconfounding.design import Codes, Design, Labels, summarise
from identifiable.deconfounding.folds import FEWEST_WELLS, USUAL_WELLS, enough_wells, plate_folds
from identifiable.deconfounding.intervals import interval, least_of_many, mean_of, null_spread, plate_draws
from identifiable.deconfounding.run import record_of, table_of
from identifiable.groups import WhiteBasis
from identifiable.intake import gather_moments
from identifiable.moments import Array, Moments
from identifiable.options import AuditOptions
from identifiable.results import Alert, Audit, BlindScore, FeatureCheck, FoldCheck
from identifiable.run import PLAIN, Run, Stage

BOOTSTRAP = 300  # draws of plates for intervals
CELL_COUNT_BINS = 20
READ_ROWS = 20_000  # rows from which the reading of plates is judged, at most
READ_CLASSES = 200  # and plates, drawn at random
CLASS_ROWS = 4  # a plate (batch) with fewer wells is not read
RIDGE = 0.1  # penalty on standardised columns, as a share of the rows: directions of less than a tenth of the mean variance fade
NAMED_PAIRS = 5
HALF_NORMAL_MEDIAN = 0.6745  # of |N(0, 1)|
HALF_NORMAL_MEDIAN_SE = 0.7867  # times 1/sqrt(m), of the median of m draws: 1 / (2 f) with the density f = 0.6356 there
ALIKE = 0.3  # quartile range of kurtoses, in standard errors: samples from any one distribution differ by 1.35


def audit(blocks: Blocks, design: Design, options: AuditOptions | None = None, run: Run | None = None) -> Audit:
    """Judge a screen before any fit: can perturbations be told from plates, batches and places on the plate?

    Ours, after section 4.4 of Nelson et al. 2026, whose controls and guides may each keep to their own wells. Classifiers that see
    only position, plate, batch or cell count are scored like the embedding will be, on plates left out; labels are shuffled within
    plates; and the embedding is checked for what would spoil a fit.
    """
    options, run = options or AuditOptions(), run or Run()
    design.check_rows(blocks)
    with one_blas_thread():  # finding the BLAS libraries takes longer than many of the steps
        fold_of = plate_folds(design, folds=options.folds, seed=run.seed)
        adapts = options.min_wells == "auto"
        min_wells = enough_wells(design.perturbation.count(~design.control)) if adapts else int(options.min_wells)
        testable, skipped = evaluable_perturbations(design, fold_of, min_wells)
        easier = evaluable_perturbations(design, fold_of, FEWEST_WELLS)[0] if min_wells > FEWEST_WELLS else testable
        members = dict(zip(design.perturbation.names, design.perturbation.members, strict=True))
        wells = {name: members[name] for name in testable}
        features = check_features(blocks, run)
        blind = _blind_scores(design, fold_of, wells, run)
        readings = _readings(blocks, design, options.folds, run.seed)
        blind += [score for _, score in readings]
        contrasts = sorted(wells.values(), key=len, reverse=True)[: layout.CONTRASTS]
        dependences = layout.dependences(
            design, contrasts or [np.flatnonzero(~design.control)], permutations=options.permutations, run=run
        )
        evidence = Evidence(
            design=design,
            blind=tuple(blind),
            dependences=dependences,
            folds=_fold_checks(design, fold_of, wells),
            features=features,
            testable=tuple(testable),
            skipped=skipped,
            confounding=_confounding(design),
            min_wells=min_wells,
            easier=len(easier),
            locked=_locked(design, fold_of, wells, run),
        )
        findings = evidence.findings()
        verdict = verdict_of(findings)
        return Audit(
            inputs=table_of(run, blocks),
            settings={
                **options.settings(),
                "min_wells": min_wells,
                "seed": run.seed,
                "bootstrap": BOOTSTRAP,
                "confounded_above": CONFOUNDED,
                "roles": dict(design.roles),
            },
            alerts=(*run.alerts, *_adapted(min_wells, adapts), *_alerts(design, readings, len(wells))),
            provenance=record_of(run, "audit"),
            design=summarise(design, blocks.d),
            dependences=dependences,
            blind=evidence.blind,
            confounding=evidence.confounding,
            folds=evidence.folds,
            features=features,
            findings=findings,
            skipped={name: reason.words for name, reason in skipped.items()},
            verdict=verdict,
            told=answer_of(verdict, findings, evidence),
        )


def evaluable_perturbations(design: Design, fold_of: Codes, min_wells: int) -> tuple[list[str], dict[str, Skipped]]:
    """Perturbations that can be judged on plates left out, and for each of the others why not."""
    treated = ~design.control
    wells = design.perturbation.count(treated)
    with_controls = design.plate.count(design.control) > 0
    beside = design.perturbation.count(treated & (with_controls[design.plate.codes] | ~design.control.any()))
    plates = design.perturbation.spread(design.plate, treated)
    parts = design.perturbation.spread(Labels.of(fold_of), treated)
    testable: list[str] = []
    skipped: dict[str, Skipped] = {}
    for k in np.flatnonzero(wells):
        name = design.perturbation.names[k]
        if wells[k] < min_wells:
            skipped[name] = Skipped("few_wells", f"{wells[k]} wells, fewer than {min_wells}")
        elif plates[k] < 2:
            skipped[name] = Skipped("one_plate", "on one plate only")
        elif parts[k] < 2:
            skipped[name] = Skipped("one_fold", "all plates in one fold")
        elif not beside[k]:
            skipped[name] = Skipped("controls_apart", "no controls on its plates")
        else:
            testable.append(name)
    return testable, skipped


def _blind_scores(design: Design, fold_of: Codes, wells: Mapping[str, Codes], run: Run) -> list[BlindScore]:
    """How well place alone predicts perturbations: each on its own, and all together where controls are on the same plate."""
    draws = _plate_draws(design, run.seed)
    with_controls = design.plate.count(design.control) > 0
    beside = ~design.control & with_controls[design.plate.codes]
    anything = {ANY: np.flatnonzero(beside if beside.any() else ~design.control)}
    each = dict(wells) or anything
    predicted = EACH if wells else ANY
    controls = bool(design.control.any())
    if not controls and not wells:
        return []  # there is nothing to tell any perturbation from
    scores = []
    if design.address is not None:
        by_position = _by_position(design, fold_of, draws)
        if controls:
            scores += [_blind_score("position", ANY, by_position, anything, run)]
        if wells:
            scores += [_blind_score("position", EACH, by_position, each, run)]
    if design.batch is not None and design.batch.size > 1:
        by_batch = BlindClassifier(design, design.batch, layout.count_score, fold_of, draws)
        scores.append(_blind_score("batch", predicted, by_batch, each, run))
    # A plate that was left out is new to the classifier: by name it could only guess. So nothing is held out here, and the
    # score of wells dealt to plates at random, which is above 0.5, stands beside it.
    by_plate = BlindClassifier(design, design.plate, layout.count_score, None, draws)
    chance = layout.plate_chance(design, list(each.values()), np.random.default_rng([run.seed, 79]))
    scores.append(_blind_score("plate", predicted, by_plate, each, run, chance=chance))
    if design.cell_count is not None:
        edges = np.unique(np.quantile(design.cell_count, np.linspace(0, 1, CELL_COUNT_BINS + 1)[1:-1]))
        binned = Labels.of(np.searchsorted(edges, design.cell_count, side="right"))
        by_count = BlindClassifier(design, binned, layout.count_score, fold_of, draws)
        scores.append(_blind_score("cell_count", predicted, by_count, each, run))
    return scores


def _plate_draws(design: Design, seed: int) -> Array:
    return plate_draws(design.plate.size, BOOTSTRAP, np.random.default_rng([seed, 73]))


def _by_position(design: Design, fold_of: Codes, draws: Array) -> BlindClassifier:
    return BlindClassifier(design, layout.addresses(design), layout.position_score(design), fold_of, draws)


def _locked(design: Design, fold_of: Codes, wells: Mapping[str, Codes], run: Run) -> dict[str, float]:
    """Perturbations that position alone tells, the most clearly told first: the low ends of their intervals, which hold all at
    once, above what is called confounded."""
    if design.address is None or not wells:
        return {}
    classifier = _by_position(design, fold_of, _plate_draws(design, run.seed))
    rows = list(wells.values())
    table = np.array(in_threads(classifier.auroc, rows, run, Stage("position, each")))
    spreads = np.array([_chance_spread(design, each) for each in rows])
    least = least_of_many(table, spreads, design.plate.size)
    told = [(name, float(values[0])) for name, values, low in zip(wells, table, least, strict=True) if low > CONFOUNDED]
    return dict(sorted(told, key=lambda pair: -pair[1]))


def _chance_spread(design: Design, rows: Codes) -> float:
    """Standard deviation of the AUROC of some rows if there were nothing to tell them by."""
    return null_spread(len(rows), int(design.control.sum()) or design.n - len(rows))


def _blind_score(
    features: str,
    predicts: str,
    classifier: BlindClassifier,
    wells: Mapping[str, Codes],
    run: Run,
    *,
    chance: float = 0.5,
) -> BlindScore:
    found = in_threads(classifier.auroc, list(wells.values()), run, Stage(f"{features} alone"))
    held_out = "plate" if classifier.held_out else "nothing"
    table = np.array(found)
    scored = ~np.isnan(table[:, 0])
    names = [name for name, kept in zip(wells, scored, strict=True) if kept]
    table = table[scored]
    if not names:
        return BlindScore(features, predicts, np.nan, (np.nan, np.nan), 0, held_out=held_out, chance=chance)
    mean = mean_of(table)
    chances = [_chance_spread(classifier.design, wells[name]) for name in names]
    spread = float(np.sqrt(np.square(chances).sum()) / len(names))
    worst = int(np.argmax(table[:, 0]))
    return BlindScore(
        features=features,
        predicts=predicts,
        auroc=float(mean[0]),
        ci95=interval(mean, classifier.plate.size, crossed=classifier.held_out, bounded=True, spread=spread),
        targets=len(names),
        worst=names[worst] if predicts == EACH else "",
        worst_auroc=float(table[worst, 0]),
        held_out=held_out,
        chance=chance,
    )


def _readings(blocks: Blocks, design: Design, folds: int, seed: int) -> list[tuple[Reading, BlindScore]]:
    """How well plate and batch are read from the embedding."""
    found: list[tuple[Reading, BlindScore]] = []
    kinds: tuple[tuple[Literal["plate", "batch"], str], ...] = (("plate", "well"), ("batch", "plate"))
    for what, held_out in kinds:
        rng = np.random.default_rng([seed, 83, len(found)])
        reading = read_classes(blocks, design, what, folds=folds, rng=rng)
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
            ci95=interval(
                np.append(known.mean(), drawn), max(known.size, 2), crossed=False, bounded=True, spread=reading.spread
            ),
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
        problem = problem if design.control.any() else ""
        missing = tuple(name for name, folds in folds_of.items() if k not in folds)
        checks.append(FoldCheck(k, len(np.unique(design.plate.codes[rows])), n, controls, missing, problem))
    return tuple(checks)


def _confounding(design: Design) -> float:
    """Association of batch and perturbation; NaN where there are not two batches."""
    if design.batch is None:
        return float("nan")
    return layout.cramers_v(design.batch, layout.with_controls_as_one(design))


def _adapted(min_wells: int, adapts: bool) -> list[Alert]:
    fewer = adapts and min_wells < USUAL_WELLS
    values = {"wells": min_wells, "usual": USUAL_WELLS, "level": "perturbation"}
    return [Alert("min_wells_adapted", values)] if fewer else []


def _alerts(design: Design, readings: Sequence[tuple[Reading, BlindScore]], testable: int) -> list[Alert]:
    alerts = []
    for reading, score in readings:
        plate, only = score.predicts == "plate", "control " if reading.controls_only else ""
        if reading.left:
            values = {"left": reading.left, "of": reading.of, "least": CLASS_ROWS, "kind": f"{only}well"}
            code = "plates_not_read" if plate else "batches_not_read"
            alerts.append(Alert(code, {"name": design.name, **values}))
        if reading.drawn:
            code = "plate_read_from_sample" if plate else "batch_read_from_sample"
            values = {"rows": reading.rows, "kind": f"{only}row", "groups": score.targets}
            alerts.append(Alert(code, {"name": design.name, **values}))
    if testable > layout.CONTRASTS:
        alerts.append(
            Alert("information_from_some", {"name": design.name, "perturbations": layout.CONTRASTS, "of": testable})
        )
    return alerts


# -- what an audit asks of the embedding itself: are its columns usable, and can the plate be read from it?


@dataclass(frozen=True, eq=False)
class Reading:
    """AUROC of each class against the rest on held-out units, and from how many rows."""

    names: tuple[str, ...]
    aurocs: Array
    rows: int
    controls_only: bool
    drawn: bool  # whether there are more rows of these classes
    left: int  # classes that are too small,
    of: int  # of so many

    @property
    def spread(self) -> float:
        """Standard deviation that the mean over classes would have by chance."""
        each = self.rows // len(self.names)
        return null_spread(each, self.rows - each) / float(np.sqrt(len(self.names)))


def check_features(blocks: Blocks, run: Run = PLAIN) -> FeatureCheck:
    """Constant and dependent columns, Gaussian marginals, rows that occur twice. Two passes, of which the first checks values."""
    moments = gather_moments([blocks], run)[0]
    energy = moments.energy
    varying = energy > 0
    scale = np.divide(np.sqrt(blocks.n), np.sqrt(energy), out=np.zeros(blocks.d), where=varying)
    start = partial(_Shape, moments.mean, scale)
    shape = fold([blocks], start, **run.how, stage=Stage("shape of columns"))
    kurtosis = shape.fourth[varying] / blocks.n - 3
    duplicates, pairs = _duplicates(blocks, np.concatenate(shape.hashes))
    return FeatureCheck(
        constant=int((~varying).sum()),
        rank=WhiteBasis.of(moments).rank,
        duplicate_rows=duplicates,
        duplicate_pairs=pairs,
        median_kurtosis=float(np.median(np.abs(kurtosis))) if kurtosis.size else None,
        gaussianised=_gaussianised(kurtosis, blocks.n, _free_columns(moments, scale)),
        n_over_d=blocks.n / blocks.d,
    )


class _Shape:
    """The statistic of fourth powers of standardised columns, and of a hash of every row."""

    def __init__(self, mean: Array, scale: Array):
        self.mean, self.scale = mean, scale
        self.fourth = np.zeros(len(mean))
        # Odd multipliers, the same in every strip; any odd ones work, since equal hashes are compared row by row before they are named.
        self.weights = np.random.default_rng(71).integers(0, 2**63, len(mean), dtype=np.uint64) * 2 + 1
        self.hashes: list[NDArray[np.uint64]] = []

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        values = np.array(rows[0], dtype=np.float64, order="C")
        values += 0.0  # -0.0 equals 0.0 and must hash alike
        bits = values.view(np.uint64)
        self.hashes.append(((bits ^ (bits >> np.uint64(29))) * self.weights).sum(axis=1, dtype=np.uint64))
        values -= self.mean
        values *= self.scale
        np.square(values, out=values)
        self.fourth += np.einsum("ij,ij->j", values, values)

    def merge(self, later: _Shape) -> None:
        self.fourth += later.fourth
        self.hashes += later.hashes


def _duplicates(blocks: Blocks, hashes: NDArray[np.uint64]) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Rows equal to an earlier row: how many, and the first few beside the row they repeat."""
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[group] != np.arange(len(hashes)))
    candidates = again[:NAMED_PAIRS]
    earlier = first[group[candidates]]
    equal = (blocks[candidates] == blocks[earlier]).all(axis=1) if candidates.size else np.zeros(0, dtype=bool)
    pairs = tuple((int(a), int(b)) for a, b, same in zip(earlier, candidates, equal, strict=True) if same)
    return int(again.size), pairs


def _free_columns(moments: Moments, scale: Array) -> float:
    """How many independent columns vary as much together: the participation ratio of the correlation's spectrum."""
    correlation = moments.scatter / moments.n * np.outer(scale, scale)
    squares = float((correlation**2).sum())
    return float(np.trace(correlation)) ** 2 / squares if squares else 1.0


def _gaussianised(kurtosis: Array, n: int, free: float) -> bool:
    """Whether columns cannot be told from Gaussian ones by kurtosis, or are all forced to one shape.

    Of n Gaussian values the excess kurtosis has standard error sqrt(24 / n); of independent such columns the median |kurtosis|
    is 0.67 of that, within 0.79 / sqrt(columns). A fixed limit would not do: a column that mixes many sources is near Gaussian
    too, and only its sampling error says how near is too near. Ranks turned into normal scores plate by plate leave a small
    negative kurtosis (-0.06 in 384 wells), but the same in every column, which no sample does.
    """
    if not kurtosis.size:
        return False
    error = float(np.sqrt(24 / n))
    near = float(np.median(np.abs(kurtosis))) < error * (HALF_NORMAL_MEDIAN + 2 * HALF_NORMAL_MEDIAN_SE / np.sqrt(free))
    low, middle, high = np.quantile(kurtosis, [0.25, 0.5, 0.75])
    forced = kurtosis.size >= 10 and high - low < ALIKE * error and -0.5 < middle < 0.1
    return bool(near or forced)


def read_classes(
    blocks: Blocks, design: Design, what: Literal["plate", "batch"], *, folds: int, rng: np.random.Generator
) -> Reading | None:
    """How well a linear classifier tells plates apart on held-out wells, or batches on held-out plates.

    Ours. Ridge regression on class membership, in a sample of rows. Controls only, where they are enough: plates with other
    perturbations differ for a good reason. None where there are not two classes to tell apart.
    """
    labels = design.plate if what == "plate" else design.batch
    if labels is None:
        return None
    known = np.flatnonzero(design.control)
    large = _large_enough(design, labels, what, known)
    controls_only = large.size > 1
    if not controls_only:
        known = np.arange(design.n)
        large = _large_enough(design, labels, what, known)
    if large.size < 2:
        return None
    rows = _sample(labels, large, known, rng)
    classes = labels.take(rows)
    units = Labels.of(np.arange(rows.size)) if what == "plate" else design.plate.take(rows)
    part = _parts(classes, units, folds, rng)
    with one_blas_thread():
        aurocs = _held_out_aurocs(blocks[rows].astype(np.float64), classes, part, folds)
    drawn = rows.size < int(np.isin(labels.codes[known], large).sum())
    return Reading(classes.names, aurocs, int(rows.size), controls_only, drawn, labels.size - large.size, labels.size)


def _large_enough(design: Design, labels: Labels, what: str, rows: Codes) -> Codes:
    """The classes with enough of the rows to learn from and to be held out."""
    counts = labels.count(rows)
    enough = counts >= CLASS_ROWS
    if what == "batch":  # one plate is left out, another must be there to learn from
        pairs = np.unique(np.stack([labels.codes[rows], design.plate.codes[rows]]), axis=1)[0]
        enough &= np.bincount(pairs, minlength=labels.size) >= 2
    return np.flatnonzero(enough)


def _sample(labels: Labels, classes: Codes, rows: Codes, rng: np.random.Generator) -> Codes:
    """At most `READ_ROWS` rows of `READ_CLASSES` classes."""
    classes = np.sort(rng.permutation(classes)[:READ_CLASSES])
    rows = rng.permutation(rows[np.isin(labels.codes[rows], classes)])
    taken = READ_ROWS // classes.size
    return np.sort(rows[_number_within(labels.codes[rows]) < taken])


def _parts(classes: Labels, units: Labels, folds: int, rng: np.random.Generator) -> Codes:
    """The fold of every row: units of each class are dealt out in random order."""
    pairs, codes = np.unique(np.stack([classes.codes, units.codes]), axis=1, return_inverse=True)
    order = rng.permutation(pairs.shape[1])
    number = np.empty(pairs.shape[1], dtype=np.intp)
    number[order] = _number_within(pairs[0][order])
    part: Codes = (number % folds)[codes.ravel()]
    return part


def _number_within(codes: Codes) -> Codes:
    """0, 1, 2 … within each code, in the order of rows."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    number = np.empty(len(codes), dtype=np.intp)
    number[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(np.append(starts, len(codes))))
    return number


def _held_out_aurocs(values: Array, classes: Labels, part: Codes, folds: int) -> Array:
    """One against the rest on the rows of each fold; the mean over folds weighted by the rows of the class."""
    total, weight = np.zeros(classes.size), np.zeros(classes.size)
    for k in range(folds):
        train, test = part != k, part == k
        if not test.any():
            continue
        scores = _ridge_scores(values[train], classes.codes[train], classes.size, values[test])
        ones = classes.count(test).astype(np.float64)
        known = classes.count(train) > 0
        pairs = ones * (test.sum() - ones)
        ranks = rankdata(scores, axis=0)
        sums = np.bincount(
            classes.codes[test], ranks[np.arange(len(ranks)), classes.codes[test]], minlength=classes.size
        )
        usable = (pairs > 0) & known
        area = np.divide(sums - ones * (ones + 1) / 2, pairs, out=np.zeros(classes.size), where=usable)
        total += area * ones * usable
        weight += ones * usable
    mean: Array = np.divide(total, weight, out=np.full(classes.size, np.nan), where=weight > 0)
    return mean


def _ridge_scores(train: Array, codes: Codes, size: int, test: Array) -> Array:
    mean, spread = train.mean(axis=0), train.std(axis=0)
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-12 * (np.abs(mean) + spread.max()))
    x, z = (train - mean) * scale, (test - mean) * scale
    members = np.eye(size)[codes]
    members -= members.mean(axis=0)
    penalty = RIDGE * len(x)
    if x.shape[1] <= len(x):
        coefficients = solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ members, assume_a="pos")
        scores: Array = z @ coefficients
    else:
        scores = z @ (x.T @ solve(x @ x.T + penalty * np.eye(len(x)), members, assume_a="pos"))
    return scores
