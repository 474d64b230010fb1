"""Screens of cells: what the calls of `deconfound` make of a design before anything is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from identifiable import deconfound
from identifiable.api.screening import Screen, _doses_apart


def dosed(doses: list[float], *, replicated: bool = True, perturbation: str = "compound") -> Screen:
    """Two compounds at some doses and controls, on three plates; where nothing is replicated every plate has doses of its own."""
    drug = np.tile(np.repeat(["a", "b", "DMSO"], len(doses)), 3)
    plate = np.repeat(np.arange(3), 3 * len(doses))
    dose = np.tile(np.tile(doses, 3), 3) + (0 if replicated else 10 * plate)
    metadata = {
        "plate": plate.astype(str),
        "compound": drug,
        "concentration": np.where(drug == "DMSO", 0.0, dose),
    }
    X = np.random.default_rng(0).standard_normal((len(drug), 3))
    return deconfound.screen(X, metadata=metadata, control="DMSO", well="none", perturbation=perturbation)


def codes(opened: Screen) -> set[str]:
    return {alert.code for alert in opened.alerts}


def test_replicated_doses_are_told_apart_and_the_alert_says_of_which_column() -> None:
    pooled = dosed([1.0, 2.0])
    assert "doses_pooled" in codes(pooled)
    apart = _doses_apart(pooled)
    assert codes(apart) == codes(pooled) - {"doses_pooled"} | {"doses_apart"}
    (alert,) = (alert for alert in apart.alerts if alert.code == "doses_apart")
    assert (alert.values["perturbations"], alert.values["dose"], alert.values["columns"]) == (
        2,
        "concentration",
        "compound",
    )
    assert apart.design.roles["perturbation"] == "compound,concentration"
    assert set(apart.design.perturbation.names) == {"DMSO", "a_1", "a_2", "b_1", "b_2"}
    assert set(pooled.design.perturbation.names) == {"DMSO", "a", "b"}
    assert _doses_apart(apart) is apart


@pytest.mark.parametrize(
    ("made", "pooled"),
    [
        ({"doses": [1.0, 2.0], "replicated": False}, True),  # each dose once: they stay pooled
        ({"doses": [1.0]}, False),
        ({"doses": [1.0, 2.0], "perturbation": "compound,concentration"}, False),
    ],
)
def test_doses_that_are_not_replicated_or_part_of_the_name_are_left_as_they_are(
    made: dict[str, Any], pooled: bool
) -> None:
    opened = dosed(**made)
    assert _doses_apart(opened) is opened
    assert ("doses_pooled" in codes(opened)) == pooled
    assert "doses_apart" not in codes(opened)
