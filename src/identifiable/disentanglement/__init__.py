"""Latents against factors: InfoMEC and its peers, with intervals, nulls, under noise and after ICA.

The metrics themselves are public as `identifiable.metrics`.
"""

from identifiable.disentanglement.codes import Codes, as_codes
from identifiable.disentanglement.info_scores import PROFILES
from identifiable.disentanglement.scoring import METRICS, MODES, disentangle

__all__ = ["METRICS", "MODES", "PROFILES", "Codes", "as_codes", "disentangle"]
