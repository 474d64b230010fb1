"""The only room where torch lives: derivatives of decoders, and models.

Nothing here is imported until it is used; without torch a message says what to install.
"""

from identifiable.nn.derivatives import load_program as load_program
from identifiable.nn.derivatives import products as products
