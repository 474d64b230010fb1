"""The only room where torch lives: derivatives of decoders, models, and the loop that trains them.

Nothing here is imported until it is used; without torch a message says what to install.
"""

from identifiable.nn.applying import outputs as outputs
from identifiable.nn.autoencoder import OrthogonalAutoencoder as OrthogonalAutoencoder
from identifiable.nn.derivatives import load_program as load_program
from identifiable.nn.derivatives import products as products
from identifiable.nn.training import Trained as Trained
from identifiable.nn.training import Training as Training
from identifiable.nn.training import train as train
