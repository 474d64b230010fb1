"""Are these the same representation, and up to what? The ladder of Definition 1, measured."""

from identifiable.identifiability.comparison import compare, structural

__all__ = ["compare", "structural"]
