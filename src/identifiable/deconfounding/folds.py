"""Folds and contrasts: which rows are held out together, and which rows a classifier has to tell from which."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.deconfounding.checkpoint import fingerprint
from identifiable.deconfounding.design import Codes, Design, Labels, Mask, listed
from identifiable.results import Alert
from identifiable.results.evaluation import ALL, HeldOut

HoldOut = Literal["plate", "batch"]
HOLD_OUTS: tuple[HoldOut, ...] = ("plate", "batch")
Against = Literal["controls", "others"]
Level = Literal["perturbation", "compound", "target"]
NULL_GUIDES = "null guides"  # a score over all of them
NULL_GUIDE = "null guide"  # one of them, with its number
NULL_SHARE = 4  # a null guide takes at most one in so many of the controls of a plate
SINGLE_BATCH_ROWS = 60  # trees that need 30 rows in a leaf cannot split fewer
# Of p wells ranked against many others by chance, AUROC has standard deviation 1 / sqrt(12 p), and intervals reach about 2.9 of
# these (1.96, widened for crossed folds and few plates): of 20 wells 0.19, so that effects of interest (about 0.7, Nelson et al.
# 2026, Table 3) can be told from 0.5; of 6 wells 0.34, so that only AUROC above 0.84 can.
USUAL_WELLS, FEWEST_WELLS = 20, 6
# On 40 unequal plates with 30 perturbations on 8 each: 46 folds lack a perturbation, sizes differ by 1.25 (scikit-learn: 52, 1.26).
ALL_ROWS = 5.0


def held_out_groups(design: Design, hold_out: HoldOut) -> Labels:
    """What is held out whole: the plate of every row, or its batch."""
    if hold_out not in HOLD_OUTS:
        raise UsageError(f"hold_out {hold_out!r}: expected {' or '.join(HOLD_OUTS)}.")
    if hold_out == "plate":
        return design.plate
    if design.batch is None:
        raise UsageError(
            f"{design.name}: hold_out 'batch' needs a column that says which batch a plate belongs to, got none; name it (--batch)."
        )
    return design.batch


def plate_folds(design: Design, *, folds: int = 5, hold_out: HoldOut = "plate", seed: int = 0) -> NDArray[np.intp]:
    """The fold of every row; plates (or batches) whole, perturbations as even as whole plates allow.

    Ours, after the greedy rule of scikit-learn's StratifiedGroupKFold. Groups, the largest first and equals in an order drawn
    by `seed`, go each to the fold where the sum over perturbations and folds of (share of its rows in the fold)^2 grows least;
    controls and all rows count as two more perturbations, `ALL_ROWS` times each. A fold that is still empty costs nothing, so
    with as many groups as folds none stays empty. Folds that lack one of two classes are possible (a perturbation on one
    plate only) and are named by `Splits.problems`.

    >>> plates, wells = np.repeat(["p1", "p2", "p3", "p4"], 2), np.tile(["empty", "drug"], 4)
    >>> design = Design(Labels.of(plates), Labels.of(wells), wells == "empty")
    >>> plate_folds(design, folds=2).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1]
    """
    groups = held_out_groups(design, hold_out)
    if isinstance(folds, bool) or not isinstance(folds, (int, np.integer)) or folds < 2:
        raise UsageError(f"folds {folds!r}: expected a whole number of at least 2.")
    if groups.size < folds:
        raise DataError(
            f"{design.name}: {groups.size} {hold_out}{'' if groups.size == 1 else 's' if hold_out == 'plate' else 'es'} "
            f"cannot fill {folds} folds; pass at most {groups.size} folds, or hold out something finer."
        )
    counts, weights = _counts_of_groups(design, groups)
    rows = groups.counts
    shuffled = np.random.default_rng([seed, 11]).permutation(groups.size)
    order = shuffled[np.argsort(-rows[shuffled], kind="stable")]
    filled = np.zeros((folds, len(weights)))
    fold_of_group = np.empty(groups.size, dtype=np.intp)
    for g in order:
        columns, members = counts[g]
        # Of the sum of squares only the cross term depends on the fold: (a + m)^2 - a^2 = 2 a m + m^2.
        growth = filled[:, columns] @ (weights[columns] * members)
        fold_of_group[g] = _least(growth)
        filled[fold_of_group[g], columns] += members
    return fold_of_group[groups.codes]


def _least(growth: NDArray[np.float64]) -> int:
    """The first fold that grows least, sums that differ by rounding counted as equal."""
    return int(np.argmax(growth <= growth.min() + 1e-9 * max(1.0, abs(float(growth.min())))))


def _counts_of_groups(
    design: Design, groups: Labels
) -> tuple[list[tuple[NDArray[np.intp], NDArray[np.float64]]], NDArray[np.float64]]:
    """Of every group which classes it holds and how many rows of each; and the weight of every class.

    Kept sparse: 1,600 plates by 14,000 treatments would be a table of 180 MB.
    """
    classes = design.perturbation.size
    pairs, members = np.unique(groups.codes * classes + design.perturbation.codes, return_counts=True)
    controls = np.bincount(groups.codes, weights=design.control, minlength=groups.size)
    starts = np.searchsorted(pairs, np.arange(groups.size + 1) * classes)
    listed = []
    for g in range(groups.size):
        own = slice(starts[g], starts[g + 1])
        columns = np.append(pairs[own] - g * classes, [classes, classes + 1])
        listed.append((columns, np.append(members[own].astype(float), [controls[g], float(groups.counts[g])])))
    totals = np.append(design.perturbation.counts.astype(float), [controls.sum(), float(design.n)])
    weights = 1.0 / np.maximum(totals, 1.0) ** 2
    weights[classes:] *= ALL_ROWS
    return listed, weights


# -- contrasts


@dataclass(frozen=True, eq=False)
class Contrast:
    """Rows of the design, ascending, and which of them are positive. `null` ones are random controls called a guide."""

    name: str
    rows: Codes
    positive: Mask
    null: bool = False

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.rows, self.positive)


@dataclass(frozen=True, eq=False)
class Splits:
    """Training and test rows of every fold: test rows share no plate, or no batch, with training rows.

    `fold` numbers the part of every row of the design. In cross-validation a part is tested by a model of the others; a single
    batch (`one_trains`) trains and all the others are tested. `groups` are what intervals resample.
    """

    held_out: HeldOut
    fold: Codes
    names: tuple[str, ...]
    groups: Labels
    one_trains: bool = False

    @property
    def count(self) -> int:
        return len(self.names)

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.fold, np.array(self.one_trains))

    def test(self, k: int, rows: Codes) -> Mask:
        """Which of `rows` are tested in fold k."""
        inside: Mask = self.fold[rows] == k
        return ~inside if self.one_trains else inside

    def problems(self, contrast: Contrast, against: Against) -> Mapping[int, str]:
        """The folds in which a contrast cannot be scored, and why.

        A fold is scored if the rows held out and the rows left for training both hold the target and what it is told from.
        """
        fold = self.fold[contrast.rows]
        held = {
            f"wells of {contrast.name}": fold[contrast.positive],
            "controls" if against == "controls" else "wells of other perturbations": fold[~contrast.positive],
        }
        counts = {name: np.bincount(rows, minlength=self.count) for name, rows in held.items()}
        found = {}
        for k in range(self.count):
            missing = [f"it has no {name}" for name, count in counts.items() if count[k] == 0]
            missing += [f"all {name} are in it" for name, count in counts.items() if 0 < count[k] == count.sum()]
            if missing:
                found[k] = " and ".join(missing)
        if self.one_trains:
            sizes = np.bincount(fold, minlength=self.count)
            for k in np.flatnonzero(sizes < SINGLE_BATCH_ROWS).tolist():
                found[k] = f"it has {sizes[k]} rows, fewer than {SINGLE_BATCH_ROWS}"
        return found


def cross_validation(design: Design, hold_out: HoldOut, folds: int, seed: int) -> tuple[Splits, list[Alert]]:
    """Folds of plates or batches; fewer than asked for, with an alert, where there are fewer groups."""
    groups = held_out_groups(design, hold_out)
    if groups.size < 2:
        raise DataError(
            f"{design.name}: all rows are of one {hold_out} ({groups.names[0]}), so nothing can be held out; add another."
        )
    count = min(folds, groups.size)
    alerts = []
    if count < folds:
        alerts.append(Alert("fewer_folds", {"name": design.name, "groups": count, "level": hold_out, "asked": folds}))
    fold = plate_folds(design, folds=count, hold_out=hold_out, seed=seed)
    return Splits(hold_out, fold, tuple(f"fold {k}" for k in range(count)), groups), alerts


def single_batches(design: Design) -> Splits:
    """Every batch (plate, where batches are not known) trains once and is tested on all the others."""
    groups = design.plate if design.batch is None else design.batch
    if groups.size < 2:
        raise DataError(f"{design.name}: protocol 'single-batch' needs at least two batches, got {groups.size}.")
    return Splits("single-batch", groups.codes, groups.names, groups, one_trains=True)


# -- targets


def labels_at(design: Design, level: Level) -> Labels:
    """The perturbation of every row, or what its perturbation aims at."""
    if level == "perturbation":
        return design.perturbation
    if level == "compound":
        if design.compound is None:
            raise UsageError(
                f"{design.name}: level 'compound' joins the doses of a compound, and no dose is part of the perturbation; name both "
                "columns (--perturbation COMPOUND,DOSE, perturbation=), or use level 'perturbation'."
            )
        return design.compound
    if design.target is None:
        raise UsageError(
            f"{design.name}: level 'target' needs a column of targets, got none; name it (--target, target=)."
        )
    return design.target


def rows_of(design: Design, target: str, level: Level) -> Mask:
    """Which rows carry this perturbation, or perturbations of this target."""
    labels = labels_at(design, level)
    if target not in labels.names:
        raise UsageError(
            f"{design.name}: no row has the {level} {target!r}; the first of {labels.size}: {', '.join(labels.names[:3])}."
        )
    found: Mask = (labels.codes == labels.names.index(target)) & ~design.control
    return found


@dataclass(frozen=True)
class Chosen:
    """The targets to evaluate, of how many; `enough` have so many `wells`; why others are not, and what to say about it."""

    names: tuple[str, ...]
    of: int
    wells: int
    enough: int
    skipped: Mapping[str, str] = field(default_factory=dict)
    alerts: tuple[Alert, ...] = ()


def enough_wells(wells: NDArray[np.integer]) -> int:
    """Wells that a perturbation needs to be judged where nobody says how many; `wells` counts those of each.

    Ours. `USUAL_WELLS`; on small screens, where fewer than half of the perturbations have so many, the number that half of them
    have, but not less than `FEWEST_WELLS`.

    >>> enough_wells(np.array([30, 25, 4])), enough_wells(np.array([30, 9, 8, 4])), enough_wells(np.array([30, 2, 2]))
    (20, 9, 6)
    """
    counted = np.sort(wells[wells > 0])[::-1]
    half = int(counted[(len(counted) - 1) // 2]) if len(counted) else 0
    return min(USUAL_WELLS, max(half, FEWEST_WELLS))


def choose_targets(
    design: Design, asked: Sequence[str] | None, *, level: Level, most: int, min_wells: int | None
) -> Chosen:
    """The targets asked for, or those on most plates (then with most wells, then by name), with enough wells.

    `min_wells` None is `enough_wells`.
    """
    labels = labels_at(design, level)
    treated = ~design.control
    wells = labels.count(treated)
    named = np.array(labels.names) != ""
    of = int((named & (wells > 0)).sum())
    adapted = []
    if min_wells is None:
        min_wells = enough_wells(wells[named])
        if min_wells < USUAL_WELLS and asked is None:
            adapted = [Alert("min_wells_adapted", {"wells": min_wells, "usual": USUAL_WELLS, "level": level})]
    if asked is not None:
        skipped = {}
        for name in dict.fromkeys(asked):
            count = int(rows_of(design, name, level).sum())
            if count < min_wells:
                skipped[name] = f"{count} wells, fewer than {min_wells}" if count else "all its wells are controls"
        names = tuple(name for name in dict.fromkeys(asked) if name not in skipped)
        if not names:
            why = "; ".join(f"{name}: {reason}" for name, reason in skipped.items()) or "none was named"
            raise DataError(
                f"{design.name}: no target can be evaluated ({why}); ask for fewer wells (--min-wells, min_wells=) or name others."
            )
        _refuse_taken_names(design, names, level)
        return Chosen(names, of, min_wells, len(names), skipped)
    enough = np.flatnonzero((wells >= max(min_wells, 1)) & named)
    if not enough.size:
        top = int(wells.argmax())
        raise DataError(
            f"{design.name}: no {level} has {min_wells} wells; the largest, {labels.names[top]!r}, has {wells[top]}. Ask for fewer "
            "(--min-wells, min_wells=), join the doses of a compound (--level compound, level=), or pool perturbations by what they "
            "share (--level target)."
        )
    plates = labels.spread(design.plate, treated)
    ranked = sorted(enough.tolist(), key=lambda k: (-plates[k], -wells[k], labels.names[k]))[:most]
    alerts = adapted
    if len(enough) > most:
        alerts.append(
            Alert("targets_left_out", {"evaluated": most, "enough": len(enough), "level": level, "wells": min_wells})
        )
    names = tuple(labels.names[k] for k in ranked)
    _refuse_taken_names(design, names, level)
    return Chosen(names, of, min_wells, len(enough), {}, tuple(alerts))


def _refuse_taken_names(design: Design, names: Sequence[str], level: Level) -> None:
    """Scores of targets, of all of them and of null guides stand in one column, so a target may not be called like these."""
    for name in names:
        if name in (ALL, NULL_GUIDES) or re.fullmatch(rf"{NULL_GUIDE} \d+", name):
            raise DataError(
                f"{design.name}: the {level} {name!r} ({int(rows_of(design, name, level).sum())} wells) has a name that results use "
                "for means and null guides; rename it in the table."
            )


def target_contrast(design: Design, name: str, *, level: Level, against: Against) -> Contrast:
    """A target against controls, or against other perturbations on its plates.

    Controls are those of the batches in which the target occurs (of all plates, where batches are not known): a control from
    an experiment without the target would be told by its experiment. Others exclude perturbations of the same target.
    """
    positive = rows_of(design, name, level)
    if against == "controls":
        negative = design.control.copy()
        if design.batch is not None:
            negative &= _where(design.batch, positive)
    else:
        negative = ~design.control & ~positive & _where(design.plate, positive)
        if level != "target" and design.target is not None:
            negative &= ~_where(design.target, positive)
    rows = np.flatnonzero(positive | negative)
    return Contrast(name, rows, positive[rows])


def _where(labels: Labels, rows: Mask) -> Mask:
    """All rows whose label occurs among `rows`."""
    found = np.zeros(labels.size, dtype=np.bool_)
    found[labels.codes[rows]] = True
    return found[labels.codes]


def null_contrasts(design: Design, count: int, *, against: Against, seed: int) -> list[Contrast]:
    """Null guides: on every plate one of the wells that targets are told from, drawn at random, called a guide.

    Ours. What a classifier makes of them is chance, and whatever else makes wells of one plate differ. They are taken out of
    the wells they are compared with. A plate with fewer than `NULL_SHARE` such wells gives one with probability
    wells / `NULL_SHARE`, so that no plate loses more than that share on average.
    """
    pool = np.flatnonzero(design.control if against == "controls" else ~design.control)
    plate = design.plate.codes[pool]
    held = np.bincount(plate, minlength=design.plate.size)
    made = []
    for g in range(count):
        rng = np.random.default_rng([seed, 41, g])
        order = rng.permutation(len(pool))
        first = np.unique(plate[order], return_index=True)[1]
        drawn = order[first]
        kept = rng.random(len(drawn)) < held[plate[drawn]] / NULL_SHARE
        positive = np.zeros(len(pool), dtype=np.bool_)
        positive[drawn[kept]] = True
        made.append(Contrast(f"{NULL_GUIDE} {g + 1}", pool, positive, null=True))
    return made


def usable(
    contrasts: Sequence[Contrast], splits: Splits, against: Against
) -> tuple[dict[str, tuple[int, ...]], dict[str, str], list[Alert]]:
    """Of every contrast the folds it can be scored in; those that have too few, and why; alerts about folds left out."""
    folds: dict[str, tuple[int, ...]] = {}
    skipped: dict[str, str] = {}
    left_out: dict[str, list[str]] = {}
    for contrast in contrasts:
        problems = splits.problems(contrast, against)
        good = tuple(k for k in range(splits.count) if k not in problems)
        named = [f"{splits.names[k]}: {why}" for k, why in problems.items()]
        enough = len(good) >= (1 if splits.one_trains else 2)
        if enough:
            folds[contrast.name] = good
        if contrast.null:
            continue
        if not enough:
            skipped[contrast.name] = f"{splits.held_out} held out: {listed(named)}"
        elif splits.one_trains:
            skipped.update({f"{contrast.name}, {splits.names[k]}": why for k, why in problems.items()})
        elif named:
            left_out[contrast.name] = named
    alerts = [Alert("folds_left_out", {"level": splits.held_out, "left_out": left_out})] if left_out else []
    return folds, skipped, alerts
