"""Corrections of batch effects: equal to their reference libraries, sound where a plate is degenerate, honest about new plates."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import fractional_matrix_power

from deconfounding.short_calls import fit_correction, says
from identifiable import deconfound
from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.deconfounding.corrections import harmony, streaming
from identifiable.deconfounding.corrections.harmony import harmonise, subtract_shifts
from identifiable.deconfounding.corrections.registry import CORRECTIONS, Correction
from identifiable.deconfounding.corrections.streaming import EPSILON_GRID, Spectrum
from identifiable.deconfounding.design import Design, Labels
from identifiable.deconfounding.metrics.retrieval import Retrieval
from identifiable.groups import AffineMap, haar_rotation
from identifiable.run import Run

Matrix = NDArray[np.float64]
REFERENCE = json.loads((Path(__file__).parents[2] / "reference" / "corrections.json").read_text(encoding="utf-8"))
SHARED = Path("/work/shared/data")
BY_CONTROLS = ("control-z", "control-mad", "tvn", "pca-cs", "rand-cs")
PLATES, WELLS, CONTROLS, WIDTH = 8, 24, 10, 4


def design_of(plate: Any, control: Any, **roles: Any) -> Design:
    control = np.asarray(control, dtype=bool)
    treatment = roles.pop("perturbation", None)
    if treatment is None:
        treatment = np.where(control, "none", np.char.add("t", (np.arange(len(control)) % 5).astype(str)))
    if "batch" in roles:
        roles["batch"] = Labels.of(np.asarray(roles["batch"]))
    return Design(plate=Labels.of(np.asarray(plate)), perturbation=Labels.of(treatment), control=control, **roles)


def screen(seed: int = 0, *, width: int = WIDTH, **changed: Any) -> tuple[Matrix, Design]:
    """Eight plates in four batches, each plate shifted and stretched; ten controls and fourteen treated wells on each."""
    rng = np.random.default_rng(seed)
    plate, well = np.repeat(np.arange(PLATES), WELLS), np.tile(np.arange(WELLS), PLATES)
    count = rng.integers(20, 400, len(plate)).astype(float)
    X = rng.laplace(size=(len(plate), width)) @ rng.standard_normal((width, width))
    X = X * np.exp(0.4 * rng.standard_normal((PLATES, width)))[plate] + 3 * rng.standard_normal((PLATES, width))[plate]
    roles = {"batch": [f"b{k // 2}" for k in plate], "row": well // 6, "column": well % 6, "cell_count": count}
    return X, design_of([f"p{k}" for k in plate], well < CONTROLS, **{**roles, **changed})


def everywhere(name: str, X: Matrix, design: Design, **settings: Any) -> Matrix:
    return fit_correction(name, Blocks(X), design, **settings).apply(X, np.arange(len(X)))


def codes_of(correction: Correction) -> set[str]:
    return {a.code for a in correction.alerts}


def values_of(correction: Correction, code: str) -> Any:
    return next(alert.values for alert in correction.alerts if alert.code == code)


def message_of(correction: Correction, code: str) -> str:
    return next(a.message for a in correction.alerts if a.code == code)


def reference_screen(stored: Any = REFERENCE) -> tuple[Matrix, Design]:
    table = {name: np.array(column) for name, column in stored["design"].items()}
    return np.array(stored["thousandths"]) / 1000, design_of(
        table["plate"],
        table["treatment"] == "control",
        perturbation=table["treatment"],
        batch=table["batch"],
        row=table["well"] // 4,
        column=table["well"] % 4,
        cell_count=table["count"].astype(float),
    )


# Reference libraries


@pytest.mark.parametrize(
    ("name", "level"),
    [
        *((name, "auto") for name in ("control-z", "control-mad", "tvn", "pca-cs", "combat")),
        *((name, "batch") for name in ("control-z", "control-mad")),
        *((name, "auto") for name in ("position-subtracted", "count-regressed")),
    ],
)
def test_a_correction_matches_its_library(name: str, level: str) -> None:
    X, design = reference_screen()
    expected = np.array(REFERENCE["values"][name if level == "auto" else f"{name}, {level}"])
    found = everywhere(name, X, design, level=level)
    if name == "pca-cs":  # a principal axis has no sign
        found = found * np.sign((found * expected).sum(axis=0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)
    assert np.abs(X - expected).max() > 0.1
    if level == "batch":
        assert np.abs(everywhere(name, X, design) - expected).max() > 0.1


@pytest.mark.parametrize("name", ["control-z", "tvn", "combat"])
def test_it_does_so_with_fewer_controls_than_columns(name: str) -> None:
    X, design = reference_screen(REFERENCE["wide"])
    assert design.control.sum() < X.shape[1]
    expected = np.array(REFERENCE["wide"]["values"]["control-z, batch" if name == "control-z" else name])
    found = everywhere(name, X, design, level="batch")
    if name == "tvn":
        found = found * np.sign((found * expected).sum(axis=0))
        assert np.abs(everywhere(name, X, design, level="plate") - expected).max() > 0.1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_sphering_matches_pycytominer_where_the_controls_vary_and_is_zero_elsewhere() -> None:
    X, design = reference_screen(REFERENCE["wide"])
    expected = np.array(REFERENCE["wide"]["values"]["ZCA-cor, epsilon 2"])
    controls = X[design.control]
    axes = np.linalg.svd((controls - controls.mean(axis=0)) / controls.std(axis=0))[2][: len(controls) - 1]
    found = everywhere("sphering", X, design, epsilon=2 / np.sqrt(len(controls) - 1))
    np.testing.assert_allclose(found, expected @ axes.T @ axes, atol=1e-7)
    np.testing.assert_allclose(found @ axes.T @ axes, found, atol=1e-9)
    assert np.abs(expected - expected @ axes.T @ axes).max() > 0.1  # theirs: as along the least axis of the controls


def test_tvn_of_the_released_efaar_is_still_there() -> None:
    X, design = reference_screen()
    expected = np.array(REFERENCE["values"]["tvn, efaar 1.0"])
    np.testing.assert_allclose(everywhere("tvn", X, design, tvn="efaar-1.0"), expected, rtol=0, atol=1e-7)
    assert np.abs(everywhere("tvn", X, design) - expected).max() > 0.1


@pytest.mark.parametrize("method", ["ZCA-cor", "ZCA"])
@pytest.mark.parametrize("epsilon", ["1e-06", "2"])
def test_sphering_matches_pycytominer(method: Any, epsilon: str) -> None:
    X, design = reference_screen()
    expected = np.array(REFERENCE["values"][f"{method}, epsilon {epsilon}"])
    own = float(epsilon) / np.sqrt(design.control.sum() - 1)  # theirs is added to singular values
    np.testing.assert_allclose(everywhere("sphering", X, design, sphering=method, epsilon=own), expected, atol=1e-7)
    assert np.abs(everywhere("sphering", X, design, sphering=method, epsilon=own + 0.1) - expected).max() > 1e-3


def harmony_case(name: str) -> tuple[Matrix, Any, list[Matrix], dict[str, Any]]:
    frozen = REFERENCE["harmony"][name]
    runs = [np.array(run) for run in frozen["corrected"]]
    return np.array(frozen["thousandths"]) / 1000, np.array(frozen["batch"]), runs, frozen


@pytest.mark.parametrize("case", ["separate", "unequal", "unequal, ten iterations"])
def test_the_ridge_step_of_harmony_matches_harmonypy_given_its_clusters(case: str) -> None:
    Z, batch, runs, frozen = harmony_case(case)
    R, order = np.array(frozen["shares"]), np.argsort(batch, kind="stable")
    expected = np.outer(np.bincount(batch) / len(batch), R.sum(axis=0))
    found = subtract_shifts(Z[order], batch[order], R[order], expected)
    np.testing.assert_allclose(found, runs[0][order], rtol=0, atol=5e-6)  # harmonypy works in float32
    assert np.abs(subtract_shifts(Z[order], batch[order], R[order], 2 * expected) - runs[0][order]).max() > 1e-2


def relative_gap(found: Matrix, run: Matrix, Z: Matrix) -> float:
    """Of the distance a run moved the rows."""
    return float(np.linalg.norm(found - run) / np.linalg.norm(run - Z))


@pytest.mark.parametrize("seed", [0])
@pytest.mark.parametrize("case", ["separate", "unequal", "unequal, ten iterations"])
def test_harmony_is_as_near_to_harmonypy_as_that_is_to_itself(
    case: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Z, batch, runs, frozen = harmony_case(case)
    if "ten" in case:
        monkeypatch.setattr(harmony, "TOLERANCE", -np.inf)
    found = harmonise(Z, batch, clusters=frozen["clusters"], run=Run(seed))
    assert min(relative_gap(found.rows, run, Z) for run in runs) < 1e-3
    assert len(found.objective) - 1 in frozen["iterations"]
    monkeypatch.setattr(harmony, "DIVERSITY", 0.0)
    blind = harmonise(Z, batch, clusters=frozen["clusters"], run=Run(seed))
    if case == "unequal":  # without the penalty the clusters follow the batches
        assert min(relative_gap(blind.rows, run, Z) for run in runs) > 5e-3


# Control scaling


def test_ica_cs_is_control_scaling_of_the_components_given() -> None:
    X, design = screen()
    turn = AffineMap(haar_rotation(WIDTH, np.random.default_rng(3)), np.ones(WIDTH))
    np.testing.assert_allclose(
        everywhere("ica-cs", X, design, ica_map=turn),
        everywhere("control-z", turn(X), design, level="batch"),
        atol=1e-12,
    )
    assert np.abs(everywhere("ica-cs", X, design, ica_map=turn) - everywhere("pca-cs", X, design)).max() > 0.1


def test_rand_cs_turns_by_its_seed_and_keeps_the_given_whitening() -> None:
    X, design = screen()
    first, again, other = (everywhere("rand-cs", X, design, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1
    white = AffineMap(2 * np.eye(WIDTH), np.zeros(WIDTH))
    given = fit_correction("pca-cs", Blocks(X), design, whitener_map=white)
    np.testing.assert_allclose(
        given.apply(X, np.arange(len(X))), everywhere("control-z", X, design, level="batch"), atol=1e-12
    )
    assert "white_as_given" in [note.code for note in given.notes]


# Plates that were not fitted


@pytest.mark.parametrize("name", ["control-z", "control-mad"])
def test_an_unseen_plate_is_scaled_by_its_own_controls_and_not_by_its_treatments(name: str) -> None:
    X, design = screen()
    unseen = design.plate.codes == 3
    train, test = np.flatnonzero(~unseen), np.flatnonzero(unseen)
    correction = fit_correction(name, Blocks(X), design, rows=train)
    np.testing.assert_allclose(correction.apply(X[test], test), everywhere(name, X, design)[test], atol=1e-12)
    assert (correction.unseen, correction.transductive) == ("needs its controls", False)
    assert any(n.code == "own_controls" and n.values["groups"] == 1 for n in correction.notes)
    treated, controls = X.copy(), X.copy()
    treated[unseen & ~design.control] += 100
    controls[unseen & design.control] += 100
    kept = fit_correction(name, Blocks(treated), design, rows=train).apply(X[test], test)
    moved = fit_correction(name, Blocks(controls), design, rows=train).apply(X[test], test)
    np.testing.assert_array_equal(kept, correction.apply(X[test], test))
    assert np.abs(moved - kept).max() > 1


@pytest.mark.parametrize(
    ("name", "level", "unseen", "values"),
    [
        ("control-z", "plate", None, {"controls": 80, "groups": 8, "level": "plate"}),
        ("control-z", "batch", None, {"controls": 80, "groups": 4, "level": "batch"}),
        ("control-mad", "plate", 3, {"controls": 80, "groups": 8, "level": "plate"}),  # with those of the plate itself
        ("control-mad", "batch", 3, {"controls": 70, "groups": 4, "level": "batch"}),
        ("sphering", "auto", None, None),
        ("count-regressed", "auto", None, None),
        ("combat", "auto", None, None),
    ],
)
def test_a_scaling_by_controls_says_how_many_it_was_measured_on(
    name: str, level: Any, unseen: Any, values: Any
) -> None:
    X, design = screen()
    rows = None if unseen is None else np.flatnonzero(design.plate.codes != unseen)
    correction = fit_correction(name, Blocks(X), design, rows=rows, level=level)
    found = [note.values for note in correction.notes if note.code == "measured_on_controls"]
    assert found == ([] if values is None else [values])
    own = unseen is not None and level == "plate"
    assert ("own_controls" in [note.code for note in correction.notes]) == own


def test_a_batch_with_fitted_controls_ignores_those_of_its_held_out_plate() -> None:
    X, design = screen()
    unseen = design.plate.codes == 3  # its batch has another plate
    spoiled = X.copy()
    spoiled[unseen] += 100
    for name in BY_CONTROLS:
        rows = np.flatnonzero(~unseen)
        clean, dirty = (
            fit_correction(name, Blocks(x), design, rows=rows, level="batch").apply(X, np.arange(len(X)))
            for x in (X, spoiled)
        )
        np.testing.assert_array_equal(clean, dirty)
        assert (
            np.abs(everywhere(name, spoiled, design, level="batch") - everywhere(name, X, design, level="batch")).max()
            > 0.1
        )


@pytest.mark.parametrize("name", ["sphering", "position-subtracted", "count-regressed"])
def test_corrections_for_any_plate_do_not_look_at_the_unseen_one(name: str) -> None:
    X, design = screen()
    unseen = design.plate.codes == 3
    spoiled = X.copy()
    spoiled[unseen] *= -7
    rows, test = np.flatnonzero(~unseen), np.flatnonzero(unseen)
    clean, dirty = (fit_correction(name, Blocks(x), design, rows=rows).apply(X[test], test) for x in (X, spoiled))
    np.testing.assert_array_equal(clean, dirty)
    assert CORRECTIONS[name].unseen == "yes"
    assert np.abs(fit_correction(name, Blocks(spoiled), design).apply(X[test], test) - clean).max() > 1e-3


@pytest.mark.parametrize("name", ["combat", "harmony"])
def test_transductive_corrections_refuse_a_plate_they_were_not_fitted_to(name: str) -> None:
    X, design = screen()
    unseen = np.isin(design.plate.codes, [2, 3])  # the whole of batch b1
    correction = fit_correction(name, Blocks(X), design, rows=np.flatnonzero(~unseen))
    assert correction.apply(X[~unseen], np.flatnonzero(~unseen)).shape == (6 * WELLS, correction.width)
    with pytest.raises(DataError, match=r"2 plates \(p2, p3\)"):
        correction.apply(X, np.arange(len(X)))
    whole = fit_correction(name, Blocks(X), design)
    assert whole.transductive
    assert not correction.transductive
    assert np.isfinite(whole.apply(X, np.arange(len(X)))).all()


# Degenerate groups


@pytest.mark.parametrize("name", BY_CONTROLS)
def test_a_group_with_one_control_takes_its_spread_from_the_others(name: str) -> None:
    X, design = screen()
    control = design.control.copy()
    control[np.flatnonzero(design.plate.codes == 2)[1:]] = False
    correction = fit_correction(name, Blocks(X), replace(design, control=control), level="plate")
    assert values_of(correction, "one_control") == {"groups": 1, "level": "plate", "names": ["p2"]}
    done = correction.apply(X, np.arange(len(X)))
    assert np.abs(done).max() < 100
    if name == "control-z":
        np.testing.assert_allclose(done[control & (design.plate.codes == 2)], 0, atol=1e-12)
    assert "one_control" not in codes_of(fit_correction(name, Blocks(X), design, level="plate"))


@pytest.mark.parametrize("name", BY_CONTROLS)
def test_a_group_without_controls_is_said_and_stays_finite(name: str) -> None:
    X, design = screen()
    bare = replace(design, control=design.control & (design.plate.codes != 5))
    correction = fit_correction(name, Blocks(X), bare, level="plate")
    assert values_of(correction, "groups_without_controls") == {"groups": 1, "level": "plate", "names": ["p5"]}
    assert np.abs(correction.apply(X, np.arange(len(X)))).max() < 1000
    with pytest.raises(DataError, match=rf"{name} .* controls, .* screen"):
        fit_correction(name, Blocks(X), replace(design, control=np.zeros(len(X), bool)))


@pytest.mark.parametrize(
    "name", ["control-z", "control-mad", "pca-cs", "rand-cs", "tvn", "sphering", "combat", "harmony"]
)
def test_a_constant_column_gives_no_nan(name: str) -> None:
    X, design = screen()
    X[:, 1] = 0.1 + 1e3  # its mean is not exact in binary
    done = everywhere(name, X, design, level="auto" if name in ("combat", "harmony") else "plate")
    assert np.isfinite(done).all()
    assert np.abs(done).max() < 1e4


def test_columns_without_spread_are_named() -> None:
    X, design = screen()
    X[:, 1] = 7
    X[design.plate.codes == 4, 2] = 5
    for name in ("control-z", "control-mad"):
        correction = fit_correction(name, Blocks(X), design)
        assert values_of(correction, "constant_on_controls") == {"columns": 1, "level": "plate", "first": 1}
        assert values_of(correction, "zero_spread")["names"] == ["p4"]
        done = correction.apply(X, np.arange(len(X)))
        assert (done[:, 1] == 0).all()
        assert (done[design.plate.codes == 4, 2] == 0).all()
    assert not fit_correction("control-z", Blocks(screen()[0]), design).alerts


def test_the_spread_and_centre_that_stand_in_are_those_of_the_other_controls() -> None:
    X, design = screen()
    plate, control = design.plate.codes, design.control & (design.plate.codes != 5)
    X[control & (plate == 4), 2] = 5.0
    done = everywhere("control-z", X, replace(design, control=control))
    others = [X[control & (plate == k)] for k in range(PLATES) if k != 5]
    pooled = np.sqrt(np.mean([rows.var(axis=0) for rows in others], axis=0))  # ten controls on each
    np.testing.assert_allclose(done[plate == 5], (X[plate == 5] - X[control].mean(axis=0)) / pooled, atol=1e-10)
    np.testing.assert_allclose(done[plate == 4, 2], (X[plate == 4, 2] - 5) / pooled[2], atol=1e-10)
    assert np.abs(done[plate == 4, 2]).max() > 0.1
    robust = everywhere("control-mad", X, replace(design, control=control))
    centres = np.array([np.median(rows, axis=0) for rows in others])
    mads = np.array([1.4826 * np.median(np.abs(rows - c), axis=0) for rows, c in zip(others, centres, strict=True)])
    expected = (X[plate == 5] - np.median(centres, axis=0)) / np.median(mads, axis=0)
    np.testing.assert_allclose(robust[plate == 5], expected, atol=1e-10)


# Sphering and TVN


@pytest.mark.parametrize("method", ["ZCA-cor", "ZCA"])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_sphered_controls_have_the_identity_as_covariance(method: Any, offset: float) -> None:
    X, design = screen()
    X += offset  # pycytominer before 1.7.1 decomposed rows that were not centred
    covariance = np.cov(everywhere("sphering", X, design, sphering=method, epsilon=0.0)[design.control], rowvar=False)
    np.testing.assert_allclose(covariance, np.eye(WIDTH), atol=1e-7)
    assert np.abs(np.cov(X[design.control], rowvar=False) - np.eye(WIDTH)).max() > 0.1
    ridged = np.cov(everywhere("sphering", X, design, sphering=method, epsilon=0.5)[design.control], rowvar=False)
    assert np.linalg.eigvalsh(ridged).max() < 0.9


@pytest.mark.parametrize("name", ["sphering", "tvn"])
def test_directions_without_variance_on_controls_are_dropped_and_said(name: str) -> None:
    X, design = screen(width=6)
    X[:, 5] = X[:, 0] - X[:, 1]
    correction = fit_correction(name, Blocks(X), design, epsilon=0.01)
    assert says(message_of(correction, "null_directions"), "80 controls", "5 of 6", "1 direction ")
    assert correction.width == (6 if name == "sphering" else 5)
    done = correction.apply(X, np.arange(len(X)))
    assert np.linalg.matrix_rank(done) == 5
    assert np.abs(done).max() < 100
    assert "null_directions" not in codes_of(fit_correction(name, Blocks(screen()[0]), design))
    few = fit_correction(name, Blocks(X), replace(design, control=np.arange(len(X)) < 4), epsilon=0.01)
    assert says(message_of(few, "null_directions"), "4 controls", "3 of 6")
    with pytest.raises(DataError, match="80 controls"):
        fit_correction(name, Blocks(np.where(design.control[:, None], 1.0, X)), design)
    with pytest.raises(DataError, match=r"192 rows .* 1;"):
        fit_correction(name, Blocks(X), replace(design, control=np.arange(len(X)) == 0))


def test_epsilon_is_chosen_by_the_score_and_the_larger_of_equals() -> None:
    X, design = screen()

    def spread(correction: Correction) -> float:
        return -abs(float(correction.apply(X, np.arange(len(X)))[design.control].var()) - 0.5)

    chosen = fit_correction("sphering", Blocks(X), design, score=spread)
    best = max(spread(fit_correction("sphering", Blocks(X), design, epsilon=e)) for e in EPSILON_GRID)
    assert spread(chosen) == best > spread(fit_correction("sphering", Blocks(X), design))
    assert chosen.notes[-1].values == {"of": 25}
    equal = fit_correction("sphering", Blocks(X), design, score=lambda c: 0.0)
    assert equal.notes[0].values["epsilon"] == pytest.approx(EPSILON_GRID[-1])
    with pytest.raises(DataError, match="25 values"):
        fit_correction("sphering", Blocks(X), design, score=lambda c: float("nan"))


@pytest.mark.parametrize("rows", [3, 40])
def test_recolouring_is_the_inverse_root_of_the_ridged_covariance(rows: int) -> None:
    rng = np.random.default_rng(5)
    controls, X = rng.standard_normal((rows, 7)), rng.standard_normal((9, 7))
    root = fractional_matrix_power(np.cov(controls, rowvar=False) + 0.5 * np.eye(7), -0.5)
    own = Spectrum.of(controls)
    np.testing.assert_allclose(own.decorrelated(X, 0.5), X @ root, atol=1e-10)
    assert np.abs(own.decorrelated(X, 0.6) - X @ root).max() > 1e-3
    np.testing.assert_allclose(own.scatter, (rows - 1) * np.cov(controls, rowvar=False), atol=1e-10)


def readable(X: Matrix, labels: Any, apart: Any) -> float:
    """Share of rows whose nearest neighbour among rows of other plates has their label."""
    distance = ((X[:, None] - X) ** 2).sum(axis=2)
    distance[apart[:, None] == apart] = np.inf
    return float((labels[distance.argmin(axis=1)] == labels).mean())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shift", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("width", [20, 200])
def test_tvn_does_not_make_the_batch_more_readable_from_controls(width: int, shift: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    plate = np.repeat(np.arange(16), 12)  # four plates a batch
    batch, control = plate // 4, np.tile(np.arange(12) < 6, 16)  # 96 controls
    X = rng.standard_normal((len(plate), width)) + shift * rng.standard_normal((4, width))[batch]
    design = design_of([f"p{k}" for k in plate], control, batch=[f"b{k}" for k in batch])

    def read(table: Matrix) -> float:
        return readable(table[control], batch[control], plate[control])

    chance = 18 / 90
    noise = 2 * np.sqrt(chance * (1 - chance) / control.sum())
    before, done = read(X), read(everywhere("tvn", X, design))
    assert done < max(before, chance + noise) + 1e-9
    if width == 200 and shift:  # more columns than controls: without centring CORAL shows the batch
        assert read(everywhere("tvn", X, design, tvn="efaar-1.0")) > 0.9


@pytest.mark.parametrize(
    ("name", "control"),
    [("bbbc021_per_well_mean_raw.parquet", "DMSO"), ("resistance_cellpainting_2760wells.parquet", "0.1% DMSO")],
)
def test_nor_in_a_real_screen(name: str, control: str) -> None:
    if not (SHARED / name).exists():
        pytest.skip(f"{SHARED / name} is not on this machine")
    opened = deconfound.screen(SHARED / name, control=control)
    asked = Retrieval.of(opened.design)
    X = np.asarray(opened.blocks[: opened.blocks.n], dtype=np.float64)
    before = asked.scores(((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12))[asked.rows])["batch_readable"]
    done = asked.scores(everywhere("tvn", X, opened.design)[asked.rows])["batch_readable"]
    assert done.minus(before)[1][1] < 0  # the upper end of the interval of the difference
    assert done.mean < before.mean / 3


def test_tvn_gives_the_controls_of_every_batch_mean_zero_and_like_covariances() -> None:
    X, design = screen()
    assert design.batch is not None
    done, old = (everywhere("tvn", X, design, tvn=method, epsilon=1e-9) for method in ("batch", "efaar-1.0"))
    batches = [design.control & (design.batch.codes == k) for k in range(4)]
    for rows in batches:
        np.testing.assert_allclose(done[rows].mean(axis=0), 0, atol=1e-9)
    covariances = np.array([np.cov(done[rows], rowvar=False) for rows in batches])
    np.testing.assert_allclose(covariances, covariances[[0] * 4], atol=1e-6)
    assert max(np.abs(old[rows].mean(axis=0)).max() for rows in batches) > 0.5


def test_coral_by_plate_is_called_mostly_ridge_where_controls_are_few() -> None:
    X, design = screen(width=48)
    many = fit_correction("tvn", Blocks(X), design, level="batch")
    few = fit_correction("tvn", Blocks(X), design, level="plate")
    assert says(message_of(few, "coral_mostly_ridge"), "19 %", "48 directions")
    assert "coral_mostly_ridge" not in codes_of(many)


# ComBat


def test_combat_shifts_a_batch_of_one_row_and_says_so() -> None:
    X, design = screen()
    rows = np.flatnonzero(design.plate.codes < 5)[: 4 * WELLS + 1]  # one row of batch b2
    correction = fit_correction("combat", Blocks(X), design, rows=rows)
    assert values_of(correction, "one_row_groups") == {"groups": 1, "level": "batch", "names": ["b2"]}
    assert np.isfinite(correction.apply(X[rows], rows)).all()
    assert "one_row_groups" not in codes_of(fit_correction("combat", Blocks(X), design))


def test_combat_sets_columns_constant_within_batches_to_their_mean() -> None:
    X, design = screen()
    assert design.batch is not None
    others = everywhere("combat", X[:, [0, 2, 3]], design)
    X[:, 1] = design.batch.codes
    correction = fit_correction("combat", Blocks(X), design)
    assert values_of(correction, "constant_columns") == {"columns": 1, "level": "batch", "first": 1}
    done = correction.apply(X, np.arange(len(X)))
    np.testing.assert_allclose(done[:, 1], 1.5, atol=1e-12)
    np.testing.assert_allclose(done[:, [0, 2, 3]], others, atol=1e-12)
    with pytest.raises(DataError, match=r"array: .* batch"):
        fit_correction("combat", Blocks(X[:, [1]]), design)


@pytest.mark.parametrize("name", ["combat", "harmony"])
def test_one_batch_is_nothing_to_align(name: str) -> None:
    X, design = screen()
    assert design.batch is not None
    with pytest.raises(DataError, match="two batches, got 1"):
        fit_correction(name, Blocks(X), design, rows=np.flatnonzero(design.batch.codes == 0))
    lone = design_of(np.full(len(X), "p"), design.control)
    with pytest.raises(DataError, match=r"two plates .* screen"):
        fit_correction(name, Blocks(X), lone)


def test_combat_that_does_not_settle_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    X, design = screen()
    monkeypatch.setattr(streaming, "MAX_ROUNDS", 1)
    with pytest.raises(DataError, match=r"ComBat .* 1 rounds"):
        fit_correction("combat", Blocks(X), design)


@pytest.mark.parametrize("name", ["combat", "harmony"])
def test_treatments_that_occur_in_one_batch_only_are_said(name: str) -> None:
    X, design = screen()
    own = np.where(design.control, "none", np.char.add("only in ", design.plate.text()))
    locked = replace(design, perturbation=Labels.of(own))
    message = message_of(fit_correction(name, Blocks(X), locked), "treatment_in_one_group")
    assert message.startswith("100 % ")
    assert "treatment_in_one_group" not in codes_of(fit_correction(name, Blocks(X), design))
    all_controls = replace(design, control=np.ones(len(X), bool))
    assert "treatment_in_one_group" not in codes_of(fit_correction(name, Blocks(X), all_controls))


# Harmony


def two_kinds(seed: int = 0) -> tuple[Matrix, Any, Any]:
    """Two kinds of rows in three batches with a shift each, on unequal shares."""
    rng = np.random.default_rng(seed)
    batch = rng.choice(3, 300, p=[0.5, 0.3, 0.2])
    kind = rng.integers(0, 2, 300)
    Z = rng.standard_normal((300, 3)) + 6 * np.eye(3)[kind] + 2 * rng.standard_normal((3, 3))[batch]
    return Z, batch, kind


def test_harmony_repeats_itself_and_hardly_depends_on_the_seed_or_the_order_of_rows() -> None:
    Z, batch, _ = two_kinds()
    first, again, other = (harmonise(Z, batch, clusters=2, run=Run(s)).rows for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    moved = np.linalg.norm(first - Z)
    assert np.linalg.norm(first - other) < 1e-2 * moved
    shuffle = np.random.default_rng(9).permutation(len(Z))
    assert np.linalg.norm(harmonise(Z[shuffle], batch[shuffle], clusters=2).rows - first[shuffle]) < 1e-2 * moved
    assert np.linalg.norm(first - first[shuffle]) > moved


def test_harmony_works_in_the_leading_components_of_z_scored_columns() -> None:
    X, design = screen()
    assert design.batch is not None
    X[:, 0] *= 1000  # a unit of its own
    correction = fit_correction("harmony", Blocks(X), design, dimensions=2)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    axes = np.linalg.svd(Z)[2][:2].T
    axes *= np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0))
    expected = harmonise(Z @ axes, design.batch.codes).rows
    np.testing.assert_allclose(correction.apply(X, np.arange(len(X))), expected, atol=1e-7)
    white = harmonise(Z @ axes / (Z @ axes).std(axis=0), design.batch.codes).rows
    assert np.abs(white * (Z @ axes).std(axis=0) - expected).max() > 1e-2
    assert correction.width == 2
    assert correction.notes[0].values == {"rows": 192, "groups": 4, "level": "batch", "components": 2}
    rows = np.array([5, 100, 3])
    np.testing.assert_array_equal(correction.apply(X[rows], rows), correction.apply(X, np.arange(len(X)))[rows])
    assert fit_correction("harmony", Blocks(X), design).width == WIDTH


def test_harmony_survives_rows_of_zeros_and_more_clusters_than_kinds() -> None:
    Z = np.zeros((40, 2))
    Z[20:] = 1.0
    found = harmonise(Z, np.arange(40) % 2, clusters=8)
    assert np.isfinite(found.rows).all()
    np.testing.assert_allclose(found.rows, Z, atol=1e-6)  # both batches hold the same rows: nothing to move


def test_harmony_says_when_it_was_still_moving(monkeypatch: pytest.MonkeyPatch) -> None:
    X, design = screen()
    assert "not_converged" not in codes_of(fit_correction("harmony", Blocks(X), design))
    monkeypatch.setattr(harmony, "TOLERANCE", -np.inf)
    assert "10 iterations" in message_of(fit_correction("harmony", Blocks(X), design), "not_converged")


def test_harmony_refuses_what_does_not_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    X, design = screen()
    monkeypatch.setattr(harmony, "physical_memory", lambda: 1000)
    with pytest.raises(DataError, match=r"192 rows .* GB"):
        fit_correction("harmony", Blocks(X), design)


# Position and cell count


def test_position_of_controls_reaches_only_where_controls_stand() -> None:
    X, design = screen()
    correction = fit_correction("position-subtracted", Blocks(X), design, position_of="controls")
    assert len(values_of(correction, "addresses_unseen")["addresses"]) == 14
    done = correction.apply(X, np.arange(len(X)))
    treated = np.flatnonzero(~design.control)
    np.testing.assert_allclose(done[treated], X[treated] - X[design.control].mean(axis=0), atol=1e-12)
    whole = fit_correction("position-subtracted", Blocks(X), design)
    assert {"addresses_unseen", "addresses_once"}.isdisjoint(codes_of(whole))
    once = fit_correction("position-subtracted", Blocks(X), design, rows=np.arange(2 * WELLS - 1))
    assert values_of(once, "addresses_once") == {"addresses": ["D06"]}


def test_position_subtraction_warns_where_treatments_are_locked_to_wells() -> None:
    X, design = screen()
    assert design.address is not None
    locked = replace(design, perturbation=Labels.of(np.where(design.control, "none", design.address.text())))
    correction = fit_correction("position-subtracted", Blocks(X), locked)
    assert message_of(correction, "layout_locked").startswith("100 % ")
    assert "layout_locked" not in codes_of(fit_correction("position-subtracted", Blocks(X), design))
    only_controls = replace(locked, control=np.ones(len(X), bool))
    assert "layout_locked" not in codes_of(fit_correction("position-subtracted", Blocks(X), only_controls))


def test_count_regression_over_many_blocks_is_least_squares() -> None:
    rng = np.random.default_rng(6)
    count = np.sort(rng.uniform(0, 100, 9000))  # blocks differ in their mean count
    X = np.outer(count, [2.0, -1.0]) + rng.standard_normal((9000, 2))
    design = design_of(np.full(9000, "p"), np.ones(9000, bool), cell_count=count)
    slope = np.linalg.lstsq(np.column_stack([np.ones(9000), count]), X)[0][1]
    expected = X - np.outer(count - count.mean(), slope)
    np.testing.assert_allclose(everywhere("count-regressed", X, design, count_scale="linear"), expected, atol=1e-9)
    assert np.abs(X - expected).max() > 1


def test_rows_without_a_count_are_left_alone_and_counted() -> None:
    X, design = screen()
    assert design.cell_count is not None
    counts = design.cell_count.copy()
    counts[[3, 50]] = np.nan
    counts[7] = -1
    correction = fit_correction("count-regressed", Blocks(X), replace(design, cell_count=counts))
    assert message_of(correction, "missing_counts").startswith("3 rows ")
    done = correction.apply(X, np.arange(len(X)))
    np.testing.assert_array_equal(done[[3, 7, 50]], X[[3, 7, 50]])
    assert np.abs(done - X).max() > 1e-3
    with pytest.raises(DataError, match=r"screen: .* cell count"):
        fit_correction("count-regressed", Blocks(X), replace(design, cell_count=np.full(len(X), np.nan)))
    equal = fit_correction("count-regressed", Blocks(X), replace(design, cell_count=np.full(len(X), 120.0)))
    assert codes_of(equal) == {"constant_count"}
    np.testing.assert_array_equal(equal.apply(X, np.arange(len(X))), X)


# Blocks, numbers, messages


@pytest.mark.parametrize("name", sorted(set(CORRECTIONS) - {"harmony"}))
def test_neither_workers_nor_block_size_nor_dtype_of_storage_change_a_fit(name: str) -> None:
    rng = np.random.default_rng(2)
    n = 9000  # more than two strips, plates scattered over all of them
    X = (rng.laplace(size=(n, 3)) + 5).astype(np.float32)
    plate = rng.integers(0, 6, n)
    design = design_of(
        [f"p{k}" for k in plate],
        rng.random(n) < 0.4,
        batch=[f"b{k % 3}" for k in plate],
        row=rng.integers(0, 4, n),
        column=rng.integers(0, 6, n),
        cell_count=rng.integers(5, 99, n).astype(float),
    )
    turn = AffineMap(haar_rotation(3, rng), np.zeros(3))
    index = np.arange(0, n, 7)
    settings: dict[str, Any] = {"ica_map": turn}
    whole = fit_correction(name, Blocks(X), design, workers=1, **settings).apply(X[index], index)
    parts = fit_correction(name, Blocks(X, rows=100), design, workers=3, **settings).apply(X[index], index)
    np.testing.assert_array_equal(whole, parts)
    assert whole.dtype == np.float32
    double = fit_correction(name, Blocks(X.astype(np.float64)), design, **settings).apply(
        X[index].astype(np.float64), index
    )
    assert double.dtype == np.float64
    np.testing.assert_allclose(whole, double, atol=1e-5)


def test_statistics_of_scattered_and_of_sorted_plates_equal_those_of_each_plate_alone() -> None:
    rng = np.random.default_rng(4)
    n = 9000
    X = rng.standard_normal((n, 2)) * 1e-3 + 1e6  # offsets that would cost seven digits of a plain sum of squares
    scattered = rng.integers(0, 5, n)
    for name, plate in product(("control-z", "control-mad"), (scattered, np.sort(scattered))):
        done = everywhere(name, X, design_of([f"p{k}" for k in plate], np.ones(n, bool)))
        for k in range(5):
            rows = X[plate == k]
            centre = rows.mean(axis=0) if name == "control-z" else np.median(rows, axis=0)
            spread = rows.std(axis=0) if name == "control-z" else 1.4826 * np.median(np.abs(rows - centre), axis=0)
            np.testing.assert_allclose(done[plate == k], (rows - centre) / spread, atol=1e-5)
    assert np.abs(done).max() > 2


@pytest.mark.parametrize("name", sorted(CORRECTIONS))
def test_values_that_are_not_finite_are_refused_with_their_rows(name: str) -> None:
    X, design = screen()
    turn = AffineMap.identity(WIDTH)
    correction = fit_correction(name, Blocks(X), design, ica_map=turn)
    broken = X.copy()
    broken[[1, 26], 2] = np.nan  # controls of p0 and p1
    with pytest.raises(DataError, match=r"array: .*from 0: \d"):
        fit_correction(name, Blocks(broken), design, ica_map=turn)
    if name != "harmony":  # which knows its rows already
        with pytest.raises(DataError, match=rf"{name}: 2 rows .*: 1, 26\)"):
            correction.apply(broken, np.arange(len(X)))
    assert np.isfinite(correction.apply(X, np.arange(len(X)))).all()


def test_a_design_says_what_a_correction_lacks() -> None:
    X, design = screen()
    bare = Design(plate=design.plate, perturbation=design.perturbation, control=np.zeros(len(X), bool))
    lacking = {name: spec.lacking(bare) for name, spec in CORRECTIONS.items()}
    assert {name for name, why in lacking.items() if why is None} == {"combat", "harmony"}
    assert says(lacking["position-subtracted"], "position-subtracted", "wells", "screen")
    assert all(spec.lacking(design) is None for spec in CORRECTIONS.values())
    with pytest.raises(DataError, match=r"count-regressed .* screen"):
        fit_correction("count-regressed", Blocks(X), bare)


@pytest.mark.parametrize(
    ("name", "options", "parts"),
    [
        ("combta", {}, "'combta'; .* control-z, control-mad"),
        ("ica-cs", {}, "pass ica_map"),
        ("ica-cs", {"ica_map": AffineMap.identity(3)}, "ica_map: .* 4 columns .* 3"),
        *(
            ("control-z", {wrong: "well"}, f"{wrong}: .*, got 'well'")
            for wrong in ("level", "sphering", "tvn", "position_of", "count_scale")
        ),
        ("harmony", {"dimensions": 0}, "dimensions: .* 1, got 0"),
        ("tvn", {"epsilon": 0.0}, "epsilon: .* got 0"),
        ("sphering", {"epsilon": -1.0}, "epsilon: .* got -1"),
        ("control-z", {"rows": np.array([0, 500])}, "rows: .* 0 to 191, .* 0 to 500"),
        ("control-z", {"rows": np.array([4, 4])}, "rows: .* 4 to 4"),
        ("control-z", {"rows": np.array([], dtype=np.intp)}, r"rows: .* \(0,\)"),
    ],
)
def test_wrong_options_are_refused_by_name(name: str, options: dict[str, Any], parts: str) -> None:
    X, design = screen()
    with pytest.raises(UsageError, match=parts):
        fit_correction(name, Blocks(X), design, **options)


def test_tables_that_do_not_fit_are_refused_with_their_sizes() -> None:
    X, design = screen()
    with pytest.raises(UsageError, match="level 'plate'"):
        fit_correction("control-z", Blocks(X), replace(design, batch=None), level="batch")
    with np.errstate(over="ignore"), pytest.raises(DataError, match=r"array: .* float64"):
        fit_correction("control-z", Blocks(X * 1e200), design)
    with pytest.raises(DataError, match=r"array: 100 rows, .* 192"):
        fit_correction("control-z", Blocks(X[:100]), design)
    correction = fit_correction("control-z", Blocks(X), design, rows=np.ones(len(X), bool))
    assert correction.transductive
    with pytest.raises(DataError, match=r"4 columns .* \(5, 4\) and \(4,\)"):
        correction.apply(X[:5], np.arange(4))
    with pytest.raises(DataError, match="0 to 191, got 0 to 192"):
        correction.apply(X[:2], np.array([0, 192]))
