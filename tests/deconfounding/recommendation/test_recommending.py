"""recommend(): a screen that sphering helps, one that nothing helps, and what is kept of a correction for new plates."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from identifiable import deconfound, transform
from identifiable._checks import DataError, UsageError
from identifiable.api import load_basis, save_basis
from identifiable.deconfounding.design import Design, Labels
from identifiable.deconfounding.metrics.retrieval import Found, Scores
from identifiable.deconfounding.recommendation import recommending
from identifiable.deconfounding.recommendation.candidates import Fits, candidates
from identifiable.deconfounding.recommendation.choosing import Choice
from identifiable.deconfounding.recommendation.recommending import _Board, _judge, _Judged, _wide
from identifiable.results import Answer, HeldOutScore, from_json
from identifiable.run import Run
from identifiable.worlds import cells

PLATES, WELLS = 2, 24


def screen(*, nuisance: float, batches: int = 6, seed: int = 0, effect: float = 3.0):
    """12 compounds of 4 targets and 12 controls on 12 plates; `nuisance` moves wells and batches along 3 of 12 directions."""
    rng = np.random.default_rng(seed)
    names = np.array(["DMSO"] * 12 + [f"c{k}" for k in range(12)])
    targets = np.array(["DMSO"] * 12 + [f"t{k % 4}" for k in range(12)])
    directions = rng.standard_normal((4, 9))
    rows = []
    columns: dict[str, list[str]] = {name: [] for name in ("batch", "plate", "well", "compound", "target")}
    for b in range(batches):
        shift = 2 * nuisance * rng.standard_normal(3)
        for p in range(PLATES):
            loud = shift + nuisance * rng.standard_normal((WELLS, 3))
            quiet = rng.standard_normal((WELLS, 9))
            quiet[12:] += effect * directions[np.arange(12) % 4]
            rows.append(np.column_stack([loud, quiet]))
            columns["batch"] += [f"b{b}"] * WELLS
            columns["plate"] += [f"b{b}p{p}"] * WELLS
            columns["well"] += [f"{'ABCD'[w // 6]}{w % 6 + 1:02d}" for w in rng.permutation(WELLS)]
            columns["compound"] += names.tolist()
            columns["target"] += targets.tolist()
    turn = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    return np.concatenate(rows) @ turn, columns


def noise(seed: int):
    """10 compounds and 6 controls on 16 plates of 8 batches, 80 features without any effect."""
    rng = np.random.default_rng(seed)
    columns = {
        "batch": np.repeat([f"b{k}" for k in range(8)], 32),
        "plate": np.repeat([f"p{k}" for k in range(16)], 16),
        "compound": np.tile(["DMSO"] * 6 + [f"c{k}" for k in range(10)], 16),
    }
    return rng.standard_normal((256, 80)), columns


@pytest.fixture(scope="module")
def helped():
    X, columns = screen(nuisance=6.0, effect=1.2)
    return deconfound.recommend(X, metadata=columns, control="DMSO")


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_kept_as_it_is_although_replicates_come_nearer_than_controls(seed):
    """Controls that a correction was fitted to are moved away from the other wells: that is no gain of biology."""
    X, columns = noise(seed)
    result = deconfound.recommend(X, metadata=columns, control="DMSO", candidates=("sphering", "control-z+sphering"))
    assert result.result.verdict == "keep-as-is"
    sphered = [m.name for m in result.result.methods if "sphering" in m.name]
    assert max(result.result.score(name, "replicate_map").difference for name in sphered) > 0.03


def test_a_correction_that_helps_is_recommended(helped):
    result = helped.result
    assert result.verdict in ("recommended", "tie")
    assert result.written == result.chosen
    assert result.written not in ("as-is", "z-score")
    assert (result.held_out, result.folds) == ("batch", 6)
    before = {m.metric: m.value for m in result.metrics}
    for metric in ("nn_euclidean", "nn_cosine", "replicate_map"):
        assert result.score(result.chosen, metric).value >= before[metric]
    assert result.score(result.chosen, "nn_cosine").value > before["nn_cosine"] + 0.1
    assert sum(method.picks for method in result.methods) == len(result.picks) == 6
    assert {pick.held_out for pick in result.picks} == {(f"b{b}",) for b in range(6)}
    assert result.stable == np.mean([pick.family == result.family for pick in result.picks])


def test_intervals_too_wide_to_exclude_a_loss_are_said_with_their_number(helped):
    """Of the metrics of biology only; `batch_readable` is not one."""
    result = helped.result
    wide = [s.difference_ci95[1] - s.difference_ci95[0] > 2 * result.margin for s in result.nested]
    biological = [s.metric != "batch_readable" for s in result.nested]
    assert 0 < sum(biological) < len(biological)
    (values,) = (alert.values for alert in result.alerts if alert.code == "wide_intervals")
    assert (values["metrics"], values["of"]) == (np.sum(np.logical_and(wide, biological)), sum(biological))
    assert values["margin"] == result.margin


@pytest.mark.parametrize("verdict", ["recommended", "tie", "keep-as-is"])
def test_an_interval_is_wide_from_twice_the_margin_on(verdict):
    widths = {"nn_cosine": 0.07, "nn_euclidean": 0.05, "consensus_batch": np.nan, "batch_readable": 0.5}
    nested = tuple(HeldOutScore(metric, 0.5, 0.1, (0.1, 0.1 + width)) for metric, width in widths.items())
    nested = (replace(nested[0], difference=-0.011), *nested[1:])
    judged = _Judged(verdict, "recommended", {}, None, (), 1.0, 0, nested)
    said = {"name": "wells", "metrics": 2, "of": 3, "margin": 0.03, "lowest": {"nn_cosine": -0.011}}
    found = [(alert.code, alert.values) for alert in _wide(judged, 0.03, "wells")]
    assert found == ([] if verdict == "keep-as-is" else [("wide_intervals", said)])
    assert _wide(replace(judged, nested=nested[1:2]), 0.03, "wells") == []


def test_a_screen_without_technical_effects_is_kept_as_it_is():
    X, columns = screen(nuisance=1.0, batches=5, seed=1)
    found = deconfound.recommend(X, metadata=columns, control="DMSO")
    assert (found.result.verdict, found.result.written) == ("keep-as-is", "as-is")
    assert found.result.held_out == "batch"
    assert "plates_held_out" not in [alert.code for alert in found.result.alerts]
    np.testing.assert_array_equal(found.corrected[:], X)
    np.testing.assert_array_equal(transform(found.basis, X), X)


def test_a_world_without_technical_latents_is_kept_as_it_is():
    world = cells("tiny", seed=1, technical=0)  # docs/recommend.md has seed 0
    found = deconfound.recommend(world.X, metadata=world.metadata, preset="rxrx3-core")
    assert found.result.verdict == "keep-as-is"


@pytest.mark.parametrize("seed", [0, 1])
def test_what_is_written_is_not_below_the_input(seed):
    world = cells("tiny", seed=seed)
    result = deconfound.recommend(world.X, metadata=world.metadata, preset="rxrx3-core").result
    if result.written == "as-is":
        return
    for metric in result.metrics:
        if metric.better == "high":
            assert result.score(result.written, metric.metric).value >= metric.value - result.margin


def test_corrected_columns_are_z_scores(helped):
    corrected = helped.corrected[:]
    np.testing.assert_allclose(corrected.mean(axis=0), 0, atol=1e-8)
    np.testing.assert_allclose(corrected.std(axis=0), 1, atol=1e-8)


def test_the_result_comes_back_from_json(helped):
    again = from_json(helped.result.to_json(), "result")
    assert again.to_json() == helped.result.to_json()
    assert again.methods == helped.result.methods


def test_the_same_seed_gives_the_same_answer(helped):
    X, columns = screen(nuisance=6.0, effect=1.2)
    again = deconfound.recommend(X, metadata=columns, control="DMSO").result
    assert again.scores == helped.result.scores


def test_without_controls_other_corrections_are_tried():
    X, columns = screen(nuisance=4.0)
    columns["control"] = [str(int(c == "DMSO" and w < 3)) for w, c in enumerate(columns["compound"])]
    part = np.array([c != "DMSO" for c in columns["compound"]])
    kept = {name: np.array(values)[part] for name, values in columns.items()}
    design = deconfound.Design(
        *(deconfound.Labels.of(kept[name]) for name in ("plate", "compound")),
        np.zeros(part.sum(), bool),
        batch=deconfound.Labels.of(kept["batch"]),
        target=deconfound.Labels.of(kept["target"]),
    )
    from identifiable.blocks import Blocks
    from identifiable.deconfounding.recommendation.recommending import recommend

    result = recommend(Blocks(X[part]), design).result
    assert {method.family for method in result.methods} == {"input", "combat", "harmony", "pca", "ica-clean"}
    assert "sphering-1" in result.skipped
    assert "recommended_without_controls" in [alert.code for alert in result.alerts]


def test_two_plates_are_too_few_to_judge():
    X, columns = screen(nuisance=6.0, batches=1, effect=1.2)
    found = deconfound.recommend(X, metadata=columns, control="DMSO").result
    assert (found.verdict, found.held_out, found.folds) == ("keep-as-is", "plate", 2)
    (said,) = [alert.values for alert in found.alerts if alert.code == "plates_held_out"]
    assert (said["batches"], said["least"]) == (1, 3)


def few(*, batches: int, plates: int, controls: int = 8, seed: int = 1):
    """12 compounds and a few controls on each of a few plates, moved by their batch and plate."""
    rng = np.random.default_rng(seed)
    effects = 1.5 * rng.standard_normal((12, 30))
    labels = np.array(["DMSO"] * controls + [f"c{k:02d}" for k in range(12)])
    effect = np.concatenate([np.zeros((controls, 30)), effects])
    rows = []
    columns: dict[str, list[str]] = {name: [] for name in ("batch", "plate", "well", "compound")}
    for k in range(batches * plates):
        order = rng.permutation(len(labels))
        rows.append(effect[order] + rng.standard_normal((len(order), 30)) + 2 * rng.standard_normal(30))
        columns["batch"] += [f"b{k // plates}"] * len(order)
        columns["plate"] += [f"p{k}"] * len(order)
        columns["well"] += [f"{'AB'[w // 12]}{w % 12 + 1:02d}" for w in range(len(order))]
        columns["compound"] += labels[order].tolist()
    return np.concatenate(rows), columns


DESIGNS = [
    {"batches": 1, "plates": 6},
    {"batches": 3, "plates": 1},
    {"batches": 4, "plates": 1},
    {"batches": 6, "plates": 1, "controls": 2},
]


@pytest.mark.parametrize("family", ["tvn", "harmony", "pca"])
def test_components_are_turned_back_to_features(family):
    X, columns = few(batches=4, plates=1, controls=12)
    X[:, 3] = 5.0
    opened = deconfound.screen(X, metadata=columns, control="DMSO")
    fits = Fits(opened.blocks, opened.design, opened.design.plate, Run())
    (candidate,) = (c for c in candidates(opened.design, (family,), len(X))[0] if c.family == family)
    raw, done = candidate.raw(fits, None), candidate.fit(fits, None)
    rows = np.arange(len(X))
    found = done.step(X, rows)
    assert found.shape == X.shape
    assert done.width == X.shape[1]
    assert not found[:, 3].any()
    np.testing.assert_allclose(np.delete(found, 3, axis=1).std(axis=0), 1)
    if family != "pca":
        turned = raw.step(X, rows) @ raw.axes.T
        np.testing.assert_allclose(pdist(turned), pdist(raw.step(X, rows)))
        np.testing.assert_allclose(np.corrcoef(turned[:, 0], found[:, 0])[0, 1], 1)


@pytest.mark.parametrize("family", ["tvn", "harmony"])
def test_features_are_written_under_their_names(family, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, columns = few(batches=8, plates=2, controls=12)
    frame = pandas.DataFrame({**columns, **{f"Cells_{j}": X[:, j] for j in range(30)}})
    frame.to_parquet(tmp_path / "in.parquet")
    found = deconfound.recommend(tmp_path / "in.parquet", control="DMSO", candidates=(family,))
    assert found.result.written == family
    saved = deconfound.save_recommended(tmp_path / "out.parquet", found)
    assert set(pandas.read_parquet(saved.path).columns) == {*frame.columns, "correction"}


@pytest.mark.parametrize("design", DESIGNS)
def test_small_screens_have_an_answer(design):
    X, columns = few(**design)
    found = deconfound.recommend(X, metadata=columns, control="DMSO")
    assert found.result.folds == design["batches"] * design["plates"]
    assert "ica-clean" in found.result.settings["candidates"]
    assert np.isfinite(found.corrected[:]).all()


def test_few_plates_are_attributed_and_too_few_to_clean():
    X, columns = few(batches=3, plates=1)
    cards = deconfound.attribute(X, metadata=columns, control="DMSO", stability=0).result.components
    assert all(np.isfinite(card.technical) for card in cards)
    with pytest.raises(DataError, match="got 3"):
        deconfound.clean(X, metadata=columns, control="DMSO", stability=0)


def test_a_metric_that_the_screen_does_not_allow_is_refused():
    X, columns = screen(nuisance=1.0)
    columns.pop("target")
    with pytest.raises(UsageError, match="consensus_batch"):
        deconfound.recommend(X, metadata=columns, control="DMSO", metrics=("consensus_batch",))


def test_values_that_are_not_finite_are_refused():
    X, columns = screen(nuisance=1.0)
    X[3, 0] = np.nan
    with pytest.raises(DataError, match="array"):
        deconfound.recommend(X, metadata=columns, control="DMSO")


# what is kept for new plates


def of_family(family: str):
    X, columns = screen(nuisance=6.0, effect=1.2)
    return X, columns, deconfound.recommend(X, metadata=columns, control="DMSO", candidates=(family,))


def test_an_affine_correction_comes_back_from_its_file(tmp_path):
    X, _, found = of_family("sphering")
    assert found.result.family == "sphering"
    assert found.basis.before is None
    path = save_basis(tmp_path / "correction.safetensors", found.basis)
    np.testing.assert_array_equal(transform(load_basis(path), X), transform(found.basis, X))
    np.testing.assert_allclose(transform(path, X[:7]), found.corrected[:7], atol=1e-8)


def test_control_scaling_of_new_plates_needs_their_controls(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, columns, found = of_family("control-z")
    assert found.result.family == "control-z"
    assert found.basis.before.roles["plate"] == "plate"
    frame = pandas.DataFrame({**columns, **{f"feature_{j}": X[:, j] for j in range(12)}})
    frame[:48].to_parquet(tmp_path / "new.parquet")
    with pytest.warns(UserWarning, match="columns_not_checked"):
        new = transform(save_basis(tmp_path / "c.safetensors", found.basis), tmp_path / "new.parquet")
    np.testing.assert_allclose(new, found.corrected[:48], atol=1e-6)
    frame[:48].drop(columns=["compound"]).to_parquet(tmp_path / "bare.parquet")
    with pytest.raises(DataError, match="compound"):
        transform(found.basis, tmp_path / "bare.parquet")
    with pytest.raises(DataError, match="plate"):
        transform(found.basis, X[:48])


def test_what_was_fitted_to_all_rows_refuses_new_plates():
    X, _, found = of_family("combat")
    assert found.result.written == "combat"
    with pytest.raises(UsageError, match="combat"):
        transform(found.basis, X)


# -- what is said beside the verdict


def board_of(families: list[str], **scores: list[float]) -> SimpleNamespace:
    """As much of a board as a remark asks for: candidates of these families, and the mean of each in every metric."""

    def whole(place: int, metric: str) -> Found:
        return Found(np.full(2, scores[metric][place]), np.zeros((2, 1)), np.ones(2), np.zeros(2, dtype=np.intp))

    return SimpleNamespace(
        tried=[SimpleNamespace(family=family) for family in families],
        inputs=np.array([family == "input" for family in families]),
        metrics=tuple(scores),
        whole=whole,
    )


@pytest.mark.parametrize(
    ("tied", "families"),
    [
        ([0, 1, 0, 0, 0], None),
        ([0, 1, 1, 0, 0], None),  # another setting of the same family
        ([0, 1, 0, 1, 0], ["combat"]),
        ([0, 1, 1, 1, 1], ["combat", "harmony"]),
        ([1, 1, 0, 0, 0], ["input"]),
    ],
)
def test_other_families_that_tie_are_named_once(tied: list[int], families: list[str] | None) -> None:
    board = board_of(["input", "sphering", "sphering", "combat", "harmony"])
    choice = Choice(1, np.array(tied, dtype=bool), np.zeros(5), np.ones(5, dtype=bool))
    said = recommending._ties(board, choice)  # type: ignore[arg-type]
    assert [(each.code, each.values) for each in said] == (
        [] if families is None else [("ties_with", {"families": families})]
    )


@pytest.mark.parametrize(
    ("nn_cosine", "replicate_map", "batch_readable", "metric"),
    [
        ([0.5, 0.55], [0.4, 0.5], [0.9, 0.9], "replicate_map"),
        ([0.5, 0.6], [0.4, 0.45], [0.9, 0.9], "nn_cosine"),
        ([0.5, 0.52], [0.4, 0.42], [0.9, 0.9], None),  # by less than the margin
        ([0.5, 0.4], [0.4, 0.3], [0.9, 0.9], None),
        ([0.5, 0.5], [0.4, 0.4], [0.5, 0.9], None),  # readability is no biology
    ],
)
def test_scaling_is_mentioned_where_z_scored_columns_compare_better(nn_cosine, replicate_map, batch_readable, metric):
    scores = {"nn_cosine": nn_cosine, "replicate_map": replicate_map, "batch_readable": batch_readable}
    board = board_of(["input", "input"], **scores)
    said = recommending._scaling_helps(board, 0, 0.03)  # type: ignore[arg-type]
    assert [each.code for each in said] == ([] if metric is None else ["scale_before_comparing"])
    for each in said:
        kept, scaled = scores[metric]
        assert each.values == {"metric": metric, "kept": pytest.approx(kept), "scaled": pytest.approx(scaled)}
    turned = board_of(["input", "input"], **{name: values[::-1] for name, values in scores.items()})
    assert recommending._scaling_helps(turned, 1, 0.03) == said  # type: ignore[arg-type]


# -- the verdict, of scores built by hand

BEFORE = {"nn_cosine": 0.5, "replicate_map": 0.4, "batch_readable": 0.9}
CHANCE = 0.25  # of batch_readable
GAIN, LITTLE = 0.1, 0.02  # more than the margin, and less


def corrected(
    *, held_out: dict, inside: dict | None = None, written: dict | None = None
) -> dict[str, dict[str, float]]:
    """What a correction adds to the input on the part held out, on the others, and fitted to all rows; like held out if not said."""
    return {
        "held_out": held_out,
        **{k: held_out if v is None else v for k, v in (("inside", inside), ("written", written))},
    }


def evidence(*, parts: int = 4, before: dict = BEFORE, **added: dict) -> _Board:
    """The board of the table as it is, its z-scored columns and these corrections: four wells a part, all alike."""
    part = np.repeat(np.arange(parts), 4)
    labels = Labels.of(np.array([f"b{k}" for k in part]))
    design = Design(labels, Labels.of(np.tile(["c0", "c1"], 2 * parts)), np.zeros(len(part), bool), batch=labels)
    nothing = corrected(held_out={})
    known = {"as-is": nothing, "z-score": nothing, **added}

    def scores(own: dict[str, float], other: dict[str, float], k: int) -> Scores:
        def found(metric: str) -> Found:
            value = before[metric] + np.where(part == k, own.get(metric, 0.0), other.get(metric, 0.0))
            without = np.where(part[:, None] == np.arange(parts), np.nan, value[:, None])
            return Found(value, without, np.ones(len(part)), part)

        return Scores({metric: found(metric) for metric in before})

    def candidate(name: str, changes: dict) -> SimpleNamespace:
        final = SimpleNamespace(step=lambda sample, rows: scores({}, changes["written"], -1))
        family = "input" if name in ("as-is", "z-score") else name
        return SimpleNamespace(name=name, family=family, fit=lambda fits, k: final)

    asked = SimpleNamespace(
        rows=np.arange(len(part)),
        group_of=lambda metric: part,
        scores=lambda values: values,
        coverage={"batch_readable": SimpleNamespace(chance=CHANCE)},
    )
    return _Board(
        SimpleNamespace(part=labels, design=design),  # type: ignore[arg-type]
        asked,  # type: ignore[arg-type]
        tuple(before),
        [candidate(name, changes) for name, changes in known.items()],  # type: ignore[misc]
        {},
        [[scores(c["held_out"], c["inside"], k) for k in range(parts)] for c in known.values()],
        np.zeros((len(part), 1)),
    )


BIOLOGY = {"nn_cosine": GAIN, "replicate_map": GAIN}
LOST = {"nn_cosine": -GAIN, "replicate_map": GAIN}
UNREADABLE = {"batch_readable": -0.4}
SOME = np.repeat([0.3, 0.3, 0.5, 0.5], 4)  # of four parts: the interval of their mean reaches below chance
QUIETER = corrected(held_out={"batch_readable": -GAIN})
HELPS = corrected(held_out=BIOLOGY)
NESTED = {"nn_cosine": 2 * GAIN, "replicate_map": 2 * GAIN}  # on the other parts, so that every part chooses it
AS_IT_IS = ("none_is_better", "none_differs", "nothing_to_judge_by")
ENOUGH = {"nn_cosine": 0.8 * GAIN, "replicate_map": 0.8 * GAIN}


@pytest.mark.parametrize(
    ("board", "code", "metrics"),
    [
        (evidence(sphering=HELPS), "recommended", None),
        (evidence(sphering=corrected(held_out=UNREADABLE)), "recommended", None),
        (evidence(sphering=HELPS, combat=corrected(held_out=ENOUGH, inside=NESTED)), "tie", None),
        (evidence(sphering=HELPS, combat=corrected(held_out=LOST, inside=NESTED)), "choice_harms", ["nn_cosine"]),
        (evidence(sphering=corrected(held_out=BIOLOGY, written=LOST)), "harms_when_written", ["nn_cosine"]),
        (evidence(sphering=corrected(held_out=BIOLOGY, written={"nn_cosine": -LITTLE})), "recommended", None),
        (evidence(sphering=corrected(held_out={"replicate_map": GAIN})), "no_clear_gain", None),  # among controls only
        (evidence(sphering=corrected(held_out=BIOLOGY, inside={})), "no_clear_gain", None),  # no part would choose it
        (evidence(sphering=QUIETER, before=BEFORE | {"batch_readable": CHANCE}), "no_clear_gain", None),
        (evidence(sphering=QUIETER, before=BEFORE | {"batch_readable": SOME}), "no_clear_gain", None),
        (evidence(sphering=QUIETER, before=BEFORE | {"batch_readable": SOME + 0.3}), "recommended", None),
        (evidence(sphering=corrected(held_out={"nn_cosine": LITTLE})), "none_differs", None),
        (evidence(sphering=corrected(held_out=LOST)), "none_is_better", None),
        (evidence(sphering=HELPS, before={"batch_readable": 0.9}), "nothing_to_judge_by", None),
        (evidence(sphering=HELPS, parts=2), "too_few_to_judge", None),
        (evidence(sphering=HELPS, parts=3), "recommended", None),
    ],
)
def test_every_verdict_has_the_evidence_that_decides_it(board: _Board, code: str, metrics: list[str] | None) -> None:
    judged = _judge(board, 0.03)
    settled = code in ("recommended", "tie")
    assert (judged.code, judged.verdict) == (code, code if settled else "keep-as-is")
    assert board.tried[judged.written].name == ("sphering" if settled else "as-is")
    assert judged.values["method"] == ("as-is" if code in AS_IT_IS else "sphering")
    assert judged.values.get("metrics") == metrics
    assert judged.values.get("parts") == (2 if code == "too_few_to_judge" else None)


def test_a_table_is_kept_for_noise_with_the_differences_and_for_a_loss_without():
    noise = _judge(evidence(sphering=corrected(held_out={"nn_cosine": LITTLE})), 0.03)
    assert (noise.values["contender"], noise.values["differences"]["nn_cosine"]) == ("sphering", pytest.approx(LITTLE))
    assert "contender" not in _judge(evidence(sphering=corrected(held_out=LOST)), 0.03).values


def test_choices_without_a_part_that_differ_are_counted_and_those_that_agree_are_not_mentioned():
    agree = _judge(evidence(sphering=corrected(held_out={"nn_cosine": LITTLE})), 0.03)
    differ = _judge(evidence(sphering=corrected(held_out={"nn_cosine": LITTLE}, inside=NESTED)), 0.03)
    assert [remark.code for remark in agree.remarks] == []
    (remark,) = differ.remarks
    assert (remark.code, remark.values["others"], remark.values["folds"]) == ("picks_differ", 4, 4)


def test_a_rise_among_controls_is_named_where_it_is_no_gain():
    judged = _judge(evidence(sphering=corrected(held_out={"replicate_map": GAIN})), 0.03)
    other = _judge(evidence(sphering=QUIETER, before=BEFORE | {"batch_readable": CHANCE}), 0.03)
    assert ("uncounted" in judged.values, "uncounted" in other.values) == (True, False)
    assert "replicate_map" not in other.values["counted"]
    assert f"{GAIN:.3f}" in Answer(judged.code, judged.values).message
