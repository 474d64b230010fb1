"""The only room where torch lives: derivatives of decoders, models, and the loop that trains them.

Nothing here is imported until it is used; without torch a message says what to install.
"""

from identifiable.nn.applying import outputs
from identifiable.nn.autoencoder import OrthogonalAutoencoder
from identifiable.nn.derivatives import load_program, products
from identifiable.nn.training import Trained, Training, train

__all__ = [
    "OrthogonalAutoencoder",
    "Trained",
    "Training",
    "load_program",
    "outputs",
    "products",
    "train",
]
