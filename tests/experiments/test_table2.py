"""`reproduce table2`: settings, data, and a run small enough for a test, from training to its page."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from builders import MADE_BY
from identifiable._checks import DataError, UsageError
from identifiable.disentanglement import MODES
from identifiable.experiments import EXPERIMENTS, reproduce, table2, traversing
from identifiable.experiments.factor_pictures import DATASETS
from identifiable.results import Table2, from_json
from identifiable.worlds import FactorGrid

TINY: dict[str, Any] = {
    "data": ("sprites",),
    "models": ("ae", "beta-vae", "qlae"),
    "seeds": 2,
    "ae_decays": (0.0, 0.1),
    "resolution": 8,
    "widths": (4,),
    "dense": 16,
    "latents_per_factor": 1,
    "rows": 150,
    "validation": 100,
    "sprite_sizes": (3, 2, 3, 3, 3),
    "scene_sizes": (3, 2, 2, 2, 2, 3),
    "steps": 8,
    "evaluations": 2,
    "batch": 16,
    "psnr_within": 20.0,
}
LEAST = {**TINY, "models": ("ae",), "seeds": 1, "ae_decays": (0.0,), "steps": 2, "evaluations": 1}


class Stopped(Exception):
    """As if someone pressed Ctrl-C."""


def run(
    *, say: Any = None, progress: Any = None, checkpoint: Path | None = None, seed: int = 0, **changes: Any
) -> Table2:
    found = reproduce(
        "table2",
        changes={**TINY, **changes},
        seed=seed,
        checkpoint=None if checkpoint is None else str(checkpoint),
        say=say,
        progress=progress,
        command=MADE_BY.command,
    )
    assert isinstance(found, Table2)
    assert found.provenance.command == MADE_BY.command
    return replace(found, provenance=MADE_BY)  # whose time is always the same


def least(**changes: Any) -> Table2:
    return run(**{**LEAST, **changes})


def alerts(found: Table2) -> dict[str, dict[str, Any]]:
    return {alert.code: alert.values for alert in found.alerts}


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return []


@pytest.fixture(scope="module")
def tiny(lines: list[str]) -> Table2:
    return run(say=lines.append)


# -- what is run and what comes out


def test_every_fit_is_run_from_every_seed_and_evaluated_as_often_as_asked(tiny: Table2) -> None:
    fits = [("ae", None, 0.0), ("ae", None, 0.1), ("beta-vae", "beta", 0.0), ("qlae", None, 1e-3)]
    assert [(r.model, r.knob, r.weight_decay, r.seed) for r in tiny.runs] == [(*f, s) for f in fits for s in (0, 1)]
    for found in tiny.runs:
        assert (found.steps, found.stopped) == (8, "max_epochs")
        assert [e.step for e in found.evaluations] == [4, 8]
        assert math.isnan(found.value) is (found.knob is None)
    assert len({r.evaluations[-1].psnr for r in tiny.runs}) == len(tiny.runs)


def test_a_line_is_said_for_every_run(tiny: Table2, lines: list[str]) -> None:
    assert len(lines) == len(tiny.runs) == 8
    assert [line.split(":")[0] for line in lines] == [f"run {k}/8" for k in range(1, 9)]
    last = tiny.runs[5].evaluations[-1]
    parts = (
        "sprites",
        "beta-VAE",
        "beta 1",
        "seed 1",
        "8 steps",
        f"{last.psnr:.1f} dB",
        f"{last.scores['none']['infom']:.2f}",
    )
    assert all(part in lines[5] for part in parts)
    assert all(mode in lines[0] for mode in MODES)


# -- the same again, and going on


def test_a_run_stopped_between_and_within_models_goes_on_to_the_same_result(tiny: Table2, tmp_path: Path) -> None:
    def stop_after(many: int) -> Any:
        calls: list[Any] = []

        def stop(*call: Any) -> None:
            calls.append(call)
            if len(calls) == many:
                raise Stopped

        return stop

    with pytest.raises(Stopped):
        run(checkpoint=tmp_path, say=stop_after(2))
    with pytest.raises(Stopped):
        run(checkpoint=tmp_path, progress=stop_after(5))  # the first epoch of a model of the third fit
    trained: list[Any] = []
    again = run(checkpoint=tmp_path, progress=lambda *call: trained.append(call))
    assert again.to_json() == tiny.to_json()
    assert 0 < len(trained) == 16 - 4 - 5
    assert sorted(p.name for p in (tmp_path / "sprites").iterdir()) == [
        "ae,decay=0,hsu-standalone",
        "ae,decay=0.1,hsu-standalone",
        "beta-vae,beta=1,decay=0,hsu-standalone",
        "qlae,decay=0.001,hsu-standalone",
    ]
    trained.clear()
    assert run(checkpoint=tmp_path, progress=lambda *call: trained.append(call)).to_json() == tiny.to_json()
    assert trained == []


def test_a_checkpoint_of_another_seed_or_other_settings_is_refused(tmp_path: Path) -> None:
    least(checkpoint=tmp_path)
    with pytest.raises(DataError, match="checkpoint of other"):
        least(checkpoint=tmp_path, seed=1)
    with pytest.raises(DataError, match="checkpoint of other"):
        least(checkpoint=tmp_path, learning_rate=0.5)


# -- what goes wrong


def test_where_ica_fails_its_row_is_empty_and_an_alert_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    real = table2.ica_step

    def refuse_literal(latents: Any, *, mode: Any, seed: int) -> Any:
        if mode == "literal":
            raise DataError("latents: FastICA (literal) found no rotation.")
        return real(latents, mode=mode, seed=seed)

    monkeypatch.setattr(table2, "ica_step", refuse_literal)
    found = least()
    cells = {row: found.cell(row, "sprites") for row in ("AE", "AE + ICA", "AE + ICA (literal)")}
    assert [math.isnan(c.infom.mean) for c in cells.values() if c is not None] == [False, False, True]
    assert alerts(found)["ica_failed"] == {"mode": "literal", "failed": 1, "evaluations": 1}
    assert alerts(found)["no_scores"]["cells"] == [f"{list(cells)[-1]} on sprites"]
    monkeypatch.undo()
    assert {"ica_failed", "no_scores"}.isdisjoint(alerts(least()))


def test_a_traversal_that_cannot_be_drawn_does_not_cost_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise DataError("latents: no rotation.")

    monkeypatch.setattr(traversing, "ica_step", refuse)
    found = least()
    assert found.traversals == ()
    assert alerts(found)["no_traversals"] == {"name": "sprites", "error": "latents: no rotation."}
    assert found.lift() is not None
    monkeypatch.undo()
    assert len(least().traversals) == 2


def test_where_training_diverges_there_is_a_result_that_says_so() -> None:
    said: list[str] = []
    found = least(learning_rate=1e30, models=("ae", "beta-vae"), steps=4, evaluations=2, say=said.append)
    assert {r.stopped for r in found.runs} == {"diverged"}
    assert alerts(found)["diverged"] == {"diverged": 2, "runs": 2}
    assert [line.rpartition(": ")[2] for line in said] == ["diverged", "diverged"]
    assert found.traversals == ()
    assert isinstance(from_json(found.to_json()), Table2)
    assert "diverged" not in alerts(least())


# -- data


def test_both_worlds_are_tables_of_their_own_and_one_together() -> None:
    found = least(data=("scene", "sprites"))
    assert [(i.name, i.n) for i in found.inputs] == [("scene", 144), ("sprites", 150)]
    assert [t.data for t in found.traversals] == ["scene", "scene", "sprites", "sprites"]
    over, *own = [found.cell("AE", data) for data in ("all", "scene", "sprites")]
    assert over is not None
    assert over.infom.mean == pytest.approx(np.mean([c.infom.mean for c in own if c is not None]))


def test_pictures_are_drawn_once_without_repeats_and_have_their_factors() -> None:
    chosen = table2.settings("smoke", TINY)
    grid, draw = table2._source("sprites", chosen, None)
    found = table2._factor_data("sprites", grid, draw, chosen, 0)
    assert (len(found.training), len(found.validation), found.codes.shape) == (150, 100, (100, 5))
    assert len(np.unique(grid.index(found.codes))) == 100
    np.testing.assert_array_equal(found.validation, found.training[:100])
    np.testing.assert_array_equal(found.validation, draw(grid.index(found.codes)))
    assert not np.shares_memory(found.validation, found.training)  # so that training pictures can be let go
    other = table2._factor_data("sprites", grid, draw, chosen, 1)
    assert not np.array_equal(other.codes, found.codes)


GRID = FactorGrid(DATASETS["shapes3d"].grid.names, (2, 2, 2, 2, 2, 2))


def write_shapes3d(folder: Path) -> None:
    """A small file of the published format. The first pixel of a picture is its number, the others are noise."""
    h5py = pytest.importorskip("h5py", reason="the extra `pictures` is not installed")
    pictures = np.random.default_rng(20260302).integers(0, 256, (GRID.n, 64, 64, 3)).astype(np.uint8)
    pictures[:, 0, 0] = np.arange(GRID.n)[:, None]
    with h5py.File(folder / "3dshapes.h5", "w") as file:
        file["images"], file["labels"] = pictures, GRID.codes(np.arange(GRID.n)) * 0.5


AT_64 = {"data": ("shapes3d",), "resolution": 64, "widths": (2, 2, 2, 2), "rows": 64, "validation": 60}


def test_a_published_file_is_found_in_its_folder_and_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shapes3d(tmp_path)
    (tmp_path / "3dshapes.h5.sha256").write_text("")  # not the data set
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(DataError, match=r"3dshapes\.h5"):  # it is not the whole grid
        reproduce("table2", changes={**LEAST, **AT_64}, data=str(tmp_path))
    (tmp_path / "3dshapes.h5.sha256").unlink()
    monkeypatch.setitem(DATASETS, "shapes3d", replace(DATASETS["shapes3d"], grid=GRID))
    chosen = table2.settings("smoke", {**LEAST, **AT_64})
    found = table2._factor_data("shapes3d", *table2._source("shapes3d", chosen, str(tmp_path)), chosen, 0)
    np.testing.assert_array_equal(found.codes, GRID.codes(found.validation[:, 0, 0, 0].astype(int)))
    result = reproduce("table2", changes={**LEAST, **AT_64}, data=str(tmp_path))
    assert isinstance(result, Table2)
    assert (result.inputs[0].name, result.inputs[0].n, result.inputs[0].d) == ("shapes3d", 64, 3 * 64 * 64)
    assert "procedural_data" not in alerts(result)
    assert {c.name: c.source for c in result.choices}["resolution"] == "paper"


@pytest.fixture
def nothing_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        pytest.fail("it was trained before the message")

    monkeypatch.setattr(table2, "_train", refuse)


def refusal(kind: type[Exception], *, folder: Path | None = None, **changes: Any) -> str:
    with pytest.raises(kind) as caught:
        reproduce("table2", changes={**LEAST, **changes}, data=None if folder is None else str(folder))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.usefixtures("nothing_is_trained")
def test_data_that_is_not_there_is_said_before_anything_is_trained(tmp_path: Path) -> None:
    both = {**AT_64, "data": ("sprites", "shapes3d")}
    told = refusal(UsageError, **both)
    assert "--data FOLDER" in told
    assert DATASETS["shapes3d"].url in told
    assert "--set data=sprites,scene" in told
    told = refusal(DataError, folder=tmp_path, **both)
    assert told.startswith(f"{tmp_path}: ")
    assert "'3dshapes'" in told
    assert DATASETS["shapes3d"].url in told
    for name in ("3dshapes.h5", "Old-3dshapes.h5"):
        (tmp_path / name).write_bytes(b"")
    assert "got 3dshapes.h5, Old-3dshapes.h5" in refusal(DataError, folder=tmp_path, **both)
    assert "missing.h5" in refusal(DataError, folder=tmp_path / "missing.h5", **both)


@pytest.mark.usefixtures("nothing_is_trained")
@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"data": ("shapes3d",)}, UsageError, "set resolution=64"),
        ({"resolution": 16}, UsageError, r"widths (4,): expected 2"),
        ({"resolution": 10}, UsageError, "resolution 10"),
        ({"rows": 99}, DataError, "got 99"),
        ({"validation": 170, "rows": 170}, DataError, "170 pictures"),
        ({"sprite_sizes": (3, 2)}, UsageError, "sizes"),
    ],
)
def test_networks_and_data_that_do_not_fit_are_refused_before_anything_is_trained(
    changes: dict[str, Any], kind: type[Exception], words: str
) -> None:
    assert words in refusal(kind, **changes)


# -- settings


@pytest.mark.usefixtures("nothing_is_trained")
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("data", "cifar", "data cifar: "),
        ("data", ("sprites", "sprites"), "data sprites, sprites: "),
        ("data", (), "data : "),
        ("data", 3, "data 3: "),
        ("models", ("ae", "gan"), "models ae, gan: "),
        ("models", ("qlae",), "models ('qlae',): expected ae"),
        ("profile", "hsu", "profile hsu: "),
        ("profile", ("tripod",), "such as hsu-standalone"),
        ("evaluations", 3, "evaluations 3: "),
        ("seeds", 0, "seeds 0: "),
        ("seeds", True, "seeds True: "),
        ("steps", 2.5, "steps 2.5: "),
        ("psnr_within", -1, "psnr_within -1.0: "),
        ("psnr_within", math.nan, "psnr_within nan"),
        ("ae_decays", (), "ae_decays : "),
        ("ae_decays", (0.1, 0.1), "ae_decays 0.1, 0.1: "),
        ("betas", (-1,), "betas -1.0: "),
        ("qlae_decays", (math.inf,), "qlae_decays inf"),
        ("vq_decay", math.nan, "vq_decay nan"),
        ("widths", ("wide",), "widths 'wide': "),
        ("epochs", 3, "'epochs'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, value: Any, words: str) -> None:
    assert words in refusal(UsageError, **{name: value})


def test_words_and_single_values_become_lists_where_lists_are_wanted() -> None:
    chosen = table2.settings("smoke", {"data": "sprites", "models": "ae", "ae_decays": 1, "widths": [4, 8]})
    assert (chosen.data, chosen.models, chosen.ae_decays, chosen.widths) == (("sprites",), ("ae",), (1.0,), (4, 8))
    assert isinstance(chosen.ae_decays[0], float)
    assert chosen.profile == "hsu-standalone"
    assert table2.settings("smoke", {"profile": "tripod"}).profile == "tripod"


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({}, []),
        ({"seeds": 1, "models": ("ae",)}, []),  # a smaller grid, but of the same networks
        ({"steps": 400_000, "widths": (64, 128, 256, 512), "resolution": 128}, []),  # larger
        ({"steps": 40}, ["smaller_than_published"]),
        ({"widths": (4,)}, ["smaller_than_published"]),
        ({"resolution": 8}, ["smaller_than_published"]),
        ({"data": ("sprites",), "resolution": 8}, ["procedural_data", "smaller_than_published"]),
    ],
)
def test_networks_that_differ_from_the_published_ones_are_an_alert(changes: dict[str, Any], codes: list[str]) -> None:
    chosen = replace(table2.Settings(data=("shapes3d",)), **changes)
    found = {alert.code: alert.values for alert in table2._alerts([], chosen)}
    assert list(found) == codes
    if "smaller_than_published" in codes:
        used = {"steps": chosen.steps, "widths": list(chosen.widths), "resolution": chosen.resolution}
        assert found["smaller_than_published"] == used


def test_a_grid_names_every_fit_once() -> None:
    chosen = table2.settings("paper", {})
    fits = [fit for model in chosen.models for fit in table2.GRIDS[model](chosen)]
    assert [sum(f.model == m for f in fits) for m in chosen.models] == [10, 5, 5, 2, 1, 1, 3]
    assert len({f.name for f in fits}) == len(fits)
    assert {f.weight_decay for f in fits if f.model == "bioae"} == {table2.BIOAE_DECAY}
    assert [(f.kind, f.weight_decay) for f in fits if f.model.startswith("vq")] == [("vq-vae", 0.0), ("vq-vae", 0.01)]


def test_presets_and_the_paper_file_name_real_settings() -> None:
    published = EXPERIMENTS["table2"].settings
    for scale in EXPERIMENTS["table2"].scales:
        evaluations = 1  # a divisor of any number of steps
        assert table2.settings(scale, {**published, "evaluations": evaluations}).steps == published["steps"]
    at_paper = {c.name: c.source for c in table2.choices(table2.settings("paper", {}), published)}
    assert {name for name, source in at_paper.items() if source == "paper"} == set(published)
    at_smoke = {c.name: c.source for c in table2.choices(table2.settings("smoke", {}), published)}
    assert at_smoke["steps"] == "ours"
    rows = json.loads(json.dumps(EXPERIMENTS["table2"].published["rows"]))
    assert {len(values) for values in rows.values()} == {len(EXPERIMENTS["table2"].published["columns"])}
