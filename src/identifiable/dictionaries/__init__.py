"""Dictionaries: features as directions, the rows of a decoder or of a basis; which features of two or more are the same."""

from __future__ import annotations

from identifiable.dictionaries.matching import Dictionary, match_dictionaries

__all__ = ["Dictionary", "match_dictionaries"]
