"""The only room where torch lives: derivatives of decoders, models, and the loop that trains them.

Nothing here is imported until it is used; without torch a message says what to install.
"""

from identifiable.nn.applying import outputs
from identifiable.nn.autoencoder import OrthogonalAutoencoder
from identifiable.nn.compositional import Penalised, SlotAutoencoder, compositional_contrast
from identifiable.nn.convolutional import PUBLISHED, Architecture
from identifiable.nn.derivatives import load_program, products
from identifiable.nn.discriminative import Classifier, Contrastive, LogBilinear
from identifiable.nn.gpt import GPT, layer_states
from identifiable.nn.representations import encodings, psnr, reconstructions, representation_model
from identifiable.nn.training import Trained, Training, train

__all__ = [
    "GPT",
    "PUBLISHED",
    "Architecture",
    "Classifier",
    "Contrastive",
    "LogBilinear",
    "OrthogonalAutoencoder",
    "Penalised",
    "SlotAutoencoder",
    "Trained",
    "Training",
    "compositional_contrast",
    "encodings",
    "layer_states",
    "load_program",
    "outputs",
    "products",
    "psnr",
    "reconstructions",
    "representation_model",
    "train",
]
