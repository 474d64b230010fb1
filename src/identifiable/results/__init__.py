"""Results: frozen data from which every table, page and line of the command line is drawn.

A result is plain numbers and words. It goes to JSON and comes back unchanged, so a page can be drawn
again from a file, byte for byte.
"""

from __future__ import annotations

from identifiable.results.comparison import (
    Comparison,
    Consensus,
    ConsensusDistance,
    Efficiency,
    ErrorMatrix,
    Errors,
    Null,
    PairResult,
    Rung,
    Scale,
    Similarity,
    Solver,
    Spectrum,
    Verdict,
    WorstRow,
)
from identifiable.results.disentanglement import (
    AfterICA,
    Disentanglement,
    Factor,
    FactorLatentMatrix,
    Metric,
    NoisePoint,
    ScoreNull,
)
from identifiable.results.distortion import Distortion, RandomDirections, Summary, SupremumEstimate, WorstCase
from identifiable.results.record import Alert, Input, Interval, Provenance, Shown, without_time
from identifiable.results.reproduction import (
    Choice,
    Constants,
    Distances,
    Fit,
    Leak,
    PairRun,
    Reproduction,
)
from identifiable.results.resolution import (
    Component,
    ComponentMatch,
    JointResolution,
    Resolution,
    Start,
    Step,
    Tie,
    UnresolvedPair,
    Whitening,
)
from identifiable.results.serial import SCHEMAS, from_json, to_json
from identifiable.results.table2 import Cell, Estimate, Evaluation, Lift, ModelRun, Table2, Traversal
from identifiable.results.writing import whole_file, write_text, write_texts

__all__ = [
    "AfterICA",
    "Alert",
    "Cell",
    "Choice",
    "Comparison",
    "Component",
    "ComponentMatch",
    "Consensus",
    "ConsensusDistance",
    "Constants",
    "Disentanglement",
    "Distances",
    "Distortion",
    "Efficiency",
    "ErrorMatrix",
    "Errors",
    "Estimate",
    "Evaluation",
    "Factor",
    "FactorLatentMatrix",
    "Fit",
    "Input",
    "Interval",
    "JointResolution",
    "Leak",
    "Lift",
    "Metric",
    "ModelRun",
    "NoisePoint",
    "Null",
    "PairResult",
    "PairRun",
    "Provenance",
    "RandomDirections",
    "Reproduction",
    "Resolution",
    "Rung",
    "Scale",
    "ScoreNull",
    "Shown",
    "Similarity",
    "Solver",
    "Spectrum",
    "Start",
    "Step",
    "Summary",
    "SupremumEstimate",
    "Table2",
    "Tie",
    "Traversal",
    "UnresolvedPair",
    "Verdict",
    "Whitening",
    "WorstCase",
    "WorstRow",
    "from_json",
    "to_json",
    "whole_file",
    "without_time",
    "write_text",
    "write_texts",
]

SCHEMAS.update(
    {
        "identifiable/compare/1": Comparison,
        "identifiable/resolve/1": Resolution,
        "identifiable/resolve-joint/1": JointResolution,
        "identifiable/bilipschitz/1": Distortion,
        "identifiable/reproduce/1": Reproduction,
        "identifiable/reproduce-table2/1": Table2,
        "identifiable/disentangle/1": Disentanglement,
    }
)
