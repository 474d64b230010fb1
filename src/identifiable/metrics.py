"""Metrics of disentanglement: two arrays in, a `Metric` out.

``infomec(latents, factors).infom`` is a number; ``.scores`` has all of them, ``.settings`` what defines them and ``.matrix``
a figure for every factor and latent. Latents are (n, d) numbers, factors (n, m) numbers or words of the same rows.
`identifiable.disentangle` gives all of them at once, with intervals and a page.
"""

from identifiable.disentanglement.binned import dcimig, jemmig, mig, mig_sup, modularity
from identifiable.disentanglement.codes import Codes, as_codes
from identifiable.disentanglement.correlated import mcc
from identifiable.disentanglement.ica_step import IcaStep, ica_step
from identifiable.disentanglement.info_scores import PROFILES, infomec
from identifiable.disentanglement.predicted import dci, explicitness, sap
from identifiable.disentanglement.regressed import r2, sis
from identifiable.disentanglement.sampled import betavae_score, factorvae_score, irs
from identifiable.disentanglement.scoring import noise_sweep
from identifiable.disentanglement.unsupervised import udr, unsupervised
from identifiable.results import Metric

__all__ = [
    "PROFILES",
    "Codes",
    "IcaStep",
    "Metric",
    "as_codes",
    "betavae_score",
    "dci",
    "dcimig",
    "explicitness",
    "factorvae_score",
    "ica_step",
    "infomec",
    "irs",
    "jemmig",
    "mcc",
    "mig",
    "mig_sup",
    "modularity",
    "noise_sweep",
    "r2",
    "sap",
    "sis",
    "udr",
    "unsupervised",
]
