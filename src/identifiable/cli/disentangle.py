"""`identifiable disentangle Z FACTORS`."""

from __future__ import annotations

from typing import Any

from identifiable.cli.measuring import Command, Job, listed_ids
from identifiable.cli.options import TABLE_FORMATS
from identifiable.options import DisentangleOptions
from identifiable.results import Disentanglement

FACTORS = (
    "the factors of the same rows, in such a file; they may be words, with their names in the first line of a .csv or .tsv, "
    "or one array each in a .npz"
)


def _call(job: Job) -> Any:
    from identifiable.api.disentangling import disentangle

    return disentangle(*job.paths, **job.keywords())


COMMAND = Command(
    name="disentangle",
    text="Which latent contains information about which factor, by InfoMEC and its peers?",
    example="identifiable disentangle codes.npy factors.csv --resolve --noise-sweep --report disentangled.html",
    options=DisentangleOptions,
    tables={
        "latents": {"metavar": "Z", "help": f"latents: {TABLE_FORMATS}"},
        "factors": {"metavar": "FACTORS", "help": FACTORS},
    },
    call=_call,
    result=lambda job: Disentanglement,
    gate="'infom < 0.6', 'infom_low < 0.6' (of its interval), 'infom_p > 0.05', 'dci.completeness < 0.5' or 'after.infom < 0.6' "
    "(after ICA)",
    inputs=lambda job: listed_ids(job.options),
)
