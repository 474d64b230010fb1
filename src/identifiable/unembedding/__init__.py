"""Output layers (heads): how diverse they are, and the map between two models' features that their heads imply."""

from identifiable.unembedding.comparing import compare_heads
from identifiable.unembedding.head import Head

__all__ = ["Head", "compare_heads"]
