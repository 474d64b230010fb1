"""Folds: which rows are held out together. Plates (or batches) stay whole, perturbations are spread evenly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.deconfounding.design import Design, Labels

HoldOut = Literal["plate", "batch"]
HOLD_OUTS: tuple[HoldOut, ...] = ("plate", "batch")
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
    plate only) and are named by `fold_problems`.

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


def fold_problems(
    design: Design,
    fold_of_row: NDArray[np.intp],
    target: str,
    *,
    against: Literal["controls", "others"] = "controls",
    level: Literal["perturbation", "target"] = "perturbation",
) -> Mapping[int, str]:
    """For one target, the folds that cannot be scored and why; empty where all can.

    A fold is scored if the rows held out and the rows left for training both hold the target and what it is told from.
    """
    positive = rows_of(design, target, level)
    negative = design.control & ~positive if against == "controls" else ~design.control & ~positive
    return class_problems(fold_of_row, positive, negative, target, against)


def rows_of(design: Design, target: str, level: Literal["perturbation", "target"]) -> NDArray[np.bool_]:
    """Which rows carry this perturbation, or perturbations of this target."""
    labels = design.perturbation if level == "perturbation" else design.target
    if labels is None:
        raise UsageError(f"{design.name}: level 'target' needs a column of targets, got none; name it (--target).")
    if target not in labels.names:
        raise UsageError(
            f"{design.name}: no row has the {level} {target!r}; the first of {labels.size}: {', '.join(labels.names[:3])}."
        )
    found: NDArray[np.bool_] = (labels.codes == labels.names.index(target)) & ~design.control
    return found


def class_problems(
    fold_of_row: NDArray[np.intp],
    positive: NDArray[np.bool_],
    negative: NDArray[np.bool_],
    target: str,
    against: str = "controls",
    *,
    folds: int | None = None,
) -> Mapping[int, str]:
    """`fold_problems` of two sets of rows; `folds` where the last of them may have no row here."""
    folds = int(fold_of_row.max()) + 1 if folds is None else folds
    held = [np.bincount(fold_of_row[mask], minlength=folds) for mask in (positive, negative)]
    names = (f"wells of {target}", "controls" if against == "controls" else "wells of other perturbations")
    found = {}
    for k in range(folds):
        missing = [f"it has no {name}" for name, count in zip(names, held, strict=True) if count[k] == 0]
        missing += [
            f"all {name} are in it" for name, count in zip(names, held, strict=True) if 0 < count[k] == count.sum()
        ]
        if missing:
            found[k] = " and ".join(missing)
    return found
