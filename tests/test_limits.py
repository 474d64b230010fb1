"""Limits that decide what a reader is told. Each was chosen on some data and shown on others (docs/theory.md): none moves by accident."""

from __future__ import annotations

import importlib

import pytest

LIMITS = {
    "identifiability.judgement": {"CLEAR": 0.95, "SOMETHING": 0.05, "SAME": 0.9, "MIN_WAY": 0.01},
    "identifiability.shared": {"STRONG": 0.9, "PARTLY": 0.5, "FEW_ROWS": 4, "SHUFFLE_ABOVE": 0.4, "CHANCE_DRAWS": 19},
    "identifiability.axes": {"MATCHED": 0.95, "LEAST_ROWS": 100, "SURE_ROWS": 200, "LEAST_OWN": 0.5, "TURNS": 12},
    "identifiability.layers": {"LEVEL": 0.05, "MAP_LEVEL": 0.01, "HALF": 0.5, "FEW_ROWS": 10, "FEWEST_DEPTHS": 5},
    "identifiability.moved": {"LEVEL": 0.05, "FEWEST_ROWS": 5, "DRAWS": 99, "FEWEST_DRAWS": 19},
    "identifiability.neighbours": {"NEIGHBOURS": 10, "ALIKE": 0.02, "GROWTH": 1.5, "QUERIES": 64, "SAMPLE_ROWS": 1000},
    "identifiability.pairs": {"CHANCE_LEVEL": 0.05, "WORST_ROWS": 10, "SVCCA_COMPONENTS": (16, 64, 256, 768)},
    "identifiability.trend": {"FEWEST": 4, "RESAMPLES": 1000},
    "groups": {"RANK_TOLERANCE": 1e-12, "GRAM_TOLERANCE": 1e-6, "REFINE_ABOVE": 1e4},
    "bounds": {"LARGEST_D": 64, "GAUSSIAN_LOG_COSH": 0.3745672074914382},
    "ica.canonical": {"CERTAIN_SKEW": 3.0, "UNCERTAIN_SKEW": (2.0, 4.5)},
    "ica.chance": {"GAUSSIAN_LEVEL": 1e-3, "MOST_ANGLE": 0.3},
    "ica.diagnostics": {
        "PAIR_ANGLE": 0.25,
        "LEAST_STABILITY": 0.93,
        "WORST_STABILITY": 0.85,
        "LEAST_MARGIN": 2.5,
        "MOST_RESIDUAL": 0.05,
        "MOST_IN_ONE_ROW": 0.2,
        "TIE": 3.0,
    },
    "ica.joint": {"SHARED_ABOVE": 0.8, "SHARED_P": 0.01, "DRAWS": 200},
    "ica.resolving": {"FEW_ROWS": 10, "OUTLIER_SHARE": 0.05, "START_GAP": 1e-3, "ALIKE": 0.2, "ROUNDING": 0.1},
    "mechanistic.counting": {
        "REAL": 0.6,
        "SEPARATED": 0.3,
        "EXPLAINED": 0.8,
        "EXPLAINED_ONE": 0.85,
        "AGREED": 0.8,
        "FEW": 4,
    },
    "mechanistic.factors": {"OWNED": 0.9, "LOOKED_AT": 20},
    "mechanistic.scores": {"ACTIVE": 1e-2},
}


@pytest.mark.parametrize("module", LIMITS)
def test_limits_are_those_that_were_shown(module):
    found = importlib.import_module(f"identifiable.{module}")
    assert {name: getattr(found, name) for name in LIMITS[module]} == LIMITS[module]
