"""The audit: what layouts, plates and batches tell without any embedding, and what is said of each design."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from deconfounding.short_calls import audit, says
from identifiable import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.deconfounding.audit import blind as layout
from identifiable.deconfounding.audit.auditing import check_features, evaluable_perturbations, read_classes
from identifiable.deconfounding.design import Design, Labels
from identifiable.deconfounding.folds import plate_folds
from identifiable.deconfounding.intervals import interval, plate_draws
from identifiable.results import Audit, from_json, without_time
from identifiable.run import Run

QUICK = {"permutations": 5, "workers": 1}
COLUMNS = 8


def screen(
    seed: int, *, locked: bool = False, plates: int = 20, guides: int = 4, wells_each: int = 1, controls: int = 12
) -> Design:
    """Plates of 6 by 8 wells in four batches: controls and guides in wells drawn anew on every plate, or kept."""
    rng = np.random.default_rng([seed, 9])
    names = np.array(["empty"] * controls + [f"g{k}" for k in range(guides) for _ in range(wells_each)])
    kept = rng.permutation(48)[: len(names)]
    wells = np.concatenate([kept if locked else rng.permutation(48)[: len(names)] for _ in range(plates)])
    plate = np.repeat(np.arange(plates), len(names))
    labels = np.tile(names, plates)
    return Design(
        plate=Labels.of(np.array([f"p{k:02d}" for k in plate])),
        perturbation=Labels.of(labels),
        control=labels == "empty",
        batch=Labels.of(plate % 4),
        row=wells // COLUMNS,
        column=wells % COLUMNS,
    )


def embedding(design: Design, seed: int = 0, *, d: int = 5, offset: float = 0.0) -> np.ndarray:
    """Heavy-tailed columns, with plates apart by `offset` standard deviations."""
    rng = np.random.default_rng([seed, 10])
    return rng.laplace(size=(design.n, d)) + offset * rng.standard_normal((design.plate.size, d))[design.plate.codes]


def audited(design: Design, values: np.ndarray | None = None, **options) -> Audit:
    values = embedding(design) if values is None else values
    return audit(Blocks(values, name="screen"), design, **{**QUICK, **options})


def score(result: Audit, features: str, predicts: str):
    return next(b for b in result.blind if (b.features, b.predicts) == (features, predicts))


def severities(result: Audit) -> dict[str, str]:
    return {finding.code: finding.severity for finding in result.findings}


# Information


def slow_information(a: np.ndarray, b: np.ndarray) -> float:
    """Mutual information by its definition, one pair after another."""
    n, pairs = len(a), Counter(zip(a.tolist(), b.tolist(), strict=True))
    p, q = Counter(a.tolist()), Counter(b.tolist())
    return sum(m / n * math.log(m * n / (p[x] * q[y])) for (x, y), m in pairs.items())


@pytest.mark.parametrize(("n", "sizes"), [(500, (3, 4)), (60, (50, 40))])  # mostly empty: runs are counted
def test_information_equals_its_definition(n, sizes):
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, sizes[0], n), rng.integers(0, sizes[1], n)
    assert layout.mutual_information(Labels.of(a), Labels.of(b)) == pytest.approx(slow_information(a, b), abs=1e-12)
    assert layout.entropy(Labels.of(a).counts) == pytest.approx(slow_information(a, a), abs=1e-12)


def test_dependence_is_whole_for_a_locked_layout_and_none_for_a_random_one():
    locked, random = (
        {d.what: d for d in audited(screen(3, locked=locked), permutations=60).dependences} for locked in (True, False)
    )
    for what in ("perturbation ~ address", "perturbation vs control ~ address"):
        assert locked[what].share == pytest.approx(1, abs=1e-9)
        assert locked[what].p == pytest.approx(1 / 61)
        assert abs(random[what].share) < 0.1
        assert random[what].null_mean < random[what].null_q95
    assert set(locked) == {
        f"{label} ~ {place}"
        for label in ("perturbation", "perturbation vs control")
        for place in ("address", "row", "column", "plate", "batch")
    }


def test_p_values_of_random_layouts_are_spread_evenly():
    found = []
    for seed in range(40):
        design = screen(seed, plates=10)
        positives = [np.flatnonzero(design.perturbation.text() == "g0")]
        dependences = layout.dependences(design, positives, permutations=19, run=Run(seed, workers=1))
        found.append([d.p for d in dependences if "address" in d.what])
    assert ((np.array(found) <= 0.5).mean(axis=0) > 0.3).all()
    assert ((np.array(found) <= 0.5).mean(axis=0) < 0.7).all()
    assert ((np.array(found) <= 0.1).mean(axis=0) <= 0.25).all()


def test_cramers_v_equals_its_formula_and_forgives_chance():
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 4, 300), rng.integers(0, 3, 300)
    b[:100] = a[:100] % 3
    table = np.zeros((4, 3))
    np.add.at(table, (a, b), 1)
    expected = table.sum(1, keepdims=True) * table.sum(0) / 300
    phi2 = ((table - expected) ** 2 / expected).sum() / 300 - 3 * 2 / 299
    by_formula = math.sqrt(phi2 / min(3 - 9 / 299, 2 - 4 / 299))
    assert layout.cramers_v(Labels.of(a), Labels.of(b)) == pytest.approx(by_formula, abs=1e-12)
    assert layout.cramers_v(Labels.of(rng.integers(0, 30, 300)), Labels.of(rng.integers(0, 9, 300))) < 0.2
    assert math.isnan(layout.cramers_v(Labels.of(a), Labels.of(a * 0)))


# Classifiers that see only places


def test_the_blind_classifier_equals_a_slow_one_in_every_draw_of_plates():
    design = screen(7, plates=10, wells_each=3)
    folds = plate_folds(design, folds=3)
    draws = plate_draws(10, 4, np.random.default_rng(8))
    place, make_score = layout.addresses(design), layout.position_score(design)
    found = layout.BlindClassifier(design, place, make_score, folds, draws).auroc(np.flatnonzero(~design.control))
    for weights, value in zip(draws[:, design.plate.codes], found, strict=True):
        areas, masses = [], []
        for fold in range(3):
            train, test = folds != fold, folds == fold
            ones, zeros = (
                np.bincount(place.codes[train & kind], minlength=place.size).astype(float)
                for kind in (~design.control, design.control)
            )
            y, scores = ~design.control[test], make_score(ones, zeros)[place.codes[test]]
            if not weights[test][y].sum() * weights[test][~y].sum():
                continue
            areas.append(roc_auc_score(y, scores, sample_weight=weights[test]))
            masses.append(weights[test][y].sum() * weights[test][~y].sum() / (~y).sum())
        assert value == pytest.approx(np.average(areas, weights=masses), abs=1e-9)
    assert (draws[0] == 1).all()
    assert (draws[1:].sum(axis=1) == 10).all()


def test_plate_chance_is_above_half_for_few_wells_and_equals_it_for_many():
    few, many = screen(10, guides=1), screen(10, guides=1, controls=20, wells_each=20)
    chances = [
        layout.plate_chance(design, [np.flatnonzero(~design.control)], np.random.default_rng(0))
        for design in (few, many)
    ]
    assert chances[0] > 0.7
    assert 0.5 < chances[1] < 0.6
    assert score(audited(many), "plate", "each perturbation").auroc == pytest.approx(0.5)


def test_intervals_cover_chance_in_random_layouts():
    """Forty plates: without allowing for crossed folds 0.83 of 200 did."""
    covered = 0
    for seed in range(60):
        design = screen(seed, guides=8, plates=40)
        draws = plate_draws(40, 100, np.random.default_rng([seed, 1]))
        blind = layout.BlindClassifier(
            design, layout.addresses(design), layout.position_score(design), plate_folds(design), draws
        )
        low, high = interval(blind.auroc(np.flatnonzero(~design.control)), 40, crossed=True, bounded=True)
        covered += low <= 0.5 <= high
    assert covered >= 54
    assert covered < 60  # an interval that always covers says nothing


# Verdicts


def test_random_layouts_are_never_and_locked_layouts_always_called_confounded():
    """Zero biology in both (section 6, test 5)."""
    random = [audited(screen(seed), permutations=1).verdict for seed in range(12)]
    assert "layout-confounded" not in random
    assert random.count("clear") >= 11
    locked = [audited(screen(seed, locked=True), permutations=1).verdict for seed in range(12)]
    assert set(locked) == {"layout-confounded"}


def with_one_locked(seed: int) -> Design:
    """Eight guides in wells drawn anew on every plate, one of them always in the corner."""
    design = screen(seed, guides=8, plates=24)
    rng = np.random.default_rng([seed, 12])
    mine = design.perturbation.text() == "g3"
    inner = np.concatenate([rng.permutation(47)[:20] + 1 for _ in range(24)])
    wells = np.where(mine, 0, inner)
    return replace(design, row=wells // COLUMNS, column=wells % COLUMNS)


def test_one_locked_perturbation_is_named_though_the_mean_hides_it():
    result = audited(with_one_locked(0), permutations=1)
    told = next(f for f in result.findings if f.code == "layout")
    assert (result.verdict, told.severity) == ("caution", "caution")
    assert (told.values["locked"], told.values["testable"]) == ({"g3": pytest.approx(1.0)}, 8)
    assert says(told.message, "1 of 8 ", "g3 1.00")
    assert severities(audited(screen(0, guides=8, plates=24), permutations=1))["layout"] == "fine"


def test_controls_in_columns_of_their_own_are_confounded_however_guides_are_dealt():
    rng = np.random.default_rng(11)
    names = np.array(["empty"] * 6 + ["a", "b", "c", "d"] * 3)
    wells = np.concatenate(
        [
            np.r_[np.arange(6) * 8, rng.permutation([8 * r + c for r in range(6) for c in range(2, 8)])[:12]]
            for _ in range(12)
        ]
    )
    labels, plate = np.tile(names, 12), np.repeat(np.arange(12), 18)
    design = Design(Labels.of(plate), Labels.of(labels), labels == "empty", row=wells // 8, column=wells % 8)
    result = audited(design)
    assert result.verdict == "layout-confounded"
    assert score(result, "position", "each perturbation").auroc == pytest.approx(1)
    assert next(d for d in result.dependences if d.what.endswith(" control ~ column")).share == pytest.approx(
        1, abs=1e-9
    )
    assert math.isnan(result.confounding)


def confined(seed: int) -> Design:
    """Guides in half of the batches, controls in all, wells at random."""
    design = screen(seed, plates=32, wells_each=2)
    return design.take(np.flatnonzero(design.control | (design.batch.codes < 2)))


def test_guides_that_keep_to_some_batches_are_batch_confounded():
    result = audited(confined(12))
    assert result.verdict == "batch-confounded"
    assert score(result, "batch", "each perturbation").auroc > 0.7
    assert result.confounding > 0.2
    assert severities(result)["layout"] == "fine"
    even = audited(screen(12, plates=32, wells_each=2))
    assert severities(even)["batch"] == "fine"
    assert even.confounding < 0.05


def test_perturbations_in_one_batch_are_named():
    design = screen(13, plates=24, wells_each=4)
    kept = (design.perturbation.text() != "g1") | (design.batch.codes == 2)
    found = next(f for f in audited(design.take(kept)).findings if f.code == "one_batch_only")
    assert says(found.message, "1 of 4", "(g1)")
    assert "one_batch_only" not in severities(audited(design))


def test_controls_on_plates_of_their_own_are_confounded_and_said_to_be_so():
    design = screen(14, plates=20, wells_each=3)
    apart = design.take(np.flatnonzero(design.control == (design.plate.codes < 8)))
    result = audited(apart)
    assert (result.verdict, set(result.skipped)) == ("batch-confounded", {"g0", "g1", "g2", "g3"})
    assert severities(result)["controls_apart"] == "stop"
    found = {finding.code: finding.message for finding in result.findings}
    assert says(found["plates_without_controls"], "12 of 20", "(p08, p09, p10, p11, p12 ")


def test_unequal_shares_of_plates_are_a_reservation():
    design = screen(15, plates=20, wells_each=4, controls=16)
    lean = design.take(np.flatnonzero(design.control == (design.plate.codes % 2 == 0) | (design.plate.codes < 2)))
    assert severities(audited(lean))["uneven_plates"] == "caution"
    assert "uneven_plates" not in severities(audited(design))


def test_too_few_wells_are_unusable_and_the_text_says_what_to_do():
    result = audited(screen(16, plates=8), min_wells=20)
    assert result.verdict == "unusable"
    assert "--min-wells" in result.text
    assert says(result.skipped["g0"], "8 wells", "20")
    assert score(result, "position", "any perturbation").targets == 1
    coverage = result.told.remarks[0].values
    assert {**coverage, "level": ""} == {"judged": 0, "of": 4, "level": "", "wells": 20, "fewer": 6, "then": 4}


def test_small_screens_need_fewer_wells_and_the_text_says_how_many_are_judged():
    small = audited(screen(16, plates=8))
    assert (small.verdict, small.settings["min_wells"]) == ("clear", 8)
    assert {a.code: a.values["wells"] for a in small.alerts}["min_wells_adapted"] == 8
    assert (small.told.remarks[0].values["judged"], small.told.remarks[0].values["of"]) == (4, 4)
    large = audited(screen(16, plates=24))
    assert large.settings["min_wells"] == 20
    assert "min_wells_adapted" not in [a.code for a in large.alerts]
    assert "then" not in large.told.remarks[0].values


def without_controls(design: Design) -> Design:
    return design.take(np.flatnonzero(~design.control))


def test_without_controls_perturbations_are_judged_against_each_other():
    random = audited(without_controls(screen(21, plates=24, guides=8)))
    assert (random.verdict, severities(random)["no_controls"]) == ("caution", "caution")
    assert score(random, "position", "each perturbation").ci95[0] < 0.5
    assert severities(random)["layout"] == "fine"
    assert next(f for f in random.findings if f.code == "layout").values["against"] == "other perturbations"
    locked = audited(without_controls(screen(21, plates=24, guides=8, locked=True)))
    assert locked.verdict == "layout-confounded"
    assert score(locked, "position", "each perturbation").auroc == pytest.approx(1)
    assert not [f for f in random.folds if f.problem]
    assert "no_controls" not in severities(audited(screen(21, plates=24, guides=8)))


def test_an_interval_always_has_width():
    locked = audited(screen(3, locked=True))
    perfect = score(locked, "position", "each perturbation")
    assert perfect.auroc == pytest.approx(1)
    assert 0.6 < perfect.ci95[0] < perfect.ci95[1] == 1
    assert all(b.ci95[0] < b.ci95[1] or math.isnan(b.ci95[0]) for b in locked.blind)


def test_what_cannot_be_evaluated_is_said_for_each_perturbation():
    design = screen(17, plates=6, wells_each=6)
    text = design.perturbation.text().astype("U8")
    text[(text == "g1") & (design.plate.codes != 0)] = "g0"
    text[np.flatnonzero(text == "g2")[4:]] = "g0"
    testable, skipped = evaluable_perturbations(
        replace(design, perturbation=Labels.of(text)), plate_folds(design, folds=3), min_wells=6
    )
    assert testable == ["g0", "g3"]
    assert {name: reason.code for name, reason in skipped.items()} == {"g1": "one_plate", "g2": "few_wells"}
    same_fold = np.where(design.plate.codes < 3, 0, 1)
    kept = design.take(np.flatnonzero(design.control | (design.plate.codes < 3)))
    fold = same_fold[np.flatnonzero(design.control | (design.plate.codes < 3))]
    assert {reason.code for reason in evaluable_perturbations(kept, fold, 6)[1].values()} == {"one_fold"}


def test_folds_of_one_class_are_named():
    design = screen(18, plates=5, wells_each=8, controls=8)
    bare = design.take(np.flatnonzero(~design.control | (design.plate.codes != 2)))
    result = audited(bare)
    assert severities(result)["single_class_folds"] == "caution"
    bad = [check for check in result.folds if check.problem]
    assert [(check.plates, check.controls, check.problem) for check in bad] == [(1, 0, "no controls")]
    alone = design.take(np.flatnonzero(design.control | (design.plate.codes != 2)))
    assert {check.problem for check in audited(alone).folds} == {"", "nothing but controls"}
    assert next(c for c in audited(alone).folds if c.problem).missing == ("g0", "g1", "g2", "g3")
    assert severities(audited(design))["folds"] == "fine"


def test_without_wells_the_layout_is_called_unknown():
    result = audited(replace(screen(19, locked=True), row=None, column=None))
    assert result.verdict == "caution"
    assert severities(result)["layout_unknown"] == "caution"
    assert {d.what for d in result.dependences} == {
        f"{a} ~ {b}" for a in ("perturbation", "perturbation vs control") for b in ("plate", "batch")
    }


def test_cell_counts_that_tell_perturbations_are_mentioned():
    design = screen(20, wells_each=2)
    rng = np.random.default_rng(21)
    dying = rng.poisson(np.where(design.control, 900, 500)).astype(float)
    result = audited(replace(design, cell_count=dying))
    assert score(result, "cell_count", "each perturbation").auroc > 0.95
    assert "cell_count" in severities(result)
    healthy = audited(replace(design, cell_count=rng.permutation(dying)))
    assert "cell_count" not in severities(healthy)


# The embedding


def test_a_plate_is_read_from_an_embedding_with_plate_effects_and_from_no_other():
    design = screen(22)
    for what, held_out in (("plate", "well"), ("batch", "plate")):
        shifted = (
            embedding(design)
            + 3
            * (np.random.default_rng(1).standard_normal((20, 5)))[
                design.plate.codes if what == "plate" else design.batch.codes
            ]
        )
        found, none = score(audited(design, shifted), "embedding", what), score(audited(design), "embedding", what)
        assert found.auroc > 0.9
        assert found.held_out == none.held_out == held_out
        assert none.ci95[0] < 0.5 < none.ci95[1] or none.auroc < 0.5


def test_plates_are_read_from_controls_where_there_are_enough_and_from_all_rows_otherwise():
    design = screen(23)
    for controls, expected in ((12, True), (2, False)):
        few = design.take(np.flatnonzero(~design.control | (np.arange(design.n) % 16 < controls)))
        reading = read_classes(Blocks(embedding(few)), few, "plate", folds=3, rng=np.random.default_rng(0))
        assert reading.controls_only is expected
        assert (reading.drawn, reading.left, reading.of) == (False, 0, 20)
        assert reading.rows == 20 * (12 if expected else 6)
    alone = replace(design, batch=Labels.of(design.plate.codes))
    assert read_classes(Blocks(embedding(design)), alone, "batch", folds=3, rng=np.random.default_rng(0)) is None


def test_a_sample_of_plates_is_read_and_the_alert_says_so(monkeypatch):
    monkeypatch.setattr("identifiable.deconfounding.audit.auditing.READ_CLASSES", 5)
    monkeypatch.setattr("identifiable.deconfounding.audit.auditing.READ_ROWS", 30)
    monkeypatch.setattr("identifiable.deconfounding.audit.blind.CONTRASTS", 2)
    result = audited(screen(24))
    told = {alert.code: alert.message for alert in result.alerts}
    assert says(told["plate_read_from_sample"], "30 control rows", "5 plates")
    assert says(told["information_from_some"], "2 perturbations", "of 4")
    assert score(result, "embedding", "plate").targets == 5


def test_plates_and_batches_that_are_too_small_are_counted_and_nothing_is_called_drawn():
    design = screen(29)
    for code, few in (
        ("plates_not_read", ~design.control | (design.plate.codes != 3) | (np.arange(design.n) % 16 < 3)),
        ("batches_not_read", (design.batch.codes != 0) | (design.plate.codes == design.plate.codes[design.batch.codes == 0][0])),
    ):  # fmt: skip
        told = {alert.code: alert.values for alert in audited(design.take(np.flatnonzero(few))).alerts}
        assert (told[code]["left"], told[code]["least"], told[code]["kind"]) == (1, 4, "control well")
        assert told.keys().isdisjoint({"plate_read_from_sample", "batch_read_from_sample"})
    assert {alert.code for alert in audited(design).alerts}.isdisjoint({"plates_not_read", "batches_not_read"})


@pytest.mark.parametrize(("limit", "rows"), [(120, [120]), (240, [])])
def test_a_batch_is_read_from_a_sample_where_controls_are_more_than_the_limit(limit, rows, monkeypatch):
    """240 controls in four batches: 30 of each, or all of them."""
    monkeypatch.setattr("identifiable.deconfounding.audit.auditing.READ_ROWS", limit)
    result = audited(screen(29))
    told = [alert.values for alert in result.alerts if alert.code == "batch_read_from_sample"]
    assert [(each["rows"], each["groups"], each["kind"]) for each in told] == [(n, 4, "control row") for n in rows]
    assert score(result, "embedding", "batch").targets == 4


@pytest.mark.parametrize(
    ("shape", "gaussian"),
    [("normal", True), ("scores by plate", True), ("laplace", False), ("uniform", False), ("mixed", False)],
)
def test_gaussian_columns_are_told_from_others_by_their_sampling_error(shape, gaussian):
    from scipy.special import ndtri

    rng = np.random.default_rng(26)
    n, d = 12_000, 16
    if shape == "scores by plate":  # ranks within plates of 60 as normal scores: kurtosis -0.24 in every column
        ranks = rng.random((n // 60, 60, d)).argsort(axis=1).argsort(axis=1)
        values = ndtri((ranks + 0.5) / 60).reshape(n, d)
    elif shape == "mixed":  # sixteen sources in every column leave an excess kurtosis of 3/16
        values = rng.laplace(size=(n, d)) @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    else:
        values = {"normal": rng.standard_normal, "laplace": lambda s: rng.laplace(size=s), "uniform": rng.random}[
            shape
        ]((n, d))
    found = check_features(Blocks(values))
    assert found.gaussianised is gaussian
    excess = ((values - values.mean(0)) ** 4).mean(0) / values.var(0) ** 2 - 3
    assert found.median_kurtosis == pytest.approx(np.median(np.abs(excess)), abs=1e-9)


def test_duplicate_rows_are_counted_and_named():
    values = np.random.default_rng(28).standard_normal((9000, 300)).astype(np.float32)
    values[8000] = values[17]
    values[8999] = values[17]
    values[5, 0] = 0.0
    values[6] = values[5]
    values[6, 0] = -0.0
    found = check_features(Blocks(values))
    assert found.duplicate_rows == 3
    assert found.duplicate_pairs == ((5, 6), (17, 8000), (17, 8999))
    clean = check_features(Blocks(np.delete(values, [6, 8000, 8999], axis=0)))
    assert (clean.duplicate_rows, clean.duplicate_pairs) == (0, ())


def test_constant_and_dependent_columns_duplicates_and_few_rows_are_found():
    design = screen(29, plates=6)
    values = np.c_[embedding(design), np.ones(design.n), embedding(design)[:, 0] * 2, embedding(design, 1, d=6)]
    values[40] = values[3]
    result = audited(design, values, min_wells=6)
    assert (result.features.constant, result.features.rank) == (1, 11)
    found = {finding.code: finding.message for finding in result.findings}
    assert says(found["rank"], "11 of 13", "1 constant column", "1 other direction")
    assert says(found["duplicate_rows"], "1 row ", "3 and 40")
    assert "7.4 rows" in found["few_rows"]
    assert {"rank", "duplicate_rows", "few_rows", "gaussianised"}.isdisjoint(severities(audited(design, min_wells=6)))
    gaussian = audited(screen(30), np.random.default_rng(31).standard_normal((320, 6)))
    assert (gaussian.verdict, severities(gaussian)["gaussianised"]) == ("caution", "caution")


def test_a_table_of_constant_columns_has_no_kurtosis_and_is_unusable():
    design = screen(29, plates=6)
    result = audited(design, np.ones((design.n, 3)), min_wells=6)
    assert (result.features.median_kurtosis, result.verdict) == (None, "unusable")
    assert severities(result)["all_constant"] == "stop"
    assert from_json(result.to_json()).features == result.features
    assert "all_constant" not in severities(audited(design, min_wells=6))


def test_plates_of_one_perturbation_are_said_where_nothing_else_can_be_compared():
    design = screen(29, plates=12)
    own = design.perturbation.text()[np.flatnonzero(~design.control)[design.plate.codes % 2]]
    alone = replace(design, perturbation=Labels.of(np.where(design.control, "empty", own)))
    assert (design.holds_others, alone.holds_others) == (True, False)
    (told,) = [each for each in audited(alone).findings if each.code == "plates_of_one_perturbation"]
    assert (told.severity, told.values) == ("fine", {"alone": 12, "plates": 12})
    assert "plates_of_one_perturbation" not in severities(audited(design))


# The whole


def test_the_result_does_not_depend_on_blocks_or_workers_and_goes_to_json_and_back():
    design = replace(screen(32, plates=12), cell_count=np.arange(192.0))
    values = embedding(design, d=4)
    results = [
        audit(Blocks(values, rows=rows, name="screen"), design, permutations=8, min_wells=5, workers=workers, seed=3)
        for rows, workers in ((None, 1), (7, 2))
    ]
    assert without_time(results[0]).to_json() == without_time(results[1]).to_json()
    again = from_json(results[0].to_json())
    assert again.to_json() == results[0].to_json()
    other = audit(Blocks(values, name="screen"), design, permutations=8, min_wells=5, workers=1, seed=4)
    assert other.blind[0].ci95 != results[0].blind[0].ci95


def test_a_table_that_cannot_be_audited_is_refused_with_the_reason():
    design = screen(35)
    with pytest.raises(DataError, match="--well"):
        layout.addresses(replace(design, row=None, column=None))
    with pytest.raises(DataError, match=r"320 rows, .* 48"):
        audited(design.take(np.arange(48)), embedding(design))
    with pytest.raises(UsageError, match=r"permutations 0: .* 1"):
        audited(design, permutations=0)
    with pytest.raises(UsageError, match=r"min_wells 1: .* 2"):
        audited(design, min_wells=1)
    with pytest.raises(DataError, match=r"20 plates .* 21 folds"):
        audited(design, folds=21)
    values = embedding(design)
    values[[4, 9], 1] = np.nan
    with pytest.raises(DataError, match=r"2 rows \(.*: 4, 9\)"):
        audited(design, values)
