"""Tables 3, 4 and 7 run again: on the simulated screen, and from files as RxRx3-core has them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from identifiable._checks import DataError, UsageError
from identifiable.api import load
from identifiable.cli import main
from identifiable.experiments import EXPERIMENTS, reproduce, table3
from identifiable.report import html, markdown, text_table
from identifiable.results import Table3
from identifiable.worlds import cells

pytest.importorskip("lightgbm")
pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")

QUICK = {"genes": ("SRC",), "folds": 3, "rotations": 1, "null_guides": 0, "bootstrap": 50, "percents": (25.0,)}


def world(preset="", *, seed=0):
    """A screen with as many wells of each gene as are asked for, and few others."""
    return cells("tiny", seed=seed, experiments=8)


@pytest.fixture(scope="module", autouse=True)
def few_wells():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table3, "cells", world)
        yield


@pytest.fixture(scope="module")
def simulated():
    return reproduce("table3", changes=QUICK)


def test_a_simulated_screen_is_labelled_so_everywhere(simulated):
    assert simulated.simulated
    assert any(alert.code == "simulated" for alert in simulated.alerts)
    for shown in (html(simulated), markdown(simulated), text_table(simulated)):
        assert "simulated" in shown


def test_lines_of_a_gene_are_means_over_folds(simulated):
    lines = {score.representation: score for score in simulated.genes}
    assert set(lines) == {"base", "pca", "ica", "rand"}
    for name, line in lines.items():
        folds = [
            s.auroc
            for s in simulated.evaluation.scores
            if (s.representation, s.classifier, s.target) == (name, "lightgbm", "SRC_guide_1")
        ]
        assert len(folds) == 3
        assert line.auroc == pytest.approx(np.mean(folds))
        assert line.se == pytest.approx(np.std(folds, ddof=1) / np.sqrt(3))
        assert line.n_splits > 0
        assert line.hoyer > line.hoyer_null > 0


def test_concentration_has_every_candidate_of_the_lost_formula(simulated):
    assert {c.representation for c in simulated.concentration} == {"base", "pca", "ica", "rand"}
    for c in simulated.concentration:
        assert c.difference == pytest.approx(c.top - c.rest)
        assert c.gini == pytest.approx(2 * c.difference)
        assert c.ratio == pytest.approx(c.top / c.rest - 1)


def test_files_as_they_are_published_give_what_the_same_rows_give(simulated, tmp_path):
    screen = world()
    order = np.random.default_rng(0).permutation(screen.n)
    columns = [f"feature_{j}" for j in range(screen.X.shape[1])]
    rows = {"well_id": screen.metadata["well_id"][order].tolist()}
    pq.write_table(
        pa.table({**rows, **{name: screen.X[order, j] for j, name in enumerate(columns)}}),
        tmp_path / "embeddings.parquet",
    )
    names = [name for name in screen.metadata if name != "cell_count"]
    lines = [
        ",".join(names),
        *(",".join(map(str, row)) for row in zip(*(screen.metadata[n] for n in names), strict=True)),
    ]
    (tmp_path / "metadata_rxrx3_core.csv").write_text("\n".join(lines).replace("nan", "") + "\n")
    found = reproduce("table3", scale="paper", data=str(tmp_path), changes={**QUICK, "seeds": 1, "stricter": 1})
    assert not found.simulated
    assert found.stricter is not None
    assert {s.held_out for s in found.stricter.scores if s.representation == "ica"} == {"batch"}
    assert found.evaluation.design.plates == simulated.evaluation.design.plates
    ours, theirs = ({s.representation: s.auroc for s in result.genes} for result in (found, simulated))
    assert ours["ica"] == pytest.approx(theirs["ica"], abs=0.15)  # other folds, since rows are in another order
    assert "<svg" in html(found)


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(UsageError, match="--data"):
        reproduce("table3", scale="paper")
    with pytest.raises(DataError, match="metadata_rxrx3_core"):
        reproduce("table3", scale="paper", data=str(tmp_path))
    with pytest.raises(DataError, match="NOSUCHGENE"):
        reproduce("table3", changes={**QUICK, "genes": ("NOSUCHGENE",)})
    with pytest.raises(UsageError, match="folds"):
        table3.settings("smoke", {"folds": 1})


def test_it_is_listed_and_gated_on_the_command_line(simulated, tmp_path, monkeypatch, capsys):
    assert "table3" in EXPERIMENTS
    monkeypatch.setattr(table3, "run", lambda *_, **__: replace(simulated, gain_ci95=(-0.1, 0.2)))
    words = ["reproduce", "table3", "--quiet", "--json", str(tmp_path / "t3.json")]
    assert main([*words, "--fail-if", "gain_low < 0"]) == 1
    assert main([*words, "--fail-if", "gain_high < 0"]) == 0
    assert json.loads((tmp_path / "t3.json").read_text())["schema"] == "identifiable/reproduce-table3/1"
    assert isinstance(load(tmp_path / "t3.json"), Table3)
    assert main([*words, "--fail-if", "lift < 0"]) == 2
    capsys.readouterr()
