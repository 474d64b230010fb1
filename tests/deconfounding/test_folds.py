"""Folds of plates: whole, even, the same for the same seed; and what is said where they cannot be."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from deconfounding.short_calls import says
from errors import naming
from identifiable._checks import DataError, UsageError
from identifiable.deconfounding.design import Design, Labels
from identifiable.deconfounding.folds import (
    Contrast,
    Splits,
    choose_targets,
    cross_validation,
    null_contrasts,
    plate_folds,
    single_batches,
    target_contrast,
    usable,
)


def screen(
    plates: int = 20, controls: int = 6, targets: int = 3, per_batch: int = 4, seed: int = 0, batches: bool = True
) -> Design:
    """Plates with controls and one well of each target, in a random order of rows."""
    plate, treatment = [], []
    for p in range(plates):
        names = ["empty"] * controls + [f"guide {t}" for t in range(targets)]
        plate += [p] * len(names)
        treatment += names
    order = np.random.default_rng(seed).permutation(len(plate))
    plates_, wells = np.array(plate)[order], np.array(treatment)[order]
    return Design(
        Labels.of(plates_),
        Labels.of(wells),
        wells == "empty",
        batch=Labels.of(plates_ // per_batch) if batches else None,
    )


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("hold_out", ["plate", "batch"])
def test_groups_stay_whole_and_no_fold_is_empty(seed: int, hold_out: str) -> None:
    design = screen(seed=seed)
    fold = plate_folds(design, folds=4, hold_out=hold_out, seed=seed)  # type: ignore[arg-type]
    groups = design.plate if hold_out == "plate" else design.batch
    assert groups is not None
    assert all(len(set(fold[groups.codes == g])) == 1 for g in range(groups.size))
    assert sorted(set(fold)) == [0, 1, 2, 3]
    rows_alone = np.arange(design.n) % 4  # what would happen without groups: the check above can fail
    assert not all(len(set(rows_alone[groups.codes == g])) == 1 for g in range(groups.size))


def test_perturbations_are_spread_evenly_where_whole_plates_allow() -> None:
    """30 unequal plates, 12 perturbations on 10 of them each: every fold of 5 holds some of almost all (sum over seeds 0-4)."""
    empty, by_chance = 0, 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        plate, wells = [], []
        on = [set(rng.choice(30, 10, replace=False).tolist()) for _ in range(12)]
        for p in range(30):
            names = ["empty"] * int(rng.integers(4, 20)) + [f"g{t}" for t in range(12) if p in on[t]]
            plate += [p] * len(names)
            wells += names
        text = np.array(wells)
        design = Design(Labels.of(np.array(plate)), Labels.of(text), text == "empty")
        fold = plate_folds(design, seed=seed)
        chance = rng.permutation(30)[np.array(plate)] % 5
        for g in range(12):
            empty += int((np.bincount(fold[text == f"g{g}"], minlength=5) == 0).sum())
            by_chance += int((np.bincount(chance[text == f"g{g}"], minlength=5) == 0).sum())
        sizes = np.bincount(fold)
        assert sizes.max() < 1.5 * sizes.min()
    assert empty <= 3 < by_chance


def test_folds_follow_seed_and_plates_and_not_the_order_of_rows() -> None:
    design = screen(seed=1)
    fold = plate_folds(design, seed=7)
    order = np.random.default_rng(2).permutation(design.n)
    assert np.array_equal(plate_folds(design.take(order), seed=7), fold[order])
    assert not np.array_equal(plate_folds(design, seed=8), fold)


def test_too_few_plates_and_unknown_ways_to_hold_out_are_refused() -> None:
    with pytest.raises(DataError, match=naming("3 plates", "5 folds")):
        plate_folds(screen(plates=3))
    with pytest.raises(UsageError, match="--batch"):
        plate_folds(screen(batches=False), hold_out="batch")
    with pytest.raises(UsageError, match="hold_out 'well': "):
        plate_folds(screen(), hold_out="well")  # type: ignore[arg-type]
    for folds in (1, 2.5, True):
        with pytest.raises(UsageError, match=r"folds .* 2"):
            plate_folds(screen(), folds=folds)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="one plate "):
        cross_validation(screen(plates=1), "plate", 5, 0)


def test_degenerate_folds_are_named_for_each_target() -> None:
    design = screen(plates=4, targets=2)
    splits = Splits("plate", design.plate.codes, design.plate.names, design.plate)

    def problems_of(design: Design, name: str) -> Mapping[int, str]:
        return splits.problems(target_contrast(design, name, level="perturbation", against="controls"), "controls")

    assert problems_of(design, "guide 0") == {}
    rare = design.perturbation.text()
    rare[(rare == "guide 1") & (design.plate.codes > 0)] = "other"
    lopsided = Design(design.plate, Labels.of(rare), design.control)
    problems = problems_of(lopsided, "guide 1")
    assert set(problems) == {0, 1, 2, 3}
    assert problems[0] != problems[1] == problems[2]  # fold 0 holds all of its wells, the others none
    with pytest.raises(UsageError, match="guide 9"):
        problems_of(design, "guide 9")


def test_a_target_is_compared_with_controls_of_its_own_batches_only() -> None:
    design = screen(plates=8, targets=1, per_batch=4)
    wells = design.perturbation.text()
    assert design.batch is not None
    wells[(wells == "guide 0") & (design.batch.codes == 1)] = "absent"
    design = Design(design.plate, Labels.of(wells), design.control, batch=design.batch)
    contrast = target_contrast(design, "guide 0", level="perturbation", against="controls")
    assert design.batch is not None
    assert set(design.batch.codes[contrast.rows]) == {0}
    assert contrast.positive.sum() == 4
    without = Design(design.plate, design.perturbation, design.control)
    everywhere = target_contrast(without, "guide 0", level="perturbation", against="controls")
    assert len(everywhere.rows) == 4 + 8 * 6
    others = target_contrast(design, "guide 0", level="perturbation", against="others")
    assert not design.control[others.rows].any()


def test_null_guides_take_at_most_one_control_of_a_plate_and_a_quarter_in_all() -> None:
    design = screen(plates=200, controls=2)
    for guide in null_contrasts(design, 3, against="controls", seed=0):
        taken = guide.rows[guide.positive]
        assert design.control[guide.rows].all()
        assert np.bincount(design.plate.codes[taken]).max() == 1
        assert 0.15 < guide.positive.mean() < 0.35  # 2 controls: one of them with probability 1/2
    first, second = (g.positive for g in null_contrasts(design, 2, against="controls", seed=0))
    assert not np.array_equal(first, second)
    many = null_contrasts(screen(plates=50, controls=8), 1, against="controls", seed=0)[0]
    assert many.positive.sum() == 50


def test_targets_on_most_plates_are_chosen_and_others_counted() -> None:
    design = screen(plates=10, targets=5)
    wells = design.perturbation.text()
    wells[(wells == "guide 3") & (design.plate.codes > 6)] = "empty"
    design = Design(design.plate, Labels.of(wells), wells == "empty")
    chosen = choose_targets(design, None, level="perturbation", most=4, min_wells=5)
    assert chosen.names == ("guide 0", "guide 1", "guide 2", "guide 4")
    assert [a.code for a in chosen.alerts] == ["targets_left_out"]
    named = choose_targets(design, ["guide 3", "guide 0"], level="perturbation", most=1, min_wells=8)
    assert named.names == ("guide 0",)
    assert says(named.skipped["guide 3"], "7 wells", "8")
    with pytest.raises(DataError, match=r"50 wells; .*--min-wells"):
        choose_targets(design, None, level="perturbation", most=4, min_wells=50)
    with pytest.raises(DataError, match=naming("guide 3", "7 wells")):
        choose_targets(design, ["guide 3"], level="perturbation", most=4, min_wells=50)
    with pytest.raises(UsageError, match=r"level 'target' .*--target"):
        choose_targets(design, None, level="target", most=4, min_wells=5)


def test_single_batches_train_alone_and_small_ones_are_skipped_by_name() -> None:
    design = screen(plates=9, controls=15, targets=1, per_batch=4)  # batches of 64, 64 and 16 rows
    splits = single_batches(design)
    contrast = target_contrast(design, "guide 0", level="perturbation", against="controls")
    folds, skipped, _ = usable([contrast], splits, "controls")
    assert folds == {"guide 0": (0, 1)}
    assert list(skipped) == ["guide 0, 2"]
    assert says(skipped["guide 0, 2"], "16 rows", "60")
    test = splits.test(0, contrast.rows)
    assert design.batch is not None
    assert set(design.batch.codes[contrast.rows[~test]]) == {0}
    assert set(design.batch.codes[contrast.rows[test]]) == {1, 2}
    with pytest.raises(DataError, match=r"'single-batch' .* 1"):
        single_batches(screen(plates=4))


@pytest.mark.parametrize("hold_out", ["plate", "batch"])
def test_fewer_folds_than_asked_for_are_said_with_the_groups_there_are(hold_out: str) -> None:
    design = screen(plates=6, per_batch=2)  # 3 batches
    groups = {"plate": 6, "batch": 3}[hold_out]
    for asked in (2, groups, groups + 1, 10):
        splits, alerts = cross_validation(design, hold_out, asked, 0)  # type: ignore[arg-type]
        assert splits.count == len(set(splits.fold)) == min(asked, groups)
        said = {"name": design.name, "groups": groups, "level": hold_out, "asked": asked}
        assert [(a.code, a.values) for a in alerts] == ([("fewer_folds", said)] if asked > groups else [])


def test_folds_left_out_are_said_for_each_target_that_is_scored_without_them() -> None:
    design = screen(plates=6, targets=3)
    wells = design.perturbation.text()
    wells[(wells == "guide 1") & (design.plate.codes == 4)] = "other"  # not in one fold
    wells[(wells == "guide 2") & (design.plate.codes > 0)] = "other"  # in one fold only
    design = Design(design.plate, Labels.of(wells), design.control)
    splits = Splits("plate", design.plate.codes, tuple(f"fold {k}" for k in range(6)), design.plate)
    contrasts = [target_contrast(design, f"guide {t}", level="perturbation", against="controls") for t in range(3)]
    folds, skipped, alerts = usable(contrasts, splits, "controls")
    assert folds == {"guide 0": tuple(range(6)), "guide 1": (0, 1, 2, 3, 5)}
    assert list(skipped) == ["guide 2"]
    (alert,) = alerts
    assert (alert.code, alert.values["level"], list(alert.values["left_out"])) == (
        "folds_left_out",
        "plate",
        ["guide 1"],
    )
    (named,) = alert.values["left_out"]["guide 1"]
    assert says(named, "fold 4", "guide 1")
    assert usable([contrasts[0], contrasts[2]], splits, "controls")[2] == []
    null = [Contrast(c.name, c.rows, c.positive, null=True) for c in contrasts]
    assert usable(null, splits, "controls")[1:] == ({}, [])
