"""Models that others have trained, as functions from inputs to the hidden states of their layers."""

from identifiable.nn.encoders.encoder import Encoder, Found
from identifiable.nn.encoders.opening import open_encoder

__all__ = ["Encoder", "Found", "open_encoder"]
