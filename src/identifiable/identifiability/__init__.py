"""Are these the same representation, and up to what? The ladder of Definition 1, measured; and layers of models."""

from identifiable.identifiability.comparison import compare, structural
from identifiable.identifiability.layers import Model, compare_layers

__all__ = ["Model", "compare", "compare_layers", "structural"]
