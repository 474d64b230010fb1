"""`align` as a whole: what it measures, what it says, and that it neither depends on blocks nor on luck."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders import make_alignment
from commands import run
from identifiable import Aligned, Blocks, DataError, Representation, UsageError, align, load
from identifiable.alignment.aligning import _answer
from identifiable.alignment.families import HeldOut, Paths
from identifiable.moments import Moments
from identifiable.report import markdown
from identifiable.results import Bounded, without_time
from identifiable.results.serial import from_json

SEED = 20240624
QUICK: dict[str, Any] = {"curve": False, "workers": 1}


def pair(n: int = 400, d: int = 6, width: int = 6, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Clusters seen by two encoders, one a linear map of the other with noise."""
    rng = np.random.default_rng(SEED)
    x = rng.standard_normal((20, d))[rng.integers(0, 20, n)] + 0.5 * rng.standard_normal((n, d))
    return x, x @ rng.standard_normal((d, width)) + noise * rng.standard_normal((n, width))


@pytest.fixture(scope="module")
def found() -> Aligned:
    return align(*pair(), names=["old", "new"], labels=np.arange(400) % 3, seed=1, holdout=200)


def test_a_map_is_found_evaluated_and_fitted_to_all_rows(found: Aligned) -> None:
    x, y = pair()
    there, back = found.result.ways
    assert (there.source, there.target, back.source) == ("old", "new", "new")
    search = there.queries[0]
    assert (search.metric, search.index, search.queries, there.fitted) == ("cosine", 400, 200, 200)
    assert search.recall_10.value > 0.7
    low, high = search.recall_10.ci95 or (1, 0)
    assert low < search.recall_10.value < high
    base = {each.name: each.cosine.recall_10.value for each in there.baselines}
    assert set(base) == {"as_is", "random_rotation", "shuffled_pairs"}
    assert max(base.values()) < 0.2
    assert all(each.index == 200 for each in there.stored)
    assert sum(each.chosen for each in there.tried) == 1
    assert there.curve is not None
    assert there.curve.points[-1].pairs == 200
    fitted = found.map(x)
    assert 1 - np.square(y - fitted).sum() / np.square(y - y.mean(axis=0)).sum() > 0.9
    assert found.result.pairs == 400
    assert found.result.text.code == found.result.advice


def test_half_precision_is_the_same_numbers() -> None:
    x, y = (table.astype(np.float16) for table in pair())
    half = align(x, y, **QUICK).result.ways[0]
    same = align(x.astype(np.float32), y.astype(np.float32), **QUICK).result.ways[0]
    assert (half.family, half.queries, half.regions) == (same.family, same.queries, same.regions)
    assert half.queries != align(x, y[::-1], **QUICK).result.ways[0].queries


def test_what_it_finds_does_not_depend_on_container_blocks_or_workers(tmp_path: Path) -> None:
    x, y = pair()
    for name, table in (("x", x), ("y", y)):
        np.save(tmp_path / f"{name}.npy", table)
    names = ["x", "y"]
    whole = align(x, y, names=names, **QUICK)
    from_files = align(tmp_path / "x.npy", tmp_path / "y.npy", names=names, blocks=17, curve=False, workers=2)
    assert without_time(from_files.result).to_json() == without_time(whole.result).to_json()
    assert from_files.map.matrix.tobytes() == whole.map.matrix.tobytes()


def test_rows_are_paired_by_id_in_any_order() -> None:
    x, y = pair()
    ids = np.array([f"r{i}" for i in range(400)])
    order = np.random.default_rng(0).permutation(400)
    shuffled = align(Representation(x, ids), Representation(y[order], ids[order]), **QUICK)
    assert "paired_by_position" not in {alert.code for alert in shuffled.result.alerts}
    assert shuffled.result.ways[0].queries[0].recall_10.value > 0.7


def test_shuffled_pairs_are_worth_nothing_and_say_so() -> None:
    x, y = pair()
    lost = align(x, y[np.random.default_rng(3).permutation(400)], **QUICK)
    way = lost.result.ways[0]
    assert way.advice == "re_embed"
    shuffled = next(each.cosine.recall_10 for each in way.baselines if each.name == "shuffled_pairs")
    low, _ = way.queries[0].recall_10.ci95 or (1.0, 0.0)
    assert low <= (shuffled.ci95 or (0.0, 0.0))[1]
    assert "shuffled" in lost.result.text.values


