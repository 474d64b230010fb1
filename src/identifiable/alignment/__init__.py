"""Carrying one representation into another: families of maps, their choice by recall, what they cost."""

from __future__ import annotations

from identifiable.alignment.aligned import INSIDE, Aligned, Reach, inverse_of, unit

__all__ = ["INSIDE", "Aligned", "Reach", "inverse_of", "unit"]
