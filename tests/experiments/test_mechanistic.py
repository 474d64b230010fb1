"""Slot autoencoders: what is trained, found and scored at the smallest size; the oracle; the table of sparsity gaps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders import make_mechanistic
from identifiable._checks import UsageError
from identifiable.cli.conditions import Condition
from identifiable.experiments import EXPERIMENTS, mechanistic, reproduce
from identifiable.options import ReproduceOptions
from identifiable.results import Mechanistic, from_json, without_time

COMMITTED = Path(__file__).parents[2] / "benchmarks/results/mechanistic_small.json"
TINY: dict[str, Any] = {
    "seeds": 1, "hidden": 24, "steps": 100, "penalty_steps": 5, "scratch_steps": 5, "rows": 600, "scored": 200, "points": 20,
}  # fmt: skip


@pytest.fixture(scope="module")
def tiny() -> Mechanistic:
    pytest.importorskip("torch")
    found = reproduce("mechanistic", scale="smoke", changes=TINY)
    assert isinstance(found, Mechanistic)
    return found


def test_every_condition_has_a_model_and_the_scores_of_every_way(tiny: Mechanistic) -> None:
    assert [(m.slots, m.dependence, m.seed) for m in tiny.models] == [(2, 0.0, 0), (2, 0.7, 0)]
    ways = {"true", "raw", "ica", "found", "then_penalty", "penalty"}
    for dependence, draws in ((0.0, "independent"), (0.7, "independent"), (0.7, "own")):
        assert {s.way for s in tiny.scores if (s.dependence, s.draws) == (dependence, draws)} == ways
    assert not [s for s in tiny.scores if (s.dependence, s.draws) == (0.0, "own")]
    assert all(sum(m.dimensions) == 4 and m.loss < 0.5 for m in tiny.models)
    assert {s.way for s in tiny.scores if s.contrast is None} >= {"true", "ica"}
    raw = next(s for s in tiny.scores if s.way == "raw")
    assert raw.contrast is not None
    assert 0 < raw.contrast <= 1.5


def test_true_latents_score_highest_and_less_on_dependent_draws(tiny: Mechanistic) -> None:
    for dependence in (0.0, 0.7):
        own = {s.way: s.sis for s in tiny.scores if (s.dependence, s.draws) == (dependence, "independent")}
        assert own["true"] == max(own.values()) > 0.9
    dependent = {s.draws: s.sis for s in tiny.scores if (s.dependence, s.way) == (0.7, "true")}
    assert dependent["own"] < dependent["independent"] - 0.2


def test_settings_alerts_and_differences_are_recorded(tiny: Mechanistic) -> None:
    assert tiny.settings["hidden"] == 24
    assert [alert.code for alert in tiny.alerts] == ["stand_in"]
    assert {c.name: c.source for c in tiny.choices}["slot_outputs"] == "ours"
    assert {c.name: c.paper for c in tiny.choices}["slot_outputs"] == 20
    by_way = {(s.dependence, s.way): s.sis for s in tiny.scores if s.draws == "independent"}
    lift = np.mean([by_way[d, "found"] - by_way[d, "raw"] for d in (0.0, 0.7)])
    assert tiny.lift.mean == pytest.approx(lift)
    assert tiny.over_ica is not None
    assert tiny.over_ica.mean == pytest.approx(by_way[0.7, "found"] - by_way[0.7, "ica"])
    assert from_json(tiny.to_json()).to_json() == tiny.to_json()


def test_a_checkpoint_gives_the_same_scores_again(tiny: Mechanistic, tmp_path: Path) -> None:
    told: list[str] = []
    kept = {
        "scale": "smoke",
        "changes": {**TINY, "dependences": (0.0,), "scratch_steps": 0},
        "checkpoint": str(tmp_path),
    }
    first, again = (reproduce("mechanistic", **kept, say=told.append) for _ in range(2))
    assert replace(without_time(first), provenance=again.provenance) == replace(again, provenance=again.provenance)
    assert len(list(tmp_path.iterdir())) == 2
    assert isinstance(again, Mechanistic)
    assert again.over_ica is None
    assert "penalty" not in {s.way for s in again.scores}
    assert len(told) == 6


def test_the_expected_time_is_said_before_anything_is_trained() -> None:
    said = {scale: mechanistic.expected(mechanistic.settings(scale, {}), True) for scale in mechanistic.PRESETS}
    assert said["paper"].startswith("150 ")
    assert "27 h" in said["paper"]
    assert "11 min" in said["small"]
    assert "--checkpoint" in mechanistic.expected(mechanistic.settings("paper", {}), False)

    class Stop(Exception):
        pass

    def stop(line: str) -> None:
        raise Stop(line)

    with pytest.raises(Stop, match="27 h"):
        reproduce("mechanistic", scale="paper", say=stop)


def test_owners_of_outputs_give_the_nearest_basis_where_points_differ_in_theirs() -> None:
    rng = np.random.default_rng(3)
    J = np.zeros((30, 16, 4))
    J[:, :8, :2], J[:, 8:, 2:] = rng.standard_normal((2, 30, 8, 2))
    turned = J @ (np.eye(4) + 0.1 * rng.standard_normal((30, 4, 4)))  # another basis at each point

    class Local:
        owners, n_factors = np.repeat([0, 1], 8), 2

    for given, most in ((J, 1e-6), (turned, 0.3)):
        parts = mechanistic.nearest_subspaces(given, Local())  # type: ignore[arg-type]
        assert [part.shape for part in parts] == [(4, 2), (4, 2)]
        off = [
            np.linalg.norm(part[rest]) / np.linalg.norm(part)
            for part, rest in zip(parts, ([2, 3], [0, 1]), strict=True)
        ]
        assert max(off) < most


def test_the_oracle_puts_shuffled_components_back_and_keeps_the_sizes_of_slots() -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(-1, 1, (600, 5))
    order = [3, 0, 4, 2, 1]
    groups = mechanistic.oracle_groups(truth[:, order] ** 3, truth, [[0, 1, 2], [3, 4]], seed=0)
    assert [sorted(order[j] for j in group) for group in groups] == [[0, 1, 2], [3, 4]]
    noise = mechanistic.oracle_groups(rng.standard_normal((600, 5)), truth, [[0, 1, 2], [3, 4]], seed=0)
    assert sorted(map(len, noise)) == [2, 3]


def test_uniform_latents_have_variance_1_and_keep_the_dependence() -> None:
    chosen = mechanistic.settings("smoke", {"rows": 20_000})
    made = mechanistic.Made.of(chosen, 2, 0.0, 0.7, seed=0, root=0)
    own, _ = made.drawn(20_000, "own", 5)
    independent, rows = made.drawn(20_000, "independent", 5)
    assert own.std(axis=0) == pytest.approx([1] * 4, abs=0.02)
    assert np.abs(own).max() <= 3**0.5
    assert np.corrcoef(own.T)[0, 2] == pytest.approx(6 / np.pi * np.arcsin(0.35), abs=0.02)
    assert abs(np.corrcoef(independent.T)[0, 2]) < 0.03
    assert rows.dtype == np.float32
    assert made.rows.std() == pytest.approx(1, rel=1e-3)
    normal = mechanistic.Made.of(replace(chosen, law="normal"), 2, 0.0, 0.7, seed=0, root=0)
    assert np.abs(normal.drawn(20_000, "own", 5)[0]).max() > 3


def test_sparsity_gaps_are_their_closed_forms() -> None:
    gaps = list(mechanistic.sparsity_gaps(np.random.default_rng(1)))
    assert [g.gap for g in gaps if g.kind == "proportional"] == [6, 4, 2, 0]
    assert all(g.gap == g.formula for g in gaps)
    assert [g.gap for g in gaps if g.kind == "generic"] == [6, 4, 3, 2, 1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seeds", 0), ("steps", 7), ("slots", (1,)), ("overlaps", (1.0,)), ("dependences", (-0.1,)), ("law", "cauchy"),
        ("schedule", "steps"), ("penalty", 0.0), ("slot_outputs", 1), ("scored", 5),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name):
        mechanistic.settings("smoke", {name: value})


def test_paper_settings_are_the_published_ones() -> None:
    chosen = mechanistic.settings("paper", {})
    published = EXPERIMENTS["mechanistic"].settings
    assert {k: tuple(v) if isinstance(v, list) else v for k, v in published.items()} == {
        k: getattr(chosen, k) for k in published
    }
    assert ReproduceOptions().scale == "smoke"


@pytest.mark.parametrize(
    ("gate", "fails"),
    [("right < 0.9", True), ("right < 0.5", False), ("lift.mean < 0.4", False), ("over_ica.ci95.low < 0.46", True)],
)
def test_gates_read_the_share_of_right_models_and_the_differences(gate: str, fails: bool) -> None:
    condition = Condition.parse(gate, Mechanistic, "right < 0.9")
    assert bool(list(condition.failures(make_mechanistic()))) is fails


def test_the_committed_table_shows_what_the_page_says() -> None:
    kept = from_json(COMMITTED.read_text())
    assert isinstance(kept, Mechanistic)
    assert len(kept.models) == 40
    assert kept.right >= 0.9
    assert kept.lift.mean >= 0.4
    assert kept.over_ica is not None
    assert kept.over_ica.mean >= 0.3
    assert {c.name for c in kept.choices} == set(json.loads(COMMITTED.read_text())["settings"]) - {
        "experiment",
        "scale",
        "seed",
    }