def test_widths_may_differ_either_way() -> None:
    x, y = pair(width=9)
    there, back = align(x, y, **QUICK).result.ways
    assert {each.name for each in there.baselines} == {"random_rotation", "shuffled_pairs"}
    assert (there.invertible, back.invertible) == (True, False)
    assert min(there.queries[0].recall_10.value, back.queries[0].recall_10.value) > 0.6


def test_normalised_rows_are_aligned_by_direction_alone() -> None:
    x, y = pair()
    lengths = np.random.default_rng(0).lognormal(sigma=1.0, size=(400, 1))
    plain = align(x * lengths, y, **QUICK)
    unit = align(x * lengths, y, normalize=True, **QUICK)
    recall = [each.result.ways[0].queries[0].recall_10.value for each in (plain, unit)]
    assert recall[1] > recall[0] + 0.05
    assert "normalize_helps" in {alert.code for alert in plain.result.alerts}
    assert unit.back is None
    np.testing.assert_allclose(np.linalg.norm(unit.transform(x), axis=1), 1)


def test_groups_stay_whole_in_the_rows_held_out() -> None:
    x, y = pair()
    copies = np.repeat(np.arange(100), 4)
    same = x[copies * 4 % 400] + 1e-4 * x
    alike = align(same, same @ np.eye(6) + 1e-4 * y, **QUICK)
    assert "near_copies" in {alert.code for alert in alike.result.alerts}
    x[:, 0] *= 1e4  # beside a rogue column all rows are near by cosine
    rogue = align(x, x + 0.1 * y, **QUICK)
    assert "near_copies" not in {alert.code for alert in rogue.result.alerts}
    apart = align(same, same + 1e-4 * y, group_by=copies, **QUICK)
    assert "near_copies" not in {alert.code for alert in apart.result.alerts}
    assert apart.result.ways[0].queries[0].queries % 4 == 0
    with pytest.raises(UsageError, match="at least 6 groups"):
        align(x, y, group_by=np.arange(400) % 5, **QUICK)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda x, y: (x[:60], np.c_[y[:60], y[:60] ** 2, *(y[:60, :1] ** k for k in range(3, 50))]), "few_pairs"),
        (lambda x, y: (x[:100], y[:100]), "few_queries"),
        (lambda x, y: (np.c_[x, np.ones(400)], y), "constant_columns"),
        (lambda x, y: (x, y[:, :4]), "widths_differ"),
    ],
)
def test_what_limits_a_result_is_said(found: Aligned, change: Any, code: str) -> None:
    x, y = pair()
    assert code not in {alert.code for alert in found.result.alerts}
    assert code in {alert.code for alert in align(*change(x, y), **QUICK).result.alerts}


def told(found: Aligned, code: str) -> list[dict[str, Any]]:
    return [dict(alert.values) for alert in found.result.alerts if alert.code == code]


def test_a_small_index_is_said_with_what_would_be_enough(found: Aligned, monkeypatch: pytest.MonkeyPatch) -> None:
    from identifiable.alignment import aligning

    assert told(found, "small_index") == [{"index": 400, "least": 1000}]
    monkeypatch.setattr(aligning, "LEAST_INDEX", 100)
    assert told(align(*pair(100), **QUICK), "small_index") == []


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_versions_that_keep_their_axes_are_told_from_nothing_in_common(seed: int) -> None:
    """A map drawn to the identity, fitted to shuffled pairs, was nearly the identity: the advice was to re-embed."""
    rng = np.random.default_rng(seed)
    x = pair(100)[0]
    way = align(x, x + 0.1 * rng.standard_normal(x.shape), **QUICK).result.ways[0]
    shuffled = next(each.cosine.recall_10.value for each in way.baselines if each.name == "shuffled_pairs")
    assert shuffled < 0.4 < 0.8 < way.queries[0].recall_10.value
    assert "re_embed" not in {use.advice for use in way.uses}
    assert align(x, rng.standard_normal(x.shape), **QUICK).result.ways[0].advice == "re_embed"


