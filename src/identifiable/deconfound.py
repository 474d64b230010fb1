"""What is plate, what is biology, and does it hold on plates never seen?

``screen("wells.parquet", control="DMSO")`` opens a table of wells and finds the roles of its columns; `audit` says what its design
allows one to conclude, `recommend` chooses a correction that helps, or none, `evaluate` compares representations on plates held
out, `attribute` says what every component is about, and `clean` takes the technical ones out. All of them take a `Screen` or what
`screen` takes: a path, a DataFrame, an AnnData object, or an array with its metadata.
"""

from identifiable.api.screen_files import save_cleaned, save_corrected, save_recommended, save_scores
from identifiable.api.screening import (
    Attributed,
    Cleaned,
    Recommended,
    Screen,
    attribute,
    audit,
    clean,
    evaluate,
    recommend,
    screen,
)
from identifiable.deconfounding.corrections.registry import CORRECTIONS
from identifiable.deconfounding.design import Design, Labels
from identifiable.deconfounding.evaluation.classifiers import CLASSIFIERS
from identifiable.deconfounding.evaluation.representing import REPRESENTATIONS

__all__ = [
    "CLASSIFIERS",
    "CORRECTIONS",
    "REPRESENTATIONS",
    "Attributed",
    "Cleaned",
    "Design",
    "Labels",
    "Recommended",
    "Screen",
    "attribute",
    "audit",
    "clean",
    "evaluate",
    "recommend",
    "save_cleaned",
    "save_corrected",
    "save_recommended",
    "save_scores",
    "screen",
]
