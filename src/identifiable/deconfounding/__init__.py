"""What is plate, what is biology, and does it hold on plates never seen?"""

from __future__ import annotations

from identifiable.deconfounding.corrections.registry import CORRECTIONS
from identifiable.deconfounding.design import Design, Labels
from identifiable.deconfounding.evaluation.classifiers import CLASSIFIERS
from identifiable.deconfounding.evaluation.representing import REPRESENTATIONS

__all__ = ["CLASSIFIERS", "CORRECTIONS", "REPRESENTATIONS", "Design", "Labels"]
