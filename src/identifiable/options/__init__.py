"""What every command can be told: one declaration for each option.

A command's options are a frozen dataclass (`tables`, `screens`, `experiments`); from it come the keywords of the Python call, the
command line, the settings in the JSON, the recorded command and the reference page (`declaring`).
"""

from identifiable.options.declaring import Declared, Option, Options, declared, takes
from identifiable.options.experiments import CellsOptions, ReproduceOptions, Scale, SourcesOptions
from identifiable.options.models import ExtractOptions
from identifiable.options.screens import (
    AttributeOptions,
    AuditOptions,
    CleanOptions,
    CorrectOptions,
    CountOptions,
    EvaluateOptions,
    GroupedOptions,
    HarmonyOptions,
    PlacedCleanOptions,
    PlacedRecommendOptions,
    PositionOptions,
    RecommendOptions,
    ScreenOptions,
    SpheringOptions,
    TvnOptions,
)
from identifiable.options.tables import (
    NULLS,
    RUNGS,
    BilipschitzOptions,
    CompareOptions,
    DecoderOptions,
    DisentangleOptions,
    HeadsOptions,
    IcaOptions,
    LayersOptions,
    MechanismsCommandOptions,
    MechanismsOptions,
    ResolveOptions,
    ScoreOptions,
    TransformOptions,
)

__all__ = [
    "NULLS",
    "RUNGS",
    "AttributeOptions",
    "AuditOptions",
    "BilipschitzOptions",
    "CellsOptions",
    "CleanOptions",
    "CompareOptions",
    "CorrectOptions",
    "CountOptions",
    "Declared",
    "DecoderOptions",
    "DisentangleOptions",
    "EvaluateOptions",
    "ExtractOptions",
    "GroupedOptions",
    "HarmonyOptions",
    "HeadsOptions",
    "IcaOptions",
    "LayersOptions",
    "MechanismsCommandOptions",
    "MechanismsOptions",
    "Option",
    "Options",
    "PlacedCleanOptions",
    "PlacedRecommendOptions",
    "PositionOptions",
    "RecommendOptions",
    "ReproduceOptions",
    "ResolveOptions",
    "Scale",
    "ScoreOptions",
    "ScreenOptions",
    "SourcesOptions",
    "SpheringOptions",
    "TransformOptions",
    "TvnOptions",
    "declared",
    "takes",
]
