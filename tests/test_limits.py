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
    "identifiability.pairs": {
        "CHANCE_LEVEL": 0.05,
        "WORST_ROWS": 10,
        "LEAST_TRAINING": 10,
        "SVCCA_COMPONENTS": (16, 64, 256, 768),
    },
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


# How far a fit searches, and what it takes for rounding: what is found depends on these. Whoever moves one runs benchmarks/ica.py,
# ica_gaussian.py, layers.py or mechanisms.py again.
COURSE = {
    "bounds": {"THRESHOLDS": 4000},
    "ica.auditing": {
        "LEAST_SPREAD": 1e-06,
        "SADDLE": 4.0,
        "AUDIT_ROWS": 10000,
        "AUDIT_CLIP": 4.0,
        "AUDIT_PAIRS": 4,
        "KURTOSIS_GAIN": 0.05,
        "AUDIT_GAIN": 0.002,
        "FAR_PAIR": 0.1,
        "FAR_ERRORS": 6.0,
    },
    "ica.contrasts": {"FEW": 262144},
    "ica.diagnostics": {"NO_ERROR": 1e-12, "PAIR_ROWS": 40000, "LISTED_PAIRS": 4, "FLAT": 1e-06},
    "ica.fitting": {
        "AGREEING": 3,
        "SAME_CONTRAST": 1e-06,
        "RESTART_OPERATIONS": 200000000000.0,
        "TYPICAL_PASSES": 40,
        "DISPUTE_OPERATIONS": 1200000000000.0,
        "MOST_STARTS": 24,
        "FEWER_PAIR_ROWS": 5000,
        "FINER": 0.005,
    },
    "ica.joint": {"TEST_ROWS": 2000},
    "ica.passes": {"SUMMED_ROWS": 512},
    "ica.refits": {"REFIT_STARTS": 2, "MANY_OPTIMA": 0.5, "DOUBTFUL": 0.125},
    "ica.resolving": {"PICTURE_ROWS": 10000, "NEIGHBOURS": 5000},
    "ica.search": {
        "SETTLED": 0.01,
        "THOROUGH": 1e-05,
        "TOGETHER": 0.0001,
        "MAX_TOGETHER": 150,
        "MAX_APART": 300,
        "STALLED": 40,
        "SHRUNK": 0.75,
        "LOST": 0.5,
        "MIN_ROWS": 20000,
        "EARLY": 0.2,
        "ROWS_PER_SQUARE": 8,
        "SEARCH_ROWS": 200000,
        "NEARLY_EVERY": 0.7,
        "ROUND": 8,
        "GROWING": 1.05,
        "BEGUN": 3,
        "WAITING": 0.7,
        "FEW": 0.08,
        "MORE": 4,
        "HELD": 0.5,
        "HANDFUL": 0.02,
        "MAX_ROUNDS": 60,
        "MAX_IDLE": 6,
        "IDLE_PASSES": 0.1,
        "OUTER": 4,
        "NARROW": 8,
    },
    "ica.solver": {
        "SAMPLE_ROWS": 20000,
        "MAX_POLISH": 150,
        "OUTSTANDING": 10,
        "MUCH": 0.2,
        "FAR_TURN": 0.05,
        "LOOSE": 0.001,
        "MEMORY": 10,
        "MANY": 64,
        "STEADY": 0.05,
        "MOST_MOMENTUM": 0.25,
        "SMALL_TURN": 0.01,
        "NOT_SKEW": 1e-06,
        "NEAR": 0.5,
        "STAGNANT": 2,
        "AT_LIMIT": 1e-06,
        "SURE": 0.3,
        "CURVED": 0.05,
        "MIN_CURVATURE": 0.01,
        "MAX_TURN": 0.5,
        "OVERSHOT": 2.0,
        "NEGLIGIBLE": 0.001,
        "NEARLY": 0.001,
        "FOUND_BACK": 2,
        "MAX_AUDITS": 4,
        "WEAK_ROWS": 100000,
        "UNTANGLED": 1e-07,
    },
    "ica.whitening": {"CENTER_NOISE": 0.0001, "FUSED_NOISE": 0.001},
    "identifiability.agreement": {"LEAST": 1e-15},
    "identifiability.comparison": {"MAX_ITERATIONS": 500, "TOLERANCE": 1e-09},
    "identifiability.ladder": {"ROUNDING": 1e-13, "LEAST_FREE": 0.5},
    "identifiability.layer_measures": {"SVCCA_NULL_ROWS": 40, "MAP_NULL_ROWS": 2048},
    "identifiability.layers": {"COMPONENTS": 256, "ROWS_PER_COMPONENT": 10, "FEWEST_ROWS": 4, "ROUNDING": 1e-09},
    "identifiability.neighbours": {"_FOLDS": 10},
    "identifiability.pairs": {"FLOAT32_BELOW": 8.0},
    "identifiability.shared": {"TOLERANCE": 1e-05},
    "mechanistic.counting": {
        "SOFTNESS": 0.5,
        "EXPLAINED_ELSEWHERE": 0.6,
        "RESAMPLES": 10,
        "DRAWS": 3,
        "LEAST_POINTS": 5,
        "LEFT_OUT": 0.15,
        "EMPTY": 1e-09,
    },
    "mechanistic.exact": {"ROUNDING": 8.0, "LEAST_GAP": 3.0, "RANK": 10.0},
    "mechanistic.factors": {"OUTPUTS": 1500},
    "mechanistic.operator": {"STEPS": 100, "MOST": 0.5, "LEAST_STEP": 0.01, "WEIGHING": 30},
    "mechanistic.scores": {"CANDIDATES": 200000, "ZERO": 1e-09, "DIRECTIONS": 8},
    "moments": {"ROUNDING": 1e-13},
}


@pytest.mark.parametrize("module", LIMITS)
def test_limits_are_those_that_were_shown(module):
    found = importlib.import_module(f"identifiable.{module}")
    assert {name: getattr(found, name) for name in LIMITS[module]} == LIMITS[module]


@pytest.mark.parametrize("module", COURSE)
def test_what_decides_the_course_of_a_fit_is_what_was_measured(module):
    found = importlib.import_module(f"identifiable.{module}")
    assert {name: getattr(found, name) for name in COURSE[module]} == COURSE[module]