def test_a_map_that_finds_no_more_than_the_rows_as_they_are_is_said(found: Aligned) -> None:
    rng = np.random.default_rng(1)
    x = pair(100)[0]
    near = align(x, x + 0.1 * rng.standard_normal(x.shape), **QUICK)
    way = near.result.ways[0]
    as_is = next(each.cosine.recall_10.value for each in way.baselines if each.name == "as_is")
    recall = way.queries[0].recall_10.value
    assert told(near, "map_not_needed") == [{"as_is": as_is, "recall": recall, "index": 100}]
    assert as_is >= recall - 0.01 > 0.5
    assert told(found, "map_not_needed") == []  # the second model has other axes
    lost = align(x, rng.standard_normal(x.shape), **QUICK)
    assert (lost.result.ways[0].advice, told(lost, "map_not_needed")) == ("re_embed", [])  # neither finds anything


def test_rows_as_they_are_need_a_map_where_they_find_little() -> None:
    """Neither finds much: a map that adds nothing is no reason to use what stands there."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((500, 6))
    y = x + 1.5 * rng.standard_normal(x.shape)
    found = align(x, y, **QUICK)
    as_is = next(each.cosine.recall_10.value for each in found.result.ways[0].baselines if each.name == "as_is")
    assert found.result.ways[0].queries[0].recall_10.value - 0.01 <= as_is < 0.5
    assert told(found, "map_not_needed") == []


def test_a_source_of_zeros_but_for_a_few_rows_is_said_and_nothing_else_warns() -> None:
    rng = np.random.default_rng(4)
    x, y = np.zeros((400, 4)), rng.standard_normal((400, 4))
    x[rng.choice(400, 18, replace=False)] = rng.standard_normal((18, 4))
    found = align(x, y, names=["x", "y"], **QUICK)
    assert [each["name"] for each in told(found, "near_copies")] == ["x"]
    assert found.result.advice == "re_embed"
    assert told(found, "map_not_needed") == []


def explained(found: Aligned, x: np.ndarray, y: np.ndarray) -> float:
    """R² of the map that is kept."""
    return float(1 - np.square(y - found.map(x)).sum() / np.square(y - y.mean(axis=0)).sum())


@pytest.mark.parametrize("scale", [1e-5, 1e-6, 1e-7, 1e-10, 1e-15, 1e9])
def test_the_units_of_a_column_cost_no_direction(scale: float) -> None:
    y = np.random.default_rng(3).standard_normal((1000, 3))
    x = y * [scale, 1, 1]
    found = align(x, y, names=["x", "y"], **QUICK)
    way = found.result.ways[0]
    assert (way.r2.value, explained(found, x, y)) == pytest.approx((1, 1), abs=1e-6)
    assert found.result.ways[1].queries[0].recall_10.value > 0.95
    assert found.result.advice == "map"
    named = [each["name"] for each in told(found, "unequal_units")]
    assert named == ([] if scale == 1e-5 else ["x"])
    assert told(found, "map_not_needed") == told(found, "fewer_directions") == []
    assert found.back is not None
    np.testing.assert_allclose(found.back(y) / x.std(axis=0), x / x.std(axis=0), atol=1e-6)
    far, near = ((found.leverage(rows) > found.reach.limit).mean() for rows in (x * [30, 1, 1], x))
    assert near < 0.1 < 0.8 < far or scale == 1e-5  # where units are as given, and a small column reaches nowhere


@pytest.mark.parametrize("family", ["shrink", "ridge", "scaled_ridge", "half"])
def test_a_penalised_map_is_the_same_however_small_the_units_are(family: Any) -> None:
    x, y = pair(noise=1.0)
    units = np.r_[1e-8, np.ones(5)]
    both = [Moments.of(np.hstack([table, y]), (6, 6)) for table in (x, x * units)]
    spread = x.std(axis=0)
    whole, small = (Paths(m, scale) for m, scale in zip(both, (spread, spread * units), strict=True))
    penalties = whole.penalties(family)
    if family != "shrink":  # which draws to the similarity of the columns as they are
        np.testing.assert_allclose(small.penalties(family), penalties)
        for penalty in penalties[::4]:
            np.testing.assert_allclose(
                small.map(family, penalty)(x * units), whole.map(family, penalty)(x), rtol=1e-6, atol=1e-6
            )
    np.testing.assert_allclose(
        small.r2(family, both[1]), [HeldOut(both[1], both[1]).r2(small.matrix(family, p)) for p in penalties], atol=1e-6
    )


def test_a_column_that_others_determine_is_still_left_out() -> None:
    x, y = pair()
    more = np.column_stack([x, x[:, 0] + x[:, 1]])
    found = align(more, y, group="linear", ridge=0.0, **QUICK)
    without = align(x, y, group="linear", ridge=0.0, **QUICK)
    assert told(found, "unequal_units") == told(found, "fewer_directions") == []
    np.testing.assert_allclose(found.map(more), without.map(x), atol=1e-8)


def test_a_map_with_fewer_directions_than_the_one_evaluated_is_said() -> None:
    """A column repeats another but for what is just rounding among all rows, and just not among those fitted to."""
    rng = np.random.default_rng(8)
    y = rng.standard_normal((1000, 2))
    y[:, 1] = rng.standard_t(3, 1000)

    def table(apart: float) -> np.ndarray:
        return np.column_stack([y[:, 0], y[:, 0] + apart * y[:, 1]])

    def kept(apart: float) -> int:
        return Paths(Moments.of(np.hstack([table(apart), y]), (2, 2))).kept(0.0)

    low, high = 1e-7, 1e-5  # all rows cut below, and keep above
    while high / low > 1 + 1e-6:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if kept(middle) == 2 else (middle, high)
    x = table(0.9999 * low)
    by_seed = [align(x, y, group="linear", ridge=0.0, seed=seed, **QUICK) for seed in range(3)]
    said = [told(found, "fewer_directions") for found in by_seed]
    assert [{"name": "a", "evaluated": 2, "final": 1}] in said
    assert [] in said
    for found, values in zip(by_seed, said, strict=True):
        assert bool(values) == (found.result.ways[0].r2.value > 0.9 > explained(found, x, y))
    sure = align(table(1e-3), y, group="linear", ridge=0.0, **QUICK)
    assert told(sure, "fewer_directions") == []
    assert explained(sure, table(1e-3), y) > 0.999


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", ["hidden clusters", "noise", "fair"])
def test_mapped_and_true_rows_that_do_not_mix_are_said(kind: str, seed: int) -> None:
    """Mapped rows miss clusters that the source does not see; without the noise of the target they are nearer than true ones."""
    rng = np.random.default_rng([SEED, seed])
    x = rng.standard_normal((200, 2 if kind == "noise" else 4))
    if kind == "hidden clusters":
        y = 5 * np.eye(4)[rng.integers(0, 4, 200)] + 0.3 * rng.standard_normal((200, 4))
    elif kind == "noise":
        y = x @ rng.standard_normal((2, 50)) + rng.standard_normal((200, 50))
    else:
        y = x @ rng.standard_normal((4, 4)) + 0.1 * rng.standard_normal((200, 4))
    found = align(x, y, names=["old", "new"], group="linear", ridge=1.0, holdout=100, **QUICK)
    (share,) = (way.mixed for way in found.result.ways if way.source == "old")
    mapped, true = (
        [values["share"] for values in told(found, code) if values["source"] == "old"]
        for code in ("mapped_crowd_out", "true_crowd_out")
    )
    assert (mapped, true) == {"hidden clusters": ([], [share]), "noise": ([share], []), "fair": ([], [])}[kind]
    assert {"hidden clusters": share > 0.6, "noise": share < 0.4, "fair": 0.4 <= share <= 0.6}[kind]


def test_a_large_table_is_searched_in_part(monkeypatch) -> None:
    from identifiable.alignment import aligning

    monkeypatch.setattr(aligning, "IN_MEMORY", 200)
    x, y = pair()
    large = align(Blocks(x, rows=50), Blocks(y, rows=50), **QUICK)
    (told,) = [alert for alert in large.result.alerts if alert.code == "index_sampled"]
    assert told.values == {"index": 200, "rows": 400}
    assert large.result.ways[0].queries[0].index == 200
    assert large.result.ways[0].fitted == 320  # the map is fitted to all rows that are not held out


def test_what_cannot_be_aligned_is_one_line(tmp_path: Path, capsys) -> None:
    x, y = pair()
    with pytest.raises(DataError, match=r"30.*at least 50"):
        align(x[:30], y[:30])
    with pytest.raises(UsageError, match=r"holdout 390.*400"):
        align(x, y, holdout=390)
    x[3, 2] = np.nan
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    words = ("align", str(tmp_path / "x.npy"), str(tmp_path / "y.npy"), "-o", str(tmp_path / "map.safetensors"))
    code, out, err = run(*words, capsys=capsys)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "NaN" in err
    assert not (tmp_path / "map.safetensors").exists()


def test_the_command_writes_a_map_that_transform_applies(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = pair()
    np.save("old.npy", x)
    np.save("new.npy", y)
    words = ["align", "old.npy", "new.npy", "-o", "map.safetensors", "--no-curve", "--json", "r.json", "--fail-if"]
    code, out, err = run(*words, "recall_10 < 0.99", capsys=capsys)
    assert code == 1
    assert "recall_10" in err
    assert "map: map.safetensors" in out
    assert run("transform", "map.safetensors", "old.npy", "-o", "Y.npy", "--quiet", capsys=capsys)[0] == 0
    kept = Aligned.load("map.safetensors")
    assert kept.result == load("r.json")
    np.testing.assert_allclose(np.load("Y.npy"), kept.map(x), rtol=1e-9)
    assert run(*words, "advice == map", "--quiet", capsys=capsys)[0] == 0


def test_every_use_has_its_recall_and_advice(found: Aligned) -> None:
    for way in found.result.ways:
        assert [(each.use, each.metric) for each in way.uses] == [
            (use, metric) for use in ("stored", "queries") for metric in ("cosine", "euclidean")
        ]
        assert way.advice == way.uses[0].advice
        assert [each.recall_10 for each in way.uses[2:]] == [each.recall_10 for each in way.queries]
        assert {each.index for each in way.uses} == {way.queries[0].index}
        assert way.uses[0].recall_10.value < way.stored[0].recall_10.value  # which is of a smaller index
    assert found.result.text.values["recall"] == found.result.ways[0].uses[0].recall_10.value
    older = json.loads(found.result.to_json())
    for way in older["ways"]:
        del way["uses"]
    assert from_json(json.dumps(older)).ways[0].uses == ()


@pytest.mark.parametrize(
    ("advice", "ends", "close"),
    [
        ("keep_old", (0.947, 0.959), True),  # of two directions that are nearly alike
        ("map_and_rerank", (0.951, 0.961), True),
        ("keep_old", (0.951, 0.961), False),  # by another rule
        ("keep_old", (0.93, 0.942), False),
        ("map_and_rerank", (0.97, 0.98), False),
    ],
)
def test_advice_near_its_limit_says_so_with_both_numbers(found: Aligned, advice: Any, ends: Any, close: bool) -> None:
    way = found.result.ways[0]
    first = replace(way.uses[0], index=1000, within_100=Bounded(sum(ends) / 2, ends))
    made = replace(way, advice=advice, uses=(first, *way.uses[1:]), own_within_100=Bounded(0.91))
    answer = _answer(made)
    assert ("within_low" in answer.values) == close
    assert any(own in answer.message for own in ("0.91", "91.0%", "91 %"))
    assert f"{way.own_overlap.value:.0%}"[:-1] in answer.message
    assert (f"{ends[0]:.3f}" in answer.message or f"{ends[0]:.1%}" in answer.message) == close
    assert "within_low" not in _answer(replace(made, uses=way.uses)).values  # 10 in 100 of a small index does not count


def test_labels_with_nothing_found_are_said_and_counts_have_their_whole(found: Aligned) -> None:
    way = found.result.ways[0]
    worse = replace(make_alignment().ways[0].regions[0], of=200)
    for labels, regions, said in (("plate", (), True), (None, (), False), ("plate", (worse,), False)):
        settings = {**found.result.settings, "labels": labels}
        page = markdown(
            replace(found.result, settings=settings, ways=(replace(way, regions=regions), found.result.ways[1]))
        )
        assert ("no label of plate" in page.split("Rows that map worst")[-1].split(f"{way.target} →")[0]) == said
        assert (f"{worse.rows} of 200" in page) == bool(regions)


def test_the_page_names_the_map_that_was_written(found: Aligned) -> None:
    for command, words in (
        ("identifiable align a.npy b.npy -o 'my map.safetensors'", "transform 'my map.safetensors' a.npy"),
        ("identifiable align a.npy b.npy --output=m.safetensors", "transform m.safetensors a.npy"),
        ("identifiable align a.npy b.npy", "transform map.safetensors a.npy"),
    ):
        provenance = replace(found.result.provenance, command=command)
        way = replace(found.result.ways[0], advice="map")
        result = replace(found.result, provenance=provenance, ways=(way, found.result.ways[1]))
        assert words in markdown(result)
