"""Two published screens, where their files are there: what is judged, what is said, and how long it takes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from identifiable import deconfound

SHARED = Path("/work/shared/data")


def table(name: str) -> Path:
    pytest.importorskip("pyarrow")
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path


def test_an_audit_of_clones_under_treatments_names_the_clone_as_a_candidate() -> None:
    found = deconfound.screen(table("resistance_cellpainting_2760wells.parquet"))
    assert [(each.column, each.candidate) for each in found.summary.unused] == [("clone_number", True)]
    clones = deconfound.screen(
        table("resistance_cellpainting_2760wells.parquet"), perturbation="clone_number", control="none"
    )
    assert (clones.summary.perturbations, clones.summary.controls) == (35, 0)


def test_a_small_screen_is_evaluated_in_seconds_and_says_how_many_compounds_were_judged() -> None:
    begun = time.process_time()
    result = deconfound.evaluate(
        table("bbbc021_per_well_mean_raw.parquet"), batch="Metadata_week", quick=True, bootstrap=200, workers=1
    )
    assert time.process_time() - begun < 30
    coverage = next(said.values for said in result.told.remarks if said.code == "coverage")
    assert (coverage["judged"], coverage["of"], coverage["wells"]) == (16, 38, 9)
    assert result.verdict == "layout-confounded"  # controls stand in columns of their own
    base = result.condition("base", "ridge")
    assert base is not None
    assert base.auroc > 0.9
