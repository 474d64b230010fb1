"""Mechanistic independence: factors read off a decoder's Jacobians, and scores of blocks that are given."""

from identifiable.mechanistic.exact import ExactSplit, exact_factors
from identifiable.mechanistic.factors import Found, find_factors
from identifiable.mechanistic.scores import (
    BlockScores,
    SecondOrder,
    SparsityGap,
    block_scores,
    mutually_non_included,
    second_order,
    sparsity_gap,
    structural_sparsity,
)

__all__ = [
    "BlockScores",
    "ExactSplit",
    "Found",
    "SecondOrder",
    "SparsityGap",
    "block_scores",
    "exact_factors",
    "find_factors",
    "mutually_non_included",
    "second_order",
    "sparsity_gap",
    "structural_sparsity",
]
